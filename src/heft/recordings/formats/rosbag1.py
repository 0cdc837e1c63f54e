"""ROS 1 bags, format 2.0 (wiki.ros.org/Bags/Format/2.0).

The file is read record by record: an index of all messages would grow with the log.
"""

from __future__ import annotations

import bz2
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from heft.errors import InvalidRecording
from heft.files import is_bomb

from .message_log import (
    BATCH_BYTES,
    MOST_BYTES,
    Batch,
    Channel,
    Gathered,
    Log,
    Unpack,
    full_name,
    log_of,
    stepwise,
    unpacked,
)
from .table import Damaged, damaged_file, library

NAME = "ROS 1 bag"
damage = partial(damaged_file, NAME)

MAGIC = b"#ROSBAG V2.0\n"
MESSAGE, BAG, CHUNK, CHUNK_INFO, CONNECTION = 2, 3, 5, 6, 7

Header = dict[str, bytes]


def rosbag1_log(path: Path, damaged: Damaged) -> Log:
    """Return a ROS 1 bag as a log of messages."""
    connections = _indexed(path, damaged)
    if not connections:
        for header, data in _records(path, damaged):
            if _number(header, "op") == CONNECTION:
                _connect(header, data, connections, path)
    notes = ("ROS 1 bags carry no checksums: a changed byte cannot be seen",)
    return log_of(path, connections, lambda places: _batches(path, places, damaged), notes, NAME)


def _indexed(path: Path, damaged: Damaged) -> dict[int, Channel]:
    """Return the connections in the bag's index with message counts; empty without an index."""
    connections: dict[int, Channel] = {}
    counts: dict[int, int] = {}
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidRecording(
                "this is no ROS 1 bag of format 2.0",
                argument=str(path),
                got="another first line",
                cure="rosbag migrations bring older formats up to date: rosbag fix",
            )
        size = file.seek(0, 2)
        index = 0
        first = _record(file, path, size, len(MAGIC))
        if first is not None and _number(first[0], "op") == BAG:
            index = _number(first[0], "index_pos")
        if not index:
            damaged(damage(path, "it has no index: the recorder did not close it"))
        at = index or size
        while at < size:
            record = _record(file, path, size, at)
            if record is None:
                damaged(damage(path, f"its index is cut off at byte {at}"))
                break
            header, data, at = record
            if _number(header, "op") == CONNECTION:
                _connect(header, data, connections, path)
            elif _number(header, "op") == CHUNK_INFO:
                for conn, count in struct.iter_unpack("<II", data[: len(data) // 8 * 8]):
                    counts[conn] = counts.get(conn, 0) + count
    return {n: replace(c, count=counts.get(n) if counts else None) for n, c in connections.items()}


def _batches(path: Path, places: Mapping[int, int], damaged: Damaged) -> Iterator[Batch]:
    waiting, size = Gathered(), 0
    for header, data in _records(path, damaged):
        if _number(header, "op") != MESSAGE:
            continue
        k = places.get(_number(header, "conn"))
        if k is None:
            continue
        stamps, messages = waiting[k]
        seconds, rest = struct.unpack("<II", header.get("time", bytes(8))[:8].ljust(8, b"\0"))
        stamps.append(seconds * 1_000_000_000 + rest)
        messages.append(data)
        size += len(data)
        if len(stamps) >= 4096:  # messages of a topic that are handed on at once
            yield k, *waiting.pop(k)
        elif size > BATCH_BYTES:
            yield from waiting.batches()
            waiting, size = Gathered(), 0
    yield from waiting.batches()


def _connect(header: Header, data: bytes, connections: dict[int, Channel], path: Path) -> None:
    more = _fields(data, path)
    connections[_number(header, "conn")] = Channel(
        header.get("topic", b"").decode("utf-8", "replace"),
        full_name(more.get("type", b"").decode("utf-8", "replace")),
        "ros1",
        more.get("message_definition", b"").decode("utf-8", "replace"),
    )


def _fields(data: bytes, path: Path) -> Header:
    fields = {}
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        name, equals, value = data[at + 4 : at + 4 + length].partition(b"=")
        if not equals or at + 4 + length > len(data):
            raise damage(path, "a record's head cannot be read")
        fields[name.decode("ascii", "replace")] = value
        at += 4 + length
    return fields


def _number(header: Header, name: str) -> int:
    return int.from_bytes(header.get(name, b""), "little")


def _record(file: BinaryIO, path: Path, size: int, at: int) -> tuple[Header, bytes, int] | None:
    """Return the record at a byte, and where the next begins; None if it runs out of the file."""
    file.seek(at)
    parts = []
    for _ in range(2):
        head = file.read(4)
        length = struct.unpack("<I", head)[0] if len(head) == 4 else size
        at += 4 + length
        if at > size:
            return None
        if length > MOST_BYTES:
            raise damage(path, f"a record of {length} bytes")
        parts.append(file.read(length))
    return _fields(parts[0], path), parts[1], at


def _records(path: Path, damaged: Damaged) -> Iterator[tuple[Header, bytes]]:
    with path.open("rb", buffering=1 << 20) as file:
        size = file.seek(0, 2)
        at, claimed = len(MAGIC), 0
        while at < size:
            try:
                record = _record(file, path, size, at)
            except InvalidRecording as problem:
                record = None
                damaged(problem)
            if record is None:
                rest = f"cut off at byte {size}: what begins at byte {at} is no whole record"
                damaged(damage(path, rest))
                yield from _begun(file, path, size, at)
                return
            header, data, behind = record
            if _number(header, "op") != CHUNK:
                yield header, data
            elif not data and behind < size and _number(header, "size") == 0:
                # A recorder writes the sizes when it closes a chunk.
                damaged(damage(path, f"the recorder did not close the chunk at byte {at}"))
                yield from _begun(file, path, size, at)
                return
            else:
                own = _number(header, "size")
                claimed += own if own <= MOST_BYTES else 0  # else it is not unpacked
                if is_bomb(size, claimed):
                    damaged(damage(path, f"{size} bytes that claim to hold {claimed}"))
                    return
                try:
                    yield from _inside(header, data, at, path)
                except InvalidRecording as problem:
                    damaged(problem)
            at = behind


def _begun(file: BinaryIO, path: Path, size: int, at: int) -> Iterator[tuple[Header, bytes]]:
    """Yield what can be read of a chunk that begins at a byte and has no end."""
    file.seek(at)
    length = int.from_bytes(file.read(4), "little")
    if length > size - at:
        return
    with suppress(InvalidRecording):  # that it has no end is told already
        header = _fields(file.read(length), path)
        file.seek(4, 1)
        if _number(header, "op") == CHUNK:
            yield from _inside(header, file.read(MOST_BYTES), at, path, complete=False)


def _inside(
    header: Header, data: bytes, at: int, path: Path, complete: bool = True
) -> Iterator[tuple[Header, bytes]]:
    size, where = _number(header, "size"), f"the chunk at byte {at}"
    unpackers: dict[str, Unpack] = {
        "none": lambda data, _: data,
        "bz2": partial(stepwise, bz2.BZ2Decompressor),
        "lz4": partial(stepwise, lambda: library("lz4.frame", path).LZ4FrameDecompressor()),
    }
    packing = header.get("compression", b"none").decode("ascii", "replace")
    data = unpacked(
        packing, data, size, unpackers, lambda why: damage(path, f"{where} {why}"), complete
    )
    chunk, inner, size = BytesIO(data), 0, len(data)
    while inner < size:
        record = _record(chunk, path, size, inner)
        if record is None:
            if not complete:
                return
            raise damage(path, f"a record runs out of {where}")
        header, content, inner = record
        yield header, content
