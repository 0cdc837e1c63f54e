"""Sources of samples: the network, or a log replayed as if it happened now."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from heft.recordings import Recording

from .messages import Piece, Reader
from .network import Connection

TICK = 0.05  # [s] between looks at what came, at most; each costs, however little came
DECODING = 0.2  # [s] of the processor in which what came is decoded; what is left is not read
SLICE = 0.025  # [s] of a log that are replayed at once, at most


@dataclass(frozen=True)
class Arrival:
    """Signals that a source delivered at a time."""

    now: float  # when, on the source's clock [s]
    pieces: Sequence[Piece]  # signals; none where nothing came
    garbage: int = 0  # number of messages that could not be decoded
    unread: int = 0  # number of messages beyond what their senders may ask of a node


@dataclass
class Elapsed:
    """Time elapsed since creation; none elapses where the clock goes back."""

    _total: float = 0.0
    _read: float = field(default_factory=lambda: time.monotonic())

    def now(self) -> float:
        """Return the time that has passed [s]."""
        read = time.monotonic()
        self._total += max(read - self._read, 0.0)
        self._read = read
        return self._total


def until_failure(
    source: Iterator[Arrival], tell: Callable[[Exception], None]
) -> Iterator[Arrival]:
    """Yield a source's arrivals; a failure after the first is reported and ends them.

    Args:
        source: Its failure before the first arrival is raised.
    """
    begun = False
    while True:
        try:
            arrival = next(source, None)
        except Exception as problem:
            if not begun:
                raise
            tell(problem)
            return
        if arrival is None:
            return
        begun = True
        yield arrival


def received(
    connection: Connection, stop: threading.Event, rate: float = 10.0
) -> Iterator[Arrival]:
    """Yield arrivals from the network until stopped.

    Args:
        rate: Rate at which estimates are published [Hz]; messages are fetched at least twice as
            often.
    """
    reader = Reader(connection.link.topics, connection.link.frames)
    elapsed = Elapsed()
    while not stop.wait(min(TICK, 0.5 / rate)):
        try:
            pieces, garbage = reader.read(connection.receive(), DECODING)
        except MemoryError:  # what came is lost; there may be room for what comes
            pieces, garbage = [], 0
        yield Arrival(elapsed.now(), pieces, garbage, reader.unread)


def replayed(
    recording: Recording,
    names: Sequence[str],
    purpose: str,
    speed: float,
    stop: threading.Event,
    rate: float = 10.0,
) -> Iterator[Arrival]:
    """Yield a log's samples as if they were measured now.

    Args:
        purpose: What they are needed for, if one is missing: `is what the load is weighed by`.
        speed: Factor on the recorded speed.
        rate: Rate at which estimates are published, on the log's clock [Hz].

    Raises:
        MissingSignal: If the log lacks a signal.
    """
    names = tuple(names)
    for name in names:
        recording.require(name, purpose)
    elapsed, now, before = Elapsed(), 0.0, math.nan
    at_once = min(SLICE, 0.5 / rate)
    for block in recording.blocks(names):
        good = np.isfinite(block.time)
        times, values = block.time[good], block.values[good]
        stamps = np.round(times * 1e9).astype(np.int64)
        cuts = np.flatnonzero(np.diff(np.floor(times / at_once)) != 0.0) + 1
        for rows in np.split(np.arange(len(stamps)), cuts):
            if not len(rows):
                continue
            newest = float(times[rows[-1]])
            if newest > before:  # where the log's clock goes back, no time passes
                now += newest - before
            before = newest
            ahead = now / speed - elapsed.now()
            if stop.wait(ahead) if ahead > 0.0 else stop.is_set():
                return
            yield Arrival(now, [Piece(names, stamps[rows], values[rows])])
