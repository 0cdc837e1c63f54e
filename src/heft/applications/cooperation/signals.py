"""What a robot of a team measures at its contact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.simulation import TeamNoise
from heft.streams import repeated, unchanged_since

BESIDE = 3  # samples on each side of one whose derivative they tell
AXES = ("x", "y", "z")
SENSORS = {
    "angular_velocity": "gyroscope",
    "velocity": "velocity",
    "acceleration": "accelerometer",
    "force": "force sensor",
    "torque": "torque sensor",
}


def usual_step(time: Array) -> float:
    """Return the time that a sample stands for [s]: the median of spans of ten.

    Samples that are received in bursts are next to one another most of the time.

    Args:
        time: At least two, shape (N,) [s].
    """
    span = min(10, len(time) - 1)
    return float(np.median(time[span:] - time[:-span])) / span


def rates(time: Array, values: Array) -> Array:
    """Return derivatives at samples, of the polynomial through each and its `BESIDE` neighbours.

    The polynomial is through as many at both ends, where they are on one side. Its error is of
    sixth order in the time between samples, so that of motion there is next to none.

    Args:
        time: Shape (N,) [s], strictly rising.
        values: Shape (N, any).
    """
    count = len(time)
    size = min(2 * BESIDE + 1, count)
    first = np.clip(np.arange(count) - BESIDE, 0, count - size)
    near = first[:, None] + np.arange(size)
    own = np.arange(count) - first
    distances = time[near][:, :, None] - time[near][:, None, :] + np.eye(size)
    shares = 1.0 / distances.prod(axis=2)  # of barycentric interpolation [Berrut2004]
    here = np.arange(count)
    weights = shares / shares[here, own][:, None] / distances[here, own]
    weights[here, own] = 0.0
    weights[here, own] = -weights.sum(axis=1)
    return np.asarray(np.einsum("nk,nka->na", weights, values[near]))


@dataclass(frozen=True, eq=False)
class ContactSignals:
    """What one robot's sensors read at its contact, in the contact's frame."""

    time: Array  # shape (N,) [s]
    angular_velocity: Array  # ω, shape (N, 3) [rad/s]
    velocity: Array  # v of the contact, shape (N, 3) [m/s]
    acceleration: Array  # what the accelerometer reads, v̇ + ω×v − Rᵀg, shape (N, 3) [m/s²]
    force: Array  # that the robot applies to the load, shape (N, 3) [N]
    torque: Array  # likewise, about the contact, shape (N, 3) [N·m]
    # where a sensor's signal is computed and holds the rate of another one, that one and the rate
    # that it holds (see `rates`) side by side, shape (N, 6): of an acceleration the velocity
    derived: Mapping[str, Array] = field(default_factory=dict)

    @property
    def by_sensor(self) -> dict[str, Array]:
        """What each sensor reads, shape (N, 3) each."""
        return {name: getattr(self, name) for name in SENSORS}

    @staticmethod
    def of_columns(columns: Mapping[str, Array], frame: str) -> ContactSignals:
        """Return the signals of a log's columns, `omega.FRAME.x` and so on.

        Where no torque is among them, the contact is a point.
        """
        none = np.zeros(len(columns["t"]))
        columns = {f"torque.{frame}.{a}": none for a in AXES} | dict(columns)

        def of(kind: str) -> Array:
            return np.stack([columns[f"{kind}.{frame}.{a}"] for a in AXES], axis=1)

        omega, velocity, acceleration = of("omega"), of("vel"), of("acc")
        return ContactSignals(
            columns["t"], omega, velocity, acceleration, of("force"), of("torque")
        )

    @staticmethod
    def joined(parts: Sequence[ContactSignals]) -> ContactSignals:
        """Concatenate signals; no parts give no samples."""
        none = np.zeros((0, 3))
        parts = [ContactSignals(np.zeros(0), none, none, none, none, none), *parts]
        read: dict[str, Any] = {
            n: np.concatenate([getattr(p, n) for p in parts]) for n in ("time", *SENSORS)
        }
        names = {n for p in parts for n in p.derived}
        derived = {
            n: np.concatenate([p.derived[n] for p in parts if n in p.derived])
            for n in sorted(names)
        }
        return ContactSignals(**read, derived=derived)

    def part(self, rows: slice | NDArray[np.bool_]) -> ContactSignals:
        """Return some of the samples."""
        return self._changed(self.time[rows], lambda values: values[rows])

    def at(self, time: Array) -> ContactSignals:
        """Return the signals at other times, shape (N,) [s], interpolated linearly."""

        def between(values: Array) -> Array:
            return np.stack([np.interp(time, self.time, column) for column in values.T], axis=1)

        return self._changed(time, between)

    def _changed(self, time: Array, change: Callable[[Array], Array]) -> ContactSignals:
        read: dict[str, Any] = {n: change(values) for n, values in self.by_sensor.items()}
        derived = {name: change(values) for name, values in self.derived.items()}
        return replace(self, time=time, **read, derived=derived)

    def turned(self, by: Array) -> ContactSignals:
        """Return the signals with the wrench in other axes, or of the opposite sign.

        Args:
            by: Matrix that takes a vector to those axes, shape (3, 3).
        """
        wrench = ("force", "torque")
        derived = {
            n: v @ np.kron(np.eye(2), by.T) if n in wrench else v for n, v in self.derived.items()
        }
        return replace(self, force=self.force @ by.T, torque=self.torque @ by.T, derived=derived)

    def repeated(self) -> dict[str, NDArray[np.bool_]]:
        """Return, by sensor, which samples repeat themselves for too long, shape (N,) each.

        A torque that is always zero is that of a point contact.
        """
        by_name = {}
        for name, values in self.by_sensor.items():
            if name == "torque" and not values.any():
                continue
            since = unchanged_since(self.time, values, [(0, 1, 2)])[:, 0]
            # [s], from which on a sensor measures nothing
            by_name[name] = repeated(self.time, since, 0.1)
        return by_name


@dataclass(frozen=True)
class OriginSensors:
    """Noise and time step of a robot's sensors, which give the covariances of its windows."""

    noise: TeamNoise  # white noise of a sample
    step: float  # between samples [s]

    @property
    def numbers(self) -> Array:
        """Noise in the order of its fields, then the step, shape (6,)."""
        return np.array([*self.noise.each, self.step])

    @staticmethod
    def of_numbers(numbers: Array) -> OriginSensors:
        """Return the sensors of `numbers`."""
        *noise, step = (float(n) for n in numbers)
        return OriginSensors(TeamNoise(*noise), step)
