"""Where a free-flying body is to be at any time: its designed motion, over and over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.excitation import ExcitationTrajectory
from heft.information import continuous_quaternions
from heft.plants import FLAT_ORDERS, Turning, flat_attitude


@dataclass(frozen=True, eq=False)
class FlightReference:
    """A periodic motion as states to be tracked."""

    # of position, roll, pitch and yaw, or of position and yaw alone [m, rad]; then the body tilts
    # as what pushes along its own z only must
    trajectory: ExcitationTrajectory
    gravity: Array  # in the world, shape (3,) [m/s²]

    def __post_init__(self) -> None:
        if len(self.trajectory.names) not in (4, 6):
            raise InvalidSetting(
                "a flight is designed in position and attitude, or in position and yaw",
                argument="trajectory",
                got=", ".join(self.trajectory.names),
                expected="x, y, z, roll, pitch, yaw, or x, y, z, yaw",
            )

    @property
    def duration(self) -> float:
        """Duration of one cycle [s]."""
        return self.trajectory.duration

    def states(self, time: Array) -> tuple[Array, Array]:
        """Return desired states p, q, v, ω, shape (N, 13), and ω in the world, (N, 3) [rad/s].

        Args:
            time: Shape (N,) [s].
        """
        p, R, v, turning, _, _ = self._moved(time)
        x = np.hstack((p, continuous_quaternions(_quaternions(R)), v, turning))
        return x, np.asarray(np.einsum("nij,nj->ni", R, turning))

    def accelerations(self, time: Array) -> tuple[Array, Array]:
        """Return p̈ in the world [m/s²] and α in the body's axes [rad/s²], shape (N, 3) each.

        Args:
            time: Shape (N,) [s].
        """
        *_, a, alpha = self._moved(time)
        return a, alpha

    def _moved(self, time: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Return p, R, v, ω, p̈ and α."""
        within = np.mod(time, self.duration)
        if len(self.trajectory.names) == 4:
            made = [self.trajectory.derivative(within, k) for k in range(FLAT_ORDERS)]
            R, omega, alpha = flat_attitude(made, self.gravity)
            p, v, a = (x[:, :3] for x in made[:3])
            return p, R, v, omega, a, alpha
        q, v, a = self.trajectory(within)
        turned = Turning.of(q[:, 3:], v[:, 3:], a[:, 3:])
        moved = turned.velocity, a[:, :3], turned.acceleration
        return q[:, :3], turned.rotation, v[:, :3], *moved


def _quaternions(rotations: Array) -> Array:
    from scipy.spatial.transform import Rotation

    return np.roll(Rotation.from_matrix(rotations).as_quat(), 1, axis=1)
