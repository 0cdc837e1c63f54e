"""Noise of a flight by its own log: of its poses, coloured, and of what pushes it beside actuators.

Poses' noise is autoregressive of first order, `n ← aⁿ n + …`, which is white where a is zero; what
pushes beside the actuators is white from sample to sample. Both are those under which innovations
are most likely, about a path and parameters that are near enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from heft.arrays import Array
from heft.estimators import LinearisedLog

if TYPE_CHECKING:
    from .path import FlightSystem

MOST = 1500  # samples by which noise is told
WHITE = 1e-4  # share of coloured noise's variance that is white, for the filter's sake
LARGEST = 8.0  # of log (1 + a)/(1 − a): noise that hangs together over some thousand samples
SMALLEST = 1e-2  # of noise, to that of the pose or of the actuators as stated
ENOUGH = 1e-5  # relative improvement of the log-likelihood below which it ends
ROUNDS = 15  # of the search, at most


@dataclass(frozen=True)
class FlightNoise:
    """Noise of poses, and of the wrench beside the actuators'."""

    position: float  # standard deviation, an axis [m]
    angle: float  # standard deviation, about an axis [rad]
    # factor a from sample to sample of the noise of position and of angle; zero if white
    colour: tuple[float, float] = (0.0, 0.0)
    force: float = 0.0  # standard deviation, an axis, white from sample to sample [N]
    moment: float = 0.0  # likewise [N·m]

    @property
    def variance(self) -> Array:
        """Variance of all of a pose's noise, shape (6,)."""
        return np.repeat(np.square([self.position, self.angle]), 3)

    @property
    def measured(self) -> Array:
        """Variance of what is white of it, shape (6,)."""
        return self.variance * (WHITE if any(self.colour) else 1.0)

    def of_state(self, log: LinearisedLog, steps: Array) -> LinearisedLog:
        """Return a log whose errors have the coloured noise behind them, eighteen of them.

        What is measured leads: errors of the pose with the noise in them.
        """
        if not any(self.colour):
            return log
        count, s, m = len(steps), len(log.start), 6
        more = np.zeros((count, m, log.by_parameters.shape[2]))
        kept = np.repeat(self.colour, 3) ** (steps / np.median(steps))[:, None]
        size = (1.0 - WHITE) * self.variance
        sum_, less = np.eye(s + m), np.eye(s + m)
        sum_[:m, s:], less[:m, s:] = np.eye(m), -np.eye(m)
        wide, noise = np.zeros((2, count, s + m, s + m))
        wide[:, :s, :s], noise[:, :s, :s] = log.by_error, log.process
        ends = np.arange(s, s + m)
        wide[:, ends, ends], noise[:, ends, ends] = kept, (1.0 - kept**2) * size
        start = np.diag(np.append(np.zeros(s), size))
        start[:s, :s] = log.start
        return replace(
            log,
            by_error=sum_ @ wide @ less,
            by_parameters=np.concatenate([log.by_parameters, more], axis=1),
            defect=np.concatenate([log.defect, more[:, :, 0]], axis=1),
            process=sum_ @ noise @ sum_.T,
            start=sum_ @ start @ sum_.T,
        )


def likely_noise(
    system: FlightSystem, path: Array, values: Array, variance: Array, coloured: bool
) -> FlightNoise:
    """Return the most likely noise of a log about a path and parameters.

    Args:
        variance: Infinite for measurements that do not count, shape (N, 6).
        coloured: Whether noise of poses may be other than white.
    """
    from scipy.optimize import minimize

    cut = slice(max((len(path) - MOST) // 2, 0), None)
    cut = slice(cut.start, cut.start + MOST)
    part = replace(system, flight=system.flight.part(cut))
    seen = np.where(np.isfinite(variance[cut]), 0.0, np.inf)
    steps = part.steps_about(path[cut], values)
    own = np.sqrt(np.diag(system.actuators.wrench_noise).reshape(2, 3).mean(axis=1)) + 1e-12
    size = np.array([system.noise.position, system.noise.angle, *own])

    def noise(x: Array) -> FlightNoise:
        position, angle, force, moment = size * np.exp(x[:4])
        colour = np.tanh(0.5 * x[4:])
        return FlightNoise(position, angle, (colour[0], colour[1]), force, moment)

    def unlikely(x: Array) -> float:
        trial = replace(part, noise=noise(x))
        found = trial.with_noise(steps, seen + trial.noise.measured).innovations
        diagonal = np.diagonal(found.inverse, axis1=1, axis2=2)
        return float(0.5 * found.triangle.factor[-1, -1] ** 2 - np.sum(np.log(diagonal)))

    far = np.log(1e3)
    ends = [(np.log(SMALLEST), far)] * 4 + [(0.0, LARGEST * coloured)] * 2
    start = np.array([0.0, 0.0, np.log(0.1), np.log(0.1), coloured, coloured])
    settings = {"maxiter": ROUNDS, "ftol": ENOUGH, "eps": 1e-3}
    return noise(minimize(unlikely, start, method="L-BFGS-B", bounds=ends, options=settings).x)
