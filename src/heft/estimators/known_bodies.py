"""What is known of links from elsewhere: masses from a scale, limbs that are mirror images.

Each is rows of unit variance on the standard parameters, which are added to those of the data.
Unlike limits they can be wrong by their stated error, and data that disagree move the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, did_you_mean
from heft.files import Keys, Number, Text, check_fields
from heft.information import ParameterSpace, inertia

from .feasible_set import cone_metric

AXES = ("x", "y", "z")
OUT_OF_RANGE = "what is known of links is out of range"


class Known(Protocol):
    """Knowledge about standard parameters."""

    def rows(self, space: ParameterSpace) -> Array:
        """Return rows of unit variance on x with their right-hand side, shape (k, n + 1)."""
        ...


@dataclass(frozen=True)
class KnownMass:
    """Mass of some links together, as a scale shows it."""

    links: tuple[str, ...]  # their names; all links if empty
    mass: float  # [kg]
    std: float  # standard deviation [kg]

    def __post_init__(self) -> None:
        checks: Keys = {
            "mass": Number(OUT_OF_RANGE, above=0.0, unit="kg"),
            "std": Number(OUT_OF_RANGE, above=0.0, unit="kg"),
        }
        check_fields(self, checks)

    def rows(self, space: ParameterSpace) -> Array:
        """Return `Σ m / std = mass / std`, shape (1, n + 1).

        Raises:
            InvalidSetting: If there is no such link.
        """
        row = np.zeros((1, space.size + 1))
        row[0, [_first(space, link) for link in self.links or space.bodies]] = 1.0 / self.std
        row[0, -1] = self.mass / self.std
        return row


@dataclass(frozen=True)
class MirrorImages:
    """Two links that are mirror images of one another, such as those of left and right limbs."""

    # left, right: their names
    left: str
    right: str
    axis: Literal["x", "y", "z"] = "y"  # of each link's own frame, which the mirror turns round
    strength: float = 10.0  # of this belief [effective samples], as that of the prior

    def __post_init__(self) -> None:
        checks: Keys = {
            "axis": Text("a mirror turns one axis round", AXES),
            "strength": Number(OUT_OF_RANGE, above=0.0),
        }
        check_fields(self, checks)

    def rows(self, space: ParameterSpace) -> Array:
        """Return `√strength · G⁻¹ (left − mirrored right) = 0`, shape (10, n + 1).

        G is the cone's metric at the model file's left link, as in the prior.

        Raises:
            InvalidSetting: If there is no such link.
        """
        left, right = (_first(space, link) for link in (self.left, self.right))
        scale = np.sqrt(self.strength) * np.linalg.inv(cone_metric(space.nominal[left : left + 10]))
        rows = np.zeros((10, space.size + 1))
        rows[:, left : left + 10] = scale
        rows[:, right : right + 10] -= scale * mirror_signs(AXES.index(self.axis))
        return rows


def mirror_signs(axis: int) -> Array:
    """Return the signs that ten inertial parameters take in a mirror, shape (10,).

    Args:
        axis: Axis that the mirror reverses: 0, 1 or 2 for x, y, z.
    """
    turned = [float(k == axis) for k in range(3)]
    products = [turned[i] + turned[j] for i, j in inertia.INERTIA_INDEX]
    return np.array([(-1.0) ** n for n in (0.0, *turned, *products)])


def known_rows(known: Sequence[Known], space: ParameterSpace) -> Array:
    """Return the rows of all that is known, shape (k, n + 1)."""
    return np.vstack([np.zeros((0, space.size + 1)), *(k.rows(space) for k in known)])


def _first(space: ParameterSpace, link: str) -> int:
    if link in space.bodies:
        return space.groups[space.bodies.index(link)]
    raise InvalidSetting(
        f"something is known of a link '{link}' that has no mass or does not move",
        argument="[[known]] or [[mirror]]",
        valid=space.bodies,
        cure=did_you_mean(link, space.bodies),
    )
