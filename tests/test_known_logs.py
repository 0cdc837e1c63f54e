"""Logs of robots' own tools are recognised by the names of their columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heft.applications import demo
from heft.errors import InvalidRecording, MissingSignal
from heft.models.robot import Robot
from heft.plants import effort_signals
from heft.recordings.columns import VENDORS, recognise
from heft.recordings.recording import Recording

UR = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)


def save(path: Path, header: list[str], time: np.ndarray, separator: str, joiner: str = "") -> Path:
    """Save columns whose values tell their place: the k-th column is k + 0.5."""
    rows = [[f"{t}", *(f"{k + 0.5}" for k in range(1, len(header)))] for t in time]
    lines = [(joiner or separator).join(header), *(separator.join(r) for r in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def rtde(path: Path, separator: str) -> Path:
    names = ("actual_q", "actual_qd", "actual_current", "target_moment", "actual_TCP_force")
    header = ["timestamp", *(f"{n}_{k}" for n in names for k in range(6))]
    return save(path, header, 1000.0 + 0.002 * np.arange(10), separator)


def franka(path: Path, prefix: str = "state.", step: float = 1.0, style: str = "[{}]") -> Path:
    names = ("q", "q_d", "dq", "dq_d", "tau_J", "tau_ext_hat_filtered")
    header = ["time", "success_rate"]
    header += [f"{prefix}{n}{style.format(k)}" for n in names for k in range(7)]
    header += [f"cmd.q_d[{k}]" for k in range(7)]
    return save(path, header, 5.0 + step * np.arange(10), ",", ", ")


@pytest.mark.parametrize("separator", [" ", ",", "\t"])
def test_a_recording_of_universal_robots_needs_no_map(separator: str, tmp_path: Path) -> None:
    recording = Recording.open(rtde(tmp_path / "run.csv", separator))
    names = [f"{kind}.{j}" for kind in ("q", "v", "current") for j in UR]
    assert set(recording.signals) == set(names)  # a target is no measurement
    (block,) = recording.blocks(names)
    assert block.values[0].tolist() == [k + 0.5 for k in range(1, 19)]
    assert np.array_equal(block.time, np.round(1000.0 + 0.002 * np.arange(10), 3))
    assert any("gain" in note for note in recording.notes)


@pytest.mark.parametrize("prefix", ["state.", ""])
@pytest.mark.parametrize("style", ["[{}]", "_{}"])
@pytest.mark.parametrize(("step", "unit"), [(1.0, 1e-3), (0.001, 1.0)])
def test_a_log_of_libfranka_needs_no_map(
    prefix: str, style: str, step: float, unit: float, tmp_path: Path
) -> None:
    own = prefix == "state." and style == "[{}]"
    if own and unit == 1.0:
        return  # libfranka itself always writes milliseconds
    recording = Recording.open(franka(tmp_path / "run.csv", prefix, step, style))
    names = [f"{kind}.panda_joint{k}" for kind in ("q", "v", "tau") for k in range(1, 8)]
    assert set(recording.signals) == set(names)
    (block,) = recording.blocks(names)
    places = [2 + k for k in range(7)] + [16 + k for k in range(7)] + [30 + k for k in range(7)]
    assert block.values[0].tolist() == [p + 0.5 for p in places]
    assert block.time == pytest.approx(unit * (5.0 + step * np.arange(10)), rel=1e-12)


def test_a_robot_with_other_names_takes_its_joints_in_the_models_order(tmp_path: Path) -> None:
    path = rtde(tmp_path / "run.csv", ",")
    joints = [f"arm_{k}" for k in range(6)]
    recording = Recording.open(path, joints=joints)
    assert recording.signals[:6] == tuple(f"q.arm_{k}" for k in range(6))
    assert any("model's order" in note for note in recording.notes)
    # Usual names count for more than places.
    turned = Recording.open(path, joints=("gripper", *reversed(UR)))
    assert turned.signals[:6] == tuple(f"q.{j}" for j in UR)


def test_a_robot_with_another_number_of_joints_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecording, match="logs 6 joints by number, the robot has 7"):
        Recording.open(rtde(tmp_path / "run.csv", ","), joints=[f"arm_{k}" for k in range(7)])


def test_columns_that_nearly_fit_are_nobodys(tmp_path: Path) -> None:
    for known in VENDORS:
        pattern = known.signals[0][1]
        columns = [known.time, *(pattern.format(k) for k in range(len(known.joints)))]
        assert recognise(columns) is not None
        assert all(recognise(columns[:k] + columns[k + 1 :]) is None for k in range(len(columns)))


def test_all_gains_that_are_missing_are_named_at_once(tmp_path: Path) -> None:
    robot = Robot.from_urdf(demo.FOLDER / "arm.urdf")
    recording = Recording.open(rtde(tmp_path / "run.csv", " "), joints=robot.joints)
    with pytest.raises(MissingSignal, match=", ".join(robot.joints)):
        effort_signals(robot, recording)


def test_a_recording_without_currents_is_told_that_they_would_do(tmp_path: Path) -> None:
    robot = Robot.from_urdf(demo.FOLDER / "arm.urdf")
    header = ["timestamp", *(f"actual_q_{k}" for k in range(6))]
    path = save(tmp_path / "run.csv", header, 0.002 * np.arange(10), ",")
    recording = Recording.open(path, joints=robot.joints)
    with pytest.raises(MissingSignal, match=f"or current.{robot.joints[0]} and its gain"):
        effort_signals(robot, recording)


def test_a_canonical_log_is_taken_at_its_word(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("t,q.a," + ",".join(f"q_{k}" for k in range(7)) + ",time\n" + "0," * 9 + "0\n")
    assert Recording.open(path).signals == ("q.a",)


def test_a_log_that_nobody_knows_is_told_of_the_draft(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("stamp_ms,x\n0,1\n")
    with pytest.raises(MissingSignal) as caught:
        Recording.open(path)
    assert "--draft map.toml" in str(caught.value)
    assert "'stamp_ms' may be the time" in str(caught.value)
    path.write_text("t,q.a\n0,1\n")
    with pytest.raises(MissingSignal) as caught:
        Recording.open(path).require("q.elbow", "says where joint 'elbow' is")
    assert "--draft map.toml" in str(caught.value)
