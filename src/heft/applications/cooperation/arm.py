"""A contact held by an arm whose joints are measured: twist and wrench through its Jacobian.

The twist is J(q) q̇. Joint torques are those of the arm itself and those of the contact,

    τ = M(q) q̈ + h(q, q̇) + J(q)ᵀ F,

F the wrench on the load; with a model of the arm, without friction, they tell it. What an
accelerometer at the contact would read follows from the twist by differences,
v̇ + ω×v − Rᵀg, and so does q̈: both are noisy, but windows are smooth, and see of a difference what
partial integration would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import kernels, kinematics
from heft.errors import InvalidSetting
from heft.models import Robot

from .signals import ContactSignals

NEARLY_SINGULAR = 1e3  # condition of a Jacobian, in its own units
JOINTS = 6  # of an arm whose torques tell a wrench


@dataclass(frozen=True, eq=False)
class ArmContact:
    """A contact that a link of an arm is fixed to.

    Attributes:
        robot: The arm.
        link: Name of the link whose frame is the contact's.
    """

    robot: Robot
    link: str

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
        robot, found = self.robot, dict(measured or {})
        link = robot.link(self.link)
        seen = kinematics.frame_motion(robot.tree, link, position, velocity)
        v, w = seen.velocity, seen.angular_velocity
        derived = frozenset({"acceleration"} - found.keys())
        if "acceleration" not in found:
            rate = np.gradient(v, time, axis=0, edge_order=2)
            found["acceleration"] = rate + np.cross(w, v) - robot.gravity @ seen.rotation
        if "force" not in found:
            if torque is None:
                raise InvalidSetting(
                    "neither joint torques nor a sensor tell the wrench", argument=self.link
                )
            wrench = self._wrench(time, position, velocity, torque)
            found |= {"torque": wrench[:, :3], "force": wrench[:, 3:]}
        accelerated, force, moment = (found[k] for k in ("acceleration", "force", "torque"))
        return ContactSignals(time, w, v, accelerated, force, moment, derived)

    def jacobian(self, position: Array) -> Array:
        """Return J: J(q) q̇ is angular and linear velocity in the contact's axes.

        Args:
            position: q, shape (N, joints) [rad or m].

        Returns:
            Shape (N, 6, joints).
        """
        tree, link = self.robot.tree, self.robot.link(self.link)
        columns = []
        for unit in np.eye(tree.channels):
            rates = np.broadcast_to(unit, position.shape)
            seen = kinematics.frame_motion(tree, link, position, rates)
            columns.append(np.hstack([seen.angular_velocity, seen.velocity]))
        return np.stack(columns, axis=2)

    def _wrench(self, time: Array, position: Array, velocity: Array, torque: Array) -> Array:
        """Return moment and force on the load by the joint torques, shape (N, 6)."""
        J = self.jacobian(position)
        if J.shape[2] != JOINTS:
            raise InvalidSetting(
                "joint torques tell a wrench where there are six of them",
                argument=self.link,
                got=f"{J.shape[2]} joints",
                cure="measure force and torque at the contact",
            )
        worst = float(np.linalg.cond(J).max())
        if worst > NEARLY_SINGULAR:
            raise InvalidSetting(
                "the arm is near a singularity, where torques do not tell a wrench",
                argument=self.link,
                got=f"condition {worst:.2g}",
            )
        tree, gravity = self.robot.tree, self.robot.gravity
        acceleration = np.gradient(velocity, time, axis=0, edge_order=2)
        motion = kernels.motion_of(tree, gravity, position, velocity, acceleration)
        own = kernels.inverse_dynamics(tree, motion, self.robot.written_bodies()).T
        rest = (torque - own)[:, :, None]
        return np.asarray(np.linalg.solve(np.swapaxes(J, 1, 2), rest)[:, :, 0])
