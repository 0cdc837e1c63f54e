"""rosbag2 folders, and the SQLite files in them (github.com/ros2/rosbag2).

Both come from outside: of the metadata some entries are read, line by line, and of a SQLite file
plain tables, within bounds.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from heft.errors import InvalidRecording
from heft.files import read_text

from .message_log import Batch, Channel, Gathered, Log, following, full_name, log_of
from .packed import ENDINGS, packed_log, unpacking
from .table import Damaged, damaged_file

Opener = Callable[[Path, Damaged], Log]
NAME = "SQLite file of the bag"
damage = partial(damaged_file, NAME)

METADATA = "metadata.yaml"
TABLE = "rosbag2_bagfile_information:"
TEXTS = ("storage_identifier", "compression_mode", "compression_format")
FILES = "relative_file_paths"
COMMENT = re.compile(r"(?:^|\s)#.*")
# What is read of a SQLite file's tables.
TOPIC = ("id", "name", "type", "serialization_format")
MESSAGE = ("topic_id", "timestamp", "data")
DEFINITION = ("topic_type", "encoding", "encoded_message_definition")
BATCH = 2048

# The last where SQLite's own message about a damaged file is no text.
UNREADABLE = (sqlite3.Error, OverflowError, UnicodeDecodeError)

STEPS = 20_000  # of SQLite's machine between two looks at the budget, some milliseconds
# A row takes ten bytes at least, and some twenty steps to be read, so that an honest file is read
# five times over within these.
STEPS_A_BYTE, FEWEST_STEPS = 10, 5_000_000


def rosbag2_log(openers: Mapping[str, Opener], path: Path, damaged: Damaged) -> Log:
    """Return a rosbag2 folder as a log of messages: its files in their order.

    Args:
        openers: How files are opened as logs, by the storage that the metadata name.

    Raises:
        InvalidRecording: If the storage or the compression is not supported, or the metadata or a
            file is missing or damaged.
    """
    metadata = path / METADATA
    if not metadata.is_file():
        raise InvalidRecording(
            f"the log is a folder without {METADATA}: no rosbag2, or its recorder did not end",
            argument=str(path),
            cure="ros2 bag reindex writes it; or give the .mcap or .db3 file in it",
        )
    try:
        text = read_text(metadata, METADATA, InvalidRecording, 1 << 20).decode()
        stated, names = described(text)
    except ValueError as problem:
        raise InvalidRecording(
            f"{METADATA} cannot be read",
            argument=str(metadata),
            got=str(problem)[:200],
            cure="ros2 bag reindex writes it anew",
        ) from problem
    storage = stated.get("storage_identifier", "")
    if storage not in openers:
        raise InvalidRecording(
            f"the bag's storage is '{storage}', which heft does not read",
            argument=str(path),
            valid=openers,
            cure="ros2 bag convert writes another storage",
        )
    packing = stated.get("compression_format", "")
    if packing not in ("", "zstd"):
        raise InvalidRecording(
            f"the bag is packed by '{packing}', which heft does not read",
            argument=str(path),
            valid=["zstd"],
            cure="ros2 bag convert writes it unpacked; MCAP packs by itself",
        )
    if not names:
        raise InvalidRecording(f"{METADATA} names no files", argument=str(path))
    # Only the name counts: a bag does not reach out of its folder.
    files = [_present(path / Path(name).name) for name in names]
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

    def opened(file: Path) -> Log:
        if file.suffix in ENDINGS:
            return packed_log({Path(file.stem).suffix: openers[storage]}, file, damaged)
        return unpacking(openers[storage](file, damaged), file.stat().st_size, damaged)

    return following(path, [opened(file) for file in files])


def _present(file: Path) -> Path:
    """Return a file that metadata name, or the packed one in its place: some recorders name it."""
    packed = file.with_name(file.name + ENDINGS[0])
    plain = file.with_suffix("") if file.suffix in ENDINGS else file
    return next((f for f in (file, packed, plain) if f.is_file()), file)


def described(text: str) -> tuple[dict[str, str], list[str]]:
    """Return storage identifier and compression by name, and files' names, of `metadata.yaml`.

    The file is written by programs, in YAML's block style. Some entries directly below its one
    table are read line by line: there is nothing to expand, to nest or to construct.

    Raises:
        ValueError: If there is no such table, an entry stands there twice, or one is no text.
    """
    texts: dict[str, str] = {}
    files: list[str] = []
    for name, value in _entries(text):
        if name in TEXTS:
            if name in texts:
                raise ValueError(f"'{name}' stands there twice")
            texts[name] = _scalar(value)
        elif name == FILES and value.startswith("["):
            files += _listed(value)
        elif name == FILES and value:
            files.append(_scalar(value))
    if not texts:
        raise ValueError(f"it has no table '{TABLE}' in YAML's block style")
    return texts, files


def _entries(text: str) -> list[tuple[str, str]]:
    """Return the entries as (name, value) pairs; a list gives one pair for each of its texts."""
    entries = []
    inside, depth, name = False, 0, ""
    for line in text.splitlines():
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent == 0 and not (inside and content.startswith("- ")):
            inside, depth = COMMENT.sub("", content) == TABLE, 0
        elif inside:
            depth = depth or indent
            entry = re.fullmatch(r"(\w+)\s*:(?:\s+(.*))?", content)
            if indent == depth and entry:
                name = entry[1]
                entries.append((name, entry[2] or ""))
            elif name == FILES and content.startswith("- "):
                entries.append((name, content[2:].strip()))
    return entries


def _listed(value: str) -> list[str]:
    value = COMMENT.sub("", value).strip()
    if not value.endswith("]"):
        raise ValueError(f"a list that does not end in its line: {value[:40]}")
    return [_scalar(part.strip()) for part in value[1:-1].split(",") if part.strip()]


def _scalar(value: str) -> str:
    """Return a text without its quotes; empty for null."""
    if value[:1] == '"':
        try:
            return str(json.JSONDecoder().raw_decode(value)[0])
        except ValueError:
            raise ValueError(f"this is no text: {value[:40]}") from None
    if value[:1] == "'":
        end = re.match(r"'((?:[^']|'')*)'", value)
        if end is None:
            raise ValueError(f"this is no text: {value[:40]}")
        return end[1].replace("''", "'")
    value = COMMENT.sub("", value).strip()
    if value[:1] in tuple("&*!|>%@`{[") or value.startswith("- "):
        raise ValueError(f"this is no plain text: {value[:40]}")
    return "" if value in ("", "~", "null") else value


def sqlite_log(path: Path, damaged: Damaged) -> Log:
    """Return one SQLite file of a rosbag2 as a log of messages."""
    ahead = path.with_name(path.name + "-wal")
    if ahead.is_file() and ahead.stat().st_size:
        raise InvalidRecording(
            "the recorder did not close the log: messages wait in a second file",
            argument=str(ahead),
            cure=f"keep both files together and run: sqlite3 {path.name} 'PRAGMA wal_checkpoint'",
        )
    short = _short(path)
    if short:
        damaged(damage(path, short))
    channels, last = _topics(path)
    notes = ("SQLite files carry no checksums: a changed byte cannot be seen",)
    log = log_of(path, channels, lambda p: _batches(path, p, last, damaged), notes, NAME)
    return unpacking(log, path.stat().st_size, damaged)


def _topics(path: Path) -> tuple[dict[int, Channel], int]:
    """Return the file's topics by their numbers in it, and the number of its last message."""
    try:
        with closing(SqliteFile(path)) as base:
            base.require_table("topics", dict.fromkeys(TOPIC, ""))
            base.require_table("messages", {"id": "INTEGER"} | dict.fromkeys(MESSAGE, ""))
            rows = list(base.rows(f"SELECT {', '.join(TOPIC)} FROM main.topics"))
            texts: dict[str, tuple[str, str]] = {}  # encoding and text of each type's definition
            if base.has("message_definitions"):
                base.require_table("message_definitions", dict.fromkeys(DEFINITION, ""))
                query = f"SELECT {', '.join(DEFINITION)} FROM main.message_definitions"
                texts = {
                    str(k): (str(encoding), str(text)) for k, encoding, text in base.rows(query)
                }
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


def _batches(path: Path, places: Mapping[int, int], last: int, damaged: Damaged) -> Iterator[Batch]:
    marks = ", ".join("?" * len(places))
    query = (
        f"SELECT id, {', '.join(MESSAGE)} FROM main.messages "
        f"WHERE id > ? AND topic_id IN ({marks}) ORDER BY id LIMIT {BATCH}"
    )
    behind, failures = -1, 0
    with closing(SqliteFile(path)) as base:
        # After so many pieces that cannot be read a damaged file is given up.
        while behind < last and failures < 250:
            by_channel, before = Gathered(), behind
            try:
                for number, topic, logged, data in base.rows(query, (behind, *places)):
                    if number <= behind:
                        raise sqlite3.DatabaseError("its messages are in no order")
                    behind = number
                    if not isinstance(logged, int) or not isinstance(data, bytes):
                        damaged(damage(path, f"a message near {behind} is none"))
                        continue
                    stamps, messages = by_channel[places[topic]]
                    stamps.append(logged)
                    messages.append(data)
            except UNREADABLE as problem:
                damaged(damage(path, f"{problem}, behind message {behind}"))
                if base.is_spent:
                    return
                behind, failures = before + BATCH, failures + 1
                continue
            if behind == before:
                return
            yield from by_channel.batches()


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


class SqliteFile:
    """A SQLite file from outside, read within bounds; to be closed by `contextlib.closing`.

    A schema is a program: a view, a generated column or a virtual table computes what is read from
    it, without end if it likes. Only plain tables are read, and a file has no more steps and bytes
    than its size allows (sqlite.org/security.html).

    Args:
        path: The file. Nothing is written beside it, not even a lock.

    Raises:
        sqlite3.Error: If it is no SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size
        self._bytes_left = 2 * self._size + 1024
        self._steps_left = STEPS_A_BYTE * self._size + FEWEST_STEPS
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._base = sqlite3.connect(address, uri=True, cached_statements=0)
        self._base.text_factory = lambda data: data.decode("utf-8", "replace")
        # Nothing in a file is longer than the file, and no message than 256 MB.
        longest = min(256 << 20, self._size + 1024)
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        self._base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._base.set_progress_handler(self._count, STEPS)
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                self._base.execute(f"PRAGMA {pragma}")
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _count(self) -> bool:
        self._steps_left -= STEPS
        return self.is_spent

    @property
    def is_spent(self) -> bool:
        """Whether reading has used up the steps or bytes that the file's size allows."""
        return self._steps_left < 0 or self._bytes_left < 0

    def require_table(self, name: str, columns: Mapping[str, str]) -> None:
        """Check that a name is that of a plain table, whose columns are stored.

        Args:
            columns: Required columns, with the declared type of the one that must be the row's
                number, and an empty text for the others.

        Raises:
            sqlite3.Error: If it is missing, a view or virtual, or computes a column.
        """
        kinds = {kind for table, kind in self._objects() if table == name}
        if kinds != {"table"}:  # else it is a view, a virtual or a shadow table
            others = ", ".join(sorted(kinds)) or "missing"
            raise sqlite3.DatabaseError(f"'{name}' is no plain table: {others}")
        stored = {
            row[1]: (str(row[2]), row[5], row[6])
            for row in self.rows(f"PRAGMA main.table_xinfo({name})")
        }
        for column, kind in columns.items():
            if column not in stored or stored[column][2]:
                raise sqlite3.DatabaseError(f"'{name}' stores no column '{column}'")
            declared, key, _ = stored[column]
            if kind and (declared.upper() != kind or key != 1):
                raise sqlite3.DatabaseError(f"'{name}' is not numbered by its column '{column}'")

    def has(self, name: str) -> bool:
        """Whether there is a table, view or virtual table of this name."""
        return any(table == name for table, _ in self._objects())

    def _objects(self) -> Iterator[tuple[str, str]]:
        for row in self.rows("PRAGMA main.table_list"):
            if row[0] == "main":
                yield str(row[1]), str(row[2])

    def rows(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, whose placeholders `?` stand for values.

        Raises:
            sqlite3.Error: If the file is damaged, or says more than its size allows.
            KeyboardInterrupt: At an interrupt while SQLite works, which Python drops there.
        """
        try:
            for row in self._base.execute(query, values):
                self._bytes_left -= sum(len(v) for v in row if isinstance(v, bytes | str))
                if self._bytes_left < 0:
                    raise sqlite3.DatabaseError(f"it holds more than its {self._size} bytes")
                yield row
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            if self._steps_left >= 0:  # it was not this budget that ended the query
                raise KeyboardInterrupt from problem
            raise sqlite3.DatabaseError("it takes more steps than its size allows") from problem
