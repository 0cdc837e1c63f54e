"""Robots with wrench sensors inside: everything beyond a sensor is identified from it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from heft.applications.identification import Identified
from heft.cli import main
from heft.dynamics import kernels
from heft.errors import InvalidModel, InvalidSetting, MissingSignal
from heft.models import ContactOptions, JointOptions, Options, Robot, SensorOptions
from heft.plants import (
    ExcitableRobot,
    FloatingRobotPlant,
    RobotPlant,
    SensedRobotPlant,
    plant_of,
    structural_base,
)
from heft.recordings import Recording
from heft.signals.filters import Smoothed
from tests import robots
from tests.plants import case, cut_wrenches

Array = np.ndarray[Any, np.dtype[np.float64]]
TURN = ((0.36, 0.48, -0.8), (-0.8, 0.6, 0.0), (0.48, 0.64, 0.6))
PLACE = (0.02, -0.03, 0.05)
# Cuts at a fixed joint between two that move, at one that moves, and between the robot and floor.
SENSORS = {
    "middle": SensorOptions("beyond"),
    "wrist": SensorOptions("fore", position=PLACE, rotation=TURN),
    "plate": SensorOptions("foot"),
}


def states(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(3, count, 3))


def samples_of(plant: Any, q: Array, v: Array, a: Array) -> Any:
    made = plant.random_samples(len(q), np.random.default_rng(0))
    return replace(made, motion=plant.motion(Smoothed(q, v, a)))


def shifted(wrench: Array, rotation: Any, place: Any) -> Array:
    """Return wrenches in a frame that is turned and shifted in theirs."""
    R, p = np.array(rotation), np.array(place)
    force, moment = wrench[:, :3], wrench[:, 3:]
    return np.hstack([force @ R, (moment - np.cross(p, force)) @ R])


def test_rows_are_the_wrench_at_the_cut_by_pinocchio() -> None:
    plant = plant_of(robots.sensed_arm(sensor=SENSORS))
    assert isinstance(plant, SensedRobotPlant)
    q, v, a = states(7)
    samples = samples_of(plant, q, v, a)
    rows = plant.rows(samples, range(len(plant.labels))).regressor
    made = rows @ plant.robot.nominal()
    wanted = cut_wrenches(q, v, a)
    for first, each in ((3, wanted["bolts"]), (15, wanted["ground"])):
        assert np.abs(made[:, first : first + 6] - each).max() <= 1e-10
    assert np.abs(made[:, 9:15] - shifted(wanted["bend"], TURN, PLACE)).max() <= 1e-10
    assert np.abs(plant.predict(samples, plant.robot.nominal()) - made).max() <= 1e-10


def test_the_wrench_at_the_cut_is_mujocos() -> None:
    """Interaction forces of MuJoCo, which are about the centre of mass of the whole tree."""
    text = robots.SENSED_ARM.replace(
        b'<robot name="sensed">',
        b'<robot name="sensed"><mujoco><compiler fusestatic="false" balanceinertia="false"/>'
        b"</mujoco>",
    )
    model = mujoco.MjModel.from_xml_string(text.decode())
    data, plant = mujoco.MjData(model), plant_of(robots.sensed_arm(sensor=SENSORS))
    q, v, a = states(4, 1)
    rows = plant.rows(samples_of(plant, q, v, a), range(len(plant.labels))).regressor
    made = rows @ plant.robot.nominal()
    joints = [model.joint(n) for n in ("turn", "bend", "slide")]
    body = model.body("beyond").id
    for n in range(4):
        for joint, x, y, z in zip(joints, q[n], v[n], a[n], strict=True):
            data.qpos[joint.qposadr], data.qvel[joint.dofadr] = x, y
            data.qacc[joint.dofadr] = z
        mujoco.mj_inverse(model, data)
        mujoco.mj_rnePostConstraint(model, data)
        R = data.xmat[body].reshape(3, 3)
        moment, force = data.cfrc_int[body, :3], data.cfrc_int[body, 3:]
        about = moment + np.cross(
            data.subtree_com[model.body_rootid[body]] - data.xpos[body], force
        )
        wanted = np.concatenate([force @ R, about @ R])
        assert np.abs(made[n, 3:9] - wanted).max() <= 1e-10 * max(np.abs(wanted).max(), 1.0)


def test_what_is_before_a_sensor_is_not_seen_by_it() -> None:
    plant = plant_of(robots.sensed_arm(sensor={"middle": SENSORS["middle"]}))
    samples = plant.random_samples(20, np.random.default_rng(2))
    rows = plant.rows(samples, range(len(plant.labels))).regressor[:, 3:]
    seen = {n.partition(".")[0] for k, n in enumerate(plant.labels.names) if rows[:, :, k].any()}
    assert seen == {"beyond", "fore", "hand", "middle"}


def test_a_bolt_that_no_sensor_sits_at_cuts_nothing() -> None:
    whole, cut = robots.sensed_arm(), robots.sensed_arm(sensor={"a": SensorOptions("fore")})
    assert whole.tree.names == cut.tree.names == ("upper", "fore", "hand")
    parts = robots.sensed_arm(sensor={"a": SENSORS["middle"]}).tree
    assert parts.names == ("upper", "beyond", "fore", "hand")
    assert parts.channels == 3


def test_joint_torques_do_not_change_where_a_body_is_cut() -> None:
    whole, cut = robots.sensed_arm(), robots.sensed_arm(sensor=SENSORS)
    q, v, a = states(9, 3)
    found = []
    for robot in (whole, cut):
        motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
        bodies = robot.written_bodies()
        found.append(kernels.inverse_dynamics(robot.tree, motion, bodies))
    assert np.abs(found[0] - found[1]).max() <= 1e-12 * np.abs(found[0]).max()


def test_a_motion_is_designed_for_torques_whatever_sensors_are_inside() -> None:
    robot = robots.sensed_arm(sensor={"middle": SENSORS["middle"]})
    plant = ExcitableRobot.of(robot)
    samples = plant.samples_at(*states(6, 8))
    rows = plant.rows(samples, range(len(plant.labels))).regressor
    whole = RobotPlant(robot).rows(samples, range(len(plant.labels))).regressor
    assert rows.shape[1] == 3 and np.abs(rows - whole).max() <= 1e-12 * np.abs(whole).max()
    assert not whole[:, :, -6:].any()


def test_sensors_and_torques_add() -> None:
    """Rows of both are those of each: RᵀR of all is the sum of that of either alone."""
    one = {"middle": SENSORS["middle"]}
    both, alone = (plant_of(robots.sensed_arm(sensor=one, equations=e)) for e in ("all", "sensors"))
    assert len(both.channels) == 9 and len(alone.channels) == 6
    samples = both.random_samples(60, np.random.default_rng(4))
    samples = replace(samples, measured=np.random.default_rng(5).normal(size=(60, 9)))
    every = range(len(both.labels))
    assert both.labels.names == alone.labels.names

    def gram(plant: Any, measured: Array) -> Array:
        parts = plant.reduce(replace(samples, measured=measured), every)
        wide = [t.spread(len(every)) for t in parts]
        return np.asarray(sum(w.T @ w for w in wide))

    joints = plant_of(robots.sensed_arm(sensor=one))
    torques = sum(
        (w := t.spread(len(every))).T @ w for t in joints.reduce(samples, every, range(3))
    )
    whole = gram(both, samples.measured)
    parts = gram(alone, samples.measured[:, 3:]) + torques
    assert np.abs(whole - parts).max() <= 1e-12 * np.abs(whole).max()
    more, fewer = len(structural_base(both).kept), len(structural_base(alone).kept)
    assert more > fewer


@pytest.mark.parametrize("beyond", [True, False])
def test_a_contact_beyond_a_sensor_acts_on_it(beyond: bool) -> None:
    """`Y π = w + N λ`: by pinocchio's inverse dynamics with an external force."""
    point = (0.05, 0.02, -0.2)
    robot = robots.walker(
        contact={"ground": ContactOptions("foot" if beyond else "trunk", point=point)},
        sensor={"shin": SensorOptions("foot", bias="none", position=PLACE, rotation=TURN)},
    )
    plant, oracle = plant_of(robot), robots.Oracle.of(robot)
    samples = plant.random_samples(5, np.random.default_rng(6))
    m = samples.motion
    samples = replace(samples, motion=replace(m, closed=np.ones_like(m.closed)))
    acting = plant.acting(samples)  # type: ignore[attr-defined]
    assert acting.shape == (5, 14, 6)
    push = np.array([3.0, -2.0, 7.0, 0.5, 0.3, -0.4])
    q = np.hstack([np.zeros((5, 6)), [[1.0]] * 5, m.position[6:].T])
    model, data = oracle.model, oracle.model.createData()
    shift = pin.SE3(np.eye(3), np.array(point))
    link = "knee" if beyond else "root_joint"
    outside = [pin.Force.Zero() for _ in range(model.njoints)]
    outside[model.getJointId(link)] = shift.act(pin.Force(push))
    knee = model.getJointId("knee")
    for n in range(5):
        loads = []
        for forces in (outside, [pin.Force.Zero()] * model.njoints):
            pin.rnea(model, data, oracle.expand(q[n]), np.zeros(8), np.zeros(8), forces)
            loads.append(data.f[knee].vector.copy())
        wanted = shifted((loads[1] - loads[0])[None], TURN, PLACE)[0]
        assert np.abs(acting[n, 8:14] @ push - wanted).max() <= 1e-12
        assert wanted.any() == beyond


# ---- what a user says


def test_sensors_are_read_and_written() -> None:
    table = {"equations": "sensors", "sensor": {"leg": {"link": "shank", "reports": "on_sensor"}}}
    options = Options.from_dict(table)
    assert options.sensor == {"leg": SensorOptions("shank", reports="on_sensor")}
    assert Options.from_dict(options.to_dict()) == options


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"sensor": {"a": {}}}, "sits before a link"),
        ({"sensor": {"a": {"link": "foot", "lnk": "x"}}}, "not known here"),
        ({"sensor": {"a": {"link": "foot", "reports": "no"}}}, "neither the wrench"),
        ({"sensor": {"a": {"link": "foot", "bias": "no"}}}, "neither estimated nor none"),
        ({"sensor": {"a": {"link": "foot", "rotation": [[1, 0], [0, 1]]}}}, "no rotation"),
        ({"equations": "sensors"}, "none is stated"),
        (
            {"base": "free", "contact": {"a": {"link": "b"}}, "sensor": {"a": {"link": "c"}}},
            "name of a contact",
        ),
    ],
)
def test_what_is_wrong_with_a_sensor_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        Options.from_dict(table)


def test_a_sensor_before_no_link_or_the_first_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="did you mean 'beyond'"):
        robots.sensed_arm(sensor={"a": SensorOptions("beyont")})
    with pytest.raises(InvalidSetting, match="nothing is before 'floor'"):
        robots.sensed_arm(sensor={"a": SensorOptions("floor")})
    with pytest.raises(InvalidModel, match="no moving joint"):
        robots.sensed_arm(
            robots.SENSED_ARM.replace(b'"revolute"', b'"fixed"').replace(
                b'"prismatic"', b'"fixed"'
            ),
            sensor={"a": SensorOptions("beyond")},
            joint={},
        )


TOML = """
equations = "sensors"
[sensor.middle]
link = "beyond"
reports = "on_sensor"
"""
TIME = 0.005 * np.arange(4000)


def log_of(seed: int, torques: bool = False) -> dict[str, Array]:
    """Return the columns of a log whose sensor has a bias."""
    rng = np.random.default_rng(seed)
    pace, phase = np.array([2.9, 4.1, 3.3]), np.arange(3.0) + seed
    size, middle = np.array([0.9, 1.0, 0.15]), np.array([0.2, 0.3, 0.1])
    angle = pace * TIME[:, None] + phase
    slow = 0.37 * angle
    q = middle + size * (np.sin(angle) + 0.8 * np.sin(slow))
    v = size * pace * (np.cos(angle) + 0.8 * 0.37 * np.cos(slow))
    a = -size * pace**2 * (np.sin(angle) + 0.8 * 0.37**2 * np.sin(slow))
    wrench = -cut_wrenches(q, v, a)["bolts"] + np.array([5.0, -3.0, 2.0, 0.4, 0.3, -0.2])
    wrench += rng.normal(size=wrench.shape) * np.repeat([0.3, 0.02], 3)
    names = [f"{k}.middle.{x}" for k in ("force", "torque") for x in "xyz"]
    columns = {"t": TIME} | dict(zip(names, wrench.T, strict=True))
    return columns | {f"q.{n}": x for n, x in zip(("turn", "bend", "slide"), q.T, strict=True)}


def heft(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["heft", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def write_csv(path: Path, columns: dict[str, Array]) -> None:
    np.savetxt(
        path,
        np.stack(list(columns.values()), 1),
        header=",".join(columns),
        delimiter=",",
        comments="",
    )


def test_everything_beyond_a_sensor_is_identified_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a single torque; its masses are off in the model file, and so is its wrench."""
    source = robots.SENSED_ARM.replace(b'mass value="2"', b'mass value="3"')
    source = source.replace(b'mass value="1.5"', b'mass value="1"')
    (tmp_path / "arm.urdf").write_bytes(source)
    (tmp_path / "with.toml").write_text(TOML)
    write_csv(tmp_path / "log.csv", log_of(1))
    write_csv(tmp_path / "other.csv", log_of(2))
    monkeypatch.chdir(tmp_path)
    heft(
        monkeypatch,
        "identify arm.urdf log.csv --validate other.csv --with with.toml --out out --quiet "
        "--corner 15 --delay 0",
    )
    found = Identified.load(tmp_path / "out")
    numbers = {p["name"]: p for p in found.estimate["parameters"]}
    true = {n: t[0] for n, t in robots.written_inertias(robots.SENSED_ARM).items()}
    beyond = sum(true[n] for n in ("beyond", "cover", "fore", "hand"))
    sum_ = sum(numbers[f"{n}.mass"]["value"] for n in ("beyond", "cover", "fore", "hand"))
    assert sum_ == pytest.approx(beyond, rel=2e-3)
    for name in ("beyond", "cover", "fore", "hand"):
        low, high = numbers[f"{name}.mass"]["interval"]
        assert low <= true[name] <= high
    assert numbers["upper.mass"]["seen"] == "not at all" and "foot.mass" not in numbers
    biases = {b["expression"]: b for b in found.estimate["base_parameters"]}
    for axis, wanted in zip("xyz", (-5.0, 3.0, -2.0), strict=True):
        bias = biases[f"middle.bias.force.{axis}"]
        assert abs(bias["value"] - wanted) <= 4.0 * bias["std"] and bias["std"] < 0.1
    held = [s for s in found.estimate["validation"] if s["filter_hz"]]
    assert max(s["total"] for s in held) < 0.02
    heft(monkeypatch, "predict out log.csv --out tau.csv")


def test_a_missing_wrench_names_its_columns() -> None:
    plant = plant_of(robots.sensed_arm(sensor={"middle": SENSORS["middle"]}, equations="sensors"))
    columns = {n: x for n, x in log_of(3).items() if n.startswith("q.")}
    log = Recording.from_arrays(TIME, q={n[2:]: x for n, x in columns.items()})
    with pytest.raises(MissingSignal, match=r"force\.middle\.x"):
        plant.inputs(log)


def test_the_doctor_sees_a_sensor_that_reports_the_opposite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "arm.urdf").write_bytes(robots.SENSED_ARM)
    (tmp_path / "with.toml").write_text(TOML)
    (tmp_path / "wrong.toml").write_text(TOML.replace('reports = "on_sensor"', ""))
    write_csv(tmp_path / "log.csv", log_of(5))
    monkeypatch.chdir(tmp_path)
    said = []
    for options, code in (("with", 0), ("wrong", 1)):
        monkeypatch.setattr(
            sys,
            "argv",
            f"heft check log.csv --robot arm.urdf --with {options}.toml --quiet".split(),
        )
        with pytest.raises(SystemExit) as ended:
            main()
        assert int(ended.value.code or 0) == code
        said.append(capsys.readouterr().out)
    assert "opposite wrench" not in said[0]
    assert "opposite wrench, middle" in said[1] and 'reports = "on_sensor"' in said[1]


# ---- the iCub, which has six sensors and no joint torques

ICUB = "icub_description/robots/icub.urdf"
ICUB_CUTS = tuple(f"{side}_{part}_ft_sensor" for side in "lr" for part in ("arm", "leg", "foot"))


def icub() -> Robot:
    """Return the iCub with its six sensors, each called as the fixed joint at which it sits."""
    source = robots.path_of(ICUB).read_bytes()
    root = ElementTree.fromstring(source)
    joints = {j.get("name", ""): j for j in root.findall("joint")}
    cuts = {name: joints[name].find("child").get("link") for name in ICUB_CUTS}  # type: ignore[union-attr]
    sensors = {name: SensorOptions(link, bias="none") for name, link in cuts.items()}  # type: ignore[arg-type]
    whole = Robot.from_urdf_text(source, Options(base="free"))
    none = dict.fromkeys(whole.joints, JointOptions(friction="none", armature=False))
    options = Options(base="free", equations="sensors", sensor=sensors, joint=none)
    return Robot.from_urdf_text(source, options)


def test_the_icubs_sensors_are_pinocchios_wrenches() -> None:
    robot = icub()
    plant = plant_of(robot)
    text = robot.source.decode()
    for name in ICUB_CUTS:
        text = re.sub(rf'(<joint name="{name}" type=)"fixed"', r'\1"floating"', text)
    model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
    data, count = model.createData(), 3
    samples = plant.random_samples(count, np.random.default_rng(7))
    m = samples.motion
    made = plant.predict(samples, robot.written_bodies())
    for n in range(count):
        q, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        g = m.bodies.gravity[:, n]  # of norm 9.81, in the base's axes
        down = robot.gravity / np.linalg.norm(robot.gravity)
        turn, _ = Rotation.align_vectors([down], [g / np.linalg.norm(g)])
        q[3:7] = turn.as_quat()
        v[:6], a[:6] = m.bodies.velocity[:6, n], m.bodies.acceleration[:6, n]
        for k, name in enumerate(robot.joints):
            joint = model.joints[model.getJointId(name)]
            q[joint.idx_q] = m.position[6 + k, n]
            v[joint.idx_v] = m.bodies.velocity[6 + k, n]
            a[joint.idx_v] = m.bodies.acceleration[6 + k, n]
        pin.rnea(model, data, q, v, a)
        wanted = np.concatenate([data.f[model.getJointId(c)].vector for c in ICUB_CUTS])
        assert np.abs(made[n] - wanted).max() <= 1e-10 * np.abs(wanted).max()


def test_of_the_icub_all_that_is_beyond_a_sensor_is_seen_and_nothing_else() -> None:
    robot = icub()
    plant = plant_of(robot)
    assert len(plant.channels) == 36 and not len(robot.measured)
    seen = {plant.labels.names[k].partition(".")[0] for k in structural_base(plant).kept}
    assert not seen & {"root_link", "chest", "head", "base_link", "torso_1"}
    assert sum(n.startswith(("l_", "r_")) for n in seen) == len(seen) > 10


def test_of_a_floating_robot_pose_and_inertial_sensor_say_the_same_of_a_wrench() -> None:
    time = 0.01 * np.arange(50)
    robot = robots.walker(sensor={"shin": SensorOptions("foot", position=PLACE, rotation=TURN)})
    values = np.concatenate([robot.written_bodies(), np.arange(6.0)])
    made = []
    for name, way in (("pose", "pose"), ("an inertial sensor", "imu")):
        _, exact = case(f"floating robot by {'its ' if way == 'pose' else ''}{name}").experiment(
            time
        )
        width = (7 if way == "pose" else 6) + 2
        parts = (x[:, :width] for x in (exact.position, exact.velocity, exact.acceleration))
        plant = FloatingRobotPlant(robot, motion_from=way)  # type: ignore[arg-type]
        made.append(plant.sensed(plant.motion(Smoothed(*parts)), values)[:, 8:])
    assert np.abs(made[0]).max() > 1.0
    assert np.abs(made[0] - made[1]).max() <= 1e-10 * np.abs(made[0]).max()


MJCF = b"""
<mujoco><worldbody><body name="upper"><joint name="turn" axis="0 0 1"/>
  <inertial pos="0.1 0 0.1" mass="2" diaginertia="0.01 0.02 0.015"/>
  <body name="beyond" pos="0 0 0.3" quat="0.8 0.6 0 0">
    <inertial pos="0 0.05 0.1" mass="1.5" diaginertia="0.01 0.008 0.005"/>
    <body name="fore" pos="0.1 0 0.2"><joint name="bend" axis="0 1 0"/>
      <inertial pos="0.02 0 0.1" mass="1" diaginertia="0.004 0.005 0.002"/></body>
  </body></body></worldbody></mujoco>
"""


def test_an_mjcf_file_is_cut_between_bodies_that_no_joint_parts() -> None:
    """Against MuJoCo's own sensors of force and torque, which sit at a site of the child."""
    robot = Robot.from_text(MJCF, Options(sensor={"ft": SensorOptions("beyond", bias="none")}))
    sensed = MJCF.replace(
        b'<inertial pos="0 0.05 0.1"', b'<site name="ft"/><inertial pos="0 0.05 0.1"'
    ).replace(b"</mujoco>", b'<sensor><force site="ft"/><torque site="ft"/></sensor></mujoco>')
    model = mujoco.MjModel.from_xml_string(sensed.decode())
    data, plant = mujoco.MjData(model), plant_of(robot)
    data.qpos[:], data.qvel[:], data.qacc[:] = [0.7, -1.1], [1.3, 0.4], [-2.0, 3.0]
    mujoco.mj_inverse(model, data)
    mujoco.mj_sensorAcc(model, data)
    motion = plant.motion(Smoothed(data.qpos[None], data.qvel[None], data.qacc[None]))
    values = np.zeros(len(plant.labels))
    values[: len(robot.written_bodies())] = robot.written_bodies()
    made = plant.sensed(motion, values)[0, 2:]
    assert np.abs(made - data.sensordata).max() <= 1e-10 * np.abs(data.sensordata).max()
