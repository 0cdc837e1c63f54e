"""Flights of the Space CoBot with an unknown load, by which `benchmarks.freeflyer` scores.

Eleven motions, five by the condition number and six by the log-determinant, within bounds that
are scaled from .5 to 1.5; two loads; flown in MuJoCo by predictive tracking that knows neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from heft.arrays import Array
from heft.excitation import DesignSettings
from heft.flight import FlightFaults, FlightReference, FlightSettings, design_flight, fly
from heft.models import FlightBounds, FreeFlyer, Load, shipped_free_flyer
from heft.recordings import Recording

MOTIONS = [("J1", s) for s in (0.5, 0.7, 0.85, 1.0, 1.25)]
MOTIONS += [("J2", s) for s in (0.5, 0.7, 0.85, 1.0, 1.25, 1.5)]
PLACE = (0.20, 0.06, -0.10)  # of the load [m]
SOUND = FlightFaults()
MASSES = (1.2, 0.5)  # [kg]


@dataclass(frozen=True, eq=False)
class Flown:
    """A flight with its truth.

    Attributes:
        name: Criterion and scale of the bounds.
        mass: Of the load [kg].
        seed: Of the noise.
        log: What was measured.
        states: True ones of the body's frame, shape (N, 13).
        parameters: True ones of body and load, shape (10,).
        saturation: Share of samples with a command at its limit.
    """

    name: str
    mass: float
    seed: int
    log: Recording
    states: Array
    parameters: Array
    saturation: float


def cobot() -> FreeFlyer:
    """Return the Space CoBot."""
    return shipped_free_flyer("space_cobot")


@cache
def reference(criterion: str, scale: float, starts: int = 1) -> FlightReference:
    """Return a designed motion: bounds of speed and acceleration scaled."""
    flyer = cobot()
    bounds = FlightBounds().faster(scale)
    settings = DesignSettings(random=60, starts=starts)
    found = design_flight(flyer, bounds, criterion, settings)  # type: ignore[arg-type]
    return FlightReference(found.trajectory, flyer.gravity)


def flown(
    motion: tuple[str, float], mass: float, seed: int, cycles: int = 10,
    faults: FlightFaults = SOUND,
) -> Flown:  # fmt: skip
    """Return one flight."""
    flight = fly(
        cobot(),
        reference(*motion),
        [Load(mass, PLACE)],
        FlightSettings(cycles=cycles, seed=seed, faults=faults),
    )
    t = flight.truth
    states = np.hstack([t.position, t.quaternion, t.velocity, t.turning])
    name = f"{motion[0]} x{motion[1]:g}"
    return Flown(name, mass, seed, flight.log, states, t.parameters, flight.saturation)


def all_flights(
    motions: Sequence[tuple[str, float]], cycles: int, seeds: Sequence[int]
) -> Iterator[Flown]:
    """Yield flights: each motion twice with the heavy load, once with the light one."""
    for motion in motions:
        for mass, chosen in ((MASSES[0], seeds), (MASSES[1], seeds[:1])):
            for seed in chosen:
                yield flown(motion, mass, seed, cycles)
