"""Compiled recursion over a tree of bodies: rows of the regressor and of the momentum.

One routine serves every robot, since the tree is data. The entry of the regressor for
channel i and body k is the channel's motion axis, transformed to the frame of k, against the
6×10 block of k:

    Y_ik = S_ikᵀ A_k(v_k, a_k),    A_k π_k = I_k a_k + v_k ×* I_k v_k     [Featherstone2008]

so no intermediate matrix is formed, and only pairs where i moves k are visited. Samples lie
innermost in blocks of 64: every operation is a vector operation, and a block's rows stay in
cache until `fold` has reduced them to triangles.

The momentum's rows come from the same recursion, which then propagates the rate of each axis too.

Spatial vectors have their linear part first (pinocchio's order); gravity enters as an
acceleration of the base. Rows of a block lie 64 apart in flat arrays, and every loop runs over
all 64: with constant distances the compiler can prove that rows do not overlap, and uses vector
instructions.
"""

from __future__ import annotations

import numpy as np

from heft.compiled import contracted, reassociated
from heft.information import folding

BLOCK = 64  # samples per vector block: eight AVX-512 registers
N1, N2, N3, N4, N5, N6, N7, N8, N9 = (k * BLOCK for k in range(1, 10))
DEEPEST = folding.LANES // BLOCK  # blocks folded at once, at most

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


@contracted
def sine_cosine(angle, sine, cosine):  # type: ignore[no-untyped-def]
    """Sine and cosine of angles up to 1e5 rad, to an ulp or two, as vector operations.

    Args:
        angle: Shape (n,) [rad].
        sine: Shape (n,), written.
        cosine: Shape (n,), written.
    """
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


@reassociated
def _rotations(constant, sine, cosine, s, c, R):  # type: ignore[no-untyped-def]
    """Rotation of each sample: constant + sine·sin q + cosine·cos q, entries by rows."""
    for j in range(9):
        out = R[j * BLOCK : (j + 1) * BLOCK]
        x, y, z = constant[j], sine[j], cosine[j]
        for k in range(BLOCK):
            out[k] = x + y * s[k] + z * c[k]


@reassociated
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


@reassociated
def _join(above, ch, count, moving):  # type: ignore[no-untyped-def]
    """List the channels that move a body, its own joint's included; return that one's place."""
    mine = count
    for i in range(count):
        moving[i] = above[i]
        if above[i] == ch:  # a mimic joint behind its master: their motions add
            mine = i
    moving[mine] = ch
    return mine


@reassociated
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


@reassociated
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


@reassociated
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


@reassociated
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


@reassociated
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


@reassociated
def _copy(source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] = source[k]


@reassociated
def _hand_out(ten, to, out, at, size):  # type: ignore[no-untyped-def]
    for j in range(10):
        if to[j] >= 0:
            _copy(ten[j * BLOCK :], out[to[j], at:], size)


@reassociated
def _scaled(factor, source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] = factor * source[k]


@reassociated
def _place(tree, motion, b, block, work):  # type: ignore[no-untyped-def]
    _, kind, depth, _, _, constant, sine, cosine, translation, axis = tree
    (first, size), R, p, speeds = block, work[0][depth[b]], work[1][depth[b]], work[8]
    s, c = speeds[N2:N3], speeds[N3:N4]
    _copy(motion[0][b, first:], s, size)
    _copy(motion[1][b, first:], c, size)
    _rotations(constant[b], sine[b], cosine[b], s, c, R)
    _places(constant[b], translation[b], axis[b], kind[b] == 1, s, p)


@reassociated
def _float(d, S, moving, length):  # type: ignore[no-untyped-def]
    for i in range(6):
        moving[d, i] = i
        S[d, i, :] = 0.0
        S[d, i, i * BLOCK : (i + 1) * BLOCK] = 1.0
    length[d] = 6


@reassociated
def _axes(tree, b, work):  # type: ignore[no-untyped-def]
    """Carry the axes that move a body into its frame, add its own; return that one's place."""
    parent, kind, depth, channel, multiplier, _, _, _, _, axis = tree
    R, p, _, _, S, _, _, _, _, moving, length = work
    d = depth[b]
    count = 0 if parent[b] < 0 else length[d - 1]
    for i in range(count):
        _carry(R[d], p[d], S[d - 1, i], S[d, i])
    mine = _join(moving[d - 1], channel[b], count, moving[d])
    if mine == count:
        S[d, mine, :] = 0.0
    shift = 3 if kind[b] == 0 else 0
    for j in range(3):
        own = multiplier[b] * axis[b, j]
        for k in range((shift + j) * BLOCK, (shift + j + 1) * BLOCK):
            S[d, mine, k] += own
    length[d] = max(count, mine + 1)
    return mine


@reassociated
def _move(tree, motion, b, block, work):  # type: ignore[no-untyped-def]
    """Velocity and acceleration of a body, that of gravity taken off, from those of its parent."""
    parent, kind, depth, channel, multiplier, _, _, _, _, axis = tree
    _, _, rate, rise, gravity = motion
    R, p, V, A, _, C, still, _, speeds, _, _ = work
    (first, size), d, ch = block, depth[b], channel[b]
    speed, gain, Vd, Ad = speeds[:BLOCK], speeds[BLOCK:N2], V[d], A[d]
    if kind[b] == 2:
        for j in range(6):
            _copy(rate[j, first:], Vd[j * BLOCK :], size)
            _copy(rise[j, first:], Ad[j * BLOCK :], size)
        for j in range(3):
            for k in range(size):
                Ad[j * BLOCK + k] -= gravity[j, first + k]
    else:
        _place(tree, motion, b, block, work)
        if parent[b] < 0:
            Vd[:] = 0.0
            for j in range(3):
                for k in range(size):
                    still[j * BLOCK + k] = -gravity[j, first + k]
            _carry(R[d], p[d], still, Ad)
        else:
            _carry(R[d], p[d], V[d - 1], Vd)
            _carry(R[d], p[d], A[d - 1], Ad)
        _scaled(multiplier[b], rate[ch, first:], speed, size)
        _scaled(multiplier[b], rise[ch, first:], gain, size)
        if kind[b] == 0:
            _turn(axis[b], speed, gain, Vd, Ad)
        else:
            _slide(axis[b], speed, gain, Vd, Ad)
    _block(Vd, Ad, C)


@reassociated(allocates=True)
def _wanted(tree, lines):  # type: ignore[no-untyped-def]
    """Return what goes somewhere: rows [channel, body], then bodies and those that they hang on."""
    parent, channels = tree[0], lines.shape[0]
    wanted = np.zeros((channels + 1, len(parent) + 1), dtype=np.bool_)  # the last is the world's
    for b in range(len(parent) - 1, -1, -1):
        for c in range(channels):
            for j in range(10 * b, 10 * b + 10):
                wanted[c, b] |= lines[c, j] >= 0
            wanted[channels, b] |= wanted[c, b]
        wanted[channels, parent[b]] |= wanted[channels, b]
    return wanted


@reassociated
def _rows(tree, motion, block, lines, wanted, out, at, work):  # type: ignore[no-untyped-def]
    """Rows of one block of samples into `out[line, at:]`.

    `lines[channel, column]` says where a column goes; −1 drops it. See `_wanted`.
    """
    _, kind, depth, _, _, _, _, _, _, _ = tree
    _, _, V, A, S, C, _, ten, _, moving, length = work
    size = block[1]
    for b in range(depth.shape[0]):
        if not wanted[-1, b]:
            continue
        d = depth[b]
        Vd, Ad = V[d], A[d]
        _move(tree, motion, b, block, work)
        if kind[b] == 2:
            _float(d, S, moving, length)
        else:
            _axes(tree, b, work)
        for i in range(length[d]):
            c = moving[d, i]
            if not wanted[c, b]:
                continue
            _entries(Vd, Ad, C, S[d, i], ten)
            _hand_out(ten, lines[c, 10 * b :], out, at, size)


@reassociated(allocates=True)
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


@reassociated(allocates=True)
def regress(tree, motion, lines, out):  # type: ignore[no-untyped-def]
    """Write the regressor rows of all samples to `out[line, sample]`."""
    work, stop = _workspace(tree[2].max() + 1, lines.shape[0]), motion[0].shape[1]
    wanted = _wanted(tree, lines)
    for first in range(0, stop, BLOCK):
        _rows(tree, motion, (first, min(BLOCK, stop - first)), lines, wanted, out, first, work)


@reassociated
def _press(V, A, C, own, F):  # type: ignore[no-untyped-def]
    """Wrench that moves a body of ten parameters: A_k π_k."""
    m, hx, hy, hz, xx = own[0], own[1], own[2], own[3], own[4]
    xy, yy, xz, yz, zz = own[5], own[6], own[7], own[8], own[9]
    for k in range(BLOCK):
        cx, cy, cz = C[k], C[N1 + k], C[N2 + k]
        F[k] = m * cx + C[N3 + k] * hx + C[N4 + k] * hy + C[N5 + k] * hz
        F[N1 + k] = m * cy + C[N6 + k] * hx + C[N7 + k] * hy + C[N8 + k] * hz
        F[N2 + k] = m * cz + C[N9 + k] * hx + C[N9 + N1 + k] * hy + C[N9 + N2 + k] * hz
        wx, wy, wz = V[N3 + k], V[N4 + k], V[N5 + k]
        ax, ay, az = A[N3 + k], A[N4 + k], A[N5 + k]
        ex = xx * wx + xy * wy + xz * wz
        ey = xy * wx + yy * wy + yz * wz
        ez = xz * wx + yz * wy + zz * wz
        F[N3 + k] = hy * cz - hz * cy + xx * ax + xy * ay + xz * az + wy * ez - wz * ey
        F[N4 + k] = hz * cx - hx * cz + xy * ax + yy * ay + yz * az + wz * ex - wx * ez
        F[N5 + k] = hx * cy - hy * cx + xz * ax + yz * ay + zz * az + wx * ey - wy * ex


@reassociated
def _return(R, p, f, out):  # type: ignore[no-untyped-def]
    """Add a wrench, seen from the parent: force R f, moment R n + p × R f."""
    for k in range(BLOCK):
        fx, fy, fz = f[k], f[N1 + k], f[N2 + k]
        nx, ny, nz = f[N3 + k], f[N4 + k], f[N5 + k]
        x = R[k] * fx + R[N1 + k] * fy + R[N2 + k] * fz
        y = R[N3 + k] * fx + R[N4 + k] * fy + R[N5 + k] * fz
        z = R[N6 + k] * fx + R[N7 + k] * fy + R[N8 + k] * fz
        px, py, pz = p[k], p[N1 + k], p[N2 + k]
        out[k] += x
        out[N1 + k] += y
        out[N2 + k] += z
        out[N3 + k] += R[k] * nx + R[N1 + k] * ny + R[N2 + k] * nz + py * z - pz * y
        out[N4 + k] += R[N3 + k] * nx + R[N4 + k] * ny + R[N5 + k] * nz + pz * x - px * z
        out[N5 + k] += R[N6 + k] * nx + R[N7 + k] * ny + R[N8 + k] * nz + px * y - py * x


@reassociated
def _held(tree, b, block, F, work, out):  # type: ignore[no-untyped-def]
    """Add what holds a body's wrench: its joint's effort, and the wrench of its parent."""
    parent, kind, depth, channel, multiplier, _, _, _, _, axis = tree
    R, p, (first, size), d = work[0], work[1], block, depth[b]
    if kind[b] == 2:
        for j in range(6):
            _add(1.0, F[d, j * BLOCK :], out[j, first:], size)
        return
    shift = 3 if kind[b] == 0 else 0
    for j in range(3):
        along = multiplier[b] * axis[b, j]
        _add(along, F[d, (shift + j) * BLOCK :], out[channel[b], first:], size)
    if parent[b] >= 0:
        _return(R[d], p[d], F[d], F[d - 1])


@reassociated(allocates=True)
def efforts(tree, motion, parameters, out):  # type: ignore[no-untyped-def]
    """Add the inverse dynamics of all samples to `out[channel, sample]` [N·m or N].

    Wrenches return to the parents as the walk leaves a branch [Featherstone2008].
    """
    depth, stop = tree[2], motion[0].shape[1]
    deepest = depth.max() + 1
    work = _workspace(deepest, 1)
    F, latest = np.zeros((deepest, 6 * BLOCK)), np.zeros(deepest, dtype=np.int64)
    for first in range(0, stop, BLOCK):
        block = (first, min(BLOCK, stop - first))
        end = 0  # number of bodies from the root to the latest
        for b in range(depth.shape[0] + 1):
            least = depth[b] if b < depth.shape[0] else 0
            while end > least:
                end -= 1
                _held(tree, latest[end], block, F, work, out)
            if b < depth.shape[0]:
                _move(tree, motion, b, block, work)
                own = parameters[10 * b : 10 * b + 10]
                _press(work[2][least], work[3][least], work[5], own, F[least])
                latest[least], end = b, least + 1


@reassociated
def _add(factor, source, target, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        target[k] += factor * source[k]


@reassociated
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


@reassociated
def _swing(u, factor, V, out):  # type: ignore[no-untyped-def]
    """Add how a prismatic axis moves with its body: out += factor · V × (u, 0)."""
    x, y, z = factor * u[0], factor * u[1], factor * u[2]
    for k in range(BLOCK):
        out[k] += V[N4 + k] * z - V[N5 + k] * y
        out[N1 + k] += V[N5 + k] * x - V[N3 + k] * z
        out[N2 + k] += V[N3 + k] * y - V[N4 + k] * x


@reassociated
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


@reassociated
def _weighs(g, m, o):  # type: ignore[no-untyped-def]
    """Add the entries of a motion vector's product with a body's weight: mᵀ I g."""
    for k in range(BLOCK):
        tx, ty, tz = m[N3 + k], m[N4 + k], m[N5 + k]
        gx, gy, gz = g[k], g[N1 + k], g[N2 + k]
        o[k] += m[k] * gx + m[N1 + k] * gy + m[N2 + k] * gz
        o[N1 + k] += gy * tz - gz * ty
        o[N2 + k] += gz * tx - gx * tz
        o[N3 + k] += gx * ty - gy * tx


@reassociated
def _own_motion(tree, motion, b, block, V, D, speed):  # type: ignore[no-untyped-def]
    """Add how a joint's axis moves with its body to D, then the joint's own motion to V."""
    _, kind, _, channel, multiplier, _, _, _, _, axis = tree
    first, size = block
    _scaled(multiplier[b], motion[2][channel[b], first:], speed, size)
    if kind[b] == 0:
        _spin(axis[b], multiplier[b], V, D)
    else:
        _swing(axis[b], multiplier[b], V, D)
    shift = 3 if kind[b] == 0 else 0
    for j in range(3):
        for k in range(BLOCK):
            V[(shift + j) * BLOCK + k] += axis[b, j] * speed[k]


@reassociated
def _weigh(own, phi, rate, windows, sums):  # type: ignore[no-untyped-def]
    """Add −∫ (φ̇ momentum + φ remainder) dt of one block to the sums of windows."""
    momentum, remainder = own
    for w in range(windows[0], windows[1]):
        p, r, total = phi[w], rate[w], 0.0
        for k in range(BLOCK):
            total += r[k] * momentum[k] + p[k] * remainder[k]
        sums[w] -= total


@reassociated
def _momenta(tree, motion, block, asked, out, weights, work):  # type: ignore[no-untyped-def]
    """Momentum and remainder of one block of samples into arrays `[line, first:]`.

    `lines[channel, column]` says where a column goes; −1 drops it. Besides a channel's axis S the
    walk carries D = V × S, which is how that axis moves with the bodies it sits on, each joint's
    part with the velocity of its own body. Where there are weights of this block in some windows
    both are added to the rows of these instead, `out[0][line, window]`.
    """
    parent, kind, depth, _, _, _, _, _, _, _ = tree
    _, _, rate, _, gravity = motion
    (R, p, V, G, S, _, still, _, speeds, moving, length), D, ten = work
    (lines, wanted), (first, size), (phi, slope, windows) = asked, block, weights
    unit = speeds[:3]
    for j in range(3):
        _copy(gravity[j, first:], still[j * BLOCK :], size)
    for b in range(parent.shape[0]):
        if not wanted[-1, b]:
            continue
        d = depth[b]
        Vd = V[d]
        Gd = G[d]
        if kind[b] == 2:
            for j in range(6):
                _copy(rate[j, first:], Vd[j * BLOCK :], size)
            _copy(still, Gd, 6 * BLOCK)
            _float(d, S, moving, length)
            for i in range(6):
                D[d, i, :] = 0.0
                unit[:] = 0.0
                unit[i % 3] = 1.0
                if i < 3:
                    _swing(unit, 1.0, Vd, D[d, i])
                else:
                    _spin(unit, 1.0, Vd, D[d, i])
        else:
            _place(tree, motion, b, block, work[0])
            count = 0
            if parent[b] < 0:
                Vd[:] = 0.0
                _carry(R[d], p[d], still, Gd)
            else:
                _carry(R[d], p[d], V[d - 1], Vd)
                _carry(R[d], p[d], G[d - 1], Gd)
                count = length[d - 1]
            for i in range(count):
                _carry(R[d], p[d], D[d - 1, i], D[d, i])
            mine = _axes(tree, b, work[0])
            if mine == count:
                D[d, mine, :] = 0.0
            _own_motion(tree, motion, b, block, Vd, D[d, mine], speeds[:BLOCK])
        for i in range(length[d]):
            c = moving[d, i]
            if not wanted[c, b]:
                continue
            to = lines[c, 10 * b :]
            _against(Vd, S[d, i], ten[0])
            _against(Vd, D[d, i], ten[1])
            _weighs(Gd, S[d, i], ten[1])
            if windows[1]:
                for j in range(10):
                    if to[j] >= 0:
                        own = ten[0, j * BLOCK :], ten[1, j * BLOCK :]
                        _weigh(own, phi, slope, windows, out[0][to[j]])
            else:
                _hand_out(ten[0], to, out[0], first, size)
                _hand_out(ten[1], to, out[1], first, size)


@reassociated(allocates=True)
def momenta(tree, motion, lines, weights, momentum, remainder):  # type: ignore[no-untyped-def]
    """Write W₂ and W₁ of all samples to two arrays `[line, sample]`.

    With weights φ and φ̇ of samples in windows, both (windows, samples), their weighted sums
    −∫ (φ̇ W₂ + φ W₁) dt are added to `momentum[line, window]` instead.
    """
    stop, (phi, rate) = motion[0].shape[1], weights
    walked, wanted = _workspace(tree[2].max() + 1, lines.shape[0]), _wanted(tree, lines)
    work = (walked, np.zeros_like(walked[4]), np.zeros((2, 10 * BLOCK)))
    of_block = np.zeros((2, phi.shape[0], BLOCK))
    windows = np.zeros(2, dtype=np.int64)
    for first in range(0, stop, BLOCK):
        block = (first, min(BLOCK, stop - first))
        windows[:] = 0
        for w in range(phi.shape[0]):
            seen = False
            for k in range(BLOCK):
                inside = k < block[1]
                of_block[0, w, k] = phi[w, first + k] if inside else 0.0
                of_block[1, w, k] = rate[w, first + k] if inside else 0.0
                seen |= of_block[0, w, k] != 0.0 or of_block[1, w, k] != 0.0
            if seen:
                windows[0] = windows[0] if windows[1] else w
                windows[1] = w + 1
        if windows[1] or not phi.shape[0]:
            own = (of_block[0], of_block[1], windows)
            _momenta(tree, motion, block, (lines, wanted), (momentum, remainder), own, work)


@reassociated(allocates=True)
def _close_up(counts, size, rows, width, at, to):  # type: ignore[no-untyped-def]
    """Move those rows of a block that count, from `at` on, to `to`; return how many they are."""
    places, kept = np.empty(BLOCK, dtype=np.int64), 0
    for k in range(size):
        places[kept] = at + k
        kept += counts[k]
    for j in range(width):
        for k in range(kept):
            rows[j, to + k] = rows[j, places[k]]
    return kept


@reassociated(allocates=True)
def reduce(tree, motion, layout, columns, measured, deep, triangles):  # type: ignore[no-untyped-def]
    """Reduce all samples by orthogonal transformations to one triangle [R z; 0 ρ] a channel.

    The layout is lines of bodies' columns, `acts`, and for each channel that is chosen its number,
    its first line and its width. `weights[k] · values[acts[k, 0], sample]` goes to line acts[k, 1],
    effort[look, channel, sample] to those after a channel's columns, behind which one is left free;
    `deep` blocks are folded at once. Triangles are one after the other. Rows where counts[channel,
    sample] is zero are left out; all count if it has no samples.
    """
    (lines, acts, chosen), (values, weights), (effort, counts) = layout, columns, measured
    stop, looks, some = motion[0].shape[1], effort.shape[0], counts.shape[1] > 0
    work, wanted = _workspace(tree[2].max() + 1, lines.shape[0]), _wanted(tree, lines)
    count = chosen[:, 2].sum() + (looks + 1) * chosen.shape[0]
    stacked = np.zeros((count, (deep + some) * BLOCK))
    filled = np.zeros(chosen.shape[0], dtype=np.int64)
    for first in range(0, stop, BLOCK):
        size = min(BLOCK, stop - first)
        # Rows of which some do not count are closed up behind those of the blocks before.
        at = deep * BLOCK if some else filled[0]
        _rows(tree, motion, (first, size), lines, wanted, stacked, at, work)
        for k in range(acts.shape[0]):
            _scaled(weights[k], values[acts[k, 0]][first:], stacked[acts[k, 1]][at:], size)
        done = 0
        for i in range(chosen.shape[0]):
            c, begin, n = chosen[i, 0], chosen[i, 1], chosen[i, 2] + looks
            for j in range(looks):
                _copy(effort[j, c][first:], stacked[begin + chosen[i, 2] + j][at:], size)
            kept = size
            if some:
                kept = _close_up(counts[c, first:], size, stacked[begin:], n, at, filled[i])
            filled[i] += kept
            if filled[i] + BLOCK > deep * BLOCK or first + size >= stop:
                R = triangles[done : done + n * n].reshape(n, n)
                folding.fold(R, stacked[begin : begin + n + 1], n, filled[i], n)
                filled[i] = 0
            done += n * n
