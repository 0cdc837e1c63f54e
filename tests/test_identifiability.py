"""Laws of base parameters: what rows can tell, whatever the motion."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

import numpy as np
import pytest
from benchmarks.rounding import rounded

from heft.arrays import Array
from heft.dynamics.drives import FRICTION
from heft.dynamics.tree import PRISMATIC, REVOLUTE
from heft.errors import FitError
from heft.information import Information, triangle_of
from heft.information.identifiability import (
    TOLERANCE,
    BaseParameters,
    Directions,
    base_parameters,
    channel_ranks,
    column_order,
    data_rank,
    visible_share,
)
from heft.information.parameters import Labels
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.models.urdf import printed_angle_error, printed_direction_error
from heft.plants import RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.base import spans, structural_base
from tests import robots

EPS = float(np.finfo(float).eps)
ARMS = (
    "ur_description/urdf/ur10_robot.urdf",
    "panda_description/urdf/panda.urdf",
    "kinova_description/robots/kinova.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "solo_description/robots/solo12.urdf",
    "finger_edu_description/robots/finger_edu.urdf",
    "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
)
ROUNDED = ARMS[1:4]
CASES = [(f, "fixed", d) for f in ARMS for d in (True, False)]
CASES += [(f, "free", False) for f in ("solo_description/robots/solo12.urdf", *robots.IMMOBILE)]
every_case = pytest.mark.parametrize(
    ("file", "base", "drives"),
    CASES,
    ids=[f"{f}-{b}-{'drives' if d else 'rigid'}" for f, b, d in CASES],
)


@cache
def base_of(file: str, base: str, drives: bool) -> tuple[Robot, BaseParameters]:
    robot = robots.load(file, base, drives)
    return robot, structural_base(RobotPlant(robot))


def fresh_rows(robot: Robot, seed: int = 7, count: int | None = None) -> np.ndarray:
    """Rows (N·channels, p) at random states that the base parameters were not made from."""
    size = 4 * len(robot.labels) if count is None else count
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, size, rng)
    state = random_drive_state(robot, q, v, a, rng)
    return standard_rows(robot, q, v, a, state).reshape(-1, len(robot.labels))


# ---- textbook sets --------------------------------------------------------------------------


def by_name(base: BaseParameters) -> dict[str, dict[str, float]]:
    """Coefficients of each base parameter by the names that it is made of."""
    names = base.standard.names
    return {
        names[kept]: {names[d]: row[d] for d in np.flatnonzero(row)}
        for kept, row in zip(base.kept, base.matrix, strict=True)
    }


L = robots.PLANAR_LENGTH
IN_PLANE: dict[str, dict[str, float]] = {  # [Khalil2002, sect. 9.4], L the length of the first link
    "upper.h.x": {"upper.h.x": 1.0, "lower.m": L},
    "upper.h.y": {"upper.h.y": 1.0},
    "upper.I.zz": {"upper.I.zz": 1.0, "lower.m": L**2},
    "lower.h.x": {"lower.h.x": 1.0},
    "lower.h.y": {"lower.h.y": 1.0},
    "lower.I.zz": {"lower.I.zz": 1.0},
}
# Without gravity in the plane the first link only turns about a fixed axis.
ACROSS = {k: v for k, v in IN_PLANE.items() if not k.startswith("upper.h")}


@pytest.mark.parametrize(
    ("gravity", "expected"),
    [((0.0, -9.81, 0.0), IN_PLANE), ((6.0, 2.0, 1.0), IN_PLANE), ((0.0, 0.0, -9.81), ACROSS)],
    ids=["in the plane", "aslant", "across"],
)
def test_a_planar_arm_has_the_base_parameters_of_the_textbook(
    gravity: tuple[float, float, float], expected: dict[str, dict[str, float]]
) -> None:
    found = by_name(structural_base(RobotPlant(robots.planar_arm(gravity))))
    assert found.keys() == expected.keys()
    for name, terms in expected.items():
        assert found[name] == pytest.approx(terms, rel=1e-12), name


def test_expressions_can_be_read() -> None:
    base = structural_base(RobotPlant(robots.planar_arm()))
    assert base.expressions() == (
        "upper.h.x + 0.7 lower.m",
        "upper.h.y",
        "upper.I.zz + 0.49 lower.m",
        "lower.h.x",
        "lower.h.y",
        "lower.I.zz",
    )


def test_parameters_that_stand_alone_are_named_so() -> None:
    base = structural_base(RobotPlant(robots.planar_arm()))
    alone = [base.standard.names[k] for k in base.alone()]
    assert alone == ["upper.h.y", "lower.h.x", "lower.h.y", "lower.I.zz"]


@pytest.mark.parametrize("friction", ["full", "simple"])
def test_drives_of_a_planar_arm_are_all_seen_where_the_inertia_does_not_hide_them(
    friction: Literal["full", "simple"],
) -> None:
    base = structural_base(RobotPlant(robots.planar_arm(drives=True, friction=friction)))
    found = by_name(base)
    # The first rotor turns as the first link does; the second only with the elbow.
    assert found["upper.I.zz"] == pytest.approx(
        {"upper.I.zz": 1.0, "lower.m": L**2, "shoulder.armature": 1.0}, rel=1e-12
    )
    assert "elbow.armature" in found
    for joint in ("shoulder", "elbow"):
        for name in (f"{joint}.{t.name}" for t in FRICTION[friction]):
            assert found[name] == {name: 1.0}


# Counts of inertial base parameters that the literature agrees on.
@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("ur_description/urdf/ur10_robot.urdf", 36),
        ("ur_description/urdf/ur5_robot.urdf", 36),
        ("ur_description/urdf/ur3_robot.urdf", 36),
    ],
)
def test_an_arm_of_universal_robots_has_36_inertial_base_parameters(file: str, count: int) -> None:
    assert base_of(file, "fixed", False)[1].rank == count


# Joints that mimic others share their motion, and regroup further.
FLOATING = tuple(f for f in robots.floating() if not robots.mimics(robots.path_of(f).read_bytes()))


@pytest.mark.parametrize("file", FLOATING)
def test_a_floating_robot_has_ten_and_seven_a_hinge_and_four_a_slide(file: str) -> None:
    robot = robots.load(file, "free", drives=False)
    hinges, slides = (int((robot.tree.kind == kind).sum()) for kind in (REVOLUTE, PRISMATIC))
    base = structural_base(RobotPlant(robot))
    # Every body feels every motion of the base, so only what hinges and slides always regroup
    # goes: m, h along and I across the axis of a hinge (3), the whole of I of a slide (6)
    # [Khalil2002, sect. 9.4.2].
    assert base.rank == 10 + 7 * hinges + 4 * slides


# ---- laws -----------------------------------------------------------------------------------


@every_case
def test_base_parameters_say_all_that_the_parameters_say(
    file: str, base: str, drives: bool
) -> None:
    robot, found = base_of(file, base, drives)
    rows = fresh_rows(robot, count=40)
    parameters = np.random.default_rng(1).normal(size=len(robot.labels))
    expected = rows @ parameters
    error = np.abs(rows[:, list(found.kept)] @ (found.matrix @ parameters) - expected)
    # K is the solution of least squares whose columns are at most 1/gap from dependence.
    # Where angles are rounded, what they leave is taken for none.
    least = max(1e-9, RobotPlant(robot).rounding)
    assert error.max() <= least * np.abs(expected).max()


@every_case
def test_the_rank_is_that_of_singular_values(file: str, base: str, drives: bool) -> None:
    robot, found = base_of(file, base, drives)
    rows = fresh_rows(robot)
    norms = np.linalg.norm(rows, axis=0)
    seen = norms > 1e-12 * norms.max()  # the rest is rounding of a zero
    singular = np.linalg.svd(rows[:, seen] / norms[seen], compute_uv=False)
    count = int((singular > TOLERANCE * singular[0]).sum())
    # Angles that files round (1.5708 for π/2) tilt axes by 4e-6, and what should depend on others
    # then leaves as much: it is taken for none.
    assert found.rank == count if RobotPlant(robot).rounding == 0.0 else found.rank <= count


@every_case
def test_unseen_columns_are_zero_and_no_others(file: str, base: str, drives: bool) -> None:
    robot, found = base_of(file, base, drives)
    norms = np.linalg.norm(fresh_rows(robot), axis=0)
    units = np.array(robot.labels.units)
    longest = np.array([norms[units == u].max() for u in units])
    least = np.maximum(1e-12 * norms.max(), RobotPlant(robot).rounding * longest)
    unseen = np.flatnonzero(norms <= least)
    assert found.unseen == tuple(unseen)
    assert not found.matrix[:, unseen].any()


@every_case
def test_the_kept_columns_of_k_are_the_identity(file: str, base: str, drives: bool) -> None:
    _, found = base_of(file, base, drives)
    assert np.array_equal(found.matrix[:, list(found.kept)], np.eye(found.rank))
    assert found.labels.names == tuple(found.standard.names[k] for k in found.kept)
    assert list(found.kept) == sorted(found.kept)


@every_case
def test_dependent_and_independent_columns_lie_far_apart(
    file: str, base: str, drives: bool
) -> None:
    robot, found = base_of(file, base, drives)
    dependent, kept = found.gap
    least = max(TOLERANCE, RobotPlant(robot).rounding)
    assert dependent <= least < 0.1 * kept


@pytest.mark.parametrize("file", ROUNDED)
@pytest.mark.parametrize("digits", [5, 4, 3, 2])
def test_rounded_angles_are_what_they_were_meant_to_be(file: str, digits: int) -> None:
    exact = structural_base(RobotPlant(robots.load(file, drives=False)))
    text = rounded(robots.path_of(file).read_bytes(), digits)
    robot = robots.rigid(Robot.from_urdf_text(text))
    found = structural_base(RobotPlant(robot))
    assert found.labels.names == exact.labels.names
    # at five digits, as of 1.5708, there is nothing to say
    assert any("multiples of 15°" in note for note in robot.notes) == (robot.angle_error > 1e-5)


def test_an_angle_that_is_no_rounded_one_is_taken_as_written() -> None:
    """A calibration of 1e-3 rad is as sure as its digits say: it may tell columns apart."""
    assert printed_angle_error([1.5719, 0.001, -0.25, 0.0, 3.0]) == 0.0
    assert printed_angle_error([1.57]) == pytest.approx(np.pi / 2 - 1.57)
    assert printed_angle_error([-3.14159, 1.5707]) == pytest.approx(np.pi / 2 - 1.5707)
    assert printed_angle_error([1.572, 3.143]) == 0.0
    assert printed_direction_error([0.0, 0.7071, 0.7071]) < 1e-12
    assert printed_direction_error([0.5, 0.866, 0.0]) == pytest.approx(
        np.pi / 3 - np.atan2(0.866, 0.5)
    )
    assert printed_direction_error([0.01, 0.0, 0.9999]) == 0.0


@pytest.mark.parametrize("file", ARMS[:2])
def test_combinations_of_base_parameters_are_told_from_others(file: str) -> None:
    base = structural_base(RobotPlant(robots.load(file)))
    twice = np.vstack([base.matrix[:2].sum(axis=0), np.zeros(base.matrix.shape[1])])
    unseen = np.eye(base.matrix.shape[1])[[j for j in range(10) if j not in base.kept]]
    assert spans(base, twice)
    assert not any(spans(base, column[None]) for column in unseen)


@pytest.mark.parametrize("file", ARMS[:4])
def test_the_same_robot_has_the_same_base_parameters_every_time(file: str) -> None:
    first, second = (structural_base(RobotPlant(robots.load(file))) for _ in range(2))
    assert first.kept == second.kept
    assert np.array_equal(first.matrix, second.matrix)


@pytest.mark.parametrize("file", ARMS[:3])
@pytest.mark.parametrize("seed", range(3))
def test_base_parameters_do_not_depend_on_the_motion(file: str, seed: int) -> None:
    robot, expected = base_of(file, "fixed", True)
    order = column_order(len(robot.tree.names), len(robot.labels))
    found = base_parameters(triangle_of(fresh_rows(robot, seed)), robot.labels, order)
    assert found.kept == expected.kept
    assert found.unseen == expected.unseen
    # Rows of friction's dictionary are told apart by what nearly dependent columns leave, where
    # rounding is larger; `structural_base` takes each for a parameter of its own.
    plain = [k for k, i in enumerate(found.kept) if "[" not in robot.labels.names[i]]
    np.testing.assert_allclose(found.matrix[plain], expected.matrix[plain], rtol=0, atol=1e-9)


def test_base_parameters_do_not_depend_on_the_order_of_the_file() -> None:
    plain = robots.planar_arm(drives=True)
    shuffled = robots.planar_arm(drives=True, source=robots.PLANAR_ARM_SHUFFLED)
    assert [k.name for k in plain.links] != [k.name for k in shuffled.links]
    one, two = structural_base(RobotPlant(plain)), structural_base(RobotPlant(shuffled))
    assert one.expressions() == two.expressions()
    assert one.standard == two.standard


@pytest.mark.parametrize("file", ARMS[:4])
def test_rows_of_a_triangle_tell_what_the_rows_tell(file: str) -> None:
    robot, expected = base_of(file, "fixed", False)
    rows = fresh_rows(robot)
    order = column_order(len(robot.tree.names), len(robot.labels))
    for given in (rows, triangle_of(rows), 1e6 * rows):
        assert base_parameters(given, robot.labels, order).kept == expected.kept


def test_the_order_of_columns_is_a_permutation_with_masses_last_in_each_body() -> None:
    order = column_order(3, 37)
    assert sorted(order) == list(range(37))
    assert [order.index(10 * b) for b in range(3)] == [9, 19, 29]
    assert order[30:] == tuple(range(30, 37))


def test_a_joint_held_still_shows_less() -> None:
    file = "ur_description/urdf/ur10_robot.urdf"
    still = JointOptions(friction="none", armature=False, position=0.4)
    loose = JointOptions(friction="none", armature=False)
    whole = base_of(file, "fixed", False)[1]
    joints = {j: still if j == "elbow_joint" else loose for j in robots.load(file).joints}
    robot = Robot.from_urdf(robots.path_of(file), Options(joint=joints))
    held = structural_base(RobotPlant(robot))
    # Welded to the upper arm, the forearm takes the seven of a joint along.
    assert held.rank == whole.rank - 7


def test_a_gap_that_is_none_is_an_error() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(50, 4))
    rows[:, 2] = rows[:, 0] + 1.2e-8 * rng.normal(size=50)
    rows[:, 3] = rows[:, 1] + 3.0e-8 * rng.normal(size=50)
    labels = Labels(("a", "b", "c", "d"), ("",) * 4)
    with pytest.raises(FitError, match="not clear"):
        base_parameters(rows, labels, range(4))


# ---- condition and rank of data -------------------------------------------------------------


def condition(rows: Array) -> float:
    return Directions.of(rows, len(rows)).condition


@pytest.mark.parametrize("seed", range(5))
def test_condition_does_not_depend_on_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 5))
    units = 10.0 ** rng.uniform(-6, 6, 5)
    assert condition(rows * units) == pytest.approx(condition(rows), rel=1e-12)
    assert condition(triangle_of(rows)) == pytest.approx(condition(rows), rel=1e-12)


def test_columns_at_right_angles_have_condition_one() -> None:
    assert condition(np.diag([1e-9, 1.0, 1e9])) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("angle", [1e-1, 1e-3, 1e-5])
def test_the_condition_of_two_columns_is_their_angle(angle: float) -> None:
    rows = np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)]])
    # Singular values are √(1 ± cos α), so their ratio is the cotangent of half the angle; the
    # smaller one is right to eps, that is to eps/α of itself.
    expected = 1.0 / np.tan(angle / 2.0)
    assert condition(rows) == pytest.approx(expected, rel=8.0 * EPS / angle)


def test_a_column_of_zeros_has_no_condition() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 6))
    rows[:, 3] = 0.0  # among others, whose rounding could hide it
    assert condition(rows) == condition(np.diag([1.0, 0.0])) == np.inf


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_the_rank_of_data_is_counted(rank: int) -> None:
    rng = np.random.default_rng(rank)
    rows = rng.normal(size=(200, rank)) @ rng.normal(size=(rank, 5))
    labels = Labels(tuple("abcde"), ("",) * 5)
    found = data_rank(triangle_of(rows), labels, 200)
    assert (found.rank, found.columns) == (rank, 5)


def test_the_weakest_combination_is_named() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(100, 4))
    rows[:, 3] = rows[:, 1] + 1e-6 * rows[:, 3]
    found = data_rank(triangle_of(rows), Labels(tuple("abcd"), ("",) * 4), 100)
    assert set(found.weakest) == {"b", "d"}
    assert found.rank == 4


def test_the_wrist_tells_less_than_the_shoulder() -> None:
    robot, base = base_of("ur_description/urdf/ur10_robot.urdf", "fixed", False)
    states = random_states(robot, 300, np.random.default_rng(3))
    rows = standard_rows(robot, *states)[:, :, list(base.kept)]
    item = Information.from_rows(base.labels, robot.channels, rows, rows @ np.ones(base.rank))
    ranks = channel_ranks(item)
    for c, channel in enumerate(robot.channels):
        seen = rows[:, c]
        norms = np.linalg.norm(seen, axis=0)
        singular = np.linalg.svd(seen / np.where(norms > 0.0, norms, 1.0), compute_uv=False)
        assert ranks[channel] == int((singular > 1e-10 * singular[0]).sum()), channel
    counts = list(ranks.values())
    assert counts[1] > counts[-1] == min(counts)


def test_the_share_that_data_show_lies_between_none_and_all() -> None:
    prior = np.array([1.0, 1.0, 1.0, 0.0])
    posterior = np.array([0.0, 0.25, 2.0, 1.0])
    assert visible_share(posterior, prior).tolist() == [1.0, 0.75, 0.0, 1.0]


def test_labels_of_base_parameters_never_meet_those_of_the_parameters() -> None:
    _, base = base_of("ur_description/urdf/ur10_robot.urdf", "fixed", False)
    chosen = base.standard.select(base.kept)
    assert base.labels != chosen
    assert replace(base.labels, frame=chosen.frame) == chosen
