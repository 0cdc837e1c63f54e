"""`heft select` on measured logs: how near the choice is to the best, and what it is worth.

    HEFT_DATA=… python -m benchmarks.select [--random 50] [--store]

UR10e, motor currents. Segments of 0.1 s, a tenth is kept, the default settings. How many exchanges
are tried, and that simple friction is the default, was judged on some of these logs: what is said
of the bound is not blind. Held-out error: torque of another log in the motion's band, joints
weighted by their noise, by weighted least squares and by the physically consistent estimate;
against random choices of as many.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.arms import DE_LUCA, arrays, data_folder
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.select import Select, SelectedStretches
from heft.arrays import Array
from heft.estimators import LeastSquares, PhysicallyConsistent
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import Problem, RobotPlant
from heft.recordings.recording import Recording

WINDOWS = {  # rows used upstream, 1-based
    "20_02_10-30sec_12harm": (635, 3510),
    "20_02_12-40sec_12harm": (500, 4460),
    "20_02_12-50sec_12harm": (355, 5090),
    "20_02_05-20sec_8harm": (320, 2310),
    "20_02_19_14harm50sec": (195, 4966),
}
WORK = "20_01_31-unload"  # from point to point
HELD_OUT = "20_02_12-50sec_12harm"
FIVE = (*(k for k in WINDOWS if k != HELD_OUT), WORK)
WORK_ALONE = "27 s from point to point"
ROWS = None  # of each log that are taken; all if None
SETS = {
    "five logs": FIVE,
    "50 s of 14 harmonics": ("20_02_19_14harm50sec",),
    "30 s of 12 harmonics": ("20_02_10-30sec_12harm",),
    WORK_ALONE: (WORK,),
    "20 s of 8 harmonics": ("20_02_05-20sec_8harm",),
}
ESTIMATORS = ("least squares", "consistent")
SCORED = ("five logs", WORK_ALONE)


def robot(friction: str) -> Robot:
    """Return the UR10e with De Luca's gains."""
    urdf = (data_folder() / "ur10e" / "ur10e.urdf").read_bytes()
    bare = Robot.from_urdf_text(urdf)
    pairs = zip(bare.joints, DE_LUCA, strict=True)
    joints = {j: JointOptions(gain=g, friction=friction) for j, g in pairs}
    return Robot.from_urdf_text(urdf, Options(joint=joints))


def log(name: str, joints: Sequence[str]) -> Recording:
    """Return a log within the rows that are used."""
    path = data_folder() / "ur10e" / "identification_data" / f"ur-{name}.npz"
    first, last = WINDOWS.get(name, (1, None))
    with np.load(path) as data:
        stamps = data["t"]
    fields = {"q": "q", "current": "current"}
    whole = arrays(path, fields, joints, stamps, slice(first - 1, last))
    return whole if ROWS is None else whole.window(0, ROWS)


def only(found: SelectedStretches, chosen: Array, problem: Problem[RobotPlant]) -> Problem:
    """Return a problem of the same recordings with some segments alone."""
    recordings = []
    for k, recording in enumerate(problem.recordings):
        mask = np.zeros(recording.table.rows or 0, dtype=bool)
        for segment in chosen[found.segments.recording[chosen] == k]:
            mask[slice(*found.segments.rows[segment])] = True
        recordings.append(recording.selecting(lambda rows, kept=mask: kept[rows]))  # type: ignore[misc]
    return problem.with_settings(recordings=tuple(recordings))


def fitted(problem: Problem[RobotPlant]) -> tuple[Array, Array]:
    """Return base parameters by least squares, and by the consistent estimate."""
    first = LeastSquares(coloured=False).solve(problem.information(), problem.noise_names)
    triangle = first.information.combined(first.weights())
    found = PhysicallyConsistent().fit(triangle, problem.space)
    return first.fitted, np.asarray(problem.space.matrix @ found.parameters.values)


def held_out(
    found: SelectedStretches, problem: Problem[RobotPlant], draws: Sequence[Array]
) -> Array:
    """Return weighted held-out errors of both estimates, shape (2 + draws, 2).

    Of all rows, of those kept, of random choices.
    """
    other = problem.held_out(log(HELD_OUT, problem.plant.robot.joints))
    first = LeastSquares(coloured=False).solve(found.problem.information())
    weights = np.array(list(first.weights().values()))
    rows = sum(t.used for t in other.timelines)

    def errors(chosen: Problem[RobotPlant]) -> list[float]:
        energies = [other.residual_energy(values) for values in fitted(chosen)]
        return [float(np.sqrt(np.mean(e * weights**2) / rows)) for e in energies]

    choices = (found.chosen.chosen, *draws)
    return np.array([errors(problem), *(errors(only(found, c, problem)) for c in choices)])


def measured(random: int) -> Iterator[Row]:
    """Yield gaps, shares and held-out errors."""
    simple, full = robot("simple"), robot("full")
    for name, names in SETS.items():
        logs = [log(n, simple.joints) for n in names]
        begin = time.process_time()
        found = Select().run(simple, logs, lambda whole: 0.1 * whole)
        wall = time.process_time() - begin
        chosen, rank = found.chosen, found.chosen.rank
        label = f"{name}, {len(chosen.chosen)} of {len(found.segments.factors)} segments"
        yield at_most(f"{label}: below the bound on any choice", chosen.gap, "nats", 1.5)
        yield Row(f"{label}: greedy alone, below it", chosen.bound - chosen.greedy, "nats")
        against = (
            f"at random {np.exp(found.random / rank):.3f}, bound {np.exp(chosen.bound / rank):.3f}"
        )
        yield Row(f"{label}: information per parameter", chosen.share, "of all", against=against)
        yield Row(f"{label}: processor time", wall, "s")
        if name not in SCORED:
            continue
        rng = np.random.default_rng(0)
        every = len(found.segments.factors)
        draws = [rng.permutation(every)[: len(chosen.chosen)] for _ in range(random)]
        for friction, plant in (("simple", RobotPlant(simple)), ("full", RobotPlant(full))):
            problem = replace(found.problem, plant=plant, known_survey=None)
            for estimator, errors in zip(
                ESTIMATORS, held_out(found, problem, draws).T, strict=True
            ):
                whole, mine, others = errors[0], errors[1], errors[2:]
                share = float(np.mean(others > mine))
                text = (
                    f"{name}, held out, {friction} friction, {estimator}: random ones that err more"
                )
                against = f"all {whole:.3f}, selected {mine:.3f}, random {np.median(others):.3f}"
                bound = 0.8 if friction == "simple" else -np.inf
                row = at_least(text, share, "of all", bound, against)
                yield row if friction == "simple" else replace(row, bound=None, holds=None)


@benchmark(
    {"random": 2, "SETS": {WORK_ALONE: SETS[WORK_ALONE]}, "ROWS": 1500}, unstored=("random",)
)
def main(*, random: int = 50) -> Iterator[Row]:
    """Yield the rows.

    Args:
        random: Choices at random.
    """
    yield from measured(random)


if __name__ == "__main__":
    main()
