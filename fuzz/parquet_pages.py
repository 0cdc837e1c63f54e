"""Pages of a Parquet file that claim another size than they have, in a file that is else sound."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet


def lie_of_a_page(
    path: Path, unpacked: int, packed: int | None = None, body: bytes | None = None
) -> None:
    """Let the first page of a file claim other sizes; the file keeps its length and its foot.

    Args:
        path: The file.
        unpacked: Bytes that the page says that it unpacks to, below 2³¹.
        packed: Bytes that it says that it takes; those that it has if not given.
        body: What it holds instead, no longer than the pages of its column; its own if not given.
    """
    data = path.read_bytes()
    with pyarrow.parquet.ParquetFile(path) as file:
        column = file.metadata.row_group(0).column(0)
    begin = column.data_page_offset
    if column.has_dictionary_page:
        begin = min(begin, column.dictionary_page_offset)
    end = begin + column.total_compressed_size
    # A head begins with three numbers: kind, size unpacked, size packed, each behind its mark.
    kind, at = _number(data, begin + 1)
    _, at = _number(data, at + 1)
    own, at = _number(data, at + 1)
    content = data[at:end] if body is None else _rest_of_head(data, at) + body
    claimed = packed if packed is not None else own if body is None else len(body)
    head = b"".join(b"\x15" + _written(number) for number in (kind, unpacked, claimed))
    pages = (head + content)[: end - begin].ljust(end - begin, b"\0")
    path.write_bytes(data[:begin] + pages + data[end:])


def _rest_of_head(data: bytes, at: int) -> bytes:
    """Return what is left of a plain page's head behind its sizes, up to its end."""
    end = b"\x1c\x00\x00\x00"  # no statistics, and the ends of two structs
    return data[at : data.index(end, at) + len(end)]


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of Thrift's compact protocol, and where the next byte is."""
    found = shift = 0
    while True:
        found |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at


def _written(number: int) -> bytes:
    found, made = (number << 1) ^ (number >> 63), bytearray()
    while found > 0x7F:
        made.append(found & 0x7F | 0x80)
        found >>= 7
    return bytes([*made, found])
