"""A load that three unlike wrench sensors hold: is the answer as sure as it says?

Offline and live, all sensors well or one of them frozen, zero or without numbers for a fifth of the
time. The truth is Newton's and Euler's equations in NumPy; it shares no code with heft.

python -m benchmarks.grasping_points [--seeds 50] [--development] [--store]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.payload import weighed
from heft.applications.payload.node import Node, NodeState
from heft.applications.payload.sensors import Sensors
from heft.recordings.recording import Recording
from heft.streams.messages import Piece

Array = NDArray[np.float64]

RATE, SECONDS = 500.0, 6.0  # [Hz, s]
FORCE = (0.02, 0.5, 0.2)  # noise of each sensor [N]
TORQUE = (0.001, 0.025, 0.01)  # [N·m]
GYRO, ACCELEROMETER = 0.002, 0.02  # [rad/s, m/s²]
BIAS = (2.0, 0.1)  # [N, N·m]
GRAVITY = np.array([0.0, 0.0, -9.81])
IMU = np.array([0.03, -0.02, 0.05])  # in the first sensor's frame [m]
PLACES = np.array([[0.0, 0.0, 0.0], [0.4, 0.0, 0.1], [0.2, 0.3, -0.05]])  # [m]
NAMES = ("first", "second", "third")
SILENT = 0.2  # share of the time in which a sensor is broken
FAULTS = ("all well", "frozen", "zero", "NaN")
SIGMAS = 3.0
DEVELOPMENT = 10_000  # added to seeds on which thresholds may be chosen
PARCEL = 50  # samples in a message
START = 1_700_000_000_000_000_000  # [ns]


def turned(axis: int, angle: Array, derivative: int = 0) -> Array:
    """Return rotations about an axis, or their derivatives with the angle, shape (N, 3, 3)."""
    made = np.zeros((len(angle), 3, 3))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    c, s = np.cos(angle + 0.5 * np.pi * derivative), np.sin(angle + 0.5 * np.pi * derivative)
    made[:, i, i] = made[:, j, j] = c
    made[:, i, j], made[:, j, i] = -s, s
    if derivative == 0:
        made[:, axis, axis] = 1.0
    return made


def waves(rng: np.random.Generator, time: Array, size: float) -> tuple[Array, Array, Array]:
    """Return three smooth signals and two derivatives, shape (N, 3) each."""
    frequency = 2.0 * np.pi * rng.uniform(0.15, 0.9, (4, 1, 3))
    angle = frequency * time[:, None] + rng.uniform(0.0, 2.0 * np.pi, (4, 1, 3))
    amplitude = size * rng.normal(size=(4, 1, 3)) / 2.0
    parts = (np.sin(angle), frequency * np.cos(angle), -(frequency**2) * np.sin(angle))
    value, first, second = ((amplitude * part).sum(axis=0) for part in parts)
    return value, first, second


@dataclass(frozen=True)
class Grasp:
    """Three sensors that move a load.

    Attributes:
        seed: Of load, motion, sensors and noise.
        fault: What is wrong with one sensor for a fifth of the time.
        stated: Whether the file states the sensors' noise.
    """

    seed: int
    fault: str = "all well"
    stated: bool = True

    @cached_property
    def rotations(self) -> Array:
        """From each wrench sensor's axes to the first one's, shape (3, 3, 3)."""
        rng = np.random.default_rng([self.seed, 1])
        angles = rng.uniform(-1.5, 1.5, (3, 3))
        made = [turned(2, a[:1]) @ turned(1, a[1:2]) @ turned(0, a[2:]) for a in angles]
        return np.stack([np.eye(3), made[1][0], made[2][0]])

    @cached_property
    def body(self) -> tuple[float, Array, Array]:
        """Mass [kg], centre of mass [m] and inertia about it [kg·m²]."""
        rng = np.random.default_rng([self.seed, 2])
        mass = rng.uniform(1.5, 3.5)
        sides = rng.uniform(0.1, 0.35, 3)
        own = mass / 12.0 * np.diag(np.sum(sides**2) - sides**2)
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        return mass, rng.uniform(-0.1, 0.3, 3), turn @ own @ turn.T

    @property
    def ten(self) -> Array:
        """Mass, first moments, inertia about the first sensor (xx, xy, yy, xz, yz, zz)."""
        mass, centre, own = self.body
        tensor = own + mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        places = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
        return np.array([mass, *(mass * centre), *(tensor[i, j] for i, j in places)])

    @cached_property
    def signals(self) -> tuple[Array, dict[str, Array]]:
        """Time [s] and what the sensors tell, by name."""
        rng = np.random.default_rng([self.seed, 3])
        time = np.arange(round(RATE * SECONDS)) / RATE
        angle, turn, bend = waves(rng, time, 0.6)
        _, _, acceleration = waves(rng, time, 0.1)
        value, first, second = self._orientation(angle, turn, bend)
        back = np.swapaxes(value, 1, 2)
        spin = back @ first
        omega = np.stack([spin[:, 2, 1], spin[:, 0, 2], spin[:, 1, 0]], 1)
        change = back @ second - spin @ spin
        alpha = np.stack([change[:, 2, 1], change[:, 0, 2], change[:, 1, 0]], 1)
        felt = np.einsum("nij,nj->ni", back, acceleration - GRAVITY)

        def at(place: Array) -> Array:
            swung = np.cross(alpha, place) + np.cross(omega, np.cross(omega, place))
            return np.asarray(felt + swung)

        mass, centre, own = self.body
        force = mass * at(centre)
        moment = alpha @ own + np.cross(omega, omega @ own) + np.cross(centre, force)
        told = self._shared(rng, time, force, moment)
        told["acc"] = at(IMU) + ACCELEROMETER * rng.normal(size=force.shape)
        told["omega"] = omega + GYRO * rng.normal(size=force.shape)
        return time, self._broken(time, told)

    @staticmethod
    def _orientation(angle: Array, turn: Array, bend: Array) -> tuple[Array, Array, Array]:
        """Return R = Rz Ry Rx of three angles and its first two derivatives in time."""
        kinds = (0, 1, 2)
        plain = [turned(k, angle[:, k]) for k in kinds]
        once = [turned(k, angle[:, k], 1) for k in kinds]
        twice = [turned(k, angle[:, k], 2) for k in kinds]
        rate = [turn[:, k, None, None] * once[k] for k in kinds]
        curve = [
            bend[:, k, None, None] * once[k] + turn[:, k, None, None] ** 2 * twice[k] for k in kinds
        ]
        value = plain[2] @ plain[1] @ plain[0]
        first = np.zeros_like(value)
        second = np.zeros_like(value)
        for i in kinds:
            parts = [rate[k] if k == i else plain[k] for k in kinds]
            first += parts[2] @ parts[1] @ parts[0]
            for j in kinds:
                both = [
                    curve[k] if i == j == k else rate[k] if k in (i, j) else plain[k] for k in kinds
                ]
                second += both[2] @ both[1] @ both[0]
        return value, first, second

    def _shared(
        self, rng: np.random.Generator, time: Array, force: Array, moment: Array
    ) -> dict[str, Array]:
        """Return each sensor's wrench, in its own axes: a share of the load, and squeezing."""
        forces, moments = [force], [moment]
        for _ in (1, 2):
            forces.append(0.3 * force + waves(rng, time, 5.0)[0])
            moments.append(waves(rng, time, 0.3)[0])
        for k in (1, 2):
            forces[0] = forces[0] - forces[k]
            moments[0] = moments[0] - moments[k] - np.cross(PLACES[k], forces[k])
        told = {}
        for k, name in enumerate(NAMES):
            for kind, values, noise, bias in (
                ("force", forces[k], FORCE[k], BIAS[0]),
                ("torque", moments[k], TORQUE[k], BIAS[1]),
            ):
                own = values @ self.rotations[k] + bias * rng.normal(size=3)
                told[f"{kind}.{name}"] = own + noise * rng.normal(size=own.shape)
        return told

    def _broken(self, time: Array, told: dict[str, Array]) -> dict[str, Array]:
        """Return the signals with one wrench sensor, in turn, or the inertial one broken."""
        if self.fault == "all well":
            return told
        rng = np.random.default_rng([self.seed, 4])
        count = round(SILENT * len(time))
        begin = int(rng.integers(count, len(time) - 2 * count))
        rows = slice(begin, begin + count)
        which = self.seed % 4
        broken = ("acc", "omega")[self.seed // 4 % 2 :][:1] if which == 3 else ("force", "torque")
        for kind in broken:
            name = kind if which == 3 else f"{kind}.{NAMES[which]}"
            told[name][rows] = {"frozen": told[name][begin], "zero": 0.0, "NaN": np.nan}[self.fault]
        return told

    @property
    def sensors(self) -> Sensors:
        """What the file of --sensor says."""
        made: dict[str, Mapping[str, object]] = {
            name: {
                "kind": "wrench",
                **({"noise": {"force": FORCE[k], "torque": TORQUE[k]}} if self.stated else {}),
                "bias": "constant",
                "position": PLACES[k].tolist(),
                "rotation": self.rotations[k].tolist(),
            }
            for k, name in enumerate(NAMES)
        }
        made["imu"] = {"kind": "imu", "position": IMU.tolist(), "noise": {"gyro": GYRO}}
        return Sensors.from_dict({"sensor": made})

    def columns(self) -> dict[str, Array]:
        """Return the signals by heft's names."""
        made: dict[str, Array] = {}
        for name, values in self.signals[1].items():
            own = name if "." in name else f"{name}.imu"
            made |= {f"{own}.{a}": column for a, column in zip("xyz", values.T, strict=True)}
        return made


@dataclass(frozen=True)
class Outcome:
    """What came of one grasp.

    Attributes:
        z: Errors of the ten over their stated deviations.
        nees: eᵀ P⁻¹ e / 10.
        said: Whether a fault was said.
        false: Events of a load that changed, which did not.
    """

    z: Array
    nees: float
    said: bool
    false: int = 0


def _outcome(grasp: Grasp, ten: Array, covariance: Array, said: bool, false: int = 0) -> Outcome:
    error = ten - grasp.ten
    nees = float(error @ np.linalg.solve(covariance, error)) / 10.0
    return Outcome(error / np.sqrt(np.diag(covariance)), nees, said, false)


def offline(grasp: Grasp) -> Outcome:
    """Weigh the log of a grasp."""
    time, _ = grasp.signals
    signals: dict[str, dict[str, Array]] = {}
    for name, values in grasp.columns().items():
        kind, _, rest = name.partition(".")
        signals.setdefault(kind, {})[rest] = values
    found = weighed([Recording.from_arrays(time, "grasp", **signals)], grasp.sensors)
    said = {f.name for f in found.findings} & {"frozen", "no numbers"}
    return _outcome(grasp, found.values[:10], found.covariance[:10, :10], bool(said))


def live(grasp: Grasp) -> Outcome:
    """Follow a grasp as its devices tell it, message by message."""
    node = Node(grasp.sensors)
    state: NodeState = node.start()
    time, _ = grasp.signals
    stamps = START + np.round(time * 1e9).astype(np.int64)
    columns = grasp.columns()
    events = []
    for begin in range(0, len(time), PARCEL):
        rows = slice(begin, begin + PARCEL)
        pieces = [
            Piece(d.names, stamps[rows], np.stack([columns[n][rows] for n in d.names], axis=1))
            for d in node.devices
        ]
        state, more = node.step(state, float(time[rows][-1]), pieces)
        events += [e.name for e in more]
    assert state.load is not None
    false = sum(name in ("changed", "no body", "released") for name in events)
    return _outcome(grasp, state.load.ten, state.load.covariance, "stalled" in events, false)


def rows(seeds: range) -> Iterator[Row]:
    """Yield the figures of every fault, offline and live."""
    for fault in FAULTS:
        for way, weigh in (("offline", offline), ("live", live)):
            found = [weigh(Grasp(seed, fault)) for seed in seeds]
            label = f"{way}, {fault}"
            yield from _honest(label, found)
            said = [f.said for f in found]
            if fault == "all well":
                yield at_most(f"{label}: faults said", sum(said), "", 0)
            else:
                yield at_least(f"{label}: said, share", float(np.mean(said)), "", 1.0)
            if way == "live":
                yield at_most(
                    f"{label}: changes that were none", sum(f.false for f in found), "", 0
                )
    yield from _honest(
        "offline, noise not stated", [offline(Grasp(s, stated=False)) for s in seeds]
    )


def _honest(label: str, found: Sequence[Outcome]) -> Iterator[Row]:
    """Yield whether errors are as large as they are said to be."""
    z = np.abs([f.z for f in found])
    nees = np.array([f.nees for f in found])
    mean = float(nees.mean())
    share = float(np.mean(z < SIGMAS))
    worst = f"{len(found)} grasps, worst {z.max():.2f}"
    yield at_least(f"{label}: |z| < {SIGMAS:g}, share", share, "", 0.99, worst)
    holds = 0.8 <= mean <= 1.2
    yield Row(f"{label}: NEES / 10, mean", mean, "", 0.8, holds, f"to 1.2; worst {nees.max():.2f}")


@benchmark(
    {"seeds": 1, "SECONDS": 2.0, "FAULTS": ("all well", "frozen")}, unstored=("development",)
)
def main(*, seeds: int = 50, development: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: How many.
        development: Seeds that are never scored.
    """
    first = DEVELOPMENT if development else 0
    yield from rows(range(first, first + seeds))


if __name__ == "__main__":
    main()
