"""What the limbs of a humanoid cost: `python -m benchmarks.limbs [--seconds 30] [--store]`.

Whole commands by their processor time, whatever else the machine does: reading, cutoff, delay, fit,
intervals, strict bounds, report. Logs are of sines from rest; torques are pinocchio's of the right
model with Stribeck friction and noise. Beside them single estimates of ready information, all
columns together and limb by limb, in one process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pyarrow
import pyarrow.parquet

from benchmarks.core import robots
from benchmarks.humanoid import ARM, LEG, TORSO, Body, urdf
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.certainty import strict_bounds
from heft.estimators import LeastSquares, PhysicallyConsistent
from heft.information import Information, Triangle, connectivity
from heft.models import JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant, random_drive_state, random_states, standard_rows

SECONDS, RATE = 30.0, 500.0
HUMANOID = "g1_description/urdf/g1_29dof_rev_1_0.urdf"
FLOATING = "talos_data/robots/talos_reduced.urdf"
UR10 = "ur_description/urdf/ur10_robot.urdf"
SMALL = "double_pendulum_description/urdf/double_pendulum_simple.urdf"
CASES = (  # a file, or the humanoid with hands; of identify, its peak [GB], of check, as asked
    ("arm", UR10, 2.2, 0.4, None),
    ("humanoid", HUMANOID, 8.0, None, 6.0),
    ("humanoid with hands", None, 25.0, 1.2, 20.0),
)
STATES = 2000  # of single estimates
FINGERS = (2, 3, 3, 3, 3)  # joints of each finger of a hand
SHAKY = 0.01  # standard deviation of torques, as a share of their rms


def with_hands(seed: int = 100) -> str:
    """Return a humanoid of 57 joints: legs, waist and arms of 29, and hands of 14 each."""
    rng = np.random.default_rng([seed, 1])
    links, joints = {"pelvis": Body.drawn(8.0, (0.08, 0.12, 0.08), 0.0, rng)}, []
    for side, mirror in (("left_", 1.0), ("right_", -1.0)):
        for name, parent, child, place, axis, mass, half, drop in (*LEG, *ARM):
            above = parent if parent in ("pelvis", "trunk") else side + parent
            links[side + child] = Body.drawn(mass, half, drop, rng)
            at = (place[0], mirror * place[1], place[2])
            joints.append((side + name, above, side + child, at, axis))
        for finger, count in enumerate(FINGERS):
            above, at = f"{side}hand", (0.0, 0.02 * finger - 0.04, -0.15)
            for k in range(count):
                child = f"{side}finger{finger}_{k}"
                links[child] = Body.drawn(0.05, (0.008, 0.008, 0.02), -0.015, rng)
                axis = "x" if k == 0 else "y"
                joints.append((f"{child}_joint", above, child, at, axis))
                above, at = child, (0.0, 0.0, -0.03)
    for name, parent, child, place, axis, mass, half, drop in TORSO:
        if child != "head":
            links[child] = Body.drawn(mass, half, drop, rng)
            joints.append((name, parent, child, place, axis))
    return urdf(links, joints)


def write_log(path: Path, model: Path, seconds: float, seed: int = 100) -> int:
    """Write a log of sines, and return the number of joints."""
    rng = np.random.default_rng([seed, 2])
    arm = pin.buildModelFromUrdf(str(model))
    data, n = arm.createData(), arm.nv
    names = list(arm.names)[1:]
    if arm.nq != n:
        raise SystemExit("a joint without limits has two coordinates in pinocchio")
    t = np.arange(0.0, seconds, 1.0 / RATE)
    rates, phases = rng.uniform(0.1, 0.7, (3, n)), rng.uniform(0.0, 2.0 * np.pi, (3, n))
    sizes = 0.25 * rng.uniform(0.5, 1.0, (3, n))
    angle = 2.0 * np.pi * rates * t[:, None, None] + phases
    middle = 0.5 * (np.maximum(arm.lowerPositionLimit, -1) + np.minimum(arm.upperPositionLimit, 1))
    q = middle + np.sum(sizes * np.sin(angle), axis=1)
    v = np.sum(sizes * 2.0 * np.pi * rates * np.cos(angle), axis=1)
    a = -np.sum(sizes * (2.0 * np.pi * rates) ** 2 * np.sin(angle), axis=1)
    rigid = np.array([pin.rnea(arm, data, *state) for state in zip(q, v, a, strict=True)])
    loud = np.sqrt(np.mean(rigid**2, axis=0)) + 0.01
    rubbing = np.tanh(v / 0.01) * (0.1 + 0.05 * np.exp(-((v / 0.05) ** 2))) + 0.05 * v
    tau = rigid + loud * rubbing + 0.02 * loud * a
    tau += SHAKY * loud * rng.normal(size=tau.shape)
    q = q + 1e-5 * rng.normal(size=q.shape)
    columns = {"t": t} | {f"q.{j}": q[:, k] for k, j in enumerate(names)}
    columns |= {f"tau.{j}": tau[:, k] for k, j in enumerate(names)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return n


# By a small process: the peak of a child is never below that of who starts it.
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6)
sys.exit(done.returncode)
"""


def measured(*call: str) -> tuple[float, float]:
    """Return the processor time of a command of heft [s], and its peak memory [GB].

    A log that `heft check` finds fault with ends it with 1.
    """
    command = [sys.executable, "-c", MEASURED, sys.executable, "-m", "heft", *call]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1 if call[0] == "check" else 0):
        raise SystemExit(done.stderr)
    used, peak = map(float, done.stdout.split())
    return used, peak


def commands(folder: Path, seconds: float) -> Iterator[Row]:
    """Yield the processor time of whole commands."""
    hands = folder / "hands.urdf"
    hands.write_text(with_hands())
    times = {}
    for name, file, *bounds in CASES:
        model, log = robots() / file if file else hands, folder / f"{name}.parquet"
        joints = write_log(log, model, seconds)
        label = f"{name}, {joints} joints, {seconds:g} s at {RATE:g} Hz"
        most, peak, check = bounds if seconds == SECONDS else (None, None, None)
        out = ("--out", str(folder / name), "--threads", "1")
        times[name], memory = measured("identify", str(model), str(log), *out)
        yield at_most(f"heft identify, {label}", times[name], "s of one core", most)
        yield at_most(f"peak memory, {label}", memory, "GB", peak)
        used, _ = measured("check", str(log), "--robot", str(model))
        yield at_most(f"heft check, {label}", used, "s of one core", check)
    ratio = times["humanoid"] / times["arm"]
    yield Row("humanoid over arm, heft identify", ratio, "times its time")


def informed(model: Path, base: str, seed: int = 1) -> tuple[Problem[RobotPlant], Triangle]:
    """Return a robot with friction's dictionary, and what random states say of it."""
    bare = Robot.from_urdf(model, Options(base=base))  # type: ignore[arg-type]
    joints = {j: JointOptions(friction="full") for j in bare.joints}
    robot = Robot.from_urdf(model, Options(base=base, joint=joints))  # type: ignore[arg-type]
    problem = Problem(RobotPlant(robot), ())
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, STATES, rng)
    state = random_drive_state(robot, q, v, a, rng)
    rows = standard_rows(robot, q, v, a, state)[:, :, list(problem.base.kept)]
    effort = rows @ (problem.space.matrix @ problem.space.nominal)
    effort += 0.05 * effort.std(axis=0) * rng.normal(size=effort.shape)
    information = Information.from_rows(problem.labels, robot.channels, rows, effort)
    estimate = LeastSquares(coloured=False).solve(information)
    return problem, information.combined(estimate.weights())


def timed(work: Callable[[], object]) -> float:
    """Return the processor time of some work [s], the least of two."""
    found = []
    for _ in range(2):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def estimates() -> Iterator[Row]:
    """Yield what single estimates cost, together and limb by limb."""
    problem, triangle = informed(robots() / FLOATING, "free")
    elapsed = timed(lambda: PhysicallyConsistent().fit(triangle, problem.space))
    yield at_most(
        "consistent estimate, humanoid of 32 joints, free base, friction's dictionary",
        elapsed, "s of one core", 1.5,
    )  # fmt: skip
    problem, triangle = informed(robots() / HUMANOID, "fixed")
    names, drives = problem.space.labels.names, problem.plant.robot.drives
    dictionary = drives.names_where(lambda term: term.dictionary)
    signs = tuple(k for k in problem.space.nonnegative if names[k] not in dictionary)
    bounded = replace(problem.space, nonnegative=signs)  # as `heft identify` has it
    fewest = connectivity.FEWEST
    for name, work in (
        ("consistent estimate", lambda: PhysicallyConsistent().fit(triangle, problem.space)),
        ("strict bounds", lambda: strict_bounds(triangle, bounded)),
    ):
        by_limbs = timed(work)
        connectivity.FEWEST = 10**9  # which takes every matrix as a whole
        together = timed(work)
        connectivity.FEWEST = fewest
        yield Row(f"{name}, humanoid of 29 joints, limb by limb", by_limbs, "s of one core")
        yield at_least(
            f"{name}, limb by limb",
            together / by_limbs,
            "times as fast",
            1.0,
            "all columns at once",
        )


@benchmark(
    {
        **{"seconds": 1.5, "HUMANOID": SMALL, "FLOATING": SMALL, "STATES": 100},
        "CASES": (("arm", SMALL, None, None, None), ("humanoid", SMALL, None, None, None)),
    },
    unstored=("seconds",),
)
def main(*, seconds: float = SECONDS) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seconds: Of the logs; of short ones without bounds.
    """
    yield from estimates()
    with tempfile.TemporaryDirectory() as folder:
        yield from commands(Path(folder), seconds)


if __name__ == "__main__":
    main()
