"""A free flyer that grasped something: its equations, its tracking, its excitation, its estimates.

    python -m benchmarks.freeflyer [--parts equations tracking excitation] [--store]

The Space CoBot (6.047 kg) with loads of 1.2 and 0.5 kg, 50 Hz, noise of 3 mm, 5 mrad and 0.06 N.
What converged tracking is compared with needs CasADi; without it that comparison is by heft's own
iterations, which the tests hold against IPOPT. Sizes of the controller's errors, and how
much of the actuators' range a design may take, were chosen on designs of other seeds. Times are of
one processor, as the machine was shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec

import numpy as np
from tests.flight_bounds import information_of, stated_errors

from benchmarks.ipopt_tracking import IpoptTracking
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.dynamics.rigid_body import unit_turns
from heft.excitation import Design, DesignSettings, SolverSettings
from heft.flight import (
    Flight,
    FlightReference,
    FlightSettings,
    FlyerModel,
    PredictiveTracking,
    design_flight,
    fly,
)
from heft.information import inertia, matrix_of_quaternion
from heft.models import (
    FlightBounds,
    Load,
    PayloadRange,
    load_of,
    shipped_free_flyer,
)
from heft.simulation import FlightState, FreeFlyerWorld, Inertial, Thruster

LOADS = (load_of("1.2kg@0.20,0.06,-0.10"), load_of("0.5kg@0.20,0.06,-0.10"))
# What the saturation-aware design is told of a load: at most how heavy, and about where.
PAYLOAD = PayloadRange(1.2, ((0.0, 0.25), (-0.1, 0.1), (-0.15, 0.0)), effort=0.95)
SPEEDS = (("J1", (0.5, 0.7, 0.85, 1.0, 1.25)), ("J2", (0.5, 0.7, 0.85, 1.0, 1.25, 1.5)))
UNAWARE = "flown as designed without limits"
TRACKED = (0.7, 1.0, 1.5)  # bounds of the motions that are tracked, scaled
CYCLES, PERIOD = 2, FlightBounds().period  # of these flights, [s]
AWARE_SEEDS = (101, 102, 103)
SETTINGS = DesignSettings(random=200, starts=4)


# --- trajectories and flights, which other sections share


@cache
def design_of(criterion: str, speed: float, aware: bool = False, seed: int = 11) -> Design:
    """Return one of the designed trajectories."""
    bounds = FlightBounds(payload=PAYLOAD if aware else None, period=PERIOD).faster(speed)
    settings = replace(SETTINGS, seed=seed)
    return design_flight(shipped_free_flyer("space_cobot"), bounds, criterion, settings)  # type: ignore[arg-type]


def reference_of(design: Design) -> FlightReference:
    """Return a trajectory to be tracked."""
    return FlightReference(design.trajectory, np.zeros(3))


def flight_of(design: Design, load: Load, seed: int, cycles: int = 10) -> Flight:
    """Return a flight with a load."""
    flyer = shipped_free_flyer("space_cobot")
    return fly(flyer, reference_of(design), [load], FlightSettings(cycles=cycles, seed=seed))


def trajectories() -> list[tuple[str, Design]]:
    """Return the eleven trajectories of the study, by name."""
    return [(f"{c} x{s:g}", design_of(c, s)) for c, speeds in SPEEDS for s in speeds]


# --- equations


def residuals(count: int = 200) -> tuple[float, float]:
    """Return residuals of (9), relative, and of the model's accelerations against MuJoCo's."""
    worst = np.zeros(2)
    for name in ("space_cobot", "astrobee", "quadrotor"):
        flyer, load = shipped_free_flyer(name), LOADS[0]
        bodies = (flyer.nominal, load.parameters)
        inertials = [Inertial.of_inertia(*inertia.to_body(ten)) for ten in bodies]
        thrusters = [Thruster(w) for w in flyer.mixing.T]
        world = FreeFlyerWorld(inertials, thrusters, flyer.gravity)
        rng = np.random.default_rng(0)
        x = unit_turns(rng.normal(size=(count, 13)))
        u = rng.normal(size=(count, len(flyer.actuators)))
        found = np.empty((count, 6))
        for k in range(count):
            world.state = FlightState(x[k, :3], x[k, 3:7], x[k, 7:10], x[k, 10:])
            found[k] = np.concatenate(world.acceleration(u[k]))
        back = np.swapaxes(matrix_of_quaternion(x[:, 3:7]), 1, 2)
        found[:, :3] = np.einsum("nij,nj->ni", back, found[:, :3] - flyer.gravity)
        ten = flyer.with_load(load)
        Y = inertia.wrench_regressor(found[:, :3], x[:, 10:], found[:, 3:])
        size = (np.abs(Y) @ np.abs(ten)).max()
        made = FlyerModel.of(flyer, ten).accelerations(x[:, 10:], u)
        left = np.abs(Y @ ten - u @ flyer.mixing.T).max() / size
        apart = np.abs(made - found).max() / np.abs(found).max()
        worst = np.maximum(worst, (left, apart))
    return float(worst[0]), float(worst[1])


def equations() -> list[Row]:
    """Return rows on the equations of motion and the actuators."""
    left, apart = residuals()
    force = shipped_free_flyer("space_cobot").guaranteed_force()
    return [
        at_most("regressor (9) against MuJoCo, worst of 600 states", left, "", 1e-12, "MuJoCo"),
        at_most("model's accelerations against MuJoCo", apart, "", 1e-12, "MuJoCo"),
        at_most("Space CoBot's guaranteed force off 11.4 N", abs(force - 11.4), "N", 0.05),
    ]


# --- tracking


def tracking(designs: Sequence[tuple[str, Design]]) -> list[Row]:
    """Return rows on the tracking of trajectories without and with much saturation."""
    rows = []
    for name, design in designs:
        rows += _tracking_of(name, design)
    return rows


def _tracking_of(name: str, design: Design) -> list[Row]:
    flyer, load = shipped_free_flyer("space_cobot"), LOADS[0]
    flight = flight_of(design, load, seed=1, cycles=CYCLES)
    t = flight.truth
    states = np.hstack((t.position, t.quaternion, t.velocity, t.turning))
    rng = np.random.default_rng(2)
    states[:, :3] += 0.0015 * rng.normal(size=(len(states), 3))  # about what the filter errs by
    control = PredictiveTracking(flyer, reference_of(design))
    other = IpoptTracking(control) if find_spec("casadi") else None
    plan, spent, apart, solver = control.start(0.0, states[0]), [], [], []
    for k in range(5, len(states), 5):
        begun = time.process_time()
        plan = control.step(plan, float(t.time[k]), states[k])
        spent.append(time.process_time() - begun)
        if k % 15 == 0:
            begun = time.process_time()
            exact = (
                other.commands(plan, states[k])
                if other
                else control.converged(plan, states[k]).commands
            )
            solver.append(time.process_time() - begun)
            apart.append(np.abs(exact[0] - plan.commands[0]).max())
    share = f"{name}, {100 * flight.saturation:.0f} % saturated"
    by = "IPOPT" if other else "heft's converged iterations"
    rows = [
        at_most(f"tracking, {share}: time a step, mean", 1e3 * np.mean(spent), "ms", 5.0),
        at_most(f"tracking, {share}: command off the converged, worst", max(apart), "N", 0.1, by),
        at_most(f"tracking, {share}: the same, median", float(np.median(apart)), "N", 0.1, by),
    ]
    if other:
        ratio = float(np.median(solver) / np.median(spent))
        rows.append(at_least(f"tracking, {share}: times as fast as", ratio, "", 1.0, "IPOPT"))
    return rows


# --- excitation


def excitation() -> list[Row]:
    """Return rows on both criteria, and on designs that know what actuators can do."""
    one, two = design_of("J1", 1.0), design_of("J2", 1.0)
    condition = [np.linalg.cond(d.rows_of(d.trajectory).reshape(-1, 10)) for d in (one, two)]
    gap = two.log_determinant - one.log_determinant
    rows = [
        at_most("J1, bounds x1: condition number of the whitened regressor", condition[0], "", 6.5),
        at_least("J2 over J1, bounds x1: information", gap, "nats", 0.0),
    ]
    return rows + aware_excitation()


def aware_excitation() -> list[Row]:
    """Return rows on saturation and what it costs to avoid it: three designs, both loads."""
    flyer = shipped_free_flyer("space_cobot")
    saturation: dict[bool, list[float]] = {False: [], True: []}
    losses = []
    for seed in AWARE_SEEDS:
        bounds = {}
        for aware in (False, True):
            design = design_of("J2", 1.5, aware, seed)
            flown = [flight_of(design, load, seed, cycles=CYCLES) for load in LOADS]
            saturation[aware] += [f.saturation for f in flown]
            bounds[aware] = [
                stated_errors(np.linalg.inv(information_of(flyer, f.truth)), f.truth.parameters)
                for f in flown
            ]
        losses.append(np.array(bounds[True]) / np.array(bounds[False]))
    middle, worst = np.median(losses, axis=(0, 1)), np.max(losses, axis=(0, 1))
    names = ("mass", "inertia", "offset")
    return [
        at_least("limits not known to the design: saturation", max(saturation[False]), "", 0.7),
        at_most("limits known for any load: saturation, worst", max(saturation[True]), "", 0.1),
        *(
            at_most(f"limits known for any load: bound of {n}, median", x, "times", 2.0, UNAWARE)
            for n, x in zip(names, middle, strict=True)
        ),
        *(
            at_most(f"limits known for any load: bound of {n}, worst", x, "times", None, UNAWARE)
            for n, x in zip(names, worst, strict=True)
        ),
    ]


SECTIONS: dict[str, Callable[[], list[Row]]] = {
    "equations": equations,
    "tracking": lambda: tracking([(f"J2 x{s:g}", design_of("J2", s)) for s in TRACKED]),
    "excitation": excitation,
}


@benchmark(
    {
        "SETTINGS": replace(
            SETTINGS, random=2, starts=1, solver=SolverSettings(rounds=1, iterations=1)
        ),
        **{"AWARE_SEEDS": (101,), "TRACKED": (1.5,), "CYCLES": 1, "PERIOD": 4.0},
    },
    unstored=("parts",),
)
def main(*, parts: tuple[str, ...] = tuple(SECTIONS)) -> Iterator[Row]:
    """Yield the rows.

    Args:
        parts: Some of equations, tracking and excitation.
    """
    for name in parts:
        yield from SECTIONS[name]()


if __name__ == "__main__":
    main()
