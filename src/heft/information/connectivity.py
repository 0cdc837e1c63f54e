"""Components of a matrix: sets of columns that share no row, each a problem of its own.

What a fixed base holds by several limbs is several robots: no joint of one leg carries a body of
the other. Rows then have exact zeros, so has the triangle of their information, and whatever costs
the cube of the number of columns (a QR, singular values, a conic program) is done limb by limb, at
an equal result. Columns are found to belong together by the zeros alone, so that no algorithm needs
to be told of limbs: two columns are connected if some row holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

# Columns below which a matrix is taken as a whole: looking for zeros would cost as much.
FEWEST = 32
# Components beyond which a graph search that touches each entry once costs less than sweeps.
MOST_SWEPT = 12


@dataclass(frozen=True)
class Component:
    """Columns of a matrix that are connected, and the rows that hold something of them."""

    rows: NDArray[np.intp]  # positions of the rows, ascending; none where the columns are zero
    columns: NDArray[np.intp]  # positions of the columns, ascending

    def of(self, matrix: Array) -> Array:
        """Return this part of the matrix, shape (rows, columns)."""
        return matrix[np.ix_(self.rows, self.columns)]


def components(matrix: Array) -> tuple[Component, ...]:
    """Return the components of a matrix, ordered by their first column.

    Columns that are zero are one component, without rows; a row of zeros is in none. A matrix of
    few columns is one component whatever its zeros.

    Args:
        matrix: Shape (m, n).
    """
    m, n = matrix.shape
    if n < FEWEST or m == 0:
        return (Component(np.arange(m), np.arange(n)),)
    nonzero = matrix != 0.0
    if nonzero.all(axis=1).any():  # a row that holds every column connects them
        return (Component(np.arange(m), np.arange(n)),)
    if swept := _swept(nonzero):
        return swept
    rows, columns = np.nonzero(nonzero)
    return _grouped(rows, columns, (m, n))


def _swept(nonzero: NDArray[np.bool_]) -> tuple[Component, ...]:
    """Return the components by sweeps over all entries; empty if there are too many of them.

    A limb takes two or three sweeps, which cost far less than a sparse graph of its entries.

    Args:
        nonzero: Where entries are not zero, shape (m, n).
    """
    unseen = np.asarray(nonzero.any(axis=0))
    empty = np.flatnonzero(~unseen)
    parts = [Component(np.empty(0, dtype=np.intp), empty)] if len(empty) else []
    while unseen.any():
        if len(parts) == MOST_SWEPT:
            return ()
        columns: NDArray[np.bool_] = np.arange(len(unseen)) == np.argmax(unseen)
        count = 0
        while columns.sum() > count:  # until no row brings another column
            count = int(columns.sum())
            rows = (nonzero & columns).any(axis=1)
            columns |= nonzero[rows].any(axis=0)
        parts.append(Component(np.flatnonzero(rows), np.flatnonzero(columns)))
        unseen &= ~columns
    return tuple(sorted(parts, key=lambda part: int(part.columns[0])))


def connected(sets: Sequence[NDArray[np.intp]], size: int) -> tuple[Component, ...]:
    """Return the components of rows of which each holds a known set of columns.

    Args:
        sets: Columns of each row, or of each group of rows.
    """
    if size < FEWEST:
        return (Component(np.arange(len(sets)), np.arange(size)),)
    rows = np.repeat(np.arange(len(sets)), [len(columns) for columns in sets])
    columns = np.concatenate([np.empty(0, dtype=np.intp), *sets])
    return _grouped(rows, columns, (len(sets), size))


def bits(columns: NDArray[np.intp], size: int) -> int:
    """Return a set of columns as a number, the first column its highest bit."""
    mask = np.zeros(-(-size // 8) * 8, dtype=bool)
    mask[columns] = True
    return int.from_bytes(np.packbits(mask).tobytes(), "big") >> (len(mask) - size)


def gram(rows: Array, parts: Sequence[NDArray[np.intp]]) -> Array:
    """Return `rowsᵀ rows`, where most rows are nonzero in columns of one part alone.

    Args:
        rows: Shape (m, n).
        parts: Sets of columns, which together are all columns.

    Returns:
        Shape (n, n).
    """
    if len(parts) == 1:
        return np.asarray(rows.T @ rows)
    nonzero = np.array([np.any(rows[:, own] != 0.0, axis=1) for own in parts])
    shared = rows[nonzero.sum(axis=0) > 1]
    total = np.asarray(shared.T @ shared)
    for own, mine in zip(parts, nonzero & (nonzero.sum(axis=0) == 1), strict=True):
        alone = rows[np.ix_(mine, own)]
        total[np.ix_(own, own)] += alone.T @ alone
    return total


def first_connected(
    rows: NDArray[np.intp], columns: NDArray[np.intp], size: int
) -> NDArray[np.intp]:
    """Return for each column the lowest column connected to it, at most itself, shape (n,).

    Columns take the least number in a row that holds them, until none changes.

    Args:
        rows: Row indices of the nonzero entries, ascending.
        columns: Column indices of the same entries.
    """
    number = np.arange(size)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    while len(starts):
        before = number.copy()
        np.minimum.at(
            number, columns, np.repeat(np.minimum.reduceat(number[columns], starts), counts)
        )
        number = number[number]  # those of the column with the least number go along
        if (number == before).all():
            break
    return number


def _grouped(
    rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, int]
) -> tuple[Component, ...]:
    m, n = shape
    number = first_connected(rows, columns, n)
    number[np.bincount(columns, minlength=n) == 0] = -1  # columns of zeros, all together
    of_row = np.full(m, n)  # a row of zeros is in none
    of_row[rows] = number[columns]
    numbers, first = np.unique(number, return_index=True)
    split = (_by_number(part, numbers) for part in (of_row, number))
    parts = [Component(r, c) for r, c in zip(*split, strict=True)]
    return tuple(parts[k] for k in np.argsort(first))


def _by_number(numbers: NDArray[np.intp], wanted: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], [wanted, wanted + 1])
    return [order[a:b] for a, b in ends.T]
