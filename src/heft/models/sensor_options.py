"""Wrench sensors inside a robot: `[sensor.NAME]` of the TOML of `--with`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from heft.errors import InvalidSetting
from heft.files import Section, Text, list_of, number, rotation_rows, truth

REPORTS = ("on_load", "on_sensor")
BIASES = ("estimate", "none")
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class SensorOptions:
    """A six-axis force/torque sensor between a link and the one before it.

    What is beyond it (the link, what is fixed to it, and all that hangs on these) is moved by the
    wrench that it measures, and by the contacts there.
    """

    link: str  # the first link beyond it
    # its signals are `force.FRAME.x` … and `torque.FRAME.x` …; its own name if not given
    frame: str = ""
    # origin of its frame, in the link's frame [m]
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # from its axes to the link's, three rows
    rotation: Rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    # `on_load`, the wrench on what is beyond; `on_sensor`, the opposite
    reports: Literal["on_load", "on_sensor"] = "on_load"
    # `estimate`, a constant wrench that it adds, the same in all logs; `none`
    bias: Literal["estimate", "none"] = "estimate"
    # whether the logs hold its wrench. The bodies that it sits between stay apart where they do
    # not, so that what it told in other logs adds
    measured: bool = True


def _link(value: object, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidSetting(
        "a wrench sensor sits before a link",
        argument=where,
        cure='name the first link beyond it: link = "l_upper_leg"',
    )


SENSOR = Section(
    SensorOptions,
    {
        "link": _link,
        "frame": Text("the name of a frame is expected"),
        "position": list_of(number, 3),
        "rotation": rotation_rows,
        "reports": Text("a sensor reports neither the wrench on the load nor on itself", REPORTS),
        "bias": Text("a sensor's bias is neither estimated nor none", BIASES),
        "measured": truth,
    },
    required=("link",),
)
