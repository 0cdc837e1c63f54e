"""Parts of a robot beside its joints: sensors, whose channels follow those of the joints.

What a channel of a tree of bodies sees is columns of bodies, and others that act on it by given
values: terms of drives, own columns, constants of gears, biases. `TreeRows` makes rows, both sides
and triangles of them, for joints and for parts.

Of a wrench sensor inside a robot,

    Σ Xᵀ Y_k(a − g, ω, α) π_k + b = w − ε + Σ N λ

over the bodies k beyond it, X from its frame to theirs, w what it measures and b its bias: the
wrench that moves all that hangs on it. Nothing of the joints is in it, neither torque nor friction,
nor what is before the sensor; so a robot whose motors measure nothing is identified piece by piece,
each from its own sensor [Traversaro2016]. Where torques are measured, too, both are rows of the
same parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import Cut, DriveState, Tree, drive_columns, kernels
from heft.errors import InvalidSetting
from heft.information import AXES, PARAMETER_COUNT, ChannelRows, Triangle, triangle_of
from heft.models import Robot, SensorOptions
from heft.recordings import Recording

from .plant import (
    Channel,
    ChannelSides,
    Measured,
    Parted,
    Samples,
    wrench_channels,
    wrench_signals,
)
from .robot_rows import beside_own, kernel_plan, own_slice, standard_size

SIX = 2 * len(AXES)


@dataclass(frozen=True, eq=False)
class TreeRows:
    """What some channels of a tree see at N samples: columns of its bodies, and others."""

    tree: Tree
    plan: kernels.Plan  # which channels, and which columns of each
    motion: kernels.Motion  # of the tree
    others: kernels.DriveColumns  # values of columns that are of no body, and on what they act
    # positions that columns of the plan have among those asked for; their own if not given
    places: NDArray[np.intp] | None = None
    inertial: Sequence[int] = ()  # rows of the other columns' values that are momentum

    @property
    def columns(self) -> tuple[NDArray[np.intp], ...]:
        """Positions of the columns of each channel, ascending."""
        own = [self.plan.columns[c] for c in self.plan.chosen[:, 0]]
        return tuple(own if self.places is None else (self.places[k] for k in own))

    def _acting(self, cut: slice) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Rows of the other columns' values that act, the lines they act on, and what they add."""
        _, rows, lines = self.plan.acts.T
        weights = self.others.weights[self.plan.picked]
        return rows, lines, weights[:, None] * self.others.values[rows, cut]

    def rows(self) -> tuple[ChannelRows, ...]:
        """Return the rows of each channel."""
        plan = self.plan
        out = np.zeros((int(plan.chosen[:, 2].sum()), self.motion.sin.shape[1]))
        kernels.rows_into(self.tree, self.motion, plan.lines, out)
        _, lines, added = self._acting(slice(None))
        out[lines] = added
        each = zip(self.columns, plan.chosen.tolist(), strict=True)
        return tuple(ChannelRows(own, out[at : at + n].T) for own, (_, at, n) in each)

    def part(self, cut: slice) -> ChannelSides:
        """Return momentum and remainder of each channel, of a slice of the samples."""
        motion, plan = self.motion.part(cut), self.plan
        size = int(plan.chosen[:, 2].sum()), motion.sin.shape[1]
        # Every line is of a body, or of what acts.
        momentum, remainder = np.empty(size), np.empty(size)
        kernels.momentum_into(self.tree, motion, plan.lines, (momentum, remainder))
        rows, lines, added = self._acting(cut)
        moving = np.isin(rows, self.inertial)
        momentum[lines[~moving]] = remainder[lines[moving]] = 0.0
        momentum[lines[moving]], remainder[lines[~moving]] = added[moving], -added[~moving]
        return ChannelSides(self.columns, momentum.T, remainder.T)

    def integrated(self, cut: slice, phi: Array, rate: Array) -> Array:
        """Return integrals of both in windows; see `Parted`."""
        plan, others, moving = self.plan, self.others, list(self.inertial)
        out = np.zeros((int(plan.chosen[:, 2].sum()), len(phi)))
        kernels.windows_into(self.tree, self.motion.part(cut), plan.lines, (phi, rate), out)
        sums = others.values[:, cut] @ phi.T
        sums[moving] = -(others.values[moving, cut] @ rate.T)
        out[plan.acts[:, 2]] = others.weights[plan.picked][:, None] * sums[plan.acts[:, 1]]
        return out.T

    def reduce(
        self, measured: Array, counted: NDArray[np.bool_] | None = None
    ) -> tuple[Triangle, ...]:
        """Return one triangle `[R z; 0 ρ]` per channel, formed in cache without storing rows.

        Args:
            measured: Shape (N, channels), or (N, channels, looks); see `Fused` [channel's unit].
            counted: Which rows count, shape (N, channels); all if not given.
        """
        plan, chosen = self.plan, self.plan.chosen[:, 0]
        effort = np.zeros((*measured.shape[2:], len(plan.columns), len(measured)))
        effort[..., chosen, :] = measured.T
        counts = None
        rows = [len(measured)] * len(chosen)
        if counted is not None:
            counts = np.ones(effort.shape[-2:], dtype=bool)
            counts[chosen] = counted.T
            rows = counts[chosen].sum(axis=1).tolist()
        factors = kernels.reduce(plan, self.motion, self.others, effort, counts)
        each = zip(self.columns, chosen, rows, strict=True)
        return tuple(Triangle(columns, factors[c], n) for columns, c, n in each)


def joint_rows(
    robot: Robot,
    motion: kernels.Motion,
    state: DriveState,
    columns: Sequence[int],
    chosen: NDArray[np.intp],
) -> TreeRows:
    """Return what some channels of a robot see of some of its columns; joints see no bias.

    Args:
        columns: Positions of standard columns, ascending.
        chosen: Positions of the robot's channels.
    """
    end = own_slice(robot).stop
    plan = kernel_plan(robot, tuple(c for c in columns if c < end), tuple(chosen.tolist()))
    drives = robot.drive_columns
    wanted = [k for k in np.unique(plan.acts[:, 1]).tolist() if k < len(drives)]
    others = drive_columns.columns(robot.drives, drives, state, wanted)
    if robot.own_columns is not None:
        others = beside_own(robot.own_columns, others, state)
    return TreeRows(robot.tree, plan, motion, others)


def momentum_rows(
    robot: Robot,
    motion: kernels.Motion,
    state: DriveState,
    columns: Sequence[int],
    chosen: NDArray[np.intp],
) -> TreeRows:
    """Return what some channels of a robot see, for their sides; arguments as above.

    A rotor's momentum is its armature times its speed, which takes the place of ẇ.
    """
    if robot.own_columns is not None and robot.own_columns.accelerated:
        raise InvalidSetting(
            "own columns that depend on acceleration have no weak form",
            argument=robot.own_columns.source,
            cure="take differentiated rows",
        )
    made = joint_rows(robot, motion, state.accelerating_by_velocity(), columns, chosen)
    inertial = [k for k, (_, term) in enumerate(robot.drive_columns) if term.inertial]
    return replace(made, inertial=inertial)


def both_sides(robot: Robot, motion: kernels.Motion, state: DriveState) -> tuple[Array, Array]:
    """Return W₂ and F of the weak form `∫(−φ̇ W₂ − φ F) π dt = ∫φ τ dt`, each (N, channels, p).

    W₂ π is the generalised momentum [N·m·s or N·s], rotors' included; F π = W₁ π less friction
    [N·m or N], with W₁ as of `dynamics.kernels.momentum_into`.

    Args:
        motion: Its acceleration is not used.
    """
    every = range(own_slice(robot).stop)
    made = momentum_rows(robot, motion, state, every, np.arange(robot.tree.channels))
    sides = made.part(slice(None)).spread(standard_size(robot))
    return sides.momentum, sides.remainder


@dataclass(frozen=True, eq=False)
class Beside:
    """Both sides of several sets of channels, one after the other; see `Parted`."""

    sets: tuple[Parted, ...]

    @property
    def columns(self) -> tuple[NDArray[np.intp], ...]:
        """Positions of the columns of each channel, ascending."""
        return tuple(own for each in self.sets for own in each.columns)

    def part(self, cut: slice) -> ChannelSides:
        """Return both sides of a slice of the samples."""
        return reduce(ChannelSides.beside, (each.part(cut) for each in self.sets))

    def integrated(self, cut: slice, phi: Array, rate: Array) -> Array:
        """Return integrals of both in windows; see `Parted`."""
        return np.hstack([each.integrated(cut, phi, rate) for each in self.sets])


class Part:
    """A part of a robot with channels of its own, which see nothing but what it says.

    Channels follow those of the joints, part by part.
    """

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What it measures."""
        raise NotImplementedError

    def inputs(self, recording: Recording, first: int) -> tuple[Measured, ...]:
        """Return what its channels measure, the first of which is channel `first` of the plant."""
        raise NotImplementedError

    def seen(self, samples: Samples[Any], columns: Sequence[int]) -> TreeRows | None:
        """Return what its channels see of some columns; None if that is nothing."""
        return None

    def rows(self, samples: Samples[Any], columns: Sequence[int]) -> tuple[ChannelRows, ...]:
        """Return rows of its channels; see `Limbed`."""
        seen = self.seen(samples, columns)
        if seen is None:
            return (ChannelRows.nothing(len(samples.time)),) * len(self.channels)
        return seen.rows()

    def sides(self, samples: Samples[Any], columns: Sequence[int]) -> Parted:
        """Return both sides of its channels; see `Limbed`."""
        seen = self.seen(samples, columns)
        return seen or ChannelSides.nothing(len(samples.time), len(self.channels))

    def reduce(
        self,
        samples: Samples[Any],
        columns: Sequence[int],
        measured: Array,
        counted: NDArray[np.bool_] | None,
    ) -> tuple[Triangle, ...]:
        """Return a triangle for each of its channels; see `Fused`.

        Args:
            measured: What they measured, shape (N, own channels), or (N, own channels, looks).
            counted: Which rows count, shape (N, own channels); all if not given.
        """
        seen = self.seen(samples, columns)
        if seen is not None:
            return seen.reduce(measured, counted)
        none, wide = np.empty(0, dtype=np.intp), measured.reshape(*measured.shape[:2], -1)
        rows = [wide[:, k] for k in range(len(self.channels))]
        if counted is not None:
            rows = [values[counted[:, k]] for k, values in enumerate(rows)]
        return tuple(Triangle(none, triangle_of(r), len(r)) for r in rows)

    def predict(self, samples: Samples[Any], values: Array) -> Array:
        """Return Y π of its channels, shape (N, own channels); see `Predicting`."""
        return np.zeros((len(samples.time), len(self.channels)))


@dataclass(frozen=True, eq=False)
class WrenchSensor(Part):
    """A wrench sensor inside a robot; see the module."""

    name: str  # its own
    stated: SensorOptions  # what is said of it
    cut: Cut  # what is beyond it
    bias: int | None  # column of its bias along x, of six; None if it has none

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The six axes."""
        return wrench_channels(self.name)

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the six logged signals, in the order of `channels`."""
        return wrench_signals(self.stated.frame or self.name)

    @property
    def sign(self) -> float:
        """Factor from the reported wrench to that on what is beyond the sensor, 1 or −1."""
        return 1.0 if self.stated.reports == "on_load" else -1.0

    def inputs(self, recording: Recording, first: int) -> tuple[Measured, ...]:
        """Return what its axes measure."""
        recording.require(self.signals, f"is what wrench sensor '{self.name}' measures")
        return tuple(Measured(k, ((s, self.sign),)) for k, s in enumerate(self.signals, first))

    def seen(self, samples: Samples[Any], columns: Sequence[int]) -> TreeRows:
        """Return what its axes see: the bodies beyond it, and its bias."""
        motion = samples.motion.bodies
        plan, places = _plan(self, tuple(columns))
        ones = np.ones((1, motion.sin.shape[1]))
        biases = kernels.DriveColumns(ones, plan.acts[:, :2], np.ones(SIX))
        return TreeRows(self.cut.tree, plan, self.cut.motion(motion), biases, places)

    def predict(self, samples: Samples[Any], values: Array) -> Array:
        """Return the wrench of standard parameters, shape (N, 6) [N or N·m]."""
        return self.wrench(samples.motion.bodies, values)

    def wrench(self, motion: kernels.Motion, values: Array) -> Array:
        """Return the predicted wrench of standard parameters, shape (N, 6) [N or N·m]."""
        bodies = np.concatenate([np.zeros(PARAMETER_COUNT), values[self.cut.columns]])
        made = kernels.inverse_dynamics(self.cut.tree, self.cut.motion(motion), bodies)[:SIX].T
        return made if self.bias is None else made + values[self.bias : self.bias + SIX]


@lru_cache(maxsize=64)
def _plan(sensor: WrenchSensor, columns: tuple[int, ...]) -> tuple[kernels.Plan, NDArray[np.intp]]:
    """Return the layout of a sensor's columns, and their places among those asked for.

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
    sensors = []
    first = len(robot.labels) - len(robot.bias_names)
    for name, stated in (robot.options.sensor or {}).items():
        turn, position = np.array(stated.rotation), np.array(stated.position)
        cut = Cut.before(robot.tree, robot.link(stated.link), turn, position)
        biased = name in robot.biased
        if stated.measured:
            sensors.append(WrenchSensor(name, stated, cut, first if biased else None))
        first += SIX * biased
    return tuple(sensors)


@dataclass(frozen=True, eq=False)
class ContactSensor(Part):
    """A sensor at a contact: its wrench is an unknown of the sample, and no column's."""

    name: str  # of the contact
    components: int  # of the wrench: 3 of a point, 6 of a surface

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The axes of force, and of torque where a surface touches."""
        return wrench_channels(self.name, self.components)

    def inputs(self, recording: Recording, first: int) -> tuple[Measured, ...]:
        """Return what its axes measure."""
        signals = wrench_signals(self.name, self.components)
        for signal in signals:
            recording.require(signal, f"is what acts on the robot at contact '{self.name}'")
        return tuple(Measured(k, ((signal, 1.0),)) for k, signal in enumerate(signals, first))
