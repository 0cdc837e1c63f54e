"""Messages of a live robot as signals: bytes under a key become stamps and named numbers.

Three kinds: JSON and CBOR maps of canonical names, `{"t": 12.5, "force.tool0.x": 0.3, …}`, which
their first byte tells apart, and ROS 2 messages in CDR, whose type is a part of the key where the
robot runs rmw_zenoh (`<domain>/<topic>/<type>/<hash>`, `docs/design.md` of ros2/rmw_zenoh) and is
stated by the user where it is behind zenoh-plugin-ros2dds (`<topic>`). What cannot be decoded is
counted, never raised: anybody may send anything. And as often: what is beyond a sender's budget of
bytes and time is not read, and counted too.
"""

from __future__ import annotations

import json
import math
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.recordings import (
    KINDS,
    Channel,
    Decoder,
    Group,
    Malformed,
    full_name,
    read_group,
    stamps_of,
    types_of,
)

LARGEST = 65_536  # bytes of a message
MOST_BYTES = 16 * 1024 * 1024  # of the messages under one key that are read at once
MOST_SIGNALS = 512  # of a message
LONGEST_NAME = 255  # letters
MOST_HEARD = 256  # keys whose messages are read before those of others
NUMBERS = frozenset({int, float})  # types of a value: bool is none of them

# RFC 8949, section 3: major types, and the short counts that say where the count itself is.
UNSIGNED, NEGATIVE, TEXT, MAP, SIMPLE = 0, 1, 3, 5, 7
COUNTS = {short: struct.Struct(kind) for short, kind in enumerate((">B", ">H", ">I", ">Q"), 24)}
FLOATS = {short: struct.Struct(kind) for short, kind in enumerate((">e", ">f", ">d"), 25)}
ENDLESS, BREAK = 31, 0xFF


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive samples of signals that share their stamps."""

    names: tuple[str, ...]  # the signals
    stamps: NDArray[np.int64]  # shape (N,) [ns]
    values: Array  # shape (N, signals), SI units


def ros_kind(key: str, topics: Mapping[str, str]) -> tuple[str, str] | None:
    """Return topic and type of a key's ROS messages, or None where it has none.

    Args:
        key: As `0/wrench/geometry_msgs::msg::dds_::WrenchStamped_/RIHS01_…`, or a topic's name.
        topics: Types by name, for keys that do not tell: `sensor_msgs/Imu`.
    """
    parts = key.split("/")
    if len(parts) >= 4 and (match := re.fullmatch(r"(\w+)::msg::dds_::(\w+)_", parts[-2])):
        return "/" + "/".join(parts[1:-2]), f"{match[1]}/msg/{match[2]}"
    topic = "/" + key.strip("/")
    kind = topics.get(topic)
    return None if kind is None else (topic, kind)


def refuse_types(topics: Mapping[str, str], where: str) -> Mapping[str, str]:
    """Return topics, each with a leading slash, and full names of their types.

    Args:
        where: Place of the table in its file, for error messages.

    Raises:
        InvalidSetting: If a type is none that heft reads.
    """
    made = {"/" + topic.strip("/"): full_name(kind) for topic, kind in topics.items()}
    for topic, kind in made.items():
        if kind not in KINDS:
            raise InvalidSetting(
                "messages of this type are not read",
                argument=f"{where}, '{topic}'",
                got=kind,
                valid=[k.replace("/msg/", "/") for k in KINDS],
            )
    return made


@dataclass
class Reader:
    """Decodes messages; remembers how those of each topic are laid out.

    A key stands for a sender. The time of a call is shared equally by the keys that were last
    heard to send what can be read; all others have what these leave.
    """

    # types of topics whose keys do not tell them; see `refuse_types`
    topics: Mapping[str, str] = field(default_factory=dict)
    # frames of topics whose messages do not tell them well, by topic
    frames: Mapping[str, str] = field(default_factory=dict)
    unread: int = 0  # how many messages of the last call were beyond their senders' budget
    _decoders: dict[str, Decoder] = field(default_factory=dict)
    _heard: set[str] = field(default_factory=set)

    def read(
        self, messages: Sequence[tuple[str, bytes]], seconds: float = math.inf
    ) -> tuple[list[Piece], int]:
        """Return the messages' signals, in order for each key, and how many hold none.

        Args:
            seconds: Processor time of this thread that it may take [s]; messages not reached by
                then are counted in `unread`.
        """
        by_key: dict[str, list[bytes]] = {}
        for key, data in messages:
            by_key.setdefault(key, []).append(data)
        heard = [key for key in by_key if key in self._heard]
        others = [key for key in by_key if key not in self._heard]
        pieces: list[Piece] = []
        self.unread = good = 0
        end = time.thread_time() + seconds
        for group in (heard, others):
            for k, key in enumerate(group):
                now = time.thread_time()
                until = now + max(end - now, 0.0) / (len(group) - k)
                made = self._of(key, by_key[key], until)
                pieces += made
                count = sum(len(piece.stamps) for piece in made)
                good += count
                if 2 * count <= len(by_key[key]):
                    self._heard.discard(key)
                elif len(self._heard) < MOST_HEARD:
                    self._heard.add(key)
        return pieces, len(messages) - good - self.unread

    def _of(self, key: str, messages: list[bytes], until: float) -> list[Piece]:
        budget = MOST_BYTES
        for k, message in enumerate(messages):
            budget -= len(message)
            if budget < 0:
                self.unread += len(messages) - k
                messages = messages[:k]
                break
        short = [m for m in messages if len(m) <= LARGEST]
        kind = ros_kind(key, self.topics)
        return list(
            _maps(self._paced(short, until)) if kind is None else self._ros(*kind, short, until)
        )

    def _paced(self, messages: Sequence[bytes], until: float) -> Iterator[bytes]:
        """Yield messages until a processor time of this thread [s]; count the rest as unread."""
        for k, message in enumerate(messages):
            if time.thread_time() > until:
                self.unread += len(messages) - k
                return
            yield message

    def _ros(self, topic: str, kind: str, messages: list[bytes], until: float) -> Iterator[Piece]:
        if kind not in KINDS:
            return
        channel = Channel(topic, kind, "cdr")
        if kind not in self._decoders:
            self._decoders[kind] = Decoder(kind, types_of(channel, topic), "cdr")
        decoder = self._decoders[kind]

        def decoded(some: list[bytes]) -> list[Piece]:
            made, remaining = [], len(some)
            for group in decoder.groups(some):
                made.append((group.rows, _piece(channel, group, self.frames)))
                remaining -= len(group.rows)
                if remaining and time.thread_time() > until:
                    self.unread += remaining
                    break
            made.sort(key=lambda one: int(one[0][0]))
            return [piece for _, piece in made]

        try:
            yield from decoded(messages)
        except Malformed:
            for message in self._paced(messages, until):  # without the bad ones
                try:
                    yield from decoded([message])
                except Malformed:
                    continue


def _piece(channel: Channel, group: Group, frames: Mapping[str, str]) -> Piece:
    if len(group.strings.get("name", ())) > MOST_SIGNALS:
        raise Malformed("it names too many joints")
    columns, stamps = read_group(channel, group, frames)[1], stamps_of(group)
    assert stamps is not None  # all types that are read have a header
    if len(columns) > MOST_SIGNALS or not _are_names(tuple(columns)):
        raise Malformed("its names are none, or too many")
    values = np.empty((len(stamps), len(columns)))
    for at, (path, k) in enumerate(columns.values()):
        values[:, at] = group.numbers[path][:, k]
    return Piece(tuple(columns), stamps, values)


def _maps(messages: Iterable[bytes]) -> Iterator[Piece]:
    """Yield JSON and CBOR maps, consecutive ones of the same names as one piece."""
    names: tuple[str, ...] = ()
    stamps: list[int] = []
    rows: list[list[float]] = []
    for message in messages:
        one = _read_map(message)
        if one is None:
            continue
        if one[0] != names and rows:
            yield Piece(names, np.array(stamps, dtype=np.int64), np.array(rows))
            stamps, rows = [], []
        names = one[0]
        stamps.append(one[1])
        rows.append(one[2])
    if rows:
        yield Piece(names, np.array(stamps, dtype=np.int64), np.array(rows))


def _read_map(message: bytes) -> tuple[tuple[str, ...], int, list[float]] | None:
    """Return names, stamp [ns] and values of a map in JSON or CBOR, or None if it is none."""
    try:
        signals = json.loads(message) if message[:1] == b"{" else cbor_map(message)
        stamp = signals.pop("t")
        if type(stamp) not in NUMBERS or not math.isfinite(stamp) or len(signals) > MOST_SIGNALS:
            return None
        nanoseconds = round(stamp * 1e9)
        # The difference of two stamps [ns] is a number of 64 bits.
        if abs(nanoseconds) >= (2**62) or not NUMBERS.issuperset(map(type, signals.values())):
            return None
        names = tuple(signals)
        if not _are_names(names):
            return None
        return names, nanoseconds, list(map(float, signals.values()))
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return None
    except struct.error:  # it ends within a number
        return None


def _are_names(names: tuple[str, ...]) -> bool:
    """Return whether texts can be names: not too long, and no halves of UTF-16 pairs."""
    if names and len(max(names, key=len)) > LONGEST_NAME:
        return False
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def cbor_map(message: bytes) -> dict[str, Any]:
    """Return a CBOR map of texts to numbers.

    Nothing else is ever made of it: it is read item by item, and a tag, a key that is no text or a
    value that is no number ends it. A general decoder would first make whatever the message asks
    for, sets of numbers with equal hashes included, whose making takes time by the square of their
    count.

    Raises:
        ValueError: If it is anything else, or more follows it.
        IndexError: If it ends too early; `struct.error` where it ends within a number.
    """
    kind, short = message[0] >> 5, message[0] & 31
    if kind != MAP:
        raise ValueError("it is no map")
    made: dict[str, Any] = {}
    at = 1
    remaining = -1
    if short != ENDLESS:
        remaining, at = _count(message, short, at)
        if remaining > MOST_SIGNALS + 1:
            raise ValueError("it has too many signals")
    while remaining != 0:
        head = message[at]
        if remaining < 0 and head == BREAK:
            at += 1
            break
        if head >> 5 != TEXT:
            raise ValueError("a key is no text")
        size, begin = _count(message, head & 31, at + 1)
        at = begin + size
        name = message[begin:at].decode()
        if name in made or len(made) > MOST_SIGNALS:
            raise ValueError("a signal is there twice, or there are too many")
        made[name], at = _number(message, at)
        remaining -= 1
    if at != len(message):
        raise ValueError("it ends too early, or more follows it")
    return made


def _count(message: bytes, short: int, at: int) -> tuple[int, int]:
    """Return the count in the head of a CBOR item, and the position after the head."""
    if short < 24:
        return short, at
    return COUNTS[short].unpack_from(message, at)[0], at + COUNTS[short].size


def _number(message: bytes, at: int) -> tuple[int | float, int]:
    kind, short = message[at] >> 5, message[at] & 31
    if kind == SIMPLE:
        return FLOATS[short].unpack_from(message, at + 1)[0], at + 1 + FLOATS[short].size
    if kind not in (UNSIGNED, NEGATIVE):
        raise ValueError("a value is no number")
    count, at = _count(message, short, at + 1)
    return (count if kind == UNSIGNED else -1 - count), at
