"""Consistent estimates without a block of rows, to first order of what binds.

Coefficients with a sign are solved for again, from the set that is positive in the estimate; a
pseudo-inertia on the boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array

from .consistent import Scaled
from .feasible_set import unstack
from .nonnegative import nonnegative

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
        # Those with a sign last: their problem is then the last columns of a triangle.
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

    def without(self, exchanges: int, least: float, inner: Array, score: Array) -> Array:
        """Return the step y to the estimate without a block.

        With W the block's rows in coordinates in which the information of all is 1, what is left
        is `Rᵀ (1 − WᵀW) R = AᵀA`, and A is triangular. So its last columns and rows are the
        problem of the coefficients with a sign, for whichever values of the others are best.

        Args:
            exchanges: Most exchanges of all coefficients that are wrong; see `nonnegative`.
            least: Share of the information in a direction that is left at least.
            inner: Of the block, shape (any, m).
            score: Of the block, shape (m,).
        """
        rows, first = self.rows, len(self.gradient) - len(self.signed)
        left = _left(scipy.linalg.solve_triangular(rows, inner.T, trans="T").T, least) @ rows
        if np.tril(left, -1).any():
            left = np.asarray(np.linalg.qr(left, mode="r"))
        right = -scipy.linalg.solve_triangular(left, self.gradient + score, trans="T")
        own, signed = left[:first, :first], left[first:, first:]
        moved = nonnegative(signed, right[first:] + signed @ self.room, self.room, exchanges)
        moved = moved - self.room
        others = right[:first] - left[:first, first:] @ moved
        return np.append(scipy.linalg.solve_triangular(own, others), moved)


def _left(inner: Array, least: float) -> Array:
    """Return a square root of `1 − WᵀW`, upper triangular where no direction has less than `least`.

    Args:
        inner: W, shape (any, m).
        least: Share that is left at least: less is raised to it.
    """
    left = np.eye(inner.shape[1]) - inner.T @ inner
    try:
        np.linalg.cholesky(left - least * np.eye(len(left)))
        return np.asarray(np.linalg.cholesky(left).T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(left)
        return np.asarray(np.sqrt(np.maximum(values, least))[:, None] * vectors.T)


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
