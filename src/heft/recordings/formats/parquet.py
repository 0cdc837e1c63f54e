"""Parquet files, every page's checksum verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.files import is_bomb, refuse_bomb

from .arrow import written_by
from .format import Format, Say, Write
from .parquet_pages import Chunk, column_chunks, page_sizes
from .table import Damaged, Table, Topics, block_rows, damaged_file, refuse_twice

damage = partial(damaged_file, "Parquet file")

# No file of measurements has more rows than this a byte, however well it is packed.
MOST_ROWS_A_BYTE = 100
LARGE_FILE = 64 * 1024 * 1024  # [bytes]


def parquet_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the numeric columns of a Parquet file.

    Args:
        topics: Must be empty: the format has no topics.

    Raises:
        InvalidRecording: If the file is damaged or cannot be read, or a column name repeats.
        InvalidSetting: If topics are chosen.
    """
    import pyarrow.types

    topics.refuse_for(str(path))
    count, schema = _contents(path)
    refuse_twice(schema.names, path)
    numeric = tuple(
        entry.name
        for entry in schema
        if pyarrow.types.is_floating(entry.type) or pyarrow.types.is_integer(entry.type)
    )

    @cache
    def chunks() -> list[list[Chunk]]:
        try:
            return column_chunks(path)
        except ValueError as problem:
            raise damage(path, str(problem)) from problem

    def read(names: Sequence[str]) -> Iterator[Array]:
        yield from _blocks(path, names, chunks(), damaged)

    others = tuple(n for n in schema.names if n not in numeric)
    return Table(str(path), numeric, count, read, others)


def _opened(path: Path) -> Any:
    """Return a Parquet file opened by pyarrow, to be closed by the caller."""
    import pyarrow.parquet

    # A small file is read without a buffer: a damaged page's claim would become the buffer's size.
    buffer_size = 1 << 20 if path.stat().st_size > LARGE_FILE else 0
    try:
        return pyarrow.parquet.ParquetFile(
            path,
            page_checksum_verification=True,
            pre_buffer=False,  # else the whole file would be read ahead
            buffer_size=buffer_size,
        )
    except (OSError, ValueError, pyarrow.ArrowException) as problem:
        raise InvalidRecording(
            "this is not a readable Parquet file",
            argument=str(path),
            got=str(problem)[:200],
            cure="a Parquet file without its end cannot be read, nor salvaged: "
            "copy it again from where it was recorded",
        ) from problem


def _contents(path: Path) -> tuple[int, Any]:
    """Return the stated number of rows and the schema; refuse more than the file can hold."""
    import pyarrow

    with _opened(path) as file:
        try:
            metadata, schema = file.metadata, file.schema_arrow
            groups = range(metadata.num_row_groups)
            refuse_bomb(path, sum(metadata.row_group(g).total_byte_size for g in groups))
            count = int(metadata.num_rows)
            if not 0 <= count <= MOST_ROWS_A_BYTE * path.stat().st_size:
                raise ValueError(f"it claims {count} rows in {path.stat().st_size} bytes")
        except (OSError, ValueError, pyarrow.ArrowException) as problem:
            raise damage(path, str(problem)[:200]) from problem
    return count, schema


def _blocks(
    path: Path, names: Sequence[str], chunks: Sequence[Sequence[Chunk]], damaged: Damaged
) -> Iterator[Array]:
    """Yield columns in blocks; a row group that cannot be read is reported to `damaged`."""
    import pyarrow

    with _opened(path) as file, path.open("rb") as raw:
        position, most = 0, block_rows(len(names))
        places = {file.schema.column(k).path: k for k in range(len(file.schema))}
        leaves = [places[n] for n in names if n in places]
        size, unpacked = path.stat().st_size, 0
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            try:
                unpacked += sum(sum(page_sizes(raw, chunks[group][k])) for k in leaves)
                if is_bomb(size, unpacked):
                    raise ValueError(f"{size} bytes whose pages claim to hold {unpacked}")
                for batch in file.iter_batches(
                    most, row_groups=[group], columns=list(names), use_threads=False
                ):
                    found = {n: batch.column(batch.schema.get_field_index(n)) for n in names}
                    yield np.stack(
                        [found[n].to_numpy(zero_copy_only=False).astype(float) for n in names], 1
                    )
            except (OSError, ValueError, IndexError, pyarrow.ArrowException) as problem:
                where = f"among rows {position} to {position + rows}: {str(problem)[:160]}"
                damaged(damage(path, where))
            position += rows


def write_parquet(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    """Open a Parquet file with page checksums for writing.

    Args:
        table: The log; its names, not its rows, are used here.

    Returns:
        A context, which gives a function that takes rows, shape (rows, columns).
    """
    import pyarrow.parquet

    return written_by(
        lambda p, s: pyarrow.parquet.ParquetWriter(p, s, write_page_checksum=True), path, table, say
    )


PARQUET = Format("Parquet file", (".parquet", ".pq"), parquet_table, write_parquet)
