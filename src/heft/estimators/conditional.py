"""Simple friction: viscous, Coulomb and an offset, with the inertials held.

It is what URDF and simulators take, and stands in for friction's dictionary, never beside it.
Fitted on the same triangles, which hold the column of Coulomb friction beside the dictionary's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from heft.arrays import Array
from heft.information import Directions, Information


@dataclass(frozen=True)
class ConditionalFit:
    """Some parameters fitted with all others held.

    Attributes:
        values: Of the free ones, shape (free,).
        std: Their standard deviations, shape (free,).
    """

    values: Array
    std: Array


def fit_conditional(
    information: Information,
    weights: Mapping[str, float],
    matrix: Array,
    held: Array,
    covariance: Array,
    free: Sequence[int],
    nonnegative: Sequence[bool],
) -> ConditionalFit:
    """Return least squares of some parameters, the others held.

    Args:
        information: About β, unweighted.
        weights: What each channel's rows are multiplied by: 1 over noise.
        matrix: `β = matrix @ x`, shape (b, n).
        held: x with zeros where it is free, shape (n,).
        covariance: Of x, for what the held ones are unsure; shape (n, n).
        free: Positions in x to be fitted.
        nonnegative: Which of these must not be negative.
    """
    chosen = list(free)
    triangle = information.combined(weights)
    rows = triangle.R @ matrix
    target = triangle.z - rows @ held
    wide = rows[:, chosen]
    scale = np.linalg.norm(wide, axis=0)
    seen = scale > 0.0
    values, std = np.zeros(len(chosen)), np.full(len(chosen), np.inf)
    if not seen.any():
        return ConditionalFit(values, std)
    lower = np.where(np.array(nonnegative)[seen], 0.0, -np.inf)
    small = wide[:, seen] / scale[seen]
    answer = scipy.optimize.lsq_linear(small, target, (lower, np.inf), method="bvls").x
    values[seen] = answer / scale[seen]
    shown = Directions.of(small, triangle.rows)
    # The misfit of a simple model counts as noise, in the units of the noise of the full one.
    excess = float(np.linalg.norm(small @ answer - target)) ** 2 + triangle.energy
    excess /= max(triangle.rows - len(chosen), 1)
    inverse = shown.inverse
    others = np.delete(np.arange(len(held)), chosen)
    carried = inverse @ (shown.left[:, : shown.rank].T @ rows[:, others])
    spread = max(excess, 1.0) * inverse @ inverse.T
    spread += carried @ covariance[np.ix_(others, others)] @ carried.T
    spread[shown.blind, shown.blind] = np.inf
    std[seen] = np.sqrt(np.maximum(np.diag(spread), 0.0)) / scale[seen]
    return ConditionalFit(values, std)
