"""Segments of a log, and the random consensus of those that agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import TooLittleData
from heft.files import Keys, Number, check_fields
from heft.information import Information, Triangle, solve, triangle_of

from .estimate import Estimate
from .least_squares import LeastSquares
from .noise import autocorrelation_time, autocovariance
from .problem import Problem

# Pieces by their triangles


@dataclass(frozen=True)
class Segment:
    """A contiguous piece of a recording with its information."""

    recording: int  # position of the recording in the problem
    # begin, end: times of its first and last row [s]
    begin: float
    end: float
    information: Information  # information about β from its rows

    def __add__(self, later: Segment) -> Segment:
        return Segment(self.recording, self.begin, later.end, self.information + later.information)


@dataclass(frozen=True)
class SegmentEstimate(Estimate):
    """Base parameters estimated from weighted segments of the recordings."""

    segments: tuple[Segment, ...] = ()  # in the order of the rows
    # weight of each segment in `information`, 0 to 1; 0 for one that is rejected
    shares: tuple[float, ...] = ()

    @property
    def inside(self) -> tuple[Segment, ...]:
        """The inlier segments: those with a weight of at least one half."""
        return tuple(s for s, w in zip(self.segments, self.shares, strict=True) if w >= 0.5)


def segments_of(problem: Problem, count: int) -> tuple[Segment, ...]:
    """Return a problem's rows in about `count` contiguous segments of equal numbers of rows.

    One pass in bounded memory: small segments are collected, and neighbours merged whenever
    there are four times as many as asked for. No segment spans two recordings.
    """
    parts: list[Segment] = []
    size = 64  # rows in a segment's smallest part
    for piece in problem.rows():
        for first in range(0, len(piece.time), size):
            cut = slice(first, first + size)
            information = Information.from_rows(
                problem.labels,
                problem.channels,
                piece.regressor[cut],
                piece.effort[cut],
            )
            time = piece.time[cut]
            parts.append(Segment(piece.recording, float(time[0]), float(time[-1]), information))
        if len(parts) > 4 * count:
            parts = _gathered(parts, 2 * count)
            size *= 2
    return tuple(_gathered(parts, count))


def _gathered(parts: Sequence[Segment], count: int) -> list[Segment]:
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


def total_of(segments: Iterable[Segment]) -> Information:
    """Return the information of segments together."""
    return reduce(add, (s.information for s in segments))


def _some_of(segments: Sequence[Segment], inside: NDArray[np.bool_]) -> Information:
    return total_of(s for s, k in zip(segments, inside, strict=True) if k)


def channel_weights(channels: Sequence[str], sigma: Array) -> dict[str, float]:
    """Return 1/σ by channel."""
    return dict(zip(channels, (1.0 / sigma).tolist(), strict=True))


def mean_energies(segments: Sequence[Segment], values: Array) -> Array:
    """Return the mean square of each segment's residuals, shape (segments, channels)."""
    return np.array(
        [
            [t.residual_energy(values) / max(t.rows, 1) for t in s.information.triangles]
            for s in segments
        ]
    )


def rounding_levels(segments: Sequence[Segment]) -> Array:
    """Return the rounding level of each channel's residual, the least σ, shape (channels,)."""
    total = total_of(segments)
    return np.array(
        [
            max(1e-13 * float(np.linalg.norm(t.factor[:, -1])) / math.sqrt(max(t.rows, 1)), 1e-150)
            for t in total.triangles
        ]
    )


def concluded(
    problem: Problem,
    segments: tuple[Segment, ...],
    shares: Array,
    sigma: Array,
    values: Array | None,
    settings: dict[str, object],
) -> SegmentEstimate:
    """Return the estimate of segments that count by shares.

    Args:
        shares: 0 to 1, shape (segments,).
        sigma: Standard deviation of each channel's residual, shape (channels,).
        values: β, shape (b,), if it is not that of least squares of the segments.
    """
    weighted = [(s.information, w) for s, w in zip(segments, shares.tolist(), strict=True) if w > 0]
    total = reduce(add, (part if share == 1.0 else share * part for part, share in weighted))
    solver = LeastSquares()
    ones = np.ones(len(sigma))
    at = solver.conclude(total, sigma, ones, 1).fitted
    at = at if values is None else values
    # Clipped, so that outliers do not make the autocorrelation.
    clipped = (np.clip(piece.values, -2.5 * sigma, 2.5 * sigma) for piece in problem.residuals(at))
    times = autocorrelation_time(autocovariance(clipped))
    estimate = solver.conclude(total, sigma, times, 2)
    parameters = (
        estimate.parameters if values is None else replace(estimate.parameters, values=values)
    )
    return SegmentEstimate(
        parameters,
        estimate.information,
        estimate.noise,
        estimate.rank,
        2,
        settings,
        segments,
        tuple(shares.tolist()),
    )


def require_enough(segments: tuple[Segment, ...], least: int) -> tuple[Segment, ...]:
    """Return the segments, of which there are so many at least; raise `TooLittleData` if not."""
    if len(segments) < least:
        raise TooLittleData(
            "there are too few segments to tell good from bad",
            got=f"{len(segments)} segments",
            expected=f"{least} at least",
            cure="give a longer log",
        )
    return segments


@dataclass(frozen=True)
class Ransac:
    """Least squares on the segments that agree: random sample consensus [Fischler1981].

    Subsets of whole segments are drawn, not of rows: contacts last for many rows, neighbouring
    rows are nearly collinear, and triangles of segments add without a further pass. The best
    subset is the one whose estimate minimises `Σ_c log median_k rms²` over channels c and
    segments k, as least median of squares does [Rousseeuw1984]. A segment is an inlier if its
    rms residual is at most `threshold` times the median segment's in every channel. The estimate
    is refitted to all inliers until they no longer change.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    segments: int = 40  # number of segments
    share: float = 0.3  # fraction of the segments in a subset, 0 to 1
    trials: int = 300  # number of subsets drawn
    threshold: float = 2.0  # largest ratio of an inlier's rms residual to the median segment's
    seed: int = 0  # seed of the random draw: the same data give the same result

    def __post_init__(self) -> None:
        message = "a setting of a robust estimator is out of range"
        checks: Keys = {
            "segments": Number(message, 5, whole=True),
            "share": Number(message, above=0.0, below=1.0),
            "trials": Number(message, 1, whole=True),
            "threshold": Number(message, above=1.0),
        }
        check_fields(self, checks)

    def fit(self, problem: Problem) -> SegmentEstimate:
        """Return base parameters β with the inlier segments, in one pass over the rows.

        Raises:
            TooLittleData: If there are fewer than five segments, no subset determines all
                parameters, no segment is an inlier, or the inliers do not identify what the
                whole log identifies.
        """
        segments = require_enough(segments_of(problem, self.segments), 5)
        floor = rounding_levels(segments)
        inside, values = self._consensus(segments, self._drawn(segments, floor), floor)
        total, chosen = total_of(segments), _some_of(segments, inside)
        energy = mean_energies(segments, values)
        sigma = np.maximum(np.sqrt(energy[inside].mean(axis=0)), floor)
        weights = channel_weights(total.channels, sigma)
        # Segments at rest agree with one another whatever the parameters are: in every direction
        # inliers must contain a least share of the whole log's information.
        every, part = total.combined(weights), chosen.combined(weights)
        relative = scipy.linalg.solve_triangular(every.R, part.R.T, trans="T", check_finite=False)
        least = float(np.linalg.svd(relative, compute_uv=False)[-1]) ** 2
        if least < 0.02:
            raise TooLittleData(
                "the segments that agree do not show what the log as a whole shows",
                got=f"{int(inside.sum())} of {len(inside)} segments agree; of one combination of "
                f"the parameters they hold {least:.1%} of what is known",
                expected="2% at least",
                cure="leave out where the robot stands still; or take 'huber'",
            )
        settings: dict[str, object] = {
            "robust": "ransac",
            "segments": len(segments),
            "inside": int(inside.sum()),
            "seed": self.seed,
        }
        return concluded(problem, segments, inside.astype(float), sigma, None, settings)

    def _drawn(self, segments: tuple[Segment, ...], floor: Array) -> Array:
        total = total_of(segments)
        rng = np.random.default_rng(self.seed)
        values = LeastSquares().solve(total).fitted
        sigma = np.maximum(np.sqrt(np.median(mean_energies(segments, values), axis=0)), floor)
        weights = channel_weights(total.channels, sigma)
        single = [s.information.combined(weights) for s in segments]
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
            energy = np.maximum(mean_energies(segments, candidate), floor**2)
            score = float(np.sum(np.log(np.median(energy, axis=0))))
            if score < best:
                best, values = score, candidate
        if not np.isfinite(best):
            raise TooLittleData(
                "no subset of the segments determines all parameters",
                got=f"{self.trials} subsets of {size} of {len(segments)} segments",
                cure="draw larger subsets (share), or give a longer log",
            )
        return values

    def _consensus(
        self, segments: tuple[Segment, ...], values: Array, floor: Array
    ) -> tuple[NDArray[np.bool_], Array]:
        """Return the inlier segments and the estimate fitted to them, at the fixed point."""
        inside = np.zeros(len(segments), dtype=bool)
        for _ in range(100):  # most iterations of a consensus
            energy = mean_energies(segments, values)
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
            chosen = _some_of(segments, inside)
            values = solve(chosen.combined(channel_weights(chosen.channels, sigma)))
        return inside, values
