"""Logs of a team's robots: what is read of each, and what its sensors read at its contact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from heft.errors import InvalidRecording, InvalidSetting
from heft.models import Robot
from heft.recordings import ColumnMap, Recording

from .arm import ArmContact
from .signals import AXES, ContactSignals, usual_step
from .team_file import TeamFile, TeamRobot

WHY = {
    "omega": "says how its contact turns",
    "vel": "says how its contact moves",
    "acc": "is what its accelerometer reads",
    "force": "is the force that it applies",
    "torque": "is the torque that it applies",
}


@dataclass(frozen=True)
class RobotLog:
    """Log of one robot of a team, with the signals alone that it is identified by."""

    robot: TeamRobot  # the robot
    recording: Recording  # its log
    arm: ArmContact | None  # that tells its twist; None if sensors at the contact do
    sensors: tuple[str, ...]  # kinds of signals that are measured at its contact

    @staticmethod
    def open(path: Path, robot: TeamRobot, columns: ColumnMap | None = None) -> RobotLog:
        """Open the log that a robot's file names.

        Args:
            path: The team's file.
            columns: Map of the log's columns, where the robot has none of its own.

        Raises:
            InvalidSetting: If it names no log, or the log has its wrench in another frame.
            InvalidRecording: If the log cannot be read.
            MissingSignal: If it lacks a signal.
        """
        if robot.log is None:
            raise InvalidSetting(
                "the file names no log of this robot",
                argument=f"{path}, [[robot]] {robot.name}",
                cure=f'log = "{robot.name}.parquet"',
            )
        if robot.map is not None:
            columns = ColumnMap.from_toml(path.parent / robot.map)
        elif robot.topics:
            columns = ColumnMap.from_dict({"topic": {"names": [*robot.topics]}})
        recording = Recording.open(path.parent / robot.log, columns)
        there = [k for k in WHY if f"{k}.{robot.frame}.x" in recording.signals]
        if robot.model is None or robot.link is None:
            sensors = tuple(k for k in WHY if k != "torque" or k in there)
            joints: dict[str, str] = {}
            arm = None
        else:
            arm = ArmContact(Robot.from_file(path.parent / robot.model), robot.link)
            arm.robot.link(robot.link)
            sensors = tuple(k for k in ("acc", "force", "torque") if k in there)
            if "force" not in sensors:
                _refuse_other_frame(robot, recording)
            kinds = ("q", "v") if "force" in sensors else ("q", "v", "tau")
            why = f"tells how {robot.name}'s arm holds the load"
            joints = {f"{kind}.{j}": why for kind in kinds for j in arm.robot.channels}
        names = joints | {f"{k}.{robot.frame}.{a}": WHY[k] for k in sensors for a in AXES}
        for name, why in names.items():
            recording.require(name, why)
        sources = {name: recording.sources[name] for name in names}
        return RobotLog(robot, replace(recording, sources=sources), arm, sensors)

    def signals(self) -> ContactSignals:
        """Return what sensors at its contact read.

        Rows that lack one are holes, or another robot's; so are those whose stamps go back.

        Raises:
            InvalidRecording: If no row has them all.
        """
        names = self.recording.signals
        rows = self.recording.whole(names)
        finite = np.isfinite(rows.values).all(axis=1)
        time, values = rows.time[finite], rows.values[finite]
        ahead = np.diff(np.fmax.accumulate(time), prepend=-np.inf) > 0.0
        time, values = time[ahead], values[ahead]
        if not len(time):
            lacking = [n for n, v in zip(names, rows.values.T, strict=True) if np.isnan(v).all()]
            raise InvalidRecording(
                "no row of the log has all numbers",
                argument=self.recording.name,
                got=f"{len(rows.time)} rows, none with {', '.join(lacking or names)}",
            )
        if self.arm is not None:
            named = {"acc": "acceleration", "force": "force", "torque": "torque"}
            read = self.arm.of_rows(time, values, [named[k] for k in self.sensors])
        else:
            columns = dict(zip(names, values.T, strict=True)) | {"t": time}
            read = ContactSignals.of_columns(columns, self.robot.frame)
        return read.turned(self.robot.turn)


def _refuse_other_frame(robot: TeamRobot, recording: Recording) -> None:
    others = [n.split(".")[1] for n in recording.signals if re.fullmatch(r"force\..+\.x", n)]
    if others:
        raise InvalidSetting(
            "the log has a wrench, but of another frame than the contact's",
            argument=f"[[robot]] {robot.name}, frame",
            got=f'"{robot.frame}", and force.{others[0]}.x in {recording.name}',
            cure=f'frame = "{others[0]}" if that is at {robot.link}. Where joint efforts are to '
            'count instead, name their topic alone: topics = ["…"] in its [[robot]]',
        )


def opened(
    stated: TeamFile, path: Path, columns: Path | None, progress: Callable[[str], None]
) -> Iterator[RobotLog]:
    """Yield each robot's log; errors as of `RobotLog.open`.

    Args:
        path: The team's file.
        columns: TOML that says what the logs' columns mean.
    """
    meaning = ColumnMap.from_toml(columns) if columns is not None else None
    for robot in stated.robots:
        progress(f"reading {robot.log}")
        yield RobotLog.open(path, robot, meaning)


def from_one_epoch(logs: Sequence[RobotLog]) -> list[ContactSignals]:
    """Return logs' signals whose times count from one stamp, where all logs have stamps.

    Else each counts from its own beginning, and the logs are taken to begin together.

    Raises:
        InvalidRecording: If they have no time in common, or numbers are missing.
    """
    team = [log.signals() for log in logs]
    stamps = [e for log in logs if (e := log.recording.epoch) is not None]
    if len(stamps) == len(team):
        late = [1e-9 * (stamp - min(stamps)) for stamp in stamps]
        team = [replace(s, time=s.time + t) for s, t in zip(team, late, strict=True)]
    begin, end = together(team)
    if end - begin < 100.0 * max(usual_step(s.time) for s in team):
        names = [log.robot.name for log in logs]
        spans = (
            f"{n} {s.time[0]:.6g} to {s.time[-1]:.6g} s" for n, s in zip(names, team, strict=True)
        )
        raise InvalidRecording(
            "the robots' logs have hardly any time in common",
            argument=", ".join(names),
            got=", ".join(spans),
            cure="take logs of one time. Where the robots' clocks were not set alike, heft convert "
            "LOG OWN.npz writes a log that counts from its own beginning",
        )
    return team


def together(team: Sequence[ContactSignals]) -> tuple[float, float]:
    """Return begin and end of the time that all logs have [s]."""
    return max(float(s.time[0]) for s in team), min(float(s.time[-1]) for s in team)


def at_one_time(team: Sequence[ContactSignals]) -> list[ContactSignals]:
    """Return all signals at even times that all logs have, interpolated where they differ."""
    step = max(usual_step(s.time) for s in team)
    begin, end = together(team)
    count = int((end - begin) / step * (1.0 + 1e-12)) + 1
    time = np.asarray(begin + step * np.arange(count), dtype=np.float64)
    return [s.at(time) for s in team]
