"""A robot whose base floats: contacts, their elimination, and which equations are used."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from heft.applications.identification import Identified
from heft.cli import main
from heft.dynamics import contact_map, contact_place
from heft.errors import InvalidSetting, MissingSignal
from heft.estimators import LeastSquares, VarianceComponents
from heft.information import Information
from heft.models import ContactOptions, JointOptions, Options, Robot
from heft.plants import Elimination, FloatingRobotPlant, Problem, Samples, plant_of, structural_base
from heft.recordings import Recording
from heft.signals import Smoothing
from heft.signals.filters import Smoothed
from tests import robots
from tests.plants import case, product

Array = np.ndarray[Any, np.dtype[np.float64]]
TIME = 0.005 * np.arange(1600)
HUMANOID = "simple_humanoid_description/urdf/simple_humanoid.urdf"


def humanoid(**said: Any) -> Robot:
    """Return a humanoid of 29 joints without friction and rotor inertia, its base free."""
    whole = robots.load(HUMANOID, "free")
    none = JointOptions(friction="none", armature=False)
    return Robot.from_urdf_text(
        whole.source, Options(base="free", joint=dict.fromkeys(whole.joints, none), **said)
    )


def states(oracle: robots.Oracle, count: int, seed: int) -> tuple[Array, Array, Array, Smoothed]:
    """Return random q, v and v̇ of pinocchio's, and what a perfect smoother makes of the signals."""
    model, rng = oracle.model, np.random.default_rng(seed)
    q = np.array(
        [
            pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq))
            for _ in range(count)
        ]
    )
    v, a = rng.normal(size=(2, count, model.nv))
    quat = q[:, [6, 3, 4, 5]]
    R = np.array([pin.Quaternion(*x).toRotationMatrix() for x in quat])
    speed = np.einsum("nij,nj->ni", R, v[:, :3])
    pull = np.einsum("nij,nj->ni", R, a[:, :3] + np.cross(v[:, 3:6], v[:, :3]))
    rate = 0.5 * product(quat, v[:, 3:6])
    change = 0.5 * (product(rate, v[:, 3:6]) + product(quat, a[:, 3:6]))
    return (
        q,
        v,
        a,
        Smoothed(
            np.hstack([q[:, :3], quat, q[:, 7:]]),
            np.hstack([speed, rate, v[:, 6:]]),
            np.hstack([pull, change, a[:, 6:]]),
        ),
    )


def samples_of(plant: FloatingRobotPlant, smoothed: Smoothed) -> Samples[Any]:
    count = len(smoothed.position)
    return Samples.of_motion(plant.motion(smoothed), count, len(plant.channels))


# ---- rows and Jacobians, by pinocchio


def test_rows_are_pinocchios_regressor_of_a_free_flyer() -> None:
    plant = FloatingRobotPlant(humanoid())
    oracle = robots.Oracle.of(plant.robot)
    q, v, a, exact = states(oracle, 5, 0)
    rows = plant.rows(samples_of(plant, exact), range(len(plant.labels))).regressor
    data = oracle.model.createData()
    for n in range(len(q)):
        wanted = pin.computeJointTorqueRegressor(oracle.model, data, q[n], v[n], a[n])
        assert np.abs(rows[n] - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_all_that_a_floating_tree_can_show_is_a_base_parameter() -> None:
    """Ten of the base, seven at most a joint, which is revolute: less where axes are alike."""
    plant = FloatingRobotPlant(robots.walker())
    assert len(structural_base(plant).kept) == 10 + 7 + 7


@pytest.mark.parametrize("link", ["LWristRoll", "RFoot", "trunk"])
def test_a_contacts_map_is_the_transpose_of_pinocchios_jacobian(link: str) -> None:
    robot = humanoid()
    names = [k.name for k in robot.links if k.body >= 0]
    link = link if link in names else names[len(link) % len(names)]
    oracle, point = robots.Oracle.of(robot), np.array([0.1, -0.2, 0.3])
    q, _, _, _ = states(oracle, 4, 1)
    position = np.hstack([np.zeros((4, 6)), q[:, 7:]])
    found = contact_map(robot.tree, robot.link(link), point, position)
    place = contact_place(robot.tree, robot.link(link), point, position)
    data, frame = oracle.model.createData(), oracle.model.getFrameId(link)
    for n in range(4):
        J = pin.computeFrameJacobian(oracle.model, data, q[n], frame, pin.LOCAL)
        pin.framesForwardKinematics(oracle.model, data, q[n])
        cross = pin.skew(point)
        wanted = np.vstack([J[:3] - cross @ J[3:], J[3:]])
        assert np.abs(found[n].T - wanted).max() <= 1e-12
        where = data.oMi[1].actInv(data.oMf[frame].act(point))
        assert np.abs(place[n] - where).max() <= 1e-12


# ---- elimination


def mixed(count: int = 20, seed: int = 3) -> tuple[Array, Array]:
    """Return random N, of rank 4 with 5 columns, and σ."""
    rng = np.random.default_rng(seed)
    N = rng.normal(size=(count, 9, 4)) @ rng.normal(size=(count, 4, 5))
    N[: count // 2, :, :] *= 0.0
    return N, np.exp(rng.normal(size=9))


def test_elimination_takes_out_what_acts_and_its_basis_does_not_matter() -> None:
    N, noise = mixed()
    rng = np.random.default_rng(4)
    one = Elimination.of(N, noise)
    two = Elimination.of(N @ rng.normal(size=(5, 5)), noise)
    values, push = rng.normal(size=(20, 9, 3)), rng.normal(size=(20, 5, 3))
    whole = one(values)
    assert np.abs(one(values + N @ push) - whole).max() <= 1e-12 * np.abs(N @ push).max()
    assert np.abs(two(values) - whole).max() <= 1e-11
    assert np.abs(one(values[:, :, 0]) - whole[:, :, 0]).max() <= 1e-13 * 20.0
    assert np.abs(one(whole) - whole).max() <= 1e-13 * 20.0


def test_redundancy_and_rank_of_what_acts_are_the_equations() -> None:
    N, noise = mixed()
    found = Elimination.of(N, noise).redundancy.sum(axis=1)
    assert np.allclose(found[:10], 9.0) and np.allclose(found[10:], 5.0)


def test_weighted_rows_are_those_of_the_null_space() -> None:
    N, noise = mixed()
    rng = np.random.default_rng(5)
    Y = rng.normal(size=(20, 9, 3))
    left = Elimination.of(N, noise)(Y) / noise[:, None]
    for n in range(20):
        white = N[n] / noise[:, None]
        null = np.linalg.svd(white)[0][:, np.linalg.matrix_rank(white) :]
        rows = null.T @ (Y[n] / noise[:, None])
        assert (
            np.abs(left[n].T @ left[n] - rows.T @ rows).max() <= 1e-12 * np.abs(rows.T @ rows).max()
        )


def test_variance_components_find_the_noise_that_was_put_in() -> None:
    """An unknown force pushes at two channels of three, which nobody tells apart otherwise."""
    rng = np.random.default_rng(6)
    c = case("floating robot, a contact unknown")
    log = c.recording(TIME)
    sizes = {"hip": 0.5, "knee": 0.05, "hook.force": 2.0, "hook.torque": 0.2}
    signals, _ = c.experiment(TIME)
    for kind in ("tau", "force", "torque"):
        for name, values in signals[kind].items():
            size = sizes.get(name) or sizes.get(f"hook.{kind}", 0.0)
            signals[kind][name] = values + size * rng.normal(size=len(TIME))
    log = Recording.from_arrays(TIME, "noisy", **signals)
    problem = VarianceComponents(rounds=3).settled(
        Problem(c.plant, (log,), Smoothing(corner=15.0, delay=0.0))
    )
    found = problem.known_noise
    for name in ("hip", "knee"):
        assert found[name] == pytest.approx(sizes[name], rel=0.15)
    # The hook holds the base itself: what of it is the base's and what the sensor's, nothing tells.
    assert np.hypot(found["hook.force.x"], found["base.force.x"]) == pytest.approx(2.0, rel=0.1)
    assert np.hypot(found["hook.torque.y"], found["base.torque.y"]) == pytest.approx(0.2, rel=0.1)


def test_noise_is_known_where_something_unknown_is_eliminated_by_it() -> None:
    c = case("floating robot, a contact unknown")
    problem = Problem(c.plant, (c.recording(TIME),), Smoothing(corner=15.0, delay=0.0))
    assert problem.known_noise == dict.fromkeys(problem.channels, 1.0)
    sizes = np.arange(1.0, len(problem.channels) + 1.0)
    noise = dict(zip(problem.channels, sizes, strict=True))
    assert problem.with_noise(sizes).known_noise == noise
    measured = case("cart")
    problem = Problem(measured.plant, (measured.recording(TIME),), Smoothing(corner=15.0))
    assert problem.known_noise == {}


# ---- contacts measured and unknown


def exact_rows(name: str) -> tuple[Array, Array, FloatingRobotPlant]:
    """Return rows on base parameters and what was measured, of a case's exact motion."""
    c = case(name)
    signals, exact = c.experiment(TIME[::10])
    plant, log = c.plant, Recording.from_arrays(TIME[::10], **signals)
    assert isinstance(plant, FloatingRobotPlant)
    measured = np.zeros((len(exact.position), len(plant.channels)))
    for m in plant.inputs(log).measured:
        for signal, factor in m.terms:
            kind, _, rest = signal.partition(".")
            measured[:, m.channel] += factor * signals[kind][rest]
    samples = samples_of(plant, exact)
    out = Elimination.of(plant.acting(samples), np.ones(measured.shape[1]))
    rows = plant.rows(samples, structural_base(plant).kept).regressor
    return out(rows), out(measured), plant


def test_the_null_space_finds_what_measured_wrenches_do() -> None:
    """On exact accelerations and at equal weights."""
    found = []
    for name in ("floating robot by its pose", "floating robot, a contact unknown"):
        Y, tau, plant = exact_rows(name)
        found.append(np.linalg.lstsq(Y.reshape(-1, Y.shape[2]), tau.ravel())[0])
        wanted = structural_base(plant).matrix @ case(name).truth
        assert np.abs(found[-1] - wanted).max() <= 1e-9 * np.abs(wanted).max()
    assert np.abs(found[0] - found[1]).max() <= 1e-9 * np.abs(found[0]).max()


def test_a_measured_wrench_taken_for_unknown_changes_nothing_of_the_null_space() -> None:
    """`P (τ + Jᵀ w) = P τ`, whatever w."""
    Y, tau, plant = exact_rows("floating robot, a contact unknown")
    del Y
    samples = plant.random_samples(30, np.random.default_rng(7))
    closed = np.ones_like(samples.motion.closed)
    samples = replace(samples, motion=replace(samples.motion, closed=closed))
    N = plant.acting(samples)
    push = np.random.default_rng(8).normal(size=(30, plant.unknowns, 1))
    out = Elimination.of(N, np.ones(N.shape[1]))
    torque = np.random.default_rng(9).normal(size=(30, N.shape[1], 1))
    assert np.abs(out(torque + N @ push) - out(torque)).max() <= 1e-12 * 30.0
    assert np.isfinite(tau).all()


@pytest.mark.parametrize("way", ["base", "joints"])
def test_base_or_joints_alone_are_rows_of_the_whole(way: str) -> None:
    """Noise-free, each finds what it can see of the truth."""
    Y, tau, plant = exact_rows(f"floating robot, {way} alone")
    truth = structural_base(plant).matrix @ case(f"floating robot, {way} alone").truth
    size = np.abs(tau).max()
    assert np.abs(tau - Y @ truth).max() <= 1e-11 * size
    names = {c.name.partition(".")[0] for c in plant.channels} - {"hook", "ground"}
    assert names == ({"base"} if way == "base" else {"hip", "knee"})


def test_the_base_alone_needs_no_torques_and_the_joints_alone_no_wrench_of_the_hook() -> None:
    c = case("floating robot, base alone")
    signals, _ = c.experiment(TIME)
    signals.pop("tau")
    log = Recording.from_arrays(TIME, "no torque", **signals)
    problem = Problem(c.plant, (log,), Smoothing(corner=15.0, delay=0.0))
    found = LeastSquares(coloured=False).fit(problem).parameters
    wanted = problem.base.matrix @ c.truth
    assert np.abs(found.values - wanted).max() <= 1e-2 * np.abs(wanted).max()
    with pytest.raises(MissingSignal, match=r"tau\.hip"):
        case("floating robot by its pose").plant.inputs(log)


# ---- contacts that are detected


def standing(**said: Any) -> Any:
    """Return which contacts are taken for closed, at rest, of a link and of one below it."""
    contact = {
        name: ContactOptions(link, "point", (0.0, 0.0, -0.02), closed="detected", **said)
        for name, link in (("one", "thigh"), ("two", "foot"))
    }
    plant = FloatingRobotPlant(robots.walker(contact=contact))
    still = np.zeros((3, 9))
    still[:, 3] = 1.0
    zero = np.zeros_like(still)
    return plant.motion(Smoothed(still, zero, zero)).closed


def test_a_contact_rests_where_the_lowest_does() -> None:
    assert np.array_equal(standing()[:, 0], [False, True])
    assert standing(height=0.5).all()


def test_what_moves_is_no_contact() -> None:
    contact = {"foot": ContactOptions("foot", "point", closed="detected", speed=0.05)}
    plant = FloatingRobotPlant(robots.walker(contact=contact))
    position, velocity = np.zeros((2, 9)), np.zeros((2, 9))
    position[:, 3] = 1.0
    velocity[1, 0] = 0.2
    closed = plant.motion(Smoothed(position, velocity, np.zeros((2, 9)))).closed
    assert np.array_equal(closed[0], [True, False])


def test_an_inertial_sensor_detects_no_contact() -> None:
    contact = {"foot": ContactOptions("foot", "point", closed="detected")}
    plant = FloatingRobotPlant(robots.walker(contact=contact), motion_from="imu")
    zero = np.zeros((2, 8))
    with pytest.raises(InvalidSetting, match="detected by their height"):
        plant.motion(Smoothed(zero, zero, zero))


# ---- what a user says


def test_options_are_read_and_written() -> None:
    table = {
        "base": "free",
        "equations": "joints",
        "contact": {"left": {"link": "foot", "kind": "point", "point": [0, 0, -0.1]}},
    }
    options = Options.from_dict(table)
    assert options.contact is not None
    assert options.contact["left"] == ContactOptions("foot", "point", (0.0, 0.0, -0.1))
    assert Options.from_dict(options.to_dict()) == options


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"base": "free", "contact": {"a": {}}}, "contact is one of a link"),
        ({"base": "free", "contact": {"a": {"link": "foot", "kind": "edge"}}}, "neither a surface"),
        ({"base": "free", "contact": {"a": {"link": "foot", "wrench": "no"}}}, "neither unknown"),
        ({"base": "free", "contact": {"a": {"link": "foot", "closed": "no"}}}, "when a contact"),
        ({"base": "free", "contact": {"a": {"link": "foot", "speed": 0}}}, "positive"),
        ({"base": "free", "equations": "legs"}, "choice of equations"),
        ({"contact": {"a": {"link": "foot"}}}, "of a floating base"),
        ({"equations": "base"}, "of a floating base"),
    ],
)
def test_what_is_wrong_with_a_contact_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        Options.from_dict(table)


def test_a_contact_of_no_link_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidSetting, match="foot"):
        robots.walker(contact={"a": ContactOptions("foott")})


def test_an_inertial_sensor_is_taken_where_no_attitude_is_logged() -> None:
    ways = {"floating robot by its pose": "pose", "floating robot by an inertial sensor": "imu"}
    for name, way in ways.items():
        c = case(name)
        signals, _ = c.experiment(TIME)
        made = plant_of(c.plant.robot, Recording.from_arrays(TIME, **signals))
        assert isinstance(made, FloatingRobotPlant) and made.motion_from == way


OPTIONS = """
base = "free"
joint.hip = {friction = "none", armature = false}
joint.knee = {friction = "none", armature = false}
[contact.hook]
link = "trunk"
wrench = "measured"
[contact.ground]
link = "foot"
kind = "point"
point = [0.05, 0.02, -0.2]
closed = "logged"
"""


def test_a_floating_robot_is_identified_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a log of one day tells is given to the next."""
    c = case("floating robot, a contact unknown")
    (tmp_path / "walker.urdf").write_bytes(robots.WALKER)
    (tmp_path / "with.toml").write_text(OPTIONS)
    for k, name in enumerate(("monday", "tuesday")):
        signals, _ = c.experiment(TIME + 30.0 * k)
        rng = np.random.default_rng(k)
        columns = {"t": TIME}
        for kind, values in signals.items():
            size = {"tau": 0.05, "force": 0.2, "torque": 0.05}.get(kind, 0.0)
            for signal, x in values.items():
                columns[f"{kind}.{signal}"] = x + size * rng.normal(size=len(TIME))
        np.savez(tmp_path / f"{name}.npz", **columns)
    monkeypatch.chdir(tmp_path)
    plain = "identify walker.urdf {}.npz --with with.toml --quiet --corner 15 --delay 0 --out {}"
    for asked in (plain.format("monday", "one"), plain.format("tuesday", "two") + " --given one"):
        monkeypatch.setattr(sys, "argv", ["heft", *asked.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    robot = Robot.from_urdf(tmp_path / "two" / "robot.urdf", Options(base="free"))
    mass = sum(k.written[0] for k in robot.links)
    assert mass == pytest.approx(8.0, rel=2e-3)
    one, two = (Information.load(tmp_path / d / "information.npz").rows for d in ("one", "two"))
    assert two > 1.9 * one
    said = Identified.load(tmp_path / "two").robot.options
    assert said == Robot.from_urdf_text(robots.WALKER, Options.from_toml(Path("with.toml"))).options
