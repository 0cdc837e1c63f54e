"""Inertials that MuJoCo computes for an MJCF body without `<inertial>`: the sum of its solid geoms.

Solids of uniform density have moments in closed form. Meshes do not: their files are never opened.
"""

from __future__ import annotations

import math

import numpy as np

from heft.arrays import Array
from heft.information import inertia

SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
MASSLESS = ("plane", "hfield")
LEAST_MASS = 1e-15  # [kg], below which MuJoCo leaves a geom out
DENSITY = 1000.0  # [kg/m³], MuJoCo's


def volume(kind: str, size: tuple[float, ...]) -> float:
    """Return the volume of a solid [m³].

    Args:
        kind: One of `SIZES`.
        size: As MJCF has it: radii and half lengths [m].
    """
    if kind == "sphere":
        return 4.0 / 3.0 * math.pi * size[0] ** 3
    if kind == "capsule":
        radius, half = size
        return math.pi * radius**2 * (2.0 * half + 4.0 / 3.0 * radius)
    if kind == "cylinder":
        return 2.0 * math.pi * size[0] ** 2 * size[1]
    product = math.prod(size)
    return 8.0 * product if kind == "box" else 4.0 / 3.0 * math.pi * product


def solid(kind: str, size: tuple[float, ...], mass: float) -> Array:
    """Return the ten inertial parameters of a solid about its centre.

    Args:
        kind: One of `SIZES`; cylinders and capsules stand along z.
        size: As MJCF has it: radii and half lengths [m].
        mass: Its mass [kg].

    Returns:
        Shape (10,) [kg, kg·m, kg·m²].
    """
    if kind in ("box", "ellipsoid"):
        share = 1.0 / 3.0 if kind == "box" else 1.0 / 5.0
        squares = np.square(size)
        moments = share * mass * (squares.sum() - squares)
    elif kind == "sphere":
        moments = np.full(3, 0.4 * mass * size[0] ** 2)
    else:
        radius, half = size
        round_ends = 0.0
        if kind == "capsule":  # two half balls, each half a radius' 3/8 beyond the cylinder
            round_ends = mass * (4.0 / 3.0 * radius) / (2.0 * half + 4.0 / 3.0 * radius)
        middle = mass - round_ends
        across = middle * (3.0 * radius**2 + 4.0 * half**2) / 12.0
        across += round_ends * (0.4 * radius**2 + half**2 + 0.75 * half * radius)
        along = 0.5 * middle * radius**2 + 0.4 * round_ends * radius**2
        moments = np.array([across, across, along])
    return inertia.from_body(mass, np.zeros(3), np.diag(moments))
