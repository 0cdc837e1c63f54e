"""Tables and rounded numbers for the terminal and for pages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from heft.errors import visible


def rounded(value: float | None, std: float | None = None) -> str:
    """Return a number to the digits that its standard deviation supports.

    Three at least, however unsure, of a number that is larger than its deviation.

    Args:
        value: May be missing or infinite: then a dash.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if std is None or not math.isfinite(std) or std <= 0.0:
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(std))
    if abs(value) > std:  # never less than three digits of what is told from nothing
        digits = max(digits, 2 - math.floor(math.log10(abs(value))))
    digits = max(0, min(6, digits))
    return f"{round(value, digits) + 0.0:.{digits}f}"  # a zero has no sign


def split_sum(expression: str, width: int) -> tuple[str, str, int]:
    """Return a sum's first terms, the others, and how many these are; a short sum has no others.

    Args:
        width: Largest length of the first part [characters]; its first term is always whole.
    """
    terms = re.split(r" (?=[+-] )", expression)
    if len(expression) <= width:
        return expression, "", 0
    lengths = accumulate(len(term) + 1 for term in terms)
    kept = max(sum(length <= width for length in lengths), 1)
    return " ".join(terms[:kept]), " ".join(terms[kept:]), len(terms) - kept


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a text table, first column to the left, the others to the right."""
    cells = [list(map(visible, r)) for r in (head, *rows)]
    widths = [max(len(r[k]) for r in cells) for k in range(len(head))]
    sides = [str.ljust, *(str.rjust for _ in head[1:])]
    lines = (
        "  ".join(side(c, w) for side, c, w in zip(sides, r, widths, strict=True)) for r in cells
    )
    return "\n".join(line.rstrip() for line in lines)
