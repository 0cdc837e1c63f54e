"""Square-root information: rows `Y π = τ` compressed to one triangle R a channel.

For each channel (a joint, a wrench component) the QR triangle of its rows `[Y τ]` is stored,
unweighted:

    Qᵀ [Y τ] = [R z; 0 ρ]      so that ‖Y π − τ‖² = ‖R π − z‖² + ρ²

Two of them add by a QR of one stacked on the other. The sum is associative and commutative
with a neutral element, so chunks, logs, priors and robots are all terms of one sum. Weights
are applied when the channels are combined (`combined`) and need no rows. `YᵀY` is never formed:
at condition 1e7 it would lose all but three digits.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array, read_only
from heft.errors import InvalidRecording, InvalidSetting, UnlikeLabels
from heft.files import UNREADABLE, read_arrays, require_regular, write_arrays

from .bordered import Bordered, among, joined, placed, triangle_of
from .channel_rows import ChannelRows
from .connectivity import components, connected
from .folding import stack
from .parameters import Labels

FORMAT = "heft-information-1"


@dataclass(frozen=True)
class Triangle:
    """Square-root information of one channel about the k parameters that affect it."""

    # positions of these parameters among the labels, ascending, shape (k,)
    columns: NDArray[np.intp]
    factor: Array  # `[R z; 0 ρ]`, upper triangular, shape (k + 1, k + 1)
    rows: int  # number of rows that it stands for

    @staticmethod
    def of(rows: Array, count: int) -> Triangle:
        """Return the triangle of rows `[Y τ]` on all columns, which stand for `count` rows."""
        seen = np.flatnonzero(np.any(rows[:, :-1] != 0.0, axis=0))
        return Triangle(seen, triangle_of(rows[:, [*seen, rows.shape[1] - 1]]), count)

    def of_each(self, count: int) -> list[Triangle]:
        """Return the triangles of so many right-hand sides side by side, each with its own."""
        k, made = len(self.columns), []
        for place in range(k, k + count):
            factor = np.array(self.factor[: k + 1, [*range(k), place]])
            factor[k] = 0.0
            factor[k, k] = np.linalg.norm(self.factor[k:, place])
            made.append(Triangle(self.columns, factor, self.rows))
        return made

    @property
    def R(self) -> Array:
        """Square-root information matrix R of the columns, shape (k, k)."""
        return self.factor[:-1, :-1]

    @property
    def z(self) -> Array:
        """Right-hand side z = Qᵀτ of R π = z, shape (k,), in the unit of τ."""
        return self.factor[:-1, -1]

    @staticmethod
    def holding(rows: Array, right: Array, count: int) -> Triangle:
        """Return rows (m, k) in an order of their own, right-hand side (m,), of `count` rows."""
        factor = np.pad(np.column_stack([rows, right]), [(0, 1), (0, 0)])
        return Triangle(np.arange(rows.shape[1]), factor, count)

    def rows_of_all(self) -> tuple[Array, Array]:
        """Return R and z."""
        return self.R, self.z

    @property
    def sets(self) -> tuple[ChannelRows, ...]:
        """The rows R of each of its parts: of one."""
        return (ChannelRows(self.columns, self.R),)

    @property
    def energy(self) -> float:
        """Residual sum of squares at the least-squares solution, ρ² = min ‖Y π − τ‖²."""
        return float(self.factor[-1, -1] ** 2)

    def residual_energy(self, values: Array) -> float:
        """Return the residual sum of squares ‖Y π − τ‖² of all rows.

        Args:
            values: π, shape (p,), in the parameters' units.
        """
        return float(np.sum((self.R @ values[self.columns] - self.z) ** 2)) + self.energy

    def among(self, columns: NDArray[np.intp]) -> Array:
        """Return the factor with zero rows and columns inserted for further columns.

        Args:
            columns: Ascending, including all of its own, shape (n,).

        Returns:
            Upper triangular, shape (n + 1, n + 1).
        """
        return placed(self.factor, np.searchsorted(columns, self.columns), len(columns) + 1)

    def spread(self, size: int) -> Array:
        """Return the factor with zero columns inserted for all other parameters.

        Args:
            size: Number of all parameters p.

        Returns:
            Shape (k + 1, p + 1).
        """
        return among(self.factor, self.columns, size + 1)


@dataclass(frozen=True, eq=False)
class Summed:
    """Weighted sum of the channels of an information, component by component."""

    size: int  # number of parameters p
    parts: tuple[Bordered, ...]  # components, by their columns
    rest: float  # length of the right-hand side in rows that hold no column
    rows: int  # number of rows of all channels together

    def triangle(self) -> Triangle:
        """Return the sum as one triangle over all p columns, in their order."""
        parts = [(part.columns, part.triangle()) for part in self.parts]
        return Triangle(np.arange(self.size), joined(self.size + 1, parts, self.rest), self.rows)

    @property
    def sets(self) -> tuple[ChannelRows, ...]:
        """The rows that single channels hold alone, and the others, of each component."""
        return tuple(rows for part in self.parts for rows, _ in part.sets())

    @property
    def lengths(self) -> Array:
        """Norms of the columns, shape (p,)."""
        lengths = np.zeros(self.size)
        for part in self.parts:
            lengths[part.columns] = part.lengths
        return lengths

    def solution(self) -> Array:
        """Return the least-squares solution; columns must be independent, or zero.

        Returns:
            Shape (p,); zero where columns are.
        """
        values = np.zeros(self.size)
        for part in self.parts:
            if part.inverse is not None:
                values[part.columns] = part.solution()
        return values

    def rows_of_all(self) -> tuple[Array, Array]:
        """Return the rows of all components, and their right-hand side.

        Returns:
            Shapes (m, p), triangular in another order of the columns, and (m,), m ≤ p.
        """
        parts = self.rows_of_each()
        count, first = sum(len(own) for _, own in parts), 0
        rows, right = np.zeros((count, self.size)), np.zeros(count)
        for columns, own in parts:
            last = first + len(own)
            rows[first:last, columns], right[first:last] = own[:, :-1], own[:, -1]
            first = last
        return rows, right

    def rows_of_each(self) -> tuple[tuple[NDArray[np.intp], Array], ...]:
        """Return the columns of each component that holds something, and its rows on them.

        Returns:
            Rows of k columns with their right-hand side last, shape (m, k + 1), m ≤ k, triangular
            in another order of the columns.
        """
        parts = ((part.columns, part.rows()[:-1]) for part in self.parts)
        nonzero = ((columns, rows[rows[:, :-1].any(axis=1)]) for columns, rows in parts)
        return tuple((columns, rows) for columns, rows in nonzero if len(rows))


@dataclass(frozen=True)
class Information:
    """Square-root information about parameters, by measurement channel.

    Terms add with `+`: chunks of a log, several logs, priors. `λ * information` scales it by a
    forgetting factor.
    """

    labels: Labels  # the p parameters
    channels: tuple[str, ...]  # names of the channels
    triangles: tuple[Triangle, ...]  # one triangle a channel

    @cached_property
    def solutions(self) -> dict[Hashable, Array]:
        """Solutions that were asked for, by weights; the same sum is asked for by several."""
        return {}

    @staticmethod
    def neutral(labels: Labels, channels: Sequence[str]) -> Information:
        """Return the information of no rows, the neutral element: `neutral + x == x`."""
        empty = Triangle(np.empty(0, dtype=np.intp), np.zeros((1, 1)), 0)
        return Information(labels, tuple(channels), (empty,) * len(channels))

    @staticmethod
    def from_rows(
        labels: Labels, channels: Sequence[str], regressor: Array, effort: Array
    ) -> Information:
        """Return the information of regressor rows `Y π = τ`.

        Args:
            labels: The p parameters.
            channels: Names of the c channels.
            regressor: Y, shape (samples, c, p).
            effort: τ, shape (samples, c), in the channels' units, such as [N] or [N·m].

        Raises:
            InvalidSetting: If the shapes do not fit the labels and channels.
            InvalidRecording: If a number is not finite.
        """
        regressor = np.asarray(regressor, dtype=float)
        effort = np.asarray(effort, dtype=float)
        expected = (effort.shape[0], len(channels), len(labels))
        if regressor.shape != expected or effort.shape != expected[:2]:
            raise InvalidSetting(
                "the rows do not fit their labels",
                argument="regressor, effort",
                got=f"shapes {regressor.shape} and {effort.shape}",
                expected=f"{expected} and {expected[:2]}",
            )
        rows = ChannelRows.of_each(regressor)
        return Information.from_channel_rows(labels, channels, rows, effort)

    @staticmethod
    def from_channel_rows(
        labels: Labels, channels: Sequence[str], rows: Sequence[ChannelRows], effort: Array
    ) -> Information:
        """Return the information of rows `Y π = τ`, given channel by channel.

        Args:
            labels: The p parameters.
            channels: Names of the c channels.
            rows: Y of each of them.
            effort: τ, shape (samples, c), in the channels' units, such as [N] or [N·m].

        Raises:
            InvalidRecording: If a number is not finite.
        """
        if not (np.isfinite(effort).all() and all(np.isfinite(r.values).all() for r in rows)):
            raise InvalidRecording(
                "rows hold numbers that are not finite", argument="regressor, effort"
            )
        triangles = []
        for c, own in enumerate(rows):
            seen = np.flatnonzero(np.any(own.values != 0.0, axis=0))
            block = np.column_stack([own.values[:, seen], effort[:, c]])
            triangles.append(Triangle(own.columns[seen], triangle_of(block), effort.shape[0]))
        return Information(labels, tuple(channels), tuple(triangles))

    def __add__(self, other: Information) -> Information:
        """Return the information of both sets of rows.

        Raises:
            UnlikeLabels: If parameters or channels differ.
        """
        self.labels.require_same(other.labels)
        if self.channels != other.channels:
            raise UnlikeLabels(
                "information of different channels cannot be added",
                got=", ".join(other.channels),
                expected=", ".join(self.channels),
            )
        triangles = []
        for a, b in zip(self.triangles, other.triangles, strict=True):
            if not len(a.columns) and not a.factor.any():  # nothing yet
                triangles.append(replace(b, rows=a.rows + b.rows))
                continue
            columns = a.columns
            if not np.array_equal(columns, b.columns):
                columns = np.union1d(a.columns, b.columns).astype(np.intp)
            factor = stack(a.among(columns), b.among(columns))
            triangles.append(Triangle(columns, factor, a.rows + b.rows))
        return Information(self.labels, self.channels, tuple(triangles))

    def __rmul__(self, forgetting: float) -> Information:
        """Return the information scaled by a forgetting factor λ in [0, 1]: `λ * old + new`."""
        triangles = tuple(
            Triangle(t.columns, np.sqrt(forgetting) * t.factor, t.rows) for t in self.triangles
        )
        return Information(self.labels, self.channels, triangles)

    def among(self, channels: Sequence[str]) -> Information:
        """Return the information with channels reordered, and with empty ones added.

        Args:
            channels: Names, including all of its own.
        """
        if tuple(channels) == self.channels:
            return self
        assert set(self.channels) <= set(channels)
        own = dict(zip(self.channels, self.triangles, strict=True))
        bare = Information.neutral(self.labels, channels).triangles
        triangles = tuple(own.get(c, none) for c, none in zip(channels, bare, strict=True))
        return Information(self.labels, tuple(channels), triangles)

    def beside(self, channel: str, rows: Array) -> Information:
        """Return the information extended by one channel, such as a prior's rows.

        Args:
            rows: `[Y τ]`, shape (any, p + 1).
        """
        triangles = (*self.triangles, Triangle.of(rows, len(rows)))
        return Information(self.labels, (*self.channels, channel), triangles)

    def moments(self, values: Array) -> Array:
        """Return the normal-equation residual `Yᵀ(τ − Y π)` of each channel.

        Args:
            values: π, shape (p,), in the parameters' units.

        Returns:
            Shape (channels, p); the sum over the channels is zero at the unweighted optimum.
        """
        moments = np.zeros((len(self.triangles), len(self.labels)))
        for row, t in zip(moments, self.triangles, strict=True):
            row[t.columns] = t.R.T @ (t.z - t.R @ values[t.columns])
        return moments

    @property
    def rows(self) -> int:
        """Number of rows of all channels together."""
        return sum(t.rows for t in self.triangles)

    def combined(self, weights: Mapping[str, float] | None = None) -> Triangle:
        """Return the weighted sum of the channels: one triangle over all p columns.

        Args:
            weights: Factor of each channel's rows, by name: 1/σ, with σ in the channel's unit. Ones
                if not given.
        """
        return self.summed(weights).triangle()

    def summed(self, weights: Mapping[str, float] | None = None) -> Summed:
        """Return the weighted sum by component, in orders of columns that keep it sparse."""
        size = len(self.labels)
        sets: list[tuple[NDArray[np.intp], Array]] = []  # columns, and rows on them
        ridges: list[tuple[NDArray[np.intp], Array]] = []  # the same of rows that connect nothing
        rest: list[float] = []  # right-hand sides of rows without a column
        for name, t in zip(self.channels, self.triangles, strict=True):
            weight = 1.0 if weights is None else weights[name]
            bare, nonzero = np.ones(len(t.factor), dtype=bool), t.R != 0.0
            if len(t.columns) > 1 and np.count_nonzero(nonzero) == np.diag(nonzero).sum():
                ridges.append((t.columns, weight * t.factor[:-1]))
                rest.append(weight * float(t.factor[-1, -1]))
                continue
            for part in components(t.R):
                seen = part.columns[nonzero[part.rows].any(axis=0)[part.columns]]
                if not len(seen):  # columns of zeros connect nothing
                    continue
                if len(part.rows) == len(seen) == len(t.columns):
                    rows = t.factor[:-1]  # by far faster
                else:
                    rows = t.factor[np.ix_(part.rows, np.append(seen, -1))]
                sets.append((t.columns[seen], weight * rows))
                bare[part.rows] = False
            rest.extend((weight * t.factor[bare, -1]).tolist())
        parts = []
        firm = [t[np.any(rows[:, :-1] != 0.0, axis=0)] for t, rows in ridges]
        single = [np.array([k]) for columns in firm for k in columns]
        for part in connected([*(columns for columns, _ in sets), *single], size):
            mine = [
                (np.searchsorted(part.columns, columns), rows)
                for columns, rows in (sets[k] for k in part.rows if k < len(sets))
            ]
            count = len(part.columns)
            beside = np.zeros((0, count + 1))
            for columns, diagonal in ridges:
                own = np.flatnonzero(np.isin(columns, part.columns, assume_unique=True))
                place = np.searchsorted(part.columns, columns[own])
                added = among(diagonal[np.ix_(own, np.append(own, -1))], place, count + 1)
                beside = np.vstack([beside, added])
            parts.append(Bordered.of(part.columns, mine, beside))
        return Summed(size, tuple(parts), float(np.linalg.norm(rest)), self.rows)

    def only(self, keep: Sequence[int]) -> Information:
        """Return the information with all other parameters fixed at zero (their columns deleted).

        Args:
            keep: Positions of the parameters to keep, ascending.
        """
        place = {int(j): k for k, j in enumerate(keep)}
        triangles = []
        for t in self.triangles:
            mine = [k for k, j in enumerate(t.columns.tolist()) if j in place]
            all_kept = len(mine) == len(t.columns)
            factor = t.factor if all_kept else triangle_of(t.factor[:, [*mine, len(t.columns)]])
            columns = np.array([place[int(t.columns[k])] for k in mine], dtype=np.intp)
            triangles.append(Triangle(columns, factor, t.rows))
        return Information(self.labels.select(keep), self.channels, tuple(triangles))

    def transformed(self, matrix: Array, labels: Labels) -> Information:
        """Return the same information about x, where `π = matrix @ x`.

        Args:
            matrix: Shape (p, q).
            labels: The q parameters x.
        """
        triangles = []
        for t in self.triangles:
            wide = np.column_stack([t.R @ matrix[t.columns], t.z])
            tail = np.zeros((1, wide.shape[1]))
            tail[0, -1] = t.factor[-1, -1]
            triangles.append(Triangle.of(np.vstack([wide, tail]), t.rows))
        return Information(labels, self.channels, tuple(triangles))

    def marginalised(self, keep: Sequence[int]) -> Information:
        """Return the information about some parameters, the others eliminated as unknowns.

        The channels are first summed unweighted, since parameters that one channel cannot separate
        may be separated by another. The result has one channel, `all`.

        Args:
            keep: Positions of the parameters to keep.
        """
        keep = list(keep)
        away = [i for i in range(len(self.labels)) if i not in set(keep)]
        total = self.combined()
        factor = triangle_of(total.factor[:, [*away, *keep, len(self.labels)]])[len(away) :, :]
        triangle = Triangle(np.arange(len(keep)), factor[:, len(away) :], total.rows)
        return Information(self.labels.select(keep), ("all",), (triangle,))

    def save(self, path: Path, **extra: Array) -> None:
        """Write an NPZ file with labels, triangles and further arrays; nothing is pickled.

        Args:
            path: The file; replaced if it exists.
        """
        arrays: dict[str, NDArray[np.generic]] = {
            "format": np.array(FORMAT),
            "names": np.array(self.labels.names),
            "units": np.array(self.labels.units),
            "frame": np.array(self.labels.frame),
            "channels": np.array(self.channels),
            "rows": np.array([t.rows for t in self.triangles], dtype=np.int64),
        }
        for k, triangle in enumerate(self.triangles):
            arrays[f"columns_{k}"] = triangle.columns
            arrays[f"factor_{k}"] = triangle.factor
        arrays.update(extra)
        write_arrays(path, arrays)

    @staticmethod
    def load(path: Path, instead: str = "") -> Information:
        """Read a file that `save` wrote; `instead` is as of `read_arrays`.

        Returns:
            The information, equal to what was saved.

        Raises:
            InvalidRecording: If it is missing, damaged or of another format.
        """
        require_regular(path, "file of information")
        try:
            data = read_arrays(path, instead=instead)
            if str(data["format"]) != FORMAT:
                raise ValueError(f"format {data['format']}")
            labels = Labels(
                tuple(map(str, data["names"])),
                tuple(map(str, data["units"])),
                str(data["frame"]),
            )
            channels = tuple(map(str, data["channels"]))
            rows = [int(n) for n in data["rows"]]
            if len(rows) != len(channels):
                raise ValueError(f"{len(channels)} channels, {len(rows)} counts of rows")
            triangles = tuple(
                _checked(data[f"columns_{k}"], data[f"factor_{k}"], n, len(labels))
                for k, n in enumerate(rows)
            )
            return Information(labels, channels, triangles)
        except (*UNREADABLE, InvalidSetting) as problem:
            raise InvalidRecording(
                "this is not a file of information", argument=str(path), got=str(problem)[:200]
            ) from problem


def _checked(columns: NDArray[np.intp], factor: Array, rows: int, size: int) -> Triangle:
    columns = np.asarray(columns).astype(np.intp)
    factor = np.asarray(factor, dtype=float)
    k = len(columns)
    if columns.ndim != 1 or factor.shape != (k + 1, k + 1) or rows < 0:
        raise ValueError(f"a factor of shape {factor.shape} for {k} columns and {rows} rows")
    if k and (columns[0] < 0 or columns[-1] >= size or (np.diff(columns) <= 0).any()):
        raise ValueError(f"columns out of range or order, of {size}")
    if not np.isfinite(factor).all() or np.tril(factor, -1).any():
        raise ValueError("a factor that is no finite upper triangle")
    return Triangle(columns, read_only(factor), rows)
