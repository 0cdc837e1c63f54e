"""Stop operators: presliding displacement z, an elastic state that slips at its width."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact, plain


@exact
def _slip(position, widths, last, held, out):  # type: ignore[no-untyped-def]
    for j in range(position.shape[0]):
        width, x, z = widths[j], last[j], held[j] * widths[j]
        for k in range(position.shape[1]):
            z = min(max(z + (position[j, k] - x), -width), width)
            x = position[j, k]
            out[j, k] = z / width


def stops(position: Array, widths: Array, last: Array, held: Array) -> Array:
    """Return stop operators along samples: `z ← clip(z + Δx, ±width)`, as z/width.

    Args:
        position: x of each stop's drive, shape (stops, N) [rad or m].
        widths: Shape (stops,) [rad or m].
        last: x at the sample before the first, shape (stops,) [rad or m].
        held: z/width at that sample, shape (stops,).

    Returns:
        z/width, in [−1, 1], shape (stops, N).
    """
    KERNELS.prepare()
    out = np.empty(position.shape)
    x, b, before, z = plain(position, widths, last, held)
    _slip(x, b, before, z, out)
    return out


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    one = np.zeros(1)
    _slip(np.zeros((1, 1)), np.ones(1), one, one, np.zeros((1, 1)))


KERNELS = Kernels((_slip,), warm_up)
