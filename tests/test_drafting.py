"""A draft of a column map is a map, and finds what names and numbers say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heft.recordings.columns import ColumnMap
from heft.recordings.formats.table import Table
from heft.recordings.map_draft import draft_map
from heft.recordings.recording import Recording

JOINTS = ("shoulder_pan_joint", "elbow_joint", "wrist_1_joint")


def table(names: Sequence[str], step: float = 0.001, size: float = 1.0) -> Table:
    """Return a log whose first column steps like a clock."""

    def read(wanted: Sequence[str]) -> Iterator[Any]:
        at = [names.index(n) for n in wanted]
        block = size * np.cos(np.arange(len(names)) + np.arange(50)[:, None])
        block[:, 0] = step * np.arange(50)
        yield block[:, at]

    return Table("run.csv", tuple(names), 50, read)


def three(pattern: str, first: int = 1) -> list[str]:
    return [pattern.format(k) for k in range(first, first + 3)]


def by_name(pattern: str) -> list[str]:
    return [pattern.format(j) for j in JOINTS]


@pytest.mark.parametrize(
    ("time", "q", "tau"),
    [
        ("stamp", three("pos_{}"), three("torque_{}")),
        ("Time [s]", three("q{}"), three("tau{}")),
        ("timestamp", three("actual_q_{}", 0), three("effort[{}]", 0)),
        ("time", three("JointPosition{}"), three("JointTorque{}")),
        ("t_sec", by_name("{}_position"), by_name("{}_effort")),
        ("clock", by_name("pos.{}"), by_name("trq.{}")),
        ("secs", three("theta.{}"), three("motor.moment.{}")),
    ],
)
def test_usual_names_are_found(time: str, q: list[str], tau: list[str]) -> None:
    names = [time, *q, *tau, "temperature"]
    text = draft_map(table(names), JOINTS)
    made = ColumnMap.from_dict(tomllib.loads(text))
    assert made.time == time
    assert made.time_unit == "s"
    found = {s.kind: (s.columns, s.joints) for s in made.signals}
    assert found == {"q": (tuple(q), JOINTS), "tau": (tuple(tau), JOINTS)}
    assert '"temperature"' in text


def test_what_was_measured_counts_for_more_than_what_was_asked_for() -> None:
    names = ["time", *three("target_q_{}"), *three("actual_q_{}"), *three("target_current_{}")]
    text = draft_map(table(names), JOINTS)
    made = {s.kind: s.columns for s in ColumnMap.from_dict(tomllib.loads(text)).signals}
    assert made["q"] == tuple(three("actual_q_{}"))
    assert "asked for" in text.partition("[current]")[2].partition("[v]")[0]


@pytest.mark.parametrize(
    ("step", "unit"), [(0.002, "s"), (2.0, "ms"), (2000.0, "us"), (2e6, "ns"), (0.01, "s")]
)
def test_the_unit_of_time_is_that_in_which_a_robots_clock_steps(step: float, unit: str) -> None:
    text = draft_map(table(["time", *three("q{}")], step), JOINTS)
    assert ColumnMap.from_dict(tomllib.loads(text)).time_unit == unit


@pytest.mark.parametrize(
    ("pattern", "size", "unit"),
    [
        ("q{}_deg", 1.0, "deg"),
        ("q{} [rad]", 500.0, "rad"),
        ("q{}", 90.0, "deg"),
        ("q{}", 3.0, "rad"),
    ],
)
def test_units_are_those_of_the_names_and_else_of_the_numbers(
    pattern: str, size: float, unit: str
) -> None:
    text = draft_map(table(["time", *three(pattern)], size=size), JOINTS)
    (made,) = ColumnMap.from_dict(tomllib.loads(text)).signals
    assert made.unit == unit
    assert ("CHECK" in text.partition("[q]")[2].splitlines()[3]) == (pattern == "q{}")


def test_too_few_columns_are_not_given_to_joints() -> None:
    text = draft_map(table(["time", "q1", "q2", "tau1", "tau2", "tau3", "tau4"]), JOINTS)
    assert not ColumnMap.from_dict(tomllib.loads(text)).signals


@pytest.mark.parametrize(
    ("force", "torque", "quat", "pos", "unit"),
    [
        ("F{}", "M{}", "tcp_q{}", "tcp_{}_mm", "mm"),
        ("force_{}", "torque_{}", "quat_{}", "pos_{}", "m"),
        ("wrench.force.{}", "wrench.torque.{}", "pose.orientation.{}", "pose.position.{}", "m"),
    ],
)
def test_a_wrench_and_its_pose_are_found_without_a_robot(
    force: str, torque: str, quat: str, pos: str, unit: str
) -> None:
    kinds = {"force": force, "torque": torque, "pos": pos}
    names = {kind: tuple(pattern.format(x) for x in "xyz") for kind, pattern in kinds.items()}
    names["quat"] = tuple(quat.format(x) for x in "wxyz")  # and logged with w last
    logged = [*names["force"], *names["torque"], *names["quat"][1:], names["quat"][0]]
    text = draft_map(table(["stamp_ms", *logged, *names["pos"], "mode"]), ())
    made = ColumnMap.from_dict(tomllib.loads(text))
    assert {s.kind: s.columns for s in made.signals} == names
    assert next(s.unit for s in made.signals if s.kind == "pos") == unit
    assert "joints" not in text and '"mode"' in text


def test_two_axes_are_no_wrench() -> None:
    assert not ColumnMap.from_dict(tomllib.loads(draft_map(table(["t", "Fx", "Fy"]), ()))).signals


def test_a_joint_without_a_column_is_named() -> None:
    text = draft_map(table(["time", *(f"{j}_position" for j in JOINTS[:-1])]), JOINTS)
    assert f'no column is named like that of "{JOINTS[-1]}"' in text


def test_a_draft_reads_the_log_that_it_was_made_for() -> None:
    log = table(["time", *three("pos_{}"), *three("torque_{}")])
    made = ColumnMap.from_dict(tomllib.loads(draft_map(log, JOINTS)))
    recording = Recording.of_table(log, made)
    assert recording.signals == tuple(f"{kind}.{j}" for kind in ("q", "tau") for j in JOINTS)


@pytest.mark.parametrize(("speed", "step"), [(1.0, 0.02), (0.0, 0.001)])
def test_a_step_that_no_column_tells_is_that_of_positions_and_velocities(
    speed: float, step: float
) -> None:
    t = 0.02 * np.arange(500)
    q, v = np.array([np.sin(t), np.cos(2.0 * t)]), np.array([np.cos(t), -2.0 * np.sin(2.0 * t)])
    noise = 1e-4 * np.random.default_rng(0).normal(size=(2, 500))
    names = ("qpos_0", "qpos_1", "qvel_0", "qvel_1")
    columns = dict(zip(names, np.vstack([q, speed * v + noise]), strict=True))
    log = Table(
        "run.csv", names, 500, lambda wanted: iter([np.array([columns[n] for n in wanted]).T])
    )
    said = tomllib.loads(draft_map(log, ["first", "second"]))
    assert said["time"]["step"] == pytest.approx(step, rel=0.01)


@given(
    names=st.lists(st.text(max_size=12), min_size=1, max_size=8, unique=True),
    joints=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True),
)
@settings(max_examples=60, deadline=None)
def test_a_draft_of_whatever_names_is_a_map(names: list[str], joints: list[str]) -> None:
    ColumnMap.from_dict(tomllib.loads(draft_map(table(names), joints)))
    ColumnMap.from_dict(tomllib.loads(draft_map(table(names), ())))
