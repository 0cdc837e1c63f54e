"""Feasible set: physically consistent bodies, passive drives, and hard limits.

The set of feasible parameters x is convex: each link's pseudo-inertia positive semidefinite,
friction and rotor inertia ≥ 0, and limits on masses, centres of mass and extents. Unknowns are
scaled by the metric of the cone at the model file's value, where the nominal body is the identity,
so that nothing depends on units or frames.

What is known of links from elsewhere (masses from a scale, limbs that are mirror images) is rows of
unit variance on the standard parameters, which are added to those of the data. Unlike limits they
can be wrong by their stated error, and data that disagree move the result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, did_you_mean
from heft.files import Keys, Number, Text, box, check_fields, interval, planes, solid_box
from heft.information import AXES, ParameterSpace, inertia, sparse

# Upper triangle of a 4×4 matrix, column by column, as the conic solver stacks it.
UPPER = [(i, j) for j in range(4) for i in range(j + 1)]
STACKED = np.array([4 * i + j for i, j in UPPER])  # where it stands in the matrix
# Where entries of the matrix stand in it, and factors that keep lengths, there and back.
STANDS = np.array([UPPER.index((min(i, j), max(i, j))) for i in range(4) for j in range(4)])
TWICE = np.array([1.0 if i == j else np.sqrt(2.0) for i, j in UPPER])
HALF = np.where(np.eye(4, dtype=bool), 1.0, np.sqrt(0.5)).ravel()


def stack(matrices: Array) -> Array:
    """Return symmetric matrices, shape (..., 4, 4), as vectors of the same length, shape (..., 10).

    Off-diagonal entries are multiplied by √2, so that inner products are those of the matrices.
    """
    return np.asarray(matrices.reshape(*matrices.shape[:-2], 16)[..., STACKED] * TWICE)


def unstack(vectors: Array) -> Array:
    """Return the symmetric matrices, shape (..., 4, 4), of vectors that `stack` returns."""
    return np.asarray((vectors[..., STANDS] * HALF).reshape(*vectors.shape[:-1], 4, 4))


IDENTITY = stack(np.eye(4))
BASIS = unstack(np.eye(10))  # the matrices of which entries are coefficients, shape (10, 4, 4)


def cone_metric(nominal: Array) -> Array:
    """Return the 10×10 matrix G with `π = G u`, u the body measured at its nominal value.

    u stacks `L⁻¹ S(π) L⁻ᵀ`, so that the nominal body is the identity; S is the pseudo-inertia
    [Wensing2018, eq. 12], and L the Cholesky factor of the nominal one.

    Args:
        nominal: π of the model file, physically consistent, shape (10,) [kg, kg·m, kg·m²].
    """
    factor = np.linalg.cholesky(inertia.pseudo_inertia(nominal))
    columns = unstack(np.eye(inertia.PARAMETER_COUNT))
    return inertia.from_pseudo_inertia(factor @ columns @ factor.T).T


def scaled_metric(space: ParameterSpace) -> Array:
    """Return the matrix with `x = matrix @ u`, shape (n, n).

    It is `cone_metric` of each link at its typical body, and the identity for the drives.
    """
    metric = np.eye(len(space.labels))
    for first, body in zip(space.groups, space.typical, strict=True):
        metric[first : first + 10, first : first + 10] = cone_metric(body)
    return metric


@dataclass(frozen=True)
class LinearConstraints:
    """Linear constraints `rows @ x ≥ least` on the parameters, or on scaled parameters."""

    names: tuple[str, ...]  # what each one bounds; an upper and a lower bound share a name
    rows: Array  # shape (k, n)
    least: Array  # shape (k,)
    equal: NDArray[np.bool_]  # which of them are equations, shape (k,)

    def measured(self, matrix: Any) -> LinearConstraints:
        """Return the constraints on u with `x = matrix @ u`, rows scaled to length one."""
        rows = (sparse(self.rows) @ scipy.sparse.csr_array(matrix)).toarray()
        lengths = np.linalg.norm(rows, axis=1)
        return LinearConstraints(
            self.names, rows / lengths[:, None], self.least / lengths, self.equal
        )

    def part(self, columns: slice | NDArray[np.intp]) -> LinearConstraints:
        """Return the constraints on these columns, without the other columns."""
        chosen = np.any(self.rows[:, columns] != 0.0, axis=1)
        names = tuple(n for n, c in zip(self.names, chosen, strict=True) if c)
        return LinearConstraints(
            names, self.rows[chosen][:, columns], self.least[chosen], self.equal[chosen]
        )

    def hold(self, unknown: Array) -> bool:
        """Return whether a point, shape (n,), satisfies all constraints."""
        slack = self.rows @ unknown - self.least
        return bool((slack >= 0.0).all() and not slack[self.equal].any())


@dataclass(frozen=True)
class Ellipsoid:
    """An ellipsoid that contains all mass of a link, its axes along those of the link's frame.

    A body with pseudo-inertia S ⪰ 0 is a density on the ellipsoid if and only if `tr(Q S) ≥ 0`,
    with `(x, 1)ᵀ Q (x, 1) = 1 − Σ_i (x_i − c_i)²/a_i²` [Wensing2018]: one linear inequality.
    """

    centre: Array  # c, shape (3,) [m]
    axes: Array  # half axes a > 0, shape (3,) [m]

    @staticmethod
    def within(extent: Sequence[tuple[float, float]]) -> Ellipsoid:
        """Return the ellipsoid that just fits into a box of least and most of x, y and z [m]."""
        ends = np.array(extent, dtype=float)
        return Ellipsoid(ends.mean(axis=1), 0.5 * (ends[:, 1] - ends[:, 0]))

    def row(self) -> Array:
        """Return q with `tr(Q S(π)) = q · π`, shape (10,)."""
        narrow = 1.0 / self.axes**2
        Q = np.zeros((4, 4))
        Q[:3, :3] = -np.diag(narrow)
        Q[:3, 3] = Q[3, :3] = narrow * self.centre
        Q[3, 3] = 1.0 - narrow @ self.centre**2
        columns = inertia.pseudo_inertia(np.eye(inertia.PARAMETER_COUNT))
        return np.asarray(np.einsum("ij,kij->k", Q, columns))

    def contracted(self, body: Array, room: float = 0.0) -> Array:
        """Return a body whose mass is pulled together until it lies within, mass unchanged.

        First its centre towards that of the ellipsoid, if it is not inside; then all mass towards
        its centre.

        Args:
            body: π, shape (10,) [kg, kg·m, kg·m²], of positive mass.
            room: Share of the ellipsoid's square extent that stays empty.
        """
        if self.row() @ body >= room * body[0]:
            return body
        S, mass = inertia.pseudo_inertia(body), body[0]
        com = S[:3, 3] / mass
        spread = S[:3, :3] - mass * np.outer(com, com)
        off = (com - self.centre) / self.axes
        far = float(off @ off)
        if far > 1.0 - 2.0 * room:
            com = self.centre + (com - self.centre) * np.sqrt((1.0 - 2.0 * room) / far)
            far = 1.0 - 2.0 * room
        wide = float(np.sum(np.diag(spread) / self.axes**2)) / mass
        shrunk = spread * min(1.0, max(1.0 - room - far, 0.0) / wide) if wide > 0.0 else spread
        moved = np.empty((4, 4))
        moved[:3, :3] = shrunk + mass * np.outer(com, com)
        moved[:3, 3] = moved[3, :3] = mass * com
        moved[3, 3] = mass
        return inertia.from_pseudo_inertia(moved)


@dataclass(frozen=True)
class HalfSpaces:
    """A convex body that contains a link's centre of mass c: `normals @ c ≤ most`.

    Mass is positive and its centre the mean of where it is, so a body whose mass lies in a convex
    set has its centre there: `most m − n · (m c) ≥ 0`, one linear inequality a half-space.
    """

    normals: Array  # outward, of length one, shape (k, 3)
    most: Array  # shape (k,) [m]

    @staticmethod
    def of(planes: Sequence[Sequence[float]]) -> HalfSpaces:
        """Return the half-spaces of planes `[x, y, z, most]`, normals of any length."""
        rows = np.array(planes, dtype=float).reshape(-1, 4)
        length = np.linalg.norm(rows[:, :3], axis=1)
        return HalfSpaces(rows[:, :3] / length[:, None], rows[:, 3] / length)

    @property
    def rows(self) -> Array:
        """The matrix R with `R @ π ≥ 0`, shape (k, 10)."""
        rows = np.zeros((len(self.most), inertia.PARAMETER_COUNT))
        rows[:, 0] = self.most
        rows[:, 1:4] = -self.normals
        return rows

    def deepest(self) -> tuple[Array, float]:
        """Return the point farthest inside, shape (3,), and its depth [m].

        The centre of the largest ball within; of depth at most 1 m if the set is open, and below 0
        if it is empty.
        """
        from scipy.optimize import linprog  # slow to load, and few robots need it

        columns = np.column_stack([self.normals, np.ones(len(self.most))])
        program = linprog(
            [0.0, 0.0, 0.0, -1.0],
            A_ub=columns,
            b_ub=self.most,
            bounds=[(None, None)] * 3 + [(None, 1.0)],
        )
        return np.asarray(program.x[:3]), float(program.x[3])

    def pulled_inside(self, body: Array, room: float = 0.0) -> Array:
        """Return a body shifted towards the deepest point until its centre of mass is inside.

        Args:
            body: π, shape (10,) [kg, kg·m, kg·m²], of positive mass.
            room: Share of the way to the deepest point that stays empty.
        """
        com = body[1:4] / body[0]
        slack = self.most - self.normals @ com
        if (slack >= 0.0).all() and room == 0.0:
            return body
        goal, _ = self.deepest()
        deep = np.maximum(self.most - self.normals @ goal, 0.0)
        lack = room * deep - slack
        if (lack <= 0.0).all():
            return body
        gain = deep - slack
        share = np.max(np.where(lack > 0.0, lack / np.where(lack > 0.0, gain, 1.0), 0.0))
        shift = min(1.0, float(share)) * (goal - com)
        return np.asarray(inertia.frame_change(np.eye(3), shift) @ body)


@dataclass(frozen=True)
class Limits:
    """Hard bounds on links' masses and where they are, such as from a scale or a drawing.

    Raises:
        InvalidSetting: If a number is not finite, a least above its most, no mass is allowed, an
            ellipsoid is flat, or nothing is inside a hull.
    """

    # lower and upper bound by link [kg]
    mass: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # lower and upper bound of x, y and z of the centre of mass by link, in its frame [m]
    com: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    # least and most of x, y and z of an ellipsoid that contains all of a link's mass, by link, in
    # its frame [m]
    ellipsoid: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    # planes `[x, y, z, most]` of a convex body that contains the centre of mass, normals outward,
    # by link, in its frame [m]; see `HalfSpaces`
    hull: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for link, pair in self.mass.items():
            if interval(pair, f"limits, mass of '{link}'")[1] <= 0.0:
                raise InvalidSetting(
                    "a mass is above 0", argument=f"limits, mass of '{link}'", got=pair
                )
        for link, pairs in self.com.items():
            box(pairs, f"limits, com of '{link}'")
        for link, pairs in self.ellipsoid.items():
            solid_box(pairs, f"limits, ellipsoid of '{link}'")
        for link, rows in self.hull.items():
            planes(rows, f"limits, hull of '{link}'")
            if HalfSpaces.of(rows).deepest()[1] < 0.0:
                raise InvalidSetting(
                    "nothing is inside all of these planes", argument=f"limits, hull of '{link}'"
                )

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def of(self, links: Collection[str]) -> Limits:
        """Return the limits of some links alone."""
        stated = ({k: v for k, v in own.items() if k in links} for own in vars(self).values())
        return Limits(*stated)

    def require_known(self, links: tuple[str, ...]) -> None:
        """Raise `InvalidSetting` for an unknown link, with the nearest known name."""
        for name in chain(*vars(self).values()):
            if name not in links:
                raise InvalidSetting(
                    f"the robot has no link '{name}' that carries moving mass",
                    argument=f"limits of '{name}'",
                    valid=links,
                    cure=did_you_mean(name, links),
                )

    def text(self, link: str) -> str:
        """Return the limits of a link in words."""
        parts = []
        if link in self.mass:
            parts.append(f"mass {list(self.mass[link])} kg")
        if link in self.com:
            parts.append(f"com {[list(pair) for pair in self.com[link]]} m")
        if link in self.ellipsoid:
            parts.append(f"ellipsoid {[list(pair) for pair in self.ellipsoid[link]]} m")
        if link in self.hull:
            parts.append(f"hull of {len(self.hull[link])} planes")
        return ", ".join(parts)

    def moved_inside(self, link: str, body: Array, room: float = 0.0) -> Array:
        """Return a body's parameters scaled and shifted into the limits, which keeps it a body.

        Args:
            body: π, shape (10,) [kg, kg·m, kg·m²]; one without mass has no centre, and stays.
            room: Share of each limit's width to stay away from its ends.
        """
        if body[0] <= 0.0:
            return body
        if link in self.mass:
            mass = float(body[0])
            least, most = self.mass[link]
            least = max(least, 0.0)
            gap = room * (most - least)
            wanted = float(np.clip(mass, least + gap, most - gap))
            body = body * (wanted / mass)
        if link in self.com:
            ends = np.array(self.com[link], dtype=float)
            gaps = room * (ends[:, 1] - ends[:, 0])
            com = body[1:4] / body[0]
            shift = np.clip(com, ends[:, 0] + gaps, ends[:, 1] - gaps) - com
            if shift.any():
                body = inertia.frame_change(np.eye(3), shift) @ body
        if link in self.hull:
            body = HalfSpaces.of(self.hull[link]).pulled_inside(body, room)
        if link in self.ellipsoid:
            body = Ellipsoid.within(self.ellipsoid[link]).contracted(body, room)
        return body


def linear_constraints(space: ParameterSpace, limits: Limits) -> LinearConstraints:
    """Return what must not be negative, then the limits, as constraints on x.

    `com ≥ c` is linear as `h − c m ≥ 0`, since m > 0; ellipsoids and hulls are, too.

    Args:
        limits: On masses [kg], centres of mass [m] and extents [m], by link.

    Raises:
        InvalidSetting: If a limit is of a link that is not there.
    """
    links = space.bodies
    limits.require_known(links)
    unit = np.eye(len(space.labels))
    constraints = [(space.labels.names[k], unit[k], 0.0, False) for k in space.nonnegative]
    for link, first in zip(links, space.groups, strict=True):
        mass = unit[first]
        ends = []
        if link in limits.mass:
            least, most = limits.mass[link]
            ends.append((f"{link}.mass", mass, least, -mass, -most, least == most))
        for axis, (least, most) in zip(AXES, limits.com.get(link, ()), strict=False):
            moment = unit[first + 1 + AXES.index(axis)]
            low, high = moment - least * mass, most * mass - moment
            ends.append((f"{link}.com.{axis}", low, 0.0, high, 0.0, least == most))
        for name, low, least, high, most, same in ends:
            constraints.append((name, low, least, same))
            if not same:
                constraints.append((name, high, most, False))
        if link in limits.ellipsoid:
            inside = np.zeros(len(space.labels))
            inside[first : first + 10] = Ellipsoid.within(limits.ellipsoid[link]).row()
            constraints.append((f"{link}.ellipsoid", inside, 0.0, False))
        for row in HalfSpaces.of(limits.hull.get(link, ())).rows:
            inside = np.zeros(len(space.labels))
            inside[first : first + 10] = row
            constraints.append((f"{link}.hull", inside, 0.0, False))
    return LinearConstraints(
        tuple(f[0] for f in constraints),
        np.array([f[1] for f in constraints]).reshape(-1, len(space.labels)),
        np.array([f[2] for f in constraints]),
        np.array([f[3] for f in constraints], dtype=bool),
    )


MIRRORED = ("x", "y", "z")
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
        row[0, [_place_of(space, link) for link in self.links or space.bodies]] = 1.0 / self.std
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
            "axis": Text("a mirror turns one axis round", MIRRORED),
            "strength": Number(OUT_OF_RANGE, above=0.0),
        }
        check_fields(self, checks)

    def rows(self, space: ParameterSpace) -> Array:
        """Return `√strength · G⁻¹ (left − mirrored right) = 0`, shape (10, n + 1).

        G is the cone's metric at the model file's left link, as in the prior.

        Raises:
            InvalidSetting: If there is no such link.
        """
        left, right = (_place_of(space, link) for link in (self.left, self.right))
        metric = cone_metric(space.typical[space.groups.index(left)])
        scale = np.sqrt(self.strength) * np.linalg.inv(metric)
        rows = np.zeros((10, space.size + 1))
        rows[:, left : left + 10] = scale
        rows[:, right : right + 10] -= scale * mirror_signs(MIRRORED.index(self.axis))
        return rows


def mirror_signs(axis: int) -> Array:
    """Return the signs, (10,), of ten inertial parameters in a mirror across an axis, 0 to 2."""
    turned = [float(k == axis) for k in range(3)]
    products = [turned[i] + turned[j] for i, j in inertia.INERTIA_INDEX]
    return np.array([(-1.0) ** n for n in (0.0, *turned, *products)])


def known_rows(known: Sequence[Known], space: ParameterSpace) -> Array:
    """Return the rows of all that is known, shape (k, n + 1)."""
    return np.vstack([np.zeros((0, space.size + 1)), *(k.rows(space) for k in known)])


def _place_of(space: ParameterSpace, link: str) -> int:
    if link in space.bodies:
        return space.groups[space.bodies.index(link)]
    raise InvalidSetting(
        f"something is known of a link '{link}' that has no mass or does not move",
        argument="[[known]] or [[mirror]]",
        valid=space.bodies,
        cure=did_you_mean(link, space.bodies),
    )
