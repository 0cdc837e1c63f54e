"""Pages that open offline and ask nobody for anything: tables, plots and scenes in one file.

Numbers are held as 32-bit floats, each array once, and drawn by the page's own script on
canvases: whole plotting libraries are a hundred times its size, and none of them follows the
reader's light or dark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from heft.arrays import Array

from .curves import Curve

Kind = Literal["line", "broad", "dashed", "points", "band"]


@dataclass(frozen=True, eq=False)
class Series:
    """One curve, cloud of points or band of a plot."""

    name: str  # as the reader sees it
    role: str  # its colour: a variable of the style sheet, such as `measured`
    # x, y: shape (n,); NaN breaks a curve. Of a band, y is its middle
    x: Array
    y: Array
    # how it is drawn; a broad line is pale, so that a line over it shows beside it
    kind: Kind = "line"
    # subtracted from y by the page, for residuals that need no room of their own
    minus: Array | None = None
    reach: Array | None = None  # from a band's middle to either edge


@dataclass(frozen=True, eq=False)
class Plot:
    """A plot."""

    title: str  # above it
    x_label: str  # under its axis, with a unit in brackets
    series: tuple[Series, ...]  # what is drawn, the lowest first
    group: str  # plots of one group share their horizontal axis
    y_label: str = ""  # beside its axis; may be empty
    # log_x, log_y: whether an axis is logarithmic
    log_x: bool = False
    log_y: bool = False

    @property
    def content(self) -> dict[str, Any]:
        """What the script draws; its title stands above it."""
        own = {k: v for k, v in vars(self).items() if k != "title"}
        return {**own, "series": [vars(s) for s in self.series]}

    @property
    def numbers(self) -> Table:
        """Each curve's range, where it is, and mean: what a reader needs who sees no drawing."""
        rows = []
        for s in self.series:
            y = s.y if s.minus is None else s.y - s.minus
            if (kept := np.isfinite(y) & np.isfinite(s.x)).any():
                x, y, reach = s.x[kept], y[kept], 0.0 if s.reach is None else s.reach[kept]
                low, high = y - reach, y + reach
                a, b = np.argmin(low), np.argmax(high)
                shown = (low[a], x[a], high[b], x[b], np.mean(y))
                rows.append([s.name, *(f"{v:.4g}" for v in shown)])
        head = ("curve", "least", "at", "greatest", "at", "mean")
        return Table(f"{self.y_label} over {self.x_label}".strip(), head, rows)


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    caption: str  # what it holds; may be empty
    head: Sequence[str]  # of the columns
    rows: Iterable[Sequence[str]]  # cells, whose first column heads the row
    marked: Collection[int] = ()  # numbers of rows in bold
    colours: Mapping[str, str] = field(default_factory=dict)  # of cells, by their text: classes
    sums: bool = False  # whether its first column holds sums, of which long ones are folded
    shaded: bool = False  # whether its percentages are the fuller in colour the larger they are


def over_time(curve: Curve, title: str, group: str, unit: str = "", *beside: Series) -> Plot:
    """Return the plot of a measured and a predicted signal and their difference over time.

    Args:
        unit: Of an effort, which its axis names: N or N·m.
        beside: What else is drawn, under these, over the time from the curve's first point on.
    """
    time = curve.time - curve.time[0]
    written = curve.before
    series = (
        *beside,
        *(() if written is None else (Series("model file", "before", time, written, "dashed"),)),
        Series("residual", "residual", time, curve.measured, minus=curve.predicted),
        Series("predicted", "predicted", time, curve.predicted, "broad"),
        Series("measured", "measured", time, curve.measured),
    )
    label = {"N": "force [N]", "N·m": "torque [N·m]"}.get(unit, "")
    return Plot(title, "time [s]", series, group, label)
