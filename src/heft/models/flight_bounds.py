"""Room, speed and time of flights that are designed: the TOML of `--bounds`.

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

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.files import Number, Reader, Section, box, list_of, read_toml

from .free_flyer import Load

Point = tuple[float, float, float]


@dataclass(frozen=True)
class PayloadRange:
    """Bounds on the mass and position of what a body may have grasped."""

    mass: float  # at most [kg]
    # least and largest x, y and z of its centre, in the body's frame [m]
    position: tuple[tuple[float, float], ...]
    size: Point = (0.1, 0.1, 0.1)  # of its box [m]
    effort: float = 0.9  # share of the actuators' ranges that a motion may need with it

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

    position: Point = (0.8, 0.8, 0.8)  # [m]
    # [rad]; of a body that cannot push in all directions only yaw counts
    angle: Point = (np.pi / 3.0, np.pi / 3.0, np.pi / 3.0)
    velocity: Point = (1.0, 1.0, 1.0)  # [m/s]
    # derivatives of the angles, which are not the body's rates [rad/s]
    angle_rate: Point = (1.2, 1.2, 1.2)
    acceleration: Point = (1.2, 1.2, 1.2)  # [m/s²]
    angle_acceleration: Point = (2.5, 2.5, 2.5)  # [rad/s²]
    period: float = 10.0  # of the motion [s]
    harmonics: int = 3  # of its Fourier series
    cycles: int = 10  # how often it is flown
    # what may have been grasped; commands are not limited by the design if None
    payload: PayloadRange | None = None

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


def _either_way(unit: str) -> Reader[Point]:
    one = Number("a limit is positive, either way", above=0.0, unit=unit)
    three = list_of(one, 3)

    def read(value: object, where: str) -> Point:
        x, y, z = three(value, where) if isinstance(value, list) else (one(value, where),) * 3
        return x, y, z

    return read


_side = Number("a side is a positive length", above=0.0, unit="m")
MOTION: dict[str, Reader[Any]] = {
    "position": _either_way("m"),
    "angle": _either_way("rad"),
    "velocity": _either_way("m/s"),
    "angle_rate": _either_way("rad/s"),
    "acceleration": _either_way("m/s²"),
    "angle_acceleration": _either_way("rad/s²"),
    "period": Number("a period is positive", above=0.0, unit="s"),
    "harmonics": Number("harmonics are counted", least=1, most=50, whole=True),
    "cycles": Number("cycles are counted", least=1, most=10_000, whole=True),
}
PAYLOAD = Section(
    PayloadRange,
    {
        "mass": Number("a mass is positive", above=0.0, unit="kg"),
        "position": box,
        "size": list_of(_side, 3),
        "effort": Number("a share of the actuators' ranges", above=0.0, most=1.0),
    },
    required=("mass", "position"),
)


def _bounds(motion: dict[str, object], payload: PayloadRange | None = None) -> FlightBounds:
    return FlightBounds(**motion, payload=payload)  # type: ignore[arg-type]


BOUNDS = Section(
    _bounds, {"motion": Section(dict, MOTION), "payload": PAYLOAD}, required=("motion",)
)


def flight_bounds_from_toml(path: Path | str) -> FlightBounds:
    """Return the bounds that a TOML file states.

    Raises:
        InvalidSetting: If it cannot be read, or a number in it cannot be; with the place.
    """
    return BOUNDS(read_toml(Path(path)), str(path))
