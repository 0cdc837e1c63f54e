"""JSON lines: an object a line, with the fields of a joint state or with numbers by name.

Lists `position`, `velocity` and `effort` beside a list `name` are `q`, `v` and `tau` of these
joints, as in `sensor_msgs/JointState`; any other number is a column of its own name, and any other
list of numbers columns `name[0]`, `name[1]` …
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, spelt
from heft.files import read_text

from .message_log import JOINT_FIELDS
from .table import LONGEST_LINE, Damaged, Table, block_rows, damaged_file, refuse, refuse_many

LARGEST_DOCUMENT = 16 << 20  # [bytes] that are looked through
Cells = dict[str, float]  # numbers of a line by column


def json_lines_table(path: Path, damaged: Damaged) -> Table:
    """Return a file of JSON lines as a table; its columns are those of the first line.

    A line may lack columns, which are NaN there; it may hold no others.

    Raises:
        InvalidRecording: If there is no line of numbers; unless salvaged, if a line cannot be read.
    """
    first: Mapping[str, float] = {}
    for cells, why in _lines(path, None):
        if why and damaged is refuse:
            raise damaged_file("file of JSON lines", path, why)
        if cells:
            first = cells
            break
    if not first:
        raise InvalidRecording(
            "the log holds no numbers",
            argument=str(path),
            expected='lines such as {"t": 0.001, "name": ["j1"], "position": [0.1], "effort": [2]}',
        )
    refuse_many(len(first), path)

    def read(names: Sequence[str]) -> Iterator[Array]:
        block, filled, lost = np.empty((block_rows(len(names)), len(names))), 0, 0
        example = ""
        for cells, why in _lines(path, first):
            if why:
                if damaged is refuse:
                    raise damaged_file("file of JSON lines", path, why)
                lost, example = lost + 1, example or why
                continue
            block[filled] = [cells.get(name, np.nan) for name in names]
            filled += 1
            if filled == len(block):
                yield block.copy()
                filled = 0
        if filled:
            yield block[:filled]
        if lost:
            why = f"lines left out: {lost}, the first is {example}"
            damaged(damaged_file("file of JSON lines", path, why))

    notes = ("text carries no checksum: a changed digit cannot be seen",)
    return Table(str(path), tuple(first), None, read, notes=notes)


def json_document(path: Path) -> InvalidRecording:
    """Return the error for a JSON document, with the way to make lines of the rows in it."""
    lines = spelt(path.with_name(f"{path.stem}.jsonl"))
    with path.open("rb") as file:
        text = file.read(LARGEST_DOCUMENT)
    message, got = "this is a JSON document, not a log", None
    cure = f"write a line of JSON for each sample into {lines}"
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # no document, or a large one
        with suppress(ValueError, RecursionError):
            _cells(text.partition(b"\n")[0])
            message, cure = "a file of JSON lines ends in .jsonl", f"mv {spelt(path)} {lines}"
        return InvalidRecording(message, argument=str(path), cure=cure)
    parts = document.items() if isinstance(document, dict) else [(None, document)]
    for key, rows in parts:
        if isinstance(rows, list) and rows and isinstance(rows[0], dict):
            numbers = [name for name, x in rows[0].items() if not isinstance(x, bool | str)]
            got = f"{len(rows)} rows of {', '.join(numbers)}"[:200]
            place = ".[]" if key is None else f".[{json.dumps(key)}][]"
            cure = f"make a line of each row: jq -c {spelt(place)} {spelt(path)} > {lines}"
            # Names of what weighs hold one of these words.
            if not any(
                word in name.lower()
                for name in numbers
                for word in ("effort", "torque", "tau", "current")
            ):
                cure += "; but no effort, torque or current is named there, which masses need"
            break
    return InvalidRecording(message, argument=str(path), got=got, cure=cure)


def json_rows(path: Path) -> tuple[Mapping[str, float], Mapping[str, Array]]:
    """Return a JSON document with one list of rows: the numbers beside it, and its columns.

    Truths are 1 and 0; what is no number, or is missing in a row, is NaN; texts are left out.

    Returns:
        Numbers by name, and columns of shape (N,).

    Raises:
        InvalidRecording: If it is no such document, or is larger than `LARGEST_DOCUMENT`.
    """
    text = read_text(path, "log", InvalidRecording, LARGEST_DOCUMENT)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        why = f"{type(problem).__name__}: {problem}"[:200]
        raise InvalidRecording("this is no JSON", argument=str(path), got=why) from problem
    parts = document if isinstance(document, dict) else {"": document}
    rows = next((x for x in parts.values() if isinstance(x, list) and x), [])
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidRecording(
            "the JSON document holds no rows",
            argument=str(path),
            got=", ".join(map(str, parts))[:200],
            expected='a list of objects, such as {"entries": [{"timestamp": 0.005, …}, …]}',
        )
    names = dict.fromkeys(name for row in rows for name in row)
    refuse_many(len(names), path)
    numbers = {n: np.array([_number(row.get(n)) for row in rows]) for n in names}
    beside = {str(k): float(x) for k, x in parts.items() if type(x) in (int, float)}
    return beside, {n: x for n, x in numbers.items() if np.isfinite(x).any()}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _lines(path: Path, first: Mapping[str, float] | None) -> Iterator[tuple[Cells, str]]:
    """Yield the cells of each line, or what is wrong with it; blank lines are none.

    Args:
        first: Cells of the first line, which has all columns; None before it is read.
    """
    number = 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                yield {}, f"line {number}: longer than {LONGEST_LINE} bytes"
                continue
            if not line.strip():
                continue
            try:
                cells = _cells(line)
                if first is not None and (more := cells.keys() - first.keys()):
                    raise ValueError(f"'{min(more)}', which is not in the first line")
            except (ValueError, OverflowError, RecursionError) as problem:
                yield {}, f"line {number}: {str(problem)[:200]}"
            else:
                yield cells, ""


def _cells(line: bytes) -> Cells:
    """Return the numbers of a line; raise ValueError if it is not as it should be."""
    sample = json.loads(line.decode("utf-8-sig"))
    if not isinstance(sample, dict):
        raise ValueError("no object")
    joints = sample.get("name", [])
    if not isinstance(joints, list) or not all(isinstance(j, str) for j in joints):
        raise ValueError("'name' is no list of names")
    if len(set(joints)) < len(joints):
        raise ValueError("a joint's name repeats")
    cells = {n: float(x) for n, x in sample.items() if type(x) in (int, float)}
    of_joints = {n for n, _ in JOINT_FIELDS} if joints else set()
    for name, values in sample.items():
        if isinstance(values, list) and name not in of_joints:
            numbers = [np.nan if x is None else x for x in values]
            if all(type(x) in (int, float) for x in numbers):
                cells |= {f"{name}[{k}]": float(x) for k, x in enumerate(numbers)}
    for name, kind in JOINT_FIELDS if joints else ():
        values = sample.get(name) or []  # what is not measured is left out, or an empty list
        if not isinstance(values, list) or len(values) not in (0, len(joints)):
            raise ValueError(f"'{name}' is no list of {len(joints)} numbers, one a joint")
        for joint, x in zip(joints, values, strict=False):
            if x is not None and type(x) not in (int, float):
                raise ValueError(f"'{name}' of '{joint}' is no number")
            cells[f"{kind}.{joint}"] = np.nan if x is None else float(x)
    return cells
