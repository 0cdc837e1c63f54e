"""Least squares whose deviations count misfit, by leaving out groups of rows.

The usual formula takes what a model leaves over for independent noise. Where the model is too
simple, what is left over depends on the conditions, and estimates depend on which of them were
seen: so the rows are divided into groups, the fit is repeated without each of them, and its
scatter is the deviation (delete-a-group jackknife). Contiguous groups in time count coloured noise
[Kunsch1989, sect. 2.2]; groups of like conditions count misfit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import nonnegative
from heft.information import Directions, Triangle, triangle_of


@dataclass(frozen=True)
class JackknifeFit:
    """Fitted parameters θ."""

    values: Array  # θ, shape (k,), in their units; 0 where no row shows one
    std: Array  # their standard deviations, shape (k,); infinite where not identified


def fit_jackknife(
    partitions: Sequence[Sequence[Triangle]], nonnegative: Sequence[bool], systematic: Array
) -> JackknifeFit:
    """Return least squares θ of `X θ = y − e`, with deviations by the jackknife.

    Use it where a model is too simple for its residuals to be noise. The variance is that of white
    noise, of errors e of y that are known, and for each partition
    `(m − 1)/m Σ (θ₋ᵢ − θ)²`, with θ₋ᵢ the estimate without the i-th of m groups; by [Kunsch1989] it
    also counts the correlation of rows where groups are contiguous in time.

    Args:
        partitions: The same rows, divided into groups in several ways: a triangle of `[X y]` a
            group, on all k parameters.
        nonnegative: Which parameters must not be negative, shape (k,).
        systematic: Covariance of `Xᵀe`, shape (k, k).

    Returns:
        θ with its standard deviations; these are infinite where a direction is not identified, or a
        partition has fewer than two groups with rows.
    """
    total = _sum(partitions[0], len(nonnegative))
    values, std = np.zeros(len(nonnegative)), np.full(len(nonnegative), np.inf)
    seen = np.linalg.norm(total.R, axis=0) > 0.0
    if not seen.any():
        return JackknifeFit(values, std)
    signed = np.array(nonnegative, dtype=bool)
    values = _solve(total, signed)
    directions = Directions.of(total.R, total.rows)
    inverse = directions.covariance_factor
    white = total.residual_energy(values) / max(total.rows - len(values), 1)
    of_moments = inverse @ inverse.T
    variance = np.maximum(np.sum((of_moments @ systematic) * of_moments, axis=1), 0.0)
    variance += white * np.sum(inverse**2, axis=1)
    for parts in partitions:
        groups = [part for part in parts if part.rows]
        count = len(groups)
        if count < 2:
            variance[:] = np.inf
            continue
        for k in range(count):
            rest = _sum([*groups[:k], *groups[k + 1 :]], len(values))
            variance += (count - 1) / count * (_solve(rest, signed) - values) ** 2
    variance[directions.blind | ~seen] = np.inf
    return JackknifeFit(values, np.sqrt(variance))


def _sum(parts: Sequence[Triangle], size: int) -> Triangle:
    factor = triangle_of(np.vstack([np.zeros((1, size + 1)), *(t.factor for t in parts)]))
    return Triangle(np.arange(size), factor, sum(t.rows for t in parts))


def _solve(triangle: Triangle, signed: NDArray[np.bool_]) -> Array:
    """Return θ of least squares, `signed` ones not negative, shape (k,); 0 for a zero column."""
    scale = np.linalg.norm(triangle.R, axis=0)
    order = np.argsort(signed, kind="stable")  # free ones first, so that the others stand alone
    order = order[scale[order] > 0.0]
    free, count = int(np.sum(~signed[order])), len(order)
    rows = np.column_stack([triangle.R[:, order] / scale[order], triangle.z])
    # A ridge, in a column's length, shares out what dependent columns explain together.
    ridged = np.vstack([rows, 1e-8 * np.eye(count, count + 1)])
    R, z = np.split(np.linalg.qr(ridged, mode="r")[:count], [count], axis=1)
    own, right = R[free:, free:], z[free:, 0]
    start = np.maximum(np.linalg.solve(own, right), 0.0)
    x = nonnegative(own, right, start)
    ahead = np.linalg.solve(R[:free, :free], z[:free, 0] - R[:free, free:] @ x)
    values = np.zeros(len(scale))
    values[order] = np.append(ahead, x) / scale[order]
    return values
