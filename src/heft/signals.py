"""From logged positions to smooth motion: clean, resample, smooth without phase, differentiate.

A log is walked in windows of bounded size, each with margins wide enough that the smoothing
filter has forgotten where they end. Positions are low-passed by a zero-phase Butterworth
filter on a uniform grid and differentiated by central differences of eighth order; motion is
then evaluated at the log's *own* times, so torque is never resampled. Penalised splines (see
`splines`) do the same without a grid; of a motion that repeats a Fourier series can be fitted
(see `periodic`). `smoother` chooses between the three. Torque stays raw, or is filtered together
with the rows by the same filter (`Smoothing.torque`), never alone: filtering one side only costs
4 to 50 times the reachable accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Literal, Protocol

import numpy as np
import scipy.interpolate
import scipy.signal
from numpy.typing import NDArray

from . import periodic, splines
from .errors import InvalidRecording, InvalidSetting, shown
from .inertia import Array
from .recording import Recording
from .tables import BLOCK_ROWS

# Central differences of eighth order on a grid of step h, for offsets 1 to 4 [Fornberg1988].
FIRST_DERIVATIVE = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
SECOND_DERIVATIVE = (8 / 5, -1 / 5, 8 / 315, -1 / 560)
SECOND_CENTRE = -205 / 72
REACH = 4
GAP_STEPS = 10  # a longer silence ends a segment: nothing is interpolated across it
CORNER_PER_F99 = 20.0
LARGEST_DELAY = 0.05  # [s]
LOWEST_CORNER = 1e-3  # [Hz]; of a lower one nothing is left between the margins of any log
LARGEST_CORNER = 0.4  # of the sampling rate
# Corners tried for a spline, in units of 20 · f99. Cross-validation takes the encoder's noise for
# white. On none of five measured arms it was, and the highest corner allowed was always asked for:
# at 40 · f99 that costs 79 % of the score on one and 15 % on another, at 20 · f99 nothing on any.
SPLINE_CORNERS = tuple(2.0 ** (k / 2.0) for k in range(-6, 1))
METHODS = ("butterworth", "spline", "fourier")
SHORTEST_STEP, LONGEST_STEP = 1e-6, 5.0  # [s] from row to row; else time has another unit
LARGEST_VALUE = 1e9  # of a signal, in SI units; what is larger no sensor measured
MOST_LOST = 0.2  # share of rows that may be unusable before a log is refused


@dataclass(frozen=True)
class Smoothing:
    """How motion is made smooth.

    Attributes:
        corner: Corner of the low-pass [Hz], or None to choose it from the data: `20 · f99`,
            where f99 is the frequency below which 99 % of the velocity's energy lies, of the
            joint where it is highest (see `choose_corner`).
        order: Order of the Butterworth filter, which runs forwards and backwards.
        trim: Time cut off at each end of a segment [s].
        torque: `raw`, or `filtered` to filter rows and torque alike and thin both out.
        delay: By how much torque comes behind motion [s]; None to look for it, and to take it
            only on strong evidence (see `estimators.Delay`).
        method: `butterworth`, a low-pass run both ways and central differences; `spline`, a
            penalised spline of each joint with exact derivatives, for any times; `fourier`,
            one series for the whole log, for motion that repeats.
        corners: Corner of each joint's spline [Hz]; if not given, the corner where one is, else
            chosen by cross-validation between 2.5 · f99 and 20 · f99 (see `choose_corners`).
        period: Of the motion [s], for `fourier`; looked for in the data if not given.
    """

    corner: float | None = None
    order: int = 8
    trim: float = 0.5
    torque: Literal["raw", "filtered"] = "raw"
    delay: float | None = None
    method: Literal["butterworth", "spline", "fourier"] = "butterworth"
    corners: tuple[float, ...] | None = None
    period: float | None = None

    def __post_init__(self) -> None:
        if self.corners is not None:  # files know no tuples
            object.__setattr__(self, "corners", tuple(self.corners))
        if self.method not in METHODS:
            raise InvalidSetting(
                "there is no such way of smoothing",
                argument="method",
                got=self.method,
                valid=METHODS,
            )
        for name in ("corner", "trim", "delay", "period"):
            value = getattr(self, name)
            if (value is None and name != "trim") or isinstance(value, Real):
                continue
            raise InvalidSetting("a number is expected", argument=name, got=shown(value))
        if not all(math.isfinite(c) and c > 0.0 for c in self.corners or ()):
            raise InvalidSetting(
                "the corner of a spline is no positive frequency",
                argument="corners",
                got=self.corners,
                expected="Hz, one a joint",
            )
        if self.corners is not None and self.method != "spline":
            raise InvalidSetting(
                "only splines have a corner for each joint",
                argument="corners",
                got=f"method '{self.method}'",
                cure="take the method 'spline', or give one corner",
            )
        if self.period is not None and self.method != "fourier":
            raise InvalidSetting(
                "a period is given, but the method does not ask for one",
                argument="period",
                got=f"method '{self.method}'",
                cure="take the method 'fourier', or leave the period out",
            )
        if self.period is not None and not (math.isfinite(self.period) and self.period > 0.0):
            raise InvalidSetting(
                "the period is no positive time", argument="period", got=self.period, expected="s"
            )
        if self.corner is not None and not LOWEST_CORNER <= self.corner < math.inf:
            raise InvalidSetting(
                "the corner of the low-pass is no positive frequency",
                argument="corner",
                got=self.corner,
                expected=f"{LOWEST_CORNER:g} Hz or more, or none to choose it from the data",
            )
        if not (math.isfinite(self.trim) and self.trim >= 0.0):
            raise InvalidSetting("the trim is negative", argument="trim", got=self.trim)
        if type(self.order) is not int or not 1 <= self.order <= 8:
            raise InvalidSetting(
                "the order of the low-pass is none",
                argument="order",
                got=self.order,
                expected="1 to 8",
            )
        if self.delay is not None and not abs(self.delay) <= LARGEST_DELAY:
            raise InvalidSetting(
                "the delay is none",
                argument="delay",
                got=self.delay,
                expected=f"seconds, at most {LARGEST_DELAY:g}",
            )
        if self.torque not in ("raw", "filtered"):
            raise InvalidSetting(
                "torque is neither raw nor filtered",
                argument="torque",
                got=self.torque,
                valid=("raw", "filtered"),
            )


@dataclass(frozen=True)
class Timeline:
    """What a log's clock shows.

    Attributes:
        step: Median time between rows [s].
        rows: Rows in the file.
        used: Rows with finite numbers and a time behind the one before.
        duration: Sum of the lengths of the segments [s].
        repeated: Rows whose time is not behind the one before.
        broken: Rows with a number that is not finite, or beyond `LARGEST_VALUE`.
        gaps: Silences longer than `GAP_STEPS` steps, or jumps of the clock.
        segments: Pieces between them.
        constant: Signals that never change, if any rows are used.
    """

    step: float
    rows: int
    used: int
    duration: float
    repeated: int
    broken: int
    gaps: int
    segments: int
    constant: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Sampling rate [Hz]."""
        return 1.0 / self.step


@dataclass(frozen=True)
class Piece:
    """Rows that follow one another in time.

    Attributes:
        time: Strictly increasing, shape (rows,) [s].
        values: Shape (rows, signals).
        begins: Whether a segment begins here.
        index: Rows' positions in the recording, shape (rows,).
    """

    time: Array
    values: Array
    begins: bool
    index: NDArray[np.int64]


@dataclass
class _Tally:
    rows: int = 0
    used: int = 0
    repeated: int = 0
    broken: int = 0
    gaps: int = 0
    segments: int = 0
    duration: float = 0.0


def _pieces(
    recording: Recording, names: Sequence[str], step: float, tally: _Tally
) -> Iterator[Piece]:
    """Yield the usable rows of a recording, cut at gaps and jumps of the clock."""
    last = -np.inf
    for block in recording.blocks(names):
        position = tally.rows + np.arange(len(block.time))
        tally.rows += len(block.time)
        sound = np.abs(block.values) <= LARGEST_VALUE  # not for NaN
        finite = np.isfinite(block.time) & sound.all(axis=1)
        tally.broken += int(np.sum(~finite))
        time, values, position = block.time[finite], block.values[finite], position[finite]
        while len(time):
            latest = np.maximum.accumulate(np.concatenate([[last], time]))[:-1]
            jumps = np.flatnonzero(time - latest < -GAP_STEPS * step)
            back = int(jumps[0]) if len(jumps) else len(time)
            if back == 0 and not np.isinf(last):  # the clock was set back: begin anew
                last = -np.inf
                continue
            head = slice(0, back)
            highest = np.maximum.accumulate(np.concatenate([[last], time[head]]))
            fresh = time[head] > highest[:-1]
            tally.repeated += int(np.sum(~fresh))
            kept, rows, at = time[head][fresh], values[head][fresh], position[head][fresh]
            gaps = np.diff(kept, prepend=last) > GAP_STEPS * step
            cuts = np.flatnonzero(gaps)
            for first, behind in zip([0, *cuts], [*cuts, len(kept)], strict=True):
                if first == behind:
                    continue
                begins = bool(gaps[first])
                tally.segments += begins
                tally.gaps += begins and tally.segments > 1
                tally.used += behind - first
                tally.duration += float(kept[behind - 1] - kept[first])
                if not begins:
                    tally.duration += float(kept[first] - last)
                yield Piece(kept[first:behind], rows[first:behind], begins, at[first:behind])
                last = float(kept[behind - 1])
            time, values, position = time[back:], values[back:], position[back:]


def survey(recording: Recording, names: Sequence[str] = ()) -> Timeline:
    """Return what a log's clock shows, in one pass of bounded memory.

    Args:
        recording: The log.
        names: Signals whose rows must be finite.

    Raises:
        InvalidRecording: If there are too few rows, or too many unusable ones.
    """
    medians = []
    for block in recording.blocks([]):
        steps = np.diff(block.time[np.isfinite(block.time)])
        steps = steps[steps > 0.0]
        if len(steps):
            medians.append((float(np.median(steps)), len(steps)))
    if not medians:
        raise InvalidRecording(
            "the log's time does not advance",
            argument=recording.name,
            expected="at least two rows with times in increasing order [s]",
        )
    order = sorted(medians)
    half = sum(n for _, n in order) / 2.0
    seen = np.cumsum([n for _, n in order])
    step = order[int(np.searchsorted(seen, half))][0]
    if not SHORTEST_STEP <= step <= LONGEST_STEP:
        raise InvalidRecording(
            "the log's time is not in seconds",
            argument=recording.name,
            got=f"{step:g} s from row to row",
            expected=f"{SHORTEST_STEP:g} s to {LONGEST_STEP:g} s",
            cure='say its unit in the column map (--map): [time] unit = "ms"',
        )
    tally = _Tally()
    least, most = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    for piece in _pieces(recording, names, step, tally):
        least = np.minimum(least, piece.values.min(axis=0))
        most = np.maximum(most, piece.values.max(axis=0))
    lost = tally.rows - tally.used
    if lost > MOST_LOST * tally.rows:
        raise InvalidRecording(
            "too many rows of the log are unusable",
            argument=recording.name,
            got=f"{tally.broken} rows with numbers that are not finite or beyond "
            f"{LARGEST_VALUE:g}, {tally.repeated} whose time is not behind the one before, "
            f"of {tally.rows}",
            expected=f"at most {MOST_LOST:.0%}",
            cure="look at how the log was written; cut out what is broken",
        )
    return Timeline(
        step,
        tally.rows,
        tally.used,
        tally.duration,
        tally.repeated,
        tally.broken,
        tally.gaps,
        tally.segments,
        tuple(n for n, a, b in zip(names, least, most, strict=True) if a == b),
    )


@dataclass(frozen=True)
class Window:
    """A piece of a segment with margins.

    Attributes:
        time: Shape (rows,) [s].
        values: Shape (rows, signals).
        core: The rows that this window answers for.
        begin, end: When the segment begins and ends [s]; ∓inf where it goes on.
        index: Rows' positions in the recording, shape (rows,).
    """

    time: Array
    values: Array
    core: slice
    begin: float
    end: float
    index: NDArray[np.int64]


def windows(
    recording: Recording,
    names: Sequence[str],
    step: float,
    margin: float,
    core_rows: int = BLOCK_ROWS // 2,
) -> Iterator[Window]:
    """Yield a recording in windows, every usable row in the core of exactly one.

    Args:
        recording: The log.
        names: The signals.
        step: Its median time step [s].
        margin: Time on each side of the core [s], where the segment goes on.
        core_rows: How many rows a window answers for, at most about twice as many.
    """
    time, index = np.empty(0), np.empty(0, dtype=np.int64)
    values = np.empty((0, len(names)))
    start, begin = 0, -np.inf

    def cut(stop: int, end: float) -> Window:
        low = int(np.searchsorted(time, time[start] - margin))
        high = int(np.searchsorted(time, time[stop - 1] + margin, side="right"))
        first = begin if low == 0 else -np.inf
        return Window(
            time[low:high],
            values[low:high],
            slice(start - low, stop - low),
            first,
            end if high == len(time) else np.inf,
            index[low:high],
        )

    for piece in _pieces(recording, names, step, _Tally()):
        if piece.begins:
            if start < len(time):
                yield cut(len(time), float(time[-1]))
            time, values, index = piece.time, piece.values, piece.index
            start, begin = 0, float(time[0])
        else:
            time = np.concatenate([time, piece.time])
            values = np.concatenate([values, piece.values])
            index = np.concatenate([index, piece.index])
        while len(time) > start + 2 * core_rows and time[-1] > time[start + core_rows] + margin:
            yield cut(start + core_rows, np.inf)
            start += core_rows
            forget = int(np.searchsorted(time, time[start] - margin)) - 1
            if forget > 0:
                time, values, index = time[forget:], values[forget:], index[forget:]
                start -= forget
                begin = -np.inf
    if start < len(time):
        yield cut(len(time), float(time[-1]))


@lru_cache(maxsize=32)
def _sections(order: int, ratio: float) -> Array:
    return np.asarray(scipy.signal.butter(order, ratio, output="sos"))


def low_pass(values: Array, step: float, corner: float, order: int = 4) -> Array:
    """Return values through a zero-phase Butterworth low-pass, along the first axis.

    Args:
        values: On a uniform grid, shape (rows, ...).
        step: Of the grid [s].
        corner: [Hz], below half the sampling rate.
        order: Of the filter, which runs forwards and backwards.
    """
    sections = _sections(order, 2.0 * corner * step)
    # The padding must outlast the filter, or its start shows; odd, so that slopes go on.
    pad = min(
        values.shape[0] - 1, max(3 * (2 * order + 1), round(settling(corner, step, order) / step))
    )
    return np.asarray(scipy.signal.sosfiltfilt(sections, values, axis=0, padlen=pad))


def remembered(rows: Array, coefficients: Array) -> Array:
    """Return rows through the recursive filter `y_k = x_k + Σ_i a_i y_{k+i}`, from the end.

    Args:
        rows: Shape (rows, ...).
        coefficients: a_i, shape (order,).
    """
    denominator = np.concatenate([[1.0], -coefficients])
    return np.asarray(scipy.signal.lfilter([1.0], denominator, rows[::-1], axis=0)[::-1])


def density(time: Array, values: Array, step: float, length: int) -> Array:
    """Return the power spectral density by Welch's method, shape (length // 2 + 1, columns).

    Args:
        time: Shape (rows,) [s], without gaps.
        values: Shape (rows, columns).
        step: Of the even grid that they are put on [s].
        length: Rows a segment, no more than there are.
    """
    grid = time[0] + step * np.arange(max(round((time[-1] - time[0]) / step) + 1, length))
    even = np.stack([np.interp(grid, time, column) for column in values.T], 1)
    return np.asarray(scipy.signal.welch(even, 1.0 / step, nperseg=length, axis=0)[1])


@lru_cache(maxsize=32)
def settling(corner: float, step: float, order: int = 4) -> float:
    """Return how long the low-pass remembers [s], to 1e-10 of the signal."""
    _, poles, _ = scipy.signal.butter(order, 2.0 * corner * step, output="zpk")
    return float(step * math.ceil(math.log(1e-10) / math.log(np.abs(poles).max())))


def _differences(values: Array, step: float) -> tuple[Array, Array]:
    """Return first and second derivative on a uniform grid; the ends go on along their slope."""
    before = 2.0 * values[:1] - values[REACH:0:-1]
    behind = 2.0 * values[-1:] - values[-2 : -REACH - 2 : -1]
    padded = np.concatenate([before, values, behind])
    count = len(values)
    first = np.zeros_like(values)
    second = SECOND_CENTRE * values
    for k in range(1, REACH + 1):
        ahead = padded[REACH + k : REACH + k + count]
        past = padded[REACH - k : REACH - k + count]
        first += FIRST_DERIVATIVE[k - 1] * (ahead - past)
        second += SECOND_DERIVATIVE[k - 1] * (ahead + past)
    return first / step, second / step**2


@dataclass(frozen=True)
class Smoothed:
    """Smooth motion at the times of a window's rows.

    Attributes:
        position, velocity, acceleration: Shape (rows, joints).
    """

    position: Array
    velocity: Array
    acceleration: Array


def is_uniform(time: Array, step: float) -> bool:
    """Return whether times lie on a grid of this step, to a thousandth of it."""
    return bool(np.abs(time - time[0] - step * np.arange(len(time))).max() <= 1e-3 * step)


def uniform_step(time: Array, step: float) -> float:
    """Return the exact step of a window whose times are all but uniform."""
    return float((time[-1] - time[0]) / (len(time) - 1)) if len(time) > 1 else step


def require_rows(time: Array) -> None:
    """Refuse a piece of a log that is too short to differentiate."""
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
    """Return smooth positions, velocities and accelerations.

    Args:
        time: Strictly increasing, shape (rows,) [s].
        positions: Shape (rows, joints).
        step: Of the grid to smooth on [s].
        corner: Of the low-pass [Hz].
        order: Of the low-pass.
        at: Where to evaluate, inside the times given [s]; those times if not given.

    Raises:
        InvalidRecording: If there are too few rows.
    """
    require_rows(time)
    exact = uniform_step(time, step)
    uniform = is_uniform(time, exact)
    if uniform:
        grid, even, step = time, positions, exact
    else:
        grid = time[0] + step * np.arange(math.floor((time[-1] - time[0]) / step + 1e-9) + 1)
        even = scipy.interpolate.CubicSpline(time, positions)(grid)
    position = low_pass(even, step, corner, order)
    velocity, acceleration = _differences(position, step)
    if uniform and at is None:
        return Smoothed(position, velocity, acceleration)
    together = np.concatenate([position, velocity, acceleration], axis=1)
    # What was smoothed lies far below the grid's rate, so a spline through it is exact enough.
    back = scipy.interpolate.CubicSpline(grid, together)(
        np.clip(time if at is None else at, grid[0], grid[-1])
    )
    joints = positions.shape[1]
    return Smoothed(back[:, :joints], back[:, joints : 2 * joints], back[:, 2 * joints :])


class Smoother(Protocol):
    """One way of making the motion of one recording smooth."""

    @property
    def margin(self) -> float:
        """How far beyond its core a window must reach [s]."""
        ...

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return the motion of a window; see `smooth`."""
        ...


@dataclass(frozen=True)
class Butterworth:
    """A low-pass run both ways, and central differences; see `smooth`.

    Attributes:
        step: Of the recording [s].
        corner: [Hz].
        order: Of the low-pass.
    """

    step: float
    corner: float
    order: int = 4

    @property
    def margin(self) -> float:
        """How long the low-pass remembers [s]."""
        return settling(self.corner, self.step, self.order)

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return the motion of a window."""
        return smooth(time, positions, self.step, self.corner, self.order, at)


@dataclass(frozen=True)
class PenalisedSpline:
    """A penalised spline of each joint and its exact derivatives; see `splines`.

    Attributes:
        step: Of the recording [s].
        corners: Of each joint [Hz].
    """

    step: float
    corners: tuple[float, ...]

    @property
    def margin(self) -> float:
        """How far the influence of a row reaches [s]."""
        return splines.memory(min(self.corners))

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return the motion of a window.

        Raises:
            InvalidRecording: If there are too few rows.
        """
        require_rows(time)
        wanted = time if at is None else at
        out = np.empty((3, len(wanted), positions.shape[1]))
        for corner in sorted(set(self.corners)):
            joints = np.flatnonzero(np.array(self.corners) == corner)
            spline = splines.fit(time, positions[:, joints], self.step, corner)
            for derivative in range(3):
                out[derivative][:, joints] = splines.evaluate(*spline, wanted, derivative)
        return Smoothed(*out)


@dataclass(frozen=True)
class Fourier:
    """The Fourier series of a whole recording; see `periodic`.

    Attributes:
        series: What was fitted.
    """

    series: periodic.FourierSeries

    @property
    def margin(self) -> float:
        """None: the series is the same in every window."""
        return 0.0

    def smooth(self, time: Array, positions: Array, at: Array | None = None) -> Smoothed:
        """Return the motion at a window's times; its positions have been seen before."""
        wanted = time if at is None else at
        return Smoothed(*(self.series.at(wanted, derivative) for derivative in range(3)))


def smoother(
    smoothing: Smoothing, recording: Recording, names: Sequence[str], step: float | None = None
) -> Smoother:
    """Return what makes the motion of one recording smooth, by the method set.

    Args:
        smoothing: As `resolve` returns it.
        recording: The log; for `fourier` it is read once or twice.
        names: Its position signals.
        step: Its median time step [s], if it has been surveyed.

    Raises:
        InvalidSetting: If a Fourier series is asked for and the motion does not repeat.
    """
    corner = smoothing.corner
    if step is None:
        step = survey(recording, names).step
    if corner is None:
        raise InvalidSetting(
            "the smoothing has no corner yet", argument="corner", cure="resolve it"
        )
    if smoothing.method == "butterworth":
        return Butterworth(step, corner, smoothing.order)
    if smoothing.method == "spline":
        corners = smoothing.corners or (corner,) * len(names)
        if len(corners) != len(names):
            raise InvalidSetting(
                "there are not as many corners as joints that move",
                argument="corners",
                got=f"{len(corners)} corners",
                expected=f"{len(names)}: " + ", ".join(names),
            )
        return PenalisedSpline(step, corners)

    def pieces() -> Iterator[tuple[Array, Array]]:
        for window in windows(recording, names, step, 0.0):
            yield window.time, window.values

    period = smoothing.period or period_of(recording, names, step)
    # No more than the corner lets through, and no more than a third of what the rows can tell.
    harmonics = math.floor(period * min(corner, 0.33 / step))
    limited = max(1, min(harmonics, periodic.MOST_HARMONICS))
    series = periodic.fit_series(pieces(), period, limited)
    periodic.require_periodic(series)
    return Fourier(series)


def period_of(recording: Recording, names: Sequence[str], step: float) -> float:
    """Return the period of a recording, read in bounded memory."""
    rows = sum(w.core.stop - w.core.start for w in windows(recording, names, step, 0.0))
    stride = max(1, rows // (2 * periodic.SEARCH_POINTS))
    time, values = [], []
    for window in windows(recording, names, step, 0.0):
        chosen = window.index % stride == 0
        time.append(window.time[chosen])
        values.append(window.values[chosen])
    return periodic.find_period(np.concatenate(time), np.concatenate(values))


def _highest_f99(edges: Array, power: Array, bins: Array, top: float) -> float:
    """Return f99 of the joint where it is highest, from band sums of the positions' spectrum.

    The mean of the bands below a limit, but in its upper half, is taken for the encoder's
    noise, and twice that subtracted. Noise differs from motion in having its velocity's energy
    on top of the band: while f99 lies above a quarter of the limit, the limit is halved.
    """
    centre = np.sqrt(edges[1:] * edges[:-1])
    full = bins > 0
    mean = np.where(full[:, None], power / np.maximum(bins, 1)[:, None], 0.0)
    limit, best = top, top
    while limit > 64.0 * centre[full][0]:
        upper = full & (centre > 0.5 * limit) & (centre < 0.9 * limit)
        floor = 2.0 * np.median(mean[upper], axis=0) if upper.any() else 0.0
        below = full & (centre < limit)
        energy = np.maximum(mean - floor, 0.0) * (bins * below * centre**2)[:, None]
        total = energy.sum(axis=0)
        moving = total >= 0.01 * total.max()
        if not total.max() > 0.0:
            return 0.0
        shares = np.cumsum(energy[:, moving], axis=0) / total[moving]
        places = [int(np.searchsorted(column, 0.99)) for column in shares.T]
        best = float(edges[max(places) + 1])
        if best < 0.25 * limit:
            break
        limit *= 0.5
    return best


def choose_corner(recordings: Sequence[Recording], names: Sequence[str]) -> float:
    """Return the corner [Hz] that the rule finds for these logs: 20 · f99.

    f99 is the frequency below which 99 % of the energy of a joint's velocity lies, of the
    joint where it is highest among those that carry at least 1 % of the fastest's energy. The
    encoder's noise is subtracted first (see `_highest_f99`). Every log measured so far scores
    within 3 % of its best corner at 10 to 20 times f99. Never above 0.4 of the sampling rate.

    Args:
        recordings: The logs of one experiment.
        names: Their position signals.

    Raises:
        InvalidRecording: If nothing moves.
    """
    edges = np.geomspace(1e-3, 1e5, 8 * 133 + 1)
    power = np.zeros((len(edges) - 1, len(names)))
    bins = np.zeros(len(edges) - 1)
    rate = np.inf
    for recording in recordings:
        step = survey(recording, names).step
        rate = min(rate, 1.0 / step)
        for window in windows(recording, names, step, 0.0):
            count = int((window.time[-1] - window.time[0]) / step) + 1
            if count < 64:
                continue
            grid = window.time[0] + step * np.arange(count)
            even = np.stack([np.interp(grid, window.time, column) for column in window.values.T], 1)
            taper = np.hanning(count)[:, None]
            spectrum = np.abs(np.fft.rfft(taper * (even - even.mean(axis=0)), axis=0)) ** 2
            frequency = np.fft.rfftfreq(count, step)[1:]
            place = np.clip(np.searchsorted(edges, frequency) - 1, 0, len(power) - 1)
            np.add.at(power, place, spectrum[1:] / count)
            np.add.at(bins, place, 1.0)
    if not bins.any():
        raise InvalidRecording(
            "the logs are too short to see what moves",
            argument=", ".join(r.name for r in recordings),
            expected="64 rows without a gap at least",
            cure="give longer logs, or a corner",
        )
    f99 = _highest_f99(edges, power, bins, 0.5 * rate)
    if f99 == 0.0:
        raise InvalidRecording(
            "no joint moves in these logs",
            argument=", ".join(r.name for r in recordings),
            cure="record a motion, or check which columns hold the positions",
        )
    return float(min(CORNER_PER_F99 * f99, LARGEST_CORNER * rate))


def choose_corners(
    recordings: Sequence[Recording], names: Sequence[str], corner: float, trim: float = 0.5
) -> tuple[float, ...]:
    """Return the corner of each joint's spline [Hz] by generalised cross-validation.

    The smallest `(RSS/n) / (1 − d)²` [Craven1979], with d the trace of the smoother's matrix a
    row: the mean of its response `1/(1 + (f/f_c)⁶)` over all frequencies that the rows can show.
    Tried are corners from an eighth of the common one up to it, half an octave apart: no higher
    ones, since where the encoder's noise is not white that is what the score asks for. The lowest
    is taken of those that leave, by the score, a tenth more noise in the curve than the best.

    Args:
        recordings: The logs of one experiment.
        names: Their position signals.
        corner: The common corner, 20 · f99 [Hz].
        trim: Time at each end of a segment that does not count [s]: there a spline is no more
            than a parabola, and would ask for a higher corner.
    """
    rate = min(survey(recording, names).rate for recording in recordings)
    tried = [min(corner * k, LARGEST_CORNER * rate) for k in SPLINE_CORNERS]
    energy = np.zeros((len(tried), len(names)))
    rows, freedom = 0, np.zeros(len(tried))
    for recording in recordings:
        step = survey(recording, names).step
        margin = splines.memory(tried[0])
        frequency = (np.arange(1024) + 0.5) / 2048.0 / step
        for window in windows(recording, names, step, margin):
            if len(window.time) < 2 * REACH + 2:
                continue
            time, values = window.time[window.core], window.values[window.core]
            inside = (time >= window.begin + trim) & (time <= window.end - trim)
            count = int(np.sum(inside))
            rows += count
            for k, f in enumerate(tried):
                spline = splines.fit(window.time, window.values, step, f)
                fitted = splines.evaluate(*spline, time[inside])
                energy[k] += np.sum((values[inside] - fitted) ** 2, axis=0)
                freedom[k] += count * np.mean(1.0 / (1.0 + (frequency / f) ** 6))
    if rows == 0:
        return (corner,) * len(names)
    share = freedom / rows
    score = energy / rows / (1.0 - share[:, None]) ** 2
    floor = 1e-24 * (energy.max(axis=0) / rows) + np.finfo(float).tiny
    limit = score.min(axis=0) * (1.0 + 0.1 * share[np.argmin(score, axis=0)]) + floor
    best = np.argmax(score <= limit, axis=0)
    return tuple(float(tried[k]) for k in best)


def resolve(
    smoothing: Smoothing, recordings: Sequence[Recording], names: Sequence[str]
) -> Smoothing:
    """Return the smoothing with its corner chosen, and checked against the sampling rate."""
    if smoothing.corner is None:
        corner = choose_corner(recordings, names)
        if smoothing.method == "spline" and smoothing.corners is None:
            corners = choose_corners(recordings, names, corner, smoothing.trim)
            return replace(smoothing, corner=corner, corners=corners)
        return replace(smoothing, corner=corner)
    for recording in recordings:
        rate = survey(recording).rate
        highest = max(smoothing.corner, *(smoothing.corners or (0.0,)))
        if highest >= 0.5 * rate:
            raise InvalidSetting(
                "the corner of the low-pass is not below half the sampling rate",
                argument="corner",
                got=f"{highest:g} Hz",
                expected=f"below {0.5 * rate:.4g} Hz, half the rate of {recording.name}",
            )
    return smoothing
