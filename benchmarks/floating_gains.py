"""Gains of a humanoid's drives, its feet's wrenches unknown: `python -m benchmarks.floating_gains`.

Humanoids, motion and noise are those of `benchmarks.floating`. Currents are logged in place of the
torques of two drives drawn by chance, or of all thirty, with gains drawn about those stated, a
tenth off. All else is as in `benchmarks.floating` with contacts that are detected. `--development`
takes seeds that are never scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.program import benchmark
from benchmarks.results_file import Row
from heft.engine import one_blas_thread
from heft.fit.experiment import fit_experiment
from heft.models import Robot
from heft.plants import Problem, UnsureGainsPlant, plant_of
from heft.signals import Smoothing

from .floating import CORNER, DEVELOPMENT, START, Experiment, settings
from .humanoid import SensorNoise, options, recording, truth

Array = np.ndarray[Any, np.dtype[np.float64]]
STATED = 5.0  # [N·m/A], of all drives
ARMS = True  # whether humanoids have any
SPREAD = 0.1  # relative deviation of gains from that, and what is stated of it
TWO = {"two drives' gains unsure": 2}
WAYS = {**TWO, "all drives' gains unsure": None}


@dataclass(frozen=True)
class Scored:
    """What was found of a seed.

    Attributes:
        gains: Relative errors of gains.
        stated: Their stated relative deviations.
        base: Errors of base parameters over their stated deviations.
    """

    gains: Array
    stated: Array
    base: Array


def scored(seed: int, count: int | None, duration: float) -> Scored:
    """Return errors of a seed's gains and base parameters.

    Args:
        seed: Of humanoid, motion, noise and gains.
        count: Number of drives whose gain is unsure; all if None.
        duration: Of each log [s].
    """
    experiment = Experiment.of(seed, duration, ARMS)
    joints = experiment.runs[0].joints
    rng = np.random.default_rng([seed, 9])
    chosen = joints if count is None else rng.choice(joints, count, replace=False).tolist()
    true = {j: STATED * (1.0 + SPREAD * rng.normal()) for j in chosen}
    logs = tuple(
        recording(run, SensorNoise(), 10 * seed + k, f"run {k}", true).window(START, len(run.time))
        for k, run in enumerate(experiment.runs)
    )
    said = options(joints, "detected")
    assert said.joint is not None
    unsure = {j: replace(said.joint[j], gain=STATED, gain_std=SPREAD * STATED) for j in true}
    said = replace(said, joint={**said.joint, **unsure})
    robot, right = (
        Robot.from_text(text.encode(), said)
        for text in (experiment.humanoid.guess, experiment.humanoid.urdf)
    )
    problem = Problem(plant_of(robot, logs[0]), logs, Smoothing(corner=CORNER, delay=0.0))
    run = fit_experiment(problem, settings())
    plant, found = run.problem.plant, run.estimate.parameters
    assert isinstance(plant, UnsureGainsPlant)
    values = run.problem.base.matrix @ np.append(truth(robot, right), np.zeros(len(true)))
    own = found.labels.names.index(plant.gains.names[0])
    factors = np.array(list(plant.gains.factors.values())) + found.values[own:]
    wanted = np.array([STATED / true[j] for j in plant.gains.factors])
    ratio = (found.values[:own] - values[:own]) / found.std[:own]
    return Scored(wanted / factors - 1.0, found.std[own:] / factors, ratio[np.isfinite(ratio)])


def measured(seeds: int, first: int, duration: float) -> Iterator[Row]:
    """Yield all figures.

    Args:
        seeds: Number of them.
        first: The first one.
        duration: Of each log [s].
    """
    for name, count in WAYS.items():
        made = [scored(first + k, count, duration) for k in range(seeds)]
        off = np.concatenate([m.gains for m in made])
        stated = np.concatenate([m.stated for m in made])
        base = np.concatenate([m.base for m in made])
        yield Row(f"{name}: rms error of a gain, of {SPREAD:.0%} before", _rms(off), "1")
        yield Row(f"{name}: median stated deviation of a gain", float(np.median(stated)), "1")
        inside = float(np.mean(np.abs(off) < 1.96 * stated))
        what = f"{name}: gains within stated 95 %, {len(off)} of {seeds} seeds"
        yield Row(what, inside, "1", 0.9, inside >= 0.9)
        inside = float(np.mean(np.abs(base) < 1.96))
        what = f"{name}: base parameters within stated 95 %, {len(base)} of {seeds} seeds"
        yield Row(what, inside, "1", 0.92, inside >= 0.92)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


@benchmark(
    {"seeds": 1, "duration": 1.5, "START": 100, "ARMS": False, "WAYS": TWO},
    unstored=("development",),
)
def main(*, development: bool = False, seeds: int = 5, duration: float = 8.0) -> Iterator[Row]:
    """Yield the rows.

    Args:
        development: Seeds that are never scored.
        seeds: How many.
        duration: Of each log [s].
    """
    with one_blas_thread():
        yield from measured(seeds, DEVELOPMENT if development else 0, duration)


if __name__ == "__main__":
    main()
