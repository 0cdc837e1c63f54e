"""Steps of a rigid body: against an adaptive integrator, finite differences and the regressor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from heft.arrays import Array
from heft.dynamics import rigid_body
from heft.information import inertia, matrix_of_quaternion

STEP = 0.02  # [s]
COUNT = 8


def case() -> tuple[Array, Array, Array, Array]:
    """Return states, wrenches, parameters and gravity in general position."""
    rng = np.random.default_rng(5)
    central = np.array([[0.06, 0.002, -0.001], [0.002, 0.055, 0.003], [-0.001, 0.003, 0.05]])
    parameters = inertia.from_body(7.2, np.array([0.03, 0.01, -0.02]), central)
    states = rng.normal(size=(COUNT, 13))
    states = rigid_body.unit_turns(states)
    wrench = rng.normal(size=(COUNT, 6)) * np.repeat([5.0, 0.5], 3)
    return states, wrench, parameters, np.array([0.3, -0.2, -9.81])


def rate(x: Array, wrench: Array, parameters: Array, gravity: Array) -> Array:
    """Return a state's derivative by the mass matrix and the equations of momentum."""
    w, h = x[10:], parameters[1:4]
    spinning = inertia.inertia_matrix(parameters)
    bias = np.concatenate([np.cross(w, np.cross(w, h)), np.cross(w, spinning @ w)])
    found = np.linalg.solve(rigid_body.mass_matrix(parameters), wrench - bias)
    spin = 0.5 * rigid_body.quaternion_product(x[None, 3:7], np.array([[0.0, *w]]))[0]
    linear = matrix_of_quaternion(x[3:7]) @ found[:3] + gravity
    return np.concatenate([x[7:10], spin, linear, found[3:]])


def test_a_step_is_the_solution_of_the_equations_of_motion() -> None:
    states, wrench, parameters, gravity = case()
    after = rigid_body.advance(states, wrench, np.full(COUNT, STEP), parameters, gravity)
    for n in range(COUNT):
        exact = solve_ivp(
            lambda _, x, n=n: rate(x, wrench[n], parameters, gravity),
            (0.0, STEP), states[n], rtol=1e-11, atol=1e-12,
        ).y[:, -1]  # fmt: skip
        assert np.abs(after[n] - exact).max() < 1e-6


def test_accelerations_are_those_of_the_regressor() -> None:
    # What a very short step changes, put into Y, gives the wrench back.
    states, wrench, parameters, gravity = case()
    h = 1e-6
    after = rigid_body.advance(states, wrench, np.full(COUNT, h), parameters, gravity)
    change = (after - states) / h
    back = np.swapaxes(matrix_of_quaternion(states[:, 3:7]), 1, 2)
    specific = np.einsum("nij,nj->ni", back, change[:, 7:10] - gravity)
    Y = inertia.wrench_regressor(specific, states[:, 10:], change[:, 10:])
    assert np.allclose(Y @ parameters, wrench, atol=1e-4)


@pytest.mark.parametrize("by", ["error", "parameters", "wrench"])
def test_derivatives_of_a_step_are_its_finite_differences(by: str) -> None:
    states, wrench, parameters, gravity = case()
    steps = np.full(COUNT, STEP)
    found = rigid_body.transitions(states, wrench, steps, parameters, gravity)
    stated = {
        "error": found.by_error, "parameters": found.by_parameters, "wrench": found.by_wrench
    }[by]  # fmt: skip

    def moved(delta: Array) -> Array:
        if by == "error":
            x = rigid_body.retract(states, np.tile(delta, (COUNT, 1)))
            return rigid_body.advance(x, wrench, steps, parameters, gravity)
        if by == "parameters":
            return rigid_body.advance(states, wrench, steps, parameters + delta, gravity)
        return rigid_body.advance(states, wrench + delta, steps, parameters, gravity)

    size, e = stated.shape[2], 1e-6
    slopes = [
        (
            rigid_body.difference(moved(d), found.after)
            - rigid_body.difference(moved(-d), found.after)
        )
        / (2.0 * e)
        for d in e * np.eye(size)
    ]
    off = np.abs(np.stack(slopes, axis=2) - stated).max()
    # About the middle of a step derivatives err by (ω h)³/12, ω up to 3 rad/s.
    assert off < 1e-3 * np.abs(np.stack(slopes, axis=2)).max()


def test_errors_and_retraction_undo_one_another() -> None:
    states, *_ = case()
    errors = np.random.default_rng(1).normal(size=(COUNT, 12))
    assert np.allclose(
        rigid_body.difference(rigid_body.retract(states, errors), states), errors, atol=1e-12
    )
