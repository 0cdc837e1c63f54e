"""Essential parameters by the statistics of what is dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.estimators import BackwardElimination, Essential, Estimate

ROUNDING = 1e-9  # of sums of squares


@dataclass(frozen=True)
class BySignificance(Essential):
    """What is dropped would explain more than by chance, by an F-test [Janot2014].

    Rows count by their autocorrelation.

    Raises:
        InvalidSetting: If the significance is no probability.
    """

    significance: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.significance < 1.0:
            raise InvalidSetting(
                "a setting of the essential parameters is out of range",
                argument="significance",
                got=self.significance,
                expected="between 0 and 1",
            )

    def beyond(
        self, estimate: Estimate, path: BackwardElimination, in_band: Array
    ) -> NDArray[np.bool_]:
        """Return whether what is dropped matters, shape (b + 1,)."""
        from scipy.special import fdtri

        energy, free = _independent(estimate, path)
        gone = np.arange(len(energy)) - path.untold
        counted = np.maximum(gone, 1)
        statistic = (energy - energy[0]) / counted / (energy[0] / free)
        chance = fdtri(counted, free, 1.0 - self.significance)
        return np.asarray((gone > 0) & (statistic > chance))


@dataclass(frozen=True)
class ByLackOfFit(Essential):
    """The residual's mean square, by degrees of freedom, would rise."""

    def beyond(
        self, estimate: Estimate, path: BackwardElimination, in_band: Array
    ) -> NDArray[np.bool_]:
        """Return whether the mean square rises, shape (b + 1,)."""
        energy, free = _independent(estimate, path)
        gone = np.maximum(np.arange(len(energy)) - path.untold, 0)
        square = energy / (free + gone)
        return np.asarray(square > square[0] * (1.0 + ROUNDING))


def _independent(estimate: Estimate, path: BackwardElimination) -> tuple[Array, float]:
    """Return the residual sums of squares as of independent rows, and their degrees of freedom.

    A row counts by its channel's integrated autocorrelation time, so that it makes no difference
    how densely a motion is sampled.
    """
    noise = estimate.noise
    weights = np.square(estimate.fit_weights) / noise.autocorrelation_time
    rows = float(np.sum(noise.rows / noise.autocorrelation_time))
    return path.energies @ weights, max(rows - (len(path.order) - path.untold), 1.0)
