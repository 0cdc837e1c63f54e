"""Any log as any other: canonical signals written as CSV, Parquet, NPZ or MCAP.

The output appears whole or not at all. What a format cannot hold is said, never left out in
silence.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting
from heft.files import put, require_writable, workshop

from .columns import FRAME_KINDS, ColumnMap
from .formats.join import join
from .formats.layouts import layout_of
from .formats.mcap import EPOCH
from .formats.messages import FRAMED, JOINT_FIELDS, JOINTS, seconds
from .formats.table import Table, library, refuse
from .recording import Recording

Write = Callable[[Array], None]
Say = Callable[[str], None]
SHIFT = 10**18  # [ns] added to the stamps of logs that begin before zero


@dataclass(frozen=True)
class Converted:
    """What became of a log.

    Attributes:
        rows: Rows written.
        begin: First time [s].
        end: Last time [s].
        notes: What a reader of the logs should know.
        losses: What the output's format could not hold.
        damage: What was wrong with the logs and is lost; nothing unless salvage was asked for.
    """

    rows: int
    begin: float
    end: float
    notes: tuple[str, ...]
    losses: tuple[str, ...]
    damage: tuple[str, ...]


def convert(
    logs: Sequence[Path],
    out: Path,
    columns: ColumnMap | None = None,
    joints: Sequence[str] = (),
    recover: bool = False,
) -> Converted:
    """Write logs, joined by time if several, as one canonical log.

    Args:
        logs: The first gives the times; see `tables.join`.
        out: CSV, Parquet, NPZ or MCAP file.
        columns: What the logs' columns mean.
        joints: The robot's joints, for logs that only count theirs.
        recover: Whether to salvage what can be read of damaged logs.

    Raises:
        InvalidSetting: If the kind of the output is not known, or it would replace a log.
        InvalidRecording: If a log cannot be used, or, to be salvaged, holds nothing.
    """
    writer = WRITERS.get(out.suffix.lower())
    if writer is None:
        raise InvalidSetting(
            f"heft does not write files ending in '{out.suffix}'",
            argument=f"--out {out}",
            valid=WRITERS,
        )
    require_writable(out)
    if out.is_dir():
        raise InvalidSetting("the place for a log is a folder", argument=f"--out {out}")
    damage: dict[str, None] = {}

    def note(problem: InvalidRecording) -> None:
        damage[f"{problem.argument}: {problem.got}"] = None

    try:
        recordings = [Recording.open(p, columns, joints, note if recover else refuse) for p in logs]
    except InvalidRecording as problem:
        if not damage:
            raise
        raise _nothing(", ".join(map(str, logs)), [*damage, problem.message]) from problem
    if out.exists() and any(out.samefile(p) for p in logs if p.exists()):
        raise InvalidSetting(
            "the output would overwrite a log",
            argument=f"--out {out}",
            cure="name another file",
        )
    table = join([r.canonical() for r in recordings], ", ".join(map(str, logs)))
    twice = sorted({c for c in table.columns if table.columns.count(c) > 1})
    if twice:
        raise InvalidRecording(
            f"two logs hold '{twice[0]}'", argument=table.path, got=", ".join(twice[:8])
        )
    if table.columns == ("t",):
        raise InvalidRecording(
            "the log holds no signals that heft knows",
            argument=table.path,
            got=", ".join(n for r in recordings for n in r.table.columns[:8]),
            cure="describe its columns in a map (--map); see docs/logs.md",
        )
    losses: dict[str, None] = {}
    left = [c for r in recordings for c in _unused(r)]
    if left:
        more = f" and {len(left) - 8} more" if len(left) > 8 else ""
        losses["columns without a meaning are left out: " + ", ".join(left[:8]) + more] = None
    rows, begin, end = 0, np.nan, np.nan
    place = out.resolve()  # a link stays a link
    with workshop(place) as folder:
        new = folder / place.name
        with writer(new, table, lambda text: losses.update({text: None})) as write:
            for block in table.read(table.columns):
                write(block)
                times = block[np.isfinite(block[:, 0]), 0]
                if len(times):
                    begin = times[0] if np.isnan(begin) else begin
                    end = times[-1]
                rows += len(block)
        if not rows:
            raise _nothing(table.path, list(damage))
        put(new, place)
    return Converted(rows, float(begin), float(end), table.notes, tuple(losses), tuple(damage))


def _nothing(logs: str, damage: Sequence[str]) -> InvalidRecording:
    return InvalidRecording(
        "nothing can be salvaged" if damage else "the log holds no rows",
        argument=logs,
        got="; ".join(damage) or None,
    )


def _unused(recording: Recording) -> list[str]:
    used = {c for m, _ in recording.sources.values() for c in m.columns} | {recording.time}
    return [c for c in (*recording.table.columns, *recording.table.others) if c and c not in used]


def _epoch(table: Table, say: Say) -> None:
    if table.epoch and table.epoch != SHIFT:
        say(f"times count from the stamp {table.epoch} ns, which this format has no place for")


@contextmanager
def _arrow(make: Callable[[Path, Any], Any], path: Path, table: Table, say: Say) -> Iterator[Write]:
    import pyarrow

    _epoch(table, say)
    schema = pyarrow.schema([(n, pyarrow.float64()) for n in table.columns])
    with make(path, schema) as writer:

        def write(block: Array) -> None:
            arrays = [pyarrow.array(np.ascontiguousarray(c)) for c in block.T]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write


def _csv(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    return _arrow(lambda p, s: pyarrow.csv.CSVWriter(p, s, write_options=options), path, table, say)


def _parquet(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    import pyarrow.parquet

    return _arrow(
        lambda p, s: pyarrow.parquet.ParquetWriter(p, s, write_page_checksum=True), path, table, say
    )


@contextmanager
def _npz(path: Path, table: Table, say: Say) -> Iterator[Write]:
    """Write each column to a file of its own, for how long they get is known in the end."""
    _epoch(table, say)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        names = [Path(folder) / str(k) for k in range(len(table.columns))]
        with ExitStack() as stack:
            files = [stack.enter_context(n.open("wb")) for n in names]

            def write(block: Array) -> None:
                for file, column in zip(files, block.T, strict=True):
                    file.write(np.ascontiguousarray(column, dtype="<f8").tobytes())

            yield write
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for column, name in zip(table.columns, names, strict=True):
                head = {
                    "descr": "<f8",
                    "fortran_order": False,
                    "shape": (name.stat().st_size // 8,),
                }
                entry = zipfile.ZipInfo(f"{column}.npy")  # no time of writing: the same bytes again
                with archive.open(entry, "w", force_zip64=True) as target, name.open("rb") as file:
                    np.lib.format.write_array_header_1_0(target, head)
                    shutil.copyfileobj(file, target, 1 << 20)


@dataclass(frozen=True)
class _Message:
    """One kind of message as bytes with places for numbers.

    Attributes:
        topic: Where it is written.
        kind: Its type.
        template: Its bytes.
        stamp: Where the header's seconds stand; the nanoseconds follow.
        places: Where each column's number stands.
    """

    topic: str
    kind: str
    template: bytes
    stamp: int
    places: dict[str, int]


@contextmanager
def _mcap(path: Path, table: Table, say: Say) -> Iterator[Write]:
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
    base: int | None = table.epoch
    rounded, most, timeless = 0, 0.0, 0
    channels: list[int] = []
    with path.open("wb") as file:
        writer = writer_module.Writer(file, enable_data_crcs=True)
        writer.start(profile="ros2", library="heft")

        def write(block: Array) -> None:
            nonlocal base, rounded, most, timeless
            good = block[np.isfinite(block[:, 0])]
            timeless += len(block) - len(good)
            if not len(good):
                return
            if base is None:
                base = 0 if good[0, 0] >= 0.0 else SHIFT
            if not channels:
                channels.extend(_register(writer, store, m, base) for m in messages)
            if (np.abs(good[:, 0]) > 2.0**32).any():
                raise _out_of_range(path, good[:, 0])
            floor = np.floor(good[:, 0])  # apart, or large times would lose nanoseconds
            stamps = floor.astype(np.int64) * 10**9 + base
            stamps += np.rint((good[:, 0] - floor) * 1e9).astype(np.int64)
            if stamps.min() < 0 or stamps.max() >= 2**31 * 10**9:
                raise _out_of_range(path, good[:, 0])
            off = np.abs(seconds(stamps - base) - good[:, 0])
            rounded += int((off > 0.0).sum())
            most = max(most, float(off.max()))
            made = [_fill(m, stamps, good, table.columns) for m in messages]
            for row, stamp in enumerate(stamps.tolist()):
                for channel, data in zip(channels, made, strict=True):
                    writer.add_message(channel, stamp, data[row].tobytes(), stamp)

        yield write
        writer.finish()
    if rounded:
        say(f"{rounded} times are rounded to whole nanoseconds, by up to {most:.1e} s")
    if timeless:
        say(f"{timeless} rows without a time are left out")


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
        field: empty if any(k == kind for k, _ in parts) else empty[:0]
        for field, kind in JOINT_FIELDS
    }
    layout, message = _message(store, "/joint_states", JOINTS, "", name=joints, **values)
    for field, kind in JOINT_FIELDS:
        begin = layout.numbers[field][1]
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
    types = store.types

    def vector(kind: str = "Vector3") -> Any:
        return types[f"geometry_msgs/msg/{kind}"](x=np.nan, y=np.nan, z=np.nan)

    def turn() -> Any:
        return types["geometry_msgs/msg/Quaternion"](x=np.nan, y=np.nan, z=np.nan, w=np.nan)

    def twist() -> Any:
        return types["geometry_msgs/msg/Twist"](linear=vector(), angular=vector())

    nine, many = np.zeros(9), np.zeros(36)
    for frame, kinds in there.items():
        moved = bool(kinds & {"pos", "vel"})
        chosen: list[tuple[str, str, set[str], dict[str, Any]]] = []
        if kinds & {"force", "torque"}:
            wrench = types["geometry_msgs/msg/Wrench"](force=vector(), torque=vector())
            chosen.append(
                (
                    "wrench",
                    "geometry_msgs/msg/WrenchStamped",
                    {"force", "torque"},
                    {"wrench": wrench},
                )
            )
        if moved:
            pose = types["geometry_msgs/msg/Pose"](position=vector("Point"), orientation=turn())
            values = {
                "child_frame_id": frame,
                "pose": types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=many),
                "twist": types["geometry_msgs/msg/TwistWithCovariance"](
                    twist=twist(), covariance=many
                ),
            }
            chosen.append(
                ("odometry", "nav_msgs/msg/Odometry", {"pos", "quat", "vel", "omega"}, values)
            )
        if "acc" in kinds or (not moved and kinds & {"omega", "quat"}):
            own = {"acc"} if moved else {"acc", "omega", "quat"}
            unknown = np.array([-1.0, *nine[1:]])
            values = {
                "orientation": turn(),
                "orientation_covariance": nine if "quat" in kinds & own else unknown,
                "angular_velocity": vector(),
                "angular_velocity_covariance": nine,
                "linear_acceleration": vector(),
                "linear_acceleration_covariance": nine,
            }
            chosen.append(("imu", "sensor_msgs/msg/Imu", own, values))
        for name, message_kind, own, values in chosen:
            reference = "world" if name == "odometry" else frame
            topic = f"/{name}/{frame}"
            layout, message = _message(store, topic, message_kind, reference, **values)
            for path, kind, letters in FRAMED[message_kind]:
                for letter in letters if kind in own else ():
                    column = f"{kind}.{frame}.{letter}"
                    if column in table.columns:
                        message.places[column] = layout.numbers[f"{path}.{letter}"][1]
            yield message


WRITERS: dict[str, Callable[[Path, Table, Say], AbstractContextManager[Write]]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".npz": _npz,
    ".mcap": _mcap,
}
