"""Certificates: proofs, for all times, that a motion keeps a limit; or the time where it does not.

Positions, velocities, accelerations and jerks are bounded by the motion itself (`bounded_motions`).
Torque, power and clearance are proven interval by interval: a value that is looked at plus a bound
of what it can do within the interval, which is halved where that proves too little. Each
certificate states what it proves and the worst that was seen, between which the truth lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.models import MotionLimits, carried_reach

from .bounded_motions import BoundedMotion
from .clearance import Clearance

TINY = 1e-12  # of a limit that is zero, since a joint is held still
ORDERS = ("position", "velocity", "acceleration", "jerk")


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
    return tuple(
        Certificate(
            name,
            joint,
            float(bound[j]),
            float(limit[j]),
            float(values[at[j], j]),
            float(time[at[j]]),
            float(room[j]),
        )
        for name, bound, limit, values, at, room in bounds
        for j, joint in enumerate(limits.joints)
    )


def certify_clearance(
    motion: BoundedMotion, clearance: Clearance, proof: Proof = Proof()
) -> tuple[Certificate, ...]:
    """Return a certificate of each pair's distance less the distance required.

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
        Certificate("clearance", " and ".join(names), -float(b), 0.0, -float(s), t, 1.0)
        for names, b, s, t in zip(clearance.names, bound, seen, time, strict=True)
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
    reach = np.zeros((len(clearance.pairs), tree.channels))
    for m, (kind, i, j) in enumerate(clearance.pairs):
        first = own[i]
        second = own[j] if kind == 0 else {}
        for body in first.keys() ^ second.keys():  # joints that carry both move both alike
            speed = abs(float(tree.multiplier[body])) * {**first, **second}[body]
            reach[m, int(tree.channel[body])] += speed
    return reach


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
        duration: Length of the motion [s].
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
