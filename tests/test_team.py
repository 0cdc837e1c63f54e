"""A simulated team's motion, against scipy's rotations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from heft.experiments import Team
from heft.experiments.team import _turned


def test_a_quaternion_is_turned_in_the_body() -> None:
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-6, 0.1, 2.0):
        before = Rotation.random(random_state=rng)
        angle = size * rng.normal(size=3)
        found = _turned(before.as_quat(scalar_first=True), angle)
        expected = (before * Rotation.from_rotvec(angle)).as_quat(scalar_first=True)
        assert min(np.abs(found - expected).max(), np.abs(found + expected).max()) < 1e-12


def test_contacts_lie_on_a_ring() -> None:
    """As far from its middle as its radius, a tenth off, and around it, not along a line."""
    team = replace(Team(), robots=40, duration=0.1, changes=(), masses=(2.0,)).run(3)
    distance = np.linalg.norm(team.origins, axis=1)
    assert np.abs(distance / Team().radius - 1.0).max() < 0.5
    spread = np.linalg.svd(team.origins, compute_uv=False) / np.sqrt(40)
    assert np.allclose(spread[:2], Team().radius / np.sqrt(2.0), rtol=0.2) and spread[2] < 0.05
