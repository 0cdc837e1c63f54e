"""Stop operators: presliding displacement z, an elastic state that slips at its width."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import Kernels, exact, plain


@exact
def _slip(position, row, widths, last, before, out):  # type: ignore[no-untyped-def]
    for j in range(widths.shape[0]):
        width, x, z = widths[j], last[j], before[j] * widths[j]
        moved = position[row[j]]
        for k in range(position.shape[1]):
            z = min(max(z + (moved[k] - x), -width), width)
            x = moved[k]
            out[j, k] = z / width


def stops(
    position: Array,
    widths: Array,
    last: Array,
    held: Array,
    row: NDArray[np.int64] | None = None,
) -> Array:
    """Return stop operators along samples: `z ← clip(z + Δx, ±width)`, as z/width.

    Args:
        position: x of each drive, shape (drives, N) [rad or m].
        widths: Shape (stops,) [rad or m].
        last: x at the sample before the first, shape (stops,) [rad or m].
        held: z/width at that sample, shape (stops,).
        row: Which drive each stop is of, shape (stops,); one each in this order if not given.

    Returns:
        z/width, in [−1, 1], shape (stops, N).
    """
    out = np.empty((len(widths), position.shape[1]))
    x, b, before, z = plain(position, widths, last, held)
    _slip(x, np.arange(len(widths)) if row is None else row, b, before, z, out)
    return out


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    one = np.zeros(1)
    _slip(np.zeros((1, 1)), np.zeros(1, dtype=np.int64), np.ones(1), one, one, np.zeros((1, 1)))


KERNELS = Kernels((_slip,), warm_up)
