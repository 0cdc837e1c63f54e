"""Strict bounds of links: masses, centres of mass and moments of inertia of all possible fits.

`possible_fits` says which these are, and how often they hold the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.information import ParameterSpace, Triangle, inertia

from .central_inertia import central_inertia
from .feasible_set import Limits
from .limbs import limbs
from .possible_fits import MASS_CAP, NO_LIMITS, PossibleFits

__all__ = ["PossibleFits", "StrictBounds", "strict_bounds"]

# Bounds of a centre beyond this many times the link's size in the model file are none.
LENGTH_CAP = 100.0
# A body whose least mass is this share of the model file's can vanish: its centre is anywhere.
VANISHED = 1e-3
# A limb of more links has no bounds of inertias: with them those of a humanoid, 21 links in one
# limb, took three times as long, since each conic problem has all links of a limb.
MOST_LINKS = 12


@dataclass(frozen=True)
class StrictBounds:
    """Confidence intervals of links' masses, centres and inertias over all consistent robots."""

    links: tuple[str, ...]  # names of the links
    mass: Array  # lower and upper bound, shape (links, 2) [kg]; infinite where unbounded
    com: Array  # lower and upper bound of x, y, z in the link's frame, shape (links, 3, 2) [m]
    # lower and upper bound of I_xx, I_yy, I_zz about the centre of mass in the axes of the link's
    # frame, shape (links, 3, 2) [kg·m²]; see `central_inertia`. NaN where they would take too long,
    # in limbs of more than `MOST_LINKS` links
    inertia: Array
    level: float  # nominal coverage of each interval by itself


def strict_bounds(
    triangle: Triangle,
    space: ParameterSpace,
    level: float = 0.95,
    limits: Limits = NO_LIMITS,
    threads: int = 1,
) -> StrictBounds:
    """Return confidence intervals of each link's mass, centre and inertia, without a prior.

    `PossibleFits` bounds any other linear function of the parameters.

    Args:
        triangle: Information about β in independent rows of unit variance.
        level: Nominal coverage of each interval by itself, 0 to 1.
        threads: Number of threads that share the links; the result does not depend on it.

    Raises:
        InvalidSetting: If a limit is of a link that is not there.
        SolverFailure: If no consistent parameters are found.
    """
    limits.require_known(space.bodies)
    links = space.bodies
    mass = np.empty((len(links), 2))
    com, moments = np.full((2, len(links), 3, 2), np.nan)
    for limb in limbs(triangle, space):
        if not limb.space.groups:
            continue
        fits = PossibleFits.of(limb.triangle, limb.space, level, limits.of(limb.space.bodies))
        own = limb.space
        of_link = partial(_of_link, fits, own, limits)
        found = side_by_side(of_link, range(len(own.groups)), threads)
        at = [links.index(link) for link in own.bodies]
        mass[at], com[at], moments[at] = map(np.array, zip(*found, strict=True))
    return StrictBounds(links, mass, com, moments, level)


def _of_link(
    fits: PossibleFits, space: ParameterSpace, limits: Limits, k: int
) -> tuple[Array, Array, Array]:
    link, first = space.bodies[k], space.groups[k]
    nominal = space.nominal[first : first + 10]
    mass = _mass(fits, first, nominal, limits.mass.get(link))
    com = _centre(fits, first, nominal, mass, limits.com.get(link, ()))
    if fits.links > MOST_LINKS:
        return mass, com, np.full((3, 2), np.nan)
    return mass, com, central_inertia(fits, first, nominal, com)


def _mass(
    fits: PossibleFits, first: int, nominal: Array, limit: tuple[float, float] | None
) -> Array:
    """Return the bounds of a mass, shape (2,) [kg]; infinite where it has none."""
    low, high = fits.bound(np.eye(len(fits.metric))[first])
    ends = np.array([max(low, 0.0), high if high <= MASS_CAP * nominal[0] else np.inf])
    return ends if limit is None else np.clip(ends, *limit)


def _centre(
    fits: PossibleFits,
    first: int,
    nominal: Array,
    mass: Array,
    limit: Sequence[tuple[float, float]],
) -> Array:
    """Return the bounds of a centre of mass, shape (3, 2) [m]; infinite where it has none."""
    com = np.full((3, 2), [-np.inf, np.inf])
    if mass[0] > VANISHED * nominal[0]:
        unit = np.eye(len(fits.metric))
        com = fits.ratios(unit[first + 1 : first + 4], unit[first])
        size = float(np.sqrt(np.trace(inertia.pseudo_inertia(nominal)[:3, :3]) / nominal[0]))
        com[np.abs(com) > LENGTH_CAP * size] *= np.inf
    for axis, (least, most) in enumerate(limit):
        com[axis] = np.clip(com[axis], least, most)
    return com
