"""Options of motions that are designed: the table `[motion]` of the TOML of `--with`.

What is not stated is taken from the model file; see `motion_limits`. Unknown keys are refused with
the nearest known one; so are values of the wrong type or range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from heft.errors import InvalidSetting, shown
from heft.files import Number, Section, Text, box, interval, list_of, name_list, named, number

Point = tuple[float, float, float]
Box = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class JointMotionOptions:
    """Limits of one joint's motion, `[motion.joint.NAME]`; the model file's where not given."""

    position: tuple[float, float] | None = None  # least and largest position [rad or m]
    velocity: float | None = None  # largest speed [rad/s or m/s]
    acceleration: float | None = None  # largest acceleration [rad/s² or m/s²]
    jerk: float | None = None  # largest jerk [rad/s³ or m/s³]
    effort: float | None = None  # largest torque or force [N·m or N]
    power: float | None = None  # largest mechanical power of the drive [W]


@dataclass(frozen=True)
class Margins:
    """Unused shares of limits, `[motion.margin]`; of a range of positions, at each end."""

    # position, velocity, acceleration, jerk: zero by default: they are kept exactly
    position: float = 0.0
    velocity: float = 0.0
    acceleration: float = 0.0
    jerk: float = 0.0
    # effort, power: 5 % by default, for what a controller adds to the predicted torque
    effort: float = 0.05
    power: float = 0.05


@dataclass(frozen=True)
class HalfSpace:
    """The side of a plane that the robot must stay on: `normal · x ≥ offset`, in the base's frame.

    Raises:
        InvalidSetting: If the normal is zero.
    """

    normal: Point  # unit vector towards the robot; made one of any length, with the offset
    offset: float  # distance of the plane from the origin along the normal [m]

    def __post_init__(self) -> None:
        length = math.hypot(*self.normal)
        if length < 1e-9:
            raise InvalidSetting("a normal has no direction", argument="normal", got=self.normal)
        x, y, z = (c / length for c in self.normal)
        object.__setattr__(self, "normal", (x, y, z))
        object.__setattr__(self, "offset", self.offset / length)


@dataclass(frozen=True)
class ToolCapsule:
    """A capsule at a link, for a tool that the model file does not have: `[[motion.tool]]`."""

    link: str  # name of the link that it is fixed to
    # start, end: ends of its axis, in the link's frame [m]
    start: Point
    end: Point
    radius: float  # its radius [m]


@dataclass(frozen=True)
class MotionOptions:
    """Limits of motions that are designed, and the room that they have: the table `[motion]`."""

    # limits of joints, by name
    joint: Mapping[str, JointMotionOptions] = field(default_factory=dict)
    margin: Margins = Margins()  # shares of limits that stay unused
    # highest frequency of motion [Hz], below the robot's first resonance
    frequency: float | None = None
    # least distance of links' capsules from one another, planes and boxes [m]
    clearance: float = 0.01
    # height of the floor in the base's frame [m]; there is none if not given
    floor: float | None = None
    planes: tuple[HalfSpace, ...] = ()  # further planes that the robot stays on one side of
    keep_in: Box | None = None  # box that the whole robot but its base stays in [m]
    keep_out: tuple[Box, ...] = ()  # boxes that it stays out of [m]
    ignore: tuple[tuple[str, ...], ...] = ()  # pairs of links whose distance does not matter
    tool: tuple[ToolCapsule, ...] = ()  # capsules of tools that the model file does not have
    # folders to look for `package://NAME` in, from the model file's folder
    packages: tuple[str, ...] = ()
    radius: float = 0.06  # of links whose shape is not known [m]
    # about what the parameters of the user's own columns are, by name: their torque counts among
    # the limits
    own_columns: Mapping[str, float] = field(default_factory=dict)

    @property
    def half_spaces(self) -> tuple[HalfSpace, ...]:
        """The floor, the planes and the six sides of `keep_in`, in this order."""
        spaces = [] if self.floor is None else [HalfSpace((0.0, 0.0, 1.0), self.floor)]
        spaces += self.planes
        for k, (least, most) in enumerate(self.keep_in or ()):
            x, y, z = (float(i == k) for i in range(3))
            spaces += [HalfSpace((x, y, z), least), HalfSpace((-x, -y, -z), -most)]
        return tuple(spaces)

    @property
    def half_space_names(self) -> tuple[str, ...]:
        """Names of the half spaces in messages."""
        names = [] if self.floor is None else ["floor"]
        names += [f"plane {k + 1}" for k in range(len(self.planes))]
        if self.keep_in is not None:
            names += [f"keep_in, {end} {axis}" for axis in "xyz" for end in ("least", "most")]
        return tuple(names)

    def of(self, joint: str) -> JointMotionOptions:
        """Return the limits of a joint; all are None where none are given."""
        return self.joint.get(joint, JointMotionOptions())

    def to_dict(self) -> dict[str, Any]:
        """Return the table from which `MOTION` makes equal options; defaults are left out."""
        standard = MotionOptions()
        table = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if getattr(self, entry.name) != getattr(standard, entry.name)
        }
        if "joint" in table:
            table["joint"] = {name: _said(limits) for name, limits in self.joint.items()}
        for key in ("planes", "tool"):
            if key in table:
                table[key] = [_said(each) for each in table[key]]
        if "own_columns" in table:
            table["own_columns"] = dict(self.own_columns)
        if "margin" in table:
            table["margin"] = _said(self.margin)
        for key in ("keep_in", "keep_out", "ignore", "packages"):
            if key in table:
                table[key] = np.array(table[key]).tolist()
        return table


def _said(entry: object) -> dict[str, Any]:
    return {
        k: list(v) if isinstance(v, tuple) else v for k, v in vars(entry).items() if v is not None
    }


def _pairs(value: object, where: str) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(p, list) and len(p) == 2 for p in value):
        raise InvalidSetting(
            "pairs of links are expected",
            argument=where,
            got=shown(value),
            expected='[["forearm", "hand"], …]',
        )
    return tuple(name_list(pair, where) for pair in value)


def _solid_box(value: object, where: str) -> Box:
    found = box(value, where)
    if any(least >= most for least, most in found):
        raise InvalidSetting("a box has no room", argument=where, got=shown(value))
    return found


def _positive(says: str, unit: str) -> Number:
    return Number(says, above=0.0, unit=unit)


point = list_of(number, 3)
length = Number("a length is a number that is not negative", least=0.0, unit="m")
share = Number("a margin is a share of the limit", least=0.0, below=1.0)
half_share = Number("a margin is a share of the range, at each end", least=0.0, below=0.5)
JOINT_MOTION = Section(
    JointMotionOptions,
    {
        "position": interval,
        "velocity": _positive("a velocity limit is positive", "rad/s or m/s"),
        "acceleration": _positive("an acceleration limit is positive", "rad/s² or m/s²"),
        "jerk": _positive("a jerk limit is positive", "rad/s³ or m/s³"),
        "effort": _positive("an effort limit is positive", "N·m or N"),
        "power": _positive("a power limit is positive", "W"),
    },
)
MARGIN = Section(
    Margins,
    {"position": half_share}
    | dict.fromkeys(("velocity", "acceleration", "jerk", "effort", "power"), share),
)
HALF_SPACE = Section(HalfSpace, {"normal": point, "offset": number}, required=("normal", "offset"))
TOOL = Section(
    ToolCapsule,
    {
        "link": Text("the name of a link is expected"),
        "start": point,
        "end": point,
        "radius": _positive("a radius is positive", "m"),
    },
    required=("link", "start", "end", "radius"),
)
MOTION = Section(
    MotionOptions,
    {
        "joint": named(JOINT_MOTION, "[motion.joint.NAME] tables are expected"),
        "margin": MARGIN,
        "frequency": _positive("a frequency is positive", "Hz"),
        "clearance": length,
        "floor": number,
        "planes": list_of(HALF_SPACE, of="[[motion.planes]] tables", entry=" "),
        "keep_in": _solid_box,
        "keep_out": list_of(_solid_box, of="boxes", entry=", box "),
        "ignore": _pairs,
        "tool": list_of(TOOL, of="[[motion.tool]] tables", entry=" "),
        "packages": name_list,
        "radius": _positive("a radius is positive", "m"),
        "own_columns": named(number, "numbers by the names of own columns are expected"),
    },
)
