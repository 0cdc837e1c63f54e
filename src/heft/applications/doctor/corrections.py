"""Corrections of a log's columns, and the elementary steps that compose them.

A `Correction` transforms a whole log: columns, signs, scales, offsets, gravity and delay. A
`CorrectionStep` is one elementary part of it, such as one joint's sign. Each kind defines how it
changes a correction, how large it must be to matter, how its parameter is refined, and how it is
described to the user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from heft.arrays import Array
from heft.models import Robot
from heft.recordings import toml_list

from .settings import DEGREE, TURN, StepAcceptance

Columns = Literal["q", "tau", "both"]  # positions, efforts, or both of a joint
TORQUE_UNITS = {  # sizes of what torques are logged in by mistake [N·m]
    "N·mm": 1e-3,
    "N·cm": 1e-2,
    "kN·m": 1e3,
    "kgf·cm": 0.0980665,
    "kgf·m": 9.80665,
    "lbf·in": 0.1129848,
}


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
class Context:
    """Context in which a step is described."""

    joints: tuple[str, ...]  # names of the robot's joints, in its order
    effort: str  # kind of the log's efforts: `tau` or `current`
    gravity: Array  # gravity of the robot model, shape (3,) [m/s²]
    are_integers: bool = False  # whether all efforts are whole numbers

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
        about = joints or range(len(self.joints))
        return self.lines(kind, key, dict.fromkeys(about, value), rest)

    def lines(self, kind: str, key: str, values: Mapping[int, float], rest: float) -> str:
        """Return lines of a column map: values of some joints by index, and one for the rest."""
        numbers = [float(f"{values.get(j, rest):.8g}") for j in range(len(self.joints))]
        return f"[{kind}]\n{key} = {numbers}  # {', '.join(self.joints)}"


@dataclass(frozen=True)
class CorrectionStep(ABC):
    """Elementary step of a correction."""

    joints: tuple[int, ...] = ()  # indices of the joints that it concerns; empty if it concerns all

    is_continuous: ClassVar[bool] = False  # one number of one place: it harms nowhere else
    is_factor: ClassVar[bool] = False  # it may leave the residual as it is, relative to torque
    is_unit: ClassVar[bool] = False  # one for all is likelier than many joints of which each is off

    called: ClassVar[str] = ""  # its kind, in a word or two

    @property
    def kind(self) -> str:
        """Its kind, in a word or two."""
        return self.called

    @property
    def number(self) -> float:
        """Its continuous parameter: factor, offset [rad or m] or delay [s]; 0 if it has none."""
        return 0.0

    @abstractmethod
    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""

    @abstractmethod
    def describe(self, log: Context) -> Description:
        """Return its description for the user."""

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether it exceeds what good logs show anyway, applied after a correction."""
        return True

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


def unit_near(size: float) -> float:
    """Return the size of the one unit of torque that a size is near to; itself if none is."""
    # what may be a unit is within a factor of 1.5 of its size
    near = [u for u in TORQUE_UNITS.values() if abs(np.log(u / size)) < np.log(1.5)]
    return near[0] if len(near) == 1 else float(f"{size:.3g}")


def combined(start: Correction, steps: Sequence[CorrectionStep]) -> Correction:
    """Return a correction followed by steps, applied in order."""
    for step in steps:
        start = step.apply(start)
    return start


def _scaled(step: CorrectionStep, of: Columns, factor: float, to: Correction) -> Correction:
    joints = range(len(to.q_source))
    scale = [factor if j in (step.joints or joints) else 1.0 for j in joints]
    moved = to if of == "tau" else to.positions(scale=scale)
    return moved if of == "q" else moved.torques(scale=scale)


@dataclass(frozen=True)
class _Scaling(ScalarStep):
    def apply(self, to: Correction) -> Correction:
        return _scaled(self, "q", self.value, to)


@dataclass(frozen=True)
class SignFlip(CorrectionStep):
    """Sign of positions, of torques, or of both (an axis turned round)."""

    of: Columns = "both"  # which of them: see `kind`

    @property
    def kind(self) -> str:
        """`q sign`, `tau sign` or `axis`."""
        return {"q": "q sign", "tau": "tau sign", "both": "axis"}[self.of]

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return _scaled(self, self.of, -1.0, to)

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        what = {"q": "position", "tau": "torque", "both": "position and torque"}[self.of]
        lines = (log.line(k, "sign", -1, 1, self.joints) for k in log.kinds(self.of))
        return Description(
            f"flipped {what}",
            f"the {what} of {log.named(self.joints)} has the other sign",
            "flip it in the column map",
            {"map": "\n".join(lines).replace(".0", "")},
        )


@dataclass(frozen=True)
class Swap(CorrectionStep):
    """Exchange of the columns of two joints: their positions, their torques, or both."""

    of: Columns = "both"  # which of them: see `kind`

    @property
    def kind(self) -> str:
        """`q swap`, `tau swap` or `swap`."""
        return {"q": "q swap", "tau": "tau swap", "both": "swap"}[self.of]

    def _order(self, count: int) -> list[int]:
        order = list(range(count))
        for j, k in zip(self.joints, reversed(self.joints), strict=True):
            order[j] = k
        return order

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        source = self._order(len(to.q_source))
        moved = to if self.of == "tau" else to.positions(source)
        return moved if self.of == "q" else moved.torques(source)

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        what = {"q": "positions", "tau": "torques", "both": "columns"}[self.of]
        order = toml_list(log.joints[k] for k in self._order(len(log.joints)))
        lines = (
            f"[{k}]\njoints = {order}  # of columns {toml_list(f'{k}.{j}' for j in log.joints)}"
            for k in log.kinds(self.of)
        )
        return Description(
            f"swapped {what}",
            f"the {what} of {log.named(self.joints)} are swapped",
            "name them in the other order",
            {"map": "\n".join(lines)},
        )


@dataclass(frozen=True)
class PositionUnit(_Scaling):
    """Unit of all positions; `value` is its size [rad]."""

    called = "q unit"
    is_continuous = False
    is_unit = True

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        for size, unit, words in ((DEGREE, "deg", "degrees"), (TURN, "turn", "turns")):
            if self.value == size:
                return Description(
                    f"{words} for radians",
                    f"positions are in {words}",
                    "state the unit",
                    {"map": f'[q]\nunit = "{unit}"'},
                )
        return Description(
            "radians for degrees",
            "positions were turned from degrees to radians twice",
            "state the unit",
            {"map": log.line("q", "scale", self.value, 1.0, self.joints)},
        )


@dataclass(frozen=True)
class PositionScale(_Scaling):
    """Scale factor of joints' positions, such as a gear ratio or a unit; `value` is the factor."""

    called = "q scale"
    is_factor = True
    width = 0.03  # of the factor's logarithm

    def moved(self, by: float) -> Self:
        """Return the step with the logarithm of its factor changed by an increment."""
        return replace(self, value=self.value * float(np.exp(by)))

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether it is beyond what good logs show."""
        return bool(abs(np.log(abs(self.value))) > least.log_ratio or self.value < 0.0)

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        degrees = abs(self.value - DEGREE) < 1e-3 * np.pi
        return Description(
            "degrees for radians" if degrees else "wrong gear or unit of position",
            f"the position of {log.named(self.joints)} is {1.0 / self.value:.4g} times too large",
            "scale it; if it is a motor's, give the exact ratio",
            {"map": log.line("q", "scale", self.value, 1.0, self.joints)},
        )


@dataclass(frozen=True)
class PositionOffset(ScalarStep):
    """Zero offset of joints' encoders; `value` is added to the positions [rad or m]."""

    called = "q offset"

    def angle(self, base: Correction) -> float:
        """Return its size [rad]."""
        return abs(self._shift)

    def share_of(self, other: CorrectionStep, base: Correction) -> float:
        """Return its size over that of another offset, from the same correction."""
        return self.value / other.number

    @property
    def _shift(self) -> float:
        """The offset within half a turn of zero [rad]."""
        return float(np.angle(np.exp(1j * self.value)))

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        count = len(to.q_source)
        return to.positions(offset=[self.value if j in self.joints else 0.0 for j in range(count)])

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether the zero is off by enough."""
        return abs(self._shift) >= least.offset_rad

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return two offsets of the same joints as one."""
        if not isinstance(further, PositionOffset) or further.joints != self.joints:
            return None
        return self.moved(further.value)

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        return Description(
            "encoder offset",
            f"the zero of {log.named(self.joints)} is off by {np.rad2deg(-self._shift):.3g}°",
            "shift it",
            {"map": log.line("q", "offset", self._shift, 0.0, self.joints)},
        )


@dataclass(frozen=True)
class TorqueGain(CorrectionStep):
    """Scale factors of joints' torques."""

    called = "tau gain"
    is_factor = True
    is_continuous = True
    values: tuple[float, ...] = ()  # factor of each of its joints
    untold: tuple[int, ...] = ()  # those that the motion hardly tells: no map is stated

    @property
    def told(self) -> tuple[int, ...]:
        """Those of its joints whose factor the motion tells."""
        return tuple(j for j in self.joints if j not in self.untold)

    @property
    def number(self) -> float:
        """Its factor, if it is of one joint."""
        return self.values[0] if len(self.values) == 1 else 0.0

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        scale = np.ones(len(to.tau_source))
        scale[list(self.joints)] = self.values
        return to.torques(scale=[float(x) for x in scale])

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether one of its factors is beyond what good logs show."""
        return bool(np.max(np.abs(np.log(self.values)), initial=0.0) > least.log_gain)

    def of_all(self, unit: float, count: int) -> Self:
        """Return the step with a factor of all torques, of `count` joints, in it."""
        values = np.full(count, unit)
        values[list(self.joints)] *= self.values
        return replace(self, joints=tuple(range(count)), values=tuple(values.tolist()))

    def unbound(self) -> Self | None:
        """Return one joint's gain with a torque so small that the bodies do not constrain it."""
        if len(self.joints) != 1:  # of none where a search let all go
            return None
        # a hundredth of a gain: the joint's torque is no matter of the bodies' size any more
        return replace(self, values=(0.01 * self.values[0],))

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        by_joint = dict(zip(self.joints, self.values, strict=True))
        factors = ", ".join(f"'{log.joints[j]}' {1.0 / by_joint[j]:.4g}" for j in self.told)
        untold = f" (this motion hardly tells that of {log.about(self.untold)})"
        return Description(
            "wrong torque gain",
            f"the torque {factors} times too large{untold if self.untold else ''}",
            "look at gear ratios, gains and units: are they currents, or per mille of what drives "
            "are rated?"
            if len(by_joint) > 1
            else "look at its gear ratio, gain and unit",
            {} if self.untold else {"map": log.lines(log.effort, "scale", by_joint, 1.0)},
        )


@dataclass(frozen=True)
class Gravity(CorrectionStep):
    """Direction of gravity in the base's frame, or its compensation in the logged torque."""

    called = "gravity"
    # gravity in the base's frame [m/s²]; zero if the torque contains none
    vector: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return replace(to, gravity=self.vector)

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        """Return whether the base is tilted by enough."""
        return self.angle(before) >= least.tilt_rad

    def angle(self, base: Correction) -> float:
        """Return the angle between its gravity and a correction's; π if one is zero [rad]."""
        a, b = np.array(self.vector), np.array(base.gravity)
        if not a.any() or not b.any():
            return float(np.pi)
        cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        return float(np.arccos(np.clip(cosine, -1.0, 1.0)))

    def share_of(self, other: CorrectionStep, base: Correction) -> float:
        """Return the component of its tilt along another tilt, over the size of that."""
        assert isinstance(other, Gravity)
        plain = np.array(base.gravity)
        own, tilt = np.array(self.vector) - plain, np.array(other.vector) - plain
        return float(own @ tilt / (tilt @ tilt))

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return the further direction, which replaces this one; zero gravity has none."""
        if not isinstance(further, Gravity) or not any(self.vector):
            return None
        return replace(self, vector=further.vector)

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        if not any(self.vector):
            return Description(
                "no gravity",
                "the torque holds nothing of gravity",
                "log the motors' torque before gravity is taken out, or say that there is none",
                {"options": "gravity = [0.0, 0.0, 0.0]"},
            )
        a, b = np.array(self.vector), log.gravity
        size = max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12)
        tilt = float(np.rad2deg(np.arccos(np.clip(a @ b / size, -1.0, 1.0))))
        return Description(
            "tilted mounting",
            f"the base is mounted {tilt:.3g}° off what gravity says",
            "state gravity",
            {"options": f"gravity = {[round(x, 4) + 0.0 for x in self.vector]}"},
        )


@dataclass(frozen=True)
class CompensatedFriction(CorrectionStep):
    """Overcompensated friction of one drive or all, by torque that is not logged."""

    called = "driven"

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        joints = self.joints or range(len(to.q_source))
        return replace(to, driven=tuple(sorted({*to.driven, *joints})))

    def describe(self, log: Context) -> Description:
        """Return its description for the user."""
        return Description(
            "friction that drives",
            f"the friction of {log.named(self.joints)} pushes along the motion",
            "the drive compensates friction: log what it adds for that, or turn it off",
            {},
        )


def steps_between(
    start: Correction, correction: Correction, unit_of_torque: float = 1.0
) -> tuple[CorrectionStep, ...]:
    """Decompose a correction, less a unit of all torques, relative to another, into steps.

    Swaps come first, then units, signs, factors and offsets, then gains, gravity and friction.
    """
    steps: list[CorrectionStep] = []
    q, tau = list(correction.q_source), list(correction.tau_source)
    steps += [Swap(pair, "both" if q == tau else "q") for pair in _swaps(q)]
    steps += [Swap(pair, "tau") for pair in _swaps(tau) if q != tau]
    scale, gain = np.array(correction.q_scale), np.array(correction.tau_scale) / unit_of_torque
    units = (DEGREE, TURN, 1.0 / DEGREE)
    unit = next((u for u in units if np.sum(np.abs(scale) == u) > len(scale) / 2), None)
    if unit is not None:
        steps.append(PositionUnit((), unit))
        scale = scale / unit
    columns: tuple[tuple[Columns, Array], ...] = (("q", scale), ("tau", gain))
    for of, values in columns:  # of all joints it is one
        if len(values) > 1 and np.all(values < 0.0):
            steps.append(SignFlip((), of))
            values *= -1.0
    for j, offset in enumerate(correction.q_offset):
        steps += _steps_of_a_joint(j, float(scale[j]), gain[j] < 0.0, offset)
    size = np.abs(gain)
    off = tuple(int(j) for j in np.flatnonzero(~np.isclose(size, 1.0)))
    if off:
        steps.append(TorqueGain(off, tuple(float(size[j]) for j in off)))
    if correction.gravity != start.gravity:
        steps.append(Gravity((), correction.gravity))
    driven = [j for j in correction.driven if j not in start.driven]
    alike = len(q) > 1 and len(driven) == len(q)
    steps += [CompensatedFriction(joints) for joints in ([()] if alike else [(j,) for j in driven])]
    return tuple(steps)


def _steps_of_a_joint(
    j: int, scale: float, is_reversed: bool, offset: float
) -> Iterator[CorrectionStep]:
    flipped = scale < 0.0, is_reversed
    if any(flipped):
        yield SignFlip((j,), "both" if all(flipped) else "q" if flipped[0] else "tau")
    if not np.isclose(abs(scale), 1.0):
        yield PositionScale((j,), abs(scale))
    if offset != 0.0:
        yield PositionOffset((j,), offset)


def _swaps(source: list[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs whose swaps, one after another, make the order `source`."""
    order = list(range(len(source)))
    for j, wanted in enumerate(source):
        k = order.index(wanted)
        if k != j:
            yield (j, k)
            order[j], order[k] = order[k], order[j]
