"""Certificates: proofs, for all times, that a motion keeps a limit; or the time where it does not.

Positions, velocities, accelerations and jerks are bounded by the motion itself (`bounded_motions`).
Torque, power and clearance are proven interval by interval: a value that is looked at plus a bound
of what it can do within the interval, which is halved where that proves too little. Each
certificate states what it proves and the worst that was seen, between which the truth lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.dynamics import Tree, kernels
from heft.models import MotionLimits, carried_reach

from .bounded_motions import BoundedMotion, require_bounded
from .clearance import Clearance
from .effort_bounds import effort_rate

PARTS = 4  # of an interval, at whose ends torque that nothing is known of is looked at
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
    found = []
    for order, quantity in enumerate(ORDERS):
        values = motion.derivative(order, time)
        least, most = motion.extremes(order)
        if order == 0:
            room = np.maximum(limits.upper - limits.lower, TINY)
            found.append(("least position", least, limits.lower, values, values.argmin(0), room))
            found.append((quantity, most, limits.upper, values, values.argmax(0), room))
        else:
            size, limit = np.abs(values), vars(limits)[quantity]
            bound = np.maximum(-least, most)
            found.append((quantity, bound, limit, size, size.argmax(0), np.maximum(limit, TINY)))
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
        for name, bound, limit, values, at, room in found
        for j, joint in enumerate(limits.joints)
    )


@dataclass(frozen=True, eq=False)
class Loads:
    """What drives have to move: possible bodies, rotor inertia and friction."""

    tree: Tree  # the bodies, with a fixed base
    gravity: Array  # shape (3,) [m/s²]
    parameters: Array  # possible π, ten a body, V of them: shape (V, 10 bodies)
    # inertia matrix of the rotors, diagonal unless a motor moves several channels, shape (d, d)
    # [kg·m² or kg]
    armature: Array | None = None
    # least and most torque of friction at speeds that lie between two, each of shape (n, d) [N·m or
    # N]; none if not given
    friction: Callable[[Array, Array], tuple[Array, Array]] | None = None
    # δ_k by which bodies may differ from π, in any combination of signs, shape (K, 10 bodies);
    # torque is bounded for all of these
    deviations: Array | None = None
    # the same of the rotors' inertia matrix, shape (d, d) [kg·m² or kg]
    rotor_deviation: Array | None = None
    # further torque at q, v and a, each of shape (n, d), and by how much it may be wrong, both of
    # shape (n, d) [N·m or N]; none if not given. Of a function that nothing is known of no bound is
    # proven: between two times that are looked at, a quarter of an interval apart, it is taken to
    # change at most twice as fast as it does anywhere in the interval from one time to the next
    passive: Callable[[Array, Array, Array], tuple[Array, Array]] | None = None


def certify_efforts(
    motion: BoundedMotion, loads: Loads, limits: MotionLimits, proof: Proof = Proof()
) -> tuple[Certificate, ...]:
    """Return certificates of torque, and of power where it is limited, of all joints.

    On an interval of length h a torque is at most the larger of those at its ends plus h²/8 times a
    bound of its second derivative (`effort_rate`), or h/2 times one of its first where the motion
    is less smooth; friction is bounded by the speeds that occur, power by torque times speed.

    Args:
        motion: Of the joints, in the order of the limits.

    Raises:
        InvalidSetting: If the motion's jerk is not bounded.
    """
    require_bounded(motion, 3, "torque")
    chains = [_EffortBounds(motion, loads, ten) for ten in np.atleast_2d(loads.parameters)]
    limit = np.concatenate([limits.effort, limits.power])

    def enclose(begin: Array, end: Array) -> tuple[Array, Array, Array]:
        found = [chain.enclose(begin, end) for chain in chains]
        bound, value = (np.max([f[k] for f in found], axis=0) for k in range(2))
        return bound, value, begin

    scale = np.where(np.isfinite(limit), limit, np.inf)
    slack = np.where(np.isfinite(scale), proof.effort * scale, np.inf)
    bound, seen, time = _largest(motion.duration, enclose, slack, limit, proof)
    names = [("effort", j) for j in limits.joints] + [("power", j) for j in limits.joints]
    return tuple(
        Certificate(*names[k], float(bound[k]), float(limit[k]), float(seen[k]), time[k], limit[k])
        for k in range(len(names))
        if names[k][0] == "effort" or np.isfinite(limit[k])
    )


@dataclass(frozen=True, eq=False)
class _EffortBounds:
    motion: BoundedMotion
    loads: Loads
    parameters: Array

    def enclose(self, begin: Array, end: Array) -> tuple[Array, Array]:
        """Return bounds on n intervals and values where they begin, both (n, 2 d) [N·m, W]."""
        motion, loads = self.motion, self.loads
        ends, room = self._between(self.parameters, loads.armature, begin, end)
        doubt, beyond = np.zeros_like(ends), np.zeros_like(room)
        for ten, rotor in self._deviations():
            values, more = self._between(ten, rotor, begin, end)
            doubt, beyond = doubt + np.abs(values), beyond + more
        room = room + doubt.max(axis=0) + beyond
        least, most = ends.min(axis=0) - room, ends.max(axis=0) + room
        speeds = np.stack([motion.derivative(1, begin), motion.derivative(1, end)])
        sway = motion.largest(3, begin, end) * (end - begin)[:, None] ** 2 / 8.0
        slow, fast = speeds.min(axis=0) - sway, speeds.max(axis=0) + sway
        seen = np.stack([ends[0] - doubt[0], ends[0] + doubt[0]])
        if loads.friction is not None:
            low, high = loads.friction(slow, fast)
            least, most = least + low, most + high
            seen = seen + np.stack(loads.friction(speeds[0], speeds[0]))
        if loads.passive is not None:
            low, high, now = self._passive(begin, end)
            least, most, seen = least + low, most + high, seen + now
        power = np.stack([a * b for a in (least, most) for b in (slow, fast)]).max(axis=0)
        return (
            np.hstack([np.maximum(np.abs(least), np.abs(most)), power]),
            np.hstack([np.abs(seen).max(axis=0), (seen * speeds[0]).max(axis=0)]),
        )

    def _deviations(self) -> Iterator[tuple[Array, Array | None]]:
        loads, bodies = self.loads, np.zeros_like(self.parameters)
        if loads.deviations is not None:
            yield from ((ten, None) for ten in loads.deviations)
        if loads.rotor_deviation is not None and np.any(loads.rotor_deviation):
            yield bodies, loads.rotor_deviation

    def _between(
        self, ten: Array, armature: Array | None, begin: Array, end: Array
    ) -> tuple[Array, Array]:
        """Return torque at both ends, (2, n, d), and its most beyond these between, (n, d)."""
        motion, loads = self.motion, self.loads
        order = 2 if motion.smoothness >= 4 else 1
        rates = [motion.largest(k, begin, end) for k in range(order + 3)]
        change = effort_rate(loads.tree, loads.gravity, ten, rates, order)
        if armature is not None:
            change = change + rates[order + 2] @ np.abs(armature).T
        length = (end - begin)[:, None]
        room = change * (length**2 / 8.0 if order == 2 else length / 2.0)
        return np.stack([self._smooth(t, ten, armature) for t in (begin, end)]), room

    def _passive(self, begin: Array, end: Array) -> tuple[Array, Array, Array]:
        """Return least and most passive torque on n intervals, (n, d), and both at the begin.

        With a slope of at most twice the largest between neighbouring times, |Δ|/s, a function does
        not leave the values at both by more than |Δ|.
        """
        assert self.loads.passive is not None
        time = begin[:, None] + np.linspace(0.0, 1.0, PARTS + 1) * (end - begin)[:, None]
        q, v, a = (self.motion.derivative(k, time.ravel()) for k in range(3))
        torque, doubt = (x.reshape(*time.shape, -1) for x in self.loads.passive(q, v, a))
        low, high = torque - doubt, torque + doubt
        beyond = [np.abs(np.diff(x, axis=1)).max(axis=1) for x in (low, high)]
        least, most = low.min(axis=1) - beyond[0], high.max(axis=1) + beyond[1]
        return least, most, np.stack([low[:, 0], high[:, 0]])

    def _smooth(self, time: Array, ten: Array, armature: Array | None) -> Array:
        """Return torque without friction at times [s], shape (n, d)."""
        q, v, a = (self.motion.derivative(k, time) for k in range(3))
        samples = kernels.motion_of(self.loads.tree, self.loads.gravity, q, v, a)
        rigid = kernels.inverse_dynamics(self.loads.tree, samples, ten).T
        return rigid if armature is None else rigid + a @ armature.T


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
    bound, seen, time = _largest(motion.duration, enclose, slack, np.zeros(count), proof, True)
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
    found = np.zeros((len(clearance.pairs), tree.channels))
    for m, (kind, i, j) in enumerate(clearance.pairs):
        first = own[i]
        second = own[j] if kind == 0 else {}
        for body in first.keys() ^ second.keys():  # joints that carry both move both alike
            speed = abs(float(tree.multiplier[body])) * {**first, **second}[body]
            found[m, int(tree.channel[body])] += speed
    return found


def _largest(
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
