"""Conversion of logs: canonical signals written in any format that has a writer.

The output file appears complete or not at all. What the output format cannot store is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.errors import InvalidRecording, InvalidSetting
from heft.files import put, require_writable, workshop

from .columns import ColumnMap
from .formats import Table, join, refuse, writable
from .formats.format import Open, Write
from .recording import Recording


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
    """Write logs, joined by time if several, as one canonical log.

    Args:
        logs: The input files; the first one's times are those of the output (see `formats.join`).
        out: The output file; its ending determines the format (see `formats.registry`).
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
    _refuse_overwriting(out, logs)
    table = _together(recordings, ", ".join(map(str, logs)))
    losses: dict[str, None] = dict.fromkeys(_unused_columns(recordings))
    place = out.resolve()  # a link stays a link
    with workshop(place) as folder:
        new = folder / place.name
        rows, begin, end = write_table(table, new, lambda text: losses.update({text: None}))
        if not rows:
            raise _nothing(table.path, list(damage))
        put(new, place)
    return Converted(rows, begin, end, table.notes, tuple(losses), tuple(damage))


def write_table(
    table: Table, path: Path, say: Callable[[str], None] = lambda loss: None
) -> tuple[int, float, float]:
    """Write columns of numbers to a file, not atomically; see `heft.files.workshop`.

    Args:
        table: The columns, `t` first.
        path: The file; its ending determines the format (see `formats.registry`).
        say: Called with what the format cannot store.

    Returns:
        Number of rows, first and last time [s].

    Raises:
        InvalidSetting: If the output format is unknown.
    """
    with _writer(path)(path, table, say) as put_rows:
        return _copied(table, put_rows)


def require_log(out: Path) -> None:
    """Check that a log can be written to a path; call it before any computation.

    Raises:
        InvalidSetting: If it is of no format that is written, a folder, or cannot be written.
    """
    _writer(out)
    require_writable(out)
    if out.is_dir():
        raise InvalidSetting("the place for a log is a folder", argument=f"--out {out}")


def _writer(out: Path) -> Open:
    found = writable().get(out.suffix.lower())
    if found is None or found.write is None:
        raise InvalidSetting(
            f"heft does not write files ending in '{out.suffix}'",
            argument=f"--out {out}",
            valid=writable(),
        )
    return found.write


def _refuse_overwriting(out: Path, logs: Sequence[Path]) -> None:
    if out.exists() and any(out.samefile(p) for p in logs if p.exists()):
        raise InvalidSetting(
            "the output would overwrite a log",
            argument=f"--out {out}",
            cure="name another file",
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


def _copied(table: Table, write: Write) -> tuple[int, float, float]:
    """Write a table block by block; return its rows, first and last time [s]."""
    rows, begin, end = 0, np.nan, np.nan
    for block in table.read(table.columns):
        write(block)
        times = block[np.isfinite(block[:, 0]), 0]
        if len(times):
            begin = times[0] if np.isnan(begin) else begin
            end = times[-1]
        rows += len(block)
    return rows, float(begin), float(end)


def _nothing(logs: str, damage: Sequence[str]) -> InvalidRecording:
    return InvalidRecording(
        "nothing can be salvaged" if damage else "the log holds no rows",
        argument=logs,
        got="; ".join(damage) or None,
    )


def _unused_columns(recordings: Sequence[Recording]) -> list[str]:
    left = [c for r in recordings for c in _unused(r)]
    more = f" and {len(left) - 8} more" if len(left) > 8 else ""
    named = "columns without a meaning are left out: " + ", ".join(left[:8]) + more
    return [named] if left else []


def _unused(recording: Recording) -> list[str]:
    used = {c for m, _ in recording.sources.values() for c in m.columns} | {recording.time}
    return [c for c in (*recording.table.columns, *recording.table.others) if c and c not in used]
