"""Corrections of a log's columns, and the elementary steps that compose them.

A `Correction` transforms a whole log: columns, signs, scales, offsets, gravity and delay. A
`CorrectionStep` is one elementary part of it, such as one joint's sign. Each kind (`steps`)
defines how it changes a correction, how large it must be to matter, how its parameter is refined,
and how it is described to the user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from heft.arrays import Array
from heft.models import Robot

from .settings import StepAcceptance

Columns = Literal["q", "tau", "both"]  # positions, efforts, or both of a joint


@dataclass(frozen=True)
class Timing:
    """Delay, drift and low-pass of the logged torque relative to the motion."""

    delay: float = 0.0  # delay of torque behind motion, in the middle of the log [s]
    drift: float = 0.0  # growth of that delay [s per s]
    order: int = 0  # order of a Butterworth low-pass that the torque went through; 0 for none
    corner: float = 0.0  # its cutoff frequency [Hz]


IN_TIME = Timing()  # torque as good logs have it


@dataclass(frozen=True)
class Correction:
    """Transformation of a log's columns under which the robot model is to explain it.

    `q_j = q_scale_j · logged q_{q_source_j} + q_offset_j`, likewise for torque without offset.
    """

    q_source: tuple[int, ...]  # index of the column that holds each joint's position
    q_scale: tuple[float, ...]  # scale factor of each joint's position
    q_offset: tuple[float, ...]  # offset added to each joint's position [rad or m]
    tau_source: tuple[int, ...]  # index of the column that holds each joint's torque
    tau_scale: tuple[float, ...]  # scale factor of each joint's torque
    gravity: tuple[float, float, float]  # gravity in the base's frame [m/s²]
    timing: Timing = IN_TIME  # delay, drift and low-pass of torque against motion
    # indices of the joints whose friction may push, as drives can that compensate it
    driven: tuple[int, ...] = ()
    # index of a body of which the model file is believed little, or None
    carrying: int | None = None

    @staticmethod
    def none(robot: Robot) -> Correction:
        """Return the identity: columns as logged, the robot's gravity, no delay."""
        count = len(robot.joints)
        same, one, zero = tuple(range(count)), (1.0,) * count, (0.0,) * count
        x, y, z = map(float, robot.gravity)
        return Correction(same, one, zero, same, one, (x, y, z))

    def positions(
        self,
        source: Sequence[int] | None = None,
        scale: Sequence[float] | None = None,
        offset: Sequence[float] | None = None,
    ) -> Correction:
        """Return this correction followed by another transformation of the positions."""
        count = len(self.q_source)
        p = list(range(count)) if source is None else source
        s = [1.0] * count if scale is None else scale
        o = [0.0] * count if offset is None else offset
        return replace(
            self,
            q_source=tuple(self.q_source[k] for k in p),
            q_scale=tuple(s[j] * self.q_scale[k] for j, k in enumerate(p)),
            q_offset=tuple(s[j] * self.q_offset[k] + o[j] for j, k in enumerate(p)),
        )

    def torques(
        self, source: Sequence[int] | None = None, scale: Sequence[float] | None = None
    ) -> Correction:
        """Return this correction followed by another transformation of the torques."""
        count = len(self.tau_source)
        p = list(range(count)) if source is None else source
        s = [1.0] * count if scale is None else scale
        return replace(
            self,
            tau_source=tuple(self.tau_source[k] for k in p),
            tau_scale=tuple(s[j] * self.tau_scale[k] for j, k in enumerate(p)),
        )

    @property
    def delay(self) -> float:
        """Delay of torque behind motion [s]."""
        return self.timing.delay

    @property
    def speeds(self) -> tuple[object, ...]:
        """The part that determines speeds, and with them the columns of friction."""
        return (self.q_source, self.q_scale)

    @property
    def motion(self) -> tuple[object, ...]:
        """The part that determines the regressor; hypotheses that share it share their rows."""
        return (self.q_source, self.q_scale, self.q_offset, self.gravity, self.carrying)


@dataclass(frozen=True)
class Description:
    """Description of a step for the user."""

    name: str  # name of two or three words
    what: str  # what is wrong, as a clause
    cure: str  # what to do
    # lines of TOML or flags that do it, by destination: `map`, `options` or `flag`
    lines: dict[str, str]


@dataclass(frozen=True)
class Told:
    """Context in which a step is described."""

    joints: tuple[str, ...]  # names of the robot's joints, in its order
    effort: str  # kind of the log's efforts: `tau` or `current`
    gravity: Array  # gravity of the robot model, shape (3,) [m/s²]

    def kinds(self, columns: Columns) -> tuple[str, ...]:
        """Return the kinds of signals that a choice of columns stands for."""
        return {"q": ("q",), "tau": (self.effort,), "both": ("q", self.effort)}[columns]

    def named(self, joints: Sequence[int]) -> str:
        """Return joints' names as a sentence has them."""
        return " and ".join(f"'{self.joints[j]}'" for j in joints) or "all joints"

    def about(self, joints: Sequence[int]) -> str:
        """Return joints' names as the subject of a finding."""
        return ", ".join(self.joints[j] for j in joints) or "all joints"

    def line(self, kind: str, key: str, value: float, rest: float, joints: Sequence[int]) -> str:
        """Return lines of a column map: a value for some joints or all, and one for the rest."""
        about = set(joints or range(len(self.joints)))
        numbers = [float(f"{value:.8g}") if j in about else rest for j in range(len(self.joints))]
        return f"[{kind}]\n{key} = {numbers}  # {', '.join(self.joints)}"


@dataclass(frozen=True)
class CorrectionStep(ABC):
    """Elementary step of a correction."""

    joints: tuple[int, ...] = ()  # indices of the joints that it concerns; empty if it concerns all

    is_continuous: ClassVar[bool] = False  # one number of one place: it harms nowhere else
    is_factor: ClassVar[bool] = False  # it may leave the residual as it is, relative to torque
    is_unit: ClassVar[bool] = False  # one for all is likelier than many joints of which each is off

    @property
    @abstractmethod
    def kind(self) -> str:
        """Its kind, in a word or two."""

    @property
    def number(self) -> float:
        """Its continuous parameter: factor, offset [rad or m] or delay [s]; 0 if it has none."""
        return 0.0

    @abstractmethod
    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""

    @abstractmethod
    def describe(self, told: Told) -> Description:
        """Return its description for the user."""

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether it exceeds what good logs show anyway, applied after a correction."""
        return True

    @property
    def is_expandable(self) -> bool:
        """Whether its parameter is refined by a first-order expansion of the residual."""
        return False

    def unbound(self) -> Self | None:
        """Return the step with its joints' torque so small that the bodies do not constrain it.

        None if there is none. What the bodies bind must be worse explained by it.
        """
        return None

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return this step and a further one of the same kind as one step; None if kinds differ."""
        return None


@dataclass(frozen=True)
class ScalarStep(CorrectionStep):
    """Elementary step with one parameter, which is refined by a line search."""

    value: float = 0.0  # the parameter

    is_continuous = True
    width: ClassVar[float] = 0.0  # by which the search begins; 0 if the number is not searched for

    @property
    def number(self) -> float:
        """Value of its parameter."""
        return self.value

    def moved(self, by: float) -> Self:
        """Return the step with its parameter changed by an increment."""
        return replace(self, value=self.value + by)


def combined(start: Correction, steps: Sequence[CorrectionStep]) -> Correction:
    """Return a correction followed by steps, applied in order."""
    found = start
    for step in steps:
        found = step.apply(found)
    return found


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def toml_list(names: Iterable[str]) -> str:
    """Return names as a TOML list of strings."""
    return "[" + ", ".join(quoted(n) for n in names) + "]"
