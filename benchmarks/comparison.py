"""How often `heft compare` raises a false alarm, and how small a change it finds.

    python -m benchmarks.comparison [--share 1.0] [--store]

Pairs of simulated identifications of one arm, each of a log of its own: where nothing changed,
the share with one or more numbers marked, which the rule puts at 5 %; where one joint's friction
rose, or one link grew heavier, the share that finds it in its joint, or the link.

Arms whose friction heft's models were not made for, those of `benchmarks.truth`, are compared by
`benchmarks.comparison_truth`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import binom
from tests.experiments import ARMS, Truth, log, true_robot, wrong_prior

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.scoring import unchecked
from heft.applications.identification.comparison import ALARM, Comparison, compare
from heft.applications.identification.identification import identify
from heft.applications.identification.results import write
from heft.models.export import write_urdf
from heft.models.robot import Robot

NOISE = 0.02  # of torque, as a share of its rms


@dataclass(frozen=True)
class Condition:
    """A kind of experiment.

    Attributes:
        arm: Which.
        friction: What it is identified with.
        seconds, rate: Of each log [s], [Hz].
        pairs: How many comparisons without a change.
    """

    arm: str
    friction: Literal["full", "simple"]
    seconds: float
    rate: float
    pairs: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.arm}, {self.friction} friction, {self.seconds:g} s"


FEWEST = 4  # pairs
CONDITIONS = (
    Condition("six joints", "simple", 20.0, 250.0, 40),
    Condition("six joints", "full", 20.0, 250.0, 40),
    Condition("two joints", "full", 10.0, 200.0, 80),
)


def rubs(truth: Truth) -> Truth:
    """Return the arm with 5 % more Coulomb friction in its last joint."""
    name = f"{truth.robot.joints[-1]}.coulomb"
    return replace(truth, drives={**truth.drives, name: 1.05 * truth.drives[name]})


def weighs(truth: Truth) -> Truth:
    """Return the arm with a last link that weighs 5 % more."""
    link = truth.robot.bodies_links[-1]
    source = write_urdf(truth.robot.source, {link.name: 1.05 * link.nominal}, {})
    return replace(truth, robot=Robot.from_urdf_text(source, truth.robot.options))


def finds_friction(found: Comparison, truth: Truth) -> bool:
    """Return whether the last joint's friction is marked, and no other joint's."""
    marked = {c.name for c in found.of("friction") if c.clear}
    return marked == {truth.robot.joints[-1]}


def finds_link(found: Comparison, truth: Truth) -> bool:
    """Return whether the last link explains the change of the bodies best."""
    return bool(found.suspects) and found.suspects[0][0] == truth.robot.bodies_links[-1].name


def measured(condition: Condition, folder: Path) -> Iterator[Row]:
    """Yield the rows of a condition."""
    rng = np.random.default_rng(11)
    truth = true_robot(ARMS[condition.arm], rng, condition.friction)
    robot = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)

    def run(one: Truth, name: str) -> Path:
        recording = log(one, condition.seconds, condition.rate, rng, NOISE)
        write(unchecked(identify(robot, [recording])), folder / name)
        return folder / name

    alarms = 0
    for _ in range(condition.pairs):
        found = compare(run(truth, "before"), run(truth, "after"))
        alarms += any(c.clear for c in found.changes)
    yield at_most(
        f"{condition.name}: comparisons with a false alarm",
        alarms / condition.pairs,
        f"share of {condition.pairs}",
        float(binom.ppf(0.95, condition.pairs, ALARM)) / condition.pairs,
        f"{len(found.changes)} quantities, {ALARM:.0%} by the rule; the bound is its 95 % quantile",
    )
    trials = max(1, condition.pairs // 4)
    changes: dict[str, tuple[Callable[[Truth], Truth], Callable[[Comparison, Truth], bool]]] = {
        "5 % more Coulomb friction found in its joint alone": (rubs, finds_friction),
        "5 % more mass of the last link found and named": (weighs, finds_link),
    }
    for name, (change, finds) in changes.items():
        other = change(truth)
        found_it = sum(
            finds(compare(run(truth, "before"), run(other, "after")), truth) for _ in range(trials)
        )
        yield at_least(f"{condition.name}: {name}", found_it / trials, f"share of {trials}", 0.9)


@benchmark(
    {"share": 0.01, "FEWEST": 1, "CONDITIONS": (Condition("two joints", "full", 4.0, 100.0, 4),)}
)
def main(*, share: float = 1.0) -> Iterator[Row]:
    """Yield the rows.

    Args:
        share: Of the pairs, for a quicker look.
    """
    for whole in CONDITIONS:
        condition = replace(whole, pairs=max(FEWEST, round(share * whole.pairs)))
        with tempfile.TemporaryDirectory() as name:
            yield from measured(condition, Path(name))


if __name__ == "__main__":
    main()
