"""What is estimated, what is believed of it, and what it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from heft.arrays import Array

from .inertia import PARAMETER_COUNT
from .parameters import Labels


@dataclass(frozen=True)
class ParameterSpace:
    """The space of the parameters x that are stated and exported.

    What estimators must know of a plant besides its rows: which linear map takes x to the columns
    of the regressor, what is believed of x beforehand, and which of it is physically possible.

    Attributes:
        labels: The n parameters x: ten a body, then all others.
        matrix: T with `columns = T @ x`, shape (columns, n).
        nominal: What is believed of x beforehand, shape (n,).
        groups: First positions of tens that must be the parameters of a rigid body.
        nonnegative: Positions that must not be negative.
    """

    labels: Labels
    matrix: Array
    nominal: Array
    groups: tuple[int, ...] = ()
    nonnegative: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of parameters n."""
        return len(self.labels)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of `groups`."""
        return tuple(self.labels.names[k].rpartition(".")[0] for k in self.groups)

    def seen_through(self, matrix: Array) -> ParameterSpace:
        """Return the same space for other columns, `matrix @ columns`."""
        return replace(self, matrix=matrix @ self.matrix)

    def beside(self, names: Sequence[str], units: Sequence[str]) -> ParameterSpace:
        """Return the space with further parameters of nominal value zero, each its own column."""
        labels = self.labels
        return replace(
            self,
            labels=Labels((*labels.names, *names), (*labels.units, *units), labels.frame),
            matrix=scipy.linalg.block_diag(self.matrix, np.eye(len(names))),
            nominal=np.append(self.nominal, np.zeros(len(names))),
        )

    @staticmethod
    def of_one_body(labels: Labels, nominal: Array) -> ParameterSpace:
        """Return the space of a body's ten parameters and of what stands behind them.

        Args:
            labels: Of the columns, a body's ten first.
            nominal: Shape (columns,).
        """
        assert len(labels) >= PARAMETER_COUNT
        return ParameterSpace(labels, np.eye(len(labels)), nominal, (0,))
