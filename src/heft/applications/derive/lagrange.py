"""Symbolic dynamics of a small robot, derived from its Denavit-Hartenberg table.

Lagrange's equations as textbooks derive them [Paul1981; Bejczy1974], with homogeneous transforms
T, their derivatives U_ij = ∂T_0^i/∂q_j and U_ijk = ∂U_ij/∂q_k, and pseudo-inertias J_i:

    D_ik = Σ_j tr(U_jk J_j U_jiᵀ),  h_ikm = Σ_j tr(U_jkm J_j U_jiᵀ),  C_i = −Σ_j m_j gᵀ U_ji r̄_j
    τ = D q̈ + h(q, q̇) + C

The trace is invariant under a common rigid motion of all points. So the derivatives are expressed
in the frame of the link that they move, U_ij = T_0^i X_ij with

    X_ij = (T_{j−1}^i)⁻¹ Q_j T_{j−1}^i,        U_ijk = T_0^i X_ij X_ik for j ≤ k,

and X replaces U in the traces: they depend only on the joints between j and i. h_ikm is
symmetric in k and m, and is Christoffel's symbol: the Coriolis matrix Σ_m h_ikm q̇_m has
Ḋ = C + Cᵀ.

Up to `CLOSED` joints all results are closed forms; for more joints they are expressed by named
subexpressions, see `Derivation.definitions`. Parameters are in heft's order (`inertia`), followed
by the drives': rotor inertias, then Coulomb, then viscous friction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.models import load_sympy

from .chain import BaseSet, Chain, Matrix, compose, pair, pseudo_inertia

CLOSED = 3  # joints up to which results are closed forms


@dataclass(frozen=True, eq=False)
class Derivation:
    """Symbolic dynamics of a robot. All matrices are immutable SymPy matrices.

    Lengths are in metres and angles in radians; entries of prismatic joints have the units of
    translation.
    """

    name: str  # name of the robot
    joints: tuple[str, ...]  # names of the n joints
    links: tuple[str, ...]  # names of the n links
    q: tuple[Any, ...]  # symbols of the joint positions [rad or m]
    v: tuple[Any, ...]  # symbols of the joint velocities q̇ [rad/s or m/s]
    a: tuple[Any, ...]  # symbols of the joint accelerations q̈ [rad/s² or m/s²]
    symbols: tuple[Any, ...]  # all other symbols of the description, sorted by name
    gravity: Matrix  # gravitational acceleration in the base frame, 3 × 1 [m/s²]
    # symbols of the p standard parameters π: ten for each link, then the drives'
    columns: tuple[Any, ...]
    standard: tuple[Any, ...]  # π in terms of the symbols of the description
    _chain: Chain
    _base: Callable[[], BaseSet]

    @property
    def definitions(self) -> tuple[tuple[Any, Any], ...]:
        """Symbols of named subexpressions with their values, each in terms of earlier ones.

        Empty where results are closed forms. Subexpressions are created with the results that need
        them: request those first.
        """
        return self._chain.algebra.definitions

    @property
    def drives(self) -> bool:
        """Whether the model includes rotor inertia and friction."""
        return self._chain.drives

    # --- kinematics, as textbooks have it

    @cached_property
    def transforms(self) -> tuple[Matrix, ...]:
        """Homogeneous transforms T_{i−1}^i of each link, 4 × 4."""
        return tuple(self._chain.homogeneous(step, 1) for step in self._chain.steps)

    @cached_property
    def base_transforms(self) -> tuple[Matrix, ...]:
        """Homogeneous transforms T_0^i of each link, from its frame to the base frame, 4 × 4."""
        return tuple(self._chain.homogeneous(place, 1) for place in self._chain.places)

    @cached_property
    def derivatives(self) -> tuple[tuple[Matrix, ...], ...]:
        """Derivatives U_ij = ∂T_0^i/∂q_j by link i and joint j ≤ i, 4 × 4; zero for j > i."""
        return tuple(
            tuple(self._chain.homogeneous(compose(place, twist), 0) for twist in twists)
            for place, twists in zip(self._chain.places, self._chain.twists, strict=True)
        )

    @cached_property
    def second_derivatives(self) -> tuple[tuple[tuple[Matrix, ...], ...], ...]:
        """Derivatives U_ijk = ∂U_ij/∂q_k by link i and joints j, k ≤ i, 4 × 4; otherwise zero."""
        return tuple(
            tuple(
                tuple(
                    self._chain.homogeneous(compose(place, self._chain.second(i, j, k)), 0)
                    for k in range(i + 1)
                )
                for j in range(i + 1)
            )
            for i, place in enumerate(self._chain.places)
        )

    @cached_property
    def twists(self) -> tuple[tuple[Matrix, ...], ...]:
        """Twists X_ij of joint j in the frame of link i ≥ j, with U_ij = T_0^i X_ij, 4 × 4."""
        return tuple(
            tuple(self._chain.homogeneous(twist, 0) for twist in twists)
            for twists in self._chain.twists
        )

    @cached_property
    def pseudo_inertias(self) -> tuple[Matrix, ...]:
        """Pseudo-inertias J_i = ∫ r rᵀ dm of each link, about the origin of its frame, 4 × 4."""
        sympy = load_sympy()
        bodies = (self._chain.body(i) for i in range(len(self.links)))
        half = sympy.Rational(1, 2)
        return tuple(sympy.ImmutableMatrix(pseudo_inertia(b, half)).expand() for b in bodies)

    # --- dynamics

    @cached_property
    def kinetic_energy(self) -> Any:
        """Kinetic energy K = ½ Σ_i tr(Ṫ_0^i J_i Ṫ_0^iᵀ) plus that of the rotors [J]."""
        chain = self._chain
        total = chain.total(0, lambda j: pair(chain.moving[j], chain.moving[j], chain.algebra.half))
        for i, speed in enumerate(self.v):
            total = total + chain.algebra.lift(chain.drive("Im", i) * speed**2)
        return chain.algebra.expression(chain.algebra.half * total)

    @cached_property
    def potential_energy(self) -> Any:
        """Potential energy P = −Σ_i m_i gᵀ r̄_0^i, zero at the base's origin [J]."""
        chain, lift = self._chain, self._chain.algebra.lift
        total = lift(load_sympy().Integer(0))
        for j, place in enumerate(chain.places):
            m, x, y, z = map(lift, chain.body(j)[:4])
            for row, g in zip(place, self.gravity, strict=True):
                total = total - lift(g) * (row[0] * x + row[1] * y + row[2] * z + row[3] * m)
        return chain.algebra.expression(total)

    @cached_property
    def inertia_matrix(self) -> Matrix:
        """Joint-space inertia matrix D(q), n × n, with rotor inertias on its diagonal."""
        chain = self._chain

        def entry(i: int, k: int) -> Any:
            total = chain.total(k, lambda j: chain.onto(j, i, chain.twists[j][k]))
            return total + chain.algebra.lift(chain.drive("Im", i)) if i == k else total

        return chain.square(entry, symmetric=True)

    @cached_property
    def velocity_tensor(self) -> tuple[Matrix, ...]:
        """Christoffel symbols h_ikm of D by joint i, each n × n, symmetric in k and m."""
        chain = self._chain

        def of(i: int) -> Matrix:
            def entry(k: int, m: int) -> Any:
                return chain.total(max(i, m), lambda j: chain.onto(j, i, chain.second(j, k, m)))

            return chain.square(entry, symmetric=True)

        return tuple(of(i) for i in range(len(self.joints)))

    @cached_property
    def velocity_torque(self) -> Matrix:
        """Centrifugal and Coriolis torques h(q, q̇), n × 1 [N·m or N].

        h_i = Σ_km h_ikm q̇_k q̇_m.
        """
        return self._chain.column(self._chain.turning)

    @cached_property
    def gravity_torque(self) -> Matrix:
        """Gravity torque C(q) = ∂P/∂q, n × 1 [N·m or N]."""
        return self._chain.column(self._chain.weights)

    @cached_property
    def coriolis_matrix(self) -> Matrix:
        """Coriolis matrix C(q, q̇) = Σ_m h_ikm q̇_m, n × n, with h(q, q̇) = C q̇ and Ḋ = C + Cᵀ."""
        chain = self._chain

        def entry(i: int, k: int) -> Any:
            return chain.total(max(i, k), lambda j: chain.onto(j, i, chain.sweeps[j][k]))

        return chain.square(entry, symmetric=False)

    @cached_property
    def friction(self) -> Matrix:
        """Friction torque d(q̇) = F_s sign q̇ + F_v q̇, n × 1 [N·m or N]; zero without drives."""
        chain = self._chain
        sympy = load_sympy()
        return sympy.ImmutableMatrix(
            [
                chain.drive("Fs", i) * sympy.sign(speed) + chain.drive("Fv", i) * speed
                for i, speed in enumerate(self.v)
            ]
        )

    @cached_property
    def torque(self) -> Matrix:
        """Joint torque τ = D q̈ + h + C + d, n × 1 [N·m or N]."""
        chain = self._chain
        rows = chain.column(chain.accelerating)
        return rows + chain.rotors(self.a) + self.friction

    @cached_property
    def momentum(self) -> Matrix:
        """Generalised momentum p = D q̇, n × 1 [N·m·s or N·s]."""
        chain = self._chain
        rows = chain.column(chain.moving)
        return rows + chain.rotors(self.v)

    # --- linear in the parameters

    @cached_property
    def regressor(self) -> Matrix:
        """Regressor of the inverse dynamic model Y(q, q̇, q̈), n × p, with Y π = τ."""
        chain, sign = self._chain, load_sympy().sign
        return chain.linear(
            lambda j, i: chain.onto(j, i, chain.accelerating[j]),
            lambda i: (self.a[i], sign(self.v[i]), self.v[i]),
        )

    @cached_property
    def momentum_regressor(self) -> Matrix:
        """Momentum regressor W₂(q, q̇), n × p, with W₂ π = p and d/dt(W₂ π) − W₁ π = τ."""
        chain = self._chain
        return chain.linear(
            lambda j, i: chain.onto(j, i, chain.moving[j]), lambda i: (self.v[i], 0, 0)
        )

    @cached_property
    def force_regressor(self) -> Matrix:
        """Force regressor W₁(q, q̇), n × p, with W₁ π = Cᵀ q̇ − C(q) − d.

        W₁ π is the rate of change of momentum without actuator torque.
        """
        chain, sign = self._chain, load_sympy().sign

        def block(j: int, i: int) -> list[Any]:
            moved = pair(chain.sweeps[j][i], chain.moving[j], chain.algebra.half)
            weighed = chain.onto(j, i, chain.weights[j])
            return [x - y for x, y in zip(moved, weighed, strict=True)]

        return chain.linear(block, lambda i: (0, -sign(self.v[i]), -self.v[i]))

    @cached_property
    def base(self) -> BaseSet:
        """Base parameters β = K π in closed form: the identifiable combinations."""
        return self._base()

    # --- as numbers

    def evaluated(
        self, expressions: Any, values: Mapping[str, float] | None = None
    ) -> Callable[..., Array]:
        """Return a scalar or matrix as a numerical function of q, q̇ and q̈, vectorised.

        The function takes arrays of shape (..., n) and returns one of shape (..., *shape) with the
        shape of the expressions, that of a column without its 1; velocities and accelerations that
        are not given are zero.

        Args:
            values: Value of each of `symbols`, by name [SI].

        Raises:
            InvalidSetting: If a symbol has no value.
        """
        given = values or {}
        missing = [s.name for s in self.symbols if s.name not in given]
        if missing:
            raise InvalidSetting(
                f"the symbol '{missing[0]}' has no value",
                argument="values",
                valid=[s.name for s in self.symbols],
            )
        shape: tuple[int, ...] = getattr(expressions, "shape", ())
        entries = list(expressions) if shape else [expressions]
        shape = shape[:1] if shape[1:] == (1,) else shape
        needed = self.needed(entries)
        call = load_sympy().lambdify(
            [*self.q, *self.v, *self.a, *self.symbols],
            entries,
            "numpy",
            cse=(lambda given: (needed, given)) if needed else True,
        )
        fixed = [float(given[s.name]) for s in self.symbols]

        def evaluate(q: Array, v: Array | None = None, a: Array | None = None) -> Array:
            q = np.asarray(q, dtype=float)
            state = (np.zeros_like(q) if x is None else np.asarray(x, float) for x in (q, v, a))
            made = call(*(row for x in state for row in np.moveaxis(x, -1, 0)), *fixed)
            rows = [np.broadcast_to(np.asarray(entry, float), q.shape[:-1]) for entry in made]
            return np.stack(rows, axis=-1).reshape((*q.shape[:-1], *shape))

        return evaluate

    def needed(self, entries: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the definitions of subexpressions that entries use, in order of dependence."""
        wanted = set().union(*(entry.free_symbols for entry in entries))
        used = []
        for symbol, value in reversed(self.definitions):
            if symbol in wanted:
                used.append((symbol, value))
                wanted |= value.free_symbols
        return used[::-1]
