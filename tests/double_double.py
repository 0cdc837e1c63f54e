"""Double-double arithmetic: a number as the unevaluated sum of two doubles, 32 digits.

The oracle of least squares: a solution that is right to nearly all digits of a double. Error-free
sums and products are Knuth's and Dekker's [Dekker1971].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.information import Triangle

SPLITTER = 134217729.0  # 2**27 + 1: halves a double's 53 bits


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@dataclass(frozen=True)
class Extended:
    """An array of double-doubles, `high + low` with |low| ≤ ½ ulp(high)."""

    high: Array
    low: Array

    @staticmethod
    def of(values: Array) -> Extended:
        """Return doubles as double-doubles, exactly."""
        high = np.asarray(values, dtype=float)
        return Extended(high, np.zeros_like(high))

    def __add__(self, other: Extended) -> Extended:
        total, error = _two_sum(self.high, other.high)
        return Extended(*_two_sum(total, error + (self.low + other.low)))

    def __neg__(self) -> Extended:
        return Extended(-self.high, -self.low)

    def __sub__(self, other: Extended) -> Extended:
        return self + (-other)

    def __mul__(self, other: Extended) -> Extended:
        product, error = _two_product(self.high, other.high)
        return Extended(*_two_sum(product, error + (self.high * other.low + self.low * other.high)))

    def __truediv__(self, other: Extended) -> Extended:
        first = self.high / other.high
        rest = self - other * Extended.of(first)
        second = rest.high / other.high
        return Extended(*_two_sum(first, second))

    def __getitem__(self, index: Any) -> Extended:
        return Extended(self.high[index], self.low[index])

    def sum(self) -> Extended:
        """Return the sum over the first axis, added in pairs."""
        rest = self
        while rest.high.shape[0] > 1:
            even = rest.high.shape[0] // 2 * 2
            paired = rest[0:even:2] + rest[1:even:2]
            if even < rest.high.shape[0]:
                paired = Extended(
                    np.concatenate([paired.high, rest.high[even:]]),
                    np.concatenate([paired.low, rest.low[even:]]),
                )
            rest = paired
        return rest[0]


def stack(parts: list[Extended]) -> Extended:
    """Return the parts along a new last axis."""
    return Extended(
        np.stack([p.high for p in parts], axis=-1), np.stack([p.low for p in parts], axis=-1)
    )


def solve_refined(blocks: Iterable[tuple[Array, Array]], triangle: Triangle) -> Array:
    """Return the least-squares solution of rows, correct to nearly all digits of a double.

    The triangle R (in double) serves as a preconditioner: with `Ã = Y R⁻¹`, whose columns are
    all but orthonormal, `G = ÃᵀÃ` and `g = Ãᵀτ` are summed over the blocks in double-double.
    Since G is near the identity, `G y = g` and `R x = y` lose no digits that matter.

    Args:
        blocks: Rows again, as pairs Y of shape (m, p) and τ of shape (m,).
        triangle: Their triangle, of any weight of columns.
    """
    size = len(triangle.columns)
    factor = Extended.of(triangle.R)
    gram = [[Extended.of(np.zeros(())) for _ in range(size)] for _ in range(size)]
    moment = [Extended.of(np.zeros(())) for _ in range(size)]
    for regressor, effort in blocks:
        columns: list[Extended] = []
        for j in range(size):
            column = Extended.of(regressor[:, j])
            for i in range(j):
                column = column - columns[i] * factor[i, j]
            columns.append(column / factor[j, j])
        for i in range(size):
            moment[i] = moment[i] + (columns[i] * Extended.of(effort)).sum()
            for j in range(i, size):
                gram[i][j] = gram[i][j] + (columns[i] * columns[j]).sum()
    rounded = np.array(
        [[float(gram[min(i, j)][max(i, j)].high) for j in range(size)] for i in range(size)]
    )
    solution = stack([Extended.of(np.zeros(())) for _ in range(size)])
    for _ in range(8):  # each sweep gains the digits that cond(G) ≈ 1 leaves: nearly sixteen
        gap = []
        for i in range(size):
            rest = moment[i]
            for j in range(size):
                rest = rest - gram[min(i, j)][max(i, j)] * solution[j]
            gap.append(float(rest.high))
        step = np.linalg.solve(rounded, np.array(gap))
        solution = solution + Extended.of(step)
        if np.abs(step).max() <= 1e-31 * np.abs(solution.high).max():
            break
    values: list[Extended] = [Extended.of(np.zeros(()))] * size
    for i in reversed(range(size)):
        rest = solution[i]
        for j in range(i + 1, size):
            rest = rest - factor[i, j] * values[j]
        values[i] = rest / factor[i, i]
    return np.array([float(v.high) for v in values])
