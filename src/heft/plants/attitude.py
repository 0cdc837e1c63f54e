"""Attitude by roll, pitch and yaw: body rates of their derivatives, and gradients back.

    R = R_z(ψ) R_y(θ) R_x(φ),    ω = E η̇,    α = E η̈ + Ė η̇,    η = (φ, θ, ψ)

with ω and α in the body's axes. E is singular at θ = ±π/2: a design keeps away from there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array


@dataclass(frozen=True)
class Turning:
    """Rotation and body rates of N samples of roll, pitch and yaw."""

    rate: Array  # η̇, shape (N, 3) [rad/s]
    rise: Array  # η̈, shape (N, 3) [rad/s²]
    rotation: Array  # R, shape (N, 3, 3)
    E: Array  # shape (N, 3, 3)
    first: Array  # ∂E/∂φ and ∂E/∂θ, shape (2, N, 3, 3)
    second: Array  # their derivatives by φ and θ, shape (2, 2, N, 3, 3)

    @staticmethod
    def of(angles: Array, rate: Array, rise: Array) -> Turning:
        """Return rotation and body rates from η, η̇, η̈, shape (N, 3) each [rad, per s, s²]."""
        (s, sp, sy), (c, cp, cy) = np.sin(angles).T, np.cos(angles).T
        E = np.zeros((len(angles), 3, 3))
        first, second = np.zeros((2, *E.shape)), np.zeros((2, 2, *E.shape))
        by_roll, by_pitch = first
        twice_roll, twice_pitch, mixed = second[0, 0], second[1, 1], second[0, 1]
        E[:, 0, 0] = 1.0
        E[:, 1, 1], E[:, 2, 1] = c, -s
        by_roll[:, 1, 1], by_roll[:, 2, 1] = -s, -c
        twice_roll[:, 1, 1], twice_roll[:, 2, 1] = -c, s
        E[:, 0, 2], E[:, 1, 2], E[:, 2, 2] = -sp, s * cp, c * cp
        by_roll[:, 1, 2], by_roll[:, 2, 2] = c * cp, -s * cp
        by_pitch[:, 0, 2], by_pitch[:, 1, 2], by_pitch[:, 2, 2] = -cp, -s * sp, -c * sp
        twice_roll[:, 1, 2], twice_roll[:, 2, 2] = -s * cp, -c * cp
        mixed[:, 1, 2], mixed[:, 2, 2] = -c * sp, s * sp
        twice_pitch[:, 0, 2], twice_pitch[:, 1, 2], twice_pitch[:, 2, 2] = sp, -s * cp, -c * cp
        second[1, 0] = mixed
        rotation = np.empty_like(E)  # as `matrix_of_rpy`, of all samples at once
        rotation[:, 0] = np.array([cy * cp, cy * sp * s - sy * c, cy * sp * c + sy * s]).T
        rotation[:, 1] = np.array([sy * cp, sy * sp * s + cy * c, sy * sp * c - cy * s]).T
        rotation[:, 2] = np.array([-sp, cp * s, cp * c]).T
        return Turning(rate, rise, rotation, E, first, second)

    def part(self, rows: slice | NDArray[np.intp]) -> Turning:
        """Return some of the samples."""
        return Turning(
            self.rate[rows],
            self.rise[rows],
            self.rotation[rows],
            self.E[rows],
            self.first[:, rows],
            self.second[:, :, rows],
        )

    @property
    def change(self) -> Array:
        """Time derivative Ė, shape (N, 3, 3) [1/s]."""
        return np.asarray(np.einsum("anij,na->nij", self.first, self.rate[:, :2]))

    @property
    def velocity(self) -> Array:
        """Angular velocity ω, shape (N, 3) [rad/s]."""
        return times(self.E, self.rate)

    @property
    def acceleration(self) -> Array:
        """Angular acceleration α, shape (N, 3) [rad/s²]."""
        return times(self.E, self.rise) + times(self.change, self.rate)

    def pull_back(self, turned: Array, velocity: Array, acceleration: Array) -> tuple[Array, ...]:
        """Return the gradients by η, η̇ and η̈, each of shape (N, 3).

        Args:
            turned: Gradient by a rotation of the body about its own axes, shape (N, 3).
            velocity: Gradient by ω, shape (N, 3).
            acceleration: Gradient by α, shape (N, 3).
        """
        back = np.swapaxes(self.E, 1, 2)
        by_angle = times(back, turned)
        by_rate = times(back, velocity) + times(np.swapaxes(self.change, 1, 2), acceleration)
        changes = np.einsum("abnij,nb->anij", self.second, self.rate[:, :2])
        for k in range(2):
            swept = times(self.first[k], self.rate)
            by_rate[:, k] += np.sum(acceleration * swept, axis=1)
            by_angle[:, k] += np.sum(velocity * swept, axis=1)
            moved = times(self.first[k], self.rise) + times(changes[k], self.rate)
            by_angle[:, k] += np.sum(acceleration * moved, axis=1)
        return by_angle, by_rate, times(back, acceleration)


def times(matrices: Array, vectors: Array) -> Array:
    """Return matrix times vector of each sample: (N, 3, 3) and (N, 3) to (N, 3)."""
    return np.asarray(np.einsum("nij,nj->ni", matrices, vectors))
