"""Meaning of a log's columns: canonical signal names, their units, the column map of `--map`.

Logs of known vendors' tools are recognised by their columns' names, and have a map of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting, require_one_of, shown, spelt
from heft.files import (
    Keys,
    Number,
    Reader,
    Section,
    Text,
    list_of,
    name_list,
    named,
    number,
    read_toml,
    rows_of,
    truth,
)

from .formats.table import EITHER, NAMED, Table, Topics

JOINT_KINDS = ("q", "v", "a", "tau", "current", "q_ref", "q_motor")
# Kinds of signals of frames, and their components.
FRAME_KINDS = {
    **dict.fromkeys(("force", "torque", "pos"), "xyz"),
    "quat": "wxyz",
    **dict.fromkeys(("omega", "vel", "acc"), "xyz"),
}
# Kinds of signals of neither, and what they are of.
OWNERS = {"u": "actuators", "contact": "contacts"}
KINDS = (*JOINT_KINDS, *FRAME_KINDS, *OWNERS)
POSITIONS = {"rad": 1.0, "deg": np.pi / 180.0, "turn": 2.0 * np.pi, "m": 1.0, "mm": 1e-3}
TORQUES = {"N·m": 1.0, "Nm": 1.0, "N*m": 1.0, "mNm": 1e-3, "kNm": 1e3}
UNITS: dict[str, dict[str, float]] = {
    "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    **dict.fromkeys(("q", "q_ref", "q_motor"), POSITIONS),
    "v": {
        **{"rad/s": 1.0, "deg/s": np.pi / 180.0, "rpm": 2.0 * np.pi / 60.0},
        **{"m/s": 1.0, "mm/s": 1e-3},
    },
    "a": {"rad/s^2": 1.0, "deg/s^2": np.pi / 180.0, "m/s^2": 1.0, "mm/s^2": 1e-3},
    "tau": TORQUES | {"N": 1.0},
    "current": {"A": 1.0, "mA": 1e-3},
    "force": {"N": 1.0, "kN": 1e3, "mN": 1e-3},
    "torque": TORQUES,
    "pos": {"m": 1.0, "mm": 1e-3},
    "omega": {"rad/s": 1.0, "deg/s": np.pi / 180.0},
    "vel": {"m/s": 1.0, "mm/s": 1e-3},
    "acc": {"m/s^2": 1.0, "g": 9.80665},
    "quat": {"1": 1.0},
    "u": {"1": 1.0},
    "contact": {"1": 1.0},
}
MOST_NAMED = 500  # joints of a table: a matrix takes the square of them


def is_canonical(name: str) -> bool:
    """Whether a column's name is canonical: `q.elbow`, `force.tool0.x`, `u.rotor1`."""
    kind, _, rest = name.partition(".")
    if kind in FRAME_KINDS:
        frame, _, letter = rest.rpartition(".")
        return bool(frame) and len(letter) == 1 and letter in FRAME_KINDS[kind]
    return kind in KINDS and bool(rest)


@dataclass(frozen=True)
class SignalMap:
    """Affine map from a file's columns to signals of one kind, in SI units.

    `signals = offset + unit · matrix @ columns`, where the matrix includes sign and gear ratio:
    `sign / ratio` for positions, `sign · ratio` for torques, since a reduction gear that divides
    the speed multiplies the torque.
    """

    # `q`, `v`, `a`, `tau`, `current`, `q_ref` (what a controller was asked for), `q_motor` (where
    # the motor is, at the joint); of frames `force`, `torque`, `pos`, `quat`, `omega`, `vel`,
    # `acc`; of actuators `u`; of contacts `contact`, 1 where one is closed
    kind: str
    columns: tuple[str, ...]  # the file's columns; of a 2-D array `name[0]`, `name[1]`, …
    # the joints, actuators or contacts, in the order of the result; of a frame its components, as
    # `tool0.x`
    joints: tuple[str, ...]
    unit: str  # unit in the file
    matrix: Array  # signals per column, in the file's unit, shape (joints, columns)
    offset: Array  # added last, shape (joints,) [SI unit of the kind]
    # whether each value holds until the next sample (zero-order hold), as what a digital controller
    # puts out; of `tau` and `current`
    held: bool = False
    wrapped: tuple[str, ...] = ()  # columns that jump by a full turn, and are unwrapped

    @staticmethod
    def plain(
        kind: str, columns: Sequence[str], joints: Sequence[str], unit: str | None = None
    ) -> SignalMap:
        """Return the map of columns that are the signals of joints; in SI units if none is said."""
        count = len(joints)
        unit = unit or next(iter(UNITS[kind]))
        return SignalMap(kind, tuple(columns), tuple(joints), unit, np.eye(count), np.zeros(count))

    @property
    def turns(self) -> dict[str, float]:
        """What a full turn is in each wrapped column [the file's unit]."""
        return dict.fromkeys(self.wrapped, 2.0 * np.pi / UNITS[self.kind][self.unit])

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names of the resulting signals, one a joint."""
        return tuple(f"{self.kind}.{j}" for j in self.joints)


@dataclass(frozen=True)
class ColumnMap:
    """Map from a file's columns to canonical signals: the TOML file of `--map`.

    ```toml
    [time]
    column = "stamp"            # or: step = 0.001
    unit = "ms"
    [q]
    columns = ["pos_1", "pos_2"] # or: array = "positions", a 2-D array of an NPZ file
    joints = ["shoulder", "elbow"]
    unit = "deg"
    sign = [1, -1]
    ratio = [100, 80]           # motor turns per joint turn
    offset = [0.0, 1.5708]      # added, in rad
    unwrap = true               # or some of the joints: angles that jump by a full turn go on
    # or: matrix = [[..], [..]]   joints = matrix @ columns
    # or: inverse = [[..], [..]]  columns = inverse @ joints
    [tau]
    held = true                 # each value until the next, as a controller puts it out
    ...
    [force]
    frame = "tool0"             # a frame instead of joints; three columns: x, y, z
    columns = ["fx", "fy", "fz"]
    [topic]                     # of a log of ROS messages
    names = ["/joint_states"]   # those to read, where several carry the same signal
    frames = {"/mocap/pose" = "gripper"}
    ```

    A map without a time table and without signals takes the columns' names as canonical.
    """

    time: str | None  # the time column, or None where the step is constant
    time_unit: str  # unit of the time column
    step: float | None  # constant time step [s], or None
    signals: tuple[SignalMap, ...]  # one map a kind of signal
    topics: Topics = field(default_factory=Topics)  # which topics of a log of messages are read

    @property
    def canonical(self) -> bool:
        """Whether the map defines no signals, so that the columns' names are taken as canonical."""
        return not self.signals and self.time == "t" and self.time_unit == "s"

    @staticmethod
    def from_toml(path: Path) -> ColumnMap:
        """Read a column map.

        Raises:
            InvalidSetting: If it cannot be read, is malformed, or has unknown keys.
        """
        return ColumnMap.from_dict(read_toml(path), str(path))

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "map") -> ColumnMap:
        """Return the map of a parsed TOML table; errors as of `from_toml`."""
        return COLUMN_MAP({"time": {"column": "t"}, **table}, where)


def _column_map(
    time: Mapping[str, Any], topic: Topics | None = None, **by_kind: SignalMap
) -> ColumnMap:
    signals = tuple(by_kind.values())
    used = Counter(column for signal in signals for column in signal.columns)
    twice = sorted(column for column, count in used.items() if count > 1)
    if twice:
        raise InvalidSetting("a column cannot be two signals", got=", ".join(twice))
    return ColumnMap(**time, signals=signals, topics=topic or Topics())


def _time(
    column: str | None = None, unit: str = "s", step: float | None = None
) -> dict[str, object]:
    if (column is None) == (step is None):
        raise InvalidSetting(
            "either the column of time or a constant step is needed", valid=("column", "step")
        )
    return {"time": column, "time_unit": unit, "step": step}


def _signal_map(
    kind: str, columns: tuple[str, ...] | None = None, array: str | None = None, **given: Any
) -> SignalMap:
    of = _owners(kind)
    names = given[of]
    count = len(names)
    if (columns is None) == (array is None):
        raise InvalidSetting("either columns or array is needed", valid=("columns", "array"))
    if columns is None:
        columns = tuple(f"{array}[{k}]" for k in range(count))
    if len(columns) != count:
        parts = "components" if of == "frame" else of
        raise InvalidSetting(
            f"columns and {parts} differ in number", got=f"{len(columns)} columns, {count} {parts}"
        )
    if "matrix" in given and "inverse" in given:
        raise InvalidSetting("either matrix or inverse, not both")
    matrix = given.get("matrix", given.get("inverse", np.eye(count)))
    ones = (1.0,) * count
    sign, scale, ratio = (np.array(given.get(key, ones)) for key in ("sign", "scale", "ratio"))
    gains = sign * scale * (ratio if kind in ("tau", "current") else 1.0 / ratio)
    offset = np.array(given.get("offset", np.zeros(count)))
    unit = given.get("unit", next(iter(UNITS[kind])))
    unwrap = given.get("unwrap", ())
    wrapped = tuple(c for c, j in zip(columns, names, strict=True) if unwrap is True or j in unwrap)
    holds = given.get("held", False)
    return SignalMap(kind, columns, names, unit, matrix * gains, offset, holds, wrapped)


def _unit_of(kind: str) -> Text:
    return Text("this is no unit of this signal", UNITS[kind])


def _owners(kind: str) -> str:
    return "frame" if kind in FRAME_KINDS else OWNERS.get(kind, "joints")


def _signal_keys(kind: str, table: Mapping[str, Any], _: str) -> Keys:
    of = _owners(kind)
    joints = FRAME_KINDS[kind] if of == "frame" else table.get(of)
    count = len(joints) if isinstance(joints, list | str) else None
    return {
        of: partial(_names, kind),
        "columns": name_list,
        "array": Text("the name of an array is expected"),
        "unit": _unit_of(kind),
        "sign": list_of(Number("signs are 1 or -1", holds=lambda x: abs(x) == 1.0), count),
        "ratio": list_of(Number("a ratio must not be 0", holds=bool), count),
        "scale": list_of(Number("a scale must not be 0", holds=bool), count),
        "offset": list_of(number, count),
        "matrix": _square(count),
        "inverse": _square(count, inverted=True),
        **({"held": truth} if kind in ("tau", "current") else {}),
        **({"unwrap": partial(_unwrap, joints)} if UNITS[kind] is POSITIONS else {}),
    }


def _unwrap(joints: object, value: object, where: str) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    chosen = name_list(value, where)
    for name in chosen:
        if isinstance(joints, list):
            require_one_of(name, joints, f"'{name}' is none of the table's joints", where)
    return chosen


def _names(kind: str, value: object, where: str) -> tuple[str, ...]:
    """Return the names of joints or actuators, or the components of the named frame."""
    of = _owners(kind)
    if of == "frame" and isinstance(value, str) and value:
        return tuple(f"{value}.{letter}" for letter in FRAME_KINDS[kind])
    if of == "frame" or not isinstance(value, list) or not value:
        says, cure = f"the {of} are not named", f'add {of} = ["…", "…"] in the order of the columns'
        if of == "frame":
            says, cure = "the frame is not named", 'add frame = "…"'
        raise InvalidSetting(says, argument=where, got=shown(value), cure=cure)
    if len(value) > MOST_NAMED:
        raise InvalidSetting(
            f"too many {of} are named",
            argument=where,
            got=len(value),
            expected=f"at most {MOST_NAMED}",
        )
    return name_list(value, where)


def _square(count: int | None, inverted: bool = False) -> Reader[Array]:
    def read(value: object, where: str) -> Array:
        matrix = np.array(rows_of(number)(value, where))
        if matrix.shape != (count, count):
            raise InvalidSetting(
                "the matrix does not fit the joints",
                argument=where,
                got=f"shape {matrix.shape}",
                expected=f"({count}, {count})",
            )
        if not inverted:
            return matrix
        if np.linalg.matrix_rank(matrix) < len(matrix):
            raise InvalidSetting("the matrix is singular", argument=where)
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64)

    return read


COLUMN_MAP = Section(
    _column_map,
    {
        "time": Section(
            _time,
            {
                "column": Text("the name of a column is expected"),
                "unit": _unit_of("t"),
                "step": Number("the time step is not positive", above=0.0, unit="s"),
            },
        ),
        "topic": Section(
            Topics,
            {
                "names": name_list,
                "frames": named(
                    Text("the name of a frame is expected"), "a table of names by topic is expected"
                ),
            },
        ),
        **{
            kind: Section(
                partial(_signal_map, kind), partial(_signal_keys, kind), required=(_owners(kind),)
            )
            for kind in KINDS
        },
    },
)


@dataclass(frozen=True)
class KnownLog:
    """Column names of one vendor's tool's logs.

    Sources: the recorder of Universal Robots' RTDE client names its columns `timestamp` [s],
    `actual_q_0` to `actual_q_5` [rad], `actual_qd_0` [rad/s], `actual_current_0` [A] and separates
    them by spaces (github.com/UniversalRobots/RTDE_Python_Client_Library, `rtde/csv_writer.py`;
    units in the RTDE guide); ur_rtde's writes the same names with commas. `franka::logToCSV` names
    them `time` [ms], `state.q[0]` to `state.q[6]` [rad], `state.dq[0]` [rad/s], `state.tau_J[0]`
    [N·m] (github.com/frankaemika/libfranka, `src/log.cpp`: the time is printed by `toMSec`).
    """

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
        unit = self.unit or _unit_of_time(table, self.time)
        if self.unit is None:
            notes.append(f"time is taken to be in {unit}, from its steps")
        columns = {kind: [p.format(k) for k in range(len(names))] for kind, p in self.signals}
        return ColumnMap(self.time, unit, None, _there(table, columns, names)), tuple(notes)


def _there(
    table: Table, columns: Mapping[str, Sequence[str]], joints: Sequence[str]
) -> tuple[SignalMap, ...]:
    """Return the signals all of whose columns a table has; columns are by kind, a joint each."""
    every = set(table.columns)
    return tuple(SignalMap.plain(k, c, joints) for k, c in columns.items() if every >= set(c))


def _unit_of_time(table: Table, column: str) -> str:
    """Return the largest unit in which the clock steps by half a second at most."""
    block = next(table.read([column]), np.empty((0, 1)))
    steps = np.diff(block[:, 0])
    steps = steps[steps > 0.0]
    step = float(np.median(steps)) if len(steps) else 0.0
    return next((u for u in ("s", "ms", "us", "ns") if step * UNITS["t"][u] < 0.5), "ns")


def named_in_cells(table: Table) -> tuple[ColumnMap, tuple[str, ...]] | None:
    """Return the map of a log whose cells name the joints, with remarks; None if it is none.

    `rostopic echo -p` writes one: `%time`, `field.name0` …, `field.position0` …; bagpy's names are
    `Time`, `name_0` …, `position_0` …; rows of `ros2 topic echo --csv` are given such names.

    Raises:
        InvalidRecording: If the log does not say which of its numbers are velocities or efforts.
    """
    named = {n: match for n in table.texts if (match := NAMED.fullmatch(n)) is not None}
    if not named:
        return None
    stem = next(iter(named.values()))["stem"]
    numbers = {m["number"]: table.texts[n] for n, m in named.items() if m["stem"] == stem}
    joints, count = tuple(numbers.values()), len(numbers)
    words = {"q": "position", "v": "velocity", "tau": "effort"}
    columns = {kind: [f"{stem}{word}{n}" for n in numbers] for kind, word in words.items()}
    signals = _there(table, columns, joints)
    measured = (f"{stem}header.stamp",) if f"{stem}header.stamp" in table.stamps else ()
    times = (*measured, "%time", "Time", "time", "timestamp")
    time = next((t for t in times if t in table.columns), None)
    if time is None or not signals or len(set(joints)) < count:
        return None
    if f"{EITHER}0" in table.columns:
        raise InvalidRecording(
            "the log's rows do not say whether their last numbers are velocities or efforts",
            argument=table.path,
            got=f"{count} names, then {2 * count} numbers",
            expected=f"{3 * count} numbers, or an empty cell for the list that is empty",
            cure=f"take a draft of a map, in which {EITHER}… are efforts, write [v] for [tau] if "
            f"they are none, and give it with --map: heft check {spelt(table.path)} --draft "
            "map.toml --robot ROBOT",
        )
    stated = table.units.get(time)
    unit = stated or _unit_of_time(table, time)
    note = f"joints are those that the cells of '{stem}name…' name: {', '.join(joints)}"
    taken = f"time is '{time}'" + ("" if stated else f", taken to be in {unit}, from its steps")
    return ColumnMap(time, unit, None, signals), (note, taken)


def _franka(q: str, v: str, tau: str, unit: str | None = None) -> KnownLog:
    return KnownLog(
        "libfranka",
        "time",
        unit,
        (("q", q), ("v", v), ("tau", tau)),
        tuple(f"panda_joint{k}" for k in range(1, 8)),
        "tau_J is the measured torque on the link side, gravity included; commands and filtered "
        "external torques are not used",
    )


VENDORS = (
    KnownLog(
        "RTDE",
        "timestamp",
        "s",
        (("q", "actual_q_{}"), ("v", "actual_qd_{}"), ("current", "actual_current_{}")),
        tuple(
            f"{name}_joint"
            for name in ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
        ),
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
    return next((k for k in VENDORS if k.fits(columns)), None)
