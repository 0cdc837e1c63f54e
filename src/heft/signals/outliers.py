"""Outliers: samples far from the running median of their neighbours.

One median, three bounds on |x − median|, each by what is known where it is used:

- the Hampel identifier of robust fits: multiples of the median absolute deviation, since nothing
  is known of the residual's size;
- transmission errors of a live wrench: multiples of the sensor's stated noise, since the deviation
  of five samples is too uncertain;
- single bad rows in the check of a log: multiples of the whole log's median second difference,
  over three rows, where the median is the nearer neighbour of a row that deviates alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting

STD_PER_MAD = 1.482602218505602  # a normal standard deviation in median absolute deviations
WINDOW_BYTES = 32 << 20  # of windows spelt out at once


def running_median(values: Array, window: int) -> Array:
    """Return the median of the `window` values around each, mirrored at the ends.

    Args:
        values: Shape (rows, signals), more than half a window of rows.

    Returns:
        Shape (rows, signals); NaN where a value of the window is.

    Raises:
        InvalidSetting: If the window is no odd number of rows, 3 or more.
    """
    _require_odd(window)
    half = window // 2
    padded = np.pad(values, ((half, half), (0, 0)), mode="reflect")
    if window == 3:  # ten times faster than sorting each three
        a, b, c = padded[:-2], padded[1:-1], padded[2:]
        return np.asarray(np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c)))
    around = np.lib.stride_tricks.sliding_window_view(padded, window, axis=0)
    return _middle_of(values)(around)


def hampel(
    values: Array, window: int, threshold: float = 3.0, floor: Array | float = 0.0
) -> NDArray[np.bool_]:
    """Return the mask of outliers by the Hampel identifier.

    True where `|x − median| > threshold · max(1.4826 MAD, floor)`, both of the `window` values
    around x [Pearson2002, sect. 2]; at the ends they are mirrored. Spikes shorter than half a
    window are detected.

    Args:
        values: Shape (rows, signals), which the mask has too.
        threshold: In standard deviations.
        floor: Least standard deviation assumed, of each signal or all, in their unit: a quantised
            signal at rest needs it, since its MAD is zero.

    Raises:
        InvalidSetting: If the window is not an odd number of rows, 3 or more.
    """
    _require_odd(window)
    rows, signals = values.shape
    out = np.zeros((rows, signals), dtype=bool)
    half = window // 2
    if rows <= half:
        return out
    padded = np.pad(values, ((half, half), (0, 0)), mode="reflect")
    median = _middle_of(values)
    block = max(1, WINDOW_BYTES // (8 * window * max(signals, 1)))
    for first in range(0, rows, block):
        part = padded[first : first + block + 2 * half]
        near = np.lib.stride_tricks.sliding_window_view(part, window, axis=0)
        middle = median(near)
        spread = STD_PER_MAD * median(np.abs(near - middle[:, :, None]))
        distance = np.abs(values[first : first + block] - middle)
        out[first : first + block] = distance > threshold * np.maximum(spread, floor)
    return out


def replace_outliers(
    values: Array, window: int, bound: Array | float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return signals with outliers replaced by their running median, and the mask of outliers.

    Args:
        values: Shape (rows, signals), which the mask has too.
        window: Rows; signals with fewer rows are returned unchanged.
        bound: Largest |x − median| that is kept, of each signal or all, in their unit.

    Raises:
        InvalidSetting: If the window is not an odd number of rows, 3 or more.
    """
    if len(values) < window:
        return values, np.zeros(values.shape, dtype=bool)
    middle = running_median(values, window)
    far = np.abs(values - middle) > bound
    return np.where(far, middle, values), far


def _middle_of(values: Array) -> Callable[[Array], Array]:
    """Return a function for the median of an odd number of these values, along the last axis.

    NumPy's own is NaN where a value is, at ten times the price.
    """

    def middle(around: Array) -> Array:
        half = around.shape[-1] // 2
        return np.asarray(np.partition(around, half, axis=-1)[..., half])

    return partial(np.median, axis=-1) if np.isnan(values).any() else middle


def _require_odd(window: int) -> None:
    if type(window) is not int or window < 3 or window % 2 == 0:
        raise InvalidSetting(
            "the window of a running median is no odd number of rows",
            argument="window",
            got=window,
            expected="3, 5, …",
        )
