"""Files made at random by who knows the format: sound in most, odd in a few places.

Bytes changed at random seldom pass a checksum or a parser's first look. Here a file is put together
from parts, each of which is now and then a lie, and checksums are those of what is written.
`GENERATORS` gives a writer for each format; the same seed writes the same file.
"""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import lz4.frame
import numpy as np
import pyarrow
import pyarrow.parquet
import zstandard

from .parquet_pages import lie_of_a_page

Part = TypeVar("Part")
ODD_NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1e308",
    "1e-999",
    "1_0",
    "0x10",
    "",
    "1,5",
    "٣",
    "-0",
)
ODD_NAMES = (
    "",
    "a" * 5000,
    "\x1b[2J",
    "\u202ea",
    "a\nb",
    "a.b",
    "q.",
    ".",
    "t",
    "\0",
    "é",
    "'",
    '"',
)
ROOM = 20_000  # of a file that is written soon
LONG = bytes(3_000_000)
ODD_SIZES = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)


class Dice:
    """Choices at random, seeded.

    Args:
        seed: The same seed makes the same choices.
        lies: How often a part is odd.
    """

    def __init__(self, seed: int, lies: float | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        self.room = ROOM
        self.lies = float(self.rng.choice([0.01, 0.05, 0.2])) if lies is None else lies

    def one(self, of: Sequence[Part]) -> Part:
        """Return one of several."""
        return of[int(self.rng.integers(len(of)))]

    def count(self, most: int) -> int:
        """Return a count, most often small; all of a file together are at most `ROOM`."""
        found = min(int(most ** self.rng.random()), self.room)
        self.room -= found
        return found

    def lie(self) -> bool:
        """Whether a part is odd."""
        return bool(self.rng.random() < self.lies)

    def or_odd(self, sound: Part, odd: Sequence[Part]) -> Part:
        """Return a sound part, or now and then an odd one."""
        return self.one(odd) if self.lie() else sound

    def size(self, sound: int, most: int = 2**64 - 1) -> int:
        """Return a size, or one that is none."""
        near = (sound - 1, sound + 1, 2 * sound)
        return max(self.or_odd(sound, (*ODD_SIZES, *near)), 0) & most

    def number(self) -> str:
        """Return the text of a number."""
        return self.or_odd(repr(float(self.rng.normal())), ODD_NUMBERS)

    def name(self, sound: str) -> str:
        """Return a name."""
        return self.or_odd(sound, ODD_NAMES)

    def changed(self, data: bytes, within: slice = slice(None)) -> bytes:
        """Return bytes with some of a range overwritten."""
        made = bytearray(data)
        places = range(*within.indices(len(made)))
        for _ in range(self.count(8) if len(places) else 0):
            made[self.one(places)] = self.one((0, 1, 0x7F, 0x80, 0xFF, int(self.rng.integers(256))))
        return bytes(made)


# Text: metadata of a bag, CSV, URDF.


def metadata(dice: Dice, folder: Path) -> Path:
    """Write the folder of a bag whose `metadata.yaml` is odd."""

    def scalar() -> str:
        odd = ("*a", "&a b", "!!python/name:os", "[", "{", "|", ">", "'", '"', "[a, [b", "~", "#")
        return dice.or_odd(dice.one(("mcap", "sqlite3", "a.mcap", "b.db3", "..")), odd)

    def entry(name: str, value: str, items: int = 0) -> None:
        indent = " " * dice.or_odd(2, (0, 1, 4, 400))
        lines.append(f"{indent}{dice.name(name)}: {value}")
        for _ in range(items):
            lines.append(f"{indent}  - {scalar()}")

    lines = [dice.or_odd("rosbag2_bagfile_information:", ("a: &a [*a]", "- a", "{", "\t"))]
    entry("storage_identifier", dice.or_odd("mcap", (scalar(),)))
    entry("relative_file_paths", dice.or_odd("[a.mcap]", (scalar(), "")), dice.lie() * 3)
    for _ in range(dice.count(12)):
        items = dice.count(30_000 if dice.lie() else 4)
        entry(dice.or_odd("topics", ("files", "compression_mode", "version")), scalar(), items)
    path = folder / "bag"
    path.mkdir()
    mcap(Dice(0, 0.0), path).rename(path / "a.mcap")
    text = dice.or_odd("\n", ("\r\n", "\r", "\x85", "\u2028")).join(lines)
    (path / "metadata.yaml").write_bytes(
        dice.changed(text.encode()) if dice.lie() else text.encode()
    )
    return path


def csv(dice: Dice, folder: Path) -> Path:
    """Write a CSV file."""
    columns = dice.or_odd(3, (0, 1, 200, 12_000))
    mark = dice.or_odd(dice.one((",", ";", "\t", " ")), ("|", '"', ",,"))
    end = dice.or_odd("\n", ("\r\n", "\r", "\n\r", "", "\0"))
    names = [dice.name(n) for n in ("t", "q.a", "tau.a", *(f"c{k}" for k in range(3, columns)))]
    quote = dice.one(("", "", '"'))
    lines = [mark.join(f"{quote}{n}{quote}" for n in names[:columns])]
    for k in range(dice.count(400)):
        cells = [str(0.01 * k), *(dice.number() for _ in range(min(columns, 300) - 1))]
        if dice.lie():
            cells.append(dice.one(("", '"', '"' * 9, "x" * 1_500_000, "1\0", "\ufeff")))
        lines.append(mark.join(cells))
    head = dice.or_odd("", ("\ufeff", "sep=;\n", "# ", "\n", "\0"))
    path = folder / dice.one(("run.csv", "run.tsv", "run.txt"))
    data = (head + end.join(lines) + dice.one((end, ""))).encode("utf-8", "surrogatepass")
    path.write_bytes(dice.changed(data) if dice.lie() else data)
    return path


def urdf(dice: Dice, folder: Path) -> Path:
    """Write a URDF."""

    def vector(count: int = 3) -> str:
        return " ".join(dice.number() for _ in range(dice.or_odd(count, (0, 1, 2, 4, 9, 40))))

    def attributes(**values: str) -> str:
        many = dice.count(20_000) if dice.lie() and dice.lie() else 0
        more = {f"a{k}": "1" for k in range(many)}
        pairs = {n: v for n, v in {**values, **more}.items() if not dice.lie()}
        return " ".join(f"{dice.or_odd(n, ('x', 'name'))}={_quoted(v)}" for n, v in pairs.items())

    def link(name: str) -> str:
        six = {f"i{x}": dice.or_odd("0.1", ODD_NUMBERS) for x in ("xx", "yy", "zz")}
        six |= {f"i{x}": dice.or_odd("0", ODD_NUMBERS) for x in ("xy", "xz", "yz")}
        inertial = (
            f"<origin {attributes(xyz=vector(), rpy=vector())}/>"
            f"<mass {attributes(value=dice.or_odd('1.5', ODD_NUMBERS))}/>"
            f"<inertia {attributes(**six)}/>"
        )
        times = dice.or_odd(1, (0, 2, 30))
        return f"<link {attributes(name=name)}>{f'<inertial>{inertial}</inertial>' * times}</link>"

    kinds = ("revolute", "continuous", "prismatic", "fixed")
    odd = ("floating", "planar", "", "spherical")
    count = dice.or_odd(1 + dice.count(8), (0, 60, 300))
    parts = [link(dice.name(f"l{k}")) for k in range(count)]
    for k in range(1, count):
        parent = dice.or_odd(f"l{k - 1}", (f"l{k}", f"l{count - 1}", "l0", "none"))
        mimic = f"<mimic {attributes(joint=f'j{dice.count(9)}', multiplier=vector(1))}/>"
        parts.append(
            f"<joint {attributes(name=dice.name(f'j{k}'), type=dice.or_odd(dice.one(kinds), odd))}>"
            f"<parent {attributes(link=parent)}/><child {attributes(link=f'l{k}')}/>"
            f"<origin {attributes(xyz=vector(), rpy=vector())}/><axis {attributes(xyz=vector())}/>"
            f"<limit lower='-2' upper='2' velocity='3' "
            f"effort={_quoted(dice.or_odd('9', ODD_NUMBERS))}/>"
            f"{mimic if dice.lie() else ''}</joint>"
        )
    deep = dice.count(ROOM) if dice.lie() else 0
    odd_parts = ("<!-- ", "]]>", "<![CDATA[", "&a;", "&#0;", "<?x", "<xi:include/>", "\0", "<a>")
    body = "".join(parts) + "<a>" * deep + "</a>" * deep + dice.or_odd("", odd_parts)
    text = f'<?xml version="1.0"?><robot name={_quoted(dice.name("r"))}>{body}</robot>'
    path = folder / "arm.urdf"
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(dice.changed(data) if dice.lie() else data)
    return path


def _quoted(value: str) -> str:
    for mark, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\n", "&#10;")):
        value = value.replace(mark, entity)
    return f'"{value}"'


# Messages and their containers.


def definition(dice: Dice) -> str:
    """Return the definition of a joint state, with types of one's own."""
    text = (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n"
        "float64[] effort\n"
    )
    counts, odd_counts = ("", "[]", "[3]", "[0]", "[<=2]"), ("[1000000000]", f"[{2**64}]", "[-1]")
    kinds, odd_kinds = ("bool", "string", "float64", "p/E", "p/A"), ("wstring", "x/Y", "p/E[]")
    line = 80 * "=" + "\nMSG: "
    own = ""
    if dice.rng.random() < 0.5 and dice.lies:
        for k in range(dice.count(3000 if dice.lie() else 6)):
            kind, count = (
                dice.or_odd(dice.one(kinds), odd_kinds),
                dice.or_odd(dice.one(counts), odd_counts),
            )
            text += f"{kind}{count} {dice.name(f'f{k}')}\n"
        own = f"{line}p/A\np/B a\np/B b\n{line}p/B\np/{dice.one('ABE')} a\n{line}p/E\n"
    text += dice.or_odd("", ("#" * 90_000, "\n" * 90_000, "# a\n" * 30_000, "int32 A=1\n" * 3000))
    header = "std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
    return f"{text}{line}{header}{line}builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n{own}"


def joint_state(dice: Dice, k: int, encoding: str) -> bytes:
    """Return a message of joints, of any encoding."""
    if encoding == "json":
        odd = (None, True, [], {}, "x", 10**30, [[1], [1, 2]], {"a": {"b": [1]}}, [None])
        value: dict[str, Any] = {
            "header": {"stamp": {"sec": dice.or_odd(k, odd), "nanosec": 5}, "frame_id": "a"},
            "name": ["a"],
            "position": dice.or_odd([1.0], odd),
            "effort": [2.0],
        }
        text = json.dumps(value) if not dice.lie() else "[" * dice.count(ROOM)
        return dice.or_odd(text, ('{"name": [', "1e999", "{}", '{"position": NaN}')).encode()
    data = b"" if encoding == "ros1" else bytes((0, dice.or_odd(1, (0, 2, 255)), 0, 0))
    base = len(data)

    def put(code: str, value: float) -> None:
        nonlocal data
        if encoding != "ros1":
            data += bytes(-(len(data) - base) % struct.calcsize(code))
        data += struct.pack("<" + code, value)

    put("i", dice.or_odd(k, (-(2**31), 2**31 - 1)))
    put("I", dice.or_odd(1000, (2**32 - 1,)))
    names = ["base", *(["a", "b"] if not dice.lie() else ["a"] * dice.count(5000))]
    for index, name in enumerate(names):
        if index == 1:
            put("I", dice.size(len(names) - 1, 2**32 - 1))
        text_ = dice.name(name).encode("utf-8", "surrogatepass") + b"\0"
        put("I", dice.size(len(text_), 2**32 - 1))
        data += text_
    for _ in range(3):
        put("I", dice.size(len(names) - 1, 2**32 - 1))
        for _ in names[1:]:
            put("d", float(dice.or_odd(0.5, (np.nan, np.inf, 1e308))))
    return dice.changed(data) if dice.lie() else data


def mcap(dice: Dice, folder: Path) -> Path:
    """Write an MCAP file: records, chunks and a summary, whose checksums are right."""

    def text(value: str) -> bytes:
        data = value.encode("utf-8", "surrogatepass")
        return struct.pack("<I", dice.size(len(data), 2**32 - 1)) + data

    def record(opcode: int, content: bytes) -> bytes:
        opcode = dice.or_odd(opcode, (0, 1, 2, 6, 7, 11, 15, 255))
        return struct.pack("<BQ", opcode, dice.size(len(content))) + content

    encoding = dice.one(("cdr", "cdr", "json", "ros1"))
    kind = "sensor_msgs/JointState" if encoding == "ros1" else "sensor_msgs/msg/JointState"
    own = definition(dice).encode("utf-8", "surrogatepass")
    format_ = {"json": "jsonschema", "ros1": "ros1msg"}.get(encoding, "ros2msg")
    schema = struct.pack("<H", 1) + text(dice.name(kind)) + text(dice.or_odd(format_, ("ros2idl",)))
    schema += struct.pack("<I", dice.size(len(own), 2**32 - 1)) + own
    channels = dice.count(5000) if dice.lie() else 1
    heads = [record(3, schema)]
    if dice.lie():  # files of a gigabyte take more memory than any mistake
        heads = heads * min(dice.count(3000), 10_000_000 // len(heads[0]) + 1)
    for c in range(channels):
        ids = struct.pack("<HH", c, dice.size(1, 2**16 - 1))
        heads.append(record(4, ids + text(dice.name(f"/t{c}")) + text(encoding) + bytes(4)))
    messages = [
        record(
            5,
            struct.pack("<HIQQ", dice.size(k % channels, 2**16 - 1), k, dice.size(10**9 * k), 0)
            + joint_state(dice, k, encoding),
        )
        for k in range(dice.count(60))
    ]
    if dice.lie():
        messages += [record(5, bytes(22) + LONG)] * dice.count(20)
    inside = b"".join(heads + messages)
    data = b"".join(heads)
    for _ in range(min(dice.or_odd(1, (0, 2, 30)), max(1, 30_000_000 // max(len(inside), 1)))):
        name = dice.one(("", "zstd", "lz4"))
        body = {"zstd": zstandard.compress, "lz4": lz4.frame.compress, "": bytes}[name](inside)
        name = dice.or_odd(name, ("zstd", "lz4", "none"))
        size = dice.size(len(inside))
        head = struct.pack("<QQQI", 0, 1, size, dice.or_odd(zlib.crc32(inside), (0, 1)))
        data += record(6, head + text(name) + struct.pack("<Q", dice.size(len(body))) + body)
    if dice.lie():
        data += b"".join(messages)
    data = b"\x89MCAP0\r\n" + data + struct.pack("<BQI", 15, 4, 0)
    start = len(data)
    counts = struct.pack("<QHIIIIQQI", dice.size(len(messages)), 1, channels, 0, 0, 1, 0, 1, 0)
    summary = b"".join([*heads, record(11, counts)])
    foot = struct.pack("<QQ", dice.size(start), 0)
    before = summary + struct.pack("<BQ", 2, 20) + foot
    data += before + struct.pack("<I", dice.or_odd(zlib.crc32(before), (0, 1))) + b"\x89MCAP0\r\n"
    path = folder / "run.mcap"
    path.write_bytes(dice.changed(data) if dice.lie() else data)
    return path


SCHEMAS = (
    "CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
    "SELECT i AS id, 1 AS topic_id, i AS timestamp, x'00' AS data FROM n",
    "CREATE VIRTUAL TABLE messages USING fts5(id, topic_id, timestamp, data)",
    "CREATE VIRTUAL TABLE messages USING rtree(id, topic_id, timestamp, data, e)",
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data AS (zeroblob(99999)))",
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data BLOB) WITHOUT ROWID",
    "CREATE TABLE messages(id INTEGER PRIMARY KEY DESC, topic_id, timestamp, data BLOB)",
    "CREATE TABLE messages(id TEXT PRIMARY KEY, topic_id, timestamp, data BLOB)",
    "CREATE TABLE messages(id, topic_id, timestamp, data)",
)
PLAIN = (
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, "
    "timestamp INTEGER NOT NULL, data BLOB NOT NULL)"
)


def db3(dice: Dice, folder: Path) -> Path:
    """Write the SQLite file of a bag, in which schema, rows or pages are odd."""
    path = folder / "run.db3"
    with closing(sqlite3.connect(path)) as base, suppress(sqlite3.Error), base:
        base.execute(f"PRAGMA page_size = {dice.one((512, 4096, 65536))}")
        base.execute(
            "CREATE TABLE topics(id INTEGER PRIMARY KEY, name, type, serialization_format)"
        )
        base.execute(dice.or_odd(PLAIN, SCHEMAS))
        if dice.lie():
            base.execute("CREATE INDEX i ON messages(hex(data))")
        many = dice.count(3000) if dice.lie() else 1
        for k in range(many):
            kind = dice.name("sensor_msgs/msg/JointState")
            row = (k, dice.name(f"/t{k}"), kind, dice.or_odd("cdr", ("json", None, 3, b"\xff")))
            base.execute("INSERT INTO topics VALUES (?, ?, ?, ?)", row)
        for k in range(dice.count(300)):
            stamp = dice.or_odd(k * 10**7, (-(2**63), 2**63 - 1, 0.5, "x", b"x"))
            data: Any = joint_state(dice, k, "cdr")
            data = dice.or_odd(data, (b"", "text", 3, 0.5, LONG))
            row = (dice.or_odd(k, (k + 2**40,)), dice.or_odd(k % many, (99, "x", -1)), stamp, data)
            base.execute("INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)", row)
    raw = path.read_bytes()
    if (
        dice.lies and dice.rng.random() < 0.5 and len(raw) >= 512
    ):  # heads of pages, and the pointers behind
        size = max(int.from_bytes(raw[16:18], "big"), 512)
        size = 65536 if size == 1 else size
        for _ in range(dice.count(4)):
            begin = size * int(dice.rng.integers(max(len(raw) // size, 1)))
            raw = dice.changed(raw, slice(begin, begin + dice.one((12, 40, size))))
        path.write_bytes(raw[: dice.or_odd(len(raw), (len(raw) // 2, 100, 99, 512))])
    return path


# Arrays.


def npz(dice: Dice, folder: Path) -> Path:
    """Write an NPZ file whose arrays' heads, or archive's entries, are odd."""
    path = folder / "run.npz"
    memory = io.BytesIO()
    kinds = (
        "<f8",
        "<f4",
        "<i8",
        "|b1",
        "<U3",
        "|S4",
        "<c16",
        "|O",
        "<M8[ns]",
        "|V0",
        ">f8",
        "<f99",
    )
    with zipfile.ZipFile(memory, "w") as file:
        for k in range(dice.count(12_000) if dice.lie() and dice.lie() else 3):
            values = np.arange(dice.or_odd(100, (0, 1, 99)), dtype=float)
            shape = dice.or_odd(
                (values.size,), ((-1,), (2**40,), (0, 2**62), (10, 10), (1,) * 40, ())
            )
            order = dice.or_odd(False, (True,))
            head = f"{{'descr': '{dice.or_odd('<f8', kinds)}', 'fortran_order': {order}, "
            head += dice.or_odd(f"'shape': {shape}, }}", ("}", "[" * 3000, "'shape': (1e9,)}", ""))
            body = b"\x93NUMPY" + bytes((dice.or_odd(1, (2, 3, 9)), 0))
            body += struct.pack("<H", dice.size(len(head) + 1, 2**16 - 1)) + head.encode() + b"\n"
            body += LONG if dice.lie() and k < 30 else values.tobytes()
            sound = ("t", "q.a", "tau.a")[k] if k < 3 else f"c{k}"
            name = dice.name(dice.or_odd(sound, ("t", "q.a"))) + dice.or_odd(".npy", ("", ".txt"))
            method = dice.one((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            method = dice.or_odd(method, (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2))
            with suppress(ValueError, UnicodeError):
                file.writestr(zipfile.ZipInfo(name), body, method)
    data = memory.getvalue()
    if dice.lie():
        data = dice.changed(data, slice(max(len(data) - 600, 0), None))
    path.write_bytes(dice.changed(data) if dice.lie() else data)
    return path


def parquet(dice: Dice, folder: Path) -> Path:
    """Write a Parquet file of odd types, and odd in the head of a page or in its foot."""
    rows = dice.or_odd(100, (0, 1, 3000, 1_000_000))
    base = np.arange(rows, dtype=float)
    odd = (
        lambda: pyarrow.array([None] * rows, pyarrow.float64()),
        lambda: pyarrow.array(["x"] * rows),
        lambda: pyarrow.array(["1"] * rows).dictionary_encode(),
        lambda: pyarrow.array([[1.0]] * rows),
        lambda: pyarrow.array(base.astype(np.float16)),
        lambda: pyarrow.array([2**63] * rows, pyarrow.uint64()),
        lambda: pyarrow.array([0] * rows, pyarrow.timestamp("ns")),
        lambda: pyarrow.nulls(rows),
    )
    wide = dice.lie() and rows < 10_000  # a file that is long and wide takes its maker minutes
    names = ["t", "q.a", "tau.a", *(f"c{k}" for k in range(dice.count(300) if wide else 1))]
    columns = [dice.one(odd)() if dice.lie() else pyarrow.array(base) for _ in names]
    path = folder / "run.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table(columns, names=[dice.name(n) for n in names]),
        path,
        compression=dice.one(("none", "snappy", "zstd", "gzip")),
        write_page_checksum=not dice.lie(),
        row_group_size=dice.one((7, 1000, None)) if rows < 10_000 else None,
        use_dictionary=bool(dice.rng.integers(2)),
    )
    if rows and dice.lie():
        with suppress(ValueError):  # pages of an odd kind
            lie_of_a_page(path, dice.size(8 * rows, 2**31 - 1), dice.one((None, 0, 2**31 - 1)))
    data = path.read_bytes()
    foot = int.from_bytes(data[-8:-4], "little")
    if dice.lies and dice.rng.random() < 0.7:
        where = (slice(len(data) - 8 - foot, len(data) - 8), slice(4, 60), slice(-8, None))
        path.write_bytes(dice.changed(data, dice.one(where)))
    return path


# ULog.

POSE = (
    ("uint64_t", "timestamp", 1),
    ("uint64_t", "timestamp_sample", 1),
    ("float", "position", 3),
    ("float", "q", 4),
    ("float", "velocity", 3),
    ("float", "angular_velocity", 3),
    ("uint8_t", "pose_frame", 1),
    ("uint8_t", "velocity_frame", 1),
)
ODD_TYPES = ("float[65535]", "float[-1]", "own", "vehicle_odometry", "char[9]", "[", "float[1", "")


def ulog(dice: Dice, folder: Path) -> Path:
    """Write a ULog whose types, subscriptions or lengths of messages are odd."""

    def message(kind: str, body: bytes) -> bytes:
        size = dice.size(len(body), 2**16 - 1)
        return struct.pack("<HB", size, ord(dice.or_odd(kind, "FADBISOXQ\0"))) + body

    data = dice.or_odd(b"ULog\x01\x12\x35\x01", (b"ULog", b"ULog\x01\x12\x35\xff")) + bytes(8)
    flags = bytes(8) + bytes((dice.or_odd(0, (1, 2)),)) + bytes(7)
    offsets = (dice.or_odd(0, ODD_SIZES) for _ in range(3))
    data += message("B", flags + struct.pack("<3Q", *(min(x, 2**63) for x in offsets)))
    own = "own:" + ";".join(f"{dice.one(ODD_TYPES)} f{k}" for k in range(dice.count(300)))
    data += message("F", own.encode()) if dice.lie() else b""
    fields = [f"{t}{f'[{n}]' if n > 1 else ''} {name}" for t, name, n in POSE]
    fields = [dice.or_odd(f, [f"{t} x" for t in ODD_TYPES]) for f in fields]
    text = dice.or_odd("vehicle_odometry", ODD_NAMES) + ":" + ";".join(fields) + ";"
    data += message("F", text.encode("utf-8", "surrogatepass"))
    for k in range(dice.count(3000) if dice.lie() else 1):
        name = dice.or_odd("vehicle_odometry", ("own", "", "x"))
        data += message("A", struct.pack("<BH", 0, dice.or_odd(k, (0, 9))) + name.encode())
    for k in range(dice.count(400)):
        stamp = dice.or_odd(1000 * k, (0, 2**63, 2**64 - 1))
        numbers = [float(dice.number().replace(",", "").replace("0x", "") or 0) for _ in range(13)]
        with np.errstate(over="ignore"):
            single = np.array(numbers).astype("<f4").tobytes()
        frames = bytes((dice.or_odd(1, (0, 2, 255)), dice.or_odd(1, (0, 2, 3))))
        body = struct.pack("<HQQ", dice.or_odd(0, (1, 9)), stamp, stamp) + single + frames
        data += message("D", body[: dice.or_odd(len(body), (0, 1, 10, len(body) - 1))])
        data += message("O", b"\1\0") if dice.lie() else b""
    path = folder / "run.ulg"
    path.write_bytes(dice.changed(data) if dice.lie() else data)
    return path


GENERATORS: dict[str, Callable[[Dice, Path], Path]] = {
    "metadata": metadata,
    "csv": csv,
    "urdf": urdf,
    "mcap": mcap,
    "db3": db3,
    "npz": npz,
    "parquet": parquet,
    "ulog": ulog,
}
