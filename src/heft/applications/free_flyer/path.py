"""A flight as a system with states: its first path, and its linearisation for the smoother."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.estimators import LinearisedLog
from heft.information import angular_velocity
from heft.models import FreeFlyer

from .flight import Flight, filled


@dataclass(frozen=True)
class FirstPath:
    """A first path of states, by local cubic polynomials over a window of poses [Savitzky1964].

    Attributes:
        half: Half of the window [samples].
        outlier: Distance from where the neighbours lead to, in multiples of the median distance,
            from which on a sample is bridged.
        position: Standard deviation of the first position about the path [m].
        angle: Of the first attitude [rad].
        velocity: Of the first velocity [m/s].
        rate: Of the first angular velocity [rad/s].
    """

    half: int = 7
    outlier: float = 15.0
    position: float = 1.0
    angle: float = 1.0
    velocity: float = 3.0
    rate: float = 3.0

    def states(self, flight: Flight) -> Array:
        """Return a path of states, shape (N, 13).

        Args:
            flight: The log.
        """
        p, q = filled(flight, self.outlier)
        pose = np.hstack([p, q])
        reach = np.arange(-self.half, self.half + 1)
        basis = np.stack([reach**k for k in range(4)], axis=1) / self.half ** np.arange(4)
        value, slope = np.linalg.pinv(basis)[:2]
        index = np.clip(np.arange(len(p))[:, None] + reach, 0, len(p) - 1)
        # Beyond the ends the log goes on with its last slope, not with its last value.
        beyond = np.arange(len(p))[:, None] + reach - index
        ends = np.where(beyond < 0, 0, len(p) - 2)
        window = pose[index] + beyond[..., None] * (pose[ends + 1] - pose[ends])
        step = float(np.median(flight.steps))
        smooth = np.einsum("w,nwc->nc", value, window)
        rates = np.einsum("w,nwc->nc", slope, window) / (self.half * step)
        w = angular_velocity(smooth[:, 3:], rates[:, 3:])
        unit = smooth[:, 3:] / np.linalg.norm(smooth[:, 3:], axis=1, keepdims=True)
        return np.hstack([smooth[:, :3], rates[:, :3], unit, w])

    @property
    def covariance(self) -> Array:
        """Covariance of the first state's error, shape (12, 12)."""
        spread = (self.position, self.angle, self.velocity, self.rate)
        return np.diag(np.repeat(np.square(spread), 3))


@dataclass(frozen=True, eq=False)
class FlightSystem:
    """A flight as a system for the smoother: twelve errors of states, ten parameters.

    Attributes:
        flight: The log.
        wrench_noise: Covariance of the wrench, white from sample to sample, shape (6, 6).
        gravity: In the world, shape (3,) [m/s²].
        start: Covariance of the first state's error, shape (12, 12).
    """

    flight: Flight
    wrench_noise: Array
    gravity: Array
    start: Array

    @staticmethod
    def of(flight: Flight, flyer: FreeFlyer, start: Array) -> FlightSystem:
        """Return the system of a flyer's log."""
        return FlightSystem(flight, flyer.actuators.wrench_noise, flyer.gravity, start)

    def variance(self, flyer: FreeFlyer) -> Array:
        """Return the variance of what is measured, infinite where it is missing, shape (N, 6)."""
        stated = np.square([flyer.pose.position] * 3 + [flyer.pose.angle] * 3)
        known = np.column_stack(
            [
                np.repeat(np.isfinite(part).all(axis=1)[:, None], 3, axis=1)
                for part in (self.flight.position, self.flight.quaternion)
            ]
        )
        return np.where(known, stated, np.inf)

    def linearised(self, path: Array, values: Array, variance: Array) -> LinearisedLog:
        """Return the log linearised about a path and parameters; see `estimators.System`."""
        steps = self.flight.steps
        t = rigid_body.transitions(path[:-1], self.flight.wrench[:-1], steps, values, self.gravity)
        noise = np.linalg.cholesky(self.wrench_noise + _LEAST * np.trace(self.wrench_noise) * _SIX)
        root = t.by_wrench @ noise
        return LinearisedLog(
            t.by_error,
            t.by_parameters,
            rigid_body.difference(t.after, path[1:]),
            root @ np.swapaxes(root, 1, 2),
            self.residual(path),
            variance,
            self.start,
        )

    def residual(self, path: Array) -> Array:
        """Return measured poses less a path's, in the errors' terms, shape (N, 6) [m, rad]."""
        turned = rigid_body.turned(path[:, 6:10], self.flight.quaternion)
        return np.hstack([self.flight.position - path[:, :3], turned])

    def moved(self, path: Array, errors: Array) -> Array:
        """Return a path moved by errors, shape (N, 13)."""
        return rigid_body.retract(path, errors)


_SIX = np.eye(6)
_LEAST = 1e-12  # of the noise: a body that is not pushed in some direction has none there
