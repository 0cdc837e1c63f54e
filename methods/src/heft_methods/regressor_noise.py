"""Errors in variables: the regressor's own noise, as periods of the motion show it.

Noise of positions is in the regressor Y as well as in τ, and makes least squares too small, more
data or not: Yᵀ Y counts the noise of Y as information. Of motion that repeats, rows a period apart
differ by noise alone, and half of the mean of their difference's square is the covariance C of a
row's `[Y, τ − Y β]`. Then, Σ over channels of λ/v,

    (Σ YᵀY − λ C_YY) δ = Σ Yᵀe − λ C_Ye,     e = τ − Y β, β + δ the next β

Corrected least squares has λ the number of rows and v the residual's mean square: it is consistent
whatever else is left over [Fuller1987, section 2.2]. Effective-variance maximum likelihood
[Orear1982] minimises `Σ ‖e‖² / v` over channels, v = [δ −1] C [δ −1]ᵀ the variance that noise makes
of e, so that λ = ‖e‖²/v: the best of all if noise is all that is left over. On robots it is not:
what the model cannot describe is then taken for noise of the regressor, too. Of one channel it is
generalised total least squares. Both are listed for comparison: to average the periods first, or
the weak form, leaves less noise rather than correct for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.estimators import (
    Estimate,
    LeastSquares,
    Problem,
    Residuals,
    estimate_at,
    measured_regressor_covariance,
)
from heft.files import Keys, Number, Text, check_fields
from heft.information import Directions

Criterion = Literal["corrected", "effective-variance"]
CHECKS: Keys = {
    "criterion": Text("there is no such criterion", get_args(Criterion)),
    "steps": Number("there are to be steps", 1, whole=True),
}


def row_noise(
    pieces: Iterator[Residuals], channels: int, size: int, period: float, every: int
) -> Array | None:
    """Return the noise covariance of each channel's `[Y, τ − Y β]`, shape (channels, b + 1, b + 1).

    Of rows a period apart, one in `every`, which bounds the memory taken.

    Args:
        pieces: Contiguous residuals of one recording, in order.
        period: Of the motion [rows].
        every: Spacing of the rows that are used [rows].

    Returns:
        The covariance; None if the recording has less than a period beyond the first.
    """
    lag, rows, pairs = round(period), 0, 0
    held: dict[int, Array] = {}
    total = np.zeros((channels, size + 1, size + 1))
    for piece in pieces:
        # Rows that were left out have no place: others keep theirs.
        places = rows + np.arange(len(piece.values)) if piece.index is None else piece.index
        rows += len(piece.values)
        early = np.flatnonzero(places % every == 0)
        held.update(zip(places[early].tolist(), _beside(piece, early), strict=True))
        late = np.flatnonzero((places - lag) % every == 0)
        for place, later in zip(places[late].tolist(), _beside(piece, late), strict=True):
            if (before := held.pop(place - lag, None)) is not None:
                apart = later - before
                total += 0.5 * apart[:, :, None] * apart[:, None, :]
                pairs += 1
    return total / pairs if pairs * every >= lag else None


def _beside(piece: Residuals, places: NDArray[np.intp]) -> Array:
    """Return `[Y, τ − Y β]` at some rows of a piece, shape (n, channels, b + 1)."""
    return np.concatenate([piece.regressor(places), piece.values[places][:, :, None]], axis=2)


@dataclass(frozen=True)
class _NoisyRows:
    """Rows with the noise of their regressor, in coordinates y: `β = β₀ + B y`, BᵀYᵀY B = 1."""

    rough: Estimate  # weighted least squares β₀
    noise: Array  # C of each channel's `[Y, τ − Y β₀]`, shape (channels, b + 1, b + 1)
    B: Array  # shape (b, rank)

    @staticmethod
    def of(rough: Estimate, noise: Array) -> _NoisyRows:
        triangle = rough.information.combined(rough.fitted_with)
        return _NoisyRows(rough, noise, Directions.of(triangle.R, triangle.rows).inverse)

    def moments(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """Return ‖e‖² and v of each channel, and half their derivatives by y."""
        beside, values = np.append(self.B @ y, -1.0), self.rough.fitted + self.B @ y
        triangles = self.rough.information.triangles
        energy = np.array([t.residual_energy(values) for t in triangles])
        made = self.noise @ beside
        slopes = -self.rough.information.moments(values) @ self.B
        return energy, made @ beside, slopes, made[:, :-1] @ self.B

    def least(self, steps: int) -> Array:
        """Return the y of least Σ ‖e‖²/v, shape (rank,).

        Raises:
            SolverFailure: If the steps do not converge.
        """
        from scipy.optimize import minimize

        rows = float(self.rough.noise.rows.sum())

        def loss(y: Array) -> tuple[float, Array]:
            energy, variance, down, wider = self.moments(y)
            slope = down / variance[:, None] - (energy / variance**2)[:, None] * wider
            return float(np.sum(energy / variance)) / rows, 2.0 * slope.sum(axis=0) / rows

        start = np.zeros(self.B.shape[1])
        found = minimize(
            loss, start, jac=True, method="BFGS", options={"maxiter": steps, "gtol": 1e-9}
        )
        if found.nit >= steps:
            raise SolverFailure(
                "the effective variance finds no end",
                got=f"{steps} steps",
                cure="take errors-in-variables or least-squares",
            )
        return np.asarray(found.x)

    def corrected(self, strength: Array, variance: Array, count: float) -> tuple[Array, Array]:
        """Return `Σ (YᵀY − λ C)/v` in y, and the score `Σ (Yᵀe − λ c)/v` at y = 0.

        Args:
            count: Number of rows by which noise scatters.

        Raises:
            SolverFailure: If noise is as large as what was seen, in some direction.
        """
        information = self.rough.information
        weights = dict(zip(information.channels, 1.0 / np.sqrt(variance), strict=True))
        triangle = information.combined(weights)
        rows = triangle.R @ self.B
        among = np.einsum("c,cij->ij", strength / variance, self.noise)
        bias = self.B.T @ among[:-1, :-1] @ self.B
        seen = rows.T @ rows
        if measured_regressor_covariance(seen, bias, count) is None:
            share = float(scipy.linalg.eigh(bias, seen, eigvals_only=True)[-1])
            raise SolverFailure(
                "the regressor's noise is as large as what was seen of some parameters",
                argument="method",
                got=f"a share of {share:.1%}",
                cure="lower the corner (--corner), average the periods (--average), or take "
                "least-squares",
            )
        left = triangle.z - triangle.R @ self.rough.fitted
        return seen - bias, rows.T @ left - self.B.T @ among[:-1, -1]


@dataclass(frozen=True)
class ErrorsInVariables:
    """Least squares corrected for the noise of the regressor that periods show.

    Where the motion does not repeat, noise of the regressor cannot be told from the motion: it is
    taken for none, which is least squares, and `settings["regressor_noise"]` says so.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    # `corrected` least squares, or maximum likelihood by the `effective-variance`
    criterion: Criterion = "corrected"
    steps: int = 1000  # largest number of steps to the least effective variance

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β.

        Raises:
            TooLittleData: If there are no more rows than parameters.
            SolverFailure: If the noise is as large as what was seen in some direction, or the steps
                do not converge.
        """
        rough = LeastSquares(coloured=False).fit(problem)
        passes, noise, period = rough.passes, None, problem.repeats
        if period is not None:
            pieces = problem.residuals(rough.fitted)
            count, size = len(problem.channels), len(problem.labels)
            noise = row_noise(pieces, count, size, period, problem.spacing)
            passes += 1
        if noise is None:
            wide = len(problem.labels) + 1
            noise = np.zeros((len(problem.channels), wide, wide))
        settings: dict[str, object] = {
            "weighting": "channel",
            "criterion": self.criterion,
            "regressor_noise": "periods" if noise.any() else "taken for none",
        }
        noisy = _NoisyRows.of(rough, noise)
        variance: Array = rough.noise.sigma**2
        if self.criterion == "effective-variance" and noise.any():
            at = noisy.least(self.steps)
            energy, variance, _, _ = noisy.moments(at)
            left, _ = noisy.corrected(energy / variance, variance, np.inf)
        else:
            rows = rough.noise.rows
            left, score = noisy.corrected(rows, variance, float(rows.sum()))
            at = np.asarray(np.linalg.solve(left, score))
        values = rough.fitted + noisy.B @ at
        change = noisy.B @ np.linalg.solve(left, noisy.B.T)
        return estimate_at(problem, rough, values, change, np.sqrt(variance), passes, settings)
