"""Tables: the common form of all readers and writers, columns of numbers over rows, in blocks.

And what readers share: how they speak of damage, and the bounds that they keep to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, install, spelt

BLOCK_ROWS = 65_536
MOST_COLUMNS = 10_000
MOST_NUMBERS = 8 << 20  # of a block
SHIFT = 10**18  # [ns] added to the stamps of logs that begin before zero


@dataclass(frozen=True)
class Table:
    """A file as columns of numbers, read in blocks."""

    path: str  # the file
    columns: tuple[str, ...]  # names of the numeric columns
    rows: int | None  # number of rows, or None where it is known only after reading
    # `read(names)` yields arrays of shape (rows, names), in order, in the file's units
    read: Callable[[Sequence[str]], Iterator[Array]]
    others: tuple[str, ...] = ()  # names of columns that do not hold numbers
    # stamp at which `t` is 0 [ns since 1970], or None where the file has none
    epoch: int | None = None
    notes: tuple[str, ...] = ()  # remarks on the log, in sentences

    @staticmethod
    def of_columns(columns: Mapping[str, Array], path: object) -> Table:
        """Return columns that are held in memory as a table.

        Args:
            columns: By name, shape (N,) each.
        """

        def read(names: Sequence[str]) -> Iterator[Array]:
            step = block_rows(len(names))
            for first in range(0, rows, step):
                yield np.stack([columns[n][first : first + step] for n in names], 1)

        rows = len(next(iter(columns.values())))
        return Table(str(path), tuple(columns), rows, read)


@dataclass(frozen=True)
class Topics:
    """Choice of topics in a log of messages: the table `[topic]` of a column map."""

    names: tuple[str, ...] = ()  # the topics to read; all that carry signals if empty
    # frame names by topic, which replace those in the messages
    frames: Mapping[str, str] = field(default_factory=dict)


Write = Callable[[Array], None]  # takes rows, shape (rows, columns of the table)
Say = Callable[[str], None]  # takes what a format cannot hold, in a sentence


def say_lost_epoch(table: Table, say: Say) -> None:
    """Report that the epoch is lost if the table has one; for formats that cannot store it."""
    if table.epoch and table.epoch != SHIFT:
        say(f"times count from the stamp {table.epoch} ns, which this format has no place for")


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


def block_rows(columns: int) -> int:
    """Return the number of rows of a block of so many columns."""
    return max(min(BLOCK_ROWS, MOST_NUMBERS // max(columns, 1)), 1)


# Takes what is wrong with a file. Strict reading raises it; salvage notes it, and the reader
# goes on behind the damage where it can.
Damaged = Callable[[InvalidRecording], None]


def refuse(damage: InvalidRecording) -> None:
    """Raise the defect: a damaged file is not used at all. The default of `damaged`."""
    raise damage


def damaged_file(kind: str, path: object, got: str) -> InvalidRecording:
    """Return the error for a damaged file, with the way to salvage it."""
    return InvalidRecording(
        f"the {kind} is damaged",
        argument=str(path),
        got=got,
        cure=f"copy it again from where it was recorded, or salvage what can be read: "
        f"heft convert {spelt(path)} --recover --out salvaged.parquet",
    )


def refuse_many(count: int, path: object) -> None:
    """Raise `InvalidRecording` if there are more than `MOST_COLUMNS` columns."""
    if count > MOST_COLUMNS:
        raise InvalidRecording(
            "the log has too many columns",
            argument=str(path),
            got=count,
            expected=f"at most {MOST_COLUMNS}",
        )


def refuse_twice(names: Sequence[str], path: object) -> None:
    """Raise `InvalidRecording` if a column name repeats, or there are too many columns."""
    refuse_many(len(names), path)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidRecording("column names repeat", argument=str(path), got=", ".join(twice))


def library(name: str, path: object, extra: str = "ros") -> ModuleType:
    """Return an optional library of an extra.

    Args:
        extra: Name of the extra that installs the library.

    Raises:
        InvalidRecording: If it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as problem:
        raise InvalidRecording(
            f"these logs need the library '{name.partition('.')[0]}', which is not installed",
            argument=str(path),
            cure=install(extra),
        ) from problem
