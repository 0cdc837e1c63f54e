"""Live loop of a node: samples of the network or of a replayed log; one failure ends nothing."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from heft.errors import visible
from heft.recordings import Recording

from .messages import Piece, Reader
from .network import Connection

SOURCE = "source"  # of messages, as a loop names it where it fails
PERIOD = 1.0  # [s] between checkpoints, and between reports of a node's health
Returned = TypeVar("Returned")


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
    # Looks at what came are 50 ms apart at most; each costs, however little came.
    while not stop.wait(min(0.05, 0.5 / rate)):
        try:
            # What cannot be decoded in 0.2 s of the processor is not read.
            pieces, garbage = reader.read(connection.receive(), 0.2)
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
    at_once = min(0.025, 0.5 / rate)  # [s] of a log that are replayed at once, at most
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


@dataclass(frozen=True)
class Event:
    """Something that a node reports."""

    time: float  # on the node's clock [s]
    name: str  # such as `stalled`, or `grasped`
    message: str  # in words


class State(Protocol):
    """State of a node between steps."""

    @property
    def time(self) -> float:
        """Time of the newest sample on the node's clock [s]; 0 before the first."""

    def stamp(self, time: float) -> float | None:
        """Convert a time to the clock of the stamps [s]; None before the first sample."""

    def counted(self, more: Mapping[str, int]) -> Self:
        """Return the state with its counts increased by name; names that it lacks are ignored."""


Stepped = TypeVar("Stepped", bound=State)
Step = Callable[[Stepped, float, Sequence[Piece], int], tuple[Stepped, Sequence[Event]]]


@dataclass(frozen=True)
class Update(Generic[Stepped]):
    """What a loop passes to its listeners."""

    state: Stepped
    events: Sequence[Event]  # since the last update
    due: bool  # whether the estimate is to be published, or the events alone
    healthy: bool  # whether diagnostics are to be published

    def stamped(self) -> list[dict[str, Any]]:
        """Return the events as JSON values; before the first sample they have no stamp."""
        return [
            {"stamp": self.state.stamp(e.time), "name": e.name, "message": e.message}
            for e in self.events
        ]

    def lines(self) -> list[str]:
        """Return the events as lines for a terminal."""
        made = []
        for event in self.events:
            stamp = self.state.stamp(event.time)
            when = "before any sample" if stamp is None else f"{stamp:.3f} s"
            made.append(visible(f"{when}  {event.name}: {event.message}"))
        return made


@dataclass
class Failures:
    """Failures of a loop: counted, and the first of each in a row made an event.

    A disk can be full, a page's reader gone, a file's handle refused, for a second or for good.
    What a node knows is a value that no failure touches.
    """

    lasting: dict[str, str] = field(default_factory=dict)  # why what failed last fails, by name
    time: float = 0.0  # of the newest sample [s], when what fails is told to have failed
    _counts: Counter[str] = field(default_factory=Counter)
    _events: list[Event] = field(default_factory=list)

    def guard(
        self, name: str, count: str, action: Callable[[], Returned], many: int = 1
    ) -> Returned | None:
        """Run an action and return what it returns, or None where it fails, which is counted."""
        try:
            made = action()
        except Exception as problem:  # whatever it is: the next sample comes in a millisecond
            self._counts[count] += many
            if name not in self.lasting:
                self.record(name, problem)
            return None
        self.lasting.pop(name, None)
        return made

    def record(self, name: str, problem: Exception) -> None:
        """Record an event for a failure."""
        reason = getattr(problem, "message", None) or str(problem) or type(problem).__name__
        self.lasting[name] = visible(reason)[:200]
        self._events.append(Event(self.time, f"{name} failed", self.lasting[name]))

    def take(self) -> tuple[Counter[str], list[Event]]:
        """Return counts and events since the last call."""
        taken = self._counts, self._events
        self._counts, self._events = Counter(), []
        return taken


def run(
    step: Step[Stepped],
    state: Stepped,
    source: Iterator[Arrival],
    listeners: Mapping[str, Callable[[Update[Stepped]], None]],
    rate: float = 10.0,
    save: Callable[[Stepped], None] | None = None,
) -> tuple[Stepped, Mapping[str, str]]:
    """Process all messages of a source and pass updates to listeners.

    A step that fails leaves the state before it, and adds its samples to the count `unread`;
    updates that a listener could not be given are `untold`, and checkpoints that could not be
    written `unsaved`.

    Args:
        step: Function of state, the listener's time [s], messages in order of arrival and the
            number of those that could not be decoded; returns the new state and its events.
        source: Messages; yields at intervals even when none arrive, so that updates go on.
        listeners: Called with each update, by name; one that fails is told, and called again.
        rate: Rate at which the estimate is due [Hz]; events are passed on at once.
        save: Function that writes a checkpoint, or None.

    Returns:
        The final state, and why what failed last fails, by name.
    """
    failures = Failures()
    next_due = reported = saved = -math.inf

    def inform(update: Update[Stepped]) -> None:
        for name, listener in listeners.items():
            failures.guard(name, "untold", partial(listener, update))

    for arrival in until_failure(source, partial(failures.record, SOURCE)):
        now, failures.time = arrival.now, state.time
        action = partial(step, state, now, arrival.pieces, arrival.garbage)
        samples = sum(len(piece.stamps) for piece in arrival.pieces)
        state, events = failures.guard("step", "unread", action, samples) or (state, ())
        counts, failed = failures.take()
        counts["unread"] += arrival.unread
        state = state.counted(counts)
        events = (*failed, *events)
        due, healthy = now >= next_due, now - reported >= PERIOD
        if due or events:
            inform(Update(state, events, due, due and healthy))
        if due:
            # From when it was due, not from when it was done: or each would be late by the last.
            next_due += 1.0 / rate
            next_due = next_due if next_due > now else now + 1.0 / rate
            reported = now if healthy else reported
        if save and now - saved >= PERIOD:
            failures.guard("checkpoint", "unsaved", partial(save, state))
            saved = now
    if save:
        failures.guard("checkpoint", "unsaved", partial(save, state))
    counts, failed = failures.take()
    state = state.counted(counts)
    if failed:
        inform(Update(state, failed, due=False, healthy=False))
    return state, failures.lasting


def until_failure(
    source: Iterator[Arrival], tell: Callable[[Exception], None]
) -> Iterator[Arrival]:
    """Yield arrivals; a failure before the first is raised, a later one is told and ends them."""
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
