"""Blocks of rows written by pyarrow, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array

from .format import Say, Write, say_lost_epoch
from .table import Table


@contextmanager
def written_by(
    make: Callable[[Path, Any], Any], path: Path, table: Table, say: Say
) -> Iterator[Write]:
    """Open a file of columns for writing with pyarrow.

    Args:
        make: Returns pyarrow's writer for a path and a schema.
    """
    import pyarrow

    say_lost_epoch(table, say)
    schema = pyarrow.schema([(n, pyarrow.float64()) for n in table.columns])
    with make(path, schema) as writer:

        def write(block: Array) -> None:
            arrays = [pyarrow.array(np.ascontiguousarray(c)) for c in block.T]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write
