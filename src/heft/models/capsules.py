"""Capsules that contain a robot's links: what distances are taken between.

A capsule is all that lies within a radius of a segment. That of least volume about the corners of
a shape is found by a search over the segment's ends, its radius then being the largest distance of
a corner: so it contains them all however good the search was, and, since a capsule is convex, their
convex hull. A mesh that is not found is told to the user, and the link gets its other shapes, or a
segment from joint to joint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.dynamics import Link
from heft.errors import InvalidSetting

from .link_shapes import LinkShape
from .robot import Robot
from .shapes import Surface, shapes_of


@dataclass(frozen=True, eq=False)
class Capsules:
    """Capsules, each rigidly part of a body of a robot or of the world.

    A link has one about all of it, and where several about its parts are much smaller, those too.
    """

    links: tuple[str, ...]  # name of the link that each belongs to, n of them
    whole: NDArray[np.bool_]  # whether each is about all of its link, shape (n,)
    body: NDArray[np.int64]  # index of the body, −1 for the world, shape (n,)
    # start, end: ends of the segment, in the body's frame, shape (n, 3) [m]
    start: Array
    end: Array
    radius: Array  # shape (n,) [m]
    shapes: tuple[LinkShape, ...]  # what is in each, n of them
    # shapes that were not found and what stands in for them, for the user
    notes: tuple[str, ...] = ()

    def parts(self, k: int) -> NDArray[np.intp]:
        """Return indices of the capsules of the parts of k's link; k if it is one or has none."""
        if not self.whole[k]:
            return np.array([k])
        same = [j for j, link in enumerate(self.links) if link == self.links[k]]
        parts = [j for j in same if not self.whole[j]]
        return np.array(parts or [k])

    @property
    def volume(self) -> Array:
        """Volume of each, shape (n,) [m³]."""
        return np.asarray(_volume(np.stack([self.start, self.end], axis=1), self.radius))


def fit_capsules(robot: Robot, folder: Path | None = None) -> Capsules:
    """Return capsules that contain the collision shapes of a robot's links.

    `[motion]` of its options says where packages lie, which tools it carries and how thick links
    are whose shape is not known. Meshes are looked for in the folder of the model file.

    Raises:
        InvalidSetting: If a tool is to be at a link that does not exist.
    """
    motion = robot.options.motion
    surfaces_of, notes = shapes_of(robot.form, robot.source, folder, motion.packages)
    entries: list[_Entry] = []
    for link in robot.links:
        surfaces = surfaces_of.get(link.name, [])
        if surfaces:
            fit_of_all = _Fit.of(reduce(Surface.with_that, surfaces))
            parts = fit_of_all.parts(2)  # times that parts are cut again
            for fit in [fit_of_all, *(parts if len(parts) > 1 else [])]:
                entries.append(_around(link, fit, fit is fit_of_all))
    bare = sorted(set(range(len(robot.tree.names))) - {shape.body for *_, shape in entries})
    for body in bare:
        for ends in _segments(robot, body):
            entries.append(_stand_in(robot.tree.names[body], body, ends, motion.radius))
    if bare:
        notes.append(
            f"no collision shape of {', '.join(robot.tree.names[b] for b in bare)} is known: "
            f"segments from joint to joint of {motion.radius:g} m radius stand in for it "
            "(radius in [motion] of --with)"
        )
    for tool in motion.tool:
        try:
            link = robot.link(tool.link)
        except InvalidSetting as problem:
            raise problem.retold(InvalidSetting, "[[motion.tool]], link") from None
        ends = np.array([tool.start, tool.end]) @ link.rotation.T + link.translation
        entries.append(_stand_in(f"tool of {tool.link}", link.body, ends, tool.radius))
    links, about_all, every_ends, radii, shapes = zip(*entries, strict=True)
    start, end = np.moveaxis(np.array(every_ends), 1, 0)
    return Capsules(
        links,
        np.array(about_all),
        np.array([shape.body for shape in shapes], dtype=np.int64),
        read_only(start),
        read_only(end),
        read_only(np.array(radii)),
        shapes,
        tuple(notes),
    )


# A link's name, whether it is about all of it, ends (2, 3) and radius [m], and what is inside.
_Entry: TypeAlias = tuple[str, bool, Array, float, LinkShape]


def _around(link: Link, fit: _Fit, is_all: bool) -> _Entry:
    ends = fit.ends @ link.rotation.T + link.translation
    surface = fit.surface.placed(link.rotation, link.translation)
    points, radii = surface.corners()
    # What is thicker everywhere than its thickest ball has no surface of triangles.
    surfaced = surface.triangles if radii.max() == 0.0 else surface.triangles[:0]
    shape = LinkShape(link.body, points, surfaced, float(radii.max()))
    return link.name, is_all, ends, fit.radius + 1e-7, shape  # [m], for the rounding of coordinates


def _stand_in(link: str, body: int, ends: Array, radius: float) -> _Entry:
    """Return a capsule that stands for a shape of which nothing finer is known."""
    return link, True, ends, radius, LinkShape(body, ends, np.zeros((0, 3, 3)), radius)


def _segments(robot: Robot, body: int) -> list[Array]:
    """Return segments from a body's joint to those that it carries, else to its centre of mass."""
    tree = robot.tree
    far = [tree.translation[b] for b in np.flatnonzero(tree.parent == body)]
    far = [x for x in far if np.linalg.norm(x) > 1e-3]
    if not far:
        ten = robot.nominal()[10 * body : 10 * body + 10]
        far = [ten[1:4] / ten[0] if ten[0] > 0.0 else np.zeros(3)]
    return [np.array([np.zeros(3), x]) for x in far]


@dataclass(frozen=True, eq=False)
class _Fit:
    """A capsule about a surface: its ends, shape (2, 3) [m], and its radius [m]."""

    surface: Surface
    ends: Array
    radius: float

    @staticmethod
    def of(surface: Surface) -> _Fit:
        points, radii = surface.corners()
        ends = least_capsule(points, radii)
        return _Fit(surface, ends, _radius(ends, points, radii))

    @property
    def volume(self) -> float:
        return float(_volume(self.ends, self.radius))

    def parts(self, depth: int) -> list[_Fit]:
        """Return capsules about the parts of the surface, itself where cutting it gains little."""
        if depth == 0 or self.radius < 0.03:  # [m]: not worth a cut
            return [self]
        points, _ = self.surface.corners()
        sketch = self.surface.some(2000)  # triangles compare places; the fit itself has them all
        best: tuple[float, Array, float] | None = None
        for axis in _axes(points):
            along = points @ axis
            for place in np.linspace(along.min(), along.max(), 7)[1:-1]:
                halves = sketch.cut(axis, float(place))
                if all(len(h.triangles) or len(h.balls) for h in halves):
                    rough = sum(_along_axis(*h.corners())[0] for h in halves)
                    if best is None or rough < best[0]:
                        best = rough, axis, float(place)
        if best is None:
            return [self]
        fits = [_Fit.of(half) for half in self.surface.cut(*best[1:])]
        if sum(f.volume for f in fits) > 1.2 * self.volume:  # chosen: what parts may be larger by
            return [self]
        return [part for f in fits for part in f.parts(depth - 1)]


def _axes(points: Array) -> Array:
    """Return the principal axes of points as rows, shape (3, 3), the longest first."""
    return np.asarray(np.linalg.eigh(np.cov(points.T, bias=True))[1].T[::-1])


def _along_axis(points: Array, radii: Array) -> tuple[float, Array]:
    """Return volume [m³] and ends [m] of the least capsule along a principal axis of points."""
    middle = (points.max(axis=0) + points.min(axis=0)) / 2.0
    candidates = []
    for axis in _axes(points):
        reach = (points - middle) @ axis
        across = points - middle - np.outer(reach, axis)
        thick = float(np.max(np.linalg.norm(across, axis=1) + radii))
        room = np.array([min(reach.min() + thick, 0.0), max(reach.max() - thick, 0.0)])
        ends = middle + np.outer(room, axis)
        candidates.append((_volume(ends, _radius(ends, points, radii)), ends))
    return min(candidates, key=lambda pair: pair[0])


def _volume(ends: Array, radius: Array | float) -> Any:
    """Return the volume of capsules of ends (…, 2, 3) and radius [m³]."""
    length = np.linalg.norm(ends[..., 1, :] - ends[..., 0, :], axis=-1)
    return math.pi * radius**2 * (length + 4.0 / 3.0 * radius)


def _radius(ends: Array, points: Array, radii: Array) -> float:
    """Return the least radius with which a segment's capsule contains balls about points [m]."""
    way = ends[1] - ends[0]
    square = float(way @ way)
    along = (points - ends[0]) @ way / square if square > 0.0 else np.zeros(len(points))
    foot = ends[0] + np.clip(along, 0.0, 1.0)[:, None] * way
    return float(np.max(np.linalg.norm(points - foot, axis=1) + radii))


def least_capsule(points: Array, radii: Array) -> Array:
    """Return the ends (2, 3) of the segment whose capsule about balls has the least volume [m].

    Nelder-Mead over the ends, from the best capsule along a principal axis of the points.

    Args:
        points: Centres of the balls, shape (n, 3) [m].
        radii: Their radii, zero for corners, shape (n,) [m].
    """
    from scipy.optimize import minimize

    if len(points) == 1:
        return np.array([points[0], points[0]])
    middle = (points.max(axis=0) + points.min(axis=0)) / 2.0
    size = float(np.linalg.norm(points - middle, axis=1).max() + radii.max())

    def cost(ends: Array) -> float:
        pair = middle + size * ends.reshape(2, 3)
        return float(_volume(pair, _radius(pair, points, radii))) / size**3

    start = (_along_axis(points, radii)[1] - middle).ravel() / size
    simplex = np.vstack([start, start + 0.1 * np.eye(6)])
    options = {"maxfev": 400, "fatol": 1e-7, "xatol": 1e-4, "initial_simplex": simplex}
    best = minimize(cost, start, method="Nelder-Mead", options=options)
    return np.asarray(middle + size * best.x.reshape(2, 3))
