"""Frames move as pinocchio says, and quaternions turn as their matrices do."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pinocchio
import pytest

from heft.dynamics import kinematics
from heft.errors import InvalidSetting
from heft.models import Robot
from tests.robots import load, path_of

FILES = (
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "kinova_description/robots/kinova.urdf",
    "solo_description/robots/solo12.urdf",
    "tiago_description/robots/tiago_no_hand.urdf",
    "ur_description/urdf/ur10_robot.urdf",
)


@pytest.mark.parametrize("file", FILES)
def test_frames_move_as_pinocchio_says(file: str) -> None:
    robot, path = load(file), path_of(file)
    model = pinocchio.buildModelFromUrdf(str(path))
    data = model.createData()
    rng = np.random.default_rng(0)
    count = 5
    position, velocity = rng.normal(size=(2, count, len(robot.joints)))
    moving = [k for k in robot.links if k.body >= 0]
    for link in (moving[0], moving[len(moving) // 2], moving[-1]):
        found = kinematics.frame_motion(robot.tree, link, position, velocity)
        frame = model.getFrameId(link.name)
        for k in range(count):
            q, v = pinocchio.neutral(model), np.zeros(model.nv)
            for c, joint in enumerate(robot.joints):
                index = model.getJointId(joint)
                at, rate = model.joints[index].idx_q, model.joints[index].idx_v
                v[rate] = velocity[k, c]
                if model.joints[index].nq == 2:  # without limits: cosine and sine
                    q[at : at + 2] = np.cos(position[k, c]), np.sin(position[k, c])
                else:
                    q[at] = position[k, c]
            pinocchio.forwardKinematics(model, data, q, v)
            pinocchio.updateFramePlacements(model, data)
            speed = pinocchio.getFrameVelocity(model, data, frame, pinocchio.LOCAL)
            np.testing.assert_allclose(found.rotation[k], data.oMf[frame].rotation, atol=1e-12)
            np.testing.assert_allclose(found.velocity[k], speed.linear, atol=1e-11)
            np.testing.assert_allclose(found.angular_velocity[k], speed.angular, atol=1e-11)


@pytest.mark.parametrize("file", FILES)
def test_a_body_has_the_name_of_the_link_that_its_joint_moves(file: str) -> None:
    robot = load(file)
    root = ET.fromstring(robot.source)
    child = {j.get("name"): e.get("link") for j in root.iter("joint") for e in j.iter("child")}
    moved = [j for j in root.iter("joint") if j.get("type") not in (None, "fixed")]
    assert set(robot.tree.names) == {child[j.get("name")] for j in moved}


def test_what_mimics_a_mimic_follows_the_first() -> None:
    joints = "".join(
        f'<link name="l{k}"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" '
        f'iyz="0" izz="1"/></inertial></link><joint name="j{k}" type="continuous"><parent '
        f'link="{f"l{k - 1}" if k else "base"}"/><child link="l{k}"/><axis xyz="0 0 1"/>{said}'
        "</joint>"
        for k, said in enumerate(
            (
                "",
                '<mimic joint="j0" multiplier="2" offset="0.5"/>',
                '<mimic joint="j1" multiplier="-3" offset="0.1"/>',
            )
        )
    )
    tree = Robot.from_text(f'<robot name="r"><link name="base"/>{joints}</robot>'.encode()).tree
    assert tree.channel.tolist() == [0, 0, 0]
    assert tree.multiplier == pytest.approx([1.0, 2.0, -6.0])
    assert tree.offset == pytest.approx([0.0, 0.5, -1.4])


def test_an_unknown_frame_is_refused_with_the_nearest() -> None:
    robot = load(FILES[-1])
    name = robot.links[-1].name
    with pytest.raises(InvalidSetting, match=f"did you mean '{name}'"):
        robot.link(name + "x")


@pytest.mark.parametrize("file", FILES)
def test_poses_of_bodies_are_those_of_their_frames(file: str) -> None:
    robot = load(file)
    position = np.random.default_rng(6).normal(size=(4, len(robot.channels)))
    poses = kinematics.body_poses(robot.tree, position)
    np.testing.assert_array_equal(poses[2], kinematics.body_poses(robot.tree, position[2]))
    np.testing.assert_array_equal(poses[..., 3, :], np.broadcast_to([0, 0, 0, 1], poses.shape[:-1]))
    for link in robot.links:
        if link.body < 0:
            continue
        found = kinematics.frame_motion(robot.tree, link, position, np.zeros_like(position))
        np.testing.assert_array_equal(found.rotation, poses[:, link.body, :3, :3] @ link.rotation)
