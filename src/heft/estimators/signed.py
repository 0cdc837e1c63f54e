"""Least squares of numbers that are not negative.

Of each number and its slope, the derivative of half the sum of squares, one is zero and neither is
negative. All that are wrong are exchanged at once, which ends after a few solutions or, where
columns are nearly dependent, never. Then numbers become positive one at a time, and those that
would fall below zero stop there, which ends [Lawson1974].
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array

FALLING = 1e-12  # slope that may be rounding, as a share of the column's and the right's length


def nonnegative(factor: Array, right: Array, start: Array, exchanges: int = 12) -> Array:
    """Return x ≥ 0 with the least `‖F x − r‖`, shape (n,).

    Args:
        factor: F, whose columns that are not zero are independent, shape (m, n).
        right: r, shape (m,).
        start: A point x ≥ 0, shape (n,); nearness saves time.
        exchanges: Most exchanges of all wrong signs at once, before they change one at a time.
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
    x, positive, new = start, start > 0.0, -1
    stuck = np.zeros(len(start), dtype=bool)  # zero by rounding, though its slope is negative
    while True:
        while ((aim := _with_zeros(factor, right, positive)) < 0.0).any():
            ends = np.full(len(x), np.inf)
            np.divide(x, x - aim, out=ends, where=aim < 0.0)
            x, positive = x + ends.min() * (aim - x), positive & (ends > ends.min())
            x[~positive] = 0.0
        x = aim
        if new >= 0:
            stuck &= not positive[new]
            stuck[new] = not positive[new]
        slopes = np.where(positive | stuck, 0.0, _slopes(factor, right, x) / lengths)
        if not (slopes < -FALLING).any():
            return x
        new = int(np.argmin(slopes))
        positive[new] = True


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
