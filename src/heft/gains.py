"""Gains of drives: what a torque that is a current times a constant must be multiplied by.

Where torque is a motor's current times a gain from a data sheet, the gain is known to a few
per cent. A channel then reads `τ = c (Y β)` with c near 1 (Y here with friction's columns). It
is solved by Gauss-Newton on the channels' triangles: at (c₀, β₀) the rows are
`[c₀ Y, Y β₀] [β; c − c₀]`, one more column a channel; nothing is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .cone import BelievedLike
from .consistency import ConsistentEstimate, PhysicallyConsistent
from .estimators import Estimate
from .inertia import Array
from .information import Triangle, triangle_of
from .parameters import Labels


@dataclass(frozen=True)
class WithGains:
    """What is believed of a plant's parameters, gains behind them; see `plants.Believed`."""

    labels: Labels
    matrix: Array
    nominal: Array
    groups: tuple[int, ...]
    nonnegative: tuple[int, ...]


@dataclass(frozen=True)
class Calibrated:
    """A consistent estimate with the drives' gains.

    Attributes:
        consistent: The parameters, gains' changes of the last round behind them.
        gains: By channel, 1 where known.
        std: Their standard deviations.
        triangle: What the parameters and gains were fitted to.
        believed: What was believed of them.
    """

    consistent: ConsistentEstimate
    gains: Mapping[str, float]
    std: Mapping[str, float]
    triangle: Triangle
    believed: WithGains


@dataclass(frozen=True)
class DriveGains:
    """Physically consistent parameters with unknown gains.

    Attributes:
        solver: The consistent fit.
        rounds: Gauss-Newton steps at most.
        tolerance: Largest step of a gain that ends them.
    """

    solver: PhysicallyConsistent = PhysicallyConsistent()
    rounds: int = 8
    tolerance: float = 1e-4

    def fit(
        self, estimate: Estimate, believed: BelievedLike, spread: Mapping[str, float]
    ) -> Calibrated:
        """Return the estimate.

        Args:
            estimate: Base parameters, for information and noise of each channel.
            believed: What x is, and what the model file says of it.
            spread: Relative standard deviation of each gain that is not known exactly.
        """
        channels = estimate.information.channels
        unsure = [c for c in channels if spread.get(c, 0.0) > 0.0]
        gains = dict.fromkeys(channels, 1.0)
        point = np.zeros(len(estimate.information.labels))
        wide = _with_gains(believed, unsure)
        for round_ in range(self.rounds + 1):
            maps = [self._map(c, gains[c], point, unsure) for c in channels]
            triangle = self._triangle(estimate, maps, unsure, spread, gains)
            weights = estimate.weights()
            noise = estimate.noise.moments(
                estimate.information, [weights[c] for c in channels], maps
            )
            found = self.solver.fit(triangle, wide, noise)
            values = found.parameters.values
            size = len(believed.labels)
            point = believed.matrix @ values[:size]
            steps = values[size:]
            for c, step in zip(unsure, steps.tolist(), strict=True):
                gains[c] += step
            if not unsure or (round_ and np.abs(steps).max() < self.tolerance):
                break
        std = dict(zip(unsure, found.parameters.std[size:].tolist(), strict=True))
        return Calibrated(found, gains, dict.fromkeys(channels, 0.0) | std, triangle, wide)

    def _map(self, channel: str, gain: float, point: Array, unsure: list[str]) -> Array:
        """Return T with `τ = Y T [β; changes of gains]`, for one channel."""
        beside = np.zeros((len(point), len(unsure)))
        if channel in unsure:
            beside[:, unsure.index(channel)] = point
        return np.hstack([gain * np.eye(len(point)), beside])

    def _triangle(
        self,
        estimate: Estimate,
        maps: list[Array],
        unsure: list[str],
        spread: Mapping[str, float],
        gains: Mapping[str, float],
    ) -> Triangle:
        information, weights = estimate.information, estimate.weights()
        size = len(information.labels)
        width = size + len(unsure)
        parts = []
        for channel, triangle, m in zip(
            information.channels, information.triangles, maps, strict=True
        ):
            factor = weights[channel] * triangle.spread(size)
            parts.append(np.column_stack([factor[:, :-1] @ m, factor[:, -1]]))
        prior = np.zeros((len(unsure), width + 1))
        for k, channel in enumerate(unsure):
            prior[k, size + k] = 1.0 / spread[channel]
            prior[k, -1] = (1.0 - gains[channel]) / spread[channel]
        return Triangle(np.arange(width), triangle_of(np.vstack([*parts, prior])), information.rows)


def _with_gains(believed: BelievedLike, unsure: list[str]) -> WithGains:
    labels = believed.labels
    names = tuple(f"{c}.gain" for c in unsure)
    return WithGains(
        Labels((*labels.names, *names), (*labels.units, *("1",) * len(names)), labels.frame),
        scipy.linalg.block_diag(believed.matrix, np.eye(len(unsure))),
        np.append(believed.nominal, np.zeros(len(unsure))),
        believed.groups,
        believed.nonnegative,
    )
