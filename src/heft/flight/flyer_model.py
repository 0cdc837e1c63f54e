"""A free-flying body under its actuators: how far it is from where it is to be, and where it is.

Its motion is that of `dynamics.rigid_body`, whose states these are, under the wrench A u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import PLACE, SPEED, SPIN, STATE, TURN, rigid_body, unit_turns
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
        """Return a (the origin's less gravity) and α in the body's axes at ω and u, (N, 6)."""
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

    [Lee2012, eq. 9], with w = R_d ω_d [rad/s].
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


@dataclass(frozen=True)
class FilterSettings:
    """Process noise and initial standard deviations of the filter."""

    # by which the nominal model is off, white from sample to sample [m/s²]
    acceleration: float = 1.0
    turning: float = 3.0  # likewise of the angular acceleration [rad/s²]
    velocity: float = 0.1  # standard deviation at the start [m/s]
    rate: float = 0.1  # likewise [rad/s]


@dataclass(frozen=True, eq=False)
class Filtered:
    """State and its covariance."""

    state: Array  # x̂, shape (13,)
    covariance: Array  # of errors of p, attitude about the body's axes, v and ω, shape (12, 12)


@dataclass(frozen=True, eq=False)
class FlightFilter:
    """Extended Kalman filter of a measured pose under known commands: what a controller sees.

    It is fed with the logged measurements and nothing else. A controller that sees better data than
    the log writes what it knows into the commands, and an estimator that takes the log's noise for
    all there is becomes biased: on simulated flights its squared errors came out ten to twenty
    times those that it states.
    """

    model: FlyerModel  # nominal
    position: float  # standard deviation of the measured position [m]
    angle: float  # of the measured attitude [rad]
    settings: FilterSettings = FilterSettings()  # of the filter

    @property
    def _noise(self) -> Array:
        return np.repeat([self.position**2, self.angle**2], 3)

    def start(self, position: Array, quaternion: Array) -> Filtered:
        """Return the state at the first measured pose, at rest."""
        s = self.settings
        state = np.concatenate((position, quaternion, np.zeros(6)))
        square = np.repeat([self.position, self.angle, s.velocity, s.rate], 3) ** 2
        return Filtered(state, np.diag(square))

    def predicted(self, now: Filtered, commands: Array, duration: float) -> Filtered:
        """Return the state a sample later, and its covariance.

        Args:
            commands: Held meanwhile, shape (n,).
            duration: Until then [s].
        """
        x, slope = self.model.advanced_with_slope(now.state[None], commands[None], duration)
        ahead = unit_turns(x)[0]
        by_state = slope[0, :, :STATE] @ _spread(now.state[TURN])
        step = _gathered(ahead[TURN]) @ by_state
        s = self.settings
        white = np.repeat([s.acceleration * duration, s.turning * duration], 3) ** 2
        covariance = step @ now.covariance @ step.T
        covariance[np.arange(6, 12), np.arange(6, 12)] += white
        return Filtered(ahead, covariance)

    def updated(self, now: Filtered, position: Array, quaternion: Array) -> Filtered:
        """Return the state with a measured pose taken into account; NaN says that there is none."""
        if not np.isfinite(position).all() or not np.isfinite(quaternion).all():
            return now
        turned = 2.0 * attitude_error(now.state[None, TURN], quaternion[None])[0][0]
        surprise = np.concatenate((position - now.state[PLACE], turned))
        P = now.covariance
        S = P[:6, :6] + np.diag(self._noise)
        gain = np.linalg.solve(S, P[:6]).T
        change = gain @ surprise
        state = now.state.copy()
        state[PLACE] += change[:3]
        state[TURN] = _spread(state[TURN])[TURN, 3:6] @ change[3:6] + state[TURN]
        state[SPEED] += change[6:9]
        state[SPIN] += change[9:]
        kept = np.eye(12)
        kept[:, :6] -= gain
        covariance = kept @ P @ kept.T + (gain * self._noise) @ gain.T
        return Filtered(unit_turns(state[None])[0], covariance)


def _half(q: Array) -> Array:
    """Return Ξ/2 with dq = ½ Ξ(q) dθ, shape (4, 3)."""
    w, x, y, z = 0.5 * q
    return np.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])


def _spread(q: Array) -> Array:
    """Return the map from the twelve error coordinates to changes of the state, shape (13, 12)."""
    out = np.zeros((STATE, 12))
    out[PLACE, 0:3] = out[SPEED, 6:9] = out[SPIN, 9:12] = np.eye(3)
    out[TURN, 3:6] = _half(q)
    return out


def _gathered(q: Array) -> Array:
    """Return the left inverse of `_spread`, shape (12, 13)."""
    out = np.zeros((12, STATE))
    out[0:3, PLACE] = out[6:9, SPEED] = out[9:12, SPIN] = np.eye(3)
    out[3:6, TURN] = 4.0 * _half(q).T
    return out
