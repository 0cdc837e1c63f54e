"""One robot of a team: its samples become windows, windows of all are exchanged, and tell the load.

Nothing here knows how messages travel or what time it is: the same node runs over Zenoh and in
the simulated network of the tests.

As long as the same robots hold the load there is one `CooperativeRun`. When one lets go, the second
moments of the others' motions go on as they are. When one joins, which has none, poses that were
known go on as estimates with their covariances. So does what was known of the load in both cases,
since its windows need the wrenches of those that held it. Who hears late of a robot that joined
takes all windows again: what is known does not depend on when it was heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from heft.arrays import Array
from heft.files import plain
from heft.information import Graph, rotation_vector_of_matrix

from .agreement import from_first
from .clocks import SETTLED, ClockOffset, ClockSettings, TeamClocks
from .load import LoadEstimate
from .method import CooperativeMethod, CooperativeRun, Known
from .replication import ABSENT, WIDTH, Replica, ReplicaSettings, WindowMessage
from .signals import ContactSignals, OriginSensors
from .team_file import TeamFile
from .window_stream import WindowStream, covariances
from .windows import PAIRS, SIZE, SQUARES, Pose, Windows
from .wire import BadMessage, decoded, encoded, team_key
from .wrenches import same_delays, wrench_delays

MOST_KNOWN = 2000  # estimates over time that are kept; then every second one
MOST_EVENTS = 50
MANY = 1_000_000  # windows, as many as there are


@dataclass(frozen=True, eq=False)
class TeamKnown:
    """Team estimate, with the robots that it is of."""

    origins: tuple[int, ...]  # numbers of the robots that hold the load; frames are in their order
    known: Known  # of them

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame; None where it is not determined."""
        if robot not in self.origins or not self.known.poses:
            return None
        return self.known.load(self.origins.index(robot))

    def between(self, to: int, of: int) -> Pose | None:
        """Return R and t from the frame of robot `of` to that of `to`; None if not determined."""
        if not {to, of} <= set(self.origins) or not self.known.poses:
            return None
        return self.known.between(self.origins.index(to), self.origins.index(of))

    def of(self, origins: tuple[int, ...]) -> TeamKnown | None:
        """Return what stays valid when these robots hold the load; None if nothing does.

        Poses of those that were not there are not known.
        """
        if not self.known.poses:
            return None
        before = dict(zip(self.origins, self.known.poses, strict=True))
        poses = {k: p for k, o in enumerate(origins) if (p := before.get(o))}
        if not poses:
            return None
        moved = from_first(poses)
        values, covariance = self.known.values, self.known.covariance
        if values is not None and covariance is not None:
            change = self.known.space.load_map(poses[min(poses)])
            values, covariance = change @ values, change @ covariance @ change.T
        kept = replace(
            self.known,
            poses=tuple(moved.get(k) for k in range(len(origins))),
            values=values,
            covariance=covariance,
            disagreement=(),
            wrench_doubt=None,
            offset=None,
            doubts=tuple(
                replace(d, robot=origins.index(self.origins[d.robot]))
                for d in self.known.doubts
                if self.origins[d.robot] in origins
            ),
        )
        return TeamKnown(origins, kept)


class TeamSolver:
    """Estimation from the complete windows of a replica, one after another."""

    def __init__(self, method: CooperativeMethod, graph: Graph, clocks: ClockSettings) -> None:
        self.method, self.graph = method, graph
        self.clocks = TeamClocks(method.windows, clocks)
        self.next: int | None = None
        self.left_out = 0  # windows that some robot lacks
        self.changes: list[float] = []
        self.origins: tuple[int, ...] = ()  # robots that hold the load by now
        self._run: CooperativeRun | None = None
        self._before: TeamKnown | None = None
        self._joined: dict[int, int] = {}
        self._squares = np.zeros((0, 6))
        # by origin, up to which number its windows were asked what its sensors are, and the sum of
        # squares of what they said, with one behind
        self._sensors: dict[int, tuple[int, Array]] = {}
        self._spread_at = self._summed = 0
        self._since = self._compared = 0  # number from which the same robots hold the load, and
        # up to which clocks were compared

    def advance(self, replica: Replica, most: int, ended: bool = False) -> int:
        """Process complete windows; return their number.

        Args:
            ended: Whether no more windows are to come.
        """
        holding = {*range(self.graph.count)} - replica.late | set(replica.joined)
        if not self._until(replica, ended):
            return 0
        if self.next is not None and self._joined != replica.joined:
            new = [n for o, n in replica.joined.items() if o not in self._joined]
            if min(new, default=np.inf) - self._across + 1 < self.next:  # their wrench was amiss
                self.next, self._run, self._before, self.changes = None, None, None, []
                self._sensors = {}
        self._joined = dict(replica.joined)
        if self.next is None:
            self.next = replica.begin(tuple(holding - replica.late))
        taken = 0
        while self.next < self._until(replica, ended) and taken < most:
            number, self.next = self.next, self.next + 1  # whatever comes of this one
            self._take(replica, number)
            taken += 1
        return taken

    def waiting(self, replica: Replica) -> int:
        """Return the number of complete windows not processed yet."""
        if self.next is None:
            return 0
        return max(self._until(replica) - self.next, 0)

    def _until(self, replica: Replica, ended: bool = False) -> int:
        return self.clocks.until(replica, replica.complete(self.graph.count), ended)

    @property
    def _across(self) -> int:
        """Number of windows that begin before the first of them ends, itself included."""
        return round(self.method.windows.length / self.method.windows.stride)

    def _take(self, replica: Replica, number: int) -> None:
        origins = replica.holding(number)
        settings, across = self.method.windows, self._across
        if not origins or any(0 <= number - end < across for end in replica.ended.values()):
            return  # who let go held the load for a part of it
        if any(0 < begin - number < across for begin in replica.joined.values()):
            return  # and so did who joined
        for origin in origins:
            self._ask(replica, origin, number)
        if any(not self._sensors[o][1][-1] for o in origins):
            self.left_out += 1
            return
        if origins != self.origins or self._run is None:
            self._since = number
            self._begin(origins, replica)
        row = self.clocks.row(replica, origins, number)
        if row is None:
            self.left_out += 1
            return
        if self._learn_spread(row) and self._set_clocks(replica, number):
            return
        run = self._run
        assert run is not None
        counted = len(run.changes)
        run.step(row, number * settings.stride + 0.5 * settings.length)
        if len(run.changes) > counted:
            self.changes.append(run.changes[-1])
        if len(run.known) > MOST_KNOWN:
            del run.known[: MOST_KNOWN // 2 : 2]

    def _begin(self, origins: tuple[int, ...], replica: Replica) -> None:
        """Start a run of other robots, with what stays valid of the one before."""
        now, old, former = self.known(), self._run, self.origins
        self._before = None if now is None else now.of(origins)
        parts = [self._part(o, np.zeros(6)) for o in origins]
        run = CooperativeRun(self.method, parts, self.graph.among(origins))
        run.belief = self.method.belief.of(origins)
        self._squares, self._summed, self._spread_at = np.zeros((len(origins), 6)), 0, 0
        if old is not None:
            here = [k for k, o in enumerate(origins) if o in former]
            places = [former.index(origins[k]) for k in here]
            run.agreed = old.agreed.of(places, here)
            run.poses = run.agreed.poses
            if len(here) == len(origins):
                wide = run.wide
                columns = np.concatenate([np.arange(wide * k, wide * (k + 1)) for k in places])
                run.moments, run.seen = old.moments[:, columns], old.seen
                run.parts, run.posed = [old.parts[k] for k in places], old.posed
                run.belief = old.belief.of(places)
                self._spread_at = old.seen  # until there are more, the old ones serve
            else:
                run.belief = replace(
                    run.belief, poses=run.agreed.beliefs(run.belief.poses, run.space)
                )
            if old.changes:
                run.belief = run.belief.of_another_load()
            known = None if self._before is None else self._before.known
            if known is not None and known.values is not None and known.covariance is not None:
                load = (known.first, known.values, known.covariance)
                run.belief = replace(run.belief, mass=None, centres={}, load=load)
        self.origins, self._run = origins, run

    def _set_clocks(self, replica: Replica, number: int, ended: bool = False) -> bool:
        """Compare clocks; return whether one was set and recent windows are processed again.

        So are wrenches with their robots' motion, where poses are known. In the end all settle, by
        all windows.
        """
        begin, settings = replica.begin(self.origins), self.clocks.settings
        # Once a number, as windows that are processed again would set others to and fro
        if (not ended and number <= self._compared) or number + 1 - begin < self.method.first:
            return False
        self._compared = number
        again = begin if ended else max(begin, number + 1 - settings.again)
        if not self.clocks.compare(replica, self.origins, number, ended) or self._since > again:
            recent = begin if ended else number + 1 - settings.recent
            again = max(begin, self._since, recent)
            share = SETTLED if ended else 1.0
            if not self._compare_wrenches(replica, range(again, number), share):
                return False  # the windows that come are right
        self.changes = [t for t in self.changes if t < again * self.method.windows.stride]
        self._run, self._before, self.next = None, None, again
        return True

    def _compare_wrenches(self, replica: Replica, numbers: range, share: float) -> bool:
        """Return whether some wrenches are newly found to be late, or otherwise than before.

        Args:
            share: Of its deviation, within which a delay is left.
        """
        run = self._run
        assert run is not None
        poses = [pose for k in range(run.count) if (pose := run.poses.get(k)) is not None]
        if len(poses) < run.count or len(numbers) < self.method.first:
            return False
        parts = self.parts(replica, numbers)
        before = self.clocks.delays
        behind = {k: before[o].offset for k, o in enumerate(self.origins) if o in before}
        found = wrench_delays(parts, poses, run.changes, behind, run.space)
        new = {self.origins[k]: delay for k, delay in found.items()}
        if same_delays(before, new, share):  # how sure they are is another by now
            self.clocks.delays = {o: replace(before[o], std=d.std) for o, d in new.items()}
            return False
        self.clocks.delays = new
        return True

    def parts(self, replica: Replica, numbers: range | None = None) -> list[Windows]:
        """Return windows of the robots that hold the load, as they are used.

        Args:
            numbers: Of the windows; all since the same robots hold it if None.
        """
        if numbers is None:
            numbers = range(max(self._since, replica.begin(self.origins)), self.next or 0)
        absent, settings = np.full(WIDTH * len(self.origins), np.nan), self.method.windows
        each = (self.clocks.row(replica, self.origins, n) for n in numbers)
        rows = np.array([absent if row is None else row for row in each])
        time = settings.stride * np.array(numbers) + 0.5 * settings.length
        return [
            replace(
                self._part(o, squares / self._summed),
                time=time,
                motion=own[:, :SIZE],
                wrench=own[:, SIZE:],
            )
            for o, squares, own in zip(
                self.origins, self._squares, np.hsplit(rows, len(self.origins)), strict=True
            )
        ]

    def _ask(self, replica: Replica, origin: int, number: int) -> None:
        """Take what a robot's windows up to a number say of its sensors."""
        begin, total = self._sensors.get(origin, (replica.first[origin], np.zeros(7)))
        for k in range(begin, number + 1):
            told = replica.windows[origin].get(k, ABSENT)[WIDTH:]
            if len(told):
                total = total + np.append(told, 1.0) ** 2
        self._sensors[origin] = max(begin, number + 1), total

    def _learn_spread(self, row: Array) -> bool:
        """Update the covariance of windows; return whether that was due.

        It goes with the sensors' noise and the size of the angular velocities in them.
        """
        run = self._run
        assert run is not None
        self._squares = self._squares + row.reshape(len(self.origins), WIDTH)[:, SQUARES]
        self._summed += 1
        count = run.seen + 1
        if count < max(self._spread_at, 1):
            return False
        self._spread_at = int(np.ceil(self.method.longer * count))
        self._use_spreads()
        return True

    def _use_spreads(self) -> None:
        assert self._run is not None
        each = zip(self.origins, self._squares, strict=True)
        self._run.use([self._part(o, total / self._summed) for o, total in each])

    def _part(self, origin: int, mean: Array) -> Windows:
        second = np.zeros((3, 3))
        for value, (a, b) in zip(mean, PAIRS, strict=True):
            second[a, b] = second[b, a] = value
        total = self._sensors[origin][1]
        sensors = OriginSensors.of_numbers(np.sqrt(total[:-1] / total[-1]))
        return covariances(sensors, self.method.windows, second)

    def finish(self, replica: Replica) -> None:
        """Estimate with all windows that are here, and with delays that they settle."""
        for last in range(6):
            self.advance(replica, MANY, ended=True)
            if self._run is None or self.next is None:
                return
            self._use_spreads()
            self._run.settle()
            if last == 5 or not self._set_clocks(replica, self.next, ended=True):
                return

    def history(self) -> Sequence[Known]:
        """Return the estimates over time of the robots that hold the load now."""
        return () if self._run is None else tuple(self._run.known)

    def known(self) -> TeamKnown | None:
        """Return the latest team estimate, or None before the first."""
        run, before = self._run, self._before
        if run is None or not run.known:
            return before
        now = run.known[-1]
        if before is not None and now.poses is None:
            now = replace(before.known, time=now.time, unplaced=now.unplaced)
        elif before is not None and now.values is None and not run.changes:
            now = now.with_load_of(before.known)
        return TeamKnown(self.origins, now)


@dataclass(frozen=True)
class NodeSettings:
    """Settings of a node."""

    # of the estimation: an estimate a second is enough, and costs a share of a core
    method: CooperativeMethod = CooperativeMethod(every=20, longer=1.5)
    replica: ReplicaSettings = ReplicaSettings(repeat=5)  # of memory and of repetition
    calibration: float = 2.0  # time of samples by which noise and rate are found, each time [s]
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
        self._stream = WindowStream(windows, None, self.settings.calibration)
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

    def add_samples(self, signals: ContactSignals, epoch: int = 0) -> int:
        """Take samples of the robot's own sensors; return how many windows they complete.

        Args:
            signals: New samples in order, in the contact's frame.
            epoch: Stamp at which their time is zero [ns].
        """
        if self.own in self.replica.ended:
            return 0
        made = self._stream.add(signals.turned(self.stated.robots[self.own].turn), epoch)
        if self._stream.begin is not None:
            self.replica.take_hold(self._stream.begin)
        for number, row in made:
            self.replica.add(row, number)
        return len(made)

    def turned(self, turns: Mapping[int, Array]) -> CooperativeNode:
        """Return a node with the same windows, some robots' wrenches in other axes.

        Args:
            turns: By robot, matrix that takes a vector to those axes, shape (3, 3).
        """
        node = CooperativeNode(self.stated, self.own, self.session, self.settings)
        node.replica = copy(self.replica)
        node.replica.windows = dict(self.replica.windows)
        for origin, by in turns.items():
            change = block_diag(np.eye(SIZE), by, by).T
            node.replica.windows[origin] = {
                n: np.append(row[:WIDTH] @ change, row[WIDTH:])
                for n, row in self.replica.windows[origin].items()
            }
        return node

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
        """Process a neighbour's message; return whether it was valid, else it counts as refused."""
        try:
            message = decoded(data, neighbour, self.team, self.count)
        except BadMessage as problem:
            reason = str(problem)
            self.refused[reason] = self.refused.get(reason, 0) + 1
            return False
        self.receive(neighbour, message)
        return True

    def solve(self, most: int = MANY) -> int:
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
        names = [r.name for r in self.stated.robots]
        for robot, end in self.replica.ended.items():
            words = f"{names[robot]} holds the load until {self._time(end):.2f} s"
            self.tell("let go", words, names[robot])
        for robot, begin in self.replica.joined.items():
            words = f"{names[robot]} holds the load from {self._time(begin):.2f} s on"
            self.tell("joined", words, names[robot])
        for event, what, than, found in (
            ("clock", "clock", f"later than that of {names[0]}", self.clocks()),
            ("late wrench", "wrench", "behind its motion", self.solver.clocks.delays),
        ):
            for robot, late in found.items():
                size = f"{1e3 * late.offset:.1f} ms {than} (± {1e3 * late.std:.1g} ms)"
                self.tell(event, f"the {what} of {names[robot]} is {size}: set", names[robot])
        if (known := self.known) is not None:
            names = [names[origin] for origin in known.origins]
            for doubt in known.known.doubts:
                self.tell("doubtful", doubt.words(names[doubt.robot]), names[doubt.robot])
            if (wrench := known.known.wrench_doubt) is not None:
                name = names[wrench.robot]
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
        recorded = key in self._told
        self._told.discard(key)
        return recorded

    def _time(self, number: int | None) -> float:
        return np.nan if number is None else number * self.settings.method.windows.stride

    @property
    def known(self) -> TeamKnown | None:
        """Latest estimate of all contacts and the load, or None before the first."""
        return self.solver.known()

    def load(self, robot: int | None = None) -> LoadEstimate | None:
        """Return the load in a robot's frame, or the own one; None where it is not determined."""
        known = self.known
        return None if known is None else known.load(self.own if robot is None else robot)

    def clocks(self) -> dict[int, ClockOffset]:
        """Return the offsets of the clocks that were set, by robot, against the first one."""
        return dict(self.solver.clocks.offsets)

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
                {"time_s": plain(e.time), "name": e.name, "message": e.message} for e in self.events
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
