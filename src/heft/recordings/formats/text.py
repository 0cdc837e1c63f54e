"""Text files: CSV with commas, semicolons or tabs, and columns separated by single spaces."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, spelt

from . import table
from .table import (
    LONGEST_LINE,
    Damaged,
    Say,
    Table,
    Write,
    damaged_file,
    refuse,
    refuse_twice,
    written_by,
)

damage = partial(damaged_file, "CSV file")

MISSING = ["", "nan", "NaN", "NAN", "null", "None", "NA"]
CUT = "the last line does not end: its last number may be cut off"
ENDS = ("\n", "\r")
# What is left out of a damaged file.
MISSHAPEN = "lines with another number of columns"
UNREAD = "with something else than numbers"


@dataclass(frozen=True)
class _Layout:
    names: tuple[str, ...]  # of its columns
    delimiter: str  # what parts them
    above: int  # how many lines stand above the numbers
    decimal: str  # the decimal point, or a comma


def _layout(path: Path) -> _Layout:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(LONGEST_LINE)
            above = 1
            if re.fullmatch(r"sep=.\s*", line):  # as spreadsheets write it
                line = file.readline(LONGEST_LINE)
                above = 2
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
    if line.startswith("#"):  # as NumPy writes it
        line = line.lstrip("#").lstrip(" ")
    delimiter = max(",;\t", key=line.count)
    if delimiter not in line and " " in line.strip():
        delimiter = " "  # as the recorder of Universal Robots writes it
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
    refuse_twice([c for c in header if c], path)
    commas = delimiter != "," and _has_decimal_commas(path, above)
    return _Layout(tuple(header), delimiter, above, "," if commas else ".")


def _has_decimal_commas(path: Path, above: int) -> bool:
    """Whether the beginning of the file has commas between digits, and no points."""
    with path.open("rb") as file:  # whatever text other columns hold
        for _ in range(above):
            file.readline(LONGEST_LINE)
        start = file.read(65_536)
    return bool(re.search(rb"\d,\d", start)) and not re.search(rb"\d\.\d", start)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python takes 1_000 for a number, nobody else does


def _last_line(path: Path) -> bytes:
    """Return what follows the last line end: nothing in a file that was closed properly."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1_000_000, 0))
        return file.read().replace(b"\r", b"\n").rpartition(b"\n")[2]


def text_table(path: Path, damaged: Damaged) -> Table:
    """Return the columns of a text file; all are assumed numeric until they are read.

    Raises:
        InvalidRecording: If the file is empty or its header cannot be used; while reading, if a
            line cannot be read.
    """
    layout = _layout(path)
    last = _last_line(path)
    # Of the right shape it is read like any other, though its last number may lack digits.
    cut = last.count(layout.delimiter.encode()) == len(layout.names) - 1 and bool(last)

    def read(names: Sequence[str]) -> Iterator[Array]:
        if damaged is refuse:
            return _strict(path, layout, names)
        return _salvaged(path, layout, names, cut, damaged)

    notes = ["text carries no checksum: a changed digit cannot be seen"]
    notes += [CUT] if cut else []
    notes += ["decimal commas are read for points"] if layout.decimal == "," else []
    return Table(str(path), layout.names, None, read, notes=tuple(notes))


def _strict(path: Path, layout: _Layout, names: Sequence[str]) -> Iterator[Array]:
    import pyarrow
    import pyarrow.csv

    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pyarrow.float64()),
        include_columns=list(names),
        null_values=MISSING,
        strings_can_be_null=True,
        decimal_point=layout.decimal,
    )
    options = pyarrow.csv.ReadOptions(
        block_size=8 << 20, column_names=layout.names, skip_rows=layout.above, use_threads=False
    )
    parse = pyarrow.csv.ParseOptions(delimiter=layout.delimiter)
    try:
        with path.open("rb") as file:  # its name may be no text
            for batch in pyarrow.csv.open_csv(file, options, parse, convert):
                yield np.stack(
                    [batch.column(k).to_numpy(zero_copy_only=False) for k in range(len(names))], 1
                )
    except (OSError, pyarrow.ArrowException) as problem:
        raise InvalidRecording(
            "the CSV file holds a line that cannot be read",
            argument=str(path),
            got=str(problem)[:200],
            cure="look at that line; a log cut off in mid-line loses that line with "
            f"heft convert {spelt(path)} --recover --out salvaged.csv",
        ) from problem


def _salvaged(
    path: Path, layout: _Layout, names: Sequence[str], cut: bool, damaged: Damaged
) -> Iterator[Array]:
    """Yield rows in blocks, the last one only when it is known not to be cut off."""
    at = [layout.names.index(n) for n in names]
    left_out: Counter[str] = Counter()
    rows: list[list[float]] = []
    kept = False  # whether the line before was
    for cells in _lines(path, layout, left_out):
        kept = False
        if len(cells) != len(layout.names):
            left_out[MISSHAPEN] += bool(cells)
            continue
        try:
            rows.append([_number(cells[k].replace(layout.decimal, ".")) for k in at])
        except ValueError:
            left_out[UNREAD] += 1
            continue
        kept = True
        if len(rows) > table.BLOCK_ROWS:
            yield np.array(rows[:-1])
            rows = rows[-1:]
    if cut and kept:
        damaged(damage(path, f"{CUT}; the line is left out"))
        rows = rows[:-1]
    if rows:
        yield np.array(rows)
    if left_out.total():
        counts = f"{left_out[MISSHAPEN]} {MISSHAPEN} and {left_out[UNREAD]} {UNREAD}"
        damaged(damage(path, f"{counts} are left out"))


def _lines(path: Path, layout: _Layout, left_out: Counter[str]) -> Iterator[list[str]]:
    """Yield the cells of each line; what is none is counted in `left_out`."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(layout.above):
            file.readline(LONGEST_LINE)
        lines = csv.reader(_short(file, left_out), delimiter=layout.delimiter)
        while True:
            try:
                yield next(lines)
            except csv.Error:  # a field without end
                left_out[MISSHAPEN] += 1
            except StopIteration:
                return


def _short(file: TextIO, left_out: Counter[str]) -> Iterator[str]:
    """Yield lines; one without end, such as a disk's zeros, is left out piece by piece."""
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(ENDS):
            yield line
            continue
        left_out[MISSHAPEN] += 1
        while line and not line.endswith(ENDS):
            line = file.readline(LONGEST_LINE)


def write_csv(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    """Open a CSV file with commas for writing."""
    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    return written_by(
        lambda p, s: pyarrow.csv.CSVWriter(p, s, write_options=options), path, table, say
    )


def _number(text: str) -> float:
    """Return a cell as a number, NaN where it is empty; raise ValueError where it is none."""
    text = text.strip()
    if text in MISSING:
        return np.nan
    if not _is_number(text) or not np.isfinite(float(text)):
        raise ValueError(text)
    return float(text)
