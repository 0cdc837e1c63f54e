"""`heft coop watch`: a page of a team, of what each robot's node tells of itself."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heft.display import policy_of, render
from heft.files import require_schema
from heft.streams import joined, served

from .team_file import TeamFile
from .team_streams import team_link

PAGE = "applications/cooperation/watch_page.html.jinja"
MAYBE = {"type": ["number", "null"]}
TEXT = {"type": "string", "pattern": r"^[^\x00-\x1f]{0,300}$"}
VECTOR = {"type": "array", "items": MAYBE, "minItems": 3, "maxItems": 3}  # null across a plane
COUNT = {"type": "integer", "minimum": 0}
COUNTS = {"type": "object", "additionalProperties": COUNT}


def _record(optional: Collection[str] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object of these properties and no others."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": 100}


STATE = _record(
    ("time_s", "misfit", "left_out", "sent_bytes", "counts"),
    robot=TEXT,
    time_s=MAYBE,
    load=_record(
        mass_kg={"type": "number"},
        mass_std_kg=MAYBE,
        com_m=VECTOR,
        inertia_kgm2={"type": "array", "items": VECTOR, "minItems": 3, "maxItems": 3},
    )
    | {"type": ["object", "null"]},
    misfit=MAYBE,
    poses=_list(_record(of=TEXT, origin_m=VECTOR, turn_rad=VECTOR)),
    holding=_list(TEXT),
    windows=COUNTS,
    left_out=COUNT,
    refused=COUNT,
    events=_list(_record(time_s=MAYBE, name=TEXT, message=TEXT)),
    sent_bytes=COUNTS,
    counts=COUNTS,
)


@dataclass
class TeamStates:
    """Latest states that nodes sent; times are of one clock [s]."""

    stated: TeamFile  # the team
    states: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by robot
    heard: dict[str, float] = field(default_factory=dict)  # when each was heard last [s]
    refused: int = 0  # how many of what came was none

    def take(self, robot: str, data: bytes, now: float) -> None:
        """Store a state that a robot sent; invalid ones are counted."""
        try:
            state = json.loads(data.decode())
            require_schema(state, STATE)
        except (ValueError, RecursionError):
            self.refused += 1
            return
        if state["robot"] != robot:
            self.refused += 1
            return
        self.states[robot], self.heard[robot] = state, now

    def shown(self, now: float) -> dict[str, Any]:
        """Return what the page shows, as JSON values."""
        names = [r.name for r in self.stated.robots]
        masses = [s["load"]["mass_kg"] for s in self.states.values() if s["load"]]
        spread = max(masses) - min(masses) if masses else math.nan
        return {
            "robots": names,
            "edges": [list(edge) for edge in self.stated.graph.edges],
            "states": [self.states.get(name) for name in names],
            "silent_s": [now - self.heard[n] if n in self.heard else None for n in names],
            "apart_kg": spread if math.isfinite(spread) else None,
            "refused": self.refused,
        }


def watch_team(
    team: Path, port: int, stop: threading.Event, progress: Callable[[str], None]
) -> None:
    """Serve a page of a team on this machine, until stopped.

    Args:
        team: TOML of the team.
        port: Of the page; 0 for any that is free.

    Raises:
        InvalidSetting: If the file is malformed, the port cannot be had, or the network would be
            open to strangers.
    """
    stated = TeamFile.from_toml(team)
    states, html = TeamStates(stated), render(PAGE)
    with joined(team_link(stated, None)) as connection, served(port, html, policy_of(html)) as page:
        progress(f"showing at {page.address}")
        while not stop.wait(0.5):  # [s]
            now = time.monotonic()
            for robot, data in connection.receive():
                states.take(robot, data, now)
            with suppress(OSError):
                page.show(states.shown(now))
