"""A simulator of experiments that shares nothing with heft's models: arms in MuJoCo.

Links move as MuJoCo says, drives as `simulated_drives` says, and a cascade controller that knows
only a wrong model keeps them on a motion that nobody follows exactly. What comes back is what a
user would have, a log and a model file that is wrong, and the truth beside it. heft's dynamics,
signals, plants and estimators are not used: what they assume cannot hide here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting, SolverFailure
from heft.recordings import Recording

from .arms import Arm
from .motions import Limits, MotionKind, draw_motion
from .sensors import Sensors
from .simulated_drives import Drive, DriveRanges, table
from .simulated_links import Links
from .simulation_step import KERNELS, LOGGED, advance

TYPICAL = 200  # positions at which an arm's typical torques are taken
HASTE = 4.0  # acceleration of these [rad/s²]
EFFORT = 0.9  # of the torque limits, for what the wrong model says is needed
DRAWS = 12  # of motions, each smaller and slower, until one is within them
PURPOSES = ("drives", "prior", "motion", "encoders", "tilt", "torque", "clock")
AHEAD = 8  # steps between two evaluations of the wrong model


@dataclass(frozen=True)
class Controller:
    """Gains of a cascade of position and velocity, with what a wrong model says is needed.

    Attributes:
        position: Speed per error of position [1/s].
        velocity: Bandwidth of the velocity loop [rad/s].
        integral: Of the velocity error [1/s].
        corner: Of the filter of the differentiated position [Hz].
        known: Share of rotor inertia and viscous friction that it knows.
        ahead: Share of the wrong model's torque that it gives ahead of any error.
    """

    position: float = 12.0
    velocity: float = 35.0
    integral: float = 5.0
    corner: float = 25.0
    known: float = 0.8
    ahead: float = 1.0


@dataclass(frozen=True)
class Condition:
    """Conditions of a simulated experiment: drives, sensors, motion, controller, model errors.

    Attributes:
        drives: From what the drives are drawn.
        sensors: Between motion and log.
        motion: Kind of the motion.
        limits: Of the motion.
        controller: Of the arm.
        duration: Of the log [s].
        tilt: Of the base, about a random level axis [rad]; the model file does not say it.
        wrong: Standard deviation of ln(mass) of what is believed.
        shift: Rms error of the centres of mass that are believed [m].
        run_in: From rest to the log's first row [s].
        step: Of integration, control and encoders [s].
        other_duration: Of the motions that nobody fits [s].
    """

    drives: DriveRanges = field(default_factory=DriveRanges)
    sensors: Sensors = field(default_factory=Sensors)
    motion: MotionKind = "sines"
    limits: Limits = field(default_factory=Limits)
    controller: Controller = field(default_factory=Controller)
    duration: float = 25.0
    tilt: float = 0.0
    wrong: float = 0.3
    shift: float = 0.03
    run_in: float = 2.0
    step: float = 5e-4
    other_duration: float = 12.0


@dataclass(frozen=True, eq=False)
class ExactMotion:
    """True motion and torques of a simulated arm, without any sensor, a row a time.

    Use it to score predictions: errors of sensors are not part of it.

    Attributes:
        time: Shape (N,) [s].
        q: Positions on the side of the gears that is logged, shape (N, joints) [rad].
        v: Their velocities [rad/s].
        a: Their accelerations [rad/s²].
        tau: Torque of the motors [N·m].
        friction: Friction torque, ripple and constant torque among it [N·m].
        passed: Torque that the gears pass on to the links [N·m].
        link: Positions of the links, other than q where gears yield [rad].
        link_acceleration: [rad/s²].
        link_velocity: [rad/s].
    """

    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    friction: Array
    passed: Array
    link: Array
    link_velocity: Array
    link_acceleration: Array

    def part(self, rows: Any) -> ExactMotion:
        """Return some of the rows, copied."""
        return ExactMotion(*(np.array(getattr(self, k.name)[rows]) for k in fields(self)))


@dataclass(frozen=True, eq=False)
class SimulatedExperiment:
    """Log and model file of a simulated experiment, as a user would have them, and the truth.

    Attributes:
        simulator: What was simulated.
        seed: Of all random numbers.
        prior: Model file as the user has it, wrong.
        recording: The log, `q.<joint>` and `tau.<joint>`.
        exact: What happened at the log's times, without any sensor.
    """

    simulator: Simulator
    seed: int
    prior: bytes
    recording: Recording
    exact: ExactMotion

    @property
    def drives(self) -> tuple[Drive, ...]:
        """The true drives, in the order of `arm.joints`."""
        return self.simulator.drives_of(self.seed)

    @property
    def arm(self) -> Arm:
        """The arm; its `urdf` and `links` hold the true numbers."""
        return self.simulator.arm

    def steady(self, speed: Array) -> Array:
        """Return the true friction torque of steady sliding without load, shape (N, joints) [N·m].

        Args:
            speed: Shape (N, joints) [rad/s].
        """
        duration = self.simulator.condition.duration
        pairs = zip(self.drives, np.asarray(speed).T, strict=True)
        return np.stack([d.steady(v, duration) for d, v in pairs], axis=1)

    def other(self, kind: MotionKind | None = None, number: int = 1) -> ExactMotion:
        """Return another motion of the same arm under the same controller, exact.

        Args:
            kind: Of the motion; the log's own if not given.
            number: One number, one motion; 0 is that of the log.
        """
        return self.simulator.other(self.seed, kind or self.simulator.condition.motion, number)


@dataclass(frozen=True, eq=False)
class Simulator:
    """Simulator of experiments with an arm under a condition; `run` makes one for each seed.

    Use it to test estimators: it shares no code with heft's dynamics, signals or plants.

    Attributes:
        arm: What is simulated.
        condition: How.

    Raises:
        InvalidSetting: If a row's time is no whole number of steps.
    """

    arm: Arm
    condition: Condition = field(default_factory=Condition)

    def __post_init__(self) -> None:
        every = 1.0 / (self.condition.sensors.rate * self.condition.step)
        if every < 0.5 or abs(every - round(every)) > 1e-6:
            raise InvalidSetting(
                "a row's time is to be a whole number of steps",
                argument="rate",
                got=self.condition.sensors.rate,
                cure=f"choose a divisor of {1.0 / self.condition.step:g} Hz",
            )

    def run(
        self,
        seed: int,
        torque: Callable[[ExactMotion], Array] | None = None,
        number: int = 0,
    ) -> SimulatedExperiment:
        """Return the experiment of a seed, the same each time.

        Args:
            seed: Of all random numbers.
            torque: What the torque sensors see of a motion, shape (steps, joints) [N·m]; the
                motors' torque if not given.
            number: One number, one motion and noise of sensors, of the same robot.

        Raises:
            InvalidSetting: If MuJoCo is not installed.
            InvalidModel: If the arm is too weak for any motion of this kind.
            SolverFailure: If the simulated arm does not stay finite.
        """
        condition, sensors = self.condition, self.condition.sensors
        of_torque = self._random(seed, "torque", number)
        of_clock = self._random(seed, "clock", number)
        whole, readings = self._moved(seed, condition.motion, number, condition.duration)
        rows = self._rows(condition.duration, sensors.rate)
        exact = whole.part(rows)
        effort = whole.tau if torque is None else torque(whole)
        size = np.sqrt(np.mean(effort[rows] ** 2, axis=0))
        seen = sensors.seen_torque(exact.time, whole.time, effort)
        logged = sensors.torque(seen, size, of_torque)
        names = self.arm.joints
        recording = Recording.from_arrays(
            sensors.stamps(exact.time, of_clock),
            f"{self.arm.name} {seed}" + (f" {number}" if number else ""),
            q={j: readings[rows, k] for k, j in enumerate(names)},
            tau={j: logged[:, k] for k, j in enumerate(names)},
        )
        return SimulatedExperiment(self, seed, self.believed(seed), recording, exact)

    def _random(self, seed: int, purpose: str, number: int = 0) -> np.random.Generator:
        """Return random numbers for a purpose: none moves because another draws more."""
        arm = zlib.crc32(self.arm.name.encode())
        return np.random.default_rng([arm, seed, number, PURPOSES.index(purpose)])

    def believed(self, seed: int) -> bytes:
        """Return the model file that the user and the controller have; see `Arm.believed`."""
        rng = self._random(seed, "prior")
        return self.arm.believed(rng, self.condition.wrong, self.condition.shift)

    def drives_of(self, seed: int) -> tuple[Drive, ...]:
        """Return the drives of a seed."""
        return self.condition.drives.draw(*self.typical, self._random(seed, "drives"))

    @cached_property
    def typical(self) -> tuple[Array, Array]:
        """Typical torque [N·m] of the links and their inertia about each joint [kg·m²].

        Each of shape (joints,); drives are drawn in proportion to them.
        """
        rng = np.random.default_rng(0)
        links = Links.of(self.arm.urdf, self.arm.joints)
        q = rng.uniform(self.arm.lower, self.arm.upper, (TYPICAL, len(self.arm.joints)))
        still = np.zeros_like(q)
        weight = links.inverse_dynamics(q, still, still)
        inertia = np.mean([np.diag(links.mass(x)) for x in q], axis=0)
        return np.sqrt(np.mean(weight**2, axis=0) + (HASTE * inertia) ** 2), inertia

    def other(self, seed: int, kind: MotionKind, number: int) -> ExactMotion:
        """Return another motion of a seed's arm, exact; see `SimulatedExperiment.other`.

        Args:
            seed: Of all random numbers.
            kind: Of the motion.
            number: One number, one motion; 0 is that of the log.

        Raises:
            InvalidModel: If the arm is too weak for any motion of this kind.
            SolverFailure: If the simulated arm does not stay finite.
        """
        duration = self.condition.other_duration
        whole, _ = self._moved(seed, kind, number, duration)
        return whole.part(self._rows(duration, min(self.condition.sensors.rate, 250.0)))

    def _rows(self, duration: float, rate: float) -> Array:
        """Return the steps at which a row is logged."""
        step = self.condition.step
        first, every = round(self.condition.run_in / step), round(1.0 / (rate * step))
        return np.asarray(first + every * np.arange(round(duration * rate)))

    def _moved(
        self, seed: int, kind: MotionKind, number: int, duration: float
    ) -> tuple[ExactMotion, Array]:
        """Return what happens at every step, and the logged encoders' readings."""
        condition, sensors = self.condition, self.condition.sensors
        # A margin behind the end, for torque of a clock that runs fast.
        steps = round((duration + condition.run_in + 0.1) / condition.step)
        first = round(condition.run_in / condition.step)
        time: Array = condition.step * np.arange(-first, steps - first, dtype=np.float64)
        drives = self.drives_of(seed)
        wanted = self._wanted(seed, kind, number, time, drives)
        shape = (steps, len(drives))
        noise = sensors.encoder_noise * self._random(seed, "encoders", number).normal(size=shape)
        links = Links.of(self.arm.urdf, self.arm.joints)
        links.tilt(condition.tilt, self._random(seed, "tilt").uniform(0.0, 2.0 * np.pi))
        log = self._integrated(links, drives, time, wanted, noise)
        if not np.isfinite(log).all():
            raise SolverFailure("the simulated arm does not stay finite", argument=self.arm.name)
        found = dict(zip((*LOGGED, "reading"), log, strict=True))
        link = [found[k] for k in ("q", "v", "a")]
        rotor = [found[k] for k in ("rotor", "rotor_speed", "rotor_acceleration")]
        rest = [found[k] for k in ("tau", "friction", "passed")]
        if not sensors.link_side:
            return ExactMotion(time, *rotor, *rest, *link), found["reading"]
        return ExactMotion(time, *link, *rest, *link), sensors.stepped(link[0] + noise)

    def _wanted(
        self, seed: int, kind: MotionKind, number: int, time: Array, drives: tuple[Drive, ...]
    ) -> Array:
        """Return wanted q and v and the feed-forward torque, shape (steps, 3, joints).

        Raises:
            InvalidModel: If the arm is too weak for any motion of this kind.
        """
        condition, rubs = self.condition, table(drives)
        rng = self._random(seed, "motion", number)
        believed = Links.of(self.believed(seed), self.arm.joints)
        seldom = np.append(np.arange(0, len(time) - 1, AHEAD), len(time) - 1)
        limits = condition.limits
        for _ in range(DRAWS):
            motion = draw_motion(kind, self.arm, rng, float(time[0]), float(time[-1]), limits)
            q, v, a = motion(time)
            coarse = believed.inverse_dynamics(q[seldom], v[seldom], a[seldom])
            if (np.abs(coarse) <= EFFORT * self.arm.effort).all():
                break
            limits = replace(limits, reach=0.9 * limits.reach, speed=0.9 * limits.speed)
        else:
            raise InvalidModel("the arm is too weak for such a motion", argument=self.arm.name)
        ahead = np.stack([np.interp(time, time[seldom], x) for x in coarse.T], axis=1)
        ahead += condition.controller.known * (rubs[0] * a + rubs[1] * v)
        ahead *= condition.controller.ahead
        return np.ascontiguousarray(np.stack([q, v, ahead], axis=1))

    def _gains(self, inertia: Array, drives: tuple[Drive, ...]) -> Array:
        """Return the controller's gains, rows as `simulation_step.advance` takes them."""
        control, n = self.condition.controller, len(drives)
        velocity = control.velocity * (inertia + table(drives)[0])
        keep = 1.0 - np.exp(-2.0 * np.pi * control.corner * self.condition.step)
        quantum = self.condition.sensors.quantum
        return np.array(
            [
                np.full(n, control.position),
                velocity,
                control.integral * velocity,
                np.full(n, quantum),
                np.full(n, keep),
            ]
        )

    def _integrated(
        self, links: Links, drives: tuple[Drive, ...], time: Array, wanted: Array, noise: Array
    ) -> Array:
        """Return what happens at every step, rows as `simulation_step.LOGGED` and the reading."""
        KERNELS.prepare()
        n, elastic = len(drives), any(d.elastic for d in drives)
        drive, gains = table(drives), self._gains(self.typical[1], drives)
        links.armature = np.zeros(n) if elastic else drive[0]
        log, state = np.zeros((len(LOGGED) + 1, len(time), n)), np.zeros((10, n))
        q, v = links.state(wanted[0, 0])
        state[2] = q
        for k in range(len(time)):
            mass, bias = links.equation()
            advance(
                k,
                self.condition.step,
                time[k],
                mass,
                bias,
                q,
                v,
                state,
                drive,
                gains,
                wanted[k],
                noise[k],
                log,
                elastic,
            )
        return log
