"""What estimators are and return, and what `--method` and `--robust` name, here and elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

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

from .noise import Noise, autocorrelation_time, coloured_factors, raised, thinned
from .problem import Problem


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


class Estimator(Protocol):
    """An estimator of base parameters: frozen settings with one verb."""

    def fit(self, problem: Problem, /) -> Estimate:
        """Return base parameters β with their covariance, from a problem's rows."""
        ...


class Polish(Protocol):
    """Steps that go on from the consistent estimate of the semidefinite program."""

    def polish(self, rows: Any, start: Array, margin: float, /) -> Polished:
        """Return where steps from a consistent point end.

        Args:
            rows: Rows and prior on scaled unknowns; see `consistent.Scaled`.
            start: u with bodies in the cone, shape (n,).
            margin: ε ≥ 0 in `S(x) ⪰ ε S₀`.
        """
        ...


class Polished(Protocol):
    """Where steps ended."""

    @property
    def unknown(self) -> Array:
        """Scaled unknowns u, shape (n,)."""
        ...

    @property
    def steps(self) -> int:
        """Steps that were tried."""
        ...


@dataclass(frozen=True)
class Method:
    """An estimator with its default settings, as `heft identify --method` offers it."""

    make: Callable[[], Estimator]  # makes it
    summary: str  # what it does, for help
    robust: bool = False  # whether it finds rows that are no part of the experiment
    # what goes on from the physically consistent estimate that follows; see `PhysicallyConsistent`
    polish: Polish | None = None
    # whether it needs a simulation of the experiment, its field `simulate`, and hence the
    # controller that the experiment was made with
    simulates: bool = False
    # refuses a robot that it is not for, before logs are read
    require: Callable[[Any], object] | None = None
    # whether rows of the weak form suit it; others look at the noise of each sample, or make up for
    # what the motion's noise does
    windows: bool = False

    def __call__(self) -> Estimator:
        """Return the estimator."""
        return self.make()


def moved_optimum(information: Information, values: Array) -> Information:
    """Return information with the same R whose optimum is β in every channel.

    What follows an estimate, the physically consistent one above all, starts from information whose
    optimum is the estimate. Moved, it keeps the rows' metric, which says how much it costs to be
    off: `‖R (x − β)‖² + ρ²` replaces `‖R x − z‖² + ρ₀²`, ρ² the residual sum of squares at β.

    Args:
        information: About β, unweighted.
        values: β, shape (b,).
    """
    triangles = []
    for t in information.triangles:
        factor = t.factor.copy()
        factor[:-1, -1] = t.R @ values[t.columns]
        factor[-1, -1] = np.sqrt(t.residual_energy(values))
        triangles.append(replace(t, factor=factor))
    return replace(information, triangles=tuple(triangles))


def estimate_at(
    problem: Problem,
    rough: Estimate,
    values: Array,
    change: Array,
    scale: Array,
    passes: int,
    settings: dict[str, object],
) -> Estimate:
    """Return the estimate β of a problem, with the covariance of coloured residuals.

    One pass over the rows. The covariance is `G (Σ_c w_c⁴ Yᵀ Γ Y) G`.

    Args:
        values: β, shape (b,).
        change: G, how β changes with the score `Σ_c w_c² Yᵀ ε`, shape (b, b).
        scale: 1/w of each channel, shape (channels,) [N·m or N].
    """
    information = moved_optimum(rough.information, values)
    autocovariance, sample = thinned(problem.residuals(values), problem.spacing, problem.repeats)
    rows, size = rough.noise.rows, len(values)
    energy = np.array([t.energy for t in information.triangles])
    freedom = np.maximum(rows * (1.0 - size / rows.sum()), 1.0)
    sigma = np.maximum(np.sqrt(energy / freedom), rough.noise.sigma)
    times = autocorrelation_time(autocovariance)
    noise = Noise(sigma, times, rows, coloured_factors(sample, len(values)))
    spread = noise.score_factor(information, 1.0 / scale) @ change
    covariance = spread.T @ spread
    triangle = rough.information.combined(rough.fitted_with)
    blind = Directions.of(triangle.R, triangle.rows).blind
    covariance[blind, :] = covariance[:, blind] = 0.0
    covariance[blind, blind] = np.inf
    told = np.where(blind, np.nan, values)
    parameters = Parameters(information.labels, told, covariance)
    return Estimate(parameters, information, noise, rough.rank, passes + 1, settings)
