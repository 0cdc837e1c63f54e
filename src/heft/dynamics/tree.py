"""Kinematic tree of moving bodies, and the links of a model file, each rigidly part of one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import inertia

REVOLUTE, PRISMATIC, FREE = 0, 1, 2
BASE_CHANNELS = tuple(f"base.{k}.{x}" for k in ("force", "torque") for x in "xyz")


@dataclass(frozen=True, eq=False)
class Tree:
    """Kinematic tree of n moving bodies in depth-first order, as the kernels traverse it.

    Compared by identity, so that derived arrays can be cached. A *channel* is one velocity
    coordinate and row of τ.
    """

    names: tuple[str, ...]  # name of each body
    parent: NDArray[np.int64]  # index of its parent body, −1 for the world, shape (n,)
    kind: NDArray[np.int64]  # `REVOLUTE`, `PRISMATIC` or `FREE`, shape (n,)
    rotation: Array  # of its joint's frame in its parent's, shape (n, 3, 3)
    translation: Array  # of its joint's origin in its parent's frame, shape (n, 3) [m]
    axis: Array  # unit axis in its own frame, shape (n, 3)
    channel: NDArray[np.int64]  # its joint's channel (the first of six for a free base), shape (n,)
    # joint position per position of its channel, 1 but for mimic joints, shape (n,)
    multiplier: Array
    offset: Array  # added to that [rad or m], shape (n,)

    @property
    def free_base(self) -> bool:
        """Whether the first body floats."""
        return bool(len(self.kind) and self.kind[0] == FREE)

    @cached_property
    def plain(self) -> bool:
        """Whether every joint's position is its channel's: there are no mimic joints."""
        return bool((self.multiplier == 1.0).all() and (self.offset == 0.0).all())

    @cached_property
    def channels(self) -> int:
        """Number of velocity coordinates v, the six of a free base included."""
        if not len(self.kind):
            return 0
        return int(max(self.channel.max() + 1, 6 if self.free_base else 0))

    @property
    def positions(self) -> int:
        """Number of position coordinates q; a free base has seven, xyz and quaternion xyzw."""
        return self.channels + (1 if self.free_base else 0)

    @cached_property
    def ancestry(self) -> NDArray[np.bool_]:
        """Which bodies each channel moves, shape (channels, bodies)."""
        moved = np.zeros((self.channels, len(self.names)), dtype=bool)
        for b in range(len(self.names)):
            if self.parent[b] >= 0:
                moved[:, b] |= moved[:, self.parent[b]]
            width = 6 if self.kind[b] == FREE else 1
            moved[self.channel[b] : self.channel[b] + width, b] = True
        return moved


@dataclass(frozen=True)
class Link:
    """One link of the model file, rigidly part of a moving body or of the world."""

    name: str  # its name
    body: int  # index of the body that it is part of, −1 where it never moves
    rotation: Array  # of the link's frame in the body's, shape (3, 3)
    translation: Array  # of the link's origin in the body's frame, shape (3,) [m]
    # a priori inertial parameters (mass, first moment, inertia about the link's origin) in the
    # link's frame, physically consistent, shape (10,) [kg, kg·m, kg·m²]
    nominal: Array
    written: Array  # the ten parameters as the file states them, consistent or not, shape (10,)
    given: bool  # whether the file states an inertial; if not, `nominal` is a stand-in
    frame_only: bool  # whether it is only a frame: fixed to another link and without mass
    extent: float = 0.0  # length of its box, cylinder or ball, 0 where the file has none [m]
    # `nominal` with moments of a body of the link's size, where the file's are a template's or no
    # body's, shape (10,); None where they are not
    resized: Array | None = None

    @property
    def believed(self) -> Array:
        """Centre of the prior, shape (10,): `nominal`, or `resized` where that is there."""
        return self.nominal if self.resized is None else self.resized

    def written_number(self, name: str) -> float:
        """Return one inertial number as the file states it [kg, m or kg·m²].

        Args:
            name: `mass`, `com.x` …, or `inertia.xx` … (about the centre of mass).
        """
        mass, com, tensor = inertia.to_body(self.written)
        kind, _, axes = name.partition(".")
        if kind == "mass":
            return float(mass)
        places = [inertia.AXES.index(a) for a in axes]
        return float(com[places[0]] if kind == "com" else tensor[places[0], places[1]])
