"""Updates of a square-root information triangle by new rows: blocks of rows, or single samples.

`fold` takes many rows at once, `stack` and `eliminate` those that Python holds; `absorb` takes a
few and also returns their normalised squared innovation. All use Householder reflections, so that
`RᵀR = Σ rowsᵀ rows` holds to rounding at any condition number. They are compiled, since they stand
in the innermost loops.
"""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, contracted, reassociated

LANES = 512  # rows folded at once, at most; distances of reflectors that the compiler can know


@reassociated
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@reassociated
def _minus(w, v, a):  # type: ignore[no-untyped-def]
    for k in range(a.shape[0]):
        a[k] -= w * v[k]


@reassociated
def _update(w0, w1, w2, w3, V, a):  # type: ignore[no-untyped-def]
    """Apply four reflectors to one column: several columns at once would not be vectorised."""
    for k in range(a.shape[0]):
        a[k] -= w0 * V[k] + w1 * V[LANES + k] + w2 * V[2 * LANES + k] + w3 * V[3 * LANES + k]


@reassociated
def _reflect(R, j0, c, T, V, a, b):  # type: ignore[no-untyped-def]
    """Apply the panel's four reflections to columns c and c + 1, of which the rows hold a and b."""
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
    _update(w0, w1, w2, w3, V, a)
    _update(x0, x1, x2, x3, V, b)


@reassociated
def _reflect_three(R, j0, c, T, V, rows):  # type: ignore[no-untyped-def]
    """Apply the panel's four reflections to columns c to c + 2, of which the rows hold three."""
    a0, a1, a2 = rows
    d0 = R[j0, c]
    d1 = R[j0 + 1, c]
    d2 = R[j0 + 2, c]
    d3 = R[j0 + 3, c]
    e0 = R[j0, c + 1]
    e1 = R[j0 + 1, c + 1]
    e2 = R[j0 + 2, c + 1]
    e3 = R[j0 + 3, c + 1]
    f0 = R[j0, c + 2]
    f1 = R[j0 + 1, c + 2]
    f2 = R[j0 + 2, c + 2]
    f3 = R[j0 + 3, c + 2]
    m = a0.shape[0]
    for k in range(m):
        x = a0[k]
        y = a1[k]
        z = a2[k]
        p = V[k]
        q = V[LANES + k]
        r = V[2 * LANES + k]
        s = V[3 * LANES + k]
        d0 += p * x
        d1 += q * x
        d2 += r * x
        d3 += s * x
        e0 += p * y
        e1 += q * y
        e2 += r * y
        e3 += s * y
        f0 += p * z
        f1 += q * z
        f2 += r * z
        f3 += s * z
    u0 = T[0, 0] * d0
    u1 = T[0, 1] * d0 + T[1, 1] * d1
    u2 = T[0, 2] * d0 + T[1, 2] * d1 + T[2, 2] * d2
    u3 = T[0, 3] * d0 + T[1, 3] * d1 + T[2, 3] * d2 + T[3, 3] * d3
    v0 = T[0, 0] * e0
    v1 = T[0, 1] * e0 + T[1, 1] * e1
    v2 = T[0, 2] * e0 + T[1, 2] * e1 + T[2, 2] * e2
    v3 = T[0, 3] * e0 + T[1, 3] * e1 + T[2, 3] * e2 + T[3, 3] * e3
    w0 = T[0, 0] * f0
    w1 = T[0, 1] * f0 + T[1, 1] * f1
    w2 = T[0, 2] * f0 + T[1, 2] * f1 + T[2, 2] * f2
    w3 = T[0, 3] * f0 + T[1, 3] * f1 + T[2, 3] * f2 + T[3, 3] * f3
    R[j0, c] -= u0
    R[j0 + 1, c] -= u1
    R[j0 + 2, c] -= u2
    R[j0 + 3, c] -= u3
    R[j0, c + 1] -= v0
    R[j0 + 1, c + 1] -= v1
    R[j0 + 2, c + 1] -= v2
    R[j0 + 3, c + 1] -= v3
    R[j0, c + 2] -= w0
    R[j0 + 1, c + 2] -= w1
    R[j0 + 2, c + 2] -= w2
    R[j0 + 3, c + 2] -= w3
    _update(u0, u1, u2, u3, V, a0)
    _update(v0, v1, v2, v3, V, a1)
    _update(w0, w1, w2, w3, V, a2)


@reassociated(allocates=True)
def fold(R, rows, n, m, p):  # type: ignore[no-untyped-def]
    """Update a triangle by a block of rows: R becomes the triangle of R stacked on the rows.

    Of p < n columns only these are eliminated, and of the rows their columns behind are what is
    left; R then has p rows, and as many of zeros as make a multiple of four.

    For use inside other compiled kernels. Householder reflections in panels of four, in compact
    form `I − V T Vᵀ` [Schreiber1989]. The reflectors' upper part is a unit vector, since R is a
    triangle already. Each column of rows behind the panel is read twice and written once for four
    reflections. What a column's last rows that are zero so far would cost is left out.

    Both arrays may be larger than the part that is used: a view of a part has no constant
    strides, which would prevent vector instructions.

    Args:
        R: Upper triangle, shape (p, n) or larger, overwritten.
        rows: Shape (n + 1, m) or larger, m ≤ 512, destroyed. Column j of the rows is `rows[j]`;
            `rows[n]` is workspace.
        n: Number of columns used.
        m: Number of rows used.
        p: Number of columns eliminated.
    """
    _fold(R, rows, n, m, p, (np.zeros((5, 4)), np.zeros(4 * LANES), np.zeros((n + 3, 2))))


@reassociated
def _fold(R, rows, n, m, p, room):  # type: ignore[no-untyped-def]
    T, V, spare = room  # the last line of T is room for a column of products
    w, last, m = T[4], m, 0
    for j0 in range(0, p, 4):
        panel = min(4, p - j0)
        for j in range(j0, j0 + panel):  # rows further down are zero in all columns up to here
            k = last
            while k > m and rows[j, k - 1] == 0.0:
                k -= 1
            m = k
        if not m:
            continue
        T[:] = 0.0
        for j in range(panel):
            col = rows[j0 + j][:m]
            below = _dot(col, col)
            alpha = R[j0 + j, j0 + j]
            if below < 1e-280:  # squares that lose their digits scale no reflection
                col[:] = 0.0
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
        for j in range(panel):
            for k in range(m):
                V[j * LANES + k] = rows[j0 + j, k]
        c = j0 + panel
        while c + 2 < n:  # three at a time, which read the reflectors once
            _reflect_three(R, j0, c, T, V, (rows[c][:m], rows[c + 1][:m], rows[c + 2][:m]))
            c += 3
        if c + 1 < n:
            _reflect(R, j0, c, T, V, rows[c][:m], rows[c + 1][:m])
            c += 2
        if c < n:  # an odd one out: reflected beside the room to work in
            rows[n, :] = 0.0
            for i in range(j0, min(j0 + 4, n)):
                spare[i, 0] = R[i, c]
                spare[i, 1] = 0.0
            _reflect(spare, j0, 0, T, V, rows[c][:m], rows[n][:m])
            for i in range(j0, min(j0 + 4, n)):
                R[i, c] = spare[i, 0]


@reassociated(allocates=True)
def _stack(R, rows, p, most):  # type: ignore[no-untyped-def]
    """Fold rows (m, n), at most so many at once, the last ones first: see `stack`, `eliminate`."""
    n = rows.shape[1]
    # An odd number of lines of cache each, or columns would displace one another.
    columns = np.empty((n + 1, ((min(most, rows.shape[0]) + 7) // 8 | 1) * 8))
    for stop in range(rows.shape[0], 0, -most):
        first = max(stop - most, 0)
        for k in range(first, stop):
            for j in range(n):
                columns[j, k - first] = rows[k, j]
        fold(R, columns, n, stop - first, p)
        for k in range(first, stop):
            for j in range(p, n):
                rows[k, j] = columns[j, k - first]
    for i in range(p):
        if R[i, i] < 0.0:
            for j in range(i, n):
                R[i, j] = -R[i, j]


def stack(R: Array, rows: Array) -> Array:
    """Return the triangle of R stacked on rows, with a diagonal ≥ 0.

    Args:
        R: Upper triangle, shape (n, n).
        rows: Shape (m, n), any m ≥ 0.
    """
    stacked = np.array(R, float, order="C")
    _stack(stacked, np.array(rows, float, order="C"), len(R), LANES)
    return stacked


def eliminate(rows: Array, p: int) -> tuple[Array, Array]:
    """Return the triangular rows of the first p columns, and what rows are left of the others.

    Args:
        rows: Shape (m, n). Where the other columns are an upper triangle, few of its zeros are
            filled.

    Returns:
        Shapes (p, n), with a diagonal ≥ 0, and (m, n - p).
    """
    top, others = np.zeros((p + 3, rows.shape[1])), np.array(rows, float, order="C")
    _stack(top, others, p, 64)  # so many rows at once fill few zeros
    return top[:p], others[:, p:]


@contracted
def _absorb(out, rows):  # type: ignore[no-untyped-def]
    """Absorb rows in place, by one reflection a column; see `absorb`."""
    n, m = out.shape[0], rows.shape[0]
    tiny = np.finfo(out.dtype).tiny
    for j in range(n - 1):
        below = out[0, 0] * 0
        for k in range(m):
            below += rows[k, j] * rows[k, j]
        alpha = out[j, j]
        # Rows that no sum can hold beside the diagonal; squares of theirs could fall out of range.
        if below <= 1e-32 * alpha * alpha or below <= tiny:
            for k in range(m):
                rows[k, j] = 0
            continue
        beta = np.sqrt(alpha * alpha + below)
        first = -below / (alpha + beta)  # α − β, without cancellation
        factor = 2 / (first * first + below)
        for c in range(j + 1, n):
            move = first * out[j, c]
            for k in range(m):
                move += rows[k, j] * rows[k, c]
            move *= factor
            out[j, c] -= move * first
            for k in range(m):
                rows[k, c] -= move * rows[k, j]
        out[j, j] = beta
    surprise = out[0, 0] * 0
    for k in range(m):
        surprise += rows[k, n - 1] * rows[k, n - 1]
    out[n - 1, n - 1] = np.sqrt(out[n - 1, n - 1] * out[n - 1, n - 1] + surprise)
    return surprise


def absorb(R: Array, rows: Array) -> tuple[Array, float]:
    """Update a triangle by a few rows; return it with the normalised squared innovation.

    For recursive least squares. One Householder reflection a column, each through the diagonal
    element and the rows, so that the diagonal stays positive. When all other columns of the rows
    are eliminated, the last holds the innovation e = y − Y R⁻¹z in units of its standard deviation
    before the update. Its square is `eᵀ (1 + Y P Yᵀ)⁻¹ e` with `P = (RᵀR)⁻¹`.

    Args:
        R: `[R z; 0 ρ]`, upper triangular with a diagonal ≥ 0, shape (n, n).
        rows: `[Y y]`, scaled to unit variance, shape (m, n).

    Returns:
        The updated triangle, shape (n, n), and the normalised squared innovation [dimensionless],
        whose expectation is m if the model holds.
    """
    own = np.array(R, order="C")
    return own, _absorb(own, np.array(rows, own.dtype, order="C"))


def warm_up() -> None:
    """Compile what Python calls of this module."""
    _stack(np.zeros((2, 2)), np.zeros((1, 2)), 2, LANES)
    for kind in (np.float64, np.float32):
        _absorb(np.zeros((2, 2), kind), np.zeros((1, 2), kind))


KERNELS = Kernels((_absorb, _stack), warm_up)
