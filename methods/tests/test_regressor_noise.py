"""Total least squares and errors in variables: oracles on whole rows, and what each is good for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.row_problems import RowProblem, one_channel, row_problem

from heft.errors import SolverFailure
from heft.estimators import BayesianRegression, LeastSquares
from heft.estimators.least_squares import moved_optimum
from heft_methods import ErrorsInVariables, TotalLeastSquares
from heft_methods.regressor_noise import row_noise

Array = np.ndarray[Any, np.dtype[np.float64]]
PLANT, PERIOD = "free body by its pose", 120
BOTH = pytest.mark.parametrize("criterion", ["corrected", "effective-variance"])


def repeating(periods: int, noise: float, seed: int = 0, misfit: float = 0.0) -> RowProblem:
    """Return rows that repeat, with noise in the regressor and the torque, and a repeated misfit.

    Noise of the columns is common to them, as that of an acceleration is, and some of it in τ.
    """
    one, rng = row_problem(PLANT, PERIOD), np.random.default_rng(seed)
    Y, effort = (np.tile(a, (periods,) + (1,) * (a.ndim - 1)) for a in (one.regressor, one.effort))
    if misfit:
        left = np.random.default_rng(9).normal(size=one.effort.shape)
        effort = effort + misfit * np.tile(left, (periods, 1))
    scale = noise * np.sqrt(np.mean(one.regressor**2, axis=0))
    common = rng.normal(size=(len(Y), Y.shape[1], 1))
    own = rng.normal(size=Y.shape)
    return replace(
        one,
        regressor=Y + scale * (0.6 * common + 0.8 * own),
        effort=effort + 0.05 * (rng.normal(size=effort.shape) + common[:, :, 0]),
        repeats=float(PERIOD),
        chunk=77,
    )


def bias(problems: list[RowProblem], estimator: Any) -> Array:
    """Return the mean error over its standard error, by parameter."""
    errors = np.array([estimator.fit(p).parameters.values - p.truth for p in problems])
    return np.asarray(errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(len(errors))))


# Total least squares


@pytest.mark.parametrize("ratio", [0.2, 1.0, 3.0])
def test_total_least_squares_is_the_smallest_singular_vector(ratio: float) -> None:
    problem = one_channel(300).noisy(0.2, 1)
    whole = np.column_stack([problem.regressor[:, 0], problem.effort])
    lengths = np.linalg.norm(whole, axis=0) * np.append(np.full(4, ratio), 1.0)
    vector = np.linalg.svd(whole / lengths)[2][-1] / lengths
    found = TotalLeastSquares(ratio).fit(problem).parameters.values
    assert found == pytest.approx(-vector[:-1] / vector[-1], rel=1e-9)


def test_where_all_columns_are_off_by_as_much_it_has_no_bias_and_least_squares_has() -> None:
    problems = []
    for seed in range(30):
        clean, rng = one_channel(500, seed=3), np.random.default_rng(seed)
        whole = np.concatenate([clean.regressor, clean.effort[:, :, None]], axis=2)
        size = np.sqrt(np.mean(whole**2, axis=0))
        whole = whole + 0.2 * size * rng.normal(size=whole.shape)
        problems.append(replace(clean, regressor=whole[:, :, :-1], effort=whole[:, :, -1]))
    assert np.abs(bias(problems, TotalLeastSquares())).max() <= 4.0
    assert np.abs(bias(problems, LeastSquares())).max() >= 8.0


def test_noise_of_the_torque_alone_biases_it() -> None:
    problems = [one_channel(500, seed=3).noisy(0.5, seed) for seed in range(30)]
    assert np.abs(bias(problems, TotalLeastSquares())).max() >= 8.0
    assert np.abs(bias(problems, LeastSquares())).max() <= 4.0


def test_torque_that_columns_say_nothing_of_has_no_total_least_squares() -> None:
    problem = one_channel(300)
    Y, noise = problem.regressor[:, 0], np.random.default_rng(0).normal(size=300)
    apart = noise - Y @ np.linalg.lstsq(Y, noise, rcond=None)[0]
    with pytest.raises(SolverFailure, match="least-squares"):
        TotalLeastSquares(2.0).fit(replace(problem, effort=apart[:, None]))


def test_columns_that_are_one_are_not_told_apart() -> None:
    problem = one_channel(300).noisy(0.1, 1)
    Y = problem.regressor.copy()
    Y[:, 0, 0] = Y[:, 0, 1]
    found = TotalLeastSquares().fit(replace(problem, regressor=Y)).parameters
    assert np.isnan(found.values[:2]).all()
    assert np.isinf(found.std[:2]).all()
    assert np.isfinite(found.values[2:]).all()


# Errors in variables


def test_the_noise_of_rows_is_what_periods_do_not_repeat() -> None:
    problem = repeating(40, 0.1, misfit=0.5)
    values = problem.truth
    channels, size = len(problem.channels), len(problem.labels)
    found = row_noise(problem.residuals(values), channels, size, PERIOD, 1)
    assert found is not None
    one = row_problem(PLANT, PERIOD)
    scale = 0.1 * np.sqrt(np.mean(one.regressor**2, axis=0))
    for c in range(channels):
        wanted = 0.36 * np.outer(scale[c], scale[c]) + 0.64 * np.diag(scale[c] ** 2)
        # 4680 pairs: a covariance is known to 2 % of its size, at four deviations to 8 %.
        assert np.abs(found[c, :-1, :-1] - wanted).max() <= 0.1 * np.abs(wanted).max()


@pytest.mark.parametrize("every", [1, 7])
def test_pieces_of_rows_do_not_matter_to_their_noise(every: int) -> None:
    problem = repeating(4, 0.1)
    channels, size = len(problem.channels), len(problem.labels)
    one, two = (
        row_noise(replace(problem, chunk=c).residuals(problem.truth), channels, size, PERIOD, every)
        for c in (50, 480)
    )
    assert one is not None
    assert two == pytest.approx(one, rel=1e-9, abs=1e-15)


@BOTH
def test_noise_of_the_regressor_that_periods_show_leaves_no_bias(criterion: Any) -> None:
    problems = [repeating(12, 0.15, seed) for seed in range(24)]
    assert np.abs(bias(problems, ErrorsInVariables(criterion))).max() <= 4.5
    assert np.abs(bias(problems, LeastSquares())).max() >= 10.0


def test_a_misfit_that_repeats_is_no_noise_to_the_corrected_fit_only() -> None:
    """Against least squares of rows without noise, whose misfit moves it as far as it must."""
    clean = repeating(1, 0.0, misfit=1.0)
    Y = row_problem(PLANT, PERIOD).regressor
    left = np.random.default_rng(9).normal(size=clean.effort.shape)
    moved = (
        LeastSquares()
        .fit(replace(row_problem(PLANT, PERIOD), effort=Y @ clean.truth + left))
        .parameters.values
    )
    apart = {}
    for criterion in ("corrected", "effective-variance"):
        found = [
            ErrorsInVariables(criterion).fit(repeating(12, 0.15, s, misfit=1.0))  # type: ignore[arg-type]
            for s in range(6)
        ]
        errors = np.mean([f.parameters.values for f in found], axis=0) - moved
        apart[criterion] = float(np.linalg.norm(errors / found[0].parameters.std))
    assert apart["corrected"] <= 0.5 * apart["effective-variance"]


def test_of_one_channel_the_effective_variance_is_generalised_total_least_squares() -> None:
    one, rng = one_channel(PERIOD), np.random.default_rng(4)
    Y, effort = np.tile(one.regressor, (9, 1, 1)), np.tile(one.effort, (9, 1))
    Y = Y + 0.3 * rng.normal(size=Y.shape) * [1.0, 0.5, 0.2, 1.0]
    effort = effort + 0.2 * rng.normal(size=effort.shape)
    problem = replace(one, regressor=Y, effort=effort, repeats=float(PERIOD))
    found = ErrorsInVariables("effective-variance").fit(problem).parameters
    at = LeastSquares().fit(problem).parameters.values
    noise = row_noise(problem.residuals(at), 1, 4, PERIOD, 1)
    assert noise is not None
    whole = np.column_stack([Y[:, 0], effort - Y[:, 0] @ at[:, None]])
    vector = scipy.linalg.eigh(whole.T @ whole, noise[0])[1][:, 0]
    wanted = at - vector[:-1] / vector[-1]
    assert np.abs((found.values - wanted) / found.std).max() <= 0.01


def test_motion_that_does_not_repeat_is_taken_to_be_free_of_noise() -> None:
    problem = replace(repeating(4, 0.1), repeats=None)
    found = ErrorsInVariables().fit(problem)
    assert found.settings["regressor_noise"] == "taken for none"
    wanted = LeastSquares().fit(problem).parameters.values
    assert found.parameters.values == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_a_regressor_that_is_all_noise_is_refused() -> None:
    problem = repeating(12, 0.1)
    rng = np.random.default_rng(0)
    with pytest.raises(SolverFailure, match="as large as what was seen"):
        ErrorsInVariables().fit(
            replace(problem, regressor=rng.normal(size=problem.regressor.shape))
        )


def test_a_moved_optimum_is_the_estimate_in_the_metric_of_the_rows() -> None:
    problem = repeating(2, 0.1)
    information, rng = problem.information(), np.random.default_rng(1)
    values = problem.truth + 0.1 * rng.normal(size=len(problem.truth))
    moved = moved_optimum(information, values)
    other = rng.normal(size=len(values))
    for before, after in zip(information.triangles, moved.triangles, strict=True):
        apart = before.R @ (other - values)[before.columns]
        assert after.residual_energy(other) == pytest.approx(
            float(apart @ apart) + before.residual_energy(values)
        )


@pytest.mark.parametrize("estimator", [TotalLeastSquares(), BayesianRegression()])
def test_what_needs_no_rows_is_the_same_from_information(estimator: Any) -> None:
    problem = repeating(2, 0.1)
    found = estimator.fit(problem).parameters.values
    assert estimator.values(LeastSquares().fit(problem)) == pytest.approx(found, rel=1e-9)
