"""Kinds of correction steps: one class for each error of a log's columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from heft.arrays import Array

from .corrections import (
    Columns,
    Correction,
    CorrectionStep,
    Description,
    ScalarStep,
    Told,
    toml_list,
)
from .settings import DEGREE, TURN, StepAcceptance

UNBOUND = 0.01  # of a gain, by which a joint's torque is no matter of the bodies' size any more
EFFORT_UNITS = {("tau", 1e-3): "mNm", ("tau", 1e3): "kNm", ("current", 1e-3): "mA"}


def _factors(step: CorrectionStep, factor: float, count: int) -> list[float]:
    every = step.joints or tuple(range(count))
    return [factor if j in every else 1.0 for j in range(count)]


def _scaled(step: CorrectionStep, of: Columns, factor: float, to: Correction) -> Correction:
    scale = _factors(step, factor, len(to.q_source))
    moved = to if of == "tau" else to.positions(scale=scale)
    return moved if of == "q" else moved.torques(scale=scale)


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

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        what = {"q": "position", "tau": "torque", "both": "position and torque"}[self.of]
        lines = (told.line(k, "sign", -1, 1, self.joints) for k in told.kinds(self.of))
        return Description(
            f"flipped {what}",
            f"the {what} of {told.named(self.joints)} has the other sign",
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

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        what = {"q": "positions", "tau": "torques", "both": "columns"}[self.of]
        order = toml_list(told.joints[k] for k in self._order(len(told.joints)))
        lines = (
            f"[{k}]\njoints = {order}  # of columns {toml_list(f'{k}.{j}' for j in told.joints)}"
            for k in told.kinds(self.of)
        )
        return Description(
            f"swapped {what}",
            f"the {what} of {told.named(self.joints)} are swapped",
            "name them in the other order",
            {"map": "\n".join(lines)},
        )


@dataclass(frozen=True)
class PositionUnit(ScalarStep):
    """Unit of all positions; `value` is its size [rad]."""

    is_continuous = False
    is_unit = True

    @property
    def kind(self) -> str:
        """`q unit`."""
        return "q unit"

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return _scaled(self, "q", self.value, to)

    def describe(self, told: Told) -> Description:
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
            {"map": told.line("q", "scale", self.value, 1.0, self.joints)},
        )


@dataclass(frozen=True)
class _Factor(ScalarStep):
    """Scale factor, searched on a logarithmic scale."""

    is_factor = True

    def moved(self, by: float) -> Self:
        return replace(self, value=self.value * float(np.exp(by)))

    def is_large(self, least: StepAcceptance, before: Correction) -> bool:
        return bool(abs(np.log(abs(self.value))) > least.log_factor or self.value < 0.0)


@dataclass(frozen=True)
class PositionScale(_Factor):
    """Scale factor of joints' positions, such as a gear ratio or a unit; `value` is the factor."""

    width = 0.1

    @property
    def kind(self) -> str:
        """`q scale`."""
        return "q scale"

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return _scaled(self, "q", self.value, to)

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        degrees = abs(self.value - DEGREE) < 1e-3 * np.pi
        return Description(
            "degrees for radians" if degrees else "wrong gear or unit of position",
            f"the position of {told.named(self.joints)} is {1.0 / self.value:.4g} times too large",
            "scale it; if it is a motor's, give the exact ratio",
            {"map": told.line("q", "scale", self.value, 1.0, self.joints)},
        )


@dataclass(frozen=True)
class PositionOffset(ScalarStep):
    """Zero offset of joints' encoders; `value` is added to the positions [rad or m]."""

    @property
    def kind(self) -> str:
        """`q offset`."""
        return "q offset"

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

    @property
    def is_expandable(self) -> bool:
        """Whether its parameter is refined by a first-order expansion of the residual."""
        return True

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return two offsets of the same joints as one."""
        if not isinstance(further, PositionOffset) or further.joints != self.joints:
            return None
        return self.moved(further.value)

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        return Description(
            "encoder offset",
            f"the zero of {told.named(self.joints)} is off by {np.rad2deg(-self._shift):.3g}°",
            "shift it",
            {"map": told.line("q", "offset", self._shift, 0.0, self.joints)},
        )


@dataclass(frozen=True)
class TorqueGain(_Factor):
    """Scale factor of joints' torques; `value` is the factor."""

    width = 0.35

    @property
    def kind(self) -> str:
        """`tau gain`."""
        return "tau gain"

    def unbound(self) -> Self:
        """Return the gain with a torque so small that the bodies do not constrain it."""
        return replace(self, value=UNBOUND * self.value)

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return _scaled(self, "tau", self.value, to)

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        return Description(
            "wrong torque gain",
            f"the torque of {told.named(self.joints)} is {1.0 / self.value:.4g} times too large",
            "look at its gear ratio, gain and unit",
            {"map": told.line(told.effort, "scale", self.value, 1.0, self.joints)},
        )


@dataclass(frozen=True)
class TorqueUnit(_Factor):
    """Unit of all torques; `value` is its size [N·m]."""

    is_continuous = False
    is_unit = True

    @property
    def kind(self) -> str:
        """`tau unit`."""
        return "tau unit"

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        return _scaled(self, "tau", self.value, to)

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        unit = EFFORT_UNITS.get((told.effort, self.value))
        scale = told.line(told.effort, "scale", self.value, 1.0, self.joints)
        return Description(
            "unit of torque",
            f"torques are {1.0 / self.value:.4g} times too large",
            "state the unit",
            {"map": f'[{told.effort}]\nunit = "{unit}"' if unit else scale},
        )


@dataclass(frozen=True)
class Gravity(CorrectionStep):
    """Direction of gravity in the base's frame, or its compensation in the logged torque."""

    # gravity in the base's frame [m/s²]; zero if the torque contains none
    vector: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def kind(self) -> str:
        """`gravity`."""
        return "gravity"

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

    @property
    def is_expandable(self) -> bool:
        """Whether it has a direction to refine; zero gravity has none."""
        return any(self.vector)

    def share_of(self, other: CorrectionStep, base: Correction) -> float:
        """Return the component of its tilt along another tilt, over the size of that."""
        assert isinstance(other, Gravity)
        plain = np.array(base.gravity)
        own, whole = np.array(self.vector) - plain, np.array(other.vector) - plain
        return float(own @ whole / (whole @ whole))

    def followed_by(self, further: CorrectionStep) -> Self | None:
        """Return the further direction, which replaces this one."""
        return replace(self, vector=further.vector) if isinstance(further, Gravity) else None

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        if not any(self.vector):
            return Description(
                "no gravity",
                "the torque holds nothing of gravity",
                "log the motors' torque before gravity is taken out, or say that there is none",
                {"options": "gravity = [0.0, 0.0, 0.0]"},
            )
        a, b = np.array(self.vector), told.gravity
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

    @property
    def kind(self) -> str:
        """`driven`."""
        return "driven"

    def apply(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        joints = self.joints or range(len(to.q_source))
        return replace(to, driven=tuple(sorted({*to.driven, *joints})))

    def is_seen(self, sliding: Array) -> bool:
        """Return whether the friction of most of its joints pushes along the motion.

        Args:
            sliding: Each drive's friction torque of slow sliding, shape (drives,) [N·m].
        """
        own = sliding[list(self.joints)] if self.joints else sliding
        return bool(np.median(own) < 0.0)

    def describe(self, told: Told) -> Description:
        """Return its description for the user."""
        return Description(
            "friction that drives",
            f"the friction of {told.named(self.joints)} pushes along the motion",
            "the drive compensates friction: log what it adds for that, or turn it off",
            {},
        )


def steps_between(
    start: Correction, correction: Correction, unit_log_gain: float
) -> tuple[CorrectionStep, ...]:
    """Decompose a correction, relative to another one, into elementary steps.

    Swaps come first, then units, signs, factors and offsets, then gravity and friction.

    Args:
        unit_log_gain: Logarithm of a common factor of all torques beyond which it is a unit.
    """
    found: list[CorrectionStep] = []
    q, tau = list(correction.q_source), list(correction.tau_source)
    if q == tau:
        found += [Swap(pair, "both") for pair in _swaps(q)]
    else:
        found += [Swap(pair, "q") for pair in _swaps(q)]
        found += [Swap(pair, "tau") for pair in _swaps(tau)]
    scale, gain = np.array(correction.q_scale), np.array(correction.tau_scale)
    known = (DEGREE, TURN, 1.0 / DEGREE)
    unit = next((u for u in known if np.sum(np.abs(scale) == u) > len(scale) / 2), None)
    if unit is not None:
        found.append(PositionUnit((), unit))
        scale = scale / unit
    if len(gain) > 1 and np.all(np.abs(np.log(np.abs(gain))) > unit_log_gain):
        common = float(np.exp(np.median(np.log(np.abs(gain)))))
        unit = next((u for u in (1e-3, 1e3) if abs(np.log(common / u)) < np.log(3.0)), common)
        found.append(TorqueUnit((), unit))
        gain = gain / unit
    for j, offset in enumerate(correction.q_offset):
        found += _steps_of_a_joint(j, float(scale[j]), float(gain[j]), offset)
    if correction.gravity != start.gravity:
        found.append(Gravity((), correction.gravity))
    driven = tuple(j for j in correction.driven if j not in start.driven)
    if driven:
        found += [CompensatedFriction(j) for j in _together(driven, len(q))]
    return tuple(found)


def _together(driven: tuple[int, ...], count: int) -> Iterator[tuple[int, ...]]:
    """Yield the empty tuple in place of all joints, or each joint by itself."""
    if count > 1 and len(driven) == count:
        yield ()
    else:
        yield from ((j,) for j in driven)


def _steps_of_a_joint(j: int, scale: float, gain: float, offset: float) -> Iterator[CorrectionStep]:
    flipped = scale < 0.0, gain < 0.0
    if any(flipped):
        yield SignFlip((j,), "both" if all(flipped) else "q" if flipped[0] else "tau")
    if not np.isclose(abs(scale), 1.0):
        yield PositionScale((j,), abs(scale))
    if not np.isclose(abs(gain), 1.0):
        yield TorqueGain((j,), abs(gain))
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
