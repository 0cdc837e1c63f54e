"""What a wrench sensor tells of a body: both sides of its equations, and what the sensor adds.

The wrench that moves a body is `Y(a − g, ω, α) π` in the sensor's frame, moments about its
origin; the sensor adds a bias, and may tell late. All of that is linear, so bias and delay are
columns beside the body's ten. Accelerations need not be known: Y is made of a part whose
derivative counts, which holds velocities, and one that counts as it is; see `weak_form`.

    d/dt Y(v, 0, ω) π + Y(f, ω, 0) π + b − δ dw/dt = w,       a − g = dv/dt + f

with an accelerometer at the sensor v = 0 and f what it reads; with one a lever r away v = ω × r;
with poses v is the velocity in the frame and f = ω × v − Rᵀg.

What is not linear is gravity's direction, the sensor's mounting, its gains:

    w = S Mᵀ Y(a − g) π + b

with the gain S of each channel, the rotation M from the sensor's axes to the motion's, and
gravity g in the world. About an estimate each is a column more beside the body's: what the wrench
changes by when gravity is turned about a horizontal axis, the sensor about an axis of its own, or
a channel tells more. Solving and moving the estimate again and again is the method of Gauss and
Newton.

Several sensors that carry one body are treated as one: their wrenches are summed in the first
one's frame, and so are their noise covariances, each sensor's its own, which lever arms enlarge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import (
    AXES,
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Labels,
    inertia,
    matrix_of_rotation_vector,
    rotation_vector_between,
    rotation_vector_of_matrix,
    skew,
)
from heft.signals import Samples

from .plant import wrench_channels

CHANNELS = tuple(channel.name for channel in wrench_channels())
CHANNEL_UNITS = tuple(channel.unit for channel in wrench_channels())
GAP_STEPS = 3.5  # time steps between samples of a sensor that make a gap


@dataclass(frozen=True, eq=False)
class GraspingPoint:
    """A further sensor that holds the same body, relative to the first one."""

    rotation: Array  # R, from its axes to the first one's, shape (3, 3)
    translation: Array  # r, from the first sensor to it, in the first one's axes, shape (3,) [m]
    # standard deviations of its force and of its moment over those of the first
    noise_ratio: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Held:
    """Wrench and motion of a wrench sensor, in the sensor's frame.

    The specific force of the sensor's origin is split as `a − g = dv/dt + f`, so that the weak
    form of the equations needs no acceleration.
    """

    time: Array  # shape (N,) [s]
    wrench: Array  # force on the body and moment about the sensor's origin, shape (N, 6) [N, N·m]
    specific: Array  # f, the part of a − g that is not differentiated, shape (N, 3) [m/s²]
    # v, the part that is differentiated, shape (N, 3) [m/s]; (N, 0) where it is not known, as of
    # an orientation without a position
    velocity: Array
    angular_velocity: Array  # ω, shape (N, 3) [rad/s]
    # Rᵀ, from the world's axes to the sensor's, shape (N, 3, 3); (N, 3, 0) where it is not known,
    # as with an inertial sensor, which measures a − g itself
    world: Array

    @staticmethod
    def with_accelerometer(
        time: Array,
        wrench: Array,
        acceleration: Array,
        angular_velocity: Array,
        lever: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> Held:
        """Return the signals of a wrench sensor with an inertial sensor fixed to it.

        Args:
            acceleration: Specific force where the accelerometer is, in the sensor's axes,
                centripetal terms included as it reads them, shape (N, 3) [m/s²].
            lever: From the accelerometer to the wrench sensor, in its axes, shape (3,) [m].
        """
        w, arm = np.asarray(angular_velocity, dtype=float), np.asarray(lever, dtype=float)
        turning = np.cross(w, arm)
        return Held(
            np.asarray(time, dtype=float),
            np.asarray(wrench, dtype=float),
            np.asarray(acceleration, dtype=float) + np.cross(w, turning),
            turning,
            w,
            np.zeros((len(w), 3, 0)),
        )

    @staticmethod
    def with_velocity(
        time: Array,
        wrench: Array,
        velocity: Array,
        angular_velocity: Array,
        gravity: Array,
        world: Array | None = None,
    ) -> Held:
        """Return the signals of a wrench sensor whose velocity is known, such as on a robot.

        Args:
            velocity: Of the sensor's origin, in its axes, shape (N, 3) [m/s].
            gravity: Rᵀg, gravity in the sensor's axes, shape (N, 3) [m/s²].
            world: Rᵀ, shape (N, 3, 3), needed if gravity's direction is to be estimated.
        """
        v, w = np.asarray(velocity, dtype=float), np.asarray(angular_velocity, dtype=float)
        return Held(
            np.asarray(time, dtype=float),
            np.asarray(wrench, dtype=float),
            np.cross(w, v) - np.asarray(gravity, dtype=float),
            v,
            w,
            np.zeros((len(w), 3, 0)) if world is None else np.asarray(world, dtype=float),
        )

    @staticmethod
    def at_rest(time: Array, wrench: Array, gravity: Array, world: Array | None = None) -> Held:
        """Return the signals of static poses, at zero velocity; arguments as of `with_velocity`."""
        still = np.zeros((len(time), 3))
        return Held.with_velocity(time, wrench, still, still, gravity, world)

    @property
    def gravity(self) -> Array:
        """Gravity in the world's axes as assumed, shape (3,) [m/s²]; (0,) where unknown."""
        felt = np.cross(self.angular_velocity[0], self.velocity[0]) - self.specific[0]
        return np.asarray(felt @ self.world[0])

    def part(self, rows: slice | NDArray[np.intp]) -> Held:
        """Return some of the samples."""
        return Held(*(array[rows] for array in vars(self).values()))


def at_first(wrench: Array, rotation: Array, translation: Array) -> Array:
    """Return a wrench of another sensor in the first one's frame, shape (N, 6) [N, N·m].

    `[F; N] → [R F; R N + r × R F]`, a summand of the total wrench on the body; rotation R and
    translation r are those of a `GraspingPoint`.
    """
    return np.asarray(wrench @ wrench_change(rotation, translation).T)


def wrench_change(rotation: Array, translation: Array) -> Array:
    """Return the transformation of wrenches in `at_first`, shape (6, 6)."""
    R = np.asarray(rotation, dtype=float)
    change = np.zeros((6, 6))
    change[:3, :3] = change[3:, 3:] = R
    change[3:, :3] = skew(translation) @ R
    return change


def noise_covariance(force: float, torque: float, others: Sequence[GraspingPoint] = ()) -> Array:
    """Return the noise covariance of a summed wrench, shape (6, 6) [N², N²·m, N²·m²].

    Args:
        force: Standard deviation of the first sensor's forces [N].
        torque: Standard deviation of its moments [N·m].

    Raises:
        InvalidSetting: If a deviation is not positive and finite.
    """
    if not (math.isfinite(force) and math.isfinite(torque) and min(force, torque) > 0.0):
        raise InvalidSetting(
            "a sensor's noise must be positive", argument="noise", got=f"{force} N, {torque} N·m"
        )
    own = np.repeat([force, torque], 3)
    total = np.diag(own**2)
    for other in others:
        change = wrench_change(other.rotation, other.translation)
        total += change @ np.diag((own * np.repeat(other.noise_ratio, 3)) ** 2) @ change.T
    return total


def whitened(regressor: Array, wrench: Array, covariance: Array) -> Array:
    """Return rows `[Y w]` of unit variance, shape (6 N, p + 1).

    Use it before least squares where the noise of a wrench's components is correlated.

    Args:
        regressor: Y, shape (N, 6, p).
        covariance: Noise covariance of each wrench, shape (6, 6).
    """
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    rows = np.concatenate([regressor, wrench[:, :, None]], axis=2)
    return np.asarray((root @ rows).reshape(-1, rows.shape[2]))


@dataclass(frozen=True)
class Unknowns:
    """Sensor parameters to be estimated together with the body's ten inertial parameters."""

    bias: bool = True  # whether the sensor adds a constant wrench
    drift: int = 0  # highest power of time with which the bias changes
    delay: bool = False  # whether the wrench is told late
    # begin, end: the times between which drift is measured, from −1 to 1 [s]
    begin: float = 0.0
    end: float = 1.0
    # times in between at which the bias begins anew, and drift with it [s]
    cuts: tuple[float, ...] = ()
    tilt: bool = False  # whether gravity may point elsewhere than stated
    mounting: bool = False  # whether the sensor's axes may be turned against the motion's
    gains: bool = False  # whether a channel tells more or less than there is

    def __post_init__(self) -> None:
        if self.drift < 0 or (self.drift and not (self.bias and self.end > self.begin)):
            raise InvalidSetting(
                "a drift needs a bias, and a time in which it happens",
                argument="drift",
                got=self.drift,
            )

    @property
    def linear(self) -> bool:
        """Whether the equations are linear, so that no iteration is needed."""
        return not (self.tilt or self.mounting or self.gains or self.delay)

    @property
    def labels(self) -> Labels:
        """Labels of all columns."""
        names = [f"payload.{s}" for s in SYMBOLS]
        units = list(UNITS)
        for part in range(len(self.cuts) + 1 if self.bias else 0):
            log = f"log{part + 1}." if self.cuts else ""
            for power in range(self.drift + 1):
                kind = "bias" if power == 0 else f"drift{power}"
                names += [f"sensor.{kind}.{log}{c}" for c in CHANNELS]
                units += CHANNEL_UNITS
        if self.tilt:
            names += ["sensor.tilt.1", "sensor.tilt.2"]
            units += ["rad"] * 2
        if self.mounting:
            names += [f"sensor.mounting.{a}" for a in AXES]
            units += ["rad"] * 3
        if self.gains:
            names += [f"sensor.gain.{c}" for c in CHANNELS]
            units += ["1"] * 6
        if self.delay:
            names.append("sensor.delay")
            units.append("s")
        return Labels(tuple(names), tuple(units), "sensor")

    def columns(self, kind: str) -> slice:
        """Return the columns whose labels begin with `sensor.<kind>`; none if there are none."""
        places = [k for k, n in enumerate(self.labels.names) if n.startswith(f"sensor.{kind}")]
        return slice(places[0], places[-1] + 1) if places else slice(0, 0)

    def powers(self, time: Array) -> Array:
        """Return the powers of scaled time [1] in bias and drift, piece by piece, (N, powers)."""
        if not self.bias:
            return np.zeros((len(time), 0))
        part = np.searchsorted(self.cuts, time, side="right")
        ends = np.array([self.begin, *self.cuts, self.end])
        place = 2.0 * (np.asarray(time) - ends[part]) / (ends[part + 1] - ends[part]) - 1.0
        powers = np.stack([place**p for p in range(self.drift + 1)], axis=1)
        own = part[:, None] == np.arange(len(self.cuts) + 1)
        return np.asarray((own[:, :, None] * powers[:, None, :]).reshape(len(place), -1))


@dataclass(frozen=True, eq=False)
class Point:
    """Estimate about which the nonlinear parameters are linearised."""

    stated: Array  # gravity in the world's axes as assumed in the signals, shape (3,) [m/s²]
    body: Array  # ten inertial parameters, shape (10,)
    gravity: Array  # gravity in the world's axes as estimated, shape (3,) [m/s²]
    rotation: Array  # M, from the sensor's axes to the motion's, shape (3, 3)
    gains: Array  # diagonal of S, shape (6,), dimensionless
    delay: float = 0.0  # delay of the wrench behind the motion [s]

    @staticmethod
    def of(gravity: Array) -> Point:
        """Return the initial estimate: no body, ideal sensor, gravity as assumed."""
        return Point(gravity, np.zeros(PARAMETER_COUNT), gravity, np.eye(3), np.ones(6))

    @property
    def axes(self) -> Array:
        """Two horizontal unit axes in the world, about which tilt is reported, shape (2, 3)."""
        return np.asarray(
            level(self.stated)
            @ matrix_of_rotation_vector(rotation_vector_between(self.stated, self.gravity)).T
        )

    def moved(self, unknowns: Unknowns, values: Array) -> Point:
        """Return the estimate after a Gauss-Newton step.

        Args:
            values: The body's parameters and the changes of the sensor's, shape (p,).
        """
        tilt, mounting = values[unknowns.columns("tilt")], values[unknowns.columns("mounting")]
        gains = values[unknowns.columns("gain")]
        moved = replace(self, body=values[:PARAMETER_COUNT])
        if unknowns.tilt:
            turn = matrix_of_rotation_vector(tilt @ self.axes)
            moved = replace(moved, gravity=turn @ self.gravity)
        if unknowns.mounting:
            turn = matrix_of_rotation_vector(mounting)
            moved = replace(moved, rotation=turn @ self.rotation)
        if unknowns.gains:
            moved = replace(moved, gains=self.gains + gains)
        if unknowns.delay:
            moved = replace(moved, delay=self.delay + float(values[-1]))
        return moved

    def whole(self, unknowns: Unknowns, values: Array) -> Array:
        """Return a solution with the sensor's parameters in place of their last changes, (p,)."""
        solution = values.copy()
        if unknowns.tilt:
            tilt = rotation_vector_between(self.stated, self.gravity)
            solution[unknowns.columns("tilt")] = level(self.stated) @ tilt
        if unknowns.mounting:
            solution[unknowns.columns("mounting")] = rotation_vector_of_matrix(self.rotation)
        if unknowns.gains:
            solution[unknowns.columns("gain")] = self.gains
        if unknowns.delay:
            solution[-1] = self.delay
        return solution


def sides(held: Held, unknowns: Unknowns, turning_noise: float = 0.0) -> Samples:
    """Return both sides of the equation of motion, for `weak_form`.

    Columns of nonlinear parameters stay zero; `linearised` fills them.

    Args:
        turning_noise: Standard deviation of the noise of ω [rad/s], whose variance biases the
            squares of ω and is subtracted.
    """
    count = len(held.time)
    w = held.angular_velocity
    none = np.zeros((count, 3))
    products = w[:, :, None] * w[:, None, :] - turning_noise**2 * np.eye(3)
    momentum = np.zeros((count, 6, len(unknowns.labels)))
    remainder = np.zeros_like(momentum)
    body = slice(0, PARAMETER_COUNT)
    momentum[:, :, body] = inertia.wrench_regressor(held.velocity, none, w, 0.0 * products)
    remainder[:, :, body] = -inertia.wrench_regressor(held.specific, none, none, products)
    first = PARAMETER_COUNT
    for power in unknowns.powers(held.time).T:
        remainder[:, :, first : first + 6] = -power[:, None, None] * np.eye(6)
        first += 6
    if unknowns.delay:
        momentum[:, :, -1] = -held.wrench
    return Samples(held.time, momentum, remainder, held.wrench)


def at_rest(held: Held, unknowns: Unknowns) -> tuple[Array, Array]:
    """Return rows of static poses: Y, shape (N, 6, p), and the wrench, shape (N, 6) [N, N·m].

    Angular velocity and its products count as zero.
    """
    samples = sides(replace(held, angular_velocity=np.zeros_like(held.specific)), unknowns)
    return -samples.remainder, samples.effort


def linearised(held: Held, unknowns: Unknowns, point: Point, turning_noise: float = 0.0) -> Samples:
    """Return both sides of the equation of motion about an estimate; arguments as of `sides`."""
    if held.world.shape[2]:
        tilted = held.world @ (point.gravity - point.stated)
        held = replace(held, specific=held.specific - tilted)
    made = sides(held, unknowns, turning_noise)
    ten = slice(0, PARAMETER_COUNT)
    if unknowns.tilt:
        none = np.zeros_like(held.specific)
        for column, axis in enumerate(point.axes, unknowns.columns("tilt").start):
            turned = inertia.wrench_regressor(
                held.world @ np.cross(axis, point.gravity), none, none
            )
            made.remainder[:, :, column] = turned @ point.body
    back = np.kron(np.eye(2), point.rotation.T)
    mounting = unknowns.columns("mounting")
    for part in (made.momentum, made.remainder):
        carried = part[:, :, ten] @ point.body
        if unknowns.mounting:
            turned = np.cross(carried.reshape(-1, 2, 1, 3), np.eye(3))
            part[:, :, mounting] = np.swapaxes(turned, 2, 3).reshape(-1, 6, 3)
        for kind in (ten, unknowns.columns("tilt"), mounting):
            part[:, :, kind] = point.gains[:, None] * (back @ part[:, :, kind])
        if unknowns.gains:
            turned_back = carried @ back.T
            part[:, :, unknowns.columns("gain")] = turned_back[:, :, None] * np.eye(6)
    return made


def level(gravity: Array) -> Array:
    """Return two horizontal axes in the world, of unit length, shape (2, 3)."""
    up = -gravity / np.linalg.norm(gravity)
    first = np.eye(3)[np.argmin(np.round(np.abs(up), 6))]  # x where up is z, whatever the rounding
    first = first - (first @ up) * up
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(up, first)])
