"""A body at a wrist, moved smoothly: exact signals of its sensors."""

from __future__ import annotations

import numpy as np

from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.plants.wrench_sensor import Held
from tests.robots import FloatArray

BODY = inertia.from_body(
    1.5, np.array([0.04, -0.01, 0.05]), np.diag([3e-3, 4e-3, 2e-3]) + 2e-4 * (1 - np.eye(3))
)
BIAS = np.array([2.0, -1.0, 0.5, 0.1, 0.05, -0.1])
GRAVITY = np.array([0.0, 0.0, -9.81])


def moving(count: int, rate: float = 1000.0) -> tuple[FloatArray, ...]:
    """Return time, rotation, velocity and acceleration in the world, ω, α of a smooth motion."""
    t = np.arange(count) / rate
    speeds = np.array([2.1, 1.3, 1.7])
    sizes, phases = np.array([0.6, 0.5, 0.7]), np.array([0.3, 1.0, 2.0])
    angle = sizes * np.sin(speeds * t[:, None] + phases)
    turn = sizes * speeds * np.cos(speeds * t[:, None] + phases)
    bend = -sizes * speeds**2 * np.sin(speeds * t[:, None] + phases)
    R = np.stack([matrix_of_rpy(*a) for a in angle])
    (r, p, _), (dr, dp, dy), (ddr, ddp, ddy) = angle.T, turn.T, bend.T
    w = np.stack(
        [
            dr - np.sin(p) * dy,
            np.cos(r) * dp + np.sin(r) * np.cos(p) * dy,
            -np.sin(r) * dp + np.cos(r) * np.cos(p) * dy,
        ],
        1,
    )
    alpha = np.stack(
        [
            ddr - np.sin(p) * ddy - np.cos(p) * dp * dy,
            np.cos(r) * ddp
            - np.sin(r) * dr * dp
            + np.sin(r) * np.cos(p) * ddy
            + (np.cos(r) * np.cos(p) * dr - np.sin(r) * np.sin(p) * dp) * dy,
            -np.sin(r) * ddp
            - np.cos(r) * dr * dp
            + np.cos(r) * np.cos(p) * ddy
            - (np.sin(r) * np.cos(p) * dr + np.cos(r) * np.sin(p) * dp) * dy,
        ],
        1,
    )
    place = np.array([0.3, 0.2, 0.25])
    v = place * speeds * np.cos(speeds * t[:, None])
    a = -place * speeds**2 * np.sin(speeds * t[:, None])
    return t, R, v, a, w, alpha


def truth(count: int) -> tuple[FloatArray, ...]:
    """Return time, wrench, specific force, ω, and velocity and gravity in the frame."""
    t, R, v, a, w, alpha = moving(count)
    specific = np.einsum("nji,nj->ni", R, a - GRAVITY)
    wrench = inertia.wrench_regressor(specific, w, alpha) @ BODY
    return (
        t,
        wrench,
        specific,
        w,
        np.einsum("nji,nj->ni", R, v),
        np.einsum("nji,j->ni", R, GRAVITY),
    )


def sensed(count: int, seed: int = 0, noise: tuple[float, float] = (0.1, 0.005)) -> Held:
    """Return what an inertial sensor and a noisy wrench sensor with a bias show at 1 kHz."""
    t, wrench, specific, w, _, _ = truth(count)
    rng = np.random.default_rng(seed)
    noisy = wrench + BIAS + rng.normal(size=wrench.shape) * np.repeat(noise, 3)
    return Held.with_accelerometer(t, noisy, specific, w)


def posed(rotations: FloatArray, gravity: FloatArray, seed: int = 0) -> Held:
    """Return poses at rest, a second apart, under a gravity that is not as stated."""
    rng = np.random.default_rng(seed)
    own, stated = (np.einsum("nji,j->ni", rotations, g) for g in (gravity, GRAVITY))
    still = np.zeros_like(own)
    wrench = inertia.wrench_regressor(-own, still, still) @ BODY + BIAS
    wrench += rng.normal(size=wrench.shape) * np.repeat([0.02, 0.001], 3)
    time = np.arange(float(len(own)))
    return Held.at_rest(time, wrench, stated, np.swapaxes(rotations, 1, 2))


def carried(count: int, gravity: FloatArray, seed: int = 0) -> Held:
    """Return a motion at 1 kHz under a gravity that is not as stated."""
    t, R, v, a, w, alpha = moving(count)
    specific = np.einsum("nji,nj->ni", R, a - gravity)
    wrench = inertia.wrench_regressor(specific, w, alpha) @ BODY + BIAS
    wrench += np.random.default_rng(seed).normal(size=wrench.shape) * np.repeat([0.1, 0.005], 3)
    velocity, stated = np.einsum("nji,nj->ni", R, v), np.einsum("nji,j->ni", R, GRAVITY)
    return Held.with_velocity(t, wrench, velocity, w, stated, np.swapaxes(R, 1, 2))


def poses(count: int, seed: int = 0, noise: tuple[float, float] = (0.02, 0.001)) -> Held:
    """Return poses at rest in all directions, a second apart."""
    rng = np.random.default_rng(seed)
    turned = [matrix_of_rpy(*rng.uniform(-np.pi, np.pi, 3)) for _ in range(count)]
    gravity = np.stack([R.T @ GRAVITY for R in turned])
    still = np.zeros((count, 3))
    wrench = inertia.wrench_regressor(-gravity, still, still) @ BODY
    wrench += rng.normal(size=wrench.shape) * np.repeat(noise, 3)
    world = np.stack([R.T for R in turned])
    return Held.at_rest(np.arange(float(count)), wrench, gravity, world)
