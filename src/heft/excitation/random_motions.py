"""Random motions within limits: what a design starts from, and is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array

from .excitation import Excitation
from .limits import JointLimits

SHARES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05)  # to which a motion is shrunk to be feasible


@dataclass(frozen=True)
class RandomMotions:
    """How random motions are drawn."""

    least: float = 0.6  # smallest share of each joint's own limits that it uses
    most: float = 1.0  # largest


def draw(
    problem: Excitation,
    limits: JointLimits,
    count: int,
    rng: np.random.Generator,
    how: RandomMotions = RandomMotions(),
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
        size = rng.uniform(how.least, how.most, len(room)) * room
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

    Args:
        tries: Largest number of random postures that are tried.
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
    """Return a motion shrunk about a posture until it breaks no limit; None if even rest does.

    Args:
        X: Unknowns, shape (u, d).
        posture: Shape (d,) [rad or m].
    """
    still = problem.family.still(posture)
    for share in SHARES:
        trial = still + share * (X - still)
        if problem.at(trial).constraints.max() <= 0.0:
            return np.asarray(trial)
    return None
