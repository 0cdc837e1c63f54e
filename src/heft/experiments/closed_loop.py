"""A logged experiment simulated anew, with other parameters: the robot under its controller.

Between two steps of the controller its torque is held, and the motion follows the implicit
midpoint rule (`dynamics.held_steps`): the rows of the regressor at midpoints hold exactly. How
positions change with parameters comes from the variational equations of these very steps, whose
coefficients are derivatives of the inverse dynamics by its adjoint: nothing is differenced.

Coulomb friction is F tanh(w/s), which a drive at rest creeps by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline, make_interp_spline

from heft.arrays import Array
from heft.dynamics import (
    LINEAR_SCALE,
    Armature,
    Coulomb,
    DriveState,
    Offset,
    Sigmoid,
    Viscous,
    adjoint,
    drive_columns,
    held_steps,
    kernels,
)
from heft.errors import InvalidModel, InvalidSetting, SolverFailure
from heft.information import PARAMETER_COUNT
from heft.models import ControllerOptions, Robot
from heft.plants import Problem, RobotPlant, effort_signals
from heft.recordings import Recording

CHUNK = 2048  # steps whose derivatives are in memory at once
SIMULATED = (Armature, Viscous, Coulomb, Sigmoid, Offset)


@dataclass(frozen=True, eq=False)
class FollowedMotion:
    """What a robot did under its controller, a row a step.

    Attributes:
        time: When steps begin, shape (N,) [s].
        position: Then, shape (N, joints) [rad or m].
        velocity: Likewise.
        acceleration: Over the step, shape (N, joints).
        effort: Of the drives, held over the step, shape (N, joints) [N·m or N].
        step: h [s].
    """

    time: Array
    position: Array
    velocity: Array
    acceleration: Array
    effort: Array
    step: float

    def position_at(self, time: Array) -> Array:
        """Return positions at some times, shape (n, joints), exact on parabolas."""
        return np.asarray(CubicHermiteSpline(self.time, self.position, self.velocity)(time))

    def effort_at(self, time: Array) -> Array:
        """Return efforts at some times, shape (n, joints): each is that of its step's middle."""
        middle = self.time + 0.5 * self.step
        return np.stack([np.interp(time, middle, x) for x in self.effort.T], axis=1)

    @property
    def middle(self) -> tuple[Array, Array, Array]:
        """Positions, velocities and accelerations in the middle of the steps."""
        h = self.step
        return (
            self.position + 0.5 * h * self.velocity,
            self.velocity + 0.5 * h * self.acceleration,
            self.acceleration,
        )


@dataclass(frozen=True, eq=False)
class Outputs:
    """Errors of positions or efforts that a simulation leaves, with their sensitivities.

    Attributes:
        regressor: Derivative of what is simulated by β, shape (N, channels, b).
        effort: Measured less simulated, shape (N, channels) [rad or m; N·m or N].
        time: Shape (N,) [s].
        recording: Position of the recording in the problem.
    """

    regressor: Array
    effort: Array
    time: Array
    recording: int


def _between(values: Array, begin: Array, step: float, time: Array) -> Array:
    """Return what is known at even times at others, by straight lines.

    Args:
        values: Shape (N, …).
        begin: Their times, a step apart, shape (N,) [s].
        step: [s].
        time: Those that are asked for, shape (n,) [s].
    """
    place = (time - begin[0]) / step
    first = np.clip(place.astype(np.intp), 0, len(values) - 2)
    share = (place - first)[:, None, None]
    return np.asarray((1.0 - share) * values[first] + share * values[first + 1])


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Parameters of a robot as the compiled steps take them."""

    bodies: Array
    rotors: Array
    drives: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A robot under the controller that its logs were made with; what estimators simulate with.

    Attributes:
        robot: With a fixed base, and friction that remembers nothing.
        controller: Gains of its joints.
        believed: Robot whose model says the feed-forward torque.
        standstill: Speed s of Coulomb friction F tanh(w/s) [rad/s]; `LINEAR_SCALE` times that where
            a joint slides.
        drives: What is known of friction and rotors, by name, such as `elbow.armature`: with it and
            the model file's bodies estimators begin. They begin with least squares if None.
        begin: Time over which the first positions tell where the robot began [s].
        settle: Time from a log's begin on in which it may still come to what was not logged, such
            as the state that it began with [s].

    Raises:
        InvalidModel: If the base floats.
        InvalidSetting: If a joint has no gains, is held still, or has friction with a memory.
    """

    robot: Robot
    controller: ControllerOptions
    believed: Robot
    drives: Mapping[str, float] | None = None
    standstill: float = 0.018
    begin: float = 0.1
    settle: float = 0.5

    def __post_init__(self) -> None:
        robot, gains = self.robot, self.controller.joint
        if robot.tree.free_base:
            raise InvalidModel("a floating base is not simulated", argument='base = "free"')
        without = [j for j in robot.joints if j not in gains]
        if without or robot.options.still:
            raise InvalidSetting(
                "a controller is to hold every joint that moves",
                argument="[controller.joint.NAME]",
                got=f"none of {', '.join(without or sorted(robot.options.still))}",
                cure="state the gains of all joints; joints that are held still are not simulated",
            )
        wild = [robot.drives.name(c) for c in robot.drive_columns if type(c[1]) not in SIMULATED]
        if wild or robot.own_columns is not None:
            raise InvalidSetting(
                "friction that remembers, takes the load or is a user's own is not simulated",
                argument="[joint.NAME] friction",
                got=", ".join(wild[:3]) or "own columns",
                cure='say friction = "simple" for methods that simulate',
            )

    @staticmethod
    def of(robot: Robot) -> ClosedLoop | None:
        """Return the loop that the robot's options state; None if they state no controller."""
        controller = robot.options.controller
        if controller is None:
            return None
        believed = robot
        if controller.model is not None:
            believed = Robot.from_file(Path(controller.model), robot.options)
        return ClosedLoop(robot, controller, believed)

    # --- what estimators ask (`estimators.Simulation`)

    def starts(self, problem: Problem[RobotPlant], values: Array) -> tuple[Array, ...]:
        """Return β to begin with: as known, or by least squares, then mixed with the model file's.

        Args:
            problem: Whose robot has the file's numbers.
            values: β by least squares, shape (b,).
        """
        space = problem.plant.space
        columns = space.matrix @ space.nominal
        for k, name in enumerate(problem.plant.labels.names):
            columns[k] = (self.drives or {}).get(name, columns[k])
        file = np.asarray(problem.base.matrix @ columns)
        if self.drives is not None:
            return file, values, 0.5 * (file + values)
        return values, 0.5 * (file + values), file

    def simulated(self, problem: Problem[RobotPlant], values: Array) -> Problem[RobotPlant]:
        """Return the problem with the logs that the loop makes with other parameters.

        Args:
            problem: Whose logs hold the references.
            values: β, shape (b,).

        Raises:
            MissingSignal: If a reference is not logged.
            SolverFailure: If the simulated robot does not stay finite.
        """
        made = []
        standard = problem.base.spread(values)
        for recording in problem.recordings:
            time, lost = self._clock(recording)
            motion = self.followed(recording, standard)
            q, tau = motion.position_at(time), motion.effort_at(time - problem.delay)
            q[lost] = np.nan  # so that the same rows are left out
            columns = {"q": self._by_joint(q), "tau": self._by_joint(tau)}
            new = Recording.from_arrays(time, recording.name, **columns)
            made.append(new if recording.selection is None else new.selecting(recording.selection))
        return problem.with_recordings(made)

    def positions(self, problem: Problem[RobotPlant], values: Array) -> Iterator[Outputs]:
        """Yield errors of the positions and their sensitivities to β; see `simulated`."""
        names = [f"q.{j}" for j in self.robot.joints]
        for k, recording, time, motion, (moved, _) in self._compared(problem, values):
            measured = recording.whole(names).values[self._late(recording)]
            slope = _between(moved, motion.time, motion.step, time)
            yield Outputs(slope, measured - motion.position_at(time), time, k)

    def efforts(self, problem: Problem[RobotPlant], values: Array) -> Iterator[Outputs]:
        """Yield errors of the efforts and their sensitivities to β; see `simulated`."""
        for k, recording, time, motion, (_, moved) in self._compared(problem, values):
            signals = effort_signals(self.robot, recording)
            found = recording.whole([s for s, _, _ in signals]).values
            measured = found * [factor for _, _, factor in signals]
            channels = [c for _, c, _ in signals]
            held = time - problem.delay
            error = measured[self._late(recording)] - motion.effort_at(held)[:, channels]
            middle = motion.time + 0.5 * motion.step
            slope = _between(moved[:, channels], middle, motion.step, held)
            yield Outputs(slope, error, time, k)

    def _compared(
        self, problem: Problem[RobotPlant], values: Array
    ) -> Iterator[tuple[int, Recording, Array, FollowedMotion, tuple[Array, Array]]]:
        """Yield each log with the times that count, its simulation, and what that changes by."""
        standard = problem.base.spread(values)
        for k, recording in enumerate(problem.recordings):
            motion = self.followed(recording, standard)
            moved = self.sensitivities(motion, standard, problem.base.kept)
            time, _ = self._clock(recording)
            yield k, recording, time[self._late(recording)], motion, moved

    def _late(self, recording: Recording) -> NDArray[np.bool_]:
        """Return the rows of a log that count: whole, chosen, and not of its begin."""
        time, lost = self._clock(recording)
        late = (time >= time[0] + self.settle) & np.logical_not(lost)
        if recording.selection is not None:
            late &= recording.selection(np.arange(len(time)))
        return late

    # --- simulation

    def followed(self, recording: Recording, standard: Array) -> FollowedMotion:
        """Return the motion along a log's reference.

        Args:
            recording: Log with `q_ref.<joint>`.
            standard: Standard parameters, shape (p,), in the order and units of `robot.labels`.

        Raises:
            MissingSignal: If a reference is not logged.
            SolverFailure: If the simulated robot does not stay finite.
        """
        held_steps.KERNELS.prepare()
        robot, h = self.robot, 1.0 / self.controller.rate
        clock, wanted = self._wanted(recording)
        numbers = self._numbers(standard)
        n = len(robot.joints)
        log = np.zeros((4, len(clock), n))
        tree = kernels.compile_tree(robot.tree)
        args = (numbers.bodies, numbers.rotors, numbers.drives, np.array(robot.gravity))
        offset = np.array(robot.tree.offset, dtype=float)
        start = self._start(recording, wanted[0, :2])
        with np.errstate(all="ignore"):
            try:
                done = held_steps.follow(
                    tree, offset, *args, self._gains, start, wanted, h, self._keep, log
                )
            except np.linalg.LinAlgError:
                done = 0
        if done < len(clock) or not np.isfinite(log).all():
            raise SolverFailure(
                "the simulated robot does not stay finite",
                argument=robot.name,
                got=f"at {clock[min(done, len(clock) - 1)]:.3f} s of {recording.name}",
                cure="begin nearer to the truth, or look at the controller's gains and rate",
            )
        q, v, a, tau = log
        return FollowedMotion(clock, q, v, a, tau, h)

    def sensitivities(
        self, motion: FollowedMotion, standard: Array, columns: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Return the derivatives of positions and efforts by parameters.

        Args:
            motion: As `followed` returns it.
            standard: Its parameters, shape (p,).
            columns: Positions of the parameters among the standard ones.

        Returns:
            ∂q/∂parameters at the begins of the steps, and ∂τ/∂parameters over them, each of shape
            (N, joints, columns).
        """
        held_steps.KERNELS.prepare()
        count, n = motion.position.shape
        M, K, D = (np.empty((count, n, n)) for _ in range(3))
        Y = np.empty((count, n, len(columns)))
        for first in range(0, count, CHUNK):
            cut = slice(first, first + CHUNK)
            q, v, a = (x[cut] for x in motion.middle)
            M[cut], K[cut], D[cut], Y[cut] = self.linearised(q, v, a, standard, columns)
        places, efforts = np.empty_like(Y), np.empty_like(Y)
        held_steps.carry(M, K, D, Y, self._gains, motion.step, self._keep, places, efforts)
        return places, efforts

    def linearised(
        self, q: Array, v: Array, a: Array, standard: Array, columns: tuple[int, ...]
    ) -> tuple[Array, Array, Array, Array]:
        """Return the derivatives of the inverse dynamics, friction and rotors included.

        Args:
            q: Positions, N states, shape (N, joints) [rad or m].
            v: Velocities likewise.
            a: Accelerations likewise.
            standard: Parameters, shape (p,).
            columns: Positions of those by which is differentiated.

        Returns:
            ∂τ/∂a, ∂τ/∂q and ∂τ/∂v, each of shape (N, joints, joints), and ∂τ/∂parameters, shape
            (N, joints, columns).
        """
        robot, numbers = self.robot, self._numbers(standard)
        tree, n = robot.tree, len(robot.joints)
        moving = kernels.motion_of(tree, robot.gravity, q, v, a)
        slots = kernels.full_slots(tree)
        M, K, D = (np.empty((len(q), n, n)) for _ in range(3))
        for c in range(n):
            seeds = np.zeros((n, slots.shape[1], len(q)))
            seeds[c] = np.where(slots[c] >= 0, numbers.bodies, 0.0)[:, None]
            by_q, by_v, by_a = adjoint.pull_back(tree, moving, np.moveaxis(seeds, 2, 0))
            K[:, c], D[:, c], M[:, c] = by_q.T, by_v.T, by_a.T
        ratios, viscous, _, amplitude, scale = numbers.drives
        w = v @ ratios.T
        fading = 1.0 - np.tanh(w[:, :, None] / scale) ** 2
        fall = viscous + np.sum(amplitude / scale * fading, axis=2)
        D += np.einsum("nd,dc,dk->nck", fall, ratios, ratios)
        return M + numbers.rotors, K, D, self._rows(moving, q, v, a, columns)

    def _rows(
        self, moving: kernels.Motion, q: Array, v: Array, a: Array, columns: tuple[int, ...]
    ) -> Array:
        """Return the regressor of some columns, Coulomb friction as it is simulated."""
        robot = self.robot
        slots = kernels.slots_of(robot.tree, columns)
        out = np.zeros((len(robot.joints), len(columns), len(q)))
        kernels.regressor(robot.tree, moving, out, 1, slots)
        own = PARAMETER_COUNT * len(robot.tree.names)
        state = DriveState(q.T, v.T, a.T, np.zeros((0, len(q))), np.zeros(q.T.shape))
        chosen = [robot.drive_columns[c - own] for c in columns if c >= own]
        shown = [(d, Sigmoid(self._speed(d)) if isinstance(t, Coulomb) else t) for d, t in chosen]
        made = drive_columns.columns(robot.drives, shown, state)
        first = sum(c < own for c in columns)
        for (channel, column), weight in zip(made.acts, made.weights, strict=True):
            out[channel, first + column] += weight * made.values[column]
        return np.moveaxis(out, 2, 0)

    # --- its parts

    def _speed(self, drive: int) -> float:
        """Return the speed s of a drive's Coulomb friction [rad/s or m/s]."""
        return self.standstill * (LINEAR_SCALE if self.robot.drives[drive].linear else 1.0)

    def _numbers(self, standard: Array) -> _Numbers:
        """Return standard parameters as the compiled steps take them."""
        robot = self.robot
        own = PARAMETER_COUNT * len(robot.tree.names)
        ratios = np.array([d.ratio for d in robot.drives])
        viscous, offset, rotor = np.zeros((3, len(ratios)))
        scales = self._scales
        amplitude = np.zeros(scales.shape)
        for k, (d, term) in enumerate(robot.drive_columns, own):
            value = standard[k]
            if isinstance(term, Armature):
                rotor[d] = value
            elif isinstance(term, Viscous):
                viscous[d] = value
            elif isinstance(term, Offset):
                offset[d] = value
            else:
                speed = self._speed(d) if isinstance(term, Coulomb) else term.scale
                amplitude[d, np.flatnonzero(scales[d] == speed)[0]] += value
        rotors = (ratios.T * rotor) @ ratios
        drives = (ratios, viscous, offset, amplitude, scales)
        return _Numbers(np.array(standard[:own], dtype=float), rotors, drives)

    @cached_property
    def _scales(self) -> Array:
        """Speeds of each drive's sigmoids, Coulomb friction's first, shape (drives, most)."""
        found: list[list[float]] = [[self._speed(d)] for d in range(len(self.robot.drives))]
        for d, term in self.robot.drive_columns:
            if isinstance(term, Sigmoid) and term.scale not in found[d]:
                found[d].append(term.scale)
        most = max(map(len, found))
        return np.array([(*s, *[1.0] * (most - len(s))) for s in found])

    @cached_property
    def _gains(self) -> Array:
        joints = [self.controller.joint[j] for j in self.robot.joints]
        return np.array([[g.position, g.velocity, g.integral] for g in joints]).T.copy()

    @property
    def _keep(self) -> float:
        """Share of the differentiated position that its filter takes; below 0 without one."""
        corner = self.controller.filter
        return (
            -1.0 if corner is None else 1.0 - np.exp(-2.0 * np.pi * corner / self.controller.rate)
        )

    def _by_joint(self, values: Array) -> Mapping[str, Array]:
        return dict(zip(self.robot.joints, values.T, strict=True))

    def _clock(self, recording: Recording) -> tuple[Array, NDArray[np.bool_]]:
        """Return a log's times, and which of its rows hold no positions."""
        joints = self.robot.joints
        names = [f"{kind}.{j}" for kind in ("q", "tau", "current") for j in joints]
        block = recording.whole([n for n in names if n in recording.sources])
        return block.time, np.logical_not(np.isfinite(block.values).all(axis=1))

    def _wanted(self, recording: Recording) -> tuple[Array, Array]:
        """Return the controller's clock, and its references with the feed-forward torque."""
        names = [f"q_ref.{j}" for j in self.robot.joints]
        recording.require(names, "is what the controller was to follow", set(names))
        block = recording.whole(names)
        good = np.isfinite(block.values).all(axis=1)
        time, reference = block.time[good], block.values[good]
        h = 1.0 / self.controller.rate
        clock = time[0] + h * np.arange(int(np.ceil((time[-1] - time[0]) / h)) + 2)
        within = np.minimum(clock, time[-1])
        spline = make_interp_spline(time, reference, k=5)
        q, v, a = (np.asarray(spline(within, nu)) for nu in range(3))
        return clock, np.ascontiguousarray(np.stack([q, v, self._ahead(q, v, a)], axis=1))

    def _start(self, recording: Recording, reference: Array) -> Array:
        """Return position and velocity at a log's begin: a parabola through its first positions.

        Args:
            recording: Log.
            reference: What is taken where it has no positions, shape (2, joints).
        """
        names = [f"q.{j}" for j in self.robot.joints]
        if not set(names) <= set(recording.sources):
            return np.array(reference)
        block = recording.whole(names)
        good = np.isfinite(block.values).all(axis=1)
        time, q = block.time[good], block.values[good]
        early = time <= time[0] + self.begin
        if np.count_nonzero(early) < 4:
            return np.array(reference)
        found = np.polynomial.polynomial.polyfit(time[early] - time[0], q[early], 2)
        return np.array(found[:2])

    def _ahead(self, q: Array, v: Array, a: Array) -> Array:
        """Return the feed-forward torque along a reference, shape (N, joints) [N·m or N]."""
        if self.controller.feedforward == "none":
            return np.zeros_like(q)
        if self.controller.feedforward == "gravity":
            v, a = np.zeros_like(v), np.zeros_like(a)
        model = self.believed
        motion = kernels.motion_of(model.tree, model.gravity, q, v, a)
        known = [self.controller.joint[j] for j in self.robot.joints]
        rotor, viscous = np.array([[g.armature, g.viscous] for g in known]).T
        bodies = kernels.inverse_dynamics(model.tree, motion, model.written_bodies()).T
        return np.asarray(bodies + rotor * a + viscous * v)
