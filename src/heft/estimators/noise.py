"""Noise of each channel: standard deviation, autocorrelation time, covariance of an estimate.

Residuals of robots are unmodelled friction and flexibility, not white noise: neighbouring rows
are correlated. A channel's n rows have the effective sample size `n / τ`, with τ the integrated
autocorrelation time of its residual. The usual formula, which takes τ = 1, gives 95 % intervals
that cover the truth in only 15 to 35 of 100 cases (measured). The weights of rows use τ. The
covariance of an estimate is the sandwich [Huber1967; White1980]: the covariance of `Yᵀε` is
`Yᵀ Γ Y`, with Γ the covariance of an autoregression fitted to each channel's residual, stored
as a square root. Where a prior contributes, the covariance is widened by the prior's own error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.information import ChannelRows, Information, triangle_of

from .problem import LimbedResiduals, Residuals

LONGEST_MEMORY = 4096  # rows
ORDER = 20  # of the autoregression, on the thinned residual
ROWS_PER_ORDER = 20  # thinned rows needed for each of its coefficients
LOCAL = 7  # thinned rows in the moving average that gives the local size of the residual
MOST_THINNED = 20_000  # thinned rows used for the sandwich; the result is scaled to all rows


@dataclass(frozen=True)
class Noise:
    """Noise model of the residuals τ − Y β, channel by channel."""

    sigma: Array  # standard deviation σ of the residual, shape (channels,) [N·m or N]
    autocorrelation_time: Array  # integrated autocorrelation time τ ≥ 1, shape (channels,) [rows]
    rows: Array  # number of rows, shape (channels,)
    # for each channel S with `SᵀS = Yᵀ Γ Y`, shape (any, b), Γ the covariance of its residual; see
    # `coloured_factors`. None where residuals are treated as white noise whose covariance is scaled
    # by τ
    coloured: tuple[Array, ...] | None = None
    # for each channel the moments `Yᵀe`, shape (errors, b), of systematic errors e that all
    # channels share, each of one standard deviation, such as that of a delay. None if there are
    # none
    common_errors: tuple[Array, ...] | None = None

    @property
    def effective(self) -> Array:
        """Effective sample size n / τ of each channel, shape (channels,) [rows]."""
        return self.rows / self.autocorrelation_time

    def factors(self, information: Information) -> list[Array]:
        """Return for each channel S with `SᵀS = Yᵀ Γ Y`, the covariance of its `Yᵀε`.

        Args:
            information: Information about β, used where residuals are treated as white.

        Returns:
            One S a channel, over all columns, shape (any, b).
        """
        if self.coloured is not None:
            return list(self.coloured)
        size = len(information.labels)
        spread = self.sigma * np.sqrt(self.autocorrelation_time)
        return [
            s * t.spread(size)[:-1, :-1] for s, t in zip(spread, information.triangles, strict=True)
        ]

    def weighted_factors(
        self, information: Information, weights: Sequence[float] | Array
    ) -> tuple[list[Array], Array]:
        """Return S of each channel's weighted score, and S of the errors that all channels share.

        Together they are `score_factor`, of which arguments are.
        """
        own = [w**2 * f for w, f in zip(weights, self.factors(information), strict=True)]
        if self.common_errors is None:
            return own, np.zeros((0, len(information.labels)))
        common = np.zeros(self.common_errors[0].shape)
        for weight, errors in zip(weights, self.common_errors, strict=True):
            _add(common, weight**2, errors, None)
        return own, common

    def score_factor(
        self,
        information: Information,
        weights: Sequence[float] | Array,
        maps: Sequence[Array] | None = None,
    ) -> Array:
        """Return S with `SᵀS` the covariance of the weighted score `Σ w² Tᵀ Yᵀ ε`.

        The sum is over the channels. Use it as the middle factor of a sandwich covariance
        [Huber1967; White1980].

        Args:
            information: Information about β, used where residuals are treated as white.
            weights: w of each channel, shape (channels,) [1 / channel's unit].
            maps: T of each channel, whose regressor of the unknowns is Y T, shape (b, n); the
                identity if not given.

        Returns:
            S, shape (any, n).
        """
        factors = self.factors(information)
        size = factors[0].shape[1] if maps is None else maps[0].shape[1]
        counts = [len(f) for f in factors]
        together = 0 if self.common_errors is None else len(self.common_errors[0])
        # Most entries are zero: only the columns that a channel sees are worked on.
        found, first = np.zeros((sum(counts) + together, size)), 0
        for c, (factor, weight) in enumerate(zip(factors, weights, strict=True)):
            matrix, last = None if maps is None else maps[c], first + len(factor)
            _add(found[first:last], weight**2, factor, matrix)
            if self.common_errors is not None:
                _add(found[sum(counts) :], weight**2, self.common_errors[c], matrix)
            first = last
        return found


def _add(total: Array, share: float, factor: Array, matrix: Array | None) -> None:
    """Add `share * factor @ matrix` to a total, of a factor most of whose columns may be zero."""
    held = np.flatnonzero(factor.any(axis=0))
    if matrix is None:
        total[:, held] += share * factor[:, held]
    else:
        total += share * (factor[:, held] @ matrix[held])


def autocovariance(residuals: Iterable[Array], longest: int = LONGEST_MEMORY) -> Array:
    """Return the autocovariance of residuals by lag, averaged over pieces.

    Args:
        residuals: Contiguous pieces, each of shape (rows, channels) [N·m or N].
        longest: Largest lag [rows].

    Returns:
        Shape (longest + 1, channels) [(N·m)² or N²]; zero at lags longer than every piece.
        Shape (0, 0) if no piece has two rows.
    """
    total = np.zeros((0, 0))
    rows = 0
    for piece in residuals:
        count = len(piece)
        if count < 2:
            continue
        if not total.size:
            total = np.zeros((longest + 1, piece.shape[1]))
        reach = min(longest, count - 1)
        size = 1 << int(np.ceil(np.log2(count + reach + 1)))
        spectrum = np.abs(np.fft.rfft(piece, size, axis=0)) ** 2
        total[: reach + 1] += np.fft.irfft(spectrum, size, axis=0)[: reach + 1]
        rows += count
    return total / max(rows, 1)


def autocorrelation_time(covariance: Array) -> Array:
    """Return the integrated autocorrelation time `τ = 1 + 2 Σ ρ_k` of each channel, at least 1.

    Sums of neighbouring pairs of lags are added while they are positive and decrease: the initial
    monotone sequence of [Geyer1992, sect. 3.3].

    Args:
        covariance: As `autocovariance` returns it, shape (lags, channels).

    Returns:
        τ, shape (channels,) [rows].
    """
    times = np.ones(covariance.shape[1])
    for c in range(covariance.shape[1]):
        if covariance[0, c] <= 0.0:
            continue
        rho = covariance[:, c] / covariance[0, c]
        even = len(rho) // 2 * 2
        pairs = rho[0:even:2] + rho[1:even:2]
        stop = np.flatnonzero(pairs <= 0.0)
        kept = np.minimum.accumulate(pairs[: stop[0] if len(stop) else len(pairs)])
        times[c] = max(1.0, 2.0 * float(kept.sum()) - 1.0)
    return times


@dataclass(frozen=True)
class Thinned:
    """Decimated rows: the regressor at the middle and the mean residual of each block of rows.

    Blocks are short against the motion's band, so that Y hardly changes within one.
    """

    rows: tuple[ChannelRows, ...]  # for each channel Y at the middle of each block
    residuals: Array  # mean residual of each block, shape (blocks, channels) [N·m or N]
    every: int  # rows in a block
    share: float  # fraction of all rows that these blocks cover, 0 to 1
    # position of each block within the period of a periodic motion, shape (blocks,) [blocks]; None
    # if the motion is not periodic
    phase: NDArray[np.intp] | None = None


def thinned(
    pieces: Iterable[Residuals], every: int, period: float | None = None
) -> tuple[Array, Thinned]:
    """Return the residuals' autocovariance by lag and the decimated rows, in one pass.

    Args:
        every: Rows in a block of the decimation.
        period: Period of the motion [rows]; None if it is not periodic.

    Returns:
        The autocovariance as `autocovariance` returns it, and the decimated rows.
    """
    kept: list[tuple[tuple[ChannelRows, ...], Array]] = []
    places: list[Array] = []
    count = [0, 0]  # rows that the blocks kept stand for, and all rows

    def passing() -> Iterator[Array]:
        for piece in pieces:
            rows = len(piece.values)
            blocks = rows // every
            count[1] += rows
            if blocks and count[0] < MOST_THINNED * every:
                count[0] += blocks * every
                means = piece.noise[: blocks * every].reshape(blocks, every, -1).mean(axis=1)
                middle = every // 2 + every * np.arange(blocks)
                kept.append((_rows_at(piece, middle), means))
                if piece.index is not None:
                    places.append(piece.index[middle].astype(float))
            yield piece.noise

    covariance = autocovariance(passing())
    if not kept:
        return covariance, Thinned((), np.zeros((0, 0)), every, 1.0)
    rows = tuple(ChannelRows.joined(parts) for parts in zip(*(r for r, _ in kept), strict=True))
    means = np.concatenate([m for _, m in kept])
    known = period is not None and len(places) == len(kept)
    phase = phases(np.concatenate(places), every, period or 0.0) if known else None
    return covariance, Thinned(rows, means, every, count[0] / max(count[1], 1), phase)


def _rows_at(piece: Residuals, places: NDArray[np.intp]) -> tuple[ChannelRows, ...]:
    if isinstance(piece, LimbedResiduals):
        return piece.channel_rows(places)
    return ChannelRows.of_each(piece.regressor(places))


def phases(places: Array, every: int, period: float) -> NDArray[np.intp] | None:
    """Return the position of each block within its period.

    Args:
        places: Position of each block in the recording, shape (blocks,) [rows].
        every: Rows in a block.
        period: Period of the motion [rows].

    Returns:
        Shape (blocks,) [blocks]; None if the recording is shorter than one and a half periods.
    """
    spread = places - places[0]
    count = round(period / every)
    if spread[-1] < 1.5 * period or count < LOCAL:
        return None
    return np.asarray(np.floor(spread % period / period * count), dtype=np.intp)


def autoregression(series: Array, order: int) -> tuple[Array, float]:
    """Return the autoregressive model of a series, by the Yule-Walker equations.

    Args:
        series: Of mean zero, shape (n,).

    Returns:
        The coefficients, shape (order,), and the standard deviation of the innovation, in the
        series' unit.
    """
    size = 1 << int(np.ceil(np.log2(2 * len(series))))
    lags = np.fft.irfft(np.abs(np.fft.rfft(series, size)) ** 2, size)[: order + 1] / len(series)
    if not lags[0] > 0.0:
        return np.zeros(order), 0.0
    coefficients = scipy.linalg.solve_toeplitz(lags[:-1] * (1.0 + 1e-9 * _first(order)), lags[1:])
    rest = lags[0] - coefficients @ lags[1:]
    return np.asarray(coefficients), float(np.sqrt(max(rest, 0.0)))


def local_scale(series: Array, phase: NDArray[np.intp] | None = None) -> Array:
    """Return the local over the overall root mean square of a series.

    It makes a covariance heteroscedastic: model errors are largest near velocity reversals,
    where the friction columns carry most information. For stationary noise the ratio is one
    within sampling error. In a periodic motion model errors repeat and add coherently, and noise
    does not: the ratio is then that of the sum over all P periods, whose noise is only √P times
    as large as that of one.

    Args:
        series: Shape (n,).
        phase: Position of each member within its period, shape (n,); None if not periodic.

    Returns:
        The ratio, shape (n,); ones for a series of zeros.
    """
    mean = float(np.mean(series**2))
    if not mean > 0.0:
        return np.ones(len(series))
    if phase is None:
        return np.sqrt(_around(series**2, np.ones(len(series))) / mean)
    times = np.bincount(phase)
    energy = np.bincount(phase, series) ** 2 / np.maximum(times, 1)
    return np.asarray(np.sqrt(_around(energy, (times > 0).astype(float))[phase] / mean))


def _around(values: Array, weights: Array) -> Array:
    near = np.ones(LOCAL)
    total = np.convolve(weights, near, "same")
    return np.asarray(np.convolve(weights * values, near, "same") / np.maximum(total, 1e-300))


def _first(size: int) -> Array:
    unit = np.zeros(size)
    unit[0] = 1.0
    return unit


def coloured_factors(sample: Thinned, size: int) -> tuple[Array, ...] | None:
    """Return for each channel a factor S with `SᵀS = Yᵀ Γ Y`, for coloured residuals.

    Γ is the covariance of an autoregression fitted to the channel's residual. With
    `Γ = σ² F Fᵀ`, F the recursive filter, S is the triangle of `σ Fᵀ Y`.

    Returns:
        One S a channel, shape (≤ b, b); None if there are too few rows to fit an autoregression.
    """
    blocks, channels = sample.residuals.shape
    order = min(ORDER, blocks // ROWS_PER_ORDER)
    if order < 1:
        return None
    factors = []
    telling = int(np.any(sample.residuals != 0.0, axis=0).sum())
    for c in range(channels):
        coefficients, sigma = autoregression(sample.residuals[:, c], order)
        # The fit used up some of the residual's degrees of freedom in this band.
        used = size / max(telling, 1)
        slow = sigma / max(1.0 - coefficients.sum(), 1e-6)  # spectrum's root at 0
        energy = float(np.mean(sample.residuals[:, c] ** 2))
        worth = min(1.0, energy / slow**2) if slow > 0.0 else 1.0
        independent = worth * blocks / sample.share
        grown = independent / max(independent - used, 0.25 * independent)
        local, seen = local_scale(sample.residuals[:, c], sample.phase), sample.rows[c]
        filtered = signals.remembered(local[:, None] * seen.values, coefficients)
        scale = sample.every * sigma * np.sqrt(grown / sample.share)
        own = scale * triangle_of(filtered)
        factors.append(ChannelRows(seen.columns, own).spread(size))
    return tuple(factors)


def raised(
    covariance: Array, deviations: Array, functions: Sequence[NDArray[np.intp]] = ()
) -> Array:
    """Return a covariance whose variances are at least those of a jackknife.

    The autoregression of the residual sees all of the noise but only what its model describes; the
    jackknife sees what differs between blocks, whatever it is, from a dozen of them. The larger of
    both deviations is stated, and correlations stay those of the covariance. Coefficients of one
    function are told by their sum: they are raised together, direction by direction, since each by
    its own factor no longer cancels against the others.

    Args:
        covariance: Shape (n, n); infinite variances stay so.
        deviations: D with DᵀD the jackknife covariance, shape (any, n).
        functions: Positions of the coefficients of each function.
    """
    own = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    other = np.sqrt(np.sum(deviations**2, axis=0))
    known = np.isfinite(own) & (own > 0.0)
    factor = np.ones(len(own))
    factor[known] = np.maximum(1.0, other[known] / own[known])
    together = [places[known[places]] for places in functions]
    for places in together:
        factor[places] = 1.0
    found = np.asarray(covariance * factor[:, None] * factor[None, :])
    for places in together:
        lift = _lift(covariance[np.ix_(places, places)], deviations[:, places])
        found[places] = lift @ found[places]
        found[:, places] = found[:, places] @ lift.T
    return found


def _lift(covariance: Array, deviations: Array) -> Array:
    """Return L with `L C Lᵀ` the least covariance that exceeds C and DᵀD along their common axes.

    These are the axes in which both are diagonal: `L = C^½ max(1, C^-½ DᵀD C^-½)^½ C^-½`.

    Args:
        covariance: C, shape (n, n).
        deviations: D, shape (any, n).
    """
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    real = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    root = scale[:, None] * vectors[:, real] * np.sqrt(values[real])
    inverse = (vectors[:, real] / np.sqrt(values[real])).T / scale
    white = deviations @ inverse.T
    _, singular, axes = np.linalg.svd(white, full_matrices=False)
    stretch = np.eye(len(inverse)) + (axes.T * np.maximum(singular - 1.0, 0.0)) @ axes
    return np.asarray(root @ stretch @ inverse)
