"""Draws of physically consistent parameters: a normal distribution, cut to the feasible set.

The estimate and its covariance are a normal distribution; of it only bodies with positive definite
pseudo-inertias, drives that are passive, and what keeps the limits are possible. `draw` takes the
covariance that an estimate states. `posterior` takes data and prior as they are: with

    ‖R M x − z‖² + n₀ Σ_links ‖L⁻¹ (S(x) − S₀) L⁻ᵀ‖²_F

(see `PhysicallyConsistent`) it draws from exp(−½ of that) on the feasible set, Bayes' theorem for a
true robot that is itself a draw of the prior. Intervals of such draws hold such robots as often as
they say; they do not hold one fixed robot as often, least of all one on the boundary of the set,
which equal tails leave out always. `bounds` do without a prior.

Both are drawn by hit-and-run [Smith1984] in coordinates in which the normal distribution is
standard, along directions that have the covariance of earlier draws: some rounds find the shape of
what is feasible, each twice as long as the one before. Draws are those of the last round, in which
directions stay as they are. Several chains run side by side; how far they agree and how many
independent draws theirs are worth is measured [Vehtari2021].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import plain
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import UPPER, Limits, PhysicallyConsistent, cone_metric, linear_constraints
from heft.information import Parameters, ParameterSpace, Triangle, triangle_of

from . import hit_and_run
from .possible_fits import NO_LIMITS


@dataclass(frozen=True, eq=False)
class ConsistentSamples:
    """Draws of parameters, each feasible."""

    values: Array  # shape (draws, n), in the units of the parameters
    effective: float  # how many independent draws they are worth, of the parameter with the fewest
    # split R̂ of the chains, of the parameter with the largest; 1 where they agree
    disagreement: float
    steps: int  # of each chain


@dataclass(frozen=True)
class ConsistentSampler:
    """Settings of the draws."""

    chains: int = 8  # that run side by side
    directions: int = 2000  # from which steps are chosen; ten a dimension at least
    every: int = 25  # steps of the first round from one that is kept to the next
    kept: int = 400  # draws of a chain at least, in each round
    # share of a round's draws that are left out, since they remember its start
    forgotten: float = 0.2
    agree: float = 1.01  # split R̂ below which chains have converged, as [Vehtari2021] recommends
    most: int = 10_000_000  # steps of a chain at most, in all rounds

    def draw(
        self,
        estimate: Parameters,
        space: ParameterSpace,
        count: int,
        seed: int,
        limits: Limits = NO_LIMITS,
        progress: Callable[[str], None] = lambda line: None,
    ) -> ConsistentSamples:
        """Return draws of the estimate's distribution that are feasible.

        Args:
            estimate: Feasible values of x, shape (n,), with their covariance.
            count: Number of draws, each worth an independent one.

        Raises:
            SolverFailure: If the chains do not agree within `most` steps.
        """
        factor = _factor(estimate, space, limits)
        target = _Target.of(estimate.values, factor, space, limits)
        return self._drawn(target, np.zeros(factor.shape[1]), count, seed, progress)

    def posterior(
        self,
        triangle: Triangle,
        space: ParameterSpace,
        prior: PhysicallyConsistent,
        count: int,
        seed: int,
        progress: Callable[[str], None] = lambda line: None,
    ) -> ConsistentSamples:
        """Return draws of the posterior under physical consistency.

        Drives have a flat prior; those of which the data say nothing stay at zero.

        Args:
            triangle: Information about β in independent rows of unit variance.
            prior: Its strength n₀, limits and what is known of links; its prior error is not used.

        Raises:
            InvalidSetting: If the prior is not the quadratic one, or a limit's link is not there.
            TooLittleData: If the prior has no strength and the data do not determine x.
            SolverFailure: If nothing is feasible, or the chains do not agree within `most` steps.
        """
        if prior.prior != "quadratic":
            raise InvalidSetting(
                "the posterior is drawn for a normal prior",
                argument="prior",
                got=prior.prior,
                expected="quadratic",
            )
        start = prior.fit(triangle, space).parameters.values
        scaled = prior.scaled(triangle, space)
        equations = scaled.constraints.rows[scaled.constraints.equal]
        silent = np.eye(space.size)[scaled.silent]
        free = scipy.linalg.null_space(np.vstack([equations, silent, np.zeros((1, space.size))]))
        inside = np.linalg.solve(scaled.back.toarray(), start)
        R, z = scaled.factor[:-1, :-1], scaled.factor[:-1, -1]
        # Unknowns are `inside + free w`; `half w = right` is the mean of what nothing cuts.
        stacked = triangle_of(np.column_stack([R @ free, z - R @ inside]))
        half, right = stacked[:-1, :-1], stacked[:-1, -1]
        spread = free @ np.linalg.inv(half)
        mean = scaled.back @ (inside + spread @ right)
        target = _Target.of(mean, scaled.back @ spread, space, prior.limits)
        return self._drawn(target, -right, count, seed, progress)

    def _drawn(
        self,
        target: _Target,
        start: Array,
        count: int,
        seed: int,
        progress: Callable[[str], None],
    ) -> ConsistentSamples:
        if not len(start):
            return ConsistentSamples(np.tile(target.mean, (count, 1)), float(count), 1.0, 0)
        rng = np.random.default_rng(seed)
        points = np.tile(start, (self.chains, 1))
        kept = max(self.kept, -(-2 * count // self.chains))
        shape: Array = np.eye(len(start))
        every, done, effective, disagreement = self.every, 0, 0.0, np.inf
        while done + every * kept <= self.most:
            chains = self._walked(target, points, shape, every, kept, rng)
            done, every = done + every * kept, 2 * every
            chains = chains[:, round(self.forgotten * kept) :]
            effective, disagreement = agreement(target.values(chains)[..., target.varied])
            progress(
                f"{done} steps: worth {effective:.0f} draws, chains agree to {disagreement:.3f}"
            )
            pooled = chains.swapaxes(0, 1).reshape(-1, chains.shape[-1])
            if effective >= count and disagreement < self.agree:
                chosen = np.linspace(0, len(pooled) - 1, count).round().astype(int)
                values = target.values(pooled[chosen])
                return ConsistentSamples(values, effective, disagreement, done)
            # Directions have that share of the variance of draws that nothing cuts at least.
            covariance = np.atleast_2d(np.cov(pooled.T)) + 1e-6 * np.eye(len(start))
            shape = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        raise SolverFailure(
            "the draws did not converge",
            got=f"{effective:.0f} independent draws of {count}, chains apart by {disagreement:.3f}",
            cure="ask for fewer draws",
        )

    def _walked(
        self,
        target: _Target,
        points: Array,
        shape: Array,
        every: int,
        kept: int,
        rng: np.random.Generator,
    ) -> Array:
        """Return draws of each chain, shape (chains, kept, k), along directions of a covariance.

        Args:
            points: Where chains are, shape (chains, k); they are moved on.
            shape: Lower Cholesky factor of the covariance, shape (k, k).
        """
        size = points.shape[1]
        pool = rng.normal(size=(max(self.directions, 10 * size), size)) @ shape.T
        pool, rates, walls, level = plain(pool, pool @ target.walls.T, target.walls, target.level)
        feasible = (walls, level, target.signs)
        out = np.empty((len(points), kept, size))
        for point, draws in zip(points, out, strict=True):
            hit_and_run.walk(point, feasible, (pool, rates), every, rng, draws)
        return out


@dataclass(frozen=True, eq=False)
class _Target:
    """A normal distribution in unit coordinates, `x = mean + factor y`, and what is feasible."""

    mean: Array  # shape (n,)
    factor: Array  # shape (n, k)
    # walls, level: what is feasible keeps `level + walls y`: the first `signs` not negative, then
    # the upper triangle of each body's pseudo-inertia in its own metric positive definite; shape (c
    # + 10 b, k) and (c + 10 b,)
    walls: Array
    level: Array
    signs: int  # number c
    varied: NDArray[np.intp]  # parameters that vary, positions

    @staticmethod
    def of(mean: Array, factor: Array, space: ParameterSpace, limits: Limits) -> _Target:
        constraints = linear_constraints(space, limits)
        rows = constraints.rows[~constraints.equal]
        slack = rows @ mean - constraints.least[~constraints.equal]
        moving = rows @ factor
        lengths = np.linalg.norm(moving, axis=1)
        felt = lengths > 0.0
        walls = [moving[felt] / lengths[felt, None]]
        level = [slack[felt] / lengths[felt] + 1e-9]  # room for rounding, in units of a draw's size
        entry = np.array([1.0 if i == j else np.sqrt(0.5) for i, j in UPPER])
        for first, body in zip(space.groups, space.typical, strict=True):
            ten = slice(first, first + 10)
            if factor[ten].any():
                entries = entry[:, None] * np.linalg.inv(cone_metric(body))
                walls.append(entries @ factor[ten])
                level.append(entries @ mean[ten])
        spread = np.linalg.norm(factor, axis=1)
        varied = np.flatnonzero(spread > 1e-12 * np.abs(mean))  # others differ by rounding alone
        signs = int(felt.sum())
        return _Target(mean, factor, np.vstack(walls), np.concatenate(level), signs, varied)

    def values(self, points: Array) -> Array:
        """Return x at points y, shape (..., n)."""
        return np.asarray(self.mean + points @ self.factor.T)


def _factor(estimate: Parameters, space: ParameterSpace, limits: Limits) -> Array:
    """Return F with `F Fᵀ` the estimate's covariance where equations hold, shape (n, k)."""
    assert estimate.covariance is not None
    constraints = linear_constraints(space, limits)
    covariance = _on(constraints.rows[constraints.equal], estimate.covariance)
    scale = np.sqrt(np.diag(covariance))
    unit = np.where(scale > 0.0, scale, 1.0)
    sizes, axes = np.linalg.eigh(covariance / np.outer(unit, unit))
    positive = sizes > len(sizes) * np.finfo(float).eps * sizes[-1]
    factor = unit[:, None] * axes[:, positive] * np.sqrt(sizes[positive])
    factor[scale == 0.0] = 0.0
    return np.asarray(factor)


def _on(equal: Array, covariance: Array) -> Array:
    """Return the covariance conditioned on exact values of `equal @ x`."""
    if not len(equal):
        return covariance
    cross = equal @ covariance
    return np.asarray(covariance - cross.T @ np.linalg.pinv(cross @ equal.T) @ cross)


def agreement(chains: Array) -> tuple[float, float]:
    """Return how many independent draws chains are worth, and how far they disagree.

    Split R̂ and effective sample size by Geyer's initial sequence [Vehtari2021, eqs. 4 and 10–14],
    of the parameter where each is worst, of chains of shape (chains, draws, parameters).
    """
    half = chains.shape[1] // 2
    split = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    count, length, _ = split.shape
    centred = split - split.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, 2 * length, axis=1)
    power = np.fft.irfft(padded * padded.conj(), axis=1)[:, :length].mean(axis=0) / length
    within = power[0] * length / (length - 1.0)
    between = split.mean(axis=1).var(axis=0, ddof=1)
    pooled = within * (length - 1.0) / length + between
    pooled = np.where(pooled > 0.0, pooled, 1.0)
    correlation = 1.0 - (within - power * length / (length - 1.0)) / pooled
    pairs = correlation[: 2 * (length // 2)].reshape(length // 2, 2, -1).sum(axis=1)
    pairs = np.minimum.accumulate(np.maximum(pairs, 0.0), axis=0)
    times = np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(count * length + 10.0))
    least = np.where(within > 0.0, within, 1.0)
    return float((count * length / times).min()), float(np.sqrt(pooled / least).max())
