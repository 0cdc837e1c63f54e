"""Jackknife over contiguous blocks of the logs: what an estimate owes to any one part of them.

With `x_k` the estimate without block k of K, the covariance of the estimate is
`(K − 1)/K Σ_k (x_k − x̄)(x_k − x̄)ᵀ` [Kunsch1989]. It assumes nothing of the noise but that blocks
are long against its memory, and counts what no column describes as far as that differs from block
to block. Blocks are triangles that were summed anyway, so leaving one out needs no rows:
with R the triangle of all and `W_k = R_k R⁻¹`, the information without block k is
`Rᵀ(1 − W_kᵀ W_k)R`, formed in coordinates in which that of all is the identity.

Where constraints bind, the estimate without a block is the constrained one; see `tangent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.files import Keys, Number, check_fields
from heft.information import (
    BorderedInverse,
    Directions,
    Information,
    Labels,
    components,
    inverses,
)

from .consistent import PhysicallyConsistent
from .drive_gains import ConsistentFit
from .estimate import Estimate
from .left_without import MANY, LeftWithout, without
from .tangent import SparseMap, Tangent

CHECKS: Keys = {"blocks": Number("there are too few or too many blocks", 2, 1000, whole=True)}


@dataclass(frozen=True)
class Block:
    """Information and score of a contiguous block of rows, for leaving it out."""

    # square root of its weighted information `Σ w² YᵀY`: columns of each component, and rows on
    # them. None for a block of an earlier experiment, of which only the score is kept: it is left
    # out to first order
    parts: tuple[tuple[NDArray[np.intp], Array], ...]
    score: Array  # its weighted score `Σ w² Yᵀ(τ − Y x)` at the estimate, shape (n,)

    def on(self, columns: NDArray[np.intp]) -> Array:
        """Return the rows that are not zero on these columns, shape (any, columns)."""
        place = np.full(len(self.score), -1)
        place[columns] = np.arange(len(columns))
        found = [np.zeros((0, len(columns)))]
        for known, rows in self.parts:
            at = place[known]
            if (at >= 0).any():
                wide = np.zeros((len(rows), len(columns)))
                wide[:, at[at >= 0]] = rows if (at >= 0).all() else rows[:, at >= 0]
                found.append(wide[wide.any(axis=1)])
        return found[-1] if len(found) == 2 else np.vstack(found)

    @staticmethod
    def of(
        information: Sequence[Information],
        weights: Sequence[float],
        values: Array,
        maps: Sequence[Array] | None = None,
        earlier: Sequence[Array] | None = None,
    ) -> list[Block]:
        """Return blocks on n unknowns x.

        Args:
            weights: w of each channel's rows [1 / channel's unit].
            values: x, shape (n,).
            maps: T of each channel, whose regressor of x is Y T, shape (b, n); the identity if
                not given.
            earlier: For each channel the moments `Yᵀ(τ − Y β)` of blocks of earlier experiments,
                shape (blocks, b).
        """
        found = []
        if maps is not None and _is_identity(maps):
            maps = None
        for part in information:
            seen = part if maps is None else _mapped(part, maps)
            # The channels' sum, whose rows are several times as few.
            total = seen.summed(dict(zip(seen.channels, weights, strict=True)))
            parts, score = [], np.zeros(len(values))
            for columns, whole in total.rows_of_each():
                rows, right = whole[:, :-1], whole[:, -1]
                parts.append((columns, rows))
                score[columns] = rows.T @ (right - rows @ values[columns])
            found.append(Block(tuple(parts), score))
        moments = [
            weights[c] ** 2 * (m if maps is None else m @ maps[c])
            for c, m in enumerate(earlier or ())
        ]
        scores = np.sum(moments, axis=0) if moments else np.zeros((0, len(values)))
        return found + [Block((), score) for score in scores]


def _is_identity(maps: Sequence[Array]) -> bool:
    """Return whether x is β, as it is where no gain of a drive is unsure."""
    alike = all(m is maps[0] for m in maps)
    return alike and np.array_equal(maps[0], np.eye(len(maps[0])))


def _mapped(part: Information, maps: Sequence[Array]) -> Information:
    """Return information about x, with each channel's map from x to β, shape (b, n)."""
    size = maps[0].shape[1]
    labels = Labels(tuple(map(str, range(size))), ("1",) * size)
    triangles = []
    for channel, triangle, own in zip(part.channels, part.triangles, maps, strict=True):
        alone = Information(part.labels, (channel,), (triangle,))
        triangles.append(alone.transformed(own, labels).triangles[0])
    return Information(labels, part.channels, tuple(triangles))


def block_moments(parts: Sequence[Information], values: Array) -> tuple[Array, ...]:
    """Return for each channel the moments `Yᵀ(τ − Y β)` of all blocks, shape (blocks, b).

    Args:
        values: β, shape (b,).
    """
    found = np.array([part.moments(values) for part in parts])
    return tuple(np.moveaxis(found, 1, 0))


@dataclass(frozen=True)
class Jackknife:
    """Block jackknife of base parameters and of physically consistent ones.

    Deviations D are returned as rows, with `DᵀD` the covariance.

    Raises:
        InvalidSetting: If there are fewer than two blocks.
    """

    # number K of blocks: enough for a deviation that is itself right to 1/√(2K), few enough that
    # blocks are long against the residual's memory
    blocks: int = 12
    # share of the information in a direction that is taken to be left without a block, at least.
    # Where one block alone shows a direction, nothing is known without it, and its deviation would
    # be infinite
    least_left: float = 0.1
    # most exchanges of all coefficients that are wrongly zero or positive, before they move one at
    # a time; see `nonnegative`
    rounds: int = 12

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def of_base(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return jackknife deviations D of the base parameters β, shape (K, b).

        Args:
            blocks: On β, with the weights of the fit.
        """
        total = estimate.information.summed(estimate.fitted_with)
        found = inverses(total)
        size = total.size
        if found is None or all(len(g.columns) < MANY or not g.corners for g in found):
            return self._of_all(estimate, blocks)
        moved = np.zeros((len(blocks), size))
        for inverse in found:
            columns = inverse.columns
            for k, block in enumerate(blocks):
                right = inverse.times(block.score[columns])
                moved[k, columns] = -inverse.back(self._without(inverse, block, right))
        return _centred(moved, size)

    def _of_all(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return `of_base` by a dense matrix of each set of connected columns."""
        triangle = estimate.information.combined(estimate.fitted_with)
        inverse = Directions.of(triangle.R, triangle.rows).covariance_factor
        moved = np.zeros((len(blocks), len(inverse)))
        for part in components(inverse):
            own = part.of(inverse)
            for k, block in enumerate(blocks):
                inner = block.on(part.rows) @ own
                moved[k, part.rows] = -own @ self.without(inner, block.score[part.rows] @ own)
        return _centred(moved, len(inverse))

    def _without(self, inverse: BorderedInverse, block: Block, right: Array) -> Array:
        """Return `without` of a block in coordinates in which a component's information is 1."""
        rows = block.on(inverse.columns)
        if not len(rows):
            return right
        if len(right) >= MANY and inverse.corners:
            left = LeftWithout.of(inverse, rows)
            found = None if left is None else left.solution(right, self.least_left)
            if found is not None:
                return found
        return self.without(inverse.times(rows), right)

    def of_consistent(
        self, solver: PhysicallyConsistent, found: ConsistentFit, blocks: Sequence[Block]
    ) -> Array:
        """Return jackknife deviations D of the physically consistent parameters x, shape (K, n).

        Args:
            blocks: On `found.space.matrix @ x`, of unit variance.
        """
        scaled = solver.scaled(found.total, found.space)
        values = found.consistent.parameters.values
        moved = np.zeros((len(blocks), len(values)))
        for own in scaled.limbs:
            tangent = Tangent.of(scaled.part(own), values[own], solver.margin)
            columns = np.flatnonzero(np.any(found.space.matrix[:, own] != 0.0, axis=1))
            matrix = SparseMap.of(found.space.matrix[np.ix_(columns, own)] @ tangent.back)
            each = (
                (matrix.after(block.on(columns)), matrix.after(block.score[columns]))
                for block in blocks
            )
            for k, step in enumerate(tangent.without(self.rounds, self.least_left, each)):
                moved[k, own] = tangent.back @ step
        return _centred(moved, len(values))

    def without(self, inner: Array, right: Array) -> Array:
        """Return `(1 − WᵀW)⁻¹ y`, the information that is left bounded below.

        Args:
            inner: W, shape (any, n).
            right: y, shape (n,).
        """
        return without(inner, right, self.least_left)


def _centred(estimates: Array, size: int) -> Array:
    """Return estimates without one block each as deviations D, DᵀD their jackknife covariance."""
    count = len(estimates)
    if count < 2:
        return np.zeros((0, size))
    return np.asarray(np.sqrt((count - 1) / count) * (estimates - estimates.mean(axis=0)))
