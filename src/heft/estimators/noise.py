"""How sure an estimate is: noise of each channel, its memory, covariance, intervals.

Residuals of robots are friction and flexibility, not white noise: neighbouring rows repeat
each other. A channel's n rows are worth `n / τ` independent ones, with τ the integrated
autocorrelation of its residual; the usual formula, which takes τ = 1, covers the truth in 15
to 35 of 100 cases instead of 95 (measured). The weights count rows by τ; the covariance goes
further: the error of `Yᵀε` is `Yᵀ Γ Y`, with Γ the covariance of an autoregression fitted to
each channel's residual, kept as a square root like all information (the sandwich
[Huber1967; White1980]). What a prior holds is widened by what the prior may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.information import Information, triangle_of

LONGEST_MEMORY = 4096  # rows
ORDER = 20  # of the autoregression, on the thinned residual
ROWS_PER_ORDER = 20  # thinned rows needed for each of its coefficients
LOCAL = 7  # thinned rows around one whose residuals tell how large errors are there
MOST_THINNED = 20_000  # thinned rows that are kept for the sandwich; it is scaled to all


@dataclass(frozen=True)
class Noise:
    """What is left of each channel when its rows are explained.

    Attributes:
        sigma: Standard deviation of the residual [N·m or N], shape (channels,).
        autocorrelation_time: Integrated autocorrelation τ ≥ 1 [rows], shape (channels,).
        rows: Rows, shape (channels,).
        coloured: For each channel S with `SᵀS = Yᵀ Γ Y`, Γ the covariance of its residual; see
            `coloured_factors`. None where residuals are taken for white, or for as good as that.
        common_errors: For each channel the moments `Yᵀe` of errors e of one standard deviation
            that all channels have in common, such as of a delay, shape (errors, b); None if there
            are none.
    """

    sigma: Array
    autocorrelation_time: Array
    rows: Array
    coloured: tuple[Array, ...] | None = None
    common_errors: tuple[Array, ...] | None = None

    @property
    def effective(self) -> Array:
        """Independent rows that each channel is worth, shape (channels,)."""
        return self.rows / self.autocorrelation_time

    def factors(self, information: Information) -> list[Array]:
        """Return for each channel S with `SᵀS = Yᵀ Γ Y` over all columns, shape (any, b)."""
        if self.coloured is not None:
            return list(self.coloured)
        size = len(information.labels)
        spread = self.sigma * np.sqrt(self.autocorrelation_time)
        return [
            s * t.spread(size)[:-1, :-1] for s, t in zip(spread, information.triangles, strict=True)
        ]

    def score_factor(
        self,
        information: Information,
        weights: Sequence[float] | Array,
        maps: Sequence[Array] | None = None,
    ) -> Array:
        """Return S with `SᵀS` the covariance of `Σ w² Tᵀ Yᵀ ε` over the channels.

        Args:
            information: About β, for residuals taken for white.
            weights: w of each channel.
            maps: T of each channel, shape (b, any); the identity if not given.
        """
        count = len(self.sigma)
        factors = self.factors(information)
        shared = self.common_errors or (np.zeros((0, len(information.labels))),) * count
        if maps is not None:
            factors = [f @ m for f, m in zip(factors, maps, strict=True)]
            shared = tuple(f @ m for f, m in zip(shared, maps, strict=True))
        own = [w**2 * f for w, f in zip(weights, factors, strict=True)]
        common = np.sum([w**2 * f for w, f in zip(weights, shared, strict=True)], axis=0)
        return np.vstack([*own, common])


def autocovariance(residuals: Iterable[Array], longest: int = LONGEST_MEMORY) -> Array:
    """Return the mean autocovariance of pieces of residuals, by lag.

    Args:
        residuals: Pieces of shape (rows, channels), each without gaps.
        longest: Largest lag [rows].

    Returns:
        Shape (longest + 1, channels); lags beyond the pieces are zero.
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
    """Return the integrated autocorrelation of each channel, at least 1.

    Sums of neighbouring pairs of lags are added while they are positive and fall: the initial
    monotone sequence of [Geyer1992, sect. 3.3].

    Args:
        covariance: As `autocovariance` returns it, shape (lags, channels).
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


class ResidualsLike(Protocol):
    """What is left of a piece of rows without gaps; see `plants.Residuals`."""

    @property
    def values(self) -> Array:
        """τ − Y β, shape (N, channels)."""
        ...

    @property
    def regressor(self) -> Callable[[NDArray[np.intp]], Array]:
        """Returns Y at some of the rows."""
        ...

    @property
    def recording(self) -> int:
        """Position of the recording in the problem."""
        ...

    @property
    def index(self) -> NDArray[np.int64] | None:
        """Rows' positions in the recording; None where a row is made of many."""
        ...


@dataclass(frozen=True)
class Thinned:
    """Rows thinned out to what the motion's band leaves, with residuals averaged in between.

    Attributes:
        rows: Y at the middle of each block, shape (blocks, channels, b).
        residuals: Mean residual of each block, shape (blocks, channels).
        every: Rows a block.
        share: Part of all rows that the blocks kept stand for.
        phase: Which block of a period each is, where the motion repeats.
    """

    rows: Array
    residuals: Array
    every: int
    share: float
    phase: NDArray[np.intp] | None = None


def thinned(
    pieces: Iterable[ResidualsLike], every: int, period: float | None = None
) -> tuple[Array, Thinned]:
    """Return the residuals' autocovariance by lag, and the rows thinned out, in one walk.

    Args:
        pieces: Residuals with their rows.
        every: How many rows one of them may stand for.
        period: After how many rows the motion repeats, if it does.
    """
    kept: list[tuple[Array, Array]] = []
    places: list[Array] = []
    count = [0, 0]  # rows that the blocks kept stand for, and all rows

    def passing() -> Iterator[Array]:
        for piece in pieces:
            rows = len(piece.values)
            blocks = rows // every
            count[1] += rows
            if blocks and count[0] < MOST_THINNED * every:
                count[0] += blocks * every
                means = piece.values[: blocks * every].reshape(blocks, every, -1).mean(axis=1)
                middle = every // 2 + every * np.arange(blocks)
                kept.append((piece.regressor(middle), means))
                if piece.index is not None:
                    places.append(piece.index[middle].astype(float))
            yield piece.values

    covariance = autocovariance(passing())
    if not kept:
        return covariance, Thinned(np.zeros((0, 0, 0)), np.zeros((0, 0)), every, 1.0)
    rows = np.concatenate([r for r, _ in kept])
    means = np.concatenate([m for _, m in kept])
    known = period is not None and len(places) == len(kept)
    phase = phases(np.concatenate(places), every, period or 0.0) if known else None
    return covariance, Thinned(rows, means, every, count[0] / max(count[1], 1), phase)


def phases(places: Array, every: int, period: float) -> NDArray[np.intp] | None:
    """Return which block of a period each block is; None if less than one and a half are seen.

    Args:
        places: Position of each block in the recording [rows].
        every: Rows a block.
        period: [rows].
    """
    spread = places - places[0]
    count = round(period / every)
    if spread[-1] < 1.5 * period or count < LOCAL:
        return None
    return np.asarray(np.floor(spread % period / period * count), dtype=np.intp)


def autoregression(series: Array, order: int) -> tuple[Array, float]:
    """Return coefficients and innovation's standard deviation of a series, by Yule-Walker.

    Args:
        series: Shape (n,), of mean zero.
        order: How many coefficients.
    """
    size = 1 << int(np.ceil(np.log2(2 * len(series))))
    lags = np.fft.irfft(np.abs(np.fft.rfft(series, size)) ** 2, size)[: order + 1] / len(series)
    if not lags[0] > 0.0:
        return np.zeros(order), 0.0
    coefficients = scipy.linalg.solve_toeplitz(lags[:-1] * (1.0 + 1e-9 * _first(order)), lags[1:])
    rest = lags[0] - coefficients @ lags[1:]
    return np.asarray(coefficients), float(np.sqrt(max(rest, 0.0)))


def local_scale(series: Array, phase: NDArray[np.intp] | None = None) -> Array:
    """Return by how much a series is larger than usual around each of its members, shape (n,).

    What no model explains comes where the motion turns, which is where friction's columns say
    most; noise that is the same everywhere is left as it is, within what chance does. Where the
    motion repeats, what is not explained comes again and adds up, as noise does not: then the
    sum over P periods is looked at, whose noise is √P times as large.

    Args:
        series: Shape (n,).
        phase: Which of a period each member is, shape (n,).
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
    """Return the mean of each value's neighbourhood."""
    near = np.ones(LOCAL)
    total = np.convolve(weights, near, "same")
    return np.asarray(np.convolve(weights * values, near, "same") / np.maximum(total, 1e-300))


def _first(size: int) -> Array:
    unit = np.zeros(size)
    unit[0] = 1.0
    return unit


def coloured_factors(sample: Thinned) -> tuple[Array, ...] | None:
    """Return for each channel a factor S with `SᵀS = Yᵀ Γ Y`, shape (≤ b, b).

    Γ is the covariance of an autoregression fitted to the channel's residual. With
    `Γ = σ² F Fᵀ`, F the recursive filter, S is the triangle of `σ Fᵀ Y`.

    Returns:
        None if there are too few rows to tell.
    """
    blocks, channels = sample.residuals.shape
    order = min(ORDER, blocks // ROWS_PER_ORDER)
    if order < 1:
        return None
    factors = []
    for c in range(channels):
        coefficients, sigma = autoregression(sample.residuals[:, c], order)
        # The fit took its share of the residual's freedom in this band.
        used = sample.rows.shape[2] / max(channels, 1)
        slow = max(sigma / max(1.0 - coefficients.sum(), 1e-6), 1e-300)  # spectrum's root at 0
        worth = min(1.0, float(np.mean(sample.residuals[:, c] ** 2)) / slow**2)
        independent = worth * blocks / sample.share
        grown = independent / max(independent - used, 0.25 * independent)
        size = local_scale(sample.residuals[:, c], sample.phase)
        rough = size[:, None] * sample.rows[:, c]
        filtered = signals.remembered(rough, coefficients)
        scale = sample.every * sigma * np.sqrt(grown / sample.share)
        factors.append(scale * triangle_of(filtered))
    return tuple(factors)


def posterior(
    data: Array, prior: Array, doubt: float, noise_factor: Array | None = None
) -> tuple[Array, Array]:
    """Return the covariance of a prior-weighted least-squares estimate, and its noise part.

    The estimate is `(J + Λ)⁻¹ (…)`, with J the data's information and Λ the prior's. Its noise
    is `A J A` with `A = (J + Λ)⁻¹`, or `A SᵀS A` where a factor S of the noise is given. Its
    bias is `A Λ (x₀ − x)`: unknown, but if the prior's numbers may be off by `doubt` in its own
    metric W (Λ = w W), its second moment is at most `doubt² w² A W A`.

    Args:
        data: R with RᵀR = J, shape (m, n).
        prior: √w W^½, so that its square is Λ, shape (k, n).
        doubt: By how much the prior's numbers may be off in its own metric, times √w.
        noise_factor: S, shape (l, n).

    Returns:
        Total and noise part, each (n, n).
    """
    stacked = np.vstack([data, prior])
    scale = np.linalg.norm(stacked, axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    # By the orthogonal factor, so that no accuracy is lost to the square of the condition.
    left, right = np.linalg.qr(stacked / scale)
    rows = len(data)
    spread = scipy.linalg.solve_triangular(right, left[:rows].T) / scale[:, None]
    pull = scipy.linalg.solve_triangular(right, left[rows:].T) / scale[:, None]
    if noise_factor is not None:
        inner = scipy.linalg.solve_triangular(right, (noise_factor / scale).T, trans="T")
        spread = scipy.linalg.solve_triangular(right, inner) / scale[:, None]
    noise = spread @ spread.T
    return noise + doubt**2 * pull @ pull.T, noise
