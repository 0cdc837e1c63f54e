"""The arms, the published motion and the free body of `benchmarks.excitation`.

Only what a user would state is said here: limits of data sheets and model files. Acceleration
limits of the UR10 (8 rad/s²) and of the LWR4+ (10 rad/s²) are assumed: no data sheet has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pinocchio as pin
import scipy.signal

from heft.arrays import Array
from heft.excitation import DesignLimits, EffortLimits, ExcitationTrajectory, Fourier, JointLimits
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import ExcitableRobot

EXAMPLES = "cmeel.prefix/share/example-robot-data/robots"
TORQUE_SHARE = 0.95  # of the stated torque
PANDA = {  # of the manufacturer's interface specification
    "lower": (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    "upper": (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    "velocity": (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    "acceleration": (15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    "jerk": (7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
}
PANDA_TORQUE = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
PANDA_FREQUENCY = 0.075  # [Hz], ω = 0.15 π
PANDA_DURATION = 21.0  # [s]
CORNER = 10.0  # [Hz], of the measured motion


@dataclass(frozen=True)
class Arm:
    """An arm whose motion is designed.

    Attributes:
        name: For the table.
        plant: With smooth friction and rotor inertias.
        limits: Of its motion.
        bound: What is asked for above the best of 2000 random motions [nats].
    """

    name: str
    plant: ExcitableRobot
    limits: DesignLimits
    bound: float

    @staticmethod
    def of(name: str, robot: Robot, joints: JointLimits, torque: Array, bound: float) -> Arm:
        """Return the arm of a robot, torque predicted with its model file."""
        plant = ExcitableRobot.of(robot)
        values = np.zeros(len(plant.labels))
        values[: plant.bodies_size] = robot.nominal()[: plant.bodies_size]
        effort = EffortLimits(values, TORQUE_SHARE * torque)
        return Arm(name, plant, DesignLimits(joints, effort), bound)


def ur10() -> Arm:
    """Return the UR10 of `example-robot-data`, half turns either way."""
    root = Path(str(distribution("example-robot-data").locate_file(EXAMPLES)))
    robot = Robot.from_file(root / "ur_description/urdf/ur10_robot.urdf")
    model = pin.buildModelFromXML(robot.source.decode())
    half, size = np.full(6, np.pi), np.array(model.velocityLimit)
    joints = JointLimits(-half, half, size, np.full(6, 8.0))
    return Arm.of("UR10", robot, joints, np.array(model.effortLimit), 50.0)


def panda(folder: Path, armature: bool = True) -> Arm:
    """Return the Panda with the limits of its data sheet.

    Args:
        folder: Of the measured data.
        armature: Whether rotor inertias are identified.
    """
    source = (folder / "panda_gaz2019" / "panda_arm.urdf").read_bytes()
    bare = Robot.from_urdf_text(source)
    options = Options(joint={j: JointOptions(armature=armature) for j in bare.joints})
    joints = JointLimits(**{k: np.array(v) for k, v in PANDA.items()})
    robot = Robot.from_urdf_text(source, options)
    return Arm.of("Panda", robot, joints, PANDA_TORQUE, 70.0)


def lwr4(folder: Path) -> Arm:
    """Return the LWR4+ with the limits of its model file."""
    robot = Robot.from_file(folder / "kuka_lwr4" / "kuka_lwr4.urdf")
    model = pin.buildModelFromXML(robot.source.decode())
    lower, upper = np.array(model.lowerPositionLimit), np.array(model.upperPositionLimit)
    joints = JointLimits(lower, upper, np.array(model.velocityLimit), np.full(7, 10.0))
    return Arm.of("LWR4+", robot, joints, np.array(model.effortLimit), 68.0)


def published(folder: Path, names: tuple[str, ...]) -> ExcitationTrajectory:
    """Return the motion of [Gaz2019], supplement, table II: q = q₀ + Σ a sin/(lω) − b cos/(lω).

    The formula printed there multiplies b by lω; the log says that it is divided.
    """
    text = (folder / "panda_gaz2019" / "reference_supplement_text.txt").read_text(encoding="utf-8")
    found = {
        f"{m[1]}{m[2]}": np.array(m[3].split(), dtype=float)
        for m in re.finditer(r"^([abq])(\d),j ((?:-?\d\.\d+ ?){7})$", text, re.MULTILINE)
    }
    omega = 2.0 * np.pi * PANDA_FREQUENCY
    rows = [found["q0"]]
    for order in range(1, 6):
        rows += [found[f"a{order}"] / omega, -found[f"b{order}"] / omega]
    basis = Fourier(PANDA_DURATION, 5, PANDA_FREQUENCY)
    return ExcitationTrajectory(basis, np.array(rows), names, ("rad",) * 7)


def executed(folder: Path, count: int) -> tuple[Array, Array, Array]:
    """Return q, v and a that were measured, low-passed, at `count` times, each shape (N, 7)."""
    with np.load(folder / "panda_gaz2019" / "exciting_traj.npz") as data:
        time, q, v = data["t"], data["q"], data["dq"]
    time = time - time[0]
    even = np.arange(0.0, time[-1], 1e-3)
    places = scipy.signal.butter(4, CORNER, fs=1e3, output="sos")

    def smooth(signal: Array) -> Array:
        spread = np.array([np.interp(even, time, column) for column in signal.T])
        return np.asarray(scipy.signal.sosfiltfilt(places, spread, axis=1).T)

    position, velocity = smooth(q), smooth(v)
    acceleration = np.gradient(velocity, 1e-3, axis=0)
    chosen = np.linspace(0, len(even) - 1, count).astype(int)
    return position[chosen], velocity[chosen], acceleration[chosen]


def envelope(motion: tuple[Array, Array, Array]) -> JointLimits:
    """Return the limits that a motion kept itself, from its samples."""
    q, v, a = motion
    sizes = (np.abs(v).max(axis=0), np.abs(a).max(axis=0))
    return JointLimits(q.min(axis=0), q.max(axis=0), *sizes)


def mixing() -> Array:
    """Return wrench by thrusts of the hexarotor of the free flyer, shape (6, 6) [1, m]."""
    angle, tilt = np.deg2rad(60.0 * np.arange(6)), np.deg2rad([55.0, -55.0] * 3)
    axis = np.array([np.sin(angle) * np.sin(tilt), -np.cos(angle) * np.sin(tilt), np.cos(tilt)])
    arm = 0.16 * np.array([np.cos(angle), np.sin(angle), 0.0 * angle])
    drag = 0.01 * np.array([-1.0, 1.0] * 3)
    return np.vstack([axis, np.cross(arm.T, axis.T).T - drag * axis])


def free_limits(scale: float = 1.0) -> JointLimits:
    """Return the free flyer's limits; those of rates and accelerations times a scale."""
    reach = np.array([0.8] * 3 + [np.pi / 3.0] * 3)
    rate = scale * np.array([1.0] * 3 + [1.2] * 3)
    return JointLimits(-reach, reach, rate, scale * np.array([1.2] * 3 + [2.5] * 3))
