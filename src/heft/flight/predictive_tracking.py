"""Nonlinear model-predictive tracking of a free-flying body, by the real-time iteration.

    min  Σ_k ‖e(x_k)‖²_Q + ‖u_k − u_w‖²_P  +  ‖e(x_N)‖²_QN
    such that  x_{k+1} = f(x_k, u_k),  u_min ≤ u_k ≤ u_max

[Ekal2018, eq. 20], with Lee's attitude error [Lee2012] and the commands u_w that carry the body's
weight. At each call the problem is linearised about the last plan, moved on by a step; states are
eliminated (condensing), and the box-constrained quadratic problem in all commands is solved from
the active set of the last: an iteration of Newton's method, whose error is of second order in how
far the motion departs from its plan [Diehl2005]. A load that doubles the inertia makes it depart
by so much that one iteration is off by newtons; so iterations go on until commands settle, two or
three a call.

The model is nominal on purpose: a load is what is to be found out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact
from heft.dynamics import PLACE, SPEED, SPIN, STATE, TURN, unit_turns
from heft.errors import InvalidSetting, install
from heft.models import FreeFlyer

from .flight_design import FlightReference
from .flyer_model import FlyerModel, attitude_error, rate_error


@dataclass(frozen=True)
class TrackingSettings:
    """Settings of the tracking.

    An error of the stated size costs as much as a command of `effort`.
    """

    horizon: int = 15  # number of steps that are looked ahead
    step: float = 0.1  # of the commands, which are held meanwhile [s]
    position: float = 0.1  # size of a position's error [m]
    attitude: float = 0.1  # of Lee's attitude error, half an angle [rad]
    velocity: float = 0.5  # of a velocity's error [m/s]
    rate: float = 1.0  # of an angular velocity's [rad/s]
    effort: float = 1.0  # of a command, as a share of half its actuator's range
    last: float = 5.0  # factor on the last state's weight
    # change of commands, as a share of half the range, below which a call iterates no more
    settled: float = 0.02
    iterations: int = 6  # at most, a call

    @staticmethod
    def of(flyer: FreeFlyer) -> TrackingSettings:
        """Return the settings of a body's file, with defaults where it says nothing."""
        return TrackingSettings(**flyer.tracking)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise InvalidSetting("a horizon has steps", argument="horizon", got=self.horizon)
        for name in ("step", "position", "attitude", "velocity", "rate", "effort", "last"):
            if not getattr(self, name) > 0.0:
                raise InvalidSetting(f"{name} is positive", argument=name, got=getattr(self, name))


@dataclass(frozen=True, eq=False)
class Plan:
    """Predicted states and planned commands over the horizon."""

    time: float  # of the first state [s]
    states: Array  # shape (horizon + 1, 13)
    commands: Array  # shape (horizon, n)
    # whether the last quadratic problem was solved; if not, the plan before it is followed
    solved: bool = True


@dataclass(frozen=True, eq=False)
class PredictiveTracking:
    """Model predictive tracking of a reference by a body's nominal model."""

    flyer: FreeFlyer  # whose actuators and nominal parameters
    reference: FlightReference  # what is tracked
    settings: TrackingSettings = TrackingSettings()  # of the tracking

    @cached_property
    def model(self) -> FlyerModel:
        """Nominal model of the body."""
        return FlyerModel.of(self.flyer)

    @cached_property
    def weights(self) -> Array:
        """Square roots of an error's weights, shape (12,)."""
        s = self.settings
        return np.repeat([1.0 / size for size in (s.position, s.attitude, s.velocity, s.rate)], 3)

    @cached_property
    def effort_weights(self) -> Array:
        """Square roots of the commands' weights, shape (n,)."""
        a = self.flyer.actuators
        return np.asarray(2.0 / (self.settings.effort * (a.upper - a.lower)))

    @cached_property
    def _carrying(self) -> Array:
        """Pseudo-inverse of the mixing matrix, from a wrench to commands, shape (n, 6)."""
        return np.asarray(np.linalg.pinv(self.flyer.mixing))

    def trim(self, quaternions: Array) -> Array:
        """Return commands that carry the weight at attitudes (N, 4), within limits, (N, n)."""
        wanted = self.model.weight(quaternions) @ self._carrying.T
        a = self.flyer.actuators
        return np.asarray(np.clip(wanted, a.lower, a.upper))

    def start(self, time: float, state: Array) -> Plan:
        """Return a first plan: as the reference says, from a state, shape (13,)."""
        s = self.settings
        states = self.wanted(time, s.horizon + 1)[0]
        plan = Plan(time, states, self.trim(states[:-1, TURN]))
        return self.converged(plan, state)

    def step(self, plan: Plan, time: float, state: Array) -> Plan:
        """Return the next plan, whose first command is to be held for a step."""
        moved = round((time - plan.time) / self.settings.step)
        a, s = self.flyer.actuators, self.settings
        tolerance = 0.5 * s.settled * float(np.min(a.upper - a.lower))
        return self.converged(self._shifted(plan, moved, time), state, tolerance, s.iterations)

    def converged(self, plan: Plan, state: Array, tolerance: float = 1e-9, most: int = 50) -> Plan:
        """Return the plan to which iterations of the same problem converge.

        Args:
            state: x̂ at the plan's time, shape (13,).
            tolerance: On the change of commands [their unit].
            most: Largest number of iterations.
        """
        wanted = self.wanted(plan.time, self.settings.horizon + 1)
        for _ in range(most):
            before, plan = plan, self._iterated(plan, state, wanted)
            if np.max(np.abs(plan.commands - before.commands)) < tolerance:
                break
        return plan

    def _shifted(self, plan: Plan, moved: int, time: float) -> Plan:
        states, commands = plan.states, plan.commands
        for _ in range(min(moved, self.settings.horizon)):
            commands = np.vstack((commands[1:], commands[-1:]))
            ahead = self.model.advanced(states[-1:], commands[-1:], self.settings.step)
            states = np.vstack((states[1:], unit_turns(ahead)))
        return Plan(time, states, commands)

    def wanted(self, time: float, count: int) -> tuple[Array, Array]:
        """Return the reference's states and angular velocities in the world, a step apart."""
        times = time + self.settings.step * np.arange(count, dtype=float)
        return self.reference.states(np.asarray(times, dtype=float))

    def errors(self, states: Array, wanted: Array, spin: Array) -> tuple[Array, Array]:
        """Return weighted errors e(x_k), shape (N, 12), and their derivatives, (N, 12, 13).

        Args:
            spin: Its angular velocity in the world, shape (N, 3) [rad/s].
        """
        made, slope = np.empty((len(states), 12)), np.zeros((len(states), 12, STATE))
        made[:, 0:3] = states[:, PLACE] - wanted[:, PLACE]
        slope[:, 0:3, PLACE] = slope[:, 6:9, SPEED] = slope[:, 9:12, SPIN] = np.eye(3)
        made[:, 3:6], slope[:, 3:6, TURN] = attitude_error(wanted[:, TURN], states[:, TURN])
        made[:, 6:9] = states[:, SPEED] - wanted[:, SPEED]
        made[:, 9:12], slope[:, 9:12, TURN] = rate_error(states[:, SPIN], states[:, TURN], spin)
        weights = np.tile(self.weights, (len(states), 1))
        weights[-1] *= np.sqrt(self.settings.last)
        return weights * made, weights[:, :, None] * slope

    def _iterated(self, plan: Plan, state: Array, wanted: tuple[Array, Array]) -> Plan:
        """Return the plan after one Gauss-Newton step: linearisation and quadratic programme."""
        now, states, commands = state.copy(), plan.states, plan.commands
        if now[TURN] @ states[0, TURN] < 0.0:
            now[TURN] *= -1.0  # the same attitude, as the plan writes it
        horizon, n = commands.shape
        ahead, slope = self.model.advanced_with_slope(states[:-1], commands, self.settings.step)
        errors, by_state = self.errors(states, *wanted)
        drift = np.empty((horizon + 1, STATE))
        drift[0] = now - states[0]
        moves = np.zeros((horizon + 1, STATE, horizon * n))
        by_commands = np.zeros((horizon + 1, errors.shape[1], horizon * n))
        _condense(slope, ahead - states[1:], by_state, drift, (moves, by_commands))
        residual = errors + np.einsum("kij,kj->ki", by_state, drift)
        J = by_commands.reshape(-1, horizon * n)
        weight = np.tile(self.effort_weights**2, horizon)
        H = J.T @ J
        H[np.diag_indices_from(H)] += weight
        carrying = self.trim(wanted[0][:-1, TURN])
        f = J.T @ residual.ravel() + weight * (commands - carrying).ravel()
        a = self.flyer.actuators
        change = _solved(H, f, (a.lower - commands).ravel(), (a.upper - commands).ravel())
        if change is None:
            return Plan(plan.time, states.copy(), commands, False)
        states = unit_turns(states + drift + (moves @ change))
        commands = np.clip(commands + change.reshape(commands.shape), a.lower, a.upper)
        return Plan(plan.time, states, commands)


@exact
def _condense(slope: Array, gaps: Array, weights: Array, drift: Array, out: Any) -> None:
    """Write the sensitivities of states, and of their weighted errors, to all commands.

    Args:
        slope: Derivatives of each step by state and command, shape (N, 13, 13 + n).
        gaps: By which each step misses the next state, shape (N, 13).
        weights: Derivatives of weighted errors, shape (N + 1, e, 13).
        drift: Changes of the states at unchanged commands, shape (N + 1, 13); the first is given,
            the others are written.
        out: Sensitivities to commands, of states (N + 1, 13, N n) and of errors (N + 1, e, N n),
            zero where nothing is written.
    """
    moves, errors = out
    count, n = len(slope), slope.shape[2] - STATE
    for k in range(count):
        width = k * n
        for i in range(STATE):
            drift[k + 1, i] = gaps[k, i]
            for j in range(STATE):
                factor = slope[k, i, j]
                if factor != 0.0:
                    drift[k + 1, i] += factor * drift[k, j]
                    for c in range(width):
                        moves[k + 1, i, c] += factor * moves[k, j, c]
            for j in range(n):
                moves[k + 1, i, width + j] = slope[k, i, STATE + j]
        for i in range(weights.shape[1]):
            for j in range(STATE):
                factor = weights[k + 1, i, j]
                if factor != 0.0:
                    for c in range(width + n):
                        errors[k + 1, i, c] += factor * moves[k + 1, j, c]


def _solved(H: Array, f: Array, low: Array, high: Array) -> Array | None:
    """Return the x that minimises ½ xᵀHx + fᵀx within a box; None where none was found.

    The active set begins as that of x = 0, which is the last plan's.
    """
    try:
        import daqp
    except ImportError as problem:
        raise InvalidSetting(
            "predictive tracking needs DAQP, a solver of quadratic problems",
            argument="PredictiveTracking",
            cure=install("flight"),
        ) from problem
    start = np.clip(np.zeros(len(f)), low, high)
    sense = np.zeros(len(f), dtype=np.int32)
    x, _, flag, _ = daqp.solve(H, f, np.empty((0, len(f))), high, low, sense, primal_start=start)
    return np.asarray(x) if flag == 1 else None


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    slope = np.zeros((2, STATE, STATE + 6))
    moved = np.zeros((3, STATE, 12)), np.zeros((3, 12, 12))
    _condense(slope, np.zeros((2, STATE)), np.zeros((3, 12, STATE)), np.zeros((3, STATE)), moved)


KERNELS = Kernels((_condense,), warm_up)
