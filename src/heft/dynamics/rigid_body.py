"""Motion of one free rigid body under a wrench that is held over each step, and its derivatives.

    [m 1, −h×; h×, I] [a − g; α] = wrench − [ω×(ω×h); ω×Iω],      all in the body's frame

with a the acceleration of the frame's origin. A state is position, velocity (both of the origin, in
the world), attitude as a unit quaternion, and ω in the body's frame: 13 numbers. An error of it is
twelve: of position, attitude (R exp φ×: φ in the body's frame), velocity and ω, in this order, so
that what a pose measures comes first. Attitude stays on SO(3): no angle is singular.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, contracted, plain
from heft.information import PARAMETER_COUNT, inertia, skew

STATE = 13  # position, velocity, quaternion w x y z, angular velocity
ERRORS = 12  # position, attitude, velocity, angular velocity


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


@contracted
def _rotate(q, x, y, z, out):  # type: ignore[no-untyped-def]
    """Write R v of a unit quaternion: v + 2w (u × v) + 2 u × (u × v)."""
    cx = q[2] * z - q[3] * y
    cy = q[3] * x - q[1] * z
    cz = q[1] * y - q[2] * x
    out[0] = x + 2.0 * (q[0] * cx + q[2] * cz - q[3] * cy)
    out[1] = y + 2.0 * (q[0] * cy + q[3] * cx - q[1] * cz)
    out[2] = z + 2.0 * (q[0] * cz + q[1] * cy - q[2] * cx)


@contracted
def _accelerate(inverse, pi, w, wrench, out):  # type: ignore[no-untyped-def]
    """Write a − g and α in the body's frame, six numbers."""
    sx = w[1] * pi[3] - w[2] * pi[2]
    sy = w[2] * pi[1] - w[0] * pi[3]
    sz = w[0] * pi[2] - w[1] * pi[1]
    lx = pi[4] * w[0] + pi[5] * w[1] + pi[7] * w[2]
    ly = pi[5] * w[0] + pi[6] * w[1] + pi[8] * w[2]
    lz = pi[7] * w[0] + pi[8] * w[1] + pi[9] * w[2]
    f0 = wrench[0] - (w[1] * sz - w[2] * sy)
    f1 = wrench[1] - (w[2] * sx - w[0] * sz)
    f2 = wrench[2] - (w[0] * sy - w[1] * sx)
    f3 = wrench[3] - (w[1] * lz - w[2] * ly)
    f4 = wrench[4] - (w[2] * lx - w[0] * lz)
    f5 = wrench[5] - (w[0] * ly - w[1] * lx)
    for i in range(6):
        out[i] = (
            inverse[i, 0] * f0 + inverse[i, 1] * f1 + inverse[i, 2] * f2
            + inverse[i, 3] * f3 + inverse[i, 4] * f4 + inverse[i, 5] * f5
        )  # fmt: skip


@contracted
def _rate(x, inverse, pi, gravity, wrench, six, out):  # type: ignore[no-untyped-def]
    """Write the derivative of a state, and a − g and α into `six`."""
    w, q = x[10:13], x[6:10]
    _accelerate(inverse, pi, w, wrench, six)
    _rotate(q, six[0], six[1], six[2], out[3:6])
    for i in range(3):
        out[i] = x[3 + i]
        out[3 + i] += gravity[i]
        out[10 + i] = six[3 + i]
    out[6] = -0.5 * (q[1] * w[0] + q[2] * w[1] + q[3] * w[2])
    out[7] = 0.5 * (q[0] * w[0] + q[2] * w[2] - q[3] * w[1])
    out[8] = 0.5 * (q[0] * w[1] + q[3] * w[0] - q[1] * w[2])
    out[9] = 0.5 * (q[0] * w[2] + q[1] * w[1] - q[2] * w[0])


@contracted
def _advance(x, h, inverse, pi, gravity, wrench, six, work, out):  # type: ignore[no-untyped-def]
    """Write the state after a step, by the classical Runge-Kutta rule; work[5] is its middle."""
    for i in range(STATE):
        out[i] = x[i]
    for stage in range(4):
        if stage == 0:
            _rate(x, inverse, pi, gravity, wrench, six, work[0])
        else:
            reach = h if stage == 3 else 0.5 * h
            place = work[4] if stage != 2 else work[5]
            for i in range(STATE):
                place[i] = x[i] + reach * work[stage - 1, i]
            _rate(place, inverse, pi, gravity, wrench, six, work[stage])
        share = h / 6.0 if stage in (0, 3) else h / 3.0
        for i in range(STATE):
            out[i] += share * work[stage, i]
    for place in (out, work[5]):
        size = 0.0
        for i in range(6, 10):
            size += place[i] * place[i]
        for i in range(6, 10):
            place[i] /= np.sqrt(size)


@contracted
def _regressor(s, w, alpha, Y):  # type: ignore[no-untyped-def]
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


@contracted
def _turn_of_bias(w, pi, bent):  # type: ignore[no-untyped-def]
    """Write the derivative of ω×(ω×h) and ω×Iω by ω, (6, 3)."""
    unit, s, t = np.zeros(3), np.zeros(3), np.zeros(3)
    for j in range(3):
        unit[:] = 0.0
        unit[j] = 1.0
        for part in range(2):
            for vector, out in ((w, s), (unit, t)):
                if part == 0:
                    out[0] = vector[1] * pi[3] - vector[2] * pi[2]
                    out[1] = vector[2] * pi[1] - vector[0] * pi[3]
                    out[2] = vector[0] * pi[2] - vector[1] * pi[1]
                else:
                    out[0] = pi[4] * vector[0] + pi[5] * vector[1] + pi[7] * vector[2]
                    out[1] = pi[5] * vector[0] + pi[6] * vector[1] + pi[8] * vector[2]
                    out[2] = pi[7] * vector[0] + pi[8] * vector[1] + pi[9] * vector[2]
            for i in range(3):
                k, n = (i + 1) % 3, (i + 2) % 3
                bent[3 * part + i, j] = unit[k] * s[n] - unit[n] * s[k] + w[k] * t[n] - w[n] * t[k]


@contracted
def _slopes(x, six, inverse, pi, Y, A, B):  # type: ignore[no-untyped-def]
    """Write the derivatives of an error's rate: A by the error, B by parameters and wrench."""
    q, w, count = x[6:10], x[10:13], PARAMETER_COUNT
    A[:] = 0.0
    B[:] = 0.0
    _regressor(six[:3], w, six[3:], Y)
    turn, bent = np.empty((3, 3)), np.empty((6, 3))
    _turn_of_bias(w, pi, bent)
    for j in range(3):
        _rotate(q, 1.0 * (j == 0), 1.0 * (j == 1), 1.0 * (j == 2), turn[:, j])
        A[j, 6 + j] = 1.0
        A[3 + j, 9 + j] = 1.0
    for j in range(3):
        k, n = (j + 1) % 3, (j + 2) % 3
        A[3 + k, 3 + j] = -w[n]
        A[3 + n, 3 + j] = w[k]
        for i in range(3):  # −R a×
            A[6 + i, 3 + j] = -(turn[i, k] * six[n] - turn[i, n] * six[k])
    moved = np.zeros((6, 3 + count + 6))  # of a − g and α by ω, parameters and wrench
    for i in range(6):
        for k in range(6):
            for j in range(3):
                moved[i, j] -= inverse[i, k] * bent[k, j]
            for j in range(count):
                moved[i, 3 + j] -= inverse[i, k] * Y[k, j]
            moved[i, 3 + count + k] = inverse[i, k]
    for i in range(3):
        for j in range(3 + count + 6):
            linear = turn[i, 0] * moved[0, j] + turn[i, 1] * moved[1, j] + turn[i, 2] * moved[2, j]
            if j < 3:
                A[6 + i, 9 + j] = linear
                A[9 + i, 9 + j] = moved[3 + i, j]
            else:
                B[6 + i, j - 3] = linear
                B[9 + i, j - 3] = moved[3 + i, j]


@contracted
def _integrate(A, B, h, power, other, Phi, Gamma):  # type: ignore[no-untyped-def]
    """Write exp(A h) and ∫exp(A s) ds B by their series to the fourth power of h."""
    power[:] = 0.0
    for i in range(ERRORS):
        power[i, i] = 1.0
    for order in (4.0, 3.0, 2.0):
        for i in range(ERRORS):
            for j in range(ERRORS):
                total = 0.0
                for k in range(ERRORS):
                    total += A[i, k] * power[k, j]
                other[i, j] = total * h / order
            other[i, i] += 1.0
        power[:] = other
    for i in range(ERRORS):
        for j in range(ERRORS):
            total = 0.0
            for k in range(ERRORS):
                total += A[i, k] * power[k, j]
            Phi[i, j] = total * h
        Phi[i, i] += 1.0
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(6, ERRORS):  # accelerations alone
                total += power[i, k] * B[k, j]
            Gamma[i, j] = total * h


@contracted
def _transitions(states, wrench, steps, inverse, pi, gravity, after, Phi, Gamma):  # type: ignore[no-untyped-def]
    six, work = np.empty(6), np.empty((6, STATE))
    Y, A = np.empty((6, PARAMETER_COUNT)), np.empty((ERRORS, ERRORS))
    B = np.empty((ERRORS, PARAMETER_COUNT + 6))
    power, other = np.empty((ERRORS, ERRORS)), np.empty((ERRORS, ERRORS))
    for n in range(len(steps)):
        h = steps[n]
        _advance(states[n], h, inverse, pi, gravity, wrench[n], six, work, after[n])
        if len(Phi):
            _accelerate(inverse, pi, work[5, 10:13], wrench[n], six)
            _slopes(work[5], six, inverse, pi, Y, A, B)
            _integrate(A, B, h, power, other, Phi[n], Gamma[n])


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
        states: Position, velocity, quaternion, ω, shape (M, 13) [m, m/s, 1, rad/s].
        wrench: Held over each step, in the body's frame about its origin, shape (M, 6) [N, N·m].
        steps: Lengths, shape (M,) [s].
        parameters: Ten inertial parameters, shape (10,) [kg, kg·m, kg·m²].
        gravity: In the world, shape (3,) [m/s²].
    """
    count = len(steps)
    after, Phi = np.empty((count, STATE)), np.empty((count, ERRORS, ERRORS))
    Gamma = np.empty((count, ERRORS, PARAMETER_COUNT + 6))
    _run(states, wrench, steps, parameters, gravity, after, Phi, Gamma)
    parts = np.split(Gamma, [PARAMETER_COUNT], axis=2)
    return Transitions(after, Phi, np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1]))


def advance(states: Array, wrench: Array, steps: Array, parameters: Array, gravity: Array) -> Array:
    """Return the states after steps, shape (M, 13); see `transitions`."""
    after = np.empty((len(steps), STATE))
    none = np.empty((0, ERRORS, ERRORS))
    _run(states, wrench, steps, parameters, gravity, after, none, none)
    return after


def _run(
    states: Array, wrench: Array, steps: Array, parameters: Array, gravity: Array,
    after: Array, Phi: Array, Gamma: Array,
) -> None:  # fmt: skip
    inverse: Array = np.asarray(np.linalg.inv(mass_matrix(parameters)), dtype=np.float64)
    _transitions(*plain(states, wrench, steps, inverse, parameters, gravity), after, Phi, Gamma)


def retract(states: Array, errors: Array) -> Array:
    """Return states moved by errors, x ⊞ δ, shape (N, 13).

    Args:
        states: Shape (N, 13).
        errors: Of position, attitude, velocity and ω, shape (N, 12).
    """
    out = states.copy()
    out[:, :3] += errors[:, :3]
    out[:, 3:6] += errors[:, 6:9]
    out[:, 10:] += errors[:, 9:]
    out[:, 6:10] = quaternion_product(states[:, 6:10], _exponential(errors[:, 3:6]))
    out[:, 6:10] /= np.linalg.norm(out[:, 6:10], axis=1, keepdims=True)
    return out


def difference(states: Array, others: Array) -> Array:
    """Return the errors between states, δ with others ⊞ δ = states, shape (N, 12)."""
    out = np.empty((len(states), ERRORS))
    out[:, :3] = states[:, :3] - others[:, :3]
    out[:, 3:6] = turned(others[:, 6:10], states[:, 6:10])
    out[:, 6:9] = states[:, 3:6] - others[:, 3:6]
    out[:, 9:] = states[:, 10:] - others[:, 10:]
    return out


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
    after, Phi = np.empty((1, STATE)), np.empty((1, ERRORS, ERRORS))
    Gamma = np.empty((1, ERRORS, PARAMETER_COUNT + 6))
    states = np.zeros((1, STATE))
    states[0, 6] = 1.0
    _transitions(
        states, np.zeros((1, 6)), np.ones(1), np.eye(6), np.ones(10), np.zeros(3), after, Phi, Gamma
    )


KERNELS = Kernels((_transitions,), warm_up)
