"""Extended Kalman filter of a measured pose: the state that a controller sees.

It is fed with the logged measurements and nothing else. A controller that sees better data than
the log writes what it knows into the commands, and an estimator that takes the log's noise for all
there is becomes biased: on simulated flights its squared errors came out ten to twenty times those
that it states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import PLACE, SPEED, SPIN, STATE, TURN, unit_turns

from .flyer_model import FlyerModel, attitude_error


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
    """Extended Kalman filter of a rigid body under known commands."""

    model: FlyerModel  # nominal
    position: float  # standard deviation of the measured position [m]
    angle: float  # of the measured attitude [rad]
    settings: FilterSettings = FilterSettings()  # of the filter

    @property
    def _noise(self) -> Array:
        return np.repeat([self.position**2, self.angle**2], 3)

    def start(self, position: Array, quaternion: Array) -> Filtered:
        """Return the state at the first measured pose, at rest.

        Args:
            position: Shape (3,) [m].
            quaternion: Shape (4,).
        """
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
        """Return the state with a measured pose taken into account; NaN says that there is none.

        Args:
            position: Shape (3,) [m].
            quaternion: Shape (4,).
        """
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
