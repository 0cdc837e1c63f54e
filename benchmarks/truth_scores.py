"""What of one fit is true: quantities with stated deviations, beside what was simulated.

A `Compared` is a list of numbers of one kind: error, stated half width of the 95 % interval, and a
scale that makes them comparable from joint to joint and arm to arm. `record` gathers all of a fit
as JSON.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.scoring import Left, Piece
from heft.applications.identification import results
from heft.applications.identification.identification import Identification
from heft.applications.identification.identified import Identified
from heft.arrays import Array
from heft.fit.scores import filtered
from heft.models import Robot
from heft.recordings import Recording
from heft.simulation import Coulomb, Drive, ExactMotion, SimulatedExperiment, Viscous
from heft.simulation.simulated_drives import Dahl, Load, LuGre, Warming

NORMAL = 1.96
TORQUE_ROWS = 40  # of another motion, evenly spaced
TRIM = 0.5  # of a motion's ends, where filters settle [s]
SLOWEST = 0.03  # speed at which the friction curve is judged [rad/s]
FASTEST = 0.9  # likewise, of the fastest of the log
CURVE_POINTS = 6  # either way
SLOW_MOTIONS = (2, 3, 4)  # slow motions from point to point that expected errors are held against


@dataclass(frozen=True, eq=False)
class Compared:
    """Some numbers of one fit.

    Attributes:
        error: Estimate less truth.
        half: Stated half width of the 95 % interval.
        scale: By which both are divided where numbers are put together.
    """

    error: Array
    half: Array
    scale: Array

    def to_json(self) -> dict[str, list[float]]:
        """Return errors and half widths over the scale."""
        return {
            "error": (self.error / self.scale).ravel().tolist(),
            "half": (self.half / self.scale).ravel().tolist(),
        }


def base_parameters(found: Identification, truth: SimulatedExperiment) -> Compared:
    """Base parameters of links and rotors; scaled to the torque that they make in this log."""
    problem, true = found.problem, Robot.from_urdf_text(truth.arm.urdf)
    bodies, base = true.written_bodies(), problem.base
    names = base.standard.names
    standard = np.zeros(len(names))
    standard[: len(bodies)] = bodies
    rotors = {
        f"{j}.armature": d.armature for j, d in zip(truth.arm.joints, truth.drives, strict=True)
    }
    for k, name in enumerate(names):
        standard[k] = rotors.get(name, standard[k])
    inertial = np.array([k < len(bodies) or names[k] in rotors for k in base.kept])
    parameters = found.estimate.parameters
    assert parameters.covariance is not None
    columns = {n: k for k, n in enumerate(found.information.labels.names)}
    at = [columns[n] for n in base.labels.names]
    made = sum((_energies(t, at) for t in found.information.triangles), np.zeros(len(at)))
    error = parameters.values - (base.matrix @ standard)
    half = NORMAL * np.sqrt(np.diag(parameters.covariance))
    size = float(np.sqrt(np.mean(truth.exact.tau**2)))
    scale = size / np.sqrt(np.maximum(made, 1e-12))
    return Compared(error[inertial], half[inertial], scale[inertial])


def _energies(triangle: Any, at: list[int]) -> Array:
    """Return the mean square of some columns in a channel, 0 of those that are not in it."""
    place = {c: k for k, c in enumerate(triangle.columns)}
    return np.array(
        [
            float(np.sum(triangle.factor[:, place[c]] ** 2)) / triangle.rows if c in place else 0.0
            for c in at
        ]
    )


def rotor_inertia(stored: Mapping[str, Any], truth: SimulatedExperiment) -> Compared:
    """Rotor inertias as `estimate.json` has them; scaled by the true ones."""
    joints = [stored["joints"][j] for j in truth.arm.joints]
    true = np.array([d.armature for d in truth.drives])
    value = np.array([j["armature"] for j in joints])
    half = NORMAL * np.array([j["std"]["armature"] for j in joints])
    return Compared(value - true, half, true)


def friction_curve(stored: Mapping[str, Any], truth: SimulatedExperiment) -> Compared:
    """Friction in steady sliding as `estimate.json` has it; scaled by that at 0.1 rad/s."""
    n = len(truth.arm.joints)
    level = np.abs(truth.steady(np.full((1, n), 0.1)) - truth.steady(np.full((1, n), -0.1)))[0] / 2
    error, half, scale = [], [], []
    for k, joint in enumerate(truth.arm.joints):
        curve = stored["joints"][joint]["curve"]
        speed = np.array(curve["velocity"])
        for sign in (-1.0, 1.0):
            top = FASTEST * float(np.max(sign * truth.exact.v[:, k]))
            inside = np.flatnonzero((sign * speed >= SLOWEST) & (sign * speed <= top))
            picked = np.unique(np.linspace(0, len(inside) - 1, CURVE_POINTS).astype(int))
            for at in inside[picked] if len(inside) else ():
                right = truth.steady(np.full((1, n), speed[at]))[0, k]
                error.append(curve["effort"][at] - right)
                half.append(NORMAL * curve["std"][at])
                scale.append(level[k])
    return Compared(np.array(error), np.array(half), np.array(scale))


def predicted(found: Identification, motion: ExactMotion) -> tuple[Array, Array, Array]:
    """Return time, and torque with its stated deviation as `heft predict` has them, of positions.

    At delay 0: the torques that these are compared with come when they act.
    """
    joints = found.problem.plant.robot.joints
    positions = {j: motion.q[:, k] for k, j in enumerate(joints)}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "identified"
        results.write(found, out)
        stated = Identified.load(out)
        undelayed = replace(stated, smoothing=replace(stated.smoothing, delay=0.0))
        parts = list(
            undelayed.predictions(Recording.from_arrays(motion.time, "other", q=positions))
        )
    time, effort, _, std, _ = (np.concatenate(p) for p in zip(*parts, strict=True))
    return time, effort, std


def in_band(time: Array, torque: Array, band: float | None) -> Array:
    """Return what of torques lies in a band; all of it, where that is more than the samples show.

    Args:
        time: Of the samples, shape (N,) [s].
        torque: At these, shape (N, joints) [N·m].
        band: Upper end of the band [Hz]; None for no end.
    """
    step = float(np.median(np.diff(time)))
    return (
        torque if band is None or 2.0 * band * step >= 1.0 else filtered(time, torque, step, band)
    )


def torque(found: Identification, motion: ExactMotion) -> Compared:
    """Whole torque of another motion, in the band of the score; scaled by the joints' rms torque.

    Above that band are the controller's answers to what encoders and gears do, which are no
    function of the smooth motion that a user has.
    """
    band = next(s.filter_hz for s in found.fit if s.filter_hz is not None)
    time, value, std = predicted(found, motion)
    right = np.stack([np.interp(time, motion.time, tau) for tau in motion.tau.T], axis=1)
    left = in_band(time, value - right, band)
    inside = np.flatnonzero((time >= time[0] + TRIM) & (time <= time[-1] - TRIM))
    rows = inside[np.linspace(0, len(inside) - 1, TORQUE_ROWS).astype(np.intp)]
    scale = np.ones((len(rows), 1)) * np.sqrt(np.mean(motion.tau**2, axis=0))
    return Compared(left[rows], NORMAL * std[rows], scale)


def line_of(drive: Drive, kind: type[Viscous] | type[Coulomb]) -> float | None:
    """Return c of linear viscous or F of Coulomb friction; None where another law holds."""
    if any(isinstance(law, LuGre | Dahl | Load | Warming) for law in drive.laws):
        return None
    for law in drive.laws:
        if kind is Viscous and isinstance(law, Viscous) and np.isinf(law.bend):
            return law.coefficient
        if kind is Coulomb and isinstance(law, Coulomb) and law.ratio == 1.0:
            return law.effort
    return None


def simple_friction(stored: Mapping[str, Any], truth: SimulatedExperiment) -> Compared:
    """Viscous and Coulomb friction where a line is the truth; scaled by the true ones."""
    error, half, scale = [], [], []
    for joint, drive in zip(truth.arm.joints, truth.drives, strict=True):
        entry = stored["joints"][joint]
        for kind, name in ((Viscous, "viscous"), (Coulomb, "coulomb")):
            right = line_of(drive, kind)
            if right is not None:
                error.append(entry["simple"][name] - right)
                half.append(NORMAL * entry["std"][name])
                scale.append(right)
    return Compared(np.array(error), np.array(half), np.array(scale))


def held_out(left: Left, motion: ExactMotion, band: float | None = None) -> dict[str, float]:
    """Return ‖τ̂ − τ‖ / ‖τ‖ of the files that were written, on exact motion, by friction.

    Args:
        left: What the fit left as files.
        motion: With its torque, without noise.
        band: Upper end of the band in which both are compared [Hz]; all of it if not given.
    """
    everything = np.ones(len(motion.time), dtype=bool)
    step = float(motion.time[1] - motion.time[0])
    arrays = (motion.time, motion.q, motion.v, motion.a, motion.tau)
    piece = Piece(*arrays, everything, step, everything)
    size = float(np.linalg.norm(motion.tau))

    def error(kind: Literal["full", "simple"]) -> float:
        off = left.torque(piece, kind) - motion.tau
        return float(np.linalg.norm(in_band(motion.time, off, band))) / size

    return {"full": error("full"), "simple": error("simple")}


def masses(stored: Mapping[str, Any], truth: SimulatedExperiment) -> dict[str, list[float]]:
    """Return truth and ends of the strict intervals of the links' masses [kg]."""
    entries = {e["name"]: e for e in stored["parameters"]}
    known = [(n, k.mass) for n, k in truth.arm.links.items() if f"{n}.mass" in entries]
    ends = [entries[f"{n}.mass"]["interval"] for n, _ in known]
    return {
        "truth": [m for _, m in known],
        "low": [e[0] for e in ends],
        "high": [e[1] for e in ends],
    }


def record(
    found: Identification, truth: SimulatedExperiment, motions: Sequence[int] = SLOW_MOTIONS
) -> dict[str, Any]:
    """Return all that is asked of a fit; the first of the slow motions is the other one."""
    stored = results.to_json(found)
    left = Left.by(found)
    alike, slow = truth.other(), [truth.other("slow point to point", n) for n in motions]
    other = slow[0]
    score = next(s for s in found.fit if s.friction == "full" and s.filter_hz is not None)
    quantities = {
        "base": base_parameters(found, truth),
        "rotor": rotor_inertia(stored, truth),
        "curve": friction_curve(stored, truth),
        "torque alike": torque(found, alike),
        "torque other": torque(found, other),
        "simple": simple_friction(stored, truth),
    }
    return {
        **{name: q.to_json() for name, q in quantities.items()},
        "alike": held_out(left, alike),
        "other": held_out(left, other),
        "slow": [held_out(left, m, score.filter_hz)["full"] for m in slow],
        "slow, all frequencies": [held_out(left, m)["full"] for m in slow],
        "masses": masses(stored, truth),
        "delay": found.problem.delay,
        "true delay": truth.simulator.condition.sensors.delay,
        "verdict": str(stored["verdict"]),
        "score": score.total,
        "expected": found.predicted_error.total,
        "corner": found.problem.corner,
    }
