"""How often intervals under physical consistency hold the truth, and what they cost.

    python -m benchmarks.intervals --development [--seeds 5] [--case NAME ...] [--method NAME ...]
    python -m benchmarks.intervals [--seeds 200] [--case ...] [--method ...] [--label LABEL]
    python -m benchmarks.intervals --seeds 0 --label LABEL --store

A seven-joint arm (Panda's links without the hand) of 91 parameters: ten a link, viscous friction,
Coulomb friction and offset of each joint. Its torque on ten seconds of a Fourier motion is that of
pinocchio's inverse dynamics with friction of this file, with white noise of 5 % of each joint's rms
torque; heft makes the rows. Judged are intervals of nominally 95 % of 120 numbers: base parameters
of bodies, friction terms, torques of another motion, masses, centres of mass. Cases:

    inner           the truth is fixed; the model file is off by 12 % in the metric of the cone
    wrong prior     the same, and the file is off by 35 %: three times what its prior says of most
    edge, weak      thin rods (two moments of four are zero), one link a hundredth of its mass, five
                    friction terms zero; the prior's deviation is 2 of the file's numbers
    edge            the same, with a prior of deviation .5 as in all other cases
    prior-drawn     the truth is a draw of the prior, another one in each experiment

Methods are the strict bounds, which use no prior; the posterior, equal tails of 1000 draws; and
the consistent estimate ± 1.96 of its stated deviations. Strict bounds of `edge` are those of
`edge, weak`. Rows without a bound are for comparison.

Every result is a line in `benchmarks/.cache/intervals.jsonl` under a label (the commit, if none is
given) and is not made twice: a run that was interrupted goes on, and may be made in parts. Rows are
of all results of the label, however many seeds there are. Constants are chosen with
`--development` only, whose seeds are never scored.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pinocchio as pin
import scipy.linalg
from numpy.typing import NDArray

from benchmarks.program import benchmark, cache_path, commit
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.simulated import COULOMB, OFFSET, VISCOUS, arm
from heft.certainty import ConsistentSampler, PossibleFits, strict_bounds
from heft.engine import one_blas_thread
from heft.estimators import IDENTITY, PhysicallyConsistent, cone_metric
from heft.information import Information, ParameterSpace, Triangle, inertia
from heft.models import JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant, standard_rows

Array = NDArray[np.float64]
Record = dict[str, Any]

KEPT = "intervals.jsonl"
FIRST_SCORED = 1000
DEVELOPMENT = range(100)
NORMAL = 1.96
DRAWS = 1000
SAME = ("edge", "strict bounds")  # no prior: those of `edge, weak`
NOISE = 0.05  # of each joint's rms torque
MOTION, OTHER = 3, 4  # seeds of the motions
BASE = 50  # base parameters that are judged, those of bodies
KINDS = ("base", "friction", "torque", "mass", "com")


# --- the experiment


@dataclass(frozen=True)
class Case:
    """A kind of experiment.

    Attributes:
        truth: Makes bodies (70 numbers) and friction (21) from the model file's bodies.
        error: Of the model file, in the metric of the cone.
        deviation: Of the prior, in the same metric.
    """

    truth: Callable[[Array, np.random.Generator], tuple[Array, Array]]
    error: float = 0.12
    deviation: float = 0.5


FRICTION = np.concatenate([VISCOUS, COULOMB, OFFSET])


def fixed(file: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the arm as it is."""
    return nominal(), FRICTION


def drawn(file: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return bodies drawn from the prior about the model file's."""
    bodies = file.reshape(-1, 10).copy()
    for body in bodies:
        metric = cone_metric(body)
        while True:
            found = metric @ (IDENTITY + CASES["prior-drawn"].deviation * rng.normal(size=10))
            if inertia.consistency_margin(found) > 0.0:
                break
        body[:] = found
    return bodies.ravel(), FRICTION


def on_the_edge(file: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return thin rods, one of them light, and drives of which some do not rub."""
    bodies, friction = nominal().reshape(-1, 10), FRICTION.copy()
    for body in bodies[:6]:
        values, vectors = np.linalg.eigh(inertia.pseudo_inertia(body))
        values[:2] = 0.0
        body[:] = inertia.from_pseudo_inertia((vectors * values) @ vectors.T)
    bodies[4] *= 0.01
    friction[[1, 4, 7, 10, 12]] = 0.0
    return bodies.ravel(), friction


CASES: Mapping[str, Case] = {
    "inner": Case(fixed),
    "wrong prior": Case(fixed, error=0.35),
    "edge, weak": Case(on_the_edge, deviation=2.0),
    "edge": Case(on_the_edge),
    "prior-drawn": Case(drawn),
}


@cache
def problem() -> Problem[RobotPlant]:
    """Return the arm as heft sees it: simple friction, no rotor inertia."""
    plain = Robot.from_urdf_text(arm())
    joint = JointOptions(friction="simple", armature=False)
    options = Options(joint=dict.fromkeys(plain.joints, joint))
    return Problem(RobotPlant(Robot.from_urdf_text(arm(), options)), ())


def nominal() -> Array:
    """Return the bodies' ten parameters of the arm, shape (70,)."""
    return problem().space.nominal[:70].copy()


def distorted(bodies: Array, error: float, rng: np.random.Generator) -> Array:
    """Return bodies that are off by an error in their own metric."""
    found = bodies.reshape(-1, 10).copy()
    for body in found:
        root = np.linalg.cholesky(inertia.pseudo_inertia(body))
        root = root @ (np.eye(4) + error * rng.normal(size=(4, 4)))
        body[:] = inertia.from_pseudo_inertia(root @ root.T)
    return found.ravel()


@cache
def motion(seed: int) -> tuple[Array, Array, Array]:
    """Return q, v and a of a Fourier motion, ten seconds at 100 Hz, each shape (1000, 7)."""
    rng, time_ = np.random.default_rng(seed), np.arange(1000) / 100.0
    omega = 2.0 * np.pi * 0.1 * np.arange(1, 6)[:, None]
    sine, cosine = rng.normal(size=(2, 7, 5, 1))
    s, c = np.sin(omega * time_), np.cos(omega * time_)
    q = (sine * s + cosine * c).sum(axis=1)
    v = (omega * (sine * c - cosine * s)).sum(axis=1)
    a = (-(omega**2) * (sine * s + cosine * c)).sum(axis=1)
    model = pin.buildModelFromXML(arm().decode())
    low, high = model.lowerPositionLimit, model.upperPositionLimit
    reach = 0.85 * (high - low) / np.ptp(q, axis=1)
    scale = np.minimum(reach, 0.6 * model.velocityLimit / np.abs(v).max(axis=1))[:, None]
    middle = 0.5 * (q.max(axis=1) + q.min(axis=1))[:, None]
    q = (q - middle) * scale + 0.5 * (high + low)[:, None]
    return q.T, (scale * v).T, (scale * a).T


@cache
def regressor(seed: int) -> Array:
    """Return heft's rows of standard parameters, shape (1000, 7, p)."""
    return standard_rows(problem().plant.robot, *motion(seed))


def torque(bodies: Array, friction: Array) -> Array:
    """Return pinocchio's inverse dynamics with friction, shape (1000, 7) [N·m]."""
    model = pin.buildModelFromXML(arm().decode())
    for k, body in enumerate(bodies.reshape(-1, 10), 1):
        model.inertias[k] = pin.Inertia.FromDynamicParameters(body)
    data, moving = model.createData(), motion(MOTION)
    rigid = np.array([pin.rnea(model, data, *row) for row in zip(*moving, strict=True)])
    viscous, coulomb, offset = friction.reshape(3, 7)
    return rigid + viscous * moving[1] + coulomb * np.sign(moving[1]) + offset


def experiment(name: str, seed: int) -> tuple[Array, ParameterSpace, Triangle]:
    """Return the true parameters, what is believed of them, and the information of a log."""
    case, rng = CASES[name], np.random.default_rng([20, seed])
    file = distorted(nominal(), case.error, rng)
    bodies, friction = case.truth(file, rng)
    clean = torque(bodies, friction)
    sigma = NOISE * np.sqrt(np.mean(clean**2, axis=0))
    measured = clean + sigma * rng.normal(size=clean.shape)
    seen = problem()
    rows = regressor(MOTION)[:, :, list(seen.base.kept)]
    information = Information.from_rows(seen.labels, seen.channels, rows, measured)
    triangle = information.combined(dict(zip(seen.channels, 1.0 / sigma, strict=True)))
    space = replace(seen.space, nominal=np.append(file, np.zeros(len(friction))))
    return np.append(bodies, friction), space, triangle


# --- what is judged


@cache
def quantities() -> tuple[tuple[str, ...], Array]:
    """Return the kinds and coefficients of the linear quantities, shape (99, 91)."""
    seen, unit = problem(), np.eye(91)
    robot = seen.plant.robot
    to_columns = scipy.linalg.block_diag(robot.link_matrix(), np.eye(21))
    torques = (regressor(OTHER)[37::250] @ to_columns).reshape(-1, 91)
    parts = (seen.space.matrix[:BASE], unit[70:84], torques, unit[:70:10])
    kinds = [k for k, part in zip(KINDS, parts, strict=False) for _ in part]
    return tuple(kinds), np.vstack(parts)


def numbers(x: Array) -> Array:
    """Return all quantities of parameters, shape (..., 120): the linear ones, then centres."""
    bodies = x[..., :70].reshape(*x.shape[:-1], 7, 10)
    com = bodies[..., 1:4] / bodies[..., :1]
    linear = x @ quantities()[1].T
    return np.concatenate([linear, com.reshape(*x.shape[:-1], 21)], axis=-1)


def by_bounds(space: ParameterSpace, triangle: Triangle, case: Case, seed: int) -> Array:
    """Return the strict bounds, shape (120, 2)."""
    linear = PossibleFits.of(triangle, space).bounds(quantities()[1])
    com = strict_bounds(triangle, space).com
    return np.vstack([linear, com.reshape(-1, 2)])


def by_posterior(space: ParameterSpace, triangle: Triangle, case: Case, seed: int) -> Array:
    """Return equal-tailed intervals of draws of the posterior, shape (120, 2)."""
    prior = PhysicallyConsistent(strength=case.deviation**-2)
    draws = ConsistentSampler().posterior(triangle, space, prior, DRAWS, seed)
    return np.quantile(numbers(draws.values), (0.025, 0.975), axis=0).T


def by_deviations(space: ParameterSpace, triangle: Triangle, case: Case, seed: int) -> Array:
    """Return the consistent estimate ± 1.96 of its stated deviations, shape (120, 2)."""
    found = PhysicallyConsistent(strength=case.deviation**-2).fit(triangle, space).parameters
    covariance = found.covariance
    assert covariance is not None
    slopes = [*quantities()[1]]
    for k in range(7):
        mass, moments = found.values[10 * k], found.values[10 * k + 1 : 10 * k + 4]
        for axis in range(3):
            slope = np.zeros(91)
            slope[[10 * k, 10 * k + 1 + axis]] = -moments[axis] / mass**2, 1.0 / mass
            slopes.append(slope)
    spread = np.sqrt(np.einsum("kn,nm,km->k", slopes, covariance, slopes))
    middle = numbers(found.values)
    return np.column_stack([middle - NORMAL * spread, middle + NORMAL * spread])


METHODS: Mapping[str, Callable[[ParameterSpace, Triangle, Case, int], Array]] = {
    "strict bounds": by_bounds,
    "posterior": by_posterior,
    "deviations": by_deviations,
}


def one(case: str, method: str, seed: int) -> Record:
    """Return which truths the intervals of one experiment hold, and the processor's seconds."""
    truth, space, triangle = experiment(case, seed)
    with one_blas_thread():
        begin = time.process_time()
        low, high = METHODS[method](space, triangle, CASES[case], seed).T
        seconds = time.process_time() - begin
    true = numbers(truth)
    width = np.where(np.isfinite(high - low), high - low, -1.0)
    return {
        "inside": "".join("01"[int(k)] for k in (low <= true) & (true <= high)),
        "width": [float(f"{w:.4g}") for w in width],
        "seconds": seconds,
    }


# --- rows

MEAN_COVERED = 0.93
LEAST_COVERED = 0.85
ENOUGH = 200  # experiments from which the worst number is judged: chance alone is below else
CALIBRATED = (0.92, 0.98)
LONGEST = {"strict bounds": 5.0, "posterior": 60.0}  # [s]


def rows_of_cell(case: str, method: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield the rows of a method of a case."""
    kinds = np.array([*quantities()[0], *["com"] * 21])
    inside = np.array([[k == "1" for k in r["inside"]] for r in records])
    width = np.array([r["width"] for r in records])
    name = f"{case}, {method}"
    mean, least = float(inside.mean()), float(inside.mean(axis=0).min())
    if method == "strict bounds":
        yield at_least(f"{name}: truths held", mean, "", MEAN_COVERED)
        judged = LEAST_COVERED if len(records) >= ENOUGH else None
        holds = None if judged is None else least >= judged
        yield Row(f"{name}: truths held, worst of 120", least, "", judged, holds)
    elif (case, method) == ("prior-drawn", "posterior"):
        low, high = CALIBRATED
        yield Row(f"{name}: truths held", mean, "", low, low <= mean <= high, f"at most {high}")
        yield Row(f"{name}: truths held, worst of 120", least, "")
    else:
        yield Row(f"{name}: truths held", mean, "")
        yield Row(f"{name}: truths held, worst of 120", least, "")
    yield Row(f"{name}: experiments", len(records), "")
    for kind in KINDS:
        mine = kinds == kind
        ends = width[:, mine]
        yield Row(f"{name}: {kind}, truths held", float(inside[:, mine].mean()), "")
        yield Row(f"{name}: {kind}, share open", float(np.mean(ends < 0.0)), "")
    seconds = [r["seconds"] for r in records]
    limit = LONGEST.get(method)
    yield at_most(f"{name}: processor time, median", float(np.median(seconds)), "s", limit)
    yield at_most(f"{name}: processor time, longest", float(np.max(seconds)), "s", limit)


def stored(label: str) -> dict[tuple[str, str, int], Record]:
    """Return the results of a label."""
    if not cache_path(KEPT).exists():
        return {}
    lines = map(json.loads, cache_path(KEPT).read_text(encoding="utf-8").splitlines())
    return {(k["case"], k["method"], k["seed"]): k["record"] for k in lines if k["label"] == label}


def made(keys: Sequence[tuple[str, str, int]], label: str) -> None:
    """Make what is not stored yet."""
    done = stored(label)
    missing = [k for k in keys if k not in done]
    cache_path(KEPT).parent.mkdir(exist_ok=True)
    with cache_path(KEPT).open("a", encoding="utf-8") as file:
        for number, key in enumerate(missing, 1):
            entry = dict(zip(("case", "method", "seed"), key, strict=True))
            record = one(*key)
            file.write(json.dumps({"label": label, **entry, "record": record}) + "\n")
            file.flush()
            share = record["inside"].count("1") / len(record["inside"])
            said = f"{number}/{len(missing)} {key}: {share:.3f}, {record['seconds']:.1f} s"
            print(said, file=sys.stderr, flush=True)


@benchmark(
    {"development": True, "seeds": 1, "case": ("inner",), "DRAWS": 20}, unstored=("development",)
)
def main(
    *,
    development: bool = False,
    seeds: int = 200,
    case: tuple[str, ...] = tuple(CASES),
    method: tuple[str, ...] = tuple(METHODS),
    label: str | None = None,
) -> Iterator[Row]:
    """Make intervals, and yield the rows of all that are kept under the label.

    Args:
        development: Seeds to choose constants on.
        seeds: How many.
        case: Some of the cases.
        method: Some of the methods.
        label: Under which results are kept; the commit if not given.
    """
    if development and seeds > len(DEVELOPMENT):
        raise SystemExit("development has seeds below 100")
    first, kept = 0 if development else FIRST_SCORED, label or commit()
    cells = [(c, m) for c in case for m in method if (c, m) != SAME]
    made([(*cell, seed) for seed in range(first, first + seeds) for cell in cells], kept)
    found: dict[tuple[str, str], list[Record]] = {}
    for (c, m, seed), record in sorted(stored(kept).items()):
        if (seed in DEVELOPMENT) == development:
            found.setdefault((c, m), []).append(record)
    for cell in ((c, m) for m in METHODS for c in CASES if (c, m) in found):
        yield from rows_of_cell(*cell, found[cell])


if __name__ == "__main__":
    main()
