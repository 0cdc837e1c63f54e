"""Files made to harm: each is refused, soon, in little memory, and by an error of heft.

The proofs of concept of an audit, and what stands behind each: a schema that computes, a size that
is claimed, a list that is searched for each of its entries, a name that steers a terminal.
"""

from __future__ import annotations

import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from heft.errors import HeftError, InvalidRecording
from heft.recordings.formats.bag_metadata import described
from heft.recordings.recording import Recording
from tests.messages import Messages, joint_states, save_db3

SOON = 5.0  # [s], for what takes a few hundredths; endless without its bound
MEGABYTES = 200


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """Let no test take long or much memory."""

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    before, start = peak(), time.perf_counter()
    yield
    assert peak() - before < MEGABYTES
    assert time.perf_counter() - start < 6 * SOON


def read(path: Path) -> int:
    """Return the number of rows of a log, all of which are read."""
    table = Recording.open(path).table
    return sum(len(block) for block in table.read(table.columns))


def refused_soon(path: Path, says: str) -> None:
    """Check that a log is refused, and how long that takes."""
    start = time.perf_counter()
    with pytest.raises(InvalidRecording, match=says):
        read(path)
    assert time.perf_counter() - start < SOON


def states(count: int = 50) -> Messages:
    """Return a log of joint states."""
    at = 0.01 * np.arange(count)
    columns = {"q.elbow": np.sin(at), "tau.elbow": np.cos(at)}
    return joint_states(columns, [1_700_000_000 * 10**9 + int(1e9 * t) for t in at])


# Bags as SQLite files: the schema is a program of the file's author.

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
OWN = "timestamp INTEGER NOT NULL, data BLOB NOT NULL"
TOPICS = "CREATE TABLE topics(id INTEGER PRIMARY KEY, name, type, serialization_format)"
SCHEMAS = {
    "a view without end": (
        f"CREATE VIEW messages AS {ENDLESS}SELECT i AS id, 1 AS topic_id, i AS timestamp, "
        "x'00' AS data FROM n",
    ),
    "a view of nothing, without end": (
        f"CREATE VIEW messages AS {ENDLESS}SELECT i AS id, 7 AS topic_id, i AS timestamp, "
        "x'00' AS data FROM n",
    ),
    "a view of large blobs": (
        "CREATE VIEW messages AS SELECT 1 AS id, 1 AS topic_id, 1 AS timestamp, "
        "zeroblob(999999999) AS data",
    ),
    "a computed column": (
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, "
        "data BLOB AS (zeroblob(999999999)))",
        "INSERT INTO messages VALUES (1, 1, 1)",
    ),
    "a computed and stored column": (
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, "
        "data BLOB AS (zeroblob(10)) STORED)",
        "INSERT INTO messages VALUES (1, 1, 1)",
    ),
    "rows that are not numbered": (
        f"CREATE TABLE messages(id INTEGER, topic_id INTEGER, {OWN})",
        "INSERT INTO messages VALUES (1, 1, 1, x'00')",
    ),
    "numbers as texts": (
        f"CREATE TABLE messages(id TEXT PRIMARY KEY, topic_id INTEGER, {OWN})",
        "INSERT INTO messages VALUES ('z', 1, 1, x'00')",
    ),
    "no messages at all": (),
}


def database(path: Path, *statements: str, topics: str = TOPICS) -> Path:
    """Write a SQLite file with a topic of joint states."""
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(topics)
        if topics is TOPICS:
            row = (1, "/joint_states", "sensor_msgs/msg/JointState", "cdr")
            base.execute("INSERT INTO topics VALUES (?, ?, ?, ?)", row)
        for statement in statements:
            base.execute(statement)
    return path


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_bag_that_computes_its_messages_is_refused(name: str, tmp_path: Path) -> None:
    refused_soon(database(tmp_path / "run.db3", *SCHEMAS[name]), "is damaged")


def test_a_bag_that_computes_its_topics_is_refused(tmp_path: Path) -> None:
    view = (
        f"CREATE VIEW topics AS {ENDLESS}SELECT i AS id, 'a' AS name, 'b' AS type, "
        "'cdr' AS serialization_format FROM n"
    )
    messages = f"CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, {OWN})"
    refused_soon(database(tmp_path / "run.db3", messages, topics=view), "is damaged")


def test_a_bag_that_says_more_than_its_size_is_refused(tmp_path: Path) -> None:
    """Rows from before a column was added have its default: a megabyte each, for a few bytes."""
    path = database(
        tmp_path / "run.db3",
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER)",
        f"INSERT INTO messages {ENDLESS}SELECT i, 1, i FROM n LIMIT 5000",
        f"ALTER TABLE messages ADD COLUMN data BLOB DEFAULT (x'{'00' * 400_000}')",
    )
    refused_soon(path, "holds more than its")


def test_a_bag_whose_pages_lead_back_is_refused(tmp_path: Path) -> None:
    """Every child of every inner page is the same: a tree that has no end."""
    path = save_db3(tmp_path / "run.db3", states(4000))
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    inner = [p for p in range(1, len(data) // size) if data[p * size] == 5]
    for page in inner:  # of tables; children are the first four bytes of each cell
        begin = page * size
        count = int.from_bytes(data[begin + 3 : begin + 5], "big")
        cells = [int.from_bytes(data[begin + 12 + 2 * k :][:2], "big") for k in range(count)]
        for at in (begin + 8, *(begin + cell for cell in cells)):
            data[at : at + 4] = (page + 1).to_bytes(4, "big")
    assert inner
    path.write_bytes(data)
    start = time.perf_counter()
    with pytest.raises(HeftError):
        read(path)
    assert time.perf_counter() - start < SOON


def test_a_bag_is_salvaged_within_its_size(tmp_path: Path) -> None:
    path = database(tmp_path / "run.db3", *SCHEMAS["a view without end"])
    with pytest.raises(InvalidRecording):
        Recording.open(path, damaged=lambda problem: None)


# What describes a bag.

TABLE = "rosbag2_bagfile_information:\n  storage_identifier: mcap\n  compression_mode: ''\n"


@pytest.mark.parametrize(
    "files",
    [
        "  relative_file_paths:\n    - a.mcap\n    - 'b b.mcap'\n    - \"c.mcap\"\n",
        "  relative_file_paths:\n  - a.mcap # the first\n  - b b.mcap\n  - c.mcap\n",
        "  relative_file_paths: [a.mcap, 'b b.mcap', \"c.mcap\"]\n",
        "  relative_file_paths: [a.mcap, b b.mcap, c.mcap]  # all\n  custom_data: {a: [b]}\n",
    ],
)
def test_metadata_are_read_as_programs_write_them(files: str) -> None:
    topics = "  topics_with_message_count:\n    - topic_metadata:\n        name: /a\n"
    expected = {"storage_identifier": "mcap", "compression_mode": ""}, ["a.mcap", "b b.mcap", "c.mcap"]
    assert described(TABLE + topics + files) == expected
    assert described(TABLE + files + topics + "other: 3\n") == expected


@pytest.mark.parametrize(
    "text",
    [
        TABLE + "  relative_file_paths: 3\n",
        TABLE + "  relative_file_paths: {a: b}\n",
        TABLE + "  relative_file_paths:\n    - [a]\n",
        TABLE + "  relative_file_paths:\n    - *a\n",
        TABLE + "  relative_file_paths:\n    - &a b\n",
        TABLE + "  relative_file_paths:\n    - a: b\n",
        TABLE + "  relative_file_paths:\n    - a.mcap\n    - a.mcap\n",
        TABLE + "  relative_file_paths:\n    - ..\n",
        TABLE + "  storage_identifier: sqlite3\n",
        TABLE.replace("mcap", "[mcap]"),
        TABLE.replace("mcap", "{a: b}"),
        TABLE.replace("mcap", "*a"),
        TABLE.replace("''", "[FILE]"),
        "a: &a [x, x]\n" + "".join(f"b{k}: &b{k} [*a, *a]\n" for k in range(20)) + TABLE[:-1],
        "[" * 900_000,
        TABLE + "  relative_file_paths: " + "[" * 900_000,
        TABLE + "  relative_file_paths:\n" + "    - a\n" * 100_000,
        TABLE + "  topics:\n" + "    - {a: b}\n" * 70_000,
        TABLE + "x" * 2**20,
    ],
    ids=lambda text: text[-30:].replace("\n", " "),
)
def test_metadata_that_say_something_else_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "metadata.yaml").write_text(text)
    refused_soon(tmp_path, ".")
