"""Attitude of a body that pushes along its own z only, from its position and yaw.

    R e_z = (p̈ − g) / |p̈ − g|

and the angle about it is such that R e_y is at right angles to the heading (cos ψ, sin ψ, 0). Body
rates follow from the third and fourth derivatives of the position: the body is differentially flat
in position and yaw [Mellinger2011].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import cross

ORDERS = 5  # derivatives of position and yaw that attitude, ω and α are made of
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
    R = np.stack((front, side, up), axis=2)
    # RᵀR' = ω×: its entries are scalar products of axes with one another's derivatives.
    omega = np.stack((_dot(up, side1), _dot(front, up1), _dot(side, front1)), 1)
    alpha = np.stack(
        (
            _dot(up1, side1) + _dot(up, side2),
            _dot(front1, up1) + _dot(front, up2),
            _dot(side1, front1) + _dot(side, _second(side, side1, side2, up, up1, up2)),
        ),
        1,
    )
    return R, omega, alpha


def _second(a: Array, a1: Array, a2: Array, b: Array, b1: Array, b2: Array) -> Array:
    return np.asarray(cross(a2, b) + 2.0 * cross(a1, b1) + cross(a, b2))


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
    found = np.zeros((3, ORDERS, 4, len(flat[0]), 3))
    for order in range(ORDERS):
        for k in range(4):
            if (k == 3 and order > 2) or (k < 3 and order < 2):
                continue
            moved = [np.asarray(d).astype(complex) for d in flat]
            moved[order][:, k] += 1j * STEP
            R, omega, alpha = flat_attitude(moved, gravity)
            felt = np.einsum("nij,ni->nj", R, moved[2][:, :3] - gravity)
            for place, value in enumerate((felt, omega, alpha)):
                found[place, order, k] = np.imag(value) / STEP
    return found[0], found[1], found[2]
