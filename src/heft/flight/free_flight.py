"""Flights in closed loop, simulated: a designed motion tracked with a load that nobody modelled.

At each sample the pose is measured, with noise; an extended Kalman filter of these measurements,
which are those of the log, feeds the tracking; its command is logged and acts until the next
sample. The body and its load fly in MuJoCo (`FreeFlyerWorld`), by equations that heft does not
have. The truth is beside the log, and how well the best estimate could tell it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import PLACE, TURN
from heft.errors import InvalidSetting
from heft.files import Number, check_fields
from heft.information import AXES, inertia
from heft.models import FreeFlyer, Load
from heft.recordings import Recording
from heft.simulation import FreeFlyerWorld, Inertial, Thruster, coloured

from .flight_design import FlightReference
from .flight_log import lagging
from .flyer_model import Filtered, FilterSettings, FlightFilter, FlyerModel
from .predictive_tracking import Plan, PredictiveTracking, TrackingSettings


@dataclass(frozen=True)
class FlightFaults:
    """Faults of the measured poses."""

    dropped: float = 0.0  # share of poses that are not there: NaN in the log
    repeated: float = 0.0  # share that are those before once more
    outliers: float = 0.0  # share that are off by much
    outlier_position: float = 0.1  # how much, an axis [m]
    outlier_angle: float = 0.2  # how much, an axis [rad]
    # factor a of noise `n_k = a n_(k−1) + √(1 − a²) w_k` of the same size; white if 0
    colour: float = 0.0
    # whether the controller sees the true state instead of the log's poses: then the commands tell
    # of the motion what the log does not, and estimates are biased
    privileged: bool = False

    def __post_init__(self) -> None:
        for name in ("dropped", "repeated", "outliers", "colour"):
            check_fields(self, {name: Number(f"{name} is a share", 0.0, below=1.0)})


@dataclass(frozen=True)
class FlightSettings:
    """How a flight is simulated."""

    cycles: int = 10  # how often the reference is flown
    seed: int = 0  # of the noise
    step: float = 0.0025  # of the integration, at most [s]
    tracking: TrackingSettings | None = None  # of the controller; the body's if not given
    filter: FilterSettings = FilterSettings()  # of what it sees
    faults: FlightFaults = FlightFaults()  # of the measured poses


@dataclass(frozen=True, eq=False)
class FlightTruth:
    """True signals of a flight, at the log's times."""

    time: Array  # shape (N,) [s]
    parameters: Array  # of body and load, about the frame's origin, shape (10,)
    position: Array  # of the frame's origin in the world, shape (N, 3) [m]
    quaternion: Array  # shape (N, 4)
    velocity: Array  # in the world, shape (N, 3) [m/s]
    turning: Array  # ω in the body's axes, shape (N, 3) [rad/s]
    commands: Array  # as logged, shape (N, n)
    thrust_noise: Array  # added to the thrusts until the next sample, shape (N, n)
    wanted: Array  # desired states, shape (N, 13)

    @property
    def tracking_error(self) -> float:
        """Rms distance from the reference's position [m]."""
        return float(np.sqrt(np.mean(np.sum((self.position - self.wanted[:, PLACE]) ** 2, 1))))


@dataclass(frozen=True, eq=False)
class Flight:
    """A simulated flight."""

    # what was measured: `u.<actuator>`, `pos.<body>.x`, `quat.<body>.w` and, with an inertial
    # sensor, `omega.<body>.x` and `acc.<body>.x`
    log: Recording
    truth: FlightTruth  # what was true
    saturation: float  # share of samples at which the actuators can do no more
    unsolved: int = 0  # how many of the controller's problems had no solution


def fly(
    flyer: FreeFlyer,
    reference: FlightReference,
    loads: Sequence[Load] = (),
    settings: FlightSettings = FlightSettings(),
) -> Flight:
    """Return a flight along a reference, in closed loop.

    Args:
        flyer: The body as its controller knows it, without loads.
        loads: What is fixed to it, unknown to the controller.

    Raises:
        InvalidSetting: If the step of the commands is no multiple of the samples', or MuJoCo or
            the solver is not installed.
    """
    period, faults = 1.0 / flyer.pose.rate, settings.faults
    tracking = settings.tracking or TrackingSettings.of(flyer)
    every = round(tracking.step / period)
    if every < 1 or abs(every * period - tracking.step) > 1e-9:
        raise InvalidSetting(
            "commands change at samples of the pose",
            argument="tracking.step",
            got=f"{tracking.step:g} s at {flyer.pose.rate:g} Hz",
            expected=f"a multiple of {period:g} s",
        )
    count = round(settings.cycles * reference.duration * flyer.pose.rate)
    time = np.asarray(np.arange(count) * period, dtype=float)
    noise = _Noise.of(flyer, faults, count, np.random.default_rng(settings.seed))
    bodies = [flyer.nominal, *(load.parameters for load in loads)]
    pushes = zip(flyer.mixing.T, flyer.actuators.lag.tolist(), strict=True)
    masses = [Inertial.of_inertia(*inertia.to_body(ten)) for ten in bodies]
    step = period / int(np.ceil(period / settings.step))
    world = FreeFlyerWorld(masses, [Thruster(*p) for p in pushes], flyer.gravity, step)
    controller, wanted = PredictiveTracking(flyer, reference, tracking), reference.states(time)[0]
    pose = flyer.pose
    watcher = FlightFilter(FlyerModel.of(flyer), pose.position, pose.angle, settings.filter)
    n = len(flyer.actuators)
    shapes = {"pos": 3, "quat": 4, "p": 3, "q": 4, "v": 3, "w": 3, "u": n, "omega": 3, "acc": 3}
    rows = {name: np.full((count, size), np.nan) for name, size in shapes.items()}
    plan: Plan | None = None
    seen: Filtered | None = None
    unsolved = 0
    command = thrust = controller.trim(wanted[:1, TURN])[0]
    world.spin_up(command)
    for k, now in enumerate(time.tolist()):
        state = world.state
        true = state.position, state.quaternion, state.velocity, state.turning
        measured = noise.pose(k, *true[:2], rows)
        if seen is None:  # where nothing is measured yet, at the reference
            there = np.isfinite(measured[0]).all()
            seen = watcher.start(*(measured if there else (wanted[0, PLACE], wanted[0, TURN])))
        else:
            step = now - float(time[k - 1])
            mean, thrust = lagging(thrust, command, step, flyer.actuators.lag)
            seen = watcher.updated(watcher.predicted(seen, mean, step), *measured)
        if k % every == 0:
            shown = np.concatenate(true) if faults.privileged else seen.state
            if plan is None:
                plan = controller.start(now, shown)
            else:
                plan = controller.step(plan, now, shown)
                unsolved += not plan.solved
            command = plan.commands[0]
        for name, value in zip("pqvwu", (*true, command), strict=True):
            rows[name][k] = value
        if flyer.imu is not None:
            rows["omega"][k] = state.turning + noise.gyroscope[k]
            felt = world.specific_force_under(command, noise.thrust[k])
            rows["acc"][k] = felt + noise.accelerometer[k]
        world.advance(command, noise.thrust[k], time[1] - time[0])
    p, q, v, w, u = (rows[name] for name in "pqvwu")
    truth = FlightTruth(time, np.sum(bodies, axis=0), p, q, v, w, u, noise.thrust, wanted)
    saturation = flyer.actuators.saturation(u)
    return Flight(_log(flyer, time, rows), truth, saturation, unsolved)


def _log(flyer: FreeFlyer, time: Array, rows: Mapping[str, Array]) -> Recording:
    signals = {"u": dict(zip(flyer.actuators.names, rows["u"].T, strict=True))}
    for kind in ("pos", "quat", "omega", "acc")[: 2 if flyer.imu is None else 4]:
        axes = ("w", *AXES) if kind == "quat" else AXES
        signals[kind] = {f"{flyer.name}.{a}": rows[kind][:, k] for k, a in enumerate(axes)}
    return Recording.from_arrays(time, f"flight of {flyer.name}", **signals)


@dataclass(frozen=True, eq=False)
class _Noise:
    """All random numbers of a flight, drawn before it: a fault changes no other."""

    position: Array
    angle: Array
    thrust: Array
    gyroscope: Array
    accelerometer: Array
    dropped: NDArray[np.bool_]
    repeated: NDArray[np.bool_]
    away: Array

    @staticmethod
    def of(flyer: FreeFlyer, faults: FlightFaults, count: int, rng: np.random.Generator) -> _Noise:
        white = rng.normal(size=(count, 18 + len(flyer.actuators)))
        chance = rng.random((count, 3))
        pose = coloured(white[:, :6], faults.colour)
        sigma = np.repeat([flyer.pose.position, flyer.pose.angle], 3)
        far = np.repeat([faults.outlier_position, faults.outlier_angle], 3)
        out = (chance[:, 2] < faults.outliers)[:, None] * white[:, 6:12] * far
        imu = flyer.imu
        return _Noise(
            (pose * sigma)[:, :3],
            (pose * sigma)[:, 3:],
            white[:, 18:] * flyer.actuators.noise,
            white[:, 12:15] * (imu.gyroscope if imu else 0.0),
            white[:, 15:18] * (imu.accelerometer if imu else 0.0),
            chance[:, 0] < faults.dropped,
            chance[:, 1] < faults.repeated,
            out,
        )

    def pose(
        self, k: int, position: Array, quaternion: Array, rows: dict[str, Array]
    ) -> tuple[Array, Array]:
        """Write the measured pose of sample k into the log's rows, and return it."""
        if self.repeated[k] and k:
            rows["pos"][k], rows["quat"][k] = rows["pos"][k - 1], rows["quat"][k - 1]
        elif not self.dropped[k]:
            rows["pos"][k] = position + self.position[k] + self.away[k, :3]
            rows["quat"][k] = _turned_by(quaternion, self.angle[k] + self.away[k, 3:])
        return rows["pos"][k], rows["quat"][k]


def _turned_by(quaternion: Array, vector: Array) -> Array:
    """Return a quaternion turned about the body's axes by a rotation vector [rad]."""
    angle = float(np.linalg.norm(vector))
    c, s = np.cos(0.5 * angle), 0.5 * np.sinc(0.5 * angle / np.pi)
    w, v = quaternion[0], quaternion[1:]
    x = s * vector
    return np.concatenate(([w * c - v @ x], w * x + c * v + np.cross(v, x)))
