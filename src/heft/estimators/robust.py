"""Robust estimators, for logs with pushes, collisions, spikes or faulty stretches.

Outliers dominate a sum of squares. Three estimators bound their influence, from single rows to
whole segments of a log:

    Huber          weights decrease with the size of the residual; all rows are used
    Hampel         rows whose residual departs from the running median are rejected
    Ransac         least squares on the segments that are consistent with one another

The first two reweight single rows and pass over the data repeatedly. The last, in `segments.py`,
needs one pass, since the information triangles of segments add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.files import Keys, Number, check_fields
from heft.information import Information
from heft.signals import STD_PER_MAD, hampel

from .estimate import Estimate
from .least_squares import LeastSquares
from .noise import autocorrelation_time, autocovariance
from .problem import Problem

HUBER = 1.345  # 95 % efficiency under normal noise [Huber1964; Holland1977]


def _residuals(problem: Problem, values: Array) -> Iterator[Array]:
    """Yield τ − Y β, in the order of `rows`."""
    return (piece.values for piece in problem.residuals(values))


# Weights


def huber_weights(residuals: Array, sigma: Array, threshold: float = HUBER) -> Array:
    """Return `min(1, k σ/|r|)`, which make least squares minimise Huber's loss, (rows, channels).

    Args:
        residuals: r, shape (rows, channels) [N·m or N].
        sigma: Standard deviation σ of inliers, shape (channels,) [N·m or N].
        threshold: k [standard deviations]; [Huber1964, eq. 3.4].
    """
    size = np.abs(residuals)
    limit = threshold * np.asarray(sigma)
    return np.asarray(np.where(size > limit, limit / np.where(size > 0.0, size, 1.0), 1.0))


def hampel_gate(
    residuals: Array, sigma: Array, window: int, threshold: float = 3.0, widen: int = 0
) -> NDArray[np.bool_]:
    """Return which residuals lie near their running median, by Hampel's filter, (rows, channels).

    A push rises and fades, so rows between outliers are rejected too: those with more than a
    fifth of outliers among `widen` rows on each side. A single spike rejects no neighbours.

    Args:
        residuals: Contiguous rows, shape (rows, channels) [N·m or N].
        sigma: Standard deviation of inliers, shape (channels,) [N·m or N]: the lower limit of the
            local scale.
        window: Length of the running median [rows].
        threshold: Rejection threshold [standard deviations].
        widen: Rows on each side in which outliers are counted [rows].
    """
    out = hampel(residuals, window, threshold, sigma)
    seen = np.concatenate([np.zeros((1, out.shape[1]), dtype=int), np.cumsum(out, axis=0)])
    at = np.arange(len(out))
    near = seen[np.minimum(at + widen + 1, len(out))] - seen[np.maximum(at - widen, 0)]
    # Of a window with more outliers than a fifth all rows are rejected.
    return np.asarray(~(out | (near > 0.2 * (2 * widen + 1))))


def weighted_information(problem: Problem, weights: Iterable[Array]) -> Information:
    """Return the information of a problem's weighted rows; zero weights are not counted.

    `Σ w (y β − τ)² = ‖√w Y β − √w τ‖²`, so rows √w Y and √w τ stand for those of the problem.

    Args:
        weights: w ≥ 0 in the same order, in pieces of any lengths, each of shape
            (rows, channels) or (rows, 1).

    Raises:
        InvalidSetting: If there are not as many weights as rows.
    """
    total = Information.neutral(problem.labels, problem.channels)
    source = iter(weights)
    remaining = np.empty((0, 1))
    for piece in problem.rows():
        effort = piece.effort
        count, parts = len(effort), [remaining] if len(remaining) else []
        while sum(map(len, parts)) < count:
            more = next(source, None)
            if more is None:
                raise _unlike()
            parts.append(more)
        together = np.concatenate(parts)
        weight = np.broadcast_to(together[:count], effort.shape)
        remaining = together[count:]
        root = np.sqrt(weight)
        part = Information.from_rows(
            problem.labels, problem.channels, root[:, :, None] * piece.regressor, root * effort
        )
        counts = np.count_nonzero(weight, axis=0)
        triangles = tuple(
            replace(t, rows=int(n)) for t, n in zip(part.triangles, counts, strict=True)
        )
        total = total + replace(part, triangles=triangles)
    if len(remaining) or next(source, None) is not None:
        raise _unlike()
    return total


def _unlike() -> InvalidSetting:
    return InvalidSetting("there are not as many weights as rows", argument="weights")


class MedianSketch:
    """Median of non-negative numbers in one pass and bounded memory, to 0.3 %.

    A histogram with logarithmic bins for each channel.
    """

    PER_OCTAVE = 256
    OCTAVES = 128  # from 2⁻⁶⁴ to 2⁶⁴

    def __init__(self, channels: int) -> None:
        self.counts = np.zeros((channels, self.PER_OCTAVE * self.OCTAVES), dtype=np.int64)

    def add(self, sizes: Array) -> None:
        """Add absolute values of numbers ≥ 0, shape (rows, channels), to the histograms."""
        last = self.counts.shape[1] - 1
        with np.errstate(divide="ignore"):
            place = self.PER_OCTAVE * (np.log2(sizes) + self.OCTAVES / 2)
        place = np.clip(place, 0, last).astype(np.intp)
        for c, column in enumerate(place.T):
            self.counts[c] += np.bincount(column, minlength=last + 1)

    def median(self) -> Array:
        """Return the median of each channel, shape (channels,), in the unit of the numbers."""
        seen = np.cumsum(self.counts, axis=1)
        half = [np.searchsorted(column, 0.5 * column[-1]) for column in seen]
        return np.asarray(2.0 ** ((np.array(half) + 0.5) / self.PER_OCTAVE - self.OCTAVES / 2))


def scale_of(residuals: Iterable[Array], channels: int) -> Array:
    """Return the robust deviation, (channels,), of residuals' pieces, (rows, channels) [N·m or N].

    It is 1.4826 times their median absolute value.
    """
    sketch = MedianSketch(channels)
    for piece in residuals:
        sketch.add(np.abs(piece))
    return STD_PER_MAD * sketch.median()


# Rows by weights

Rule = Callable[[Array, Array], Array]


def _reweighted(problem: Problem, rule: Rule, sweeps: int, settings: dict[str, object]) -> Estimate:
    """Return the fixed point of weights from residuals and least squares with these weights.

    Each sweep passes over the rows twice: for the residuals, and for the information. The
    residual's scale is the robust standard deviation of the sweep before.
    """
    solver = LeastSquares(coloured=False)
    estimate = solver.fit(problem)
    values = estimate.fitted
    channels, passes = problem.channels, 2
    sigma = scale_of(_residuals(problem, values), len(channels))
    information, converged = estimate.information, False
    for _ in range(sweeps):
        information, scale = _weighted_sum(problem, rule, values, sigma)
        passes += 2
        noise = np.maximum(sigma, 1e-150)
        current = solver.conclude(information, noise, np.ones(len(channels)), passes)
        before, values = values, current.fitted
        triangle = information.combined(dict(zip(channels, (1.0 / noise).tolist(), strict=True)))
        moved = np.linalg.norm(triangle.R @ (values - before))
        sigma = scale
        if moved <= 0.05 * math.sqrt(len(values)):  # deviations, in the mean over parameters
            converged = True
            break
    noise, times, used = _weighted_noise(problem, rule, values, sigma, information.rows)
    concluded = solver.conclude(information, noise, times, passes + 1)
    return replace(concluded, settings={**settings, "converged": converged, "mean_weight": used})


def _weighted_sum(
    problem: Problem, rule: Rule, values: Array, sigma: Array
) -> tuple[Information, Array]:
    """Return the information of rows weighted by their residuals, and the residuals' scale.

    Args:
        values: β, shape (b,).
        sigma: Scale passed to the rule, shape (channels,) [N·m or N].

    Raises:
        TooLittleData: If no more rows have a weight than there are parameters.
    """
    sketch = MedianSketch(len(problem.channels))

    def weights() -> Iterator[Array]:
        for piece in _residuals(problem, values):
            sketch.add(np.abs(piece))
            yield rule(piece, sigma)

    information = weighted_information(problem, weights())
    if information.rows <= len(values) or min(t.rows for t in information.triangles) == 0:
        raise TooLittleData(
            "nearly all rows are outliers to one another",
            got=f"{information.rows} rows left for {len(values)} parameters",
            cure="take a higher threshold, or look at the log",
        )
    return information, STD_PER_MAD * sketch.median()


def _weighted_noise(
    problem: Problem, rule: Rule, values: Array, sigma: Array, kept: int
) -> tuple[Array, Array, list[float]]:
    """Return the noise σ of the weighted triangle, autocorrelation times and mean weights.

    The estimate's variance is σ² mean(ψ²)/mean(ψ')² a row [Huber1964, eq. 1.4], ψ = w r, while
    the weighted triangle holds mean(w) a row: the ratio is the σ that goes with this triangle.
    """
    sums, rows = np.zeros((3, len(problem.channels))), 0

    def influence() -> Iterator[Array]:
        nonlocal rows
        for piece in _residuals(problem, values):
            w = np.broadcast_to(rule(piece, sigma), piece.shape)
            sums[0] += w.sum(axis=0)
            sums[1] += np.sum((w * piece) ** 2, axis=0)
            sums[2] += np.sum(w >= 1.0, axis=0)
            rows += len(piece)
            yield w * piece

    times = autocorrelation_time(autocovariance(influence()))
    freedom = max(1.0 - len(values) / max(kept, 1), 0.1)
    noise = np.sqrt(sums[0] * sums[1] / freedom) / np.maximum(sums[2], 1.0)
    return np.maximum(noise, 1e-150), times, (sums[0] / max(rows, 1)).tolist()


def good_rows(
    problem: Problem, values: Array, threshold: float = 6.0, widen: int = 0
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the inliers of each contiguous piece of rows, given a robust fit.

    A row is an outlier where any channel's residual exceeds the threshold; its neighbours are
    rejected with it. Use it to mark samples of a log for rejection.

    Args:
        values: β of a robust fit, shape (b,).
        threshold: Rejection threshold [robust standard deviations].
        widen: Neighbours rejected on each side [rows].

    Yields:
        Position of the recording, sample index of each row, shape (N,), and True for rows to
        keep, shape (N,).

    Raises:
        InvalidSetting: If rows combine many samples, so that they have no sample index.
    """
    sigma = scale_of(_residuals(problem, values), len(problem.channels))
    for piece in problem.residuals(values):
        if piece.index is None:
            refuse_made_rows()
        far = np.asarray((np.abs(piece.values) > threshold * sigma).any(axis=1))
        near = np.convolve(far, np.ones(2 * widen + 1))[widen : widen + len(far)] > 0.5
        yield piece.recording, piece.index, ~near


def refuse_made_rows() -> NoReturn:
    """Raise `InvalidSetting`: integrated or filtered rows belong to no single sample of a log."""
    raise InvalidSetting(
        "rows made of many samples each cannot be told apart",
        argument="robust",
        cure="take raw torque and differentiated rows",
    )


OUT_OF_RANGE = "a setting of a robust estimator is out of range"
HUBER_CHECKS: Keys = {
    "threshold": Number(OUT_OF_RANGE, above=0.0, unit="deviations"),
    "sweeps": Number(OUT_OF_RANGE, 1, whole=True),
}


@dataclass(frozen=True)
class Huber:
    """Huber's M-estimator: a loss that is linear in large residuals [Huber1964].

    Minimises `Σ ρ(r/σ)`, quadratic up to k standard deviations and linear beyond, by iteratively
    reweighted least squares [Holland1977]; σ of each channel is 1.4826 times the median absolute
    residual. The influence of a residual is bounded by that of one of k deviations, so a
    fraction ε of outliers moves the estimate by about ε k deviations of a row. The influence of
    rows of large leverage is not bounded. Use it for occasional outliers in single rows.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    # k [standard deviations]; 1.345 costs 5 % of efficiency under normal noise
    threshold: float = HUBER
    sweeps: int = 30  # largest number of reweighted fits

    def __post_init__(self) -> None:
        check_fields(self, HUBER_CHECKS)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β; its `passes` count every pass over the rows.

        Raises:
            TooLittleData: If no more rows have a weight than there are parameters.
        """
        settings: dict[str, object] = {"robust": "huber", "threshold": self.threshold}
        return _reweighted(
            problem, lambda r, s: huber_weights(r, s, self.threshold), self.sweeps, settings
        )


@dataclass(frozen=True)
class Hampel:
    """Least squares without the rows that a Hampel filter of the residuals rejects.

    Use it for pushes and spikes shorter than half a window (see `hampel_gate`). Slow model
    errors, which a running median follows, are not rejected.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    window: int = 401  # length of the running median [rows], odd
    threshold: float = 4.0  # rejection threshold [standard deviations]
    widen: int = 10  # rows on each side in which outliers are counted [rows]
    sweeps: int = 10  # largest number of reweighted fits

    def __post_init__(self) -> None:
        checks: Keys = {
            **HUBER_CHECKS,
            "window": Number(
                OUT_OF_RANGE, 3, whole=True, holds=lambda n: n % 2 == 1, cure="make it odd"
            ),
            "widen": Number(OUT_OF_RANGE, 0, unit="rows", whole=True),
        }
        check_fields(self, checks)

    def gate(self, residuals: Array, sigma: Array) -> NDArray[np.bool_]:
        """Return which of residuals, (rows, channels), to keep by their σ; see `hampel_gate`."""
        return hampel_gate(residuals, sigma, self.window, self.threshold, self.widen)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β; its `passes` count every pass over the rows.

        Raises:
            TooLittleData: If no more rows have a weight than there are parameters.
        """
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
