"""Base parameters of a serial chain in closed form.

The unidentifiable directions are the changes of parameters that leave the torque unchanged for
any motion. A body that is invariant under the motion of its joint may as well belong to the
previous link: that gives three directions for each revolute joint and six for each prismatic
joint [Gautier1990; Khalil2002], for any lengths. The first link can only rotate about, or slide
along, one line, so that most of its parameters have no effect, and its rotor inertia adds to its
own. Whether these are all is tested by exact arithmetic modulo a prime at random poses. If not,
as with parallel axes, the others are found exactly from the coefficients of D(q) and C(q): these
are polynomials in normal form, and columns are linearly dependent exactly if their coefficients
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from heft.information import PARAMETER_COUNT, column_order
from heft.models import Outline, load_sympy, right_angle

from .chain import (
    BaseSet,
    Chain,
    Rows,
    along,
    follow,
    inverse,
    moves,
    pair,
    placed,
    pseudo_inertia,
    shift,
    turn,
)
from .polynomials import Constants, Expanded, Sampled, solved

M, HX, HY, HZ, XX, XY, YY, XZ, YZ, ZZ = range(PARAMETER_COUNT)
Ten = dict[int, Any]  # of a body, those that are not zero


def base_set(
    table: Outline[Any],
    q: Sequence[Any],
    gravity: Sequence[Any],
    columns: tuple[Any, ...],
    expanded: Callable[[], Expanded],
) -> BaseSet:
    """Return the base parameters of a Denavit-Hartenberg table.

    Args:
        gravity: Gravitational acceleration in the base frame, 3 components [m/s²].
    """
    sympy, count = load_sympy(), len(table.rows)
    bodies = PARAMETER_COUNT * count
    drives = len(columns) > bodies
    moved = bodies + count if drives else bodies  # friction is like nothing else
    order = column_order(count, moved)
    lengths = [x for row in table.rows for x in (row.a, row.d)]
    angles = [right_angle(x) for row in table.rows for x in (row.alpha, row.theta)]
    constants = Constants([*lengths, *gravity], angles)
    void = [*_regroupings(constants, table), *_first_link(constants, table, gravity)]
    if drives and not table.rows[0].prismatic:
        turning = _own(constants, table, 0, {ZZ: -constants.lift(1)})
        void.append({bodies: constants.lift(1)} | turning)
    regrouped = solved(void, order[::-1], constants.field)
    sampled = _sampled(table, q, gravity, order, drives)
    kept = set(sampled)
    matrix = {c: {d: -x for d, x in row.items()} for c, row in regrouped.items()}
    further: dict[int, dict[int, Any]] = {c: {} for c in order if c not in regrouped}
    tied = {c: {d for d, row in sampled.items() if c in row} for c in further}
    if any(tied.values()):
        wanted = set().union(*({c, *rest} for c, rest in tied.items() if rest))
        last = max(c // PARAMETER_COUNT if c < bodies else c - bodies for c in wanted)
        inner = replace(table, rows=table.rows[: last + 1])
        chain, rows = follow(exact := expanded(), inner, q, gravity), []
        for row in _rows(chain, bodies if drives else None):
            parts = {c: exact.by_motion(x) for c, x in row.items() if c in wanted}
            for motion in set().union(*parts.values()):
                directions = {c: part[motion] for c, part in parts.items() if motion in part}
                rows.append({c: constants.lift(exact.expression(x)) for c, x in directions.items()})
        for d, row in solved(rows, [c for c in order if c in wanted], constants.field).items():
            for c, x in row.items():
                further[c][d] = x
        for c, row in matrix.items():
            total: dict[int, Any] = {}
            for d, x in row.items():
                for e, y in ({d: constants.lift(1)} if d in kept else further[d]).items():
                    total[e] = total.get(e, constants.lift(0)) + x * y
            matrix[c] = total
        matrix |= {c: row for c, row in further.items() if c not in kept}
    chosen = (*sorted(kept), *range(moved, len(columns)))
    answer = sympy.zeros(len(chosen), len(columns))
    for k, c in enumerate(chosen):
        answer[k, c] = 1
    for c, row in matrix.items():
        for d, x in row.items():
            if d in kept and x:
                answer[chosen.index(d), c] = constants.expression(x)
    return BaseSet(columns, chosen, answer.as_immutable())


def _rows(chain: Chain, rotors: int | None) -> Iterator[dict[int, Any]]:
    """Yield the regressor rows of the entries of C(q) and D(q), by column."""
    half, count = chain.algebra.half, len(chain.steps)
    for i in range(count):
        weighed, moved = {}, [dict[int, Any]() for _ in range(count)]
        for j in range(i, count):
            twists, first = chain.twists[j], PARAMETER_COUNT * j
            for p, x in enumerate(pair(along(chain.felt[j]), twists[i], half)):
                weighed[first + p] = x
            for k in range(i, j + 1):
                for p, x in enumerate(pair(twists[i], twists[k], half)):
                    moved[k][first + p] = x
        if rotors is not None:
            moved[i][rotors + i] = chain.algebra.lift(load_sympy().Integer(1))
        yield weighed
        yield from moved[i:]


def _sampled(
    table: Outline[Any], q: Sequence[Any], gravity: Any, order: Sequence[int], drives: bool
) -> dict[int, dict[int, Any]]:
    """Return the echelon form of all columns, modulo a prime."""
    count = len(q)
    rotors = PARAMETER_COUNT * count if drives else None
    draws = 3 + 4 * len(order) // (count * (count + 3))  # twice as many rows as columns, or more
    rows = [
        row
        for draw in range(1, draws + 1)
        for row in _rows(follow(Sampled(q, draw), table, q, gravity), rotors)
    ]
    return solved(rows, order, Sampled(q, 0).field)


def _regroupings(constants: Constants, table: Outline[Any]) -> list[Ten]:
    """Return the unidentifiable directions that move mass from a link to the previous one."""
    directions, one = [], constants.lift(1)
    for j, row in enumerate(table.rows):
        alike: list[Ten] = [{M: one}, {HZ: one}, {XX: one, YY: one}]
        if row.prismatic:
            alike = [{k: one} for k in (XX, XY, YY, XZ, YZ, ZZ)]
        for ten in alike:
            change = _own(constants, table, j, ten)
            if j:
                before, _, _ = moves(constants, row, load_sympy().Integer(0), table.modified)
                fixed = turn(constants, row.theta, "z")
                if not row.prismatic:  # the turn itself does not show
                    fixed = shift(constants, row.d, "z")
                there = _moved(constants, placed(before, fixed), ten)
                change |= {PARAMETER_COUNT * (j - 1) + k: -x for k, x in there.items()}
            directions.append(change)
    return directions


def _first_link(constants: Constants, table: Outline[Any], gravity: Sequence[Any]) -> list[Ten]:
    """Return the further unidentifiable directions of the first link."""
    row = table.rows[0]
    if row.prismatic:
        hidden = [HX, HY, HZ]
    else:
        hidden = [XX, XY, XZ, YZ]
        before, _, _ = moves(constants, row, load_sympy().Integer(0), table.modified)
        g = [constants.lift(x) for x in gravity]
        across = [
            sum((line[c] * x for line, x in zip(before, g, strict=True)), 0 * g[0]) for c in (0, 1)
        ]
        hidden += [] if any(across) else [HX, HY]
    return [_own(constants, table, 0, {k: constants.lift(1)}) for k in hidden]


def _own(constants: Constants, table: Outline[Any], j: int, ten: Ten) -> dict[int, Any]:
    """Return ten parameters, given in the frame that joint j moves, as columns of link j."""
    *_, after = moves(constants, table.rows[j], load_sympy().Integer(0), table.modified)
    moved = _moved(constants, inverse(after), ten)
    return {PARAMETER_COUNT * j + k: x for k, x in moved.items()}


def _moved(constants: Constants, place: Rows, ten: Ten) -> Ten:
    """Return a body's ten parameters in another frame, with pseudo-inertia J' = T J Tᵀ."""
    zero = constants.lift(0)
    J = pseudo_inertia([ten.get(k, zero) for k in range(PARAMETER_COUNT)], constants.half)
    T = [*place, [zero, zero, zero, constants.lift(1)]]

    def entry(i: int, k: int) -> Any:
        return sum((T[i][a] * J[a][b] * T[k][b] for a in range(4) for b in range(4)), zero)

    xx, yy, zz = (entry(k, k) for k in range(3))
    values = (
        *(entry(k, 3) for k in (3, 0, 1, 2)),
        yy + zz,
        -entry(0, 1),
        xx + zz,
        -entry(0, 2),
        -entry(1, 2),
        xx + yy,
    )
    return {k: value for k, value in enumerate(values) if value}
