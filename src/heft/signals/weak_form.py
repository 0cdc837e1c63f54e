"""The weak form: equations of motion integrated against windows, which needs no acceleration.

What holds at every instant, `d/dt W₂ π − F π = τ`, holds against any window φ that is zero at
both ends, and by parts its derivative falls on the window, which is known:

    [−∫ φ̇ W₂ dt − ∫ φ F dt] π = ∫ φ τ dt        [Shinbrot1957]

The windows are powers of Hann's, of unit area, so a row is a mean effort [N·m or N] and white
noise is averaged over it. Samples are joined by straight lines, and those integrated exactly, on
the log's own times however they jitter. Two things follow by construction: ∫ φ̇ of a constant is
zero, and on a uniform grid both sides see one and the same interpolation, which drops out.

The textbook's `u = ∫τ dt`, `Y = W₂ − ∫W₁ dt` is one window that grows from the start to now and
never ends; it is `forms.Growing`.

Windows stand on a grid of the clock itself, not of the log's first sample. So they are the same
however a log is cut, and a stream needs to hold no more than one window's length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.files import Keys, Number, check_fields

from .clock import GAP_STEPS

LENGTH_PER_CORNER = 2.0  # a window's length in periods of the corner frequency
SHORTEST = 20  # samples a window must span
TOGETHER = 8  # windows weighted at once: more reuse samples in cache, fewer waste less
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
    """How the equations of motion are integrated.

    Attributes:
        length: Of a window [s], or None for two periods of the low-pass's corner.
        power: Of Hann's window. Power p has 2p − 1 continuous derivatives.
        overlap: Share of its length that a window has in common with the next.
    """

    length: float | None = None
    power: int = 2
    overlap: float = 0.75

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def windows(self, corner: float, step: float) -> Windows:
        """Return the windows for a log, their length and stride a whole number of time steps.

        Args:
            corner: Of the low-pass [Hz].
            step: Median time between samples [s].

        Raises:
            InvalidSetting: If the length that was asked for is that of too few samples.
        """
        if self.length is not None and self.length < (SHORTEST - 0.5) * step:
            raise InvalidSetting(
                "the window of the weak form spans too few samples",
                argument="length",
                got=f"{self.length:g} s, {self.length / step:.1f} samples",
                expected=f"{SHORTEST * step:.4g} s at least, {SHORTEST} samples",
            )
        length = LENGTH_PER_CORNER / corner if self.length is None else self.length
        count = max(round(length / step), SHORTEST)
        return Windows(count * step, max(round((1.0 - self.overlap) * count), 1) * step, self.power)


@dataclass(frozen=True)
class WhiteWeak(Weak):
    """The weak form of signals that are taken as they are, whose noise is white.

    Attributes:
        gap_steps: Time steps between samples over which no window reaches.
        whitened: Whether rows are combined so that what windows share counts once; see `whitened`.
    """

    gap_steps: float = GAP_STEPS
    whitened: bool = True


@dataclass(frozen=True)
class Windows:
    """Windows on the clock: window k is φ(t − k·stride) on [k·stride, k·stride + length].

    φ is cos²ᵖ(π u)/∫, u from −½ to ½ along the window, written as a sum of cosines.

    Attributes:
        length: Of each [s].
        stride: From one to the next [s].
        power: p.
    """

    length: float
    stride: float
    power: int = 2

    @property
    def harmonics(self) -> tuple[float, ...]:
        """c_j, j = 1…p, of `φ = (1 + Σ c_j cos 2πj u)/length`."""
        p = self.power
        return tuple(2.0 * math.comb(2 * p, p + j) / math.comb(2 * p, p) for j in range(1, p + 1))

    def from_time(self, time: float) -> int:
        """Return the first window that begins at this time [s] or later."""
        k = math.ceil(time / self.stride)
        while k * self.stride < time:  # the quotient was rounded down, or up
            k += 1
        while (k - 1) * self.stride >= time:
            k -= 1
        return k

    def over_at(self, time: float) -> int:
        """Return the first window that is not over at this time [s]."""
        k = math.floor((time - self.length) / self.stride) + 1
        while k * self.stride + self.length <= time:
            k += 1
        while (k - 1) * self.stride + self.length > time:
            k -= 1
        return k

    def weights(self, time: Array, first: int, count: int = 1) -> tuple[Array, Array]:
        """Return what each sample weighs in the integrals of some windows.

        With f the straight lines between samples: `weights[0] @ f == ∫ φ f dt` and
        `weights[1] @ f == ∫ φ̇ f dt`. The former add up to 1, the latter to 0.

        Args:
            time: Strictly increasing, from the first window's start or before to the last one's
                end or behind, shape (N,) [s].
            first: The first of the windows.
            count: How many.

        Returns:
            Two arrays of shape (count, N), dimensionless and in 1/s.
        """
        start = self.stride * np.arange(first, first + count, dtype=np.float64)[:, None]
        place = (time - start) / self.length - 0.5
        inside = np.clip(place, -0.5, 0.5)
        whole = np.diff(place)
        middle = 0.5 * (inside[:, 1:] + inside[:, :-1])
        width = np.diff(inside)
        # Means of φ·length and of its integral Φ over each interval between samples. Differences
        # of antiderivatives would cancel; these products do not.
        phi, integral = np.ones_like(middle), middle + 0.5
        for j, c in enumerate(self.harmonics, 1):
            damped = c * np.sinc(j * width)
            angle = (2.0 * np.pi * j) * middle
            phi += damped * np.cos(angle)
            integral += damped * np.sin(angle) / (2.0 * np.pi * j)
        behind = np.maximum(place[:, 1:], 0.5) - np.maximum(place[:, :-1], 0.5)
        share = width / whole  # less than 1 where a window begins or ends between samples
        phi *= share / self.length
        integral = integral * share + behind / whole
        # A sample's hat function rises over the interval before and falls over the one behind.
        return np.diff(integral, prepend=0.0, append=1.0), np.diff(phi, prepend=0.0, append=0.0)


@dataclass(frozen=True)
class Samples:
    """Both sides of the equation of motion at samples that follow one another.

    Attributes:
        time: Strictly increasing, shape (N,) [s].
        momentum: W₂, what is differentiated, shape (N, channels, p).
        remainder: F, what is not: W₁ less the columns of friction, shape (N, channels, p).
        effort: τ, shape (N, channels) [N·m or N].
    """

    time: Array
    momentum: Array
    remainder: Array
    effort: Array

    def part(self, cut: slice) -> Samples:
        """Return some of the samples."""
        return Samples(self.time[cut], self.momentum[cut], self.remainder[cut], self.effort[cut])

    def then(self, other: Samples) -> Samples:
        """Return these samples and those that follow.

        Raises:
            AssertionError: If the others do not come later.
        """
        if len(self.time) and len(other.time) and other.time[0] <= self.time[-1]:
            raise AssertionError("samples do not follow one another")
        mine, others = vars(self).values(), vars(other).values()
        return Samples(*(np.concatenate(pair) for pair in zip(mine, others, strict=True)))


@dataclass(frozen=True)
class Integrals:
    """Rows of the weak form, one a window and channel.

    Attributes:
        time: Middle of each window, shape (windows,) [s].
        regressor: −∫ φ̇ W₂ dt − ∫ φ F dt, shape (windows, channels, p).
        effort: ∫ φ τ dt, shape (windows, channels) [N·m or N].
    """

    time: Array
    regressor: Array
    effort: Array


def integrate(
    windows: Windows, samples: Samples, begin: float = -math.inf, end: float = math.inf
) -> Integrals:
    """Return the integrals over all windows that the samples cover.

    Args:
        windows: Which.
        samples: Without a gap between them.
        begin: Windows that start earlier are left out [s].
        end: Those that start then or later are left out too [s]. Pieces of a log may share
            samples: where one's end is the next one's begin, each window is in one of them.
    """
    if not len(samples.time):
        return _integrals(windows, samples, 0, 0)
    first = windows.from_time(max(begin, float(samples.time[0])))
    behind = windows.over_at(float(samples.time[-1]))
    if end < math.inf:
        behind = min(behind, windows.from_time(end))
    return _integrals(windows, samples, first, behind - first)


def _integrals(windows: Windows, samples: Samples, first: int, count: int) -> Integrals:
    count = max(count, 0)
    momentum, remainder = (
        x.reshape(len(x), math.prod(x.shape[1:])) for x in (samples.momentum, samples.remainder)
    )
    regressor = np.empty((count, momentum.shape[1]))
    effort = np.empty((count, samples.effort.shape[1]))
    starts = windows.stride * np.arange(first, first + count, dtype=np.float64)
    for k in range(0, count, TOGETHER):
        group = slice(k, min(k + TOGETHER, count))
        low = int(np.searchsorted(samples.time, starts[k], side="right")) - 1
        high = int(np.searchsorted(samples.time, starts[group][-1] + windows.length)) + 1
        cut = slice(max(low, 0), high)
        phi, rate = windows.weights(samples.time[cut], first + k, group.stop - k)
        regressor[group] = -(rate @ momentum[cut] + phi @ remainder[cut])
        effort[group] = phi @ samples.effort[cut]
    shape = (count, *samples.momentum.shape[1:])
    return Integrals(starts + 0.5 * windows.length, regressor.reshape(shape), effort)


@dataclass(frozen=True)
class Held:
    """What a stream holds for windows that are not over yet: less than a window's length.

    Attributes:
        samples: From the last one before the next window's start on.
        following: The next window.
    """

    samples: Samples
    following: int


def advance(windows: Windows, held: Held | None, piece: Samples) -> tuple[Held, Integrals]:
    """Return what to hold on to, and the windows that a stream's next piece completes.

    The windows of all pieces are those of `integrate` on the whole.

    Args:
        windows: Which.
        held: What the piece before left; None where a stream begins, or goes on behind a gap.
        piece: Samples that follow on those before, one at least.
    """
    samples = piece if held is None else held.samples.then(piece)
    following = windows.from_time(float(samples.time[0])) if held is None else held.following
    done = _integrals(
        windows, samples, following, windows.over_at(float(samples.time[-1])) - following
    )
    following += len(done.time)
    before = np.searchsorted(samples.time, following * windows.stride, side="right") - 1
    kept = samples.part(slice(max(int(before), 0), None))
    return Held(kept, following), done


@dataclass(frozen=True)
class Whitening:
    """What whitening goes on with where further windows follow.

    Attributes:
        factors: Rows of the Cholesky factor, from the diagonal backwards, newest last.
        rows: The whitened rows that belong to them, each of shape (columns,).
    """

    factors: tuple[Array, ...] = ()
    rows: tuple[Array, ...] = ()


def shared_noise(windows: Windows, step: float) -> Array:
    """Return the covariance of a window's row with those behind it, by lag, shape (lags,).

    Per unit variance of white noise of one sample: `Φ Φᵀ`, Φ being what each sample weighs.

    Args:
        windows: Which.
        step: Time between samples [s].
    """
    lags = math.ceil(windows.length / windows.stride - 1e-9)
    samples = math.ceil((windows.length + (lags - 1) * windows.stride) / step) + 1
    weights, _ = windows.weights(step * np.arange(samples, dtype=np.float64), 0, lags)
    return np.asarray(weights @ weights[0])


def whitened(
    shared: Array, rows: Integrals, before: Whitening | None = None
) -> tuple[Integrals, Whitening]:
    """Return rows combined so that white noise of the effort stays white, and what to go on with.

    Windows that overlap share samples, and so noise. With the Cholesky factor of its covariance
    divided out, residuals are independent, of the deviation σ of one sample, and plain least
    squares is best and honest. It is so where windows are long enough for noise of positions,
    which φ̈ lets through and falls with their length to the power 5/2, to be less than that of
    efforts, which falls with its root. Hann's windows that overlap by three quarters show nothing
    at half the frequency at which they follow one another: whitened, what is there counts beyond
    all measure. By two thirds or less they have no such frequency.

    Args:
        shared: As `shared_noise` returns it.
        rows: Over windows that follow one another, none left out.
        before: Of the windows right before, if there were any.
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
        rows,
        regressor=out[:, :columns].reshape(rows.regressor.shape),
        effort=out[:, columns:],
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
