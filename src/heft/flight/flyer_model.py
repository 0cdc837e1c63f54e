"""A free-flying body under its actuators, and how far it is from where it is to be.

Its motion is that of `dynamics.rigid_body`, whose states these are, under the wrench A u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.information import cross, inertia, matrix_of_quaternion, skew
from heft.models import FreeFlyer


@dataclass(frozen=True, eq=False)
class FlyerModel:
    """A rigid body under actuators; see the module."""

    parameters: Array  # its ten, about the frame's origin, shape (10,)
    mixing: Array  # A, shape (6, n)
    gravity: Array  # in the world, shape (3,) [m/s²]

    @staticmethod
    def of(flyer: FreeFlyer, parameters: Array | None = None) -> FlyerModel:
        """Return the model of a body, with its nominal parameters unless others are given."""
        ten = flyer.nominal if parameters is None else parameters
        return FlyerModel(ten, flyer.mixing, flyer.gravity)

    def weight(self, quaternion: Array) -> Array:
        """Return the wrench that balances gravity, shape (N, 6), at attitudes (N, 4)."""
        ups = -self.gravity @ matrix_of_quaternion(quaternion)
        return np.hstack((self.parameters[0] * ups, cross(self.parameters[1:4], ups)))

    def accelerations(self, turning: Array, u: Array) -> Array:
        """Return a (the origin's less gravity) and α in the body's axes, shape (N, 6).

        Args:
            turning: ω, shape (N, 3) [rad/s].
            u: Commands, shape (N, n).
        """
        still = np.zeros_like(turning)
        bias = inertia.wrench_regressor(still, turning, still) @ self.parameters
        M = rigid_body.mass_matrix(self.parameters)
        return np.asarray(np.linalg.solve(M, (u @ self.mixing.T - bias).T).T)

    def advanced(self, x: Array, u: Array, step: float) -> Array:
        """Return states after one Runge-Kutta step of fourth order, commands held."""
        return self.advanced_with_slope(x, u, step)[0]

    def advanced_with_slope(self, x: Array, u: Array, step: float) -> tuple[Array, Array]:
        """Return states after one Runge-Kutta step, and derivatives by x and u, (N, 13, 13 + n)."""
        wrench = u @ self.mixing.T
        ahead, slope = rigid_body.linearised(x, wrench, step, self.parameters, self.gravity)
        own, by_wrench = np.split(slope, [rigid_body.STATE], axis=2)
        return ahead, np.concatenate((own, by_wrench @ self.mixing), axis=2)


def attitude_error(desired: Array, q: Array) -> tuple[Array, Array]:
    """Return Lee's attitude error and its derivative by q, shapes (N, 3) and (N, 3, 4).

    `e = (R_dᵀ R − Rᵀ R_d)^∨ / (2 √(1 + tr R_dᵀ R))` [Lee2012, eq. 8] is the vector part of the
    quaternion q_d* q, of the sign that makes its first part positive: linear in q, and monotonic
    in the angle up to half a turn.

    Args:
        desired: q_d, shape (N, 4).
        q: Shape (N, 4).
    """
    w, v = desired[:, :1], desired[:, 1:]
    sign = np.where(np.sum(desired * q, axis=1) < 0.0, -1.0, 1.0)[:, None, None]
    slope = np.empty((len(q), 3, 4))
    slope[:, :, 0] = -v
    slope[:, :, 1:] = w[:, :, None] * np.eye(3) - skew(v)
    slope = sign * slope
    return np.einsum("nij,nj->ni", slope, q), slope


def rate_error(turning: Array, q: Array, wanted: Array) -> tuple[Array, Array]:
    """Return ω − Rᵀ w and its derivative by q, for desired angular velocities w in the world.

    [Lee2012, eq. 9], with w = R_d ω_d.

    Args:
        turning: ω in the body's axes, shape (N, 3) [rad/s].
        q: Shape (N, 4).
        wanted: w, shape (N, 3) [rad/s].
    """
    w, v = q[:, :1], q[:, 1:]
    slope = np.empty((len(q), 3, 4))  # of Rᵀ w
    slope[:, :, 0] = 2.0 * (w * wanted - cross(v, wanted))
    slope[:, :, 1:] = 2.0 * (
        v[:, :, None] * wanted[:, None, :]
        - wanted[:, :, None] * v[:, None, :]
        + np.sum(v * wanted, axis=1)[:, None, None] * np.eye(3)
        + w[:, :, None] * skew(wanted)
    )
    # R is of second degree in q: half its derivative times q gives it back (Euler's theorem).
    return turning - 0.5 * np.einsum("nij,nj->ni", slope, q), -slope
