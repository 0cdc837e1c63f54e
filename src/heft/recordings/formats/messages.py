"""Logs of ROS messages as tables: one stream of rows a topic, each row one message.

Canonical names of the messages' fields (`docs/logs.md`): `sensor_msgs/JointState` gives
`q`, `v` and `tau` by joint name; `geometry_msgs/WrenchStamped` `force` and `torque`,
`sensor_msgs/Imu` `omega`, `acc` and `quat` (REP 145: an accelerometer's specific force),
`nav_msgs/Odometry` `pos` and `quat`, and `vel` and `omega` of the child frame, all by frame.
Time is the stamp of the header, counted from the first in whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording

from . import table
from .layouts import Decoder, Group, Malformed
from .message_log import (
    ALL_JOINTS,
    FRAMED,
    JOINT_BY_JOINT,
    JOINT_FIELDS,
    JOINTS,
    KINDS,
    Batch,
    Channel,
    Log,
    SharedWalk,
    seconds,
)
from .table import Damaged, Table, Topics, damaged_file, join, library, refuse_many, refuse_missing

STAMPS = [  # seconds and nanoseconds, as ROS, bridges to it, and Protocol Buffers spell them
    (f"{stamp}.{seconds}", f"{stamp}.{rest}")
    for stamp in ("header.stamp", "timestamp")
    for seconds in ("sec", "secs", "seconds")
    for rest in ("nanosec", "nsec", "nsecs", "nanos")
]
LATEST = 2**32  # [s], and [ns] beside it, of a stamp
MOST_TOPICS = 256  # that are read of a log: it is walked once for each
LARGEST_DEFINITION = 64 << 10  # [bytes] of text, of all topics together: it parses at 50 kB/s
# Messages of one layout, the joints or the frame that they speak of, place in them by column.
Decoded = tuple[Group, frozenset[str], Mapping[str, tuple[str, int]]]
PEEK = 200  # messages of a topic by which its joints and frames are known


def types_of(channel: Channel, path: str) -> Mapping[str, Any]:
    """Return message definitions by name: the log's own, else those that ROS ships.

    Raises:
        InvalidRecording: If the log's own definition cannot be read.
    """
    if channel.encoding == "json":
        return {}
    if channel.encoding == "protobuf":
        return {channel.kind: _protobuf_class(channel, path)}
    typesys = library("rosbags.typesys", path)
    ros1 = channel.encoding == "ros1"
    store = typesys.Stores.ROS1_NOETIC if ros1 else typesys.Stores.ROS2_HUMBLE
    shipped: dict[str, Any] = dict(typesys.get_typestore(store).fielddefs)
    own: dict[str, Any] = {}
    if not channel.definition:
        return shipped
    text = _without_comments(channel.definition, "//" if channel.idl else "#")
    try:
        if len(text) > LARGEST_DEFINITION:
            raise ValueError(f"{len(text)} characters")
        if channel.idl:
            own = typesys.get_types_from_idl(text)
        else:
            own = typesys.get_types_from_msg(text, channel.kind)
    except Exception as problem:  # a parser of what a file says: anything may be in there
        raise _undefined(channel, path, problem) from problem
    if not ros1:  # ROS 1 logs define a header's stamp by the built-in type alone
        own = {n: d for n, d in own.items() if n != "builtin_interfaces/msg/Time"}
    return shipped | own


def _protobuf_class(channel: Channel, path: str) -> Any:
    """Return the class of a channel's messages, which reads them."""
    descriptors = library("google.protobuf.descriptor_pb2", path)
    database = library("google.protobuf.descriptor_database", path).DescriptorDatabase()
    pool = library("google.protobuf.descriptor_pool", path).DescriptorPool(database)
    factory = library("google.protobuf.message_factory", path)
    try:
        files = descriptors.FileDescriptorSet.FromString(channel.definition.encode("latin-1"))
        for file in files.file:
            database.Add(file)
        return factory.GetMessageClass(pool.FindMessageTypeByName(channel.kind))
    except Exception as problem:  # a parser of what a file says: anything may be in there
        raise _undefined(channel, path, problem) from problem


def _undefined(channel: Channel, path: str, problem: Exception) -> InvalidRecording:
    return InvalidRecording(
        f"the definition of the messages of '{channel.topic}' cannot be read",
        argument=path,
        got=str(problem)[:200],
    )


def _without_comments(text: str, mark: str) -> str:
    """Return a definition without comments and empty lines: many slow the parser down."""
    lines = (line for line in text.splitlines() if line.strip())
    return "\n".join(line for line in lines if not line.lstrip().startswith(mark))


def messages_table(log: Log, topics: Topics, damaged: Damaged) -> Table:
    """Return a log of messages as a table.

    Streams with different times are joined. The times are those of the joint states, or, without
    any, of the stream with most of the first messages; others are interpolated (see `join`).

    Raises:
        InvalidRecording: If it has no message that heft reads, or several topics carry the same
            signal.
        MissingSignal: If a chosen topic is missing.
    """
    refuse_missing(topics, {c.topic for c in log.channels}, log.path)
    wanted = [
        k
        for k, c in enumerate(log.channels)
        if c.kind in (*KINDS, *JOINT_BY_JOINT) and c.count != 0
        if c.encoding in ("cdr", "ros1", "json", "protobuf")
        if not topics.names or c.topic in topics.names
    ]
    reader = _Reader(log, topics, damaged, _decoders(log, wanted))
    streams = reader.streams() if wanted else []
    if not streams:
        raise _nothing(log)
    refuse_many(sum(len(s.columns) for s in streams), log.path)
    _refuse_ambiguous(log, streams)
    # The clock: joints before all else, then the topic that says most.
    streams.sort(key=lambda s: (log.channels[s.channel].kind not in ALL_JOINTS, -s.seen))
    stated = log.channels[streams[0].channel].epoch
    epoch = streams[0].first if stated is None else stated
    notes = [*log.notes, *(n for s in streams for n in _notes(log.channels[s.channel], s, topics))]
    keys: dict[int, list[frozenset[str]]] = {}
    for s in streams:
        keys.setdefault(s.channel, []).append(s.key)

    def joined(walk: Callable[[int], Iterator[Batch]]) -> Table:
        parts = [
            reader.table(s, partial(walk, k), keys[s.channel], epoch) for k, s in enumerate(streams)
        ]
        return join(parts, log.path, tuple(notes))

    def read(names: Sequence[str]) -> Iterator[Array]:
        asked = frozenset(names)
        used = [k for k, s in enumerate(streams) if not k or not asked.isdisjoint(s.columns)]
        shared = SharedWalk(log.batches, {k: streams[k].channel for k in used})
        yield from joined(shared.batches).read(names)

    every = joined(lambda k: log.batches([streams[k].channel]))
    return replace(every, read=read, remarks=lambda: list(reader.remarks.values()))


def _nothing(log: Log) -> InvalidRecording:
    there = sorted({f"{c.topic} ({c.kind}, {c.encoding})" for c in log.channels})
    return InvalidRecording(
        "the log holds no messages that heft reads",
        argument=log.path,
        got=", ".join(there[:8]) or "no topics",
        expected=", ".join(k.replace("/msg/", "/") for k in (*KINDS, *JOINT_BY_JOINT)),
    )


def _notes(channel: Channel, stream: _Stream, topics: Topics) -> Iterator[str]:
    if not stream.header:
        yield f"'{channel.topic}' has no stamps of its own: the time of logging is used"
    if abs(stream.late) > 1.0:
        yield (
            f"'{channel.topic}' was logged {stream.late:.6g} s behind its own stamps, which "
            "are used"
        )
    if channel.kind.endswith("PoseStamped") and channel.topic not in topics.frames:
        yield (
            f"'{channel.topic}' names the frame that its pose is seen from, not the body's: "
            f'[topic] frames = {{"{channel.topic}" = "…"}} in a map names it'
        )


def _refuse_ambiguous(log: Log, streams: Sequence[_Stream]) -> None:
    owner: dict[str, _Stream] = {}
    for stream in streams:
        for column in stream.columns:
            if column in owner:
                both = [log.channels[s.channel].topic for s in (owner[column], stream)]
                raise InvalidRecording(
                    f"two streams of messages give '{column}'",
                    argument=log.path,
                    got=", ".join(both),
                    cure=f'choose in a map (--map): [topic] names = ["{both[0]}"]'
                    if both[0] != both[1]
                    else "the topic's messages name unlike sets of the same joints; "
                    "record their sources as topics of their own",
                )
            owner[column] = stream


def _decoders(log: Log, wanted: Sequence[int]) -> dict[int, Decoder]:
    cure = 'choose those of one robot in a map (--map): [topic] names = ["…"]'
    if len(wanted) > MOST_TOPICS:
        raise InvalidRecording(
            "the log has too many topics of signals",
            argument=log.path,
            got=len(wanted),
            expected=f"at most {MOST_TOPICS}",
            cure=cure,
        )
    types: dict[Channel, Mapping[str, Any]] = {}
    decoders = {}
    for k in wanted:
        channel = log.channels[k]
        key = replace(channel, topic="", count=None, epoch=None)
        if key not in types:
            if sum(len(c.definition) for c in (*types, key)) > LARGEST_DEFINITION:
                raise InvalidRecording(
                    "the definitions of the messages are too long", argument=log.path, cure=cure
                )
            types[key] = types_of(channel, log.path)
        decoders[k] = Decoder(channel.kind, types[key], channel.encoding)
    return decoders


@dataclass(frozen=True)
class _Stream:
    channel: int  # position of the channel in the log
    key: frozenset[str]  # the joints, or the frame
    columns: Mapping[str, tuple[str, int]]  # what the messages give: place in them by column
    first: int  # the first stamp [ns]
    header: bool  # whether the stamps of the header are used, or those of the log
    seen: int  # how many of the first messages are of this stream
    late: float  # by how much the first was logged behind its own stamp [s]

    def extended(self, new: _Stream) -> _Stream:
        """Return the stream with later messages of its kind."""
        first = min(self.first, new.first) if new.header == self.header else self.first
        columns = {**new.columns, **self.columns}
        return replace(self, columns=columns, first=first, seen=self.seen + new.seen)


def _stream(channel: int, logged: Sequence[int], decoded: Decoded) -> _Stream:
    group, key, columns = decoded
    when = logged[group.rows[0]]
    stamps = stamps_of(group)
    # A header without a stamp has zero there, while the log's clock runs.
    header = stamps is not None and bool(stamps[0] or not when)
    first = int(stamps[0]) if header and stamps is not None else when
    measured = {  # drivers write NaN for what they do not measure
        n: (path, k)
        for n, (path, k) in columns.items()
        if np.isfinite(group.numbers[path][:, k]).any()
    }
    late = (when - first) / 1e9
    return _Stream(channel, key, measured, first, header, len(group.rows), late)


@dataclass(frozen=True)
class _Reader:
    log: Log
    topics: Topics
    damaged: Damaged
    decoders: Mapping[int, Decoder]  # by position of the channel
    remarks: dict[str, str] = field(
        default_factory=dict
    )  # remarks that reading brings up, by topic

    def decoded(self, k: int, messages: Sequence[bytes]) -> list[Decoded]:
        """Return decoded messages; one that cannot be decoded is reported to `damaged`."""
        channel = self.log.channels[k]

        def groups(some: Sequence[bytes]) -> list[Decoded]:
            made = self.decoders[k].groups(some)
            return [(g, *read_group(channel, g, self.topics.frames)) for g in made]

        try:
            return groups(messages)
        except Malformed as problem:
            what = f"a message of '{channel.topic}': {problem}"
            self.damaged(damaged_file(self.log.kind, self.log.path, what))
        kept: list[Decoded] = []
        for row, message in enumerate(messages):  # salvage: one by one, without the bad ones
            try:
                for group, key, columns in groups([message]):
                    kept.append((replace(group, rows=np.array([row])), key, columns))
            except Malformed:
                continue
        return kept

    def streams(self) -> list[_Stream]:
        """Return what the first messages of each channel speak of."""
        channels = self.log.channels
        seen = dict.fromkeys(self.decoders, 0)
        waiting = {k for k in seen if not _enough(0, channels[k].count)}
        streams: dict[tuple[int, frozenset[str]], _Stream] = {}
        for k, logged, messages in self.log.batches(seen):
            for one in self.decoded(k, messages[: max(PEEK - seen[k], 0)]):
                new = _stream(k, logged, one)
                old = streams.get((k, new.key))
                streams[k, new.key] = new if old is None else old.extended(new)
            seen[k] += len(messages)
            if _enough(seen[k], channels[k].count):
                waiting.discard(k)
            if not waiting:
                break
        return [s for s in streams.values() if s.columns]

    def table(
        self,
        stream: _Stream,
        walk: Callable[[], Iterator[Batch]],
        keys: Sequence[frozenset[str]],
        epoch: int,
    ) -> Table:
        """Return a stream as a table.

        Args:
            walk: Yields the messages of its channel.
            keys: Of all streams of the channel.
            epoch: Stamp at which time is 0 [ns].
        """
        channel = self.log.channels[stream.channel]
        topic = channel.topic

        def read(names: Sequence[str]) -> Iterator[Array]:
            waiting: list[Array] = []
            count = 0
            for _, logged, messages in walk():
                made = rows(logged, messages, names)
                waiting.append(made)
                count += len(made)
                if count >= table.BLOCK_ROWS:
                    yield np.concatenate(waiting)
                    waiting, count = [], 0
            if count:
                yield np.concatenate(waiting)

        def rows(logged: list[int], messages: list[bytes], names: Sequence[str]) -> Array:
            values = np.full((len(messages), len(names)), np.nan)
            keep = np.zeros(len(messages), dtype=bool)
            for group, key, columns in self.decoded(stream.channel, messages):
                if key != stream.key:
                    if key in keys:
                        continue
                    raise InvalidRecording(
                        f"the messages of '{topic}' change what they speak of",
                        argument=self.log.path,
                        got=", ".join(sorted(key)) or "no joints",
                        expected=", ".join(sorted(stream.key)),
                        cure="cut the log where they change",
                    )
                keep[group.rows] = True
                if len(key) < len(_joints(channel.kind, group)[0]):
                    when = (logged[group.rows[0]] - epoch) / 1e9
                    self.remarks.setdefault(
                        topic,
                        f"'{topic}' names joints twice, with the same numbers, from about "
                        f"{when:.1f} s on: each is taken once",
                    )
                for at, name in enumerate(names):
                    if name == "t":
                        own = stamps_of(group) if stream.header else None
                        if own is None:
                            own = np.array([logged[k] for k in group.rows], dtype=np.int64)
                        values[group.rows, at] = seconds(own - epoch)
                    elif name in columns:
                        path, k = columns[name]
                        values[group.rows, at] = group.numbers[path][:, k]
            return values if keep.all() else values[keep]

        return Table(self.log.path, ("t", *stream.columns), None, read, epoch=epoch)


def _enough(seen: int, count: int | None) -> bool:
    return seen >= PEEK or (count is not None and seen >= count)


def read_group(
    channel: Channel, group: Group, frames: Mapping[str, str]
) -> tuple[frozenset[str], dict[str, tuple[str, int]]]:
    """Return the joints or the frame of a group of messages, and the position of each column.

    Args:
        frames: Frame names by topic that replace those in the messages.

    Returns:
        Names of the joints, or of the frame; for each canonical column the path of its field and
        its position therein.

    Raises:
        Malformed: If a joint is named twice with unlike numbers, the counts of names and values
            differ, a field is missing, or a stamp is none.
    """
    stamps_of(group)
    columns: dict[str, tuple[str, int]] = {}
    if channel.kind in ALL_JOINTS:
        names, places = _joints(channel.kind, group)
        for column, (path, k) in places:
            first, at = columns.setdefault(column, (path, k))
            one, other = group.numbers[first][:, at], group.numbers[path][:, k]
            if (first, at) != (path, k) and not np.array_equal(one, other, equal_nan=True):
                raise Malformed("a joint is named twice: " + ", ".join(names)[:80])
        return frozenset(names), columns
    field = "child_frame_id" if channel.kind.endswith("Odometry") else "header.frame_id"
    frame = frames.get(channel.topic) or "".join(group.strings.get(field, ())) or "unnamed"
    for path, kind, letters in FRAMED[channel.kind]:
        for letter in letters:
            numbers = group.numbers.get(f"{path}.{letter}")
            if numbers is None or not numbers.shape[1]:
                raise Malformed(f"it lacks '{path}.{letter}'")
            columns[f"{kind}.{frame}.{letter}"] = (f"{path}.{letter}", 0)
    covariance = group.numbers.get("orientation_covariance", np.empty((0, 0)))
    if channel.kind.endswith("Imu") and covariance.size and covariance[0, 0] == -1.0:
        # An IMU without an orientation says so.
        columns = {n: c for n, c in columns.items() if not n.startswith("quat.")}
    return frozenset({frame}), columns


def _joints(kind: str, group: Group) -> tuple[Sequence[str], Iterator[tuple[str, tuple[str, int]]]]:
    """Return the joints that messages name, and where each of their columns is, in pairs."""
    numbers = group.numbers
    if kind == JOINTS:
        names = group.strings.get("name", ())
        for path, _ in JOINT_FIELDS:
            count = numbers[path].shape[1] if path in numbers else 0
            if count not in (0, len(names)):
                raise Malformed(f"it names {len(names)} joints and gives '{path}' of {count}")
        fields = [(path, s) for path, s in JOINT_FIELDS if path in numbers and numbers[path].size]
        return names, (
            (f"{signal}.{n}", (path, k)) for path, signal in fields for k, n in enumerate(names)
        )
    every: list[str] = []
    while (name := group.strings.get(f"joints[{len(every)}].name")) is not None:
        every += name
    at = ((f"joints[{k}].{f}", f"{s}.{n}") for f, s in JOINT_FIELDS for k, n in enumerate(every))
    return every, ((column, (path, 0)) for path, column in at if path in numbers)


def stamps_of(group: Group) -> NDArray[np.int64] | None:
    """Return the header stamps of messages, shape (messages,) [ns]; None if they have none.

    Raises:
        Malformed: If a stamp is beyond what 64 bits hold in nanoseconds.
    """
    places = [p for p in STAMPS if p[0] in group.numbers and p[1] in group.numbers]
    if not places:
        return None
    seconds, rest = (group.numbers[name] for name in places[0])
    if not (seconds.shape[1] and rest.shape[1]):  # by a definition of the file's own
        raise Malformed("its stamp is empty")
    full, part = seconds[:, 0], rest[:, 0]
    if not all(((x >= -LATEST) & (x <= LATEST)).all() for x in (full, part)):
        raise Malformed("its stamp is none")  # it would begin again at the far end of the numbers
    return np.asarray(full.astype(np.int64) * 1_000_000_000 + part.astype(np.int64))
