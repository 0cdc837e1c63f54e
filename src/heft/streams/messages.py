"""Messages of a live robot as signals: bytes under a key become stamps and named numbers.

Three kinds: JSON and CBOR maps of canonical names, `{"t": 12.5, "force.tool0.x": 0.3, …}`, which
their first byte tells apart, and ROS 2 messages in CDR, whose type is a part of the key where the
robot runs rmw_zenoh (`<domain>/<topic>/<type>/<hash>`, `docs/design.md` of ros2/rmw_zenoh) and is
stated by the user where it is behind zenoh-plugin-ros2dds (`<topic>`). What cannot be decoded is
counted, never raised: anybody may send anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
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
    Malformed,
    full_name,
    read_group,
    stamps_of,
    types_of,
)

LARGEST = 65_536  # bytes of a message
MOST_SIGNALS = 512  # of a message
LATEST = 2**62  # [ns]
NUMBERS = frozenset({int, float})  # types of a value: bool is none of them
ROS_TYPE = re.compile(r"(\w+)::msg::dds_::(\w+)_")


@dataclass(frozen=True, eq=False)
class Piece:
    """Signals that came together, some times in a row.

    Attributes:
        names: The signals.
        stamps: Shape (N,) [ns].
        values: Shape (N, signals), SI units.
    """

    names: tuple[str, ...]
    stamps: NDArray[np.int64]
    values: Array


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
    """Return topics, each with a leading stroke, and full names of their types.

    Args:
        topics: Names of types by topic.
        where: Place of the table in its file, for messages.

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

    Attributes:
        topics: Types of topics whose keys do not tell them; see `refuse_types`.
        frames: Frames of topics whose messages do not tell them well, by topic.
    """

    topics: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, str] = field(default_factory=dict)
    _decoders: dict[str, Decoder] = field(default_factory=dict)

    def read(self, messages: Sequence[tuple[str, bytes]]) -> tuple[list[Piece], int]:
        """Return what messages say, in their order for each key, and how many say nothing.

        Args:
            messages: Key and payload of each.
        """
        by_key: dict[str, list[bytes]] = {}
        for key, data in messages:
            by_key.setdefault(key, []).append(data)
        pieces: list[Piece] = []
        good = 0
        for key, some in by_key.items():
            kind = ros_kind(key, self.topics)
            short = [m for m in some if len(m) <= LARGEST]
            made = _maps(short) if kind is None else self._ros(*kind, short)
            for piece in made:
                pieces.append(piece)
                good += len(piece.stamps)
        return pieces, len(messages) - good

    def _ros(self, topic: str, kind: str, messages: list[bytes]) -> Iterator[Piece]:
        if kind not in KINDS:
            return
        channel = Channel(topic, kind, "cdr")
        if kind not in self._decoders:
            self._decoders[kind] = Decoder(kind, types_of(channel, topic), "cdr")
        decoder = self._decoders[kind]

        def said(some: list[bytes]) -> list[Piece]:
            made = []
            for group in decoder.groups(some):
                columns, stamps = read_group(channel, group, self.frames)[1], stamps_of(group)
                assert stamps is not None  # all types that are read have a header
                values = [group.numbers[path][:, k] for path, k in columns.values()]
                made.append((group.rows, Piece(tuple(columns), stamps, _beside(values, stamps))))
            made.sort(key=lambda one: int(one[0][0]))
            return [piece for _, piece in made]

        try:
            yield from said(messages)
        except Malformed:
            for message in messages:  # without the bad ones
                try:
                    yield from said([message])
                except Malformed:
                    continue


def _beside(values: Sequence[NDArray[Any]], stamps: NDArray[np.int64]) -> Array:
    if not values:
        return np.zeros((len(stamps), 0))
    return np.stack([np.asarray(v, dtype=float) for v in values], axis=1)


def _maps(messages: Sequence[bytes]) -> Iterator[Piece]:
    """Yield JSON and CBOR maps, those of the same names that follow one another together."""
    names: tuple[str, ...] = ()
    stamps: list[int] = []
    rows: list[list[float]] = []
    for message in messages:
        one = _map(message)
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


def _map(message: bytes) -> tuple[tuple[str, ...], int, list[float]] | None:
    """Return names, stamp [ns] and values of one message, or None if it is none."""
    try:
        if message[:1] == b"{":
            held = json.loads(message)
        elif message and 0xA0 <= message[0] <= 0xBF:  # a CBOR map, RFC 8949, section 3.1
            import cbor2

            held = cbor2.loads(message)
        else:
            return None
        stamp = held.pop("t")
        if type(stamp) not in NUMBERS or not math.isfinite(stamp):
            return None
        nanoseconds = round(stamp * 1e9)
        numbers = NUMBERS.issuperset(map(type, held.values()))
        if not numbers or len(held) > MOST_SIGNALS or abs(nanoseconds) > LATEST:
            return None
        return tuple(map(str, held)), nanoseconds, list(map(float, held.values()))
    except ImportError:
        raise
    except Exception:  # parsers of what anybody may send: anything may be in there
        return None
