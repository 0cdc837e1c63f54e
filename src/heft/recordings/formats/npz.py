"""NPZ files: named arrays of numbers, read whole into memory; nothing is unpickled."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.files import UNREADABLE, read_arrays

from .table import (
    Damaged,
    Say,
    Table,
    Write,
    damaged_file,
    refuse,
    refuse_many,
    say_lost_epoch,
    unreadable,
)


def npz_table(path: Path, damaged: Damaged) -> Table:
    """Return the arrays of an NPZ file; the columns of a 2-D array `x` are `x[0]`, `x[1]`, ….

    Raises:
        InvalidRecording: If it is no readable NPZ file, or its arrays differ in length.
    """

    def lost(name: str, why: Exception) -> None:
        damaged(damaged_file("NPZ file", path, f"array '{name}': {why}"))

    try:
        arrays = read_arrays(path, None if damaged is refuse else lost)
        if not arrays and damaged is not refuse:
            raise ValueError("none of its arrays can be read")
    except UNREADABLE as problem:
        is_cut = "no zip archive" in str(problem)
        raise unreadable("NPZ file", path, problem, is_cut) from problem
    return arrays_table(arrays, (), path)


def arrays_table(arrays: Mapping[str, NDArray[Any]], others: Sequence[str], path: Path) -> Table:
    """Return arrays as a table; `others` are names of what else is in the file.

    Raises:
        InvalidRecording: If they have too many columns.
    """
    columns: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            continue
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            refuse_many(array.shape[1], path)
            for k in range(array.shape[1]):
                columns[f"{name}[{k}]"] = array[:, k]
    unused = tuple(n for n in arrays if n not in columns and f"{n}[0]" not in columns)
    return replace(Table.of_columns(columns, path), others=(*unused, *others))


@contextmanager
def write_npz(path: Path, table: Table, say: Say) -> Iterator[Write]:
    """Open an NPZ file for writing.

    Each column goes to a temporary file first, since the number of rows is known only in the end.
    """
    say_lost_epoch(table, say)
    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        names = [Path(folder) / str(k) for k in range(len(table.columns))]
        with ExitStack() as stack:
            files = [stack.enter_context(n.open("wb")) for n in names]

            def write(block: Array) -> None:
                for file, column in zip(files, block.T, strict=True):
                    file.write(np.ascontiguousarray(column, dtype="<f8").tobytes())

            yield write
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for column, name in zip(table.columns, names, strict=True):
                shape = (name.stat().st_size // 8,)
                head = {"descr": "<f8", "fortran_order": False, "shape": shape}
                entry = zipfile.ZipInfo(f"{column}.npy")  # no time of writing: the same bytes again
                with archive.open(entry, "w", force_zip64=True) as target, name.open("rb") as file:
                    np.lib.format.write_array_header_1_0(target, head)
                    shutil.copyfileobj(file, target, 1 << 20)
