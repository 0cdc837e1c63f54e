"""Writer of canonical signals as ROS 2 messages in an MCAP file.

One message of each kind is serialised once with NaN in place of its numbers; whole blocks of rows
are then written into copies of its bytes.
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

from .format import Say, Write
from .layouts import layout_of
from .messages import FRAMED, JOINT_FIELDS, JOINTS, seconds
from .table import SHIFT, Table, library

EPOCH = "heft.epoch_ns"  # a channel's metadata: the stamp at which time is 0
FRAME_KINDS = {kind for fields in FRAMED.values() for _, kind, _ in fields}


@dataclass(frozen=True)
class _Message:
    topic: str  # where it is written
    kind: str  # its type
    template: bytes  # its bytes
    stamp: int  # where the header's seconds stand; the nanoseconds follow
    places: dict[str, int]  # where each column's number stands


@contextmanager
def write_mcap(path: Path, table: Table, say: Say) -> Iterator[Write]:
    """Open an MCAP file for writing the signals that ROS messages can carry.

    Raises:
        InvalidSetting: If no signal fits into a ROS message.
        InvalidRecording: While writing, at a time outside the range of ROS stamps.
    """
    typesys = library("rosbags.typesys", path)
    writer_module = library("mcap.writer", path)
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    messages = [*_joint_messages(table, store), *_frame_messages(table, store)]
    held = {c for m in messages for c in m.places}
    without = [c for c in table.columns if c != "t" and c not in held]
    if without:
        say("ROS messages have no place for " + ", ".join(without))
    if not messages:
        raise InvalidSetting(
            "nothing of the log fits into ROS messages",
            argument=str(path),
            got=", ".join(without[:8]),
            cure="write Parquet, NPZ or CSV",
        )
    with path.open("wb") as file:
        writer = writer_module.Writer(file, enable_data_crcs=True)
        writer.start(profile="ros2", library="heft")
        rows = _Rows(path, writer, store, messages, table.columns, table.epoch)
        yield rows.write
        writer.finish()
    rows.say_losses(say)


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
        """Write rows, shape (rows, columns), but those without a time."""
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
            self.channels = [
                _register(self.writer, self.store, m, self.base) for m in self.messages
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


def _register(writer: Any, store: Any, message: _Message, base: int) -> int:
    text, _ = store.generate_msgdef(message.kind, ros_version=2)
    schema = writer.register_schema(message.kind, "ros2msg", text.encode())
    return int(writer.register_channel(message.topic, "cdr", schema, {EPOCH: str(base)}))


def _fill(message: _Message, stamps: Any, block: Array, columns: Sequence[str]) -> Any:
    raw = np.tile(np.frombuffer(message.template, np.uint8), (len(block), 1))
    stamp = np.stack([stamps // 10**9, stamps % 10**9], 1).astype("<u4")
    raw[:, message.stamp : message.stamp + 8] = stamp.view(np.uint8)
    at = {c: k for k, c in enumerate(columns)}
    for column, place in message.places.items():
        number = np.ascontiguousarray(block[:, [at[column]]], dtype="<f8")
        raw[:, place : place + 8] = number.view(np.uint8)
    return raw


def _message(store: Any, topic: str, kind: str, frame: str, **values: Any) -> tuple[Any, _Message]:
    """Return a message's layout and bytes, NaN at the places of numbers that `values` lacks."""
    types = store.types
    zero = types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    header = types["std_msgs/msg/Header"](stamp=zero, frame_id=frame)
    made = types[kind](header=header, **values)
    data = bytes(store.serialize_cdr(made, kind))
    layout = layout_of(data, kind, store.fielddefs, "cdr")
    return layout, _Message(topic, kind, data, layout.numbers["header.stamp.sec"][1], {})


def _joint_messages(table: Table, store: Any) -> Iterator[_Message]:
    kinds = [kind for _, kind in JOINT_FIELDS]
    parts = [(c.partition(".")[0], c.partition(".")[2]) for c in table.columns]
    joints = list(dict.fromkeys(joint for kind, joint in parts if kind in kinds))
    if not joints:
        return
    empty = np.full(len(joints), np.nan)
    values = {
        path: empty if any(k == kind for k, _ in parts) else empty[:0]
        for path, kind in JOINT_FIELDS
    }
    layout, message = _message(store, "/joint_states", JOINTS, "", name=joints, **values)
    for path, kind in JOINT_FIELDS:
        begin = layout.numbers[path][1]
        for k, joint in enumerate(joints):
            if f"{kind}.{joint}" in table.columns:
                message.places[f"{kind}.{joint}"] = begin + 8 * k
    yield message


def _frame_messages(table: Table, store: Any) -> Iterator[_Message]:
    there: dict[str, set[str]] = {}
    for column in table.columns:
        kind, _, rest = column.partition(".")
        if kind in FRAME_KINDS:
            there.setdefault(rest.rpartition(".")[0], set()).add(kind)
    for frame, kinds in there.items():
        for chosen in _kinds_of_messages(frame, kinds, store.types):
            topic = f"/{chosen.topic}/{frame}"
            layout, message = _message(store, topic, chosen.kind, chosen.reference, **chosen.values)
            for path, kind, letters in FRAMED[chosen.kind]:
                for letter in letters if kind in chosen.holds else ():
                    column = f"{kind}.{frame}.{letter}"
                    if column in table.columns:
                        message.places[column] = layout.numbers[f"{path}.{letter}"][1]
            yield message


@dataclass(frozen=True)
class _Framed:
    topic: str  # what such messages are called
    kind: str  # their type
    reference: str  # the frame of the header
    holds: set[str]  # which kinds of signals are written to it
    values: dict[str, Any]  # the message's fields, NaN at the places of numbers


def _kinds_of_messages(frame: str, kinds: set[str], types: Any) -> Iterator[_Framed]:
    moved = bool(kinds & {"pos", "vel"})
    if kinds & {"force", "torque"}:
        held = {"force", "torque"}
        yield _Framed("wrench", "geometry_msgs/msg/WrenchStamped", frame, held, _wrench(types))
    if moved:
        held = {"pos", "quat", "vel", "omega"}
        yield _Framed("odometry", "nav_msgs/msg/Odometry", "world", held, _odometry(types, frame))
    if "acc" in kinds or (not moved and kinds & {"omega", "quat"}):
        held = {"acc"} if moved else {"acc", "omega", "quat"}
        values = _imu(types, oriented="quat" in kinds & held)
        yield _Framed("imu", "sensor_msgs/msg/Imu", frame, held, values)


def _vector(types: Any, kind: str = "Vector3") -> Any:
    return types[f"geometry_msgs/msg/{kind}"](x=np.nan, y=np.nan, z=np.nan)


def _turn(types: Any) -> Any:
    return types["geometry_msgs/msg/Quaternion"](x=np.nan, y=np.nan, z=np.nan, w=np.nan)


def _wrench(types: Any) -> dict[str, Any]:
    wrench = types["geometry_msgs/msg/Wrench"](force=_vector(types), torque=_vector(types))
    return {"wrench": wrench}


def _odometry(types: Any, frame: str) -> dict[str, Any]:
    many = np.zeros(36)
    pose = types["geometry_msgs/msg/Pose"](
        position=_vector(types, "Point"), orientation=_turn(types)
    )
    twist = types["geometry_msgs/msg/Twist"](linear=_vector(types), angular=_vector(types))
    return {
        "child_frame_id": frame,
        "pose": types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=many),
        "twist": types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=many),
    }


def _imu(types: Any, oriented: bool) -> dict[str, Any]:
    nine = np.zeros(9)
    unknown = np.array([-1.0, *nine[1:]])  # as the message's definition asks for
    return {
        "orientation": _turn(types),
        "orientation_covariance": nine if oriented else unknown,
        "angular_velocity": _vector(types),
        "angular_velocity_covariance": nine,
        "linear_acceleration": _vector(types),
        "linear_acceleration_covariance": nine,
    }


def write_messages(
    path: Path,
    kind: str,
    topic: str,
    messages: Iterable[tuple[int, Mapping[str, Any]]],
    definitions: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write an MCAP file of messages of one type.

    Args:
        messages: Time [ns] and fields of each; fields that are messages are mappings, or lists of
            them.
        definitions: Message definitions by type name, of types that ROS 2 itself lacks.

    Raises:
        InvalidRecording: If the libraries of the extra `ros` are not installed.
    """
    typesys = library("rosbags.typesys", path)
    writer_module = library("mcap.writer", path)
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    for name, text in definitions.items():
        store.register(typesys.get_types_from_msg(text, name))
    definition, _ = store.generate_msgdef(kind, ros_version=2)
    with path.open("wb") as file:
        writer = writer_module.Writer(file, enable_data_crcs=True)
        writer.start(profile="ros2", library="heft")
        schema = writer.register_schema(kind, "ros2msg", definition.encode())
        channel = writer.register_channel(topic, "cdr", schema)
        for stamp, fields in messages:
            data = bytes(store.serialize_cdr(_made(store, kind, fields), kind))
            writer.add_message(channel, stamp, data, stamp)
        writer.finish()


def _made(store: Any, kind: str, fields: Mapping[str, Any]) -> Any:
    made = {}
    for name, (_, detail) in store.fielddefs[kind][1]:
        value = fields[name]
        if isinstance(value, Mapping):
            value = _made(store, detail, value)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            value = [_made(store, detail[0][1], entry) for entry in value]
        made[name] = value
    return store.types[kind](**made)
