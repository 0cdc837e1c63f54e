"""Equations of motion of a free-flying body, with derivatives, of many states at once.

    p' = v,    q' = ½ q ∘ (0, ω),    v' = R a + g,    M [a; α] = A u − b(ω)

with the mass matrix about the frame's origin `M = [m 1, −m c×; m c×, I]` and
`b = [m ω × (ω × c); ω × I ω]`: equations (4), (5) of [Ekal2018] taken about the frame's origin
instead of the centre of mass, where (7) has p̈_c, not p_c as printed, and I is J_c, not J_s.

A state is p, q (w x y z), v, ω: thirteen numbers. Its quaternion is of unit length but for what a
step of integration leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.compiled import plain
from heft.information import cross, inertia, skew
from heft.models import FreeFlyer

from .flyer_kernels import STATE, linearised

PLACE, TURN, SPEED, SPIN = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 13)


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

    @cached_property
    def first(self) -> Array:
        """First moments m c, shape (3,) [kg·m]."""
        return self.parameters[1:4]

    @cached_property
    def inertia(self) -> Array:
        """Inertia about the frame's origin, shape (3, 3) [kg·m²]."""
        return inertia.inertia_matrix(self.parameters)

    @cached_property
    def mass_matrix(self) -> Array:
        """M, shape (6, 6)."""
        cross = skew(self.first)
        return np.block([[self.parameters[0] * np.eye(3), -cross], [cross, self.inertia]])

    @cached_property
    def _compliance(self) -> Array:
        return np.asarray(np.linalg.inv(self.mass_matrix))

    @cached_property
    def _push(self) -> Array:
        return np.asarray(self._compliance @ self.mixing)

    def weight(self, quaternion: Array) -> Array:
        """Return the wrench that balances gravity, shape (N, 6), at attitudes (N, 4)."""
        ups = _turned_back(quaternion, -self.gravity)
        moment = cross(self.first, ups)
        return np.hstack((self.parameters[0] * ups, moment))

    def rate(self, x: Array, u: Array) -> Array:
        """Return x' of states (N, 13) and commands (N, n), shape (N, 13)."""
        turning = x[:, SPIN]
        pushed = self.accelerations(turning, u)
        out = np.empty_like(x)
        out[:, PLACE] = x[:, SPEED]
        out[:, TURN] = 0.5 * _product_with_vector(x[:, TURN], turning)
        out[:, SPEED] = _turned(x[:, TURN], pushed[:, :3]) + self.gravity
        out[:, SPIN] = pushed[:, 3:]
        return out

    def accelerations(self, turning: Array, u: Array) -> Array:
        """Return a (the origin's less gravity) and α in the body's axes, shape (N, 6).

        Args:
            turning: ω, shape (N, 3) [rad/s].
            u: Commands, shape (N, n).
        """
        return np.asarray(u @ self._push.T - self._bias(turning) @ self._compliance.T)

    def _bias(self, turning: Array) -> Array:
        along = np.sum(turning * self.first, axis=1, keepdims=True)
        square = np.sum(turning**2, axis=1, keepdims=True)
        force = turning * along - self.first * square
        return np.hstack((force, cross(turning, turning @ self.inertia)))

    def advanced(self, x: Array, u: Array, step: float) -> Array:
        """Return states after one Runge-Kutta step of fourth order, commands held."""
        k1 = self.rate(x, u)
        k2 = self.rate(x + 0.5 * step * k1, u)
        k3 = self.rate(x + 0.5 * step * k2, u)
        k4 = self.rate(x + step * k3, u)
        return np.asarray(x + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4))

    def advanced_with_slope(self, x: Array, u: Array, step: float) -> tuple[Array, Array]:
        """Return states after one Runge-Kutta step, and derivatives by x and u, (N, 13, 13 + n)."""
        ahead, slope = np.empty_like(x), np.empty((len(x), STATE, STATE + u.shape[1]))
        linearised(*plain(x, u), step, self._body, (ahead, slope))
        return ahead, slope

    @cached_property
    def _body(self) -> tuple[Array, ...]:
        parts = (self.first, self.inertia, self._compliance, self._push, self.gravity)
        return plain(*parts)


def unit_turns(x: Array) -> Array:
    """Return states with quaternions normalised to unit length, shape (N, 13)."""
    out = x.copy()
    out[:, TURN] /= np.linalg.norm(out[:, TURN], axis=1, keepdims=True)
    return out


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
    back = q * np.array([1.0, -1.0, -1.0, -1.0])
    slope = -_turned_slope(back, wanted)
    slope[:, :, 1:] *= -1.0
    return turning - _turned(back, wanted), slope


def _turned(q: Array, a: Array) -> Array:
    w, v = q[:, :1], q[:, 1:]
    size = w**2 - np.sum(v**2, axis=1, keepdims=True)
    return np.asarray(
        size * a + 2.0 * v * np.sum(v * a, axis=1, keepdims=True) + 2.0 * w * cross(v, a)
    )


def _turned_back(q: Array, a: Array) -> Array:
    return _turned(q * np.array([1.0, -1.0, -1.0, -1.0]), np.broadcast_to(a, (len(q), 3)))


def _turned_slope(q: Array, a: Array) -> Array:
    """Return d(R a)/dq, shape (N, 3, 4)."""
    w, v = q[:, :1], q[:, 1:]
    slope = np.empty((len(q), 3, 4))
    slope[:, :, 0] = 2.0 * (w * a + cross(v, a))
    slope[:, :, 1:] = 2.0 * (
        v[:, :, None] * a[:, None, :]
        - a[:, :, None] * v[:, None, :]
        + np.sum(v * a, axis=1)[:, None, None] * np.eye(3)
        - w[:, :, None] * skew(a)
    )
    return slope


def _product_with_vector(q: Array, a: Array) -> Array:
    w, v = q[:, :1], q[:, 1:]
    first = -np.sum(v * a, axis=1, keepdims=True)
    return np.hstack((first, w * a + cross(v, a)))
