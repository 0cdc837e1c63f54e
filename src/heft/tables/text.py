"""Text in columns: CSV with commas, semicolons or tabs, and files of single spaces."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidRecording
from ..inertia import Array
from .table import Damaged, Table, Topics, damage, refuse

MISSING = ["", "nan", "NaN", "NAN", "null", "None", "NA"]
CUT = "the last line does not end: its last number may be cut off"


def _header(path: Path) -> tuple[str, list[str]]:
    """Return what parts the columns, and their names."""
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
    if line.startswith("#"):  # as NumPy writes it
        line = line.lstrip("#").lstrip(" ")
    delimiter = max(",;\t", key=line.count)
    if delimiter not in line and " " in line.strip():
        delimiter = " "  # as the recorder of Universal Robots writes it
    header = [c.strip() for c in next(csv.reader([line], delimiter=delimiter))]
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
    return delimiter, header


def refuse_twice(names: Sequence[str], path: Path) -> None:
    """Raise `InvalidRecording` if a name repeats."""
    twice = sorted({c for c in names if names.count(c) > 1})
    if twice:
        raise InvalidRecording("column names repeat", argument=str(path), got=", ".join(twice))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python takes 1_000 for a number, nobody else does


def _last_line(path: Path) -> bytes:
    """Return what stands behind the file's last end of line: nothing in a file that was closed."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1_000_000, 0))
        return file.read().replace(b"\r", b"\n").rpartition(b"\n")[2]


def text_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the columns of a text file, all taken for numbers until they are read."""
    import pyarrow
    import pyarrow.csv

    topics.refuse_for(str(path))
    delimiter, header = _header(path)
    salvaging = damaged is not refuse
    last = _last_line(path)
    # Of the right shape it is read like any other, though its last number may lack digits.
    cut = last.count(delimiter.encode()) == len(header) - 1 and bool(last)

    def batches(names: Sequence[str], kind: Any, parse: Any) -> Iterator[Any]:
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, kind),
            include_columns=list(names),
            null_values=MISSING,
            strings_can_be_null=True,
            check_utf8=not salvaging,
        )
        options = pyarrow.csv.ReadOptions(
            block_size=8 << 20, column_names=header, skip_rows=1, use_threads=False
        )
        yield from pyarrow.csv.open_csv(path, options, parse, convert)

    def read(names: Sequence[str]) -> Iterator[Array]:
        parse = pyarrow.csv.ParseOptions(delimiter=delimiter)
        try:
            for batch in batches(names, pyarrow.float64(), parse):
                yield np.stack(
                    [batch.column(k).to_numpy(zero_copy_only=False) for k in range(len(names))], 1
                )
        except (OSError, pyarrow.ArrowException) as problem:
            decimal = " (decimal commas are not numbers here)" if delimiter == ";" else ""
            raise InvalidRecording(
                "the CSV file holds a line that cannot be read",
                argument=str(path),
                got=str(problem)[:200] + decimal,
                cure="look at that line; a log cut off in mid-line loses that line with "
                f"heft convert {path} --recover --out salvaged.csv",
            ) from problem

    def salvage(names: Sequence[str]) -> Iterator[Array]:
        """Read text, and leave out the rows that hold something else than numbers."""
        misshapen = 0
        unread = 0

        def skip(_: Any) -> str:
            nonlocal misshapen
            misshapen += 1
            return "skip"

        parse = pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip)
        held = np.empty((0, len(names)))  # the last row, which may be cut off
        try:
            for batch in batches(names, pyarrow.binary(), parse):
                read = np.stack([_numbers(batch.column(k)) for k in range(len(names))], 1)
                values = np.concatenate([held, read])
                if cut:
                    values, held = values[:-1], values[-1:]
                good = ~np.isinf(values).any(axis=1)
                unread += int((~good).sum())
                yield values[good]
        except (OSError, pyarrow.ArrowException) as problem:
            damaged(damage(path, f"not read to its end: {str(problem)[:160]}"))
        if len(held):
            damaged(damage(path, f"{CUT}; the line is left out"))
        if misshapen or unread:
            damaged(
                damage(
                    path,
                    f"{misshapen} lines with another number of columns and {unread} with "
                    "something else than numbers are left out",
                )
            )

    notes = ("text carries no checksum: a changed digit cannot be seen",)
    return Table(
        str(path),
        tuple(header),
        None,
        salvage if salvaging else read,
        notes=(*notes, CUT) if cut else notes,
    )


def _numbers(column: Any) -> Array:
    """Return a column of texts as numbers: NaN where one is missing, infinite where it is none."""
    import pyarrow

    try:
        made = column.cast(pyarrow.string()).cast(pyarrow.float64())
        return np.asarray(made.to_numpy(zero_copy_only=False), dtype=float)
    except (pyarrow.ArrowException, UnicodeDecodeError):
        pass
    values = np.full(len(column), np.inf)
    for k, text in enumerate(column.to_pylist()):
        if text is None:
            values[k] = np.nan
        elif _is_number(text := text.decode("utf-8", "replace")):
            values[k] = float(text)
    return values
