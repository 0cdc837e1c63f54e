"""ULog, the log of PX4 (docs.px4.io, ULog File Format), decoded by pyulog, held whole in memory.

pyulog goes on over whatever it cannot read. So the file is walked before, message by message: what
is no message is damage, types that would grow without bound are refused, and what pyulog decodes
must be as many samples as the file holds. The format has no checksums.
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.errors import InvalidRecording

from .format import Format
from .px4 import HELD, TOPICS, Topic, topics_table
from .table import Damaged, Table, Topics, damaged_file, library

NAME = "ULog file"
damage = partial(damaged_file, NAME)
MAGIC = b"ULog\x01\x12\x35"
HEAD = 16  # bytes of the file's head
KINDS = frozenset(b"BFIMPQARSOLCD")  # of messages
MOST_FIELDS = 200_000  # of all subscriptions together: each is an object of the library
DEEPEST = 16  # types inside one another
APPENDED = slice(19, 43)  # in the message of flags: where data were appended


def ulog_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the topics of a ULog that say how a vehicle moves and what drives it; see `px4`.

    Args:
        topics: Which topics are wanted, and the body's name in each.

    Raises:
        InvalidRecording: If it is no ULog, is damaged, or holds no such topic.
        MissingSignal: If a chosen topic is not there.
    """
    core = library("pyulog.core", path, extra="px4")
    data = path.read_bytes()
    if len(data) < HEAD or data[: len(MAGIC)] != MAGIC:
        raise InvalidRecording("this is not a ULog file", argument=str(path), got=repr(data[:8]))
    seen = _Walk(data)
    try:
        seen.walk()
    except ValueError as problem:
        damaged(damage(path, str(problem)))
    found = _decoded(core, path, bytes(data[: seen.end]), seen, damaged)
    notes = []
    if seen.dropped:
        lost = f"{len(seen.dropped)} times, {1e-3 * sum(seen.dropped):.3g} s in all"
        notes.append(f"the logger could not write for a while {lost}")
    return topics_table(str(path), found, topics, notes)


@dataclass
class _Walk:
    data: bytes  # the file
    end: int = HEAD  # behind the last sound message
    # fields of each type: type and count
    formats: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    names: dict[int, tuple[str, int]] = field(default_factory=dict)  # topic of each subscription
    # how many messages of data each subscription has
    samples: Counter[int] = field(default_factory=Counter)
    fields: int = 0  # numbers of all subscriptions
    dropped: list[int] = field(default_factory=list)  # times for which nothing was logged [ms]

    def walk(self) -> None:
        for begin, limit in self._pieces():
            at = begin
            while at < limit:
                if at + 3 > limit:
                    if limit == len(self.data):
                        raise ValueError(f"it ends within a message, at byte {at}")
                    break  # what was appended begins within a message that was never finished
                size, kind = struct.unpack_from("<HB", self.data, at)
                if kind not in KINDS:
                    raise ValueError(f"no message begins at byte {at}")
                if at + 3 + size > limit:
                    if limit == len(self.data):
                        raise ValueError(f"it ends within a message, at byte {at}")
                    break
                self._take(kind, at + 3, at + 3 + size)
                at += 3 + size
                self.end = at
            self.end = limit if limit < len(self.data) else self.end

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end [bytes] of each section of messages: one if none are appended."""
        ends = []
        flagged = self.data[HEAD + 2 : HEAD + 3] == b"B" and len(self.data) >= HEAD + 43
        if flagged and self.data[HEAD + 11] & 1:
            stated = struct.unpack_from("<3Q", self.data, HEAD + APPENDED.start)
            ends = [at for at in stated if at]
        places = [HEAD, *ends, len(self.data)]
        if any(b <= a for a, b in pairwise(places)):
            raise ValueError("data are said to be appended where the file has none")
        yield from pairwise(places)

    def _take(self, kind: int, begin: int, end: int) -> None:
        if kind == ord("D"):
            if end - begin < 2:
                raise ValueError(f"data of no topic at byte {begin}")
            (number,) = struct.unpack_from("<H", self.data, begin)
            if number not in self.names:
                raise ValueError(f"data of a topic that is none at byte {begin}")
            self.samples[number] += 1
        elif kind == ord("F"):
            self._define(self.data[begin:end].decode("utf-8", "ignore"), begin)
        elif kind == ord("A"):
            self._subscribe(begin, end)
        elif kind == ord("O") and end - begin == 2:
            self.dropped += struct.unpack_from("<H", self.data, begin)

    def _define(self, text: str, at: int) -> None:
        name, _, rest = text.partition(":")
        made = []
        for entry in filter(None, rest.split(";")):
            kind, _, count = entry.partition(" ")[0].partition("[")
            number = count.removesuffix("]")
            if count and not (number.isdecimal() and number.isascii() and len(number) < 6):
                raise ValueError(f"a type has a count that is none, at byte {at}")
            made.append((kind, max(int(number), 1) if count else 1))
        self.formats.setdefault(name, made)

    def _subscribe(self, begin: int, end: int) -> None:
        if end - begin < 4:
            raise ValueError(f"a subscription names no topic, at byte {begin}")
        instance, number = struct.unpack_from("<BH", self.data, begin)
        name = self.data[begin + 3 : end].decode("utf-8", "ignore")
        if name not in self.formats or number in self.names:
            raise ValueError(f"a subscription to what is no topic, at byte {begin}")
        self.fields += self._count(name, 0)
        if self.fields > MOST_FIELDS:
            raise ValueError(f"its topics have more than {MOST_FIELDS} numbers")
        self.names[number] = name, instance

    def _count(self, name: str, depth: int) -> int:
        """Return how many numbers a type holds; raise ValueError above `MOST_FIELDS`."""
        if depth > DEEPEST:
            raise ValueError("its types are inside one another")
        total = 0
        for kind, count in self.formats[name]:
            inside = self._count(kind, depth + 1) if kind in self.formats else 1
            total += count * max(inside, 1)  # a type without fields is walked all the same
            if total > MOST_FIELDS:
                raise ValueError(f"its topics have more than {MOST_FIELDS} numbers")
        return total


def _decoded(core: Any, path: Path, data: bytes, seen: _Walk, damaged: Damaged) -> list[Topic]:
    """Return the topics that heft knows; instances behind the first have `[1]`, … in their names.

    Raises:
        InvalidRecording: If the library does not read the file.
    """
    wanted = [name for name in TOPICS if name in seen.formats]
    try:
        with redirect_stdout(io.StringIO()):  # it prints what it does not like
            log = core.ULog(io.BytesIO(data), wanted)
    except Exception as problem:  # a parser of what a file says: anything may be in there
        raise InvalidRecording(
            "this is not a readable ULog file",
            argument=str(path),
            got=f"{type(problem).__name__}: {str(problem)[:80]}",
        ) from problem
    held = {(d.name, d.multi_id): len(d.data.get("timestamp", ())) for d in log.data_list}
    logged: Counter[tuple[str, int]] = Counter()
    for number, key in seen.names.items():
        logged[key] += seen.samples[number] if key[0] in wanted else 0
    for key, count in logged.items():
        if held.get(key, 0) != count:
            what = f"{held.get(key, 0)} of {count} samples of '{key[0]}' can be decoded"
            damaged(damage(path, what))
    return [
        Topic(d.name + (f"[{d.multi_id}]" if d.multi_id else ""), _time(d.name, d.data), d.data)
        for d in log.data_list
        if "timestamp" in d.data
    ]


def _time(name: str, fields: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return when samples were taken; of commands, when they were given [µs]."""
    sampled = fields.get("timestamp_sample")
    if name != HELD and sampled is not None and len(sampled) and np.all(sampled > 0):
        return np.asarray(sampled, dtype=np.int64)
    return np.asarray(fields["timestamp"], dtype=np.int64)


ULOG = Format(NAME, (".ulg", ".ulog"), ulog_table)
