"""Laws of the covariance under coloured noise, and of fits with the rest held."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from heft.estimators import Estimate, LeastSquares, noise
from heft.estimators.noise import Thinned, coloured_factors, thinned
from heft.information import ChannelRows, Labels
from heft.plants.rows import Residuals
from tests.robots import FloatArray
from tests.row_problems import RowProblem

COUNT = 6000


def coloured(rho: float, count: int, sigma: float, rng: np.random.Generator) -> FloatArray:
    """Return an autoregression of order one that has been running for long, of deviation sigma."""
    out = np.empty(count)
    out[0] = rng.normal()
    for k, e in enumerate(np.sqrt(1.0 - rho**2) * rng.normal(size=count - 1), 1):
        out[k] = rho * out[k - 1] + e
    return sigma * out


def rows_of(count: int) -> FloatArray:
    """Return slow and fast columns of two channels, shape (count, 2, 3)."""
    t = np.arange(count) / 100.0
    slow = np.stack([np.sin(0.7 * t), np.cos(1.9 * t), np.ones(count)], axis=1)
    fast = np.stack([np.sin(20.0 * t), np.sign(np.sin(3.0 * t)), np.cos(0.4 * t)], axis=1)
    return np.stack([slow, 2.0 * fast], axis=1)


def factors_of(
    rows: FloatArray, left: FloatArray, phase: FloatArray | None = None
) -> tuple[FloatArray, ...] | None:
    """Return `coloured_factors` of rows (N, c, b) and what they leave, none of them decimated."""
    sample = Thinned(ChannelRows.of_each(rows), left, 1, 1.0, phase)
    found = coloured_factors(sample, rows.shape[2])
    return found and tuple(factor.spread(rows.shape[2]) for factor in found)


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the same size everywhere, for laws that are about their memory."""
    monkeypatch.setattr(noise, "local_scale", lambda series, phase: np.ones(len(series)))


def test_errors_count_where_they_are() -> None:
    """Errors only where a column is: the usual formula spreads them over all rows."""
    rng = np.random.default_rng(0)
    where = np.arange(COUNT) % 100 < 10
    left = np.where(where, rng.normal(size=COUNT), 0.0)[:, None]
    rows = np.where(where, 1.0, 0.0)[:, None, None] * np.ones((1, 1, 1))
    found = factors_of(rows, left)
    assert found is not None
    # 600 errors of unit variance: the sum's variance is 600, of which the edges of the window
    # of seven rows take a few; the usual formula says a tenth of it.
    assert 0.5 * where.sum() <= float((found[0].T @ found[0])[0, 0]) <= 1.1 * where.sum()


def test_errors_that_come_again_with_the_motion_add_up() -> None:
    """The same error in each of P periods: its sum's variance is P times that of fresh ones."""
    periods, length = 20, 300
    where = np.arange(length) < 60
    column = np.tile(where.astype(float), periods)[:, None, None]
    phase = np.tile(np.arange(length), periods)
    ratio = []
    for seed in range(40):
        once = np.where(where, np.random.default_rng(seed).normal(size=length), 0.0)
        found = factors_of(column, np.tile(once, periods)[:, None], phase)
        assert found is not None
        ratio.append(float(found[0][0, 0]) ** 2 / (periods**2 * where.sum()))
    # The edges of the window of seven blur a twentieth away; 40 means of 60 squares: 3 %.
    assert 0.85 <= np.mean(ratio) <= 1.1


def test_noise_on_a_motion_that_repeats_is_no_larger_for_that() -> None:
    periods, length = 20, 300
    rng = np.random.default_rng(0)
    phase = np.tile(np.arange(length), periods)
    Y = rows_of(periods * length)[:, :1]
    left = rng.normal(size=(periods * length, 1))
    known, unknown = (factors_of(Y, left, where) for where in (phase, None))
    assert known is not None and unknown is not None
    # Local scales of seven members are themselves uncertain by √(2/7), which averages out.
    np.testing.assert_allclose(np.diag(known[0]), np.diag(unknown[0]), rtol=0.1)


@pytest.mark.parametrize("rho", [0.0, 0.8, 0.95])
@pytest.mark.usefixtures("alike")
def test_the_influence_of_residuals_is_that_of_the_dense_formula(rho: float) -> None:
    Y, found = rows_of(COUNT), np.zeros((2, 3, 3))
    seeds = range(8)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        left = np.stack([coloured(rho, COUNT, s, rng) for s in (0.3, 2.0)], axis=1)
        factors = factors_of(Y, left)
        assert factors is not None
        found += np.array([s.T @ s for s in factors]) / len(seeds)
    for c, sigma in enumerate((0.3, 2.0)):
        gamma = sigma**2 * scipy.linalg.toeplitz(rho ** np.arange(COUNT))
        wanted = Y[:, c].T @ gamma @ Y[:, c]
        scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        # An autoregression of 20 coefficients, from 6000 rows: its spectrum is right to
        # √(2·20/6000) = 8 % each, by a mean of 8 of them to 3 %; three of these.
        assert np.abs((found[c] - wanted) / scale).max() <= 0.09


@pytest.mark.usefixtures("alike")
def test_rows_thinned_out_say_what_all_rows_say() -> None:
    """Blocks of five of slow rows and slow residuals: their sums are what the blocks' are."""
    Y, rho = rows_of(COUNT)[:, :1], 0.98
    one, few = np.zeros((3, 3)), np.zeros((3, 3))
    for seed in range(8):
        left = coloured(rho, COUNT, 1.0, np.random.default_rng(seed))[:, None]
        whole = factors_of(Y, left)
        piece = Residuals(left, lambda chosen: Y[chosen], 0, np.arange(COUNT))
        _, sample = thinned([piece], 5)
        assert [r.values.shape for r in sample.rows] == [(COUNT // 5, 3)]
        some = coloured_factors(sample, 3)
        assert whole is not None and some is not None
        one += whole[0].T @ whole[0]
        few += some[0].values.T @ some[0].values
    # Two fits to the same residuals, of 20 coefficients each: 3 % by the mean, three of these.
    np.testing.assert_allclose(np.diag(few), np.diag(one), rtol=0.1)


def test_too_few_rows_have_no_influence() -> None:
    assert factors_of(rows_of(10), np.ones((10, 2))) is None


@pytest.mark.parametrize("share", [0.3, 1.0, 4.0])
def test_a_column_twice_takes_nothing_from_the_certainty_of_the_others(share: float) -> None:
    """Of two columns that are one nothing is known but their sum; all else is as with one."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(2000, 1, 4))
    rows[:, 0, 1] += 2.0 * rows[:, 0, 0]
    tau = (rows @ [1.0, 2.0, -1.0, 0.5]) + np.array([coloured(0.8, len(rows), 0.1, rng)]).T.reshape(
        -1, 1
    )
    twice = np.concatenate([rows, share * rows[:, :, :1]], axis=2)

    def fitted(regressor: FloatArray) -> Estimate:
        names = tuple("abcde"[: regressor.shape[2]])
        units = ("1",) * len(names)
        problem = RowProblem(Labels(names, units), ("x",), regressor, tau, np.zeros(len(names)))
        return LeastSquares().fit(problem)

    one, both = fitted(rows).parameters, fitted(twice).parameters
    assert one.covariance is not None and both.covariance is not None
    assert np.isinf(both.covariance[[0, 4], [0, 4]]).all() and np.isnan(both.values[[0, 4]]).all()
    np.testing.assert_allclose(both.values[1:4], one.values[1:4], rtol=1e-9)
    np.testing.assert_allclose(both.covariance[1:4, 1:4], one.covariance[1:4, 1:4], rtol=1e-2)
