"""One step of a simulated arm: controller, friction, transmission, motion. Compiled.

A leapfrog of second order: velocities live between the positions. Friction of bristles follows
from the way since the step before and is known; that of Coulomb is solved for together with the
acceleration, at the velocity in the middle, `v = v₋ + a h/2`, so that it may be as steep as it
likes; where it jumps, at that of the step's end, so that it sticks. With M and h of the links, at
every step

    τ = M a + h(q, v) + R α + friction,        τ = s + R α + friction,  s = M a + h

the first where the gear is rigid, the second where it yields and passes on s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heft.compiled import Kernels, exact

from .simulated_drives import ROWS

LOGGED = ("q", "v", "a", "rotor", "rotor_speed", "rotor_acceleration", "tau", "friction", "passed")


@exact
def coulomb_at(free, slope, effort, scale):  # type: ignore[no-untyped-def]
    """Return f = F tanh(v/s), or F Sgn(v), at v = free − slope · f."""
    if effort <= 0.0:
        return 0.0
    if scale <= 0.0:
        return min(max(free / slope, -effort), effort)
    low, high = -effort, effort
    f = effort * np.tanh(free / (scale + slope * effort))
    for _ in range(50):
        shape = np.tanh((free - slope * f) / scale)
        miss = f - effort * shape
        if miss > 0.0:
            high = f
        else:
            low = f
        if abs(miss) < 1e-12 * effort:
            break
        step = f - miss / (1.0 + effort * slope / scale * (1.0 - shape * shape))
        f = step if low < step < high else 0.5 * (low + high)
    return f


@exact(allocates=True)
def controlled(late, state, gains, weight, ahead):  # type: ignore[no-untyped-def]
    """Return the motors' torque by a cascade, or by computed torque where a mass matrix is given.

    Args:
        late: Error of the velocity, feedback of the position included, (n,).
        state: As in `advance`; the integral is read.
        gains: As in `advance`.
        weight: Mass matrix that feedback acts through, (n, n); none if (0, 0).
        ahead: Feed-forward torque, (n,).
    """
    n = late.shape[0]
    tau = np.empty(n)
    for j in range(n):
        if weight.shape[0] == 0:
            tau[j] = ahead[j] + gains[1, j] * late[j] + gains[2, j] * state[6, j]
        else:
            tau[j] = ahead[j]
            for i in range(n):
                tau[j] += weight[j, i] * (gains[1, i] * late[i] + gains[2, i] * state[6, i])
        tau[j] = min(max(tau[j], -gains[5, j]), gains[5, j])
    return tau


@exact(allocates=True)
def followed(k, h, state, gains, wanted, noise):  # type: ignore[no-untyped-def]
    """Read the encoders, and return the velocity error of a cascade, (n,).

    Args:
        k: Number of the step.
        h: Its length [s].
        state: As in `advance`; readings, filter and integral move on.
        gains: As in `advance`.
        wanted: As in `advance`.
        noise: As in `advance`.
    """
    n = state.shape[1]
    late = np.empty(n)
    for j in range(n):
        reading = state[2, j] + noise[0, j]
        if gains[3, j] > 0.0:
            reading = gains[3, j] * np.round(reading / gains[3, j])
        if k == 0:
            state[7, j] = reading
        state[5, j] += gains[4, j] * ((reading - state[7, j]) / h - state[5, j])
        state[7, j] = reading
        late[j] = wanted[1, j] + gains[0, j] * (wanted[0, j] - reading) - state[5, j]
        state[6, j] += h * late[j]
    return late


@exact(allocates=True)
def other_friction(k, h, time, state, drive, beside):  # type: ignore[no-untyped-def]
    """Return the friction that is known before the motion, and the largest Coulomb friction.

    Args:
        k: Number of the step.
        h: Its length [s].
        time: Now [s].
        state: As in `advance`; bristles and positions a step ago move on.
        drive: As in `advance`.
        beside: Torque that acts beside the motors', (n,).

    Returns:
        All friction but Coulomb's, less what acts beside the motors, (n,); Coulomb's, (n,).
    """
    n = state.shape[1]
    other, efforts = np.empty(n), np.zeros(n)
    for j in range(n):
        viscous, bend, coulomb, offset = drive[1, j], drive[2, j], drive[3, j], drive[5, j]
        bristle, stiffness, damping = drive[6, j], drive[7, j], drive[8, j]
        ratio, stribeck, load = drive[9, j], drive[10, j], drive[11, j]
        warm, warming, ripple = drive[12, j], drive[13, j], drive[14, j]
        cycles, phase = drive[15, j], drive[16, j]
        place, v = state[2, j], state[3, j]
        if k == 0:
            state[9, j] = place
        heat = 1.0 + warm * np.exp(-warming * max(time, 0.0))
        force = 0.0
        if bristle > 0.0:
            way = place - state[9, j]
            level = bristle * (1.0 + (ratio - 1.0) * np.exp(-((way / h / stribeck) ** 2)))
            end = level / stiffness
            z = state[4, j]
            aim = end if way > 0.0 else -end
            z = aim + (z - aim) * np.exp(-abs(way) / end)
            state[4, j] = z
            rate = v - abs(v) * z / end
            force = stiffness * z + damping * rate
            force *= 1.0 + load * abs(state[8, j]) / bristle
        elif coulomb > 0.0:
            level = coulomb * (1.0 + (ratio - 1.0) * np.exp(-((v / stribeck) ** 2)))
            efforts[j] = heat * (level + load * abs(state[8, j]))
        curve = viscous * v if bend == 0.0 else viscous / bend * np.arcsinh(bend * v)
        other[j] = heat * (curve + force + offset) + ripple * np.sin(cycles * place + phase)
        other[j] -= beside[j]
        state[9, j] = place
    return other, efforts


@exact(allocates=True)
def through_gears(now, speed, state, drive):  # type: ignore[no-untyped-def]
    """Return the torque that elastic gears with backlash pass on, (n,); as of `advance`."""
    n = now.shape[0]
    passed = np.zeros(n)
    for j in range(n):
        bent = state[2, j] - now[j]
        gap = drive[19, j]
        if bent > gap:
            passed[j] = drive[17, j] * (bent - gap)
        elif bent < -gap:
            passed[j] = drive[17, j] * (bent + gap)
        if gap == 0.0 or abs(bent) > gap:
            passed[j] += drive[18, j] * (state[3, j] - speed[j])
    return passed


@exact(allocates=True)
def rubbed(h, free, inverse, efforts, state, drive):  # type: ignore[no-untyped-def]
    """Return Coulomb friction of all joints, solved together with their acceleration, (n,).

    Args:
        h: Length of the step [s].
        free: Acceleration without Coulomb friction, (n,).
        inverse: Of the mass matrix, (n, n).
        efforts: Largest Coulomb friction, (n,).
        state: As in `advance`.
        drive: As in `advance`.
    """
    n = free.shape[0]
    rubbing = np.zeros(n)
    for _ in range(30):  # of Gauss and Seidel, at most
        change, size = 0.0, 1e-12
        for j in range(n):
            if efforts[j] <= 0.0:
                continue
            others = 0.0
            for i in range(n):
                if i != j:
                    others += inverse[j, i] * rubbing[i]
            # What sticks is to stand still after the step, or it would swing from step to step.
            part = 0.5 * h if drive[4, j] > 0.0 else h
            start = state[1, j] + part * (free[j] - others)
            friction = coulomb_at(start, part * inverse[j, j], efforts[j], drive[4, j])
            change = max(change, abs(friction - rubbing[j]))
            size = max(size, abs(friction))
            rubbing[j] = friction
        if change <= 1e-10 * size:
            break
    return rubbing


@exact(allocates=True)
def advance(clock, links, state, drive, control, log, elastic):  # type: ignore[no-untyped-def]
    """Move an arm on by one step.

    Args:
        clock: Number k of the step, its length h [s] and the time now [s].
        links: Mass matrix, with rotors where gears are rigid, (n, n); Coriolis, centrifugal and
            gravity torque, (n,); q, moved on in place; v predicted for now, in whose place that
            predicted for the next step is written.
        state: Rows: velocity half a step ago of links and of rotors, position of rotors,
            predicted speed of rotors, bristle, filtered velocity, integral, last reading, torque
            passed on, position a step ago.
        drive: Rows as `simulated_drives.ROWS`.
        control: Gains, rows of position, velocity, integral, encoder step, weight of a new sample
            in the filter of the velocity, largest torque; the mass matrix through which feedback
            acts, (n, n), each joint by itself if (0, 0); what is wanted, rows q, v and feed-forward
            torque; noise, rows of the encoders, and torque that acts beside the motors', (2, n).
        log: Rows as `LOGGED`, then the reading, each (steps, n).
        elastic: Whether gears yield.
    """
    k, h, time = clock
    mass, bias, now, speed = links
    gains, weight, wanted, noise = control
    n = now.shape[0]
    late = followed(k, h, state, gains, wanted, noise)
    tau = controlled(late, state, gains, weight, wanted[2])
    other, efforts = other_friction(k, h, time, state, drive, noise[1])
    passed = np.zeros(n)
    if elastic:
        inverse = np.zeros((n, n))
        for j in range(n):
            inverse[j, j] = 1.0 / drive[0, j]
        passed = through_gears(now, speed, state, drive)
        free = inverse @ (tau - other - passed)
    else:
        inverse = np.ascontiguousarray(np.linalg.inv(mass))
        free = inverse @ (tau - other - bias)
    rubbing = rubbed(h, free, inverse, efforts, state, drive)
    turning = free - inverse @ rubbing
    moving = np.linalg.solve(mass, passed - bias) if elastic else turning
    for j in range(n):
        if not elastic:
            passed[j] = tau[j] - other[j] - rubbing[j] - drive[0, j] * turning[j]
        state[8, j] = passed[j]
        log[0, k, j] = now[j]
        log[1, k, j] = state[0, j] + 0.5 * h * moving[j]
        log[2, k, j] = moving[j]
        log[3, k, j] = state[2, j]
        log[4, k, j] = state[1, j] + 0.5 * h * turning[j]
        log[5, k, j] = turning[j]
        log[6, k, j] = tau[j]
        log[7, k, j] = other[j] + rubbing[j]
        log[8, k, j] = passed[j]
        log[9, k, j] = state[7, j]
        state[0, j] += h * moving[j]
        state[1, j] += h * turning[j]
        now[j] += h * state[0, j]
        speed[j] = state[0, j] + 0.5 * h * moving[j]
        state[2, j] = state[2, j] + h * state[1, j] if elastic else now[j]
        state[3, j] = state[1, j] + 0.5 * h * turning[j]


def warm_up() -> None:
    """Compile `advance` by a step of one joint."""
    drive = np.zeros((len(ROWS), 1))
    drive[0] = 1.0
    links: Any = np.ones((1, 1)), np.zeros(1), np.zeros(1), np.zeros(1)
    control: Any = np.zeros((6, 1)), np.zeros((0, 0)), np.zeros((3, 1)), np.zeros((2, 1))
    state, log = np.zeros((10, 1)), np.zeros((10, 1, 1))
    advance((0, 1e-3, 0.0), links, state, drive, control, log, False)


KERNELS = Kernels((advance,), warm_up)
