"""Recordings: named signals over time in SI units, read repeatedly in blocks.

Logs whose columns carry canonical names (`t`, `q.<joint>`, `tau.<joint>`, `force.<frame>.x`;
`columns.is_canonical`), logs of ROS messages and of known tools (`columns.VENDORS`) need
no map; any other is described by a TOML column map (`ColumnMap`). Joints are found by name, never
by position. Units are converted here and nowhere else. Nothing is unpickled.

Recordings are written in any format that has a writer (`convert`): the file appears complete or not
at all, and what the format cannot hold is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import (
    InvalidRecording,
    InvalidSetting,
    MissingSignal,
    did_you_mean,
    nearest,
    spelt,
)
from heft.files import (
    OpenedFile,
    Section,
    Text,
    hash_of_all,
    list_of,
    number,
    put,
    read_toml,
    workshop,
)

from .columns import KINDS, UNITS, ColumnMap, SignalMap, is_canonical, named_in_cells, recognise
from .formats import Damaged, Table, join, read_table, refuse, require_log, write_table
from .formats.table import UNGUARDED, count_turns, unwrapped, with_values

__all__ = ["KINDS", "UNITS", "Block", "ColumnMap", "Recording", "SignalMap", "convert"]

EXPERIMENT = ".toml"
Part: TypeAlias = tuple[Path, Path | None, float]  # of an experiment: log, map, time offset [s]


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a recording."""

    time: Array  # shape (rows,) [s]
    # shape (rows, names), in the requested order, each column in its signal's SI unit
    values: Array


@dataclass(frozen=True)
class Recording:
    """Named signals over time in SI units, readable any number of times in bounded memory.

    `open` makes one of a log file, `from_arrays` one of arrays.
    """

    name: str  # path or name of the source
    table: Table  # the file as columns of numbers
    # for each canonical signal the map that makes it, and its row in that map's matrix
    sources: Mapping[str, tuple[SignalMap, int]]
    time: str | None = "t"  # column of time, or None for a constant step
    time_scale: float = 1.0  # unit of the time column [s]
    step: float | None = None  # constant time step [s], or None
    start: int = 0  # first row used
    stop: int | None = None  # row behind the last used, or None for all
    # takes row positions, shape (n,), and returns which of them are fitted or scored, shape (n,);
    # all if None. The other rows still serve to smooth the motion
    selection: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    # the file's columns, with their unit, from which each signal is made
    provenance: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # remarks on the log, in sentences
    # the files opened: the log; of an experiment its TOML and each part's log and map
    files: tuple[OpenedFile, ...] = ()

    def __new__(cls, *args: object, **fields: object) -> Recording:
        """Refuse a file, which `open` reads."""
        if len(args) == 1 and not fields:
            raise InvalidRecording(
                "a recording is opened from its log",
                argument=str(args[0]),
                cure=f"Recording.open({str(args[0])!r})",
            )
        return object.__new__(cls)

    def __repr__(self) -> str:
        kinds = {name.partition(".")[0] for name in self.signals}
        return f"<recording {self.name[-80:]!r}: {len(self.signals)} signals, {sorted(kinds)}>"

    @staticmethod
    def open(
        path: str | Path,
        columns: ColumnMap | None = None,
        joints: Sequence[str] = (),
        damaged: Damaged = refuse,
    ) -> Recording:
        """Open a log file or an experiment.

        Args:
            path: CSV, Parquet, NPZ, MCAP, ROS 1 bag, a rosbag2's folder or .db3 file, or the
                TOML of an experiment whose signals are in several files (`docs/logs.md`).
            columns: Column map of the log; by default its columns' names are canonical.
            joints: The robot's joints, for logs that number their joints instead of naming them.
            damaged: Called with each defect of a damaged file, to salvage what can be read; by
                default a damaged file is refused.

        Raises:
            InvalidRecording: If the file is missing, damaged or of no known format.
            MissingSignal: If a column of the map, or the time, is missing.
            InvalidSetting: If an experiment's TOML is malformed.
        """
        if Path(path).suffix.lower() == EXPERIMENT:
            return _experiment(Path(path), columns, joints, damaged)
        opened = OpenedFile.at(Path(path))
        table = read_table(path, columns.topics if columns else None, damaged)
        return replace(Recording.of_table(table, columns, joints), files=(opened,))

    @staticmethod
    def from_arrays(time: Array, name: str = "arrays", **signals: Mapping[str, Array]) -> Recording:
        """Return a recording of arrays: `from_arrays(t, q={"elbow": q2}, tau={"elbow": tau2})`.

        Args:
            time: Shape (N,) [s].
            name: Name of the recording in messages.
            signals: For each kind of signal, arrays of shape (N,) by joint or frame component, in
                SI units ([rad], [rad/s], [N·m], …).

        Raises:
            InvalidRecording: If the arrays differ in length.
            InvalidSetting: If a kind of signal is unknown.
        """
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

        return Recording.of_table(Table.of_columns(arrays, name))

    @staticmethod
    def of_columns(
        given: Any, columns: ColumnMap | None = None, joints: Sequence[str] = ()
    ) -> Recording:
        """Return the recording of a log's columns in memory; errors as for `open`.

        Args:
            given: Arrays of shape (N,) by the columns' names, or a table of pandas, Polars or
                Arrow; columns that do not hold numbers are left out.

        Raises:
            InvalidRecording: If the arrays differ in length or shape.
        """
        if not isinstance(given, Mapping):
            import pyarrow

            table = pyarrow.table(given)
            given = {n: table[n].to_numpy() for n in table.column_names}
        arrays = {str(n): np.asarray(a) for n, a in given.items()}
        arrays = {n: a for n, a in arrays.items() if a.dtype.kind in "biuf"}
        if len({a.shape for a in arrays.values()}) > 1 or any(a.ndim != 1 for a in arrays.values()):
            raise InvalidRecording(
                "the columns differ in length, or are no columns",
                argument="arrays",
                got=", ".join(f"{n}: {a.shape}" for n, a in arrays.items()),
                expected="one array of shape (N,) a column: 't', 'q.<joint>', 'tau.<joint>'",
            )
        return Recording.of_table(Table.of_columns(arrays, "arrays"), columns, joints)

    @staticmethod
    def of_table(
        table: Table, columns: ColumnMap | None = None, joints: Sequence[str] = ()
    ) -> Recording:
        """Return the recording of a table; errors as for `open`.

        Args:
            columns: Map of the columns to signals; by default their names are canonical, or those
                of a known tool's logs.
        """
        notes = table.notes
        if columns is None and "t" not in table.columns:
            tool = recognise(table.columns)
            made = tool.columns(table, joints) if tool else named_in_cells(table)
            columns, more = made or (None, ())
            notes = (*notes, *more)
        if columns is None or columns.canonical:
            return _of_own_rows(_canonical(table, notes))
        return _of_own_rows(_mapped(table, columns, notes))

    @property
    def sha256(self) -> str:
        """SHA-256 of the log as it was opened; of an experiment, that of all its files' hashes.

        Computed on first access.

        Raises:
            InvalidRecording: If a file has changed since, or the recording has no file.
        """
        if not self.files:
            raise InvalidRecording("the recording is of no file", argument=self.name)
        return hash_of_all(self.files)

    def refuse_changed(self) -> None:
        """Raise `InvalidRecording` if one of the files has changed since it was opened."""
        for file in self.files:
            file.refuse_changed()

    @property
    def held(self) -> frozenset[str]:
        """Signals each of whose values holds until the next sample, by the column map."""
        return frozenset(name for name, (source, _) in self.sources.items() if source.held)

    @property
    def signals(self) -> tuple[str, ...]:
        """Canonical names of the signals in this recording."""
        return tuple(self.sources)

    def window(self, start: int, stop: int | None) -> Recording:
        """Return a part of the rows of this recording.

        Args:
            start: First row, counted from this recording's first.
            stop: Row behind the last, counted likewise; None means to the end.
        """
        if stop is not None:
            stop = self.start + stop
        ends = [end for end in (self.stop, stop) if end is not None]
        return replace(self, start=self.start + start, stop=min(ends, default=None))

    def in_memory(self, names: Sequence[str]) -> Recording:
        """Return this recording with some of its signals read once and kept.

        For short ones that are walked often, such as a window's.
        """
        wanted = self._columns_of(names)
        kept: list[Array] = []
        rows = 0
        for raw in self.table.read(wanted):
            kept.append(raw if self.stop is None else raw[: max(self.stop - rows, 0)])
            rows += len(raw)
            if self.stop is not None and rows >= self.stop:
                break
        rows_kept = np.concatenate([np.empty((0, len(wanted))), *kept])
        place = {column: k for k, column in enumerate(wanted)}

        def read(chosen: Sequence[str]) -> Iterator[Array]:
            if place.keys() >= set(chosen):
                yield rows_kept[:, _consecutive([place[c] for c in chosen])]
            else:
                yield from self.table.read(chosen)

        return replace(self, table=replace(self.table, read=read))

    def selecting(self, selection: Callable[[NDArray[np.int64]], NDArray[np.bool_]]) -> Recording:
        """Return this recording with only some of its rows fitted or scored; see `selection`."""
        return replace(self, selection=selection)

    def selecting_all(self) -> Recording:
        """Return this recording with all of its rows fitted or scored."""
        return replace(self, selection=None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Its notes, but what holds for all files of its format, and what reading brought up."""
        own = (note for note in self.notes if UNGUARDED not in note)
        return (*own, *self.table.remarks())

    def unwrapped(self, joints: Collection[str]) -> Recording:
        """Return this recording with the angles of endless joints going on at full turns.

        Where one jumps is told by a pass over these columns, and said in a note.
        """
        turns, names = {}, {}
        for name, (source, row) in self.sources.items():
            used = np.flatnonzero(source.matrix[row])
            column = source.columns[used[0]] if len(used) == 1 else ""
            if source.kind in ("q", "q_ref") and name.partition(".")[2] in joints and column:
                scale = UNITS[source.kind][source.unit] * abs(source.matrix[row, used[0]])
                turns[column], names[column] = 2.0 * np.pi / scale, name
        jumps = count_turns(self.table, turns)
        if not jumps:
            return self
        notes = (
            f"{names[c]} jumps {n} times by a full turn: of an endless joint, it is unwrapped"
            for c, n in jumps.items()
        )
        table = unwrapped(self.table, {c: turns[c] for c in jumps})
        return replace(self, table=table, notes=(*self.notes, *notes))

    def require(
        self, names: str | Sequence[str], purpose: str, known: Collection[str] = (), cure: str = ""
    ) -> None:
        """Check that signals are present, by their canonical names.

        Args:
            purpose: What they are needed for, as the end of a sentence in the error message.
            known: Signals that are not suggested as misspellings, since their meaning is known.

        Raises:
            MissingSignal: If the log lacks one, or its column does not hold numbers.
        """
        wanted = [names] if isinstance(names, str) else list(names)
        missing = [n for n in wanted if n not in self.sources]
        if not missing:
            return
        for name in missing:
            if name in self.table.others:
                raise MissingSignal(
                    f"the log's column '{name}' holds no numbers",
                    argument=self.name,
                    expected=f"numbers, for it {purpose}",
                )
        kind = missing[0].partition(".")[0]
        same = [n for n in self.sources if n.startswith(kind + ".")]
        near = nearest(missing[0], [n for n in same if n not in known])
        listed = ", ".join(f"'{n}'" for n in missing)
        many = f"signals {listed}, each of which" if len(missing) > 1 else f"signal {listed}, which"
        raise MissingSignal(
            f"the log has no {many} {purpose}",
            argument=self.name,
            valid=same or self.sources or self.table.columns,
            cure=(
                f"rename '{near}', or map it: [{kind}] in the file of --map"
                if near
                else f"name it in the table [{kind}] of a column map (--map)"
            )
            + f"; {_draft(self.name)}"
            + (f"; {cure}" if cure and self.sources else ""),
        )

    def canonical(self) -> Table:
        """Return this recording as a table of canonical names: `t` and its signals, in SI units."""

        def read(names: Sequence[str]) -> Iterator[Array]:
            own = [n for n in names if n != "t"]
            at = {n: k for k, n in enumerate(["t", *own])}
            for block in self.blocks(own):
                timed = np.column_stack([block.time, block.values])
                yield timed[:, [at[n] for n in names]]

        rows = self.table.rows if self.stop is None and not self.start else None
        return Table(
            self.name,
            ("t", *self.signals),
            rows,
            read,
            epoch=self.epoch,
            notes=self.notes,
            remarks=self.table.remarks,
        )

    @property
    def epoch(self) -> int | None:
        """Stamp at which time is 0 [ns since 1970]; None where the log has none."""
        return self.table.epoch if self.time in self.table.stamps else None

    def whole(self, names: Sequence[str]) -> Block:
        """Return all rows of signals at once, in memory; see `blocks`."""
        blocks = list(self.blocks(names))
        if not blocks:
            return Block(np.empty(0), np.empty((0, len(names))))
        time = np.concatenate([b.time for b in blocks])
        return Block(time, np.concatenate([b.values for b in blocks]))

    def _columns_of(self, names: Sequence[str]) -> list[str]:
        """Return the columns of time and signals; the first of all to count rows by if none."""
        columns = [c for n in names for c in self.sources[n][0].columns]
        timed = columns if self.time is None else [self.time, *columns]
        return list(dict.fromkeys(timed)) or list(self.table.columns[:1])

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Yield signals in blocks of rows as logged, converted to SI units.

        Args:
            names: Canonical names, all of which must be in `signals`; see `require`.
        """
        maps = list({id(self.sources[n][0]): self.sources[n][0] for n in names}.values())
        wanted = self._columns_of(names)
        at = {c: k for k, c in enumerate(wanted)}
        position = 0
        for raw in self.table.read(wanted):
            first, last = position, position + len(raw)
            position = last
            lower = max(self.start - first, 0)
            upper = len(raw) if self.stop is None else min(self.stop - first, len(raw))
            if lower >= upper:
                if self.stop is not None and first >= self.stop:
                    return
                continue
            if self.time is None:
                assert self.step is not None
                time = self.step * np.arange(first + lower, first + upper)
            else:
                time = self.time_scale * raw[lower:upper, at[self.time]]
            values = np.empty((len(time), len(names)))
            for m in maps:
                block = raw[lower:upper, _consecutive([at[c] for c in m.columns])]
                scale = UNITS[m.kind][m.unit]
                gains = np.diag(m.matrix)
                if not np.array_equal(m.matrix, np.diag(gains)):
                    with np.errstate(invalid="ignore"):  # rows not finite are left out later
                        block = scale * block @ m.matrix.T
                elif scale != 1.0 or (gains != 1.0).any():  # else numbers stay as logged
                    block = scale * block * gains  # where one is no number, the others still are
                if m.offset.any():
                    block = block + m.offset
                own = [k for k, n in enumerate(names) if self.sources[n][0] is m]
                chosen = _consecutive([self.sources[names[k]][1] for k in own])
                values[:, _consecutive(own)] = block[:, chosen]
            yield Block(np.asarray(time, dtype=np.float64), values)


def _consecutive(places: list[int]) -> slice | list[int]:
    """Return places as a slice if each is next to the last, so that no column need be copied."""
    run = slice(min(places, default=0), min(places, default=0) + len(places))
    return run if places == [*range(run.start, run.stop)] else places


def _of_own_rows(recording: Recording) -> Recording:
    """Return a recording without the rows of other topics, which have no value of its signals.

    Rows without any effort that alternate with such as have some are another publisher's.
    Signals of several topics, in rows of their own, are joined at the times of the first.
    """
    table, time = recording.table, recording.time
    maps = list({id(s): s for s, _ in recording.sources.values()}.values())
    columns = list(dict.fromkeys(c for s in maps for c in s.columns))
    if not table.sparse or not columns or time is None:
        return recording
    first = next(table.read(columns), np.empty((0, len(columns))))
    there = dict(zip(columns, ~np.isnan(first).T, strict=True))
    efforts = [c for s in maps if s.kind in ("tau", "current") for c in s.columns]
    others = [c for c in columns if c not in efforts]
    if efforts and others and len(first):
        idle, other = (~np.any([there[c] for c in group], axis=0) for group in (efforts, others))
        # Fewer rows without effort may be failures of a sensor.
        alternate = 2 * np.sum(np.diff(idle)) >= np.sum(idle) > 0.2 * len(idle)
        if alternate and not other[idle].all() and np.mean(other[~idle]) < 0.5:
            rows_of, share = with_values(table, efforts), f"{np.mean(idle):.0%}"
            reason = f"rows without effort alternate with the others: {share} are passed over, as "
            notes = (*recording.notes, reason + "those of a second publisher")
            return _of_own_rows(replace(recording, table=rows_of, notes=notes))
    topics: list[tuple[list[SignalMap], NDArray[np.bool_]]] = []
    for source in maps:
        rows = np.any([there[c] for c in source.columns], axis=0)
        # Rows of one topic are those of the other, too, but where a number is missing.
        same = (t for t in topics if 2 * np.sum(rows & t[1]) >= min(np.sum(rows), np.sum(t[1])))
        topic = next(same, None)
        if topic is None:
            topics.append(([source], rows))
        else:
            topic[0].append(source)
    empty = float(np.mean(~np.any(list(there.values()), axis=0))) if len(first) else 0.0
    # Fewer rows without a signal are broken, and not another topic's.
    if len(topics) == 1 and (empty < 0.01 or {*table.columns} == {time, *columns}):
        return recording
    notes = recording.notes
    if empty:
        notes += (f"rows without its signals are another topic's: {empty:.0%} are passed over",)
    parts = []
    for sources, _ in topics:
        own = {n: s for n, s in recording.sources.items() if any(s[0] is m for m in sources)}
        rows_of = with_values(table, list(dict.fromkeys(c for s in sources for c in s.columns)))
        parts.append(replace(recording, table=rows_of, sources=own, notes=notes))
    if len(parts) == 1:
        return parts[0]
    listed = "; ".join(", ".join(p.signals[:2]) + ", …" * (len(p.signals) > 2) for p in parts)
    joined = join(
        [p.canonical() for p in parts],
        table.path,
        (f"signals in rows of their own are joined at the times of the first: {listed}",),
    )
    made = Recording.of_table(joined)
    mapped = {n: (replace(s, held=n in recording.held), k) for n, (s, k) in made.sources.items()}
    return replace(made, sources=mapped, provenance=recording.provenance)


def _canonical(table: Table, notes: tuple[str, ...]) -> Recording:
    if "t" in table.others:
        raise MissingSignal(
            "the log's column 't' holds no numbers",
            argument=table.path,
            cure="write the time in seconds",
        )
    if "t" not in table.columns:
        stamps = (c for c in table.columns if "stamp" in c.lower())
        near = nearest("time", table.columns) or next(stamps, None)
        raise MissingSignal(
            "the log has no column 't'",
            argument=table.path,
            valid=table.columns,
            cure="describe its columns in a map and give it with --map; "
            + _draft(table.path)
            + (f" ('{near}' may be the time)" if near else ""),
        )
    sources = {}
    for name in table.columns:
        kind, _, joint = name.partition(".")
        if is_canonical(name):
            stated = table.units.get(name)
            unit = stated if stated in UNITS[kind] else None
            sources[name] = SignalMap.plain(kind, [name], [joint], unit), 0
    own = {n: n if n not in table.units else f"{n} [{table.units[n]}]" for n in sources}
    scale = UNITS["t"].get(table.units.get("t", "s"), 1.0)
    return Recording(table.path, table, sources, "t", scale, provenance=own, notes=notes)


def _mapped(table: Table, columns: ColumnMap, notes: tuple[str, ...]) -> Recording:
    needed = [c for s in columns.signals for c in s.columns]
    if columns.time is not None:
        needed.insert(0, columns.time)
    for column in needed:
        if column not in table.columns:
            if column in table.others:
                raise MissingSignal(
                    f"the log's column '{column}', which the map names, holds no numbers",
                    argument=table.path,
                    got=table.texts.get(column),
                )
            free = [c for c in table.columns if c not in needed]
            raise MissingSignal(
                f"the log has no column '{column}', which the map names",
                argument=table.path,
                valid=table.columns,
                cure=did_you_mean(column, free),
            )
    sources = {n: (s, k) for s in columns.signals for k, n in enumerate(s.names)}
    turns = {c: turn for s in columns.signals for c, turn in s.turns.items()}
    table = unwrapped(table, turns) if turns else table
    return Recording(
        table.path,
        table,
        sources,
        columns.time,
        UNITS["t"][columns.time_unit],
        columns.step,
        provenance={n: f"{', '.join(s.columns)} [{s.unit}]" for n, (s, _) in sources.items()},
        notes=notes,
    )


def _draft(log: str) -> str:
    command = f"heft check {spelt(log)} --draft map.toml --robot ROBOT"
    return f"a first draft: {command} (no --robot for a wrench sensor alone)"


def _part(file: Path, map: Path | None = None, offset: float = 0.0) -> Part:
    if file.suffix.lower() == EXPERIMENT:
        raise InvalidSetting("a part is a log, not an experiment", argument="file")
    return file, map, offset


def _parts(path: Path) -> tuple[Part, ...]:
    """Return files, maps and time offsets [s] of an experiment's parts."""

    def beside(value: object, where: str) -> Path:
        return path.parent / Text("the name of a file is expected")(value, where)

    def parts(value: object, where: str) -> tuple[Part, ...]:
        if not isinstance(value, list) or not value:
            cure = '[[part]] file = "…", …'
            raise InvalidSetting("an experiment names its parts", argument=str(path), cure=cure)
        part = Section(_part, {"file": beside, "map": beside, "offset": number}, ("file",))
        return list_of(part, entry=" ")(value, where)

    return Section(lambda part: tuple(part), {"part": parts}, ("part",))(read_toml(path), str(path))


def _experiment(
    path: Path, columns: ColumnMap | None, joints: Sequence[str], damaged: Damaged
) -> Recording:
    if not path.exists():
        raise InvalidRecording("the log does not exist", argument=str(path))
    files = [OpenedFile.at(path)]
    parts = _parts(path)
    if columns is not None:
        raise InvalidSetting(
            "an experiment names the map of each of its parts",
            argument=str(path),
            cure='[[part]] map = "map.toml" instead of --map',
        )
    opened = []
    for file, map_file, _ in parts:
        mapping = OpenedFile.at(map_file) if map_file else None
        meaning = ColumnMap.from_toml(map_file) if map_file else None
        opened.append(Recording.open(file, meaning, joints, damaged))
        files += [*opened[-1].files, *([mapping] if mapping else [])]
    owner: dict[str, str] = {}
    for part in opened:
        for name in part.signals:
            if name in owner:
                raise InvalidRecording(
                    f"two parts hold '{name}'",
                    argument=str(path),
                    got=f"{owner[name]}, {part.name}",
                    cure="leave it out of one of them with a map",
                )
            owner[name] = part.name
    table = join([p.canonical() for p in opened], str(path), (), [offset for *_, offset in parts])
    made = {n: f"{p.name}: {text}" for p in opened for n, text in p.provenance.items()}
    return replace(Recording.of_table(table), provenance=made, files=tuple(files))


@dataclass(frozen=True)
class Converted:
    """Summary of a conversion."""

    rows: int  # number of rows written
    begin: float  # first time [s]
    end: float  # last time [s]
    notes: tuple[str, ...]  # remarks on the input logs
    losses: tuple[str, ...]  # what the output format could not store
    # damaged parts of the logs that are lost; empty unless salvage was requested
    damage: tuple[str, ...]


def convert(
    logs: Sequence[Path],
    out: Path,
    columns: ColumnMap | None = None,
    joints: Sequence[str] = (),
    recover: bool = False,
) -> Converted:
    """Write logs, joined at the times of the first if several, as one canonical log.

    Args:
        out: Its ending determines the format.
        columns: Column map of the logs; by default their columns' names are canonical.
        joints: The robot's joints, for logs that number their joints instead of naming them.
        recover: Whether to salvage what can be read of damaged logs.

    Raises:
        InvalidSetting: If the output format is unknown, or the output would replace a log.
        InvalidRecording: If a log cannot be used, or nothing of it can be salvaged.
    """
    require_log(out)
    damage: dict[str, None] = {}

    def note(problem: InvalidRecording) -> None:
        damage[f"{problem.argument}: {problem.got}"] = None

    try:
        recordings = [Recording.open(p, columns, joints, note if recover else refuse) for p in logs]
    except InvalidRecording as problem:
        if not damage:
            raise
        raise _nothing(", ".join(map(str, logs)), [*damage, problem.message]) from problem
    if out.exists() and any(out.samefile(p) for p in logs if p.exists()):
        raise InvalidSetting(
            "the output would overwrite a log", argument=f"--out {out}", cure="name another file"
        )
    table = _together(recordings, ", ".join(map(str, logs)))
    losses: dict[str, None] = {}
    unused: list[str] = []
    for recording in recordings:
        used = {c for m, _ in recording.sources.values() for c in m.columns} | {recording.time}
        columns_there = (*recording.table.columns, *recording.table.others)
        unused += [c for c in columns_there if c and c not in used]
    if unused:
        more = f" and {len(unused) - 8} more" if len(unused) > 8 else ""
        losses["columns without a meaning are left out: " + ", ".join(unused[:8]) + more] = None
    place = out.resolve()  # a link stays a link
    with workshop(place) as folder:
        new = folder / place.name
        rows, begin, end = write_table(table, new, lambda text: losses.update({text: None}))
        if not rows:
            raise _nothing(table.path, list(damage))
        put(new, place)
    return Converted(
        rows, begin, end, (*table.notes, *table.remarks()), tuple(losses), tuple(damage)
    )


def _together(recordings: Sequence[Recording], name: str) -> Table:
    """Return recordings as one table of canonical names, at the times of the first.

    Raises:
        InvalidRecording: If two hold the same signal, or none holds any.
    """
    table = join([r.canonical() for r in recordings], name)
    twice = sorted({c for c in table.columns if table.columns.count(c) > 1})
    if twice:
        raise InvalidRecording(
            f"two logs hold '{twice[0]}'", argument=table.path, got=", ".join(twice[:8])
        )
    if table.columns == ("t",):
        raise InvalidRecording(
            "the log holds no signals that heft knows",
            argument=table.path,
            got=", ".join(n for r in recordings for n in r.table.columns[:8]),
            cure="describe its columns in a map (--map); see docs/logs.md",
        )
    return table


def _nothing(logs: str, damage: Sequence[str]) -> InvalidRecording:
    return InvalidRecording(
        "nothing can be salvaged" if damage else "the log holds no rows",
        argument=logs,
        got="; ".join(damage) or None,
    )
