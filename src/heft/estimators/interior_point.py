"""The nearest point of a product of small cones: bodies' pseudo-inertias and linear constraints.

A primal-dual interior-point method [Mehrotra1992] with Nesterov and Todd's scaling [Todd1998] for
`½ ‖R y‖²` subject to `A y + c = s`, s in the cone. A point counts as the nearest with a certificate
alone: for any s and z in the cone, which is its own dual, and q = R⁻ᵀ Aᵀ z, `½ ‖R y‖²` is at most
`s·z + ½ ‖R y − q‖²` above the least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array

from .cones import BodyScaling
from .feasible_set import stack, unstack
from .interior_equations import Norm, Step, Walls

TERM, BODY = 0.1, 10.0  # stiffness of constraints as springs, whose balance is the start
INSIDE = 0.3  # least slack and multiplier at the start, as a share of their rms
NEAR_WALL = 0.99  # share of the way to the boundary that a step may go
OUTSIDE = 1e-10  # violation of constraints, as a share of the largest offset


@dataclass(frozen=True)
class _Pair:
    # slack, push: of linear constraints, shape (k,)
    slack: Array
    push: Array
    # bodies, wrench: slack and multiplier of bodies, shape (links, 4, 4)
    bodies: Array
    wrench: Array

    @property
    def gap(self) -> float:
        """Duality gap s·z."""
        return float(self.slack @ self.push + np.sum(self.bodies * self.wrench))

    def moved(self, share: float, change: _Pair) -> _Pair:
        return _Pair(
            self.slack + share * change.slack,
            self.push + share * change.push,
            self.bodies + share * change.bodies,
            self.wrench + share * change.wrench,
        )


@dataclass(frozen=True)
class Nearest:
    """The nearest point."""

    y: Array  # shape (n,)
    # slack, push: of linear constraints, and their multipliers for `½ ‖R y‖²`, shape (k,)
    slack: Array
    push: Array
    steps: int  # steps taken


@dataclass(frozen=True)
class InteriorPoint:
    """Settings of the method."""

    # of `‖R y‖` to its least, relative where it is above 1, absolute where it is below
    gap: float = 1e-9
    steps: int = 50  # largest number of steps

    def nearest(self, norm: Norm, walls: Walls, offsets: Array, bodies: Array) -> Nearest | None:
        """Return the y nearest to 0, or None if steps do not come to a certificate.

        Args:
            norm: R.
            walls: A of the linear constraints `A y + offsets ≥ 0`.
            offsets: Shape (k,).
            bodies: Offsets of bodies, whose sum with y's is to be positive semidefinite, shape
                (links, 4, 4).
        """
        search = _Search(norm, walls, offsets, bodies)
        try:
            y, pair = search.start()
            for steps in range(self.steps):
                if search.certified(y, pair, self.gap):
                    return Nearest(y, pair.slack, pair.push, steps)
                y, pair = search.step(y, pair)
        except np.linalg.LinAlgError:  # rounding, beside the boundary
            return None
        return None


@dataclass(frozen=True)
class _Search:
    norm: Norm
    walls: Walls
    offsets: Array
    bodies: Array

    def start(self) -> tuple[Array, _Pair]:
        """Return the equilibrium with constraints as springs, moved inside the cones."""
        soft = np.tile(BODY * np.eye(10), (len(self.bodies), 1, 1))
        soft_terms, soft = self.walls.stiffness(np.full(len(self.offsets), TERM), soft)
        pull = self._pulled(-TERM * self.offsets, -BODY * self.bodies)
        y = Step.of(self.norm, soft_terms, soft).solve(pull)
        slack = self.walls.at(y) + self.offsets
        values, vectors = np.linalg.eigh(self.bodies + self._of_bodies(y))
        far, wide = (INSIDE * np.sqrt(np.mean(v**2)) if v.size else 0.0 for v in (slack, values))
        turned = np.swapaxes(vectors, 1, 2)
        return y, _Pair(
            np.maximum(slack, far),
            TERM * np.maximum(-slack, far),
            vectors * np.maximum(values, wide)[:, None, :] @ turned,
            BODY * (vectors * np.maximum(-values, wide)[:, None, :] @ turned),
        )

    def certified(self, y: Array, pair: _Pair, gap: float) -> bool:
        """Return whether a point is proven to be the nearest one, to within a relative gap."""
        lost, lost_bodies = self._lost(y, pair)
        largest = max(np.abs(v).max(initial=0.0) for v in (lost, lost_bodies))
        reach = max(np.abs(v).max(initial=1.0) for v in (self.offsets, self.bodies))
        if largest > OUTSIDE * reach:
            return False
        there = self.norm.times(y)
        length = float(np.linalg.norm(there))
        allowed = gap * length * max(length, 1.0)
        if pair.gap > allowed:
            return False
        off = there - self.norm.solved(self._pulled(pair.push, pair.wrench))
        return pair.gap + 0.5 * float(off @ off) <= allowed

    def step(self, y: Array, pair: _Pair) -> tuple[Array, _Pair]:
        scaling = BodyScaling.of(pair.bodies, pair.wrench)
        weights = pair.push / pair.slack
        squares = np.swapaxes(scaling.map, 1, 2) @ scaling.map
        newton = Step.of(self.norm, *self.walls.stiffness(weights, squares))
        lost, lost_bodies = self._lost(y, pair)
        slope = self.norm.transposed(self.norm.times(y))

        def change(push: Array, wrench: Array) -> tuple[Array, _Pair, Array, Array]:
            """Return the changes of y and pair, and of bodies' scaled slacks and multipliers."""
            of_lost = scaling.scaled(lost_bodies)
            pull = self._pulled(
                pair.push + push - weights * lost, pair.wrench + scaling.wrench(wrench - of_lost)
            )
            move = newton.solve(pull - slope)
            slack, bodies = self.walls.at(move) + lost, self._of_bodies(move) + lost_bodies
            scaled = scaling.scaled(bodies)
            rest = wrench - scaled
            moved = _Pair(slack, push - weights * slack, bodies, scaling.wrench(rest))
            return move, moved, scaled, rest

        def share(moved: _Pair, scaled: Array, rest: Array) -> float:
            beyond = max(
                np.max(-moved.slack / pair.slack, initial=0.0),
                np.max(-moved.push / pair.push, initial=0.0),
                scaling.share(scaled),
                scaling.share(rest),
            )
            return 1.0 / max(beyond, 1e-300)

        nothing = np.zeros_like(pair.bodies)
        _, first, scaled, rest = change(-pair.push, scaling.complement(0.0, nothing))
        centring = (1.0 - min(1.0, share(first, scaled, rest))) ** 3
        target = centring * pair.gap / (len(pair.slack) + 4 * len(pair.bodies))
        push = (target - first.slack * first.push) / pair.slack - pair.push
        move, second, scaled, rest = change(push, scaling.complement(target, scaled @ rest))
        taken = min(1.0, NEAR_WALL * share(second, scaled, rest))
        return y + taken * move, pair.moved(taken, second)

    def _lost(self, y: Array, pair: _Pair) -> tuple[Array, Array]:
        """Return the slacks of y less the pair's, of linear constraints and of bodies."""
        linear = self.walls.at(y) + self.offsets - pair.slack
        return linear, self.bodies + self._of_bodies(y) - pair.bodies

    def _of_bodies(self, y: Array) -> Array:
        return unstack(y[self.norm.terms :].reshape(-1, 10))

    def _pulled(self, push: Array, wrench: Array) -> Array:
        """Return the transposed constraint map times the multipliers, shape (n,)."""
        out = self.walls.pushed(push, self.norm.terms + 10 * len(self.bodies))
        out[self.norm.terms :] += stack(wrench).ravel()
        return out
