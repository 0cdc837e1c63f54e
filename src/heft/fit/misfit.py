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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.display import Stretch
from heft.dynamics import LINEAR_SCALE, Drive, drive_columns
from heft.models import Robot
from heft.plants import RobotMotion, RobotPlant, Samples

from .conditions import (
    BIN,
    SLOWEST,
    MisfitSettings,
    Reversal,
    cells_of,
    since_reversal,
    speed_bins,
    speed_places,
)

# ∫ df / (1 + f⁸)², of white noise behind the low-pass of the scores, per cutoff and side.
NOISE_BANDWIDTH = 0.898


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
        """Return the share of sliding at like speeds, `∫ min(p, p′)`; 0 where either never slides.

        Here p is the density of the time of sliding over direction and the logarithm of speed,
        averaged over speeds near.
        """
        reach = round(self.settings.near / BIN)
        first, second = (_around(m.seconds, reach) for m in (self, other))
        totals = first.sum(), second.sum()
        if min(totals) == 0.0:
            return 0.0
        return float(np.minimum(first / totals[0], second / totals[1]).sum())

    def curve(self, velocity: Array) -> Array:
        """Return √(M² + U²) in steady sliding at velocities, shape (N,) [N·m or N]."""
        return np.asarray(np.hypot(self._repeated(velocity), self.unseen(velocity)))

    def unseen(self, velocity: Array) -> Array:
        """Return U at velocities, shape (N,) [N·m or N]."""
        return self.settings.unseen * self.slow * self._unseen(velocity)

    def _unseen(self, velocity: Array) -> Array:
        """Return 1 / (1 + t(v)/t₀) at velocities, shape (N,)."""
        way, place = speed_places(velocity / self.scale)
        near = _around(self.seconds, round(self.settings.near / BIN))
        return np.asarray(1.0 / (1.0 + near[way, place] / self.settings.enough))

    def _repeated(self, velocity: Array) -> Array:
        """Return M at velocities, shape (N,)."""
        way, place = speed_places(velocity / self.scale)
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
        row = cells_of(np.abs(velocity), self.settings.speeds, self.scale)
        column = cells_of(distance, self.settings.distances, self.scale)
        return np.asarray(self.cells[row, column])

    def _without_noise(self, size: Array) -> Array:
        """Return size² − n², none below zero."""
        return np.asarray(np.maximum(size**2 - self.noise**2, 0.0))

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
        seconds = np.zeros((2, speed_bins()))
        sliding = data["sliding"]
        place = speed_places(np.array(sliding["speed"], dtype=float) / scale)[1]
        for way, name in enumerate(("backward", "forward")):
            seconds[way, place] = np.array(sliding[name], dtype=float)
        if cells.shape != (len(settings.speeds), len(settings.distances)):
            raise ValueError("cells of the misfit do not fit their speeds and distances")
        if not (np.isfinite(cells).all() and np.isfinite(slow) and np.isfinite(seconds).all()):
            raise ValueError("a misfit is no finite number")
        return Misfit(settings, cells, slow, scale, np.zeros((2, 2, 2, 0, speed_bins())), seconds)


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
        self._sums = np.zeros((count, 2, 2, 2, len(s.mean_distances), speed_bins()))
        self._seconds = np.zeros((count, 2, speed_bins()))

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
        row, column = (
            cells_of(np.abs(velocity), s.speeds, 1.0),
            cells_of(distance, s.distances, 1.0),
        )
        np.add.at(self._cells[d, 0], (row, column), residual**2)
        np.add.at(self._cells[d, 1], (row, column), 1.0)
        slow = np.abs(velocity) < s.slow
        self._slow[d] += np.sum(residual[slow] ** 2), np.count_nonzero(slow)
        way, place = speed_places(velocity)
        braking = (rise < 0.0).astype(np.intp)
        part = cells_of(distance, s.mean_distances, 1.0)
        np.add.at(self._sums[d, 0], (way, braking, part, place), residual)
        np.add.at(self._sums[d, 1], (way, braking, part, place), 1.0)
        sliding = distance > s.sliding
        np.add.at(self._seconds[d], (way[sliding], place[sliding]), step)

    def misfits(self) -> dict[str, Misfit]:
        """Return the misfits by drive, of drives that have rows."""
        misfits = {}
        for d, drive in enumerate(self.drives):
            energy, rows = self._cells[d]
            if not rows.any():
                continue
            mean = np.sqrt(energy / np.maximum(rows, 1.0))
            cells = np.where(rows > 0.0, mean, mean.max())
            overall = (energy.sum(), rows.sum())
            total, count = self._slow[d] if self._slow[d, 1] > 0.0 else overall
            misfits[drive.name] = Misfit(
                self.settings,
                cells,
                float(np.sqrt(total / count)),
                LINEAR_SCALE if drive.linear else 1.0,
                self._sums[d],
                self._seconds[d],
                float(np.sqrt(self._noise[d, 0] / self._noise[d, 1])),
            )
        return misfits


@dataclass(frozen=True)
class TorqueDeviation:
    """Parts of the standard deviation of a robot's predicted torques."""

    deviations: Array  # D of the standard parameters, DᵀD their jackknife covariance, shape (K, p)
    # what is left over, by joint; without one a joint's deviation is not known
    misfits: Mapping[str, Misfit]

    def std(
        self,
        plant: RobotPlant,
        samples: Samples[RobotMotion],
        rigid: Array,
        before: Reversal | None = None,
        through: Array | None = None,
    ) -> tuple[Array, Reversal]:
        """Return the standard deviation of the torque with full friction.

        Args:
            rigid: Torque that loads the gears, of bodies and own columns, shape (channels, N)
                [N·m or N].
            through: What contacts make of the channels' efforts, shape (N, channels, channels); see
                `plants.ContactEfforts`.

        Returns:
            Shape (N, channels) [N·m or N], NaN where it is not known, and the state at the end.
        """
        ratios = plant.robot.drives.ratios
        velocity = samples.motion.velocity.T @ ratios
        distance, state = since_reversal(samples.motion.position.T @ ratios, velocity, before)
        variance = self.of_parameters(plant, samples, rigid, through)
        return self.in_all(plant.robot, variance, velocity, distance).T, state

    def in_all(self, robot: Robot, variance: Array, velocity: Array, distance: Array) -> Array:
        """Return the torque's standard deviation, shape (channels, N) [N·m or N]; NaN if unknown.

        Args:
            variance: As of `of_parameters`.
            velocity: Of each drive, shape (N, drives) [rad/s or m/s].
            distance: Since its last reversal, likewise [rad or m].
        """
        variance = variance.copy()
        measured = np.zeros(len(variance), dtype=bool)
        for d, drive in enumerate(robot.drives):
            if drive.name not in self.misfits or drive.name not in robot.channels:
                continue
            channel = robot.channels.index(drive.name)
            rest = self.misfits[drive.name].torque(velocity[:, d], distance[:, d])
            variance[channel] += rest**2
            measured[channel] = True
        return np.where(measured[:, None], np.sqrt(variance), np.nan)

    def of_parameters(
        self,
        plant: RobotPlant,
        samples: Samples[RobotMotion],
        rigid: Array,
        through: Array | None = None,
    ) -> Array:
        """Return the jackknife variance of the torques, shape (channels, N) [(N·m)² or N²]."""
        robot, bodies = plant.robot, plant.bodies_size
        chosen = robot.drive_columns
        state = plant.drive_state(samples, rigid)
        made = drive_columns.columns(robot.drives, chosen, state)
        moved = np.array([plant.rigid(samples.motion, d) for d in self.deviations])
        if not len(moved):
            return np.zeros(rigid.shape)
        for channel in range(len(rigid)):
            acts = [k for k, (c, _) in enumerate(made.acts) if c == channel]
            columns = [int(made.acts[k][1]) for k in acts]
            values = made.weights[acts, None] * made.values[columns]
            moved[:, channel] += self.deviations[:, [bodies + c for c in columns]] @ values
        if robot.own_columns is not None:
            moving = (state.position, state.velocity, state.acceleration)
            first = bodies + len(chosen)
            own = self.deviations[:, first : first + len(robot.own_names)]
            moved += np.einsum("dk,ckn->dcn", own, robot.own_columns.rows(*moving))
        if through is not None:
            moved = np.einsum("ncd,kdn->kcn", through, moved)
        return np.asarray(np.sum(moved**2, axis=0))
