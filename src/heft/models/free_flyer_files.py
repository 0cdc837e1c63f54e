"""Files that describe a free-flying body: TOML, read by a table of readers.

```toml
name = "cobot"                       # of its frame in a log
gravity = [0.0, 0.0, 0.0]
[body]
mass = 6.047                         # kg, without a load
inertia = [0.0453, 0.0417, 0.0519]   # kg·m², about the centre of mass; com = [0, 0, 0]
[actuator.rotor1]                    # or [mixing]: actuators, matrix, limit
position = [0.16, 0.0, 0.0]
direction = [0.0, -0.819, 0.574]
drag_ratio = 0.01                    # m, signed
limit = [-5.7, 5.7]                  # N; lag [s], noise [N]
[sensor.pose]
position = 0.003                     # m; angle [rad], rate [Hz]
[load]
size = [0.1, 0.1, 0.1]               # m: the box that a load is taken for
[tracking]                           # settings of the controller: step [s], horizon, ...
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array, read_only
from heft.errors import InvalidSetting, did_you_mean, shown
from heft.files import (
    Number,
    Reader,
    Section,
    Text,
    interval,
    list_of,
    named,
    number,
    read_toml,
    rows_of,
)
from heft.information import inertia

from .free_flyer import Actuators, FreeFlyer, InertialSensor, PoseSensor

SHIPPED = ("space_cobot", "astrobee", "quadrotor")  # bodies that come with the package


@dataclass(frozen=True)
class _Actuator:
    position: tuple[float, ...] = (0.0, 0.0, 0.0)
    direction: tuple[float, ...] = (0.0, 0.0, 1.0)
    drag_ratio: float = 0.0
    limit: tuple[float, float] = (0.0, 0.0)
    lag: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class _Mixing:
    actuators: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    limit: tuple[tuple[float, float], ...]
    lag: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class _Body:
    mass: float
    inertia: tuple[float, ...]
    com: tuple[float, ...] = (0.0, 0.0, 0.0)
    size: tuple[float, ...] = (0.3, 0.3, 0.3)

    @property
    def parameters(self) -> Array:
        xx, xy, xz, yy, yz, zz = (
            self.inertia
            if len(self.inertia) == 6
            else (self.inertia[0], 0.0, 0.0, self.inertia[1], 0.0, self.inertia[2])
        )
        central = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        ten = inertia.from_body(self.mass, np.array(self.com), central)
        if inertia.consistency_margin(ten) <= 0.0:
            moments = np.linalg.eigvalsh(central)
            raise InvalidSetting(
                "no body has this inertia: a principal moment is at most the sum of the others",
                argument="inertia",
                got=f"principal moments {', '.join(f'{m:.4g}' for m in moments)} kg·m²",
                cure="state the inertia about the centre of mass, as ixx, iyy, izz or as "
                "ixx, ixy, ixz, iyy, iyz, izz",
            )
        return read_only(ten)


def _inertia(value: object, where: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) not in (3, 6):
        raise InvalidSetting(
            "an inertia is ixx, iyy, izz, or ixx, ixy, ixz, iyy, iyz, izz",
            argument=where,
            got=shown(value),
        )
    return list_of(number)(value, where)


def _positive(says: str, unit: str) -> Number:
    return Number(says, above=0.0, unit=unit)


def _not_negative(says: str, unit: str) -> Number:
    return Number(says, least=0.0, unit=unit)


_name = Text(
    "a name is letters, digits, _ and -",
    shape=re.compile(r"[A-Za-z0-9_-]+"),
    expected="such as cobot",
)
_point = list_of(number, 3)
_sides = list_of(_positive("a side is a positive length", "m"), 3)
_lag = _not_negative("a lag is a time constant", "s")
_noise = _not_negative("noise is a standard deviation", "N")
ACTUATOR = Section(
    _Actuator,
    {
        "position": _point,
        "direction": _point,
        "drag_ratio": number,
        "limit": interval,
        "lag": _lag,
        "noise": _noise,
    },
    required=("position", "direction", "limit"),
    says="an [actuator.NAME] table is expected",
)
MIXING = Section(
    _Mixing,
    {
        "actuators": list_of(_name, of="names of actuators"),
        "matrix": rows_of(number),
        "limit": list_of(interval, of="[least, largest] commands, one an actuator"),
        "lag": _lag,
        "noise": _noise,
    },
    required=("actuators", "matrix", "limit"),
)
BODY = Section(
    _Body,
    {
        "mass": _positive("a mass is positive", "kg"),
        "inertia": _inertia,
        "com": _point,
        "size": _sides,
    },
    required=("mass", "inertia"),
)
POSE = Section(
    PoseSensor,
    {
        "position": _not_negative("noise is a standard deviation", "m"),
        "angle": _not_negative("noise is a standard deviation", "rad"),
        "rate": _positive("a rate is positive", "Hz"),
    },
)
IMU = Section(
    InertialSensor,
    {
        "gyroscope": _not_negative("noise is a standard deviation", "rad/s"),
        "accelerometer": _not_negative("noise is a standard deviation", "m/s²"),
    },
    required=("gyroscope", "accelerometer"),
)


TRACKING: dict[str, Reader[float]] = {
    "horizon": Number("steps are counted", least=1, most=1000, whole=True),
    "step": _positive("a step is positive", "s"),
    "position": _positive("the size of an error is positive", "m"),
    "attitude": _positive("the size of an error is positive", "rad"),
    "velocity": _positive("the size of an error is positive", "m/s"),
    "rate": _positive("the size of an error is positive", "rad/s"),
    "effort": _positive("the size of a command is positive", "of half its range"),
}


def _flyer(
    body: _Body,
    name: str = "body",
    gravity: Sequence[float] = (0.0, 0.0, 0.0),
    actuator: Mapping[str, _Actuator] | None = None,
    mixing: _Mixing | None = None,
    sensor: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
    tracking: Mapping[str, float] | None = None,
) -> FreeFlyer:
    if bool(actuator) == (mixing is not None):
        raise InvalidSetting(
            "either [actuator.NAME] tables or [mixing] say what pushes the body",
            got="both" if actuator else "neither",
            cure="[actuator.1]\nposition = [0.16, 0.0, 0.0]\ndirection = [0.0, 0.0, 1.0]\n"
            "limit = [0.0, 5.0]",
        )
    told = {} if sensor is None else dict(sensor)
    return FreeFlyer(
        name,
        _by_geometry(actuator) if actuator else _by_matrix(mixing),  # type: ignore[arg-type]
        body.parameters,
        read_only(np.array(gravity)),
        told.get("pose", PoseSensor()),
        told.get("imu"),
        body.size,  # type: ignore[arg-type]
        **({} if load is None else {"load_size": load["size"]}),
        tracking={} if tracking is None else tracking,
    )


def _by_geometry(tables: Mapping[str, _Actuator]) -> Actuators:
    stated = list(tables.values())
    return Actuators.of_geometry(
        list(tables),
        np.array([a.position for a in stated]),
        np.array([a.direction for a in stated]),
        np.array([a.drag_ratio for a in stated]),
        np.array([a.limit for a in stated]),
        np.array([a.lag for a in stated]),
        np.array([a.noise for a in stated]),
    )


def _by_matrix(table: _Mixing) -> Actuators:
    if len(table.limit) != len(table.actuators):
        raise InvalidSetting(
            "limits are one [least, largest] an actuator",
            argument="mixing.limit",
            got=f"{len(table.limit)} for {len(table.actuators)} actuators",
        )
    lower, upper = np.array(table.limit).T
    every = np.ones(len(table.actuators))
    matrix = np.array(table.matrix)
    return Actuators(table.actuators, matrix, lower, upper, table.lag * every, table.noise * every)


FLYER = Section(
    _flyer,
    {
        "name": _name,
        "gravity": _point,
        "body": BODY,
        "actuator": named(ACTUATOR, "[actuator.NAME] tables are expected"),
        "mixing": MIXING,
        "sensor": Section(dict, {"pose": POSE, "imu": IMU}),
        "tracking": Section(dict, TRACKING),
        "load": Section(dict, {"size": _sides}, required=("size",)),
    },
    required=("body",),
)


def free_flyer_from_toml(path: Path | str) -> FreeFlyer:
    """Return the free-flying body that a TOML file describes; [plants](plants.md) shows one.

    Raises:
        InvalidSetting: If it cannot be read, or a number in it cannot be; with the place.
    """
    return FLYER(read_toml(Path(path)), str(path))


def shipped_free_flyer(name: str) -> FreeFlyer:
    """Return a body that comes with the package.

    Args:
        name: One of `SHIPPED`: `space_cobot` [Roque2016], `astrobee` (a cube of its mass
            [Bualat2015] with twelve nozzles that only push), `quadrotor` (which pushes up only).

    Raises:
        InvalidSetting: If there is none of that name.
    """
    if name not in SHIPPED:
        raise InvalidSetting(
            "no body of this name comes with heft",
            argument="body",
            got=name,
            valid=SHIPPED,
            cure=did_you_mean(name, SHIPPED),
        )
    with resources.as_file(resources.files(__package__) / "bodies" / f"{name}.toml") as path:
        return free_flyer_from_toml(path)
