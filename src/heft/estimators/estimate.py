"""Interfaces of estimators: the problem they receive and the estimate they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import (
    DataRank,
    Directions,
    Information,
    Parameters,
    shortest,
)

from .noise import Noise, raised


@dataclass(frozen=True)
class Estimate:
    """Base parameters β with their covariance, noise and rank.

    An unconstrained estimate, which may be physically inconsistent: for a model file use
    `PhysicallyConsistent`.
    """

    # values and covariance of β; the variance of unidentifiable ones is infinite
    parameters: Parameters
    information: Information  # information about β, by channel
    noise: Noise  # noise of each channel
    rank: DataRank  # numerical rank of the data and unidentifiable parameters
    passes: int  # number of passes over the rows
    # the estimator's settings and diagnostics, by name
    settings: Mapping[str, object] = field(default_factory=dict)

    @cached_property
    def fitted(self) -> Array:
        """Minimum-norm least-squares solution, also where β is not identifiable, shape (b,).

        For residuals and predictions of these rows only.
        """
        visible = self.settings.get("visible", 0.0)
        assert isinstance(visible, float)
        return shortest(self.information, self.fitted_with, visible)

    @property
    def fitted_with(self) -> dict[str, float] | None:
        """Weight of each channel's rows in the fit [1 / channel's unit]; None for one."""
        return None if self.settings.get("weighting") == "none" else self.weights(worth=False)

    @property
    def fit_weights(self) -> list[float]:
        """Weight of each channel's rows in the fit, in the order of the channels; 1 for none."""
        weights = self.fitted_with or dict.fromkeys(self.information.channels, 1.0)
        return [weights[c] for c in self.information.channels]

    def with_common_errors(self, errors: tuple[Array, ...]) -> Self:
        """Return the estimate with its covariance widened by systematic errors of all channels.

        Args:
            errors: For each channel the moments `Yᵀe` of errors e of one standard deviation,
                shape (errors, b); see `Noise`.
        """
        covariance = self.parameters.covariance
        assert covariance is not None
        triangle = self.information.combined(self.fitted_with)
        inverse = Directions.of(triangle.R, triangle.rows).covariance_factor
        moment = np.sum([w**2 * e for w, e in zip(self.fit_weights, errors, strict=True)], axis=0)
        finite = np.isfinite(np.diag(covariance))
        moved = moment @ inverse @ inverse.T * finite
        parameters = replace(self.parameters, covariance=covariance + moved.T @ moved)
        return replace(self, parameters=parameters, noise=replace(self.noise, common_errors=errors))

    def at_least(self, deviations: Array, functions: Sequence[NDArray[np.intp]] = ()) -> Self:
        """Return the estimate with standard deviations of at least the jackknife's; see `raised`.

        Args:
            deviations: D with DᵀD the jackknife covariance of β, shape (any, b).
        """
        covariance = self.parameters.covariance
        assert covariance is not None
        parameters = replace(self.parameters, covariance=raised(covariance, deviations, functions))
        return replace(self, parameters=parameters)

    def noise_factor(self) -> Array:
        """Return S with `SᵀS = Σ w⁴ Yᵀ Γ Y`, shape (any, b), w as `weights` returns them."""
        return self.noise.score_factor(self.information, list(self.weights().values()))

    def weights(self, worth: bool = True) -> dict[str, float]:
        """Return the weight of each channel's rows, by channel [1 / channel's unit].

        Args:
            worth: Whether to account for the autocorrelation time τ, with weights 1/(σ√τ): the
                combined triangle is then that of independent rows of unit variance. Else 1/σ.
        """
        scale = self.noise.sigma * (np.sqrt(self.noise.autocorrelation_time) if worth else 1.0)
        return dict(zip(self.information.channels, (1.0 / scale).tolist(), strict=True))


@runtime_checkable
class FromInformation(Protocol):
    """An estimator that needs no rows but the information of least squares."""

    def values(self, estimate: Estimate, /) -> Array:
        """Return β, shape (b,).

        Args:
            estimate: Least squares, whose information and noise are used.

        Raises:
            SolverFailure: If there is no such β.
        """
        ...
