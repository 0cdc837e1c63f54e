"""MJCF files of the tests: small ones as text, and the package's robots as MuJoCo writes them.

`Oracle` is MuJoCo's inverse dynamics of the same bytes, constraints off; joints that follow
others by an equality constraint are folded back here (virtual work).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np

from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from tests.robots import FloatArray, path_of

ARM = """<mujoco model="arm">
  <!-- degrees, classes, every way to turn a frame -->
  <compiler angle="degree" eulerseq="XYz"/>
  <option gravity="0.3 -1 -9.7"/>
  <default>
    <joint axis="0 1 0" damping="0.5" armature="0.02"/>
    <default class="wrist">
      <joint axis="1 0 1" frictionloss="0.25"/>
      <default class="tip"><joint type="slide" damping="2"/></default>
    </default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <geom type="plane" size="1 1 .1"/>
    <body name="base" pos="0 0 0.1" euler="10 20 30">
      <inertial pos="0 0 0" mass="4" diaginertia="1 1 1"/>
      <body name="upper" pos="0.1 0 .2" axisangle="0 1 1 40">
        <joint name="shoulder" axis="0 0 2"/>
        <inertial pos="0.01 0.02 0.1" mass="2.5" diaginertia="0.02 0.03 0.04"
                  quat="0.9 0.1 -0.2 0.3"/>
        <body name="forearm" pos="0 0 0.3" xyaxes="0 1 0 -1 0.2 0.1" childclass="wrist">
          <inertial pos="0 0.01 0.2" mass="1.5" fullinertia="0.02 0.025 0.01 0.001 -0.002 0.003"/>
          <joint name="elbow" pos="0.02 -0.03 0.01" ref="15" class="main"/>
          <frame pos="0 0 0.1" zaxis="1 1 3">
            <body name="hand" pos="0.03 0 0.1" childclass="tip">
              <joint name="roll" class="wrist"/>
              <joint name="pitch" class="wrist" pos="0 0 0.05" axis="0 1 0"/>
              <joint name="reach" axis="0 0 1" ref="0.02"/>
              <inertial mass="0.5" pos="0 0 0.03" diaginertia=".001 .0012 .0015"
                euler="5 6 7"/>
              <body name="camera" pos="0 0.05 0" quat="0 1 0 0">
                <inertial pos="0 0 0.01" mass="0.2" diaginertia="1e-4 1e-4 1e-4"/>
              </body>
              <body name="tcp" pos="0 0 0.1"/>
            </body>
          </frame>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder" gear="50"/></actuator>
</mujoco>
"""

# Inertias of geoms, bodies and joints without names, two trees side by side, a frame around a
# joint, radians, comments in odd places.
SHAPES = """<?xml version="1.0"?>
<!-- <body name="not this"/> -->
<mujoco>
  <compiler angle='radian' inertiagrouprange="0 3"/>
  <default><geom density="500"/><default class="look"><geom group="4" mass="9"/></default></default>
  <worldbody>
    <body pos="0 0 1"><!-- > -->
      <joint axis="1 0 0"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0.1 0.2 0.4"/>
      <geom class="look" type="box" size="1 1 1"/>
      <body name="second" pos="0.1 0.2 0.4">
        <frame euler="0.1 0.2 0.3" pos="0.01 0.02 0.03">
          <joint name="twist" axis="0 1 0" pos="0.01 0 0"/>
          <geom type="cylinder" size="0.03 0.2" pos="0 0 0.2" mass="0.7"/>
        </frame>
        <geom type="ellipsoid" size=".1 .05 .02" euler="0.3 0 0"/>
        <geom type="box" size=".1 .05" fromto="0 0 0 0 .3 .1"/>
        <geom type="box" size=".1 .05 .2"/>
        <geom size="0.04" pos="0.1 0.1 0"/>
      </body>
    </body>
    <body name="gantry" pos="2 0 0">
      <joint name="x" type="slide" axis="1 0 0"/>
      <inertial pos="0 0 0" mass="3" diaginertia="1 1 1"/>
      <body name="bob"><joint name="swing" axis="0 1 0"/>
        <inertial pos="0 0 -0.5" mass="1" diaginertia="0.01 0.01 0.001"/></body>
    </body>
  </worldbody>
</mujoco>
"""

# A gripper whose second finger follows the first, with an offset and references.
GRIPPER = """<mujoco model="gripper"><compiler angle="radian" autolimits="true"/>
  <worldbody>
    <body name="palm"><joint name="turn" axis="0 0 1"/>
      <inertial pos="0 0 0.02" mass="1" diaginertia="0.01 0.01 0.01"/>
      <body name="left" pos="0 0.1 0">
        <joint name="left_slide" type="slide" axis="0 1 0" ref="0.01"/>
        <inertial pos="0.01 0 0.05" mass="0.3" diaginertia="1e-3 1e-3 5e-4"/></body>
      <body name="right" pos="0 -0.1 0"><joint name="right_slide" type="slide" axis="0 1 0"/>
        <inertial pos="0.01 0 0.04" mass="0.2" diaginertia="1e-3 1e-3 5e-4"/></body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="right_slide" joint2="left_slide" polycoef="0.003 -1.5 0 0 0"/>
    <weld body1="palm" active="false"/>
  </equality>
</mujoco>
"""

TEXTS: dict[str, bytes] = {
    "arm": ARM.encode(),
    "shapes": SHAPES.encode(),
    "gripper": GRIPPER.encode(),
}
FOLLOWERS: dict[str, tuple[str, float, float]] = {
    # q_right = 0.003 - 1.5 (q_left - 0.01)
    "right_slide": ("left_slide", -1.5, 0.003 + 1.5 * 0.01)
}
# The package's robots that MuJoCo reads, without their meshes.
PACKAGE = (
    "a1_description/urdf/a1.urdf",
    "alex_description/urdf/alex_nub_hands.urdf",
    "baxter_description/urdf/baxter.urdf",
    "borinot_description/urdf/borinot_flying_arm_2.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "iris_description/robots/iris.urdf",
    "kinova_description/robots/kinova.urdf",
    "panda_description/urdf/panda.urdf",
    "pr2_description/urdf/pr2.urdf",
    "romeo_description/urdf/romeo_small.urdf",
    "so_arm_description/urdf/so101.urdf",
    "talos_data/robots/talos_full_v2.urdf",
    "tiago_pro_description/robots/tiago_pro.urdf",
    "ur_description/urdf/ur10_robot.urdf",
)


def without_meshes(source: bytes) -> str:
    """Return a URDF without shapes, its static links kept apart."""
    root = ET.fromstring(source)
    for link in root.findall("link"):
        for tag in ("visual", "collision"):
            for element in link.findall(tag):
                link.remove(element)
    for element in root.findall("mujoco"):
        root.remove(element)
    for joint in root.findall("joint"):
        for mimic in joint.findall("mimic"):
            joint.remove(mimic)
    extra = ET.SubElement(root, "mujoco")
    ET.SubElement(extra, "compiler", fusestatic="false", balanceinertia="true")
    return ET.tostring(root).decode()


@cache
def source(name: str) -> bytes:
    """Return an MJCF file of the tests."""
    if name in TEXTS:
        return TEXTS[name]
    spec = mujoco.MjSpec.from_string(without_meshes(path_of(name).read_bytes()))
    spec.compile()
    return spec.to_xml().encode()


NAMES = (*TEXTS, *PACKAGE)


def bare(robot: Robot) -> Robot:
    """Return the robot of the same bytes without friction and rotor inertia."""
    still = JointOptions(friction="none", armature=False)
    options = Options(joint=dict.fromkeys(robot.joints, still))
    return Robot.from_text(robot.source, options, "robot.xml")


@dataclass(frozen=True)
class Oracle:
    """MuJoCo's view of an MJCF file.

    Attributes:
        model: With friction, rotor inertia and constraints off.
        spread: Velocities of MuJoCo's joints per velocity of a channel, shape (nv, channels).
        offset: Positions of MuJoCo's joints where all channels are at zero, shape (nv,).
    """

    model: mujoco.MjModel
    spread: FloatArray
    offset: FloatArray

    @staticmethod
    def of(data: bytes, joints: tuple[str, ...], followers: Mapping[str, tuple[str, float, float]]):
        model = mujoco.MjModel.from_xml_string(data.decode())
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        for array in (model.dof_damping, model.dof_armature, model.dof_frictionloss):
            array[:] = 0.0
        spread, offset = np.zeros((model.nv, len(joints))), np.zeros(model.nv)
        for j in range(model.njnt):
            name = model.joint(j).name or f"joint_{j + 1}"
            master, multiplier, offset[j] = followers.get(name, (name, 1.0, 0.0))
            spread[j, joints.index(master)] = multiplier
        return Oracle(model, spread, offset)

    def inverse_dynamics(self, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
        """Return the efforts of the channels, shape (N, channels)."""
        data = mujoco.MjData(self.model)
        rows = []
        for x, y, z in zip(q, v, a, strict=True):
            data.qpos[:] = self.spread @ x + self.offset
            data.qvel[:], data.qacc[:] = self.spread @ y, self.spread @ z
            mujoco.mj_inverse(self.model, data)
            rows.append(data.qfrc_inverse @ self.spread)
        return np.array(rows)


def random_model(seed: int) -> bytes:
    """Return a random tree: every way to turn a frame, classes, frames, geoms, several joints."""
    rng = np.random.default_rng(seed)

    def text(*numbers: float) -> str:
        return " ".join(f"{x:.6g}" for x in numbers)

    def turned() -> str:
        kind = rng.choice(["quat", "axisangle", "euler", "xyaxes", "zaxis", "none"])
        count = {"quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3}.get(str(kind), 0)
        return f' {kind}="{text(*rng.normal(size=count))}"' if count else ""

    def placed() -> str:
        return f' pos="{text(*rng.normal(0.0, 0.2, 3))}"' + turned()

    def inertial() -> str:
        points = rng.normal(size=(3, 6))
        central = np.trace(points @ points.T) * np.eye(3) - points @ points.T
        if rng.random() < 0.5:
            six = (central[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)))
            said = f'pos="{text(*rng.normal(size=3))}" fullinertia="{text(*six)}"'
        else:
            said = placed().strip() + f' diaginertia="{text(*np.linalg.eigvalsh(central))}"'
        return f'<inertial mass="{rng.uniform(0.5, 3.0):.6g}" {said}/>'

    def geom() -> str:
        kind = str(rng.choice(["sphere", "capsule", "cylinder", "box", "ellipsoid"]))
        size = text(*rng.uniform(0.02, 0.3, 3))
        where = placed()
        if kind != "sphere" and rng.random() < 0.4:
            where = f' fromto="{text(*rng.normal(size=6))}"'
        weight = rng.choice(['mass="0.3"', 'density="700"', 'class="thin"', ""])
        return f'<geom type="{kind}" size="{size}"{where} {weight}/>'

    def joints(names: list[str]) -> str:
        found = ""
        for _ in range(int(rng.integers(0, 3))):
            names.append(f"j{len(names)}")
            kind = rng.choice(["", ' type="slide"', ' class="slides"'])
            found += f'<joint name="{names[-1]}"{kind} axis="{text(*rng.normal(size=3))}"'
            found += f' pos="{text(*rng.normal(size=3))}"' if rng.random() < 0.5 else ""
            found += f' ref="{rng.normal():.6g}"' if rng.random() < 0.3 else ""
            found += "/>"
        return found

    def body(depth: int, names: list[str]) -> str:
        inside = joints(names)
        inside += inertial() if rng.random() < 0.6 else geom() + geom()
        if rng.random() < 0.4:
            inside = f"<frame{placed()}>{inside if '<inertial' not in inside else ''}</frame>" + (
                inside if "<inertial" in inside else ""
            )
        for _ in range(int(rng.integers(1, 3)) if depth else 0):
            child = body(depth - 1, names)
            inside += f"<frame{placed()}>{child}</frame>" if rng.random() < 0.3 else child
        style = rng.choice(["", ' childclass="slides"', ' childclass="thin"'])
        return f"<body{placed()}{style}>{inside}</body>"

    names: list[str] = []
    tree = ""
    while not names:
        tree = body(3, names)
    sequence = rng.choice(["xyz", "ZYX", "xYz", "zxz"])
    angle = rng.choice(["degree", "radian"])
    return f"""<mujoco><compiler angle="{angle}" eulerseq="{sequence}"/>
      <default><geom density="900"/><default class="slides"><joint type="slide"/></default>
      <default class="thin"><joint pos="0 0.1 0"/><geom density="10"/></default></default>
      <worldbody>{tree}</worldbody></mujoco>""".encode()
