"""Least squares of numbers that are not negative, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from heft.estimators import nonnegative
from tests.robots import FloatArray


def sigmoids(seed: int, rows: int = 300, columns: int = 40) -> tuple[FloatArray, FloatArray]:
    """Return columns as those of friction at many scales, nearly dependent, and a right side."""
    rng = np.random.default_rng(seed)
    speed = rng.normal(size=rows)
    scales = np.geomspace(0.003, 3.0, columns)
    factor = np.tanh(speed[:, None] / scales) * rng.uniform(0.1, 10.0, columns)
    wanted = np.where(rng.random(columns) < 0.2, rng.uniform(0.0, 2.0, columns), 0.0)
    return factor, factor @ wanted + 0.05 * rng.normal(size=rows)


@pytest.mark.parametrize("exchanges", [0, 12])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_least_wherever_it_starts(seed: int, exchanges: int) -> None:
    factor, right = sigmoids(seed)
    least = scipy.optimize.nnls(factor, right)[1]
    rng = np.random.default_rng(seed)
    for start in (np.zeros(40), np.full(40, 1.0), rng.random(40) * (rng.random(40) < 0.5)):
        found = nonnegative(factor, right, start, exchanges)
        assert (found >= 0.0).all()
        assert np.linalg.norm(factor @ found - right) == pytest.approx(least, rel=1e-8)


def test_what_is_free_of_constraints_is_least_squares() -> None:
    rng = np.random.default_rng(3)
    factor, wanted = rng.normal(size=(50, 6)), rng.uniform(1.0, 2.0, 6)
    found = nonnegative(factor, factor @ wanted, np.zeros(6))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_a_column_of_zeros_stays_at_zero() -> None:
    factor = np.diag([1.0, 2.0, 0.0])
    assert nonnegative(factor, np.array([3.0, -1.0, 5.0]), np.zeros(3)).tolist() == [3.0, 0.0, 0.0]
