"""Where a robot's bodies are, and what shape its masses have: for drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from heft.arrays import Array
from heft.dynamics import Link
from heft.information import inertia
from heft.models import Robot

SHORTEST = 1e-4  # [m], of a line worth drawing


@dataclass(frozen=True, eq=False)
class Body:
    """A body of a scene, drawn as an ellipsoid, in F frames."""

    name: str  # of the link
    role: Literal["before", "after"]  # its colour, and the box that hides it
    centre: Array  # shape (3,) or (F, 3) [m]
    axes: Array  # semi-axes as rows, shape (3, 3) or (F, 3, 3) [m]
    seen: float = 1.0  # relative reduction of the prior's variance by the data, 0 to 1


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


def placed(link: Link, poses: Array, parameters: Array) -> tuple[Array, Array] | None:
    """Return the `ellipsoid` of a body where its link is, in the world.

    Args:
        poses: Of the robot's bodies, shape (..., bodies, 4, 4).
        parameters: π in the link's frame, shape (10,) [kg, kg·m, kg·m²].
    """
    shape = ellipsoid(parameters)
    if shape is None:
        return None
    com, axes = shape
    turned = poses[..., link.body, :3, :3]
    place = link.translation + link.rotation @ com
    return turned @ place + poses[..., link.body, :3, 3], axes @ link.rotation.T @ np.swapaxes(
        turned, -1, -2
    )


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
