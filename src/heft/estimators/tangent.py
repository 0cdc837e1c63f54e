"""Consistent estimates without a block of rows, to first order of what binds.

Coefficients with a sign are solved for again, from the set that is positive in the estimate; a
pseudo-inertia on the boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import Bordered

from .consistent import Scaled
from .feasible_set import unstack
from .left_without import Left
from .nonnegative import FALLING, nonnegative

BINDING = 1e-6  # distance from a constraint, in scaled unknowns, at which it binds


@dataclass(frozen=True, eq=False)
class SparseMap:
    """A matrix of shape (m, n) most of whose columns hold one entry, as those of drives do."""

    single: NDArray[np.intp]  # positions of these columns
    rows: NDArray[np.intp]  # row of each one's entry
    entries: Array  # the entries
    others: NDArray[np.intp]  # positions of the other columns, k of them
    held: NDArray[np.intp]  # rows that hold something of the others
    dense: Array  # the others on these rows, shape (held, k)

    @staticmethod
    def of(matrix: Array) -> SparseMap:
        """Return the map of a full matrix."""
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
        unknown[:bodies] = np.linalg.solve(scaled.metric[:bodies, :bodies], unknown[:bodies])
        faces = _binding(scaled, unknown, margin)[:, :bodies]
        free = scipy.linalg.null_space(faces) if len(faces) else np.eye(bodies)
        size = free.shape[1] + len(unknown) - bodies
        fewer = bodies - free.shape[1]
        total = triangle.seen_through(free)
        left = scaled.factor[:-1, :-1] @ unknown - scaled.factor[:-1, -1]
        steep = scaled.factor[:-1, :-1].T @ left
        back = np.zeros((len(unknown), size))
        back[:bodies, : free.shape[1]] = scaled.back[:bodies, :bodies] @ free
        back[bodies:, free.shape[1] :] = scaled.back[bodies:, bodies:]
        signs = np.array(sorted(space.nonnegative), dtype=np.intp)
        return Tangent(
            back,
            total,
            np.append(free.T @ steep[:bodies], steep[bodies:]),
            signs - fewer,
            np.maximum(unknown[signs], 0.0),
        )

    @cached_property
    def rows(self) -> Array:
        """Square root of the information `total`, a row at each unknown's place, shape (m, m)."""
        return self.total.placed()[:-1, :-1]

    def among(self, positive: NDArray[np.bool_]) -> Among:
        """Return the steps with all coefficients with a sign held at zero but some.

        Args:
            positive: Which of them may move, shape (signed,).
        """
        free = np.ones(len(self.gradient), dtype=bool)
        free[self.signed] = False
        # Those with a sign last: their problem is then the last columns of a triangle.
        columns = np.append(np.flatnonzero(free), self.signed[positive])
        triangle = np.asarray(np.linalg.qr(self.rows[:, columns], mode="r"))
        return Among(columns, triangle, self.room[positive])

    def without(
        self, exchanges: int, least: float, blocks: Iterable[tuple[Array, Array]]
    ) -> Iterator[Array]:
        """Yield the step y to the estimate without each of some blocks, shape (m,).

        Most coefficients with a sign are zero, with a block and without it. The others are solved
        for, and those along which the sum of squares then falls join them.

        Args:
            exchanges: Most exchanges of all coefficients that are wrong; see `nonnegative`.
            least: Share of the information in a direction that is left at least.
            blocks: Rows, shape (any, m), and score, shape (m,), of each.

        Raises:
            LinAlgError: If the information does not determine y.
        """
        inverse, rows = self.total.inverse, self.rows
        if inverse is None:
            raise np.linalg.LinAlgError("columns of the tangent depend on others")
        positive = self.room > 0.0
        among = self.among(positive)
        lengths = np.linalg.norm(rows[:, self.signed], axis=0)
        for inner, score in blocks:
            left, steep = Left.of(inverse, inner, least), self.gradient + score
            while True:
                pulled = rows[:, among.columns].T @ left.added.vectors
                step, height = among.step(exchanges, inner, left.added.lift, pulled, steep)
                whole = np.zeros(len(steep))
                whole[among.columns] = step
                slopes = (steep + rows.T @ left.times(rows @ whole))[self.signed]
                falling = ~positive & (slopes < -FALLING * height * lengths)
                if not falling.any():
                    break
                positive = positive | falling
                among = self.among(positive)
            yield whole


@dataclass(frozen=True, eq=False)
class Among:
    """Steps of some of the unknowns, the others staying where they are."""

    columns: NDArray[np.intp]  # their positions, those of coefficients with a sign last, shape (a,)
    triangle: Array  # R with RᵀR the information of data and prior about them, shape (a, a)
    room: Array  # how far each coefficient with a sign may fall, shape (signed,)

    def step(
        self, exchanges: int, inner: Array, lift: Array, pulled: Array, steep: Array
    ) -> tuple[Array, float]:
        """Return the step to the least sum of squares without a block, and its right side's length.

        With W the block's rows in coordinates in which the information of all is 1, what is left
        is `Rᵀ (1 − WᵀW + VΛVᵀ) R = AᵀA`, and A is triangular. So its last columns and rows are the
        problem of the coefficients with a sign, for whichever values of the others are best.

        Args:
            exchanges: As of `Tangent.without`.
            inner: Rows of the block on all unknowns, shape (any, m).
            lift: Λ, by which directions with less than the least share are raised, shape (k,).
            pulled: RᵀV of these directions V, shape (a, k).
            steep: Derivative of half the sum of squares without the block by all, shape (m,).
        """
        R, first = self.triangle, len(self.columns) - len(self.room)
        white = _back(R, inner[:, self.columns].T)
        raised = _back(R, pulled)
        left = np.eye(len(R)) - white @ white.T + (raised * lift) @ raised.T
        C = np.asarray(np.linalg.cholesky(left).T, dtype=np.float64)
        right = -_back(C, _back(R, steep[self.columns]))
        signed = C[first:, first:] @ R[first:, first:]
        moved = nonnegative(signed, right[first:] + signed @ self.room, self.room, exchanges)
        moved = moved - self.room
        rest = right[:first] - C[:first] @ (R[:, first:] @ moved)
        others = scipy.linalg.solve_triangular(C[:first, :first], rest)
        others = scipy.linalg.solve_triangular(R[:first, :first], others)
        return np.append(others, moved), float(np.linalg.norm(right))


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
