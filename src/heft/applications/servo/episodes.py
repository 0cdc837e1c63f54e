"""Episodes of an arm's positions and goals: LeRobot's datasets, and logs of any format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.files import OpenedFile


@dataclass(frozen=True, eq=False)
class Episode:
    """Positions and goals of an arm's joints, in the model's order."""

    name: str
    time: Array  # shape (N,) [s]
    position: Array  # shape (N, joints) [rad]
    goal: Array  # likewise, as it was sent
    file: OpenedFile | None = None

    @cached_property
    def start(self) -> Array:
        """First position and speed, by a parabola through the first positions, (2, joints)."""
        count = max(4, int(np.searchsorted(self.time, self.time[0] + 0.1)))
        t = self.time[:count] - self.time[0]
        return np.asarray(np.polynomial.polynomial.polyfit(t, self.position[:count], 2)[:2])
