"""Zero-phase low-pass and central differences of evenly sampled signals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from heft.arrays import Array
from heft.compiled import plain
from heft.errors import InvalidRecording, InvalidSetting

from . import recursions

REACH = 4


def _poles(order: int, ratio: float) -> Array:
    """Return poles of a discrete Butterworth low-pass by the bilinear transform, complex.

    Args:
        ratio: Cutoff frequency over the Nyquist frequency, between 0 and 1.

    Raises:
        InvalidSetting: If it is not.
    """
    if not 0.0 < ratio < 1.0:
        raise InvalidSetting(
            "a cutoff frequency lies between 0 and half the sampling rate",
            argument="corner",
            got=f"{ratio:g} of that half",
        )
    angle = 0.5 * np.pi * np.arange(1 - order, order, 2) / order
    analog = -np.tan(0.5 * np.pi * ratio) * np.exp(1j * angle)
    return np.asarray((1.0 + analog) / (1.0 - analog))


@lru_cache(maxsize=32)
def butterworth(order: int, ratio: float) -> tuple[Array, Array]:
    """Return the second-order sections of a Butterworth low-pass and their steady states.

    scipy.signal has them as well, and takes longer to load than an arm takes to identify.

    Args:
        ratio: Cutoff frequency over the Nyquist frequency, between 0 and 1.

    Returns:
        `b₀ b₁ b₂ 1 a₁ a₂` of each, shape (sections, 6), those of poles near the unit circle last;
        and the state of each that a constant input of one leaves, shape (sections, 2).
    """
    poles = _poles(order, ratio)
    made = []
    for p in sorted(poles[poles.imag >= -1e-12], key=abs):
        pair = abs(p.imag) > 1e-12  # else the one real pole of an odd order
        back = [-2.0 * p.real, abs(p) ** 2] if pair else [-p.real, 0.0]
        front = np.array([1.0, 2.0, 1.0] if pair else [1.0, 1.0, 0.0])
        made.append([*(front * (1.0 + sum(back)) / front.sum()), 1.0, *back])
    sections = np.array(made)
    # Of gain one each, so that each is fed the constant: z₂ = b₂ − a₂, z₁ = b₁ − a₁ + z₂.
    after = sections[:, 1:3] - sections[:, 4:6]
    return sections, np.stack([after.sum(axis=1), after[:, 1]], axis=1)


def low_pass(values: Array, step: float, corner: float, order: int = 4) -> Array:
    """Return signals filtered by a Butterworth low-pass forwards and backwards, along axis 0.

    Args:
        values: On a uniform grid, shape (rows, ...).
        step: Step of the grid [s].
        corner: Cutoff frequency [Hz], below half the sampling rate.
    """
    sections, settled = butterworth(order, 2.0 * corner * step)
    count = len(values)
    # The padding must outlast the filter, or its start shows; odd, so that slopes go on.
    pad = min(count - 1, max(3 * (2 * order + 1), round(settling(corner, step, order) / step)))
    rows = np.reshape(values, (count, -1))
    padded = np.empty((pad + count + pad, rows.shape[1]))
    padded[:pad] = 2.0 * rows[:1] - rows[pad:0:-1]
    padded[pad : pad + count] = rows
    padded[pad + count :] = 2.0 * rows[-1:] - rows[-2 : -pad - 2 : -1]
    recursions.to_and_fro(sections, settled, padded)
    return padded[pad : pad + count].reshape(values.shape)


def remembered(rows: Array, coefficients: Array) -> Array:
    """Return rows filtered backwards by the recursion `y_k = x_k + Σ_i a_i y_{k+i}`.

    Args:
        rows: x, shape (rows, ...); y has the same.
        coefficients: a_i, shape (order,).
    """
    filtered = np.array(np.reshape(rows, (len(rows), -1)), dtype=float, order="C")
    recursions.recur(np.array(coefficients, dtype=float), filtered)
    return filtered.reshape(rows.shape)


def density(time: Array, values: Array, step: float, length: int) -> Array:
    """Return the power spectral density by Welch's method, in the signals' units squared per Hz.

    Args:
        time: Shape (rows,) [s], without gaps.
        values: Shape (rows, columns).
        step: Step of the uniform grid to which they are interpolated [s].
        length: Rows of a segment, at most their number.

    Returns:
        Shape (length // 2 + 1, columns), from frequency 0 to Nyquist's.
    """
    grid = time[0] + step * np.arange(max(round((time[-1] - time[0]) / step) + 1, length))
    even = linear(time, values, grid)
    windows = np.lib.stride_tricks.sliding_window_view(even, length, axis=0)
    windows = windows[:: length - length // 2]  # half over one another, shape (any, columns, rows)
    hann = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(length) / length)
    bare = windows - windows.mean(axis=2, keepdims=True)
    power = np.mean(np.abs(np.fft.rfft(hann * bare, axis=2)) ** 2, axis=0).T
    inner = slice(1, -1 if length % 2 == 0 else None)  # of both signs of the frequency
    power[inner] *= 2.0
    return np.asarray(power * step / np.sum(hann**2))


def linear(time: Array, values: Array, at: Array) -> Array:
    """Return values on straight lines, constant before and behind; arguments of `interpolated`."""
    out = np.empty((len(at), values.shape[1]))
    recursions.chords(*plain(time, values, at), out)
    return out


def interpolated(time: Array, values: Array, at: Array) -> Array:
    """Return the cubic spline through values at other times, shape (times, columns).

    It has no knot at the second time and the last but one.

    Args:
        time: Strictly increasing, four at least, shape (rows,) [s].
        values: Shape (rows, columns), of any unit.
        at: Ascending, shape (times,) [s].
    """
    out = np.empty((len(at), values.shape[1]))
    recursions.cubic(*plain(time, values, at), out)
    return out


@lru_cache(maxsize=32)
def settling(corner: float, step: float, order: int = 4) -> float:
    """Return the time after which the low-pass's impulse response is below 1e-10 [s].

    Windows need margins of this length.
    """
    slowest = float(np.abs(_poles(order, 2.0 * corner * step)).max())
    return float(step * math.ceil(math.log(1e-10) / math.log(slowest)))


def _differences(values: Array, step: float) -> tuple[Array, Array]:
    """Return first and second derivative on a uniform grid; ends are extended by odd reflection."""
    before = 2.0 * values[:1] - values[REACH:0:-1]
    behind = 2.0 * values[-1:] - values[-2 : -REACH - 2 : -1]
    padded = np.concatenate([before, values, behind])
    count = len(values)
    first = np.zeros_like(values)
    second = (-205 / 72) * values
    # Central differences of eighth order on a grid of step h [Fornberg1988].
    weights = (4 / 5, 8 / 5), (-1 / 5, -1 / 5), (4 / 105, 8 / 315), (-1 / 280, -1 / 560)
    for k, (of_first, of_second) in enumerate(weights, 1):
        ahead = padded[REACH + k : REACH + k + count]
        past = padded[REACH - k : REACH - k + count]
        first += of_first * (ahead - past)
        second += of_second * (ahead + past)
    return first / step, second / step**2


@dataclass(frozen=True)
class Smoothed:
    """Position, velocity and acceleration at given times."""

    # position, velocity, acceleration: shape (times, joints) [rad or m, and per s, s²]
    position: Array
    velocity: Array
    acceleration: Array


def require_rows(time: Array) -> None:
    """Raise `InvalidRecording` if a piece of a log is too short to differentiate."""
    if len(time) < 2 * REACH + 2:
        raise InvalidRecording(
            "a piece of the log is too short to differentiate",
            got=f"{len(time)} rows",
            expected=f"at least {2 * REACH + 2}",
        )


def smooth(
    time: Array,
    positions: Array,
    step: float,
    corner: float,
    order: int = 4,
    at: Array | None = None,
) -> Smoothed:
    """Return position, velocity and acceleration by zero-phase low-pass and central differences.

    Use it for one piece of a log; `smoother` gives the method that the settings name.

    Args:
        time: Strictly increasing, shape (rows,) [s].
        positions: Shape (rows, joints) [rad or m].
        step: Step of the uniform grid to filter on [s].
        corner: Cutoff frequency of the low-pass [Hz].
        at: Times to evaluate at, within `time`, shape (times,) [s]; `time` itself if not given.

    Returns:
        Motion at these times, shape (times, joints).

    Raises:
        InvalidRecording: If there are too few rows.
    """
    require_rows(time)
    exact = float((time[-1] - time[0]) / (len(time) - 1))
    uniform = np.abs(time - time[0] - exact * np.arange(len(time))).max() <= 1e-3 * exact
    if uniform:
        grid, even, step = time, positions, exact
    else:
        grid = time[0] + step * np.arange(math.floor((time[-1] - time[0]) / step + 1e-9) + 1)
        even = interpolated(time, positions, grid)
    position = low_pass(even, step, corner, order)
    velocity, acceleration = _differences(position, step)
    if uniform and at is None:
        return Smoothed(position, velocity, acceleration)
    within = np.clip(time if at is None else at, grid[0], grid[-1])
    place = np.rint((within - grid[0]) / step).astype(np.intp).clip(0, len(grid) - 1)
    if uniform and np.abs(within - grid[place]).max(initial=0.0) <= 1e-3 * step:
        return Smoothed(position[place], velocity[place], acceleration[place])
    together = np.concatenate([position, velocity, acceleration], axis=1)
    # What was smoothed lies far below the grid's rate, so a spline through it is exact enough.
    back = interpolated(grid, together, within)
    joints = positions.shape[1]
    return Smoothed(back[:, :joints], back[:, joints : 2 * joints], back[:, 2 * joints :])
