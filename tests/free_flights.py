"""Free flights with a load for tests: the centre of mass is integrated, a propeller at a time.

Shares no equation with heft: the motion is that of the centre of mass under each propeller's
force, about which each propeller's moment is taken, in steps of parts of the log's. Commands are
held, act late and are followed late; thrusts may be other than stated by a factor. The controller
sees nothing but what is logged, and what is logged may lack samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from heft.arrays import Array
from heft.dynamics.rigid_body import mass_matrix
from heft.information import inertia
from heft.models import FreeFlyer
from heft.recordings import Recording

SUBSTEPS, LATE_SUBSTEPS = 2, 8


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
    central: list[list[float]]
    inverse: list[list[float]]
    pushes: Array  # (6, n): force, and moment about the centre of mass, of a unit of each thrust
    gravity: list[float]

    @staticmethod
    def of(flyer: FreeFlyer, parameters: Array) -> _Body:
        mass, com, central = inertia.to_body(parameters)
        act = flyer.actuators
        drag = act.mixing[3:].T - np.cross(act.position, act.direction)
        moments = np.cross(act.position - com, act.direction) + drag
        pushes = np.hstack([act.direction, moments]).T
        inverse = np.linalg.inv(central).tolist()
        return _Body(mass, com, central.tolist(), inverse, pushes, list(map(float, flyer.gravity)))

    def rate(self, x: list[float], push: list[float]) -> list[float]:
        """Return the derivative of position of the centre, quaternion, its velocity and ω."""
        w, i, j, k, *_ = x[3:]
        p, q, r = x[10:]
        fx, fy, fz, *moment = push
        gx, gy, gz = w * fx + j * fz - k * fy, w * fy + k * fx - i * fz, w * fz + i * fy - j * fx
        turned = (
            fx + 2.0 * (j * gz - k * gy),
            fy + 2.0 * (k * gx - i * gz),
            fz + 2.0 * (i * gy - j * gx),
        )
        hx, hy, hz = (a * p + b * q + c * r for a, b, c in self.central)
        mx, my, mz = moment
        ex, ey, ez = mx - (q * hz - r * hy), my - (r * hx - p * hz), mz - (p * hy - q * hx)
        return [
            *x[7:10],
            -0.5 * (i * p + j * q + k * r),
            0.5 * (w * p + j * r - k * q),
            0.5 * (w * q + k * p - i * r),
            0.5 * (w * r + i * q - j * p),
            *(f / self.mass + g for f, g in zip(turned, self.gravity, strict=True)),
            *(a * ex + b * ey + c * ez for a, b, c in self.inverse),
        ]

    def step(self, x: list[float], push: list[float], h: float) -> list[float]:
        """Return the state after h, by the classical Runge-Kutta rule."""

        def ahead(rate: list[float], time: float) -> list[float]:
            return [a + time * b for a, b in zip(x, rate, strict=True)]

        k1 = self.rate(x, push)
        k2 = self.rate(ahead(k1, 0.5 * h), push)
        k3 = self.rate(ahead(k2, 0.5 * h), push)
        k4 = self.rate(ahead(k3, h), push)
        mean = [(a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
        x = ahead(mean, h)
        size = math.hypot(*x[3:7])
        return [*x[:3], *(q / size for q in x[3:7]), *x[7:]]


def fly(
    flyer: FreeFlyer, parameters: Array, seed: int = 0, periods: int = 4, period: float = 10.0,
    size: tuple[float, float] = (0.25, 0.4), rate: float = 50.0, colour: float = 0.0,
    scale: float = 1.0, delay: float = 0.0, lag: float = 0.0, lost: float = 0.0,
) -> Flown:  # fmt: skip
    """Return a closed-loop flight about a periodic reference; states are of the centre of mass
    while it is integrated, and of the body's frame in the result.

    The pose's noise is autoregressive of first order with `colour`, of the stated deviation.
    Thrusts are `scale` times what the commands say, `delay` [s] later and behind a first-order
    `lag` [s]. Of the samples a share `lost` is not logged at all.
    """
    rng = np.random.default_rng(seed + 1000)
    body = _Body.of(flyer, parameters)
    h, count = 1.0 / rate, round(periods * period * rate)
    time = h * np.arange(count)
    x, _, a = reference(time, period, seed, size)
    back = np.linalg.pinv(flyer.mixing)
    turns = Rotation.from_euler("xyz", x[:, 3:]).as_matrix()
    state = [*body.com.tolist(), 1.0, *[0.0] * 9]
    mass = mass_matrix(parameters)
    estimate, rates = np.zeros(6), np.zeros(6)
    states, commands = np.empty((count, 13)), np.empty((count, len(flyer.actuators)))
    thrust = commands[0]
    drawn = rng.normal(size=(count, 6 + commands.shape[1]))
    error = np.repeat([flyer.pose.position, flyer.pose.angle], 3) * drawn[:, :6]
    for n in range(1, count):
        error[n] = colour * error[n - 1] + np.sqrt(1.0 - colour**2) * error[n]
    errors = Rotation.from_rotvec(error[:, 3:])
    off_turns = errors.as_matrix()
    for n in range(count):
        states[n] = state
        turn = Rotation.from_quat(states[n, [4, 5, 6, 3]]).as_matrix()
        states[n, :3] -= turn @ body.com
        states[n, 7:10] -= turn @ np.cross(states[n, 10:], body.com)
        noisy = turn @ off_turns[n]
        # An alpha-beta filter of position and of the attitude's error, on the log alone.
        place = states[n, :3] + error[n, :3] - x[n, :3]
        turned = Rotation.from_matrix(turns[n].T @ noisy).as_rotvec()
        predicted = estimate + h * rates
        gap = np.concatenate([place, turned]) - predicted
        estimate = predicted + 0.3 * gap
        rates = rates + (0.06 / h) * gap
        wanted = -4.0 * estimate - 3.0 * rates
        linear = noisy.T @ (a[n, :3] + wanted[:3] - flyer.gravity)
        angular = turns[n].T @ a[n, 3:] + wanted[3:]
        u = back @ (mass @ np.concatenate([linear, angular]))
        commands[n] = np.clip(u, flyer.actuators.lower, flyer.actuators.upper)
        parts = SUBSTEPS if delay == lag == 0.0 else LATE_SUBSTEPS
        thrust = thrust if n else commands[0]
        for k in range(parts):
            # The mean of what is held over [t, t + h / parts), that much earlier.
            t = n * h + k * h / parts - delay
            first = math.floor(t / h + 1e-9)
            share = min(1.0, ((first + 1) * h - t) * parts / h)
            before, after = (commands[min(max(i, 0), n)] for i in (first, first + 1))
            told = share * before + (1.0 - share) * after
            left = math.exp(-h / parts / lag) if lag else 0.0
            mean = told + (thrust - told) * lag * (1.0 - left) * parts / h
            thrust = told + (thrust - told) * left
            push = scale * body.pushes @ (mean + flyer.actuators.noise * drawn[n, 6:])
            state = body.step(state, push.tolist(), h / parts)
    poses = np.empty((count, 7))
    poses[:, :3] = states[:, :3] + error[:, :3]
    noisy_turns = Rotation.from_quat(states[:, [4, 5, 6, 3]]) * errors
    poses[:, 3:] = noisy_turns.as_quat()[:, [3, 0, 1, 2]]
    kept = rng.random(count) >= lost
    kept[[0, -1]] = True
    poses, logged = poses[kept], commands[kept]
    signals = {
        "pos": {f"{flyer.name}.{c}": poses[:, i] for i, c in enumerate("xyz")},
        "quat": {f"{flyer.name}.{c}": poses[:, 3 + i] for i, c in enumerate("wxyz")},
        "u": dict(zip(flyer.actuators.names, logged.T, strict=True)),
    }
    log = Recording.from_arrays(time[kept], **signals)
    return Flown(log, states, np.asarray(parameters), commands)
