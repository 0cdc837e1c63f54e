"""`heft coop node`: one robot of a team, its sensors, its neighbours, what it tells and keeps."""

from __future__ import annotations

import math
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from heft.errors import InvalidSetting, visible
from heft.files import put, require_own, require_regular, require_writable, workshop
from heft.information import quaternion_of_matrix
from heft.recordings import Recording
from heft.streams import (
    Alignment,
    AlignmentState,
    Arrival,
    Connection,
    Link,
    TeamConnection,
    connected,
    joined,
    received,
    until_failure,
)

from .node import CooperativeNode, NodeSettings
from .results import RESULTS, TeamFound, results_of
from .team_file import TeamFile
from .team_streams import ContactReader, arm_sensors, idle, played, team_link
from .wire import LARGEST, BadMessage, decoded, encoded

PUBLISH = "heft/coop"
READER = -1  # number by which a replica knows the checkpoint, as if it were a neighbour
ENTRY = struct.Struct("<II")  # of the checkpoint: length, CRC-32
Say = Callable[[str], None]


@dataclass(frozen=True)
class LiveNode:
    """Settings of a live node.

    Raises:
        InvalidSetting: If samples come from nowhere, or the speed is none.
    """

    team: Path  # TOML of the team
    robot: str  # name or number of the robot
    # where its sensors' messages come from and its estimates go: `zenoh`, or a TOML file; see
    # `streams.Link`. None with `replay` alone
    on: str | None = None
    replay: Path | None = None  # the robot's own log, played in place of its sensors
    speed: float = 1.0  # of the replay; infinite for as fast as possible
    # when the log's time is zero [s] since 1970; None for now, on the log's own clock
    begin: float | None = None
    columns: Path | None = None  # TOML that says what the log's columns mean
    # whether the sensors' connection may be open to others; that to neighbours never
    insecure: bool = False
    checkpoint: Path | None = None  # file to go on from and to write, or None
    out: Path | None = None  # folder for the results, or None
    lets_go: bool = False  # whether the robot lets go of the load when the node is stopped
    settings: NodeSettings = NodeSettings()  # of the estimation

    def __post_init__(self) -> None:
        if self.on is None and self.replay is None:
            raise InvalidSetting(
                "a robot's samples come over the network or from its log",
                argument="--on",
                cure="--on zenoh, or --replay left.mcap",
            )
        if not self.speed > 0.0:
            raise InvalidSetting(
                "a log is replayed forwards", argument="--speed", got=self.speed, expected="above 0"
            )

    def run(self, stop: threading.Event, message: Say, progress: Say) -> TeamFound:
        """Run until stopped, or to the end of the log, and return the results.

        Args:
            message: Called with a line for each event.
        """
        if self.out is not None:
            require_own(self.out, RESULTS)
        stated = TeamFile.from_toml(self.team)
        own = stated.number(self.robot)
        if self.replay is not None:
            stated = self._with_contact(stated, own)
        reader = ContactReader(stated.robots[own], self.team.parent)
        node = CooperativeNode(stated, own, time.time_ns(), self.settings)
        to_team = team_link(stated, own)
        journal = None if self.checkpoint is None else Journal(self.checkpoint, node)
        if journal is not None and (windows := journal.go_on()):
            progress(f"going on from {self.checkpoint}: {windows} windows")
        with ExitStack() as stack:
            sensors = None
            if self.on is not None:
                link = Link.named(self.on)
                to = PUBLISH if link.publish == Link.publish else link.publish
                where = replace(link, publish=to, transforms=f"{PUBLISH}/transforms")
                sensors = stack.enter_context(connected(where, self.insecure))
            team = stack.enter_context(joined(to_team))
            progress(f"{stated.robots[own].name} is at {to_team.address}")
            running = _Running(node, team, sensors, journal, message, reader)
            source = self._arrivals(sensors, stop, running)
            for arrival in until_failure(source, running.source_failed):
                running.step(arrival)
            running.end(self.lets_go and stop.is_set())
            opened = stack.pop_all()
        results = results_of(node)
        with suppress(Exception):  # what closes badly takes no result with it
            opened.close()
        return results

    def _with_contact(self, stated: TeamFile, own: int) -> TeamFile:
        """Return the team with the robot's sensors and kind of contact by its log's signals."""
        assert self.replay is not None
        robot = stated.robots[own]
        if self.columns is not None or robot.point:
            return stated
        names = Recording.open(self.replay).signals
        if robot.model is not None:
            robot = replace(robot, sensors=arm_sensors(robot, names))
        if robot.model is None or "wrench" in robot.sensors:
            robot = replace(robot, point=f"torque.{robot.frame}.x" not in names)
        robots = tuple(robot if k == own else r for k, r in enumerate(stated.robots))
        return replace(stated, robots=robots)

    def _arrivals(
        self, sensors: Connection | None, stop: threading.Event, running: _Running
    ) -> Iterator[Arrival]:
        if self.replay is None:
            assert sensors is not None
            return received(sensors, stop)
        names = running.reader.names
        log = played(self.replay, names, self.columns, stop, self.speed, self.begin)
        return chain(log, _until_rest(stop, running))


def _until_rest(stop: threading.Event, running: _Running) -> Iterator[Arrival]:
    """Yield empty arrivals until neighbours have all windows and nothing changes for a while."""
    news, since = running.news(), time.monotonic()
    for arrival in idle(stop, 0.05):
        if running.news() != news or running.node.solver.waiting(running.node.replica):
            news, since = running.news(), time.monotonic()
        if time.monotonic() - since > 3.0:  # [s] without news
            return
        yield arrival


class Journal:
    """File of the windows that a node holds, appended as they came, from which it resumes.

    Entries are messages as neighbours are sent, each with its length and checksum, and are read by
    the same decoder: whoever may write there can make right checksums, so nothing is believed for
    them. The last entry of a killed node may be cut short, and is dropped. Own windows are written
    before they are told, so that no number ever stands for two windows.
    """

    def __init__(self, path: Path, node: CooperativeNode) -> None:
        require_writable(path)
        self.path, self.node = path.resolve(), node
        self._file: BinaryIO | None = None
        self._size = 0
        kept = node.settings.replica.history * node.count * 204  # bytes of a window
        self._most = 3.0 * kept  # beyond which it is written anew

    def go_on(self) -> int:
        """Restore the node's windows from the file; return their number.

        Raises:
            InvalidSetting: If the file is damaged, or of another team or robot.
        """
        if not self.path.exists() or (self.path.is_file() and not self.path.stat().st_size):
            return 0
        require_regular(self.path, "file", InvalidSetting)
        if self.path.stat().st_size > 2**30:  # bytes
            raise self._refused("it is too large")
        data = self.path.read_bytes()
        at = windows = 0
        while at + ENTRY.size <= len(data):
            length, checksum = ENTRY.unpack_from(data, at)
            begin = at + ENTRY.size
            if length > LARGEST:
                raise self._refused(f"its entry at byte {at} is none")
            if begin + length > len(data):
                break  # the node was killed while it wrote
            entry = data[begin : begin + length]
            if zlib.crc32(entry) != checksum:
                raise self._refused(f"its entry at byte {at} is not what was written")
            try:
                message = decoded(entry, self.node.own, self.node.team, self.node.count)
            except BadMessage as problem:
                raise self._refused(f"its entry at byte {at}: {problem}") from problem
            self.node.replica.receive(self.node.own, message)
            windows += len(message.windows)
            at = begin + length
        if at < len(data):
            with self.path.open("r+b") as file:
                file.truncate(at)
        replica = self.node.replica
        replica.acknowledge(READER, {o: replica.count(o) for o in replica.windows})
        return windows

    def write(self) -> None:
        """Append the windows that the file lacks.

        Raises:
            OSError: If it cannot be written.
        """
        if self._file is None:
            self._file = self.path.open("ab", buffering=0)
            self._size = self._file.tell()
        for entry in self._new():
            self._size += self._file.write(entry)
        if self._size > self._most:
            self._write_anew()

    def _new(self) -> Iterator[bytes]:
        replica = self.node.replica
        while (message := replica.message(READER)).windows:
            data = encoded(message, self.node.own, self.node.team)
            yield ENTRY.pack(len(data), zlib.crc32(data)) + data
            have = {o: min(n + 1, replica.count(o)) for o, n, _ in message.windows}
            replica.acknowledge(READER, have)

    def _write_anew(self) -> None:
        """Rewrite the file with only the windows that the node still holds."""
        self.close()
        self.node.replica.forget_neighbour(READER)
        entries = b"".join(self._new())
        with workshop(self.path) as folder:
            new = folder / "journal"
            new.write_bytes(entries)
            put(new, self.path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _refused(self, reason: str) -> InvalidSetting:
        return InvalidSetting(
            "nothing can be resumed from this file",
            argument=f"--checkpoint {self.path}",
            got=reason,
            cure="name another file, or remove this one to begin anew",
        )


@dataclass
class _Running:
    node: CooperativeNode
    team: TeamConnection
    sensors: Connection | None
    journal: Journal | None
    message: Say
    reader: ContactReader
    credit: float = 0.0
    _sent: float = -math.inf
    _looked: float = -math.inf
    _credited: float = field(default_factory=time.monotonic)
    _heard: dict[int, float] = field(default_factory=dict)
    _resumed: int = 0
    _counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._alignment = Alignment(self.reader.devices)
        self._state: AlignmentState = self._alignment.start()
        names = [r.name for r in self.node.stated.robots]
        self._numbers = {names[j]: j for j in self.node.neighbours}
        self._begun = time.monotonic()

    def source_failed(self, problem: Exception) -> None:
        reason = getattr(problem, "message", None) or str(problem)
        words = f"what is known is of what came before: {reason}"
        self.node.tell("source failed", words[:300])

    def step(self, arrival: Arrival) -> None:
        self._state, aligned = self._alignment.step(self._state, arrival.now, arrival.pieces)
        self._counts.update(aligned.counts)
        self._counts.update(garbage=arrival.garbage, unread=arrival.unread)
        for notice in aligned.notices:
            self.node.tell(notice.name, notice.message, f"{notice.message} {arrival.now:.0f}")
        if aligned.samples is not None and self._state.epoch is not None:
            self.node.add_samples(self.reader.read(aligned.samples), self._state.epoch)
            if self.reader.singular:
                words = "near a singularity joint torques tell no wrench: samples are left out"
                self.node.tell("singular", words)
        now = time.monotonic()
        for name, data in self.team.receive():
            if self.node.take(self._numbers[name], data):
                self._heard[self._numbers[name]] = now
        if now - self._sent >= 0.1:  # [s] between messages to neighbours
            self._sent = now
            self._save()
            self._send()
        self._solve(now)
        if now - self._looked >= 1.0:  # [s] between what a page is told, and looks at who is silent
            self._looked = now
            self._look(now)
        self._say()

    def _send(self) -> None:
        for name, neighbour in self._numbers.items():
            with suppress(Exception):  # what is lost is sent again
                self.team.send(name, self.node.encoded(neighbour))

    def _solve(self, now: float) -> None:
        """Estimate within a share of one core; unused time is credited, up to `BURST`."""
        # [s]: what a rest saves at most
        self.credit = min(self.credit + 0.15 * (now - self._credited), 1.0)
        self._credited = now
        if self.credit > 0.0:
            begin = time.thread_time()
            self.node.solve(5)  # windows, before anything else has its turn
            self.credit -= time.thread_time() - begin

    def _look(self, now: float) -> None:
        node = self.node
        for neighbour in node.neighbours:
            name = node.stated.robots[neighbour].name
            if neighbour in node.replica.ended:
                continue
            if now - self._heard.get(neighbour, self._begun) > node.settings.silent:
                node.tell("silent", f"{name} says nothing: what is known of the load stays", name)
            elif node.forget("silent", name):
                self._resumed += 1
                node.tell("resumed", f"{name} is heard", str(self._resumed))
        missing = [
            r.name for k, r in enumerate(node.stated.robots) if not node.replica.windows.get(k)
        ]
        if missing and now - self._begun > node.settings.calibration + node.settings.silent:
            names = ", ".join(missing)
            node.tell("waiting", f"the load is told by all together; not heard yet: {names}", names)
        counts = {k: n for k, n in self._counts.items() if n}
        with suppress(Exception):
            own = {"sent_bytes": dict(self.team.sent), "counts": counts}
            self.team.show(node.state() | own)
        if self.sensors is not None:
            with suppress(Exception):
                publish(node, self.sensors)

    def _save(self) -> None:
        if self.journal is None:
            return
        try:
            self.journal.write()
        except OSError as problem:
            self.node.tell("checkpoint failed", str(problem))
        else:
            self.node.forget("checkpoint failed")

    def _say(self) -> None:
        for event in self.node.news():
            when = f"{event.time:.2f} s" if math.isfinite(event.time) else "before any window"
            self.message(visible(f"{when}  {event.name}: {event.message}"))

    def news(self) -> tuple[int, ...]:
        """Return counts that change while windows arrive, are processed or get acknowledged."""
        replica = self.node.replica
        counts = (replica.count(o) for o in sorted(replica.windows))
        waits = sum(not replica.acknowledged(j) for j in self.node.neighbours)
        return (*counts, self.node.solver.next or 0, waits)

    def end(self, lets_go: bool) -> None:
        if lets_go:
            self.node.let_go()
        self._save()
        for _ in range(2):
            self._send()
        self._say()
        if self.journal is not None:
            self.journal.close()


def publish(node: CooperativeNode, connection: Connection) -> None:
    """Publish the load and the neighbours' contact frames, in the robot's own frame."""
    robot, latest, load = node.stated.robots[node.own], node.known, node.load()
    stamp = time.time() if latest is None else latest.known.time
    body = np.full(10, np.nan) if load is None else load.numbers
    std = None if load is None else load.std
    std = np.full(10, np.inf) if std is None else std
    connection.publish_inertia(stamp, robot.frame, body, std)
    children = {}
    for j in node.neighbours:
        pose = None if latest is None else latest.between(node.own, j)
        if pose is not None:
            other = node.stated.robots[j]
            quaternion = quaternion_of_matrix(pose[0])
            children[f"{other.name}/{other.frame}"] = (quaternion, pose[1])
    if children:
        connection.publish_transforms(stamp, robot.frame, children)
