"""The load of agreed windows: maximum likelihood with noise in motion and wrench alike.

Each window of the motion m and of the total wrench w, both with noise of known covariance, obeys

    w = Σ_k m_k Z_k π

so that the sum of eᵀ C⁻¹ e with e = w − Σ m_k Z_k π and C(π) its covariance is least at the truth,
whatever the noise: no bias of least squares' kind is left, and none is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from heft.arrays import Array
from heft.information import Directions, triangle_of

from .windows import SIZE, load_tensor

PARAMETERS = 10
KNOWN = 1e-3  # of a parameter's scale: below it a direction of the triangle is not told


@cache
def _tensor() -> Array:
    return load_tensor()


@dataclass(frozen=True, eq=False)
class LoadInformation:
    """What windows tell of a load, by their second moments.

    Attributes:
        factor: Motion and wrench of windows side by side, or a triangle of them, shape (any, 24).
        motion_spread: Covariance of a window's motion, shape (18, 18).
        wrench_spread: Of its wrench, shape (6, 6).
        windows: How many windows that are.
        overlap: How many of them count as one.
    """

    factor: Array
    motion_spread: Array
    wrench_spread: Array
    windows: int
    overlap: float

    def regressor(self, motion: Array) -> Array:
        """Return Σ_k m_k Z_k of windows, shape (K, 6, 10)."""
        return np.asarray(np.einsum("nk,kij->nij", motion, _tensor()))

    def spread(self, values: Array) -> Array:
        """Return C(π), covariance of a window's residual, shape (6, 6).

        Args:
            values: π, shape (10,).
        """
        J = _tensor() @ values
        return np.asarray(self.wrench_spread + J.T @ self.motion_spread @ J)

    def estimate(self, guess: Array | None = None) -> tuple[Array, Array, float] | None:
        """Return π, its covariance and the misfit; None where windows do not tell all ten.

        The misfit is the mean of squared residuals, each by its deviation: 1 where noise is as
        stated.

        Args:
            guess: Where to begin, shape (10,); least squares if None.
        """
        motion, wrench = self.factor[:, :SIZE], self.factor[:, SIZE:]
        Y = self.regressor(motion)
        start = guess
        if start is None:
            first = np.linalg.inv(np.linalg.cholesky(self.wrench_spread))
            rows = (first @ Y).reshape(-1, PARAMETERS)
            found = Directions.of(triangle_of(rows), PARAMETERS)
            if found.rank < PARAMETERS:
                return None
            start = np.asarray(np.linalg.lstsq(rows, (wrench @ first.T).ravel(), rcond=None)[0])

        def residuals(values: Array) -> Array:
            rows = wrench - Y @ values
            root = np.linalg.cholesky(self.spread(values))
            return np.asarray(np.linalg.solve(root, rows.T).ravel())

        found_values = least_squares(residuals, start, method="lm", x_scale="jac")
        J = found_values.jac
        seen = Directions.of(triangle_of(J), PARAMETERS)
        if seen.rank < PARAMETERS:
            return None
        inverse = seen.inverse
        misfit = float(found_values.fun @ found_values.fun)
        misfit /= max(6 * self.windows - PARAMETERS, 1)
        return found_values.x, self.overlap * inverse @ inverse.T, misfit
