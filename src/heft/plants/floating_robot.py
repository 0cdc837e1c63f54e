"""A robot whose base floats: six equations of the base, one of each joint, and its contacts.

    Y(a − g, ω, α, q, v, a_q) π = τ + Σ Jᵀ w − ε

Nothing acts on the base but contacts, so that its six channels measure zero; their noise is what
noise of the motion leaves there. The wrench w of each contact is an unknown of the sample. Where it
is measured, the sensor gives further equations, `0 = w_measured − ε − w`, and the better the
sensor, the nearer is what `Problem` makes of it to `τ + Jᵀ w_measured`; where nobody measures it,
what is left is the null space of the contacts' Jacobians [Mistry2009]. The base's equations alone
need no torques [Ayusawa2014].

The base moves by its pose or by an inertial sensor at the origin of its frame. Nothing else is
needed: where in the world it is and how fast, dynamics does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import contact_map, contact_place, kernels
from heft.errors import InvalidSetting
from heft.information import ChannelRows, matrix_of_quaternion
from heft.models import ContactOptions
from heft.recordings import Recording
from heft.signals import Smoothed

from .free_body import BodyMotion, FreeBody
from .parts import SIX, ContactSensor, Part, WrenchSensor, sensors_of
from .plant import Channel, Inputs, Measured, MotionSignal, Samples, wrench_channels
from .robot import RobotMotion, RobotPlant, SensedRobotPlant
from .robot_rows import fixed_positions
from .robot_signals import joint_inputs

POSE_SIGNALS, INERTIAL_SIGNALS = 7, 6
RATE_STEP = 1e-5  # [s] of the contacts' rate of change


@dataclass(frozen=True, eq=False)
class FloatingMotion(RobotMotion):
    """Motion of a robot whose base floats."""

    closed: NDArray[np.bool_]  # which contacts of unknown wrench may act, shape (contacts, N)


@dataclass(frozen=True, eq=False)
class FloatingRobotPlant(SensedRobotPlant):
    """A robot whose base floats, with contacts; see the module.

    Channels are those of the robot whose equations are used (`Options.equations`), then those of
    the wrench sensors inside, then those of the sensors at contacts.
    """

    # what tells how the base moves: its pose, or an inertial sensor
    motion_from: Literal["pose", "imu"] = "pose"

    @cached_property
    def base(self) -> FreeBody:
        """The base as a free body, which makes motion of the base's signals."""
        x, y, z = (float(g) for g in self.robot.gravity)
        return FreeBody(self.robot.tree.names[0], self.motion_from, (x, y, z))

    @cached_property
    def contacts(self) -> dict[str, ContactOptions]:
        """Contacts by name."""
        return dict(self.robot.options.contact or {})

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Wrench sensors inside, then those at contacts."""
        at_contacts = (
            ContactSensor(name, contact.components)
            for name, contact in self.contacts.items()
            if contact.wrench == "measured"
        )
        return (*sensors_of(self.robot), *at_contacts)

    @property
    def joint_channels(self) -> tuple[Channel, ...]:
        """Base and joints, as far as their equations are used."""
        base = {c.name: c for c in wrench_channels("base")}
        return tuple(base.get(c.name, c) for c in super().joint_channels)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return the base's motion, joint positions, flags of contacts, torques and wrenches."""
        base = self.base.inputs(recording, measured=False).motion
        torques = measured and self.robot.options.equations in ("all", "joints")
        joints = joint_inputs(self.robot, recording, torques)
        flags = []
        for name, contact in self.contacts.items():
            if contact.wrench == "unknown" and contact.closed == "logged":
                signal = f"contact.{name}"
                recording.require(signal, f"says when contact '{name}' is closed")
                flags.append(MotionSignal(signal, 0))
        motion = (*base, *joints.motion, *flags)
        if not measured:
            return Inputs(motion)
        nothing = [
            Measured(k, ((base[0].name, 0.0),)) for k, c in enumerate(self.robot.measured) if c < 6
        ]
        return Inputs(motion, (*nothing, *joints.measured, *self.part_inputs(recording)))

    def motion(self, smoothed: Smoothed) -> FloatingMotion:
        """Return motion of base and joints, and which contacts may act.

        Raises:
            FitError: If smoothing left numbers that are not finite.
        """
        width = POSE_SIGNALS if self.motion_from == "pose" else INERTIAL_SIGNALS
        base = self.base.motion(_signals(smoothed, slice(0, width)))
        moving = int(np.isnan(fixed_positions(self.robot)).sum())
        joints = _signals(smoothed, slice(width, width + moving))
        made = self._joined(base, *self.joint_states(joints))
        kernels.require_finite(made.bodies)
        flags = smoothed.position[:, width + moving :].T > 0.5
        pose = smoothed.position[:, :width] if self.motion_from == "pose" else None
        return replace(made, closed=self._closed(made, flags, pose))

    def _joined(self, base: BodyMotion, q: Array, v: Array, a: Array) -> FloatingMotion:
        """Return the motion of base and joints, with all contacts closed.

        What counts by its derivative is the base's velocity, so that its rate is the spatial
        acceleration; what counts as it is, gravity and ω × v, stands for gravity.
        """
        count = len(q)
        w, rate = base.angular_velocity, base.specific - base.rest
        zero, still = np.zeros((count, 6)), np.zeros((count, 7))
        still[:, 6] = 1.0
        velocity = np.hstack([base.velocity, w, v])
        acceleration = np.hstack([rate, base.angular_acceleration, a])
        robot = self.robot
        position = np.hstack([still, q])
        bodies = kernels.motion_of(robot.tree, robot.gravity, position, velocity, acceleration)
        felt = np.ascontiguousarray((np.cross(w, base.velocity) - base.rest).T)
        bodies = replace(bodies, gravity=felt)
        closed = np.ones((len(self.contacts), count), dtype=bool)
        channels = np.hstack([zero, q]).T
        return FloatingMotion(channels, bodies.velocity, bodies, closed)

    def _closed(
        self, motion: FloatingMotion, flags: NDArray[np.bool_], pose: Array | None
    ) -> NDArray[np.bool_]:
        """Return which contacts may act, shape (contacts, N)."""
        closed, flag = motion.closed.copy(), iter(flags)
        places = {}
        for k, (name, contact) in enumerate(self.contacts.items()):
            if contact.wrench == "measured" or contact.closed == "always":
                continue
            if contact.closed == "logged":
                closed[k] = next(flag)
            else:
                places[k] = name
        if places:
            height = self._heights(motion, pose)
            lowest = height.min(axis=0)
            for k, name in places.items():
                closed[k] = self._resting(motion, self.contacts[name])
                closed[k] &= height[k] - lowest <= self.contacts[name].height
        return closed

    def _heights(self, motion: FloatingMotion, pose: Array | None) -> Array:
        """Return heights of contacts above the base's origin, shape (contacts, N) [m]."""
        if pose is None:
            raise InvalidSetting(
                "contacts are detected by their height, which an inertial sensor does not tell",
                argument="[contact.NAME] closed",
                got="detected",
                cure='log the base\'s pose, or log contacts and say closed = "logged"',
            )
        up = -self.robot.gravity / np.linalg.norm(self.robot.gravity)
        own = np.einsum("i,nij->nj", up, matrix_of_quaternion(pose[:, 3:7]))  # in the base's axes
        position, tree = motion.position.T, self.robot.tree
        places = (
            contact_place(tree, self.robot.link(c.link), np.array(c.point), position)
            for c in self.contacts.values()
        )
        return np.array([np.einsum("ni,ni->n", own, place) for place in places])

    def _resting(self, motion: FloatingMotion, contact: ContactOptions) -> NDArray[np.bool_]:
        J = self._jacobian(motion, contact)
        twist = np.einsum("nck,cn->nk", J, motion.bodies.velocity)
        resting = np.linalg.norm(twist[:, :3], axis=1) <= contact.speed
        if contact.kind == "surface":
            resting &= np.linalg.norm(twist[:, 3:], axis=1) <= contact.turning
        return np.asarray(resting)

    def _jacobian(self, motion: RobotMotion, contact: ContactOptions) -> Array:
        """Return Jᵀ of a contact, shape (N, channels of the robot, 6)."""
        link, point = self.robot.link(contact.link), np.array(contact.point)
        return contact_map(self.robot.tree, link, point, motion.position.T)

    @cached_property
    def unknowns(self) -> int:
        """Number of components of all contacts' wrenches."""
        return sum(c.components for c in self.contacts.values())

    @property
    def told(self) -> NDArray[np.bool_]:
        """Which of the unknowns a sensor measures."""
        of_each = ([c.wrench == "measured"] * c.components for c in self.contacts.values())
        return np.array([sensed for own in of_each for sensed in own], dtype=bool)

    def acting(self, samples: Samples[Any]) -> Array:
        """Return N: Jᵀ of closed contacts, and rows of sensors, shape (N, channels, unknowns)."""
        motion, measured = samples.motion, self.robot.measured
        out = np.zeros((len(samples.time), len(self.channels), self.unknowns))
        out[:, : len(measured)] = self.held(motion)[:, measured]
        unknowns = dict(zip(self.contacts, self.components, strict=True))
        for part, rows in self.spans:
            if isinstance(part, ContactSensor):
                out[:, rows, unknowns[part.name][1]] = -np.eye(part.components)
            elif isinstance(part, WrenchSensor):
                for k, (contact, own) in enumerate(self.components):
                    link, point = self.robot.link(contact.link), np.array(contact.point)
                    if part.cut.holds(link):  # else it is before the sensor, which feels nothing
                        inside = part.cut.contact_map(link, point, motion.position.T)
                        inside = inside[:, :, : contact.components]
                        out[:, rows, own] = inside * motion.closed[k][:, None, None]
        return out

    def acting_rate(self, samples: Samples[Any]) -> Array:
        """Return the time derivative of `acting` along the motion, same shape; see `WithUnknowns`.

        By central differences: N is a smooth function of the joints' positions.
        """
        motion = samples.motion
        step = RATE_STEP * motion.bodies.velocity
        sides = (replace(motion, position=motion.position + way * step) for way in (1.0, -1.0))
        after, before = (self.acting(replace(samples, motion=m)) for m in sides)
        return np.asarray((after - before) / (2.0 * RATE_STEP))

    @property
    def components(self) -> tuple[tuple[ContactOptions, slice], ...]:
        """Contacts, each with the slice of the unknowns that holds its wrench."""
        slices, first = [], 0
        for contact in self.contacts.values():
            slices.append((contact, slice(first, first + contact.components)))
            first += contact.components
        return tuple(slices)

    def held(self, motion: FloatingMotion) -> Array:
        """Return Jᵀ, the map from wrenches of closed contacts to efforts of the robot's channels.

        Its shape is (N, channels of the robot, unknowns).
        """
        count = motion.position.shape[1]
        out = np.zeros((count, len(self.robot.channels), self.unknowns))
        for k, (contact, own) in enumerate(self.components):
            J = self._jacobian(motion, contact)[:, :, : contact.components]
            out[:, :, own] = J * motion.closed[k][:, None, None]
        return out

    def gear_load(self, samples: Samples[Any], rigid: Array) -> Array:
        """Return the torque of the bodies less that of contacts; see `RobotPlant.gear_load`.

        Measurements determine the contacts' wrenches.
        """
        if not self.unknowns or not any(t.loaded for _, t in self.robot.drive_columns):
            return rigid
        J, inverse = self._wrench_map(samples)
        measured = self.robot.measured
        rest = np.zeros((len(samples.time), inverse.shape[2]))
        rest[:, : len(measured)] = rigid[measured].T
        rest -= samples.measured[:, self._outer]
        wrench = np.einsum("nkc,nc->nk", inverse, rest)
        return np.asarray(rigid - np.einsum("nck,nk->cn", J, wrench))

    @property
    def _outer(self) -> NDArray[np.intp]:
        """Channels of base, joints and sensors at contacts, without those of sensors inside."""
        outer = np.ones(len(self.channels), dtype=bool)
        for part, own in self.spans:
            outer[own] = not isinstance(part, WrenchSensor)
        return np.flatnonzero(outer)

    def _wrench_map(self, samples: Samples[Any]) -> tuple[Array, Array]:
        """Return Jᵀ on all of the robot's channels, and T with λ = T (Y x − measured).

        The base's equations and sensors at contacts tell λ first, in which no friction is; joints'
        torques only what these leave open, such as how two feet share the load.
        """
        outer = self._outer
        # Where the base's equations tell a wrench those of joints weigh next to nothing.
        weight = np.where(np.isin(outer, np.arange(len(self.robot.measured))), 1e-3, 1.0)
        weight[: int(np.sum(self.robot.measured < SIX))] = 1.0
        N = self.acting(samples)[:, outer] * weight[:, None]
        return self.held(samples.motion), np.asarray(np.linalg.pinv(N, rcond=1e-8) * weight)

    def _load_rows(self, samples: Samples[Any], columns: Sequence[int]) -> tuple[ChannelRows, ...]:
        if not self.unknowns:
            return RobotPlant._load_rows(self, samples, columns)
        J, inverse = self._wrench_map(samples)
        rows = self.whole_rows(samples, columns)
        measured = self.robot.measured
        wrench = inverse[:, :, : len(measured)] @ rows[:, measured]
        return ChannelRows.of_each(rows - J @ wrench)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[Any]:
        """Return random states without contacts of unknown wrench; see `RobotPlant`."""
        made = RobotPlant.random_samples(self, count, rng)
        sensed = [c.wrench == "measured" for c in self.contacts.values()]
        closed = np.repeat(np.array(sensed, dtype=bool)[:, None], count, axis=1)
        m = made.motion
        motion = FloatingMotion(m.position, m.velocity, m.bodies, closed)
        return replace(made, motion=motion)


def _signals(smoothed: Smoothed, cut: slice) -> Smoothed:
    parts = (smoothed.position, smoothed.velocity, smoothed.acceleration)
    return Smoothed(*(p[:, cut] for p in parts))


@dataclass(frozen=True, eq=False)
class ContactEfforts:
    """Effect of contact wrenches on the efforts of N samples: `Y π = τ + N λ`, τ = 0 at the base.

    Where the log has a contact's wrench, that is it. What is left of the base's equations tells the
    others: all of one foot's, nothing of how two feet share the load. So the torque of an arm is
    known always, and that of a leg as long as no other leg, nor anything else, holds the robot with
    it.
    """

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
        N, sensed = plant.held(samples.motion), plant.told
        first = len(plant.channels) - int(sensed.sum())
        measured = np.einsum("nck,nk->nc", N[:, :, sensed], samples.measured[:, first:])
        unknown = N[:, :, ~sensed]
        through = np.tile(np.eye(N.shape[1]), (len(N), 1, 1))
        if unknown.shape[2]:
            base = unknown[:, :SIX] if held else 0.0 * unknown[:, :SIX]
            inverse = np.linalg.pinv(base, rcond=1e-9)
            through[:, :, :SIX] -= unknown @ inverse
            free = unknown - unknown @ inverse @ base
            size = np.linalg.norm(unknown, axis=2)
            # The base does not tell it: the joint's torque is not known.
            through[np.linalg.norm(free, axis=2) > 1e-6 * size] = np.nan
        return ContactEfforts(measured, through)

    def left(self, effort: Array) -> Array:
        """Return efforts left for the joints and unexplained at the base, shape (N, channels).

        Args:
            effort: Y π of all of the robot's channels, shape (channels, N) [N or N·m].
        """
        return np.asarray(np.einsum("ncd,nd->nc", self.through, effort.T - self.measured))
