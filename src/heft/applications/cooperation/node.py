"""One robot of a team: its samples become windows, windows of all are exchanged, and tell the load.

Nothing here knows how messages travel or what time it is: the same node runs over Zenoh and in
the simulated network of the tests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heft.files import plain
from heft.information import rotation_vector_of_matrix

from .clocks import ClockOffset, ClockSettings
from .method import CooperativeMethod, CooperativeResult
from .replication import Replica, ReplicaSettings, WindowMessage
from .results import TeamFound
from .signals import ContactSignals, LoadEstimate
from .solver import TeamKnown, TeamSolver
from .team_file import TeamFile
from .window_stream import WindowStream
from .wire import BadMessage, decoded, encoded, team_key

MOST_EVENTS = 50


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a node."""

    # of the estimation: an estimate a second is enough, and costs a share of a core
    method: CooperativeMethod = CooperativeMethod(every=20, longer=1.5)
    replica: ReplicaSettings = ReplicaSettings(repeat=5)  # of memory and of repetition
    calibration: float = 2.0  # time of samples from which noise and rate are found [s]
    share: float = 0.15  # of a core that estimation may take
    silent: float = 2.0  # time without a message after which a neighbour is silent [s]
    clocks: ClockSettings = ClockSettings()  # how clocks are compared


@dataclass(frozen=True)
class NodeEvent:
    """Event that a node reports."""

    time: float  # on the clock of the windows [s]; NaN before the first
    name: str  # such as `changed`
    message: str  # in words


@dataclass
class CooperativeNode:
    """Node of one robot: makes windows, exchanges them with neighbours, and estimates."""

    stated: TeamFile  # the team
    own: int  # number of the robot
    session: int = 0  # since when it runs [ns]; a later one supersedes an earlier
    settings: NodeSettings = NodeSettings()  # of the node
    replica: Replica = field(init=False)  # windows of all robots
    refused: dict[str, int] = field(default_factory=dict)  # messages that were none, by reason
    # what happened, newest last
    events: deque[NodeEvent] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))

    def __post_init__(self) -> None:
        windows = self.settings.method.windows
        late, method = self.stated.late, self.settings.method
        self.replica = Replica(self.own, self.session, self.settings.replica, late)
        method = replace(method, belief=self.stated.belief, planar=self.stated.planar)
        self.solver = TeamSolver(method, self.stated.graph, self.settings.clocks)
        self.team = team_key([r.name for r in self.stated.robots], self.stated.graph, windows)
        self._stream = WindowStream(windows, None, self.settings.calibration, self.session)
        self._told: set[str] = set()
        self._news: list[NodeEvent] = []

    @property
    def neighbours(self) -> tuple[int, ...]:
        """Numbers of the robots that it talks to."""
        return self.stated.graph.neighbours[self.own]

    @property
    def count(self) -> int:
        """How many robots the team has."""
        return len(self.stated.robots)

    def go_on_from(self, message: WindowMessage) -> None:
        """Restore windows that the node held before a restart.

        Args:
            message: Message of the node itself, as it is sent to neighbours.
        """
        said = message.sensors.get(self.own)
        if said is not None and self._stream.sensors is None:
            windows = self.settings.method.windows
            self._stream = WindowStream(windows, said, session=self.session)
        self.replica.receive(self.own, message)

    def add_samples(self, signals: ContactSignals, epoch: int = 0) -> int:
        """Take samples of the robot's own sensors; return how many windows they complete.

        Args:
            signals: New samples in order, in the contact's frame.
            epoch: Stamp at which their time is zero [ns].
        """
        if self.own in self.replica.ended:
            return 0
        if self.stated.robots[self.own].reaction:
            signals = signals.reversed()
        made = self._stream.add(signals, epoch)
        if self._stream.begin is not None:
            self.replica.take_hold(self._stream.begin)
        if self._stream.sensors is not None and self.own not in self.replica.sensors:
            self.replica.sensors[self.own] = self._stream.sensors
        for number, row in made:
            self.replica.add(row, number)
        return len(made)

    def let_go(self) -> None:
        """Announce that the robot has released the load."""
        self.replica.let_go()

    def message(self, neighbour: int) -> WindowMessage:
        """Return the next message to a neighbour."""
        return self.replica.message(neighbour)

    def receive(self, neighbour: int, message: WindowMessage) -> None:
        """Process a neighbour's message; ignore robots that are no neighbours."""
        if neighbour in self.neighbours:
            self.replica.receive(neighbour, message)

    def encoded(self, neighbour: int) -> bytes:
        """Return the next message to a neighbour as bytes."""
        return encoded(self.message(neighbour), self.own, self.team)

    def take(self, neighbour: int, data: bytes) -> bool:
        """Decode and process a neighbour's message; return whether it was valid.

        Args:
            data: Encoded message; invalid ones are counted in `refused`.
        """
        try:
            message = decoded(data, neighbour, self.team, self.count)
        except BadMessage as problem:
            reason = str(problem)
            self.refused[reason] = self.refused.get(reason, 0) + 1
            return False
        self.receive(neighbour, message)
        return True

    def solve(self, most: int = 1_000_000) -> int:
        """Process windows that all robots have; return their number."""
        changes = len(self.solver.changes)
        try:
            taken = self.solver.advance(self.replica, most)
        except (np.linalg.LinAlgError, ValueError) as problem:  # windows that tell nothing at all
            self.tell("not told", f"the windows so far tell no load: {problem}")
            return 1
        for time in self.solver.changes[changes:]:
            self._happened(NodeEvent(time, "changed", "the load is another"))
        if taken:
            self._look()
        return taken

    def _look(self) -> None:
        for robot, end in self.replica.ended.items():
            name = self.stated.robots[robot].name
            self.tell("let go", f"{name} holds the load until {self._time(end):.2f} s", name)
        for robot, begin in self.replica.joined.items():
            name = self.stated.robots[robot].name
            self.tell("joined", f"{name} holds the load from {self._time(begin):.2f} s on", name)
        for robot, clock in self.clocks().items():
            name, first = self.stated.robots[robot].name, self.stated.robots[0].name
            late = f"{1e3 * clock.offset:.1f} ms later than that of {first}"
            words = f"the clock of {name} is {late} (± {1e3 * clock.std:.1g} ms): set"
            self.tell("clock", words, name)
        known = self.known
        if known is not None:
            for doubt in known.known.doubts:
                name = self.stated.robots[known.origins[doubt.robot]].name
                self.tell("doubtful", doubt.words(name), name)
            if (wrench := known.known.wrench_doubt) is not None:
                name = self.stated.robots[known.origins[wrench.robot]].name
                self.tell("doubtful wrench", wrench.words(name), name)

    def tell(self, name: str, message: str, once: str = "") -> None:
        """Record an event, once for each name and subject.

        Args:
            once: Subject; its event is not recorded again before `forget`.
        """
        key = f"{name} {once}"
        if key not in self._told:
            self._told.add(key)
            self._happened(NodeEvent(self._time(self.solver.next), name, message))

    def _happened(self, event: NodeEvent) -> None:
        self.events.append(event)
        self._news = [*self._news[1 - MOST_EVENTS :], event]

    def news(self) -> list[NodeEvent]:
        """Return the events since the last call."""
        news, self._news = self._news, []
        return news

    def forget(self, name: str, once: str = "") -> bool:
        """Allow an event to be recorded again; return whether it had been."""
        key = f"{name} {once}"
        told = key in self._told
        self._told.discard(key)
        return told

    def _time(self, number: int | None) -> float:
        return np.nan if number is None else number * self.settings.method.windows.stride

    @property
    def known(self) -> TeamKnown | None:
        """Latest estimate of all contacts and the load, or None before the first."""
        return self.solver.known()

    def load(self, robot: int | None = None) -> LoadEstimate | None:
        """Return the load in a robot's frame; None where it is not determined.

        Args:
            robot: Number of the robot; this node's own if None.
        """
        known = self.known
        return None if known is None else known.load(self.own if robot is None else robot)

    def clocks(self) -> dict[int, ClockOffset]:
        """Return the offsets of the clocks that were set, by robot, against the first one."""
        return dict(self.solver.clocks.offsets)

    def found(self) -> TeamFound:
        """Return the results with all windows so far, as `heft coop identify` does."""
        self.solver.finish()
        known = self.known
        origins = tuple(range(self.count)) if known is None else known.origins
        history = [] if known is None else [*self.solver.history()]
        if known is not None:
            history = [k for k in history if len(k.poses or ()) == len(origins)]
            history = [*history[:-1], known.known]
        result = CooperativeResult(tuple(history), tuple(self.solver.changes))
        end = 0.0 if known is None else known.known.time
        untold = origins if known is None else known.known.unplaced
        among = self.stated.among(origins)
        clocks = {origins.index(o): c for o, c in self.clocks().items() if o in origins}
        untold = untold if result.known else ()
        return TeamFound(among, "heft", result, end, clocks, untold)

    def state(self) -> dict[str, Any]:
        """Return the node's state for the team's page, as JSON values."""
        known, names = self.known, [r.name for r in self.stated.robots]
        load = self.load()
        poses = []
        for j in self.neighbours:
            pose = None if known is None else known.between(self.own, j)
            if pose is not None:
                turn = rotation_vector_of_matrix(pose[0])
                entry = {"of": names[j], "origin_m": plain(pose[1]), "turn_rad": plain(turn)}
                poses.append(entry)
        return {
            "robot": names[self.own],
            "time_s": None if known is None else known.known.time,
            "load": None if load is None else _load(load),
            "misfit": None if load is None or known is None else known.known.misfit,
            "poses": poses,
            "holding": [] if known is None else [names[o] for o in known.origins],
            "windows": {names[o]: self.replica.count(o) for o in sorted(self.replica.windows)},
            "left_out": self.solver.left_out,
            "refused": sum(self.refused.values()),
            "events": [
                {
                    "time_s": e.time if np.isfinite(e.time) else None,
                    "name": e.name,
                    "message": e.message,
                }
                for e in self.events
            ],
        }


def _load(load: LoadEstimate) -> Mapping[str, Any]:
    std = load.std
    return {
        "mass_kg": load.mass,
        "mass_std_kg": None if std is None else float(std[0]),
        "com_m": plain(load.com),
        "inertia_kgm2": plain(load.inertia),
    }
