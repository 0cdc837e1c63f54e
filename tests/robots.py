"""The robots of the tests: every URDF of the `example-robot-data` package, and small ones as text.

`Oracle` is pinocchio's inverse dynamics of the same file. pinocchio reads it *without* mimic;
the motion of mimicking joints is written out here, `q' = multiplier · q + offset`, and their
torques are folded back by the transpose (virtual work). Mimic elements and inertials are read
from the XML by other code than heft's.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from heft.dynamics import Tree, kernels
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot

FloatArray = NDArray[np.float64]

ROOT = Path(
    str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data"))
)
FILES: tuple[str, ...] = tuple(
    sorted(p.relative_to(ROOT / "robots").as_posix() for p in ROOT.glob("robots/**/*.urdf"))
)

# What pinocchio forgives and heft refuses, with the words that must say why.
REFUSED: dict[str, str] = {
    # a joint mimics 'index_q1', which the file calls 'Left_index_q1'
    "alex_description/urdf/alex_psyonic_hands.urdf": "mimics a joint that is not there",
}
# Single bodies: refused on a fixed base, where there is nothing to identify; they may float.
IMMOBILE: tuple[str, ...] = (
    "hector_description/robots/quadrotor_base.urdf",
    "iris_description/robots/iris_simple.urdf",
)

# One of each kind: serial arms, branching, continuous, prismatic, mimic, hands, legs.
CHOSEN: tuple[str, ...] = (
    "a1_description/urdf/a1.urdf",
    "baxter_description/urdf/baxter.urdf",
    "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "finger_edu_description/robots/finger_edu.urdf",
    "iris_description/robots/iris.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "pr2_description/urdf/pr2.urdf",
    "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "solo_description/robots/solo12.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
    "ur_description/urdf/ur10_robot.urdf",
)


def path_of(file: str) -> Path:
    """Return where a file of the package lies."""
    return ROOT / "robots" / file


@cache
def readable() -> tuple[str, ...]:
    """Return the files that pinocchio reads."""
    found = []
    for file in FILES:
        try:
            pin.buildModelFromUrdf(str(path_of(file)))
        except (ValueError, RuntimeError):
            continue
        found.append(file)
    return tuple(found)


@cache
def loadable() -> tuple[str, ...]:
    """Return the files that pinocchio reads and heft must, on a fixed base."""
    return tuple(f for f in readable() if f not in REFUSED and f not in IMMOBILE)


def floating() -> tuple[str, ...]:
    """Return the files that are tested with a free base."""
    return (*CHOSEN, *IMMOBILE)


def rigid(robot: Robot) -> Robot:
    """Return the robot of the same file and base without friction and rotor inertia."""
    still = JointOptions(friction="none", armature=False)
    options = Options(robot.options.base, robot.options.gravity, dict.fromkeys(robot.joints, still))
    return Robot.from_urdf_text(robot.source, options)


def simple(robot: Robot) -> Robot:
    """Return the robot of the same file and base with viscous, Coulomb friction and offset."""
    joint = JointOptions(friction="simple")
    options = Options(robot.options.base, robot.options.gravity, dict.fromkeys(robot.joints, joint))
    return Robot.from_urdf_text(robot.source, options)


@cache
def load(file: str, base: str = "fixed", drives: bool = True, friction: str = "full") -> Robot:
    """Return a robot of the package."""
    robot = Robot.from_urdf(path_of(file), Options(base="free" if base == "free" else "fixed"))
    if not drives:
        return rigid(robot)
    return simple(robot) if friction == "simple" else robot


def mimics(source: bytes) -> dict[str, tuple[str, float, float]]:
    """Return master, multiplier and offset of each mimicking joint, chains followed."""
    said = {
        joint.get("name", ""): (
            mimic.get("joint", ""),
            float(mimic.get("multiplier", "1")),
            float(mimic.get("offset", "0")),
        )
        for joint in ET.fromstring(source).iter("joint")
        if (mimic := joint.find("mimic")) is not None
    }

    def follow(name: str) -> tuple[str, float, float]:
        if name not in said:
            return name, 1.0, 0.0
        above, factor, shift = said[name]
        master, multiplier, offset = follow(above)
        return master, factor * multiplier, factor * offset + shift

    return {name: follow(name) for name in said}


def written_inertias(source: bytes) -> dict[str, FloatArray]:
    """Return the ten parameters of each link that has an inertial, as the file writes them."""
    found = {}
    for link in ET.fromstring(source).findall("link"):
        inertial = link.find("inertial")
        if inertial is None:
            continue
        origin, mass, tensor = (inertial.find(tag) for tag in ("origin", "mass", "inertia"))
        assert mass is not None and tensor is not None
        place = {} if origin is None else origin.attrib
        com = np.array([float(x) for x in place.get("xyz", "0 0 0").split()])
        turn = pin.rpy.rpyToMatrix(np.array([float(x) for x in place.get("rpy", "0 0 0").split()]))
        xx, xy, xz, yy, yz, zz = (
            float(tensor.attrib[k]) for k in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        central = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
        m = float(mass.attrib["value"])
        # Written out: pinocchio's Inertia refuses numbers that are those of no rigid body.
        ixx, iyy, izz = np.diag(central) + m * (com @ com - com**2)
        ixy, ixz, iyz = (central[i, j] - m * com[i] * com[j] for i, j in ((0, 1), (0, 2), (1, 2)))
        found[link.attrib["name"]] = np.array([m, *(m * com), ixx, ixy, iyy, ixz, iyz, izz])
    return found


@dataclass(frozen=True)
class Oracle:
    """pinocchio's view of a heft robot.

    Attributes:
        model: Read without mimic.
        spread: Velocities of all joints per velocity of a channel, shape (nv, channels).
        sources: For each joint: index of q, index in heft's positions, multiplier, offset.
        free: Whether the base floats.
    """

    model: pin.Model
    spread: FloatArray
    sources: tuple[tuple[int, int, float, float], ...]
    free: bool

    @staticmethod
    def of(robot: Robot) -> Oracle:
        """Return the oracle of a robot, from the bytes of its file."""
        free = robot.options.base == "free"
        text = robot.source.decode()
        model = (
            pin.buildModelFromXML(text, pin.JointModelFreeFlyer(), False)
            if free
            else pin.buildModelFromXML(text, False)
        )
        model.gravity.linear = np.array(robot.options.gravity)
        coupled = mimics(robot.source)
        spread = np.zeros((model.nv, len(robot.channels)))
        if free:
            spread[:6, :6] = np.eye(6)
        sources = []
        for j in range(2 if free else 1, model.njoints):
            name = model.names[j]
            master, multiplier, offset = coupled.get(name, (name, 1.0, 0.0))
            channel = robot.channels.index(master)
            spread[model.joints[j].idx_v, channel] = multiplier
            sources.append((j, channel + free, multiplier, offset))
        return Oracle(model, spread, tuple(sources), free)

    def parameters(self) -> FloatArray:
        """Return ten parameters a moving joint, fixed links added up, shape (10 joints,)."""
        inertias = list(self.model.inertias)[1:]
        return np.concatenate([i.toDynamicParameters() for i in inertias])

    def expand(self, q: FloatArray) -> FloatArray:
        """Return pinocchio's configuration of one of heft's."""
        full = pin.neutral(self.model)
        if self.free:
            full[:3] = q[:3]
            full[3:7] = q[3:7] / np.linalg.norm(q[3:7])
        for j, position, multiplier, offset in self.sources:
            joint, angle = self.model.joints[j], multiplier * q[position] + offset
            value = [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
            full[joint.idx_q : joint.idx_q + joint.nq] = value
        return full

    def inverse_dynamics(self, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """Return the efforts of the channels, shape (N, channels), by recursive Newton-Euler."""
        data = self.model.createData()
        full = [
            pin.rnea(self.model, data, self.expand(x), self.spread @ y, self.spread @ z)
            for x, y, z in zip(q, v, a, strict=True)
        ]
        return np.array(full) @ self.spread

    def momentum(self, q: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return M v and Cᵀ v − g of the channels, each (N, channels), from the matrices."""
        data = self.model.createData()
        momentum, remainder = [], []
        for x, y in zip(q, v, strict=True):
            x, y = self.expand(x), self.spread @ y
            upper = np.triu(pin.crba(self.model, data, x))
            momentum.append(upper @ y + np.triu(upper, 1).T @ y)
            coriolis = pin.computeCoriolisMatrix(self.model, data, x, y)
            remainder.append(coriolis.T @ y - pin.computeGeneralizedGravity(self.model, data, x))
        return np.array(momentum) @ self.spread, np.array(remainder) @ self.spread


PLANAR_LENGTH = 0.7  # of the first link of PLANAR_ARM [m]
PLANAR_ARM = f"""
<robot name="planar">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.3 0.02 0.01"/><mass value="3"/>
    <inertia ixx="0.02" iyy="0.2" izz="0.21" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.2 -0.01 0"/><mass value="2"/>
    <inertia ixx="0.01" iyy="0.1" izz="0.105" ixy="0" ixz="0.001" iyz="0"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 0 1"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="{PLANAR_LENGTH} 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>
""".encode()
# The same robot, its elements in another order.
PLANAR_ARM_SHUFFLED = (
    b"<robot name='planar'>"
    + b"".join(
        ET.tostring(e)
        for e in sorted(ET.fromstring(PLANAR_ARM), key=lambda e: (e.tag, e.attrib["name"]))
    )
    + b"</robot>"
)


def planar_arm(
    gravity: tuple[float, float, float] = (0.0, -9.81, 0.0),
    drives: bool = False,
    source: bytes = PLANAR_ARM,
    friction: Literal["full", "simple"] = "full",
) -> Robot:
    """Return the planar arm; its joints turn about z."""
    none = JointOptions(friction="none", armature=False)
    joint = JointOptions(friction=friction) if drives else none
    return Robot.from_urdf_text(
        source, Options(gravity=gravity, joint={"shoulder": joint, "elbow": joint})
    )


def elastic_arm(friction: Literal["full", "none"] = "none", both: bool = True) -> Robot:
    """Return the planar arm with rotors behind elastic gears, or a rigid one at the shoulder."""
    joint = {
        "shoulder": JointOptions(friction=friction, elastic=both),
        "elbow": JointOptions(friction=friction, elastic=True),
    }
    return Robot.from_urdf_text(PLANAR_ARM, Options(gravity=(0.0, -9.81, 0.0), joint=joint))


def oblique_arm(base: Literal["fixed", "free"] = "fixed") -> Robot:
    """Return an arm that slides and turns by turns, about axes along and across all others."""
    axes = ["1 0 0", "0 1 0", "0 0 -1", "0.6 0 0.8", "1 -2 2", "-2 1 2", "0 0.6 -0.8", "2 3 6"]
    parts, above = ['<link name="base">' + _heavy(0) + "</link>"], "base"
    for k, axis in enumerate(axes):
        kind = "prismatic" if k % 2 == 0 or k == 1 else "revolute"
        parts.append(
            f'<joint name="j{k}" type="{kind}"><parent link="{above}"/><child link="l{k}"/>'
            f'<origin xyz="0.1 {0.02 * k} 0.2" rpy="{0.3 * k} -0.4 {0.2 - 0.1 * k}"/>'
            f'<axis xyz="{axis}"/><limit lower="-1" upper="1" velocity="2" effort="50"/></joint>'
            f'<link name="l{k}">{_heavy(k + 1)}</link>'
        )
        above = f"l{k}"
    source = f"<robot name='oblique'>{''.join(parts)}</robot>".encode()
    none = JointOptions(friction="none", armature=False)
    joint = {f"j{k}": none for k in range(len(axes))}
    return Robot.from_urdf_text(source, Options(base=base, joint=joint))


def _heavy(k: int) -> str:
    return (
        f'<inertial><origin xyz="0.03 {0.01 * k} -0.02"/><mass value="{1.0 + 0.3 * k}"/><inertia '
        f'ixx="0.02" ixy="0.001" ixz="-0.002" iyy="0.03" iyz="0.003" izz="0.025"/></inertial>'
    )


WALKER = b"""
<robot name="walker">
  <link name="trunk"><inertial><origin xyz="0.02 -0.01 0.1"/><mass value="5"/>
    <inertia ixx="0.09" iyy="0.07" izz="0.05" ixy="0.002" ixz="-0.001" iyz="0.003"/>
    </inertial></link>
  <link name="thigh"><inertial><origin xyz="0.01 0.02 -0.15"/><mass value="2"/>
    <inertia ixx="0.03" iyy="0.028" izz="0.006" ixy="0" ixz="0.001" iyz="0"/></inertial></link>
  <link name="foot"><inertial><origin xyz="0.03 0 -0.1"/><mass value="1"/>
    <inertia ixx="0.008" iyy="0.009" izz="0.003" ixy="0.0005" ixz="0" iyz="0"/></inertial></link>
  <joint name="hip" type="revolute"><parent link="trunk"/><child link="thigh"/>
    <origin xyz="0 0.1 -0.1" rpy="0.3 0 0.2"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="knee" type="revolute"><parent link="thigh"/><child link="foot"/>
    <origin xyz="0 0 -0.3"/><axis xyz="1 0 0"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>
"""


def walker(**said: Any) -> Robot:
    """Return a robot of two joints whose base floats, without friction and rotor inertia.

    Args:
        said: Further options.
    """
    none = JointOptions(friction="none", armature=False)
    joints = {"hip": none, "knee": none}
    return Robot.from_urdf_text(WALKER, Options(**{"base": "free", "joint": joints, **said}))


SENSED_ARM = b"""
<robot name="sensed">
  <link name="floor"/>
  <link name="foot"><inertial><origin xyz="0.01 0.02 0.05"/><mass value="4"/>
    <inertia ixx="0.05" iyy="0.06" izz="0.04" ixy="0" ixz="0.002" iyz="0"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0.02 0.01 0.1"/><mass value="3"/>
    <inertia ixx="0.03" iyy="0.028" izz="0.012" ixy="0.001" ixz="0" iyz="0"/></inertial></link>
  <link name="beyond"><inertial><origin xyz="0.03 -0.01 0.12"/><mass value="2"/>
    <inertia ixx="0.02" iyy="0.018" izz="0.008" ixy="0" ixz="0.001" iyz="0"/></inertial></link>
  <link name="cover"><inertial><origin xyz="0 0.04 0.1"/><mass value="0.4"/>
    <inertia ixx="0.002" iyy="0.001" izz="0.0015" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="fore"><inertial><origin xyz="0.05 0.02 0.03"/><mass value="1.5"/>
    <inertia ixx="0.01" iyy="0.012" izz="0.006" ixy="0.0004" ixz="0" iyz="0"/></inertial></link>
  <link name="hand"><inertial><origin xyz="0.02 0 0.06"/><mass value="0.8"/>
    <inertia ixx="0.003" iyy="0.0025" izz="0.002" ixy="0" ixz="0" iyz="0.0003"/></inertial></link>
  <joint name="ground" type="fixed"><parent link="floor"/><child link="foot"/>
    <origin xyz="0.2 0 0.1" rpy="0.1 0.2 -0.3"/><axis xyz="0 0 0"/></joint>
  <joint name="turn" type="revolute"><parent link="foot"/><child link="upper"/>
    <origin xyz="0.05 0 0.2" rpy="0 0.9 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="bolts" type="fixed"><parent link="upper"/><child link="beyond"/>
    <origin xyz="0 0.03 0.25" rpy="0.4 -0.2 0.7"/></joint>
  <joint name="glue" type="fixed"><parent link="beyond"/><child link="cover"/>
    <origin xyz="0 0 0.05" rpy="0 0.3 0"/></joint>
  <joint name="bend" type="revolute"><parent link="beyond"/><child link="fore"/>
    <origin xyz="0 0 0.3" rpy="1.1 0 0"/><axis xyz="0 0.6 0.8"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic"><parent link="fore"/><child link="hand"/>
    <origin xyz="0.25 0 0" rpy="0 0.5 0.2"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
</robot>
"""


def sensed_arm(source: bytes = SENSED_ARM, **said: Any) -> Robot:
    """Return an arm of three joints, bolted together between two of them, without friction.

    Args:
        source: Of the model file.
        said: Further options, such as `sensor`.
    """
    none = JointOptions(friction="none", armature=False)
    joints = dict.fromkeys(("turn", "bend", "slide"), none)
    return Robot.from_urdf_text(source, Options(**{"joint": joints, **said}))


def momentum(
    tree: Tree, motion: kernels.Motion, out: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return W₂ and W₁ of all bodies, (N, channels, columns) each, views of `out` if given."""
    slots = kernels.full_slots(tree)
    shape = (tree.channels, slots.shape[1], motion.sin.shape[1])
    out = out or (np.zeros(shape), np.zeros(shape))
    channels, columns, count = out[0].shape
    lines = np.where(slots >= 0, columns * np.arange(channels)[:, None] + slots, -1)
    second, first = (array.reshape(channels * columns, count) for array in out)
    kernels.momentum_into(tree, motion, lines, (second, first))
    return np.moveaxis(out[0], 2, 0), np.moveaxis(out[1], 2, 0)
