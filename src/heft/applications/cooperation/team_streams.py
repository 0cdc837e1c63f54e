"""Signals of one robot of a team as they come: from its topics, or from its log."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from heft.models import Robot
from heft.recordings import ColumnMap, Recording
from heft.streams import AlignedSamples, Arrival, Certificates, Device, Piece, TeamLink, replayed

from .arm import ArmContact, ArmStream
from .signals import AXES, ContactSignals
from .team_file import TeamFile, TeamRobot

SLICE = 0.025  # [s] of a log that are played at once
PURPOSE = "is what a robot tells its team by"


def names_of(kind: str, frame: str) -> tuple[str, ...]:
    """Return the signal names of a vector's components: `force.grasp.x` and so on."""
    return tuple(f"{kind}.{frame}.{axis}" for axis in AXES)


class ContactReader:
    """Conversion of a robot's device samples to contact signals, directly or by its arm's joints.

    Args:
        folder: Where the arm's model file lies.

    Raises:
        InvalidModel: If that is malformed.
        InvalidSetting: If it has no such link, or its torques are to tell a wrench and it has not
            six joints.
    """

    def __init__(self, robot: TeamRobot, folder: Path) -> None:
        self.arm: ArmStream | None = None
        self.devices, self._frame = devices_of(robot), robot.frame
        if robot.model is None or robot.link is None:
            return
        contact = ArmContact(Robot.from_file(folder / robot.model), robot.link)
        contact.robot.link(robot.link)
        wrench = ("force",) if robot.point else ("force", "torque")
        read = {"accelerometer": ("acceleration",), "wrench": wrench}
        measured = [
            name for sensor, names in read.items() if sensor in robot.sensors for name in names
        ]
        self.arm = ArmStream(contact, tuple(measured))
        if self.arm.by_torque:
            contact.require_wrench()
        self.devices = _devices_of_arm(robot, self.arm)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals that are needed."""
        return tuple(n for device in self.devices for n in device.names)

    @property
    def singular(self) -> int:
        """Number of samples left out because the arm was near a singularity."""
        return 0 if self.arm is None else self.arm.singular

    def read(self, samples: AlignedSamples) -> ContactSignals:
        """Return aligned samples as contact signals; an arm's come `BESIDE` samples later.

        Args:
            samples: Their time is since the alignment's epoch.
        """
        rows = np.hstack(samples.values)
        if self.arm is not None:
            return self.arm.add(samples.time, rows)
        columns = dict(zip(self.names, rows.T, strict=True)) | {"t": samples.time}
        return ContactSignals.of_columns(columns, self._frame)


def _devices_of_arm(robot: TeamRobot, arm: ArmStream) -> tuple[Device, ...]:
    kinds = ("q", "v", "tau") if arm.by_torque else ("q", "v")
    joints = tuple(f"{kind}.{j}" for kind in kinds for j in arm.contact.robot.channels)
    devices = [Device("joints", joints, noisy=False)]
    if "acceleration" in arm.measured:
        devices.append(Device("imu", names_of("acc", robot.frame)))
    wrench = [names_of(k, robot.frame) for k in ("force", "torque") if k in arm.measured]
    if wrench:
        devices.append(Device("wrench", tuple(n for names in wrench for n in names)))
    return tuple(devices)


def arm_sensors(robot: TeamRobot, names: Collection[str]) -> tuple[str, ...]:
    """Return which sensors at an arm's contact a log has, as in `TeamRobot.sensors`."""
    kinds = {"wrench": "force", "accelerometer": "acc"}
    return tuple(s for s, k in kinds.items() if f"{k}.{robot.frame}.x" in names)


def devices_of(robot: TeamRobot) -> tuple[Device, ...]:
    """Return a robot's devices: its wrench, inertial and velocity sensors."""
    frame = robot.frame
    torque = () if robot.point else names_of("torque", frame)
    return (
        Device("wrench", (*names_of("force", frame), *torque)),
        Device("imu", (*names_of("acc", frame), *names_of("omega", frame))),
        Device("velocity", names_of("vel", frame), noisy=False),
    )


def team_link(stated: TeamFile, own: int | None) -> TeamLink:
    """Return a robot's link to its neighbours; it connects to those with lower numbers.

    Args:
        own: Number of the robot; None for an observer of all robots.
    """
    robots = stated.robots
    addresses = [r.address or f"tcp/127.0.0.1:{7461 + k}" for k, r in enumerate(robots)]
    others = range(len(robots)) if own is None else stated.graph.neighbours[own]
    called = [j for j in others if own is None or j < own]
    secret = any(a.startswith("tls/") for a in addresses) and stated.keys is not None
    name = None if own is None else robots[own].name
    return TeamLink(
        stated.name,
        name,
        None if own is None else addresses[own],
        tuple(robots[j].name for j in others),
        tuple(addresses[j] for j in called),
        _certificates(stated.keys, name or "watch") if secret and stated.keys else None,
    )


def _certificates(keys: Path, name: str) -> Certificates:
    return Certificates(keys / "ca.pem", keys / f"{name}.pem", keys / f"{name}.key")


def played(
    log: Path,
    names: tuple[str, ...],
    columns: Path | None,
    stop: threading.Event,
    speed: float = 1.0,
    begin: float | None = None,
) -> Iterator[Arrival]:
    """Yield the samples of a robot's log as if they were measured now.

    Args:
        columns: TOML that says what the log's columns mean, or None.
        speed: Ratio of the replay's speed to the recording's.
        begin: When the log's time is zero [s] since 1970: stamps are then the wall clock's, what
            is over is left out, and `speed` is one. None for the log's own time, from now on.

    Raises:
        MissingSignal: If the log lacks a signal.
    """
    meaning = ColumnMap.from_toml(columns) if columns is not None else None
    recording = Recording.open(log, meaning)
    if begin is None:
        yield from replayed(recording, names, PURPOSE, speed, stop)
        return
    for name in names:
        recording.require(name, PURPOSE)
    started = time.time()
    for block in recording.blocks(names):
        cuts = np.flatnonzero(np.diff(np.floor(block.time / SLICE))) + 1
        for first, last in pairwise([0, *cuts.tolist(), len(block.time)]):
            part = block.time[first:last]
            due = begin + float(part[-1])
            if due < started:
                continue
            while (ahead := due - time.time()) > 2.0 * SLICE:  # neighbours are talked to meanwhile
                if stop.wait(2.0 * SLICE):
                    return
                yield Arrival(time.time(), ())
            if stop.wait(max(ahead, 0.0)):
                return
            stamps = round(begin * 1e9) + np.round(part * 1e9).astype(np.int64)
            piece = Piece(names, stamps, block.values[first:last])
            yield Arrival(begin + float(part[-1]), [piece])


def idle(stop: threading.Event, seconds: float) -> Iterator[Arrival]:
    """Yield empty arrivals at intervals, until stopped."""
    while not stop.wait(seconds):
        yield Arrival(time.monotonic(), ())
