"""`heft payload --live`: run a node from its source of messages and publish its estimates."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from heft import __version__
from heft.applications.inputs import Inputs
from heft.display import policy_of, render
from heft.errors import InvalidSetting
from heft.files import require_writable
from heft.fit import Progress, silent
from heft.information import PARAMETER_COUNT, Finding, folding
from heft.streams import (
    SOURCE,
    Connection,
    Link,
    Update,
    connected,
    received,
    replayed,
    run,
    served,
)

from . import checkpoint, payload
from .node import Node, NodeState, load_estimate
from .payload import Payload
from .sensors import Sensors

PAGE = "applications/payload/live_page.html.jinja"
SCHEMA = 1
FASTEST = 1000.0  # [Hz]


@dataclass(frozen=True)
class LiveWeighing:
    """Settings of a live identification of a payload.

    Raises:
        InvalidSetting: If not one of `on` and `replay` is given, or rate or speed is out of range.
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

        Each event is a line to `message`. A source that fails after its beginning leaves a result,
        whose notes say so.
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

        def tell(update: Update[NodeState]) -> None:
            for line in update.lines():
                message(line)

        listeners: dict[str, Callable[[Update[NodeState]], None]] = {"terminal": tell}
        with ExitStack() as stack:
            if self.replay is not None:
                inputs = inputs.with_logs(fit=[self.replay])
                progress(f"replaying {self.replay}")
                log, purpose = inputs.logs["fit"][0], "is what the load is weighed by"
                source = replayed(log, node.names, purpose, self.speed, stop, self.rate)
            else:
                link = Link.named(str(self.on))
                connection = stack.enter_context(connected(link, self.insecure))
                where = ", ".join((*link.connect, *link.listen))
                progress(f"listening at {where} for {', '.join(d.name for d in node.devices)}")
                source = received(connection, stop, self.rate)
                listeners["publication"] = lambda update: publish(node, update, connection)
            if self.serve is not None:
                html = render(PAGE)
                page = stack.enter_context(served(self.serve, html, policy_of(html)))
                events: deque[dict[str, Any]] = deque(maxlen=50)  # shown on the page

                def show(update: Update[NodeState]) -> None:
                    events.extend(update.stamped())
                    if update.due:
                        estimate, health = published(node, update.state), node.health(update.state)
                        page.show({"estimate": estimate, "events": list(events), "health": health})

                listeners["page"] = show
                progress(f"showing at {page.address}")
            # Now, for a file may be edited in the days that a node runs.
            described = inputs.described("fit", "sensors", "model", "options", "columns")
            save = partial(checkpoint.save, self.checkpoint, node) if self.checkpoint else None
            state, failing = run(node.step, state, source, listeners, self.rate, save)
            opened = stack.pop_all()
        with suppress(Exception):  # what closes badly takes no result with it
            opened.close()
        weighed = result(node, state, described)
        if SOURCE not in failing:
            return weighed
        why = f"the result is of what came before: {failing[SOURCE]}"
        return replace(weighed, notes=(*weighed.notes, Finding(payload.CUT_SHORT, why)))


def result(node: Node, state: NodeState, inputs: Sequence[Mapping[str, Any]] = ()) -> Payload:
    """Return the payload as a node knows it last, with descriptions of the input files."""
    estimate, sensor = load_estimate(state), node.sensors.first
    findings: dict[str, Any] = {"health": node.health(state)}
    if state.load is not None and node.sensors.bias != "none":
        filter, ours = state.load.filter, slice(PARAMETER_COUNT, None)
        covariance = filter.covariance[ours, ours]
        findings["bias"] = payload.logged_bias(sensor, filter.values[ours], covariance)
    return Payload(
        sensor.frame,
        estimate.ten,
        estimate.body,
        estimate.std,
        (payload.mass_check(estimate.body, estimate.std),),
        sensor=findings,
        inputs=tuple(inputs),
        settings={"kind": "wrench sensor, live"},
    )


def publish(node: Node, update: Update[NodeState], connection: Connection) -> None:
    """Publish an update's events at once, the estimate and health where they are due."""
    for event in update.stamped():
        connection.publish("event", event)
    if update.healthy:
        connection.publish("health", node.health(update.state))
    if update.due:
        connection.publish("estimate", published(node, update.state))
        estimate = load_estimate(update.state)
        # Before any sample too: what an earlier run published may still be believed.
        stamp = estimate.stamp if math.isfinite(estimate.stamp) else time.time()
        connection.publish_inertia(stamp, node.sensors.first.frame, *estimate.published)


def published(node: Node, state: NodeState) -> dict[str, Any]:
    """Return the present estimate of the load as JSON values."""
    estimate = load_estimate(state)
    return {
        "heft": __version__,
        "schema": SCHEMA,
        "stamp": estimate.stamp if math.isfinite(estimate.stamp) else None,
        "frame": node.sensors.first.frame,
        "held": estimate.held,
        "parameters": payload.listed(estimate.body, estimate.std),
    }
