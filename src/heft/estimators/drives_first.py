"""Triangles that begin with terms of drives: no row but those of its own channel holds one.

Eliminated before the bodies, terms of different drives stay apart: a drive's rows hold its own
terms and the bodies that it moves. A triangle that begins with the bodies has filled up with their
products. Drives are found by the columns alone: those of two are orthogonal to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import triangle_of


@dataclass(frozen=True)
class DriveRows:
    """Rows of a triangle that begin with terms of one drive.

    Attributes:
        terms: Positions of its k terms, in the order in which they were eliminated.
        triangle: T of these terms, shape (k, k).
        bodies: Positions of the bodies' numbers that the drive moves, ascending, shape (b,).
        coupling: C on these, shape (k, b).
    """

    terms: NDArray[np.intp]
    triangle: Array
    bodies: NDArray[np.intp]
    coupling: Array

    def behind(self, count: int) -> DriveRows:
        """Return the rows of all but the first terms, which the first ones cannot change."""
        return DriveRows(
            self.terms[count:], self.triangle[count:, count:], self.bodies, self.coupling[count:]
        )

    def follow(self, count: int, unknown: Array) -> None:
        """Set the first terms to what makes their rows zero, given all other unknowns.

        Args:
            count: How many.
            unknown: All unknowns, shape (n,), overwritten.
        """
        first, others = self.terms[:count], self.terms[count:]
        pull = self.triangle[:count, count:] @ unknown[others]
        pull += self.coupling[:count] @ unknown[self.bodies]
        unknown[first] = -scipy.linalg.solve_triangular(self.triangle[:count, :count], pull)


@dataclass(frozen=True)
class DrivesFirst:
    """A triangle that begins with terms of drives, one drive after another, and ends with bodies.

    Attributes:
        drives: Rows of each drive.
        bodies: Triangle of the bodies' numbers, which come first among all, shape (n_b, n_b).
    """

    drives: tuple[DriveRows, ...]
    bodies: Array

    @staticmethod
    def of(rows: Array, bodies: int, order: NDArray[np.intp]) -> DrivesFirst:
        """Return the triangle of some rows.

        Args:
            rows: Shape (m, n).
            bodies: Number n_b of the first columns, of bodies.
            order: Positions of all terms, whose columns are independent, in the order in which each
                drive's are eliminated.
        """
        left = rows[:, :bodies].copy()
        of_bodies = np.any(left != 0.0, axis=1)
        rounding = max(rows.shape) * float(np.finfo(float).eps)
        lengths = rounding * np.linalg.norm(left, axis=0)
        found = []
        for terms in _by_drive(rows[:, order], rounding):
            columns = rows[:, order[terms]]
            held = np.any(columns != 0.0, axis=1)
            both = held & of_bodies
            shared = np.abs(columns[both].T @ rows[both, :bodies])
            floor = np.linalg.norm(columns, axis=0)[:, None] * lengths
            moved = np.flatnonzero(np.any(shared > floor, axis=0))
            across, triangle = np.linalg.qr(columns[held])
            coupling = across[both[held]].T @ rows[np.ix_(both, moved)]
            left[np.ix_(held, moved)] -= across @ coupling
            found.append(DriveRows(order[terms], triangle, moved, coupling))
        square = triangle_of(np.column_stack([left, np.zeros(len(left))]))[:-1, :-1]
        return DrivesFirst(tuple(found), square)


def _by_drive(columns: Array, rounding: float) -> list[NDArray[np.intp]]:
    """Return the sets of columns that are orthogonal to all others, each ascending."""
    if not columns.shape[1]:
        return []
    shared = columns.T @ columns
    lengths = np.sqrt(np.diag(shared))
    linked = np.abs(shared) > rounding * lengths[:, None] * lengths
    count, number = scipy.sparse.csgraph.connected_components(
        scipy.sparse.csr_array(linked), directed=False
    )
    return [np.flatnonzero(number == k) for k in range(count)]
