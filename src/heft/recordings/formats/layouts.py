"""Byte positions of the numbers in a serialised message, found from its definition.

Robots send the same message repeatedly: the same joints and frame, other numbers. So the
definition is interpreted once, for the first message. Every other message whose lengths and
strings are the same bytes has its numbers at the same positions, and thousands of them are decoded
at once. Encodings: CDR as in ROS 2 (OMG DDS-RTPS 2.5, section 10), ROS 1 serialization
(wiki.ros.org/ROS/Technical Overview). Messages of JSON and of Protocol Buffers have no layout, and
are decoded one by one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

SIZES = dict.fromkeys(("bool", "byte", "char"), ("u1", 1)) | {
    f"{name}{8 * size}": (f"{letter}{size}", size)
    for name, letter, sizes in (
        ("int", "i", (1, 2, 4, 8)),
        ("uint", "u", (1, 2, 4, 8)),
        ("float", "f", (4, 8)),
    )
    for size in sizes
}
MOST = 1_000_000  # elements of a sequence
# A field takes a byte at least: a message with more of them than bytes repeats empty ones.
MOST_EMPTY, LONGEST_PATH, DEEPEST = 1000, 1000, 64
# Layouts are kept for messages that come again, within bounds that hold whoever sends.
MOST_LAYOUTS = 64  # of messages of one size
MOST_KEPT = 4 * 1024 * 1024  # bytes of all kept layouts
BATCH_BYTES = 4 * 1024 * 1024  # of messages that are compared with layouts at once


class Malformed(ValueError):
    """A message's bytes contradict its definition."""


@dataclass(frozen=True)
class Layout:
    """Byte positions of a message's numbers, valid for all messages with the same fixed bytes."""

    size: int  # bytes of a message
    fixed: NDArray[np.int64]  # positions of the bytes of lengths and strings, shape (fixed,)
    bytes: NDArray[np.uint8]  # values of these bytes, shape (fixed,)
    numbers: Mapping[str, tuple[str, int, int]]  # type, position and count of each, by path
    strings: Mapping[str, tuple[str, ...]]  # every field of strings, by its path

    @property
    def memory(self) -> int:
        """Approximate memory of the layout [bytes]."""
        fields = len(self.numbers) + sum(map(len, self.strings.values()))
        return 2 * self.fixed.nbytes + 256 * fields


@dataclass
class _Walk:
    data: bytes
    types: Mapping[str, Any]
    cdr: bool
    order: str = "<"
    at: int = 0
    fixed: list[tuple[int, int]] = field(default_factory=list)
    numbers: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    strings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    steps: int = 0

    def align(self, size: int) -> None:
        if self.cdr:  # counted from behind the four bytes of the encapsulation
            self.at += -(self.at - 4) % size

    def take(self, size: int) -> int:
        begin = self.at
        self.at += size
        if self.at > len(self.data):
            raise Malformed(f"it needs {self.at} bytes and has {len(self.data)}")
        return begin

    def length(self, most: int = MOST) -> int:
        self.align(4)
        begin = self.take(4)
        self.fixed.append((begin, self.at))
        (count,) = struct.unpack_from(self.order + "I", self.data, begin)
        if count > most:
            raise Malformed(f"a length of {count}")
        return int(count)

    def string(self) -> str:
        begin = self.take(self.length(len(self.data)))
        self.fixed.append((begin, self.at))
        return self.data[begin : self.at].rstrip(b"\0").decode("utf-8", "replace")

    def base(self, name: str, path: str, count: int) -> None:
        if name == "string":
            self.strings[path] = tuple(self.string() for _ in range(count))
            return
        if name not in SIZES:
            raise Malformed(f"its definition holds the type '{name}'")
        kind, size = SIZES[name]
        if count:
            self.align(size)
        self.numbers[path] = (self.order + kind, self.take(size * count), count)

    def step(self, path: str) -> None:
        self.steps += 1
        if self.steps > len(self.data) + MOST_EMPTY:
            raise Malformed("its definition has more fields than the message has bytes")
        if len(path) > LONGEST_PATH or path.count(".") > DEEPEST:
            raise Malformed("its definition is too deep")

    def message(self, name: str, path: str) -> None:
        if name not in self.types:
            raise Malformed(f"its definition lacks the type '{name}'")
        self.step(path)  # also of a type without fields, of which there may be any number
        for field_name, (node, detail) in self.types[name][1]:
            self.step(path)
            self.any(int(node), detail, f"{path}.{field_name}" if path else field_name)

    def any(self, node: int, detail: Any, path: str) -> None:
        # Kinds of nodes as in rosbags.interfaces.Nodetype.
        if node == 1:
            self.base(detail[0], path, 1)
        elif node == 2:
            self.message(detail, path)
        elif node in (3, 4):
            (inner, inner_detail), count = detail
            if node == 4:
                count = self.length()
            if int(inner) == 1:
                self.base(inner_detail[0], path, count)
            else:
                for k in range(count):
                    self.message(inner_detail, f"{path}[{k}]")
        else:
            raise Malformed(f"its definition holds a node of kind {node}")


def layout_of(data: bytes, kind: str, types: Mapping[str, Any], encoding: str) -> Layout:
    """Return the layout of a message.

    Args:
        types: Definitions by name, as rosbags' parser returns them.

    Raises:
        Malformed: If the bytes contradict the definition.
    """
    walk = _Walk(data, types, encoding == "cdr")
    if walk.cdr:
        if len(data) < 4 or data[0] != 0 or data[1] not in (0, 1):
            raise Malformed(f"its encapsulation is {data[:4].hex()}, not plain CDR")
        walk.order = "<" if data[1] == 1 else ">"
        walk.fixed.append((0, 2))
        walk.at = 4
    walk.message(kind, "")
    fixed = np.concatenate([np.arange(a, b) for a, b in walk.fixed] or [np.zeros(0, np.int64)])
    template = np.frombuffer(data, np.uint8)[fixed]
    return Layout(len(data), fixed, template, walk.numbers, walk.strings)


@dataclass(frozen=True)
class Group:
    """Decoded messages of one layout."""

    rows: NDArray[np.int64]  # positions of the messages in the batch, shape (messages,)
    numbers: Mapping[str, NDArray[Any]]  # arrays of shape (messages, count), by path of the field
    # the strings that the messages share, by path of the field
    strings: Mapping[str, tuple[str, ...]]


class Decoder:
    """Decoder of messages of one type, with a cache of bounded size of the layouts met so far."""

    def __init__(self, kind: str, types: Mapping[str, Any], encoding: str) -> None:
        self.kind, self.types, self.encoding = kind, types, encoding
        self._layouts: dict[int, list[Layout]] = {}
        self.memory = 0  # of the kept layouts, approximately [bytes]

    def groups(self, messages: Sequence[bytes]) -> Iterator[Group]:
        """Yield the messages' numbers, grouped by layout.

        Raises:
            Malformed: If a message contradicts its definition.
        """
        if self.encoding == "json":
            yield from (_from_values(_json(m), k) for k, m in enumerate(messages))
            return
        if self.encoding == "protobuf":
            made = self.types[self.kind]
            yield from (_from_values(_protobuf(m, made), k) for k, m in enumerate(messages))
            return
        sizes = np.fromiter(map(len, messages), dtype=np.int64, count=len(messages))
        remaining = np.arange(len(messages))
        while len(remaining):
            size = int(sizes[remaining[0]])
            same = remaining[sizes[remaining] == size]
            remaining = remaining[sizes[remaining] != size]
            batch = max(BATCH_BYTES // max(size, 1), 1)
            for begin in range(0, len(same), batch):
                yield from self._of_one_size(messages, same[begin : begin + batch], size)

    def _of_one_size(
        self, messages: Sequence[bytes], same: NDArray[np.int64], size: int
    ) -> Iterator[Group]:
        raw = np.frombuffer(b"".join([messages[k] for k in same]), np.uint8)
        raw = raw.reshape(len(same), size)
        layouts = self._layouts.get(size, [])
        begin = 0
        while len(same):
            if begin == len(layouts):
                data = messages[same[0]]
                layout = layout_of(data, self.kind, self.types, self.encoding)
                if not self._keep(size, layout):
                    yield _group(same[:1], raw[:1], layout)
                    same, raw = same[1:], raw[1:]
                    continue
                layouts = self._layouts[size]
            layout = layouts[begin]
            begin += 1
            fits = (raw[:, layout.fixed] == layout.bytes).all(axis=1)
            if fits.all():
                yield _group(same, raw, layout)
                break
            if fits.any():
                yield _group(same[fits], raw[fits], layout)
                same, raw = same[~fits], raw[~fits]
        if len(layouts) == MOST_LAYOUTS or self.memory > MOST_KEPT:  # strings that change
            self._layouts.clear()
            self.memory = 0

    def _keep(self, size: int, layout: Layout) -> bool:
        layouts = self._layouts.get(size, [])
        full = len(layouts) == MOST_LAYOUTS or self.memory > MOST_KEPT
        # A layout of more bytes of lengths and strings is not kept.
        if full or len(layout.fixed) > 16_384:
            return False
        self._layouts[size] = [*layouts, layout]
        self.memory += layout.memory
        return True


def _group(rows: NDArray[np.int64], raw: NDArray[np.uint8], layout: Layout) -> Group:
    numbers = {}
    for path, (kind, begin, count) in layout.numbers.items():
        end = begin + np.dtype(kind).itemsize * count
        numbers[path] = np.ascontiguousarray(raw[:, begin:end]).view(kind)
    return Group(rows, numbers, layout.strings)


def _json(message: bytes) -> Any:
    try:
        return json.loads(message)
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"it is no JSON: {str(problem)[:80]}") from problem


def _protobuf(message: bytes, made: Any) -> Any:
    """Return a message's fields by name; those that say whether they are set only if they are."""
    if len(message) > MOST:  # two bytes of it are an object
        raise Malformed(f"it is {len(message)} bytes long")

    def plain(value: Any) -> Any:
        if hasattr(value, "DESCRIPTOR"):
            return {
                f.name: plain(getattr(value, f.name))
                for f in value.DESCRIPTOR.fields
                if not f.has_presence or value.HasField(f.name)
            }
        return value if isinstance(value, int | float | str | bytes) else list(map(plain, value))

    try:
        return plain(made.FromString(message))
    except Exception as problem:  # the library has errors of its own
        raise Malformed(f"it is none: {str(problem)[:80]}") from problem


def _from_values(values: Any, row: int) -> Group:
    numbers: dict[str, NDArray[Any]] = {}
    strings: dict[str, tuple[str, ...]] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else str(key))
        elif isinstance(value, str):
            strings[path] = (value,)
        elif isinstance(value, list) and all(isinstance(v, str) for v in value) and value:
            strings[path] = tuple(value)
        elif isinstance(value, list) and all(isinstance(v, dict) for v in value) and value:
            for k, inner in enumerate(value):
                walk(inner, f"{path}[{k}]")
        elif isinstance(value, int) and not isinstance(value, bool):
            numbers[path] = np.array([[value]], dtype=np.int64)
        elif isinstance(value, float | list):
            made: Array = np.asarray(value, dtype=float).reshape(1, -1)
            numbers[path] = made

    try:
        walk(values, "")
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise Malformed(f"it does not hold numbers: {str(problem)[:80]}") from problem
    return Group(np.array([row]), numbers, strings)
