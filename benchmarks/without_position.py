"""A load weighed without positions, and what else may happen in a log: by a simulator of its own.

The hand turns by up to .6 rad and travels by up to .1 m, both at .1 to .5 Hz, for 30 s at 200 Hz;
forces are Newton's and Euler's, written here.

python -m benchmarks.without_position [--seeds 50] [--store]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.payload import weighed
from heft.applications.payload.estimate import Weighed
from heft.applications.payload.sensors import Sensors
from heft.errors import HeftError
from heft.recordings import Recording

Array = NDArray[np.float64]

SENSORS = Sensors.from_dict({"sensor": {"wrist": {"kind": "wrench", "frame": "tool0"}}})
SECONDS, RATE = 30.0, 200.0
GRAVITY = np.array([0.0, 0.0, -9.81])
NOISE = np.repeat([0.1, 0.005], 3)  # [N, N·m]
OFFSET = np.repeat([2.0, 0.1], 3)  # of the bias [N, N·m]
INTERVAL = 1.96


@dataclass(frozen=True, eq=False)
class Grasp:
    """What a log holds, and the body that it is of, as heft states it."""

    time: Array
    turned: Array  # quaternions, w first, shape (N, 4)
    place: Array  # shape (N, 3) [m]
    wrench: Array  # shape (N, 6) [N, N·m]
    bias: Array  # shape (6,)
    body: Array  # mass, centre of mass, inertia about it, shape (10,)

    def log(self, placed: bool = False) -> Recording:
        """Return the log, with positions or without."""
        kinds = {"force": self.wrench[:, :3], "torque": self.wrench[:, 3:], "quat": self.turned}
        kinds |= {"pos": self.place} if placed else {}
        signals = {
            kind: {
                f"tool0.{part}": values[:, k]
                for k, part in enumerate("wxyz" if kind == "quat" else "xyz")
            }
            for kind, values in kinds.items()
        }
        return Recording.from_arrays(self.time, "grasp", **signals)


def _tones(time: Array, size: float, rng: np.random.Generator) -> Array:
    """Return three signals of three tones each, up to a size, shape (N, 3)."""
    speeds, phases = 2.0 * np.pi * rng.uniform(0.1, 0.5, (3, 3)), rng.uniform(0.0, 6.3, (3, 3))
    made = np.einsum(
        "kc,nkc->nc", rng.normal(size=(3, 3)), np.sin(time[:, None, None] * speeds + phases)
    )
    return np.asarray(size * made / np.abs(made).max(axis=0))


def grasp(seed: int) -> Grasp:
    """Return a random load, .3 to 5 kg, in a random motion."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(SECONDS * RATE)) / RATE
    mass, com = rng.uniform(0.3, 5.0), rng.uniform(-0.08, 0.08, 3)
    gyration = rng.uniform(0.03, 0.1, 3)
    inertia = mass * np.diag(np.sum(gyration**2) - gyration**2)
    rotation = Rotation.from_euler("xyz", _tones(time, 0.6, rng))
    R, place = rotation.as_matrix(), _tones(time, 0.1, rng)
    rates = np.einsum("nji,njk->nik", R, CubicSpline(time, R)(time, 1))
    w = np.stack([rates[:, 2, 1], rates[:, 0, 2], rates[:, 1, 0]], axis=1)
    alpha = CubicSpline(time, w)(time, 1)
    path = place + R @ com
    force = mass * np.einsum("nji,nj->ni", R, CubicSpline(time, path)(time, 2) - GRAVITY)
    moment = np.cross(com, force) + alpha @ inertia + np.cross(w, w @ inertia)
    bias = OFFSET * rng.normal(size=6)
    wrench = np.hstack([force, moment]) + bias + NOISE * rng.normal(size=(len(time), 6))
    six = inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    body = np.array([mass, *com, *six])
    return Grasp(time, rotation.as_quat()[:, [3, 0, 1, 2]], place, wrench, bias, body)


def happened(what: str, seed: int) -> Grasp:
    """Return a grasp in which something happens to the sensor or the load at a random time."""
    made, rng = grasp(seed), np.random.default_rng(10_000 + seed)
    wrench, count = made.wrench.copy(), len(made.time)
    at = int(rng.uniform(0.05, 0.95) * count)
    if what == "zeroed":
        wrench[at:] -= wrench[at]
    elif what == "warming":
        rise = 1.0 - np.exp(-made.time / rng.uniform(3.0, 15.0))
        wrench += np.outer(rise, 2.0 * OFFSET * rng.normal(size=6))
    elif what == "touched":
        long = int(RATE * rng.uniform(0.05, 0.8))
        at = min(at, count - long)
        push, place = 15.0 * rng.normal(size=3), 0.1 * rng.normal(size=3)
        shape = np.sin(np.pi * np.arange(long) / long) if seed % 2 else np.ones(long)
        wrench[at : at + long] += np.outer(shape, [*push, *np.cross(place, push)])
    else:  # of a sensor without a bias in one half of them, which then tells zero
        left = rng.uniform(0.0, 0.8) if seed % 2 else 0.0
        wrench -= made.bias
        wrench[at:] = left * wrench[at:] + (1.0 - left) * NOISE * rng.normal(size=(count - at, 6))
        wrench += made.bias * (seed % 2)
    return replace(made, wrench=wrench)


def find(made: Grasp, placed: bool = False) -> Weighed | None:
    """Return what heft finds; None where it refuses."""
    try:
        return weighed([made.log(placed)], SENSORS)
    except HeftError:
        return None


def weighing(seeds: int) -> Iterator[Row]:
    """Errors, intervals, and how sure the centre of mass is against the same log with positions."""
    held, shares, masses, refused = [], [], [], 0
    for seed in range(seeds):
        made = grasp(seed)
        found, placed = find(made), find(made, placed=True)
        if found is None or placed is None:
            refused += 1
            continue
        held.append(np.abs(found.body - made.body) < INTERVAL * found.body_std)
        masses.append(abs(found.body[0] / made.body[0] - 1.0))
        shares.append(np.linalg.norm(found.body_std[1:4]) / np.linalg.norm(placed.body_std[1:4]))
    for name, part in (
        ("mass", slice(1)),
        ("centre of mass", slice(1, 4)),
        ("inertia", slice(4, 10)),
    ):
        yield at_least(
            f"{name}: 95 % intervals that hold", float(np.mean(np.array(held)[:, part])), "", 0.9
        )
    yield at_most("mass: largest error", max(masses), "", 0.02)
    yield at_most("mass: rms error", float(np.sqrt(np.mean(np.square(masses)))), "", 0.01)
    yield at_most(
        "centre of mass: deviation over that with positions, median",
        float(np.median(shares)),
        "",
        1.5,
    )
    yield at_most(
        "centre of mass: deviation over that with positions, largest", float(max(shares)), "", 2.2
    )
    yield at_most("refused", refused, "", 0.1 * seeds)


def happenings(seeds: int) -> Iterator[Row]:
    """How often a zeroing is named, and what is none called one."""
    for what in ("zeroed", "warming", "touched", "changed"):
        named = 0
        for seed in range(seeds):
            found = find(happened(what, seed))
            named += found is not None and any(f.name == "zeroed" for f in found.findings)
        if what == "zeroed":
            yield at_least("a zeroing under load is named", named, "", 0.96 * seeds)
        else:
            yield at_most(f"{what}, and called a zeroing", named, "", 0.02 * seeds)


@benchmark({"seeds": 1, "SECONDS": 12.0})
def main(*, seeds: int = 50) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: Of each part.
    """
    yield from weighing(seeds)
    yield from happenings(seeds)


if __name__ == "__main__":
    main()
