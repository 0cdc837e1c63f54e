"""Planes about links' collision shapes, for limits that say `hull = "shape"`.

The planes are those of the shapes' convex hull where these are few, else a choice among them that
is spread over all directions; round shapes get planes that touch them. So the body between them
contains the hull: a centre of mass that is inside the shapes is never cut off.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from heft.arrays import Array

from .shapes import Surface

MOST_PLANES = 64  # a link; conic problems take an unknown for each
SAME_NORMAL = 1e-9  # 1 − cos of the angle below which two triangles are of one plane

Plane = tuple[float, float, float, float]


def hull_planes(surface: Surface, most: int = MOST_PLANES) -> tuple[Plane, ...]:
    """Return planes `[x, y, z, most]` about a surface: `x, y, z` outward, `(x, y, z)·p ≤ most`.

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
