"""Triangles of rows, and sums of them, what one set of rows alone holds eliminated first.

A joint's friction stands in the rows of its own channel alone. Eliminated there, it leaves short
rows on the columns that channels share, and the sum is triangular in another order of its columns:

    [ R₁       B₁ ]   x₁      z₁
    [    R₂    B₂ ]   x₂  =   z₂
    [       ⋱  ⋮  ]   ⋮       ⋮
    [          R  ]   x       z

Brought into the order of the columns it would be full: bodies come first, and all friction that
presses on them is connected by their elimination. The same holds of one set of rows whose terms of
different drives are orthogonal columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array

from .channel_rows import ChannelRows
from .connectivity import FEWEST, bits, components, first_connected
from .folding import eliminate, stack


def triangle_of(rows: Array) -> Array:
    """Return the square-root triangle R of rows, with `RᵀR = rowsᵀ rows` and a diagonal ≥ 0.

    Args:
        rows: Shape (m, n), any m ≥ 0.

    Returns:
        Upper triangle, shape (n, n), in the unit of the rows.
    """
    # The last column, a right-hand side as a rule, is eliminated last: it connects nothing.
    parts = components(rows[:, :-1])
    if len(parts) == 1:
        return triangle_of_all(rows)
    bare = np.ones(len(rows), dtype=bool)
    triangles = []
    for part in parts:
        own = rows[np.ix_(part.rows, np.append(part.columns, -1))]
        triangles.append((part.columns, triangle_of_all(own)))
        bare[part.rows] = False
    return joined(rows.shape[1], triangles, float(np.linalg.norm(rows[bare, -1])))


def joined(size: int, parts: Sequence[tuple[NDArray[np.intp], Array]], rest: float) -> Array:
    """Return the one triangle of parts that share no columns.

    Args:
        size: Number of all columns, the right-hand side included.
        parts: Columns of each part, ascending, and the triangle of its rows, right-hand side last.
        rest: Length of the right-hand side in rows that hold no column.
    """
    factor = np.zeros((size, size))
    rests = [rest]
    for columns, own in parts:
        factor[np.ix_(columns, columns)] = own[:-1, :-1]
        factor[columns, -1] = own[:-1, -1]
        rests.append(float(own[-1, -1]))
    factor[-1, -1] = np.linalg.norm(rests)
    return factor


def triangle_of_all(rows: Array) -> Array:
    """Return the QR triangle of rows, without a search for components; see `triangle_of`."""
    m, n = rows.shape
    if m >= n - 1:
        return stack(np.zeros((n, n)), rows)
    # Rows that are fewer stay fewer: reflected into a triangle they leave rounding in all of it.
    factor = np.vstack([np.linalg.qr(rows, mode="r"), np.zeros((n - m, n))])
    return np.asarray(np.where(np.diag(factor) < 0.0, -1.0, 1.0)[:, None] * factor)


def among(rows: Array, columns: NDArray[np.intp], size: int) -> Array:
    """Return rows, right-hand side last, with zero columns inserted: shape (rows, size)."""
    wide = np.zeros((len(rows), size))
    wide[:, columns] = rows[:, :-1]
    wide[:, -1] = rows[:, -1]
    return wide


def placed(triangle: Array, columns: NDArray[np.intp], size: int) -> Array:
    """Return a triangle with zero rows and columns inserted; the right-hand side is last.

    Args:
        triangle: Shape (k + 1, k + 1).
        columns: Positions of its columns, ascending, shape (k,).
        size: Number of all columns, that of the right-hand side included.

    Returns:
        Upper triangular, shape (size, size).
    """
    if len(columns) + 1 == size:
        return triangle
    wide = np.zeros((size, size))
    places = np.append(columns, size - 1)
    wide[np.ix_(places, places)] = triangle
    return wide


@dataclass(frozen=True, eq=False)
class Corner:
    """Rows `R x + B y = z`: p columns x that one set of rows alone holds, and shared columns y.

    Of an inverse, its rows for x, which have no right-hand side.
    """

    own: NDArray[np.intp]  # positions of x among the columns of the sum, shape (p,)
    shared: NDArray[np.intp]  # positions of y among the shared columns, shape (s,)
    R: Array  # upper triangle, shape (p, p)
    border: Array  # B, shape (p, s)
    z: Array  # right-hand side, shape (p,)


@dataclass(frozen=True, eq=False)
class Bordered:
    """Sum of sets of rows on n columns as a block-arrow triangle."""

    columns: NDArray[np.intp]  # their positions among all parameters, shape (n,)
    corners: tuple[Corner, ...]  # what single sets hold alone
    shared: NDArray[np.intp]  # positions of the k other columns among these n, shape (k,)
    R: Array  # upper triangle of the shared columns, shape (k, k)
    z: Array  # its right-hand side, shape (k,)
    rest: float  # length of the right-hand side that no column explains

    @staticmethod
    def of(
        columns: NDArray[np.intp],
        sets: Sequence[tuple[NDArray[np.intp], Array]],
        ridge: Array,
    ) -> Bordered:
        """Return the sum of sets of rows.

        Args:
            columns: Positions of the n columns among all parameters.
            sets: For each, its columns, of these n and ascending, and its rows on them, right-hand
                side last.
            ridge: Rows that hold one column each, right-hand side last, shape (any, n + 1).
        """
        size = len(columns)
        none = np.zeros(0, dtype=np.intp)
        alone = np.bincount(np.concatenate([none, *(c for c, _ in sets)]), minlength=size) == 1
        if size < FEWEST or len(sets) < 2 or not alone.any():
            stacked = np.vstack([ridge, *(among(r, c, size + 1) for c, r in sets)])
            return _finished(columns, (), np.arange(size), triangle_of_all(stacked))
        shared = np.flatnonzero(~alone)
        place = np.cumsum(~alone) - 1
        nonzero = ridge[:, :-1] != 0.0
        common_ridge = ridge[~nonzero[:, alone].any(axis=1)][:, np.append(shared, size)]
        corners, others = [], []
        for seen, rows in sets:
            own, common = seen[alone[seen]], seen[~alone[seen]]
            order = np.concatenate(
                [np.flatnonzero(alone[seen]), np.flatnonzero(~alone[seen]), [-1]]
            )
            beside = ridge[nonzero[:, own].any(axis=1)]
            stacked = np.vstack([rows[:, order], beside[:, np.append(seen, size)[order]]])
            top, rest = eliminate(stacked, p := len(own))
            if p:
                corners.append(Corner(own, place[common], top[:, :p], top[:, p:-1], top[:, -1]))
            others.append((place[common], rest))
        return _finished(columns, tuple(corners), shared, _nested(others, common_ridge))

    @staticmethod
    def by_drives(rows: Array, weights: Array, order: NDArray[np.intp]) -> Bordered:
        """Return the triangle of rows, and of `weights_k x_k` of a prior of terms.

        Its corners are of sets of columns that are orthogonal to one another, as terms of different
        drives are, and the columns that are shared are all others. One QR of all columns would
        leave rounding where zeros are, and connect all drives.

        Args:
            rows: Right-hand side last, shape (m, n + 1).
            weights: Of the prior of terms, above 0, in their order, shape (f,).
            order: Positions of all f terms, behind the others, in the order of their elimination.
        """
        size = rows.shape[1] - 1
        shared = size - len(order)
        transposed = np.zeros(
            (shared + 1, len(rows) + len(order))
        )  # transposed: columns side by side
        transposed[:-1, : len(rows)], transposed[-1, : len(rows)] = rows[:, :shared].T, rows[:, -1]
        rounding = max(rows.shape) * float(np.finfo(float).eps)
        lengths = rounding * np.linalg.norm(transposed[:-1], axis=1)
        corners, columns = [], rows[:, order]
        for terms in orthogonal_sets(columns, rounding):
            at = _rows_of(np.asarray(columns[:, terms].any(axis=1)))
            own = columns[at][:, terms]
            nonzero, count = np.asarray(own.any(axis=1)), len(own)
            products = np.abs(own.T @ rows[at, :shared])
            moved = np.any(products > np.linalg.norm(own, axis=0)[:, None] * lengths, axis=0)
            moved = np.append(np.flatnonzero(moved), shared)
            ridge = np.diag(weights[terms])
            across, triangle = np.linalg.qr(np.vstack([own, ridge]))
            across[:count][~nonzero] = 0.0  # exactly, so that limbs stay apart
            touched = (moved, at) if isinstance(at, slice) else np.ix_(moved, at)
            border = transposed[touched] @ across[:count]
            transposed[touched] -= border @ across[:count].T
            transposed[moved[:, None], len(rows) + terms] = -border @ across[count:].T
            corners.append(Corner(order[terms], moved[:-1], triangle, border[:-1].T, border[-1]))
        places = np.arange(size)
        return _finished(places, tuple(corners), places[:shared], triangle_of(transposed.T))

    def with_prior(self, weights: Array, towards: Array) -> Bordered:
        """Return the sum with `weights_k (y_k − towards_k)` of a prior of the k shared columns."""
        prior = np.column_stack([np.diag(weights), weights * towards])
        stacked = np.vstack([np.column_stack([self.R, self.z]), prior])
        total = _finished(self.columns, self.corners, self.shared, triangle_of(stacked))
        return replace(total, rest=float(np.hypot(total.rest, self.rest)))

    def rows(self) -> Array:
        """Return all rows, right-hand side last, on the n columns: shape (n + 1, n + 1)."""
        size = len(self.columns)
        matrix, first = np.zeros((size + 1, size + 1)), 0
        for corner in self.corners:
            own = slice(first, first + len(corner.own))
            matrix[own, corner.own] = corner.R
            matrix[own, self.shared[corner.shared]] = corner.border
            matrix[own, -1] = corner.z
            first = own.stop
        matrix[first:-1, self.shared] = self.R
        matrix[first:-1, -1] = self.z
        matrix[-1, -1] = self.rest
        return matrix

    def sets(self) -> Iterator[tuple[ChannelRows, Array]]:
        """Yield the rows of each corner, and those of shared columns alone, with right-hand sides.

        Columns are positions among all parameters; those of zeros are left out.
        """
        k = len(self.R)
        last = Corner(self.shared[:0], np.arange(k), np.zeros((k, 0)), self.R, self.z)
        for c in (*self.corners, last):
            columns = self.columns[np.append(c.own, self.shared[c.shared])]
            rows = np.hstack([c.R, c.border])
            held = np.flatnonzero(rows.any(axis=0))
            held = held[np.argsort(columns[held])]
            yield ChannelRows(columns[held], rows[:, held]), c.z

    @property
    def order(self) -> NDArray[np.intp]:
        """Positions of the n columns in the order of their rows, shape (n,)."""
        return np.concatenate([*(corner.own for corner in self.corners), self.shared])

    def placed(self) -> Array:
        """Return `rows` with each at its column's place, as the inverse has its coordinates."""
        rows = self.rows()
        matrix = np.empty(rows.shape)
        matrix[np.append(self.order, len(self.columns))] = rows
        return matrix

    @property
    def diagonal(self) -> Array:
        """Diagonal entries of the triangles, in the order of the rows, shape (n,)."""
        return np.concatenate([*(np.diag(c.R) for c in self.corners), np.diag(self.R)])

    def part(self, own: NDArray[np.intp]) -> Bordered:
        """Return the triangle of some columns that no row connects with the others.

        Args:
            own: Their positions among these n, ascending.
        """
        chosen = np.zeros(len(self.columns), dtype=bool)
        chosen[own] = True
        mine = chosen[self.shared]
        place, of_shared = np.cumsum(chosen) - 1, np.cumsum(mine) - 1
        corners = tuple(
            Corner(place[c.own], of_shared[c.shared], c.R, c.border, c.z)
            for c in self.corners
            if chosen[c.own[0]]
        )
        square = self.R[np.ix_(mine, mine)]
        return Bordered(
            self.columns[own], corners, place[self.shared[mine]], square, self.z[mine], self.rest
        )

    def only(self, kept: NDArray[np.intp]) -> Bordered:
        """Return the sum of the same rows with all columns but some zero; it has these alone.

        Args:
            kept: Their positions among these n, ascending.
        """
        place = np.full(len(self.columns), -1)
        place[kept] = np.arange(len(kept))
        mine = np.flatnonzero(place[self.shared] >= 0)
        at = np.cumsum(place[self.shared] >= 0) - 1
        corners, rows = [], [np.column_stack([self.R[:, mine], self.z])]
        for c in self.corners:
            alone, beside = place[c.own] >= 0, place[self.shared[c.shared]] >= 0
            p = int(alone.sum())
            held = np.column_stack([c.R[:, alone], c.border[:, beside], c.z])
            factor = np.asarray(np.linalg.qr(held, mode="r"))
            own, shared, top = place[c.own[alone]], at[c.shared[beside]], factor[:p]
            corners.append(Corner(own, shared, top[:, :p], top[:, p:-1], top[:, -1]))
            rows.append(among(factor[p:, p:], shared, len(mine) + 1))
        common = triangle_of_all(np.vstack(rows))
        places = np.arange(len(kept))
        total = _finished(places, tuple(corners), place[self.shared[mine]], common)
        return replace(total, rest=float(np.hypot(total.rest, self.rest)))

    def seen_through(self, matrix: Array) -> Bordered:
        """Return the sum about y and the corners' columns, the shared columns being `matrix @ y`.

        Args:
            matrix: Shape (k, m). Its columns come first, the others stay in their order behind.
        """
        size = matrix.shape[1]
        others = np.setdiff1d(np.arange(len(self.columns)), self.shared)
        y = np.arange(size)
        corners = tuple(
            Corner(size + np.searchsorted(others, c.own), y, c.R, c.border @ matrix[c.shared], c.z)
            for c in self.corners
        )
        factor = triangle_of_all(np.column_stack([self.R @ matrix, self.z]))
        places = np.arange(size + len(others))
        total = _finished(places, corners, y, factor)
        return replace(total, rest=float(np.hypot(total.rest, self.rest)))

    def triangle(self) -> Array:
        """Return the QR triangle in the order of the columns, shape (n + 1, n + 1)."""
        return triangle_of_all(self.rows()) if self.corners else self.rows()

    @cached_property
    def lengths(self) -> Array:
        """Norms of the n columns, shape (n,)."""
        squares = np.zeros(len(self.columns))
        squares[self.shared] = np.sum(self.R**2, axis=0)
        for corner in self.corners:
            squares[corner.own] = np.sum(corner.R**2, axis=0)
            squares[self.shared[corner.shared]] += np.sum(corner.border**2, axis=0)
        return np.sqrt(squares)

    def solution(self) -> Array:
        """Return the least-squares solution of columns that are independent, shape (n,)."""
        values = np.zeros(len(self.columns))
        common = scipy.linalg.solve_triangular(self.R, self.z)
        values[self.shared] = common
        for corner in self.corners:
            right = corner.z - corner.border @ common[corner.shared]
            values[corner.own] = scipy.linalg.solve_triangular(corner.R, right)
        return values

    @cached_property
    def inverse(self) -> BorderedInverse | None:
        """The inverse of the rows; None if a column is zero or depends on others."""
        (common, singular), every = _inverted(self.R), np.arange(len(self.R))
        corners = []
        for corner in self.corners:
            own, failed = _inverted(corner.R)
            singular = singular or failed
            beside = -(own @ corner.border) @ common[corner.shared]
            corners.append(Corner(corner.own, every, own, beside, corner.z[:0]))
        if singular:
            return None
        return BorderedInverse(self.columns, tuple(corners), self.shared, common)


def _inverted(triangle: Array) -> tuple[Array, int]:
    """Return R⁻¹, and other than 0 if it has none; LAPACK refuses a triangle of no columns."""
    return scipy.linalg.lapack.dtrtri(triangle) if len(triangle) else (triangle, 0)


def _divided(triangle: Array, right: Array, transposed: int) -> Array:
    """Return R⁻¹ of right-hand sides, or R⁻ᵀ: a call of `solve_triangular` takes ten times this."""
    if not len(triangle):  # LAPACK refuses it
        return right
    return np.asarray(scipy.linalg.lapack.dtrtrs(triangle, right, trans=transposed)[0])


def _nested(parts: Sequence[tuple[NDArray[np.intp], Array]], rows: Array) -> Array:
    """Return the QR triangle of stacked sets of rows and further rows.

    A joint holds what the joints behind it hold, and more: triangles of few columns are added where
    they are still small.

    Args:
        parts: Columns of each set, ascending, and its rows, right-hand side last.
        rows: Right-hand side last, shape (any, n + 1).

    Returns:
        Shape (n + 1, n + 1).
    """
    size = rows.shape[1]
    fronts: list[tuple[int, NDArray[np.intp], Array]] = []
    for columns, own in sorted(parts, key=lambda part: len(part[0])):
        mask, within = bits(columns, size), [own]
        beside = [front for front in fronts if front[0] & ~mask]
        for _, some, triangle in (front for front in fronts if not front[0] & ~mask):
            within.append(placed(triangle, np.searchsorted(columns, some), len(columns) + 1))
        total = within.pop() if len(within) > 1 else np.zeros((len(columns) + 1,) * 2)
        fronts = [*beside, (mask, columns, reduce(stack, within, total))]
    wide = (among(triangle, columns, size) for _, columns, triangle in fronts)
    return triangle_of_all(np.vstack([rows, *wide]))


def _finished(
    columns: NDArray[np.intp],
    corners: tuple[Corner, ...],
    shared: NDArray[np.intp],
    factor: Array,
) -> Bordered:
    R, z = factor[:-1, :-1], factor[:-1, -1]
    return Bordered(columns, corners, shared, R, z, float(factor[-1, -1]))


@dataclass(frozen=True, eq=False)
class BorderedInverse:
    """Inverse G of a sum's rows, with `G Gᵀ` the inverse of its information."""

    columns: NDArray[np.intp]  # positions of the n columns among all parameters, shape (n,)
    corners: tuple[Corner, ...]  # rows of G of columns that one set alone holds
    shared: NDArray[np.intp]  # positions of the k other columns among these n, shape (k,)
    R: Array  # inverse of their triangle, shape (k, k)

    @cached_property
    def deviations(self) -> Array:
        """Norms of the rows of G, the standard deviations for rows of unit variance, shape (n,)."""
        squares = np.zeros(len(self.columns))
        squares[self.shared] = np.sum(self.R**2, axis=1)
        for corner in self.corners:
            squares[corner.own] = np.sum(corner.R**2, axis=1) + np.sum(corner.border**2, axis=1)
        return np.sqrt(squares)

    def times(self, rows: Array) -> Array:
        """Return `Y G` of rows Y on the n columns, shape (..., n)."""
        product = np.empty(rows.shape)
        common = rows[..., self.shared] @ self.R
        for corner in self.corners:
            own = rows[..., corner.own]
            product[..., corner.own] = own @ corner.R
            common += own @ corner.border
        product[..., self.shared] = common
        return product

    def back(self, rows: Array) -> Array:
        """Return `Y Gᵀ` of rows Y, shape (..., n)."""
        product = np.empty(rows.shape)
        common = rows[..., self.shared]
        product[..., self.shared] = common @ self.R.T
        for corner in self.corners:
            product[..., corner.own] = rows[..., corner.own] @ corner.R.T + common @ corner.border.T
        return product

    @property
    def matrix(self) -> Array:
        """G itself, shape (n, n)."""
        return self.times(np.eye(len(self.columns)))

    def gram(self, sets: Sequence[ChannelRows]) -> Arrow:
        """Return `Gᵀ (Σ YᵀY) G` of sets of rows Y.

        It is sparse where each set holds columns of one corner, beside shared ones; else it is as
        if all columns were shared.
        """
        size, common = len(self.columns), len(self.shared)
        place, corner_of = np.zeros(size, dtype=np.intp), np.full(size, -1)
        place[self.shared] = np.arange(common)
        for c, corner in enumerate(self.corners):
            place[corner.own], corner_of[corner.own] = np.arange(len(corner.own)), c
        if any(len(set(corner_of[rows.columns].tolist()) - {-1}) > 1 for rows in sets):
            return BorderedInverse(self.columns, (), np.arange(size), self.matrix).gram(sets)
        own = [np.zeros(corner.R.shape) for corner in self.corners]
        borders = [np.zeros((len(mine), common)) for mine in own]
        stacked = [np.zeros((0, common))]
        for rows in sets:
            at, c = place[rows.columns], int(corner_of[rows.columns].max(initial=-1))
            alone = corner_of[rows.columns] >= 0
            beside = rows.values[:, ~alone] @ self.R[at[~alone]]
            if c >= 0:
                corner, mine = self.corners[c], rows.values[:, alone]
                beside += mine @ corner.border[at[alone]]
                white = mine @ corner.R[at[alone]]
                own[c] += white.T @ white
                borders[c] += white.T @ beside
            stacked.append(beside)
        every = np.vstack(stacked)
        order = np.concatenate([*(corner.own for corner in self.corners), self.shared])
        along = np.vstack([np.zeros((0, common)), *borders])
        return Arrow(order, tuple(own), along, every.T @ every)

    def sandwich(self, middle: Arrow) -> Array:
        """Return `G M Gᵀ` in the order of M, shape (n, n)."""
        covariance = np.empty((len(self.columns),) * 2)
        along, count = np.empty(middle.borders.shape), len(middle.borders)
        spread = np.vstack([along[:0], *(corner.border for corner in self.corners)])
        for corner, mine in zip(self.corners, middle.parts, strict=True):
            along[mine] = corner.R @ middle.borders[mine]
        beside = spread @ middle.centre
        among = (along + 0.5 * beside) @ spread.T
        np.add(among, among.T, out=covariance[:count, :count])
        for corner, mine, own in zip(self.corners, middle.parts, middle.own, strict=True):
            covariance[mine, mine] += _symmetric(corner.R @ own @ corner.R.T)
        covariance[:count, count:] = across = (along + beside) @ self.R.T
        covariance[count:, :count] = across.T
        covariance[count:, count:] = _symmetric(self.R @ middle.centre @ self.R.T)
        return covariance


@dataclass(frozen=True, eq=False)
class Arrow:
    """Symmetric matrix on the columns of a sum, zero between columns of different corners."""

    order: NDArray[np.intp]  # positions of the columns, corner by corner, the k shared ones last
    own: tuple[Array, ...]  # of each corner's p columns, shape (p, p)
    borders: Array  # of all of these and the shared ones, shape (n - k, k)
    centre: Array  # of the shared columns, shape (k, k)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Where each corner's columns are in the order."""
        ends = np.cumsum([0, *map(len, self.own)]).tolist()
        return tuple(map(slice, ends, ends[1:]))

    def taken_from(self, value: float) -> Arrow:
        """Return `c·1 − A` of a number c."""
        own = tuple(value * np.eye(len(a)) - a for a in self.own)
        centre = value * np.eye(len(self.centre)) - self.centre
        return Arrow(self.order, own, -self.borders, centre)

    def dense(self) -> Array:
        """Return A in the order of the columns, shape (n, n)."""
        count = len(self.borders)
        matrix = np.zeros((len(self.order),) * 2)
        for mine, own in zip(self.parts, self.own, strict=True):
            matrix[mine, mine] = own
        matrix[:count, count:], matrix[count:, :count] = self.borders, self.borders.T
        matrix[count:, count:] = self.centre
        at = np.argsort(self.order)
        return matrix[np.ix_(at, at)]

    def times(self, right: Array) -> Array:
        """Return `A x` of x, shape (n, any)."""
        product, x = np.empty(right.shape), right[self.order]
        corners, common = np.split(x, [len(self.borders)])
        along = self.borders @ common
        for mine, own in zip(self.parts, self.own, strict=True):
            along[mine] += own @ corners[mine]
        shared = self.centre @ common + self.borders.T @ corners
        product[self.order] = np.concatenate([along, shared])
        return product

    @cached_property
    def factor(self) -> tuple[tuple[Array, ...], Array, Array] | None:
        """The triangle R with `RᵀR = A`, in parts as A itself is; None if A is not positive."""
        borders, triangles = np.empty(self.borders.shape), []
        try:
            for mine, own in zip(self.parts, self.own, strict=True):
                triangles.append(np.asarray(np.linalg.cholesky(own).T, dtype=np.float64))
                borders[mine] = _divided(triangles[-1], self.borders[mine], 1)
            common = np.linalg.cholesky(self.centre - borders.T @ borders).T
        except np.linalg.LinAlgError:
            return None
        return tuple(triangles), borders, np.asarray(common, dtype=np.float64)

    def solved(self, right: Array) -> Array:
        """Return x with `A x = y`, y of shape (n, any), of a positive A."""
        assert self.factor is not None
        (triangles, borders, common), values = self.factor, np.empty(right.shape)
        corners, shared = np.split(right[self.order], [len(borders)])
        for mine, R in zip(self.parts, triangles, strict=True):
            corners[mine] = _divided(R, corners[mine], 1)
        shared = _divided(common, _divided(common, shared - borders.T @ corners, 1), 0)
        corners -= borders @ shared
        for mine, R in zip(self.parts, triangles, strict=True):
            corners[mine] = _divided(R, corners[mine], 0)
        values[self.order] = np.concatenate([corners, shared])
        return values


def sandwich(
    inverses: Sequence[BorderedInverse], scores: Sequence[ChannelRows], size: int
) -> Array:
    """Return the covariance `G Gᵀ (Σ SᵀS) G Gᵀ` of an estimate, (n, n), by its scores.

    With G the inverse of the weighted triangle, the middle `Gᵀ (Σ SᵀS) G` is the covariance of the
    scores in coordinates in which their information is the identity [Huber1967; White1980]. There
    it is sparse: of a channel's score it holds its own columns and those that channels share.

    Args:
        inverses: G of each component; the covariance of columns without one is zero.
        scores: Sets S, on all n = `size` columns.
    """
    part_of, corner_of = np.full(size, -1), np.full(size, -1)
    corners = 0
    for k, inverse in enumerate(inverses):
        part_of[inverse.columns] = k
        for corner in inverse.corners:
            corner_of[inverse.columns[corner.own]] = corners
            corners += 1
    mine: list[list[ChannelRows]] = [[] for _ in inverses]
    others = [np.zeros((0, size))]
    for score in scores:
        seen = np.flatnonzero(part_of[score.columns] >= 0)
        columns, values = score.columns[seen], score.values[:, seen]
        nonzero = values != 0.0
        (part, parts), (corner_at, sets) = (
            _numbers(nonzero, number[columns]) for number in (part_of, corner_of)
        )
        alone = parts & sets & (part >= 0)
        key = np.where(corner_at >= 0, corner_at, corners + part)
        for one in np.unique(key[alone]):
            rows = ChannelRows.held(values[alone & (key == one)])
            inverse = inverses[k := int(part[alone & (key == one)][0])]
            at = np.searchsorted(inverse.columns, columns[rows.columns])
            mine[k].append(ChannelRows(at, rows.values))
        if not (alone | (part < 0)).all():  # it mixes what others see alone
            mixed = ChannelRows(columns, values[~alone & (part >= 0)])
            others.append(mixed.spread(size))
    covariance = np.zeros((size, size))
    shared = np.vstack(others)
    moved = np.zeros(shared.shape)
    for inverse, own in zip(inverses, mine, strict=True):
        columns, middle = inverse.columns, inverse.gram(own)
        at = columns[middle.order]
        covariance[np.ix_(at, at)] = inverse.sandwich(middle)
        moved[:, columns] = inverse.back(inverse.times(shared[:, columns]))
    if len(moved):
        covariance += moved.T @ moved
    return covariance


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2.0


def _numbers(nonzero: NDArray[np.bool_], number: NDArray[np.intp]) -> tuple[Any, Any]:
    """Return the number that each row's columns have, -1 for none, and whether it is one alone.

    Args:
        nonzero: Which entries are not zero, shape (rows, columns).
        number: Of each column, -1 for none, shape (columns,).
    """
    numbered = nonzero & (number >= 0)
    highest = np.max(np.where(numbered, number, -1), axis=1, initial=-1)
    return highest, ~np.any(numbered & (number != highest[:, None]), axis=1)


def _rows_of(nonzero: NDArray[np.bool_]) -> slice | NDArray[np.intp]:
    """Return positions of the rows that are not zero; a slice of the first ones where most are."""
    rows = np.flatnonzero(nonzero)
    end = int(rows[-1]) + 1 if len(rows) else 0
    return slice(0, end) if 2 * len(rows) > end else rows


def orthogonal_sets(columns: Array, rounding: float) -> list[NDArray[np.intp]]:
    """Return the sets of columns that are orthogonal to all others, each ascending.

    Args:
        columns: Shape (m, f).
        rounding: Largest product of two orthogonal columns, as a share of the product of their
            lengths.
    """
    sets: list[NDArray[np.intp]] = []
    for part in components(columns) if columns.shape[1] else ():
        own = part.of(columns)
        shared = own.T @ own
        lengths = np.sqrt(np.diag(shared))
        linked = np.abs(shared) > rounding * lengths[:, None] * lengths
        at, other = np.nonzero(linked)
        number = first_connected(at, other, len(linked))
        sets += [part.columns[number == k] for k in np.unique(number)]
    return sorted(sets, key=lambda terms: int(terms[0]))
