"""Limits of a motion as smooth constraints `c ≤ 0`, each in shares of its limit, with adjoints.

A limit of 1 m/s that is broken by 2 mm/s gives c = 0.002, and so for positions (share of half the
range), torque and power, so that one penalty serves all. Each limit can say what multipliers λ on
its values do to the motion, or, for torques, to the rows: τ = Y π makes `λ πᵀ` one more seed of
the regressor's reverse pass.

Torque is predicted with what is believed of the robot, and what is not known widens it: parameters
`π = π₀ + Σ_k ξ_k δ_k` with |ξ_k| ≤ 1 have torques within `|Y π₀| + Σ_k |Y δ_k|`, exactly the
extreme over all vertices of that box; independent deviations have a spread of `(Σ_k (Y δ_k)²)^½`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting

from .trajectories import Family

ORDERS = ("position", "velocity", "acceleration", "jerk")
NEVER = -1.0  # of a limit that is not there
Place = tuple[str, str, tuple[slice | int, ...]]  # what is limited, of what, where among values
ROUND = 1e-4  # share of a limit at which |x| is rounded off, to be differentiable


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Limits of d coordinates; infinite where there is none.

    Raises:
        InvalidSetting: If a range is empty or a limit not positive.
    """

    lower: Array  # positions, shape (d,) [rad or m]
    upper: Array  # positions, shape (d,) [rad or m]
    velocity: Array  # largest, either way, shape (d,) [rad/s or m/s]
    acceleration: Array | None = None  # likewise [rad/s² or m/s²]; without a limit if None
    jerk: Array | None = None  # likewise [rad/s³ or m/s³]; without a limit if None

    def __post_init__(self) -> None:
        if not np.all(self.lower < self.upper):
            wrong = np.flatnonzero(~(self.lower < self.upper))
            raise InvalidSetting(
                "a range of positions is empty", argument="lower, upper", got=wrong.tolist()
            )
        for name in ORDERS[1:]:
            size = self.largest(name)
            if size.shape != self.lower.shape or not np.all(size > 0.0):
                raise InvalidSetting(f"a limit of {name} is not positive", argument=name, got=size)

    def largest(self, name: str) -> Array:
        """Return the limit of a derivative, shape (d,), infinite where there is none."""
        given = getattr(self, name)
        return np.full(self.lower.shape, np.inf) if given is None else np.asarray(given)

    def range_of(self, order: int) -> tuple[Array, Array]:
        """Return the lower and upper limit of a derivative, shape (d,) each."""
        if order == 0:
            return self.lower, self.upper
        size = self.largest(ORDERS[order])
        return -size, size

    @property
    def middle(self) -> Array:
        """Posture in the middle of the ranges, 0 within reach where there is no range, (d,)."""
        both = np.isfinite(self.lower) & np.isfinite(self.upper)
        inside = np.clip(0.0, self.lower, self.upper)
        with np.errstate(invalid="ignore"):
            return np.where(both, 0.5 * (self.lower + self.upper), inside)

    @property
    def reach(self) -> Array:
        """Half the ranges, π or 1 m where there is none, shape (d,) [rad or m]."""
        with np.errstate(invalid="ignore"):
            half = 0.5 * (self.upper - self.lower)
        return np.where(np.isfinite(half), half, np.pi)


@dataclass(frozen=True)
class Broken:
    """The value of one limit that is nearest to being broken, or most broken."""

    limit: str  # what is limited, such as `velocity`
    of: str  # of which coordinate, actuator or pair
    excess: float  # share of the limit by which it is broken; negative where it holds

    def __str__(self) -> str:
        return f"{self.limit} of {self.of}"


@dataclass(frozen=True, eq=False)
class BoundsOnGrid:
    """Joint limits of a family of trajectories on a grid of times, linear in the unknowns."""

    matrices: Array  # B Z of each order that is limited, shape (N, u)
    orders: tuple[int, ...]  # which they are
    low: Array  # shape (orders, d)
    high: Array  # shape (orders, d)
    start: Array  # what the family's fixed start adds to positions, shape (d,)
    names: tuple[str, ...]  # of the coordinates

    @staticmethod
    def of(
        limits: JointLimits, family: Family, names: tuple[str, ...], count: int, spare: float = 0.0
    ) -> BoundsOnGrid:
        """Return the limits on `count` times, tightened by the overshoot possible between them."""
        basis = family.basis
        end = basis.kind != "fourier"  # a period's end is its start
        time = np.linspace(0.0, basis.span, count, endpoint=end)
        ranges = [limits.range_of(k) for k in range(len(ORDERS))]
        orders = tuple(k for k, r in enumerate(ranges) if np.isfinite(r).any())
        share = (1.0 - spare) / basis.overshoot(count)
        low, high = (np.array([ranges[k][side] for k in orders]) for side in (0, 1))
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(low + high), 0.5 * (low + high), 0.0)
        matrices = np.array([family.matrix(time, k) for k in orders])
        start = np.zeros(len(names)) if family.start is None else np.array(family.start)
        inner = middle + share * (low - middle), middle + share * (high - middle)
        return BoundsOnGrid(matrices, orders, *inner, start, names)

    def _scale(self) -> Array:
        half = 0.5 * (self.high - self.low)
        return np.where(np.isfinite(half), half, 1.0)[:, None]

    def values(self, X: Array) -> Array:
        """Return the constraints c ≤ 0 of unknowns X, shape (2, orders, N, d): below and above."""
        at = self.matrices @ X
        if self.orders[:1] == (0,):
            at[0] += self.start
        below = (self.low[:, None] - at) / self._scale()
        above = (at - self.high[:, None]) / self._scale()
        sides = np.array([below, above])
        return np.where(np.isfinite(sides), sides, NEVER)

    def pull_back(self, multipliers: Array) -> Array:
        """Return the gradient of Σ λ c by X, shape (u, d); λ of the shape of `values`."""
        pulled = (multipliers[1] - multipliers[0]) / self._scale()
        return np.asarray(np.einsum("onu,ond->ud", self.matrices, pulled, optimize=True))

    def labels(self) -> Iterator[Place]:
        """Yield what is limited, of which coordinate, and where among `values`."""
        for k, order in enumerate(self.orders):
            for j, name in enumerate(self.names):
                yield ORDERS[order], name, (slice(None), k, slice(None), j)


@dataclass(frozen=True, eq=False)
class EffortLimits:
    """Limits of torque and power, and what is believed of the plant's parameters."""

    values: Array  # π₀, what is believed of the standard columns, shape (p,)
    # largest effort of each actuator, either way, shape (m,) [N·m or N]; infinite where there is
    # none
    torque: Array
    # largest mechanical power of each actuator, driving or braking, shape (m,) [W]; no limit if
    # None. Only where an actuator is a channel and a channel a coordinate
    power: Array | None = None
    deviations: Array | None = None  # δ_k, shape (p, K)
    # whether deviations span a box, all of whose `vertices` count, are independent standard
    # deviations, of which `widths` count, or are alternatives, each of which counts by itself, such
    # as one load or another
    spread: Literal["vertices", "deviations", "alternatives"] = "vertices"
    widths: float = 2.0  # how many standard deviations
    # effort of the actuators by that of the channels, shape (m, c); the identity if None
    mixing: Array | None = None
    # of the range of each actuator's effort, shape (m,), zero if None; `torque` is how far from it
    middle: Array | None = None
    names: tuple[str, ...] = ()  # of the actuators; those of the channels if not given


def link_deviations(values: Array, bodies: int, share: float, drives: float | Array = 0.0) -> Array:
    """Return deviations δ_k of each body's ten parameters, and of each drive's number, by a share.

    A body that is heavier by a share at the same place and shape: no claim about where a link's
    mass is. Use it where nothing better is known than a model file.

    Args:
        values: π₀, shape (p,), ten a body first.
        share: Relative deviation of each body's parameters.
        drives: Relative deviation of each other parameter: one for all, or shape (p - 10 bodies,).

    Returns:
        Shape (p, K), without columns of zeros.
    """
    others = len(values) - 10 * bodies
    owner = [*np.repeat(np.arange(bodies), 10), *range(bodies, bodies + others)]
    shares = np.append(np.full(10 * bodies, share), np.broadcast_to(drives, (others,)))
    made = np.zeros((bodies + others, len(values)))
    made[owner, np.arange(len(values))] = shares * values
    return made[made.any(axis=1)].T


@dataclass(frozen=True, eq=False)
class EffortBounds:
    """Torque and power of rows laid out as (channels, columns, N), as constraints."""

    columns: Array  # base parameters β₀ and their deviations, shape (k, 1 + K)
    torque: Array  # shape (m,), of m actuators; of alternatives each is an actuator of its own
    power: Array  # shape (m,)
    middle: Array  # shape (m,)
    mixing: Array | None  # shape (actuators, c), or None
    squares: bool  # whether deviations add as squares
    alternatives: bool  # whether columns are alternatives
    names: tuple[str, ...]  # of the actuators

    @staticmethod
    def of(
        limits: EffortLimits, regroup: Array, names: Sequence[str], spare: float
    ) -> EffortBounds:
        """Return the bounds of a plant.

        Args:
            regroup: Base parameters by standard columns, shape (k, p).
        """
        deviations = np.zeros((len(limits.values), 0))
        if limits.deviations is not None:
            deviations = limits.deviations
        squares = limits.spread == "deviations"
        deviations = deviations * (limits.widths if squares else 1.0)
        power = np.full(len(limits.torque), np.inf) if limits.power is None else limits.power
        if limits.mixing is not None and np.isfinite(power).any():
            raise InvalidSetting(
                "power is limited of channels, not of actuators that mix them", argument="power"
            )
        share = 1.0 - spare
        columns = regroup @ np.column_stack([limits.values, deviations])
        names = limits.names or tuple(names)
        middle = np.zeros(len(limits.torque)) if limits.middle is None else limits.middle
        torque, power = share * limits.torque, share * power
        other = limits.spread == "alternatives"
        if other:
            count = 1 + deviations.shape[1]
            columns[:, 1:] += columns[:, :1]
            torque, power, middle = (np.repeat(x, count) for x in (torque, power, middle))
            names = tuple(f"{name}, case {k}" for name in names for k in range(count))
        return EffortBounds(
            columns, torque, power, middle, limits.mixing, squares, other, tuple(names)
        )

    def efforts(self, laid: Array) -> Array:
        """Return effort of β₀ and of each deviation, shape (m, N, 1 + K) [N·m or N]."""
        made = np.swapaxes(laid, 1, 2) @ self.columns
        if self.mixing is not None:
            made = np.tensordot(self.mixing, made, axes=1)
        if self.alternatives:
            made = np.swapaxes(made, 1, 2).reshape(len(self.torque), -1, 1)
        made[:, :, 0] -= self.middle[:, None]
        return np.asarray(made)

    def values(self, efforts: Array, v: Array) -> Array:
        """Return c ≤ 0, shape (4, m, N): torque either way, power driving and braking."""
        centre, margin = efforts[:, :, 0], self._margin(efforts)
        limit = self.torque[:, None]
        torque = [(side * centre + margin) / limit - 1.0 for side in (1.0, -1.0)]
        if not np.isfinite(self.power).any():
            nothing = np.full_like(centre, NEVER)
            return np.array([*torque, nothing, nothing])
        speed, size = v.T, _size(v.T, ROUND)
        power = [
            (side * centre * speed + margin * size) / self.power[:, None] - 1.0
            for side in (1.0, -1.0)
        ]
        return np.array([*torque, *power])

    def pull_back(self, efforts: Array, v: Array, multipliers: Array) -> tuple[Array, Array]:
        """Return the seeds of the rows, (c, k, N), and the gradient by v, (N, d), of Σ λ c."""
        limit, power = self.torque[:, None], self.power[:, None]
        centre, margin = efforts[:, :, 0], self._margin(efforts)
        torque, drawn = multipliers[:2] / limit, multipliers[2:] / power
        by_centre = torque[0] - torque[1]
        by_margin = torque[0] + torque[1]
        by_v = np.zeros_like(v)
        if drawn.any():
            speed, size = v.T, _size(v.T, ROUND)
            by_centre = by_centre + (drawn[0] - drawn[1]) * speed
            by_margin = by_margin + (drawn[0] + drawn[1]) * size
            along = (drawn[0] - drawn[1]) * centre + (drawn[0] + drawn[1]) * margin * speed / size
            by_v += along.T
        back = np.empty_like(efforts)
        back[:, :, 0] = by_centre
        back[:, :, 1:] = by_margin[:, :, None] * self._margin_slope(efforts, margin)
        if self.alternatives:
            back = np.swapaxes(back.reshape(-1, self.columns.shape[1], back.shape[1]), 1, 2)
        if self.mixing is not None:
            back = np.tensordot(self.mixing.T, back, axes=1)
        return np.asarray(self.columns @ np.swapaxes(back, 1, 2)), by_v

    def _margin(self, efforts: Array) -> Array:
        rest, limit = efforts[:, :, 1:], self.torque[:, None]
        if not rest.shape[2]:
            return np.zeros(rest.shape[:2])
        floor = ROUND * np.where(np.isfinite(limit), limit, 1.0)
        if self.squares:
            return np.asarray(np.sqrt(np.sum(rest**2, axis=2) + floor**2))
        return np.asarray(np.sum(_size(rest, floor[:, :, None]), axis=2))

    def _margin_slope(self, efforts: Array, margin: Array) -> Array:
        rest, limit = efforts[:, :, 1:], self.torque[:, None, None]
        if self.squares:
            return np.asarray(rest / margin[:, :, None])
        return rest / _size(rest, ROUND * np.where(np.isfinite(limit), limit, 1.0))

    def labels(self) -> Iterator[Place]:
        """Yield what is limited, of which actuator, and where among `values`."""
        for kind, sides in (("torque", slice(0, 2)), ("power", slice(2, 4))):
            for k, name in enumerate(self.names):
                yield kind, name, (sides, k)


def _size(values: Array, floor: float | Array) -> Array:
    """Return √(x² + floor²): at least |x|, and differentiable at 0."""
    return np.asarray(np.sqrt(values**2 + floor**2))


class Clearance(Protocol):
    """Distances that must not be negative, such as those between links and to the ground."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the m distances, such as `forearm to base`."""
        ...

    def values(self, q: Array) -> Array:
        """Return signed clearance less its margin at postures q, (N, d): shape (N, m) [m]."""
        ...

    def pull_back(self, q: Array, seeds: Array) -> Array:
        """Return the gradient of Σ S · values by q, shape (N, d), S of shape (N, m)."""
        ...


@dataclass(frozen=True, eq=False)
class DesignLimits:
    """All limits of a motion."""

    joints: JointLimits  # of position, velocity, acceleration and jerk
    effort: EffortLimits | None = None  # of torque and power; none if None
    clearance: tuple[Clearance, ...] = field(default=())  # of the workspace: each a `Clearance`
    # highest frequency that may be in the motion [Hz], below the first resonance
    highest: float = np.inf

    def require_slow(self, frequency: float) -> None:
        """Raise `InvalidSetting` if a basis' highest frequency would excite an elastic mode."""
        if frequency > self.highest * (1.0 + 1e-12):
            raise InvalidSetting(
                "the motion would excite the first resonance",
                argument="harmonics",
                got=f"{frequency:.3g} Hz",
                expected=f"at most {self.highest:.3g} Hz",
                cure="ask for fewer harmonics, or a longer motion",
            )


def worst(values: Array, labels: Iterator[Place]) -> list[Broken]:
    """Return the most broken value of each limit, worst first."""
    excesses = [Broken(kind, name, float(np.max(values[at]))) for kind, name, at in labels]
    return sorted(excesses, key=lambda b: -b.excess)
