"""Rotations: matrices, roll-pitch-yaw, axis-angle, quaternions, rotation vectors, conversions.

A matrix R maps coordinates in the rotated frame to those in the reference frame. Quaternions are
w, x, y, z. Implemented here is what must be exact at special angles (a model file's right angles,
a pitch of 90°) or is a formula for many samples; the rest is scipy's, loaded on first use.
"""

from __future__ import annotations

import math

import numpy as np

from heft.arrays import Array


def cross(a: Array, b: Array) -> Array:
    """Return a × b, shape (..., 3), real or complex; numpy's takes ten times as long for a few."""
    product = np.empty(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
    x, y, z = a[..., 0], a[..., 1], a[..., 2]
    u, v, w = b[..., 0], b[..., 1], b[..., 2]
    product[..., 0], product[..., 1], product[..., 2] = y * w - z * v, z * u - x * w, x * v - y * u
    return product


def skew(vector: Array) -> Array:
    """Return the cross-product matrices a×, (..., 3, 3), with `skew(a) @ b == cross(a, b)`."""
    v = np.asarray(vector, dtype=float)
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    matrix = np.zeros((*v.shape, 3))
    matrix[..., 0, 1], matrix[..., 0, 2] = -z, y
    matrix[..., 1, 0], matrix[..., 1, 2] = z, -x
    matrix[..., 2, 0], matrix[..., 2, 1] = -y, x
    return matrix


def matrix_of_axis_angle(axis: Array, angle: Array | float) -> Array:
    """Return rotation matrices (..., 3, 3) about a unit axis by angles (...) [rad]."""
    cross, turned = skew(axis), np.asarray(angle)[..., None, None]
    return np.asarray(np.eye(3) + np.sin(turned) * cross + (1.0 - np.cos(turned)) * (cross @ cross))


def matrix_of_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return the rotation matrix (3, 3) of a URDF's `rpy` [rad]: about fixed axes x, y, then z."""
    (sr, sp, sy), (cr, cp, cy) = np.sin([roll, pitch, yaw]), np.cos([roll, pitch, yaw])
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rpy_of_matrix(rotation: Array) -> Array:
    """Return roll, pitch and yaw, shape (3,) [rad], with `matrix_of_rpy(*rpy_of_matrix(R)) == R`.

    Yaw is computed first and divided out, so that the result holds at a pitch of ±90°, too.
    """
    yaw = float(np.arctan2(rotation[1, 0], rotation[0, 0]))
    turned = matrix_of_rpy(0.0, 0.0, yaw).T @ rotation
    roll, pitch = np.arctan2(-turned[1, 2], turned[1, 1]), np.arctan2(-turned[2, 0], turned[0, 0])
    return np.array([roll, pitch, yaw])


def matrix_of_quaternion(quaternion: Array) -> Array:
    """Return the matrices (..., 3, 3) of quaternions (..., 4) of any length but zero."""
    w, x, y, z = np.moveaxis(np.asarray(quaternion, dtype=float), -1, 0)
    length = np.sqrt(x * x + y * y + z * z + w * w)
    w, x, y, z = w / length, x / length, y / length, z / length
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=-1),
            np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=-1),
            np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=-1),
        ],
        axis=-2,
    )


def quaternion_of_matrix(rotation: Array) -> Array:
    """Return the unit quaternion w, x, y, z, shape (4,), w ≥ 0, of a rotation matrix (3, 3)."""
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(rotation).as_quat(canonical=True)
    return np.array([w, x, y, z])


def continuous_quaternions(quaternion: Array, before: Array | None = None) -> Array:
    """Return the same rotations with signs chosen so that successive quaternions do not jump.

    The quaternions q and −q are the same rotation; differentiation needs one of them throughout.

    Args:
        quaternion: Shape (N, 4).
        before: The preceding quaternion, shape (4,), NaN where there is none.

    Returns:
        Shape (N, 4).
    """
    every = np.vstack([np.full(4, np.nan) if before is None else before, quaternion])
    flips = np.sum(every[1:] * every[:-1], axis=1) < 0.0  # not for NaN
    return np.asarray(quaternion * np.where(np.cumsum(flips) % 2, -1.0, 1.0)[:, None])


def angular_velocity(quaternion: Array, rate: Array) -> Array:
    """Return the angular velocity ω in the rotated frame's axes, the vector part of `2 q* q̇`.

    Of q, shape (N, 4), of any length but zero, and q̇ [1/s]; shape (N, 3) [rad/s].
    """
    square = np.sum(quaternion**2, axis=1, keepdims=True)
    w, vector = quaternion[:, :1], quaternion[:, 1:]
    dw, dvector = rate[:, :1], rate[:, 1:]
    return np.asarray(2.0 * (w * dvector - dw * vector - np.cross(vector, dvector)) / square)


def matrix_of_rotation_vector(vector: Array) -> Array:
    """Return the rotation matrix, shape (3, 3), of a rotation vector, shape (3,) [rad]."""
    cross, angle = skew(vector), math.hypot(*vector)
    if angle == 0.0:
        return np.eye(3)
    half = math.sin(0.5 * angle) / angle
    return np.asarray(np.eye(3) + math.sin(angle) / angle * cross + 2.0 * half**2 * (cross @ cross))


def rotation_vector_of_matrix(rotation: Array) -> Array:
    """Return the rotation vector, shape (3,) [rad], of a rotation matrix, shape (3, 3)."""
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_matrix(rotation).as_rotvec())


def rotation_vector_between(one: Array, other: Array) -> Array:
    """Return the rotation vector, shape (3,) [rad], that turns one direction into another."""
    axis = np.cross(one, other)
    size = float(np.linalg.norm(axis))
    angle = math.atan2(size, float(one @ other))
    return np.asarray(axis * (angle / size) if size > 0.0 else np.zeros(3))
