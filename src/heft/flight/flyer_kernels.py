"""Compiled equations of motion of a free-flying body, their derivatives and their condensing.

The model of `flyer_model`, of one state after the other: `body` is the first moments m c (3,), the
inertia about the frame's origin (3, 3), the inverse of the mass matrix (6, 6), that times the
mixing matrix (6, n) and gravity (3,). A state is p, q, v, ω.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact

STATE = 13


@exact
def linearised(states: Array, commands: Array, step: float, body: Any, out: Any) -> None:
    """Write the states after one Runge-Kutta step of fourth order, and their derivatives.

    Args:
        states: Shape (N, 13).
        commands: Held meanwhile, shape (N, n).
        step: [s].
        body: As the module's docstring says.
        out: States (N, 13) and derivatives by state and command (N, 13, 13 + n); written.
    """
    ahead, slope = out
    count, width = len(states), STATE + commands.shape[1]
    start = np.zeros((STATE, width))
    for i in range(STATE):
        start[i, i] = 1.0
    at, moved = np.empty(STATE), np.empty((STATE, width))
    k, by, grown = np.empty(STATE), np.zeros((STATE, width)), np.empty((STATE, width))
    for n in range(count):
        at[:] = states[n]
        moved[:] = start
        ahead[n] = states[n]
        slope[n] = start
        for stage in range(4):
            weight = step / 6.0 * (1.0 if stage in (0, 3) else 2.0)
            further = step * (1.0 if stage == 2 else 0.5)
            _rate(at, commands[n], body, k, by)
            _chained(by, moved, grown)
            for i in range(STATE):
                ahead[n, i] += weight * k[i]
                at[i] = states[n, i] + further * k[i]
                for j in range(width):
                    slope[n, i, j] += weight * grown[i, j]
                    moved[i, j] = start[i, j] + further * grown[i, j]


@exact
def _chained(by: Array, moved: Array, out: Array) -> None:
    """Write `by[:, :13] @ moved` plus `by` of the commands (chain rule); zeros are skipped."""
    width = moved.shape[1]
    for i in range(STATE):
        for j in range(width):
            out[i, j] = by[i, j] if j >= STATE else 0.0
        for k in range(3, STATE):  # nothing depends on the position
            factor = by[i, k]
            if factor != 0.0:
                for j in range(width):
                    out[i, j] += factor * moved[k, j]


@exact
def _rate(x: Array, u: Array, body: Any, out: Array, by: Array) -> None:
    """Write x' and its derivatives by state and command."""
    first, inertia, compliance, push, gravity = body
    count = len(u)
    w, qx, qy, qz = x[3], x[4], x[5], x[6]
    bias, turned = np.empty(6), np.empty((6, 3))
    _bias(x[10:13], first, inertia, bias, turned)
    felt = np.empty(6)
    for i in range(6):
        total = 0.0
        for j in range(count):
            total += push[i, j] * u[j]
        for j in range(6):
            total -= compliance[i, j] * bias[j]
        felt[i] = total
    swept = np.empty((6, 3))
    for i in range(6):
        for j in range(3):
            swept[i, j] = 0.0
            for m in range(6):
                swept[i, j] -= compliance[i, m] * turned[m, j]
    rotation, bent = np.empty((3, 3)), np.empty((3, 4))
    _rotation(w, qx, qy, qz, rotation)
    _rotated_slope(w, qx, qy, qz, felt, bent)
    out[0], out[1], out[2] = x[7], x[8], x[9]
    by[0, 7] = by[1, 8] = by[2, 9] = 1.0
    _turning_rate(x, out, by)
    for i in range(3):
        out[7 + i] = gravity[i]
        out[10 + i] = felt[3 + i]
        for j in range(4):
            by[7 + i, 3 + j] = bent[i, j]
        for j in range(3):
            out[7 + i] += rotation[i, j] * felt[j]
            by[10 + i, 10 + j] = swept[3 + i, j]
            by[7 + i, 10 + j] = 0.0
            for m in range(3):
                by[7 + i, 10 + j] += rotation[i, m] * swept[m, j]
        for j in range(count):
            by[10 + i, STATE + j] = push[3 + i, j]
            by[7 + i, STATE + j] = 0.0
            for m in range(3):
                by[7 + i, STATE + j] += rotation[i, m] * push[m, j]


@exact
def _turning_rate(x: Array, out: Array, by: Array) -> None:
    """Write q' = ½ q ∘ (0, ω) and its derivatives."""
    w, qx, qy, qz = x[3], x[4], x[5], x[6]
    sx, sy, sz = x[10], x[11], x[12]
    out[3] = 0.5 * (-qx * sx - qy * sy - qz * sz)
    out[4] = 0.5 * (w * sx + qy * sz - qz * sy)
    out[5] = 0.5 * (w * sy + qz * sx - qx * sz)
    out[6] = 0.5 * (w * sz + qx * sy - qy * sx)
    by[3, 4], by[3, 5], by[3, 6] = -0.5 * sx, -0.5 * sy, -0.5 * sz
    by[4, 3], by[4, 5], by[4, 6] = 0.5 * sx, 0.5 * sz, -0.5 * sy
    by[5, 3], by[5, 4], by[5, 6] = 0.5 * sy, -0.5 * sz, 0.5 * sx
    by[6, 3], by[6, 4], by[6, 5] = 0.5 * sz, 0.5 * sy, -0.5 * sx
    by[3, 10], by[3, 11], by[3, 12] = -0.5 * qx, -0.5 * qy, -0.5 * qz
    by[4, 10], by[4, 11], by[4, 12] = 0.5 * w, -0.5 * qz, 0.5 * qy
    by[5, 10], by[5, 11], by[5, 12] = 0.5 * qz, 0.5 * w, -0.5 * qx
    by[6, 10], by[6, 11], by[6, 12] = -0.5 * qy, 0.5 * qx, 0.5 * w


@exact
def _bias(s: Array, first: Array, inertia: Array, out: Array, by: Array) -> None:
    """Write b(ω) = [m ω × (ω × c); ω × I ω] and its derivative, shape (6, 3)."""
    along = first[0] * s[0] + first[1] * s[1] + first[2] * s[2]
    square = s[0] * s[0] + s[1] * s[1] + s[2] * s[2]
    spun = np.empty(3)
    for i in range(3):
        out[i] = s[i] * along - first[i] * square
        spun[i] = inertia[i, 0] * s[0] + inertia[i, 1] * s[1] + inertia[i, 2] * s[2]
        for j in range(3):
            by[i, j] = s[i] * first[j] - 2.0 * first[i] * s[j] + (along if i == j else 0.0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[3 + i] = s[j] * spun[k] - s[k] * spun[j]
        for m in range(3):
            by[3 + i, m] = s[j] * inertia[k, m] - s[k] * inertia[j, m]
        by[3 + i, j] += spun[k]
        by[3 + i, k] -= spun[j]


@exact
def _rotation(w: float, x: float, y: float, z: float, out: Array) -> None:
    size = w * w - x * x - y * y - z * z
    out[0, 0], out[1, 1], out[2, 2] = size + 2.0 * x * x, size + 2.0 * y * y, size + 2.0 * z * z
    out[0, 1], out[1, 0] = 2.0 * (x * y - w * z), 2.0 * (x * y + w * z)
    out[0, 2], out[2, 0] = 2.0 * (x * z + w * y), 2.0 * (x * z - w * y)
    out[1, 2], out[2, 1] = 2.0 * (y * z - w * x), 2.0 * (y * z + w * x)


@exact
def _rotated_slope(w: float, x: float, y: float, z: float, a: Array, out: Array) -> None:
    """Write d(R a)/dq, shape (3, 4)."""
    v = (x, y, z)
    along = x * a[0] + y * a[1] + z * a[2]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i, 0] = 2.0 * (w * a[i] + v[j] * a[k] - v[k] * a[j])
        for m in range(3):
            out[i, 1 + m] = 2.0 * (v[i] * a[m] - a[i] * v[m])
        out[i, 1 + i] += 2.0 * along
        out[i, 1 + j] += 2.0 * w * a[k]
        out[i, 1 + k] -= 2.0 * w * a[j]


@exact
def condensed(slope: Array, gaps: Array, weights: Array, drift: Array, out: Any) -> None:
    """Write the sensitivities of states, and of their weighted errors, to all commands.

    Args:
        slope: Derivatives of each step by state and command, shape (N, 13, 13 + n).
        gaps: By which each step misses the next state, shape (N, 13).
        weights: Derivatives of weighted errors, shape (N + 1, e, 13).
        drift: Changes of the states at unchanged commands, shape (N + 1, 13); the first is given,
            the others are written.
        out: Sensitivities to commands, of states (N + 1, 13, N n) and of errors (N + 1, e, N n),
            zero where nothing is written.
    """
    moves, errors = out
    count, n = len(slope), slope.shape[2] - STATE
    for k in range(count):
        width = k * n
        for i in range(STATE):
            drift[k + 1, i] = gaps[k, i]
            for j in range(STATE):
                factor = slope[k, i, j]
                if factor != 0.0:
                    drift[k + 1, i] += factor * drift[k, j]
                    for c in range(width):
                        moves[k + 1, i, c] += factor * moves[k, j, c]
            for j in range(n):
                moves[k + 1, i, width + j] = slope[k, i, STATE + j]
        for i in range(weights.shape[1]):
            for j in range(STATE):
                factor = weights[k + 1, i, j]
                if factor != 0.0:
                    for c in range(width + n):
                        errors[k + 1, i, c] += factor * moves[k + 1, j, c]


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    body = np.zeros(3), np.eye(3), np.eye(6), np.eye(6), np.zeros(3)
    states, commands = np.zeros((2, STATE)), np.zeros((2, 6))
    states[:, 3] = 1.0
    slope = np.zeros((2, STATE, STATE + 6))
    linearised(states, commands, 0.1, body, (np.zeros((2, STATE)), slope))
    moved = np.zeros((3, STATE, 12)), np.zeros((3, 12, 12))
    condensed(slope, np.zeros((2, STATE)), np.zeros((3, 12, STATE)), np.zeros((3, STATE)), moved)


KERNELS = Kernels((linearised, condensed), warm_up)
