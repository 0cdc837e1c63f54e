"""A servo on a bench, as a plant: a pendulum of known mass, driven by a duty cycle that is logged.

A brushed drive whose winding's inductance does not show gives the torque `A u V − B w`, of the
duty u, the supply V and the speed w: A = k/R and B = k k_e/R. Divided by A, with all that is known
of the arm in one column, the equation has the voltage u V alone on its right-hand side:

    (1/A) τ_arm(q, q̈) + (J/A) q̈ + (B/A) w·[torque on] + friction/A = u V

It is linear in 1/A and in what is divided by A, which scale with it: only the arm's known mass
tells one from the other. The speed's column is cut off where the torque is off, for then the
winding is open. Without such rows it is that of viscous friction, and only their sum is told.

A winding's resistance rises with its temperature, and 1/A with it: `1/A + (ρ/A) (T − T₀)`, of the
arm's column, where logs are of several temperatures T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import (
    Armature,
    Coulomb,
    Drive,
    Drives,
    DriveState,
    Load,
    Offset,
    Viscous,
    drive_columns,
)
from heft.information import Labels, ParameterSpace
from heft.recordings import Recording
from heft.signals import Smoothed

from .plant import Channel, Inputs, Measured, MotionSignal, Plant, Rows, Samples, Sides

NAME = "servo"  # of its joint in a recording
VOLTS, ON = f"u.{NAME}", f"u.{NAME}.on"  # u V [V]; 1 where the torque is on, else 0
WARM = f"u.{NAME}.warm"  # T − T₀ [K]
SLOW = 0.02  # [rad/s], speed at which friction in the load turns its sign
NO_STOPS = np.empty((0, 0))  # friction remembers nothing: rows are of what slides
TERMS = (Armature(), Viscous(), Coulomb(), Load(SLOW), Offset())
DRIVES = Drives((Drive(NAME, np.ones(1), TERMS, False),))


@dataclass(frozen=True)
class ServoMotion:
    """Motion of a servo's arm."""

    position: Array  # shape (N,) [rad], 0 where the arm hangs down
    velocity: Array
    acceleration: Array
    on: Array  # 1 where the torque is on, else 0, shape (N,)
    warm: Array  # T − T₀, shape (N,) [K]

    def part(self, rows: slice | NDArray[np.intp]) -> ServoMotion:
        """Return some of the samples."""
        return ServoMotion(*(x[rows] for x in vars(self).values()))


@dataclass(frozen=True, eq=False)
class ServoPlant(Plant[ServoMotion]):
    """A servo with a pendulum of known mass, whose duty and voltage are logged; see the module."""

    moment: float  # m g l of the arm [N·m]
    inertia: float  # of the arm about the axis [kg·m²]
    released: bool  # whether logs have rows in which the torque is off
    warms: bool = False  # whether logs are of several temperatures

    @cached_property
    def labels(self) -> Labels:
        """1/A, its rise with temperature and B/A where they are told, and the drive's over A."""
        known = {"arm": "V/(N·m)"}
        known |= {"warmth": "V/(N·m·K)"} if self.warms else {}
        known |= {"back_emf": "V·s/rad"} if self.released else {}
        known |= {t.kind: f"({t.unit(False)})·V/(N·m)" for t in TERMS}
        return Labels(tuple(known), tuple(known.values()), NAME)

    @cached_property
    def space(self) -> ParameterSpace:
        """The columns themselves; of these only the offset may be negative."""
        count = len(self.labels)
        positive = tuple(k for k, n in enumerate(self.labels.names) if n != Offset.kind)
        return ParameterSpace(self.labels, np.eye(count), np.zeros(count), nonnegative=positive)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What the drive is given."""
        return (Channel("voltage", "V"),)

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return the position, whether the torque is on, the warmth, and the voltage given."""
        beside = (MotionSignal(ON, 0, late=True), MotionSignal(WARM, 0))
        voltage = (Measured(0, ((VOLTS, 1.0),)),) if measured else ()
        return Inputs((MotionSignal(f"q.{NAME}"), *beside), voltage)

    def motion(self, smoothed: Smoothed) -> ServoMotion:
        """Return the motion, where the torque is on, and how warm it is."""
        q, on, warm = smoothed.position.T
        return ServoMotion(
            q, smoothed.velocity[:, 0], smoothed.acceleration[:, 0], np.round(on), warm
        )

    def _rigid(self, m: ServoMotion) -> Array:
        return self.inertia * m.acceleration + self.moment * np.sin(m.position)

    def _columns(self, samples: Samples[ServoMotion], acceleration: Array, arm: Array) -> Array:
        """Return all columns, shape (N, p), with `acceleration` in place of the acceleration.

        Args:
            arm: Column of the arm, shape (N,) [N·m].
        """
        m = samples.motion
        rigid = self._rigid(m)
        state = DriveState(
            m.position[None], m.velocity[None], acceleration[None], NO_STOPS, rigid[None]
        )
        drive = drive_columns.columns(DRIVES, DRIVES.columns, state).values
        warmth = [arm * m.warm] if self.warms else []
        back = [m.on * m.velocity] if self.released else []
        return np.stack([arm, *warmth, *back, *drive], axis=1)

    def rows(self, samples: Samples[ServoMotion], columns: Sequence[int]) -> Rows:
        """Return rows of some columns."""
        m = samples.motion
        rigid = self._rigid(m)
        return Rows(self._columns(samples, m.acceleration, rigid)[:, None, list(columns)])

    def sides(self, samples: Samples[ServoMotion], columns: Sequence[int]) -> Sides:
        """Return momentum, and what is not differentiated; see `Integrable`."""
        m = samples.motion
        nothing = np.zeros_like(m.position)
        remainder = -self._columns(samples, nothing, self.moment * np.sin(m.position))
        momentum = np.zeros_like(remainder)
        momentum[:, 0] = self.inertia * m.velocity
        if self.warms:
            momentum[:, 1] = momentum[:, 0] * m.warm
        momentum[:, self.labels.names.index(Armature.kind)] = m.velocity
        return Sides(momentum[:, None, list(columns)], remainder[:, None, list(columns)])

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[ServoMotion]:
        """Return random states."""
        q, v, a = rng.normal(size=(3, count))
        motion = ServoMotion(q, v, 10.0 * a, np.round(rng.random(count)), rng.normal(size=count))
        return Samples.of_motion(motion, count, 1)
