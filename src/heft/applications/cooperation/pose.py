"""Pose of one frame of a body in another from windows of both motions, noise in all of them.

Maximum likelihood with both motions unknown: the sum over windows of eᵀ C⁻¹ e with
e = W_j − M(R, t) W_i and C its covariance, which depends on t. That weight is what least squares
lack, whose translation is attenuated by noise in the angular velocity however long they look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from heft.arrays import Array
from heft.estimators import TwistInformation
from heft.information import matrix_of_rotation_vector

from .signals import Pose
from .windows import OMEGA, VELOCITY, motion_map


@dataclass(frozen=True, eq=False)
class PoseEstimate:
    """Pose between two frames of a body.

    Attributes:
        pose: R and t that take coordinates of the one to those of the other.
        covariance: Of a small turn in the other frame and of t, shape (6, 6) [rad², m²].
        misfit: Mean of the squared residuals, each by its deviation; 1 where noise is as stated.
    """

    pose: Pose
    covariance: Array
    misfit: float


def twist_map(pose: Pose) -> Array:
    """Return Ad, which takes ω and v from one frame of a body to another, shape (6, 6)."""
    return motion_map(pose)[:6, :6]


def moved(pose: Pose, change: Array) -> Pose:
    """Return a pose, turned by a small rotation vector in the second frame, and shifted.

    Args:
        pose: R and t.
        change: Rotation vector [rad], then shift [m], shape (6,).
    """
    return matrix_of_rotation_vector(change[:3]) @ pose[0], pose[1] + change[3:]


def inverse(pose: Pose) -> Pose:
    """Return the pose from the second frame to the first."""
    R, t = pose
    return R.T, -R.T @ t


def composed(after: Pose, before: Pose) -> Pose:
    """Return the pose that is one after another; its rotation stays one, however often."""
    U, _, V = np.linalg.svd(after[0] @ before[0])
    return U @ V, after[0] @ before[1] + after[1]


def pose_between(
    both: Array,
    spreads: tuple[Array, Array],
    windows: int,
    overlap: float = 1.0,
    guess: Pose | None = None,
    map_of: Callable[[Pose], Array] = motion_map,
) -> PoseEstimate:
    """Return the pose that takes coordinates of one frame to those of another.

    Args:
        both: Motions of windows in the one frame and in the other side by side, or any factor with
            their second moments, such as a triangle: shape (any, 2 k), k = 18.
        spreads: Covariances of the one and the other, shape (k, k) each.
        windows: How many windows that are.
        overlap: How many of them count as one.
        guess: Where to begin; from both twists if None.
        map_of: How motion changes with a pose, shape (k, k): `motion_map` of windows, `twist_map`
            of samples of twists alone, k = 6.
    """
    size = len(spreads[0])
    one, other = both[:, :size], both[:, size:]
    start = guess
    if start is None:
        parts = (one[:, OMEGA], one[:, VELOCITY], other[:, OMEGA], other[:, VELOCITY])
        start = TwistInformation.of(*parts).pose()

    def residuals(change: Array) -> Array:
        M = map_of(moved(start, change))
        C = M @ spreads[0] @ M.T + spreads[1]
        rows = other - one @ M.T
        return np.asarray(np.linalg.solve(np.linalg.cholesky(C), rows.T).ravel())

    found = least_squares(residuals, np.zeros(6), method="lm", xtol=1e-12, ftol=1e-12)
    degrees = max(windows * size - 6, 1)
    misfit = float(found.fun @ found.fun) / degrees
    covariance = overlap * np.linalg.pinv(found.jac.T @ found.jac, hermitian=True)
    return PoseEstimate(moved(start, found.x), covariance, misfit)
