"""Compiled hit-and-run steps of a normal distribution cut to a convex set; see `heft.compiled`.

The point y has a standard normal distribution. What it must keep are walls `level + walls y`: some
that must not be negative, then ten entries a body, the upper triangle of a symmetric 4×4 matrix
column by column, which must be positive definite. A step goes along one of a pool of directions, to
a point of that line drawn by a slice [Neal2003] that is shortened until its end is feasible. The
set is convex, so what is left of the slice is an interval and the draw is exact. Directions and
what walls change by along them are made once, so that a step costs no product with a matrix.
"""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, reassociated


@reassociated
def _feasible(here: Array, rate: Array, t: float, signs: int, cholesky: Array) -> bool:
    """Return whether walls of values `here + t rate` are kept; `cholesky` is scratch, (4, 4)."""
    for i in range(signs):
        if here[i] + t * rate[i] < 0.0:
            return False
    for first in range(signs, len(here), 10):
        k = first
        for j in range(4):
            for i in range(j + 1):
                pivot = here[k] + t * rate[k]
                for m in range(i):
                    pivot -= cholesky[j, m] * cholesky[i, m]
                if i < j:
                    cholesky[j, i] = pivot / cholesky[i, i]
                elif pivot > 0.0:
                    cholesky[j, j] = np.sqrt(pivot)
                else:
                    return False
                k += 1
    return True


@reassociated(allocates=True)
def walk(
    point: Array,
    feasible: tuple[Array, Array, int],
    pool: tuple[Array, Array],
    every: int,
    rng: np.random.Generator,
    kept: Array,
) -> None:
    """Continue a hit-and-run walk from a point, which is changed, and keep each `every`-th point.

    Args:
        point: y, feasible, shape (k,).
        feasible: Walls, shape (c + 10 b, k), their values at y = 0, shape (c + 10 b,), and the
            number c of those that must not be negative.
        pool: Directions, shape (pool, k), and `directions @ walls.T`.
        every: Steps from one kept point to the next.
        kept: Filled, shape (count, k).
    """
    (walls, level, signs), (directions, rates) = feasible, pool
    size, cholesky = len(point), np.empty((4, 4))
    here = level + walls @ point
    for step in range(1, every * len(kept) + 1):
        chosen = int(rng.random() * len(directions))
        along, rate = directions[chosen], rates[chosen]
        square, product = 0.0, 0.0
        for i in range(size):
            square += along[i] * along[i]
            product += along[i] * point[i]
        middle = -product / square
        half = np.sqrt(middle * middle - 2.0 * np.log(1.0 - rng.random()) / square)
        low, high = middle - half, middle + half
        for _ in range(60):  # cuts of the slice; then the step stays where it is
            t = low + (high - low) * rng.random()
            if _feasible(here, rate, t, signs, cholesky):
                for i in range(size):
                    point[i] += t * along[i]
                for i in range(len(here)):
                    here[i] += t * rate[i]
                break
            if t < 0.0:
                low = t
            else:
                high = t
        if step % 1000 == 0:  # sums of steps gather rounding
            here = level + walls @ point
        if step % every == 0:
            kept[step // every - 1] = point


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    one = np.ones((1, 1))
    feasible, rng = (one, np.ones(1), 1), np.random.default_rng(0)
    walk(np.zeros(1), feasible, (one, one), 1, rng, one.copy())


KERNELS = Kernels((walk,), warm_up)
