"""Limits of links by their collision shapes: `ellipsoid = "shape"`, `hull = "shape"`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np

from heft.errors import InvalidSetting

from .hulls import hull_planes
from .options import SHAPE, LinkOptions
from .robot import Robot
from .shapes import Surface, shapes_of

LEAST = 1e-3  # half an axis of what is flat [m]
CURES = {
    "ellipsoid": "state its extent: [[least, most] of x, of y, of z] in metres",
    "hull": "state planes [[x, y, z, most], …] about it, in metres",
}


def bounding_extent(surface: Surface) -> tuple[tuple[float, float], ...]:
    """Return least and largest x, y and z of an ellipsoid that contains a surface [m].

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
    """Return the robot with limits that say `shape` replaced by those of its collision shapes.

    Where `com_in_hull` is said, links without a shape are left alone, and noted.

    Args:
        robot: Its model file; `[motion]` of its options says where packages lie.
        folder: That of the model file, in which meshes are looked for.

    Raises:
        InvalidSetting: If a link's collision shapes are asked for and not known.
    """
    limits = dict(robot.options.limits or {})
    asked = [n for n, entry in limits.items() if SHAPE in (entry.ellipsoid, entry.hull)]
    if not asked and not robot.options.com_in_hull:
        return robot
    shapes, notes = shapes_of(robot, folder, robot.options.motion.packages)
    for name in asked:
        if not shapes.get(name):
            key = "ellipsoid" if limits[name].ellipsoid == SHAPE else "hull"
            raise InvalidSetting(
                f"no collision shape of link '{name}' is known",
                argument=f"[limits.{name}], {key}",
                got="; ".join(notes) or None,
                cure=CURES[key],
            )
        limits[name] = _resolved(limits[name], reduce(Surface.with_that, shapes[name]))
    told: tuple[str, ...] = ()
    if robot.options.com_in_hull:
        moving = [k.name for k in robot.bodies_links]
        for name in (n for n in moving if shapes.get(n)):
            entry = limits.get(name, LinkOptions())
            if entry.hull is None:
                hull = hull_planes(reduce(Surface.with_that, shapes[name]))
                limits[name] = replace(entry, hull=hull)
        bare = [n for n in moving if limits.get(n, LinkOptions()).hull is None]
        told = (*_without_shapes(bare), *notes)
    options = replace(robot.options, limits=limits)
    return replace(robot, options=options, notes=(*robot.notes, *told))


def _resolved(entry: LinkOptions, surface: Surface) -> LinkOptions:
    if entry.ellipsoid == SHAPE:
        entry = replace(entry, ellipsoid=bounding_extent(surface))
    if entry.hull == SHAPE:
        entry = replace(entry, hull=hull_planes(surface))
    return entry


def _without_shapes(links: Sequence[str]) -> tuple[str, ...]:
    if not links:
        return ()
    several = f"{', '.join(links[:4])}{f' and {len(links) - 4} more' if len(links) > 4 else ''}"
    return (f"centres of mass are not bounded where no collision shape is known: {several}",)
