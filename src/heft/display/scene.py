"""Where a robot's bodies are, and what shape its masses have: for drawing."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.dynamics import Link, body_poses
from heft.information import frame_change, inertia
from heft.models import Robot

SHORTEST = 1e-4  # [m], of a line worth drawing


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


def bones(robot: Robot, position: Array) -> Array:
    """Return lines from each joint to the next, and to the `ends`, shape (n, 6) [m].

    Args:
        position: q, shape (channels,) [rad or m].
    """
    tree, poses = robot.tree, body_poses(robot.tree, position)
    lines = [
        [*(poses[tree.parent[b]][:3, 3] if tree.parent[b] >= 0 else np.zeros(3)), *poses[b][:3, 3]]
        for b in range(len(tree.names))
    ]
    for b, place in ends(robot):
        lines.append([*poses[b][:3, 3], *(poses[b] @ [*place, 1.0])[:3]])
    long = [line for line in lines if np.linalg.norm(np.subtract(line[:3], line[3:])) > SHORTEST]
    return np.array(long, dtype=float).reshape(-1, 6)


def placed(link: Link, poses: Array, parameters: Array) -> tuple[Array, Array] | None:
    """Return the `ellipsoid` of a body where its link is, in the world.

    Args:
        poses: Of the robot's bodies, shape (bodies, 4, 4).
        parameters: π in the link's frame, shape (10,) [kg, kg·m, kg·m²].
    """
    pose, rotation = poses[link.body], poses[link.body][:3, :3] @ link.rotation
    place = pose[:3, :3] @ link.translation + pose[:3, 3]
    return ellipsoid(frame_change(rotation, place) @ parameters)


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
