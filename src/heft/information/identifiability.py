"""Identifiability: base parameters with readable names, rank and condition of the data.

Some columns of a robot's regressor are always zero, others are linear combinations of columns
before them, whatever the motion. Only the *base parameters* are identifiable, one for each
independent column k:

    β_k = π_k + Σ_d K_kd π_d,      Y π = Y_kept β        [Gautier1990]

The columns are taken in a fixed order, so the same robot always gives the same base set:
bodies from the base outwards; in each body first moments, then the inertia `xx xy yy xz yz
zz`, then the mass; after the bodies rotor inertias, then friction. A column is dependent
when its residual after projection on the columns before it is below `TOLERANCE` of its own
length, or below a stated share of the longest column of its kind: what the rounding of a model
file's angles leaves of columns that would depend on others, or be zero. Bodies further out are
thereby regrouped on those further in, as Khalil's rules do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.errors import FitError, TooLittleData

from .bordered import BorderedInverse
from .connectivity import Component, components
from .inertia import PARAMETER_COUNT
from .parameters import Labels
from .square_root import Information, Summed, Triangle

# Noise-free columns that depend on each other leave at most 1e-9 of their length where angles are
# exact; independent ones of the example robots leave half or more.
TOLERANCE = 1.5e-8
WITHIN_BODY = (1, 2, 3, 4, 5, 6, 7, 8, 9, 0)  # mass last: it regroups on the parent's inertia


def column_order(bodies: int, columns: int) -> tuple[int, ...]:
    """Return the order in which so many columns are tested: those of bodies first, masses last."""
    order = [PARAMETER_COUNT * b + k for b in range(bodies) for k in WITHIN_BODY]
    return (*order, *range(PARAMETER_COUNT * bodies, columns))


@dataclass(frozen=True)
class BaseParameters:
    """Base parameters β = K π: the identifiable combinations of the standard parameters."""

    standard: Labels  # labels of all p standard parameters π
    kept: tuple[int, ...]  # positions in π of the b independent columns, ascending
    matrix: Array  # regrouping matrix K, shape (b, p), with `β = K π` and `Y = Y_kept K`
    # positions in π whose column is always zero: they have no effect on the measurement
    unseen: tuple[int, ...]
    # largest relative residual of a column called dependent (of the longest of its kind where
    # angles are rounded), and smallest of one kept
    gap: tuple[float, float]

    @cached_property
    def labels(self) -> Labels:
        """Labels of β, length b: each base parameter is named after its leading parameter."""
        chosen = self.standard.select(self.kept)
        return replace(chosen, frame=f"{self.standard.frame}/base")

    @property
    def rank(self) -> int:
        """Number of base parameters b, the structural rank of the regressor."""
        return len(self.kept)

    def spread(self, values: Array) -> Array:
        """Return one π (p,) that no row tells from β: β at the positions `kept`, else zero."""
        standard = np.zeros(len(self.standard))
        standard[list(self.kept)] = values
        return standard

    def expression(self, k: int) -> str:
        """Return base parameter k as text, such as `link3.I.zz + 0.42 link4.m`."""
        row = self.matrix[k]
        terms = [self.standard.names[self.kept[k]]]
        for d in np.flatnonzero(row):
            if d == self.kept[k]:
                continue
            size = abs(row[d])
            factor = "" if np.isclose(size, 1.0, rtol=1e-9) else f"{size:.4g} "
            terms.append(f"{'+' if row[d] > 0 else '-'} {factor}{self.standard.names[d]}")
        return " ".join(terms)

    def expressions(self) -> tuple[str, ...]:
        """Return all base parameters as text, in the order of β."""
        return tuple(self.expression(k) for k in range(self.rank))

    def alone(self) -> tuple[int, ...]:
        """Return positions in π of individually identifiable (not regrouped) parameters."""
        lonely = []
        for k, position in enumerate(self.kept):
            if np.count_nonzero(self.matrix[k]) == 1:
                lonely.append(position)
        return tuple(lonely)


def base_parameters(
    rows: Array, labels: Labels, order: Sequence[int], rounding: float = 0.0
) -> BaseParameters:
    """Return the base parameters of a regressor, by Gram–Schmidt on its scaled columns.

    Args:
        rows: Regressor Y, or a triangle R with `RᵀR = YᵀY`, shape (m, p), from motions that
            excite every structurally identifiable parameter; noise-free.
        labels: The p standard parameters.
        order: The order in which columns are tested, a permutation of `range(p)`; see
            `column_order`.
        rounding: Share of the longest column of the same unit up to which the residual of a column
            after those before it counts as zero, whatever its own length.

    Raises:
        FitError: If no clear gap separates dependent from independent columns, because of
            numerical noise.
    """
    norms = np.linalg.norm(rows, axis=0)
    _, unit = np.unique(np.array(labels.units), return_inverse=True)
    longest = np.zeros(unit.max(initial=-1) + 1)
    np.maximum.at(longest, unit, norms)
    longest = longest[unit]
    short = np.maximum(1e-12 * norms.max(initial=0.0), rounding * longest)
    basis = np.zeros(rows.shape, order="F")
    kept: list[int] = []
    dependent: list[int] = []
    unseen: list[int] = []
    worst_dependent, least_kept = 0.0, 1.0
    for j in order:
        if norms[j] <= short[j]:
            unseen.append(j)
            continue
        rest = rows[:, j] / norms[j]
        spanned = basis[:, : len(kept)]
        for _ in range(2):  # once more takes out what rounding left [Giraud2005]
            rest = rest - spanned @ (spanned.T @ rest)
        share = float(np.linalg.norm(rest))
        if share <= TOLERANCE or share * norms[j] <= short[j]:
            dependent.append(j)
            worst_dependent = max(
                worst_dependent, share * norms[j] / longest[j] if rounding else share
            )
        else:
            basis[:, len(kept)] = rest / share
            kept.append(j)
            least_kept = min(least_kept, share)
    if rounding == 0.0 and 0.0 < least_kept < 10.0 * worst_dependent:
        raise FitError(
            "it is not clear which columns are independent",
            got=f"shares left of {worst_dependent:.1e} and {least_kept:.1e}",
            cure="check the model for lengths that differ by many orders of magnitude",
        )
    kept.sort()
    matrix = np.zeros((len(kept), len(labels)))
    matrix[np.arange(len(kept)), kept] = 1.0
    if kept and dependent:
        scale = norms[kept]
        answer = scipy.linalg.lstsq(rows[:, kept] / scale, rows[:, dependent])[0] / scale[:, None]
        # Below this the coefficient is the rounding of a zero.
        relative = np.abs(answer) * scale[:, None] / norms[dependent]
        matrix[:, dependent] = np.where(relative < max(1e-9, rounding), 0.0, answer)
    return BaseParameters(
        standard=labels,
        kept=tuple(kept),
        matrix=matrix,
        unseen=tuple(sorted(unseen)),
        gap=(worst_dependent, least_kept),
    )


@dataclass(frozen=True)
class DataRank:
    """Numerical rank and condition of recorded data, with columns scaled to unit length."""

    rank: int  # number of singular values above `tolerance` times the largest
    columns: int  # number of columns; the data are sufficient if `rank` equals it
    tolerance: float  # `max(rows, columns) · eps`, the rounding error of the sums
    condition: float  # ratio of the largest singular value to the smallest
    # names of the parameters with the largest weights in the least excited direction
    weakest: tuple[str, ...]


@dataclass(frozen=True)
class Directions:
    """Singular value decomposition UΣVᵀ of a matrix, its columns scaled to unit length.

    It is that of the matrix' components, each by itself. Where a triangle is certain to be of full
    rank, what only asks for its inverse does without singular values.
    """

    lengths: Array  # lengths of the columns before scaling, shape (n,)
    scaled: Array  # the matrix with columns of unit length, or zero; shape (m, n)
    rows: int  # number of rows that the matrix stands for
    # lower bound of `tolerance`, for errors other than rounding: a direction whose singular value
    # is below this share of the largest counts as unidentifiable
    visible: float = 0.0

    @staticmethod
    def of(R: Array, rows: int, visible: float = 0.0) -> Directions:
        """Return the decomposition of a triangle R that stands for rows.

        Args:
            R: Shape (m, n).
            rows: Number of rows that it stands for, by which rounding is judged.
            visible: Share of the largest singular value below which a direction counts as
                unidentifiable, if that is more than rounding.
        """
        lengths = np.linalg.norm(R, axis=0)
        return Directions(lengths, R / _or_one(lengths), rows, visible)

    @cached_property
    def _parts(self) -> tuple[Component, ...]:
        return components(self.scaled)

    @cached_property
    def _decomposed(self) -> tuple[Array, Array, Array]:
        return decomposition(self.scaled, self._parts)

    @property
    def left(self) -> Array:
        """U, shape (m, min(m, n))."""
        return self._decomposed[0]

    @property
    def singular(self) -> Array:
        """Diagonal of Σ, descending, shape (min(m, n),)."""
        return self._decomposed[1]

    @property
    def right(self) -> Array:
        """Vᵀ, shape (n, n); its last rows are the directions that no row determines."""
        return self._decomposed[2]

    @cached_property
    def _certain(self) -> tuple[tuple[Component, Array | None, Array, Array], ...] | None:
        """Components without zero columns, Q (None for 1), R and R⁻¹, if surely of full rank.

        None if that is not certain: a singular value is at least 1/‖R⁻¹‖ and at most √n, since
        columns have unit length.
        """
        parts: list[tuple[Component, Array | None, Array, Array]] = []
        size = 0.0
        for part in self._parts:
            seen = replace(part, columns=part.columns[self.lengths[part.columns] > 0.0])
            if not len(seen.columns):
                continue
            if len(seen.rows) < len(seen.columns):
                return None
            Q, R = None, seen.of(self.scaled)
            if len(R) > R.shape[1] or np.tril(R, -1).any():
                Q, R = np.linalg.qr(R)
            inverse, singular = scipy.linalg.lapack.dtrtri(R)
            if singular:
                return None
            parts.append((seen, Q, R, inverse))
            with np.errstate(over="ignore"):  # infinite is right
                size = float(np.hypot(size, np.linalg.norm(inverse)))
        limit = self.tolerance * np.sqrt(len(self.lengths))
        return tuple(parts) if size * limit < 1.0 else None

    @property
    def tolerance(self) -> float:
        """Share of the largest singular value above which a direction is identifiable."""
        rounding = max(self.rows, len(self.lengths)) * float(np.finfo(float).eps)
        return max(rounding, self.visible)

    @cached_property
    def blind(self) -> NDArray[np.bool_]:
        """Which columns have a part in an unidentifiable direction, shape (n,)."""
        if self._certain is not None:
            return np.asarray(self.lengths == 0.0)
        hidden = np.linalg.norm(self.right[self.rank :], axis=0)
        # By that share in directions that are not seen a column is not determined.
        return np.asarray(hidden > max(1e-6, 100.0 * self.visible))

    @cached_property
    def rank(self) -> int:
        """Number of identifiable directions."""
        if self._certain is not None:
            return int(np.count_nonzero(self.lengths))
        # Vectors take five times as long.
        each = [np.linalg.svd(part.of(self.scaled), compute_uv=False) for part in self._parts]
        singular = np.concatenate([np.zeros(0), *each])
        return int(np.sum(singular > self.tolerance * singular.max(initial=0.0)))

    @cached_property
    def inverse(self) -> Array:
        """Factor V Σ⁻¹ of the truncated pseudo-inverse for unscaled columns, shape (n, rank)."""
        r = self.rank
        return np.asarray(self.right[:r].T / self.singular[:r] / _or_one(self.lengths)[:, None])

    @cached_property
    def covariance_factor(self) -> Array:
        """G with `G Gᵀ` the truncated pseudo-inverse of RᵀR, shape (n, rank).

        It is R⁻¹ where the rank is certain, else `inverse`.
        """
        if self._certain is None:
            return self.inverse
        factor, first = np.zeros((len(self.lengths), self.rank)), 0
        for part, _, _, inverse in self._certain:
            own = slice(first, first + len(inverse))
            factor[part.columns, own] = inverse / self.lengths[part.columns, None]
            first = own.stop
        return factor

    @property
    def deviations(self) -> Array:
        """Standard deviation of each parameter, rows being of unit variance, shape (n,).

        Infinite where it has a part in an unidentifiable direction.
        """
        return np.where(self.blind, np.inf, np.linalg.norm(self.covariance_factor, axis=1))

    def shortest(self, z: Array) -> Array:
        """Return the minimum-norm solution of R x = z; the norm is that of the scaled columns.

        Args:
            z: Right-hand side, shape (n,), in the unit of the rows.

        Returns:
            x for the unscaled columns, shape (n,), in the parameters' units.
        """
        if self._certain is not None:
            # Back substitution: more exact where columns are nearly dependent.
            solution = np.zeros(len(self.lengths))
            for part, Q, R, _ in self._certain:
                pull = z[part.rows] if Q is None else Q.T @ z[part.rows]
                values = scipy.linalg.solve_triangular(R, pull)
                solution[part.columns] = values / self.lengths[part.columns]
            return solution
        return np.asarray(self.inverse @ (self.left[:, : self.rank].T @ z))

    @property
    def condition(self) -> float:
        """Condition number, largest over smallest singular value; infinite with a zero column."""
        if not len(self.lengths) or (self.lengths == 0.0).any() or not self.singular[-1] > 0.0:
            return float("inf")
        return float(self.singular[0] / self.singular[-1])

    def summary(self, labels: Labels) -> DataRank:
        """Return rank and condition, with the names of the n columns from `labels`."""
        size = len(self.lengths)
        last = np.abs(self.right[-1]) if size else np.zeros(0)
        names = [labels.names[i] for i in np.argsort(-last)[:4] if last[i] > 0.1]
        return DataRank(self.rank, size, self.tolerance, self.condition, tuple(names))


def decomposition(
    matrix: Array, parts: Sequence[Component] | None = None
) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition UΣVᵀ of a matrix, component by component.

    Args:
        parts: The components of the matrix; looked for if not given.

    Returns:
        U, shape (m, min(m, n)), the diagonal of Σ, descending, shape (min(m, n),), and Vᵀ, shape
        (n, n), whose last rows are directions that no row tells.
    """
    parts = components(matrix) if parts is None else parts
    if len(parts) == 1:
        return _decomposed(matrix)
    m, n = matrix.shape
    vectors, singular, right = np.zeros((m, min(m, n))), np.zeros(min(m, n)), np.zeros((n, n))
    each = [(part, *_decomposed(part.of(matrix))) for part in parts]
    order = np.argsort(-np.concatenate([s for _, _, s, _ in each]), kind="stable")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    first, beyond = 0, len(order)
    for part, U, own, V in each:
        mine = place[first : first + len(own)]
        singular[mine] = own
        vectors[np.ix_(part.rows, mine)] = U
        rest = np.arange(beyond, beyond + len(V) - len(own))
        right[np.ix_([*mine, *rest], part.columns)] = V
        first, beyond = first + len(own), beyond + len(rest)
    return vectors, singular, right


def _decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    """Return U, singular values and Vᵀ of one component, shapes (m, min), (min,) and (n, n)."""
    U, singular, right = np.linalg.svd(matrix, full_matrices=len(matrix) < matrix.shape[1])
    return U, singular, right


def inverses(total: Summed, visible: float = 0.0) -> tuple[BorderedInverse, ...] | None:
    """Return the inverse of each component of a sum whose columns are certain to be independent.

    None if that is not certain, by the rule of `Directions`; columns that are zero have no inverse.
    """
    each, size = [], 0.0
    for part in total.parts:
        if not part.lengths.any():
            continue
        inverse = part.inverse
        if inverse is None:
            return None
        each.append(inverse)
        size = float(np.hypot(size, np.linalg.norm(part.lengths * inverse.deviations)))
    rounding = max(total.rows, total.size) * float(np.finfo(float).eps)
    return tuple(each) if size * max(rounding, visible) * np.sqrt(total.size) < 1.0 else None


def shortest(
    information: Information, weights: Mapping[str, float] | None, visible: float = 0.0
) -> Array:
    """Return the least-squares solution of least norm, that of columns scaled to one, shape (p,).

    Args:
        information: About p parameters.
        weights: Factor of each channel's rows, by name; ones if None.
    """
    asked = (weights and frozenset(weights.items()), visible)
    if asked not in information.solutions:
        total = information.summed(weights)
        if inverses(total, visible) is None:
            triangle = total.triangle()
            values = Directions.of(triangle.R, triangle.rows, visible).shortest(triangle.z)
        else:
            values = total.solution()
        information.solutions[asked] = read_only(values)
    return information.solutions[asked]


def _or_one(lengths: Array) -> Array:
    return np.where(lengths > 0.0, lengths, 1.0)


def solve(triangle: Triangle) -> Array:
    """Return the least-squares solution π of a triangle of full rank.

    Args:
        triangle: Weighted sum over the channels, as `Information.combined` returns it.

    Raises:
        TooLittleData: If the columns are linearly dependent, to the rounding of the triangle
            itself. No minimum-norm solution is substituted.
    """
    size = len(triangle.columns)
    seen = Directions.of(triangle.R, size)
    if seen.rank < size:
        zero = bool((seen.lengths == 0.0).any())
        raise TooLittleData(
            "the rows do not determine all parameters",
            got="a column that is zero" if zero else f"rank {seen.rank} of {size} columns",
            cure="record a motion that moves every joint, or solve for base parameters only",
        )
    # Back substitution: more exact than by singular vectors where columns are nearly dependent.
    scaled = scipy.linalg.solve_triangular(triangle.R / seen.lengths, triangle.z)
    return np.asarray(scaled / seen.lengths)


def data_rank(R: Array, labels: Labels, rows: int) -> DataRank:
    """Return rank and condition of a triangle R that stands for so many rows."""
    return Directions.of(R, rows).summary(labels)


def channel_ranks(information: Information) -> dict[str, int]:
    """Return for each channel the number of combinations that it identifies by itself."""
    ranks = {}
    for name, triangle in zip(information.channels, information.triangles, strict=True):
        ranks[name] = Directions.of(triangle.R, triangle.rows).rank
    return ranks


def visible_share(posterior: Array, prior: Array) -> NDArray[np.float64]:
    """Return the variance reduction by data, 1 − posterior/prior, clipped to [0, 1].

    Zero means that the data say nothing of a parameter, one that they determine it alone.

    Args:
        posterior: Variances after the fit, shape (n,).
        prior: Variances before it, shape (n,); where one is zero the share is 1.
    """
    return np.clip(1.0 - posterior / np.where(prior > 0.0, prior, np.inf), 0.0, 1.0)
