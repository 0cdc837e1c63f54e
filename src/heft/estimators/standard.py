"""Standard parameters from least squares: back-projection, truncated regressor, change of a model.

Infinitely many standard parameters x have the same base parameters β = K x, and predict the same
torque. Each method here takes the shortest of them by some measure of length; none looks at whether
such bodies can exist, which is what `PhysicallyConsistent` is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.information import ParameterSpace

from .essential import Essential, essential_standard
from .estimate import Estimate
from .feasible_set import scaled_metric


def back_projection(values: Array, space: ParameterSpace) -> Array:
    """Return the shortest standard parameters x with base parameters β, `x = B β`, shape (n,).

    B is the pseudo-inverse of the map from x to β; in coordinates in which its rows are orthonormal
    it is the transpose. Lengths are in the parameters' units, as they come.

    Args:
        values: β, shape (b,).
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
    left, singular, basis = np.linalg.svd(rows @ own, full_matrices=False)
    most = len(space.matrix) if rank is None else rank
    rounding = max(triangle.rows, len(singular)) * float(np.finfo(float).eps)
    used = min(most, int(np.sum(singular > max(rounding, visible) * singular[0])))
    u = basis[:used].T @ (left[:, :used].T @ right / singular[:used])
    return StandardEstimate(reference + own @ u, tuple(moved), used)
