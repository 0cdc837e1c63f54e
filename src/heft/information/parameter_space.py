"""The space of estimated parameters: nominal values, regressor map and physical constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from heft.arrays import Array

from .inertia import PARAMETER_COUNT, raised_to
from .parameters import Labels


def sparse(matrix: Array) -> Any:
    """Return a mostly zero matrix, such as a map from bodies to columns, in sparse form."""
    # SciPy's own search for what is not zero takes twenty times as long.
    places = np.flatnonzero(matrix != 0.0)
    rows, columns = np.divmod(places, max(matrix.shape[1], 1))
    ends = np.append(0, np.cumsum(np.bincount(rows, minlength=len(matrix))))
    return scipy.sparse.csr_array((matrix.ravel()[places], columns, ends), shape=matrix.shape)


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
    # least radius of gyration of each body of `groups` [m], see `typical`; none if not given
    gyration: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Number of parameters n."""
        return len(self.labels)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies, in the order of `groups`."""
        return tuple(self.labels.names[k].rpartition(".")[0] for k in self.groups)

    @cached_property
    def sparse_matrix(self) -> Any:
        """`matrix`, sparse."""
        return sparse(self.matrix)

    @cached_property
    def typical(self) -> Array:
        """Bodies at which a metric of relative errors is taken, shape (bodies, 10).

        They are the nominal ones, second moments about their centres of mass raised to those of
        bodies of their size: what a model file states of these may be a template's.
        """
        tens = [self.nominal[k : k + PARAMETER_COUNT] for k in self.groups]
        if self.gyration:
            tens = [raised_to(ten, g) for ten, g in zip(tens, self.gyration, strict=True)]
        return np.array(tens).reshape(-1, PARAMETER_COUNT)

    def seen_through(self, matrix: Array) -> ParameterSpace:
        """Return the same space for transformed regressor columns, `matrix @ columns`.

        Args:
            matrix: Shape (new columns, columns).
        """
        own, size = self.sparse_matrix, len(self.labels)
        if own.shape == (size, size) and own.nnz == size and (own.diagonal() == 1.0).all():
            return replace(self, matrix=matrix)
        return replace(self, matrix=matrix @ own)

    def beside(self, names: Sequence[str], units: Sequence[str]) -> ParameterSpace:
        """Return the space extended by parameters of nominal value zero, each its own column."""
        if not names:
            return self
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
