"""Capsules that contain a robot's links: what distances are taken between.

A capsule is all that lies within a radius of a segment. That of least volume about the corners of
a shape is found by a search over the segment's ends, its radius then being the largest distance of
a corner: so it contains them all however good the search was, and, since a capsule is convex, their
convex hull. Meshes are read by coal, as pinocchio does; a mesh that is not found is told to the
user, and the link gets its other shapes, or a segment from joint to joint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.dynamics import Link
from heft.errors import InvalidSetting

from .robot import Robot
from .shapes import Corners, shapes_of


@dataclass(frozen=True, eq=False)
class Capsules:
    """Capsules, each rigidly part of a body of a robot or of the world.

    Attributes:
        links: Name of the link that each belongs to, n of them; a link may have several.
        body: Index of the body, −1 for the world, shape (n,).
        start, end: Ends of the segment, in the body's frame, shape (n, 3) [m].
        radius: Shape (n,) [m].
        notes: Shapes that were not found and what stands in for them, for the user.
    """

    links: tuple[str, ...]
    body: NDArray[np.int64]
    start: Array
    end: Array
    radius: Array
    notes: tuple[str, ...] = ()

    @property
    def volume(self) -> Array:
        """Volume of each, shape (n,) [m³]."""
        length = np.linalg.norm(self.end - self.start, axis=1)
        return np.asarray(math.pi * self.radius**2 * (length + 4.0 / 3.0 * self.radius))


@dataclass(frozen=True)
class CapsuleFitting:
    """Settings of the fit of capsules to links.

    Attributes:
        steps: Evaluations of the search for the least volume, from each of three starts.
        join: Two capsules of a link become one if that has at most this share of their volumes.
        slack: Added to each radius for the rounding of coordinates [m].
    """

    steps: int = 600
    join: float = 1.1
    slack: float = 1e-7


def fit_capsules(
    robot: Robot, folder: Path | None = None, fitting: CapsuleFitting = CapsuleFitting()
) -> Capsules:
    """Return capsules that contain the collision shapes of a robot's links.

    Args:
        robot: Its model file; `[motion]` of its options says where packages lie, which tools it
            carries and how thick links are whose shape is not known.
        folder: That of the model file, in which meshes are looked for.
        fitting: Settings of the fit.

    Raises:
        InvalidSetting: If a tool is to be at a link that does not exist.
    """
    motion = robot.options.motion
    found, notes = shapes_of(robot, folder, motion.packages)
    names: list[str] = []
    entries: list[tuple[int, Array]] = []
    for link in robot.links:
        fits = [_Fit.of(c, fitting) for c in found.get(link.name, ())]
        for fit in _joined(fits, fitting):
            placed = fit.ends @ link.rotation.T + link.translation
            names.append(link.name)
            entries.append((link.body, np.append(placed.ravel(), fit.radius + fitting.slack)))
    bare = sorted(set(range(len(robot.tree.names))) - {body for body, _ in entries})
    for body in bare:
        for segment in _segments(robot, body):
            names.append(robot.tree.names[body])
            entries.append((body, np.append(segment.ravel(), motion.radius)))
    if bare:
        notes.append(
            f"no collision shape of {', '.join(robot.tree.names[b] for b in bare)} is known: "
            f"segments from joint to joint of {motion.radius:g} m radius stand in for it "
            "(radius in [motion] of --with)"
        )
    for tool in motion.tool:
        link = _link(robot, tool.link)
        ends = np.array([tool.start, tool.end]) @ link.rotation.T + link.translation
        names.append(tool.link)
        entries.append((link.body, np.append(ends.ravel(), tool.radius)))
    numbers = np.array([numbers for _, numbers in entries]).reshape(-1, 7)
    return Capsules(
        links=tuple(names),
        body=np.array([body for body, _ in entries], dtype=np.int64),
        start=read_only(numbers[:, :3]),
        end=read_only(numbers[:, 3:6]),
        radius=read_only(numbers[:, 6]),
        notes=tuple(notes),
    )


def _link(robot: Robot, name: str) -> Link:
    try:
        return robot.link(name)
    except InvalidSetting as problem:
        raise problem.retold(InvalidSetting, "[[motion.tool]], link") from None


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
    """A capsule about corners: its ends, shape (2, 3) [m], and its radius [m]."""

    corners: Corners
    ends: Array
    radius: float

    @staticmethod
    def of(corners: Corners, fitting: CapsuleFitting) -> _Fit:
        """Return the capsule of least volume that the search finds about some corners."""
        hull = corners.hull()
        ends = least_capsule(hull.points, hull.radius, fitting.steps)
        return _Fit(corners, ends, _radius(ends, hull.points, hull.radius))

    @property
    def volume(self) -> float:
        return _volume(self.ends, self.radius)


def _joined(fits: list[_Fit], fitting: CapsuleFitting) -> list[_Fit]:
    """Return the capsules of a link, those that fit into one without much more room as one."""
    fits = list(fits)
    k = 0
    while k < len(fits):
        for j in range(k + 1, len(fits)):
            both = _Fit.of(fits[k].corners.with_those(fits[j].corners), fitting)
            if both.volume <= fitting.join * (fits[k].volume + fits[j].volume):
                del fits[j], fits[k]
                fits.append(both)
                k = -1
                break
        k += 1
    return fits


def _volume(ends: Array, radius: float) -> float:
    length = float(np.linalg.norm(ends[1] - ends[0]))
    return math.pi * radius**2 * (length + 4.0 / 3.0 * radius)


def _radius(ends: Array, points: Array, radii: Array) -> float:
    """Return the least radius with which a segment's capsule contains balls about points [m]."""
    way = ends[1] - ends[0]
    square = float(way @ way)
    along = (points - ends[0]) @ way / square if square > 0.0 else np.zeros(len(points))
    foot = ends[0] + np.clip(along, 0.0, 1.0)[:, None] * way
    return float(np.max(np.linalg.norm(points - foot, axis=1) + radii))


def least_capsule(points: Array, radii: Array, steps: int) -> Array:
    """Return the ends of the segment whose capsule about some balls has the least volume.

    Nelder-Mead over the ends, from the three principal axes of the points.

    Args:
        points: Centres of the balls, shape (n, 3) [m].
        radii: Their radii, zero for corners, shape (n,) [m].
        steps: Evaluations from each start.

    Returns:
        Shape (2, 3) [m].
    """
    from scipy.optimize import minimize

    if len(points) == 1:
        return np.array([points[0], points[0]])
    middle = (points.max(axis=0) + points.min(axis=0)) / 2.0
    size = float(np.ptp(points, axis=0).max())
    axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2]

    def cost(ends: Array) -> float:
        pair = middle + size * ends.reshape(2, 3)
        return _volume(pair, _radius(pair, points, radii)) / size**3

    best: tuple[float, Array] = (math.inf, np.zeros(6))
    for axis in axes:
        reach = (points - middle) @ axis
        start = np.outer([reach.min(), reach.max()], axis) / size * 0.7
        found = minimize(
            cost, start.ravel(), method="Nelder-Mead", options={"maxfev": steps, "fatol": 1e-9}
        )
        best = min(best, (float(found.fun), found.x), key=lambda pair: pair[0])
    return np.asarray(middle + size * best[1].reshape(2, 3))
