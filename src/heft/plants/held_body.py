"""A body held at a wrench sensor: what sensor and motion say of it, as rows.

The wrench that moves a body is `Y(a − g, ω, α) π` in the sensor's frame, moments about its
origin; the sensor adds a bias, and may tell late. All of that is linear, so bias and delay are
columns beside the body's ten. Accelerations need not be known: Y is made of a part whose
derivative counts, which holds velocities, and one that counts as it is; see `weak`.

    d/dt Y(v, 0, ω) π + Y(f, ω, 0) π + b − δ dw/dt = w,       a − g = dv/dt + f

with an accelerometer at the sensor v = 0 and f what it reads; with one a lever r away v = ω × r;
with poses v is the velocity in the frame and f = ω × v − Rᵀg.

Several sensors that hold one body are one: wrenches are summed in the first one's frame, and so
is their noise, which a lever arm enlarges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.information import AXES, PARAMETER_COUNT, SYMBOLS, UNITS, Labels, inertia, skew
from heft.signals import Samples

CHANNELS = (*(f"force.{a}" for a in AXES), *(f"torque.{a}" for a in AXES))
GAP_STEPS = 3.5  # time steps between samples of a sensor that make a gap
CHANNEL_UNITS = ("N", "N", "N", "N·m", "N·m", "N·m")


@dataclass(frozen=True, eq=False)
class Held:
    """What a sensor and its motion show, in the sensor's frame.

    Attributes:
        time: Shape (N,) [s].
        wrench: On the body, force and moment about the sensor's origin, shape (N, 6) [N, N·m].
        specific: f, what counts of a − g as it is, shape (N, 3) [m/s²].
        velocity: v, what counts by its derivative, shape (N, 3) [m/s].
        angular_velocity: ω, shape (N, 3) [rad/s].
        world: Rᵀ, from the world's axes to the sensor's, shape (N, 3, 3); (N, 3, 0) where it is
            not known, as by an inertial sensor, which feels gravity itself.
    """

    time: Array
    wrench: Array
    specific: Array
    velocity: Array
    angular_velocity: Array
    world: Array

    @staticmethod
    def with_accelerometer(
        time: Array,
        wrench: Array,
        acceleration: Array,
        angular_velocity: Array,
        lever: Sequence[float] = (0.0, 0.0, 0.0),
    ) -> Held:
        """Return what an inertial sensor beside the wrench sensor shows.

        Args:
            time: Shape (N,) [s].
            wrench: Shape (N, 6) [N, N·m].
            acceleration: Specific force where the accelerometer is, in the sensor's axes,
                centripetal terms included as it reads them, shape (N, 3) [m/s²].
            angular_velocity: ω, shape (N, 3) [rad/s].
            lever: From the accelerometer to the wrench sensor [m].
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
        """Return what a moving frame shows whose velocity is known.

        Args:
            time: Shape (N,) [s].
            wrench: Shape (N, 6) [N, N·m].
            velocity: Of the sensor's origin, in its axes, shape (N, 3) [m/s].
            angular_velocity: ω, shape (N, 3) [rad/s].
            gravity: Rᵀg, gravity in the sensor's axes, shape (N, 3) [m/s²].
            world: Rᵀ, shape (N, 3, 3), if gravity's direction may be asked for.
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
        """Return what poses at rest show; see `with_velocity`."""
        still = np.zeros((len(time), 3))
        return Held.with_velocity(time, wrench, still, still, gravity, world)

    @property
    def gravity(self) -> Array:
        """Gravity in the world that the motion was made with, shape (3,); (0,) where unknown."""
        felt = np.cross(self.angular_velocity[0], self.velocity[0]) - self.specific[0]
        return np.asarray(felt @ self.world[0])

    def part(self, rows: slice) -> Held:
        """Return some of the samples."""
        return Held(*(array[rows] for array in vars(self).values()))


def at_first(wrench: Array, rotation: Array, translation: Array) -> Array:
    """Return a wrench of another grasping point in the first one's frame, shape (N, 6).

    `[F; N] → [R F; R N + r × R F]`, the summands of the load identification chapter.

    Args:
        wrench: Shape (N, 6).
        rotation: R, from the other sensor's axes to the first one's, shape (3, 3).
        translation: r, from the first sensor to the other, in the first one's axes [m].
    """
    return np.asarray(wrench @ wrench_change(rotation, translation).T)


def wrench_change(rotation: Array, translation: Array) -> Array:
    """Return the 6×6 matrix of `at_first`."""
    R = np.asarray(rotation, dtype=float)
    change = np.zeros((6, 6))
    change[:3, :3] = change[3:, 3:] = R
    change[3:, :3] = skew(translation) @ R
    return change


@dataclass(frozen=True)
class Unknowns:
    """What is looked for beside the body.

    Attributes:
        bias: Whether the sensor adds a constant wrench.
        drift: Highest power of time with which the bias changes.
        delay: Whether the wrench is told late.
        begin, end: The times between which drift is measured, from −1 to 1 [s].
        cuts: Times in between at which the bias begins anew, and drift with it [s].
        tilt: Whether gravity may point elsewhere than stated.
        mounting: Whether the sensor's axes may be turned against the motion's.
        gains: Whether a channel tells more or less than there is.
    """

    bias: bool = True
    drift: int = 0
    delay: bool = False
    begin: float = 0.0
    end: float = 1.0
    cuts: tuple[float, ...] = ()
    tilt: bool = False
    mounting: bool = False
    gains: bool = False

    def __post_init__(self) -> None:
        if self.drift < 0 or (self.drift and not (self.bias and self.end > self.begin)):
            raise InvalidSetting(
                "a drift needs a bias, and a time in which it happens",
                argument="drift",
                got=self.drift,
            )

    @property
    def linear(self) -> bool:
        """Whether a solution is where it was looked for from anywhere."""
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
        """Return the powers of time that the bias is made of, part by part, shape (N, powers)."""
        if not self.bias:
            return np.zeros((len(time), 0))
        part = np.searchsorted(self.cuts, time, side="right")
        ends = np.array([self.begin, *self.cuts, self.end])
        place = 2.0 * (np.asarray(time) - ends[part]) / (ends[part + 1] - ends[part]) - 1.0
        powers = np.stack([place**p for p in range(self.drift + 1)], axis=1)
        own = part[:, None] == np.arange(len(self.cuts) + 1)
        return np.asarray((own[:, :, None] * powers[:, None, :]).reshape(len(place), -1))


def sides(held: Held, unknowns: Unknowns, turning_noise: float = 0.0) -> Samples:
    """Return both sides of the equation of motion, for `weak`.

    Columns of what is not linear stay zero; `linearised` fills them.

    Args:
        held: What is seen.
        unknowns: What is looked for beside the body.
        turning_noise: Standard deviation of ω [rad/s], whose square its products are too large by.
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
    """Return rows of poses at rest: Y, shape (N, 6, p), and the wrench, shape (N, 6)."""
    samples = sides(replace(held, angular_velocity=np.zeros_like(held.specific)), unknowns)
    return -samples.remainder, samples.effort


def noise_covariance(
    force: float, torque: float, others: Sequence[tuple[Array, Array]] = ()
) -> Array:
    """Return the covariance of a summed wrench, shape (6, 6).

    Args:
        force: Standard deviation of each sensor's forces [N].
        torque: Of its moments [N·m].
        others: Rotation and translation of each further sensor; see `at_first`.
    """
    if not (math.isfinite(force) and math.isfinite(torque) and min(force, torque) > 0.0):
        raise InvalidSetting(
            "a sensor's noise must be positive", argument="noise", got=f"{force} N, {torque} N·m"
        )
    one = np.diag([force**2] * 3 + [torque**2] * 3)
    total = one.copy()
    for rotation, translation in others:
        change = wrench_change(rotation, translation)
        total += change @ one @ change.T
    return total


def whitened(regressor: Array, wrench: Array, covariance: Array) -> Array:
    """Return rows `[Y w]` of unit variance, shape (6 N, p + 1).

    Args:
        regressor: Shape (N, 6, p).
        wrench: Shape (N, 6).
        covariance: Of each wrench, shape (6, 6).
    """
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    rows = np.concatenate([regressor, wrench[:, :, None]], axis=2)
    return np.asarray((root @ rows).reshape(-1, rows.shape[2]))
