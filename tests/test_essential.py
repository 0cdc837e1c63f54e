"""Essential base parameters: elimination against refits, stops against their definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from heft.errors import InvalidSetting
from heft.estimators import (
    BackwardElimination,
    Essential,
    Estimate,
    LeastSquares,
    backward_elimination,
)
from heft.information import Information, Labels
from heft_methods import ByLackOfFit, BySignificance
from tests.row_problems import RowProblem

Array = np.ndarray[Any, np.dtype[np.float64]]
SEED, ROWS, CHANNELS = 7, 400, 3
STOPS = (
    *(Essential(s) for s in ("training-error", "ratio", "torque-range")),
    BySignificance(),
    ByLackOfFit(),
)


def problem_of(truth: Array, seed: int = SEED, noise: float = 0.1, rows: int = ROWS) -> RowProblem:
    """Return rows of correlated columns, of which each channel lacks some."""
    rng = np.random.default_rng(seed)
    b = len(truth)
    mixing = np.eye(b) + 0.4 * rng.normal(size=(b, b))
    Y = rng.normal(size=(rows, CHANNELS, b)) @ mixing
    Y[:, 0, 0] = Y[:, 1, 1] = 0.0
    scale = noise * np.array([1.0, 3.0, 0.3])
    effort = Y @ truth + scale * rng.normal(size=(rows, CHANNELS))
    labels = Labels(tuple(f"p{k}" for k in range(b)), ("kg",) * b, "made")
    return RowProblem(labels, ("a", "b", "c"), Y, effort, truth)


def mixed(seed: int = SEED, **changed: Any) -> RowProblem:
    """Return a problem with parameters of three decades."""
    return problem_of(np.array([5.0, -3.0, 1.0, 0.3, 0.1, -0.03, 0.01, 0.004]), seed, **changed)


def worth(estimate: Estimate) -> Array:
    """Return the weights of a fit's rows as if they were independent, shape (channels,)."""
    return np.array(estimate.fit_weights) / np.sqrt(estimate.noise.autocorrelation_time)


def refit(problem: RowProblem, kept: list[int], weights: Array) -> tuple[Array, Array]:
    """Return values, deviations per unit noise by numpy, of kept parameters of weighted rows."""
    Y = (problem.regressor * weights[:, None]).reshape(-1, len(problem.truth))[:, kept]
    tau = (problem.effort * weights).ravel()
    values = np.linalg.lstsq(Y, tau, rcond=None)[0]
    return values, np.sqrt(np.diag(np.linalg.inv(Y.T @ Y)))


def energy(problem: RowProblem, kept: list[int], values: Array) -> Array:
    left = problem.effort - problem.regressor[:, :, kept] @ values
    return np.asarray(np.sum(left**2, axis=0))


def test_each_goes_that_has_the_largest_relative_deviation_of_a_new_fit() -> None:
    problem = mixed()
    estimate = LeastSquares().fit(problem)
    weights = worth(estimate)
    path = backward_elimination(estimate)
    kept = list(range(len(problem.truth)))
    for k, gone in enumerate(path.order.tolist()):
        values, std = refit(problem, kept, weights)
        relative = std / np.abs(values)
        assert path.energies[k] == pytest.approx(energy(problem, kept, values), rel=1e-9)
        assert path.ratios[k] == pytest.approx(relative.max() / relative.min(), rel=1e-9)
        assert gone == kept[int(np.argmax(relative))]
        kept.remove(gone)
    assert path.energies[-1] == pytest.approx(np.sum(problem.effort**2, axis=0), rel=1e-9)


def test_the_rise_is_the_square_of_the_relative_deviation_so_no_other_would_cost_less() -> None:
    problem = mixed()
    estimate = LeastSquares().fit(problem)
    weights = worth(estimate)
    path = backward_elimination(estimate)
    everything = list(range(len(problem.truth)))
    for k in range(len(everything) - 1):
        kept = list(path.kept(k))
        costs = {}
        for j in kept:
            others = [i for i in kept if i != j]
            values, _ = refit(problem, others, weights)
            costs[j] = float(energy(problem, others, values) @ weights**2)
        assert min(costs, key=lambda j: costs[j]) == path.order[k]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: f"{type(stop).__name__} {stop.stop}")
def test_what_is_left_is_a_new_fit_of_it(stop: Essential) -> None:
    problem = mixed()
    found = stop.fit(problem)
    weights = np.array(found.fit_weights)
    values, _ = refit(problem, list(found.kept), weights)
    assert 0 < len(found.kept) < len(problem.truth)
    assert found.parameters.values[list(found.kept)] == pytest.approx(values, rel=1e-9)
    gone = np.setdiff1d(np.arange(len(problem.truth)), found.kept)
    assert np.all(found.parameters.values[gone] == 0.0)
    assert np.all(found.parameters.std[gone] == 0.0)


def test_the_stop_by_training_error_is_the_last_within_it() -> None:
    problem = mixed()
    for rise in (0.001, 0.01, 0.1, 1.0):
        found = Essential(rise=rise).fit(problem)
        path = found.elimination
        assert path is not None
        rms = np.sqrt(path.energies @ np.square(found.fit_weights))
        k = len(problem.truth) - len(found.kept)
        assert rms[k] <= (1.0 + rise) * rms[0] < rms[k + 1]


def test_noise_above_the_band_allows_no_more() -> None:
    estimate = LeastSquares().fit(mixed())
    first = backward_elimination(estimate).energies[0]
    whole, part = (Essential(rise=0.1).reduced(estimate, s * first) for s in (1.0, 0.01))
    assert len(part.kept) > len(whole.kept)
    assert Essential(rise=0.1).reduced(estimate).kept == whole.kept


def test_the_stop_by_the_ratio_is_the_first_within_it() -> None:
    found = Essential("ratio", ratio=30.0).fit(mixed())
    path = found.elimination
    assert path is not None
    k = len(path.order) - len(found.kept)
    assert path.ratios[k] <= 30.0 < path.ratios[:k].min()


def test_the_f_test_keeps_out_what_is_not_there_at_its_rate() -> None:
    """Of two parameters that are zero, all are dropped in about 1 − α of all logs."""
    truth = np.array([2.0, -1.0, 0.0, 1.0, 0.0])
    kept_zero, seeds = 0, 200
    for seed in range(seeds):
        estimate = LeastSquares(coloured=False).fit(problem_of(truth, seed, rows=120))
        found = BySignificance().reduced(estimate)
        assert {0, 1, 3} <= set(found.kept)
        kept_zero += len(found.kept) > 3
    # The joint test of both is at α; the first alone, the least of both, is tested at less.
    low, high = scipy.stats.binom.interval(0.999, seeds, 0.05)
    assert kept_zero <= high
    assert low <= high


def test_the_f_test_does_not_depend_on_how_densely_rows_are_sampled() -> None:
    """Each row four times over is the same log, sampled four times as fast."""
    truth = np.array([2.0, -1.0, 0.0, 1.0, 0.0])
    counts = np.zeros(3, dtype=int)
    for seed in range(40):
        problem = problem_of(truth, seed)
        dense = replace(
            problem,
            regressor=np.repeat(problem.regressor, 4, axis=0),
            effort=np.repeat(problem.effort, 4, axis=0),
        )
        white = BySignificance(least_squares=LeastSquares(coloured=False))
        counts += [
            len(e.fit(p).kept) - 3
            for e, p in (
                (BySignificance(), problem),
                (BySignificance(), dense),
                (white, dense),
            )
        ]
    once, dense_rows, as_if_independent = counts
    assert abs(once - dense_rows) <= 4
    assert as_if_independent >= dense_rows + 10


def test_a_stated_range_is_what_a_joint_may_lose_a_share_of() -> None:
    problem = mixed()
    wide, narrow = (
        Essential("torque-range", ranges=dict.fromkeys("abc", r)).fit(problem) for r in (100.0, 1.0)
    )
    assert len(wide.kept) < len(narrow.kept)
    for found, span in ((wide, 100.0), (narrow, 1.0)):
        path = found.elimination
        assert path is not None
        k = len(problem.truth) - len(found.kept)
        lost = np.sqrt(np.maximum(path.energies - path.energies[0], 0.0) / ROWS)
        assert lost[k].max() <= 0.005 * span < lost[k + 1].max()


def test_what_cannot_be_told_goes_first_and_costs_nothing() -> None:
    problem = mixed()
    Y = problem.regressor.copy()
    Y[:, :, 6] = 2.0 * Y[:, :, 2] - Y[:, :, 0]
    Y[:, :, 7] = 0.0
    same = replace(problem, regressor=Y)
    information = same.information()
    path = BackwardElimination.of(information)
    assert path.untold == 2
    assert path.order[0] == 7 and path.order[1] in (0, 2, 6)
    kept = list(path.kept(2))
    assert path.energies[:3] == pytest.approx(
        np.tile(energy(same, kept, refit(same, kept, np.ones(3))[0]), (3, 1)), rel=1e-9
    )
    assert np.isfinite(BySignificance().fit(same).parameters.values).all()


def test_stated_deviations_of_what_is_left_are_those_of_the_small_model() -> None:
    problem = mixed()
    found = Essential(least_squares=LeastSquares(coloured=False)).fit(problem)
    own = list(found.kept)
    weights = np.array(found.fit_weights)
    _, std = refit(problem, own, weights)
    assert found.parameters.std[own] == pytest.approx(std, rel=1e-6)


def test_information_of_all_parameters_is_left_as_it_is() -> None:
    problem = mixed()
    found, plain = Essential().fit(problem), LeastSquares().fit(problem)
    assert isinstance(found.information, Information)
    assert np.array_equal(found.fitted, plain.fitted)


@pytest.mark.parametrize(
    "changed",
    [
        {"stop": "when done"},
        {"rise": -0.1},
        {"ratio": 0.5},
        {"significance": 0.0},
        {"significance": 1.0},
        {"range_share": float("nan")},
    ],
)
def test_settings_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        (BySignificance if "significance" in changed else Essential)(**changed)
