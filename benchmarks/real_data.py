"""Held-out torque error on measured robots, heft and its peers through one preparation.

    HEFT_DATA=… python -m benchmarks.real_data [--no-peers] [--sweeps] [--robots NAME …] [--store]

One default setting for all robots. What is scored is what `heft identify` leaves behind, without
heft's own kernels (`benchmarks.scoring`). Peers get the same smooth motion and the torque through
the same filter, from the interpreter named by HEFT_PEERS_PYTHON (this one, if not set).
Only a run over all robots is stored, and only one with the peers replaces their table.
`--sweeps` asks whether another corner, prior or kind of rows would have been better
(`benchmarks.sweeps`), a table of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import panda_published
from benchmarks.arms import ROBOTS, Case, data_folder, shortened, with_friction
from benchmarks.few_joints import wrist
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from benchmarks.scoring import Left, Piece, error, pieces, rigid
from benchmarks.sweeps import FACTORS, HAMPEL, OTHERS, STRENGTHS
from benchmarks.sweeps import run as swept
from heft.applications.identification.identification import Identification, identify
from heft.arrays import Array
from heft.estimators.least_squares import LeastSquares
from heft.fit.scores import filtered
from heft.models import export
from heft.plants import RobotPlant, standard_rows
from heft.plants.problem import Problem

ROWS = None  # of the logs that are taken; all if None
FRICTION: str | None = None  # its kind; the robots' own if None


def peer_input(case: Case, problem: Problem, scored: Sequence[Piece], folder: Path) -> None:
    """Write what the peers read: smooth motion, filtered torque, the model file."""
    fit = [p.cut() for p in pieces(problem, case.fit)]
    columns = {k: np.concatenate([getattr(p, k)[p.chosen] for p in fit]) for k in ("q", "v", "a")}
    tau = [filtered(p.time, p.tau, p.step, problem.corner)[p.chosen] for p in fit]
    test = {f"{k}_test": np.concatenate([getattr(p, k) for p in scored]) for k in ("q", "v", "a")}
    segment = np.concatenate([np.full(int(p.chosen.sum()), k) for k, p in enumerate(fit)])
    np.savez(
        folder / "in.npz",
        names=np.array(case.robot.joints),
        **columns,
        tau=np.concatenate(tau),
        segment=segment,
        step=fit[0].step,
        gravity=case.robot.gravity,
        **test,
    )
    stand_ins = {k.name: k.nominal for k in case.robot.bodies_links if not k.given}
    (folder / "robot.urdf").write_bytes(export.write_urdf(case.urdf, stand_ins, {}))


def peers(
    case: Case, problem: Problem, scored: Sequence[Piece]
) -> Iterator[tuple[str, Array | str]]:
    """Yield each peer's name with its prediction of the scored rows, or why there is none."""
    interpreter = os.environ.get("HEFT_PEERS_PYTHON", sys.executable)
    place = Path(__file__).parent / "peers"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        peer_input(case, problem, scored, folder)
        for name, script, extra in (
            ("FIGAROH", "figaroh_fit.py", []),
            ("mujoco.sysid", "mujoco_fit.py", []),
        ):
            out = folder / "out.npz"
            out.unlink(missing_ok=True)
            call = [
                interpreter,
                str(place / script),
                str(folder / "in.npz"),
                str(folder / "robot.urdf"),
                str(out),
                *extra,
            ]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            try:
                subprocess.run(call, capture_output=True, timeout=300, check=False, env=environment)
            except subprocess.TimeoutExpired:
                yield name, "did not end within 300 s"
                continue
            if not out.exists():
                yield name, "left no result"
                continue
            with np.load(out) as data:
                yield name, data["tau_test"] if "tau_test" in data else str(data["note"])


def plain(case: Case, problem: Problem, scored: Sequence[Piece]) -> list[Array]:
    """Return what unconstrained base parameters with simple friction predict, by explicit rows.

    The same rows, motion and noise weights as heft's: what its friction and limits are to beat.
    """
    robot = with_friction(case.robot, "simple")
    simple = Problem(RobotPlant(robot), case.fit, problem.resolved, problem.threads)
    kept = list(simple.base.kept)
    values = LeastSquares().solve(simple.information()).parameters.values
    predicted = []
    for piece in scored:
        parts = [
            standard_rows(robot, piece.q[k], piece.v[k], piece.a[k])[:, :, kept] @ values
            for k in np.array_split(np.arange(len(piece.time)), len(piece.time) // 2000 + 1)
        ]
        predicted.append(np.concatenate(parts))
    return predicted


def delay_rows(case: Case, found: Identification) -> Iterator[Row]:
    """Yield what the search for a delay came to."""
    taken = found.delay
    seen = (
        f"best {1e3 * taken.best:.2f} ms, residual variance there {taken.ratio:.3f} of that without"
        f", joints agree by {taken.agreement:.1f} standard errors"
    )
    if case.delay == 0.0:
        name = f"{case.name}: delay taken where there is none, size"
        yield at_most(name, 1e3 * abs(taken.delay), "ms", 0.0, seen)
        return
    yield Row(f"{case.name}: delay taken", 1e3 * taken.delay, "ms", against=seen)
    # Said in the literature, by fits of models like these: whose truth nobody knows.
    yield Row(f"{case.name}: delay in the literature", 1e3 * case.delay, "ms")


def run(case: Case, found: Identification, elapsed: float, with_peers: bool) -> Iterator[Row]:
    """Yield the rows of one robot and split.

    Args:
        case: Which.
        found: What heft found.
        elapsed: How long that took [s].
        with_peers: Whether to run the peers too.
    """
    left = Left.by(found)
    whole = list(pieces(found.problem, case.score))
    scored = [p.cut() for p in whole]
    what = f"{case.name}, filtered {case.corner:g} Hz"
    aim = None if case.aim is None else f"aim {case.aim:g}"
    full = error(scored, left.predicted(found.problem, whole, "full"), case.corner)
    simple = error(scored, left.predicted(found.problem, whole, "simple"), case.corner)
    yield at_most(f"{what}: heft, full friction, total", full.total, "", case.bound, aim)
    yield at_most(f"{what}: heft, full friction, mean of joints", full.mean, "", case.mean)
    yield Row(f"{case.name}, raw: heft, full friction, total", full.raw, "")
    yield Row(f"{what}: heft, simple friction, total", simple.total, "")
    yield Row(f"{what}: heft, simple friction, mean of joints", simple.mean, "")
    yield Row(f"{case.name}, raw: heft, simple friction, total", simple.raw, "")
    yield Row(f"{case.name}: corner chosen", found.problem.corner, "Hz")
    yield from delay_rows(case, found)
    yield Row(f"{case.name}: heft, fit and scores of the fit", elapsed, "s")
    free = error(scored, plain(case, found.problem, scored), case.corner)
    yield Row(f"{what}: plain least squares (inconsistent), total", free.total, "")
    yield Row(f"{what}: plain least squares (inconsistent), mean of joints", free.mean, "")
    guess = [rigid(case.urdf, np.array(case.robot.gravity), p) for p in scored]
    yield Row(f"{what}: model file as it came, total", error(scored, guess, case.corner).total, "")
    if not with_peers:
        return
    sizes = np.cumsum([len(p.time) for p in scored])[:-1]
    for name, answer in peers(case, found.problem, scored):
        if isinstance(answer, str):
            yield Row(f"{what}: {name}, total", float("nan"), "", None, None, answer[:120])
            continue
        other = error(scored, np.split(answer, sizes), case.corner)
        yield Row(f"{what}: {name}, total", other.total, "")
        yield Row(f"{what}: {name}, mean of joints", other.mean, "")


@benchmark(
    {"ROBOTS": {"panda": wrist}, "robots": ("panda",), "ROWS": 4500, "FRICTION": "simple"},
    {
        **{"ROBOTS": {"panda": wrist}, "robots": ("panda",), "sweeps": True, "ROWS": 400},
        "FRICTION": "simple",
        **{"FACTORS": (1.0,), "STRENGTHS": (), "OTHERS": ("rows and torque filtered", HAMPEL)},
    },
    unstored=("robots", "no_peers"),
    variants=("sweeps",),
)
def main(
    *, robots: tuple[str, ...] = tuple(ROBOTS), no_peers: bool = False, sweeps: bool = False
) -> Iterator[Row]:
    """Yield the rows.

    Args:
        robots: Some of them.
        no_peers: Heft alone.
        sweeps: Whether other settings would have been better, in place of all else.
    """
    folder = data_folder()
    for name in robots:
        for case in (shortened(c, ROWS) for c in ROBOTS[name](folder)):
            if FRICTION is not None:
                case = replace(case, robot=with_friction(case.robot, FRICTION))
            begin = time.perf_counter()
            found = identify(case.robot, case.fit)
            elapsed = time.perf_counter() - begin
            if sweeps:
                yield from swept(case, found, FACTORS, STRENGTHS, OTHERS)
            else:
                yield from run(case, found, elapsed, not no_peers)
    if "panda" in robots and not sweeps:
        yield from panda_published.run(folder, ROWS, FRICTION)


if __name__ == "__main__":
    main()
