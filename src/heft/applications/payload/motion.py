"""Conversion of sensor signals to a load's wrench and motion in the first sensor's frame.

Motion comes from the inertial sensor if there is one, else from the pose of the wrench sensor's
frame (`quat.<frame>.w` …, `pos.<frame>.x` …), else from the joints by forward kinematics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.dynamics import kinematics
from heft.errors import MissingSignal
from heft.information import (
    AXES,
    Finding,
    angular_velocity,
    continuous_quaternions,
    matrix_of_quaternion,
)
from heft.models import Robot
from heft.plants import Held, at_first
from heft.recordings import Recording
from heft.signals import Smoothing
from heft.streams import Device

from .log_checks import usable
from .sensors import Sensor, Sensors

SLOW_POSES = 0.5  # [s] between samples that are poses, not a motion


def vector_names(kind: str, frame: str, parts: Sequence[str] = tuple(AXES)) -> tuple[str, ...]:
    """Return the signal names of a vector's components: `force.tool0.x` and so on.

    Args:
        kind: Quantity, such as `force`.
        frame: Whose axes its components are along.
    """
    return tuple(f"{kind}.{frame}.{p}" for p in parts)


def wrench_names(sensor: Sensor) -> tuple[str, ...]:
    """Return the six signal names of a wrench sensor, force before torque."""
    return (*vector_names("force", sensor.frame), *vector_names("torque", sensor.frame))


def on_load(sensors: Sensors, values: Array) -> Array:
    """Total wrench on the load in the first sensor's frame, shape (N, 6) [N, N·m].

    Args:
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
    """Source of motion: its signals, and the function that converts them."""

    device: str  # name of the source: an inertial sensor, joints, a pose
    names: tuple[str, ...]  # its signals
    # whether consecutive samples always differ while the device works; a repeated sample then shows
    # a fault
    noisy: bool
    slopes: bool  # whether time derivatives of the signals are needed
    # function of time, wrench, signals and their derivatives, each with N rows, that returns wrench
    # and motion in the first sensor's frame
    make: Callable[[Array, Array, Array, Array], Held]


def motion_of(sensors: Sensors, robot: Robot | None = None) -> Motion:
    """Select the source of motion: an inertial sensor, else a robot's joints, else a pose.

    Args:
        robot: Model whose joints give the motion, if there is no inertial sensor.
    """
    if sensors.imu is not None:
        return _by_imu(sensors.imu)
    return _by_pose(sensors) if robot is None else _by_joints(sensors, robot)


def _by_imu(imu: Sensor) -> Motion:
    turn, place = np.array(imu.rotation), np.array(imu.position)

    def make(time: Array, wrench: Array, values: Array, _: Array) -> Held:
        a, w = values[:, :3] @ turn.T, values[:, 3:] @ turn.T
        return Held.with_accelerometer(time, wrench, a, w, tuple(-place))

    names = (*vector_names("acc", imu.frame), *vector_names("omega", imu.frame))
    return Motion(imu.name, names, noisy=True, slopes=False, make=make)


def _by_joints(sensors: Sensors, robot: Robot) -> Motion:
    link = robot.link(sensors.first.frame)

    def make(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        seen = kinematics.frame_motion(robot.tree, link, values, slopes)
        world = np.swapaxes(seen.rotation, 1, 2)
        down = np.einsum("nji,j->ni", seen.rotation, np.array(robot.gravity))
        return Held.with_velocity(time, wrench, seen.velocity, seen.angular_velocity, down, world)

    names = tuple(f"q.{j}" for j in robot.joints)
    return Motion("joints", names, noisy=False, slopes=True, make=make)


def _by_pose(sensors: Sensors) -> Motion:
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


@dataclass(frozen=True, eq=False)
class Sensed:
    """Wrench and motion of a load, from a log."""

    held: Held  # wrench and motion in the first wrench sensor's frame, of the rows that can be used
    # standard deviation of each wrench sensor's force [N] and moment [N·m], from its own samples;
    # all equal where poses one by one show none
    noise: tuple[tuple[float, float], ...]
    findings: tuple[Finding, ...]  # what was left out


def devices_of(sensors: Sensors, motion: Motion, half_step: float = 0.0) -> tuple[Device, ...]:
    """Return the devices whose signals are taken: wrench sensors, then the source of motion.

    Args:
        half_step: Half the step of central differences, where the motion's slopes are needed [s].
    """
    wrenches = [Device(s.name, wrench_names(s), delay=s.delay or 0.0) for s in sensors.wrenches]
    half_step = half_step if motion.slopes else 0.0
    return (*wrenches, Device(motion.device, motion.names, motion.noisy, half_step=half_step))


def read(recording: Recording, sensors: Sensors, robot: Robot | None = None) -> Sensed:
    """Return the wrench on a load and its motion, in the first wrench sensor's frame.

    Rows in which a sensor tells no numbers, or is frozen, are left out; see `usable`.

    Args:
        robot: Model whose joints give the motion, if neither an inertial sensor nor a pose does.

    Raises:
        MissingSignal: If a wrench, or every source of motion, is missing.
        InvalidRecording: If no row of a device can be used.
    """
    pose = _by_pose(sensors)
    posed = sensors.imu is None and all(n in recording.sources for n in pose.names[:4])
    if not posed and sensors.imu is None and robot is None:
        raise _no_motion(recording, pose.names[0])
    motion = pose if posed else motion_of(sensors, robot)
    if posed and not all(n in recording.sources for n in pose.names[4:]):
        motion = replace(motion, names=motion.names[:4])
    devices = devices_of(sensors, motion)
    time, values = _read(recording, [n for d in devices for n in d.names])
    step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
    still = posed and (len(motion.names) == 4 or step > SLOW_POSES)
    told = np.split(values, np.cumsum([len(d.names) for d in devices])[:-1], axis=1)
    seen = [usable(d, time, v, not still) for d, v in zip(devices, told, strict=True)]
    findings = tuple(f for _, found in seen for f in found)
    *masks, moves = (good for good, _ in seen)
    late = [
        _undelayed(time, v, good, d.delay) for d, v, good in zip(devices, told, masks, strict=False)
    ]
    good = np.logical_and.reduce([mask for _, mask in late])
    wrench = on_load(sensors, np.concatenate([w for w, _ in late], axis=1))
    noise = tuple(
        (1.0, 1.0) if still or mask.sum() < 3 else estimated_noise(v[mask])
        for v, mask in zip(told, masks, strict=False)
    )
    if still:
        rows = good & moves
        return Sensed(_at_rest(sensors, time[rows], wrench[rows], told[-1][rows]), noise, findings)
    held = _moving(motion, time, wrench, told[-1], good, moves, step)
    return Sensed(held, noise, findings)


def _at_rest(sensors: Sensors, time: Array, wrench: Array, values: Array) -> Held:
    rotation = matrix_of_quaternion(values[:, :4])
    gravity = np.einsum("nji,j->ni", rotation, np.array(sensors.gravity))
    return Held.at_rest(time, wrench, gravity, np.swapaxes(rotation, 1, 2))


def _moving(
    motion: Motion,
    time: Array,
    wrench: Array,
    values: Array,
    good: NDArray[np.bool_],
    moves: NDArray[np.bool_],
    step: float,
) -> Held:
    """Return wrench and motion where both are usable; differentiated piece by piece if need be.

    Args:
        time: Shape (N,) [s].
        wrench: On the load, shape (N, 6) [N, N·m].
        values: Of the motion's signals, shape (N, signals).
        good: Where the wrench is usable, shape (N,).
        moves: Where the motion is, shape (N,).
        step: Usual time step of the log [s].
    """
    if not motion.slopes:
        rows = good & moves
        return motion.make(time[rows], wrench[rows], values[rows], np.zeros((int(rows.sum()), 0)))
    time, wrench, values, good = time[moves], wrench[moves], values[moves], good[moves]
    if motion.names[0].startswith("quat."):  # smoothing would round off a jump of its sign
        values = np.hstack([continuous_quaternions(values[:, :4]), values[:, 4:]])
    signal = [n.partition(".") for n in motion.names]
    columns: dict[str, dict[str, Array]] = {kind: {} for kind, _, _ in signal}
    for (kind, _, rest), column in zip(signal, values.T, strict=True):
        columns[kind][rest] = column
    usual = Recording.from_arrays(time, "motion", **columns)
    smoothing = signals.resolve(Smoothing(), [usual], motion.names)
    assert smoothing.corner is not None
    corner, order = smoothing.corner, smoothing.order
    pieces = list(signals.between_gaps(time, signals.GAP_STEPS * step))
    long = [p for p in pieces if p.stop - p.start >= 2 * signals.REACH + 2]
    parts = []
    for piece in long or pieces:
        smooth = signals.smooth(time[piece], values[piece], step, corner, order)
        made = motion.make(time[piece], wrench[piece], smooth.position, smooth.velocity)
        parts.append(made.part(np.flatnonzero(good[piece])))
    columns_of = (vars(part).values() for part in parts)
    return Held(*(np.concatenate(arrays) for arrays in zip(*columns_of, strict=True)))


def _undelayed(
    time: Array, values: Array, good: NDArray[np.bool_], delay: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return signals that come late by a delay [s] at their own times, and where they are usable.

    Signals that are not usable are zero, or interpolated between others that are not either.
    """
    values = np.where(good[:, None], values, 0.0)
    if not delay:
        return values, good
    at = time + delay
    moved = np.stack([np.interp(at, time, column) for column in values.T], axis=1)
    return moved, np.interp(at, time, (~good).astype(float)) == 0.0


def _read(recording: Recording, names: Sequence[str]) -> tuple[Array, Array]:
    """Return time, shape (N,), and signals, shape (N, names), of the rows that have a time."""
    for name in names:
        recording.require(name, "is what the load is weighed by")
    whole = recording.whole(names)
    good = np.isfinite(whole.time)
    return whole.time[good], whole.values[good]


def estimated_noise(wrench: Array) -> tuple[float, float]:
    """Estimate the white noise of a wrench sensor from its samples.

    Uses second differences, in which motion is negligible at the sampling rate, and their median
    absolute deviation, which is robust to outliers.

    Args:
        wrench: Force and moment, shape (N, 6) [N, N·m].

    Returns:
        Standard deviation of one sample's force [N] and moment [N·m], each pooled over the axes.
    """
    bend = np.diff(wrench, 2, axis=0) / math.sqrt(6.0)
    deviation = 1.4826 * np.median(np.abs(bend - np.median(bend, axis=0)), axis=0)
    force, moment = np.sqrt((deviation.reshape(2, 3) ** 2).mean(axis=1))
    return max(float(force), 1e-4), max(float(moment), 1e-6)


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
