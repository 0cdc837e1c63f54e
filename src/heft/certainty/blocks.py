"""Blocks left out: what an estimate owes to any one contiguous part of the logs.

With `x_k` the estimate without block k of K, the covariance of the estimate is
`(K − 1)/K Σ_k (x_k − x̄)(x_k − x̄)ᵀ` [Kunsch1989]. It assumes nothing of the noise but that blocks
are long against its memory, and counts what no column describes as far as that differs from block
to block. Blocks are triangles that were summed anyway, so leaving one out needs no rows:
with R the triangle of all and `W_k = R_k R⁻¹`, the information without block k is
`Rᵀ(1 − W_kᵀ W_k)R`, formed in coordinates in which that of all is the identity.

Where constraints bind, the estimate without a block is the constrained one, to first order of what
binds: coefficients with a sign are solved for again, from the set that is positive in the estimate,
and a pseudo-inertia on the boundary of its cone moves in the boundary's tangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import (
    ConsistentFit,
    Estimate,
    PhysicallyConsistent,
    Scaled,
    inverse_of,
    sparse,
    unstack,
)
from heft.files import Keys, Number, check_fields
from heft.information import Bordered, Directions, Information, Labels, components

from .jackknife import FALLING, nonnegative


@dataclass(frozen=True)
class Block:
    """Information and score of a contiguous block of rows, for leaving it out."""

    # square root of its weighted information `Σ w² YᵀY`: columns of each component, and rows on
    # them. None for a block of an earlier experiment, of which only the score is kept: it is left
    # out to first order
    parts: tuple[tuple[NDArray[np.intp], Array], ...]
    score: Array  # its weighted score `Σ w² Yᵀ(τ − Y x)` at the estimate, shape (n,)

    def on(self, columns: NDArray[np.intp]) -> Array:
        """Return the rows that are not zero on these columns, shape (any, columns)."""
        place = np.full(len(self.score), -1)
        place[columns] = np.arange(len(columns))
        parts = [np.zeros((0, len(columns)))]
        for known, rows in self.parts:
            at = place[known]
            if (at >= 0).any():
                wide = np.zeros((len(rows), len(columns)))
                wide[:, at[at >= 0]] = rows if (at >= 0).all() else rows[:, at >= 0]
                parts.append(wide[wide.any(axis=1)])
        return parts[-1] if len(parts) == 2 else np.vstack(parts)

    @staticmethod
    def of(
        information: Sequence[Information],
        weights: Sequence[float],
        values: Array,
        maps: Sequence[Array] | None = None,
        earlier: Sequence[Array] | None = None,
    ) -> list[Block]:
        """Return blocks on n unknowns x.

        Args:
            weights: w of each channel's rows [1 / channel's unit].
            maps: T of each channel, whose regressor of x is Y T, shape (b, n); the identity if
                not given.
            earlier: For each channel the moments `Yᵀ(τ − Y β)` of blocks of earlier experiments,
                shape (blocks, b).
        """
        blocks = []
        alike = maps is not None and all(m is maps[0] for m in maps)
        if maps is None or (alike and np.array_equal(maps[0], np.eye(len(maps[0])))):
            maps = None  # x is β: no gain of a drive is unsure
        for part in information:
            seen = part if maps is None else _mapped(part, maps)
            # The channels' sum, whose rows are several times as few.
            total = seen.summed(dict(zip(seen.channels, weights, strict=True)))
            parts, score = [], np.zeros(len(values))
            for columns, whole in total.rows_of_each():
                rows, right = whole[:, :-1], whole[:, -1]
                parts.append((columns, rows))
                score[columns] = rows.T @ (right - rows @ values[columns])
            blocks.append(Block(tuple(parts), score))
        moments = [
            weights[c] ** 2 * (m if maps is None else m @ maps[c])
            for c, m in enumerate(earlier or ())
        ]
        scores = np.sum(moments, axis=0) if moments else np.zeros((0, len(values)))
        return blocks + [Block((), score) for score in scores]


def _mapped(part: Information, maps: Sequence[Array]) -> Information:
    """Return information about x, with each channel's map from x to β, shape (b, n)."""
    size = maps[0].shape[1]
    labels = Labels(tuple(map(str, range(size))), ("1",) * size)
    triangles = []
    for channel, triangle, own in zip(part.channels, part.triangles, maps, strict=True):
        alone = Information(part.labels, (channel,), (triangle,))
        triangles.append(alone.transformed(own, labels).triangles[0])
    return Information(labels, part.channels, tuple(triangles))


def block_moments(parts: Sequence[Information], values: Array) -> tuple[Array, ...]:
    """Return for each channel the moments `Yᵀ(τ − Y β)` of all blocks, shape (blocks, b)."""
    moments = np.array([part.moments(values) for part in parts])
    return tuple(np.moveaxis(moments, 1, 0))


@dataclass(frozen=True)
class Jackknife:
    """Block jackknife of base parameters and of physically consistent ones.

    Deviations D are returned as rows, with `DᵀD` the covariance.

    Raises:
        InvalidSetting: If there are fewer than two blocks.
    """

    # number K of blocks: enough for a deviation that is itself right to 1/√(2K), few enough that
    # blocks are long against the residual's memory
    blocks: int = 12
    # share of the information in a direction that is taken to be left without a block, at least.
    # Where one block alone shows a direction, nothing is known without it, and its deviation would
    # be infinite
    least_left: float = 0.1
    # most exchanges of all coefficients that are wrongly zero or positive, before they move one at
    # a time; see `nonnegative`
    rounds: int = 12

    def __post_init__(self) -> None:
        checks: Keys = {
            "blocks": Number("there are too few or too many blocks", 2, 1000, whole=True)
        }
        check_fields(self, checks)

    def of_base(self, estimate: Estimate, blocks: Sequence[Block]) -> Array:
        """Return jackknife deviations D, (K, b), of β from blocks on β with the fit's weights."""
        triangle = estimate.information.combined(estimate.fitted_with)
        inverse = Directions.of(triangle.R, triangle.rows).covariance_factor
        moved = np.zeros((len(blocks), len(inverse)))
        for part in components(inverse):
            own = part.of(inverse)
            for k, block in enumerate(blocks):
                inner = block.on(part.rows) @ own
                remaining = Left.of(inner, own.shape[1], self.least_left)
                moved[k, part.rows] = -own @ remaining.solution(block.score[part.rows] @ own)
        return _centred(moved)

    def of_consistent(
        self, solver: PhysicallyConsistent, found: ConsistentFit, blocks: Sequence[Block]
    ) -> Array:
        """Return jackknife deviations D, (K, n), of consistent x from unit-variance blocks on β."""
        scaled = solver.scaled(found.total, found.space)
        values = found.consistent.parameters.values
        moved = np.zeros((len(blocks), len(values)))
        for own in scaled.limbs:
            tangent = Tangent.of(scaled.part(own), values[own], solver.margin)
            columns = np.flatnonzero(np.any(found.space.matrix[:, own] != 0.0, axis=1))
            mapped = tangent.mapped(found.space.matrix[np.ix_(columns, own)])
            each = ((mapped(block.on(columns)), mapped(block.score[columns])) for block in blocks)
            for k, step in enumerate(tangent.without(self.rounds, self.least_left, each)):
                moved[k, own] = tangent.back @ step
        return _centred(moved)


def _centred(estimates: Array) -> Array:
    """Return estimates without one block each as deviations D, DᵀD their jackknife covariance."""
    count = len(estimates)
    if count < 2:
        return estimates[:0]
    return np.asarray(np.sqrt((count - 1) / count) * (estimates - estimates.mean(axis=0)))


@dataclass(frozen=True, eq=False)
class Left:
    """Information without a block, `1 − WᵀW`, its eigenvalues raised to a least value."""

    matrix: Array  # shape (n, n)
    lift: Array  # how much each smaller eigenvalue was raised, shape (k,)
    vectors: Array  # their eigenvectors, shape (n, k)

    @staticmethod
    def of(rows: Array, size: int, least: float) -> Left:
        """Return the information without a block of rows W, shape (any, n), n = `size`."""
        lift, vectors = np.zeros(0), np.zeros((size, 0))
        if not len(rows):
            return Left(np.eye(size), lift, vectors)
        matrix = np.eye(size) - rows.T @ rows
        try:
            np.linalg.cholesky(matrix - least * np.eye(size))
        except np.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(matrix, subset_by_value=(-np.inf, least))
            lift = least - values
            matrix += (vectors * lift) @ vectors.T
        return Left(matrix, lift, vectors)

    def solution(self, right: Array) -> Array:
        """Return x with `M x = y`, M the matrix and y of shape (n,)."""
        return np.asarray(scipy.linalg.solve(self.matrix, right, assume_a="pos"))


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
        residual = scaled.factor[:-1, :-1] @ unknown - scaled.factor[:-1, -1]
        steep = scaled.factor[:-1, :-1].T @ residual
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

    def mapped(self, matrix: Array) -> Callable[[Array], Array]:
        """Return the map of rows (..., b) to those on y, (..., m): `Y matrix back`."""
        onto = matrix @ self.back
        count = len(self.total.shared)  # of bodies, whose columns are full; those of terms are not
        seen = np.flatnonzero(onto[:, :count].any(axis=1))
        bodies, terms = np.ascontiguousarray(onto[seen, :count]), sparse(onto[:, count:])
        return lambda rows: np.concatenate([rows[..., seen] @ bodies, rows @ terms], axis=-1)

    @cached_property
    def rows(self) -> Array:
        """Square root of the information `total`, a row at each unknown's place, shape (m, m)."""
        return self.total.placed()[:-1, :-1]

    def among(self, positive: NDArray[np.bool_]) -> Among:
        """Return the steps with all coefficients with a sign held at zero but some, `positive`."""
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
        inverse, rows = inverse_of(self.total), self.rows
        positive = self.room > 0.0
        among = self.among(positive)
        lengths = np.linalg.norm(rows[:, self.signed], axis=0)
        for inner, score in blocks:
            remaining = Left.of(inverse.times(inner), len(rows), least)
            steep = self.gradient + score
            while True:
                pulled = rows[:, among.columns].T @ remaining.vectors
                step, height = among.step(exchanges, inner, remaining.lift, pulled, steep)
                moved = np.zeros(len(steep))
                moved[among.columns] = step
                slopes = (steep + rows.T @ (remaining.matrix @ (rows @ moved)))[self.signed]
                falling = ~positive & (slopes < -FALLING * height * lengths)
                if not falling.any():
                    break
                positive = positive | falling
                among = self.among(positive)
            yield moved


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
            inner: Rows of the block on all unknowns, shape (any, m).
            lift: Λ, by which directions with less than the least share are raised, shape (k,).
            pulled: RᵀV of these directions V, shape (a, k).
            steep: Derivative of half the sum of squares without the block by all, shape (m,).
        """
        R, first = self.triangle, len(self.columns) - len(self.room)
        white = _back(R, inner[:, self.columns].T)
        raised = _back(R, pulled)
        information = np.eye(len(R)) - white @ white.T + (raised * lift) @ raised.T
        C = np.asarray(np.linalg.cholesky(information).T, dtype=np.float64)
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
        if constraints.equal[k] or slack[k] < 1e-6:  # so close, in scaled unknowns, it binds
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
