"""Starts of a design: random motions within limits, each improved by itself.

By an augmented Lagrangian with L-BFGS, a maximum under many smooth inequality constraints: Powell,
Hestenes and Rockafellar's form [Nocedal2006, section 17.4]. With penalty ρ and multipliers λ each
round minimises

    −φ(x) + Σ (max(0, λ + ρ c)² − λ²) / 2ρ,    then λ ← max(0, λ + ρ c)

so a round needs one gradient with `max(0, λ + ρ c)` in the place of multipliers, and no Jacobian of
the constraints.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
from scipy.optimize import minimize

from heft.arrays import Array
from heft.engine import side_by_side
from heft.errors import InfeasibleLimits

from .design_settings import DesignSettings, SolverSettings
from .excitation import Excitation
from .limits import DesignLimits, JointLimits

TRIALS = (1.0, 0.999, 0.996, 0.984, 0.94, 0.75, 0.5, 0.25, 0.1, 0.03)  # shares of a motion


def draw(
    problem: Excitation,
    limits: JointLimits,
    count: int,
    rng: np.random.Generator,
) -> Iterator[Array]:
    """Yield unknowns X, shape (u, d), of motions whose joints each use much of their own limits.

    The shape of each joint's motion is uniform over directions, its size a random share of what its
    tightest limit allows, its middle anywhere that leaves it room.
    """
    bounds, family = problem.bounds, problem.family
    still = family.null_space.T @ family.basis.constant
    free = family.start is None
    orders = list(bounds.orders)
    for _ in range(count):
        X = rng.normal(size=(family.unknowns, len(limits.lower)))
        at = bounds.matrices @ X
        q = problem.sampled[0] @ X
        top, bottom = q.max(axis=0), q.min(axis=0)
        if free:
            middle, half = 0.5 * (top + bottom), 0.5 * (top - bottom)
            room = limits.reach / half
        else:
            start = bounds.start
            with np.errstate(divide="ignore"):
                room = np.minimum(
                    (limits.upper - start) / np.maximum(top, 1e-9),
                    (start - limits.lower) / np.maximum(-bottom, 1e-9),
                )
            room = np.minimum(room, limits.reach / (0.5 * (top - bottom)))
        for k, order in enumerate(orders):
            if order:
                room = np.minimum(room, bounds.high[k] / np.abs(at[k]).max(axis=0))
        size = rng.uniform(0.6, 1.0, len(room)) * room  # shares of their own limits
        X = X * size
        if free:
            rest = np.maximum(limits.reach - size * half, 0.0)
            aim = limits.middle + rest * rng.uniform(-1.0, 1.0, len(rest))
            X += np.outer(still, aim - size * middle)
        yield X


def resting_posture(
    problem: Excitation, limits: JointLimits, rng: np.random.Generator, tries: int = 200
) -> tuple[Array, float]:
    """Return a posture at which rest breaks no limit, or least, (d,), and its worst c.

    The middle of the ranges if that will do: motions are shrunk about it.
    """
    family = problem.family
    if family.start is not None:
        posture = np.array(family.start)
        worst = float(problem.at(family.still(posture)).constraints.max())
        return posture, worst
    best, least = limits.middle, np.inf
    for k in range(tries):
        inside = limits.middle + 0.8 * limits.reach * rng.uniform(-1.0, 1.0, len(best))
        posture = limits.middle if k == 0 else np.clip(inside, limits.lower, limits.upper)
        excess = float(problem.at(family.still(posture)).constraints.max())
        if excess < least:
            best, least = posture, excess
        if least < 0.0:
            break
    return best, least


def shrunk(problem: Excitation, X: Array, posture: Array) -> Array | None:
    """Return a motion shrunk about a posture until it breaks no limit; None if even rest does."""
    still = problem.family.still(posture)
    for share in (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05):
        trial = still + share * (X - still)
        if problem.at(trial).constraints.max() <= 0.0:
            return np.asarray(trial)
    return None


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
        unit: Usual size of each coordinate's unknowns, shape (d,) [rad or m].
        report: Called after each round with round, evaluations, value and violation.
        worth: Weight of the criterion; 0 finds a motion that breaks limits least.
    """
    at = problem.at(X)
    # ρ [nats per squared share of a limit]; on arms that are not scored 30 to 1000 were tried first
    multipliers, penalty, evaluations = np.zeros_like(at.constraints), 30.0, 0
    feasible = 1e-3  # largest violation at the end, as a share of a limit
    enough = feasible if worth else 0.0

    def unknowns(x: Array) -> Array:
        return np.asarray(x.reshape(-1, len(unit)) * unit)

    def total(x: Array) -> tuple[float, Array]:
        nonlocal evaluations
        evaluations += 1
        there = problem.at(unknowns(x))
        grown = np.maximum(0.0, multipliers + penalty * there.constraints)
        value = float(grown @ grown - multipliers @ multipliers) / 2.0 / penalty
        value -= worth * there.value if worth else 0.0
        if not np.isfinite(value):
            return 1e12, np.zeros_like(x)  # a line search would not survive an infinite one
        return value, (problem.gradient(there, grown, worth) * unit).ravel()

    def halt(_: Array) -> None:
        if stop is not None and stop.is_set():
            raise StopIteration

    x, former, value, rounds = (X / unit).ravel(), np.inf, at.value, 0
    for rounds in range(1, settings.rounds + 1):
        steps = settings.iterations + settings.more * (rounds - 1)
        options = {"maxiter": steps, "maxcor": settings.memory, "maxfun": 2 * steps}
        made = minimize(total, x, jac=True, method="L-BFGS-B", callback=halt, options=options)
        x, before = made.x, value
        at = problem.at(unknowns(x))
        value, violation = at.value, float(at.constraints.max())
        multipliers = np.maximum(0.0, multipliers + penalty * at.constraints)
        if violation > max(0.3 * former, feasible):
            penalty *= 5.0
        if report is not None:
            report(rounds, evaluations, value, violation)
        settled = abs(value - before) < settings.settled or not worth
        if violation <= enough and settled:
            break
        stuck = not worth and violation > 0.98 * former  # limits alone cannot be met better
        if stuck or (stop is not None and stop.is_set()):
            break
        former = violation
    violation = float(at.constraints.max())
    return Solution(unknowns(x), value, violation, multipliers, rounds, evaluations)


@dataclass(frozen=True)
class Start:
    """Result of one start."""

    first: float  # φ of the random motion
    value: float  # φ at the end, limits kept on the fine grid; −∞ if they could not be
    violation: float  # largest share of a limit by which the solver's end was broken
    shrunk: float  # share of the solver's motion that keeps all limits on the fine grid
    rounds: int  # of the solver
    evaluations: int  # of value and gradient


@dataclass(frozen=True, eq=False)
class Levels:
    """A design's problem on three grids, with the same columns."""

    coarse: Excitation  # on which motions are compared, and improved first
    # on which those are improved again that break limits between the coarse one's times
    middle: Excitation
    fine: Excitation  # on which limits hold in the end


def feasible_motions(
    problem: Excitation,
    limits: DesignLimits,
    settings: DesignSettings,
    stop: threading.Event | None,
) -> tuple[list[Array], Array]:
    """Return random motions that keep all limits, and a posture to shrink motions about.

    They are shrunk until they do; where no random posture is one to rest in, or none with room for
    any of the motions, some are bent until they do.

    Raises:
        InfeasibleLimits: If none can be.
    """
    rng = np.random.default_rng(settings.seed)
    posture, excess = resting_posture(problem, limits.joints, rng)
    drawn = draw(problem, limits.joints, settings.random, rng)
    first = list(islice(drawn, settings.starts))
    feasible: list[Array] = []
    for X in chain(first, drawn) if excess <= 0.0 else ():
        kept = shrunk(problem, X, posture)
        feasible += [] if kept is None else [kept]
        if stop is not None and stop.is_set() and feasible:
            break
    return feasible or _bent(problem, limits, settings, first), posture


def _bent(
    problem: Excitation, limits: DesignLimits, settings: DesignSettings, motions: list[Array]
) -> list[Array]:
    """Return those of some motions that keep all limits after their violation is minimised.

    Raises:
        InfeasibleLimits: If none does. The motion that breaks limits least is stationary:
            multipliers of those that fight hold one another up, and all others are zero.
    """
    unit = _unit(limits)
    ends = [solve(problem, X, unit, settings.solver, worth=0.0) for X in motions]
    kept = [e.X for e in ends if e.violation <= 0.0]
    if kept:
        return kept
    least = min(ends, key=lambda e: e.violation)
    at = problem.at(least.X)
    pushed = replace(at, parts=at.split(least.multipliers))
    strong = {str(b) for b in problem.broken(pushed) if b.excess > 0.0}
    broken = problem.broken(at)
    fighting = [b for b in broken if str(b) in strong] or broken[:3]
    shown = ", ".join(f"{b} ({b.excess:+.1%})" for b in fighting[:8])
    raise InfeasibleLimits(
        "no motion was found that keeps all limits; these fight",
        argument="limits",
        got=shown,
        expected="values at most 0 %: those of the motion that breaks limits least",
        cure=f"relax one of them, first {fighting[0]}",
    )


def nothing_kept(fine: Excitation, made: list[tuple[Array, Start]]) -> InfeasibleLimits:
    """Return the error of a design whose starts all break limits between the solver's samples."""
    at = min((fine.at(X) for X, _ in made), key=lambda at: float(at.constraints.max()))
    shown = ", ".join(f"{b} ({b.excess:+.1%})" for b in fine.broken(at)[:3])
    return InfeasibleLimits(
        "no motion was found that keeps all limits and tells anything",
        argument="limits",
        got=f"nearest to its limit: {shown}",
        cure="relax that limit, ask for a longer motion, or for more random motions to begin with",
    )


def _unit(limits: DesignLimits) -> Array:
    return np.asarray(np.minimum(limits.joints.reach, np.pi))


def improved(
    levels: Levels,
    limits: DesignLimits,
    settings: DesignSettings,
    chosen: list[Array],
    posture: Array,
    progress: Callable[[Progress], None] | None,
    stop: threading.Event | None,
) -> list[tuple[Array, Start]]:
    """Return each start's motion that keeps all limits on the fine grid, and its result.

    Args:
        chosen: Motions to begin with, which keep all limits on the coarse grid.
    """

    def work(k: int) -> tuple[Array, Start]:
        def report(rounds: int, evaluations: int, value: float, violation: float) -> None:
            if progress is not None:
                progress(Progress(k, rounds, evaluations, value, violation))

        def solved(problem: Excitation, X: Array) -> Solution:
            return solve(problem, X, _unit(limits), settings.solver, stop, report)

        solution = solved(levels.coarse, chosen[k])
        X, start = _kept(levels, chosen[k], solution, posture)
        stopped = stop is not None and stop.is_set()
        if start.shrunk >= 0.98 or stopped:
            return X, start
        again = solved(levels.middle, solution.X)
        other, second = _kept(levels, chosen[k], again, posture)
        rounds, spent = solution.rounds + again.rounds, solution.evaluations + again.evaluations
        if second.value > start.value:
            X, start = other, second
        return X, replace(start, rounds=rounds, evaluations=spent)

    return side_by_side(work, range(len(chosen)), settings.workers)


def _kept(levels: Levels, first: Array, solution: Solution, posture: Array) -> tuple[Array, Start]:
    """Return the largest share of a solution that keeps all limits on the fine grid.

    The random motion that it began with, if that is better: a start that was stopped early.
    """
    coarse = levels.coarse

    def of(X: Array) -> tuple[Array, float, float]:
        share = largest_share(levels.fine, X, posture)
        still = coarse.family.still(posture)
        kept = still + share * (X - still)
        return kept, share, coarse.at(kept).value if share else -np.inf

    trials = [of(solution.X), of(first)]
    share = trials[0][1]
    X, _, worth = max(trials, key=lambda t: t[2])
    value, spent = coarse.at(first).value, solution.evaluations
    return X, Start(value, worth, solution.violation, share, solution.rounds, spent)


def largest_share(problem: Excitation, X: Array, posture: Array, steps: int = 12) -> float:
    """Return the largest share of a motion about a posture that keeps all limits; 0 if none.

    By bisection: what is broken little is kept by a motion that is little smaller.
    """
    still = problem.family.still(posture)

    def keeps(share: float) -> bool:
        return bool(problem.at(still + share * (X - still)).constraints.max() <= 0.0)

    low, high = 0.0, 1.0
    for share in TRIALS:  # from the whole down: distances are not monotonic
        if keeps(share):
            low = share
            break
        high = share
    if low in (0.0, 1.0):
        return low
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
