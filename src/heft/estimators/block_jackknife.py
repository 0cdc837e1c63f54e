"""Jackknife over contiguous blocks of the logs: what an estimate owes to any one part of them.

With `x_k` the estimate without block k of K, the covariance of the estimate is
`(K − 1)/K Σ_k (x_k − x̄)(x_k − x̄)ᵀ` [Kunsch1989]. It assumes nothing of the noise but that blocks
are long against its memory, and counts what no column describes as far as that differs from block
to block. Blocks are triangles that were summed anyway, so leaving one out needs no rows:
with R the triangle of all and `W_k = R_k R⁻¹`, the information without block k is
`Rᵀ(1 − W_kᵀ W_k)R`, formed in coordinates in which that of all is the identity.

Where constraints bind, the estimate without a block is the constrained one: coefficients with a
sign are solved for again, from the set that is positive in the estimate; a pseudo-inertia on the
boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

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

from .consistent import PhysicallyConsistent, Scaled
from .drive_gains import ConsistentFit
from .estimate import Estimate
from .feasible_set import unstack
from .left_without import LeftWithout

CHECKS: Keys = {"blocks": Number("there are too few or too many blocks", 2, 1000, whole=True)}
MANY = 500  # connected columns from which what is left without a block is taken as sparse
BINDING = 1e-6  # distance from a constraint, in scaled unknowns, at which it binds


@dataclass(frozen=True)
class Block:
    """A contiguous block of rows, as far as leaving it out needs it.

    Attributes:
        rows: Square root of its weighted information `Σ w² YᵀY`, shape (any, n). Empty for a
            block of an earlier experiment, of which only the score is kept: it is left out to
            first order.
        score: Its weighted score `Σ w² Yᵀ(τ − Y x)` at the estimate, shape (n,).
    """

    rows: Array
    score: Array

    def on(self, columns: NDArray[np.intp]) -> Array:
        """Return the rows that hold something of these columns, on them, shape (any, columns)."""
        own = self.rows[:, columns]
        return own[np.any(own != 0.0, axis=1)]

    @staticmethod
    def of(
        parts: Sequence[Information],
        weights: Sequence[float],
        values: Array,
        maps: Sequence[Array] | None = None,
        earlier: Sequence[Array] | None = None,
    ) -> list[Block]:
        """Return blocks on n unknowns x.

        Args:
            parts: Information of each block about β.
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
        for part in parts:
            seen = part if maps is None else _mapped(part, maps)
            # The channels' sum, whose rows are several times as few.
            total = seen.summed(dict(zip(seen.channels, weights, strict=True)))
            rows, right = total.rows_of_all()
            found.append(Block(rows, rows.T @ (right - rows @ values)))
        moments = [
            weights[c] ** 2 * (m if maps is None else m @ maps[c])
            for c, m in enumerate(earlier or ())
        ]
        scores = np.sum(moments, axis=0) if moments else np.zeros((0, len(values)))
        return found + [Block(np.zeros((0, len(values))), score) for score in scores]


def _is_identity(maps: Sequence[Array]) -> bool:
    """Return whether x is β, as it is where no gain of a drive is unsure."""
    alike = all(m is maps[0] for m in maps)
    return alike and np.array_equal(maps[0], np.eye(len(maps[0])))


def _mapped(part: Information, maps: Sequence[Array]) -> Information:
    """Return information about x, of which each channel knows its own map, shape (b, n)."""
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
        parts: Information of each block about β.
        values: β, shape (b,).
    """
    found = np.array([part.moments(values) for part in parts])
    return tuple(np.moveaxis(found, 1, 0))


@dataclass(frozen=True)
class Jackknife:
    """Block jackknife of base parameters and of physically consistent ones.

    Deviations D are returned as rows, with `DᵀD` the covariance.

    Attributes:
        blocks: Number K of blocks: enough for a deviation that is itself right to 1/√(2K), few
            enough that blocks are long against the residual's memory.
        least_left: Share of the information in a direction that is taken to be left without a
            block, at least. Where one block alone shows a direction, nothing is known without it,
            and its deviation would be infinite.
        rounds: Most exchanges between coefficients that are positive and those that are zero.

    Raises:
        InvalidSetting: If there are fewer than two blocks.
    """

    blocks: int = 12
    least_left: float = 0.1
    rounds: int = 60

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def of_base(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return deviations of the base parameters β, shape (K, b).

        Args:
            estimate: Of all rows, by least squares.
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
                right = inverse.pull(block.score[columns])
                moved[k, columns] = -inverse.push(self._without(inverse, block, right))
        return _centred(moved, size)

    def _of_all(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return the same, by a matrix of all columns that are connected."""
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
        """Return deviations of the physically consistent parameters x, shape (K, n).

        Args:
            solver: That found them.
            found: The estimate from all rows.
            blocks: On `found.space.matrix @ x`, of unit variance.
        """
        scaled = solver.scaled(found.triangle, found.space)
        values = found.consistent.parameters.values
        moved = np.zeros((len(blocks), len(values)))
        for own in scaled.limbs:
            tangent = _Tangent.of(scaled.part(own), values[own], solver.margin)
            columns = np.flatnonzero(np.any(found.space.matrix[:, own] != 0.0, axis=1))
            matrix = _Sparse.of(found.space.matrix[np.ix_(columns, own)] @ tangent.back)
            for k, block in enumerate(blocks):
                inner, score = matrix.after(block.on(columns)), matrix.after(block.score[columns])
                moved[k, own] = tangent.back @ tangent.without(self, inner, score)
        return _centred(moved, len(values))

    def without(self, inner: Array, right: Array) -> Array:
        """Return `(1 − WᵀW)⁻¹ y`, the information that is left bounded below.

        Args:
            inner: W, shape (any, n).
            right: y, shape (n,).
        """
        if not len(inner):
            return right
        left = np.eye(len(right)) - inner.T @ inner
        try:
            np.linalg.cholesky(left - self.least_left * np.eye(len(right)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(left)
            return np.asarray(vectors @ (right @ vectors / np.maximum(values, self.least_left)))
        return np.asarray(scipy.linalg.solve(left, right, assume_a="pos"))


def _centred(estimates: Array, size: int) -> Array:
    """Return estimates without a block each as deviations D with DᵀD their jackknife covariance."""
    count = len(estimates)
    if count < 2:
        return np.zeros((0, size))
    return np.asarray(np.sqrt((count - 1) / count) * (estimates - estimates.mean(axis=0)))


@dataclass(frozen=True, eq=False)
class _Sparse:
    """A matrix of shape (m, n) most of whose columns hold one entry, as those of drives do.

    Attributes:
        single: Positions of these columns.
        rows: Row of each one's entry.
        entries: The entries.
        others: Positions of the other columns, k of them.
        held: Rows that hold something of the others.
        dense: The others on these rows, shape (held, k).
    """

    single: NDArray[np.intp]
    rows: NDArray[np.intp]
    entries: Array
    others: NDArray[np.intp]
    held: NDArray[np.intp]
    dense: Array

    @staticmethod
    def of(matrix: Array) -> _Sparse:
        """Return a matrix, its zeros found."""
        known = matrix != 0.0
        alone = known.sum(axis=0) == 1
        single, others = np.flatnonzero(alone), np.flatnonzero(~alone)
        rows = np.argmax(known[:, single], axis=0)
        held = np.flatnonzero(known[:, others].any(axis=1))
        dense = np.ascontiguousarray(matrix[np.ix_(held, others)])
        return _Sparse(single, rows, matrix[rows, single], others, held, dense)

    def after(self, rows: Array) -> Array:
        """Return `Y M` of Y, shape (..., m): shape (..., n)."""
        found = np.empty((*rows.shape[:-1], len(self.single) + len(self.others)))
        found[..., self.single] = rows[..., self.rows] * self.entries
        found[..., self.others] = rows[..., self.held] @ self.dense
        return found


@dataclass(frozen=True)
class _Tangent:
    """Where the consistent estimate can go to first order: `x = x̂ + back @ y`, signs apart.

    Attributes:
        back: Of steps y, shape (n, m): scaled unknowns in the tangent of all that binds but signs.
        rows: Square root of the information of data and prior about y, triangular, shape (m, m).
        gradient: Of half the sum of squares at the estimate, shape (m,).
        signed: Positions in y of coefficients with a sign, the last of all.
        room: How far each of these may fall, shape (signed,).
    """

    back: Array
    rows: Array
    gradient: Array
    signed: NDArray[np.intp]
    room: Array

    @staticmethod
    def of(scaled: Scaled, values: Array, margin: float) -> _Tangent:
        """Return the tangent at the estimate x, shape (n,), of a solver's `margin`."""
        space = scaled.space
        bodies = 10 * len(space.groups)
        unknown = np.asarray(np.linalg.solve(scaled.back, values), dtype=np.float64)
        faces = _binding(scaled, unknown, margin)[:, :bodies]
        free = scipy.linalg.null_space(faces) if len(faces) else np.eye(bodies)
        basis = scipy.linalg.block_diag(free, np.eye(len(unknown) - bodies))
        signs = np.array(sorted(space.nonnegative), dtype=np.intp)
        signed = np.zeros(basis.shape[1], dtype=bool)
        signed[signs + free.shape[1] - bodies] = True
        # Those with a sign last: without some of them the triangle's other columns stay.
        basis = basis[:, np.append(np.flatnonzero(~signed), np.flatnonzero(signed))]
        rows = np.asarray(np.linalg.qr(scaled.factor[:-1, :-1] @ basis, mode="r"))
        left = scaled.factor[:-1, :-1] @ unknown - scaled.factor[:-1, -1]
        return _Tangent(
            scaled.back @ basis,
            rows,
            basis.T @ (scaled.factor[:-1, :-1].T @ left),
            np.arange(len(signed) - len(signs), len(signed)),
            np.maximum(unknown[signs], 0.0),
        )

    def without(self, jackknife: Jackknife, inner: Array, score: Array) -> Array:
        """Return the step y to the estimate without a block.

        Of two coefficients one is positive and the gradient of the other does not fall: the
        complementary pair is found by exchanging all that are wrong, and one at a time once that
        does not help [Portugal1994].

        Args:
            jackknife: Settings.
            inner: Of the block, shape (any, m).
            score: Of the block, shape (m,).
        """
        without = _Without.of(jackknife, self, inner)
        gradient = self.gradient + score
        signed, room = self.signed, self.room
        positive = room > 0.0
        best, patience = len(signed) + 1, 3
        step = np.zeros(len(gradient))
        scale = np.linalg.norm(self.rows[:, signed], axis=0)
        for _ in range(jackknife.rounds):
            step = without.held(gradient, positive)
            slope = gradient[signed] + without.curved(step)[signed]
            below = positive & (step[signed] < -room)
            falling = ~positive & (slope < -BINDING * scale)
            wrong = np.flatnonzero(below | falling)
            if not len(wrong):
                break
            if len(wrong) < best:
                best, patience = len(wrong), 3
            else:
                patience -= 1
            exchanged = wrong if patience > 0 else wrong[-1:]
            positive[exchanged] = ~positive[exchanged]
        step[signed] = np.maximum(step[signed], -room)
        return step


@dataclass(frozen=True, eq=False)
class _Without:
    """What is left without one block, in coordinates in which the information of all is 1.

    Of the coordinates those of unknowns u without a sign come first and are the same whichever
    coefficients s are held at zero: with `R = [R_u R_us; 0 R_s]` and W the block's rows in them,
    `W_u = Y_u R_u⁻¹` and `W_s = (Y_s − W_u R_us) R_s⁻¹`, R_s being of the coefficients not held.
    What is left, `1 − WᵀW`, is factored with u eliminated first.

    Attributes:
        jackknife: Settings.
        tangent: Of the estimate of all.
        inner: Y, square root of the block's information about y, shape (any, m): of a drive's
            coefficients its own channel's rows alone.
        free: W_u, shape (any, u).
        signed: Y_s − W_u R_us, of all coefficients with a sign, shape (any, s).
        factors: For what is left, and for what is left less `least_left`: the Cholesky factor L of
            its part of u, and `L⁻¹ W_uᵀ (Y_s − W_u R_us)`; None where it is not positive definite.
    """

    jackknife: Jackknife
    tangent: _Tangent
    inner: csr_array
    free: Array
    signed: Array
    factors: tuple[tuple[Array, Array], ...] | None

    @staticmethod
    def of(jackknife: Jackknife, tangent: _Tangent, inner: Array) -> _Without:
        """Return what is left without a block, rows Y about y given, shape (any, m)."""
        first = len(tangent.gradient) - len(tangent.signed)
        rows, factors = tangent.rows, []
        free = scipy.linalg.solve_triangular(rows[:first, :first], inner[:, :first].T, trans="T").T
        signed = inner[:, first:] - free @ rows[:first, first:]
        across = free.T @ signed
        left = np.eye(first) - free.T @ free
        try:
            for least in (0.0, jackknife.least_left):
                lower = np.linalg.cholesky(left - least * np.eye(first))
                beside = scipy.linalg.solve_triangular(lower, across, lower=True)
                factors.append((lower, beside))
        except np.linalg.LinAlgError:
            return _Without(jackknife, tangent, csr_array(inner), free, signed, None)
        return _Without(jackknife, tangent, csr_array(inner), free, signed, tuple(factors))

    def curved(self, step: Array) -> Array:
        """Return the change of the gradient by a step y, shape (m,)."""
        rows, inner = self.tangent.rows, self.inner
        moved = np.flatnonzero(step)
        few = 2 * len(moved) < len(step)
        whole = rows[:, moved] @ step[moved] if few else rows @ step
        return np.asarray(rows.T @ whole - inner.T @ (inner @ step))

    def held(self, gradient: Array, positive: NDArray[np.bool_]) -> Array:
        """Return the step with coefficients that are not positive held at zero, shape (m,)."""
        tangent = self.tangent
        step = np.zeros(len(gradient))
        zero = tangent.signed[~positive]
        step[zero] = -tangent.room[~positive]
        moved = np.ones(len(step), dtype=bool)
        moved[zero] = False
        right = (gradient + self.curved(step) if step.any() else gradient)[moved]
        first = len(step) - len(tangent.signed)
        own, across = tangent.rows[:first, :first], tangent.rows[:first, first:][:, positive]
        signed = tangent.rows[first:, first:][:, positive]
        factor = np.asarray(np.linalg.qr(signed, mode="r"))
        pull = scipy.linalg.solve_triangular(own, right[:first], trans="T")
        last = scipy.linalg.solve_triangular(factor, right[first:] - across.T @ pull, trans="T")
        white = scipy.linalg.solve_triangular(factor, self.signed[:, positive].T, trans="T").T
        left, left_last = self._solved(pull, last, factor, white, positive)
        ahead = scipy.linalg.solve_triangular(factor, left_last)
        step[moved] = -np.append(scipy.linalg.solve_triangular(own, left - across @ ahead), ahead)
        return step

    def _solved(
        self, pull: Array, last: Array, factor: Array, white: Array, positive: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Return `(1 − WᵀW)⁻¹` times the pull, of both kinds of unknowns; see `Jackknife.without`.

        Args:
            pull: Of unknowns without a sign, shape (u,).
            last: Of coefficients that are not held, shape (k,).
            factor: R_s, shape (k, k).
            white: W_s, shape (any, k).
            positive: Which coefficients are not held.
        """
        if self.factors is not None:
            own = np.eye(len(last)) - white.T @ white
            try:
                found = [self._corner(k, factor, own, positive) for k in (1, 0)]
            except np.linalg.LinAlgError:
                pass
            else:
                (beside, corner), (lower, _) = found[1], self.factors[0]
                ahead = scipy.linalg.solve_triangular(lower, pull, lower=True)
                behind = scipy.linalg.cho_solve((corner, True), last + beside.T @ ahead)
                both = ahead + beside @ behind
                return scipy.linalg.solve_triangular(lower, both, lower=True, trans="T"), behind
        whole = self.jackknife.without(np.hstack([self.free, white]), np.append(pull, last))
        return whole[: len(pull)], whole[len(pull) :]

    def _corner(
        self, which: int, factor: Array, own: Array, positive: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Return `L⁻¹ W_uᵀ W_s` and the Cholesky factor of what is left once u is eliminated.

        Args:
            which: 0 for what is left, 1 for what is left less `least_left`.
            factor: R_s, shape (k, k).
            own: `1 − W_sᵀ W_s`, shape (k, k).
            positive: Which coefficients are not held.

        Raises:
            numpy.linalg.LinAlgError: If it is not positive definite.
        """
        assert self.factors is not None
        across = self.factors[which][1][:, positive].T
        beside = scipy.linalg.solve_triangular(factor, across, trans="T").T
        least = (0.0, self.jackknife.least_left)[which]
        left = own - beside.T @ beside - least * np.eye(len(own))
        return beside, np.linalg.cholesky(left)


def _binding(scaled: Scaled, unknown: Array, margin: float) -> Array:
    """Return rows of the constraints that bind, but signs, on the scaled unknowns: shape (k, n)."""
    space, constraints = scaled.space, scaled.constraints
    rows = []
    signs = len(space.nonnegative)
    slack = constraints.rows @ unknown - constraints.least
    for k in range(signs, len(slack)):
        if constraints.equal[k] or slack[k] < BINDING:
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
