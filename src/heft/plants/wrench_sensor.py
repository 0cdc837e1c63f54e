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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

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
)
from heft.signals import Samples

from .held_signals import CHANNEL_UNITS, CHANNELS, Held


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
        """Return the powers of scaled time in the bias and drift, piece by piece.

        Args:
            time: Shape (N,) [s].

        Returns:
            Shape (N, powers), dimensionless.
        """
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
        return replace(
            self,
            body=values[:PARAMETER_COUNT],
            gravity=matrix_of_rotation_vector(tilt @ self.axes) @ self.gravity
            if len(tilt)
            else self.gravity,
            rotation=matrix_of_rotation_vector(mounting) @ self.rotation
            if len(mounting)
            else self.rotation,
            gains=self.gains + gains if len(gains) else self.gains,
            delay=self.delay + (float(values[-1]) if unknowns.delay else 0.0),
        )

    def whole(self, unknowns: Unknowns, values: Array) -> Array:
        """Return a solution with the sensor's parameters in place of their last changes.

        Args:
            values: Solution of the last Gauss-Newton step, shape (p,); see `moved`.
        """
        found = values.copy()
        if unknowns.tilt:
            tilt = rotation_vector_between(self.stated, self.gravity)
            found[unknowns.columns("tilt")] = level(self.stated) @ tilt
        if unknowns.mounting:
            found[unknowns.columns("mounting")] = rotation_vector_of_matrix(self.rotation)
        if unknowns.gains:
            found[unknowns.columns("gain")] = self.gains
        if unknowns.delay:
            found[-1] = self.delay
        return found


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
    """Return both sides of the equation of motion about an estimate; see `sides`.

    Args:
        turning_noise: Standard deviation of the noise of ω [rad/s]; see `sides`.
    """
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
            told = carried @ back.T
            part[:, :, unknowns.columns("gain")] = told[:, :, None] * np.eye(6)
    return made


def level(gravity: Array) -> Array:
    """Return two horizontal axes in the world, of unit length, shape (2, 3)."""
    up = -gravity / np.linalg.norm(gravity)
    first = np.eye(3)[np.argmin(np.round(np.abs(up), 6))]  # x where up is z, whatever the rounding
    first = first - (first @ up) * up
    first = first / np.linalg.norm(first)
    return np.stack([first, np.cross(up, first)])
