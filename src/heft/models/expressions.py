"""Symbolic numbers of a model file, written as expressions: `"m1*L1**2/3"`, `"-pi/2"`.

An expression holds numbers, names, `+ - * / **`, parentheses, `pi` and `sin cos sqrt`. It is
parsed by Python's own parser and built from the syntax tree: nothing in it is executed, and
expressions that would grow without bound are refused. Numbers are exact decimals as written, and
angles within 1e-9 of a multiple of a right angle are that multiple.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from types import ModuleType
from typing import Any

from heft.errors import InvalidSetting, install, shown
from heft.files import LARGEST_NUMBER, number

from .denavit_hartenberg import NOT_A_TENSOR, Body, Row, require_possible

LONGEST = 200  # characters of an expression
GROWTH = 48  # factors of its longest product, written out; keeps powers of powers small
RIGHT_ANGLE = 1e-9  # [rad] from which a decimal may be off
# Python also takes 1_0 and 0x10; an exponent of more digits would be a number of millions.
DECIMAL = re.compile(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
# What the derivation itself writes: joints' positions, speeds, accelerations, and its code.
RESERVED = re.compile(r"(q|dq|ddq)\d*|p|out|pi|sin|cos|sqrt|sign|nan|inf|numpy")


def load_sympy() -> ModuleType:
    """Return the module SymPy, which is an optional dependency.

    Raises:
        InvalidSetting: If it is not installed.
    """
    try:
        import sympy
    except ImportError as problem:
        raise InvalidSetting(
            "a derivation needs the library 'sympy', which is not installed",
            cure=install("symbolic"),
        ) from problem
    return sympy  # type: ignore[no-any-return]


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
    return _Reader(sympy, value.strip(), where).read(parsed)[0]


def right_angle(angle: Any) -> Any:
    """Return k·π/2 for a decimal angle [rad] that equals it but for rounding; else the angle."""
    sympy = load_sympy()
    if not angle.is_Rational:
        return angle
    turns = round(float(angle) / (math.pi / 2))
    return sympy.pi * turns / 2 if abs(float(angle) - turns * math.pi / 2) < RIGHT_ANGLE else angle


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


class _Reader:
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
        found, growth = self.combine(node)
        if growth > GROWTH:
            raise self.refuse("the expression grows too large")
        if found.is_number and not (found.is_real and abs(found) <= LARGEST_NUMBER):
            raise self.refuse("a part of the expression is no finite number")
        return found, growth

    def combine(self, node: ast.expr) -> tuple[Any, int]:
        sympy = self.sympy
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                number(value, self.where)  # in size
                written = ast.get_source_segment(self.text, node) or ""
                if not DECIMAL.fullmatch(written):
                    raise self.refuse("this is no decimal number", written)
                return sympy.Rational(written), 1
            case ast.Name(id="pi"):
                return sympy.pi, 1
            case ast.Name(id=name):
                return self.symbol(name), 1
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                found, growth = self.read(operand)
                return -found, growth
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.read(operand)
            case ast.Call(func=ast.Name(id="sin" | "cos" | "sqrt" as name), args=[argument]):
                if node.keywords:
                    raise self.refuse("a part of the expression is not known")
                found, growth = self.read(argument)
                return getattr(sympy, name)(right_angle(found)), growth
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
        if RESERVED.fullmatch(name):
            raise self.refuse("this name means something else in a derivation", name)
        return self.sympy.Symbol(name, real=True)
