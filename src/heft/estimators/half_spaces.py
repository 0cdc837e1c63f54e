"""Half-spaces that contain a link's centre of mass, such as its shape's convex hull."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.information import PARAMETER_COUNT, inertia


@dataclass(frozen=True)
class HalfSpaces:
    """A convex body that contains a link's centre of mass c: `normals @ c ≤ most`.

    Mass is positive and its centre the mean of where it is, so a body whose mass lies in a convex
    set has its centre there: `most m − n · (m c) ≥ 0`, one linear inequality a half-space.
    """

    normals: Array  # outward, of length one, shape (k, 3)
    most: Array  # shape (k,) [m]

    @staticmethod
    def of(planes: Sequence[Sequence[float]]) -> HalfSpaces:
        """Return the half-spaces of planes `[x, y, z, most]`, normals of any length."""
        found = np.array(planes, dtype=float).reshape(-1, 4)
        length = np.linalg.norm(found[:, :3], axis=1)
        return HalfSpaces(found[:, :3] / length[:, None], found[:, 3] / length)

    @property
    def rows(self) -> Array:
        """The matrix R with `R @ π ≥ 0`, shape (k, 10)."""
        rows = np.zeros((len(self.most), PARAMETER_COUNT))
        rows[:, 0] = self.most
        rows[:, 1:4] = -self.normals
        return rows

    def deepest(self) -> tuple[Array, float]:
        """Return the point farthest inside, shape (3,), and its depth [m].

        The centre of the largest ball within; of depth at most 1 m if the set is open, and below 0
        if it is empty.
        """
        from scipy.optimize import linprog  # slow to load, and few robots need it

        columns = np.column_stack([self.normals, np.ones(len(self.most))])
        found = linprog(
            [0.0, 0.0, 0.0, -1.0],
            A_ub=columns,
            b_ub=self.most,
            bounds=[(None, None)] * 3 + [(None, 1.0)],
        )
        return np.asarray(found.x[:3]), float(found.x[3])

    def pulled_inside(self, body: Array, room: float = 0.0) -> Array:
        """Return a body shifted towards the deepest point until its centre of mass is inside.

        Args:
            body: π, shape (10,) [kg, kg·m, kg·m²], of positive mass.
            room: Share of the way to the deepest point that stays empty.
        """
        com = body[1:4] / body[0]
        slack = self.most - self.normals @ com
        if (slack >= 0.0).all() and room == 0.0:
            return body
        goal, _ = self.deepest()
        deep = np.maximum(self.most - self.normals @ goal, 0.0)
        lack = room * deep - slack
        if (lack <= 0.0).all():
            return body
        gain = deep - slack
        share = np.max(np.where(lack > 0.0, lack / np.where(lack > 0.0, gain, 1.0), 0.0))
        shift = min(1.0, float(share)) * (goal - com)
        return np.asarray(inertia.frame_change(np.eye(3), shift) @ body)
