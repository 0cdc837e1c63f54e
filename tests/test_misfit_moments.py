"""Moments of like conditions: sums of rows, the same effort on both sides, kept in a file."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from heft.applications.identification.difference import Difference
from heft.applications.identification.identification import identify
from heft.arrays import Array
from heft.fit.conditions import MisfitMoments, condition_count, misfit_scatter
from heft.fit.earlier import Earlier
from heft.fit.misfit import _around
from heft.information import Information, Labels
from heft.models.robot import Robot
from tests.experiments import ARMS, log, true_robot, wrong_prior

SIZE, CELLS, ROWS, BLOCKS = 4, 10, 1200, 12
LABELS = Labels(tuple(f"b{k}" for k in range(SIZE)), ("kg",) * SIZE)


def moments_of(rng: np.random.Generator, residuals: Array, cells: Array) -> MisfitMoments:
    """Return moments of one channel with some residuals, in some cells."""
    moments, rows = rng.normal(size=(len(cells), SIZE)), np.full(len(cells), 20.0)
    return MisfitMoments((cells,), (moments,), (residuals,), (rows,))


def test_sums_over_near_speeds_are_those_of_their_bins(rng: np.random.Generator) -> None:
    values, reach = rng.normal(size=(2, 7)), 2
    sums = [values[:, max(k - reach, 0) : k + reach + 1].sum(axis=1) for k in range(7)]
    np.testing.assert_allclose(_around(values, reach), np.transpose(sums))


def test_under_the_same_conditions_misfit_makes_no_difference(rng: np.random.Generator) -> None:
    found = moments_of(rng, rng.normal(size=CELLS), np.arange(CELLS))
    there, back = [np.eye(SIZE)], [-np.eye(SIZE)]
    alike = misfit_scatter([(found, there), (found, back)], 1.0)
    alone = misfit_scatter([(found, there)], 1.0)
    assert np.abs(alike).max() == 0.0 and np.linalg.eigvalsh(alone).min() > 0.0
    elsewhere = MisfitMoments((found.cells[0] + CELLS,), found.moments, found.residuals, found.rows)
    apart = misfit_scatter([(found, there), (elsewhere, back)], 1.0)
    np.testing.assert_allclose(apart, 2.0 * alone)


def test_a_drive_has_a_variance_of_its_own(rng: np.random.Generator) -> None:
    quiet = moments_of(rng, np.zeros(CELLS), np.arange(CELLS))
    loud = moments_of(rng, np.full(CELLS, 3.0), condition_count() + np.arange(CELLS))
    maps = [np.eye(SIZE)]
    both = misfit_scatter([(quiet + loud, maps)], 1.0)
    np.testing.assert_allclose(both, 9.0 * loud.moments[0].T @ loud.moments[0])


def test_cells_hardly_seen_tell_no_variance_where_others_do(rng: np.random.Generator) -> None:
    found = moments_of(rng, np.array([1.0] * 9 + [100.0]), np.arange(CELLS))
    rows = np.array([20.0] * 9 + [1.0])
    found = MisfitMoments(found.cells, found.moments, found.residuals, (rows,))
    scatter = misfit_scatter([(found, [np.eye(SIZE)])], 8.0)
    np.testing.assert_allclose(scatter, found.moments[0].T @ found.moments[0])


def evidence(rng: np.random.Generator, effort: Array, weights: Array, told: bool) -> Earlier:
    """Return what a log says with an effort by cell, cells visited as often as weights say."""
    cell = rng.choice(CELLS, ROWS, p=weights)
    regressor = rng.normal(size=(ROWS, 1, SIZE))
    regressor[:, 0, 0] = 1.0 + 0.1 * cell
    measured = (regressor[:, 0] @ np.ones(SIZE) + effort[cell] + rng.normal(size=ROWS))[:, None]
    parts = [
        Information.from_rows(LABELS, ("a",), regressor[k], measured[k])
        for k in np.split(np.arange(ROWS), BLOCKS)
    ]
    whole = Information.from_rows(LABELS, ("a",), regressor, measured)
    fitted = np.linalg.lstsq(regressor[:, 0], measured[:, 0], rcond=None)[0]
    left = measured[:, 0] - regressor[:, 0] @ fitted
    blocks = np.array([p.moments(fitted)[0] for p in parts])
    noise = whole.triangles[0].spread(SIZE)[:-1, :-1]
    numbers = np.arange(CELLS)
    masks = [cell == k for k in numbers]
    found = MisfitMoments(
        (numbers,),
        (np.array([regressor[m, 0].sum(axis=0) for m in masks]),),
        (np.array([left[m].mean() if m.any() else 0.0 for m in masks]),),
        (np.array([float(m.sum()) for m in masks]),),
    )
    none = (np.zeros((0, SIZE)),)
    return Earlier(whole, (noise,), none, (blocks,), found if told else None)


@pytest.mark.parametrize("told", [True, False])
def test_misfit_of_other_conditions_is_no_change(told: bool) -> None:
    rng = np.random.default_rng(6)
    alarms = []
    for _ in range(100):
        effort = 0.3 * rng.normal(size=CELLS)
        sides = [evidence(rng, effort, rng.dirichlet(np.ones(CELLS)), told) for _ in "ab"]
        found = Difference.of(*sides, np.ones(1)).change(np.eye(SIZE)[:, :1])
        alarms.append(found.probability < 0.05)
    # Without the moments, nothing in either log shows it.
    rare = sum(alarms) <= scipy.stats.binom.ppf(0.999, len(alarms), 0.05)
    assert bool(rare) is told


def test_of_a_robot_they_are_sums_of_its_rows_and_come_back_from_a_file() -> None:
    rng = np.random.default_rng(3)
    truth = true_robot(ARMS["two joints"], rng, "simple")
    robot = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)
    found = identify(robot, [log(truth, 6.0, 200.0, rng)])
    problem = found.problem
    moments = MisfitMoments.of(problem, found.estimate.fitted, found.information.rows)
    total = np.zeros((len(problem.channels), len(problem.base.kept)))
    for s in problem.samples():
        total += problem.plant.rows(s, problem.base.kept).regressor.sum(axis=0)
    total *= (
        found.information.rows / len(problem.channels) / sum(len(s.time) for s in problem.samples())
    )
    for c in range(len(total)):
        size = np.linalg.norm(total[c])
        assert np.linalg.norm(moments.moments[c].sum(axis=0) - total[c]) < 0.05 * size
    again = MisfitMoments.load(moments.stored(), len(total), total.shape[1])
    assert again is not None
    for name in ("cells", "moments", "residuals", "rows"):
        for one, other in zip(getattr(moments, name), getattr(again, name), strict=True):
            np.testing.assert_array_equal(one, other)
    broken = moments.stored() | {"cell_rows_0": np.zeros(3)}
    with pytest.raises(ValueError, match="shape"):
        MisfitMoments.load(broken, len(total), total.shape[1])
    assert MisfitMoments.load({}, 1, 1) is None


def test_rows_without_a_steady_change_of_friction_do_not_know_of_one() -> None:
    rng = np.random.default_rng(3)
    truth = true_robot(ARMS["two joints"], rng, "simple")
    robot = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)
    problem = identify(robot, [log(truth, 6.0, 200.0, rng)]).problem
    friction = rng.normal(size=(len(problem.labels), 2))
    steady = problem.steady(friction, np.full(len(problem.channels), 1e-6))
    unsure = problem.steady(friction, np.full(len(problem.channels), 1e9))
    assert steady is not None and unsure is not None
    ((plain,), (left,), (kept,)) = (tuple(p.rows()) for p in (problem, steady, unsure))
    place = (plain.time - plain.time.mean()) / np.ptp(plain.time)
    changes = place[:, None, None] * (plain.regressor @ friction)
    sizes = np.linalg.norm(changes, axis=0)
    across = np.einsum("ncf,nc->cf", changes, left.effort)
    assert np.abs(across).max() < 1e-6 * np.max(sizes) * np.linalg.norm(plain.effort)
    assert np.linalg.norm(left.effort) > 0.5 * np.linalg.norm(plain.effort)
    np.testing.assert_allclose(kept.effort, plain.effort, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(kept.regressor, plain.regressor, rtol=1e-9, atol=1e-9)


@pytest.fixture
def rng() -> np.random.Generator:
    """Return random numbers."""
    return np.random.default_rng(8)
