"""The equation of motion of a robot all of whose parameters are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from heft.arrays import Array, read_only
from heft.dynamics import TERMS, Coulomb, DriveMotion, Term, body_poses, kernels, term_named
from heft.errors import InvalidModel, InvalidSetting, did_you_mean
from heft.information import PARAMETER_COUNT
from heft.models import Robot


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Equation of motion of a robot all of whose parameters are known.

    Use it as the truth of a simulated experiment (`Simulate`) that an estimate is compared with.

    Raises:
        InvalidModel: If the base floats, or a body's numbers are missing.
        InvalidSetting: If a drive's parameter is unknown, negative or not finite.
    """

    robot: Robot  # with a fixed base
    bodies: Array  # ten parameters a body, shape (10 bodies,), as `Robot.written_bodies` returns
    # by name, such as `elbow.coulomb`; what is missing counts as zero. Not those of terms that
    # remember or take the rigid-body torque
    drives: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.robot.tree.free_base:
            raise InvalidModel(
                "a floating base is not simulated: contacts that are not modelled hold it up",
                argument='base = "free"',
                cure='say base = "fixed", or give it a chain of joints that holds it',
            )
        bodies = read_only(self.bodies)
        if bodies.shape != (PARAMETER_COUNT * len(self.robot.tree.names),):
            raise InvalidModel(
                "ten parameters a body are expected",
                argument="bodies",
                got=f"shape {bodies.shape}",
                expected=f"({PARAMETER_COUNT * len(self.robot.tree.names)},)",
            )
        object.__setattr__(self, "bodies", bodies)
        for name, value in self.drives.items():
            _, term = self._place(name)
            if not math.isfinite(value) or (value < 0.0 and term.nonnegative):
                raise InvalidSetting(
                    "a number of a drive cannot be", argument=name, got=value, expected="0 or more"
                )

    def _place(self, name: str) -> tuple[int, Term]:
        for d, drive in enumerate(self.robot.drives):
            if name.startswith(f"{drive.name}."):
                with suppress(InvalidSetting):
                    term = term_named(name.removeprefix(f"{drive.name}."))
                    if not term.loaded and not term.remembers:
                        return d, term
        kinds = [k for k in TERMS.values() if not k.loaded and not k.remembers]
        endings = [k.kind + ("[scale]" if k.scale_unit else "") for k in kinds]
        valid = [f"{d.name}.{ending}" for d in self.robot.drives for ending in endings]
        raise InvalidSetting(
            f"the robot has no '{name}' that could be simulated",
            argument="drives",
            valid=valid,
            cure=did_you_mean(name, valid),
        )

    @staticmethod
    def of(robot: Robot, drives: Mapping[str, float] | None = None) -> Dynamics:
        """Return the dynamics of a robot as its model file has it, with these drives.

        Args:
            drives: Values by parameter name, such as `elbow.coulomb`; none without.
        """
        return Dynamics(robot, robot.written_bodies(), drives or {})

    @cached_property
    def ratios(self) -> Array:
        """Speed of each drive per speed of each channel, shape (drives, channels)."""
        return np.array([d.ratio for d in self.robot.drives])

    @cached_property
    def _terms(self) -> dict[Term, Array]:
        """Coefficients by term, one a drive, shape (drives,); in the order of `TERMS`."""
        found: dict[Term, Array] = {}
        for name, value in self.drives.items():
            place, term = self._place(name)
            found.setdefault(term, np.zeros(len(self.robot.drives)))[place] = value
        order = {kind: k for k, kind in enumerate(TERMS)}
        return dict(sorted(found.items(), key=lambda c: (order[c[0].kind], c[0].scale or 0.0)))

    @cached_property
    def coulomb(self) -> Array:
        """Coulomb friction F of each drive, shape (drives,) [N·m or N]."""
        return self._terms.get(Coulomb(), np.zeros(len(self.robot.drives)))

    @cached_property
    def _smooth(self) -> tuple[tuple[Term, Array], ...]:
        """All terms of friction but Coulomb's, with coefficients."""
        return tuple(
            (t, values)
            for t, values in self._terms.items()
            if not t.inertial and not isinstance(t, Coulomb)
        )

    @cached_property
    def _rotors(self) -> Array:
        armature = [values for t, values in self._terms.items() if t.inertial]
        return np.asarray((self.ratios.T * sum(armature, np.zeros(len(self.ratios)))) @ self.ratios)

    def equation(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return the mass matrix M and the bias torque h = C v + g.

        M has shape (channels, channels) [kg·m², kg·m or kg], h shape (channels,) [N·m or N].

        `M @ a + h == inverse_dynamics(q, v, a)`, rotors included, without friction.
        """
        count = len(position)
        q, v = np.empty((2, count + 1, count))
        q[:], v[:] = position, velocity
        a = np.eye(count + 1, count, -1)  # none, then one of each channel
        motion = kernels.motion_of(self.robot.tree, self.robot.gravity, q, v, a)
        efforts = kernels.inverse_dynamics(self.robot.tree, motion, self.bodies)
        return efforts[:, 1:] - efforts[:, :1] + self._rotors, efforts[:, 0]

    def friction(self, position: Array, speed: Array, signs: Array) -> Array:
        """Return the friction torque of slipping drives, shape (drives,) [N·m or N].

        All arguments are by drive; signs are those of the speeds, or their smooth approximation.
        """
        still = np.zeros(len(speed))
        motion = DriveMotion(position, speed, still, still, {})
        smooth = sum((values * t.column(motion) for t, values in self._smooth), still)
        return np.asarray(smooth + self.coulomb * signs)

    def energies(self, position: Array, velocity: Array) -> tuple[Array, Array]:
        """Return kinetic and potential energy, each of shape (N,) [J]."""
        tree, gravity, still = self.robot.tree, self.robot.gravity, np.zeros_like(velocity)

        def efforts(a: Array) -> Array:
            motion = kernels.motion_of(tree, gravity, position, still, a)
            return kernels.inverse_dynamics(tree, motion, self.bodies)

        momentum = (efforts(velocity) - efforts(still)).T + velocity @ self._rotors
        tens = self.bodies.reshape(-1, PARAMETER_COUNT)
        places = body_poses(tree, position)[:, :, :3]
        moments = np.einsum("nbij,bj->ni", places, np.column_stack([tens[:, 1:4], tens[:, 0]]))
        return 0.5 * np.sum(velocity * momentum, axis=1), -moments @ gravity
