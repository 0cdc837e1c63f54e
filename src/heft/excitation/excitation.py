"""One motion's information, constraints and gradient: what the solver sees of a design.

Rows of the motion's samples are made once; the information matrix, its criterion, torques and power
are made of them, and seeds of all of these go back through the plant in one reverse pass. Joint
limits and clearance have grids of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.plants import Excitable, Plant, structural_base

from .criteria import Criterion, PredictedError
from .design_settings import Grids
from .limits import BoundsOnGrid, Broken, Clearance, DesignLimits, EffortBounds, Place, worst
from .trajectories import Family


@dataclass(frozen=True, eq=False)
class Rows:
    """Whitened base regressor of a plant as blocks: what each channel sees, without its zeros."""

    plant: Any  # an excitable plant
    columns: tuple[int, ...]  # standard columns that are kept, k of them
    # Σ^(-½) of the channels' noise: shape (c,) of independent channels, (c, c) else [1 / channel's
    # unit]
    whitening: Array
    scale: Array  # lengths by which columns are divided, shape (k,)

    @cached_property
    def seen(self) -> tuple[NDArray[np.intp], ...]:
        """Columns that each whitened channel sees at all, by position among the kept."""
        samples = self.plant.random_samples(8, np.random.default_rng(0))
        shown = np.any(self.plant.rows(samples, self.columns).regressor != 0.0, axis=0)
        if self.whitening.ndim == 2:
            shown = np.abs(self.whitening) @ shown > 0.0
        return tuple(np.flatnonzero(row) for row in shown)

    def laid(self, samples: Any) -> Array:
        """Return the regressor before whitening and scaling, shape (c, k, N)."""
        rows = self.plant.rows(samples, self.columns).regressor
        return np.ascontiguousarray(np.moveaxis(rows, 0, 2))

    def blocks(self, laid: Array) -> list[Array]:
        """Return each whitened channel's seen columns, scaled, shape (its columns, N) each."""
        correlated = self.whitening.ndim == 2
        mixed = np.tensordot(self.whitening, laid, axes=1) if correlated else laid
        factors = np.ones(len(laid)) if correlated else self.whitening
        return [
            (factors[c] / self.scale[at])[:, None] * mixed[c, at] for c, at in enumerate(self.seen)
        ]

    def information(self, blocks: list[Array]) -> Array:
        """Return M = Σ YᵀY of whitened, scaled rows, shape (k, k)."""
        total = np.zeros((len(self.columns), len(self.columns)))
        for at, block in zip(self.seen, blocks, strict=True):
            total[np.ix_(at, at)] += block @ block.T
        return total

    def stacked(self, blocks: list[Array]) -> Array:
        """Return whitened, scaled rows one below the other, shape (c N, k)."""
        each = [np.zeros((block.shape[1], len(self.columns))) for block in blocks]
        for rows, at, block in zip(each, self.seen, blocks, strict=True):
            rows[:, at] = block.T
        return np.vstack(each)

    def seeds(self, blocks: list[Array], slope: Array) -> Array:
        """Return ∂φ/∂Y of the regressor before whitening, by Φ = ∂φ/∂M, shape (c, k, N)."""
        correlated = self.whitening.ndim == 2
        factors = np.ones(len(blocks)) if correlated else self.whitening
        made = np.zeros((len(blocks), len(self.columns), blocks[0].shape[1]))
        for c, (at, block) in enumerate(zip(self.seen, blocks, strict=True)):
            weight = (2.0 * factors[c] / self.scale[at])[:, None]
            made[c, at] = (weight * slope[np.ix_(at, at)]) @ block
        if correlated:
            made = np.tensordot(self.whitening.T, made, axes=1)
        return made


@dataclass(frozen=True, eq=False)
class At:
    """Criterion and constraints of one motion, with the intermediate results of their gradient."""

    value: float  # φ
    slope: Array  # Φ = ∂φ/∂M of the scaled columns, shape (k, k)
    constraints: Array  # all c, flat; at most 0 where a limit holds
    parts: tuple[Array, ...]  # the same, as each kind of limit makes them
    samples: Any
    blocks: list[Array]
    efforts: Array
    velocity: Array
    postures: Array

    def split(self, flat: Array) -> tuple[Array, ...]:
        """Return a number a constraint as each kind of limit makes them."""
        pieces = np.split(flat, np.cumsum([p.size for p in self.parts])[:-1])
        return tuple(x.reshape(p.shape) for x, p in zip(pieces, self.parts, strict=True))


@dataclass(frozen=True, eq=False)
class Excitation:
    """Optimisation problem of a design: criterion, limits and gradient by unknowns X, (u, d)."""

    rows: Rows  # of the plant
    family: Family  # of trajectories
    criterion: Criterion  # of information
    known: Array  # information in hand about the scaled columns, shape (k, k)
    share: float  # rows that each sample stands for
    sampled: Array  # B Z of orders 0 to 2 at the samples, or to what rows depend on, (3, N, u)
    bounds: BoundsOnGrid  # on joints
    efforts: EffortBounds | None  # on torque and power, or None
    clearance: tuple[Clearance, ...]  # on the workspace
    posture: Array  # B Z at the postures for clearance, shape (n, u)
    reach: float = 0.1  # length by which clearance is divided [m]
    gap: float = 0.0  # clearance that is kept beyond what is required [m]

    @property
    def start(self) -> Array:
        """Offset of the positions by a given start, shape (d,); zero where the start is free."""
        return self.bounds.start

    def at(self, X: Array) -> At:
        """Return criterion and constraints of the motion of unknowns X, shape (u, d)."""
        q, v, *others = self.sampled @ X
        samples = self.rows.plant.samples_at(q + self.start, v, *others)
        laid = self.rows.laid(samples)
        blocks = self.rows.blocks(laid)
        M = self.share * self.rows.information(blocks) + self.known
        value, slope = self.criterion(M)
        efforts, parts = np.empty(0), [self.bounds.values(X)]
        if self.efforts is not None:
            efforts = self.efforts.efforts(laid)
            parts.append(self.efforts.values(efforts, v))
        postures = self.posture @ X + self.start
        parts += [(self.gap - c.values(postures)) / self.reach for c in self.clearance]
        flat = np.concatenate([p.ravel() for p in parts])
        return At(value, slope, flat, tuple(parts), samples, blocks, efforts, v, postures)

    def gradient(self, at: At, multipliers: Array, worth: float = 1.0) -> Array:
        """Return the gradient of `Σ λ c − worth φ` by X, shape (u, d).

        Args:
            multipliers: λ of the flat constraints.
            worth: Weight of the criterion; 0 where only limits count.
        """
        shaped = at.split(multipliers)
        total = self.bounds.pull_back(shaped[0])
        seeds = self.rows.seeds(at.blocks, -worth * self.share * at.slope)
        by_v, rest = np.zeros_like(at.velocity), 1
        if self.efforts is not None:
            rest = 2
            if shaped[1].any():
                pushed, by_v = self.efforts.pull_back(at.efforts, at.velocity, shaped[1])
                seeds += pushed
        if worth or rest == 2:
            columns = self.rows.columns
            pulled = self.rows.plant.pull_back(at.samples, columns, np.moveaxis(seeds, 2, 0))
            for order, by in enumerate(pulled):
                total += self.sampled[order].T @ (by + by_v if order == 1 else by)
        for clearance, m in zip(self.clearance, shaped[rest:], strict=True):
            if m.any():
                total += self.posture.T @ clearance.pull_back(at.postures, -m / self.reach)
        return total

    def broken(self, at: At) -> list[Broken]:
        """Return each limit's most broken value, worst first."""
        excesses = worst(at.parts[0], self.bounds.labels())
        rest = 1
        if self.efforts is not None:
            excesses += worst(at.parts[1], self.efforts.labels())
            rest = 2
        for clearance, part in zip(self.clearance, at.parts[rest:], strict=True):
            excesses += worst(part, _pairs(clearance.names))
        return sorted(excesses, key=lambda b: -b.excess)


def _pairs(names: Sequence[str]) -> Iterator[Place]:
    for k, name in enumerate(names):
        yield "clearance", name, (slice(None), k)


def whitening_of(noise: Array) -> Array:
    """Return Σ^(-½): 1/σ of independent channels, the inverse Cholesky factor of a covariance.

    Args:
        noise: σ, shape (c,), or Σ, shape (c, c) [channel's unit, or its square].
    """
    if noise.ndim == 1:
        return 1.0 / noise
    return np.asarray(np.linalg.inv(np.linalg.cholesky(noise)))


def excitation_of(
    plant: Plant[Any],
    family: Family,
    limits: DesignLimits,
    criterion: Criterion,
    noise: Array,
    grids: Grids,
    row_rate: float | None = None,
) -> Excitation:
    """Return a design's problem without knowledge, its columns not scaled yet; see `scaled`.

    Args:
        plant: An excitable plant; its base parameters are what is to be known.
        noise: σ of each channel, or the channels' covariance [channel's unit, or its square].
        row_rate: Independent rows a second that will be recorded [Hz]; that of the grid's samples
            if not given. It says how much the new rows weigh beside what is known.
    """
    assert isinstance(plant, Excitable)
    base = structural_base(plant)
    names = tuple(c.name for c in plant.coordinates)
    duration = family.basis.duration
    time = np.linspace(0.0, duration, grids.samples)
    share = 1.0 if row_rate is None else row_rate * duration / grids.samples
    size = base.rank
    channels = [c.name for c in plant.channels]
    efforts = None
    if limits.effort is not None:
        efforts = EffortBounds.of(limits.effort, base.matrix, channels, grids.spare)
    return Excitation(
        Rows(plant, base.kept, whitening_of(noise), np.ones(size)),
        family,
        criterion,
        np.zeros((size, size)),
        share,
        np.array([family.matrix(time, k) for k in range(plant.derivatives + 1)]),
        BoundsOnGrid.of(limits.joints, family, names, grids.points, grids.spare),
        efforts,
        limits.clearance,
        family.matrix(np.linspace(0.0, duration, grids.postures)),
        gap=grids.gap,
    )


def scaled(problem: Excitation, motions: Sequence[Array]) -> Excitation:
    """Return the problem with columns divided by their usual length in some motions.

    Criteria that depend on units then count a parameter by what it does to torques.
    """
    total = np.zeros(len(problem.rows.columns))
    for X in motions:
        q, *others = problem.sampled @ X
        laid = problem.rows.laid(problem.rows.plant.samples_at(q + problem.start, *others))
        total += np.diag(problem.rows.information(problem.rows.blocks(laid)))
    lengths = np.sqrt(problem.share * total / max(len(motions), 1))
    scale = np.where(lengths > 0.0, lengths, 1.0)
    known = problem.known / np.outer(scale, scale)
    criterion = problem.criterion.in_columns(scale)
    rows = replace(problem.rows, scale=scale)
    return replace(problem, rows=rows, known=known, criterion=criterion)


def task_error(
    plant: Plant[Any],
    motion: tuple[Array, Array, Array],
    noise: Array,
    chosen: tuple[int, ...] | None = None,
) -> PredictedError:
    """Return the criterion of the predicted torque error on a motion of the user's own.

    Args:
        plant: An excitable plant.
        motion: q, v and a of the task, shape (N, d) each.
        noise: As for `excitation_of`.
        chosen: Base parameters whose errors count; all if None.
    """
    assert isinstance(plant, Excitable)
    columns = structural_base(plant).kept
    rows = Rows(plant, columns, whitening_of(noise), np.ones(len(columns)))
    laid = rows.laid(plant.samples_at(*motion))
    return PredictedError(rows.information(rows.blocks(laid)) / len(motion[0]), chosen)
