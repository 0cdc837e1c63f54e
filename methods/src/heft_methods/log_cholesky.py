"""Log-Cholesky least squares: physically consistent bodies without constraints [Rucker2022].

A pseudo-inertia measured at the model file's value, U, is written as

    U = ε 1 + L Lᵀ,     L lower triangular,  L_ii = exp(d_i)

so that any numbers d_i and L_ij (i > j) are a body, and ½ ‖R u − z‖² is minimised over them by
Levenberg and Marquardt's method [Marquardt1963], drives' parameters ≥ 0 by projection. Measuring at
the model file's value multiplies L by that of the file: with ε = 0 this is the parametrisation of
[Rucker2022], up to offsets and a triangular map.

At the edge of the cone the optimum is at d_i → −∞, where all derivatives vanish: from most starts
the steps die far from the optimum, and a rule that ends them is no convergence. So it starts from
the semidefinite optimum, its eigenvalues raised to a floor, keeps d_i above a bound, and ends where
steps no longer gain. From there it cannot gain much either: it is here to be compared, and for
objectives that are not convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from heft.arrays import Array
from heft.estimators import stack, unstack
from heft.files import Keys, Number, check_fields
from heft.information import ParameterSpace, triangle_of

Ended = Literal["no step gains", "steps gain little", "steps used up"]
LOWER = np.tril_indices(4)
DIAGONAL = np.flatnonzero(LOWER[0] == LOWER[1])
OUT_OF_RANGE = "a setting of the log-Cholesky fit is out of range"
CHECKS: Keys = {
    "floor": Number(OUT_OF_RANGE, above=0.0, below=1.0),
    "least": Number(OUT_OF_RANGE, most=0.0),
    "gain": Number(OUT_OF_RANGE, above=0.0),
    "rejected": Number(OUT_OF_RANGE, 1, whole=True),
    "steps": Number(OUT_OF_RANGE, 1, whole=True),
}


class Rows(Protocol):
    """Rows and prior on scaled unknowns; see `scaled_rows.Scaled`."""

    @property
    def space(self) -> ParameterSpace:
        """Parameters that are estimated."""
        ...

    @property
    def factor(self) -> Array:
        """Triangle `[R z; 0 ρ]` of data and prior on u, shape (n + 1, n + 1)."""
        ...


@dataclass(frozen=True)
class Polished:
    """Where the steps ended."""

    unknown: Array  # u: bodies measured at the model file's, ten each, then drives, shape (n,)
    loss: float  # ½ ‖R u − z‖² there
    steps: int  # steps tried
    ended: Ended  # why they ended; `steps used up` is no end


@dataclass(frozen=True)
class LogCholesky:
    """Levenberg-Marquardt steps in log-Cholesky parameters, from a consistent estimate.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    floor: float = 1e-7  # least eigenvalue of L Lᵀ at the start, in the model file's own measure
    least: float = -9.0  # least d_i, below which a body is taken for one at the edge
    # of ½ ‖R u − z‖² by a step, below which steps end [squared standard deviations]
    gain: float = 1e-6
    rejected: int = 25  # number of steps in a row that gain nothing, after which they end
    steps: int = 150  # largest number of steps

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def polish(self, rows: Rows, start: Array, margin: float) -> Polished:
        """Return the point where steps from a consistent one end.

        Args:
            start: u with bodies in the cone, shape (n,).
            margin: ε ≥ 0.
        """
        links, positive = len(rows.space.groups), list(rows.space.nonnegative)
        problem = _Problem(rows.factor[:-1, :-1], rows.factor[:-1, -1], links, margin)
        point = problem.numbers(start, self.floor)
        least = np.full(len(point), -np.inf)
        diagonal = (10 * np.arange(links)[:, None] + DIAGONAL).ravel()
        least[diagonal], least[positive] = self.least, 0.0
        point = np.maximum(point, least)
        loss, damping = problem.loss(point), 1e-3
        refused, count = 0, 0
        for count in range(1, self.steps + 1):
            trial = np.maximum(point + problem.step(point, least, damping), least)
            there = problem.loss(trial)
            gained = loss - there
            if gained > 0.0:
                point, loss, refused, damping = trial, there, 0, damping / 5.0
                if gained < self.gain:
                    return Polished(problem.unknown(point), loss, count, "steps gain little")
            else:
                refused, damping = refused + 1, damping * 4.0
                if refused >= self.rejected:
                    return Polished(problem.unknown(point), loss, count, "no step gains")
        return Polished(problem.unknown(point), loss, count, "steps used up")


@dataclass(frozen=True)
class _Problem:
    """½ ‖R u(θ) − z‖² over θ: ten numbers of L a body, row by row, then drives."""

    R: Array
    z: Array
    links: int
    margin: float

    def numbers(self, unknown: Array, floor: float) -> Array:
        """Return θ of u, eigenvalues of L Lᵀ raised to a floor."""
        bodies = unstack(unknown[: 10 * self.links].reshape(-1, 10)) - self.margin * np.eye(4)
        values, vectors = np.linalg.eigh(bodies)
        raised = vectors * np.maximum(values, floor)[:, None, :] @ np.swapaxes(vectors, 1, 2)
        entries = np.linalg.cholesky(raised)[:, LOWER[0], LOWER[1]]
        entries[:, DIAGONAL] = np.log(entries[:, DIAGONAL])
        return np.concatenate([entries.ravel(), unknown[10 * self.links :]])

    def triangles(self, point: Array) -> Array:
        """Return L of each body, shape (links, 4, 4)."""
        entries = point[: 10 * self.links].reshape(-1, 10).copy()
        entries[:, DIAGONAL] = np.exp(entries[:, DIAGONAL])
        found = np.zeros((self.links, 4, 4))
        found[:, LOWER[0], LOWER[1]] = entries
        return found

    def unknown(self, point: Array) -> Array:
        """Return u of θ, shape (n,)."""
        L = self.triangles(point)
        bodies = stack(L @ np.swapaxes(L, 1, 2) + self.margin * np.eye(4))
        return np.concatenate([bodies.ravel(), point[10 * self.links :]])

    def loss(self, point: Array) -> float:
        """Return ½ ‖R u − z‖²; infinite where exponentials overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            left = self.R @ self.unknown(point) - self.z
            square = 0.5 * float(left @ left)
        return square if np.isfinite(square) else np.inf

    def jacobian(self, point: Array) -> Array:
        """Return d(R u)/dθ, shape (n, n): dU = dL Lᵀ + L dLᵀ."""
        L = self.triangles(point)
        found = self.R.copy()
        for k in range(self.links):
            ten = slice(10 * k, 10 * k + 10)
            moved = np.zeros((10, 4, 4))
            for n, (i, j) in enumerate(zip(*LOWER, strict=True)):
                moved[n, i] = (L[k, i, i] if i == j else 1.0) * L[k, :, j]
            found[:, ten] = self.R[:, ten] @ stack(moved + np.swapaxes(moved, 1, 2)).T
        return found

    def step(self, point: Array, least: Array, damping: float) -> Array:
        """Return the damped Gauss-Newton step of the entries that no bound holds, shape (n,)."""
        jacobian = self.jacobian(point)
        left = self.R @ self.unknown(point) - self.z
        slope = jacobian.T @ left
        free = np.flatnonzero((point > least) | (slope < 0.0))
        lengths = np.linalg.norm(jacobian[:, free], axis=0)
        scale = np.where(lengths > 0.0, lengths, 1.0)
        damped = np.vstack([jacobian[:, free] / scale, np.sqrt(damping) * np.eye(len(free))])
        right = np.append(-left, np.zeros(len(free)))
        triangle = triangle_of(np.column_stack([damped, right]))
        found = np.zeros(len(point))
        size = len(free)
        found[free] = np.linalg.solve(triangle[:size, :size], triangle[:size, size]) / scale
        return found
