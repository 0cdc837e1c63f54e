"""A free rigid body whose applied wrench is known, by its pose or by an inertial sensor.

    wrench = Y(a − g, ω, α) π,        all in the body's frame

with a the acceleration of the frame's origin. By a pose (p, q), `a = Rᵀ p̈`, `ω = 2 vec(q* q̇)` and
`α = 2 vec(q* q̈)`; an inertial sensor at the origin reads a − g and ω, and α is a derivative of ω.
What acts on the body is one wrench about its frame's origin, such as actuators sum up to.

The weak form needs neither a nor α: `d/dt Y(v, 0, ω) π + Y(f, ω, 0) π = wrench` with a − g = v̇ + f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import (
    AXES,
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Labels,
    ParameterSpace,
    angular_velocity,
    inertia,
    matrix_of_quaternion,
)
from heft.recordings import Recording
from heft.signals import Smoothed

from .attitude import Turning, times
from .plant import (
    Channel,
    Coordinate,
    Inputs,
    Measured,
    MotionSignal,
    Plant,
    Rows,
    Samples,
    Sides,
    wrench_channels,
    wrench_signals,
)

NOMINAL = (1.0, 0.1)  # mass [kg] and radius of gyration [m] of a body of which nothing is believed


@dataclass(frozen=True, eq=False)
class BodyMotion:
    """Motion of a body, in its own frame."""

    specific: Array  # acceleration of the origin less gravity, a − g, shape (N, 3) [m/s²]
    angular_velocity: Array  # ω, shape (N, 3) [rad/s]
    angular_acceleration: Array  # α, shape (N, 3) [rad/s²]
    # of the origin, what counts by its derivative in the weak form, shape (N, 3) [m/s]
    velocity: Array
    rest: Array  # f, what counts as it is: a − g = v̇ + f, shape (N, 3) [m/s²]

    def part(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return some of the samples."""
        return type(self)(*(array[rows] for array in vars(self).values()))


@dataclass(frozen=True, eq=False)
class DesignedMotion(BodyMotion):
    """Motion of a body by position, roll, pitch and yaw."""

    turning: Turning  # of the attitude

    def part(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return some of the samples."""
        own = {k: getattr(self, k)[rows] for k in BodyMotion.__dataclass_fields__}
        return type(self)(**own, turning=self.turning.part(rows))


@dataclass(frozen=True, eq=False)
class FreeBody(Plant[BodyMotion]):
    """A free-flying rigid body under a known wrench, as a plant: `Y(a − g, ω, α) π = wrench`.

    Use it where pose or inertial signals and the actuators' total wrench are logged.
    """

    # its name in the signals: `pos.FRAME.x`, `quat.FRAME.w`, `omega.FRAME.x`, `acc.FRAME.x`;
    # `force.FRAME.x` and `torque.FRAME.x` are what is applied to it
    frame: str = "body"
    # a pose, or an inertial sensor at the frame's origin
    motion_from: Literal["pose", "imu"] = "pose"
    # in the world, shape (3,) [m/s²]; of no concern to an inertial sensor
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # ten parameters believed of it, shape (10,); a sphere of 1 kg if not given
    nominal: Array | None = None

    @property
    def differentiated(self) -> str:
        """Why rows are differentiated where settings leave it open."""
        return "since nothing rubs"

    @cached_property
    def labels(self) -> Labels:
        """Labels of the body's ten inertial parameters."""
        return Labels(tuple(f"{self.frame}.{s}" for s in SYMBOLS), UNITS, self.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """The body's ten inertial parameters, physically consistent."""
        nominal = inertia.sphere(*NOMINAL) if self.nominal is None else self.nominal
        return ParameterSpace.of_one_body(self.labels, nominal)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Force and moment applied."""
        return wrench_channels()

    @property
    def order(self) -> Sequence[int]:
        """Order of the ten columns, which are independent of one another."""
        return range(PARAMETER_COUNT)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return pose or inertial signals, and the applied wrench."""
        kinds = (
            (("pos", 2), ("quat", 2)) if self.motion_from == "pose" else (("omega", 1), ("acc", 0))
        )
        motion = []
        for kind, derivatives in kinds:
            for axis in ("w", *AXES) if kind == "quat" else AXES:
                name = f"{kind}.{self.frame}.{axis}"
                recording.require(name, f"says how '{self.frame}' moves")
                motion.append(MotionSignal(name, derivatives))  # type: ignore[arg-type]
        wrench = []
        for k, name in enumerate(wrench_signals(self.frame) if measured else ()):
            recording.require(name, f"is what is applied to '{self.frame}'")
            wrench.append(Measured(k, ((name, 1.0),)))
        return Inputs(tuple(motion), tuple(wrench))

    def motion(self, smoothed: Smoothed) -> BodyMotion:
        """Return the motion in the body's frame."""
        if self.motion_from == "imu":
            still = np.zeros((len(smoothed.position), 3))
            w, alpha = smoothed.position[:, :3], smoothed.velocity[:, :3]
            specific = smoothed.position[:, 3:]
            return BodyMotion(specific, w, alpha, still, specific)
        attitude = slice(3, 7)  # what follows is of plants that are more
        q = smoothed.position[:, attitude]
        back = np.swapaxes(matrix_of_quaternion(q), 1, 2)
        w, alpha = turning(q, smoothed.velocity[:, attitude], smoothed.acceleration[:, attitude])

        def inside(vectors: Array) -> Array:
            return np.asarray(np.einsum("nij,nj->ni", back, vectors))

        v = inside(smoothed.velocity[:, :3])
        weight = inside(np.broadcast_to(np.asarray(self.gravity), v.shape))
        specific = inside(smoothed.acceleration[:, :3]) - weight
        return BodyMotion(specific, w, alpha, v, np.cross(w, v) - weight)

    def rows(self, samples: Samples[BodyMotion], columns: Sequence[int]) -> Rows:
        """Return Y of force and moment, shape (N, 6, columns) [N or N·m, per column's unit]."""
        m = samples.motion
        every = inertia.wrench_regressor(m.specific, m.angular_velocity, m.angular_acceleration)
        return Rows(every[:, :, list(columns)])

    def sides(self, samples: Samples[BodyMotion], columns: Sequence[int]) -> Sides:
        """Return both sides, (N, 6, columns): momentum [N·s, N·m·s] and remainder [N, N·m]."""
        m, chosen = samples.motion, list(columns)
        none = np.zeros_like(m.velocity)
        w = m.angular_velocity
        products = w[:, :, None] * w[:, None, :]
        momentum = inertia.wrench_regressor(m.velocity, none, w, 0.0 * products)
        rest = inertia.wrench_regressor(m.rest, none, none, products)
        return Sides(momentum[:, :, chosen], -rest[:, :, chosen])

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Position of the origin in the world, then roll, pitch and yaw."""
        places = (Coordinate(a, "m") for a in AXES)
        return (*places, *(Coordinate(a, "rad") for a in ("roll", "pitch", "yaw")))

    def samples_at(self, q: Array, v: Array, a: Array) -> Samples[BodyMotion]:
        """Return samples of a motion; see `Excitable`.

        Args:
            q: Position, then roll, pitch and yaw (`matrix_of_rpy`), shape (N, 6) [m, rad].
            v: Their derivatives, which are not the body's rates, shape (N, 6).
            a: Their second derivatives, shape (N, 6).
        """
        turning = Turning.of(q[:, 3:], v[:, 3:], a[:, 3:])
        back = np.swapaxes(turning.rotation, 1, 2)
        w, inside = turning.velocity, times(back, v[:, :3])
        specific = times(back, a[:, :3] - np.asarray(self.gravity))
        rest = np.cross(w, inside) + specific - times(back, a[:, :3])
        motion = DesignedMotion(specific, w, turning.acceleration, inside, rest, turning)
        return Samples.of_motion(motion, len(q), len(self.channels))

    def pull_back(
        self, samples: Samples[DesignedMotion], columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y by q, v and a, each of shape (N, 6); see `Excitable`."""
        m = samples.motion
        specific, velocity, rise = self.pulled_to_motion(m, columns, seeds)
        angles = m.turning.pull_back(np.cross(specific, m.specific), velocity, rise)
        force = times(m.turning.rotation, specific)
        nothing = np.zeros_like(force)
        by_q, by_v, by_a = zip((nothing, nothing, force), angles, strict=True)
        return np.hstack(by_q), np.hstack(by_v), np.hstack(by_a)

    @staticmethod
    def pulled_to_motion(
        motion: BodyMotion, columns: Sequence[int], seeds: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of Σ S·Y of force and moment by a − g, ω and α, (N, 3) each.

        Args:
            seeds: S, shape (N, 6, columns).
        """
        chosen = list(columns)
        specific, rise, turned = (
            np.asarray(seeds.reshape(len(seeds), -1) @ part[:, :, chosen].reshape(len(part), -1).T)
            for part in _parts_of_rows()
        )
        spread = turned.reshape(-1, 3, 3)
        velocity = times(spread + np.swapaxes(spread, 1, 2), motion.angular_velocity)
        return specific, velocity, rise

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[BodyMotion]:
        """Return random accelerations, angular velocities and angular accelerations."""
        v, w, alpha, rest, change = rng.normal(size=(5, count, 3))
        motion = BodyMotion(rest + change, w, alpha, v, rest)
        return Samples.of_motion(motion, count, len(self.channels))


@cache
def _parts_of_rows() -> tuple[Array, Array, Array]:
    """Return rows of unit a − g, α and products ωωᵀ, of which all rows are linear combinations."""
    one, none, still = np.eye(3), np.zeros((3, 3)), np.zeros((9, 3))
    return (
        inertia.wrench_regressor(one, none, none),
        inertia.wrench_regressor(none, none, one),
        inertia.wrench_regressor(still, still, still, np.eye(9).reshape(9, 3, 3)),
    )


def turning(quaternion: Array, rate: Array, acceleration: Array) -> tuple[Array, Array]:
    """Return ω and α in the body's axes, each shape (N, 3) [rad/s, rad/s²].

    `ω |q|² = 2 vec(q* q̇)`, and its derivative, since q̇* q̇ has no vector part; a smoothed quaternion
    is not quite of unit length.

    Args:
        quaternion: w, x, y, z, shape (N, 4).
        rate: Its first derivative, shape (N, 4) [1/s].
        acceleration: Its second derivative, shape (N, 4) [1/s²].
    """
    square = np.sum(quaternion**2, axis=1, keepdims=True)
    w = angular_velocity(quaternion, rate)
    twice = angular_velocity(quaternion, acceleration)
    growth = 2.0 * np.sum(quaternion * rate, axis=1, keepdims=True) / square
    return w, np.asarray(twice - growth * w)
