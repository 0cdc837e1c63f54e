"""Array types: arrays of doubles, handed out read-only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def read_only(array: Array) -> Array:
    """Return a read-only copy of an array as doubles, of the same shape and unit."""
    frozen = np.array(array, dtype=float)
    frozen.setflags(write=False)
    return frozen
