"""A logged experiment simulated anew, with other parameters: the robot under its controller.

Between two steps of the controller its torque is held, and the motion follows the implicit
midpoint rule (`dynamics.held_steps`): the rows of the regressor at midpoints hold exactly. How
positions change with parameters comes from the variational equations of these very steps, whose
coefficients are derivatives of the inverse dynamics by its adjoint: nothing is differenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import held_steps, kernels
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import SimulatedPiece
from heft.models import ControllerOptions, Robot
from heft.plants import Problem, RobotPlant, effort_signals
from heft.recordings import Recording

from .simulated_robot import Actuation, SimulatedRobot

SWEEPS = 100  # over a motion and what own columns make of it, at most
CHUNK = 2048  # steps whose derivatives are in memory at once


@dataclass(frozen=True, eq=False)
class FollowedMotion:
    """Simulated motion of a robot under its controller, one row per step."""

    time: Array  # when steps begin, shape (N,) [s]
    position: Array  # then, shape (N, joints) [rad or m]
    velocity: Array  # likewise
    acceleration: Array  # over the step, shape (N, joints)
    effort: Array  # of the drives, held over the step, shape (N, joints) [N·m or N]
    step: float  # h [s]

    def position_at(self, time: Array) -> Array:
        """Return positions at some times, shape (n, joints), exact on parabolas."""
        from scipy.interpolate import CubicHermiteSpline

        return np.asarray(CubicHermiteSpline(self.time, self.position, self.velocity)(time))

    def effort_at(self, time: Array) -> Array:
        """Return efforts at some times, shape (n, joints), each that of its step's middle."""
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


def _between(values: Array, begin: Array, step: float, time: Array) -> Array:
    """Return values a step apart, (N, …), interpolated linearly at times, (n,): shape (n, …)."""
    place = (time - begin[0]) / step
    first = np.clip(place.astype(np.intp), 0, len(values) - 2)
    share = (place - first)[:, None, None]
    return np.asarray((1.0 - share) * values[first] + share * values[first + 1])


@dataclass(frozen=True, eq=False)
class ClosedLoop:
    """A robot under the controller with which its logs were made, for estimators that simulate.

    Raises:
        InvalidModel: If the base floats.
        InvalidSetting: If a joint has no gains, is held still, or has friction with a memory.
    """

    robot: Robot  # with a fixed base, and friction that remembers nothing
    controller: ControllerOptions  # gains of its joints
    believed: Robot  # robot whose model says the feed-forward torque
    # what is known of friction and rotors, by name, such as `elbow.armature`: with it and the model
    # file's bodies estimators begin. They begin with least squares if None
    drives: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        robot, gains = self.robot, self.controller.joint
        without = [j for j in robot.joints if j not in gains]
        if without or robot.options.still:
            raise InvalidSetting(
                "a controller is to hold every joint that moves",
                argument="[controller.joint.NAME]",
                got=f"none of {', '.join(without or sorted(robot.options.still))}",
                cure="state the gains of all joints; joints that are held still are not simulated",
            )
        _ = self.simulated_robot  # which refuses what it cannot simulate

    @cached_property
    def simulated_robot(self) -> SimulatedRobot:
        """The robot with friction as a function of the speed, for simulation."""
        return SimulatedRobot(self.robot, 0.018)  # [rad/s] of tanh(w/s)

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
        """Return initial guesses of β: the model file's, that by least squares, and their mean."""
        space = problem.plant.space
        columns = space.matrix @ space.nominal
        for k, name in enumerate(problem.plant.labels.names):
            columns[k] = (self.drives or {}).get(name, columns[k])
        file = np.asarray(problem.base.matrix @ columns)
        if self.drives is not None:
            return file, values, 0.5 * (file + values)
        return values, 0.5 * (file + values), file

    def simulated(self, problem: Problem[RobotPlant], values: Array) -> Problem[RobotPlant]:
        """Return the problem with logs simulated in the loop with other parameters.

        Args:
            problem: Its logs hold the references.

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

    def positions(self, problem: Problem[RobotPlant], values: Array) -> Iterator[SimulatedPiece]:
        """Yield errors of the positions and their sensitivities to β; see `simulated`."""
        names = [f"q.{j}" for j in self.robot.joints]
        for k, recording, time, motion, (moved, _) in self._compared(problem, values):
            measured = recording.whole(names).values[self._late(recording)]
            slope = _between(moved, motion.time, motion.step, time)
            yield SimulatedPiece(slope, measured - motion.position_at(time), time, k)

    def efforts(self, problem: Problem[RobotPlant], values: Array) -> Iterator[SimulatedPiece]:
        """Yield errors of the efforts and their sensitivities to β; see `simulated`."""
        for k, recording, time, motion, (_, moved) in self._compared(problem, values):
            signals = effort_signals(self.robot, recording)
            logged = recording.whole([s for s, _, _ in signals]).values
            measured = logged * [factor for _, _, factor in signals]
            channels = [c for _, c, _ in signals]
            acting = time - problem.delay
            error = measured[self._late(recording)] - motion.effort_at(acting)[:, channels]
            middle = motion.time + 0.5 * motion.step
            slope = _between(moved[:, channels], middle, motion.step, acting)
            yield SimulatedPiece(slope, error, time, k)

    def _compared(
        self, problem: Problem[RobotPlant], values: Array
    ) -> Iterator[tuple[int, Recording, Array, FollowedMotion, tuple[Array, Array]]]:
        """Yield number, log, compared times, simulation and sensitivities to β of each log."""
        standard = problem.base.spread(values)
        for k, recording in enumerate(problem.recordings):
            motion = self.followed(recording, standard)
            moved = self.sensitivities(motion, standard, problem.base.kept)
            time, _ = self._clock(recording)
            yield k, recording, time[self._late(recording)], motion, moved

    def _late(self, recording: Recording) -> NDArray[np.bool_]:
        """Return the rows of a log that are compared: complete, selected, and not of its begin.

        There it may still come to what was not logged, such as the state that it began with.
        """
        time, lost = self._clock(recording)
        late = (time >= time[0] + 0.5) & np.logical_not(lost)
        if recording.selection is not None:
            late &= recording.selection(np.arange(len(time)))
        return np.asarray(late, dtype=np.bool_)

    # --- simulation

    def followed(self, recording: Recording, standard: Array) -> FollowedMotion:
        """Return the simulated motion along a log's reference.

        Args:
            recording: Log with `q_ref.<joint>`.
            standard: Standard parameters, shape (p,), in the order and units of `robot.labels`.

        Raises:
            MissingSignal: If a reference is not logged.
            SolverFailure: If the simulated robot does not stay finite.
        """
        robot, h = self.robot, 1.0 / self.controller.rate
        clock, wanted = self._wanted(recording)
        model = self.simulated_robot
        numbers = model.numbers(standard)
        start = self._start(recording, wanted[0, :2])
        own = np.zeros((len(clock), len(robot.joints)))
        for _ in range(SWEEPS):
            # The compiled steps know nothing of the user's own columns: these are taken off the
            # effort, as they were in the sweep before.
            ahead = wanted.copy()
            ahead[:, 2] -= own
            log, done = model.driven(numbers, self._gains, start, ahead, h, self._keep)
            if done < len(clock) or not np.isfinite(log).all():
                raise SolverFailure(
                    "the simulated robot does not stay finite",
                    argument=robot.name,
                    got=f"at {clock[min(done, len(clock) - 1)]:.3f} s of {recording.name}",
                    cure="begin nearer to the truth, or look at the controller's gains and rate",
                )
            q, v, a, tau = log
            motion = FollowedMotion(clock, q, v, a, tau + own, h)
            if robot.own_columns is None:
                return motion
            before, own = own, model.own_effort(*motion.middle[:2], standard)
            if np.abs(own - before).max() <= 1e-11 * np.abs(motion.effort).max():
                return motion
        raise SolverFailure(
            "own columns and the motion that they make do not settle",
            argument=robot.name,
            got=f"{SWEEPS} sweeps over {recording.name}",
            cure="springs that are stiffer than the controller are not simulated: take an "
            "estimator that needs no simulation, such as least-squares",
        )

    def sensitivities(
        self, motion: FollowedMotion, standard: Array, columns: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Return the derivatives of positions and efforts by parameters.

        Args:
            standard: Its parameters, shape (p,).

        Returns:
            ∂q/∂parameters at the begins of the steps, and ∂τ/∂parameters over them, each of shape
            (N, joints, columns).
        """
        count, n = motion.position.shape
        model = self.simulated_robot
        M, K, D = (np.empty((count, n, n)) for _ in range(3))
        Y = np.empty((count, n, len(columns)))
        for first in range(0, count, CHUNK):
            cut = slice(first, first + CHUNK)
            q, v, a = (x[cut] for x in motion.middle)
            M[cut], K[cut], D[cut], Y[cut] = model.linearised(q, v, a, standard, columns)
        places, efforts = np.empty_like(Y), np.empty_like(Y)
        controller = (self._gains, self._keep)
        held_steps.carry(M, K, D, Y, controller, motion.step, (places, efforts))
        return places, efforts

    def actuation(self, recording: Recording) -> tuple[Array, Actuation]:
        """Return the controller's clock, (N,) [s], and how it moves the robot along a reference."""
        clock, wanted = self._wanted(recording)
        return clock, Actuation(wanted, self._gains, self._keep, 1.0 / self.controller.rate)

    # --- its parts

    @cached_property
    def _gains(self) -> Array:
        joints = [self.controller.joint[j] for j in self.robot.joints]
        return np.array([[g.position, g.velocity, g.integral] for g in joints]).T.copy()

    @property
    def _keep(self) -> float:
        """Weight of a new sample in the filter of the differentiated position; −1 for none."""
        corner = self.controller.filter
        return (
            -1.0 if corner is None else 1.0 - np.exp(-2.0 * np.pi * corner / self.controller.rate)
        )

    def _by_joint(self, values: Array) -> Mapping[str, Array]:
        return dict(zip(self.robot.joints, values.T, strict=True))

    def _clock(self, recording: Recording) -> tuple[Array, NDArray[np.bool_]]:
        """Return a log's times, and which of its rows lack a position or an effort."""
        joints = self.robot.joints
        names = [f"{kind}.{j}" for kind in ("q", "tau", "current") for j in joints]
        block = recording.whole([n for n in names if n in recording.sources])
        return block.time, np.logical_not(np.isfinite(block.values).all(axis=1))

    def require_references(self, recording: Recording) -> list[str]:
        """Return the names of a log's references.

        Raises:
            MissingSignal: If it lacks one.
        """
        names = [f"q_ref.{j}" for j in self.robot.joints]
        recording.require(names, "is what the controller was to follow", set(names))
        return names

    def _wanted(self, recording: Recording) -> tuple[Array, Array]:
        """Return the controller's clock, and q, v and feed-forward torque at it, (N, 3, joints)."""
        from scipy.interpolate import make_interp_spline  # slow to load, of no use to most fits

        names = self.require_references(recording)
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

        Those of the reference where the log has no positions, shape (2, joints).
        """
        names = [f"q.{j}" for j in self.robot.joints]
        if not set(names) <= set(recording.sources):
            return np.array(reference)
        block = recording.whole(names)
        good = np.isfinite(block.values).all(axis=1)
        time, q = block.time[good], block.values[good]
        early = time <= time[0] + 0.1  # [s]
        if np.count_nonzero(early) < 4:
            return np.array(reference)
        parabola = np.polynomial.polynomial.polyfit(time[early] - time[0], q[early], 2)
        return np.array(parabola[:2])

    def _ahead(self, q: Array, v: Array, a: Array) -> Array:
        """Return the feed-forward torque along a reference, shape (N, joints) [N·m or N]."""
        if self.controller.feedforward == "none":
            return np.zeros_like(q)
        if self.controller.feedforward == "gravity":
            v, a = np.zeros_like(v), np.zeros_like(a)
        model = self.believed
        motion = kernels.motion_of(model.tree, model.gravity, q, v, a)
        stated = [self.controller.joint[j] for j in self.robot.joints]
        rotor, viscous = np.array([[g.armature, g.viscous] for g in stated]).T
        bodies = kernels.inverse_dynamics(model.tree, motion, model.written_bodies()).T
        return np.asarray(bodies + rotor * a + viscous * v)
