"""Essential parameters of measured arms: how many are left, and what the held-out error does.

    HEFT_DATA=… python -m benchmarks.essential [--robots panda …] [--store]

Base parameters with viscous and Coulomb friction, offsets and rotor inertias, by least squares;
each stop of the elimination as `heft identify --method` has it. Errors are of logs that the fit did
not see, filtered at the arm's own corner, against that of all base parameters. Beside them stand
standard parameters by the truncated regressor and by the difference from the model file, and the
physically consistent ones. Only a run over all arms is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arms import ROBOTS, Case, data_folder, shortened, with_friction
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from benchmarks.sprung_arms import SprungCase, dvrk, kr300
from heft.applications.identification.identification import identify
from heft.fit.alternatives import Alternative, other_estimates
from heft.models import Robot

LARGEST_RISE = 2.0  # of the held-out error by the training error's stop [%]
LEAST_SHARE = 100.0 / 3.0  # of the parameters that goes where it is asked for [%]
MUST_SHRINK = ("UR10e", "TX40")
ASKED = "essential"


def simple(case: Case | SprungCase) -> Robot:
    """Return a case's robot with simple friction, and with own columns where it has any."""
    if isinstance(case, SprungCase):
        return with_friction(case.sprung, "simple")
    return with_friction(case.robot, "simple")


def estimates(case: Case | SprungCase) -> dict[str, Alternative]:
    """Return all estimates of a case by name."""
    found = identify(simple(case), case.fit, case.score)
    listed = other_estimates(
        found.problem,
        found.estimate,
        ASKED,
        found.consistent,
        found.validation,
        case.score,
        case.corner,
    )
    return {a.name: a for a in listed}


def run(case: Case | SprungCase) -> Iterator[Row]:
    """Yield the rows of one arm and split."""
    found = estimates(case)
    whole = found["least-squares"]
    yield Row(f"{case.name}: all base parameters", whole.parameters, "")
    yield Row(f"{case.name}: error with all, filtered {case.corner:g} Hz", whole.error, "")
    for name, one in found.items():
        if one is whole:
            continue
        physical = f"{one.existing} of {one.bodies} links can exist, {one.negative} negative"
        rise = 100.0 * (one.error / whole.error - 1.0)
        what = f"{case.name}: {name}"
        if name.startswith("essential"):
            gone = 100.0 * (1.0 - one.parameters / whole.parameters)
            left = f"{one.parameters} left"
            if name == ASKED and case.name.startswith(MUST_SHRINK):
                yield at_least(f"{what}, parameters gone", gone, "%", LEAST_SHARE, left)
            else:
                yield Row(f"{what}, parameters gone", gone, "%", against=left)
        bound = LARGEST_RISE if name == ASKED else None
        yield at_most(f"{what}, held-out error", rise, "%", bound, physical)


ARMS = {**ROBOTS, "kr300": kr300, "dvrk": dvrk}
ROWS = None  # of the logs that are taken; all if None
SPLITS = None  # of each arm that are taken; all if None


@benchmark({"robots": ("kr300", "ur10e"), "SPLITS": 1, "ROWS": 600}, unstored=("robots",))
def main(*, robots: tuple[str, ...] = tuple(ARMS)) -> Iterator[Row]:
    """Yield the rows.

    Args:
        robots: Some of the arms.
    """
    for name in robots:
        for case in list(ARMS[name](data_folder()))[:SPLITS]:
            yield from run(shortened(case, ROWS))


if __name__ == "__main__":
    main()
