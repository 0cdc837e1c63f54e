"""Draws of physically consistent parameters: a normal distribution, cut to the feasible set.

The estimate and its covariance are a normal distribution; of it only bodies with positive definite
pseudo-inertias, drives that are passive, and what keeps the limits are possible. It is drawn by
elliptical slice sampling [Murray2010]: a step goes along an ellipse through the present point and a
fresh draw of the normal distribution, shortened until it ends at what is feasible, so that it needs
no step length and does not depend on units. Several chains run side by side; how far they agree and
how many independent draws theirs are worth is measured [Vehtari2021].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.information import Parameters, ParameterSpace

from .feasible_set import Limits, cone_metric, linear_constraints, unstack

NONE = Limits()
ROUNDING = 1e-9  # by which a point may break a constraint, in units of a draw's size
SHORTENED = 60  # times that an ellipse is, after which a step stays where it is


@dataclass(frozen=True, eq=False)
class ConsistentSamples:
    """Draws of parameters, each feasible.

    Attributes:
        values: Shape (draws, n), in the units of the parameters.
        effective: How many independent draws they are worth, of the parameter with the fewest.
        disagreement: Split R̂ of the chains, of the parameter with the largest; 1 where they agree.
        steps: Of each chain.
    """

    values: Array
    effective: float
    disagreement: float
    steps: int


@dataclass(frozen=True)
class ConsistentSampler:
    """Settings of the draws.

    Attributes:
        chains: That run side by side.
        every: Steps from one that is kept to the next.
        agree: Split R̂ below which chains have converged.
        most: Steps of a chain at most.
    """

    chains: int = 16
    every: int = 10
    agree: float = 1.05
    most: int = 200_000

    def draw(
        self,
        estimate: Parameters,
        space: ParameterSpace,
        count: int,
        seed: int,
        limits: Limits = NONE,
        progress: Callable[[str], None] = lambda line: None,
    ) -> ConsistentSamples:
        """Return draws of the estimate's distribution that are feasible.

        Args:
            estimate: Feasible values of x, shape (n,), with their covariance.
            space: What x is: groups of ten, and what must not be negative.
            count: Number of draws, each worth an independent one.
            seed: Of all random numbers.
            limits: On masses and centres of mass.
            progress: Called with lines of progress.

        Raises:
            SolverFailure: If the chains do not agree within `most` steps.
        """
        target = _Target.of(estimate, space, limits)
        rng = np.random.default_rng(seed)
        point = np.zeros((self.chains, target.factor.shape[1]))
        kept: list[Array] = []
        wanted, done = 40, 0
        while done < self.most:
            for step in range(wanted * self.every):
                point = target.step(point, rng)
                if step % self.every == self.every - 1:
                    kept.append(point)
            done += wanted * self.every
            chains = np.stack(kept[len(kept) // 5 :], axis=1)  # what is before forgets the start
            effective, disagreement = agreement(target.values(chains)[..., target.varied])
            progress(
                f"{done} steps: worth {effective:.0f} draws, chains agree to {disagreement:.3f}"
            )
            if effective >= count and disagreement < self.agree:
                pooled = chains.swapaxes(0, 1).reshape(-1, chains.shape[-1])
                chosen = np.linspace(0, len(pooled) - 1, count).round().astype(int)
                values = target.values(pooled[chosen])
                return ConsistentSamples(values, effective, disagreement, done)
            wanted = len(kept)  # as many again
        raise SolverFailure(
            "the draws did not converge",
            got=f"{effective:.0f} independent draws of {count}, chains apart by {disagreement:.3f}",
            cure="ask for fewer draws",
        )


@dataclass(frozen=True, eq=False)
class _Target:
    """A normal distribution in unit coordinates, `x = centre + factor y`, and what is feasible.

    Attributes:
        centre: Feasible, shape (n,).
        factor: Shape (n, k).
        rows, least: Linear constraints `rows y ≥ least`, shape (c, k) and (c,).
        bodies: Of each body its pseudo-inertia at the centre, shape (b, 4, 4), in its own metric.
        moves: And what y adds to its entries, shape (16 b, k).
        varied: Parameters that vary, positions.
    """

    centre: Array
    factor: Array
    rows: Array
    least: Array
    bodies: Array
    moves: Array
    varied: NDArray[np.intp]

    @staticmethod
    def of(estimate: Parameters, space: ParameterSpace, limits: Limits) -> _Target:
        assert estimate.covariance is not None
        constraints = linear_constraints(space, limits)
        covariance = _on(constraints.rows[constraints.equal], estimate.covariance)
        scale = np.sqrt(np.diag(covariance))
        varied = np.flatnonzero(scale > 0.0)
        unit = np.where(scale > 0.0, scale, 1.0)
        sizes, axes = np.linalg.eigh(covariance / np.outer(unit, unit))
        told = sizes > len(sizes) * np.finfo(float).eps * sizes[-1]
        factor = unit[:, None] * axes[:, told] * np.sqrt(sizes[told])
        rows = constraints.rows[~constraints.equal]
        slack = rows @ estimate.values - constraints.least[~constraints.equal]
        moving = rows @ factor
        lengths = np.linalg.norm(moving, axis=1)
        felt = lengths > 0.0
        bodies, moves = [], []
        for first in space.groups:
            ten = slice(first, first + 10)
            inverse = np.linalg.inv(cone_metric(space.nominal[ten]))
            bodies.append(unstack(inverse @ estimate.values[ten]))
            columns = unstack((inverse @ factor[ten]).T)
            moves.append(columns.reshape(len(columns), 16).T)
        return _Target(
            estimate.values,
            factor,
            moving[felt] / lengths[felt, None],
            -slack[felt] / lengths[felt],
            np.array(bodies).reshape(-1, 4, 4),
            np.array(moves).reshape(-1, factor.shape[1]),
            varied,
        )

    def values(self, points: Array) -> Array:
        """Return x at points y, shape (..., n)."""
        return np.asarray(self.centre + points @ self.factor.T)

    def step(self, points: Array, rng: np.random.Generator) -> Array:
        """Return the next point of each chain, shape (chains, k)."""
        fresh = rng.normal(size=points.shape)
        here, there = self._moved(points), self._moved(fresh)
        angle = rng.uniform(0.0, 2.0 * np.pi, len(points))
        low, high = angle - 2.0 * np.pi, angle.copy()
        ends, left = np.zeros(len(points)), np.arange(len(points))
        for _ in range(SHORTENED):
            c, s = np.cos(angle[left])[:, None], np.sin(angle[left])[:, None]
            good = self._feasible(here[left] * c + there[left] * s)
            ends[left[good]] = angle[left[good]]
            left = left[~good]
            if not len(left):
                break
            below = angle[left] < 0.0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = rng.uniform(low[left], high[left])
        return np.asarray(points * np.cos(ends)[:, None] + fresh * np.sin(ends)[:, None])

    def _moved(self, points: Array) -> Array:
        """Return what constraints and bodies change by at points, shape (chains, c + 16 b)."""
        return np.asarray(points @ np.vstack([self.rows, self.moves]).T)

    def _feasible(self, moved: Array) -> NDArray[np.bool_]:
        """Return which points are, shape (chains,), from what `_moved` tells of them."""
        count = len(self.least)
        inside = (moved[:, :count] >= self.least - ROUNDING).all(axis=1)
        matrices = self.bodies + moved[:, count:].reshape(len(moved), -1, 4, 4)
        if matrices.shape[1]:
            inside &= (np.linalg.eigvalsh(matrices)[..., 0] > 0.0).all(axis=1)
        return np.asarray(inside)


def _on(equal: Array, covariance: Array) -> Array:
    """Return the covariance where linear functions of the parameters are known exactly."""
    if not len(equal):
        return covariance
    cross = equal @ covariance
    return np.asarray(covariance - cross.T @ np.linalg.pinv(cross @ equal.T) @ cross)


def agreement(chains: Array) -> tuple[float, float]:
    """Return how many independent draws chains are worth, and how far they disagree.

    Split R̂ and effective sample size by Geyer's initial sequence [Vehtari2021, eqs. 4 and 10–14],
    of the parameter where each is worst.

    Args:
        chains: Shape (chains, draws, parameters).

    Returns:
        Effective sample size; split R̂.
    """
    half = chains.shape[1] // 2
    split = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    count, length, _ = split.shape
    centred = split - split.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, 2 * length, axis=1)
    power = np.fft.irfft(padded * padded.conj(), axis=1)[:, :length].mean(axis=0) / length
    within = power[0] * length / (length - 1.0)
    between = split.mean(axis=1).var(axis=0, ddof=1)
    whole = within * (length - 1.0) / length + between
    whole = np.where(whole > 0.0, whole, 1.0)
    correlation = 1.0 - (within - power * length / (length - 1.0)) / whole
    pairs = correlation[: 2 * (length // 2)].reshape(length // 2, 2, -1).sum(axis=1)
    pairs = np.minimum.accumulate(np.maximum(pairs, 0.0), axis=0)
    times = np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(count * length + 10.0))
    least = np.where(within > 0.0, within, 1.0)
    return float((count * length / times).min()), float(np.sqrt(whole / least).max())
