"""Sensors that see a load: the TOML of `--sensor`, and what their signals say, in one frame.

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

[sensor.imu]                           # beside the wrench sensor, on the same body
kind = "imu"
frame = "imu"                          # signals omega.imu.x …, acc.imu.x … (specific force)
position = [0.0, 0.02, 0.0]            # of it in the wrench sensor's frame [m]
noise = {gyro = 0.002}                 # [rad/s]
```

Motion comes from the inertial sensor if there is one, else from the pose of the wrench sensor's
frame (`quat.<frame>.w` …, `pos.<frame>.x` …), else from the joints through the robot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft import signals
from heft.arrays import Array
from heft.dynamics import kinematics
from heft.errors import InvalidSetting, MissingSignal
from heft.files import matrix_rows, number, read_toml, refuse_unknown, vector
from heft.information import (
    AXES,
    angular_velocity,
    continuous_quaternions,
    matrix_of_quaternion,
)
from heft.models import STANDARD_GRAVITY, Robot
from heft.plants import Held, at_first
from heft.recordings import Recording
from heft.signals import Smoothing

from .by_wrench import Bias

RIGHT_ANGLED = 1e-3  # by how much a rotation matrix may miss being one
LOOSEST = 0.3  # relative standard deviation of a gain
SLOW_POSES = 0.5  # [s] between samples that are poses, not a motion


@dataclass(frozen=True)
class Sensor:
    """One sensor.

    Attributes:
        name: As the file calls it.
        kind: What it tells.
        frame: What its signals are named after.
        reports: Whether a wrench is that on the load or that on the sensor.
        position: Of its frame in the first wrench sensor's [m].
        rotation: From its axes to the first wrench sensor's.
        noise: Standard deviations by name: `force`, `torque`, `gyro`.
        bias: What a wrench sensor may add, beside what is known.
        known_bias: Which it is known to add, in its own axes, as it tells it [N, N·m].
        delay: By how much it tells late, if that is known [s].
        gain: What each channel of a wrench sensor tells over what there is.
        gain_std: How sure that is, relative; then gains are estimated. Exact if not given.
    """

    name: str
    kind: Literal["wrench", "imu"]
    frame: str
    reports: Literal["on_load", "on_sensor"] = "on_load"
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    rotation: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    noise: Mapping[str, float] | None = None
    bias: Bias = "auto"
    delay: float | None = None
    gain: tuple[float, ...] = (1.0,) * 6
    gain_std: float | None = None
    known_bias: tuple[float, ...] = (0.0,) * 6


KEYS = {
    "wrench": (
        "kind",
        "frame",
        "reports",
        "position",
        "rotation",
        "noise",
        "bias",
        "delay",
        "gain",
        "gain_std",
    ),
    "imu": ("kind", "frame", "position", "rotation", "noise"),
}
NOISES = {"wrench": ("force", "torque"), "imu": ("gyro",)}


@dataclass(frozen=True)
class Sensors:
    """All sensors that see a load.

    Attributes:
        wrenches: The first is where the load's numbers are stated.
        imu: The inertial sensor, if there is one.
        gravity: In the world, or the robot's base [m/s²].
        tilt: Whether it may point elsewhere, and its direction is looked for.
    """

    wrenches: tuple[Sensor, ...]
    imu: Sensor | None = None
    gravity: tuple[float, ...] = STANDARD_GRAVITY
    tilt: bool = False

    @staticmethod
    def from_toml(path: Path) -> Sensors:
        """Read a TOML file.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        return Sensors.from_dict(read_toml(path), str(path))

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "sensors") -> Sensors:
        """Return the sensors of a parsed TOML table; see `from_toml`."""
        refuse_unknown(table, ("gravity", "tilt", "sensor"), where)
        entries = table.get("sensor", {})
        if not isinstance(entries, Mapping):
            raise InvalidSetting("[sensor.NAME] tables are expected", argument=where)
        made = [
            _sensor(name, entry, f"{where}, [sensor.{name}]") for name, entry in entries.items()
        ]
        wrenches = tuple(s for s in made if s.kind == "wrench")
        others = [s for s in made if s.kind == "imu"]
        if not wrenches or len(others) > 1:
            raise InvalidSetting(
                "a wrench sensor is needed, and one inertial sensor at most",
                argument=where,
                got=", ".join(f"{s.name}: {s.kind}" for s in made) or "no sensors",
                cure='[sensor.wrist]\nkind = "wrench"\nframe = "tool0"',
            )
        gravity = tuple(vector(table.get("gravity", STANDARD_GRAVITY), f"{where}, gravity", 3))
        tilt = table.get("tilt", False)
        if not isinstance(tilt, bool):
            raise InvalidSetting("true or false is expected", argument=f"{where}, tilt", got=tilt)
        if tilt and others:
            raise InvalidSetting(
                "an inertial sensor feels gravity itself: no stated direction could be wrong",
                argument=f"{where}, tilt",
                cure="leave tilt out, or take the motion from poses or joints",
            )
        return Sensors(wrenches, others[0] if others else None, gravity, tilt)

    @property
    def first(self) -> Sensor:
        """The wrench sensor in whose frame the load is stated."""
        return self.wrenches[0]

    @property
    def turning_noise(self) -> float:
        """Standard deviation of ω, 0 if it is not stated [rad/s]."""
        return float((self.imu.noise or {}).get("gyro", 0.0)) if self.imu else 0.0

    @property
    def noise(self) -> tuple[float, float] | None:
        """Standard deviation of one sensor's force [N] and moment [N·m], if stated."""
        stated = self.first.noise or {}
        if set(stated) != {"force", "torque"}:
            return None
        return stated["force"], stated["torque"]

    @property
    def others(self) -> list[tuple[Array, Array]]:
        """Rotation and translation of the further wrench sensors."""
        return [(np.array(s.rotation), np.array(s.position)) for s in self.wrenches[1:]]


def _sensor(name: str, entry: object, where: str) -> Sensor:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=repr(entry)[:60])
    kind = entry.get("kind")
    if kind not in KEYS:
        raise InvalidSetting(
            "this kind of sensor is not known",
            argument=f"{where}, kind",
            got=repr(kind),
            valid=KEYS,
        )
    refuse_unknown(entry, KEYS[kind], where)
    frame = entry.get("frame", name)
    if not isinstance(frame, str):
        raise InvalidSetting(
            "the name of a frame is expected", argument=f"{where}, frame", got=repr(frame)
        )
    choices = {"reports": ("on_load", "on_sensor"), "bias": ("auto", "constant", "none")}
    known_bias, chosen = [0.0] * 6, {}
    if isinstance(entry.get("bias"), list):
        known_bias = list(vector(entry["bias"], f"{where}, bias", 6))
        entry = {**entry, "bias": "none"}
    for key, valid in choices.items():
        chosen[key] = entry.get(key, valid[0])
        if chosen[key] not in valid:
            raise InvalidSetting(
                "this is none of the choices",
                argument=f"{where}, {key}",
                got=repr(chosen[key]),
                valid=valid,
            )
    rotation = np.eye(3)
    if "rotation" in entry:
        rotation = matrix_rows(entry["rotation"], f"{where}, rotation")
        if rotation.shape != (3, 3) or not (
            np.allclose(rotation @ rotation.T, np.eye(3), atol=RIGHT_ANGLED)
            and np.linalg.det(rotation) > 0.0
        ):
            raise InvalidSetting(
                "this is no rotation",
                argument=f"{where}, rotation",
                got=np.round(rotation, 4).tolist(),
                expected="three rows of length one, at right angles, right-handed",
            )
    noise = entry.get("noise")
    if noise is not None:
        if not isinstance(noise, Mapping):
            raise InvalidSetting("a table is expected", argument=f"{where}, noise")
        refuse_unknown(noise, NOISES[kind], f"{where}, noise")
        noise = {k: number(v, f"{where}, noise.{k}") for k, v in noise.items()}
        if any(v <= 0.0 for v in noise.values()):
            raise InvalidSetting("noise must be positive", argument=f"{where}, noise", got=noise)
    gain = tuple(vector(entry.get("gain", [1.0] * 6), f"{where}, gain", 6))
    if min(gain) <= 0.0:
        raise InvalidSetting(
            "a gain is positive",
            argument=f"{where}, gain",
            got=gain,
            cure='reports = "on_sensor" turns all signs over',
        )
    spread = number(entry["gain_std"], f"{where}, gain_std") if "gain_std" in entry else None
    if spread is not None and not 0.0 < spread <= LOOSEST:
        raise InvalidSetting(
            "this says nothing of a gain",
            argument=f"{where}, gain_std",
            got=spread,
            expected=f"above 0 and up to {LOOSEST:g}: 0.02 for 2 %",
        )
    if spread is not None and not np.array_equal(rotation, np.eye(3)):
        raise InvalidSetting(
            "gains are of the sensor's own axes, in which the wrench has to be",
            argument=f"{where}, gain_std",
            cure="leave rotation out, and say --mounting",
        )
    return Sensor(
        name,
        kind,
        frame,
        chosen["reports"],
        tuple(vector(entry.get("position", [0.0] * 3), f"{where}, position", 3)),
        tuple(map(tuple, rotation.tolist())),
        noise,
        chosen["bias"],
        number(entry["delay"], f"{where}, delay") if "delay" in entry else None,
        gain,
        spread,
        tuple(known_bias),
    )


def vector_names(kind: str, frame: str, parts: Sequence[str] = tuple(AXES)) -> list[str]:
    """Return the signals of a vector: `force.tool0.x` and so on."""
    return [f"{kind}.{frame}.{p}" for p in parts]


def _read(recording: Recording, names: Sequence[str], purpose: str) -> tuple[Array, Array]:
    """Return time, shape (N,), and signals, shape (N, names), without rows that are not finite."""
    for name in names:
        recording.require(name, purpose)
    blocks = list(recording.blocks(names))
    time = np.concatenate([b.time for b in blocks])
    values = np.concatenate([b.values for b in blocks])
    good = np.isfinite(values).all(axis=1) & np.isfinite(time)
    return time[good], values[good]


def read(recording: Recording, sensors: Sensors, robot: Robot | None = None) -> Held:
    """Return what a recording shows of the load, in the first wrench sensor's frame.

    Args:
        recording: With the sensors' signals.
        sensors: What they are.
        robot: Through whose joints the motion comes, where neither an inertial sensor nor a
            pose tells it.

    Raises:
        MissingSignal: If no motion is there, or a wrench is not.
    """
    names = [n for sensor in sensors.wrenches for n in wrench_names(sensor)]
    purpose = "is what the load is weighed by"
    motion, make = _motion(recording, sensors, robot)
    time, values = _read(recording, [*names, *motion], purpose)
    wrench = on_load(sensors, values[:, : len(names)])
    if sensors.first.delay:
        late = sensors.first.delay
        wrench = np.stack([np.interp(time + late, time, c) for c in wrench.T], axis=1)
    return make(time, wrench, values[:, len(names) :])


def wrench_names(sensor: Sensor) -> tuple[str, ...]:
    """Return the six signals of a wrench sensor."""
    return (*vector_names("force", sensor.frame), *vector_names("torque", sensor.frame))


def on_load(sensors: Sensors, values: Array) -> Array:
    """Return the wrench on the load in the first sensor's frame, shape (N, 6) [N, N·m].

    Args:
        sensors: What the signals are from.
        values: Signals of all wrench sensors one beside the other, shape (N, 6 · sensors).
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
    """Signals that motion is made of as they come, and how.

    Attributes:
        device: What tells them: an inertial sensor, joints, a pose.
        names: The signals.
        noisy: Whether they are never twice the same while the device works.
        slopes: Whether their derivatives are needed.
        make: Of time, wrench, signals and their derivatives, each with N rows.
    """

    device: str
    names: tuple[str, ...]
    noisy: bool
    slopes: bool
    make: Callable[[Array, Array, Array, Array], Held]


def motion_of(sensors: Sensors, robot: Robot | None = None) -> Motion:
    """Return how motion is made of signals: an inertial sensor's, else a robot's, else a pose's.

    Args:
        sensors: What there is.
        robot: Through whose joints the motion comes, if there is no inertial sensor.
    """
    frame, imu = sensors.first.frame, sensors.imu

    def from_imu(time: Array, wrench: Array, values: Array, _: Array) -> Held:
        assert imu is not None
        turn, place = np.array(imu.rotation), np.array(imu.position)
        a, w = values[:, :3] @ turn.T, values[:, 3:] @ turn.T
        return Held.with_accelerometer(time, wrench, a, w, tuple(-place))

    def from_joints(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        assert robot is not None
        seen = kinematics.frame_motion(robot.tree, robot.link(frame), values, slopes)
        down = np.einsum("nji,j->ni", seen.rotation, np.array(robot.gravity))
        return Held.with_velocity(time, wrench, seen.velocity, seen.angular_velocity, down)

    def from_pose(time: Array, wrench: Array, values: Array, slopes: Array) -> Held:
        rotation = matrix_of_quaternion(values[:, :4])
        velocity = np.einsum("nji,nj->ni", rotation, slopes[:, 4:])
        turning = angular_velocity(values[:, :4], slopes[:, :4])
        down = np.einsum("nji,j->ni", rotation, np.array(sensors.gravity))
        return Held.with_velocity(time, wrench, velocity, turning, down)

    if imu is not None:
        names = (*vector_names("acc", imu.frame), *vector_names("omega", imu.frame))
        return Motion(imu.name, names, True, False, from_imu)
    if robot is not None:
        joints = tuple(f"q.{j}" for j in robot.joints)
        return Motion("joints", joints, False, True, from_joints)
    names = (*vector_names("quat", frame, tuple("wxyz")), *vector_names("pos", frame))
    return Motion(f"pose of {frame}", names, False, True, from_pose)


Maker = Callable[[Array, Array, Array], Held]


def _motion(recording: Recording, sensors: Sensors, robot: Robot | None) -> tuple[list[str], Maker]:
    """Return the signals that motion is made of, and what makes it."""
    frame, imu = sensors.first.frame, sensors.imu
    gravity = np.array(sensors.gravity)
    if imu is not None:
        names = vector_names("acc", imu.frame) + vector_names("omega", imu.frame)
        turn, place = np.array(imu.rotation), np.array(imu.position)

        def from_imu(time: Array, wrench: Array, values: Array) -> Held:
            a, w = values[:, :3] @ turn.T, values[:, 3:] @ turn.T
            return Held.with_accelerometer(time, wrench, a, w, tuple(-place))

        return names, from_imu
    quaternion = vector_names("quat", frame, tuple("wxyz"))
    position = vector_names("pos", frame)
    if all(n in recording.sources for n in quaternion):
        moving = all(n in recording.sources for n in position)

        def from_pose(time: Array, wrench: Array, values: Array) -> Held:
            turned = continuous_quaternions(values[:, :4])
            step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
            rotation = matrix_of_quaternion(turned)
            still = np.einsum("nji,j->ni", rotation, gravity)
            if not moving or step > SLOW_POSES:
                return Held.at_rest(time, wrench, still, np.swapaxes(rotation, 1, 2))
            smoothing = signals.resolve(Smoothing(), [recording], [*quaternion, *position])
            assert smoothing.corner is not None
            smooth = signals.smooth(time, values, step, smoothing.corner, smoothing.order)
            turned = smooth.position[:, :4]
            rotation = matrix_of_quaternion(turned)
            velocity = np.einsum("nji,nj->ni", rotation, smooth.velocity[:, 4:])
            return Held.with_velocity(
                time,
                wrench,
                velocity,
                angular_velocity(turned, smooth.velocity[:, :4]),
                np.einsum("nji,j->ni", rotation, gravity),
                np.swapaxes(rotation, 1, 2),
            )

        return [*quaternion, *(position if moving else [])], from_pose
    if robot is None:
        posed = [n.split(".")[1] for n in recording.sources if n.startswith("quat.")]
        raise MissingSignal(
            "nothing tells how the sensor moves",
            argument=recording.name,
            valid=recording.signals,
            expected=f"{quaternion[0]} … (a pose), an inertial sensor, or joints and a robot",
            cure=f"the pose is that of {posed[0]}: name the same frame in the file of --sensor"
            if posed
            else "add [sensor.imu] to the file of --sensor, or give --robot",
        )
    joints = [f"q.{j}" for j in robot.joints]

    def from_joints(time: Array, wrench: Array, values: Array) -> Held:
        step = float(np.median(np.diff(time)))
        smoothing = signals.resolve(Smoothing(), [recording], joints)
        assert smoothing.corner is not None
        smooth = signals.smooth(time, values, step, smoothing.corner, smoothing.order)
        seen = kinematics.frame_motion(
            robot.tree, robot.link(frame), smooth.position, smooth.velocity
        )
        return Held.with_velocity(
            time,
            wrench,
            seen.velocity,
            seen.angular_velocity,
            np.einsum("nji,j->ni", seen.rotation, np.array(robot.gravity)),
            np.swapaxes(seen.rotation, 1, 2),
        )

    return joints, from_joints
