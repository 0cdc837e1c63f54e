"""A load on a robot: columns beside the robot's own, of a body fixed to one of its links."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import PARAMETER_COUNT, SYMBOLS, UNITS, Labels, ParameterSpace, inertia
from heft.models import Robot

from .problem import Problem
from .robot import RobotPlant
from .robot_signals import effort_signals

NAME = "payload"
GUESS = (1.0, 0.1)  # mass [kg] and radius of gyration [m] that the cone's metric is measured at


def last_frame(robot: Robot) -> str:
    """Return the last link of the model file that moves with the last body: `tool0`, say."""
    moving = [k for k in robot.links if k.body >= 0]
    last = max(k.body for k in moving)
    return [k.name for k in moving if k.body == last][-1]


def currents(problem: Problem[RobotPlant]) -> dict[str, float]:
    """Return the gain in use of each joint whose torque is measured as a current [N·m/A]."""
    robot = problem.plant.robot
    return {
        robot.channels[channel]: gain
        for signal, channel, gain in effort_signals(robot, problem.recordings[0])
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


def load_columns(problem: Problem[RobotPlant], frame: str) -> Array:
    """Return K with `β = β_empty + K p`, shape (b, 10), of a load p; see `carrying`.

    Args:
        problem: The robot without the load.
    """
    body, stated = carrying(problem.plant.robot, frame)
    return problem.base.matrix[:, body] @ stated


def with_load(space: ParameterSpace) -> ParameterSpace:
    """Return the parameter space with a load without prior knowledge appended to the links."""
    first = PARAMETER_COUNT * len(space.groups)
    labels = space.labels
    names = (*labels.names[:first], *(f"{NAME}.{s}" for s in SYMBOLS), *labels.names[first:])
    units = (*labels.units[:first], *UNITS, *labels.units[first:])
    rows = len(space.matrix)
    links, drives = space.matrix[:, :first], space.matrix[:, first:]
    none = np.zeros((rows, PARAMETER_COUNT))
    matrix = np.vstack(
        [
            np.hstack([links, none, drives]),
            np.hstack(
                [
                    np.zeros((PARAMETER_COUNT, first)),
                    np.eye(PARAMETER_COUNT),
                    np.zeros((PARAMETER_COUNT, drives.shape[1])),
                ]
            ),
        ]
    )
    nominal = np.concatenate([space.nominal[:first], inertia.sphere(*GUESS), space.nominal[first:]])
    return ParameterSpace(
        Labels(names, units, labels.frame),
        matrix,
        nominal,
        (*space.groups, first),
        tuple(k + PARAMETER_COUNT for k in space.nonnegative),
    )
