"""The same arm in every language of models: one answer, and results that are read again."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import mujoco
import numpy as np
import pytest

from heft.applications.doctor import diagnose
from heft.applications.identification.identification import identify
from heft.applications.identification.identified import Identified
from heft.applications.identification.results import write
from heft.dynamics import kernels
from heft.errors import InvalidModel
from heft.information import inertia
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.recordings.recording import Recording
from tests.experiments import fourier
from tests.robots import PLANAR_ARM, PLANAR_LENGTH, FloatArray, Oracle

DOWN = (0.0, -9.81, 0.0)
JOINTS = ("shoulder", "elbow")
UPPER = (3.0, (0.3, 0.02, 0.01), ((0.02, 0.001, 0.0), (0.001, 0.2, 0.0), (0.0, 0.0, 0.21)))
LOWER = (2.0, (0.2, -0.01, 0.0), ((0.01, 0.0, 0.001), (0.0, 0.1, 0.0), (0.001, 0.0, 0.105)))
# The lower body's frame stands beside its joint.
BESIDE = 0.05
MJCF = f"""<mujoco model="planar"><compiler angle="radian"/><option gravity="0 -9.81 0"/>
  <worldbody><body name="upper"><joint name="shoulder" axis="0 0 1"/>
    <inertial pos="0.3 0.02 0.01" mass="3" fullinertia="0.02 0.2 0.21 0.001 0 0"/>
    <body name="lower" pos="{PLANAR_LENGTH + BESIDE} 0 0">
      <joint name="elbow" axis="0 0 1" pos="{-BESIDE} 0 0"/>
      <inertial pos="{0.2 - BESIDE} -0.01 0" mass="2" fullinertia="0.01 0.1 0.105 0 0.001 0"/>
    </body></body></worldbody></mujoco>"""


def toml(convention: str) -> str:
    length = PLANAR_LENGTH
    lengths = (0.0, length) if convention == "modified" else (length, 0.0)
    text = f'name = "planar"\ngravity = [0, -9.81, 0]\n[link]\nconvention = "{convention}"\n'
    text += 'joints = ["shoulder", "elbow"]\nnames = ["upper", "lower"]\n'
    text += f'table = [[{lengths[0]}, 0, 0, 0, "revolute"], [{lengths[1]}, 0, 0, 0, "revolute"]]\n'
    for name, (mass, com, tensor) in (("upper", UPPER), ("lower", LOWER)):
        # With the standard convention the first link's frame is at its far end.
        back = length if (convention, name) == ("standard", "upper") else 0.0
        place = [com[0] - back, *com[1:]]
        rows = [list(row) for row in tensor]
        text += f"[inertial.{name}]\nmass = {mass}\ncom = {place}\ninertia = {rows}\n"
    return text


FILES: dict[str, tuple[str, bytes]] = {
    "URDF": ("arm.urdf", PLANAR_ARM),
    "MJCF": ("arm.xml", MJCF.encode()),
    "modified rows": ("arm.toml", toml("modified").encode()),
    "standard rows": ("arm.toml", toml("standard").encode()),
}
LEFT = {
    "URDF": {"robot.urdf"},
    "MJCF": {"robot.xml"},
    "modified rows": {"robot.toml", "robot.urdf"},
    "standard rows": {"robot.toml", "robot.urdf"},
}


@cache
def recording() -> Recording:
    time = np.arange(3000) / 200.0
    q, v, a = fourier(2, time, np.random.default_rng(4))
    tau = Oracle.of(Robot.from_urdf_text(PLANAR_ARM, Options(gravity=DOWN))).inverse_dynamics(
        q, v, a
    )
    tau += (
        0.05 * a
        + 0.3 * v
        + 0.4 * np.sign(v)
        + 0.02 * np.random.default_rng(1).normal(size=tau.shape)
    )
    return Recording.from_arrays(
        time,
        "planar",
        q=dict(zip(JOINTS, q.T, strict=True)),
        tau=dict(zip(JOINTS, tau.T, strict=True)),
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identified]:
    """Return what was found with each file, read again from its folder."""
    found = {}
    for kind, (name, data) in FILES.items():
        folder = tmp_path_factory.mktemp("models")
        (folder / name).write_bytes(data)
        joint = dict.fromkeys(JOINTS, JointOptions(friction="simple"))
        gravity = DOWN if kind == "URDF" else None
        robot = Robot.from_file(folder / name, Options(gravity=gravity, joint=joint))
        write(identify(robot, [recording()]), folder / "out")
        found[kind] = Identified.load(folder / "out")
    return found


def predicted(found: Identified) -> FloatArray:
    return np.concatenate([part.effort for part in found.predictions(recording())])


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_the_same_kind_is_left(kind: str, results: dict[str, Identified]) -> None:
    names = {p.name for p in results[kind].folder.iterdir()}
    assert {n for n in names if n.startswith("robot.")} == LEFT[kind]


@pytest.mark.parametrize("kind", FILES)
def test_the_answer_does_not_depend_on_the_language(
    kind: str, results: dict[str, Identified]
) -> None:
    ours, urdf = results[kind], results["URDF"]
    assert ours.robot.options.gravity == DOWN
    bodies, reference = ours.robot.written_bodies(), urdf.robot.written_bodies()
    assert np.linalg.norm(bodies - reference) <= 1e-8 * np.linalg.norm(reference)
    torque, like = predicted(ours), predicted(urdf)
    assert np.linalg.norm(torque - like) <= 1e-8 * np.linalg.norm(like)


@pytest.mark.parametrize("kind", ["modified rows", "standard rows"])
def test_the_urdf_beside_a_table_is_the_same_robot(
    kind: str, results: dict[str, Identified]
) -> None:
    found = results[kind]
    beside = Robot.from_file(found.folder / "robot.urdf", Options(gravity=DOWN))
    there, here = beside.written_bodies(), found.robot.written_bodies()
    assert np.linalg.norm(there - here) <= 1e-8 * np.linalg.norm(here)


def test_friction_and_rotors_stand_in_an_mjcf_file(results: dict[str, Identified]) -> None:
    found = results["MJCF"]
    model = mujoco.MjModel.from_xml_string((found.folder / "robot.xml").read_text())
    for k, joint in enumerate(JOINTS):
        terms = found.friction["simple"]
        assert model.dof_damping[k] == pytest.approx(terms[f"{joint}.viscous"], rel=1e-8)
        assert model.dof_frictionloss[k] == pytest.approx(terms[f"{joint}.coulomb"], rel=1e-8)
        assert model.dof_armature[k] == pytest.approx(terms[f"{joint}.armature"], rel=1e-8)
        assert model.dof_armature[k] == pytest.approx(0.05, rel=0.05)


TWO_AT_ONCE = """<mujoco><compiler angle="radian"/><worldbody><body name="ball">
  <joint name="pan" axis="0 1 0"/><joint name="tilt" axis="1 0 0" pos="0 0 0.02"/>
  <inertial pos="0.1 0.05 -0.3" mass="2" diaginertia="0.02 0.021 0.01"/>
</body></worldbody></mujoco>"""


def test_two_joints_of_one_body_are_identified(tmp_path: Path) -> None:
    joint = dict.fromkeys(("pan", "tilt"), JointOptions(friction="simple", armature=False))
    robot = Robot.from_text(TWO_AT_ONCE.encode(), Options(joint=joint), "robot.xml")
    assert [k.name for k in robot.bodies_links] == ["ball"]
    time = np.arange(3000) / 200.0
    q, v, a = fourier(2, time, np.random.default_rng(5))
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    tau = rows @ robot.written_bodies() + 0.1 * v
    tau += 0.01 * np.random.default_rng(6).normal(size=tau.shape)
    signals = {n: dict(zip(joint, x.T, strict=True)) for n, x in (("q", q), ("tau", tau))}
    found = identify(robot, [Recording.from_arrays(time, "ball", **signals)])
    write(found, tmp_path / "out")
    (ball,) = (k for k in Identified.load(tmp_path / "out").robot.links if k.name == "ball")
    assert ball.written[0] == pytest.approx(2.0, rel=0.05)
    assert ball.written[1:4] == pytest.approx([0.2, 0.1, -0.6], abs=0.01)


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(InvalidModel, match="no regular file"):
        Robot.from_file("/dev/zero")


WITH_MESHES = {
    "arm.urdf": """<robot name="r"><link name="base"/><link name="arm"><visual><geometry>
      <mesh filename="file://{folder}/secret.stl"/></geometry></visual></link>
      <joint name="j" type="continuous"><parent link="base"/><child link="arm"/></joint></robot>""",
    "arm.xml": """<mujoco><compiler meshdir="{folder}"/><asset><mesh name="m" file="secret.stl"/>
      </asset><worldbody><body name="arm"><joint name="j"/><geom type="mesh" mesh="m"/></body>
      </worldbody></mujoco>""",
}
WATCH = """
import sys
import heft, heft.plants, pinocchio
seen = []
sys.addaudithook(lambda event, args: event == "open" and seen.append(str(args[0])))
assert heft.Robot.from_file(sys.argv[1]).joints == ("j",)
print("\\n".join(seen))
"""


@pytest.mark.parametrize("name", WITH_MESHES)
def test_no_file_is_opened_but_the_model(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.stl").write_bytes(b"solid")
    (tmp_path / name).write_text(WITH_MESHES[name].replace("{folder}", str(tmp_path)))
    call = [sys.executable, "-c", WATCH, str(tmp_path / name)]
    answer = subprocess.run(call, capture_output=True, text=True, check=True)
    opened = [line for line in answer.stdout.splitlines() if str(tmp_path) in line]
    assert opened == [str(tmp_path / name)]


def template_arm(moments: tuple[str, str, str]) -> bytes:
    """An arm of three links of 3, 2 and 1 kg, .4 m from joint to joint, with these moments."""
    text = '<robot name="arm"><link name="base"/>'
    for k, value in enumerate(moments):
        inertia = f'ixx="{value}" ixy="0" ixz="0" iyy="{value}" iyz="0" izz="{value}"'
        above = f"l{k - 1}" if k else "base"
        text += (
            f'<link name="l{k}"><inertial><origin xyz="0.2 0 0"/><mass value="{3 - k}"/>'
            f'<inertia {inertia}/></inertial></link><joint name="j{k}" type="continuous">'
            f'<parent link="{above}"/><child link="l{k}"/><origin xyz="0.4 0 0"/></joint>'
        )
    return f"{text}</robot>".encode()


@pytest.mark.parametrize(
    ("moments", "named", "why"),
    [
        (("0.05", "0.03", "0.01"), "", ""),
        (("1e-6", "0.03", "0.01"), "l0;", "far smaller"),
        (("1e-6", "1e-6", "1e-6"), "l0, l1, l2;", "far smaller"),
        (("0.01", "0.01", "0.01"), "l0, l1, l2;", "the same"),
        (("0.5", "9", "0.01"), "l1;", "far larger"),
        (("0.05", "0.01", "0.01"), "l1, l2;", "power of ten"),
    ],
)
def test_moments_of_a_template_are_named_link_by_link(
    moments: tuple[str, str, str], named: str, why: str
) -> None:
    robot = Robot.from_urdf_text(template_arm(moments))
    notes = [n for n in robot.notes if "template" in n]
    assert len(notes) == bool(named)
    assert all(named in n and why in n for n in notes)
    # A rod of .4 m has .29 of that; two links know their length by the next joint.
    assert robot.least_gyrations() == pytest.approx((0.08, 0.08, 0.08))
    log = Recording.from_arrays(np.arange(200) / 100.0, **wagging(robot))
    assert list(diagnose([log], robot).notes) == list(robot.notes)


def test_moments_of_a_far_larger_body_are_not_believed() -> None:
    link = Robot.from_urdf_text(template_arm(("0.5", "9", "0.01"))).bodies_links[1]
    mass, center, tensor = inertia.to_body(link.believed)
    assert (mass, *center) == pytest.approx((2.0, 0.2, 0.0, 0.0))
    assert np.linalg.eigvalsh(tensor) == pytest.approx(2.0 * 2.0 * 0.08**2)  # both other axes


def test_what_is_fixed_far_from_the_joint_may_be_small() -> None:
    flange = (
        b'<link name="sensor"><inertial><mass value="0.01"/><inertia ixx="4e-7" ixy="0" ixz="0" '
        b'iyy="4e-7" iyz="0" izz="4e-7"/></inertial></link><joint name="to" type="fixed">'
        b'<parent link="l2"/><child link="sensor"/><origin xyz="0.4 0 0"/></joint></robot>'
    )
    xml = template_arm(("0.05", "0.03", "0.01")).replace(b"</robot>", flange)
    assert not Robot.from_urdf_text(xml).notes


@pytest.mark.parametrize(
    ("moments", "why"),
    [
        ((1e4, 0, 0, 1e4, 0, 1e4), "divide the moments by 1e6"),  # in kg·mm²
        ((0.01, 0, 0, 0.01, 0, 0.05), "2.5 times the sum"),
        ((0.01, 0, 0, -0.01, 0, 0.01), "a principal moment of inertia is -0.01"),
        ((0.03, 1e-4, 0, 1e-4, 0.05, 0), "its iyy repeats ixy"),  # rows one after another
    ],
)
def test_moments_that_no_body_has_are_replaced_and_said_why(
    moments: tuple[float, ...], why: str
) -> None:
    good = 'ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.05"'
    bad = 'ixx="{}" ixy="{}" ixz="{}" iyy="{}" iyz="{}" izz="{}"'.format(*moments)
    xml = template_arm(("0.05", "0.03", "0.01"))
    robot = Robot.from_urdf_text(xml.replace(good.encode(), bad.encode()))
    link, least = robot.bodies_links[0], robot.least_gyrations()[0]
    assert [why in n for n in robot.notes if f"'{link.name}'" in n] == [True]
    mass, center, own = inertia.to_body(link.believed)
    assert (mass, center[0]) == pytest.approx((3.0, 0.2))
    second = np.linalg.eigvalsh(0.5 * np.trace(own) * np.eye(3) - own) / mass
    assert 0.99 * least**2 < second.min() < second.max() < 0.4**2


def wagging(robot: Robot) -> dict[str, dict[str, FloatArray]]:
    """Positions and torques of some motion, whatever they are."""
    rng, t = np.random.default_rng(0), np.arange(200) / 100.0
    return {k: {j: np.sin(5 * t + rng.normal()) for j in robot.joints} for k in ("q", "tau")}
