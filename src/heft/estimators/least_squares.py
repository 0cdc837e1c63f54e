"""Ordinary and weighted least squares: base parameters β from information.

An estimator is a frozen dataclass of settings with one method, `fit(problem) → Estimate`. It
uses labelled rows and information triangles only, and is independent of robots.

Where equations of channels share unknowns of each sample, what is left of residuals once these are
eliminated mixes the noise of all channels: with M the projector of `plants.Elimination` and s_d the
factor on channel d's variance,

    E[(e_c/σ_c)²] = Σ_d M_cd² s_d

so that s solves `H s = q`, H and q summed over the samples: unbiased for any σ, and at σ itself the
best of all quadratic forms [Rao1972]. Channels of one name share a factor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from heft.arrays import Array
from heft.errors import TooLittleData
from heft.information import (
    ChannelRows,
    DataRank,
    Directions,
    Information,
    Parameters,
    components,
    gram,
    inverses,
    sandwich,
    shortest,
)

from .estimate import Estimate, Noise
from .noise import autocorrelation_time, coloured_factors, thinned
from .problem import MixedProblem, Problem, mixes_channels

X = TypeVar("X", bound=MixedProblem)


@dataclass(frozen=True)
class VarianceComponents:
    """Standard deviations of channels' noise where unknowns of each sample mix it."""

    # how often rows are made again with the standard deviations found; two come within some percent
    # of the last
    rounds: int = 2
    # smallest variance, as a share of what the channel's own residual would say: what is found to
    # be none would be taken for exact
    least: float = 0.01

    def settled(self, problem: X) -> X:
        """Return the problem with unknowns eliminated by the noise that its residuals show."""
        for _ in range(self.rounds):
            known = problem.known_noise
            weights = {c: 1.0 / known[c] for c in problem.channels}
            values = shortest(problem.information(), weights)
            problem = problem.with_noise(self.of(problem, values).tolist())
        return problem

    def of(self, problem: MixedProblem, values: Array) -> Array:
        """Return σ of each channel, (channels,) [channel's unit], at β of a fit, shape (b,)."""
        from scipy.optimize import nnls

        before = np.array([problem.known_noise[c] for c in problem.channels])
        size = len(before)
        H, q, share = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for piece in problem.residuals(values):
            assert piece.elimination is not None
            H += piece.elimination.squares()
            share += piece.elimination.redundancy.sum(axis=0)
            q += np.sum((piece.values / before) ** 2, axis=0)
        # Parameters take their share of the residuals' freedom.
        q *= 1.0 / max(1.0 - len(values) / max(share.sum(), 1.0), 0.5)
        names = list(dict.fromkeys(problem.noise_names))
        group = np.array([[n == own for own in problem.noise_names] for n in names], dtype=float)
        H, q, share = group @ H @ group.T, group @ q, group @ share
        alone = q / np.maximum(share, 1e-300)
        shown = share > 0.0
        factor = np.ones(len(names))
        scale = np.maximum(alone[shown], 1e-300)
        if (alone[shown] > 0.0).all():
            # In units of what each residual says alone, and each equation likewise.
            matrix = H[np.ix_(shown, shown)] * scale / q[shown, None]
            factors, _ = nnls(matrix, np.ones(int(shown.sum())))
            factor[shown] = np.maximum(factors, self.least) * scale
        return np.asarray(before * np.sqrt(group.T @ factor))


def _of_directions(seen: Directions, z: Array, score: Array) -> tuple[Array, Array]:
    """Return the solution, NaN where not unique, and its covariance, where columns may depend.

    Args:
        seen: Singular values of the weighted information.
        z: Its right-hand side, shape (b,).
        score: S with SᵀS the covariance of the weighted score, shape (any, b).
    """
    values = seen.shortest(z)
    # A parameter with a component in an unidentified direction is not identifiable.
    values[seen.blind] = np.nan
    half = seen.covariance_factor.T
    change = gram(half, [part.rows for part in components(half.T)])
    parts = components(change)
    spread = np.zeros((len(score), change.shape[1]))
    for part in parts:
        nonzero = np.any(score[:, part.rows] != 0.0, axis=1)
        own = score[np.ix_(nonzero, part.rows)] @ part.of(change)
        spread[np.ix_(nonzero, part.columns)] = own
    return values, gram(spread, [part.columns for part in parts])


def _together(values: Array, names: Sequence[str]) -> Array:
    """Return for each channel the sum of values over all channels that share its noise name."""
    return np.array(
        [sum(v for v, n in zip(values, names, strict=True) if n == own) for own in names]
    )


def _replaced(values: Array, names: Sequence[str], known: Mapping[str, float]) -> Array:
    return np.array([known.get(n, v) for v, n in zip(values, names, strict=True)])


@dataclass(frozen=True)
class LeastSquares:
    """Least squares, ordinary or with each channel weighted by its own noise.

    Minimises `Σ_c w_c² ‖Y_c β − τ_c‖²` with w_c = 1, or 1/σ_c, σ_c being the spread of channel
    c's residual, re-estimated `sweeps` times [Gautier2001, eq. 14]. The usual first choice
    for base parameters; for numbers that a model file can hold take `PhysicallyConsistent`.
    """

    weighting: Literal["channel", "none"] = "channel"  # `channel` or `none`
    sweeps: int = 2  # how often the channels' noise is re-estimated
    # whether to pass over the rows once more, for the autocorrelation of the residuals
    coloured: bool = True
    # rank tolerance: fraction of the largest singular value of the scaled columns below which a
    # direction counts as unidentified, where that exceeds rounding
    visible: float = 0.0

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β in one pass over a problem's rows, two if `coloured`.

        Where unknowns of each sample are eliminated, first their weights are found, in further
        passes (`VarianceComponents`).

        Raises:
            TooLittleData: If there are no more rows than parameters.
        """
        known: Mapping[str, float] = {}
        names = problem.noise_names
        if mixes_channels(problem):
            problem = VarianceComponents().settled(problem)
            known, names = problem.known_noise, ()
        information = problem.information()
        sigma = self.spread(information, names, known)
        if not self.coloured:
            return self.conclude(information, sigma, np.ones(len(sigma)), 1)
        return self.colour(problem, self.conclude(information, sigma, None, 1))

    def colour(
        self,
        problem: Problem,
        estimate: Estimate,
        common_errors: tuple[ChannelRows, ...] | None = None,
        earlier: Noise | None = None,
    ) -> Estimate:
        """Return the estimate with the covariance of coloured noise, in one pass over the rows.

        Args:
            estimate: As `solve` returns it, with or without a covariance.
            common_errors: Systematic errors that all channels share, of all channels of the
                estimate; see `Noise`.
            earlier: Noise of information in the estimate that is not of these rows. Its channels
                are the problem's first, and then those that have no rows there.
        """
        values = estimate.fitted
        covariance, sample = thinned(problem.residuals(values), problem.spacing, problem.repeats)
        coloured = coloured_factors(sample, len(values))
        times = autocorrelation_time(covariance)
        if mixes_channels(problem):
            # Channels mix: rows are to be weighed by their noise alone, and by one memory.
            times = np.full_like(times, times.mean())
        sigma = estimate.noise.sigma
        if earlier is not None and earlier.coloured is not None:
            times = np.append(times, earlier.autocorrelation_time[len(times) :])
            if coloured is not None:
                bare = (ChannelRows.nothing(0),) * (len(sigma) - len(coloured))
                pairs = zip((*coloured, *bare), earlier.coloured, strict=True)
                coloured = tuple(map(ChannelRows.below, pairs))
            others = earlier.common_errors or ()
            pairs = zip(common_errors or (), others, strict=bool(common_errors))
            common_errors = tuple(map(ChannelRows.below, pairs)) or others
        return self.conclude(
            estimate.information, sigma, times, 2, coloured, common_errors, estimate.rank
        )

    def solve(
        self,
        information: Information,
        noise_names: Sequence[str] = (),
        known: Mapping[str, float] | None = None,
    ) -> Estimate:
        """Return base parameters β from information alone, with white residuals assumed.

        Args:
            information: About β, unweighted.
            noise_names: Name of each channel's standard deviation; channels of one name share
                it. Each has its own if not given.
            known: Known standard deviations by name, which are not estimated [channel's unit].

        Raises:
            TooLittleData: If there are no more rows than parameters.
        """
        sigma = self.spread(information, noise_names, known)
        return self.conclude(information, sigma, np.ones(len(sigma)), 1)

    def spread(
        self,
        information: Information,
        noise_names: Sequence[str] = (),
        known: Mapping[str, float] | None = None,
    ) -> Array:
        """Return the standard deviation of each channel's residual, shape (channels,).

        Arguments and errors are those of `solve`.
        """
        names = tuple(noise_names) or information.channels
        channels = len(information.channels)
        rows = np.array([t.rows for t in information.triangles], dtype=float)
        size = len(information.labels)
        if rows.sum() <= size or (rows == 0).any():
            raise TooLittleData(
                "there are not more rows than parameters",
                got=f"{int(rows.sum())} rows, {size} parameters",
                cure="give a longer log",
            )
        sigma = _replaced(np.ones(channels), names, known or {})
        for sweep in range(self.sweeps + 1):
            weight = 1.0 / sigma if self.weighting == "channel" else np.ones(channels)
            by_name = dict(zip(information.channels, weight.tolist(), strict=True))
            values = shortest(information, by_name)
            energy = np.array([t.residual_energy(values) for t in information.triangles])
            scale = np.array([np.linalg.norm(t.factor[:, -1]) for t in information.triangles])
            freedom = np.maximum(rows * (1.0 - size / rows.sum()), 1.0)
            # Noise-free rows leave rounding only; a floor keeps their weight finite.
            least = 1e-13 * np.maximum(scale / np.sqrt(rows), 1e-150)
            least = np.where(scale > 0.0, least, 1.0)  # rows of zeros, which tell nothing
            shared = np.sqrt(_together(energy, names) / _together(freedom, names))
            sigma = _replaced(np.maximum(shared, least), names, known or {})
            if self.weighting == "none" or sweep == self.sweeps:
                break
        return sigma

    def conclude(
        self,
        information: Information,
        sigma: Array,
        times: Array | None,
        passes: int,
        coloured: tuple[ChannelRows, ...] | None = None,
        common_errors: tuple[ChannelRows, ...] | None = None,
        rank: DataRank | None = None,
    ) -> Estimate:
        """Return base parameters β from information and a given noise model.

        Args:
            information: About β, unweighted.
            sigma: Standard deviation of each channel's residual, shape (channels,) [N·m or N].
            times: Integrated autocorrelation time of each channel's residual, shape (channels,)
                [rows]; None for white noise, and no covariance of β.
            coloured: For each channel S with `SᵀS` the covariance of `Yᵀε`, shape (any, b); see
                `noise.coloured_factors`.
        """
        rows = np.array([t.rows for t in information.triangles], dtype=float)
        memory = np.ones(len(sigma)) if times is None else times
        noise = Noise(sigma, memory, rows, coloured, common_errors)
        ordinary = self.weighting == "none"
        scale = np.ones_like(sigma) if ordinary else sigma
        weights = dict(zip(information.channels, (1.0 / scale).tolist(), strict=True))
        # With weights 1/scale_c the estimate's covariance is G (Σ_c Yᵀ Γ_c Y / scale_c⁴) G, with
        # G the inverse of the weighted information. What is identifiable changes with the score of
        # what is not, too: only the result is blanked.
        summed = information.summed(weights)
        known = inverses(summed, self.visible)
        if known is None or rank is None:
            combined = summed.triangle()
            seen = Directions.of(combined.R, combined.rows, self.visible)
            rank = rank or seen.summary(information.labels)
        if known is None:
            values, total = _of_directions(
                seen, combined.z, noise.score_factor(information, 1.0 / scale)
            )
        else:
            values = np.where(summed.lengths > 0.0, summed.solution(), np.nan)
            total = np.zeros((summed.size, summed.size))
            if times is not None:
                total = sandwich(known, noise.scores(information, 1.0 / scale), summed.size)
        blind = np.isnan(values)
        total[blind, :] = total[:, blind] = 0.0
        total[blind, blind] = np.inf
        parameters = Parameters(information.labels, values, None if times is None else total)
        settings: dict[str, object] = {"weighting": self.weighting}
        if self.visible:
            settings["visible"] = self.visible
        return Estimate(parameters, information, noise, rank, passes, settings)


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
    stated = np.where(blind, np.nan, values)
    parameters = Parameters(information.labels, stated, covariance)
    return Estimate(parameters, information, noise, rough.rank, passes + 1, settings)
