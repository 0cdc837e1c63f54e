"""Problems of rows in memory, of any plant, with exact truth and white noise: quick and exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from heft.information import Labels
from heft.information.square_root import Information
from heft.plants import Problem
from heft.plants.rows import Residuals
from tests.plants import case

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Piece:
    """Rows that follow one another."""

    regressor: Array
    effort: Array
    time: Array
    recording: int = 0


@dataclass(frozen=True)
class RowProblem:
    """Rows with a truth.

    Attributes:
        labels, channels: What they are about.
        regressor: Y, shape (N, channels, b).
        effort: τ, shape (N, channels).
        truth: β, shape (b,).
        chunk: Rows a piece.
    """

    labels: Labels
    channels: tuple[str, ...]
    regressor: Array
    effort: Array
    truth: Array
    chunk: int = 512
    spacing: int = 1
    repeats: float | None = None

    @property
    def noise_names(self) -> tuple[str, ...]:
        """Each channel has a standard deviation of its own."""
        return self.channels

    def _cuts(self) -> Iterator[slice]:
        return (slice(k, k + self.chunk) for k in range(0, len(self.effort), self.chunk))

    def rows(self) -> Iterator[Piece]:
        """Yield the rows by pieces."""
        time = 0.01 * np.arange(len(self.effort))
        return (Piece(self.regressor[c], self.effort[c], time[c]) for c in self._cuts())

    def residuals(self, values: Array) -> Iterator[Residuals]:
        """Yield τ − Y β by pieces."""
        for cut in self._cuts():
            Y = self.regressor[cut]
            index = np.arange(cut.start, cut.start + len(Y))
            yield Residuals(self.effort[cut] - Y @ values, lambda at, Y=Y: Y[at], 0, index)

    def information(self) -> Information:
        """Return the sum of all rows."""
        total = Information.neutral(self.labels, self.channels)
        for p in self.rows():
            total = total + Information.from_rows(self.labels, self.channels, p.regressor, p.effort)
        return total

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β, shape (c,); its motion has no band."""
        left = self.effort - self.regressor @ values
        return np.asarray(np.sum(left**2, axis=0))

    def noisy(self, share: float, seed: int) -> RowProblem:
        """Return it with white noise, a share of each channel's rms."""
        noise = np.random.default_rng(seed).normal(size=self.effort.shape)
        return replace(self, effort=self.effort + share * self.loud * noise)

    @property
    def loud(self) -> Array:
        """The rms of each channel, shape (channels,)."""
        return np.asarray(np.sqrt(np.mean(self.effort**2, axis=0)))

    def normalised(self) -> RowProblem:
        """Return it with channels of rms 1, so that a share of noise is the same in all."""
        Y = self.regressor / self.loud[:, None]
        return replace(self, regressor=Y, effort=self.effort / self.loud)


@cache
def row_problem(name: str, rows: int, seed: int = 0) -> RowProblem:
    """Return noise-free rows of a plant of the table, in general position, channels of rms 1."""
    c = case(name)
    problem = Problem(c.plant, ())
    samples = c.plant.random_samples(rows, np.random.default_rng(1000 + seed))
    Y = c.plant.rows(samples, problem.base.kept).regressor
    truth = problem.base.matrix @ c.truth
    return RowProblem(problem.labels, problem.channels, Y, Y @ truth, truth).normalised()


def one_channel(rows: int, columns: int = 4, seed: int = 0) -> RowProblem:
    """Return rows of one channel in general position."""
    rng = np.random.default_rng(seed)
    made = row_problem("free body by its pose", 10)
    labels = made.labels.select(range(columns))
    Y = rng.normal(size=(rows, 1, columns))
    truth = rng.uniform(0.5, 1.5, columns)
    return replace(
        made,
        labels=labels,
        channels=("one",),
        regressor=Y,
        effort=Y @ truth,
        truth=truth,
    )
