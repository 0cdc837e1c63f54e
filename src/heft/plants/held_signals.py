"""Signals of a wrench sensor that carries a rigid body: wrench and motion in the sensor's frame.

Several sensors that carry one body are treated as one: their wrenches are summed in the first
one's frame, and so are their noise covariances, each sensor's its own, which lever arms enlarge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import AXES, skew

CHANNELS = (*(f"force.{a}" for a in AXES), *(f"torque.{a}" for a in AXES))
GAP_STEPS = 3.5  # time steps between samples of a sensor that make a gap
CHANNEL_UNITS = ("N", "N", "N", "N·m", "N·m", "N·m")


@dataclass(frozen=True, eq=False)
class GraspingPoint:
    """A further sensor that holds the same body, relative to the first one."""

    rotation: Array  # R, from its axes to the first one's, shape (3, 3)
    translation: Array  # r, from the first sensor to it, in the first one's axes, shape (3,) [m]
    # standard deviations of its force and of its moment over those of the first
    noise_ratio: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Held:
    """Wrench and motion of a wrench sensor, in the sensor's frame.

    The specific force of the sensor's origin is split as `a − g = dv/dt + f`, so that the weak
    form of the equations needs no acceleration.
    """

    time: Array  # shape (N,) [s]
    wrench: Array  # force on the body and moment about the sensor's origin, shape (N, 6) [N, N·m]
    specific: Array  # f, the part of a − g that is not differentiated, shape (N, 3) [m/s²]
    velocity: Array  # v, the part that is differentiated, shape (N, 3) [m/s]
    angular_velocity: Array  # ω, shape (N, 3) [rad/s]
    # Rᵀ, from the world's axes to the sensor's, shape (N, 3, 3); (N, 3, 0) where it is not known,
    # as with an inertial sensor, which measures a − g itself
    world: Array

    @staticmethod
    def with_accelerometer(
        time: Array,
        wrench: Array,
        acceleration: Array,
        angular_velocity: Array,
        lever: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> Held:
        """Return the signals of a wrench sensor with an inertial sensor fixed to it.

        Args:
            time: Shape (N,) [s].
            wrench: Shape (N, 6) [N, N·m].
            acceleration: Specific force where the accelerometer is, in the sensor's axes,
                centripetal terms included as it reads them, shape (N, 3) [m/s²].
            angular_velocity: ω, shape (N, 3) [rad/s].
            lever: From the accelerometer to the wrench sensor, in its axes, shape (3,) [m].
        """
        w, arm = np.asarray(angular_velocity, dtype=float), np.asarray(lever, dtype=float)
        turning = np.cross(w, arm)
        return Held(
            np.asarray(time, dtype=float),
            np.asarray(wrench, dtype=float),
            np.asarray(acceleration, dtype=float) + np.cross(w, turning),
            turning,
            w,
            np.zeros((len(w), 3, 0)),
        )

    @staticmethod
    def with_velocity(
        time: Array,
        wrench: Array,
        velocity: Array,
        angular_velocity: Array,
        gravity: Array,
        world: Array | None = None,
    ) -> Held:
        """Return the signals of a wrench sensor whose velocity is known, such as on a robot.

        Args:
            time: Shape (N,) [s].
            wrench: Shape (N, 6) [N, N·m].
            velocity: Of the sensor's origin, in its axes, shape (N, 3) [m/s].
            angular_velocity: ω, shape (N, 3) [rad/s].
            gravity: Rᵀg, gravity in the sensor's axes, shape (N, 3) [m/s²].
            world: Rᵀ, shape (N, 3, 3), needed if gravity's direction is to be estimated.
        """
        v, w = np.asarray(velocity, dtype=float), np.asarray(angular_velocity, dtype=float)
        return Held(
            np.asarray(time, dtype=float),
            np.asarray(wrench, dtype=float),
            np.cross(w, v) - np.asarray(gravity, dtype=float),
            v,
            w,
            np.zeros((len(w), 3, 0)) if world is None else np.asarray(world, dtype=float),
        )

    @staticmethod
    def at_rest(time: Array, wrench: Array, gravity: Array, world: Array | None = None) -> Held:
        """Return the signals of static poses, at zero velocity; arguments as of `with_velocity`."""
        still = np.zeros((len(time), 3))
        return Held.with_velocity(time, wrench, still, still, gravity, world)

    @property
    def gravity(self) -> Array:
        """Gravity in the world's axes as assumed, shape (3,) [m/s²]; (0,) where unknown."""
        felt = np.cross(self.angular_velocity[0], self.velocity[0]) - self.specific[0]
        return np.asarray(felt @ self.world[0])

    def part(self, rows: slice | NDArray[np.intp]) -> Held:
        """Return some of the samples."""
        return Held(*(array[rows] for array in vars(self).values()))


def at_first(wrench: Array, rotation: Array, translation: Array) -> Array:
    """Return a wrench of another sensor in the first one's frame, shape (N, 6) [N, N·m].

    `[F; N] → [R F; R N + r × R F]`, a summand of the total wrench on the body.

    Args:
        wrench: Of the other sensor, shape (N, 6) [N, N·m].
        rotation: R, from the other sensor's axes to the first one's, shape (3, 3).
        translation: r, from the first sensor to the other, in the first one's axes, shape (3,)
            [m].
    """
    return np.asarray(wrench @ wrench_change(rotation, translation).T)


def wrench_change(rotation: Array, translation: Array) -> Array:
    """Return the transformation of wrenches in `at_first`, shape (6, 6).

    Args:
        rotation: R, shape (3, 3).
        translation: Shape (3,) [m].
    """
    R = np.asarray(rotation, dtype=float)
    change = np.zeros((6, 6))
    change[:3, :3] = change[3:, 3:] = R
    change[3:, :3] = skew(translation) @ R
    return change


def noise_covariance(force: float, torque: float, others: Sequence[GraspingPoint] = ()) -> Array:
    """Return the noise covariance of a summed wrench, shape (6, 6) [N², N²·m, N²·m²].

    Args:
        force: Standard deviation of the first sensor's forces [N].
        torque: Standard deviation of its moments [N·m].
        others: Further sensors, each with a noise of its own.

    Raises:
        InvalidSetting: If a deviation is not positive and finite.
    """
    if not (math.isfinite(force) and math.isfinite(torque) and min(force, torque) > 0.0):
        raise InvalidSetting(
            "a sensor's noise must be positive", argument="noise", got=f"{force} N, {torque} N·m"
        )
    own = np.repeat([force, torque], 3)
    total = np.diag(own**2)
    for other in others:
        change = wrench_change(other.rotation, other.translation)
        total += change @ np.diag((own * np.repeat(other.noise_ratio, 3)) ** 2) @ change.T
    return total


def whitened(regressor: Array, wrench: Array, covariance: Array) -> Array:
    """Return rows `[Y w]` of unit variance, shape (6 N, p + 1).

    Use it before least squares where the noise of a wrench's components is correlated.

    Args:
        regressor: Y, shape (N, 6, p).
        wrench: w, shape (N, 6) [N, N·m].
        covariance: Noise covariance of each wrench, shape (6, 6).
    """
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    rows = np.concatenate([regressor, wrench[:, :, None]], axis=2)
    return np.asarray((root @ rows).reshape(-1, rows.shape[2]))
