"""Weak form: equations of motion integrated against windows, which needs no acceleration.

What holds at every instant, `d/dt W₂ π − F π = τ`, holds integrated against any window φ that
vanishes at both ends. Integration by parts moves the derivative to the window, which is known:

    [−∫ φ̇ W₂ dt − ∫ φ F dt] π = ∫ φ τ dt        [Shinbrot1957]

The windows are powers of Hann's, of unit area, so a row is a mean effort [N·m or N] and white
noise is averaged over it. Samples are interpolated linearly and the interpolant is integrated
exactly, at the log's own times, uniform or not. Two things follow by construction: ∫ φ̇ of a
constant is zero, and on a uniform grid interpolation affects both sides alike and cancels.

The textbook's `u = ∫τ dt`, `Y = W₂ − ∫W₁ dt` is one window that grows from the start to now and
never ends; it is `heft_methods.textbook.Growing`.

Windows lie on a grid of the clock itself, not of the log's first sample. So they are the same
however a log is split, and a stream buffers no more than one window's length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from heft.arrays import Array
from heft.compiled import plain
from heft.errors import InvalidSetting
from heft.files import Keys, Number, check_fields

from . import recursions
from .clock import GAP_STEPS

SHORTEST = 20  # samples a window must span
CHECKS: Keys = {
    "length": Number(
        "the window of the weak form has no positive length",
        above=0.0,
        unit="s",
        cure="give none to choose it from the corner",
    ),
    "power": Number("the power of Hann's window is none", 1, 8, whole=True),
    "overlap": Number("windows cannot overlap by this share of their length", 0.0, below=1.0),
}


@dataclass(frozen=True)
class Weak:
    """Settings of the weak form: the windows against which the equations of motion are integrated.

    Use it in place of differentiated rows where accelerations are too noisy [Shinbrot1957].

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    length: float | None = None  # of a window [s], or None for 1.5 periods of the low-pass's corner
    power: int = 2  # p of the window cos²ᵖ. It has 2p − 1 continuous derivatives
    overlap: float = 0.75  # fraction of its length that a window shares with the next, in [0, 1)

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def windows(self, corner: float, step: float) -> Windows:
        """Return the windows for a log, their length and stride a whole number of time steps.

        Args:
            corner: Cutoff frequency of the low-pass [Hz].
            step: Median time between samples [s].

        Raises:
            InvalidSetting: If `length` spans fewer than `SHORTEST` samples.
        """
        if self.length is not None and self.length < (SHORTEST - 0.5) * step:
            raise InvalidSetting(
                "the window of the weak form spans too few samples",
                argument="length",
                got=f"{self.length:g} s, {self.length / step:.1f} samples",
                expected=f"{SHORTEST * step:.4g} s at least, {SHORTEST} samples",
            )
        # By default a window is one and a half periods of the corner long.
        length = 1.5 / corner if self.length is None else self.length
        count = max(round(length / step), SHORTEST)
        return Windows(count * step, max(round((1.0 - self.overlap) * count), 1) * step, self.power)


@dataclass(frozen=True)
class WhiteWeak(Weak):
    """Settings of the weak form of unfiltered signals, whose noise is white."""

    # a longer interval between samples, in time steps, is a gap that no window spans
    gap_steps: float = GAP_STEPS
    # whether rows are decorrelated, so that the noise that overlapping windows share counts once;
    # see `whitened`
    whitened: bool = True


@dataclass(frozen=True)
class Windows:
    """Grid of windows in time: window k is φ(t − k·stride) on [k·stride, k·stride + length].

    φ is cos²ᵖ(π u) normalised to unit area, u from −½ to ½ along the window, written as a sum of
    cosines.
    """

    length: float  # of each [s]
    stride: float  # from one to the next [s]
    power: int = 2  # p

    @property
    def harmonics(self) -> tuple[float, ...]:
        """Cosine coefficients c_j, j = 1…p, of `φ = (1 + Σ c_j cos 2πj u)/length`."""
        p = self.power
        return tuple(2.0 * math.comb(2 * p, p + j) / math.comb(2 * p, p) for j in range(1, p + 1))

    def from_time(self, time: float) -> int:
        """Return the index of the first window that begins at this time [s] or later."""
        k = math.ceil(time / self.stride)
        while k * self.stride < time:  # the quotient was rounded down, or up
            k += 1
        while (k - 1) * self.stride >= time:
            k -= 1
        return k

    def over_at(self, time: float) -> int:
        """Return the index of the first window that ends after this time [s]."""
        k = math.floor((time - self.length) / self.stride) + 1
        while k * self.stride + self.length <= time:
            k += 1
        while (k - 1) * self.stride + self.length > time:
            k -= 1
        return k

    def weights(self, time: Array, first: int, count: int = 1) -> tuple[Array, Array]:
        """Return the weights of samples in the integrals ∫ φ f dt and ∫ φ̇ f dt of some windows.

        With f interpolated linearly between samples: `weights[0] @ f == ∫ φ f dt` and
        `weights[1] @ f == ∫ φ̇ f dt`. The former add up to 1, the latter to 0.

        Args:
            time: Strictly increasing, covering all the windows, shape (N,) [s].

        Returns:
            Two arrays of shape (count, N), dimensionless and in 1/s.
        """
        starts = self.stride * np.arange(first, first + count, dtype=np.float64)
        phi, rate = np.empty((2, count, len(time)))
        recursions.weigh(*plain(time, starts, np.array(self.harmonics)), self.length, phi, rate)
        return phi, rate


@dataclass(frozen=True)
class Samples:
    """Both sides of the equation of motion d/dt(W₂ π) − F π = τ at N consecutive samples."""

    time: Array  # strictly increasing, shape (N,) [s]
    momentum: Array  # W₂, rows of the generalised momentum, shape (N, channels, p)
    # F, the undifferentiated rest: W₁ less the columns of friction, shape (N, channels, p)
    remainder: Array
    effort: Array  # τ, shape (N, channels) [N·m or N]

    def part(self, cut: slice) -> Samples:
        """Return a slice of the samples."""
        return Samples(self.time[cut], self.momentum[cut], self.remainder[cut], self.effort[cut])

    def integrated(self, cut: slice, phi: Array, rate: Array) -> tuple[Array, Array]:
        """Return regressor and effort of windows by a slice's weights; see `Integrals`."""
        shape = self.momentum.shape[1:]
        both = (x[cut] for x in (self.momentum, self.remainder))
        momentum, remainder = (x.reshape(len(x), math.prod(shape)) for x in both)
        regressor = integral(momentum, remainder, phi, rate)
        return regressor.reshape(len(phi), *shape), phi @ self.effort[cut]

    def then(self, other: Samples) -> Samples:
        """Return these samples and later ones, concatenated.

        Raises:
            AssertionError: If the others do not come later.
        """
        if len(self.time) and len(other.time) and other.time[0] <= self.time[-1]:
            raise AssertionError("samples do not follow one another")
        mine, others = vars(self).values(), vars(other).values()
        return Samples(*(np.concatenate(pair) for pair in zip(mine, others, strict=True)))


def integral(momentum: Array, remainder: Array, phi: Array, rate: Array) -> Array:
    """Return −∫ (φ̇ W₂ + φ F) dt in windows, shape (windows, p), of both sides, shape (N, p).

    Args:
        phi: Weights of the samples in the integrals of φ, shape (windows, N).
        rate: Those in the integrals of φ̇.
    """
    out = np.empty((len(phi), momentum.shape[1]))
    for k in range(0, len(phi), 8):  # more windows reuse samples in cache, fewer waste less
        group = slice(k, k + 8)
        seen = np.flatnonzero((phi[group] != 0.0).any(axis=0) | (rate[group] != 0.0).any(axis=0))
        cut = slice(seen[0], seen[-1] + 1) if len(seen) else slice(0, 0)
        out[group] = -(rate[group, cut] @ momentum[cut] + phi[group, cut] @ remainder[cut])
    return out


@dataclass(frozen=True)
class Integrals:
    """Regression rows of the weak form, one per window and channel."""

    time: Array  # middle of each window, shape (windows,) [s]
    regressor: Array  # −∫ φ̇ W₂ dt − ∫ φ F dt, shape (windows, channels, p)
    effort: Array  # ∫ φ τ dt, shape (windows, channels) [N·m or N]

    @staticmethod
    def joined(parts: Sequence[Integrals]) -> Integrals:
        """Return the rows of windows that follow one another."""
        if len(parts) == 1:
            return parts[0]
        return Integrals(*map(np.concatenate, zip(*(vars(p).values() for p in parts), strict=True)))


class Partial(Protocol):
    """Samples both sides of whose equations are made where they are asked for; see `Samples`."""

    @property
    def time(self) -> Array:
        """When they were taken, strictly increasing, shape (N,) [s]."""

    def part(self, cut: slice) -> Samples:
        """Return a slice of the samples, with both sides."""

    def integrated(self, cut: slice, phi: Array, rate: Array) -> tuple[Array, Array]:
        """Return regressor and effort of windows by a slice's weights; see `Integrals`."""


def integrate(
    windows: Windows, samples: Samples, begin: float = -math.inf, end: float = math.inf
) -> Integrals:
    """Return the regression rows of all windows that the samples cover.

    Args:
        samples: Without a gap between them.
        begin: Windows that start before this time [s] are left out.
        end: Windows that start at this time [s] or later are left out. Pieces of a log may share
            samples: where one's end is the next one's begin, each window is in exactly one.
    """
    if not len(samples.time):
        return _integrals(windows, samples, 0, 0)
    first = windows.from_time(max(begin, float(samples.time[0])))
    behind = windows.over_at(float(samples.time[-1]))
    if end < math.inf:
        behind = min(behind, windows.from_time(end))
    return _integrals(windows, samples, first, behind - first)


def _integrals(windows: Windows, samples: Partial, first: int, count: int) -> Integrals:
    count = max(count, 0)
    starts = windows.stride * np.arange(first, first + count, dtype=np.float64)
    made = []
    for k in range(0, max(count, 1), 64):
        group, cut = starts[k : k + 64], slice(0, 0)
        if len(group):
            low = int(np.searchsorted(samples.time, group[0], side="right")) - 1
            high = int(np.searchsorted(samples.time, group[-1] + windows.length)) + 1
            cut = slice(max(low, 0), high)
        weights = windows.weights(samples.time[cut], first + k, len(group))
        made.append(samples.integrated(cut, *weights))
    regressor, effort = map(np.concatenate, zip(*made, strict=True))
    return Integrals(starts + 0.5 * windows.length, regressor, effort)


@dataclass(frozen=True)
class Buffer:
    """Buffer of a stream for windows that are not complete yet: less than a window's length."""

    samples: Samples  # from the last one before the next window's start on
    following: int  # index of the next window


@dataclass(frozen=True)
class Piece:
    """What windows take of consecutive samples of a stream, whatever is before and behind."""

    begin: float  # time of the first sample [s]
    first: int  # index of the first window that begins in them
    behind: int  # index of the first window that ends after them
    within: Integrals  # of the windows from `first` on that end in them
    head: Samples  # as far as windows reach that begin before
    tail: Samples  # from the last one before the start of window `behind` on, or all

    @staticmethod
    def of(windows: Windows, samples: Partial) -> Piece:
        """Return a piece of at least one sample."""
        time = samples.time
        begin, behind = float(time[0]), windows.over_at(float(time[-1]))
        first, start = windows.from_time(begin), behind * windows.stride
        end = (min(first, behind) - 1) * windows.stride + windows.length
        if start < begin:
            head = tail = samples.part(slice(0, None))
        else:
            before = int(np.searchsorted(time, start, side="right")) - 1
            head = samples.part(slice(0, int(np.searchsorted(time, end)) + 1))
            tail = samples.part(slice(max(before, 0), None))
        inside = _integrals(windows, samples if behind > first else tail, first, behind - first)
        return Piece(begin, first, behind, inside, head, tail)


def advance(
    windows: Windows, buffer: Buffer | None, piece: Samples | Piece
) -> tuple[Buffer, Integrals]:
    """Return the new buffer of a stream and the rows of the windows that its next piece completes.

    The rows of all pieces are those of `integrate` on the whole.

    Args:
        buffer: Buffer after the piece before; None where a stream begins, or resumes after a gap.
        piece: The next samples of the stream, at least one.

    Raises:
        AssertionError: If the piece does not come later than the buffer.
    """
    if isinstance(piece, Samples):
        piece = Piece.of(windows, piece)
    following = piece.first if buffer is None else buffer.following
    behind = max(piece.behind, following)
    done = [piece.within]
    if buffer is not None:
        # Windows that begin before the piece need its first samples only: the rest is not copied.
        if piece.begin <= buffer.samples.time[-1]:
            raise AssertionError("samples do not follow one another")
        own = min(piece.first, behind)
        if own > following:
            across = buffer.samples.then(piece.head)
            done.insert(0, _integrals(windows, across, following, own - following))
    start, samples = behind * windows.stride, piece.tail
    if buffer is not None and start < piece.begin:
        samples = buffer.samples.then(samples)
    before = np.searchsorted(samples.time, start, side="right") - 1
    kept = samples.part(slice(max(int(before), 0), None))
    apart = Samples(*(x.copy(order="K") for x in vars(kept).values()))  # frees the piece's rest
    return Buffer(apart, behind), Integrals.joined(done)


@dataclass(frozen=True)
class Whitening:
    """State of the whitening recursion, to continue with the next windows."""

    # rows of the Cholesky factor, from the diagonal backwards, newest last
    factors: tuple[Array, ...] = ()
    rows: tuple[Array, ...] = ()  # the whitened rows that belong to them, each of shape (columns,)


def shared_noise(windows: Windows, step: float) -> Array:
    """Return the autocovariance of a window's row with later ones, by lag, shape (lags,).

    Per unit variance of white noise of one sample: the first row of `Φ Φᵀ`, with Φ the samples'
    weights in the integrals ∫ φ f dt.

    Args:
        step: Time between samples [s].
    """
    lags = math.ceil(windows.length / windows.stride - 1e-9)
    samples = math.ceil((windows.length + (lags - 1) * windows.stride) / step) + 1
    weights, _ = windows.weights(step * np.arange(samples, dtype=np.float64), 0, lags)
    return np.asarray(weights @ weights[0])


def whitened(
    shared: Array, rows: Integrals, before: Whitening | None = None
) -> tuple[Integrals, Whitening]:
    """Return rows decorrelated for white noise of the effort, and the recursion's state.

    Windows that overlap share samples, and so noise. Rows are multiplied by the inverse Cholesky
    factor of its covariance; then residuals are independent with the standard deviation σ of one
    sample, and ordinary least squares is efficient with correct standard errors. This holds where
    windows are so long that noise of positions is less than that of efforts: the former enters by
    φ̈ and falls with the length to the power 5/2, the latter with its root. Hann windows that
    overlap by three quarters transmit nothing at half the frequency at which they follow one
    another; whitening amplifies errors there without bound. At overlaps of two thirds or less
    there is no such frequency.

    Args:
        shared: Autocovariance by lag, shape (lags,), as `shared_noise` returns it.
        rows: Of consecutive windows, none left out.
        before: State after the windows right before, if any.

    Returns:
        The whitened rows, and the state to continue with.
    """
    count = len(rows.time)
    columns = math.prod(rows.regressor.shape[1:])
    flat = np.column_stack([rows.regressor.reshape(count, columns), rows.effort])
    factors, done = (list(before.factors), list(before.rows)) if before else ([], [])
    out = np.empty_like(flat)
    for k, row in enumerate(flat):
        factor = _next_factor(shared, factors)
        for lag in range(1, len(factor)):
            row = row - factor[lag] * done[-lag]
        out[k] = row / factor[0]
        factors, done = [*factors, factor], [*done, out[k]]
        if len(factors) >= len(shared):
            factors, done = factors[1:], done[1:]
    made = replace(
        rows, regressor=out[:, :columns].reshape(rows.regressor.shape), effort=out[:, columns:]
    )
    return made, Whitening(tuple(factors), tuple(done))


def _next_factor(shared: Array, factors: list[Array]) -> Array:
    """Return the next row of the Cholesky factor of a banded Toeplitz matrix, backwards."""
    reach = min(len(shared) - 1, len(factors))
    row = np.zeros(reach + 1)
    for lag in range(reach, 0, -1):
        other = factors[-lag]
        both = range(lag + 1, min(reach, lag + len(other) - 1) + 1)
        common = sum(row[e] * other[e - lag] for e in both)
        row[lag] = (shared[lag] - common) / other[0]
    row[0] = math.sqrt(max(shared[0] - float(row[1:] @ row[1:]), 1e-12 * shared[0]))
    return row
