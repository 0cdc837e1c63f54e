"""Parquet files, every page's checksum verified.

What the file's end says of its columns is no bound: memory is taken for what a page's head says,
and packed zeros fill it. So the heads are read first (parquet.apache.org/docs/file-format, and
Thrift's compact protocol, github.com/apache/thrift, doc/specs/thrift-compact-protocol.md). The end
is read here too: asked for a column's place in a damaged one, pyarrow aborts the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from heft.arrays import Array
from heft.files import is_bomb, refuse_bomb

from .table import (
    Damaged,
    Say,
    Table,
    Write,
    block_rows,
    damaged_file,
    refuse_many,
    refuse_twice,
    unreadable,
    written_by,
)

damage = partial(damaged_file, "Parquet file")
# Pages of a column in a group of rows: byte where the first one's head begins, bytes of all.
Chunk = tuple[int, int]

# No file of measurements has more rows than this a byte, however well it is packed.
MOST_ROWS_A_BYTE = 100
HEAD, LONGEST_HEAD = 512, 1 << 20  # [bytes] that are looked at; statistics of texts may be long
TAIL = 8  # [bytes] behind the file's description: its length, and a mark
STOP, TRUE, FALSE, BYTE, INTEGERS, DOUBLE = 0, 1, 2, 3, (4, 5, 6), 7
BINARY, LISTS, STRUCT = 8, (9, 10), 12


def parquet_table(path: Path, damaged: Damaged) -> Table:
    """Return the numeric columns of a Parquet file; those of a column `x` of lists are `x[0]`, ….

    Lists are as long as the first of their column.

    Raises:
        InvalidRecording: If the file is damaged or cannot be read, or a column name repeats.
    """
    from pyarrow import ArrowException, types

    with _opened(path) as file:
        try:
            metadata, schema = file.metadata, file.schema_arrow
            groups = range(metadata.num_row_groups)
            refuse_bomb(path, sum(metadata.row_group(g).total_byte_size for g in groups))
            count = int(metadata.num_rows)
            if not 0 <= count <= MOST_ROWS_A_BYTE * path.stat().st_size:
                raise ValueError(f"it claims {count} rows in {path.stat().st_size} bytes")
        except (OSError, ValueError, ArrowException) as problem:
            raise damage(path, str(problem)[:200]) from problem
    refuse_twice(schema.names, path)
    kinds = {e.name: e.type.value_type if _is_list(e.type) else e.type for e in schema}
    numeric = [n for n, k in kinds.items() if types.is_floating(k) or types.is_integer(k)]
    lists = [n for n in numeric if _is_list(schema.field(n).type)]

    @cache
    def chunks() -> list[list[Chunk]]:
        try:
            return column_chunks(path)
        except ValueError as problem:
            raise damage(path, str(problem)) from problem

    first = next(_blocks(path, dict.fromkeys(lists), chunks(), damaged), []) if lists else []
    widths = {n: m.shape[1] for n, m in zip(lists, first, strict=False)}
    refuse_many(sum(widths.values()), path)
    columns = {
        f"{n}[{k}]" if n in lists else n: (n, k)
        for n in numeric
        for k in range(widths.get(n, 0 if n in lists else 1))
    }
    refuse_twice([*columns], path)

    def read(names: Sequence[str]) -> Iterator[Array]:
        asked = {columns[name][0]: widths.get(columns[name][0]) for name in names}
        at = {n: k for k, n in enumerate(asked)}
        for block in _blocks(path, asked, chunks(), damaged):
            yield np.stack([block[at[columns[n][0]]][:, columns[n][1]] for n in names], 1)

    others = tuple(n for n in schema.names if n not in numeric)
    return Table(str(path), tuple(columns), count, read, others)


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _matrix(column: Any, width: int | None) -> Array:
    """Return a column, shape (rows, 1), or one of lists, shape (rows, their length)."""
    if not _is_list(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False).astype(float)[:, None])
    values = column.flatten().to_numpy(zero_copy_only=False).astype(float)
    lengths = set(column.value_lengths().to_pylist()) | ({width} if width is not None else set())
    if len(lengths) > 1 or None in lengths:
        raise ValueError("its lists differ in length")
    return np.asarray(values.reshape(len(column), len(values) // max(len(column), 1)))


def _opened(path: Path) -> Any:
    """Return a Parquet file opened by pyarrow, to be closed by the caller."""
    import pyarrow.parquet

    # A small file is read without a buffer: a damaged page's claim would become the buffer's size.
    buffer_size = 1 << 20 if path.stat().st_size > 64 << 20 else 0
    try:
        return pyarrow.parquet.ParquetFile(
            path,
            page_checksum_verification=True,
            pre_buffer=False,  # else the whole file would be read ahead
            buffer_size=buffer_size,
        )
    except (OSError, ValueError, pyarrow.ArrowException) as problem:
        raise unreadable("Parquet file", path, problem) from problem


def _blocks(
    path: Path,
    widths: Mapping[str, int | None],
    chunks: Sequence[Sequence[Chunk]],
    damaged: Damaged,
) -> Iterator[list[Array]]:
    """Yield columns in blocks; a row group that cannot be read is reported to `damaged`.

    Args:
        widths: Length that lists must have, by name of the column; None if any is right.
    """
    import pyarrow

    with _opened(path) as file, path.open("rb") as raw:
        position, most = 0, block_rows(sum(width or 1 for width in widths.values()))
        places = {file.schema.column(k).path: k for k in range(len(file.schema))}
        # A list's numbers are called `NAME.list.element`, the last by its writer.
        leaves = [k for n, k in places.items() if n in widths or n.rsplit(".", 2)[0] in widths]
        size, unpacked = path.stat().st_size, 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            try:
                unpacked += sum(sum(page_sizes(raw, chunks[group][k])) for k in leaves)
                if is_bomb(size, unpacked):
                    raise ValueError(f"{size} bytes whose pages claim to hold {unpacked}")
                for batch in file.iter_batches(
                    most, row_groups=[group], columns=list(widths), use_threads=False
                ):
                    columns = {n: batch.column(batch.schema.get_field_index(n)) for n in widths}
                    yield [_matrix(columns[n], width) for n, width in widths.items()]
            except (OSError, ValueError, IndexError, pyarrow.ArrowException) as problem:
                where = f"among rows {position} to {position + rows}: {str(problem)[:160]}"
                damaged(damage(path, where))
            position += rows


def write_parquet(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    """Open a Parquet file with page checksums for writing."""
    import pyarrow.parquet

    return written_by(
        lambda p, s: pyarrow.parquet.ParquetWriter(p, s, write_page_checksum=True), path, table, say
    )


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
    return begin, int(column[7]) if int(column[5]) else 0


def page_sizes(file: BinaryIO, chunk: Chunk) -> Iterator[int]:
    """Yield the unpacked size [bytes] that each page of a column states.

    Raises:
        ValueError: If a head is none, or says that its page is larger than any.
    """
    at, end = chunk[0], sum(chunk)
    while at < end:
        fields, size = _head(file, at, end)
        unpacked, packed = fields.get(2), fields.get(3)
        if not isinstance(packed, int) or not 0 <= packed <= end - at - size:
            raise ValueError(f"a page at byte {at} runs out of its column")
        # Writers make pages of a megabyte: 64 are an error.
        if not isinstance(unpacked, int) or not 0 <= unpacked <= (64 << 20):
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
        value = self.data[self.at]
        self.at += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number without end")
        return value | byte << shift

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

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
        if depth > 16:
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
