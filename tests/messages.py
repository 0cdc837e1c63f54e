"""Logs of ROS messages written by other libraries: the oracle of heft's readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from numpy.typing import NDArray
from rosbags.rosbag1 import Writer as BagWriter
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as FolderWriter
from rosbags.typesys import Stores, get_typestore

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
