"""Newton's equations of the nearest consistent robot, whose constraints are of single parts.

What constraints add to RᵀR stays within a body or a term of a drive, so that drives are eliminated
one by one, and what is factored is a matrix of the bodies alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array

from .drives_first import DriveRows

FULL = 2e5  # entries up to which products with a full matrix cost less than with a sparse one


@dataclass(frozen=True)
class Norm:
    """Norm `‖R y‖`, y the terms that constraints hold, drive by drive, and then the bodies."""

    triangles: Array  # T of each drive, filled up with ones to the same size, shape (g, k, k)
    # where its terms stand in y; those filled up one behind the last, shape (g, k)
    places: NDArray[np.intp]
    # of each drive, where its bodies' numbers stand behind the terms, from first to last, and C on
    # these
    links: tuple[tuple[slice, Array], ...]
    rows: Any  # rows of all drives on y, shape (t, n)
    bodies: Array  # triangle of bodies, shape (n_b, n_b)
    square: Array  # its square, shape (n_b, n_b)

    @staticmethod
    def of(drives: tuple[DriveRows, ...], bodies: Array) -> Norm:
        """Return the norm of the terms of some drives, in their order, and bodies."""
        count, most = (f([len(d.terms) for d in drives] or [0]) for f in (sum, max))
        triangles = np.tile(np.eye(most), (len(drives), 1, 1))
        places = np.full((len(drives), most), count)
        rows, links, first = np.zeros((count, count + len(bodies))), [], 0
        for k, drive in enumerate(drives):
            size = len(drive.terms)
            own = np.arange(first, first + size)
            triangles[k, :size, :size], places[k, :size] = drive.triangle, own
            rows[np.ix_(own, own)] = drive.triangle
            rows[np.ix_(own, count + drive.bodies)] = drive.coupling
            span = slice(*(drive.bodies[[0, -1]] + [0, 1])) if len(drive.bodies) else slice(0, 0)
            filled = np.zeros((most, span.stop - span.start))
            filled[:size, drive.bodies - span.start] = drive.coupling
            links.append((span, filled))
            first += size
        held: Any = rows if rows.size <= FULL else scipy.sparse.csr_array(rows)
        return Norm(triangles, places, tuple(links), held, bodies, bodies.T @ bodies)

    @property
    def terms(self) -> int:
        """Number of terms of drives."""
        return int(self.rows.shape[0])

    def times(self, y: Array) -> Array:
        """Return R y, shape (n,)."""
        return np.concatenate([self.rows @ y, self.bodies @ y[self.terms :]])

    def transposed(self, r: Array) -> Array:
        """Return Rᵀ r, shape (n,)."""
        out = np.array(self.rows.T @ r[: self.terms])
        out[self.terms :] += self.bodies.T @ r[self.terms :]
        return out

    def solved(self, g: Array) -> Array:
        """Return R⁻ᵀ g, shape (n,)."""
        turned = np.swapaxes(self.triangles, 1, 2)
        first = self.gathered(
            np.asarray(np.linalg.solve(turned, self.by_drive(g[: self.terms])[..., None]))
        )
        left = g[self.terms :] - (self.rows.T @ first)[self.terms :]
        return np.append(
            first, scipy.linalg.solve_triangular(self.bodies, left, trans="T", check_finite=False)
        )

    def by_drive(self, terms: Array, filled: float = 0.0) -> Array:
        """Return values of terms arranged drive by drive, padded with `filled`, shape (g, k)."""
        return np.append(terms, filled)[self.places]

    def gathered(self, by_drive: Array) -> Array:
        """Return values of terms, shape (t,), from those drive by drive, shape (g, k, 1)."""
        out = np.zeros(self.terms + 1)
        out[self.places] = by_drive[..., 0]
        return out[:-1]


@dataclass(frozen=True)
class Step:
    """Newton's equations `(RᵀR + d + D) y = g`, factored."""

    norm: Norm  # R
    d: Array  # added on the diagonal of terms, above 0, shape (t,)
    D: Array  # added to each body, shape (links, 10, 10)
    inverses: Array  # of each drive's equations, shape (g, k, k)
    factor: Array  # Cholesky factor of what is left for bodies, shape (n_b, n_b)

    @staticmethod
    def of(norm: Norm, d: Array, D: Array) -> Step:
        """Return the equations; raises `LinAlgError` if rounding leaves them indefinite."""
        T, turned = norm.triangles, np.swapaxes(norm.triangles, 1, 2)
        eye, held = np.eye(T.shape[1]), norm.by_drive(d, 1.0)
        inverses = np.asarray(np.linalg.inv(turned @ T + held[:, :, None] * eye))
        # What a drive leaves, C^T (1 + T d^-1 T^T)^-1 C, has no difference of large numbers.
        roots = np.linalg.inv(np.linalg.cholesky(eye + (T / held[:, None, :]) @ turned))
        left = norm.square.copy()
        for root, (own, coupling) in zip(roots, norm.links, strict=True):
            rows = root @ coupling
            left[own, own] += rows.T @ rows
        for k, added in enumerate(D):
            ten = slice(10 * k, 10 * k + 10)
            left[ten, ten] += added
        factor = scipy.linalg.cholesky(left, check_finite=False, overwrite_a=True)
        return Step(norm, d, D, inverses, factor)

    def solve(self, g: Array) -> Array:
        """Return y, refined once, shape (n,)."""
        y = self._solved(g)
        left = g - self.norm.transposed(self.norm.times(y))
        left[: self.norm.terms] -= self.d * y[: self.norm.terms]
        left[self.norm.terms :] -= (self.D @ y[self.norm.terms :].reshape(-1, 10, 1)).ravel()
        return y + self._solved(left)

    def _solved(self, g: Array) -> Array:
        norm, t = self.norm, self.norm.terms
        terms, bodies = np.zeros(len(g)), np.zeros(len(g))
        terms[:t] = self._of_terms(g[:t])
        right = g[t:] - (norm.rows.T @ (norm.rows @ terms))[t:]
        bodies[t:] = scipy.linalg.cho_solve((self.factor, False), right, check_finite=False)
        terms[:t] -= self._of_terms((norm.rows.T @ (norm.rows @ bodies))[:t])
        return terms + bodies

    def _of_terms(self, g: Array) -> Array:
        return self.norm.gathered(self.inverses @ self.norm.by_drive(g)[..., None])


@dataclass(frozen=True)
class Walls:
    """Linear constraints on y of which each holds one term, or numbers of one body."""

    # terms, slopes: the term of each of the first ones, and its coefficient, shape (a,)
    terms: NDArray[np.intp]
    slopes: Array
    # links, rows: the body of each of the others, shape (b,), and its coefficients, (b, 10)
    links: NDArray[np.intp]
    rows: Array
    order: NDArray[np.intp]  # where each stands among the constraints given, shape (a + b,)
    count: int  # number of terms

    @staticmethod
    def of(rows: Array, count: int) -> Walls | None:
        """Return the constraints of some rows on y; None if one holds more than a term or a body.

        Args:
            rows: Shape (k, n).
            count: Number of terms, which come first.
        """
        held, shape = rows != 0.0, ((rows.shape[1] - count) // 10, 10)
        by_link = held[:, count:].reshape(len(rows), *shape).any(axis=2)
        single = held[:, :count].sum(axis=1)
        if ((single + by_link.sum(axis=1)) != 1).any():
            return None
        first, others = np.flatnonzero(single == 1), np.flatnonzero(single == 0)
        terms, links = (np.nonzero(h)[1] for h in (held[first, :count], by_link[others]))
        tens = rows[others][:, count:].reshape(len(others), *shape)
        return Walls(
            terms,
            rows[first, terms],
            links,
            tens[np.arange(len(others)), links],
            np.append(first, others),
            count,
        )

    def at(self, y: Array) -> Array:
        """Return A y, shape (a + b,)."""
        bodies = y[self.count :].reshape(-1, 10)[self.links]
        return np.append(self.slopes * y[self.terms], np.sum(self.rows * bodies, axis=1))

    def pushed(self, push: Array, size: int) -> Array:
        """Return Aᵀ push, shape (n,)."""
        out = np.zeros(size)
        np.add.at(out, self.terms, self.slopes * push[: len(self.terms)])
        bodies = out[self.count :].reshape(-1, 10)
        np.add.at(bodies, self.links, self.rows * push[len(self.terms) :, None])
        return out

    def stiffness(self, weights: Array, bodies: Array) -> tuple[Array, Array]:
        """Return `Aᵀ diag(weights) A` on terms, and its sum with `bodies` on bodies.

        Args:
            weights: Shape (a + b,).
            bodies: Shape (links, 10, 10).
        """
        terms, of_bodies = np.zeros(self.count), bodies.copy()
        np.add.at(terms, self.terms, self.slopes**2 * weights[: len(self.terms)])
        squares = self.rows[:, :, None] * self.rows[:, None, :]
        np.add.at(of_bodies, self.links, weights[len(self.terms) :, None, None] * squares)
        return terms, of_bodies
