"""Held-out torque error on measured robots, heft and its peers through one preparation.

    HEFT_DATA=… python -m benchmarks.real_data [--no-peers] [panda lwr4 ur10e tx40 rokae]

One default setting for all robots. What is scored is what `heft identify` leaves behind: the
rigid part is recomputed from `robot.urdf` by pinocchio, friction and rotor inertia from
`estimate.json` by the formula of its documentation; heft's own kernels have no part in it.
Peers get the same smooth motion and the torque through the same filter, from the interpreter
named by HEFT_PEERS_PYTHON (this one, if not set).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pinocchio as pin

from benchmarks.arms import ROBOTS, Case, data_folder
from benchmarks.results_file import Row, at_most, store, table
from heft import checks, export, report, results
from heft.identification import Identification, identify
from heft.inertia import Array
from heft.plants import Problem
from heft.recording import Recording


@dataclass(frozen=True)
class Piece:
    """A log's rows: smooth motion, torque as logged, and which of them are scored."""

    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    chosen: np.ndarray
    step: float


def pieces(problem: Problem, logs: tuple[Recording, ...]) -> Iterator[Piece]:
    """Yield the rows of logs, smoothed at the corner that the fit chose."""
    for recording in logs:
        whole = problem.of([recording.selecting_all()])
        parts = list(whole.samples())
        time_ = np.concatenate([s.time for s in parts])
        index = np.concatenate([s.index for s in parts])
        smooth = {
            name: np.concatenate([getattr(s.motion, name) for s in parts], axis=1).T
            for name in ("velocity", "acceleration")
        }
        angles = np.concatenate(
            [np.arctan2(s.motion.sin, s.motion.cos) for s in parts], axis=1
        ).T  # all joints of these robots turn
        selection = recording.selection
        chosen = np.ones(len(time_), dtype=bool) if selection is None else selection(index)
        tau = np.concatenate([s.effort for s in parts], axis=1).T
        yield Piece(
            time_,
            angles,
            smooth["velocity"],
            smooth["acceleration"],
            tau,
            chosen,
            whole.timelines[0].step,
        )


def rigid(urdf: bytes, gravity: Array, piece: Piece) -> Array:
    """Return pinocchio's inverse dynamics of a model file at a piece's rows."""
    model = pin.buildModelFromXML(urdf.decode())
    model.gravity.linear = gravity
    data = model.createData()
    rows = zip(piece.q, piece.v, piece.a, strict=True)
    return np.array([pin.rnea(model, data, *row) for row in rows])


def drives(estimate: dict, joints: tuple[str, ...], piece: Piece) -> Array:
    """Return friction and rotor inertia as `estimate.json` documents them."""
    total = np.zeros_like(piece.tau)
    entries = [(entry, {name: 1.0}) for name, entry in estimate["joints"].items()]
    entries += [(entry, entry["speed"]) for entry in estimate["motors"].values()]
    for entry, ratio in entries:
        r = np.array([ratio.get(j, 0.0) for j in joints])
        v, a = piece.v @ r, piece.a @ r
        simple = entry["simple"]
        effort = simple.get("viscous", 0.0) * v + simple.get("coulomb", 0.0) * np.sign(v)
        effort += simple.get("offset", 0.0) + (entry["armature"] or 0.0) * a
        total += effort[:, None] * r
    return total


@dataclass(frozen=True)
class Error:
    """Relative torque errors over all rows scored."""

    total: float
    mean: float
    raw: float


def error(scored: list[Piece], predicted: list[Array], corner: float) -> Error:
    """Return the errors, filtered at a corner and raw."""
    left, whole, left_raw, whole_raw = [], [], [], []
    for piece, estimate in zip(scored, predicted, strict=True):
        tau = checks.filtered(piece.time, piece.tau, piece.step, corner)
        smooth = checks.filtered(piece.time, estimate, piece.step, corner)
        left.append((tau - smooth)[piece.chosen])
        whole.append(tau[piece.chosen])
        left_raw.append((piece.tau - estimate)[piece.chosen])
        whole_raw.append(piece.tau[piece.chosen])
    a, b, c, d = (np.concatenate(x) for x in (left, whole, left_raw, whole_raw))
    own = np.linalg.norm(a, axis=0) / np.linalg.norm(b, axis=0)
    return Error(
        float(np.linalg.norm(a) / np.linalg.norm(b)),
        float(own.mean()),
        float(np.linalg.norm(c) / np.linalg.norm(d)),
    )


def peer_input(case: Case, problem: Problem, scored: list[Piece], folder: Path) -> None:
    """Write what the peers read: smooth motion, filtered torque, the model file."""
    fit = list(pieces(problem, case.fit))
    columns = {k: np.concatenate([getattr(p, k)[p.chosen] for p in fit]) for k in ("q", "v", "a")}
    tau = [checks.filtered(p.time, p.tau, p.step, problem.corner)[p.chosen] for p in fit]
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


def peers(case: Case, problem: Problem, scored: list[Piece]) -> Iterator[tuple[str, Array | str]]:
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


def plain(found: Identification, scored: list[Piece]) -> list[Array]:
    """Return what the unconstrained base parameters predict, by explicit rows."""
    from heft import plants

    kept = list(found.problem.base.kept)
    values = found.estimate.parameters.values
    predicted = []
    for piece in scored:
        parts = [
            plants.standard_rows(found.problem.robot, piece.q[k], piece.v[k], piece.a[k])[
                :, :, kept
            ]
            @ values
            for k in np.array_split(np.arange(len(piece.time)), len(piece.time) // 2000 + 1)
        ]
        predicted.append(np.concatenate(parts))
    return predicted


def run(case: Case, with_peers: bool) -> Iterator[Row]:
    """Yield the rows of one robot and split."""
    begin = time.perf_counter()
    found = identify(case.robot, case.fit)
    elapsed = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "identified"
        results.write(found, out, report.html)
        urdf = (out / "robot.urdf").read_bytes()
        estimate = json.loads((out / "estimate.json").read_text())
    scored = list(pieces(found.problem, case.score))
    predicted = [
        rigid(urdf, case.robot.gravity, p) + drives(estimate, case.robot.joints, p) for p in scored
    ]
    own = error(scored, predicted, case.corner)
    what = f"{case.name}, filtered {case.corner:g} Hz"
    yield at_most(f"{what}: heft consistent, total", own.total, "", case.bound)
    yield Row(f"{what}: heft consistent, mean of joints", own.mean, "")
    yield Row(f"{case.name}, raw: heft consistent, total", own.raw, "")
    yield Row(f"{case.name}: corner chosen", found.problem.corner, "Hz")
    yield Row(f"{case.name}: heft, fit and scores of the fit", elapsed, "s")
    simple = error(scored, plain(found, scored), case.corner)
    yield Row(f"{what}: plain least squares (inconsistent), total", simple.total, "")
    yield Row(f"{what}: plain least squares (inconsistent), mean of joints", simple.mean, "")
    guess = [rigid(case.urdf, case.robot.gravity, p) for p in scored]
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


def main() -> None:
    """Print and store the table."""
    names = [a for a in sys.argv[1:] if not a.startswith("--")] or list(ROBOTS)
    folder = data_folder()
    rows: list[Row] = []
    for name in names:
        for case in ROBOTS[name](folder):
            for row in run(case, "--no-peers" not in sys.argv):
                rows.append(replace(row))
                print(table([row]).splitlines()[1], flush=True)
    print("\n" + table(rows))
    if set(names) == set(ROBOTS):
        print(store("real_data", rows))


if __name__ == "__main__":
    main()
