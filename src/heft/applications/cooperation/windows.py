"""Windows of one robot's signals: what is agreed between robots, without differentiation of data.

With a smooth window φ of sum one and by partial integration, each window k gives

    W = Σ φ ω    V = Σ φ v    A = −Σ φ' ω = Σ φ α    Q = Σ φ (ω ωᵀ − σ² 1)    S = Σ φ s

with s what the accelerometer reads, and the wrench Σ φ (τ, f). Q is free of the bias of its noise.
From one frame to another of the same body all of them change linearly, whatever the motion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import frame_change, inertia, skew

from .signals import IN_PLANE, ContactSignals, Pose, rates

PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
OMEGA, VELOCITY = slice(0, 3), slice(3, 6)
ALPHA, SQUARES, SPECIFIC = slice(6, 9), slice(9, 15), slice(15, 18)
SIZE = 18  # numbers of a window's motion
SENSOR_NUMBERS = {  # which of them each sensor makes
    "angular_velocity": frozenset((*range(3), *range(6, 15))),
    "velocity": frozenset(range(3, 6)),
    "acceleration": frozenset(range(15, 18)),
}
NEXT_TO_NONE = 1e-6  # of a sensor without noise, in SI units: weights stay finite
SUMMED = 1e-3  # share of a signal to which a sum of its samples is an integral


@dataclass(frozen=True)
class WindowSettings:
    """Settings of windows."""

    length: float = 0.3  # [s]
    stride: float = 0.06  # from one to the next [s]


@dataclass(frozen=True)
class SensorNoise:
    """White noise of one robot's sensors, each axis."""

    angular_velocity: float  # [rad/s]
    velocity: float  # [m/s]
    acceleration: float  # [m/s²]
    force: float  # [N]
    torque: float  # [N·m]

    @staticmethod
    def of(signals: ContactSignals, length: float) -> SensorNoise:
        """Estimate the white noise by third differences, which hardly contain smooth motion.

        A torque that is always zero is that of a point contact, and surely none. What is computed
        with the rate of another signal has noise that is not white: stated is the white noise that
        windows would see as much of.

        Args:
            signals: At least four samples.
            length: Of windows [s].
        """
        repeated = signals.repeated()
        rise = float(np.sqrt(steepness(length)))

        def white(values: Array, bad: NDArray[np.bool_]) -> float:
            works = ~np.lib.stride_tricks.sliding_window_view(bad, 4).any(axis=1)
            rough = np.diff(values, 3, axis=0)[works]
            # 20 is Σ of the squared weights of a third difference.
            return float(1.4826 * np.median(np.abs(rough)) / np.sqrt(20.0)) if len(rough) else 0.0

        def sigma(name: str) -> float:
            if name not in repeated:
                return 0.0
            values, bad = getattr(signals, name), repeated[name]
            if name not in signals.derived:
                return max(white(values, bad), NEXT_TO_NONE)
            other = signals.derived[name]
            still = white(values - rates(signals.time, other), bad)
            return max(float(np.hypot(still, rise * white(other, bad))), NEXT_TO_NONE)

        names = ("angular_velocity", "velocity", "acceleration", "force", "torque")
        return SensorNoise(*(sigma(name) for name in names))


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of one robot, or of what robots agreed on, in one frame."""

    time: Array  # their middles, shape (K,) [s]
    motion: Array  # W, V, A, Q, S, shape (K, 18); see `OMEGA` and others
    wrench: Array  # moment and force, shape (K, 6) [N·m and N]
    spread: Array  # covariance of a window's motion, shape (18, 18)
    wrench_spread: Array  # of its wrench, shape (6, 6)
    overlap: float  # how many windows count as one

    def part(self, rows: slice | Array) -> Windows:
        """Return some of the windows."""
        return replace(
            self, time=self.time[rows], motion=self.motion[rows], wrench=self.wrench[rows]
        )

    def moved(self, pose: Pose) -> Windows:
        """Return the windows in another frame of the body.

        Args:
            pose: R and t that take coordinates to that frame.
        """
        M, D = motion_map(pose), wrench_map(pose)
        return replace(
            self,
            motion=self.motion @ M.T,
            wrench=self.wrench @ D.T,
            spread=M @ self.spread @ M.T,
            wrench_spread=D @ self.wrench_spread @ D.T,
        )


def steepness(length: float) -> float:
    """Return ∫ φ'² over ∫ φ² of a window [1/s²], which is that of its samples' weights.

    Args:
        length: Of the window [s].
    """
    return float((2.0 * np.pi / length) ** 2 / 3.0)


def slope_weights(time: Array, weight: Array, smooth: Array) -> Array:
    """Return weights φ' of a window's samples with −Σ φ' x = Σ φ ẋ.

    Where φ' is sampled, this holds to second order in the time between samples. Here it holds of
    every polynomial up to a degree, by the least change.

    Args:
        time: Times of a window's samples, shape (n,) [s].
        weight: φ of them, shape (n,).
        smooth: Continuous φ' at the samples, shape (n,) [1/s].
    """
    middle, half = 0.5 * (time[0] + time[-1]), 0.5 * (time[-1] - time[0])
    degree = min(12, len(time) // 2)
    x = (time - middle) / half
    powers = legendre.legvander(x, degree)
    rates = legendre.legval(x, legendre.legder(np.eye(degree + 1))).T / half
    lacking = -(weight @ rates) - smooth @ powers
    return np.asarray(smooth + np.linalg.lstsq(powers.T, lacking)[0])


def motion_spread(noise: SensorNoise, plain: float, steep: float, second: Array) -> Array:
    """Return the covariance of a window's motion, shape (18, 18), at the mean of ω ωᵀ.

    Args:
        plain: Σ φ² of the window's weights.
        steep: Σ φ'² [1/s²].
        second: Mean of ω ωᵀ without its noise, shape (3, 3) [rad²/s²].
    """
    gyro = noise.angular_velocity**2
    found = np.zeros((SIZE, SIZE))
    for rows, variance in (
        (OMEGA, plain * gyro),
        (VELOCITY, plain * noise.velocity**2),
        (ALPHA, steep * gyro),
        (SPECIFIC, plain * noise.acceleration**2),
    ):
        found[rows, rows] = variance * np.eye(3)
    values, vectors = np.linalg.eigh(second)
    for value, w in zip(np.maximum(values, 0.0), vectors.T, strict=True):
        J = np.array([_of_pair(a, b, w) for a, b in PAIRS])
        found[SQUARES, SQUARES] += plain * gyro * value * J @ J.T
    own = [2.0 if a == b else 1.0 for a, b in PAIRS]
    found[SQUARES, SQUARES] += plain * gyro**2 * np.diag(own)
    return found


def wrench_spread(noise: SensorNoise, plain: float) -> Array:
    """Return the covariance of a window's moment and force, shape (6, 6).

    Args:
        plain: Σ φ² of the window's weights.
    """
    return plain * np.diag([noise.torque**2] * 3 + [noise.force**2] * 3)


def _of_pair(a: int, b: int, w: Array) -> Array:
    """Return the derivative of w_a w_b by w, shape (3,)."""
    found = np.zeros(3)
    found[a] += w[b]
    found[b] += w[a]
    return found


def motion_map(pose: Pose) -> Array:
    """Return M that takes a window's motion from one frame of a body to another, shape (18, 18).

    With a = s or v̇ − Rᵀg + ω×v: s' = R s + t × R α − ω' × (ω' × t).

    Args:
        pose: R and t that take coordinates of the one frame to those of the other.
    """
    R, t = pose
    found = np.zeros((SIZE, SIZE))
    for rows in (OMEGA, VELOCITY, ALPHA, SPECIFIC):
        found[rows, rows] = R
    found[VELOCITY, OMEGA] = found[SPECIFIC, ALPHA] = skew(t) @ R
    turned = _turned(R)
    found[SQUARES, SQUARES] = turned
    found[SPECIFIC, SQUARES] = -_centripetal(t) @ turned
    return found


def motion_slopes(pose: Pose) -> Array:
    """Return the derivative of M by a small turn in the second frame and by t, shape (6, 18, 18).

    Args:
        pose: R and t that take coordinates of the one frame to those of the other.
    """
    turns = GENERATORS[:3] + np.tensordot(skew(pose[1]).T, GENERATORS[3:], 1)
    return np.concatenate([turns, GENERATORS[3:]]) @ motion_map(pose)


def _turned(R: Array) -> Array:
    """Return the map of ω ωᵀ, in the order of `PAIRS`, to that of R ω, shape (6, 6)."""
    return np.asarray((PRODUCTS @ np.outer(R, R).ravel()).reshape(6, 6))


def _centripetal(t: Array) -> Array:
    """Return C with ω×(ω×t) = C q, q being ω ωᵀ in the order of `PAIRS`, shape (3, 6)."""
    return np.asarray(CENTRIPETAL @ t)


def _centripetal_tensor() -> Array:
    """Return the derivative of C by t, shape (3, 6, 3)."""
    found = np.zeros((3, 6, 3))
    for k, (a, b) in enumerate(PAIRS):
        unit = np.zeros((3, 3))
        unit[a, b] = unit[b, a] = 1.0
        found[:, k] = unit - np.trace(unit) * np.eye(3)
    return found


def _products() -> Array:
    """Return the map from all products of two entries of R to `_turned(R)`, shape (36, 81)."""
    found = np.zeros((6, 6, 9, 9))
    for row, (c, d) in enumerate(PAIRS):
        for column, (a, b) in enumerate(PAIRS):
            once = 0.5 if a == b else 1.0  # of the diagonal one of two equal products is meant
            found[row, column, 3 * c + a, 3 * d + b] += once
            found[row, column, 3 * c + b, 3 * d + a] += once
    return found.reshape(36, 81)


def _generators() -> Array:
    """Return the derivative of M by turn and shift at the identity, shape (6, 18, 18)."""
    found, same = np.zeros((6, SIZE, SIZE)), np.eye(3)
    for k, axis in enumerate(same):
        cross = skew(axis)
        for rows in (OMEGA, VELOCITY, ALPHA, SPECIFIC):
            found[k, rows, rows] = cross
        found[k, SQUARES, SQUARES] = _turned(same + cross) - _turned(same) - _turned(cross)
        found[3 + k, VELOCITY, OMEGA] = found[3 + k, SPECIFIC, ALPHA] = cross
        found[3 + k, SPECIFIC, SQUARES] = -_centripetal(axis)
    return found


PRODUCTS = _products()
CENTRIPETAL = _centripetal_tensor()
GENERATORS = _generators()


def wrench_map(pose: Pose) -> Array:
    """Return D that takes moment and force from one frame of a body to another, shape (6, 6).

    Args:
        pose: R and t that take coordinates of the one frame to those of the other.
    """
    R, t = pose
    found = np.zeros((6, 6))
    found[:3, :3] = found[3:, 3:] = R
    found[:3, 3:] = skew(t) @ R
    return found


def load_tensor() -> Array:
    """Return Z: a window's regressor of the ten parameters is Σ_k motion_k Z_k, shape (18, 6, 10).

    Rows are moment and force about the contact; both sides of Newton's and Euler's equations are
    linear in A, Q and S.
    """
    found = np.zeros((SIZE, 6, 10))
    units, none = np.eye(3), np.zeros((3, 3))
    order = [3, 4, 5, 0, 1, 2]  # regressors are of force, then moment
    found[SPECIFIC] = inertia.wrench_regressor(units, none, none)[:, order]
    found[ALPHA] = inertia.wrench_regressor(none, none, units)[:, order]
    alone = inertia.wrench_regressor(none, units, none)[:, order]
    for k, (a, b) in enumerate(PAIRS):
        both = inertia.wrench_regressor(none[:1], (units[a] + units[b])[None], none[:1])[0][order]
        found[9 + k] = alone[a] if a == b else both - alone[a] - alone[b]
    return found


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
        found = np.zeros(6)
        found[list(self.pose)] = small
        return found

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
        return np.asarray(motion_slopes(pose)[self._slopes_mesh])

    def wrench_map(self, pose: Pose) -> Array:
        """Return D of these components, square."""
        return np.asarray(wrench_map(pose)[self._meshes[1]])

    def load_map(self, pose: Pose) -> Array:
        """Return the map of the load's parameters to another frame, square."""
        return np.asarray(frame_change(*pose)[self._meshes[2]])

    @cached_property
    def _slopes_mesh(self) -> tuple[NDArray[np.intp], ...]:
        return np.ix_(self.pose, self.motion, self.motion)

    @cached_property
    def _meshes(self) -> tuple[tuple[NDArray[np.intp], ...], ...]:
        return tuple(np.ix_(own, own) for own in (self.motion, self.wrench, self.load))

    @cached_property
    def load_tensor(self) -> Array:
        """Z of these components, shape (motion, wrench, load)."""
        return load_tensor()[np.ix_(self.motion, self.wrench, self.load)]


TWISTS = Space(tuple(range(6)), (), tuple(range(6)), ())
SPATIAL = Space(tuple(range(18)), tuple(range(6)), tuple(range(6)), tuple(range(10)))
# ω_z, v_x, v_y, α_z, ω_z², s_x, s_y; τ_z, f_x, f_y; m, h_x, h_y, I_zz
PLANAR = Space((2, 3, 4, 8, 11, 15, 16), (2, 3, 4), (2, 3, 4), IN_PLANE)
