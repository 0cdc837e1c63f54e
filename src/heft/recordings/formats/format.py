"""Definition of a log format: how its files are recognised, read and written."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from heft.arrays import Array

from .table import SHIFT, Damaged, Table, Topics

Read = Callable[[Path, Topics, Damaged], Table]
Write = Callable[[Array], None]  # takes rows, shape (rows, columns of the table)
Say = Callable[[str], None]  # takes what a format cannot hold, in a sentence
Open = Callable[[Path, Table, Say], AbstractContextManager[Write]]


@dataclass(frozen=True)
class Format:
    """One log file format.

    A format is a value of this class in a module of its own, and a line in `registry.FORMATS`.
    """

    name: str  # name of the format in messages
    # file name endings, in lower case with the dot; the first is used for writing
    endings: tuple[str, ...]
    # `read(path, topics, damaged)` returns a file as a table; `damaged` is called with each defect
    read: Read
    # opens a file for writing: `with write(path, table, say) as put: put(rows)`, with rows of shape
    # (rows, columns). None if the format is only read
    write: Open | None = None
    shared: tuple[str, ...] = ()  # endings that are also used by files other than logs
    # file whose presence makes a folder one log; `read` gets the path of the folder
    marker: str | None = None

    def is_marked(self, path: Path) -> bool:
        """Whether a folder is a log of this format, by the presence of `marker`."""
        return self.marker is not None and os.path.isfile(path / self.marker)


def say_lost_epoch(table: Table, say: Say) -> None:
    """Report that the epoch is lost if the table has one; for formats that cannot store it."""
    if table.epoch and table.epoch != SHIFT:
        say(f"times count from the stamp {table.epoch} ns, which this format has no place for")
