"""Least squares and its family: information in, base parameters out.

Estimators are frozen settings with one verb, `fit(problem) → Estimate`. They see rows and
triangles with labels, and know nothing of robots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from .errors import TooLittleData
from .identifiability import DataRank, data_rank
from .inertia import Array
from .information import Information, Triangle, solve_refined
from .parameters import Labels, Parameters
from .uncertainty import Noise, autocovariance, memory


class RowsLike(Protocol):
    """Rows of one piece of a recording."""

    @property
    def regressor(self) -> Array:
        """Y, shape (N, channels, b)."""
        ...

    @property
    def effort(self) -> Array:
        """τ, shape (N, channels)."""
        ...


class ProblemLike(Protocol):
    """What an estimator needs of a problem."""

    @property
    def labels(self) -> Labels:
        """The parameters."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """The measured channels."""
        ...

    def information(self) -> Information:
        """All rows as information."""
        ...

    def residuals(self, values: Array) -> Iterator[Array]:
        """Yield τ − Y β by pieces without gaps, shape (N, measured channels)."""
        ...


@dataclass(frozen=True)
class Estimate:
    """Base parameters with their covariance, and how they came about.

    An unconstrained estimate: no model file should hold it (see `consistency`).

    Attributes:
        parameters: Values and covariance; infinite variance where the data say nothing.
        information: What the estimate stands on.
        noise: What is left of each channel.
        rank: How much the data show.
        passes: How many times the rows were walked.
    """

    parameters: Parameters
    information: Information
    noise: Noise
    rank: DataRank
    passes: int
    settings: Mapping[str, object] = field(default_factory=dict)

    def weights(self, worth: bool = True) -> dict[str, float]:
        """Return the weight of each channel's rows.

        Args:
            worth: Whether to count a row for what it adds to its neighbours, 1/(σ√τ), which
                makes the combined triangle that of unit-variance independent rows; else 1/σ.
        """
        scale = self.noise.sigma * (np.sqrt(self.noise.memory) if worth else 1.0)
        return dict(zip(self.information.channels, (1.0 / scale).tolist(), strict=True))


def _least_squares(triangle: Triangle, labels: Labels) -> tuple[Array, Array, DataRank]:
    """Return solution, covariance per unit variance, and rank; no number where nothing is seen."""
    rank = data_rank(triangle.R, labels, triangle.rows)
    norms = np.linalg.norm(triangle.R, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    left, singular, right = np.linalg.svd(triangle.R / scale)
    r = rank.rank
    inverse = right[:r].T / singular[:r]
    values = inverse @ (left[:, :r].T @ triangle.z) / scale
    covariance = inverse @ inverse.T / np.outer(scale, scale)
    # A parameter with a share in the directions that were not seen is not determined.
    blind = np.linalg.norm(right[r:], axis=0) > 1e-6
    values[blind] = np.nan
    covariance[blind, :] = covariance[:, blind] = 0.0
    covariance[blind, blind] = np.inf
    return values, covariance, rank


@dataclass(frozen=True)
class LeastSquares:
    """Least squares, ordinary or with each channel weighted by its own noise.

    Minimises `Σ_c w_c² ‖Y_c β − τ_c‖²` with w_c = 1, or 1/σ_c, σ_c being the spread of channel
    c's residual, re-estimated `sweeps` times [Gautier2001, eq. 14]. The usual first choice
    for base parameters; for numbers that a model file can hold take `PhysicallyConsistent`.

    Attributes:
        weighting: `channel` or `none`.
        sweeps: How often the channels' noise is re-estimated.
        coloured: Whether to walk the rows once more, for the memory of the residuals.
        refined: Whether to refine the solution in double-double arithmetic, in one more walk.
    """

    weighting: Literal["channel", "none"] = "channel"
    sweeps: int = 2
    coloured: bool = True
    refined: bool = False

    def fit(self, problem: ProblemLike) -> Estimate:
        """Return the estimate from a problem, walking its rows once, twice if coloured.

        Raises:
            TooLittleData: If there are no more rows than parameters.
        """
        estimate = self.solve(problem.information())
        if not self.coloured:
            return estimate
        values = np.nan_to_num(estimate.parameters.values)
        times = memory(autocovariance(problem.residuals(values)))
        return self.conclude(estimate.information, estimate.noise.sigma, times, 2)

    def solve(self, information: Information) -> Estimate:
        """Return the estimate from information alone, residuals taken for white."""
        channels = len(information.channels)
        rows = np.array([t.rows for t in information.triangles], dtype=float)
        size = len(information.labels)
        if rows.sum() <= size or (rows == 0).any():
            raise TooLittleData(
                "there are not more rows than parameters",
                got=f"{int(rows.sum())} rows, {size} parameters",
                cure="give a longer log",
            )
        sigma = np.ones(channels)
        for sweep in range(self.sweeps + 1):
            weight = 1.0 / sigma if self.weighting == "channel" else np.ones(channels)
            combined = information.combined(dict(zip(information.channels, weight, strict=True)))
            values = np.nan_to_num(_least_squares(combined, information.labels)[0])
            energy = np.array([t.residual_energy(values) for t in information.triangles])
            scale = np.array([np.linalg.norm(t.factor[:, -1]) for t in information.triangles])
            freedom = np.maximum(rows * (1.0 - size / rows.sum()), 1.0)
            # Noise-free rows leave rounding only; a floor keeps their weight finite.
            least = 1e-13 * np.maximum(scale / np.sqrt(rows), 1e-150)
            sigma = np.maximum(np.sqrt(energy / freedom), least)
            if self.weighting == "none" or sweep == self.sweeps:
                break
        return self.conclude(information, sigma, np.ones(channels), 1)

    def conclude(
        self, information: Information, sigma: Array, times: Array, passes: int
    ) -> Estimate:
        """Return the estimate from information and what is known of its noise.

        Args:
            information: Unweighted by channel.
            sigma: Standard deviation of each channel's residual [N·m or N].
            times: Integrated autocorrelation of each channel's residual [rows].
            passes: How many times the rows were walked.
        """
        rows = np.array([t.rows for t in information.triangles], dtype=float)
        noise = Noise(sigma, times, rows)
        ordinary = self.weighting == "none"
        scale = np.ones_like(sigma) if ordinary else sigma
        names = information.channels
        combined = information.combined(dict(zip(names, 1.0 / scale, strict=True)))
        values, covariance, rank = _least_squares(combined, information.labels)
        finite = np.isfinite(np.diag(covariance))
        # With the weights used, row r of channel c has variance (σ_c/scale_c)² τ_c, so the
        # estimate's is G (Σ_c (σ_c/scale_c)² τ_c R_cᵀR_c/scale_c²) G, with G its inverse.
        factor = [
            np.sqrt(times[c])
            * sigma[c]
            / scale[c] ** 2
            * t.spread(len(information.labels))[:-1, :-1]
            for c, t in enumerate(information.triangles)
        ]
        inner = np.where(finite[:, None] & finite[None, :], covariance, 0.0)
        spread = np.vstack(factor) @ inner
        total = spread.T @ spread
        total[~finite, ~finite] = np.inf
        parameters = Parameters(information.labels, values, total)
        return Estimate(parameters, information, noise, rank, passes, {"weighting": self.weighting})

    def refine(
        self, problem: ProblemLike, estimate: Estimate, rows: Iterator[RowsLike]
    ) -> Estimate:
        """Return the estimate with its values correct to nearly all digits of a double.

        Args:
            problem: Where it is from.
            estimate: What `fit` returned; its data must determine all parameters.
            rows: The rows once more.
        """
        weights = estimate.weights(worth=False) if self.weighting == "channel" else None
        triangle = estimate.information.combined(weights)
        factors = np.array([1.0 if weights is None else weights[c] for c in problem.channels])

        def blocks() -> Iterator[tuple[Array, Array]]:
            for piece in rows:
                wide = factors[None, :, None] * piece.regressor
                yield wide.reshape(-1, wide.shape[2]), (factors * piece.effort).reshape(-1)

        values = solve_refined(blocks(), triangle)
        parameters = replace(estimate.parameters, values=values)
        return replace(estimate, parameters=parameters, passes=estimate.passes + 1)
