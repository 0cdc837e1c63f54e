"""rosbag2 folders, and the SQLite files in them (github.com/ros2/rosbag2)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from heft.errors import InvalidRecording
from heft.files import read_text

from .bag_metadata import described
from .format import Format
from .mcap import mcap_log
from .messages import Channel, Log, following, full_name, messages_table, unified
from .shared_walk import Batch
from .sqlite_file import SqliteFile
from .table import Damaged, Table, Topics, damaged_file

NAME = "SQLite file of the bag"
damage = partial(damaged_file, NAME)

METADATA = "metadata.yaml"
MOST_METADATA = 1 << 20
# What is read of the tables.
TOPIC = ("id", "name", "type", "serialization_format")
MESSAGE = ("topic_id", "timestamp", "data")
DEFINITION = ("topic_type", "encoding", "encoded_message_definition")
BATCH = 2048
MOST_FAILURES = 250  # pieces of a damaged file that cannot be read, before it is given up
NOTE = "SQLite files carry no checksums: a changed byte cannot be seen"

# The last where SQLite's own message about a damaged file is no text.
UNREADABLE = (sqlite3.Error, OverflowError, UnicodeDecodeError)


def rosbag2_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the messages of a rosbag2 folder as a table; errors as of `messages_table`."""
    return messages_table(rosbag2_log(path, damaged), topics, damaged)


def sqlite_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the messages of one SQLite file of a rosbag2; errors as of `messages_table`."""
    return messages_table(sqlite_log(path, damaged), topics, damaged)


def rosbag2_log(path: Path, damaged: Damaged) -> Log:
    """Return a rosbag2 folder as a log of messages: its files in their order.

    Raises:
        InvalidRecording: If the storage or the compression is not supported, or the metadata or a
            file is missing or damaged.
    """
    stated, names = _metadata(path)
    storage = stated.get("storage_identifier", "")
    openers = {"mcap": mcap_log, "sqlite3": sqlite_log}
    if storage not in openers:
        raise InvalidRecording(
            f"the bag's storage is '{storage}', which heft does not read",
            argument=str(path),
            valid=openers,
            cure="ros2 bag convert writes another storage",
        )
    if stated.get("compression_mode"):
        raise InvalidRecording(
            f"the bag is packed by {stated['compression_mode']}",
            argument=str(path),
            got=stated.get("compression_format"),
            cure="ros2 bag convert writes it unpacked; MCAP packs by itself",
        )
    if not names:
        raise InvalidRecording(f"{METADATA} names no files", argument=str(path))
    # Only the name counts: a bag does not reach out of its folder.
    files = [path / Path(name).name for name in names]
    twice = next((f.name for f, count in Counter(files).items() if count > 1), None)
    if twice is not None:
        raise InvalidRecording(f"{METADATA} names a file twice", argument=str(path), got=twice)
    for file in files:
        if not file.is_file():
            raise InvalidRecording(
                "a file of the bag is missing",
                argument=str(file),
                cure="copy the whole folder, or reindex what is there: ros2 bag reindex",
            )
    return following(str(path), [openers[storage](f, damaged) for f in files])


def _metadata(path: Path) -> tuple[dict[str, str], list[str]]:
    file = path / METADATA
    if not file.is_file():
        raise InvalidRecording(
            f"the log is a folder without {METADATA}: no rosbag2, or its recorder did not end",
            argument=str(path),
            cure="ros2 bag reindex writes it; or give the .mcap or .db3 file in it",
        )
    try:
        return described(read_text(file, METADATA, InvalidRecording, MOST_METADATA).decode())
    except ValueError as problem:
        raise InvalidRecording(
            f"{METADATA} cannot be read",
            argument=str(file),
            got=str(problem)[:200],
            cure="ros2 bag reindex writes it anew",
        ) from problem


def sqlite_log(path: Path, damaged: Damaged) -> Log:
    """Return one SQLite file of a rosbag2 as a log of messages."""
    _refuse_unclosed(path)
    short = _short(path)
    if short:
        damaged(damage(path, short))
    found, last = _topics(path)
    channels, places = unified(found)

    def batches(wanted: Collection[int]) -> Iterator[Batch]:
        return _batches(path, {n: k for n, k in places.items() if k in wanted}, last, damaged)

    return Log(str(path), channels, batches, (NOTE,), NAME)


def _refuse_unclosed(path: Path) -> None:
    """Raise `InvalidRecording` if messages wait in a write-ahead log beside the file."""
    left = path.with_name(path.name + "-wal")
    if left.is_file() and left.stat().st_size:
        raise InvalidRecording(
            "the recorder did not close the log: messages wait in a second file",
            argument=str(left),
            cure=f"keep both files together and run: sqlite3 {path.name} 'PRAGMA wal_checkpoint'",
        )


def _topics(path: Path) -> tuple[dict[int, Channel], int]:
    """Return the file's topics by their numbers in it, and the number of its last message."""
    try:
        with closing(SqliteFile(path)) as base:
            base.require_table("topics", dict.fromkeys(TOPIC, ""))
            base.require_table("messages", {"id": "INTEGER"} | dict.fromkeys(MESSAGE, ""))
            rows = list(base.rows(f"SELECT {', '.join(TOPIC)} FROM main.topics"))
            texts = _definitions(base)
            ((last,),) = base.rows("SELECT max(id) FROM main.messages")
    except UNREADABLE as problem:
        raise damage(path, str(problem)) from problem
    channels = {
        number: Channel(
            str(name),
            full_name(str(kind)),
            str(encoding),
            texts.get(str(kind), ("", ""))[1],
            texts.get(str(kind), ("", ""))[0] == "ros2idl",
        )
        for number, name, kind, encoding in rows
        if isinstance(number, int)
    }
    return channels, last if isinstance(last, int) else 0


def _definitions(base: SqliteFile) -> dict[str, tuple[str, str]]:
    if not base.has("message_definitions"):
        return {}
    base.require_table("message_definitions", dict.fromkeys(DEFINITION, ""))
    rows = base.rows(f"SELECT {', '.join(DEFINITION)} FROM main.message_definitions")
    return {str(kind): (str(encoding), str(text)) for kind, encoding, text in rows}


def _batches(path: Path, places: Mapping[int, int], last: int, damaged: Damaged) -> Iterator[Batch]:
    marks = ", ".join("?" * len(places))
    query = (
        f"SELECT id, {', '.join(MESSAGE)} FROM main.messages "
        f"WHERE id > ? AND topic_id IN ({marks}) ORDER BY id LIMIT {BATCH}"
    )
    behind, failures = -1, 0
    with closing(SqliteFile(path)) as base:
        while behind < last and failures < MOST_FAILURES:
            held: dict[int, tuple[list[int], list[bytes]]] = {}
            before = behind
            try:
                for number, topic, logged, data in base.rows(query, (behind, *places)):
                    if number <= behind:
                        raise sqlite3.DatabaseError("its messages are in no order")
                    behind = number
                    if not isinstance(logged, int) or not isinstance(data, bytes):
                        damaged(damage(path, f"a message near {behind} is none"))
                        continue
                    both = held.setdefault(places[topic], ([], []))
                    both[0].append(logged)
                    both[1].append(data)
            except UNREADABLE as problem:
                damaged(damage(path, f"{problem}, behind message {behind}"))
                if base.is_spent:
                    return
                held, behind = {}, before + BATCH
                failures += 1
                continue
            if behind == before:
                return
            for k, (stamps, messages) in held.items():
                yield k, stamps, messages


def _short(path: Path) -> str | None:
    """Return how much of the file is missing by its header (sqlite.org/fileformat2.html, 1.3)."""
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, 2)
    if len(head) < 100:
        return f"cut off after {size} bytes"
    page = int.from_bytes(head[16:18], "big")
    stated = (page if page > 1 else 65536) * int.from_bytes(head[28:32], "big")
    return f"cut off after {size} of {stated} bytes" if size < stated else None


SQLITE = Format(NAME, (".db3",), sqlite_table)
ROSBAG2 = Format("rosbag2 folder", (), rosbag2_table, marker=METADATA)
