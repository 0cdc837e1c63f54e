"""Runs of one arm that contradict one another, and whether `heft identify` says so.

    python -m benchmarks.friction_changes [--arms xarm7 z1] [--seeds 4] [--first 1000] [--show]
                                          [--store]

Three runs of 20 s, of equal or unlike motions, whose viscous friction falls to 80 and to 62 %, with
LuGre friction that heft's dictionary does not hold. Named is right where "friction of all runs" is
said; of runs without a change it is false. Seeds below 1000 and the arms panda, ur5 and so101 are
for development: the threshold was chosen on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.doctor import FRICTION as CONDITIONS
from benchmarks.doctor import MOTIONS, arm_of
from benchmarks.payload_faults import ARMS, DURATION, FRICTION
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft import Robot, Settings, identify
from heft.arrays import Array
from heft.recordings import Recording
from heft.simulation import ExactMotion, Simulator, Viscous

FALLS = (1.0, 0.8, 0.62)  # of the viscous friction, run by run
SETS = (("sines",) * 3, ("point to point",) * 3, ("ordinary work",) * 3, MOTIONS[:3])


def runs(arm: str, seed: int, changes: bool) -> tuple[Robot, list[Recording]]:
    """Return a model file and three logs of one arm."""
    logs = []
    for number, (motion, falls) in enumerate(zip(SETS[seed % len(SETS)], FALLS, strict=True)):
        condition = replace(CONDITIONS[FRICTION], motion=motion, duration=DURATION)
        simulator = Simulator(arm_of(arm), condition)
        laws = [
            sum(law.coefficient for law in drive.laws if isinstance(law, Viscous))
            for drive in simulator.drives_of(seed)
        ]
        lost = (1.0 - falls) * np.array(laws) if changes else np.zeros(len(laws))

        def seen(m: ExactMotion, lost: Array = lost) -> Array:
            return np.asarray(m.tau - lost * m.v)

        made = simulator.run(seed, seen, number)
        logs.append(made.recording)
    return Robot.from_urdf_text(made.prior), logs


@benchmark({"arms": ("finger",), "seeds": 1, "first": 0, "DURATION": 5.0})
def main(
    *, arms: tuple[str, ...] = ARMS, seeds: int = 4, first: int = 1000, show: bool = False
) -> Iterator[Row]:
    """Yield the table.

    Args:
        arms: Names of arms.
        seeds: Triples of each arm, with and without a change.
        first: The first seed.
        show: Each triple.
    """
    for changes in (False, True):
        said = []
        for arm in arms:
            for seed in range(first, first + seeds):
                robot, logs = runs(arm, seed, changes)
                checks = identify(robot, logs, settings=Settings()).checks
                found = [
                    c for c in checks if c.name == "friction of all runs" and c.status != "pass"
                ]
                said.append(bool(found))
                if show:
                    print(arm, seed, changes, *(c.message[:150] for c in found), flush=True)
        share, total = float(np.mean(said)), f"{sum(said)} of {len(said)}"
        if changes:
            yield at_least("viscous friction falls to 62 %: named", share, "", 0.9, total)
        else:
            yield at_most("no change: named", share, "", 0.02, total)


if __name__ == "__main__":
    main()
