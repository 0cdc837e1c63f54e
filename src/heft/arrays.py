"""Array types: arrays of doubles, handed out read-only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .loading import on_demand

# SciPy names all that NumPy offers, and so would load what nobody needs here: a tenth of a second.
on_demand("numpy", "f2py", "ma", "testing")

Array = NDArray[np.float64]


def read_only(array: Array) -> Array:
    """Return a read-only copy of an array as doubles, of the same shape and unit."""
    frozen = np.array(array, dtype=float)
    frozen.setflags(write=False)
    return frozen
