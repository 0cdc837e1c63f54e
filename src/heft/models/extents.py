"""Ellipsoids about links' collision shapes, for limits that say `ellipsoid = "shape"`."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np

from heft.errors import InvalidSetting

from .options import SHAPE
from .robot import Robot
from .shapes import Surface, shapes_of

LEAST = 1e-3  # half an axis of what is flat [m]


def bounding_extent(surface: Surface) -> tuple[tuple[float, float], ...]:
    """Return least and most of x, y and z of an ellipsoid that contains a surface [m].

    The box about it, as many times as wide as it takes: √3 for a box, √2 for an upright cylinder, 1
    for a ball.

    Args:
        surface: In the link's frame.
    """
    points, radii = surface.corners()
    low, high = (points - radii[:, None]).min(axis=0), (points + radii[:, None]).max(axis=0)
    centre, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), LEAST)
    reach = np.linalg.norm((points - centre) / half, axis=1) + radii / half.min()
    half = half * reach.max()
    ends = zip((centre - half).tolist(), (centre + half).tolist(), strict=True)
    return tuple(ends)


def with_shapes(robot: Robot, folder: Path) -> Robot:
    """Return the robot with `ellipsoid = "shape"` of its limits replaced by extents.

    Args:
        robot: Its model file; `[motion]` of its options says where packages lie.
        folder: That of the model file, in which meshes are looked for.

    Raises:
        InvalidSetting: If a link's collision shapes are not known.
    """
    limits = robot.options.limits or {}
    asked = [name for name, entry in limits.items() if entry.ellipsoid == SHAPE]
    if not asked:
        return robot
    shapes, notes = shapes_of(robot, folder, robot.options.motion.packages)
    changed = dict(limits)
    for name in asked:
        if not shapes.get(name):
            raise InvalidSetting(
                f"no collision shape of link '{name}' is known",
                argument=f"[limits.{name}], ellipsoid",
                got="; ".join(notes) or None,
                cure="state its extent: [[least, most] of x, of y, of z] in metres",
            )
        extent = bounding_extent(reduce(Surface.with_that, shapes[name]))
        changed[name] = replace(limits[name], ellipsoid=extent)
    return replace(robot, options=replace(robot.options, limits=changed))
