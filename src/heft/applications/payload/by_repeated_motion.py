"""A load from the difference of two runs of one motion, without a model of the robot's masses.

Where a robot repeats a motion, its own torque is the same each time, and what differs is the
load's: `τ_loaded(t) − τ_empty(t + lag) = Yₗ p + friction's change`. Only the kinematics of the
model file are used. Drift that grows with time cancels over runs in turn: empty, loaded, loaded,
empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import Offset, Sigmoid, Term, Viscous, kernels, steady
from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import PhysicallyConsistent, autocorrelation_time, autocovariance
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Labels,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)
from heft.models import Robot
from heft.plants import GUESS, Problem, RobotPlant, carrying, last_frame
from heft.recordings import Recording
from heft.signals import Smoothing

LARGEST_MISMATCH = 0.02  # [rad or m], rms between positions of runs that count as one motion
LARGEST_LAG = 0.5  # of a run's duration
# What of friction changes with the load; the scale is a speed [rad/s or m/s].
CHANGES: tuple[Term, ...] = (Offset(), Sigmoid(0.02), Viscous())


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
    """Smooth motion of one log, and its torque; time counts from its first row."""

    time: Array
    position: Array
    motion: kernels.Motion
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
        frame = self.frame or last_frame(robot)
        problem = Problem(RobotPlant(robot), tuple(loaded), self.smoothing)
        without = Problem(RobotPlant(robot), tuple(empty), problem.resolved)
        rows, efforts, lags, misses = [], [], [], []
        for with_load, bare in zip(runs(problem), runs(without), strict=True):
            lag, miss = lag_between(with_load, bare)
            if miss > LARGEST_MISMATCH:
                raise InvalidRecording(
                    "these runs are not of one motion",
                    argument="--empty, --loaded",
                    got=f"positions differ by {miss:.3g} rad, at a lag of {lag:.3f} s",
                    expected=f"within {LARGEST_MISMATCH:g}",
                    cure="leave --matched out: the model of the robot then takes the difference",
                )
            inside = (with_load.time + lag >= bare.time[0]) & (
                with_load.time + lag <= bare.time[-1]
            )
            at = with_load.time[inside] + lag
            chosen = np.flatnonzero(inside)
            before = np.stack([np.interp(at, bare.time, row) for row in bare.effort])
            efforts.append((with_load.effort[:, inside] - before).T)
            rows.append(self._rows(robot, frame, with_load.motion.part(chosen)))
            lags.append(lag)
            misses.append(miss)
        return self._solve(
            robot, frame, np.concatenate(rows), np.concatenate(efforts), lags, misses
        )

    def _rows(self, robot: Robot, frame: str, motion: kernels.Motion) -> Array:
        """Return Y of the measured channels, shape (N, c, 10 + 3c): the load, friction's change."""
        body, stated = carrying(robot, frame)
        own = PARAMETER_COUNT * len(robot.tree.names)
        whole = np.zeros((robot.tree.channels, own, motion.sin.shape[1]))
        kernels.regressor(robot.tree, motion, whole)
        whole = np.moveaxis(whole, -1, 0)[:, :, body]
        carried = whole[:, robot.measured] @ stated
        v = motion.velocity.T[:, robot.measured]
        friction = np.zeros((len(carried), v.shape[1], len(CHANGES) * v.shape[1]))
        for c in range(v.shape[1]):
            first = len(CHANGES) * c
            friction[:, c, first : first + len(CHANGES)] = steady(CHANGES, v[:, c]).T
        return np.concatenate([carried, friction], axis=2)

    def _solve(
        self,
        robot: Robot,
        frame: str,
        rows: Array,
        effort: Array,
        lags: list[float],
        misses: list[float],
    ) -> Matched:
        count, channels = effort.shape
        sigma = np.ones(channels)
        values: Array = np.zeros(rows.shape[2])
        for _ in range(3):
            wide = np.concatenate([rows, effort[:, :, None]], axis=2) / sigma[None, :, None]
            factor = triangle_of(wide.reshape(-1, wide.shape[2]))
            solved = np.linalg.lstsq(factor[:-1, :-1], factor[:-1, -1], rcond=1e-9)[0]
            values = np.asarray(solved, dtype=np.float64)
            left = effort - rows @ values
            sigma = np.maximum(np.std(left, axis=0), 1e-9)
        scaled = factor / np.sqrt(np.mean(autocorrelation_time(autocovariance([left]))))
        names = (
            *(f"payload.{s}" for s in SYMBOLS),
            *(f"{robot.channels[c]}.{t.name}" for c in robot.measured for t in CHANGES),
        )
        extra = len(values) - PARAMETER_COUNT
        labels = Labels(names, (*UNITS, *("1",) * extra), frame)
        nominal = np.concatenate([inertia.sphere(*GUESS), np.zeros(extra)])
        believed = ParameterSpace.of_one_body(labels, nominal)
        solver = PhysicallyConsistent(strength=self.strength, unknown=("payload",))
        found = solver.fit(Triangle(np.arange(len(values)), scaled, count), believed)
        covariance = found.parameters.covariance
        assert covariance is not None
        spread = float(np.linalg.norm(effort - effort.mean(axis=0)))
        return Matched(
            frame,
            found.parameters.values[:PARAMETER_COUNT],
            covariance[:PARAMETER_COUNT, :PARAMETER_COUNT],
            tuple(lags),
            float(np.sqrt(np.mean(np.square(misses)))),
            float(np.linalg.norm(left)) / max(spread, 1e-300),
        )


def runs(problem: Problem[RobotPlant]) -> list[Run]:
    """Return each log's smooth motion and torque, whole."""
    parts: dict[int, list[Run]] = {}
    for s in problem.samples():
        run = Run(s.time, s.motion.position, s.motion.bodies, s.measured.T)
        parts.setdefault(s.recording, []).append(run)
    found = []
    for k in sorted(parts):
        pieces = parts[k]
        motion = kernels.Motion(
            *(
                np.concatenate(a, axis=1)
                for a in zip(*(p.motion.tuple() for p in pieces), strict=True)
            )
        )
        time = np.concatenate([p.time for p in pieces])
        found.append(
            Run(
                time - time[0],
                np.concatenate([p.position for p in pieces], axis=1),
                motion,
                np.concatenate([p.effort for p in pieces], axis=1),
            )
        )
    return found


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
