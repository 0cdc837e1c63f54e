"""Options and limits of motions that are designed: the table `[motion]` of the TOML of `--with`.

What is not stated is taken from the model file; see `motion_limits`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, shown
from heft.files import Number, box, interval, list_of, name_list, positive

Point = tuple[float, float, float]
Box = tuple[tuple[float, float], ...]


def _share(of: str, below: float) -> Number:
    return Number(f"a margin is a share of {of}", least=0.0, below=below)


def _pairs(value: object, where: str) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(p, list) and len(p) == 2 for p in value):
        raise InvalidSetting(
            "pairs of links are expected",
            argument=where,
            got=shown(value),
            expected='[["forearm", "hand"], …]',
        )
    return tuple(name_list(pair, where) for pair in value)


def _roomy_box(value: object, where: str) -> Box:
    sides = box(value, where)
    if any(least >= most for least, most in sides):
        raise InvalidSetting("a box has no room", argument=where, got=shown(value))
    return sides


Radius = Annotated[float, positive("a radius", "m")]
Share = Annotated[float, _share("the limit", 1.0)]


@dataclass(frozen=True)
class JointMotionOptions:
    """Limits of one joint's motion, `[motion.joint.NAME]`; the model file's where not given."""

    # least and largest position [rad or m]
    position: Annotated[tuple[float, float] | None, interval] = None
    # largest speed [rad/s or m/s]
    velocity: Annotated[float | None, positive("a velocity limit", "rad/s or m/s")] = None
    # largest acceleration [rad/s² or m/s²]
    acceleration: Annotated[float | None, positive("an acceleration limit", "rad/s² or m/s²")] = (
        None
    )
    # largest jerk [rad/s³ or m/s³]
    jerk: Annotated[float | None, positive("a jerk limit", "rad/s³ or m/s³")] = None
    # largest torque or force [N·m or N]
    effort: Annotated[float | None, positive("an effort limit", "N·m or N")] = None
    # largest mechanical power of the drive [W]
    power: Annotated[float | None, positive("a power limit", "W")] = None


@dataclass(frozen=True)
class Margins:
    """Unused shares of limits, `[motion.margin]`; of a range of positions, at each end."""

    # position, velocity, acceleration, jerk: zero by default: they are kept exactly
    position: Annotated[float, _share("the range, at each end", 0.5)] = 0.0
    velocity: Share = 0.0
    acceleration: Share = 0.0
    jerk: Share = 0.0
    # effort, power: 5 % by default, for what a controller adds to the predicted torque
    effort: Share = 0.05
    power: Share = 0.05


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

    link: Annotated[str, "the name of a link is expected"]  # name of the link that it is fixed to
    # start, end: ends of its axis, in the link's frame [m]
    start: Point
    end: Point
    radius: Radius


@dataclass(frozen=True)
class MotionOptions:
    """Limits of motions that are designed, and the room that they have: the table `[motion]`."""

    # limits of joints, by name
    joint: Mapping[str, JointMotionOptions] = field(default_factory=dict)
    margin: Margins = Margins()  # shares of limits that stay unused
    # highest frequency of motion [Hz], below the robot's first resonance
    frequency: Annotated[float | None, positive("a frequency", "Hz")] = None
    # least distance of links' capsules from one another, planes and boxes [m]
    clearance: Annotated[
        float, Number("a length is a number that is not negative", least=0.0, unit="m")
    ] = 0.01
    # height of the floor in the base's frame [m]; there is none if not given
    floor: float | None = None
    planes: tuple[HalfSpace, ...] = ()  # further planes that the robot stays on one side of
    # box that the whole robot but its base stays in [m]
    keep_in: Annotated[Box | None, _roomy_box] = None
    # boxes that it stays out of [m]
    keep_out: Annotated[tuple[Box, ...], list_of(_roomy_box, of="boxes", entry=", box ")] = ()
    # pairs of links whose distance does not matter
    ignore: Annotated[tuple[tuple[str, ...], ...], _pairs] = ()
    tool: tuple[ToolCapsule, ...] = ()  # capsules of tools that the model file does not have
    # folders to look for `package://NAME` in, from the model file's folder
    packages: tuple[str, ...] = ()
    radius: Radius = 0.06  # of links whose shape is not known [m]
    # about what the parameters of the user's own columns are, by name: their torque counts among
    # the limits
    own_columns: Annotated[
        Mapping[str, float], "numbers by the names of own columns are expected"
    ] = field(default_factory=dict)

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


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of joints' motion, margins taken off; made by `motion_limits`.

    All arrays have the shape (joints,), in the order of `Robot.joints`.
    """

    joints: tuple[str, ...]  # names of the joints
    # lower, upper: least and largest position [rad or m]; the same where a joint is held still
    lower: Array
    upper: Array
    velocity: Array  # largest speed [rad/s or m/s]
    acceleration: Array  # largest acceleration [rad/s² or m/s²]
    jerk: Array  # largest jerk [rad/s³ or m/s³]
    effort: Array  # largest torque or force [N·m or N]; infinite where nothing limits it
    power: Array  # largest mechanical power of the drive [W]; infinite where nothing limits it
    frequency: float  # highest frequency of motion [Hz]; infinite where nothing limits it
    held: NDArray[np.bool_]  # whether a joint is held still
    notes: tuple[str, ...] = ()  # which limits are defaults, for the user
