"""Linear equations Y β = τ of a problem's samples, and their residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array


@dataclass(frozen=True)
class Equations:
    """Rows `Y β = τ` of one window.

    Attributes:
        regressor: Y, shape (N, m, b).
        effort: Measured τ, shape (N, m) [channel's unit].
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int


@dataclass(frozen=True)
class Residuals:
    """Residuals τ − Y β of a contiguous piece of rows.

    Attributes:
        values: τ − Y β, shape (N, m) [channel's unit].
        regressor: Function of n positions in the piece; returns Y there, shape (n, m, b).
        recording: Position of the recording in the problem.
        index: Sample index of each row, shape (N,); None where a row combines many samples.
    """

    values: Array
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int
    index: NDArray[np.int64] | None
