"""Linear equations Y β = τ of a problem's samples, and their residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows

from .elimination import Elimination


@dataclass(frozen=True)
class Equations:
    """Rows `Y β = τ` of one window, without what acts unmeasured.

    Attributes:
        regressor: Y, shape (N, m, b).
        effort: Measured τ, shape (N, m) [channel's unit].
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
        elimination: What took unknowns of the samples out of both; None where there are none.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int
    elimination: Elimination | None = None


@dataclass(frozen=True)
class Residuals:
    """Residuals τ − Y β of a contiguous piece of rows.

    Attributes:
        values: τ − Y β, shape (N, m) [channel's unit].
        regressor: Function of n positions in the piece; returns Y there, shape (n, m, b).
        recording: Position of the recording in the problem.
        index: Sample index of each row, shape (N,); None where a row combines many samples.
        elimination: What took unknowns of the samples out; None where there are none.
        by_channel: The same as `regressor`, channel by channel; of that if not given.
    """

    values: Array
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int
    index: NDArray[np.int64] | None
    elimination: Elimination | None = None
    by_channel: Callable[[NDArray[np.intp]], tuple[ChannelRows, ...]] | None = None

    def channel_rows(self, at: NDArray[np.intp]) -> tuple[ChannelRows, ...]:
        """Return Y at n positions in the piece, channel by channel, without known zeros."""
        if self.by_channel is None:
            return ChannelRows.of_each(self.regressor(at))
        return self.by_channel(at)

    @property
    def noise(self) -> Array:
        """Residuals of the size of the channels' noise ε, shape (N, m) [channel's unit].

        The elimination of unknowns leaves `√M_cc` of it; 0 where it leaves nothing.
        """
        if self.elimination is None:
            return self.values
        share = self.elimination.redundancy
        return np.where(share > 0.0, self.values / np.sqrt(np.where(share > 0.0, share, 1.0)), 0.0)
