"""Bodies, joints, links of URDFs are those that pinocchio reads, of every robot and at random."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Literal

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heft.dynamics import FREE, PRISMATIC
from heft.errors import InvalidModel
from heft.models import SensorOptions
from heft.models.options import Options
from heft.models.robot import Robot

from . import robots

Base = Literal["fixed", "free"]
TOLERANCE = 1e-12
MOVING = ("revolute", "continuous", "prismatic")
NAMES = ("a", "B", "j10", "j2", "ä", "_", "-", "z9", "Z", "j", "é", "0", "joint 1", "ﬀ", "😀", "b")
ANGLES = (0.0, np.pi / 2.0, -np.pi / 2.0, np.pi, 1.5707963, 0.3, -2.0)
AXES = (
    "1 0 0",
    "0 1 0",
    "0 0 1",
    "0 0 -1",
    "0 2 0",
    "1 1e-13 0",
    "1 1e-11 0",
    "2e-8 0 0",
    "1 -2 3",
)


def are_those_of_pinocchio(robot: Robot, cuts: tuple[str, ...] = ()) -> None:
    """Assert that bodies, joints and links are where pinocchio has them, in its order.

    Two links that a wrench sensor cuts apart are to it those of a joint that floats.
    """
    root, tree = ET.fromstring(robot.source), robot.tree
    for joint in (j for j in root.iter("joint") if j.get("name") in cuts):
        joint.set("type", "floating")
    base = [pin.JointModelFreeFlyer()] if tree.free_base else []
    model = pin.buildModelFromXML(ET.tostring(root, "unicode"), *base, False)
    names = list(model.names)[1:]
    followers = robots.mimics(robot.source)
    alone = [n for n in names[tree.free_base :] if n not in cuts and n not in followers]
    assert list(robot.joints) == alone
    assert tree.parent.tolist() == [p - 1 for p in list(model.parents)[1:]]

    for b, joint in enumerate(list(model.joints)[1:]):
        place = model.jointPlacements[b + 1]
        np.testing.assert_allclose(tree.rotation[b], place.rotation, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(tree.translation[b], place.translation, rtol=0, atol=TOLERANCE)
        if names[b] in cuts:
            assert tree.multiplier[b] == 0.0
        elif tree.free_base and b == 0:
            assert tree.kind[b] == FREE
        else:
            data = joint.createData()
            joint.calc(data, pin.neutral(model)[joint.idx_q : joint.idx_q + joint.nq])
            slides, zero = tree.kind[b] == PRISMATIC, np.zeros(3)
            motion = [tree.axis[b], zero] if slides else [zero, tree.axis[b]]
            wanted = np.asarray(data.S).ravel()
            np.testing.assert_allclose(np.concatenate(motion), wanted, rtol=0, atol=TOLERANCE)
            master, multiplier, offset = followers.get(names[b], (names[b], 1.0, 0.0))
            assert robot.channels[tree.channel[b]] == master
            assert (tree.multiplier[b], tree.offset[b]) == pytest.approx((multiplier, offset))

    for link in robot.links:
        frame = model.frames[model.getFrameId(link.name, pin.FrameType.BODY)]
        assert link.body == frame.parentJoint - 1
        place = frame.placement
        np.testing.assert_allclose(link.rotation, place.rotation, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(link.translation, place.translation, rtol=0, atol=TOLERANCE)
    ten = np.concatenate([i.toDynamicParameters() for i in list(model.inertias)[1:]])
    np.testing.assert_allclose(
        robot.written_bodies(), ten, rtol=0, atol=TOLERANCE * max(1.0, np.abs(ten).max())
    )


@pytest.mark.parametrize(
    ("file", "base"),
    [(f, "fixed") for f in robots.loadable()]
    + [(f, "free") for f in robots.readable() if f not in robots.REFUSED],
)
def test_every_robot_is_read_as_pinocchio_reads_it(file: str, base: Base) -> None:
    are_those_of_pinocchio(Robot.from_urdf(robots.path_of(file), Options(base=base)))


def pose(rng: np.random.Generator) -> str:
    """Return an `<origin>` with both, one or none of its attributes, or none at all."""
    xyz = f' xyz="{" ".join(map(repr, rng.normal(size=3).tolist()))}"'
    rpy = f' rpy="{" ".join(map(repr, rng.choice(ANGLES, 3).tolist()))}"'
    return str(rng.choice([f"<origin{xyz}{rpy}/>", f"<origin{xyz}/>", f"<origin{rpy}/>", ""]))


def drawn(rng: np.random.Generator) -> bytes:
    """Return a URDF of a random tree, its elements in any order and some of them left out."""
    count = int(rng.integers(2, len(NAMES)))
    links, joints = rng.permutation(NAMES)[:count], rng.permutation(NAMES)
    parts = []
    for name in links:
        xx, yy, zz, mass = rng.uniform(1.0, 1.5, 4)
        inertial = (
            f'<inertial>{pose(rng)}<mass value="{mass}"/><inertia ixx="{xx}" iyy="{yy}" '
            f'izz="{zz}" ixy="0.1" ixz="0" iyz="-0.1"/></inertial>'
        )
        parts.append(f'<link name="{name}">{inertial if rng.random() < 0.7 else ""}</link>')
    for k in range(1, count):
        axis = f'<axis xyz="{rng.choice(AXES)}"/>' if rng.random() < 0.9 else ""
        limit = '<limit lower="-1" upper="2" effort="3" velocity="4"/>'
        ends = f'<parent link="{links[rng.integers(k)]}"/>', f'<child link="{links[k]}"/>'
        inside = "".join(rng.permutation([pose(rng), axis, limit, *ends]))
        kind = rng.choice([*MOVING, "fixed", "fixed"])
        parts.append(f'<joint name="{joints[k]}" type="{kind}">{inside}</joint>')
    return f'<robot name="drawn">{"".join(rng.permutation(parts))}</robot>'.encode()


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), base=st.sampled_from(["fixed", "free"]))
def test_a_random_tree_is_read_as_pinocchio_reads_it(seed: int, base: Base) -> None:
    rng = np.random.default_rng(seed)
    text = drawn(rng)
    joints = list(ET.fromstring(text).iter("joint"))
    held = [j for j in joints if j.get("type") == "fixed" and rng.random() < 0.3]
    sensors = {
        f"sensor {k}": SensorOptions(child.get("link", ""))
        for k, joint in enumerate(held)
        if (child := joint.find("child")) is not None
    }
    options = Options(base=base, sensor=sensors or None)
    if base == "fixed" and not any(j.get("type") in MOVING for j in joints):
        with pytest.raises(InvalidModel, match="no moving joint"):
            Robot.from_urdf_text(text, options)
        return
    cuts = tuple(j.get("name", "") for j in held)
    are_those_of_pinocchio(Robot.from_urdf_text(text, options), cuts)


def test_a_joint_may_be_called_as_pinocchio_calls_the_base() -> None:
    text = robots.PLANAR_ARM.replace(b'"shoulder"', b'"root_joint"')
    assert Robot.from_urdf_text(text, Options(base="free")).tree.names == ("base", "upper", "lower")


def test_a_chain_of_a_thousand_links_is_read() -> None:
    links = "".join(f'<link name="l{k}"/>' for k in range(1000))
    ends = (f'<parent link="l{k}"/><child link="l{k + 1}"/>' for k in range(999))
    joints = "".join(
        f'<joint name="j{k}" type="continuous">{end}</joint>' for k, end in enumerate(ends)
    )
    robot = Robot.from_urdf_text(f'<robot name="chain">{links}{joints}</robot>'.encode())
    assert robot.tree.parent.tolist() == list(range(-1, 998))
