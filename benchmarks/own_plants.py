"""Plants of one's own: whether the intervals of what `docs/plants.md` alone lets one write hold.

    python -m benchmarks.own_plants [--seeds 34] [--first 1000] [--store]

Three plants, each simulated by SciPy's integrator with friction that changes sign, encoders and
force sensors with noise: a cart with a pendulum that nothing drives, a motor on a spring, a vehicle
on a hill. Seeds below 1000 are for development.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft import Recording, identify_plant
from heft.arrays import Array
from heft.information import Labels, ParameterSpace
from heft.plants import Channel, Inputs, Measured, MotionSignal, Plant, Rows, Samples

GRAVITY = 9.81  # [m/s²]
DURATION, RATE = 30.0, 200.0  # [s], [Hz]
SHARP = 1e-3  # speed within which simulated friction changes sign [m/s or rad/s]
WIDE = 1.96


@dataclass(frozen=True)
class Moving:
    """Motion of coordinates, shape (N, coordinates) each."""

    position: Array
    velocity: Array
    acceleration: Array

    def part(self, rows: slice) -> Moving:
        """Return some of the rows."""
        return Moving(self.position[rows], self.velocity[rows], self.acceleration[rows])


class Own(Plant[Moving]):
    """What the three plants share; as a user would write it."""

    coordinates: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    channels: tuple[Channel, ...]

    @property
    def labels(self) -> Labels:
        """Labels of the columns."""
        return Labels(self.names, self.units, type(self).__name__)

    @property
    def space(self) -> ParameterSpace:
        """The columns themselves, none negative."""
        count = len(self.names)
        return ParameterSpace(
            self.labels, np.eye(count), np.ones(count), nonnegative=tuple(range(count))
        )

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return positions, and one force."""
        del recording
        force = Measured(0, ((f"tau.{self.coordinates[0]}", 1.0),))
        signals = tuple(MotionSignal(f"q.{c}") for c in self.coordinates)
        return Inputs(signals, (force,) if measured else ())

    def motion(self, s: Any) -> Moving:
        """Return the motion of smooth signals."""
        return Moving(s.position, s.velocity, s.acceleration)

    def rows(self, samples: Samples[Moving], columns: Any) -> Rows:
        """Return some columns."""
        m = samples.motion
        made = self.regressor(m.position.T, m.velocity.T, m.acceleration.T)
        return Rows(np.moveaxis(made, 2, 0)[:, :, list(columns)])

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Return all columns, shape (channels, columns, N)."""
        raise NotImplementedError

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[Moving]:
        """Return motion in general position."""
        made = rng.normal(size=(3, count, len(self.coordinates)))
        return Samples.of_motion(Moving(*made), count, len(self.channels))


class Cart(Own):
    """A cart with a pendulum: M ẍ + ml (θ̈ c − θ̇² s) + b ẋ + c sign ẋ = F, and the pivot's own."""

    coordinates = ("cart", "pendulum")
    names = ("mass", "moment", "inertia", "viscous", "coulomb", "pivot")
    units = ("kg", "kg·m", "kg·m²", "N·s/m", "N", "N·m·s/rad")
    channels = (Channel("force", "N"), Channel("pivot", "N·m"))

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Return all columns."""
        c, s, none = np.cos(q[1]), np.sin(q[1]), np.zeros_like(q[0])
        force = (a[0], a[1] * c - v[1] ** 2 * s, none, v[0], np.sign(v[0]), none)
        pivot = (none, a[0] * c + GRAVITY * s, a[1], none, none, v[1])
        return np.array((force, pivot))


class Motor(Own):
    """A motor on a spring: J θ̈ + k θ + b θ̇ + c sign θ̇ = τ."""

    coordinates = ("shaft",)
    names = ("inertia", "stiffness", "viscous", "coulomb")
    units = ("kg·m²", "N·m/rad", "N·m·s/rad", "N·m")
    channels = (Channel("torque", "N·m"),)

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Return all columns."""
        return np.array(((a[0], q[0], v[0], np.sign(v[0])),))


class Vehicle(Own):
    """A vehicle that drives to and fro: m v̇ + r sign v + d v |v| = F."""

    coordinates = ("wheels",)
    names = ("mass", "rolling", "drag")
    units = ("kg", "N", "N·s²/m²")
    channels = (Channel("force", "N"),)

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        """Return all columns."""
        return np.array(((a[0], np.sign(v[0]), v[0] * np.abs(v[0])),))


@dataclass(frozen=True)
class Experiment:
    """One plant's truth and how it is moved.

    Attributes:
        plant: The plant.
        truth: Its parameters.
        size: Of the reference motion of its first coordinate [m or rad].
        gains: Of the controller that follows it, by position and by speed.
        encoder: Noise of the encoders, by coordinate [m or rad].
        sensor: Noise of the force [N or N·m].
    """

    plant: Own
    truth: Array
    size: float
    gains: tuple[float, float]
    encoder: tuple[float, ...]
    sensor: float

    def log(self, seed: int) -> Recording:
        """Return a log by an integrator that knows nothing of heft."""
        rng = np.random.default_rng(seed)
        pace, phase = 2.0 * np.pi * rng.uniform(0.2, 1.5, 4), rng.uniform(0.0, 2.0 * np.pi, 4)
        waves = self.size * rng.uniform(0.5, 1.0, 4) / (1.0 + pace / (2.0 * np.pi))
        count = len(self.plant.coordinates)
        units = np.eye(count)

        def force(t: float, x: Array) -> float:
            wanted = waves @ np.sin(pace * t + phase), (waves * pace) @ np.cos(pace * t + phase)
            return float(
                self.gains[0] * (wanted[0] - x[0]) + self.gains[1] * (wanted[1] - x[count])
            )

        def needed(q: Array, v: Array, a: Array) -> Array:
            soft = self.plant.regressor(q[:, None], v[:, None], a[:, None])[:, :, 0]
            sliding = [k for k, n in enumerate(self.plant.names) if n in ("coulomb", "rolling")]
            soft[0, sliding] = np.tanh(v[0] / SHARP)
            return np.asarray(soft @ self.truth)

        def change(t: float, x: Array) -> Array:
            q, v = x[:count], x[count:]
            still = needed(q, v, np.zeros(count))
            mass = np.stack([needed(q, v, u) - still for u in units], 1)
            pushed = np.zeros(count)
            pushed[0] = force(t, x)
            return np.concatenate([v, np.linalg.solve(mass, pushed - still)])

        time = np.arange(0.0, DURATION, 1.0 / RATE)
        start = np.zeros(2 * count)
        start[0], start[count] = waves @ np.sin(phase), (waves * pace) @ np.cos(phase)
        found = solve_ivp(change, (0.0, DURATION), start, "LSODA", time, rtol=1e-7, atol=1e-9).y
        pushed = np.array([force(t, x) for t, x in zip(time, found.T, strict=True)])
        q = {
            c: found[k] + self.encoder[k] * rng.normal(size=len(time))
            for k, c in enumerate(self.plant.coordinates)
        }
        tau = {self.plant.coordinates[0]: pushed + self.sensor * rng.normal(size=len(time))}
        return Recording.from_arrays(time, q=q, tau=tau)


EXPERIMENTS = (
    Experiment(
        Cart(), np.array([2.0, 0.15, 0.06, 1.5, 2.0, 0.008]), 0.12, (400.0, 40.0), (2e-5, 1e-4), 0.1
    ),
    Experiment(Motor(), np.array([0.012, 2.0, 0.05, 0.1]), 0.4, (8.0, 0.3), (5e-5,), 0.02),
    Experiment(Vehicle(), np.array([900.0, 120.0, 0.6]), 3.0, (9e3, 4e3), (1e-4,), 20.0),
)


def rows_of(
    experiment: Experiment, seeds: range, identify: Callable[..., Any] = identify_plant
) -> Iterator[Row]:
    """Yield how often intervals hold, and how wide they are."""
    scores = []
    for seed in seeds:
        found = identify(experiment.plant, [experiment.log(seed)])
        scores.append(
            [(n.value - t) / n.std for n, t in zip(found.numbers, experiment.truth, strict=True)]
        )
    z, name = np.array(scores), type(experiment.plant).__name__
    hold = np.mean(np.abs(z) < WIDE, axis=0)
    told = ", ".join(f"{n} {h:.2f}" for n, h in zip(experiment.plant.names, hold, strict=True))
    yield at_least(f"{name}: 95 % intervals hold", float(np.mean(hold)), "", 0.9, told)
    yield at_most(
        f"{name}: error over deviation, rms", float(np.sqrt(np.mean(z**2))), "", 1.25,
        f"{len(seeds)} logs",
    )  # fmt: skip


@benchmark({"seeds": 1, "DURATION": 3.0})
def main(*, seeds: int = 34, first: int = 1000) -> Iterator[Row]:
    """Yield the table.

    Args:
        seeds: Logs of each plant.
        first: The first seed.
    """
    for experiment in EXPERIMENTS:
        yield from rows_of(experiment, range(first, first + seeds))


if __name__ == "__main__":
    main()
