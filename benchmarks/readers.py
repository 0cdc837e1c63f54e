"""Whether readers and pages take time in proportion: ten times the size, at most 15 times the time.

python -m benchmarks.readers --store

What is searched for each of its entries takes the square of their number: a hundred times the time.
Each case is read in a small and a large size, whether it is accepted or refused; the processor's
time counts, the best of three. Sizes are such that the small one takes some milliseconds, or the
largest that is not refused by its size alone.
"""

from __future__ import annotations

import gc
import io
import json
import math
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pyarrow
import pyarrow.parquet
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag2 import StoragePlugin
from tests.messages import (
    JOINT_STATE,
    ROS2,
    Messages,
    joint_states,
    made,
    save_bag,
    save_db3,
    save_folder,
    save_mcap,
    vector,
)

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.applications.payload import checkpoint
from heft.applications.payload.node import Node
from heft.applications.payload.sensors import Sensors
from heft.display import animation, page, templates, text
from heft.errors import HeftError
from heft.files import require_schema
from heft.models import Options, Robot
from heft.models.denavit_hartenberg import expression
from heft.recordings import ColumnMap, Recording
from heft.recordings.formats.rosbag2 import described
from heft.recordings.map_draft import draft_map
from heft.streams import Alignment, Device, Piece
from heft.streams.messages import Reader

LARGEST_RATIO = 15.0
TENFOLD = 10
LEAST = 0.002  # [s]; shorter times are taken for this long: they are noise
REPEATS = 3
DIVIDED = 1  # by this are all sizes
WRENCH = "geometry_msgs/msg/WrenchStamped"
LIMIT = '<limit lower="-1" upper="1" velocity="1" effort="1"/>'
METADATA = "rosbag2_bagfile_information:\n  storage_identifier: mcap\n  compression_mode: ''\n"
Use = Callable[[], object]
Case = tuple[int, Callable[[Path, int], Use]]


def read(path: Path, damaged: bool = False) -> int:
    """Read all of a log; return the number of its rows."""
    opened = Recording.open(path, damaged=(lambda _: None)) if damaged else Recording.open(path)
    return sum(len(block) for block in opened.table.read(opened.table.columns))


def written(path: Path, content: str) -> Path:
    """Write a text; return its path."""
    path.write_text(content, encoding="utf-8")
    return path


# Logs.


def csv(path: Path, rows: int, columns: int = 3, bad: bool = False) -> Path:
    """Write numbers as CSV, in every other line with a text if it is to be bad."""
    head = ",".join(["t", *(f"q.a{k}" for k in range(columns - 1))])
    lines = [",".join([f"{0.001 * k:.3f}", *["1.5"] * (columns - 1)]) for k in range(rows)]
    if bad:
        lines[1::2] = ["x" + line for line in lines[1::2]]
    return written(path, "\n".join([head, *lines]) + "\n")


def parquet(path: Path, rows: int, columns: int = 3, **settings: Any) -> Path:
    """Write numbers as Parquet."""
    names = ["t", *(f"q.a{k}" for k in range(columns - 1))]
    values = np.random.default_rng(0).normal(size=rows)
    table = pyarrow.table(dict.fromkeys(names, values))
    pyarrow.parquet.write_table(table, path, use_dictionary=False, **settings)
    return path


def npz(path: Path, arrays: int) -> Path:
    """Write many arrays."""
    with zipfile.ZipFile(path, "w") as file:
        memory = io.BytesIO()
        np.save(memory, np.zeros(1))
        for k in range(arrays):
            file.writestr(f"a{k}.npy", memory.getvalue())
    return path


def saved(path: Path, **arrays: Any) -> Path:
    """Write arrays as NPZ."""
    np.savez(path, **arrays)
    return path


def mcap(path: Path, channels: int, definition: str, kind: str = JOINT_STATE) -> Path:
    """Write a message of each of some channels."""
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType.ZSTD, chunk_size=1 << 20)
        writer.start()
        schema = writer.register_schema(kind, "ros2msg", definition.encode())
        for k in range(channels):
            channel = writer.register_channel(f"/t{k}", "cdr", schema)
            writer.add_message(channel, 10**9, b"\0\1\0\0" + bytes(28), 10**9)
        writer.finish()
    return path


def states(count: int, joints: int = 2) -> Messages:
    """Return messages of joint states."""
    at = 0.001 * np.arange(count)
    columns = {f"q.j{k}": np.sin(at + k) for k in range(joints)}
    return joint_states(columns, [10**18 + int(1e9 * t) for t in at])


def wrenches(count: int, topics: int = 1, frames: int = 1) -> Messages:
    """Return wrenches under some topics, of frames that change if there are many."""
    log = Messages()
    both = {"force": vector(1.0, 2.0, 3.0), "torque": vector(0.1, 0.2, 0.3)}
    for k in range(count):
        for topic in range(topics):
            frame = f"f{topic}" if frames == 1 else f"f{k % frames}"
            stamp = 10**18 + k * 10**6
            log.add(f"/w{topic}", WRENCH, stamp, frame, wrench=("geometry_msgs/msg/Wrench", both))
    return log


def bag_of_files(folder: Path, count: int) -> Path:
    """Write a rosbag2 of many files."""
    folder.mkdir()
    names = [f"{k}.mcap" for k in range(count)]
    listed = "".join(f"  - {name}\n" for name in names)
    written(folder / "metadata.yaml", METADATA + "  relative_file_paths:\n" + listed)
    source = mcap(folder / "source", 3, "", "std_msgs/msg/String")
    for name in names:
        (folder / name).hardlink_to(source)
    return folder


def cut_off(path: Path) -> Path:
    """Cut a file's end off."""
    path.write_bytes(path.read_bytes()[:-200])
    return path


def experiment(folder: Path, parts: int) -> Path:
    """Write an experiment whose signals are in many files."""
    folder.mkdir()
    lines = []
    for k in range(parts):
        saved(folder / f"{k}.npz", **{"t": np.arange(100.0), f"q.a{k}": np.arange(100.0)})
        lines.append(f'[[part]]\nfile = "{k}.npz"\n')
    return written(folder / "all.toml", "".join(lines))


LOGS: dict[str, Case] = {
    "CSV, rows": (200_000, lambda p, n: partial(read, csv(p / f"{n}.csv", n))),
    "CSV, columns": (9_000, lambda p, n: partial(read, csv(p / f"{n}.csv", 5, n))),
    "CSV, columns beyond the limit": (
        100_000,
        lambda p, n: partial(read, csv(p / f"{n}.csv", 1, n)),
    ),
    "CSV salvaged, bad lines": (
        50_000,
        lambda p, n: partial(read, csv(p / f"{n}.csv", n, bad=True), True),
    ),
    "Parquet, rows": (2_000_000, lambda p, n: partial(read, parquet(p / f"{n}.parquet", n))),
    "Parquet, columns": (5_000, lambda p, n: partial(read, parquet(p / f"{n}.parquet", 5, n))),
    "Parquet, groups of rows": (
        5_000,
        lambda p, n: partial(read, parquet(p / f"{n}.parquet", 5 * n, row_group_size=5)),
    ),
    "Parquet, pages": (
        20_000,
        lambda p, n: partial(
            read, parquet(p / f"{n}.parquet", 8 * n, write_batch_size=8, data_page_size=64)
        ),
    ),
    "NPZ, rows": (1_000_000, lambda p, n: partial(read, saved(p / f"{n}.npz", t=np.zeros(n)))),
    "NPZ, arrays": (9_000, lambda p, n: partial(read, npz(p / f"{n}.npz", n))),
    "NPZ, columns of an array": (
        9_000,
        lambda p, n: partial(read, saved(p / f"{n}.npz", t=np.zeros(5), q=np.zeros((5, n)))),
    ),
    "MCAP, messages": (5_000, lambda p, n: partial(read, save_mcap(p / f"{n}.mcap", states(n)))),
    "MCAP, joints": (2_000, lambda p, n: partial(read, save_mcap(p / f"{n}.mcap", states(3, n)))),
    "MCAP, chunks": (
        5_000,
        lambda p, n: partial(read, save_mcap(p / f"{n}.mcap", states(n), chunk_size=1)),
    ),
    "MCAP, channels": (
        20_000,
        lambda p, n: partial(read, mcap(p / f"{n}.mcap", n, "", "std_msgs/msg/String")),
    ),
    "MCAP, channels of joint states": (
        20_000,
        lambda p, n: partial(read, mcap(p / f"{n}.mcap", n, "float64[] position")),
    ),
    "MCAP, topics that are joined": (
        250,
        lambda p, n: partial(read, save_mcap(p / f"{n}.mcap", wrenches(5, n))),
    ),
    "MCAP, frames that change": (
        250,
        lambda p, n: partial(read, save_mcap(p / f"{n}.mcap", wrenches(n, 1, n))),
    ),
    "MCAP without its end, messages": (
        5_000,
        lambda p, n: partial(read, cut_off(save_mcap(p / f"{n}.mcap", states(n))), True),
    ),
    "MCAP, fields of a definition": (
        5_000,
        lambda p, n: partial(
            read, mcap(p / f"{n}.mcap", 1, "".join(f"bool a{k}\n" for k in range(n)))
        ),
    ),
    "rosbag 1, messages": (5_000, lambda p, n: partial(read, save_bag(p / f"{n}.bag", states(n)))),
    "rosbag 1, topics": (
        250,
        lambda p, n: partial(read, save_bag(p / f"{n}.bag", wrenches(3, n))),
    ),
    "SQLite, messages": (5_000, lambda p, n: partial(read, save_db3(p / f"{n}.db3", states(n)))),
    "SQLite, topics": (
        250,
        lambda p, n: partial(read, save_db3(p / f"{n}.db3", wrenches(3, n))),
    ),
    "rosbag2, messages": (
        5_000,
        lambda p, n: partial(read, save_folder(p / f"{n}", states(n), StoragePlugin.MCAP)),
    ),
    "rosbag2, files": (300, lambda p, n: partial(read, bag_of_files(p / f"{n}", n))),
    "rosbag2, lines of metadata": (
        40_000,
        lambda _, n: partial(described, METADATA + "  a:\n  - b\n" * n),
    ),
    "experiment, files": (200, lambda p, n: partial(read, experiment(p / f"{n}", n))),
}


# Models and settings.


def urdf(joints: int, kind: str = "fixed", chain: bool = False, more: str = "") -> bytes:
    """Return a robot of many joints, in a chain or a star."""
    first = '<joint name="j0" type="revolute"><parent link="w"/><child link="l0"/></joint>'
    parts = [
        '<robot name="r"><link name="w"/><link name="l0"/>',
        first.replace(">", f">{LIMIT}", 1),
    ]
    for k in range(1, joints + 1):
        parent = f"l{k - 1}" if chain else "l0"
        parts.append(
            f'<link name="l{k}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
            f'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j{k}" type="{kind}">'
            f'<parent link="{parent}"/><child link="l{k}"/><axis xyz="0 0 1"/>'
            f"{LIMIT}{more}</joint>"
        )
    return "".join([*parts, "</robot>"]).encode()


def mjcf(bodies: int, chain: bool, joint: str = "", classes: int = 0) -> bytes:
    """Return a model of many bodies, in a chain or a star, and of many classes of defaults."""
    body = '<body pos="0 0 1">' + joint + '<inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'
    inside = body * bodies + "</body>" * bodies if chain else (body + "</body>") * bodies
    defaults = "".join(f'<default class="c{k}"><geom size="1"/></default>' for k in range(classes))
    return (
        f'<mujoco><default>{defaults}</default><worldbody><body name="b">'
        f'<joint name="j" axis="0 0 1"/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'
        f"{inside}</body></worldbody></mujoco>"
    ).encode()


def names(count: int, letter: str) -> list[str]:
    """Return names, each another."""
    return [f"{letter}{k}" for k in range(count)]


def in_toml(path: Path, use: Callable[[Path], object], lines: list[str]) -> Use:
    """Return the reading of a TOML file."""
    return partial(use, written(path, "".join(lines)))


def attributes(count: int) -> bytes:
    """Return a model with an element of many attributes."""
    listed = " ".join(f'a{k}="1"' for k in range(count))
    return f'<robot name="r"><link name="a" {listed}/></robot>'.encode()


MODELS: dict[str, Case] = {
    "URDF, attributes of an element": (
        30_000,
        lambda _, n: partial(Robot.from_urdf_text, attributes(n)),
    ),
    "URDF, elements": (
        30_000,
        lambda _, n: partial(Robot.from_urdf_text, b"<robot>" + b"<a/>" * n + b"</robot>"),
    ),
    "URDF, fixed links in a star": (
        3_000,
        lambda _, n: partial(Robot.from_urdf_text, urdf(n) + b" "),
    ),
    "URDF, fixed links in a chain": (
        1_000,
        lambda _, n: partial(Robot.from_urdf_text, urdf(n, chain=True)),
    ),
    "URDF, moving links in a star": (
        300,
        lambda _, n: partial(Robot.from_urdf_text, urdf(n, "revolute")),
    ),
    "URDF, moving links in a chain": (
        300,
        lambda _, n: partial(Robot.from_urdf_text, urdf(n, "revolute", chain=True)),
    ),
    "URDF, joints that follow": (
        300,
        lambda _, n: partial(Robot.from_urdf_text, urdf(n, "revolute", more='<mimic joint="j0"/>')),
    ),
    "MJCF, bodies in a star": (
        2_000,
        lambda p, n: partial(Robot.from_file, _model(p / f"{n}.xml", mjcf(n, chain=False))),
    ),
    "MJCF, bodies in a chain": (
        150,
        lambda p, n: partial(Robot.from_file, _model(p / f"{n}.xml", mjcf(n, chain=True))),
    ),
    "MJCF, moving bodies": (
        300,
        lambda p, n: partial(
            Robot.from_file, _model(p / f"{n}.xml", mjcf(n, False, '<joint axis="0 1 0"/>'))
        ),
    ),
    "MJCF, classes": (
        10_000,
        lambda p, n: partial(Robot.from_file, _model(p / f"{n}.xml", mjcf(1, False, "", n))),
    ),
    "Denavit-Hartenberg, rows": (
        200,
        lambda p, n: in_toml(
            p / f"{n}.toml",
            Robot.from_file,
            [
                '[link]\nconvention = "standard"\ntable = [\n',
                *['[0.1, 0, 0.2, 0, "revolute"],\n'] * n,
                "]\n",
            ],
        ),
    ),
    "expression, letters": (
        200,
        lambda _, n: partial(expression, " + ".join(["m1*L1"] * (n // 8)), "here"),
    ),
    "column map, signals": (
        500,
        lambda p, n: in_toml(
            p / f"{n}.toml",
            ColumnMap.from_toml,
            [f"[q]\njoints = {names(n, 'a')}\ncolumns = {names(n, 'c')}\n"],
        ),
    ),
    "column map, use": (
        500,
        lambda p, n: partial(
            Recording.open,
            saved(p / f"{n}.npz", t=np.zeros(3), **{c: np.zeros(3) for c in names(n, "c")}),
            ColumnMap.from_dict({"q": {"joints": names(n, "a"), "columns": names(n, "c")}}),
        ),
    ),
    "draft of a column map, columns": (
        2_000,
        lambda p, n: partial(draft_map, Recording.open(parquet(p / f"{n}.pq", 20, n)).table, ()),
    ),
    "options, joints": (
        5_000,
        lambda p, n: in_toml(
            p / f"{n}.toml", Options.from_toml, [f"[joint.a{k}]\ngain = 2.0\n" for k in range(n)]
        ),
    ),
    "sensors": (
        2_000,
        lambda p, n: in_toml(
            p / f"{n}.toml",
            Sensors.from_toml,
            [f'[sensor.a{k}]\nkind = "wrench"\n' for k in range(n)],
        ),
    ),
}


def _model(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# What is heard live, what is gone on from, and results.

WRIST = {"wrist": {"kind": "wrench", "frame": "tool0", "noise": {"force": 0.1, "torque": 0.005}}}
NODE = Node(Sensors.from_dict({"sensor": {**WRIST, "imu": {"kind": "imu"}}}))
ALONE = Device("alone", ("force.x",))


def heard(messages: list[tuple[str, bytes]]) -> Use:
    """Return the decoding of messages by a reader that knows none."""
    return lambda: Reader().read(messages)


def said(count: int, names: int = 7, changing: bool = False) -> list[dict[str, float]]:
    """Return maps of numbers, of other names each if they change."""
    every = [f"q.a{k}" for k in range(names)]
    return [
        {"t": 0.001 * k, **{(f"{n}_{k}" if changing else n): 1.5 for n in every}}
        for k in range(count)
    ]


def cdr(count: int, frames: int = 1) -> list[tuple[str, bytes]]:
    """Return wrenches as ROS sends them, of frames that change if there are many."""
    log = wrenches(count, 1, frames)
    key = "0/w0/geometry_msgs::msg::dds_::WrenchStamped_/RIHS01_0"
    return [(key, bytes(ROS2.serialize_cdr(made(ROS2, m), m.kind))) for m in log.messages]


def aligned(count: int, parts: int) -> Use:
    """Return the alignment of a device's samples in some parcels."""
    time = np.arange(count) * 10**6
    values = np.random.default_rng(0).normal(size=(count, 1))
    pieces = [
        Piece(ALONE.names, t, v)
        for t, v in zip(np.array_split(time, parts), np.array_split(values, parts), strict=True)
    ]

    def use() -> None:
        alignment = Alignment((ALONE,))
        state = alignment.start()
        for piece in pieces:
            state, _ = alignment.step(state, float(piece.stamps[-1]) / 1e9, [piece])

    return use


def kept(path: Path, padding: int) -> Use:
    """Return the reading of a checkpoint that is too long."""
    import hashlib

    content = json.dumps({"a": ["x"] * padding})
    digest = hashlib.sha256(content.encode()).hexdigest()
    return partial(checkpoint.load, written(path, f"{digest}\n{content}\n"), NODE)


def results(count: int) -> Use:
    """Return the check of results with many parameters."""
    from heft.applications.identification.results import schema

    root = Path(__file__).parents[1]
    made = json.loads((root / "fuzz/corpus/results/small.json").read_text(encoding="utf-8"))
    made["parameters"] = made["parameters"][:1] * count
    return partial(require_schema, made, schema())


STREAMS: dict[str, Case] = {
    "JSON, messages": (
        20_000,
        lambda _, n: heard([("k", json.dumps(m).encode()) for m in said(n)]),
    ),
    "JSON, names": (
        500,
        lambda _, n: heard([("k", json.dumps(m).encode()) for m in said(200, n)]),
    ),
    "JSON, names that change": (
        5_000,
        lambda _, n: heard([("k", json.dumps(m).encode()) for m in said(n, 7, True)]),
    ),
    "JSON, keys": (
        20_000,
        lambda _, n: heard([(f"k{k}", json.dumps(m).encode()) for k, m in enumerate(said(n))]),
    ),
    "CBOR, messages": (20_000, lambda _, n: heard([("k", cbor2.dumps(m)) for m in said(n)])),
    "CBOR, names": (500, lambda _, n: heard([("k", cbor2.dumps(m)) for m in said(200, n)])),
    "CDR, messages": (20_000, lambda _, n: heard(cdr(n))),
    "CDR, frames that change": (5_000, lambda _, n: heard(cdr(n, n))),
    "alignment, samples at once": (200_000, lambda _, n: aligned(n, 1)),
    "alignment, samples one by one": (10_000, lambda _, n: aligned(n, n)),
    "checkpoint, bytes": (200_000, lambda p, n: kept(p / f"{n}.kept", n)),
    "results, parameters": (10_000, lambda _, n: results(n)),
}


# Pages and what is printed.


def plots(count: int, points: int) -> Use:
    """Return the gathering of plots for a page."""
    x = np.random.default_rng(0).normal(size=(count, points))

    def use() -> str:
        drawings = templates.Drawings()
        for k, row in enumerate(x):
            series = page.Series("a", "measured", row, row)
            drawings.add(page.Plot(f"p{k}", "x", (series,), "g").content)
        return json.dumps(drawings.content)

    return use


class Motion:
    """A motion of a robot's joints."""

    def __init__(self, seconds: float, joints: int) -> None:
        self.time = np.linspace(0.0, seconds, round(100 * seconds) + 1)
        self.position = np.sin(self.time[:, None] + np.arange(joints))


def played(seconds: float, joints: int) -> Use:
    """Return the page of a motion."""
    robot = Robot.from_urdf_text(urdf(joints, "revolute", chain=True))
    return partial(animation.page, robot, Motion(seconds, len(robot.joints)))


def table_page(rows: int, cell: str = "a") -> Use:
    """Return a page with a table of many rows."""
    made = templates._environment().from_string(
        "{% import 'display/parts.html.jinja' as parts %}{{ parts.table(shown) }}"
    )
    return lambda: made.render(shown=page.Table("", ["a", "b"], [[cell, "1"]] * rows, sums=True))


PAGES: dict[str, Case] = {
    "page, rows of a table": (10_000, lambda _, n: table_page(n)),
    "page, letters of a cell": (200_000, lambda _, n: table_page(3, "a + " * (n // 4) + "a")),
    "page, plots": (1_000, lambda _, n: plots(n, 500)),
    "page, points of a plot": (300_000, lambda _, n: plots(2, n)),
    "page of a motion, time": (200, lambda _, n: played(n, 3)),
    "page of a motion, joints": (60, lambda _, n: played(5.0, n)),
    "text, rows of a table": (
        50_000,
        lambda _, n: partial(text.table, ["a", "b"], [["a", "1"]] * n),
    ),
    "text, letters": (1_000_000, lambda _, n: partial(templates.visible, "\x1b" * n)),
}

CASES: Mapping[str, Case] = LOGS | MODELS | STREAMS | PAGES


def seconds(use: Use, repeats: int) -> float:
    """Return the processor's time that something takes, the best of some [s], refused or not."""
    times = []
    gc.disable()  # its walks over all objects are none of the reader's
    for _ in range(repeats):
        start = time.process_time()
        with suppress(HeftError, ValueError):
            use()
        times.append(time.process_time() - start)
    gc.enable()
    return min(times)


def ratio(name: str, folder: Path, enough: float = 0.0) -> tuple[float, float]:
    """Return how many times as long a case takes in its large size, and that time [s].

    Args:
        name: Of the case.
        folder: Where its files are written.
        enough: A ratio below which the large size is not read again for a better one.
    """
    count, made = CASES[name]
    count = max(count // DIVIDED, TENFOLD)
    small, large = made(folder, count // TENFOLD), made(folder, count)
    seconds(small, 1)  # imports, and what is compiled
    few, many = max(seconds(small, REPEATS), LEAST), math.inf
    for _ in range(REPEATS):
        if many >= enough * few:
            many = min(many, seconds(large, 1))
    return many / few, many


@benchmark({"DIVIDED": 500, "REPEATS": 1}, unstored=("only",))
def main(*, only: str = "") -> Iterator[Row]:
    """Yield the rows.

    Args:
        only: Part of the names of cases.
    """
    warnings.simplefilter("ignore")
    for name in (n for n in CASES if only in n):
        with tempfile.TemporaryDirectory() as folder:
            times, longest = ratio(name, Path(folder))
        told = f"{longest:.3f} s"
        yield at_most(f"{name}: time of 10 times the size", times, "times", LARGEST_RATIO, told)


if __name__ == "__main__":
    main()
