"""MCAP files (mcap.dev/spec), every checksum verified.

The file is walked record by record, so that damage is found at its byte and memory is one chunk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from heft.errors import InvalidRecording
from heft.files import is_bomb

from .message_log import (
    BATCH_BYTES,
    EPOCH,
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
from .packed import unzstd
from .table import Damaged, damaged_file, library

NAME = "MCAP file"
damage = partial(damaged_file, NAME)

MAGIC = b"\x89MCAP0\r\n"
FOOTER = 1 + 8 + 8 + 8 + 4  # its bytes
FOOT, SCHEMA, CHANNEL, MESSAGE, CHUNK, STATISTICS, DATA_END = 2, 3, 4, 5, 6, 11, 15
BEGUN = -CHUNK  # a chunk that is cut off
TEXTS = dict.fromkeys(("ros1msg", "ros2msg", "ros2idl"), ("utf-8", "replace"))
TEXTS["protobuf"] = ("latin-1", "strict")  # no text, but bytes: see `Channel`
BATCH = 4096  # messages of a file without chunks


@dataclass(frozen=True)
class _Index:
    channels: dict[int, Channel]
    count: int | None
    end: int  # where the data end


def mcap_log(path: Path, damaged: Damaged) -> Log:
    """Return an MCAP file as a log of messages.

    Raises:
        InvalidRecording: If it is no MCAP file.
    """
    library("mcap", path)
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidRecording(
                "this is no MCAP file", argument=str(path), got="other bytes at its beginning"
            )
        index = None
        try:
            index = _index(file, path)
        except InvalidRecording as problem:
            damaged(problem)
    if index is None or not index.channels:
        index = _scanned(path, damaged, index)

    def walk(chosen: Mapping[int, int]) -> Iterator[Batch]:
        counted = 0
        loose: list[bytes] = []  # messages of a file without chunks
        for opcode, content in _data(path, index.end, damaged):
            if opcode in (CHUNK, BEGUN):
                try:
                    records = _unpacked(content, path, opcode == CHUNK)
                except InvalidRecording as problem:
                    damaged(problem)
                    continue
                counted += yield from _messages(records, chosen, path, damaged)
            elif opcode == MESSAGE:
                loose.append(struct.pack("<BQ", MESSAGE, len(content)) + content)
                if len(loose) == BATCH or len(content) > BATCH_BYTES // BATCH:
                    counted += yield from _messages(b"".join(loose), chosen, path, damaged)
                    loose.clear()
        counted += yield from _messages(b"".join(loose), chosen, path, damaged)
        if index.count is not None and counted != index.count:
            lost = f"{counted} messages where its summary says {index.count}"
            damaged(damage(path, lost))

    return log_of(path, index.channels, walk, kind=NAME)


def _index(file: BinaryIO, path: Path) -> _Index:
    size = file.seek(0, 2)
    file.seek(max(size - FOOTER - len(MAGIC), 0))
    tail = file.read()
    if not tail.endswith(MAGIC) or len(tail) < FOOTER + len(MAGIC) or tail[0] != FOOT:
        raise damage(
            path,
            f"no footer at the end of its {size} bytes: the recorder did not close it, or it "
            "was cut off",
        )
    start, _, checksum = struct.unpack_from("<QQI", tail, 9)
    end = (start or size - len(tail)) - 9 - 4  # before the record of the data's end
    if not len(MAGIC) <= end <= size - len(tail) - 9 - 4:
        raise damage(path, f"the footer says that the summary begins at byte {start} of {size}")
    if not start:
        return _Index({}, None, end)
    file.seek(start)
    summary = file.read(size - len(MAGIC) - start)
    if checksum and zlib.crc32(summary[:-4]) != checksum:
        raise damage(path, f"the checksum of the summary, at byte {start}, is wrong")
    schemas: dict[int, Any] = {}
    channels: dict[int, Any] = {}
    counts: dict[int, int] = {}
    total = None
    for opcode, content in _split(summary, path, start):
        if opcode in (SCHEMA, CHANNEL):
            _note(opcode, content, schemas, channels, path)
        elif opcode == STATISTICS:
            statistics = _read("Statistics", content, path)
            total, counts = statistics.message_count, statistics.channel_message_counts
    return _Index(_channels(schemas, channels, counts, total), total, end)


def _scanned(path: Path, damaged: Damaged, index: _Index | None) -> _Index:
    """Return the channels of a file without a summary, from all of its data."""
    schemas: dict[int, Any] = {}
    channels: dict[int, Any] = {}
    end = index.end if index else path.stat().st_size
    for opcode, content in _data(path, end, damaged):
        if opcode in (CHUNK, BEGUN):
            try:
                for inner, part in _split(_unpacked(content, path, opcode == CHUNK), path):
                    if inner in (SCHEMA, CHANNEL):
                        _note(inner, part, schemas, channels, path)
            except InvalidRecording as problem:
                damaged(problem)
        elif opcode in (SCHEMA, CHANNEL):
            _note(opcode, content, schemas, channels, path)
    return _Index(_channels(schemas, channels, {}, None), None, end)


def _read(kind: str, content: bytes, path: Path) -> Any:
    records = library("mcap.records", path)
    stream = library("mcap.data_stream", path).ReadDataStream(BytesIO(content))
    try:
        return getattr(records, kind).read(stream)
    except Exception as problem:  # what a file says: anything may be in there
        raise damage(path, f"a record '{kind}' cannot be read: {str(problem)[:80]}") from problem


def _note(
    opcode: int, content: bytes, schemas: dict[int, Any], channels: dict[int, Any], path: Path
) -> None:
    record = _read("Schema" if opcode == SCHEMA else "Channel", content, path)
    (schemas if opcode == SCHEMA else channels)[record.id] = record


def _channels(
    schemas: dict[int, Any], channels: dict[int, Any], counts: dict[int, int], total: int | None
) -> dict[int, Channel]:
    made = {}
    for number, channel in channels.items():
        schema = schemas.get(channel.schema_id)
        text = TEXTS.get(schema.encoding) if schema else None
        epoch = channel.metadata.get(EPOCH, "")
        made[number] = Channel(
            channel.topic,
            full_name(schema.name) if schema else "unknown",
            channel.message_encoding,
            schema.data.decode(*text) if schema and text else "",
            bool(schema and schema.encoding == "ros2idl"),
            counts.get(number, 0) if total is not None and counts else None,
            int(epoch) if epoch.lstrip("-").isdecimal() and len(epoch) < 20 else None,
        )
    return made


def _data(path: Path, end: int, damaged: Damaged) -> Iterator[tuple[int, bytes]]:
    """Yield the records that hold messages, schemas and channels, and verify the data's checksum.

    A record whose length runs out of the file ends the walk: what is behind it cannot be found.
    """
    with path.open("rb", buffering=1 << 20) as file:
        size = file.seek(0, 2)
        file.seek(max(end, 0))
        closing = file.read(13)
        stated = 0
        if len(closing) == 13 and closing[0] == DATA_END:
            (stated,) = struct.unpack_from("<I", closing, 9)
        file.seek(0)
        running = zlib.crc32(file.read(len(MAGIC)))
        at, unpacked = len(MAGIC), 0
        while at < end:
            head = file.read(9)
            opcode, length = struct.unpack("<BQ", head) if len(head) == 9 else (0, size)
            if opcode in (DATA_END, FOOT):
                break
            if at + 9 + length > end or opcode == 0:
                rest = f"cut off at byte {size}: what begins at byte {at} is no whole record"
                damaged(damage(path, rest))
                if opcode == CHUNK:
                    yield BEGUN, file.read(min(end - at - 9, MOST_BYTES))
                return
            if opcode not in (SCHEMA, CHANNEL, MESSAGE, CHUNK):
                if stated:
                    running = _passed(file, length, zlib.crc32(head, running))
                else:
                    file.seek(length, 1)
            elif length > MOST_BYTES:
                damaged(damage(path, f"a record of {length} bytes at byte {at}"))
                file.seek(length, 1)
                stated = 0
            else:
                content = file.read(length)
                if len(content) < length:
                    damaged(damage(path, f"cut off at byte {at}"))
                    return
                if stated:
                    running = zlib.crc32(content, zlib.crc32(head, running))
                if opcode == CHUNK and len(content) >= 24:
                    claimed = struct.unpack_from("<Q", content, 16)[0]
                    unpacked += claimed if claimed <= MOST_BYTES else 0  # else it is not unpacked
                    if is_bomb(size, unpacked):
                        damaged(damage(path, f"{size} bytes that claim to hold {unpacked}"))
                        return
                yield opcode, content
            at += 9 + length
        if stated and running != stated:
            damaged(damage(path, "the checksum of all of its data is wrong"))


def _passed(file: BinaryIO, length: int, running: int) -> int:
    """Skip `length` bytes of the file; return the CRC-32 continued over them."""
    while length > 0 and (piece := file.read(min(length, 1 << 20))):
        running = zlib.crc32(piece, running)
        length -= len(piece)
    return running


def _split(content: bytes, path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 9 <= len(content):
        opcode, length = struct.unpack_from("<BQ", content, at)
        if at + 9 + length > len(content):
            raise damage(path, f"a record at byte {offset + at} is longer than what holds it")
        yield opcode, content[at + 9 : at + 9 + length]
        at += 9 + length


def _unpacked(content: bytes, path: Path, complete: bool = True) -> bytes:
    """Return the records of a chunk, or the whole ones at the beginning of one that is cut off."""
    if len(content) < 40:
        raise damage(path, "a chunk without its head")
    begin, until, size, checksum, name_length = struct.unpack_from("<QQQII", content)
    where = f"the chunk of the stamps {begin} to {until}"
    name = content[32 : 32 + name_length].decode("ascii", "replace")
    unpackers: dict[str, Unpack] = {
        "": lambda data, _: data,
        "zstd": partial(_zstd if complete else _zstd_begun, path),
        "lz4": partial(stepwise, lambda: library("lz4.frame", path).LZ4FrameDecompressor()),
    }
    data = content[32 + name_length + 8 :]
    records = unpacked(
        name, data, size, unpackers, lambda why: damage(path, f"{where} {why}"), complete
    )
    if not complete:
        at = behind = 0
        while (at := behind) + 9 <= len(records):
            behind = at + 9 + int.from_bytes(records[at + 1 : at + 9], "little")
            if behind > len(records):
                break
        return records[:at]
    if checksum and zlib.crc32(records) != checksum:
        raise damage(path, f"the checksum of {where} is wrong; {len(content)} bytes")
    return records


def _zstd(path: Path, data: bytes, most: int) -> bytes:
    zstandard = library("zstandard", path)
    if zstandard.frame_content_size(data) >= most:
        raise ValueError("it unpacks to more than it says")
    return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=max(most - 1, 1)))


def _zstd_begun(path: Path, data: bytes, most: int) -> bytes:
    content = bytearray()
    with suppress(ValueError):  # where the data end
        for piece in unzstd(BytesIO(data), path):
            content += piece
            if len(content) > most:
                break
    return bytes(content)


def _messages(
    records: bytes, chosen: Mapping[int, int], path: Path, damaged: Damaged
) -> Generator[Batch, None, int]:
    """Yield the messages among records by channel; return how many messages there are in all.

    `chosen` says which of the file's channels are wanted, and by which number.
    """
    by_channel = Gathered()
    total = 0
    at, end, since = 0, len(records), 0
    head = struct.Struct("<BQHIQ").unpack_from
    while at + 9 <= end:
        if records[at] != MESSAGE:
            at += 9 + struct.unpack_from("<Q", records, at + 1)[0]
            continue
        if at + 31 > end:
            break
        _, length, channel, _, logged = head(records, at)
        behind = at + 9 + length
        if behind > end or length < 22:
            break
        if logged >> 63:
            damaged(damage(path, f"a message has a time of {logged} ns, after the year 2262"))
            return total
        total += 1
        k = chosen.get(channel)
        if k is not None:
            stamps, messages = by_channel[k]
            stamps.append(logged)
            messages.append(records[at + 31 : behind])
        at = behind
        if at - since > BATCH_BYTES:
            yield from by_channel.batches()
            by_channel, since = Gathered(), at
    yield from by_channel.batches()
    if at != end:
        damaged(damage(path, f"a message runs out of its chunk, at byte {at} of {end}"))
    return total
