"""Stretches in which a device repeats itself: frozen, zero, or held by a driver that lost it.

Noise makes two samples of a working sensor differ, so what repeats itself for long is no
measurement, from its first sample on. What no noise tells (joints, poses) may stand still; it is
frozen if it jumps where it begins or ends to repeat itself, or stops at once. Logs and live samples
are judged alike, but that a log shows how each stretch ends.

The numbers that tell a standstill were chosen on simulated rests and freezes of two joints, 100 to
1000 Hz, encoders of up to 1 mrad: rests that begin within 60 ms or more are none; in motion, 98 %
of freezes are found from 250 Hz on, 89 % at 125 Hz, 65 % at 100 Hz.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

Times: TypeAlias = NDArray[Any]  # int64 [ns], or float [s]
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Changes:
    """Samples of a group of signals that differ from the one before: each begins a stretch."""

    stamps: Times  # shape (N,), increasing
    values: Array  # shape (N, signals)

    @property
    def steps(self) -> Array:
        """Norms of the differences between neighbours, shape (N - 1,)."""
        return np.asarray(np.linalg.norm(np.diff(self.values, axis=0), axis=1))


def longest_accepted(changes: Changes, accepted: float) -> float:
    """Return the duration up to which a stretch is accepted, in the stamps' unit.

    Args:
        accepted: Duration that is accepted where changes come quickly, in the stamps' unit.
    """
    if len(changes.stamps) < 2:
        return accepted
    stretches = np.diff(changes.stamps)
    # where values are coarse, or told more often than measured, stretches are long
    return max(accepted, 5.0 * float(np.quantile(stretches, 0.95)))


def jumping(changes: Changes) -> NDArray[np.bool_]:
    """Return which stretches begin or end with a jump, shape (N,)."""
    steps = changes.steps
    large = np.zeros(0, dtype=bool)
    if len(steps):
        large = steps > 10.0 * np.quantile(steps, 0.95)
    return np.asarray(np.concatenate([[False], large]) | np.concatenate([large, [False]]))


def stops_at_once(changes: Changes, k: int, before: float) -> bool:
    """Whether steady motion in one direction ends where stretch k begins, at one sample.

    Args:
        before: Time before it that is looked at, in the stamps' unit.
    """
    stamps, values = changes.stamps, changes.values
    first, half = (np.searchsorted(stamps, stamps[k] - t) for t in (before, 0.5 * before))
    if k - first < 5:  # changes: too few to tell this from
        return False
    way, late = (float(np.linalg.norm(values[k] - values[j])) for j in (first, half))
    share = float(stamps[k] - stamps[half]) / float(stamps[k] - stamps[first])
    steps = changes.steps
    path, smallest = float(steps[first:k].sum()), float(steps.min())
    # The smallest step of an encoder is its resolution. Of a constant speed all is left in the
    # second half, of one that slows down evenly, as what has mass, half.
    one_way = way >= max(0.5 * path, 10.0 * smallest)
    return one_way and late >= 0.85 * share * way


@dataclass(frozen=True, eq=False)
class Newest:
    """Newest sample of a device, and since when it has repeated itself."""

    stamp: int  # of the sample [ns]
    values: Array  # shape (signals,)
    since: Times  # stamp since which each group of signals has these values, shape (groups,) [ns]
    waits: int  # stamp from which on samples may yet turn out frozen [ns]
    # newest changes of each group of a device that may stand still
    changes: tuple[Changes, ...] = ()


@dataclass(frozen=True)
class Repetition:
    """Finds frozen stretches in a device's samples as they come."""

    accepted: float  # duration of repetition that is accepted [ns]
    stands: bool  # whether the device may stand still

    def step(
        self, stamps: Times, values: Array, groups: Sequence[Sequence[int]], before: Newest | None
    ) -> tuple[NDArray[np.bool_], int, Newest]:
        """Return which samples are frozen, since when earlier ones were, and the newest sample.

        Args:
            stamps: Shape (N,), N > 0, increasing [ns].
            values: Shape (N, signals).
            groups: Columns of each group, each of which is frozen if none of its signals changes.
            before: Newest sample before these, if any.

        Returns:
            Whether each sample is frozen, shape (N,); the stamp from which on earlier ones were
            too, `NEVER` if none was; the newest sample.
        """
        since = unchanged_since(stamps, values, groups, before)
        if not self.stands:
            runs = np.stack([repeated(stamps, s, self.accepted) for s in since.T])
            bad = np.asarray(runs.any(axis=0))
            begin = int(since[bad].min()) if bad.any() else NEVER
            waits = int(since[-1].min())
            return bad, begin, Newest(int(stamps[-1]), values[-1], since[-1], waits)
        bad, begin, waits = np.zeros(len(stamps), dtype=bool), NEVER, NEVER
        every = []
        for k, group in enumerate(groups):
            own = values[:, list(group)]
            changes, frozen, open_since = self._judged(stamps, since[:, k], own, before, k)
            bad |= np.isin(since[:, k], frozen)
            begin, waits = min([begin, *map(int, frozen)]), min(waits, open_since)
            every.append(changes)
        return bad, begin, Newest(int(stamps[-1]), values[-1], since[-1], waits, tuple(every))

    def _judged(
        self, stamps: Times, since: Times, values: Array, before: Newest | None, k: int
    ) -> tuple[Changes, Times, int]:
        """Return a group's changes, begins of frozen stretches, and begin of an undecided one."""
        until = int(stamps[0]) - 1 if before is None else before.stamp
        new = (since == stamps) & (stamps > until)  # not those that were late
        changes, first = Changes(stamps[new], values[new]), 0
        if before is not None:
            old = before.changes[k]
            first = len(old.stamps) - 1
            changes = Changes(
                np.concatenate([old.stamps, changes.stamps]),
                np.concatenate([old.values, changes.values]),
            )
        begins = changes.stamps[first:]
        last = np.searchsorted(stamps, np.append(begins[1:], NEVER)) - 1
        ends = np.where(last >= 0, stamps[np.maximum(last, 0)], until)
        kept = slice(-500, None)  # changes that are remembered
        remembered = Changes(changes.stamps[kept], changes.values[kept])
        if (ends - begins).max() <= self.accepted:
            waits = NEVER if begins[-1] == stamps[-1] else int(begins[-1])
            return remembered, begins[:0], waits
        longest = longest_accepted(changes, self.accepted)
        jumped = jumping(changes)[first:]
        long = ends - begins > longest
        frozen = [
            bool(jumped[j]) or stops_at_once(changes, first + j, 1.5 * longest)
            for j in np.flatnonzero(long).tolist()
        ]
        waits = NEVER if long[-1] or begins[-1] == stamps[-1] else int(begins[-1])
        return remembered, begins[long][frozen], waits


def unchanged_since(
    stamps: Times, values: Array, groups: Sequence[Sequence[int]], before: Newest | None = None
) -> Times:
    """Return the stamps since which groups of signals have not changed, shape (N, groups).

    Args:
        stamps: Shape (N,), N > 0, increasing.
        values: Shape (N, signals).
        groups: Columns of each group, which changes if one of its signals does.
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
    """Return which samples are of a stretch that repeats itself for too long, its first one too.

    Args:
        stamps: Shape (N,).
        since: Stamp since which each sample is unchanged, shape (N,); see `unchanged_since`.
        longest: Duration up to which a stretch is accepted, in the stamps' unit.
    """
    late = stamps - since > longest
    return np.isin(since, since[late]) if late.any() else late
