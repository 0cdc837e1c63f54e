"""Windows of one robot as its samples come, on a grid of absolute time that all robots share.

Window k covers k · stride to k · stride + length on the robot's clock, so that windows of one
number are of one time at all robots, whatever their rates. Weights are taken at the samples' own
times: nothing is interpolated, and the noise of a sample stays that of its sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

from .signals import ContactSignals
from .windows import (
    PAIRS,
    SensorNoise,
    Windows,
    WindowSettings,
    motion_spread,
    slope_weights,
    steepness,
    wrench_spread,
)

SECOND = 1_000_000_000  # [ns]
COLUMNS = ("angular_velocity", "velocity", "acceleration", "torque", "force")


@dataclass(frozen=True)
class OriginSensors:
    """Noise and time step of a robot's sensors, which give the covariances of its windows."""

    session: int  # since when it runs; what it said later counts [ns]
    noise: SensorNoise  # white noise of a sample
    step: float  # between samples [s]

    def weights(self, settings: WindowSettings) -> tuple[float, float]:
        """Return Σ φ² and Σ φ'² [1/s²] of a window's weights."""
        share = self.step / settings.length
        return 1.5 * share, 1.5 * share * steepness(settings.length)

    def windows(self, settings: WindowSettings, second: Array) -> Windows:
        """Return the covariances and overlap of the robot's windows, as windows without rows.

        Args:
            second: Mean of ω ωᵀ without its noise, shape (3, 3) [rad²/s²].
        """
        plain, steep = self.weights(settings)
        return Windows(
            np.zeros(0),
            np.zeros((0, 18)),
            np.zeros((0, 6)),
            motion_spread(self.noise, plain, steep, second),
            wrench_spread(self.noise, plain),
            max(settings.length / (1.5 * settings.stride), 1.0),
        )


class WindowStream:
    """Online conversion of samples to windows.

    Args:
        sensors: Noise and time step; estimated from the first samples if None.
        calibration: Duration of the samples from which they are estimated [s].
        session: Since when the robot runs [ns].
    """

    def __init__(
        self,
        settings: WindowSettings,
        sensors: OriginSensors | None = None,
        calibration: float = 2.0,
        session: int = 0,
    ) -> None:
        self.sensors, self._settings = sensors, settings
        self._length = round(settings.length * SECOND)
        self._stride = round(settings.stride * SECOND)
        self._calibration, self._session = round(calibration * SECOND), session
        self._stamps = np.zeros(0, dtype=np.int64)
        self._values = np.zeros((0, 15))
        self._derived: dict[str, Array] = {}  # see `ContactSignals`, until the noise is found
        self._next: int | None = None
        self._first: int | None = None  # stamp of the first sample

    def add(self, signals: ContactSignals, epoch: int = 0) -> list[tuple[int, Array]]:
        """Process samples; return numbers and rows, shape (24,), of the windows they complete.

        Windows across a hole in the samples are left out, and so are samples that are older than
        one before.

        Args:
            epoch: Stamp at which their time is zero [ns].
        """
        stamps = epoch + np.round(signals.time * SECOND).astype(np.int64)
        last = self._stamps[-1] if len(self._stamps) else stamps[:1].min(initial=0) - 1
        newest = np.maximum.accumulate(np.concatenate([[last], stamps]))
        new = stamps > newest[:-1]
        values = np.hstack([getattr(signals, name) for name in COLUMNS])
        if self._first is None and new.any():
            self._first = int(stamps[new][0])
        self._stamps = np.concatenate([self._stamps, stamps[new]])
        self._values = np.concatenate([self._values, values[new]])
        if self.sensors is None:
            none = np.zeros((0, 3))
            for name, other in signals.derived.items():
                self._derived[name] = np.concatenate([self._derived.get(name, none), other[new]])
            self._calibrate()
        if self.sensors is None or len(self._stamps) < 2:
            return []
        made = list(self._completed(self.sensors.step))
        self._trim()
        return made

    @property
    def begin(self) -> int | None:
        """Number of the window in which the first sample is; None before any came."""
        return None if self._first is None else self._first // self._stride

    def _calibrate(self) -> None:
        stamps, values = self._stamps, self._values
        if not len(stamps) or stamps[-1] - stamps[0] < self._calibration:
            return
        first = stamps <= stamps[0] + self._calibration  # however many came at once
        time, values = (stamps[first] - stamps[0]) / SECOND, values[first]
        own = (values[:, 3 * k : 3 * k + 3] for k in range(len(COLUMNS)))
        derived = {name: other[first] for name, other in self._derived.items()}
        signals = ContactSignals(time, **dict(zip(COLUMNS, own, strict=True)), derived=derived)
        noise = SensorNoise.of(signals, self._settings.length)
        self.sensors = OriginSensors(self._session, noise, float(np.median(np.diff(time))))
        self._derived = {}

    def _completed(self, step: float) -> list[tuple[int, Array]]:
        if self._next is None:
            first = int(self._stamps[0]) - round(0.5 * step * SECOND)
            self._next = -(-first // self._stride)
        made = []
        while int(self._stamps[-1]) + round(0.5 * step * SECOND) >= self._end(self._next):
            row = self._window(self._next, step)
            if row is not None:
                made.append((self._next, row))
                self._next += 1
                continue
            # On to the first window behind the hole: outages may be long.
            after = int(self._stamps[np.searchsorted(self._stamps, self._next * self._stride)])
            self._next = max(self._next + 1, (after - self._length) // self._stride)
        return made

    def _end(self, number: int) -> int:
        return number * self._stride + self._length

    def _window(self, number: int, step: float) -> Array | None:
        """Return a window's motion and wrench, shape (24,); None where samples are missing."""
        assert self.sensors is not None
        begin, end = number * self._stride, self._end(number)
        i, j = np.searchsorted(self._stamps, (begin, end))
        inside = self._stamps[i:j]
        most = 2.5 * step * SECOND  # a hole, across which no window goes
        edges = np.concatenate([[begin], inside, [end]])
        if len(inside) < 4 or np.diff(edges).max() > most:
            return None
        width = _widths(self._stamps, int(i), int(j), most) / SECOND
        length = self._length / SECOND
        at = 2.0 * np.pi * (inside - begin) / self._length
        weight = (1.0 - np.cos(at)) * width / length
        weight /= weight.sum()
        smooth = 2.0 * np.pi / length * np.sin(at) * width / length
        slope = slope_weights((inside - begin) / SECOND, weight, smooth)
        rows = self._values[i:j]
        omega = rows[:, :3]
        squares = np.stack([omega[:, a] * omega[:, b] for a, b in PAIRS], axis=1)
        squares[:, :3] -= self.sensors.noise.angular_velocity**2
        means = weight @ np.hstack([rows, squares])
        motion = [means[:6], -(slope @ omega), means[15:], means[6:9]]
        return np.concatenate([*motion, means[9:15]])

    def _trim(self) -> None:
        if self._next is not None:
            i = int(np.searchsorted(self._stamps, self._next * self._stride))
            keep = max(min(i, len(self._stamps) - 1) - 1, 0)
            self._stamps, self._values = self._stamps[keep:], self._values[keep:]


def windows_of(
    team: Sequence[ContactSignals],
    settings: WindowSettings | None = None,
    noise: SensorNoise | None = None,
) -> list[Windows]:
    """Return windows of robots' whole signals, as many of each: those of one place are of one time.

    Rows are not a number where a robot has none: across a hole, or where a sensor repeats itself.

    Args:
        team: Signals of each robot, at times of its own.
        settings: Of windows; the defaults if None.
        noise: Noise of the sensors; estimated from the signals if None.
    """
    settings = settings or WindowSettings()
    made = []
    for signals in team:
        works = ~np.any(list(signals.repeated().values()), axis=0)
        omega, step = signals.angular_velocity[works], float(np.median(np.diff(signals.time)))
        own = noise or SensorNoise.of(signals, settings.length)
        second = omega.T @ omega / max(len(omega), 1) - own.angular_velocity**2 * np.eye(3)
        sensors = OriginSensors(0, own, step)
        rows = WindowStream(settings, sensors).add(signals.part(works))
        made.append((dict(rows), sensors.windows(settings, second)))
    begin = min((min(rows, default=0) for rows, _ in made), default=0)
    count = max((max(rows, default=-1) for rows, _ in made), default=-1) + 1 - begin
    middles = settings.stride * (begin + np.arange(count)) + 0.5 * settings.length
    found = []
    for by_number, kind in made:
        every = np.full((count, 24), np.nan)
        for number, row in by_number.items():
            every[number - begin] = row
        found.append(
            replace(kind, time=middles.astype(float), motion=every[:, :18], wrench=every[:, 18:])
        )
    return found


def _widths(stamps: NDArray[np.int64], i: int, j: int, most: float) -> Array:
    """Return the time that each of samples i to j stands for [ns]; steps above most are holes."""
    inside = np.diff(stamps[i:j]).astype(float)
    before = float(stamps[i] - stamps[i - 1]) if i > 0 else np.inf
    after = float(stamps[j] - stamps[j - 1]) if j < len(stamps) else np.inf
    first = before if before <= most else inside[0]
    last = after if after <= most else inside[-1]
    steps = np.concatenate([[first], inside, [last]])
    return np.asarray(0.5 * (steps[:-1] + steps[1:]))
