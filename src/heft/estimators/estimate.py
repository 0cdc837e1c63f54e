"""What estimators are and return, and what `--method` and `--robust` name, here and elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, DataRank, Directions, Information, Parameters, shortest

from .problem import Problem


@dataclass(frozen=True)
class Noise:
    """Noise model of the residuals τ − Y β, channel by channel."""

    sigma: Array  # standard deviation σ of the residual, shape (channels,) [N·m or N]
    autocorrelation_time: Array  # integrated autocorrelation time τ ≥ 1, shape (channels,) [rows]
    rows: Array  # number of rows, shape (channels,)
    # for each channel S with `SᵀS = Yᵀ Γ Y`, shape (any, b), Γ the covariance of its residual; see
    # `coloured_factors`. None where residuals are treated as white noise whose covariance is scaled
    # by τ
    coloured: tuple[ChannelRows, ...] | None = None
    # for each channel the moments `Yᵀe`, shape (errors, b), of systematic errors e that all
    # channels share, each of one standard deviation, such as that of a delay. None if there are
    # none
    common_errors: tuple[ChannelRows, ...] | None = None

    @property
    def effective(self) -> Array:
        """Effective sample size n / τ of each channel, shape (channels,) [rows]."""
        return self.rows / self.autocorrelation_time

    def factors(self, information: Information) -> tuple[ChannelRows, ...]:
        """Return for each channel S, (any, b), with `SᵀS = Yᵀ Γ Y`, the covariance of its `Yᵀε`.

        Args:
            information: Information about β, used where residuals are treated as white.
        """
        if self.coloured is not None:
            return self.coloured
        spread = self.sigma * np.sqrt(self.autocorrelation_time)
        pairs = zip(spread, information.triangles, strict=True)
        return tuple(ChannelRows(t.columns, s * t.R) for s, t in pairs)

    def scores(
        self,
        information: Information,
        weights: Sequence[float] | Array,
        maps: Sequence[Array] | None = None,
    ) -> tuple[ChannelRows, ...]:
        """Return sets S, (any, n), with `Σ SᵀS` the covariance of the score `Σ w² Tᵀ Yᵀ ε`.

        The latter sum is over the channels. Use it as the middle factor of a sandwich covariance
        [Huber1967; White1980]. One set a channel, and one of the errors that all channels share.

        Args:
            information: Information about β, used where residuals are treated as white.
            weights: w of each channel, shape (channels,) [1 / channel's unit].
            maps: T of each channel, whose regressor of the unknowns is Y T, shape (b, n); the
                identity if not given.
        """
        sets = [_weighted(*each) for each in zip(weights, self.factors(information), strict=True)]
        errors = self.common_errors or ()
        shared = [_weighted(*each) for each in zip(weights, errors, strict=bool(errors))]
        if maps is not None:
            sets = [s.mapped(own) for s, own in zip(sets, maps, strict=True)]
            shared = [s.mapped(own) for s, own in zip(shared, maps, strict=bool(errors))]
        return (*sets, ChannelRows.total(shared)) if shared else tuple(sets)

    def score_factor(self, information: Information, weights: Sequence[float] | Array) -> Array:
        """Return the sets of `scores`, stacked on all columns, shape (any, b)."""
        sets = self.scores(information, weights)
        return np.vstack([s.spread(len(information.labels)) for s in sets])


def _weighted(weight: float, rows: ChannelRows) -> ChannelRows:
    return ChannelRows(rows.columns, weight**2 * rows.values)


def raised(
    covariance: Array, deviations: Array, functions: Sequence[NDArray[np.intp]] = ()
) -> Array:
    """Return a covariance whose variances are at least those of a jackknife.

    The autoregression of the residual sees all of the noise but only what its model describes; the
    jackknife sees what differs between blocks, whatever it is, from a dozen of them. The larger of
    both deviations is stated, and correlations stay those of the covariance. Coefficients of one
    function are told by their sum: they are raised together, direction by direction, since each by
    its own factor no longer cancels against the others.

    Args:
        covariance: Shape (n, n); infinite variances stay so.
        deviations: D with DᵀD the jackknife covariance, shape (any, n).
        functions: Positions of the coefficients of each function.
    """
    own = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    other = np.sqrt(np.sum(deviations**2, axis=0))
    finite = np.isfinite(own) & (own > 0.0)
    factor = np.ones(len(own))
    factor[finite] = np.maximum(1.0, other[finite] / own[finite])
    together = [places[finite[places]] for places in functions]
    for places in together:
        factor[places] = 1.0
    widened = np.asarray(covariance * factor[:, None] * factor[None, :])
    for places in together:
        lift = _lift(covariance[np.ix_(places, places)], deviations[:, places])
        widened[places] = lift @ widened[places]
        widened[:, places] = widened[:, places] @ lift.T
    return widened


def _lift(covariance: Array, deviations: Array) -> Array:
    """Return L with `L C Lᵀ` the least covariance that exceeds C and DᵀD along their common axes.

    These are the axes in which both are diagonal: `L = C^½ max(1, C^-½ DᵀD C^-½)^½ C^-½`.

    Args:
        covariance: C, shape (n, n).
        deviations: D, shape (any, n).
    """
    scale = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    real = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    root = scale[:, None] * vectors[:, real] * np.sqrt(values[real])
    inverse = (vectors[:, real] / np.sqrt(values[real])).T / scale
    white = deviations @ inverse.T
    _, singular, axes = np.linalg.svd(white, full_matrices=False)
    stretch = np.eye(len(inverse)) + (axes.T * np.maximum(singular - 1.0, 0.0)) @ axes
    return np.asarray(root @ stretch @ inverse)


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

    def with_common_errors(self, errors: tuple[ChannelRows, ...]) -> Self:
        """Return the estimate with its covariance widened by systematic errors of all channels.

        Args:
            errors: For each channel the moments `Yᵀe` of errors e of one standard deviation,
                shape (errors, b); see `Noise`.
        """
        covariance = self.parameters.covariance
        assert covariance is not None
        triangle = self.information.combined(self.fitted_with)
        inverse = Directions.of(triangle.R, triangle.rows).covariance_factor
        each = zip(self.fit_weights, errors, strict=True)
        moment = ChannelRows.total([_weighted(*own) for own in each]).spread(len(inverse))
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
