"""Laws of commanded motions in ROS's own message."""

import json
from pathlib import Path

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from heft.errors import InvalidRecording
from heft.recordings import JointTrajectory, Recording, write_table


@pytest.fixture
def motion() -> JointTrajectory:
    time = np.linspace(0.0, 1.0, 11)
    q = np.stack([np.sin(time), np.cos(time)], axis=1)
    v = np.stack([np.cos(time), -np.sin(time)], axis=1)
    return JointTrajectory(("shoulder", "elbow"), time, q, v, -q)


def test_the_message_is_read_back_by_another_library(
    motion: JointTrajectory, tmp_path: Path
) -> None:
    from mcap.reader import make_reader

    motion.write_mcap(tmp_path / "motion.mcap")
    with (tmp_path / "motion.mcap").open("rb") as file:
        ((schema, channel, message),) = make_reader(file, validate_crcs=True).iter_messages()
    assert schema is not None
    assert (schema.name, channel.topic) == (
        "trajectory_msgs/msg/JointTrajectory",
        "/joint_trajectory",
    )
    found = get_typestore(Stores.ROS2_JAZZY).deserialize_cdr(message.data, schema.name)
    assert tuple(found.joint_names) == motion.joints
    for k, point in enumerate(found.points):
        assert np.array_equal(point.positions, motion.position[k])
        assert np.array_equal(point.velocities, motion.velocity[k])
        assert np.array_equal(point.accelerations, motion.acceleration[k])
        stamp = point.time_from_start
        assert stamp.sec + 1e-9 * stamp.nanosec == pytest.approx(motion.time[k], abs=1e-9)


def test_an_mcap_file_is_read_again(motion: JointTrajectory, tmp_path: Path) -> None:
    motion.write_mcap(tmp_path / "motion.mcap")
    found = JointTrajectory.read_mcap(tmp_path / "motion.mcap")
    assert found is not None and found.joints == motion.joints
    assert found.time == pytest.approx(motion.time, abs=1e-9)
    for key in ("position", "velocity", "acceleration"):
        assert np.array_equal(getattr(found, key), getattr(motion, key))
    plain = JointTrajectory(motion.joints, motion.time, motion.position)
    plain.write_mcap(tmp_path / "plain.mcap")
    again = JointTrajectory.read_mcap(tmp_path / "plain.mcap")
    assert again is not None and again.velocity is None and again.acceleration is None


def test_a_log_of_joint_states_is_no_commanded_motion(tmp_path: Path) -> None:
    time = np.linspace(0.0, 1.0, 11)
    log = Recording.from_arrays(time, "log", q={"elbow": np.sin(time)})
    write_table(log.canonical(), tmp_path / "log.mcap")
    assert JointTrajectory.read_mcap(tmp_path / "log.mcap") is None


def test_a_message_that_contradicts_itself_is_refused(
    motion: JointTrajectory, tmp_path: Path
) -> None:
    short = JointTrajectory(("one", "two", "three"), motion.time, motion.position)
    short.write_mcap(tmp_path / "short.mcap")
    with pytest.raises(InvalidRecording, match="cannot be read"):
        JointTrajectory.read_mcap(tmp_path / "short.mcap")
    motion.write_mcap(tmp_path / "cut.mcap")
    whole = (tmp_path / "cut.mcap").read_bytes()
    (tmp_path / "cut.mcap").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidRecording):
        JointTrajectory.read_mcap(tmp_path / "cut.mcap")


def test_json_holds_the_same_numbers(motion: JointTrajectory) -> None:
    found = json.loads(motion.to_json())
    assert found["joint_names"] == list(motion.joints)
    assert np.array_equal([p["positions"] for p in found["points"]], motion.position)
    assert np.array_equal([p["accelerations"] for p in found["points"]], motion.acceleration)
    assert found["points"][10]["time_from_start"] == {"sec": 1, "nanosec": 0}


def test_columns_are_those_of_a_canonical_log(motion: JointTrajectory) -> None:
    columns = motion.columns()
    assert list(columns) == [
        "t", "q.shoulder", "q.elbow", "v.shoulder", "v.elbow", "a.shoulder", "a.elbow",
    ]  # fmt: skip
    assert np.array_equal(columns["v.elbow"], motion.velocity[:, 1])
