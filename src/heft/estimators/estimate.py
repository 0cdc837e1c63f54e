"""What an estimator receives, and what it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from heft.arrays import Array
from heft.information import DataRank, Directions, Information, Labels, Parameters, Triangle

from .noise import Noise, ResidualsLike


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

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Name of each channel's standard deviation; channels of one name share it."""
        ...

    def information(self) -> Information:
        """All rows as information."""
        ...

    def residuals(self, values: Array) -> Iterator[ResidualsLike]:
        """Yield τ − Y β by pieces without gaps, with what gives Y at some of their rows."""
        ...

    @property
    def spacing(self) -> int:
        """How many rows may stand for one when rows are thinned out."""
        ...

    @property
    def repeats(self) -> float | None:
        """After how many rows the motion repeats, if it does."""
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

    @cached_property
    def fitted(self) -> Array:
        """Values that leave the least residual, also where parameters cannot be told apart.

        They are for residuals and predictions of these rows only; shape (b,).
        """
        visible = self.settings.get("visible", 0.0)
        assert isinstance(visible, float)
        return _shortest(self.information.combined(self._fitted_with), visible)

    @property
    def _fitted_with(self) -> dict[str, float] | None:
        """Weight of each channel's rows in the fit; None for one."""
        return None if self.settings.get("weighting") == "none" else self.weights(worth=False)

    def with_common_errors(self, errors: tuple[Array, ...]) -> Self:
        """Return the estimate with errors that all channels have in common, its covariance widened.

        Args:
            errors: For each channel the moments `Yᵀe` of errors of one standard deviation, shape
                (errors, b); see `Noise`.
        """
        covariance = self.parameters.covariance
        assert covariance is not None
        weights = self._fitted_with or dict.fromkeys(self.information.channels, 1.0)
        triangle = self.information.combined(weights)
        inverse = Directions.of(triangle.R, triangle.rows).inverse
        moment = np.sum([w**2 * e for w, e in zip(weights.values(), errors, strict=True)], axis=0)
        finite = np.isfinite(np.diag(covariance))
        moved = moment @ inverse @ inverse.T * finite
        parameters = replace(self.parameters, covariance=covariance + moved.T @ moved)
        return replace(self, parameters=parameters, noise=replace(self.noise, common_errors=errors))

    def noise_factor(self) -> Array:
        """Return S of the noise with the rows weighted as by `weights`: `SᵀS = Σ w⁴ Yᵀ Γ Y`."""
        return self.noise.score_factor(self.information, list(self.weights().values()))

    def weights(self, worth: bool = True) -> dict[str, float]:
        """Return the weight of each channel's rows.

        Args:
            worth: Whether to count a row for what it adds to its neighbours, 1/(σ√τ), which
                makes the combined triangle that of unit-variance independent rows; else 1/σ.
        """
        scale = self.noise.sigma * (np.sqrt(self.noise.autocorrelation_time) if worth else 1.0)
        return dict(zip(self.information.channels, (1.0 / scale).tolist(), strict=True))


def _shortest(triangle: Triangle, visible: float = 0.0) -> Array:
    """Return the shortest of the least-squares solutions (columns scaled to one), shape (b,).

    For residuals only: where the data do not tell parameters apart it is no estimate of them.
    """
    return Directions.of(triangle.R, triangle.rows, visible).shortest(triangle.z)
