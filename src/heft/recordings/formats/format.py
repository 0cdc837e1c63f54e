"""What a log format is: one value that says how its files are told apart, read and written."""

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
    """A kind of log file.

    A format is a value of this class in a file of its own, and a line in `registry.FORMATS`.

    Attributes:
        name: What a file of it is called in messages.
        endings: Of its files' names, in lower case with the dot; the first is the one written.
        read: Returns a file as a table; what is wrong with it goes to the last argument.
        write: Opens a file to be written: `with write(path, table, say) as put: put(rows)`. None
            if it is only read.
        shared: Endings that other than logs have too, so that they alone tell nothing.
        marker: The file in a folder by which the folder is one log; its path goes to `read`.
    """

    name: str
    endings: tuple[str, ...]
    read: Read
    write: Open | None = None
    shared: tuple[str, ...] = ()
    marker: str | None = None

    def is_marked(self, path: Path) -> bool:
        """Whether a folder holds the file by which it is a log of this format."""
        return self.marker is not None and os.path.isfile(path / self.marker)


def say_lost_epoch(table: Table, say: Say) -> None:
    """Say so if a format without a place for it is given a table with an epoch."""
    if table.epoch and table.epoch != SHIFT:
        say(f"times count from the stamp {table.epoch} ns, which this format has no place for")
