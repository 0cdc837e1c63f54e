"""Possible fits as a cone, and compiled steps to their ends in coordinates that suit both.

Possible fits as a cone. With s = 1, or what normalises a ratio, and e what eliminated parameters
add to the misfit, v = (y, e, s) holds a possible fit y/s if these slacks P v are in their cones:

- the bodies of y, positive semidefinite, and its terms with a sign, at least 0;
- `L y − s l`, at least 0: hard limits;
- `(ρ s, e, R y − s r)`, a ball: the misfit.

All slacks, and multipliers likewise, stand in one vector in this order, bodies as `stack` has them.

A cone is its own dual. The scaling W of a slack s and a multiplier z inside it is the linear map
with `W⁻¹ s = Wᵀ z = λ` that leaves the cone as it is [Todd1998]: in its coordinates both are one.
Of the ball it is η (−J + 2 w wᵀ)^½, with J = diag(1, −1, −1, ...) and `wᵀ J w = 1`, and of a body
the map from X to R X Rᵀ. Newton's equations `Pᵀ Δz = g, P Δv + W Wᵀ Δz = W b` take bodies one by
one and then the rows of the data.

Kernels share these tuples: of a cone (rows R and below it L, the unknown before which each is zero,
r and l, ρ, number of links, number of limits); of a scaling (maps of stacked bodies, those of R⁻¹
and R, shape (2, links, 10, 10); λ of bodies, shape (links, 4); √(s/z) and λ of terms and limits;
w and λ of the ball; η).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dsyr
from scipy.linalg.lapack import dpotrf, dpotrs

from heft.arrays import Array
from heft.compiled import Kernels, reassociated
from heft.estimators import stack, unstack

Cone = tuple[Array, NDArray[np.int64], Array, float, int, int]
Scaling = tuple[Array, Array, Array, Array, Array, Array, Array]
Point = tuple[Array, Array, Array, Array]  # v, s, z, and (ν, τ, κ); or changes of them
Lacking = tuple[Array, Array, Array]  # residuals of slacks, of v, and of a·v and c·v
# Cholesky factor of all but a rank-one term, its lower triangle, shape (r + k, r + k); the vector g
# of that term; N⁻¹ g; and 1/size + gᵀ N⁻¹ g
Factor = tuple[Array, Array, Array, float]
Equations = tuple[Scaling, Factor]

ROOT = 0.5**0.5
RAY = 1e-8  # what slacks may lack along a ray, relative to the fall
POWER = 5.0  # of what the predictor leaves: the share of the gap that the corrector keeps
ROUNDS = 6  # correctors of a step at most, each with the products of the last one's changes
BACK = 0.95  # share of a step to the boundary


@reassociated
def _dot(u: Array, v: Array) -> float:
    # Of slices: loops whose first index is no constant would not be vectorised.
    total = 0.0
    for i in range(len(u)):
        total += u[i] * v[i]
    return float(total)


@reassociated
def _add(factor: float, u: Array, out: Array) -> None:
    for i in range(len(u)):
        out[i] += factor * u[i]


# ---- one cone each --------------------------------------------------------------------------


@reassociated
def depth(v: Array) -> float:
    """Return `v_0² − ‖v_1, v_2, ...‖²`, without a difference of squares."""
    square = 0.0
    for i in range(1, len(v)):
        square += v[i] * v[i]
    length = np.sqrt(square)
    return float((v[0] - length) * (v[0] + length))


@reassociated
def _cholesky(body: Array, scale: Array, shift: float, lower: Array) -> bool:
    """Factor a stacked body, its entries divided by √(scale_i scale_j), plus a multiple of 1."""
    k = 0
    for j in range(4):
        for i in range(j + 1):
            entry = body[k] / np.sqrt(scale[i] * scale[j])
            entry = entry + shift if i == j else ROOT * entry
            for m in range(i):
                entry -= lower[j, m] * lower[i, m]
            if i < j:
                lower[j, i] = entry / lower[i, i]
            elif entry > 0.0:
                lower[j, j] = np.sqrt(entry)
            else:
                return False
            k += 1
    return True


@reassociated
def _diagonalise(matrix: Array, axes: Array) -> None:
    """Bring a symmetric matrix of shape (4, 4) into its principal axes, by Jacobi's rotations."""
    axes[:] = 0.0
    for i in range(4):
        axes[i, i] = 1.0
    for _ in range(20):  # sweeps: five are enough
        turned = False
        for i in range(3):
            for j in range(i + 1, 4):
                off = matrix[i, j]
                if off * off <= 1e-32 * abs(matrix[i, i] * matrix[j, j]):
                    continue
                turned = True
                half = 0.5 * (matrix[j, j] - matrix[i, i]) / off
                t = 1.0 / (abs(half) + np.sqrt(1.0 + half * half))
                t = t if half >= 0.0 else -t
                cos = 1.0 / np.sqrt(1.0 + t * t)
                sin = t * cos
                for k in range(4):
                    x, y = matrix[k, i], matrix[k, j]
                    matrix[k, i], matrix[k, j] = cos * x - sin * y, sin * x + cos * y
                    x, y = axes[k, i], axes[k, j]
                    axes[k, i], axes[k, j] = cos * x - sin * y, sin * x + cos * y
                for k in range(4):
                    x, y = matrix[i, k], matrix[j, k]
                    matrix[i, k], matrix[j, k] = cos * x - sin * y, sin * x + cos * y
                matrix[i, j] = matrix[j, i] = 0.0
        if not turned:
            break


@reassociated
def _congruence(frame: Array, out: Array) -> None:
    """Fill the map of stacked X to stacked F X Fᵀ, shape (10, 10)."""
    q = 0
    for j in range(4):
        for i in range(j + 1):
            p = 0
            for b in range(4):
                for a in range(b + 1):
                    both = frame[a, i] * frame[b, j] + frame[a, j] * frame[b, i]
                    both *= 0.5 if i == j else ROOT
                    out[p, q] = both if a == b else both / ROOT
                    p += 1
            q += 1


@reassociated(allocates=True)
def _scale_body(slack: Array, push: Array, maps: Array, values: Array) -> bool:
    """Fill a body's maps and λ; false where one has reached the boundary."""
    own, other, both, square, axes = np.zeros((5, 4, 4))
    unit = np.ones(4)
    if not (_cholesky(slack, unit, 0.0, own) and _cholesky(push, unit, 0.0, other)):
        return False
    for i in range(4):
        for k in range(4):
            both[i, k] = 0.0
            for j in range(max(i, k), 4):
                both[i, k] += other[j, i] * own[j, k]
    for i in range(4):
        for j in range(4):
            for k in range(4):
                square[i, j] += both[i, k] * both[j, k]
    _diagonalise(square, axes)
    for k in range(4):
        if not square[k, k] > 0.0:
            return False
        values[k] = np.sqrt(square[k, k])
    back, there = np.zeros((2, 4, 4))
    for k in range(4):
        root = np.sqrt(values[k])
        for i in range(3, -1, -1):
            there[i, k] = axes[i, k] * root
            for j in range(i + 1, 4):
                there[i, k] -= other[j, i] * there[j, k]
            there[i, k] /= other[i, i]
            for j in range(4):
                back[k, i] += axes[j, k] / root * other[i, j]
    _congruence(back, maps[0])
    _congruence(there, maps[1])
    return True


@reassociated(allocates=True)
def _body_beyond(scaled: Array, values: Array, beyond: float) -> float:
    """Return 1/α of the step α along a body's scaled change to the boundary, if more than given."""
    lower, matrix = np.zeros((2, 4, 4))
    if _cholesky(scaled, values, beyond, lower):
        return beyond
    k = 0
    for j in range(4):
        for i in range(j + 1):
            entry = scaled[k] / np.sqrt(values[i] * values[j])
            matrix[i, j] = matrix[j, i] = entry if i == j else ROOT * entry
            k += 1
    _diagonalise(matrix, lower)
    for i in range(4):
        beyond = max(beyond, -matrix[i, i])
    return beyond


@reassociated
def _turn_ball(axis: Array, size: float, sign: float, v: Array, out: Array) -> None:
    """Fill W v, or W⁻¹ v where the sign is −1 and the size the reciprocal."""
    along = 0.0
    for i in range(1, len(v)):
        along += axis[i] * v[i]
    more = along / (1.0 + axis[0]) + sign * v[0]
    out[0] = size * (axis[0] * v[0] + sign * along)
    for i in range(1, len(v)):
        out[i] = size * (v[i] + axis[i] * more)


@reassociated
def _square_ball(axis: Array, size: float, v: Array) -> None:
    """Change v to W W v."""
    along = 0.0
    for i in range(len(v)):
        along += axis[i] * v[i]
    v[0] = size * size * (2.0 * axis[0] * along - v[0])
    for i in range(1, len(v)):
        v[i] = size * size * (2.0 * axis[i] * along + v[i])


@reassociated
def _ball_beyond(middle: Array, scaled: Array) -> float:
    """Return 1/α of the step α along the ball's scaled change to the boundary; ≤ 0 if none."""
    root = np.sqrt(depth(middle))
    along = middle[0] * scaled[0]
    for i in range(1, len(scaled)):
        along -= middle[i] * scaled[i]
    along /= root
    more = (along + scaled[0]) / (root + middle[0])
    square = 0.0
    for i in range(1, len(scaled)):
        across = scaled[i] - more * middle[i]
        square += across * across
    return float((np.sqrt(square) - along) / root)


@reassociated
def _complement_ball(middle: Array, target: float, first: Array, second: Array, out: Array) -> None:
    """Fill x with `λ ∘ x = target − λ ∘ λ − first ∘ second`, u ∘ v = (u·v, u_0 v_i + v_0 u_i)."""
    top, rest = target, 0.0
    for i in range(len(out)):
        top -= middle[i] * middle[i] + first[i] * second[i]
    for i in range(1, len(out)):
        out[i] = -2.0 * middle[0] * middle[i] - first[0] * second[i] - second[0] * first[i]
        rest += middle[i] * out[i]
    out[0] = (middle[0] * top - rest) / depth(middle)
    for i in range(1, len(out)):
        out[i] = (out[i] - out[0] * middle[i]) / middle[0]


# ---- all of them ----------------------------------------------------------------------------


@reassociated
def slacks(cone: Cone, v: Array, out: Array) -> None:
    """Fill the slacks P v."""
    rows, first, right, radius, _, limits = cone
    n, count = rows.shape[1], len(rows) - limits
    for i in range(n):
        out[i] = v[i]
    out[n + limits], out[n + limits + 1] = radius * v[n + 1], v[n]
    for i in range(len(rows)):
        total = _dot(rows[i, first[i] :], v[first[i] : n]) - v[n + 1] * right[i]
        out[n + limits + 2 + i if i < count else n + i - count] = total


@reassociated
def pulls(cone: Cone, push: Array, out: Array) -> None:
    """Fill Pᵀ z."""
    rows, first, right, radius, _, limits = cone
    n, count = rows.shape[1], len(rows) - limits
    for i in range(n):
        out[i] = push[i]
    out[n], out[n + 1] = push[n + limits + 1], radius * push[n + limits]
    for i in range(len(rows)):
        on_row = push[n + limits + 2 + i if i < count else n + i - count]
        out[n + 1] -= right[i] * on_row
        _add(on_row, rows[i, first[i] :], out[first[i] : n])


@reassociated
def scale(cone: Cone, slack: Array, push: Array, scaling: Scaling) -> bool:
    """Fill the scaling of slacks and multipliers; false where one has reached the boundary."""
    maps, values, lengths, both, axis, middle, size = scaling
    links, ball = cone[4], 10 * cone[4] + len(lengths)
    for k in range(links):
        own = slice(10 * k, 10 * k + 10)
        if not _scale_body(slack[own], push[own], maps[:, k], values[k]):
            return False
    for k in range(len(lengths)):
        own, other = slack[10 * links + k], push[10 * links + k]
        if not min(own, other) > 0.0:
            return False
        lengths[k], both[k] = np.sqrt(own / other), np.sqrt(own * other)
    first, second = depth(slack[ball:]), depth(push[ball:])
    if not min(first, second, slack[ball], push[ball]) > 0.0:
        return False
    along = 0.0
    for i in range(len(axis)):
        own, other = slack[ball + i] / np.sqrt(first), push[ball + i] / np.sqrt(second)
        axis[i] = own + other if i == 0 else own - other
        along += own * other
    axis /= np.sqrt(2.0 * (1.0 + along))
    size[0] = (first / second) ** 0.25
    _turn_ball(axis, size[0], 1.0, push[ball:], middle)
    return True


@reassociated
def scaled(cone: Cone, scaling: Scaling, way: int, v: Array, out: Array) -> None:
    """Fill W⁻¹ s of slacks (way 0), W x of scaled ones (1), or Wᵀ z of multipliers (2)."""
    maps, _, lengths, _, axis, _, size = scaling
    links, ball = cone[4], 10 * cone[4] + len(lengths)
    for k in range(links):
        own, into = v[10 * k : 10 * k + 10], out[10 * k : 10 * k + 10]
        into[:] = 0.0
        for i in range(10):
            if way == 2:
                _add(own[i], maps[1, k, i], into)
            else:
                into[i] = _dot(maps[way, k, i], own)
    for k in range(len(lengths)):
        at = 10 * links + k
        out[at] = v[at] / lengths[k] if way == 0 else v[at] * lengths[k]
    if way == 0:
        _turn_ball(axis, 1.0 / size[0], -1.0, v[ball:], out[ball:])
    else:
        _turn_ball(axis, size[0], 1.0, v[ball:], out[ball:])


@reassociated
def beyond(cone: Cone, scaling: Scaling, change: Array) -> float:
    """Return 1/α, α the step along a scaled vector to the boundary; 0 if it has none."""
    _, values, lengths, both, _, middle, _ = scaling
    links, found = cone[4], 0.0
    for k in range(len(both)):
        found = max(found, -change[10 * links + k] / both[k])
    found = max(found, _ball_beyond(middle, change[10 * links + len(lengths) :]))
    for k in range(links):
        found = _body_beyond(change[10 * k : 10 * k + 10], values[k], found)
    return float(found)


@reassociated(allocates=True)
def complement(
    cone: Cone, scaling: Scaling, target: float, first: Array, second: Array, out: Array
) -> None:
    """Fill x with `λ ∘ x = target − λ ∘ λ − first ∘ second`, ∘ the product of each cone."""
    _, values, lengths, both, _, middle, _ = scaling
    links, ball = cone[4], 10 * cone[4] + len(lengths)
    one, other = np.empty((2, 4, 4))
    for link in range(links):
        k = 10 * link
        for j in range(4):
            for i in range(j + 1):
                root = 1.0 if i == j else ROOT
                one[i, j] = one[j, i] = root * first[k]
                other[i, j] = other[j, i] = root * second[k]
                k += 1
        k = 10 * link
        for j in range(4):
            for i in range(j + 1):
                entry = target - values[link, i] ** 2 if i == j else 0.0
                for m in range(4):
                    entry -= 0.5 * (one[i, m] * other[m, j] + other[i, m] * one[m, j])
                entry *= 2.0 / (values[link, i] + values[link, j])
                out[k] = entry if i == j else entry / ROOT
                k += 1
    for k in range(len(both)):
        at = 10 * links + k
        out[at] = (target - first[at] * second[at]) / both[k] - both[k]
    _complement_ball(middle, target, first[ball:], second[ball:], out[ball:])


# ---- Newton's equations ---------------------------------------------------------------------


@reassociated(allocates=True)
def _soften(cone: Cone, scaling: Scaling, g: Array, out: Array) -> None:
    """Take the W Wᵀ g of bodies and terms from an output, shape (n,)."""
    maps, lengths = scaling[0], scaling[2]
    part = np.empty(10)
    for k in range(cone[4]):
        part[:] = 0.0
        for i in range(10):
            _add(g[10 * k + i], maps[1, k, i], part)
        for i in range(10):
            out[10 * k + i] -= _dot(maps[1, k, i], part)
    for k in range(10 * cone[4], cone[0].shape[1]):
        out[k] -= lengths[k - 10 * cone[4]] ** 2 * g[k]


@reassociated(allocates=True)
def solve(
    cone: Cone, scaling: Scaling, factor: Factor, g: Array, b: Array, move: Array, push: Array
) -> None:
    """Fill Δv and Δz of right sides g, shape (n + 2,), and b, shape (slots,)."""
    (rows, begin, right, radius, _, limits), (lower, along, solved, size) = cone, factor
    axis, eta = scaling[4], scaling[6][0]
    n, count = rows.shape[1], len(rows) - limits
    ball, pull = n + limits, np.empty(len(rows))
    slack = np.empty(len(b))
    scaled(cone, scaling, 1, b, slack)
    move[:n] = slack[:n]
    _soften(cone, scaling, g, move)
    on_ball = np.zeros(count + 2)
    on_ball[0], on_ball[1] = -g[n + 1] / radius, -g[n]
    told = on_ball.copy()
    _square_ball(axis, eta, told)
    for i in range(len(rows)):
        lacking = slack[ball + 2 + i] + told[2 + i] if i < count else slack[n + i - count]
        total = _dot(rows[i, begin[i] :], move[begin[i] : n])
        pull[i] = total - lacking - (slack[ball] + told[0]) * right[i] / radius
    for i in range(len(pull)):
        pull[i] = (pull[i] - _dot(lower[i, :i], pull[:i])) / lower[i, i]
    for i in range(len(pull) - 1, -1, -1):
        pull[i] /= lower[i, i]
        _add(-pull[i], lower[i, :i], pull[:i])
    part = _dot(along, pull)
    on_y = np.zeros(n)
    for i in range(len(pull)):
        pull[i] -= part / size * solved[i]
        on_ball[0] += pull[i] * right[i] / radius
        if i < count:
            on_ball[2 + i] = pull[i]
        else:
            push[n + i - count] = -pull[i]
        _add(pull[i], rows[i, begin[i] :], on_y[begin[i] :])
    _soften(cone, scaling, on_y, move)
    push[:n] = g[:n] + on_y
    push[ball:] = -on_ball
    _square_ball(axis, eta, on_ball)
    move[n] = on_ball[1] + slack[ball + 1]
    move[n + 1] = (on_ball[0] + slack[ball]) / radius


# ---- steps ----------------------------------------------------------------------------------
@reassociated
def judge(cone: Cone, problem: Array, at: Point, lacking: Lacking) -> tuple[float, float, bool]:
    """Fill the residuals of an iterate's equations, and judge it.

    Args:
        problem: c and a, shape (2, n + 2).
        at: v, s, z, and (ν, τ, κ).
        lacking: Residuals of slacks, of v, and of a·v and c·v.

    Returns:
        The largest relative error that a proven bound may have, the bound, and whether v is a ray
        along which c·v falls.
    """
    (c, a), (v, slack, push, ends), (bounded, pulled, pair) = problem, at, lacking
    bound, whole, lack = ends
    slacks(cone, v, bounded)
    pulls(cone, push, pulled)
    value, held = _dot(c, v), _dot(a, v)
    outside = far = part = 0.0
    for i in range(len(slack)):
        bounded[i] -= slack[i]
        outside = max(outside, abs(bounded[i]))
    for i in range(len(v)):
        pulled[i] += bound * a[i] - whole * c[i]
        part += abs(pulled[i] * v[i])
        far = max(far, abs(v[i]))
    pair[0], pair[1] = held - whole, value - bound + lack
    falls = max(outside, abs(held)) < RAY * -value
    value, bound = value / whole, bound / whole
    bound = min(value, bound) - part / whole**2
    off = max((value - bound) / max(abs(bound), RAY), outside / max(far, whole))
    return off, bound, falls


@reassociated
def _changed(
    cone: Cone,
    scaling: Scaling,
    problem: Array,
    at: Point,
    lacking: Lacking,
    columns: tuple[Array, Array, Array],
    kept: float,
    product: float,
    change: Point,
    turned: Array,
) -> float:
    """Complete a change from what `solve` left of it, for a change of τ κ; return 1/α of its step.

    Args:
        columns: Those of ν and τ: of v, of z, and the corner.
        kept: Share of the residuals that is to be left.
        turned: Filled with slacks and multipliers in the scaling's coordinates, (2, slots).
    """
    (c, a), (moves, pushes, corner), (move, slack, push, ends) = problem, columns, change
    _, whole, lack = at[3]
    first = -(1.0 - kept) * lacking[2][0] - _dot(a, move)
    second = -(1.0 - kept) * lacking[2][1] - product / whole - _dot(c, move)
    det = corner[0, 0] * corner[1, 1] - corner[0, 1] * corner[1, 0]
    ends[0] = (first * corner[1, 1] - second * corner[0, 1]) / det
    ends[1] = (second * corner[0, 0] - first * corner[1, 0]) / det
    ends[2] = (product - lack * ends[1]) / whole
    for i in range(len(move)):
        move[i] += ends[0] * moves[0, i] + ends[1] * moves[1, i]
    for i in range(len(push)):
        push[i] += ends[0] * pushes[0, i] + ends[1] * pushes[1, i]
    slacks(cone, move, slack)
    for i in range(len(slack)):
        slack[i] += (1.0 - kept) * lacking[0][i]
    scaled(cone, scaling, 0, slack, turned[0])
    scaled(cone, scaling, 2, push, turned[1])
    found = max(-ends[1] / whole, -ends[2] / lack)
    found = max(found, beyond(cone, scaling, turned[0]), beyond(cone, scaling, turned[1]))
    return float(max(found, 1e-300))


@reassociated(allocates=True)
def step(
    cone: Cone, scaling: Scaling, factor: Factor, problem: Array, at: Point, lacking: Lacking
) -> float:
    """Move an iterate by a predictor and correctors; return the share of it that was taken."""
    v, slack, push, ends = at
    size, slots = len(v), len(slack)
    base, right, nothing = np.zeros((3, slots))
    scaled(cone, scaling, 0, lacking[0], base)
    complement(cone, scaling, 0.0, nothing, nothing, right)  # −λ
    right -= base
    moves, pushes, corner = np.empty((2, size)), np.empty((2, slots)), np.empty((2, 2))
    solve(cone, scaling, factor, -problem[1], nothing, moves[0], pushes[0])
    solve(cone, scaling, factor, problem[0], nothing, moves[1], pushes[1])
    for i in range(2):
        for j in range(2):
            corner[i, j] = _dot(problem[1 - i], moves[j]) - (1.0 if i != j else 0.0)
    corner[1, 1] -= ends[2] / ends[1]
    columns = moves, pushes, corner
    change = np.empty(size), np.empty(slots), np.empty(slots), np.empty(3)
    best = np.empty(size), np.empty(slots), np.empty(slots), np.empty(3)
    turned = np.empty((2, slots))
    solve(cone, scaling, factor, -lacking[1], right, change[0], change[2])
    gap = ends[1] * ends[2]
    found = _changed(cone, scaling, problem, at, lacking, columns, 0.0, -gap, change, turned)
    kept = max(0.0, 1.0 - 1.0 / found) ** POWER
    degree = 4 * cone[4] + len(scaling[2]) + 2
    target = kept * (_dot(slack, push) + gap) / degree
    taken = 0.0
    for _ in range(ROUNDS):
        complement(cone, scaling, target, turned[0], turned[1], right)
        for i in range(slots):
            right[i] -= (1.0 - kept) * base[i]
        product = target - gap - change[3][1] * change[3][2]
        solve(cone, scaling, factor, -(1.0 - kept) * lacking[1], right, change[0], change[2])
        share = 1.0 / _changed(
            cone, scaling, problem, at, lacking, columns, kept, product, change, turned
        )
        if not share > taken:
            break
        taken = share
        for k in range(4):
            best[k][:] = change[k]
        if share > 1.05:
            break
    taken = min(1.0, BACK * taken)
    for k in range(4):
        _add(taken, best[k], at[k])
    return taken


# ---- the cone -------------------------------------------------------------------------------

STAIR = 50  # unknowns that rows begin to hold together


def stairs(rows: Array, right: Array) -> tuple[Array, Array]:
    """Return rows rotated into staircase form, each run zero before unknowns of its own.

    Their squares, and so all that they say, are the same; sums of products of rows have a third of
    the terms.

    Args:
        rows: Shape (r, n).
        right: Right-hand side, shape (r,).
    """
    out, done = np.column_stack([rows, right]), 0
    nothing = max(rows.shape) * float(np.finfo(float).eps) * float(np.linalg.norm(rows))
    for first in range(0, rows.shape[1], STAIR):
        own = slice(first, min(first + STAIR, rows.shape[1]))
        turn, stair, _ = scipy.linalg.qr(out[done:, own], pivoting=True)
        count = int(np.sum(np.linalg.norm(stair, axis=1) > nothing))
        out[done:] = turn.T @ out[done:]
        done += count
        out[done:, own] = 0.0
        if done == len(out):
            break
    return out[:, :-1], out[:, -1]


@dataclass(frozen=True)
class FitsCone:
    """Possible fits as a cone of v = (y, e, s)."""

    links: int  # number of bodies, whose ten stand first in y
    rows: Array  # R and below it L, shape (r + k, n)
    right: Array  # r and l, shape (r + k,)
    limits: int  # number k of limits
    radius: float  # ρ

    @cached_property
    def tens(self) -> Array:
        """Transposed columns of each body, shape (links, 10, r + k)."""
        return np.ascontiguousarray(self.rows[:, self.bodies].T).reshape(self.links, 10, -1)

    @cached_property
    def stairs(self) -> tuple[tuple[slice, int], ...]:
        """Runs of rows, and the unknown before which each is zero; see `stairs`."""
        first = np.argmax(self.rows != 0.0, axis=1) // STAIR * STAIR
        edges = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist(), len(first)]
        return tuple((slice(a, b), int(first[a])) for a, b in pairwise(edges) if b > a)

    @cached_property
    def unknowns(self) -> int:
        """Number n of unknowns y."""
        return int(self.rows.shape[1])

    @cached_property
    def bodies(self) -> slice:
        """Slots of the bodies' slacks."""
        return slice(0, 10 * self.links)

    @cached_property
    def signs(self) -> slice:
        """Slots of the slacks of terms, which are their places in y as well."""
        return slice(10 * self.links, self.unknowns)

    @cached_property
    def linear(self) -> slice:
        """Slots of the slacks of terms and of limits."""
        return slice(10 * self.links, self.unknowns + self.limits)

    @cached_property
    def ball(self) -> slice:
        """Slots of the misfit's slacks."""
        return slice(self.linear.stop, self.linear.stop + len(self.rows) - self.limits + 2)

    @cached_property
    def plain(self) -> Cone:
        """The cone as kernels take it."""
        first = np.argmax(self.rows != 0.0, axis=1)
        return self.rows, first, self.right, self.radius, self.links, self.limits

    @property
    def slots(self) -> int:
        """Number of slacks."""
        return int(self.ball.stop)

    def slack(self, v: Array) -> Array:
        """Return the slacks P v."""
        out = np.empty(self.slots)
        slacks(self.plain, v, out)
        return out

    def inverse(self, slack: Array) -> Array:
        """Return z with `s ∘ z` the unit element: the barrier's negative gradient."""
        out = np.empty_like(slack)
        matrices = np.asarray(np.linalg.inv(unstack(slack[self.bodies].reshape(-1, 10))), float)
        out[self.bodies] = stack(0.5 * (matrices + np.swapaxes(matrices, 1, 2))).ravel()
        out[self.linear] = 1.0 / slack[self.linear]
        ball = slack[self.ball]
        out[self.ball] = -ball / depth(ball)
        out[self.ball.start] *= -1.0
        return out

    def equations(self, slack: Array, push: Array) -> Equations | None:
        """Return the scaling and Newton's equations, factored; None at the boundary's rounding.

        What is eliminated first are bodies and terms, each by itself. Of multipliers p on rows of
        the data, those of ρ s and of e follow from the equations of s and e, and leave
        `R D⁻¹ Rᵀ + Fᵀ W Wᵀ F`, as large as rows are many, in which all differences are resolved:
        rows of very different size, and misfits near the ball's boundary, harm nothing.
        """
        count, maps = len(self.rows), np.empty((2, self.links, 10, 10))
        lengths, both = np.empty((2, self.linear.stop - self.linear.start))
        axis, middle = np.empty((2, self.slots - self.linear.stop))
        size = np.empty(1)
        scaling = maps, np.empty((self.links, 4)), lengths, both, axis, middle, size
        if not scale(self.plain, slack, push, scaling):
            return None
        eta, terms = size[0], len(lengths) - self.limits
        halved = np.empty((self.unknowns, count))  # D^-1/2 R^T
        tens = halved[self.bodies].reshape(-1, 10, count)
        np.matmul(np.swapaxes(maps[1], 1, 2), self.tens, out=tens)
        halved[self.signs] = lengths[:terms, None] * self.rows[:, self.signs].T
        # FᵀWWᵀF is η² (1 − 2/h w wᵀ + h g gᵀ) on rows of the misfit, with h = 2 w_0² − 1.
        sure = 2.0 * axis[0] ** 2 - 1.0
        across = np.append(axis[2:], np.zeros(self.limits))
        normal = np.empty((count, count), order="F")  # the upper triangle alone is told
        for own, start in self.stairs:
            seen = halved[start:]
            np.matmul(seen[:, own].T, seen[:, : own.stop], out=normal.T[own, : own.stop])
        normal = dsyr(-2.0 * eta**2 / sure, across, a=normal, overwrite_a=True)
        added = np.full(count, eta**2)
        added[count - self.limits :] = lengths[terms:] ** 2
        normal.ravel(order="K")[:: count + 1] += added
        factor, failed = dpotrf(normal, clean=False, overwrite_a=True)
        if failed:
            return None
        along = self.right / self.radius + (2.0 * axis[0] / sure) * across
        solved = dpotrs(factor, along)[0]
        rest = 1.0 / (eta**2 * sure) + float(along @ solved)
        return scaling, (factor.T, along, solved, rest)


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    body = stack(np.eye(4))
    cone = FitsCone(1, np.eye(1, 10), np.ones(1), 0, 2.0)
    v = np.append(body, [0.0, 1.0])
    slack = cone.slack(v)
    at = v, slack, cone.inverse(slack), np.array([0.0, 1.0, 1.0])
    problem, lacking = np.eye(2, 12, 10), (np.empty(cone.slots), np.empty(12), np.empty(2))
    judge(cone.plain, problem, at, lacking)
    equations = cone.equations(*at[1:3])
    if equations is not None:
        step(cone.plain, *equations, problem, at, lacking)


KERNELS = Kernels((depth, slacks, scale, judge, step), warm_up)
