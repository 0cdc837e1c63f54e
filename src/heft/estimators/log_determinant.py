"""Least squares with the log-determinant prior: always strictly inside the cone.

Minimises, over links' pseudo-inertias U measured at the model file's value and drives, w,

    ½ ‖R w − z‖² + n₀ Σ_links [tr U − log det U − 4]     subject to linear constraints

by Newton's method with the step from an orthogonal factor, since RᵀR would lose half of the
digits. The divergence tr U − log det U − 4 is that of [Lee2018, eq. 19], the Kullback–Leibler
divergence between Gaussians of these moments; around U = 1 it is ½ ‖U − 1‖²_F. It is
self-concordant, so the steps are damped far away and converge quadratically nearby
[Boyd2004, sect. 9.6]. Linear constraints are met along a barrier's path and then, those that
bind being known, as equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import SolverFailure

from .feasible_set import BASIS, IDENTITY, LinearConstraints, stack, unstack

LEAST_BARRIER = 1e-8  # in squared standard deviations of the misfit
FALL = 10.0  # of a weight from stage to stage
# Of one stage. A dozen are usual; a hundred effective samples less than the data's misfit calls
# for, and bodies drift far along a flat valley, in over a thousand.
STEPS = 5000


@dataclass(frozen=True)
class LogDetProblem:
    """What is minimised."""

    R: Array  # triangle of the data, shape (n, n)
    z: Array  # its right-hand side, shape (n,)
    links: int  # how many; their unknowns come first, ten each
    strength: float  # n₀
    constraints: LinearConstraints  # linear ones, on w, rows of length one

    def solve(self, start: Array) -> tuple[Array, int, NDArray[np.bool_]]:
        """Return the minimum w, the number of Newton steps, and which linear constraints bind.

        Args:
            start: w strictly inside everything but the equations, which it fulfils, shape (n,).

        Returns:
            w, shape (n,), the steps, and for each constraint whether it binds, shape (k,).

        Raises:
            SolverFailure: If the steps do not converge.
        """
        equal = self.constraints.equal
        loud = 0.5 * float(np.sum((self.R @ start - self.z) ** 2))
        total = 0
        point = start
        for weight in _falling(loud, self.strength):
            point, steps = self._newton(point, weight, 0.0, equal)
            total += steps
        if (self._slack(point)[~equal] >= 0.0).all():
            return point, total, equal.copy()
        point = start
        for barrier in _falling(loud, LEAST_BARRIER):
            point, steps = self._newton(point, max(self.strength, barrier), barrier, equal)
            total += steps
        # On the path slack times multiplier is the barrier's weight.
        binds = equal | (self._slack(point) ** 2 < LEAST_BARRIER)
        for _ in range(2 * len(equal)):
            exact = self._on_equations(point, binds)
            if exact is None:
                break
            try:
                trial, steps = self._newton(exact, self.strength, 0.0, binds)
            except np.linalg.LinAlgError:  # rounding, of a body beside the boundary
                break
            total += steps
            wrong = self._wrong(trial, binds)
            if wrong is None:
                return trial, total, binds
            binds = binds ^ (np.arange(len(binds)) == wrong)
        return point, total, binds  # of the path: within its last barrier of the optimum

    def gradient(self, point: Array) -> Array:
        """Return the objective's derivative, shape (n,)."""
        jacobian, rest = self._rows(point, self.strength, 0.0)
        return jacobian.T @ rest

    def _slack(self, point: Array) -> Array:
        return self.constraints.rows @ point - self.constraints.least

    def _wrong(self, point: Array, binds: NDArray[np.bool_]) -> int | None:
        """Return the constraint that is most violated, or binds with the wrong sign; or None."""
        free = ~self.constraints.equal
        slope = self.gradient(point)
        pushes = np.zeros(len(binds))
        pushes[binds] = np.linalg.lstsq(self.constraints.rows[binds].T, slope)[0]
        error = np.where(binds, -pushes, -self._slack(point)) * free
        worst = int(np.argmax(error))
        return worst if error[worst] > 1e-9 * (1.0 + float(np.abs(slope).max())) else None

    def _on_equations(self, point: Array, binds: NDArray[np.bool_]) -> Array | None:
        """Return the nearest point where constraints bind; None if a body is not physical."""
        rows = self.constraints.rows[binds]
        moved = point - np.linalg.lstsq(rows, self._slack(point)[binds])[0]
        lowest = np.linalg.eigvalsh(unstack(moved[: 10 * self.links].reshape(-1, 10)))[:, 0]
        return moved if lowest.min(initial=1.0) > 0.0 else None

    def _rows(self, point: Array, weight: float, barrier: float) -> tuple[Array, Array]:
        """Return J and r with `JᵀJ` the objective's Hessian and `Jᵀr` its gradient.

        With U = C Cᵀ, the divergence's Hessian is ‖C⁻¹ dU C⁻ᵀ‖² and its gradient
        1 − U⁻¹ = C⁻ᵀ (Cᵀ C − 1) C⁻¹.
        """
        C = np.linalg.cholesky(unstack(point[: 10 * self.links].reshape(-1, 10)))
        back = np.linalg.inv(C)[:, None]
        moved = stack(back @ BASIS @ np.swapaxes(back, -1, -2))
        bodies = np.zeros((10 * self.links, len(point)))
        for k in range(self.links):
            ten = slice(10 * k, 10 * k + 10)
            bodies[ten, ten] = moved[k].T
        apart = (stack(np.swapaxes(C, -1, -2) @ C) - IDENTITY).ravel()
        root = np.sqrt(weight)
        jacobian, rest = [self.R, root * bodies], [self.R @ point - self.z, root * apart]
        if barrier > 0.0:
            free = ~self.constraints.equal
            ratio = np.sqrt(barrier) / self._slack(point)[free]
            jacobian.append(ratio[:, None] * self.constraints.rows[free])
            rest.append(np.full(len(ratio), -np.sqrt(barrier)))
        return np.vstack(jacobian), np.concatenate(rest)

    def _newton(
        self, point: Array, weight: float, barrier: float, held: NDArray[np.bool_]
    ) -> tuple[Array, int]:
        rows = self.constraints.rows[held]
        within = scipy.linalg.null_space(rows) if len(rows) else np.eye(len(point))
        # Below this decrement a full step stays inside and squares the error.
        close = 0.25 * np.sqrt(min(weight, barrier) if barrier > 0.0 else weight)
        before = np.inf
        for count in range(STEPS):
            jacobian, rest = self._rows(point, weight, barrier)
            reduced = jacobian @ within
            lengths = np.linalg.norm(reduced, axis=0)
            left, right = np.linalg.qr(reduced / lengths)
            across = left.T @ rest
            step = -within @ (scipy.linalg.solve_triangular(right, across) / lengths)
            decrement = float(np.linalg.norm(across))
            if decrement <= 1e-10 * close or (before <= close and decrement > 0.5 * before):
                return point, count
            share = self._share(point, step, weight, barrier) if decrement > close else 1.0
            point = point + share * step
            before = decrement
        raise SolverFailure(
            "the steps towards the log-determinant prior's estimate do not converge",
            got=f"a decrement of {before:.3g} after {STEPS} steps",
            cure='take prior="quadratic", or a stronger prior',
        )

    def _share(self, point: Array, step: Array, weight: float, barrier: float) -> float:
        """Return how much of a step brings the objective to its least along it.

        Along a step all of it is a quadratic and logarithms: its derivative is closed form,
        grows throughout, and is infinite where the first body or constraint ends.
        """
        move = self.R @ step
        linear = float(move @ (self.R @ point - self.z))
        square = float(move @ move)
        C = np.linalg.cholesky(unstack(point[: 10 * self.links].reshape(-1, 10)))
        back = np.linalg.inv(C)
        U = unstack(step[: 10 * self.links].reshape(-1, 10))
        rates = np.linalg.eigvalsh(back @ U @ np.swapaxes(back, -1, -2)).ravel()
        weights = np.full(len(rates), weight)
        linear += weight * float(np.trace(U, axis1=1, axis2=2).sum())
        if barrier > 0.0:
            free = ~self.constraints.equal
            slopes = self.constraints.rows[free] @ step
            rates = np.append(rates, slopes / self._slack(point)[free])
            weights = np.append(weights, np.full(len(slopes), barrier))
        least = float(rates.min(initial=0.0))
        low, high = 0.0, 2.0 if least >= -0.5 else 1.0 / -least
        for _ in range(50):
            middle = 0.5 * (low + high)
            slope = linear + middle * square - float(np.sum(weights * rates / (1 + middle * rates)))
            low, high = (middle, high) if slope < 0.0 else (low, middle)
        return low


def _falling(first: float, last: float) -> list[float]:
    stages = max(0, int(np.ceil(np.log(max(first, last) / last) / np.log(FALL))))
    return [last * FALL**k for k in range(stages, -1, -1)]
