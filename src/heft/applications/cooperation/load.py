"""The load of agreed windows: maximum likelihood with noise in motion and wrench alike.

Each window of the motion m and of the total wrench w, both with noise of known covariance, obeys

    w = Σ_k m_k Z_k π

so that the sum of eᵀ C⁻¹ e with e = w − Σ m_k Z_k π and C(π) its covariance is least at the truth,
whatever the noise: no bias of least squares' kind is left, and none is subtracted. Noise in m is no
information: where motion is no more than noise, the load is not told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from heft.arrays import Array
from heft.estimators import measured_regressor_covariance, signal_projection, whitening
from heft.information import Directions, triangle_of

from .windows import SPATIAL, Space


@dataclass(frozen=True, eq=False)
class LoadInformation:
    """What windows tell of a load, by their second moments.

    Attributes:
        factor: Motion and wrench of windows side by side, or a triangle of them, shape
            (any, k + r): 24 in space.
        motion_spread: Covariance of a window's motion, shape (k, k).
        wrench_spread: Of its wrench, shape (r, r).
        windows: How many windows that are.
        overlap: How many of them count as one.
        space: Which k numbers of motion, r of wrench and p parameters there are.
    """

    factor: Array
    motion_spread: Array
    wrench_spread: Array
    windows: int
    overlap: float
    space: Space = SPATIAL

    @property
    def motion(self) -> Array:
        """Motion of the windows, shape (any, k)."""
        return self.factor[:, : len(self.space.motion)]

    @property
    def wrench(self) -> Array:
        """Wrench of the windows, shape (any, r)."""
        return self.factor[:, len(self.space.motion) :]

    def regressor(self, motion: Array) -> Array:
        """Return Σ_k m_k Z_k of windows, shape (K, r, p)."""
        return np.asarray(np.einsum("nk,kij->nij", motion, self.space.load_tensor))

    def spread(self, values: Array) -> Array:
        """Return C(π), covariance of a window's residual, shape (6, 6).

        Args:
            values: π, shape (p,).
        """
        J = self.space.load_tensor @ values
        return np.asarray(self.wrench_spread + J.T @ self.motion_spread @ J)

    def estimate(self, guess: Array | None = None) -> tuple[Array, Array, float] | None:
        """Return π, its covariance and the misfit; None where windows do not tell all p.

        The misfit is the mean of squared residuals, each by its deviation: 1 where noise is as
        stated.

        Args:
            guess: Where to begin, shape (p,); least squares if None.
        """
        motion, wrench = self.motion, self.wrench
        Y = self.regressor(motion)
        start = guess
        if start is None:
            first = np.linalg.inv(np.linalg.cholesky(self.wrench_spread))
            count = len(self.space.load)
            rows = (first @ Y).reshape(-1, count)
            if Directions.of(triangle_of(rows), count).rank < count:
                return None
            start = np.asarray(np.linalg.lstsq(rows, (wrench @ first.T).ravel(), rcond=None)[0])
        if self._covariance(*self._seen(), start) is None:
            return None

        def residuals(values: Array) -> Array:
            rows = wrench - Y @ values
            return np.asarray((whitening(self.spread(values)) @ rows.T).ravel())

        found_values = least_squares(residuals, start, method="lm", x_scale="jac")
        covariance = self._covariance(*self._likely(found_values.x), found_values.x)
        if covariance is None:
            return None
        misfit = float(found_values.fun @ found_values.fun)
        misfit /= max(len(self.space.wrench) * self.windows - len(start), 1)
        return found_values.x, covariance, misfit

    def gradient(self, values: Array) -> Array:
        """Return minus half the gradient of Σ eᵀ C⁻¹ e, shape (p,): zero at the estimate.

        Args:
            values: π, shape (p,).
        """
        motion, _ = self._likely(values)
        rest = self.wrench - self.motion @ (self.space.load_tensor @ values)
        white = np.linalg.solve(self.spread(values), rest.T).T
        return np.asarray(np.einsum("nij,ni->j", self.regressor(motion), white))

    def information(self, values: Array) -> Array:
        """Return Σ JᵀJ of the true motions, that of noise subtracted, shape (p, p).

        Args:
            values: π, shape (p,).
        """
        observed, of_noise = self._moments(*self._likely(values), values)
        return observed - of_noise

    def _seen(self) -> tuple[Array, Array]:
        """Return what of the motions is more than noise, and its noise."""
        motion, noise = self.motion, self.motion_spread
        counted = self.windows / self.overlap
        P = signal_projection(motion.T @ motion / self.windows, noise, counted)
        return motion @ P.T, P @ noise @ P.T

    def _likely(self, values: Array) -> tuple[Array, Array]:
        """Return the most likely motions given π, shape (any, k), and their noise."""
        motion, wrench = self.motion, self.wrench
        T = self.space.load_tensor @ values
        gain = np.linalg.solve(self.spread(values), T.T @ self.motion_spread).T
        spread = self.motion_spread - gain @ T.T @ self.motion_spread
        return motion + (wrench - motion @ T) @ gain.T, spread

    def _covariance(self, motion: Array, noise: Array, values: Array) -> Array | None:
        observed, of_noise = (m / self.overlap for m in self._moments(motion, noise, values))
        return measured_regressor_covariance(observed, of_noise, self.windows / self.overlap)

    def _moments(self, motion: Array, noise: Array, values: Array) -> tuple[Array, Array]:
        """Return Σ JᵀJ of motions, J = C^(−1/2) Y, and what their noise adds, shape (p, p)."""
        white = whitening(self.spread(values)) @ self.space.load_tensor

        def moment(second: Array) -> Array:
            return np.asarray(np.einsum("aip,ab,biq->pq", white, second, white, optimize=True))

        return moment(motion.T @ motion), moment(self.windows * noise)
