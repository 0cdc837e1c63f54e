"""Pose of one frame of a body in another from windows of both motions, noise in all of them.

Maximum likelihood with both motions unknown: the sum over windows of eᵀ C⁻¹ e with
e = W_j − M(R, t) W_i and C its covariance, which depends on t. That weight is what least squares
lack, whose translation is attenuated by noise in the angular velocity however long they look.
Noise in W_i is no information: where motion is no more than noise, a pose is not told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import least_squares

from heft.arrays import Array
from heft.estimators import (
    TwistInformation,
    measured_regressor_covariance,
    signal_projection,
    whitening,
    whitening_slopes,
)
from heft.information import matrix_of_rotation_vector, rotation_vector_of_matrix, skew

from .signals import Pose
from .windows import OMEGA, SENSOR_NUMBERS, SPATIAL, SUMMED, VELOCITY, Space


@dataclass(frozen=True, eq=False)
class PoseEstimate:
    """Pose between two frames of a body."""

    pose: Pose  # R and t that take coordinates of the one to those of the other
    # of a small turn in the other frame and of t, as many of the six as there are [rad², m²]; None
    # where the motion does not tell them all
    covariance: Array | None
    # mean of the squared residuals, each by its deviation; 1 where noise is as stated. Not a number
    # where the pose is not told to begin with
    misfit: float
    # the same of one sensor's numbers alone, of the sensor for which it is largest
    apart: float = np.nan


def moved(pose: Pose, change: Array) -> Pose:
    """Return a pose, turned by a small rotation vector in the second frame, and shifted.

    Args:
        change: Rotation vector [rad], then shift [m], shape (6,).
    """
    return matrix_of_rotation_vector(change[:3]) @ pose[0], pose[1] + change[3:]


def inverse(pose: Pose) -> Pose:
    """Return the pose from the second frame to the first."""
    R, t = pose
    return R.T, -R.T @ t


def composed(after: Pose, before: Pose) -> Pose:
    """Return the composition of two poses, its rotation made orthogonal against rounding."""
    U, _, V = np.linalg.svd(after[0] @ before[0])
    return U @ V, after[0] @ before[1] + after[1]


def difference(one: Pose, other: Pose) -> Array:
    """Return the change with `moved(one, change) = other`, shape (6,) [rad, m]."""
    return np.concatenate([rotation_vector_of_matrix(other[0] @ one[0].T), other[1] - one[1]])


@dataclass(frozen=True, eq=False)
class PoseBelief:
    """Prior of a pose."""

    pose: Pose  # R and t
    # of a small turn in the second frame and of t, shape (6, 6) [1/rad², 1/m²]; zero where nothing
    # is known
    information: Array

    def of_numbers(self, space: Space) -> Array:
        """Return the information reduced to a space's turns and shifts, square."""
        return self.information[np.ix_(space.pose, space.pose)]

    def residuals(self, pose: Pose, space: Space) -> Array:
        """Return the whitened difference of a pose from the prior."""
        return self._root(space) @ difference(self.pose, pose)[list(space.pose)]

    def slopes(self, pose: Pose, space: Space) -> Array:
        """Return the derivative of the residuals by a small turn and shift of the pose, square."""
        by = np.linalg.inv(_turning(difference(self.pose, pose)))
        return self._root(space) @ by[np.ix_(space.pose, space.pose)]

    def _root(self, space: Space) -> Array:
        values, axes = np.linalg.eigh(self.of_numbers(space))
        return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * axes.T)


def _turning(change: Array) -> Array:
    """Return J of `moved(pose, change + d) = moved(moved(pose, change), J d)`, shape (6, 6).

    Args:
        change: Rotation vector [rad], then shift [m], shape (6,).
    """
    cross, angle = skew(change[:3]), math.hypot(*change[:3])
    found = np.eye(6)
    if angle > 1e-4:
        half = math.sin(0.5 * angle) / angle
        found[:3, :3] += 2.0 * half**2 * cross
        found[:3, :3] += (1.0 - math.sin(angle) / angle) / angle**2 * (cross @ cross)
    else:  # to within rounding
        found[:3, :3] += 0.5 * cross + (cross @ cross) / 6.0
    return found


def planar_pose(one: Array, other: Array) -> Pose:
    """Return R about z and t in the plane from twists, by least squares.

    v' = R v + t × ω, linear in the cosine, the sine and t.

    Args:
        one: ω_z, v_x, v_y in the one frame, and more, shape (any, 3 or more).
        other: Likewise in the other frame.
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
    """Windows of the motion of one body, measured in two frames of it."""

    # motions in the one frame and in the other side by side, or any factor with their second
    # moments, such as a triangle: shape (any, 2 k)
    both: Array
    spreads: tuple[Array, Array]  # covariances of the one and the other, shape (k, k) each
    windows: int  # how many windows that are
    overlap: float = 1.0  # how many of them count as one
    space: Space = SPATIAL  # which k numbers of windows these are
    counted: tuple[int, ...] | None = None  # places of the other's numbers that count; all if None
    belief: PoseBelief | None = None  # what is known of the pose beside

    @property
    def one(self) -> Array:
        """Motions in the one frame, shape (any, k)."""
        return self.both[:, : len(self.spreads[0])]

    @cached_property
    def other(self) -> Array:
        """Motions in the other frame, shape (any, k), or only the components that count."""
        whole = self.both[:, len(self.spreads[0]) :]
        return whole if self.counted is None else whole[:, self.counted]

    def _map(self, pose: Pose) -> Array:
        """Return the rows of M that count, shape (any, k)."""
        whole = self.space.motion_map(pose)
        return whole if self.counted is None else whole[list(self.counted)]

    def _map_slopes(self, pose: Pose) -> Array:
        """Return the derivative of M by a small turn and shift, shape (p, any, k)."""
        whole = self.space.motion_slopes(pose)
        return whole if self.counted is None else whole[:, self.counted]

    def _white(self, pose: Pose) -> tuple[Array, Array, Array]:
        """Return M, the whitening matrix, and the whitened residuals, shape (any, K)."""
        M = self._map(pose)
        W = whitening(self._spread(M))
        return M, W, W @ (self.other - self.one @ M.T).T

    def _slopes(self, pose: Pose, M: Array, W: Array, rest: Array) -> Array:
        """Return the derivative of whitened residuals by a small turn and shift, shape (any, p)."""
        white = W @ self._map_slopes(pose)
        half = white @ (self.spreads[0] @ M.T @ W.T)
        found = whitening_slopes(half + np.swapaxes(half, 1, 2)) @ rest - white @ self.one.T
        return np.asarray(found.reshape(len(white), -1).T)

    def estimate(self, guess: Pose | None = None) -> PoseEstimate:
        """Return the pose that takes coordinates of the one frame to those of the other.

        Args:
            guess: Initial pose; from both twists by least squares if None.
        """
        start = guess
        if start is None:
            start = planar_pose(self.one, self.other) if self.space.planar else self._by_twists()
        # A pose far from the truth makes likely motions of what misfits: what was read decides
        if self._covariance(*self._seen(), start) is None:
            return PoseEstimate(start, None, np.nan)

        places = np.ix_(self.space.pose, self.space.pose)
        weight = np.sqrt(self.overlap)  # of what counts once, among windows that overlap
        last: dict[bytes, tuple[Pose, Array, Array, Array]] = {}

        def at(change: Array) -> tuple[Pose, Array, Array, Array]:
            if change.tobytes() not in last:
                pose = moved(start, self.space.change(change))
                last.clear()
                last[change.tobytes()] = pose, *self._white(pose)
            return last[change.tobytes()]

        def residuals(change: Array) -> Array:
            pose, _, _, rest = at(change)
            if self.belief is None:
                return rest.ravel()
            return np.append(rest, weight * self.belief.residuals(pose, self.space))

        def slopes(change: Array) -> Array:
            pose, *white = at(change)
            found = self._slopes(pose, *white)
            if self.belief is not None:
                found = np.vstack([found, weight * self.belief.slopes(pose, self.space)])
            return np.asarray(found @ _turning(self.space.change(change))[places])

        found = least_squares(
            residuals, np.zeros(len(self.space.pose)), slopes, method="lm", xtol=1e-12, ftol=1e-12
        )
        degrees = max(self.windows * self.other.shape[1] - len(found.x), 1)
        left = found.fun[: self.both.shape[0] * self.other.shape[1]]
        misfit = float(left @ left) / degrees
        pose = moved(start, self.space.change(found.x))
        apart = self._apart(pose)
        # [m] between two frames of a body: beyond, sensors contradict one another
        if not np.linalg.norm(pose[1]) < 1000.0:
            return PoseEstimate(start, None, misfit, apart)  # of what is so far, maps are rounding
        return PoseEstimate(pose, self._covariance(*self._likely(pose), pose), misfit, apart)

    def _apart(self, pose: Pose) -> float:
        """Return the mean squared normalised residual of the sensor that misfits most."""
        M = self._map(pose)
        size = np.sum(self.other**2, axis=0) / self.windows
        rows, spread = self.other - self.one @ M.T, self._spread(M) + SUMMED**2 * np.diag(size)
        places = range(len(self.space.motion)) if self.counted is None else self.counted
        numbers = [self.space.motion[k] for k in places]
        worst = 0.0
        for own in SENSOR_NUMBERS.values():
            of = [k for k, number in enumerate(numbers) if number in own]
            if of:
                white = whitening(spread[np.ix_(of, of)]) @ rows[:, of].T
                worst = max(worst, float(np.sum(white**2)) / (self.windows * len(of)))
        return worst

    def information(self, moments: Array, pose: Pose) -> Array:
        """Return Σ JᵀJ, J the derivative of C^(−1/2) M(R, t) W by the pose, square.

        Args:
            moments: Σ W Wᵀ of motions in the one frame, shape (k, k).
            pose: Pose at which M is differentiated.
        """
        white = whitening(self._spread(self._map(pose))) @ self._map_slopes(pose)
        flat = (len(white), -1)
        return np.asarray((white @ moments).reshape(flat) @ white.reshape(flat).T)

    def _by_twists(self) -> Pose:
        one, other = self.one, self.other
        return TwistInformation.of(
            one[:, OMEGA], one[:, VELOCITY], other[:, OMEGA], other[:, VELOCITY]
        ).pose()

    def _spread(self, M: Array) -> Array:
        """Return C, the covariance of a window's residual, square, of the components that count."""
        return M @ self.spreads[0] @ M.T + self._own

    @cached_property
    def _own(self) -> Array:
        own = self.spreads[1]
        return own if self.counted is None else own[np.ix_(self.counted, self.counted)]

    def _seen(self) -> tuple[Array, Array]:
        """Return the one frame's motions projected onto directions above noise, and their noise."""
        moments = self.one.T @ self.one / self.windows
        P = signal_projection(moments, self.spreads[0], self.windows / self.overlap)
        return self.one @ P.T, P @ self.spreads[0] @ P.T

    def _likely(self, pose: Pose) -> tuple[Array, Array]:
        """Return the most likely motions in the one frame given both, and their noise."""
        M, noise = self._map(pose), self.spreads[0]
        gain = np.linalg.solve(self._spread(M), M @ noise).T
        return self.one + (self.other - self.one @ M.T) @ gain.T, noise - gain @ M @ noise

    def _covariance(self, motion: Array, noise: Array, pose: Pose) -> Array | None:
        """Return the covariance of a pose; None where motion does not determine it."""
        observed = self.information(motion.T @ motion, pose) / self.overlap
        of_noise = self.information(self.windows * noise, pose) / self.overlap
        known = None if self.belief is None else self.belief.of_numbers(self.space)
        return measured_regressor_covariance(observed, of_noise, self.windows / self.overlap, known)
