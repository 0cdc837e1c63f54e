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

# Of the unit diagonal, by which rounding may leave sums of squares off.
ROUNDING = 1e-11
TOLERANCE = 1e-9  # of a pull on friction that is zero
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


@reassociated
def _solve(A, x):  # type: ignore[no-untyped-def]
    """Solve A x = x in place."""
    L = np.linalg.cholesky(A)
    _forward(L, x)
    _backward(L, x)


@reassociated
def _eliminate(A, right, S, x):  # type: ignore[no-untyped-def]
    """Take friction out of the bodies' S x = x, by its rows A on bodies, then on itself."""
    bodies = len(x)
    carried = np.flatnonzero(np.sum(np.abs(A[:, :bodies]), axis=0))
    if not len(carried):
        return
    first, end = carried[0], carried[-1] + 1
    L, W, below = np.linalg.cholesky(A[:, bodies:]), A[:, first:end].copy(), x[first:end]
    _forward(L, right)
    for j in range(len(W)):
        for i in range(j):
            W[j] -= L[j, i] * W[i]
        W[j] /= L[j, j]
        below -= right[j] * W[j]
    for i in range(len(below)):
        row = S[first + i, first : first + i + 1]
        for j in range(len(W)):
            size, along = W[j, i], W[j]
            for k in range(len(row)):  # of slices, which is four times as fast
                row[k] -= size * along[k]


@reassociated
def _nonnegative(A, x, signed, held):  # type: ignore[no-untyped-def]
    """Solve A x = x in place, except that what is signed is not negative; return if `held` changed.

    What is not held is zero: what comes out negative is let go, then what is pulled up is held.
    """
    right, before = x.copy(), held.copy()
    for _ in range(2 * len(x)):
        own = np.flatnonzero(held)
        part, columns = right[own], A[:, own]
        _solve(columns[own], part)
        x[:] = 0.0
        x[own] = part
        negative = held & signed & (x < 0.0)
        pull = right - columns @ part
        if not negative.any():
            negative = ~held & (pull > TOLERANCE * np.max(np.abs(right)))
            if not negative.any():
                break
        else:
            x[negative] = 0.0
        held ^= negative
    return (held != before).any()


@reassociated
def _least(A, x, signed, bodies, group, held):  # type: ignore[no-untyped-def]
    """Solve A x = x in place for bodies beside friction that is held, then for all friction.

    Friction is eliminated first, each group by itself: no matrix is larger than the bodies'.
    Return whether other friction than before is held.
    """
    S, below, every = A[:bodies, :bodies].copy(), x[:bodies], np.arange(bodies)
    firsts, changed = np.unique(group[bodies:]), False
    for first in firsts:
        own = np.flatnonzero(held & (group == first))
        _eliminate(A[own][:, np.append(every, own)], x[own], S, below)
    _solve(S, below)
    for first in firsts:
        own = np.flatnonzero(group == first)
        rows = A[own]
        behind = x[own] - np.ascontiguousarray(rows[:, :bodies]) @ below
        block, mine = rows[:, own], held[own]
        block += np.tril(block, -1).T
        changed |= _nonnegative(block, behind, signed[own], mine)
        x[own], held[own] = behind, mine
    return changed


@reassociated
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


@reassociated
def _fit(channels, prior, deviation, ridge, held, rounds, hopeless, values):  # type: ignore[no-untyped-def]
    """Write the fit into `values` and its residuals into `deviation`; return `Σ_j n_j log σ_j²`."""
    sums, columns, counts, right, energy, scale, memory, floor, rows = channels
    starts = np.append(0, np.cumsum(counts**2))
    precision, start, signed, tail, bodies = prior
    likelihood = np.inf
    limbs = _limbs(columns, counts, len(start), 0)
    groups = _limbs(columns, counts, len(start), bodies)
    place = np.zeros(len(start), dtype=np.int64)
    firsts = np.unique(limbs)
    for first in firsts:
        own = np.flatnonzero(limbs == first)
        place[own] = np.arange(len(own))
    for _ in range(rounds):
        moved = False
        values[:] = ridge * start
        for first in firsts:
            own = np.flatnonzero(limbs == first)
            A = np.diag(ridge[own])
            for c in range(len(counts)):
                if not counts[c] or limbs[columns[c, 0]] != first:
                    continue
                weight = 1.0 / (max(deviation[c], floor[c]) ** 2 * memory[c])
                products = sums[starts[c] : starts[c + 1]].reshape(counts[c], counts[c])
                at = place[columns[c, : counts[c]]]
                for a in range(counts[c]):
                    values[columns[c, a]] += weight * scale[c] * right[c, a]
                    row = A[at[a]]
                    for b in range(a + 1):  # columns ascend
                        row[at[b]] += weight * products[a, b]
            unit = 1.0 / np.sqrt(np.diag(A))
            for i in range(len(unit)):
                A[i, : i + 1] *= unit[i] * unit[: i + 1]
                A[i, i] += ROUNDING
            part, mine, solid = values[own] * unit, held[own], np.searchsorted(own, bodies)
            moved |= _least(A, part, signed[own], solid, groups[own], mine)
            values[own], held[own] = part * unit, mine
        for first in range(0, bodies, TEN):
            ten = slice(first, first + TEN)
            far = np.sum(precision[ten] * (values[ten] - start[ten]) ** 2)
            ridge[ten] = min((tail + TEN) / (tail + far), 1.0) * precision[ten]
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
    ridge: Array,
    held: NDArray[np.bool_],
    rounds: int,
    hopeless: float = np.inf,
) -> tuple[Array, Array, float]:
    """Return the least squares of all channels, weighted by what each leaves over.

    Args:
        deviation: At which the weights begin, shape (m,).
        ridge: Precision at which the tempered prior begins, shape (p,).
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
    ridge, held = ridge.copy(), held.copy()
    likelihood = _fit(
        tuple(channels), tuple(prior), residual, ridge, held, rounds, float(hopeless), values
    )
    return values, residual, likelihood


def warm_up() -> None:
    """Call the compiled function once, so that it is compiled and cached."""
    one, none = np.ones(1), np.zeros(1, dtype=np.int64)
    columns = np.zeros((1, 1), dtype=np.int64)
    channels = Channels(one, columns, none + 1, one[None], one, one, one, one, 1.0)
    prior = Prior(one, one, np.zeros(1, dtype=bool), 4.0, 0)
    fitted(channels, prior, one, one, one > 0.0, 1)


KERNELS = Kernels((_fit,), warm_up)
