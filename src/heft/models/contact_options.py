"""Contacts of a floating base with the world: `[contact.NAME]` of the TOML of `--with`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heft.errors import InvalidSetting
from heft.files import Number, Section, Text, list_of, number

KINDS = ("surface", "point")
WRENCHES = ("unknown", "measured")
CLOSED = ("always", "logged", "detected")


@dataclass(frozen=True)
class ContactOptions:
    """A contact of a link with the world."""

    link: str  # the link that is touched
    # `surface`, which bears force and moment; `point`, which bears force alone
    kind: Literal["surface", "point"] = "surface"
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of the contact, in the link's frame [m]
    # `unknown`, or `measured`: logged as `force.NAME.x` … and, of a surface, `torque.NAME.x` …,
    # what acts on the link, in its axes, about the point
    wrench: Literal["unknown", "measured"] = "unknown"
    # when an unknown wrench may act: `always`, where `contact.NAME` of the log is more than one
    # half (`logged`), or where the link rests at the height of the lowest of all contacts
    # (`detected`). What is measured counts always
    closed: Literal["always", "logged", "detected"] = "always"
    # of a detected contact, the largest velocity of its point [m/s]. Generous, as the next: a foot
    # that rolls or slides bears a wrench, too, and what is taken for closed and is not costs what
    # its sample tells, no more
    speed: float = 0.3
    turning: float = 2.0  # of a detected surface, the largest angular velocity [rad/s]
    # of a detected contact, its largest height above the lowest of all contacts [m]
    height: float = 0.02

    @property
    def components(self) -> int:
        """How many components of a wrench it bears: 6 or 3."""
        return 6 if self.kind == "surface" else 3


def _link(value: object, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidSetting(
        "a contact is one of a link", argument=where, cure='name it: link = "left_foot"'
    )


_positive = Number("a limit of a contact that is detected is a positive number", above=0.0)
CONTACT = Section(
    ContactOptions,
    {
        "link": _link,
        "kind": Text("a contact is neither a surface nor a point", KINDS),
        "point": list_of(number, 3),
        "wrench": Text("a contact's wrench is neither unknown nor measured", WRENCHES),
        "closed": Text("when a contact is closed is not known here", CLOSED),
        "speed": _positive,
        "turning": _positive,
        "height": _positive,
    },
    required=("link",),
)
