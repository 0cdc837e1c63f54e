"""From a robot's table of Denavit-Hartenberg rows to the derivation of its dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from heft.errors import InvalidModel
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

from .base_set import base_set
from .chain import DRIVE, follow
from .lagrange import CLOSED, Derivation
from .polynomials import Algebra, Expanded, Named

TEN = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")


def derive_file(path: str | Path, drives: bool = False) -> Derivation:
    """Derive the symbolic dynamics of a robot from a TOML of Denavit-Hartenberg rows.

    Any number in the file may be the text of an expression (`expressions`). Links without inertial
    get ten symbols, m1 hx1 hy1 hz1 Ixx1 Ixy1 Iyy1 Ixz1 Iyz1 Izz1 and so on. Gravity is 9.81 m/s²
    downwards unless the file states it.

    Args:
        drives: Whether to include rotor inertia, Coulomb and viscous friction of each joint, as
            symbols Im1, Fs1, Fv1 and so on.

    Raises:
        InvalidModel: If the file is no valid table of Denavit-Hartenberg rows, or uses a symbol
            that is reserved for an unspecified link or drive.
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
    """Derive the symbolic dynamics of a robot from the bytes of a TOML file; see `derive_file`.

    Raises:
        InvalidModel: If the file is no valid table, or uses a reserved symbol.
        InvalidSetting: If SymPy is not installed.
    """
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
    columns = tuple(sympy.Symbol(label, real=True) for label in _labels(table, drives))
    return Derivation(
        name=table.name,
        joints=table.joints,
        links=table.links,
        q=q,
        v=v,
        a=a,
        symbols=tuple(sorted(given | made, key=lambda s: str(s.name))),
        gravity=sympy.ImmutableMatrix(gravity),
        columns=columns,
        standard=standard,
        _chain=replace(follow(algebra, table, q, gravity), standard=standard, v=v, a=a),
        _base=lambda: base_set(table, q, gravity, columns, lambda: expanded(())),
    )


def _symbols(stem: str, count: int) -> tuple[Any, ...]:
    sympy = load_sympy()
    return tuple(sympy.Symbol(f"{stem}{k}", real=True) for k in range(1, count + 1))


def _standard(table: Outline[Any], drives: bool) -> tuple[tuple[Any, ...], set[Any]]:
    """Return the standard parameters π, and those symbols among them that heft introduced."""
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
    bodies = [f"{link}.{name}" for link in table.links for name in inertia.SYMBOLS]
    names = DRIVE.values() if drives else ()
    return [*bodies, *(f"{joint}.{name}" for name in names for joint in table.joints)]


def _refuse_taken(symbols: set[Any], path: str) -> None:
    if symbols:
        raise InvalidModel(
            f"the symbol '{min(s.name for s in symbols)}' stands for a link or drive of which the "
            "file says nothing",
            argument=path,
            cure="give it another name, or give that link an [inertial]",
        )


def _ten(body: Body[Any]) -> list[Any]:
    """Return a body's ten parameters, symbolic counterpart of `inertia.from_body`."""
    m, (x, y, z) = body.mass, body.com
    away = (
        (y * y + z * z, -x * y, -x * z),
        (-x * y, x * x + z * z, -y * z),
        (-x * z, -y * z, x * x + y * y),
    )
    about = [(body.inertia[i][j] + m * away[i][j]).expand() for i, j in INERTIA_INDEX]
    return [m, *(m * c for c in body.com), *about]


def _parallel(table: Outline[Any], q: Sequence[Any]) -> list[Any]:
    """Return positions of revolute joints whose axis is parallel to a neighbour's."""
    parallel: set[int] = set()
    for k in range(1, len(table.rows)):
        between = table.rows[k if table.modified else k - 1].alpha
        if between.is_zero and not (table.rows[k].prismatic or table.rows[k - 1].prismatic):
            parallel |= {k - 1, k}
    return [q[k] for k in sorted(parallel)]
