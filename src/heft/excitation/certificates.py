"""Certificates: proofs, for all times, that a motion keeps a limit; or the time where it does not.

Every derivative of a motion is bounded for all times, not only where it is looked at. A
trigonometric polynomial of degree H that is known at N > 2H equally spaced points of its period is
nowhere larger than its largest value there over cos(π H / N) [Ehlich1964]. A spline lies in the
convex hull of the Bernstein coefficients of its pieces. Both are proofs, at no cost: of the
derivatives, too, which are again trigonometric polynomials and splines.

Torque, power and clearance are proven interval by interval: a value that is looked at plus a bound
of what it can do within the interval, which is halved where that proves too little. On a short
interval a function is at most what it is at the ends, and an eighth of the length's square times
its largest second derivative. Each certificate states what it proves and the worst that was seen,
between which the truth lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.models import MotionLimits, approach, carried_reach

from .clearance import Clearance
from .limits import ORDERS
from .trajectories import Basis, ExcitationTrajectory, Spline

TINY = 1e-12  # of a limit that is zero, since a joint is held still
ROUNDING = 1e-12  # of the sum of all terms' sizes, by which a bound is set wider


@dataclass(frozen=True, eq=False)
class BoundedMotion:
    """A motion q(t) = B(t) C of d channels, with proven bounds of its derivatives for all times."""

    basis: Basis  # functions of time
    coefficients: Array  # C, shape (K, d) [rad or m]
    looks: int = 256  # points of a period at which a series is evaluated, per harmonic
    cuts: int = 4  # pieces into which each span of a spline is cut for its bound

    @property
    def duration(self) -> float:
        """Length of the motion [s]."""
        return self.basis.duration

    @property
    def smoothness(self) -> float:
        """Order of the highest derivative that is bounded, those below being continuous."""
        return self.basis.degree if isinstance(self.basis, Spline) else math.inf

    def derivative(self, order: int, time: Array) -> Array:
        """Return a derivative at N times [s], shape (N, d); of order 0 the positions."""
        return self.basis.matrix(time, order) @ self.coefficients

    def extremes(self, order: int) -> tuple[Array, Array]:
        """Return proven bounds of a derivative over all times: least and most, each (d,).

        Of a series the bound is applied to the polynomial less the middle of what is seen.
        """
        basis = self.basis
        if isinstance(basis, Spline):
            hull = self._hull(basis, order)
            slack = ROUNDING * np.abs(hull).max(axis=(0, 1))
            return hull.min(axis=(0, 1)) - slack, hull.max(axis=(0, 1)) + slack
        count = self.looks * basis.harmonics
        values = self.derivative(order, basis.span * np.arange(count) / count)
        least, most = values.min(axis=0), values.max(axis=0)
        half = (most - least) / 2.0 * basis.overshoot(count) + self._rounding(order)
        return (least + most) / 2.0 - half, (least + most) / 2.0 + half

    def largest(self, order: int, begin: Array, end: Array) -> Array:
        """Return proven bounds of a derivative's size on n intervals [s], shape (n, d).

        The larger end, and h²/8 times the largest second derivative.
        """
        widest = np.full(self.coefficients.shape[1], np.inf)
        if isinstance(self.basis, Spline):
            widest = np.abs(self.extremes(order)).max(axis=0)
        if order + 2 > self.smoothness:
            return np.tile(widest, (len(begin), 1))
        curve = np.abs(self.extremes(order + 2)).max(axis=0)
        ends = np.max([np.abs(self.derivative(order, t)) for t in (begin, end)], axis=0)
        grown = ends + (end - begin)[:, None] ** 2 / 8.0 * curve + self._rounding(order)
        return np.asarray(np.minimum(grown, widest))

    def _rounding(self, order: int) -> Array:
        """Return a bound of a series' rounding: its share of all terms' amplitudes, shape (d,)."""
        if isinstance(self.basis, Spline):
            return np.zeros(self.coefficients.shape[1])  # of which the hull has its own
        return ROUNDING * self.basis.amplitudes(order) @ np.abs(self.coefficients)

    def _hull(self, basis: Spline, order: int) -> Array:
        """Return Bernstein coefficients of a derivative, shape (degree + 1, pieces, d)."""
        from scipy.interpolate import BPoly, PPoly

        if order > basis.degree:
            return np.zeros((1, 1, self.coefficients.shape[1]))
        inner = np.unique(basis.knots)
        share = np.arange(self.cuts) / self.cuts
        breaks = np.append((inner[:-1, None] + np.outer(np.diff(inner), share)).ravel(), inner[-1])
        # The Taylor coefficients of each piece at its beginning, highest power first.
        taylor = [
            self.derivative(order + k, breaks[:-1]) / math.factorial(k)
            for k in range(basis.degree - order, -1, -1)
        ]
        return np.asarray(BPoly.from_power_basis(PPoly(np.array(taylor), breaks)).c)


def bounded_motion(
    trajectory: ExcitationTrajectory, posture: Array, moving: NDArray[np.intp]
) -> BoundedMotion:
    """Return a trajectory of the channels that move as one of all channels, with proven bounds.

    Args:
        posture: At which the others stand, shape (channels,) [rad or m].
        moving: Channels that move, in the trajectory's order.
    """
    coefficients = np.outer(trajectory.basis.constant, posture)
    coefficients[:, moving] = trajectory.coefficients
    return BoundedMotion(trajectory.basis, coefficients)


@dataclass(frozen=True)
class Certificate:
    """What is proven of one quantity for all times of a motion."""

    # `position`, `velocity`, `acceleration`, `jerk`, `effort`, `power`, `clearance` or `frequency`
    quantity: str
    of: str  # joint, or the two that clearance is between
    bound: float  # what is proven: it is never above this, or, for clearance, never below
    limit: float  # what it must not exceed, or fall below
    seen: float  # worst value that was looked at; the truth lies between it and the bound
    time: float  # when that was [s]
    room: float  # what the margin is counted in: the limit, or a range; 1 m for clearance

    @property
    def sign(self) -> float:
        """1 for an upper limit, −1 for a lower one."""
        return -1.0 if self.quantity in ("clearance", "least position") else 1.0

    @property
    def unit(self) -> str:
        """Unit of bound, limit and what was seen."""
        return UNITS[self.quantity]

    @property
    def margin(self) -> float:
        """Proven distance to the limit in shares of `room`; negative where none is proven."""
        if math.isinf(self.limit):
            return math.inf
        return self.sign * (self.limit - self.bound) / self.room

    @property
    def holds(self) -> bool:
        """Whether it is proven that the limit is kept at all times."""
        return bool(self.sign * self.bound <= self.sign * self.limit)

    @property
    def broken(self) -> bool:
        """Whether the limit is broken at `time`."""
        return bool(self.sign * self.seen > self.sign * self.limit)

    def text(self) -> str:
        """Return a sentence that says what is proven, with units."""
        unit = self.unit
        end = "at least" if self.sign < 0 else "at most"
        proven = f"{self.quantity} of {self.of}: {end} {self.bound:.4g} {unit} at all times"
        if self.holds:
            return f"{proven} (limit {self.limit:.4g})"
        if self.broken:
            return (
                f"{self.quantity} of {self.of} is {self.seen:.4g} {unit} at {self.time:.4f} s, "
                f"beyond its limit of {self.limit:.4g}"
            )
        return f"{proven}, which does not prove its limit of {self.limit:.4g}"


UNITS = {
    "least position": "rad or m",
    "position": "rad or m",
    "velocity": "rad/s or m/s",
    "acceleration": "rad/s² or m/s²",
    "jerk": "rad/s³ or m/s³",
    "effort": "N·m or N",
    "power": "W",
    "clearance": "m",
    "frequency": "Hz",
}


@dataclass(frozen=True)
class Proof:
    """Settings of proofs interval by interval."""

    intervals: float = 50.0  # at the beginning, per second
    rounds: int = 10  # how often intervals that prove too little are cut in four
    # a bound this much above the largest value seen is good enough [share of the limit]
    effort: float = 2e-3
    clearance: float = 2e-4  # the same of the least clearance seen [m]


def certify_joints(motion: BoundedMotion, limits: MotionLimits) -> tuple[Certificate, ...]:
    """Return certificates of position, velocity, acceleration and jerk of all joints.

    Args:
        motion: Of the joints, in the order of the limits.
    """
    time = np.linspace(0.0, motion.duration, 1 + math.ceil(200.0 * motion.duration))
    bounds = []
    for order, quantity in enumerate(ORDERS):
        values = motion.derivative(order, time)
        least, most = motion.extremes(order)
        if order == 0:
            room = np.maximum(limits.upper - limits.lower, TINY)
            bounds.append(("least position", least, limits.lower, values, values.argmin(0), room))
            bounds.append((quantity, most, limits.upper, values, values.argmax(0), room))
        else:
            size, limit = np.abs(values), vars(limits)[quantity]
            bound = np.maximum(-least, most)
            bounds.append((quantity, bound, limit, size, size.argmax(0), np.maximum(limit, TINY)))
    each = np.arange(len(limits.joints))
    return tuple(
        Certificate(name, joint, *numbers)
        for name, bound, limit, values, at, room in bounds
        for joint, numbers in zip(
            limits.joints,
            np.stack([bound, limit, values[at, each], time[at], room], axis=1).tolist(),
            strict=True,
        )
    )


def certify_clearance(
    motion: BoundedMotion, clearance: Clearance, proof: Proof = Proof()
) -> tuple[Certificate, ...]:
    """Return a certificate of each pair's distance, whose limit is the distance required.

    Two bodies' distance changes at most as fast as their points move towards one another: Σ |q̇ⱼ|
    times how far from the joint's axis they can be, over the joints between the two.
    """
    reach = reaches(clearance, np.abs(motion.extremes(0)).max(axis=0))

    def enclose(begin: Array, end: Array) -> tuple[Array, Array, Array]:
        middle = (begin + end) / 2.0
        value = clearance.values(motion.derivative(0, middle))
        speed = motion.largest(1, begin, end)
        return (end - begin)[:, None] / 2.0 * (speed @ reach.T) - value, -value, middle

    count = len(clearance.pairs)
    slack = np.full(count, proof.clearance)
    bound, seen, time = proven_largest(
        motion.duration, enclose, slack, np.zeros(count), proof, True
    )
    return tuple(
        Certificate("clearance", " and ".join(names), float(r - b), float(r), float(r - s), t, 1.0)
        for names, r, b, s, t in zip(
            clearance.names, clearance.required, bound, seen, time, strict=True
        )
    )


def reaches(clearance: Clearance, largest: Array) -> Array:
    """Return how fast each pair's points can approach per speed of each channel, shape (m, d) [m].

    Args:
        largest: Largest size of each channel's position, shape (d,) [rad or m].
    """
    tree, capsules = clearance.tree, clearance.capsules
    extent = np.maximum(
        np.linalg.norm(capsules.start, axis=1), np.linalg.norm(capsules.end, axis=1)
    )
    own = [
        carried_reach(tree, int(b), float(size), largest)
        for b, size in zip(capsules.body, extent + capsules.radius, strict=True)
    ]
    each = (approach(tree, own[i], {} if kind else own[j]) for kind, i, j in clearance.pairs)
    return np.array(list(each)).reshape(len(clearance.pairs), tree.channels)


def proven_largest(
    duration: float,
    enclose: Callable[[Array, Array], tuple[Array, Array, Array]],
    slack: Array,
    limit: Array,
    proof: Proof,
    together: bool = False,
) -> tuple[Array, Array, list[float]]:
    """Return proven largest values of k functions of time, values seen, and when [s].

    Args:
        enclose: Bounds of the functions on n intervals, values in these, each (n, k), and times of
            the values.
        slack: A bound that is this much above the largest value seen is good enough, shape (k,).
        limit: A function whose value was seen above it is bounded no closer, shape (k,).
        together: Whether `slack` counts from the largest value of all functions, if that is above a
            function's own.
    """
    count = max(1, math.ceil(proof.intervals * duration))
    edges = np.linspace(0.0, duration, count + 1)
    begin, end = edges[:-1], edges[1:]
    bound = np.full(len(slack), -np.inf)
    seen, when = np.full(len(slack), -np.inf), np.zeros(len(slack))
    for k in range(proof.rounds + 1):
        upper, value, time = enclose(begin, end)
        worst = value.argmax(axis=0)
        higher = value[worst, np.arange(len(slack))] > seen
        seen = np.where(higher, value[worst, np.arange(len(slack))], seen)
        when = np.where(higher, time[worst], when)
        goal = seen + slack
        if together:
            goal = np.maximum(goal, seen.max(initial=-np.inf) + slack)
        goal = np.minimum(goal, np.maximum(limit, seen))  # a limit that is kept is to be proven
        open_ = ((upper > goal) & (seen <= limit)).any(axis=1) & (k < proof.rounds)
        bound = np.maximum(bound, upper[~open_].max(axis=0, initial=-np.inf))
        if not open_.any():
            break
        cuts = begin[open_, None] + (end - begin)[open_, None] * np.arange(5) / 4.0
        begin, end = cuts[:, :-1].ravel(), cuts[:, 1:].ravel()
    return bound, seen, [float(t) for t in when]
