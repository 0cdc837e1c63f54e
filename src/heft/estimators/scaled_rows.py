"""Rows and prior on unknowns that are scaled by the metric of the cone, limb by limb.

A limb is a part of a robot of which no row tells anything together with the others: a problem of
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import (
    Bordered,
    BorderedInverse,
    ChannelRows,
    ParameterSpace,
    Summed,
    Triangle,
    connected,
    decomposition,
    sandwich,
    sparse,
    triangle_of,
)

from .feasible_set import LinearConstraints, scaled_metric

DRIVE_RIDGE = 1e-6  # of a drive column's own length: acts only where the data have no information


@dataclass(frozen=True)
class Scaled:
    """Rows and prior on scaled unknowns u, `x = back @ u`: bodies in their metric, then drives."""

    space: ParameterSpace  # what x is
    constraints: LinearConstraints  # on u
    metric: Array  # of the b numbers of bodies, shape (b, b)
    scale: Array  # lengths of columns, 1 for bodies, shape (n,)
    weights: Array  # roots of the prior's information, shape (n,)
    # triangles of the data, rows of unit variance, and of data and prior, drives first
    seen: Bordered
    triangle: Bordered
    start: Array  # u of the model file, zero for drives, shape (n,)
    strengths: Array  # of the prior of each of the bodies' numbers
    silent: NDArray[np.intp]  # positions of drive parameters whose columns are zero in the data
    known: Array  # those of the rows that are not of the data but known from elsewhere, (any, n)

    @cached_property
    def back(self) -> Any:
        """The matrix with `x = back @ u`, sparse, shape (n, n)."""
        drives = scipy.sparse.diags_array(1.0 / self.scale[len(self.metric) :])
        return scipy.sparse.block_diag((sparse(self.metric), drives), format="csr")

    def outward(self, covariance: Array) -> Array:
        """Return the covariance of x, (n, n), of that of u, which it takes the place of."""
        bodies, matrix = len(self.metric), sparse(self.metric)
        top = matrix @ covariance[:bodies]
        covariance[:bodies, :bodies] = matrix @ top[:, :bodies].T
        covariance[bodies:, bodies:] /= np.outer(self.scale[bodies:], self.scale[bodies:])
        covariance[:bodies, bodies:] = beside = top[:, bodies:] / self.scale[bodies:]
        covariance[bodies:, :bodies] = beside.T
        return covariance

    @cached_property
    def factor(self) -> Array:
        """Rows of the triangle at their unknowns' places, right-hand side last, (n + 1, n + 1)."""
        return self.triangle.placed()

    @cached_property
    def limbs(self) -> tuple[NDArray[np.intp], ...]:
        """Positions of unknowns that neither rows nor constraints connect with the others."""
        nonzero = self.constraints.rows != 0.0
        sets = (
            *(np.append(drive.own, drive.shared) for drive in self.triangle.corners),
            *(np.flatnonzero(row) for row in self.triangle.R),
            *(10 * k + np.arange(10) for k in range(len(self.space.groups))),
            *(np.flatnonzero(row) for row in nonzero[nonzero.sum(axis=1) > 1]),
        )
        return tuple(part.columns for part in connected(sets, len(self.start)))

    def part(self, own: NDArray[np.intp]) -> Scaled:
        """Return the rows and prior of one of the limbs."""
        if len(own) == len(self.start):
            return self
        columns = np.flatnonzero(np.any(self.space.matrix[:, own] != 0.0, axis=1))
        known = self.known[:, own]
        bodies = own[own < len(self.strengths)]
        return Scaled(
            part_of(self.space, own, columns),
            self.constraints.part(own),
            self.metric[np.ix_(bodies, bodies)],
            self.scale[own],
            self.weights[own],
            self.seen.part(own),
            self.triangle.part(own),
            self.start[own],
            self.strengths[bodies],
            np.flatnonzero(np.isin(own, self.silent)),
            known[known.any(axis=1)],
        )

    def estimated_prior_error(self, strength: float) -> float:
        """Return `estimated_prior_error` of the bodies whose prior has this strength.

        Beside large typical moments what is wrong with masses and centres looks small, so it is
        estimated at the file's bodies, too: up to an error of their own size, since a template's
        moments make far more of it.
        """
        rows, start = np.column_stack([self.seen.R, self.seen.z]), self.start[: len(self.metric)]
        strong = self.strengths == strength
        at_typical = estimated_prior_error(rows, start, strong)
        if not self.space.gyration:
            return at_typical
        file = scaled_metric(replace(self.space, gyration=()))[: len(start), : len(start)]
        change = np.linalg.solve(self.metric, file).astype(float)
        rows[:, :-1] = self.seen.R @ sparse(change)
        start = np.linalg.solve(change, start).astype(float)
        return max(at_typical, min(estimated_prior_error(rows, start, strong), 1.0))

    def moved(self, unknown: Array) -> Array:
        """Return the first-order shift of u by the prior, shape (n,).

        û changes with the logarithm of n₀ by A Λ (u₀ − û), with A the inverse information.
        """
        towards, bodies = np.zeros(len(self.start)), len(self.strengths)
        towards[:bodies] = self.strengths * (self.start - unknown)[:bodies]
        inverse = inverse_of(self.triangle)
        return inverse.back(inverse.times(towards))


def estimated_prior_error(rows: Array, start: Array, strong: NDArray[np.bool_]) -> float:
    """Return the prior error: how far the data find the model file's bodies from the truth.

    The root mean square of `u − u₀` over the well-identified directions (standard deviation
    below one half), with the noise variance subtracted and other bodies eliminated. The same error
    is then assumed of the model file's values in unidentified directions.

    Args:
        rows: Of unit variance on the scaled unknowns u of bodies, right-hand side last, drives
            eliminated, shape (m, n + 1).
        start: u₀ of the model file, shape (n,).
        strong: Which of the unknowns belong to bodies with a prior, shape (n,).

    Returns:
        In the metric of the cone, dimensionless: a relative error of a body's parameters; 0 if
        no direction is well identified.
    """
    rows = np.column_stack([rows[:, :-1], rows[:, -1] - rows[:, :-1] @ start])
    if weak := int(np.sum(~strong)):
        order = np.append(np.argsort(strong, kind="stable"), len(strong))
        ridge = DRIVE_RIDGE * np.eye(weak, len(order))
        rows = triangle_of(np.vstack([rows[:, order], ridge]))[weak:, weak:]
    U, singular, _ = decomposition(rows[:, :-1])
    shown = singular > 2.0
    if not shown.any():
        return 0.0
    off = (U.T @ rows[:, -1])[shown] / singular[shown]
    return float(np.sqrt(max(float(np.mean(off**2 - 1.0 / singular[shown] ** 2)), 0.0)))


def inverse_of(triangle: Bordered) -> BorderedInverse:
    """Return the inverse of rows of data and prior.

    Raises:
        LinAlgError: If a column depends on others.
    """
    if triangle.inverse is None:
        raise np.linalg.LinAlgError("columns of data and prior depend on others")
    return triangle.inverse


def mean_squared_error(
    triangle: Bordered,
    limbs: Sequence[NDArray[np.intp]],
    weights: Array,
    doubt: float,
    scores: Sequence[ChannelRows],
) -> tuple[Array, Array]:
    """Return the mean squared error matrix of a regularised least-squares estimate.

    The estimate is `A (Yᵀτ + Λ x₀)` with `A = (J + Λ)⁻¹`, J the information of the data and Λ
    that of the prior about x₀. Its covariance from noise is `A SᵀS A`, S factors of the noise. Its
    bias `A Λ (x₀ − x)` is unknown. If x₀ has an error e in the
    prior's own metric W (Λ = w W), the bias has a second moment of at most `e² w² A W A`.

    Args:
        triangle: R with RᵀR = J + Λ, of n unknowns.
        weights: Roots of the diagonal of Λ, shape (n,).
        doubt: Prior error e times √w.
        scores: Sets S whose sum of SᵀS is the covariance of Yᵀε, on the n unknowns.

    Returns:
        The total (noise and bias) and its noise part, each of shape (n, n), in products of the
        unknowns' units.
    """
    inverses = [inverse_of(triangle.part(own)) for own in limbs]
    places = [
        inverse.columns[own]
        for inverse in inverses
        for own in (*(corner.own for corner in inverse.corners), inverse.shared)
    ]
    prior = [ChannelRows(own, np.diag(weights[own])) for own in places]
    noise = sandwich(inverses, scores, len(weights))
    total = sandwich(inverses, prior, len(weights))
    total *= doubt**2
    total += noise
    return total, noise


@dataclass(frozen=True)
class Limb:
    """Information about some parameters that no row and no body connects with the others."""

    parameters: NDArray[np.intp]  # positions of its parameters x among all, ascending, shape (n,)
    total: Triangle | Summed  # information about its own β
    space: ParameterSpace  # its parameters and their map to these β


def limbs(total: Triangle | Summed, space: ParameterSpace) -> tuple[Limb, ...]:
    """Return the connected components of whitened information and parameters; one if connected.

    A misfit is the sum of the limbs' misfits, and consistency is of each body by itself, so that
    what bounds or minimises it is found limb by limb.
    """
    R, z = total.rows_of_all()
    count = len(space.matrix)
    per_row = [np.flatnonzero(row) for row in R]
    mapped = [np.append(b, count + np.flatnonzero(row)) for b, row in enumerate(space.matrix)]
    bodies = [count + np.arange(first, first + 10) for first in space.groups]
    parts = connected([*per_row, *mapped, *bodies], count + space.size)
    if len(parts) == 1:
        return (Limb(np.arange(space.size), total, space),)
    connected_limbs = []
    for part in parts:
        beta, x = part.columns[part.columns < count], part.columns[part.columns >= count] - count
        if not len(x):
            continue
        rows = part.rows[part.rows < len(per_row)]
        own = Triangle.holding(R[np.ix_(rows, beta)], z[rows], total.rows)
        connected_limbs.append(Limb(x, own, part_of(space, x, beta)))
    return tuple(connected_limbs)


def part_of(
    space: ParameterSpace, x: NDArray[np.intp], columns: NDArray[np.intp]
) -> ParameterSpace:
    """Return some of the parameters, with whole bodies, and their map to some of the columns.

    Args:
        x: Positions of those asked for, ascending.
        columns: Positions of the columns asked for, ascending.
    """
    place = {k: i for i, k in enumerate(x.tolist())}
    return replace(
        space,
        labels=space.labels.select(x),
        matrix=space.matrix[np.ix_(columns, x)],
        nominal=space.nominal[x],
        groups=tuple(place[k] for k in space.groups if k in place),
        nonnegative=tuple(place[k] for k in space.nonnegative if k in place),
        gyration=tuple(g for g, k in zip(space.gyration, space.groups, strict=False) if k in place),
    )
