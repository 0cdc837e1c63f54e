"""Page of a servo, or of an arm of them: its numbers, and how it moves by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from heft.arrays import Array
from heft.display import Curve, Table, over_time, render, table

POINTS = 20_000  # of all curves


def text_of(tables: Sequence[Table], sentences: Sequence[str], notes: Sequence[str]) -> str:
    """Return the summary for a terminal: tables, sentences, and what the logs do not tell."""
    lines = [line for t in tables for line in (table(t.head, t.rows), "")]
    return "\n".join([*lines, *sentences, *(f"note: {note}" for note in notes)])


def page_of(
    title: str,
    opening: str,
    tables: Sequence[Table],
    followed: str,
    curves: Sequence[Curve],
    notes: Sequence[str],
) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere.

    Args:
        opening: First sentence: how the numbers were found, and how far they are off.
        tables: Numbers; the first of them stands on the first screen.
        followed: What the curves are, which are named with their units.
        notes: What the logs do not tell.
    """
    plots = [over_time(c.thinned(POINTS // len(curves)), c.name, "time") for c in curves]
    return render(
        "applications/servo/report.html.jinja",
        title=title,
        opening=opening,
        tables=tables,
        followed=followed,
        plots=plots,
        notes=notes,
    )


def one_after_another(name: str, parts: Iterable[tuple[Array, Array, Array]]) -> Curve:
    """Return one curve of pieces, each behind the one before, with a gap between.

    Args:
        parts: Time [s], what was measured and what is predicted, of shape (n,) each.
    """
    pieces, end = list[Array](), 0.0
    for time, measured, predicted in parts:
        later = end + time - time[0]
        pieces += [np.stack([later, measured, predicted]), np.full((3, 1), np.nan)]
        end = float(later[-1] + later[-1] - later[-2])
    return Curve(name, *np.concatenate(pieces, axis=1))
