"""Arms of which only the last joints move: what a smoke run takes in place of a whole arm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.arms import Case, ur10e
from heft.models.robot import Robot


def held(source: bytes, moving: int = 2) -> bytes:
    """Return a model file whose joints before the last ones are fixed, whatever a log says."""
    free = set(Robot.from_urdf_text(source).joints[-moving:])
    root = ElementTree.fromstring(source)
    for joint in root.findall("joint"):
        if joint.get("name") not in free:
            joint.set("type", "fixed")
    return ElementTree.tostring(root)


def wrist(folder: Path) -> Iterator[Case]:
    """Yield the first case of the UR10e with its last two joints alone."""
    case = next(ur10e(folder))
    urdf, options = held(case.urdf), case.robot.options
    joints = Robot.from_urdf_text(urdf).joints
    own = {j: options.of(j) for j in joints}
    yield replace(case, urdf=urdf, robot=Robot.from_urdf_text(urdf, replace(options, joint=own)))
