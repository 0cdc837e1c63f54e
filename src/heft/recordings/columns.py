"""What columns mean: canonical names, their units, and the column map of `--map`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, nearest, shown
from heft.files import matrix_rows, name_list, number, read_toml, refuse_unknown, vector

from .formats.table import Topics

JOINT_KINDS = ("q", "v", "a", "tau", "current")
# Kinds of signals of frames, and their components.
FRAME_KINDS = {
    "force": "xyz",
    "torque": "xyz",
    "pos": "xyz",
    "quat": "wxyz",
    "omega": "xyz",
    "vel": "xyz",
    "acc": "xyz",
}
KINDS = (*JOINT_KINDS, *FRAME_KINDS, "u")
UNITS: dict[str, dict[str, float]] = {
    "t": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    "q": {"rad": 1.0, "deg": np.pi / 180.0, "turn": 2.0 * np.pi, "m": 1.0, "mm": 1e-3},
    "v": {
        "rad/s": 1.0,
        "deg/s": np.pi / 180.0,
        "rpm": 2.0 * np.pi / 60.0,
        "m/s": 1.0,
        "mm/s": 1e-3,
    },
    "a": {"rad/s^2": 1.0, "deg/s^2": np.pi / 180.0, "m/s^2": 1.0, "mm/s^2": 1e-3},
    "tau": {"N·m": 1.0, "Nm": 1.0, "N*m": 1.0, "mNm": 1e-3, "kNm": 1e3, "N": 1.0},
    "current": {"A": 1.0, "mA": 1e-3},
    "force": {"N": 1.0, "kN": 1e3, "mN": 1e-3},
    "torque": {"N·m": 1.0, "Nm": 1.0, "N*m": 1.0, "mNm": 1e-3, "kNm": 1e3},
    "pos": {"m": 1.0, "mm": 1e-3},
    "quat": {"1": 1.0},
    "omega": {"rad/s": 1.0, "deg/s": np.pi / 180.0},
    "vel": {"m/s": 1.0, "mm/s": 1e-3},
    "acc": {"m/s^2": 1.0, "g": 9.80665},
    "u": {"1": 1.0},
}


def is_canonical(name: str) -> bool:
    """Whether a column's name says what it is: `q.elbow`, `force.tool0.x`, `u.rotor1`."""
    kind, _, rest = name.partition(".")
    if kind in FRAME_KINDS:
        frame, _, letter = rest.rpartition(".")
        return bool(frame) and len(letter) == 1 and letter in FRAME_KINDS[kind]
    return kind in KINDS and bool(rest)


@dataclass(frozen=True)
class SignalMap:
    """How one kind of signal is made from a file's columns.

    `joint signal = offset + unit · matrix @ (sign / ratio · columns)`; for torques the ratio
    multiplies, since a gear that slows the joint strengthens it.

    Attributes:
        kind: `q`, `v`, `a`, `tau`, `current`; of frames `force`, `torque`, `pos`, `quat`,
            `omega`, `vel`, `acc`; of actuators `u`.
        columns: The file's columns; of a 2-D array `name[0]`, `name[1]`, …
        joints: The joints, or the actuators, in the order of the result; of a frame its
            components, as `tool0.x`.
        unit: Unit in the file.
        matrix: Joint signals per column, shape (joints, columns), all but the unit in it.
        offset: Added in the end [SI], shape (joints,).
    """

    kind: str
    columns: tuple[str, ...]
    joints: tuple[str, ...]
    unit: str
    matrix: Array
    offset: Array

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names of the result."""
        return tuple(f"{self.kind}.{j}" for j in self.joints)


@dataclass(frozen=True)
class ColumnMap:
    """How canonical signals are made from a file's columns: the TOML of `--map`.

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
    # or: matrix = [[..], [..]]   joints = matrix @ columns
    # or: inverse = [[..], [..]]  columns = inverse @ joints
    [tau]
    ...
    [force]
    frame = "tool0"             # a frame instead of joints; three columns: x, y, z
    columns = ["fx", "fy", "fz"]
    [topic]                     # of a log of ROS messages
    names = ["/joint_states"]   # those to read, where several say the same
    frames = {"/mocap/pose" = "gripper"}
    ```

    Without a table for time and without signals the columns' names are canonical.

    Attributes:
        time: The time column, or None where the step is constant.
        time_unit: Its unit.
        step: Constant time step [s], or None.
        signals: One a kind.
        topics: Which topics of a log of messages are read.
    """

    time: str | None
    time_unit: str
    step: float | None
    signals: tuple[SignalMap, ...]
    topics: Topics = field(default_factory=Topics)

    @property
    def canonical(self) -> bool:
        """Whether the map leaves the meaning of columns to their names."""
        return not self.signals and self.time == "t" and self.time_unit == "s"

    @staticmethod
    def from_toml(path: Path) -> ColumnMap:
        """Read a column map.

        Raises:
            InvalidSetting: If it is malformed, or holds unknown keys.
        """
        return ColumnMap.from_dict(read_toml(path), str(path))

    @staticmethod
    def from_dict(table: Mapping[str, Any], where: str = "map") -> ColumnMap:
        """Return the map of a parsed TOML table; see `from_toml`."""
        refuse_unknown(table, ("time", "topic", *KINDS), where)
        time = table.get("time", {"column": "t"})
        if not isinstance(time, Mapping):
            raise InvalidSetting("a table is expected", argument=f"{where}, [time]")
        refuse_unknown(time, ("column", "unit", "step"), f"{where}, [time]")
        if ("column" in time) == ("step" in time):
            raise InvalidSetting(
                "either the column of time or a constant step is needed",
                argument=f"{where}, [time]",
                valid=("column", "step"),
            )
        unit = _unit(time.get("unit", "s"), "t", f"{where}, [time]")
        step = number(time["step"], f"{where}, [time], step") if "step" in time else None
        if step is not None and step <= 0.0:
            raise InvalidSetting(
                "the time step is not positive", argument=f"{where}, [time], step", got=step
            )
        signals = tuple(
            _signal_map(kind, table[kind], f"{where}, [{kind}]") for kind in KINDS if kind in table
        )
        used = [c for s in signals for c in s.columns]
        twice = sorted({c for c in used if used.count(c) > 1})
        if twice:
            raise InvalidSetting(
                "a column cannot be two signals", argument=where, got=", ".join(twice)
            )
        column = None if step is not None else time["column"]
        if column is not None and not isinstance(column, str):
            raise InvalidSetting(
                "the name of a column is expected",
                argument=f"{where}, [time], column",
                got=shown(column),
            )
        return ColumnMap(column, unit, step, signals, _topics(table.get("topic", {}), where))


def _topics(table: object, where: str) -> Topics:
    where = f"{where}, [topic]"
    if not isinstance(table, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=shown(table))
    refuse_unknown(table, ("names", "frames"), where)
    names = name_list(table["names"], f"{where}, names") if "names" in table else ()
    frames = table.get("frames", {})
    if not isinstance(frames, Mapping) or not all(isinstance(f, str) for f in frames.values()):
        raise InvalidSetting(
            "a table of names by topic is expected",
            argument=f"{where}, frames",
            got=shown(frames),
        )
    return Topics(tuple(names), dict(frames))


def _unit(name: object, kind: str, where: str) -> str:
    if not isinstance(name, str) or name not in UNITS[kind]:
        near = nearest(str(name), UNITS[kind])
        raise InvalidSetting(
            f"'{name}' is no unit of this signal",
            argument=f"{where}, unit",
            valid=UNITS[kind],
            cure=f"did you mean '{near}'?" if near else None,
        )
    return str(name)


def _signal_map(kind: str, entry: object, where: str) -> SignalMap:
    if not isinstance(entry, Mapping):
        raise InvalidSetting("a table is expected", argument=where, got=shown(entry))
    # What the signals are of: joints, a frame or actuators.
    of = "frame" if kind in FRAME_KINDS else "actuators" if kind == "u" else "joints"
    keys = ("columns", "array", of, "unit", "sign", "ratio", "scale", "offset", "matrix", "inverse")
    refuse_unknown(entry, keys, where)
    joints = entry.get(of)
    if of == "frame" and isinstance(joints, str) and joints:
        joints = [f"{joints}.{letter}" for letter in FRAME_KINDS[kind]]
    elif of == "frame" or not isinstance(joints, list) or not joints:
        raise InvalidSetting(
            "the frame is not named" if of == "frame" else f"the {of} are not named",
            argument=f"{where}, {of}",
            cure='add frame = "…"'
            if of == "frame"
            else f'add {of} = ["…", "…"] in the order of the columns',
        )
    joints = name_list(joints, f"{where}, {of}")
    count = len(joints)
    if ("columns" in entry) == ("array" in entry):
        raise InvalidSetting(
            "either columns or array is needed", argument=where, valid=("columns", "array")
        )
    if "array" in entry:
        if not isinstance(entry["array"], str):
            raise InvalidSetting(
                "the name of an array is expected",
                argument=f"{where}, array",
                got=shown(entry["array"]),
            )
        columns = tuple(f"{entry['array']}[{k}]" for k in range(count))
    else:
        columns = name_list(entry["columns"], f"{where}, columns")
    if len(columns) != count:
        raise InvalidSetting(
            f"columns and {'components' if of == 'frame' else of} differ in number",
            argument=where,
            got=f"{len(columns)} columns, {count} {'components' if of == 'frame' else of}",
        )
    if "matrix" in entry and "inverse" in entry:
        raise InvalidSetting("either matrix or inverse, not both", argument=where)
    matrix: Array = np.eye(count)
    for key in ("matrix", "inverse"):
        if key in entry:
            matrix = matrix_rows(entry[key], f"{where}, {key}")
            if matrix.shape != (count, count):
                raise InvalidSetting(
                    "the matrix does not fit the joints",
                    argument=f"{where}, {key}",
                    got=f"shape {matrix.shape}",
                    expected=f"({count}, {count})",
                )
            if key == "inverse":
                if np.linalg.matrix_rank(matrix) < count:
                    raise InvalidSetting("the matrix is singular", argument=f"{where}, {key}")
                matrix = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    gains = np.ones(count)
    for key in ("sign", "scale", "ratio"):
        if key in entry:
            factors = np.array(vector(entry[key], f"{where}, {key}", count))
            if (factors == 0.0).any() or (key == "sign" and (np.abs(factors) != 1.0).any()):
                raise InvalidSetting(
                    "signs are 1 or -1" if key == "sign" else "must not be 0",
                    argument=f"{where}, {key}",
                    got=factors.tolist(),
                )
            gains *= factors if key != "ratio" or kind in ("tau", "current") else 1.0 / factors
    offset = np.array(vector(entry.get("offset", [0.0] * count), f"{where}, offset", count))
    default = next(iter(UNITS[kind]))
    unit = _unit(entry.get("unit", default), kind, where)
    return SignalMap(kind, columns, tuple(map(str, joints)), unit, matrix * gains, offset)
