"""Limits of motion: where each comes from, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.models import HalfSpace, Options, Robot, motion_limits
from heft.models.shapes import shapes_of

from .robots import path_of

PANDA = path_of("panda_description/urdf/panda.urdf")
KINOVA = path_of("kinova_description/robots/kinova.urdf")


def options(**motion: Any) -> Options:
    return Options.from_dict({"motion": motion}, "with.toml")


def test_limits_are_the_model_files_less_margins() -> None:
    margin = {"position": 0.1, "velocity": 0.2, "effort": 0.5}
    limits = motion_limits(Robot.from_file(PANDA, options(margin=margin)))
    k = limits.joints.index("panda_joint4")
    room = 3.0718 - 0.0698
    assert limits.lower[k] == pytest.approx(-3.0718 + 0.1 * room)
    assert limits.upper[k] == pytest.approx(-0.0698 - 0.1 * room)
    assert limits.velocity[k] == pytest.approx(0.8 * 2.175)
    assert limits.effort[k] == pytest.approx(43.5)
    assert np.isinf(limits.power).all() and np.isinf(limits.frequency)


def test_what_the_table_says_counts_and_defaults_are_told() -> None:
    said = {"position": [-1.0, -0.5], "acceleration": 7.0, "jerk": 50.0, "power": 20.0}
    robot = Robot.from_file(PANDA, options(joint={"panda_joint4": said}, frequency=2.0))
    limits = motion_limits(robot)
    k = limits.joints.index("panda_joint4")
    assert (limits.lower[k], limits.upper[k]) == (-1.0, -0.5)
    assert (limits.acceleration[k], limits.jerk[k]) == (7.0, 50.0)
    assert limits.power[k] == pytest.approx(19.0) and limits.frequency == 2.0
    other = np.arange(len(limits.joints)) != k
    assert np.allclose(limits.acceleration[other], limits.velocity[other] / 0.25)
    assert np.allclose(limits.jerk[other], limits.acceleration[other] / 0.05)
    assert len(limits.notes) == 2 and all("panda_joint1" in note for note in limits.notes)
    assert not any("panda_joint4" in note for note in limits.notes)


def test_joints_that_turn_without_end_and_joints_held_still() -> None:
    limits = motion_limits(Robot.from_file(KINOVA))
    k = limits.joints.index("j2s6s200_joint_1")
    assert (limits.lower[k], limits.upper[k]) == (-np.pi, np.pi)
    assert "without end" in limits.notes[0]
    held = Options.from_dict({"joint": {"j2s6s200_joint_1": {"position": 0.3}}})
    limits = motion_limits(Robot.from_file(KINOVA, held))
    assert limits.held.sum() == 1 and limits.lower[k] == limits.upper[k] == 0.3
    assert limits.velocity[k] == 0.0


def test_a_joint_keeps_the_limits_of_those_that_mimic_it() -> None:
    text = PANDA.read_text().replace(
        '<mimic joint="panda_finger_joint1"', '<mimic joint="panda_finger_joint1" multiplier="2.0"'
    )
    plain = motion_limits(Robot.from_file(PANDA))
    twice = motion_limits(Robot.from_text(text.encode()))
    k = plain.joints.index("panda_finger_joint1")
    assert twice.upper[k] == pytest.approx(plain.upper[k] / 2.0)
    assert twice.velocity[k] == pytest.approx(plain.velocity[k] / 2.0)


def test_a_table_comes_back_as_it_was() -> None:
    table = {
        "joint": {"a": {"position": [0.0, 1.0], "jerk": 3.0}},
        "margin": {"effort": 0.2},
        "frequency": 3.0,
        "floor": 0.0,
        "planes": [{"normal": [0.0, 0.0, 2.0], "offset": 1.0}],
        "keep_in": [[-1.0, 1.0], [-1.0, 1.0], [0.0, 2.0]],
        "keep_out": [[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]],
        "ignore": [["a", "b"]],
        "tool": [{"link": "a", "start": [0.0] * 3, "end": [0.0, 0.0, 1.0], "radius": 0.1}],
        "packages": ["meshes"],
    }
    said = options(**table)
    assert Options.from_dict(said.to_dict()).motion == said.motion
    assert said.motion.planes == (HalfSpace((0.0, 0.0, 1.0), 0.5),)
    assert len(said.motion.half_spaces) == len(said.motion.half_space_names) == 8
    assert "motion" not in Options().to_dict()


BAD = {
    "unknown key": ({"flor": 0.0}, "floor"),
    "negative limit": ({"joint": {"a": {"jerk": -1.0}}}, "positive"),
    "no direction": ({"planes": [{"normal": [0, 0, 0], "offset": 1}]}, "no direction"),
    "a plane without offset": ({"planes": [{"normal": [0, 0, 1]}]}, "offset"),
    "no room": ({"keep_out": [[[0, 0], [0, 1], [0, 1]]]}, "no room"),
    "half a pair": ({"ignore": [["a"]]}, "pairs"),
    "all of the limit": ({"margin": {"effort": 1.0}}, "share"),
    "a tool without a link": ({"tool": [{"radius": 1.0}]}, "link"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_refused_with_its_place(case: str) -> None:
    table, says = BAD[case]
    with pytest.raises(InvalidSetting, match=says) as found:
        options(**table)
    assert "with.toml, [motion" in str(found.value)


def test_joints_that_are_not_there_or_cannot_move_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="panda_joint4"):
        motion_limits(Robot.from_file(PANDA, options(joint={"panda_joint44": {"jerk": 1.0}})))
    text = PANDA.read_text().replace('velocity="2.175"', 'velocity="0"').encode()
    with pytest.raises(InvalidSetting, match="velocity"):
        motion_limits(Robot.from_text(text))
    full = {"panda_joint1": {"position": [1.0, 1.0]}}
    with pytest.raises(InvalidSetting, match="no room"):
        motion_limits(Robot.from_file(PANDA, options(joint=full)))


MJCF = """<mujoco>
  <compiler angle="degree"/>
  <default>
    <default class="strong"><joint actuatorfrcrange="-40 50" range="-90 120"/></default>
    <motor ctrlrange="-2 3"/>
  </default>
  <worldbody><geom type="plane" size="1 1 1"/><body><joint name="turn" class="strong"/>
    <geom size="0.1"/><geom type="box" size="1 1 1" contype="0" conaffinity="0"/>
    <body pos="0.3 0 0"><joint name="slide" type="slide" range="-0.1 0.2"/>
      <geom type="box" size="0.1 0.05 0.02" pos="0 0.1 0" euler="10 20 30"/>
      <geom type="ellipsoid" size="0.1 0.05 0.02"/>
      <body pos="0.3 0 0"><joint name="free" range="-1 1" limited="false"/>
        <frame pos="0.1 0.2 0.3" euler="5 0 40">
        <geom type="cylinder" fromto="0 0 0 0.1 0.2 0.3" size="0.04"/></frame>
        <geom type="capsule" size="0.04 0.1" pos="0 0 0.1"/>
  </body></body></body></worldbody>
  <actuator><motor joint="slide" gear="5"/><motor joint="turn" gear="-30"/>
    <position joint="free" forcerange="-7 6" kp="10"/></actuator>
</mujoco>"""


def test_limits_of_an_mjcf_are_those_of_mujoco() -> None:
    model = mujoco.MjModel.from_xml_string(MJCF)
    speeds = {name: {"velocity": 1.0} for name in ("turn", "slide", "free")}
    robot = Robot.from_text(MJCF.encode(), options(joint=speeds))
    found = motion_limits(robot)
    for k, name in enumerate(found.joints):
        joint = model.joint(name)
        limited = bool(model.jnt_limited[joint.id])
        expected = joint.range if limited else (-math.pi, math.pi)
        assert (found.lower[k], found.upper[k]) == pytest.approx(tuple(expected), rel=1e-6)
    # A margin of 5 % is taken off; the least of a joint's own limit and its motors' together.
    stated = dict(zip(found.joints, found.effort / 0.95, strict=True))
    assert stated == pytest.approx({"turn": 40.0, "slide": 10.0, "free": 6.0})


def test_geoms_that_can_touch_reach_as_far_as_those_of_mujoco() -> None:
    model = mujoco.MjModel.from_xml_string(MJCF)
    robot = Robot.from_text(MJCF.encode())
    found, notes = shapes_of(robot.form, robot.source, None, ())
    assert any("plane" in n for n in notes)
    ways = np.random.default_rng(0).normal(size=(50, 3))
    ways /= np.linalg.norm(ways, axis=1)[:, None]
    seen = [0] * model.nbody
    for g in range(model.ngeom):
        body = int(model.geom_bodyid[g])
        if body == 0 or not (model.geom_contype[g] or model.geom_conaffinity[g]):
            continue
        surface = found[f"body_{body}"][seen[body]]
        seen[body] += 1
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[g])
        own = ways @ turn.reshape(3, 3)
        size = model.geom_size[g]
        across = np.hypot(own[:, 0], own[:, 1])
        reach = {
            mujoco.mjtGeom.mjGEOM_SPHERE: size[0],
            mujoco.mjtGeom.mjGEOM_BOX: np.abs(own) @ size,
            mujoco.mjtGeom.mjGEOM_ELLIPSOID: np.linalg.norm(own * size, axis=1),
            mujoco.mjtGeom.mjGEOM_CYLINDER: size[0] * across + size[1] * np.abs(own[:, 2]),
            mujoco.mjtGeom.mjGEOM_CAPSULE: size[0] + size[1] * np.abs(own[:, 2]),
        }[mujoco.mjtGeom(model.geom_type[g])]
        corners, radius = surface.corners()
        its = (ways @ corners.T + radius).max(axis=1) - ways @ model.geom_pos[g]
        assert np.all(its >= reach - 1e-6) and np.all(its <= 1.02 * reach + 1e-6)
    assert seen == [0, *(len(found[f"body_{b}"]) for b in range(1, model.nbody))]
