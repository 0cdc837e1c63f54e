"""Messages between robots as bytes: a header, an entry an origin, an entry a window.

All numbers are little-endian and of fixed width, so that a message has one length that it may
have. Whatever is otherwise is refused before anything is made of it: version, team, sender, order
and range of numbers, finiteness.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence

import numpy as np

from heft.arrays import Array
from heft.information import Graph

from .replication import ABSENT, LATEST, MOST_WINDOWS, WIDTH, WindowMessage
from .window_stream import WindowSettings

VERSION = 2
LARGEST = 64 * 1024  # bytes of a message
HEADER = struct.Struct("<4sBBH8sQHH")  # name, version, 0, sender, team, session, origins, windows
ORIGIN = struct.Struct("<HHqqq")  # origin, flags, have, first, ended
WINDOW = struct.Struct("<HHq")  # origin, flags, number; then the window, unless it is absent
SENSORS = 6  # numbers behind a window that says what its origin's sensors are: noise, step
NAME = b"heft"
ENDED, ABSENCE, SAYS = 1, 1, 2  # flags, of an origin and of a window


class BadMessage(ValueError):
    """Bytes that are no valid message."""


def team_key(names: Sequence[str], graph: Graph, windows: WindowSettings) -> bytes:
    """Return an eight-byte hash of a team's names in order, its graph and window settings."""
    stated = [VERSION, list(names), graph.edges, windows.length, windows.stride]
    return hashlib.blake2b(json.dumps(stated).encode(), digest_size=8).digest()


def encoded(message: WindowMessage, sender: int, team: bytes) -> bytes:
    """Return the bytes of a message; see `team_key` for the team."""
    origins = sorted(message.have)
    head = (NAME, VERSION, 0, sender, team, message.session, len(origins), len(message.windows))
    parts = [HEADER.pack(*head)]
    for o in origins:
        end = message.ended.get(o)
        numbers = (message.have[o], message.first.get(o, 0), end or 0)
        parts.append(ORIGIN.pack(o, ENDED * (end is not None), *numbers))
    for o, number, row in message.windows:
        absent = bool(np.isnan(row[0]))
        parts.append(WINDOW.pack(o, ABSENCE * absent + SAYS * (len(row) > WIDTH), number))
        if not absent:
            parts.append(np.asarray(row, dtype="<f8").tobytes())
    return b"".join(parts)


def decoded(data: bytes, sender: int, team: bytes, robots: int) -> WindowMessage:
    """Return the message of some bytes.

    Args:
        sender: Number of the robot that it came from.
        team: Key of the team; see `team_key`.
        robots: Number of robots in the team.

    Raises:
        BadMessage: If it is none, of another version or team, or not of this sender.
    """
    if not HEADER.size <= len(data) <= LARGEST:
        raise BadMessage("its size is none")
    name, version, rest, stated_sender, key, session, origins, windows = HEADER.unpack_from(data)
    if name != NAME or version != VERSION or rest:
        raise BadMessage("it is of another version")
    if key != team:
        raise BadMessage("it is of another team, or of other settings")
    if stated_sender != sender:
        raise BadMessage("it is not of its sender")
    if origins > robots or windows > MOST_WINDOWS:
        raise BadMessage("it counts too much")
    at = HEADER.size + origins * ORIGIN.size
    if len(data) < at + windows * WINDOW.size:
        raise BadMessage("it is cut short")
    have, ended, first = _origins(data, origins, robots)
    return WindowMessage(have, _windows(data, at, windows, robots), ended, first, session)


Numbers = dict[int, int]  # by origin


def _origins(data: bytes, count: int, robots: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return what a message has, which origins have ended, and where they begin."""
    have, ended, first = Numbers(), Numbers(), Numbers()
    before = -1
    for k in range(count):
        o, flags, have[o], first[o], end = ORIGIN.unpack_from(data, HEADER.size + k * ORIGIN.size)
        if not before < o < robots or flags & ~ENDED:
            raise BadMessage("its origins are none")
        if not 0 <= first[o] <= have[o] <= LATEST or not 0 <= end <= LATEST:
            raise BadMessage("its numbers are none")
        if flags & ENDED:
            ended[o] = end
        before = o
    return have, ended, first


def _windows(data: bytes, at: int, count: int, robots: int) -> tuple[tuple[int, int, Array], ...]:
    entries = []
    for _ in range(count):
        if len(data) < at + WINDOW.size:
            raise BadMessage("it is cut short")
        o, flags, number = WINDOW.unpack_from(data, at)
        at += WINDOW.size
        if o >= robots or not 0 <= number <= LATEST or flags not in (0, ABSENCE, SAYS):
            raise BadMessage("a window is none")
        row = ABSENT
        if flags != ABSENCE:
            width = WIDTH + SENSORS * (flags == SAYS)
            if len(data) < at + 8 * width:
                raise BadMessage("it is cut short")
            row = np.frombuffer(data, "<f8", width, at).astype(float)
            at += 8 * width
            if not float(np.abs(row).max()) <= 1e7:  # in SI units; no NaN either
                raise BadMessage("a window's numbers are none")
            if flags == SAYS and not (row[WIDTH:].min() >= 0.0 and 1e-5 <= row[-1] <= 0.1):  # [s]
                raise BadMessage("its noise or rate is none")
        entries.append((o, number, row))
    if at != len(data):
        raise BadMessage("it is longer than it says")
    return tuple(entries)
