"""Conditional least squares: some parameters fitted while the others are fixed.

Used for simple friction (viscous, Coulomb and an offset) with the inertial parameters fixed, as
URDF and simulators take it. It replaces the friction dictionary and is never combined with it.
It is fitted on the same triangles, which contain a column of Coulomb friction too.
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
    """Fitted parameters, all others being fixed.

    Attributes:
        values: Values of the free parameters, shape (free,), in their units.
        std: Their standard deviations, shape (free,); infinite where not identified.
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
    """Return the least-squares estimate of some parameters, the others fixed.

    The reported deviations include the uncertainty of the fixed parameters.

    Args:
        information: About β, unweighted.
        weights: Weight 1/σ of each channel's rows [1 / channel's unit].
        matrix: `β = matrix @ x`, shape (b, n).
        held: Fixed values of x, with zeros where it is free, shape (n,).
        covariance: Covariance of x, of which that of the fixed ones is used, shape (n, n).
        free: Positions in x to be fitted.
        nonnegative: Which of these must not be negative, shape (free,).
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
