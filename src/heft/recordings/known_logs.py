"""Logs of robot vendors' tools, recognised by the names of their columns.

Sources: the recorder of Universal Robots' RTDE client names its columns `timestamp` [s],
`actual_q_0` to `actual_q_5` [rad], `actual_qd_0` [rad/s], `actual_current_0` [A] and separates
them by spaces (github.com/UniversalRobots/RTDE_Python_Client_Library, `rtde/csv_writer.py`;
units in the RTDE guide); ur_rtde's writes the same names with commas. `franka::logToCSV` names
them `time` [ms], `state.q[0]` to `state.q[6]` [rad], `state.dq[0]` [rad/s], `state.tau_J[0]` [N·m]
(github.com/frankaemika/libfranka, `src/log.cpp`: the time is printed by `toMSec`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.errors import InvalidRecording

from .columns import UNITS, ColumnMap, SignalMap
from .formats.table import Table


@dataclass(frozen=True)
class KnownLog:
    """Column names of one tool's logs."""

    tool: str  # name of the tool
    time: str  # column of time
    unit: str | None  # unit of time, or None where the tool's users write several
    # pattern of the columns by kind of signal, `{}` for the joint's number from 0
    signals: tuple[tuple[str, str], ...]
    joints: tuple[str, ...]  # the joints' usual names, in order
    note: str  # other signals of the log, and why they are not used

    def fits(self, columns: Sequence[str]) -> bool:
        """Whether a log has this tool's column of time and all its columns of joint positions."""
        there = set(columns)
        _, positions = self.signals[0]
        return {self.time, *(positions.format(k) for k in range(len(self.joints)))} <= there

    def columns(self, table: Table, joints: Sequence[str]) -> tuple[ColumnMap, tuple[str, ...]]:
        """Return the column map of a log of this tool, and remarks on the log.

        Args:
            joints: The robot's joints, in the tool's order; the usual names if not given.

        Raises:
            InvalidRecording: If the robot has another number of joints under other names.
        """
        names, usual = list(self.joints), list(self.joints)
        notes = [f"columns as {self.tool} names them; {self.note}"]
        if joints and not set(usual) <= set(joints):
            if len(joints) != len(usual):
                raise InvalidRecording(
                    f"{self.tool} logs {len(usual)} joints by number, the robot has {len(joints)}",
                    argument=table.path,
                    expected=", ".join(usual),
                    cure="say in a map (--map) which joint each column is of",
                )
            names = list(joints)
            notes.append("joints are taken in the model's order: " + ", ".join(names))
        unit = self.unit
        if unit is None:
            unit = _unit_of_time(table, self.time)
            notes.append(f"time is taken to be in {unit}, from its steps")
        signals = []
        for kind, pattern in self.signals:
            found = tuple(pattern.format(k) for k in range(len(names)))
            if set(found) <= set(table.columns):
                count = len(names)
                si = next(iter(UNITS[kind]))
                signals.append(
                    SignalMap(kind, found, tuple(names), si, np.eye(count), np.zeros(count))
                )
        return ColumnMap(self.time, unit, None, tuple(signals)), tuple(notes)


def _unit_of_time(table: Table, column: str) -> str:
    """Return `ms` if the clock steps by about a half or more, `s` else: robots log at 2 Hz up."""
    block = next(table.read([column]), np.empty((0, 1)))
    steps = np.diff(block[:, 0])
    steps = steps[steps > 0.0]
    return "ms" if len(steps) and float(np.median(steps)) >= 0.5 else "s"


_UR = tuple(
    f"{name}_joint"
    for name in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
)
_PANDA = tuple(f"panda_joint{k}" for k in range(1, 8))
_FRANKA_NOTE = (
    "tau_J is the measured torque on the link side, gravity included; commands and filtered "
    "external torques are not used"
)


def _franka(q: str, v: str, tau: str, unit: str | None = None) -> KnownLog:
    signals = (("q", q), ("v", v), ("tau", tau))
    return KnownLog("libfranka", "time", unit, signals, _PANDA, _FRANKA_NOTE)


KNOWN = (
    KnownLog(
        "RTDE",
        "timestamp",
        "s",
        (("q", "actual_q_{}"), ("v", "actual_qd_{}"), ("current", "actual_current_{}")),
        _UR,
        "actual_current is a motor current: the torque needs a gain per joint, and target_moment, "
        "which the controller computes from its own model, is no measurement and is not used; "
        "nor are actual_TCP_force and actual_TCP_pose, which are in the base's axes",
    ),
    _franka("state.q[{}]", "state.dq[{}]", "state.tau_J[{}]", "ms"),
    # As users write the same state themselves.
    _franka("q[{}]", "dq[{}]", "tau_J[{}]"),
    _franka("q_{}", "dq_{}", "tau_J_{}"),
    _franka("state.q_{}", "state.dq_{}", "state.tau_J_{}"),
)


def recognise(columns: Sequence[str]) -> KnownLog | None:
    """Return the tool whose column names these are, or None."""
    return next((k for k in KNOWN if k.fits(columns)), None)
