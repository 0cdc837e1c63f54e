"""Sums over a robot's links, of which Lagrange's equations are made; see `lagrange`.

Each is Σ_j tr(A J_j Bᵀ) with A how the points of link j move, as seen from the link, and B its
derivative X_ji by a joint. The trace is linear in the link's ten parameters: `onto` returns
their factors, `total` adds their products, `linear` sets them side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from heft.information import PARAMETER_COUNT
from heft.models import load_sympy

from .chain import Chain, Rows, added, along, compose, kept, pair, placed, scaled

DRIVE = {"Im": "armature", "Fs": "coulomb", "Fv": "viscous"}  # symbols and names
Matrix = Any  # SymPy's ImmutableMatrix


@dataclass(frozen=True, eq=False)
class LinkSums:
    """Sums over the links of a chain.

    Attributes:
        chain: The links' frames and how joints move them.
        standard: All parameters π, p of them: ten a link, then the drives', if they join in.
        v: Symbols of the joints' velocities.
        a: Of their accelerations.
    """

    chain: Chain
    standard: tuple[Any, ...]
    v: tuple[Any, ...]
    a: tuple[Any, ...]

    @property
    def count(self) -> int:
        """Number n of joints, which is that of links."""
        return len(self.v)

    @property
    def drives(self) -> bool:
        """Whether rotor inertia and friction belong to the robot."""
        return len(self.standard) > PARAMETER_COUNT * self.count

    @property
    def half(self) -> Any:
        """One half, as an element of the algebra."""
        return self.chain.algebra.half

    def lift(self, expression: Any) -> Any:
        """Return an expression as an element of the algebra."""
        return self.chain.algebra.lift(expression)

    def expression(self, element: Any) -> Any:
        """Return an element of the algebra as an expression."""
        return self.chain.algebra.expression(element)

    def keep(self, name: str, matrix: Rows) -> Rows:
        """Return a matrix whose entries may be named parts from now on."""
        return kept(self.chain.algebra, name, matrix)

    def body(self, link: int) -> tuple[Any, ...]:
        """Return a link's ten parameters."""
        return self.standard[PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def drive(self, symbol: str, joint: int) -> Any:
        """Return a parameter of a drive; 0 without drives."""
        if not self.drives:
            return load_sympy().Integer(0)
        count = self.count
        first = PARAMETER_COUNT * count + list(DRIVE).index(symbol) * count
        return self.standard[first + joint]

    def rotors(self, motion: Sequence[Any]) -> Matrix:
        """Return rotor inertia times a motion of each joint, n × 1."""
        rows = [self.drive("Im", i) * x for i, x in enumerate(motion)]
        return load_sympy().ImmutableMatrix(rows)

    def onto(self, j: int, i: int, motion: Rows) -> list[Any]:
        """Return link j's parameters' factors in joint i's effort, for points that move so."""
        return pair(motion, self.chain.twists[j][i], self.half)

    def second(self, j: int, k: int, m: int) -> Rows:
        """Return X with U_jkm = T_0^j X."""
        twists = self.chain.twists[j]
        return compose(twists[min(k, m)], twists[max(k, m)])

    def weight(self, j: int) -> Rows:
        """Return what holds link j against gravity: an acceleration of −g."""
        return along([-x for x in self.chain.felt[j]])

    @cached_property
    def places(self) -> tuple[Rows, ...]:
        """T_0^i."""
        first, *others = self.chain.steps
        places = [first]
        for i, step in enumerate(others, 2):
            places.append(self.keep(f"T_0_{i}", placed(places[-1], step)))
        return tuple(places)

    @cached_property
    def moving(self) -> tuple[Rows, ...]:
        """(T_0^j)⁻¹ Ṫ_0^j."""
        return tuple(
            self.keep(f"V_{j}", added(self._times(twists, self.v)))
            for j, twists in enumerate(self.chain.twists, 1)
        )

    @cached_property
    def sweeps(self) -> tuple[tuple[Rows, ...], ...]:
        """By link j and joint k, Σ_m X_jkm q̇_m with U_jkm = T_0^j X_jkm."""
        found = []
        for j, twists in enumerate(self.chain.twists, 1):
            terms, row = self._times(twists, self.v), []
            for k, twist in enumerate(twists):
                after = self.keep(f"A_{j}_{k + 1}", added(terms[k:]))
                parts = [compose(twist, after)]
                if k:
                    before = self.keep(f"B_{j}_{k + 1}", added(terms[:k]))
                    parts.append(compose(before, twist))
                row.append(self.keep(f"Z_{j}_{k + 1}", added(parts)))
            found.append(tuple(row))
        return tuple(found)

    @cached_property
    def turning(self) -> tuple[Rows, ...]:
        """(T_0^j)⁻¹ T̈_0^j where the joints do not accelerate."""
        return tuple(
            self.keep(f"N_{j}", added(self._times(sweeps, self.v)))
            for j, sweeps in enumerate(self.sweeps, 1)
        )

    @cached_property
    def accelerating(self) -> tuple[Rows, ...]:
        """(T_0^j)⁻¹ T̈_0^j, less gravity."""
        found = []
        for j, twists in enumerate(self.chain.twists):
            parts = [*self._times(twists, self.a), self.turning[j], self.weight(j)]
            found.append(self.keep(f"H_{j + 1}", added(parts)))
        return tuple(found)

    def _times(self, matrices: Sequence[Rows], factors: Sequence[Any]) -> list[Rows]:
        return [scaled(x, self.lift(f)) for x, f in zip(matrices, factors, strict=False)]

    def total(self, least: int, ten: Callable[[int], list[Any]]) -> Any:
        """Return Σ_j π_jᵀ ten(j) over links j from `least` on."""
        total = self.lift(load_sympy().Integer(0))
        for j in range(least, self.count):
            for factor, value in zip(ten(j), self.body(j), strict=True):
                if factor:
                    total = total + factor * self.lift(value)
        return total

    def column(self, ten: Callable[[int, int], list[Any]]) -> Matrix:
        """Return Σ_j π_jᵀ ten(j, i) over links j ≥ i, n × 1: efforts of joints i."""

        def of(i: int) -> Any:
            return self.expression(self.total(i, lambda j: ten(j, i)))

        return load_sympy().ImmutableMatrix([of(i) for i in range(self.count)])

    def square(self, entry: Callable[[int, int], Any], symmetric: bool) -> Matrix:
        """Return an n × n matrix; of a symmetric one only entries with i ≤ k are asked for."""
        count = self.count
        found = load_sympy().zeros(count, count)
        for i in range(count):
            for k in range(i if symmetric else 0, count):
                found[i, k] = self.expression(entry(i, k))
                if symmetric:
                    found[k, i] = found[i, k]
        return found.as_immutable()

    def linear(
        self, ten: Callable[[int, int], list[Any]], drive: Callable[[int], tuple[Any, Any, Any]]
    ) -> Matrix:
        """Return a regressor, n × p: what all parameters are multiplied by in joints' efforts.

        Args:
            ten: Factors of link j's parameters in joint i's effort, of j and i.
            drive: Those of rotor inertia, Coulomb and viscous friction of a joint, if they join in.
        """
        count = self.count
        found = load_sympy().zeros(count, len(self.standard))
        for i in range(count):
            for j in range(i, count):
                for p, factor in enumerate(ten(j, i)):
                    found[i, PARAMETER_COUNT * j + p] = self.expression(factor)
            for k, value in enumerate(drive(i) if self.drives else ()):
                found[i, (PARAMETER_COUNT + k) * count + i] = value
        return found.as_immutable()

    def homogeneous(self, rows: Rows, corner: int) -> Matrix:
        """Return three rows as a 4 × 4 matrix; its corner is 1 for a place, 0 for a motion."""
        top = [[self.expression(x) for x in row] for row in rows]
        return load_sympy().ImmutableMatrix([*top, [0, 0, 0, corner]])
