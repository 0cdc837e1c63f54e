"""A contact held by an arm whose joints are measured: twist and wrench through its Jacobian.

The twist is J(q) q̇. Joint torques are those of the arm itself and those of the contact,

    τ = M(q) q̈ + h(q, q̇) + J(q)ᵀ F,

F the wrench on the load; with a model of the arm, without friction, they tell it. What an
accelerometer at the contact would read follows from the twist by differences,
v̇ + ω×v − Rᵀg, and so does q̈: both are noisy, but windows are smooth, and see of a difference what
partial integration would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import kernels, kinematics
from heft.errors import InvalidSetting
from heft.models import Robot

from .signals import BESIDE, ContactSignals, rates

NEARLY_SINGULAR = 1e3  # condition of a Jacobian, in its own units


@dataclass(frozen=True, eq=False)
class ArmContact:
    """Contact that is fixed to a link of an arm."""

    robot: Robot  # the arm
    link: str  # name of the link whose frame is the contact's

    def signals(
        self,
        time: Array,
        position: Array,
        velocity: Array,
        torque: Array | None = None,
        measured: Mapping[str, Array] | None = None,
    ) -> ContactSignals:
        """Return what sensors at the contact would read.

        Args:
            time: Shape (N,) [s], evenly spaced.
            position: q, shape (N, joints) [rad or m].
            velocity: q̇, shape (N, joints) [rad/s or m/s].
            torque: τ, shape (N, joints) [N·m or N]; not needed where force and torque are measured.
            measured: `acceleration`, or `force` and `torque`, of sensors at the contact, shape
                (N, 3) each; they count instead.

        Raises:
            InvalidSetting: If torques are to tell a wrench, and the arm has not six joints or is
                near a singularity.
        """
        robot, signals = self.robot, dict(measured or {})
        link = robot.link(self.link)
        seen = kinematics.frame_motion(robot.tree, link, position, velocity)
        v, w = seen.velocity, seen.angular_velocity
        derived = {}
        if "acceleration" not in signals:
            rate = rates(time, v)
            derived["acceleration"] = np.hstack([v, rate])
            signals["acceleration"] = rate + np.cross(w, v) - robot.gravity @ seen.rotation
        if "force" not in signals:
            if torque is None:
                raise InvalidSetting(
                    "neither joint torques nor a sensor tell the wrench", argument=self.link
                )
            wrench, momentum = self._wrench(time, position, velocity, torque)
            signals |= {"torque": wrench[:, :3], "force": wrench[:, 3:]}
            rate = rates(time, momentum)
            for name, own in ("torque", slice(3)), ("force", slice(3, 6)):
                derived[name] = np.hstack([momentum[:, own], rate[:, own]])
        accelerated, force, moment = (signals[k] for k in ("acceleration", "force", "torque"))
        return ContactSignals(time, w, v, accelerated, force, moment, derived)

    def of_rows(self, time: Array, values: Array, measured: Sequence[str]) -> ContactSignals:
        """Return what sensors at the contact would read; see `signals`.

        Args:
            values: Positions, velocities, torques of the joints where no force is measured, and
                what is measured, side by side, shape (N, any).
        """
        joints, count = len(self.robot.channels), 2 if "force" in measured else 3
        q, v, *tau = (values[:, k * joints : (k + 1) * joints] for k in range(count))
        rest = values[:, count * joints :]
        read = {name: rest[:, 3 * k : 3 * k + 3] for k, name in enumerate(measured)}
        if "force" in read and "torque" not in read:  # a point contact
            read["torque"] = np.zeros((len(time), 3))
        return self.signals(time, q, v, tau[0] if tau else None, read)

    def jacobian(self, position: Array) -> Array:
        """Return J: J(q) q̇ is angular and linear velocity in the contact's axes.

        Args:
            position: q, shape (N, joints) [rad or m].

        Returns:
            Shape (N, 6, joints).
        """
        tree, link = self.robot.tree, self.robot.link(self.link)
        count, joints = position.shape
        positions = np.repeat(position, joints, axis=0)
        rates = np.tile(np.eye(joints), (count, 1))
        seen = kinematics.frame_motion(tree, link, positions, rates)
        columns = np.hstack([seen.angular_velocity, seen.velocity])
        return np.swapaxes(columns.reshape(count, joints, 6), 1, 2)

    def require_wrench(self) -> None:
        """Require that joint torques determine the wrench at the contact.

        Raises:
            InvalidSetting: If the arm has not six joints.
        """
        joints = len(self.robot.channels)
        if joints != 6:
            raise InvalidSetting(
                "joint torques tell a wrench where there are six of them",
                argument=self.link,
                got=f"{joints} joints",
                cure="measure force and torque at the contact",
            )

    def regular(self, position: Array) -> NDArray[np.bool_]:
        """Return where torques at q determine the wrench, away from singularities, shape (N,)."""
        return np.asarray(np.linalg.cond(self.jacobian(position)) <= NEARLY_SINGULAR)

    def _wrench(
        self, time: Array, position: Array, velocity: Array, torque: Array
    ) -> tuple[Array, Array]:
        """Return moment and force on the load by the joint torques, and −J⁻ᵀ M q̇.

        The rate of the second is in the first. Shape (N, 6) each.
        """
        J = self.jacobian(position)
        self.require_wrench()
        worst = float(np.linalg.cond(J).max())
        if worst > NEARLY_SINGULAR:
            raise InvalidSetting(
                "the arm is near a singularity, where torques do not tell a wrench",
                argument=self.link,
                got=f"condition {worst:.2g}",
            )
        tree, gravity = self.robot.tree, self.robot.gravity
        acceleration = rates(time, velocity)
        motion = kernels.motion_of(tree, gravity, position, velocity, acceleration)
        own = kernels.inverse_dynamics(tree, motion, self.robot.written_bodies()).T
        rest = kernels.motion_of(tree, np.zeros(3), position, 0.0 * velocity, velocity)
        carried = kernels.inverse_dynamics(tree, rest, self.robot.written_bodies()).T
        both = np.stack([torque - own, -carried], axis=2)
        signals = np.linalg.solve(np.swapaxes(J, 1, 2), both)
        return np.asarray(signals[:, :, 0]), np.asarray(signals[:, :, 1])


@dataclass(eq=False)
class ArmStream:
    """Online conversion of joint samples to signals at an arm's contact, `BESIDE` samples late."""

    contact: ArmContact  # of the arm
    # which of `acceleration`, `force` and `torque` sensors at the contact read
    measured: tuple[str, ...] = ()
    singular: int = 0  # how many samples were left out near singularities
    _time: Array = field(default_factory=lambda: np.zeros(0))
    _values: Array | None = None

    @property
    def by_torque(self) -> bool:
        """Whether the wrench is computed from joint torques."""
        return "force" not in self.measured

    def add(self, time: Array, values: Array) -> ContactSignals:
        """Take samples; return the signals of those with `BESIDE` neighbours on both sides.

        Args:
            time: Shape (N,) [s].
            values: Positions, velocities, torques of the joints where they tell the wrench, and
                what is measured, side by side, shape (N, any).
        """
        before = values[:0] if self._values is None else self._values
        time, values = np.concatenate([self._time, time]), np.concatenate([before, values])
        keep = 2 * BESIDE
        self._time, self._values = time[-keep:], values[-keep:]
        joints = len(self.contact.robot.channels)
        good = np.ones(len(time), dtype=bool)
        if self.by_torque and len(time):
            good = self.contact.regular(values[:, :joints])
            self.singular += int((~good[len(before) :]).sum())
        steps = np.diff(time)
        # [s], across which nothing is differenced
        apart = (steps <= 0.0) | (steps > 0.1) | ~good[1:] | ~good[:-1]
        pieces = np.split(np.arange(len(time)), np.flatnonzero(apart) + 1)
        signals = [
            self.contact.of_rows(time[p], values[p], self.measured).part(slice(BESIDE, -BESIDE))
            for p in pieces
            if len(p) > keep
        ]
        return ContactSignals.joined(signals)
