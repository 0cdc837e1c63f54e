"""Robot models as tables of Denavit-Hartenberg parameters, in a TOML file.

Rows are `[a, alpha, d, theta, kind]`; lengths in m, angles in rad. With the *modified*
convention [Craig1986; Khalil1986] row i goes from frame i−1 to frame i by
`Rx(alpha) Tx(a) Rz(theta) Tz(d)` and joint i turns about z of frame i; with the *standard* one
[Denavit1955; Paul1981] by `Rz(theta) Tz(d) Tx(a) Rx(alpha)` and joint i turns about z
of frame i−1. A revolute joint's position is added to theta, a prismatic one's to d. Link i is
what frame i is fixed to, and its inertial is stated in frame i.

Numbers may be symbols where a table is derived from: expressions such as `"m1*L1**2/3"`, `"-pi/2"`
hold numbers, names, `+ - * / **`, parentheses, `pi` and `sin cos sqrt`. They are parsed by
Python's own parser and built from the syntax tree: nothing in them is executed, and expressions
that would grow without bound are refused. Numbers are exact decimals as written, and angles within
1e-9 of a multiple of a right angle are that multiple.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Generic

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel, InvalidSetting, optional_library, require_one_of, shown
from heft.files import (
    LARGEST_NUMBER,
    Keys,
    Reader,
    Scalar,
    Section,
    Text,
    list_of,
    located,
    name_list,
    named,
    number,
    rows_of,
    visible_texts,
)
from heft.information import inertia, matrix_of_rpy

from . import urdf

BASE = "base"
NOT_A_TENSOR = "the inertia is not a symmetric 3×3 matrix"
LONGEST = 200  # characters of an expression
GROWTH = 48  # factors of its longest product, written out; keeps powers of powers small
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Row(Generic[Scalar]):
    """Denavit-Hartenberg parameters of one joint."""

    a: Scalar  # translation along x [m]
    alpha: Scalar  # rotation about x [rad]
    d: Scalar  # translation along z [m]
    theta: Scalar  # rotation about z [rad]
    prismatic: bool  # whether the joint slides along z; it turns about z if not


@dataclass(frozen=True)
class Body(Generic[Scalar]):
    """Mass, centre of mass and inertia of a link, in its own frame."""

    mass: Scalar  # [kg]
    com: tuple[Scalar, Scalar, Scalar]  # centre of mass [m]
    inertia: tuple[tuple[Scalar, ...], ...]  # about the centre of mass [kg·m²]


@dataclass(frozen=True)
class Outline(Generic[Scalar]):
    """Content of a Denavit-Hartenberg file, its scalars either numbers or expressions."""

    name: str  # the robot's name
    modified: bool  # whether rows follow the modified convention; the standard one if not
    rows: tuple[Row[Scalar], ...]  # from the base outwards
    joints: tuple[str, ...]  # their names
    links: tuple[str, ...]  # names of the links that they move
    bodies: Mapping[str, Body[Scalar]]  # inertials by link, where the file states them
    gravity: tuple[Scalar, Scalar, Scalar] | None  # in the base's frame [m/s²]


@dataclass(frozen=True)
class Table:
    """Robot of Denavit-Hartenberg rows with numeric parameters."""

    content: Outline[float]  # content of the file
    # ten inertial parameters by link, in the link's frame, shape (10,)
    nominal: Mapping[str, Array]

    def translate(self, free: bool, path: str) -> urdf.Translation:
        """Return the robot as a URDF.

        In the standard convention a joint's frame is the one before its link's; auxiliary links
        called `<link>@<joint>` are placed there.

        Raises:
            InvalidModel: If a floating base is requested, which a table cannot have.
        """
        if free:
            raise InvalidModel(
                "a table of Denavit-Hartenberg rows has no floating base",
                argument=path,
                cure="describe the robot in a URDF",
            )
        content = self.content
        links = [urdf.link_text(BASE)]
        joints, aids = [], []
        above = BASE
        for row, joint, link in zip(content.rows, content.joints, content.links, strict=True):
            about_z = matrix_of_rpy(0.0, 0.0, row.theta)
            about_x = matrix_of_rpy(row.alpha, 0.0, 0.0)
            along_x, along_z = np.array([row.a, 0.0, 0.0]), np.array([0.0, 0.0, row.d])
            kind = "prismatic" if row.prismatic else "continuous"
            z = np.array([0.0, 0.0, 1.0])
            links.append(urdf.link_text(link, self.nominal.get(link)))
            if content.modified:
                place = along_x + about_x @ along_z
                joints.append(urdf.Joint(joint, kind, above, link, about_x @ about_z, place, z))
            else:
                aid = f"{link}@{joint}"
                aids.append(aid)
                links.append(urdf.link_text(aid))
                joints += [
                    urdf.Joint(joint, kind, above, aid, about_z, along_z, z),
                    urdf.Joint(f"{link}@{aid}", "fixed", aid, link, about_x, along_x),
                ]
            above = link
        text = urdf.robot_text(content.name, links, joints)
        printed = [angle for row in content.rows for angle in (row.alpha, row.theta)]
        error = urdf.printed_angle_error(printed)
        return urdf.Translation(text, frozenset(aids), gravity=content.gravity, angle_error=error)


def read(data: bytes, path: str) -> Table:
    """Return the robot that a TOML file's bytes state by Denavit-Hartenberg rows.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    content = outline(data, path, number, require_possible)
    nominal = {
        name: inertia.from_body(body.mass, np.array(body.com), np.array(body.inertia))
        for name, body in content.bodies.items()
    }
    return Table(content, nominal)


def outline(
    data: bytes,
    path: str,
    scalar: Reader[Scalar],
    require: Callable[[Row[Scalar] | Body[Scalar]], None],
) -> Outline[Scalar]:
    """Return the content of a TOML file's bytes, its scalars read by a given function.

    Args:
        scalar: Reads an entry that stands for a number; it may raise `InvalidSetting`.
        require: Checks a row or a body that was read; it may raise `InvalidSetting`.

    Raises:
        InvalidModel: If it is no TOML, or no such table; naming the key and the row.
    """
    row = partial(_row, scalar, require)
    body: Keys = {"mass": scalar, "com": list_of(scalar, 3), "inertia": rows_of(scalar)}
    bodies = named(Section(partial(_body, require), body), "[inertial.NAME] tables are expected")
    link: Keys = {
        "convention": _convention,
        "table": list_of(row, of="rows", entry=", row "),
        "joints": name_list,
        "names": name_list,
    }
    robot: Keys = {
        "name": Text("a name is expected"),
        "gravity": list_of(scalar, 3),
        "link": Section(_links, link, required=("convention", "table")),
        "inertial": bodies,
    }
    try:
        table = dict(visible_texts(tomllib.loads(data.decode("utf-8-sig"))))
        if "link" not in table and ("joint" in table or "coupling" in table or "limits" in table):
            raise InvalidSetting(
                "this TOML holds options, not a robot",
                argument=path,
                cure="give a model file first, and this one behind --with",
            )
        if not isinstance(table.get("link"), Mapping):
            raise InvalidSetting(
                "a robot in a TOML is a [link] table of Denavit-Hartenberg rows",
                argument=path,
                expected="[link] with convention and table",
            )
        return Section(_robot, robot)(table, path)
    except InvalidSetting as problem:
        raise problem.retold(InvalidModel, problem.argument) from None
    except (ValueError, RecursionError) as problem:  # also TOMLDecodeError, UnicodeDecodeError
        raise InvalidModel("this is not a TOML file", argument=path, got=str(problem)) from None


def require_possible(part: Row[float] | Body[float]) -> None:
    """Raise `InvalidSetting` if a row or an inertial has implausible numbers.

    Raises:
        InvalidSetting: If an angle exceeds a turn, a number is beyond what moving things have, a
            mass is negative, or an inertia is no symmetric tensor.
    """
    if isinstance(part, Row):
        if max(abs(part.alpha), abs(part.theta)) > 6.5:  # [rad]: more is a table in degrees
            raise InvalidSetting(
                "an angle is more than a turn",
                got=max(part.alpha, part.theta, key=abs),
                expected="radians",
                cure="write 1.5707963267948966 for 90 degrees",
            )
        _require_bounded(np.array([part.a, part.d]))
        return
    if part.mass < 0.0:
        raise InvalidSetting("a mass is negative", argument="mass", got=part.mass)
    tensor = np.array(part.inertia)
    _require_bounded(np.array([part.mass, *part.com, *tensor.flat]))
    scale = float(np.abs(tensor).max())
    if not math.isclose(float(np.abs(tensor - tensor.T).max()), 0.0, abs_tol=1e-9 * scale):
        raise InvalidSetting(NOT_A_TENSOR, argument="inertia", got=shown(tensor.tolist()))


def _require_bounded(values: Array) -> None:
    if np.abs(values).max() > LARGEST_NUMBER:
        raise InvalidSetting(
            "a number is beyond anything that moves",
            got=float(np.abs(values).max()),
            expected=f"at most {LARGEST_NUMBER:g}",
        )


def _robot(
    link: Mapping[str, Any],
    name: str = "robot",
    gravity: tuple[Any, Any, Any] | None = None,
    inertial: Mapping[str, Body[Any]] | None = None,
) -> Outline[Any]:
    bodies = inertial or {}
    for name_of in bodies:
        message = f"the robot has no link '{name_of}'"
        require_one_of(name_of, link["links"], message, f"[inertial.{name_of}]")
    return Outline(name=name, gravity=gravity, bodies=bodies, **link)


def _links(
    convention: str,
    table: tuple[Row[Any], ...],
    joints: tuple[str, ...] | None = None,
    names: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    if not table:
        raise InvalidSetting("a list of rows is expected", argument="table")
    for key, given in (("joints", joints), ("names", names)):
        if given is not None and (len(given) != len(table) or not all(n.strip() for n in given)):
            raise InvalidSetting(
                "one name a row is expected",
                argument=key,
                got=f"{len(given)} for {len(table)} rows",
            )
    numbers = range(1, len(table) + 1)
    joints = joints or tuple(f"joint{k}" for k in numbers)
    links = names or tuple(f"link{k}" for k in numbers)
    if BASE in links:
        raise InvalidSetting(f"'{BASE}' is what the first joint stands on", argument="names")
    return {"modified": convention == "modified", "rows": table, "joints": joints, "links": links}


def _convention(value: object, where: str) -> str:
    says = "the convention of the rows is not said" if value is None else "unknown convention"
    cure = "modified (Craig): joint i turns about z of frame i; standard: of frame i-1"
    return Text(says, ("modified", "standard"), cure=cure)(value, where)


def _row(
    scalar: Reader[Scalar], require: Callable[[Row[Scalar]], None], value: object, where: str
) -> Row[Scalar]:
    if not isinstance(value, list) or len(value) != 5:
        raise InvalidSetting(
            "a row is not [a, alpha, d, theta, kind]", argument=where, got=shown(value)
        )
    a, alpha, d, theta = list_of(scalar)(value[:4], where)
    kind = Text("a joint is neither revolute nor prismatic", ("revolute", "prismatic"))(
        value[4], where
    )
    row = Row(a, alpha, d, theta, kind == "prismatic")
    with located(where):
        require(row)
    return row


def _body(require: Callable[[Body[Any]], None], **stated: Any) -> Body[Any]:
    for key in ("mass", "com", "inertia"):
        if key not in stated:
            raise InvalidSetting(f"{key} is missing", valid=("mass", "com", "inertia"))
    if [len(row) for row in stated["inertia"]] != [3, 3, 3]:
        raise InvalidSetting(NOT_A_TENSOR, argument="inertia", got=shown(stated["inertia"]))
    body = Body(**stated)
    require(body)
    return body


def load_sympy() -> ModuleType:
    """Return the module SymPy, which is an optional dependency.

    Raises:
        InvalidSetting: If it is not installed.
    """
    message = "a derivation needs the library 'sympy', which is not installed"
    return optional_library("sympy", message, "symbolic")


def expression(value: object, where: str) -> Any:
    """Return a number or the text of an expression as a SymPy expression.

    Raises:
        InvalidSetting: If it is neither, naming the part that is not understood.
    """
    sympy = load_sympy()
    if not isinstance(value, str):
        return sympy.Rational(str(number(value, where)))
    if len(value) > LONGEST:
        raise InvalidSetting(
            "the expression is too long", argument=where, expected=f"at most {LONGEST} characters"
        )
    try:
        value.encode("ascii")  # Python would take other scripts' letters and digits for these
        parsed = ast.parse(value.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise InvalidSetting(
            "this is neither a number nor an expression", argument=where, got=shown(value)
        ) from None
    return _Expression(sympy, value.strip(), where).read(parsed)[0]


def right_angle(angle: Any) -> Any:
    """Return k·π/2 for a decimal angle [rad] that equals it but for rounding; else the angle."""
    sympy = load_sympy()
    if not angle.is_Rational:
        return angle
    turns = round(float(angle) / (math.pi / 2))
    # A decimal may be off by so many radians.
    return sympy.pi * turns / 2 if abs(float(angle) - turns * math.pi / 2) < 1e-9 else angle


def require_sensible(part: Row[Any] | Body[Any]) -> None:
    """Raise `InvalidSetting` if a symbolic row or inertial is implausible, where it has numbers.

    Raises:
        InvalidSetting: As `require_possible`, or if an inertia is symbolically asymmetric.
    """

    def size(x: Any) -> float:
        return float(x) if x.is_number else 0.0

    if isinstance(part, Row):
        a, alpha, d, theta = map(size, (part.a, part.alpha, part.d, part.theta))
        require_possible(Row(a, alpha, d, theta, part.prismatic))
        return
    for i in range(3):
        for j in range(i):
            if not (part.inertia[i][j] - part.inertia[j][i]).expand().is_number:
                raise InvalidSetting(
                    NOT_A_TENSOR,
                    argument="inertia",
                    got=f"{part.inertia[i][j]} and {part.inertia[j][i]}",
                )
    x, y, z = map(size, part.com)
    tensor = tuple(tuple(map(size, row)) for row in part.inertia)
    require_possible(Body(size(part.mass), (x, y, z), tensor))


class _Expression:
    """Builds a SymPy expression from Python's syntax tree."""

    def __init__(self, sympy: ModuleType, text: str, where: str) -> None:
        self.sympy, self.text, self.where = sympy, text, where

    def refuse(self, message: str, got: str | None = None) -> InvalidSetting:
        return InvalidSetting(
            message,
            argument=self.where,
            got=shown(self.text) if got is None else got,
            expected="numbers, names, + - * / **, pi, sin, cos, sqrt",
        )

    def read(self, node: ast.expr) -> tuple[Any, int]:
        """Return the expression of a node, and how many factors it can grow to."""
        value, growth = self.combine(node)
        if growth > GROWTH:
            raise self.refuse("the expression grows too large")
        if value.is_number and not (value.is_real and abs(value) <= LARGEST_NUMBER):
            raise self.refuse("a part of the expression is no finite number")
        return value, growth

    def combine(self, node: ast.expr) -> tuple[Any, int]:
        sympy = self.sympy
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                number(value, self.where)  # in size
                written = ast.get_source_segment(self.text, node) or ""
                # Python also takes 1_0 and 0x10; with more digits, 10 to its power has millions.
                if not re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?", written, re.ASCII):
                    raise self.refuse("this is no decimal number", written)
                return sympy.Rational(written), 1
            case ast.Name(id="pi"):
                return sympy.pi, 1
            case ast.Name(id=name):
                return self.symbol(name), 1
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value, growth = self.read(operand)
                return -value, growth
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.read(operand)
            case ast.Call(func=ast.Name(id="sin" | "cos" | "sqrt" as name), args=[argument]):
                if node.keywords:
                    raise self.refuse("a part of the expression is not known")
                value, growth = self.read(argument)
                return getattr(sympy, name)(right_angle(value)), growth
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                (base, growth), (exponent, _) = self.read(left), self.read(right)
                if not exponent.is_Rational or exponent.q > 2 or not 0 < abs(exponent) <= GROWTH:
                    raise self.refuse("an exponent is not a small whole or half number")
                if base.is_zero and exponent < 0:
                    raise self.refuse("a division by zero")
                if base.is_negative and exponent.q == 2:
                    raise self.refuse("a root of a negative number")
                growth *= math.ceil(abs(exponent))
                if growth > GROWTH:  # before it is worked out
                    raise self.refuse("the expression grows too large")
                return base**exponent, growth
            case ast.BinOp(left=left, op=op, right=right):
                (first, one), (second, other) = self.read(left), self.read(right)
                match op:
                    case ast.Add():
                        return first + second, one + other
                    case ast.Sub():
                        return first - second, one + other
                    case ast.Mult():
                        return first * second, one + other
                    case ast.Div() if second.is_zero:
                        raise self.refuse("a division by zero")
                    case ast.Div():
                        return first / second, one + other
        raise self.refuse("a part of the expression is not known", ast.unparse(node))

    def symbol(self, name: str) -> Any:
        if not NAME.fullmatch(name) or keyword.iskeyword(name):
            raise self.refuse("this is no name of a symbol", name)
        # What the derivation itself writes: joints' positions, speeds, accelerations, its code.
        if re.fullmatch(r"(q|dq|ddq)\d*|p|out|pi|sin|cos|sqrt|sign|nan|inf|numpy", name):
            raise self.refuse("this name means something else in a derivation", name)
        return self.sympy.Symbol(name, real=True)
