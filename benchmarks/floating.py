"""Floating base and contacts on a simulated humanoid of 30 joints: `python -m benchmarks.floating`.

Truth, torques, contact wrenches and which feet touch are MuJoCo's (`humanoid`). Each seed draws
another humanoid, other motion and noise: squats with arm swings, then hung by the trunk with one
foot lifted, then the other. `--development` takes seeds that are never scored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.engine import one_blas_thread
from heft.estimators import LeastSquares, VarianceComponents
from heft.fit import Settings
from heft.fit.experiment import fit_experiment
from heft.models import Robot
from heft.plants import Elimination, FloatingRobotPlant, Problem, Samples, plant_of, structural_base
from heft.recordings import Recording
from heft.signals import Smoothed, Smoothing

from .humanoid import FEET, Humanoid, Motion, Run, SensorNoise, options, recording, simulated, truth

Array = np.ndarray[Any, np.dtype[np.float64]]
DEVELOPMENT = 100  # first of the seeds that are never scored
START = 500  # samples in which the humanoid takes up its first posture, left out
CORNER = 8.0  # [Hz], chosen on development seeds: that which `heft identify` finds is near
EXACT = 20  # samples between those of the exact comparison
ARMS = True  # whether humanoids have any
LIFTED = FEET  # each in a log of its own
USUAL = "wrenches unknown, contacts detected"
WAYS = {
    "wrenches measured": "measured",
    USUAL: "detected",
    "base equations alone, torques unknown": "base",
    "joint equations alone": "joints",
}


@dataclass(frozen=True)
class Experiment:
    """A humanoid of a seed, and what it did.

    Attributes:
        humanoid: What it is, and what its model file says.
        runs: What happened.
        logs: What was logged of it.
    """

    humanoid: Humanoid
    runs: tuple[Run, ...]
    logs: tuple[Recording, ...]

    @staticmethod
    def of(
        seed: int, duration: float, arms: bool = True, lifted: Sequence[str] = FEET
    ) -> Experiment:
        """Return the experiment of a seed.

        Args:
            seed: Of everything.
            duration: Of each log [s].
            arms: Whether the humanoid has any.
            lifted: Feet that are, each in a log of its own.
        """
        body = Humanoid.drawn(seed, arms)
        motions = [Motion(duration=duration)]
        motions += [Motion(True, foot, duration, squat=0.15) for foot in lifted]
        runs = tuple(simulated(body, m, 10 * seed + k) for k, m in enumerate(motions))
        logs = tuple(
            recording(run, SensorNoise(), 10 * seed + k, f"run {k}").window(START, len(run.time))
            for k, run in enumerate(runs)
        )
        return Experiment(body, runs, logs)

    def robots(self, way: str) -> tuple[Robot, Robot]:
        """Return the robot of the model file, and as it is."""
        said = options(self.runs[0].joints, way)
        files = (self.humanoid.guess, self.humanoid.urdf)
        return tuple(Robot.from_text(f.encode(), said) for f in files)  # type: ignore[return-value]

    def problem(self, way: str, logs: Sequence[Recording] | None = None) -> Problem[Any]:
        """Return the problem of a way of treating contacts."""
        robot, _ = self.robots(way)
        chosen = self.logs if logs is None else tuple(logs)
        return Problem(plant_of(robot, chosen[0]), chosen, Smoothing(corner=CORNER, delay=0.0))

    def truth(self, problem: Problem[Any], way: str) -> Array:
        """Return the true base parameters."""
        return np.asarray(problem.base.matrix @ truth(*self.robots(way)))


def settings(**said: Any) -> Settings:
    """Return the settings of all fits: what is searched for otherwise is given."""
    return Settings(Smoothing(corner=CORNER, delay=0.0), threads=2, **said)


def covered(way: str, experiment: Experiment) -> tuple[Array, float]:
    """Return errors over their stated deviations, of what is identified, and the time it took."""
    problem = experiment.problem(way)
    begin = time.perf_counter()
    found = fit_experiment(problem, settings()).estimate.parameters
    took = time.perf_counter() - begin
    ratio = (found.values - experiment.truth(problem, way)) / found.std
    return ratio[np.isfinite(ratio)], took


def detected(experiment: Experiment) -> tuple[int, int]:
    """Return in how many samples detected feet are as MuJoCo has them, and of how many."""
    problem = experiment.problem("detected")
    right = total = 0
    for s in problem.samples():
        run = experiment.runs[s.recording]
        for k, foot in enumerate(FEET):
            wanted = run.touching[foot][START:][s.index]
            right += int(np.sum(s.motion.closed[k] == wanted))
            total += len(wanted)
    return right, total


def exact(run: Run, plant: FloatingRobotPlant, way: str) -> tuple[Samples[Any], Array]:
    """Return samples of MuJoCo's own motion without noise, and what the channels measure."""

    def product(q: Array, w: Array) -> Array:
        scalar = -np.sum(q[:, 1:] * w, axis=1, keepdims=True)
        return np.hstack([scalar, q[:, :1] * w + np.cross(q[:, 1:], w)])

    q, v, a = (x[START::EXACT] for x in (run.q, run.v, run.a))
    order = [run.joints.index(j) for j in plant.robot.joints]
    rate = 0.5 * product(q[:, 3:7], v[:, 3:6])
    change = 0.5 * (product(rate, v[:, 3:6]) + product(q[:, 3:7], a[:, 3:6]))
    flags = [run.touching[c][START::EXACT, None] for c in plant.contacts] if way == "logged" else []
    motion = plant.motion(
        Smoothed(
            np.hstack([q[:, :7], q[:, 7:][:, order], *flags]),
            np.hstack([v[:, :3], rate, v[:, 6:][:, order], *flags]),
            np.hstack([a[:, :3], change, a[:, 6:][:, order], *flags]),
        )
    )
    samples = Samples.of_motion(motion, len(q), len(plant.channels))
    measured = [np.zeros((len(q), 6)), run.tau[START::EXACT][:, order]]
    if way == "measured":
        sensed = plant.contacts.items()
        measured += [run.wrenches[n][START::EXACT, : c.components] for n, c in sensed]
    return samples, np.hstack(measured)


def exactness(experiment: Experiment) -> Iterator[Row]:
    """Yield how well rows explain MuJoCo's torques, and how the two ways agree on them."""
    found = []
    for way in ("measured", "logged"):
        robot, right = experiment.robots(way)
        plant = FloatingRobotPlant(robot)
        kept = structural_base(plant)
        wanted = kept.matrix @ truth(robot, right)
        Y, tau = [], []
        for run in experiment.runs:
            samples, measured = exact(run, plant, way)
            out = Elimination.of(plant.acting(samples), np.ones(measured.shape[1]))
            Y.append(out(plant.rows(samples, kept.kept).regressor).reshape(-1, len(wanted)))
            tau.append(out(measured).ravel())
        rows, right_side = np.concatenate(Y), np.concatenate(tau)
        left = np.abs(right_side - rows @ wanted).max() / np.abs(right_side).max()
        yield at_most(f"rows against MuJoCo's torques, wrenches {_said(way)}", left, "1", 1e-9)
        scale = np.linalg.norm(rows, axis=0)
        found.append(np.linalg.lstsq(rows / scale, right_side, rcond=1e-13)[0] / scale)
    apart = np.abs(found[0] - found[1]).max() / np.abs(found[0]).max()
    yield at_most("null space against measured wrenches, exact motion", apart, "1", 1e-9)


def _said(way: str) -> str:
    return "measured" if way == "measured" else "unknown"


def staged(experiment: Experiment) -> Row:
    """Return how a fit of one log after another differs from one of all, at equal weights."""
    same = settings(
        variance_components=VarianceComponents(rounds=0),
        least_squares=LeastSquares(weighting="none", coloured=False),
    )
    logs = experiment.logs
    whole = fit_experiment(experiment.problem("logged"), same).estimate.fitted
    given = None
    for log in logs:
        found = fit_experiment(experiment.problem("logged", [log]), same, given)
        given = found.information
    values = found.estimate.fitted
    return at_most(
        "one log after another (--given) against all at once",
        np.abs(values - whole).max() / np.abs(whole).max(),
        "1",
        1e-9,
    )


def measured(seeds: dict[str, int], first: int, duration: float) -> Iterator[Row]:
    """Yield all figures.

    Args:
        seeds: Of each way.
        first: The first seed.
        duration: Of each log [s].
    """
    chosen = range(first, first + max(seeds.values()))
    experiments = [Experiment.of(seed, duration, ARMS, LIFTED) for seed in chosen]
    yield from exactness(experiments[0])
    yield staged(experiments[0])
    counts = np.array([detected(e) for e in experiments[: seeds["detected"]]])
    share = counts[:, 0].sum() / counts[:, 1].sum()
    yield at_least("samples in which a foot's contact is detected right", share, "1", 0.99)
    for name, way in WAYS.items():
        made = [covered(way, e) for e in experiments[: seeds[way]]]
        ratios = np.concatenate([r for r, _ in made])
        inside = float(np.mean(np.abs(ratios) < 1.96))
        holds = 0.92 <= inside <= 0.98
        what = f"{name}: base parameters within stated 95 %, {len(ratios)} of {seeds[way]} seeds"
        yield Row(what, inside, "1", 0.98, holds, "92 to 98 %")
        rms = float(np.sqrt(np.mean(ratios**2)))
        yield Row(f"{name}: rms of error over stated deviation", rms, "1")
        took = float(np.median([t for _, t in made]))
        yield Row(f"{name}: time of a fit of three logs of {duration:g} s", took, "s")
    robot, _ = experiments[0].robots("detected")
    plant = plant_of(robot)
    told, all_ = len(structural_base(plant).kept), len(plant.labels)
    yield Row("standard parameters", all_, "1")
    yield Row("directions of them that only the prior holds", all_ - told, "1")


@benchmark(
    {
        **{"seeds": 1, "others": 1, "duration": 1.5, "START": 100, "EXACT": 100, "ARMS": False},
        **{"WAYS": {USUAL: WAYS[USUAL]}, "LIFTED": FEET[:1]},
    },
    unstored=("development",),
)
def main(
    *, development: bool = False, seeds: int = 100, others: int = 20, duration: float = 8.0
) -> Iterator[Row]:
    """Yield the rows.

    Args:
        development: Seeds that are never scored.
        seeds: How many.
        others: Seeds of other ways than detected.
        duration: Of each log [s].
    """
    counts = dict.fromkeys(WAYS.values(), others) | {"detected": seeds}
    with one_blas_thread():
        yield from measured(counts, DEVELOPMENT if development else 0, duration)


if __name__ == "__main__":
    main()
