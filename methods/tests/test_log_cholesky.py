"""Log-Cholesky least squares: any numbers are a body, steps end by the semidefinite optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from tests.test_consistency import Case, case, every_robot, objective, shares

from heft.errors import InvalidSetting
from heft.estimators import PhysicallyConsistent
from heft.estimators.feasible_set import Limits, unstack
from heft_methods.log_cholesky import LogCholesky, _Problem

Array = np.ndarray[Any, np.dtype[np.float64]]
LINKS, DRIVES = 3, 2
SIZE = 10 * LINKS + DRIVES
INSIDE, EDGE = PhysicallyConsistent(), PhysicallyConsistent(strength=0.25, margin=0.0)


def drawn(seed: int, margin: float = 0.0) -> tuple[_Problem, Array]:
    """Return a problem of random rows, and random numbers."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(SIZE, SIZE))
    return _Problem(rows, rng.normal(size=SIZE), LINKS, margin), rng.normal(size=SIZE)


def bodies(unknown: Array, links: int) -> Array:
    return unstack(unknown[: 10 * links].reshape(-1, 10))


@pytest.mark.parametrize("margin", [0.0, 1e-2])
def test_any_numbers_are_bodies_and_bodies_are_numbers(margin: float) -> None:
    for seed in range(20):
        problem, point = drawn(seed, margin)
        unknown = problem.unknown(point)
        assert np.linalg.eigvalsh(bodies(unknown, LINKS)).min() > margin
        assert problem.numbers(unknown, 1e-12) == pytest.approx(point, abs=1e-6)
        assert unknown[-DRIVES:] == pytest.approx(point[-DRIVES:])


def test_the_jacobian_is_that_of_differences() -> None:
    problem, point = drawn(1, 1e-2)
    wanted = scipy.optimize.approx_fprime(
        point, lambda p: problem.R @ problem.unknown(p) - problem.z, 1e-7
    )
    assert problem.jacobian(point) == pytest.approx(wanted, abs=1e-4)


def noisy(name: str, seed: int) -> tuple[Case, Any]:
    made = case(name, 12)
    return made, made.triangle(noise=2.0, seed=seed)


@every_robot
@pytest.mark.parametrize("seed", range(3))
def test_from_the_semidefinite_optimum_it_ends_beside_it(name: str, seed: int) -> None:
    """Half a unit of χ²/2 is the bound; what the floor takes is far less."""
    made, triangle = noisy(name, seed)
    scaled = EDGE.scaled(triangle, made.believed)
    values = EDGE.fit(triangle, made.believed).parameters.values
    found = LogCholesky().polish(scaled, np.linalg.solve(scaled.back.toarray(), values), 0.0)
    assert found.ended != "steps used up"
    best = 0.5 * objective(values, triangle, made.believed, 0.25)
    there = 0.5 * objective(scaled.back @ found.unknown, triangle, made.believed, 0.25)
    assert -1e-6 * (1.0 + best) <= there - best <= 0.05
    assert np.linalg.eigvalsh(bodies(found.unknown, len(made.believed.groups))).min() > 0.0
    assert (found.unknown[list(made.believed.nonnegative)] >= 0.0).all()


def test_it_finds_an_optimum_on_the_inside_from_the_file_alone() -> None:
    made = case("flyer")
    triangle = made.triangle(noise=1e-3, sigma=1e-2)
    scaled = INSIDE.scaled(triangle, made.believed)
    found = LogCholesky(gain=1e-12).polish(scaled, scaled.start, 0.0)
    wanted = INSIDE.fit(triangle, made.believed)
    assert wanted.iterations == 0
    assert scaled.back @ found.unknown == pytest.approx(
        wanted.parameters.values, rel=1e-4, abs=1e-6
    )


def test_steps_never_climb_and_say_when_they_were_used_up() -> None:
    made, triangle = noisy("ur10", 0)
    scaled = EDGE.scaled(triangle, made.believed)
    losses = []
    for steps in (1, 3, 25):
        found = LogCholesky(gain=1e-300, steps=steps).polish(scaled, scaled.start, 0.0)
        assert found.ended == "steps used up"
        assert found.steps == steps
        R, z = scaled.factor[:-1, :-1], scaled.factor[:-1, -1]
        assert found.loss == pytest.approx(0.5 * float(np.sum((R @ found.unknown - z) ** 2)))
        losses.append(found.loss)
    assert losses[0] > losses[1] > losses[2]


@every_robot
def test_as_a_solver_it_keeps_the_margin_and_the_signs(name: str) -> None:
    made, triangle = noisy(name, 1)
    solver = PhysicallyConsistent(polish=LogCholesky())
    x = solver.fit(triangle, made.believed).parameters.values
    wanted = INSIDE.fit(triangle, made.believed).parameters.values
    gap = objective(x, triangle, made.believed, 10.0) - objective(
        wanted, triangle, made.believed, 10.0
    )
    assert gap <= 0.1
    assert shares(made.believed, x).min() >= 0.99 * solver.margin
    assert (x[list(made.believed.nonnegative)] >= 0.0).all()


@pytest.mark.parametrize("changed", [{"prior": "logdet"}, {"limits": Limits(mass={"a": (1, 2)})}])
def test_what_it_does_not_know_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match="any other --method"):
        replace(PhysicallyConsistent(polish=LogCholesky()), **changed)


@pytest.mark.parametrize(
    "changed", [{"floor": 0.0}, {"least": 1.0}, {"gain": 0.0}, {"rejected": 0}, {"steps": 0}]
)
def test_settings_out_of_range_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match="log-Cholesky"):
        LogCholesky(**changed)
