"""An iCub on its stand, cut at its six wrench sensors: `python -m benchmarks.chains`.

The model file is the iCub's own, from the `example-robot-data` package. Each seed draws another
iCub, whose links are up to 40 % lighter or heavier than the file says, with other motion, biases
and noise. Wrenches are pinocchio's, forces across joints that the file has for fixed. Seeds below
100 are for development, and never scored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.engine import one_blas_thread
from heft.fit import Settings
from heft.fit.experiment import fit_experiment
from heft.models import JointOptions, Options, Robot, SensorOptions
from heft.plants import Problem, plant_of
from heft.recordings import Recording
from heft.signals import Smoothed, Smoothing

Array = np.ndarray[Any, np.dtype[np.float64]]
FIRST = 100  # of the seeds that are scored
CUTS = tuple(f"{side}_{part}_ft_sensor" for side in "lr" for part in ("arm", "leg", "foot"))
FORCE, MOMENT, TORQUE, ANGLE = 0.25, 0.01, 0.1, 1e-4  # deviations of noise [N, N·m, N·m, rad]
BIAS = (10.0, 1.0)  # deviation of a sensor's bias [N, N·m]
RATE = 200.0  # [Hz]
KINDS = ("force", "torque")
SMOOTHING = Smoothing(delay=0.0)


def model_file() -> bytes:
    """Return the iCub's URDF."""
    root = Path(
        str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data"))
    )
    return (root / "robots/icub_description/robots/icub.urdf").read_bytes()


def other(source: bytes, rng: np.random.Generator) -> bytes:
    """Return a model file whose links have other masses, with inertias in proportion."""
    root = ElementTree.fromstring(source)
    for inertial in root.iter("inertial"):
        factor = float(np.exp(rng.uniform(-0.4, 0.35)))
        for tag, keys in (
            ("mass", ("value",)),
            ("inertia", ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
        ):
            element = inertial.find(tag)
            assert element is not None
            for key in keys:
                element.set(key, repr(factor * float(element.get(key, "0"))))
    return ElementTree.tostring(root)


def robot_of(source: bytes, equations: str) -> Robot:
    """Return an iCub with its sensors, of which the `equations` beside are used, or none."""
    root = ElementTree.fromstring(source)
    child = {j.get("name"): j.find("child").get("link") for j in root.findall("joint")}  # type: ignore[union-attr]
    sensors = {name: SensorOptions(str(child[name])) for name in CUTS}
    friction = JointOptions(friction="simple" if equations == "all" else "none", armature=False)
    joints = dict.fromkeys(Robot.from_urdf_text(source).joints, friction)
    options = Options(equations=equations, sensor=sensors, joint=joints)  # type: ignore[arg-type]
    return Robot.from_urdf_text(source, options)


def values_of(robot: Robot) -> Array:
    """Return the standard parameters of bodies as the model file states them, all others zero."""
    values = np.zeros(len(robot.labels))
    bodies = robot.written_bodies()
    values[: len(bodies)] = bodies
    return values


@dataclass(frozen=True)
class Experiment:
    """An iCub of a seed, and what was logged of it.

    Attributes:
        seed: Of everything.
        duration: Of the log [s].
    """

    seed: int
    duration: float

    @cached_property
    def source(self) -> bytes:
        """Model file of the iCub as it is."""
        return other(model_file(), np.random.default_rng([self.seed, 0]))

    @cached_property
    def motion(self) -> tuple[Array, Array, Array, Array]:
        """Time, positions, velocities and accelerations of all joints."""
        rng = np.random.default_rng([self.seed, 1])
        joints = len(robot_of(self.source, "sensors").joints)
        t = np.arange(0.0, self.duration, 1.0 / RATE)
        pace = rng.uniform(0.8, 6.0, size=(joints, 4))
        size = rng.uniform(0.5, 1.0, size=(joints, 4)) / np.maximum(pace, 2.0)
        angle = pace * t[:, None, None] + rng.uniform(0.0, 2.0 * np.pi, size=(joints, 4))
        middle = rng.uniform(-0.3, 0.3, size=joints)
        q = middle + np.sum(size * np.sin(angle), axis=2)
        v = np.sum(size * pace * np.cos(angle), axis=2)
        return t, q, v, -np.sum(size * pace**2 * np.sin(angle), axis=2)

    @cached_property
    def truth(self) -> tuple[Array, Array]:
        """Wrenches at the cuts, shape (N, 36) [N, N·m], and torques, (N, joints) [N·m], exact."""
        text = self.source.decode()
        for name in CUTS:
            text = re.sub(rf'(name="{name}" type=)"fixed"', r'\1"floating"', text)
        model = pin.buildModelFromXML(text)
        data, (t, q, v, a) = model.createData(), self.motion
        names = robot_of(self.source, "sensors").joints
        joints = [model.joints[model.getJointId(n)] for n in names]
        places, rates = ([getattr(j, k) for j in joints] for k in ("idx_q", "idx_v"))
        cuts = [model.getJointId(n) for n in CUTS]
        wrenches, torques = np.empty((len(t), 6 * len(CUTS))), np.empty((len(t), len(names)))
        full, rate, rise = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for n in range(len(t)):
            full[places], rate[rates], rise[rates] = q[n], v[n], a[n]
            tau = pin.rnea(model, data, full, rate, rise)
            wrenches[n] = np.concatenate([data.f[c].vector for c in cuts])
            torques[n] = tau[rates]
        return wrenches, torques

    @cached_property
    def biases(self) -> Array:
        """Biases of all sensors, shape (36,) [N, N·m]."""
        rng = np.random.default_rng([self.seed, 2])
        return np.asarray(rng.normal(size=36) * np.tile(np.repeat(BIAS, 3), len(CUTS)))

    @cached_property
    def log(self) -> Recording:
        """What was logged."""
        rng = np.random.default_rng([self.seed, 3])
        t, q, v, _ = self.motion
        wrenches, torques = self.truth
        noise = np.tile(np.repeat([FORCE, MOMENT], 3), len(CUTS))
        told = wrenches + self.biases + noise * rng.normal(size=wrenches.shape)
        rubs = torques + 0.4 * np.tanh(v / 0.02) + 0.2 * v + TORQUE * rng.normal(size=v.shape)
        seen = q + ANGLE * rng.normal(size=q.shape)
        names = robot_of(self.source, "sensors").joints
        six = [(k, c, x) for c in CUTS for k in KINDS for x in "xyz"]
        signals: dict[str, dict[str, Array]] = {"q": {}, "tau": {}, "force": {}, "torque": {}}
        for k, (kind, cut, axis) in enumerate(six):
            signals[kind][f"{cut}.{axis}"] = told[:, k]
        for k, name in enumerate(names):
            signals["q"][name], signals["tau"][name] = seen[:, k], rubs[:, k]
        return Recording.from_arrays(t, f"seed {self.seed}", **signals)

    def fitted(self, equations: str) -> Fit:
        """Return what is identified of the log, by the model file's belief."""
        problem = Problem(plant_of(robot_of(model_file(), equations)), (self.log,), SMOOTHING)
        settings = Settings(SMOOTHING)
        begin = time.perf_counter()
        found = fit_experiment(problem, settings).estimate.parameters
        took = time.perf_counter() - begin
        right = robot_of(self.source, equations)
        whole = values_of(right)
        whole[len(whole) - 36 :] = self.biases
        base = problem.base
        own = [
            k for k, n in enumerate(found.labels.names) if n.partition(".")[0] not in right.joints
        ]
        values = (base.matrix @ whole)[own]
        assert found.covariance is not None
        errors, std = found.values[own] - values, found.std[own]
        return Fit(errors, std, took, base.standard.names, base.matrix, found.covariance)

    def exact(self) -> float:
        """Return how far rows are from pinocchio's wrenches, relative to their size."""
        right = plant_of(robot_of(self.source, "sensors"))
        rng = np.random.default_rng([self.seed, 4])
        chosen = rng.integers(len(self.motion[0]), size=50)
        _, q, v, a = (x[chosen] for x in self.motion)
        made = right.sensed(right.motion(Smoothed(q, v, a)), values_of(right.robot))
        wrenches = self.truth[0][chosen]
        return float(np.abs(made - wrenches).max() / np.abs(wrenches).max())


@dataclass(frozen=True)
class Fit:
    """Base parameters of bodies and biases of sensors that were found.

    Attributes:
        errors: Of them.
        std: Stated deviations.
        took: Time of the fit [s].
        columns: Names of the standard parameters.
        matrix: Of the base parameters on these, drives' included.
        covariance: Of the base parameters.
    """

    errors: Array
    std: Array
    took: float
    columns: tuple[str, ...]
    matrix: Array
    covariance: Array

    @property
    def ratios(self) -> Array:
        """Errors over stated deviations."""
        return np.asarray(self.errors / self.std)

    def deviations_of(self, other: Fit) -> Array:
        """Return what this fit states as deviations of another's base parameters."""
        place = [self.columns.index(n) for n in other.columns]
        whole = np.zeros((len(other.matrix), len(self.columns)))
        whole[:, place] = other.matrix
        turn = whole @ np.linalg.pinv(self.matrix)
        assert np.abs(turn @ self.matrix - whole).max() <= 1e-8, "it does not know them all"
        return np.asarray(np.sqrt(np.einsum("ij,jk,ik->i", turn, self.covariance, turn)))


def measured(seeds: Sequence[int], duration: float) -> list[Row]:
    """Return all figures of some seeds."""
    experiments = [Experiment(seed, duration) for seed in seeds]
    off = max(e.exact() for e in experiments[:3])
    rows = [at_most("rows against pinocchio's wrenches at the cuts", off, "1", 1e-10)]
    alone = [e.fitted("sensors") for e in experiments]
    ratios = np.concatenate([f.ratios for f in alone])
    inside = float(np.mean(np.abs(ratios) < 1.96))
    what = f"sensors alone: base parameters and biases within stated 95 %, {len(ratios)}"
    rows.append(Row(what, inside, "1", 0.98, 0.92 <= inside <= 0.98, "92 to 98 %"))
    rms = float(np.sqrt(np.mean(ratios**2)))
    rows.append(Row("sensors alone: rms of error over stated deviation", rms, "1"))
    took = float(np.median([f.took for f in alone]))
    rows.append(Row(f"sensors alone: time of a fit of {duration:g} s", took, "s"))
    both = [e.fitted("all") for e in experiments[: max(1, len(experiments) // 4)]]
    shares = [two.deviations_of(one) / one.std for one, two in zip(alone, both, strict=False)]
    less = float(np.median(np.concatenate(shares)))
    rows.append(at_most("deviations with joint torques over those without, median", less, "1", 1.0))
    ratios = np.concatenate([f.ratios for f in both])
    inside = float(np.mean(np.abs(ratios) < 1.96))
    what = f"with joint torques: base parameters and biases within stated 95 %, {len(ratios)}"
    rows.append(Row(what, inside, "1", 0.98, 0.92 <= inside <= 0.98, "92 to 98 %"))
    return rows


@benchmark(
    {"seeds": 1, "duration": 2.5, "SMOOTHING": Smoothing(corner=10.0, delay=0.0)},
    unstored=("development",),
)
def main(*, seeds: int = 20, duration: float = 30.0, development: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: How many.
        duration: Of each log [s].
        development: Seeds that are never scored.
    """
    first = 0 if development else FIRST
    with one_blas_thread():
        yield from measured(range(first, first + seeds), duration)


if __name__ == "__main__":
    main()
