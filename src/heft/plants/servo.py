"""A servo on a bench, as a plant: a pendulum of known mass, driven by a duty cycle that is logged.

A brushed drive whose winding's inductance does not show gives the torque `A u V − B w`, of the
duty u, the supply V and the speed w: A = k/R and B = k k_e/R. Divided by A, with all that is known
of the arm in one column, the equation has the voltage u V alone on its right-hand side:

    (1/A) τ_arm(q, q̈) + (J/A) q̈ + (B/A) w·[torque on] + friction/A = u V

It is linear in 1/A and in what is divided by A, which scale with it: only the arm's known mass
tells one from the other. The speed's column is cut off where the torque is off, for then the
winding is open. Without such rows it is that of viscous friction, and only their sum is told.

A winding's resistance rises with its temperature, and 1/A with it: `1/A + (ρ/A) (T − T₀)`, of the
arm's column, where logs are of several temperatures T. The more torque, the less a volt gives:
`(1/A) τ (1 + s |τ|)` of the arm's torque.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import Labels, ParameterSpace
from heft.recordings import Recording
from heft.signals import Smoothed

from .plant import Channel, Inputs, Measured, MotionSignal, Plant, Rows, Samples, Sides

NAME = "servo"  # of its joint in a recording
UNITS = {  # of all columns that a servo may have; friction is that of sliding, and has no memory
    "arm": "V/(N·m)",
    "warmth": "V/(N·m·K)",
    "back_emf": "V·s/rad",
    "armature": "V·s²/rad",
    "viscous": "V·s/rad",
    "coulomb": "V",
    "load": "V/(N·m)",
    "sag": "V/(N·m)²",
    "offset": "V",
}


@dataclass(frozen=True)
class ServoMotion:
    """Motion of a servo's arm."""

    position: Array  # shape (N,) [rad], 0 where the arm hangs down
    velocity: Array
    acceleration: Array
    on: Array  # 1 where the torque is on, else 0, shape (N,)
    warm: Array  # T − T₀, constant in a log, shape (N,) [K]

    def part(self, rows: slice | NDArray[np.intp]) -> ServoMotion:
        """Return some of the samples."""
        return ServoMotion(*(x[rows] for x in vars(self).values()))


@dataclass(frozen=True, eq=False)
class ServoPlant(Plant[ServoMotion]):
    """A servo with a pendulum of known mass, whose duty and voltage are logged; see the module.

    A recording holds `q.servo`, the voltage `u.servo` [V], and `u.servo.on` and `u.servo.warm` as
    in `ServoMotion`.
    """

    moment: float  # m g l of the arm [N·m]
    inertia: float  # of the arm about the axis [kg·m²]
    released: bool  # whether logs have rows in which the torque is off
    warms: bool = False  # whether logs are of several temperatures

    @cached_property
    def labels(self) -> Labels:
        """1/A, its rise with temperature and B/A where they are told, and the drive's over A."""
        unseen = {"warmth": not self.warms, "back_emf": not self.released}
        seen = {n: unit for n, unit in UNITS.items() if not unseen.get(n)}
        return Labels(tuple(seen), tuple(seen.values()), NAME)

    @cached_property
    def space(self) -> ParameterSpace:
        """The columns themselves; of these only the offset may be negative."""
        count = len(self.labels)
        nominal = np.zeros(count)
        return ParameterSpace(
            self.labels, np.eye(count), nominal, nonnegative=tuple(range(count - 1))
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What the drive is given."""
        return (Channel("voltage", "V"),)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return the position, whether the torque is on, the warmth, and the voltage given."""
        on, warm = MotionSignal(f"u.{NAME}.on", 0, late=True), MotionSignal(f"u.{NAME}.warm", 0)
        voltage = (Measured(0, ((f"u.{NAME}", 1.0),)),) if measured else ()
        return Inputs((MotionSignal(f"q.{NAME}"), on, warm), voltage)

    def motion(self, smoothed: Smoothed) -> ServoMotion:
        """Return the motion, where the torque is on, and how warm it is."""
        q, on, warm = smoothed.position.T
        v, a = smoothed.velocity[:, 0], smoothed.acceleration[:, 0]
        return ServoMotion(q, v, a, np.round(on), warm)

    def _chosen(self, made: Mapping[str, Array], columns: Sequence[int]) -> Array:
        """Return columns of one channel, shape (N, 1, columns); zero where nothing was made."""
        nothing = np.zeros_like(made["arm"])
        names = [self.labels.names[k] for k in columns]
        return np.stack([made.get(n, nothing) for n in names], axis=-1)[:, None]

    def _columns(self, m: ServoMotion, arm: Array) -> dict[str, Array]:
        """Return all columns but that of the rotor, given that of the arm, (N,) [N·m]."""
        # Friction in the load turns its sign at a speed of .02 rad/s.
        torque = self.inertia * m.acceleration + self.moment * np.sin(m.position)
        return {
            "arm": arm,
            "warmth": arm * m.warm,
            "back_emf": m.on * m.velocity,
            "viscous": m.velocity,
            "coulomb": np.sign(m.velocity),
            "load": np.tanh(m.velocity / 0.02) * np.abs(torque),
            "sag": torque * np.abs(torque),
            "offset": np.ones(len(arm)),
        }

    def rows(self, samples: Samples[ServoMotion], columns: Sequence[int]) -> Rows:
        """Return rows of some columns."""
        m = samples.motion
        arm = self.inertia * m.acceleration + self.moment * np.sin(m.position)
        return Rows(self._chosen(self._columns(m, arm) | {"armature": m.acceleration}, columns))

    def sides(self, samples: Samples[ServoMotion], columns: Sequence[int]) -> Sides:
        """Return momentum, and what is not differentiated; see `Integrable`."""
        m = samples.motion
        arm = self.inertia * m.velocity
        momentum = {"arm": arm, "warmth": arm * m.warm, "armature": m.velocity}
        rest = self._columns(m, self.moment * np.sin(m.position))
        return Sides(self._chosen(momentum, columns), -self._chosen(rest, columns))

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[ServoMotion]:
        """Return random states."""
        q, v, a, warm = rng.normal(size=(4, count))
        motion = ServoMotion(q, v, 10.0 * a, np.round(rng.random(count)), warm)
        return Samples.of_motion(motion, count, 1)
