"""A flight as a system with states: its first path, and its linearisation for the smoother."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.estimators import LinearisedLog
from heft.information import (
    PARAMETER_COUNT,
    Directions,
    angular_velocity,
    inertia,
)
from heft.models import Actuators, FreeFlyer

from .flight_log import FlightLog, filled, hold_times, mean_thrust, pose_regressor

SHARE = 1e-3  # of a step, over which the wrench is differenced by the lag


@dataclass(frozen=True)
class FirstPath:
    """A first path of states, by local cubic polynomials over a window of poses [Savitzky1964]."""

    half: int = 7  # half of the window [samples]
    # distance from where the neighbours lead to, in multiples of the median distance, from which on
    # a sample is bridged
    outlier: float = 15.0
    position: float = 1.0  # standard deviation of the first position about the path [m]
    angle: float = 1.0  # of the first attitude [rad]
    velocity: float = 3.0  # of the first velocity [m/s]
    rate: float = 3.0  # of the first angular velocity [rad/s]

    def states(self, flight: FlightLog) -> Array:
        """Return a path of states, shape (N, 13)."""
        pose = np.hstack(filled(flight, self.outlier))
        smooth, rates, _ = local_polynomial(pose, self.half, float(np.median(flight.steps)))
        w = angular_velocity(smooth[:, 3:], rates[:, 3:])
        unit = smooth[:, 3:] / np.linalg.norm(smooth[:, 3:], axis=1, keepdims=True)
        return np.hstack([smooth[:, :3], unit, rates[:, :3], w])

    def parameters(self, flight: FlightLog, flyer: FreeFlyer) -> Array:
        """Return ten parameters to start from, by least squares of differentiated poses, (10,).

        The window is twice as wide as for the path, since accelerations are noisier; the wrench is
        smoothed alike. The nominal body where what comes out is none that can exist.
        """
        step, half = float(np.median(flight.steps)), 2 * self.half
        pose = np.hstack(filled(flight, self.outlier))
        x, v, a = local_polynomial(pose, half, step)
        Y = pose_regressor(x, v, a, flyer.gravity)
        midway = 0.5 * (flight.wrench + np.roll(flight.wrench, 1, axis=0))  # as at the samples
        wrench = local_polynomial(midway, half, step)[0]
        scale = np.sqrt(np.diag(flyer.actuators.wrench_noise))
        scale = np.where(scale > 0.0, scale, np.inf)
        inner = slice(half, len(x) - half)
        rows = (Y / scale[:, None])[inner].reshape(-1, Y.shape[2])
        solution: Array = np.asarray(
            np.linalg.lstsq(rows, (wrench / scale)[inner].ravel(), rcond=None)[0], dtype=np.float64
        )
        return solution if inertia.consistency_margin(solution) > 0.0 else flyer.nominal

    @property
    def covariance(self) -> Array:
        """Covariance of the first state's error, shape (12, 12)."""
        spread = (self.position, self.angle, self.velocity, self.rate)
        return np.diag(np.repeat(np.square(spread), 3))


def local_polynomial(values: Array, half: int, step: float) -> tuple[Array, Array, Array]:
    """Return signals and two derivatives by cubic polynomials over a window, shape (N, any).

    Args:
        half: Half of the window [samples].
    """
    reach = np.arange(-half, half + 1)
    basis = (reach[:, None] / half) ** np.arange(4)
    kernels = np.linalg.pinv(basis)[:3] * np.array([1.0, 1.0, 2.0])[:, None]
    kernels /= (half * step) ** np.arange(3)[:, None]
    count = len(values)
    # Beyond the ends the log goes on with its last slope, not with its last value.
    beyond = np.arange(1, half + 1)[:, None]
    before = values[0] + (values[0] - values[1]) * beyond[::-1]
    after = values[-1] + (values[-1] - values[-2]) * beyond
    long = np.vstack([before, values, after])
    out = np.zeros((3, *values.shape))
    for k, shift in enumerate(range(2 * half + 1)):
        out += kernels[:, k, None, None] * long[shift : shift + count]
    return out[0], out[1], out[2]


@dataclass(frozen=True, eq=False)
class FlightSystem:
    """A flight as a system for the smoother: twelve errors of states, ten parameters.

    An eleventh parameter is by how much the actuators lag behind what is stated of them, all alike
    [s]; below no lag at all the wrench goes on along its slope there.
    """

    flight: FlightLog  # the log
    actuators: Actuators  # what pushes
    gravity: Array  # in the world, shape (3,) [m/s²]
    start: Array  # covariance of the first state's error, shape (12, 12)

    @staticmethod
    def of(flight: FlightLog, flyer: FreeFlyer, start: Array) -> FlightSystem:
        """Return the system of a flyer's log."""
        return FlightSystem(flight, flyer.actuators, flyer.gravity, start)

    def variance(self, flyer: FreeFlyer) -> Array:
        """Return the variance of measured poses, infinite where they are missing, shape (N, 6)."""
        stated = np.square([flyer.pose.position] * 3 + [flyer.pose.angle] * 3)
        parts = (self.flight.position, self.flight.quaternion)
        # The sum of what is not finite is not finite.
        measured = np.repeat(np.stack([part.sum(axis=1) for part in parts], axis=1), 3, axis=1)
        return np.where(np.isfinite(measured), stated, np.inf)

    def linearised(self, path: Array, values: Array, variance: Array) -> LinearisedLog:
        """Return the log linearised about a path and parameters; see `estimators.System`."""
        steps, wrench = self.flight.steps, self.flight.wrench
        body, more = values[:PARAMETER_COUNT], values[PARAMETER_COUNT:]
        if len(more):
            wrench, slope = self._lagging(float(more[0]))
        t = rigid_body.transitions(path[:-1], wrench[:-1], steps, body, self.gravity)
        by_parameters = t.by_parameters
        if len(more):
            by_lag = np.einsum("nij,nj->ni", t.by_wrench, slope[:-1])
            by_parameters = np.concatenate([by_parameters, by_lag[:, :, None]], axis=2)
        own = self.actuators.wrench_noise
        # A body that is not pushed in some direction has no noise there.
        root = t.by_wrench @ np.linalg.cholesky(own + 1e-12 * np.trace(own) * np.eye(6))
        return LinearisedLog(
            t.by_error,
            by_parameters,
            rigid_body.difference(t.after, path[1:]),
            root @ np.swapaxes(root, 1, 2),
            self.residual(path),
            variance,
            self.start,
        )

    def _lagging(self, more: float) -> tuple[Array, Array]:
        """Return the wrench at a longer lag, and its derivative by the lag, (N, 6) each."""
        lag = self.actuators.lag + more
        least = np.maximum(lag, 0.0)
        holds = hold_times(self.flight.time)
        ahead = SHARE * float(np.median(holds))
        at, beyond = (
            self.actuators.wrench(mean_thrust(self.flight.commands, holds, x))
            for x in (least, least + ahead)
        )
        slope = (beyond - at) / ahead
        return at + min(float(np.min(lag)), 0.0) * slope, slope

    def bound(self, path: Array, values: Array, variance: Array) -> Array:
        """Return the Cramér-Rao bound: the inverse information along the true path, (10, 10).

        No estimate without bias has a smaller covariance, whatever its method.
        """
        t = self.linearised(path, values, variance).innovations.triangle
        inverse = Directions.of(t.R, t.rows).inverse
        return np.asarray(inverse @ inverse.T)

    def residual(self, path: Array) -> Array:
        """Return measured poses less a path's, as pose errors, shape (N, 6) [m, rad]."""
        turned = rigid_body.turned(path[:, rigid_body.TURN], self.flight.quaternion)
        return np.hstack([self.flight.position - path[:, :3], turned])

    def moved(self, path: Array, errors: Array) -> Array:
        """Return a path with errors added to its states, shape (N, 13)."""
        return rigid_body.retract(path, errors)
