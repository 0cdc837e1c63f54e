"""Estimates that are not the least-squares solution of their rows, as values like any other.

What follows an estimate, the physically consistent one above all, starts from information whose
optimum is the estimate. That of the rows with each channel's optimum moved keeps the rows' metric,
which says how much it costs to be off, and the residual's size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heft.arrays import Array
from heft.information import Directions, Information, Parameters

from .estimate import Estimate
from .noise import Noise, autocorrelation_time, coloured_factors, thinned
from .problem import Problem


def moved_optimum(information: Information, values: Array) -> Information:
    """Return information with the same R whose optimum is β in every channel.

    `‖R (x − β)‖² + ρ²` replaces `‖R x − z‖² + ρ₀²`, ρ² the residual sum of squares at β.

    Args:
        information: About β, unweighted.
        values: β, shape (b,).
    """
    triangles = []
    for t in information.triangles:
        factor = t.factor.copy()
        factor[:-1, -1] = t.R @ values[t.columns]
        factor[-1, -1] = np.sqrt(t.residual_energy(values))
        triangles.append(replace(t, factor=factor))
    return replace(information, triangles=tuple(triangles))


def estimate_at(
    problem: Problem,
    rough: Estimate,
    values: Array,
    change: Array,
    scale: Array,
    passes: int,
    settings: dict[str, object],
) -> Estimate:
    """Return the estimate β of a problem, with the covariance of coloured residuals.

    One pass over the rows. The covariance is `G (Σ_c w_c⁴ Yᵀ Γ Y) G`.

    Args:
        values: β, shape (b,).
        change: G, how β changes with the score `Σ_c w_c² Yᵀ ε`, shape (b, b).
        scale: 1/w of each channel, shape (channels,) [N·m or N].
    """
    information = moved_optimum(rough.information, values)
    autocovariance, sample = thinned(problem.residuals(values), problem.spacing, problem.repeats)
    rows, size = rough.noise.rows, len(values)
    energy = np.array([t.energy for t in information.triangles])
    freedom = np.maximum(rows * (1.0 - size / rows.sum()), 1.0)
    sigma = np.maximum(np.sqrt(energy / freedom), rough.noise.sigma)
    times = autocorrelation_time(autocovariance)
    noise = Noise(sigma, times, rows, coloured_factors(sample, len(values)))
    spread = noise.score_factor(information, 1.0 / scale) @ change
    covariance = spread.T @ spread
    triangle = rough.information.combined(rough.fitted_with)
    blind = Directions.of(triangle.R, triangle.rows).blind
    covariance[blind, :] = covariance[:, blind] = 0.0
    covariance[blind, blind] = np.inf
    told = np.where(blind, np.nan, values)
    parameters = Parameters(information.labels, told, covariance)
    return Estimate(parameters, information, noise, rough.rank, passes + 1, settings)
