"""Forward kinematics: poses and velocities of a robot's bodies and frames at many samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import matrix_of_axis_angle

from .tree import FREE, PRISMATIC, REVOLUTE, Link, Tree


@dataclass(frozen=True, eq=False)
class FrameMotion:
    """Orientation and velocity of a frame at N samples."""

    rotation: Array  # from the frame to the world, shape (N, 3, 3)
    velocity: Array  # of its origin, in its own axes, shape (N, 3) [m/s]
    angular_velocity: Array  # in its own axes, shape (N, 3) [rad/s]


def frame_motion(tree: Tree, link: Link, position: Array, velocity: Array) -> FrameMotion:
    """Return orientation and velocity of a link's frame at N samples.

    Args:
        tree: With a fixed base.
        position: Of each channel, shape (N, channels) [rad or m].
        velocity: Of each channel, shape (N, channels) [rad/s or m/s].

    Raises:
        InvalidSetting: If the base floats.
    """
    if tree.free_base:
        raise InvalidSetting("a free base has no fixed frame to move in", argument='base = "free"')
    R, origin, rotations, places = place_of(tree, link, position)
    v, w = np.zeros_like(origin), np.zeros_like(origin)  # in the world
    for b in rotations:
        rate = tree.multiplier[b] * velocity[:, int(tree.channel[b])]
        axis = rate[:, None] * (rotations[b] @ tree.axis[b])
        if tree.kind[b] == REVOLUTE:
            w = w + axis
            v = v + np.cross(axis, origin - places[b])
        else:
            v = v + axis
    back = np.swapaxes(R, 1, 2)
    return FrameMotion(R, np.einsum("nij,nj->ni", back, v), np.einsum("nij,nj->ni", back, w))


def path_to(tree: Tree, body: int) -> tuple[int, ...]:
    """Return the bodies from the base to one, itself the last; none where it is the world, −1."""
    chain = []
    while body >= 0:
        chain.append(body)
        body = int(tree.parent[body])
    return tuple(reversed(chain))


def place_of(
    tree: Tree, link: Link, position: Array
) -> tuple[Array, Array, dict[int, Array], dict[int, Array]]:
    """Return orientation and origin of a link's frame, and those of the bodies that move it.

    A floating base is placed at the origin.

    Args:
        position: Of each channel, shape (N, channels) [rad or m].

    Returns:
        Rotation, shape (N, 3, 3), and origin, shape (N, 3) [m], of the link, then of each body by
        its position in the tree.
    """
    chain = path_to(tree, link.body)
    rotations, places = _walk(tree, chain, position)
    R, origin = np.broadcast_to(np.eye(3), (len(position), 3, 3)), np.zeros((len(position), 3))
    if chain:
        R, origin = rotations[chain[-1]], places[chain[-1]]
    return R @ link.rotation, origin + R @ link.translation, rotations, places


def body_poses(tree: Tree, position: Array) -> Array:
    """Return the homogeneous transforms of all bodies in the world, shape (..., bodies, 4, 4) [m].

    A floating base is placed at the origin.

    Args:
        position: Of each channel, shape (..., channels) [rad or m].
    """
    position = np.asarray(position, dtype=float)
    bodies, before = len(tree.names), position.shape[:-1]
    poses = np.zeros((*before, bodies, 4, 4))
    poses[..., 3, 3] = 1.0
    rotations, places = _walk(tree, range(bodies), position)
    for b in range(bodies):
        poses[..., b, :3, :3], poses[..., b, :3, 3] = rotations[b], places[b]
    return poses


def _walk(
    tree: Tree, bodies: Iterable[int], position: Array
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Return rotations (..., 3, 3) and places (..., 3) [m] of bodies; parents must come first."""
    rotations: dict[int, Array] = {}
    places: dict[int, Array] = {}
    for b in bodies:
        rotation = np.broadcast_to(tree.rotation[b], (*position.shape[:-1], 3, 3))
        place = np.broadcast_to(tree.translation[b], (*position.shape[:-1], 3))
        if tree.kind[b] != FREE:
            moved = tree.multiplier[b] * position[..., int(tree.channel[b])] + tree.offset[b]
            if tree.kind[b] == PRISMATIC:
                place = place + moved[..., None] * (tree.rotation[b] @ tree.axis[b])
            else:
                rotation = rotation @ matrix_of_axis_angle(tree.axis[b], moved)
        above = int(tree.parent[b])
        if above >= 0:
            place = places[above] + np.einsum("...ij,...j->...i", rotations[above], place)
            rotation = rotations[above] @ rotation
        rotations[b], places[b] = rotation, place
    return rotations, places
