"""Application of corrections to logs: unwrapped angles, corrected columns, and their column map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from heft.arrays import Array
from heft.information import Finding
from heft.models import Robot
from heft.recordings import UNITS, Recording, SignalMap

from .clock_and_signals import LogFacts
from .corrections import Correction, quoted, toml_list

LEAST_PIECE = 250  # rows between two stalls that are looked at


def readable(recording: Recording, facts: LogFacts, findings: Sequence[Finding]) -> list[Recording]:
    """Return the log's pieces for physical checks: in seconds, unwrapped, without stalls."""
    made = unwrapped(_in_seconds(recording, findings), findings)
    if not facts.stalls:
        return [made]
    pieces, first = [], 0
    for begin, end in (*facts.stalls, (facts.rows, facts.rows)):
        if begin - first > LEAST_PIECE:
            pieces.append(made.window(first, begin))
        first = max(first, end)
    return pieces or [made]


def _in_seconds(recording: Recording, findings: Sequence[Finding]) -> Recording:
    unit = next((f.evidence["unit_s"] for f in findings if "unit_s" in f.evidence), 1.0)
    return replace(recording, time_scale=unit * recording.time_scale)


def unwrapped(recording: Recording, findings: Sequence[Finding]) -> Recording:
    """Return a recording whose angles are unwrapped where findings report jumps by full turns."""
    turns: dict[str, float] = {}
    for finding in findings:
        if finding.name != "wrapped angle":
            continue
        source, place = recording.sources[finding.about]
        row = source.matrix[place]
        if np.count_nonzero(row) != 1:
            continue  # of several motors: which one jumps is not known
        column = int(np.flatnonzero(row)[0])
        scale = abs(row[column]) * UNITS[source.kind][source.unit]
        turns[source.columns[column]] = finding.evidence["turn"] / scale
    if not turns:
        return recording
    table = recording.table

    def read(names: Sequence[str]) -> Iterator[Array]:
        last: dict[int, float] = {}
        for block in table.read(names):
            out = np.array(block)
            for k, name in enumerate(names):
                if name in turns and len(out):
                    before = [last[k]] if k in last else []
                    path = np.unwrap(np.concatenate([before, out[:, k]]), period=turns[name])
                    out[:, k] = path[len(before) :]
                    last[k] = float(out[-1, k])
            yield out

    return replace(recording, table=replace(table, read=read))


def corrected(recording: Recording, robot: Robot, correction: Correction) -> Recording:
    """Return a recording with the corrections of its columns applied.

    Gravity and delay are no columns: they go to the options and to `--delay`.
    """
    sources = dict(recording.sources)
    for kind, source, scale, offset in _kinds(recording, correction):
        for j, joint in enumerate(robot.joints):
            name, old = f"{kind}.{joint}", f"{kind}.{robot.joints[source[j]]}"
            if old in recording.sources:
                given, place = recording.sources[old]
                sources[name] = (
                    SignalMap(
                        kind,
                        given.columns,
                        (joint,),
                        given.unit,
                        scale[j] * given.matrix[place : place + 1],
                        scale[j] * given.offset[place : place + 1] + offset[j],
                        given.held,
                    ),
                    0,
                )
    return replace(recording, sources=sources)


def mended_map(recording: Recording, robot: Robot, correction: Correction) -> str:
    """Return the text of a column map with the corrections applied, for `--map`."""
    mended = corrected(recording, robot, correction)
    if mended.time is None:
        lines = ["[time]", f"step = {mended.step!r}"]
    else:
        unit = next(u for u, s in UNITS["t"].items() if s == mended.time_scale)
        lines = ["[time]", f"column = {quoted(mended.time)}", f"unit = {quoted(unit)}"]
    for kind in ("q", "v", "a", "tau", "current"):
        named = [n for n in mended.sources if n.partition(".")[0] == kind]
        if named:
            lines += ["", *_map_of(kind, {n: mended.sources[n] for n in named})]
    return "\n".join(lines) + "\n"


def _map_of(kind: str, sources: Mapping[str, tuple[SignalMap, int]]) -> Iterator[str]:
    columns = list(dict.fromkeys(c for source, _ in sources.values() for c in source.columns))
    unit = next(iter(sources.values()))[0].unit
    matrix, offset = np.zeros((len(sources), len(columns))), np.zeros(len(sources))
    for k, (source, place) in enumerate(sources.values()):
        factor = UNITS[kind][source.unit] / UNITS[kind][unit]
        at = [columns.index(c) for c in source.columns]
        matrix[k, at] += factor * source.matrix[place]
        offset[k] = source.offset[place]
    yield f"[{kind}]"
    chosen = [int(np.flatnonzero(row)[0]) for row in matrix if np.count_nonzero(row) == 1]
    single = len(chosen) == len(matrix)
    yield f"columns = {toml_list((columns[c] for c in chosen) if single else columns)}"
    yield f"joints = {toml_list(n.partition('.')[2] for n in sources)}"
    yield f"unit = {quoted(unit)}"
    if all(source.held for source, _ in sources.values()):
        yield "held = true"
    if not single:
        yield f"matrix = {[[float(x) for x in row] for row in matrix]}"
    elif not np.all(matrix[range(len(matrix)), chosen] == 1.0):
        yield f"scale = {[float(row[c]) for row, c in zip(matrix, chosen, strict=True)]}"
    if offset.any():
        yield f"offset = {[float(x) for x in offset]}"


def _kinds(
    recording: Recording, correction: Correction
) -> Iterator[tuple[str, tuple[int, ...], tuple[float, ...], tuple[float, ...]]]:
    zero = (0.0,) * len(correction.q_source)
    yield "q", correction.q_source, correction.q_scale, correction.q_offset
    yield effort_kind(recording), correction.tau_source, correction.tau_scale, zero


def effort_kind(recording: Recording) -> str:
    """Return the kind of a log's efforts: `tau` or `current`."""
    return "tau" if any(n.startswith("tau.") for n in recording.sources) else "current"
