"""What `docs/limits.md` says that heft does not do is what it does not do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

from heft.applications import demo
from heft.cli import app
from heft.dynamics.drives import TERMS, DriveMotion, Viscous
from heft.errors import HeftError
from heft.models import ContactOptions, Options, Robot
from heft.models.options import JointOptions
from heft.plants import RobotPlant
from heft.recordings.columns import KINDS
from heft_methods.bench import names

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
LIST = PAGE.partition("## What heft does not do")[2].partition("\n## ")[0]
ARM = Robot.from_urdf(demo.FOLDER / "arm.urdf")

LOOP = """<robot name="loop"><link name="base"/><link name="a"/><link name="b"/>
  <joint name="j1" type="continuous"><parent link="base"/><child link="a"/></joint>
  <joint name="j2" type="continuous"><parent link="base"/><child link="b"/></joint>
  <joint name="j3" type="continuous"><parent link="a"/><child link="b"/></joint></robot>"""
FOUR_BARS = """<mujoco><worldbody>
  <body name="a"><joint name="j1" axis="0 1 0"/><geom size="0.1"/></body>
  <body name="b" pos="1 0 0"><joint name="j2" axis="0 1 0"/><geom size="0.1"/></body></worldbody>
  <equality><connect body1="a" body2="b" anchor="0 0 1"/></equality></mujoco>"""


def refused(text: str) -> bool:
    try:
        Robot.from_text(text.encode(), path="robot.xml" if "mujoco" in text else "robot.urdf")
    except HeftError as problem:
        return "loop" in str(problem)
    return False


def refuses_option(joint: Mapping[str, object]) -> bool:
    try:
        Robot.from_urdf(demo.FOLDER / "arm.urdf", Options.from_dict({"joint": {"elbow": joint}}))
    except HeftError:
        return True
    return False


def friction_is_the_same_wherever_the_robot_stands() -> bool:
    """Whether no term sees the position; where a slide began is a state of its own."""
    rng = np.random.default_rng(0)
    q, v, a, rigid, z = rng.uniform(-1.0, 1.0, size=(5, 50))
    terms = [t for drive in ARM.drives for t in drive.terms]
    stops = {t.width: z for t in terms if t.remembers}
    here, there = (DriveMotion(q + far, v, a, rigid, stops) for far in (0.0, 1.0))
    return all(np.array_equal(t.column(here), t.column(there)) for t in terms)


def told_by_a_floating_base() -> tuple[float, float]:
    stored = json.loads((ROOT / "benchmarks/results/floating.json").read_text(encoding="utf-8"))
    value = {r["name"]: r["value"] for r in stored["rows"]}
    return value["directions of them that only the prior holds"], value["standard parameters"]


def parameters() -> set[str]:
    labels = RobotPlant(ARM).labels.names
    return {name.split(".")[1].partition("[")[0] for name in labels}


COMMANDS = {
    *("identify", "predict", "sample", "excite", "select", "simulate", "bench", "check", "compare"),
    *("view", "convert", "payload", "derive", "demo", "freeflyer", "coop", "servo", "fleet"),
    "export",
}
CLAIMS: Mapping[str, Callable[[], bool]] = {  # each holds as long as heft has the limit
    "Running a robot": lambda: {c for c in app if not c.startswith("-")} == COMMANDS,
    "Impact, slip, grippers at work": lambda: (
        set(get_args(get_type_hints(ContactOptions)["kind"])) == {"surface", "point"}
        and set(get_args(get_type_hints(ContactOptions)["wrench"])) == {"unknown", "measured"}
    ),
    "Elastic links, backlash": lambda: (
        not refuses_option({"elastic": True})
        and refuses_option({"backlash": 1e-3})
        and {n for n in get_type_hints(JointOptions) if "play" in n or "flex" in n} == set()
    ),
    "Temperature": lambda: not any("temp" in kind for kind in KINDS),
    "Friction that depends on the position": friction_is_the_same_wherever_the_robot_stands,
    "Closed kinematic loops": lambda: refused(LOOP) and refused(FOUR_BARS),
    "Kinematic calibration": lambda: parameters() <= {"m", "h", "I", *TERMS},
    "Black-box fitting": lambda: refuses_option({"friction": "anything"}),
    "All link parameters of a humanoid": lambda: told_by_a_floating_base()[0] > 0,
}


def test_every_limit_that_is_stated_has_a_check_and_the_other_way_round() -> None:
    assert set(re.findall(r"^- \*\*(.*?)\.?\*\*", LIST, re.MULTILINE)) == set(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_heft_still_has_the_limit_that_is_stated(claim: str) -> None:
    assert CLAIMS[claim](), f"docs/limits.md: {claim} is no limit any more"


def test_other_tools_are_not_credited_with_what_heft_has() -> None:
    theirs = [line.split("|")[2] for line in PAGE.splitlines() if line.startswith("| ")][1:]
    said = " ".join(theirs)
    assert "particle" not in " ".join(names()) and "neural" not in " ".join(names())
    for command, word in (("excite", "excitation design"), ("bench", "estimators to compare")):
        assert command in COMMANDS and word not in said


def test_a_limit_that_heft_no_longer_has_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KINDS", (*KINDS, "temperature"))
    monkeypatch.setitem(globals(), "COMMANDS", COMMANDS - {"excite"})
    monkeypatch.setattr(Viscous, "column", lambda self, motion: motion.position)
    for claim in ("Temperature", "Running a robot", "Friction that depends on the position"):
        assert not CLAIMS[claim](), claim
