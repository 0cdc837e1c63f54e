"""Penalised splines: smooth motion and its exact derivatives from noisy positions at any times.

The curve s minimises

    h Σ_k (y_k − s(t_k))² + (2π f_c)⁻⁶ ∫ s'''(t)² dt,       h the sampling step

over splines of degree five, twice the smoothness that a penalty on the third derivative needs
[Reinsch1967; Wahba1990, sect. 1.2]. It is what a Rauch-Tung-Striebel smoother makes of a
jerk driven by white noise [Wecker1983]. Far from the ends it multiplies a sine of frequency f
by `1/(1 + (f/f_c)⁶)`: f_c is its *corner*, where half the amplitude is left, as it is for a
Butterworth filter run both ways. Unlike a filter it needs no uniform grid, and at the ends of
a log it goes on as a parabola instead of assuming a continuation.

Knots lie on a uniform grid of `1/(8 f_c)` that is the same wherever a window begins, so the
matrix is banded and the cost linear in rows; the influence of a row fades as
`exp(−π f_c |t|)`, so a log is smoothed in windows with margins (`memory`).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.linalg

from heft.arrays import Array

DEGREE = 5
ORDER = 3  # of the derivative that is penalised
KNOTS_PER_CORNER = 8.0  # knots in 1/f_c: half the amplitude is lost at an eighth of their rate
BLOCK_ROWS = 8192


@lru_cache(maxsize=1)
def _pieces() -> Array:
    """Return the polynomials of the uniform B-spline, shape (6 powers, 6 splines).

    Between two knots, u in [0, 1) from the first, the value of the j-th of the six splines
    that are not zero there is `Σ_p u^p C[p, j]`.
    """
    pieces = np.zeros((DEGREE + 1, DEGREE + 1))
    pieces[0, 0] = 1.0
    for d in range(1, DEGREE + 1):  # Cox and de Boor's recursion, on knots that are one apart
        lower = pieces.copy()
        for j in range(d + 1):  # ((d − j + u) N_{j−1} + (1 + j − u) N_j) / d
            previous, own = lower[:, j - 1] if j else np.zeros(DEGREE + 1), lower[:, j]
            rising = np.roll(previous - own, 1)
            pieces[:, j] = ((d - j) * previous + (1 + j) * own + rising) / d
    return pieces


def _weights(u: Array, derivative: int) -> Array:
    """Return the derivative with respect to u of the six splines, shape (rows, 6)."""
    powers = np.zeros((len(u), DEGREE + 1))
    for p in range(derivative, DEGREE + 1):
        powers[:, p] = math.perm(p, derivative) * u ** (p - derivative)
    return np.asarray(powers @ _pieces())


@lru_cache(maxsize=1)
def _penalty() -> Array:
    """Return `∫ Bᵢ''' Bⱼ''' du` between two knots, shape (6, 6): exact by Gauss's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(ORDER)
    third = _weights(0.5 * (nodes + 1.0), ORDER)
    return np.asarray(third.T @ (0.5 * weights[:, None] * third))


def memory(corner: float) -> float:
    """Return the time over which a row's influence decays to 1e-10 [s]: exp(−π f_c t) = 1e-10."""
    return math.log(1e10) / (math.pi * corner)


def fit(time: Array, positions: Array, step: float, corner: float) -> tuple[Array, float, float]:
    """Return the penalised spline of positions.

    Args:
        time: Strictly increasing, shape (rows,) [s].
        positions: Shape (rows, joints) [rad or m].
        step: Sampling step h of the log [s], which enters the meaning of the corner.
        corner: f_c [Hz].

    Returns:
        Coefficients of the B-splines, shape (splines, joints) [rad or m]; time of the first knot
        [s]; spacing of the knots [s].
    """
    spacing = 1.0 / (KNOTS_PER_CORNER * corner)
    first = spacing * math.floor(time[0] / spacing)
    place = (time - first) / spacing
    interval = np.floor(place).astype(np.intp)
    count = int(interval[-1]) + 1
    size = count + DEGREE
    bands = np.zeros((DEGREE + 1, size))  # of the lower triangle: bands[d, i] = A[i + d, i]
    right = np.zeros((size, positions.shape[1]))
    for begin in range(0, len(time), BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        weights = _weights(place[rows] - interval[rows], 0)
        at, values = interval[rows], positions[rows]
        for i in range(DEGREE + 1):
            for j in range(i, DEGREE + 1):
                product = weights[:, i] * weights[:, j]
                bands[j - i] += np.bincount(at + i, product, size)
            for c in range(positions.shape[1]):
                right[:, c] += np.bincount(at + i, weights[:, i] * values[:, c], size)
    element = _penalty() * (2.0 * math.pi * corner * spacing) ** (-2 * ORDER) * spacing / step
    for i in range(DEGREE + 1):
        for j in range(i, DEGREE + 1):
            bands[j - i, i : i + count] += element[i, j]
    solution = scipy.linalg.solveh_banded(bands, right, lower=True, check_finite=False)
    return np.asarray(solution), first, spacing


def evaluate(
    coefficients: Array, first: float, spacing: float, at: Array, derivative: int = 0
) -> Array:
    """Return a spline of uniform knots or a derivative of it, shape (times, joints).

    Args:
        coefficients: As `fit` returns them, like `first` [s] and `spacing` [s].
        at: Times between the first knot and the last, shape (times,) [s].
        derivative: 0 to 4; the unit is that of the coefficients per s to this power.
    """
    out = np.empty((len(at), coefficients.shape[1]))
    last = len(coefficients) - DEGREE - 1
    for begin in range(0, len(at), BLOCK_ROWS):
        rows = slice(begin, begin + BLOCK_ROWS)
        place = (at[rows] - first) / spacing
        interval = np.clip(np.floor(place).astype(np.intp), 0, last)
        weights = _weights(place - interval, derivative)
        chosen = coefficients[interval[:, None] + np.arange(DEGREE + 1)]
        out[rows] = np.einsum("ki,kij->kj", weights, chosen)
    return out / spacing**derivative
