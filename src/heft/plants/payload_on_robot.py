"""A load on a robot: columns beside the robot's own, of a body fixed to one of its links."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    BaseParameters,
    Labels,
    ParameterSpace,
    inertia,
)
from heft.models import Robot
from heft.recordings import Recording

from .robot_signals import effort_signals

NAME = "payload"
GUESS = (1.0, 0.1)  # mass [kg] and radius of gyration [m] that the cone's metric is measured at


def last_frame(robot: Robot) -> str:
    """Return the last link of the model file that moves with the last body: `tool0`, say."""
    moving = [k for k in robot.links if k.body >= 0]
    last = max(k.body for k in moving)
    return [k.name for k in moving if k.body == last][-1]


def currents(robot: Robot, recording: Recording) -> dict[str, float]:
    """Return the gain in use of each joint whose torque is measured as a current [N·m/A]."""
    return {
        robot.channels[channel]: gain
        for signal, channel, gain in effort_signals(robot, recording)
        if signal.startswith("current.")
    }


def carrying(robot: Robot, frame: str) -> tuple[slice, Array]:
    """Return the columns of a link's body, and the map from a load there to them, shape (10, 10).

    Args:
        frame: The link that the load is fixed to, in whose frame it is stated.

    Raises:
        InvalidSetting: If there is no such link, or it never moves.
    """
    link = next((k for k in robot.links if k.name == frame), None)
    if link is None or link.body < 0:
        raise InvalidSetting(
            f"nothing can be carried by '{frame}'" if link else f"there is no link '{frame}'",
            argument="frame",
            valid=[k.name for k in robot.links if k.body >= 0],
        )
    body = slice(PARAMETER_COUNT * link.body, PARAMETER_COUNT * (link.body + 1))
    return body, inertia.frame_change(link.rotation, link.translation)


def load_columns(robot: Robot, base: BaseParameters, frame: str) -> Array:
    """Return K with `β = β_empty + K p`, shape (b, 10), of a load p; see `carrying`.

    Args:
        base: Base parameters β of the robot without the load.
    """
    body, stated = carrying(robot, frame)
    return base.matrix[:, body] @ stated


def with_load(space: ParameterSpace) -> ParameterSpace:
    """Return the parameter space with a load without prior knowledge appended to the links."""
    first = PARAMETER_COUNT * len(space.groups)
    labels = space.labels
    names = (*labels.names[:first], *(f"{NAME}.{s}" for s in SYMBOLS), *labels.names[first:])
    units = (*labels.units[:first], *UNITS, *labels.units[first:])
    others = np.insert(space.matrix, [first] * PARAMETER_COUNT, 0.0, axis=1)
    load = np.eye(PARAMETER_COUNT, others.shape[1], first)
    nominal = np.concatenate([space.nominal[:first], inertia.sphere(*GUESS), space.nominal[first:]])
    return ParameterSpace(
        Labels(names, units, labels.frame),
        np.vstack([others, load]),
        nominal,
        (*space.groups, first),
        tuple(k + PARAMETER_COUNT for k in space.nonnegative),
        (*space.gyration, 0.0) if space.gyration else (),
    )
