"""A robot with wrench sensors inside: what is beyond each is seen by it, whatever the joints say.

    Σ Xᵀ Y_k(a − g, ω, α) π_k + b = w − ε + Σ N λ

over the bodies k beyond a sensor, X from its frame to theirs, w what it measures and b its bias:
the wrench that moves all that hangs on it. Nothing of the joints is in it, neither torque nor
friction, nor what is before the sensor; so a robot whose motors measure nothing is identified piece
by piece, each from its own sensor [Traversaro2016]. Where torques are measured, too, both are rows
of the same parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import Cut, kernels
from heft.information import AXES, PARAMETER_COUNT, ChannelRows, Triangle
from heft.models import ContactOptions, Robot, SensorOptions
from heft.recordings import Recording

from . import robot_signals
from .plant import Channel, ChannelSides, Inputs, Measured, Rows, Samples, Sides
from .robot import RobotMotion, RobotPlant

KINDS = (("force", "N"), ("torque", "N·m"))
SIX = 2 * len(AXES)


@dataclass(frozen=True, eq=False)
class WrenchSensor:
    """A wrench sensor inside a robot."""

    name: str  # its own
    stated: SensorOptions  # what is said of it
    cut: Cut  # what is beyond it
    bias: int | None  # column of its bias along x, of six; None if it has none

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The six axes; forces share one standard deviation, torques another."""
        return tuple(
            Channel(f"{self.name}.{kind}.{axis}", unit, f"{self.name}.{kind}")
            for kind, unit in KINDS
            for axis in AXES
        )

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the six logged signals, in the order of `channels`."""
        frame = self.stated.frame or self.name
        return tuple(f"{kind}.{frame}.{axis}" for kind, _ in KINDS for axis in AXES)

    @property
    def sign(self) -> float:
        """Factor from the reported wrench to that on what is beyond the sensor, 1 or −1."""
        return 1.0 if self.stated.reports == "on_load" else -1.0

    def biases(self, columns: Sequence[int]) -> Array:
        """Return the regressor of the bias, part of the wrench on the load, shape (6, columns).

        Args:
            columns: Positions of standard columns.
        """
        chosen = np.asarray(columns)[None] - np.arange(SIX)[:, None]
        return np.zeros(chosen.shape) if self.bias is None else 1.0 * (chosen == self.bias)

    def rows(self, motion: kernels.Motion, columns: Sequence[int]) -> Array:
        """Return the regressor of its six channels, shape (N, 6, columns).

        Args:
            motion: Motion of the whole robot.
            columns: Positions of standard columns.
        """
        out = np.zeros((SIX, len(columns), motion.sin.shape[1]))
        slots = self.cut.slots(columns)
        kernels.regressor(self.cut.tree, self.cut.motion(motion), out, slots=slots)
        return np.moveaxis(out, 2, 0) + self.biases(columns)

    def sides(self, motion: kernels.Motion, columns: Sequence[int]) -> tuple[Array, Array]:
        """Return momentum and remainder of its six channels, shape (N, 6, columns) each."""
        tree, count = self.cut.tree, motion.sin.shape[1]
        shape = (tree.channels, PARAMETER_COUNT * len(tree.names), count)
        both = np.zeros(shape), np.zeros(shape)
        kernels.momentum(tree, self.cut.motion(motion), both)
        places = self.cut.slots(columns)[0]
        own = np.flatnonzero(places >= 0)
        made = []
        for side in both:
            laid = np.zeros((SIX, len(columns), count))
            laid[:, places[own]] = side[:SIX, own]
            made.append(np.moveaxis(laid, 2, 0))
        return made[0], made[1] - self.biases(columns)

    def reduce(
        self,
        motion: kernels.Motion,
        measured: Array,
        columns: Sequence[int],
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Triangle, ...]:
        """Return one information triangle per channel, formed in cache without storing rows.

        Args:
            measured: Shape (N, 6) [N or N·m].
            columns: Positions of standard columns, ascending.
            counted: Which rows count, shape (N, 6); all if not given.
        """
        plan, places = _plan(self, tuple(columns))
        count = motion.sin.shape[1]
        effort = np.zeros((self.cut.tree.channels, count))
        effort[:SIX] = measured.T
        ones = kernels.DriveColumns(np.ones((1, count)), plan.acts[:, :2], np.ones(SIX))
        counts = np.ones(effort.shape, dtype=bool)
        if counted is not None:
            counts[:SIX] = counted.T
        factors = kernels.reduce(plan, self.cut.motion(motion), ones, effort, counts)
        rows = counts.sum(axis=1).tolist()
        return tuple(Triangle(places[plan.columns[c]], factors[c], rows[c]) for c in range(SIX))

    def wrench(self, motion: kernels.Motion, values: Array) -> Array:
        """Return the predicted wrench of standard parameters, shape (N, 6) [N or N·m].

        Args:
            values: π, shape (p,).
        """
        bodies = np.concatenate([np.zeros(PARAMETER_COUNT), values[self.cut.columns]])
        made = kernels.inverse_dynamics(self.cut.tree, self.cut.motion(motion), bodies)[:SIX].T
        return made if self.bias is None else made + values[self.bias : self.bias + SIX]


@lru_cache(maxsize=64)
def _plan(sensor: WrenchSensor, columns: tuple[int, ...]) -> tuple[kernels.Plan, NDArray[np.intp]]:
    """Return the layout of a sensor's reduction, and its columns' places among those asked for.

    A bias acts on its own axis as one, as a drive's term would.
    """
    tree, ten = sensor.cut.tree, PARAMETER_COUNT
    own = [*sensor.cut.columns, *(() if sensor.bias is None else sensor.bias + np.arange(SIX))]
    place = {c: k for k, c in enumerate(columns)}
    here = [k for k, c in enumerate(own) if int(c) in place]
    acts = np.array([(k, k) for k in range(SIX)], dtype=np.int64)
    chosen = np.array([ten + k for k in here], dtype=np.intp)
    rows = np.zeros(SIX, dtype=np.intp)
    plan = kernels.plan(tree, chosen, acts, np.arange(SIX, dtype=np.intp), rows)
    return plan, np.array([place[int(own[k])] for k in here], dtype=np.intp)


@lru_cache(maxsize=16)
def sensors_of(robot: Robot) -> tuple[WrenchSensor, ...]:
    """Return the wrench sensors inside a robot whose wrench the logs hold, by its options."""
    found = []
    first = len(robot.labels) - len(robot.bias_names)
    for name, stated in (robot.options.sensor or {}).items():
        turn, position = np.array(stated.rotation), np.array(stated.position)
        cut = Cut.before(robot.tree, robot.link(stated.link), turn, position)
        biased = name in robot.biased
        if stated.measured:
            found.append(WrenchSensor(name, stated, cut, first if biased else None))
        first += SIX * biased
    return tuple(found)


@dataclass(frozen=True, eq=False)
class SensedRobotPlant(RobotPlant):
    """A robot with wrench sensors between its links; see the module.

    Channels are those of the joints whose torque is measured, then six a sensor.
    """

    @cached_property
    def sensors(self) -> tuple[WrenchSensor, ...]:
        """The wrench sensors inside that the logs hold."""
        return sensors_of(self.robot)

    @property
    def structure(self) -> object:
        """Key of the base parameters: the first sensor if there is one, else the robot."""
        return self.sensors[0] if self.sensors else self.robot

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """The joints whose torque is measured, then each sensor's six axes."""
        return (*self.joint_channels, *self.sensor_channels)

    @property
    def sensor_channels(self) -> tuple[Channel, ...]:
        """The axes of the wrench sensors inside."""
        return tuple(channel for sensor in self.sensors for channel in sensor.channels)

    @property
    def _own(self) -> slice:
        """Channels of the wrench sensors inside."""
        first = len(self.robot.measured)
        return slice(first, first + SIX * len(self.sensors))

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return joint positions, torques or currents, and wrenches.

        Raises:
            MissingSignal: If one is not there.
            InvalidSetting: If the base floats.
        """
        joints = robot_signals.inputs(self.robot, recording, measured)
        if not measured:
            return joints
        return replace(joints, measured=(*joints.measured, *self.sensor_inputs(recording)))

    def sensor_inputs(self, recording: Recording) -> tuple[Measured, ...]:
        """Return what the axes of the wrench sensors inside measure.

        Raises:
            MissingSignal: If one is not there.
        """
        found, channel = [], self._own.start
        for sensor in self.sensors:
            recording.require(sensor.signals, f"is what wrench sensor '{sensor.name}' measures")
            for signal in sensor.signals:
                found.append(Measured(channel, ((signal, sensor.sign),)))
                channel += 1
        return tuple(found)

    def as_measured(self, effort: Array) -> Array:
        """Return efforts of the robot's channels, zero for sensors; see `RobotPlant`."""
        return self._padded(RobotPlant.as_measured(self, effort))

    def _padded(self, rows: Array) -> Array:
        if not self.sensors:
            return rows
        room = SIX * len(self.sensors)
        return np.concatenate([rows, np.zeros((len(rows), room, *rows.shape[2:]))], axis=1)

    def sensed(self, motion: RobotMotion, values: Array) -> Array:
        """Return what wrench sensors measure, zero for all other channels; see `RobotPlant`."""
        out = RobotPlant.sensed(self, motion, values)
        for k, sensor in enumerate(self.sensors):
            first = self._own.start + SIX * k
            out[:, first : first + SIX] = sensor.wrench(motion.bodies, values)
        return out

    def rows(self, samples: Samples[Any], columns: Sequence[int]) -> Rows:
        """Return the regressor Y of joints and sensors; arguments as of `Plant.rows`."""
        joints = RobotPlant.rows(self, samples, columns).regressor
        made = [s.rows(samples.motion.bodies, columns) for s in self.sensors]
        return Rows(np.concatenate([joints, *made], axis=1))

    def channel_rows(
        self, samples: Samples[Any], columns: Sequence[int], channels: Sequence[int] | None = None
    ) -> tuple[ChannelRows, ...]:
        """Return rows of joints and sensors, channel by channel; see `Limbed`."""
        joints, own = len(self.robot.measured), self._own
        chosen = range(own.stop) if channels is None else channels
        of_joints = [c for c in chosen if c < joints]
        made = dict(
            zip(of_joints, RobotPlant.channel_rows(self, samples, columns, of_joints), strict=True)
        )
        for k, sensor in enumerate(self.sensors):
            six = range(own.start + SIX * k, own.start + SIX * (k + 1))
            if any(c in six for c in chosen):
                found = ChannelRows.of_each(sensor.rows(samples.motion.bodies, columns))
                made |= dict(zip(six, found, strict=True))
        return tuple(made[c] for c in chosen)

    def channel_sides(self, samples: Samples[Any], columns: Sequence[int]) -> ChannelSides:
        """Return W₂ and F of joints and sensors; see `RobotPlant.channel_sides`."""
        made = RobotPlant.channel_sides(self, samples, columns)
        for sensor in self.sensors:
            sides = Sides(*sensor.sides(samples.motion.bodies, columns))
            made = made.beside(ChannelSides.of_each(sides))
        return made

    def reduce(
        self,
        samples: Samples[Any],
        columns: Sequence[int],
        channels: Sequence[int] | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Triangle, ...]:
        """Return one information triangle per channel; see `RobotPlant.reduce`."""
        joints, own = len(self.robot.measured), self._own
        chosen = range(own.stop) if channels is None else channels
        first = len(self.labels) - len(self.robot.bias_names)
        plain = replace(samples, measured=samples.measured[:, :joints])
        of_joints = [c for c in chosen if c < joints]
        made = dict(
            zip(
                of_joints,
                RobotPlant.reduce(
                    self, plain, [c for c in columns if c < first], of_joints, counted
                ),
                strict=True,
            )
        )
        for k, sensor in enumerate(self.sensors):
            six = range(own.start + SIX * k, own.start + SIX * (k + 1))
            if any(c in six for c in chosen):
                measured = samples.measured[:, six.start : six.stop]
                rows = None if counted is None else counted[:, six.start : six.stop]
                found = sensor.reduce(samples.motion.bodies, measured, columns, rows)
                made |= dict(zip(six, found, strict=True))
        return tuple(made[c] for c in chosen)

    def sliding(self, samples: Samples[Any], speed: float) -> NDArray[np.int64]:
        """Return sliding directions of drives, 1 for sensors; see `RobotPlant.sliding`."""
        found = RobotPlant.sliding(self, samples, speed)
        ones = np.ones((len(found), SIX * len(self.sensors)), dtype=np.int64)
        return np.hstack([found, ones])

    def predict(self, samples: Samples[Any], values: Array) -> Array:
        """Return Y π of joints and sensors, shape (N, channels); see `RobotPlant.predict`."""
        made = RobotPlant.predict(self, samples, values)
        return made + self.sensed(samples.motion, values) if self.sensors else made

    def sensitivity(self, samples: Samples[Any], values: Array) -> tuple[ChannelRows, ...]:
        """Return derivatives by the point, none for sensors; see `RobotPlant.sensitivity`."""
        nothing = ChannelRows.nothing(len(samples.time))
        sensors = [nothing] * (SIX * len(self.sensors))
        return (*RobotPlant.sensitivity(self, samples, values), *sensors)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[Any]:
        """Return N = `count` random states; see `RobotPlant`."""
        made = RobotPlant.random_samples(self, count, rng)
        return replace(made, measured=np.zeros((count, len(self.channels))))

    def acting_inside(self, motion: RobotMotion, contact: ContactOptions) -> Array:
        """Return the map from a contact's wrench to the wrench sensors between it and the base.

        Returns:
            Shape (N, 6 sensors, 6).
        """
        link, point = self.robot.link(contact.link), np.array(contact.point)
        out = np.zeros((motion.position.shape[1], SIX * len(self.sensors), SIX))
        for k, sensor in enumerate(self.sensors):
            if sensor.cut.holds(link):
                made = sensor.cut.contact_map(link, point, motion.position.T)
                out[:, SIX * k : SIX * (k + 1)] = made
        return out
