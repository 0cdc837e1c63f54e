"""Where a robot's bodies are, and what shape its masses have: for drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from heft.arrays import Array
from heft.dynamics import Link
from heft.information import inertia
from heft.models import Robot

DIGITS = 4  # behind the point, of places in m
ASIDE = np.array([1.0, 0.7, 0.5])  # where the reader is, if nothing says better
SHORTEST = 1e-4  # [m], of a line worth drawing
Role: TypeAlias = Literal["before", "after"]


@dataclass(frozen=True, eq=False)
class Body:
    """A body of a scene, drawn as an ellipsoid, in F frames."""

    name: str  # of the link
    role: Role  # its colour, and the box that hides it
    centre: Array  # shape (3,) or (F, 3) [m]
    axes: Array  # semi-axes as rows, shape (3, 3) or (F, 3, 3) [m]
    seen: float = 1.0  # relative reduction of the prior's variance by the data, 0 to 1


@dataclass(frozen=True, eq=False)
class Sticks:
    """A figure of lines between points that move: F frames of n points."""

    title: str  # above it
    time: Array  # from zero on, increasing, shape (F,) [s]; of one frame nothing moves
    points: Array  # shape (F, n, 3) [m]
    # first and last point of each; those of an axis with their colour, or `thin`
    lines: Sequence[tuple[int | str, ...]]
    # points that are drawn as masses, with their size from 0 to 1
    masses: Sequence[tuple[int, float]]
    view: Array  # axes of the picture as rows: right, up, towards the reader, shape (3, 3)
    trace: int | None  # the point whose last second is drawn
    # drawn throughout, shape (m, 3) [m]
    path: Array = field(default_factory=lambda: np.empty((0, 3)))
    # stretches of the path, first place and that behind the last
    marked: Sequence[tuple[int, int]] = ()
    # drawn as ellipsoids: the last points are each one's centre and its three semi-axes' ends
    bodies: Sequence[Body] = ()
    pitch: float = 0.0  # from how far above it is seen [rad]
    plays: bool = True  # by itself, unless the reader's system asks for less motion
    # of each joint, by name, and of each colour's role: drawn as bars, shape (F, joints) [1]
    torques: tuple[Sequence[str], Mapping[str, Array]] | None = None

    @property
    def content(self) -> dict[str, object]:
        """What the script draws."""
        places, path = np.round(self.points, DIGITS), np.round(self.path, DIGITS)
        first = places.shape[1] - 4 * len(self.bodies)
        solid = places[:, first:].reshape(len(places), -1, 4, 3)
        after = [k for k, body in enumerate(self.bodies) if body.role == "after"]
        axes = solid[:, after, 1:] - solid[:, after, :1]  # of what is found, to both sides
        tips = [solid[:, after, :1] + axes, solid[:, after, :1] - axes]
        parts = [places[:, :first], solid[:, :, 0], *tips, path]
        every = np.vstack([part.reshape(-1, 3) for part in parts])
        middle = 0.5 * (every.min(axis=0) + every.max(axis=0))
        across, y, z = self.view @ (every - middle).T
        up = np.cos(self.pitch) * y - np.sin(self.pitch) * z
        bars = None
        if self.torques is not None:
            names, kinds = self.torques
            listed = [[role, np.round(values, 3).tolist()] for role, values in kinds.items()]
            bars = {"names": names, "kinds": listed}
        return {
            "time": np.round(self.time, 4).tolist(),
            "points": places.tolist(),
            "lines": list(self.lines),
            "masses": [[k, round(share, 3)] for k, share in self.masses],
            "view": np.round(self.view, 6).tolist(),
            "middle": np.round(middle, DIGITS).tolist(),
            # how far it ever reaches from its middle, to the sides and up, as it is first seen
            "reach": [max(float(np.abs(v).max()), 0.05) for v in (across, up)],
            "pitch": self.pitch,
            "plays": self.plays,
            "torques": bars,
            "trace": self.trace,
            "path": path.tolist(),
            "marked": list(self.marked),
            "bodies": [
                {"first": first + 4 * k, "name": b.name, "role": b.role, "seen": round(b.seen, 3)}
                for k, b in enumerate(self.bodies)
            ],
        }


def solids(
    title: str,
    bones: Array,
    bodies: Sequence[Body],
    time: Array | None = None,
    torques: tuple[Sequence[str], Mapping[str, Array]] | None = None,
) -> Sticks:
    """Return lines and ellipsoids in three dimensions, which move only if the reader plays them.

    Args:
        bones: Shape (n, 6) or (F, n, 6) [m].
        time: As of `Sticks`, as `torques` is; None if nothing moves.
    """
    time = np.zeros(1) if time is None else time
    frames, count = len(time), bones.shape[-2]
    points = [np.broadcast_to(bones, (frames, count, 6)).reshape(frames, 2 * count, 3)]
    for body in bodies:
        centre = np.broadcast_to(body.centre, (frames, 3))[:, None]
        points.append(np.concatenate([centre, centre + body.axes], axis=1))
    lines = [(2 * k, 2 * k + 1) for k in range(count)]
    view = seen_from(np.array([0.62, -0.78, 0.0]), np.zeros(3))
    return Sticks(
        title, time, np.concatenate(points, axis=1), lines, [], view, None,
        bodies=bodies, pitch=0.35, plays=False, torques=torques,
    )  # fmt: skip


def ends(robot: Robot) -> list[tuple[int, Array]]:
    """Return the ends of the last bodies: (body, point in its frame, shape (3,) [m]).

    That is at their links' origins; where all of these are at the joint itself, at the mass.
    """
    tree, tens = robot.tree, robot.written_bodies().reshape(-1, inertia.PARAMETER_COUNT)
    points = []
    for b in sorted(set(range(len(tree.names))) - set(tree.parent.tolist())):
        places = [k.translation for k in robot.links if k.body == b]
        away = [p for p in places if np.linalg.norm(p) > SHORTEST]
        if not away and tens[b, 0] > 0.0:
            away = [tens[b, 1:4] / tens[b, 0]]
        points += [(b, place) for place in away]
    return points


def bones(robot: Robot, poses: Array) -> Array:
    """Return lines from each joint to the next, and to the `ends`, shape (..., n, 6) [m].

    Args:
        poses: Of the robot's bodies, shape (..., bodies, 4, 4).
    """
    origins = poses[..., :3, 3]
    ways = [
        (origins[..., p, :] if p >= 0 else 0.0 * origins[..., b, :], origins[..., b, :])
        for b, p in enumerate(robot.tree.parent)
    ]
    ways += [
        (origins[..., b, :], (poses[..., b, :, :] @ [*place, 1.0])[..., :3])
        for b, place in ends(robot)
    ]
    long = [line for line in ways if np.linalg.norm(line[0] - line[1], axis=-1).max() > SHORTEST]
    lines = np.array([np.concatenate(line, axis=-1) for line in long], dtype=float)
    return np.moveaxis(lines.reshape(len(long), *poses.shape[:-3], 6), 0, -2)


def placed(
    link: Link, poses: Array, parameters: Array, role: Role, name: str = "", seen: float = 1.0
) -> list[Body]:
    """Return the `ellipsoid` of a body where its link is, in the world; none where no mass is.

    Args:
        poses: Of the robot's bodies, shape (..., bodies, 4, 4).
        parameters: π in the link's frame, shape (10,) [kg, kg·m, kg·m²].
        role: As of `Body`, as `seen` is.
        name: If not that of the link.
    """
    shape = ellipsoid(parameters)
    if shape is None:
        return []
    turned = poses[..., link.body, :3, :3]
    centre = turned @ (link.translation + link.rotation @ shape[0]) + poses[..., link.body, :3, 3]
    axes = shape[1] @ link.rotation.T @ np.swapaxes(turned, -1, -2)
    return [Body(name or link.name, role, centre, axes, seen)]


def ellipsoid(parameters: Array) -> tuple[Array, Array] | None:
    """Return centre (3,) and semi-axes as rows (3, 3) of the solid ellipsoid of equal inertia [m].

    A solid ellipsoid has the second moments `m aᵢ² / 5`. None where there is no mass; what no
    body can have is drawn as flat.

    Args:
        parameters: π of a body, in the frame of the result, shape (10,) [kg, kg·m, kg·m²].
    """
    mass, com, tensor = inertia.to_body(parameters)
    if not mass > 0.0:
        return None
    moments = 0.5 * np.trace(tensor) * np.eye(3) - tensor
    values, vectors = np.linalg.eigh(moments)
    return com, (vectors * np.sqrt(np.maximum(5.0 * values / mass, 0.0))).T


def seen_from(towards: Array, gravity: Array) -> Array:
    """Return the picture's axes as rows: right, up, towards the reader, shape (3, 3).

    Args:
        towards: Direction to the reader, shape (3,), made level; from another where it is upright.
        gravity: Which is drawn downwards, shape (3,); zero for −z.
    """
    weight = np.linalg.norm(gravity)
    up = -gravity / weight if weight > 0.0 else np.array([0.0, 0.0, 1.0])
    sides = [np.cross(up, side) for side in (towards, ASIDE, ASIDE[::-1])]
    right = next(s for s in sides if np.linalg.norm(s) > 0.14)
    right = right / np.linalg.norm(right)
    return np.array([right, up, np.cross(right, up)])
