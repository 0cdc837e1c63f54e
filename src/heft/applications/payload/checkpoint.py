"""Checkpoint file of a live node: the state of the identification, to resume after any stop.

The file's hash tells damage, not who wrote it: whoever may write there can make a right one. So
every field is checked against its type, shape and range before anything is computed from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.errors import HeftError, InvalidSetting, shown, visible
from heft.estimators import State
from heft.files import Reader, Section, Text, list_of, put, read_text, truth, workshop

from .node import Node, NodeState
from .online import Online, OnlineState

SCHEMA = 1
LARGEST = 1024 * 1024  # [bytes]
LARGEST_VALUE = 1e9  # of an estimate and its deviation, in SI units


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
        raise _refused(path, f"{problem.argument}: {problem.message}") from problem
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
    readers: dict[str, Reader[Any]] = {
        "heft": Text("a text is expected"),
        "schema": _integer(),
        "settings": Text("a text is expected"),
        "epoch": _integer(-(2**62), 2**62),  # [ns]
        "noise": list_of(_real(1e-9, LARGEST_VALUE), 2),  # [N, N·m]
        "rate": _real(1.0, 1e5),
        "following": _table({k: reader for k, (_, reader) in FOLLOWING.items()}),
        "filter": lambda value, where: value,
    }
    read = _table(readers)(content, "")
    online = node.online(read["noise"], read["rate"])
    filter = _filter(online, read["filter"])
    values = {FOLLOWING[name][0]: value for name, value in read["following"].items()}
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
    # information of years at kilohertz is far below
    row = list_of(_real(-1e15, 1e15), size)
    block = list_of(row, 6)  # the components of a wrench
    readers: dict[str, Reader[Any]] = {
        "factor": list_of(row, size),
        "waiting": list_of(block),
        "steps": _integer(),
        "doubted": _integer(most=filter.confirm),
        "skipping": _integer(most=filter.lag),
    }
    read = _table(readers)(content, "filter")
    factor, waiting = np.array(read["factor"]), tuple(map(np.array, read["waiting"]))
    if len(waiting) > filter.lag:
        raise ValueError(f"waiting: at most {filter.lag} blocks are expected")
    if np.tril(factor, -1).any() or not (np.diag(factor)[:-1] > 0.0).all():
        raise ValueError("factor: it is no triangle of information")
    return State(factor, read["steps"], waiting, read["doubted"], read["skipping"])


def _table(readers: Mapping[str, Reader[Any]]) -> Section[dict[str, Any]]:
    """Return the reader of a table that has all of these keys."""
    return Section(dict, readers, readers)


def _integer(least: int = 0, most: int = 2**53) -> Reader[int]:
    def read(value: object, where: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{where}: a whole number from {least} to {most} is expected")
        return value

    return read


def _real(least: float, most: float) -> Reader[float]:
    def read(value: object, where: str) -> float:
        """Return the number, or raise `ValueError`."""
        if type(value) not in (int, float) or not least <= value <= most:  # type: ignore[operator]
            raise ValueError(f"{where}: a number from {least:g} to {most:g} is expected")
        return float(value)  # type: ignore[arg-type]

    return read


def _mass(value: object, where: str) -> float | None:
    return None if value is None else _real(-LARGEST_VALUE, LARGEST_VALUE)(value, where)


TIME = _real(-1e10, 1e10)  # [s]
# Fields of `OnlineState` beside its filter and what they may be, by their names in the file.
FOLLOWING: Mapping[str, tuple[str, Reader[Any]]] = {
    "time": ("time", TIME),
    "since": ("changed_at", TIME),
    "known": ("announced_mass", _mass),
    "settled": ("settled", truth),
    "rested": ("settled_at", TIME),
    "restless": ("restless_changes", _integer()),
    "begged": ("motion_requested", truth),
    "windows": ("windows", _integer(1)),
    "spikes": ("spikes", _integer()),
}
