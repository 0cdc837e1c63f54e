"""Motion of one free rigid body under a wrench that is held over each step, and its derivatives.

    p' = v,   q' = ½ q ∘ (0, ω),   v' = R a + g,   [m 1, −h×; h×, I] [a; α] = wrench − b(ω)

with `b = [ω×(ω×h); ω×Iω]`, a the acceleration of the frame's origin less gravity and α, both in the
body's frame: equations (4), (5) of [Ekal2018] taken about the frame's origin instead of the centre
of mass, where (7) has p̈_c, not p_c as printed, and I is J_c, not J_s. A state is position,
attitude as a quaternion w, x, y, z, velocity of the origin in the world and ω in the body's frame:
13 numbers. Its quaternion is of unit length but for what a step of integration leaves. An error of
it is twelve: of position, attitude (R exp φ×: φ in the body's frame), velocity and ω.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact, plain
from heft.information import PARAMETER_COUNT, inertia, skew

STATE, ERRORS = 13, 12
PLACE, TURN, SPEED, SPIN = slice(0, 3), slice(3, 7), slice(7, 10), slice(10, 13)


def mass_matrix(parameters: Array) -> Array:
    """Return the mass matrix of a rigid body about its frame's origin, `[m 1, −h×; h×, I]`.

    Args:
        parameters: Ten inertial parameters, shape (10,) [kg, kg·m, kg·m²].

    Returns:
        Shape (6, 6) [kg, kg·m, kg·m²]; times linear and angular acceleration it gives the wrench.
    """
    pi = np.asarray(parameters, dtype=float)
    matrix = np.empty((6, 6))
    matrix[:3, :3] = pi[0] * np.eye(3)
    matrix[3:, :3] = skew(pi[1:4])
    matrix[:3, 3:] = -matrix[3:, :3]
    matrix[3:, 3:] = inertia.inertia_matrix(pi)
    return matrix


@exact(allocates=True)
def _scratch():  # type: ignore[no-untyped-def]
    """Return what `_rate` leaves: the wrench less b, b by ω, a and α, and R."""
    return np.empty(6), np.empty((6, 3)), np.empty(6), np.empty((3, 3))


@exact
def _rate(x: Array, wrench: Array, body: Any, work: Any, out: Array) -> None:
    """Write the derivative of a state."""
    rest, bent, six, turn = work
    first, spin, inverse, gravity, of_unit = body
    w, i, j, k = x[3], x[4], x[5], x[6]
    p, q, r = x[10], x[11], x[12]
    along = first[0] * p + first[1] * q + first[2] * r
    square = p * p + q * q + r * r
    spun = (
        spin[0, 0] * p + spin[0, 1] * q + spin[0, 2] * r,
        spin[1, 0] * p + spin[1, 1] * q + spin[1, 2] * r,
        spin[2, 0] * p + spin[2, 1] * q + spin[2, 2] * r,
    )
    for a in range(3):  # b(ω), and its derivative by ω
        b, c = (a + 1) % 3, (a + 2) % 3
        y, z = x[10 + b], x[10 + c]
        rest[a] = wrench[a] - (x[10 + a] * along - first[a] * square)
        rest[3 + a] = wrench[3 + a] - (y * spun[c] - z * spun[b])
        for m in range(3):
            bent[a, m] = x[10 + a] * first[m] - 2.0 * first[a] * x[10 + m]
            bent[3 + a, m] = y * spin[c, m] - z * spin[b, m]
        bent[a, a] += along
        bent[3 + a, b] += spun[c]
        bent[3 + a, c] -= spun[b]
    for row in range(6):
        six[row] = 0.0
        for column in range(6):
            six[row] += inverse[row, column] * rest[column]
    square = i * i + j * j + k * k
    size = 1.0 - 2.0 * square if of_unit else w * w - square
    turn[0, 0], turn[1, 1], turn[2, 2] = size + 2.0 * i * i, size + 2.0 * j * j, size + 2.0 * k * k
    turn[0, 1], turn[1, 0] = 2.0 * (i * j - w * k), 2.0 * (i * j + w * k)
    turn[0, 2], turn[2, 0] = 2.0 * (i * k + w * j), 2.0 * (i * k - w * j)
    turn[1, 2], turn[2, 1] = 2.0 * (j * k - w * i), 2.0 * (j * k + w * i)
    out[3] = 0.5 * (-i * p - j * q - k * r)
    out[4] = 0.5 * (w * p + j * r - k * q)
    out[5] = 0.5 * (w * q + k * p - i * r)
    out[6] = 0.5 * (w * r + i * q - j * p)
    for n in range(3):
        out[n] = x[7 + n]
        out[7 + n] = gravity[n] + turn[n, 0] * six[0] + turn[n, 1] * six[1] + turn[n, 2] * six[2]
        out[10 + n] = six[3 + n]


@exact
def _advance(x: Array, h: float, wrench: Array, body: Any, work: Any, stages: Any) -> None:
    """Take a step by the classical Runge-Kutta rule.

    Args:
        stages: States (4, 13), a derivative (13,) and the state after the step (13,); written.
    """
    places, rate, out = stages
    for i in range(STATE):
        out[i] = places[0, i] = x[i]
    for stage in range(4):
        _rate(places[stage], wrench, body, work, rate)
        share = h / 6.0 * (1.0 if stage in (0, 3) else 2.0)
        reach = h * (1.0 if stage == 2 else 0.5)
        for i in range(STATE):
            out[i] += share * rate[i]
            if stage < 3:
                places[stage + 1, i] = x[i] + reach * rate[i]


@exact(allocates=True)
def _linearise(x: Array, body: Any, work: Any, by: Array) -> None:
    """Write the derivatives of a state's rate by state and wrench, where `_rate` has just been."""
    _, bent, six, turn = work
    w, v = x[3], x[4:7]
    along = v[0] * six[0] + v[1] * six[1] + v[2] * six[2]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        by[i, 7 + i] = 1.0
        by[3, 4 + i], by[4 + i, 3] = -0.5 * x[10 + i], 0.5 * x[10 + i]
        by[4 + i, 4 + j], by[4 + i, 4 + k] = 0.5 * x[10 + k], -0.5 * x[10 + j]
        by[3, 10 + i], by[4 + i, 10 + i] = -0.5 * v[i], 0.5 * w
        by[4 + i, 10 + j], by[4 + i, 10 + k] = -0.5 * v[k], 0.5 * v[j]
        # d(R a)/dq
        by[7 + i, 3] = 2.0 * (w * six[i] + v[j] * six[k] - v[k] * six[j])
        for m in range(3):
            by[7 + i, 4 + m] = 2.0 * (v[i] * six[m] - six[i] * v[m])
        by[7 + i, 4 + i] += 2.0 * along
        by[7 + i, 4 + j] += 2.0 * w * six[k]
        by[7 + i, 4 + k] -= 2.0 * w * six[j]
    forces = np.zeros((6, 9))  # generalised, by ω and wrench
    for i in range(6):
        forces[i, 3 + i] = 1.0
        for j in range(3):
            forces[i, j] = -bent[i, j]
    _accelerations(body[2], turn, forces, by[7:10, 10:], by[10:13, 10:])


@exact(allocates=True)
def _accelerations(inverse: Array, turn: Array, forces: Array, linear: Array, angular: Array):  # type: ignore[no-untyped-def]
    """Write v' and ω' by generalised forces in the body's frame, (3, c) each of (6, c)."""
    felt = np.empty(3)
    for j in range(forces.shape[1]):
        for i in range(6):
            total = 0.0
            for k in range(6):
                total += inverse[i, k] * forces[k, j]
            if i < 3:
                felt[i] = total
            else:
                angular[i - 3, j] = total
        for i in range(3):
            linear[i, j] = turn[i, 0] * felt[0] + turn[i, 1] * felt[1] + turn[i, 2] * felt[2]


@exact(allocates=True)
def _chained(by: Array, moved: Array, out: Array) -> None:
    """Write `by[:, :13] @ moved` plus `by` of the wrench (chain rule); zeros are skipped."""
    width = moved.shape[1]
    for i in range(STATE):
        for j in range(width):
            out[i, j] = by[i, j] if j >= STATE else 0.0
        for k in range(3, STATE):  # nothing depends on the position
            factor = by[i, k]
            if factor != 0.0:
                for j in range(width):
                    out[i, j] += factor * moved[k, j]


@exact(allocates=True)
def _linearised(states: Array, wrench: Array, h: float, body: Any, after: Array, slope: Array):  # type: ignore[no-untyped-def]
    """Write the states after a step, and their derivatives by state and wrench (N, 13, 19)."""
    width, work = STATE + 6, _scratch()
    places, rate = np.empty((4, STATE)), np.empty(STATE)
    start, by = np.zeros((STATE, width)), np.zeros((STATE, width))
    moved, grown = np.empty((STATE, width)), np.empty((STATE, width))
    for i in range(STATE):
        start[i, i] = 1.0
    for n in range(len(states)):
        _advance(states[n], h, wrench[n], body, work, (places, rate, after[n]))
        slope[n] = start
        moved[:] = start
        for stage in range(4):
            share = h / 6.0 * (1.0 if stage in (0, 3) else 2.0)
            reach = h * (1.0 if stage == 2 else 0.5)
            _rate(places[stage], wrench[n], body, work, rate)
            _linearise(places[stage], body, work, by)
            _chained(by, moved, grown)
            for i in range(STATE):
                for j in range(width):
                    slope[n, i, j] += share * grown[i, j]
                    moved[i, j] = start[i, j] + reach * grown[i, j]


@exact
def _regressor(s: Array, w: Array, alpha: Array, Y: Array) -> None:
    """Write Y (6, 10) of specific force, ω and α; see `inertia.wrench_regressor`."""
    for i in range(6):
        for j in range(PARAMETER_COUNT):
            Y[i, j] = 0.0
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    for i in range(3):
        Y[i, 0] = s[i]
        for j in range(3):
            Y[i, 1 + j] = w[i] * w[j] - (square if i == j else 0.0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        Y[j, 1 + i] += alpha[k]
        Y[k, 1 + i] -= alpha[j]
        Y[3 + j, 1 + i] -= s[k]
        Y[3 + k, 1 + i] += s[j]
    Y[3, 4], Y[4, 4], Y[5, 4] = alpha[0], w[2] * w[0], -w[1] * w[0]
    Y[3, 6], Y[4, 6], Y[5, 6] = -w[2] * w[1], alpha[1], w[0] * w[1]
    Y[3, 9], Y[4, 9], Y[5, 9] = w[1] * w[2], -w[0] * w[2], alpha[2]
    Y[3, 5] = alpha[1] - w[2] * w[0]
    Y[4, 5] = alpha[0] + w[2] * w[1]
    Y[5, 5] = w[0] * w[0] - w[1] * w[1]
    Y[3, 7] = alpha[2] + w[1] * w[0]
    Y[4, 7] = w[2] * w[2] - w[0] * w[0]
    Y[5, 7] = alpha[0] - w[1] * w[2]
    Y[3, 8] = w[1] * w[1] - w[2] * w[2]
    Y[4, 8] = alpha[2] - w[0] * w[1]
    Y[5, 8] = alpha[1] + w[0] * w[2]


@exact
def _error_rate(x: Array, body: Any, work: Any, forces: Array, S: Array) -> None:
    """Write the derivatives of an error's rate where `_rate` has just been, (12, 12 + 10 + 6).

    By the error, whose last three are ω, by parameters and by the wrench.

    Args:
        forces: Generalised ones by ω, parameters and wrench, shape (6, 19); written.
    """
    _, bent, six, turn = work
    w = x[10:13]
    S[:] = 0.0
    forces[:] = 0.0
    _regressor(six[:3], w, six[3:], forces[:, 3:13])
    for i in range(6):
        forces[i, 13 + i] = 1.0
        for j in range(13):
            forces[i, j] = -bent[i, j] if j < 3 else -forces[i, j]
    _accelerations(body[2], turn, forces, S[6:9, 9:], S[9:12, 9:])
    for j in range(3):
        k, n = (j + 1) % 3, (j + 2) % 3
        S[j, 6 + j] = S[3 + j, 9 + j] = 1.0
        S[3 + k, 3 + j], S[3 + n, 3 + j] = -w[n], w[k]
        for i in range(3):  # −R a×
            S[6 + i, 3 + j] = -(turn[i, k] * six[n] - turn[i, n] * six[k])


@exact
def _integrate(S: Array, h: float, power: Array, other: Array, Phi: Array, Gamma: Array) -> None:
    """Write exp(A h) and ∫exp(A s) ds B of S = [A B] by their series to the fourth power of h."""
    power[:] = 0.0
    for i in range(ERRORS):
        power[i, i] = 1.0
    for order in (4.0, 3.0, 2.0):
        for i in range(ERRORS):
            for j in range(ERRORS):
                total = 0.0
                for k in range(ERRORS):
                    total += S[i, k] * power[k, j]
                other[i, j] = total * h / order
            other[i, i] += 1.0
        power, other = other, power
    for i in range(ERRORS):
        for j in range(ERRORS):
            total = 0.0
            for k in range(ERRORS):
                total += S[i, k] * power[k, j]
            Phi[i, j] = total * h
        Phi[i, i] += 1.0
        for j in range(Gamma.shape[1]):
            total = 0.0
            for k in range(6, ERRORS):  # accelerations alone
                total += power[i, k] * S[k, ERRORS + j]
            Gamma[i, j] = total * h


@exact
def _unit(x: Array) -> None:
    size = np.sqrt(x[3] * x[3] + x[4] * x[4] + x[5] * x[5] + x[6] * x[6])
    for i in range(3, 7):
        x[i] /= size


@exact(allocates=True)
def _transitions(states: Array, wrench: Array, steps: Array, body: Any, out: Any) -> None:
    after, Phi, Gamma = out
    work, places, rate = _scratch(), np.empty((4, STATE)), np.empty(STATE)
    forces, S = np.empty((6, 19)), np.empty((ERRORS, ERRORS + 16))
    power, other = np.empty((ERRORS, ERRORS)), np.empty((ERRORS, ERRORS))
    for n in range(len(steps)):
        _advance(states[n], steps[n], wrench[n], body, work, (places, rate, after[n]))
        _unit(after[n])
        if len(Phi):
            middle = places[2]
            _unit(middle)
            _rate(middle, wrench[n], body, work, rate)
            _error_rate(middle, body, work, forces, S)
            _integrate(S, steps[n], power, other, Phi[n], Gamma[n])


@dataclass(frozen=True, eq=False)
class Transitions:
    """Steps of a rigid body and their derivatives, M steps."""

    after: Array  # states after the steps, shape (M, 13)
    by_error: Array  # Φ, derivative of the error after a step by that before it, shape (M, 12, 12)
    by_parameters: Array  # by the ten inertial parameters, shape (M, 12, 10)
    by_wrench: Array  # by the wrench held over the step, shape (M, 12, 6)


def transitions(
    states: Array, wrench: Array, steps: Array, parameters: Array, gravity: Array
) -> Transitions:
    """Return the steps of a free rigid body from given states, with their derivatives.

    The derivatives are those of the equation of error about the middle of each step; they err by
    about (ω h)³/12 of themselves.

    Args:
        states: Shape (M, 13), with unit quaternions [m, 1, m/s, rad/s].
        wrench: Held over each step, in the body's frame about its origin, shape (M, 6) [N, N·m].
        steps: Lengths, shape (M,) [s].
        parameters: Ten inertial parameters, shape (10,) [kg, kg·m, kg·m²].
        gravity: In the world, shape (3,) [m/s²].
    """
    count = len(steps)
    after, Phi = np.empty((count, STATE)), np.empty((count, ERRORS, ERRORS))
    Gamma = np.empty((count, ERRORS, PARAMETER_COUNT + 6))
    body = _body(parameters, gravity, True)
    _transitions(*plain(states, wrench, steps), body, (after, Phi, Gamma))
    parts = np.split(Gamma, [PARAMETER_COUNT], axis=2)
    return Transitions(after, Phi, np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1]))


def advance(states: Array, wrench: Array, steps: Array, parameters: Array, gravity: Array) -> Array:
    """Return the states after steps, shape (M, 13); see `transitions`."""
    after, none = np.empty((len(steps), STATE)), np.empty((0, ERRORS, ERRORS))
    body = _body(parameters, gravity, True)
    _transitions(*plain(states, wrench, steps), body, (after, none, none))
    return after


def linearised(
    states: Array, wrench: Array, step: float, parameters: Array, gravity: Array
) -> tuple[Array, Array]:
    """Return the states after one step of all, and its derivatives by state and wrench.

    Those of the thirteen numbers, whose quaternions are not made unit ones again; the rest is that
    of `transitions`.

    Returns:
        Shape (N, 13) and (N, 13, 19).
    """
    after, slope = np.empty((len(states), STATE)), np.empty((len(states), STATE, STATE + 6))
    _linearised(*plain(states, wrench), step, _body(parameters, gravity, False), after, slope)
    return after, slope


def _body(parameters: Array, gravity: Array, of_unit: bool) -> Any:
    """Return what the kernels take; R is of quaternions of unit length, or of second degree."""
    inverse = np.asarray(np.linalg.inv(mass_matrix(parameters)))
    spin = inertia.inertia_matrix(parameters)
    return *plain(parameters[1:4], spin, inverse, gravity), of_unit


def retract(states: Array, errors: Array) -> Array:
    """Return states moved by errors, x ⊞ δ, shape (N, 13).

    Args:
        states: Shape (N, 13).
        errors: Of position, attitude, velocity and ω, shape (N, 12).
    """
    out = states.copy()
    out[:, PLACE] += errors[:, :3]
    out[:, SPEED] += errors[:, 6:9]
    out[:, SPIN] += errors[:, 9:]
    out[:, TURN] = quaternion_product(states[:, TURN], _exponential(errors[:, 3:6]))
    return unit_turns(out)


def unit_turns(x: Array) -> Array:
    """Return states with quaternions normalised to unit length, shape (N, 13)."""
    out = x.copy()
    out[:, TURN] /= np.linalg.norm(out[:, TURN], axis=1, keepdims=True)
    return out


def difference(states: Array, others: Array) -> Array:
    """Return the errors between states, δ with others ⊞ δ = states, shape (N, 12)."""
    gap = states - others
    turn = turned(others[:, TURN], states[:, TURN])
    return np.hstack((gap[:, PLACE], turn, gap[:, SPEED], gap[:, SPIN]))


def turned(start: Array, end: Array) -> Array:
    """Return the rotation vectors φ with R_start exp(φ×) = R_end, shape (N, 3) [rad].

    Args:
        start: Unit quaternions, shape (N, 4).
        end: Unit quaternions, shape (N, 4).
    """
    back = start * np.array([1.0, -1.0, -1.0, -1.0])
    q = quaternion_product(back, end)
    q = np.where(q[:, :1] < 0.0, -q, q)
    size = np.linalg.norm(q[:, 1:], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(size, q[:, :1])
    return np.asarray(q[:, 1:] * np.where(size > 1e-9, angle / np.maximum(size, 1e-9), 2.0))


def quaternion_product(one: Array, other: Array) -> Array:
    """Return the products of quaternions w, x, y, z, shape (N, 4)."""
    w, v = one[:, :1], one[:, 1:]
    z, u = other[:, :1], other[:, 1:]
    real = w * z - np.sum(v * u, axis=1, keepdims=True)
    return np.hstack([real, w * u + z * v + np.cross(v, u)])


def _exponential(vectors: Array) -> Array:
    """Return the unit quaternions of rotation vectors."""
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.hstack([np.cos(0.5 * angle), 0.5 * vectors * np.sinc(0.5 * angle / np.pi)])


def warm_up() -> None:
    """Call the compiled functions once, so that they are compiled and cached."""
    states, wrench = np.zeros((1, STATE)), np.zeros((1, 6))
    body = np.zeros(3), np.eye(3), np.eye(6), np.zeros(3), True
    states[0, 3] = 1.0
    out = np.empty((1, STATE)), np.empty((1, ERRORS, ERRORS)), np.empty((1, ERRORS, 16))
    _transitions(states, wrench, np.ones(1), body, out)
    _linearised(states, wrench, 0.1, body, out[0], np.empty((1, STATE, STATE + 6)))


KERNELS = Kernels((_transitions, _linearised), warm_up)
