"""Noise of a flight by its own log: of its poses, coloured, and of what pushes it beside actuators.

Poses' noise is autoregressive of first order, `n ← aⁿ n + …`, which is white where a is zero; what
pushes beside the actuators is white from sample to sample. Both are those under which innovations
are most likely, about a path and parameters that are near enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.estimators import LinearisedLog

WHITE = 1e-4  # share of coloured noise's variance that is white, for the filter's sake


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
        leads, own = np.arange(m), np.arange(s, s + m)
        wide, noise = np.zeros((2, count, s + m, s + m))
        wide[:, :s, :s], wide[:, :s, s:] = log.by_error, -log.by_error[:, :, :m]
        start = np.zeros((s + m, s + m))
        noise[:, :s, :s], start[:s, :s] = log.process, log.start
        for rows in (leads, own):
            wide[:, rows, own] += kept
            for columns in (leads, own):
                noise[:, rows, columns] += (1.0 - kept**2) * size
                start[rows, columns] += size
        return replace(
            log,
            by_error=wide,
            by_parameters=np.concatenate([log.by_parameters, more], axis=1),
            defect=np.concatenate([log.defect, more[:, :, 0]], axis=1),
            process=noise,
            start=start,
        )
