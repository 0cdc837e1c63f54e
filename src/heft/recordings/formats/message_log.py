"""Logs of ROS messages before they are tables: channels, walks through them, what types say."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import HeftError, visible

# By type of message: field of vectors, kind of signal, its components in the message's order.
FRAMED = {
    "geometry_msgs/msg/WrenchStamped": (
        ("wrench.force", "force", "xyz"),
        ("wrench.torque", "torque", "xyz"),
    ),
    "sensor_msgs/msg/Imu": (
        ("angular_velocity", "omega", "xyz"),
        ("linear_acceleration", "acc", "xyz"),
        ("orientation", "quat", "xyzw"),
    ),
    "nav_msgs/msg/Odometry": (
        ("pose.pose.position", "pos", "xyz"),
        ("pose.pose.orientation", "quat", "xyzw"),
        ("twist.twist.linear", "vel", "xyz"),
        ("twist.twist.angular", "omega", "xyz"),
    ),
    "geometry_msgs/msg/PoseStamped": (
        ("pose.position", "pos", "xyz"),
        ("pose.orientation", "quat", "xyzw"),
    ),
}
JOINTS = "sensor_msgs/msg/JointState"
JOINT_FIELDS = (("position", "q"), ("velocity", "v"), ("effort", "tau"))
KINDS = (JOINTS, *FRAMED)  # that ROS ships; of others a log has the definition
JOINT_BY_JOINT = ("foxglove.JointStates", "foxglove_msgs/msg/JointStates")
ALL_JOINTS = (JOINTS, *JOINT_BY_JOINT)
EPOCH = "heft.epoch_ns"  # of a channel's metadata in MCAP: the stamp at which time is 0
MOST_BYTES = 64 << 20  # of one record, packed or not: writers make chunks of a few MB
BATCH_BYTES = 4 << 20  # of messages that are handed on at once
MOST_WAITING = 64 << 20  # [bytes] of messages that wait for their readers
Unpack = Callable[[bytes, int], bytes]  # takes packed bytes, and how many to return at most
# Position of a channel in its log, stamps of logging [ns] and the messages themselves.
Batch = tuple[int, list[int], list[bytes]]


@dataclass(frozen=True)
class Channel:
    """Messages of one type on one topic of a log."""

    topic: str  # name of the topic
    kind: str  # message type, such as `sensor_msgs/msg/JointState`
    encoding: str  # `cdr`, `ros1`, `json` or `protobuf`
    # definition of the type, empty where the log has none; of `protobuf` its bytes as Latin-1
    definition: str = ""
    idl: bool = False  # whether the definition is IDL instead of a message file
    count: int | None = None  # number of messages, or None where it is not known
    # stamp at which time is 0 [ns], or None where the log does not state it
    epoch: int | None = None


@dataclass(frozen=True)
class Log:
    """A log of messages, before it is made a table."""

    path: str  # the file or folder
    channels: tuple[Channel, ...]  # the channels in it
    # `batches(wanted)` yields the messages of the channels at these positions, in the log's order
    batches: Callable[[Collection[int]], Iterator[Batch]]
    notes: tuple[str, ...] = ()  # remarks on the log
    kind: str = "log"  # name of its format


def log_of(
    path: object,
    channels: Mapping[int, Channel],
    walk: Callable[[Mapping[int, int]], Iterator[Batch]],
    notes: tuple[str, ...] = (),
    kind: str = "log",
) -> Log:
    """Return a log whose names are visible, and whose channels are unlike one another.

    A topic with several publishers has one channel for each of them in a file.

    Args:
        channels: By their number in the file.
        walk: Yields the messages of some of these; takes positions in the log by number.
    """
    counts: dict[Channel, int | None] = {}
    keys: dict[int, Channel] = {}
    for number, channel in channels.items():
        shown = replace(channel, topic=visible(channel.topic), kind=visible(channel.kind))
        keys[number] = key = replace(shown, count=None)
        before = counts.get(key, 0)
        counts[key] = None if channel.count is None or before is None else before + channel.count
    at = {key: k for k, key in enumerate(counts)}

    def batches(wanted: Collection[int]) -> Iterator[Batch]:
        return walk({n: at[key] for n, key in keys.items() if at[key] in wanted})

    merged = tuple(replace(key, count=count) for key, count in counts.items())
    return Log(str(path), merged, batches, notes, kind)


def following(path: Path, logs: Sequence[Log]) -> Log:
    """Return consecutive logs, in chronological order, as one."""
    numbered = list(
        enumerate((n, k) for n, log in enumerate(logs) for k in range(len(log.channels)))
    )

    def walk(places: Mapping[int, int]) -> Iterator[Batch]:
        for n, log in enumerate(logs):
            own = {k: places[number] for number, (m, k) in numbered if m == n and number in places}
            for k, logged, messages in log.batches(own):
                yield own[k], logged, messages

    channels = {number: logs[n].channels[k] for number, (n, k) in numbered}
    return log_of(path, channels, walk, tuple(dict.fromkeys(n for log in logs for n in log.notes)))


def seconds(nanoseconds: NDArray[np.int64]) -> Array:
    """Return whole nanoseconds, shape (N,), as seconds, shape (N,) [s].

    Rounded once, to the nearest double, for times below 2⁵³ ns (104 days).
    """
    full, rest = np.divmod(nanoseconds, 1_000_000_000)
    short = np.abs(nanoseconds) < 2**53
    return np.asarray(np.where(short, nanoseconds / 1e9, full + rest / 1e9), dtype=np.float64)


def full_name(kind: str) -> str:
    """Return the type's name as ROS 2 writes it: `sensor_msgs/msg/Imu` for `sensor_msgs/Imu`."""
    package, _, name = kind.partition("/")
    return f"{package}/msg/{name}" if name and "/" not in name else kind


class Gathered(dict[int, tuple[list[int], list[bytes]]]):
    """Stamps and messages by channel, empty lists for a new one."""

    def __missing__(self, channel: int) -> tuple[list[int], list[bytes]]:
        """Begin the lists of a channel."""
        return self.setdefault(channel, ([], []))

    def batches(self) -> Iterator[Batch]:
        """Yield what was gathered, channel by channel."""
        return ((channel, *both) for channel, both in self.items())


def unpacked(
    packing: str,
    data: bytes,
    size: int,
    unpackers: Mapping[str, Unpack],
    damage: Callable[[str], HeftError],
    complete: bool = True,
) -> bytes:
    """Return what a chunk of a file holds, which takes no more memory than it may.

    Args:
        size: What it says that it unpacks to [bytes].
        damage: Returns the error for a chunk, of what is wrong with it.
        complete: Whether all of it is there; else its beginning is returned, as far as it unpacks.
    """
    if size > MOST_BYTES:
        raise damage(f"says that it unpacks to {size} bytes")
    if packing not in unpackers:
        raise damage(f"is packed by '{packing[:20]}'")
    try:
        content = unpackers[packing](data, size + 1 if complete else MOST_BYTES)
    except HeftError:
        raise
    except Exception as problem:  # each library has errors of its own
        raise damage(f"cannot be unpacked: {str(problem)[:80]}") from problem
    if complete and len(content) != size:
        raise damage(f"unpacks to {len(content)} bytes and says {size}")
    return content


def stepwise(make: Callable[[], Any], data: bytes, most: int) -> bytes:
    """Return at most so many bytes of packed data, a piece at a time, to notice interrupts."""
    unpacker, content = make(), bytearray()
    while len(content) < most and not unpacker.eof:
        piece = unpacker.decompress(data, max_length=min(BATCH_BYTES, most - len(content)))
        if not piece and unpacker.needs_input:
            break
        data = b""
        content += piece
    return bytes(content)


class SharedWalk:
    """Hands the messages of one walk to the readers of their channels.

    What a reader does not ask for yet waits for it. Where that becomes too much, the reader for
    whom most waits gets a walk of its own, behind what it has had.

    Args:
        batches: Yields the messages of some channels, in the log's order.
        channels: Channel of each reader.
    """

    def __init__(
        self, batches: Callable[[Collection[int]], Iterator[Batch]], channels: Mapping[int, int]
    ) -> None:
        self._batches, self._channels = batches, channels
        self._walk = batches(frozenset(channels.values()))
        self._readers: dict[int, list[int]] = {}
        for reader, channel in channels.items():
            self._readers.setdefault(channel, []).append(reader)
        self._waiting: dict[int, deque[Batch]] = {reader: deque() for reader in channels}
        self._sizes = dict.fromkeys(channels, 0)  # of what waits [bytes]
        self._held = 0
        self._had = dict.fromkeys(channels, 0)  # messages

    def batches(self, reader: int) -> Iterator[Batch]:
        """Yield the messages of a reader's channel; each reads once."""
        while (waiting := self._waiting.get(reader)) is not None:
            if waiting:
                batch = waiting.popleft()
                self._count(reader, -_size(batch))
                self._had[reader] += len(batch[1])
                yield batch
            elif not self._advance():
                return
        passed = self._had[reader]  # to be passed over
        for channel, logged, messages in self._batches([self._channels[reader]]):
            if len(logged) > passed:
                yield channel, logged[passed:], messages[passed:]
            passed = max(passed - len(logged), 0)

    def _advance(self) -> bool:
        batch = next(self._walk, None)
        if batch is None:
            return False
        for reader in self._readers.get(batch[0], ()):
            self._waiting[reader].append(batch)
            self._count(reader, _size(batch))
        while self._held > MOST_WAITING:
            longest = max(self._sizes, key=lambda reader: self._sizes[reader])
            self._count(longest, -self._sizes[longest])
            del self._waiting[longest]
            self._readers[self._channels[longest]].remove(longest)
        return True

    def _count(self, reader: int, size: int) -> None:
        self._sizes[reader] += size
        self._held += size


def _size(batch: Batch) -> int:
    return sum(map(len, batch[2]))
