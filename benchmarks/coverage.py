"""How far off estimates are and how often their intervals hold, over simulated experiments.

    python -m benchmarks.coverage [--seeds 40] [--jobs 2] [--condition NAME ...] [--store]
    python -m benchmarks.coverage --reference [--corner HZ ...]

Each condition is a kind of experiment (see `benchmarks.simulated`), repeated over seeds. Of each
fit these quantities are taken, a function each, as a `Quantity`: value, stated standard
deviation, true value and, where there is one, the deviation that an oracle would have, who saw
q, v and a without error, knew the form of the friction, the delay and the noise, and had no
prior: the Cramér-Rao bound of the torque sensors' noise at the full rate of the log.

    base         base parameters of links and rotors (friction terms depend on the dictionary)
    friction     of each joint at several speeds in steady sliding: the curve of `estimate.json`,
                 but of the unconstrained estimate
    torque       rigid and rotor torque of another motion, at its exact q, v and a
    whole torque the same with friction
    curve        friction as `estimate.json` has it, with its non-negative coefficients
    mass, com    of the links, between the strict bounds of `estimate.json`

Printed are the share of truths within 95 % intervals, |error| over the oracle's deviation (0.67
is its median at best; so its bound is 0.67 times that of the ratio), the rms error over seeds
likewise, the mean error (what is below 2/√seeds is zero), and the interval's width over the
oracle's. Pooled are base, friction, torque and whole torque, a number of each kind counting
alike.

With `--reference` nothing of the estimator is judged, but what it is judged by: the oracle itself,
and fits that know the form of the friction as the oracle does but have the log's positions,
smoothed at several corners. What these miss is the smoothing's; no dictionary of friction that
is fitted after the same smoothing can be expected to do better.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the jobs share the cores
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.program import benchmark, spread
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.simulated import Exact, Experiment, experiment
from heft.applications.identification import results
from heft.applications.identification.identification import Identification, identify
from heft.dynamics import kernels
from heft.dynamics.drive_columns import DriveState, presliding, steady
from heft.fit.settings import Settings
from heft.information import triangle_of
from heft.information.identifiability import BaseParameters
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import Problem, RobotMotion, RobotPlant, Samples, rows_of, standard_rows
from heft.plants.base import structural_base
from heft.signals.settings import Smoothing

Array = NDArray[np.float64]
Rows = Literal["auto", "weak", "differentiated"]

NORMAL = 1.96
CHUNK = 2048  # rows
TORQUE_ROWS = 25  # of the other motion, evenly spaced
SPEEDS = (-1.0, -0.3, -0.1, -0.03, 0.03, 0.1, 0.3, 1.0)  # [rad/s], at which friction is judged
CURVE_POINTS = 4  # either way, of the curve of friction
POOLED = ("base", "friction", "torque", "whole torque")
SECONDS = 30.0  # of a log
WIDEST = 1.3  # times the ideal interval

# What differs from `experiment`'s defaults. First what any dictionary of friction can explain
# exactly, without delay: there the intervals have nothing to excuse them.
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "viscous white": {"friction": "viscous", "delay": 0.0},
    "viscous ar1": {"friction": "viscous", "delay": 0.0, "noise": "ar1"},
    "simple white": {"friction": "simple", "delay": 0.0, "scale": 0.005, "step": 0.0005},
    "simple ar1": {
        "friction": "simple",
        "delay": 0.0,
        "scale": 0.005,
        "step": 0.0005,
        "noise": "ar1",
    },
    "simple smooth white": {"friction": "simple", "scale": 0.03},
    "simple smooth ar1": {"friction": "simple", "scale": 0.03, "noise": "ar1"},
    "white": {},
    "ar1": {"noise": "ar1"},
    "free white": {"motion": "free"},
    "free ar1": {"motion": "free", "noise": "ar1"},
    "drawn ar1": {"truth": "drawn", "motion_seed": None, "noise": "ar1"},
    "250 Hz ar1": {"rate": 250.0, "noise": "ar1"},
}


@dataclass(frozen=True, eq=False)
class Quantity:
    """Some numbers of one fit, with the truth.

    Attributes:
        names: One a number.
        value: Estimated.
        std: Stated.
        truth: As simulated.
        ideal: The oracle's standard deviation; NaN where it has none.
        interval: Low and high, shape (n, 2), where it is not value ± 1.96 std.
    """

    names: tuple[str, ...]
    value: Array
    std: Array
    truth: Array
    ideal: Array
    interval: Array | None = None

    def inside(self) -> NDArray[np.bool_]:
        """Return which truths the intervals hold."""
        if self.interval is None:
            return np.asarray(np.abs(self.value - self.truth) <= NORMAL * self.std)
        low, high = self.interval.T
        return np.asarray((low <= self.truth) & (self.truth <= high))


# --- the oracle


def without_friction(urdf: bytes) -> Robot:
    """Return the robot with links and rotors only."""
    plain = Robot.from_urdf_text(urdf)
    none = {j: JointOptions(friction="none") for j in plain.joints}
    return Robot.from_urdf_text(urdf, Options(joint=none))


@lru_cache(maxsize=4)
def _base(urdf: bytes) -> tuple[Robot, BaseParameters]:
    robot = without_friction(urdf)
    return robot, structural_base(RobotPlant(robot))


def exact_rows(urdf: bytes, exact: Exact, rows: Any = slice(None)) -> Array:
    """Return Y of the links' and rotors' base parameters, shape (N, joints, b)."""
    robot, base = _base(urdf)
    standard = standard_rows(robot, exact.q[rows], exact.v[rows], exact.a[rows])
    return np.asarray(standard[:, :, list(base.kept)])


def _friction_columns(found: Experiment, v: Array, slip: Array, rigid: Array) -> Array:
    """Return the columns of the friction that there is, shape (terms, N, joints)."""
    friction = found.truth.friction
    columns = friction.columns(v, slip, rigid)
    return np.array([c for name, c in columns.items() if getattr(friction, name).any()])


def _beside(inertial: Array, columns: Array) -> Array:
    """Return rows with each joint's friction columns put before them, (N, joints, … + b)."""
    count, n, b = inertial.shape
    rows = np.zeros((count, n, n * len(columns) + b))
    for k, column in enumerate(columns):
        rows[:, np.arange(n), n * k + np.arange(n)] = column
    rows[:, :, n * len(columns) :] = inertial
    return rows


def ideal_covariance(found: Experiment) -> Array:
    """Return the oracle's covariance of friction's coefficients, then of the base parameters.

    The inverse of the information of all exact rows, their noise whitened by its true
    autocorrelation. Shape (n, n), the friction's as `_beside` has them, then the b of links and
    rotors.
    """
    exact, rho = found.exact, found.correlation
    columns = _friction_columns(found, exact.v, exact.slip, exact.tau_rigid)
    total = np.zeros((0, 0))
    before = None
    for first in range(0, len(exact.t), CHUNK):
        cut = slice(first, first + CHUNK)
        rows = _beside(exact_rows(found.urdf_true, exact, cut), columns[:, cut])
        previous = np.concatenate([np.zeros_like(rows[:1]) if before is None else before, rows])
        before = rows[-1:].copy()
        white = rows - rho * previous[:-1]
        white /= np.sqrt(1.0 - rho**2)
        if first == 0:
            white[0] = rows[0]
        white /= found.torque_noise_std[:, None]
        stacked = white.reshape(-1, white.shape[2])
        total = triangle_of(stacked if not total.size else np.vstack([total, stacked]))
    inverse = np.linalg.inv(total)
    return np.asarray(inverse @ inverse.T)


# --- the quantities


def _of_bodies(ideal: Array, truth: Experiment) -> Array:
    """Return the oracle's covariance of the base parameters alone, shape (b, b)."""
    count = len(_base(truth.urdf_true)[1].labels)
    return ideal[-count:, -count:]


def base_quantity(found: Identification, truth: Experiment, ideal: Array) -> Quantity:
    """Base parameters of links and rotors, unconstrained."""
    robot, base = _base(truth.urdf_true)
    names = base.labels.names
    labels = found.estimate.parameters.labels
    at = [labels.index(n) for n in names]
    covariance = found.estimate.parameters.covariance
    assert covariance is not None
    return Quantity(
        names,
        found.estimate.parameters.values[at],
        np.sqrt(np.diag(covariance)[at]),
        base.matrix @ truth.truth.standard(robot),
        np.sqrt(np.diag(_of_bodies(ideal, truth))),
    )


def torque_quantity(
    found: Identification, truth: Experiment, ideal: Array, whole: bool = False
) -> Quantity:
    """Torque of another motion by the base parameters.

    Args:
        found: The fit.
        truth: What it is to find.
        ideal: The oracle's covariance.
        whole: Whether with friction, its load by the bodies that were fitted; else that of links
            and rotors.
    """
    robot, base = _base(truth.urdf_true)
    parameters = found.estimate.parameters
    other = truth.validation
    chosen = np.linspace(0, len(other.t) - 1, TORQUE_ROWS).astype(np.intp)
    known = exact_rows(truth.urdf_true, other, chosen)
    if whole:
        columns = _friction_columns(truth, other.v, other.slip, other.tau_rigid)[:, chosen]
        known = _beside(known, columns)
        rows = _rows_of_fit(found, other, chosen)
        at = list(range(len(parameters.labels)))
        right = other.tau[chosen]
    else:
        at = [parameters.labels.index(n) for n in base.labels.names]
        rows = known
        right = other.tau_rigid[chosen] + truth.truth.armature * other.a[chosen]
        ideal = _of_bodies(ideal, truth)
    assert parameters.covariance is not None
    spread = np.einsum("njb,bc,njc->nj", rows, parameters.covariance[np.ix_(at, at)], rows)
    least = np.einsum("njb,bc,njc->nj", known, ideal, known)
    return Quantity(
        tuple(f"{j} {k}" for k in chosen for j in robot.joints),
        (rows @ parameters.values[at]).ravel(),
        np.sqrt(spread).ravel(),
        right.ravel(),
        np.sqrt(least).ravel(),
    )


def _rows_of_fit(found: Identification, other: Exact, chosen: NDArray[np.intp]) -> Array:
    """Return the fit's rows at some samples of an exact motion, shape (n, joints, b)."""
    problem = found.problem
    robot = problem.plant.robot
    motion = kernels.motion_of(robot.tree, robot.gravity, other.q, other.v, other.a)
    kept = list(problem.base.kept)
    stops = presliding(robot.drives, other.t, other.q.T).values[:, chosen]
    part = motion.part(chosen)
    position = other.q.T[:, chosen]
    moved = RobotMotion(position, part.velocity, part)
    rigid = problem.plant.loads(Samples.of_motion(moved, len(chosen), len(robot.channels)))
    state = DriveState(position, part.velocity, part.acceleration, stops, rigid)
    rows = rows_of(robot, part, state)
    return rows[:, :, kept]


def friction_quantity(found: Identification, truth: Experiment, ideal: Array) -> Quantity:
    """Friction of each joint in steady sliding without load, unconstrained."""
    robot, friction = truth.robot, truth.truth.friction
    n = len(robot.joints)
    speed = np.array(SPEEDS)[:, None] * np.ones(n)
    slip, still = np.sign(speed), np.zeros_like(speed)
    columns = _friction_columns(truth, speed, slip, still)
    known = _beside(np.zeros((len(SPEEDS), n, 0)), columns)
    size = known.shape[2]
    least = np.einsum("njb,bc,njc->nj", known, ideal[:size, :size], known)
    parameters = found.estimate.parameters
    assert parameters.covariance is not None
    names = parameters.labels.names
    value, std = np.zeros_like(speed), np.zeros_like(speed)
    for j, drive in enumerate(found.problem.plant.robot.drives):
        terms = [t for t in drive.terms if t.kind != "armature"]
        at = [names.index(f"{drive.name}.{t.name}") for t in terms]
        rows = steady(terms, speed[:, j])
        value[:, j] = parameters.values[at] @ rows
        spread = np.einsum("kn,kl,ln->n", rows, parameters.covariance[np.ix_(at, at)], rows)
        std[:, j] = np.sqrt(spread)
    return Quantity(
        tuple(f"{j} {v:g} rad/s" for v in SPEEDS for j in robot.joints),
        value.ravel(),
        std.ravel(),
        friction.torque(speed, slip, still).ravel(),
        np.sqrt(least).ravel(),
    )


def curve_quantity(found: Identification, truth: Experiment, ideal: Array) -> Quantity:
    """Friction in steady sliding as `estimate.json` has it, at some of its speeds."""
    robot, friction = truth.robot, truth.truth.friction
    joints = results.to_json(found)["joints"]
    value, std, right, names = [], [], [], []
    for k, joint in enumerate(robot.joints):
        curve = joints[joint]["curve"]
        for at in np.linspace(0, len(curve["velocity"]) - 1, 2 * CURVE_POINTS).astype(int):
            speed = np.full((1, len(robot.joints)), curve["velocity"][at])
            right.append(friction.torque(speed, np.sign(speed), 0.0 * speed)[0, k])
            value.append(curve["effort"][at])
            std.append(curve["std"][at])
            names.append(f"{joint} {speed[0, k]:.3g} rad/s")
    none = np.full(len(names), np.nan)
    return Quantity(tuple(names), np.array(value), np.array(std), np.array(right), none)


def link_quantity(
    found: Identification, truth: Experiment, ideal: Array, keys: tuple[str, ...]
) -> Quantity:
    """Numbers of the links as `estimate.json` has them, with their intervals."""
    entries = {e["name"]: e for e in results.to_json(found)["parameters"]}
    names = [f"{link}.{key}" for link in truth.truth.links for key in keys]
    right = [true_numbers(ten)[key] for ten in truth.truth.links.values() for key in keys]
    chosen = [entries[n] for n in names]
    return Quantity(
        tuple(names),
        np.array([e["value"] for e in chosen]),
        np.array([e["std"] for e in chosen]),
        np.array(right),
        np.full(len(names), np.nan),
        np.array([e["interval"] for e in chosen]),
    )


def true_numbers(ten: Array) -> dict[str, float]:
    """Return mass and centre of mass of a body."""
    return {"mass": ten[0], **{f"com.{x}": ten[1 + k] / ten[0] for k, x in enumerate("xyz")}}


QUANTITIES: Mapping[str, Callable[[Identification, Experiment, Array], Quantity]] = {
    "base": base_quantity,
    "friction": friction_quantity,
    "torque": torque_quantity,
    "whole torque": partial(torque_quantity, whole=True),
    "curve": curve_quantity,
    "mass": partial(link_quantity, keys=("mass",)),
    "com": partial(link_quantity, keys=("com.x", "com.y", "com.z")),
}


# --- what fits are judged by


def reference_fit(truth: Experiment, ideal: Array, corner: float | None = None) -> Quantity:
    """Return base parameters by one who knows the form of the friction, the noise and no prior.

    For white noise, no delay and no gain error; nothing is stated but the bound.

    Args:
        truth: The experiment.
        ideal: Its oracle's covariance.
        corner: Of the smoothing of the logged positions [Hz]; None takes the exact motion, which
            is the oracle: it covers the truth in 95 of 100 cases and misses it by the bound.
    """
    robot, base = _base(truth.urdf_true)
    names = [f"{kind}.{j}" for kind in ("q", "tau") for j in robot.joints]
    logged = np.concatenate([b.values for b in truth.recording.blocks(names)])
    n, exact = len(robot.joints), truth.exact
    if corner is None:
        v, a, index, slip = exact.v, exact.a, np.arange(len(exact.t)), exact.slip
        motions = [(kernels.motion_of(robot.tree, robot.gravity, exact.q, v, a), index)]
    else:
        slip = truth.truth.friction.slip(logged[:, :n])
        problem = Problem(RobotPlant(robot), (truth.recording,), Smoothing(corner=corner), 1)
        motions = [(s.motion.bodies, s.index) for s in problem.samples()]
    total = np.zeros((0, 0))
    for motion, index in motions:
        columns = _friction_columns(truth, motion.velocity.T, slip[index], exact.tau_rigid[index])
        for first in range(0, len(index), CHUNK):
            cut = slice(first, first + CHUNK)
            part = motion.part(cut)
            still = np.zeros_like(part.velocity)
            state = DriveState(still, part.velocity, part.acceleration, still[:0], still)
            inertial = rows_of(robot, part, state)[:, :, list(base.kept)]
            rows = _beside(inertial, columns[:, cut])
            rows = np.concatenate([rows, logged[index[cut], n:, None]], axis=2)
            rows = (rows / truth.torque_noise_std[:, None]).reshape(-1, rows.shape[2])
            total = triangle_of(rows if not total.size else np.vstack([total, rows]))
    answer = np.asarray(np.linalg.solve(total[:-1, :-1], total[:-1, -1])[-len(base.kept) :], float)
    std = np.sqrt(np.diag(_of_bodies(ideal, truth)))
    right = base.matrix @ truth.truth.standard(robot)
    return Quantity(base.labels.names, answer, std, right, std)


def references(seeds: int, corners: Sequence[float]) -> Iterator[Row]:
    """Yield the figures of the oracle and of smoothed logs under known friction."""
    made = [experiment(s, delay=0.0, duration=SECONDS) for s in range(seeds)]
    ideal = ideal_covariance(made[0])
    for corner in (None, *corners):
        label = "exact motion" if corner is None else f"smoothed at {corner:g} Hz"
        fits = [reference_fit(e, ideal, corner) for e in made]
        yield from figures("white, known friction", label, fits)


# --- the study


_IDEAL: dict[str, Array] = {}  # of a condition whose motion and arm are the same for all seeds


def one(
    condition: str, reuse: bool, rows: Rows, seed: int
) -> tuple[dict[str, Quantity], dict[str, float]]:
    """Return the quantities of one seed, and the seconds that its parts took."""
    arguments = dict(CONDITIONS[condition])
    begin = time.process_time()
    truth = experiment(seed, reuse=reuse, duration=SECONDS, **arguments)
    made = time.process_time()
    same = arguments.get("truth", "fixed") == "fixed" and arguments.get("motion_seed", 0) == 0
    ideal = _IDEAL.get(condition) if same else None
    if ideal is None:
        ideal = _IDEAL[condition] = ideal_covariance(truth)
    bound = time.process_time()
    found = identify(
        truth.robot,
        [truth.recording],
        settings=Settings(threads=1, rows=rows),
    )
    fitted = time.process_time()
    return {name: make(found, truth, ideal) for name, make in QUANTITIES.items()}, {
        "simulation": made - begin,
        "oracle": bound - made,
        "fit": fitted - bound,
    }


def coverage(fits: list[Quantity]) -> Array:
    """Return for each number how often its interval held the truth."""
    return np.asarray(np.mean([f.inside() for f in fits], axis=0))


def figures(condition: str, name: str, fits: list[Quantity]) -> Iterator[Row]:
    """Yield the figures of one quantity over its seeds."""
    label = f"{condition}: {name}"
    share = coverage(fits)
    count = f"{len(fits)} seeds × {len(share)}"
    if name in ("mass", "com"):
        yield at_least(f"{label}, truths within intervals", share.mean(), "", 0.93, count)
    else:
        yield Row(f"{label}, truths within intervals", float(share.mean()), "", against=count)
    yield Row(f"{label}, the same of the worst number", float(share.min()), "")
    error = np.array([f.value - f.truth for f in fits])
    std = np.array([f.std for f in fits])
    ideal = np.array([f.ideal for f in fits])
    if fits[0].interval is not None:
        ends = np.array([f.interval for f in fits])
        wide = np.median(ends[..., 1] - ends[..., 0], axis=0)
        middle = float(np.median(wide))
        bounded = None if np.isfinite(middle) else "half of them are open"
        yield Row(f"{label}, width of the interval, median", middle, "", against=bounded)
        return
    if np.isnan(ideal).any():
        relative = np.sqrt(np.mean(error**2, axis=0)) / np.sqrt(np.mean(std**2, axis=0))
        yield Row(f"{label}, rms error over stated std, median", float(np.median(relative)), "")
        return
    worst = 1.3 if "free" in condition else 1.2
    middle = float(np.median(np.abs(error) / ideal))
    yield at_most(f"{label}, |error| over bound, median", middle, "", worst)
    rms = np.sqrt(np.mean((error / ideal) ** 2, axis=0))
    yield Row(f"{label}, rms error over bound, median number", float(np.median(rms)), "")
    yield Row(f"{label}, rms error over bound, 90 % number", float(np.quantile(rms, 0.9)), "")
    if len({f.truth.tobytes() for f in fits}) == 1:
        bias = np.abs(np.mean(error / ideal, axis=0))
        yield Row(f"{label}, |mean error| over bound, median number", float(np.median(bias)), "")
        yield Row(f"{label}, |mean error| over bound, 90 %", float(np.quantile(bias, 0.9)), "")
    wide = float(np.median(std / ideal))
    yield at_most(f"{label}, stated over ideal width, median", wide, "", WIDEST)


def pooled(condition: str, done: list[dict[str, Quantity]]) -> Iterator[Row]:
    """Yield the share of truths within intervals, over all kinds of numbers alike."""
    share = float(np.mean([coverage([q[name] for q in done]).mean() for name in POOLED]))
    label = f"{condition}: base, friction and torque together, truths within intervals"
    least, most = (0.92, 1.0) if "ar1" in condition else (0.93, 0.97)
    held = f"{len(done)} seeds, {least:g} to {most:g}"
    yield Row(label, share, "", least, least <= share <= most, held)


@benchmark(
    {"seeds": 1, "jobs": 1, "condition": ("viscous white",), "SECONDS": 6.0},
    {"seeds": 1, "reference": True, "corner": (25.0,), "SECONDS": 2.0},
    unstored=("condition",),
    variants=("reference",),
)
def main(
    *,
    seeds: int = 40,
    first: int = 0,
    jobs: int = 2,
    condition: tuple[str, ...] = tuple(CONDITIONS),
    reuse: bool = False,
    rows: str = "auto",
    reference: bool = False,
    corner: tuple[float, ...] = (12.5, 25.0, 50.0),
) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: How many.
        first: The first seed.
        jobs: Processes.
        condition: Some of the conditions.
        reuse: One run for all seeds of a motion.
        rows: What is fitted: auto, weak or differentiated.
        reference: What the fits are judged by.
        corner: Of what they are judged by [Hz].
    """
    if reference:
        yield from references(seeds, corner)
        return
    for name in condition:
        label = name if rows == "auto" else f"{name}, {rows}"
        chosen = range(first, first + seeds)
        found = {s: f.result() for s, f in spread(partial(one, name, reuse, rows), chosen, jobs)}
        done = [found[seed] for seed in chosen]
        for quantity in QUANTITIES:
            yield from figures(label, quantity, [q[quantity] for q, _ in done])
        yield from pooled(label, [quantities for quantities, _ in done])
        spent = {k: float(np.median([t[k] for _, t in done])) for k in done[0][1]}
        print("median CPU a seed: " + ", ".join(f"{k} {v:.2f} s" for k, v in spent.items()))


if __name__ == "__main__":
    main()
