"""Logs of messages packed by Zstandard: whole files, as `x_0.db3.zstd`, or message by message."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from heft.errors import InvalidRecording, spelt
from heft.files import is_bomb

from .message_log import BATCH_BYTES, MOST_BYTES, Batch, Log
from .table import Damaged, damaged_file, library

ENDINGS = (".zstd", ".zst")
FRAME = b"\x28\xb5\x2f\xfd"  # a packed message's first bytes; one of ROS 2 begins with a zero


def packed_log(
    openers: Mapping[str, Callable[[Path, Damaged], Log]], path: Path, damaged: Damaged
) -> Log:
    """Return a packed file as the log in it, unpacked beside other temporary files while in use.

    Args:
        openers: How what is inside is opened, by its ending.

    Raises:
        InvalidRecording: If it holds no log of messages, or is damaged.
    """
    inner = Path(path.stem)
    if inner.suffix.lower() not in openers:
        raise InvalidRecording(
            f"of packed files, those of '{inner.suffix}' are not read",
            argument=str(path),
            valid=[f"{ending}{path.suffix}" for ending in openers],
            cure=f"unpack it: zstd -d {spelt(path)}",
        )
    folder = tempfile.mkdtemp(prefix="heft-packed-")
    place = Path(folder) / inner

    def of_packed(problem: InvalidRecording) -> InvalidRecording:
        """Return what is wrong with the unpacked file as being so of the packed one."""
        texts = {
            name: text.replace(str(place), spelt(path) if name == "cure" else str(path))
            for name, text in vars(problem).items()
            if isinstance(text, str)
        }
        return InvalidRecording(**(vars(problem) | texts))

    def batches(wanted: Collection[int]) -> Iterator[Batch]:
        try:
            yield from log.batches(wanted)
        except InvalidRecording as problem:
            raise of_packed(problem) from problem

    weakref.finalize(batches, shutil.rmtree, folder, ignore_errors=True)
    _unpack(path, place, damaged)
    try:
        log = openers[inner.suffix.lower()](place, lambda problem: damaged(of_packed(problem)))
    except InvalidRecording as problem:
        raise of_packed(problem) from problem
    return replace(log, path=str(path), batches=batches)


def _unpack(path: Path, place: Path, damaged: Damaged) -> None:
    size, written, why = path.stat().st_size, 0, ""
    with path.open("rb") as packed, place.open("wb") as file:
        try:
            for piece in unzstd(packed, path):
                written += len(piece)
                if is_bomb(size, written):
                    raise ValueError(f"{size} bytes that hold more than {written}")
                file.write(piece)
        except InvalidRecording:
            raise
        except OSError as problem:
            raise InvalidRecording(
                "the log cannot be unpacked",
                argument=str(path),
                got=problem.strerror,
                cure=f"make room in {spelt(place.parent.parent)}, or name another place: TMPDIR",
            ) from problem
        except Exception as problem:  # the library has errors of its own
            why = f"behind {written} unpacked bytes: {str(problem)[:80]}"
    if why:
        damaged(damaged_file("packed file", path, why))


def unzstd(file: BinaryIO, path: object) -> Iterator[bytes]:
    """Yield what data packed by Zstandard hold, a piece at a time.

    Raises:
        ValueError: Behind the last piece, if the data end before they are whole.
    """
    packer = library("zstandard", path).ZstdDecompressor()
    unpacker, data = None, b""
    while data := data or file.read(1024):  # each of which holds some 32 MB at most
        unpacker = unpacker or packer.decompressobj()
        yield unpacker.decompress(data)
        data = b""
        if unpacker.eof:
            data, unpacker = unpacker.unused_data, None
    if unpacker:
        raise ValueError("it is cut off")


def unpacking(log: Log, size: int, damaged: Damaged) -> Log:
    """Return a log each of whose messages is unpacked, if it is packed.

    Args:
        size: Of its file [bytes], against which is held what messages unpack to.
    """

    def batches(wanted: Collection[int]) -> Iterator[Batch]:
        unpacked = since = 0
        for channel, logged, messages in log.batches(wanted):
            if not any(m.startswith(FRAME) for m in messages):
                yield channel, logged, messages
                continue
            stamps, contents = list[int](), list[bytes]()
            for stamp, message in zip(logged, messages, strict=True):
                try:
                    contents.append(_message(message, log.path))
                except InvalidRecording:
                    raise
                except Exception as problem:  # the library has errors of its own
                    why = f"a message cannot be unpacked: {str(problem)[:80]}"
                    damaged(damaged_file(log.kind, log.path, why))
                    continue
                stamps.append(stamp)
                unpacked += len(contents[-1])
                if is_bomb(size, unpacked):
                    why = f"{size} bytes whose messages unpack to more than {unpacked}"
                    damaged(damaged_file(log.kind, log.path, why))
                    return
                if unpacked - since > BATCH_BYTES:
                    yield channel, stamps, contents
                    stamps, contents, since = [], [], unpacked
            yield channel, stamps, contents

    return replace(log, batches=batches)


def _message(message: bytes, path: str) -> bytes:
    if not message.startswith(FRAME):
        return message
    zstandard = library("zstandard", path)
    if zstandard.frame_content_size(message) > MOST_BYTES:
        raise ValueError("it says that it is longer than any")
    return bytes(zstandard.ZstdDecompressor().decompress(message, max_output_size=BATCH_BYTES))
