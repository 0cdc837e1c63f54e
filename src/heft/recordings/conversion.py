"""Conversion of logs: canonical signals written in any format that has a writer.

The output file appears complete or not at all. What the output format cannot store is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heft.errors import InvalidRecording, InvalidSetting
from heft.files import put, workshop

from .columns import ColumnMap
from .formats import Table, join, refuse, require_log, write_table
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
    unused = [c for r in recordings for c in _unused(r)]
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


def _unused(recording: Recording) -> list[str]:
    used = {c for m, _ in recording.sources.values() for c in m.columns} | {recording.time}
    return [c for c in (*recording.table.columns, *recording.table.others) if c and c not in used]
