"""Laws of commanded motions in ROS's own message."""

import json
from pathlib import Path

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from heft.recordings import JointTrajectory


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
