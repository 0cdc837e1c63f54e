"""Options of a robot that its model file cannot state: the TOML of `--with`, all of it optional."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from heft.dynamics import FRICTION
from heft.errors import InvalidSetting
from heft.files import (
    Number,
    Reader,
    Section,
    Text,
    box,
    interval,
    list_of,
    name_list,
    named,
    number,
    planes,
    positive,
    read_toml,
    rotation_rows,
    rows_of,
    section,
    solid_box,
    stated,
    truth,
)

from .motion_options import MotionOptions

STANDARD_GRAVITY = (0.0, 0.0, -9.81)
SHAPE: Literal["shape"] = "shape"  # a limit that follows from a link's collision shapes
TURN_ROUND = "turn a column round with sign = [-1] in the column map (--map)"


def _link(says: str, cure: str) -> Text:
    return Text(says, shape=re.compile("(?s).+"), cure=cure)


def _or_shape(read: Reader[Any]) -> Reader[Any]:
    return lambda value, where: SHAPE if value == SHAPE else read(value, where)


def _gravity(value: object, where: str) -> tuple[float, ...]:
    gravity = list_of(number, 3)(value, where)
    if math.hypot(*gravity) > 100.0:  # [m/s²]; more is in another unit
        raise InvalidSetting(
            "gravity is not in m/s²",
            argument=where,
            got=list(gravity),
            expected="about 9.81 in size on Earth",
        )
    return gravity


def _gain(unit: str) -> Number:
    return Number(f"a gain is a number that is not negative: {unit}", least=0.0)


LinkName = Annotated[str, "the name of a link is expected"]
Point = tuple[float, float, float]
Limit = Annotated[
    float, Number("a limit of a contact that is detected is a positive number", above=0.0)
]


@dataclass(frozen=True)
class JointOptions:
    """Options of one joint: friction model, rotor inertia, current gain, reduction."""

    # a model of `FRICTION`: `full` (the dictionary), `simple` (viscous, Coulomb, offset) or `none`.
    # If not given, `full`, and `simple` where the base floats
    friction: Annotated[str | None, Text("this friction model is not known", FRICTION)] = None
    armature: bool = True  # whether to identify rotor inertia
    # torque per current [N·m/A], to use `current.<joint>` where no torque is logged
    gain: Annotated[
        float | None,
        Number("a gain is a positive number", above=0.0, unit="N·m/A", cure=TURN_ROUND),
    ] = None
    # standard error of the gain [N·m/A]; the gain is then estimated too. Exact if not given
    gain_std: float | None = None
    # motor turns per joint turn, to state rotor inertia on the motor's side
    reduction: Annotated[
        float | None, Number("a reduction is a positive number", above=0.0, cure=TURN_ROUND)
    ] = None
    measured: bool = True  # whether its torque is used
    # constant position [rad or m] of a joint that does not move; in a file also said by `fixed =
    # true`, at zero
    position: float | None = None
    # whether its gear yields between the motor, at `q_motor.<joint>`, and the link, at `q.<joint>`;
    # if not given it does where logs have both
    elastic: bool | None = None


def _joint_options(fixed: bool | None = None, **stated: Any) -> JointOptions:
    if fixed:
        stated = {"position": 0.0, **stated}
    elif fixed is not None and stated.get("position") is not None:
        raise InvalidSetting(
            "a joint that has a constant position is fixed",
            argument="fixed",
            got="fixed = false",
            cure="leave one of the two out",
        )
    spread, gain = stated.get("gain_std"), stated.get("gain")
    if spread is not None and (gain is None or not 0.0 <= spread < gain):
        raise InvalidSetting(
            "gain_std says how sure a gain is: a gain, and 0 or more but less than it are expected",
            argument="gain_std",
            got=spread,
        )
    return JointOptions(**stated)


@dataclass(frozen=True)
class GainsOptions:
    """How gains that were found together err together: `[gains]`, beside their `gain_std`.

    Raises:
        InvalidSetting: If the correlation is none of as many joints.
    """

    joints: Annotated[tuple[str, ...], name_list]  # whose gains they are
    # correlation of the gains' errors, shape (joints, joints)
    correlation: Annotated[tuple[tuple[float, ...], ...], rows_of(number)]
    # relative standard deviation of a factor common to all, for logs of another day: those of a
    # UR10e differed by 1.1 to 2.8 % between two days
    other_day: Annotated[
        float, Number("a share is 0 or more, and less than 1", least=0.0, below=1.0)
    ] = 0.01

    def __post_init__(self) -> None:
        matrix, count = np.array(self.correlation), len(self.joints)
        if not (
            matrix.shape == (count, count)
            and (matrix == matrix.T).all()
            and (np.diag(matrix) == 1.0).all()
            and np.linalg.eigvalsh(matrix).min() > 0.0
        ):
            raise InvalidSetting(
                "this is no correlation of these joints' gains",
                argument="correlation",
                got=f"{matrix.shape[0]}×{matrix.shape[1]}, {count} joints",
                expected="a row a joint, symmetric, ones on the diagonal, positive definite",
            )


@dataclass(frozen=True)
class Coupling:
    """Transmission that couples several joints to motors: `joint torque = matrix @ motor torque`.

    By virtual work `motor speed = matrixᵀ @ joint speed`. Reductions are part of it.

    Raises:
        InvalidSetting: If the matrix is not square with one column a motor, or is singular.
    """

    joints: tuple[str, ...]  # of the rows
    motors: tuple[str, ...]  # of the columns
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

    mass: Annotated[tuple[float, float] | None, interval] = None  # lower and upper bound [kg]
    # lower and upper bound of x, y and z of the centre of mass, in the link's frame [m]
    com: Annotated[tuple[tuple[float, float], ...] | None, box] = None
    # least and most of x, y and z of an ellipsoid that contains all mass, likewise; `shape` for one
    # about the link's collision shapes, see `with_shapes`
    ellipsoid: Annotated[
        tuple[tuple[float, float], ...] | Literal["shape"] | None, _or_shape(solid_box)
    ] = None
    # planes `[x, y, z, most]` of a convex body that contains the centre of mass, normals outward,
    # likewise [m]; `shape` for the convex hull of the link's collision shapes
    hull: Annotated[tuple[tuple[float, ...], ...] | Literal["shape"] | None, _or_shape(planes)] = (
        None
    )

    def __post_init__(self) -> None:
        if self.mass is not None and self.mass[1] <= 0.0:
            raise InvalidSetting(
                "a mass is positive", argument="mass", got=list(self.mass), expected="kg"
            )


@dataclass(frozen=True)
class MassOptions:
    """Mass of some links together, as a scale shows it: `[[known]]`."""

    mass: Annotated[float, positive("a mass", "kg")]  # [kg]
    std: Annotated[float, positive("a standard deviation", "kg")]  # [kg]
    links: tuple[str, ...] = ()  # the whole robot if not given


@dataclass(frozen=True)
class MirrorOptions:
    """Two links that are mirror images of one another: `[[mirror]]`."""

    left: LinkName
    right: LinkName
    # of each link's own frame, which the mirror turns round
    axis: Annotated[Literal["x", "y", "z"], "a mirror turns one axis round"] = "y"
    # of this belief [effective samples]
    strength: Annotated[float, Number("a strength is a positive number of samples", above=0.0)] = (
        10.0
    )


@dataclass(frozen=True)
class ContactOptions:
    """A contact of a link with the world: `[contact.NAME]`."""

    # the link that is touched
    link: Annotated[str, _link("a contact is one of a link", 'name it: link = "left_foot"')]
    # `surface`, which bears force and moment; `point`, which bears force alone
    kind: Annotated[Literal["surface", "point"], "a contact is neither a surface nor a point"] = (
        "surface"
    )
    point: Point = (0.0, 0.0, 0.0)  # of the contact, in the link's frame [m]
    # `unknown`, or `measured`: logged as `force.NAME.x` … and, of a surface, `torque.NAME.x` …,
    # what acts on the link, in its axes, about the point
    wrench: Annotated[
        Literal["unknown", "measured"], "a contact's wrench is neither unknown nor measured"
    ] = "unknown"
    # when an unknown wrench may act: `always`, where `contact.NAME` of the log is more than one
    # half (`logged`), or where the link rests at the height of the lowest of all contacts
    # (`detected`). What is measured counts always
    closed: Annotated[
        Literal["always", "logged", "detected"], "when a contact is closed is not known here"
    ] = "always"
    # of a detected contact, the largest velocity of its point [m/s]. Generous, as the next: a foot
    # that rolls or slides bears a wrench, too, and what is taken for closed and is not costs what
    # its sample tells, no more
    speed: Limit = 0.3
    turning: Limit = 2.0  # of a detected surface, the largest angular velocity [rad/s]
    # of a detected contact, its largest height above the lowest of all contacts [m]
    height: Limit = 0.02

    @property
    def components(self) -> int:
        """How many components of a wrench it bears: 6 or 3."""
        return 6 if self.kind == "surface" else 3


@dataclass(frozen=True)
class SensorOptions:
    """A six-axis force/torque sensor between a link and the one before it: `[sensor.NAME]`.

    What is beyond it (the link, what is fixed to it, and all that hangs on these) is moved by the
    wrench that it measures, and by the contacts there.
    """

    # the first link beyond it
    link: Annotated[
        str,
        _link(
            "a wrench sensor sits before a link",
            'name the first link beyond it: link = "l_upper_leg"',
        ),
    ]
    # its signals are `force.FRAME.x` … and `torque.FRAME.x` …; its own name if not given
    frame: Annotated[str, "the name of a frame is expected"] = ""
    position: Point = (0.0, 0.0, 0.0)  # origin of its frame, in the link's frame [m]
    # from its axes to the link's, three rows
    rotation: Annotated[tuple[tuple[float, ...], ...], rotation_rows] = (
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
    )
    # `on_load`, the wrench on what is beyond; `on_sensor`, the opposite
    reports: Annotated[
        Literal["on_load", "on_sensor"],
        "a sensor reports neither the wrench on the load nor on itself",
    ] = "on_load"
    # `estimate`, a constant wrench that it adds, the same in all logs; `none`
    bias: Annotated[
        Literal["estimate", "none"], "a sensor's bias is neither estimated nor none"
    ] = "estimate"
    # whether the logs hold its wrench. The bodies that it sits between stay apart where they do
    # not, so that what it told in other logs adds
    measured: bool = True


@dataclass(frozen=True)
class JointGains:
    """Gains of a joint's controller, and what it knows of the drive: `[controller.joint.NAME]`."""

    # torque per error of position, per error of velocity, per integral of the error of position
    position: Annotated[float, _gain("N·m/rad or N/m")]
    velocity: Annotated[float, _gain("N·m·s/rad or N·s/m")]
    integral: Annotated[float, _gain("N·m/(rad·s) or N/(m·s)")] = 0.0
    # rotor inertia and viscous friction in the feed-forward, where that is `inverse-dynamics`
    armature: Annotated[float, _gain("kg·m² or kg")] = 0.0
    viscous: Annotated[float, _gain("N·m·s/rad or N·s/m")] = 0.0


@dataclass(frozen=True)
class ControllerOptions:
    """PD or PID control of each joint, with a model's feedforward torque: `[controller]`.

    τ = τ_model(q_ref, v_ref, a_ref) + K_p (q_ref − q) + K_d (v_ref − v) + K_i ∫(q_ref − q) dt

    Estimators that simulate the experiment need it, with the references `q_ref.<joint>` of the log.
    """

    joint: Mapping[str, JointGains]  # gains of every joint that moves, by name
    # how often it acts [Hz]; its torque is held between
    rate: Annotated[
        float, Number("a rate is a positive number", above=0.0, most=1e5, unit="Hz")
    ] = 1000.0
    # corner of the first-order low-pass of the differentiated position [Hz]; the velocity itself if
    # not given
    filter: Annotated[
        float | None, Number("a corner is a positive number", above=0.0, unit="Hz")
    ] = None
    # torque ahead of any error: `none`, that of `gravity`, or `inverse-dynamics`, computed torque
    # along the reference
    feedforward: Annotated[
        Literal["none", "gravity", "inverse-dynamics"], "this feed-forward is not known"
    ] = "none"
    # model file that the feed-forward takes; the robot's own if not given
    model: Annotated[str | None, "the name of a model file is expected"] = None


@dataclass(frozen=True)
class Options:
    """Options of a robot that its model file cannot state: the TOML of `--with`, all optional.

    Raises:
        InvalidSetting: If a fixed base is given contacts, or a choice of its equations; if those
            of sensors are chosen and there are none; or a sensor has the name of a contact.
    """

    # `fixed`, or `free` for a floating base
    base: Annotated[Literal["fixed", "free"], "base is neither fixed nor free"] = "fixed"
    # vector in the base's frame [m/s²]; that of the model file if not given, and 9.81 downwards
    # where the file has none
    gravity: Annotated[tuple[float, float, float] | None, _gravity] = None
    # options of joints, by joint name
    joint: Annotated[
        Mapping[str, JointOptions] | None,
        named(
            section(JointOptions, _joint_options, fixed=truth), "[joint.NAME] tables are expected"
        ),
    ] = None
    gains: GainsOptions | None = None  # how gains that were found together err together
    # transmission of motors that move several joints
    coupling: Annotated[
        Coupling | None,
        Section(  # the matrix first, which says how many motors there are
            Coupling,
            {"matrix": rows_of(number), "motors": name_list, "joints": name_list},
            required=("matrix", "motors", "joints"),
        ),
    ] = None
    # bounds on mass and centre of mass, by link name
    limits: Mapping[str, LinkOptions] | None = None
    known: tuple[MassOptions, ...] = ()
    mirror: tuple[MirrorOptions, ...] = ()
    motion: MotionOptions = MotionOptions()  # limits of motions that are designed
    # which equations are used beside those of wrench sensors: `all`; of a floating base those of
    # the `base` alone, whatever the joints' torques, or of the `joints` alone; with wrench sensors
    # those of the `sensors` alone
    equations: Annotated[
        Literal["all", "base", "joints", "sensors"], "this choice of equations is not known"
    ] = "all"
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
        """Read the options of `--with` from a TOML file; what is not stated has its default.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        options = Options.from_dict(read_toml(path), str(path))
        controller = options.controller
        if controller is None or controller.model is None:
            return options
        beside = replace(controller, model=str(path.parent / controller.model))
        return replace(options, controller=beside)

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
        # Tables that a command of this name reads are none of the robot.
        own = {k: v for k, v in table.items() if k not in ("simulation",)}
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
        motion = stated(self.motion)
        return {"base": self.base} | stated(self) | ({"motion": motion} if motion else {})


OPTIONS = section(Options)


def joint_lines(joints: Iterable[str], line: str) -> str:
    """Return TOML of `--with` that says a line, such as `fixed = true`, of each joint.

    Use it for the cure of an error.
    """
    return "\n".join(f"[joint.{_key(j)}]\n{line}" for j in joints)


def _key(name: str) -> str:
    if re.fullmatch("[A-Za-z0-9_-]+", name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
