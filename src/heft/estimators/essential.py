"""Essential base parameters: those without which the torque can no longer be explained.

Base parameters are dropped one by one, always the one of the largest relative standard deviation,
and the others are estimated anew [Gautier2013]. Dropping β_j from a least-squares fit raises its
residual sum of squares by (β_j / σ_j)², with σ_j the deviation for rows of unit variance: the
largest relative deviation is the smallest rise, and the rule is backward elimination. It needs
triangles only. What differs between authors is where it ends.

Standard parameters from least squares: back-projection, truncated regressor, change of a model.

Infinitely many standard parameters x have the same base parameters β = K x, and predict the same
torque. Each method here takes the shortest of them by some measure of length; none looks at whether
such bodies can exist, which is what `PhysicallyConsistent` is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.files import Keys, Number, Text, check_fields
from heft.information import Directions, Information, Parameters, ParameterSpace

from .estimate import Estimate
from .feasible_set import scaled_metric
from .least_squares import LeastSquares
from .problem import Problem

Stop = Literal["training-error", "ratio", "torque-range"]
ROUNDING = 1e-9  # of sums of squares


@dataclass(frozen=True)
class BackwardElimination:
    """Results of a fit as its parameters are dropped one by one.

    The first are those that the rows cannot tell from others: without them the residual is the
    same.
    """

    # positions of the parameters in the order in which they are dropped, shape (b,)
    order: NDArray[np.intp]
    # residual sum of squares of each channel with the first k dropped, shape (b + 1, channels),
    # unweighted
    energies: Array
    # largest over smallest relative standard deviation of those left, shape (b + 1,); infinite
    # while some cannot be told, 1 with none left
    ratios: Array
    untold: int  # how many cannot be told

    @staticmethod
    def of(
        information: Information, weights: Mapping[str, float] | None = None
    ) -> BackwardElimination:
        """Return the elimination of all parameters of information, its weights one if not given."""
        triangle = information.combined(weights)
        seen = Directions.of(triangle.R, triangle.rows)
        lengths = np.where(seen.lengths > 0.0, seen.lengths, 1.0)
        scaled = triangle.R / lengths
        # Columns by pivots: the last ones, beyond the rank, depend on those before.
        _, pivots = scipy.linalg.qr(scaled, mode="r", pivoting=True)
        kept = np.sort(pivots[: seen.rank])
        order = [int(j) for j in np.sort(pivots[seen.rank :])[::-1]]
        q, r = np.linalg.qr(scaled[:, kept])
        spread = scipy.linalg.solve_triangular(r, np.eye(len(kept)))
        values = spread @ (q.T @ triangle.z)
        first = _energy(information, kept, values / lengths[kept])
        energies, ratios = [first] * (len(order) + 1), [np.inf] * len(order)
        while len(kept):
            relative = _relative(spread, values)
            ratios.append(float(relative.max() / relative.min()) if relative.min() > 0.0 else 1.0)
            j = int(np.argmax(relative))
            # β conditioned on β_j = 0: the covariance's factor loses its component along row j.
            along = spread[j] / np.linalg.norm(spread[j])
            column = spread @ along
            others = np.arange(len(kept)) != j
            values = (values - column * (values[j] / column[j]))[others]
            spread = (spread - np.outer(column, along))[others]
            order.append(int(kept[j]))
            kept = kept[others]
            energies.append(_energy(information, kept, values / lengths[kept]))
        ratios.append(1.0)
        untold = len(order) - int(seen.rank)
        return BackwardElimination(
            np.array(order, dtype=np.intp), np.array(energies), np.array(ratios), untold
        )

    def kept(self, dropped: int) -> tuple[int, ...]:
        """Return the positions of the parameters that are left when so many are dropped."""
        return tuple(sorted(self.order[dropped:].tolist()))


def _relative(spread: Array, values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.linalg.norm(spread, axis=1) / np.abs(values))


def _energy(information: Information, kept: NDArray[np.intp], values: Array) -> Array:
    every = np.zeros(len(information.labels))
    every[kept] = values
    return np.array([t.residual_energy(every) for t in information.triangles])


@dataclass(frozen=True)
class EssentialEstimate(Estimate):
    """Base parameters β of which some are zero; `information` and `noise` are those of all.

    A dropped parameter has the value zero and no deviation: it is no part of the model.
    """

    kept: tuple[int, ...] = ()  # positions of the essential parameters
    # what each one's removal costs
    elimination: BackwardElimination | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Essential:
    """Least squares of the essential base parameters, all others being zero.

    Use it for a model of few parameters that still predicts torque. It is biased by what is
    dropped, and the smaller model is no more physical than that of all base parameters.

    Attributes:
        stop: What ends the elimination:

            * `training-error`: the weighted residual's rms in the motion's band would rise by more
              than `rise`; noise above the band hides nothing;
            * `ratio`: the largest relative standard deviation of those left is at most `ratio`
              times the smallest [Gautier2013]. It does not look at the error;
            * `torque-range`: on some channel the rms torque that is lost would exceed
              `range_share` of the range of its torque.
        rise: Share by which the residual's rms may rise.
        ratio: Largest ratio of relative standard deviations; 20 to 30 in [Gautier2013].
        range_share: Share of a channel's range.
        ranges: Range of each channel's torque, largest less smallest, by name [channel's unit];
            for one that is not named that of a sine of the same rms.
        least_squares: Fit of all base parameters.
    """

    stop: Stop = "training-error"
    rise: float = 0.01
    ratio: float = 30.0
    range_share: float = 0.005
    ranges: Mapping[str, float] = field(default_factory=dict)
    least_squares: LeastSquares = LeastSquares()

    def __post_init__(self) -> None:
        message = "a setting of the essential parameters is out of range"
        checks: Keys = {
            "stop": Text("there is no such stop", get_args(Stop)),
            "rise": Number(message, 0.0),
            "ratio": Number(message, 1.0),
            "range_share": Number(message, 0.0),
        }
        check_fields(self, checks)

    def fit(self, problem: Problem) -> EssentialEstimate:
        """Return base parameters β of a problem's rows, those that are not essential zero.

        Raises:
            TooLittleData: If there are no more rows than parameters.
        """
        estimate = self.least_squares.fit(problem)
        return self.reduced(estimate, problem.residual_energy(estimate.fitted))

    def reduced(
        self,
        estimate: Estimate,
        in_band: Array | None = None,
        path: BackwardElimination | None = None,
    ) -> EssentialEstimate:
        """Return the essential parameters of a least-squares estimate, without looking at rows.

        Args:
            in_band: Each channel's residual sum of squares in the motion's band, shape
                (channels,); that of all frequencies if not given.
        """
        path = path or backward_elimination(estimate)
        kept = path.kept(self.dropped(estimate, path, in_band))
        triangle, own = estimate.information.combined(estimate.fitted_with), list(kept)
        seen = Directions.of(triangle.R[:, own], triangle.rows)
        values = np.zeros(len(triangle.columns))
        values[own] = seen.shortest(triangle.z)
        factor = estimate.noise.score_factor(estimate.information, estimate.fit_weights)
        spread = np.zeros((len(factor), len(values)))
        spread[:, own] = factor[:, own] @ seen.inverse @ seen.inverse.T
        parameters = Parameters(estimate.information.labels, values, spread.T @ spread)
        settings = {**estimate.settings, "stop": self.stop, "essential": len(kept)}
        return EssentialEstimate(
            parameters, estimate.information, estimate.noise, estimate.rank, estimate.passes,
            settings, kept, path,
        )  # fmt: skip

    def dropped(
        self, estimate: Estimate, path: BackwardElimination, in_band: Array | None = None
    ) -> int:
        """Return how many parameters are dropped before the stop; arguments as of `reduced`."""
        beyond = self.beyond(estimate, path, path.energies[0] if in_band is None else in_band)
        beyond[0] = False
        return int(np.argmax(beyond)) - 1 if beyond.any() else len(path.order)

    def beyond(
        self, estimate: Estimate, path: BackwardElimination, in_band: Array
    ) -> NDArray[np.bool_]:
        """Return whether the stop forbids to drop the first k parameters, shape (b + 1,)."""
        if self.stop == "ratio":
            return np.append(False, path.ratios[:-1] <= self.ratio)
        if self.stop == "torque-range":
            return self._leaves_range(estimate, path)
        # Rows are smooth: what is dropped changes the residual in the motion's band only.
        rise = (path.energies - path.energies[0]) @ np.square(estimate.fit_weights)
        energy = path.energies[0] @ np.square(estimate.fit_weights)
        allowed = ((1.0 + self.rise) ** 2 - 1.0) * (in_band @ np.square(estimate.fit_weights))
        return np.asarray(rise > allowed + ROUNDING * energy)

    def _leaves_range(self, estimate: Estimate, path: BackwardElimination) -> NDArray[np.bool_]:
        triangles = estimate.information.triangles
        rows = np.array([t.rows for t in triangles], dtype=float)
        rms = np.array([np.linalg.norm(t.factor[:, -1]) for t in triangles]) / np.sqrt(rows)
        names = estimate.information.channels
        # A sine's range over its root mean square, where no range is stated.
        span = [self.ranges.get(n, 2.0 * np.sqrt(2.0) * v) for n, v in zip(names, rms, strict=True)]
        lost = np.sqrt(np.maximum(path.energies - path.energies[0], 0.0) / rows)
        beyond = lost > self.range_share * np.array(span) + ROUNDING * rms
        return np.asarray(beyond.any(axis=1))


def backward_elimination(estimate: Estimate) -> BackwardElimination:
    """Return the elimination of an estimate's parameters, rows weighted by what they are worth.

    That is as in the fit, and less by the root of the channel's autocorrelation time: deviations
    are then those of independent rows.
    """
    worth = np.array(estimate.fit_weights) / np.sqrt(estimate.noise.autocorrelation_time)
    weights = dict(zip(estimate.information.channels, worth.tolist(), strict=True))
    return BackwardElimination.of(estimate.information, weights)


def essential_standard(kept: Sequence[int], space: ParameterSpace) -> tuple[int, ...]:
    """Return positions of the standard parameters that are in an essential base parameter.

    All that are combined in one count, also those that hardly matter.
    """
    return tuple(np.flatnonzero(np.any(space.matrix[list(kept)] != 0.0, axis=0)).tolist())


def back_projection(values: Array, space: ParameterSpace) -> Array:
    """Return the shortest standard parameters x, (n,), of base parameters β, (b,), `x = B β`.

    B is the pseudo-inverse of the map from x to β; in coordinates in which its rows are orthonormal
    it is the transpose. Lengths are in the parameters' units, as they come.
    """
    return np.asarray(np.linalg.pinv(space.matrix) @ values)


@dataclass(frozen=True)
class StandardEstimate:
    """Standard parameters x that need not be physical."""

    values: Array  # x, shape (n,), in the units of the space's labels
    # positions of those that the data determine; the others are the reference's
    moved: tuple[int, ...]
    rank: int  # number of combinations that the data determine


@dataclass(frozen=True)
class TruncatedRegressor:
    """Standard parameters by the pseudo-inverse of the regressor nearest to Y of smaller rank.

    With `Y = U Σ Vᵀ` and singular values beyond the rank set to zero, `x = Y⁺ τ` [Gautier2013]. At
    the rank of the base parameters it predicts what these do.
    """

    # share of the largest singular value below which one is zero, beside what rounding and the base
    # parameters leave
    visible: float = 0.0

    def fit(self, estimate: Estimate, space: ParameterSpace) -> StandardEstimate:
        """Return x of a least-squares estimate's information."""
        everything = range(len(space.labels))
        identity = np.eye(len(space.labels))
        zero = np.zeros(len(space.labels))
        return _shortest(estimate, space, zero, identity, everything, None, self.visible)


@dataclass(frozen=True)
class ModelDifference:
    """Difference of the standard parameters from the model file, essential ones only.

    `τ − Y x₀ = Y Δx`, solved for the shortest Δx, with lengths in the bodies of the model file: a
    heavy link may move more than a light one [Gautier2013]. Only parameters move that are in an
    essential base parameter, and only as many combinations as these are.
    """

    essential: Essential = Essential()  # what is essential

    def fit(
        self, estimate: Estimate, space: ParameterSpace, kept: Sequence[int] | None = None
    ) -> StandardEstimate:
        """Return x of a least-squares estimate's information.

        Args:
            kept: Positions of the essential base parameters, where they are known.
        """
        if kept is None:
            kept = self.essential.reduced(estimate).kept
        moved = essential_standard(kept, space)
        metric = scaled_metric(space)
        columns = estimate.information.combined(estimate.fitted_with).R @ space.matrix @ metric
        lengths = np.linalg.norm(columns, axis=0)
        # Drives have no number in a model file: as long as what is seen best of the bodies.
        drives = np.arange(10 * len(space.groups), len(lengths))
        longest = lengths[: drives[0]].max(initial=0.0) if len(drives) else 1.0
        scale = np.ones(len(lengths))
        seen = drives[lengths[drives] > 0.0]
        scale[seen] = (longest or 1.0) / lengths[seen]
        return _shortest(estimate, space, space.nominal, metric * scale, moved, len(kept), 0.0)


def _shortest(
    estimate: Estimate,
    space: ParameterSpace,
    reference: Array,
    metric: Array,
    moved: Sequence[int],
    rank: int | None,
    visible: float,
) -> StandardEstimate:
    """Return x = x₀ + W u with the shortest u, `Y W u = τ − Y x₀`, of singular values truncated.

    Args:
        reference: x₀, shape (n,).
        metric: W, shape (n, n); rows of what does not move are ignored.
        rank: Number of singular values at most; that of the base parameters if not given.
        visible: Share of the largest below which one counts as zero.
    """
    triangle = estimate.information.combined(estimate.fitted_with)
    own = np.zeros_like(metric)
    own[list(moved)] = metric[list(moved)]
    rows = triangle.R @ space.matrix
    right = triangle.z - rows @ reference
    U, singular, basis = np.linalg.svd(rows @ own, full_matrices=False)
    most = len(space.matrix) if rank is None else rank
    rounding = max(triangle.rows, len(singular)) * float(np.finfo(float).eps)
    used = min(most, int(np.sum(singular > max(rounding, visible) * singular[0])))
    u = basis[:used].T @ (U[:, :used].T @ right / singular[:used])
    return StandardEstimate(reference + own @ u, tuple(moved), used)
