"""Torques of a robot whose base floats, with the wrenches that hold it, by its six equations.

    Y π = τ + N λ,        τ = 0 at the base

Where the log has a contact's wrench, that is it. What is left of the base's equations tells the
others: all of one foot's, nothing of how two feet share the load. So the torque of an arm is known
always, and that of a leg as long as no other leg, nor anything else, holds the robot with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heft.arrays import Array

from .floating_robot import FloatingRobotPlant
from .plant import Samples

RANK = 1e-9  # of singular values, as a share of the largest, that are none
SHARED = 1e-6  # share of a joint's row that the base does not tell: its torque is not known
SIX = 6  # equations of the base


@dataclass(frozen=True, eq=False)
class ContactEfforts:
    """Effect of contact wrenches on the efforts of N samples."""

    measured: Array  # efforts of the wrenches that are measured, shape (N, channels) [N or N·m]
    # T, with `T (Y π − measured)` the efforts that are left for the joints, and at the base what
    # nothing explains, shape (N, channels, channels); NaN in the rows of joints whose torque
    # depends on how contacts share the load
    through: Array

    @staticmethod
    def of(plant: FloatingRobotPlant, samples: Samples[Any], held: bool = True) -> ContactEfforts:
        """Return the effect of the closed contacts.

        Args:
            samples: With the wrenches that the plant's last channels measure.
            held: Whether nothing but the stated contacts acts on the base, so that its equations
                tell what is unknown of them.
        """
        N, told = plant.held(samples.motion), plant.told
        first = len(plant.channels) - int(told.sum())
        measured = np.einsum("nck,nk->nc", N[:, :, told], samples.measured[:, first:])
        unknown = N[:, :, ~told]
        through = np.tile(np.eye(N.shape[1]), (len(N), 1, 1))
        if unknown.shape[2]:
            base = unknown[:, :SIX] if held else 0.0 * unknown[:, :SIX]
            inverse = np.linalg.pinv(base, rcond=RANK)
            through[:, :, :SIX] -= unknown @ inverse
            free = unknown - unknown @ inverse @ base
            size = np.linalg.norm(unknown, axis=2)
            through[np.linalg.norm(free, axis=2) > SHARED * size] = np.nan
        return ContactEfforts(measured, through)

    def left(self, effort: Array) -> Array:
        """Return efforts left for the joints and unexplained at the base, shape (N, channels).

        Args:
            effort: Y π of all of the robot's channels, shape (channels, N) [N or N·m].
        """
        return np.asarray(np.einsum("ncd,nd->nc", self.through, effort.T - self.measured))
