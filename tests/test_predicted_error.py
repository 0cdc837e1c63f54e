"""The torque error that is to be expected elsewhere: laws, and logs that spoil it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heft.applications.identification.identification import Identification, identify
from heft.applications.identification.results import to_json
from heft.display import Stretch
from heft.fit.predicted_error import OtherMotion, PredictedError, with_prior
from heft.fit.scores import Score, filtered, scored
from heft.fit.settings import Limits, RowKind, Settings
from heft.models.export import write_urdf
from heft.models.options import JointOptions
from heft.models.robot import Robot
from heft.plants import Channel
from heft.recordings import Recording
from heft.signals import Weak
from heft.simulation import Arm, Condition, DriveRanges, Sensors, SimulatedExperiment, Simulator
from tests.experiments import ROBOTS

pytestmark = pytest.mark.usefixtures("without_doctor")

SETTINGS = Settings(threads=1)
KNOWN = replace(SETTINGS, smoothing=replace(SETTINGS.smoothing, delay=0.0))


def experiment(seconds: float = 12.0, seed: int = 5) -> SimulatedExperiment:
    """Return a short experiment of a small arm with friction that no term describes."""
    arm = Arm.of(ROBOTS / "so_arm_description/urdf/so101.urdf", "so101", None, "wrist_roll", 6.0)
    drives = DriveRanges(friction="lugre", bend=(0.5, 2.0))
    condition = Condition(drives=drives, sensors=Sensors(rate=100.0), duration=seconds)
    return Simulator(arm, condition).run(seed)


def identified(
    truth: SimulatedExperiment, turns: float = 1.0, unit: float = 1.0, rows: RowKind = "auto"
) -> Identification:
    """Identify from a log whose second joint's position, or all of whose forces, are multiplied."""
    names = truth.arm.joints
    table = truth.recording.table
    columns = dict(
        zip(table.columns, np.concatenate(list(table.read(table.columns))).T, strict=True)
    )
    gears = np.ones(len(names))
    gears[1] = turns
    q = {j: g * columns[f"q.{j}"] for j, g in zip(names, gears, strict=True)}
    tau = {j: unit * columns[f"tau.{j}"] for j in names}
    robot = Robot.from_urdf_text(truth.prior)
    heavier = {k.name: unit * k.nominal for k in robot.bodies_links}
    robot = Robot.from_urdf_text(write_urdf(robot.source, heavier, {}))
    return identify(
        robot,
        [Recording.from_arrays(columns["t"], "log", q=q, tau=tau)],
        (),
        replace(KNOWN, rows=rows),
    )


@pytest.fixture(scope="module")
def truth() -> SimulatedExperiment:
    return experiment()


@pytest.fixture(scope="module")
def found(truth: SimulatedExperiment) -> Identification:
    return identified(truth)


def test_it_is_about_what_it_turns_out_to_be(
    truth: SimulatedExperiment, found: Identification
) -> None:
    """The error of the model on slow motion that nobody fitted, by the simulator's own truth."""
    from benchmarks.scoring import Left
    from benchmarks.truth_scores import held_out

    left = Left.by(found)
    errors = [held_out(left, truth.other("slow point to point", n))["full"] for n in (2, 3)]
    assert 0.25 * np.mean(errors) < found.predicted_error.total < 4.0 * np.mean(errors)


def test_it_is_at_least_the_error_of_the_fit(found: Identification) -> None:
    used = [s for s in found.fit if s.friction == "full" and s.filter_hz is not None]
    assert found.predicted_error.total >= max(s.total for s in used)
    for joint, error in found.predicted_error.per_joint.items():
        assert error >= max(s.per_joint[joint] for s in used)


def test_it_is_stated_and_judged(found: Identification) -> None:
    (check,) = [c for c in found.checks if c.name == "predicted error"]
    assert check.value == found.predicted_error.total == to_json(found)["predicted_error"]["total"]
    assert set(found.predicted_error.per_joint) == set(found.problem.channels)


def test_what_the_model_file_says_of_friction_is_judged_by_itself(
    truth: SimulatedExperiment, found: Identification
) -> None:
    from benchmarks.scoring import Left
    from benchmarks.truth_scores import held_out

    left, simple = Left.by(found), found.predicted_error.simple
    errors = [held_out(left, truth.other("slow point to point", n))["simple"] for n in (2, 3)]
    assert simple is not None and np.mean(errors) / 4.0 < simple < 4.0 * np.mean(errors)
    assert to_json(found)["predicted_error"]["simple"] == simple
    (check,) = [c for c in found.checks if c.name == "simple friction"]
    assert (check.value, check.status) == (simple, "warn")
    assert "friction.py" in check.message
    robot = found.problem.plant.robot
    as_simple = robot.with_joints(dict.fromkeys(robot.joints, JointOptions(friction="simple")))
    plain = identify(as_simple, [truth.recording], settings=KNOWN)
    assert plain.predicted_error.simple is None
    assert not [c for c in plain.checks if c.name == "simple friction"]


@pytest.mark.parametrize("rows", ["differentiated", "weak"])
def test_a_longer_log_of_the_same_kind_makes_it_smaller(rows: RowKind) -> None:
    errors = [identified(experiment(s), rows=rows).predicted_error.total for s in (4.0, 24.0)]
    assert errors[1] < errors[0]


def test_a_doubled_gear_is_never_good(truth: SimulatedExperiment, found: Identification) -> None:
    spoilt = identified(truth, turns=2.0)
    assert spoilt.predicted_error.total > Limits().predicted_error.passes
    assert spoilt.predicted_error.total > 3.0 * found.predicted_error.total
    assert spoilt.verdict != "good"


def test_the_unit_of_force_cancels(truth: SimulatedExperiment, found: Identification) -> None:
    scaled = identified(truth, unit=1e3)
    assert scaled.predicted_error.total == pytest.approx(found.predicted_error.total, rel=0.05)


def test_a_factor_of_torque_cancels() -> None:
    fit = [Score("log", "full", 10.0, 0.01, 0.01, {"a": 0.01, "b": 0.01})]
    variance, energy = np.array([4.0, 1.0]), np.array([100.0, 300.0])
    one = PredictedError.of(variance, energy, ("a", "b"), fit)
    other = PredictedError.of(1e6 * variance, 1e6 * energy, ("a", "b"), fit)
    assert one.total == pytest.approx(np.sqrt(5.0 / 400.0)) == pytest.approx(other.total)
    assert one.per_joint == pytest.approx({"a": 0.2, "b": np.sqrt(1.0 / 300.0)})
    assert other.per_joint == pytest.approx(one.per_joint)


def test_a_fit_that_errs_more_is_what_is_stated() -> None:
    fit = [Score("log", "full", 10.0, 0.5, 0.4, {"a": 0.4})]
    found = PredictedError.of(np.array([1e-4]), np.array([1.0]), ("a",), fit)
    assert (found.total, found.per_joint["a"]) == (0.5, 0.4)


@pytest.mark.parametrize("speed", [0.01, 1.0, 50.0])
def test_the_motion_is_slow_rests_and_goes_through_the_poses(speed: float) -> None:
    motion = OtherMotion(longest=1e4 / speed)
    poses = np.random.default_rng(3).uniform(-1.0, 1.0, (6, 2))
    path = motion.through(poses, np.full(2, speed))
    velocity = np.diff(path, axis=0) * motion.rate
    assert np.abs(velocity).max() < 1.1 * max(motion.speeds) * np.sqrt(2.0) * speed
    for pose in poses:
        same = np.all(np.isclose(path, pose, atol=1e-12), axis=1)
        assert np.count_nonzero(same) >= motion.dwell * motion.rate


def test_a_joint_that_never_moves_is_left_where_it_is() -> None:
    poses = np.column_stack([np.linspace(0.0, 1.0, 5), np.full(5, 0.3)])
    path = OtherMotion().through(poses, np.array([1.0, 0.0]))
    assert np.isfinite(path).all() and (path[:, 1] == 0.3).all()


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 1e3])
def test_what_is_unexplained_is_a_share_of_how_torque_varies(size: float) -> None:
    time = 0.01 * np.arange(200)
    tau = size * np.column_stack([3.0 + np.sin(2.0 * time), np.cos(5.0 * time)])
    guess = 0.9 * tau
    log = SimpleNamespace(name="log", selection=None)
    problem: Any = SimpleNamespace(
        plant=SimpleNamespace(channels=(Channel("a", "N·m"), Channel("b", "N·m"))),
        channels=("a", "b"),
        recordings=(log,),
        timelines=(SimpleNamespace(step=0.01, used=200),),
        decimation=1,
    )
    none = np.zeros((200, 0))
    part = Stretch(time, none, none, none, none, 0, np.arange(200), tau, guess[None], guess)
    found = scored(problem, ("full",), lambda whole: [part], 5.0)
    smooth, left = (filtered(time, x, 0.01, 5.0) for x in (tau, tau - guess))
    varying = np.sum((smooth - smooth.mean(axis=0)) ** 2)
    wanted = np.sqrt(np.sum(left**2) / varying) if size else 0.0
    assert found.unexplained == pytest.approx(wanted, rel=1e-6)


def test_windows_that_blur_slow_motion_leave_no_more_open_than_there_is_friction(
    truth: SimulatedExperiment, found: Identification
) -> None:
    """Long windows tell no columns of friction's dictionary apart; it is still of a known size."""
    robot = Robot.from_urdf_text(truth.prior)
    blurred = identify(
        robot, [truth.recording], (), replace(KNOWN, rows="weak", windows=Weak(length=0.8))
    )
    assert blurred.predicted_error.total < 4.0 * found.predicted_error.total


def test_a_prior_tells_what_the_inverse_of_the_sum_of_both_informations_tells() -> None:
    random = np.random.default_rng(4)
    root = random.standard_normal((7, 7))
    covariance, columns, std = root @ root.T, np.array([5, 1, 4]), np.array([0.3, 2.0, 1e3])
    information = np.linalg.inv(covariance)
    information[columns, columns] += std**-2.0
    right = np.linalg.inv(information)
    assert with_prior(covariance, columns, std) == pytest.approx(right, rel=1e-9)
    assert with_prior(covariance, columns[:0], std[:0]) is covariance
    # Two columns that nothing tells apart: their difference is known by the prior alone.
    apart = 1e12 * np.array([[1.0, -1.0], [-1.0, 1.0]]) + np.eye(2)
    known = with_prior(apart, np.arange(2), np.ones(2))
    assert known == pytest.approx(np.array([[0.75, -0.25], [-0.25, 0.75]]), rel=1e-3)
