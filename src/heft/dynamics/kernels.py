"""Compiled batch kernels: rows of the regressor of any tree, and their reduction.

One routine serves every robot, since the tree is data. The entry of the regressor for
channel i and body k is the channel's motion axis, carried into the frame of k, against the
6×10 block of k:

    Y_ik = S_ikᵀ A_k(v_k, a_k),    A_k π_k = I_k a_k + v_k ×* I_k v_k     [Featherstone2008]

so no intermediate matrix is formed, and only pairs where i moves k are visited. Samples lie
innermost in blocks of 64: every operation is a vector operation, and a block's rows stay in
cache until `fold` has turned them into triangles.

The momentum's rows come from the same walk, which then carries the rate of each axis as well.

Spatial vectors have their linear part first (pinocchio's order); gravity enters as an
acceleration of the base. The torque of friction and drives is given as values of columns and
where they act (`DriveColumns`), so kernels know nothing of friction models.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import FitError
from heft.information import PARAMETER_COUNT

from .tree import PRISMATIC, REVOLUTE, Tree

BLOCK = 64  # samples per vector block: eight AVX-512 registers
IntArray = NDArray[np.int64]

# Sums may be reassociated and contracted, which vectorised dot products need; NaN and
# infinity keep their meaning.
#
# Rows of a block lie 64 apart in flat arrays, and every loop runs over all 64: with constant
# distances the compiler can prove that rows do not overlap, and uses vector instructions.
_fast: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "boundscheck": False,
}
N1, N2, N3, N4, N5, N6, N7, N8, N9 = (k * BLOCK for k in range(1, 10))
DEEPEST = 8  # blocks folded at once, at most
LANES = DEEPEST * BLOCK


# π/2 in three parts of 33 bits: exact products with small integers [Cody1980].
HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21)
LARGEST_ANGLE = 1e5  # [rad] beyond which the reduction by three parts loses digits
# Minimax polynomials of sin and cos on [−π/4, π/4], coefficients as published [Moshier1989].
SIN = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
COS = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)


@njit(fastmath={"contract"}, nogil=True, cache=True, error_model="numpy")  # order matters here
def sine_cosine(angle, sine, cosine):  # type: ignore[no-untyped-def]
    """Sine and cosine of angles up to 1e5 rad, to an ulp or two, as vector operations."""
    for k in range(angle.shape[0]):
        x = angle[k]
        n = np.floor(x * (2.0 / np.pi) + 0.5)
        r = ((x - n * HALF_PI[0]) - n * HALF_PI[1]) - n * HALF_PI[2]
        z = r * r
        s = SIN[0]
        s = s * z + SIN[1]
        s = s * z + SIN[2]
        s = s * z + SIN[3]
        s = s * z + SIN[4]
        s = s * z + SIN[5]
        s = r + r * z * s
        c = COS[0]
        c = c * z + COS[1]
        c = c * z + COS[2]
        c = c * z + COS[3]
        c = c * z + COS[4]
        c = c * z + COS[5]
        c = 1.0 - 0.5 * z + z * z * c
        quadrant = n - 4.0 * np.floor(0.25 * n)
        odd = quadrant == 1.0 or quadrant == 3.0
        first = c if odd else s
        second = s if odd else c
        sine[k] = -first if quadrant >= 2.0 else first
        cosine[k] = -second if quadrant == 1.0 or quadrant == 2.0 else second


@njit(**_fast)
def _rotations(constant, sine, cosine, s, c, R):  # type: ignore[no-untyped-def]
    """Rotation of each sample: constant + sine·sin q + cosine·cos q, entries by rows."""
    for j in range(9):
        out = R[j * BLOCK : (j + 1) * BLOCK]
        x, y, z = constant[j], sine[j], cosine[j]
        for k in range(BLOCK):
            out[k] = x + y * s[k] + z * c[k]


@njit(**_fast)
def _places(constant, translation, axis, slides, s, p):  # type: ignore[no-untyped-def]
    """Place of each sample's joint in its parent; a prismatic one slides along its axis by s."""
    for j in range(3):
        p[j * BLOCK : (j + 1) * BLOCK] = translation[j]
        if slides:
            along = (
                constant[3 * j] * axis[0]
                + constant[3 * j + 1] * axis[1]
                + constant[3 * j + 2] * axis[2]
            )
            for k in range(BLOCK):
                p[j * BLOCK + k] += along * s[k]


@njit(**_fast)
def _join(above, ch, count, held):  # type: ignore[no-untyped-def]
    """List the channels that move a body, its joint's one among them; return that one's place."""
    mine = count
    for i in range(count):
        held[i] = above[i]
        if above[i] == ch:  # a mimic joint behind its master: their motions add
            mine = i
    held[mine] = ch
    return mine


@njit(**_fast)
def _carry(R, p, m, out):  # type: ignore[no-untyped-def]
    """Motion vectors m in the child's frame: ω' = Rᵀ ω, v' = Rᵀ (v + ω × p)."""
    for k in range(BLOCK):
        wx, wy, wz = m[N3 + k], m[N4 + k], m[N5 + k]
        px, py, pz = p[k], p[N1 + k], p[N2 + k]
        x = m[k] + wy * pz - wz * py
        y = m[N1 + k] + wz * px - wx * pz
        z = m[N2 + k] + wx * py - wy * px
        out[k] = R[k] * x + R[N3 + k] * y + R[N6 + k] * z
        out[N1 + k] = R[N1 + k] * x + R[N4 + k] * y + R[N7 + k] * z
        out[N2 + k] = R[N2 + k] * x + R[N5 + k] * y + R[N8 + k] * z
        out[N3 + k] = R[k] * wx + R[N3 + k] * wy + R[N6 + k] * wz
        out[N4 + k] = R[N1 + k] * wx + R[N4 + k] * wy + R[N7 + k] * wz
        out[N5 + k] = R[N2 + k] * wx + R[N5 + k] * wy + R[N8 + k] * wz


@njit(**_fast)
def _turn(u, rate, rise, V, A):  # type: ignore[no-untyped-def]
    """Add a revolute joint's own motion: A += S q̈ + v × S q̇, V += S q̇."""
    ux, uy, uz = u[0], u[1], u[2]
    for k in range(BLOCK):
        r, b = rate[k], rise[k]
        A[k] += (V[N1 + k] * uz - V[N2 + k] * uy) * r
        A[N1 + k] += (V[N2 + k] * ux - V[k] * uz) * r
        A[N2 + k] += (V[k] * uy - V[N1 + k] * ux) * r
        A[N3 + k] += ux * b + (V[N4 + k] * uz - V[N5 + k] * uy) * r
        A[N4 + k] += uy * b + (V[N5 + k] * ux - V[N3 + k] * uz) * r
        A[N5 + k] += uz * b + (V[N3 + k] * uy - V[N4 + k] * ux) * r
    for k in range(BLOCK):
        V[N3 + k] += ux * rate[k]
        V[N4 + k] += uy * rate[k]
        V[N5 + k] += uz * rate[k]


@njit(**_fast)
def _slide(u, rate, rise, V, A):  # type: ignore[no-untyped-def]
    """Add a prismatic joint's own motion: A += S q̈ + v × S q̇, V += S q̇."""
    ux, uy, uz = u[0], u[1], u[2]
    for k in range(BLOCK):
        r, b = rate[k], rise[k]
        A[k] += ux * b + (V[N4 + k] * uz - V[N5 + k] * uy) * r
        A[N1 + k] += uy * b + (V[N5 + k] * ux - V[N3 + k] * uz) * r
        A[N2 + k] += uz * b + (V[N3 + k] * uy - V[N4 + k] * ux) * r
    for k in range(BLOCK):
        V[k] += ux * rate[k]
        V[N1 + k] += uy * rate[k]
        V[N2 + k] += uz * rate[k]


@njit(**_fast)
def _block(V, A, C):  # type: ignore[no-untyped-def]
    """What a body's 6×10 block is made of: acceleration of its origin, then [α]× + [ω]×²."""
    for k in range(BLOCK):
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        ax, ay, az = A[N3 + k], A[N4 + k], A[N5 + k]
        C[k] = A[k] + wy * V[N2 + k] - wz * V[N1 + k]
        C[N1 + k] = A[N1 + k] + wz * V[k] - wx * V[N2 + k]
        C[N2 + k] = A[N2 + k] + wx * V[N1 + k] - wy * V[k]
        C[N3 + k] = -wy * wy - wz * wz
        C[N4 + k] = wx * wy - az
        C[N5 + k] = wx * wz + ay
        C[N6 + k] = wx * wy + az
        C[N7 + k] = -wx * wx - wz * wz
        C[N8 + k] = wy * wz - ax
        C[N9 + k] = wx * wz - ay
        C[N9 + N1 + k] = wy * wz + ax
        C[N9 + N2 + k] = -wx * wx - wy * wy


@njit(**_fast)
def _entries(V, A, C, m, o):  # type: ignore[no-untyped-def]
    """The ten entries of one channel's row for one body: Sᵀ A_k."""
    for k in range(BLOCK):
        lx, ly, lz = m[k], m[N1 + k], m[N2 + k]
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        cx, cy, cz = C[k], C[N1 + k], C[N2 + k]
        o[k] = lx * cx + ly * cy + lz * cz
        o[N1 + k] = C[N3 + k] * lx + C[N6 + k] * ly + C[N9 + k] * lz + cy * tz - cz * ty
        o[N2 + k] = C[N4 + k] * lx + C[N7 + k] * ly + C[N9 + N1 + k] * lz + cz * tx - cx * tz
        o[N3 + k] = C[N5 + k] * lx + C[N8 + k] * ly + C[N9 + N2 + k] * lz + cx * ty - cy * tx
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        ax, ay, az = A[N3 + k], A[N4 + k], A[N5 + k]
        dx = ty * wz - tz * wy
        dy = tz * wx - tx * wz
        dz = tx * wy - ty * wx
        o[N4 + k] = tx * ax + dx * wx
        o[N5 + k] = tx * ay + ty * ax + dx * wy + dy * wx
        o[N6 + k] = ty * ay + dy * wy
        o[N7 + k] = tx * az + tz * ax + dx * wz + dz * wx
        o[N8 + k] = ty * az + tz * ay + dy * wz + dz * wy
        o[N9 + k] = tz * az + dz * wz


@njit(**_fast)
def _copy(source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] = source[k]


@njit(**_fast)
def _scaled(factor, source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] = factor * source[k]


@njit(**_fast)
def _rows(tree, motion, first, size, slots, out, at, work):  # type: ignore[no-untyped-def]
    """Rows of one block of samples into `out[channel, slot, at:]`.

    `slots[channel, column]` says where a column goes; −1 drops it.
    """
    parent, kind, depth, channel, multiplier, constant, sine, cosine, translation, axis = tree
    sin, cos, rate, rise, gravity = motion
    R, p, V, A, S, C, still, ten, speeds, held, length = work
    speed, gain = speeds[:BLOCK], speeds[BLOCK:N2]
    s, c = speeds[N2:N3], speeds[N3:N4]
    for b in range(parent.shape[0]):
        d = depth[b]
        ch = channel[b]
        Vd = V[d]
        Ad = A[d]
        if kind[b] == 2:
            for j in range(6):
                _copy(rate[j, first:], Vd[j * BLOCK :], size)
                _copy(rise[j, first:], Ad[j * BLOCK :], size)
            for j in range(3):
                for k in range(size):
                    Ad[j * BLOCK + k] -= gravity[j, first + k]
            for i in range(6):
                held[d, i] = i
                S[d, i, :] = 0.0
                S[d, i, i * BLOCK : (i + 1) * BLOCK] = 1.0
            length[d] = 6
        else:
            Rd = R[d]
            pd = p[d]
            _copy(sin[b, first:], s, size)
            _copy(cos[b, first:], c, size)
            _rotations(constant[b], sine[b], cosine[b], s, c, Rd)
            _places(constant[b], translation[b], axis[b], kind[b] == 1, s, pd)
            count = 0
            if parent[b] < 0:
                Vd[:] = 0.0
                for j in range(3):
                    for k in range(size):
                        still[j * BLOCK + k] = -gravity[j, first + k]
                _carry(Rd, pd, still, Ad)
            else:
                _carry(Rd, pd, V[d - 1], Vd)
                _carry(Rd, pd, A[d - 1], Ad)
                count = length[d - 1]
            _scaled(multiplier[b], rate[ch, first:], speed, size)
            _scaled(multiplier[b], rise[ch, first:], gain, size)
            if kind[b] == 0:
                _turn(axis[b], speed, gain, Vd, Ad)
            else:
                _slide(axis[b], speed, gain, Vd, Ad)
            for i in range(count):
                _carry(Rd, pd, S[d - 1, i], S[d, i])
            mine = _join(held[d - 1], ch, count, held[d])
            if mine == count:
                S[d, mine, :] = 0.0
            shift = 3 if kind[b] == 0 else 0
            for j in range(3):
                S[d, mine, (shift + j) * BLOCK : (shift + j + 1) * BLOCK] += (
                    multiplier[b] * axis[b, j]
                )
            length[d] = max(count, mine + 1)
        _block(Vd, Ad, C)
        for i in range(length[d]):
            r = held[d, i]
            to = slots[r, 10 * b : 10 * b + 10]
            if to.max() < 0:
                continue
            _entries(Vd, Ad, C, S[d, i], ten)
            for j in range(10):
                if to[j] >= 0:
                    _copy(ten[j * BLOCK :], out[r, to[j]][at:], size)


@njit(**_fast)
def _workspace(depths, channels):  # type: ignore[no-untyped-def]
    return (
        np.zeros((depths, 9 * BLOCK)),
        np.zeros((depths, 3 * BLOCK)),
        np.zeros((depths, 6 * BLOCK)),
        np.zeros((depths, 6 * BLOCK)),
        np.zeros((depths, channels, 6 * BLOCK)),
        np.zeros(12 * BLOCK),
        np.zeros(6 * BLOCK),
        np.zeros(10 * BLOCK),
        np.zeros(4 * BLOCK),
        np.zeros((depths, channels), dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
    )


@njit(**_fast)
def _regress(tree, motion, begin, stop, slots, out):  # type: ignore[no-untyped-def]
    """Rows of samples begin..stop into `out[channel, column, sample]`."""
    work = _workspace(tree[2].max() + 1, slots.shape[0])
    for first in range(begin, stop, BLOCK):
        _rows(tree, motion, first, min(BLOCK, stop - first), slots, out, first, work)


@njit(**_fast)
def _efforts(tree, motion, begin, stop, slots, parameters, out):  # type: ignore[no-untyped-def]
    """Add the rows of samples begin..stop times the parameters to `out[channel, sample]`."""
    channels, columns = slots.shape
    work = _workspace(tree[2].max() + 1, channels)
    block = np.zeros((channels, columns, BLOCK))
    for first in range(begin, stop, BLOCK):
        size = min(BLOCK, stop - first)
        _rows(tree, motion, first, size, slots, block, 0, work)
        for c in range(channels):
            for j in range(columns):
                if slots[c, j] >= 0:
                    _add(parameters[j], block[c, j], out[c, first:], size)


@njit(**_fast)
def _add(factor, source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] += factor * source[k]


@njit(**_fast)
def _spin(u, factor, V, out):  # type: ignore[no-untyped-def]
    """Add how a revolute axis moves with its body: out += factor · V × (0, u)."""
    x, y, z = factor * u[0], factor * u[1], factor * u[2]
    for k in range(BLOCK):
        out[k] += V[N1 + k] * z - V[N2 + k] * y
        out[N1 + k] += V[N2 + k] * x - V[k] * z
        out[N2 + k] += V[k] * y - V[N1 + k] * x
        out[N3 + k] += V[N4 + k] * z - V[N5 + k] * y
        out[N4 + k] += V[N5 + k] * x - V[N3 + k] * z
        out[N5 + k] += V[N3 + k] * y - V[N4 + k] * x


@njit(**_fast)
def _swing(u, factor, V, out):  # type: ignore[no-untyped-def]
    """Add how a prismatic axis moves with its body: out += factor · V × (u, 0)."""
    x, y, z = factor * u[0], factor * u[1], factor * u[2]
    for k in range(BLOCK):
        out[k] += V[N4 + k] * z - V[N5 + k] * y
        out[N1 + k] += V[N5 + k] * x - V[N3 + k] * z
        out[N2 + k] += V[N3 + k] * y - V[N4 + k] * x


@njit(**_fast)
def _against(V, m, o):  # type: ignore[no-untyped-def]
    """The ten entries of a motion vector's product with a body's momentum: mᵀ I V."""
    for k in range(BLOCK):
        lx, ly, lz = m[k], m[N1 + k], m[N2 + k]
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        vx, vy, vz = V[k], V[N1 + k], V[N2 + k]
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        o[k] = lx * vx + ly * vy + lz * vz
        o[N1 + k] = ly * wz - lz * wy + vy * tz - vz * ty
        o[N2 + k] = lz * wx - lx * wz + vz * tx - vx * tz
        o[N3 + k] = lx * wy - ly * wx + vx * ty - vy * tx
        o[N4 + k] = tx * wx
        o[N5 + k] = tx * wy + ty * wx
        o[N6 + k] = ty * wy
        o[N7 + k] = tx * wz + tz * wx
        o[N8 + k] = ty * wz + tz * wy
        o[N9 + k] = tz * wz


@njit(**_fast)
def _weighs(g, m, o):  # type: ignore[no-untyped-def]
    """Add the entries of a motion vector's product with a body's weight: mᵀ I g."""
    for k in range(BLOCK):
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        gx, gy, gz = g[k], g[N1 + k], g[N2 + k]
        o[k] += m[k] * gx + m[N1 + k] * gy + m[N2 + k] * gz
        o[N1 + k] += gy * tz - gz * ty
        o[N2 + k] += gz * tx - gx * tz
        o[N3 + k] += gx * ty - gy * tx


@njit(**_fast)
def _momenta(tree, motion, begin, stop, momentum, remainder):  # type: ignore[no-untyped-def]
    """Momentum and remainder of samples begin..stop into arrays `[channel, column, sample]`.

    The walk is that of `_rows`; besides a channel's axis S it carries V × S, which is how that
    axis moves with the bodies it sits on, each joint's part with the velocity of its own body.
    """
    parent, kind, depth, channel, multiplier, constant, sine, cosine, translation, axis = tree
    sin, cos, rate, _, gravity = motion
    R, p, V, G, S, _, still, ten, speeds, held, length = _workspace(
        depth.max() + 1, momentum.shape[0]
    )
    D = np.zeros_like(S)
    unit = np.zeros(3)
    speed, s, c = speeds[:BLOCK], speeds[N2:N3], speeds[N3:N4]
    for first in range(begin, stop, BLOCK):
        size = min(BLOCK, stop - first)
        for j in range(3):
            _copy(gravity[j, first:], still[j * BLOCK :], size)
        for b in range(parent.shape[0]):
            d = depth[b]
            ch = channel[b]
            Vd = V[d]
            Gd = G[d]
            if kind[b] == 2:
                for j in range(6):
                    _copy(rate[j, first:], Vd[j * BLOCK :], size)
                _copy(still, Gd, 6 * BLOCK)
                for i in range(6):
                    held[d, i] = i
                    S[d, i, :] = 0.0
                    S[d, i, i * BLOCK : (i + 1) * BLOCK] = 1.0
                    D[d, i, :] = 0.0
                    unit[:] = 0.0
                    unit[i % 3] = 1.0
                    if i < 3:
                        _swing(unit, 1.0, Vd, D[d, i])
                    else:
                        _spin(unit, 1.0, Vd, D[d, i])
                length[d] = 6
            else:
                Rd = R[d]
                pd = p[d]
                _copy(sin[b, first:], s, size)
                _copy(cos[b, first:], c, size)
                _rotations(constant[b], sine[b], cosine[b], s, c, Rd)
                _places(constant[b], translation[b], axis[b], kind[b] == 1, s, pd)
                count = 0
                if parent[b] < 0:
                    Vd[:] = 0.0
                    _carry(Rd, pd, still, Gd)
                else:
                    _carry(Rd, pd, V[d - 1], Vd)
                    _carry(Rd, pd, G[d - 1], Gd)
                    count = length[d - 1]
                for i in range(count):
                    _carry(Rd, pd, S[d - 1, i], S[d, i])
                    _carry(Rd, pd, D[d - 1, i], D[d, i])
                mine = _join(held[d - 1], ch, count, held[d])
                if mine == count:
                    S[d, mine, :] = 0.0
                    D[d, mine, :] = 0.0
                _scaled(multiplier[b], rate[ch, first:], speed, size)
                if kind[b] == 0:
                    _spin(axis[b], multiplier[b], Vd, D[d, mine])
                else:
                    _swing(axis[b], multiplier[b], Vd, D[d, mine])
                shift = 3 if kind[b] == 0 else 0
                for j in range(3):
                    own = multiplier[b] * axis[b, j]
                    S[d, mine, (shift + j) * BLOCK : (shift + j + 1) * BLOCK] += own
                    for k in range(BLOCK):
                        Vd[(shift + j) * BLOCK + k] += axis[b, j] * speed[k]
                length[d] = max(count, mine + 1)
            for i in range(length[d]):
                r = held[d, i]
                _against(Vd, S[d, i], ten)
                for j in range(10):
                    _copy(ten[j * BLOCK :], momentum[r, 10 * b + j][first:], size)
                _against(Vd, D[d, i], ten)
                _weighs(Gd, S[d, i], ten)
                for j in range(10):
                    _copy(ten[j * BLOCK :], remainder[r, 10 * b + j][first:], size)


@njit(**_fast)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@njit(**_fast)
def _minus(w, v, a):  # type: ignore[no-untyped-def]
    for k in range(a.shape[0]):
        a[k] -= w * v[k]


@njit(**_fast)
def _reflect(R, j0, c, T, V, a, b):  # type: ignore[no-untyped-def]
    """Apply the panel's four reflections to columns c and c + 1, whose rows are a and b."""
    d0 = R[j0, c]
    d1 = R[j0 + 1, c]
    d2 = R[j0 + 2, c]
    d3 = R[j0 + 3, c]
    e0 = R[j0, c + 1]
    e1 = R[j0 + 1, c + 1]
    e2 = R[j0 + 2, c + 1]
    e3 = R[j0 + 3, c + 1]
    m = a.shape[0]
    for k in range(m):
        x = a[k]
        y = b[k]
        d0 += V[k] * x
        d1 += V[LANES + k] * x
        d2 += V[2 * LANES + k] * x
        d3 += V[3 * LANES + k] * x
        e0 += V[k] * y
        e1 += V[LANES + k] * y
        e2 += V[2 * LANES + k] * y
        e3 += V[3 * LANES + k] * y
    w0 = T[0, 0] * d0
    w1 = T[0, 1] * d0 + T[1, 1] * d1
    w2 = T[0, 2] * d0 + T[1, 2] * d1 + T[2, 2] * d2
    w3 = T[0, 3] * d0 + T[1, 3] * d1 + T[2, 3] * d2 + T[3, 3] * d3
    x0 = T[0, 0] * e0
    x1 = T[0, 1] * e0 + T[1, 1] * e1
    x2 = T[0, 2] * e0 + T[1, 2] * e1 + T[2, 2] * e2
    x3 = T[0, 3] * e0 + T[1, 3] * e1 + T[2, 3] * e2 + T[3, 3] * e3
    R[j0, c] -= w0
    R[j0 + 1, c] -= w1
    R[j0 + 2, c] -= w2
    R[j0 + 3, c] -= w3
    R[j0, c + 1] -= x0
    R[j0 + 1, c + 1] -= x1
    R[j0 + 2, c + 1] -= x2
    R[j0 + 3, c + 1] -= x3
    for k in range(m):
        p = V[k]
        q = V[LANES + k]
        r = V[2 * LANES + k]
        s = V[3 * LANES + k]
        a[k] -= w0 * p + w1 * q + w2 * r + w3 * s
        b[k] -= x0 * p + x1 * q + x2 * r + x3 * s


@njit(**_fast)
def _fold(R, rows, n, m):  # type: ignore[no-untyped-def]
    """Fold m rows into the first n columns of a triangle; see `fold`.

    Householder reflections in panels of four, in compact form `I − V T Vᵀ` [Schreiber1989].
    The reflectors' upper part is a unit vector, since R is a triangle already; each column of
    rows behind the panel is read twice and written once for four reflections.

    Both arrays may be larger than what is used of them: a part of an array has no constant
    distances, and would cost the vector instructions.
    """
    T = np.zeros((4, 4))
    w = np.zeros(4)
    V = np.zeros(4 * LANES)
    spare = np.zeros((n, 2))
    for j0 in range(0, n, 4):
        panel = min(4, n - j0)
        T[:] = 0.0
        for j in range(panel):
            col = rows[j0 + j][:m]
            below = _dot(col, col)
            alpha = R[j0 + j, j0 + j]
            if below == 0.0:
                continue  # nothing to reflect: its part of T stays zero
            beta = -np.sqrt(alpha * alpha + below)
            if alpha < 0.0:
                beta = -beta
            tau = (beta - alpha) / beta
            scale = 1.0 / (alpha - beta)
            for k in range(m):
                col[k] *= scale
            R[j0 + j, j0 + j] = beta
            for c in range(j + 1, panel):
                other = rows[j0 + c][:m]
                move = tau * (R[j0 + j, j0 + c] + _dot(col, other))
                R[j0 + j, j0 + c] -= move
                _minus(move, col, other)
            for i in range(j):
                w[i] = _dot(rows[j0 + i][:m], col)
            for i in range(j):
                total = 0.0
                for k in range(i, j):
                    total += T[i, k] * w[k]
                T[i, j] = -tau * total
            T[j, j] = tau
        if panel < 4:
            break  # the last panel has nothing behind it
        for j in range(4):
            _copy(rows[j0 + j], V[j * LANES :], m)
        c = j0 + 4
        while c + 1 < n:
            _reflect(R, j0, c, T, V, rows[c][:m], rows[c + 1][:m])
            c += 2
        if c < n:  # an odd one out: reflected beside the room to work in
            rows[n, :] = 0.0
            for i in range(n):
                spare[i, 0] = R[i, c]
                spare[i, 1] = 0.0
            _reflect(spare, j0, 0, T, V, rows[c][:m], rows[n][:m])
            for i in range(n):
                R[i, c] = spare[i, 0]


@njit(**_fast)
def fold(R, rows):  # type: ignore[no-untyped-def]
    """Fold rows into a triangle: R becomes the triangle of R stacked on the rows.

    Args:
        R: Upper triangle, shape (n, n), overwritten.
        rows: Shape (n + 1, m), m ≤ 512: column j of the rows is `rows[j]`, the last one is room
            to work in; destroyed.
    """
    _fold(R, rows, R.shape[0], rows.shape[1])


@njit(**_fast)
def _reduce(tree, motion, slots, widths, values, acts, weights, effort, chosen, deep, triangles):  # type: ignore[no-untyped-def]
    """Fold all samples into one triangle a channel.

    `weights[k] · values[acts[k, 1], sample]` goes to slot acts[k, 2] of channel acts[k, 0],
    effort[channel, sample] behind the last; `deep` blocks are folded at once.
    """
    stop = motion[0].shape[1]
    channels = slots.shape[0]
    work = _workspace(tree[2].max() + 1, channels)
    widest = widths.max() + 2
    stacked = np.zeros((channels, widest, deep * BLOCK))
    filled = 0
    for first in range(0, stop, BLOCK):
        size = min(BLOCK, stop - first)
        _rows(tree, motion, first, size, slots, stacked, filled, work)
        for k in range(acts.shape[0]):
            target = stacked[acts[k, 0], acts[k, 2]][filled:]
            _scaled(weights[k], values[acts[k, 1]][first:], target, size)
        for i in range(chosen.shape[0]):
            c = chosen[i]
            _copy(effort[c][first:], stacked[c, widths[c]][filled:], size)
        filled += size
        if filled + BLOCK > deep * BLOCK or first + size >= stop:
            for i in range(chosen.shape[0]):
                c = chosen[i]
                _fold(triangles[c], stacked[c], widths[c] + 1, filled)
            filled = 0


NOTHING = 1e-32  # share of a squared diagonal that no sum can hold


@njit(fastmath={"contract"}, nogil=True, cache=True, error_model="numpy", boundscheck=False)
def absorb(R, rows):  # type: ignore[no-untyped-def]
    """Return the triangle of R stacked on a few rows, and what the rows say against R.

    One Householder reflection a column, each through the diagonal element and the rows, whose
    diagonal stays positive. What is left of the last column when all others are zero is by how
    much the rows miss what R predicts, in units of their standard deviation before they were
    seen: the surprise `eᵀ (1 + Y P Yᵀ)⁻¹ e`, e = y − Y R⁻¹z, is its square.

    Args:
        R: `[R z; 0 ρ]`, upper triangular with a diagonal ≥ 0, shape (n, n).
        rows: `[Y y]`, of unit variance, shape (m, n).

    Returns:
        The new triangle, and the surprise [variances].
    """
    n, m = R.shape[0], rows.shape[0]
    out, left = R.copy(), rows.copy()
    tiny = np.finfo(R.dtype).tiny
    for j in range(n - 1):
        below = R[0, 0] * 0
        for k in range(m):
            below += left[k, j] * left[k, j]
        alpha = out[j, j]
        # Rows that are nothing beside the diagonal; squares of theirs could fall out of range.
        if below <= NOTHING * alpha * alpha or below <= tiny:
            for k in range(m):
                left[k, j] = 0
            continue
        beta = np.sqrt(alpha * alpha + below)
        first = -below / (alpha + beta)  # α − β, without cancellation
        factor = 2 / (first * first + below)
        for c in range(j + 1, n):
            move = first * out[j, c]
            for k in range(m):
                move += left[k, j] * left[k, c]
            move *= factor
            out[j, c] -= move * first
            for k in range(m):
                left[k, c] -= move * left[k, j]
        out[j, j] = beta
    surprise = R[0, 0] * 0
    for k in range(m):
        surprise += left[k, n - 1] * left[k, n - 1]
    out[n - 1, n - 1] = np.sqrt(out[n - 1, n - 1] * out[n - 1, n - 1] + surprise)
    return out, surprise


@njit(nogil=True, cache=True, error_model="numpy", boundscheck=False)  # order matters here
def _slip(position, widths, last, held, out):  # type: ignore[no-untyped-def]
    for j in range(position.shape[0]):
        width, x, z = widths[j], last[j], held[j] * widths[j]
        for k in range(position.shape[1]):
            z = min(max(z + (position[j, k] - x), -width), width)
            x = position[j, k]
            out[j, k] = z / width


def stops(position: Array, widths: Array, last: Array, held: Array) -> Array:
    """Return stop operators along samples: `z ← clip(z + Δx, ±width)`, as z/width.

    Args:
        position: Shape (stops, N) [rad or m].
        widths: Shape (stops,) [rad or m].
        last: Position of the sample before, shape (stops,).
        held: z/width there, shape (stops,).
    """
    prepare()
    out = np.empty(position.shape)
    x, b, before, z = _plain(position, widths, last, held)
    _slip(x, b, before, z, out)
    return out


@dataclass(frozen=True)
class Motion:
    """What the kernels read of N samples, joint-major.

    Attributes:
        sin, cos: Of each body's joint angle; for prismatic joints its position and 0,
            shape (bodies, N).
        velocity: Shape (channels, N) [rad/s or m/s].
        acceleration: Shape (channels, N) [rad/s² or m/s²].
        gravity: In the base's frame, shape (3, N) [m/s²].
    """

    sin: Array
    cos: Array
    velocity: Array
    acceleration: Array
    gravity: Array

    def part(self, cut: slice | NDArray[np.intp]) -> Motion:
        """Return some of the samples."""
        return Motion(*(np.ascontiguousarray(array[:, cut]) for array in self.tuple()))

    def tuple(self) -> tuple[Array, ...]:
        """Return the arrays in the kernels' order."""
        return (self.sin, self.cos, self.velocity, self.acceleration, self.gravity)


def quaternion_matrix(quaternion: Array) -> Array:
    """Return rotation matrices, shape (N, 3, 3), of quaternions xyzw (N, 4) of any length."""
    x, y, z, w = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    return np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], axis=-1),
            np.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], axis=-1),
            np.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], axis=-1),
        ],
        axis=-2,
    )


def motion_of(tree: Tree, gravity: Array, q: Array, v: Array, a: Array) -> Motion:
    """Return samples as the kernels read them.

    Args:
        tree: The bodies.
        gravity: In the world's frame, shape (3,) [m/s²].
        q: Positions, shape (N, tree.positions); a free base is xyz and quaternion xyzw.
        v: Velocities, shape (N, tree.channels); a free base's in its own frame, linear first.
        a: Their derivatives, shape (N, tree.channels); a free base's the spatial acceleration.
    """
    prepare()
    count = q.shape[0]
    shift = tree.positions - tree.channels
    position = np.ascontiguousarray(q.T[tree.channel + shift])
    if not tree.plain:
        position = tree.multiplier[:, None] * position + tree.offset[:, None]
    sin, cos = np.empty_like(position), np.empty_like(position)
    if max(position.max(initial=0.0), -position.min(initial=0.0)) <= LARGEST_ANGLE:
        sine_cosine(position.reshape(-1), sin.reshape(-1), cos.reshape(-1))
    else:  # also where a position is not finite: the caller's check names it
        np.sin(position, out=sin)
        np.cos(position, out=cos)
    for b in np.flatnonzero(tree.kind == PRISMATIC):
        sin[b], cos[b] = position[b], 0.0
    if tree.free_base:
        rotation = quaternion_matrix(q[:, 3:7])
        felt = np.ascontiguousarray(np.einsum("nij,i->jn", rotation, gravity))
    else:
        felt = np.empty((3, count))
        felt[:] = gravity[:, None]
    velocity, acceleration = _plain(v.T, a.T)
    return Motion(sin, cos, velocity, acceleration, felt)


@lru_cache(maxsize=16)
def compile_tree(tree: Tree) -> tuple[NDArray[Any], ...]:
    """Return the tree as the kernels read it, rotations split into constant, sin and cos."""
    prepare()
    bodies = len(tree.names)
    depth = np.zeros(bodies, dtype=np.int64)
    constant, sine, cosine = (np.zeros((bodies, 3, 3)) for _ in range(3))
    latest: dict[int, int] = {}
    for b in range(bodies):
        depth[b] = 0 if tree.parent[b] < 0 else depth[tree.parent[b]] + 1
        if tree.parent[b] >= 0 and latest[int(depth[b]) - 1] != tree.parent[b]:
            raise AssertionError("bodies are not in depth-first order")
        latest[int(depth[b])] = b
        x, y, z = tree.axis[b]
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        if tree.kind[b] == REVOLUTE:
            # Rodrigues: R = R₀ (1 + sin q [u]× + (1 − cos q) [u]×²)
            constant[b] = tree.rotation[b] @ (np.eye(3) + cross @ cross)
            sine[b] = tree.rotation[b] @ cross
            cosine[b] = -tree.rotation[b] @ cross @ cross
        else:
            constant[b] = tree.rotation[b]
    flat = [m.reshape(bodies, 9) for m in (constant, sine, cosine)]
    whole = [np.array(a, dtype=np.int64) for a in (tree.parent, tree.kind, depth, tree.channel)]
    real = [np.array(a) for a in (tree.multiplier, *flat, tree.translation, tree.axis)]
    return (*whole, *real)


@lru_cache(maxsize=16)
def full_slots(tree: Tree) -> IntArray:
    """Return the place of each column in each channel's row when all are kept, −1 for none."""
    moved = np.repeat(tree.ancestry(), PARAMETER_COUNT, axis=1)
    return np.where(moved, np.arange(moved.shape[1]), -1)


def regressor(tree: Tree, motion: Motion, out: Array | None = None, threads: int = 1) -> Array:
    """Return the rows of the bodies' parameters: `regressor @ π == inverse dynamics`.

    Args:
        tree: The bodies.
        motion: N samples.
        out: Where to write, C-contiguous, shape (channels, 10 bodies or more, N), zero where a
            channel does not move a body; made if not given. Further columns are left alone.
        threads: How many threads share the samples. The result does not depend on it.

    Returns:
        Y of shape (N, channels, columns of `out`), a view of `out`.
    """
    bodies = len(tree.names)
    count = motion.sin.shape[1]
    slots = full_slots(tree)
    if out is None:
        out = np.zeros((tree.channels, PARAMETER_COUNT * bodies, count))
    out = _writable(out)
    table, arrays = compile_tree(tree), _plain(*motion.tuple())
    share = -(-count // (threads * BLOCK)) * BLOCK if count else 0

    def work(k: int) -> None:
        _regress(table, arrays, k * share, min((k + 1) * share, count), slots, out)

    _in_threads(work, threads if count else 0, threads)
    return np.moveaxis(out, 2, 0)


def momentum(
    tree: Tree, motion: Motion, out: tuple[Array, Array] | None = None, threads: int = 1
) -> tuple[Array, Array]:
    """Return the rows of the generalised momentum and of its change without any effort.

    With `p = W₂ π = M(q) v` and `W₁ π = C(q, v)ᵀ v − g(q)` the equation of motion is

        d/dt(W₂ π) − W₁ π == inverse_dynamics(q, v, a)

    which needs no acceleration once it is integrated over time. The momentum of a body against
    a channel's axis S gives W₂. The axis moves with the body i that it sits on, so its rate
    V_i × S against the same momentum gives W₁, together with the body's weight against S: no
    difference is formed. Since Ṁ = C + Cᵀ this is the momentum of collision observers
    [DeLuca2005]. It holds for a free base as well: p is then the momentum in the base's own
    frame, and the axes turn with it.

    Args:
        tree: The bodies.
        motion: N samples; their acceleration is not looked at.
        out: Where to write, two arrays as in `regressor`; made if not given.
        threads: How many threads share the samples. The result does not depend on it.

    Returns:
        W₂ and W₁, each of shape (N, channels, columns of `out`), views of `out`.
    """
    count = motion.sin.shape[1]
    if out is None:
        shape = (tree.channels, PARAMETER_COUNT * len(tree.names), count)
        out = np.zeros(shape), np.zeros(shape)
    second, first = (_writable(array) for array in out)
    table, arrays = compile_tree(tree), _plain(*motion.tuple())
    share = -(-count // (threads * BLOCK)) * BLOCK if count else 0

    def work(k: int) -> None:
        _momenta(table, arrays, k * share, min((k + 1) * share, count), second, first)

    _in_threads(work, threads if count else 0, threads)
    return np.moveaxis(second, 2, 0), np.moveaxis(first, 2, 0)


def inverse_dynamics(tree: Tree, motion: Motion, parameters: Array) -> Array:
    """Return the efforts of bodies of these parameters: `regressor(…) @ parameters`.

    Args:
        tree: The bodies.
        motion: N samples.
        parameters: Ten a body, shape (10 bodies,).

    Returns:
        Efforts [N·m or N], shape (channels, N).
    """
    slots = np.where(parameters != 0.0, full_slots(tree), -1)
    out = np.zeros((tree.channels, motion.sin.shape[1]))
    if out.size:
        _efforts(
            compile_tree(tree),
            _plain(*motion.tuple()),
            0,
            out.shape[1],
            slots,
            *_plain(parameters),
            out,
        )
    return out


def _writable(out: Array) -> Array:
    if not (out.flags.c_contiguous and out.flags.writeable and out.dtype == np.float64):
        raise AssertionError("rows are written to contiguous doubles only")
    return out


def _in_threads(work: Callable[[int], None], tasks: int, threads: int) -> None:
    if threads <= 1 or tasks <= 1:
        for k in range(tasks):
            work(k)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(tasks)))


@dataclass(frozen=True)
class DriveColumns:
    """Columns of drives' terms at N samples, and the channels that they act on.

    Attributes:
        values: Shape (columns, N).
        acts: Channel and column of each action, shape (actions, 2).
        weights: Shape (actions,).
    """

    values: Array
    acts: IntArray
    weights: Array


@dataclass(frozen=True)
class Plan:
    """Which columns of which channels are reduced; made once for a robot and a choice.

    Attributes:
        tree: As `compile_tree` returns it.
        slots: Place of each body column in each channel's triangle, shape (channels, columns);
            −1 for columns that are not wanted.
        widths: Columns of each channel, shape (channels,).
        columns: For each channel the chosen columns it holds, as positions in the choice.
        acts: Channel, value and slot of each action of the further columns, shape (actions, 3).
        picked: Which actions of a `DriveColumns` these are, shape (actions,).
        measured: The channels to reduce.
    """

    tree: tuple[NDArray[Any], ...]
    slots: IntArray
    widths: IntArray
    columns: tuple[NDArray[np.intp], ...]
    acts: IntArray
    picked: NDArray[np.intp]
    measured: IntArray


def plan(tree: Tree, chosen: NDArray[np.intp], acts: IntArray, measured: NDArray[np.intp]) -> Plan:
    """Return the plan that reduces the chosen columns only.

    Args:
        tree: The bodies.
        chosen: Positions among all columns (ten a body, then the drives'), ascending.
        acts: Channel and column of each action of drives' columns, shape (actions, 2).
        measured: The channels to reduce.
    """
    bodies = len(tree.names)
    own = PARAMETER_COUNT * bodies
    total = own + int(acts[:, 1].max() + 1 if len(acts) else 0)
    seen = np.zeros((tree.channels, total), dtype=bool)
    seen[:, :own] = np.repeat(tree.ancestry(), PARAMETER_COUNT, axis=1)
    for channel, column in acts:
        seen[channel, own + column] = True
    wanted = np.zeros(total, dtype=bool)
    wanted[chosen] = True
    position = np.cumsum(wanted) - 1
    slots = np.full((tree.channels, own), -1, dtype=np.int64)
    widths = np.zeros(tree.channels, dtype=np.int64)
    columns, rows, picked = [], [], []
    for c in range(tree.channels):
        mine = np.flatnonzero(seen[c] & wanted)
        place = {int(j): k for k, j in enumerate(mine)}
        widths[c] = len(mine)
        columns.append(position[mine].astype(np.intp))
        for b in np.flatnonzero(seen[c, :own:PARAMETER_COUNT]):
            block = range(PARAMETER_COUNT * b, PARAMETER_COUNT * (b + 1))
            if c in measured:
                for j in block:
                    slots[c, j] = place.get(j, -1)
        for k, (channel, column) in enumerate(acts):
            if channel == c and own + column in place and c in measured:
                rows.append((c, column, place[own + int(column)]))
                picked.append(k)
    return Plan(
        compile_tree(tree),
        slots,
        widths,
        tuple(columns),
        np.array(rows, dtype=np.int64).reshape(-1, 3),
        np.array(picked, dtype=np.intp),
        np.array(measured, dtype=np.int64),
    )


def reduce(plan: Plan, motion: Motion, columns: DriveColumns, effort: Array) -> list[Array]:
    """Return the triangle `[R z; 0 ρ]` of each channel's rows, empty ones where unmeasured.

    Args:
        plan: Which columns.
        motion: N samples.
        columns: Of the drives.
        effort: τ, shape (channels, N).
    """
    widest = int(plan.widths.max()) + 1
    triangles = np.zeros((len(plan.widths), widest, widest))
    # Enough samples at a time to make panels worth while, few enough to stay in cache.
    deep = int(np.clip(2**20 // (8 * BLOCK * max(int(plan.widths.sum()), 1)), 1, DEEPEST))
    values, weights, tau = _plain(columns.values, columns.weights[plan.picked], effort)
    _reduce(
        plan.tree,
        _plain(*motion.tuple()),
        plan.slots,
        plan.widths,
        values,
        plan.acts,
        weights,
        tau,
        plan.measured,
        deep,
        triangles,
    )
    return [triangles[c, : w + 1, : w + 1].copy() for c, w in enumerate(plan.widths)]


def _plain(*arrays: Array) -> tuple[Array, ...]:
    """Return arrays as contiguous, writable doubles: anything else compiles kernels anew."""
    return tuple(
        a
        if a.flags.c_contiguous and a.flags.writeable and a.dtype == np.float64
        else np.array(a, dtype=np.float64, order="C")
        for a in arrays
    )


def is_compiled() -> bool:
    """Return whether an earlier run left compiled kernels in the cache."""
    return any(Path(_reduce.stats.cache_path).glob("kernels._reduce*.nbi"))


@njit(**_fast)
def _echo(number):  # type: ignore[no-untyped-def]
    """Return a number. Whether this is in the cache, and up to date, says whether the rest is."""
    return number


@cache
def prepare() -> None:
    """Load the compiled kernels, or compile them, one process at a time.

    Two processes that write numba's cache at once can leave an index that names the other's
    code, and wrong numbers without a word. So the first use in a process waits for its turn.
    A process that compiles rounds otherwise than one that loads what was compiled, calls being
    optimised away; so another process compiles, and the first run leaves the bytes of the second.
    """
    with _turn_taken():
        if not is_compiled() or _is_outdated():
            paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
            subprocess.run(
                [sys.executable, "-c", "from heft.dynamics.kernels import _use; _use()"],
                env=os.environ | {"PYTHONPATH": paths},
                check=False,  # whatever keeps it from compiling, this process still can
            )
        _use()


def _is_outdated() -> bool:
    """Return whether the cache is of another source or processor: then the echo compiled anew."""
    _echo(0.0)
    return bool(_echo.stats.cache_misses)


def _use() -> None:
    """Run each kernel once."""
    one = np.zeros((1, 1))
    index = np.zeros(1, dtype=np.int64)
    flat, three = np.zeros((1, 9)), np.zeros((1, 3))
    tree = (index - 1, index, index, index, np.ones(1), flat, flat, flat, three, three)
    motion = (one, one, one, one, np.zeros((3, 1)))
    slots = np.arange(10)[None, :]
    sine_cosine(np.zeros(1), np.zeros(1), np.zeros(1))
    _regress(tree, motion, 0, 1, slots, np.zeros((1, 10, 1)))
    _efforts(tree, motion, 0, 1, slots, np.zeros(10), one.copy())
    _momenta(tree, motion, 0, 1, np.zeros((1, 10, 1)), np.zeros((1, 10, 1)))
    acts = np.zeros((1, 3), dtype=np.int64)
    triangles = np.zeros((1, 11, 11))
    _reduce(tree, motion, slots, index + 10, one, acts, np.ones(1), one, index, 1, triangles)
    fold(np.zeros((2, 2)), np.zeros((3, 2)))
    absorb(np.zeros((2, 2)), np.zeros((1, 2)))
    _slip(one, np.ones(1), np.zeros(1), np.zeros(1), one.copy())
    _echo(0.0)


@contextmanager
def _turn_taken() -> Iterator[None]:
    """Hold a lock that all processes of this user share, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        yield
        return
    path = Path(tempfile.gettempdir()) / f"heft-kernels-{os.getuid()}.lock"
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:  # no place to lock: as safe as numba alone
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def require_finite(motion: Motion) -> None:
    """Raise `FitError` if smoothing left numbers that are not finite."""
    for name, array in vars(motion).items():
        if not np.isfinite(array).all():
            raise FitError(f"{name} is not finite", cure="check the log for spikes and gaps")
