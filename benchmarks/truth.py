"""How true results are where the truth is not made of heft's own model: arms and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from tests.experiments import ROBOTS

from heft.experiments import Arm, Condition, DriveRanges, SimulatedExperiment, Simulator

FILES: Mapping[str, tuple[str, str | None]] = {
    "panda": ("panda_description/urdf/panda.urdf", None),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", None),
    "so101": ("so_arm_description/urdf/so101.urdf", "wrist_roll"),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", None),
    "z1": ("z1_description/urdf/z1.urdf", "joint6"),
    "kinova": ("kinova_description/robots/kinova.urdf", None),
    "finger": ("finger_edu_description/robots/finger_edu.urdf", None),
}
DEVELOPMENT = ("panda", "ur5", "so101")
LUGRE = DriveRanges(friction="lugre", bend=(0.5, 2.0))
CONDITIONS: Mapping[str, Condition] = {
    "in class": Condition(),
    "lugre": Condition(drives=LUGRE),
}


@cache
def arm(name: str) -> Arm:
    """Return an arm by its short name."""
    file, last = FILES[name]
    return Arm.of(ROBOTS / file, name, last)


def experiment(name: str, condition: str, seed: int, **changes: object) -> SimulatedExperiment:
    """Return the experiment of an arm, a condition and a seed."""
    chosen = replace(CONDITIONS[condition], **changes)  # type: ignore[arg-type]
    return Simulator(arm(name), chosen).run(seed)
