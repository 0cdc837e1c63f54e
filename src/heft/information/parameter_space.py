"""The space of estimated parameters: nominal values, regressor map and physical constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse

from heft.arrays import Array

from .inertia import PARAMETER_COUNT
from .parameters import Labels


@dataclass(frozen=True)
class ParameterSpace:
    """Parameters x as reported and exported, with nominal values and physical constraints.

    An estimator needs from a plant, besides its rows: the linear map from x to the regressor's
    columns, the nominal (prior) values of x, and which values are physically consistent.
    """

    labels: Labels  # the n parameters x: ten a body, then all others
    matrix: Array  # T with `columns = T @ x`, shape (columns, n)
    nominal: Array  # prior values of x, shape (n,), in the units of `labels`
    # first positions of groups of ten that must be a consistent rigid body's
    groups: tuple[int, ...] = ()
    nonnegative: tuple[int, ...] = ()  # positions of parameters constrained to be ≥ 0

    @property
    def size(self) -> int:
        """Number of parameters n."""
        return len(self.labels)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of `groups`."""
        return tuple(self.labels.names[k].rpartition(".")[0] for k in self.groups)

    def seen_through(self, matrix: Array) -> ParameterSpace:
        """Return the same space for transformed regressor columns, `matrix @ columns`.

        Args:
            matrix: Shape (new columns, columns).
        """
        return replace(self, matrix=matrix @ scipy.sparse.csr_array(self.matrix))

    def beside(self, names: Sequence[str], units: Sequence[str]) -> ParameterSpace:
        """Return the space extended by parameters of nominal value zero, each its own column."""
        labels = self.labels
        return replace(
            self,
            labels=Labels((*labels.names, *names), (*labels.units, *units), labels.frame),
            matrix=scipy.linalg.block_diag(self.matrix, np.eye(len(names))),
            nominal=np.append(self.nominal, np.zeros(len(names))),
        )

    @staticmethod
    def of_one_body(labels: Labels, nominal: Array) -> ParameterSpace:
        """Return the space of one body's ten parameters, followed by unconstrained others.

        Args:
            labels: The columns' labels, the body's ten first.
            nominal: Prior values, shape (columns,), in the units of `labels`.
        """
        assert len(labels) >= PARAMETER_COUNT
        return ParameterSpace(labels, np.eye(len(labels)), nominal, (0,))
