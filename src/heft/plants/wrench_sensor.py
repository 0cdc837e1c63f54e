"""What is not linear in a wrench sensor: gravity's direction, its mounting, its gains.

    w = S Mᵀ Y(a − g) π + b

with the gain S of each channel, the rotation M from the sensor's axes to the motion's, and
gravity g in the world. About an estimate each is a column more beside the body's: what the wrench
changes by when gravity is turned about a horizontal axis, the sensor about an axis of its own, or
a channel tells more. Solving and moving the estimate again and again is the method of Gauss and
Newton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import (
    PARAMETER_COUNT,
    inertia,
    matrix_of_rotation_vector,
    rotation_vector_between,
    rotation_vector_of_matrix,
)
from heft.signals import Samples

from .held_body import Held, Unknowns, sides


@dataclass(frozen=True, eq=False)
class Point:
    """The estimate that columns are linearised about.

    Attributes:
        stated: Gravity in the world as the motion was made with, shape (3,) [m/s²].
        body: Ten parameters, shape (10,).
        gravity: In the world, shape (3,) [m/s²].
        rotation: M, from the sensor's axes to the motion's, shape (3, 3).
        gains: The diagonal of S, shape (6,).
        delay: By how much the wrench comes behind the motion [s].
    """

    stated: Array
    body: Array
    gravity: Array
    rotation: Array
    gains: Array
    delay: float = 0.0

    @staticmethod
    def of(gravity: Array) -> Point:
        """Return where nothing is known yet, gravity being as stated."""
        return Point(gravity, np.zeros(PARAMETER_COUNT), gravity, np.eye(3), np.ones(6))

    @property
    def axes(self) -> Array:
        """Two horizontal axes in the world, about which tilt is told, shape (2, 3)."""
        return np.asarray(
            level(self.stated)
            @ matrix_of_rotation_vector(rotation_vector_between(self.stated, self.gravity)).T
        )

    def moved(self, unknowns: Unknowns, values: Array) -> Point:
        """Return the estimate after a solution, whose values are changes but for the body's."""
        tilt, mounting = values[unknowns.columns("tilt")], values[unknowns.columns("mounting")]
        gains = values[unknowns.columns("gain")]
        return replace(
            self,
            body=values[:PARAMETER_COUNT],
            gravity=matrix_of_rotation_vector(tilt @ self.axes) @ self.gravity
            if len(tilt)
            else self.gravity,
            rotation=matrix_of_rotation_vector(mounting) @ self.rotation
            if len(mounting)
            else self.rotation,
            gains=self.gains + gains if len(gains) else self.gains,
            delay=self.delay + (float(values[-1]) if unknowns.delay else 0.0),
        )

    def whole(self, unknowns: Unknowns, values: Array) -> Array:
        """Return values with what was found of the sensor in place of the last changes."""
        found = values.copy()
        if unknowns.tilt:
            tilt = rotation_vector_between(self.stated, self.gravity)
            found[unknowns.columns("tilt")] = level(self.stated) @ tilt
        if unknowns.mounting:
            found[unknowns.columns("mounting")] = rotation_vector_of_matrix(self.rotation)
        if unknowns.gains:
            found[unknowns.columns("gain")] = self.gains
        if unknowns.delay:
            found[-1] = self.delay
        return found


def linearised(held: Held, unknowns: Unknowns, point: Point, turning_noise: float = 0.0) -> Samples:
    """Return both sides of the equation of motion about an estimate; see `wrench.sides`.

    Args:
        held: What is seen.
        unknowns: What is looked for beside the body.
        point: The estimate.
        turning_noise: Standard deviation of ω [rad/s].
    """
    if held.world.shape[2]:
        tilted = held.world @ (point.gravity - point.stated)
        held = replace(held, specific=held.specific - tilted)
    made = sides(held, unknowns, turning_noise)
    ten = slice(0, PARAMETER_COUNT)
    if unknowns.tilt:
        none = np.zeros_like(held.specific)
        for column, axis in enumerate(point.axes, unknowns.columns("tilt").start):
            turned = inertia.wrench_regressor(
                held.world @ np.cross(axis, point.gravity), none, none
            )
            made.remainder[:, :, column] = turned @ point.body
    back = np.kron(np.eye(2), point.rotation.T)
    mounting = unknowns.columns("mounting")
    for part in (made.momentum, made.remainder):
        carried = part[:, :, ten] @ point.body
        if unknowns.mounting:
            turned = np.cross(carried.reshape(-1, 2, 1, 3), np.eye(3))
            part[:, :, mounting] = np.swapaxes(turned, 2, 3).reshape(-1, 6, 3)
        for kind in (ten, unknowns.columns("tilt"), mounting):
            part[:, :, kind] = point.gains[:, None] * (back @ part[:, :, kind])
        if unknowns.gains:
            told = carried @ back.T
            part[:, :, unknowns.columns("gain")] = told[:, :, None] * np.eye(6)
    return made


def level(gravity: Array) -> Array:
    """Return two horizontal axes in the world, of unit length, shape (2, 3)."""
    up = -gravity / np.linalg.norm(gravity)
    first = np.eye(3)[np.argmin(np.round(np.abs(up), 6))]  # x where up is z, whatever the rounding
    first = first - (first @ up) * up
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(up, first)])
