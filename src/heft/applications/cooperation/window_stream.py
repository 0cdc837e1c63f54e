"""Windows of one robot as its samples come, on a grid of absolute time that all robots share.

Window k covers k · stride to k · stride + length on the robot's clock, so that windows of one
number are of one time at all robots, whatever their rates. Weights are taken at the samples' own
times: nothing is interpolated, and the noise of a sample stays that of its sensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from heft.arrays import Array
from heft.simulation import TeamNoise

from .signals import SENSORS, ContactSignals, OriginSensors, usual_step
from .windows import ALPHA, OMEGA, PAIRS, SIZE, SPECIFIC, SQUARES, VELOCITY, Windows

SECOND = 1_000_000_000  # [ns]
COLUMNS = ("angular_velocity", "velocity", "acceleration", "torque", "force")
NEXT_TO_NONE = 1e-6  # of a sensor without noise, in SI units: weights stay finite


@dataclass(frozen=True)
class WindowSettings:
    """Settings of windows."""

    length: float = 0.3  # [s]
    stride: float = 0.06  # from one to the next [s]


def noise_of(signals: ContactSignals, length: float) -> TeamNoise:
    """Return the white noise by third differences, which hardly contain smooth motion.

    A torque that is always zero is that of a point contact, and surely none. What is computed
    with the rate of another signal has noise that is not white: stated is the white noise that
    windows would see as much of.

    Args:
        signals: At least four samples.
        length: Of windows [s].
    """
    repeated = signals.repeated()
    rise = float(np.sqrt(steepness(length)))

    def white(values: Array, bad: NDArray[np.bool_]) -> float:
        works = ~np.lib.stride_tricks.sliding_window_view(bad, 4).any(axis=1)
        rough = np.diff(values, 3, axis=0)[works]
        if not len(rough):
            return 0.0
        # Of what is quantised coarsely half of them may be 0: another quantile of a normal
        # distribution tells. 20 is Σ of the squared weights of a third difference.
        share, of_normal = (0.95, 1.95996) if np.mean(rough == 0.0) > 0.1 else (0.5, 0.67449)
        return float(np.quantile(np.abs(rough), share) / of_normal / np.sqrt(20.0))

    def sigma(name: str) -> float:
        if name not in repeated:
            return 0.0
        values, bad = getattr(signals, name), repeated[name]
        if name not in signals.derived:
            return max(white(values, bad), NEXT_TO_NONE)
        other, rate = np.hsplit(signals.derived[name], 2)
        still = white(values - rate, bad)
        return max(float(np.hypot(still, rise * white(other, bad))), NEXT_TO_NONE)

    return TeamNoise(*map(sigma, SENSORS))


def steepness(length: float) -> float:
    """Return ∫ φ'² over ∫ φ² of a window of a length [s], as of its samples' weights [1/s²]."""
    return float((2.0 * np.pi / length) ** 2 / 3.0)


def slope_weights(time: Array, weight: Array, smooth: Array) -> Array:
    """Return weights φ' of a window's samples with −Σ φ' x = Σ φ ẋ.

    Where φ' is sampled, this holds to second order in the time between samples. Here it holds of
    every polynomial up to a degree, by the least change.

    Args:
        time: Times of a window's samples, shape (n,) [s].
        weight: φ of them, shape (n,).
        smooth: Continuous φ' at the samples, shape (n,) [1/s].
    """
    middle, half = 0.5 * (time[0] + time[-1]), 0.5 * (time[-1] - time[0])
    degree = min(12, len(time) // 2)
    x = (time - middle) / half
    powers = legendre.legvander(x, degree)
    lacking = -(weight @ powers[:, :-1] @ _derivatives(degree)) / half - smooth @ powers
    return np.asarray(smooth + powers @ np.linalg.solve(powers.T @ powers, lacking))


@cache
def _derivatives(degree: int) -> Array:
    """Return Legendre's polynomials' derivatives by those of less degree."""
    return np.asarray(legendre.legder(np.eye(degree + 1)))


def covariances(sensors: OriginSensors, settings: WindowSettings, second: Array) -> Windows:
    """Return the covariances and overlap of a robot's windows, as windows without rows.

    Args:
        second: Mean of ω ωᵀ without its noise, shape (3, 3) [rad²/s²].
    """
    noise, gyro = sensors.noise, sensors.noise.angular_velocity**2
    plain = 1.5 * sensors.step / settings.length  # Σ φ² of a window's weights, then Σ φ'² [1/s²]
    steep = plain * steepness(settings.length)
    motion, unit = np.zeros((SIZE, SIZE)), np.eye(3)
    for rows, variance in (
        (OMEGA, plain * gyro),
        (VELOCITY, plain * noise.velocity**2),
        (ALPHA, steep * gyro),
        (SPECIFIC, plain * noise.acceleration**2),
    ):
        motion[rows, rows] = variance * unit
    values, vectors = np.linalg.eigh(second)
    for value, w in zip(np.maximum(values, 0.0), vectors.T, strict=True):
        J = np.array([w[b] * unit[a] + w[a] * unit[b] for a, b in PAIRS])  # of w_a w_b by w
        motion[SQUARES, SQUARES] += plain * gyro * value * J @ J.T
    own = [2.0 if a == b else 1.0 for a, b in PAIRS]
    motion[SQUARES, SQUARES] += plain * gyro**2 * np.diag(own)
    return Windows(
        np.zeros(0),
        np.zeros((0, 18)),
        np.zeros((0, 6)),
        motion,
        plain * np.diag([noise.torque**2] * 3 + [noise.force**2] * 3),
        max(settings.length / (1.5 * settings.stride), 1.0),
    )


class WindowStream:
    """Online conversion of samples to windows.

    Args:
        sensors: Noise and time step; estimated from the first samples if None.
        calibration: Duration of the samples from which they are estimated, and then anew of as
            many more [s]; windows say then what they were. Infinite where they need not be told.
    """

    def __init__(
        self,
        settings: WindowSettings,
        sensors: OriginSensors | None = None,
        calibration: float = np.inf,
    ) -> None:
        self.sensors, self._settings = sensors, settings
        self._length = round(settings.length * SECOND)
        self._stride = round(settings.stride * SECOND)
        self._calibration = calibration * SECOND
        self._stamps = np.zeros(0, dtype=np.int64)
        self._values = np.zeros((0, 15))
        self._derived: dict[str, Array] = {}  # see `ContactSignals`
        self._next: int | None = None
        self._first: int | None = None  # stamp of the first sample
        self._since = 0  # stamp from which samples are not calibrated yet
        self._untold: list[Array] = []  # sensors of samples, as windows are to say them

    def add(self, signals: ContactSignals, epoch: int = 0) -> list[tuple[int, Array]]:
        """Process samples; return numbers and rows, shape (24,), of the windows they complete.

        Windows across a hole in the samples are left out, and so are samples that are older than
        one before. The first window, and one of each calibration, has the sensors' numbers behind.

        Args:
            epoch: Stamp at which their time is zero [ns].
        """
        stamps = epoch + np.round(signals.time * SECOND).astype(np.int64)
        last = self._stamps[-1] if len(self._stamps) else stamps[:1].min(initial=0) - 1
        newest = np.maximum.accumulate(np.concatenate([[last], stamps]))
        new = stamps > newest[:-1]
        values = np.hstack([getattr(signals, name) for name in COLUMNS])
        if self._first is None and new.any():
            self._first = self._since = int(stamps[new][0])
        self._stamps = np.concatenate([self._stamps, stamps[new]])
        self._values = np.concatenate([self._values, values[new]])
        for name, both in signals.derived.items():
            before = self._derived.get(name, both[:0])
            self._derived[name] = np.concatenate([before, both[new]])
        while len(self._stamps) and self._stamps[-1] - self._since >= self._calibration:
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
        stamps, end = self._stamps, self._since + round(self._calibration)
        first = (self._since <= stamps) & (stamps <= end)  # however many came at once
        self._since = int(stamps[stamps > end].min(initial=stamps[-1]))  # or behind an outage
        if first.sum() < 4:
            return
        time, values = (stamps[first] - end) / SECOND, self._values[first]
        own: dict[str, Any] = dict(zip(COLUMNS, np.hsplit(values, len(COLUMNS)), strict=True))
        derived = {name: both[first] for name, both in self._derived.items()}
        signals = ContactSignals(time, **own, derived=derived)
        noise = noise_of(signals, self._settings.length)
        sensors = OriginSensors(noise, usual_step(time))
        self.sensors = self.sensors or sensors
        self._untold.append(sensors.numbers)

    def _completed(self, step: float) -> list[tuple[int, Array]]:
        if self._next is None:
            first = int(self._stamps[0]) - round(0.5 * step * SECOND)
            self._next = -(-first // self._stride)
        made = []
        while int(self._stamps[-1]) + round(0.5 * step * SECOND) >= self._end(self._next):
            row = self._window(self._next, step)
            if row is not None:
                told = self._untold.pop(0) if self._untold else np.zeros(0)
                made.append((self._next, np.append(row, told)))
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
        # a hole, across which no window goes; samples that are late leave none that a window sees
        most = max(2.5 * step * SECOND, 0.05 * self._length)
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
        for name, both in self._derived.items():  # rates by partial integration, as of ω
            own, (other, rate) = 3 * COLUMNS.index(name), np.hsplit(both[i:j], 2)
            means[own : own + 3] -= weight @ rate + slope @ other
        motion = [means[:6], -(slope @ omega), means[15:], means[6:9]]
        return np.concatenate([*motion, means[9:15]])

    def _trim(self) -> None:
        if self._next is not None:
            begin = self._next * self._stride
            if self._calibration < np.inf:
                begin = min(begin, self._since)
            i = int(np.searchsorted(self._stamps, begin))
            keep = max(min(i, len(self._stamps) - 1) - 1, 0)
            self._stamps, self._values = self._stamps[keep:], self._values[keep:]
            self._derived = {name: both[keep:] for name, both in self._derived.items()}


def log_rows(
    signals: ContactSignals, settings: WindowSettings, noise: TeamNoise | None = None
) -> tuple[OriginSensors, dict[int, Array]]:
    """Return what sensors a whole log is of, and its windows by number, shape (24,) each.

    Args:
        signals: At any times; where a sensor repeats itself there are no windows.
        noise: Of the sensors; estimated from the signals if None.
    """
    noise = noise or noise_of(signals, settings.length)
    sensors = OriginSensors(noise, usual_step(signals.time))
    works = ~np.any(list(signals.repeated().values()), axis=0)
    return sensors, dict(WindowStream(settings, sensors).add(signals.part(works)))


def windows_of(
    team: Sequence[ContactSignals],
    settings: WindowSettings = WindowSettings(),
    noise: TeamNoise | None = None,
) -> list[Windows]:
    """Return windows of robots' whole signals, as many of each: those of one place are of one time.

    Rows are not a number where a robot has none: across a hole, or where a sensor repeats itself.

    Args:
        team: Signals of each robot, at times of its own.
        noise: Of the sensors; estimated from the signals if None.
    """
    made = [log_rows(signals, settings, noise) for signals in team]
    begin = min((min(rows, default=0) for _, rows in made), default=0)
    count = max((max(rows, default=-1) for _, rows in made), default=-1) + 1 - begin
    middles = settings.stride * (begin + np.arange(count)) + 0.5 * settings.length
    each_robot = []
    for signals, (sensors, rows) in zip(team, made, strict=True):
        every = np.full((count, 24), np.nan)
        for number, row in rows.items():
            every[number - begin] = row
        omega, gyro = signals.angular_velocity, sensors.noise.angular_velocity
        second = omega.T @ omega / max(len(omega), 1) - gyro**2 * np.eye(3)
        kind, time = covariances(sensors, settings, second), middles.astype(float)
        each_robot.append(replace(kind, time=time, motion=every[:, :18], wrench=every[:, 18:]))
    return each_robot


def _widths(stamps: NDArray[np.int64], i: int, j: int, most: float) -> Array:
    """Return the time that each of samples i to j stands for [ns]; steps above most are holes."""
    inside = np.diff(stamps[i:j]).astype(float)
    before = float(stamps[i] - stamps[i - 1]) if i > 0 else np.inf
    after = float(stamps[j] - stamps[j - 1]) if j < len(stamps) else np.inf
    first = before if before <= most else inside[0]
    last = after if after <= most else inside[-1]
    steps = np.concatenate([[first], inside, [last]])
    return np.asarray(0.5 * (steps[:-1] + steps[1:]))
