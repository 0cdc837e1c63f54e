"""Sensors that see a load: the TOML of `--sensor`, and from their signals to wrench and motion.

Motion comes from the inertial sensor if there is one, else from the pose of the wrench sensor's
frame (`quat.<frame>.w` …, `pos.<frame>.x` …), else from the joints by forward kinematics; all is
stated in the first wrench sensor's frame.

```toml
[sensor.wrist]
kind = "wrench"
frame = "tool0"                        # signals force.tool0.x … torque.tool0.z
reports = "on_load"                    # or "on_sensor": what the sensor feels, not the load
noise = {force = 0.2, torque = 0.01}   # [N, N·m]; found if not given
bias = "auto"                          # "constant", "none", or six numbers that are known
gain_std = 0.02                        # of each channel's gain; exact if not given

[sensor.left]                          # another grasping point of the same load
kind = "wrench"
frame = "left"
position = [0.4, 0.0, 0.1]             # of its frame in the first one's [m]
rotation = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
noise = {force = 0.5, torque = 0.02}   # its own

[sensor.imu]                           # beside the wrench sensor, on the same body
kind = "imu"
frame = "imu"                          # signals omega.imu.x …, acc.imu.x … (specific force)
position = [0.0, 0.02, 0.0]            # of it in the wrench sensor's frame [m]
noise = {gyro = 0.002}                 # [rad/s]
```
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft.arrays import Array
from heft.dynamics import kinematics
from heft.errors import InvalidSetting
from heft.files import (
    Keys,
    Number,
    Section,
    Text,
    list_of,
    named,
    number,
    read_toml,
    rotation_rows,
    truth,
)
from heft.information import AXES, angular_velocity, matrix_of_quaternion
from heft.models import STANDARD_GRAVITY, Robot
from heft.plants import GraspingPoint, Held, at_first
from heft.streams import Device

Bias = Literal["none", "constant", "auto"]


@dataclass(frozen=True)
class Sensor:
    """Description of one sensor."""

    name: str  # name in the file
    kind: Literal["wrench", "imu"]  # what it measures: `wrench` or `imu`
    frame: str  # frame after which its signals are named
    # whether the wrench is the one on the load or the one on the sensor
    reports: Literal["on_load", "on_sensor"] = "on_load"
    # origin of its frame in the first wrench sensor's, shape (3,) [m]
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    # from its axes to the first wrench sensor's, shape (3, 3)
    rotation: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    # standard deviations by name: `force` [N], `torque` [N·m], `gyro` [rad/s]
    noise: Mapping[str, float] | None = None
    bias: Bias = "auto"  # model of an unknown bias of a wrench sensor, beside the known one
    delay: float | None = None  # known delay of its signals [s]
    # ratio of reported to true value of each channel of a wrench sensor, shape (6,)
    gain: tuple[float, ...] = (1.0,) * 6
    # relative standard deviation of the gains, which are then estimated; gains are fixed if it is
    # not given
    gain_std: float | None = None
    # known bias, subtracted, in the sensor's axes and sign, shape (6,) [N, N·m]
    known_bias: tuple[float, ...] = (0.0,) * 6

    @property
    def wrench_noise(self) -> tuple[float, float] | None:
        """Standard deviation of a wrench sensor's force [N] and moment [N·m]; None if unstated."""
        stated = self.noise or {}
        both = set(stated) >= {"force", "torque"}
        return (stated["force"], stated["torque"]) if both else None

    def __post_init__(self) -> None:
        if self.gain_std is not None and not np.array_equal(self.rotation, np.eye(3)):
            raise InvalidSetting(
                "gains are of the sensor's own axes, in which the wrench has to be",
                argument="gain_std",
                cure="leave rotation out, and say --mounting",
            )


@dataclass(frozen=True)
class Sensors:
    """All sensors of one load."""

    # wrench sensors; the load's parameters are stated in the frame of the first
    wrenches: tuple[Sensor, ...]
    imu: Sensor | None = None  # inertial sensor, or None
    # gravity in the frame of the world or of the robot's base, shape (3,) [m/s²]
    gravity: tuple[float, ...] = STANDARD_GRAVITY
    tilt: bool = False  # whether the direction of gravity is estimated

    def __post_init__(self) -> None:
        if self.tilt and self.imu is not None:
            raise InvalidSetting(
                "an inertial sensor feels gravity itself: no stated direction could be wrong",
                argument="tilt",
                cure="leave tilt out, or take the motion from poses or joints",
            )

    @staticmethod
    def from_toml(path: Path) -> Sensors:
        """Read a TOML file.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        return Sensors.from_dict(read_toml(path), str(path))

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "sensors") -> Sensors:
        """Return the sensors of a parsed TOML table, called `where` in messages; see `from_toml`.

        Raises:
            InvalidSetting: If a key is unknown or a value is wrong.
        """
        return SENSORS(table, where)

    @property
    def first(self) -> Sensor:
        """Wrench sensor in whose frame the load is stated."""
        return self.wrenches[0]

    @property
    def turning_noise(self) -> float:
        """Standard deviation of the angular velocity ω [rad/s]; 0 if it is not stated."""
        return float((self.imu.noise or {}).get("gyro", 0.0)) if self.imu else 0.0

    @property
    def noise(self) -> tuple[float, float] | None:
        """Standard deviation of the first wrench sensor's force [N] and moment [N·m].

        None unless the file states those of every wrench sensor.
        """
        return None if self.unstated else self.first.wrench_noise

    @property
    def unstated(self) -> tuple[str, ...]:
        """Names of the wrench sensors whose noise the file does not state."""
        return tuple(s.name for s in self.wrenches if s.wrench_noise is None)

    @property
    def bias(self) -> Bias:
        """Model of the bias of the summed wrench: that of the sensor of which least is known."""
        models = {s.bias for s in self.wrenches}
        return "auto" if "auto" in models else "constant" if "constant" in models else "none"

    def others(self, estimated: Sequence[tuple[float, float]] = ()) -> tuple[GraspingPoint, ...]:
        """Return the further wrench sensors relative to the first one.

        Args:
            estimated: Standard deviations of each wrench sensor's force [N] and moment [N·m], taken
                where the file states none; all alike if not given.
        """
        estimated = estimated or [self.first.wrench_noise or (1.0, 1.0)] * len(self.wrenches)
        noise = [s.wrench_noise or e for s, e in zip(self.wrenches, estimated, strict=True)]
        force, torque = noise[0]
        return tuple(
            GraspingPoint(np.array(s.rotation), np.array(s.position), (f / force, t / torque))
            for s, (f, t) in zip(self.wrenches[1:], noise[1:], strict=True)
        )


def _sensors(sensor: Mapping[str, Sensor] | None = None, **settings: Any) -> Sensors:
    made = [replace(s, name=n, frame=s.frame or n) for n, s in (sensor or {}).items()]
    wrenches = tuple(s for s in made if s.kind == "wrench")
    others = [s for s in made if s.kind == "imu"]
    if not wrenches or len(others) > 1:
        raise InvalidSetting(
            "a wrench sensor is needed, and one inertial sensor at most",
            got=", ".join(f"{s.name}: {s.kind}" for s in made) or "no sensors",
            cure='[sensor.wrist]\nkind = "wrench"\nframe = "tool0"',
        )
    return Sensors(wrenches, others[0] if others else None, **settings)


def _sensor(bias: str | tuple[float, ...] = "auto", **settings: Any) -> Sensor:
    if not isinstance(bias, str):
        settings |= {"known_bias": bias}
        bias = "none"
    return Sensor(**{"name": "", "frame": "", "bias": bias, **settings})


def _sensor_keys(table: Mapping[str, Any], where: str) -> Keys:
    return SENSOR_KEYS[KIND(table.get("kind"), f"{where}, kind")]


def _bias(value: object, where: str) -> str | tuple[float, ...]:
    if isinstance(value, list):
        return list_of(number, 6)(value, where)
    return Text("this is none of the choices", ("auto", "constant", "none"))(value, where)


def _noise(*names: str) -> Section[dict[str, float]]:
    return Section(dict, dict.fromkeys(names, Number("noise must be positive", above=0.0)))


VECTOR = list_of(number, 3)
KIND = Text("this kind of sensor is not known", ("wrench", "imu"))
EVERY_SENSOR: Keys = {
    "kind": KIND,
    "frame": Text("the name of a frame is expected"),
    "position": VECTOR,
    "rotation": rotation_rows,
}
GAIN = Number("a gain is positive", above=0.0, cure='reports = "on_sensor" turns all signs over')
SENSOR_KEYS: dict[str, Keys] = {
    "wrench": {
        **EVERY_SENSOR,
        "reports": Text("this is none of the choices", ("on_load", "on_sensor")),
        "noise": _noise("force", "torque"),
        "bias": _bias,
        "delay": number,
        "gain": list_of(GAIN, 6),
        "gain_std": Number(
            "this says nothing of a gain", above=0.0, most=0.3, cure="say 0.02 for 2 %"
        ),
    },
    "imu": {**EVERY_SENSOR, "noise": _noise("gyro")},
}
SENSORS = Section(
    _sensors,
    {
        "gravity": VECTOR,
        "tilt": truth,
        "sensor": named(Section(_sensor, _sensor_keys), "[sensor.NAME] tables are expected"),
    },
)


def vector_names(kind: str, frame: str, parts: Sequence[str] = tuple(AXES)) -> tuple[str, ...]:
    """Return the signal names of a vector's components in a frame: `force.tool0.x` and so on."""
    return tuple(f"{kind}.{frame}.{p}" for p in parts)


def on_load(sensors: Sensors, values: Array) -> Array:
    """Total wrench on the load in the first sensor's frame, shape (N, 6) [N, N·m].

    Args:
        values: Signals of all wrench sensors side by side, shape (N, 6 · sensors) [N, N·m].
    """
    wrench = np.zeros((len(values), 6))
    for k, sensor in enumerate(sensors.wrenches):
        sign = 1.0 if sensor.reports == "on_load" else -1.0
        logged = sign * values[:, 6 * k : 6 * k + 6]
        own = (logged - np.array(sensor.known_bias)) / np.array(sensor.gain)
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
    """Select the source of motion: an inertial sensor, else a robot's joints, else a pose."""
    if sensors.imu is not None:
        return _by_imu(sensors.imu)
    return by_pose(sensors) if robot is None else _by_joints(sensors, robot)


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


def by_pose(sensors: Sensors) -> Motion:
    """Return the pose of the first wrench sensor's frame as the source of motion."""
    frame, gravity = sensors.first.frame, np.array(sensors.gravity)

    def make(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        rotation = matrix_of_quaternion(values[:, :4])
        turning = angular_velocity(values[:, :4], slopes[:, :4])
        down = np.einsum("nji,j->ni", rotation, gravity)
        world = np.swapaxes(rotation, 1, 2)
        if slopes.shape[1] == 4:
            return Held(time, wrench, -down, slopes[:, 4:], turning, world)
        velocity = np.einsum("nji,nj->ni", rotation, slopes[:, 4:])
        return Held.with_velocity(time, wrench, velocity, turning, down, world)

    names = (*vector_names("quat", frame, "wxyz"), *vector_names("pos", frame))
    return Motion(f"pose of {frame}", names, noisy=False, slopes=True, make=make)


def devices_of(sensors: Sensors, motion: Motion, half_step: float = 0.0) -> tuple[Device, ...]:
    """Return the devices whose signals are taken: wrench sensors, then the source of motion.

    Args:
        half_step: Half the step of central differences, where the motion's slopes are needed [s].
    """
    wrenches = []
    for s in sensors.wrenches:
        names = (*vector_names("force", s.frame), *vector_names("torque", s.frame))
        wrenches.append(Device(s.name, names, delay=s.delay or 0.0))
    half_step = half_step if motion.slopes else 0.0
    return (*wrenches, Device(motion.device, motion.names, motion.noisy, half_step=half_step))


def estimated_noise(wrench: Array) -> tuple[float, float]:
    """Return the white noise of force [N] and moment [N·m], (N, 6), pooled over the axes.

    Uses second differences, in which motion is negligible at the sampling rate, and their median
    absolute deviation, which is robust to outliers.
    """
    bend = np.diff(wrench, 2, axis=0) / math.sqrt(6.0)
    deviation = 1.4826 * np.median(np.abs(bend - np.median(bend, axis=0)), axis=0)
    force, moment = np.sqrt((deviation.reshape(2, 3) ** 2).mean(axis=1))
    return max(float(force), 1e-4), max(float(moment), 1e-6)


def joined(*parts: Held) -> Held:
    """Return the samples of several parts, in their order."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Held(*(np.concatenate(column) for column in columns))
