"""Registry of the log formats, one line a format; the only place that knows file endings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from heft.arrays import Array
from heft.errors import InvalidRecording, visible
from heft.files import require_regular

from .format import Format
from .mcap import MCAP
from .npz import NPZ
from .parquet import PARQUET
from .rosbag1 import ROSBAG1
from .rosbag2 import ROSBAG2, SQLITE
from .table import Damaged, Table, Topics, refuse
from .text import TEXT
from .ulog import ULOG

FORMATS: tuple[Format, ...] = (
    TEXT,
    PARQUET,
    NPZ,
    MCAP,
    ROSBAG1,
    SQLITE,
    ROSBAG2,
    ULOG,
)


def by_ending() -> dict[str, Format]:
    """Return the formats by their file name endings."""
    return {ending: f for f in FORMATS for ending in f.endings}


def writable() -> dict[str, Format]:
    """Return the formats that have a writer, by the ending used for writing."""
    return {f.endings[0]: f for f in FORMATS if f.write is not None}


def is_log(path: str | Path) -> bool:
    """Whether a path's ending is used by logs only."""
    ending = Path(path).suffix.lower()
    found = by_ending().get(ending)
    return found is not None and ending not in found.shared


def format_of(path: Path) -> Format | None:
    """Return the format of a file, or of a folder that is one log; None if unknown."""
    named = by_ending().get(path.suffix.lower())
    if not os.path.isdir(path):
        return named
    folders = [f for f in FORMATS if f.marker is not None]
    # A folder under no file's ending is taken for a log whose marker is missing.
    return next((f for f in folders if f.is_marked(path)), named or folders[0])


def read_table(path: str | Path, topics: Topics | None = None, damaged: Damaged = refuse) -> Table:
    """Return a log as a table; its format follows from its ending or its folder's files.

    Args:
        topics: Topics to read from a log of messages; all that carry signals if not given.
        damaged: Called with each defect of a damaged file. If it does not raise, what can be read
            is returned.

    Raises:
        InvalidRecording: If the log is missing, empty, damaged, or of no known format.
    """
    return _spelt_out(_read(Path(path), topics or Topics(), damaged))


def _read(path: Path, topics: Topics, damaged: Damaged) -> Table:
    found = format_of(path)
    if found is not None and found.marker is not None and os.path.isdir(path):
        return found.read(path, topics, damaged)
    require_regular(path)
    if path.stat().st_size == 0:
        raise InvalidRecording("the log is empty", argument=str(path))
    if found is None:
        *most, last = [f.name.removesuffix(" file") for f in writable().values()]
        raise InvalidRecording(
            f"files ending in '{path.suffix}' are not logs that heft reads",
            argument=str(path),
            valid=by_ending(),
            cure=f"save the log as {', '.join(most)} or {last}",
        )
    try:
        return found.read(path, topics, damaged)
    except OSError as problem:
        raise InvalidRecording(
            "the log cannot be read", argument=str(path), got=problem.strerror or str(problem)
        ) from problem


def _spelt_out(table: Table) -> Table:
    """Return a table whose names are spelt as a terminal shows them; see `errors.visible`.

    Raises:
        InvalidRecording: If two columns' names are then the same.
    """
    shown = {visible(name): name for name in table.columns}
    if len(shown) < len(table.columns):
        raise InvalidRecording("column names repeat", argument=table.path)
    if all(spelt == name for spelt, name in shown.items()):
        read = table.read
    else:

        def read(names: Sequence[str]) -> Iterator[Array]:
            return table.read([shown[name] for name in names])

    return replace(
        table,
        path=visible(table.path),
        columns=tuple(shown),
        read=read,
        others=tuple(map(visible, table.others)),
        notes=tuple(map(visible, table.notes)),
    )
