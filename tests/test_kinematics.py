"""Frames move as pinocchio says, and quaternions turn as their matrices do."""

from __future__ import annotations

import numpy as np
import pinocchio
import pytest

from heft.dynamics import kinematics
from heft.errors import InvalidSetting
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


def test_an_unknown_frame_is_refused_with_the_nearest() -> None:
    robot = load(FILES[-1])
    name = robot.links[-1].name
    with pytest.raises(InvalidSetting, match=f"did you mean '{name}'"):
        robot.link(name + "x")


def test_quaternions_are_the_rotations_of_pinocchio() -> None:
    rng = np.random.default_rng(1)
    for quaternion in rng.normal(size=(10, 4)):
        unit = quaternion / np.linalg.norm(quaternion)
        wanted = pinocchio.Quaternion(*unit).matrix()
        found = kinematics.quaternion_rotation(quaternion[None])[0]
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_turning_is_the_rate_of_the_rotation() -> None:
    rng = np.random.default_rng(2)
    quaternion, rate = rng.normal(size=(2, 20, 4))
    step = 1e-6
    R, ahead, back = (
        kinematics.quaternion_rotation(quaternion + s * rate) for s in (0.0, step, -step)
    )
    skews = np.swapaxes(R, 1, 2) @ (ahead - back) / (2.0 * step)
    wanted = np.stack([skews[:, 2, 1], skews[:, 0, 2], skews[:, 1, 0]], 1)
    np.testing.assert_allclose(kinematics.turning(quaternion, rate), wanted, atol=1e-6)


def test_signs_of_quaternions_never_jump() -> None:
    t = np.linspace(0.0, 12.0, 500)
    smooth = np.stack([np.cos(t / 2), np.sin(t / 2), 0.1 * t, 0.2 * np.ones_like(t)], 1)
    signs = np.random.default_rng(3).choice([-1.0, 1.0], len(t))
    found = kinematics.continuous(smooth * signs[:, None])
    np.testing.assert_allclose(found, smooth * signs[0], atol=0)
