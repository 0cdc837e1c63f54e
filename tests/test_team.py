"""A simulated team's motion, against scipy's rotations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from heft.simulation import Team
from heft.simulation.team import _turned


def test_a_quaternion_is_turned_in_the_body() -> None:
    rng = np.random.default_rng(0)
    angles = np.array([[1e-6], [0.1], [0.0], [2.0]]) * rng.normal(size=(4, 3))
    expected = Rotation.identity()
    for found, angle in zip(_turned(angles), (*angles, np.zeros(3)), strict=True):
        true = expected.as_quat(scalar_first=True)
        assert min(np.abs(found - true).max(), np.abs(found + true).max()) < 1e-12
        expected = expected * Rotation.from_rotvec(angle)


def test_contacts_lie_on_a_ring() -> None:
    """As far from its middle as its radius, a tenth off, and around it, not along a line."""
    team = replace(Team(), robots=40, duration=0.1, changes=(), masses=(2.0,)).run(3)
    distance = np.linalg.norm(team.origins, axis=1)
    assert np.abs(distance / Team().radius - 1.0).max() < 0.5
    spread = np.linalg.svd(team.origins, compute_uv=False) / np.sqrt(40)
    assert np.allclose(spread[:2], Team().radius / np.sqrt(2.0), rtol=0.2) and spread[2] < 0.05
