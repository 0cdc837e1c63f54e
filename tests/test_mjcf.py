"""An MJCF file means to heft what it means to MuJoCo, and is written back as it was.

MuJoCo itself is the witness of what a file says; the scanner of `test_export` of what changed.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from heft.dynamics import kernels
from heft.errors import FitError, InvalidModel
from heft.information import inertia
from heft.models.export import write_mjcf
from heft.models.options import Options
from heft.models.robot import Robot
from heft.plants import random_states
from tests.mjcfs import ARM, FOLLOWERS, NAMES, SHAPES, Oracle, bare, random_model, source
from tests.robots import FloatArray
from tests.test_export import IMPOSSIBLE, ROUNDING, Tag, bodies, rubbing, scales, scanned

WRITABLE = {
    "inertial": ("pos", "mass", "diaginertia", "fullinertia", "quat"),
    "joint": ("damping", "frictionloss", "armature"),
}
OTHER_ORIENTATIONS = ("euler", "axisangle", "xyaxes", "zaxis")


def read(data: bytes, options: Options | None = None) -> Robot:
    return Robot.from_text(data, options, "robot.xml")


@dataclass(frozen=True)
class Written:
    """A file written with random numbers, and which."""

    robot: Robot
    links: dict[str, FloatArray]
    friction: dict[str, tuple[float, float]]
    armature: dict[str, float]
    data: bytes

    def again(self) -> bytes:
        return write_mjcf(self.data, self.links, self.friction, self.armature)


@cache
def written(name: str) -> Written:
    robot, rng = read(source(name)), np.random.default_rng(1)
    links, friction = bodies(robot, rng), rubbing(robot, rng)
    armature = {j: float(rng.exponential()) for j in robot.joints}
    data = write_mjcf(robot.source, links, friction, armature)
    return Written(robot, links, friction, armature, data)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---- what a file says ------------------------------------------------------------------------


def test_the_regressor_is_the_inverse_dynamics_of_mujoco(name: str) -> None:
    robot = bare(read(source(name)))
    q, v, a = random_states(robot, 50, np.random.default_rng(1))
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    expected = Oracle.of(source(name), robot.joints, FOLLOWERS).inverse_dynamics(q, v, a)
    got = rows @ robot.written_bodies()
    assert np.linalg.norm(got - expected) <= 1e-12 * np.linalg.norm(expected)


@pytest.mark.parametrize("seed", range(30))
def test_so_it_is_for_random_trees(seed: int) -> None:
    data = random_model(seed)
    robot = bare(read(data))
    q, v, a = random_states(robot, 10, np.random.default_rng(seed))
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    expected = Oracle.of(data, robot.joints, {}).inverse_dynamics(q, v, a)
    got = rows @ robot.written_bodies()
    assert np.linalg.norm(got - expected) <= 1e-11 * np.linalg.norm(expected)
    links = bodies(robot, np.random.default_rng(seed))
    out = write_mjcf(data, links, {}, {})
    assert restored(data, out) == data
    assert {k.name for k in read(out).bodies_links if k.given} >= set(links)


def test_bodies_and_joints_are_those_of_the_file() -> None:
    robot = read(source("arm"))
    assert robot.name == "arm"
    assert robot.joints == ("shoulder", "elbow", "roll", "pitch", "reach")
    assert [k.name for k in robot.bodies_links] == ["upper", "forearm", "hand", "camera"]
    assert [k.name for k in robot.links if k.frame_only] == ["tcp"]
    assert robot.options.gravity == (0.3, -1.0, -9.7)
    moving = {k.name: robot.tree.names[k.body] for k in robot.bodies_links}
    # A body whose joint is beside its origin has a frame of its own there.
    assert moving["upper"] == "upper"
    assert moving["forearm"] == "forearm@elbow"
    assert moving["hand"] == moving["camera"] == "hand"


def test_gravity_stated_by_the_user_comes_before_the_files() -> None:
    assert read(source("arm"), Options(gravity=(0.0, 0.0, -9.81))).gravity.tolist()[2] == -9.81


def test_names_that_are_missing_are_made_up() -> None:
    robot = read(source("shapes"))
    assert set(robot.joints) == {"joint_1", "twist", "x", "swing"}
    assert {k.name for k in robot.bodies_links} == {"body_1", "second", "gantry", "bob"}


def test_a_body_without_inertial_has_that_of_its_geoms_and_says_so() -> None:
    robot = read(source("shapes"))
    assert any("body_1, second: no <inertial>" in n for n in robot.notes)
    model = mujoco.MjModel.from_xml_string(SHAPES)
    (second,) = (k for k in robot.links if k.name == "second")
    assert second.given
    assert second.written[0] == pytest.approx(model.body("second").mass[0], rel=1e-12)


@pytest.mark.parametrize("own", ["", 'euler="20 0 0"'])
def test_a_turn_comes_from_the_class_unless_the_element_has_its_own(own: str) -> None:
    text = f"""<mujoco><default><geom quat="0.9 0.1 -0.2 0.3"/></default><worldbody>
    <body name="b"><joint axis="0 0 1"/><geom type="box" size="0.1 0.2 0.3" pos="1 0 0" {own}/>
    </body></worldbody></mujoco>"""
    body = mujoco.MjModel.from_xml_string(text).body("b")
    turn = Rotation.from_quat(body.iquat, scalar_first=True).as_matrix()
    (link,) = read(text.encode()).bodies_links
    _, com, tensor = inertia.to_body(link.written)
    assert com == pytest.approx(body.ipos)
    assert tensor == pytest.approx(turn @ np.diag(body.inertia) @ turn.T, abs=1e-9)


def test_geoms_without_mass_are_no_body() -> None:
    text = """<mujoco><worldbody><body name="a"><joint axis="0 0 1"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <body name="b"><geom type="box" size="0.1 0.1 0.1" mass="0"/></body>
    </body></worldbody></mujoco>"""
    robot = read(text.encode())
    assert [k.name for k in robot.bodies_links] == ["a"]
    assert not any("no <inertial>" in n for n in robot.notes)


def test_meshes_are_not_opened_but_named() -> None:
    text = ARM.replace("<light", "<!-- --> <light").replace(
        '<inertial mass="0.5" pos="0 0 0.03" diaginertia=".001 .0012 .0015"\n'
        '                euler="5 6 7"/>',
        '<geom type="mesh" mesh="hand"/>',
    )
    assert "mesh=" in text
    robot = read(text.encode())
    (hand,) = (k for k in robot.links if k.name == "hand")
    assert not hand.given and hand.nominal[0] > 0.0
    assert any(n.startswith("hand: no <inertial>, and geoms that are meshes") for n in robot.notes)


def floating(tree: str) -> str:
    return f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="table"/>{tree}
    </worldbody></mujoco>"""


TRUNK = """<body name="trunk" pos="0 0 1" euler="10 20 30"><freejoint name="root"/>
  <inertial pos="0.1 0 0" mass="5" diaginertia="0.3 0.2 0.25"/>
  <body name="leg" pos="0 0.1 0"><joint name="hip" axis="0 1 0"/>
    <inertial pos="0 0 -0.2" mass="1" diaginertia="0.02 0.02 0.002"/></body></body>"""


def test_a_floating_base_is_that_of_mujoco() -> None:
    data = floating(TRUNK).encode()
    robot = read(data, Options(base="free"))
    assert robot.joints == ("hip",)
    assert [k.name for k in robot.links] == ["trunk", "leg"]
    rng = np.random.default_rng(2)
    q, v, a = random_states(robot, 20, rng)
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    rows = rows @ robot.written_bodies()
    model = mujoco.MjModel.from_xml_string(data.decode())
    state, turn = mujoco.MjData(model), np.zeros(9)
    for x, y, z, got in zip(q, v, a, rows, strict=True):
        state.qpos[:] = [*x[:3], x[6], *x[3:6], x[7]]
        state.qpos[3:7] /= np.linalg.norm(state.qpos[3:7])
        mujoco.mju_quat2Mat(turn, state.qpos[3:7])
        out = turn.reshape(3, 3)
        # MuJoCo's linear numbers are the world's, heft's the body's own.
        state.qvel[:] = [*(out @ y[:3]), *y[3:]]
        state.qacc[:] = [*(out @ (z[:3] + np.cross(y[3:6], y[:3]))), *z[3:]]
        mujoco.mj_inverse(model, state)
        effort = state.qfrc_inverse
        expected = np.array([*(out.T @ effort[:3]), *effort[3:]])
        assert np.linalg.norm(got - expected) <= 1e-12 * np.linalg.norm(expected)


# ---- what is written -------------------------------------------------------------------------


def test_mujoco_reads_from_the_file_what_was_written(name: str) -> None:
    said = written(name)
    model = mujoco.MjModel.from_xml_string(said.data.decode())
    names = [model.body(b).name or f"body_{b}" for b in range(model.nbody)]
    for link, ten in said.links.items():
        b = names.index(link)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.body_iquat[b])
        axes = turn.reshape(3, 3)
        central = axes @ np.diag(model.body_inertia[b]) @ axes.T
        got = inertia.from_body(float(model.body_mass[b]), model.body_ipos[b], central)
        assert np.linalg.norm(got - ten) <= 20 * ROUNDING * np.linalg.norm(ten)
    names = [model.joint(j).name or f"joint_{j + 1}" for j in range(model.njnt)]
    for joint, rubs in said.friction.items():
        v = names.index(joint)
        got = (model.dof_damping[v], model.dof_frictionloss[v], model.dof_armature[v])
        assert got == pytest.approx((*rubs, said.armature[joint]), rel=ROUNDING)


def test_heft_reads_from_the_file_what_was_written(name: str) -> None:
    said = written(name)
    again = read(said.data)
    assert again.structure_hash() == said.robot.structure_hash()
    assert {k.name for k in again.bodies_links} == set(said.links)
    for link in again.bodies_links:
        error = np.linalg.norm(link.written - said.links[link.name])
        assert error <= 20 * ROUNDING * np.linalg.norm(said.links[link.name])


def restored(original: bytes, data: bytes) -> bytes:
    """Return the written bytes with all that may differ put back as in the original."""
    edits: list[tuple[int, int, bytes]] = []

    def attributes(before: Tag, after: Tag) -> None:
        old, new = before.attributes(original), after.attributes(data)
        for key in WRITABLE[before.name]:
            other = [k for k in OTHER_ORIENTATIONS if k in old] if key == "quat" else []
            if key in old:
                edits.append((*new[key][1:], original[slice(*old[key][1:])]))
            elif other and key in new:
                (begin, _, end), (start, _, stop) = new[key], old[other[0]]
                edits.append((begin, end + 1, original[start : stop + 1]))
            elif key in new:
                begin, _, end = new[key]
                edits.append((begin, end + 1, b""))

    def walk(before: Tag, after: Tag) -> None:
        inside = list(after.children)
        if before.name == "body" and not before.child("inertial") and after.child("inertial"):
            assert inside[0].name == "inertial"
            assert not data[after.opened : inside[0].start].strip()
            if original[before.opened - 2 : before.opened] == b"/>":
                edits.append((after.opened - 1, after.ended, b"/>"))
            else:
                edits.append((after.opened, inside[0].ended, b""))
            inside = inside[1:]
        if before.name in WRITABLE:
            attributes(before, after)
        for old, new in zip(before.children, inside, strict=True):
            walk(old, new)

    for old, new in zip(scanned(original).children, scanned(data).children, strict=True):
        if old.name == "worldbody":
            walk(old, new)
    out, position = [], 0
    for begin, end, text in sorted(edits):
        assert begin >= position
        out += [data[position:begin], text]
        position = end
    return b"".join([*out, data[position:]])


def test_every_other_byte_is_the_files(name: str) -> None:
    said = written(name)
    assert said.data != source(name)
    assert restored(source(name), said.data) == source(name)


def test_the_same_written_again_is_the_same_file(name: str) -> None:
    assert written(name).again() == written(name).data


def test_nothing_to_write_and_what_the_file_says_itself_change_no_byte(name: str) -> None:
    said = written(name)
    assert write_mjcf(source(name), {}, {}, {}) == source(name)
    own = {k.name: k.written for k in read(said.data).bodies_links}
    assert write_mjcf(said.data, own, {}, {}) == said.data


def test_windows_line_endings_are_kept() -> None:
    data = SHAPES.replace("\n", "\r\n").encode()
    robot = read(data)
    out = write_mjcf(data, bodies(robot, np.random.default_rng(3)), {}, {})
    assert re.search(rb"(?<!\r)\n", out) is None
    assert restored(data, out) == data


def test_what_does_not_move_is_left_alone() -> None:
    line = b'<inertial pos="0 0 0" mass="4" diaginertia="1 1 1"/>'
    assert line in source("arm") and line in written("arm").data


def test_principal_axes_stay_in_the_files_order() -> None:
    """A little more mass must not make a reader compare other axes."""
    robot = read(source("arm"))
    (upper,) = (k for k in robot.links if k.name == "upper")
    data = write_mjcf(source("arm"), {"upper": 1.01 * upper.written}, {}, {}).decode()
    found = re.search(r'mass="2.525" diaginertia="([^"]*)"\s+quat="([^"]*)"', data)
    assert found is not None
    moments, quaternion = ([float(x) for x in g.split()] for g in found.groups())
    assert moments == pytest.approx([0.0202, 0.0303, 0.0404])
    file = np.array([0.9, 0.1, -0.2, 0.3])
    assert quaternion == pytest.approx(file / np.linalg.norm(file))


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_body_that_cannot_be_is_never_written(case: str) -> None:
    with pytest.raises(FitError):
        write_mjcf(source("arm"), {"upper": IMPOSSIBLE[case]}, {}, {})


@pytest.mark.parametrize("scale", scales())
def test_rounded_numbers_are_still_those_of_a_rigid_body_to_mujoco(scale: str) -> None:
    ten = scales()[scale]
    data = write_mjcf(source("arm"), {"upper": ten, "forearm": ten}, {}, {})
    model = mujoco.MjModel.from_xml_string(data.decode())
    for body in ("upper", "forearm"):
        assert model.body(body).mass[0] == pytest.approx(ten[0], rel=ROUNDING)


# ---- what is refused -------------------------------------------------------------------------

UPPER = 'pos="0.01 0.02 0.1" mass="2.5" diaginertia="0.02 0.03 0.04"'
BAD: dict[str, tuple[str, str, str]] = {
    **{
        f"a mass of {value!r}": ('mass="2.5"', f'mass="{value}"', "mass is not a finite number")
        for value in ("nan", "inf", "1,5", "heavy", "1.5kg", "1_5", "0x2", "", "1 2")
    },
    "a negative mass": ('mass="2.5"', 'mass="-2.5"', "mass is negative"),
    "no mass": (' mass="2.5"', "", "<inertial> has no mass"),
    "no place of the mass": ('pos="0.01 0.02 0.1" mass', "mass", "<inertial> has no pos"),
    "no moments": (' diaginertia="0.02 0.03 0.04"', "", "either diaginertia or fullinertia"),
    "moments twice": (UPPER, UPPER + ' fullinertia="1 1 1 0 0 0"', "either diaginertia or"),
    "two moments": ('"0.02 0.03 0.04"', '"0.02 0.03"', "diaginertia is not 3 finite numbers"),
    "a full inertia in turned axes": (
        'fullinertia="0.02',
        'quat="1 0 0 0" fullinertia="0.02',
        "no orientation beside it",
    ),
    "an orientation stated twice": ('quat="0.9', 'euler="0 0 0" quat="0.9', "stated twice"),
    "a quaternion of zeros": ("0.9 0.1 -0.2 0.3", "0 0 0 0", "no direction"),
    "an axis of zeros": ('axis="0 0 2"', 'axis="0 0 0"', "no direction"),
    "an axis of nan": ('axis="0 0 2"', 'axis="0 0 nan"', "axis is not 3 finite numbers"),
    "an armature with a comma": (
        'armature="0.02"',
        'armature="0,02"',
        "decimal point, not a comma",
    ),
    "a negative friction": ('frictionloss="0.25"', 'frictionloss="-1"', "frictionloss is negative"),
    "a damping of text": ('damping="0.5"', 'damping="much"', "damping is not a finite number"),
    "a ball joint": ('axis="0 0 2"', 'type="ball"', "joints of type 'ball' cannot be"),
    "a free joint inside": ('axis="0 0 2"', 'type="free"', "not at the top of the tree"),
    "a joint's name twice": ('name="elbow"', 'name="shoulder"', "two joints are called 'shoulder'"),
    "a body's name twice": ('name="forearm"', 'name="upper"', "two bodies are called 'upper'"),
    "a class that is not there": ('class="main"', 'class="mian"', "did you mean 'main'"),
    "another file": ("<light", '<include file="scene.xml"/><light', "give scene.xml itself"),
    "a body repeated": ("<light", '<replicate count="9"/><light', "to_xml"),
    "a body from another file": ("<light", '<attach model="a"/><light', "<attach> brings in"),
    "an element misspelt": ("<light", "<boddy/><light", "did you mean 'body'"),
    "masses from geoms alone": (
        'angle="degree"',
        'angle="degree" inertiafromgeom="true"',
        "take inertiafromgeom out",
    ),
    "a total mass": ('angle="degree"', 'angle="degree" settotalmass="9"', "take settotalmass out"),
    "an unknown unit": ('angle="degree"', 'angle="grad"', "unit of angles is not known"),
    "an Euler sequence of two": ('"XYz"', '"XY"', "not three axes"),
    "gravity of text": ("0.3 -1 -9.7", "down", "gravity is not 3 finite numbers"),
    "a loop": ("<actuator>", "<equality><connect body1='hand'/></equality><actuator>", "closes a"),
    "a locked joint": (
        "<actuator>",
        "<equality><joint joint1='elbow'/></equality><actuator>",
        "fixed = true",
    ),
    "a joint that follows in a curve": (
        "<actuator>",
        "<equality><joint joint1='elbow' joint2='roll' polycoef='0 1 2'/></equality><actuator>",
        "no mimic can say",
    ),
    "a joint that follows none": (
        "<actuator>",
        "<equality><joint joint1='elbow' joint2='rol'/></equality><actuator>",
        "did you mean 'roll'",
    ),
    "a number too large": ('mass="2.5"', 'mass="1e200"', "mass is beyond anything that moves"),
    "a geom of negative mass": (
        '<inertial mass="0.5"',
        '<geom size="1" mass="-1"/><!-- <inertial mass="0.5"/> --><site mass="1"',
        "a geom's mass is negative",
    ),
    "an inertial in a frame": (
        '<body name="tcp" pos="0 0 0.1"/>',
        '<body name="tcp"><frame><inertial mass="1" pos="0 0 0"/></frame></body>',
        "stands in a <frame>",
    ),
    "a document type": ("<mujoco ", '<!DOCTYPE m [<!ENTITY a "b">]><mujoco ', "document type"),
    "a macro": ('mass="2.5"', 'mass="${m}"', "xacro robot.xml > arm.urdf"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_by_name(case: str) -> None:
    old, new, says = BAD[case]
    assert ARM.count(old) >= 1
    with pytest.raises(InvalidModel) as caught:
        read(ARM.replace(old, new, 1).encode())
    assert says in str(caught.value)
    assert "robot.xml" in (caught.value.argument or "")


def test_what_floats_and_what_should_must_be_the_same() -> None:
    with pytest.raises(InvalidModel, match="fixed = true"):
        read(floating(TRUNK).encode())
    with pytest.raises(InvalidModel, match="one body at the top"):
        read(source("arm").replace(b"</worldbody>", b"<body name='x'/></worldbody>"),
             Options(base="free"))  # fmt: skip
    loose = TRUNK + '<body name="door"><joint name="hinge"/></body>'
    with pytest.raises(InvalidModel, match="not part of what floats"):
        read(floating(loose).encode(), Options(base="free"))


def test_the_command_that_flattens_includes_works(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(ARM)
    scene = tmp_path / "the scene's.xml"
    scene.write_text('<mujoco><include file="arm.xml"/></mujoco>')
    with pytest.raises(InvalidModel) as caught:
        Robot.from_file(scene)
    found = re.search("`(python .*) > arm.xml`", caught.value.cure or "")
    assert found is not None
    call = [sys.executable, *shlex.split(found[1])[1:]]
    answer = subprocess.run(call, capture_output=True, check=True)
    flat, arm = read(answer.stdout), read(source("arm"))
    assert flat.joints == arm.joints
    error = np.linalg.norm(flat.written_bodies() - arm.written_bodies())
    assert error <= 1e-5 * np.linalg.norm(arm.written_bodies())  # six digits are written


def test_gravity_that_is_switched_off_is_none() -> None:
    text = ARM.replace('-9.7"/>', '-9.7"><flag gravity="disable"/></option>')
    assert read(text.encode()).gravity.tolist() == [0.0, 0.0, 0.0]


def test_springs_lifted_bodies_and_odd_gravity_are_told() -> None:
    text = ARM.replace('<joint axis="0 1 0"', '<joint stiffness="5" axis="0 1 0"')
    text = text.replace('<body name="hand"', '<body name="hand" gravcomp="1"')
    text = text.replace("0.3 -1 -9.7", "0 0 0").replace("angle=", 'boundmass="1" angle=')
    notes = "\n".join(read(text.encode()).notes)
    assert "springs (stiffness)" in notes and "gravcomp" in notes
    assert "gravity is 0 m/s²" in notes and "hand, camera: MuJoCo raises" in notes


def test_a_body_as_light_as_the_file_allows_is_not_raised() -> None:
    """MuJoCo raises what is below boundmass, and leaves what is equal to it."""
    heaviest = float(read(ARM.encode()).written_bodies().reshape(-1, 10)[:, 0].max())
    notes = {}
    for bound in (heaviest, 1.001 * heaviest):
        text = ARM.replace("angle=", f'boundmass="{bound!r}" angle=')
        notes[bound] = "".join(read(text.encode()).notes)
    assert "upper" not in notes[heaviest] and "upper" in notes[1.001 * heaviest]
