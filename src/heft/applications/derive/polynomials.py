"""Algebras for the sines, cosines and symbols of a derivation.

`Expanded` keeps polynomials over the rationals in a normal form (sin² = 1 − cos²): equal elements
have equal form, and zero is 0. Its results are closed forms, for robots with few joints. `Named`
introduces a symbol for every quantity that is used again, as programs do: its results are short
for any robot, and need `definitions`. Two more serve to find base parameters: `Constants`, a
field, and `Sampled`, random numbers modulo a prime in place of symbols.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Any

from heft.models import load_sympy

Pair = tuple[Any, Any]  # cosine and sine
Waves = dict[tuple[int, ...], Pair]  # factors of cos(n·q) and sin(n·q), by n


PRIME = 2**61 - 1


class Algebra(ABC):
    """Arithmetic of a derivation; its elements support addition and multiplication."""

    half: Any  # ½ as a factor of elements

    @property
    def definitions(self) -> tuple[tuple[Any, Any], ...]:
        """Symbols of named subexpressions with their values, each in terms of earlier ones."""
        return ()

    @abstractmethod
    def lift(self, expression: Any) -> Any:
        """Return the element of a SymPy expression."""

    def turn(self, angle: Any) -> Pair:
        """Return cosine and sine of a constant angle or a joint position."""
        sympy = load_sympy()
        return self.lift(sympy.cos(angle)), self.lift(sympy.sin(angle))

    def keep(self, name: str, element: Any) -> Any:
        """Return an element for repeated use: named, reduced or as it is."""
        return element

    @abstractmethod
    def expression(self, element: Any) -> Any:
        """Return the SymPy expression of an element."""


def atoms_of(expression: Any) -> set[Any]:
    """Return the generators of a polynomial expression: symbols and non-polynomial functions."""
    if expression.is_Rational:
        return set()
    if expression.is_Add or expression.is_Mul:
        return set().union(*map(atoms_of, expression.args))
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        return atoms_of(expression.base)
    return {expression}


def _oblique(angles: Iterable[Any]) -> list[Any]:
    """Return angles whose cosine and sine are not both rational, each once, without its sign."""
    sympy = load_sympy()
    oblique: dict[Any, None] = {}
    for angle in angles:
        if not (sympy.cos(angle).is_Rational and sympy.sin(angle).is_Rational):
            oblique[-angle if angle.could_extract_minus_sign() else angle] = None
    return list(oblique)


class Expanded(Algebra):
    """Polynomials over the rationals, in normal form.

    Args:
        constants: Expressions of constants that will be lifted.
        turning: Positions of the revolute joints.
        variables: Further symbols that will be lifted.
        parallel: Those of `turning` whose axes have a parallel neighbour. Products of their sines
            and cosines are written as sines and cosines of sums where that is shorter.
    """

    def __init__(
        self,
        constants: Iterable[Any],
        angles: Iterable[Any],
        turning: Sequence[Any],
        variables: Sequence[Any],
        parallel: Sequence[Any],
    ) -> None:
        sympy = load_sympy()
        from sympy.polys.rings import PolyRing

        self.angles = [*turning, *_oblique(angles)]
        made = set().union(*map(atoms_of, constants))
        pairs = [f(angle) for angle in self.angles for f in (sympy.cos, sympy.sin)]
        others = sorted(made - {*pairs, *variables}, key=sympy.default_sort_key)
        self.atoms = [*pairs, *others, *variables]
        self.changing = frozenset({2 * k for k in range(len(turning))}) | {
            *(2 * k + 1 for k in range(len(turning))),
            *(self.atoms.index(x) for x in variables),
        }
        self.parallel = [self.angles.index(q) for q in parallel]
        names = [f"x{k}" for k in range(len(self.atoms))]
        self.ring = PolyRing(names, sympy.QQ, sympy.lex)
        self.half = sympy.QQ(1, 2)
        self._element = dict(zip(self.atoms, self.ring.gens, strict=True))

    def lift(self, expression: Any) -> Any:
        """Return the polynomial of a SymPy expression."""
        if expression.is_Rational:
            return self.ring.ground_new(self.ring.domain.from_sympy(expression))
        if expression in self._element:
            return self._element[expression]
        if expression.is_Pow:
            return self.lift(expression.base) ** int(expression.exp)
        parts = [self.lift(part) for part in expression.args]
        total = parts[0]
        for part in parts[1:]:
            total = total + part if expression.is_Add else total * part
        return total

    def keep(self, name: str, element: Any) -> Any:
        """Return the polynomial in normal form; the name is not used."""
        return self.reduced(element)

    def reduced(self, element: Any) -> Any:
        """Return a polynomial with each sin² written as 1 − cos²."""
        for cos in range(0, 2 * len(self.angles), 2):
            sin = cos + 1
            if not any(monomial[sin] > 1 for monomial in element):
                continue
            terms: dict[tuple[int, ...], Any] = {}
            for monomial, factor in element.items():
                squares, odd = divmod(monomial[sin], 2)
                for k in range(squares + 1):
                    new = list(monomial)
                    new[sin], new[cos] = odd, monomial[cos] + 2 * k
                    key = tuple(new)
                    terms[key] = terms.get(key, 0) + factor * comb(squares, k) * (-1) ** k
            element = self.ring.from_dict({m: f for m, f in terms.items() if f})
        return element

    def by_motion(self, element: Any) -> dict[tuple[int, ...], Any]:
        """Return a polynomial by monomials in the motion variables, with constant coefficients."""
        parts: dict[tuple[int, ...], Any] = {}
        for monomial, factor in self.reduced(element).items():
            moving = tuple(e if k in self.changing else 0 for k, e in enumerate(monomial))
            still = tuple(e - f for e, f in zip(monomial, moving, strict=True))
            before = parts.get(moving, self.ring.zero)
            parts[moving] = before + self.ring.from_dict({still: factor})
        return parts

    def expression(self, element: Any) -> Any:
        """Return the SymPy expression of a polynomial."""
        sympy = load_sympy()
        shared = [x for k in self.parallel for x in (2 * k, 2 * k + 1)]
        factors: dict[tuple[int, ...], dict[tuple[int, ...], Any]] = {}
        for monomial, factor in self.reduced(element).items():
            rest = tuple(0 if k in shared else e for k, e in enumerate(monomial))
            factors.setdefault(rest, {})[tuple(monomial[k] for k in shared)] = factor
        terms = []
        for rest, trigonometric in factors.items():
            before = sympy.Mul(*(a**e for a, e in zip(self.atoms, rest, strict=True) if e))
            products = [
                sympy.Mul(to(f), *(self.atoms[k] ** e for k, e in zip(shared, m, strict=True)))
                for m, f in trigonometric.items()
            ]
            sums = self.of_sums(trigonometric) if shared else products
            shorter = sums if len(sums) <= len(products) else products
            terms += [before * term for term in shorter]
        return sympy.Add(*terms)

    def of_sums(self, polynomial: Mapping[tuple[int, ...], Any]) -> list[Any]:
        """Return a polynomial in parallel joints' sines and cosines as terms of angle sums."""
        sympy = load_sympy()
        total: Waves = {}
        for exponents, factor in polynomial.items():
            waves: Waves = {(0,) * len(self.parallel): (factor, 0 * factor)}
            for k in range(len(self.parallel)):
                for _ in range(exponents[2 * k]):
                    waves = _times_wave(waves, k, sine=False)
                for _ in range(exponents[2 * k + 1]):
                    waves = _times_wave(waves, k, sine=True)
            for orders, (cos, sin) in waves.items():
                before = total.get(orders, (0 * factor, 0 * factor))
                total[orders] = before[0] + cos, before[1] + sin
        terms = []
        for orders, (cos, sin) in total.items():
            angle = sympy.Add(
                *(n * self.angles[k] for n, k in zip(orders, self.parallel, strict=True))
            )
            terms += [to(cos) * sympy.cos(angle)] if cos else []
            terms += [to(sin) * sympy.sin(angle)] if sin else []
        return terms


def to(number: Any) -> Any:
    """Return a rational number of the ring as a SymPy rational."""
    return load_sympy().Rational(int(number.numerator), int(number.denominator))


def _times_wave(waves: Waves, k: int, sine: bool) -> Waves:
    """Multiply Σ a cos(n·q) + b sin(n·q) with the cosine or the sine of q_k."""
    product: Waves = {}
    for orders, (cos, sin) in waves.items():
        for step in (1, -1):
            new = (*orders[:k], orders[k] + step, *orders[k + 1 :])
            # cos n sin q = ½ sin(n + q) − ½ sin(n − q), sin n sin q = ½ cos(n − q) − ½ cos(n + q)
            a, b = (-step * sin / 2, step * cos / 2) if sine else (cos / 2, sin / 2)
            first = next((n for n in new if n), 1)
            if first < 0:  # cos(−n) = cos n, sin(−n) = −sin n
                new, b = tuple(-n for n in new), -b
            before = product.get(new, (0 * cos, 0 * cos))
            product[new] = before[0] + a, before[1] + b
    return product


class Named(Algebra):
    """Expressions with a symbol for each subexpression that is used again."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.half = load_sympy().Rational(1, 2)
        self._taken = set(taken)
        self._symbols: dict[Any, Any] = {}  # by value, in order

    @property
    def definitions(self) -> tuple[tuple[Any, Any], ...]:
        """Symbols of named subexpressions with their values, each in terms of earlier ones."""
        return tuple((symbol, value) for value, symbol in self._symbols.items())

    def lift(self, expression: Any) -> Any:
        """Return the expression as it is."""
        return expression

    def turn(self, angle: Any) -> Pair:
        """Return cosine and sine of a constant angle or a joint position."""
        sympy = load_sympy()
        cos, sin = sympy.cos(angle), sympy.sin(angle)
        if cos.is_Rational and sin.is_Rational:
            return cos, sin
        name = str(angle) if angle.is_Symbol else f"angle{len(self._symbols)}"
        return self.keep(f"cos_{name}", cos), self.keep(f"sin_{name}", sin)

    def keep(self, name: str, element: Any) -> Any:
        """Return the symbol of a value; numbers and symbols are returned as they are.

        Equal values have one symbol, opposite ones its negative.
        """
        value = load_sympy().sympify(element)
        if value.is_Atom or (-value).is_Atom:
            return value
        if value in self._symbols:
            return self._symbols[value]
        if -value in self._symbols:
            return -self._symbols[-value]
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._symbols[value] = load_sympy().Symbol(name, real=True)
        return self._symbols[value]

    def expression(self, element: Any) -> Any:
        """Return the expression, its products written out."""
        return load_sympy().sympify(element).expand()


class Constants(Algebra):
    """Field of rational functions of constants, in which linear equations can be solved exactly.

    Cosine and sine of a constant angle are rational in the tangent of its half; for a numerical
    angle the tangent is rounded to `DIGITS` digits.
    """

    def __init__(self, expressions: Iterable[Any], angles: Iterable[Any]) -> None:
        sympy = load_sympy()
        self._pairs: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}
        self._tangents: dict[Any, Any] = {}
        for angle in _oblique(angles):
            cos, sin = sympy.cos(angle), sympy.sin(angle)
            if angle.is_number:
                t = sympy.Rational(str(sympy.tan(angle / 2).evalf(30)))  # digits
            else:
                t = sympy.Dummy(f"t{len(self._tangents)}")
                self._tangents[t] = angle
            self._pairs[cos] = (1 - t**2) / (1 + t**2)
            self._pairs[sin] = 2 * t / (1 + t**2)
        made = set().union(*map(atoms_of, expressions)) - set(self._pairs)
        atoms = sorted(made, key=sympy.default_sort_key)
        plain = {x: x if x.is_Symbol else sympy.Dummy(f"x{k}") for k, x in enumerate(atoms)}
        self._pairs |= plain
        self._back |= {d: x for x, d in plain.items() if x != d}
        names = [*self._tangents, *plain.values()]
        self.field = sympy.QQ.frac_field(*dict.fromkeys(names)) if names else sympy.QQ
        self.half = self.field.convert(sympy.QQ(1, 2))

    def lift(self, expression: Any) -> Any:
        """Return the element of an expression."""
        return self.field.from_sympy(load_sympy().sympify(expression).xreplace(self._pairs))

    def expression(self, element: Any) -> Any:
        """Return the expression of an element."""
        sympy = load_sympy()
        made = self.field.to_sympy(element)
        if not {*self._back, *self._tangents} & made.free_symbols:
            return made
        for t, angle in self._tangents.items():
            if t in made.free_symbols:
                cos, sin = sympy.Dummy(), sympy.Dummy()
                top, bottom = sympy.fraction(sympy.cancel(made.subs(t, sin / (1 + cos))))
                unit = sin**2 + cos**2 - 1
                made = sympy.cancel(sympy.rem(top, unit, sin) / sympy.rem(bottom, unit, sin))
                made = made.xreplace({cos: sympy.cos(angle), sin: sympy.sin(angle)})
        return sympy.trigsimp(made.xreplace(self._back))


class Sampled(Algebra):
    """Integers modulo a prime, drawn at random for each symbol.

    An expression that is zero for a draw is identically zero, but for a probability of about 1e-15.

    Args:
        moving: Symbols with a new value in each draw; others keep theirs.
    """

    def __init__(self, moving: Iterable[Any], draw: int) -> None:
        self.field = load_sympy().GF(PRIME, symmetric=False)
        self.half = self.field(1) / self.field(2)
        self._moving, self._draw_number = set(moving), draw

    def _draw(self, atom: Any) -> Any:
        number = self._draw_number if atom.free_symbols & self._moving else 0
        digest = hashlib.sha256(f"{atom} {number}".encode()).digest()
        return self.field(int.from_bytes(digest[:16], "big") % PRIME)

    def lift(self, expression: Any) -> Any:
        """Return the number of an expression."""
        if expression.is_Rational:
            return self.field(int(expression.p)) / self.field(int(expression.q))
        if expression.is_Add or expression.is_Mul:
            first, *others = map(self.lift, expression.args)
            for other in others:
                first = first + other if expression.is_Add else first * other
            return first
        if expression.is_Pow and expression.exp.is_Integer:
            return self.lift(expression.base) ** int(expression.exp)
        if isinstance(expression, load_sympy().cos | load_sympy().sin):
            return self.turn(expression.args[0])[isinstance(expression, load_sympy().sin)]
        return self._draw(expression)

    def turn(self, angle: Any) -> Pair:
        """Return two numbers with c² + s² = 1, or cosine and sine of a constant if rational."""
        sympy = load_sympy()
        cos, sin = sympy.cos(angle), sympy.sin(angle)
        if cos.is_Rational and sin.is_Rational:
            return self.lift(cos), self.lift(sin)
        t, one = self._draw(angle), self.field(1)
        return (one - t * t) / (one + t * t), (t + t) / (one + t * t)

    def expression(self, element: Any) -> Any:
        """Return the number."""
        return load_sympy().Integer(int(element))


def solved(
    rows: Sequence[Mapping[int, Any]], order: Sequence[int], field: Any
) -> dict[int, dict[int, Any]]:
    """Return the reduced row echelon form of a matrix, exactly.

    Args:
        order: Order in which columns are tried as pivots, a permutation of all.

    Returns:
        By pivot column, the other entries of its row.
    """
    from sympy.polys.matrices import DomainMatrix

    place = {column: k for k, column in enumerate(order)}
    distinct = {}
    for row in rows:
        line = {place[c]: x for c, x in row.items() if x}
        if line:
            lead = line[min(line)]
            line = {c: line[c] / lead for c in sorted(line)}
            distinct[tuple(line.items())] = line
    table = dict(enumerate(distinct.values()))
    reduced, pivots = DomainMatrix(table, (len(table), len(order)), field).rref()
    made: dict[int, dict[int, Any]] = {order[p]: {} for p in pivots}
    for (r, c), x in reduced.to_dok().items():
        if c != pivots[r]:
            made[order[pivots[r]]][order[c]] = x
    return made
