"""The verifier of designed motions finds what is broken: it is no oracle that nods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.excitation_verified import Verifier, evaluated

from heft.excitation import ExcitationTrajectory, Fourier, Spline

from .robots import path_of

UR10 = path_of("ur_description/urdf/ur10_robot.urdf")
JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
FREE = {j: {"acceleration": 8.0, "jerk": 200.0} for j in JOINTS}


def motion(posture: list[float], sway: float = 0.1, harmonic: int = 1) -> ExcitationTrajectory:
    coefficients = np.zeros((11, 6))
    coefficients[0] = posture
    coefficients[2 * harmonic] = sway
    return ExcitationTrajectory(Fourier(10.0), coefficients, JOINTS, ("rad",) * 6)


def broken(trajectory: ExcitationTrajectory, **table: Any) -> set[str]:
    options = {"motion": {"joint": FREE, "floor": 0.0, "clearance": 0.0} | table}
    found = Verifier(UR10, options, 320).violations(trajectory.to_dict())
    return {v.limit for v in found}


UP = [0.0, -1.2, 0.5, 0.2, 0.3, 0.1]


def test_what_is_written_is_read_as_it_was_meant() -> None:
    rng = np.random.default_rng(0)
    time = np.linspace(0.0, 6.0, 101)
    for basis in (Fourier(6.0, 4), Fourier(6.0, 3, 0.4), Spline(6.0, 9)):
        shape = (basis.size, 2)
        made = ExcitationTrajectory(basis, rng.normal(size=shape), ("a", "b"), ("rad", "rad"))
        for order in range(4):
            values = evaluated(made.to_dict(), time, order)
            assert np.allclose(values, made.derivative(time, order), atol=1e-9)


def test_a_motion_that_keeps_all_limits_passes() -> None:
    assert broken(motion(UP)) == set()


@pytest.mark.parametrize(
    ("limit", "change"),
    [
        ("position of elbow_joint", {"joint": {**FREE, "elbow_joint": {"position": [0.45, 1.0]}}}),
        ("velocity of elbow_joint", {"joint": {**FREE, "elbow_joint": {"velocity": 0.06}}}),
        ("acceleration of elbow_joint", {"joint": {**FREE, "elbow_joint": {"acceleration": 0.03}}}),
        ("jerk of elbow_joint", {"joint": {**FREE, "elbow_joint": {"jerk": 0.02}}}),
        ("effort of elbow_joint", {"joint": {**FREE, "elbow_joint": {"effort": 20.0}}}),
        ("power of elbow_joint", {"joint": {**FREE, "elbow_joint": {"power": 0.5}}}),
        ("velocity of elbow_joint", {"margin": {"velocity": 0.99}}),
    ],
)
def test_each_limit_is_seen(limit: str, change: dict[str, Any]) -> None:
    assert limit in broken(motion(UP), **change)


def test_collisions_are_seen() -> None:
    low = broken(motion([0.0, 0.0, 0.4, 0.0, 0.0, 0.0]))
    assert any("floor" in limit for limit in low)
    folded = broken(motion([0.8, -1.4, -2.75, -2.9, 1.9, 2.5], 0.01))
    assert any("upper_arm" in limit and "wrist" in limit for limit in folded)
    walled = broken(motion(UP), keep_in=[[-2.0, 0.3], [-2.0, 2.0], [-2.0, 2.0]])
    assert any("keep_in" in limit for limit in walled)
