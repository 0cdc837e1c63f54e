"""Windows of the motion of one body, in its frames: how frames lie in one another by them.

With a smooth window φ of sum one and by partial integration, each window k gives

    W = Σ φ ω    V = Σ φ v    A = −Σ φ' ω = Σ φ α    Q = Σ φ (ω ωᵀ − σ² 1)    S = Σ φ s

with s what the accelerometer reads, and the wrench Σ φ (τ, f). Q is free of the bias of its noise.
From one frame to another of the same body all of them change linearly, whatever the motion.

The pose of one frame in another is that of maximum likelihood with both motions unknown: the sum
over windows of eᵀ C⁻¹ e with e = W_j − M(R, t) W_i and C its covariance, which depends on t. That
weight is what least squares lack, whose translation is attenuated by noise in the angular velocity
however long they look. Noise in W_i is no information: where motion is no more than noise, a pose
is not told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import leastsq

from heft.arrays import Array
from heft.estimators import (
    TwistInformation,
    measured_regressor_covariance,
    signal_projection,
    whitening,
    whitening_slopes,
)
from heft.information import (
    frame_change,
    inertia,
    matrix_of_rotation_vector,
    rotation_vector_of_matrix,
    skew,
)

# R (3, 3) and t (3,) [m] that take coordinates of one frame to those of another
Pose = tuple[Array, Array]
IN_PLANE = (0, 1, 2, 9)  # of the ten parameters: m, h_x, h_y, I_zz
PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
OMEGA, VELOCITY = slice(0, 3), slice(3, 6)
ALPHA, SQUARES, SPECIFIC = slice(6, 9), slice(9, 15), slice(15, 18)
SIZE = 18  # numbers of a window's motion
SENSOR_NUMBERS = {  # which of them each sensor makes
    "angular_velocity": frozenset((*range(3), *range(6, 15))),
    "velocity": frozenset(range(3, 6)),
    "acceleration": frozenset(range(15, 18)),
}
SUMMED = 1e-3  # share of a signal to which a sum of its samples is an integral


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one robot, or of what robots agreed on, in one frame."""

    time: Array  # their middles, shape (K,) [s]
    motion: Array  # W, V, A, Q, S, shape (K, 18); see `OMEGA` and others
    wrench: Array  # moment and force, shape (K, 6) [N·m and N]
    spread: Array  # covariance of a window's motion, shape (18, 18)
    wrench_spread: Array  # of its wrench, shape (6, 6)
    overlap: float  # how many windows count as one

    def moved(self, pose: Pose) -> Windows:
        """Return the windows in the frame of the body that a pose takes coordinates to."""
        M, D = motion_map(pose), wrench_map(pose)
        return replace(
            self,
            motion=self.motion @ M.T,
            wrench=self.wrench @ D.T,
            spread=M @ self.spread @ M.T,
            wrench_spread=D @ self.wrench_spread @ D.T,
        )


def motion_map(pose: Pose) -> Array:
    """Return M that takes a window's motion from one frame of a body to another, shape (18, 18).

    With a = s or v̇ − Rᵀg + ω×v: s' = R s + t × R α − ω' × (ω' × t).
    """
    R, t = pose
    made = np.zeros((SIZE, SIZE))
    for rows in (OMEGA, VELOCITY, ALPHA, SPECIFIC):
        made[rows, rows] = R
    made[VELOCITY, OMEGA] = made[SPECIFIC, ALPHA] = skew(t) @ R
    turned = _turned(R)
    made[SQUARES, SQUARES] = turned
    made[SPECIFIC, SQUARES] = -(CENTRIPETAL @ t) @ turned
    return made


def motion_slopes(pose: Pose) -> Array:
    """Return the derivative of M by a small turn in the second frame and by t, (6, 18, 18)."""
    levers = (skew(pose[1]).T @ GENERATORS[3:].reshape(3, -1)).reshape(3, SIZE, SIZE)
    return np.concatenate([GENERATORS[:3] + levers, GENERATORS[3:]]) @ motion_map(pose)


def _turned(R: Array) -> Array:
    """Return the map of ω ωᵀ, in the order of `PAIRS`, to that of R ω, shape (6, 6)."""
    return np.asarray((PRODUCTS @ np.outer(R, R).ravel()).reshape(6, 6))


def _centripetal() -> Array:
    """Return C with ω×(ω×t) = (C t) q, q being ω ωᵀ in the order of `PAIRS`, shape (3, 6, 3)."""
    made = np.zeros((3, 6, 3))
    for k, (a, b) in enumerate(PAIRS):
        unit = np.zeros((3, 3))
        unit[a, b] = unit[b, a] = 1.0
        made[:, k] = unit - np.trace(unit) * np.eye(3)
    return made


def _products() -> Array:
    """Return the map from all products of two entries of R to `_turned(R)`, shape (36, 81)."""
    made = np.zeros((6, 6, 9, 9))
    for row, (c, d) in enumerate(PAIRS):
        for column, (a, b) in enumerate(PAIRS):
            once = 0.5 if a == b else 1.0  # of the diagonal one of two equal products is meant
            made[row, column, 3 * c + a, 3 * d + b] += once
            made[row, column, 3 * c + b, 3 * d + a] += once
    return made.reshape(36, 81)


def _generators() -> Array:
    """Return the derivative of M by turn and shift at the identity, shape (6, 18, 18)."""
    made, same = np.zeros((6, SIZE, SIZE)), np.eye(3)
    for k, axis in enumerate(same):
        cross = skew(axis)
        for rows in (OMEGA, VELOCITY, ALPHA, SPECIFIC):
            made[k, rows, rows] = cross
        made[k, SQUARES, SQUARES] = _turned(same + cross) - _turned(same) - _turned(cross)
        made[3 + k, VELOCITY, OMEGA] = made[3 + k, SPECIFIC, ALPHA] = cross
        made[3 + k, SPECIFIC, SQUARES] = -(CENTRIPETAL @ axis)
    return made


PRODUCTS = _products()
CENTRIPETAL = _centripetal()
GENERATORS = _generators()


def wrench_map(pose: Pose) -> Array:
    """Return D that takes moment and force from one frame of a body to another, shape (6, 6)."""
    R, t = pose
    made = np.zeros((6, 6))
    made[:3, :3] = made[3:, 3:] = R
    made[:3, 3:] = skew(t) @ R
    return made


def wrench_slopes(pose: Pose) -> Array:
    """Return the derivative of D by a small turn in the second frame and by t, shape (6, 6, 6)."""
    R, t = pose
    made, turns = np.zeros((6, 6, 6)), skew(np.eye(3)) @ R
    made[:3, :3, :3] = made[:3, 3:, 3:] = made[3:, :3, 3:] = turns
    made[:3, :3, 3:] = skew(t) @ turns
    return made


def load_tensor() -> Array:
    """Return Z: a window's regressor of the ten parameters is Σ_k motion_k Z_k, shape (18, 6, 10).

    Rows are moment and force about the contact; both sides of Newton's and Euler's equations are
    linear in A, Q and S.
    """
    made = np.zeros((SIZE, 6, 10))
    units, none = np.eye(3), np.zeros((3, 3))
    order = [3, 4, 5, 0, 1, 2]  # regressors are of force, then moment
    made[SPECIFIC] = inertia.wrench_regressor(units, none, none)[:, order]
    made[ALPHA] = inertia.wrench_regressor(none, none, units)[:, order]
    alone = inertia.wrench_regressor(none, units, none)[:, order]
    for k, (a, b) in enumerate(PAIRS):
        both = inertia.wrench_regressor(none[:1], (units[a] + units[b])[None], none[:1])[0][order]
        made[9 + k] = alone[a] if a == b else both - alone[a] - alone[b]
    return made


@dataclass(frozen=True)
class Space:
    """Components of windows, poses and loads that are used: all, or those of a plane."""

    motion: tuple[int, ...]  # of a window's motion, places among the 18
    wrench: tuple[int, ...]  # of its wrench, places among the 6
    pose: tuple[int, ...]  # of a small turn and shift, places among the 6
    load: tuple[int, ...]  # of the ten parameters

    @property
    def planar(self) -> bool:
        """Whether they are those of a plane."""
        return len(self.pose) < 6

    def change(self, small: Array) -> Array:
        """Return the turn and shift, shape (6,), of the components used; others are zero."""
        made = np.zeros(6)
        made[list(self.pose)] = small
        return made

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of the components used among a window's 24."""
        return (*self.motion, *(SIZE + k for k in self.wrench))

    def of(self, windows: Windows) -> Windows:
        """Return windows of these components alone."""
        return replace(
            windows,
            motion=windows.motion[:, self.motion],
            wrench=windows.wrench[:, self.wrench],
            spread=windows.spread[np.ix_(self.motion, self.motion)],
            wrench_spread=windows.wrench_spread[np.ix_(self.wrench, self.wrench)],
        )

    def compared(self, without: str | None = None) -> tuple[int, ...]:
        """Return indices into `motion` of the components that tell how frames lie in one another.

        All but products of ω: their noise is that of ω, and would count again.

        Args:
            without: Sensor whose components are left out, of `SENSOR_NUMBERS`.
        """
        own = {*range(SIZE)[SQUARES], *SENSOR_NUMBERS.get(without or "", ())}
        return tuple(k for k, number in enumerate(self.motion) if number not in own)

    def motion_map(self, pose: Pose) -> Array:
        """Return M of these components, square."""
        return np.asarray(motion_map(pose)[self._meshes[0]])

    def motion_slopes(self, pose: Pose) -> Array:
        """Return the derivative of M by the turns and shifts used, shape (any, k, k)."""
        return np.asarray(motion_slopes(pose)[self._meshes[3]])

    def wrench_map(self, pose: Pose) -> Array:
        """Return D of these components, square."""
        return np.asarray(wrench_map(pose)[self._meshes[1]])

    def wrench_slopes(self, pose: Pose) -> Array:
        """Return the derivative of D by the turns and shifts used, shape (any, r, r)."""
        return np.asarray(wrench_slopes(pose)[np.ix_(self.pose, self.wrench, self.wrench)])

    def load_map(self, pose: Pose) -> Array:
        """Return the map of the load's parameters to another frame, square."""
        return np.asarray(frame_change(*pose)[self._meshes[2]])

    @cached_property
    def _meshes(self) -> tuple[tuple[NDArray[np.intp], ...], ...]:
        square = (np.ix_(own, own) for own in (self.motion, self.wrench, self.load))
        return *square, np.ix_(self.pose, self.motion, self.motion)

    @cached_property
    def load_tensor(self) -> Array:
        """Z of these components, shape (motion, wrench, load)."""
        return load_tensor()[np.ix_(self.motion, self.wrench, self.load)]


TWISTS = Space(tuple(range(6)), (), tuple(range(6)), ())
SPATIAL = Space(tuple(range(18)), tuple(range(6)), tuple(range(6)), tuple(range(10)))
# ω_z, v_x, v_y, α_z, ω_z², s_x, s_y; τ_z, f_x, f_y; m, h_x, h_y, I_zz
PLANAR = Space((2, 3, 4, 8, 11, 15, 16), (2, 3, 4), (2, 3, 4), IN_PLANE)


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


def signal_motion(motion: Array, noise: Array, windows: int, overlap: float) -> tuple[Array, Array]:
    """Return motions projected onto directions above noise, and the covariance of their noise.

    Args:
        motion: Of windows, or any factor with their second moments, shape (any, k).
        noise: Covariance of a window's, shape (k, k).
    """
    P, noisy = np.eye(len(noise)), np.flatnonzero(np.diag(noise))
    own = np.ix_(noisy, noisy)
    moments = (motion.T @ motion / windows)[own]
    P[own] = signal_projection(moments, noise[own], windows / overlap)
    return motion @ P.T, P @ noise @ P.T


def likely_motion(
    motion: Array, other: Array, M: Array, noise: Array, spread: Array
) -> tuple[Array, Array]:
    """Return the most likely motions given other = M motion, and the covariance of their noise.

    Args:
        noise: Covariance of a window's motion, shape (k, k).
        spread: Of other − M motion.
    """
    gain = np.linalg.solve(spread, M @ noise).T
    return motion + (other - motion @ M.T) @ gain.T, noise - gain @ M @ noise


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
    made = np.eye(6)
    if angle > 1e-4:
        half = math.sin(0.5 * angle) / angle
        made[:3, :3] += 2.0 * half**2 * cross
        made[:3, :3] += (1.0 - math.sin(angle) / angle) / angle**2 * (cross @ cross)
    else:  # to within rounding
        made[:3, :3] += 0.5 * cross + (cross @ cross) / 6.0
    return made


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
    def numbers(self) -> list[int]:
        """Places of the other's numbers that count."""
        return list(range(len(self.spreads[1])) if self.counted is None else self.counted)

    @cached_property
    def other(self) -> Array:
        """Motions in the other frame, shape (any, k), or only the components that count."""
        return self.both[:, len(self.spreads[0]) :][:, self.numbers]

    def _map(self, pose: Pose) -> Array:
        """Return the rows of M that count, shape (any, k)."""
        return self.space.motion_map(pose)[self.numbers]

    def _map_slopes(self, pose: Pose) -> Array:
        """Return the derivative of M by a small turn and shift, shape (p, any, k)."""
        return self.space.motion_slopes(pose)[:, self.numbers]

    def _white(self, pose: Pose) -> tuple[Array, Array, Array]:
        """Return M, the whitening matrix, and the whitened residuals, shape (any, K)."""
        M = self._map(pose)
        W = whitening(self._spread(M))
        return M, W, W @ (self.other - self.one @ M.T).T

    def _slopes(self, pose: Pose, M: Array, W: Array, rest: Array) -> Array:
        """Return the derivative of whitened residuals by a small turn and shift, shape (any, p)."""
        white = W @ self._map_slopes(pose)
        half = white @ (self.spreads[0] @ M.T @ W.T)
        made = whitening_slopes(half + np.swapaxes(half, 1, 2)) @ rest - white @ self.one.T
        return np.asarray(made.reshape(len(white), -1).T)

    def estimate(self, guess: Pose | None = None) -> PoseEstimate:
        """Return the pose that takes coordinates of the one frame to those of the other.

        Args:
            guess: Initial pose; from both twists by least squares if None.
        """
        start = guess
        if start is None:
            if self.space.planar:
                start = planar_pose(self.one, self.other)
            else:
                both = (x[:, k] for x in (self.one, self.other) for k in (OMEGA, VELOCITY))
                start = TwistInformation.of(*both).pose()
        # A pose far from the truth makes likely motions of what misfits: what was read decides
        seen = signal_motion(self.one, self.spreads[0], self.windows, self.overlap)
        if self._covariance(*seen, start) is None:
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
            made = self._slopes(pose, *white)
            if self.belief is not None:
                made = np.vstack([made, weight * self.belief.slopes(pose, self.space)])
            return np.asarray(made @ _turning(self.space.change(change))[places])

        nothing = np.zeros(len(self.space.pose))
        # Of MINPACK itself: what is around it elsewhere takes as long as a fit of so few numbers
        change, _, made, _, _ = leastsq(
            residuals, nothing, Dfun=slopes, full_output=True, xtol=1e-12, ftol=1e-12, gtol=1e-8,
            diag=nothing + 1.0,
        )  # fmt: skip
        degrees = max(self.windows * self.other.shape[1] - len(change), 1)
        residual = made["fvec"][: self.both.shape[0] * self.other.shape[1]]
        misfit = float(residual @ residual) / degrees
        pose = moved(start, self.space.change(change))
        apart = self._apart(pose)
        # [m] between two frames of a body: beyond, sensors contradict one another
        if not np.linalg.norm(pose[1]) < 1000.0:
            return PoseEstimate(start, None, misfit, apart)  # of what is so far, maps are rounding
        M = self._map(pose)
        likely = likely_motion(self.one, self.other, M, self.spreads[0], self._spread(M))
        return PoseEstimate(pose, self._covariance(*likely, pose), misfit, apart)

    def _apart(self, pose: Pose) -> float:
        """Return the mean squared normalised residual of the sensor that misfits most."""
        M = self._map(pose)
        size = np.sum(self.other**2, axis=0) / self.windows
        rows, spread = self.other - self.one @ M.T, self._spread(M) + SUMMED**2 * np.diag(size)
        numbers = [self.space.motion[k] for k in self.numbers]
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

    def _spread(self, M: Array) -> Array:
        """Return C, the covariance of a window's residual, square, of the components that count."""
        return M @ self.spreads[0] @ M.T + self.spreads[1][np.ix_(self.numbers, self.numbers)]

    def _covariance(self, motion: Array, noise: Array, pose: Pose) -> Array | None:
        """Return the covariance of a pose; None where motion does not determine it."""
        observed = self.information(motion.T @ motion, pose) / self.overlap
        of_noise = self.information(self.windows * noise, pose) / self.overlap
        known = None if self.belief is None else self.belief.of_numbers(self.space)
        return measured_regressor_covariance(observed, of_noise, self.windows / self.overlap, known)
