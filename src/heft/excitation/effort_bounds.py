"""Bounds of how fast joint torques change: jets of norms through the chain.

Everything is a vector in the world's frame, known by bounds of its norm and those of its first
derivatives in time: its *jet*. A product's jet follows by Leibniz' rule, a vector that is fixed in
a turning body has derivatives bounded by the body's angular velocity and its derivatives, and the
walk of Newton and Euler out along the tree and back gives the jets of the torques. The bounds are
large (some hundred times what is seen) and nevertheless enough: over an interval of length h they
count with h²/8.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, Tree
from heft.information import inertia

Jet = list[Array]  # bounds of a norm and of its derivatives', each of shape (n,)


def _product(a: Jet, b: Jet, order: int) -> Jet:
    """Return the jet of a product (of a scalar and a vector, or of two vectors' cross)."""
    return [
        sum((comb(k, i) * a[i] * b[k - i] for i in range(k + 1)), np.zeros_like(a[0]))
        for k in range(order + 1)
    ]


def _sum(a: Jet, b: Jet) -> Jet:
    return [x + y for x, y in zip(a, b, strict=False)]


def _scaled(factor: float, a: Jet) -> Jet:
    return [factor * x for x in a]


def _fixed_unit(turning: Jet, order: int) -> Jet:
    """Return the jet of a unit vector fixed in a body, from that of its angular velocity."""
    jet = [np.ones_like(turning[0])]
    for k in range(order):
        jet.append(sum((comb(k, i) * turning[i] * jet[k - i] for i in range(k + 1)), 0.0 * jet[0]))
    return jet


def effort_rate(
    tree: Tree, gravity: Array, parameters: Array, rates: Sequence[Array], order: int
) -> Array:
    """Return bounds of a time derivative of the rigid-body torques on n intervals, shape (n, d).

    Args:
        tree: With a fixed base.
        gravity: Shape (3,) [m/s²].
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
    force: list[Jet] = []
    moment: list[Jet] = []
    for b in range(bodies):
        f, n = _body_jets(walk, b, parameters[10 * b : 10 * b + 10], weight)
        force.append(f)
        moment.append(n)
    out = np.zeros_like(rates[0])
    for b in range(bodies - 1, -1, -1):
        above = int(tree.parent[b])
        load = force[b] if tree.kind[b] == PRISMATIC else moment[b]
        effort = _product(walk.unit_of(above)[: order + 1], load, order)[order]
        out[:, int(tree.channel[b])] += abs(float(tree.multiplier[b])) * effort
        if above >= 0:
            turned = _product(walk.lever[b][: order + 1], force[b], order)
            force[above] = _sum(force[above], force[b])
            moment[above] = _sum(moment[above], _sum(moment[b], turned))
    return out


class _Walk:
    """Jets of angular velocity, of vectors fixed in bodies, and of the bodies' origins.

    Attributes:
        order: Highest derivative of the torques that is asked for.
        turning: Of each body's angular velocity, up to order + 1.
        unit: Of a unit vector fixed in each body, up to order + 2.
        place: Of each body's origin, its velocity at index 1, up to order + 2.
        lever: Of each body's origin from its parent's, up to order + 2.
    """

    def __init__(self, tree: Tree, rates: Sequence[Array], order: int) -> None:
        self.order = order
        zero = np.zeros(len(rates[0]))
        self._still: Jet = [zero + 1.0, *[zero] * (order + 2)]
        self.turning: list[Jet] = []
        self.unit: list[Jet] = []
        self.place: list[Jet] = []
        self.lever: list[Jet] = []
        for b in range(len(tree.names)):
            above, channel = int(tree.parent[b]), int(tree.channel[b])
            scale = abs(float(tree.multiplier[b]))
            moved: Jet = [scale * r[:, channel] for r in rates]
            moved[0] = moved[0] + abs(float(tree.offset[b]))
            turning = self.turning[above] if above >= 0 else [zero] * (order + 2)
            place = self.place[above] if above >= 0 else [zero] * (order + 3)
            unit = self.unit_of(above)
            lever = _scaled(float(np.linalg.norm(tree.translation[b])), unit)
            if tree.kind[b] == PRISMATIC:
                lever = _sum(lever, _product(moved, unit, order + 2))
            else:
                turning = _sum(turning, _product(moved[1:], unit, order + 1))
            self.turning.append(turning)
            self.unit.append(_fixed_unit(turning, order + 2))
            self.lever.append(lever)
            self.place.append(_sum(place, lever))

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
    felt = [place[k + 2] + (weight if k == 0 else 0.0) for k in range(order + 1)]
    force = [mass * felt[k] + first * unit[k + 2] for k in range(order + 1)]
    turned = _product(_product(unit, unit, order + 1), turning, order + 1)
    spin = [abs(same) * turning[k + 1] + other * turned[k + 1] for k in range(order + 1)]
    return force, _sum(spin, _scaled(first, _product(unit, felt, order)))
