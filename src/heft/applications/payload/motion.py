"""Conversion of sensor signals to a load's wrench and motion in the first sensor's frame.

Motion comes from the inertial sensor if there is one, else from the pose of the wrench sensor's
frame (`quat.<frame>.w` …, `pos.<frame>.x` …), else from the joints by forward kinematics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from heft import signals
from heft.arrays import Array
from heft.dynamics import kinematics
from heft.errors import MissingSignal
from heft.information import AXES, angular_velocity, continuous_quaternions, matrix_of_quaternion
from heft.models import Robot
from heft.plants import Held, at_first
from heft.recordings import Recording
from heft.signals import Smoothing

from .sensors import Sensor, Sensors

SLOW_POSES = 0.5  # [s] between samples that are poses, not a motion


def vector_names(kind: str, frame: str, parts: Sequence[str] = tuple(AXES)) -> tuple[str, ...]:
    """Return the signal names of a vector's components: `force.tool0.x` and so on.

    Args:
        kind: Quantity, such as `force`.
        frame: Whose axes its components are along.
        parts: Endings of the names.
    """
    return tuple(f"{kind}.{frame}.{p}" for p in parts)


def wrench_names(sensor: Sensor) -> tuple[str, ...]:
    """Return the six signal names of a wrench sensor, force before torque."""
    return (*vector_names("force", sensor.frame), *vector_names("torque", sensor.frame))


def on_load(sensors: Sensors, values: Array) -> Array:
    """Total wrench on the load in the first sensor's frame, shape (N, 6) [N, N·m].

    Args:
        sensors: Sensors that the signals come from.
        values: Signals of all wrench sensors side by side, shape (N, 6 · sensors) [N, N·m].
    """
    wrench = np.zeros((len(values), 6))
    for k, sensor in enumerate(sensors.wrenches):
        sign = 1.0 if sensor.reports == "on_load" else -1.0
        told = sign * values[:, 6 * k : 6 * k + 6]
        own = (told - np.array(sensor.known_bias)) / np.array(sensor.gain)
        wrench += at_first(own, np.array(sensor.rotation), np.array(sensor.position) * (k > 0))
    return wrench


@dataclass(frozen=True)
class Motion:
    """Source of motion: its signals, and the function that converts them.

    Attributes:
        device: Name of the source: an inertial sensor, joints, a pose.
        names: Its signals.
        noisy: Whether consecutive samples always differ while the device works; a repeated sample
            then shows a fault.
        slopes: Whether time derivatives of the signals are needed.
        make: Function of time, wrench, signals and their derivatives, each with N rows, that
            returns wrench and motion in the first sensor's frame.
    """

    device: str
    names: tuple[str, ...]
    noisy: bool
    slopes: bool
    make: Callable[[Array, Array, Array, Array], Held]


def motion_of(sensors: Sensors, robot: Robot | None = None) -> Motion:
    """Select the source of motion: an inertial sensor, else a robot's joints, else a pose.

    Args:
        sensors: Sensors available.
        robot: Model whose joints give the motion, if there is no inertial sensor.
    """
    if sensors.imu is not None:
        return _by_imu(sensors.imu)
    return _by_pose(sensors) if robot is None else _by_joints(sensors, robot)


def _by_imu(imu: Sensor) -> Motion:
    """Return how motion is made of specific force and angular velocity."""
    turn, place = np.array(imu.rotation), np.array(imu.position)

    def make(time: Array, wrench: Array, values: Array, _: Array) -> Held:
        a, w = values[:, :3] @ turn.T, values[:, 3:] @ turn.T
        return Held.with_accelerometer(time, wrench, a, w, tuple(-place))

    names = (*vector_names("acc", imu.frame), *vector_names("omega", imu.frame))
    return Motion(imu.name, names, noisy=True, slopes=False, make=make)


def _by_joints(sensors: Sensors, robot: Robot) -> Motion:
    """Return how motion is made of joint positions, by the robot's kinematics."""
    link = robot.link(sensors.first.frame)

    def make(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        seen = kinematics.frame_motion(robot.tree, link, values, slopes)
        world = np.swapaxes(seen.rotation, 1, 2)
        down = np.einsum("nji,j->ni", seen.rotation, np.array(robot.gravity))
        return Held.with_velocity(time, wrench, seen.velocity, seen.angular_velocity, down, world)

    names = tuple(f"q.{j}" for j in robot.joints)
    return Motion("joints", names, noisy=False, slopes=True, make=make)


def _by_pose(sensors: Sensors) -> Motion:
    """Return how motion is made of the first sensor's orientation and position."""
    frame, gravity = sensors.first.frame, np.array(sensors.gravity)

    def make(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        rotation = matrix_of_quaternion(values[:, :4])
        velocity = np.einsum("nji,nj->ni", rotation, slopes[:, 4:])
        turning = angular_velocity(values[:, :4], slopes[:, :4])
        down = np.einsum("nji,j->ni", rotation, gravity)
        world = np.swapaxes(rotation, 1, 2)
        return Held.with_velocity(time, wrench, velocity, turning, down, world)

    names = (*vector_names("quat", frame, "wxyz"), *vector_names("pos", frame))
    return Motion(f"pose of {frame}", names, noisy=False, slopes=True, make=make)


def read(recording: Recording, sensors: Sensors, robot: Robot | None = None) -> Held:
    """Return the load's wrench and motion of a recording, in the first wrench sensor's frame.

    Args:
        recording: Recording with the sensors' signals.
        sensors: Their description.
        robot: Model whose joints give the motion, if neither an inertial sensor nor a pose does.

    Raises:
        MissingSignal: If a wrench, or every source of motion, is missing.
    """
    pose = _by_pose(sensors)
    posed = sensors.imu is None and all(n in recording.sources for n in pose.names[:4])
    if not posed and sensors.imu is None and robot is None:
        raise _no_motion(recording, pose.names[0])
    motion = pose if posed else motion_of(sensors, robot)
    placed = not posed or all(n in recording.sources for n in pose.names[4:])
    names = motion.names if placed else motion.names[:4]
    wrenches = [n for sensor in sensors.wrenches for n in wrench_names(sensor)]
    time, values = _read(recording, [*wrenches, *names], "is what the load is weighed by")
    wrench, values = on_load(sensors, values[:, : len(wrenches)]), values[:, len(wrenches) :]
    if sensors.first.delay:
        late = sensors.first.delay
        wrench = np.stack([np.interp(time + late, time, c) for c in wrench.T], axis=1)
    if not motion.slopes:
        return motion.make(time, wrench, values, np.zeros((len(time), 0)))
    if posed:  # smoothing would round off a jump of the quaternion's sign
        values = np.hstack([continuous_quaternions(values[:, :4]), values[:, 4:]])
    step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
    if posed and (not placed or step > SLOW_POSES):
        rotation = matrix_of_quaternion(values[:, :4])
        gravity = np.einsum("nji,j->ni", rotation, np.array(sensors.gravity))
        return Held.at_rest(time, wrench, gravity, np.swapaxes(rotation, 1, 2))
    smoothing = signals.resolve(Smoothing(), [recording], names)
    assert smoothing.corner is not None
    smooth = signals.smooth(time, values, step, smoothing.corner, smoothing.order)
    return motion.make(time, wrench, smooth.position, smooth.velocity)


def _read(recording: Recording, names: Sequence[str], purpose: str) -> tuple[Array, Array]:
    """Return time, shape (N,), and signals, shape (N, names), without rows that are not finite."""
    for name in names:
        recording.require(name, purpose)
    blocks = list(recording.blocks(names))
    time = np.concatenate([b.time for b in blocks])
    values = np.concatenate([b.values for b in blocks])
    good = np.isfinite(values).all(axis=1) & np.isfinite(time)
    return time[good], values[good]


def _no_motion(recording: Recording, quaternion: str) -> MissingSignal:
    posed = [n.split(".")[1] for n in recording.sources if n.startswith("quat.")]
    return MissingSignal(
        "nothing tells how the sensor moves",
        argument=recording.name,
        valid=recording.signals,
        expected=f"{quaternion} … (a pose), an inertial sensor, or joints and a robot",
        cure=f"the pose is that of {posed[0]}: name the same frame in the file of --sensor"
        if posed
        else "add [sensor.imu] to the file of --sensor, or give --robot",
    )
