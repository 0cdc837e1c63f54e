"""Recordings: named signals over time in SI units, read again and again in blocks.

CSV, Parquet and NPZ files whose columns carry canonical names (`t`, `q.<joint>`,
`v.<joint>`, `a.<joint>`, `tau.<joint>`, `current.<joint>`) need no map; anything else is
described by a TOML column map (`ColumnMap`). Joints are found by name, never by position.
Units are converted here and nowhere else. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidRecording, InvalidSetting, MissingSignal, nearest, shown
from .inertia import Array
from .options import matrix_rows, name_list, number, read_toml, refuse_unknown, vector
from .tables import BLOCK_ROWS, Table, read_table

KINDS = ("q", "v", "a", "tau", "current")
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
}


@dataclass(frozen=True)
class SignalMap:
    """How one kind of signal is made from a file's columns.

    `joint signal = offset + unit · matrix @ (sign / ratio · columns)`; for torques the ratio
    multiplies, since a gear that slows the joint strengthens it.

    Attributes:
        kind: `q`, `v`, `a`, `tau` or `current`.
        columns: The file's columns; of a 2-D array `name[0]`, `name[1]`, …
        joints: The joints, in the order of the result.
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
    ```

    Attributes:
        time: The time column, or None where the step is constant.
        time_unit: Its unit.
        step: Constant time step [s], or None.
        signals: One a kind.
    """

    time: str | None
    time_unit: str
    step: float | None
    signals: tuple[SignalMap, ...]

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
        refuse_unknown(table, ("time", *KINDS), where)
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
        return ColumnMap(column, unit, step, signals)


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
    keys = (
        "columns",
        "array",
        "joints",
        "unit",
        "sign",
        "ratio",
        "scale",
        "offset",
        "matrix",
        "inverse",
    )
    refuse_unknown(entry, keys, where)
    joints = entry.get("joints")
    if not isinstance(joints, list) or not joints:
        raise InvalidSetting(
            "the joints are not named",
            argument=f"{where}, joints",
            cure='add joints = ["…", "…"] in the order of the columns',
        )
    joints = name_list(joints, f"{where}, joints")
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
            "columns and joints differ in number",
            argument=where,
            got=f"{len(columns)} columns, {count} joints",
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


@dataclass(frozen=True)
class Block:
    """A piece of a recording.

    Attributes:
        time: Shape (rows,) [s].
        values: Shape (rows, names), in the order asked for.
    """

    time: Array
    values: Array


@dataclass(frozen=True)
class Recording:
    """Named signals over time, SI units, readable any number of times in bounded memory.

    Attributes:
        name: Where it is from.
        table: The file behind it.
        sources: For each canonical signal the map that makes it, and its place therein.
        time: Column of time, or None for a constant step.
        time_scale: Unit of the time column [s].
        step: Constant time step [s], or None.
        start: First row used.
        stop: Row behind the last used, or None for all.
        selection: Tells of rows' positions whether they are to be fitted or scored; the
            others still serve to smooth the motion. All are, if not given.
        provenance: From which columns each signal is made.
    """

    name: str
    table: Table
    sources: Mapping[str, tuple[SignalMap, int]]
    time: str | None = "t"
    time_scale: float = 1.0
    step: float | None = None
    start: int = 0
    stop: int | None = None
    selection: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def open(path: str | Path, columns: ColumnMap | None = None) -> Recording:
        """Open a log file.

        Args:
            path: CSV, Parquet or NPZ.
            columns: What its columns mean; canonical names if not given.

        Raises:
            InvalidRecording: If the file cannot be read.
            MissingSignal: If a column of the map, or the time, is not there.
        """
        return Recording.of_table(read_table(path), columns)

    @staticmethod
    def from_arrays(time: Array, name: str = "arrays", **signals: Mapping[str, Array]) -> Recording:
        """Return a recording of arrays: `from_arrays(t, q={"elbow": q2}, tau={"elbow": tau2})`."""
        arrays = {"t": np.asarray(time, dtype=float)}
        for kind, by_joint in signals.items():
            if kind not in KINDS:
                raise InvalidSetting(f"'{kind}' is no signal", argument=kind, valid=KINDS)
            for joint, values in by_joint.items():
                arrays[f"{kind}.{joint}"] = np.asarray(values, dtype=float)
        unlike = {n: a.shape for n, a in arrays.items() if a.shape != (arrays["t"].size,)}
        if unlike:
            raise InvalidRecording(
                "the arrays differ in length",
                argument=name,
                got=", ".join(f"{n}: {s}" for n, s in {"t": arrays["t"].shape, **unlike}.items()),
            )

        def read(names: Sequence[str]) -> Iterator[Array]:
            for first in range(0, len(arrays["t"]), BLOCK_ROWS):
                yield np.stack([arrays[n][first : first + BLOCK_ROWS] for n in names], 1)

        return Recording.of_table(Table(name, tuple(arrays), len(arrays["t"]), read))

    @staticmethod
    def of_table(table: Table, columns: ColumnMap | None = None) -> Recording:
        """Return the recording of a table; see `open`."""
        where = table.path
        if columns is None:
            if "t" not in table.columns:
                near = nearest("time", table.columns)
                if "t" in table.others:
                    raise MissingSignal(
                        "the log's column 't' holds no numbers",
                        argument=where,
                        cure="write the time in seconds",
                    )
                raise MissingSignal(
                    "the log has no column 't'",
                    argument=where,
                    valid=table.columns,
                    cure="describe its columns in a map and give it with --map; see "
                    "docs/logs.md" + (f" ('{near}' may be the time)" if near else ""),
                )
            sources = {}
            for name in table.columns:
                kind, _, joint = name.partition(".")
                if kind in KINDS and joint:
                    unit = next(iter(UNITS[kind]))
                    one = SignalMap(kind, (name,), (joint,), unit, np.eye(1), np.zeros(1))
                    sources[name] = (one, 0)
            return Recording(where, table, sources, provenance={n: n for n in sources})
        needed = [c for s in columns.signals for c in s.columns]
        if columns.time is not None:
            needed.insert(0, columns.time)
        for column in needed:
            if column not in table.columns:
                near = nearest(column, table.columns)
                raise MissingSignal(
                    f"the log has no column '{column}', which the map names",
                    argument=where,
                    valid=table.columns,
                    cure=f"did you mean '{near}'?" if near else None,
                )
        sources = {n: (s, k) for s in columns.signals for k, n in enumerate(s.names)}
        return Recording(
            where,
            table,
            sources,
            columns.time,
            UNITS["t"][columns.time_unit],
            columns.step,
            provenance={n: f"{', '.join(s.columns)} [{s.unit}]" for n, (s, _) in sources.items()},
        )

    @property
    def signals(self) -> tuple[str, ...]:
        """Canonical names of what is there."""
        return tuple(self.sources)

    def window(self, start: int, stop: int | None) -> Recording:
        """Return rows start..stop of this recording, counted from 0."""
        ends = [
            e for e in (self.stop, None if stop is None else self.start + stop) if e is not None
        ]
        return replace(self, start=self.start + start, stop=min(ends, default=None))

    def selecting(self, selection: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> Recording:
        """Return this recording with only some of its rows to be fitted or scored."""
        return replace(self, selection=selection)

    def selecting_all(self) -> Recording:
        """Return this recording with all of its rows to be fitted or scored."""
        return replace(self, selection=None)

    def require(self, name: str, purpose: str) -> None:
        """Raise `MissingSignal` unless the signal is there."""
        if name in self.sources:
            return
        if name in self.table.others:
            raise MissingSignal(
                f"the log's column '{name}' holds no numbers",
                argument=self.name,
                expected=f"numbers, for it {purpose}",
            )
        kind = name.partition(".")[0]
        same = [n for n in self.sources if n.startswith(kind + ".")]
        near = nearest(name, same)
        raise MissingSignal(
            f"the log has no signal '{name}', which {purpose}",
            argument=self.name,
            valid=same or self.sources or self.table.columns,
            cure=f"rename '{near}', or map it: [{kind}] in the file of --map"
            if near
            else f"name it in the table [{kind}] of a column map (--map)",
        )

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Yield the signals in blocks of rows as logged, converted to SI.

        Args:
            names: Canonical names, all of which must be there.
        """
        maps = list({id(self.sources[n][0]): self.sources[n][0] for n in names}.values())
        columns = list(dict.fromkeys(c for m in maps for c in m.columns))
        wanted = columns if self.time is None else [self.time, *columns]
        wanted = wanted or list(self.table.columns[:1])  # to count the rows of a constant step
        position = 0
        for raw in self.table.read(list(dict.fromkeys(wanted))):
            first, last = position, position + len(raw)
            position = last
            lower = max(self.start - first, 0)
            upper = len(raw) if self.stop is None else min(self.stop - first, len(raw))
            if lower >= upper:
                if self.stop is not None and first >= self.stop:
                    return
                continue
            at = {c: k for k, c in enumerate(dict.fromkeys(wanted))}
            if self.time is None:
                assert self.step is not None
                time = self.step * np.arange(first + lower, first + upper)
            else:
                time = self.time_scale * raw[lower:upper, at[self.time]]
            made: dict[int, Array] = {}
            for m in maps:
                block = raw[lower:upper, [at[c] for c in m.columns]]
                scale = UNITS[m.kind][m.unit]
                # No product where there is nothing to convert: numbers stay as logged.
                plain = m.matrix.shape == (1, 1) and m.matrix[0, 0] == 1.0 and scale == 1.0
                with np.errstate(invalid="ignore"):  # rows that are not finite are left out later
                    made[id(m)] = block if plain else scale * block @ m.matrix.T
                if m.offset.any():
                    made[id(m)] = made[id(m)] + m.offset
            values = np.empty((len(time), len(names)))
            for k, name in enumerate(names):
                source, column = self.sources[name]
                values[:, k] = made[id(source)][:, column]
            yield Block(np.asarray(time, dtype=np.float64), values)
