"""Attitude of a designed motion, its body rates, and gradients back: by three angles, or flat.

By roll, pitch and yaw, with ω and α in the body's axes,

    R = R_z(ψ) R_y(θ) R_x(φ),    ω = E η̇,    α = E η̈ + Ė η̇,    η = (φ, θ, ψ)

E is singular at θ = ±π/2: a design keeps away from there. Of a body that pushes along its own z
only, by its position p and yaw,

    R e_z = (p̈ − g) / |p̈ − g|

and the angle about it is such that R e_y is at right angles to the heading (cos ψ, sin ψ, 0). Body
rates follow from the third and fourth derivatives of the position: the body is differentially flat
in position and yaw [Mellinger2011].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import cross


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
        alone = self.rate[rows], self.rise[rows], self.rotation[rows], self.E[rows]
        return Turning(*alone, self.first[:, rows], self.second[:, :, rows])

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


FLAT_ORDERS = 5  # derivatives of position and yaw that attitude, ω and α are made of
STEP = 1e-30  # of complex differences, which have no rounding error


def flat_attitude(flat: Sequence[Array], gravity: Array) -> tuple[Array, Array, Array]:
    """Return R (N, 3, 3), ω and α (N, 3) in the body's axes [rad/s, rad/s²].

    Args:
        flat: x, y, z, ψ and their first four derivatives, each of shape (N, 4).
        gravity: Shape (3,) [m/s²].
    """
    _, _, second, third, fourth = (np.asarray(d)[:, :3] for d in flat)
    yaw = [np.asarray(d)[:, 3] for d in flat[:3]]
    up, up1, up2 = _unit(second - gravity, third, fourth)
    c, s = np.cos(yaw[0]), np.sin(yaw[0])
    none = np.zeros_like(c)
    x = np.stack((c, s, none), 1)
    y = np.stack((-s, c, none), 1)
    x1 = y * yaw[1][:, None]
    x2 = y * yaw[2][:, None] - x * yaw[1][:, None] ** 2
    side, side1, side2 = _unit(
        cross(up, x),
        cross(up1, x) + cross(up, x1),
        cross(up2, x) + 2.0 * cross(up1, x1) + cross(up, x2),
    )
    front = cross(side, up)
    front1 = cross(side1, up) + cross(side, up1)
    front2 = cross(side2, up) + 2.0 * cross(side1, up1) + cross(side, up2)
    R = np.stack((front, side, up), axis=2)
    # RᵀR' = ω×: its entries are scalar products of axes with one another's derivatives.
    omega = np.stack((_dot(up, side1), _dot(front, up1), _dot(side, front1)), 1)
    alpha = np.stack(
        (
            _dot(up1, side1) + _dot(up, side2),
            _dot(front1, up1) + _dot(front, up2),
            _dot(side1, front1) + _dot(side, front2),
        ),
        1,
    )
    return R, omega, alpha


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.sum(a * b, axis=1))


def _unit(v: Array, v1: Array, v2: Array) -> tuple[Array, Array, Array]:
    """Return v/|v| and its first two time derivatives; no conjugates, for complex steps."""
    size = np.sqrt(_dot(v, v))[:, None]
    n = v / size
    rise = _dot(n, v1)[:, None]
    n1 = (v1 - n * rise) / size
    rise1 = (_dot(n1, v1) + _dot(n, v2))[:, None]
    n2 = (v2 - n1 * rise - n * rise1) / size - n1 * rise / size
    return n, n1, n2


def flat_jacobian(
    flat: Sequence[Array], gravity: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return ∂(a_s, ω, α) by the flat outputs' derivatives, shape (5, 4, N, 3) each.

    a_s is Rᵀ(p̈ − g). By complex differences, exact to rounding.

    Args:
        flat: As of `flat_attitude`.
        gravity: Shape (3,) [m/s²].
    """
    slopes = np.zeros((3, FLAT_ORDERS, 4, len(flat[0]), 3))
    for order in range(FLAT_ORDERS):
        for k in range(4):
            if (k == 3 and order > 2) or (k < 3 and order < 2):
                continue
            moved = [np.asarray(d).astype(complex) for d in flat]
            moved[order][:, k] += 1j * STEP
            R, omega, alpha = flat_attitude(moved, gravity)
            felt = np.einsum("nij,ni->nj", R, moved[2][:, :3] - gravity)
            for place, value in enumerate((felt, omega, alpha)):
                slopes[place, order, k] = np.imag(value) / STEP
    return slopes[0], slopes[1], slopes[2]
