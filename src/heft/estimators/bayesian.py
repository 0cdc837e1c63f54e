"""Bayesian regression that looks for noise in every column, with automatic relevance [Ting2006].

Each scaled column x_m of a row and its share z_m of the torque y are noisy images of one hidden
input t_m, a joint factor analysis:

    t_m ~ N(0, 1)    x_m ~ N(w_xm t_m, ψ_xm)    z_m ~ N(w_zm t_m, ψ_zm)    y ~ N(Σ_m z_m, ψ_y)
    w_xm, w_zm ~ N(0, 1/α_m)    α_m ~ Gamma

fitted by variational expectation and maximisation. The regression vector of inputs without noise is
β_m = w_zm / w_xm; a column whose w_x falls to zero is all noise, and its β is zero. What is summed
over rows are second moments only, so a triangle will do.

What it assumes, and where a robot departs from it: rows are independent and Gaussian; columns are
independent of one another, which those of a regressor are not at all; noise is independent from
column to column. And rows tell only `w_x w_z / (w_x² + ψ_x)`, which is the least-squares slope: how
much of a column is noise is not seen in its likelihood, but follows from the prior, from the share
that it starts with, and from the steps that are taken. The correction is never more than what the
residual has room for. It is here because the field cites it, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.files import Keys, Number, check_fields
from heft.information import Directions, Triangle

from .estimate import Estimate
from .least_squares import LeastSquares, estimate_at
from .problem import Problem

LEAST = 1e-12  # variance of noise, of a column's own: less is rounding
GAMMA = 1e-6  # shape and rate of the prior of α: as good as none


@dataclass(frozen=True)
class FactorModel:
    """Parameters of the joint factor analysis of m columns and an output."""

    weights: Array  # means of w_z and w_x, shape (2, m)
    variances: Array  # their variances, shape (2, m)
    precision: Array  # mean of α, shape (m,)
    noise: Array  # ψ_z and ψ_x, shape (2, m)
    output: float  # ψ_y

    @staticmethod
    def start(slopes: Array, share: float, residual: float) -> FactorModel:
        """Return the model of a regression whose columns are noise by a share of their variance.

        Args:
            slopes: Of least squares on columns of variance one, shape (m,).
            residual: Mean square of the residual; one half is the output's, one half the columns'.
        """
        size = len(slopes)
        w_x = np.full(size, np.sqrt(1.0 - share))
        inputs = np.full(size, max(share, LEAST))
        shares = np.full(size, max(0.5 * residual / size, LEAST))
        return FactorModel(
            np.array([slopes / w_x, w_x]),
            np.zeros((2, size)),
            np.ones(size),
            np.array([shares, inputs]),
            max(0.5 * residual, LEAST),
        )

    @property
    def relevant(self) -> Array:
        """Whether a column holds more than noise, shape (m,)."""
        signal = self.weights[1] ** 2
        return np.asarray(signal > 1e-3 * (signal + self.noise[1]))  # else it is all noise

    @property
    def slopes(self) -> Array:
        """β of inputs without noise, shape (m,)."""
        w_z, w_x = self.weights
        return np.where(self.relevant, w_z / np.where(self.relevant, w_x, 1.0), 0.0)

    @property
    def gain(self) -> Array:
        """Ratio of β to the least-squares slope, shape (m,)."""
        w_x = np.where(self.relevant, self.weights[1], 1.0)
        return np.where(self.relevant, 1.0 + self.noise[1] / w_x**2, 0.0)

    def step(self, moments: Array, rows: float) -> FactorModel:
        """Return the model after one expectation and one maximisation.

        Given the weights, hidden z and t are Gaussian with means `P x + p y` and `Q x + q y`.

        Args:
            moments: Mean of `[x y]ᵀ[x y]`, x of variance one, shape (m + 1, m + 1).
        """
        (w_z, w_x), (psi_z, psi_x) = self.weights, self.noise
        second = self.weights**2 + self.variances
        inner = 1.0 + (second / self.noise).sum(axis=0)  # precision of t given z
        spread = 1.0 / (1.0 / psi_z - w_z**2 / (psi_z**2 * inner))
        total = self.output + spread.sum()
        own = spread - spread**2 / total  # Cov z = diag(spread) − spread spreadᵀ / total
        back, seen = w_z / (psi_z * inner), w_x / (psi_x * inner)
        # z = diag(direct) x + spread (share · [x y]), t = back z + seen x: no product of matrices.
        direct = spread * w_z * seen / psi_z
        share = np.append(-direct, 1.0) / total
        z = np.outer(spread, share)
        z[:, :-1] += np.diag(direct)
        t = back[:, None] * z
        t[:, :-1] += np.diag(seen)
        z_sums = direct[:, None] * moments[:-1] + np.outer(spread, share @ moments)
        t_sums = back[:, None] * z_sums + seen[:, None] * moments[:-1]
        tt = 1.0 / inner + back**2 * own + np.sum(t_sums * t, axis=1)
        zt = back * own + np.sum(z_sums * t, axis=1)
        zz = own + np.sum(z_sums * z, axis=1)
        xt = np.sum(moments[:-1] * t, axis=1)
        missed = np.append(-z.sum(axis=0)[:-1], 1.0 - z[:, -1].sum())  # y − Σ z
        output = float(missed @ moments @ missed + self.output * spread.sum() / total)
        variances = 1.0 / (rows * tt / self.noise + self.precision)
        with_t = np.array([zt, xt])
        weights = variances * rows * with_t / self.noise
        second = weights**2 + variances
        squares = np.array([zz, np.diag(moments)[:-1]])
        noise = squares - 2.0 * weights * with_t + second * tt
        precision = (GAMMA + 1.0) / (GAMMA + 0.5 * second.sum(axis=0))
        return FactorModel(
            weights, variances, precision, np.maximum(noise, LEAST), max(output, LEAST)
        )


@dataclass(frozen=True)
class BayesianRegression:
    """Bayesian regression with noise detection in rows weighted by their channel's noise.

    All channels' rows make one regression, as in the paper. Its projection onto parameters that can
    exist is the physically consistent estimate that follows any base parameters here, in the metric
    of the rows. Where noise of the motion matters, take the weak form, or `ErrorsInVariables` of
    motion that repeats, which measures what this one supposes.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    share: float = 0.1  # of each column's variance, taken for noise at the start
    steps: int = 300  # largest number of steps
    # change of β by a step at which the steps end [standard deviations, in the mean]
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        message = "a setting of the Bayesian regression is out of range"
        checks: Keys = {
            "share": Number(message, 0.0, below=1.0),
            "steps": Number(message, 1, whole=True),
            "tolerance": Number(message, above=0.0),
        }
        check_fields(self, checks)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β.

        Raises:
            TooLittleData: If there are no more rows than parameters.
        """
        rough = LeastSquares(coloured=False).fit(problem)
        values, gain, converged = self._solved(rough)
        settings: dict[str, object] = {
            "weighting": "channel",
            "share": self.share,
            "converged": converged,
            "all_noise": int(np.sum(gain == 0.0)),
        }
        triangle = rough.information.combined(rough.fitted_with)
        inverse = Directions.of(triangle.R, triangle.rows).inverse
        ratio = np.where(gain > 0.0, gain, 1.0)  # what is zero is as unsure as least squares has it
        change = inverse @ (ratio[:, None] * inverse).T
        scale = rough.noise.sigma
        return estimate_at(problem, rough, values, change, scale, rough.passes, settings)

    def values(self, estimate: Estimate) -> Array:
        """Return β from the information of a least-squares estimate, shape (b,)."""
        return self._solved(estimate)[0]

    def _solved(self, rough: Estimate) -> tuple[Array, Array, bool]:
        """Return β, its ratio to the least-squares estimate, and whether the steps converged."""
        triangle = rough.information.combined(rough.fitted_with)
        seen = np.linalg.norm(triangle.R, axis=0) > 0.0
        values, gain = rough.fitted.copy(), np.ones(len(seen))
        model, unit, converged = self._model(triangle, values, seen)
        values[seen], gain[seen] = model.slopes * unit, model.gain
        return values, gain, converged

    def _model(
        self, triangle: Triangle, values: Array, seen: Array
    ) -> tuple[FactorModel, Array, bool]:
        """Return the model of the columns seen, their scale in β, and whether it converged."""
        kept = np.append(np.flatnonzero(seen), len(seen))
        factor = triangle.factor[:, kept] / np.sqrt(triangle.rows)
        lengths = np.linalg.norm(factor, axis=0)
        lengths = np.where(lengths > 0.0, lengths, 1.0)
        factor = factor / lengths
        moments, rows = factor.T @ factor, float(triangle.rows)
        scale = lengths[-1] / lengths[:-1]
        slopes = values[kept[:-1]] / scale
        residual = factor @ np.append(-slopes, 1.0)
        model = FactorModel.start(slopes, self.share, float(residual @ residual))
        unit = np.sqrt(rows / max(float(residual @ residual), LEAST))
        for _ in range(self.steps):
            before, model = model, model.step(moments, rows)
            moved = unit * np.linalg.norm(factor[:, :-1] @ (model.slopes - before.slopes))
            if moved <= self.tolerance * np.sqrt(len(slopes)):
                return model, scale, True
        return model, scale, False
