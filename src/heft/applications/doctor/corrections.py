"""What must be done to a log: a correction, and the steps that it can be told in.

A `Correction` is what must be done to a whole log; a `CorrectionStep` is one thing of it that can
be told in a sentence. Each kind (`steps`) knows what it does to a correction, how large it must be
to matter, along what its number is refined, and what a user is told of it.
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
class Correction:
    """What must be done to a log before a robot explains it.

    `q_j = q_scale_j · logged q_{q_source_j} + q_offset_j`, likewise for torque.

    Attributes:
        q_source: From which joint's column each joint's position is to be taken.
        q_scale: Factor of each joint's position.
        q_offset: Added to each joint's position [rad or m].
        tau_source: From which joint's column each joint's torque is to be taken.
        tau_scale: Factor of each joint's torque.
        gravity: Vector in the base's frame [m/s²].
        delay: By how much torque comes behind motion [s].
    """

    q_source: tuple[int, ...]
    q_scale: tuple[float, ...]
    q_offset: tuple[float, ...]
    tau_source: tuple[int, ...]
    tau_scale: tuple[float, ...]
    gravity: tuple[float, float, float]
    delay: float = 0.0

    @staticmethod
    def none(robot: Robot) -> Correction:
        """Return the correction that changes nothing."""
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
        """Return this correction followed by another one of the positions."""
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
        """Return this correction followed by another one of the torques."""
        count = len(self.tau_source)
        p = list(range(count)) if source is None else source
        s = [1.0] * count if scale is None else scale
        return replace(
            self,
            tau_source=tuple(self.tau_source[k] for k in p),
            tau_scale=tuple(s[j] * self.tau_scale[k] for j, k in enumerate(p)),
        )

    @property
    def motion(self) -> tuple[object, ...]:
        """What decides the rows, for hypotheses that share them."""
        return (self.q_source, self.q_scale, self.q_offset, self.gravity)


@dataclass(frozen=True)
class Description:
    """What a user is told of a step.

    Attributes:
        name: In two or three words.
        what: What is wrong, as a clause.
        cure: What to do.
        lines: Lines that do it, by where they go: `map`, `options` or `flag`.
    """

    name: str
    what: str
    cure: str
    lines: dict[str, str]


@dataclass(frozen=True)
class Told:
    """For whom a step is described.

    Attributes:
        joints: Names of the robot's joints, in its order.
        effort: What its log calls efforts: `tau` or `current`.
        gravity: What the robot is told [m/s²], shape (3,).
    """

    joints: tuple[str, ...]
    effort: str
    gravity: Array

    def kinds(self, columns: Columns) -> tuple[str, ...]:
        """Return the kinds of signals that columns are of."""
        return {"q": ("q",), "tau": (self.effort,), "both": ("q", self.effort)}[columns]

    def named(self, joints: Sequence[int]) -> str:
        """Return joints' names as a sentence has them."""
        return " and ".join(f"'{self.joints[j]}'" for j in joints) or "all joints"

    def line(self, kind: str, key: str, value: float, rest: float, joints: Sequence[int]) -> str:
        """Return lines of a column map: a value for some joints or all, and one for the rest."""
        about = set(joints or range(len(self.joints)))
        numbers = [float(f"{value:.8g}") if j in about else rest for j in range(len(self.joints))]
        return f"[{kind}]\n{key} = {numbers}  # {', '.join(self.joints)}"


@dataclass(frozen=True)
class CorrectionStep(ABC):
    """One step of a correction.

    Attributes:
        joints: Positions of the joints it is about; none if it is about all.
    """

    joints: tuple[int, ...] = ()

    is_continuous: ClassVar[bool] = False  # one number of one place: it harms nowhere else
    is_factor: ClassVar[bool] = False  # it may leave the residual as it is, relative to torque
    is_unit: ClassVar[bool] = False  # one for all is likelier than many joints of which each is off

    @property
    @abstractmethod
    def kind(self) -> str:
        """Its kind, in a word or two."""

    @property
    def number(self) -> float:
        """Its number: factor, offset [rad or m], delay [s]; 0 if it has none."""
        return 0.0

    @abstractmethod
    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""

    @abstractmethod
    def describe(self, told: Told) -> Description:
        """Return what a user is told of it."""

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether it is larger than what good logs are off by, after a correction."""
        return True

    @property
    def is_expandable(self) -> bool:
        """Whether its number is refined by what the residual shows of it to first order."""
        return False

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return this step and a further small one as one; None if they are of unlike kinds."""
        return None


@dataclass(frozen=True)
class ScalarStep(CorrectionStep):
    """A step of one number, which a search by comparison refines.

    Attributes:
        value: The number.
    """

    value: float = 0.0

    is_continuous = True
    width: ClassVar[float] = 0.0  # by which the search begins; 0 if the number is not searched for

    @property
    def number(self) -> float:
        """Its number."""
        return self.value

    def moved(self, by: float) -> Self:
        """Return the step with its number moved."""
        return replace(self, value=self.value + by)


def combined(start: Correction, steps: Sequence[CorrectionStep]) -> Correction:
    """Return a correction followed by steps, one after another."""
    found = start
    for step in steps:
        found = step.apply(found)
    return found


def quoted(text: str) -> str:
    """Return a text as TOML has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def toml_list(names: Iterable[str]) -> str:
    """Return names as a list in TOML."""
    return "[" + ", ".join(quoted(n) for n in names) + "]"
