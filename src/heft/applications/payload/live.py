"""`heft payload --live`: run a node from its source of messages and publish its estimates."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from heft import __version__
from heft.applications.identification import Inputs
from heft.display import policy_of, render
from heft.errors import InvalidSetting, visible
from heft.files import require_writable
from heft.fit import Progress, silent
from heft.information import PARAMETER_COUNT, Finding, folding
from heft.recordings import Recording
from heft.streams import (
    Arrival,
    Connection,
    Link,
    connected,
    received,
    replayed,
    served,
    until_failure,
)

from . import checkpoint, payload
from .node import Node, NodeState, load_estimate
from .online import Event
from .payload import Payload
from .sensors import Sensors

PAGE = "applications/payload/live_page.html.jinja"
SCHEMA = 1
KEPT = 1.0  # [s] between checkpoints
HEALTH = 1.0  # [s] between reports of it
MOST_EVENTS = 50  # shown on the page
FASTEST = 1000.0  # [Hz]
SOURCE = "source"  # of messages, as a guard names it
LONGEST_REASON = 200  # letters
Made = TypeVar("Made")


@dataclass(frozen=True)
class LiveWeighing:
    """Settings of a live identification of a payload.

    Raises:
        InvalidSetting: If not exactly one of `on` and `replay` is given, or rate or speed is out of
            range.
    """

    sensors: Path  # TOML file of the sensors
    # source of messages: `zenoh`, or a TOML file; see `streams.Link`. None with `replay`
    on: str | None = None
    insecure: bool = False  # whether a connection that others can reach is permitted
    replay: Path | None = None  # log to replay in place of messages, or None
    speed: float = 1.0  # replay speed relative to real time; infinite for as fast as possible
    columns: Path | None = None  # TOML file that maps the log's columns to signals
    model: Path | None = None  # robot model file, where the motion comes from its joints
    options: Path | None = None  # TOML file with what the model file cannot state
    rate: float = 10.0  # rate at which the estimate is published [Hz]
    serve: int | None = None  # port of the status page, or None
    checkpoint: Path | None = None  # file to resume from and save to, or None
    out: Path | None = None  # folder for the final results, or None

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

    def run(self, stop: threading.Event, message: Progress, progress: Progress = silent) -> Payload:
        """Identify until stopped, or to the end of the log, and return the final estimate.

        A source that fails after its beginning leaves a result, whose notes say so.

        Args:
            message: Called with a line of text for each event.
        """
        if self.out is not None:
            payload.refuse_foreign(self.out)
        if self.checkpoint is not None:
            require_writable(self.checkpoint)
        inputs = Inputs.open(self.model, self.options, self.columns, sensors=self.sensors)
        node = Node(Sensors.from_toml(self.sensors), inputs.robot)
        state = checkpoint.load(self.checkpoint, node) if self.checkpoint else node.start()
        if state.load is not None:
            progress(f"going on from {self.checkpoint}")
        folding.warm_up()  # its code is loaded before a message waits for it
        with ExitStack() as stack:
            listeners: dict[str, Listener] = {
                "terminal": lambda update: _write_events(update, message)
            }
            if self.replay is not None:
                inputs = inputs.with_logs(fit=[self.replay])
                source = self._replayed(node, inputs.logs["fit"][0], stop, progress)
            else:
                connection = stack.enter_context(self._connected(node, progress))
                source = received(connection, stop, self.rate)
                listeners["publication"] = lambda update: publish(update, connection)
            if self.serve is not None:
                html = render(PAGE)
                page = stack.enter_context(served(self.serve, html, policy_of(html)))
                events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
                listeners["page"] = lambda update: _show(update, events, page.show)
                progress(f"showing at {page.address}")
            # Now, for a file may be edited in the days that a node runs.
            described = inputs.described("fit", "sensors", "model", "options", "columns")
            guard = Guard()
            state = weigh(node, state, source, listeners, self.rate, self.checkpoint, guard)
            opened = stack.pop_all()
        with suppress(Exception):  # what closes badly takes no result with it
            opened.close()
        found = self._payload(node, state, described)
        if SOURCE not in guard.failing:
            return found
        why = f"the result is of what came before: {guard.failing[SOURCE]}"
        return replace(found, notes=(*found.notes, Finding(payload.CUT_SHORT, why)))

    def _replayed(
        self, node: Node, recording: Recording, stop: threading.Event, progress: Progress
    ) -> Iterator[Arrival]:
        progress(f"replaying {self.replay}")
        purpose = "is what the load is weighed by"
        return replayed(recording, node.names, purpose, self.speed, stop, self.rate)

    @contextmanager
    def _connected(self, node: Node, progress: Progress) -> Iterator[Connection]:
        link = Link.named(str(self.on))
        with connected(link, self.insecure) as connection:
            where = ", ".join((*link.connect, *link.listen))
            progress(f"listening at {where} for {', '.join(d.name for d in node.devices)}")
            yield connection

    def _payload(
        self, node: Node, state: NodeState, inputs: Sequence[Mapping[str, Any]]
    ) -> Payload:
        estimate, bias = load_estimate(state), None
        if state.load is not None and node.sensors.bias != "none":
            filter, ours = state.load.filter, slice(PARAMETER_COUNT, None)
            bias = filter.values[ours], filter.covariance[ours, ours]
        return payload.of_online(
            node.sensors.first,
            estimate.ten,
            estimate.body,
            estimate.std,
            bias,
            node.health(state),
            inputs,
        )


@dataclass(frozen=True)
class Update:
    """Update passed to listeners."""

    node: Node  # the node
    state: NodeState  # its present state
    events: Sequence[Event]  # events since the last update
    due: bool  # whether the estimate is to be published, or the events alone
    healthy: bool  # whether diagnostics are to be published

    def estimate(self) -> dict[str, Any]:
        """Return the present estimate of the load as JSON values."""
        found, sensor = load_estimate(self.state), self.node.sensors.first
        body = payload.of_online(sensor, found.ten, found.body, found.std, None, {})
        return {
            "heft": __version__,
            "schema": SCHEMA,
            "stamp": found.stamp if math.isfinite(found.stamp) else None,
            "frame": body.frame,
            "held": found.held,
            "parameters": body.parameters,
        }

    def happened(self) -> list[dict[str, Any]]:
        """Return the events as JSON values; before the first sample they have no stamp."""
        begun = self.state.alignment.epoch is not None
        return [
            {
                "stamp": self.state.stamp(e.time) if begun else None,
                "name": e.name,
                "message": e.message,
            }
            for e in self.events
        ]


Listener = Callable[[Update], None]


@dataclass
class Guard:
    """Runs actions that may fail, counts their failures, and tells the first of each in a row.

    A disk can be full, a page's reader gone, a file's handle refused, for a second or for good.
    What is known of the load is a value that no failure touches.
    """

    time: float = 0.0  # of the newest sample [s], when what fails is told to have failed
    # number of failures since they were last taken, by name of the count
    counts: Counter[str] = field(default_factory=Counter)
    events: list[Event] = field(default_factory=list)  # what is to be told of them since then
    # why each action fails that failed when it was last run, by name
    failing: dict[str, str] = field(default_factory=dict)

    def run(self, name: str, count: str, action: Callable[[], Made], many: int = 1) -> Made | None:
        """Run an action and return what it returns, or None where it fails.

        Args:
            count: Name of the count that its failures add to.
            many: Number that one failure adds to it.
        """
        try:
            made = action()
        except Exception as problem:  # whatever it is: the next sample comes in a millisecond
            self.counts[count] += many
            if name not in self.failing:
                self.tell(name, problem)
            return None
        self.failing.pop(name, None)
        return made

    def tell(self, name: str, problem: Exception) -> None:
        """Record an event for a failure."""
        reason = getattr(problem, "message", None) or str(problem) or type(problem).__name__
        self.failing[name] = visible(reason)[:LONGEST_REASON]
        self.events.append(Event(self.time, f"{name} failed", self.failing[name]))

    def take(self) -> tuple[dict[str, int], tuple[Event, ...]]:
        """Return counts and events since the last call."""
        taken = dict(self.counts), tuple(self.events)
        self.counts.clear()
        self.events.clear()
        return taken


def weigh(
    node: Node,
    state: NodeState,
    source: Iterator[Arrival],
    listeners: Mapping[str, Listener],
    rate: float = 10.0,
    keep: Path | None = None,
    guard: Guard | None = None,
) -> NodeState:
    """Process all messages of a source, pass updates to listeners, and return the final state.

    Args:
        source: Messages; yields at intervals even when none arrive, so that updates go on.
        listeners: Called with each update, by name; one that fails is told, and called again.
        rate: Rate at which the estimate is due [Hz]; events are passed on at once.
        keep: Checkpoint file, or None.
        guard: Tells failures; knows in the end which of them last. A new one if not given.
    """
    next_due = reported = kept = -math.inf
    guard = guard or Guard()
    for arrival in until_failure(source, partial(guard.tell, SOURCE)):
        now = arrival.now
        state, events = _stepped(node, state, arrival, guard)
        due, health_due = now >= next_due, now - reported >= HEALTH
        if due or events:
            update = Update(node, state, events, due, due and health_due)
            _tell(update, listeners, guard)
        if due:
            # From when it was due, not from when it was done: or each would be late by the last.
            next_due += 1.0 / rate
            next_due = next_due if next_due > now else now + 1.0 / rate
            reported = now if health_due else reported
        if keep is not None and now - kept >= KEPT:
            _save(keep, node, state, guard)
            kept = now
    if keep is not None:
        _save(keep, node, state, guard)
    counts, events = guard.take()
    state = state.counted(counts)
    if events:
        _tell(Update(node, state, events, due=False, healthy=False), listeners, guard)
    return state


def _stepped(
    node: Node, state: NodeState, arrival: Arrival, guard: Guard
) -> tuple[NodeState, tuple[Event, ...]]:
    """Return the state after an arrival, or the one before it where the step fails."""
    guard.time = state.time
    samples = sum(len(piece.stamps) for piece in arrival.pieces)
    step = partial(node.step, state, arrival.now, arrival.pieces, arrival.garbage)
    state, events = guard.run("step", "unread", step, samples) or (state, ())
    counts, failures = guard.take()
    counts["unread"] = counts.get("unread", 0) + arrival.unread
    return state.counted(counts), (*failures, *events)


def _tell(update: Update, listeners: Mapping[str, Listener], guard: Guard) -> None:
    for name, listener in listeners.items():
        guard.run(name, "untold", partial(listener, update))


def _save(keep: Path, node: Node, state: NodeState, guard: Guard) -> None:
    guard.run("checkpoint", "unsaved", partial(checkpoint.save, keep, node, state))


def _write_events(update: Update, message: Progress) -> None:
    for event in update.happened():
        when = "before any sample" if event["stamp"] is None else f"{event['stamp']:.3f} s"
        message(visible(f"{when}  {event['name']}: {event['message']}"))


def publish(update: Update, connection: Connection) -> None:
    """Publish an update over the network.

    Args:
        update: Its events at once, the estimate and health where they are due.
    """
    for event in update.happened():
        connection.publish("event", event)
    if update.healthy:
        connection.publish("health", update.node.health(update.state))
    if update.due:
        connection.publish("estimate", update.estimate())
        found = load_estimate(update.state)
        # Before any sample too: what an earlier run said may still be believed.
        stamp = found.stamp if math.isfinite(found.stamp) else time.time()
        connection.publish_inertia(stamp, update.node.sensors.first.frame, *found.told)


def _show(
    update: Update, events: deque[dict[str, Any]], show: Callable[[Mapping[str, Any]], None]
) -> None:
    events.extend(update.happened())
    if update.due:
        health = update.node.health(update.state)
        show({"estimate": update.estimate(), "events": list(events), "health": health})
