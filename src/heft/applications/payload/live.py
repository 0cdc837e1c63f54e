"""`heft payload --live`: a node from its source to all who want to know, until it is stopped."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.identification import Inputs, Progress, silent
from heft.errors import InvalidSetting
from heft.files import require_writable
from heft.information import PARAMETER_COUNT
from heft.recordings import Recording
from heft.streams import Connection, Link, Piece, Reader, connected, served

from . import checkpoint, payload
from .node import Known, Node, seen
from .online import Event
from .payload import Payload
from .sensors import Sensors

SCHEMA = 1
TICK = 0.05  # [s] between looks at what came, at most; each costs, however little came
SLICE = 0.025  # [s] of a log that are replayed at once
KEPT = 1.0  # [s] between checkpoints
HEALTH = 1.0  # [s] between reports of it
MOST_EVENTS = 50  # shown on the page
FASTEST = 1000.0  # [Hz]


@dataclass(frozen=True)
class Arrived:
    """What a source gave.

    Attributes:
        now: When, on its clock [s].
        pieces: Signals.
        garbage: How many messages could not be decoded.
    """

    now: float
    pieces: Sequence[Piece]
    garbage: int = 0


@dataclass(frozen=True)
class Run:
    """A live weighing.

    Attributes:
        sensors: TOML of the sensors.
        on: Where messages come from: `zenoh`, or a TOML file; see `network.Link`.
        insecure: Whether that may be open to strangers.
        replay: A log to take in place of messages, or None.
        speed: By how much faster than it was recorded; infinite for as fast as can be.
        columns: TOML that says what the log's columns mean.
        model: Of the robot, where the motion comes from its joints.
        options: TOML that says what the model file cannot.
        rate: How often what is known is told [Hz].
        serve: Port of the page, or None.
        checkpoint: File to go on from, or None.
        out: Folder for what is known in the end, or None.
    """

    sensors: Path
    on: str | None = None
    insecure: bool = False
    replay: Path | None = None
    speed: float = 1.0
    columns: Path | None = None
    model: Path | None = None
    options: Path | None = None
    rate: float = 10.0
    serve: int | None = None
    checkpoint: Path | None = None
    out: Path | None = None

    def __post_init__(self) -> None:
        if (self.on is None) == (self.replay is None):
            raise InvalidSetting(
                "live samples come either over the network or from a log",
                argument="--live",
                cure="--on zenoh, or --replay grasp.csv",
            )
        if not 0.0 < self.rate <= FASTEST:
            raise InvalidSetting(
                "this is no rate", argument="--rate", got=self.rate, expected=f"0 to {FASTEST:g} Hz"
            )
        if not self.speed > 0.0:
            raise InvalidSetting(
                "a log is replayed forwards", argument="--speed", got=self.speed, expected="above 0"
            )

    def attend(self, stop: threading.Event, say: Progress, progress: Progress = silent) -> Payload:
        """Weigh until stopped, or to the log's end, and return what is known then.

        Args:
            stop: Set from outside to end it.
            say: Told each event.
            progress: Told what is being done.
        """
        if self.out is not None:
            payload.refuse_foreign(self.out)
        if self.checkpoint is not None:
            require_writable(self.checkpoint)
        inputs = Inputs.open(self.model, self.options, self.columns, sensors=self.sensors)
        node = Node(Sensors.from_toml(self.sensors), inputs.robot)
        known = checkpoint.load(self.checkpoint, node) if self.checkpoint else node.start()
        if known.following is not None:
            progress(f"going on from {self.checkpoint}")
        with ExitStack() as stack:
            tellers: list[Callable[[Told], None]] = [lambda told: _say_events(told, say)]
            if self.replay is not None:
                inputs = inputs.with_logs(fit=[self.replay])
                (recording,) = inputs.logs["fit"]
                source = replayed(recording, node, self.speed, stop)
                progress(f"replaying {self.replay}")
            else:
                link = Link.named(str(self.on))
                connection = stack.enter_context(connected(link, self.insecure))
                source = received(connection, stop, self.rate)
                tellers.append(lambda told: _send(told, connection))
                where = ", ".join((*link.connect, *link.listen))
                progress(f"listening at {where} for {', '.join(d.name for d in node.devices)}")
            if self.serve is not None:
                page = stack.enter_context(served(self.serve))
                events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
                tellers.append(lambda told: _show(told, events, page.show))
                progress(f"showing at {page.address}")
            # Now, for a file may be edited in the days that a node runs.
            described = inputs.described("fit", "sensors", "model", "options", "columns")
            known = follow(node, known, source, tellers, self.rate, self.checkpoint)
        return self._payload(node, known, described)

    def _payload(self, node: Node, known: Known, inputs: Sequence[Mapping[str, Any]]) -> Payload:
        told, bias = seen(known), None
        if known.following is not None and node.sensors.first.bias != "none":
            filter, ours = known.following.filter, slice(PARAMETER_COUNT, None)
            bias = filter.values[ours], filter.covariance[ours, ours]
        first = node.sensors.first
        return payload.of_following(
            first, told.ten, told.body, told.std, bias, node.health(known), inputs
        )


@dataclass(frozen=True)
class Told:
    """What is told to all who want to know.

    Attributes:
        node: Who tells.
        known: What is known.
        events: What happened since the last time.
        due: Whether what is known is to be told, or the events alone.
        healthy: Whether health is to be told.
    """

    node: Node
    known: Known
    events: Sequence[Event]
    due: bool
    healthy: bool

    def estimate(self) -> dict[str, Any]:
        """Return what is known of the load, as JSON's values."""
        told, node = seen(self.known), self.node
        body = payload.of_following(node.sensors.first, told.ten, told.body, told.std, None, {})
        return {
            "heft": __version__,
            "schema": SCHEMA,
            "stamp": told.stamp if math.isfinite(told.stamp) else None,
            "frame": body.frame,
            "parameters": body.parameters,
        }

    def happened(self) -> list[dict[str, Any]]:
        """Return the events, as JSON's values."""
        return [
            {"stamp": self.known.stamp(e.time), "name": e.name, "message": e.message}
            for e in self.events
        ]


def follow(
    node: Node,
    known: Known,
    source: Iterator[Arrived],
    tellers: Sequence[Callable[[Told], None]],
    rate: float = 10.0,
    keep: Path | None = None,
) -> Known:
    """Take in all that a source gives, tell it, and return what is known in the end.

    Args:
        node: Who weighs.
        known: Before.
        source: What comes, also when nothing does.
        tellers: Whom to tell.
        rate: How often what is known is told [Hz]; events are told at once.
        keep: Checkpoint, or None.
    """
    told = healthy = kept = -math.inf
    for arrived in source:
        now = arrived.now
        known, events = node.step(known, now, arrived.pieces, arrived.garbage)
        due, sick = now - told >= 1.0 / rate, now - healthy >= HEALTH
        if due or events:
            news = Told(node, known, events, due, due and sick)
            for teller in tellers:
                teller(news)
        if due:
            told = now
            healthy = now if sick else healthy
        if keep is not None and now - kept >= KEPT:
            checkpoint.save(keep, node, known)
            kept = now
    if keep is not None:
        checkpoint.save(keep, node, known)
    return known


def received(
    connection: Connection, stop: threading.Event, rate: float = 10.0
) -> Iterator[Arrived]:
    """Yield what comes over the network until stopped.

    Args:
        connection: To the network.
        stop: Ends it.
        rate: How often what is known is told [Hz]: it is looked twice as often at least.
    """
    reader = Reader(connection.link.topics, connection.link.frames)
    while not stop.wait(min(TICK, 0.5 / rate)):
        pieces, garbage = reader.read(connection.receive())
        yield Arrived(time.monotonic(), pieces, garbage)


def replayed(
    recording: Recording, node: Node, speed: float, stop: threading.Event
) -> Iterator[Arrived]:
    """Yield a log as if it happened now.

    Args:
        recording: The log.
        node: Whose signals are taken.
        speed: By how much faster than it was recorded.
        stop: Ends it.

    Raises:
        MissingSignal: If the log lacks a signal.
    """
    for name in node.names:
        recording.require(name, "is what the load is weighed by")
    begin, now, before = time.monotonic(), 0.0, math.nan
    for block in recording.blocks(node.names):
        good = np.isfinite(block.time)
        times, values = block.time[good], block.values[good]
        stamps = np.round(times * 1e9).astype(np.int64)
        cuts = np.flatnonzero(np.diff(np.floor(times / SLICE)) != 0.0) + 1
        for rows in np.split(np.arange(len(stamps)), cuts):
            if not len(rows):
                continue
            newest = float(times[rows[-1]])
            if newest > before:  # where the log's clock goes back, no time passes
                now += newest - before
            before = newest
            ahead = now / speed - (time.monotonic() - begin)
            if stop.wait(ahead) if ahead > 0.0 else stop.is_set():
                return
            yield Arrived(now, [Piece(node.names, stamps[rows], values[rows])])


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, or a polite request to end, sets."""
    stop = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(n, lambda *_: stop.set()) for n in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _say_events(told: Told, say: Progress) -> None:
    for event in told.happened():
        say(f"{event['stamp']:.3f} s  {event['name']}: {event['message']}")


def _send(told: Told, connection: Connection) -> None:
    for event in told.happened():
        connection.tell("event", event)
    if told.healthy:
        connection.tell("health", told.node.health(told.known))
    if told.due:
        connection.tell("estimate", told.estimate())
        body = seen(told.known)
        if np.isfinite(body.body[:4]).all():
            connection.tell_inertia(body.stamp, told.node.sensors.first.frame, body.body)


def _show(
    told: Told, events: deque[dict[str, Any]], show: Callable[[Mapping[str, Any]], None]
) -> None:
    events.extend(told.happened())
    if told.due:
        health = told.node.health(told.known)
        show({"estimate": told.estimate(), "events": list(events), "health": health})
