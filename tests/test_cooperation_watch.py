"""The page of a team: what nodes tell is shown as text, and what is no state is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heft.applications.cooperation import CooperativeNode, TeamFile, TeamRobot
from heft.applications.cooperation.watch import PAGE, TeamStates
from heft.display.templates import policy_of, render
from heft.information import Graph
from heft.streams.page import served
from tests.browser import browser, opened

HOSTILE = "<img src=x onerror=alert(1)>"
STATED = TeamFile((TeamRobot("left"), TeamRobot(HOSTILE)), Graph.ring(2))
LOAD = {
    "mass_kg": 2.0,
    "mass_std_kg": 0.01,
    "com_m": [0.1, 0.2, -0.3],
    "inertia_kgm2": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
}


def state(robot: str, **more: Any) -> dict[str, Any]:
    own = CooperativeNode(STATED, 0, 1).state() | {"robot": robot, "sent_bytes": {"left": 1000}}
    return own | more


def as_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def test_what_a_node_tells_is_taken() -> None:
    states = TeamStates(STATED)
    states.take("left", as_bytes(state("left", load=LOAD)), 1.0)
    states.take(HOSTILE, as_bytes(state(HOSTILE, load=LOAD | {"mass_kg": 2.5})), 1.0)
    shown = states.shown(3.0)
    assert shown["apart_kg"] == pytest.approx(0.5) and shown["silent_s"] == [2.0, 2.0]
    assert states.refused == 0


BAD_STATES = {
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "deep": b"[" * 50_000,
    "no table": b"[]",
    "of another robot": as_bytes(state("right")),
    "no load": as_bytes(state("left", load={"mass_kg": "heavy"})),
    "no number": b'{"robot": "left", "load": NaN}',
    "unknown": as_bytes(state("left", other=1)),
    "long text": as_bytes(state("left", holding=["x" * 400])),
    "control characters": as_bytes(state("left", holding=["\x1b[2J"])),
    "too many": as_bytes(state("left", holding=["x"] * 101)),
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_what_is_no_state_is_counted(kind: str) -> None:
    states = TeamStates(STATED)
    states.take("left", BAD_STATES[kind], 0.0)
    assert states.refused == 1 and not states.states


def test_a_browser_shows_a_team() -> None:
    html = render(PAGE)
    states = TeamStates(STATED)
    pose = {"of": HOSTILE, "origin_m": [0.1, 0.0, 0.0], "turn_rad": [0.0, 0.0, 3.0]}
    event = {"time_s": 12.5, "name": "changed", "message": HOSTILE}
    states.take("left", as_bytes(state("left", load=LOAD, poses=[pose], events=[event])), 0.0)
    with browser() as running, served(0, html, policy_of(html)) as page:
        page.show(states.shown(0.5))
        with opened(running, page.address) as seen:
            seen.page.locator("#robots tr").nth(1).wait_for()
            text = seen.page.evaluate("document.body.innerText")
            assert "2.000 ± 0.010 kg" in text and text.count(HOSTILE) >= 3
            assert "171.9" in text and "never" in text
            assert seen.page.evaluate("document.querySelectorAll('img').length") == 0
            assert seen.page.evaluate("document.querySelectorAll('#graph circle').length") == 2
            assert seen.said + seen.warned == []
