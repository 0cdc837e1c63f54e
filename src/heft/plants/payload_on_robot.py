"""A load on a robot: columns beside the robot's own, of a body fixed to one of its links.

In the difference of torques of one motion, run with the load and without it,

    τ_loaded(t) − τ_empty(t + lag) = Y_load(q, q̇, q̈) p + friction's change

what the robot needs for itself drops out, so that of its model file only the kinematics are used
(`RepeatedMotion`). A recording holds the loaded run's positions, `q.JOINT`, and the difference,
`tau.JOINT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.dynamics import Offset, Sigmoid, Term, Viscous, kernels, steady
from heft.errors import InvalidSetting
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    BaseParameters,
    Labels,
    ParameterSpace,
    column_order,
    inertia,
)
from heft.models import Robot
from heft.recordings import Recording
from heft.signals import Smoothed

from .plant import Channel, Inputs, Plant, Rows, Samples
from .robot import RobotMotion, RobotPlant
from .robot_signals import effort_signals

NAME = "payload"
GUESS = (1.0, 0.1)  # mass [kg] and radius of gyration [m] that the cone's metric is measured at
# What of friction changes with the load; the scale is a speed [rad/s or m/s].
CHANGES: tuple[Term, ...] = (Offset(), Sigmoid(0.02), Viscous())


def last_frame(robot: Robot) -> str:
    """Return the last link of the model file that moves with the last body: `tool0`, say."""
    moving = [k for k in robot.links if k.body >= 0]
    last = max(k.body for k in moving)
    return [k.name for k in moving if k.body == last][-1]


def currents(robot: Robot, recording: Recording) -> dict[str, float]:
    """Return the gain in use of each joint whose torque is measured as a current [N·m/A]."""
    return {
        robot.channels[channel]: gain
        for signal, channel, gain in effort_signals(robot, recording)
        if signal.startswith("current.")
    }


def carrying(robot: Robot, frame: str) -> tuple[slice, Array]:
    """Return the columns of a link's body, and the map from a load there to them, shape (10, 10).

    Args:
        frame: The link that the load is fixed to, in whose frame it is stated.

    Raises:
        InvalidSetting: If there is no such link, or it never moves.
    """
    link = next((k for k in robot.links if k.name == frame), None)
    if link is None or link.body < 0:
        raise InvalidSetting(
            f"nothing can be carried by '{frame}'" if link else f"there is no link '{frame}'",
            argument="frame",
            valid=[k.name for k in robot.links if k.body >= 0],
        )
    body = slice(PARAMETER_COUNT * link.body, PARAMETER_COUNT * (link.body + 1))
    return body, inertia.frame_change(link.rotation, link.translation)


def load_columns(robot: Robot, base: BaseParameters, frame: str) -> Array:
    """Return K with `β = β_empty + K p`, shape (b, 10), of a load p; see `carrying`.

    Args:
        base: Base parameters β of the robot without the load.
    """
    body, stated = carrying(robot, frame)
    return base.matrix[:, body] @ stated


def with_load(space: ParameterSpace) -> ParameterSpace:
    """Return the parameter space with a load without prior knowledge appended to the links."""
    first = PARAMETER_COUNT * len(space.groups)
    labels = space.labels
    names = (*labels.names[:first], *(f"{NAME}.{s}" for s in SYMBOLS), *labels.names[first:])
    units = (*labels.units[:first], *UNITS, *labels.units[first:])
    others = np.insert(space.matrix, [first] * PARAMETER_COUNT, 0.0, axis=1)
    load = np.eye(PARAMETER_COUNT, others.shape[1], first)
    nominal = np.concatenate([space.nominal[:first], inertia.sphere(*GUESS), space.nominal[first:]])
    return ParameterSpace(
        Labels(names, units, labels.frame),
        np.vstack([others, load]),
        nominal,
        (*space.groups, first),
        tuple(k + PARAMETER_COUNT for k in space.nonnegative),
        (*space.gyration, 0.0) if space.gyration else (),
    )


@dataclass(frozen=True, eq=False)
class LoadOnRobot(Plant[RobotMotion]):
    """A load fixed to a robot's link, whose ten parameters in the link's frame are columns.

    Signals, motion and channels are the robot's.
    """

    carrier: RobotPlant  # the robot, without the load
    frame: str  # the link that the load is fixed to, in whose frame it is stated

    @cached_property
    def labels(self) -> Labels:
        """Labels of the load's ten inertial parameters."""
        return Labels(tuple(f"{NAME}.{s}" for s in SYMBOLS), UNITS, self.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """The load's ten parameters, physically consistent, others of either sign; no prior."""
        others = np.zeros(len(self.labels) - PARAMETER_COUNT)
        nominal = np.concatenate([inertia.sphere(*GUESS), others])
        return ParameterSpace.of_one_body(self.labels, nominal)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The joints whose torque is measured."""
        return self.carrier.channels

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return joint positions, and torques or currents; see `RobotPlant.inputs`."""
        return self.carrier.inputs(recording, measured)

    def motion(self, smoothed: Smoothed) -> RobotMotion:
        """Return the robot's motion; see `RobotPlant.motion`."""
        return self.carrier.motion(smoothed)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[RobotMotion]:
        """Return random states of the robot; see `RobotPlant.random_samples`."""
        return self.carrier.random_samples(count, rng)


@dataclass(frozen=True, eq=False)
class RepeatedMotion(LoadOnRobot):
    """A load fixed to a robot's link, seen in the difference of torques of one motion run twice.

    A recording is both runs as one log: the motion, and the torques' differences. Columns: the
    load's ten, then for each measured joint the change of its friction: offset, Coulomb (smoothed)
    and viscous.
    """

    @cached_property
    def labels(self) -> Labels:
        """Labels of the load's ten parameters, then of the changes of each joint's friction."""
        names = [f"{NAME}.{s}" for s in SYMBOLS]
        units = list(UNITS)
        for channel in self.channels:
            names += [f"{channel.name}.{t.name}" for t in CHANGES]
            units += [t.unit(channel.unit == "N") for t in CHANGES]
        return Labels(tuple(names), tuple(units), self.frame)

    @property
    def order(self) -> Sequence[int]:
        """The load's mass last of its ten, as for a robot's bodies; then friction."""
        return column_order(1, len(self.labels))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the model file."""
        return self.carrier.notes

    def rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Rows:
        """Return Y of the measured joints, shape (N, c, columns) [N·m or N, per column's unit]."""
        robot, motion = self.carrier.robot, samples.motion
        body, stated = carrying(robot, self.frame)
        own = PARAMETER_COUNT * len(robot.tree.names)
        bodies = np.zeros((robot.tree.channels, own, len(samples.time)))
        kernels.regressor(robot.tree, motion.bodies, bodies)
        carried = np.moveaxis(bodies[robot.measured, body], 2, 0) @ stated
        every = np.concatenate([carried, self._changes(motion.velocity)], axis=2)
        return Rows(every[:, :, list(columns)])

    def _changes(self, velocity: Array) -> Array:
        """Return friction's columns, shape (N, m, 3 m): each joint has its own."""
        measured, width = self.carrier.robot.measured, len(CHANGES)
        changes = np.zeros((velocity.shape[1], len(measured), width * len(measured)))
        for k, c in enumerate(measured):
            changes[:, k, width * k : width * (k + 1)] = steady(CHANGES, velocity[c]).T
        return changes
