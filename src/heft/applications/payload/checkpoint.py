"""What a live node knows of a load, kept in a file, to go on from after a stop of any kind."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.errors import InvalidSetting
from heft.estimators import State
from heft.files import put, workshop

from .node import Known, Node
from .online import Following

SCHEMA = 1
# Of `Following`, beside its filter.
KEPT = (
    "time",
    "since",
    "known",
    "settled",
    "rested",
    "restless",
    "begged",
    "windows",
    "spikes",
)


def settings_hash(node: Node) -> str:
    """Return a hash of all settings that the kept numbers depend on."""
    follow = replace(node.follow((1.0, 1.0), 1000.0), others=())
    told = repr((node.sensors, node.motion.names, follow))
    return hashlib.sha256(told.encode()).hexdigest()


def save(path: Path, node: Node, known: Known) -> None:
    """Write the file, whole or not at all; nothing while there is nothing to keep."""
    if known.following is None or known.follow is None or known.epoch is None:
        return
    filter = known.following.filter
    content = {
        "heft": __version__,
        "schema": SCHEMA,
        "settings": settings_hash(node),
        "epoch": known.epoch,
        "noise": known.follow.noise,
        "rate": known.follow.rate,
        "following": {name: getattr(known.following, name) for name in KEPT},
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


def load(path: Path, node: Node) -> Known:
    """Return what was known when the file was written, or the start where there is none.

    Raises:
        InvalidSetting: If the file is damaged, or of other settings.
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
        return _known(node, content)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InvalidSetting(
            "nothing can be resumed from this file",
            argument=f"--checkpoint {path}",
            got=str(problem)[:200],
            cure="name another file, or remove this one to begin anew",
        ) from problem


def _known(node: Node, content: dict[str, Any]) -> Known:
    kept = content["filter"]
    factor = np.array(kept["factor"], dtype=float)
    force, moment = map(float, content["noise"])
    follow = node.follow((force, moment), float(content["rate"]))
    if factor.shape != follow.start().filter.factor.shape or not np.isfinite(factor).all():
        raise ValueError("its numbers are none")
    state = State(
        factor,
        int(kept["steps"]),
        tuple(np.array(rows, dtype=float) for rows in kept["waiting"]),
        int(kept["doubted"]),
        int(kept["skipping"]),
    )
    following = Following(state, **{name: content["following"][name] for name in KEPT})
    if not math.isfinite(following.time):
        raise ValueError("its time is none")
    return replace(
        node.start(),
        epoch=int(content["epoch"]),
        noise=(force, moment),
        follow=follow,
        following=following,
    )
