"""Writer of ROS 2 messages in MCAP files: of canonical signals, and of any messages one by one.

Of signals one message of each kind is serialised once with NaN in place of its numbers; whole
blocks of rows are then written into copies of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting

from .layouts import layout_of
from .message_log import EPOCH, FRAMED, JOINT_FIELDS, JOINTS, seconds
from .table import SHIFT, Say, Table, Write, library

NOTHING: Mapping[str, str] = MappingProxyType({})
MESSAGE, ARRAY = 2, 3  # as in rosbags.interfaces.Nodetype


@dataclass(frozen=True)
class _Message:
    topic: str  # where it is written
    kind: str  # its type
    template: bytes  # its bytes
    stamp: int  # where the header's seconds stand; the nanoseconds follow
    places: Mapping[str, int]  # where each column's number stands


@contextmanager
def write_mcap(path: Path, table: Table, say: Say) -> Iterator[Write]:
    """Open an MCAP file for writing the signals that ROS messages can carry.

    Raises:
        InvalidSetting: If no signal fits into a ROS message.
        InvalidRecording: While writing, at a time outside the range of ROS stamps.
    """
    store = _definitions(path)
    messages = [*_joint_messages(table, store), *_frame_messages(table, store)]
    written = {c for m in messages for c in m.places}
    without = [c for c in table.columns if c != "t" and c not in written]
    if without:
        say("ROS messages have no place for " + ", ".join(without))
    if not messages:
        raise InvalidSetting(
            "nothing of the log fits into ROS messages",
            argument=str(path),
            got=", ".join(without[:8]),
            cure="write Parquet, NPZ or CSV",
        )
    with _opened(path) as writer:
        rows = _Rows(path, writer, store, messages, table.columns, table.epoch)
        yield rows.write
    rows.say_losses(say)


def write_messages(
    path: Path,
    kind: str,
    topic: str,
    messages: Iterable[tuple[int, Mapping[str, Any]]],
    definitions: Mapping[str, str] = NOTHING,
) -> None:
    """Write an MCAP file of messages of one type.

    Args:
        messages: Time [ns] and fields of each; see `_made`.
        definitions: Message definitions by type name, of types that ROS 2 itself lacks.

    Raises:
        InvalidRecording: If the libraries of the extra `ros` are not installed.
    """
    store = _definitions(path)
    for name, text in definitions.items():
        store.register(library("rosbags.typesys", path).get_types_from_msg(text, name))
    with _opened(path) as writer:
        channel = _register(writer, store, kind, topic)
        for stamp, fields in messages:
            data = bytes(store.serialize_cdr(_made(store, kind, fields), kind))
            writer.add_message(channel, stamp, data, stamp)


def _definitions(path: Path) -> Any:
    """Return the definitions of messages that ROS 2 ships."""
    typesys = library("rosbags.typesys", path)
    return typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    module = library("mcap.writer", path)
    with path.open("wb") as file:
        writer = module.Writer(file, enable_data_crcs=True)
        writer.start(profile="ros2", library="heft")
        yield writer
        writer.finish()


def _register(
    writer: Any, store: Any, kind: str, topic: str, about: Mapping[str, str] = NOTHING
) -> int:
    definition, _ = store.generate_msgdef(kind, ros_version=2)
    schema = writer.register_schema(kind, "ros2msg", definition.encode())
    return int(writer.register_channel(topic, "cdr", schema, dict(about)))


def _made(store: Any, kind: str, fields: Mapping[str, Any]) -> Any:
    """Return a message; fields that are messages are mappings, or lists of them.

    Of fields that are not given, numbers are NaN, and whole numbers and arrays zero.
    """
    made = {}
    for name, (node, detail) in store.fielddefs[kind][1]:
        value = fields.get(name)
        if node == MESSAGE:
            value = _made(store, detail, value or {})
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            value = [_made(store, detail[0][1], entry) for entry in value]
        elif value is None and node == ARRAY:
            value = np.zeros(detail[1])
        elif value is None:
            value = "" if detail[0] == "string" else np.nan if "float" in detail[0] else 0
        made[name] = value
    return store.types[kind](**made)


@dataclass
class _Rows:
    path: Path  # the file
    writer: Any  # the library's
    store: Any  # definitions of messages
    messages: Sequence[_Message]  # the kinds written
    columns: Sequence[str]  # the table's
    base: int | None  # the stamp at which time is 0 [ns], None until the first time is known
    # numbers of the kinds in the file, none until the base is known
    channels: list[int] = field(default_factory=list)
    rounded: int = 0  # how many times were rounded
    most: float = 0.0  # by how much at most [s]
    timeless: int = 0  # how many rows had no time

    def write(self, block: Array) -> None:
        """Write the rows that have a time."""
        good = block[np.isfinite(block[:, 0])]
        self.timeless += len(block) - len(good)
        if not len(good):
            return
        stamps = self._stamps(good[:, 0])
        made = [_fill(m, stamps, good, self.columns) for m in self.messages]
        for row, stamp in enumerate(stamps.tolist()):
            for channel, data in zip(self.channels, made, strict=True):
                self.writer.add_message(channel, stamp, data[row].tobytes(), stamp)

    def _stamps(self, time: Array) -> NDArray[np.int64]:
        """Return the stamps of times [s], in nanoseconds."""
        base = self._begin(float(time[0]))
        if (np.abs(time) > 2.0**32).any():
            raise _out_of_range(self.path, time)
        floor = np.floor(time)  # apart, or large times would lose nanoseconds
        stamps = floor.astype(np.int64) * 10**9 + base
        stamps += np.rint((time - floor) * 1e9).astype(np.int64)
        if stamps.min() < 0 or stamps.max() >= 2**31 * 10**9:
            raise _out_of_range(self.path, time)
        off = np.abs(seconds(stamps - base) - time)
        self.rounded += int((off > 0.0).sum())
        self.most = max(self.most, float(off.max()))
        return stamps

    def _begin(self, first: float) -> int:
        """Return the stamp of time zero [ns], by the first time [s] if the table has none."""
        if self.base is None:
            self.base = 0 if first >= 0.0 else SHIFT
        if not self.channels:
            epoch = {EPOCH: str(self.base)}
            self.channels = [
                _register(self.writer, self.store, m.kind, m.topic, epoch) for m in self.messages
            ]
        return self.base

    def say_losses(self, say: Say) -> None:
        if self.rounded:
            say(
                f"{self.rounded} times are rounded to whole nanoseconds, by up to {self.most:.1e} s"
            )
        if self.timeless:
            say(f"{self.timeless} rows without a time are left out")


def _out_of_range(path: Path, time: Array) -> InvalidRecording:
    return InvalidRecording(
        "a time does not fit into a ROS stamp",
        argument=str(path),
        got=f"times from {time.min():g} s to {time.max():g} s",
        expected="seconds from 0 to 2147483647",
        cure="is the unit of the time column right? [time] unit in the map",
    )


def _fill(message: _Message, stamps: Any, block: Array, columns: Sequence[str]) -> Any:
    raw = np.tile(np.frombuffer(message.template, np.uint8), (len(block), 1))
    stamp = np.stack([stamps // 10**9, stamps % 10**9], 1).astype("<u4")
    raw[:, message.stamp : message.stamp + 8] = stamp.view(np.uint8)
    at = {c: k for k, c in enumerate(columns)}
    for column, place in message.places.items():
        number = np.ascontiguousarray(block[:, [at[column]]], dtype="<f8")
        raw[:, place : place + 8] = number.view(np.uint8)
    return raw


def _message(
    store: Any,
    topic: str,
    kind: str,
    fields: Mapping[str, Any],
    numbers: Mapping[str, tuple[str, int]],
) -> _Message:
    """Return a message of `fields`, whose other numbers are written row by row.

    Args:
        numbers: For each column the path of its field, and its position therein.
    """
    data = bytes(store.serialize_cdr(_made(store, kind, fields), kind))
    layout = layout_of(data, kind, store.fielddefs, "cdr").numbers
    places = {column: layout[path][1] + 8 * k for column, (path, k) in numbers.items()}
    return _Message(topic, kind, data, layout["header.stamp.sec"][1], places)


def _joint_messages(table: Table, store: Any) -> Iterator[_Message]:
    kinds = {kind: path for path, kind in JOINT_FIELDS}
    parts = [(c.partition(".")[0], c.partition(".")[2]) for c in table.columns]
    joints = list(dict.fromkeys(joint for kind, joint in parts if kind in kinds))
    if not joints:
        return
    there = {kind for kind, _ in parts}
    fields = {p: np.full(len(joints) * (kind in there), np.nan) for kind, p in kinds.items()}
    numbers = {f"{k}.{j}": (kinds[k], joints.index(j)) for k, j in parts if k in kinds}
    yield _message(store, "/joint_states", JOINTS, {"name": joints, **fields}, numbers)


def _frame_messages(table: Table, store: Any) -> Iterator[_Message]:
    there: dict[str, set[str]] = {}
    for column in table.columns:
        kind, _, rest = column.partition(".")
        if kind in {kind for fields in FRAMED.values() for _, kind, _ in fields}:
            there.setdefault(rest.rpartition(".")[0], set()).add(kind)
    for frame, kinds in there.items():
        for topic, kind, reference, written, fields in _kinds_of_messages(frame, kinds):
            numbers = {
                column: (f"{path}.{letter}", 0)
                for path, signal, letters in FRAMED[kind]
                for letter in letters
                if signal in written and (column := f"{signal}.{frame}.{letter}") in table.columns
            }
            fields["header"] = {"frame_id": reference}
            yield _message(store, f"/{topic}/{frame}", kind, fields, numbers)


def _kinds_of_messages(
    frame: str, kinds: set[str]
) -> Iterator[tuple[str, str, str, set[str], dict[str, Any]]]:
    """Yield a frame's messages: topic, type, frame of reference, what is written, fixed fields."""
    moved = bool(kinds & {"pos", "vel"})
    if kinds & {"force", "torque"}:
        yield "wrench", "geometry_msgs/msg/WrenchStamped", frame, {"force", "torque"}, {}
    if moved:
        written, fixed = {"pos", "quat", "vel", "omega"}, {"child_frame_id": frame}
        yield "odometry", "nav_msgs/msg/Odometry", "world", written, fixed
    if "acc" in kinds or (not moved and kinds & {"omega", "quat"}):
        written = {"acc"} if moved else {"acc", "omega", "quat"}
        unknown = {"orientation_covariance": np.array([-1.0, *np.zeros(8)])}  # by the definition
        fields = {} if "quat" in kinds & written else unknown
        yield "imu", "sensor_msgs/msg/Imu", frame, written, fields
