"""Checkpoint file of a live node: the state of the identification, to resume after any stop."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.errors import InvalidSetting
from heft.estimators import State
from heft.files import put, workshop

from .node import Node, NodeState
from .online import OnlineState

SCHEMA = 1
# Fields of `OnlineState` beside its filter, by their names in the file.
KEPT = {
    "time": "time",
    "since": "changed_at",
    "known": "announced_mass",
    "settled": "settled",
    "rested": "settled_at",
    "restless": "restless_changes",
    "begged": "motion_requested",
    "windows": "windows",
    "spikes": "spikes",
}


def settings_hash(node: Node) -> str:
    """Return a SHA-256 hash of all settings on which the saved state depends."""
    online = replace(node.online((1.0, 1.0), 1000.0), others=())
    values = ", ".join(f"{f.name}={getattr(online, f.name)!r}" for f in fields(online))
    # Files of this schema were first written by a class called `Follow`: they stay readable.
    settings = f"({node.sensors!r}, {node.motion.names!r}, Follow({values}))"
    return hashlib.sha256(settings.encode()).hexdigest()


def save(path: Path, node: Node, state: NodeState) -> None:
    """Write the state atomically; write nothing before the first estimate.

    Args:
        path: File to write.
        node: Node whose settings are hashed into the file.
        state: State to save.
    """
    load, online, epoch = state.load, state.online, state.alignment.epoch
    if load is None or online is None or epoch is None:
        return
    filter = load.filter
    content = {
        "heft": __version__,
        "schema": SCHEMA,
        "settings": settings_hash(node),
        "epoch": epoch,
        "noise": online.noise,
        "rate": online.rate,
        "following": {name: getattr(load, ours) for name, ours in KEPT.items()},
        "filter": {
            "factor": filter.factor.tolist(),
            "waiting": [rows.tolist() for rows in filter.waiting],
            "steps": filter.steps,
            "doubted": filter.doubted,
            "skipping": filter.skipping,
        },
    }
    text = json.dumps(content)
    digest = hashlib.sha256(text.encode()).hexdigest()
    with workshop(path.resolve()) as folder:
        new = folder / "checkpoint"
        new.write_text(f"{digest}\n{text}\n", encoding="utf-8")
        put(new, path.resolve())


def load(path: Path, node: Node) -> NodeState:
    """Read a saved state; return the node's initial state where there is no file.

    Args:
        path: File to read.
        node: Node that resumes; its settings must be those of the file.

    Raises:
        InvalidSetting: If the file is damaged, or was written with other sensors or settings.
    """
    if not path.exists():
        return node.start()
    try:
        digest, _, text = path.read_bytes().decode().partition("\n")
        text = text.removesuffix("\n")
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError("its content is not what was written")
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ValueError(f"its schema is {content['schema']}")
        if content["settings"] != settings_hash(node):
            raise ValueError("it was written with other sensors or settings")
        return _state(node, content)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InvalidSetting(
            "nothing can be resumed from this file",
            argument=f"--checkpoint {path}",
            got=str(problem)[:200],
            cure="name another file, or remove this one to begin anew",
        ) from problem


def _state(node: Node, content: dict[str, Any]) -> NodeState:
    kept = content["filter"]
    factor = np.array(kept["factor"], dtype=float)
    force, moment = map(float, content["noise"])
    online = node.online((force, moment), float(content["rate"]))
    if factor.shape != online.start().filter.factor.shape or not np.isfinite(factor).all():
        raise ValueError("its numbers are none")
    filter = State(
        factor,
        int(kept["steps"]),
        tuple(np.array(rows, dtype=float) for rows in kept["waiting"]),
        int(kept["doubted"]),
        int(kept["skipping"]),
    )
    known = {ours: content["following"][name] for name, ours in KEPT.items()}
    load = OnlineState(filter, **known)
    if not math.isfinite(load.time):
        raise ValueError("its time is none")
    start = node.start()
    return replace(
        start,
        alignment=replace(start.alignment, epoch=int(content["epoch"])),
        noise=(force, moment),
        online=online,
        load=load,
    )
