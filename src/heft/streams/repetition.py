"""Stretches in which a device repeats itself: frozen, zero, or held by a driver that lost it.

Noise makes two samples of a working sensor differ, so what repeats itself for long is no
measurement, from its first sample on. Logs and live samples are judged alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

Times: TypeAlias = NDArray[Any]  # int64 [ns], or float [s]


@dataclass(frozen=True, eq=False)
class Newest:
    """Newest sample of a device, and since when it has repeated itself.

    Attributes:
        values: Shape (signals,).
        since: Stamp since which each group of signals has these values, shape (groups,) [ns].
    """

    values: Array
    since: Times


def unchanged_since(
    stamps: Times, values: Array, groups: Sequence[Sequence[int]], before: Newest | None = None
) -> Times:
    """Return the stamps since which groups of signals have not changed, shape (N, groups).

    Args:
        stamps: Shape (N,), N > 0, increasing.
        values: Shape (N, signals).
        groups: Columns of each group; one changes if one of its signals does.
        before: Sample before the first one, if any.
    """
    since = np.empty((len(stamps), len(groups)), dtype=stamps.dtype)
    for k, group in enumerate(groups):
        own = values[:, list(group)]
        changed = np.ones(len(stamps), dtype=bool)
        changed[1:] = (own[1:] != own[:-1]).any(axis=1)
        begin = stamps[0]
        if before is not None and (own[0] == before.values[list(group)]).all():
            changed[0], begin = False, before.since[k]
        since[:, k] = np.maximum.accumulate(np.where(changed, stamps, begin))
    return since


def repeated(stamps: Times, since: Times, longest: float) -> NDArray[np.bool_]:
    """Return which samples are of a stretch that repeats itself for too long, shape (N,).

    All samples of such a stretch are, its first one too.

    Args:
        stamps: Shape (N,).
        since: Stamp since which each sample is unchanged, shape (N,); see `unchanged_since`.
        longest: Duration up to which a stretch is accepted, in the stamps' unit.
    """
    late = stamps - since > longest
    return np.isin(since, since[late]) if late.any() else late
