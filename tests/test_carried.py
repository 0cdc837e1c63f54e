"""A load weighed through the joints: the difference of runs, and gains from a known mass."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.applications.payload import by_torques, payload, report
from heft.applications.payload.by_torques import Carried, WeighCarried, existence, from_bodies
from heft.applications.payload.from_files import of_joints
from heft.errors import InvalidSetting
from heft.fit import Limit, Limits
from heft.fit.settings import Settings
from heft.information import inertia
from heft.models.export import write_urdf
from heft.models.options import GainsOptions, JointOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.payload_on_robot import last_frame, load_columns
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from tests.experiments import ARMS, Truth, log, true_robot, wrong_prior
from tests.robots import FloatArray

LOAD = inertia.from_body(2.5, np.array([0.03, -0.02, 0.08]), np.diag([8e-3, 9e-3, 5e-3]))
GAINS = (12.0, 11.0, 9.0, 8.0, 8.5, 9.5)  # N·m/A
SETTINGS = Settings(Smoothing(delay=0.0), threads=1)


def carrying(truth: Truth, frame: str, load: FloatArray) -> Truth:
    """Return the same robot with a load fixed to a link."""
    body = next(k for k in truth.robot.bodies_links if k.name == frame)
    heavier = {k.name: k.nominal for k in truth.robot.bodies_links} | {frame: body.nominal + load}
    urdf = write_urdf(truth.robot.source, heavier, {})
    return Truth(Robot.from_urdf_text(urdf, truth.robot.options), truth.drives)


@cache
def experiment(seed: int) -> tuple[Robot, str, Recording, Recording]:
    """Return a wrong model file, the frame, and logs without and with LOAD."""
    rng = np.random.default_rng(seed)
    truth = true_robot(ARMS["six joints"], rng, "simple")
    frame = truth.robot.bodies_links[-1].name
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)
    empty = log(truth, 8.0, 125.0, rng, noise=0.01)
    loaded = log(carrying(truth, frame, LOAD), 8.0, 125.0, rng, noise=0.01)
    return guess, frame, empty, loaded


def in_currents(recording: Recording, robot: Robot) -> Recording:
    """Return the same log with motor currents in place of torques."""
    names = [f"q.{j}" for j in robot.joints] + [f"tau.{j}" for j in robot.joints]
    block = next(iter(recording.blocks(names)))
    count = len(robot.joints)
    return Recording.from_arrays(
        block.time,
        recording.name,
        q={j: block.values[:, k] for k, j in enumerate(robot.joints)},
        current={j: block.values[:, count + k] / GAINS[k] for k, j in enumerate(robot.joints)},
    )


def with_gains(robot: Robot, gains: tuple[float, ...]) -> Robot:
    """Return the robot with torque as a current times a gain, and simple friction."""
    joints = {
        j: JointOptions(friction="simple", gain=g) for j, g in zip(robot.joints, gains, strict=True)
    }
    return Robot.from_urdf_text(robot.source, Options(joint=joints))


@cache
def weighed(seed: int) -> Carried:
    """Return the load of an experiment, whose logs the doctor is not asked about."""
    robot, frame, empty, loaded = experiment(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_torques, "faults", lambda *_: ())
        return WeighCarried(frame, settings=SETTINGS).fit(robot, [empty], [loaded])


def test_the_load_is_found_whatever_the_model_file_says() -> None:
    errors = []
    for seed in range(4):
        found = weighed(seed)
        assert found.mass == pytest.approx(LOAD[0], rel=0.02)
        assert inertia.consistency_margin(found.ten) > 0.0
        errors.append((found.ten - LOAD)[:4] / np.sqrt(np.diag(found.covariance)[:4]))
    # 16 numbers in their own deviations; the largest of 16 normals is below 3.5.
    assert np.abs(errors).max() <= 3.5


def test_the_page_says_what_the_load_explains_of_the_torque() -> None:
    found = weighed(0)
    page = html.unescape(report.html(of_joints(found)))
    before, after = (
        float(x)
        for x in re.findall(r"misses ([0-9.e+]+) % of the torque, with this one ([0-9.]+) %", page)[
            0
        ]
    )
    # Oracle: torque of the load alone, on the motion of the log, by the model with its masses.
    robot, frame, _, loaded = experiment(0)
    plant = RobotPlant(robot)
    problem = Problem(plant, (loaded,), found.loaded.problem.smoothing)
    size = power = 0.0
    for s in problem.samples():
        bodies = np.zeros(10 * len(robot.bodies_links))
        at = [k.name for k in robot.bodies_links].index(frame)
        bodies[10 * at : 10 * at + 10] = LOAD
        size += float(np.sum(plant.rigid(s.motion, bodies) ** 2))
        power += float(np.sum(s.measured**2))
    assert before == pytest.approx(100.0 * np.sqrt(size / power), rel=0.1)
    assert after < 1.0


def otherwise(recording: Recording, change: Callable[[FloatArray], FloatArray]) -> Recording:
    """Return the same log with its torques, shape (N, joints), changed."""
    joints = sorted(n.partition(".")[2] for n in recording.sources if n.startswith("q."))
    block = next(iter(recording.blocks([f"{k}.{j}" for k in ("q", "tau") for j in joints])))
    q, tau = np.hsplit(block.values, 2)
    tau = change(tau.copy())
    moved, felt = ({j: x[:, k] for k, j in enumerate(joints)} for x in (q, tau))
    return Recording.from_arrays(block.time, recording.name, q=moved, tau=felt)


def with_zeros(tau: FloatArray) -> FloatArray:
    tau[1::2] = 0.0
    return tau


PAIRS = {
    "the load as it is": (0, 1, None, set()),
    "exchanged runs": (1, 0, None, {"no body"}),
    "effort in per mille": (0, 1, lambda tau: 8.0 * tau, {"unit of torque, without the load"}),
    "currents for torques": (
        0,
        1,
        lambda tau: tau / np.array(GAINS),
        {"unit of torque, without the load"},
    ),
    "a second publisher's zeros": (
        *(0, 1, with_zeros),
        {"rows without torque, without the load", "rows without torque, with the load"},
    ),
    "no load": (0, 0, None, {"mass"}),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_nothing_is_to_be_pasted_of_what_is_no_load_on_this_robot(pair: str) -> None:
    robot, frame, *logs = experiment(2)
    first, second, change, names = PAIRS[pair]
    runs = [otherwise(logs[k], change) if change else logs[k] for k in (first, second)]
    found = of_joints(WeighCarried(frame, settings=SETTINGS).fit(robot, runs[:1], runs[1:]))
    failed = {check.name for check in found.checks if check.status == "fail"}
    assert failed >= names and bool(failed) == bool(names)
    assert (found.verdict == "poor") == bool(names)
    told = payload.text(found)
    assert ("setLoad" in told) == (not names)
    exchanged = "the runs seem exchanged" in told and "the other way round it has 2." in told
    assert exchanged == (pair == "exchanged runs")
    assert ("no load, or one too light" in told) == (pair == "no load")


@pytest.mark.usefixtures("without_doctor")
def test_friction_that_fell_before_the_load_came_weighs_nothing() -> None:
    rng = np.random.default_rng(11)
    truth = true_robot(ARMS["six joints"], rng, "simple")
    frame = truth.robot.bodies_links[-1].name
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)
    warm = {k: v * (0.62 if "viscous" in k else 1.0) for k, v in truth.drives.items()}
    held = carrying(truth, frame, LOAD)
    empty, loaded, later = (
        log(t, 8.0, 125.0, rng, noise=0.01) for t in (truth, replace(held, drives=warm), held)
    )
    for run, changed in ((loaded, True), (later, False)):
        found = WeighCarried(frame, settings=SETTINGS).fit(guess, [empty], [run])
        off = (found.ten - LOAD)[:4] / np.sqrt(np.diag(found.covariance)[:4])
        assert np.abs(off).max() < 3.5
        told = [c for c in found.checks if c.name == "friction of all runs"]
        assert [c.status for c in told] == ["warn"] * changed
        assert all("viscous" in c.message and "warm" in c.message for c in told)


def test_the_log_with_the_load_is_asked_of_a_robot_that_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A heavy load is nothing that is wrong with the log."""
    asked: list[Robot] = []
    monkeypatch.setattr(by_torques, "faults", lambda _, robot, *__: (asked.append(robot), ())[1])
    robot, frame, empty, loaded = experiment(1)
    found = WeighCarried(frame, settings=SETTINGS).fit(robot, [empty], [loaded])
    before, after = ({k.name: k.nominal for k in one.links} for one in asked)
    assert [name for name in before if np.any(before[name] != after[name])] == [frame]
    np.testing.assert_array_equal(after[frame], before[frame] + found.ten)


def test_a_payload_is_no_better_than_the_fits_that_it_is_made_of() -> None:
    robot, frame, empty, loaded = experiment(0)
    strict = replace(SETTINGS, limits=Limits(residual_size=Limit(0.0, 0.0)))
    weighed = WeighCarried(frame, settings=strict).fit(robot, [empty], [loaded])
    for which in ("without", "with"):
        (check,) = (c for c in weighed.checks if c.name == f"residual size, {which} the load")
        assert check.status == "fail"
    assert of_joints(weighed).verdict == "poor"
    alone = identify(robot, [empty], settings=SETTINGS).checks
    assert [c.name for c in alone] == [
        c.name.removesuffix(", without the load")
        for c in weighed.checks
        if c.name.endswith(", without the load")
    ]


@pytest.mark.parametrize(("deviations", "status"), [(-3.0, "pass"), (-8.0, "fail"), (8.0, "pass")])
def test_a_mass_that_is_surely_negative_is_no_load(deviations: float, status: str) -> None:
    """Whatever else is all but unknown, so that little of it is no body's."""
    covariance = np.diag([1e-4, *[1e4] * 9])
    ten = np.array([0.01 * deviations, *[1.0] * 3, 50.0, 0.0, 50.0, 0.0, 0.0, 50.0])
    check = existence(ten, covariance)
    assert check.status == status and ("exchanged" in check.message) == (status == "fail")


def test_a_load_is_no_better_known_than_blocks_of_the_logs_show() -> None:
    found = weighed(0)
    problem = found.empty.problem
    lifted = load_columns(problem.plant.robot, problem.base, found.frame)
    first = 10 * len(problem.space.groups)
    ten, none = slice(first, first + 10), np.empty((len(lifted), 0))
    covariance = found.calibrated.consistent.parameters.covariance
    assert covariance is not None
    stated = covariance[ten, ten]
    wider = np.sqrt(np.diag(found.covariance) / np.diag(stated))
    assert wider.min() >= 1.0 and wider.max() > 1.05
    np.testing.assert_allclose(found.covariance, wider[:, None] * stated * wider)
    runs = [replace(run, moments=()) for run in (found.empty, found.loaded)]
    alone = by_torques._widened(stated, runs[0], runs[1], lifted, none)
    assert np.all(np.diag(alone) <= np.diag(found.covariance))
    assert np.diag(alone)[0] < found.covariance[0, 0]  # the mass's


def test_parameters_are_as_far_from_bodies_as_negative_moments_are_large() -> None:
    rng = np.random.default_rng(4)
    units = np.stack([inertia.pseudo_inertia(ten).ravel() for ten in np.eye(10)], axis=1)
    for _ in range(20):
        # In this metric the distance of pseudo-inertias is that of matrices.
        ten = 0.1 * rng.normal(size=10)
        moments = np.linalg.eigvalsh(inertia.pseudo_inertia(ten))
        far, whole = from_bodies(ten, np.linalg.inv(units.T @ units))
        assert far == pytest.approx(np.linalg.norm(np.minimum(moments, 0.0)), rel=1e-5, abs=1e-6)
        assert whole == pytest.approx(np.linalg.norm(moments))


def test_what_a_covariance_calls_certain_by_rounding_tells_of_no_body() -> None:
    covariance = 0.01 * np.eye(10)
    covariance[9] = covariance[:, 9] = covariance[8]  # two entries are one
    far, whole = from_bodies(-LOAD, covariance)
    assert 0.0 < far <= 1.001 * whole < 10.1 * np.linalg.norm(LOAD)
    assert from_bodies(LOAD, covariance)[0] < 1e-3 * whole


def test_load_columns_are_what_the_load_adds_to_base_parameters() -> None:
    robot, frame, empty, _ = experiment(0)
    problem = Problem(RobotPlant(robot), (empty,), SETTINGS.smoothing)
    heavier = carrying(Truth(robot, {}), frame, LOAD).robot
    base = problem.base.matrix
    added = base @ (heavier.nominal() - robot.nominal())
    columns = load_columns(robot, problem.base, frame)
    np.testing.assert_allclose(columns @ LOAD, added, rtol=0, atol=1e-9)


@pytest.mark.usefixtures("without_doctor")
def test_a_known_mass_gives_the_gains_and_they_weigh_it() -> None:
    robot, frame, empty, loaded = experiment(1)
    rough = with_gains(robot, (10.0,) * 6)
    logs = [in_currents(r, robot) for r in (empty, loaded)]
    weigh = WeighCarried(frame, settings=SETTINGS)
    found = replace(weigh, known_mass=float(LOAD[0])).fit(rough, logs[:1], logs[1:])
    gains = np.array(list(found.gains.values()))
    std = np.sqrt(np.diag(found.gains_covariance))
    assert (np.abs(gains - GAINS) <= 4.0 * std).all() and (std <= 0.05 * gains).all()
    again = weigh.fit(with_gains(robot, tuple(gains)), logs[:1], logs[1:])
    assert again.mass == pytest.approx(LOAD[0], rel=0.02)
    assert not again.notes


@pytest.mark.usefixtures("without_doctor")
def test_the_mass_is_no_better_known_than_what_all_gains_share() -> None:
    """A mass is torque over gravity: what is common to all gains is in it once for once."""
    robot, frame, empty, loaded = experiment(1)
    logs = [in_currents(r, robot) for r in (empty, loaded)]
    weigh = WeighCarried(frame, settings=SETTINGS)
    exact = with_gains(robot, GAINS)
    joint = {
        j: replace(exact.options.of(j), gain_std=0.02 * g)
        for j, g in zip(robot.joints, GAINS, strict=True)
    }

    def weighed_with(correlation: float, day: float) -> Carried:
        matrix = correlation * np.ones((6, 6)) + (1.0 - correlation) * np.eye(6)
        gains = GainsOptions(robot.joints, tuple(map(tuple, matrix.tolist())), day)
        unsure = Robot.from_urdf_text(robot.source, Options(joint=joint, gains=gains))
        return weigh.fit(unsure, logs[:1], logs[1:])

    own = weighed(1).mass_std / LOAD[0]  # of the same torques, as if gains were exact
    apart, together, later = (
        weighed_with(0.0, 0.0),
        weighed_with(0.9999, 0.0),
        weighed_with(0.9999, 0.015),
    )
    assert apart.mass_std < 0.8 * together.mass_std
    for found, common in ((together, 0.02), (later, 0.025)):
        assert found.mass_std / found.mass == pytest.approx(np.hypot(common, own), rel=0.05)
    assert not together.notes and "1 ± 0.015" in later.notes[0]


def test_the_last_frame_is_the_default_and_others_are_refused() -> None:
    robot, _, empty, _ = experiment(0)
    base = Problem(RobotPlant(robot), (empty,), SETTINGS.smoothing).base
    assert any(k.name == last_frame(robot) for k in robot.links)
    for wrong, words in (("nowhere", "no link 'nowhere'"), ("base_link", "nothing can be carried")):
        with pytest.raises(InvalidSetting, match=words):
            load_columns(robot, base, wrong)
