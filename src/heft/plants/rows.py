"""Linear equations Y β = τ of a problem's samples, and their residuals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, Information, Labels

from .elimination import Elimination


@dataclass(frozen=True, eq=False)
class Equations:
    """Rows `Y β = τ` of one window, unknowns of its samples eliminated."""

    by_channel: tuple[ChannelRows, ...]  # Y, channel by channel, without known zeros
    size: int  # number b of columns
    effort: Array  # measured τ, shape (N, m) [channel's unit]
    time: Array  # shape (N,) [s]
    recording: int  # position of the recording in the problem
    # what took unknowns of the samples out of both; None where there are none
    elimination: Elimination | None = None

    @staticmethod
    def of(
        regressor: Array,
        effort: Array,
        time: Array,
        recording: int,
        elimination: Elimination | None = None,
    ) -> Equations:
        """Return equations of a regressor Y of all channels and columns, shape (N, m, b)."""
        rows = ChannelRows.of_each(regressor)
        made = Equations(rows, regressor.shape[2], effort, time, recording, elimination)
        vars(made)["regressor"] = regressor  # which need not be put together again
        return made

    @cached_property
    def regressor(self) -> Array:
        """Y of all channels and columns, shape (N, m, b)."""
        return np.stack([rows.spread(self.size) for rows in self.by_channel], axis=1)

    @staticmethod
    def joined(parts: Sequence[Equations]) -> Equations:
        """Concatenate equations of one recording that have no eliminated unknowns."""
        if len(parts) == 1:
            return parts[0]
        each = zip(*(p.by_channel for p in parts), strict=True)
        return replace(
            parts[0],
            by_channel=tuple(ChannelRows.joined(rows) for rows in each),
            effort=np.concatenate([p.effort for p in parts]),
            time=np.concatenate([p.time for p in parts]),
        )

    def residuals(self, values: Array) -> Array:
        """Return τ − Y β, shape (N, m).

        Args:
            values: β, shape (b,).
        """
        predicted = [rows.values @ values[rows.columns] for rows in self.by_channel]
        return np.asarray(self.effort - np.stack(predicted, axis=1))

    def information(self, labels: Labels, channels: Sequence[str], cut: slice) -> Information:
        """Return the information of some of the rows.

        Raises:
            InvalidRecording: If a number is not finite.
        """
        parts = tuple(ChannelRows(r.columns, r.values[cut]) for r in self.by_channel)
        return Information.from_channel_rows(labels, channels, parts, self.effort[cut])


@dataclass(frozen=True)
class Residuals:
    """Residuals τ − Y β of a contiguous piece of rows."""

    values: Array  # τ − Y β, shape (N, m) [channel's unit]
    # function of n positions in the piece; returns Y there, shape (n, m, b)
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int  # position of the recording in the problem
    # sample index of each row, shape (N,); None where a row combines many samples
    index: NDArray[np.int64] | None
    # what took unknowns of the samples out; None where there are none
    elimination: Elimination | None = None
    # the same as `regressor`, channel by channel; of that if not given
    by_channel: Callable[[NDArray[np.intp]], tuple[ChannelRows, ...]] | None = None

    def channel_rows(self, at: NDArray[np.intp]) -> tuple[ChannelRows, ...]:
        """Return Y at n positions in the piece, channel by channel, without known zeros."""
        if self.by_channel is None:
            return ChannelRows.of_each(self.regressor(at))
        return self.by_channel(at)

    @property
    def noise(self) -> Array:
        """Residuals scaled to the size of the channels' noise ε, shape (N, m) [channel's unit].

        The elimination of unknowns leaves `√M_cc` of it; 0 where it leaves nothing.
        """
        if self.elimination is None:
            return self.values
        share = self.elimination.redundancy
        return np.where(share > 0.0, self.values / np.sqrt(np.where(share > 0.0, share, 1.0)), 0.0)
