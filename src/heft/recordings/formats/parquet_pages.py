"""Heads of a Parquet file's pages: what each page says that it unpacks to.

What the file's end says of its columns is no bound: memory is taken for what a page's head says,
and packed zeros fill it. So the heads are read first (parquet.apache.org/docs/file-format, and
Thrift's compact protocol, github.com/apache/thrift, doc/specs/thrift-compact-protocol.md). The end
is read here too: asked for a column's place in a damaged one, pyarrow aborts the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

MOST_PAGE_BYTES = 64 << 20  # writers make pages of a megabyte
HEAD, LONGEST_HEAD = 512, 1 << 20  # [bytes] that are looked at; statistics of texts may be long
TAIL = 8  # [bytes] behind the file's description: its length, and a mark
STOP, TRUE, FALSE, BYTE, INTEGERS, DOUBLE = 0, 1, 2, 3, (4, 5, 6), 7
BINARY, LISTS, STRUCT = 8, (9, 10), 12
DEEPEST = 16


@dataclass(frozen=True)
class Chunk:
    """Pages of a column in a group of rows."""

    begin: int  # byte where the first page's head begins
    length: int  # bytes of all pages with their heads


def column_chunks(path: Path) -> list[list[Chunk]]:
    """Return the chunks of each group of rows, in the order of columns.

    Raises:
        ValueError: If its end does not say where they are.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - TAIL, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - TAIL - length, 0))
        try:
            groups = _Walk(file.read(length)).struct()[4]  # numbers of fields: parquet.thrift
            return [[_chunk(column[3]) for column in group[1]] for group in groups]
        except (LookupError, TypeError, AttributeError) as problem:
            raise ValueError("its end does not say where columns are") from problem


def _chunk(column: dict[int, Any]) -> Chunk:
    begin, dictionary = int(column[9]), int(column.get(11, 0))
    if 0 < dictionary < begin:
        begin = dictionary
    # Of a column without values no page is read.
    return Chunk(begin, int(column[7]) if int(column[5]) else 0)


def page_sizes(file: BinaryIO, chunk: Chunk) -> Iterator[int]:
    """Yield the unpacked size [bytes] that each page of a column states.

    Raises:
        ValueError: If a head is none, or says that its page is larger than any.
    """
    at, end = chunk.begin, chunk.begin + chunk.length
    while at < end:
        fields, size = _head(file, at, end)
        unpacked, packed = fields.get(2), fields.get(3)
        if not isinstance(packed, int) or not 0 <= packed <= end - at - size:
            raise ValueError(f"a page at byte {at} runs out of its column")
        if not isinstance(unpacked, int) or not 0 <= unpacked <= MOST_PAGE_BYTES:
            raise ValueError(f"a page at byte {at} says that it unpacks to {unpacked} bytes")
        yield unpacked
        at += size + packed


def _head(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header by number, and the header's length [bytes]."""
    for most in (HEAD, LONGEST_HEAD):
        file.seek(at)
        walk = _Walk(file.read(min(most, end - at)))
        try:
            return walk.struct(), walk.at
        except IndexError:  # it is longer
            continue
    raise ValueError(f"no page's head at byte {at}")


class _Walk:
    """Reader of structs in Thrift's compact protocol; `IndexError` where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def varint(self) -> int:
        found = shift = 0
        while (byte := self.byte()) >= 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number without end")
        return found | byte << shift

    def integer(self) -> int:
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError
        self.at += count
        return self.data[self.at - count : self.at]

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        last = 0
        while (head := self.byte()) != STOP:
            last = last + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            fields[last] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind, depth + 1)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("it is too deep")
        if kind in (TRUE, FALSE, BYTE):  # in lists truths take a byte
            return self.byte()
        if kind in INTEGERS:
            return self.integer()
        if kind == DOUBLE:
            return self.bytes(8)
        if kind == BINARY:
            return self.bytes(self.varint())
        if kind in LISTS:
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            return [self.value(head & 15, depth + 1) for _ in range(count)]
        if kind == STRUCT:
            return self.struct(depth)
        raise ValueError(f"a field of kind {kind}")
