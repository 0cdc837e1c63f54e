"""Laws of a body at a wrench sensor: pinocchio's dynamics, frames, weak rows, bias and delay."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from heft.information import inertia
from heft.information.inertia import rotation_rpy
from heft.plants.held_signals import (
    Held,
    at_first,
    noise_covariance,
    whitened,
    wrench_change,
)
from heft.plants.wrench_sensor import Unknowns, at_rest, sides
from heft.signals.weak_form import Windows, integrate
from tests.robots import FloatArray
from tests.wrists import BODY, GRAVITY, moving, truth


def solved(held: Held, unknowns: Unknowns, length: float = 0.2) -> FloatArray:
    windows = Windows(length, 0.25 * length, 2)
    rows = integrate(windows, sides(held, unknowns))
    wide = whitened(rows.regressor, rows.effort, np.eye(6))
    return np.linalg.lstsq(wide[:, :-1], wide[:, -1], rcond=None)[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_wrench_is_that_of_pinocchio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = pinocchio.Motion(rng.normal(size=3), rng.normal(size=3))
    rate = pinocchio.Motion(rng.normal(size=3), rng.normal(size=3))
    body = pinocchio.Inertia.FromDynamicParameters(BODY)
    wanted = (body * rate + speed.cross(body * speed)).vector
    # A spatial acceleration is not that of the origin's point: ω × v is missing from it.
    a = rate.linear + np.cross(speed.angular, speed.linear)
    found = inertia.wrench_regressor(a[None], speed.angular[None], rate.angular[None])[0] @ BODY
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_at_rest_the_sensor_carries_the_weight_upward() -> None:
    held = Held.at_rest(np.zeros(1), np.zeros((1, 6)), GRAVITY[None])
    Y, _ = at_rest(held, Unknowns(bias=False))
    one = inertia.from_body(1.0, np.zeros(3), np.zeros((3, 3)))
    np.testing.assert_allclose(Y[0] @ one, [0.0, 0.0, 9.81, 0.0, 0.0, 0.0], atol=1e-14)


@pytest.mark.parametrize("lever", [(0.0, 0.0, 0.0), (0.1, -0.05, 0.2)])
def test_the_body_is_found_with_an_accelerometer_anywhere(lever: tuple[float, ...]) -> None:
    t, wrench, specific, w, _, _ = truth(4000)
    alpha = moving(4000)[-1]
    arm = np.array(lever)
    # From the accelerometer to the sensor: it reads its own point's specific force.
    there = specific - np.cross(alpha, arm) - np.cross(w, np.cross(w, arm))
    held = Held.with_accelerometer(t, wrench, there, w, lever)
    found = solved(held, Unknowns(bias=False))
    np.testing.assert_allclose(found, BODY, rtol=0, atol=2e-6)  # straight lines between samples


def test_the_body_is_found_from_velocities() -> None:
    t, wrench, _, w, v, g = truth(4000)
    found = solved(Held.with_velocity(t, wrench, v, w, g), Unknowns(bias=False))
    np.testing.assert_allclose(found, BODY, rtol=0, atol=2e-6)


@pytest.mark.parametrize("drift", [0, 1, 2])
def test_bias_and_its_drift_are_columns(drift: int) -> None:
    t, wrench, specific, w, _, _ = truth(6000)
    unknowns = Unknowns(drift=drift, begin=float(t[0]), end=float(t[-1]))
    rng = np.random.default_rng(0)
    sizes = rng.normal(size=(drift + 1, 6))
    held = Held.with_accelerometer(t, wrench + unknowns.powers(t) @ sizes, specific, w)
    found = solved(held, unknowns)
    assert len(found) == len(unknowns.labels)
    np.testing.assert_allclose(found[:10], BODY, rtol=0, atol=5e-6)
    # Over a window t² has a mean that is not its middle's square.
    np.testing.assert_allclose(found[10:], sizes.ravel(), rtol=0, atol=2e-4)


@pytest.mark.parametrize("delay", [0.5e-3, 2e-3, -1e-3])
def test_a_delay_of_the_wrench_is_a_column(delay: float) -> None:
    t, wrench, specific, w, _, _ = truth(6000)
    late = np.stack([np.interp(t - delay, t, c) for c in wrench.T], 1)[10:-10]
    held = Held.with_accelerometer(t[10:-10], late, specific[10:-10], w[10:-10])
    found = solved(held, Unknowns(bias=False, delay=True))
    # To first order: the second is (2π·0.4 Hz · 2 ms)² / 2.
    assert found[-1] == pytest.approx(delay, abs=2e-5)
    np.testing.assert_allclose(found[:10], BODY, rtol=0, atol=1e-4)


def test_grasping_points_add_up_in_the_first_ones_frame() -> None:
    """Two sensors share a load in any way: what they sum to is the load's wrench."""
    t, wrench, *_ = truth(3000)
    rng = np.random.default_rng(1)
    R, r = rotation_rpy(0.3, -0.8, 1.1), np.array([0.4, 0.1, -0.2])
    change = wrench_change(R, r)
    second = rng.normal(size=(len(t), 6))  # squeezing, in the second one's frame
    first = wrench - second @ change.T
    together = first + at_first(second, R, r)
    np.testing.assert_allclose(together, wrench, atol=1e-12)
    # A force at a lever arm is a moment: N + r × F.
    push = at_first(np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]), np.eye(3), np.array([1.0, 0, 0]))
    np.testing.assert_allclose(push[0], [0.0, 0.0, 1.0, 0.0, -1.0, 0.0])


def test_the_noise_of_several_sensors_is_that_of_their_sum() -> None:
    rng = np.random.default_rng(2)
    R, r = rotation_rpy(0.3, -0.8, 1.1), np.array([0.4, 0.1, -0.2])
    draws = rng.normal(size=(2, 200_000, 6)) * np.repeat([0.2, 0.01], 3)
    summed = draws[0] + at_first(draws[1], R, r)
    wanted = noise_covariance(0.2, 0.01, [(R, r)])
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    # Correlations of 2e5 draws: 1/√2e5 = 0.0022 each; four of these.
    np.testing.assert_allclose(np.cov(summed.T) / scale, wanted / scale, rtol=0, atol=0.009)


def test_whitened_rows_have_unit_variance() -> None:
    covariance = noise_covariance(0.2, 0.01, [(np.eye(3), np.array([0.3, 0.0, 0.1]))])
    wrench = np.linalg.cholesky(covariance) @ np.eye(6)
    rows = whitened(np.zeros((6, 6, 10)), wrench.T, covariance)
    np.testing.assert_allclose(rows[:, -1].reshape(6, 6), np.eye(6), atol=1e-12)
