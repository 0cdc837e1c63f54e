"""Gains of drives: what a torque that is a current times a constant must be multiplied by.

Where torque is a motor's current times a gain from a data sheet, the gain is known to a few
per cent. A channel then reads `τ = c (Y β)` with c near 1 (Y here with friction's columns). It
is solved by Gauss-Newton on the channels' triangles: at (c₀, β₀) the rows are
`[c₀ Y, Y β₀] [β; c − c₀]`, one more column a channel; nothing is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.information import ParameterSpace, Triangle, triangle_of

from .consistent import ConsistentEstimate, PhysicallyConsistent
from .estimate import Estimate


@dataclass(frozen=True)
class ConsistentFit:
    """A consistent estimate with the drives' gains.

    Attributes:
        consistent: The parameters, gains' changes of the last round behind them.
        gains: By channel, 1 where known.
        std: Their standard deviations.
        triangle: What the parameters and gains were fitted to.
        space: What they are, and what was believed of them.
    """

    consistent: ConsistentEstimate
    gains: Mapping[str, float]
    std: Mapping[str, float]
    triangle: Triangle
    space: ParameterSpace


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
        self,
        estimates: Sequence[Estimate],
        space: ParameterSpace,
        spread: Mapping[str, float],
        changes: Sequence[Array] | None = None,
        known: Array | None = None,
    ) -> ConsistentFit:
        """Return the estimate.

        Args:
            estimates: Base parameters of one run or more, for information and noise of each
                channel.
            space: What x is, and what the model file says of it.
            spread: Relative standard deviation of each gain that is not known exactly.
            changes: For each run T with `β = T @ (space.matrix @ x)`, where runs differ by
                what the robot carried; all the same if not given.
            known: What else is known of `space.matrix @ x`: rows of unit variance with their
                right-hand side, shape (k, b + 1). They are taken for exact.
        """
        channels = estimates[0].information.channels
        unsure = [c for c in channels if spread.get(c, 0.0) > 0.0]
        gains = dict.fromkeys(channels, 1.0)
        size = len(space.matrix)
        changes = changes or [np.eye(size)] * len(estimates)
        point = np.zeros(size)
        wide = space.beside([f"{c}.gain" for c in unsure], ["1"] * len(unsure))
        for round_ in range(self.rounds + 1):
            parts, noises = [], []
            for estimate, change in zip(estimates, changes, strict=True):
                maps = [_map(c, gains[c], change, point, unsure) for c in channels]
                weights = estimate.weights()
                parts += _rows(estimate, maps)
                noises.append(
                    estimate.noise.score_factor(
                        estimate.information, [weights[c] for c in channels], maps
                    )
                )
            prior = np.zeros((len(unsure), size + len(unsure) + 1))
            for k, channel in enumerate(unsure):
                prior[k, size + k] = 1.0 / spread[channel]
                prior[k, -1] = (1.0 - gains[channel]) / spread[channel]
            if known is not None:
                beside = np.zeros((len(known), len(unsure)))
                parts.append(np.hstack([known[:, :-1], beside, known[:, -1:]]))
            rows = sum(e.information.rows for e in estimates)
            stacked = triangle_of(np.vstack([*parts, prior]))
            triangle = Triangle(np.arange(size + len(unsure)), stacked, rows)
            found = self.solver.fit(triangle, wide, np.vstack(noises))
            values = found.parameters.values
            count = len(space.labels)
            point = space.matrix @ values[:count]
            steps = values[count:]
            for c, step in zip(unsure, steps.tolist(), strict=True):
                gains[c] += step
            if not unsure or (round_ and np.abs(steps).max() < self.tolerance):
                break
        std = dict(zip(unsure, found.parameters.std[count:].tolist(), strict=True))
        return ConsistentFit(found, gains, dict.fromkeys(channels, 0.0) | std, triangle, wide)


def _map(channel: str, gain: float, change: Array, point: Array, unsure: list[str]) -> Array:
    """Return T with `τ = Y T [β; changes of gains]`, for one channel."""
    beside = np.zeros((len(change), len(unsure)))
    if channel in unsure:
        beside[:, unsure.index(channel)] = change @ point
    return np.hstack([gain * change, beside])


def _rows(estimate: Estimate, maps: list[Array]) -> list[Array]:
    """Return each channel's triangle in unit variance, on β and the gains' changes."""
    information, weights = estimate.information, estimate.weights()
    size = len(information.labels)
    parts = []
    for channel, triangle, m in zip(information.channels, information.triangles, maps, strict=True):
        factor = weights[channel] * triangle.spread(size)
        parts.append(np.column_stack([factor[:, :-1] @ m, factor[:, -1]]))
    return parts
