"""Least squares of all channels' torque under one hypothesis, weighted by what each leaves over.

Channels share the bodies' parameters and each has friction of its own. Their sums of squares stand,
so a fit takes as long however many rows there are. Each limb's unknowns are factored in one order,
bodies first: which friction must be set to zero is then a question of the friction alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import Kernels, reassociated
from heft.information import PARAMETER_COUNT as TEN

# Of the diagonal, by which rounding may leave sums of squares off.
ROUNDING = 1e-11
TOLERANCE = 1e-9  # of a pull on friction that is zero
SETTLED_PRIOR = 0.1  # change of a body's prior precision's logarithm below which it is settled
SETTLED = 3e-3  # change of a residual's logarithm below which its weight is settled


class Channels(NamedTuple):
    """Sums of products of m channels' rows, and the torque that they are fitted to."""

    sums: Array  # of each channel's Y, squares of their own sizes one behind the other
    columns: NDArray[np.int64]  # which unknowns a channel's columns are, padded, shape (m, K)
    counts: NDArray[np.int64]  # how many columns a channel has, shape (m,)
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
    bodies: int  # unknowns of bodies, which come first


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
def _solve(A, x):  # type: ignore[no-untyped-def]
    """Solve A x = x in place."""
    L = np.linalg.cholesky(A)
    _forward(L, x)
    _backward(L, x)


@reassociated(allocates=True)
def _eliminate(A, own, right, S, x):  # type: ignore[no-untyped-def]
    """Take friction, rows `own` of A, out of the bodies' S x = x."""
    first, end = len(x), 0  # of the bodies that it is beside
    for i in own:
        for k in range(len(x)):
            if A[i, k] != 0.0:
                first, end = min(first, k), max(end, k + 1)
    if end <= first:
        return
    W, block = np.zeros((-(-len(own) // 4) * 4, end - first)), np.empty((len(own), len(own)))
    for j in range(len(own)):
        W[j] = A[own[j], first:end]
        block[j] = A[own[j]][own]
    L, below = np.linalg.cholesky(block), x[first:end]
    _forward(L, right)
    for j in range(len(own)):
        for i in range(j):
            W[j] -= L[j, i] * W[i]
        W[j] /= L[j, j]
        below -= right[j] * W[j]
    for i in range(len(below)):
        row = S[first + i, first : first + i + 1]
        for j in range(0, len(W), 4):  # of slices, four at once, which is far faster
            a, b, c, d = W[j, i], W[j + 1, i], W[j + 2, i], W[j + 3, i]
            one, two, three, four = W[j], W[j + 1], W[j + 2], W[j + 3]
            for k in range(len(row)):
                row[k] -= a * one[k] + b * two[k] + c * three[k] + d * four[k]


@reassociated(allocates=True)
def _nonnegative(A, x, signed, held):  # type: ignore[no-untyped-def]
    """Solve A x = x in place, except that what is signed is not negative; return if `held` changed.

    What is not held is zero: what comes out negative is let go, then what is pulled up is held.
    """
    right, before, unit = x.copy(), held.copy(), 1.0 / np.sqrt(np.diag(A))
    for _ in range(2 * len(x)):
        own = np.flatnonzero(held)
        part = right[own]
        _solve(A[own][:, own], part)
        x[:] = 0.0
        x[own] = part
        other = held & signed & (x < 0.0)
        if not other.any():
            pull = unit * (right - A @ x)
            other = ~held & (pull > TOLERANCE * np.max(np.abs(unit * right)))
            if not other.any():
                break
        x[other] = 0.0
        held ^= other
    return (held != before).any()


@reassociated(allocates=True)
def _least(A, x, signed, bodies, group, held):  # type: ignore[no-untyped-def]
    """Solve A x = x in place for bodies beside friction that is held, then for all friction.

    Friction is eliminated first, each group by itself: no matrix is larger than the bodies'.
    Return whether other friction than before is held.
    """
    S, below, changed = A[:bodies, :bodies].copy(), x[:bodies], False
    order = bodies + np.argsort(group[bodies:], kind="mergesort")
    ends = np.append(np.flatnonzero(np.diff(group[order])) + 1, len(order))
    for k in range(len(ends)):
        own = order[ends[k - 1] if k else 0 : ends[k]]
        own = own[held[own]]
        _eliminate(A, own, x[own], S, below)
    _solve(S, below)
    for k in range(len(ends)):
        own = order[ends[k - 1] if k else 0 : ends[k]]
        behind, mine, block = x[own], held[own], np.empty((len(own), len(own)))
        for i in range(len(own)):
            row = A[own[i]]
            for j in range(bodies):
                behind[i] -= row[j] * below[j]
            for j in range(i + 1):
                block[i, j] = block[j, i] = row[own[j]]
        changed |= _nonnegative(block, behind, signed[own], mine)
        x[own], held[own] = behind, mine
    return changed


@reassociated(allocates=True)
def _limbs(columns, counts, size, least):  # type: ignore[no-untyped-def]
    """Return the first of the unknowns, from `least` on, that channels connect each with."""
    first, changed = np.arange(size), True
    while changed:
        changed = False
        for c in range(len(counts)):
            own = columns[c, : counts[c]][columns[c, : counts[c]] >= least]
            lowest = np.min(first[own]) if len(own) else 0
            for i in own:
                changed = changed or first[i] != lowest
                first[i] = lowest
    return first


@reassociated(allocates=True)
def _fit(channels, prior, deviation, held, rounds, hopeless, values):  # type: ignore[no-untyped-def]
    """Write the fit into `values` and its residuals into `deviation`; return `Σ_j n_j log σ_j²`."""
    sums, columns, counts, right, energy, scale, memory, floor, rows = channels
    starts = np.append(0, np.cumsum(counts**2))
    precision, start, signed, tail, bodies = prior
    ridge, likelihood = precision.copy(), np.inf
    limbs = _limbs(columns, counts, len(start), 0)
    groups = _limbs(columns, counts, len(start), bodies)
    place, firsts = np.zeros(len(start), dtype=np.int64), np.unique(limbs)
    for first in firsts:
        own = np.flatnonzero(limbs == first)
        place[own] = np.arange(len(own))
    work = np.empty((place.max() + 1) ** 2)
    for _ in range(rounds):
        moved = False
        values[:] = ridge * start
        for first in firsts:
            own = np.flatnonzero(limbs == first)
            size, solid, group = len(own), np.searchsorted(own, bodies), groups[own]
            A = work[: size * size].reshape(size, size)
            A[:, :solid] = 0.0
            for i in range(size):
                if i >= solid:  # what it is zero with is not looked at
                    A[i, solid:][group[solid:] == group[i]] = 0.0
                A[i, i] = ridge[own[i]]
            for c in range(len(counts)):
                if not counts[c] or limbs[columns[c, 0]] != first:
                    continue
                weight = 1.0 / (max(deviation[c], floor[c]) ** 2 * memory[c])
                products = sums[starts[c] : starts[c + 1]].reshape(counts[c], counts[c])
                at = place[columns[c, : counts[c]]]
                dense = np.searchsorted(at, solid)
                if dense and at[dense - 1] - at[0] >= dense:  # not side by side
                    dense = 0
                for a in range(counts[c]):
                    values[columns[c, a]] += weight * scale[c] * right[c, a]
                    row, along, many = A[at[a]], products[a], min(dense, a + 1)
                    if many:
                        beside = row[at[0] : at[0] + many]
                        for b in range(many):
                            beside[b] += weight * along[b]
                    for b in range(many, a + 1):  # columns ascend
                        row[at[b]] += weight * along[b]
            for i in range(size):
                A[i, i] *= 1.0 + ROUNDING
            part, mine = values[own], held[own]
            moved |= _least(A, part, signed[own], solid, group, mine)
            values[own], held[own] = part, mine
        for first in range(0, bodies, TEN):
            ten = slice(first, first + TEN)
            far = np.sum(precision[ten] * (values[ten] - start[ten]) ** 2)
            tempered = min((tail + TEN) / (tail + far), 1.0) * precision[ten]
            moved |= abs(np.log(tempered[0] / ridge[first])) > SETTLED_PRIOR
            ridge[ten] = tempered
        likelihood = 0.0
        for c in range(len(counts)):
            products = sums[starts[c] : starts[c + 1]].reshape(counts[c], counts[c])
            own, rest = values[columns[c, : counts[c]]], scale[c] ** 2 * energy[c]
            for a in range(counts[c]):
                across = products[a, a] * own[a] - 2.0 * scale[c] * right[c, a]
                for b in range(a):
                    across += 2.0 * products[a, b] * own[b]
                rest += own[a] * across
            before = deviation[c]
            deviation[c] = np.sqrt(max(rest, 0.0) / rows + floor[c] ** 2)
            moved |= abs(np.log(deviation[c] / before)) > SETTLED
            likelihood += rows / memory[c] * 2.0 * np.log(deviation[c] / abs(scale[c]))
        if likelihood > hopeless or not moved:
            break
    return likelihood


def fitted(
    channels: Channels,
    prior: Prior,
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
    values, residual = np.zeros(len(prior.start)), deviation.copy()
    likelihood = _fit(
        tuple(channels), tuple(prior), residual, held.copy(), rounds, float(hopeless), values
    )
    return values, residual, likelihood


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    one, none = np.ones(1), np.zeros(1, dtype=np.int64)
    columns = np.zeros((1, 1), dtype=np.int64)
    channels = Channels(one, columns, none + 1, one[None], one, one, one, one, 1.0)
    prior = Prior(one, one, np.zeros(1, dtype=bool), 4.0, 0)
    fitted(channels, prior, one, one > 0.0, 1)


KERNELS = Kernels((_fit,), warm_up)
