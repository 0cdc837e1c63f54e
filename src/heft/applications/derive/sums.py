"""Sums over a robot's links that make up Lagrange's equations; see `lagrange`.

Each is Σ_j tr(A J_j Bᵀ) with A the motion of link j's points in the link's frame, and B the
derivative X_ji with respect to a joint. The trace is linear in the link's ten parameters: `onto`
returns their coefficients, `total` multiplies and adds, `linear` arranges them as a regressor.
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
    """Sums over the links of a chain."""

    chain: Chain  # transforms and twists of the links
    # the p standard parameters π: ten for each link, then the drives' if included
    standard: tuple[Any, ...]
    v: tuple[Any, ...]  # symbols of the joint velocities
    a: tuple[Any, ...]  # symbols of the joint accelerations

    @property
    def count(self) -> int:
        """Number n of joints and of links."""
        return len(self.v)

    @property
    def drives(self) -> bool:
        """Whether the model includes rotor inertia and friction."""
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
        """Return a matrix for repeated use, its entries replaced by named subexpressions if apt.

        Args:
            name: Prefix of the entries' names.
            matrix: 3 × 4.
        """
        return kept(self.chain.algebra, name, matrix)

    def body(self, link: int) -> tuple[Any, ...]:
        """Return the ten inertial parameters of a link."""
        return self.standard[PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def drive(self, symbol: str, joint: int) -> Any:
        """Return a drive parameter of a joint, by symbol; 0 without drives.

        Args:
            symbol: `Im` (rotor inertia), `Fs` (Coulomb) or `Fv` (viscous friction).
            joint: Index of the joint, from 0.
        """
        if not self.drives:
            return load_sympy().Integer(0)
        count = self.count
        first = PARAMETER_COUNT * count + list(DRIVE).index(symbol) * count
        return self.standard[first + joint]

    def rotors(self, motion: Sequence[Any]) -> Matrix:
        """Return rotor inertia times velocity or acceleration of each joint, n × 1."""
        rows = [self.drive("Im", i) * x for i, x in enumerate(motion)]
        return load_sympy().ImmutableMatrix(rows)

    def onto(self, j: int, i: int, motion: Rows) -> list[Any]:
        """Return the coefficients of link j's parameters in joint i's effort, tr(A J_j X_jiᵀ).

        Args:
            j: Index of the link, from 0.
            i: Index of the joint, from 0, i ≤ j.
            motion: Matrix A of the motion of the link's points in its frame, 3 × 4.
        """
        return pair(motion, self.chain.twists[j][i], self.half)

    def second(self, j: int, k: int, m: int) -> Rows:
        """Return the second-order twist X_jkm with U_jkm = T_0^j X_jkm, symmetric in k and m.

        Args:
            j: Index of the link, from 0.
            k: Index of a joint, from 0, k ≤ j.
            m: Index of a joint, from 0, m ≤ j.
        """
        twists = self.chain.twists[j]
        return compose(twists[min(k, m)], twists[max(k, m)])

    def weight(self, j: int) -> Rows:
        """Return the acceleration −g of all points of link j, which is equivalent to gravity."""
        return along([-x for x in self.chain.felt[j]])

    @cached_property
    def places(self) -> tuple[Rows, ...]:
        """Transforms T_0^i of each link."""
        first, *others = self.chain.steps
        places = [first]
        for i, step in enumerate(others, 2):
            places.append(self.keep(f"T_0_{i}", placed(places[-1], step)))
        return tuple(places)

    @cached_property
    def moving(self) -> tuple[Rows, ...]:
        """Velocity twists (T_0^j)⁻¹ Ṫ_0^j of each link."""
        return tuple(
            self.keep(f"V_{j}", added(self._times(twists, self.v)))
            for j, twists in enumerate(self.chain.twists, 1)
        )

    @cached_property
    def sweeps(self) -> tuple[tuple[Rows, ...], ...]:
        """Sums Σ_m X_jkm q̇_m by link j and joint k, with U_jkm = T_0^j X_jkm."""
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
        """Velocity-dependent accelerations (T_0^j)⁻¹ T̈_0^j of each link at q̈ = 0."""
        return tuple(
            self.keep(f"N_{j}", added(self._times(sweeps, self.v)))
            for j, sweeps in enumerate(self.sweeps, 1)
        )

    @cached_property
    def accelerating(self) -> tuple[Rows, ...]:
        """Accelerations (T_0^j)⁻¹ T̈_0^j of each link, less gravity."""
        found = []
        for j, twists in enumerate(self.chain.twists):
            parts = [*self._times(twists, self.a), self.turning[j], self.weight(j)]
            found.append(self.keep(f"H_{j + 1}", added(parts)))
        return tuple(found)

    def _times(self, matrices: Sequence[Rows], factors: Sequence[Any]) -> list[Rows]:
        return [scaled(x, self.lift(f)) for x, f in zip(matrices, factors, strict=False)]

    def total(self, least: int, ten: Callable[[int], list[Any]]) -> Any:
        """Return Σ_j π_jᵀ ten(j) over links j ≥ `least`, as an element of the algebra.

        Args:
            least: Index of the first link of the sum, from 0.
            ten: Function of j: coefficients of link j's ten parameters.
        """
        total = self.lift(load_sympy().Integer(0))
        for j in range(least, self.count):
            for factor, value in zip(ten(j), self.body(j), strict=True):
                if factor:
                    total = total + factor * self.lift(value)
        return total

    def column(self, ten: Callable[[int, int], list[Any]]) -> Matrix:
        """Return the efforts Σ_j π_jᵀ ten(j, i) over links j ≥ i of each joint i, n × 1.

        Args:
            ten: Function of j and i: coefficients of link j's ten parameters in joint i's effort.
        """

        def of(i: int) -> Any:
            return self.expression(self.total(i, lambda j: ten(j, i)))

        return load_sympy().ImmutableMatrix([of(i) for i in range(self.count)])

    def square(self, entry: Callable[[int, int], Any], symmetric: bool) -> Matrix:
        """Return an n × n matrix; of a symmetric one only entries with i ≤ k are computed.

        Args:
            entry: Function of row i and column k: the entry as an element of the algebra.
            symmetric: Whether entries (k, i) are those of (i, k).
        """
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
        """Return a regressor, n × p: the coefficients of all parameters in the joints' efforts.

        Args:
            ten: Function of j and i: coefficients of link j's ten parameters in joint i's effort.
            drive: Function of a joint: coefficients of its rotor inertia, Coulomb and viscous
                friction.
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
        """Return three rows as a 4 × 4 matrix of expressions.

        Args:
            rows: Of a transform or a twist, 3 × 4.
            corner: Last entry of the fourth row 0 0 0: 1 for a transform, 0 for a twist.
        """
        top = [[self.expression(x) for x in row] for row in rows]
        return load_sympy().ImmutableMatrix([*top, [0, 0, 0, corner]])
