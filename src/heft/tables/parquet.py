"""Parquet files, every page's checksum verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidRecording
from ..inertia import Array
from . import table
from .table import Damaged, Table, Topics, damage
from .text import refuse_twice


def parquet_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the columns of numbers of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    topics.refuse_for(str(path))

    def open_file() -> Any:
        try:
            return pyarrow.parquet.ParquetFile(
                path, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
            )  # else the whole file would be read ahead
        except (OSError, pyarrow.ArrowException) as problem:
            raise InvalidRecording(
                "this is not a readable Parquet file",
                argument=str(path),
                got=str(problem)[:200],
                cure="a Parquet file without its end cannot be read, nor salvaged: "
                "copy it again from where it was recorded",
            ) from problem

    try:
        schema = open_file().schema_arrow
    except UnicodeDecodeError as problem:
        raise damage(path, str(problem)) from problem
    refuse_twice(schema.names, path)
    numeric = []
    for entry in schema:
        kind = entry.type
        if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind):
            numeric.append(entry.name)

    def read(names: Sequence[str]) -> Iterator[Array]:
        with open_file() as file:
            groups = range(file.metadata.num_row_groups)
            position = 0
            for group in groups:
                rows = file.metadata.row_group(group).num_rows
                try:
                    for batch in file.iter_batches(
                        table.BLOCK_ROWS, row_groups=[group], columns=list(names), use_threads=False
                    ):
                        found = {n: batch.column(batch.schema.get_field_index(n)) for n in names}
                        yield np.stack(
                            [found[n].to_numpy(zero_copy_only=False).astype(float) for n in names],
                            1,
                        )
                except (OSError, pyarrow.ArrowException) as problem:
                    where = f"among rows {position} to {position + rows}: {str(problem)[:160]}"
                    damaged(damage(path, where))
                position += rows

    with open_file() as file:
        count = int(file.metadata.num_rows)
    others = tuple(n for n in schema.names if n not in numeric)
    return Table(str(path), tuple(numeric), count, read, others)
