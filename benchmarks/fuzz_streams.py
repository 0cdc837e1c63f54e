"""Fuzzing of what a live node reads from outside, with generators that know the formats.

python -m benchmarks.fuzz_streams --minutes 30 --store

Changes of bytes alone rarely pass a checksum or the first field. Here messages are made by their
grammar (JSON, CBOR with tags and indefinite lengths, CDR by ROS's definitions) and checkpoints by
their fields, with a right hash; then one or a few places are made ill. Whatever comes: no
exception but heft's own, no second of the processor without an answer, bounded memory.
"""

from __future__ import annotations

import copy
import hashlib
import json
import resource
import struct
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cbor2
import numpy as np

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.cooperation import ContactSignals, CooperativeNode, TeamFile, TeamRobot
from heft.applications.cooperation.live import Journal
from heft.applications.cooperation.wire import encoded
from heft.applications.payload import checkpoint
from heft.applications.payload.node import Node, NodeState, load_estimate
from heft.applications.payload.sensors import Sensors
from heft.errors import HeftError
from heft.information import Graph
from heft.recordings import KINDS
from heft.streams import Piece
from heft.streams.messages import LARGEST, Reader

SENSORS = {
    "wrist": {"kind": "wrench", "frame": "tool0", "noise": {"force": 0.1, "torque": 0.005}},
    "imu": {"kind": "imu"},
}
NODE = Node(Sensors.from_dict({"sensor": SENSORS}))
SLOWEST = 1.0  # [s] of the processor to an answer
MOST_MEMORY = 200.0  # [MB] beyond that at the start
STEPS = 40  # after which a node begins anew
Rng = np.random.Generator
ILL_NUMBERS = (
    0, -1, 1, 2**31, -(2**31), 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400,
    0.5, -0.0, 1e-320, 1e18, 1e300, -1e300, float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
ILL_VALUES = (*ILL_NUMBERS, None, True, False, "", "1", "\ud800", [], [1.0], {}, {"a": 1})
ILL_NAMES = (
    "", "t", "force", "force.tool0", "force.tool0.x", "quat.imu.w", "a" * 300, "\ud800", "\x1b[2J",
    "\u202eforce", "\0", "force.\n.x", "q.j\u2028",
)  # fmt: skip


def some(rng: Rng, values: Any) -> Any:
    """Return one of some values."""
    return values[int(rng.integers(len(values)))]


def mapped(rng: Rng) -> dict[Any, Any]:
    """Return a map of names to numbers, mostly sound."""
    names = list(NODE.names)
    if rng.integers(4) == 0:
        names = names[: int(rng.integers(len(names)))]
    made: dict[Any, Any] = {"t": 1000.0 + 0.001 * int(rng.integers(2000))}
    made |= {name: float(rng.normal()) for name in names}
    for _ in range(int(rng.integers(3))):
        if rng.integers(2):
            made[some(rng, (*made, *ILL_NAMES))] = some(rng, ILL_VALUES)
        else:
            made[some(rng, ILL_NAMES)] = some(rng, ILL_NUMBERS)
    return made


def as_json(rng: Rng) -> bytes:
    """Return a map in JSON, at times nested, repeated or cut."""
    text = json.dumps(mapped(rng), ensure_ascii=bool(rng.integers(2)))
    kind = rng.integers(12)
    if kind == 0:
        text = text[:-1] + ', "t": ' + some(rng, ("1e999", "[" * 9000, "9" * 4500, "-0")) + "}"
    elif kind == 1:
        text = text.replace("1", some(rng, ("1" * 200, "0x1", "1_0", "NaN", "\\ud800")), 1)
    return text.encode("utf-8", some(rng, ("surrogatepass", "replace")))


def as_cbor(rng: Rng) -> bytes:
    """Return a map in CBOR, at times with tags, other keys, other lengths or indefinite ones."""
    made = mapped(rng)
    if rng.integers(3) == 0:
        place = some(rng, list(made))
        made[place] = some(
            rng,
            (
                cbor2.CBORTag(int(some(rng, (0, 1, 2, 4, 5, 28, 29, 258, 55799))), made[place]),
                {int(k) * (2**61 - 1) for k in range(int(rng.integers(1, 2000)))},
                cbor2.undefined,
                b"bytes",
                [[]],
            ),
        )
    if rng.integers(6) == 0:
        made[some(rng, (5, None, (1, 2), b"t", 1.5))] = 1.0
    try:
        data = cbor2.dumps(made, canonical=bool(rng.integers(2)) and all(map(_text, made)))
    except (ValueError, TypeError, UnicodeError, cbor2.CBOREncodeError):  # what it cannot write
        return b"\xa1\x61t" + struct.pack(">Bd", 0xFB, float(rng.normal()))
    if rng.integers(4) == 0:
        data = b"\xbf" + cbor2.dumps(list(made.items()))[1:] + b"\xff"
    if rng.integers(6) == 0:
        heads = (b"\xbb" + b"\xff" * 8, b"\xb9\xff\xff", b"\xb8\x05", b"\xbf")
        data = some(rng, heads) + data[1:]
    return data


def _text(key: object) -> bool:
    return isinstance(key, str)


def as_cdr(kind: str, rng: Rng) -> bytes:
    """Return a ROS message, some of whose strings, counts and numbers are ill."""
    little = bool(rng.integers(2))
    order = "<" if little else ">"
    data = bytearray(b"\0\1\0\0" if little else b"\0\0\0\0")

    def number(letter: str, value: Any) -> None:
        size = struct.calcsize(letter)
        data.extend(bytes(-(len(data) - 4) % size))
        data.extend(struct.pack(order + letter, value))

    def text(value: bytes) -> None:
        number("I", int(some(rng, ILL_COUNTS)) if rng.integers(40) == 0 else len(value) + 1)
        data.extend(value + b"\0")

    def floats(count: int) -> None:
        for _ in range(count):
            ill = rng.integers(40) == 0
            number("d", float(some(rng, ILL_FLOATS)) if ill else float(rng.normal()))

    number("i", int(some(rng, (1000, 1000, 0, -1, 2**31 - 1))))
    number("I", int(some(rng, (5, 999_999_999, 2**32 - 1))))
    frame = some(rng, (b"tool0", b"imu", b"", b"\xff\xfe", b"\x1b[2J", b"f" * 300, b"f" * 50_000))
    text(frame)
    if kind.endswith("JointState"):
        names = [b"j%d" % (k % 700) for k in range(int(some(rng, (0, 1, 6, 600, 3000))))]
        number("I", len(names))
        for name in names:
            text(name)
        for _ in range(3):
            count = some(rng, (0, len(names), len(names), 5))
            number("I", int(some(rng, ILL_COUNTS)) if rng.integers(20) == 0 else count)
            floats(count)
    else:
        if kind.endswith("Odometry"):
            text(frame)
        floats(
            {"WrenchStamped": 6, "Imu": 37, "Odometry": 85, "PoseStamped": 7}[kind.split("/")[2]]
        )
    return bytes(data)


ILL_COUNTS = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
ILL_FLOATS = (0.0, 1e300, -1e300, float("nan"), float("inf"), 5e-324)


def message(rng: Rng) -> tuple[str, bytes]:
    """Return a key and a message, at times with bytes changed, cut or doubled."""
    kind = some(rng, ("json", "cbor", *KINDS))
    if kind == "json":
        key, data = "heft/samples/a", as_json(rng)
    elif kind == "cbor":
        key, data = "heft/samples/b", as_cbor(rng)
    else:
        package, _, name = kind.split("/")
        key, data = f"0/x/{package}::msg::dds_::{name}_/RIHS01_0", as_cdr(kind, rng)
    if rng.integers(8) == 0 and data:
        at, end = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        data = (
            data[:at] + some(rng, (b"", rng.bytes(min(end - at, 9)), 2 * data[at:end])) + data[end:]
        )
    if rng.integers(200) == 0:
        data += bytes(LARGEST)
    return key, data


@dataclass
class Tally:
    """What was seen.

    Attributes:
        cases: How many were tried.
        accepted: How many were read.
        slowest: Longest time to an answer [s].
        broken: How often which exception came through.
        examples: The first of each.
    """

    cases: int = 0
    accepted: int = 0
    slowest: float = 0.0
    broken: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def one(self, act: Callable[[], int], seed: int, timed: bool = True) -> None:
        """Try a case; `act` returns how many were read of it, and answers to somebody if timed."""
        begin = time.process_time()
        try:
            self.accepted += act()
        except HeftError:
            pass
        except Exception as problem:  # what this looks for
            name = type(problem).__name__
            if not self.broken[name]:
                self.examples.append(f"seed {seed}\n{traceback.format_exc()}")
            self.broken[name] += 1
        if timed:
            self.slowest = max(self.slowest, time.process_time() - begin)
        self.cases += 1


class Messages:
    """Batches of messages, read and followed by a node."""

    def __init__(self) -> None:
        self.reader, self.state, self.steps = Reader(), NODE.start(), 0

    def case(self, rng: Rng, seed: int, tally: Tally) -> None:
        """Try one batch."""
        batch = [message(rng) for _ in range(int(rng.integers(1, 30)))]

        def act() -> int:
            pieces, garbage = self.reader.read(batch)
            good = sum(len(piece.stamps) for piece in pieces)
            assert good + garbage == len(batch)
            for piece in pieces:
                json.dumps(piece.names, ensure_ascii=False).encode()
            self.state, _ = NODE.step(self.state, 0.05 * self.steps, pieces, garbage)
            health = json.dumps(NODE.health(self.state), ensure_ascii=False, allow_nan=False)
            assert health.isprintable()
            load_estimate(self.state)
            return good

        tally.one(act, seed)
        self.steps += 1
        if self.steps % STEPS == 0:
            self.reader, self.state = Reader(), NODE.start()


def weighed() -> tuple[NodeState, list[Piece]]:
    """Return a node's state after a second and a half, and what comes next."""
    rng = np.random.default_rng(0)
    stamps = 10**18 + 1_000_000 * np.arange(2000)
    values = rng.normal(size=(2000, len(NODE.names))) * 0.1
    values[:, 2] += 15.0
    values[:, 8] += 9.81
    pieces = [Piece(NODE.names, stamps[k : k + 50], values[k : k + 50]) for k in range(0, 2000, 50)]
    state = NODE.start()
    for k, piece in enumerate(pieces[:36]):
        state, _ = NODE.step(state, 0.05 * k, [piece])
    return state, pieces[36:]


def places(value: object, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the places of all values within a content."""
    found = [place]
    if isinstance(value, dict):
        for name, inner in value.items():
            found += places(inner, (*place, name))
    elif isinstance(value, list):
        for k, inner in enumerate(value):
            found += places(inner, (*place, k))
    return found


class Checkpoints:
    """Checkpoints with a right hash, of ill fields, gone on from where they are accepted."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kept"
        state, self.pieces = weighed()
        checkpoint.save(self.path, NODE, state)
        self.content = json.loads(self.path.read_text().split("\n")[1])
        self.places = places(self.content)[1:]
        self.fields = [place for place in self.places if len(place) <= 2]

    def case(self, rng: Rng, seed: int, tally: Tally) -> None:
        """Try one file."""
        made: Any = copy.deepcopy(self.content)
        for _ in range(int(rng.integers(1, 4))):
            self._change(made, some(rng, self.fields if rng.integers(2) else self.places), rng)
        text = json.dumps(made)
        if rng.integers(10) == 0:
            at = int(rng.integers(len(text)))
            text = text[:at] + some(rng, ("", "[" * 3000, "1e999", '"', "}")) + text[at + 1 :]
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        if rng.integers(20) == 0:
            digest = digest[:5] + "\n" + digest
        self.path.write_bytes(f"{digest}\n".encode() + data + b"\n")

        def act() -> int:
            state = checkpoint.load(self.path, NODE)
            load_estimate(state)
            for k, piece in enumerate(self.pieces):
                state, _ = NODE.step(state, 0.05 * k, [piece])
            load_estimate(state)
            return 1

        tally.one(act, seed)

    @staticmethod
    def _change(made: Any, place: tuple[Any, ...], rng: Rng) -> None:
        inner = made
        try:
            for step in place[:-1]:
                inner = inner[step]
            old = inner[place[-1]]
        except (KeyError, IndexError, TypeError):  # changed before
            return
        if not isinstance(inner, dict | list):  # a text by now
            return
        kind = rng.integers(5)
        if kind == 0 and isinstance(inner, dict):
            del inner[place[-1]]
        elif kind == 1 and isinstance(old, list) and old:
            inner[place[-1]] = some(rng, (old[:-1], old + old[:1], old * 3, old[0], [old]))
        elif kind == 2 and type(old) in (int, float) and abs(old) < 10**300:  # not an ill one
            inner[place[-1]] = old * float(some(rng, (-1.0, 1e-9, 1e9, 1e30, 1e-30)))
        else:
            inner[place[-1]] = some(rng, ILL_VALUES)


class TeamMessages:
    """Messages between the robots of a team, and their journals: taken, told on and solved."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self._anew()

    def _anew(self) -> None:
        robots = tuple(TeamRobot(name) for name in ("a", "b", "c"))
        stated = TeamFile(robots, Graph.ring(3))
        self.node, self.other, third = (CooperativeNode(stated, k, 1) for k in range(3))
        rng = np.random.default_rng(1)
        time = np.arange(400) * 0.01
        for node in (self.node, self.other, third):
            node.add_samples(ContactSignals(time, *rng.normal(size=(5, 400, 3))), 10**18)
        self.other.receive(2, third.message(1))
        self.steps = 0

    def _message(self, rng: Rng) -> bytes:
        """Return a message of which fields, then bytes, are ill at times."""
        made = self.other.message(0)
        number = int(some(rng, (0, 1, 10**18 // 60_000_000, 2**53, 2**52)))
        kind = rng.integers(6)
        if kind == 0:
            made = replace(made, have=dict.fromkeys(range(3), number))
        elif kind == 1:
            made = replace(made, first=dict.fromkeys(made.have, number), have={1: max(number, 1)})
        elif kind == 2:
            made = replace(made, ended=dict.fromkeys(made.have, number), session=number)
        elif kind == 3:
            rows = rng.normal(size=(9, 24)) * float(some(rng, (1.0, 1e-300, 1e6, 0.0)))
            where = (int(rng.integers(3)), number + int(rng.integers(5)))
            made = replace(made, windows=tuple((*where, row) for row in rows))
        data = bytearray(encoded(made, 1, self.node.team))
        for _ in range(int(rng.integers(3)) * int(rng.integers(2))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        if rng.integers(10) == 0:
            del data[int(rng.integers(len(data))) :]
        if rng.integers(100) == 0:
            data += bytes(LARGEST)
        return bytes(data)

    def case(self, rng: Rng, seed: int, tally: Tally) -> None:
        """Try one message, or one journal."""
        data = self._message(rng)

        def act() -> int:
            taken = self.node.take(1, data)
            json.dumps(self.node.state(), allow_nan=False)
            assert len(self.node.encoded(2)) <= LARGEST
            return int(taken)

        def resume() -> int:
            entry = struct.pack("<II", len(data), zlib.crc32(data)) + data
            self.path.write_bytes(entry[: int(rng.integers(len(entry) + 1))] + entry)
            return int(Journal(self.path, self.other_self()).go_on() > 0)

        tally.one(act if rng.integers(4) else resume, seed)
        tally.one(lambda: min(self.node.solve(1), 0), seed, timed=False)
        self.steps += 1
        if self.steps % STEPS == 0:
            self._anew()

    def other_self(self) -> CooperativeNode:
        """Return a node whose journal the messages may be of."""
        return CooperativeNode(self.other.stated, 1, 2)


def measure(minutes: float, seed: int = 0, only: str | None = None) -> list[Row]:
    """Return the rows of the benchmark.

    Args:
        minutes: For each of messages, checkpoints and a team's messages [min].
        seed: Of the first case; the next has the next.
        only: Which of them, if not all.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (
            ("messages", Messages()),
            ("checkpoints", Checkpoints(Path(folder))),
            ("messages of a team", TeamMessages(Path(folder))),
        ):
            if only not in (None, name):
                continue
            target.case(np.random.default_rng(10**9), seed, Tally())  # compiles what is compiled
            tally, memory = Tally(), _memory()
            end = time.monotonic() + 60.0 * minutes
            k = seed
            while time.monotonic() < end:
                target.case(np.random.default_rng(k), k, tally)
                k += 1
            for example in tally.examples:
                print(example)
            rows += [
                at_least(f"{name}: minutes", minutes, "min", 30.0),
                Row(f"{name}: cases", tally.cases, ""),
                Row(f"{name}: read", tally.accepted, ""),
                at_most(f"{name}: exceptions", sum(tally.broken.values()), "", 0),
                at_most(f"{name}: longest time to an answer", tally.slowest, "s", SLOWEST),
                at_most(f"{name}: growth of memory", _memory() - memory, "MB", MOST_MEMORY),
            ]
    return rows


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


@benchmark({"minutes": 0.002}, unstored=("only",))
def main(*, minutes: float = 3.0, seed: int = 0, only: str | None = None) -> Iterator[Row]:
    """Yield the rows.

    Args:
        minutes: For each kind of what is read.
        seed: Of the first case.
        only: Messages, checkpoints or messages of a team.
    """
    yield from measure(minutes, seed, only)


if __name__ == "__main__":
    main()
