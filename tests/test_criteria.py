"""Laws of the criteria of excitation: gradients, units, nuisance, information in hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.excitation import criteria
from heft.excitation.criteria import (
    Condition,
    Criterion,
    Determinant,
    LargestVariance,
    PredictedError,
    Trace,
)
from heft.information import Information, Labels

Array = np.ndarray[Any, np.dtype[np.float64]]
SIZE = 7
SOME = (1, 2, 5)


def matrix(seed: int = 0, size: int = SIZE) -> Array:
    rows = np.random.default_rng(seed).normal(size=(3 * size, size))
    return np.asarray(rows.T @ rows)


MADE: dict[str, Callable[[tuple[int, ...] | None], Criterion]] = {
    "D": Determinant,
    "A": Trace,
    "E": LargestVariance,
    "condition": Condition,
    "scaled condition": lambda chosen: Condition(chosen, scaled=True),
    "predicted error": lambda chosen: PredictedError(matrix(9), chosen),
}
every_criterion = pytest.mark.parametrize("name", MADE)


@every_criterion
@pytest.mark.parametrize("chosen", [None, SOME], ids=["all", "some"])
def test_seeds_are_the_criterions_derivative(name: str, chosen: tuple[int, ...] | None) -> None:
    criterion, M = MADE[name](chosen), matrix()
    _, slope = criterion(M)
    assert np.allclose(slope, slope.T)
    for seed in range(3):
        way = matrix(seed + 1) - matrix(seed + 2)
        h = 1e-6
        found = (criterion(M + h * way)[0] - criterion(M - h * way)[0]) / (2.0 * h)
        assert float(np.sum(slope * way)) == pytest.approx(found, rel=1e-6, abs=1e-8)


@every_criterion
def test_more_information_is_not_worse(name: str) -> None:
    if "condition" in name:
        pytest.skip("a condition number is no measure of information")
    criterion, M = MADE[name](SOME), matrix()
    assert criterion(M + matrix(3))[0] > criterion(M)[0]
    assert np.linalg.eigvalsh(criterion(M)[1])[0] >= -1e-12


@every_criterion
def test_what_is_not_determined_is_worth_nothing(name: str) -> None:
    M = matrix()
    M[:, 3] = M[3] = 0.0
    value, slope = MADE[name](None)(M)
    assert value == -np.inf and not slope.any()


def test_differences_of_log_determinants_do_not_depend_on_units_or_base() -> None:
    change = np.random.default_rng(4).normal(size=(SIZE, SIZE))
    one, two = matrix(1), matrix(2)
    criterion = Determinant()
    plain = criterion(one)[0] - criterion(two)[0]
    other = criterion(change.T @ one @ change)[0] - criterion(change.T @ two @ change)[0]
    assert plain == pytest.approx(other)


def test_chosen_parameters_count_with_the_others_unknown() -> None:
    """The Schur complement, here by elimination in square-root form."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(40, 1, SIZE))
    labels = Labels(tuple("abcdefg"), ("1",) * SIZE)
    known = Information.from_rows(labels, ["c"], rows, rng.normal(size=(40, 1)))
    left = known.marginalised(SOME).triangles[0].R
    M = np.einsum("nci,ncj->ij", rows, rows)
    assert Determinant(SOME)(M)[0] == pytest.approx(2.0 * np.log(np.abs(np.diag(left))).sum())
    cov = np.linalg.inv(M)[np.ix_(SOME, SOME)]
    assert Trace(SOME)(M)[0] == pytest.approx(-np.log(np.trace(cov)))


def test_soft_extremes_are_near_the_true_ones() -> None:
    for seed in range(5):
        M = matrix(seed, 60)
        values = np.linalg.eigvalsh(M)
        off = np.log(60) / criteria.SOFTNESS
        assert 0.0 <= -LargestVariance()(M)[0] + np.log(values[0]) <= off
        assert 0.0 <= -Condition()(M)[0] - 0.5 * np.log(values[-1] / values[0]) <= off


def test_the_scaled_condition_does_not_depend_on_units() -> None:
    M, units = matrix(), np.diag(10.0 ** np.arange(-3, SIZE - 3))
    scaled, raw = Condition(scaled=True), Condition()
    assert scaled(units @ M @ units)[0] == pytest.approx(scaled(M)[0])
    assert raw(units @ M @ units)[0] < raw(M)[0] - 1.0


def test_the_predicted_error_is_that_of_the_tasks_torque() -> None:
    rng = np.random.default_rng(6)
    M, task = matrix(), rng.normal(size=(30, SIZE))
    value, _ = PredictedError(task.T @ task / 30.0)(M)
    draws = rng.multivariate_normal(np.zeros(SIZE), np.linalg.inv(M), size=100_000)
    assert np.exp(-value) == pytest.approx(np.mean((draws @ task.T) ** 2), rel=0.02)


def test_both_conventions_of_condition_numbers() -> None:
    rng = np.random.default_rng(7)
    rows, noise = rng.normal(size=(50, 2, 4)) * [1.0, 10.0, 0.1, 1.0], np.array([0.1, 5.0])
    found = criteria.conditions(rows, noise)
    assert found.raw == pytest.approx(np.linalg.cond(rows.reshape(100, 4)))
    weighted = (rows / noise[:, None]).reshape(100, 4)
    assert found.scaled == pytest.approx(
        np.linalg.cond(weighted / np.linalg.norm(weighted, axis=0))
    )
    assert criteria.conditions(rows, noise, (0, 3)).raw < found.raw


# ---- information in hand


def labelled(names: str) -> Labels:
    return Labels(tuple(names), ("1",) * len(names))


def test_information_in_hand_is_that_of_its_rows_by_name() -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(30, 2, 3))
    known = Information.from_rows(labelled("abc"), ["x", "y"], rows, rng.normal(size=(30, 2)))
    found = criteria.in_hand(known, labelled("cdab"), {"x": 2.0, "y": 0.5})
    weighted = (rows * [[2.0], [0.5]]).reshape(60, 3)[:, [2, 0, 1]]
    expected = np.zeros((4, 4))
    at = np.ix_([0, 2, 3], [0, 2, 3])
    expected[at] = weighted.T @ weighted
    assert np.allclose(found.T @ found, expected)


def test_columns_that_are_not_wanted_are_eliminated_as_unknowns() -> None:
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(30, 1, 4))
    known = Information.from_rows(labelled("abcd"), ["x"], rows, rng.normal(size=(30, 1)))
    M = np.einsum("nci,ncj->ij", rows, rows)
    expected = np.linalg.inv(np.linalg.inv(M)[np.ix_([1, 3], [1, 3])])
    found = criteria.in_hand(known, labelled("bd"))
    assert np.allclose(found.T @ found, expected)


def test_an_unknown_criterion_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="criterion"):
        criteria.named("G")
