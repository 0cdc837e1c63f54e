"""Messages of a live robot as signals: bytes under a key become stamps and named numbers.

Three kinds: JSON and CBOR maps of canonical names, `{"t": 12.5, "force.tool0.x": 0.3, …}`, which
their first byte tells apart, and ROS 2 messages in CDR, whose type is a part of the key where the
robot runs rmw_zenoh (`<domain>/<topic>/<type>/<hash>`, `docs/design.md` of ros2/rmw_zenoh) and is
stated by the user where it is behind zenoh-plugin-ros2dds (`<topic>`). What cannot be decoded is
counted, never raised: anybody may send anything. And as often: what is beyond a sender's budget of
bytes and time is not read, and counted too.
"""

from __future__ import annotations

import math
import re
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

from .maps import MOST_SIGNALS, are_names, read_map

LARGEST = 65_536  # bytes of a message
MOST_BYTES = 16 * 1024 * 1024  # of the messages under one key that are read at once
MOST_HEARD = 256  # keys whose messages are read before those of others
ROS_TYPE = re.compile(r"(\w+)::msg::dds_::(\w+)_")


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
    if len(parts) >= 4 and (match := ROS_TYPE.fullmatch(parts[-2])):
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
                self._remember(key, 2 * count > len(by_key[key]))
        return pieces, len(messages) - good - self.unread

    def _remember(self, key: str, sound: bool) -> None:
        if not sound:
            self._heard.discard(key)
        elif len(self._heard) < MOST_HEARD:
            self._heard.add(key)

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

        def said(some: list[bytes]) -> list[Piece]:
            made, left = [], len(some)
            for group in decoder.groups(some):
                made.append((group.rows, _piece(channel, group, self.frames)))
                left -= len(group.rows)
                if left and time.thread_time() > until:
                    self.unread += left
                    break
            made.sort(key=lambda one: int(one[0][0]))
            return [piece for _, piece in made]

        try:
            yield from said(messages)
        except Malformed:
            for message in self._paced(messages, until):  # without the bad ones
                try:
                    yield from said([message])
                except Malformed:
                    continue


def _piece(channel: Channel, group: Group, frames: Mapping[str, str]) -> Piece:
    if len(group.strings.get("name", ())) > MOST_SIGNALS:
        raise Malformed("it names too many joints")
    columns, stamps = read_group(channel, group, frames)[1], stamps_of(group)
    assert stamps is not None  # all types that are read have a header
    if len(columns) > MOST_SIGNALS or not are_names(tuple(columns)):
        raise Malformed("its names are none, or too many")
    values = [group.numbers[path][:, k] for path, k in columns.values()]
    return Piece(tuple(columns), stamps, _beside(values, stamps))


def _beside(values: Sequence[NDArray[Any]], stamps: NDArray[np.int64]) -> Array:
    if not values:
        return np.zeros((len(stamps), 0))
    return np.stack([np.asarray(v, dtype=float) for v in values], axis=1)


def _maps(messages: Iterable[bytes]) -> Iterator[Piece]:
    """Yield JSON and CBOR maps, consecutive ones of the same names as one piece."""
    names: tuple[str, ...] = ()
    stamps: list[int] = []
    rows: list[list[float]] = []
    for message in messages:
        one = read_map(message)
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
