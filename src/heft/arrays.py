"""The types that everybody uses: arrays of doubles, handed out read-only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def read_only(array: Array) -> Array:
    """Return a float copy of `array` that nobody can write to."""
    frozen = np.array(array, dtype=float)
    frozen.setflags(write=False)
    return frozen
