"""A load from the difference of two runs of one motion, without a model of the robot's masses.

Where a robot repeats a motion, its own torque is the same each time, and what differs is the
load's; see `plants.RepeatedMotion`. Here runs are paired: `τ_empty` is taken at the lag at which
positions agree. Drift that grows with time cancels over runs in turn: empty, loaded, loaded,
empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import LeastSquares, PhysicallyConsistent
from heft.information import PARAMETER_COUNT
from heft.models import Robot
from heft.plants import NAME, Problem, RepeatedMotion, RobotPlant, last_frame
from heft.recordings import Recording
from heft.signals import Smoothing

LARGEST_MISMATCH = 0.02  # [rad or m], rms between positions of runs that count as one motion
LARGEST_LAG = 0.5  # of a run's duration


@dataclass(frozen=True, eq=False)
class Matched:
    """A load from a difference.

    Attributes:
        frame: The link whose frame the load's numbers are in.
        ten: The load's ten parameters, shape (10,).
        covariance: Of them, shape (10, 10).
        lags: By how much each empty run is ahead of its loaded one [s].
        mismatch: Rms difference of positions [rad or m].
        left: Share of the difference's variation that no load explains.
    """

    frame: str
    ten: Array
    covariance: Array
    lags: tuple[float, ...]
    mismatch: float
    left: float


@dataclass(frozen=True)
class Run:
    """Smooth positions of one log, and its torque.

    Attributes:
        begin: The log's time of the first row used [s].
        time: Since then, shape (N,) [s].
        position: Of each channel, shape (channels, N) [rad or m].
        effort: Of each measured joint, shape (c, N) [N·m or N].
    """

    begin: float
    time: Array
    position: Array
    effort: Array


@dataclass(frozen=True)
class MatchedMotions:
    """How loads are weighed by differences.

    Attributes:
        frame: The link it is fixed to; the last one of the model file if not given.
        smoothing: Of the motion.
        strength: Of the prior on the load: consistency, and nothing else.
    """

    frame: str | None = None
    smoothing: Smoothing = Smoothing(delay=0.0)
    strength: float = 1e-6

    def fit(self, robot: Robot, empty: Sequence[Recording], loaded: Sequence[Recording]) -> Matched:
        """Return the load.

        Args:
            robot: For its kinematics.
            empty: Logs without the load.
            loaded: Logs with it, of the same motions in the same order.

        Raises:
            InvalidSetting: If there are not as many of one kind as of the other.
            InvalidRecording: If the motions are not the same.
        """
        if len(empty) != len(loaded) or not empty:
            raise InvalidSetting(
                "as many logs with the load as without are needed, of the same motions",
                argument="--empty, --loaded",
                got=f"{len(empty)} and {len(loaded)}",
            )
        with one_blas_thread():
            return self._fit(robot, empty, loaded)

    def _fit(
        self, robot: Robot, empty: Sequence[Recording], loaded: Sequence[Recording]
    ) -> Matched:
        frame = self.frame or last_frame(robot)
        carrying = Problem(RobotPlant(robot), tuple(loaded), self.smoothing)
        without = Problem(RobotPlant(robot), tuple(empty), carrying.resolved)
        pairs, lags, misses = [], [], []
        for recording, run, bare in zip(loaded, runs(carrying), runs(without), strict=True):
            lag, miss = lag_between(run, bare)
            if miss > LARGEST_MISMATCH:
                raise InvalidRecording(
                    "these runs are not of one motion",
                    argument="--empty, --loaded",
                    got=f"positions differ by {miss:.3g} rad, at a lag of {lag:.3f} s",
                    expected=f"within {LARGEST_MISMATCH:g}",
                    cure="leave --matched out: the model of the robot then takes the difference",
                )
            pairs.append(difference(carrying.plant, recording, bare, lag - run.begin))
            lags.append(lag)
            misses.append(miss)
        problem = Problem(RepeatedMotion(robot, frame), tuple(pairs), carrying.resolved)
        ten, covariance, left = self._solve(problem)
        mismatch = float(np.sqrt(np.mean(np.square(misses))))
        return Matched(frame, ten, covariance, tuple(lags), mismatch, left)

    def _solve(self, problem: Problem[RepeatedMotion]) -> tuple[Array, Array, float]:
        """Return the load's ten, their covariance, and the share that nothing explains."""
        found = LeastSquares().fit(problem)
        triangle = found.information.combined(found.weights())
        body = PhysicallyConsistent(strength=self.strength, unknown=(NAME,)).fit(
            triangle, problem.space, found.noise_factor()
        )
        covariance = body.parameters.covariance
        assert covariance is not None
        effort = np.concatenate([s.measured for s in problem.samples()])
        spread = np.linalg.norm(effort - effort.mean(axis=0))
        left = sum(t.residual_energy(found.fitted) for t in found.information.triangles)
        ten = slice(PARAMETER_COUNT)
        share = float(np.sqrt(left) / max(spread, 1e-300))
        return body.parameters.values[ten], covariance[ten, ten], share


def runs(problem: Problem[RobotPlant]) -> list[Run]:
    """Return each log's smooth positions and torque, whole."""
    parts: dict[int, list[tuple[Array, Array, Array]]] = {}
    for s in problem.samples():
        part = (s.time, s.motion.position, s.measured.T)
        parts.setdefault(s.recording, []).append(part)
    found = []
    for k in sorted(parts):
        time, position, effort = (
            np.concatenate(arrays, axis=-1) for arrays in zip(*parts[k], strict=True)
        )
        found.append(Run(float(time[0]), time - time[0], position, effort))
    return found


def difference(plant: RobotPlant, loaded: Recording, empty: Run, lag: float) -> Recording:
    """Return the loaded run's positions, and how much more torque it took than the empty one.

    Rows at times when the empty run was not yet begun, or over, only smooth the motion: they are
    not selected.

    Args:
        plant: Whose joints.
        loaded: The run with the load.
        empty: The run without it.
        lag: Time of the empty run less that in the loaded run's log [s].
    """
    efforts = plant.effort_signals(loaded)
    positions = plant.position_signals
    blocks = list(loaded.blocks([*positions, *(name for name, _, _ in efforts)]))
    time = np.concatenate([b.time for b in blocks])
    values = np.concatenate([b.values for b in blocks])
    at = time + lag
    taken = {
        plant.robot.channels[channel]: factor * column - np.interp(at, empty.time, before)
        for (_, channel, factor), column, before in zip(
            efforts, values[:, len(positions) :].T, empty.effort, strict=True
        )
    }
    inside, own = (at >= empty.time[0]) & (at <= empty.time[-1]), loaded.selection

    def selection(index: NDArray[np.int64]) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = inside[index]
        return chosen if own is None else chosen & own(index)

    moved = {name.partition(".")[2]: values[:, k] for k, name in enumerate(positions)}
    return Recording.from_arrays(time, loaded.name, q=moved, tau=taken).selecting(selection)


def lag_between(loaded: Run, empty: Run) -> tuple[float, float]:
    """Return by how much a run is ahead of the other [s], and the rms mismatch of positions."""
    step = float(np.median(np.diff(loaded.time)))
    every = max(1, round(0.02 / step))

    def mismatch(lag: float) -> float:
        at = loaded.time[::every] + lag
        inside = (at >= empty.time[0]) & (at <= empty.time[-1])
        if np.mean(inside) < 1.0 - LARGEST_LAG:
            return np.inf
        seen = np.stack([np.interp(at[inside], empty.time, row) for row in empty.position])
        return float(np.sqrt(np.mean((loaded.position[:, ::every][:, inside] - seen) ** 2)))

    reach = LARGEST_LAG * (loaded.time[-1] - loaded.time[0])
    lags = np.arange(-reach, reach, 0.05)
    best = float(lags[np.argmin([mismatch(x) for x in lags])])
    width = 0.05
    while width > 1e-4:
        tried = best + width * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
        best = float(tried[np.argmin([mismatch(x) for x in tried])])
        width *= 0.5
    return best, mismatch(best)
