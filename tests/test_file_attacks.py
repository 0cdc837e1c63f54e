"""Files made to harm: each is refused, soon, in little memory, and by an error of heft.

The proofs of concept of an audit, and what stands behind each: a schema that computes, a size that
is claimed, a list that is searched for each of its entries, a name that steers a terminal.
"""

from __future__ import annotations

import json
import resource
import shlex
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from benchmarks.readers import LARGEST_RATIO, npz, ratio
from fuzz.parquet_pages import lie_of_a_page
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter

from heft import cli
from heft.display import table, templates
from heft.errors import HeftError, InvalidRecording, InvalidSetting, visible
from heft.models.denavit_hartenberg import expression
from heft.recordings.columns import ColumnMap
from heft.recordings.formats import parquet
from heft.recordings.formats.message_log import Channel
from heft.recordings.formats.messages import types_of
from heft.recordings.formats.rosbag2 import SqliteFile, described
from heft.recordings.recording import Recording
from tests.messages import JOINT_STATE as STATE
from tests.messages import ROS2, Messages, joint_states, save_db3

SOON = 5.0  # [s] of the processor, for what takes some hundredths; endless without its bound
MEGABYTES = 200


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """Let no test take long or much memory."""

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    before, start = peak(), time.process_time()
    yield
    assert peak() - before < MEGABYTES
    assert time.process_time() - start < 6 * SOON


def read(path: Path) -> int:
    """Return the number of rows of a log, all of which are read."""
    table = Recording.open(path).table
    return sum(len(block) for block in table.read(table.columns))


def refused_soon(path: Path, says: str) -> None:
    """Check that a log is refused, and how long that takes."""
    start = time.process_time()
    with pytest.raises(InvalidRecording, match=says):
        read(path)
    assert time.process_time() - start < SOON


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


@pytest.mark.parametrize("column", ["id INTEGER", "id TEXT PRIMARY KEY", "id INT PRIMARY KEY"])
def test_only_an_integer_key_numbers_rows(column: str, tmp_path: Path) -> None:
    kinds = {"id": "INTEGER", "data": ""}
    tables = (f"CREATE TABLE a({column}, data)", "CREATE TABLE b(id integer PRIMARY KEY, data)")
    with closing(SqliteFile(database(tmp_path / "run.db3", *tables))) as file:
        file.require_table("b", kinds)
        with pytest.raises(sqlite3.Error, match="not numbered"):
            file.require_table("a", kinds)


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
    start = time.process_time()
    with pytest.raises(HeftError):
        read(path)
    assert time.process_time() - start < SOON


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
    expected = (
        {"storage_identifier": "mcap", "compression_mode": ""},
        ["a.mcap", "b b.mcap", "c.mcap"],
    )
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


# Definitions of messages in an MCAP file: written by its author, walked by heft.

EMPTY = "\n" + 80 * "=" + "\nMSG: p/E\n"
DEFINITIONS = {
    "a thousand million of nothing": "p/E[1000000000] e" + EMPTY,
    "a sequence of nothing": "p/E[] e" + EMPTY,
    "a type that holds itself": "sensor_msgs/JointState e",
    "types that double": "p/T0 e"
    + "".join(f"\n{80 * '='}\nMSG: p/T{k}\np/T{k + 1} {'a' * 100}\np/T{k + 1} b" for k in range(60))
    + f"\n{80 * '='}\nMSG: p/T60",
    "a long name": f"float64 {'a' * 60_000}\n" * 2,
    "a number of many digits": "p/E[" + "9" * 10_000 + "] e" + EMPTY,
    "a hundred thousand fields": "".join(f"bool a{k}\n" for k in range(100_000)),
    "a field a line, and many lines": "float64 a\n" + 500_000 * "\n",
}


def mcap(path: Path, definition: str, topics: int = 1, count: int = 1, kind: str = STATE) -> Path:
    """Write an MCAP file of messages of one byte-string, under a definition of one's own."""
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType.ZSTD, chunk_size=1 << 20)
        writer.start()
        schema = writer.register_schema(kind, "ros2msg", definition.encode())
        channels = [writer.register_channel(f"/t{k}", "cdr", schema) for k in range(topics)]
        data = b"\0\1\0\0" + (2**20 - 2**15).to_bytes(4, "little") + bytes(24)
        for k in range(count):
            for channel in channels:
                writer.add_message(channel, 10**9 + k, data, 10**9 + k)
        writer.finish()
    return path


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_without_end_is_refused(name: str, tmp_path: Path) -> None:
    refused_soon(mcap(tmp_path / "run.mcap", DEFINITIONS[name]), ".")


def test_blank_lines_and_comments_of_a_definition_cost_nothing(tmp_path: Path) -> None:
    text, _ = ROS2.generate_msgdef(STATE, ros_version=2)
    channel = Channel("/a", STATE, "cdr", text.replace("\n", "\n" + 20_000 * "#\n" + "\n"))
    start = time.process_time()
    assert types_of(channel, "a")[STATE] == types_of(replace(channel, definition=text), "a")[STATE]
    assert time.process_time() - start < SOON


def test_a_chunk_that_unpacks_without_measure_is_refused(tmp_path: Path) -> None:
    """Chunks of zeros: 64 kB of file that unpack to 1.5 GB, none of them beyond the limit."""
    path = tmp_path / "run.mcap"
    zeros = bytes(30 << 20)
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType.ZSTD, chunk_size=1 << 20)
        writer.start()
        schema = writer.register_schema(STATE, "ros2msg", b"float64[] position")
        states = writer.register_channel("/t", "cdr", schema)
        other = writer.register_channel("/o", "cdr", 0)
        for k in range(10):
            writer.add_message(states, k, b"\0\1\0\0" + bytes(4), k)
            writer.add_message(other, k, zeros, k)
        writer.finish()
    assert path.stat().st_size < 2**20
    refused_soon(path, "claim to hold")


# Parquet: memory is taken for what a page's head says, whatever the file's end says of it.

HEADS = {
    "2 GB": (2**31 - 1, None, None),
    "2 GB, and takes 2 GB": (2**31 - 1, 2**31 - 1, None),
    "nothing": (0, None, None),
    "less than nothing": (-1, None, None),
    "that it takes less than nothing": (320_000, -1, None),
    "300 MB, which it does": (300_000_000, None, 300_000_000),
}
PAGES = (("none", "1.0"), ("gzip", "1.0"), ("zstd", "2.0"), ("snappy", "2.0"))


@pytest.mark.parametrize(
    ("name", "codec", "version"),
    [
        (name, *page)
        for name, (*_, zeros) in HEADS.items()
        for page in PAGES
        if zeros is None or page == ("gzip", "1.0")
    ],
)
def test_a_page_that_claims_another_size_is_refused(
    name: str, codec: str, version: str, tmp_path: Path
) -> None:
    unpacked, packed, zeros = HEADS[name]
    body = None if zeros is None else zlib.compress(bytes(zeros), 1, 31)
    path = tmp_path / "run.parquet"
    count = 50_000 if zeros is None else 200_000
    values = np.random.default_rng(0).normal(size=count)
    settings = {"data_page_version": version, "use_dictionary": False, "write_statistics": False}
    pyarrow.parquet.write_table(
        pyarrow.table({"q.a": values, "t": np.arange(float(count))}),
        path,
        compression=codec,
        data_page_size=2 << 20,
        **settings,
    )
    assert read(path) == count
    lie_of_a_page(path, unpacked, packed, body)
    before, start = _resident(), time.process_time()
    with pytest.raises(InvalidRecording, match="is damaged"):
        read(path)
    assert time.process_time() - start < 1.0
    assert _resident() - before < MEGABYTES


def _resident() -> float:
    """Return the largest memory so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_pages_that_unpack_without_measure_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each within its limit, and many of them, of which the file's end says nothing."""
    monkeypatch.setattr(parquet, "refuse_bomb", lambda path, unpacked: None)
    monkeypatch.setattr(parquet, "MOST_ROWS_A_BYTE", 10**9)
    path = tmp_path / "run.parquet"
    table = pyarrow.table({"t": np.zeros(1_000_000)})
    settings = {"compression": "zstd", "use_dictionary": False}
    with pyarrow.parquet.ParquetWriter(path, table.schema, **settings) as writer:
        for _ in range(36):
            writer.write_table(table, row_group_size=1_000_000)
    assert path.stat().st_size < 2_000_000
    refused_soon(path, "claim to hold")


# What is searched for each of its entries takes the square of their number.

LISTS = (
    "URDF, attributes of an element",
    "URDF, elements",
    "NPZ, arrays",
    "MCAP, channels",
    "MCAP, channels of joint states",
    "MCAP, topics that are joined",
    "rosbag 1, topics",
    "rosbag2, files",
    "rosbag2, lines of metadata",
    "CSV, columns beyond the limit",
)


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


@pytest.mark.parametrize("name", LISTS)
def test_a_long_list_takes_time_in_proportion(name: str, tmp_path: Path) -> None:
    # Anew where it took longer: other work on the machine does not come thrice, a square does.
    folders = [tmp_path / str(attempt) for attempt in range(3)]
    for folder in folders:
        folder.mkdir()
    assert any(ratio(name, folder, LARGEST_RATIO)[0] < LARGEST_RATIO for folder in folders)


def test_a_map_of_endless_joints_is_refused(tmp_path: Path) -> None:
    names = [f"a{k}" for k in range(50_000)]
    path = text(tmp_path / "map.toml", f"[q]\njoints = {names}\ncolumns = {names}\n")
    with pytest.raises(InvalidSetting, match="too many joints"):
        ColumnMap.from_toml(path)


def test_more_arrays_than_a_log_has_are_refused(tmp_path: Path) -> None:
    refused_soon(npz(tmp_path / "run.npz", 10_001), "more than 10000")


# Names and lines.

HIDDEN = "elb\x1b[31m\x07ow\u202e\u2066\u2028\x9b1A\x7f\ud800"


def test_no_name_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    error = InvalidRecording(HIDDEN, argument=HIDDEN, got=HIDDEN, valid=(HIDDEN,), cure=HIDDEN)
    cli.message(f"{HIDDEN}\nsecond line")
    cli.progress(HIDDEN)
    said = capsys.readouterr()
    told = [
        *error.explain().split("\n"),
        table(["joint"], [[HIDDEN + "\n"]]).replace("\n", "", 1),
        *said.out.rstrip("\n").split("\n"),
        *said.err.rstrip("\n").split("\n"),
    ]
    assert all(line.isprintable() for line in told)
    assert sum(r"elb\x1b[31m\x07ow\u202e\u2066\u2028\x9b1A\x7f\ud800" in line for line in told) == 8
    assert "second line" in told


def test_no_name_turns_the_writing_of_a_page() -> None:
    made = templates._environment().from_string("{{ a }}\n{{ a | tojson }}")
    shown, data = made.render(a=HIDDEN).split("\n")
    assert shown == visible(HIDDEN)
    assert data.isprintable()
    assert json.loads(data) == HIDDEN[:11] + visible(HIDDEN[11:])  # controls turn nothing


@pytest.mark.parametrize(
    "name", ["a\nheft: all is well", "a\u202eb", "a\x1b[2J"], ids=lambda name: ascii(name)
)
def test_a_joint_of_a_log_is_told_as_it_is_spelt(name: str, tmp_path: Path) -> None:
    at = 0.01 * np.arange(50)
    log = joint_states({f"q.{name}": np.sin(at)}, [10**9 + int(1e9 * t) for t in at])
    path = save_db3(tmp_path / "run.db3", log)
    with pytest.raises(HeftError) as caught:
        Recording.open(path).require("q.elbow", "is needed")
    assert visible(name) in caught.value.explain()
    assert name not in caught.value.explain()


@pytest.mark.parametrize(
    "said", ["1_0", "0x10", "0b1", "1e999", "1e-999", "1E+0_1", "\uff11", "\uff4d1", "1j", "1_0.5"]
)
def test_what_only_python_takes_for_a_number_is_none(said: str) -> None:
    with pytest.raises(InvalidSetting):
        expression(said, "here")


def test_decimals_of_an_expression_are_exact() -> None:
    digits = "0.12345678901234567890123456789"
    assert expression(f"{digits} - {digits[:-1]}", "here") == expression("9e-29", "here")
    assert expression("1.5e-3 + .5 + 2.", "here") == expression("25015/10000", "here")


def test_a_line_without_end_is_salvaged_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    with path.open("wb") as file:
        file.write(b"t,q.elbow\n0,1\n1,2\n")
        file.seek(300 << 20, 1)  # a hole: zeros
        file.write(b"\n2,3\n3,4\n")
    notes: list[InvalidRecording] = []
    opened = Recording.open(path, damaged=notes.append).table
    rows = np.concatenate(list(opened.read(opened.columns)))
    assert rows.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert "1 lines with another number of columns" in str(notes[0])
    refused_soon(path, "cannot be read")


def test_a_closed_stream_is_no_traceback(tmp_path: Path) -> None:
    rows = "\n".join(f"{0.01 * k},{np.sin(0.01 * k)}" for k in range(100))
    log = text(tmp_path / "run.csv", "t,q.elbow\n" + rows)
    run = f"{shlex.quote(sys.executable)} -m heft check {shlex.quote(str(log))}"
    ended = [
        subprocess.run(
            ["bash", "-c", f"{run} {streams}"], capture_output=True, text=True, check=False
        )
        for streams in ("", ">&-", "2>&-", "<&- >&- 2>&-")
    ]
    assert len({process.returncode for process in ended}) == 1
    assert "Traceback" not in "".join(process.stderr + process.stdout for process in ended)
    assert log.read_text().startswith("t,q.elbow\n0.0,0.0\n")
