"""Constant parameters of a system with states: its innovations are rows, and its states smoothed.

Along a linearised log with errors δ of the state and constant parameters θ,

    δ[k+1] = Φ[k] δ[k] + Γ[k] θ + d[k] + w[k],      residual[k] = [1 0] δ[k] + n[k],

the Kalman filter's gain does not depend on θ, so its innovations are affine in θ [Friedland1969]:
`L⁻¹(r − δ̂) = b − A θ`, with LLᵀ their covariance. Whitened, they are independent rows of unit
variance, `A θ = b + noise`: information about θ like any other, which adds, takes priors and goes
to the estimators of consistent bodies. What is left over of them is a chi-square of the whole
model. The states follow backwards [Bierman1977]. To linearise about them again and to repeat is
the iterated Kalman smoother, which is Gauss-Newton's method of the joint likelihood [Bell1994].

`StateFilter` is the forward pass of constant parameters that are estimated sample by sample: the
extended Kalman filter of states and parameters in the same form. Nothing is inverted that is not
known, and information stays a sum of squares. The point of linearisation of the states moves with
each sample; that of the parameters where it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.special

from heft.arrays import Array
from heft.compiled import Kernels, contracted, plain
from heft.errors import TooLittleData
from heft.files import Keys, Number, check_fields
from heft.information import Directions, Triangle, triangle_of


@contracted
def _factor(S):  # type: ignore[no-untyped-def]
    """Overwrite a positive definite matrix by its lower Cholesky factor."""
    m = len(S)
    for j in range(m):
        for k in range(j):
            for i in range(j, m):
                S[i, j] -= S[i, k] * S[j, k]
        root = np.sqrt(S[j, j])
        for i in range(j, m):
            S[i, j] /= root


@contracted
def _forward(L, B):  # type: ignore[no-untyped-def]
    """Overwrite B by L⁻¹ B."""
    for i in range(len(L)):
        for k in range(i):
            for j in range(B.shape[1]):
                B[i, j] -= L[i, k] * B[k, j]
        for j in range(B.shape[1]):
            B[i, j] /= L[i, i]


@contracted(allocates=True)
def _predict(step, X, P, work, wide):  # type: ignore[no-untyped-def]
    """Overwrite X by Φ X + [Γ d] and P by Φ P Φᵀ + Q; Φ of coloured noise is mostly zeros."""
    Phi, Gamma, defect, Q = step
    s, c = X.shape
    for i in range(s):
        work[i] = 0.0
        wide[i, : c - 1] = Gamma[i]
        wide[i, c - 1] = defect[i]
        for k in range(s):
            if Phi[i, k] != 0.0:
                for j in range(c):
                    wide[i, j] += Phi[i, k] * X[k, j]
                for j in range(s):
                    work[i, j] += Phi[i, k] * P[k, j]
    X[:] = wide
    P[:] = work.T
    work[:] = Q
    for i in range(s):
        for k in range(s):
            if Phi[i, k] != 0.0:
                for j in range(s):
                    work[i, j] += Phi[i, k] * P[k, j]
    for i in range(s):
        for j in range(i + 1):  # symmetric, whatever is rounded
            P[i, j] = work[i, j]
            P[j, i] = work[i, j]


@contracted(allocates=True)
def _update(residual, variance, X, P, rows, half, inverse):  # type: ignore[no-untyped-def]
    """Take a measurement of the leading errors; a missing one has infinite variance.

    Writes the whitened rows [A b] (m, p + 1), L⁻¹ H P (m, s) and L⁻¹ (m, m).
    """
    s, c = X.shape
    m = len(residual)
    S = np.zeros((m, m))
    inverse[:] = 0.0
    for i in range(m):
        inverse[i, i] = 1.0
        for j in range(c):
            rows[i, j] = X[i, j]
        rows[i, c - 1] = residual[i] - X[i, c - 1]
        for j in range(s):
            half[i, j] = P[i, j]
        if np.isfinite(variance[i]):
            for j in range(m):
                if np.isfinite(variance[j]):
                    S[i, j] = P[i, j]
            S[i, i] += variance[i]
        else:
            S[i, i] = 1.0
            rows[i, :] = 0.0
            half[i, :] = 0.0
    _factor(S)
    _forward(S, rows)
    _forward(S, half)
    _forward(S, inverse)
    for i in range(s):
        for k in range(m):
            for j in range(c - 1):
                X[i, j] -= half[k, i] * rows[k, j]
            X[i, c - 1] += half[k, i] * rows[k, c - 1]
            for j in range(s):
                P[i, j] -= half[k, i] * half[k, j]


@contracted(allocates=True)
def _filter(steps, measured, X, P, out):  # type: ignore[no-untyped-def]
    Phi, Gamma, defect, Q = steps
    (residual, variance), (rows, half, inverse, before, spread) = measured, out
    s, c = X.shape
    work, wide = np.empty((s, s)), np.empty((s, c))
    for n in range(len(residual)):
        if n > 0:
            _predict((Phi[n - 1], Gamma[n - 1], defect[n - 1], Q[n - 1]), X, P, work, wide)
        before[n] = X
        spread[n] = P
        _update(residual[n], variance[n], X, P, rows[n], half[n], inverse[n])


@contracted(allocates=True)
def _backward(Phi, white, half, inverse, before, spread, out):  # type: ignore[no-untyped-def]
    """Write the smoothed errors x̂ − P λ, λ from the innovations to come [Bierman1977]."""
    count, s = before.shape
    m = white.shape[1]
    adjoint, moved, total = np.zeros(s), np.zeros(s), np.zeros(m)
    for n in range(count - 1, -1, -1):
        # λ ← (1 − K H)ᵀ λ − Hᵀ L⁻ᵀ ν, with K H = (L⁻¹ H P)ᵀ L⁻¹ H
        for k in range(m):
            total[k] = white[n, k]
            for i in range(s):
                total[k] += half[n, k, i] * adjoint[i]
        for i in range(m):
            for k in range(m):
                adjoint[i] -= inverse[n, k, i] * total[k]
        for i in range(s):
            out[n, i] = before[n, i]
            for j in range(s):
                out[n, i] -= spread[n, i, j] * adjoint[j]
        if n > 0:
            for i in range(s):
                moved[i] = 0.0
                for j in range(s):
                    moved[i] += Phi[n - 1, j, i] * adjoint[j]
            adjoint[:] = moved


@dataclass(frozen=True, eq=False)
class LinearisedLog:
    """A log of N samples, linearised about a path of states: s errors, p parameters, m measured."""

    by_error: Array  # Φ of each step, shape (N − 1, s, s)
    by_parameters: Array  # Γ, shape (N − 1, s, p)
    defect: Array  # d, where the step from the path's state leads less the path's next, (N − 1, s)
    process: Array  # covariance of w, shape (N − 1, s, s)
    residual: Array  # measured less the path's, of the leading m errors, shape (N, m)
    variance: Array  # of n, infinite where nothing was measured, shape (N, m)
    start: Array  # covariance of the first error, about the path's first state, shape (s, s)
    prior: Array | None = None  # rows [A b] known of θ beside the log, shape (any, p + 1)

    def innovations(self) -> Innovations:
        """Return the Kalman filter's innovations, whitened."""
        count, m = self.residual.shape
        s, p = self.by_parameters.shape[1:]
        rows, half = np.empty((count, m, p + 1)), np.empty((count, m, s))
        inverse, before = np.empty((count, m, m)), np.empty((count, s, p + 1))
        spread = np.empty((count, s, s))
        # The residual of missing measurements may be NaN, which zero times would stay.
        residual = np.where(np.isfinite(self.variance), self.residual, 0.0)
        system = plain(self.by_error, self.by_parameters, self.defect, self.process)
        measured = plain(residual, self.variance)
        X, P = np.zeros((s, p + 1)), np.array(self.start)
        arrays = rows, half, inverse, before, spread
        _filter(system, measured, X, P, arrays)
        return Innovations(self, *arrays)


@dataclass(frozen=True, eq=False)
class Innovations:
    """Whitened innovations `b − A θ` of a linearised log, and what smoothing needs."""

    log: LinearisedLog  # the linearised log
    rows: Array  # [A b], shape (N, m, p + 1); zeros where nothing was measured
    half: Array  # L⁻¹ H P, shape (N, m, s)
    inverse: Array  # L⁻¹, shape (N, m, m)
    before: Array  # predicted errors by θ, and their constant part, shape (N, s, p + 1)
    spread: Array  # their covariance at a given θ, shape (N, s, s)

    @cached_property
    def triangle(self) -> Triangle:
        """Information about θ: independent rows of unit variance."""
        flat = self.rows.reshape(-1, self.rows.shape[2])
        flat = flat if self.log.prior is None else np.vstack([flat, self.log.prior])
        return Triangle(np.arange(flat.shape[1] - 1), triangle_of(flat), self.count)

    @property
    def count(self) -> int:
        """Number of measurements."""
        return int(np.sum(np.isfinite(self.log.variance)))

    def at(self, parameters: Array) -> Array:
        """Return the whitened innovations, (N, m), at θ, shape (p,); white if the model holds."""
        return np.asarray(self.rows[:, :, -1] - self.rows[:, :, :-1] @ parameters)

    def smoothed(self, parameters: Array) -> Array:
        """Return the errors of the states, (N, s), given all measurements and θ, shape (p,)."""
        out = np.empty(self.before.shape[:2])
        before = self.before[:, :, :-1] @ parameters + self.before[:, :, -1]
        white, predicted = plain(self.at(parameters), before)
        _backward(
            plain(self.log.by_error)[0], white, self.half, self.inverse, predicted, self.spread, out
        )
        return out


class System(Protocol):
    """A log of a system with states and constant parameters, which can be linearised."""

    def linearised(self, path: Any, values: Array, variance: Array) -> LinearisedLog:
        """Return the log linearised about a path of states and parameters θ̄; θ counts from there.

        Args:
            values: θ̄, shape (p,).
            variance: Of each measurement, infinite where it is left out, shape (N, m).
        """
        ...

    def moved(self, path: Any, errors: Array) -> Any:
        """Return a path moved by errors, shape (N, s)."""
        ...

    def allowed(self, values: Array, step: Array) -> Array:
        """Return a step of the parameters, shortened where the linearisation does not reach."""
        ...


@dataclass(frozen=True, eq=False)
class SmoothedLog:
    """States and parameters from all of a log."""

    values: Array  # θ, shape (p,)
    triangle: Triangle  # information about θ in independent rows of unit variance, about zero
    path: Any  # smoothed states
    white: Array  # whitened innovations, shape (N, m); zeros where nothing was measured
    rows: Array  # a of them, shape (N, m, p)
    variance: Array  # of the measurements, infinite where missing or left out, shape (N, m)
    left_out: int  # number of measured groups that were left out as outliers
    passes: int  # number of linearisations
    settled: bool  # whether the last step was within the tolerance
    prior: Array | None = None  # rows [A b] known of θ beside the log, about zero, (any, p + 1)

    @property
    def freedom(self) -> int:
        """Degrees of freedom: measurements less parameters and errors of the first state."""
        return int(np.sum(np.isfinite(self.variance))) - len(self.values)

    @property
    def chi_square(self) -> float:
        """Squared whitened innovations per degree of freedom: 1 if the noise is as stated."""
        return float(np.sum(self.white**2)) / self.freedom

    @property
    def covariance(self) -> Array:
        """Covariance of θ where all noise is as stated, shape (p, p); infinite where unknown."""
        inverse = Directions.of(self.triangle.R, self.triangle.rows).inverse
        return np.asarray(inverse @ inverse.T)

    def score_chi_square(self, blocks: int) -> float:
        """Return the mean square of the blocks' scores over that expected of the stated noise.

        The scores g = Σ Aᵀν of successive blocks of a log are independent with covariance ΣAᵀA
        where the innovations are white. Their mean square in that metric by dimension is 1 then,
        and more where slow noise, which chi-squares of single samples hardly see, moves θ.
        """
        parts = np.array_split(np.arange(len(self.white)), blocks)
        inverse = Directions.of(self.triangle.R, self.triangle.rows).inverse
        scores = [np.einsum("nmp,nm->p", self.rows[i], self.white[i]) @ inverse for i in parts]
        p = len(self.values)
        return float(np.sum(np.square(scores)) / p * blocks / max(blocks - 1, 1))


@dataclass(frozen=True)
class IteratedSmoother:
    """Parameters and states of a log by an iterated Kalman smoother [Bell1994].

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    passes: int = 10  # most linearisations
    tolerance: float = 0.02  # step of every parameter below which it ends [standard deviations]
    # probability with which a good group of measurements is left out by mistake
    outlier: float = 1e-6
    # sizes of the groups of measurements that are left out together
    groups: tuple[int, ...] = (3, 3)

    def __post_init__(self) -> None:
        checks: Keys = {
            "passes": Number("the number of passes is no whole number", 1, 1000, whole=True),
            "tolerance": Number("the tolerance is no positive number", above=0.0),
            "outlier": Number("a probability is between 0 and 1", 0.0, 1.0),
        }
        check_fields(self, checks)

    def fit(self, system: System, path: Any, values: Array, variance: Array) -> SmoothedLog:
        """Return parameters and states.

        Args:
            path: States to start from.
            values: Parameters to start from, shape (p,).
            variance: Of each measurement, infinite where missing, shape (N, m).

        Raises:
            TooLittleData: If the log does not determine the parameters.
        """
        kept = variance
        settled = False
        for done in range(1, self.passes + 1):
            log = system.linearised(path, values, kept)
            innovations = log.innovations()
            t = innovations.triangle
            seen = Directions.of(t.R, t.rows)
            if not np.isfinite(t.factor).all():
                raise TooLittleData(
                    "the states diverge: the log does not go with the model",
                    got=f"after {done - 1} passes over {t.rows} measurements",
                    cure="look at axes, signs and units of what is measured and commanded",
                )
            if seen.rank < len(values):
                raise TooLittleData(
                    "the log does not determine all parameters",
                    got=f"rank {seen.rank} of {len(values)} from {t.rows} measurements",
                    cure="use a motion that excites all axes",
                )
            step = system.allowed(values, seen.shortest(t.z))
            errors = innovations.smoothed(step)
            judged = self._without_outliers(log.residual - errors[:, : kept.shape[1]], variance)
            same = bool(np.array_equal(judged, kept))
            settled = same and bool(np.max(np.abs(t.R @ step)) < self.tolerance)
            path, values = system.moved(path, errors), values + step
            if settled or done == self.passes:
                break
            kept = judged
        # Rows count from zero, not from the last point.
        factor, prior, point = t.factor.copy(), log.prior, values - step
        factor[:-1, -1] = t.z + t.R @ point
        if prior is not None:
            prior = np.column_stack([prior[:, :-1], prior[:, -1] + prior[:, :-1] @ point])
        missing = np.isfinite(variance) & ~np.isfinite(kept)
        starts = np.cumsum((0, *self.groups[:-1]))
        return SmoothedLog(
            values,
            Triangle(t.columns, factor, t.rows),
            path,
            innovations.at(step),
            innovations.rows[:, :, :-1],
            kept,
            int(missing[:, starts].sum()),
            done,
            settled,
            prior,
        )

    def _without_outliers(self, rest: Array, variance: Array) -> Array:
        """Return the variances, infinite for groups whose residuals exceed the limit of χ²."""
        out, first = variance.copy(), 0
        for size in self.groups:
            cut = slice(first, first + size)
            limit = scipy.special.chdtri(size, self.outlier)
            with np.errstate(invalid="ignore"):
                far = np.sum(rest[:, cut] ** 2 / variance[:, cut], axis=1) > limit
            out[far, cut] = np.inf
            first += size
        return out


def warm_up() -> None:
    """Call the compiled functions once, so that they are compiled and cached."""
    s, p, m = 3, 2, 2
    log = LinearisedLog(
        np.zeros((1, s, s)), np.zeros((1, s, p)), np.zeros((1, s)), np.zeros((1, s, s)),
        np.zeros((2, m)), np.ones((2, m)), np.eye(s),
    )  # fmt: skip
    rows, half, inverse = np.zeros((2, m, p + 1)), np.zeros((2, m, s)), np.zeros((2, m, m))
    before, spread = np.zeros((2, s, p + 1)), np.zeros((2, s, s))
    X, P = np.zeros((s, p + 1)), np.eye(s)
    system = (log.by_error, log.by_parameters, log.defect, log.process)
    _filter(system, (log.residual, log.variance), X, P, (rows, half, inverse, before, spread))
    step = np.eye(s), X[:, :p].copy(), np.zeros(s), P
    _predict(step, X, P, np.zeros((s, s)), np.zeros((s, p + 1)))
    _update(np.zeros(m), np.ones(m), X, P, rows[0], half[0], inverse[0])
    out = np.zeros((2, s))
    _backward(log.by_error, log.residual, half, inverse, np.zeros((2, s)), spread, out)


KERNELS = Kernels((_filter, _backward, _predict, _update), warm_up)


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
        """Return the error about a point moved by `states` and by a shift of θ, shape (p,)."""
        factor, columns = self.factor.copy(), self.columns.copy()
        difference = self.parameters - parameters
        factor[:-1, -1] = factor[:-1, :-1] @ difference
        columns[:, -1] = -columns[:, :-1] @ difference
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
        checks: Keys = {"outlier": Number("a probability is between 0 and 1", 0.0, 1.0)}
        check_fields(self, checks)

    def start(self, spread: Array, prior: Array) -> FilterError:
        """Return the initial error: covariances of states, (s, s), and of parameters, (p, p)."""
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
        step = plain(by_error, by_parameters, np.zeros(len(P)), process)
        _predict(step, X, P, work, wide)
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
        variance, first, count, outliers = variance.copy(), 0, 0, 0
        for size in self.groups:
            cut = slice(first, first + size)
            first += size
            if not np.isfinite(variance[cut]).all():
                variance[cut] = np.inf
                continue
            off = residual[cut] - expected[cut]
            distance = off @ np.linalg.solve(total[cut, cut] + np.diag(variance[cut]), off)
            good = distance <= scipy.special.chdtri(size, self.outlier)
            count, outliers = count + good, outliers + (not good)
            variance[cut] = variance[cut] if good else np.inf
        X, P = error.columns.copy(), error.spread.copy()
        rows = np.empty((m, X.shape[1]))
        measured = np.where(np.isfinite(variance), residual, 0.0)
        gain, inverse = np.empty((m, len(P))), np.empty((m, m))
        _update(*plain(measured, variance), X, P, rows, gain, inverse)
        factor = triangle_of(np.vstack([error.factor, rows]))
        return FilterError(X, P, factor, error.samples + count, error.left_out + outliers)
