"""Heads of a Parquet file's pages: what each page says that it unpacks to.

What the file's end says of its columns is no bound: memory is taken for what a page's head says,
and packed zeros fill it. So the heads are read first (parquet.apache.org/docs/file-format, and
Thrift's compact protocol, github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

MOST_PAGE_BYTES = 64 << 20  # writers make pages of a megabyte
HEAD, LONGEST_HEAD = 512, 1 << 20  # [bytes] that are looked at; statistics of texts may be long
UNPACKED, PACKED = 2, 3  # fields of a page's head
STOP, TRUE, FALSE, BYTE, INTEGERS, DOUBLE = 0, 1, 2, 3, (4, 5, 6), 7
BINARY, LIST, SET, STRUCT = 8, 9, 10, 12
DEEPEST = 8


def page_sizes(file: BinaryIO, begin: int, length: int) -> Iterator[int]:
    """Yield the bytes that each page of a column says that it unpacks to.

    Args:
        file: The file.
        begin: Byte where the first page's head begins.
        length: Bytes of all pages with their heads.

    Raises:
        ValueError: If a head is none, or says that its page is larger than any.
    """
    at, end = begin, begin + length
    while at < end:
        fields, size = _head(file, at, end)
        packed, unpacked = fields.get(PACKED, -1), fields.get(UNPACKED, -1)
        if packed < 0 or at + size + packed > end:
            raise ValueError(f"a page at byte {at} runs out of its column")
        if not 0 <= unpacked <= MOST_PAGE_BYTES:
            raise ValueError(f"a page at byte {at} says that it unpacks to {unpacked} bytes")
        yield unpacked
        at += size + packed


def _head(file: BinaryIO, at: int, end: int) -> tuple[dict[int, int], int]:
    """Return the whole numbers of a page's head by field, and its length [bytes]."""
    for most in (HEAD, LONGEST_HEAD):
        file.seek(at)
        walk = _Walk(file.read(min(most, end - at)))
        try:
            return walk.struct(), walk.at
        except IndexError:  # it is longer
            continue
    raise ValueError(f"no page's head at byte {at}")


class _Walk:
    """A walk through a struct in Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found
            if shift > 63:
                raise ValueError("a page's head holds a number without end")

    def integer(self) -> int:
        found = self.varint()
        return (found >> 1) ^ -(found & 1)

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Return the whole numbers of a struct by field; all else is passed over."""
        fields: dict[int, int] = {}
        last = 0
        while (head := self.byte()) != STOP:
            last = last + (head >> 4) if head >> 4 else self.integer()
            if head & 15 in INTEGERS:
                fields[last] = self.integer()
            elif head & 15 not in (TRUE, FALSE):  # which hold nothing
                self.skip(head & 15, depth + 1)
        return fields

    def skip(self, kind: int, depth: int) -> None:
        if depth > DEEPEST:
            raise ValueError("a page's head is too deep")
        if kind in (TRUE, FALSE, BYTE):  # in lists truths take a byte
            self.byte()
        elif kind in INTEGERS:
            self.varint()
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            length = self.varint()  # which moves on
            self.at += length
        elif kind in (LIST, SET):
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            for _ in range(count):
                self.skip(head & 15, depth + 1)
        elif kind == STRUCT:
            self.struct(depth)
        else:
            raise ValueError(f"a page's head holds a field of kind {kind}")
