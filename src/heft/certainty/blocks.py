"""Blocks left out: what an estimate owes to any one contiguous part of the logs.

With `x_k` the estimate without block k of K, the covariance of the estimate is
`(K − 1)/K Σ_k (x_k − x̄)(x_k − x̄)ᵀ` [Kunsch1989]. It assumes nothing of the noise but that blocks
are long against its memory, and counts what no column describes as far as that differs from block
to block. Blocks are triangles that were summed anyway, so leaving one out needs no rows:
with R the triangle of all and `W_k = R_k R⁻¹`, the information without block k is
`Rᵀ(1 − W_kᵀ W_k)R`, formed in coordinates in which that of all is the identity.

Where constraints bind, the estimate without a block is the constrained one, to first order of what
binds: coefficients with a sign are solved for again, from the set that is positive in the estimate,
and a pseudo-inertia on the boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import (
    FALLING,
    ConsistentFit,
    Estimate,
    PhysicallyConsistent,
    Scaled,
    inverse_of,
    nonnegative,
    unstack,
)
from heft.files import Keys, Number, check_fields
from heft.information import (
    Arrow,
    Bordered,
    BorderedInverse,
    ChannelRows,
    Directions,
    Information,
    Labels,
    Summed,
    components,
    inverses,
    sparse,
)


@dataclass(frozen=True)
class Block:
    """Information and score of a contiguous block of rows, for leaving it out."""

    # square root of its weighted information `Σ w² YᵀY` in sets of rows, each on its columns. None
    # for a block of an earlier experiment, of which only the score is kept: it is left out to first
    # order
    sets: tuple[ChannelRows, ...]
    score: Array  # its weighted score `Σ w² Yᵀ(τ − Y x)` at the estimate, shape (n,)

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
            maps: T of each channel, whose regressor of x is Y T, shape (b, n); the identity if
                not given.
            earlier: For each channel the moments `Yᵀ(τ − Y β)` of blocks of earlier experiments,
                shape (blocks, b).
        """
        blocks = []
        for part in information:
            seen = part if maps is None else _mapped(part, maps)
            # The channels' sum, whose rows are several times as few.
            total = seen.summed(dict(zip(seen.channels, weights, strict=True)))
            sets, score = [], np.zeros(len(values))
            for rows, right in (own for part in total.parts for own in part.sets()):
                sets.append(rows)
                off = right - rows.values @ values[rows.columns]
                score[rows.columns] += rows.values.T @ off
            blocks.append(Block(tuple(sets), score))
        moments = [
            weights[c] ** 2 * (m if maps is None else m @ maps[c])
            for c, m in enumerate(earlier or ())
        ]
        scores = np.sum(moments, axis=0) if moments else np.zeros((0, len(values)))
        return blocks + [Block((), score) for score in scores]


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
    """Return for each channel the moments `Yᵀ(τ − Y β)` of all blocks, shape (blocks, b)."""
    moments = np.array([part.moments(values) for part in parts])
    return tuple(np.moveaxis(moments, 1, 0))


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
        checks: Keys = {
            "blocks": Number("there are too few or too many blocks", 2, 1000, whole=True)
        }
        check_fields(self, checks)

    def of_base(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return jackknife deviations D, (K, b), of β from blocks on β with the fit's weights."""
        total = estimate.information.summed(estimate.fitted_with)
        moved = np.zeros((len(blocks), total.size))
        for inverse in inverses_of(total):
            own, place = inverse.columns, np.full(total.size, -1)
            place[own] = np.arange(len(own))
            for k, block in enumerate(blocks):
                remaining = Left.of(inverse.gram(list(_among(block.sets, place))), self.least_left)
                moved[k, own] = -inverse.back(remaining.solution(inverse.times(block.score[own])))
        return _centred(moved)

    def of_consistent(
        self, solver: PhysicallyConsistent, found: ConsistentFit, blocks: Sequence[Block]
    ) -> Array:
        """Return jackknife deviations D, (K, n), of consistent x from unit-variance blocks on β."""
        scaled = solver.scaled(found.total, found.space)
        values = found.consistent.parameters.values
        moved = np.zeros((len(blocks), len(values)))
        for own in scaled.limbs:
            tangent = Tangent.of(scaled.part(own), values[own], solver.margin)
            onto = found.space.sparse_matrix[:, own] @ tangent.back
            each = [(tangent.mapped(k.sets, onto), k.score @ onto) for k in blocks]
            for k, step in enumerate(tangent.without(self.rounds, self.least_left, each)):
                moved[k, own] = tangent.back @ step
        return _centred(moved)


def inverses_of(total: Summed) -> Iterable[BorderedInverse]:
    """Return G of each component of a sum; filled with zeros where columns depend on others."""
    return inverses(total) or _of_directions(total)


def _of_directions(total: Summed) -> Iterator[BorderedInverse]:
    triangle = total.triangle()
    inverse = Directions.of(triangle.R, triangle.rows).covariance_factor
    for part in components(inverse):
        own = np.zeros((len(part.rows),) * 2)
        own[:, : len(part.columns)] = part.of(inverse)
        yield BorderedInverse(part.rows, (), np.arange(len(own)), own)


def _among(sets: Iterable[ChannelRows], place: NDArray[np.intp]) -> Iterator[ChannelRows]:
    """Yield sets of rows on some of the unknowns, which have a `place`, others -1, shape (n,)."""
    for rows in sets:
        at = place[rows.columns]
        if (at >= 0).any():
            mine = rows.values if (at >= 0).all() else rows.values[:, at >= 0]
            yield ChannelRows(at[at >= 0], mine)


def _centred(estimates: Array) -> Array:
    """Return estimates without one block each as deviations D, DᵀD their jackknife covariance."""
    count = len(estimates)
    if count < 2:
        return estimates[:0]
    return np.asarray(np.sqrt((count - 1) / count) * (estimates - estimates.mean(axis=0)))


@dataclass(frozen=True, eq=False)
class Left:
    """Information without a block, `1 − WᵀW`, its eigenvalues raised to a least value."""

    matrix: Arrow  # before they are raised, shape (n, n)
    values: Array  # smaller eigenvalues, shape (k,)
    vectors: Array  # their eigenvectors, shape (n, k)
    least: float

    @staticmethod
    def of(block: Arrow, least: float) -> Left:
        """Return the information without a block, of which `block` is WᵀW."""
        matrix, size = block.taken_from(1.0), len(block.order)
        if block.taken_from(1.0 - least).factor is not None:
            return Left(matrix, np.zeros(0), np.zeros((size, 0)), least)
        values, vectors = _low(matrix, least) or scipy.linalg.eigh(
            matrix.dense(), subset_by_value=(-np.inf, least)
        )
        return Left(matrix, values, vectors, least)

    def times(self, right: Array) -> Array:
        """Return `M x`, M the raised matrix and x of shape (n, any)."""
        lifted = (self.vectors * (self.least - self.values)) @ (self.vectors.T @ right)
        return self.matrix.times(right) + lifted

    def solution(self, right: Array) -> Array:
        """Return x with `M x = y`, y of shape (n, any)."""
        if self.matrix.factor is None or self.values.min(initial=1.0) < 1e-12:
            whole = self.times(np.eye(len(right)))
            return np.asarray(scipy.linalg.solve(whole, right, assume_a="pos"))
        within = self.vectors.T @ right
        rest = self.matrix.solved(right - self.vectors @ within)
        return rest + self.vectors @ (within / self.least - self.vectors.T @ rest)


def _low(matrix: Arrow, least: float) -> tuple[Array, Array] | None:
    """Return eigenvalues below a number, shape (k,), and their vectors, (n, k).

    They are found in a block Krylov space; None if they are not, or if the matrix is small.
    """
    size = len(matrix.order)
    if size < 300 or matrix.factor is None:
        return None
    new = np.random.default_rng(0).standard_normal((size, 8))
    basis, solved = np.zeros((2, size, 24 * 8), order="F")
    for first in range(0, basis.shape[1], 8):
        own, last = slice(first, first + 8), first + 8
        for _ in range(2):  # once more, for what rounding left
            before = basis[:, :first]
            new = np.linalg.qr(new - before @ (before.T @ new))[0]
        basis[:, own] = new
        solved[:, own] = new = matrix.solved(new)
        if last >= 64 and last % 16 == 0:  # before, some may not have come up
            highest, turn = np.linalg.eigh(basis[:, :last].T @ solved[:, :last])
            low = highest > 1.0 / least
            values, vectors = 1.0 / highest[low], basis[:, :last] @ turn[:, low]
            off = np.linalg.norm(matrix.times(vectors) - vectors * values, axis=0)
            if off.max(initial=0.0) < 1e-9:
                return values, vectors
    return None


@dataclass(frozen=True, eq=False)
class Tangent:
    """First-order moves of the consistent estimate: `x = x̂ + back @ y`, signs apart.

    Of steps y those of the bodies come first, k of them, in the tangent of all that binds them.
    """

    back: Array  # shape (n, m)
    # information of data and prior about y: what each drive alone holds, and the bodies
    total: Bordered
    gradient: Array  # of half the sum of squares at the estimate, shape (m,)
    signed: NDArray[np.intp]  # positions in y of coefficients with a sign, ascending
    room: Array  # how far each of these may fall, shape (signed,)

    @staticmethod
    def of(scaled: Scaled, values: Array, margin: float) -> Tangent:
        """Return the tangent at the estimate x, shape (n,), of a solver's `margin`."""
        space, triangle = scaled.space, scaled.triangle
        bodies = 10 * len(space.groups)
        unknown = values * scaled.scale
        unknown[:bodies] = np.linalg.solve(scaled.metric, unknown[:bodies])
        faces = _binding(scaled, unknown, margin)[:, :bodies]
        free = scipy.linalg.null_space(faces) if len(faces) else np.eye(bodies)
        size = free.shape[1] + len(unknown) - bodies
        fewer = bodies - free.shape[1]
        total = triangle.seen_through(free)
        residual = scaled.factor[:-1, :-1] @ unknown - scaled.factor[:-1, -1]
        steep = scaled.factor[:-1, :-1].T @ residual
        back = np.zeros((len(unknown), size))
        back[:bodies, : free.shape[1]] = scaled.metric @ free
        back[bodies:, free.shape[1] :] = np.diag(1.0 / scaled.scale[bodies:])
        signs = np.array(sorted(space.nonnegative), dtype=np.intp)
        return Tangent(
            back,
            total,
            np.append(free.T @ steep[:bodies], steep[bodies:]),
            signs - fewer,
            np.maximum(unknown[signs], 0.0),
        )

    def mapped(self, sets: Iterable[ChannelRows], onto: Array) -> list[ChannelRows]:
        """Return sets of rows on y, x being `onto @ y`, on columns that are not rounding."""
        least, mapped = len(onto.T) * np.finfo(float).eps * self.total.lengths, []
        for rows in sets:
            matrix = onto[rows.columns]
            seen = np.flatnonzero(matrix.any(axis=0))
            values = rows.values @ matrix[:, seen]
            real = np.linalg.norm(values, axis=0) > least[seen]
            if real.any():
                mapped.append(ChannelRows(seen[real], values if real.all() else values[:, real]))
        return mapped

    @cached_property
    def rows(self) -> Any:
        """Root of the information `total`, a row at each unknown's place, sparse, shape (m, m)."""
        return sparse(self.total.placed()[:-1, :-1])

    def among(self, positive: NDArray[np.bool_]) -> Among:
        """Return the steps with all coefficients with a sign held at zero but some, `positive`."""
        kept = np.ones(len(self.gradient), dtype=bool)
        kept[self.signed[~positive]] = False
        columns, place = np.flatnonzero(kept), np.cumsum(kept) - 1
        signed = place[self.signed[positive]]
        inverse = inverse_of(self.total.only(columns))
        return Among(columns, inverse, signed, self.room[positive])

    def without(
        self, exchanges: int, least: float, blocks: Iterable[tuple[Sequence[ChannelRows], Array]]
    ) -> Iterator[Array]:
        """Yield the step y to the estimate without each of some blocks, shape (m,).

        Most coefficients with a sign are zero, with a block and without it. The others are solved
        for, and those along which the sum of squares then falls join them.

        Args:
            exchanges: Most exchanges of all coefficients that are wrong; see `nonnegative`.
            least: Share of the information in a direction that is left at least.
            blocks: Rows on some of y, and score, shape (m,), of each.

        Raises:
            LinAlgError: If the information does not determine y.
        """
        inverse, rows = inverse_of(self.total), self.rows
        positive = self.room > 0.0
        among = self.among(positive)
        lengths = self.total.lengths[self.signed]
        for sets, score in blocks:
            remaining = Left.of(inverse.gram(sets), least)
            steep = self.gradient + score
            raised = (rows.T @ remaining.vectors).T
            while True:
                step, height = among.step(exchanges, sets, remaining, raised, steep)
                moved = np.zeros(len(steep))
                moved[among.columns] = step
                slopes = (steep + rows.T @ remaining.times(rows @ moved))[self.signed]
                falling = ~positive & (slopes < -FALLING * height * lengths)
                if not falling.any():
                    break
                positive = positive | falling
                among = self.among(positive)
            yield moved


@dataclass(frozen=True, eq=False)
class Among:
    """Steps of some of the unknowns, the others staying where they are."""

    columns: NDArray[np.intp]  # their positions, ascending, shape (a,)
    inverse: BorderedInverse  # G with G Gᵀ the inverse information of data and prior about them
    signed: NDArray[np.intp]  # positions among them of the coefficients with a sign
    room: Array  # how far each of these may fall, shape (signed,)

    @cached_property
    def of_signed(self) -> Array:
        """Rows of G of the coefficients with a sign, shape (signed, a)."""
        return self.inverse.times(np.eye(len(self.columns))[self.signed])

    def step(
        self,
        exchanges: int,
        sets: Sequence[ChannelRows],
        rest: Left,
        raised: Array,
        steep: Array,
    ) -> tuple[Array, float]:
        """Return the step to the least sum of squares without a block, and its right side's length.

        In coordinates in which the information of all is 1 it is `M = CᵀC` without the block, and
        `G M⁻¹ Gᵀ` is the covariance. That of the coefficients with a sign is `FᵀF`, so that `F⁻ᵀ`
        is their problem for whichever values of the others are best.

        Args:
            sets: Rows of the block on some of all unknowns.
            rest: What is left without it, of all unknowns.
            raised: Its raised directions, in units of all unknowns, shape (k, m).
            steep: Derivative of half the sum of squares without the block by all, shape (m,).
        """
        place = np.full(len(steep), -1)
        place[self.columns] = np.arange(len(self.columns))
        information = self.inverse.gram(list(_among(sets, place))).taken_from(1.0).dense()
        lifted = self.inverse.times(raised[:, self.columns])
        information += (lifted.T * (rest.least - rest.values)) @ lifted
        C = np.asarray(np.linalg.cholesky(information).T, dtype=np.float64)
        right = -_back(C, self.inverse.times(steep[self.columns]))
        height = float(np.linalg.norm(right))
        across, F = np.linalg.qr(_back(C, self.of_signed.T))
        free = across.T @ right
        inverse = scipy.linalg.solve_triangular(F, np.eye(len(F)), trans="T")
        moved = nonnegative(inverse, free + inverse @ self.room, self.room, exchanges) - self.room
        right += across @ (inverse @ moved - free)
        return self.inverse.back(scipy.linalg.solve_triangular(C, right)), height


def _back(triangle: Array, right: Array) -> Array:
    """Return R⁻ᵀ of right-hand sides."""
    return np.asarray(scipy.linalg.solve_triangular(triangle, right, trans="T", check_finite=False))


def _binding(scaled: Scaled, unknown: Array, margin: float) -> Array:
    """Return rows of the constraints that bind, but signs, on the scaled unknowns: shape (k, n)."""
    space, constraints = scaled.space, scaled.constraints
    rows = []
    signs = len(space.nonnegative)
    slack = constraints.rows @ unknown - constraints.least
    for k in range(signs, len(slack)):
        if constraints.equal[k] or slack[k] < 1e-6:  # so close, in scaled unknowns, it binds
            rows.append(constraints.rows[k])
    units = unstack(np.eye(10))
    for first in range(0, 10 * len(space.groups), 10):
        values, vectors = np.linalg.eigh(unstack(unknown[first : first + 10]))
        face = vectors[:, values < 2.0 * margin]
        for i in range(face.shape[1]):
            for j in range(i + 1):
                row = np.zeros(len(unknown))
                row[first : first + 10] = np.einsum("a,kab,b->k", face[:, i], units, face[:, j])
                rows.append(row)
    return np.array(rows).reshape(-1, len(unknown))
