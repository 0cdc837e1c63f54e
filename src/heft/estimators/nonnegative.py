"""Least squares of numbers that are not negative, from a point near the solution.

Of each number and its slope, the derivative of half the sum of squares, one is zero and neither is
negative. All that are wrong are exchanged at once, which ends after a few solutions or, where
columns are nearly dependent, never [Portugal1994]. Then numbers become positive one at a time and
those that would fall below zero stop there, by which the sum of squares falls each time
[Lawson1974].
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array

FALLING = 1e-12  # slope that may be rounding, as a share of the column's and the right's length
STEPS = 10  # most of them one at a time, for each number: rounding could make them go round


def nonnegative(factor: Array, right: Array, start: Array, exchanges: int = 12) -> Array:
    """Return x ≥ 0 with the least `‖F x − r‖`, shape (n,).

    Args:
        factor: F, whose columns that are not zero are independent, shape (m, n).
        right: r, shape (m,).
        start: A point x ≥ 0, shape (n,); nearness saves time.
        exchanges: Most exchanges of all wrong signs at once, before unknowns change sign one at a
            time.
    """
    lengths = np.linalg.norm(factor, axis=0) * np.linalg.norm(right)
    lengths = np.maximum(lengths, np.finfo(float).tiny)
    positive = start > 0.0
    for _ in range(exchanges):
        x = _with_zeros(factor, right, positive)
        falling = ~positive & (_slopes(factor, right, x) < -FALLING * lengths)
        wrong = (x < 0.0) | falling
        if not wrong.any():
            return x
        positive = positive ^ wrong
    return _one_at_a_time(factor, right, start, lengths)


def _one_at_a_time(factor: Array, right: Array, start: Array, lengths: Array) -> Array:
    """Return the solution of `nonnegative` by steps each of which decreases the sum of squares."""
    x, positive = start.copy(), start > 0.0
    refused = np.zeros(len(x), dtype=bool)
    newest: int | None = None
    for _ in range(STEPS * len(x)):
        ahead = _with_zeros(factor, right, positive)
        if newest is not None and ahead[newest] <= 0.0:  # what its slope said was rounding
            positive[newest], refused[newest] = False, True
            newest = None
            continue
        below = np.flatnonzero(ahead < 0.0)
        if len(below):
            share = x[below] / (x[below] - ahead[below])
            x = x + share.min() * (ahead - x)
            positive[below[share <= share.min()]] = False
            x[~positive] = 0.0
            newest = None
            continue
        if newest is not None:
            refused[:] = False
        x = ahead
        slopes = np.where(positive | refused, 0.0, _slopes(factor, right, x) / lengths)
        newest = int(np.argmin(slopes))
        if slopes[newest] >= -FALLING:
            break
        positive[newest] = True
    return x


def _with_zeros(factor: Array, right: Array, positive: NDArray[np.bool_]) -> Array:
    """Return least squares of the `positive` unknowns, all others being zero, shape (n,)."""
    x = np.zeros(len(positive))
    count = int(positive.sum())
    rows = np.column_stack([factor[:, positive], right])
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))
    x[positive] = scipy.linalg.solve_triangular(triangle[:count, :count], triangle[:count, -1])
    return x


def _slopes(factor: Array, right: Array, x: Array) -> Array:
    return np.asarray(factor.T @ (factor @ x - right))
