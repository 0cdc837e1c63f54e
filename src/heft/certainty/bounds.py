"""Strict bounds of links: masses, centres of mass and moments of inertia of all possible fits.

`possible_fits` says which these are, and how often they hold the truth.

With second moments Σ = ∫ x xᵀ dm, first moments h and mass m, those about the centre of mass are
Σ − h hᵀ/m, and a moment of inertia is the sum of two diagonal entries Σ_aa − h_a²/m. That is
concave in the parameters. So its most over a convex set is one conic problem, with q_a ≥ h_a²/m, a
second-order cone. Its least is none; but where the centre c = h/m lies between `low` and `high`,
(c − low)(c − high) ≤ 0 and hence

    Σ_aa − h_a²/m ≥ Σ_aa − (low + high) h_a + low high m,

which is linear. Its least is below the one that is asked for, by m (high − low)²/4 at most, and
wherever it is attained the true moment is above. Both close in as the range of the centre, which is
bounded before, is divided: branch and bound [Falk1969].

Products of inertia are neither convex nor concave, and are not bounded here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.estimators import Limits, limbs
from heft.information import ParameterSpace, Summed, Triangle, inertia

from .possible_fits import MASS_CAP, NO_LIMITS, ConicProgramme, PossibleFits

# The axes of the two second moments of which each moment of inertia is the sum.
ACROSS = ((1, 2), (0, 2), (0, 1))
# Rows of Σ_xx, Σ_yy and Σ_zz among the ten parameters: half of (I_yy + I_zz − I_xx), and so on.
SECOND = np.zeros((3, inertia.PARAMETER_COUNT))
SECOND[:, [4, 6, 9]] = 0.5 - np.eye(3)
# The search ends where the least found is this share of the interval above what is proven, or of
# the model file's moment where that is less;
CLOSE = 0.02
# and after this many parts of the centres' ranges, shared by the links: a conic problem has all.
PARTS = 80


@dataclass(frozen=True)
class _Link:
    """A link's zeroth, first and second moments about a point near its centre of mass."""

    fits: PossibleFits  # all possible fits
    mass: Array  # coefficients of the mass in all parameters x, shape (N,)
    first: Array  # of its first moments, shape (3, N)
    second: Array  # of Σ_xx, Σ_yy and Σ_zz, shape (3, N)

    @staticmethod
    def of(fits: PossibleFits, place: int, point: Array) -> _Link:
        """Return the link with its mass at `place` of x, about a point of its frame [m]."""
        rows = np.zeros((inertia.PARAMETER_COUNT, len(fits.metric)))
        rows[:, place : place + 10] = inertia.frame_change(np.eye(3), -point)
        return _Link(fits, rows[0], rows[1:4], SECOND @ rows)

    def most(self, mass: float, size: float) -> Array:
        """Return upper bounds of the three central moments of inertia, shape (3,) [kg·m²]."""
        unit = mass * size**2
        programme = self.fits.programme(squares=(self.first / (mass * size), self.mass / mass))
        bounds = np.empty(3)
        for axis, across in enumerate(ACROSS):
            direction = self.second[list(across)].sum(axis=0) @ self.fits.metric
            squares = np.full(3, unit)
            squares[axis] = 0.0
            low, _ = programme.least(np.array([*-direction, 0.0, 0.0, *squares]))
            bounds[axis] = direction @ self.fits.centre - low
        return bounds

    def least(
        self, programme: ConicProgramme, across: Sequence[int], com: Array, high: float, size: float
    ) -> float:
        """Return a lower bound of Σ_aa − h_a²/m, summed over some axes a [kg·m²].

        Args:
            com: Bounds of the centre along them from the point, shape (axes, 2) [m].
            high: Upper bound of the moment of inertia [kg·m²].
            size: The model file's moment of inertia [kg·m²].
        """
        axes = list(across)
        # Parts of the range of the centre with what is proven for them, the least first.
        proven, value = self._in_part(programme, axes, com)
        parts = [(proven, 0, com)]
        for count in range(1, PARTS // self.fits.links, 2):
            proven, _, part = heapq.heappop(parts)
            if value - max(proven, 0.0) <= CLOSE * min(high - value, size):
                return max(proven, 0.0)
            for number, half in enumerate(_halves(part)):
                least, there = self._in_part(programme, axes, half)
                value = min(value, there)
                heapq.heappush(parts, (max(least, proven), count + number, half))
        return max(parts[0][0], 0.0)

    def _in_part(
        self, programme: ConicProgramme, across: list[int], com: Array
    ) -> tuple[float, float]:
        """Return the proven bound where the centre lies in a range, and the value found."""
        ends, products = com.sum(axis=1), com.prod(axis=1)
        second = self.second[across].sum(axis=0)
        row = second - ends @ self.first[across] + products.sum() * self.mass
        direction = row @ self.fits.metric
        low, move = programme.least(np.array([*direction, 0.0, 0.0]))
        point = self.fits.metric @ (self.fits.centre + move)
        mass, moments = float(self.mass @ point), self.first[across] @ point
        value = float(second @ point - moments @ moments / mass) if mass > 0.0 else 0.0
        return float(direction @ self.fits.centre) + low, max(value, 0.0)


def _halves(part: Array) -> Iterator[Array]:
    longest = int(np.argmax(part[:, 1] - part[:, 0]))
    middle = part[longest].mean()
    for end in (1, 0):
        half = part.copy()
        half[longest, end] = middle
        yield half


def central_inertia(fits: PossibleFits, first: int, nominal: Array, com: Array) -> Array:
    """Return bounds of a link's I_xx, I_yy, I_zz about its centre of mass, (3, 2) [kg·m²].

    Nothing that fits is outside. The upper end is attained, and the lower one up to `CLOSE`, except
    where the parts of the centre's range do not suffice; then it is lower still. Where the centre
    is open along an axis only what is along the others counts: 0 if it is open along both.

    Args:
        first: Position of the link's mass among the parameters.
        com: Bounds of x, y and z of the centre of mass, shape (3, 2) [m].
    """
    mass, middle, about = inertia.to_body(nominal)
    moments = np.diag(about)
    link = _Link.of(fits, first, middle)
    high = link.most(mass, float(np.sqrt(moments.sum() / mass)))
    high[high > MASS_CAP * moments] = np.inf
    low = np.zeros(3)
    programme = fits.programme()
    for axis, across in enumerate(ACROSS):
        closed = [k for k in across if np.isfinite(com[k]).all()]
        if closed:
            ends = com[closed] - middle[closed, None]
            low[axis] = link.least(programme, closed, ends, high[axis], moments[axis])
    return np.column_stack([low, high])


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
    total: Triangle | Summed,
    space: ParameterSpace,
    level: float = 0.95,
    limits: Limits = NO_LIMITS,
    threads: int = 1,
) -> StrictBounds:
    """Return confidence intervals of each link's mass, centre and inertia, without a prior.

    `PossibleFits` bounds any other linear function of the parameters.

    Args:
        total: Information about β in independent rows of unit variance.
        level: Nominal coverage of each interval by itself, 0 to 1.

    Raises:
        InvalidSetting: If a limit is of a link that is not there.
        SolverFailure: If no consistent parameters are found.
    """
    limits.require_known(space.bodies)
    links = space.bodies
    mass = np.empty((len(links), 2))
    com, moments = np.full((2, len(links), 3, 2), np.nan)
    for limb in limbs(total, space):
        if not limb.space.groups:
            continue
        fits = PossibleFits.of(limb.total, limb.space, level, limits.of(limb.space.bodies))
        own = limb.space
        of_link = partial(_of_link, fits, own, limits)
        bounds = side_by_side(of_link, range(len(own.groups)), threads)
        at = [links.index(link) for link in own.bodies]
        mass[at], com[at], moments[at] = map(np.array, zip(*bounds, strict=True))
    return StrictBounds(links, mass, com, moments, level)


def _of_link(
    fits: PossibleFits, space: ParameterSpace, limits: Limits, k: int
) -> tuple[Array, Array, Array]:
    """Return the bounds of mass, centre and inertia of link k; infinite where it has none."""
    link, first = space.bodies[k], space.groups[k]
    nominal = space.nominal[first : first + 10]
    unit = np.eye(4, len(fits.metric), first)
    low, high = fits.bound(unit[0])
    mass = np.array([max(low, 0.0), high if high <= MASS_CAP * nominal[0] else np.inf])
    if link in limits.mass:
        mass = np.clip(mass, *limits.mass[link])
    com = np.full((3, 2), [-np.inf, np.inf])
    # A body whose least mass is this share of the model file's can vanish: its centre is anywhere.
    if mass[0] > 1e-3 * nominal[0]:
        com = fits.ratios(unit[1:], unit[0])
        size = float(np.sqrt(np.trace(inertia.pseudo_inertia(nominal)[:3, :3]) / nominal[0]))
        # Bounds of a centre beyond this many times the link's size in the model file are none.
        com[np.abs(com) > 100.0 * size] *= np.inf
    for axis, (least, most) in enumerate(limits.com.get(link, ())):
        com[axis] = np.clip(com[axis], least, most)
    if fits.links > MOST_LINKS:
        return mass, com, np.full((3, 2), np.nan)
    return mass, com, central_inertia(fits, first, nominal, com)
