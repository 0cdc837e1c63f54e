"""Compiled recursive filters along the rows of matrices, all columns at once."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact


@exact
def _pass(sections: Array, settled: Array, rows: Array, backwards: bool) -> None:
    """Filter rows in place by sections of second order, one after the other.

    Args:
        sections: `b₀ b₁ b₂ 1 a₁ a₂` of each, shape (sections, 6).
        settled: State of each that a constant input of one leaves, shape (sections, 2).
        rows: Shape (n, columns); the filter has settled to the first of them.
        backwards: Whether the last row is the first.
    """
    count, columns = rows.shape
    state = np.empty((len(sections), 2, columns))
    first = count - 1 if backwards else 0
    for s in range(len(sections)):
        for c in range(columns):
            state[s, 0, c] = settled[s, 0] * rows[first, c]
            state[s, 1, c] = settled[s, 1] * rows[first, c]
    for n in range(count):
        k = count - 1 - n if backwards else n
        for s in range(len(sections)):
            b0, b1, b2 = sections[s, 0], sections[s, 1], sections[s, 2]
            a1, a2 = sections[s, 4], sections[s, 5]
            for c in range(columns):
                x = rows[k, c]
                y = b0 * x + state[s, 0, c]
                state[s, 0, c] = b1 * x - a1 * y + state[s, 1, c]
                state[s, 1, c] = b2 * x - a2 * y
                rows[k, c] = y


@exact
def to_and_fro(sections: Array, settled: Array, rows: Array) -> None:
    """Filter rows in place forwards and then backwards; see `_pass`."""
    _pass(sections, settled, rows, False)
    _pass(sections, settled, rows, True)


@exact
def recur(coefficients: Array, rows: Array) -> None:
    """Filter rows in place by `y_k = x_k + Σ_i a_i y_{k+i}`.

    Args:
        coefficients: a_i, shape (order,).
        rows: x, shape (n, columns).
    """
    count, columns = rows.shape
    for n in range(1, count):
        k = count - 1 - n
        for i in range(min(n, len(coefficients))):
            for c in range(columns):
                rows[k, c] += coefficients[i] * rows[k + 1 + i, c]


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    rows = np.zeros((2, 1))
    to_and_fro(np.zeros((1, 6)), np.zeros((1, 2)), rows)
    recur(np.zeros(1), rows)


KERNELS = Kernels((to_and_fro, recur), warm_up)
