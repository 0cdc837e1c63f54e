"""A body held at a wrench sensor, as a plant: six channels, ten parameters, what the sensor adds.

Signals are taken as they are, for the weak form needs no derivative of them; poses at rest have
none. So a recording of what a sensor shows (`recording_of`) is all that a problem needs.

Several sensors that hold the body are one whose wrench is their sum, `w = Σ T_k w_k`. Its noise is
`Σ T_k D_k T_kᵀ`, D_k being that of sensor k: forces and moments of the sum are correlated by the
lever arms. Its channels here are those combinations `D_1^½ C⁻¹ w`, with C the Cholesky factor of
that covariance, whose noise is independent and of the first sensor's standard deviations again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import AXES, PARAMETER_COUNT, Labels, ParameterSpace, inertia, skew
from heft.recordings import Recording
from heft.signals import Smoothed

from .free_body import NOMINAL
from .plant import (
    Channel,
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
from .wrench_sensor import (
    GraspingPoint,
    Held,
    Point,
    Unknowns,
    linearised,
    noise_covariance,
)

FRAME = "sensor"
WRENCH = wrench_signals(FRAME)
KINEMATICS = tuple(f"{kind}.{FRAME}.{a}" for kind in ("acc", "vel", "omega") for a in AXES)
WORLD = tuple(f"u.{FRAME}.world{i}{j}" for i in AXES for j in AXES)


def recording_of(held: Held, name: str = "held") -> Recording:
    """Return the signals of a wrench sensor and of its motion as a recording in memory.

    Its signals are `force`, `torque`, `acc` (f, what counts of a − g as it is), `vel` and `omega`
    of the frame `sensor`, and `u.sensor.worldXX`, the elements of Rᵀ, where that is known.
    """
    columns = np.concatenate(
        [
            *(held.wrench, held.specific, held.velocity, held.angular_velocity),
            held.world.reshape(len(held.time), -1),
        ],
        axis=1,
    )
    signals: dict[str, dict[str, Array]] = {}
    for signal, values in zip((*WRENCH, *KINEMATICS, *WORLD), columns.T, strict=False):
        kind, _, rest = signal.partition(".")
        signals.setdefault(kind, {})[rest] = values
    return Recording.from_arrays(held.time, name, **signals)


@dataclass(frozen=True, eq=False)
class HeldMotion:
    """Motion of a held body."""

    at: Held  # signals of the sensor
    # their time derivatives, in the fields of velocity, ω and wrench; None where they are not
    # known, as for the weak form, or zero, as at rest
    rates: Held | None = None

    def part(self, rows: slice | NDArray[np.intp]) -> HeldMotion:
        """Return some of the samples."""
        return HeldMotion(self.at.part(rows), self.rates.part(rows) if self.rates else None)


@dataclass(frozen=True, eq=False)
class HeldBody(Plant[HeldMotion]):
    """A rigid body carried by a wrench sensor, as a plant: `Y x = w`.

    Nonlinear parameters (tilt, mounting, gains, delay) are linearised: their columns multiply
    changes from the point, all other columns the parameters themselves.
    """

    unknowns: Unknowns  # sensor parameters to be estimated with the body
    point: Point  # estimate about which rows are linearised
    # whether the samples are static poses, which do not identify the inertia tensor
    resting: bool = False
    # whether the sensor's orientation in the world is known; not with an inertial sensor
    world: bool = False
    # standard deviation of the noise of ω [rad/s], whose variance biases the squares of ω and is
    # subtracted
    turning_noise: float = 0.0
    others: tuple[GraspingPoint, ...] = ()  # further sensors that hold the body
    # standard deviation of the first sensor's force [N] and moment [N·m], by whose ratio the
    # channels of several sensors are decorrelated
    noise: tuple[float, float] = (1.0, 1.0)
    # whether f is the force measured, for want of an acceleration: then only moments are equations,
    # columns h and I are c and I about the centre of mass, and the mass is not seen
    by_force: bool = False

    @property
    def differentiated(self) -> str:
        """Why rows are differentiated where settings leave it open."""
        return "since nothing rubs"

    @cached_property
    def labels(self) -> Labels:
        """Labels of the body's ten inertial parameters and the sensor's parameters."""
        return self.unknowns.labels

    @cached_property
    def space(self) -> ParameterSpace:
        """The body's ten inertial parameters, physically consistent, and the sensor's."""
        nominal = np.zeros(len(self.labels))
        body = self.point.body
        sound = body[0] > 0.0 and inertia.consistency_margin(body) > 0.0
        nominal[:PARAMETER_COUNT] = body if sound else inertia.sphere(*NOMINAL)
        return ParameterSpace.of_one_body(self.labels, nominal)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Forces share one standard deviation, moments another."""
        return wrench_channels()[self._first :]

    @property
    def _first(self) -> int:
        return 3 if self.by_force else 0

    @property
    def independent(self) -> tuple[int, ...]:
        """All columns: a prior may separate what the data cannot, such as gains and mass."""
        return tuple(range(len(self.labels)))

    @property
    def point_columns(self) -> Sequence[int]:
        """Columns of the body and of tilt, mounting and gains, if any of these is estimated."""
        kinds = [self.unknowns.columns(k) for k in ("tilt", "mounting", "gain")]
        places = range(len(self.labels))
        own = [k for kind in kinds for k in places[kind]]
        return (*range(PARAMETER_COUNT), *own) if own else ()

    def about(self, values: Array) -> HeldBody:
        """Return the plant linearised about the values of a solution of these rows."""
        return replace(self, point=self.point.moved(self.unknowns, values))

    @cached_property
    def combined(self) -> Array | None:
        """Combinations of the wrench whose noise is independent, shape (6, 6); None of one sensor.

        D_1^½ C⁻¹ of the module's docstring. The moments of `by_force` hold `c × ε` of the force.
        """
        if not (self.others or self.by_force):
            return None
        covariance = noise_covariance(*self.noise, () if self.by_force else self.others)
        if self.by_force:
            lever = skew(self.point.body[1:4])
            covariance[3:, 3:] += self.noise[0] ** 2 * lever @ lever.T
        factor = np.linalg.cholesky(covariance)
        own = np.repeat(self.noise, 3)[:, None]
        return np.asarray(own * scipy.linalg.solve_triangular(factor, np.eye(6), lower=True))

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return all signals of `recording_of`; motion has the wrench, too, for its delay."""
        names = (*WRENCH, *KINEMATICS, *(WORLD if self.world else ()))
        for name in names:
            recording.require(name, "says what a wrench sensor and its motion show")
        motion = tuple(MotionSignal(name, 0, name in WRENCH) for name in names)
        shares = np.eye(6) if self.combined is None else self.combined
        channels = (
            Measured(k, tuple((n, float(s)) for n, s in zip(WRENCH, row, strict=True) if s))
            for k, row in enumerate(shares[self._first :])
        )
        return Inputs(motion, tuple(channels) if measured else ())

    def motion(self, smoothed: Smoothed) -> HeldMotion:
        """Return the sensor's signals, and their derivatives if they are known."""
        at, rate = (self._signals(x) for x in (smoothed.position, smoothed.velocity))
        finite = np.isfinite(smoothed.velocity).all()
        return HeldMotion(at, rate if finite and not self.resting else None)

    def _signals(self, values: Array) -> Held:
        count, parts = len(values), np.split(values, (6, 9, 12, 15), axis=1)
        wrench, specific, velocity, turning, world = parts
        turning = np.zeros_like(turning) if self.resting else turning
        axes = world.reshape(count, 3, 3 if self.world else 0)
        return Held(np.zeros(count), wrench, specific, velocity, turning, axes)

    def rows(self, samples: Samples[HeldMotion], columns: Sequence[int]) -> Rows:
        """Return Y of the wrench, shape (N, 6, columns) [N or N·m, per column's unit].

        It is that of poses at rest where derivatives are not known.
        """
        sides, rates = self._sides(samples, samples.motion.at), samples.motion.rates
        regressor = -sides.remainder
        if rates is not None:  # momentum is linear in what is differentiated
            regressor = regressor + self._sides(samples, rates).momentum
        return Rows(regressor[:, self._first :, list(columns)])

    def sides(self, samples: Samples[HeldMotion], columns: Sequence[int]) -> Sides:
        """Return both sides, (N, 6, columns): momentum [N·s, N·m·s] and remainder [N, N·m]."""
        sides = self._sides(samples, samples.motion.at)
        chosen = (slice(None), slice(self._first, None), list(columns))
        return Sides(sides.momentum[chosen], sides.remainder[chosen])

    def _sides(self, samples: Samples[HeldMotion], held: Held) -> Sides:
        noise = 0.0 if self.resting else self.turning_noise
        timed = replace(held, time=samples.time)
        made = linearised(timed, self.unknowns, self.point, noise)
        if self.combined is None:
            return Sides(made.momentum, made.remainder)
        return Sides(self.combined @ made.momentum, self.combined @ made.remainder)

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[HeldMotion]:
        """Return random signals with random derivatives; at rest in random directions."""

        def drawn() -> Held:
            specific, velocity, turning = rng.normal(size=(3, count, 3))
            wrench, axes = rng.normal(size=(count, 6)), rng.normal(size=(count, 3, 3))
            world = np.linalg.qr(axes)[0] if self.world else np.zeros((count, 3, 0))
            still = np.zeros_like(turning) if self.resting else turning
            return Held(np.zeros(count), wrench, specific, velocity, still, world)

        motion = HeldMotion(drawn(), None if self.resting else drawn())
        ends = (self.unknowns.begin, *self.unknowns.cuts, self.unknowns.end)
        place = np.sort(rng.uniform(0.0, len(ends) - 1, count))  # short parts as often as long ones
        time = np.interp(place, np.arange(len(ends)), ends)
        return replace(Samples.of_motion(motion, count, len(self.channels)), time=time)
