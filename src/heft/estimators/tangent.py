"""Consistent estimates without a block of rows, to first order of what binds.

Coefficients with a sign are solved for again, from the set that is positive in the estimate; a
pseudo-inertia on the boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

from heft.arrays import Array

from .consistent import Scaled
from .feasible_set import unstack
from .left_without import without

BINDING = 1e-6  # distance from a constraint, in scaled unknowns, at which it binds


@dataclass(frozen=True, eq=False)
class SparseMap:
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
    def of(matrix: Array) -> SparseMap:
        """Return a matrix, its zeros found."""
        known = matrix != 0.0
        alone = known.sum(axis=0) == 1
        single, others = np.flatnonzero(alone), np.flatnonzero(~alone)
        rows = np.nonzero(known[:, single].T)[1]
        held = np.flatnonzero(known[:, others].any(axis=1))
        dense = np.ascontiguousarray(matrix[np.ix_(held, others)])
        return SparseMap(single, rows, matrix[rows, single], others, held, dense)

    def after(self, rows: Array) -> Array:
        """Return `Y M` of Y, shape (..., m): shape (..., n)."""
        found = np.empty((*rows.shape[:-1], len(self.single) + len(self.others)))
        found[..., self.single] = rows[..., self.rows] * self.entries
        found[..., self.others] = rows[..., self.held] @ self.dense
        return found


@dataclass(frozen=True)
class Tangent:
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
    def of(scaled: Scaled, values: Array, margin: float) -> Tangent:
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
        return Tangent(
            scaled.back @ basis,
            rows,
            basis.T @ (scaled.factor[:-1, :-1].T @ left),
            np.arange(len(signed) - len(signs), len(signed)),
            np.maximum(unknown[signs], 0.0),
        )

    def without(self, rounds: int, least: float, inner: Array, score: Array) -> Array:
        """Return the step y to the estimate without a block.

        Of two coefficients one is positive and the gradient of the other does not fall: the
        complementary pair is found by exchanging all that are wrong, and one at a time once that
        does not help [Portugal1994].

        Args:
            rounds: Most exchanges.
            least: Share of the information in a direction that is left at least.
            inner: Of the block, shape (any, m).
            score: Of the block, shape (m,).
        """
        left = Without.of(least, self, inner)
        gradient = self.gradient + score
        signed, room = self.signed, self.room
        positive = room > 0.0
        best, patience = len(signed) + 1, 3
        step = np.zeros(len(gradient))
        scale = np.linalg.norm(self.rows[:, signed], axis=0)
        for _ in range(rounds):
            step = left.held(gradient, positive)
            slope = gradient[signed] + left.curved(step)[signed]
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
class Without:
    """What is left without one block, in coordinates in which the information of all is 1.

    Of the coordinates those of unknowns u without a sign come first and are the same whichever
    coefficients s are held at zero: with `R = [R_u R_us; 0 R_s]` and W the block's rows in them,
    `W_u = Y_u R_u⁻¹` and `W_s = (Y_s − W_u R_us) R_s⁻¹`, R_s being of the coefficients not held.
    What is left, `1 − WᵀW`, is factored with u eliminated first.

    Attributes:
        least: Share of the information in a direction that is left at least.
        tangent: Of the estimate of all.
        inner: Y, square root of the block's information about y, shape (any, m): of a drive's
            coefficients its own channel's rows alone.
        free: W_u, shape (any, u).
        signed: Y_s − W_u R_us, of all coefficients with a sign, shape (any, s).
        factors: For what is left, and for what is left less `least`: the Cholesky factor L of
            its part of u, and `L⁻¹ W_uᵀ (Y_s − W_u R_us)`; None where it is not positive definite.
    """

    least: float
    tangent: Tangent
    inner: csr_array
    free: Array
    signed: Array
    factors: tuple[tuple[Array, Array], ...] | None

    @staticmethod
    def of(least: float, tangent: Tangent, inner: Array) -> Without:
        """Return what is left without a block, rows Y about y given, shape (any, m)."""
        first = len(tangent.gradient) - len(tangent.signed)
        rows, factors = tangent.rows, []
        free = scipy.linalg.solve_triangular(rows[:first, :first], inner[:, :first].T, trans="T").T
        signed = inner[:, first:] - free @ rows[:first, first:]
        across = free.T @ signed
        left = np.eye(first) - free.T @ free
        try:
            for less in (0.0, least):
                lower = np.linalg.cholesky(left - less * np.eye(first))
                beside = scipy.linalg.solve_triangular(lower, across, lower=True)
                factors.append((lower, beside))
        except np.linalg.LinAlgError:
            return Without(least, tangent, csr_array(inner), free, signed, None)
        return Without(least, tangent, csr_array(inner), free, signed, tuple(factors))

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
        """Return `(1 − WᵀW)⁻¹` times the pull, of both kinds of unknowns; see `left_without`.

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
        whole = without(np.hstack([self.free, white]), np.append(pull, last), self.least)
        return whole[: len(pull)], whole[len(pull) :]

    def _corner(
        self, which: int, factor: Array, own: Array, positive: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Return `L⁻¹ W_uᵀ W_s` and the Cholesky factor of what is left once u is eliminated.

        Args:
            which: 0 for what is left, 1 for what is left less `least`.
            factor: R_s, shape (k, k).
            own: `1 − W_sᵀ W_s`, shape (k, k).
            positive: Which coefficients are not held.

        Raises:
            numpy.linalg.LinAlgError: If it is not positive definite.
        """
        assert self.factors is not None
        across = self.factors[which][1][:, positive].T
        beside = scipy.linalg.solve_triangular(factor, across, trans="T").T
        least = (0.0, self.least)[which]
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
