"""Samples of smooth motion, the rows made of them, and what is left of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import DriveState, kernels
from heft.information import Labels


@dataclass(frozen=True)
class Believed:
    """What estimators must know of a plant's parameters besides its rows.

    Attributes:
        labels: The n parameters x that are exported: ten a link, then the drives'.
        matrix: `β = matrix @ x`, shape (b, n).
        nominal: What the model file believes of x, shape (n,).
        groups: First positions of tens that must be the parameters of a body.
        nonnegative: Positions that must not be negative.
    """

    labels: Labels
    matrix: Array
    nominal: Array
    groups: tuple[int, ...]
    nonnegative: tuple[int, ...]


@dataclass(frozen=True)
class Samples:
    """Smooth motion and effort at the log's own times.

    Attributes:
        recording: Position of the recording in the problem.
        time: Shape (N,) [s].
        position: Shape (channels, N) [rad or m].
        motion: What the kernels read.
        stops: The memory of friction, shape (stops, N); see `drive_columns.presliding`.
        effort: τ, shape (channels, N) [N·m or N]; zero where not measured.
        index: Rows' positions in the recording, shape (N,).
        chosen: Which rows are asked for, shape (N,).
    """

    recording: int
    time: Array
    position: Array
    motion: kernels.Motion
    stops: Array
    effort: Array
    index: NDArray[np.int64]
    chosen: NDArray[np.bool_]

    def drive_state(self, rigid: Array) -> DriveState:
        """Return the drives' state, given the rigid-body torque, shape (channels, N)."""
        motion = self.motion
        return DriveState(self.position, motion.velocity, motion.acceleration, self.stops, rigid)

    def part(self, rows: slice | NDArray[np.intp]) -> Samples:
        """Return some of the samples."""
        return Samples(
            self.recording,
            self.time[rows],
            self.position[:, rows],
            self.motion.part(rows),
            self.stops[:, rows],
            self.effort[:, rows],
            self.index[rows],
            self.chosen[rows],
        )

    def averaged(self, every: int) -> Samples:
        """Return the samples' means over `every` of them, counted from the recording's begin.

        Blocks that are not whole are left out. Motion is that of the middle sample.
        """
        block, first, count = np.unique(self.index // every, return_index=True, return_counts=True)
        first = first[count == every]
        means = self.effort[:, first[:, None] + np.arange(every)].mean(axis=-1)
        index = block[count == every]
        return replace(self.part(first + every // 2), effort=means, index=index)


@dataclass(frozen=True)
class Rows:
    """Rows `Y β = τ` of one window.

    Attributes:
        regressor: Y, shape (N, channels, b).
        effort: τ, shape (N, channels).
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int


@dataclass(frozen=True)
class Residuals:
    """What is left of a piece of rows without gaps.

    Attributes:
        values: τ − Y β, shape (N, measured channels).
        regressor: Returns Y at some of the rows, shape (n, measured channels, b).
        recording: Position of the recording in the problem.
        index: Rows' positions in the recording; None where a row is made of many.
    """

    values: Array
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int
    index: NDArray[np.int64] | None
