"""Two UR5e and a box, from bags to numbers: ten ways in which real bags are unlike ideal ones.

    python -m benchmarks.team_bags [--seeds 5] [--development] [--store]

The simulator (`tests/team_bags.py`) shares no code with heft; bags are written by mcap and rosbags.
Of each a team is drafted (`heft coop init`), checked, given the signs that the check names, and
identified, and nothing else is said of it. Deviations count against Cramér and Rao's bound with the
same unknowns and priors (`benchmarks/pair_bound.py`). Seeds from 1000 on are scored.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.team_bags import MASS, Pair, Record, record, variants

from benchmarks.pair_bound import deviations
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.cooperation import check_team_files, draft_team, identify_team_files
from heft.errors import HeftError

Array = NDArray[np.float64]
FIRST = 1000  # seed that is scored
DURATION = 60.0  # of each bag [s]
APART = "starts 60 s apart"  # the variant that is to be refused
LATE = (0.01, 0.03)  # by which wrenches are of the past, beyond the ten variants [s]
MOST = None  # variants of bags that are taken; all
LATENCY = 5e-3  # of stamps of reception, beyond them, too [s]


@dataclass(frozen=True)
class Found:
    """What one pair's bags came to."""

    error: Array  # of mass, centre and inertia in the first contact's frame, shape (10,)
    std: Array  # as stated
    apart: float  # error of the contacts' distance [m]
    bound: Array  # of Cramér and Rao, of the deviations


def identified(pair: Pair, how: Record, seed: int) -> Found | str:
    """Return what a user gets from a pair's bags, or why there are no numbers."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bags = record(pair, how, folder, seed)
        team = folder / "team.toml"
        text = draft_team(bags, team, [folder / "ur5e.urdf"])
        spoils = [f for f in check_team_files(team).findings if f.severity == "spoils"]
        if any("reaction = true" in f.cure for f in spoils):
            team.write_text(text.replace("# reaction = true", "reaction = true"))
        try:
            found = identify_team_files(team)
        except HeftError as problem:
            return problem.message
        load = found.stated_load(0)
        if load is None or load.std is None:
            return "; ".join(f.name for f in found.findings() if f.severity == "spoils")
        centre, about, between = pair.truth(how.frame)
        truth = np.array([MASS, *centre, *about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
        apart = float(np.linalg.norm(found.poses()[1, 0][1]) - between)
        return Found(load.numbers - truth, load.std, apart, deviations(pair, how))


def rows_of(
    name: str, found: list[Found | str], ideal: list[Found | str], asked: bool
) -> Iterator[Row]:
    """Yield how many pairs were answered, and how right and sure the answers are."""
    told = [(f, i) for f, i in zip(found, ideal, strict=True) if not isinstance(f, str)]
    why = ", ".join(sorted({f for f in found if isinstance(f, str)}))
    good = [abs(f.apart) < 1e-3 and abs(f.error[0]) < 3.0 * f.std[0] for f, _ in told]
    right = float(np.sum(good)) / len(found)
    against = f"{len(told)} of {len(found)} pairs told" + (f"; {why}" if why else "")
    if asked:
        yield at_least(
            f"{name}: right, contacts within 1 mm and mass within 3 deviations",
            right,
            "",
            0.9,
            against,
        )
    else:
        yield Row(
            f"{name}: right, contacts within 1 mm and mass within 3 deviations",
            right,
            "",
            against=against,
        )
    if told:
        inside = np.mean([np.abs(f.error) < 1.96 * f.std for f, _ in told])
        yield at_least(f"{name}: coverage of mass, centre and inertia", float(inside), "", 0.9)
        over = float(np.sqrt(np.mean([np.square(f.std / f.bound) for f, _ in told])))
        most = 1.5 if asked else 2.0
        yield at_most(f"{name}: deviations over Cramér and Rao's bound", over, "", most)
        yield Row(
            f"{name}: contacts' distance, largest error",
            1e3 * max(abs(f.apart) for f, _ in told),
            "mm",
        )
        ratios = [f.std / i.std for f, i in told if isinstance(i, Found)]
        if ratios and name != "ideal":
            ratio = float(np.sqrt(np.mean(np.square(ratios))))
            yield at_most(
                f"{name}: deviations over the ideal bags'", ratio, "", 2.0 if asked else None
            )


@benchmark({"seeds": 1, "DURATION": 4.0, "MOST": 2, "LATE": LATE[:1]}, unstored=("development",))
def main(*, seeds: int = 5, development: bool = False) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: How many pairs.
        development: Seeds that are not scored.
    """
    first = 0 if development else FIRST
    pairs = {seed: Pair.of(seed) for seed in range(first, first + seeds)}
    ways: dict[str, list[Record]] = {}
    for seed in pairs:
        for name, how in list(variants(seed).items())[:MOST]:
            ways.setdefault(name, []).append(replace(how, duration=DURATION))
    late = {f"wrenches {1e3 * t:.0f} ms late": Record(DURATION, behind=t) for t in LATE}
    more = late | {"stamps of reception": Record(DURATION, reception=LATENCY)}
    ideal: list[Found | str] = []
    for name, records in (ways | {n: [how] * seeds for n, how in more.items()}).items():
        found = [identified(p, how, s) for (s, p), how in zip(pairs.items(), records, strict=True)]
        ideal = ideal or found
        if name == APART:
            refused = [isinstance(f, str) and "time in common" in f for f in found]
            yield at_least(f"{name}: refused for that", float(np.mean(refused)), "", 1.0)
        else:
            yield from rows_of(name, found, ideal, name in ways)


if __name__ == "__main__":
    main()
