"""Equations of a problem's samples, and what parameters leave of them."""

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
        effort: τ, what was measured, shape (N, m).
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int


@dataclass(frozen=True)
class Residuals:
    """What is left of a piece of rows without gaps.

    Attributes:
        values: τ − Y β, shape (N, m).
        regressor: Returns Y at some of the rows, shape (n, m, b).
        recording: Position of the recording in the problem.
        index: Rows' positions in the recording; None where a row is made of many.
    """

    values: Array
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int
    index: NDArray[np.int64] | None
