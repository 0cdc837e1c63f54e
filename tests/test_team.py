"""A simulated team's motion, against scipy's rotations."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from heft.experiments.team import _turned


def test_a_quaternion_is_turned_in_the_body() -> None:
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-6, 0.1, 2.0):
        before = Rotation.random(random_state=rng)
        angle = size * rng.normal(size=3)
        found = _turned(before.as_quat(scalar_first=True), angle)
        expected = (before * Rotation.from_rotvec(angle)).as_quat(scalar_first=True)
        assert min(np.abs(found - expected).max(), np.abs(found + expected).max()) < 1e-12
