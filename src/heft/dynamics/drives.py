"""Drives: what turns, rubs and is biased, and the terms its effort is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from heft.arrays import Array

# What friction of real arms is made of; see `friction`. Coefficients are not negative, so that
# sums of a few fixed scales stand for any monotone course between them: one convex problem.
# A third apart: at twice that, a scale in between leaves errors that repeat with the motion,
# which no residual's memory tells from the bodies' torque.
SIGMOID_SPEEDS = (
    *(0.003, 0.0055, 0.01, 0.013, 0.018, 0.023, 0.031, 0.041, 0.055),
    *(0.073, 0.097, 0.13, 0.17, 0.225, 0.3),
)  # [rad/s]
STOP_WIDTHS = (
    *(0.003, 0.004, 0.0054, 0.0072, 0.0096, 0.013, 0.017),
    *(0.023, 0.031, 0.041, 0.055, 0.074, 0.1),
)  # [rad]
LOAD_SPEED = 0.02  # [rad/s]
LINEAR_SCALE = 0.1  # [m/rad], of sliding joints' speeds and widths
KINDS = ("armature", "viscous", "coulomb", "sigmoid", "stop", "load", "offset")


@dataclass(frozen=True)
class Term:
    """One term of a drive's effort; `friction` says what it is a function of.

    Attributes:
        kind: `armature`, `viscous`, `coulomb`, `sigmoid`, `stop`, `load` or `offset`.
        scale: Speed of a sigmoid or load [rad/s or m/s], width of a stop [rad or m].
    """

    kind: str
    scale: float | None = None

    @property
    def name(self) -> str:
        """How it is called: `viscous`, `sigmoid[0.03]`."""
        return self.kind if self.scale is None else f"{self.kind}[{self.scale:g}]"


def _dictionary(scale: float) -> tuple[Term, ...]:
    return (
        Term("viscous"),
        *(Term("sigmoid", scale * s) for s in SIGMOID_SPEEDS),
        *(Term("stop", scale * w) for w in STOP_WIDTHS),
        Term("load", scale * LOAD_SPEED),
        Term("offset"),
    )


FRICTION: dict[str, Callable[[float], tuple[Term, ...]]] = {
    "none": lambda _: (),
    "simple": lambda _: (Term("viscous"), Term("coulomb"), Term("offset")),
    "full": _dictionary,
}


@dataclass(frozen=True)
class Drive:
    """What turns, rubs and is biased: a joint, or a motor coupled to several joints.

    Attributes:
        name: Of the joint or motor.
        ratio: Its speed per speed of each channel, shape (channels,); the torque it takes
            acts on the channels by the same numbers (virtual work).
        terms: What its effort is made of.
        simpler: Terms that stand in for the dictionary where only viscous friction, Coulomb
            friction and an offset are wanted, as in a URDF.
        linear: Whether its speed is in m/s, not rad/s.
    """

    name: str
    ratio: Array
    terms: tuple[Term, ...]
    linear: bool
    simpler: tuple[Term, ...] = ()

    def unit(self, term: Term) -> str:
        """Return the unit of one of its terms."""
        effort, position = ("N", "m") if self.linear else ("N·m", "rad")
        units = {
            "armature": "kg" if self.linear else "kg·m²",
            "viscous": f"{effort}·s/{position}",
            "load": "1",
        }
        return units.get(term.kind, effort)


class HasDrives(Protocol):
    """Whose drives' columns are made: a robot."""

    @property
    def drives(self) -> tuple[Drive, ...]:
        """Joints and coupled motors."""
        ...

    @property
    def drive_columns(self) -> tuple[tuple[int, Term], ...]:
        """Columns of their terms."""
        ...

    @property
    def simpler_columns(self) -> tuple[tuple[int, Term], ...]:
        """Columns of terms that stand in for the dictionary."""
        ...


def by_kind(columns: list[tuple[int, Term]]) -> tuple[tuple[int, Term], ...]:
    """Return columns sorted by the kind of their term, its scale, and their drive."""
    return tuple(sorted(columns, key=lambda c: (KINDS.index(c[1].kind), c[1].scale or 0.0, c[0])))
