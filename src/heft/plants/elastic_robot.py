"""A robot whose gears yield: encoders at motors and at links, two equations a joint.

With θ the motor's position (at the joint, behind the gear's ratio) and q the link's [Spong1987]:

    B θ̈ + friction(θ̇) + s = τ                     motor
    Y(q, q̇, q̈) π = s = k (θ − q) + d (θ̇ − q̇) + p − l q̇   link

with rotor inertia B, stiffness k and damping d of the gear. A preload p stands for the zero of one
encoder against that of the other, and a lag l for a link's encoder that comes l/k later: 1 ms of
that at 1 rad/s is a milliradian, more than most gears yield. Friction is the motor's, but for what
is viscous on the link's side and counts as a lag. The equations used are their sum and the link's,

    Y(q, q̇, q̈) π + B θ̈ + friction(θ̇) = τ,      Y(q, q̇, q̈) π − k (θ − q) − d (θ̇ − q̇) − p + l q̇ = 0

since noise of the torque is in the first alone and that of the deflection in the second: each is a
channel of its own. The first predicts the torque without stiffness, and is that of a rigid robot
where θ = q.

Nothing is measured in a link's equation: with a deviation of its own it would be solved the better
the smaller all of its numbers are, and bodies would go over to rotors and friction. So it has that
of its joint's torque.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import DriveState, drive_columns, kernels
from heft.errors import InvalidSetting
from heft.information import PARAMETER_COUNT, Labels, ParameterSpace
from heft.models import Robot
from heft.recordings import Recording
from heft.signals import Smoothed

from .floating_robot import FloatingRobotPlant
from .parts import Part, TreeRows
from .plant import Channel, Inputs, Measured, MotionSignal, Samples
from .robot import RobotMotion, RobotPlant, SensedRobotPlant
from .robot_rows import own_slice
from .robot_signals import motor_signals

GEAR = ("stiffness", "damping", "preload", "lag")  # of an elastic gear, in its columns' order
UNITS = ("N·m/rad", "N·m·s/rad", "N·m", "N·m·s/rad")
LINEAR_UNITS = ("N/m", "N·s/m", "N", "N·s/m")
LINK = "link"  # what the channel of a link's equation is called after its joint


@dataclass(frozen=True, eq=False)
class ElasticMotion(RobotMotion):
    """Motion of a robot whose gears yield; position and velocity are those of the links."""

    # position, velocity and acceleration of motors less those of links, shape (3, channels, N) [rad
    # or m, and per s, s²]; zero where gears are rigid
    deflection: Array


@dataclass(frozen=True, eq=False)
class Links(Part):
    """Links beyond elastic gears, each moved by what its gear passes on."""

    robot: Robot
    joints: tuple[int, ...]  # channels of the joints

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Links' equations, which measure zero."""
        robot = self.robot
        return tuple(
            Channel(f"{name}.{LINK}", "N" if drive.linear else "N·m", name, sensed=False)
            for name, drive in ((robot.joints[c], robot.drives[c]) for c in self.joints)
        )

    def inputs(self, recording: Recording, first: int) -> tuple[Measured, ...]:
        """Return what is measured in links' equations: nothing."""
        zero = ((f"q_motor.{self.robot.joints[self.joints[0]]}", 0.0),)
        return tuple(Measured(k, zero) for k in range(first, first + len(self.joints)))

    def seen(self, samples: Samples[Any], columns: Sequence[int]) -> TreeRows:
        """Return what links see: the bodies, the user's own columns and the gears."""
        robot, motion = self.robot, samples.motion
        acts = _acts(robot, self.joints)
        gears = self._gears(motion).transpose(1, 2, 0).reshape(-1, len(samples.time))
        values = [gears]
        if robot.own_columns is not None:
            own, of_own = self._own_rows(motion), acts[: len(acts) - len(gears)]
            values.insert(0, own[of_own[:, 0], of_own[:, 1] - len(robot.drive_columns)])
        others = kernels.DriveColumns(np.vstack(values), acts, np.ones(len(acts)))
        plan = _plan(robot, self.joints, tuple(columns))
        return TreeRows(robot.tree, plan, motion.bodies, others)

    def _gears(self, motion: ElasticMotion) -> Array:
        """Return −δ, −δ̇, −1 and q̇ of each gear with δ = θ − q, shape (N, joints, 4)."""
        chosen = list(self.joints)
        position, velocity, _ = motion.deflection[:, chosen]
        parts = (-position, -velocity, -np.ones_like(position), motion.velocity[chosen])
        return np.stack(parts, axis=-1).swapaxes(0, 1)

    def _own_rows(self, motion: ElasticMotion) -> Array:
        assert self.robot.own_columns is not None
        return self.robot.own_columns.rows(*motion.of_channels)

    def predict(self, samples: Samples[Any], values: Array) -> Array:
        """Return what moves the links less what the gears pass on, shape (N, joints)."""
        robot, motion = self.robot, samples.motion
        bodies = values[: PARAMETER_COUNT * len(robot.tree.names)]
        link = kernels.inverse_dynamics(robot.tree, motion.bodies, bodies)
        if robot.own_columns is not None:
            link = link + np.einsum("ckn,k->cn", self._own_rows(motion), values[own_slice(robot)])
        gears = values[len(robot.labels) :].reshape(len(self.joints), len(GEAR))
        passed = np.einsum("nek,ek->ne", self._gears(motion), gears)
        return np.asarray(link[list(self.joints)].T + passed)


@dataclass(frozen=True, eq=False)
class ElasticRobotPlant(RobotPlant):
    """A robot with a fixed base, some of whose gears yield; see the module.

    Columns are those of the robot, then `GEAR` of each elastic gear; channels those of the measured
    joints, then a link's equation for each elastic gear.
    """

    links: bool = True  # whether links' equations are used, of which elastic gears are known

    @cached_property
    def elastic(self) -> tuple[int, ...]:
        """Channels of the joints whose gears yield."""
        robot = self.robot
        return tuple(
            k
            for k, j in enumerate(robot.joints)
            if robot.options.of(j).elastic and robot.options.of(j).position is None
        )

    @cached_property
    def linked(self) -> tuple[int, ...]:
        """Channels of the elastic joints whose link equation is used."""
        return self.elastic if self.links else ()

    def sensed_alone(self) -> ElasticRobotPlant:
        """Return the plant without links' equations."""
        return replace(self, links=False)

    @property
    def plain(self) -> int:
        """Number of columns of the robot itself, before those of elastic gears."""
        return len(self.robot.labels)

    @cached_property
    def labels(self) -> Labels:
        """Labels of the robot's columns, then four for each elastic gear."""
        plain = self.robot.labels
        names = tuple(f"{self.robot.joints[j]}.{k}" for j in self.linked for k in GEAR)
        linear = [self.robot.drives[j].linear for j in self.linked]
        units = tuple(u for slides in linear for u in (LINEAR_UNITS if slides else UNITS))
        return Labels((*plain.names, *names), (*plain.units, *units), plain.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """Parameter space of the robot, and of gears known only to be passive."""
        plain, labels = RobotPlant(self.robot).space, self.labels
        own = labels.select(range(self.plain, len(labels)))
        beside = plain.beside(own.names, own.units)
        # Stiffness and damping, the first of a gear, are not negative.
        passive = (plain.size + k for k in range(len(own)) if k % len(GEAR) < 2)
        return replace(beside, nonnegative=(*plain.nonnegative, *passive))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Links beyond elastic gears."""
        return (Links(self.robot, self.linked),) if self.linked else ()

    @property
    def structure(self) -> object:
        """Key of the base parameters: this plant about no point; the robot has other columns."""
        return _about_nothing(self.robot, self.links)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return positions of links and motors, and torques or currents."""
        plain = RobotPlant.inputs(self, recording, measured)
        motors = motor_signals(self.robot, recording, self.elastic)
        return replace(plain, motion=(*plain.motion, *(MotionSignal(name) for name in motors)))

    def motion(self, smoothed: Smoothed) -> ElasticMotion:
        """Return the motion of links and motors.

        Args:
            smoothed: Positions of the joints that move, then of the motors, with derivatives.

        Raises:
            FitError: If smoothing left numbers that are not finite.
        """
        first = smoothed.position.shape[1] - len(self.elastic)
        parts = (smoothed.position, smoothed.velocity, smoothed.acceleration)
        made = RobotPlant.motion(self, Smoothed(*(p[:, :first] for p in parts)))
        links = (made.position, made.velocity, made.bodies.acceleration)
        deflection = np.zeros((3, *made.position.shape))
        chosen = list(self.elastic)
        for k, (part, link) in enumerate(zip(parts, links, strict=True)):
            deflection[k, chosen] = part[:, first:].T - link[chosen]
        return ElasticMotion(made.position, made.velocity, made.bodies, deflection)

    def remember(
        self, samples: Samples[Any], state: drive_columns.Presliding | None
    ) -> tuple[Samples[Any], drive_columns.Presliding]:
        """Return samples with the presliding memory of the motors' friction; see `RobotPlant`."""
        position = samples.motion.position + samples.motion.deflection[0]
        state = drive_columns.presliding(self.robot.drives, samples.time, position, state)
        return replace(samples, memory=state.values.T), state

    def drive_state(self, samples: Samples[Any], *args: Any, **kwargs: Any) -> DriveState:
        """Return the state of the drives, deflections included; see `RobotPlant.drive_state`."""
        plain = RobotPlant.drive_state(self, samples, *args, **kwargs)
        return replace(plain, deflection=samples.motion.deflection)

    def sliding(self, samples: Samples[Any], speed: float) -> NDArray[np.int64]:
        """Return sliding directions of motors, 1 for links; see `RobotPlant.sliding`."""
        motion = samples.motion
        motors = replace(motion, velocity=motion.velocity + motion.deflection[1])
        return RobotPlant.sliding(self, replace(samples, motion=motors), speed)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[Any]:
        """Return N = `count` random states of links and motors; see `RobotPlant`."""
        made = RobotPlant.random_samples(self, count, rng)
        m = made.motion
        deflection = np.zeros((3, *m.position.shape))
        chosen = list(self.elastic)
        deflection[:, chosen] = rng.normal(size=(3, len(chosen), count))
        deflection[1] *= m.velocity  # as slow as the drives are, for steep functions of the speed
        motion = ElasticMotion(m.position, m.velocity, m.bodies, deflection)
        return replace(made, motion=motion)


@lru_cache(maxsize=32)
def _about_nothing(robot: Robot, links: bool) -> ElasticRobotPlant:
    return ElasticRobotPlant(robot, links=links)


def refuse_elastic(robot: Robot) -> None:
    """Raise `InvalidSetting` for elastic gears that no plant supports.

    Raises:
        InvalidSetting: If the base floats, there are wrench sensors inside, a coupling moves the
            joint, or its torque is not measured: what scales a link's equation is then not known.
    """
    for joint in robot.joints:
        of_what = _no_plant(robot, joint)
        if robot.options.of(joint).elastic and of_what is not None:
            raise InvalidSetting(
                f"elastic gears of {of_what} are not known",
                argument=f"[joint.{joint}] elastic",
                cure="leave it out, or say elastic = false: the gear is then taken for rigid",
            )


def _no_plant(robot: Robot, joint: str) -> str | None:
    """Return of what robots or joints no plant supports elastic gears; None if one does."""
    coupling = robot.options.coupling
    coupled = () if coupling is None else coupling.joints or robot.joints
    cases = (
        (robot.tree.free_base, "robots whose base floats"),
        (robot.options.sensor, "robots with wrench sensors inside"),
        (joint in coupled, "joints that are coupled"),
        (not robot.options.of(joint).measured, "joints whose torque is not measured"),
    )
    return next((what for holds, what in cases if holds), None)


def _acts(robot: Robot, joints: tuple[int, ...]) -> NDArray[np.int64]:
    """Return channel and column of each column that acts on a link: own columns, then gears.

    Positions of columns are counted from the drives' first.
    """
    first = len(robot.drive_columns)
    own = np.zeros((0, 2), dtype=np.int64)
    if robot.own_columns is not None:
        acts = robot.own_columns.acts
        own = acts[np.isin(acts[:, 0], joints)] + np.array([0, first])
    beyond = first + len(robot.own_names)
    gears = [
        (c, beyond + len(GEAR) * e + k) for e, c in enumerate(joints) for k in range(len(GEAR))
    ]
    return np.vstack([own, np.array(gears, dtype=np.int64).reshape(-1, 2)])


@lru_cache(maxsize=32)
def _plan(robot: Robot, joints: tuple[int, ...], columns: tuple[int, ...]) -> kernels.Plan:
    acts, chosen = _acts(robot, joints), np.array(columns, dtype=np.intp)
    channels = np.array(joints, dtype=np.intp)
    return kernels.plan(robot.tree, chosen, acts, channels, np.arange(len(acts)))


def plant_of(robot: Robot, recording: Recording | None = None) -> RobotPlant:
    """Return a robot as a plant, by its base, its gears and its wrench sensors.

    Args:
        recording: Log whose signals decide whether a floating base moves by pose or by inertial
            sensor; by pose if not given.

    Raises:
        InvalidSetting: If gears are elastic of a robot whose base floats or that has wrench sensors
            inside, of coupled joints, or of joints whose torque is not measured.
    """
    refuse_elastic(robot)
    if not robot.tree.free_base:
        elastic = any(robot.options.of(j).elastic for j in robot.joints)
        if elastic:
            return ElasticRobotPlant(robot)
        return SensedRobotPlant(robot) if robot.options.sensor else RobotPlant(robot)
    frame = robot.tree.names[0]
    sources = recording.sources if recording is not None else ()
    inertial = f"acc.{frame}.x" in sources and f"quat.{frame}.w" not in sources
    return FloatingRobotPlant(robot, motion_from="imu" if inertial else "pose")


def with_logged_gears(robot: Robot, recordings: Sequence[Recording]) -> Robot:
    """Return a robot whose gears are elastic where logs hold motors' positions beside links'.

    What the options state stays: `elastic = false` takes a gear for rigid, whatever is logged. So
    are those of coupled and of unmeasured joints, and of robots whose base floats or that have
    wrench sensors inside.

    Args:
        recordings: Logs, all of which must hold them.
    """
    options = {j: robot.options.of(j) for j in robot.joints if _no_plant(robot, j) is None}
    logged = {
        j: replace(o, elastic=True)
        for j, o in options.items()
        if o.elastic is None
        and o.position is None
        and all(f"q_motor.{j}" in r.sources for r in recordings)
    }
    return robot.with_joints(logged) if logged and recordings else robot
