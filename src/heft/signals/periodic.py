"""Periodic motion: its period, its Fourier series, and means over periods.

A motion that repeats needs no filter. Its positions are a finite Fourier series, fitted by
least squares to all rows at once and differentiated exactly [Swevers1997, sect. III]; measured
signals are averaged over periods, and the spread between periods estimates the noise without
any model [Olsen2002].
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.information import triangle_of

from .filters import interpolated

BLOCK_ROWS = 4096
SEARCH_POINTS = 1 << 15  # to which a log is thinned out while its period is looked for
# A lag is a period when what a signal changes over it is at most this share of what it changes
# over any time (half the mean square, signals scaled to unit variance).
MOST_MISMATCH = 2e-3
LARGEST_RESIDUAL = 0.02  # of the motion's rms that its Fourier series may leave
MOVING = 1e-2  # of the largest standard deviation: below, a joint counts as still
NOT_PERIODIC = "the motion is not periodic"
CURE = "smooth by 'butterworth' or 'spline', or cut the log to where it repeats"


def _even(time: Array, values: Array) -> tuple[Array, float]:
    """Return moving signals on a uniform grid, of mean 0 and variance 1, and its step [s]."""
    spread = values.std(axis=0)
    moving = spread > MOVING * spread.max()
    if not moving.any():
        raise InvalidSetting(NOT_PERIODIC, got="nothing moves", cure=CURE)
    count = min(len(time), SEARCH_POINTS)
    grid = np.linspace(time[0], time[-1], count)
    even = np.stack([np.interp(grid, time, x) for x in values[:, moving].T], 1)
    even = np.asarray((even - even.mean(axis=0)) / even.std(axis=0), dtype=np.float64)
    return even, float(grid[1] - grid[0])


def mismatch(even: Array) -> Array:
    """Return the semivariance `½ mean (y(t + lag) − y(t))²` by lag, up to half the length.

    Args:
        even: On a uniform grid, of mean 0 and variance 1, shape (rows, signals).

    Returns:
        Shape (lags,), dimensionless.
    """
    count = len(even)
    size = 1 << int(2 * count - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(even, size, axis=0)) ** 2
    product = np.fft.irfft(spectrum, size, axis=0)[:count].sum(axis=1)
    energy = np.concatenate([[0.0], np.cumsum(np.sum(even**2, axis=1))])
    lags = np.arange(count // 2 + 1)
    both = energy[count - lags] + (energy[count] - energy[lags])
    return np.asarray(
        np.maximum(0.5 * both - product[lags], 0.0) / ((count - lags) * even.shape[1])
    )


def find_period(time: Array, values: Array) -> float:
    """Return the period T of a motion [s], the shortest one after which all signals repeat.

    The first lag of almost no mismatch, refined with the Fourier series: an error δ of the period
    appears as `−(t/T) v δ` in the residual of the series.

    Args:
        time: Strictly increasing, shape (rows,) [s]; two periods at least.
        values: Positions, shape (rows, joints) [rad or m]; joints at rest are ignored.

    Raises:
        InvalidSetting: If the motion is not periodic, or the log spans less than two periods.
    """
    if len(time) < 32:
        raise InvalidSetting(NOT_PERIODIC, got=f"{len(time)} rows", expected="32", cure=CURE)
    even, step = _even(time, values)
    changed = mismatch(even)
    away = np.flatnonzero(changed > 0.25)  # before, nothing has moved far enough to come back
    inner = np.arange(away[0] if len(away) else len(changed), len(changed) - 1)
    lowest = (changed[inner] <= changed[inner - 1]) & (changed[inner] <= changed[inner + 1])
    minima = inner[lowest]
    # The parabola through a minimum and its neighbours: where it is lowest, and how low.
    before, centre, after = changed[minima - 1], changed[minima], changed[minima + 1]
    bend = np.maximum(before - 2.0 * centre + after, np.finfo(float).tiny)
    shift = 0.5 * (before - after) / bend
    depth = np.maximum(centre - 0.25 * (before - after) * shift, 0.0)
    if not len(minima) or depth.min() > MOST_MISMATCH:
        best = int(np.argmin(depth)) if len(minima) else None
        raise InvalidSetting(
            NOT_PERIODIC,
            got="it never comes back"
            if best is None
            else f"it comes back best after {minima[best] * step:.4g} s, to "
            f"{math.sqrt(depth[best]):.0%} of its size",
            expected=f"{math.sqrt(MOST_MISMATCH):.0%} at most, and two periods in the log "
            f"({time[-1] - time[0]:.4g} s long)",
            cure=f"{CURE}; or give the period",
        )
    first = int(np.flatnonzero(depth <= 4.0 * depth.min() + 1e-6)[0])
    period = float(minima[first] + shift[first]) * step
    grid: Array = step * np.arange(len(even), dtype=np.float64)
    for _ in range(4):
        correction = _correction(grid, even, period)
        period += correction
        if abs(correction) <= 1e-9 * period:
            break
    return period


def _correction(time: Array, values: Array, period: float) -> float:
    """Return by how much a period is too short [s], to first order."""
    harmonics = max(1, min(30, int(0.4 * period / (time[1] - time[0]))))
    middle = 0.5 * (time[0] + time[-1])
    basis = _basis(time - middle, period, harmonics)
    Q, R = np.linalg.qr(basis)
    coefficients = scipy.linalg.solve_triangular(R, Q.T @ values)
    slope = _basis(time - middle, period, harmonics, 1) @ coefficients
    lever = -((time - middle) / period)[:, None] * slope
    lever -= Q @ (Q.T @ lever)
    gap = float(np.sum(lever * (values - basis @ coefficients)))
    return gap / max(float(np.sum(lever**2)), np.finfo(float).tiny)


def _basis(time: Array, period: float, harmonics: int, derivative: int = 0) -> Array:
    """Return 1, cos ωt, sin ωt, cos 2ωt, … or a derivative, shape (rows, 2 harmonics + 1)."""
    order = 2.0 * math.pi / period * np.arange(1, harmonics + 1)
    angle = np.outer(time, order) + 0.5 * math.pi * derivative
    out = np.empty((len(time), 2 * harmonics + 1))
    out[:, 0] = 1.0 if derivative == 0 else 0.0
    out[:, 1::2] = np.cos(angle) * order**derivative
    out[:, 2::2] = np.sin(angle) * order**derivative
    return out


@dataclass(frozen=True)
class FourierSeries:
    """Finite Fourier series of a periodic motion."""

    period: float  # T [s]
    origin: float  # time of phase 0 [s]
    # of `1, cos ωt, sin ωt, cos 2ωt, …`, ω = 2π/T, shape (2 harmonics + 1, joints) [rad or m];
    # zeros above the harmonics that a joint needs
    coefficients: Array
    noise: Array  # standard deviation of each joint's residual, shape (joints,) [rad or m]

    @property
    def harmonics(self) -> int:
        """Number of harmonics, the largest of any joint."""
        return len(self.coefficients) // 2

    def at(self, time: Array, derivative: int = 0) -> Array:
        """Return the motion or a derivative at any times, shape (times, joints).

        Args:
            time: Shape (times,) [s].
            derivative: 0, 1 or 2 for position, velocity or acceleration [rad or m, per s, s²].
        """
        out = np.empty((len(time), self.coefficients.shape[1]))
        for begin in range(0, len(time), BLOCK_ROWS):
            rows = slice(begin, begin + BLOCK_ROWS)
            basis = _basis(time[rows] - self.origin, self.period, self.harmonics, derivative)
            out[rows] = basis @ self.coefficients
        return out


def fit_series(
    pieces: Iterable[tuple[Array, Array]], period: float, harmonics: int
) -> FourierSeries:
    """Return the least-squares Fourier series of positions, in one pass and bounded memory.

    The number of harmonics of a joint is the n of the smallest Bayesian information criterion
    `N log(residual energy) + 2 n log N` [Schwarz1978].

    Args:
        pieces: Times, shape (rows,) [s], and positions, shape (rows, joints) [rad or m]; all of
            one clock.
        period: [s].
        harmonics: Largest number of harmonics that is tried.

    Raises:
        TooLittleData: If the rows span less than a period, or are too few.
    """
    total, origin, last, rows = np.zeros((0, 0)), np.nan, np.nan, 0
    size = 2 * harmonics + 1
    for time, values in pieces:
        if math.isnan(origin):
            origin = float(time[0])
        for begin in range(0, len(time), BLOCK_ROWS):
            cut = slice(begin, begin + BLOCK_ROWS)
            both = np.hstack([_basis(time[cut] - origin, period, harmonics), values[cut]])
            total = triangle_of(np.vstack([total, both]) if total.size else both)
        rows += len(time)
        last = float(time[-1])
    # The last row ends a step that belongs to the period; jitter may have cost one more.
    covered = (last - origin) * (1.0 + 2.0 / max(rows - 1, 1))
    if rows <= size or covered < period * (1.0 - 1e-6):
        raise TooLittleData(
            "the log holds too little for a Fourier series",
            got=f"{rows} rows over {last - origin:.4g} s",
            expected=f"more than {size} rows, over one period of {period:.6g} s at least",
            cure="give a longer log, or fewer harmonics",
        )
    joints = total.shape[1] - size
    R, Z = total[:size, :size], total[:size, size:]
    rest = np.sum(total[size:, size:] ** 2, axis=0)
    coefficients, noise = np.zeros((size, joints)), np.zeros(joints)
    numbers = np.arange(harmonics + 1)
    for j in range(joints):
        # The columns are in order, so a prefix of them has a prefix of the triangle.
        tail = np.concatenate([np.cumsum((Z[1:, j] ** 2)[::-1])[::-1], [0.0]])[::2] + rest[j]
        # What rounding leaves of a column, by the roots of the bound's factors [Higham2002, 19.3].
        floor = size * rows * (np.finfo(float).eps * np.linalg.norm(total[:, size + j])) ** 2
        score = rows * np.log(tail + max(floor, np.finfo(float).tiny)) + 2 * numbers * math.log(
            rows
        )
        n = int(np.argmin(score))
        m = 2 * n + 1
        coefficients[:m, j] = scipy.linalg.solve_triangular(R[:m, :m], Z[:m, j])
        noise[j] = math.sqrt(tail[n] / (rows - m))
    used = int(np.flatnonzero(np.any(coefficients != 0.0, axis=1))[-1]) if joints else 0
    keep = 2 * ((used + 1) // 2) + 1
    return FourierSeries(period, origin, coefficients[:keep], noise)


def require_periodic(series: FourierSeries) -> None:
    """Raise `InvalidSetting` if a Fourier series leaves too large a residual of a joint's motion.

    Raises:
        InvalidSetting: Stating the residual.
    """
    # Mean squares of sines are half the squares of their amplitudes.
    size = np.sqrt(0.5 * np.sum(series.coefficients[1:] ** 2, axis=0) + series.noise**2)
    moving = size > MOVING * size.max(initial=0.0)
    share = np.where(moving, series.noise / np.where(moving, size, 1.0), 0.0)
    if share.max(initial=0.0) > LARGEST_RESIDUAL:
        raise InvalidSetting(
            NOT_PERIODIC,
            argument=f"period = {series.period:.6g} s",
            got=f"a Fourier series leaves {share.max():.1%} of joint {int(share.argmax()) + 1}",
            expected=f"{LARGEST_RESIDUAL:.0%} at most",
            cure=f"{CURE}; or check the period",
        )


@dataclass(frozen=True)
class PeriodAverage:
    """Signals averaged over periods, and their noise from the differences between periods."""

    time: Array  # from the first row of the log over one period, shape (n,) [s]
    mean: Array  # shape (n, signals)
    periods: int  # number of whole periods averaged
    std: Array  # standard deviation of the mean of each signal, shape (signals,)
    noise: Array  # standard deviation of one measurement, shape (signals,)
    # autocovariance of one measurement by lag in grid steps, within a period, shape (n, signals);
    # divided by n at every lag, so that it is positive semidefinite
    covariance: Array


def average_periods(time: Array, values: Array, period: float) -> PeriodAverage:
    """Return the mean over whole periods at matching phases, and the noise [Swevers1997, eq. 9].

    Signals are interpolated by cubic splines on a grid that divides the period into as many
    equal steps as it has rows; where the log's own times lie on that grid nothing is changed.
    Between them white noise is damped, by a third at most in standard deviation.

    Args:
        time: Strictly increasing, shape (rows,) [s].
        values: Shape (rows, signals).
        period: [s], as `find_period` returns it.

    Raises:
        InvalidSetting: If the period is no positive time.
        TooLittleData: If there are fewer than two whole periods.
    """
    if not (math.isfinite(period) and period > 0.0):
        raise InvalidSetting("the period is no positive time", argument="period", got=period)
    step = float(np.median(np.diff(time))) if len(time) > 1 else math.inf
    count = max(round(period / step), 1)
    # The last row ends a step that belongs to the period it is in.
    length = float(time[-1] - time[0]) + step if len(time) > 1 else 0.0
    periods = math.floor(length / period * (1.0 + 1e-9) + 1e-6)
    if periods < 2 or count < 4:
        raise TooLittleData(
            "noise is seen by comparing periods, and there are fewer than two",
            argument=f"period = {period:.6g} s",
            got=f"{length:.4g} s, {length / period:.3g} periods of {count} rows",
            expected="two whole periods at least",
            cure="record longer, or check the period",
        )
    phase = period / count * np.arange(count)
    wanted = time[0] + (period * np.arange(periods)[:, None] + phase).ravel()
    nearest = np.clip(np.searchsorted(time, wanted - 0.5 * step), 0, len(time) - 1)
    if np.abs(time[nearest] - wanted).max() <= 1e-6 * step:
        even = values[nearest]
    else:
        even = interpolated(time, values, np.minimum(wanted, time[-1]))
    folded = even.reshape(periods, count, values.shape[1])
    mean = folded.mean(axis=0)
    deviation = folded - mean
    size = 1 << int(2 * count - 1).bit_length()
    spectrum = (np.abs(np.fft.rfft(deviation, size, axis=1)) ** 2).sum(axis=0)
    covariance = np.fft.irfft(spectrum, size, axis=0)[:count] / ((periods - 1) * count)
    noise = np.sqrt(np.sum(deviation**2, axis=(0, 1)) / ((periods - 1) * count))
    return PeriodAverage(
        time[0] + phase, mean, periods, noise / math.sqrt(periods), noise, covariance
    )
