"""Output of a derivation as text, LaTeX, or Python source that needs NumPy alone.

Up to `CLOSED` joints everything is written in closed form. For more joints the tensors U_ijk and
h_ikm are omitted, U_ij is written as T_0^i X_ij, and named subexpressions come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Literal

import numpy as np

from heft import __version__
from heft.models import load_sympy

from .lagrange import CLOSED, Derivation

Form = Literal["text", "latex", "numpy"]


def rendered(derivation: Derivation, form: Form) -> str:
    """Return a derivation as text."""
    return {"text": text, "latex": latex, "numpy": numpy_source}[form](derivation)


# --- for people

Equation = tuple[str, tuple[int, ...], Any]  # name, indices, value
Section = tuple[str, list[Equation]]  # title, equations


def _sections(d: Derivation) -> list[Section]:
    answers = [*_dynamics(d), *_linear(d), *_kinematics(d)]
    shown = [value for _, equations in answers for _, _, value in equations]
    named = d.needed([x for v in shown for x in (v if hasattr(v, "shape") else [v])])
    parts: list[Equation] = [(s.name, (), value) for s, value in named]
    return [*answers, ("Named parts, each made of those before it", parts)]


def _kinematics(d: Derivation) -> Iterator[Section]:
    n = range(1, len(d.joints) + 1)
    pairs = [(i, j) for i in n for j in range(1, i + 1)]
    steps = [("T", (i - 1, i), d.transforms[i - 1]) for i in n]
    places = [("T", (0, i), d.base_transforms[i - 1]) for i in n[1:]]
    yield "Frames: T_ij is frame j in frame i", [*steps, *places]
    if len(d.joints) > CLOSED:
        title = "Derivatives U_ij = dT_0i/dq_j = T_0i X_ij, and U_ijk = T_0i X_ij X_ik for j <= k"
        yield title, [("X", (i, j), d.twists[i - 1][j - 1]) for i, j in pairs]
        return
    first, second = d.derivatives, d.second_derivatives
    title = "Derivatives U_ij = dT_0i/dq_j, zero for j > i"
    yield title, [("U", (i, j), first[i - 1][j - 1]) for i, j in pairs]
    title = "Second derivatives U_ijk = dU_ij/dq_k = U_ikj, zero for j > i or k > i"
    triples = [(i, j, k) for i, j in pairs for k in range(j, i + 1)]
    yield title, [("U", (i, j, k), second[i - 1][j - 1][k - 1]) for i, j, k in triples]
    tensor = (_entries("h", d.velocity_tensor[i - 1], symmetric=True, first=(i,)) for i in n)
    title = "Velocity terms h_ikm, symmetric in k and m"
    yield title, [equation for entries in tensor for equation in entries]


def _dynamics(d: Derivation) -> Iterator[Section]:
    n = range(1, len(d.joints) + 1)
    friction = " + d" if d.drives else ""
    yield f"Equations of motion: tau = D ddq + h + C{friction}", _entries("tau", d.torque)
    yield "Inertia matrix D(q), symmetric", _entries("D", d.inertia_matrix, symmetric=True)
    yield "Velocity torque h(q, dq)", _entries("h", d.velocity_torque)
    yield "Gravity torque C(q), which holds the robot at rest", _entries("C", d.gravity_torque)
    title = "Coriolis matrix N: h = N dq, and dD/dt = N + N'"
    yield title, _entries("N", d.coriolis_matrix)
    if d.drives:
        yield "Friction d(dq)", _entries("d", d.friction)
    title = "Pseudo-inertias, about the origins of the links' frames"
    yield title, [("J", (i,), d.pseudo_inertias[i - 1]) for i in n]
    energies: list[Equation] = [("K", (), d.kinetic_energy), ("P", (), d.potential_energy)]
    yield "Kinetic and potential energy", energies


def _linear(d: Derivation) -> Iterator[Section]:
    yield "Regressor Y: Y pi = tau", _entries("Y", d.regressor)
    friction = " - d" if d.drives else ""
    yield f"W1: W1 pi = N' dq - C{friction}", _entries("W1", d.force_regressor)
    title = "W2: W2 pi = D dq, and d/dt(W2 pi) - W1 pi = tau"
    yield title, _entries("W2", d.momentum_regressor)
    parameters = enumerate(zip(d.columns, d.standard, strict=True), 1)
    yield "Parameters pi", [(f"pi{k}: {c}", (), v) for k, (c, v) in parameters]
    base = enumerate(d.base.expressions, 1)
    yield "Base parameters: all that motion can tell", [("beta", (k,), x) for k, x in base]


def _entries(
    name: str, matrix: Any, symmetric: bool = False, first: tuple[int, ...] = ()
) -> list[Equation]:
    """Return the nonzero entries of a matrix; of a symmetric one the upper triangle alone."""
    rows, columns = matrix.shape
    return [
        (name, (*first, i + 1, *((k + 1,) if columns > 1 else ())), matrix[i, k])
        for i in range(rows)
        for k in range(i if symmetric else 0, columns)
        if matrix[i, k] != 0
    ]


def _readable(expression: Any) -> Any:
    """Return an expression with its unwieldy fractions as decimals."""
    sympy = load_sympy()
    long = {x for x in expression.atoms(sympy.Rational) if x.q > 1000}
    return expression.xreplace({x: sympy.Float(x, 12) for x in long})  # digits


def text(derivation: Derivation) -> str:
    """Return a derivation as plain text; dq and ddq are joint velocities and accelerations."""
    lines = [f"{derivation.name}: {len(derivation.joints)} joints"]
    lines += ["Equations of motion first, the working (frames, derivatives) last; entries that are"]
    lines += ["not written are zero."]
    for title, equations in _sections(derivation):
        lines += ["", title, ""] if equations else []
        for name, indices, value in equations:
            sep = "" if all(k < 10 for k in indices) else "_"
            label = (
                name + ("_" if indices and name[-1].isdigit() else "") + sep.join(map(str, indices))
            )
            if not hasattr(value, "shape"):
                lines.append(f"  {label} = {_readable(value)}")
                continue
            cells = [[str(_readable(x)) for x in row] for row in value.tolist()]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            for k, row in enumerate(cells):
                head = f"{label} = " if k == 0 else " " * (len(label) + 3)
                body = "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
                lines.append(f"  {head}[ {body} ]")
    return "\n".join(lines)


def latex(derivation: Derivation) -> str:
    r"""Return a derivation as LaTeX to `\input`; it needs the package amsmath."""
    d, sympy = derivation, load_sympy()
    names: dict[Any, str] = {
        s: f"{dots}{{q}}_{{{k}}}" if dots else f"q_{{{k}}}"
        for dots, symbols in (("", d.q), (r"\dot", d.v), (r"\ddot", d.a))
        for k, s in enumerate(symbols, 1)
    }
    for column in d.columns:
        link, _, rest = column.name.partition(".")
        symbol, _, axes = rest.partition(".")
        symbol = symbol if len(symbol) == 1 else rf"\mathrm{{{symbol}}}"
        below = ",".join(x for x in (axes, rf"\mathrm{{{_escaped(link)}}}") if x)
        names[column] = f"{symbol}_{{{below}}}"
    greek = {"tau": r"\tau", "beta": r"\beta", "W1": "W_1", "W2": "W_2"}
    lines = [f"% {_escaped(d.name)}, derived by heft {__version__}; needs amsmath"]
    for title, equations in _sections(d):
        lines += [rf"\paragraph{{{_escaped(title)}}}"] if equations else []
        for name, indices, value in equations:
            below = "" if not indices else f"_{{{','.join(map(str, indices))}}}"
            if name.startswith("pi"):
                number, _, column = name.removeprefix("pi").partition(": ")
                label = rf"\pi_{{{number}}} = {names[sympy.Symbol(column, real=True)]}"
            elif not indices and "_" in name:
                label = sympy.latex(sympy.Symbol(name))
            else:
                label = f"{{{greek.get(name, name)}}}{below}"
            value_latex = sympy.latex(
                _readable(value), symbol_names=names, mat_str="bmatrix", mat_delim=""
            )
            lines += [r"\begin{equation*}", f"  {label} = {value_latex}", r"\end{equation*}"]
    return "\n".join(lines)


def _escaped(words: str) -> str:
    return re.sub(r"([%#&$_{}])", r"\\\1", re.sub(r"[\\^~\n]", " ", words))


# --- for programs

FUNCTIONS = {
    "inertia_matrix": ("q", "D(q), shape (..., n, n)"),
    "velocity_torque": ("qv", "h(q, v) of centrifugal and Coriolis torques, shape (..., n)"),
    "coriolis_matrix": ("qv", "N(q, v) with h = N v and dD/dt = N + N', shape (..., n, n)"),
    "gravity_torque": ("q", "C(q), which holds the robot at rest, shape (..., n)"),
    "friction": ("v", "d(v), shape (..., n); zero where drives were left out"),
    "torque": ("qva", "tau = D a + h + C + d, shape (..., n)"),
    "momentum": ("qv", "D v, shape (..., n)"),
    "kinetic_energy": ("qv", "K, shape (...)"),
    "potential_energy": ("q", "P, zero at the base's origin, shape (...)"),
    "regressor": ("qva", "Y with Y @ parameters(p) == torque, shape (..., n, columns)"),
    "force_regressor": ("qv", "W1 with W1 @ parameters(p) == N.T @ v - C - d"),
    "momentum_regressor": ("qv", "W2 with W2 @ parameters(p) == momentum"),
}
HEAD = '''"""Dynamics of {name}, derived by heft {version}. Needs NumPy alone.

q, v, a are positions, velocities and accelerations, arrays of shape (..., {n}); p holds the values
of PARAMETERS, in this order. COLUMNS name what the regressors' columns are factors of, KEPT
those of them that are independent, and base_matrix(p) groups all parameters on these:
Y @ pi == Y[..., KEPT] @ base_matrix(p) @ pi.
"""

import numpy

PARAMETERS = {parameters}
COLUMNS = {columns}
KEPT = {kept}


def _rows(x):
    return numpy.moveaxis(numpy.asarray(x, dtype=float), -1, 0)
'''


def numpy_source(derivation: Derivation) -> str:
    """Return a derivation as Python source that imports NumPy alone."""
    d = derivation
    head = HEAD.format(
        name=re.sub(r'["\\\n]', " ", d.name),
        version=__version__,
        n=len(d.joints),
        parameters=_tuple(repr(s.name) for s in d.symbols),
        columns=_tuple(repr(c.name) for c in d.columns),
        kept=list(d.base.kept),
    )
    parts = [head]
    for name, (arguments, says) in FUNCTIONS.items():
        parts.append(_function(d, name, arguments, says, getattr(d, name)))
    pi = load_sympy().Matrix(d.standard)
    parts.append(_function(d, "parameters", "", "pi, in the order of COLUMNS", pi))
    parts.append(_function(d, "base_matrix", "", "K, shape (len(KEPT), columns)", d.base.matrix))
    return "\n\n".join(parts)


def _tuple(entries: Iterator[str]) -> str:
    lines = "".join(f"\n    {entry}," for entry in entries)
    return f"({lines}\n)" if lines else "()"


def _function(d: Derivation, name: str, arguments: str, says: str, value: Any) -> str:
    from sympy.printing.numpy import NumPyPrinter

    sympy = load_sympy()
    printer = NumPyPrinter()
    shape: tuple[int, ...] = getattr(value, "shape", ())
    entries = list(value) if shape else [value]
    definitions = d.needed(entries)
    if not definitions:
        taken = {s.name for s in d.symbols}
        fresh = (sympy.Symbol(f"x{k}") for k in count() if f"x{k}" not in taken)
        definitions, entries = sympy.cse(entries, fresh)
    lines = [f"def {name}({', '.join([*arguments, 'p=()'])}):", f'    """Return {says}."""']
    coordinates = {"q": d.q, "v": d.v, "a": d.a}
    for argument in arguments:
        names = ", ".join(s.name for s in coordinates[argument])
        lines.append(f"    {names}, = _rows({argument})")
    if d.symbols:
        lines.append(f"    {', '.join(s.name for s in d.symbols)}, = p")
    lines += [f"    {s} = {printer.doprint(x)}" for s, x in definitions]
    shape = shape[:1] if shape[1:] == (1,) else shape
    # the file's own symbols may be called q, v or a: those are not looked at any more here
    before = f"numpy.shape({coordinates[arguments[0]][0]}) + " if arguments else ""
    lines.append(f"    out = numpy.zeros({before}{shape!r})")
    for k, entry in enumerate(entries):
        if entry != 0:
            place = [str(i) for i in np.unravel_index(k, shape)]
            lines.append(f"    out[{', '.join(['...', *place])}] = {printer.doprint(entry)}")
    return "\n".join([*lines, "    return out\n"])
