"""Draft of a column map, guessed from the names of a log's columns and of the robot's joints.

The draft must be checked by the user: each line states the evidence for it in a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording

from .columns import FRAME_KINDS
from .columns import UNITS as ALL_UNITS
from .formats.table import GAP, NAMED, Table

# Words that name a kind of signal, most telling first.
WORDS = {
    "current": ["current", "currents", "amp", "amps", "ampere", "iq"],
    "tau": ["tau", "torque", "torques", "trq", "effort", "efforts", "eff", "moment", "moments"],
    "a": ["qdd", "ddq", "acc", "accel", "acceleration", "accelerations"],
    "v": ["qd", "dq", "qdot", "qvel", "vel", "velocity", "velocities", "speed", "speeds", "omega"],
    "q": [
        *("q", "qpos", "pos", "position", "positions"),
        *("angle", "angles", "theta", "encoder", "enc"),
    ],
}
# The same of what belongs to a frame; a letter may stand before the axis, as in `Fx`.
FRAME_WORDS = {
    "quat": ["quat", "quaternion", "orientation", "q"],
    "force": ["force", "forces", "f"],
    "torque": ["torque", "torques", "moment", "moments", "tau", "m", "t"],
    "acc": ["acc", "accel", "acceleration", "a"],
    "omega": ["omega", "gyro", "w"],
    "pos": ["pos", "position", "translation", "tcp", "p"],
}
# Words of what was asked for, not of what was.
WISHED = [
    *("target", "goal", "setpoint", "desired", "des"),
    *("cmd", "command", "commanded", "ref", "reference"),
]
UNITS = {
    "t": ("s", "ms", "us", "ns"),
    "q": ("rad", "deg", "turn", "mm"),
    "v": ("rad/s", "deg/s", "rpm", "mm/s"),
    "a": ("rad/s^2", "deg/s^2"),
    "tau": ("Nm", "mNm", "kNm"),
    "current": ("A", "mA"),
}
SPELLINGS = {
    **dict.fromkeys(("degree", "degrees"), "deg"),
    **dict.fromkeys(("radian", "radians"), "rad"),
    **dict.fromkeys(("rev", "turns"), "turn"),
    **dict.fromkeys(("msec", "millis"), "ms"),
    **dict.fromkeys(("nsec", "nanos"), "ns"),
    **{"sec": "s", "usec": "us"},
}


@dataclass(frozen=True)
class _Guess:
    column: str
    kind: str
    rest: tuple[str, ...]
    number: int | None
    unit: str | None
    wished: bool


def draft_map(table: Table, joints: Sequence[str]) -> str:
    """Return the TOML text of a column map, guessed from names and from the first numbers.

    If joints are given, joint signals are searched first, then the wrench and pose of a sensor
    among the other columns. Comments state the evidence for each guess and what to check. Where
    nothing can be guessed, a commented line is left to be filled in. `ColumnMap.from_dict` reads
    the text once parsed.

    Args:
        joints: The robot's joints, in its order; none for a log of a sensor alone.
    """
    columns = [c for c in table.columns if c]
    spelt = {c: [SPELLINGS.get(w, w) for w in _words(c)] for c in columns}
    time = next(
        (
            c
            for w in ("t", "time", "stamp", "timestamp", "clock", "secs", "seconds")
            for c in columns
            if w in spelt[c]
        ),
        None,
    )
    guesses = [g for c in columns if c != time and (g := _guess(c, table.units)) is not None]
    cells = {
        int(m["number"].strip("_.[]")): n
        for c, n in table.texts.items()
        if (m := NAMED.fullmatch(c))
    }
    lines = [
        f"# A first draft for {quoted(table.path)}: guessed from names.",
        "# Check every line, then give it with --map."
        + (" Joints: " + ", ".join(map(quoted, joints)) if joints else ""),
        "",
    ]
    if time is None and (time := _growing(table, columns)) is not None:
        lines.append("# CHECK: no column is named like a time; this one grows from row to row")
    kinds = ("q", "tau", "current", "v") if joints else ()
    by_kind = {k: _by_joint([g for g in guesses if g.kind == k], joints, cells) for k in kinds}
    lines += _step_lines(table, by_kind) if time is None else _time_lines(table, time)
    used = {time}
    for kind, (guessed, why) in by_kind.items():
        lines.append("")
        if not guessed:
            lines += _nothing(kind, joints)
            continue
        used |= {g.column for g in guessed.values()}
        lines += _signal_lines(table, kind, guessed, why)
        lost = [j for j in joints if j not in guessed]
        if lost:
            lines.append("# CHECK: no column is named like that of " + ", ".join(map(quoted, lost)))
    for kind, named in _by_frame([c for c in columns if c not in used]).items():
        used |= set(named)
        lines += ["", *_frame_lines(table, kind, named)]
    rest = [c for c in columns if c not in used]
    if rest:
        more = " …" if len(rest) > 40 else ""
        lines += ["", "# Not used: " + ", ".join(map(quoted, rest[:40])) + more]
    return "\n".join(lines) + "\n"


def _words(name: str) -> list[str]:
    """Return a name's words in lower case, numbers apart: `motorPos_3 [deg]` has four."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return [w.lower() for w in re.findall(r"[A-Za-zµ]+|\d+", split)]


def _guess(column: str, units: Mapping[str, str]) -> _Guess | None:
    words = _words(column)
    kind, spoken = next(
        ((k, w) for k, names in WORDS.items() for w in words if w in names), (None, None)
    )
    plain = [SPELLINGS.get(w, w) for w in words]
    if kind is None:  # a unit tells it, too: `x_mm`; letters alone may be anything
        telling = {k: {u.lower() for u in UNITS[k] if len(u) > 1} for k in ("q", "tau", "current")}
        named = (k for k, units in telling.items() if not units.isdisjoint(plain))
        kind = next(named, None)
    if kind is None:
        return None
    numbers = [int(w) for w in words if w.isdecimal()]
    unit = next((u for u in UNITS[kind] if u.partition("/")[0].lower() in plain), None)
    unit = units[column] if units.get(column) in ALL_UNITS[kind] else unit
    rest = tuple(w for w in words if w != spoken and w not in WISHED and not w.isdecimal())
    wished = any(w in WISHED for w in words)
    return _Guess(column, kind, rest, numbers[-1] if numbers else None, unit, wished)


def _by_joint(
    guesses: Sequence[_Guess], joints: Sequence[str], cells: Mapping[int, str]
) -> tuple[Mapping[str, _Guess], str]:
    """Return the guesses by joint, and why; `cells` are names in cells, by their number."""
    measured = [g for g in guesses if not g.wished] or list(guesses)
    named: dict[str, _Guess] = {}
    if cells:  # what they number, they name
        numbered = ((cells.get(-1 if g.number is None else g.number), g) for g in measured)
        named = {joint: g for joint, g in numbered if joint}
        return {j: named[j] for j in joints if j in named}, "the log's cells name the joints"
    for guess in measured:
        fitting = [j for j in joints if _names(guess.column, j)]
        if fitting:  # of `wrist` and `wrist_1` the longer
            named.setdefault(max(fitting, key=len), guess)
    if named:
        return {j: named[j] for j in joints if j in named}, "the joints' names are in the columns'"
    families: dict[tuple[str, ...], list[_Guess]] = {}
    for guess in measured:
        if guess.number is not None:
            families.setdefault(guess.rest, []).append(guess)
    for family in families.values():
        numbers = sorted(g.number for g in family if g.number is not None)
        first = numbers[0]
        if numbers == list(range(first, first + len(joints))) and first in (0, 1):
            ordered = sorted(family, key=lambda g: g.number or 0)
            return (
                dict(zip(joints, ordered, strict=True)),
                f"as many columns as joints, numbered from {first}: the model's order is assumed",
            )
    return {}, ""


def _by_frame(columns: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the columns of those kinds of a frame's signals that have one for each axis."""
    by_kind: dict[str, dict[str, str]] = {kind: {} for kind in FRAME_WORDS}
    for column in columns:
        words = _words(column)
        at = next((k for k, w in enumerate(words) if re.fullmatch("[a-z]?[wxyz]", w)), None)
        if at is None:
            continue
        axis, words[at] = words[at][-1], words[at][:-1]
        kind = next((k for k, names in FRAME_WORDS.items() if any(w in names for w in words)), None)
        if kind is not None and axis in FRAME_KINDS[kind]:
            by_kind[kind].setdefault(axis, column)
    return {
        kind: [named[axis] for axis in FRAME_KINDS[kind]]
        for kind, named in by_kind.items()
        if len(named) == len(FRAME_KINDS[kind])
    }


def _frame_lines(table: Table, kind: str, columns: Sequence[str]) -> list[str]:
    lines = [
        f"[{kind}]",
        'frame = "tool0"  # CHECK: the name that the file of --sensor gives it',
        f"columns = {toml_list(columns)}",
    ]
    if kind == "quat":
        return [*lines[:-1], lines[-1] + "  # CHECK: it takes the frame to the world"]
    words = {w for c in columns for w in _words(c)}
    named = [u for u in ALL_UNITS[kind] if u.lower() in words and len(u) > 1]
    unit, why = next(iter(ALL_UNITS[kind])), "CHECK: nothing in the names says so"
    if named:
        unit, why = named[0], "the names say so"
    elif kind == "pos":
        widest = _widest(table, columns)
        # Positions that go further are more likely millimetres.
        unit, why = "mm" if widest > 20.0 else "m", f"CHECK: values reach {widest:.4g}"
    return [*lines, f'unit = "{unit}"  # {why}']


def _names(column: str, joint: str) -> bool:
    words, part = _words(column), _words(joint)
    starts = range(len(words) - len(part) + 1)
    return bool(part) and any(words[k : k + len(part)] == part for k in starts)


def _head(table: Table, columns: Iterable[str]) -> Array:
    block = next(iter(table.read(list(columns))), None)
    return np.empty((0, len(list(columns)))) if block is None else block[:20_000]


def _widest(table: Table, columns: Iterable[str]) -> float:
    values = _head(table, columns)
    return float(np.nanmax(np.abs(values), initial=0.0)) if np.isfinite(values).any() else 0.0


def _growing(table: Table, columns: Sequence[str]) -> str | None:
    """Return the first column that grows from row to row by about the same."""
    try:
        steps = np.diff(_head(table, columns), axis=0)
    except InvalidRecording:  # a column may hold text further down
        return None
    for column, own in zip(columns, steps.T, strict=True):
        if len(own) > 1 and (own > 0.0).all() and own.max() < GAP * float(np.median(own)):
            return column
    return None


def _step_lines(table: Table, by_kind: Mapping[str, tuple[Mapping[str, _Guess], str]]) -> list[str]:
    """Return the step of a log without a time, by what joints move between rows and their speed."""
    step, why = 0.001, "this is not from the log"
    q, v = (by_kind[k][0] if k in by_kind else {} for k in ("q", "v"))
    if both := [j for j in q if j in v]:
        moved = np.diff(_head(table, [q[j].column for j in both]), axis=0)
        speed = _head(table, [v[j].column for j in both])
        speed = 0.5 * (speed[1:] + speed[:-1])
        there = np.isfinite(moved) & np.isfinite(speed)
        x, y = speed[there], moved[there]
        # of what does not follow its velocity nothing is read
        if (across := x @ y) > 0.9 * np.linalg.norm(x) * np.linalg.norm(y):
            step, why = float(f"{across / (x @ x):.3g}"), "by the positions over the velocities"
    return [
        "[time]  # no column is named like a time, and none grows from row to row",
        f"step = {step:g}  # [s]: CHECK, {why}",
    ]


def _time_lines(table: Table, time: str) -> list[str]:
    values = _head(table, [time])[:, 0]
    steps = np.diff(values[np.isfinite(values)])
    steps = steps[steps > 0.0]
    step = float(np.median(steps)) if len(steps) else 0.0
    spelt = [SPELLINGS.get(w, w) for w in _words(time)]
    unit = next((u for u in UNITS["t"] if u in spelt and u != time), None)
    why = "its name says so"
    if table.units.get(time) in ALL_UNITS["t"]:
        unit, why = table.units[time], "the file says so"
    if unit is None:
        # Robots log at 20 Hz to 20 kHz: one unit puts the step there.
        sizes = ALL_UNITS["t"].items()
        unit = next((u for u, size in sizes if 5e-5 <= step * size <= 5e-2), "s")
        why = f"CHECK: it steps by {step:g}"
    return ["[time]", f"column = {quoted(time)}", f'unit = "{unit}"  # {why}']


def _signal_lines(table: Table, kind: str, guessed: Mapping[str, _Guess], why: str) -> list[str]:
    columns = [g.column for g in guessed.values()]
    units = {g.unit for g in guessed.values()}
    lines = [f"[{kind}]  # {why}"]
    if any(g.wished for g in guessed.values()):
        lines.append("# CHECK: these names speak of what was asked for, not of what was measured")
    lines += [f"columns = {toml_list(columns)}", f"joints = {toml_list(guessed)}"]
    if len(units) == 1 and (unit := next(iter(units))) is not None:
        who = "file says" if columns[0] in table.units else "names say"
        lines.append(f'unit = "{unit}"  # the {who} so')
        return lines
    unit, reason = UNITS[kind][0], "CHECK: nothing in the names says so"
    if kind == "q":
        widest = _widest(table, columns)
        reason = f"CHECK: values reach {widest:.4g}"
        if widest > 4.0 * np.pi:
            unit, reason = "deg", f"{reason}, far for radians"
    lines.append(f'unit = "{unit}"  # {reason}')
    return lines


def _nothing(kind: str, joints: Sequence[str]) -> list[str]:
    what = {"q": "positions", "tau": "torques", "current": "currents", "v": "velocities"}[kind]
    if kind == "v":
        return ["# No columns are named like velocities; they are not needed."]
    return [
        f"# No columns are named like {what} of these joints.",
        f"# [{kind}]",
        "# columns = [" + ", ".join('"…"' for _ in joints) + "]",
        f"# joints = {toml_list(joints)}",
    ]


def toml_list(names: Iterable[str]) -> str:
    """Return names as a TOML list of strings."""
    return "[" + ", ".join(map(quoted, names)) + "]"


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in plain) + '"'
