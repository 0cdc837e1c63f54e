"""What is left of an information without a block of rows, where many columns are of one channel.

In coordinates in which the information of all is the identity, `1 − WᵀW` is left without a block
with rows W. Of columns that one channel alone holds (see `information.bordered`) it has blocks on
its diagonal, joined by the shared ones alone:

    [ D₁       E₁ ]
    [    D₂    E₂ ]
    [       ⋱  ⋮  ]
    [ E₁ᵀ E₂ᵀ … F ]

How many of its directions have less than a share left follows from the signs of its parts' pivots
[Haynsworth1968], the directions themselves by Lanczos' method; with them raised to that share it is
well conditioned, and conjugate gradients solve to rounding in some forty products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import BorderedInverse

MANY = 500  # columns from which the matrix is taken by its blocks
NEAR = 1e-9  # of a pivot to zero, or of a direction's share to the least: settled by all directions
EXACT = 1e-15  # what conjugate gradients leave over, relative


@dataclass(frozen=True, eq=False)
class Raised:
    """Correction of a symmetric matrix that raises its eigenvalues to a least value."""

    lift: Array  # how much each smaller eigenvalue is raised, shape (k,)
    vectors: Array  # their eigenvectors, shape (n, k)

    @staticmethod
    def of(left: Array, least: float) -> Raised:
        """Return the correction of a matrix, from its full eigendecomposition.

        Args:
            left: Symmetric, shape (n, n).
            least: Least eigenvalue, above 0.
        """
        try:
            np.linalg.cholesky(left - least * np.eye(len(left)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(left)
            low = values < least
            return Raised(least - values[low], vectors[:, low])
        return Raised(np.zeros(0), np.zeros((len(left), 0)))

    def times(self, x: Array) -> Array:
        """Return the product of the correction with x, shape (n,)."""
        return np.asarray(self.vectors @ (self.lift * (x @ self.vectors)))


@dataclass(frozen=True, eq=False)
class LeftWithout:
    """Information without a block, `1 − WᵀW`, in the block-arrow form of the module."""

    own: tuple[NDArray[np.intp], ...]  # positions of the columns of each diagonal block
    shared: NDArray[np.intp]  # positions of the others
    corners: tuple[Array, ...]  # D of each
    borders: tuple[Array, ...]  # E of each
    centre: Array  # F

    @staticmethod
    def of(inverse: BorderedInverse, rows: Array) -> LeftWithout | None:
        """Return the information without a block; None if a row holds own columns of two channels.

        Args:
            inverse: Inverse of the information of all rows.
            rows: Of the block, on its n columns, shape (any, n).
        """
        beside = rows[:, inverse.shared] @ inverse.R
        white, taken = [], np.zeros(len(rows), dtype=bool)
        for corner in inverse.corners:
            own = rows[:, corner.own]
            held = np.flatnonzero(own.any(axis=1))
            if taken[held].any():
                return None
            taken[held] = True
            beside[held] += own[held] @ corner.beside
            white.append((held, own[held] @ corner.R))
        return LeftWithout(
            tuple(corner.own for corner in inverse.corners),
            inverse.shared,
            tuple(np.eye(w.shape[1]) - w.T @ w for _, w in white),
            tuple(-(w.T @ beside[held]) for held, w in white),
            np.eye(len(inverse.shared)) - beside.T @ beside,
        )

    @property
    def size(self) -> int:
        """Number n of columns."""
        return len(self.shared) + sum(map(len, self.own))

    def times(self, x: Array) -> Array:
        """Return the matrix-vector product M x, shape (n,)."""
        found, common = np.zeros(len(x)), x[self.shared]
        centre = self.centre @ common
        for own, corner, border in zip(self.own, self.corners, self.borders, strict=True):
            found[own] = corner @ x[own] + border @ common
            centre += x[own] @ border
        found[self.shared] = centre
        return found

    def below(self, least: float) -> int | None:
        """Return how many eigenvalues are below a number; None if a pivot is too near to tell."""
        count, left = 0, self.centre - least * np.eye(len(self.shared))
        for corner, border in zip(self.corners, self.borders, strict=True):
            values, vectors = np.linalg.eigh(corner)
            values = values - least
            if np.abs(values).min() < NEAR:
                return None
            across = vectors.T @ border
            left = left - across.T @ (across / values[:, None])
            count += int(np.sum(values < 0.0))
        values = np.linalg.eigvalsh(left)
        near = len(values) and np.abs(values).min() < NEAR
        return None if near else count + int(np.sum(values < 0.0))

    def raised(self, least: float) -> Raised | None:
        """Return the correction that raises all eigenvalues to a least value.

        Args:
            least: Least eigenvalue, above 0.

        Returns:
            None if it is not certain that all smaller eigenvalues were found.
        """
        from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

        count = self.below(least)
        if count is None or count > self.size // 4:
            return None
        if not count:
            return Raised(np.zeros(0), np.zeros((self.size, 0)))
        operator = LinearOperator((self.size, self.size), matvec=self.times, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(self.size)
        try:
            values, vectors = eigsh(operator, count, which="SA", v0=start)
        except ArpackError:
            return None
        return None if values.max() > least else Raised(least - values, vectors)

    def solution(self, right: Array, least: float) -> Array | None:
        """Return x with `M x = y`, M the matrix with its eigenvalues raised to `least`.

        Args:
            right: y, shape (n,).
            least: Least eigenvalue, above 0.

        Returns:
            Shape (n,); None if it is not certain that all smaller eigenvalues were found.
        """
        added = self.raised(least)
        if added is None:
            return None
        return _conjugate_gradients(lambda x: self.times(x) + added.times(x), right, self.size)


@dataclass(frozen=True, eq=False)
class Left:
    """Information without a block, its eigenvalues raised to a least value."""

    # the symmetric matrix M, by its blocks where columns are many, else all of it
    matrix: LeftWithout | Array
    added: Raised  # what raises its eigenvalues

    @staticmethod
    def of(inverse: BorderedInverse, rows: Array, least: float) -> Left:
        """Return the information without a block.

        Args:
            inverse: Inverse of the information of all rows.
            rows: Of the block, on its n columns, shape (any, n).
            least: Least eigenvalue, above 0.
        """
        if len(inverse.columns) >= MANY and inverse.corners:
            blocks = LeftWithout.of(inverse, rows)
            added = None if blocks is None else blocks.raised(least)
            if blocks is not None and added is not None:
                return Left(blocks, added)
        white = inverse.times(rows)
        matrix = np.eye(white.shape[1]) - white.T @ white
        return Left(matrix, Raised.of(matrix, least))

    def times(self, x: Array) -> Array:
        """Return the matrix-vector product with x, shape (n,)."""
        plain = self.matrix.times(x) if isinstance(self.matrix, LeftWithout) else self.matrix @ x
        return np.asarray(plain + self.added.times(x))


def _conjugate_gradients(times: Callable[[Array], Array], right: Array, most: int) -> Array | None:
    """Return the solution of a well-conditioned positive definite system [Hestenes1952].

    Args:
        times: Product with the matrix, shape (n,).
        right: Right-hand side, shape (n,).
        most: Number of steps after which None is returned.
    """
    found = np.zeros(len(right))
    left = direction = right
    square = float(left @ left)
    enough = EXACT**2 * square
    for _ in range(most):
        if square <= enough:
            return found
        ahead = times(direction)
        step = square / float(direction @ ahead)
        found = found + step * direction
        left = left - step * ahead
        before, square = square, float(left @ left)
        direction = left + square / before * direction
    return None


def without(inner: Array, right: Array, least: float) -> Array:
    """Return `(1 − WᵀW)⁻¹ y`, eigenvalues of the matrix being at least a number.

    Args:
        inner: W, shape (any, n).
        right: y, shape (n,).
        least: Least eigenvalue, above 0.
    """
    if not len(inner):
        return right
    left = np.eye(len(right)) - inner.T @ inner
    added = Raised.of(left, least)
    left += (added.vectors * added.lift) @ added.vectors.T
    return np.asarray(scipy.linalg.solve(left, right, assume_a="pos"))
