"""A simulator's file says what was identified: read back, and in the simulator itself."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from heft import simulation
from heft.applications.demo import FOLDER as DEMO
from heft.applications.export import export_files, replay_log
from heft.applications.identification import Identified, identify, write
from heft.applications.sample import sample_files
from heft.cli import commands
from heft.dynamics import kernels
from heft.errors import InputError, InvalidModel, InvalidSetting
from heft.information import inertia
from heft.models import (
    SIMULATORS,
    ControllerOptions,
    Fields,
    JointFields,
    JointGains,
    MeshFiles,
    Options,
    Robot,
    meshes_of,
)
from heft.plants import random_states
from heft.recordings import Recording
from heft.simulation import Actuation, MujocoReplay, moved_by_heft
from tests.mjcfs import ARM
from tests.robots import PLANAR_ARM, path_of

URDFS = (
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
    "ur_description/urdf/ur10_robot.urdf",
)
TRANSMISSION = """<transmission name="t"><type>transmission_interface/SimpleTransmission</type>
<joint name="elbow"><hardwareInterface>EffortJointInterface</hardwareInterface></joint>
<actuator name="m"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>"""


@cache
def robot_of(name: str) -> Robot:
    if name == "mjcf":
        return Robot.from_text(ARM.encode(), None, "robot.xml")
    if name == "table":
        return Robot.from_text(Path("examples/three_link.toml").read_bytes(), None, "robot.toml")
    if name == "demo":
        return Robot.from_urdf(DEMO / "arm.urdf")
    return Robot.from_urdf(path_of(name))


@cache
def drawn(name: str) -> dict[str, JointFields]:
    rng = np.random.default_rng(5)
    return {
        joint: JointFields(*rng.uniform(0.01, 3.0, 3).tolist(), offset=float(rng.normal()))
        for joint in robot_of(name).joints
    }


@pytest.mark.parametrize("name", ("mjcf", "demo", "table", *URDFS))
@pytest.mark.parametrize("simulator", SIMULATORS)
def test_what_is_read_back_is_what_was_written(simulator: str, name: str) -> None:
    target, robot = SIMULATORS[simulator], robot_of(name)
    held = target.taken(robot, drawn(name))
    back = target.read(target.write(robot, held))
    for joint, fields in held.items():
        for field, value in asdict(fields).items():
            assert getattr(back[joint], field) == pytest.approx(value, rel=1e-12, abs=0.0)
            assert (value != 0.0) == (field in target.holds)


@dataclass(frozen=True)
class States:
    q: Any
    v: Any
    a: Any
    rigid: Any  # torque of heft's own dynamics


@cache
def states(name: str) -> States:
    robot, rng = robot_of(name), np.random.default_rng(2)
    q, v, a = random_states(robot, 40, rng)
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    rigid = kernels.inverse_dynamics(robot.tree, motion, robot.written_bodies())
    return States(q, v, a, np.asarray(rigid).T)


@pytest.mark.parametrize("name", ("mjcf", "demo", "table", *URDFS))
def test_mujoco_takes_the_same_torque(name: str) -> None:
    robot, fields, s = robot_of(name), drawn(name), states(name)
    target = SIMULATORS["mujoco"]
    run = MujocoReplay.of(target.write(robot, fields), robot.joints)
    smooth = run.inverse_dynamics(s.q, s.v, s.a, dry=False)
    rotor, viscous, dry, offset = np.array([list(asdict(f).values()) for f in fields.values()]).T
    wanted = s.rigid + rotor * s.a + viscous * s.v + offset
    assert np.abs(smooth - wanted).max() < 1e-9 * np.abs(wanted).max()
    slides = np.abs(s.v) > 0.05
    rubs = run.inverse_dynamics(s.q, s.v, s.a) - smooth
    assert np.abs(rubs / (dry * np.sign(s.v)) - 1.0)[slides].max() < 0.01


def test_a_replay_needs_no_meshes() -> None:
    """Files of meshes, what shows them, and what drives are attached are left out."""
    more = """<asset><mesh name="shell" file="shell.stl"/><material name="red"/></asset>
    <equality><weld body1="upper"/></equality>
    <keyframe><key name="home" qpos="0 0 0 0 0"/></keyframe>"""
    shell = '<geom type="mesh" mesh="shell"/><geom size=".1" material="red" mass="0"/>'
    text = ARM.replace("<worldbody>", more + "<worldbody>").replace(
        '<joint name="shoulder" axis="0 0 2"/>', shell + '<joint name="shoulder" axis="0 0 2"/>'
    )
    s, joints = states("mjcf"), robot_of("mjcf").joints
    full, bare = (MujocoReplay.of(t, joints).inverse_dynamics(s.q, s.v, s.a) for t in (ARM, text))
    assert np.array_equal(full, bare)


def test_pinocchio_witnesses_the_torque_of_an_exported_urdf() -> None:
    """Neither heft's dynamics nor its reader of files: pinocchio and MuJoCo agree on the robot."""
    for name in ("demo", "ur_description/urdf/ur10_robot.urdf"):
        robot, s = robot_of(name), states(name)
        model = pin.buildModelFromXML(robot.source.decode())
        assert list(model.names)[1:] == list(robot.joints)
        data = model.createData()
        nothing = dict.fromkeys(robot.joints, JointFields())
        text = SIMULATORS["mujoco"].write(robot, nothing)
        found = MujocoReplay.of(text, robot.joints).inverse_dynamics(s.q, s.v, s.a)
        wanted = np.array([pin.rnea(model, data, *x) for x in zip(s.q, s.v, s.a, strict=True)])
        assert np.abs(found - wanted).max() < 1e-9 * np.abs(wanted).max()


def test_gravity_of_the_options_is_in_an_mjcf_file() -> None:
    for source in (ARM, ARM.replace('<option gravity="0.3 -1 -9.7"/>', "")):
        for gravity in ((0.3, -1.0, -9.7), (0.0, 1.0, -9.0), (0.0, 0.0, -9.81)):
            robot = Robot.from_text(source.encode(), Options(gravity=gravity), "robot.xml")
            text = SIMULATORS["mujoco"].write(robot, {})
            model = mujoco.MjModel.from_xml_string(text)
            assert model.opt.gravity.tolist() == list(gravity)
            assert (text == source) == np.array_equal(
                mujoco.MjModel.from_xml_string(source).opt.gravity, gravity
            )


def test_an_exported_file_is_exported_anew() -> None:
    """An offset that is gone leaves nothing; a spring of the file's own stays, and has none."""
    target = SIMULATORS["mujoco"]
    first = target.write(robot_of("demo"), drawn("demo"))
    robot = Robot.from_text(first.encode(), None, "robot.xml")
    for name in ("mujoco", "newton"):
        without = {j: replace(f, offset=0.0) for j, f in drawn("demo").items()}
        fields = SIMULATORS[name].taken(robot, without)
        assert SIMULATORS[name].read(SIMULATORS[name].write(robot, fields)) == fields
    sprung = first.replace('name="elbow"', 'name="elbow" stiffness="2" springref="0.5"')
    sprung = re.sub(r'(name="elbow".*?) stiffness="[^"]*e-12" springref="[^"]*"', r"\1", sprung)
    robot = Robot.from_text(sprung.encode(), None, "robot.xml")
    held = target.taken(robot, drawn("demo"))
    assert held["elbow"].offset == 0.0 and held["shoulder_pan"].offset != 0.0
    text = target.write(robot, held)
    assert target.read(text) == held
    assert mujoco.MjModel.from_xml_string(text).joint("elbow").stiffness[0] == 2.0


def test_the_command_offers_every_simulator() -> None:
    target = get_args(get_type_hints(commands.export, include_extras=True)["target"])
    assert get_args(target[0]) == tuple(SIMULATORS)


def test_a_model_made_of_a_urdf_has_its_shapes_limits_and_gravity() -> None:
    robot = Robot.from_file(DEMO / "arm.urdf", Options(gravity=(1.0, 2.0, -9.0)))
    model = mujoco.MjModel.from_xml_string(SIMULATORS["mujoco"].write(robot, drawn("demo")))
    assert model.opt.gravity.tolist() == [1.0, 2.0, -9.0]
    limit = re.search(r'name="elbow".*?lower="(.*?)" upper="(.*?)"', robot.source.decode(), re.S)
    assert limit is not None
    assert model.joint("elbow").range.tolist() == [float(x) for x in limit.groups()]
    assert model.ngeom == robot.source.count(b"<geometry>") > 0
    assert not model.geom_contype.any()  # all of them are visual


@pytest.mark.parametrize("file", ("panda", "tiago_pro", "ur"))
def test_meshes_of_a_urdf_show_and_weigh_nothing(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every shape of the file is a geom; what MuJoCo cannot read is made STL."""
    name = next(f for f in URDFS if f.startswith(file))
    robot = robot_of(name)
    meshes = meshes_of(robot.form, robot.source, path_of(name).parent)
    files = {Path(path).suffix for path in meshes.contents}
    assert not meshes.lost and files == {".stl"}
    model, plain = (
        mujoco.MjModel.from_xml_string(SIMULATORS["mujoco"].write(robot, {}, m), dict(m.contents))
        for m in (meshes, MeshFiles())
    )
    assert model.ngeom == len(re.findall(rb"<geometry", robot.source)) > plain.ngeom
    for values in ("body_mass", "body_inertia", "body_ipos"):
        assert np.array_equal(getattr(model, values), getattr(plain, values))
    out = capfd.readouterr()
    assert not out.out and not out.err


TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]])[
    [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
]


def stl(text: bool) -> bytes:
    """Return the tetrahedron as STL."""
    if not text:
        rows = [np.hstack([0.0, 0.0, 0.0, t.ravel()]).astype("<f4") for t in TETRAHEDRON]
        return (
            b"shell".ljust(80)
            + np.uint32(4).tobytes()
            + b"".join(r.tobytes() + bytes(2) for r in rows)
        )
    corner = "vertex {} {} {}\n"
    facet = "facet normal 0 0 0\nouter loop\n" + 3 * corner + "endloop\nendfacet\n"
    body = "".join(facet.format(*t.ravel()) for t in TETRAHEDRON)
    return f"solid s\n{body}endsolid s\n".encode()


def extent(model: Any, geom: int) -> list[float]:
    """Return the widths of a mesh's bounding box in its body's axes."""
    at = model.geom_dataid[geom]
    begin, count = model.mesh_vertadr[at], model.mesh_vertnum[at]
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
    corners = model.mesh_vert[begin : begin + count] @ turn.reshape(3, 3).T
    return np.ptp(corners, axis=0).tolist()


def test_meshes_keep_their_scale_and_say_what_is_lost(tmp_path: Path) -> None:
    for folder, ascii in (("visual", True), ("collision", False)):
        (tmp_path / "arm" / folder).mkdir(parents=True)
        (tmp_path / "arm" / folder / "Link.STL").write_bytes(stl(ascii))
    shape = '<{}><geometry><mesh filename="package://arm/{}" scale="{}"/></geometry>{}</{}>'
    red = '<material name="r"><color rgba="1 0 0 1"/></material>'
    shapes = (
        shape.format("visual", "visual/Link.STL", ".1 .1 .1", red, "visual")
        + shape.format("collision", "collision/Link.STL", ".2 .1 -.1", "", "collision")
        + shape.format("visual", "visual/none.dae", "1 1 1", "", "visual")
    )
    at = b"<link name='forearm'>"
    source = (DEMO / "arm.urdf").read_bytes()
    assert source.count(at) == 1
    robot = Robot.from_text(source.replace(at, at + shapes.encode()))
    meshes = meshes_of(robot.form, robot.source, tmp_path / "arm" / "urdf")
    assert sorted(meshes.contents) == ["meshes/link.stl", "meshes/link_1.stl"]
    assert meshes.lost == ("package://arm/visual/none.dae (a mesh is not found)",)
    text = SIMULATORS["mujoco"].write(robot, {}, meshes)
    model = mujoco.MjModel.from_xml_string(text, dict(meshes.contents))
    seen = {
        int(model.geom_group[k]): (extent(model, k), model.geom_rgba[k].tolist())
        for k in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)
    }
    assert seen[2] == (pytest.approx([0.1, 0.2, 0.3], rel=1e-6), [1.0, 0.0, 0.0, 1.0])
    assert seen[3][0] == pytest.approx([0.2, 0.2, 0.3], rel=1e-6)


def test_files_of_an_mjcf_file_lie_beside_its_copy(tmp_path: Path) -> None:
    """Wherever its compiler has them; a draw, one folder deeper, takes the same ones."""
    (tmp_path / "from" / "shown").mkdir(parents=True)
    (tmp_path / "from" / "shown" / "shell.stl").write_bytes(stl(False))
    more = """<compiler meshdir="shown"/><asset><mesh file="shell.stl"/></asset><worldbody>
    <geom type="mesh" mesh="shell"/>"""
    robot = Robot.from_text(ARM.replace("<worldbody>", more, 1).encode(), None, "robot.xml")
    meshes = meshes_of("mjcf", robot.source, tmp_path / "from")
    assert not meshes.lost
    for path, files in (("robot.xml", meshes), ("draws/robot_0.xml", meshes.from_below())):
        made = tmp_path / "to" / path
        made.parent.mkdir(parents=True)
        made.write_text(SIMULATORS["mujoco"].write(robot, {}, files))
    for path, content in meshes.contents.items():
        (tmp_path / "to" / path).parent.mkdir()
        (tmp_path / "to" / path).write_bytes(content)
    for path in ("robot.xml", "draws/robot_0.xml"):
        assert mujoco.MjModel.from_xml_path(str(tmp_path / "to" / path)).nmesh == 1


def test_drakes_transmission_takes_the_place_of_the_files_own() -> None:
    source = (DEMO / "arm.urdf").read_text().replace("</robot>", TRANSMISSION + "</robot>")
    robot = Robot.from_text(source.encode())
    text = SIMULATORS["drake"].write(robot, drawn("demo"))
    assert text.count("<transmission") == len(robot.joints)
    assert "EffortJointInterface" not in text and 'xmlns:drake="http://drake.mit.edu"' in text


def test_pinocchios_loader_gives_its_model_the_numbers(tmp_path: Path) -> None:
    fields, space = drawn("demo"), dict[str, Any]()
    exec(SIMULATORS["pinocchio"].write(robot_of("demo"), fields), space)
    model = space["load"](str(DEMO / "arm.urdf"))
    for joint, wanted in fields.items():
        k = model.joints[model.getJointId(joint)].idx_v
        assert model.armature[k] == wanted.armature and model.damping[k] == wanted.viscous
        low, high = model.lowerDryFrictionLimit[k], model.upperDryFrictionLimit[k]
        assert (high - low) / 2.0 == pytest.approx(wanted.dry)
        assert -(high + low) / 2.0 == pytest.approx(wanted.offset)
    s, data = states("demo"), model.createData()
    found = np.array([pin.rnea(model, data, *x) for x in zip(s.q, s.v, s.a, strict=True)])
    moved = s.rigid + np.array([f.armature for f in fields.values()]) * s.a
    assert np.abs(found - moved).max() < 1e-9 * np.abs(moved).max()


def test_isaac_labs_configuration_names_each_joint_by_a_pattern() -> None:
    fields, space = drawn("demo"), dict[str, Any]()
    exec(SIMULATORS["isaaclab"].write(robot_of("demo"), fields), space)
    made = space["actuator"](dict, 100.0, 5.0, effort_limit=80.0)
    assert made["effort_limit"] == 80.0
    for joint, wanted in fields.items():
        for key, value in (
            ("armature", wanted.armature),
            ("friction", wanted.dry),
            ("dynamic_friction", wanted.dry),
            ("viscous_friction", wanted.viscous),
        ):
            assert [v for k, v in made[key].items() if re.fullmatch(k, joint)] == [value]


def test_pushed_alike_both_simulators_move_alike() -> None:
    """With friction, over .2 s: held efforts, one integrator implicit in friction, one exact."""
    robot = Robot.from_text(PLANAR_ARM)
    fields = {j: JointFields(0.3, 0.8, 0.0, 0.2) for j in robot.joints}
    run = MujocoReplay.of(SIMULATORS["mujoco"].write(robot, fields), robot.joints)
    simple = robot.with_joints({j: replace(robot.options.of(j), friction="simple") for j in fields})
    values = dict.fromkeys(simple.labels.names, 0.0)
    values |= dict(zip(simple.labels.names, simple.written_bodies(), strict=False))
    for j in fields:
        values |= {f"{j}.armature": 0.3, f"{j}.viscous": 0.8, f"{j}.offset": 0.2}
    start = np.array([[0.3, -0.4], [1.0, -2.0]])
    effort = 5.0 * np.sin(np.arange(800)[:, None] * [0.01, 0.02])
    numbers, push = np.array(list(values.values())), Actuation.of_efforts(effort, 2.5e-4)
    mine = moved_by_heft(simple, numbers, start, push)
    assert mine is not None
    assert np.abs(mine - mine[0]).max() > 0.1
    assert np.abs(run.moved(start, push) - mine).max() < 2e-3 * np.abs(mine).max()
    # And along a reference under a controller, of which each part acts.
    gains = np.array([[300.0, 200.0], [30.0, 20.0], [2000.0, 1500.0]])
    wanted = np.zeros((800, 3, 2))
    wanted[:, 2] = effort
    runs, mines = [], []
    for rows, keep in ((0, -1.0), (1, -1.0), (2, -1.0), (3, -1.0), (3, 0.01)):
        push = Actuation(wanted, gains * (np.arange(3) < rows)[:, None], keep, 2.5e-4)
        runs.append(run.moved(start, push))
        mines.append(moved_by_heft(simple, numbers, start, push))
    off = np.abs(np.array(runs)[:, None] - np.array(mines)).max(axis=(2, 3))
    own = np.diag(off)
    assert own.max() < 0.01 and (own < 0.5 * (off + 9.0 * np.eye(5)).min(axis=1)).all()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "identified"
    found = identify(DEMO / "arm.urdf", [DEMO / "run1.parquet"], [DEMO / "run2.parquet"])
    write(found, out)
    return out


@cache
def told(results: Path) -> Fields:
    joints = Identified.load(results).joints
    return {
        name: JointFields(j.armature or 0.0, j.viscous or 0.0, j.coulomb or 0.0, j.offset or 0.0)
        for name, j in joints.items()
    }


def test_a_replay_proves_the_file(results: Path, tmp_path: Path) -> None:
    made = export_files(results, "mujoco", tmp_path / "robot", replay=DEMO / "run2.parquet")
    assert {p.name for p in made.files} == {"robot.xml", "replay.json"}
    replay = made.replay
    assert replay is not None and replay.engine == f"MuJoCo {mujoco.__version__}"
    assert replay.smooth < 1e-9 and replay.dry < 0.01
    ran, whole = replay.errors[replay.engine], replay.errors["heft, simple"]
    masses, came = replay.errors["its masses, fitted friction"], replay.errors["file as it came"]
    assert ran[-1] < 1.2 * whole[-1] and whole[-1] < 0.5 * masses[-1] < 0.5 * came[-1]
    # The same as the results state of the same log, with full friction.
    stated = Identified.load(results).estimate["torque_errors"]
    assert replay.errors["heft, full"][-1] == pytest.approx(stated["identified"]["total"], rel=0.02)
    assert came[-1] == pytest.approx(stated["model_file"]["total"], rel=0.02)
    here = replay.moved[replay.engine]
    assert np.median(here / replay.moved["heft, simple"]) < 1.2
    assert np.median(here / replay.moved["its masses, fitted friction"]) < 0.5
    entry = json.loads((tmp_path / "robot" / "replay.json").read_text())
    assert entry["errors"]["heft, simple"][-1] == whole[-1]
    assert entry["joints"] == list(replay.joints)
    assert any(line.startswith("not held: friction's bend") for line in replay.lines())


def test_a_command_is_replayed_with_the_controller(results: Path, tmp_path: Path) -> None:
    """A log of MuJoCo's own: along its command it moves as logged, not so with other masses."""
    joints, rate = robot_of("demo").joints, 1000.0
    stiff, slow = 300.0 / 3.0 ** np.arange(6), 20.0 / 3.0 ** np.arange(6)
    gains = {j: JointGains(p, d) for j, p, d in zip(joints, stiff, slow, strict=True)}
    controller = ControllerOptions(gains, rate, filter=1e5)
    time = np.arange(6000) / rate
    pace = np.array([1.1, 1.7, 2.3, 2.9, 3.1, 3.7])
    reference = 0.4 * np.sin(time[:, None] * pace)
    wanted = np.stack([reference, 0.4 * pace * np.cos(time[:, None] * pace), 0.0 * reference], 1)
    push = Actuation(wanted, np.array([stiff, slow, 0.0 * slow]), 1.0, 1.0 / rate)
    fields = told(results)
    identified = Identified.load(results)
    text = SIMULATORS["mujoco"].write(identified.robot, fields)
    start = np.stack([reference[0], wanted[0, 1]])
    run = MujocoReplay.of(text, joints)
    q = run.moved(start, push)
    seen = np.vstack([start[1], np.diff(q, axis=0) * rate])
    tau = stiff * (reference - q) + slow * (wanted[:, 1] - seen)
    signals = {
        k: dict(zip(joints, x.T, strict=True))
        for k, x in (("q", q), ("q_ref", reference), ("tau", tau))
    }
    log = Recording.from_arrays(time, "commanded", **signals)
    options = replace(identified.robot.options, controller=controller)
    known = replace(identified, robot=replace(identified.robot, options=options))
    before = Robot.from_file(DEMO / "arm.urdf", options)
    replay = replay_log(known, run, fields, log, before=before)
    off = {name: float(np.max(error)) for name, error in replay.followed.items()}
    assert off[str(replay.engine)] < 2e-3 and off["heft, simple"] < 4e-3  # [rad]
    assert off["file as it came"] > 0.02
    assert any(line.startswith("\nmotion of the log's command") for line in replay.lines())
    assert not replay_log(identified, run, fields, log, before=before).followed


def test_what_a_simulator_lacks_costs_what_it_says(results: Path) -> None:
    """Dry friction and offset of Drake: the rms of what is left out of the torque."""
    lacking = export_files(results, "drake", replay=DEMO / "run2.parquet").replay
    holding = export_files(results, "mujoco", replay=DEMO / "run2.parquet").replay
    assert lacking is not None and holding is not None and lacking.engine is None
    assert set(lacking.lost) - set(holding.lost) == {"dry friction", "offset of friction"}
    fields = told(results)
    for k, joint in enumerate(lacking.joints):
        assert lacking.lost["offset of friction"][k] == pytest.approx(abs(fields[joint].offset))
        # Of a drive that hardly ever stands still it is nearly the coefficient itself.
        assert 0.8 < lacking.lost["dry friction"][k] / fields[joint].dry < 1.0
    gap = lacking.errors["its fields"][-1] ** 2 - lacking.errors["heft, simple"][-1] ** 2
    rms = float(np.sqrt(gap * (lacking.size**2).sum()))
    both = np.hypot(lacking.lost["dry friction"], lacking.lost["offset of friction"])
    assert rms == pytest.approx(np.sqrt((both**2).sum()), rel=0.25)


def test_draws_keep_what_varies_together(results: Path, tmp_path: Path) -> None:
    sampled = sample_files(results, tmp_path / "drawn", 3, 1)
    made = export_files(results, "mujoco", tmp_path / "a", tmp_path / "drawn")
    files = [p for p in made.files if p.parent.name == "draws"]
    assert [p.name for p in files] == ["robot_0.xml", "robot_1.xml", "robot_2.xml"]
    manifest = json.loads((tmp_path / "drawn" / "samples.json").read_text())
    robot = Identified.load(results).robot
    for path, values in zip(files, sampled.values, strict=True):
        model = mujoco.MjModel.from_xml_path(str(path))
        for k, link in enumerate(robot.bodies_links):
            assert model.body(link.name).mass[0] == pytest.approx(values[10 * k], rel=1e-9)
        rotor = values[manifest["parameters"].index("elbow.armature")]
        assert model.joint("elbow").armature[0] == pytest.approx(rotor, rel=1e-12)
    neutral = export_files(results, "isaaclab", tmp_path / "b", tmp_path / "drawn")
    assert (tmp_path / "a" / "randomize.py").is_file()
    assert {p.name for p in neutral.files} == {"robot_isaaclab.py", "draws.json", "draws.py"}
    space: dict[str, Any] = {"__file__": str(tmp_path / "b" / "draws.py")}
    exec((tmp_path / "b" / "draws.py").read_text(), space)
    assert space["COUNT"] == 3
    draw = space["draw"](1)
    assert draw["armature"]["elbow"] == pytest.approx(
        sampled.values[1][manifest["parameters"].index("elbow.armature")]
    )
    ten = draw["links"]["forearm"]
    assert inertia.consistency_margin(np.array(ten)) > 0.0
    at = [k.name for k in robot.bodies_links].index("forearm")
    assert ten == pytest.approx(sampled.values[1][10 * at : 10 * at + 10].tolist())


class Scene:
    """A model as MJX has it, for a function that replaces fields; jax is not here."""

    def __init__(self, model: Any, **fields: Any) -> None:
        self.model, self.fields = model, fields

    def __getattr__(self, name: str) -> Any:
        return self.fields[name] if name in self.fields else getattr(self.model, name)

    def tree_replace(self, fields: dict[str, Any]) -> Scene:
        return Scene(self.model, **self.fields, **fields)


def test_playgrounds_environments_have_a_draw_each(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in for jax: the scene's robot moves by the torque of the draw's own file."""
    jax, random, tree = ModuleType("jax"), ModuleType("jax.random"), ModuleType("jax.tree_util")
    jax.vmap = lambda f: lambda keys: np.array([f(k) for k in keys])  # type: ignore[attr-defined]
    random.randint = lambda key, shape, low, high: key  # type: ignore[attr-defined]
    tree.tree_map = lambda f, model: Scene(None)  # type: ignore[attr-defined]
    jax.random, jax.tree_util, jax.numpy = random, tree, np  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", np)
    sample_files(results, tmp_path / "drawn", 3, 1)
    made = export_files(results, "mujoco", tmp_path / "a", tmp_path / "drawn")
    assert sum(p.parent.name == "draws" for p in made.files) == 3
    space: dict[str, Any] = {"__file__": str(tmp_path / "a" / "randomize.py")}
    exec((tmp_path / "a" / "randomize.py").read_text(), space)
    text = (tmp_path / "a" / "robot.xml").read_text()
    box = '<worldbody><body name="box" pos="9 0 0"><joint type="slide"/><geom size="1"/></body>'
    scene = mujoco.MjModel.from_xml_string(text.replace("<worldbody>", box))
    model, axes = space["domain_randomize"](Scene(scene), np.array([2, 0]))
    assert set(axes.fields) == set(model.fields) and set(axes.fields.values()) == {0}
    for row, draw in enumerate((2, 0)):
        for name, values in model.fields.items():
            getattr(scene, name)[:] = values[row]
        own = mujoco.MjModel.from_xml_path(str(tmp_path / "a" / "draws" / f"robot_{draw}.xml"))
        torque = []
        for m in (scene, own):
            data, rng = mujoco.MjData(m), np.random.default_rng(0)
            for values in (data.qpos, data.qvel, data.qacc):
                values[-6:] = rng.normal(size=6)
            m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
            m.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_LIMIT
            mujoco.mj_inverse(m, data)
            torque.append(data.qfrc_inverse[-6:])
        assert torque[0] == pytest.approx(torque[1], rel=1e-9)


def test_torque_spreads_over_draws_as_the_results_state(results: Path, tmp_path: Path) -> None:
    """That of bodies and rotors in MuJoCo, against the covariance of the results, Y Σ Yᵀ."""
    sample_files(results, tmp_path / "drawn", 100, 3)
    made = export_files(results, "mujoco", tmp_path / "a", tmp_path / "drawn")
    found = Identified.load(results)
    robot, solution = found.robot, found.solution
    q, v, a = random_states(robot, 40, np.random.default_rng(0))
    runs = [
        MujocoReplay.of(p.read_text(), robot.joints) for p in made.files if p.parent.name != "a"
    ]
    assert len(runs) == 100
    drawn = np.array([run.inverse_dynamics(q, 0.0 * v, a, dry=False) for run in runs])
    links = robot.link_matrix()
    motion = kernels.motion_of(robot.tree, robot.gravity, q, 0.0 * v, a)
    rows = [kernels.inverse_dynamics(robot.tree, motion, column).T for column in links.T]
    rotors = [a * unit for unit in np.eye(len(robot.joints))]
    Y = np.stack([*rows, *rotors], axis=2)
    names = solution.labels.names
    kept = [*range(links.shape[1]), *(names.index(f"{j}.armature") for j in robot.joints)]
    covariance = np.asarray(solution.covariance)[np.ix_(kept, kept)]
    stated = np.einsum("nik,kl,nil->ni", Y, covariance, Y)
    ratio = np.sqrt(drawn.var(axis=0, ddof=1).mean(axis=0) / stated.mean(axis=0))
    assert np.abs(ratio - 1.0).max() < 0.2  # 7 % is one deviation of 100 draws
    assert abs(ratio.mean() - 1.0) < 0.1  # three deviations


def test_refusals_say_what_to_do(results: Path, tmp_path: Path) -> None:
    log = DEMO / "run2.parquet"
    with pytest.raises(InvalidSetting, match="no simulator is called 'mujco'"):
        export_files(results, "mujco", tmp_path / "a")
    with pytest.raises(InvalidSetting, match="nothing to be done"):
        export_files(results, "mujoco")
    with pytest.raises(InvalidSetting, match="the results themselves"):
        export_files(results, "mujoco", results)
    with pytest.raises(InvalidSetting, match="draws are written"):
        export_files(results, "mujoco", None, tmp_path, log)
    with pytest.raises(InputError, match="does not exist"):
        export_files(results, "mujoco", tmp_path / "a", tmp_path)
    other = tmp_path / "other.urdf"
    other.write_bytes((DEMO / "arm.urdf").read_bytes() + b"\n")
    with pytest.raises(InvalidSetting, match="not the one that the results began with"):
        export_files(results, "mujoco", None, None, log, model=other)
    with pytest.raises(InvalidModel, match="MuJoCo cannot read"):
        MujocoReplay.of("<mujoco><worldbody><body/><nothing/></worldbody></mujoco>", ())
    assert not (tmp_path / "a").exists()


def test_draws_of_other_results_are_refused(results: Path, tmp_path: Path) -> None:
    sample_files(results, tmp_path / "drawn", 1, 1)
    manifest = tmp_path / "drawn" / "samples.json"
    changed = json.loads(manifest.read_text()) | {"information": "0" * 64}
    manifest.write_text(json.dumps(changed))
    with pytest.raises(InputError, match="draws are of other results"):
        export_files(results, "mujoco", tmp_path / "a", tmp_path / "drawn")
    for files in ([], {"robot_0.urdf": [1.0]}, {"robot_0.urdf": None}, {"robot_9.urdf": []}):
        manifest.write_text(json.dumps(changed | {"files": files}))
        with pytest.raises(InputError):
            export_files(results, "mujoco", tmp_path / "a", tmp_path / "drawn")


@pytest.mark.parametrize(("simulator", "share"), (("drake", 1e-9), ("newton", 1e-4)))
def test_other_engines_take_the_same_torque(
    simulator: str, share: float, results: Path, tmp_path: Path
) -> None:
    """And move by it: what they do not hold is what sets them apart from heft."""
    python = os.environ.get(f"HEFT_{simulator.upper()}_PYTHON")
    if python is None:
        pytest.skip(f"HEFT_{simulator.upper()}_PYTHON is not set: {simulator.upper()} IS NOT ASKED")
    log = DEMO / "run2.parquet"
    made = export_files(results, simulator, tmp_path / "a", None, log, python=Path(python))
    replay = made.replay
    assert replay is not None and str(replay.engine).lower().startswith(simulator)
    assert replay.smooth < share and replay.dry < 0.01
    ran, came = (replay.moved[name] for name in (str(replay.engine), "file as it came"))
    assert (ran < 0.5 * came).all()
    missed = replay.errors[str(replay.engine)]
    by_fields = export_files(results, simulator, None, None, log).replay
    assert by_fields is not None
    assert missed == pytest.approx(by_fields.errors["its fields"], rel=1e-2)


def test_an_engine_follows_the_controllers_equations() -> None:
    """What is run beside another engine, here beside MuJoCo, steps as heft's replay does."""
    robot, s = robot_of("demo"), states("demo")
    run = MujocoReplay.of(SIMULATORS["mujoco"].write(robot, drawn("demo")), robot.joints)

    class Engine:
        def begin(self, q: Any, v: Any) -> None:
            self.data = mujoco.MjData(run.model)
            self.data.qpos[:], self.data.qvel[:] = q, v

        def step(self, torque: Any) -> Any:
            self.data.qfrc_applied[:] = torque
            mujoco.mj_step(run.model, self.data)
            return self.data.qpos.copy(), self.data.qvel.copy()

        def inverse(self, *row: Any) -> Any:
            one = [x[None] for x in row]
            smooth = run.inverse_dynamics(*one, dry=False)[0]
            return smooth, run.inverse_dynamics(*one)[0] - smooth

    template = Path(simulation.__file__).parent / "engine.py.template"
    space: dict[str, Any] = {"np": np, "STEP": 1e-3}
    exec(template.read_text().partition("engine = Engine")[0], space)
    found = np.array(space["answer"](Engine(), {"motion": [s.q, s.v, s.a]}))
    assert found.sum(axis=1) == pytest.approx(run.inverse_dynamics(s.q, s.v, s.a), rel=1e-9)
    wanted = np.random.default_rng(4).normal(size=(50, 3, 6))
    gains = np.array([[30.0], [3.0], [40.0]]) * np.ones(6)
    start = np.stack([s.q[0], 0.1 * s.v[0]])
    for step, keep in ((1e-3, -1.0), (4e-3, 0.3)):
        push = Actuation(wanted, gains, keep, step)
        moved = run.moved(start, push)  # which sets the model's step
        asked = {"start": start, "wanted": wanted, "gains": gains, "keep": keep, "step": step}
        assert space["answer"](Engine(), asked) == pytest.approx(moved, abs=1e-12)


def test_an_engine_that_is_not_there_is_said(results: Path, tmp_path: Path) -> None:
    log = DEMO / "run2.parquet"
    made = export_files(results, "newton", None, None, log)
    assert made.replay is not None and made.replay.engine is None
    assert any("name its Python by --python" in note for note in made.notes)
    with pytest.raises(InvalidModel, match=r"without an answer(.|\n)*pydrake"):
        export_files(results, "drake", None, None, log, python=Path(sys.executable))
    with pytest.raises(InvalidModel, match="Python does not start"):
        export_files(results, "drake", None, None, log, python=tmp_path / "none")
