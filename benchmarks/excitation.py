"""How good designed motions are, and what they cost: `heft.excitation.design`.

    python -m benchmarks.excitation [--only gradient arms panda free bees] [--store]

Times are those of one core (`time.process_time`), so that they hold on a busy machine. Gains are
nats of the log-determinant of the information: differences do not depend on units or on the choice
of base parameters. Random motions keep all limits, each joint using 60 to 100 % of its own.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.arms import data_folder
from benchmarks.bee_colony import bee_colony
from benchmarks.excitation_cases import (
    PANDA_DURATION,
    PANDA_FREQUENCY,
    Arm,
    envelope,
    executed,
    free_limits,
    lwr4,
    mixing,
    panda,
    published,
    ur10,
)
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.excitation import (
    Design,
    DesignLimits,
    DesignSettings,
    Excitation,
    Grids,
    criteria,
    default_noise,
    design,
    excitation_of,
)
from heft.excitation.design_settings import SolverSettings
from heft.excitation.excitation import scaled
from heft.excitation.starts import draw, solve
from heft.plants import FreeBody, structural_base

RANDOM = 2000
REPEATS = 100  # of a gradient, whose median time counts
BEES = 30_000  # evaluations of the bee colony
ARMS = ("UR10", "Panda", "LWR4+")
TEN_SECONDS = DesignSettings(duration=10.0, harmonics=5, random=RANDOM, starts=3, workers=1)
SAMPLES = 672  # of 21 s
LONG = replace(
    TEN_SECONDS, duration=PANDA_DURATION, random=1000, starts=5, grids=Grids(SAMPLES, 96, 64)
)
THRUST_NOISE = 0.06  # [N]
FREE = DesignSettings(
    duration=10.0,
    harmonics=3,
    random=100,
    starts=5,
    workers=1,
    row_rate=50.0,
    grids=Grids(100, 64, 16),
)
ONE_START = SolverSettings()  # of ours, beside the bee colony


def core_time(work: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """Return the median time of one core [s], and what the work gave."""
    spent = []
    for _ in range(times):
        begin = time.process_time()
        made = work()
        spent.append(time.process_time() - begin)
    return statistics.median(spent), made


def problem_of(arm: Arm, settings: DesignSettings = TEN_SECONDS) -> Excitation:
    """Return an arm's design problem, columns scaled by some random motions."""
    noise = default_noise(arm.plant, arm.limits)
    criterion = criteria.Determinant()
    grids = replace(settings.grids, spare=settings.spare)
    made = excitation_of(arm.plant, settings.family, arm.limits, criterion, noise, grids)
    rng = np.random.default_rng(0)
    return scaled(made, list(draw(made, arm.limits.joints, 20, rng)))


def gradient_rows(arms: list[Arm]) -> Iterator[Row]:
    """Yield the gradient's error and cost."""
    for arm in arms:
        problem = problem_of(arm)
        rng = np.random.default_rng(1)
        (X,) = draw(problem, arm.limits.joints, 1, rng)
        at = problem.at(X)
        gradient = problem.gradient(at, np.zeros_like(at.constraints))
        worst, h = 0.0, 2e-5
        for _ in range(10):
            way = rng.normal(size=X.shape)
            values = [problem.at(X + k * h * way).value for k in (-2, -1, 1, 2)]
            slope = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h)
            worst = max(worst, abs(float(np.sum(gradient * way)) / -slope - 1.0))
        name = f"{arm.name}, gradient of the log-determinant, largest relative error"
        yield at_most(name, worst, "", 1e-7, "central differences of fourth order")
        multipliers = np.maximum(0.0, at.constraints + 0.1)

        def both(X: Array = X, m: Array = multipliers, problem: Excitation = problem) -> None:
            problem.gradient(problem.at(X), m)

        value, _ = core_time(lambda X=X, p=problem: p.at(X), REPEATS)  # type: ignore[misc]
        whole, _ = core_time(both, REPEATS)
        count = f"{len(arm.plant.coordinates)} joints, {problem.sampled.shape[1]} samples"
        bound = 4.0 if len(arm.plant.coordinates) == 7 else None
        name = f"{arm.name}, value and gradient with all limits, {count}"
        yield at_most(name, 1e3 * whole, "ms", bound)
        ratio = (X.size + 1) * value / whole
        yield at_least(f"{arm.name}, the same by forward differences over it", ratio, "×", 10.0)


def arm_rows(arms: list[Arm]) -> Iterator[Row]:
    """Yield what a design adds to the best of 2000 random motions, and how long a start takes."""
    for arm in arms:
        spent, found = core_time(
            lambda arm=arm: design(arm.plant, arm.limits, TEN_SECONDS)  # type: ignore[misc]
        )
        starts = ", ".join(f"{s.value - found.random[0]:.1f}" for s in found.starts)
        name = f"{arm.name}, 10 s, above the best of {RANDOM} random motions"
        yield at_least(name, found.gain, "nats", arm.bound, f"starts: {starts}")
        yield Row(f"{arm.name}, 10 s, above the median", found.gain_over_median, "nats")
        share = np.exp(found.gain / found.base.rank)
        yield Row(f"{arm.name}, 10 s, as much information a parameter as in", share, "× the time")
        name = f"{arm.name}, 10 s, condition number, scaled columns"
        yield Row(name, found.conditions.scaled, "", against=f"raw {found.conditions.raw:.0f}")
        name = f"{arm.name}, 10 s, time of a start without collision, random motions included"
        yield at_most(name, spent / TEN_SECONDS.starts, "s", 10.0, "of one core")


def raw_condition(arm: Arm, motion: tuple[Array, Array, Array]) -> float:
    """Return the condition number of rows neither weighed nor scaled."""
    plant = arm.plant
    kept = structural_base(plant).kept
    rows = plant.rows(plant.samples_at(*motion), kept).regressor
    return criteria.conditions(rows, np.ones(rows.shape[1])).raw


def panda_rows() -> Iterator[Row]:
    """Yield designs for the Panda against the excitation that was really run on it."""
    folder = data_folder()
    arm, bare = panda(folder), panda(folder, armature=False)
    names = tuple(c.name for c in arm.plant.coordinates)
    printed = published(folder, names)
    time_grid = np.linspace(0.0, PANDA_DURATION, SAMPLES)
    measured = executed(folder, SAMPLES)
    was = raw_condition(bare, measured)
    yield Row("Panda, 21 s, executed motion, raw condition number", was, "", against="its table")
    name = "Panda, 21 s, table of the executed motion, raw condition number"
    yield Row(name, raw_condition(bare, printed(time_grid)), "")

    def gain(found: Design, reference: float) -> float:
        return found.log_determinant - reference

    found = design(arm.plant, arm.limits, LONG)
    reference = found.log_determinant_of(printed)
    by_log = _information(found, measured)
    yield Row("Panda, 21 s, executed motion against its table", by_log - reference, "nats")
    name = "Panda, 21 s, rest at both ends, above the executed motion"
    yield at_least(name, gain(found, by_log), "nats", 85.0, "without collision")
    family = replace(LONG, frequency=PANDA_FREQUENCY, rest="start")
    same = design(arm.plant, arm.limits, family)
    yield Row("Panda, 21 s, the same base frequency, rest at the start", gain(same, by_log), "nats")
    inside = DesignLimits(envelope(measured), arm.limits.effort)
    close = design(arm.plant, inside, LONG)
    name = "Panda, 21 s, rest at both ends, inside the executed motion's own envelope"
    yield at_least(name, gain(close, by_log), "nats", 35.0)
    level = replace(LONG, criterion="condition", scale_columns=False, weigh_rows=False)
    low = design(bare.plant, bare.limits, level)
    name = "Panda, 21 s, condition number as criterion, raw"
    yield at_most(name, low.conditions.raw, "", 45.0, f"{was:.1f} of the executed motion")
    worth = found.log_determinant_of(low.trajectory)
    name = "Panda, 21 s, what the condition number as criterion costs"
    yield Row(name, found.log_determinant - worth, "nats")


def _information(found: Design, motion: tuple[Array, Array, Array]) -> float:
    """Return the log-determinant of a motion's information in a design's own weights."""
    rows = replace(found.problem.rows, scale=np.ones(found.base.rank))
    samples = found.plant.samples_at(*motion)
    M = found.problem.share * rows.information(rows.blocks(rows.laid(samples)))
    return float(criteria.Determinant()(M)[0])


def free_rows() -> Iterator[Row]:
    """Yield designs for the free flyer."""
    wrench = mixing()
    noise = THRUST_NOISE**2 * wrench @ wrench.T
    body, limits = FreeBody(), DesignLimits(free_limits())
    spent, found = core_time(lambda: design(body, limits, FREE, noise))
    yield at_least("free body, log-determinant", found.log_determinant, "nats", 151.0)
    each = spent / FREE.starts
    yield at_most("free body, time of a start, random motions included", each, "s", 1.0)
    settings = replace(FREE, criterion="condition", scale_columns=False)
    spent, level = core_time(lambda: design(body, limits, settings, noise))
    whitened = [float(np.exp(-s.value)) for s in level.starts]
    name = "free body, condition number, worst of five starts"
    yield at_most(name, max(whitened), "", 6.5, f"softened, {spent / FREE.starts:.2f} s a start")
    worth = found.log_determinant_of(level.trajectory)
    name = "free body, log-determinant with the condition number as criterion"
    yield Row(name, worth, "nats")


def bee_rows() -> Iterator[Row]:
    """Yield what a bee colony reaches on the Panda's 10 s, at about twenty times the cost."""
    arm = panda(data_folder())
    problem = problem_of(arm)
    rng = np.random.default_rng(0)
    drawn = [0.9 * X for X in draw(problem, arm.limits.joints, 50, rng)]
    with one_blas_thread():
        spent, (_, most) = core_time(lambda: bee_colony(problem, drawn, BEES, 200))
        (first,) = draw(problem, arm.limits.joints, 1, np.random.default_rng(0))
        unit = np.minimum(arm.limits.joints.reach, np.pi)
        ours, found = core_time(lambda: solve(problem, first, unit, ONE_START))
    name = f"Panda, 10 s, bee colony of {BEES} evaluations against one random start of ours"
    against = f"{spent:.0f} s against {ours:.1f} s of one core"
    yield Row(name, most - found.value, "nats", against=against)


FEW = {"random": 2, "starts": 1, "solver": SolverSettings(rounds=1, iterations=1, more=1)}


@benchmark(
    {
        **{"TEN_SECONDS": replace(TEN_SECONDS, **FEW), "LONG": replace(LONG, **FEW), "REPEATS": 1},
        **{"FREE": replace(FREE, **FEW), "BEES": 60, "ARMS": ("UR10",)},
        "ONE_START": FEW["solver"],
    },
    unstored=("only",),
)
def main(*, only: tuple[str, ...] = ("gradient", "arms", "panda", "free", "bees")) -> Iterator[Row]:
    """Yield the rows.

    Args:
        only: Some of the parts.
    """
    folder = data_folder()
    arms = [arm for arm in (ur10(), panda(folder), lwr4(folder)) if arm.name in ARMS]
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "gradient": lambda: gradient_rows(arms),
        "arms": lambda: arm_rows(arms),
        "panda": panda_rows,
        "free": free_rows,
        "bees": bee_rows,
    }
    for name in only:
        yield from parts[name]()


if __name__ == "__main__":
    main()
