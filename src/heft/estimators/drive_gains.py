"""Drive gains: correction factors of torques computed from motor currents.

Where torque is a motor's current times a gain from a data sheet, that gain is known to a few
per cent only. A channel then measures `τ = c (Y β)` with c near 1 (Y with friction's columns). It
is solved by Gauss-Newton on the channels' triangles: at (c₀, β₀) the rows are
`[c₀ Y, Y β₀] [β; c − c₀]`, one more column a channel; no further pass over the data is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, ParameterSpace, Summed, Triangle, triangle_of

from .consistent import ConsistentEstimate, PhysicallyConsistent
from .estimate import Estimate


@dataclass(frozen=True)
class ConsistentFit:
    """Physically consistent parameters x with the drives' gain factors."""

    # the parameters, followed by the gains' changes in the last step
    consistent: ConsistentEstimate
    gains: Mapping[str, float]  # gain factor c by channel, dimensionless; 1 where known
    std: Mapping[str, float]  # standard deviation of each gain factor; 0 where known
    total: Triangle | Summed  # information to which parameters and gains were fitted
    space: ParameterSpace  # the parameters and gains with their nominal values
    # for each channel of each run T with `τ = Y T [β; changes of gains]`, shape (columns, columns +
    # gains); None for the identity
    maps: tuple[tuple[Array, ...] | None, ...] = ()

    def widened(
        self, deviations: Array, shift: Array, functions: Sequence[NDArray[np.intp]] = ()
    ) -> ConsistentFit:
        """Return the fit with standard deviations of at least the jackknife's, and shifts counted.

        Args:
            deviations: D with DᵀD the jackknife covariance of x, shape (any, n).
            shift: By the constraints, shape (n,); see `ConsistentEstimate.apart`.
            functions: Positions of the coefficients of each function.
        """
        consistent = self.consistent.widened(deviations, shift, functions)
        std = dict(
            zip(consistent.parameters.labels.names, consistent.parameters.std.tolist(), strict=True)
        )
        gains = {c: std.get(f"{c}.gain", s) for c, s in self.std.items()}
        return replace(self, consistent=consistent, std=gains)


@dataclass(frozen=True)
class DriveGains:
    """Estimator of physically consistent parameters and drive gains, by Gauss-Newton steps."""

    # the physically consistent fit of each step
    solver: PhysicallyConsistent = PhysicallyConsistent()
    rounds: int = 8  # largest number of further steps
    tolerance: float = 1e-4  # change of a gain factor below which the iteration ends

    def fit(
        self,
        estimates: Sequence[Estimate],
        space: ParameterSpace,
        spread: Mapping[str, Array],
        changes: Sequence[Array] | None = None,
        known: Array | None = None,
    ) -> ConsistentFit:
        """Return the parameters x and the gains.

        Args:
            estimates: Base parameters of one run or more, whose information and noise are used.
            spread: Of each gain that is not known exactly a row of F, with F Fᵀ the relative
                covariance of these gains as stated.
            changes: For each run T with `β = T @ (space.matrix @ x)`, where runs differ by the
                load that the robot carried; the identity if not given.
            known: Further information about `space.matrix @ x`: rows of unit variance with their
                right-hand side, shape (k, b + 1).

        Raises:
            SolverFailure: If a step's consistent fit finds no solution.
        """
        channels = estimates[0].information.channels
        unsure = [c for c in channels if np.any(spread.get(c, 0.0))]
        root = inverse_root([spread[c] for c in unsure])
        gains = dict.fromkeys(channels, 1.0)
        size = len(space.matrix)
        as_they_are = not unsure and changes is None
        alone = as_they_are and known is None and len(estimates) == 1
        same = None if as_they_are else np.eye(size)
        every: Sequence[Array | None] = changes or [same] * len(estimates)
        point = np.zeros(size)
        wide = space.beside([f"{c}.gain" for c in unsure], ["1"] * len(unsure))
        for round_ in range(self.rounds + 1):
            parts, scores, taken = [], list[ChannelRows](), []
            for estimate, change in zip(estimates, every, strict=True):
                maps = None
                if change is not None:
                    maps = tuple(_map(c, gains[c], change, point, unsure) for c in channels)
                weights = estimate.weights()
                taken.append(maps)
                if not alone:
                    if maps is None:  # the channels' sum, without gains
                        parts.append(estimate.information.combined(weights).factor)
                    else:
                        parts += _rows(estimate, maps)
                each = [weights[c] for c in channels]
                scores += estimate.noise.scores(estimate.information, each, maps)
            prior = np.zeros((len(unsure), size + len(unsure) + 1))
            prior[:, size:-1] = root
            prior[:, -1] = root @ [1.0 - gains[c] for c in unsure]
            scores.append(ChannelRows.held(prior[:, :-1]))
            if known is not None:
                beside = np.zeros((len(known), len(unsure)))
                parts.append(np.hstack([known[:, :-1], beside, known[:, -1:]]))
                scores.append(ChannelRows.held(known[:, :-1]))
            total: Triangle | Summed
            if alone:
                total = estimates[0].information.summed(estimates[0].weights())
            else:
                stacked = triangle_of(np.vstack([*parts, prior]))
                rows = sum(e.information.rows for e in estimates)
                total = Triangle(np.arange(size + len(unsure)), stacked, rows)
            consistent = self.solver.fit(total, wide, scores)
            values = consistent.parameters.values
            count = len(space.labels)
            point = space.matrix @ values[:count]
            steps = values[count:]
            for c, step in zip(unsure, steps.tolist(), strict=True):
                gains[c] += step
            if not unsure or (round_ and np.abs(steps).max() < self.tolerance):
                break
        std = dict(zip(unsure, consistent.parameters.std[count:].tolist(), strict=True))
        return ConsistentFit(
            consistent, gains, dict.fromkeys(channels, 0.0) | std, total, wide, tuple(taken)
        )


def inverse_root(spread: Sequence[Array]) -> Array:
    """Return W with WᵀW the inverse of F Fᵀ, shape (k, k), of the k rows of F."""
    covariance = np.reshape([a @ b for a in spread for b in spread], (len(spread), len(spread)))
    return np.linalg.inv(np.linalg.cholesky(covariance))


def _map(channel: str, gain: float, change: Array, point: Array, unsure: list[str]) -> Array:
    """Return T with `τ = Y T [β; changes of gains]`, for one channel."""
    if not unsure and gain == 1.0:
        return change  # of all channels the same
    beside = np.zeros((len(change), len(unsure)))
    if channel in unsure:
        beside[:, unsure.index(channel)] = change @ point
    return np.hstack([gain * change, beside])


def _rows(estimate: Estimate, maps: Sequence[Array]) -> list[Array]:
    """Return each channel's triangle in unit variance, on β and the gains' changes."""
    information, weights = estimate.information, estimate.weights()
    parts = []
    for channel, triangle, m in zip(information.channels, information.triangles, maps, strict=True):
        factor = weights[channel] * triangle.factor
        parts.append(np.column_stack([factor[:, :-1] @ m[triangle.columns], factor[:, -1]]))
    return parts
