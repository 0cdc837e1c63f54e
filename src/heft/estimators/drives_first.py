"""Triangles that begin with terms of drives: no row but those of its own channel holds one.

Eliminated before the bodies, terms of different drives stay apart: a drive's rows hold its own
terms and the bodies that it moves. A triangle that begins with the bodies has filled up with their
products. Drives are found by the columns alone: those of two are orthogonal to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import components, first_connected, gram, triangle_of


@dataclass(frozen=True)
class DriveRows:
    """Rows `T terms + C bodies = right` of a triangle, of the terms of one drive."""

    terms: NDArray[np.intp]  # positions of its k terms, in the order in which they were eliminated
    triangle: Array  # T of these terms, shape (k, k)
    # positions of the bodies' numbers that the drive moves, ascending, shape (b,)
    bodies: NDArray[np.intp]
    coupling: Array  # C on these, shape (k, b)
    right: Array  # right-hand side, shape (k,)


@dataclass(frozen=True)
class DrivesFirst:
    """A triangle R that begins with terms of drives, one drive after another, and ends with bodies.

    Unknowns keep their places, bodies first: what stands in this order is the elimination alone.
    """

    drives: tuple[DriveRows, ...]  # rows of each drive
    bodies: Array  # triangle of the bodies' numbers, shape (n_b, n_b)
    right: Array  # right-hand side of these, shape (n_b,)
    rest: float  # length of what is left of the right-hand side

    @staticmethod
    def of(rows: Array, weights: Array, towards: Array, order: NDArray[np.intp]) -> DrivesFirst:
        """Return the triangle of rows of data, and of `weights_k (u_k − towards_k)` of a prior.

        Args:
            rows: Right-hand side last, shape (m, n + 1).
            weights: Above 0 for terms, shape (n,).
            towards: Zero for terms, shape (n,).
            order: Positions of all terms, in the order in which each drive's are eliminated.
        """
        bodies = len(weights) - len(order)
        left = np.zeros((bodies + 1, len(rows) + len(order)))  # transposed: columns side by side
        left[:-1, : len(rows)], left[-1, : len(rows)] = rows[:, :bodies].T, rows[:, -1]
        rounding = max(rows.shape) * float(np.finfo(float).eps)
        lengths = rounding * np.linalg.norm(left[:-1], axis=1)
        found, columns = [], rows[:, order]
        for terms in by_drive(columns, rounding):
            at = _rows_of(np.asarray(columns[:, terms].any(axis=1)))
            own = columns[at][:, terms]
            held, count = np.asarray(own.any(axis=1)), len(own)
            shared = np.abs(own.T @ rows[at, :bodies])
            moved = np.any(shared > np.linalg.norm(own, axis=0)[:, None] * lengths, axis=0)
            moved = np.append(np.flatnonzero(moved), bodies)
            ridge = np.diag(weights[order[terms]])
            across, triangle = np.linalg.qr(np.vstack([own, ridge]))
            across[:count][~held] = 0.0  # exactly, so that limbs stay apart
            known = (moved, at) if isinstance(at, slice) else np.ix_(moved, at)
            coupling = left[known] @ across[:count]
            left[known] -= coupling @ across[:count].T
            left[moved[:, None], len(rows) + terms] = -coupling @ across[count:].T
            found.append(
                DriveRows(order[terms], triangle, moved[:-1], coupling[:-1].T, coupling[-1])
            )
        firm = weights[:bodies]
        prior = np.column_stack([np.diag(firm), firm * towards[:bodies]])
        square = triangle_of(np.vstack([left.T, prior]))
        rest = abs(float(square[-1, -1]))
        return DrivesFirst(tuple(found), square[:-1, :-1], square[:-1, -1], rest)

    @property
    def size(self) -> int:
        """Number n of unknowns."""
        return len(self.bodies) + sum(len(drive.terms) for drive in self.drives)

    @property
    def diagonal(self) -> Array:
        """Diagonal entries, in the order of elimination, shape (n,)."""
        parts = (*(drive.triangle for drive in self.drives), self.bodies)
        return np.concatenate([np.diag(part) for part in parts])

    def rows(self) -> Array:
        """Return all rows, right-hand side last, each at its unknown's place; (n + 1, n + 1)."""
        bodies, size = np.arange(len(self.bodies)), self.size
        out = np.zeros((size + 1, size + 1))
        out[np.ix_(bodies, bodies)], out[bodies, -1] = self.bodies, self.right
        for drive in self.drives:
            out[np.ix_(drive.terms, drive.terms)] = drive.triangle
            out[np.ix_(drive.terms, drive.bodies)] = drive.coupling
            out[drive.terms, -1] = drive.right
        out[-1, -1] = self.rest
        return out

    def part(self, own: NDArray[np.intp]) -> DrivesFirst:
        """Return the triangle of some unknowns that no row connects with the others.

        Args:
            own: Their positions, ascending.
        """
        place = np.full(self.size, -1)
        place[own] = np.arange(len(own))
        bodies = own[own < len(self.bodies)]
        drives = tuple(
            DriveRows(place[d.terms], d.triangle, place[d.bodies], d.coupling, d.right)
            for d in self.drives
            if place[d.terms[0]] >= 0
        )
        square = self.bodies[np.ix_(bodies, bodies)]
        return DrivesFirst(drives, square, self.right[bodies], self.rest)

    @staticmethod
    def of_bodies(triangle: Array, right: Array) -> DrivesFirst:
        """Return a triangle of bodies alone, shapes (n, n) and (n,)."""
        return DrivesFirst((), triangle, right, 0.0)

    def optimum(self) -> Array:
        """Return the unknowns that fulfil all rows, shape (n,)."""
        return self.solved(self.rows()[:-1, -1])

    def inverse_square(self) -> Array:
        """Return (RᵀR)⁻¹, shape (n, n)."""
        count, inverse = len(self.bodies), solve_triangular(self.bodies, np.eye(len(self.bodies)))
        out = np.zeros((self.size, self.size))
        across = out[:count]
        across[:, :count] = inverse @ inverse.T
        follows = [-solve_triangular(d.triangle, d.coupling) for d in self.drives]
        for drive, follow in zip(self.drives, follows, strict=True):
            across[:, drive.terms] = across[drive.bodies, :count].T @ follow.T
        for drive, follow in zip(self.drives, follows, strict=True):
            out[drive.terms] = follow @ across[drive.bodies]
            own = solve_triangular(drive.triangle, np.eye(len(drive.terms)))
            out[np.ix_(drive.terms, drive.terms)] += own @ own.T
        return out

    def solved(self, right: Array) -> Array:
        """Return R⁻¹ of right-hand sides at their unknowns' places, shape (n,) or (n, any)."""
        out, count = np.empty(right.shape), len(self.bodies)
        out[:count] = solve_triangular(self.bodies, right[:count])
        for drive in self.drives:
            left = right[drive.terms] - drive.coupling @ out[drive.bodies]
            out[drive.terms] = solve_triangular(drive.triangle, left)
        return out

    def solved_transposed(self, right: Array) -> Array:
        """Return R⁻ᵀ of right-hand sides at their unknowns' places, shape (n,) or (n, any)."""
        out, count = np.empty(right.shape), len(self.bodies)
        left = right[:count].copy()
        for drive in self.drives:
            first = solve_triangular(drive.triangle, right[drive.terms], transposed=True)
            out[drive.terms] = first
            left[drive.bodies] -= drive.coupling.T @ first
        out[:count] = solve_triangular(self.bodies, left, transposed=True)
        return out


def solve_triangular(triangle: Array, right: Array, transposed: bool = False) -> Array:
    """Return T⁻¹ or T⁻ᵀ of right-hand sides."""
    return np.asarray(
        scipy.linalg.solve_triangular(
            triangle, right, trans="T" if transposed else "N", check_finite=False
        )
    )


def mean_squared_error(
    triangle: DrivesFirst,
    limbs: Sequence[NDArray[np.intp]],
    data: Array,
    doubt: float,
    noise_factor: Array | None = None,
) -> tuple[Array, Array]:
    """Return the mean squared error matrix of a regularised estimate, as `noise.posterior` does.

    The bias A Λ A is what `A = (J + Λ)⁻¹` is more than A J A.

    Args:
        triangle: R with RᵀR = J + Λ, of n unknowns.
        data: Rows with J their square, shape (m, n).
        doubt: Prior error e times √w.
        noise_factor: S with SᵀS the covariance of Yᵀε, shape (any, n).

    Returns:
        The total (noise and bias) and its noise part, each of shape (n, n), in products of the
        unknowns' units.
    """
    size = triangle.size
    noise, whole = np.zeros((size, size)), np.zeros((size, size))
    score = None if noise_factor is None else np.zeros((len(noise_factor), size))
    for own in limbs:
        part, square = triangle.part(own), np.ix_(own, own)
        rows = data[np.ix_(np.any(data[:, own] != 0.0, axis=1), own)]
        # By the orthogonal factor, so that no accuracy is lost to the square of the condition.
        spread = part.solved(part.solved_transposed(rows.T))
        noise[square] = spread @ spread.T
        whole[square] = part.inverse_square()
        if score is not None and noise_factor is not None:
            held = np.any(noise_factor[:, own] != 0.0, axis=1)
            inner = part.solved_transposed(noise_factor[np.ix_(held, own)].T)
            score[np.ix_(held, own)] = part.solved(inner).T
    bias = doubt**2 * (whole - noise)
    if score is not None:  # some errors are shared by all limbs
        noise = gram(score, limbs)
    return noise + bias, noise


def _rows_of(held: NDArray[np.bool_]) -> slice | NDArray[np.intp]:
    """Return positions of the rows that are not zero; a slice of the first ones where most are."""
    rows = np.flatnonzero(held)
    end = int(rows[-1]) + 1 if len(rows) else 0
    return slice(0, end) if 2 * len(rows) > end else rows


def by_drive(columns: Array, rounding: float) -> list[NDArray[np.intp]]:
    """Return the sets of columns that are orthogonal to all others, each ascending.

    Args:
        columns: Of terms, shape (m, f).
        rounding: Largest product of two orthogonal columns, as a share of the product of their
            lengths.
    """
    found: list[NDArray[np.intp]] = []
    for part in components(columns) if columns.shape[1] else ():
        own = part.of(columns)
        shared = own.T @ own
        lengths = np.sqrt(np.diag(shared))
        linked = np.abs(shared) > rounding * lengths[:, None] * lengths
        at, other = np.nonzero(linked)
        number = first_connected(at, other, len(linked))
        found += [part.columns[number == k] for k in np.unique(number)]
    return sorted(found, key=lambda terms: int(terms[0]))
