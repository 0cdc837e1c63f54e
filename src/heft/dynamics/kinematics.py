"""Where a robot's frame is and how it moves, for many samples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import inertia, skew

from .kernels import quaternion_matrix
from .tree import FREE, PRISMATIC, REVOLUTE, Link, Tree


@dataclass(frozen=True, eq=False)
class FrameMotion:
    """Motion of a frame.

    Attributes:
        rotation: From the frame to the world, shape (N, 3, 3).
        velocity: Of its origin, in its own axes, shape (N, 3) [m/s].
        angular_velocity: In its own axes, shape (N, 3) [rad/s].
    """

    rotation: Array
    velocity: Array
    angular_velocity: Array


def frame_motion(tree: Tree, link: Link, position: Array, velocity: Array) -> FrameMotion:
    """Return how a link's frame moves.

    Args:
        tree: The bodies, with a fixed base.
        link: Whose frame; see `Robot.link`.
        position: Of each channel, shape (N, channels) [rad or m].
        velocity: Likewise, per s.

    Raises:
        InvalidSetting: If the base floats.
    """
    if tree.free_base:
        raise InvalidSetting("a free base has no fixed frame to move in", argument='base = "free"')
    count = len(position)
    R = np.broadcast_to(np.eye(3), (count, 3, 3))
    v, w = np.zeros((count, 3)), np.zeros((count, 3))
    chain = []
    body = link.body
    while body >= 0:
        chain.append(body)
        body = int(tree.parent[body])
    for b in reversed(chain):
        channel = int(tree.channel[b])
        place = tree.multiplier[b] * position[:, channel] + tree.offset[b]
        rate = (tree.multiplier[b] * velocity[:, channel])[:, None] * tree.axis[b]
        turns = tree.kind[b] == REVOLUTE
        joint = tree.rotation[b] @ _turned(tree.axis[b], place if turns else np.zeros(count))
        shift = np.broadcast_to(tree.translation[b], (count, 3))
        if tree.kind[b] == PRISMATIC:
            shift = shift + place[:, None] * (tree.rotation[b] @ tree.axis[b])
        back = np.swapaxes(joint, 1, 2)
        v = np.einsum("nij,nj->ni", back, v + np.cross(w, shift))
        w = np.einsum("nij,nj->ni", back, w)
        v, w = (v, w + rate) if turns else (v + rate, w)
        R = R @ joint
    v = (v + np.cross(w, link.translation)) @ link.rotation
    return FrameMotion(R @ link.rotation, v, w @ link.rotation)


def _turned(axis: Array, angle: Array) -> Array:
    """Return the rotations about a unit axis, shape (N, 3, 3) [Rodrigues1840]."""
    K = skew(axis)
    return np.asarray(
        np.eye(3)
        + np.sin(angle)[:, None, None] * K
        + (1.0 - np.cos(angle))[:, None, None] * (K @ K)
    )


def quaternion_rotation(quaternion: Array) -> Array:
    """Return rotation matrices, shape (N, 3, 3), of quaternions wxyz, shape (N, 4)."""
    return quaternion_matrix(np.asarray(quaternion)[:, [1, 2, 3, 0]])


def rotation_quaternion(rotation: Array) -> Array:
    """Return the unit quaternion wxyz of a rotation matrix, w ≥ 0, shape (4,)."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(rotation).as_quat(canonical=True)
    return np.array([w, x, y, z])


def continuous(quaternion: Array) -> Array:
    """Return the same rotations with signs that never jump, shape (N, 4)."""
    flips = np.sum(quaternion[1:] * quaternion[:-1], axis=1) < 0.0
    signs = np.cumprod(np.where(flips, -1.0, 1.0))
    return np.asarray(quaternion * np.append(1.0, signs)[:, None])


def turning(quaternion: Array, rate: Array) -> Array:
    """Return ω in the body's axes, `2 q* q̇`, shape (N, 3) [rad/s].

    Args:
        quaternion: w, x, y, z, shape (N, 4), of any length.
        rate: Its derivative, shape (N, 4) [1/s].
    """
    square = np.sum(quaternion**2, axis=1, keepdims=True)
    w, vector = quaternion[:, :1], quaternion[:, 1:]
    dw, dvector = rate[:, :1], rate[:, 1:]
    return np.asarray(2.0 * (w * dvector - dw * vector - np.cross(vector, dvector)) / square)


def body_poses(tree: Tree, position: Array) -> Array:
    """Return the poses of all bodies in the world, shape (bodies, 4, 4).

    A floating base is drawn at the origin.

    Args:
        tree: The bodies.
        position: Of each channel, shape (channels,) [rad or m].
    """
    poses = np.tile(np.eye(4), (len(tree.names), 1, 1))
    for b in range(len(tree.names)):
        if tree.parent[b] >= 0:
            poses[b] = poses[tree.parent[b]]
        poses[b] = poses[b] @ local_pose(tree, b, position)
    return poses


def local_pose(tree: Tree, body: int, position: Array) -> Array:
    """Return the pose of a body in its parent, shape (4, 4); see `body_poses`."""
    place = np.eye(4)
    place[:3, :3], place[:3, 3] = tree.rotation[body], tree.translation[body]
    if tree.kind[body] == FREE:
        return place
    moved = tree.multiplier[body] * position[tree.channel[body]] + tree.offset[body]
    axis, joint = tree.axis[body], np.eye(4)
    if tree.kind[body] == PRISMATIC:
        joint[:3, 3] = moved * axis
    else:  # Rodrigues' formula
        cross = inertia.skew(axis)
        joint[:3, :3] += np.sin(moved) * cross + (1.0 - np.cos(moved)) * cross @ cross
    return np.asarray(place @ joint)
