"""A robot as a plant: a tree of bodies with drives, one channel a joint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import LINEAR_SCALE, DriveState, drive_columns, kernels
from heft.errors import InvalidSetting
from heft.information import (
    PARAMETER_COUNT,
    ChannelRows,
    Labels,
    ParameterSpace,
    Triangle,
    column_order,
)
from heft.models import Robot, own_effort
from heft.recordings import Recording
from heft.signals import Smoothed

from .parts import Beside, Part, TreeRows, WrenchSensor, joint_rows, momentum_rows, sensors_of
from .plant import Channel, Inputs, Measured, Parted, Plant, Rows, Samples, Sides
from .robot_rows import fixed_positions, own_slice, random_drive_state, random_states
from .robot_signals import joint_inputs

T = TypeVar("T")
# Rounding of angles leaves at most this of a dependent column (`benchmarks/rounding.py`).
SHARE_PER_RADIAN = 4.0


@dataclass(frozen=True, eq=False)
class RobotMotion:
    """Motion of a robot."""

    position: Array  # of each channel, shape (channels, N) [rad or m]
    velocity: Array  # of the drives' channels, shape (channels, N) [rad/s or m/s]
    bodies: kernels.Motion  # what the kernels read

    @property
    def of_channels(self) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration of channels, shape (channels, N) each."""
        return self.position, self.velocity, self.bodies.acceleration

    def part(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return some of the samples."""
        bodies = self.bodies.part(rows)
        own = {k: v[..., rows] for k, v in vars(self).items() if k not in ("bodies", "velocity")}
        alike = self.velocity is self.bodies.velocity
        velocity = bodies.velocity if alike else self.velocity[:, rows]
        return type(self)(bodies=bodies, velocity=velocity, **own)


@dataclass(frozen=True, eq=False)
class RobotPlant(Plant[RobotMotion]):
    """A robot with a fixed base, whose joints' torques are measured, as a plant: `Y π = τ`."""

    robot: Robot  # tree, drives, and what is believed of them
    # standard parameters whose torque, of bodies and own columns, presses on the gears, shape (p,);
    # without them load-dependent friction is zero
    point: Array | None = None

    @property
    def bodies_size(self) -> int:
        """Number of columns of the bodies, before those of the drives."""
        return PARAMETER_COUNT * len(self.robot.tree.names)

    @cached_property
    def labels(self) -> Labels:
        """Ten a body, then the drives' terms, then the user's own columns."""
        return self.robot.labels

    @property
    def space(self) -> ParameterSpace:
        """Parameters as a model file states them, ten per link and the drives' terms; then own."""
        return self.robot.space

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What has channels of its own beside the joints."""
        return ()

    @property
    def sensors(self) -> tuple[WrenchSensor, ...]:
        """Wrench sensors inside among the parts."""
        return tuple(part for part in self.parts if isinstance(part, WrenchSensor))

    @cached_property
    def spans(self) -> tuple[tuple[Part, slice], ...]:
        """Parts, each with the channels that are its own."""
        ends = np.cumsum([len(self.robot.measured), *(len(p.channels) for p in self.parts)])
        cuts = (slice(a, b) for a, b in pairwise(ends.tolist()))
        return tuple(zip(self.parts, cuts, strict=True))

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """The joints whose torque is measured, then those of parts."""
        return (*self.joint_channels, *(c for part in self.parts for c in part.channels))

    @property
    def joint_channels(self) -> tuple[Channel, ...]:
        """The robot's own channels whose equations are used."""
        robot = self.robot
        linear = {d.name for d in robot.drives if d.linear}
        names = [robot.channels[c] for c in robot.measured]
        return tuple(Channel(n, "N" if n in linear else "N·m") for n in names)

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """Columns of the friction dictionary."""
        own = self.bodies_size
        return tuple(own + k for k, (_, t) in enumerate(self.robot.drive_columns) if t.dictionary)

    @cached_property
    def functions(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the friction dictionary, drive by drive."""
        by_drive: dict[int, list[int]] = {}
        for k, (drive, term) in enumerate(self.robot.drive_columns, self.bodies_size):
            if term.dictionary:
                by_drive.setdefault(drive, []).append(k)
        return tuple(map(tuple, by_drive.values()))

    @cached_property
    def redundant(self) -> tuple[int, ...]:
        """Columns of friction's dictionary but each drive's steepest, most like Coulomb friction.

        It is the function of the speed alone with the least scale.
        """
        steepest: dict[int, tuple[float, int]] = {}
        for k, (d, term) in enumerate(self.robot.drive_columns, self.bodies_size):
            if term.dictionary and not term.remembers and not term.loaded:
                steepest[d] = min(steepest.get(d, (np.inf, k)), (term.scale or 0.0, k))
        kept = {k for _, k in steepest.values()}
        return tuple(k for k in self.independent if k not in kept)

    @property
    def order(self) -> Sequence[int]:
        """Last bodies first, so that combinations are called after the bodies farthest out."""
        plain = len(self.labels) - len(self.independent)
        return column_order(len(self.robot.tree.names), plain)

    @property
    def rounding(self) -> float:
        """Size that rounding of angles leaves of dependent columns, relative to the longest."""
        return SHARE_PER_RADIAN * self.robot.angle_error

    @property
    def structure(self) -> object:
        """Key of the base parameters, about any point: a sensor inside if there is one."""
        return next(iter(self.sensors), self.robot)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the model file."""
        return self.robot.notes

    @property
    def point_columns(self) -> Sequence[int]:
        """The bodies' and the user's own columns, where friction depends on the load."""
        if not any(t.loaded for _, t in self.robot.drive_columns):
            return ()
        own = own_slice(self.robot)
        return (*range(self.bodies_size), *range(own.start, own.stop))

    @property
    def taken_about(self) -> Sequence[int]:
        """Columns of friction that depends on the load."""
        columns = enumerate(self.robot.drive_columns, self.bodies_size)
        return [k for k, (_, term) in columns if term.loaded]

    def about(self, values: Array) -> RobotPlant:
        """Return the plant with gear loads from these standard parameters, shape (p,)."""
        return replace(self, point=values)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return joint positions, torques or currents, and what parts measure.

        Raises:
            InvalidSetting: If the base floats.
        """
        if self.robot.tree.free_base:
            raise InvalidSetting(
                "this is known of a fixed base only: what contacts take of a floating one is not "
                "told by the torque of its joints",
                argument='base = "free"',
                cure='hang the robot up or clamp it, and say base = "fixed"',
            )
        joints = joint_inputs(self.robot, recording, measured)
        if not measured:
            return joints
        return replace(joints, measured=(*joints.measured, *self.part_inputs(recording)))

    def part_inputs(self, recording: Recording) -> tuple[Measured, ...]:
        """Return what channels of parts measure."""
        return tuple(m for part, own in self.spans for m in part.inputs(recording, own.start))

    def motion(self, smoothed: Smoothed) -> RobotMotion:
        """Return positions, velocities and what the kernels read; joints held still are at rest.

        Raises:
            FitError: If smoothing left numbers that are not finite.
        """
        robot = self.robot
        q, v, a = self.joint_states(smoothed)
        bodies = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
        kernels.require_finite(bodies)
        return RobotMotion(q.T, bodies.velocity, bodies)

    def joint_states(self, smoothed: Smoothed) -> tuple[Array, Array, Array]:
        """Return q, v and v̇ of all joints, those held still included, shape (N, joints) each.

        Args:
            smoothed: Positions of the joints that move, with their derivatives.
        """
        fixed = fixed_positions(self.robot)
        moving = np.isnan(fixed)
        q, v, a = np.zeros((3, len(smoothed.position), len(fixed)))
        q[:, ~moving] = fixed[~moving]
        q[:, moving] = smoothed.position
        v[:, moving] = smoothed.velocity
        a[:, moving] = smoothed.acceleration
        return q, v, a

    def remember(
        self, samples: Samples[RobotMotion], state: drive_columns.Presliding | None
    ) -> tuple[Samples[RobotMotion], drive_columns.Presliding]:
        """Return samples with presliding memory, and the state for those that follow."""
        position = samples.motion.position
        state = drive_columns.presliding(self.robot.drives, samples.time, position, state)
        return replace(samples, memory=state.values.T), state

    def with_robot(self, robot: Robot) -> Self:
        """Return the plant of the same robot with other options, about no point."""
        return replace(self, robot=robot, point=None)

    def as_measured(self, effort: Array) -> Array:
        """Return efforts of the robot's channels, (channels, N), on the plant's, zero for parts."""
        return self._beside(effort[self.robot.measured].T, 0)

    def _beside(self, joints: NDArray[Any], value: int) -> NDArray[Any]:
        """Append a value for each channel of parts to those of joints, shape (N, joints)."""
        more = len(self.channels) - joints.shape[1]
        return np.pad(joints, ((0, 0), (0, more)), constant_values=value) if more else joints

    def sensed(self, motion: RobotMotion, values: Array) -> Array:
        """Return what wrench sensors measure by standard parameters, shape (N, c) [N or N·m].

        It is zero for all other channels.
        """
        out = np.zeros((motion.position.shape[1], len(self.channels)))
        for part, own in self.spans:
            if isinstance(part, WrenchSensor):
                out[:, own] = part.wrench(motion.bodies, values)
        return out

    def loads(self, samples: Samples[RobotMotion]) -> Array:
        """Return the torque at the point that loads the gears, (channels, N) [N·m or N].

        It is that of bodies and own columns; zero if the plant has no point.
        """
        motion = samples.motion
        if self.point is None:
            return np.zeros_like(motion.velocity)
        load, own = self.rigid(motion, self.point), self.robot.own_columns
        if own is not None:
            made = own.rows(*motion.of_channels)
            load = load + np.einsum("ckn,k->cn", made, self.point[own_slice(self.robot)])
        return self.gear_load(samples, load)

    def gear_load(self, samples: Samples[RobotMotion], rigid: Array) -> Array:
        """Return the torque that loads the gears: that of the bodies, as nothing else acts on them.

        Args:
            rigid: Torque of the bodies and own columns, shape (channels, N) [N·m or N].
        """
        del samples
        return rigid

    def rigid(self, motion: RobotMotion, values: Array) -> Array:
        """Return the torque Y π of the bodies alone, shape (channels, N) [N·m or N]."""
        bodies = values[: self.bodies_size]
        return kernels.inverse_dynamics(self.robot.tree, motion.bodies, bodies)

    def drive_state(
        self,
        samples: Samples[RobotMotion],
        rigid: Array | None = None,
        own: Mapping[str, float] | None = None,
    ) -> DriveState:
        """Return the state of the drives: motion, presliding memory and gear load.

        Args:
            rigid: Torque that loads the gears, see `gear_load`, shape (channels, N) [N·m or N];
                that about the point if not given.
            own: Parameters by name, of which those of own columns load the gears besides.
        """
        motion = samples.motion
        load = self.loads(samples) if rigid is None else rigid
        acceleration, stops = motion.bodies.acceleration, samples.memory.T
        state = DriveState(motion.position, motion.velocity, acceleration, stops, load)
        if own is None or self.robot.own_columns is None:
            return state
        return replace(state, rigid=load + own_effort(self.robot.own_columns, own, state))

    def rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Rows:
        """Return the regressor Y of all channels; arguments as of `Plant.rows`."""
        ascending, places = np.unique(list(columns), return_inverse=True)
        made = self.channel_rows(samples, ascending.tolist())
        out = np.zeros((len(samples.time), len(made), len(ascending)))
        for c, rows in enumerate(made):
            out[:, c, rows.columns] = rows.values
        alike = np.array_equal(places, np.arange(len(ascending)))
        return Rows(out if alike else out[:, :, places])

    def channel_rows(
        self,
        samples: Samples[RobotMotion],
        columns: Sequence[int],
        channels: Sequence[int] | None = None,
    ) -> tuple[ChannelRows, ...]:
        """Return each joint's rows on bodies that it moves and its own drives, and parts' rows.

        Arguments are as of `Limbed`.
        """
        return self._lined_up(
            channels,
            lambda chosen: self._joints(samples, columns, chosen).rows(),
            lambda part, _: part.rows(samples, columns),
        )

    def _lined_up(
        self,
        channels: Sequence[int] | None,
        of_joints: Callable[[NDArray[np.intp]], Sequence[T]],
        of_part: Callable[[Part, slice], Sequence[T]],
    ) -> tuple[T, ...]:
        """Return what is made of each channel that is asked for: of joints, then of parts."""
        measured = self.robot.measured
        asked = range(len(self.channels)) if channels is None else channels
        joints = sorted(c for c in asked if c < len(measured))
        made = dict(zip(joints, of_joints(measured[joints]), strict=True))
        for part, own in self.spans:
            places = range(own.start, own.stop)
            if any(c in places for c in asked):
                made |= zip(places, of_part(part, own), strict=True)
        return tuple(made[c] for c in asked)

    def _joints(
        self, samples: Samples[RobotMotion], columns: Sequence[int], chosen: NDArray[np.intp]
    ) -> TreeRows:
        """Return what some of the robot's channels see, measured or not."""
        state = self.drive_state(samples)
        return joint_rows(self.robot, samples.motion.bodies, state, columns, chosen)

    def sides(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Sides:
        """Return W₂ and F of the channels; see `both_sides`, arguments as of `rows`."""
        ascending, places = np.unique(list(columns), return_inverse=True)
        parted = self.channel_sides(samples, ascending.tolist())
        made = parted.part(slice(None)).spread(len(ascending))
        return Sides(made.momentum[:, :, places], made.remainder[:, :, places])

    def channel_sides(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Parted:
        """Return W₂ and F of joints on what they move and their own drives, and of parts.

        Arguments are as of `Limbed`.
        """
        state, motion = self.drive_state(samples), samples.motion.bodies
        made = momentum_rows(self.robot, motion, state, columns, self.robot.measured)
        beside = [part.sides(samples, columns) for part in self.parts]
        return Beside((made, *beside)) if beside else made

    def reduce(
        self,
        samples: Samples[RobotMotion],
        columns: Sequence[int],
        channels: Sequence[int] | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Triangle, ...]:
        """Return one triangle `[R z; 0 ρ]` per channel, formed in cache; see `Fused`."""
        place = {c: k for k, c in enumerate(self.robot.measured.tolist())}

        def seen(own: slice | list[int]) -> tuple[Array, NDArray[np.bool_] | None]:
            return samples.measured[:, own], None if counted is None else counted[:, own]

        return self._lined_up(
            channels,
            lambda chosen: self._joints(samples, columns, chosen).reduce(
                *seen([place[c] for c in chosen.tolist()])
            ),
            lambda part, own: part.reduce(samples, columns, *seen(own)),
        )

    def sliding(self, samples: Samples[RobotMotion], speed: float) -> NDArray[np.int64]:
        """Return a code of the sliding directions of a joint's drives, 1 for parts, shape (N, c).

        Numbers are as those of `Plant.sliding`. A prismatic drive slides above `LINEAR_SCALE` times
        the speed [m/s].
        """
        robot, velocity = self.robot, samples.motion.velocity
        ways = np.ones((len(robot.channels), len(samples.time)), dtype=np.int64)
        sticks = np.zeros(ways.shape, dtype=bool)
        for drive in robot.drives:
            if not drive.rubs:
                continue
            w = drive.ratio @ velocity
            slow = speed * (LINEAR_SCALE if drive.linear else 1.0)
            for c in np.flatnonzero(drive.ratio):
                ways[c] = 2 * ways[c] + (w > 0.0)  # a bit for each
                sticks[c] |= np.abs(w) <= slow
        return self._beside(np.where(sticks, 0, ways)[robot.measured].T, 1)

    def predict(self, samples: Samples[RobotMotion], values: Array) -> Array:
        """Return Y π of standard parameters π, of joints and parts, shape (N, c) [N·m or N]."""
        names = self.labels.names[self.bodies_size :]
        drives = dict(zip(names, values[self.bodies_size :].tolist(), strict=True))
        rigid, state = self.rigid(samples.motion, values), self.drive_state(samples)
        rest = drive_columns.effort(self.robot.drives, drives, state)
        own = own_effort(self.robot.own_columns, drives, state)
        made = self.as_measured(rigid + rest + own)
        for part, own_channels in self.spans:
            made[:, own_channels] = part.predict(samples, values)
        return made

    def sensitivity(self, samples: Samples[RobotMotion], values: Array) -> tuple[ChannelRows, ...]:
        """Return the derivative of load-dependent friction torque by the point's parameters.

        Use it to count what the uncertainty of the point adds to that of the torque. Rows are on
        the standard columns of the point; parts have none.
        """
        robot, own, loading = self.robot, self.bodies_size, np.array(self.point_columns)
        state, every = self.drive_state(samples), np.arange(robot.tree.channels)
        rows = self._load_rows(samples, loading.tolist())
        pressing: list[list[ChannelRows]] = [[] for _ in every]
        for k, (d, term) in enumerate(robot.drive_columns):
            if not term.loaded or values[own + k] == 0.0:
                continue
            ratio = robot.drives[d].ratio
            slope = values[own + k] * term.slope(drive_columns.motion_of(robot.drives, [d], state))
            acted = np.flatnonzero(ratio).tolist()
            for c in acted:
                for e in acted:
                    pressed = (ratio[c] * ratio[e] * slope)[:, None] * rows[e].values
                    pressing[c].append(ChannelRows(loading[rows[e].columns], pressed))
        nothing = ChannelRows.nothing(len(samples.time))
        joints = (ChannelRows.total([nothing, *pressing[c]]) for c in robot.measured)
        return (*joints, *[nothing] * (len(self.channels) - len(robot.measured)))

    def whole_rows(self, samples: Samples[RobotMotion], columns: Sequence[int]) -> Array:
        """Return Y of all of the robot's channels, measured or not, on ascending columns.

        Its shape is (N, channels of the robot, columns).
        """
        rows = RobotPlant._load_rows(self, samples, columns)
        return np.stack([r.spread(len(columns)) for r in rows], axis=1)

    def _load_rows(
        self, samples: Samples[RobotMotion], columns: Sequence[int]
    ) -> tuple[ChannelRows, ...]:
        """Return rows of the torque that loads the gears, for all of the robot's channels."""
        every = np.arange(self.robot.tree.channels)
        return self._joints(samples, columns, every).rows()

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[RobotMotion]:
        """Return N = `count` random states; see `random_states` and `random_drive_state`."""
        robot = self.robot
        q, v, a = random_states(robot, count, rng)
        state = random_drive_state(robot, q, v, a, rng)
        bodies = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
        motion = RobotMotion(state.position, state.velocity, bodies)
        made = Samples.of_motion(motion, count, len(self.channels))
        return replace(made, memory=state.stops.T)


@dataclass(frozen=True, eq=False)
class SensedRobotPlant(RobotPlant):
    """A robot with a fixed base and wrench sensors between its links; see `parts`.

    Channels are those of the joints whose torque is measured, then six a sensor.
    """

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The wrench sensors inside that the logs hold."""
        return sensors_of(self.robot)
