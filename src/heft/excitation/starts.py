"""Starts of a design: random motions that keep all limits, each improved by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.errors import InfeasibleLimits

from .augmented_lagrangian import Progress, Solution, solve
from .design_settings import DesignSettings
from .excitation import Excitation
from .limits import DesignLimits
from .random_motions import draw, resting_posture, shrunk

TRIALS = (1.0, 0.999, 0.996, 0.984, 0.94, 0.75, 0.5, 0.25, 0.1, 0.03)  # shares of a motion


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
    drawn = draw(problem, limits.joints, settings.random, rng, settings.draws)
    first = list(islice(drawn, settings.starts))
    found: list[Array] = []
    for X in chain(first, drawn) if excess <= 0.0 else ():
        kept = shrunk(problem, X, posture)
        found += [] if kept is None else [kept]
        if stop is not None and stop.is_set() and found:
            break
    return found or _bent(problem, limits, settings, first), posture


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
    pushed = replace(at, parts=_split(least.multipliers, at.parts))
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


def _split(flat: Array, parts: tuple[Array, ...]) -> tuple[Array, ...]:
    ends = np.cumsum([p.size for p in parts])[:-1]
    pieces = np.split(flat, ends)
    return tuple(x.reshape(p.shape) for x, p in zip(pieces, parts, strict=True))


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
        posture: Posture about which motions are shrunk, shape (d,) [rad or m].
        progress: Called after each round.
        stop: Ends it after the steps at hand, once set.
    """

    def work(k: int) -> tuple[Array, Start]:
        def report(rounds: int, evaluations: int, value: float, violation: float) -> None:
            if progress is not None:
                progress(Progress(k, rounds, evaluations, value, violation))

        def solved(problem: Excitation, X: Array) -> Solution:
            return solve(problem, X, _unit(limits), settings.solver, stop, report)

        found = solved(levels.coarse, chosen[k])
        X, start = _kept(levels, chosen[k], found, posture)
        stopped = stop is not None and stop.is_set()
        if start.shrunk >= settings.enough or stopped:
            return X, start
        again = solved(levels.middle, found.X)
        other, second = _kept(levels, chosen[k], again, posture)
        rounds, spent = found.rounds + again.rounds, found.evaluations + again.evaluations
        if second.value > start.value:
            X, start = other, second
        return X, replace(start, rounds=rounds, evaluations=spent)

    return side_by_side(work, range(len(chosen)), settings.workers)


def _kept(levels: Levels, first: Array, found: Solution, posture: Array) -> tuple[Array, Start]:
    """Return the largest share of a solution that keeps all limits on the fine grid.

    The random motion that it began with, if that is better: a start that was stopped early.
    """
    coarse = levels.coarse

    def of(X: Array) -> tuple[Array, float, float]:
        share = largest_share(levels.fine, X, posture)
        still = coarse.family.still(posture)
        kept = still + share * (X - still)
        return kept, share, coarse.at(kept).value if share else -np.inf

    trials = [of(found.X), of(first)]
    share = trials[0][1]
    X, _, worth = max(trials, key=lambda t: t[2])
    value, spent = coarse.at(first).value, found.evaluations
    return X, Start(value, worth, found.violation, share, found.rounds, spent)


def largest_share(problem: Excitation, X: Array, posture: Array, steps: int = 12) -> float:
    """Return the largest share of a motion about a posture that keeps all limits; 0 if none.

    By bisection: what is broken little is kept by a motion that is little smaller.

    Args:
        X: Unknowns, shape (u, d).
        posture: Shape (d,) [rad or m].
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
