"""Criteria of excitation: what a motion's information is worth, and its derivative.

A motion's information about k parameters is `M = Σ w² YᵀY` over samples and channels, plus what is
known already. A criterion is a number φ(M), larger for better motion, together with Φ = ∂φ/∂M: the
seeds of the regressor are then `2 w² Y Φ`, and one reverse pass serves every criterion.

Parameters that are not chosen are nuisance: what counts is the covariance `C = (M⁻¹)_SS` of the
chosen ones, whose inverse is the Schur complement, that is the information left when the others are
estimated too. All criteria are functions of C; their names are those of [Pukelsheim2006, chapter
6].

M is formed, against the rule for estimates: it is inverted at conditions of 1e2 to 1e6, after its
columns are scaled, and gradients need no digits beyond that. Figures that are reported come from
triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import Information, Labels, triangle_of

SOFTNESS = 8.0  # power of eigenvalues in place of the largest; its root is within 1.7 of it at 64


class Criterion(Protocol):
    """A function of the information matrix; a frozen dataclass."""

    @property
    def chosen(self) -> tuple[int, ...] | None:
        """Positions of the parameters that count, all if None; the others are nuisance."""
        ...

    def __call__(self, M: Array) -> tuple[float, Array]:
        """Return φ, larger for better motion, and Φ = ∂φ/∂M, symmetric, shape (k, k).

        φ is −∞ and Φ zero where M is singular.
        """
        ...

    def in_columns(self, scale: Array) -> Criterion:
        """Return the criterion for columns that are divided by `scale`, shape (k,)."""
        del scale
        return self


def inverted(M: Array) -> tuple[float, Array] | None:
    """Return log det M and M⁻¹ of a positive definite matrix, None if singular to rounding."""
    if not len(M):
        return 0.0, M.copy()
    factor, failed = scipy.linalg.lapack.dpotrf(M, lower=1)
    pivots = np.diag(factor)
    if failed or not (pivots**2).min() > 1e-13 * (pivots**2).max():
        return None
    inverse, failed = scipy.linalg.lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse)
    return None if failed else (2.0 * float(np.log(pivots).sum()), lower + np.tril(lower, -1).T)


def _nothing(M: Array) -> tuple[float, Array]:
    return -np.inf, np.zeros_like(M)


@dataclass(frozen=True)
class Determinant(Criterion):
    """D: log-determinant of the chosen parameters' information [nats].

    Differences do not depend on units or on the choice of base parameters: the volume of the
    confidence ellipsoid.
    """

    chosen: tuple[int, ...] | None = None

    def __call__(self, M: Array) -> tuple[float, Array]:
        """Return log det of the information and M⁻¹ less that of the nuisance; see `Criterion`."""
        every = inverted(M)
        if every is None:
            return _nothing(M)
        if self.chosen is None:
            return every
        nuisance = np.setdiff1d(np.arange(len(M)), self.chosen)
        part = inverted(M[np.ix_(nuisance, nuisance)])
        if part is None:
            return _nothing(M)
        every[1][np.ix_(nuisance, nuisance)] -= part[1]
        return every[0] - part[0], every[1]


class OfCovariance(Criterion, Protocol):
    """A criterion of the chosen parameters' covariance C alone."""

    def of_covariance(self, C: Array) -> tuple[float, Array]:
        """Return φ and ∂φ/∂C of the covariance of the chosen parameters, shape (s, s)."""
        ...

    def __call__(self, M: Array) -> tuple[float, Array]:
        """Return φ and ∂φ/∂M = −M⁻¹_:S ∂φ/∂C M⁻¹_S:; see `Criterion`."""
        every = inverted(M)
        if every is None:
            return _nothing(M)
        at = np.arange(len(M)) if self.chosen is None else np.array(self.chosen, dtype=np.intp)
        side = every[1][:, at]
        value, slope = self.of_covariance(side[at])
        return value, np.asarray(-side @ slope @ side.T)


@dataclass(frozen=True)
class Trace(OfCovariance):
    """A: −log of the sum of the chosen parameters' variances, in the scaled columns' units."""

    chosen: tuple[int, ...] | None = None  # positions of the parameters that count

    def of_covariance(self, C: Array) -> tuple[float, Array]:
        """Return −log tr C; see `OfCovariance`."""
        total = float(np.trace(C))
        return -float(np.log(total)), -np.eye(len(C)) / total


@dataclass(frozen=True)
class PredictedError(OfCovariance):
    """Predicted torque error on a task's motion: −log tr(C G), G = Σ w² YᵀY/N of the task."""

    task: Array  # G, shape (k, k), of columns as the information's; see `excitation.task_error`
    chosen: tuple[int, ...] | None = None  # parameters whose errors count

    def of_covariance(self, C: Array) -> tuple[float, Array]:
        """Return −log of the mean squared error, in noise's units; see `OfCovariance`."""
        weight = self.task if self.chosen is None else self.task[np.ix_(self.chosen, self.chosen)]
        total = float(np.sum(C * weight))
        return -float(np.log(total)), -weight / total

    def in_columns(self, scale: Array) -> PredictedError:
        """Return the criterion for columns that are divided by `scale`, shape (k,)."""
        return replace(self, task=self.task / np.outer(scale, scale))


@dataclass(frozen=True)
class LargestVariance(OfCovariance):
    """E: −log of the largest eigenvalue of the chosen parameters' covariance, softened."""

    chosen: tuple[int, ...] | None = None  # positions of the parameters that count
    power: float = SOFTNESS  # r of `(tr Cʳ)^(1/r)`, which stands for the largest eigenvalue

    def of_covariance(self, C: Array) -> tuple[float, Array]:
        """Return −log (tr Cʳ)/r; see `OfCovariance`."""
        values, vectors = np.linalg.eigh(C)
        size, slope = soft_largest(values, self.power)
        return -size, -(vectors * slope) @ vectors.T


@dataclass(frozen=True)
class Condition(OfCovariance):
    """−log of the condition number of the chosen parameters' regressor, softened.

    It depends on the columns' units; with `scaled` they are first brought to one length.
    """

    chosen: tuple[int, ...] | None = None  # positions of the parameters that count
    scaled: bool = False  # whether each column is divided by its own length, whatever the motion
    power: float = SOFTNESS  # as of `LargestVariance`, of both ends of the spectrum

    def of_covariance(self, C: Array) -> tuple[float, Array]:
        """Return −½ log of the largest over the least eigenvalue of C; see `OfCovariance`."""
        values, vectors = np.linalg.eigh(C)
        largest, up = soft_largest(values, self.power)
        least, down = soft_largest(1.0 / values, self.power)
        slope = -0.5 * (up - down / values**2)
        return -0.5 * (largest + least), (vectors * slope) @ vectors.T

    def __call__(self, M: Array) -> tuple[float, Array]:
        """Return φ and ∂φ/∂M, of columns of one length where they are scaled; see `Criterion`."""
        if not self.scaled:
            return super().__call__(M)
        lengths = np.sqrt(np.diag(M))
        if not lengths.min(initial=1.0) > 0.0:
            return _nothing(M)
        unit = M / np.outer(lengths, lengths)
        value, through = super().__call__(unit)
        through[np.diag_indices_from(through)] -= np.sum(through * unit, axis=1)
        return value, through / np.outer(lengths, lengths)


def soft_largest(values: Array, power: float) -> tuple[float, Array]:
    """Return log (Σ λʳ)/r and its derivative by each λ, for positive values, shape (n,)."""
    share = (values / values.max()) ** power
    total = float(share.sum())
    return float(np.log(values.max()) + np.log(total) / power), share / (total * values)


CRITERIA: Mapping[str, Callable[[tuple[int, ...] | None, bool], Criterion]] = {
    "D": lambda chosen, scaled: Determinant(chosen),
    "A": lambda chosen, scaled: Trace(chosen),
    "E": lambda chosen, scaled: LargestVariance(chosen),
    "condition": lambda chosen, scaled: Condition(chosen, scaled),
}


def named(name: str, chosen: tuple[int, ...] | None = None, scaled: bool = True) -> Criterion:
    """Return a criterion by its name: one of `CRITERIA`.

    Raises:
        InvalidSetting: If there is no such criterion.
    """
    if name not in CRITERIA:
        raise InvalidSetting(
            "this criterion is not known", argument="criterion", got=name, valid=tuple(CRITERIA)
        )
    return CRITERIA[name](chosen, scaled)


def in_hand(
    known: Information, wanted: Labels, weights: Mapping[str, float] | None = None
) -> Array:
    """Return a factor K of the information KᵀK that is known already, shape (any, k).

    Columns that are not wanted, such as those of friction's dictionary, are eliminated as unknowns;
    of wanted ones that are not there nothing is known.

    Args:
        known: Of another run, such as `information.npz`.
        wanted: The k parameters of the design, matched by name.
        weights: Factor 1/σ of each channel's rows; ones if not given.
    """
    place = {name: k for k, name in enumerate(known.labels.names)}
    both = [k for k, name in enumerate(wanted.names) if name in place]
    keep = [place[wanted.names[k]] for k in both]
    away = np.setdiff1d(np.arange(len(known.labels)), keep).tolist()
    every = known.combined(weights)
    rest = triangle_of(every.factor[:, [*away, *keep]])[len(away) : len(away) + len(keep)]
    factor = np.zeros((len(rest), len(wanted)))
    factor[:, both] = rest[:, len(away) :]
    return factor


@dataclass(frozen=True)
class Conditions:
    """Condition numbers of a regressor in both conventions."""

    raw: float  # of the rows as they are, in SI units and unweighted
    scaled: float  # of rows weighted by the channels' noise, columns of one length


def conditions(rows: Array, noise: Array, columns: Sequence[int] | None = None) -> Conditions:
    """Return the condition numbers of rows; neither alone says how much a motion tells.

    Args:
        rows: Base regressor, shape (N, c, k).
        noise: Standard deviation of each channel, shape (c,) [channel's unit].
    """
    taken = rows if columns is None else rows[:, :, list(columns)]
    size = taken.shape[2]
    raw = np.linalg.cond(triangle_of(taken.reshape(-1, size)))
    weighted = triangle_of((taken / noise[:, None]).reshape(-1, size))
    lengths = np.linalg.norm(weighted, axis=0)
    scaled = np.linalg.cond(weighted / np.where(lengths > 0.0, lengths, 1.0))
    return Conditions(float(raw), float(scaled))
