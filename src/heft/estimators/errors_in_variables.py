"""What a fit tells whose regressors are measured: their noise looks like information and is none.

With J the whitened regressors of the rows as they were read, G = Σ JᵀJ is on average I + N: I that
of the true regressors, N that of noise alone. A robot at rest has I = 0 and a G that grows with
every row. The estimate is off by I⁻¹ g, g of covariance G, so that its covariance is I⁻¹ G I⁻¹
[Fuller1987, section 2.2].
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from heft.arrays import Array

ENOUGH = 5.0  # deviations of what noise makes, from which information is there


def measured_regressor_covariance(
    observed: Array,
    of_noise: Array,
    rows: float,
    known: Array | None = None,
    scores: Array | None = None,
) -> Array | None:
    """Return the covariance I⁻¹ G I⁻¹ of parameters, I = G − N, shape (p, p).

    None where I is not told: where G exceeds N, in any direction, by less than N scatters.

    Args:
        observed: G, shape (p, p), of rows that are independent of each other.
        of_noise: N, what noise in the regressors adds to G on average, shape (p, p).
        rows: How many rows that are; G varies about N by at most the share √(2/rows).
        known: Information that is of no rows, shape (p, p): it counts in G and in I.
        scores: Covariance of the rows' scores, shape (p, p), where it is another than G as their
            noise depends on one another.
    """
    size, scores = len(observed), observed if scores is None else scores
    if known is not None:
        observed, scores = observed + known, scores + known
    if np.any(np.diag(observed) <= 0.0):
        return None
    scale = 1.0 / np.sqrt(np.diag(observed))
    G, N = (scale[:, None] * M * scale for M in (observed, of_noise))
    values = np.linalg.eigvalsh(G)
    if values[0] <= size * np.finfo(float).eps * values[-1]:
        return None
    share = eigh(N, G, eigvals_only=True)[-1]  # of noise in what was seen, in the worst direction
    if share * (1.0 + ENOUGH * np.sqrt(2.0 / rows)) >= 1.0:
        return None
    inverse = np.linalg.inv(G - N)
    scores = scale[:, None] * scores * scale
    return np.asarray(scale[:, None] * (inverse @ scores @ inverse) * scale)


def whitening(covariance: Array) -> Array:
    """Return W with W C Wᵀ = 1, both of shape (k, k).

    Where rounding makes C singular, what is lost counts as if it were as large as rounding.
    """
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    try:
        root = np.linalg.cholesky(correlation)
        return np.asarray(np.linalg.inv(root) / scale)
    except np.linalg.LinAlgError:
        values, axes = np.linalg.eigh(correlation)
        least = len(covariance) * np.finfo(float).eps * values[-1]
        return np.asarray((axes / np.sqrt(np.maximum(values, least))).T / scale)


def whitening_slopes(changes: Array) -> Array:
    """Return D, (p, k, k), with D W the slopes of a whitening W by changes W dC Wᵀ, (p, k, k)."""
    size = changes.shape[1]
    return np.asarray((0.5 * np.eye(size) - np.tri(size)) * changes)


def signal_projection(moments: Array, noise: Array, rows: float) -> Array:
    """Return P that leaves of measured vectors what is more than noise, shape (k, k).

    Of the principal axes of what was measured, noise being white, those whose mean square exceeds
    that of noise by more than it scatters.

    Args:
        moments: Mean of w wᵀ of the vectors measured, shape (k, k).
        noise: Covariance of their noise, shape (k, k).
        rows: Number of independent vectors.
    """
    W = whitening(noise)
    white = W @ moments @ W.T
    values, vectors = np.linalg.eigh(0.5 * (white + white.T))
    seen = vectors[:, values > 1.0 + ENOUGH * np.sqrt(2.0 / rows)]
    return np.asarray(np.linalg.solve(W, seen) @ (seen.T @ W))
