"""Options of a robot that its model file cannot state: the TOML of `--with`, all of it optional.

Unknown keys are refused with the nearest known one; so are values of the wrong type or range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft.dynamics import FRICTION
from heft.errors import InvalidSetting
from heft.files import (
    Number,
    Section,
    Text,
    box,
    interval,
    list_of,
    name_list,
    named,
    number,
    planes,
    read_toml,
    rows_of,
    solid_box,
    truth,
)

from .contact_options import CONTACT, ContactOptions
from .controller_options import CONTROLLER, ControllerOptions
from .motion_options import MOTION, MotionOptions
from .sensor_options import SENSOR, SensorOptions

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
OF_COMMANDS = ("simulation",)  # tables of the TOML of `--with` that a command of this name reads
SHAPE: Literal["shape"] = "shape"  # a limit that follows from a link's collision shapes
LARGEST_GRAVITY = 100.0  # [m/s²]; more is in another unit


@dataclass(frozen=True)
class JointOptions:
    """Options of one joint: friction model, rotor inertia, current gain, reduction."""

    # a model of `FRICTION`: `full` (the dictionary), `simple` (viscous, Coulomb, offset) or `none`.
    # If not given, `full`, and `simple` where the base floats
    friction: str | None = None
    armature: bool = True  # whether to identify rotor inertia
    # torque per current [N·m/A], to use `current.<joint>` where no torque is logged
    gain: float | None = None
    # standard error of the gain [N·m/A]; the gain is then estimated too. Exact if not given
    gain_std: float | None = None
    # motor turns per joint turn, to state rotor inertia on the motor's side
    reduction: float | None = None
    measured: bool = True  # whether its torque is used
    # constant position [rad or m] of a joint that does not move; in a file also said by `fixed =
    # true`, at zero
    position: float | None = None
    # whether its gear yields between the motor, at `q_motor.<joint>`, and the link, at `q.<joint>`;
    # if not given it does where logs have both
    elastic: bool | None = None


@dataclass(frozen=True)
class Coupling:
    """Transmission that couples several joints to motors: `joint torque = matrix @ motor torque`.

    By virtual work `motor speed = matrixᵀ @ joint speed`. Reductions are part of it.

    Raises:
        InvalidSetting: If the matrix is not square with one column a motor, or is singular.
    """

    joints: tuple[str, ...]  # names of the rows
    motors: tuple[str, ...]  # names of the columns
    matrix: tuple[tuple[float, ...], ...]  # shape (joints, motors)

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix)
        if matrix.shape != (len(self.motors), len(self.motors)):
            raise InvalidSetting(
                "the matrix is not square with one column a motor",
                argument="matrix",
                got=f"{matrix.shape[0]}×{matrix.shape[1]}, {len(self.motors)} motors",
            )
        if np.linalg.matrix_rank(matrix) < len(self.motors):
            raise InvalidSetting("the matrix is singular", argument="matrix")


@dataclass(frozen=True)
class LinkOptions:
    """Bounds on the mass of one link and on where that mass is: `[limits.NAME]`.

    Raises:
        InvalidSetting: If the upper bound of the mass is not positive.
    """

    mass: tuple[float, float] | None = None  # lower and upper bound [kg]
    # lower and upper bound of x, y and z of the centre of mass, in the link's frame [m]
    com: tuple[tuple[float, float], ...] | None = None
    # least and most of x, y and z of an ellipsoid that contains all mass, likewise; `shape` for one
    # about the link's collision shapes, see `with_shapes`
    ellipsoid: tuple[tuple[float, float], ...] | Literal["shape"] | None = None
    # planes `[x, y, z, most]` of a convex body that contains the centre of mass, normals outward,
    # likewise [m]; `shape` for the convex hull of the link's collision shapes
    hull: tuple[tuple[float, ...], ...] | Literal["shape"] | None = None

    def __post_init__(self) -> None:
        if self.mass is not None and self.mass[1] <= 0.0:
            raise InvalidSetting(
                "a mass is positive", argument="mass", got=list(self.mass), expected="kg"
            )


@dataclass(frozen=True)
class MassOptions:
    """Mass of some links together, as a scale shows it: `[[known]]`."""

    mass: float  # [kg]
    std: float  # standard deviation [kg]
    links: tuple[str, ...] = ()  # their names; the whole robot if not given


@dataclass(frozen=True)
class MirrorOptions:
    """Two links that are mirror images of one another: `[[mirror]]`."""

    # left, right: their names
    left: str
    right: str
    axis: Literal["x", "y", "z"] = "y"  # of each link's own frame, which the mirror turns round
    strength: float = 10.0  # of this belief [effective samples]


@dataclass(frozen=True)
class Options:
    """Options of a robot that its model file cannot state: the TOML of `--with`, all optional.

    Raises:
        InvalidSetting: If a fixed base is given contacts, or a choice of its equations; if those
            of sensors are chosen and there are none; or a sensor has the name of a contact.
    """

    base: Literal["fixed", "free"] = "fixed"  # `fixed`, or `free` for a floating base
    # vector in the base's frame [m/s²]; that of the model file if not given, and 9.81 downwards
    # where the file has none
    gravity: tuple[float, float, float] | None = None
    joint: Mapping[str, JointOptions] | None = None  # options of joints, by joint name
    coupling: Coupling | None = None  # transmission of motors that move several joints
    # bounds on mass and centre of mass, by link name
    limits: Mapping[str, LinkOptions] | None = None
    known: tuple[MassOptions, ...] = ()  # masses from a scale
    mirror: tuple[MirrorOptions, ...] = ()  # links that are mirror images of one another
    motion: MotionOptions = MotionOptions()  # limits of motions that are designed
    # which equations are used beside those of wrench sensors: `all`; of a floating base those of
    # the `base` alone, whatever the joints' torques, or of the `joints` alone; with wrench sensors
    # those of the `sensors` alone
    equations: Literal["all", "base", "joints", "sensors"] = "all"
    # contacts of a floating base with the world, by name
    contact: Mapping[str, ContactOptions] | None = None
    # of the joints while the log was made; unknown if not given
    controller: ControllerOptions | None = None
    # wrench sensors between a link and the one before it, by name
    sensor: Mapping[str, SensorOptions] | None = None
    # whether the centre of mass of each link that has collision shapes is within their convex hull
    com_in_hull: bool = False

    def __post_init__(self) -> None:
        if self.base == "fixed" and (self.contact or self.equations in ("base", "joints")):
            raise InvalidSetting(
                "contacts, and a choice of equations, are of a floating base",
                argument="contact" if self.contact else "equations",
                cure='say base = "free"',
            )
        if self.equations == "sensors" and not self.sensor:
            raise InvalidSetting(
                "the equations of wrench sensors are asked for, and none is stated",
                argument="equations",
                got="sensors",
                cure='state one: [sensor.NAME], link = "the first link beyond it"',
            )
        both = set(self.contact or {}) & set(self.sensor or {})
        if both:
            raise InvalidSetting(
                "a sensor has the name of a contact",
                argument=f"[sensor.{min(both)}]",
                cure="give each its own name, after which its signals are called",
            )

    @staticmethod
    def from_toml(path: Path) -> Options:
        """Read the options from a TOML file, that of `--with`.

        Returns:
            The options; what is not stated has its default.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        found = Options.from_dict(read_toml(path), str(path))
        controller = found.controller
        if controller is None or controller.model is None:
            return found
        beside = replace(controller, model=str(path.parent / controller.model))
        return replace(found, controller=beside)

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "options") -> Options:
        """Return the options of a parsed TOML table; see `from_toml`.

        Raises:
            InvalidSetting: If a key is unknown, a value of the wrong type or range, or the table is
                that of a model file of Denavit-Hartenberg rows.
        """
        if "link" in table:
            raise InvalidSetting(
                "rows of Denavit-Hartenberg parameters are a model file of their own",
                argument=f"{where}, [link]",
                cure="give the TOML that holds [link] in the place of the URDF",
            )
        own = {k: v for k, v in table.items() if k not in OF_COMMANDS}
        return OPTIONS(own, where)

    def of(self, joint: str) -> JointOptions:
        """Return the options of a joint, defaults where none are given."""
        return (self.joint or {}).get(joint, JointOptions())

    @property
    def still(self) -> frozenset[str]:
        """Names of the joints that do not move."""
        return frozenset(n for n, j in (self.joint or {}).items() if j.position is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the table from which `from_dict` makes equal options."""
        table: dict[str, Any] = {"base": self.base}
        if self.equations != "all":
            table["equations"] = self.equations
        if self.com_in_hull:
            table["com_in_hull"] = True
        if self.gravity is not None:
            table["gravity"] = list(self.gravity)
        if self.joint:
            table["joint"] = {
                name: {k: v for k, v in vars(entry).items() if v is not None}
                for name, entry in self.joint.items()
            }
        if self.coupling is not None:
            table["coupling"] = {
                "joints": list(self.coupling.joints),
                "motors": list(self.coupling.motors),
                "matrix": [list(row) for row in self.coupling.matrix],
            }
        if self.limits:
            table["limits"] = {
                name: {k: np.array(v).tolist() for k, v in vars(entry).items() if v is not None}
                for name, entry in self.limits.items()
            }
        for key, entries in (("known", self.known), ("mirror", self.mirror)):
            if entries:
                table[key] = [
                    {k: list(v) if isinstance(v, tuple) else v for k, v in vars(entry).items()}
                    for entry in entries
                ]
        if self.contact:
            table["contact"] = {
                name: {k: list(v) if k == "point" else v for k, v in vars(entry).items()}
                for name, entry in self.contact.items()
            }
        if self.sensor:
            table["sensor"] = {
                name: {k: _plain(v) for k, v in vars(entry).items() if v != ""}
                for name, entry in self.sensor.items()
            }
        if self.controller is not None:
            table["controller"] = self.controller.to_dict()
        if motion := self.motion.to_dict():
            table["motion"] = motion
        return table


def _plain(value: object) -> object:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _gravity(value: object, where: str) -> tuple[float, ...]:
    gravity = list_of(number, 3)(value, where)
    if math.hypot(*gravity) > LARGEST_GRAVITY:
        raise InvalidSetting(
            "gravity is not in m/s²",
            argument=where,
            got=list(gravity),
            expected="about 9.81 in size on Earth",
        )
    return gravity


def joint_lines(joints: Iterable[str], line: str) -> str:
    """Return TOML of `--with` that says the same of each joint, such as `fixed = true`.

    Use it for the cure of an error.

    Args:
        line: What follows each table's head.
    """
    return "\n".join(f"[joint.{_key(j)}]\n{line}" for j in joints)


def _key(name: str) -> str:
    if re.fullmatch("[A-Za-z0-9_-]+", name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _joint_options(fixed: bool | None = None, **said: Any) -> JointOptions:
    if fixed:
        said = {"position": 0.0, **said}
    elif fixed is not None and said.get("position") is not None:
        raise InvalidSetting(
            "a joint that has a constant position is fixed",
            argument="fixed",
            got="fixed = false",
            cure="leave one of the two out",
        )
    spread, gain = said.get("gain_std"), said.get("gain")
    if spread is not None and (gain is None or not 0.0 <= spread < gain):
        raise InvalidSetting(
            "gain_std says how sure a gain is: a gain, and 0 or more but less than it are expected",
            argument="gain_std",
            got=spread,
        )
    return JointOptions(**said)


TURN_ROUND = "turn a column round with sign = [-1] in the column map (--map)"
JOINT = Section(
    _joint_options,
    {
        "friction": Text("this friction model is not known", FRICTION),
        "armature": truth,
        "gain": Number("a gain is a positive number", above=0.0, unit="N·m/A", cure=TURN_ROUND),
        "gain_std": number,
        "reduction": Number("a reduction is a positive number", above=0.0, cure=TURN_ROUND),
        "measured": truth,
        "fixed": truth,
        "position": number,
        "elastic": truth,
    },
)


def _ellipsoid(value: object, where: str) -> tuple[tuple[float, float], ...] | str:
    return SHAPE if value == SHAPE else solid_box(value, where)


def _hull(value: object, where: str) -> tuple[tuple[float, ...], ...] | str:
    return SHAPE if value == SHAPE else planes(value, where)


LIMITS = Section(
    LinkOptions, {"mass": interval, "com": box, "ellipsoid": _ellipsoid, "hull": _hull}
)
COUPLING = Section(
    Coupling,
    {"matrix": rows_of(number), "motors": name_list, "joints": name_list},
    required=("matrix", "motors", "joints"),
)
KNOWN = Section(
    MassOptions,
    {
        "mass": Number("a mass is positive", above=0.0, unit="kg"),
        "std": Number("a standard deviation is positive", above=0.0, unit="kg"),
        "links": name_list,
    },
    required=("mass", "std"),
)
MIRROR = Section(
    MirrorOptions,
    {
        "left": Text("the name of a link is expected"),
        "right": Text("the name of a link is expected"),
        "axis": Text("a mirror turns one axis round", ("x", "y", "z")),
        "strength": Number("a strength is a positive number of samples", above=0.0),
    },
    required=("left", "right"),
)
OPTIONS = Section(
    Options,
    {
        "base": Text("base is neither fixed nor free", ("fixed", "free")),
        "equations": Text(
            "this choice of equations is not known", ("all", "base", "joints", "sensors")
        ),
        "gravity": _gravity,
        "com_in_hull": truth,
        "contact": named(CONTACT, "[contact.NAME] tables are expected"),
        "sensor": named(SENSOR, "[sensor.NAME] tables are expected"),
        "joint": named(JOINT, "[joint.NAME] tables are expected"),
        "coupling": COUPLING,
        "limits": named(LIMITS, "[limits.NAME] tables are expected"),
        "known": list_of(KNOWN, of="[[known]] tables", entry=" "),
        "mirror": list_of(MIRROR, of="[[mirror]] tables", entry=" "),
        "motion": MOTION,
        "controller": CONTROLLER,
    },
)
