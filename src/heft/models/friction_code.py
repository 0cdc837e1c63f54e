"""Identified friction as dependency-free code: one file of Python, one of C.

A drive of position x and speed w, both summed over the joints that it moves, takes the effort

    Σ value · f(x, w)

which acts on those joints by the same ratios (virtual work); each term defines its own f
(`dynamics.drives`). Presliding is z ← clip(z + Δx, −width, +width), Δx since the last call, and
z = 0 at the first. Both files have the same numbers in the same order of operations, so they
differ by no more than their libraries' tanh.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Any

from heft import __version__
from heft.dynamics import TERMS, Term, make_term
from heft.errors import InputError, InvalidSetting


@dataclass(frozen=True)
class _Drive:
    name: str
    moves: tuple[tuple[int, float], ...]  # position of a joint, speed per speed of that joint
    terms: tuple[tuple[Term, float], ...]  # and their values


def _exported() -> list[type[Term]]:
    return [kind for kind in TERMS.values() if not kind.inertial]


def python_source(
    robot_name: str,
    joints: Mapping[str, Mapping[str, Any]],
    motors: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return a robot's friction model as a file of Python that imports `math` alone.

    Args:
        robot_name: For the comment at the top.
        joints: By name, in model order: at least `full`, as `estimate.json` has it.
        motors: By name: at least `speed` and `full`.

    Raises:
        InputError: If a term is unknown, or its numbers are not those of such a term.
    """
    drives = _drives(joints, motors)
    return _template("friction.py").substitute(
        robot=_comment(robot_name),
        version=__version__,
        joints=_tuple(_literal(name) for name in joints),
        drives=_tuple(_python_drive(d) for d in drives),
        table=_table("#     "),
        cases=_python_cases(),
    )


def c_source(
    robot_name: str,
    joints: Mapping[str, Mapping[str, Any]],
    motors: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return a robot's friction model as a C99 header; see `python_source`.

    It needs `<math.h>` alone.
    """
    drives = _drives(joints, motors)
    stops = sum(t.remembers for d in drives for t, _ in d.terms)
    numbers = {
        "robot": _comment(robot_name),
        "version": __version__,
        "names": "\n".join(f"       {k}  {_comment(name)}" for k, name in enumerate(joints)),
        "joints": len(joints),
        "stops": max(stops, 1),
        "drives": "".join(
            f"    {{{len(d.moves)}, {len(d.terms)}}}, /* {_comment(d.name)} */\n" for d in drives
        ),
        "moves": "".join(
            f"    /* {_comment(d.name)} */\n"
            + "".join(f"    {{{joint}, {ratio!r}}},\n" for joint, ratio in d.moves)
            for d in drives
        ),
        "terms": "".join(f"    /* {_comment(d.name)} */\n{_c_terms(d)}" for d in drives),
        "table": _table("       "),
        "kinds": ",\n".join(f"    {_enumerator(kind)}" for kind in _exported()),
        "cases": "".join(_c_case(kind) for kind in _exported()),
        "last": _enumerator(_exported()[0]),
    }
    # The same file may be included twice; another robot's beside it is refused by the compiler.
    mark = hashlib.sha256(repr(numbers).encode()).hexdigest()[:12].upper()
    return _template("friction.h").substitute(numbers, mark=mark)


def _template(name: str) -> Template:
    file = resources.files(__package__) / f"{name}.template"
    return Template(file.read_text(encoding="utf-8"))


def _drives(
    joints: Mapping[str, Mapping[str, Any]], motors: Mapping[str, Mapping[str, Any]]
) -> list[_Drive]:
    """Return the drives that have friction, joints first; terms of value 0 are left out."""
    if not joints:
        raise InputError("a robot without joints has no friction to write", argument="joints")
    order = list(joints)
    drives = [
        _Drive(name, ((k, 1.0),), tuple(_terms(f"joints, {name}", joints[name]["full"])))
        for k, name in enumerate(order)
    ]
    for name, motor in motors.items():
        where = f"motors, {name}"
        unknown = set(motor["speed"]) - set(order)
        if unknown:
            raise InputError(
                "a motor moves a joint that the robot does not have",
                argument=where,
                got=", ".join(sorted(unknown)),
                valid=order,
            )
        speed = {order.index(j): _number(where, r) for j, r in motor["speed"].items()}
        terms = tuple(_terms(where, motor["full"]))
        loaded = [t.kind for t, _ in terms if t.loaded]
        if loaded:
            raise InputError(
                "a motor that moves several joints has no rigid effort of its own",
                argument=where,
                got=loaded[0],
            )
        drives.append(_Drive(name, tuple(sorted(speed.items())), terms))
    return [d for d in drives if d.moves and d.terms]


def _terms(where: str, full: list[Mapping[str, Any]]) -> Iterator[tuple[Term, float]]:
    kinds = [kind.kind for kind in _exported()]
    for entry in full:
        kind, scale = entry["term"], entry["scale"]
        if kind not in kinds:
            raise InputError(
                "the friction term is not known", argument=where, got=kind, valid=kinds
            )
        try:
            term = make_term(kind, None if scale is None else _number(where, scale))
        except InvalidSetting as problem:
            raise InputError(
                problem.message, argument=where, got=scale, expected=problem.expected
            ) from problem
        value = _number(where, entry["value"])
        if value:
            yield term, value


def _number(where: str, value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError("this is no finite number", argument=where, got=repr(value))
    return float(value)


def _comment(name: str) -> str:
    """Return a name that can stand in a comment of either language, in ASCII on one line."""
    return ascii(name).replace("*/", "* /").replace("/*", "/ *")


def _literal(name: str) -> str:
    """Return a name as a Python string literal, in the quotes that formatters prefer."""
    text = repr(name)
    return text if '"' in text else f'"{text[1:-1]}"'


def _tuple(rows: Iterable[str], indent: str = "") -> str:
    """Return the source of a Python tuple, laid out as formatters would."""
    rows = list(rows)
    if not rows or (len(rows) == 1 and "\n" not in rows[0]):
        return f"({rows[0]},)" if rows else "()"
    return "(\n" + "".join(f"{indent}    {row},\n" for row in rows) + f"{indent})"


def _python_drive(drive: _Drive) -> str:
    indent = "        "
    moves = _tuple((f"({joint}, {ratio!r})" for joint, ratio in drive.moves), indent)
    terms = _tuple((f'("{t.kind}", {t.scale!r}, {value!r})' for t, value in drive.terms), indent)
    return f"(  # {_comment(drive.name)}\n{indent}{moves},\n{indent}{terms},\n    )"


def _c_terms(drive: _Drive) -> str:
    return "".join(
        f"    {{{_enumerator(type(t))}, {t.scale or 0.0!r}, {value!r}}},\n"
        for t, value in drive.terms
    )


def _enumerator(kind: type[Term]) -> str:
    return f"HEFT_FRICTION_{kind.kind.upper()}"


def _table(start: str) -> str:
    """Return comment lines in ASCII that list each kind of term, its law and its units."""
    kinds = _exported()
    name, law = (max(map(len, x)) for x in zip(*((k.kind, k.law) for k in kinds), strict=True))
    lines = []
    for kind in kinds:
        scale = f", scale [{_ascii(kind.scale_unit)}]" if kind.scale_unit else ""
        unit = _ascii(kind.unit(linear=False))
        lines.append(f"{start}{kind.kind:{name}}   {kind.law:{law}}   value [{unit}]{scale}")
    return "\n".join(lines)


def _ascii(unit: str) -> str:
    return ascii(unit.replace("·", " ").replace("²", "^2").replace("³", "^3"))[1:-1]


def _width(kind: type[Term]) -> str:
    """Return the expression of a term's presliding width, valid in both languages."""
    factor = kind.width_over_scale
    return "scale" if factor == 1.0 else f"{factor!r} * scale"


def _python_cases() -> str:
    indent, text = " " * 16, ""
    for k, kind in enumerate(_exported()):
        text += f'{indent}{"elif" if k else "if"} term == "{kind.kind}":\n'
        if kind.loaded:
            text += f"{indent}    rigid = float(tau_rigid[moves[0][0]])\n"
        if kind.remembers:
            text += (
                f"{indent}    width = {_width(kind)}\n"
                f"{indent}    last, z = self._stops.get(stop, (x, 0.0))\n"
                f"{indent}    z = min(max(z + (x - last), -width), width)\n"
                f"{indent}    self._stops[stop] = x, z\n"
                f"{indent}    stop += 1\n"
            )
        text += f"{indent}    f = {kind.python}\n"
    return text.rstrip("\n")


def _c_case(kind: type[Term]) -> str:
    indent = " " * 12
    text = f"{indent}case {_enumerator(kind)}:\n"
    if kind.loaded:
        text += f"{indent}    rigid = tau_rigid[move->joint];\n"
    if kind.remembers:
        text += (
            f"{indent}    width = {_width(kind)};\n"
            f"{indent}    if (!state->started) {{\n"
            f"{indent}        state->position[stop] = x;\n"
            f"{indent}    }}\n"
            f"{indent}    z = state->memory[stop] + (x - state->position[stop]);\n"
            f"{indent}    z = z < -width ? -width : z > width ? width : z;\n"
            f"{indent}    state->position[stop] = x;\n"
            f"{indent}    state->memory[stop] = z;\n"
            f"{indent}    ++stop;\n"
        )
    return f"{text}{indent}    f = {kind.c};\n{indent}    break;\n"
