"""The dynamics of a small robot in symbols, derived from its Denavit-Hartenberg table.

Lagrange's equations as textbooks derive them [Paul1981; Bejczy1974], with homogeneous transforms
T, their derivatives U_ij = ∂T_0^i/∂q_j and U_ijk = ∂U_ij/∂q_k, and pseudo-inertias J_i:

    D_ik = Σ_j tr(U_jk J_j U_jiᵀ),  h_ikm = Σ_j tr(U_jkm J_j U_jiᵀ),  C_i = −Σ_j m_j gᵀ U_ji r̄_j
    τ = D q̈ + h(q, q̇) + C

A trace does not change when all points are turned and moved alike. So the derivatives are
taken as seen from the link that they move, U_ij = T_0^i X_ij with

    X_ij = (T_{j−1}^i)⁻¹ Q_j T_{j−1}^i,        U_ijk = T_0^i X_ij X_ik for j ≤ k,

and the traces hold X in the place of U: only joints between j and i are left in it. h_ikm is
symmetric in k and m, and is Christoffel's symbol: the Coriolis matrix Σ_m h_ikm q̇_m has
Ḋ = C + Cᵀ.

Up to `CLOSED` joints all results are closed forms; above that they are made of named parts, see
`Derivation.definitions`. Parameters stand in heft's order (`inertia`), the drives' after them:
rotor inertias, then Coulomb, then viscous friction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting
from heft.files import read_text
from heft.information import INERTIA_INDEX, PARAMETER_COUNT, inertia
from heft.models import (
    STANDARD_GRAVITY,
    Body,
    Outline,
    expression,
    load_sympy,
    outline,
    require_sensible,
    right_angle,
)

from .base_set import BaseSet, base_set
from .chain import compose, follow, pair
from .polynomials import Algebra, Expanded, Named
from .sums import DRIVE, LinkSums, Matrix

CLOSED = 3  # joints up to which results are closed forms
TEN = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")


@dataclass(frozen=True, eq=False)
class Derivation:
    """The dynamics of a robot in symbols. All matrices are SymPy's, immutable.

    Attributes:
        name: The robot's name.
        joints: Names of the n joints.
        links: Names of what they move.
        q: Symbols of the joints' positions.
        v: Of their velocities.
        a: Of their accelerations.
        symbols: All others that the robot is described with, sorted by name.
        gravity: In the base's frame, 3 × 1.
        columns: Symbols of all parameters π, p of them: ten a link, then the drives'.
        standard: π in the symbols of the description.
    """

    name: str
    joints: tuple[str, ...]
    links: tuple[str, ...]
    q: tuple[Any, ...]
    v: tuple[Any, ...]
    a: tuple[Any, ...]
    symbols: tuple[Any, ...]
    gravity: Matrix
    columns: tuple[Any, ...]
    standard: tuple[Any, ...]
    _outline: Outline[Any]
    _sums: LinkSums
    _exact: Callable[[], Expanded]

    @property
    def definitions(self) -> tuple[tuple[Any, Any], ...]:
        """Symbols of named parts and what they stand for, each made of those before it.

        None where results are closed forms. Parts come into being with the results that need
        them: ask for those first.
        """
        return self._sums.chain.algebra.definitions

    @property
    def drives(self) -> bool:
        """Whether rotor inertia and friction belong to the robot."""
        return self._sums.drives

    # --- kinematics, as textbooks have it

    @cached_property
    def transforms(self) -> tuple[Matrix, ...]:
        """T_{i−1}^i of each link, 4 × 4."""
        return tuple(self._sums.homogeneous(step, 1) for step in self._sums.chain.steps)

    @cached_property
    def base_transforms(self) -> tuple[Matrix, ...]:
        """T_0^i of each link, 4 × 4."""
        return tuple(self._sums.homogeneous(place, 1) for place in self._sums.places)

    @cached_property
    def derivatives(self) -> tuple[tuple[Matrix, ...], ...]:
        """U_ij = ∂T_0^i/∂q_j by link i and joint j ≤ i, 4 × 4; zero for other joints."""
        return tuple(
            tuple(self._sums.homogeneous(compose(place, twist), 0) for twist in twists)
            for place, twists in zip(self._sums.places, self._sums.chain.twists, strict=True)
        )

    @cached_property
    def second_derivatives(self) -> tuple[tuple[tuple[Matrix, ...], ...], ...]:
        """U_ijk = ∂U_ij/∂q_k by link i and joints j, k ≤ i, 4 × 4; zero for other joints."""
        return tuple(
            tuple(
                tuple(
                    self._sums.homogeneous(compose(place, self._sums.second(i, j, k)), 0)
                    for k in range(i + 1)
                )
                for j in range(i + 1)
            )
            for i, place in enumerate(self._sums.places)
        )

    @cached_property
    def twists(self) -> tuple[tuple[Matrix, ...], ...]:
        """X_ij with U_ij = T_0^i X_ij, by link i and joint j ≤ i, 4 × 4."""
        return tuple(
            tuple(self._sums.homogeneous(twist, 0) for twist in twists)
            for twists in self._sums.chain.twists
        )

    @cached_property
    def pseudo_inertias(self) -> tuple[Matrix, ...]:
        """J_i = ∫ r rᵀ dm of each link, about the origin of its frame, 4 × 4."""
        sympy = load_sympy()
        found = []
        for i in range(len(self.links)):
            m, x, y, z, xx, xy, yy, xz, yz, zz = self._sums.body(i)
            half = sympy.Rational(1, 2)
            rows = [
                [half * (yy + zz - xx), -xy, -xz, x],
                [-xy, half * (xx + zz - yy), -yz, y],
                [-xz, -yz, half * (xx + yy - zz), z],
                [x, y, z, m],
            ]
            found.append(sympy.ImmutableMatrix(rows).expand())
        return tuple(found)

    # --- dynamics

    @cached_property
    def kinetic_energy(self) -> Any:
        """K = ½ Σ_i tr(Ṫ_0^i J_i Ṫ_0^iᵀ), with that of the rotors."""
        sums = self._sums
        total = sums.total(0, lambda j: pair(sums.moving[j], sums.moving[j], sums.half))
        for i, speed in enumerate(self.v):
            total = total + sums.lift(sums.drive("Im", i) * speed**2)
        return sums.expression(sums.half * total)

    @cached_property
    def potential_energy(self) -> Any:
        """P = −Σ_i m_i gᵀ r̄_0^i, zero at the base's origin."""
        sums = self._sums
        total = sums.lift(load_sympy().Integer(0))
        for j, place in enumerate(sums.places):
            m, x, y, z = (sums.lift(value) for value in sums.body(j)[:4])
            for row, g in zip(place, self.gravity, strict=True):
                total = total - sums.lift(g) * (row[0] * x + row[1] * y + row[2] * z + row[3] * m)
        return sums.expression(total)

    @cached_property
    def inertia_matrix(self) -> Matrix:
        """D(q), n × n, the rotors' inertia on its diagonal."""
        sums = self._sums

        def entry(i: int, k: int) -> Any:
            total = sums.total(k, lambda j: sums.onto(j, i, sums.chain.twists[j][k]))
            return total + sums.lift(sums.drive("Im", i)) if i == k else total

        return sums.square(entry, symmetric=True)

    @cached_property
    def velocity_tensor(self) -> tuple[Matrix, ...]:
        """h_ikm by joint i, each n × n: Christoffel's symbols of D, symmetric in k and m."""
        sums = self._sums

        def of(i: int) -> Matrix:
            def entry(k: int, m: int) -> Any:
                return sums.total(max(i, m), lambda j: sums.onto(j, i, sums.second(j, k, m)))

            return sums.square(entry, symmetric=True)

        return tuple(of(i) for i in range(len(self.joints)))

    @cached_property
    def velocity_torque(self) -> Matrix:
        """h(q, q̇) with h_i = Σ_km h_ikm q̇_k q̇_m, n × 1: centrifugal and Coriolis torques."""
        sums = self._sums
        return sums.column(lambda j, i: sums.onto(j, i, sums.turning[j]))

    @cached_property
    def gravity_torque(self) -> Matrix:
        """C(q) = ∂P/∂q, n × 1: the torques that hold the robot at rest."""
        sums = self._sums
        return sums.column(lambda j, i: sums.onto(j, i, sums.weight(j)))

    @cached_property
    def coriolis_matrix(self) -> Matrix:
        """C(q, q̇) = Σ_m h_ikm q̇_m, n × n, with h(q, q̇) = C q̇ and Ḋ = C + Cᵀ."""
        sums = self._sums

        def entry(i: int, k: int) -> Any:
            return sums.total(max(i, k), lambda j: sums.onto(j, i, sums.sweeps[j][k]))

        return sums.square(entry, symmetric=False)

    @cached_property
    def friction(self) -> Matrix:
        """d(q̇) = F_s sign q̇ + F_v q̇, n × 1; zero without drives."""
        sums = self._sums
        sympy = load_sympy()
        return sympy.ImmutableMatrix(
            [
                sums.drive("Fs", i) * sympy.sign(speed) + sums.drive("Fv", i) * speed
                for i, speed in enumerate(self.v)
            ]
        )

    @cached_property
    def torque(self) -> Matrix:
        """τ = D q̈ + h + C + d, n × 1."""
        sums = self._sums
        rows = sums.column(lambda j, i: sums.onto(j, i, sums.accelerating[j]))
        return rows + sums.rotors(self.a) + self.friction

    @cached_property
    def momentum(self) -> Matrix:
        """The generalised momentum p = D q̇, n × 1."""
        sums = self._sums
        rows = sums.column(lambda j, i: sums.onto(j, i, sums.moving[j]))
        return rows + sums.rotors(self.v)

    # --- linear in the parameters

    @cached_property
    def regressor(self) -> Matrix:
        """Y(q, q̇, q̈), n × p, with Y π = τ."""
        sums = self._sums
        sign = load_sympy().sign
        return sums.linear(
            lambda j, i: sums.onto(j, i, sums.accelerating[j]),
            lambda i: (self.a[i], sign(self.v[i]), self.v[i]),
        )

    @cached_property
    def momentum_regressor(self) -> Matrix:
        """W₂(q, q̇), n × p, with W₂ π = p and d/dt(W₂ π) − W₁ π = τ."""
        sums = self._sums
        return sums.linear(
            lambda j, i: sums.onto(j, i, sums.moving[j]), lambda i: (self.v[i], 0, 0)
        )

    @cached_property
    def force_regressor(self) -> Matrix:
        """W₁(q, q̇), n × p, with W₁ π = Cᵀ q̇ − C(q) − d: how momentum changes without torque."""
        sums = self._sums
        sign = load_sympy().sign

        def block(j: int, i: int) -> list[Any]:
            moved = pair(sums.sweeps[j][i], sums.moving[j], sums.half)
            weighed = sums.onto(j, i, sums.weight(j))
            return [x - y for x, y in zip(moved, weighed, strict=True)]

        return sums.linear(block, lambda i: (0, -sign(self.v[i]), -self.v[i]))

    @cached_property
    def base(self) -> BaseSet:
        """The base parameters, in closed form."""
        return base_set(self._outline, self.q, self.gravity, self.columns, self._exact)

    # --- as numbers

    def evaluated(self, expressions: Any, values: Mapping[str, float] | None = None) -> Evaluated:
        """Return a scalar or matrix of this derivation as a function of numbers.

        Args:
            expressions: One of the properties of this object.
            values: Of each of `symbols`, by name.

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
        return Evaluated(call, shape, tuple(float(given[s.name]) for s in self.symbols))

    def needed(self, entries: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return the definitions that expressions are made of, in order."""
        wanted = set().union(*(entry.free_symbols for entry in entries))
        found = []
        for symbol, value in reversed(self.definitions):
            if symbol in wanted:
                found.append((symbol, value))
                wanted |= value.free_symbols
        return found[::-1]


@dataclass(frozen=True)
class Evaluated:
    """A scalar, vector or matrix of a derivation as a function of numbers.

    Attributes:
        call: Takes all coordinates and values one by one and returns all entries.
        shape: Of what is returned, () for a scalar.
        values: Of the robot's symbols.
    """

    call: Callable[..., Any]
    shape: tuple[int, ...]
    values: tuple[float, ...]

    def __call__(self, q: Array, v: Array | None = None, a: Array | None = None) -> Array:
        """Return its value, shape (..., *shape).

        Args:
            q: Positions [rad or m], shape (..., n).
            v: Velocities, likewise; zero if not given.
            a: Accelerations, likewise; zero if not given.
        """
        q = np.asarray(q, dtype=float)
        v = np.zeros_like(q) if v is None else np.asarray(v, dtype=float)
        a = np.zeros_like(q) if a is None else np.asarray(a, dtype=float)
        state = (row for x in (q, v, a) for row in np.moveaxis(x, -1, 0))
        entries = self.call(*state, *self.values)
        out = np.empty((*q.shape[:-1], len(entries)))
        for k, entry in enumerate(entries):
            out[..., k] = entry
        return out.reshape((*q.shape[:-1], *self.shape))


def derive_file(path: str | Path, drives: bool = False) -> Derivation:
    """Return the derivation of a TOML of Denavit-Hartenberg rows.

    Any number in it may be the text of an expression (`expressions`). Links without inertial get
    ten symbols, m1 hx1 hy1 hz1 Ixx1 Ixy1 Iyy1 Ixz1 Iyz1 Izz1 and so on. Gravity is 9.81 m/s²
    downwards if the file says nothing of it.

    Args:
        path: The file.
        drives: Whether rotor inertia, Coulomb and viscous friction of each joint join in, as
            symbols Im1, Fs1, Fv1 and so on.

    Raises:
        InvalidModel: If it is no such file.
        InvalidSetting: If SymPy is not installed.
    """
    if not str(path).lower().endswith(".toml"):
        raise InvalidModel(
            "a derivation starts from a table of Denavit-Hartenberg rows",
            argument=str(path),
            expected="a TOML with [link] convention and table",
            cure="write the rows of the robot down, numbers or symbols (docs/derive.md)",
        )
    return derive(read_text(Path(path), "model file", InvalidModel), str(path), drives)


def derive(data: bytes, path: str = "robot.toml", drives: bool = False) -> Derivation:
    """Return the derivation of a TOML file's bytes; see `derive_file`."""
    sympy = load_sympy()
    table = outline(data, path, expression, require_sensible)
    q, v, a = (_symbols(stem, len(table.rows)) for stem in ("q", "dq", "ddq"))
    gravity = table.gravity or tuple(sympy.Rational(str(g)) for g in STANDARD_GRAVITY)
    standard, made = _standard(table, drives)
    lengths = [x for row in table.rows for x in (row.a, row.d)]
    angles = [right_angle(x) for row in table.rows for x in (row.alpha, row.theta)]
    bodies = [x for b in table.bodies.values() for x in (b.mass, *b.com, *sum(b.inertia, ()))]
    given = set().union(*(x.free_symbols for x in (*lengths, *angles, *gravity, *bodies)))
    _refuse_taken(given & made, path)
    moving = [(x, row.prismatic) for x, row in zip(q, table.rows, strict=True)]
    turning = [x for x, prismatic in moving if not prismatic]
    sliding = [x for x, prismatic in moving if prismatic]

    def expanded(parameters: Sequence[Any]) -> Expanded:
        constants = (*lengths, *gravity, *parameters)
        return Expanded(constants, angles, turning, (*sliding, *v, *a), _parallel(table, q))

    taken = {s.name for s in (*given, *made, *q, *v, *a)}
    algebra: Algebra = expanded(standard) if len(q) <= CLOSED else Named(taken)
    return Derivation(
        name=table.name,
        joints=table.joints,
        links=table.links,
        q=q,
        v=v,
        a=a,
        symbols=tuple(sorted(given | made, key=lambda s: str(s.name))),
        gravity=sympy.ImmutableMatrix(gravity),
        columns=tuple(sympy.Symbol(label, real=True) for label in _labels(table, drives)),
        standard=standard,
        _outline=table,
        _sums=LinkSums(follow(algebra, table, q, gravity), standard, v, a),
        _exact=lambda: expanded(()),
    )


def _symbols(stem: str, count: int) -> tuple[Any, ...]:
    sympy = load_sympy()
    return tuple(sympy.Symbol(f"{stem}{k}", real=True) for k in range(1, count + 1))


def _standard(table: Outline[Any], drives: bool) -> tuple[tuple[Any, ...], set[Any]]:
    """Return all parameters π, and those symbols among them that the file does not have."""
    sympy = load_sympy()
    standard: list[Any] = []
    made: set[Any] = set()
    for k, link in enumerate(table.links, 1):
        if link in table.bodies:
            standard += _ten(table.bodies[link])
        else:
            standard += [sympy.Symbol(f"{name}{k}", real=True) for name in TEN]
            made.update(standard[-PARAMETER_COUNT:])
    for stem in DRIVE if drives else ():
        own = _symbols(stem, len(table.rows))
        standard += own
        made.update(own)
    return tuple(standard), made


def _labels(table: Outline[Any], drives: bool) -> list[str]:
    """Return the names of all parameters π."""
    bodies = [f"{link}.{name}" for link in table.links for name in inertia.SYMBOLS]
    names = DRIVE.values() if drives else ()
    return [*bodies, *(f"{joint}.{name}" for name in names for joint in table.joints)]


def _refuse_taken(symbols: set[Any], path: str) -> None:
    """Raise `InvalidModel` if the file's symbols are also those of links it says nothing about."""
    if symbols:
        raise InvalidModel(
            f"the symbol '{min(s.name for s in symbols)}' stands for a link or drive of which the "
            "file says nothing",
            argument=path,
            cure="give it another name, or give that link an [inertial]",
        )


def _ten(body: Body[Any]) -> list[Any]:
    """Return a body's ten parameters, as `inertia.from_body` does of numbers."""
    m, (x, y, z) = body.mass, body.com
    away = (
        (y * y + z * z, -x * y, -x * z),
        (-x * y, x * x + z * z, -y * z),
        (-x * z, -y * z, x * x + y * y),
    )
    about = [(body.inertia[i][j] + m * away[i][j]).expand() for i, j in INERTIA_INDEX]
    return [m, *(m * c for c in body.com), *about]


def _parallel(table: Outline[Any], q: Sequence[Any]) -> list[Any]:
    """Return positions of joints that turn about axes parallel to a neighbour's."""
    found: set[int] = set()
    for k in range(1, len(table.rows)):
        between = table.rows[k if table.modified else k - 1].alpha
        if between.is_zero and not (table.rows[k].prismatic or table.rows[k - 1].prismatic):
            found |= {k - 1, k}
    return [q[k] for k in sorted(found)]
