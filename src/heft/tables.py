"""Files of numbers in columns: CSV, Parquet, NPZ, read in blocks of bounded memory.

Nothing is unpickled; damage is refused by name.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidRecording
from .files import UNREADABLE, read_arrays, refuse_bomb, require_regular
from .inertia import Array

BLOCK_ROWS = 65_536
MOST_COLUMNS = 10_000
# No file of measurements has more rows than this a byte, however well it is packed.
MOST_ROWS_A_BYTE = 100
LARGE_FILE = 64 * 1024 * 1024  # [bytes]


@dataclass(frozen=True)
class Table:
    """A file as columns of numbers, read in blocks.

    Attributes:
        path: The file.
        columns: Names of its columns.
        rows: How many rows it has, or None where only reading tells.
        read: `read(names)` yields arrays of shape (rows, names), in order.
        others: Names of columns that do not hold numbers.
    """

    path: str
    columns: tuple[str, ...]
    rows: int | None
    read: Callable[[Sequence[str]], Iterator[Array]]
    others: tuple[str, ...] = ()


def _npz_table(path: Path) -> Table:
    try:
        arrays = read_arrays(path)
    except UNREADABLE as problem:
        hint = None
        if "pickle" in str(problem):
            hint = "save the arrays as plain numbers; objects are never unpickled"
        raise InvalidRecording(
            "this is not a readable NPZ file", argument=str(path), got=str(problem)[:200], cure=hint
        ) from problem
    columns: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            continue
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            _refuse_many(array.shape[1], path)
            for k in range(array.shape[1]):
                columns[f"{name}[{k}]"] = array[:, k]

    def read(names: Sequence[str]) -> Iterator[Array]:
        lengths = {n: len(columns[n]) for n in names}
        if len(set(lengths.values())) > 1:
            raise InvalidRecording(
                "the arrays differ in length",
                argument=str(path),
                got=", ".join(f"{k}: {v}" for k, v in lengths.items()),
            )
        total = next(iter(lengths.values()), 0)
        for first in range(0, total, BLOCK_ROWS):
            yield np.stack(
                [np.asarray(columns[n][first : first + BLOCK_ROWS], dtype=float) for n in names], 1
            )

    longest = max((len(c) for c in columns.values()), default=0)
    others = tuple(n for n in arrays if n not in columns and f"{n}[0]" not in columns)
    return Table(str(path), tuple(columns), longest, read, others)


def _parquet_table(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    # A small file is read without a buffer: a damaged page's claim would become the buffer's size.
    buffer_size = 1 << 20 if path.stat().st_size > LARGE_FILE else 0

    def open_file() -> Any:
        try:
            return pyarrow.parquet.ParquetFile(
                path,
                page_checksum_verification=True,
                pre_buffer=False,  # else the whole file would be read ahead
                buffer_size=buffer_size,
            )
        except (OSError, ValueError, pyarrow.ArrowException) as problem:
            raise InvalidRecording(
                "this is not a readable Parquet file", argument=str(path), got=str(problem)[:200]
            ) from problem

    with open_file() as file:
        try:
            metadata, schema = file.metadata, file.schema_arrow
            groups = range(metadata.num_row_groups)
            refuse_bomb(path, sum(metadata.row_group(g).total_byte_size for g in groups))
            rows = int(metadata.num_rows)
            if not 0 <= rows <= MOST_ROWS_A_BYTE * path.stat().st_size:
                raise ValueError(f"it claims {rows} rows in {path.stat().st_size} bytes")
        except (OSError, ValueError, pyarrow.ArrowException) as problem:
            raise InvalidRecording(
                "the Parquet file is damaged", argument=str(path), got=str(problem)[:200]
            ) from problem
    _refuse_twice(schema.names, path)
    numeric = []
    for entry in schema:
        kind = entry.type
        if pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind):
            numeric.append(entry.name)

    def read(names: Sequence[str]) -> Iterator[Array]:
        file = open_file()
        try:
            for batch in file.iter_batches(BLOCK_ROWS, columns=list(names), use_threads=False):
                table = {n: batch.column(batch.schema.get_field_index(n)) for n in names}
                yield np.stack(
                    [table[n].to_numpy(zero_copy_only=False).astype(float) for n in names], 1
                )
        except (OSError, pyarrow.ArrowException) as problem:
            raise InvalidRecording(
                "the Parquet file is damaged",
                argument=str(path),
                got=str(problem)[:200],
                cure="copy it again from where it was recorded",
            ) from problem

    others = tuple(n for n in schema.names if n not in numeric)
    return Table(str(path), tuple(numeric), rows, read, others)


def _csv_delimiter(path: Path) -> tuple[str, list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(1_000_000)
    except OSError as problem:
        raise InvalidRecording(
            "the log cannot be read", argument=str(path), got=problem.strerror or str(problem)
        ) from problem
    except UnicodeDecodeError as problem:
        raise InvalidRecording(
            "the CSV file is not UTF-8 text", argument=str(path), got=str(problem)
        ) from problem
    if not line.strip():
        raise InvalidRecording("the log is empty", argument=str(path))
    if "\0" in line:
        raise InvalidRecording(
            "the CSV file is not UTF-8 text",
            argument=str(path),
            got="a NUL in the first line",
            cure="save it as UTF-8",
        )
    delimiter = max(",;\t", key=line.count)
    try:
        header = [c.strip() for c in next(csv.reader([line], delimiter=delimiter))]
    except csv.Error as problem:
        raise InvalidRecording(
            "the first line cannot be read", argument=str(path), got=str(problem)
        ) from problem
    if all(_is_number(c) for c in header):
        raise InvalidRecording(
            "the first line holds numbers, not column names",
            argument=str(path),
            got=line.strip()[:80],
            cure="put a line with the columns' names on top",
        )
    if not any(header):
        raise InvalidRecording(
            "the first line names no columns", argument=str(path), got=line.strip()[:80]
        )
    _refuse_twice([c for c in header if c], path)
    return delimiter, header


def _refuse_many(count: int, path: Path) -> None:
    if count > MOST_COLUMNS:
        raise InvalidRecording(
            "the log has too many columns",
            argument=str(path),
            got=count,
            expected=f"at most {MOST_COLUMNS}",
        )


def _refuse_twice(names: Sequence[str], path: Path) -> None:
    _refuse_many(len(names), path)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidRecording("column names repeat", argument=str(path), got=", ".join(twice))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_table(path: Path) -> Table:
    import pyarrow
    import pyarrow.csv

    delimiter, header = _csv_delimiter(path)

    def read(names: Sequence[str]) -> Iterator[Array]:
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.float64()),
            include_columns=list(names),
            null_values=["", "nan", "NaN", "NAN", "null", "None", "NA"],
            strings_can_be_null=True,
        )
        options = pyarrow.csv.ReadOptions(
            block_size=8 << 20, column_names=header, skip_rows=1, use_threads=False
        )
        parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
        try:
            reader = pyarrow.csv.open_csv(path, options, parse, convert)
            for batch in reader:
                yield np.stack(
                    [batch.column(k).to_numpy(zero_copy_only=False) for k in range(len(names))], 1
                )
        except (OSError, pyarrow.ArrowException) as problem:
            decimal = " (decimal commas are not numbers here)" if delimiter == ";" else ""
            raise InvalidRecording(
                "the CSV file holds a line that cannot be read",
                argument=str(path),
                got=str(problem)[:200] + decimal,
                cure="look at that line; a log cut off in mid-line can lose its last line",
            ) from problem

    return Table(str(path), tuple(header), None, read)


READERS: dict[str, Callable[[Path], Table]] = {
    ".npz": _npz_table,
    ".parquet": _parquet_table,
    ".pq": _parquet_table,
    ".csv": _csv_table,
    ".tsv": _csv_table,
    ".txt": _csv_table,
}


def read_table(path: str | Path) -> Table:
    """Return a file as a table, by the ending of its name.

    Raises:
        InvalidRecording: If it is missing, empty, damaged, or of no known kind.
    """
    path = Path(path)
    require_regular(path)
    if path.stat().st_size == 0:
        raise InvalidRecording("the log is empty", argument=str(path))
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidRecording(
            f"files ending in '{path.suffix}' are not logs that heft reads",
            argument=str(path),
            valid=READERS,
            cure="save the log as CSV, Parquet or NPZ",
        )
    return reader(path)


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
