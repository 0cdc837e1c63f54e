"""Tables of Denavit-Hartenberg rows: the textbooks' matrices, and pinocchio's dynamics of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from heft.dynamics import kernels
from heft.errors import FitError, InputError, InvalidModel, InvalidSetting
from heft.information import inertia
from heft.models.export import write, write_toml
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import random_states
from tests.robots import FloatArray, load
from tests.test_export import IMPOSSIBLE, ROUNDING, bodies, rubbing

STILL = JointOptions(friction="none", armature=False)
GRAVITY = (0.4, -2.0, -9.5)


def craig(a: float, alpha: float, d: float, theta: float) -> FloatArray:
    """Return frame i in frame i−1 [Craig1986, eq. 3.6]."""
    ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array(
        [
            [ct, -st, 0.0, a],
            [st * ca, ct * ca, -sa, -sa * d],
            [st * sa, ct * sa, ca, ca * d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def spong(a: float, alpha: float, d: float, theta: float) -> FloatArray:
    """Return frame i in frame i−1 [Spong1989, eq. 3.10]."""
    ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array(
        [
            [ct, -st * ca, st * sa, a * ct],
            [st, ct * ca, -ct * sa, a * st],
            [0.0, sa, ca, d],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


STEPS = {"modified": craig, "standard": spong}


@dataclass(frozen=True)
class Arm:
    """A random table with its inertials."""

    convention: str
    rows: tuple[tuple[float, float, float, float, str], ...]
    bodies: Mapping[str, FloatArray]

    @staticmethod
    def random(convention: str, seed: int) -> Arm:
        rng = np.random.default_rng(seed)
        kinds = ["revolute", "prismatic", "revolute", "revolute", "prismatic", "revolute"]
        rows = tuple((*rng.uniform(-1.5, 1.5, 4).tolist(), k) for k in rng.permutation(kinds))
        found = {}
        for k in range(len(rows)):
            points = rng.normal(size=(3, 4))
            moments = points @ points.T
            central = 0.1 * (np.trace(moments) * np.eye(3) - moments)
            found[f"link{k + 1}"] = inertia.from_body(
                float(rng.uniform(1.0, 3.0)), rng.normal(0.0, 0.2, 3), central
            )
        return Arm(convention, rows, found)

    @property
    def toml(self) -> str:
        lines = [f"gravity = {list(GRAVITY)}", "[link]", f'convention = "{self.convention}"']
        lines.append("table = [")
        lines += [f'  [{a!r}, {b!r}, {c!r}, {d!r}, "{k}"],' for a, b, c, d, k in self.rows]
        lines.append("]")
        for name, ten in self.bodies.items():
            mass, com, tensor = inertia.to_body(ten)
            lines += [f"[inertial.{name}]", f"mass = {mass!r}", f"com = {com.tolist()}"]
            lines.append(f"inertia = {tensor.tolist()}")
        return "\n".join(lines)

    def frames(self, q: FloatArray) -> list[FloatArray]:
        """Return each link's frame in the base's."""
        here, found = np.eye(4), []
        for (a, alpha, d, theta, kind), x in zip(self.rows, q, strict=True):
            moved = (d + x, theta) if kind == "prismatic" else (d, theta + x)
            here = here @ STEPS[self.convention](a, alpha, *moved)
            found.append(here)
        return found

    def model(self) -> pin.Model:
        """Return pinocchio's model, built joint by joint."""
        model, above = pin.Model(), 0
        model.gravity.linear = np.array(GRAVITY)
        before = np.eye(4)
        for k, (a, alpha, d, theta, kind) in enumerate(self.rows):
            joint = pin.JointModelPZ() if kind == "prismatic" else pin.JointModelRZ()
            if self.convention == "modified":
                place, inside = craig(a, alpha, d, theta), np.eye(4)
            else:  # the joint stands where the last link's frame is
                place, inside = before @ spong(0.0, 0.0, d, theta), spong(a, alpha, 0.0, 0.0)
            above = model.addJoint(above, joint, pin.SE3(place), f"joint{k + 1}")
            body = pin.Inertia.FromDynamicParameters(self.bodies[f"link{k + 1}"])
            model.appendBodyToJoint(above, body, pin.SE3(inside))
            before = inside
        return model


@pytest.fixture(params=[(c, s) for c in STEPS for s in (1, 2, 3)], ids=str)
def arm(request: pytest.FixtureRequest) -> Arm:
    return Arm.random(*request.param)


def read(text: str, friction: bool = False) -> Robot:
    robot = Robot.from_text(text.encode(), path="robot.toml")
    if friction:
        return robot
    options = Options(joint=dict.fromkeys(robot.joints, STILL))
    return Robot.from_text(text.encode(), options, "robot.toml")


def placed(robot: Robot, q: FloatArray) -> dict[str, FloatArray]:
    """Return each link's frame in the base's, from what heft keeps of the robot."""
    tree, frames = robot.tree, []
    for b, parent in enumerate(tree.parent):
        step, turn = np.eye(4), tree.axis[b] * q[tree.channel[b]]
        step[:3, :3], step[:3, 3] = tree.rotation[b], tree.translation[b]
        joint = np.eye(4)
        if tree.kind[b] == 0:
            joint[:3, :3] = pin.exp3(turn)
        else:
            joint[:3, 3] = turn
        frames.append((frames[parent] if parent >= 0 else np.eye(4)) @ step @ joint)
    found = {}
    for link in robot.links:
        if link.body >= 0:
            inside = np.eye(4)
            inside[:3, :3], inside[:3, 3] = link.rotation, link.translation
            found[link.name] = frames[link.body] @ inside
    return found


def test_links_stand_where_the_textbooks_say(arm: Arm) -> None:
    robot = read(arm.toml)
    for q in np.random.default_rng(4).uniform(-2.0, 2.0, (10, 6)):
        got = placed(robot, q)
        for k, expected in enumerate(arm.frames(q)):
            assert np.allclose(got[f"link{k + 1}"], expected, rtol=0.0, atol=1e-13)


def test_the_regressor_is_the_inverse_dynamics_of_pinocchio(arm: Arm) -> None:
    robot, model = read(arm.toml), arm.model()
    data = model.createData()
    q, v, a = random_states(robot, 30, np.random.default_rng(5))
    rows = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, q, v, a))
    expected = np.array([pin.rnea(model, data, *x) for x in zip(q, v, a, strict=True)])
    got = rows @ robot.written_bodies()
    assert np.linalg.norm(got - expected) <= 1e-13 * np.linalg.norm(expected)


# The vendor's table of the same arm [Franka Control Interface, Denavit-Hartenberg parameters].
PANDA = """
name = "panda"
[link]
convention = "modified"
joints = [{joints}]
table = [
  [0.0,     0.0,                 0.333, 0.0, "revolute"],
  [0.0,    -1.5707963267948966,  0.0,   0.0, "revolute"],
  [0.0,     1.5707963267948966,  0.316, 0.0, "revolute"],
  [0.0825,  1.5707963267948966,  0.0,   0.0, "revolute"],
  [-0.0825,-1.5707963267948966,  0.384, 0.0, "revolute"],
  [0.0,     1.5707963267948966,  0.0,   0.0, "revolute"],
  [0.088,   1.5707963267948966,  0.0,   0.0, "revolute"],
]
""".format(joints=", ".join(f'"panda_joint{k}"' for k in range(1, 8)))


def test_the_panda_of_its_vendors_table_is_that_of_its_urdf() -> None:
    table, file = read(PANDA), load("panda_description/urdf/panda.urdf")
    assert table.joints == file.joints[:7]
    for q in np.random.default_rng(6).uniform(-2.0, 2.0, (10, 7)):
        here = placed(table, q)
        there = placed(file, np.append(q, np.zeros(len(file.joints) - 7)))
        for k in range(1, 8):
            # The URDF's angles have six digits.
            assert np.allclose(here[f"link{k}"], there[f"panda_link{k}"], rtol=0.0, atol=1e-5)


def test_links_without_inertial_get_a_stand_in() -> None:
    for convention in STEPS:
        robot = read(PANDA.replace("modified", convention))
        assert [k.name for k in robot.bodies_links] == [f"link{k}" for k in range(1, 8)]
        assert not any(k.given or k.frame_only for k in robot.bodies_links)
        assert all(k.nominal[0] > 0.0 for k in robot.bodies_links)


def test_gravity_is_the_tables_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "arm.toml"
    path.write_text(Arm.random("modified", 1).toml)
    assert Robot.from_file(path).options.gravity == GRAVITY
    other = Options(gravity=(0.0, 0.0, -1.6))
    assert Robot.from_file(path, other).options.gravity == (0.0, 0.0, -1.6)


def test_what_is_written_is_read_back_and_so_is_the_urdf(arm: Arm) -> None:
    # A comment to keep, and a link that the file says nothing of.
    start = arm.toml.index("[inertial.link4]")
    text = "# measured twice\n" + arm.toml[:start] + arm.toml[arm.toml.index("[inertial.link5]") :]
    robot, rng = read(text, friction=True), np.random.default_rng(7)
    links, friction = bodies(robot, rng), rubbing(robot, rng)
    files = write(robot, links, friction, {})
    assert list(files) == ["robot.toml", "robot.urdf"]
    again = Robot.from_text(files["robot.toml"], path="robot.toml")
    beside = Robot.from_text(files["robot.urdf"], path="robot.urdf")
    assert again.structure_hash() == robot.structure_hash()
    for name, ten in links.items():
        for other in (again, beside):
            (link,) = (k for k in other.links if k.name == name)
            assert np.linalg.norm(link.written - ten) <= 20 * ROUNDING * np.linalg.norm(ten)
    assert files["robot.toml"].startswith(text[: text.index("[inertial")].encode())
    model = pin.buildModelFromXML(files["robot.urdf"].decode())
    for joint, (damping, dry) in friction.items():
        at = model.joints[model.getJointId(joint)].idx_v
        assert model.damping[at] == pytest.approx(damping, rel=ROUNDING)
        assert model.upperDryFrictionLimit[at] == pytest.approx(dry, rel=ROUNDING)
    assert write(again, links, friction, {}) == files


HEAD = (
    'name = "arm" # mine\n[link]\nconvention = "standard"\ntable = [[0.1, 0, 0, 0, "revolute"]]\n'
)
BODY = "mass = 1 # kg\ncom = [0, 0, 0]\ninertia = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n"
STYLES: dict[str, str] = {
    "nothing said": HEAD,
    "no newline at the end": HEAD.rstrip(),
    "a table": f"{HEAD}[inertial.link1]\n{BODY}",
    "a table in front": HEAD.replace("[link]", f"[inertial.link1]\n{BODY}# end\n[link]"),
    "dotted keys": "".join(f"inertial.link1.{k}\n" for k in BODY.splitlines()) + HEAD,
    "an inline table": "inertial = {link1 = {mass = 1, com = [0, 0, 0], inertia = [[1, 0, 0], "
    f"[0, 1, 0], [0, 0, 1]]}}}}\n{HEAD}",
    "an empty inline table": f"inertial = {{}}\n{HEAD}",
    "windows": HEAD.replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + HEAD,
}


@pytest.mark.parametrize("style", STYLES)
def test_any_style_of_toml_is_kept(style: str) -> None:
    ten = inertia.from_body(1.5, np.array([0.1, 0.0, 0.0]), np.diag([0.1, 0.2, 0.25]))
    out = write_toml(STYLES[style].encode(), {"link1": ten})
    link = next(k for k in read(out.decode()).links if k.name == "link1")
    assert np.linalg.norm(link.written - ten) <= ROUNDING * np.linalg.norm(ten)
    assert write_toml(out, {"link1": ten}) == out
    windows = style == "windows"
    for line in HEAD.splitlines():
        assert line.encode() + (b"\r\n" if windows else b"\n") in out
    assert (re.search(rb"(?<!\r)\n", out) is None) == windows
    assert out.startswith(b"\xef\xbb\xbf") == (style == "byte order mark")


def test_a_body_that_cannot_be_is_never_written() -> None:
    robot = read(PANDA)
    for ten in IMPOSSIBLE.values():
        with pytest.raises(FitError):
            write(robot, {"link1": ten}, {}, {})


GOOD = Arm.random("modified", 1).toml
BAD: dict[str, tuple[str, str, str]] = {
    "no TOML": ("[link]", "[link", "not a TOML file"),
    "an unknown key": ("gravity", "gravitiy", "did you mean 'gravity'"),
    "an unknown key of the link": ("convention", "convension", "did you mean 'convention'"),
    "no convention": ('convention = "modified"', "", "the convention of the rows is not said"),
    "another convention": ('"modified"', '"khalil"', "unknown convention"),
    "a joint of another kind": ('"revolute"', '"revolut"', "did you mean 'revolute'"),
    "a short row": ('"revolute"]', "]", "not [a, alpha, d, theta, kind]"),
    "gravity in words": ("[0.4, -2.0, -9.5]", '"down"', "list of 3 numbers"),
    "a link that is not there": ("[inertial.link1]", "[inertial.lnk1]", "did you mean 'link1'"),
    "no mass": ("mass = ", "# mass = ", "mass is missing"),
    "a mass in words": ("mass = ", 'mass = "heavy" # ', "a finite number is expected"),
    "a mass of nan": ("mass = ", "mass = nan # ", "a finite number is expected"),
    "a negative mass": ("mass = ", "mass = -", "mass is negative"),
    "a number too large": ("mass = ", "mass = 1e200 # ", "at most 1e+12"),
    "two inertias": ("inertia = [[", "inertia = [[1, 1], [", "differ in length"),
    "an inertia that is not symmetric": (
        "inertia = [[",
        "inertia = [[1, 2, 3], [4, 5, 6], [7, 8, 9]] # [[",
        "not a symmetric 3×3 matrix",
    ),
    "too few names": ("[link]", '[link]\njoints = ["a", "b"]', "one name a row"),
    "a name twice": ("[link]", '[link]\nnames = ["a", "a"]', "a name is there twice"),
    "no rows": ("table = [", "table = []\nrest = [", "not known here"),
    "angles in degrees": ("  [", '  [0.0, 90.0, 0.0, 0.0, "revolute"],\n  [', "more than a turn"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_refused_by_name(case: str) -> None:
    old, new, says = BAD[case]
    assert old in GOOD
    with pytest.raises(InvalidModel) as caught:
        read(GOOD.replace(old, new, 1))
    assert says in str(caught.value)
    assert "robot.toml" in (caught.value.argument or "")


def test_options_and_tables_are_told_apart() -> None:
    with pytest.raises(InvalidSetting, match="model file of their own"):
        Options.from_dict({"link": {}})
    with pytest.raises(InvalidModel, match="holds options, not a robot"):
        read('[joint.elbow]\nfriction = "simple"\n')
    with pytest.raises(InputError, match="no floating base"):
        Robot.from_text(GOOD.encode(), Options(base="free"), "robot.toml")
