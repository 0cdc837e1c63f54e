"""Maximum likelihood with the noise covariance between channels, against its own equations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heft.estimators import LeastSquares, MaximumLikelihood, decorrelation
from heft.estimators.maximum_likelihood import unrepeated_covariance
from tests.row_problems import RowProblem, row_problem

Array = np.ndarray[Any, np.dtype[np.float64]]
PLANT, ROWS = "free body by its pose", 600
RNG = np.random.default_rng(3)


def covariance(channels: int, common: float = 0.95) -> Array:
    """Return a covariance whose noise is mostly common to all channels, of unlike sizes."""
    size = 0.1 * 2.0 ** np.arange(channels)
    shared = common * np.ones((channels, channels)) + (1.0 - common) * np.eye(channels)
    return np.asarray(np.outer(size, size) * shared)


def disturbed(seed: int, rows: int = ROWS) -> RowProblem:
    clean = row_problem(PLANT, rows, seed)
    root = np.linalg.cholesky(covariance(len(clean.channels)))
    noise = np.random.default_rng(seed).normal(size=clean.effort.shape) @ root.T
    return replace(clean, effort=clean.effort + noise)


def residual_moments(problem: RowProblem, values: Array) -> Array:
    left = problem.effort - problem.regressor @ values
    return np.asarray(left.T @ left / len(left))


def generalised(problem: RowProblem, noise: Array) -> Array:
    """Return generalised least squares by its normal equations, sample by sample."""
    weight = np.linalg.inv(noise)
    Y = problem.regressor
    normal = np.einsum("ncb,cd,nde->be", Y, weight, Y)
    return np.asarray(np.linalg.solve(normal, np.einsum("ncb,cd,nd->b", Y, weight, problem.effort)))


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_decorrelated_channels_keep_their_noise_and_lose_the_others(channels: int) -> None:
    root = RNG.normal(size=(channels, channels))
    noise = root @ root.T
    M = decorrelation(noise)
    assert M @ noise @ M.T == pytest.approx(np.diag(np.diag(noise)), abs=1e-9 * np.trace(noise))
    units, order = 10.0 ** RNG.uniform(-2, 2, channels), RNG.permutation(channels)
    other = decorrelation((units[:, None] * noise * units)[np.ix_(order, order)])
    wanted = (units[:, None] * M / units)[np.ix_(order, order)]
    assert other == pytest.approx(wanted, rel=1e-6, abs=1e-9 * np.abs(wanted).max())


def test_a_channel_without_noise_is_left_alone() -> None:
    noise = covariance(3)
    noise[1] = noise[:, 1] = 0.0
    M = decorrelation(noise)
    assert M[1] == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)
    assert M[:, 1] == pytest.approx([0.0, 1.0, 0.0], abs=1e-12)
    assert M @ noise @ M.T == pytest.approx(np.diag(np.diag(noise)))


def test_it_is_generalised_least_squares_with_the_covariance_of_its_own_residuals() -> None:
    problem = disturbed(1)
    found = MaximumLikelihood(sweeps=50).fit(problem).parameters
    wanted = generalised(problem, residual_moments(problem, found.values))
    # What a sweep would still move, and no more.
    assert np.abs((found.values - wanted) / found.std).max() <= 0.05
    apart = LeastSquares().fit(problem).parameters.values - wanted
    assert np.abs(apart / found.std).max() > 1.0


def test_nothing_near_is_more_likely() -> None:
    """With Σ the best for β, the log-likelihood is −½ N log det of the residuals' moments."""
    problem = disturbed(2)
    found = MaximumLikelihood(sweeps=50).fit(problem).parameters

    def loss(values: Array) -> float:
        return len(problem.effort) * float(np.linalg.slogdet(residual_moments(problem, values))[1])

    best = loss(found.values)
    assert best < loss(LeastSquares().fit(problem).parameters.values)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert loss(found.values + found.std * rng.normal(size=len(found.values))) > best


def test_noise_that_channels_share_costs_it_little_and_its_deviations_are_true() -> None:
    errors: dict[str, list[Array]] = {"likely": [], "least": [], "stated": []}
    for seed in range(30):
        problem = disturbed(seed)
        likely = MaximumLikelihood().fit(problem).parameters
        assert likely.covariance is not None
        off = likely.values - problem.truth
        errors["stated"].append(np.linalg.solve(np.linalg.cholesky(likely.covariance), off))
        errors["likely"].append(off / likely.std)
        errors["least"].append(
            (LeastSquares().fit(problem).parameters.values - problem.truth) / likely.std
        )
    rms = {k: float(np.sqrt(np.mean(np.square(v)))) for k, v in errors.items()}
    assert rms["likely"] <= 0.5 * rms["least"]
    # 30 seeds of at least ten numbers, of deviations that are themselves estimated.
    assert rms["stated"] == pytest.approx(1.0, abs=3.0 / np.sqrt(2.0 * 30.0 * 10.0) + 0.05)


def periodic(periods: int, noise: Array, seed: int = 0) -> tuple[RowProblem, Array]:
    """Return rows that repeat, with noise that does not and a misfit of one channel that does."""
    one = row_problem(PLANT, 200)
    rng = np.random.default_rng(seed)
    channels = len(one.channels)
    misfit = np.zeros((200, channels))
    misfit[:, 0] = rng.normal(size=200)
    effort = np.tile(one.effort + misfit, (periods, 1))
    drawn = rng.normal(size=effort.shape) @ np.linalg.cholesky(noise).T
    problem = replace(
        one,
        regressor=np.tile(one.regressor, (periods, 1, 1)),
        effort=effort + drawn,
        repeats=200.0,
        chunk=130,
    )
    return problem, misfit


def test_the_noise_of_periods_is_not_what_the_model_cannot_describe() -> None:
    noise = covariance(6, common=0.5)
    problem, _ = periodic(12, noise)
    found = MaximumLikelihood("periods").fit(problem)
    assert found.settings["noise"] == "periods"
    wanted = generalised(problem, noise)
    blind = MaximumLikelihood().fit(problem).parameters.values
    unit = np.sqrt(np.diag(np.linalg.inv(_normal(problem, noise))))
    # A covariance of 2200 pairs is known to some per cent, which move what a misfit moves.
    off, without = (np.abs((v - wanted) / unit).max() for v in (found.parameters.values, blind))
    assert off <= 3.0
    assert without >= 5.0 * off
    # Sizes are by what is left over, all channels together: weights stay in the noise's proportion.
    ratio = found.noise.sigma / np.sqrt(np.diag(noise))
    assert ratio == pytest.approx(np.full(6, ratio.mean()), rel=0.1)
    assert ratio.mean() > 2.0


def _normal(problem: RowProblem, noise: Array) -> Array:
    weight = np.linalg.inv(noise)
    return np.asarray(np.einsum("ncb,cd,nde->be", problem.regressor, weight, problem.regressor))


def test_pieces_of_a_period_do_not_matter() -> None:
    problem, _ = periodic(4, covariance(6))
    one, two = (
        MaximumLikelihood("periods").fit(replace(problem, chunk=c)).parameters for c in (63, 800)
    )
    assert np.abs((one.values - two.values) / one.std).max() <= 1e-6


def test_rows_that_were_left_out_leave_the_others_a_period_apart() -> None:
    """Two stretches are gone: what is left must not be compared with another phase."""
    problem, misfit = periodic(12, covariance(6))
    left = list(problem.residuals(problem.truth))
    kept = [p for k, p in enumerate(left) if k not in (3, 9)]
    wanted = unrepeated_covariance(iter(left), 6, 200.0)
    found = unrepeated_covariance(iter(kept), 6, 200.0)
    assert wanted is not None and found is not None
    assert found == pytest.approx(wanted, rel=0.2, abs=0.1 * np.abs(wanted).max())
    assert np.mean(misfit[:, 0] ** 2) > 10.0 * found[0, 0]


def test_without_a_second_period_the_residuals_are_the_noise() -> None:
    problem, _ = periodic(1, covariance(6))
    found = MaximumLikelihood("periods").fit(problem)
    assert found.settings["noise"] == "residuals"
    assert found.parameters.values == pytest.approx(
        MaximumLikelihood().fit(problem).parameters.values
    )
