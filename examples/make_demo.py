"""Make the demonstration experiment: a simulated six-joint arm, its logs and a wrong URDF.

The true arm is simulated in MuJoCo with friction, reflected motor inertias and constant offset
torques, following an excitation under a controller that knows only the wrong URDF. What is logged
looks like what an industrial controller hands out: quantised encoders, noisy and delayed torques,
jittered time stamps and a few lost samples.

Four files are written: ``arm.urdf`` (the guess), ``truth.json`` (what an identification should
find), ``run1.parquet`` (to fit) and ``run2.parquet`` (another motion, to validate).

    python examples/make_demo.py [--out DIR] [--seed 7]

The same seed gives the same numbers. Needs ``pip install heft-robotics[simulation]``.
"""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]

TIMESTEP = 0.0005  # of the simulation [s]
CONTROL_EVERY = 2  # simulation steps: the controller runs at 1 kHz
LOG_EVERY = 8  # simulation steps: the log has 250 Hz
DELAY = 0.003  # of the logged torque behind the motion [s]
SETTLE = 1.0  # holding still before the log begins [s]
FUNDAMENTAL = 0.1  # of the excitation [Hz]
HARMONICS = 7
ENCODER_STEP = 2 * np.pi / 2**17  # [rad]
ENCODER_NOISE = 2e-5  # rms [rad]
TORQUE_NOISE = 0.01  # rms, relative to the joint's rms torque
CLOCK_JITTER = 50e-6  # rms [s]
LOST_BURSTS = (1, 1, 1, 2, 3, 1, 2, 1)  # samples missing in a row, a dozen in all


@dataclass(frozen=True)
class Body:
    """The inertia of a link, as that of an ellipsoid of uniform density.

    Any positive mass and semi-axes make it physically consistent.

    Attributes:
        mass: In kg.
        com: Centre of mass in the link's frame [m].
        semi_axes: Of the ellipsoid [m].
        rpy: The ellipsoid's orientation in the link's frame [rad].

    """

    mass: float
    com: tuple[float, float, float]
    semi_axes: tuple[float, float, float]
    rpy: tuple[float, float, float]

    def inertia(self) -> Array:
        """Inertia about the centre of mass, in the axes of the link [kg·m²]."""
        squares = np.square(self.semi_axes)
        rotation = Rotation.from_euler("xyz", self.rpy).as_matrix()
        return np.asarray(
            rotation @ np.diag(self.mass / 5 * (squares.sum() - squares)) @ rotation.T
        )


@dataclass(frozen=True)
class Drive:
    """What a joint's drive adds to the rigid-body torque.

    Attributes:
        viscous: In N·m·s/rad.
        coulomb: In N·m.
        offset: Constant torque [N·m].
        armature: Inertia of the motor, reflected through its gear [kg·m²].
        stiffness: Proportional gain of the controller [N·m/rad].
        damping: Derivative gain of the controller [N·m·s/rad].
        torque_step: Resolution of the logged torque [N·m].

    """

    viscous: float
    coulomb: float
    offset: float
    armature: float
    stiffness: float
    damping: float
    torque_step: float


LINKS = {
    "shoulder": Body(11.4, (0.042, -0.006, 0.110), (0.13, 0.11, 0.16), (0.05, -0.12, 0.20)),
    "upper_arm": Body(14.2, (0.008, 0.061, 0.247), (0.09, 0.11, 0.33), (-0.06, 0.02, 0.10)),
    "forearm": Body(7.3, (0.094, -0.014, 0.041), (0.17, 0.09, 0.10), (0.10, 0.16, -0.08)),
    "wrist_1": Body(3.6, (0.002, 0.009, 0.142), (0.06, 0.055, 0.17), (0.03, -0.05, 0.0)),
    "wrist_2": Body(2.1, (0.001, -0.012, 0.031), (0.055, 0.06, 0.075), (0.12, 0.0, 0.0)),
    "wrist_3": Body(1.9, (0.011, 0.004, 0.082), (0.05, 0.07, 0.07), (0.0, 0.10, 0.30)),
}
DRIVES = {
    "shoulder_pan": Drive(9.0, 11.0, 1.1, 1.90, 9000.0, 400.0, 0.05),
    "shoulder_lift": Drive(10.5, 13.0, -0.8, 2.30, 12000.0, 550.0, 0.05),
    "elbow": Drive(5.5, 7.5, 0.6, 0.95, 5000.0, 220.0, 0.03),
    "wrist_1_joint": Drive(1.3, 2.4, 0.25, 0.21, 700.0, 22.0, 0.01),
    "wrist_2_joint": Drive(1.1, 2.1, -0.30, 0.17, 650.0, 20.0, 0.01),
    "wrist_3_joint": Drive(0.6, 1.4, 0.15, 0.09, 300.0, 9.0, 0.01),
}

# The orientation of the frame in which the URDF gives a link's inertia, where not the link's own.
INERTIAL_RPY = {"forearm": (0.0, 1.5707963, 0.0), "wrist_1": (0.0, 0.0, 0.7853982)}

URDF = Template("""\
<?xml version="1.0" encoding="utf-8"?>
<!-- Six-joint arm. The inertials are estimates from an early CAD model: cables, cable dress
     and the tool were not in it. Written by examples/make_demo.py. -->
<robot name="arm">

  <material name="grey"><color rgba="0.6 0.6 0.62 1"/></material>
  <material name="orange"> <color rgba="0.9 0.45 0.1 1.0"/> </material>

  <!-- ============ links ============ -->
  <link name="base">
    <visual>
      <origin xyz="0 0 0.09" rpy="0 0 0"/>
      <geometry><cylinder radius="0.12" length="0.18"/></geometry>
      <material name="grey"/>
    </visual>
    <inertial>
      <origin xyz="0 0 0.08" rpy="0 0 0"/>
      <mass value="12"/>
      <inertia ixx="0.08" ixy="0" ixz="0" iyy="0.08" iyz="0" izz="0.09"/>
    </inertial>
  </link>

  <link name="shoulder">
    <inertial>
      <origin xyz="${shoulder_com}" rpy="0 0 0"/>
      <mass value="${shoulder_mass}"/>
      <inertia ixx="${shoulder_ixx}" ixy="${shoulder_ixy}" ixz="${shoulder_ixz}"
               iyy="${shoulder_iyy}" iyz="${shoulder_iyz}"
               izz="${shoulder_izz}"/>
    </inertial>
    <visual>
      <origin xyz="0.04 0 0.12"/>
      <geometry><box size="0.22 0.2 0.28"/></geometry>
      <material name="orange"/>
    </visual>
  </link>

  <link name="upper_arm">
    <!-- no rpy: the axes of the link -->
    <inertial>
      <mass value="${upper_arm_mass}" />
      <origin xyz="${upper_arm_com}" />
      <inertia
        ixx="${upper_arm_ixx}"
        ixy="${upper_arm_ixy}"
        ixz="${upper_arm_ixz}"
        iyy="${upper_arm_iyy}"
        iyz="${upper_arm_iyz}"
        izz="${upper_arm_izz}" />
    </inertial>
    <visual>
      <origin xyz="0 0.06 0.25" rpy="0 0 0"/>
      <geometry><cylinder radius="0.08" length="0.6"/></geometry>
      <material name="grey"/>
    </visual>
  </link>

  <link name='forearm'>
    <inertial>
      <!-- in the axes of the CAD part, whose z is along the tube -->
      <origin rpy='${forearm_rpy}' xyz='${forearm_com}'/>
      <mass value='${forearm_mass}'/>
      <inertia ixx='${forearm_ixx}' iyy='${forearm_iyy}' izz='${forearm_izz}'
               ixy='${forearm_ixy}' ixz='${forearm_ixz}' iyz='${forearm_iyz}'/>
    </inertial>
    <visual>
      <origin xyz='0.1 0 0.05' rpy='0 0 0'/>
      <geometry><box size='0.32 0.16 0.18'/></geometry>
      <material name='orange'/>
    </visual>
  </link>

  <link name="wrist_1"><inertial><origin xyz="${wrist_1_com}" rpy="${wrist_1_rpy}"/>\
<mass value="${wrist_1_mass}"/><inertia ixx="${wrist_1_ixx}" ixy="${wrist_1_ixy}" \
ixz="${wrist_1_ixz}" iyy="${wrist_1_iyy}" iyz="${wrist_1_iyz}" izz="${wrist_1_izz}"/>\
</inertial></link>

  <link name="wrist_2">
\t<inertial>
\t\t<mass value="${wrist_2_mass}"/>
\t\t<origin xyz="${wrist_2_com}" rpy="0 0 0"/>
\t\t<inertia ixx="${wrist_2_ixx}" ixy="${wrist_2_ixy}" ixz="${wrist_2_ixz}" \
iyy="${wrist_2_iyy}" iyz="${wrist_2_iyz}" izz="${wrist_2_izz}"/>
\t</inertial>
  </link>

  <link name="wrist_3">
    <inertial>
      <origin rpy="0.0 0.0 0.0" xyz="${wrist_3_com}"></origin>
      <mass value="${wrist_3_mass}"></mass>
      <inertia ixx="${wrist_3_ixx}" ixy="${wrist_3_ixy}" ixz="${wrist_3_ixz}"
               iyy="${wrist_3_iyy}" iyz="${wrist_3_iyz}" izz="${wrist_3_izz}"></inertia>
    </inertial>
    <visual>
      <origin xyz="0 0 0.06" rpy="0 0 0"/>
      <geometry><cylinder radius="0.05" length="0.1"/></geometry>
      <material name="grey"/>
    </visual>
  </link>

  <link name="tool0"/>

  <!-- ============ joints ============ -->
  <joint name="shoulder_pan" type="revolute">
    <parent link="base"/>
    <child link="shoulder"/>
    <origin xyz="0 0 0.18" rpy="0 0 0"/>
    <axis xyz="0 0 1"/>
    <limit lower="-2.6" upper="2.6" velocity="2.2" effort="330"/>
    <dynamics damping="0" friction="0"/>
  </joint>

  <joint name="shoulder_lift" type="revolute">
    <parent link="shoulder"/>
    <child link="upper_arm"/>
    <origin xyz="0.1 0 0.24" rpy="0 0 0"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1.3" upper="1.7" velocity="2.0" effort="400"/> <!-- 0: upright -->
    <dynamics damping="0" friction="0"/>
  </joint>

  <joint name="elbow" type="revolute">
    <origin xyz="0 0 0.52" rpy="0 0 0"/>
    <parent link="upper_arm"/>  <child link="forearm"/>
    <axis xyz="0 1 0"/>
    <limit effort="200" velocity="2.6" lower="-1.9" upper="1.7"/>
  </joint>

  <joint name="wrist_1_joint" type="revolute">
    <origin xyz="0.18 0 0.06" rpy="0 1.5707963267948966 0"/>
    <parent link="forearm"/>
    <child link="wrist_1"/>
    <axis xyz="0 0 1"/>
    <limit lower="-2.8" upper="2.8" effort="56.0" velocity="4.0"/>
  </joint>

  <joint name="wrist_2_joint" type="revolute">
    <origin xyz="0 0 0.27"/>
    <parent link="wrist_1"/>
    <child link="wrist_2"/>
    <axis xyz="0 1 0"/>
    <limit lower="-2.0" upper="2.0" effort="56.0" velocity="4.0"/>
  </joint>

  <joint name="wrist_3_joint" type="revolute">
    <origin xyz="0 0 9.0e-2" rpy="0 0 0"/>
    <parent link="wrist_2"/>
    <child link="wrist_3"/>
    <axis xyz="0 0 -1"/>
    <limit lower="-4.5" upper="4.5" effort="28.0" velocity="5.5"/>
  </joint>

  <!-- the flange -->
  <joint name="tool0_fixed" type="fixed">
    <origin xyz="0 0 0.11" rpy="0 0 3.141592653589793"/>
    <parent link="wrist_3"/>
    <child link="tool0"/>
  </joint>

  <transmission name="shoulder_pan_transmission">
    <type>transmission_interface/SimpleTransmission</type>
    <joint name="shoulder_pan"/>
    <actuator name="shoulder_pan_motor"><mechanicalReduction>101</mechanicalReduction></actuator>
  </transmission>
</robot>
""")


def guess(truth: Body, rng: np.random.Generator) -> Body:
    """Distort a body by about a third, leaving it physically consistent."""
    return Body(
        truth.mass * float(np.exp(0.3 * rng.standard_normal())),
        _triple(truth.com + 0.025 * rng.standard_normal(3)),
        _triple(truth.semi_axes * np.exp(0.15 * rng.standard_normal(3))),
        _triple(truth.rpy + 0.2 * rng.standard_normal(3)),
    )


def _triple(values: Any) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z


def write_urdf(bodies: dict[str, Body]) -> str:
    """Fill these inertials into the URDF."""
    values: dict[str, str] = {}
    for name, body in bodies.items():
        rpy = INERTIAL_RPY.get(name, (0.0, 0.0, 0.0))
        rotation = Rotation.from_euler("xyz", rpy).as_matrix()
        inertia = rotation.T @ body.inertia() @ rotation
        values[f"{name}_mass"] = f"{body.mass:.4g}"
        values[f"{name}_com"] = " ".join(f"{x:.4f}" for x in body.com)
        values[f"{name}_rpy"] = " ".join(f"{x:.7g}" for x in rpy)
        for i, j in zip(*np.triu_indices(3), strict=True):
            values[f"{name}_i{'xyz'[i]}{'xyz'[j]}"] = f"{inertia[i, j]:.6g}"
    return URDF.substitute(values)


def write_mjcf(urdf: str, bodies: dict[str, Body], drives: dict[str, Drive]) -> str:
    """Make the MuJoCo model with the kinematics of a URDF and these inertias and drives.

    MuJoCo's dry friction is a soft constraint; its stiffest setting makes it slip by well below
    0.01 rad/s before the full Coulomb torque acts.
    """
    mujoco_ = ET.Element("mujoco")
    ET.SubElement(mujoco_, "compiler", angle="radian")
    ET.SubElement(
        mujoco_,
        "option",
        timestep=str(TIMESTEP),
        integrator="implicitfast",
        gravity="0 0 -9.81",
        tolerance="1e-12",
        iterations="100",
    )
    here = {"base": ET.SubElement(mujoco_, "worldbody")}
    for joint in ET.fromstring(urdf).findall("joint"):
        origin, axis = joint.find("origin"), joint.find("axis")
        parent, child = joint.find("parent"), joint.find("child")
        if joint.get("type") == "fixed":
            continue
        assert origin is not None and axis is not None and parent is not None and child is not None
        rpy = [float(x) for x in origin.get("rpy", "0 0 0").split()]
        name, link = joint.get("name", ""), child.get("link", "")
        body, drive = bodies[link], drives[name]
        element = ET.SubElement(
            here[parent.get("link", "")],
            "body",
            name=link,
            pos=origin.get("xyz", "0 0 0"),
            quat=_text(Rotation.from_euler("xyz", rpy).as_quat(scalar_first=True)),
        )
        ET.SubElement(
            element,
            "inertial",
            mass=repr(body.mass),
            pos=_text(body.com),
            fullinertia=_text(body.inertia()[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]),
        )
        ET.SubElement(
            element,
            "joint",
            name=name,
            axis=axis.get("xyz", "1 0 0"),
            damping=repr(drive.viscous),
            frictionloss=repr(drive.coulomb),
            armature=repr(drive.armature),
            solreffriction=f"{2 * TIMESTEP} 1",
            solimpfriction="0.9999 0.9999 0.001 0.5 2",
        )
        here[link] = element
    return ET.tostring(mujoco_, encoding="unicode")


def _text(values: Any) -> str:
    return " ".join(repr(float(x)) for x in values)


class Excitation:
    """A Fourier series for every joint, faded in from rest in the middle of the ranges.

    Attributes:
        duration: In seconds.

    """

    fade = 1.0  # [s]

    def __init__(self, model: pin.Model, duration: float, rng: np.random.Generator) -> None:
        """Draw random coefficients, scaled into the limits of position and velocity."""
        self.duration = duration
        lower, upper = model.lowerPositionLimit, model.upperPositionLimit
        shape = (2, HARMONICS, model.nq)
        self._coefficients = (
            rng.standard_normal(shape) / np.sqrt(np.arange(1, HARMONICS + 1))[:, None]
        )
        self._rest = np.zeros(model.nq)
        self._middle = np.zeros(model.nq)
        grid = np.arange(0.0, 1 / FUNDAMENTAL, 0.005)
        q = np.array([self._series(t)[0] for t in grid])
        self._middle = (q.max(axis=0) + q.min(axis=0)) / 2
        q, v, _ = self.sample(np.arange(0.0, duration, 0.005))
        scale = np.minimum(
            0.9 * (upper - lower) / 2 / np.abs(q).max(axis=0),
            0.75 * model.velocityLimit / np.abs(v).max(axis=0),
        )
        self._coefficients *= scale
        self._middle *= scale
        self._rest = (lower + upper) / 2

    def _series(self, t: float) -> tuple[Array, Array, Array]:
        omega = 2 * np.pi * FUNDAMENTAL * np.arange(1, HARMONICS + 1)
        sine, cosine = np.sin(omega * t), np.cos(omega * t)
        a, b = self._coefficients
        return (
            sine @ a + cosine @ b - self._middle,
            (omega * cosine) @ a - (omega * sine) @ b,
            -(omega**2 * sine) @ a - (omega**2 * cosine) @ b,
        )

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration at a time; at rest before zero."""
        x = min(max(t / self.fade, 0.0), 1.0)
        w = x**3 * (10 - 15 * x + 6 * x**2)
        dw = 30 * x**2 * (1 - x) ** 2 / self.fade
        ddw = 60 * x * (1 - x) * (1 - 2 * x) / self.fade**2
        s, ds, dds = self._series(t)
        return (
            self._rest + w * s,
            w * ds + dw * s,
            w * dds + 2 * dw * ds + ddw * s,
        )

    def sample(self, times: Array) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations at several times, a row each."""
        q, v, a = zip(*(self(t) for t in times), strict=True)
        return np.array(q), np.array(v), np.array(a)


def choose_excitation(
    model: pin.Model, duration: float, rng: np.random.Generator, draws: int = 80
) -> Excitation:
    """Choose the best of some random excitations that hit nothing and stall no motor.

    The best, by the guessed model, has the largest determinant of the information about all that
    the torques depend on.
    """
    data = model.createData()
    tool = model.getFrameId("tool0")
    times = np.arange(0.0, duration, 0.1)
    best: Excitation | None = None
    best_score = -np.inf
    for _ in range(draws):
        candidate = Excitation(model, duration, rng)
        rows = []
        for q, v, a in zip(*candidate.sample(times), strict=True):
            pin.framesForwardKinematics(model, data, q)
            points = [*(data.oMi[i].translation for i in (4, 5, 6)), data.oMf[tool].translation]
            if any(p[2] < 0.1 or (p[2] < 0.6 and np.hypot(p[0], p[1]) < 0.25) for p in points):
                break
            if np.any(np.abs(pin.rnea(model, data, q, v, a)) > 0.7 * model.effortLimit):
                break
            bodies = pin.computeJointTorqueRegressor(model, data, q, v, a)
            drives = [np.diag(x) for x in (v, np.tanh(v / 0.02), np.ones(model.nv), a)]
            rows.append(np.hstack([bodies, *drives]) / model.effortLimit[:, None])
        else:
            singular = np.linalg.svd(np.vstack(rows), compute_uv=False)
            score = float(np.log(singular[singular > 1e-9 * singular[0]]).sum())
            if score > best_score:
                best, best_score = candidate, score
    if best is None:
        raise RuntimeError("no excitation stays clear of the floor, the base and the limits")
    return best


@dataclass(frozen=True)
class Motion:
    """What happened in the simulation, at every step, and what the encoders said.

    Attributes:
        t: Time since the log began, negative before [s].
        q: Positions [rad].
        v: Velocities [rad/s].
        tau: Motor torques [N·m].
        encoders: Readings of the encoders, from the latest control step [rad].

    """

    t: Array
    q: Array
    v: Array
    tau: Array
    encoders: Array


def simulate(
    mjcf: str,
    urdf: str,
    drives: dict[str, Drive],
    excitation: Excitation,
    rng: np.random.Generator,
) -> Motion:
    """Let the true arm follow the excitation under a controller that believes the URDF.

    Feed-forward of the guessed model and of the drives, the latter known to some 10 %, plus
    proportional-derivative control on the encoders.
    """
    arm = mujoco.MjModel.from_xml_string(mjcf)
    state = mujoco.MjData(arm)
    believed = pin.buildModelFromXML(urdf)
    data = believed.createData()
    if [arm.joint(i).name for i in range(arm.njnt)] != list(drives):
        raise RuntimeError("the joints of the URDF and of the drives differ")
    kp, kd, offset, armature, viscous, coulomb = (
        np.array([getattr(d, key) for d in drives.values()])
        for key in ("stiffness", "damping", "offset", "armature", "viscous", "coulomb")
    )
    armature, viscous, coulomb = 0.9 * np.array([armature, viscous, coulomb])
    before = round(SETTLE / TIMESTEP)
    # Beyond the end, to average the torques around the last sample.
    steps = before + round(excitation.duration / TIMESTEP) + LOG_EVERY
    t: Array = np.arange(-before, steps - before, dtype=np.float64) * TIMESTEP
    q, v, tau, encoders = (np.zeros((steps, arm.nv)) for _ in range(4))
    period = CONTROL_EVERY * TIMESTEP
    smoothing = 1 - np.exp(-2 * np.pi * 40.0 * period)  # of the measured velocity, at 40 Hz

    state.qpos[:] = excitation(t[0])[0]
    torque = np.zeros(arm.nv)
    velocity = np.zeros(arm.nv)
    encoder = state.qpos.copy()
    for k in range(steps):
        if k % CONTROL_EVERY == 0:
            last = encoder
            noisy = state.qpos + ENCODER_NOISE * rng.standard_normal(arm.nv)
            encoder = ENCODER_STEP * np.round(noisy / ENCODER_STEP)
            velocity += smoothing * ((encoder - last) / period - velocity)
            q_ref, v_ref, a_ref = excitation(t[k])
            torque = pin.rnea(believed, data, q_ref, v_ref, a_ref)
            torque = torque + armature * a_ref + viscous * v_ref + coulomb * np.tanh(v_ref / 0.02)
            torque = torque + kp * (q_ref - encoder) + kd * (v_ref - velocity)
            torque = np.clip(torque, -believed.effortLimit, believed.effortLimit)
        state.qfrc_applied[:] = torque - offset
        q[k], v[k], tau[k], encoders[k] = state.qpos, state.qvel, torque, encoder
        mujoco.mj_step(arm, state)
    return Motion(t, q, v, tau, encoders)


def log(
    motion: Motion, drives: dict[str, Drive], bursts: tuple[int, ...], rng: np.random.Generator
) -> dict[str, Array]:
    """Log a motion, with all that a real log does to it; returns the columns."""
    start = int(np.searchsorted(motion.t, -TIMESTEP / 2))
    rows = np.arange(start, len(motion.t) - LOG_EVERY + 1, LOG_EVERY)
    # The drives report their torque averaged over one sampling period, some time later.
    weights = np.r_[0.5, np.ones(LOG_EVERY - 1), 0.5] / LOG_EVERY
    around = np.arange(LOG_EVERY + 1) - LOG_EVERY // 2 - round(DELAY / TIMESTEP)
    tau = np.einsum("w,rwj->rj", weights, motion.tau[rows[:, None] + around])
    noise = TORQUE_NOISE * np.sqrt(np.mean(tau**2, axis=0))
    tau = tau + noise * rng.standard_normal(tau.shape)
    t = motion.t[rows] + CLOCK_JITTER * rng.standard_normal(len(rows))

    keep = np.ones(len(rows), bool)
    if bursts:
        places = np.linspace(0, len(rows), len(bursts) + 2)[1:-1]
        for place, count in zip(places + rng.uniform(-150, 150, len(bursts)), bursts, strict=True):
            keep[int(place) : int(place) + count] = False

    columns = {"t": np.round(t[keep], 7)}
    for i, name in enumerate(drives):
        columns[f"q.{name}"] = motion.encoders[rows, i][keep]
    for i, (name, drive) in enumerate(drives.items()):
        steps = np.round(tau[:, i] / drive.torque_step)
        columns[f"tau.{name}"] = np.round(steps * drive.torque_step, 6)[keep]
    return columns


def write_parquet(path: Path, columns: dict[str, Array]) -> None:
    """Write a log; the positions and torques, being quantised, compress well."""
    pq.write_table(
        pa.table(columns),
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in columns if name != "t"],
        use_byte_stream_split=["t"],
    )


def describe(bodies: dict[str, Body], drives: dict[str, Drive]) -> dict[str, Any]:
    """Collect the true values, as they stand in ``truth.json``."""
    lower = ([0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2])
    return {
        "about": "Inertias are about the centre of mass, in the axes of the link: "
        "xx, xy, yy, xz, yz, zz. Units: kg, m, N·m, rad, s.",
        "links": {
            name: {
                "mass": body.mass,
                "com": list(body.com),
                "inertia": [round(float(x), 9) for x in body.inertia()[lower]],
            }
            for name, body in bodies.items()
        },
        "joints": {
            name: {key: getattr(drive, key) for key in ("viscous", "coulomb", "offset", "armature")}
            for name, drive in drives.items()
        },
        "delay": DELAY,
    }


def main() -> None:
    """Write the four files of the demonstration."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Simulate the demonstration experiment of heft.")
    parser.add_argument("--out", type=Path, default=here.parent / "src" / "heft" / "demo")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    of_guess, of_run1, of_run2 = np.random.default_rng(arguments.seed).spawn(3)

    urdf = write_urdf({name: guess(body, of_guess) for name, body in LINKS.items()})
    (out / "arm.urdf").write_text(urdf, encoding="utf-8")
    text = json.dumps(describe(LINKS, DRIVES), indent=2, ensure_ascii=False)
    (out / "truth.json").write_text(text + "\n", encoding="utf-8")

    mjcf = write_mjcf(urdf, LINKS, DRIVES)
    believed = pin.buildModelFromXML(urdf)
    for name, duration, bursts, rng in (
        ("run1", 20.0, LOST_BURSTS, of_run1),
        ("run2", 10.0, (), of_run2),
    ):
        excitation = choose_excitation(believed, duration, rng)
        motion = simulate(mjcf, urdf, DRIVES, excitation, rng)
        columns = log(motion, DRIVES, bursts, rng)
        write_parquet(out / f"{name}.parquet", columns)
        error = np.abs(motion.q - excitation.sample(motion.t)[0]).max()
        print(f"{name}: {len(columns['t'])} samples, followed within {1e3 * error:.1f} mrad")
    total = sum(path.stat().st_size for path in out.iterdir() if path.is_file())
    print(f"{out}: {total / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
