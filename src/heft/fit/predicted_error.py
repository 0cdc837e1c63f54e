"""Relative error of predicted torque on motion of another kind, as far as the fit can tell.

A model that fits its own logs need not predict: friction that it cannot describe shows where logs
rarely go, in slow motion with dwells and reversals. So the standard deviation of its torque is
taken along such a motion through the poses of the logs, made up for it, and divided by the torque:

    e² = Σ (y C yᵀ + m²) / Σ (y β)²

y are the rows of that motion on the base parameters β and C is their covariance; m is what the
model leaves over, without the torque sensor's noise: in rows of like speed and distance since the
last reversal, and the more in slow motion, the less of its speed was seen (`Misfit.elsewhere`).
C is not the jackknife's: where a block of a log alone shows a pose that deviation has no bound, and
a pose of that kind is not where the model is used; it does not tell fits that predict from others.
Nor has C a bound where rows cannot tell columns of friction's dictionary apart, as those of long
windows cannot at low speed. But these coefficients have a sign and add up to friction: none is
larger than their sum F, and F is the standard deviation of a prior about each (`with_prior`).

The model file holds simple friction only. What that takes away is the difference of both
frictions' torques along that motion, or, if larger, what it leaves over of the logs beside full
friction (`PredictedError.simple`). C is no part of it: simple friction is not of the dictionary.

Without joints that can be made to move the motion is that of the logs, and r what the fit leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.dynamics import Drive
from heft.errors import TooLittleData
from heft.estimators import ConsistentEstimate
from heft.information import Information, ParameterSpace
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording

from .conditions import since_reversal
from .misfit import Misfit
from .scores import Models, PredictedError, Score, stretches


@dataclass(frozen=True)
class OtherMotion:
    """Slow motion from point to point, through poses of the logs in their order."""

    poses: int = 24  # how many
    # largest speeds of the moves, one after another, as shares of each joint's fastest sine of the
    # same rms velocity as in the logs
    speeds: tuple[float, ...] = (0.1, 0.18, 0.33)
    dwell: float = 0.4  # rest between two moves [s]
    longest: float = 6.0  # duration of a move at most [s]
    rate: float = 50.0  # samples a second [Hz]

    def through(self, poses: Array, speed: Array) -> Array:
        """Return positions, shape (N, joints) [rad or m].

        Args:
            poses: Shape (any, joints) [rad or m].
            speed: Rms velocity of each joint in the logs, shape (joints,) [rad/s or m/s].
        """
        rest = max(1, round(self.dwell * self.rate))
        parts = [np.repeat(poses[:1], rest, axis=0)]
        for k, (here, aim) in enumerate(pairwise(poses)):
            top = self.speeds[k % len(self.speeds)] * np.sqrt(2.0) * speed
            moving = (aim != here) & (top > 0.0)
            # Largest speed of a step of least jerk of length and time 1.
            length = 1.875 * float(np.max(np.abs(aim - here)[moving] / top[moving], initial=0.0))
            count = max(1, round(min(length, self.longest) * self.rate))
            x = (np.arange(count) + 1.0)[:, None] / count
            parts.append(here + x**3 * (10.0 - 15.0 * x + 6.0 * x**2) * (aim - here))
            parts.append(np.repeat(aim[None], rest, axis=0))
        return np.concatenate(parts)


def predicted_error(
    problem: Problem[RobotPlant],
    consistent: ConsistentEstimate,
    misfits: Mapping[str, Misfit],
    fit: Sequence[Score],
    models: Models,
    motion: OtherMotion = OtherMotion(),
) -> PredictedError:
    """Return the predicted error of models' torque on slow motion through the logs' poses."""
    robot, space = problem.plant.robot, problem.space
    if robot.tree.free_base or robot.options.sensor:
        return predicted_error_alike(problem.information(), consistent, space, fit)
    path = motion.through(*_poses(problem, motion.poses))
    slow = _recording(problem, path, motion.rate)
    smoothing = signals.Smoothing(corner=signals.LARGEST_CORNER * motion.rate, trim=0.0, delay=0.0)
    base = problem.known_base
    slowly = Problem(problem.plant, (slow,), smoothing, problem.threads, known_base=base)
    moved = slowly.information()
    scored = [s for s in fit if s.counts]
    variance, energy = _known(moved, within_friction(consistent, robot.drives), space)
    first = len(robot.channels) - len(robot.joints)
    rows = moved.triangles[0].rows / len(path)
    place = {int(c): k for k, c in enumerate(robot.measured)}
    positions = np.zeros((len(path), len(robot.channels)))
    positions[:, first:] = path
    velocity = np.gradient(positions, 1.0 / motion.rate, axis=0)
    for drive in robot.drives:
        if drive.name in misfits:
            w = velocity @ drive.ratio
            distance, _ = since_reversal((positions @ drive.ratio)[:, None], w[:, None])
            rest = rows * float(np.sum(misfits[drive.name].elsewhere(w, distance[:, 0]) ** 2))
            for channel, ratio in enumerate(drive.ratio):
                if channel in place:
                    variance[place[channel]] += ratio**2 * rest
    by_friction = None
    if any(t.dictionary for d in robot.drives for t in d.terms):
        by_friction = max(_apart(slowly, models), _apart_on_logs(fit))
    return PredictedError.of(variance, energy, moved.channels, scored, by_friction)


def _apart(problem: Problem[RobotPlant], models: Models) -> float:
    """Return the relative difference of torque between full and simple friction on a motion [1]."""
    change = size = 0.0
    for stretch in stretches(problem, models):
        full, simple = stretch.predicted
        change += float(np.sum((full - simple) ** 2))
        size += float(np.sum(full**2))
    return float(np.sqrt(change / max(size, 1e-300)))


def _apart_on_logs(fit: Sequence[Score]) -> float:
    """Return what simple friction leaves over beside full friction, of the worst log [1]."""
    own = {(s.path, s.friction): s.total**2 for s in fit if s.filter_hz is not None}
    added = (own[path, "simple"] - own[path, "full"] for path, _ in own)
    return float(np.sqrt(max((0.0, *added))))


def within_friction(consistent: ConsistentEstimate, drives: Iterable[Drive]) -> ConsistentEstimate:
    """Return an estimate as certain of friction's dictionary as the size of friction makes it.

    Coefficients are not negative and add up to friction F: their prior is of deviation F about 0.
    """
    parameters = consistent.parameters
    assert parameters.covariance is not None
    place = {name: k for k, name in enumerate(parameters.labels.names)}
    columns: list[int] = []
    size: list[float] = []
    for drive in drives:
        names = {
            f"{drive.name}.{t.name}": t.unit(drive.linear) for t in drive.terms if t.dictionary
        }
        for unit in dict.fromkeys(names.values()):  # what depends on the load adds up by itself
            own = [place[n] for n, u in names.items() if u == unit and n in place]
            columns += own
            size += [float(np.sum(np.abs(parameters.values[own])))] * len(own)
    std = np.array(size)
    positive = std > 0.0  # without any friction found, there is no size of it
    covariance = with_prior(
        parameters.covariance, np.array(columns, dtype=np.intp)[positive], std[positive]
    )
    return replace(consistent, parameters=replace(parameters, covariance=covariance))


def with_prior(covariance: Array, columns: NDArray[np.intp], std: Array) -> Array:
    """Return the covariance C of unknowns, updated by an independent prior on some of them.

    `(C⁻¹ + P)⁻¹`, P the information of the prior, without the inverse of a C that may have none.

    Args:
        covariance: C, shape (n, n).
        columns: k unknowns that the prior tells.
        std: Its standard deviation of each, shape (k,), positive.
    """
    if not len(columns):
        return covariance
    across = covariance[columns] / std[:, None]
    white = across[:, columns] / std
    try:
        factor = np.linalg.cholesky(np.eye(len(std)) + white)
    except np.linalg.LinAlgError:  # by rounding, of what has next to no bound
        values, vectors = np.linalg.eigh(white)
        root = vectors * np.sqrt(1.0 + np.maximum(values, 0.0))
        factor = np.linalg.qr(root.T)[1].T
    half = scipy.linalg.solve_triangular(factor, across, lower=True)
    posterior = half.T @ half
    np.subtract(covariance, posterior, out=posterior)
    place = np.diag_indices_from(posterior)
    # Less of a variance no difference can show.
    posterior[place] = np.maximum(posterior[place], 1e-12 * covariance[place])
    # As differences of large numbers these would be rounding alone.
    beside = scipy.linalg.solve_triangular(factor, half, lower=True, trans="T") * std[:, None]
    posterior[:, columns], posterior[columns] = beside.T, beside
    return np.asarray(posterior)


def predicted_error_alike(
    information: Information,
    consistent: ConsistentEstimate,
    space: ParameterSpace,
    fit: Iterable[Score],
) -> PredictedError:
    """Return the predicted error of a plant's channels on motion like that of the logs."""
    scored = [s for s in fit if s.counts]
    variance, energy = _known(information, consistent, space)
    for k, channel in enumerate(information.channels):
        residual = max((s.per_joint.get(channel, 0.0) for s in scored), default=0.0)
        variance[k] += residual**2 * energy[k]
    return PredictedError.of(variance, energy, information.channels, scored)


def _known(
    information: Information, consistent: ConsistentEstimate, space: ParameterSpace
) -> tuple[Array, Array]:
    """Return Σ y C yᵀ and Σ (y β)² of each channel, over the rows of some information."""
    assert consistent.parameters.covariance is not None
    size = space.matrix.shape[1]  # gains that are estimated, too, stand behind
    covariance = consistent.parameters.covariance[:size, :size]
    scale, matrix = np.sqrt(np.maximum(np.diag(covariance), 1e-300)), space.matrix
    point = space.matrix @ consistent.parameters.values[:size]
    sums = []
    for t in information.triangles:
        columns = np.flatnonzero(np.any(matrix[t.columns] != 0.0, axis=0))
        own = scale[columns]
        rows = t.R @ (matrix[np.ix_(t.columns, columns)] * own)
        correlation = covariance[np.ix_(columns, columns)] / own[:, None] / own
        spread = np.sum((rows @ correlation) * rows)
        sums.append((max(spread, 0.0), np.sum((t.R @ point[t.columns]) ** 2)))
    variance, energy = np.array(sums, dtype=float).reshape(-1, 2).T
    return variance.copy(), energy


def _poses(problem: Problem[RobotPlant], count: int) -> tuple[Array, Array]:
    """Return poses evenly spaced over the logs' rows, and the joints' rms velocity."""
    robot = problem.plant.robot
    first = len(robot.channels) - len(robot.joints)
    rows = sum(t.used for t in problem.timelines)
    every, at = max(1, rows // count), 0
    poses, total, seen = [], np.zeros(len(robot.joints)), 0
    for s in problem.samples():
        poses.append(s.motion.position[first:, (-at) % every :: every].T)
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        at += len(s.time)
        seen += len(s.time)
    if not seen:
        raise TooLittleData("no rows are left of these logs")
    return np.concatenate(poses), np.sqrt(total / seen)


def _recording(problem: Problem[RobotPlant], path: Array, rate: float) -> Recording:
    robot = problem.plant.robot
    first = len(robot.channels) - len(robot.joints)
    measured = [robot.channels[c] for c in robot.measured if c >= first]
    elastic = [j for j in robot.joints if robot.options.of(j).elastic]
    return Recording.from_arrays(
        np.arange(len(path)) / rate,
        "slow motion through the poses of the logs",
        q={j: path[:, k] for k, j in enumerate(robot.joints)},
        tau={j: np.zeros(len(path)) for j in measured},
        **({"q_motor": {j: path[:, robot.joints.index(j)] for j in elastic}} if elastic else {}),
    )
