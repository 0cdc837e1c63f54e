"""Proof that two links cannot touch, whatever the posture: by their convex hulls or surfaces.

Capsules of links a joint or two apart often overlap where the links never do, and a planner that
keeps the capsules apart gives away postures for nothing. How such links lie to one another depends
on the joints between them alone. Their range is cut into boxes, until in each the distance of the
links at its middle is more than the links can move within it; so the proof is one for all postures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, REVOLUTE, Tree, body_poses
from heft.errors import optional_library

from .motion_options import MotionLimits

PROOF = "the proof that two links never touch"


def load_coal(what: str) -> ModuleType:
    """Return the module coal, an optional dependency, for `what` a message says needs it.

    Raises:
        InvalidSetting: If it is not installed.
    """
    message = f"{what} takes the library 'coal', which is not installed"
    return optional_library("coal", message, "collisions")


@dataclass(frozen=True, eq=False)
class LinkShape:
    """Shape of a link, thickened by a radius on all sides."""

    body: int  # index of its body, −1 for the world
    points: Array  # corners of its convex hull, in the body's frame, shape (n, 3) [m]
    triangles: Array  # its surface, shape (k, 3, 3) [m]; none where the hull is all that is known
    radius: float  # what all is thicker by [m]

    def shells(self) -> list[LinkShape]:
        """Return the surface in parts by distance from the body's origin: near parts move less."""
        if not len(self.triangles):
            return []
        far = np.linalg.norm(self.triangles, axis=2).max(axis=1)
        # The surface is parted at these shares of the link's reach.
        edges = [0.0, *(far.max() * np.array((0.25, 0.5))), np.inf]
        parts = [self.triangles[(far > a) & (far <= b)] for a, b in pairwise(edges)]
        return [
            LinkShape(self.body, part.reshape(-1, 3), part, self.radius)
            for part in parts
            if len(part)
        ]

    @property
    def is_capsule(self) -> bool:
        """Whether the shape itself is a capsule or a ball."""
        return len(self.points) <= 2

    @property
    def extent(self) -> float:
        """Largest distance of a point from the body's origin [m]."""
        return float(np.linalg.norm(self.points, axis=1).max()) + self.radius


def cannot_touch(tree: Tree, first: LinkShape, second: LinkShape, limits: MotionLimits) -> bool:
    """Return whether it is proven that two links never touch within the joints' limits.

    The tree's base is fixed; limits are in the order of the channels.
    """
    free = (_reach(tree, first, second, limits) > 0.0) & ~limits.held
    if np.count_nonzero(free) > 2:  # joints between the two links
        return False
    gap = 1e-4  # distance that stays at all postures [m], above the distances' tolerance
    # Boxes of postures that are looked at before a proof is given up, by hulls and by surfaces,
    # each of which costs a hundred times as much.
    few, many = 3_000, 20_000
    middle = (limits.lower + limits.upper) / 2.0
    half = (limits.upper - limits.lower) / 2.0 * free
    for b in np.flatnonzero(tree.kind == REVOLUTE):
        c = int(tree.channel[b])
        if np.count_nonzero(tree.channel == c) == 1:  # more than a turn shows nothing new
            half[c] = min(half[c], math.pi)

    def separate(
        a: LinkShape, b: LinkShape, make: Callable[[LinkShape], object], most: int
    ) -> bool:
        """Return whether two shapes are proven apart, in `most` boxes of postures at most."""
        reach, distances = _reach(tree, a, b, limits), _distances(tree, a, b, make)
        boxes, sizes = middle[None], half[None]
        looked = 0
        while len(boxes):
            looked += len(boxes)
            if looked > most:
                return False
            distance = distances(boxes)
            if distance.min() <= gap:
                return False
            near = distance - sizes @ reach <= gap
            boxes, sizes = _halved(boxes[near], sizes[near], reach)
        return True

    if separate(first, second, _convex, many):
        return True
    pairs = [(a, b) for a in first.shells() for b in second.shells()]
    return bool(pairs) and all(
        separate(a, b, _convex, many) or separate(a, b, _surface, few) for a, b in pairs
    )


def _halved(middle: Array, half: Array, reach: Array) -> tuple[Array, Array]:
    """Return boxes halved along the joint that moves the links most."""
    rows = np.arange(len(middle))
    widest = np.argmax(half * reach, axis=1)
    half = half.copy()
    half[rows, widest] /= 2.0
    shift = np.zeros_like(half)
    shift[rows, widest] = half[rows, widest]
    return np.concatenate([middle - shift, middle + shift]), np.concatenate([half, half])


def _reach(tree: Tree, first: LinkShape, second: LinkShape, limits: MotionLimits) -> Array:
    """Return a bound on the links' relative speed per speed of each channel [m/rad or 1]."""
    largest = np.maximum(np.abs(limits.lower), np.abs(limits.upper))
    return approach(
        tree, *(carried_reach(tree, h.body, h.extent, largest) for h in (first, second))
    )


def approach(tree: Tree, first: Mapping[int, float], second: Mapping[int, float]) -> Array:
    """Return how fast two shapes can approach per speed of each channel, shape (d,) [m/rad or 1].

    Args:
        first: Reach of the one from each joint that carries it, as `carried_reach` returns it.
        second: Reach of the other; none of what stands still.
    """
    reach = np.zeros(tree.channels)
    for body in first.keys() ^ second.keys():  # what carries both moves both alike
        speed = abs(float(tree.multiplier[body])) * {**first, **second}[body]
        reach[int(tree.channel[body])] += speed
    return reach


def carried_reach(tree: Tree, body: int, extent: float, largest: Array) -> dict[int, float]:
    """Return the largest distance of a shape's points from each joint that carries it [m].

    By body that the joint moves; 1 for a joint that slides: a point's speed is at most this times
    the joint's.

    Args:
        extent: Largest distance of the shape's points from the body's origin [m].
        largest: Largest size of each channel's position, shape (d,) [rad or m].
    """
    reach: dict[int, float] = {}
    far = extent
    while body >= 0:
        slides = tree.kind[body] == PRISMATIC
        reach[body] = 1.0 if slides else far
        far += float(np.linalg.norm(tree.translation[body]))
        if slides:
            stroke = abs(float(tree.multiplier[body])) * float(largest[int(tree.channel[body])])
            far += stroke + abs(float(tree.offset[body]))
        body = int(tree.parent[body])
    return reach


def _distances(
    tree: Tree, first: LinkShape, second: LinkShape, make: Callable[[LinkShape], object]
) -> Callable[[Array], Array]:
    """Return the function from N postures to the distances of two links, shape (N,) [m]."""
    coal = load_coal(PROOF)
    one, two = make(first), make(second)
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    places = coal.Transform3s(), coal.Transform3s()

    def at(q: Array) -> Array:
        world = np.broadcast_to(np.eye(4), (len(q), 1, 4, 4))
        poses = np.concatenate([body_poses(tree, q), world], axis=1)  # the last is the world's
        distances = np.empty(len(q))
        for n in range(len(q)):
            for place, body in zip(places, (first.body, second.body), strict=True):
                place.setRotation(poses[n, body, :3, :3])
                place.setTranslation(poses[n, body, :3, 3])
            result.clear()
            distances[n] = coal.distance(one, places[0], two, places[1], request, result)
        return distances - first.radius - second.radius

    return at


def _convex(shape: LinkShape) -> object:
    """Return coal's convex hull of a link, a tenth of a millimetre thicker where that is flat."""
    coal = load_coal(PROOF)
    points = shape.points
    if np.linalg.matrix_rank(points - points.mean(axis=0), tol=1e-6) < 3:
        signs = np.array(np.meshgrid(*[[-1e-4, 1e-4]] * 3)).reshape(3, -1).T
        points = (points[:, None] + signs).reshape(-1, 3)
    corners = coal.StdVec_Vec3s()
    corners.extend(list(points))
    return coal.Convex.convexHull(corners, True, "Qt")


def _surface(shape: LinkShape) -> object:
    """Return coal's bounding-volume hierarchy of a link's triangles."""
    coal = load_coal(PROOF)
    model = coal.BVHModelOBBRSS()
    model.beginModel(len(shape.triangles), 3 * len(shape.triangles))
    for a, b, c in shape.triangles:
        model.addTriangle(a, b, c)
    model.endModel()
    return model
