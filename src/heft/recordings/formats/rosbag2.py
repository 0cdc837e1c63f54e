"""rosbag2 folders, and the SQLite files in them (github.com/ros2/rosbag2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from heft.errors import InvalidRecording

from .format import Format
from .mcap import mcap_log
from .messages import Batch, Channel, Log, following, full_name, messages_table, unified
from .table import Damaged, Table, Topics, damaged_file, library

NAME = "SQLite file of the bag"
damage = partial(damaged_file, NAME)

METADATA = "metadata.yaml"
MOST_METADATA = 16 << 20
BATCH = 2048
MOST_FAILURES = 1000  # pieces of a damaged file that cannot be read, before it is given up
NOTE = "SQLite files carry no checksums: a changed byte cannot be seen"

# The last where SQLite's own message about a damaged file is no text.
UNREADABLE = (sqlite3.Error, OverflowError, UnicodeDecodeError)


def rosbag2_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the messages of a rosbag2 folder as a table; errors as of `messages_table`.

    Args:
        path: Folder to read.
        topics: Which topics are wanted, and as what.
        damaged: Called with each defect.
    """
    return messages_table(rosbag2_log(path, damaged), topics, damaged)


def sqlite_table(path: Path, topics: Topics, damaged: Damaged) -> Table:
    """Return the messages of one SQLite file of a rosbag2; errors as of `messages_table`.

    Args:
        path: File to read.
        topics: Which topics are wanted, and as what.
        damaged: Called with each defect.
    """
    return messages_table(sqlite_log(path, damaged), topics, damaged)


def rosbag2_log(path: Path, damaged: Damaged) -> Log:
    """Return a rosbag2 folder as a log of messages: its files in their order.

    Args:
        path: Folder to read.
        damaged: Called with each defect.

    Raises:
        InvalidRecording: If the storage or the compression is not supported, or the metadata or a
            file is missing or damaged.
    """
    described = _metadata(path)
    names = described.get("relative_file_paths") or []
    storage = described.get("storage_identifier")
    openers = {"mcap": mcap_log, "sqlite3": sqlite_log}
    if storage not in openers:
        raise InvalidRecording(
            f"the bag's storage is '{storage}', which heft does not read",
            argument=str(path),
            valid=openers,
            cure="ros2 bag convert writes another storage",
        )
    if described.get("compression_mode"):
        raise InvalidRecording(
            f"the bag is packed by {described['compression_mode']}",
            argument=str(path),
            got=described.get("compression_format"),
            cure="ros2 bag convert writes it unpacked; MCAP packs by itself",
        )
    if not isinstance(names, list) or not names:
        raise InvalidRecording(f"{METADATA} names no files", argument=str(path))
    # Only the name counts: a bag does not reach out of its folder.
    files = [path / Path(str(name)).name for name in names]
    for file in files:
        if not file.is_file():
            raise InvalidRecording(
                "a file of the bag is missing",
                argument=str(file),
                cure="copy the whole folder, or reindex what is there: ros2 bag reindex",
            )
    return following(str(path), [openers[storage](f, damaged) for f in files])


def _metadata(path: Path) -> dict[str, Any]:
    file = path / METADATA
    if not file.is_file():
        raise InvalidRecording(
            f"the log is a folder without {METADATA}: no rosbag2, or its recorder did not end",
            argument=str(path),
            cure="ros2 bag reindex writes it; or give the .mcap or .db3 file in it",
        )
    if file.stat().st_size > MOST_METADATA:
        raise InvalidRecording(f"{METADATA} is too large", argument=str(file))
    yaml = library("ruamel.yaml", path)
    try:
        content = yaml.YAML(typ="safe").load(file.read_text(encoding="utf-8"))
        described = content["rosbag2_bagfile_information"]
        if not isinstance(described, dict):
            raise TypeError("it describes no bag")
    except Exception as problem:  # a parser of what a file says: anything may be in there
        raise InvalidRecording(
            f"{METADATA} cannot be read",
            argument=str(file),
            got=str(problem)[:200],
            cure="ros2 bag reindex writes it anew",
        ) from problem
    return described


def sqlite_log(path: Path, damaged: Damaged) -> Log:
    """Return one SQLite file of a rosbag2 as a log of messages.

    Args:
        path: File to read.
        damaged: Called with each defect.
    """
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
        with closing(_connect(path)) as base:
            rows = base.execute(
                "SELECT id, name, type, serialization_format FROM topics"
            ).fetchall()
            texts = _definitions(base)
            (last,) = base.execute("SELECT max(id) FROM messages").fetchone()
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
    }
    return channels, last if isinstance(last, int) else 0


def _definitions(base: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Return encoding and text of the messages' definitions by type, where the file has them."""
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master")}
    if "message_definitions" not in tables:
        return {}
    rows = base.execute(
        "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
    )
    return {str(kind): (str(encoding), str(text)) for kind, encoding, text in rows}


def _batches(path: Path, places: Mapping[int, int], last: int, damaged: Damaged) -> Iterator[Batch]:
    """Yield the messages of topics, under the numbers that `places` gives them."""
    marks = ", ".join("?" * len(places))
    query = (
        "SELECT id, topic_id, timestamp, data FROM messages "
        f"WHERE id > ? AND topic_id IN ({marks}) ORDER BY id LIMIT {BATCH}"
    )
    behind, failures = -1, 0
    with closing(_connect(path)) as base:
        while behind < last and failures < MOST_FAILURES:
            try:
                found = base.execute(query, (behind, *places)).fetchall()
            except UNREADABLE as problem:
                damaged(damage(path, f"{problem}, behind message {behind}"))
                behind += BATCH
                failures += 1
                continue
            if not found:
                return
            behind = found[-1][0]
            held: dict[int, tuple[list[int], list[bytes]]] = {}
            for _, topic, logged, data in found:
                if not isinstance(logged, int) or not isinstance(data, bytes):
                    damaged(damage(path, f"a message near {behind} is none"))
                    continue
                both = held.setdefault(places[topic], ([], []))
                both[0].append(logged)
                both[1].append(data)
            for k, (stamps, messages) in held.items():
                yield k, stamps, messages


def _short(path: Path) -> str | None:
    """Say so if the file is shorter than its head says (sqlite.org/fileformat2.html, 1.3)."""
    with path.open("rb") as file:
        head = file.read(100)
        size = file.seek(0, 2)
    if len(head) < 100:
        return f"cut off after {size} bytes"
    page = int.from_bytes(head[16:18], "big")
    stated = (page if page > 1 else 65536) * int.from_bytes(head[28:32], "big")
    return f"cut off after {size} of {stated} bytes" if size < stated else None


def _connect(path: Path) -> sqlite3.Connection:
    # Immutable: nothing is written beside the log, not even a lock.
    base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    base.text_factory = lambda data: data.decode("utf-8", "replace")
    return base


SQLITE = Format(NAME, (".db3",), sqlite_table)
ROSBAG2 = Format("rosbag2 folder", (), rosbag2_table, marker=METADATA)
