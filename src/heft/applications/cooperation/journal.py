"""What a node knows, on disk: windows as they came, appended, so that it goes on after any stop.

Entries are messages as neighbours are sent, each with its length and checksum, and are read by the
same decoder: whoever may write there can make right checksums, so nothing is believed for them. The
last entry of a killed node may be cut short, and is dropped. Own windows are written before they
are told, so that no number ever stands for two windows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from heft.errors import InvalidSetting
from heft.files import put, require_regular, require_writable, workshop

from .node import CooperativeNode
from .wire import LARGEST, BadMessage, decoded, encoded

READER = -1  # number by which a replica knows the file, as if it were a neighbour
ENTRY = struct.Struct("<II")  # length, CRC-32
BYTES_OF_WINDOW = 204
LARGEST_FILE = 2**30  # bytes
SPARE = 3.0  # times the size of what is kept, from which the file is written anew


class Journal:
    """File of the windows that a node holds, from which it resumes."""

    def __init__(self, path: Path, node: CooperativeNode) -> None:
        require_writable(path)
        self.path, self.node = path.resolve(), node
        self._file: BinaryIO | None = None
        self._size = 0
        kept = node.settings.replica.history * node.count * BYTES_OF_WINDOW
        self._most = SPARE * kept

    def go_on(self) -> int:
        """Restore the node's windows from the file; return their number.

        Raises:
            InvalidSetting: If the file is damaged, or of another team or robot.
        """
        if not self.path.exists() or (self.path.is_file() and not self.path.stat().st_size):
            return 0
        require_regular(self.path, "file", InvalidSetting)
        if self.path.stat().st_size > LARGEST_FILE:
            raise self._refused("it is too large")
        data = self.path.read_bytes()
        at = windows = 0
        while at + ENTRY.size <= len(data):
            length, checksum = ENTRY.unpack_from(data, at)
            begin = at + ENTRY.size
            if length > LARGEST:
                raise self._refused(f"its entry at byte {at} is none")
            if begin + length > len(data):
                break  # the node was killed while it wrote
            entry = data[begin : begin + length]
            if zlib.crc32(entry) != checksum:
                raise self._refused(f"its entry at byte {at} is not what was written")
            try:
                message = decoded(entry, self.node.own, self.node.team, self.node.count)
            except BadMessage as problem:
                raise self._refused(f"its entry at byte {at}: {problem}") from problem
            self.node.go_on_from(message)
            windows += len(message.windows)
            at = begin + length
        if at < len(data):
            with self.path.open("r+b") as file:
                file.truncate(at)
        replica = self.node.replica
        replica.acknowledge(READER, {o: replica.count(o) for o in replica.windows})
        return windows

    def write(self) -> None:
        """Append the windows that the file lacks.

        Raises:
            OSError: If it cannot be written.
        """
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
            self._size = self._file.tell()
        for entry in self._new():
            self._size += self._file.write(entry)
        if self._size > self._most:
            self._write_anew()

    def _new(self) -> Iterator[bytes]:
        replica = self.node.replica
        while (message := replica.message(READER)).windows:
            data = encoded(message, self.node.own, self.node.team)
            yield ENTRY.pack(len(data), zlib.crc32(data)) + data
            have = {o: min(n + 1, replica.count(o)) for o, n, _ in message.windows}
            replica.acknowledge(READER, have)

    def _write_anew(self) -> None:
        """Rewrite the file with only the windows that the node still holds."""
        self.close()
        self.node.replica.forget_neighbour(READER)
        whole = b"".join(self._new())
        with workshop(self.path) as folder:
            new = folder / "journal"
            new.write_bytes(whole)
            put(new, self.path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _refused(self, reason: str) -> InvalidSetting:
        return InvalidSetting(
            "nothing can be resumed from this file",
            argument=f"--checkpoint {self.path}",
            got=reason,
            cure="name another file, or remove this one to begin anew",
        )
