"""Symbolic kinematics of a serial chain: link frames, and joint twists in the links' frames.

Matrices are 4 × 4 without their last row. It is 0 0 0 1 for a transform T, and 0 for a twist X:
the derivative of a transform in its own frame, dT = T X.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from heft.models import Outline, Row, load_sympy, right_angle

from .polynomials import Algebra

Rows = list[list[Any]]  # 3 × 4, of an algebra's elements


@dataclass(frozen=True, eq=False)
class Chain:
    """Transforms and twists of the n links of a robot."""

    algebra: Algebra  # algebra of all elements
    steps: tuple[Rows, ...]  # T_{i−1}^i of each link
    # X_ij by link i and joint j ≤ i, with ∂T_0^i/∂q_j = T_0^i X_ij
    twists: tuple[tuple[Rows, ...], ...]
    # gravitational acceleration in each link's frame, n of 3 components [m/s²]
    felt: tuple[list[Any], ...]


def follow(algebra: Algebra, said: Outline[Any], q: Sequence[Any], gravity: Any) -> Chain:
    """Return the chain of a Denavit-Hartenberg table, by recursion from the base outwards.

    Args:
        q: Joint positions; surplus ones are ignored.
        gravity: Gravitational acceleration in the base frame, 3 components [m/s²].
    """
    steps, everyone, felts = [], [], []
    twists: list[Rows] = []
    felt = [algebra.lift(g) for g in gravity]
    for i, (row, position) in enumerate(zip(said.rows, q, strict=False), 1):
        before, joint, after = moves(algebra, row, position, said.modified)
        twists = [seen(after, seen(joint, seen(before, twist))) for twist in twists]
        twists.append(seen(after, _axis(algebra, row.prismatic)))
        step = placed(placed(before, joint), after)
        felt = [_dot([line[c] for line in step], felt) for c in range(3)]
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
        row: Parameters θ, d, a and α of the row [rad, m].
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
        about: `x` or `z`.
    """
    zero, one = _units(algebra)
    cos, sin = (one, zero) if angle.is_zero else algebra.turn(right_angle(angle))
    if about == "x":
        return [[one, zero, zero, zero], [zero, cos, -sin, zero], [zero, sin, cos, zero]]
    return [[cos, -sin, zero, zero], [sin, cos, zero, zero], [zero, zero, one, zero]]


def shift(algebra: Algebra, way: Any, along: str) -> Rows:
    """Return the transform of a translation along x or z.

    Args:
        way: SymPy expression [m].
        along: `x` or `z`.
    """
    rows = turn(algebra, load_sympy().Integer(0), "z")
    rows["xyz".index(along)][3] = algebra.lift(way)
    return rows


def placed(first: Rows, second: Rows) -> Rows:
    """Return the product of a transform, or a twist, with a transform (last row 0 0 0 1).

    Args:
        first: T or X, 3 × 4; what comes out is of its kind.
        second: Transform, 3 × 4.
    """
    found = compose(first, second)
    return [[*new[:3], new[3] + old[3]] for new, old in zip(found, first, strict=True)]


def compose(first: Rows, second: Rows) -> Rows:
    """Return the product of a matrix with a twist (last row 0).

    Args:
        first: Transform T or twist X, 3 × 4.
        second: Twist, 3 × 4.
    """
    columns = [[row[c] for row in second] for c in range(4)]
    return [[_dot(row, column) for column in columns] for row in first]


def seen(place: Rows, twist: Rows) -> Rows:
    """Return T⁻¹ X T: a twist in the frame of a transform.

    The angular part is transformed as a vector, so that a rotation about z leaves one about z
    unchanged.

    Args:
        place: T, 3 × 4.
        twist: X, 3 × 4.
    """
    axes = [[row[c] for row in place] for c in range(4)]
    turning = (twist[2][1], twist[0][2], twist[1][0])
    at = [x + row[3] for x, row in zip(_cross(turning, axes[3]), twist, strict=True)]
    x, y, z = (_dot(axis, turning) for axis in axes[:3])
    along_x, along_y, along_z = (_dot(axis, at) for axis in axes[:3])
    zero = 0 * x
    return [[zero, -z, y, along_x], [z, zero, -x, along_y], [-y, x, zero, along_z]]


def inverse(place: Rows) -> Rows:
    """Return the inverse transform T⁻¹."""
    columns = [[row[c] for row in place] for c in range(4)]
    return [[*column, -_dot(column, columns[3])] for column in columns[:3]]


def along(acceleration: Sequence[Any]) -> Rows:
    """Return the matrix of a uniform acceleration of all points."""
    zero = 0 * acceleration[0]
    return [[zero, zero, zero, x] for x in acceleration]


def scaled(matrix: Rows, factor: Any) -> Rows:
    """Return a matrix times a scalar of the algebra.

    Args:
        matrix: 3 × 4.
    """
    return [[x * factor for x in row] for row in matrix]


def added(matrices: Iterable[Rows]) -> Rows:
    """Return the sum of one or more matrices."""
    total, *others = matrices
    for matrix in others:
        total = [
            [x + y for x, y in zip(one, other, strict=True)]
            for one, other in zip(total, matrix, strict=True)
        ]
    return total


def kept(algebra: Algebra, name: str, matrix: Rows) -> Rows:
    """Return a matrix for repeated use: with named or reduced entries, as the algebra does.

    Args:
        name: Prefix of the entries' names, before row and column, counted from 1.
        matrix: 3 × 4.
    """
    return [
        [algebra.keep(f"{name}_{r}{c}", x) for c, x in enumerate(row, 1)]
        for r, row in enumerate(matrix, 1)
    ]


def pair(left: Rows, right: Rows, half: Any) -> list[Any]:
    """Return the coefficients of tr(A J Bᵀ) in the ten parameters of the pseudo-inertia J.

    Args:
        left: A, 3 × 4.
        right: B, 3 × 4.
        half: ½ in the algebra.

    Returns:
        Ten coefficients, in heft's order of the parameters.
    """
    zero = 0 * left[0][0]

    def both(i: int, j: int) -> Any:
        """(AᵀB)_ij + (AᵀB)_ji."""
        total = zero
        for one, other in zip(left, right, strict=True):
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


def _axis(algebra: Algebra, prismatic: bool) -> Rows:
    """Return the twist Q of a joint about or along z."""
    zero, one = _units(algebra)
    if prismatic:
        return along([zero, zero, one])
    return [[zero, -one, zero, zero], [one, zero, zero, zero], [zero] * 4]


def _units(algebra: Algebra) -> tuple[Any, Any]:
    sympy = load_sympy()
    return algebra.lift(sympy.Integer(0)), algebra.lift(sympy.Integer(1))


def _cross(left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, Any, Any]:
    (a, b, c), (x, y, z) = left, right
    return b * z - c * y, c * x - a * z, a * y - b * x


def _dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]
