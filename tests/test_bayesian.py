"""Bayesian regression with noise in every column: its steps row by row, and what it can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.estimators import BayesianRegression, LeastSquares
from heft.estimators.bayesian import FactorModel
from tests.row_problems import RowProblem, one_channel

Array = np.ndarray[Any, np.dtype[np.float64]]
SIZE, ROWS = 4, 60


def rows(seed: int = 0, count: int = ROWS) -> Array:
    """Return rows `[x y]`, columns of variance one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, SIZE)) @ (np.eye(SIZE) + 0.3 * rng.normal(size=(SIZE, SIZE)))
    y = x @ rng.normal(size=SIZE) + 0.3 * rng.normal(size=count)
    whole = np.column_stack([x, y])
    return np.asarray(whole / np.sqrt(np.mean(whole**2, axis=0)))


def some_model(seed: int = 0) -> FactorModel:
    rng = np.random.default_rng(seed)
    return FactorModel(
        rng.normal(size=(2, SIZE)),
        rng.uniform(0.01, 0.1, size=(2, SIZE)),
        rng.uniform(0.5, 2.0, SIZE),
        rng.uniform(0.1, 0.5, size=(2, SIZE)),
        0.2,
    )


def by_rows(model: FactorModel, whole: Array) -> FactorModel:
    """Return a step with the hidden z and t of each row by the inverse of their joint precision."""
    (w_z, w_x), (psi_z, psi_x) = model.weights, model.noise
    second = model.weights**2 + model.variances
    among = np.diag(1.0 / psi_z) + 1.0 / model.output
    inner = np.diag(1.0 + (second / model.noise).sum(axis=0))
    across = np.diag(-w_z / psi_z)
    covariance = np.linalg.inv(np.block([[among, across], [across, inner]]))
    sums = {k: np.zeros(SIZE) for k in ("tt", "zt", "zz", "xt")}
    missed = 0.0
    for *x, y in whole:
        mean = covariance @ np.concatenate([np.full(SIZE, y / model.output), w_x / psi_x * x])
        z, t = mean[:SIZE], mean[SIZE:]
        zz, zt, tt = covariance[:SIZE, :SIZE], covariance[:SIZE, SIZE:], covariance[SIZE:, SIZE:]
        sums["tt"] += t**2 + np.diag(tt)
        sums["zt"] += z * t + np.diag(zt)
        sums["zz"] += z**2 + np.diag(zz)
        sums["xt"] += x * t
        missed += (y - z.sum()) ** 2 + zz.sum()
    count = len(whole)
    variances = 1.0 / (sums["tt"] / model.noise + model.precision)
    with_t = np.array([sums["zt"], sums["xt"]])
    weights = variances * with_t / model.noise
    second = weights**2 + variances
    squares = np.array([sums["zz"], np.sum(whole[:, :-1] ** 2, axis=0)])
    noise = (squares - 2.0 * weights * with_t + second * sums["tt"]) / count
    precision = (1e-6 + 1.0) / (1e-6 + 0.5 * second.sum(axis=0))
    return FactorModel(weights, variances, precision, noise, missed / count)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_on_moments_is_that_of_all_rows(seed: int) -> None:
    whole, model = rows(seed), some_model(seed)
    found = model.step(whole.T @ whole / ROWS, ROWS)
    wanted = by_rows(model, whole)
    for name in ("weights", "variances", "precision", "noise", "output"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-9), name


def likelihood(model: FactorModel, moments: Array, count: int) -> float:
    """Return the log-likelihood of rows with these moments, weights at their means."""
    (w_z, w_x), (psi_z, psi_x) = model.weights, model.noise
    covariance = np.diag(np.append(w_x**2 + psi_x, np.sum(w_z**2 + psi_z) + model.output))
    covariance[:-1, -1] = covariance[-1, :-1] = w_x * w_z
    told = np.trace(np.linalg.solve(covariance, moments))
    return -0.5 * count * float(np.linalg.slogdet(covariance)[1] + told)


def test_steps_raise_the_likelihood() -> None:
    count = 100_000  # the prior, and the weights' variance, weigh nothing
    whole = rows(1, count)
    moments, model = whole.T @ whole / count, some_model(2)
    model = replace(model, variances=np.zeros((2, SIZE)))
    values = []
    for _ in range(200):
        values.append(likelihood(model, moments, count))
        model = model.step(moments, count)
    assert (np.diff(values) >= -1.0).all()
    assert values[-1] > values[0] + 1e4


def test_rows_do_not_tell_how_much_of_a_column_is_noise() -> None:
    """Models of one slope and one variance of y are as likely, whatever their columns' noise."""
    whole = rows(3, 2000)
    moments = whole.T @ whole / len(whole)
    values = []
    for share in (0.02, 0.1, 0.3):
        w_x = np.full(SIZE, np.sqrt(1.0 - share))
        slopes = np.full(SIZE, 0.2)
        w_z = slopes / w_x
        output = 1.0 - np.sum(w_z**2) - SIZE * 0.01
        noise = np.array([np.full(SIZE, 0.01), np.full(SIZE, share)])
        model = FactorModel(np.array([w_z, w_x]), np.zeros((2, SIZE)), np.ones(SIZE), noise, output)
        assert model.slopes == pytest.approx(slopes * model.gain)
        values.append(likelihood(model, moments, len(whole)))
    assert values == pytest.approx([values[0]] * 3, rel=1e-9)


def independent(share: float, silent: bool = False) -> RowProblem:
    """Return rows of independent columns, all of them but the last with noise of a share."""
    clean, rng = one_channel(20_000), np.random.default_rng(5)
    size = np.sqrt(share / (1.0 - share)) * np.array([1.0, 1.0, 1.0, 0.0])
    Y = clean.regressor + size * rng.normal(size=clean.regressor.shape)
    effort = clean.effort
    if silent:
        effort = effort - clean.regressor[:, :, 1] * clean.truth[1]
    return replace(clean, regressor=Y, effort=effort + 0.1 * rng.normal(size=effort.shape))


def test_columns_of_its_own_model_are_corrected_in_part() -> None:
    problem = independent(0.1)
    least = LeastSquares().fit(problem).parameters.values
    found = BayesianRegression().fit(problem).parameters.values
    off, corrected = (np.abs(v - problem.truth)[:3] for v in (least, found))
    assert (corrected < off).all()
    assert np.mean(corrected) <= 0.6 * np.mean(off)


def test_a_column_that_is_all_noise_is_given_up() -> None:
    problem = independent(0.1, silent=True)
    found = BayesianRegression(share=0.3, steps=20_000, tolerance=1e-9).fit(problem)
    assert found.parameters.values[1] == 0.0
    assert found.settings["all_noise"] == 1
    assert found.parameters.std[1] > 0.0


def test_without_noise_at_the_start_it_is_least_squares() -> None:
    problem = independent(0.1)
    found = BayesianRegression(share=0.0).fit(problem)
    wanted = LeastSquares().fit(problem).parameters
    assert found.settings["converged"]
    assert np.abs((found.parameters.values - wanted.values) / wanted.std).max() <= 0.05


@pytest.mark.parametrize("changed", [{"share": 1.0}, {"share": -0.1}, {"steps": 0}])
def test_settings_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match="Bayesian"):
        BayesianRegression(**changed)
