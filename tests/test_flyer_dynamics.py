"""Equations of motion of free-flying bodies against MuJoCo's, and what the literature misprints."""

from __future__ import annotations

import numpy as np
import pytest

from heft.dynamics.rigid_body import quaternion_product, unit_turns
from heft.flight import FlyerModel
from heft.flight.flyer_model import attitude_error, rate_error
from heft.information import inertia, matrix_of_quaternion, skew
from heft.models import SHIPPED, FreeFlyer, load_of, shipped_free_flyer
from heft.plants import FLAT_ORDERS as ORDERS
from heft.plants import FreeFlyerPlant, flat_attitude
from heft.simulation import FlightState, FreeFlyerWorld, Inertial, Thruster

pytest.importorskip("mujoco")
LOAD = load_of("1.2kg@0.20,0.06,-0.10")
every_body = pytest.mark.parametrize("name", SHIPPED)


def world_of(flyer: FreeFlyer, step: float = 0.0025) -> FreeFlyerWorld:
    bodies = [Inertial.of_inertia(*inertia.to_body(p)) for p in (flyer.nominal, LOAD.parameters)]
    return FreeFlyerWorld(bodies, [Thruster(w) for w in flyer.mixing.T], flyer.gravity, step)


def states(count: int, seed: int = 0) -> np.ndarray:
    return unit_turns(np.random.default_rng(seed).normal(size=(count, 13)))


def accelerations(flyer: FreeFlyer, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return MuJoCo's accelerations p̈ in the world and α in the body's axes, shape (N, 6)."""
    world, out = world_of(flyer), []
    for row, pushed in zip(x, u, strict=True):
        world.state = FlightState(row[:3], row[3:7], row[7:10], row[10:])
        out.append(np.concatenate(world.acceleration(pushed)))
    return np.array(out)


@every_body
def test_accelerations_are_those_of_an_independent_simulation(name: str) -> None:
    flyer = shipped_free_flyer(name)
    x, u = states(50), np.random.default_rng(1).normal(size=(50, len(flyer.actuators)))
    found = accelerations(flyer, x, u)
    R = matrix_of_quaternion(x[:, 3:7])
    felt = np.einsum("nji,nj->ni", R, found[:, :3] - flyer.gravity)
    wanted = np.hstack((felt, found[:, 3:]))
    model = FlyerModel.of(flyer, flyer.with_load(LOAD))
    made = model.accelerations(x[:, 10:], u)
    assert np.abs(made - wanted).max() <= 1e-12 * np.abs(wanted).max()
    Y = inertia.wrench_regressor(felt, x[:, 10:], found[:, 3:])  # [Ekal2018, eq. 9]
    left = Y @ model.parameters - u @ flyer.mixing.T
    assert np.abs(left).max() <= 1e-12 * (np.abs(Y) @ np.abs(model.parameters)).max()


def _equations() -> dict[str, tuple[np.ndarray, bool]]:
    """Return the residual of each equation of [Ekal2018] as printed or corrected, and if it holds.

    About the nominal centre of mass P_c, which is the frame's origin; P_s is that of both bodies.
    """
    flyer = shipped_free_flyer("space_cobot")
    x, u = states(100, 3), np.random.default_rng(4).normal(size=(100, 6)) * 3.0
    found = accelerations(flyer, x, u)
    R, w, alpha = matrix_of_quaternion(x[:, 3:7]), x[:, 10:], found[:, 3:]
    m, off, Js = inertia.to_body(flyer.with_load(LOAD))
    Jc = Js + m * (off @ off * np.eye(3) - np.outer(off, off))
    wrench = u @ flyer.mixing.T
    F, M = wrench[:, :3], wrench[:, 3:]
    back = lambda a: np.einsum("nji,nj->ni", R, a)  # noqa: E731
    a_c, v_c = back(found[:, :3]), back(x[:, 7:10])
    a_s = a_c + np.cross(alpha, off) + np.cross(w, np.cross(w, off))
    v_s = v_c + np.cross(w, off)

    def turned(J: np.ndarray) -> np.ndarray:
        return alpha @ J + np.cross(w, w @ J)

    def rate(J: np.ndarray, a: np.ndarray) -> np.ndarray:
        return m * np.sum(a * v_s, 1) + np.sum(w * turned(J), 1)

    power = np.sum(F * v_c, 1) + np.sum(M * w, 1)
    lever = np.cross(off, F)
    return {
        "(4)": (m * a_s - F, True),
        "(5)": (turned(Js) + lever - M, True),
        "(5) with a minus": (turned(Js) - lever - M, False),
        "(7) with the acceleration": (turned(Jc) + m * np.cross(off, a_c) - M, True),
        "(7) as printed, with the position": (
            turned(Jc) + m * np.cross(off, back(x[:, :3])) - M,
            False,
        ),
        "(7) with J_s": (turned(Js) + m * np.cross(off, a_c) - M, False),
        "(25)": (power - rate(Js, a_s), True),
        "(25) with J_c": (power - rate(Jc, a_s), False),
        "(25), its sentence as printed": (power - rate(Js, a_c), False),
    }


@pytest.mark.parametrize("equation", _equations())
def test_the_paper_holds_where_it_is_not_misprinted(equation: str) -> None:
    left, holds = _equations()[equation]
    assert np.abs(left).max() < 1e-12 * 100.0 if holds else np.abs(left).max() > 0.1


@every_body
def test_steps_are_those_of_an_independent_simulation(name: str) -> None:
    flyer = shipped_free_flyer(name)
    model, world = FlyerModel.of(flyer, flyer.with_load(LOAD)), world_of(flyer, 0.001)
    u = np.random.default_rng(5).normal(size=len(flyer.actuators))
    x = states(1, 6)
    world.state = FlightState(x[0, :3], x[0, 3:7], x[0, 7:10], x[0, 10:])
    world.advance(u, np.zeros(len(u)), 0.05)
    for _ in range(50):
        x = unit_turns(model.advanced(x, u[None], 0.001))
    s = world.state
    there = np.concatenate((s.position, s.quaternion, s.velocity, s.turning))
    assert np.abs(x[0] - there).max() < 1e-8 * max(1.0, np.abs(there).max())


def spelt_out(model: FlyerModel, x: np.ndarray, u: np.ndarray, h: float) -> np.ndarray:
    """Return a Runge-Kutta step of states whose quaternions' lengths scale what they turn."""

    def rate(x: np.ndarray) -> np.ndarray:
        q, w = x[:, 3:7], x[:, 10:]
        found = model.accelerations(w, u)
        scaled = np.sum(q**2, axis=1)[:, None, None] * matrix_of_quaternion(q)
        linear = np.einsum("nij,nj->ni", scaled, found[:, :3]) + model.gravity
        spin = 0.5 * quaternion_product(q, np.hstack((np.zeros((len(w), 1)), w)))
        return np.hstack((x[:, 7:10], spin, linear, found[:, 3:]))

    k1 = rate(x)
    k2 = rate(x + 0.5 * h * k1)
    k3 = rate(x + 0.5 * h * k2)
    return x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + rate(x + h * k3))


@every_body
def test_compiled_steps_are_those_spelt_out_and_have_their_derivatives(name: str) -> None:
    flyer = shipped_free_flyer(name)
    model, x = FlyerModel.of(flyer, flyer.with_load(LOAD)), states(6, 7)
    u = np.random.default_rng(8).normal(size=(6, len(flyer.actuators)))
    ahead, slope = model.advanced_with_slope(x, u, 0.1)
    assert np.abs(ahead - spelt_out(model, x, u, 0.1)).max() < 1e-13 * np.abs(ahead).max()
    whole = np.hstack((x, u))
    for k in range(whole.shape[1]):
        moved = [whole + s * 1e-6 * np.eye(whole.shape[1])[k] for s in (1.0, -1.0)]
        up, down = (spelt_out(model, m[:, :13], m[:, 13:], 0.1) for m in moved)
        assert slope[:, :, k] == pytest.approx((up - down) / 2e-6, abs=1e-7 * np.abs(slope).max())


def test_lees_error_is_that_of_rotation_matrices() -> None:
    q, desired = states(40, 9)[:, 3:7], states(40, 10)[:, 3:7]
    R, D = matrix_of_quaternion(q), matrix_of_quaternion(desired)
    apart = np.swapaxes(D, 1, 2) @ R
    skewed = apart - np.swapaxes(apart, 1, 2)
    vee = np.stack((skewed[:, 2, 1], skewed[:, 0, 2], skewed[:, 1, 0]), 1)
    trace = np.trace(apart, axis1=1, axis2=2)
    lee = 0.5 * vee / np.sqrt(1.0 + trace)[:, None]
    assert attitude_error(desired, q)[0] == pytest.approx(lee, abs=1e-12)


def test_rate_errors_have_their_derivatives() -> None:
    q, (w, wanted) = states(10, 11)[:, 3:7], np.random.default_rng(12).normal(size=(2, 10, 3))
    error, slope = rate_error(w, q, wanted)
    back = np.einsum("nji,nj->ni", matrix_of_quaternion(q), wanted)
    assert error == pytest.approx(w - back, abs=1e-13)
    for k in range(4):
        step = 1e-6 * np.eye(4)[k]
        moved = rate_error(w, q + step, wanted)[0] - rate_error(w, q - step, wanted)[0]
        assert slope[:, :, k] == pytest.approx(moved / 2e-6, abs=1e-8)


@every_body
def test_rows_of_designed_motion_have_their_gradients(name: str) -> None:
    plant, rng = FreeFlyerPlant.of(shipped_free_flyer(name)), np.random.default_rng(13)
    d, columns = len(plant.coordinates), range(10)
    motion = [0.5 * rng.normal(size=(4, d)) for _ in range(plant.derivatives + 1)]
    samples = plant.samples_at(*motion)
    seeds = rng.normal(size=plant.rows(samples, columns).regressor.shape)
    found = plant.pull_back(samples, columns, seeds)
    assert len(found) == len(motion)
    for order, by in enumerate(found):
        for k in range(d):
            sums = []
            for step in (1e-6, -1e-6):
                moved = [m.copy() for m in motion]
                moved[order][:, k] += step
                rows = plant.rows(plant.samples_at(*moved), columns).regressor
                sums.append(np.sum(seeds * rows, axis=(1, 2)))
            slope = (sums[0] - sums[1]) / 2e-6
            assert by[:, k] == pytest.approx(slope, abs=1e-7 * max(1.0, np.abs(by).max()))


def test_a_body_that_pushes_up_turns_as_its_path_bends() -> None:
    pace, size = np.array([1.0, 1.3, 0.7, 2.0]), np.array([0.5, 0.4, 0.3, 0.6])
    gravity, step = np.array([0.0, 0.0, -9.81]), 1e-4
    time = step * np.arange(-1, 2) + 0.4
    flat = [
        size * pace**k * np.sin(pace * time[:, None] + k * np.pi / 2.0 + np.arange(4))
        for k in range(ORDERS)
    ]
    R, omega, alpha = flat_attitude(flat, gravity)
    up = flat[2][:, :3] - gravity
    assert R[:, :, 2] == pytest.approx(up / np.linalg.norm(up, axis=1, keepdims=True))
    assert R[1] @ R[1].T == pytest.approx(np.eye(3))
    heading = np.arctan2(R[1, 1, 0], R[1, 0, 0])
    assert abs(np.angle(np.exp(1j * (heading - flat[0][1, 3])))) < 0.2
    assert R[1].T @ (R[2] - R[0]) / (2.0 * step) == pytest.approx(skew(omega[1]), abs=1e-6)
    assert (omega[2] - omega[0]) / (2.0 * step) == pytest.approx(alpha[1], abs=1e-6)


def test_a_thrust_follows_its_command_by_its_lag_whatever_the_step() -> None:
    mass, lag = 2.0, 0.04
    ball = Inertial(mass, np.zeros(3), 0.01 * np.eye(3))
    push = Thruster(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), lag)
    for step in (0.005, 0.001):
        world = FreeFlyerWorld([ball], [push], np.zeros(3), step)
        world.spin_up(np.zeros(1))
        speed = 0.0
        thrust = 0.0
        for command in (3.0, -1.0, 2.0):
            world.advance(np.array([command]), np.zeros(1), 0.02)
            left = np.exp(-0.02 / lag)
            speed += (command * 0.02 + (thrust - command) * lag * (1.0 - left)) / mass
            thrust = command + (thrust - command) * left
            assert world.state.velocity[0] == pytest.approx(speed, abs=1e-6)


@pytest.mark.parametrize("name", ["space_cobot", "quadrotor"])
def test_channels_measure_each_actuator_alone(name: str) -> None:
    flyer = shipped_free_flyer(name)
    combined = FreeFlyerPlant.of(flyer).combinations
    n = len(flyer.actuators)
    assert combined.measured[:n] == pytest.approx(np.eye(n), abs=1e-9)
    assert not combined.measured[n:].any()
    assert combined.matrix[n:] @ flyer.mixing == pytest.approx(np.zeros((6 - n, n)), abs=1e-12)


def test_channels_of_many_actuators_have_independent_noise_of_one_size() -> None:
    flyer = shipped_free_flyer("astrobee")
    T = FreeFlyerPlant.of(flyer).combinations.matrix
    noise = flyer.actuators.noise[0]
    assert T @ flyer.actuators.wrench_noise @ T.T == pytest.approx(noise**2 * np.eye(6), abs=1e-12)
