"""Held-out torque error of what `heft identify` leaves behind, without any of heft's kernels.

The rigid part is recomputed from `robot.urdf` by pinocchio, rotor inertia comes from
`estimate.json`, full friction from *running* `friction.py` over the log, sample by sample from
its first row (it remembers), simple friction from the formula of its documentation. Only the
smooth motion is heft's, and shared with its peers. Motion at t − delay goes with torque at t.
"""

from __future__ import annotations

import json
import runpy
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pinocchio as pin

from heft.applications.identification import results
from heft.applications.identification.identification import Identification
from heft.arrays import Array
from heft.fit.scores import filtered
from heft.plants.problem import Problem
from heft.recordings.recording import Recording

Friction = Literal["full", "simple", "none"]
STANDSTILL = 0.018  # [rad/s], as `docs/predict.md` says; all joints that are scored turn


@dataclass(frozen=True)
class Piece:
    """A log's rows.

    Attributes:
        time: Shape (N,) [s].
        q, v, a: Smooth motion, a delay before the torque, shape (N, joints); q does not jump.
        tau: As logged [N·m], shape (N, joints).
        chosen: Which rows are scored; the others only pass the filter.
        step: Median time step [s].
        inside: Which rows are not cut off at the ends.
    """

    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    chosen: np.ndarray
    step: float
    inside: np.ndarray

    def cut(self) -> Piece:
        """Return the piece without its ends."""
        fields = ("time", "q", "v", "a", "tau", "chosen", "inside")
        return replace(self, **{k: getattr(self, k)[self.inside] for k in fields})


def pieces(problem: Problem, logs: Sequence[Recording]) -> Iterator[Piece]:
    """Yield logs from their first row to their last, smoothed as the problem says.

    Raises:
        SystemExit: If a log has gaps, across which a filter cannot go.
    """
    trim = problem.resolved.trim
    for recording in logs:
        whole = problem.with_recordings([recording.selecting_all()])
        whole = whole.with_settings(smoothing=replace(whole.resolved, trim=0.0))
        if whole.timelines[0].segments != 1:
            raise SystemExit(f"{recording.name} has gaps")
        parts = list(whole.samples())
        time = np.concatenate([s.time for s in parts])
        index = np.concatenate([s.index for s in parts])
        selection = recording.selection
        chosen = np.ones(len(time), dtype=bool) if selection is None else selection(index)
        yield Piece(
            time,
            np.concatenate([s.motion.position for s in parts], axis=1).T,
            np.concatenate([s.motion.velocity for s in parts], axis=1).T,
            np.concatenate([s.motion.bodies.acceleration for s in parts], axis=1).T,
            np.concatenate([s.measured for s in parts]),
            chosen,
            whole.timelines[0].step,
            (time >= time[0] + trim) & (time <= time[-1] - trim),
        )


def rigid(urdf: bytes, gravity: Array, piece: Piece) -> Array:
    """Return pinocchio's inverse dynamics of a model file at a piece's rows."""
    model = pin.buildModelFromXML(urdf.decode())
    model.gravity.linear = gravity
    data = model.createData()
    rows = zip(configurations(model, piece.q), piece.v, piece.a, strict=True)
    return np.array([pin.rnea(model, data, *row) for row in rows])


def configurations(model: pin.Model, q: Array) -> Array:
    """Return pinocchio's configurations, in which a joint without limits is a cosine and a sine.

    Args:
        model: Of hinges and slides.
        q: Positions, shape (N, joints) [rad or m].
    """
    parts = [
        x[:, None] if joint.nq == 1 else np.stack([np.cos(x), np.sin(x)], axis=1)
        for joint, x in zip(list(model.joints)[1:], q.T, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def unchecked(found: Identification) -> Identification:
    """Return results of which all is written, whatever is wrong: poor ones are scored, too."""
    limits = replace(found.settings.limits, predicted_nonsense=np.inf, nonsense_deviation=np.inf)
    checks = tuple(c for c in found.checks if not c.is_fault)
    return replace(found, checks=checks, settings=replace(found.settings, limits=limits))


@dataclass(frozen=True)
class Left:
    """What `heft identify` left behind, as far as torque goes.

    Attributes:
        urdf: `robot.urdf`.
        estimate: `estimate.json`.
        code: What `friction.py` defines.
        gravity: Vector in the base's frame [m/s²].
        joints: In model order.
    """

    urdf: bytes
    estimate: dict[str, Any]
    code: dict[str, Any]
    gravity: Array
    joints: tuple[str, ...]

    @staticmethod
    def by(found: Identification) -> Left:
        """Write the results and read them again."""
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "identified"
            results.write(unchecked(found), out)
            return Left.read(
                out, found.problem.plant.robot.gravity, found.problem.plant.robot.joints
            )

    @staticmethod
    def read(out: Path, gravity: Array, joints: tuple[str, ...]) -> Left:
        """Read a folder of results."""
        code = runpy.run_path(str(out / "friction.py"))
        if tuple(code["JOINTS"]) != tuple(joints):
            raise SystemExit(f"{out}/friction.py has the joints in another order")
        estimate = json.loads((out / "estimate.json").read_text(encoding="utf-8"))
        return Left((out / "robot.urdf").read_bytes(), estimate, code, np.array(gravity), joints)

    @property
    def delay(self) -> float:
        """By how much torque comes behind motion [s]."""
        return float(self.estimate["settings"]["smoothing"]["delay"] or 0.0)

    def drives(self) -> Iterator[tuple[dict[str, Any], Array]]:
        """Yield each drive's entry with the ratios by which it moves the joints."""
        for name, entry in self.estimate["joints"].items():
            yield entry, np.array([float(j == name) for j in self.joints])
        for entry in self.estimate["motors"].values():
            yield entry, np.array([entry["speed"].get(j, 0.0) for j in self.joints])

    def torque(self, piece: Piece, friction: Friction) -> Array:
        """Return the torque at all rows of a log."""
        bodies = rigid(self.urdf, self.gravity, piece)
        total = bodies.copy()
        for entry, ratio in self.drives():
            v, a = piece.v @ ratio, piece.a @ ratio
            effort = (entry["armature"] or 0.0) * a
            if friction == "simple":
                simple = entry["simple"]
                dry = np.tanh(v / STANDSTILL)
                effort += simple.get("viscous", 0.0) * v + simple.get("coulomb", 0.0) * dry
                effort += simple.get("offset", 0.0)
            total += effort[:, None] * ratio
        if friction == "full":
            state = self.code["Friction"]()
            rows = zip(piece.q.tolist(), piece.v.tolist(), bodies.tolist(), strict=True)
            total += np.array([state.torque(*row) for row in rows])
        return total

    def predicted(
        self, problem: Problem, whole: Sequence[Piece], friction: Friction
    ) -> list[Array]:
        """Return the torque at the rows of logs that are scored.

        Raises:
            SystemExit: If the motion is not as much before the torque as the results say.
        """
        if problem.delay != self.delay:
            raise SystemExit("estimate.json states another delay than the motion has")
        return [self.torque(p, friction)[p.inside] for p in whole]


@dataclass(frozen=True)
class Error:
    """Relative torque errors over all rows scored.

    Attributes:
        total: Over all joints, filtered.
        mean: Of the joints' own, filtered.
        raw: Over all joints, as logged.
        joints: Each joint's own, filtered.
    """

    total: float
    mean: float
    raw: float
    joints: Array


def error(scored: Sequence[Piece], predicted: Sequence[Array], corner: float) -> Error:
    """Return the errors of pieces without their ends, filtered at a corner and raw."""
    left, whole, left_raw, whole_raw = [], [], [], []
    for piece, estimate in zip(scored, predicted, strict=True):
        tau = filtered(piece.time, piece.tau, piece.step, corner)
        smooth = filtered(piece.time, estimate, piece.step, corner)
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
        own,
    )
