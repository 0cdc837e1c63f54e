"""Some base parameters estimated anew, all others held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.plants import case
from tests.test_essential import mixed, worth

from heft.errors import InvalidSetting, UnlikeLabels
from heft.estimators import Essential, LeastSquares
from heft.information import Labels, Parameters
from heft.plants import Problem
from heft.signals import Smoothing
from heft_methods import ReEstimation

Array = np.ndarray[Any, np.dtype[np.float64]]
WHITE = LeastSquares(coloured=False)
FREE = ("p1", "p4", "p5")
PLACES, HELD = [1, 4, 5], [0, 2, 3, 6, 7]


def test_what_is_held_leaves_a_smaller_problem_of_least_squares() -> None:
    problem = mixed()
    before = Parameters(problem.labels, 1.1 * problem.truth + 0.02)
    found = ReEstimation(before, FREE, WHITE).fit(problem)
    assert np.array_equal(found.parameters.values[HELD], before.values[HELD])
    weights = worth(found)
    Y = (problem.regressor * weights[:, None]).reshape(-1, 8)
    left = (problem.effort * weights).ravel() - Y[:, HELD] @ before.values[HELD]
    wanted = np.linalg.lstsq(Y[:, PLACES], left)[0]
    assert np.abs(found.parameters.values[PLACES] - wanted).max() <= 1e-10 * np.abs(wanted).max()
    assert np.array_equal(found.fitted, found.parameters.values)
    spread = np.sqrt(np.diag(np.linalg.inv(Y[:, PLACES].T @ Y[:, PLACES])))
    assert np.allclose(found.parameters.std[PLACES], spread, rtol=1e-9)
    assert not found.parameters.std[HELD].any()


def test_held_at_their_optimum_the_others_are_there_already() -> None:
    problem = mixed()
    whole = LeastSquares(weighting="none", coloured=False)
    best = whole.fit(problem).parameters
    found = ReEstimation(best, FREE, whole).fit(problem)
    assert np.abs(found.parameters.values - best.values).max() <= 1e-10 * np.abs(best.values).max()


@pytest.mark.parametrize("coloured", [False, True])
def test_deviations_hold_what_the_held_ones_may_be_off_by(coloured: bool) -> None:
    """Of 300 short runs after a longer one: errors over their deviation are about one."""
    settings = LeastSquares(coloured=coloured)
    off = []
    for seed in range(200, 350):
        problem = mixed(noise=1.0)
        rng = np.random.default_rng(seed)
        noise = np.array([1.0, 3.0, 0.3])

        def run(rows: slice, rng: Any = rng, problem: Any = problem, noise: Any = noise) -> Any:
            Y = problem.regressor[rows]
            effort = Y @ problem.truth + noise * rng.normal(size=Y.shape[:2])
            return type(problem)(problem.labels, problem.channels, Y, effort, problem.truth)

        before = WHITE.fit(run(slice(0, 250))).parameters
        found = ReEstimation(before, FREE, settings).fit(run(slice(250, 400))).parameters
        off.append((found.values - problem.truth) / found.std)
    rms = np.sqrt(np.mean(np.square(off), axis=0))
    assert (rms > 0.8).all() and (rms < 1.2).all(), rms


def test_essential_parameters_of_a_robot_are_found_anew_for_a_task() -> None:
    """From three seconds, all others as they were."""
    c = case("planar arm")
    time = 0.005 * np.arange(2000)
    smoothing = Smoothing(corner=15.0, delay=0.0)
    whole = Problem(c.plant, (c.recording(time, 0.02),), smoothing)
    first = Essential(least_squares=WHITE).fit(whole)
    names = [first.parameters.labels.names[k] for k in first.kept]
    task = Problem(c.plant, (c.recording(time[:600], 0.02, seed=3),), smoothing)
    found = ReEstimation(first.parameters, tuple(names[:2])).fit(task)
    changed = np.flatnonzero(found.parameters.values != first.parameters.values)
    assert changed.tolist() == sorted(first.kept[:2])
    weights = np.square(found.fit_weights)
    left = [task.residual_energy(e.parameters.values) @ weights for e in (first, found)]
    assert left[1] < left[0]


def test_a_parameter_that_is_none_is_named() -> None:
    problem = mixed()
    before = Parameters(problem.labels, problem.truth)
    with pytest.raises(InvalidSetting, match="did you mean"):
        ReEstimation(before, ("p11",))
    with pytest.raises(InvalidSetting, match="nothing"):
        ReEstimation(before, ())
    other = Parameters(Labels(problem.labels.names, problem.labels.units, "x"), problem.truth)
    with pytest.raises(UnlikeLabels):
        ReEstimation(other, FREE).fit(problem)
