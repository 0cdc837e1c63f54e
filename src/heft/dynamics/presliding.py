"""Stop operators: presliding displacement z, an elastic state that slips at its width."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import Kernels, exact, plain


@exact
def _slipped(z, moved, width):  # type: ignore[no-untyped-def]
    return min(max(z + moved, -width), width)


@exact
def _slip(position, row, widths, last, before, out):  # type: ignore[no-untyped-def]
    """Write stop operators, four at a time: each waits for its own result of the sample before."""
    end = len(widths) - 1
    for j in range(0, end + 1, 4):
        a, b, c, d = j, min(j + 1, end), min(j + 2, end), min(j + 3, end)  # again, if they are less
        r, s, t, u = widths[a], widths[b], widths[c], widths[d]
        e, f, g, h = position[row[a]], position[row[b]], position[row[c]], position[row[d]]
        x, y, z, w = last[a], last[b], last[c], last[d]
        m, n, o, p = before[a] * r, before[b] * s, before[c] * t, before[d] * u
        for k in range(position.shape[1]):
            m, n = _slipped(m, e[k] - x, r), _slipped(n, f[k] - y, s)
            o, p = _slipped(o, g[k] - z, t), _slipped(p, h[k] - w, u)
            x, y, z, w = e[k], f[k], g[k], h[k]
            out[a, k], out[b, k], out[c, k], out[d, k] = m / r, n / s, o / t, p / u


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
