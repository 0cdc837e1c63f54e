"""Simple friction of what slides: recovery, units, coupled motors, what does not count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heft.dynamics import LINEAR_SCALE
from heft.estimators import ConsistentEstimate
from heft.fit.simple_friction import SimpleFriction, SlidingFit
from heft.information.parameters import Parameters
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from heft.plants import Problem, RobotPlant
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from tests import robots
from tests.robots import FloatArray, Oracle

DOWN = (0.0, -9.81, 0.0)
COUPLED = Options(gravity=DOWN, coupling=Coupling((), ("m1", "m2"), ((1.0, -0.5), (0.3, 1.0))))
TIME = np.arange(0.0, 20.0, 0.005)
TRUTH = {"viscous": 1.7, "coulomb": 0.9, "offset": -0.4}
Law = Callable[[FloatArray], FloatArray]
LAWS: dict[str, Law] = {"hard": np.sign, "smooth": lambda v: np.tanh(v / 0.02)}  # [rad/s]
# What smoothing the motion leaves; and where it slides at .05 rad/s, the tanh is .987 yet.
OFF = {"hard": 1e-3, "smooth": 0.03}


def swung(joints: int, slow: float = 1.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return positions, velocities and accelerations, (N, joints); at a fraction of the speed."""
    rng = np.random.default_rng(1)
    f, phase = rng.uniform(0.3, 1.3, (2, 3, joints)) * np.array([1.0, 6.0])[:, None, None]
    size = slow * rng.uniform(0.1, 0.4, (3, joints))
    angle = f * TIME[:, None, None] + phase
    return (
        np.sum(size * np.sin(angle), axis=1),
        np.sum(size * f * np.cos(angle), axis=1),
        np.sum(-size * f**2 * np.sin(angle), axis=1),
    )


def rubbing(robot: Robot, v: FloatArray, law: Law) -> tuple[FloatArray, dict[str, float]]:
    """Return simple friction on the joints, (N, joints), and its true coefficients."""
    total, true = np.zeros_like(v), {}
    for d, drive in enumerate(robot.drives):
        w, size = v @ drive.ratio, 1.0 + 0.3 * d
        own = {t.kind: size * TRUTH[t.kind] for t in drive.simple_terms}
        effort = own["viscous"] * w + own["coulomb"] * law(w) + own.get("offset", 0.0)
        total += effort[:, None] * drive.ratio
        true |= {f"{drive.name}.{kind}": value for kind, value in own.items()}
    return total, true


def known(problem: Problem[RobotPlant], bodies: FloatArray | None = None) -> ConsistentEstimate:
    """Return an estimate that knows the bodies exactly: those given, or weightless ones."""
    labels = problem.space.labels
    values, size = np.zeros(len(labels)), len(labels)
    if bodies is not None:
        values[: len(bodies)] = bodies
    none = np.zeros((size, size))
    parameters = Parameters(labels, values, none)
    return ConsistentEstimate(parameters, none, values, values, (), 0, 0.0, 0.0)


def problem_of(
    robot: Robot, q: FloatArray, tau: FloatArray, time: FloatArray = TIME
) -> Problem[RobotPlant]:
    columns = {
        "q": {j: q[:, k] for k, j in enumerate(robot.joints)},
        "tau": {j: tau[:, k] for k, j in enumerate(robot.joints)},
    }
    log = Recording.from_arrays(time, "log", **columns)
    corner = 20.0 / (time[1] - time[0]) * (TIME[1] - TIME[0])
    return Problem(RobotPlant(robot), (log,), Smoothing(corner=corner, delay=0.0), 1)


def fitted(problem: Problem[RobotPlant], bodies: FloatArray | None = None) -> SimpleFriction:
    weights = dict.fromkeys(problem.channels, 1.0)
    return SlidingFit().fit(problem, known(problem, bodies), weights)


def weightless(
    robot: Robot, law: str = "hard", slow: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, float]]:
    """Return positions, velocities, torque of friction alone, and its true coefficients."""
    q, v, _ = swung(len(robot.joints), slow)
    return (q, v, *rubbing(robot, v, LAWS[law]))


@pytest.mark.parametrize("friction", ["full", "simple"])
@pytest.mark.parametrize("law", LAWS)
def test_friction_that_is_simple_is_recovered(law: str, friction: Any) -> None:
    robot = robots.planar_arm(drives=True, friction=friction)
    q, v, a = swung(2)
    rub, true = rubbing(robot, v, LAWS[law])
    tau = Oracle.of(robot).inverse_dynamics(q, v, a) + rub
    bodies = np.concatenate([k.nominal for k in robot.bodies_links])
    found = fitted(problem_of(robot, q, tau), bodies)
    assert found.values.keys() == found.std.keys() == true.keys()
    for name, value in true.items():
        assert found.values[name] == pytest.approx(value, rel=OFF[law]), name
        assert abs(found.values[name] - value) <= 3.0 * found.std[name] + 1e-3 * abs(value), name


@pytest.mark.parametrize("law", LAWS)
def test_motors_coupled_to_several_joints_are_fitted_together(law: str) -> None:
    robot = Robot.from_urdf_text(robots.PLANAR_ARM, COUPLED)
    q, _, tau, true = weightless(robot, law)
    assert {n.split(".")[0] for n in true} == {*robot.joints, "m1", "m2"}
    found = fitted(problem_of(robot, q, tau))
    # Four coefficients of viscous friction make one symmetric matrix of two joints: three numbers.
    open_ = {n for n, std in found.std.items() if np.isinf(std)}
    assert open_ == {n for n in true if n.endswith(".viscous")}
    for name in true.keys() - open_:
        assert found.values[name] == pytest.approx(true[name], rel=OFF[law]), name
    damping = [np.zeros((2, 2)), np.zeros((2, 2))]
    for drive in robot.drives:
        for total, values in zip(damping, (true, found.values), strict=True):
            total += values[f"{drive.name}.viscous"] * np.outer(drive.ratio, drive.ratio)
    assert np.abs(damping[1] - damping[0]).max() <= OFF[law] * damping[0].max()


def test_every_row_is_looked_at_where_there_are_not_too_many() -> None:
    robot = robots.planar_arm(drives=True)
    q, _, tau, _ = weightless(robot)
    problem = problem_of(robot, q, tau)
    total = sum(len(s.time) for s in problem.samples())
    speeds, rows = SlidingFit(looked_at=10 * total)._speeds(problem, (0, 1))
    np.testing.assert_array_equal(rows, np.arange(total))
    assert {len(v) for v in speeds.values()} == {total}
    few = SlidingFit(looked_at=total // 5)._speeds(problem, (0, 1))[1]
    assert total / 7 < len(few) <= total / 5 + 1 and len(set(np.diff(few))) == 1


def test_rows_near_standstill_do_not_count() -> None:
    robot = robots.planar_arm(drives=True)
    q, v, tau, _ = weightless(robot)
    spoilt = tau + 1e3 * (np.abs(v) < 0.045)  # by smoothing a speed is off by less
    one, two = fitted(problem_of(robot, q, tau)), fitted(problem_of(robot, q, spoilt))
    assert one.values == pytest.approx(two.values, rel=1e-12)
    assert one.std == pytest.approx(two.std, rel=1e-12)


def test_a_slow_joint_is_fitted_above_the_slowest_third_of_its_motion() -> None:
    robot = robots.planar_arm(drives=True)
    q, v, tau, true = weightless(robot, slow=0.02)
    assert np.abs(v).max() < 0.05
    found = fitted(problem_of(robot, q, tau))
    assert found.values == pytest.approx(true, rel=0.01)


def test_torque_in_another_unit_scales_values_and_deviations() -> None:
    robot = robots.planar_arm(drives=True)
    q, _, tau, _ = weightless(robot, "smooth")
    one, two = fitted(problem_of(robot, q, tau)), fitted(problem_of(robot, q, 1e3 * tau))
    for a, b in ((one.values, two.values), (one.std, two.std)):
        assert {n: 1e3 * x for n, x in a.items()} == pytest.approx(b, rel=1e-6)


def test_time_in_another_unit_scales_viscous_friction_alone() -> None:
    """While it stays below the speed from which every drive slides."""
    robot = robots.planar_arm(drives=True)
    q, _, tau, _ = weightless(robot, slow=0.01)
    one = fitted(problem_of(robot, q, tau))
    two = fitted(problem_of(robot, q, tau, 4.0 * TIME))
    scaled = {n: x * (4.0 if n.endswith("viscous") else 1.0) for n, x in one.values.items()}
    assert two.values == pytest.approx(scaled, rel=1e-3)


def test_a_slide_has_a_tenth_of_a_hinges_speed() -> None:
    """The same motion, ten times smaller, of a slide."""
    hinges = robots.planar_arm(drives=True)
    slides = robots.planar_arm(
        drives=True, source=robots.PLANAR_ARM.replace(b"revolute", b"prismatic")
    )
    assert all(d.linear for d in slides.drives)
    q, _, tau, _ = weightless(hinges)
    one = fitted(problem_of(hinges, q, tau))
    two = fitted(problem_of(slides, LINEAR_SCALE * q, tau))
    scaled = {
        n: x / (LINEAR_SCALE if n.endswith("viscous") else 1.0) for n, x in one.values.items()
    }
    assert two.values == pytest.approx(scaled, rel=1e-6)


def test_what_is_not_measured_or_does_not_move_has_no_certainty() -> None:
    for options, still in (
        (JointOptions(measured=False), False),
        (JointOptions(), True),
    ):
        joint = {"elbow": options}
        robot = Robot.from_urdf_text(robots.PLANAR_ARM, Options(gravity=DOWN, joint=joint))
        q, _, tau, true = weightless(robot)
        if still:
            q = q * np.array([1.0, 0.0])
        found = fitted(problem_of(robot, q, tau))
        for name, value in true.items():
            if name.startswith("elbow"):
                assert found.values[name] == 0.0 and np.isinf(found.std[name])
            else:
                assert found.values[name] == pytest.approx(value, rel=0.01)


def test_what_the_prior_may_have_biased_in_the_bodies_is_carried() -> None:
    """A shoulder's moment about its axis that is uncertain, with and without gravity along it."""
    robot = robots.planar_arm(drives=True)
    q, _, tau, _ = weightless(robot)
    problem = problem_of(robot, q, tau)
    sure = known(problem)
    labels = sure.parameters.labels
    doubt = np.zeros((len(labels), len(labels)))
    doubt[1, 1] = 0.1**2  # [kg·m]
    unsure = replace(sure, parameters=Parameters(labels, sure.parameters.values, doubt))
    weights = dict.fromkeys(problem.channels, 1.0)
    one, two = (SlidingFit().fit(problem, e, weights) for e in (sure, unsure))
    name = "shoulder.offset"
    assert one.values == two.values
    assert one.std[name] < 0.01 < two.std[name] < 0.1 * 9.81
    assert two.std["elbow.offset"] == one.std["elbow.offset"]


def test_without_friction_there_is_none() -> None:
    robot = robots.planar_arm()
    q, _, _ = swung(2)
    found = fitted(problem_of(robot, q, q))
    assert not found.values and not found.std


def test_friction_that_is_no_line_is_stated_with_its_misfit() -> None:
    """The deviation is that of the line, of which conditions there happened to be more."""
    robot = robots.planar_arm(drives=True)
    q, v, _ = swung(2)
    tau = v + np.sign(v) * (1.0 + 0.5 * np.exp(-np.abs(v) / 0.1))  # falls with speed
    whole = fitted(problem_of(robot, q, tau))
    for part in (slice(0, 2000), slice(2000, None)):
        half = fitted(problem_of(robot, q[part], tau[part], TIME[part]))
        for name, value in half.values.items():
            assert abs(value - whole.values[name]) <= 2.0 * whole.std[name], name
    white = fitted(problem_of(robot, q, v + np.sign(v)))
    assert whole.std["elbow.coulomb"] > 10.0 * white.std["elbow.coulomb"]
