"""Free flights with a load for tests: the centre of mass is integrated, a propeller at a time.

Shares no equation with heft: the motion is that of the centre of mass under each propeller's force,
about which each propeller's moment is taken, in steps half the log's. The controller sees
nothing but what is logged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from heft.arrays import Array
from heft.dynamics.rigid_body import mass_matrix
from heft.information import inertia
from heft.models import FreeFlyer
from heft.recordings import Recording

SUBSTEPS = 2


@dataclass(frozen=True)
class Flown:
    """A flight: log, true states (N, 13) of the body's frame, and true parameters (10,)."""

    recording: Recording
    states: Array
    parameters: Array
    commands: Array


def reference(
    time: Array, period: float, seed: int, size: tuple[float, float]
) -> tuple[Array, ...]:
    """Return a periodic pose, (N, 6): position and roll, pitch, yaw, and two derivatives."""
    rng = np.random.default_rng(seed)
    order = 2.0 * np.pi / period * np.arange(1, 4)
    a, b = rng.normal(size=(2, 3, 6)) / np.arange(1, 4)[:, None]
    scale = np.repeat(size, 3) / np.abs(a).sum(axis=0)
    c, s = np.cos(np.outer(time, order)), np.sin(np.outer(time, order))
    x = ((c - 1.0) @ a + s @ b) * scale
    v = ((-s * order) @ a + (c * order) @ b) * scale
    acc = ((-c * order**2) @ a + (-s * order**2) @ b) * scale
    return x, v, acc


@dataclass(frozen=True)
class _Body:
    """What is integrated: one body, and what each propeller does to its centre of mass."""

    mass: float
    com: Array
    central: Array
    inverse: Array
    pushes: Array  # (6, n): force, and moment about the centre of mass, of a unit of each thrust
    gravity: Array

    @staticmethod
    def of(flyer: FreeFlyer, parameters: Array) -> _Body:
        mass, com, central = inertia.to_body(parameters)
        act = flyer.actuators
        drag = act.mixing[3:].T - np.cross(act.position, act.direction)
        moments = np.cross(act.position - com, act.direction) + drag
        pushes = np.hstack([act.direction, moments]).T
        return _Body(mass, com, central, np.linalg.inv(central), pushes, np.array(flyer.gravity))

    def rate(self, x: Array, thrust: Array) -> Array:
        """Return the derivative of position and velocity of the centre, quaternion and ω."""
        push = self.pushes @ thrust
        w, u, omega = x[6], x[7:10], x[10:]
        force = push[:3]
        turned = force + 2.0 * _cross(u, w * force + _cross(u, force))
        spin = self.inverse @ (push[3:] - _cross(omega, self.central @ omega))
        quaternion = 0.5 * np.concatenate([[-u @ omega], w * omega + _cross(u, omega)])
        return np.concatenate([x[3:6], turned / self.mass + self.gravity, quaternion, spin])

    def step(self, x: Array, thrust: Array, h: float) -> Array:
        """Return the state after h, by the classical Runge-Kutta rule."""
        k1 = self.rate(x, thrust)
        k2 = self.rate(x + 0.5 * h * k1, thrust)
        k3 = self.rate(x + 0.5 * h * k2, thrust)
        k4 = self.rate(x + h * k3, thrust)
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        x[6:10] /= np.linalg.norm(x[6:10])
        return x


def _cross(a: Array, b: Array) -> Array:
    return np.array(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def fly(
    flyer: FreeFlyer, parameters: Array, seed: int = 0, periods: int = 4, period: float = 10.0,
    size: tuple[float, float] = (0.25, 0.4), rate: float = 50.0,
    colour: float = 0.0,
) -> Flown:  # fmt: skip
    """Return a closed-loop flight about a periodic reference; states are of the centre of mass
    while it is integrated, and of the body's frame in the result.

    The pose's noise is autoregressive of first order with `colour`, of the stated deviation.
    """
    rng = np.random.default_rng(seed + 1000)
    body = _Body.of(flyer, parameters)
    h, count = 1.0 / rate, round(periods * period * rate)
    time = h * np.arange(count)
    x, _, a = reference(time, period, seed, size)
    back = np.linalg.pinv(flyer.mixing)
    turns = Rotation.from_euler("xyz", x[:, 3:])
    state = np.zeros(13)
    state[6] = 1.0
    state[:3] = body.com
    mass = mass_matrix(parameters)
    estimate, rates = np.zeros(6), np.zeros(6)
    states, commands = np.empty((count, 13)), np.empty((count, len(flyer.actuators)))
    poses, error = np.empty((count, 7)), np.zeros(6)
    scale = np.repeat([flyer.pose.position, flyer.pose.angle], 3)
    for n in range(count):
        turn = Rotation.from_quat(state[[7, 8, 9, 6]])
        lever = turn.apply(body.com)
        states[n] = state
        states[n, :3] -= lever
        states[n, 3:6] -= turn.apply(np.cross(state[10:], body.com))
        fresh = scale * rng.normal(size=6)
        error = fresh if n == 0 else colour * error + np.sqrt(1.0 - colour**2) * fresh
        noisy = turn * Rotation.from_rotvec(error[3:])
        q = noisy.as_quat()
        poses[n, :3] = states[n, :3] + error[:3]
        poses[n, 3:] = q[[3, 0, 1, 2]]
        # An alpha-beta filter of position and of the attitude's error, on the log alone.
        off = np.concatenate([poses[n, :3] - x[n, :3], (turns[n].inv() * noisy).as_rotvec()])
        predicted = estimate + h * rates
        gap = off - predicted
        estimate = predicted + 0.3 * gap
        rates = rates + (0.06 / h) * gap
        wanted = -4.0 * estimate - 3.0 * rates
        linear = noisy.inv().apply(a[n, :3] + wanted[:3] - flyer.gravity)
        angular = turns[n].inv().apply(a[n, 3:]) + wanted[3:]
        u = back @ (mass @ np.concatenate([linear, angular]))
        commands[n] = np.clip(u, flyer.actuators.lower, flyer.actuators.upper)
        thrust = commands[n] + flyer.actuators.noise * rng.normal(size=len(u))
        for _ in range(SUBSTEPS):
            state = body.step(state, thrust, h / SUBSTEPS)
    signals = {
        "pos": {f"{flyer.name}.{c}": poses[:, i] for i, c in enumerate("xyz")},
        "quat": {f"{flyer.name}.{c}": poses[:, 3 + i] for i, c in enumerate("wxyz")},
        "u": dict(zip(flyer.actuators.names, commands.T, strict=True)),
    }
    return Flown(Recording.from_arrays(time, **signals), states, np.asarray(parameters), commands)
