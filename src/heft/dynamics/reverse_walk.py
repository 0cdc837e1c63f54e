"""Compiled reverse pass of the regressor: what seeds S do to Σ S·Y, by position, speed, rise.

Reverse mode of `walk`'s rows [Griewank2008]. Two identities keep it short. Ten seeds
g of one row are the parameters of a body, so their derivative by the row's axis is the wrench that
this body would take,

    ∂(Σ g·Y_ik)/∂S_i = A_k(v_k, a_k) g = I(g) a_k + v_k ×* I(g) v_k

and a joint's position moves whatever is carried over it along its axis S: with `m' = X(q) m`,

    ∂m'/∂q = −S × m'

so neither rotations nor places have adjoints of their own. Wrenches return to the parent by the
transpose of what carried the motion there. All that the forward pass found is kept by body, apart
from the adjoints: entries of Y that are zero by the tree's structure must never hold seeds.
"""

from __future__ import annotations

import numpy as np

from heft.compiled import reassociated

from .walk import (
    BLOCK,
    N1,
    N2,
    N3,
    N4,
    N5,
    N6,
    N7,
    N8,
    N9,
    _block,
    _carry,
    _copy,
    _join,
    _places,
    _return,
    _rotations,
    _scaled,
    _slide,
    _turn,
    _wanted,
)

N10, N11, N12, N13, N14, N15, N16, N17 = (k * BLOCK for k in range(10, 18))


@reassociated
def _wrench(V, A, C, g, m, back, own):  # type: ignore[no-untyped-def]
    """Add a row's wrench to its axis' adjoint `back`, and the axis' part to those of `own`."""
    for k in range(BLOCK):
        lx, ly, lz = m[k], m[N1 + k], m[N2 + k]
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        cx, cy, cz = C[k], C[N1 + k], C[N2 + k]
        hx, hy, hz = g[N1 + k], g[N2 + k], g[N3 + k]
        back[k] += g[k] * cx + C[N3 + k] * hx + C[N4 + k] * hy + C[N5 + k] * hz
        back[N1 + k] += g[k] * cy + C[N6 + k] * hx + C[N7 + k] * hy + C[N8 + k] * hz
        back[N2 + k] += g[k] * cz + C[N9 + k] * hx + C[N10 + k] * hy + C[N11 + k] * hz
        own[k] += g[k] * lx + ty * hz - tz * hy
        own[N1 + k] += g[k] * ly + tz * hx - tx * hz
        own[N2 + k] += g[k] * lz + tx * hy - ty * hx
        back[N3 + k] += hy * cz - hz * cy
        back[N4 + k] += hz * cx - hx * cz
        back[N5 + k] += hx * cy - hy * cx
        own[N3 + k] += lx * hx
        own[N4 + k] += lx * hy
        own[N5 + k] += lx * hz
        own[N6 + k] += ly * hx
        own[N7 + k] += ly * hy
        own[N8 + k] += ly * hz
        own[N9 + k] += lz * hx
        own[N10 + k] += lz * hy
        own[N11 + k] += lz * hz
    for k in range(BLOCK):
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        ax, ay, az = A[N3 + k], A[N4 + k], A[N5 + k]
        xx, xy, yy = g[N4 + k], g[N5 + k], g[N6 + k]
        xz, yz, zz = g[N7 + k], g[N8 + k], g[N9 + k]
        ex = xx * wx + xy * wy + xz * wz
        ey = xy * wx + yy * wy + yz * wz
        ez = xz * wx + yz * wy + zz * wz
        back[N3 + k] += xx * ax + xy * ay + xz * az + wy * ez - wz * ey
        back[N4 + k] += xy * ax + yy * ay + yz * az + wz * ex - wx * ez
        back[N5 + k] += xz * ax + yz * ay + zz * az + wx * ey - wy * ex
        own[N12 + k] += xx * tx + xy * ty + xz * tz
        own[N13 + k] += xy * tx + yy * ty + yz * tz
        own[N14 + k] += xz * tx + yz * ty + zz * tz
        dx = ty * wz - tz * wy
        dy = tz * wx - tx * wz
        dz = tx * wy - ty * wx
        own[N15 + k] += xx * dx + xy * dy + xz * dz + ey * tz - ez * ty
        own[N16 + k] += xy * dx + yy * dy + yz * dz + ez * tx - ex * tz
        own[N17 + k] += xz * dx + yz * dy + zz * dz + ex * ty - ey * tx


@reassociated
def _onto_motion(V, own, Vb, Ab):  # type: ignore[no-untyped-def]
    """Add the adjoints of a body's velocity and acceleration, in reverse of `_block`."""
    for k in range(BLOCK):
        vx, vy, vz = V[k], V[N1 + k], V[N2 + k]
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        cx, cy, cz = own[k], own[N1 + k], own[N2 + k]
        Ab[k] += cx
        Ab[N1 + k] += cy
        Ab[N2 + k] += cz
        Vb[k] += cy * wz - cz * wy
        Vb[N1 + k] += cz * wx - cx * wz
        Vb[N2 + k] += cx * wy - cy * wx
        Vb[N3 + k] += own[N15 + k] + vy * cz - vz * cy
        Vb[N4 + k] += own[N16 + k] + vz * cx - vx * cz
        Vb[N5 + k] += own[N17 + k] + vx * cy - vy * cx
    for k in range(BLOCK):
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        xx, xy, xz = own[N3 + k], own[N4 + k], own[N5 + k]
        yx, yy, yz = own[N6 + k], own[N7 + k], own[N8 + k]
        zx, zy, zz = own[N9 + k], own[N10 + k], own[N11 + k]
        Ab[N3 + k] += own[N12 + k] + zy - yz
        Ab[N4 + k] += own[N13 + k] + xz - zx
        Ab[N5 + k] += own[N14 + k] + yx - xy
        # [ω]×² is ωωᵀ − ω²1.
        Vb[N3 + k] += (xy + yx) * wy + (xz + zx) * wz - 2.0 * (yy + zz) * wx
        Vb[N4 + k] += (xy + yx) * wx + (yz + zy) * wz - 2.0 * (xx + zz) * wy
        Vb[N5 + k] += (xz + zx) * wx + (yz + zy) * wy - 2.0 * (xx + yy) * wz


@reassociated
def _turned(u, rate, V, Vb, Ab, of_rate, of_rise):  # type: ignore[no-untyped-def]
    """Adjoint of a revolute joint's own motion: leaves in Vb that of the carried velocity."""
    ux, uy, uz = u[0], u[1], u[2]
    for k in range(BLOCK):
        px = uy * Ab[N2 + k] - uz * Ab[N1 + k]
        py = uz * Ab[k] - ux * Ab[N2 + k]
        pz = ux * Ab[N1 + k] - uy * Ab[k]
        sx = uy * Ab[N5 + k] - uz * Ab[N4 + k]
        sy = uz * Ab[N3 + k] - ux * Ab[N5 + k]
        sz = ux * Ab[N4 + k] - uy * Ab[N3 + k]
        of_rise[k] = ux * Ab[N3 + k] + uy * Ab[N4 + k] + uz * Ab[N5 + k]
        of_rate[k] = (
            ux * Vb[N3 + k]
            + uy * Vb[N4 + k]
            + uz * Vb[N5 + k]
            + V[k] * px
            + V[N1 + k] * py
            + V[N2 + k] * pz
            + V[N3 + k] * sx
            + V[N4 + k] * sy
            + V[N5 + k] * sz
        )
        Vb[k] += rate[k] * px
        Vb[N1 + k] += rate[k] * py
        Vb[N2 + k] += rate[k] * pz
        Vb[N3 + k] += rate[k] * sx
        Vb[N4 + k] += rate[k] * sy
        Vb[N5 + k] += rate[k] * sz


@reassociated
def _slid(u, rate, V, Vb, Ab, of_rate, of_rise):  # type: ignore[no-untyped-def]
    """Adjoint of a prismatic joint's own motion: leaves in Vb that of the carried velocity."""
    ux, uy, uz = u[0], u[1], u[2]
    for k in range(BLOCK):
        px = uy * Ab[N2 + k] - uz * Ab[N1 + k]
        py = uz * Ab[k] - ux * Ab[N2 + k]
        pz = ux * Ab[N1 + k] - uy * Ab[k]
        of_rise[k] = ux * Ab[k] + uy * Ab[N1 + k] + uz * Ab[N2 + k]
        of_rate[k] = (
            ux * Vb[k]
            + uy * Vb[N1 + k]
            + uz * Vb[N2 + k]
            + V[N3 + k] * px
            + V[N4 + k] * py
            + V[N5 + k] * pz
        )
        Vb[N3 + k] += rate[k] * px
        Vb[N4 + k] += rate[k] * py
        Vb[N5 + k] += rate[k] * pz


@reassociated
def _moved(u, slides, m, f, out):  # type: ignore[no-untyped-def]
    """Subtract fᵀ (S × m): what the joint's position does to a carried motion vector m."""
    ux, uy, uz = u[0], u[1], u[2]
    if slides:
        for k in range(BLOCK):
            wx, wy, wz = m[N3 + k], m[N4 + k], m[N5 + k]
            out[k] -= (
                ux * (wy * f[N2 + k] - wz * f[N1 + k])
                + uy * (wz * f[k] - wx * f[N2 + k])
                + uz * (wx * f[N1 + k] - wy * f[k])
            )
    else:
        for k in range(BLOCK):
            vx, vy, vz = m[k], m[N1 + k], m[N2 + k]
            wx, wy, wz = m[N3 + k], m[N4 + k], m[N5 + k]
            x = vy * f[N2 + k] - vz * f[N1 + k] + wy * f[N5 + k] - wz * f[N4 + k]
            y = vz * f[k] - vx * f[N2 + k] + wz * f[N3 + k] - wx * f[N5 + k]
            z = vx * f[N1 + k] - vy * f[k] + wx * f[N4 + k] - wy * f[N3 + k]
            out[k] -= ux * x + uy * y + uz * z


@reassociated
def _forth(tree, motion, b, block, kept, work):  # type: ignore[no-untyped-def]
    parent, kind, _, channel, multiplier, constant, sine, cosine, translation, axis = tree
    _, _, rate, rise, gravity = motion
    R, p, V, A, carried_V, carried_A, S, moving, length = kept
    s, c, speed, gain, still = work[0], work[1], work[2], work[3], work[4]
    first, size = block
    _copy(motion[0][b, first:], s, size)
    _copy(motion[1][b, first:], c, size)
    _rotations(constant[b], sine[b], cosine[b], s, c, R[b])
    _places(constant[b], translation[b], axis[b], kind[b] == 1, s, p[b])
    above, count = parent[b], 0
    if above < 0:
        carried_V[b, :] = 0.0
        still[:] = 0.0
        for j in range(3):
            for k in range(size):
                still[j * BLOCK + k] = -gravity[j, first + k]
        _carry(R[b], p[b], still, carried_A[b])
    else:
        _carry(R[b], p[b], V[above], carried_V[b])
        _carry(R[b], p[b], A[above], carried_A[b])
        count = length[above]
        for i in range(count):
            _carry(R[b], p[b], S[above, i], S[b, i])
    _copy(carried_V[b], V[b], 6 * BLOCK)
    _copy(carried_A[b], A[b], 6 * BLOCK)
    _scaled(multiplier[b], rate[channel[b], first:], speed, size)
    _scaled(multiplier[b], rise[channel[b], first:], gain, size)
    if kind[b] == 0:
        _turn(axis[b], speed, gain, V[b], A[b])
    else:
        _slide(axis[b], speed, gain, V[b], A[b])
    mine = _join(moving[above], channel[b], count, moving[b])
    if mine == count:
        S[b, mine, :] = 0.0
    shift = 3 if kind[b] == 0 else 0
    for j in range(3):
        for k in range((shift + j) * BLOCK, (shift + j + 1) * BLOCK):
            S[b, mine, k] += multiplier[b] * axis[b, j]
    length[b] = max(count, mine + 1)


@reassociated
def _back(tree, motion, b, block, seeded, room, out):  # type: ignore[no-untyped-def]
    parent, kind, _, channel, multiplier, _, _, _, _, axis = tree
    (first, size), (slots, wanted, seeds), (kept, adjoint, work) = block, seeded, room
    R, p, V, A, carried_V, carried_A, S, moving, length = kept
    Vb, Ab, Sb = adjoint
    speed, of_rise, of_rate, of_place = work[2], work[3], work[5], work[6]
    C, own, ten = work[7], work[8], work[9]
    _block(V[b], A[b], C)
    own[:] = 0.0
    for i in range(length[b]):
        row = moving[b, i]
        if not wanted[row, b]:
            continue
        to = slots[row, 10 * b :]
        for j in range(10):
            if to[j] >= 0:
                _copy(seeds[row, to[j]][first:], ten[j * BLOCK :], size)
            else:
                ten[j * BLOCK : (j + 1) * BLOCK] = 0.0
        _wrench(V[b], A[b], C, ten, S[b, i], Sb[b, i], own)
    _onto_motion(V[b], own, Vb[b], Ab[b])
    _scaled(multiplier[b], motion[2][channel[b], first:], speed, size)
    if kind[b] == 0:
        _turned(axis[b], speed, carried_V[b], Vb[b], Ab[b], of_rate, of_rise)
    else:
        _slid(axis[b], speed, carried_V[b], Vb[b], Ab[b], of_rate, of_rise)
    of_place[:] = 0.0
    slides = kind[b] == 1
    _moved(axis[b], slides, carried_V[b], Vb[b], of_place)
    _moved(axis[b], slides, carried_A[b], Ab[b], of_place)
    for i in range(length[b]):  # its own axis stays where it is: S × S = 0
        _moved(axis[b], slides, S[b, i], Sb[b, i], of_place)
    above = parent[b]
    if above >= 0:
        _return(R[b], p[b], Vb[b], Vb[above])
        _return(R[b], p[b], Ab[b], Ab[above])
        for i in range(length[above]):
            _return(R[b], p[b], Sb[b, i], Sb[above, i])
    for k in range(size):
        out[0][channel[b], first + k] += multiplier[b] * of_place[k]
        out[1][channel[b], first + k] += multiplier[b] * of_rate[k]
        out[2][channel[b], first + k] += multiplier[b] * of_rise[k]


@reassociated(allocates=True)
def pull(tree, motion, slots, seeds, deepest, out):  # type: ignore[no-untyped-def]
    """Add ∂(Σ seeds·Y)/∂(q, v, a) of all samples to three arrays `[channel, sample]`.

    `slots[channel, column]` says which of `seeds[channel, slot, sample]` is a column's; −1: none.
    At most `deepest` channels move one body; the base is fixed.
    """
    bodies = tree[0].shape[0]
    six = 6 * BLOCK
    kept = (
        np.zeros((bodies, 9 * BLOCK)),
        np.zeros((bodies, 3 * BLOCK)),
        np.zeros((bodies, six)),
        np.zeros((bodies, six)),
        np.zeros((bodies, six)),
        np.zeros((bodies, six)),
        np.zeros((bodies, deepest, six)),
        np.zeros((bodies, deepest + 1), dtype=np.int64),
        np.zeros(bodies, dtype=np.int64),
    )
    adjoint = (
        np.zeros((bodies, six)),
        np.zeros((bodies, six)),
        np.zeros((bodies, deepest, six)),
    )
    work = (
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.zeros(six),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.zeros(12 * BLOCK),
        np.zeros(18 * BLOCK),  # what axes add to: c, [α]× + [ω]×², α, ω
        np.zeros(10 * BLOCK),
    )
    seeded, stop = (slots, _wanted(tree, slots), seeds), motion[0].shape[1]
    for first in range(0, stop, BLOCK):
        block = (first, min(BLOCK, stop - first))
        for b in range(bodies):
            _forth(tree, motion, b, block, kept, work)
        adjoint[0][:] = 0.0
        adjoint[1][:] = 0.0
        adjoint[2][:] = 0.0
        for b in range(bodies - 1, -1, -1):
            _back(tree, motion, b, block, seeded, (kept, adjoint, work), out)
