"""Joining tables of one clock: the other tables interpolated at the first one's times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording

from .table import Table

GAP = 10.0  # usual steps without a sample, over which nothing is interpolated
SAME = 1e-9  # times as near as this are the same [s]: stamps count nanoseconds


def join(
    parts: Sequence[Table], path: str, notes: Sequence[str] = (), offsets: Sequence[float] = ()
) -> Table:
    """Return several tables of one clock as one table, with the rows of the first.

    A value of another part is that of its sample at the same time where there is one, and else
    linearly interpolated between its neighbours. It is NaN before the part's first and after its
    last sample, and in gaps of more than ten of its usual steps. Quaternions are interpolated along
    the shorter arc and normalised. Memory is one block of each part.

    Args:
        parts: Each with a column `t` [s]; no other column name occurs in two parts.
        path: Name of the joined table.
        notes: Remarks on the log, in addition to the parts' own.
        offsets: Added to each part's times [s]; zero if not given.

    Raises:
        InvalidRecording: While reading, if a part has no time in common with the first.
    """
    if len(parts) == 1 and not any(offsets):
        only = parts[0]
        return Table(
            path, only.columns, only.rows, only.read, only.others, only.epoch, (*notes, *only.notes)
        )
    clock = parts[0]
    shifts = [
        (part.epoch or 0) / 1e9 - (clock.epoch or 0) / 1e9
        if (part.epoch is None) != (clock.epoch is None)
        else ((part.epoch or 0) - (clock.epoch or 0)) / 1e9
        for part in parts
    ]
    shifts = [s + o for s, o in zip(shifts, offsets or [0.0] * len(parts), strict=True)]

    owner = {n: k for k, part in enumerate(parts) for n in part.columns if n != "t"}

    def read(names: Sequence[str]) -> Iterator[Array]:
        asked: dict[int, list[str]] = {}
        for name in names:
            if name in owner:
                asked.setdefault(owner[name], []).append(name)
        own = asked.pop(0, [])
        at = {n: k for k, n in enumerate(["t", *own])}
        followers = [_Follower(parts[k], asked[k], shifts[k]) for k in sorted(asked)]
        for block in clock.read(["t", *own]):
            time = block[:, 0] + shifts[0] if shifts[0] else block[:, 0]
            found: dict[str, Array] = {n: block[:, k] for n, k in at.items()} | {"t": time}
            for follower in followers:
                found |= follower.at(time)
            yield np.stack([found[n] for n in names], 1)
        for follower in followers:
            follower.refuse_unaligned(path)

    columns = [n for k, part in enumerate(parts) for n in part.columns if n != "t" or k == 0]
    return Table(
        path,
        tuple(columns),
        clock.rows,
        read,
        tuple(n for part in parts for n in part.others),
        clock.epoch,
        tuple(dict.fromkeys([*notes, *(n for part in parts for n in part.notes)])),
    )


class _Follower:
    """Walks along a part while the clock advances, holding one block of it."""

    def __init__(self, part: Table, names: Sequence[str], shift: float) -> None:
        self.part, self.names, self.shift = part, list(names), shift
        self.blocks = part.read(["t", *names])
        self.held: Array = np.empty((0, 1 + len(names)))
        self.ended = False
        self.last = -np.inf  # latest time of the clock
        self.usual = np.nan  # step of the part
        self.met = False
        self.seen: list[float] = []
        self.clock: list[float] = []
        self.turns = _quaternions(self.names)

    def at(self, time: Array) -> Mapping[str, Array]:
        """Return the part's values at the clock's times; NaN where the clock does not advance."""
        values = np.full((len(time), len(self.names)), np.nan)
        ahead = np.maximum.accumulate(np.where(np.isfinite(time), time, -np.inf))
        before = np.concatenate([[self.last], np.maximum(ahead[:-1], self.last)])
        rows = np.flatnonzero(time > before)
        if len(rows):
            self.last = float(time[rows[-1]])
            self.clock = [self.clock[0] if self.clock else float(time[rows[0]]), self.last]
        while len(rows):
            if len(self.held) and self.held[-1, 0] >= time[rows[0]] - SAME:
                upto = int(np.searchsorted(time[rows], self.held[-1, 0] + SAME, side="right"))
                values[rows[:upto]] = self._between(time[rows[:upto]])
                rows = rows[upto:]
            elif not self._more():
                break
        return {n: values[:, k] for k, n in enumerate(self.names)}

    def _more(self) -> bool:
        block = next(self.blocks, None)
        if block is None:
            return False
        block = block.copy()
        block[:, 0] += self.shift
        latest = float(self.held[-1, 0]) if len(self.held) else -np.inf
        time = np.where(np.isfinite(block[:, 0]), block[:, 0], -np.inf)
        ahead = np.maximum.accumulate(time)
        block = block[time > np.concatenate([[latest], np.maximum(ahead[:-1], latest)])]
        if len(block) > 1 and not np.isfinite(self.usual):
            self.usual = float(np.median(np.diff(block[:, 0])))
        if len(block):
            self.seen = [self.seen[0] if self.seen else float(block[0, 0]), float(block[-1, 0])]
            self.held = np.concatenate([self.held[-1:], block])
        return True

    def _between(self, time: Array) -> Array:
        stamps = self.held[:, 0]
        after = np.clip(np.searchsorted(stamps, time - SAME), 0, len(stamps) - 1)
        exact = np.abs(stamps[after] - time) <= SAME
        before = np.maximum(after - 1, 0)
        gap = stamps[after] - stamps[before]
        inside = (before < after) & (stamps[before] <= time) & ~(gap > GAP * self.usual)
        share = np.divide(time - stamps[before], gap, out=np.zeros(len(time)), where=gap > 0.0)
        first, second = self.held[before, 1:], self.held[after, 1:].copy()
        for turn in self.turns:
            flip = np.einsum("ij,ij->i", first[:, turn], second[:, turn]) < 0.0
            second[np.ix_(flip, turn)] *= -1.0
        values = first + share[:, None] * (second - first)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # numbers as logged
            for turn in self.turns:
                values[:, turn] /= np.linalg.norm(values[:, turn], axis=1, keepdims=True)
        values[~inside] = np.nan
        values[exact] = self.held[after[exact], 1:]
        self.met |= bool((exact | inside).any())
        return values

    def refuse_unaligned(self, path: str) -> None:
        if self.met or not self.clock:
            return
        seen = f"{self.seen[0]:.6f} s to {self.seen[1]:.6f} s" if self.seen else "no times"
        raise InvalidRecording(
            "the parts of the log have no time in common: their clocks are not aligned",
            argument=path,
            got=f"{self.part.path}: {seen}",
            expected=f"times between {self.clock[0]:.6f} s and {self.clock[1]:.6f} s",
            cure="state the difference of the clocks: offset = … [s] of the part",
        )


def _quaternions(names: Sequence[str]) -> list[list[int]]:
    frames = dict.fromkeys(n.rpartition(".")[0] for n in names if n.startswith("quat."))
    turns = [[k for k, n in enumerate(names) if n.rpartition(".")[0] == f] for f in frames]
    return [t for t in turns if len(t) == 4]
