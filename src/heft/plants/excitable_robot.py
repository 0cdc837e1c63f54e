"""A robot whose motion can be designed: rows with smooth friction, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import (
    LINEAR_SCALE,
    PRISMATIC,
    Drive,
    Drives,
    Sigmoid,
    Term,
    adjoint,
    drive_columns,
    kernels,
)
from heft.information import SYMBOLS, UNITS, Labels, ParameterSpace, inertia
from heft.models import Robot
from heft.recordings import Recording
from heft.signals import Smoothed

from .payload_on_robot import GUESS, NAME, carrying
from .plant import Channel, Coordinate, Inputs, Plant, Rows, Samples
from .robot import RobotMotion, RobotPlant
from .robot_rows import fixed_positions

COULOMB_SPEED = 0.031  # [rad/s], one of the dictionary's: wide enough to be differentiated


def with_smooth_friction(
    robot: Robot, speed: float = COULOMB_SPEED, dictionary: bool = False
) -> Robot:
    """Return the robot with the friction of a URDF in smooth terms: viscous, Coulomb, offset.

    A dictionary with memory cannot be differentiated, and which motion tells the bodies apart does
    not depend on it. Coulomb friction is `tanh(w/speed)`. Rotor inertia stays as it is.

    Args:
        speed: Speed at which Coulomb friction saturates [rad/s]; `LINEAR_SCALE` times that for
            prismatic joints [m/s].
        dictionary: Whether the smooth terms of the robot's own friction are kept besides: a motion
            that is to tell a curve over the speed is slow at times, one for Coulomb friction alone
            hardly ever.
    """

    def smooth(drive: Drive, term: Term) -> Term:
        if term.smooth:
            return term
        return Sigmoid(speed * (LINEAR_SCALE if drive.linear else 1.0))

    def of(drive: Drive) -> Drive:
        inertial = tuple(t for t in drive.terms if t.inertial)
        simple = tuple(smooth(drive, t) for t in drive.simple_terms)
        own = (t for t in drive.friction if t.smooth and t not in simple) if dictionary else ()
        return replace(drive, terms=(*inertial, *simple, *own))

    return replace(robot, drives=Drives(tuple(of(d) for d in robot.drives)))


@dataclass(frozen=True, eq=False)
class ExcitableRobot(RobotPlant):
    """A robot with smooth friction as a plant, whose coordinates are the joints that move."""

    @staticmethod
    def of(robot: Robot, dictionary: bool = False) -> ExcitableRobot:
        """Return the plant of a robot with any friction; see `with_smooth_friction`."""
        return ExcitableRobot(with_smooth_friction(robot, dictionary=dictionary))

    @cached_property
    def moving(self) -> NDArray[np.intp]:
        """Channels of the joints that are not held still."""
        return np.flatnonzero(np.isnan(fixed_positions(self.robot)))

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The joints that move."""
        tree, joints = self.robot.tree, self.robot.joints
        linear = set(tree.channel[tree.kind == PRISMATIC].tolist())
        return tuple(Coordinate(joints[c], "m" if c in linear else "rad") for c in self.moving)

    def samples_at(self, q: Array, v: Array, a: Array) -> Samples[RobotMotion]:
        """Return samples of a motion of the coordinates; arguments as of `Excitable`."""
        robot = self.robot
        states = np.zeros((3, len(q), len(robot.joints)))
        states[0] = np.nan_to_num(fixed_positions(robot))
        states[:, :, self.moving] = q, v, a
        bodies = kernels.motion_of(robot.tree, robot.gravity, *states)
        motion = RobotMotion(np.ascontiguousarray(states[0].T), bodies.velocity, bodies)
        return Samples.of_motion(motion, len(q), len(self.channels))

    def rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Rows:
        """Return the regressor Y of the measured joints, forming the wanted columns only.

        Laid out as (joints, columns, N), which `pull_back` reads fastest.
        """
        robot, own = self.robot, self.bodies_size
        slots = kernels.slots_of(robot.tree, tuple(columns))
        out = np.zeros((robot.tree.channels, len(columns), len(samples.time)))
        kernels.regressor(robot.tree, samples.motion.bodies, out, slots=slots)
        drives = range(own, own + len(robot.drive_columns))
        chosen = [(k, robot.drive_columns[c - own]) for k, c in enumerate(columns) if c in drives]
        scatter = drive_columns.columns(
            robot.drives, [c for _, c in chosen], self.drive_state(samples)
        )
        for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
            out[channel, chosen[column][0]] += weight * scatter.values[column]
        mine = self._own_places(columns)
        if robot.own_columns is not None and mine:
            made = robot.own_columns.rows(*samples.motion.of_channels)
            out[:, list(mine)] = made[:, list(mine.values())]
        all_measured = len(robot.measured) == len(out)
        return Rows(np.moveaxis(out if all_measured else out[robot.measured], 2, 0))

    def pull_back(
        self, samples: Samples[RobotMotion], columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y by q, v and a, each of shape (N, d); see `Excitable`."""
        robot, own = self.robot, self.bodies_size
        laid = np.moveaxis(seeds, 0, 2)
        if len(robot.measured) < robot.tree.channels:
            laid = np.zeros((robot.tree.channels, *laid.shape[1:]))
            laid[robot.measured] = np.moveaxis(seeds, 0, 2)
        bodies = samples.motion.bodies
        slots = kernels.slots_of(robot.tree, tuple(columns))
        gradients = adjoint.pull_back(robot.tree, bodies, np.moveaxis(laid, 2, 0), slots)
        mine = self._own_places(columns)
        if robot.own_columns is not None and mine:
            pushed = np.zeros((len(laid), len(robot.own_names), laid.shape[2]))
            pushed[:, list(mine.values())] = laid[:, list(mine)]
            by_own = robot.own_columns.pull_back(*samples.motion.of_channels, pushed)
            for gradient, more in zip(gradients, by_own, strict=True):
                gradient += more
        for k, column in enumerate(columns):
            if column < own or k in mine:
                continue
            d, term = robot.drive_columns[column - own]
            ratio = robot.drives[d].ratio
            moved = np.flatnonzero(ratio)
            pulled = ratio[moved] @ laid[moved, k]
            if term.inertial:
                gradients[2][moved] += np.outer(ratio[moved], pulled)
                continue
            slope = term.speed_slope(ratio[moved] @ bodies.velocity[moved])
            gradients[1][moved] += np.outer(ratio[moved], pulled * slope)
        q, v, a = (part[self.moving].T for part in gradients)
        return q, v, a

    def _own_places(self, columns: Sequence[int]) -> dict[int, int]:
        """Return the index of each of the user's own columns, by its position in `columns`."""
        first = self.bodies_size + len(self.robot.drive_columns)
        own = range(first, first + len(self.robot.own_names))
        return {k: c - first for k, c in enumerate(columns) if c in own}


@dataclass(frozen=True, eq=False)
class ExcitableLoad(Plant[RobotMotion]):
    """A load on a known robot as a plant: the same motion, the load's ten columns alone.

    Use it to design what tells a payload. Signals, motion and channels are the robot's.
    """

    carrier: ExcitableRobot  # the robot that moves it
    frame: str  # the link that the load is fixed to, in whose frame it is stated

    @cached_property
    def labels(self) -> Labels:
        """Labels of the load's ten inertial parameters."""
        return Labels(tuple(f"{NAME}.{s}" for s in SYMBOLS), UNITS, self.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """The load's ten parameters, physically consistent; no prior."""
        return ParameterSpace.of_one_body(self.labels, inertia.sphere(*GUESS))

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

    @cached_property
    def _body(self) -> tuple[list[int], Array]:
        body, stated = carrying(self.carrier.robot, self.frame)
        return list(range(body.start, body.stop)), stated

    @property
    def rounding(self) -> float:
        """Size that rounding of angles leaves of dependent columns, relative to the longest."""
        return self.carrier.rounding

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The joints that move."""
        return self.carrier.coordinates

    def samples_at(self, q: Array, v: Array, a: Array) -> Samples[RobotMotion]:
        """Return samples of a motion of the coordinates; arguments as of `Excitable`."""
        return self.carrier.samples_at(q, v, a)

    def rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Rows:
        """Return the load's columns of the regressor, shape (N, joints, columns)."""
        body, stated = self._body
        made = np.moveaxis(self.carrier.rows(samples, body).regressor, 0, 2)
        return Rows(np.moveaxis(stated[:, list(columns)].T @ made, 2, 0))

    def pull_back(
        self, samples: Samples[RobotMotion], columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y by q, v and a, each of shape (N, d); see `Excitable`."""
        body, stated = self._body
        seeds = np.moveaxis(stated[:, list(columns)] @ np.moveaxis(seeds, 0, 2), 2, 0)
        return self.carrier.pull_back(samples, body, seeds)
