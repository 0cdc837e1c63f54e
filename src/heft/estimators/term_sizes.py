"""Terms that only make up a function together, held to sizes that the data tell.

A dictionary has more terms than any one function needs, and without a prior each that it does not
need widens all others. The size of a term is the standard deviation √v of a normal prior about
zero, with the v under which the least-squares estimate of the function's coefficients is most
likely, the evidence [MacKay1992; Tipping2001]. Evidence alone takes most terms for zero, of which
some are not: v is not told below the variance that the term would have were all others known, and
is not taken below it. As v is the data's own, the prior takes no strength that a user would state,
and it washes out as they grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows

from .estimate import Estimate, Noise
from .least_squares import LeastSquares

SIZES = "sizes of terms"  # channel of the prior's rows
ROUNDS = 30  # of expectation and maximisation; more change widths by less than a tenth
LEAST = 1e-10  # of v, relative to the estimate's variance, so that rows of 1/√v are not far larger


def evident_variances(values: Array, covariance: Array) -> Array:
    """Return the variances v of a normal prior that make an estimate most likely, shape (n,).

    By expectation and maximisation, from terms as large as they may be [Tipping2001, eq. 16], and
    none below the variance of a coefficient when all others are known.

    Args:
        values: Coefficients x of one function, shape (n,).
        covariance: Of their errors, shape (n, n), each variance above 0.
    """
    own = np.diag(covariance)
    unit = covariance / np.sqrt(np.outer(own, own)) + LEAST * np.eye(len(own))
    least = own / np.maximum(np.diag(np.linalg.inv(unit)), 1.0)
    variances = np.maximum(values**2, own)
    for _ in range(ROUNDS):
        scale = np.sqrt(own + variances)
        total = (covariance + np.diag(variances)) / np.outer(scale, scale)
        inverse = np.linalg.inv(total) / np.outer(scale, scale)
        mean = variances * (inverse @ values)
        rest = variances - variances**2 * np.diag(inverse)
        variances = np.maximum(mean**2 + np.maximum(rest, 0.0), least)
    return variances


def with_term_sizes(
    solver: LeastSquares, estimate: Estimate, functions: Sequence[NDArray[np.intp]]
) -> Estimate:
    """Return the estimate with the terms of each function held to the sizes that it tells.

    Args:
        solver: That made it, with coloured noise.
        functions: Positions of the coefficients of each.

    Returns:
        One channel more than the estimate has, of the prior's rows; the estimate where nothing is
        told of any function.
    """
    parameters, noise, information = estimate.parameters, estimate.noise, estimate.information
    covariance = parameters.covariance
    assert covariance is not None
    own = np.diag(covariance)
    told = [f[np.isfinite(own[f]) & (own[f] > 0.0)] for f in functions]
    places = np.concatenate([np.zeros(0, np.intp), *told])
    if not len(places) or noise.coloured is None:
        return estimate
    each = [evident_variances(parameters.values[f], covariance[np.ix_(f, f)]) for f in told]
    size = len(own)
    energy = np.zeros((len(information.channels), size))
    for row, weight, t in zip(energy, estimate.fit_weights, information.triangles, strict=True):
        row[t.columns] = weight**2 * np.sum(t.R**2, axis=0)
    # The fit counts all rows as if each told something new, so that the prior counts as often.
    times = (noise.autocorrelation_time @ energy / np.maximum(energy.sum(axis=0), 1e-300))[places]
    score = np.zeros((len(places), size))
    score[np.arange(len(places)), places] = times / np.sqrt(np.concatenate(each))
    rows = np.column_stack([score / np.sqrt(times)[:, None], np.zeros(len(places))])
    errors = noise.common_errors
    noise = Noise(
        np.append(noise.sigma, 1.0),
        np.append(noise.autocorrelation_time, 1.0),
        np.append(noise.rows, len(places)),
        (*noise.coloured, ChannelRows.held(score)),
        None if errors is None else (*errors, ChannelRows.nothing(len(errors[0].values))),
    )
    held = solver.conclude(
        information.beside(SIZES, rows),
        noise.sigma,
        noise.autocorrelation_time,
        estimate.passes,
        noise.coloured,
        noise.common_errors,
        estimate.rank,
    )
    return replace(held, settings=estimate.settings)
