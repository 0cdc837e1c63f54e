"""Pose of one frame of a body in another from windows of both motions, noise in all of them.

Maximum likelihood with both motions unknown: the sum over windows of eᵀ C⁻¹ e with
e = W_j − M(R, t) W_i and C its covariance, which depends on t. That weight is what least squares
lack, whose translation is attenuated by noise in the angular velocity however long they look.
Noise in W_i is no information: where motion is no more than noise, a pose is not told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from heft.arrays import Array
from heft.estimators import (
    TwistInformation,
    measured_regressor_covariance,
    signal_projection,
    whitening,
)
from heft.information import matrix_of_rotation_vector

from .signals import Pose
from .windows import OMEGA, SPATIAL, VELOCITY, Space

FARTHEST = 1000.0  # between two frames of a body: beyond, sensors contradict one another [m]
STEP = 1e-5  # of a pose, for derivatives of maps that are quadratic in it [rad, m]


@dataclass(frozen=True, eq=False)
class PoseEstimate:
    """Pose between two frames of a body.

    Attributes:
        pose: R and t that take coordinates of the one to those of the other.
        covariance: Of a small turn in the other frame and of t, as many of the six as there are
            [rad², m²]; None where the motion does not tell them all.
        misfit: Mean of the squared residuals, each by its deviation; 1 where noise is as stated.
            Not a number where the pose is not told to begin with.
    """

    pose: Pose
    covariance: Array | None
    misfit: float


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


def planar_pose(one: Array, other: Array) -> Pose:
    """Return R about z and t in the plane from twists, by least squares.

    v' = R v + t × ω, linear in the cosine, the sine and t.

    Args:
        one: ω_z, v_x, v_y in the one frame, and more, shape (any, 3 or more).
        other: In the other.
    """
    w, x, y = one[:, 0], one[:, 1], one[:, 2]
    none = np.zeros_like(w)
    rows = np.vstack([np.stack([x, -y, none, w], 1), np.stack([y, x, -w, none], 1)])
    c, s, tx, ty = np.linalg.lstsq(rows, np.concatenate([other[:, 1], other[:, 2]]), rcond=None)[0]
    size = float(np.hypot(c, s)) or 1.0
    c, s = (c / size, s / size) if c or s else (1.0, 0.0)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]), np.array([tx, ty, 0.0])


@dataclass(frozen=True, eq=False)
class MotionPair:
    """Windows of the motion of one body, measured in two frames of it.

    Attributes:
        both: Motions in the one frame and in the other side by side, or any factor with their
            second moments, such as a triangle: shape (any, 2 k).
        spreads: Covariances of the one and the other, shape (k, k) each.
        windows: How many windows that are.
        overlap: How many of them count as one.
        space: Which k numbers of windows these are.
    """

    both: Array
    spreads: tuple[Array, Array]
    windows: int
    overlap: float = 1.0
    space: Space = SPATIAL

    @property
    def one(self) -> Array:
        """Motions in the one frame, shape (any, k)."""
        return self.both[:, : len(self.spreads[0])]

    @property
    def other(self) -> Array:
        """Motions in the other, shape (any, k)."""
        return self.both[:, len(self.spreads[0]) :]

    def estimate(self, guess: Pose | None = None) -> PoseEstimate:
        """Return the pose that takes coordinates of the one frame to those of the other.

        Args:
            guess: Where to begin; from both twists if None.
        """
        start = guess
        if start is None:
            start = planar_pose(self.one, self.other) if self.space.planar else self._by_twists()
        # A pose far from the truth makes likely motions of what misfits: what was read decides
        if self._covariance(*self._seen(), start) is None:
            return PoseEstimate(start, None, np.nan)

        def residuals(change: Array) -> Array:
            M = self.space.motion_map(moved(start, self.space.change(change)))
            rows = self.other - self.one @ M.T
            return np.asarray((whitening(self._spread(M)) @ rows.T).ravel())

        found = least_squares(
            residuals, np.zeros(len(self.space.pose)), method="lm", xtol=1e-12, ftol=1e-12
        )
        degrees = max(self.windows * len(self.spreads[0]) - len(found.x), 1)
        misfit = float(found.fun @ found.fun) / degrees
        pose = moved(start, self.space.change(found.x))
        if not np.linalg.norm(pose[1]) < FARTHEST:
            return PoseEstimate(pose, None, misfit)
        return PoseEstimate(pose, self._covariance(*self._likely(pose), pose), misfit)

    def information(self, moments: Array, pose: Pose) -> Array:
        """Return Σ JᵀJ, J the derivative of C^(−1/2) M(R, t) W by the pose, square.

        Args:
            moments: Σ W Wᵀ of motions in the one frame, shape (k, k).
            pose: Where to look.
        """
        steps = [self.space.change(s) for s in STEP * np.eye(len(self.space.pose))]
        map_of = self.space.motion_map
        M, slopes = map_of(pose), [map_of(moved(pose, s)) - map_of(moved(pose, -s)) for s in steps]
        D = np.stack(slopes, axis=-1) / (2.0 * STEP)
        white = whitening(self._spread(M)) @ D.reshape(len(M), -1)
        white = white.reshape(D.shape)
        return np.asarray(np.einsum("abp,bc,acq->pq", white, moments, white, optimize=True))

    def _by_twists(self) -> Pose:
        one, other = self.one, self.other
        return TwistInformation.of(
            one[:, OMEGA], one[:, VELOCITY], other[:, OMEGA], other[:, VELOCITY]
        ).pose()

    def _spread(self, M: Array) -> Array:
        """Return C, the covariance of a window's residual, shape (k, k)."""
        return M @ self.spreads[0] @ M.T + self.spreads[1]

    def _seen(self) -> tuple[Array, Array]:
        """Return what of the motions in the one frame is more than noise, and its noise."""
        moments = self.one.T @ self.one / self.windows
        P = signal_projection(moments, self.spreads[0], self.windows / self.overlap)
        return self.one @ P.T, P @ self.spreads[0] @ P.T

    def _likely(self, pose: Pose) -> tuple[Array, Array]:
        """Return the most likely motions in the one frame given both, and their noise."""
        M, noise = self.space.motion_map(pose), self.spreads[0]
        gain = np.linalg.solve(self._spread(M), M @ noise).T
        return self.one + (self.other - self.one @ M.T) @ gain.T, noise - gain @ M @ noise

    def _covariance(self, motion: Array, noise: Array, pose: Pose) -> Array | None:
        """Return the covariance of a pose from motions with noise; None where it is not told."""
        observed = self.information(motion.T @ motion, pose) / self.overlap
        of_noise = self.information(self.windows * noise, pose) / self.overlap
        return measured_regressor_covariance(observed, of_noise, self.windows / self.overlap)
