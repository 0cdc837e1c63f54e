"""The equation of motion of a robot all of whose parameters are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heft.arrays import Array, read_only
from heft.dynamics import body_poses, kernels
from heft.errors import InvalidModel, InvalidSetting, nearest
from heft.information import PARAMETER_COUNT
from heft.models import Robot

KINDS = ("armature", "viscous", "coulomb", "offset")


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A robot all of whose parameters are known.

    Attributes:
        robot: With a fixed base.
        bodies: Ten parameters a body, shape (10 bodies,), as `Robot.written_bodies` returns.
        drives: By name, such as `elbow.coulomb`; of `KINDS`, what is missing counts as zero.

    Raises:
        InvalidModel: If the base floats, or a body's numbers are missing.
        InvalidSetting: If a drive's parameter is unknown, negative or not finite.
    """

    robot: Robot
    bodies: Array
    drives: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.robot.tree.free_base:
            raise InvalidModel("a floating base is not simulated", argument='base = "free"')
        bodies = read_only(self.bodies)
        if bodies.shape != (PARAMETER_COUNT * len(self.robot.tree.names),):
            raise InvalidModel(
                "ten parameters a body are expected",
                argument="bodies",
                got=f"shape {bodies.shape}",
                expected=f"({PARAMETER_COUNT * len(self.robot.tree.names)},)",
            )
        object.__setattr__(self, "bodies", bodies)
        valid = [f"{d.name}.{kind}" for d in self.robot.drives for kind in KINDS]
        for name, value in self.drives.items():
            if name not in valid:
                near = nearest(name, valid)
                raise InvalidSetting(
                    f"the robot has no '{name}' that could be simulated",
                    argument="drives",
                    valid=valid,
                    cure=f"did you mean '{near}'?" if near else None,
                )
            if not math.isfinite(value) or (value < 0.0 and not name.endswith(".offset")):
                raise InvalidSetting(
                    "a number of a drive cannot be", argument=name, got=value, expected="0 or more"
                )

    @staticmethod
    def of(robot: Robot, drives: Mapping[str, float] | None = None) -> Dynamics:
        """Return the dynamics of a robot as its model file has it, with these drives."""
        return Dynamics(robot, robot.written_bodies(), drives or {})

    @cached_property
    def ratios(self) -> Array:
        """Speed of each drive per speed of each channel, shape (drives, channels)."""
        return np.array([d.ratio for d in self.robot.drives])

    def of_drives(self, kind: str) -> Array:
        """Return a parameter of each drive, shape (drives,)."""
        return np.array([self.drives.get(f"{d.name}.{kind}", 0.0) for d in self.robot.drives])

    @cached_property
    def coulomb(self) -> Array:
        """F of each drive, shape (drives,) [N·m or N]."""
        return self.of_drives("coulomb")

    @cached_property
    def _smooth(self) -> tuple[Array, Array]:
        return self.of_drives("viscous"), self.of_drives("offset")

    @cached_property
    def _rotors(self) -> Array:
        return np.asarray((self.ratios.T * self.of_drives("armature")) @ self.ratios)

    def equation(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return M, shape (channels, channels), and h = C v + g, shape (channels,).

        `M @ a + h == inverse_dynamics(q, v, a)`, rotors included, without friction.
        """
        count = len(position)
        q, v = (np.tile(x, (count + 1, 1)) for x in (position, velocity))
        a = np.vstack([np.zeros(count), np.eye(count)])
        motion = kernels.motion_of(self.robot.tree, self.robot.gravity, q, v, a)
        efforts = kernels.inverse_dynamics(self.robot.tree, motion, self.bodies)
        return efforts[:, 1:] - efforts[:, :1] + self._rotors, efforts[:, 0]

    def friction(self, speed: Array, signs: Array) -> Array:
        """Return what friction takes of drives that slip, shape (drives,) [N·m or N].

        Args:
            speed: w, shape (drives,).
            signs: Of the speeds, or what stands for them, shape (drives,).
        """
        viscous, offset = self._smooth
        return np.asarray(viscous * speed + offset + self.coulomb * signs)

    def energies(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return kinetic and potential energy, each of shape (N,) [J].

        Args:
            position: Shape (N, channels).
            velocity: Shape (N, channels).
        """
        tree, gravity, still = self.robot.tree, self.robot.gravity, np.zeros_like(velocity)

        def efforts(a: Array) -> Array:
            motion = kernels.motion_of(tree, gravity, position, still, a)
            return kernels.inverse_dynamics(tree, motion, self.bodies)

        momentum = (efforts(velocity) - efforts(still)).T + velocity @ self._rotors
        tens = self.bodies.reshape(-1, PARAMETER_COUNT)
        places = np.array([body_poses(tree, q)[:, :3] for q in position])
        moments = np.einsum("nbij,bj->ni", places, np.column_stack([tens[:, 1:4], tens[:, 0]]))
        return 0.5 * np.sum(velocity * momentum, axis=1), -moments @ gravity
