"""Registry of the log formats, one line a format; the only place that knows file endings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting, visible
from heft.files import require_regular, require_writable

from .hdf5 import hdf5_table, matlab_table
from .json_lines import json_document, json_lines_table
from .mcap import mcap_log
from .mcap_writer import write_mcap
from .message_log import Channel
from .messages import messages_table
from .npz import npz_table, write_npz
from .packed import ENDINGS, packed_log
from .parquet import parquet_table, write_parquet
from .rosbag1 import rosbag1_log
from .rosbag2 import METADATA, Opener, rosbag2_log, sqlite_log
from .table import Damaged, Say, Table, Topics, Write, refuse
from .text import text_table, write_csv
from .ulog import ulog_table

Read = Callable[[Path, Topics, Damaged], Table]
OpenForWriting = Callable[[Path, Table, Say], AbstractContextManager[Write]]


@dataclass(frozen=True)
class Format:
    """One log file format: how its files are recognised, read and written."""

    name: str  # name of the format in messages
    # file name endings, in lower case with the dot; the first is used for writing
    endings: tuple[str, ...]
    # `read(path, topics, damaged)` returns a file as a table; `damaged` is called with each defect
    read: Read
    # opens a file for writing: `with write(path, table, say) as put: put(rows)`, with rows of shape
    # (rows, columns). None if the format is only read
    write: OpenForWriting | None = None
    shared: tuple[str, ...] = ()  # endings that are also used by files other than logs
    # file whose presence makes a folder one log; `read` gets the path of the folder
    marker: str | None = None
    log: Opener | None = None  # opens a file of messages as such; None if it holds columns


def of_columns(read: Callable[[Path, Damaged], Table]) -> Read:
    """Return how a format is read whose files have no topics."""

    def read_without(path: Path, topics: Topics, damaged: Damaged) -> Table:
        if topics.names or topics.frames:
            raise InvalidSetting(
                "topics are chosen of a log that has none",
                argument=str(path),
                cure="leave the table [topic] out of the map",
            )
        return read(path, damaged)

    return read_without


def _of_messages(name: str, endings: tuple[str, ...], log: Opener, **others: Any) -> Format:
    def read(path: Path, topics: Topics, damaged: Damaged) -> Table:
        return messages_table(log(path, damaged), topics, damaged)

    return Format(name, endings, read, log=log, **others)


FORMATS: tuple[Format, ...] = (
    Format("CSV file", (".csv", ".tsv", ".txt"), of_columns(text_table), write_csv, (".txt",)),
    Format("Parquet file", (".parquet", ".pq"), of_columns(parquet_table), write_parquet),
    Format("NPZ file", (".npz",), of_columns(npz_table), write_npz),
    Format("HDF5 file", (".hdf5", ".h5"), of_columns(hdf5_table)),
    Format("MATLAB file", (".mat",), of_columns(matlab_table)),
    Format("file of JSON lines", (".jsonl", ".ndjson"), of_columns(json_lines_table)),
    _of_messages("MCAP file", (".mcap",), mcap_log, write=write_mcap),
    _of_messages("ROS 1 bag", (".bag", ".active"), rosbag1_log),
    _of_messages("SQLite file of the bag", (".db3",), sqlite_log),
    # Files packed whole, by the ending of what is inside.
    _of_messages(
        "packed log",
        ENDINGS,
        partial(packed_log, {".mcap": mcap_log, ".db3": sqlite_log, ".bag": rosbag1_log}),
        shared=ENDINGS[1:],
    ),
    # By the storage that the metadata name.
    _of_messages(
        "rosbag2 folder",
        (),
        partial(rosbag2_log, {"mcap": mcap_log, "sqlite3": sqlite_log}),
        marker=METADATA,
    ),
    Format("ULog file", (".ulg", ".ulog"), ulog_table),
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
    log_format = by_ending().get(ending)
    return log_format is not None and ending not in log_format.shared


def format_of(path: Path) -> Format | None:
    """Return the format of a file, or of a folder that is one log; None if unknown."""
    named = by_ending().get(path.suffix.lower())
    if not os.path.isdir(path):
        return named
    folders = [(f, f.marker) for f in FORMATS if f.marker is not None]
    # A folder under no file's ending is taken for a log whose marker is missing.
    marked = (f for f, marker in folders if os.path.isfile(path / marker))
    return next(marked, named or folders[0][0])


def read_table(path: str | Path, topics: Topics | None = None, damaged: Damaged = refuse) -> Table:
    """Return a log as a table; its format follows from its ending or its folder's files.

    Args:
        topics: Topics to read from a log of messages; all that carry signals if not given.
        damaged: Called with each defect of a damaged file. If it does not raise, what can be read
            is returned.

    Raises:
        InvalidRecording: If the log is missing, empty, damaged, or of no known format, or if two
            columns' names look the same in a terminal.
    """
    table = _read(Path(path), topics or Topics(), damaged)
    shown = {visible(name): name for name in table.columns}
    if len(shown) < len(table.columns):
        raise InvalidRecording("column names repeat", argument=table.path)

    def read(names: Sequence[str]) -> Iterator[Array]:
        return table.read([shown[name] for name in names])

    return replace(
        table,
        path=visible(table.path),
        columns=tuple(shown),
        read=read,
        others=tuple(map(visible, table.others)),
        notes=tuple(map(visible, table.notes)),
        stamps=tuple(map(visible, table.stamps)),
        texts={visible(n): visible(text) for n, text in table.texts.items()},
        units={visible(n): visible(text) for n, text in table.units.items()},
    )


def _read(path: Path, topics: Topics, damaged: Damaged) -> Table:
    log_format = format_of(path)
    if log_format is not None and log_format.marker is not None and os.path.isdir(path):
        return log_format.read(path, topics, damaged)
    require_regular(path)
    if path.stat().st_size == 0:
        raise InvalidRecording("the log is empty", argument=str(path))
    if path.suffix.lower() == ".json":
        raise json_document(path)
    if log_format is None:
        *most, last = [f.name.removesuffix(" file") for f in writable().values()]
        raise InvalidRecording(
            f"files ending in '{path.suffix}' are not logs that heft reads",
            argument=str(path),
            valid=by_ending(),
            cure=f"save the log as {', '.join(most)} or {last}",
        )
    try:
        return log_format.read(path, topics, damaged)
    except OSError as problem:
        raise InvalidRecording(
            "the log cannot be read", argument=str(path), got=problem.strerror or str(problem)
        ) from problem


def channels_of(path: Path, cure: str) -> tuple[Channel, ...]:
    """Return the channels of a log of messages that has any.

    Args:
        cure: What to do with a log of columns.

    Raises:
        InvalidRecording: If the file is missing, damaged, or no log of messages.
    """
    log_format = format_of(path)
    if not path.exists() or log_format is None or log_format.log is None:
        raise InvalidRecording(
            "this is no log of messages" if path.exists() else "the log does not exist",
            argument=str(path),
            valid=[e for f in FORMATS if f.log is not None for e in f.endings],
            cure=cure if path.exists() else None,
        )
    return tuple(c for c in log_format.log(path, refuse).channels if c.count != 0)


def write_table(
    table: Table, path: Path, say: Callable[[str], None] = lambda loss: None
) -> tuple[int, float, float]:
    """Write columns of numbers to a file, not atomically; see `heft.files.workshop`.

    Args:
        table: The columns, `t` first.
        path: Its ending determines the format.
        say: Called with what the format cannot store.

    Returns:
        Number of rows, first and last time [s].

    Raises:
        InvalidSetting: If the output format is unknown.
    """
    rows, begin, end = 0, np.nan, np.nan
    with _writer(path)(path, table, say) as write:
        for block in table.read(table.columns):
            write(block)
            times = block[np.isfinite(block[:, 0]), 0]
            if len(times):
                begin = times[0] if np.isnan(begin) else begin
                end = times[-1]
            rows += len(block)
    return rows, float(begin), float(end)


def require_log(out: Path) -> None:
    """Check that a log can be written to a path; call it before any computation.

    Raises:
        InvalidSetting: If it is of no format that is written, a folder, or cannot be written.
    """
    _writer(out)
    require_writable(out)
    if out.is_dir():
        raise InvalidSetting("the place for a log is a folder", argument=f"--out {out}")


def _writer(out: Path) -> OpenForWriting:
    written = writable().get(out.suffix.lower())
    if written is None or written.write is None:
        raise InvalidSetting(
            f"heft does not write files ending in '{out.suffix}'",
            argument=f"--out {out}",
            valid=writable(),
        )
    return written.write
