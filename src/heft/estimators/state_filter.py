"""Constant parameters of a system with states, estimated sample by sample.

The extended Kalman filter of states and parameters in the form of `state_smoother`: the error of
the states is affine in the parameters' error θ, `δ = X θ + c + e` with e of covariance P, and what
is known of θ is a square-root triangle, to which each measurement adds its whitened innovation.
Nothing is inverted that is not known, and information stays a sum of squares. The point of
linearisation of the states moves with each sample; that of the parameters where it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.special

from heft.arrays import Array
from heft.compiled import plain
from heft.files import Keys, Number, check_fields
from heft.information import triangle_of

from .state_smoother import _predict, _update

CHECKS: Keys = {"outlier": Number("a probability is between 0 and 1", 0.0, 1.0)}


@dataclass(frozen=True, eq=False)
class FilterError:
    """Estimated errors of s states and p parameters about the point of linearisation."""

    columns: Array  # [X c], shape (s, p + 1)
    spread: Array  # P at given parameters, shape (s, s)
    factor: Array  # triangle [R z; 0 ρ] of θ, shape (p + 1, p + 1)
    samples: int = 0  # number of groups of measurements taken
    left_out: int = 0  # number of groups left out as outliers

    @property
    def parameters(self) -> Array:
        """Estimate of θ, shape (p,)."""
        return np.asarray(
            scipy.linalg.solve_triangular(self.factor[:-1, :-1], self.factor[:-1, -1])
        )

    @property
    def covariance(self) -> Array:
        """Covariance of θ, shape (p, p)."""
        inverse = np.linalg.inv(self.factor[:-1, :-1])
        return np.asarray(inverse @ inverse.T)

    @property
    def states(self) -> Array:
        """Estimate of the states' error, shape (s,)."""
        return np.asarray(self.columns[:, :-1] @ self.parameters + self.columns[:, -1])

    def moved(self, parameters: Array) -> FilterError:
        """Return the error about a point moved by `states` and by a shift of the parameters.

        Args:
            parameters: Shift of the parameters, shape (p,).
        """
        factor, columns = self.factor.copy(), self.columns.copy()
        left = self.parameters - parameters
        factor[:-1, -1] = factor[:-1, :-1] @ left
        columns[:, -1] = -columns[:, :-1] @ left
        return FilterError(columns, self.spread, factor, self.samples, self.left_out)

    def centred(self) -> FilterError:
        """Return the error about states moved by c, their estimate where θ is zero."""
        columns = self.columns.copy()
        columns[:, -1] = 0.0
        return FilterError(columns, self.spread, self.factor, self.samples, self.left_out)


@dataclass(frozen=True)
class StateFilter:
    """Extended Kalman filter of states and constant parameters, in square-root information form.

    Raises:
        InvalidSetting: If the probability is none.
    """

    # probability with which a good group of measurements is left out by mistake
    outlier: float = 1e-6
    # sizes of the groups of measurements that are left out together
    groups: tuple[int, ...] = (3, 3)

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def start(self, spread: Array, prior: Array) -> FilterError:
        """Return the initial error, before the first measurement.

        Args:
            spread: Covariance of the states' error, shape (s, s).
            prior: Covariance of the parameters' error, shape (p, p).
        """
        p = len(prior)
        factor = np.zeros((p + 1, p + 1))
        inverse = np.linalg.inv(np.linalg.cholesky(prior))
        factor[:-1, :-1] = triangle_of(inverse)
        return FilterError(np.zeros((len(spread), p + 1)), np.array(spread), factor)

    def predicted(
        self, error: FilterError, by_error: Array, by_parameters: Array, process: Array
    ) -> FilterError:
        """Return the error after a step of the system.

        Args:
            by_error: Φ, shape (s, s).
            by_parameters: Γ, shape (s, p).
            process: Covariance of the step's noise, shape (s, s).
        """
        X, P = error.columns.copy(), error.spread.copy()
        work, wide = np.empty_like(P), np.empty_like(X)
        _predict(*plain(by_error, by_parameters, np.zeros(len(P)), process), X, P, work, wide)
        return FilterError(X, P, error.factor, error.samples, error.left_out)

    def updated(self, error: FilterError, residual: Array, variance: Array) -> FilterError:
        """Return the error after a measurement of its leading entries.

        Args:
            residual: Measured less the point's, shape (m,).
            variance: Of the noise, infinite where nothing was measured, shape (m,).
        """
        m = len(residual)
        lead = error.columns[:m, :-1]
        half = scipy.linalg.solve_triangular(error.factor[:-1, :-1], lead.T, trans="T")
        total = error.spread[:m, :m] + half.T @ half
        expected = error.states[:m]
        variance, first, count, left = variance.copy(), 0, 0, 0
        for size in self.groups:
            cut = slice(first, first + size)
            first += size
            if not np.isfinite(variance[cut]).all():
                variance[cut] = np.inf
                continue
            off = residual[cut] - expected[cut]
            distance = off @ np.linalg.solve(total[cut, cut] + np.diag(variance[cut]), off)
            good = distance <= scipy.special.chdtri(size, self.outlier)
            count, left = count + good, left + (not good)
            variance[cut] = variance[cut] if good else np.inf
        X, P = error.columns.copy(), error.spread.copy()
        rows = np.empty((m, X.shape[1]))
        known = np.where(np.isfinite(variance), residual, 0.0)
        gain, inverse = np.empty((m, len(P))), np.empty((m, m))
        _update(*plain(known, variance), X, P, rows, gain, inverse)
        factor = triangle_of(np.vstack([error.factor, rows]))
        return FilterError(X, P, factor, error.samples + count, error.left_out + left)
