"""A simulator of experiments that shares nothing with heft's models: arms in MuJoCo.

Links move as MuJoCo says, drives as `simulated_drives` says, and a cascade controller that knows
only a wrong model keeps them on a motion that nobody follows exactly. What comes back is what a
user would have, a log and a model file that is wrong, and the truth beside it. heft's dynamics,
signals, plants and estimators are not used: what they assume cannot hide here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting, SolverFailure
from heft.recordings import Recording

from .arms import Arm
from .motions import Limits, Motion, MotionKind, draw_motion
from .sensors import Calibration, Sensors
from .simulated_drives import Drive, DriveRanges, table
from .simulated_links import Links
from .simulation_step import LOGGED, advance

PURPOSES = (
    *("drives", "prior", "motion", "encoders", "tilt", "torque", "clock"),
    *("calibration", "rows", "actuators"),
)
FARTHEST, FASTEST = 1e3, 1e4  # [rad or m, a second], where a robot has run away


Passive = Callable[[Array, Array], Array]  # see `Condition.passive`


@dataclass(frozen=True)
class Controller:
    """Gains of a cascade of position and velocity, with feed-forward of a wrong model.

    Without the integral and anything ahead it is a PD controller (`pd`); through the mass matrix at
    the measured position, its bias torque added, it is computed torque (`computed_torque`)
    [Spong1989, chapter 8].
    """

    position: float = 12.0  # speed per error of position [1/s]
    velocity: float = 35.0  # bandwidth of the velocity loop [rad/s]
    integral: float = 5.0  # of the velocity error [1/s]
    corner: float = 25.0  # of the filter of the differentiated position [Hz]
    # share of rotor inertia, viscous friction and passive torque that it knows, and of all friction
    # where it inverts the model
    known: float = 0.8
    ahead: float = 1.0  # share of the wrong model's torque that it gives ahead of any error
    # whether errors act through the wrong model's mass matrix where the robot is, and its bias
    # torque is that of where the robot is: computed torque
    inverse: bool = False
    saturating: bool = False  # whether torque ends at the joints' limits

    @staticmethod
    def pd(frequency: float = 4.0, damping: float = 1.0) -> Controller:
        """Return a PD controller of each joint: ω² J e + 2 ζ ω J ė, J its mean inertia.

        Args:
            frequency: ω / 2π [Hz].
            damping: ζ.
        """
        speed = 2.0 * np.pi * frequency
        return Controller(0.5 * speed / damping, 2.0 * damping * speed, 0.0, 40.0, 0.0, 0.0)

    @staticmethod
    def computed_torque(frequency: float = 4.0, damping: float = 1.0) -> Controller:
        """Return computed torque, M (a + 2 ζ ω ė + ω² e) + h; see `pd`."""
        return replace(Controller.pd(frequency, damping), known=0.8, ahead=1.0, inverse=True)


@dataclass(frozen=True)
class Condition:
    """Conditions of a simulated experiment: drives, sensors, motion, controller, model errors."""

    drives: DriveRanges = field(default_factory=DriveRanges)  # from what the drives are drawn
    sensors: Sensors = field(default_factory=Sensors)  # between motion and log
    # kind of the motion; or the motion itself, within the joints' limits
    motion: MotionKind | Motion = "sines"
    limits: Limits = field(default_factory=Limits)  # of a motion that is drawn
    controller: Controller = field(default_factory=Controller)  # of the arm
    duration: float = 25.0  # of the log [s]
    # of the base, about a random level axis [rad]; the model file does not say it
    tilt: float = 0.0
    wrong: float = 0.3  # standard deviation of ln(mass) of what is believed
    shift: float = 0.03  # rms error of the centres of mass that are believed [m]
    run_in: float = 2.0  # from rest to the log's first row [s]
    step: float = 5e-4  # of integration, control and encoders [s]
    other_duration: float = 12.0  # of the motions that nobody fits [s]
    # in the base's frame [m/s²]; the model file's if not given
    gravity: tuple[float, float, float] | None = None
    # rotors and friction of some joints, by name, in place of those drawn; the gears are drawn for
    # all
    fixed_drives: Mapping[str, Drive] = field(default_factory=dict)
    # torque that acts beside the one that is commanded and logged, white, anew in each step, rms,
    # as a share of each joint's typical torque
    actuator_noise: float = 0.0
    # torque that drives supply besides, behind the gears: of springs, say. Takes positions [rad or
    # m] and velocities of the links, both of shape (joints, N), and returns the torque, shape
    # (joints, N) [N·m or N]; none if not given
    passive: Passive | None = None


@dataclass(frozen=True, eq=False)
class ExactMotion:
    """True motion and torques of a simulated arm, without any sensor, a row a time.

    Use it to score predictions: errors of sensors are not part of it.
    """

    time: Array  # shape (N,) [s]
    q: Array  # positions on the side of the gears that is logged, shape (N, joints) [rad]
    v: Array  # their velocities [rad/s]
    a: Array  # their accelerations [rad/s²]
    tau: Array  # torque of the motors [N·m]
    # friction torque, ripple, constant torque and noise of actuators among it [N·m]
    friction: Array
    passed: Array  # torque that the gears pass on to the links [N·m]
    link: Array  # positions of the links, other than q where gears yield [rad]
    link_velocity: Array  # [rad/s]
    link_acceleration: Array  # [rad/s²]

    def part(self, rows: Any) -> ExactMotion:
        """Return some of the rows, copied."""
        return ExactMotion(*(np.array(getattr(self, k.name)[rows]) for k in fields(self)))


@dataclass(frozen=True, eq=False)
class SimulatedExperiment:
    """Log and model file of a simulated experiment, as a user would have them, and the truth."""

    simulator: Simulator  # what was simulated
    seed: int  # of all random numbers
    prior: bytes  # model file as the user has it, wrong
    recording: Recording  # the log, `q.<joint>` and `tau.<joint>`, or `current.<joint>`
    # what happened at the times of all rows, without any sensor; those that the log lost among them
    exact: ExactMotion
    calibration: Calibration  # what the sensors err by all the time
    kept: NDArray[np.int64]  # rows of `exact` that are in the log, shape (kept,)
    source: NDArray[np.int64]  # rows of `exact` whose values these hold, shape (kept,)

    @property
    def drives(self) -> tuple[Drive, ...]:
        """The true drives, in the order of `arm.joints`."""
        return self.simulator.drives_of(self.seed)

    @property
    def arm(self) -> Arm:
        """The arm; its `urdf` and `links` hold the true numbers."""
        return self.simulator.arm

    def steady(self, speed: Array) -> Array:
        """Return the true friction of steady sliding without load, shape (N, joints) [N·m]."""
        duration = self.simulator.condition.duration
        pairs = zip(self.drives, np.asarray(speed).T, strict=True)
        return np.stack([d.steady(v, duration) for d, v in pairs], axis=1)

    def other(self, kind: MotionKind | None = None, number: int = 1) -> ExactMotion:
        """Return another motion of the same arm under the same controller, exact.

        Args:
            kind: Of the motion; the log's own if not given.
            number: Selects the motion; 0 is that of the log.
        """
        return self.simulator.other(self.seed, kind or self.simulator.condition.motion, number)


@dataclass(frozen=True, eq=False)
class Simulator:
    """Simulator of experiments with an arm under a condition; `run` makes one for each seed.

    Use it to test estimators: it shares no code with heft's dynamics, signals or plants.

    Raises:
        InvalidSetting: If a row's time is no whole number of steps.
    """

    arm: Arm  # what is simulated
    condition: Condition = field(default_factory=Condition)  # how

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
        watch: Callable[[float], None] = lambda time: None,
    ) -> SimulatedExperiment:
        """Return the experiment of a seed, the same each time.

        Args:
            torque: What the torque sensors see of a motion, shape (steps, joints) [N·m]; the
                motors' torque if not given.
            number: Selects motion and noise of the sensors, of the same robot.
            watch: Called now and then with the simulated time [s].

        Raises:
            InvalidSetting: If MuJoCo is not installed.
            InvalidModel: If the arm is too weak for any motion of this kind.
            SolverFailure: If the simulated arm does not stay finite.
        """
        condition, sensors = self.condition, self.condition.sensors
        of_torque = self._random(seed, "torque", number)
        of_clock = self._random(seed, "clock", number)
        motion, readings = self._moved(seed, condition.motion, number, condition.duration, watch)
        rows = self._rows(condition.duration, sensors.rate)
        exact = motion.part(rows)
        effort = motion.tau if torque is None else torque(motion)
        size = np.sqrt(np.mean(effort[rows] ** 2, axis=0))
        calibration = sensors.calibration(size, self._random(seed, "calibration"))
        seen = sensors.seen_torque(exact.time, motion.time, effort)
        seen = sensors.calibrated(seen, exact.q, calibration)
        columns = {
            "q": sensors.seen_position(rows, readings, condition.step, calibration),
            sensors.effort: sensors.torque(seen, size, of_torque),
        }
        stamps = sensors.stamps(exact.time, of_clock)
        kept, source = sensors.kept(len(rows), self._random(seed, "rows", number))
        recording = Recording.from_arrays(
            stamps[kept],
            f"{self.arm.name} {seed}" + (f" {number}" if number else ""),
            **{
                kind: {j: values[source, k] for k, j in enumerate(self.arm.joints)}
                for kind, values in columns.items()
            },
        )
        prior = self.believed(seed)
        return SimulatedExperiment(self, seed, prior, recording, exact, calibration, kept, source)

    def _random(self, seed: int, purpose: str, number: int = 0) -> np.random.Generator:
        """Return random numbers of a purpose: other purposes' draws do not change them."""
        arm = zlib.crc32(self.arm.name.encode())
        return np.random.default_rng([arm, seed, number, PURPOSES.index(purpose)])

    def believed(self, seed: int) -> bytes:
        """Return the model file that the user and the controller have; see `Arm.believed`."""
        rng = self._random(seed, "prior")
        return self.arm.believed(rng, self.condition.wrong, self.condition.shift)

    def drives_of(self, seed: int) -> tuple[Drive, ...]:
        """Return the drives of a seed."""
        drawn = self.condition.drives.draw(*self.typical, self._random(seed, "drives"))
        fixed = self.condition.fixed_drives
        pairs = zip(self.arm.joints, drawn, strict=True)
        return tuple(fixed[j].with_gear_of(d) if j in fixed else d for j, d in pairs)

    @cached_property
    def typical(self) -> tuple[Array, Array]:
        """Typical torque [N·m] of the links and their inertia about each joint [kg·m²].

        Each of shape (joints,); drives are drawn in proportion to them.
        """
        rng = np.random.default_rng(0)
        links = self._links(self.arm.urdf)
        lower = np.where(np.isfinite(self.arm.lower), self.arm.lower, -np.pi)
        upper = np.where(np.isfinite(self.arm.upper), self.arm.upper, np.pi)
        q = rng.uniform(lower, upper, (200, len(self.arm.joints)))
        still = np.zeros_like(q)
        weight = links.inverse_dynamics(q, still, still)
        inertia = np.mean([np.diag(links.mass(x)) for x in q], axis=0)
        return np.sqrt(np.mean(weight**2, axis=0) + (4.0 * inertia) ** 2), inertia  # [rad/s²]

    def other(self, seed: int, kind: MotionKind | Motion, number: int) -> ExactMotion:
        """Return another motion of a seed's arm, exact; see `SimulatedExperiment.other`.

        Args:
            number: Selects the motion; 0 is that of the log.

        Raises:
            InvalidModel: If the arm is too weak for any motion of this kind.
            SolverFailure: If the simulated arm does not stay finite.
        """
        duration = self.condition.other_duration
        motion, _ = self._moved(seed, kind, number, duration)
        return motion.part(self._rows(duration, min(self.condition.sensors.rate, 250.0)))

    def _links(self, file: bytes) -> Links:
        links = Links.of(file, self.arm.joints)
        if self.condition.gravity is not None:
            links.point_gravity(np.array(self.condition.gravity))
        return links

    def _rows(self, duration: float, rate: float) -> NDArray[np.int64]:
        step = self.condition.step
        first, every = round(self.condition.run_in / step), round(1.0 / (rate * step))
        return np.asarray(first + every * np.arange(round(duration * rate)))

    def _moved(
        self,
        seed: int,
        kind: MotionKind | Motion,
        number: int,
        duration: float,
        watch: Callable[[float], None] = lambda time: None,
    ) -> tuple[ExactMotion, Array]:
        condition, sensors = self.condition, self.condition.sensors
        # A margin behind the end, for torque of a clock that runs fast.
        steps = round((duration + condition.run_in + 0.1) / condition.step)
        first = round(condition.run_in / condition.step)
        time: Array = condition.step * np.arange(-first, steps - first, dtype=np.float64)
        drives = self.drives_of(seed)
        wanted = self._wanted(seed, kind, number, time, drives)
        shape = (steps, len(drives))
        noise = sensors.encoder_noise * self._random(seed, "encoders", number).normal(size=shape)
        pushes = np.zeros(shape)
        if condition.actuator_noise:
            size = condition.actuator_noise * self.typical[0]
            pushes = size * self._random(seed, "actuators", number).normal(size=shape)
        links = self._links(self.arm.urdf)
        links.tilt(condition.tilt, self._random(seed, "tilt").uniform(0.0, 2.0 * np.pi))
        disturbed = np.stack([noise, pushes], axis=1)
        log = self._integrated(links, self.believed(seed), drives, time, wanted, disturbed, watch)
        logged = dict(zip((*LOGGED, "reading"), log, strict=True))
        link = [logged[k] for k in ("q", "v", "a")]
        rotor = [logged[k] for k in ("rotor", "rotor_speed", "rotor_acceleration")]
        rest = [logged[k] for k in ("tau", "friction", "passed")]
        if not sensors.link_side:
            return ExactMotion(time, *rotor, *rest, *link), logged["reading"]
        return ExactMotion(time, *link, *rest, *link), sensors.stepped(link[0] + noise)

    def _wanted(
        self,
        seed: int,
        kind: MotionKind | Motion,
        number: int,
        time: Array,
        drives: tuple[Drive, ...],
    ) -> Array:
        """Return wanted q and v and the feed-forward torque, shape (steps, 3, joints).

        For computed torque the wanted acceleration stands in the torque's place.

        Raises:
            InvalidModel: If the arm is too weak for any motion of this kind.
        """
        condition, rubs = self.condition, table(drives)
        rng = self._random(seed, "motion", number)
        believed = self._links(self.believed(seed))
        seldom = np.append(np.arange(0, len(time) - 1, 8), len(time) - 1)
        limits = condition.limits
        for _ in range(12):  # each smaller and slower
            motion = kind
            if isinstance(motion, str):
                begin, end = float(time[0]), float(time[-1])
                motion = draw_motion(motion, self.arm, rng, begin, end, limits)
            q, v, a = motion(time)
            coarse = believed.inverse_dynamics(q[seldom], v[seldom], a[seldom])
            if not isinstance(kind, str) or (np.abs(coarse) <= 0.9 * self.arm.effort).all():
                break
            limits = replace(limits, reach=0.9 * limits.reach, speed=0.9 * limits.speed)
        else:
            raise InvalidModel("the arm is too weak for such a motion", argument=self.arm.name)
        ahead = np.stack([np.interp(time, time[seldom], x) for x in coarse.T], axis=1)
        ahead += condition.controller.known * (rubs[0] * a + rubs[1] * v)
        ahead *= condition.controller.ahead
        if condition.controller.inverse:
            return np.ascontiguousarray(np.stack([q, v, a], axis=1))
        wanted = np.ascontiguousarray(np.stack([q, v, ahead], axis=1))
        wanted[:, 2] += condition.controller.ahead * self._helped(wanted)
        return wanted

    def _gains(self, inertia: Array, drives: tuple[Drive, ...]) -> Array:
        """Return the controller's gains, rows as `simulation_step.advance` takes them."""
        control = self.condition.controller
        # Computed torque multiplies by the mass matrix where the robot is.
        size = np.ones(len(drives)) if control.inverse else inertia + table(drives)[0]
        velocity = control.velocity * size
        keep = 1.0 - np.exp(-2.0 * np.pi * control.corner * self.condition.step)
        most = self.arm.effort if control.saturating else np.inf
        integral, quantum = control.integral * velocity, self.condition.sensors.quantum
        rows = np.broadcast_arrays(control.position, velocity, integral, quantum, keep, most)
        return np.array(rows)

    def _integrated(
        self,
        links: Links,
        file: bytes,
        drives: tuple[Drive, ...],
        time: Array,
        wanted: Array,
        noise: Array,
        watch: Callable[[float], None],
    ) -> Array:
        """Return the signals of every step, rows as `simulation_step.LOGGED` and the reading.

        Raises:
            SolverFailure: If the simulated robot does not stay finite.
        """
        n, elastic = len(drives), any(d.elastic for d in drives)
        drive, gains = table(drives), self._gains(self.typical[1], drives)
        links.armature = np.zeros(n) if elastic else drive[0]
        log, state = np.zeros((len(LOGGED) + 1, len(time), n)), np.zeros((10, n))
        q, v = links.state(wanted[0, 0])
        state[2] = state[7] = q
        weight, model = np.zeros((0, 0)), None
        if self.condition.controller.inverse:
            model = self._links(file)
            model.armature = self.condition.controller.known * drive[0]
            modelled = model.state(q)
            rubs = self._compensation(drive)
            helped = self._helped(wanted)
        passive = self.condition.passive
        for k in range(len(time)):
            mass, bias = links.equation()
            if passive is not None:
                bias = bias + passive(q[:, None], v[:, None])[:, 0]
            if model is not None:
                modelled[0][:], modelled[1][:] = state[7], state[5]
                weight, torque = model.equation()
                wanted[k, 2] = weight @ wanted[k, 2] + torque + rubs(wanted[k, 1])
                wanted[k, 2] += helped[k]
            if k % 100 == 0:
                self._refuse_runaway(float(time[k]), q, v)
                watch(float(time[k]))
            clock, moving = (k, self.condition.step, time[k]), (mass, bias, q, v)
            control = gains, weight, wanted[k], noise[k]
            try:
                advance(clock, moving, state, drive, control, log, elastic)
            except np.linalg.LinAlgError:  # the mass matrix is not finite, since the state is not
                self._refuse_runaway(float(time[k]), np.full(n, np.nan), v)
        self._refuse_runaway(float(time[k]), q, v)
        return log

    def _helped(self, wanted: Array) -> Array:
        """Return the passive torque along the reference that a controller knows, (N, joints)."""
        if self.condition.passive is None:
            return np.zeros_like(wanted[:, 0])
        torque = self.condition.passive(wanted[:, 0].T, wanted[:, 1].T).T
        return np.asarray(self.condition.controller.known * torque)

    def _compensation(self, drive: Array) -> Callable[[Array], Array]:
        """Return a function from wanted speeds to the friction [N·m] that a controller knows."""
        share = self.condition.controller.known
        viscous, sliding = share * drive[1], share * (drive[3] + drive[6])
        return lambda speed: viscous * speed + sliding * np.tanh(speed / 0.05)  # [rad/s]

    def _refuse_runaway(self, time: float, q: Array, v: Array) -> None:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(q) / FARTHEST, np.abs(v) / FASTEST)
        if (size < 1.0).all():
            return
        worst = int(np.argmax(np.where(np.isnan(size), np.inf, size)))
        raise SolverFailure(
            "the simulated robot does not stay finite",
            argument=self.arm.name,
            got=f"{self.arm.joints[worst]} at {q[worst]:.3g} rad (or m), {v[worst]:.3g} a second, "
            f"{time:.3f} s after the start",
            cure="softer gains, a shorter step, or a stiffer gear: what the controller asks for in "
            "one step is more than the simulated drive can follow",
        )
