"""Checkpoint file of a live node: the state of the identification, to resume after any stop.

The file's hash tells damage, not who wrote it: whoever may write there can make a right one. So
every field is checked against its type, shape and range before anything is computed from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.errors import HeftError, InvalidSetting, shown, visible
from heft.estimators import State
from heft.files import put, read_text, workshop

from .node import Node, NodeState
from .online import Online, OnlineState

SCHEMA = 1
LARGEST = 1024 * 1024  # [bytes]
WINDOW_ROWS = 6  # of a block, the components of a wrench
LARGEST_ENTRY = 1e15  # of the triangle: information of years at kilohertz is far below
LARGEST_VALUE = 1e9  # of an estimate and its deviation, in SI units
SMALLEST_NOISE = 1e-9  # [N, N·m]
LATEST = 2**62  # [ns]
LONGEST = 1e10  # [s]
LARGEST_COUNT = 2**53
Check = Callable[[object], Any]


def settings_hash(node: Node) -> str:
    """Return a SHA-256 hash of all settings on which the saved state depends."""
    online = replace(node.online((1.0, 1.0), 1000.0), others=())
    values = ", ".join(f"{f.name}={getattr(online, f.name)!r}" for f in fields(online))
    # Files of this schema were first written by a class called `Follow`: they stay readable.
    settings = f"({node.sensors!r}, {node.motion.names!r}, Follow({values}))"
    return hashlib.sha256(settings.encode()).hexdigest()


def save(path: Path, node: Node, state: NodeState) -> None:
    """Write the state and a hash of the node's settings atomically; nothing before an estimate.

    Raises:
        OSError: If it cannot be written.
        ValueError: If a number of the state is not finite: what is written can be read.
    """
    load, online, epoch = state.load, state.online, state.alignment.epoch
    if load is None or online is None or epoch is None or not load.windows:
        return
    filter = load.filter
    content = {
        "heft": __version__,
        "schema": SCHEMA,
        "settings": settings_hash(node),
        "epoch": epoch,
        "noise": online.noise,
        "rate": online.rate,
        "following": {name: getattr(load, ours) for name, (ours, _) in FOLLOWING.items()},
        "filter": {
            "factor": filter.factor.tolist(),
            "waiting": [rows.tolist() for rows in filter.waiting],
            "steps": filter.steps,
            "doubted": filter.doubted,
            "skipping": filter.skipping,
        },
    }
    text = json.dumps(content, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    with workshop(path.resolve()) as folder:
        new = folder / "checkpoint"
        new.write_text(f"{digest}\n{text}\n", encoding="utf-8")
        put(new, path.resolve())


def load(path: Path, node: Node) -> NodeState:
    """Read a saved state; return the node's initial state where there is no file.

    Raises:
        InvalidSetting: If the file is damaged, or was written with other sensors or settings.
    """
    try:
        if not path.exists():
            return node.start()
        digest, _, text = read_text(path, "file", InvalidSetting, LARGEST).decode().partition("\n")
        text = text.removesuffix("\n")
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError("its content is not what was written")
        return _state(node, json.loads(text))
    except HeftError as problem:
        raise _refused(path, problem.message) from problem
    except (OSError, ValueError, OverflowError, RecursionError, np.linalg.LinAlgError) as problem:
        raise _refused(path, str(problem)) from problem


def _refused(path: Path, reason: str) -> InvalidSetting:
    return InvalidSetting(
        "nothing can be resumed from this file",
        argument=f"--checkpoint {path}",
        got=visible(reason)[:200],
        cure="name another file, or remove this one to begin anew",
    )


def _state(node: Node, content: object) -> NodeState:
    if not isinstance(content, Mapping):
        raise ValueError("it holds no table")
    if content.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {shown(content.get('schema'))}")
    if content.get("settings") != settings_hash(node):
        raise ValueError("it was written with other sensors or settings")
    read = _table(
        content,
        {
            "heft": _text,
            "schema": _integer,
            "settings": _text,
            "epoch": partial(_integer, least=-LATEST, most=LATEST),
            "noise": _noise,
            "rate": partial(_real, least=1.0, most=1e5),
            "following": lambda value: value,
            "filter": lambda value: value,
        },
    )
    online = node.online(read["noise"], read["rate"])
    following = _table(read["following"], {k: check for k, (_, check) in FOLLOWING.items()})
    filter = _filter(online, read["filter"])
    values = {FOLLOWING[name][0]: value for name, value in following.items()}
    with np.errstate(all="ignore"):  # what overflows is refused
        estimate = np.concatenate([filter.values, np.diag(filter.covariance)])
    if not (np.abs(estimate) <= LARGEST_VALUE).all():
        raise ValueError("its estimate is none")
    start = node.start()
    return replace(
        start,
        alignment=replace(start.alignment, epoch=read["epoch"]),
        noise=read["noise"],
        online=online,
        load=OnlineState(filter, **values),
    )


def _filter(online: Online, content: object) -> State:
    """Return the filter's state; its triangle has a row a parameter, and one for the rest."""
    filter = online.filter
    size = len(filter.floor) + 1

    def blocks(value: object) -> tuple[Array, ...]:
        if not isinstance(value, list) or len(value) > filter.lag:
            raise ValueError(f"waiting: at most {filter.lag} blocks are expected")
        return tuple(_array(rows, (WINDOW_ROWS, size), LARGEST_ENTRY) for rows in value)

    read = _table(
        content,
        {
            "factor": lambda value: _array(value, (size, size), LARGEST_ENTRY),
            "waiting": blocks,
            "steps": _integer,
            "doubted": partial(_integer, most=filter.confirm),
            "skipping": partial(_integer, most=filter.lag),
        },
    )
    factor = read["factor"]
    if np.tril(factor, -1).any() or not (np.diag(factor)[:-1] > 0.0).all():
        raise ValueError("factor: it is no triangle of information")
    return State(factor, read["steps"], read["waiting"], read["doubted"], read["skipping"])


def _table(value: object, checks: Mapping[str, Check]) -> dict[str, Any]:
    if not isinstance(value, Mapping) or set(value) != set(checks):
        raise ValueError(f"a table of {', '.join(checks)} is expected")
    made = {}
    for name, check in checks.items():
        try:
            made[name] = check(value[name])
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from problem
    return made


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is expected")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is expected")
    return value


def _integer(value: object, least: int = 0, most: int = LARGEST_COUNT) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a whole number from {least} to {most} is expected, not {shown(value)}")
    return value


def _real(value: object, least: float = -LONGEST, most: float = LONGEST) -> float:
    if type(value) not in (int, float) or not least <= value <= most:  # type: ignore[operator]
        raise ValueError(f"a number from {least:g} to {most:g} is expected, not {shown(value)}")
    return float(value)  # type: ignore[arg-type]


def _mass(value: object) -> float | None:
    return None if value is None else _real(value, -LARGEST_VALUE, LARGEST_VALUE)


def _array(
    value: object, shape: tuple[int, int], largest: float, least: float | None = None
) -> Array:
    count, size = shape
    rows: list[Any] = value if isinstance(value, list) and len(value) == count else [None]
    if not all(isinstance(row, list) and len(row) == size for row in rows):
        raise ValueError(f"numbers of shape {shape} are expected")
    low = -largest if least is None else least
    return np.array([[_real(x, low, largest) for x in row] for row in rows])


def _noise(value: object) -> tuple[float, float]:
    force, moment = _array([value], (1, 2), LARGEST_VALUE, SMALLEST_NOISE)[0].tolist()
    return force, moment


# Fields of `OnlineState` beside its filter and what they may be, by their names in the file.
FOLLOWING: Mapping[str, tuple[str, Check]] = {
    "time": ("time", _real),
    "since": ("changed_at", _real),
    "known": ("announced_mass", _mass),
    "settled": ("settled", _truth),
    "rested": ("settled_at", _real),
    "restless": ("restless_changes", _integer),
    "begged": ("motion_requested", _truth),
    "windows": ("windows", partial(_integer, least=1)),
    "spikes": ("spikes", _integer),
}
