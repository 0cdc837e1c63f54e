"""Estimators that survive rows which are not the robot: pushes, collisions, spikes, wrong blocks.

Least squares follows the largest residual. Four ways not to, from single rows to whole pieces:

    Huber          rows weigh less the farther off they are; all are kept
    Hampel         rows that stand out from their neighbours are left out
    BlockMedian    the median of what blocks of the log say
    Ransac         the pieces of the log that agree with one another, and no others

The first two walk the rows again with a weight for each; the last two need one walk, since
the triangles of pieces add. None knows robots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .errors import InvalidSetting, TooLittleData
from .estimators import Estimate, LeastSquares, ProblemLike, RowsLike
from .inertia import Array
from .information import Information, Triangle, solve, triangle_of
from .uncertainty import autocovariance, memory

NORMAL = 1.482602218505602  # a normal deviation in median absolute deviations
HUBER = 1.345  # 95 % efficiency under normal noise [Huber1964; Holland1977]
CROWD = 0.2  # share of outliers that makes a push of them
CLIP = 2.5  # deviations to which residuals are clipped before their memory is looked at
CONVERGED = 0.05  # of a standard deviation of the estimate, in the mean over parameters
HAMPEL_BYTES = 32 << 20  # of windows spelt out at once
FIRST_ROWS = 64  # of a segment's smallest part
BORROWED = 1.0  # of what a block holds on average, when its own estimate is made
FAR = 4.0  # median distances, beyond which a block counts for nothing
LEAST_SEEN = 0.02  # of the information in any direction that a consensus must hold
ROUNDS = 100  # at most, of the median and of a consensus


class TimedRows(RowsLike, Protocol):
    """Rows that say when and where they were measured; see `plants.Rows`."""

    @property
    def time(self) -> Array:
        """Shape (N,) [s]."""
        ...

    @property
    def recording(self) -> int:
        """Position of the recording in the problem."""
        ...


class RowProblem(ProblemLike, Protocol):
    """A problem that can spell out its rows."""

    @property
    def measured(self) -> Sequence[int] | NDArray[np.intp]:
        """Positions of `channels` among the channels of the rows."""
        ...

    def rows(self) -> Iterator[TimedRows]:
        """Yield all rows, in the order of `residuals`."""
        ...


def _left(problem: RowProblem, values: Array) -> Iterator[Array]:
    """Yield τ − Y β, in the order of `rows`."""
    return (piece.values for piece in problem.residuals(values))


# Weights


def huber_weights(residuals: Array, sigma: Array, threshold: float = HUBER) -> Array:
    """Return `min(1, k σ/|r|)`, the weights that make least squares minimise Huber's loss.

    Args:
        residuals: r, shape (rows, channels).
        sigma: Standard deviation of good rows, shape (channels,).
        threshold: k [deviations]; [Huber1964, eq. 3.4].
    """
    size = np.abs(residuals)
    limit = threshold * np.asarray(sigma)
    return np.asarray(np.where(size > limit, limit / np.where(size > 0.0, size, 1.0), 1.0))


def hampel(
    values: Array, window: int, threshold: float = 3.0, floor: Array | float = 0.0
) -> NDArray[np.bool_]:
    """Return which values stand out from the running median of their neighbours.

    True where `|x − median| > threshold · max(1.4826 MAD, floor)`, both of the `window` values
    around x [Pearson2002, sect. 2]; at the ends they are mirrored. Spikes shorter than half a
    window are seen.

    Args:
        values: Shape (rows, signals).
        window: Rows, odd.
        threshold: [deviations].
        floor: Least deviation counted, of each signal or all: what a quantised signal at rest
            needs, whose MAD is zero.
    """
    if type(window) is not int or window < 3 or window % 2 == 0:
        raise InvalidSetting(
            "the window of a running median is no odd number of rows",
            argument="window",
            got=window,
            expected="3, 5, …",
        )
    rows, signals = values.shape
    out = np.zeros((rows, signals), dtype=bool)
    half = window // 2
    if rows <= half:
        return out
    padded = np.pad(values, ((half, half), (0, 0)), mode="reflect")
    block = max(1, HAMPEL_BYTES // (8 * window * max(signals, 1)))
    for first in range(0, rows, block):
        part = padded[first : first + block + 2 * half]
        near = np.lib.stride_tricks.sliding_window_view(part, window, axis=0)
        middle = np.median(near, axis=2)
        spread = NORMAL * np.median(np.abs(near - middle[:, :, None]), axis=2)
        apart = np.abs(values[first : first + block] - middle)
        out[first : first + block] = apart > threshold * np.maximum(spread, floor)
    return out


def hampel_gate(
    residuals: Array, sigma: Array, window: int, threshold: float = 3.0, widen: int = 0
) -> NDArray[np.bool_]:
    """Return which rows of each channel to keep: those that neither stand out nor lie in a push.

    A push rises and fades, so rows between outliers are given up too: those that have more than
    a fifth of outliers among `widen` rows on each side. Single spikes take no neighbours along.

    Args:
        residuals: Without gaps, shape (rows, channels).
        sigma: Standard deviation of good rows, shape (channels,): no smaller one is believed.
        window: Of the running median [rows].
        threshold: [deviations].
        widen: Rows looked at on each side.

    Returns:
        Shape (rows, channels).
    """
    out = hampel(residuals, window, threshold, sigma)
    seen = np.concatenate([np.zeros((1, out.shape[1]), dtype=int), np.cumsum(out, axis=0)])
    at = np.arange(len(out))
    near = seen[np.minimum(at + widen + 1, len(out))] - seen[np.maximum(at - widen, 0)]
    return np.asarray(~(out | (near > CROWD * (2 * widen + 1))))


@dataclass(frozen=True)
class WeightedRows:
    """Rows and efforts multiplied by the roots of their weights.

    Attributes:
        regressor: √w Y, shape (N, channels, b).
        effort: √w τ, shape (N, channels).
        weight: w, shape (N, channels).
    """

    regressor: Array
    effort: Array
    weight: Array


def weighted(
    rows: Iterable[RowsLike],
    weights: Iterable[Array],
    measured: Sequence[int] | NDArray[np.intp] | None = None,
) -> Iterator[WeightedRows]:
    """Yield rows with weights: each row and its effort times the root of its weight.

    `Σ w (y β − τ)² = ‖√w Y β − √w τ‖²`, so whatever takes rows takes these.

    Args:
        rows: Pieces of rows.
        weights: Pieces of weights in the same order, cut wherever they like, each of shape
            (rows, measured channels) or (rows, 1).
        measured: Positions of the measured channels in the rows; all if not given.

    Raises:
        InvalidSetting: If there are not as many weights as rows.
    """
    source = iter(weights)
    left = np.empty((0, 1))
    for piece in rows:
        chosen = slice(None) if measured is None else np.asarray(measured)
        Y, tau = piece.regressor[:, chosen], piece.effort[:, chosen]
        count, parts = len(tau), [left] if len(left) else []
        while sum(map(len, parts)) < count:
            more = next(source, None)
            if more is None:
                raise _unlike()
            parts.append(more)
        together = np.concatenate(parts)
        weight = np.broadcast_to(together[:count], tau.shape)
        left = together[count:]
        root = np.sqrt(weight)
        yield WeightedRows(root[:, :, None] * Y, root * tau, weight)
    if len(left) or next(source, None) is not None:
        raise _unlike()


def _unlike() -> InvalidSetting:
    return InvalidSetting("there are not as many weights as rows", argument="weights")


def weighted_information(problem: RowProblem, weights: Iterable[Array]) -> Information:
    """Return the sum of a problem's rows with weights; rows of weight zero are not counted."""
    total = Information.neutral(problem.labels, problem.channels)
    for piece in weighted(problem.rows(), weights, problem.measured):
        part = Information.from_rows(
            problem.labels, problem.channels, piece.regressor, piece.effort
        )
        counts = np.count_nonzero(piece.weight, axis=0)
        triangles = tuple(
            replace(t, rows=int(n)) for t, n in zip(part.triangles, counts, strict=True)
        )
        total = total + replace(part, triangles=triangles)
    return total


class MedianSketch:
    """Medians of sizes in one pass and bounded memory, to 0.3 %: counts by their logarithm."""

    PER_OCTAVE = 256
    OCTAVES = 128  # from 2⁻⁶⁴ to 2⁶⁴

    def __init__(self, channels: int) -> None:
        self.counts = np.zeros((channels, self.PER_OCTAVE * self.OCTAVES), dtype=np.int64)

    def add(self, sizes: Array) -> None:
        """Count sizes ≥ 0, shape (rows, channels)."""
        last = self.counts.shape[1] - 1
        with np.errstate(divide="ignore"):
            place = self.PER_OCTAVE * (np.log2(sizes) + self.OCTAVES / 2)
        place = np.clip(place, 0, last).astype(np.intp)
        for c, column in enumerate(place.T):
            self.counts[c] += np.bincount(column, minlength=last + 1)

    def median(self) -> Array:
        """Return the median of each channel, shape (channels,)."""
        seen = np.cumsum(self.counts, axis=1)
        half = [np.searchsorted(column, 0.5 * column[-1]) for column in seen]
        return np.asarray(2.0 ** ((np.array(half) + 0.5) / self.PER_OCTAVE - self.OCTAVES / 2))


def scale_of(residuals: Iterable[Array], channels: int) -> Array:
    """Return 1.4826 times the median size of each channel's residuals, shape (channels,)."""
    sketch = MedianSketch(channels)
    for piece in residuals:
        sketch.add(np.abs(piece))
    return NORMAL * sketch.median()


# Rows by weights

Rule = Callable[[Array, Array], Array]


def _clipped(residuals: Iterable[Array], sigma: Array) -> Iterator[Array]:
    for piece in residuals:
        yield np.clip(piece, -CLIP * sigma, CLIP * sigma)


def _reweighted(
    problem: RowProblem, rule: Rule, sweeps: int, settings: dict[str, object]
) -> Estimate:
    """Return the fixed point of weights from residuals and least squares with these weights.

    Each sweep walks the rows twice: for the residuals, and for the sum. The residual's scale
    is its median absolute size, of the sweep before.
    """
    solver = LeastSquares(coloured=False)
    estimate = solver.fit(problem)
    values = estimate.fitted
    channels, passes = problem.channels, 2
    sigma = scale_of(_left(problem, values), len(channels))
    information, converged = estimate.information, False
    for _ in range(sweeps):
        sketch = MedianSketch(len(channels))

        def weights(at: Array = values, sketch: MedianSketch = sketch) -> Iterator[Array]:
            for piece in _left(problem, at):
                sketch.add(np.abs(piece))
                yield rule(piece, sigma)  # noqa: B023 (used up before sigma changes)

        information = weighted_information(problem, weights())
        passes += 2
        if information.rows <= len(values) or min(t.rows for t in information.triangles) == 0:
            raise TooLittleData(
                "nearly all rows are outliers to one another",
                got=f"{information.rows} rows left for {len(values)} parameters",
                cure="take a higher threshold, or look at the log",
            )
        noise = np.maximum(sigma, 1e-150)
        current = solver.conclude(information, noise, np.ones(len(channels)), passes)
        before, values = values, current.fitted
        triangle = information.combined(dict(zip(channels, (1.0 / noise).tolist(), strict=True)))
        moved = np.linalg.norm(triangle.R @ (values - before))
        sigma = NORMAL * sketch.median()
        if moved <= CONVERGED * math.sqrt(len(values)):
            converged = True
            break
    # The estimate's variance is σ² mean(ψ²)/mean(ψ')² a row [Huber1964, eq. 1.4], ψ = w r, while
    # the weighted triangle holds mean(w) a row: the ratio is the σ that goes with this triangle.
    sums, rows = np.zeros((3, len(channels))), 0

    def influence() -> Iterator[Array]:
        nonlocal rows
        for piece in _left(problem, values):
            w = np.broadcast_to(rule(piece, sigma), piece.shape)
            sums[0] += w.sum(axis=0)
            sums[1] += np.sum((w * piece) ** 2, axis=0)
            sums[2] += np.sum(w >= 1.0, axis=0)
            rows += len(piece)
            yield w * piece

    times = memory(autocovariance(influence()))
    freedom = max(1.0 - len(values) / max(information.rows, 1), 0.1)
    noise = np.sqrt(sums[0] * sums[1] / freedom) / np.maximum(sums[2], 1.0)
    found = solver.conclude(information, np.maximum(noise, 1e-150), times, passes + 1)
    used = (sums[0] / max(rows, 1)).tolist()
    return replace(found, settings={**settings, "converged": converged, "mean_weight": used})


def good_rows(
    problem: RowProblem, values: Array, threshold: float = 6.0, widen: int = 0
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield recording, positions and whether each row is to be kept, given what explains most.

    A row is left out where any channel's residual lies beyond the threshold, in deviations by
    the median, and so are its neighbours.

    Args:
        problem: Whose rows.
        values: β of a robust fit, shape (b,).
        threshold: [deviations].
        widen: Neighbours left out on each side [rows].
    """
    sigma = scale_of(_left(problem, values), len(problem.channels))
    for piece in problem.residuals(values):
        if piece.index is None:
            refuse_made_rows()
        far = np.asarray((np.abs(piece.values) > threshold * sigma).any(axis=1))
        near = np.convolve(far, np.ones(2 * widen + 1))[widen : widen + len(far)] > 0.5
        yield piece.recording, piece.index, ~near


def refuse_made_rows() -> NoReturn:
    """Raise `InvalidSetting`: rows that are integrals or filtered have no place in a log."""
    raise InvalidSetting(
        "rows made of many samples each cannot be told apart",
        argument="robust",
        cure="take raw torque and differentiated rows",
    )


def _require(condition: bool, argument: str, got: object, expected: str) -> None:
    if not condition:
        raise InvalidSetting(
            "a setting of a robust estimator is out of range",
            argument=argument,
            got=got,
            expected=expected,
        )


@dataclass(frozen=True)
class Huber:
    """Least squares whose rows weigh less the farther off they are [Huber1964].

    Minimises `Σ ρ(r/σ)`, quadratic up to k deviations and linear beyond, by iteratively
    reweighted least squares [Holland1977]; σ of each channel is 1.4826 times the median size
    of its residuals. A large residual keeps the pull of one of k deviations, so a share ε of
    outliers moves the estimate by about ε k deviations of a row. Rows of large leverage are
    not held back.

    Attributes:
        threshold: k [deviations]; 1.345 costs 5 % of efficiency under normal noise.
        sweeps: At most.
    """

    threshold: float = HUBER
    sweeps: int = 30

    def __post_init__(self) -> None:
        _require(self.threshold > 0.0, "threshold", self.threshold, "deviations, positive")
        _require(self.sweeps >= 1, "sweeps", self.sweeps, "at least one")

    def fit(self, problem: RowProblem) -> Estimate:
        """Return the estimate; its passes count every walk of the rows."""
        settings: dict[str, object] = {"robust": "huber", "threshold": self.threshold}
        return _reweighted(
            problem, lambda r, s: huber_weights(r, s, self.threshold), self.sweeps, settings
        )


@dataclass(frozen=True)
class Hampel:
    """Least squares without the rows whose residuals stand out from their neighbours'.

    For pushes and spikes shorter than half a window (see `hampel_gate`); slow errors of the
    model, which a running median follows, are left in.

    Attributes:
        window: Of the running median [rows], odd.
        threshold: [deviations].
        widen: Rows on each side in which outliers make a push.
        sweeps: At most.
    """

    window: int = 401
    threshold: float = 4.0
    widen: int = 10
    sweeps: int = 10

    def __post_init__(self) -> None:
        _require(self.window % 2 == 1 and self.window >= 3, "window", self.window, "3, 5, …")
        _require(self.threshold > 0.0, "threshold", self.threshold, "deviations, positive")
        _require(self.widen >= 0, "widen", self.widen, "rows, not negative")
        _require(self.sweeps >= 1, "sweeps", self.sweeps, "at least one")

    def gate(self, residuals: Array, sigma: Array) -> NDArray[np.bool_]:
        """Return which rows to keep, shape (rows, channels); see `hampel_gate`."""
        return hampel_gate(residuals, sigma, self.window, self.threshold, self.widen)

    def fit(self, problem: RowProblem) -> Estimate:
        """Return the estimate; its passes count every walk of the rows."""
        settings: dict[str, object] = {
            "robust": "hampel",
            "window": self.window,
            "threshold": self.threshold,
        }
        return _reweighted(
            problem,
            lambda r, s: self.gate(r, s).astype(float),
            self.sweeps,
            settings,
        )


# Pieces by their triangles


@dataclass(frozen=True)
class Segment:
    """A piece of a recording and what it says.

    Attributes:
        recording: Position of the recording in the problem.
        begin, end: Times of its first and last row [s].
        information: The sum of its rows.
    """

    recording: int
    begin: float
    end: float
    information: Information

    def __add__(self, later: Segment) -> Segment:
        return Segment(self.recording, self.begin, later.end, self.information + later.information)


@dataclass(frozen=True)
class SegmentEstimate(Estimate):
    """An estimate from segments, some of which may count for nothing.

    Attributes:
        segments: In the order of the rows.
        shares: With which weight each one stands in `information`, in [0, 1].
    """

    segments: tuple[Segment, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def inside(self) -> tuple[Segment, ...]:
        """The segments that count for half at least."""
        return tuple(s for s, w in zip(self.segments, self.shares, strict=True) if w >= 0.5)


def segments_of(problem: RowProblem, count: int) -> tuple[Segment, ...]:
    """Return a problem's rows in about `count` contiguous segments of equal numbers of rows.

    One walk in bounded memory: small segments are gathered, and neighbours added whenever
    there are four times as many as asked for. None reaches over two recordings.
    """
    parts: list[Segment] = []
    size = FIRST_ROWS
    for piece in problem.rows():
        chosen = np.asarray(problem.measured)
        for first in range(0, len(piece.time), size):
            cut = slice(first, first + size)
            information = Information.from_rows(
                problem.labels,
                problem.channels,
                piece.regressor[cut][:, chosen],
                piece.effort[cut][:, chosen],
            )
            time = piece.time[cut]
            parts.append(Segment(piece.recording, float(time[0]), float(time[-1]), information))
        if len(parts) > 4 * count:
            parts = _gathered(parts, 2 * count)
            size *= 2
    return tuple(_gathered(parts, count))


def _gathered(parts: Sequence[Segment], count: int) -> list[Segment]:
    """Return neighbours added up to about `count` segments of equal numbers of rows."""
    rows = np.array([p.information.rows for p in parts], dtype=float)
    if not len(parts):
        return []
    middle = np.cumsum(rows) - 0.5 * rows
    place = np.floor(middle / rows.sum() * count)
    out: list[Segment] = []
    last: tuple[float, int] | None = None
    for part, k in zip(parts, place.tolist(), strict=True):
        here = (k, part.recording)
        if here == last:
            out[-1] = out[-1] + part
        else:
            out.append(part)
        last = here
    return out


def _sum(segments: Iterable[Segment]) -> Information:
    chosen = iter(segments)
    total = next(chosen).information
    for s in chosen:
        total = total + s.information
    return total


def _weights(channels: Sequence[str], sigma: Array) -> dict[str, float]:
    return dict(zip(channels, (1.0 / sigma).tolist(), strict=True))


def _mean_energy(segments: Sequence[Segment], values: Array) -> Array:
    """Return the mean square of each segment's residuals, shape (segments, channels)."""
    return np.array(
        [
            [t.residual_energy(values) / max(t.rows, 1) for t in s.information.triangles]
            for s in segments
        ]
    )


def _floor(segments: Sequence[Segment]) -> Array:
    """Return what rounding leaves of each channel: noise-free rows need a finite weight."""
    total = _sum(segments)
    return np.array(
        [
            max(1e-13 * float(np.linalg.norm(t.factor[:, -1])) / math.sqrt(max(t.rows, 1)), 1e-150)
            for t in total.triangles
        ]
    )


def _finish(
    problem: RowProblem,
    segments: tuple[Segment, ...],
    shares: Array,
    sigma: Array,
    values: Array | None,
    settings: dict[str, object],
) -> SegmentEstimate:
    """Return the estimate from segments with shares; residuals are walked for their memory."""
    total: Information | None = None
    for s, share in zip(segments, shares.tolist(), strict=True):
        if share > 0.0:
            part = s.information if share == 1.0 else share * s.information
            total = part if total is None else total + part
    assert total is not None
    solver = LeastSquares(coloured=False)
    ones = np.ones(len(sigma))
    at = solver.conclude(total, sigma, ones, 1).fitted
    at = at if values is None else values
    times = memory(autocovariance(_clipped(_left(problem, at), sigma)))
    found = solver.conclude(total, sigma, times, 2)
    parameters = found.parameters if values is None else replace(found.parameters, values=values)
    return SegmentEstimate(
        parameters,
        found.information,
        found.noise,
        found.rank,
        2,
        settings,
        segments,
        tuple(shares.tolist()),
    )


@dataclass(frozen=True)
class BlockMedian:
    """The geometric median of what blocks of the log say: a median of means [Minsker2015].

    With m the estimate, each block has its own, `argmin ‖R_k x − z_k‖² + ‖R (x − m)‖²/K`: what
    its rows cannot tell it takes from m, at the strength that a block has on average. The
    estimate is the m that is the geometric median of these in the metric R of all blocks, found
    by Weiszfeld's steps. As long as less than half of the blocks are spoilt, the estimate stays
    near. Since blocks of one log tell very different things, the median by itself costs a third
    of the efficiency (measured); so one step of least squares follows, in which each block has
    the share `(1 − (d/4d̃)²)²` of its distance d from the median, d̃ being the middle distance,
    and none beyond: the reweighting of [Rousseeuw1987, sect. 1.2].

    Attributes:
        blocks: K, at least three; as many as twice the blocks that may be spoilt, and more.
        reweighted: Whether the step of least squares follows.
    """

    blocks: int = 30
    reweighted: bool = True

    def __post_init__(self) -> None:
        _require(self.blocks >= 3, "blocks", self.blocks, "at least three")

    def fit(self, problem: RowProblem) -> SegmentEstimate:
        """Return the estimate, walking the rows once and the residuals once.

        Raises:
            TooLittleData: If there are fewer than three blocks, or their sum does not determine
                all parameters.
        """
        segments = _enough(segments_of(problem, self.blocks), 3)
        total, floor = _sum(segments), _floor(segments)
        middle = LeastSquares(coloured=False).solve(total).fitted
        distance = np.ones(len(segments))
        for _ in range(ROUNDS):
            sigma = np.maximum(np.sqrt(np.median(_mean_energy(segments, middle), axis=0)), floor)
            weights = _weights(total.channels, sigma)
            metric = total.combined(weights)
            solve(metric)  # refuses what is not determined
            single = [_combined(s, weights) for s in segments]
            before = middle
            estimates = np.array([_block(s, metric.R, middle, len(segments)) for s in single])
            middle, distance = _geometric_median(estimates, metric.R)
            if np.linalg.norm(metric.R @ (middle - before)) <= 1e-3 * math.sqrt(len(middle)):
                break
        far = FAR * max(float(np.median(distance)), 1e-150)
        shares = np.maximum(1.0 - (distance / far) ** 2, 0.0) ** 2
        shares /= max(float(shares.max()), 1e-150)
        energy = _mean_energy(segments, middle)
        sigma = np.maximum(np.sqrt(shares @ energy / shares.sum()), floor)
        settings: dict[str, object] = {"robust": "block median", "blocks": len(segments)}
        values = None if self.reweighted else middle
        return _finish(problem, segments, shares, sigma, values, settings)


def _enough(segments: tuple[Segment, ...], least: int) -> tuple[Segment, ...]:
    if len(segments) < least:
        raise TooLittleData(
            "there are too few segments to tell good from bad",
            got=f"{len(segments)} segments",
            expected=f"{least} at least",
            cure="give a longer log",
        )
    return segments


def _require_seen(whole: Triangle, part: Triangle, inside: NDArray[np.bool_]) -> None:
    """Refuse a consensus that says nothing of what the log as a whole shows.

    Segments at rest agree with one another, whatever the parameters are: an agreement of those
    is none. What is seen of a direction is compared with its share of the rows.
    """
    relative = scipy.linalg.solve_triangular(whole.R, part.R.T, trans="T", check_finite=False)
    least = float(np.linalg.svd(relative, compute_uv=False)[-1]) ** 2
    if least < LEAST_SEEN:
        raise TooLittleData(
            "the segments that agree do not show what the log as a whole shows",
            got=f"{int(inside.sum())} of {len(inside)} segments agree; of one combination of the "
            f"parameters they hold {least:.1%} of what is known",
            expected=f"{LEAST_SEEN:.0%} at least",
            cure="leave out where the robot stands still; or take 'huber'",
        )


def _combined(segment: Segment, weights: dict[str, float]) -> Triangle:
    return segment.information.combined(weights)


def _block(block: Triangle, metric: Array, middle: Array, count: int) -> Array:
    borrowed = metric * math.sqrt(BORROWED / count)
    stacked = np.vstack([block.factor, np.column_stack([borrowed, borrowed @ middle])])
    factor = triangle_of(stacked)
    return np.asarray(scipy.linalg.solve_triangular(factor[:-1, :-1], factor[:-1, -1]))


def _geometric_median(points: Array, metric: Array) -> tuple[Array, Array]:
    """Return the point with the least sum of distances, and the distances; [Weiszfeld1937]."""
    at = points @ metric.T
    middle = np.median(at, axis=0)
    distance = np.linalg.norm(at - middle, axis=1)
    for _ in range(200):
        # Points that coincide with the median would have infinite weight.
        pull = 1.0 / np.maximum(distance, 1e-9 * max(float(distance.max()), 1e-150))
        moved = pull @ at / pull.sum()
        step = np.linalg.norm(moved - middle)
        middle = moved
        distance = np.linalg.norm(at - middle, axis=1)
        if step <= 1e-9 * max(float(distance.max()), 1e-150):
            break
    pull = 1.0 / np.maximum(distance, 1e-9 * max(float(distance.max()), 1e-150))
    return np.asarray(pull @ points / pull.sum()), distance


@dataclass(frozen=True)
class Ransac:
    """Least squares on the segments that agree: random sample consensus [Fischler1981].

    Subsets of whole segments are drawn, not rows: pushes last, rows of one moment tell one
    thing, and triangles add, so that no row is read twice. The subset is best whose estimate
    leaves the middle segment least of every channel, `Σ_c log median_k rms²` [Rousseeuw1984].
    A segment is in whose residual is at most `threshold` times the middle one in every channel.
    The estimate is made of all that are in, until these stay the same.

    Attributes:
        segments: How many there are.
        share: Of the segments in a subset.
        trials: How many subsets are drawn.
        threshold: Largest ratio of a segment's rms residual to the middle one's.
        seed: Of the draw: the same data give the same answer.
    """

    segments: int = 40
    share: float = 0.3
    trials: int = 300
    threshold: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require(self.segments >= 5, "segments", self.segments, "at least five")
        _require(0.0 < self.share < 1.0, "share", self.share, "between 0 and 1")
        _require(self.trials >= 1, "trials", self.trials, "at least one")
        _require(self.threshold > 1.0, "threshold", self.threshold, "above 1")

    def fit(self, problem: RowProblem) -> SegmentEstimate:
        """Return the estimate and which segments are in; the rows are walked once.

        Raises:
            TooLittleData: If no subset determines all parameters, or the segments that agree
                leave unseen what the others show.
        """
        segments = _enough(segments_of(problem, self.segments), 5)
        total, floor = _sum(segments), _floor(segments)
        rng = np.random.default_rng(self.seed)
        values = LeastSquares(coloured=False).solve(total).fitted
        sigma = np.maximum(np.sqrt(np.median(_mean_energy(segments, values), axis=0)), floor)
        weights = _weights(total.channels, sigma)
        single = [_combined(s, weights) for s in segments]
        size = max(1, math.ceil(self.share * len(segments)))
        best = np.inf
        for _ in range(self.trials):
            drawn = rng.choice(len(segments), size, replace=False)
            factor = triangle_of(np.vstack([single[k].factor for k in sorted(drawn)]))
            subset = Triangle(np.arange(len(total.labels)), factor, size)
            try:
                candidate = solve(subset)
            except TooLittleData:
                continue
            energy = np.maximum(_mean_energy(segments, candidate), floor**2)
            score = float(np.sum(np.log(np.median(energy, axis=0))))
            if score < best:
                best, values = score, candidate
        if not np.isfinite(best):
            raise TooLittleData(
                "no subset of the segments determines all parameters",
                got=f"{self.trials} subsets of {size} of {len(segments)} segments",
                cure="draw larger subsets (share), or give a longer log",
            )
        inside = np.zeros(len(segments), dtype=bool)
        for _ in range(ROUNDS):
            energy = _mean_energy(segments, values)
            sigma = np.maximum(np.sqrt(np.median(energy, axis=0)), floor)
            agree: NDArray[np.bool_] = np.all(np.sqrt(energy) <= self.threshold * sigma, axis=1)
            if not agree.any():
                raise TooLittleData(
                    "no segment agrees with the others in all channels",
                    got=f"{len(segments)} segments, threshold {self.threshold:g}",
                    cure="take fewer, longer segments, or a higher threshold",
                )
            if (agree == inside).all():
                break
            inside = agree
            chosen = _sum(s for s, k in zip(segments, inside, strict=True) if k)
            values = solve(chosen.combined(_weights(total.channels, sigma)))
        energy = _mean_energy(segments, values)
        sigma = np.maximum(np.sqrt(energy[inside].mean(axis=0)), floor)
        weights = _weights(total.channels, sigma)
        chosen = _sum(s for s, k in zip(segments, inside, strict=True) if k)
        _require_seen(total.combined(weights), chosen.combined(weights), inside)
        settings: dict[str, object] = {
            "robust": "ransac",
            "segments": len(segments),
            "inside": int(inside.sum()),
            "seed": self.seed,
        }
        return _finish(problem, segments, inside.astype(float), sigma, None, settings)
