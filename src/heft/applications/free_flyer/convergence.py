"""What a flight said of the load until each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from heft.arrays import Array
from heft.information import Directions, inertia, triangle_of
from heft.models import FreeFlyer

from .flight_log import FlightLog
from .identify import FreeFlyerResult

NAMES = ("mass", "com.x", "com.y", "com.z")
TIMES = 120  # at which the estimate is looked at
KNOWN = 0.25  # of the mass: its deviation below which there is something to show


@dataclass(frozen=True, eq=False)
class Convergence:
    """Load estimates from the log up to each of K times, from when its mass is determined on.

    The innovations of a Kalman filter about the smoothed path: those until a time are the
    information until then, with the covariance widened as that of the result.
    """

    time: Array  # since the first sample, shape (K,) [s]
    values: Array  # mass [kg] and centre of mass [m], shape (K, 4)
    std: Array  # their deviations, shape (K, 4)

    @property
    def numbers(self) -> Mapping[str, tuple[Array, Array]]:
        """Values and standard deviations by name."""
        return {n: (self.values[:, k], self.std[:, k]) for k, n in enumerate(NAMES)}

    @staticmethod
    def of(result: FreeFlyerResult, flight: FlightLog, flyer: FreeFlyer) -> Convergence:
        """Return the load's estimate as a flight goes on.

        Args:
            result: Of the whole flight.
        """
        smoothed, size = result.smoothed, len(flyer.nominal)
        known = np.zeros(smoothed.rows.shape[2])
        known[:size] = flyer.nominal
        # Innovations are what was measured less what the parameters explain of it.
        right = smoothed.white + smoothed.rows @ (smoothed.values - known)
        # What is found beside the ten goes first, so that rows behind it are without it.
        more = smoothed.rows[:, :, size:]
        rows = np.concatenate([more, smoothed.rows[:, :, :size], right[:, :, None]], axis=2)
        factor, wider = np.empty((0, rows.shape[2])), np.sqrt(result.inflation)
        found = []
        cuts = np.linspace(0, len(rows), min(TIMES, len(rows)) + 1).astype(int)
        for begin, end in pairwise(cuts):
            flat = rows[begin:end].reshape(-1, rows.shape[2])
            factor = triangle_of(np.vstack([factor, flat]))
            ten = factor[more.shape[2] : -1, more.shape[2] :]
            seen = Directions.of(ten[:, :-1], 6 * end)
            if seen.rank < size:
                continue
            load = seen.shortest(ten[:, -1])
            numbers, jacobian = inertia.stated_body(load)
            spread = wider * np.linalg.norm(jacobian[:4] @ seen.inverse, axis=1)
            if spread[0] <= KNOWN * numbers[0]:
                found.append((flight.time[end - 1] - flight.time[0], numbers[:4], spread))
        if not found:
            return Convergence(np.empty(0), np.empty((0, 4)), np.empty((0, 4)))
        time, values, std = (np.array(x) for x in zip(*found, strict=True))
        return Convergence(time, values, std)
