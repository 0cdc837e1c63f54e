"""Least squares of all channels' torque under one hypothesis, weighted by what each leaves over.

Channels share the bodies' parameters and each has friction of its own. Their sums of squares stand,
so a fit takes as long however many rows there are, and of a motion near another only those of its
own columns are anew. Each limb's unknowns are factored in one order, friction first, which of it
must be set to zero is then a question of the friction alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import Kernels, reassociated
from heft.information import PARAMETER_COUNT as TEN
from heft.information import connected

# Of the diagonal, by which rounding may leave sums of squares off.
ROUNDING = 1e-11
TOLERANCE = 1e-9  # of a pull on friction that is zero
SETTLED_PRIOR = 0.1  # change of a body's prior precision's logarithm below which it is settled
SETTLED = 3e-3  # change of a residual's logarithm below which its weight is settled


class Order(NamedTuple):
    """Order of the p unknowns that channels hold: limb by limb, bodies first, then their friction.

    A limb is what m channels connect, a group what they connect of friction.
    """

    unknowns: NDArray[np.int64]  # shape (p,)
    columns: NDArray[np.int64]  # places of each channel's in that order, padded, shape (m, K)
    counts: NDArray[np.int64]  # how many a channel has, shape (m,)
    solid: NDArray[np.int64]  # how many of these, the first, are bodies', shape (m,)
    of_limb: NDArray[np.int64]  # the limb of each channel, shape (m,)
    of_group: NDArray[np.int64]  # its friction's group, shape (m,)
    # places of a limb's first unknown and behind its last body, shape (limbs, 2)
    limbs: NDArray[np.int64]
    # places of a group's first unknown, behind its last, of the first body beside it, and behind
    # the last; its limb; where its rows begin in memory; shape (groups, 6)
    groups: NDArray[np.int64]

    @staticmethod
    def of(columns: Sequence[NDArray[np.intp]], size: int, bodies: int) -> Order:
        """Return the order of `size` unknowns, the first of which are the bodies'.

        Args:
            columns: The unknowns of each channel, ascending.
        """
        counts = np.array([len(own) for own in columns])
        solid = np.array([np.searchsorted(own, bodies) for own in columns])
        rubs = connected([own[n:] for own, n in zip(columns, solid, strict=True)], size)
        parts, count, memory = [], 0, 0
        limbs: list[tuple[int, ...]] = []
        groups: list[tuple[int, ...]] = []
        of_limb, of_group = np.zeros((2, len(columns)), dtype=np.int64)
        for limb in (limb for limb in connected(columns, size) if len(limb.rows)):
            of_limb[limb.rows], start = len(limbs), count
            solids = limb.columns[limb.columns < bodies]
            parts.append(solids)
            count += len(solids)
            limbs.append((start, count))
            for group in (g for g in rubs if len(g.rows) and g.rows[0] in limb.rows):
                of_group[group.rows], first = len(groups), count
                beside = np.concatenate([columns[k][: solid[k]] for k in group.rows])
                low = start + int(np.searchsorted(solids, beside.min(initial=bodies)))
                high = start + int(np.searchsorted(solids, beside.max(initial=-1) + 1))
                parts.append(group.columns[group.columns >= bodies])
                count += len(parts[-1])
                groups.append((first, count, low, high, len(limbs) - 1, memory))
                memory += (count - first) * (count - first + high - low)
        unknowns, at = np.concatenate(parts), np.zeros((len(columns), int(counts.max())), dtype=int)
        place = np.zeros(size, dtype=int)
        place[unknowns] = np.arange(len(unknowns))
        for k, own in enumerate(columns):
            at[k, : len(own)] = place[own]
        limb_ends, group_ends = np.array(limbs), np.array(groups or [(0,) * 6])
        return Order(unknowns, at, counts, solid, of_limb, of_group, limb_ends, group_ends)


class Channels(NamedTuple):
    """Sums of products of m channels' rows, and the torque that they are fitted to."""

    sums: Array  # of each channel's Y, squares of their own sizes one behind the other
    # rows of these squares that `sums` has of another motion, channel by channel
    anew: Array
    moved: NDArray[np.bool_]  # of which unknowns, in their order, shape (p,)
    right: Array  # Yᵀτ of the logged torque that is the channel's, padded, shape (m, K)
    energy: Array  # sum of squares of that torque, shape (m,)
    scale: Array  # its factor, shape (m,)
    memory: Array  # rows that add as much as one, shape (m,)
    floor: Array  # smallest root mean square residual, shape (m,)
    rows: float  # of each channel


class Prior(NamedTuple):
    """Prior of the p unknowns: Gaussian of friction, Student's t of each body."""

    precision: Array  # shape (p,)
    start: Array  # its mean, shape (p,)
    signed: NDArray[np.bool_]  # which must not be negative, shape (p,); no body's
    tail: float  # degrees of freedom of the t


@reassociated
def _factor(A):  # type: ignore[no-untyped-def]
    """Replace the lower half of A by L with A = L Lᵀ."""
    for j in range(len(A)):
        for i in range(j, len(A)):
            rest = A[i, j]
            for k in range(j):
                rest -= A[i, k] * A[j, k]
            A[i, j] = rest / A[j, j] if i > j else np.sqrt(rest)


@reassociated
def _forward(L, x):  # type: ignore[no-untyped-def]
    """Solve L x = x in place."""
    for j in range(len(x)):
        x[j] /= L[j, j]
        for i in range(j + 1, len(x)):
            x[i] -= L[i, j] * x[j]


@reassociated
def _backward(L, x):  # type: ignore[no-untyped-def]
    """Solve Lᵀ x = x in place."""
    for j in range(len(x) - 1, -1, -1):
        across = 0.0
        for i in range(j + 1, len(x)):
            across += L[i, j] * x[i]
        x[j] = (x[j] - across) / L[j, j]


@reassociated(allocates=True)
def _active(G, x, active):  # type: ignore[no-untyped-def]
    """Return the factor of active friction, the last columns of G, its x, and its places."""
    own, count, offset = np.empty(len(x), dtype=np.int64), 0, G.shape[1] - len(G)
    for i in range(len(x)):
        if active[i]:
            own[count] = i
            count += 1
    L, part = np.empty((count, count)), np.empty(count)
    for i in range(count):
        part[i] = x[own[i]]
        for j in range(i + 1):
            L[i, j] = G[own[j], offset + own[i]]
    _factor(L)
    return L, part, own


@reassociated(allocates=True)
def _eliminate(G, rubs, active, S, first, below):  # type: ignore[no-untyped-def]
    """Take the friction of G that is active out of the bodies' S below = below, from `first` on."""
    L, right, own = _active(G, rubs, active)
    _forward(L, right)
    W = np.zeros((-(-len(L) // 4) * 4, len(below)))
    for j in range(len(L)):
        one = W[j]
        beside = G[own[j]]
        for k in range(len(one)):
            one[k] = beside[k]
        for i in range(j):
            other, factor = W[i], L[j, i]
            for k in range(len(one)):
                one[k] -= factor * other[k]
        factor = 1.0 / L[j, j]
        for k in range(len(one)):
            one[k] *= factor
            below[k] -= right[j] * one[k]
    for i in range(0, len(below), 2):  # of rows two, of slices four at once, which is far faster
        row, under = S[first + i, first:], S[first + i + 1, first:]
        for j in range(0, len(W), 4):
            one, two, three, four = W[j], W[j + 1], W[j + 2], W[j + 3]
            a, b, c, d = one[i], two[i], three[i], four[i]
            e, f, g, h = one[i + 1], two[i + 1], three[i + 1], four[i + 1]
            for k in range(i, len(below)):
                w, x, y, z = one[k], two[k], three[k], four[k]
                row[k] -= a * w + b * x + c * y + d * z
                under[k] -= e * w + f * x + g * y + h * z


@reassociated(allocates=True)
def _nonnegative(G, x, signed, held):  # type: ignore[no-untyped-def]
    """Fit friction x to its right-hand side x in place; what is signed is not negative.

    What is not held is zero: what comes out negative is let go, then what is pulled up is held.
    Return whether other friction than before is held.
    """
    right, before, most, offset = x.copy(), held.copy(), 0.0, G.shape[1] - len(G)
    for i in range(len(x)):
        most = max(most, abs(right[i]) / np.sqrt(G[i, offset + i]))
    for _ in range(2 * len(x)):
        L, part, own = _active(G, right, held)
        _forward(L, part)
        _backward(L, part)
        is_other = False
        for i in range(len(x)):
            x[i] = 0.0
        for i in range(len(part)):
            if signed[own[i]] and part[i] < 0.0:
                is_other, held[own[i]] = True, False
            else:
                x[own[i]] = part[i]
        for i in range(0 if is_other else len(x)):
            if not held[i]:
                pull = right[i]
                for j in range(len(x)):
                    pull -= G[min(i, j), offset + max(i, j)] * x[j]
                held[i] = pull / np.sqrt(G[i, offset + i]) > TOLERANCE * most
                is_other = is_other or held[i]
        if not is_other:
            break
    changed = False
    for i in range(len(x)):
        changed = changed or held[i] != before[i]
    return changed


@reassociated
def _add(normal, square, at, firsts, solid, weight):  # type: ignore[no-untyped-def]
    """Add a channel's square to the upper halves of the bodies' S and its friction's G."""
    (S, G), (first, low, begin) = normal, firsts
    for a in range(len(at)):
        along = square[a]
        if a < solid:
            row, b, offset = S[at[a] - first], a, first
        else:
            row, b, offset = G[at[a] - begin], 0, low
        if b < solid and at[solid - 1] - at[b] == solid - 1 - b:  # side by side
            part = row[at[b] - offset : at[solid - 1] - offset + 1]
            for k in range(len(part)):
                part[k] += weight * along[b + k]
        else:
            for k in range(b, solid):
                row[at[k] - offset] += weight * along[k]
        if a >= solid:
            for k in range(a, len(at)):
                row[len(row) - len(G) + at[k] - begin] += weight * along[k]


@reassociated
def _replace(normal, anew, moved, at, firsts, solid, weight):  # type: ignore[no-untyped-def]
    """Add a channel's rows of what moved to S and G, where these hold nothing of it."""
    (S, G), (first, low, begin) = normal, firsts
    count, offset = 0, G.shape[1] - len(G) - begin
    for a in range(len(at)):
        if moved[at[a]]:
            for b in range(len(at)):
                if b >= a or not moved[at[b]]:  # of two that moved, once
                    more, i, j = weight * anew[count, b], min(a, b), max(a, b)
                    if j < solid:
                        S[at[i] - first, at[j] - first] += more
                    elif i < solid:
                        G[at[j] - begin, at[i] - low] += more
                    else:
                        G[at[i] - begin, offset + at[j]] += more
            count += 1


@reassociated
def _clear(S, G, moved, first, low, high, begin):  # type: ignore[no-untyped-def]
    """Let a limb's bodies S and a group of its friction G hold nothing of what moved."""
    for i in range(len(S)):
        if moved[first + i]:
            S[i] = 0.0
            for j in range(i):
                S[j, i] = 0.0
            if low <= first + i < high:
                for j in range(len(G)):
                    G[j, first + i - low] = 0.0
    for i in range(len(G)):
        if moved[begin + i]:
            G[i] = 0.0
            for j in range(i):
                G[j, high - low + i] = 0.0


@reassociated(allocates=True)
def _square(square, anew, moved, at, x):  # type: ignore[no-untyped-def]
    """Return xᵀP x of a channel's square P, of which rows `anew` are of what moved."""
    total, count, old = 0.0, 0, np.empty(len(at))
    for a in range(len(at)):
        old[a] = 0.0 if moved[at[a]] else x[at[a]]
    for a in range(len(at)):
        across = 0.0
        if moved[at[a]]:
            for b in range(len(at)):
                across += anew[count, b] * (old[b] + x[at[b]])
            total += x[at[a]] * across
            count += 1
        elif old[a] != 0.0:
            along = square[a]
            for b in range(a):
                across += along[b] * old[b]
            total += old[a] * (2.0 * across + along[a] * old[a])
    return total


@reassociated(allocates=True)
def _of_group(group, friction):  # type: ignore[no-untyped-def]
    """Return what a group's friction has beside its bodies, then of itself, a row each."""
    size, beside = group[1] - group[0], group[3] - group[2]
    return friction[group[5] :][: size * (size + beside)].reshape(size, size + beside)


@reassociated(allocates=True)
def _fit(channels, prior, order, deviation, held, ends, values):  # type: ignore[no-untyped-def]
    """Write the fit into `values` and its residuals into `deviation`; return `Σ_j n_j log σ_j²`."""
    sums, anew, moved, right, energy, scale, memory, floor, rows = channels
    (precision, start, signed, tail), (rounds, hopeless) = prior, ends
    columns, counts, solid, of_limb, of_group, limbs, groups = order
    ridge, likelihood, largest = precision.copy(), np.inf, 0
    starts = np.zeros((len(counts) + 1, 2), dtype=np.int64)  # of squares, and of rows anew
    for c in range(len(counts)):
        starts[c + 1, 0] = starts[c, 0] + counts[c] ** 2
        starts[c + 1, 1] = starts[c, 1]
        for a in range(counts[c]):
            starts[c + 1, 1] += counts[c] * moved[columns[c, a]]
    for first, last in limbs:
        largest = max(largest, last - first)
    begin, end, low, high, _, place = groups[-1]
    of_bodies = np.empty(largest**2)
    friction = np.empty(place + (end - begin) * (end - begin + high - low))
    for _ in range(rounds):
        is_moving, likelihood = False, 0.0
        friction[:] = 0.0
        for i in range(len(values)):
            values[i] = ridge[i] * start[i]
        for n in range(len(limbs)):
            first, last = limbs[n]
            S = of_bodies[: (last - first) ** 2].reshape(last - first, last - first)
            S[:] = 0.0
            for c in range(len(counts)):
                if of_limb[c] == n:
                    group, at = groups[of_group[c]], columns[c, : counts[c]]
                    weight = 1.0 / (max(deviation[c], floor[c]) ** 2 * memory[c])
                    square = sums[starts[c, 0] : starts[c + 1, 0]].reshape(len(at), len(at))
                    firsts, G = (first, group[2], group[0]), _of_group(group, friction)
                    _add((S, G), square, at, firsts, solid[c], weight)
                    for a in range(len(at)):
                        values[at[a]] += weight * scale[c] * right[c, a]
            for g in range(len(groups) if len(anew) else 0):
                begin, end, low, high, limb, _ = groups[g]
                if limb == n:
                    _clear(S, _of_group(groups[g], friction), moved, first, low, high, begin)
            for c in range(len(counts) if len(anew) else 0):
                if of_limb[c] == n:
                    group, at = groups[of_group[c]], columns[c, : counts[c]]
                    weight = 1.0 / (max(deviation[c], floor[c]) ** 2 * memory[c])
                    new = anew[starts[c, 1] : starts[c + 1, 1]].reshape(-1, len(at))
                    firsts, G = (first, group[2], group[0]), _of_group(group, friction)
                    _replace((S, G), new, moved, at, firsts, solid[c], weight)
            for i in range(len(S)):
                S[i, i] = (S[i, i] + ridge[first + i]) * (1.0 + ROUNDING)
            for g in range(len(groups)):
                begin, end, low, high, limb, _ = groups[g]
                if limb == n:
                    G = _of_group(groups[g], friction)
                    for i in range(len(G)):
                        own = G[i, high - low + i] + ridge[begin + i]
                        G[i, high - low + i] = own * (1.0 + ROUNDING)
                    x, below = values[begin:end], values[low:high]
                    _eliminate(G, x, held[begin:end], S, low - first, below)
            L = np.linalg.cholesky(S.T)
            _forward(L, values[first:last])
            _backward(L, values[first:last])
            for g in range(len(groups)):
                begin, end, low, high, limb, _ = groups[g]
                if limb == n:
                    G, below = _of_group(groups[g], friction), values[low:high]
                    for i in range(len(G)):
                        across, beside = 0.0, G[i]
                        for k in range(len(below)):
                            across += beside[k] * below[k]
                        values[begin + i] -= across
                    x, mine = values[begin:end], held[begin:end]
                    is_moving = _nonnegative(G, x, signed[begin:end], mine) or is_moving
            for i in range(first, last, TEN):
                far = 0.0
                for k in range(i, i + TEN):
                    far += precision[k] * (values[k] - start[k]) ** 2
                share = min((tail + TEN) / (tail + far), 1.0)
                change = np.log(share * precision[i] / ridge[i])
                is_moving = is_moving or abs(change) > SETTLED_PRIOR
                for k in range(i, i + TEN):
                    ridge[k] = share * precision[k]
        for c in range(len(counts)):
            at, rest = columns[c, : counts[c]], scale[c] ** 2 * energy[c]
            square = sums[starts[c, 0] : starts[c + 1, 0]].reshape(len(at), len(at))
            new = anew[starts[c, 1] : starts[c + 1, 1]].reshape(-1, len(at))
            rest += _square(square, new, moved, at, values)
            for a in range(len(at)):
                rest -= 2.0 * scale[c] * right[c, a] * values[at[a]]
            before = deviation[c]
            deviation[c] = np.sqrt(max(rest, 0.0) / rows + floor[c] ** 2)
            is_moving = is_moving or abs(np.log(deviation[c] / before)) > SETTLED
            likelihood += rows / memory[c] * 2.0 * np.log(deviation[c] / abs(scale[c]))
        if likelihood > hopeless or not is_moving:
            break
    return likelihood


def fitted(
    channels: Channels,
    prior: Prior,
    order: Order,
    deviation: Array,
    held: NDArray[np.bool_],
    rounds: int,
    hopeless: float = np.inf,
) -> tuple[Array, Array, float]:
    """Return the least squares of all channels, weighted by what each leaves over.

    Args:
        deviation: At which the weights begin, shape (m,).
        held: Which unknowns are not zero at first, shape (p,).
        rounds: Iterations of the weights.
        hopeless: Value of `Σ_j n_j log σ_j²` beyond which they are not iterated further.

    Returns:
        Unknowns, shape (p,), root mean square residuals, (m,), and `Σ_j n_j log σ_j²` with σ_j
        over the channel's scale.

    Raises:
        numpy.linalg.LinAlgError: If numbers are not finite.
    """
    at, residual, unknowns = order.unknowns, deviation.copy(), prior.start.copy()
    values = np.empty(len(at))
    own = (prior.precision[at], prior.start[at], prior.signed[at], prior.tail)
    likelihood = _fit(
        tuple(channels),
        own,
        tuple(order)[1:],
        residual,
        held[at],
        (rounds, float(hopeless)),
        values,
    )
    unknowns[at] = values
    return unknowns, residual, likelihood


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    one, none = np.ones(1), np.zeros(1, dtype=bool)
    order = Order.of([np.zeros(1, dtype=np.intp)], 1, 0)
    channels = Channels(one, np.empty(0), none, one[None], one, one, one, one, 1.0)
    fitted(channels, Prior(one, one, none, 4.0), order, one, one > 0.0, 1)


KERNELS = Kernels((_fit,), warm_up)
