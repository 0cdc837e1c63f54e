"""Laws of a body at a wrench sensor: pinocchio's dynamics, frames, weak rows, bias and delay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pinocchio
import pytest

from heft.applications.payload.by_wrench import Weigh
from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.plants import GraspingPoint, HeldBody, HeldMotion, Point, Problem, Samples, recording_of
from heft.plants.wrench_sensor import (
    Held,
    Unknowns,
    at_first,
    at_rest,
    noise_covariance,
    sides,
    whitened,
    wrench_change,
)
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Windows, integrate
from tests.robots import FloatArray
from tests.wrists import BODY, GRAVITY, carried, moving, sensed, truth


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
    R, r = matrix_of_rpy(0.3, -0.8, 1.1), np.array([0.4, 0.1, -0.2])
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
    R, r = matrix_of_rpy(0.3, -0.8, 1.1), np.array([0.4, 0.1, -0.2])
    draws = rng.normal(size=(2, 200_000, 6)) * np.repeat([0.2, 0.01], 3)
    own = np.repeat([2.5, 0.4], 3)
    summed = draws[0] + at_first(own * draws[1], R, r)
    wanted = noise_covariance(0.2, 0.01, [GraspingPoint(R, r, (2.5, 0.4))])
    scale = np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
    # Correlations of 2e5 draws: 1/√2e5 = 0.0022 each; four of these.
    np.testing.assert_allclose(np.cov(summed.T) / scale, wanted / scale, rtol=0, atol=0.009)


def test_whitened_rows_have_unit_variance() -> None:
    covariance = noise_covariance(0.2, 0.01, [GraspingPoint(np.eye(3), np.array([0.3, 0.0, 0.1]))])
    wrench = np.linalg.cholesky(covariance) @ np.eye(6)
    rows = whitened(np.zeros((6, 6, 10)), wrench.T, covariance)
    np.testing.assert_allclose(rows[:, -1].reshape(6, 6), np.eye(6), atol=1e-12)


# ---- the plant


def body_at(held: Held, unknowns: Unknowns, **settings: Any) -> HeldBody:
    world = held.world.shape[2] > 0
    return HeldBody(unknowns, Point.of(held.gravity), world=world, **settings)


def samples_of(plant: HeldBody, count: int = 20) -> Samples[HeldMotion]:
    return plant.random_samples(count, np.random.default_rng(3))


def test_a_recording_gives_back_what_was_seen() -> None:
    held = carried(700, GRAVITY)
    problem = Problem(
        body_at(held, Unknowns()), (recording_of(held),), Smoothing(trim=0.0, delay=0.0), threads=1
    )
    (samples,) = problem.samples()
    assert np.array_equal(samples.time, held.time)
    assert np.array_equal(samples.measured, held.wrench)
    for name, values in vars(samples.motion.at).items():
        assert name == "time" or np.array_equal(values, getattr(held, name))


def test_the_plants_sides_are_those_of_the_sensor() -> None:
    held = sensed(60)
    unknowns = Unknowns(drift=1, end=0.06, delay=True)
    plant = body_at(held, unknowns)
    samples = replace(samples_of(plant, 60), time=held.time, motion=HeldMotion(held))
    found, wanted = plant.sides(samples, range(len(plant.labels))), sides(held, unknowns)
    assert np.array_equal(found.momentum, wanted.momentum)
    assert np.array_equal(found.remainder, wanted.remainder)


def test_momentums_rate_less_the_remainder_is_the_row() -> None:
    plant = HeldBody(Unknowns(), Point.of(np.zeros(0)))
    count, step = 9, 1e-3
    t, wrench, specific, w, v, g = truth(count)
    *_, alpha = moving(count)
    held = Held.with_velocity(t, wrench, v, w, g)
    # Of a − g = dv/dt + f: the derivative of the velocity in the frame.
    rates = replace(held, velocity=specific - held.specific, angular_velocity=alpha)
    samples = replace(samples_of(plant, count), time=t, motion=HeldMotion(held, rates))
    both = plant.sides(samples, range(10))
    eighth = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
    rate = np.einsum("k,kmp->mp", eighth, both.momentum) / step
    row = plant.rows(samples, range(10)).regressor[4]
    bound = 1e-12 * np.abs(both.momentum).max() / step + 1e-10 * np.abs(row).max()
    assert np.abs(rate - both.remainder[4] - row).max() <= bound
    np.testing.assert_allclose(row @ BODY, wrench[4], rtol=0, atol=1e-10)


def test_columns_about_a_point_are_the_wrenchs_slope() -> None:
    """What is not linear, by central differences of the wrench that the body's columns tell."""
    unknowns = Unknowns(bias=False, tilt=True, mounting=True, gains=True)
    plant = HeldBody(unknowns, Point.of(GRAVITY), world=True)
    others, rng = len(plant.labels) - 10, np.random.default_rng(4)
    about = plant.about(np.concatenate([BODY, 0.3 * rng.normal(size=others)]))
    samples = samples_of(about)
    rows = about.rows(samples, range(10 + others)).regressor

    def wrench(change: FloatArray) -> FloatArray:
        there = about.about(np.concatenate([BODY, change]))
        return np.asarray(there.rows(samples, range(10)).regressor @ BODY)

    step, size = 1e-5, float(np.abs(rows[:, :, :10] @ BODY).max())
    for k, move in enumerate(step * np.eye(others)):
        slope = (wrench(move) - wrench(-move)) / (2.0 * step)
        # Third derivatives of rotations are of the size of the rotated: step² of it, and rounding.
        assert np.abs(slope - rows[:, :, 10 + k]).max() <= 1e-8 * size


def test_at_two_sensors_the_channels_noise_is_one_sensors() -> None:
    rng = np.random.default_rng(5)
    R, r = matrix_of_rpy(0.3, -0.8, 1.1), np.array([0.4, 0.1, -0.2])
    other = GraspingPoint(R, r, (2.5, 0.4))
    plant = HeldBody(Unknowns(), Point.of(np.zeros(0)), others=(other,), noise=(0.2, 0.01))
    draws = rng.normal(size=(2, 100_000, 6)) * np.repeat([0.2, 0.01], 3)
    assert plant.combined is not None
    summed = draws[0] + at_first(np.repeat(other.noise_ratio, 3) * draws[1], R, r)
    found = np.cov(summed @ plant.combined.T, rowvar=False)
    own = np.repeat([0.2, 0.01], 3)
    # Correlations of 1e5 draws: 1/√1e5 = 0.0032 each; four of these.
    np.testing.assert_allclose(found / np.outer(own, own), np.eye(6), rtol=0, atol=0.0135)


def test_what_is_known_beforehand_is_a_row_a_number_in_units_of_its_deviation() -> None:
    plant = HeldBody(Unknowns(bias=False, gains=True), Point.of(GRAVITY))
    gains = plant.unknowns.columns("gain")
    rows = Weigh(gain_std=0.1, known_mass=2.0).prior_rows(plant)
    assert rows.shape == (7, len(plant.labels) + 1)
    values = np.zeros(len(plant.labels))
    values[0], values[gains] = 2.0, 1.0 - plant.point.gains
    assert np.allclose(rows[:, :-1] @ values, rows[:, -1], atol=1e-12)
    moved = values.copy()
    moved[gains] += 0.1  # one deviation each
    assert np.allclose(rows[:6, :-1] @ moved - rows[:6, -1], 1.0)
    assert Weigh().prior_rows(HeldBody(Unknowns(), Point.of(np.zeros(0)))).shape[0] == 0
