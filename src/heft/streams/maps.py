"""One message of names and numbers, in JSON or CBOR: `{"t": 12.5, "force.tool0.x": 0.3, …}`.

Anybody may send anything. So nothing is made of a message but texts and numbers: CBOR is read here
item by item, and a tag, a key that is no text or a value that is no number ends it. A general
decoder would first make whatever the message asks for, sets of numbers with equal hashes included,
whose making takes time by the square of their count.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

MOST_SIGNALS = 512  # of a message
LONGEST_NAME = 255  # letters
LATEST = 2**62  # [ns]; the difference of two stamps is a number of 64 bits
NUMBERS = frozenset({int, float})  # types of a value: bool is none of them

# RFC 8949, section 3: major types, and the short counts that say where the count itself is.
UNSIGNED, NEGATIVE, TEXT, MAP, SIMPLE = 0, 1, 3, 5, 7
COUNTS: dict[int, Callable[[bytes, int], tuple[int]]] = {
    24: struct.Struct(">B").unpack_from,
    25: struct.Struct(">H").unpack_from,
    26: struct.Struct(">I").unpack_from,
    27: struct.Struct(">Q").unpack_from,
}
FLOATS: dict[int, Callable[[bytes, int], tuple[float]]] = {
    25: struct.Struct(">e").unpack_from,
    26: struct.Struct(">f").unpack_from,
    27: struct.Struct(">d").unpack_from,
}
SIZES = {24: 1, 25: 2, 26: 4, 27: 8}
ENDLESS, BREAK = 31, 0xFF


def read_map(message: bytes) -> tuple[tuple[str, ...], int, list[float]] | None:
    """Return names, stamp [ns] and values of a message, or None if it is no such map.

    Args:
        message: A map in JSON, or in CBOR (RFC 8949) without tags.
    """
    try:
        held = json.loads(message) if message[:1] == b"{" else cbor_map(message)
        stamp = held.pop("t")
        if type(stamp) not in NUMBERS or not math.isfinite(stamp) or len(held) > MOST_SIGNALS:
            return None
        nanoseconds = round(stamp * 1e9)
        if abs(nanoseconds) >= LATEST or not NUMBERS.issuperset(map(type, held.values())):
            return None
        names = tuple(held)
        if not are_names(names):
            return None
        return names, nanoseconds, list(map(float, held.values()))
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return None
    except struct.error:  # the message ends before its numbers do
        return None


def are_names(names: tuple[str, ...]) -> bool:
    """Return whether texts can be names: not too long, and no halves of UTF-16 pairs."""
    if names and len(max(names, key=len)) > LONGEST_NAME:
        return False
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def cbor_map(message: bytes) -> dict[str, Any]:
    """Return a CBOR map of texts to numbers.

    Raises:
        ValueError: If it is anything else, or more follows it.
        IndexError: If it ends too early; `struct.error` where it ends within a number.
    """
    kind, short = message[0] >> 5, message[0] & 31
    if kind != MAP:
        raise ValueError("it is no map")
    made: dict[str, Any] = {}
    at = 1
    left = -1
    if short != ENDLESS:
        left, at = _count(message, short, at)
        if left > MOST_SIGNALS + 1:
            raise ValueError("it has too many signals")
    while left != 0:
        head = message[at]
        if left < 0 and head == BREAK:
            at += 1
            break
        if head >> 5 != TEXT:
            raise ValueError("a key is no text")
        size, begin = _count(message, head & 31, at + 1)
        at = begin + size
        name = message[begin:at].decode()
        if name in made or len(made) > MOST_SIGNALS:
            raise ValueError("a signal is there twice, or there are too many")
        made[name], at = _number(message, at)
        left -= 1
    if at != len(message):
        raise ValueError("it ends too early, or more follows it")
    return made


def _count(message: bytes, short: int, at: int) -> tuple[int, int]:
    """Return the count in the head of a CBOR item, and the position after the head."""
    if short < 24:
        return short, at
    return COUNTS[short](message, at)[0], at + SIZES[short]


def _number(message: bytes, at: int) -> tuple[int | float, int]:
    kind, short = message[at] >> 5, message[at] & 31
    if kind == SIMPLE:
        return FLOATS[short](message, at + 1)[0], at + 1 + SIZES[short]
    if kind not in (UNSIGNED, NEGATIVE):
        raise ValueError("a value is no number")
    count, at = _count(message, short, at + 1)
    return (count if kind == UNSIGNED else -1 - count), at
