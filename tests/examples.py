"""The small robots of `examples/`, with the drives of the textbook."""

from __future__ import annotations

from pathlib import Path

from heft.options import JointOptions, Options
from heft.robot import Robot
from heft.simulation import Dynamics

FOLDER = Path(__file__).parents[1] / "examples"
DRIVE = {"armature": 0.05, "viscous": 0.1, "coulomb": 0.1}


def example(name: str, gravity: tuple[float, float, float] | None = None) -> Robot:
    """Return a robot with simple friction."""
    bare = Robot.from_file(FOLDER / f"{name}.toml")
    joints = dict.fromkeys(bare.joints, JointOptions(friction="simple"))
    return Robot.from_file(FOLDER / f"{name}.toml", Options(joint=joints, gravity=gravity))


def rubbing(robot: Robot, **drive: float) -> Dynamics:
    """Return its dynamics, each joint with the same drive."""
    numbers = drive or DRIVE
    return Dynamics.of(robot, {f"{j}.{k}": v for j in robot.joints for k, v in numbers.items()})
