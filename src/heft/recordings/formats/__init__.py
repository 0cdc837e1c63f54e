"""Files of numbers in columns, read in blocks of bounded memory: one module a format.

Nothing is unpickled; all checksums are verified; damage is refused by name, or salvaged where
that is asked for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from heft.errors import InvalidRecording
from heft.files import require_regular
from .join import join
from .mcap import mcap_table
from .npz import npz_table
from .parquet import parquet_table
from .rosbag1 import rosbag1_table
from .rosbag2 import METADATA
from .rosbag2 import rosbag2_table
from .rosbag2 import sqlite_table
from .table import BLOCK_ROWS
from .table import Damaged
from .table import Table
from .table import Topics
from .table import damage
from .table import library
from .table import refuse
from .text import text_table

__all__ = [
    "BLOCK_ROWS",
    "READERS",
    "Damaged",
    "Table",
    "Topics",
    "damage",
    "file_hash",
    "join",
    "library",
    "read_table",
    "refuse",
]

READERS: dict[str, Callable[[Path, Topics, Damaged], Table]] = {
    ".npz": npz_table,
    ".parquet": parquet_table,
    ".pq": parquet_table,
    ".csv": text_table,
    ".tsv": text_table,
    ".txt": text_table,
    ".mcap": mcap_table,
    ".bag": rosbag1_table,
    ".db3": sqlite_table,
}


def read_table(path: str | Path, topics: Topics | None = None, damaged: Damaged = refuse) -> Table:
    """Return a file, or the folder of a rosbag2, as a table, by the ending of its name.

    Args:
        path: The log.
        topics: Which topics of a log of messages are read.
        damaged: Takes what is wrong with it; if it raises nothing, what can be read is read.

    Raises:
        InvalidRecording: If it is missing, empty, damaged, or of no known kind.
    """
    path = Path(path)
    topics = topics or Topics()
    bag = path.suffix.lower() not in READERS or os.path.isfile(path / METADATA)
    if bag and os.path.isdir(path):
        return rosbag2_table(path, topics, damaged)
    require_regular(path)
    if path.stat().st_size == 0:
        raise InvalidRecording("the log is empty", argument=str(path))
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidRecording(
            f"files ending in '{path.suffix}' are not logs that heft reads",
            argument=str(path),
            valid=READERS,
            cure="save the log as CSV, Parquet, NPZ or MCAP",
        )
    try:
        return reader(path, topics, damaged)
    except OSError as problem:
        raise InvalidRecording(
            "the log cannot be read", argument=str(path), got=problem.strerror or str(problem)
        ) from problem


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file; of a folder, that of its files' names and hashes."""
    path = Path(path)
    if path.is_dir():
        parts = [f"{file_hash(p)}  {p.name}\n" for p in sorted(path.iterdir()) if p.is_file()]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
