"""Free-flying bodies: nominal mass properties, sensors, what they lift; and files of them.

A log of one carries `u.<actuator>`, the command that holds from its time until the next sample's
[N, or what the mixing matrix takes]; the pose `pos.<body>.x`, `quat.<body>.w` of the body's frame
in the world at that time, before that command acts; and where there is an inertial sensor at the
frame's origin, `omega.<body>.x` and `acc.<body>.x` (specific force).

```toml
name = "cobot"                       # of its frame in a log
gravity = [0.0, 0.0, 0.0]
scale_std = 0.02                     # of what all actuators exert over what the commands say
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

Room, speed and time of flights that are designed are the TOML of `--bounds`:

```toml
[motion]
period = 10.0                       # s; harmonics = 3, cycles = 10
position = 0.8                      # m, either way: one number, or one an axis
angle = 1.05                        # rad, of roll, pitch and yaw
velocity = 1.0                      # m/s
angle_rate = 1.2                    # rad/s, of roll, pitch and yaw, not of the body
acceleration = 1.2                  # m/s²
angle_acceleration = 2.5            # rad/s²
[payload]                           # what may have been grasped: keeps commands within limits
mass = 1.5                          # kg, at most
position = [[-0.2, 0.2], [-0.1, 0.1], [-0.15, 0.0]]
effort = 0.9                        # share of the actuators' ranges
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from heft.arrays import Array, read_only
from heft.errors import InvalidSetting, require_one_of, shown
from heft.files import (
    Number,
    Reader,
    Section,
    Text,
    box,
    interval,
    list_of,
    located,
    named,
    number,
    positive,
    read_toml,
    rows_of,
    section,
)
from heft.information import AXES, inertia

from .actuators import Actuators

SHIPPED = ("space_cobot", "astrobee", "quadrotor")  # bodies that come with the package
Point = tuple[float, float, float]


def _either_way(unit: str) -> Reader[Point]:
    one = Number("a limit is positive, either way", above=0.0, unit=unit)
    three = list_of(one, 3)

    def read(value: object, where: str) -> Point:
        x, y, z = three(value, where) if isinstance(value, list) else (one(value, where),) * 3
        return x, y, z

    return read


def _deviation(unit: str) -> Number:
    return Number("noise is a standard deviation", least=0.0, unit=unit)


NAME = Text(
    "a name is letters, digits, _ and -",
    shape=re.compile(r"[A-Za-z0-9_-]+"),
    expected="such as cobot",
)
Lag = Annotated[float, Number("a lag is a time constant", least=0.0, unit="s")]
Noise = Annotated[float, _deviation("N")]
SIDES = list_of(Number("a side is a positive length", above=0.0, unit="m"), 3)
Sides = Annotated[Point, SIDES]


@dataclass(frozen=True)
class PoseSensor:
    """Sensor of the pose of the body's frame, such as motion capture."""

    position: Annotated[float, _deviation("m")] = 0.003  # standard deviation, an axis
    # standard deviation of the attitude, about each of the body's axes
    angle: Annotated[float, _deviation("rad")] = 0.005
    rate: Annotated[float, positive("a rate", "Hz")] = 50.0  # of samples, which is that of the log


@dataclass(frozen=True)
class InertialSensor:
    """A gyroscope and an accelerometer at the frame's origin, in its axes."""

    gyroscope: Annotated[float, _deviation("rad/s")]  # standard deviation of a sample
    accelerometer: Annotated[float, _deviation("m/s²")]  # likewise


@dataclass(frozen=True)
class Load:
    """A homogeneous box fixed rigidly to a body, its sides along the body's axes."""

    mass: Annotated[float, positive("a mass", "kg")]
    position: Point  # of its centre, in the body's frame [m]
    size: Sides = (0.1, 0.1, 0.1)  # of its sides

    @property
    def parameters(self) -> Array:
        """Its ten inertial parameters in the body's frame, shape (10,)."""
        square = np.square(self.size)
        central = np.diag(self.mass / 12.0 * (square.sum() - square))
        return inertia.from_body(self.mass, np.array(self.position), central)


@dataclass(frozen=True, eq=False)
class FreeFlyer:
    """A free-flying rigid body: what is known of it before it grasps something."""

    name: str  # of its frame, in the log's signals
    actuators: Actuators  # what pushes it
    nominal: Array  # ten inertial parameters without a load, about the frame's origin, shape (10,)
    # in the world, shape (3,) [m/s²]; zero in space
    gravity: Array = field(default_factory=lambda: read_only(np.zeros(3)))
    pose: PoseSensor = PoseSensor()  # what measures its pose
    imu: InertialSensor | None = None  # its inertial sensor, if it has one
    size: Point = (0.3, 0.3, 0.3)  # of its box, for drawing [m]
    # of the box that a load is taken for where nothing else is said [m]
    load_size: Point = (0.1, 0.1, 0.1)
    # settings of its controller that differ from those by default, by name
    tracking: Mapping[str, float] = field(default_factory=dict)
    # standard deviation of what all actuators exert over what the commands say
    scale_std: float = 0.02

    @property
    def mixing(self) -> Array:
        """Mixing matrix A with `[F; M] = A u`, shape (6, n); see `Actuators`."""
        return self.actuators.mixing

    @cached_property
    def frame_signals(self) -> tuple[str, ...]:
        """Names of the pose in a log: three of the position, four of the quaternion."""
        places = (f"pos.{self.name}.{a}" for a in AXES)
        return (*places, *(f"quat.{self.name}.{a}" for a in ("w", *AXES)))

    def guaranteed_force(self) -> float:
        """Return the largest force in every direction without a moment; see `Actuators` [N]."""
        return self.actuators.guaranteed_force()

    def with_load(self, load: Load) -> Array:
        """Return the ten inertial parameters of body and load together, shape (10,)."""
        return np.asarray(self.nominal + load.parameters)


def load_of(text: str, size: Point = (0.1, 0.1, 0.1)) -> Load:
    """Return the load that a text such as `1.2kg@0.20,0.06,-0.10` states, of a box's size [m].

    The text is its mass, then where its centre is in the body's frame [m].

    Raises:
        InvalidSetting: If the text is none such, or the mass not positive.
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*kg\s*@\s*([^,]+),([^,]+),([^,]+?)\s*", text)
    try:
        mass, x, y, z = (float(part) for part in (match.groups() if match else ()))
    except ValueError:
        mass = x = y = z = np.nan
    if not (mass > 0.0 and np.isfinite([mass, x, y, z]).all()):
        raise InvalidSetting(
            "a load is a mass and where its centre is in the body's frame [m]",
            argument="load",
            got=text,
            expected="MASSkg@X,Y,Z",
            cure="such as 1.2kg@0.20,0.06,-0.10",
        )
    return Load(mass, (x, y, z), size)


@dataclass(frozen=True)
class PayloadRange:
    """Bounds on the mass and position of what a body may have grasped."""

    mass: Annotated[float, positive("a mass", "kg")]  # at most
    # least and largest x, y and z of its centre, in the body's frame [m]
    position: Annotated[tuple[tuple[float, float], ...], box]
    size: Sides = (0.1, 0.1, 0.1)  # of its box
    # share of the actuators' ranges that a motion may need with it
    effort: Annotated[float, Number("a share of the actuators' ranges", above=0.0, most=1.0)] = 0.9

    @property
    def vertices(self) -> tuple[Load, ...]:
        """The heaviest load at each corner of `position`; no load, also a vertex, is left out.

        Wrenches are linear in the mass, so that lighter loads need no more; between corners they
        are not linear in the position, since second moments are its squares.
        """
        corners = dict.fromkeys(product(*self.position))
        return tuple(Load(self.mass, (x, y, z), self.size) for x, y, z in corners)


@dataclass(frozen=True)
class FlightBounds:
    """Symmetric limits of a designed flight in x, y, z, roll, pitch and yaw."""

    position: Annotated[Point, _either_way("m")] = (0.8, 0.8, 0.8)
    # of a body that cannot push in all directions only yaw counts
    angle: Annotated[Point, _either_way("rad")] = (np.pi / 3.0, np.pi / 3.0, np.pi / 3.0)
    velocity: Annotated[Point, _either_way("m/s")] = (1.0, 1.0, 1.0)
    # derivatives of the angles, which are not the body's rates
    angle_rate: Annotated[Point, _either_way("rad/s")] = (1.2, 1.2, 1.2)
    acceleration: Annotated[Point, _either_way("m/s²")] = (1.2, 1.2, 1.2)
    angle_acceleration: Annotated[Point, _either_way("rad/s²")] = (2.5, 2.5, 2.5)
    period: Annotated[float, positive("a period", "s")] = 10.0  # of the motion
    # of its Fourier series
    harmonics: Annotated[int, Number("harmonics are counted", least=1, most=50, whole=True)] = 3
    # how often it is flown
    cycles: Annotated[int, Number("cycles are counted", least=1, most=10_000, whole=True)] = 10
    # what may have been grasped; commands are not limited by the design if None
    payload: Annotated[PayloadRange | None, None] = None

    def faster(self, factor: float) -> FlightBounds:
        """Return the bounds with velocity and acceleration limits multiplied by a factor."""
        made = {
            name: tuple(factor * x for x in getattr(self, name))
            for name in ("velocity", "angle_rate", "acceleration", "angle_acceleration")
        }
        return FlightBounds(**(vars(self) | made))

    def limits(self, order: int) -> Array:
        """Return the limits of positions (0), velocities (1) or accelerations (2), shape (6,)."""
        names = (
            ("position", "angle"),
            ("velocity", "angle_rate"),
            ("acceleration", "angle_acceleration"),
        )
        return np.array([x for name in names[order] for x in getattr(self, name)])


@dataclass(frozen=True)
class _Actuator:
    position: Point
    direction: Point
    limit: Annotated[tuple[float, float], interval]
    drag_ratio: float = 0.0
    lag: Lag = 0.0
    noise: Noise = 0.0


@dataclass(frozen=True)
class _Mixing:
    actuators: Annotated[tuple[str, ...], list_of(NAME, of="names of actuators")]
    matrix: Annotated[tuple[tuple[float, ...], ...], rows_of(number)]
    limit: Annotated[
        tuple[tuple[float, float], ...],
        list_of(interval, of="[least, largest] commands, one an actuator"),
    ]
    lag: Lag = 0.0
    noise: Noise = 0.0

    @property
    def actuators_of_matrix(self) -> Actuators:
        if len(self.limit) != len(self.actuators):
            raise InvalidSetting(
                "limits are one [least, largest] an actuator",
                argument="mixing.limit",
                got=f"{len(self.limit)} for {len(self.actuators)} actuators",
            )
        lower, upper = np.array(self.limit).T
        every = np.ones(len(self.actuators))
        lag, noise = self.lag * every, self.noise * every
        return Actuators(self.actuators, np.array(self.matrix), lower, upper, lag, noise)


def _inertia(value: object, where: str) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) not in (3, 6):
        raise InvalidSetting(
            "an inertia is ixx, iyy, izz, or ixx, ixy, ixz, iyy, iyz, izz",
            argument=where,
            got=shown(value),
        )
    return list_of(number)(value, where)


@dataclass(frozen=True)
class _Body:
    mass: Annotated[float, positive("a mass", "kg")]
    inertia: Annotated[tuple[float, ...], _inertia]
    com: Point = (0.0, 0.0, 0.0)
    size: Sides = (0.3, 0.3, 0.3)

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


TRACKING: dict[str, Reader[float]] = {
    "horizon": Number("steps are counted", least=1, most=1000, whole=True),
    "step": positive("a step", "s"),
    "position": positive("the size of an error", "m"),
    "attitude": positive("the size of an error", "rad"),
    "velocity": positive("the size of an error", "m/s"),
    "rate": positive("the size of an error", "rad/s"),
    "effort": positive("the size of a command", "of half its range"),
}


@dataclass(frozen=True)
class _Sensors:
    pose: PoseSensor = PoseSensor()
    imu: InertialSensor | None = None


@dataclass(frozen=True)
class _File:
    body: _Body
    name: Annotated[str, NAME] = "body"
    gravity: Point = (0.0, 0.0, 0.0)
    actuator: Annotated[
        Mapping[str, _Actuator],
        named(
            section(_Actuator, says="an [actuator.NAME] table is expected"),
            "[actuator.NAME] tables are expected",
        ),
    ] = field(default_factory=dict)
    mixing: _Mixing | None = None
    sensor: _Sensors = _Sensors()
    load: Annotated[Mapping[str, Any], Section(dict, {"size": SIDES}, ("size",))] = field(
        default_factory=dict
    )
    tracking: Annotated[Mapping[str, float], Section(dict, TRACKING)] = field(default_factory=dict)
    scale_std: Annotated[float, _deviation("")] = FreeFlyer.scale_std

    @property
    def actuators(self) -> Actuators:
        if self.mixing is not None and not self.actuator:
            return self.mixing.actuators_of_matrix
        if self.mixing is not None or not self.actuator:
            raise InvalidSetting(
                "either [actuator.NAME] tables or [mixing] say what pushes the body",
                got="both" if self.actuator else "neither",
                cure="[actuator.1]\nposition = [0.16, 0.0, 0.0]\ndirection = [0.0, 0.0, 1.0]\n"
                "limit = [0.0, 5.0]",
            )
        keys = ("position", "direction", "drag_ratio", "limit", "lag", "noise")
        tables = self.actuator.values()
        return Actuators.of_geometry(
            list(self.actuator), *(np.array([getattr(a, key) for a in tables]) for key in keys)
        )

    def flyer(self) -> FreeFlyer:
        return FreeFlyer(
            self.name,
            self.actuators,
            self.body.parameters,
            read_only(np.array(self.gravity)),
            self.sensor.pose,
            self.sensor.imu,
            self.body.size,
            self.load.get("size", FreeFlyer.load_size),
            self.tracking,
            self.scale_std,
        )


FILE = section(_File)
BOUNDS: Section[FlightBounds] = Section(
    lambda motion, payload=None: replace(motion, payload=payload),
    {"motion": section(FlightBounds), "payload": section(PayloadRange)},
    required=("motion",),
)


def free_flyer_from_toml(path: Path | str) -> FreeFlyer:
    """Return the free-flying body that a TOML file describes; [plants](plants.md) shows one.

    Raises:
        InvalidSetting: If it cannot be read, or a number in it cannot be; with the place.
    """
    content = FILE(read_toml(Path(path)), str(path))
    with located(str(path)):
        return content.flyer()


def shipped_free_flyer(name: str) -> FreeFlyer:
    """Return a body that comes with the package.

    Args:
        name: One of `SHIPPED`: `space_cobot` [Roque2016], `astrobee` (a cube of its mass
            [Bualat2015] with twelve nozzles that only push), `quadrotor` (which pushes up only).

    Raises:
        InvalidSetting: If there is none of that name.
    """
    require_one_of(name, SHIPPED, "no body of this name comes with heft", "body", got=name)
    with resources.as_file(resources.files(__package__) / "bodies" / f"{name}.toml") as path:
        return free_flyer_from_toml(path)


def flight_bounds_from_toml(path: Path | str) -> FlightBounds:
    """Return the bounds that a TOML file states.

    Raises:
        InvalidSetting: If it cannot be read, or a number in it cannot be; with the place.
    """
    return BOUNDS(read_toml(Path(path)), str(path))
