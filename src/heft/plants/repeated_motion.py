"""A load in the difference of torques of one motion, run with it and without it.

    τ_loaded(t) − τ_empty(t + lag) = Y_load(q, q̇, q̈) p + friction's change

What the robot needs for itself is the same in both runs and drops out, so that of its model file
only the kinematics are used. A recording holds the loaded run's positions, `q.JOINT`, and the
difference, `tau.JOINT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heft.arrays import Array
from heft.dynamics import Offset, Sigmoid, Term, Viscous, kernels, steady
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Labels,
    ParameterSpace,
    column_order,
    inertia,
)
from heft.models import Robot
from heft.recordings import Recording
from heft.signals import Smoothed

from .payload_on_robot import GUESS, NAME, carrying
from .plant import Channel, Inputs, Plant, Rows, Samples
from .robot import RobotMotion, RobotPlant

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
