"""Inertial parameters of a payload from pairs of runs of one motion, without and with it.

Where a robot repeats a motion, its own torque cancels in the difference, which is due to the
payload alone; no inertial parameters of the robot are needed (`plants.RepeatedMotion`). Here runs
are paired: the torque of the empty run is interpolated at the lag at which positions agree best.
Drift that is linear in time cancels over the sequence empty, loaded, loaded, empty.
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
from heft.information import PARAMETER_COUNT, Check
from heft.models import Robot
from heft.plants import (
    NAME,
    Problem,
    RepeatedMotion,
    RobotPlant,
    effort_signals,
    last_frame,
    position_signals,
)
from heft.recordings import Recording
from heft.signals import Smoothing

from .by_torques import Existence

LARGEST_MISMATCH = 0.02  # [rad or m], rms between positions of runs that count as one motion
LARGEST_LAG = 0.5  # of a run's duration


@dataclass(frozen=True, eq=False)
class Matched:
    """Inertial parameters of a payload from differences of torque."""

    frame: str  # link in whose frame the parameters are expressed
    ten: Array  # inertial parameters in that frame, shape (10,) [kg, kg·m, kg·m²]
    covariance: Array  # covariance of them, shape (10, 10)
    lags: tuple[float, ...]  # lag by which each empty run is ahead of its loaded one [s]
    mismatch: float  # root mean square difference of positions [rad or m]
    # relative residual: norm of the residual over that of the torque difference without its mean
    left: float
    no_body: Check  # whether there can be such a load


@dataclass(frozen=True)
class Run:
    """Smoothed positions and torques of one log."""

    begin: float  # the log's time of the first sample used [s]
    time: Array  # time since then, shape (N,) [s]
    position: Array  # position of each channel, shape (channels, N) [rad or m]
    effort: Array  # torque of each of the c measured joints, shape (c, N) [N·m or N]


@dataclass(frozen=True)
class MatchedMotions:
    """Identification of a payload from repeated motions."""

    # link that it is fixed to; the last one of the model file if not given
    frame: str | None = None
    smoothing: Smoothing = Smoothing(delay=0.0)  # low-pass filter on the motion and torque
    # strength of the prior on the payload, in effective samples; the default enforces physical
    # consistency and nothing else
    strength: float = 1e-6
    existence: Existence = Existence()  # limits of the check of the load

    def fit(self, robot: Robot, empty: Sequence[Recording], loaded: Sequence[Recording]) -> Matched:
        """Identify the payload from logs without and with it, of the same motions in one order.

        Of the robot only the kinematics are used.

        Raises:
            InvalidSetting: If the numbers of logs without and with the payload differ, or are zero.
            InvalidRecording: If the positions of a pair differ by more than `LARGEST_MISMATCH`.
        """
        if len(empty) != len(loaded) or not empty:
            raise InvalidSetting(
                "as many logs with the load as without are needed, of the same motions",
                argument="--empty, --loaded",
                got=f"{len(empty)} and {len(loaded)}",
            )
        with one_blas_thread():
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
                        cure="leave --matched out: the model of the robot then takes the "
                        "difference",
                    )
                pairs.append(difference(carrying.plant, recording, bare, lag - run.begin))
                lags.append(lag)
                misses.append(miss)
            plant = RepeatedMotion(RobotPlant(robot), frame)
            problem = Problem(plant, tuple(pairs), carrying.resolved)
            mismatch = float(np.sqrt(np.mean(np.square(misses))))
            return self._solve(problem, tuple(lags), mismatch)

    def _solve(
        self, problem: Problem[RepeatedMotion], lags: tuple[float, ...], mismatch: float
    ) -> Matched:
        estimate = LeastSquares().fit(problem)
        triangle = estimate.information.combined(estimate.weights())
        solver = PhysicallyConsistent(strength=self.strength, unknown=(NAME,))
        body = solver.fit(triangle, problem.space, estimate.noise_factor()).parameters
        assert body.covariance is not None
        effort = np.concatenate([s.measured for s in problem.samples()])
        spread = np.linalg.norm(effort - effort.mean(axis=0))
        energy = sum(t.residual_energy(estimate.fitted) for t in estimate.information.triangles)
        ten = slice(PARAMETER_COUNT)
        covariance = body.covariance[ten, ten]
        free = solver.unconstrained(triangle, problem.space)[ten]
        return Matched(
            problem.plant.frame,
            body.values[ten],
            covariance,
            lags,
            mismatch,
            float(np.sqrt(energy) / max(spread, 1e-300)),
            self.existence.of_load(free, covariance),
        )


def runs(problem: Problem[RobotPlant]) -> list[Run]:
    """Return smoothed positions and torques of each log of a problem."""
    parts: dict[int, list[tuple[Array, Array, Array]]] = {}
    for s in problem.samples():
        part = (s.time, s.motion.position, s.measured.T)
        parts.setdefault(s.recording, []).append(part)
    smoothed = []
    for k in sorted(parts):
        time, position, effort = (
            np.concatenate(arrays, axis=-1) for arrays in zip(*parts[k], strict=True)
        )
        smoothed.append(Run(float(time[0]), time - time[0], position, effort))
    return smoothed


def difference(plant: RobotPlant, loaded: Recording, empty: Run, lag: float) -> Recording:
    """Return the positions of a loaded run with its torque less that of the empty run.

    Samples at times that the empty run does not cover are kept for smoothing, but not selected for
    the fit.

    Args:
        lag: Offset from the loaded run's time to the empty run's [s].
    """
    efforts = effort_signals(plant.robot, loaded)
    positions = position_signals(plant.robot)
    log = loaded.whole([*positions, *(name for name, _, _ in efforts)])
    time, values = log.time, log.values
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
    """Return the time by which the empty run of one motion is ahead [s], and what is left there.

    That is the root mean square difference of positions [rad or m], which is least at this lag.
    """
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
        lags = best + width * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
        best = float(lags[np.argmin([mismatch(x) for x in lags])])
        width *= 0.5
    return best, mismatch(best)
