"""Simulated teams, and what their robots read, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from heft.applications.cooperation import ContactSignals
from heft.simulation import SimulatedTeam, Team

Array = np.ndarray[Any, np.dtype[np.float64]]
SHORT = Team(robots=3, duration=6.0, changes=(), masses=(2.0,))


def signals(team: SimulatedTeam, exact: bool = False) -> list[ContactSignals]:
    """Return what each robot reads, or would without noise."""
    logs = (team.columns(k, exact=exact) for k in range(team.count))
    return [ContactSignals.of_columns(log, "grasp") for log in logs]


def pose(seed: int) -> tuple[Array, Array]:
    """Return any rotation and translation."""
    rng = np.random.default_rng(seed)
    return Rotation.random(random_state=seed).as_matrix(), rng.normal(size=3)
