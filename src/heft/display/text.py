"""Tables and rounded numbers for the terminal and for pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def rounded(value: float | None, std: float | None = None) -> str:
    """Return a number with the digits that its standard deviation leaves it, three at least.

    Args:
        value: May be missing or infinite: then a dash.
        std: Standard deviation in the same unit, if known.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if std is None or not math.isfinite(std) or std <= 0.0:
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(std))
    if value != 0.0:  # never less than three digits, however unsure
        digits = max(digits, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{max(0, min(6, digits))}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a text table, first column to the left, the others to the right.

    Args:
        head: Of the columns.
        rows: Cells, as many as columns.
    """
    cells = [list(head), *(list(r) for r in rows)]
    widths = [max(len(r[k]) for r in cells) for k in range(len(head))]
    lines = []
    for r in cells:
        first, rest = (
            r[0].ljust(widths[0]),
            (c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True)),
        )
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)
