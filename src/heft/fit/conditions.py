"""Like conditions of friction, and what a drive's misfit there does to an estimate.

What no column takes of a drive's friction comes again under like conditions: direction, braking or
accelerating, distance since the last reversal, speed. Within a cell of these it is taken for one
unknown effort e, whose moments are `Yᵀ1 e`, Y the cell's rows. The same effort acts in every log of
a robot, so that it makes two logs differ only as far as their conditions do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import LINEAR_SCALE
from heft.information import ChannelRows
from heft.plants import Problem, RobotPlant

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
    def of(problem: Problem[RobotPlant], means: Mapping[str, Array], rows: int) -> MisfitMoments:
        """Return the moments of a problem's rows.

        Args:
            means: By drive `Misfit.condition_means`; drives without them have no moments.
            rows: Number of rows in the problem's information, of all channels.
        """
        drives = problem.plant.robot.drives
        residuals = {d: means[k.name] for d, k in enumerate(drives) if k.name in means}
        total, used = _summed(problem, list(residuals), _samples(problem))
        return MisfitMoments._of(
            problem, total, residuals, rows / len(problem.channels) / max(used, 1)
        )

    @staticmethod
    def of_rows(problem: Problem[RobotPlant], values: Array) -> MisfitMoments:
        """Return the moments of rows that a problem keeps, and what β, (b,), leaves of them."""
        robot = problem.plant.robot
        drives = [d for d, k in enumerate(robot.drives) if k.friction]
        residuals = {d: np.zeros((2, condition_count())) for d in drives}
        total, used = _summed(problem, drives, _kept(problem), values, residuals)
        samples = sum(line.used for line in problem.timelines)
        for means in residuals.values():
            means[0] /= np.maximum(means[1], 1.0)
            means[1] *= samples / max(used, 1)
        return MisfitMoments._of(problem, total, residuals, 1.0)

    @staticmethod
    def _of(
        problem: Problem[RobotPlant],
        total: Mapping[tuple[int, int, int], Array],
        residuals: Mapping[int, Array],
        scale: float,
    ) -> MisfitMoments:
        parts = []
        for c in range(len(problem.channels)):
            own = sorted((d, k) for channel, d, k in total if channel == c)
            cells = np.array([d * condition_count() + k for d, k in own], dtype=np.int64)
            sums = [scale * total[c, d, k] for d, k in own]
            moments = np.array(sums).reshape(len(own), len(problem.base.kept))
            mean = np.array([residuals[d][:, k] for d, k in own]).reshape(len(own), 2)
            parts.append((cells, moments, mean[:, 0], mean[:, 1]))
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


class _Part(NamedTuple):
    """Rows of a stretch of a log, with the motion of all drives."""

    recording: int
    rows: tuple[ChannelRows, ...]
    position: Array  # shape (N, drives) [rad or m]
    velocity: Array  # shape (N, drives) [rad/s or m/s]
    effort: Array  # measured, shape (N, channels) [N·m or N]


def _samples(problem: Problem[RobotPlant]) -> Iterator[_Part]:
    """Yield instantaneous rows, as few as the motion needs."""
    ratios = problem.plant.robot.drives.ratios
    for s in problem.samples():
        every = problem.stride(s.recording)
        part = s.part(slice(every // 2, None, every))
        moving = (x.T @ ratios for x in (part.motion.position, part.motion.velocity))
        rows = problem.walk.channel_rows(part, problem.base.kept)
        yield _Part(s.recording, rows, *moving, part.measured)


def _kept(problem: Problem[RobotPlant]) -> Iterator[_Part]:
    """Yield the rows that a problem keeps, with the motion at their times."""
    ratios = problem.plant.robot.drives.ratios
    samples = tuple(problem.samples())
    for r in problem.rows():
        own = [s for s in samples if s.recording == r.recording]
        time = np.concatenate([s.time for s in own])
        moving = (
            np.stack([np.interp(r.time, time, x) for x in ratios.T @ np.hstack(parts)], axis=1)
            for parts in zip(*((s.motion.position, s.motion.velocity) for s in own), strict=True)
        )
        yield _Part(r.recording, r.by_channel, *moving, r.effort)


def _summed(
    problem: Problem[RobotPlant],
    chosen: Sequence[int],
    parts: Iterable[_Part],
    values: Array | None = None,
    residuals: Mapping[int, Array] = {},
) -> tuple[dict[tuple[int, int, int], Array], int]:
    """Return sums of rows by channel, drive and cell, shape (b,), and the number of rows.

    Args:
        values: β, shape (b,), of which residuals are summed up; none are if not given.
        residuals: By drive the sums of residuals and the numbers of rows, shape (2, cells).
    """
    robot, kept = problem.plant.robot, problem.base.kept
    found: dict[tuple[int, int, int], Array] = {}
    used, current = 0, -1
    state: Reversal | None = None
    for part in parts:
        earlier = state if part.recording == current else None
        distance, state = since_reversal(part.position, part.velocity, earlier)
        current = part.recording
        w = part.velocity
        rise = np.gradient(w, axis=0) * w if len(w) > 1 else w
        used += len(w)
        for d in chosen:
            drive = robot.drives[d]
            cells, place = np.unique(
                condition_cells(w[:, d], distance[:, d], rise[:, d], drive.linear),
                return_inverse=True,
            )
            within = (place == np.arange(len(cells))[:, None]).astype(float)
            for c, channel in enumerate(robot.measured):
                if drive.ratio[channel] == 0.0:
                    continue
                rows = part.rows[c]
                sums = ChannelRows(rows.columns, drive.ratio[channel] * within @ rows.values)
                for k, row in zip(cells.tolist(), sums.spread(len(kept)), strict=True):
                    found[c, d, k] = found.get((c, d, k), 0.0) + row
                if values is not None:
                    left = part.effort[:, c] - rows.values @ values[rows.columns]
                    own = drive.ratio[robot.measured]
                    residuals[d][0, cells] += within @ left * drive.ratio[channel] / (own @ own)
            if values is not None:
                residuals[d][1, cells] += within.sum(axis=1)
    return found, used
