"""Flights with what real ones have: `python -m benchmarks.freeflyer_faults [--store]`.

The Space CoBot with a load of 1.2 kg, 40 s, flown by `tests.free_flights`, which shares no equation
with heft: thrust off by a factor, commands that act late and are followed late, samples that are
not logged, coloured noise of the poses. Coverage is of 95 % intervals of mass, centre and inertia
of body and load; deviations are those stated over the Cramér-Rao bound along the true path, with
the same unknowns and the same prior of thrust. Seeds up to 520 were seen while it was made; those
from 1000 on score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from tests.flight_bounds import true_bound
from tests.free_flights import fly

from benchmarks.program import benchmark, spread
from benchmarks.results_file import Row, at_least, at_most
from heft.arrays import Array
from heft.flight import FlightLog, IdentifyFreeFlyer
from heft.information import inertia
from heft.models import load_of, shipped_free_flyer

LOAD = load_of("1.2kg@0.20,0.06,-0.10")
PERIODS = 4  # of 10 s
FIRST_SEED = 1000
PARTS = {"mass": slice(0, 1), "centre": slice(1, 4), "inertia": slice(4, 10)}


@dataclass(frozen=True)
class Case:
    """What is wrong with a flight, and what its body's TOML says of thrust."""

    faults: dict[str, float] = field(default_factory=dict)  # of `fly`
    scale_std: float = 0.0  # as stated
    drawn: float = 0.0  # deviation of thrust's scale, one a seed


CASES = {
    "nothing wrong": Case(),
    "thrust off, drawn from the default prior": Case(scale_std=0.02, drawn=0.02),
    "thrust 5 % off, 5 % stated": Case({"scale": 0.95}, 0.05),
    "delay 20 ms": Case({"delay": 0.02}),
    "lag 40 ms": Case({"lag": 0.04}),
    "delay and lag 40 ms each": Case({"delay": 0.04, "lag": 0.04}),
    "20 % of samples not logged": Case({"lost": 0.2}),
    "AR(.98) noise of poses": Case({"colour": 0.98}),
    "all at once": Case({"delay": 0.02, "lag": 0.02, "lost": 0.2, "colour": 0.98}, 0.02, 0.02),
}


def scored(item: tuple[str, int]) -> Array:
    """Return errors over their deviations, and deviations over the bound, shape (2, 10)."""
    name, seed = item
    case = CASES[name]
    flyer = replace(shipped_free_flyer("space_cobot"), scale_std=case.scale_std)
    drawn = 1.0 + case.drawn * np.random.default_rng(seed).normal()
    faults = {"scale": drawn} | case.faults
    flown = fly(flyer, flyer.with_load(LOAD), seed, PERIODS, **faults)  # type: ignore[arg-type]
    log = FlightLog.of(flown.recording, flyer)
    found = IdentifyFreeFlyer(10.0, published=None).fit(log, flyer).body.parameters
    truth, slope = inertia.stated_body(flown.parameters)
    delay, lag = (case.faults.get(n, 0.0) for n in ("delay", "lag"))
    colour = case.faults.get("colour", 0.0)
    truly = (flown.states, flown.parameters, (delay + lag, lag**2), colour)
    bound = true_bound(log, flyer, *truly)
    bound = bound + case.scale_std**2 * np.outer(flown.parameters, flown.parameters)
    numbers, own = inertia.stated_body(found.values)
    std, least = (
        np.sqrt(np.diag(J @ C @ J.T)) for J, C in ((own, found.covariance), (slope, bound))
    )
    return np.array([(numbers - truth) / std, std / least])


@benchmark({"seeds": 1, "jobs": 1, "PERIODS": 2, "CASES": dict(list(CASES.items())[:1])})
def main(*, seeds: int = 40, jobs: int = 2) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: Flights of each kind.
        jobs: Processes.
    """
    items = [(name, FIRST_SEED + k) for name in CASES for k in range(seeds)]
    found: dict[str, list[Array]] = {name: [] for name in CASES}
    for (name, _), made in spread(scored, items, jobs):
        found[name].append(made.result())
        if len(found[name]) < seeds:
            continue
        all_ = np.array(found[name])
        for part, cut in PARTS.items():
            off, ratio = np.abs(all_[:, 0, cut]), all_[:, 1, cut]
            yield at_least(f"{name}: coverage of {part}", np.mean(off < 1.96), "", 0.9)
            text = "Cramér-Rao, the same prior"
            yield at_most(f"{name}: deviation of {part}", np.mean(ratio), "times", 1.5, text)


if __name__ == "__main__":
    main()
