"""A serial chain in symbols: link frames, joint twists in them, and sums over its links.

Matrices are 4 × 4 without their last row, so 3 × 4. It is 0 0 0 1 for a transform T, and 0 for a
twist X: the derivative of a transform in its own frame, dT = T X. Links and joints are counted from
0, joint i moving link i.

The sums make up Lagrange's equations, see `lagrange`. Each is Σ_j tr(A J_j Bᵀ) with A the motion of
link j's points in the link's frame, and B the derivative X_ji with respect to a joint. The trace is
linear in the link's ten parameters: `onto` returns their coefficients, `total` multiplies and adds,
`linear` arranges them as a regressor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.information import PARAMETER_COUNT
from heft.models import Outline, Row, load_sympy, right_angle

from .polynomials import Algebra

Rows = NDArray[np.object_]  # 3 × 4, of an algebra's elements
Matrix = Any  # SymPy's ImmutableMatrix
DRIVE = {"Im": "armature", "Fs": "coulomb", "Fv": "viscous"}  # symbols and names


@dataclass(frozen=True, eq=False)
class Chain:
    """Transforms and twists of the n links of a robot, and sums over the links."""

    algebra: Algebra  # algebra of all elements
    steps: tuple[Rows, ...]  # T_{i−1}^i of each link
    # X_ij by link i and joint j ≤ i, with ∂T_0^i/∂q_j = T_0^i X_ij
    twists: tuple[tuple[Rows, ...], ...]
    # gravitational acceleration in each link's frame, n of 3 components [m/s²]
    felt: tuple[list[Any], ...]
    # the p standard parameters π: ten for each link, then the drives' if included
    standard: tuple[Any, ...] = ()
    v: tuple[Any, ...] = ()  # symbols of the joint velocities
    a: tuple[Any, ...] = ()  # symbols of the joint accelerations

    @property
    def count(self) -> int:
        """Number n of joints and of links."""
        return len(self.v)

    @property
    def drives(self) -> bool:
        """Whether the model includes rotor inertia and friction."""
        return len(self.standard) > PARAMETER_COUNT * self.count

    def body(self, link: int) -> tuple[Any, ...]:
        """Return the ten inertial parameters of a link."""
        return self.standard[PARAMETER_COUNT * link : PARAMETER_COUNT * (link + 1)]

    def drive(self, symbol: str, joint: int) -> Any:
        """Return a drive parameter of a joint, by symbol; 0 without drives.

        Args:
            symbol: `Im` (rotor inertia), `Fs` (Coulomb) or `Fv` (viscous friction).
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
        """Return the coefficients of link j's parameters in joint i's effort, tr(A J_j X_jiᵀ)."""
        return pair(motion, self.twists[j][i], self.algebra.half)

    def second(self, j: int, k: int, m: int) -> Rows:
        """Return the second-order twist X_jkm with U_jkm = T_0^j X_jkm, symmetric in k, m ≤ j."""
        twists = self.twists[j]
        return compose(twists[min(k, m)], twists[max(k, m)])

    @cached_property
    def weights(self) -> tuple[Rows, ...]:
        """Acceleration −g of all points of each link, which is equivalent to gravity."""
        return tuple(along([-x for x in felt]) for felt in self.felt)

    @cached_property
    def places(self) -> tuple[Rows, ...]:
        """Transforms T_0^i of each link."""
        first, *others = self.steps
        places = [first]
        for i, step in enumerate(others, 2):
            places.append(kept(self.algebra, f"T_0_{i}", placed(places[-1], step)))
        return tuple(places)

    @cached_property
    def moving(self) -> tuple[Rows, ...]:
        """Velocity twists (T_0^j)⁻¹ Ṫ_0^j of each link."""
        return tuple(
            kept(self.algebra, f"V_{j}", added(self._times(twists, self.v)))
            for j, twists in enumerate(self.twists, 1)
        )

    @cached_property
    def sweeps(self) -> tuple[tuple[Rows, ...], ...]:
        """Sums Σ_m X_jkm q̇_m by link j and joint k, with U_jkm = T_0^j X_jkm."""
        made = []
        for j, twists in enumerate(self.twists, 1):
            terms, row = self._times(twists, self.v), []
            for k, twist in enumerate(twists):
                after = kept(self.algebra, f"A_{j}_{k + 1}", added(terms[k:]))
                parts = [compose(twist, after)]
                if k:
                    before = kept(self.algebra, f"B_{j}_{k + 1}", added(terms[:k]))
                    parts.append(compose(before, twist))
                row.append(kept(self.algebra, f"Z_{j}_{k + 1}", added(parts)))
            made.append(tuple(row))
        return tuple(made)

    @cached_property
    def turning(self) -> tuple[Rows, ...]:
        """Velocity-dependent accelerations (T_0^j)⁻¹ T̈_0^j of each link at q̈ = 0."""
        return tuple(
            kept(self.algebra, f"N_{j}", added(self._times(sweeps, self.v)))
            for j, sweeps in enumerate(self.sweeps, 1)
        )

    @cached_property
    def accelerating(self) -> tuple[Rows, ...]:
        """Accelerations (T_0^j)⁻¹ T̈_0^j of each link, less gravity."""
        made = []
        for j, twists in enumerate(self.twists):
            parts = [*self._times(twists, self.a), self.turning[j], self.weights[j]]
            made.append(kept(self.algebra, f"H_{j + 1}", added(parts)))
        return tuple(made)

    def _times(self, matrices: Sequence[Rows], factors: Sequence[Any]) -> list[Rows]:
        return [x * self.algebra.lift(f) for x, f in zip(matrices, factors, strict=False)]

    def total(self, least: int, ten: Callable[[int], list[Any]]) -> Any:
        """Return Σ_j π_jᵀ ten(j) over links j ≥ `least`, as an element of the algebra."""
        total = self.algebra.lift(load_sympy().Integer(0))
        for j in range(least, self.count):
            for factor, value in zip(ten(j), self.body(j), strict=True):
                if factor:
                    total = total + factor * self.algebra.lift(value)
        return total

    def column(self, motions: Sequence[Rows]) -> Matrix:
        """Return the efforts Σ_j tr(A_j J_j X_jiᵀ) over links j ≥ i of each joint i, n × 1."""

        def of(i: int) -> Any:
            total = self.total(i, lambda j: self.onto(j, i, motions[j]))
            return self.algebra.expression(total)

        return load_sympy().ImmutableMatrix([of(i) for i in range(self.count)])

    def square(self, entry: Callable[[int, int], Any], symmetric: bool) -> Matrix:
        """Return an n × n matrix; of a symmetric one only entries with i ≤ k are computed."""
        count = self.count
        made = load_sympy().zeros(count, count)
        for i in range(count):
            for k in range(i if symmetric else 0, count):
                made[i, k] = self.algebra.expression(entry(i, k))
                if symmetric:
                    made[k, i] = made[i, k]
        return made.as_immutable()

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
        made = load_sympy().zeros(count, len(self.standard))
        for i in range(count):
            for j in range(i, count):
                for p, factor in enumerate(ten(j, i)):
                    made[i, PARAMETER_COUNT * j + p] = self.algebra.expression(factor)
            for k, value in enumerate(drive(i) if self.drives else ()):
                made[i, (PARAMETER_COUNT + k) * count + i] = value
        return made.as_immutable()

    def homogeneous(self, rows: Rows, corner: int) -> Matrix:
        """Return three rows as a 4 × 4 matrix of expressions.

        Args:
            corner: Last entry of the fourth row 0 0 0: 1 for a transform, 0 for a twist.
        """
        top = [[self.algebra.expression(x) for x in row] for row in rows]
        return load_sympy().ImmutableMatrix([*top, [0, 0, 0, corner]])


@dataclass(frozen=True)
class BaseSet:
    """Base parameters of a robot in closed form: the identifiable combinations β = K π."""

    columns: tuple[Any, ...]  # symbols of the p standard parameters π, named as everywhere in heft
    kept: tuple[int, ...]  # indices in π of the b independent columns, ascending
    matrix: Any  # K, b × p, with β = K π and Y = Y_kept K

    @property
    def expressions(self) -> tuple[Any, ...]:
        """The b base parameters β in terms of π."""
        return tuple(self.matrix * load_sympy().Matrix(self.columns))


def follow(algebra: Algebra, table: Outline[Any], q: Sequence[Any], gravity: Any) -> Chain:
    """Return the chain of a Denavit-Hartenberg table, by recursion from the base outwards.

    Args:
        gravity: Gravitational acceleration in the base frame, 3 components [m/s²].
    """
    steps, everyone, felts = [], [], []
    twists: list[Rows] = []
    felt = [algebra.lift(g) for g in gravity]
    for i, (row, position) in enumerate(zip(table.rows, q, strict=False), 1):
        before, joint, after = moves(algebra, row, position, table.modified)
        twists = [seen(after, seen(joint, seen(before, twist))) for twist in twists]
        twists.append(seen(after, _axis(algebra, row.prismatic)))
        step = placed(placed(before, joint), after)
        felt = [*(step[:, :3].T @ np.array(felt, dtype=object))]
        twists = [kept(algebra, f"X_{i}_{j}", twist) for j, twist in enumerate(twists, 1)]
        felt = [algebra.keep(f"g_{i}_{c}", x) for c, x in zip("xyz", felt, strict=True)]
        steps.append(kept(algebra, f"T_{i - 1}_{i}", step))
        everyone.append(tuple(twists))
        felts.append(felt)
    return Chain(algebra, tuple(steps), tuple(everyone), tuple(felts))


def moves(algebra: Algebra, row: Row[Any], position: Any, modified: bool) -> tuple[Rows, ...]:
    """Return the three transforms of a row: before the joint, of the joint, and after it.

    The joint comes first by [Denavit1955; Paul1981] and last by the modified convention
    [Craig1986; Khalil1986]; the transform on its other side is the identity.

    Args:
        position: Joint position q [rad or m].
    """
    link = placed(turn(algebra, row.alpha, "x"), shift(algebra, row.a, "x"))
    joint = turn(algebra, row.theta, "z")
    if row.prismatic:
        joint = placed(joint, shift(algebra, row.d + position, "z"))
    else:
        joint = placed(joint, turn(algebra, position, "z"))
        joint = placed(joint, shift(algebra, row.d, "z"))
    still = shift(algebra, load_sympy().Integer(0), "z")
    return (link, joint, still) if modified else (still, joint, link)


def turn(algebra: Algebra, angle: Any, about: str) -> Rows:
    """Return the transform of a rotation about x or z.

    Args:
        angle: SymPy expression [rad].
    """
    zero, one = _units(algebra)
    cos, sin = (one, zero) if angle.is_zero else algebra.turn(right_angle(angle))
    rows = [[cos, -sin, zero, zero], [sin, cos, zero, zero], [zero, zero, one, zero]]
    if about == "x":
        rows = [[one, zero, zero, zero], [zero, cos, -sin, zero], [zero, sin, cos, zero]]
    return np.array(rows, dtype=object)


def shift(algebra: Algebra, way: Any, along: str) -> Rows:
    """Return the transform of a translation along x or z.

    Args:
        way: SymPy expression [m].
    """
    rows = turn(algebra, load_sympy().Integer(0), "z")
    rows["xyz".index(along)][3] = algebra.lift(way)
    return rows


def placed(first: Rows, second: Rows) -> Rows:
    """Return the product of a transform, or a twist, with a transform: of the first one's kind."""
    product = compose(first, second)
    product[:, 3] = product[:, 3] + first[:, 3]
    return product


def compose(first: Rows, second: Rows) -> Rows:
    """Return the product of a transform or twist with a twist."""
    return np.asarray(first[:, :3] @ second)


def seen(place: Rows, twist: Rows) -> Rows:
    """Return T⁻¹ X T: a twist in the frame of a transform.

    The angular part is transformed as a vector, so that a rotation about z leaves one about z
    unchanged.
    """
    axes, turning = place[:, :3].T, np.array([twist[2, 1], twist[0, 2], twist[1, 0]], dtype=object)
    x, y, z = axes @ turning
    shifts = axes @ (np.cross(turning, place[:, 3]) + twist[:, 3])
    zero = 0 * x
    turned = np.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]], dtype=object)
    return np.column_stack([turned, shifts])


def inverse(place: Rows) -> Rows:
    """Return the inverse transform T⁻¹."""
    axes = place[:, :3].T
    return np.column_stack([axes, -(axes @ place[:, 3])])


def along(acceleration: Sequence[Any]) -> Rows:
    """Return the matrix of a uniform acceleration of all points."""
    still = np.full((3, 3), 0 * acceleration[0], dtype=object)
    return np.column_stack([still, np.array([*acceleration], dtype=object)])


def added(matrices: Iterable[Rows]) -> Rows:
    """Return the sum of one or more matrices."""
    return reduce(add, matrices)


def kept(algebra: Algebra, name: str, matrix: Rows) -> Rows:
    """Return a matrix for repeated use: with named or reduced entries, as the algebra does."""
    rows = [
        [algebra.keep(f"{name}_{r}{c}", x) for c, x in enumerate(row, 1)]
        for r, row in enumerate(matrix, 1)
    ]
    return np.array(rows, dtype=object)


def pair(A: Rows, B: Rows, half: Any) -> list[Any]:
    """Return the ten coefficients of tr(A J Bᵀ) in the parameters of the pseudo-inertia J."""
    zero = 0 * A[0][0]

    def both(i: int, j: int) -> Any:
        """(AᵀB)_ij + (AᵀB)_ji."""
        total = zero
        for one, other in zip(A, B, strict=True):
            for x, y in ((one[i], other[j]), (one[j], other[i])):
                if x and y:
                    total = total + x * y
        return total

    xx, yy, zz = (half * half * both(k, k) for k in range(3))
    return [
        half * both(3, 3),
        *(both(k, 3) for k in range(3)),
        yy + zz - xx,
        -both(0, 1),
        xx + zz - yy,
        -both(0, 2),
        -both(1, 2),
        xx + yy - zz,
    ]


def pseudo_inertia(ten: Sequence[Any], half: Any) -> list[list[Any]]:
    """Return J = ∫ r rᵀ dm, 4 × 4, of ten parameters in heft's order."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = ten
    return [
        [half * (yy + zz - xx), -xy, -xz, x],
        [-xy, half * (xx + zz - yy), -yz, y],
        [-xz, -yz, half * (xx + yy - zz), z],
        [x, y, z, m],
    ]


def _axis(algebra: Algebra, prismatic: bool) -> Rows:
    """Return the twist Q of a joint about or along z."""
    zero, one = _units(algebra)
    if prismatic:
        return along([zero, zero, one])
    rows = [[zero, -one, zero, zero], [one, zero, zero, zero], [zero] * 4]
    return np.array(rows, dtype=object)


def _units(algebra: Algebra) -> tuple[Any, Any]:
    sympy = load_sympy()
    return algebra.lift(sympy.Integer(0)), algebra.lift(sympy.Integer(1))
