"""How true results are where the truth is not made of heft's own model: arms and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache


import numpy as np
from tests.experiments import ROBOTS

from heft.experiments import Arm, Condition, DriveRanges, SimulatedExperiment, Simulator, Sensors

LATE = (0.003, 0.0015, 0.008, 0.02)  # delays, seed by seed [s]

@dataclass(frozen=True)
class File:
    """Where an arm's numbers are.

    Attributes:
        path: In the folder of example-robot-data.
        last: Joint behind which the arm is cut off.
        fastest: Bound on its speeds [rad/s].
        first: Joint that stands on the base; the file's first if not given.
    """

    path: str
    last: str | None = None
    fastest: float = 2.5
    first: str | None = None


# Constants are chosen on the first; figures are of the others, from seeds that nobody looked at.
DEVELOPMENT: Mapping[str, File] = {
    "panda": File("panda_description/urdf/panda.urdf"),
    "ur5": File("ur_description/urdf/ur5_robot.urdf"),
    "so101": File("so_arm_description/urdf/so101.urdf", "wrist_roll", 6.0),
}
SCORED: Mapping[str, File] = {
    "xarm7": File("xarm_description/urdf/xarm7.urdf"),
    "z1": File("z1_description/urdf/z1.urdf", "joint6"),
    "kinova": File("kinova_description/robots/kinova.urdf"),
    "tiago": File("tiago_description/robots/tiago_no_hand.urdf", "arm_7_joint", 2.5, "arm_1_joint"),
    "finger": File("finger_edu_description/robots/finger_edu.urdf", None, 8.0),
}
LIGHT = ("so101", "finger")  # the arms of `light direct drive`, and only these
FIRST_SCORED = 1000  # seed; 0 to 99 are for development

IN_CLASS = DriveRanges()
LUGRE = DriveRanges(friction="lugre", bend=(0.5, 2.0))
FAST = Sensors(rate=500.0)
CONDITIONS: Mapping[str, Condition] = {
    "in class": Condition(drives=IN_CLASS),
    "in class, hard": Condition(drives=replace(IN_CLASS, friction="hard"), sensors=FAST),
    "lugre": Condition(drives=LUGRE, sensors=FAST),
    "lugre load drift late ar1 jitter": Condition(
        drives=replace(LUGRE, load=0.04, warming=0.2),
        sensors=Sensors(
            bits=18, torque_noise=0.01, correlation=0.9, jitter=0.03, delay=LATE[0], torque_step=0.001
        ),
    ),
    "dahl": Condition(
        drives=replace(LUGRE, friction="dahl"), sensors=replace(FAST, bits=17, torque_noise=0.01)
    ),
    "elastic ripple quantised": Condition(
        drives=replace(LUGRE, resonance=(12.0, 25.0), ripple=0.08),
        sensors=replace(FAST, bits=16, torque_step=0.01),
    ),
    "backlash": Condition(
        drives=replace(LUGRE, resonance=(40.0, 60.0), gap=(3e-4, 1e-3)),
        sensors=replace(FAST, bits=18),
    ),
    "lugre base tilted": Condition(drives=LUGRE, sensors=FAST, tilt=np.radians(1.5)),
    "slow": Condition(drives=LUGRE, motion="slow"),
    "ordinary work": Condition(drives=LUGRE, motion="ordinary work"),
    "light direct drive": Condition(
        drives=replace(
            LUGRE,
            coulomb=(0.02, 0.06),
            least=0.004,
            viscous=(0.1, 0.4),
            armature=(0.03, 0.15),
            least_armature=0.005,
        ),
        sensors=replace(FAST, bits=14, torque_noise=0.01),
    ),
}
@cache
def arm(name: str) -> Arm:
    """Return an arm by its short name."""
    file = {**DEVELOPMENT, **SCORED}[name]
    return Arm.of(ROBOTS / file.path, name, file.first, file.last, file.fastest)


def experiment(name: str, condition: str, seed: int, **changes: object) -> SimulatedExperiment:
    """Return the experiment of an arm, a condition and a seed."""
    chosen = replace(CONDITIONS[condition], **changes)  # type: ignore[arg-type]
    if chosen.sensors.delay == LATE[0]:
        late = replace(chosen.sensors, delay=LATE[seed % len(LATE)])
        chosen = replace(chosen, sensors=late)
    return Simulator(arm(name), chosen).run(seed)
