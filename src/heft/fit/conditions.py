"""Like conditions of friction, and what a drive's misfit there does to an estimate.

What no column takes of a drive's friction comes again under like conditions: direction, braking or
accelerating, distance since the last reversal, speed. Within a cell of these it is taken for one
unknown effort e, whose moments are `Yᵀ1 e`, Y the cell's rows. The same effort acts in every log of
a robot, so that it makes two logs differ only as far as their conditions do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import LINEAR_SCALE
from heft.information import ChannelRows
from heft.plants import Equations, Problem, RobotPlant

# Arrays of a channel in `information.npz`, in the order of the fields.
KINDS = ("cells", "cell_moments", "cell_residuals", "cell_rows")
SLOWEST, FASTEST = 1e-4, 1e3  # of the bins of speed [rad/s]
BIN = 0.05  # of the logarithm of the speed
SPEED_BINS = 7  # to a cell of like conditions


@dataclass(frozen=True)
class MisfitSettings:
    """Settings of the misfit and its cells, for revolute joints; a tenth in metres."""

    # lower ends of cells of speed [rad/s]
    speeds: tuple[float, ...] = (0.0, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6)
    # lower ends of cells of the distance since the last reversal [rad]
    distances: tuple[float, ...] = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)
    near: float = 0.25  # logarithm of the ratio to a speed within which rows are near it
    # lower ends of the distances over which mean residuals are compared [rad]
    mean_distances: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1)
    least_rows: int = 8  # rows of a mean residual, at least
    slow: float = 0.1  # speed below which motion is slow [rad/s]
    # lower ends of the first and the last cell of speed of slow sliding [rad/s]
    slow_cells: tuple[float, float] = (0.01, 0.08)
    sliding: float = 0.01  # distance since the last reversal from which a joint slides [rad]
    enough: float = 0.25  # t₀, time of sliding near a speed that halves what is unknown of it [s]
    unseen: float = 4.0  # κ, deviation where nothing was seen, in units of m
    # λ, error of sliding on motion of another kind where nothing was seen, in units of m̃
    elsewhere: float = 2.0
    resting: float = 5.0  # λ at rest


@dataclass(frozen=True)
class Reversal:
    """The last reversal of each drive, carried from one stretch of a log to the next."""

    direction: Array  # of the motion, −1, 0 or 1, shape (drives,)
    position: Array  # where it began, shape (drives,) [rad or m]


def since_reversal(
    position: Array, velocity: Array, before: Reversal | None = None
) -> tuple[Array, Reversal]:
    """Return how far each drive is from its last reversal, (N, drives) [rad or m], and the state.

    Args:
        position: Shape (N, drives) [rad or m].
        velocity: Shape (N, drives) [rad/s or m/s].
        before: State at the end of the stretch before; without it distances count from the first
            row.
    """
    out = np.empty(position.shape)
    ends = np.zeros((2, position.shape[1]))
    for d, (x, w) in enumerate(zip(position.T, velocity.T, strict=True)):
        sign = np.sign(w)
        first = before.direction[d] if before is not None else sign[0]
        # Rest goes on in the direction before it.
        moving = np.where(sign != 0.0, np.arange(len(sign)), -1)
        last = np.maximum.accumulate(moving)
        sign = np.where(last >= 0, sign[np.maximum(last, 0)], first)
        turned = np.flatnonzero(np.diff(sign, prepend=first) != 0.0)
        start = np.full(len(x), before.position[d] if before is not None else x[0])
        place = np.searchsorted(turned, np.arange(len(x)), side="right") - 1
        begun = place >= 0
        start[begun] = x[turned[place[begun]]]
        out[:, d] = np.abs(x - start)
        ends[:, d] = sign[-1], start[-1]
    return out, Reversal(*ends)


def condition_cells(
    velocity: Array, distance: Array, rise: Array, linear: bool
) -> NDArray[np.int64]:
    """Return the cell of like conditions of rows: direction, braking, distance, speed; shape (N,).

    Args:
        velocity: Shape (N,) [rad/s or m/s].
        distance: Since the last reversal, shape (N,) [rad or m].
        rise: Negative where the drive brakes, shape (N,).
    """
    scale = LINEAR_SCALE if linear else 1.0
    way, place = speed_places(velocity / scale)
    part = cells_of(distance, MisfitSettings().mean_distances, scale)
    spot = way, (rise < 0.0).astype(np.intp), part, place // SPEED_BINS
    return np.asarray(np.ravel_multi_index(spot, _conditions()), dtype=np.int64)


def condition_count() -> int:
    """Return the number of cells of like conditions of a drive."""
    return int(np.prod(_conditions()))


def _conditions() -> tuple[int, int, int, int]:
    """Return the numbers of directions, of braking or not, of distances and of speeds."""
    return 2, 2, len(MisfitSettings().mean_distances), -(-speed_bins() // SPEED_BINS)


def speed_bins() -> int:
    """Return the number of bins of speed."""
    return int(np.log(FASTEST / SLOWEST) / BIN) + 1


def speed_places(velocity: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return direction (0 backward, 1 forward) and bin of speed."""
    speed = np.log(np.maximum(np.abs(velocity), SLOWEST) / SLOWEST) / BIN
    place = np.minimum(np.round(speed), speed_bins() - 1).astype(np.intp)
    return (velocity > 0.0).astype(np.intp), place


def cells_of(values: Array, lower: Sequence[float], scale: float) -> NDArray[np.intp]:
    """Return the cells of values, given the cells' lower ends in units of `scale`."""
    ends = scale * np.array(lower[1:])
    return np.searchsorted(ends, values, side="right")


@dataclass(frozen=True)
class MisfitMoments:
    """Moments of a unit effort of drives, by channel and cell of like conditions."""

    # for each channel the numbers of cells, those of the robot's first drive first, shape (cells,)
    cells: tuple[NDArray[np.int64], ...]
    # for each channel `Σ Yᵀ` over a cell's rows, times the drive's ratio, shape (cells, b)
    moments: tuple[Array, ...]
    # for each channel the mean of what is left over of the drive's effort in a cell, shape (cells,)
    # [N·m or N]
    residuals: tuple[Array, ...]
    rows: tuple[Array, ...]  # for each channel the number of rows of this mean, shape (cells,)

    @staticmethod
    def of(problem: Problem[RobotPlant], values: Array, rows: int) -> MisfitMoments:
        """Return the moments of a problem's rows, and what β of values, shape (b,), leaves of them.

        Args:
            rows: Number of rows in the problem's information, of all channels.
        """
        channels = range(len(problem.channels))
        total, left, used = _summed(problem, values)
        per_row = rows / len(channels) / max(used, 1)
        samples = sum(line.used for line in problem.timelines) / max(used, 1)
        parts = []
        for c in channels:
            own = sorted((d, k) for channel, d, k in total if channel == c)
            cells = np.array([d * condition_count() + k for d, k in own], dtype=np.int64)
            sums = [per_row * total[c, d, k] for d, k in own]
            moments = np.array(sums).reshape(len(own), len(problem.base.kept))
            sizes, counts = np.array([left[spot] for spot in own]).reshape(len(own), 2).T
            parts.append((cells, moments, sizes / np.maximum(counts, 1.0), samples * counts))
        return MisfitMoments(*(tuple(part) for part in zip(*parts, strict=True)))

    @staticmethod
    def load(data: Mapping[str, Array], count: int, size: int) -> MisfitMoments | None:
        """Return the moments that `stored` wrote; None if the data hold none.

        Raises:
            ValueError: If the arrays are damaged.
            KeyError: If some of them are missing.
        """
        if "cells_0" not in data:
            return None
        cells = tuple(np.asarray(data[f"cells_{c}"], dtype=np.int64) for c in range(count))
        moments, residuals, rows = (
            tuple(np.asarray(data[f"{kind}_{c}"], dtype=float) for c in range(count))
            for kind in KINDS[1:]
        )
        for k, m, *others in zip(cells, moments, residuals, rows, strict=True):
            if m.shape != (len(k), size) or any(part.shape != k.shape for part in others):
                raise ValueError("the cells of the misfit are not of one shape")
            if not all(np.isfinite(part).all() for part in (m, *others)) or (k < 0).any():
                raise ValueError("a cell of the misfit that is no number")
        return MisfitMoments(cells, moments, residuals, rows)

    def stored(self) -> dict[str, Array]:
        """Return the arrays that `load` reads, by name with the channel's number."""
        arrays: dict[str, Array] = {}
        for c, parts in enumerate(
            zip(self.cells, self.moments, self.residuals, self.rows, strict=True)
        ):
            arrays |= {f"{k}_{c}": np.asarray(p, float) for k, p in zip(KINDS, parts, strict=True)}
        return arrays

    def among(self, channels: int) -> MisfitMoments:
        """Return the moments with empty channels appended."""
        every = [k if k < len(self.cells) else None for k in range(channels)]
        return self if channels == len(self.cells) else self.on(None, every)

    def on(
        self,
        onto: Array | None,
        places: Sequence[int | None],
        drives: Sequence[str] = (),
        others: Sequence[str] = (),
    ) -> MisfitMoments:
        """Return the moments on other base parameters β, their own being L β, and other channels.

        Args:
            onto: L, shape (own, b); the identity if not given.
            places: For each new channel the position of the own one; None if it has none.
            others: Names of the drives to number cells by; as before if not given.
        """
        size = self.moments[0].shape[1] if onto is None else onto.shape[1]
        number = {d: others.index(name) for d, name in enumerate(drives) if name in others}
        parts: list[tuple[NDArray[np.int64], Array, Array, Array]] = []
        for k in places:
            if k is None:
                none = np.zeros(0)
                parts.append((np.zeros(0, dtype=np.int64), np.zeros((0, size)), none, none))
                continue
            cells, moments = self.cells[k], self.moments[k]
            kept = np.ones(len(cells), dtype=bool)
            if others:
                drive, cell = np.divmod(cells, condition_count())
                kept = np.isin(drive, list(number))
                moved = [number.get(int(d), 0) for d in drive]
                cells = np.array(moved, dtype=np.int64) * condition_count() + cell
            if onto is not None:
                moments = moments @ onto
            rows, residuals = self.rows[k], self.residuals[k]
            parts.append((cells[kept], moments[kept], residuals[kept], rows[kept]))
        return MisfitMoments(*(tuple(part) for part in zip(*parts, strict=True)))

    def __add__(self, other: MisfitMoments) -> MisfitMoments:
        """Return the moments of two sets of logs; a cell of both stands twice."""
        fields = ("cells", "moments", "residuals", "rows")
        pairs = (zip(getattr(self, f), getattr(other, f), strict=True) for f in fields)
        return MisfitMoments(*(tuple(np.concatenate(p) for p in pair) for pair in pairs))


def misfit_scatter(
    sides: Sequence[tuple[MisfitMoments, Sequence[Array]]], least_rows: float
) -> Array:
    """Return the covariance, (n, n), that misfit alike on all sides gives to mapped moments' sum.

    A drive's misfit has one variance in all cells: the mean over those that were seen of their
    squared mean residuals. A fit leaves less than there is, by what its columns can take.

    Args:
        sides: Moments, and for each channel the map of moments, shape (b, n).
        least_rows: Number of rows from which a cell was seen.
    """
    numbers = np.unique(np.concatenate([k for moments, _ in sides for k in moments.cells]))
    size = sides[0][1][0].shape[1]
    total = np.zeros((len(numbers), size))
    energy, rows = np.zeros(len(numbers)), np.zeros(len(numbers))
    for moments, maps in sides:
        for c, onto in enumerate(maps):
            places = np.searchsorted(numbers, moments.cells[c])
            np.add.at(total, places, moments.moments[c] @ onto)
            np.add.at(energy, places, moments.rows[c] * moments.residuals[c] ** 2)
            np.add.at(rows, places, moments.rows[c])
    squares = energy / np.maximum(rows, 1.0)
    drives = numbers // condition_count()
    variance = np.zeros(len(numbers))
    for d in np.unique(drives):
        own = drives == d
        seen = own & (rows >= least_rows)
        variance[own] = np.mean(squares[seen if seen.any() else own])
    return np.asarray((total.T * variance) @ total)


def _with_motion(problem: Problem[RobotPlant]) -> Iterator[tuple[Equations, Array, Array]]:
    """Yield rows, with position and velocity of all drives at their times, shape (N, drives).

    Rows that are not kept are as few as the motion needs.
    """
    ratios, kept = problem.plant.robot.drives.ratios, problem.base.kept
    if problem.keeps_rows:
        every = tuple(problem.samples())
        parts = ((r, [s for s in every if s.recording == r.recording]) for r in problem.rows())
    else:
        strides = [problem.stride(k) for k in range(len(problem.recordings))]
        thin = (
            s.part(slice(n // 2, None, n))
            for s in problem.samples()
            for n in [strides[s.recording]]
        )
        parts = ((problem.walk.equations_of(s, kept), [s]) for s in thin)
    for r, own in parts:
        time = np.concatenate([s.time for s in own])
        both = zip(*((s.motion.position, s.motion.velocity) for s in own), strict=True)
        moving = (ratios.T @ np.hstack(pieces) for pieces in both)
        position, velocity = (np.array([np.interp(r.time, time, x) for x in m]).T for m in moving)
        yield r, position, velocity


def _summed(
    problem: Problem[RobotPlant], values: Array
) -> tuple[dict[tuple[int, int, int], Array], dict[tuple[int, int], Array], int]:
    """Return sums over rows by cell, and the number of rows.

    Sums of rows are by channel, drive and cell, shape (b,); of what β, the values, leaves of a
    drive's effort, and of its rows, by drive and cell, shape (2,).
    """
    robot, size = problem.plant.robot, len(problem.base.kept)
    found: dict[tuple[int, int, int], Array] = {}
    left: dict[tuple[int, int], Array] = {}
    used, current = 0, -1
    state: Reversal | None = None
    for made, position, velocity in _with_motion(problem):
        earlier = state if made.recording == current else None
        distance, state = since_reversal(position, velocity, earlier)
        current = made.recording
        rise = np.gradient(velocity, axis=0) * velocity if len(velocity) > 1 else velocity
        used += len(velocity)
        residuals = made.residuals(values)[:, : len(robot.measured)]
        for d, drive in enumerate(robot.drives):
            own = drive.ratio[robot.measured]
            if not drive.friction or not own.any():
                continue
            w, gone, rising = (x[:, d] for x in (velocity, distance, rise))
            cells, place = np.unique(
                condition_cells(w, gone, rising, drive.linear), return_inverse=True
            )
            within = (place == np.arange(len(cells))[:, None]).astype(float)
            effort = np.column_stack([residuals @ own / (own @ own), np.ones(len(w))])
            for k, sums in zip(cells.tolist(), within @ effort, strict=True):
                left[d, k] = left.get((d, k), 0.0) + sums
            for c in np.flatnonzero(own).tolist():
                rows = made.by_channel[c]
                wide = ChannelRows(rows.columns, own[c] * within @ rows.values).spread(size)
                for k, row in zip(cells.tolist(), wide, strict=True):
                    found[c, d, k] = found.get((c, d, k), 0.0) + row
    return found, left, used
