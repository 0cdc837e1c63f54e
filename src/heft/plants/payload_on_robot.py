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
    rows = len(space.matrix)
    links, drives = space.matrix[:, :first], space.matrix[:, first:]
    none = np.zeros((rows, PARAMETER_COUNT))
    matrix = np.vstack(
        [
            np.hstack([links, none, drives]),
            np.hstack(
                [
                    np.zeros((PARAMETER_COUNT, first)),
                    np.eye(PARAMETER_COUNT),
                    np.zeros((PARAMETER_COUNT, drives.shape[1])),
                ]
            ),
        ]
    )
    nominal = np.concatenate([space.nominal[:first], inertia.sphere(*GUESS), space.nominal[first:]])
    return ParameterSpace(
        Labels(names, units, labels.frame),
        matrix,
        nominal,
        (*space.groups, first),
        tuple(k + PARAMETER_COUNT for k in space.nonnegative),
    )


# What of friction changes with the load; the scale is a speed [rad/s or m/s].
CHANGES: tuple[Term, ...] = (Offset(), Sigmoid(0.02), Viscous())


@dataclass(frozen=True, eq=False)
class RepeatedMotion(Plant[RobotMotion]):
    """A load fixed to a robot's link, seen in the difference of torques of one motion run twice.

    Columns: the load's ten parameters in the link's frame, then for each measured joint the
    change of its friction: offset, Coulomb (smoothed) and viscous. Channels: the joints.
    """

    robot: Robot  # for its kinematics
    frame: str  # the link that the load is fixed to

    @cached_property
    def empty(self) -> RobotPlant:
        """The robot without load, whose signals, motion and joints the difference shares."""
        return RobotPlant(self.robot)

    @cached_property
    def labels(self) -> Labels:
        """Labels of the load's ten parameters, then of the changes of each joint's friction."""
        names = [f"{NAME}.{s}" for s in SYMBOLS]
        units = list(UNITS)
        for channel in self.channels:
            names += [f"{channel.name}.{t.name}" for t in CHANGES]
            units += [t.unit(channel.unit == "N") for t in CHANGES]
        return Labels(tuple(names), tuple(units), self.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """The load's ten parameters, physically consistent; changes of friction of either sign."""
        changes = np.zeros(len(self.labels) - PARAMETER_COUNT)
        nominal = np.concatenate([inertia.sphere(*GUESS), changes])
        return ParameterSpace.of_one_body(self.labels, nominal)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The joints whose torque is measured."""
        return self.empty.channels

    @property
    def order(self) -> Sequence[int]:
        """The load's mass last of its ten, as for a robot's bodies; then friction."""
        return column_order(1, len(self.labels))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the model file."""
        return self.robot.notes

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return joint positions, and differences of torques.

        Args:
            recording: Both runs as one log: the motion, and the torques' differences.

        Raises:
            MissingSignal: If one is not there.
        """
        return self.empty.inputs(recording, measured)

    def motion(self, smoothed: Smoothed) -> RobotMotion:
        """Return the motion of the loaded run.

        Raises:
            FitError: If smoothing left numbers that are not finite.
        """
        return self.empty.motion(smoothed)

    def rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Rows:
        """Return rows of the measured joints.

        Returns:
            Y, shape (N, c, columns) [N·m or N, per unit of the column].
        """
        robot, motion = self.robot, samples.motion
        body, stated = carrying(robot, self.frame)
        own = PARAMETER_COUNT * len(robot.tree.names)
        bodies = np.zeros((robot.tree.channels, own, len(samples.time)))
        kernels.regressor(robot.tree, motion.bodies, bodies)
        carried = np.moveaxis(bodies[robot.measured, body], 2, 0) @ stated
        whole = np.concatenate([carried, self._changes(motion.velocity)], axis=2)
        return Rows(whole[:, :, list(columns)])

    def _changes(self, velocity: Array) -> Array:
        """Return friction's columns, shape (N, m, 3 m): each joint has its own."""
        measured, width = self.robot.measured, len(CHANGES)
        found = np.zeros((velocity.shape[1], len(measured), width * len(measured)))
        for k, c in enumerate(measured):
            found[:, k, width * k : width * (k + 1)] = steady(CHANGES, velocity[c]).T
        return found

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[RobotMotion]:
        """Return random states; see `RobotPlant.random_samples`."""
        return self.empty.random_samples(count, rng)
