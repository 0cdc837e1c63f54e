"""Geoms of an MJCF file: their place and size, and inertials that MuJoCo computes of them.

The inertial of a body without `<inertial>` is the sum of its solid geoms. Solids of uniform density
have moments in closed form. Meshes do not: their files are never opened.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel
from heft.files import numbers
from heft.information import inertia

from .mjcf_defaults import Compiler, orientation, vector

SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
MASSLESS = ("plane", "hfield")
LEAST_MASS = 1e-15  # [kg], below which MuJoCo leaves a geom out
DENSITY = 1000.0  # [kg/m³], MuJoCo's


@dataclass(frozen=True)
class Geom:
    """A geom as the file states it."""

    said: Mapping[str, str]  # its attributes, those of its class included
    where: str  # its place in the file, for messages
    rotation: Array  # of the frame that it stands in, in its body's frame, shape (3, 3)
    translation: Array  # likewise, shape (3,) [m]

    @property
    def kind(self) -> str:
        """Its type, such as `box`."""
        return self.said.get("type", "mesh" if "mesh" in self.said else "sphere")

    @property
    def collides(self) -> bool:
        """Whether it takes part in collisions; else it is only visual."""
        return any(self.said.get(k, "1").strip() != "0" for k in ("contype", "conaffinity"))

    def solid(self, compiler: Compiler) -> tuple[tuple[float, ...], Array, Array]:
        """Return size [m], rotation and translation [m] of a solid in its body's frame.

        Raises:
            InvalidModel: If it has no size, or its place is malformed.
        """
        said, where, kind = self.said, self.where, self.kind
        written = said.get("size")
        size = numbers(written, max(1, min(len((written or "").split()), 3)), "size", where)
        turn = orientation(said, compiler, where)
        move = vector(said, "pos", 3, where, (0.0, 0.0, 0.0))
        if "fromto" in said:
            ends = vector(said, "fromto", 6, where, ())
            along = ends[:3] - ends[3:]  # MuJoCo's z axis points to the first end
            turn = orientation({"zaxis": " ".join(map(repr, along.tolist()))}, compiler, where)
            move = 0.5 * (ends[:3] + ends[3:])
            half = 0.5 * float(np.linalg.norm(along))
            across = 1 if kind in ("capsule", "cylinder") else 2
            size = [*(size[0],) * across, half]
        count = SIZES[kind]
        if len(size) < count or min(size[:count], default=0.0) <= 0.0:
            raise InvalidModel(
                f"a {kind} has no size", argument=where, got=said.get("size"), cure="give it one"
            )
        return tuple(size[:count]), self.rotation @ turn, self.translation + self.rotation @ move


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
