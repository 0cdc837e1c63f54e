"""A robot under the torque that was measured, step by step: what Kalman filters move.

No controller need be known, since its torque is logged. Over a step the torque is the mean of the
measured one, and the motion follows the implicit midpoint rule (`dynamics.held_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import held_steps, kernels
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import Estimate
from heft.files import Keys, Number, check_fields
from heft.information import BaseParameters
from heft.models import Robot
from heft.plants import Problem, RobotPlant, effort_signals
from heft.recordings import Recording
from heft.simulation import Numbers, SimulatedRobot

LEAST = 8  # rows of a piece, to begin with a parabola
BEGIN = 0.05  # over which a parabola tells where a piece begins [s]
GAP = 1.5  # rows apart that are no neighbours any more
SWEEPS = 50  # over a step and the speed in its middle, at most, where own columns depend on it
SETTLED = 1e-12  # change of that speed, a share
CHECKS: Keys = {
    "standstill": Number("the speed of Coulomb friction is no positive number", above=0.0),
    "rate": Number("steps a second are no positive number", above=0.0, unit="Hz"),
    "most": Number("the number of steps is no whole number", 1, 10**9, whole=True),
}


@dataclass(frozen=True)
class DrivenRobot:
    """A robot driven by measured torques, as a state-space system.

    Raises:
        InvalidModel: If the base floats.
        InvalidSetting: If a joint is held still or its torque is not measured, friction has a
            memory, or a number is out of range.
    """

    robot: Robot  # with a fixed base, and friction that remembers nothing
    # speed s of Coulomb friction F tanh(w/s) [rad/s]; see `SimulatedRobot`
    standstill: float = 0.018
    rate: float = 250.0  # steps a second at most; rows between two count by their torque [Hz]
    most: int = 100_000  # steps at most, of all logs; seven joints take some milliseconds each

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)
        robot = self.robot
        _ = self.simulated_robot  # which refuses what it cannot simulate
        driven = {robot.channels[c] for c in robot.measured}
        without = [j for j in robot.joints if j not in driven or j in robot.options.still]
        if without:
            raise InvalidSetting(
                "the torque of every joint is to be measured, to move the robot by it",
                argument="[joint.NAME] measured, position",
                got=f"none of {', '.join(without)}",
                cure="take an estimator that needs no equations of motion, such as least-squares",
            )

    @cached_property
    def simulated_robot(self) -> SimulatedRobot:
        """The robot with friction as a function of the speed, for simulation."""
        return SimulatedRobot(self.robot, self.standstill)

    def logs(self, problem: Problem[RobotPlant], first: Estimate) -> tuple[RobotLog, ...]:
        """Return the logs of a problem in pieces without gaps; see `kalman.Driven`.

        Args:
            first: Least-squares estimate, whose residual gives the noise of torques,
                autocorrelation included.

        Raises:
            InvalidSetting: If there are more steps than `most`.
        """
        noise = first.noise
        worth = noise.sigma * np.sqrt(noise.autocorrelation_time)  # of a row of its own
        found = tuple(
            log
            for recording in problem.recordings
            for log in self._pieces(recording, problem.delay, problem.base, worth)
        )
        steps = sum(len(log.measured) for log in found)
        if steps > self.most:
            raise InvalidSetting(
                "these logs are too long to be moved through step by step",
                argument="logs",
                got=f"{steps} steps",
                expected=f"{self.most} at most",
                cure="choose a part of them (heft select, --only), or another estimator",
            )
        return found

    def _pieces(
        self, recording: Recording, delay: float, base: BaseParameters, worth: Array
    ) -> list[RobotLog]:
        robot = self.robot
        n = len(robot.joints)
        signals = effort_signals(robot, recording)
        names = [f"q.{j}" for j in robot.joints] + [s for s, _, _ in signals]
        block = recording.whole(names)
        good = np.asarray(np.isfinite(block.values).all(axis=1), dtype=np.bool_)
        if recording.selection is not None:
            good = good & recording.selection(np.arange(len(good)))
        order = np.argsort([c for _, c, _ in signals])
        tau = (block.values[:, n:] * [f for _, _, f in signals])[:, order]
        found = []
        for rows in _runs(block.time, good):
            time, q = block.time[rows], block.values[rows, :n]
            row = float(np.median(np.diff(time)))
            every = max(1, int(np.ceil(1.0 / (self.rate * row) - 1e-6)))
            if len(time) < max(LEAST, 2 * every):
                continue
            held = _means(time, tau[rows], time[::every] + delay)
            sigma = _noise_of(q)
            start = _start(time, q, sigma)
            push = worth[order] / np.sqrt(every)
            found.append(RobotLog(self, base, time[::every], q[::every], held, sigma, push, start))
        return found


@dataclass(frozen=True, eq=False)
class RobotLog:
    """A piece of a log without gaps; see `kalman.DrivenLog`."""

    of: DrivenRobot  # the robot
    base: BaseParameters  # its parameters
    time: Array  # when steps begin and end, shape (N + 1,) [s]
    position: Array  # measured then, shape (N + 1, n) [rad or m]
    effort: Array  # held over each step, shape (N, n) [N·m or N]
    sigma: Array  # noise of positions, shape (n,) [rad or m]
    push: Array  # noise of the effort that is held, shape (n,) [N·m or N]
    start: tuple[Array, Array]  # state before the first step and its deviations, shape (2 n,) each

    @property
    def measured(self) -> Array:
        """Positions after each step, shape (N, n)."""
        return self.position[1:]

    @property
    def variance(self) -> Array:
        """Variance of the positions' noise, shape (n,)."""
        return self.sigma**2

    @cached_property
    def _tree(self) -> tuple[tuple[Array, ...], Array, Array]:
        robot = self.of.robot
        offset = np.array(robot.tree.offset, dtype=float)
        return kernels.compile_tree(robot.tree), offset, np.array(robot.gravity, dtype=float)

    def moved(self, step: int, values: Array, states: Array) -> tuple[Array, Array]:
        """Return states after a step, and a square root of the first one's process noise.

        Raises:
            SolverFailure: If a robot cannot be moved.
        """
        n, h = self.position.shape[1], float(self.time[step + 1] - self.time[step])
        standard = self._standard(values)
        numbers = self.of.simulated_robot.numbers(standard)
        q, v = np.hsplit(np.array(states), 2)
        middle, after, rise = v, np.array(states), np.empty((n, n))
        for _ in range(SWEEPS):
            # Own columns, of which the compiled steps know nothing, are taken off the effort.
            own = self.of.simulated_robot.own_effort(q + 0.5 * h * v, middle, standard)
            after, rise = self._pushed(numbers, h, self.effort[step] - own, states)
            before, middle = middle, 0.5 * (v + after[:, n:])
            settled = np.abs(middle - before).max() <= SETTLED * (1.0 + np.abs(middle).max())
            if self.of.robot.own_columns is None or settled:
                break
        else:
            raise self._unmoved(step)
        if not np.isfinite(after).all():
            raise self._unmoved(step)
        felt = rise * self.push
        return after, np.vstack([0.5 * h * h * felt, h * felt])

    def _pushed(
        self, numbers: Numbers, h: float, effort: Array, states: Array
    ) -> tuple[Array, Array]:
        """Return states after a step, NaN where it failed, and ∂a/∂τ of the first one."""
        tree, offset, gravity = self._tree
        after, rise = np.array(states, order="C"), np.empty((effort.shape[1],) * 2)
        own = (numbers.bodies, numbers.rotors, numbers.drives)
        held = np.array(np.broadcast_to(effort, (len(states), effort.shape[1])), order="C")
        with np.errstate(all="ignore"):
            try:
                done = held_steps.push((tree, offset, *own, gravity), h, held, after, rise)
            except np.linalg.LinAlgError:
                done = False
        return after if done else np.full_like(after, np.nan), rise

    def _unmoved(self, step: int) -> SolverFailure:
        return SolverFailure(
            "the robot cannot be moved by the torque that was measured",
            argument=self.of.robot.name,
            got=f"at {self.time[step]:.3f} s",
            cure="check that torques are those of the joints, in N·m, or take least-squares",
        )

    def slopes(self, step: int, values: Array, state: Array, after: Array) -> tuple[Array, Array]:
        """Return the derivatives of a step by the state and by β; see `held_steps.carry`."""
        n, h = self.position.shape[1], float(self.time[step + 1] - self.time[step])
        q, v = state[:n], state[n:]
        a = (after[n:] - v) / h
        middle = ((q + 0.5 * h * v)[None], (v + 0.5 * h * a)[None], a[None])
        standard = self._standard(values[None])[0]
        found = self.of.simulated_robot.linearised(*middle, standard, self.base.kept)
        M, K, D, Y = (x[0] for x in found)
        rise = -np.linalg.solve(M + 0.5 * h * D, np.hstack([K, D + 0.5 * h * K, Y]))
        whole = np.vstack([0.5 * h * h * rise, h * rise])
        whole[:, : 2 * n] += np.eye(2 * n)
        whole[:n, n : 2 * n] += h * np.eye(n)
        return whole[:, : 2 * n], whole[:, 2 * n :]

    def _standard(self, values: Array) -> Array:
        """Return standard parameters of many β, shape (count, p)."""
        whole = np.zeros((len(values), len(self.base.standard)))
        whole[:, list(self.base.kept)] = values
        return whole


def _runs(time: Array, good: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Return the rows of each piece without missing rows or gaps in time."""
    rows = np.flatnonzero(good)
    if len(rows) < 2:
        return []
    apart = np.diff(time[rows])
    cuts = np.flatnonzero((np.diff(rows) > 1) | (apart > GAP * np.median(apart))) + 1
    return [np.asarray(r) for r in np.split(rows, cuts) if len(r) >= LEAST]


def _means(time: Array, values: Array, ends: Array) -> Array:
    """Return means of values that are linear between rows, over M intervals, shape (M, n).

    Outside the rows the nearest value holds.
    """
    room = float(ends[-1] - ends[0])
    wide = np.concatenate([[time[0] - room], time, [time[-1] + room]])
    held = np.vstack([values[:1], values, values[-1:]])
    whole = np.vstack(
        [
            np.zeros(held.shape[1]),
            np.cumsum(0.5 * np.diff(wide)[:, None] * (held[1:] + held[:-1]), axis=0),
        ]
    )
    place = np.clip(np.searchsorted(wide, ends, side="right") - 1, 0, len(wide) - 2)
    share = (ends - wide[place])[:, None]
    slope = (held[place + 1] - held[place]) / np.diff(wide)[place][:, None]
    upto = whole[place] + share * (held[place] + 0.5 * share * slope)
    return np.asarray(np.diff(upto, axis=0) / np.diff(ends)[:, None])


def _noise_of(position: Array) -> Array:
    """Return σ of the positions' noise from fourth differences, which motion hardly has, (n,).

    White noise of variance 1 has fourth differences of variance 70.
    """
    rough = np.sqrt(np.mean(np.diff(position, 4, axis=0) ** 2, axis=0) / 70.0)
    size = np.abs(position).max(axis=0)
    return np.asarray(np.maximum(rough, 1e-12 * np.maximum(size, 1e-3)))


def _start(time: Array, position: Array, sigma: Array) -> tuple[Array, Array]:
    """Return a piece's initial state by a parabola, and its standard deviations, (2 n,) each."""
    few = max(LEAST, int(np.count_nonzero(time <= time[0] + BEGIN)))
    found = np.polynomial.polynomial.polyfit(time[:few] - time[0], position[:few], 2)
    speed = np.sqrt(np.mean((np.diff(position, axis=0) / np.diff(time)[:, None]) ** 2, axis=0))
    # Generous: the first few measurements tell it better.
    deviations = np.append(3.0 * sigma, 0.1 * speed + sigma / BEGIN)
    return np.append(found[0], found[1]), deviations
