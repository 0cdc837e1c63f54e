"""Terms of drives that are projected out of possible fits, drive by drive.

Terms of two drives stand in rows of different channels: their columns are orthogonal, whatever
triangle the rows have become. So what they span is decomposed a drive at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import Directions, orthogonal_sets

# Share of a quantity in what the data leave open, from which it is open.
HIDDEN = 1e-6


@dataclass(frozen=True)
class TermDirections:
    """Column space of the terms' columns F."""

    seen: Array  # Q, an orthonormal basis of it, shape (m, r)
    inverse: Array  # G, with G Qᵀ the pseudo-inverse of F, shape (f, r)
    forward: Array  # Qᵀ F, shape (r, f)
    blind: NDArray[np.bool_]  # which terms have a part in what no row tells of terms, shape (f,)

    @staticmethod
    def of(columns: Array, rows: int) -> TermDirections:
        """Return the directions.

        Args:
            columns: F, shape (m, f).
            rows: Number of rows that these stand for, by which rounding is judged.
        """
        size = columns.shape[1]
        blind = np.ones(size, dtype=np.bool_)
        parts: list[tuple[Array, Array]] = []
        for own in orthogonal_sets(columns, rows * float(np.finfo(float).eps)):
            shown = Directions.of(columns[:, own], rows)
            inverse = np.zeros((size, shown.rank))
            inverse[own], blind[own] = shown.inverse, shown.blind
            parts.append((shown.left[:, : shown.rank], inverse))
        seen = np.hstack([np.zeros((len(columns), 0)), *(left for left, _ in parts)])
        inverse = np.hstack([np.zeros((size, 0)), *(inverse for _, inverse in parts)])
        return TermDirections(seen, inverse, seen.T @ columns, blind)

    def without(self, v: Array) -> Array:
        """Return columns or a right-hand side less their part in it, shape (m, any) or (m,)."""
        return np.asarray(v - self.seen @ (self.seen.T @ v))

    def surely_positive(
        self, bodies: Array, right: Array, rows: int, energy: float, surely: float
    ) -> NDArray[np.bool_]:
        """Return which terms are above 0 in every fit, consistent or not, shape (f,).

        Args:
            bodies: Columns of the bodies' numbers, shape (m, b).
            right: Right-hand side, shape (m,).
            rows: Number of rows that these stand for.
            energy: Largest squared misfit.
            surely: Factor on a term's largest decrease within the misfit that must leave it above
                0.
        """
        lengths = np.linalg.norm(bodies, axis=0)
        lengths[lengths == 0.0] = 1.0
        # Judged by their length before: what terms explain wholly leaves rounding.
        shown = Directions(lengths, self.without(bodies) / lengths, rows)
        left, pulled = shown.left[:, : shown.rank], self.seen.T @ right
        rest = right - self.seen @ pulled
        seen = left.T @ rest
        rest = rest - left @ seen  # whose square is no difference of large numbers
        room = max(energy - float(rest @ rest), 0.0)
        taken = self.inverse @ (self.seen.T @ bodies)  # by each body's number, of the terms
        across = taken @ shown.inverse
        deviations = np.hypot(np.linalg.norm(self.inverse, axis=1), np.linalg.norm(across, axis=1))
        least = self.inverse @ pulled - across @ seen - surely * np.sqrt(room) * deviations
        open_bodies = shown.right[shown.rank :].T
        follows = np.linalg.norm(self.forward, axis=0)[:, None] * (
            taken @ (open_bodies / lengths[:, None])
        )
        sizes = np.hypot(1.0, np.linalg.norm(follows, axis=0))
        hidden = np.linalg.norm(follows / sizes, axis=1) > HIDDEN
        return np.asarray((least > 0.0) & ~hidden & ~self.blind)


@dataclass(frozen=True)
class Eliminated:
    """Parameters f without constraints, projected out: others u leave them a ball of values.

    With R f-columns of rank r, `f = inverse (e + right − columns u)`, where ‖e‖² is what f adds to
    the squared misfit of the others u. A linear function of f needs e along one direction only.
    """

    metric: scipy.sparse.csc_array  # `x = metric @ f` beside what u adds, shape (N, f)
    inverse: Array  # shape (f, r)
    forward: Array  # its inverse, `forward inverse = 1`, shape (r, f)
    # columns, right: what u and the data say of it, shape (r, n) and (r,)
    columns: Array
    right: Array

    def part(self, c: Array) -> tuple[Array, float, float]:
        """Return the part of c·x from f: coefficients of u, a constant, and the slope along e.

        Args:
            c: Coefficients of all parameters x, shape (N,).

        Returns:
            Shape (n,); a number; the slope, infinite where the data leave c·x open.
        """
        asked = np.asarray(c @ self.metric)
        if not asked.any():
            return np.zeros(self.columns.shape[1]), 0.0, 0.0
        slope = asked @ self.inverse
        told = slope @ self.forward
        if np.linalg.norm(told - asked) > HIDDEN * np.linalg.norm(asked):
            return np.zeros(self.columns.shape[1]), 0.0, np.inf
        return -slope @ self.columns, float(slope @ self.right), float(np.linalg.norm(slope))
