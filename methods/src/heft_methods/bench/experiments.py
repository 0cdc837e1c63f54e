"""The benchmark's experiments: one robot in closed loop, many times, with noise drawn anew.

A case is a robot, how its drives rub, and a level of noise. Its truth, its motion and its
controller stay, so that the mean of the estimates less the truth is their bias; noise and the model
file that estimators begin with are those of a trial's number. Links move in MuJoCo and drives by
laws of their own (`simulation.Simulator`); the torque that is logged acts at the time of its row,
so that it is late by no half of a sample.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from heft.arrays import Array
from heft.dynamics import Sigmoid
from heft.information import Directions, Information
from heft.models import ControllerOptions, JointGains, JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant, Samples, with_smooth_friction
from heft.recordings import Recording
from heft.signals import Smoothed, Smoothing
from heft.simulation import (
    Arm,
    ClosedLoop,
    Condition,
    Controller,
    DriveRanges,
    ExactMotion,
    Motion,
    Sensors,
    Simulator,
    Viscous,
    draw_motion,
)

from .robots import arm_of

RATE, STEP, RUN_IN = 500.0, 1e-3, 2.0  # [Hz], [s], [s]
GUESS = (0.3, 0.03)  # errors of the model files that estimators begin with: ln(mass), [m]
WRONG = (0.15, 0.015)  # the same of the controller's
SLIDING = 0.02  # at which Coulomb friction saturates, that of the simulated drives in class [rad/s]
OTHER_CORNER = 40.0  # of exact motion that errors are scored on [Hz]


@dataclass(frozen=True)
class Noise:
    """A level of noise."""

    encoder: float  # of positions, white, in the control loop, too, rms [rad]
    torque: float  # of the logged torque, white, as a share of its rms
    # of the torque that acts, white in steps of `STEP`, which no log shows, as a share of each
    # joint's typical torque
    actuator: float


NOISE: Mapping[str, Noise] = {
    "low": Noise(1e-5, 0.005, 0.001),
    "standard": Noise(1e-4, 0.02, 0.005),
    "high": Noise(1e-3, 0.05, 0.02),
}
# Soft enough that what it does of the encoders' noise does not drown the motion's torque.
CONTROLLER = Controller(position=6.0, velocity=15.0, integral=0.0, corner=5.0, known=0.8)
FRICTION: Mapping[str, DriveRanges] = {
    "in class": DriveRanges(),
    "lugre": DriveRanges(friction="lugre"),
}


@dataclass(frozen=True)
class Case:
    """Case of the benchmark: a robot, its friction and a level of noise."""

    robot: str  # of the benchmark, or a model file
    friction: str  # one of `FRICTION`
    noise: str  # one of `NOISE`
    seed: int  # of the drives, the motion and the controller's model
    duration: float = 10.0  # of the logs [s]

    @property
    def name(self) -> str:
        """Name for messages and files."""
        return f"{self.robot} {self.friction} {self.noise}"

    @cached_property
    def arm(self) -> Arm:
        """Simulated arm."""
        return arm_of(self.robot)

    @cached_property
    def simulator(self) -> Simulator:
        """Simulator of its logs."""
        level = NOISE[self.noise]
        condition = Condition(
            drives=FRICTION[self.friction],
            sensors=Sensors(
                rate=RATE, bits=0, encoder_noise=level.encoder, torque_noise=level.torque
            ),
            motion=self.motion("log"),
            controller=CONTROLLER,
            duration=self.duration,
            other_duration=1.2 * self.duration,
            wrong=WRONG[0],
            shift=WRONG[1],
            run_in=RUN_IN,
            step=STEP,
            actuator_noise=level.actuator,
        )
        return Simulator(self.arm, condition)

    def motion(self, purpose: str) -> Motion:
        """Return the motion of the logs, or the one that errors are scored on."""
        return draw_motion("sines", self.arm, self._random(purpose), -RUN_IN, self.duration)

    def _random(self, purpose: str, number: int = 0) -> np.random.Generator:
        named = zlib.crc32(f"{self.robot} {purpose}".encode())
        return np.random.default_rng([named, self.seed, number])

    def guess(self, number: int) -> bytes:
        """Return the wrong model file that a trial begins with."""
        return self.arm.believed(self._random("guess", number), *GUESS)

    @cached_property
    def controller(self) -> ControllerOptions:
        """The controller, as its robot's maker would tell it."""
        control, inertia = self.simulator.condition.controller, self.simulator.typical[1]
        drives = self.simulator.drives_of(self.seed)
        gains = {}
        for joint, drive, size in zip(self.arm.joints, drives, inertia, strict=True):
            velocity = control.velocity * (float(size) + drive.armature)
            viscous = next(k.coefficient for k in drive.laws if isinstance(k, Viscous))
            known = (control.known * drive.armature, control.known * viscous)
            gains[joint] = JointGains(control.position * velocity, velocity, 0.0, *known)
        return ControllerOptions(gains, 1.0 / STEP, control.corner, "inverse-dynamics")

    def robot_of(self, file: bytes) -> Robot:
        """Return the robot of a model file with viscous and smooth Coulomb friction, and offset."""
        joint = dict.fromkeys(self.arm.joints, JointOptions(friction="simple"))
        robot = Robot.from_urdf_text(file, Options(joint=joint), self.robot)
        return with_smooth_friction(robot, SLIDING)

    def loop(self, robot: Robot, number: int) -> ClosedLoop:
        """Return the closed loop of a trial's robot, from which its simulations begin."""
        believed = self.robot_of(self.simulator.believed(self.seed))
        return ClosedLoop(robot, self.controller, believed, self.drive_guess(number))

    def drive_guess(self, number: int) -> dict[str, float]:
        """Return the wrong rotor inertia and friction that a trial begins with, by parameter."""
        rng, found = self._random("drives", number), {}
        for joint, drive in zip(self.arm.joints, self.simulator.drives_of(self.seed), strict=True):
            slow, fast = (float(drive.steady(np.array([v]), self.duration)[0]) for v in (0.1, 1.0))
            viscous = max((fast - slow) / 0.9, 0.0)
            sizes = {
                "armature": drive.armature,
                "viscous": viscous,
                Sigmoid(SLIDING).name: max(slow - 0.1 * viscous, 0.0),
            }
            for term, size in sizes.items():
                found[f"{joint}.{term}"] = size * float(np.exp(GUESS[0] * rng.normal()))
        return found

    def log(self, number: int) -> tuple[Recording, ExactMotion]:
        """Return the log of a trial, with its references, and its exact motion."""
        made = self.simulator.run(self.seed, number=number + 1)
        time, joints = made.exact.time, self.arm.joints
        asked = self.motion("log")(time)[0]
        seen = {
            kind: made.recording.whole([f"{kind}.{j}" for j in joints]).values
            for kind in ("q", "tau")
        }
        columns = {
            kind: dict(zip(joints, values.T, strict=True))
            for kind, values in {**seen, "q_ref": asked}.items()
        }
        return Recording.from_arrays(time, f"{self.name} {number}", **columns), made.exact

    @cached_property
    def quiet(self) -> Simulator:
        """Simulator of the same robot without noise."""
        sensors = Sensors(rate=RATE, bits=0, encoder_noise=0.0, torque_noise=0.0)
        quiet = replace(self.simulator.condition, sensors=sensors, actuator_noise=0.0)
        return Simulator(self.arm, quiet)

    @cached_property
    def other(self) -> Recording:
        """Another motion of the robot, exact, on which errors are scored."""
        found = self.quiet.other(self.seed, self.motion("other"), 1)
        q, tau = (dict(zip(self.arm.joints, x.T, strict=True)) for x in (found.q, found.tau))
        return Recording.from_arrays(found.time, f"{self.robot} other motion", q=q, tau=tau)

    def scored(self, problem: Problem[RobotPlant]) -> Problem[RobotPlant]:
        """Return the plant of a problem with the motion that errors are scored on."""
        smoothing = Smoothing(OTHER_CORNER, delay=0.0)
        return Problem(problem.plant, (self.other,), smoothing, threads=1)


@lru_cache(maxsize=16)
def shared(case: Case) -> Case:
    """Return one object for all equal cases, so that trials share what it simulates once."""
    return case


@dataclass(frozen=True, eq=False)
class Truth:
    """True base parameters and Cramér-Rao bounds of a case.

    Both are of the motion that the robot makes without noise.
    """

    # β that fits exact motion and torque best, shape (b,): the truth itself where friction is in
    # class
    values: Array
    # standard deviation of an unbiased estimate at least, of exact motion and the noise of the
    # torque, logged and acting, alone (Cramér and Rao), shape (b,)
    bound: Array

    @staticmethod
    def of(case: Case, problem: Problem[RobotPlant]) -> Truth:
        """Return the truth of a case."""
        plant, level = problem.plant, NOISE[case.noise]
        exact = case.quiet.run(case.seed).exact
        motion = plant.motion(Smoothed(exact.q, exact.v, exact.a))
        count = len(exact.time)
        rows = np.arange(count)
        samples = Samples(
            0, exact.time, motion, np.empty((count, 0)), exact.tau, rows, np.ones(count, dtype=bool)
        )
        Y = plant.rows(samples, problem.base.kept).regressor
        logged = level.torque * np.sqrt(np.mean(exact.tau**2, axis=0))
        sigma = np.hypot(logged, level.actuator * case.simulator.typical[0])
        told = Information.from_rows(problem.labels, problem.channels, Y, exact.tau)
        whole = told.combined(dict(zip(problem.channels, (1.0 / sigma).tolist(), strict=True)))
        seen = Directions.of(whole.R, whole.rows)
        return Truth(seen.shortest(whole.z), np.sqrt(np.sum(seen.inverse**2, axis=1)))
