"""Speed and memory of the core, as ratios to what a user would otherwise run.

    python -m benchmarks.core [--samples 10000000] [--store]

Everything that is compared runs in one process run on the same data, medians of several. The
interpreter named by HEFT_PEERS_PYTHON (this one, if not set) is asked for FIGAROH.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of numpy's lstsq and LAPACK: one thread each
import numpy as np
import pinocchio as pin
import scipy.linalg.lapack

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.dynamics import drive_columns, kernels
from heft.estimators.consistent import PhysicallyConsistent
from heft.estimators.least_squares import LeastSquares
from heft.information.square_root import Information, Triangle
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import Problem, RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.base import structural_base

SAMPLES = 65_536
CHUNK = 2_048  # rows that are written out
SHORT = 100_000  # samples of the short log
REPEATS = 5  # of a command, whose median counts
ROWS = None  # of the Panda's log that are taken; all if None
AFRESH = True  # whether kernels are compiled anew, once
ROBOTS = (  # file, whether its base is free, seconds asked for
    ("seven links", "panda_description/urdf/panda.urdf", False, 0.030),
    ("30-joint humanoid, free base", "talos_data/robots/talos_reduced.urdf", True, 1.0),
)
WINDOW = 16_384  # rows that are folded and never leave the cache; heft itself uses 32 768


def robots() -> Path:
    """Return the folder of the `example-robot-data` package."""
    place = Path(pin.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    if not place.is_dir():
        raise SystemExit("install the package example-robot-data")
    return place


def median(work: Callable[[], object], repeats: int = 9) -> float:
    """Return the median time of some work [s], after one run to warm up."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rows_and_reduction() -> Iterator[Row]:
    """Rows of a six-joint arm, and rows to information with 54 columns."""
    path = robots() / "ur_description" / "urdf" / "ur10_robot.urdf"
    bare = Robot.from_urdf(path)
    options = Options(
        joint={j: JointOptions(friction="simple", armature=False) for j in bare.joints}
    )
    robot = Robot.from_urdf(path, options)
    rng = np.random.default_rng(0)
    q, v, a, tau = rng.normal(size=(4, SAMPLES, 6))
    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    stacked = np.zeros((6 * SAMPLES, 60))

    def loop() -> None:
        for k in range(SAMPLES):
            stacked[6 * k : 6 * k + 6] = pin.computeJointTorqueRegressor(
                model, data, q[k], v[k], a[k]
            )

    outs = [np.zeros((6, 60, CHUNK)) for _ in range(2)]

    def rows(part: int, parts: int) -> None:
        for first in range(part * CHUNK, SAMPLES, parts * CHUNK):
            cut = slice(first, first + CHUNK)
            motion = kernels.motion_of(robot.tree, robot.gravity, q[cut], v[cut], a[cut])
            kernels.regressor(robot.tree, motion, outs[part])

    pool = ThreadPoolExecutor(2)

    def both() -> None:
        list(pool.map(lambda k: rows(k, 2), range(2)))

    base = structural_base(RobotPlant(robot))
    if len(base.kept) != 54:
        raise SystemExit(f"{len(base.kept)} columns instead of 54")
    chosen = np.array(base.kept)
    acts, _ = robot.drives.actions(robot.drive_columns)
    plan = kernels.plan(robot.tree, chosen, acts, robot.measured)

    def part_of(first: int) -> Information:
        cut = slice(first, first + WINDOW)
        motion = kernels.motion_of(robot.tree, robot.gravity, q[cut], v[cut], a[cut])
        state = drive_columns.DriveState(
            q[cut].T,
            motion.velocity,
            motion.acceleration,
            np.empty((0, WINDOW)),
            motion.velocity,
        )
        made = drive_columns.columns(robot.drives, robot.drive_columns, state)
        factors = kernels.reduce(plan, motion, made, tau[cut].T)
        return Information(
            base.labels,
            robot.channels,
            tuple(Triangle(plan.columns[c], factors[c], WINDOW) for c in range(6)),
        )

    def reduce(threads: int) -> Information:
        total = Information.neutral(base.labels, robot.channels)
        work = map if threads == 1 else pool.map
        for part in work(part_of, range(0, SAMPLES, WINDOW)):
            total = total + part
        return total

    wide = np.zeros((6 * SAMPLES, 54))

    def loop_and_lstsq() -> None:
        loop()
        inertial = [k for k in base.kept if k < 60]
        wide[:, : len(inertial)] = stacked[:, inertial]
        for j in range(6):
            wide[j::6, 36 + j] = v[:, j]
            wide[j::6, 42 + j] = np.sign(v[:, j])
            wide[j::6, 48 + j] = 1.0
        np.linalg.lstsq(wide, tau.reshape(-1), rcond=None)

    python = median(loop, 3) / SAMPLES
    one, two = median(lambda: rows(0, 1)) / SAMPLES, median(both) / SAMPLES
    against = "Python loop over pinocchio.computeJointTorqueRegressor, stacked"
    yield Row("loop over pinocchio's regressor, stacked", 1e6 * python, "µs a sample")
    yield Row("heft rows, one thread", 1e6 * one, "µs a sample")
    yield at_least("rows, one thread", python / one, "times as fast", 12.0, against)
    yield at_least("rows, two threads", python / two, "times as fast", 20.0, against)
    whole = median(loop_and_lstsq, 3) / SAMPLES
    single, double = median(lambda: reduce(1)) / SAMPLES, median(lambda: reduce(2)) / SAMPLES
    yield Row("loop and numpy.linalg.lstsq, 54 columns", 1e6 * whole, "µs a sample")
    yield Row("heft rows to information, one thread", 1e6 * single, "µs a sample")
    yield Row("heft rows to information, two threads", 1e6 * double, "µs a sample")
    yield at_least(
        "rows to information, one thread",
        whole / single,
        "times as fast",
        10.0,
        "that loop and numpy.linalg.lstsq",
    )
    yield from _figaroh(path, q, v, a, tau, single)
    yield from _limit(plan.chosen[:, 2] + 1, single)


def _figaroh(
    path: Path, q: np.ndarray, v: np.ndarray, a: np.ndarray, tau: np.ndarray, own: float
) -> Iterator[Row]:
    interpreter = os.environ.get("HEFT_PEERS_PYTHON", sys.executable)
    script = Path(__file__).parent / "peers" / "figaroh_speed.py"
    name = "rows to information, one thread, against FIGAROH"
    with tempfile.TemporaryDirectory() as folder:
        states = Path(folder) / "states.npz"
        np.savez(states, q=q, v=v, a=a, tau=tau)
        call = [interpreter, str(script), str(states), str(path)]
        answer = subprocess.run(call, capture_output=True, text=True, check=False)
    try:
        build, solve = map(float, answer.stdout.split()[-2:])
    except ValueError:
        print(answer.stderr[-500:], file=sys.stderr)
        yield Row(name, float("nan"), "times as fast", 100.0, None, "FIGAROH is not installed")
        return
    yield Row("FIGAROH regressor", build, "µs a sample")
    yield Row("FIGAROH double_QR", solve, "µs a sample")
    yield at_least(
        name,
        (build + solve) / (1e6 * own),
        "times as fast",
        100.0,
        "FIGAROH RegressorBuilder and double_QR",
    )


def _limit(widths: np.ndarray, own: float) -> Iterator[Row]:
    """How far the reduction is from LAPACK's QR of blocks that stay in cache."""
    blocks = [np.asfortranarray(np.random.default_rng(0).normal(size=(512, n))) for n in widths]
    lapack = median(lambda: [scipy.linalg.lapack.dgeqrf(b) for b in blocks], 20) / 512
    yield Row(
        "rows to information over LAPACK dgeqrf of the same rows alone, in cache",
        own / lapack,
        "times its time",
        None,
        None,
        "one thread each; the rows are in heft's time",
    )


def consistent() -> Iterator[Row]:
    """The consistent estimate from ready information."""
    for name, place, free, bound in ROBOTS:
        for kind in ("simple", "full"):
            options = Options(base="free" if free else "fixed")
            bare = Robot.from_urdf(robots() / place, options)
            joints = {j: JointOptions(friction=kind) for j in bare.joints}  # type: ignore[arg-type]
            robot = Robot.from_urdf(robots() / place, replace(options, joint=joints))
            problem = Problem(RobotPlant(robot), ())
            rng = np.random.default_rng(1)
            q, v, a = random_states(robot, 2000, rng)
            state = random_drive_state(robot, q, v, a, rng)
            rows = standard_rows(robot, q, v, a, state)[:, :, list(problem.base.kept)]
            effort = rows @ (problem.space.matrix @ problem.space.nominal)
            effort += 0.05 * effort.std(axis=0) * rng.normal(size=effort.shape)
            information = Information.from_rows(problem.labels, robot.channels, rows, effort)
            estimate = LeastSquares(coloured=False).solve(information)
            triangle = estimate.information.combined(estimate.weights())
            solver = PhysicallyConsistent()
            elapsed = median(lambda: solver.fit(triangle, problem.space), 5)  # noqa: B023
            label = f"consistent estimate, {name} ({len(robot.joints)} joints)"
            if kind == "simple":
                yield at_most(label, elapsed, "s", bound)
            else:
                yield Row(f"{label}, friction's dictionary", elapsed, "s")


MEMORY = """
import sys
from pathlib import Path
from heft import Problem, Recording, Robot, RobotPlant
robot = Robot.from_urdf(sys.argv[1])
problem = Problem(RobotPlant(robot), (Recording.open(sys.argv[2]),))
information = problem.information()
status = Path("/proc/self/status").read_text()  # of this program, not of what started it
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(information.rows, peak)
"""


def write_log(path: Path, joints: tuple[str, ...], samples: int) -> None:
    """Write a long Parquet log of made-up motion, piece by piece."""
    import pyarrow
    import pyarrow.parquet

    names = ["t", *(f"q.{j}" for j in joints), *(f"tau.{j}" for j in joints)]
    schema = pyarrow.schema([(n, pyarrow.float64()) for n in names])
    rng = np.random.default_rng(0)
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none") as writer:
        for first in range(0, samples, 50_000):
            t = 1e-3 * np.arange(first, min(first + 50_000, samples))
            q = [np.sin(2 * np.pi * (0.1 + 0.03 * k) * t + k) for k in range(len(joints))]
            tau = [rng.normal(size=len(t)) for _ in joints]
            arrays = [pyarrow.array(c) for c in (t, *q, *tau)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def memory(largest: int) -> Iterator[Row]:
    """Peak memory of a whole process, from a short log to a long one."""
    path = robots() / "ur_description" / "urdf" / "ur10_robot.urdf"
    joints = Robot.from_urdf(path).joints
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for samples in (SHORT, largest):
            log = Path(folder) / f"{samples}.parquet"
            write_log(log, joints, samples)
            begin = time.perf_counter()
            call = [sys.executable, "-c", MEMORY, str(path), str(log)]
            answer = subprocess.run(call, capture_output=True, text=True, check=True)
            peaks.append(float(answer.stdout.split()[-1]))
            elapsed = time.perf_counter() - begin
            yield Row(f"peak memory, {samples:.0e} samples from Parquet", peaks[-1], "MiB")
            yield Row(f"whole process, {samples:.0e} samples", elapsed, "s")
            log.unlink()
    yield at_most("growth of memory from short to long log", peaks[1] - peaks[0], "MiB", 200.0)


def commands() -> Iterator[Row]:
    """Whole processes of the command line."""
    heft = [sys.executable, "-m", "heft"]

    def run(arguments: list[str], **environment: str) -> float:
        begin = time.perf_counter()
        subprocess.run(
            [*heft, *arguments], capture_output=True, check=True, env=os.environ | environment
        )
        return time.perf_counter() - begin

    run(["--help"])
    yield at_most(
        "heft --help", statistics.median(run(["--help"]) for _ in range(REPEATS)), "s", 0.4
    )
    folder = os.environ.get("HEFT_DATA")
    if not folder:
        print("without HEFT_DATA the Panda log is not timed", file=sys.stderr)
        return
    place = Path(folder) / "panda_gaz2019"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "found"
        log = Path(scratch) / "map.toml"
        recorded = place / "exciting_traj.npz"
        if ROWS is not None:
            arrays = {n: x[len(x) // 2 :][:ROWS] for n, x in np.load(recorded).items()}
            np.savez(recorded := Path(scratch) / "cut.npz", **arrays)
        joints = Robot.from_urdf(place / "panda_arm.urdf").joints
        names = ", ".join(f'"{j}"' for j in joints)
        log.write_text(
            f'[q]\narray = "q"\njoints = [{names}]\n[tau]\narray = "tau"\njoints = [{names}]\n'
        )
        arguments = [
            "identify",
            str(place / "panda_arm.urdf"),
            str(recorded),
            "--map",
            str(log),
            "--out",
            str(out),
        ]
        cold = run(arguments, XDG_CACHE_HOME=str(Path(scratch) / "cache")) if AFRESH else None
        warm = statistics.median(run(arguments) for _ in range(REPEATS))
    yield at_most("heft identify on the Panda log, kernels in the cache", warm, "s", 6.0)
    if cold is not None:
        yield at_most("heft identify on the Panda log, first compilation and all", cold, "s", 30.0)


@benchmark(
    {
        **{"samples": 5_000, "SAMPLES": 512, "CHUNK": 128, "WINDOW": 256, "SHORT": 3_000},
        **{"ROBOTS": ROBOTS[:1], "REPEATS": 1, "ROWS": 1_500, "AFRESH": False},
    },
    unstored=("samples",),
)
def main(*, samples: int = 10_000_000) -> Iterator[Row]:
    """Yield the rows.

    Args:
        samples: Of the long log.
    """
    yield from rows_and_reduction()
    yield from consistent()
    yield from commands()
    yield from memory(samples)


if __name__ == "__main__":
    main()
