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
    return PYTHON.substitute(
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
    """Return a robot's friction model as a C99 header that needs `<math.h>` alone.

    Args:
        robot_name: For the comment at the top.
        joints: By name, in model order: at least `full`, as `estimate.json` has it.
        motors: By name: at least `speed` and `full`.

    Raises:
        InputError: If a term is unknown, or its numbers are not those of such a term.
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
    return C.substitute(numbers, mark=mark)


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
    known = [kind.kind for kind in _exported()]
    for entry in full:
        kind, scale = entry["term"], entry["scale"]
        if kind not in known:
            raise InputError(
                "the friction term is not known", argument=where, got=kind, valid=known
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
        scale = f", scale [{kind.scale_unit}]" if kind.scale_unit else ""
        unit = kind.unit(linear=False).replace("·", " ")
        lines.append(f"{start}{kind.kind:{name}}   {kind.law:{law}}   value [{unit}]{scale}")
    return "\n".join(lines)


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


PYTHON = Template('''\
# Friction of the robot $robot, identified by heft $version.
#
# The effort that the drives spend on friction, added to the rigid body's:
#
#     tau = inverse_dynamics(q, v, a) + armature * a + friction
#
# A drive is a joint, or a motor that moves several joints. With x its position and w its
# speed (each the sum of ratio times the joint's, over the joints that it moves), it takes the
# sum of value times
#
$table
#
# and acts on each joint by ratio times that. z is the presliding memory: it follows x, held
# between -width and +width, and begins at 0. For a prismatic joint read N for N m and m for rad.

import math

# The order of all arguments and results.
JOINTS = $joints

# Each drive: (joint, ratio) of what it moves, and (term, scale, value) of what it takes.
DRIVES = $drives


class Friction:
    """Friction of a robot along one motion, sample by sample.

    With pinocchio, and with the joints' armature from estimate.json as an array:

        friction = Friction()
        for q, v, a in motion:
            tau_rigid = pinocchio.rnea(model, data, q, v, a)
            tau = tau_rigid + armature * a + friction.torque(q, v, tau_rigid)
    """

    def __init__(self):
        self.reset()

    def reset(self):
        """Forget the motion so far: the next call is a first one."""
        self._stops = {}

    def torque(self, q, v, tau_rigid) -> list[float]:
        """Return the friction of each joint [N m; N for a prismatic joint].

        The memory follows the motion from call to call, so samples are given in their order.
        All arguments are of the joints alone, in the order of JOINTS.

        Args:
            q: Positions [rad; m for a prismatic joint]; angles that do not jump by a turn.
            v: Velocities [rad/s; m/s].
            tau_rigid: Efforts of the rigid bodies, without friction and armature [N m; N].
        """
        if not len(q) == len(v) == len(tau_rigid) == len(JOINTS):
            raise ValueError(f"q, v and tau_rigid have one number for each of {JOINTS}")
        torque = [0.0] * len(JOINTS)
        stop = 0
        for moves, terms in DRIVES:
            x = w = effort = 0.0
            for joint, ratio in moves:
                x += ratio * float(q[joint])
                w += ratio * float(v[joint])
            for term, scale, value in terms:
$cases
                effort += value * f
            for joint, ratio in moves:
                torque[joint] += ratio * effort
        return torque
''')

C = Template("""\
/* Friction of the robot $robot, identified by heft $version.

   The effort that the drives spend on friction, added to the rigid body's:

       tau = inverse_dynamics(q, v, a) + armature * a + friction

   A drive is a joint, or a motor that moves several joints. With x its position and w its
   speed (each the sum of ratio times the joint's, over the joints that it moves), it takes the
   sum of value times

$table

   and acts on each joint by ratio times that. z is the presliding memory: it follows x, held
   between -width and +width, and begins at 0. For a prismatic joint read N for N m and m for rad.

   C99 or C++, to be included:

       heft_friction_state state;
       heft_friction_reset(&state);
       for each sample, in order of time:
           heft_friction_torque(&state, q, v, tau_rigid, torque);

   The joints, in the order of all arrays:

$names
*/

#ifndef HEFT_FRICTION_$mark
#define HEFT_FRICTION_$mark

#include <math.h>

#define HEFT_FRICTION_JOINTS $joints
#define HEFT_FRICTION_STOPS $stops /* at least 1: C has no empty arrays */

/* The presliding memory; one for each motion that is followed. */
typedef struct {
    int started;
    double position[HEFT_FRICTION_STOPS]; /* x at the last call */
    double memory[HEFT_FRICTION_STOPS];   /* z */
} heft_friction_state;

enum heft_friction_kind {
$kinds
};

typedef struct {
    int moves, terms; /* how many of the rows below are this drive's */
} heft_friction_drive;

typedef struct {
    int joint;
    double ratio;
} heft_friction_move;

typedef struct {
    enum heft_friction_kind kind;
    double scale, value;
} heft_friction_term;

/* Each table ends with a row that is not read as one. */
static const heft_friction_drive heft_friction_drives[] = {
$drives    {0, 0}
};

static const heft_friction_move heft_friction_moves[] = {
$moves    {0, 0.0}
};

static const heft_friction_term heft_friction_terms[] = {
$terms    {$last, 0.0, 0.0}
};

/* Forget the motion so far: the next call is a first one. Must be called before the first. */
static inline void heft_friction_reset(heft_friction_state *state)
{
    int stop;

    state->started = 0;
    for (stop = 0; stop < HEFT_FRICTION_STOPS; ++stop) {
        state->position[stop] = 0.0;
        state->memory[stop] = 0.0;
    }
}

/* Friction of each joint [N m; N for a prismatic joint].

   q          positions [rad; m], angles that do not jump by a turn
   v          velocities [rad/s; m/s]
   tau_rigid  efforts of the rigid bodies, without friction and armature [N m; N]
   torque     the result, in a place of its own */
static inline void heft_friction_torque(
    heft_friction_state *state,
    const double q[HEFT_FRICTION_JOINTS],
    const double v[HEFT_FRICTION_JOINTS],
    const double tau_rigid[HEFT_FRICTION_JOINTS],
    double torque[HEFT_FRICTION_JOINTS])
{
    const heft_friction_drive *drive = heft_friction_drives;
    const heft_friction_move *move = heft_friction_moves;
    const heft_friction_term *term = heft_friction_terms;
    int k, stop = 0;

    for (k = 0; k < HEFT_FRICTION_JOINTS; ++k) {
        torque[k] = 0.0;
    }
    for (; drive->moves > 0; ++drive) {
        double x = 0.0, w = 0.0, effort = 0.0;
        for (k = 0; k < drive->moves; ++k) {
            x += move[k].ratio * q[move[k].joint];
            w += move[k].ratio * v[move[k].joint];
        }
        for (k = 0; k < drive->terms; ++k, ++term) {
            const double scale = term->scale;
            double rigid, width, z, f = 0.0;
            switch (term->kind) {
$cases            }
            effort += term->value * f;
        }
        for (k = 0; k < drive->moves; ++k) {
            torque[move[k].joint] += move[k].ratio * effort;
        }
        move += drive->moves;
    }
    state->started = 1;
}

#endif
""")
