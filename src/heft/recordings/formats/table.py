"""Tables: the common form of all readers and writers, columns of numbers over rows, in blocks.

Tables of one clock are joined: the others interpolated at the first one's times. And what readers
share: how they speak of damage, and the bounds that they keep to.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording, MissingSignal, optional_library, spelt

BLOCK_ROWS = 65_536
MOST_COLUMNS = 10_000
MOST_SPOOLED = 512 << 20  # bytes of a text's numbers that are kept in a temporary file
LONGEST_LINE = 1_000_000  # bytes of a line of text
SHIFT = 10**18  # [ns] added to the stamps of logs that begin before zero
GAP = 10.0  # usual steps without a sample, over which nothing is interpolated
# Columns whose cells name joints: `field.name0`, `name_0`, `name[0]`.
NAMED = re.compile(r"(?P<stem>.*?)name(?P<number>[_.]?\d+|\[\d+\])")
EITHER = "velocity_or_effort"  # columns of which a file does not say what they hold
WRAP_SHARE = 0.25  # by how much a jump may differ from a full turn, as a share of it
UNGUARDED = "no checksum"  # of notes on what holds for all files of a format
SAME = 1e-9  # times as near as this are the same [s]: stamps count nanoseconds


@dataclass(frozen=True)
class Table:
    """A file as columns of numbers, read in blocks."""

    path: str  # the file
    columns: tuple[str, ...]  # names of the numeric columns
    rows: int | None  # number of rows, or None where it is known only after reading
    # `read(names)` yields arrays of shape (rows, names), in order, in the file's units
    read: Callable[[Sequence[str]], Iterator[Array]]
    others: tuple[str, ...] = ()  # names of columns that do not hold numbers
    # stamp at which `t` is 0 [ns since 1970], or None where the file has none
    epoch: int | None = None
    notes: tuple[str, ...] = ()  # remarks on the log, in sentences
    stamps: tuple[str, ...] = ("t",)  # columns that count from the epoch
    texts: Mapping[str, str] = field(default_factory=dict)  # first cells of columns of texts
    units: Mapping[str, str] = field(default_factory=dict)  # of columns, where the file states them
    sparse: bool = False  # whether rows leave cells empty
    remarks: Callable[[], Sequence[str]] = tuple  # those that only reading has brought up, so far

    @staticmethod
    def of_columns(columns: Mapping[str, NDArray[Any]], path: object) -> Table:
        """Return columns in memory, shape (N,) each, as a table.

        Raises:
            InvalidRecording: While reading, if the columns that are read differ in length.
        """

        def read(names: Sequence[str]) -> Iterator[Array]:
            lengths = {n: len(columns[n]) for n in names}
            if len(set(lengths.values())) > 1:
                raise InvalidRecording(
                    "the arrays differ in length",
                    argument=str(path),
                    got=", ".join(f"{k}: {v}" for k, v in lengths.items()),
                )
            step = block_rows(len(names))
            for first in range(0, next(iter(lengths.values()), 0), step):
                rows = slice(first, first + step)
                yield np.stack([np.asarray(columns[n][rows], dtype=float) for n in names], 1)

        longest = max(map(len, columns.values()), default=0)
        return Table(str(path), tuple(columns), longest, read)


def kept(table: Table) -> Table:
    """Return a table that keeps columns which were read to the end, up to `MOST_SPOOLED` bytes.

    Text is read from twenty times for one identification. They lie in a temporary file without a
    name, whose pages need no memory; where there is no room, they are read again.
    """
    try:
        file, name = tempfile.mkstemp()
    except OSError:
        return table
    os.unlink(name)
    owner, lock = os.getpid(), threading.Lock()
    room, end = MOST_SPOOLED, 0
    # How many rows each block has, and where in the file each block of a column begins.
    spooled: tuple[list[int], dict[str, list[int]]] = [], {}

    def put(column: Array) -> int | None:
        nonlocal room, end
        with lock:
            at, end = end, end + column.nbytes
        try:
            there = end <= room and os.pwrite(file, column.tobytes(), at) == column.nbytes
        except OSError:  # the disk is full
            there = False
        if not there:
            room = 0
        return at if there else None

    def read(names: Sequence[str]) -> Iterator[Array]:
        nonlocal spooled
        rows, places = spooled
        if names and places.keys() >= set(names):
            for k, count in enumerate(rows):
                parts = [os.pread(file, 8 * count, places[n][k]) for n in names]
                yield np.stack([np.frombuffer(part) for part in parts], 1)
            return
        # A process that was forked off shares the file, and not what is known of it.
        own = os.getpid() == owner
        new: dict[str, list[int]] = {n: [] for n in names if own and n not in places}
        counts = []
        for block in table.read(names):
            counts.append(len(block))
            for n, at in list(new.items()):
                place = put(block[:, names.index(n)])
                if place is None:
                    del new[n]
                else:
                    at.append(place)
            yield block
        same = {} if counts != spooled[0] else spooled[1]  # a file that has grown is read anew
        spooled = counts, {**same, **new}

    weakref.finalize(read, os.close, file)
    return replace(table, read=read)


def with_values(table: Table, columns: Sequence[str]) -> Table:
    """Return a table without the rows in which none of some columns has a value."""

    def read(names: Sequence[str]) -> Iterator[Array]:
        wanted = list(dict.fromkeys([*names, *columns]))
        at = [wanted.index(n) for n in columns]
        for block in table.read(wanted):
            yield block[~np.isnan(block[:, at]).all(axis=1), : len(names)]

    return replace(table, rows=None, read=read)


def turns_of(steps: Array, turn: Array | float) -> Array:
    """Return -1, 0 or 1 for steps of an angle: the full turns by which it jumps."""
    return np.where(np.abs(np.abs(steps) - turn) < WRAP_SHARE * turn, np.sign(steps), 0.0)


def count_turns(table: Table, turns: Mapping[str, float]) -> dict[str, int]:
    """Return how often angles jump by a full turn, those that do and stay within about one."""
    names = list(turns)
    full = np.array([turns[n] for n in names])
    last, count = np.full((1, len(names)), np.nan), np.zeros(len(names), dtype=int)
    least, most = np.full((2, len(names)), np.nan)
    for block in table.read(names) if names else ():
        steps = np.diff(np.concatenate([last, block]), axis=0)
        count += np.abs(turns_of(steps, full)).sum(axis=0).astype(int)
        if len(block):
            least = np.fmin(least, np.fmin.reduce(block, axis=0))
            most = np.fmax(most, np.fmax.reduce(block, axis=0))
            last = block[-1:]
    within = most - least < (1.0 + WRAP_SHARE) * full
    return {n: int(c) for n, c, one in zip(names, count, within, strict=True) if c and one}


def unwrapped(table: Table, turns: Mapping[str, float]) -> Table:
    """Return a table whose angles go on where they jump by a full turn.

    Args:
        turns: The columns, and what a full turn is in each, in the file's unit.
    """

    def read(names: Sequence[str]) -> Iterator[Array]:
        last = {n: (np.nan, 0.0) for n in names if n in turns}
        for block in table.read(names):
            out = np.array(block)
            for k, name in enumerate(names):
                rows = np.flatnonzero(np.isfinite(block[:, k]))
                if name in last and len(rows):
                    before, turned = last[name]
                    path = block[rows, k]
                    steps = np.diff(path, prepend=path[0] if np.isnan(before) else before)
                    count = turned + np.cumsum(turns_of(steps, turns[name]))
                    out[rows, k] = path - turns[name] * count
                    last[name] = float(path[-1]), float(count[-1])
            yield out

    return replace(table, read=read)


@dataclass(frozen=True)
class Topics:
    """Choice of topics in a log of messages: the table `[topic]` of a column map."""

    names: tuple[str, ...] = ()  # the topics to read; all that carry signals if empty
    # frame names by topic, which replace those in the messages
    frames: Mapping[str, str] = field(default_factory=dict)


Write = Callable[[Array], None]  # takes rows, shape (rows, columns of the table)
Say = Callable[[str], None]  # takes what a format cannot hold, in a sentence


def say_lost_epoch(table: Table, say: Say) -> None:
    """Report that the epoch is lost if the table has one; for formats that cannot store it."""
    if table.epoch and table.epoch != SHIFT:
        say(f"times count from the stamp {table.epoch} ns, which this format has no place for")


@contextmanager
def written_by(
    make: Callable[[Path, Any], Any], path: Path, table: Table, say: Say
) -> Iterator[Write]:
    """Open a file of columns for writing; `make` is pyarrow's writer for a path and a schema."""
    import pyarrow

    say_lost_epoch(table, say)
    schema = pyarrow.schema([(n, pyarrow.float64()) for n in table.columns])
    with make(path, schema) as writer:

        def write(block: Array) -> None:
            arrays = [pyarrow.array(np.ascontiguousarray(c)) for c in block.T]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write


def block_rows(columns: int) -> int:
    """Return the number of rows of a block of so many columns."""
    return max(min(BLOCK_ROWS, (8 << 20) // max(columns, 1)), 1)  # 64 MB at most


# Takes what is wrong with a file. Strict reading raises it; salvage notes it, and the reader
# goes on behind the damage where it can.
Damaged = Callable[[InvalidRecording], None]


def refuse(damage: InvalidRecording) -> None:
    """Raise the defect: a damaged file is not used at all. The default of `damaged`."""
    raise damage


def damaged_file(kind: str, path: object, got: str) -> InvalidRecording:
    """Return the error for a damaged file, with the way to salvage it."""
    return InvalidRecording(
        f"the {kind} is damaged",
        argument=str(path),
        got=got,
        cure=f"copy it again from where it was recorded, or salvage what can be read: "
        f"heft convert {spelt(path)} --recover --out salvaged.parquet",
    )


def unreadable(
    kind: str, path: object, problem: Exception, is_cut: bool = True
) -> InvalidRecording:
    """Return the error for a file of which nothing can be read; `is_cut`, that its end may lack."""
    cure = "without its end it can be neither read nor salvaged: copy it again from where it was "
    return InvalidRecording(
        f"this is not a readable {kind}",
        argument=str(path),
        got=str(problem)[:200] or type(problem).__name__,
        cure=f"{cure}recorded" if is_cut else None,
    )


def refuse_many(count: int, path: object) -> None:
    """Raise `InvalidRecording` if there are more than `MOST_COLUMNS` columns."""
    if count > MOST_COLUMNS:
        raise InvalidRecording(
            "the log has too many columns",
            argument=str(path),
            got=count,
            expected=f"at most {MOST_COLUMNS}",
        )


def refuse_missing(topics: Topics, there: Collection[str], path: str) -> None:
    """Raise `MissingSignal` if a chosen topic is not among those that are there."""
    for name in (*topics.names, *topics.frames):
        if name not in there:
            raise MissingSignal(
                f"the log has no topic '{name}', which the map names",
                argument=path,
                valid=sorted(there),
            )


def refuse_twice(names: Sequence[str], path: object) -> None:
    """Raise `InvalidRecording` if a column name repeats, or there are too many columns."""
    refuse_many(len(names), path)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidRecording("column names repeat", argument=str(path), got=", ".join(twice))


def library(name: str, path: object, extra: str = "ros") -> ModuleType:
    """Return an optional library, which an extra installs.

    Raises:
        InvalidRecording: If it is not installed.
    """
    message = f"these logs need the library '{name.partition('.')[0]}', which is not installed"
    return optional_library(name, message, extra, str(path), InvalidRecording)


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
        return replace(only, path=path, notes=(*notes, *only.notes))
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
            values: dict[str, Array] = {n: block[:, k] for n, k in at.items()} | {"t": time}
            for follower in followers:
                values |= follower.at(time)
            yield np.stack([values[n] for n in names], 1)
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
        remarks=lambda: list(dict.fromkeys(n for part in parts for n in part.remarks())),
    )


class _Follower:
    """Walks along a part while the clock advances, holding one block of it."""

    def __init__(self, part: Table, names: Sequence[str], shift: float) -> None:
        self.part, self.names, self.shift = part, list(names), shift
        self.blocks = part.read(["t", *names])
        self.block: Array = np.empty((0, 1 + len(names)))
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
            if len(self.block) and self.block[-1, 0] >= time[rows[0]] - SAME:
                upto = int(np.searchsorted(time[rows], self.block[-1, 0] + SAME, side="right"))
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
        latest = float(self.block[-1, 0]) if len(self.block) else -np.inf
        time = np.where(np.isfinite(block[:, 0]), block[:, 0], -np.inf)
        ahead = np.maximum.accumulate(time)
        block = block[time > np.concatenate([[latest], np.maximum(ahead[:-1], latest)])]
        if len(block) > 1 and not np.isfinite(self.usual):
            self.usual = float(np.median(np.diff(block[:, 0])))
        if len(block):
            self.seen = [self.seen[0] if self.seen else float(block[0, 0]), float(block[-1, 0])]
            self.block = np.concatenate([self.block[-1:], block])
        return True

    def _between(self, time: Array) -> Array:
        stamps = self.block[:, 0]
        after = np.clip(np.searchsorted(stamps, time - SAME), 0, len(stamps) - 1)
        exact = np.abs(stamps[after] - time) <= SAME
        before = np.maximum(after - 1, 0)
        gap = stamps[after] - stamps[before]
        inside = (before < after) & (stamps[before] <= time) & ~(gap > GAP * self.usual)
        share = np.divide(time - stamps[before], gap, out=np.zeros(len(time)), where=gap > 0.0)
        first, second = self.block[before, 1:], self.block[after, 1:].copy()
        for turn in self.turns:
            flip = np.einsum("ij,ij->i", first[:, turn], second[:, turn]) < 0.0
            second[np.ix_(flip, turn)] *= -1.0
        values = first + share[:, None] * (second - first)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # numbers as logged
            for turn in self.turns:
                values[:, turn] /= np.linalg.norm(values[:, turn], axis=1, keepdims=True)
        values[~inside] = np.nan
        values[exact] = self.block[after[exact], 1:]
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
