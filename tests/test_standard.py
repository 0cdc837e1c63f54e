"""Standard parameters by least squares: shortest of all that predict the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heft.estimators import (
    Estimate,
    LeastSquares,
    ModelDifference,
    TruncatedRegressor,
    back_projection,
    essential_standard,
)
from heft.information import ParameterSpace
from heft.plants import Problem
from heft.signals.settings import Smoothing
from tests.plants import case

Array = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def fitted() -> tuple[Estimate, ParameterSpace]:
    """Return base parameters of the planar arm, and the space of its standard ones."""
    made = case("planar arm")
    log = made.recording(0.005 * np.arange(1200), 0.02)
    problem = Problem(made.plant, (log,), Smoothing(15.0, delay=0.0), 1)
    return LeastSquares().fit(problem), problem.space


def test_back_projection_is_the_shortest_with_these_base_parameters(
    fitted: tuple[Estimate, ParameterSpace],
) -> None:
    estimate, space = fitted
    x = back_projection(estimate.fitted, space)
    assert space.matrix @ x == pytest.approx(estimate.fitted, rel=1e-9, abs=1e-12)
    null = np.eye(len(x)) - np.linalg.pinv(space.matrix) @ space.matrix
    assert np.abs(null @ x).max() <= 1e-12


def test_the_truncated_regressor_at_full_rank_is_the_back_projection(
    fitted: tuple[Estimate, ParameterSpace],
) -> None:
    estimate, space = fitted
    found = TruncatedRegressor().fit(estimate, space)
    assert found.rank == len(space.matrix)
    assert found.values == pytest.approx(
        back_projection(estimate.fitted, space), rel=1e-6, abs=1e-9
    )


def test_a_regressor_truncated_further_is_that_of_smaller_rank(
    fitted: tuple[Estimate, ParameterSpace],
) -> None:
    estimate, space = fitted
    triangle = estimate.information.combined(estimate.fitted_with)
    rows = triangle.R @ space.matrix
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    share = float(np.sqrt(singular[2] * singular[3])) / singular[0]
    found = TruncatedRegressor(visible=share).fit(estimate, space)
    nearest = left[:, :3] * singular[:3] @ right[:3]
    assert found.rank == 3
    assert found.values == pytest.approx(np.linalg.pinv(nearest) @ triangle.z, rel=1e-6, abs=1e-9)


def test_the_difference_from_the_truth_is_no_more_than_noise(
    fitted: tuple[Estimate, ParameterSpace],
) -> None:
    """With the model file right, what is moved changes no base parameter beyond its deviation."""
    estimate, space = fitted
    everything = range(len(space.matrix))
    found = ModelDifference().fit(estimate, space, everything)
    assert space.matrix @ found.values == pytest.approx(estimate.fitted, rel=1e-6, abs=1e-9)


def test_only_what_is_in_an_essential_parameter_moves(
    fitted: tuple[Estimate, ParameterSpace],
) -> None:
    estimate, space = fitted
    kept = (0, 2)
    found = ModelDifference().fit(estimate, space, kept)
    inside = {k for row in space.matrix[list(kept)] for k in np.flatnonzero(row)}
    assert set(found.moved) == inside == set(essential_standard(kept, space))
    still = [k for k in range(len(space.labels)) if k not in inside]
    assert np.array_equal(found.values[still], space.nominal[still])
    assert found.rank <= len(kept) and np.any(found.values != space.nominal)
