"""Covariance of least squares by the channels' scores, in coordinates in which it is sparse.

With G the inverse of the weighted triangle, the covariance is `G M Gᵀ`, `M = Gᵀ (Σ_c SᵀS) G` the
covariance of the scores in coordinates in which their information is the identity [Huber1967;
White1980]. Of a channel's score M holds its own columns and those that channels share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import BorderedInverse


def sandwich(
    factors: Sequence[Array], common: Array, inverses: Sequence[BorderedInverse], size: int
) -> Array:
    """Return the covariance of β, zero for columns without an inverse.

    Args:
        factors: For each channel S with `SᵀS` the covariance of its weighted score, shape (any, b).
        common: S of the errors that all channels share, shape (any, b).
        inverses: Inverse of each component of the weighted information.

    Returns:
        Shape (b, b).
    """
    part_of, set_of = np.full(size, -1), np.full(size, -1)
    for k, inverse in enumerate(inverses):
        part_of[inverse.columns] = k
        for c, corner in enumerate(inverse.corners):
            set_of[inverse.columns[corner.own]] = c
    mine: list[list[tuple[int, Array, NDArray[np.intp]]]] = [[] for _ in inverses]
    others = [common]
    for factor in factors:
        held = np.flatnonzero(factor.any(axis=0) & (part_of >= 0))
        parts, sets = np.unique(part_of[held]), np.unique(set_of[held])
        sets = sets[sets >= 0]
        if len(parts) == 1 and len(sets) <= 1:
            mine[parts[0]].append((int(sets[0]) if len(sets) else -1, factor, held))
        elif len(parts):  # it mixes what others see alone
            others.append(factor)
    found = np.zeros((size, size))
    for inverse, own in zip(inverses, mine, strict=True):
        found[np.ix_(inverse.columns, inverse.columns)] = _of_component(inverse, own)
    shared = np.vstack(others)
    shared = shared[shared.any(axis=1)]
    if len(shared):
        moved = np.zeros(shared.shape)
        for inverse in inverses:
            columns = inverse.columns
            moved[:, columns] = inverse.back(inverse.times(shared[:, columns]))
        found += moved.T @ moved
    return found


def _of_component(
    inverse: BorderedInverse, own: Sequence[tuple[int, Array, NDArray[np.intp]]]
) -> Array:
    """Return the covariance of connected columns, shape (n, n).

    Args:
        own: Corner that a channel's score holds, -1 for none, its factor and its columns.
    """
    common = len(inverse.shared)
    corners = [np.zeros(corner.R.shape) for corner in inverse.corners]
    borders = [np.zeros(corner.beside.shape) for corner in inverse.corners]
    centre = np.zeros((common, common))
    place = np.full(len(inverse.columns), -1)
    place[inverse.shared] = np.arange(common)
    for c, factor, held in own:
        at = place[np.searchsorted(inverse.columns, held)]
        beside = factor[:, held[at >= 0]] @ inverse.R[at[at >= 0]]
        if c >= 0:
            corner = inverse.corners[c]
            alone = factor[:, inverse.columns[corner.own]]
            beside += alone @ corner.beside
            white = alone @ corner.R
            corners[c] += white.T @ white
            borders[c] += white.T @ beside
        centre += beside.T @ beside
    found = np.zeros((len(inverse.columns),) * 2)
    shared = inverse.shared
    found[np.ix_(shared, shared)] = inverse.R @ centre @ inverse.R.T
    if inverse.corners:
        places = np.concatenate([corner.own for corner in inverse.corners])
        spread = np.vstack([corner.beside for corner in inverse.corners])
        half = np.vstack([g.R @ b for g, b in zip(inverse.corners, borders, strict=True)])
        whole = half + spread @ centre
        diagonal = [g.R @ m @ g.R.T for g, m in zip(inverse.corners, corners, strict=True)]
        among = whole @ spread.T + spread @ half.T + scipy.linalg.block_diag(*diagonal)
        across = whole @ inverse.R.T
        found[np.ix_(places, places)] = among
        found[np.ix_(places, shared)] = across
        found[np.ix_(shared, places)] = across.T
    return (found + found.T) / 2.0
