"""The columns of friction and drives: what turns, rubs and is biased.

A drive of speed `w = r·v` and acceleration `ẇ` takes the effort

    armature · ẇ + viscous · w + coulomb · sign(w) + offset

which acts on the channels by the same ratios r (virtual work). A joint is a drive of its own;
a motor coupled to several joints is one more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .inertia import Array
from .kernel import Scatter
from .robot import Robot

POSITIVE_TERMS = ("armature", "viscous", "coulomb")


def acts(robot: Robot) -> NDArray[np.int64]:
    """Return channel and column of each action of the drives' columns, shape (actions, 2)."""
    pairs = [
        (channel, column)
        for column, (d, _) in enumerate(robot.drive_columns)
        for channel in np.flatnonzero(robot.drives[d].ratio)
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def columns(robot: Robot, velocity: Array, acceleration: Array) -> Scatter:
    """Return the drives' columns at samples.

    Args:
        robot: Whose drives.
        velocity: Shape (channels, N) [rad/s or m/s].
        acceleration: Shape (channels, N) [rad/s² or m/s²].
    """
    count = velocity.shape[1]
    values = np.empty((len(robot.drive_columns), count))
    for column, (d, term) in enumerate(robot.drive_columns):
        ratio = robot.drives[d].ratio
        moved = np.flatnonzero(ratio)
        alone = len(moved) == 1 and ratio[moved[0]] == 1.0
        source = acceleration if term == "armature" else velocity
        speed = source[moved[0]] if alone else ratio[moved] @ source[moved]
        if term == "coulomb":
            np.sign(speed, out=values[column])
        elif term == "offset":
            values[column] = 1.0
        else:
            values[column] = speed
    actions = acts(robot)
    weights = np.array([robot.drives[robot.drive_columns[k][0]].ratio[c] for c, k in actions])
    return Scatter(values, actions, weights)


def effort(
    robot: Robot, values: Mapping[str, float], velocity: Array, acceleration: Array
) -> Array:
    """Return the drives' effort on each channel, shape (channels, N) [N·m or N].

    Args:
        robot: Whose drives.
        values: By name, such as `elbow.viscous`; what is missing counts as zero.
        velocity: Shape (channels, N) [rad/s or m/s].
        acceleration: Shape (channels, N) [rad/s² or m/s²].
    """
    scatter = columns(robot, velocity, acceleration)
    total = np.zeros_like(velocity)
    names = [f"{robot.drives[d].name}.{term}" for d, term in robot.drive_columns]
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        total[channel] += weight * values.get(names[column], 0.0) * scatter.values[column]
    return total
