"""One equation of motion in three forms: the textbook's numbers, exact integrals, honest noise."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from benchmarks.lessons import LESSONS, STEP, example, noisy, one_link, rubbing

from heft.applications import textbook
from heft.applications.textbook import (
    Differenced,
    Growing,
    HeldEffort,
    Moved,
    chosen,
    followed,
    least_squares,
)
from heft.errors import InvalidSetting, TooLittleData
from heft.estimators.recursive import CovarianceRecursion
from heft.models.robot import Robot
from heft.recordings.columns import ColumnMap
from heft.recordings.recording import Recording
from heft.signals.weak_form import Integrals, Windows
from heft.simulation import Simulate, Trajectory
from tests.experiments import fourier
from tests.robots import FloatArray, load

G = 9.806
WINDOWS = Windows(0.4, 0.1)


def textbook_loop(moved: Trajectory) -> FloatArray:
    """Return θ of the slides' MATLAB loop, line by line."""
    u, W1, P, theta = 0.0, np.zeros(4), np.eye(4), np.zeros(4)
    for k in range(1, len(moved.time)):
        q, qdot = moved.position[k, 0], moved.velocity[k, 0]
        W1 = W1 + np.array([0.0, -G * np.sin(q), -np.sign(qdot), -qdot]) * STEP
        Y = np.array([qdot, 0.0, 0.0, 0.0]) - W1
        u += moved.effort[k - 1, 0] * STEP
        P = P - np.outer(P @ Y, Y @ P) / (1.0 + Y @ P @ Y)
        theta = theta + P @ Y * (u - Y @ theta)
    return theta


def test_the_textbook_loop_is_rectangles_and_the_covariance_recursion() -> None:
    lesson = LESSONS["one link"]
    moved = lesson.moved(STEP)
    rows = lesson.columns(lambda robot: Growing("rectangles").rows(robot, moved))
    course = followed(CovarianceRecursion(), rows)
    assert course[-1] == pytest.approx(textbook_loop(moved), rel=1e-9)
    assert course[-1] == pytest.approx(lesson.truth, rel=0.02)


def test_the_homework_is_solved_by_the_same_recursion() -> None:
    lesson = LESSONS["two links"]
    moved = lesson.moved()
    rows = lesson.columns(lambda robot: Growing("rectangles").rows(robot, moved))
    assert followed(CovarianceRecursion(), rows)[-1] == pytest.approx(lesson.truth, rel=0.05)


@pytest.mark.parametrize("name", LESSONS)
def test_exact_integrals_recover_what_rectangles_come_near(name: str) -> None:
    lesson = LESSONS[name]
    moved = lesson.moved()
    exact = least_squares(lesson.columns(lambda robot: Growing().rows(robot, moved)))
    assert exact.values == pytest.approx(lesson.truth, rel=1e-4)
    rough = lesson.columns(lambda robot: Growing("rectangles").rows(robot, moved))
    error = np.abs(least_squares(rough).values / lesson.truth - 1.0).max()
    assert error > 100 * np.abs(exact.values / lesson.truth - 1.0).max()


def test_an_effort_that_was_held_is_integrated_as_such() -> None:
    lesson = LESSONS["one link"]
    moved = lesson.moved(STEP)
    assert moved.held and not lesson.moved().held
    for growing in (Growing(), Growing(held=True)):
        rows = lesson.columns(lambda robot, form=growing: form.rows(robot, moved))  # type: ignore[misc]
        assert least_squares(rows).values == pytest.approx(lesson.truth, rel=1e-4)


@pytest.mark.parametrize("hold", [None, STEP, 5 * STEP])
def test_a_staircase_that_is_not_declared_is_warned_of(hold: float | None) -> None:
    moved = LESSONS["one link"].moved(hold)
    with pytest.warns(HeldEffort, match=f"say held={hold is not None}"):
        one_link(lambda robot: Growing(held=hold is None).rows(robot, moved))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_link(lambda robot: Growing().rows(robot, moved))


def test_the_column_map_says_that_efforts_are_held(tmp_path: Path) -> None:
    moved = LESSONS["one link"].moved(STEP)
    table = {"q": moved.position[:, 0], "u": moved.effort[:, 0]}
    np.savez(tmp_path / "log.npz", t=moved.time, **table)
    for said in ({}, {"held": True}):
        columns: dict[str, Any] = {
            "time": {"column": "t"},
            "q": {"columns": ["q"], "joints": ["joint1"]},
        }
        columns["tau"] = {"columns": ["u"], "joints": ["joint1"], **said}
        log = Recording.open(tmp_path / "log.npz", ColumnMap.from_dict(columns))
        found = Differenced.of(log, ["joint1"])
        assert found.held is bool(said)
        np.testing.assert_array_equal(found.effort, moved.effort)
    # Exact integrals of the slides' torque want the velocity that they have.
    seen = replace(moved, held=found.held)
    rows = one_link(lambda robot: Growing().rows(robot, seen))
    assert least_squares(rows).values == pytest.approx(LESSONS["one link"].truth, rel=1e-4)
    with pytest.raises(InvalidSetting):
        ColumnMap.from_dict({"q": {"columns": ["q"], "joints": ["joint1"], "held": True}})


@pytest.mark.parametrize("name", LESSONS)
def test_all_forms_agree_on_a_motion_without_noise(name: str) -> None:
    lesson = LESSONS[name]
    moved = lesson.moved()
    for make in (textbook.differentiated, lambda r, m: textbook.windowed(r, m, WINDOWS)):
        rows = lesson.columns(lambda robot, make=make: make(robot, moved))  # type: ignore[misc]
        assert least_squares(rows).values == pytest.approx(lesson.truth, rel=2e-3)


def test_a_window_ends_where_a_drive_sticks() -> None:
    robot = example("one_link")
    # Shaken, left to come to rest, and shaken again.
    moved = Simulate().run(
        rubbing(robot),
        STEP * np.arange(2500),
        lambda t, q, v: np.array([np.sin(8 * t) * np.cos(np.pi * t / 5.0) ** 8]),
    )
    sticks = np.count_nonzero(moved.velocity == 0.0)
    assert sticks > 50
    rows = one_link(lambda r: Growing().rows(r, moved))
    assert sticks < len(moved.time) - len(rows.time) < sticks + 20
    assert least_squares(rows).values == pytest.approx(LESSONS["one link"].truth, rel=1e-3)


def test_the_integral_of_a_sign_finds_its_changes_between_samples() -> None:
    # Uneven times, and a kink where friction changes its sign.
    time = np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, 400)) * 2e-3
    turns = np.array([0.2131, 0.5007])
    speed = np.prod(time[:, None] - turns, axis=1) * np.where(time > turns[0], 0.6, 1.0)
    behind = np.clip(time[:, None] - turns, 0.0, None)
    exact = time - time[0] - 2.0 * behind[:, 0] + 2.0 * behind[:, 1]
    assert textbook.sign_integral(time, speed) == pytest.approx(exact, abs=1e-9)
    assert textbook.sign_integral(time[:5], np.array([0.0, 1, 2, 0, 0])) == pytest.approx(
        np.minimum(time[:5], time[3]) - time[0]
    )


# --- noise


@pytest.mark.parametrize("name", LESSONS)
def test_windows_bear_noise_that_differentiation_does_not(name: str) -> None:
    lesson, errors = LESSONS[name], []
    for seed in range(3):
        seen: Moved = noisy(lesson.moved(), seed)
        rows = (
            lesson.columns(lambda robot, seen=seen: textbook.differentiated(robot, seen)),  # type: ignore[misc]
            lesson.columns(lambda robot, seen=seen: textbook.windowed(robot, seen, WINDOWS)),  # type: ignore[misc]
        )
        errors.append([least_squares(r).values / lesson.truth - 1.0 for r in rows])
    differentiated, windowed = np.sqrt(np.mean(np.square(errors), axis=(0, 2)))
    assert windowed < 0.02 < 0.1 < differentiated


def test_whitened_windows_make_intervals_honest() -> None:
    """White noise of effort alone: the squared error over its covariance is χ²."""
    lesson, sigma = LESSONS["two links"], 0.05
    moved = lesson.moved()
    rows = lesson.columns(lambda robot: textbook.windowed(robot, moved, WINDOWS))
    white = textbook.whitened(rows, WINDOWS, STEP)
    start = least_squares(white).values
    surprise, noises = 0.0, []
    for seed in range(50):
        noise = sigma * np.random.default_rng(seed).normal(size=moved.effort.shape)
        seen = replace(moved, effort=moved.effort + noise)
        given = textbook.whitened(replace(rows, effort=_efforts(seen)), WINDOWS, STEP)
        found = least_squares(given)
        error = found.values - start
        surprise += error @ np.linalg.solve(found.covariance, error)
        left = given.effort - given.regressor @ found.values
        noises.append(np.sqrt(np.sum(left**2) / (left.size - len(start))))
    low, high = scipy.stats.chi2.ppf([0.001, 0.999], 50 * len(start))
    assert low < surprise < 1.1 * high  # the noise is itself an estimate
    assert np.mean(noises) == pytest.approx(sigma, rel=0.1)


def _efforts(moved: Trajectory) -> FloatArray:
    bare = example("two_link_homework")
    return textbook.windowed(bare, moved, WINDOWS).effort


def test_rows_that_leave_windows_out_are_not_whitened() -> None:
    rows = Integrals(np.array([0.0, 0.1, 0.3]), np.ones((3, 1, 1)), np.ones((3, 1)))
    with pytest.raises(InvalidSetting, match="missing"):
        textbook.whitened(rows, WINDOWS, STEP)


def test_columns_that_the_motion_cannot_tell_apart_are_refused() -> None:
    lesson = LESSONS["one link"]
    robot = example("one_link")
    names = ("link1@joint1.I.zz", "joint1.armature")
    rows = textbook.differentiated(robot, lesson.moved())
    with pytest.raises(TooLittleData, match="determine"):
        least_squares(chosen(rows, [robot.labels.index(n) for n in names]))


# --- any robot

ROBOTS = (
    "panda_description/urdf/panda.urdf",  # fingers that slide, one of them a mimic
    "tiago_description/robots/tiago_no_hand.urdf",  # a torso that slides
    "ur_description/urdf/ur10_robot.urdf",
)


@pytest.mark.parametrize("file", ROBOTS)
def test_the_growing_form_holds_for_any_robot(file: str) -> None:
    robot = load(file, friction="simple")
    rng = np.random.default_rng(1)
    time = STEP * np.arange(1500)
    q, v, a = fourier(len(robot.joints), time, rng)
    values = rng.normal(size=len(robot.labels))
    moved = _Given(time, q, v, a, np.zeros_like(q))
    effort = textbook.differentiated(robot, moved).regressor @ values
    coulomb = [k for k, n in enumerate(robot.labels.names) if n.endswith(".coulomb")]
    smooth = np.delete(np.arange(len(values)), coulomb)
    rows = Growing().rows(robot, replace(moved, effort=effort))
    # Torque jumps where friction does, which samples cannot show: it is compared without.
    rest = replace(moved, effort=effort - _coulomb(robot, v, values))
    u = Growing().rows(robot, rest).effort
    assert rows.regressor[:, :, smooth] @ values[smooth] == pytest.approx(
        u, abs=1e-6 * np.abs(u).max()
    )
    turned = np.stack([textbook.sign_integral(time, x)[1:] for x in v.T], axis=1)
    sign = rows.regressor[:, :, coulomb] @ values[coulomb]
    assert sign == pytest.approx(turned * values[coulomb], abs=1e-9)


@dataclass(frozen=True, eq=False)
class _Given:
    time: FloatArray
    position: FloatArray
    velocity: FloatArray
    acceleration: FloatArray
    effort: FloatArray
    held: bool = False


def _coulomb(robot: Robot, velocity: FloatArray, values: FloatArray) -> FloatArray:
    names = [f"{j}.coulomb" for j in robot.joints]
    return np.sign(velocity) * values[[robot.labels.index(n) for n in names]]
