"""What is known before a motion is designed: robot, limits, room, noise, earlier information."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heft.applications.identification import Identified
from heft.arrays import Array
from heft.dynamics import Term, steady
from heft.errors import InvalidSetting
from heft.excitation import (
    Clearance,
    DesignLimits,
    EffortLimits,
    JointLimits,
    Loads,
    link_deviations,
    noise_of,
)
from heft.fit import Earlier
from heft.information import PARAMETER_COUNT, Information, Labels, inertia
from heft.models import MotionLimits, Options, Robot, fit_capsules, motion_limits
from heft.plants import ExcitableLoad, ExcitableRobot, carrying, structural_base

LOOKED_AT = (
    "torque of own columns is looked at every 5 ms or finer and bounded by how it changes there: "
    "that is no proof for a function that jumps in between"
)
STATED_COLUMNS = "[motion.own_columns]"
ROW_RATE = 100.0  # independent rows a second, where no log says how many there are [Hz]


@dataclass(frozen=True, eq=False)
class RoomClearance:
    """Clearance of a robot of which some joints may be held still; see `Clearance`."""

    whole: Clearance  # of all channels
    posture: Array  # at which joints that are held stand, shape (channels,) [rad or m]
    moving: NDArray[np.intp]  # channels that move

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pair that each distance is between."""
        return tuple(" and ".join(pair) for pair in self.whole.names)

    def _postures(self, q: Array) -> Array:
        postures = np.tile(self.posture, (len(q), 1))
        postures[:, self.moving] = q
        return postures

    def values(self, q: Array) -> Array:
        """Return distances less the required clearance, shape (N, m) [m].

        Args:
            q: Positions of the joints that move, shape (N, d) [rad or m].
        """
        return self.whole.values(self._postures(q))

    def pull_back(self, q: Array, seeds: Array) -> Array:
        """Return the gradient of `(seeds * values(q)).sum()`, shape (N, d).

        Args:
            seeds: Shape (N, m).
        """
        return self.whole.pull_back(self._postures(q), seeds)[:, self.moving]


@dataclass(frozen=True, eq=False)
class Rubbing:
    """One term of a drive's friction, with its relative error."""

    ratio: Array  # of the drive's speed to each channel's, shape (d,)
    term: Term  # the term
    value: float  # its coefficient, as believed
    doubt: float  # share by which that may be wrong

    def between(self, slow: Array, fast: Array) -> tuple[Array, Array]:
        """Return the least and the greatest effort at speeds between two, each of shape (n, d)."""
        ends = np.stack([slow * self.ratio, fast * self.ratio])
        speeds = (ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1))
        torque = np.stack([self.value * steady([self.term], w)[0] for w in speeds])
        more = self.doubt * np.abs(torque).max(axis=0)
        bounds = [(torque.min(axis=0) - more), (torque.max(axis=0) + more)]
        passed = np.stack([np.outer(f, self.ratio) for f in bounds])
        return passed.min(axis=0), passed.max(axis=0)


@dataclass(frozen=True)
class CarriedLoad:
    """A load that is to be identified, carried by a robot."""

    frame: str  # link that it is fixed to
    heaviest: float = 2.0  # mass that it has at most [kg]
    # distance of its centre of mass from the frame, along each axis, at most [m]
    reach: float = 0.15

    def tens(self, robot: Robot) -> tuple[Array, Array]:
        """Return the heaviest load's part of the bodies' parameters, and its possible deviations.

        Returns:
            Shapes (10 bodies,) and (3, 10 bodies): with its centre in the frame's origin, and what
            its centre being elsewhere adds, axis by axis.
        """
        body, stated = carrying(robot, self.frame)
        tens = np.zeros((4, PARAMETER_COUNT * len(robot.tree.names)))
        own = np.zeros((4, PARAMETER_COUNT))
        own[0] = inertia.sphere(self.heaviest, self.reach)
        own[1:, 1:4] = self.heaviest * self.reach * np.eye(3)
        tens[:, body] = own @ stated.T
        return tens[0], tens[1:]


@dataclass(frozen=True, eq=False)
class PlannedExperiment:
    """A robot about to be excited, and what is known of it."""

    robot: Robot  # with its options
    stated: MotionLimits  # limits of all joints, margins taken off
    # of its links from one another and the room; None where nothing can collide
    clearance: Clearance | None
    noise: Array  # σ of each channel's independent rows, shape (c,) [N·m or N]
    rate: float  # independent rows a second that a log will have [Hz]
    known: Information | None  # information of earlier logs; None without any
    doubt: float  # share of each body's parameters that may be wrong
    drives: float  # the same of friction and rotor inertia
    # coefficients of smooth friction, rotor inertia and own columns by name
    believed: Mapping[str, float]
    remarks: tuple[str, ...]  # what a user should know of the limits
    # what is to be told instead of the robot; None if nothing is carried
    load: CarriedLoad | None = None
    own: float = 0.0  # share of the parameters of own columns that may be wrong

    @cached_property
    def carrier(self) -> ExcitableRobot:
        """The robot that moves, with viscous and Coulomb friction."""
        return ExcitableRobot.of(self.robot)

    @cached_property
    def plant(self) -> ExcitableRobot | ExcitableLoad:
        """What is to be identified: the robot with the friction to be fitted, or its load."""
        if self.load is not None:
            return ExcitableLoad(self.carrier, self.load.frame)
        return ExcitableRobot.of(self.robot, dictionary=True)

    @cached_property
    def posture(self) -> Array:
        """Position of each channel that is held still, 0 of the others, (channels,) [rad or m]."""
        return np.array([self.robot.options.of(j).position or 0.0 for j in self.robot.joints])

    def values(self, labels: Labels) -> Array:
        """Return believed values π₀ of the robot's standard columns, shape (p,).

        Args:
            labels: Of the p columns, the bodies' first; unknown friction is 0.
        """
        made = np.zeros(len(labels))
        bodies = self.robot.written_bodies()
        made[: len(bodies)] = bodies
        for k in range(len(bodies), len(labels)):
            made[k] = self.believed.get(labels.names[k], 0.0)
        return made

    def deviations(self, values: Array) -> Array:
        """Return the possible errors of values that torque is predicted with, shape (p, K)."""
        robot, bodies = self.robot, len(self.robot.tree.names)
        others = np.full(len(values) - PARAMETER_COUNT * bodies, self.drives)
        end = len(others) - len(robot.bias_names)  # of sensors inside, which stand last
        others[end - len(robot.own_names) : end] = self.own
        return link_deviations(values, bodies, self.doubt, others)

    def limits(self) -> DesignLimits:
        """Return all limits of the joints that move, as the solver takes them."""
        moving, stated = self.carrier.moving, self.stated
        joints = JointLimits(
            stated.lower[moving],
            stated.upper[moving],
            stated.velocity[moving],
            stated.acceleration[moving],
            stated.jerk[moving],
        )
        channels = [c.name for c in self.plant.channels]
        measured = [self.robot.joints.index(c) for c in channels if c in self.robot.joints]
        power = stated.power[measured] if measured == moving.tolist() else None
        torque = stated.effort[measured]
        effort = None
        limited = np.isfinite(torque).any() or (power is not None and np.isfinite(power).any())
        # A load's rows tell no torque of the robot: that is looked at when limits are proven.
        if limited and len(measured) == len(channels) and self.load is None:
            values = self.values(self.plant.labels)
            effort = EffortLimits(values, torque, power, self.deviations(values))
        clearance: tuple[RoomClearance, ...] = ()
        if self.clearance is not None and len(self.clearance.pairs):
            clearance = (RoomClearance(self.clearance, self.posture, moving),)
        return DesignLimits(joints, effort, clearance, stated.frequency)

    def loads(self) -> Loads:
        """Return the bodies, rotors and friction that the drives move, for certificates."""
        robot = self.carrier.robot
        bodies = PARAMETER_COUNT * len(robot.tree.names)
        armature = np.zeros((robot.tree.channels, robot.tree.channels))
        rubbing, values = [], self.values(robot.labels)
        for column, (d, term) in enumerate(robot.drive_columns, bodies):
            ratio, value = robot.drives[d].ratio, float(values[column])
            if term.inertial:
                armature += value * np.outer(ratio, ratio)
            else:
                rubbing.append(Rubbing(ratio, term, value, self.drives))

        def friction(slow: Array, fast: Array) -> tuple[Array, Array]:
            parts = [r.between(slow, fast) for r in rubbing]
            least, most = (np.sum([p[k] for p in parts], axis=0) for k in range(2))
            return least, most

        wrong = self.deviations(values)[:bodies]
        deviations = wrong.T[np.any(wrong != 0.0, axis=0)]
        parameters = values[None, :bodies]
        if self.load is not None:
            heaviest, spread = self.load.tens(robot)
            parameters = np.vstack([parameters, parameters + heaviest])
            deviations = np.vstack([deviations, spread])
        return Loads(
            robot.tree,
            robot.gravity,
            parameters,
            armature,
            friction if rubbing else None,
            deviations,
            self.drives * armature,
            self._passive(),
        )

    def _passive(self) -> Callable[[Array, Array, Array], tuple[Array, Array]] | None:
        """Return own columns' torque and possible error as a function; None without any."""
        own = self.robot.own_columns
        if own is None:
            return None
        values = np.array([self.believed.get(n, 0.0) for n in own.names])

        def passive(q: Array, v: Array, a: Array) -> tuple[Array, Array]:
            each = np.moveaxis(own.rows(q.T, v.T, a.T), 2, 0) * values
            return each.sum(axis=2), self.own * np.abs(each).sum(axis=2)

        return passive


def open_experiment(
    model: Path,
    options: Path | None = None,
    given: Path | None = None,
    collisions: bool = True,
    load: CarriedLoad | None = None,
    own_columns: Path | None = None,
) -> PlannedExperiment:
    """Return what is known of a robot before its motion is designed.

    Args:
        options: TOML with what a model file cannot say; its table [motion] states the limits.
        own_columns: Python file of the user's own columns, which is run.

    Raises:
        InputError: If a file cannot be read or is malformed, or the earlier results are of another
            file of own columns.
        InvalidSetting: If the base floats, a joint's limits are not known, or torque is limited and
            nothing says what own columns take of it.
    """
    stated = Options.from_toml(options) if options else Options()
    earlier = Identified.load(given, own_columns) if given else None
    remarks: tuple[str, ...] = ()
    if earlier is not None:
        before = earlier.robot.options
        if options and replace(stated, motion=before.motion) != before:
            remarks = (f"of {options} only [motion] counts: {given} has its own options",)
        stated = replace(before, motion=stated.motion)
    robot = Robot.from_file(model, stated).with_own_columns(own_columns)
    if stated.motion.own_columns and robot.own_columns is None:
        raise InvalidSetting(
            "parameters of own columns are stated, but not the file that says what they do",
            argument=STATED_COLUMNS,
            got=", ".join(stated.motion.own_columns),
            cure="name it on the command line: --columns springs.py",
        )
    if stated.motion.own_columns and earlier is not None:
        remarks = (*remarks, f"{STATED_COLUMNS} does not count: {given} holds their parameters")
    if robot.tree.free_base:
        raise InvalidSetting(
            "no motion is designed for a floating base: its contacts push one way only, and a "
            "motion of the joints alone tips it over, unless a controller keeps its balance",
            argument='base = "free"',
            cure='say base = "fixed" and hang the robot up or clamp its trunk for the experiment; '
            'or log what its own controller does, and identify from that with base = "free"',
        )
    limits = motion_limits(robot)
    clearance, remarks = None, (*remarks, *limits.notes)
    if collisions:
        clearance = Clearance.of(robot, fit_capsules(robot, model.parent), limits)
        remarks = (*remarks, *clearance.notes)
    plant = ExcitableRobot.of(robot)
    effort = dict(zip(robot.joints, limits.effort.tolist(), strict=True))
    noise = noise_of(np.array([effort.get(c.name, math.inf) for c in plant.channels]))
    # A fifth of each body's parameters and half of friction and rotors may be wrong.
    experiment = PlannedExperiment(
        robot, limits, clearance, noise, ROW_RATE, None, 0.2, 0.5, {}, remarks
    )
    own, limited = robot.own_columns, np.isfinite([*limits.effort, *limits.power]).any()
    if earlier is not None:
        experiment = _with_results(experiment, earlier)
    elif own is not None and (stated.motion.own_columns or limited):
        values = own.parameters(stated.motion.own_columns, STATED_COLUMNS).tolist()
        believed = dict(zip(own.names, values, strict=True))
        remarks = (*remarks, LOOKED_AT)
        experiment = replace(experiment, believed=believed, own=experiment.drives, remarks=remarks)
    return experiment if load is None else replace(experiment, load=load, known=None)


def _with_results(experiment: PlannedExperiment, identified: Identified) -> PlannedExperiment:
    robot, folder = experiment.robot, identified.folder
    if identified.robot.joints != robot.joints:
        raise InvalidSetting(
            "these results are of another robot",
            argument=f"--given {folder}",
            got=", ".join(identified.robot.joints),
            expected=", ".join(robot.joints),
        )
    information = Earlier.load(folder / "information.npz")
    if isinstance(information, Earlier):  # which may tell other base parameters, of other channels
        information = information.about(structural_base(experiment.plant))
    entries = {e["name"]: e for e in identified.estimate["information"]["channels"]}
    seconds = sum(i["duration_s"] for i in identified.estimate["inputs"] if "duration_s" in i)
    noise, rates = experiment.noise.copy(), []
    for c, channel in enumerate(experiment.plant.channels):
        entry = entries.get(channel.name)
        if entry and entry["residual_std"] > 0.0 and entry["independent_rows"] > 0.0:
            share = entry["rows"] / entry["independent_rows"]
            noise[c] = entry["residual_std"] * math.sqrt(share)
            rates.append(entry["rows"] / seconds if seconds else ROW_RATE)
    smooth = dict(identified.friction["simple"])
    believed = {_named(k, experiment.carrier): v for k, v in smooth.items()}
    return replace(
        experiment,
        robot=replace(identified.robot, options=robot.options),
        noise=noise,
        rate=float(np.median(rates)) if rates else experiment.rate,
        known=information,
        doubt=0.05,  # shares of a robot that was identified
        believed=believed,
        own=0.05,
        remarks=experiment.remarks
        if robot.own_columns is None
        else (*experiment.remarks, LOOKED_AT),
    )


def _named(name: str, plant: ExcitableRobot) -> str:
    """Return a simple term's name in the plant's columns, where Coulomb friction is smooth."""
    owner, _, term = name.rpartition(".")
    if term != "coulomb":
        return name
    smooth = [n for n in plant.labels.names if n.startswith(f"{owner}.sigmoid")]
    return smooth[0] if smooth else name
