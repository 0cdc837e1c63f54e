"""Rows of one channel, on the columns that it sees: those of other limbs are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array


@dataclass(frozen=True, eq=False)
class ChannelRows:
    """Rows of one channel at N samples; columns that are not among its own are zero."""

    columns: NDArray[np.intp]  # positions of its k columns, ascending, shape (k,)
    values: Array  # shape (N, k) [channel's unit / column's unit]

    @staticmethod
    def of_each(regressor: Array) -> tuple[ChannelRows, ...]:
        """Return the rows of each channel of a regressor Y, shape (N, c, b), on all its columns."""
        every = np.arange(regressor.shape[2])
        return tuple(ChannelRows(every, regressor[:, c]) for c in range(regressor.shape[1]))

    @staticmethod
    def nothing(count: int) -> ChannelRows:
        """Return N = `count` rows that are zero in all columns."""
        return ChannelRows(np.empty(0, dtype=np.intp), np.zeros((count, 0)))

    @staticmethod
    def joined(parts: Sequence[ChannelRows]) -> ChannelRows:
        """Return rows on the same columns, concatenated."""
        return ChannelRows(parts[0].columns, np.concatenate([p.values for p in parts]))

    @staticmethod
    def below(parts: Sequence[ChannelRows]) -> ChannelRows:
        """Return rows on different columns of one channel, stacked, on the columns of all."""
        columns = np.unique(np.concatenate([p.columns for p in parts]))
        values, first = np.zeros((sum(len(p.values) for p in parts), len(columns))), 0
        for part in parts:
            last = first + len(part.values)
            values[first:last, np.searchsorted(columns, part.columns)] = part.values
            first = last
        return ChannelRows(columns, values)

    @staticmethod
    def total(parts: Sequence[ChannelRows]) -> ChannelRows:
        """Return the sum of rows of the same samples, on the columns of all of them."""
        columns = np.unique(np.concatenate([p.columns for p in parts]))
        values = np.zeros((len(parts[0].values), len(columns)))
        for part in parts:
            values[:, np.searchsorted(columns, part.columns)] += part.values
        return ChannelRows(columns, values)

    @staticmethod
    def held(rows: Array) -> ChannelRows:
        """Return rows restricted to their nonzero columns.

        Args:
            rows: On all columns, shape (N, b).
        """
        columns = np.flatnonzero(rows.any(axis=0))
        return ChannelRows(columns, rows[:, columns])

    def mapped(self, matrix: Array) -> ChannelRows:
        """Return the rows on y, `matrix @ y` being all columns: shape (columns, n)."""
        return ChannelRows.held(np.asarray(self.values @ matrix[self.columns]))

    def spread(self, size: int) -> Array:
        """Return the rows on all `size` columns, shape (N, size)."""
        wide = np.zeros((len(self.values), size))
        wide[:, self.columns] = self.values
        return wide
