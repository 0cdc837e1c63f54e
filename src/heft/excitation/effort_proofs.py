"""Proofs of torque and power: what drives exert at all times of a motion, at most.

How fast torques change is bounded by jets of norms through the chain. Everything is a vector in the
world's frame, known by bounds of its norm and those of its first derivatives in time: its *jet*. A
product's jet follows by Leibniz' rule, a vector that is fixed in a turning body has derivatives
bounded by the body's angular velocity and its derivatives, and the walk of Newton and Euler out
along the tree and back gives the jets of the torques. The bounds are large (some hundred times what
is seen) and nevertheless enough: over an interval of length h they count with h²/8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, Tree, kernels
from heft.information import inertia
from heft.models import MotionLimits

from .certificates import BoundedMotion, Certificate, Proof, proven_largest

PARTS = 4  # of an interval, at whose ends torque that nothing is known of is looked at
Jet = Array  # bounds of a norm and of its derivatives, shape (orders, n)


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
    """
    chains = [_EffortBounds(motion, loads, ten) for ten in np.atleast_2d(loads.parameters)]
    limit = np.concatenate([limits.effort, limits.power])

    def enclose(begin: Array, end: Array) -> tuple[Array, Array, Array]:
        enclosed = [chain.enclose(begin, end) for chain in chains]
        bound, value = (np.max([f[k] for f in enclosed], axis=0) for k in range(2))
        return bound, value, begin

    scale = np.where(np.isfinite(limit), limit, np.inf)
    slack = np.where(np.isfinite(scale), proof.effort * scale, np.inf)
    bound, seen, time = proven_largest(motion.duration, enclose, slack, limit, proof)
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


def _product(a: Jet, b: Jet, order: int) -> Jet:
    """Return the jet of a product (of a scalar and a vector, or of two vectors' cross)."""
    each = [sum(comb(k, i) * a[i] * b[k - i] for i in range(k + 1)) for k in range(order + 1)]
    return np.array(each)


def _fixed_unit(turning: Jet, order: int) -> Jet:
    """Return the jet of a unit vector fixed in a body, from that of its angular velocity."""
    jet = [np.ones_like(turning[0])]
    for k in range(order):
        jet.append(sum((comb(k, i) * turning[i] * jet[k - i] for i in range(k + 1)), 0.0 * jet[0]))
    return np.array(jet)


def effort_rate(
    tree: Tree, gravity: Array, parameters: Array, rates: Sequence[Array], order: int
) -> Array:
    """Return bounds of a time derivative of the rigid-body torques on n intervals, shape (n, d).

    Args:
        tree: With a fixed base.
        parameters: π, ten a body, consistent or not, shape (10 bodies,) [kg, kg·m, kg·m²].
        rates: Bounds on each interval of the size of q, q̇, q̈ and so on, up to order + 2; each of
            shape (n, d) [rad or m, and per s …].
        order: Of the derivative, 1 or 2.

    Returns:
        Bounds of |dᵏτ/dtᵏ| [N·m/sᵏ or N/sᵏ].
    """
    walk = _Walk(tree, rates, order)
    bodies = len(tree.names)
    weight = float(np.linalg.norm(gravity))
    jets = [_body_jets(walk, b, parameters[10 * b : 10 * b + 10], weight) for b in range(bodies)]
    force, moment = (list(each) for each in zip(*jets, strict=True))
    out = np.zeros_like(rates[0])
    for b in range(bodies - 1, -1, -1):
        above = int(tree.parent[b])
        load = force[b] if tree.kind[b] == PRISMATIC else moment[b]
        effort = _product(walk.unit_of(above), load, order)[order]
        out[:, int(tree.channel[b])] += abs(float(tree.multiplier[b])) * effort
        if above >= 0:
            force[above] = force[above] + force[b]
            moment[above] = moment[above] + (moment[b] + _product(walk.lever[b], force[b], order))
    return out


class _Walk:
    """Jets of angular velocity, of vectors fixed in bodies, and of the bodies' origins."""

    def __init__(self, tree: Tree, rates: Sequence[Array], order: int) -> None:
        self.order = order  # highest derivative of the torques that is asked for
        still = np.zeros((order + 3, len(rates[0])))
        self._still: Jet = still.copy()
        self._still[0] = 1.0
        self.turning: list[Jet] = []  # of each body's angular velocity, up to order + 1
        self.unit: list[Jet] = []  # of a unit vector fixed in each body, up to order + 2
        self.place: list[Jet] = []  # of its origin, the velocity at index 1, up to order + 2
        self.lever: list[Jet] = []  # of its origin from its parent's, up to order + 2
        for b in range(len(tree.names)):
            above, channel = int(tree.parent[b]), int(tree.channel[b])
            scale = abs(float(tree.multiplier[b]))
            moved: Jet = scale * np.array([r[:, channel] for r in rates])
            moved[0] += abs(float(tree.offset[b]))
            turning = self.turning[above] if above >= 0 else still[1:]
            place = self.place[above] if above >= 0 else still
            unit = self.unit_of(above)
            lever = float(np.linalg.norm(tree.translation[b])) * unit
            if tree.kind[b] == PRISMATIC:
                lever = lever + _product(moved, unit, order + 2)
            else:
                turning = turning + _product(moved[1:], unit, order + 1)
            self.turning.append(turning)
            self.unit.append(_fixed_unit(turning, order + 2))
            self.lever.append(lever)
            self.place.append(place + lever)

    def unit_of(self, body: int) -> Jet:
        """Return the jet of a unit vector fixed in a body, −1 for the world."""
        return self.unit[body] if body >= 0 else self._still


def _body_jets(walk: _Walk, b: int, ten: Array, weight: float) -> tuple[Jet, Jet]:
    """Return the jets of the force on a body and of its moment about the body's origin.

    F = m (p̈ − g) + d²/dt² (R h) and N = d/dt (R I Rᵀ ω) + R h × (p̈ − g).
    """
    order = walk.order
    mass, first = abs(float(ten[0])), float(np.linalg.norm(ten[1:4]))
    tensor = np.zeros((3, 3))
    for (i, j), value in zip(inertia.INERTIA_INDEX, ten[4:], strict=True):
        tensor[i, j] = tensor[j, i] = value
    moments = np.linalg.eigvalsh(tensor)
    # The part that is a multiple of the identity does not change as the body turns.
    same = (moments[0] + moments[2]) / 2.0
    other = (moments[2] - moments[0]) / 2.0
    turning, unit, place = walk.turning[b], walk.unit[b], walk.place[b]
    felt = place[2:].copy()
    felt[0] += weight
    turned = _product(_product(unit, unit, order + 1), turning, order + 1)
    spin = abs(same) * turning[1:] + other * turned[1:]
    return mass * felt + first * unit[2:], spin + first * _product(unit, felt, order)
