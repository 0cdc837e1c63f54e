"""Limits of links by their collision shapes: `ellipsoid = "shape"`, `hull = "shape"`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting

from .options import SHAPE, LinkOptions
from .robot import Robot
from .shapes import Surface, shapes_of

LEAST = 1e-3  # half an axis of what is flat [m]
MOST_PLANES = 64  # a link; conic problems take an unknown for each
SAME_NORMAL = 1e-9  # 1 − cos of the angle below which two triangles are of one plane
CURES = {
    "ellipsoid": "state its extent: [[least, most] of x, of y, of z] in metres",
    "hull": "state planes [[x, y, z, most], …] about it, in metres",
}

Plane = tuple[float, float, float, float]


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


def hull_planes(surface: Surface, most: int = MOST_PLANES) -> tuple[Plane, ...]:
    """Return planes `[x, y, z, most]` about a surface: `x, y, z` outward, `(x, y, z)·p ≤ most`.

    They are those of its convex hull where these are few, else a choice among them that is spread
    over all directions; round shapes get planes that touch them. So the body between them contains
    the hull: a centre of mass that is inside the shapes is never cut off.

    Args:
        surface: In the link's frame.
        most: How many planes at most, 6 or more.
    """
    points, radii = surface.corners()
    normals = np.concatenate([np.eye(3), -np.eye(3), _facets(points)])
    if radii.any():
        normals = np.concatenate([normals, _everywhere(most)])
    chosen = _spread(normals, most)
    reach = (points @ chosen.T + radii[:, None]).max(axis=0)
    return tuple((*n, h) for n, h in zip(chosen.tolist(), reach.tolist(), strict=True))


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


def _facets(points: Array) -> Array:
    """Return the normals of the convex hull's planes, shape (n, 3); none if points are flat."""
    from scipy.spatial import ConvexHull, QhullError

    with suppress(QhullError, ValueError):
        return np.asarray(ConvexHull(points).equations[:, :3])
    return np.zeros((0, 3))


def _everywhere(count: int) -> Array:
    """Return directions spread evenly, shape (count, 3): Fibonacci's lattice on the sphere."""
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    across = np.sqrt(1.0 - z**2)
    return np.column_stack([across * np.cos(turn), across * np.sin(turn), z])


def _spread(normals: Array, most: int) -> Array:
    """Return at most `most` normals by farthest-point sampling, the first six always kept."""
    chosen = list(range(6))
    nearest = (normals @ normals[:6].T).max(axis=1)
    while len(chosen) < min(most, len(normals)):
        k = int(np.argmin(nearest))
        if nearest[k] > 1.0 - SAME_NORMAL:
            break
        chosen.append(k)
        nearest = np.maximum(nearest, normals @ normals[k])
    return np.asarray(normals[chosen])
