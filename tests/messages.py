"""Logs of ROS messages written by other libraries: the oracle of heft's readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from numpy.typing import NDArray
from rosbags.rosbag1 import Writer as BagWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as FolderWriter
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

Array = NDArray[np.float64]
ROS2 = get_typestore(Stores.ROS2_HUMBLE)
ROS1 = get_typestore(Stores.ROS1_NOETIC)
JOINT_STATE = "sensor_msgs/msg/JointState"
START = 1_700_000_000_123_456_789  # [ns]


@dataclass(frozen=True)
class Stamped:
    """One message: where, when it was logged, and what it says."""

    topic: str
    kind: str
    logged: int
    values: dict[str, Any]
    stamp: int = -1
    frame: str = ""


@dataclass
class Messages:
    """A log to be written."""

    messages: list[Stamped] = field(default_factory=list)

    def add(self, topic: str, kind: str, stamp: int, frame: str = "", **values: Any) -> None:
        self.messages.append(Stamped(topic, kind, stamp + 1000, values, stamp, frame))

    @property
    def topics(self) -> dict[str, str]:
        return {m.topic: m.kind for m in self.messages}


def joint_states(
    columns: dict[str, Array], stamps: Sequence[int], topic: str = "/joint_states"
) -> Messages:
    """Return columns `q.<joint>`, `v.<joint>`, `tau.<joint>` as messages."""
    joints = list(dict.fromkeys(n.partition(".")[2] for n in columns))
    log = Messages()
    for k, stamp in enumerate(stamps):
        values = {
            name: np.array([columns[f"{kind}.{j}"][k] for j in joints if f"{kind}.{j}" in columns])
            for name, kind in (("position", "q"), ("velocity", "v"), ("effort", "tau"))
        }
        log.add(topic, JOINT_STATE, stamp, name=joints, **values)
    return log


def made(store: Any, message: Stamped) -> Any:
    """Return a message as an object of the oracle."""
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](
        sec=message.stamp // 10**9, nanosec=message.stamp % 10**9
    )
    sequence = {"seq": 7} if store is ROS1 else {}
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id=message.frame, **sequence)
    return types[message.kind](header=header, **_nested(store, message.values))


def _nested(store: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: store.types[value[0]](**_nested(store, value[1]))
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }


def vector(x: float, y: float, z: float, kind: str = "Vector3") -> tuple[str, dict[str, Any]]:
    return f"geometry_msgs/msg/{kind}", {"x": x, "y": y, "z": z}


def turn(w: float, x: float, y: float, z: float) -> tuple[str, dict[str, Any]]:
    return "geometry_msgs/msg/Quaternion", {"x": x, "y": y, "z": z, "w": w}


def save_mcap(
    path: Path,
    log: Messages,
    encoding: str = "cdr",
    little: bool = True,
    chunk_size: int = 4096,
    publishers: int = 1,
    **options: Any,
) -> Path:
    store = ROS1 if encoding == "ros1" else ROS2
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=chunk_size, **options)
        writer.start()
        channels = {}
        for topic, kind in log.topics.items():
            if encoding == "json":
                schema = writer.register_schema(kind.replace("/msg/", "/"), "jsonschema", b"{}")
            else:
                text, _ = store.generate_msgdef(kind, ros_version=1 if encoding == "ros1" else 2)
                names = kind if encoding == "cdr" else kind.replace("/msg/", "/")
                format_ = "ros1msg" if encoding == "ros1" else "ros2msg"
                schema = writer.register_schema(names, format_, text.encode())
            channels[topic] = [
                writer.register_channel(topic, encoding, schema) for _ in range(publishers)
            ]
        for k, message in enumerate(log.messages):
            thing = made(store, message)
            if encoding == "json":
                data = json.dumps(as_json(thing)).encode()
            elif encoding == "ros1":
                data = bytes(store.serialize_ros1(thing, message.kind))
            else:
                data = bytes(store.serialize_cdr(thing, message.kind, little_endian=little))
            channel = channels[message.topic][k % publishers]
            writer.add_message(channel, message.logged, data, message.logged)
        writer.finish()
    return path


FOXGLOVE = {
    "ros2msg": f"""builtin_interfaces/Time timestamp
foxglove_msgs/JointState[] joints
{80 * "="}
MSG: foxglove_msgs/JointState
string name
float64 position
float64 velocity
float64 acceleration
float64 effort
""",
    "jsonschema": "{}",
}


def protobuf_files(optional: bool = True) -> descriptor_pb2.FileDescriptorSet:
    """Return the definition of foxglove.JointStates, a file behind those that it needs."""
    joint = descriptor_pb2.FileDescriptorProto(
        name="JointState.proto", package="foxglove", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    one = joint.message_type.add(name="JointState")
    one.field.add(name="name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    for k, name in enumerate(("position", "velocity", "acceleration", "effort")):
        more = {"oneof_index": k, "proto3_optional": True} if optional else {}
        one.field.add(
            name=name, number=2 + k, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL, **more
        )
        if optional:
            one.oneof_decl.add(name=f"_{name}")
    stamp = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    states = descriptor_pb2.FileDescriptorProto(
        name="JointStates.proto",
        package="foxglove",
        syntax="proto3",
        dependency=[joint.name, stamp.name],
    )
    both = states.message_type.add(name="JointStates")
    for number, name, kind, label in (
        (1, "timestamp", ".google.protobuf.Timestamp", field.LABEL_OPTIONAL),
        (2, "joints", ".foxglove.JointState", field.LABEL_REPEATED),
    ):
        both.field.add(
            name=name, number=number, type=field.TYPE_MESSAGE, type_name=kind, label=label
        )
    return descriptor_pb2.FileDescriptorSet(file=[states, joint, stamp])


def save_foxglove(path: Path, log: Messages, schema: str, optional: bool = True) -> Path:
    """Write joint states as foxglove.JointStates, whose joints are messages of their own."""
    files = protobuf_files(optional)
    made_of = message_factory.GetMessages(files.file)["foxglove.JointStates"]
    store = get_typestore(Stores.ROS2_HUMBLE)
    ros = "foxglove_msgs/msg/JointStates"
    store.register(get_types_from_msg(FOXGLOVE["ros2msg"], ros))
    text = files.SerializeToString() if schema == "protobuf" else FOXGLOVE[schema].encode()
    encoding = {"ros2msg": "cdr", "jsonschema": "json"}.get(schema, schema)
    with path.open("wb") as file:
        writer = McapWriter(file)
        writer.start()
        kind = ros if schema == "ros2msg" else "foxglove.JointStates"
        number = writer.register_schema(kind, schema, text)
        channel = writer.register_channel("/joints", encoding, number)
        for m in log.messages:
            seconds, rest = divmod(m.stamp, 10**9)
            fields = [f for f in ("position", "velocity", "effort") if len(m.values[f])]
            joints = [
                {"name": n} | {f: float(m.values[f][k]) for f in fields}
                for k, n in enumerate(m.values["name"])
            ]
            if schema == "jsonschema":
                stamp = {"sec": seconds, "nsec": rest}
                data = json.dumps({"timestamp": stamp, "joints": joints}).encode()
            elif schema == "protobuf":
                stamp = {"seconds": seconds, "nanos": rest}
                data = made_of(timestamp=stamp, joints=joints).SerializeToString()
            else:
                thing = store.types[ros](
                    store.types["builtin_interfaces/msg/Time"](seconds, rest),
                    [
                        store.types["foxglove_msgs/msg/JointState"](
                            **dict.fromkeys(("position", "velocity", "effort"), np.nan) | j,
                            acceleration=0.0,
                        )
                        for j in joints
                    ],
                )
                data = bytes(store.serialize_cdr(thing, ros))
            writer.add_message(channel, m.logged, data, m.logged)
        writer.finish()
    return path


def as_json(thing: Any) -> Any:
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if hasattr(thing, "__dataclass_fields__"):
        return {n: as_json(getattr(thing, n)) for n in thing.__dataclass_fields__ if n[0] != "_"}
    return thing


def save_folder(
    path: Path, log: Messages, storage: StoragePlugin, packed: str | None = None
) -> Path:
    writer = FolderWriter(path, version=9, storage_plugin=storage)
    if packed:
        mode = CompressionMode[packed]
        writer.set_compression(mode, CompressionFormat.ZSTD)
    with writer:
        to = {
            topic: writer.add_connection(topic, kind, typestore=ROS2)
            for topic, kind in log.topics.items()
        }
        for m in log.messages:
            writer.write(to[m.topic], m.logged, ROS2.serialize_cdr(made(ROS2, m), m.kind))
    return path


def save_bag(path: Path, log: Messages, compression: str | None = None) -> Path:
    writer = BagWriter(path)
    if compression:
        writer.set_compression(BagWriter.CompressionFormat[compression])
    with writer:
        to = {t: writer.add_connection(t, kind, typestore=ROS1) for t, kind in log.topics.items()}
        for m in log.messages:
            writer.write(to[m.topic], m.logged, ROS1.serialize_ros1(made(ROS1, m), m.kind))
    return path


def save_db3(path: Path, log: Messages, packed: str | None = None) -> Path:
    folder = path.with_name(f"folder of {path.name}")
    save_folder(folder, log, StoragePlugin.SQLITE3, packed)
    return next(folder.glob("*.db3*")).rename(path)


SAVE: dict[str, Callable[[Path, Messages], Path]] = {
    "zstd.mcap": save_mcap,
    "lz4.mcap": lambda p, log: save_mcap(p, log, compression=CompressionType.LZ4),
    "plain.mcap": lambda p, log: save_mcap(
        p, log, compression=CompressionType.NONE, enable_data_crcs=True
    ),
    "unchunked.mcap": lambda p, log: save_mcap(p, log, use_chunking=False),
    "without_summary.mcap": lambda p, log: save_mcap(
        p,
        log,
        index_types=IndexType.NONE,
        repeat_channels=False,
        repeat_schemas=False,
        use_statistics=False,
        use_summary_offsets=False,
    ),
    "big_endian.mcap": lambda p, log: save_mcap(p, log, little=False),
    "ros1.mcap": lambda p, log: save_mcap(p, log, "ros1"),
    "foxglove_protobuf.mcap": lambda p, log: save_foxglove(p, log, "protobuf"),
    "foxglove_zeros.mcap": lambda p, log: save_foxglove(p, log, "protobuf", optional=False),
    "foxglove_json.mcap": lambda p, log: save_foxglove(p, log, "jsonschema"),
    "foxglove_ros.mcap": lambda p, log: save_foxglove(p, log, "ros2msg"),
    "json.mcap": lambda p, log: save_mcap(p, log, "json"),
    "folder_sqlite": lambda p, log: save_folder(p, log, StoragePlugin.SQLITE3),
    "folder_mcap": lambda p, log: save_folder(p, log, StoragePlugin.MCAP),
    "folder_sqlite_files_zstd": lambda p, log: save_folder(p, log, StoragePlugin.SQLITE3, "FILE"),
    "folder_mcap_files_zstd": lambda p, log: save_folder(p, log, StoragePlugin.MCAP, "FILE"),
    "folder_messages_zstd": lambda p, log: save_folder(p, log, StoragePlugin.SQLITE3, "MESSAGE"),
    "file.db3": save_db3,
    "file.db3.zstd": lambda p, log: save_db3(p, log, "FILE"),
    "messages_zstd.db3": lambda p, log: save_db3(p, log, "MESSAGE"),
    "plain.bag": save_bag,
    "bz2.bag": lambda p, log: save_bag(p, log, "BZ2"),
    "lz4.bag": lambda p, log: save_bag(p, log, "LZ4"),
}
