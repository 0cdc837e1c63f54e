"""Augmented Lagrangian with L-BFGS: a maximum under many smooth inequality constraints.

Powell, Hestenes and Rockafellar's form [Nocedal2006, section 17.4]: with penalty ρ and multipliers
λ each round minimises

    −φ(x) + Σ (max(0, λ + ρ c)² − λ²) / 2ρ,    then λ ← max(0, λ + ρ c)

so a round needs one gradient with `max(0, λ + ρ c)` in the place of multipliers, and no Jacobian of
the constraints.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from heft.arrays import Array

from .excitation import At, Excitation

UNBOUNDED = 1e12  # in the place of an infinite objective, which a line search would not survive


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver; its effort grows from round to round.

    Attributes:
        penalty: First ρ [nats per squared share of a limit].
    """

    penalty: float = 30.0  # on arms and limits that are not scored, 30 to 1000 were tried
    growth: float = 5.0  # factor of ρ where a round did not bring constraints down enough
    fall: float = 0.3  # share of the former violation that is enough
    rounds: int = 12  # largest number
    iterations: int = 60  # of L-BFGS in the first round
    more: int = 20  # further ones in each later round
    memory: int = 30  # pairs of L-BFGS
    feasible: float = 1e-3  # largest violation at the end, as a share of a limit
    # share of the former violation above which limits alone cannot be met better
    stuck: float = 0.98
    settled: float = 0.05  # change of φ from round to round below which it has converged [nats]


@dataclass(frozen=True)
class Progress:
    """Progress of the solver from one start."""

    start: int  # its number
    round: int  # of the augmented Lagrangian
    evaluations: int  # so far
    value: float  # φ
    violation: float  # largest share of a limit by which it is broken; negative if none is


@dataclass(frozen=True, eq=False)
class Solution:
    """Result of the solver from one start."""

    X: Array  # unknowns, shape (u, d)
    value: float  # φ
    violation: float  # largest share of a limit by which it is broken; negative if none is
    multipliers: Array  # λ of the flat constraints
    rounds: int  # of the augmented Lagrangian
    evaluations: int  # of value and gradient


@dataclass
class _Search:
    problem: Excitation
    unit: Array
    worth: float
    penalty: float
    multipliers: Array
    evaluations: int = 0

    def unknowns(self, x: Array) -> Array:
        return np.asarray(x.reshape(-1, len(self.unit)) * self.unit)

    def total(self, x: Array) -> tuple[float, Array]:
        self.evaluations += 1
        at = self.problem.at(self.unknowns(x))
        pushed = np.maximum(0.0, self.multipliers + self.penalty * at.constraints)
        penalty = float(pushed @ pushed - self.multipliers @ self.multipliers) / 2.0 / self.penalty
        value = penalty - self.worth * at.value if self.worth else penalty
        if not np.isfinite(value):
            return UNBOUNDED, np.zeros_like(x)
        gradient = self.problem.gradient(at, pushed, self.worth) * self.unit
        return value, gradient.ravel()

    def learn(self, at: At, former: float, settings: SolverSettings) -> None:
        self.multipliers = np.maximum(0.0, self.multipliers + self.penalty * at.constraints)
        violation = float(at.constraints.max())
        if violation > max(settings.fall * former, settings.feasible):
            self.penalty *= settings.growth


def solve(
    problem: Excitation,
    X: Array,
    unit: Array,
    settings: SolverSettings,
    stop: threading.Event | None = None,
    report: Callable[[int, int, float, float], None] | None = None,
    worth: float = 1.0,
) -> Solution:
    """Return the motion that the solver reaches from a start, or had reached when stopped.

    Args:
        X: Unknowns to begin with, shape (u, d).
        unit: Usual size of each coordinate's unknowns, shape (d,) [rad or m].
        stop: Ends it after the step at hand, once set.
        report: Called after each round with round, evaluations, value and violation.
        worth: Weight of the criterion; 0 finds a motion that breaks limits least.
    """
    at = problem.at(X)
    empty = np.zeros_like(at.constraints)
    enough = settings.feasible if worth else 0.0
    search = _Search(problem, unit, worth, settings.penalty, empty)
    x, former, value = (X / unit).ravel(), np.inf, at.value

    def halt(_: Array) -> None:
        if stop is not None and stop.is_set():
            raise StopIteration

    rounds = 0
    for rounds in range(1, settings.rounds + 1):
        steps = settings.iterations + settings.more * (rounds - 1)
        options = {"maxiter": steps, "maxcor": settings.memory, "maxfun": 2 * steps}
        found = minimize(
            search.total, x, jac=True, method="L-BFGS-B", callback=halt, options=options
        )
        x, before = found.x, value
        at = problem.at(search.unknowns(x))
        value, violation = at.value, float(at.constraints.max())
        search.learn(at, former, settings)
        if report is not None:
            report(rounds, search.evaluations, value, violation)
        settled = abs(value - before) < settings.settled or not worth
        if violation <= enough and settled:
            break
        stuck = not worth and violation > settings.stuck * former
        if stuck or (stop is not None and stop.is_set()):
            break
        former = violation
    violation = float(at.constraints.max())
    found_X = search.unknowns(x)
    return Solution(found_X, value, violation, search.multipliers, rounds, search.evaluations)
