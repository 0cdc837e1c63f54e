"""What the model cannot describe, measured from what it leaves over: part of stated intervals.

The deviation of a friction curve at the speed v, each direction by itself, is

    std² = J² + M² + U²

J is the jackknife's (`heft.certainty.Jackknife`). M(v) is the root mean square, over braking and
accelerating and over the distance since the last reversal, of the mean residual near v: what comes
again there and no column takes. U(v) = κ m / (1 + t(v)/t₀) says how little was seen: m is the root
mean square residual of slow motion, t(v) the time of sliding near v, away from reversals. Where
nothing slides slowly, friction that falls with speed and presliding cannot be told apart.

The deviation of a predicted torque is the jackknife's, the root mean square residual of rows of
like speed and distance since reversal, and U at the row's speed.

On motion of another kind conditions come in other proportions, and noise of the torque sensor is
not the model's. So there the rms of slow rows gives way to the median over cells of slow sliding,
each of which counts once, and noise n is taken off:

    error² = (r² − n²) + (λ / (1 + t(v)/t₀))² (m̃² − n²)

with m̃ that median. At rest λ is larger and m̃ at least m: what sticks shows in few cells, and a
dwell keeps it.

Residuals are taken in the motion's band: an interval that is scaled by noise above it is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.display import Stretch
from heft.dynamics import LINEAR_SCALE, Drive
from heft.models import Robot

SLOWEST, FASTEST = 1e-4, 1e3  # of the bins of speed [rad/s]
BIN = 0.05  # of the logarithm of the speed
SPEED_BINS = 7  # to a cell of like conditions
# ∫ df / (1 + f⁸)², of white noise behind the low-pass of the scores, per cutoff and side.
NOISE_BANDWIDTH = 0.898


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


def noise_in_band(residual: Array, step: float, corner: float) -> Array:
    """Return the standard deviation n of a residual's white noise behind the scores' low-pass.

    White is what second differences show in most rows, so what few rows show (a reversal) and what
    is smooth (ripple, a wrong mass) is none.

    Args:
        residual: Without any filter, shape (N, channels).
        step: Time from one row to the next [s].
        corner: Cutoff frequency of the low-pass [Hz].

    Returns:
        Shape (channels,), in the unit of the residual; 0 for fewer than three rows.
    """
    if len(residual) < 3:
        return np.zeros(residual.shape[1])
    second = np.abs(np.diff(residual, 2, axis=0))
    white = signals.STD_PER_MAD * np.median(second, axis=0) / np.sqrt(6.0)
    return np.asarray(white * np.sqrt(min(1.0, 2.0 * NOISE_BANDWIDTH * corner * step)))


@dataclass(frozen=True)
class Reversal:
    """The last reversal of each drive, carried from one stretch of a log to the next."""

    direction: Array  # of the motion, −1, 0 or 1, shape (drives,)
    position: Array  # where it began, shape (drives,) [rad or m]


def since_reversal(
    position: Array, velocity: Array, before: Reversal | None = None
) -> tuple[Array, Reversal]:
    """Return the distance that each drive has gone since its last reversal.

    Args:
        position: Shape (N, drives) [rad or m].
        velocity: Shape (N, drives) [rad/s or m/s].
        before: State at the end of the stretch before; without it distances count from the first
            row.

    Returns:
        Shape (N, drives) [rad or m], and the state at the end.
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


@dataclass(frozen=True)
class Misfit:
    """Residual effort of one drive, by speed, direction and distance since the last reversal."""

    settings: MisfitSettings  # of the cells
    # root mean square residual by speed and distance since reversal, shape (speeds, distances) [N·m
    # or N]; the largest of all where there are no rows
    cells: Array
    slow: float  # m, of slow motion [N·m or N]
    scale: float  # unit of speeds and distances: 1, or `LINEAR_SCALE` of a sliding joint
    # sum of residuals [N·m or N] and number of rows by direction, braking or not, distance and
    # speed, shape (2, 2, 2, distances, bins)
    sums: Array
    seconds: Array  # time of sliding by direction and speed, shape (2, bins) [s]
    noise: float = 0.0  # n, standard deviation of the sensor's white noise in the band [N·m or N]

    def alike(self, other: Misfit) -> float:
        """Return the share of sliding at like speeds in two sets of logs, `∫ min(p, p′)`.

        Here p is the density of the time of sliding over direction and the logarithm of speed,
        averaged over speeds near.

        Args:
            other: Misfit of the same drive in other logs.

        Returns:
            From 0 to 1; 0 where either never slides.
        """
        reach = round(self.settings.near / BIN)
        first, second = (_around(m.seconds, reach) for m in (self, other))
        whole = first.sum(), second.sum()
        if min(whole) == 0.0:
            return 0.0
        return float(np.minimum(first / whole[0], second / whole[1]).sum())

    def condition_means(self) -> Array:
        """Return mean residual [N·m or N] and rows of each cell of conditions, shape (2, cells)."""
        starts = np.arange(0, _bins(), SPEED_BINS)
        total, rows = np.add.reduceat(self.sums, starts, axis=-1).reshape(2, -1)
        return np.array([total / np.maximum(rows, 1.0), rows])

    def curve(self, velocity: Array) -> Array:
        """Return √(M² + U²) in steady sliding at velocities, shape (N,) [N·m or N]."""
        return np.asarray(np.hypot(self._repeated(velocity), self.unseen(velocity)))

    def unseen(self, velocity: Array) -> Array:
        """Return U at velocities, shape (N,) [N·m or N]."""
        return self.settings.unseen * self.slow * self._unseen(velocity)

    def _unseen(self, velocity: Array) -> Array:
        """Return 1 / (1 + t(v)/t₀) at velocities, shape (N,)."""
        way, place = self._places(velocity)
        near = _around(self.seconds, round(self.settings.near / BIN))
        return np.asarray(1.0 / (1.0 + near[way, place] / self.settings.enough))

    def _repeated(self, velocity: Array) -> Array:
        """Return M at velocities, shape (N,)."""
        way, place = self._places(velocity)
        total, rows = _around(self.sums, round(self.settings.near / BIN))
        enough = rows >= self.settings.least_rows
        mean = np.where(enough, total / np.maximum(rows, 1.0), 0.0)
        count = np.maximum(enough.sum(axis=(1, 2)), 1)
        return np.asarray(np.sqrt(np.sum(mean**2, axis=(1, 2)) / count)[way, place])

    def torque(self, velocity: Array, distance: Array) -> Array:
        """Return the residual expected under like conditions, √(r² + U²), shape (N,) [N·m or N].

        Here r is the root mean square residual of the cell of like speed and distance.

        Args:
            velocity: Shape (N,) [rad/s or m/s].
            distance: Since the last reversal, shape (N,) [rad or m].
        """
        return np.asarray(np.hypot(self._alike(velocity, distance), self.unseen(velocity)))

    def elsewhere(self, velocity: Array, distance: Array) -> Array:
        """Return the error to be expected on motion of another kind, shape (N,) [N·m or N].

        It is √((r² − n²) + (λ / (1 + t(v)/t₀))² (m̃² − n²)), see above; no term is below zero.

        Args:
            velocity: Shape (N,) [rad/s or m/s].
            distance: Since the last reversal, shape (N,) [rad or m].
        """
        s = self.settings
        first, last = np.searchsorted(s.speeds, s.slow_cells)
        typical = np.asarray(np.median(self.cells[first : last + 1, 1:]))
        sliding = s.elsewhere**2 * self._without_noise(typical)
        resting = s.resting**2 * self._without_noise(np.maximum(typical, self.slow))
        slow = np.where(np.abs(velocity) < self.scale * s.slow_cells[0], resting, sliding)
        alike = self._without_noise(self._alike(velocity, distance))
        return np.asarray(np.sqrt(alike + self._unseen(velocity) ** 2 * slow))

    def _alike(self, velocity: Array, distance: Array) -> Array:
        """Return r, the root mean square residual of each row's cell, shape (N,)."""
        row = _cell(np.abs(velocity), self.settings.speeds, self.scale)
        column = _cell(distance, self.settings.distances, self.scale)
        return np.asarray(self.cells[row, column])

    def _without_noise(self, size: Array) -> Array:
        """Return size² − n², none below zero."""
        return np.asarray(np.maximum(size**2 - self.noise**2, 0.0))

    def _places(self, velocity: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return _places(velocity / self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` needs to state the standard deviation of a torque."""
        centres = self.scale * SLOWEST * np.exp(BIN * np.arange(self.seconds.shape[1]))
        seen = np.flatnonzero(self.seconds.any(axis=0))
        return {
            "speed": [self.scale * v for v in self.settings.speeds],
            "distance": [self.scale * d for d in self.settings.distances],
            "residual": self.cells.tolist(),
            "slow_residual": self.slow,
            "sliding": {
                "speed": centres[seen].tolist(),
                "backward": self.seconds[0, seen].tolist(),
                "forward": self.seconds[1, seen].tolist(),
            },
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], linear: bool) -> Misfit:
        """Return the misfit that `to_json` wrote; sums and noise are not kept.

        Args:
            linear: Whether the drive is prismatic.

        Raises:
            ValueError: If the numbers are none or do not fit each other.
            KeyError: If an entry is missing.
        """
        scale = LINEAR_SCALE if linear else 1.0
        settings = MisfitSettings(
            speeds=tuple(float(v) / scale for v in data["speed"]),
            distances=tuple(float(v) / scale for v in data["distance"]),
        )
        cells = np.array(data["residual"], dtype=float)
        slow = float(data["slow_residual"])
        seconds = np.zeros((2, _bins()))
        sliding = data["sliding"]
        place = _places(np.array(sliding["speed"], dtype=float) / scale)[1]
        for way, name in enumerate(("backward", "forward")):
            seconds[way, place] = np.array(sliding[name], dtype=float)
        if cells.shape != (len(settings.speeds), len(settings.distances)):
            raise ValueError("cells of the misfit do not fit their speeds and distances")
        if not (np.isfinite(cells).all() and np.isfinite(slow) and np.isfinite(seconds).all()):
            raise ValueError("a misfit is no finite number")
        return Misfit(settings, cells, slow, scale, np.zeros((2, 2, 2, 0, _bins())), seconds)


def condition_cells(
    velocity: Array, distance: Array, rise: Array, linear: bool
) -> NDArray[np.int64]:
    """Return the cell of like conditions of rows: direction, braking, distance, speed; shape (N,).

    Args:
        velocity: Shape (N,) [rad/s or m/s].
        distance: Since the last reversal, shape (N,) [rad or m].
        rise: Negative where the drive brakes, shape (N,).
        linear: Whether the drive is prismatic.
    """
    scale = LINEAR_SCALE if linear else 1.0
    way, place = _places(velocity / scale)
    part = _cell(distance, MisfitSettings().mean_distances, scale)
    spot = way, (rise < 0.0).astype(np.intp), part, place // SPEED_BINS
    return np.asarray(np.ravel_multi_index(spot, _conditions()), dtype=np.int64)


def condition_count() -> int:
    """Return the number of cells of like conditions of a drive."""
    return int(np.prod(_conditions()))


def _conditions() -> tuple[int, int, int, int]:
    """Return the numbers of directions, of braking or not, of distances and of speeds."""
    return 2, 2, len(MisfitSettings().mean_distances), -(-_bins() // SPEED_BINS)


def _bins() -> int:
    return int(np.log(FASTEST / SLOWEST) / BIN) + 1


def _places(velocity: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return direction (0 backward, 1 forward) and bin of speed."""
    speed = np.log(np.maximum(np.abs(velocity), SLOWEST) / SLOWEST) / BIN
    place = np.minimum(np.round(speed), _bins() - 1).astype(np.intp)
    return (velocity > 0.0).astype(np.intp), place


def _cell(values: Array, lower: Sequence[float], scale: float) -> NDArray[np.intp]:
    ends = scale * np.array(lower[1:])
    return np.searchsorted(ends, values, side="right")


def _around(values: Array, reach: int) -> Array:
    """Return sums over the bins within `reach` of each bin, along the last axis."""
    total = np.cumsum(np.concatenate([np.zeros((*values.shape[:-1], 1)), values], -1), -1)
    size = values.shape[-1]
    high = np.minimum(np.arange(size) + reach + 1, size)
    low = np.maximum(np.arange(size) - reach, 0)
    return np.asarray(total[..., high] - total[..., low])


@dataclass
class MisfitGatherer:
    """Sums of the residuals of a robot's drives, accumulated stretch by stretch."""

    drives: tuple[Drive, ...]  # with friction, whose effort acts on a measured channel
    measured: NDArray[np.intp]  # positions of the measured channels
    settings: MisfitSettings = field(default_factory=MisfitSettings)  # of the cells

    @staticmethod
    def of(robot: Robot) -> MisfitGatherer:
        """Return the gatherer of a robot's drives with friction on measured channels."""
        drives = (d for d in robot.drives if d.friction and d.ratio[robot.measured].any())
        return MisfitGatherer(tuple(drives), robot.measured)

    def __post_init__(self) -> None:
        count, s = len(self.drives), self.settings
        self._cells = np.zeros((count, 2, len(s.speeds), len(s.distances)))
        self._slow = np.zeros((count, 2))
        self._noise = np.zeros((count, 2))
        self._sums = np.zeros((count, 2, 2, 2, len(s.mean_distances), _bins()))
        self._seconds = np.zeros((count, 2, _bins()))

    def add(
        self,
        piece: Stretch,
        left: Array,
        chosen: NDArray[np.bool_],
        step: float,
        noise: Array,
    ) -> None:
        """Add a stretch of a log.

        Args:
            left: Residual of the measured channels in the motion's band, of the chosen rows, shape
                (chosen, channels) [N·m or N]; channels of sensors behind them are ignored.
            chosen: Which rows count, shape (N,).
            step: Time from one row to the next [s].
            noise: Standard deviation of the channels' white noise in the band, shape (channels,)
                [N·m or N].
        """
        if not self.drives:
            return
        ratios = np.array([d.ratio for d in self.drives]).T
        left, noise = left[:, : len(self.measured)], noise[: len(self.measured)]
        position, velocity = piece.position @ ratios, piece.velocity @ ratios
        distance, _ = since_reversal(position, velocity)
        rise = np.gradient(velocity, axis=0) * velocity if len(velocity) > 1 else velocity
        for d, drive in enumerate(self.drives):
            own = drive.ratio[self.measured]
            residual = left @ own / (own @ own)
            scale = LINEAR_SCALE if drive.linear else 1.0
            w, gone, rising = (p[chosen, d] / scale for p in (velocity, distance, rise))
            self._add(d, residual, w, gone, rising, step)
            variance = np.sum((own * noise) ** 2) / (own @ own) ** 2
            self._noise[d] += len(residual) * variance, len(residual)

    def _add(
        self, d: int, residual: Array, velocity: Array, distance: Array, rise: Array, step: float
    ) -> None:
        s = self.settings
        row, column = _cell(np.abs(velocity), s.speeds, 1.0), _cell(distance, s.distances, 1.0)
        np.add.at(self._cells[d, 0], (row, column), residual**2)
        np.add.at(self._cells[d, 1], (row, column), 1.0)
        slow = np.abs(velocity) < s.slow
        self._slow[d] += np.sum(residual[slow] ** 2), np.count_nonzero(slow)
        way, place = _places(velocity)
        braking = (rise < 0.0).astype(np.intp)
        part = _cell(distance, s.mean_distances, 1.0)
        np.add.at(self._sums[d, 0], (way, braking, part, place), residual)
        np.add.at(self._sums[d, 1], (way, braking, part, place), 1.0)
        sliding = distance > s.sliding
        np.add.at(self._seconds[d], (way[sliding], place[sliding]), step)

    def misfits(self) -> dict[str, Misfit]:
        """Return the misfits by drive, of drives that have rows."""
        found = {}
        for d, drive in enumerate(self.drives):
            energy, rows = self._cells[d]
            if not rows.any():
                continue
            mean = np.sqrt(energy / np.maximum(rows, 1.0))
            cells = np.where(rows > 0.0, mean, mean.max())
            overall = (energy.sum(), rows.sum())
            total, count = self._slow[d] if self._slow[d, 1] > 0.0 else overall
            found[drive.name] = Misfit(
                self.settings,
                cells,
                float(np.sqrt(total / count)),
                LINEAR_SCALE if drive.linear else 1.0,
                self._sums[d],
                self._seconds[d],
                float(np.sqrt(self._noise[d, 0] / self._noise[d, 1])),
            )
        return found
