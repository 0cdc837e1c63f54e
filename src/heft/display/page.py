"""Pages that open offline and ask nobody for anything: tables, plots and scenes in one file.

Numbers are held as 32-bit floats, each array once, and drawn by the page's own script on
canvases: whole plotting libraries are a hundred times its size, and none of them follows the
reader's light or dark.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from heft.arrays import Array

from .curves import Curve
from .scene import Sticks
from .templates import parts

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


class Drawings:
    """The numbers of a page's plots and scenes, as its script reads them; each array once."""

    def __init__(self) -> None:
        self._arrays: dict[bytes, int] = {}
        self._drawings: list[dict[str, Any]] = []

    def add(self, shown: Plot | Sticks) -> int:
        """Add the data of a plot or scene; return its index on the page.

        Args:
            shown: What is drawn; arrays that were added before are not stored again.
        """
        self._drawings.append(self._plot(shown) if isinstance(shown, Plot) else shown.content)
        return len(self._drawings) - 1

    @property
    def content(self) -> dict[str, Any]:
        """All numbers: arrays of 32-bit floats as base64, and drawings that refer to them."""
        arrays = [base64.b64encode(data).decode("ascii") for data in self._arrays]
        return {"arrays": arrays, "drawings": self._drawings}

    def _place(self, values: Array | None) -> int | None:
        if values is None:
            return None
        data = np.asarray(values, dtype="<f4").tobytes()
        return self._arrays.setdefault(data, len(self._arrays))

    def _plot(self, plot: Plot) -> dict[str, Any]:
        series = [
            {**vars(s), **{k: self._place(getattr(s, k)) for k in ("x", "y", "minus", "reach")}}
            for s in plot.series
        ]
        own = {k: v for k, v in vars(plot).items() if k != "title"}  # which stands above it
        return {**own, "series": series}


def over_time(
    curve: Curve, start: float, title: str, group: str, label: str = "", *beside: Series
) -> Plot:
    """Return the plot of a measured and a predicted signal and their difference over time.

    Args:
        start: Time of the plot's zero [s].
        beside: What else is drawn, under these.
    """
    time = curve.time - start
    written = curve.before
    series = (
        *beside,
        *(() if written is None else (Series("model file", "before", time, written, "dashed"),)),
        Series("residual", "residual", time, curve.measured, minus=curve.predicted),
        Series("predicted", "predicted", time, curve.predicted, "broad"),
        Series("measured", "measured", time, curve.measured),
    )
    return Plot(title, "time [s]", series, group, label)


def page(template: str, **values: object) -> str:
    """Return a whole page; see `page_parts`."""
    return "".join(page_parts(template, **values))


def page_parts(template: str, **values: object) -> Iterator[str]:
    """Return a page, part after part; the same values give the same bytes.

    Args:
        template: Path of its file within the package; extends `display/page.html.jinja`.
        values: What it shows by name; `title` is its heading, and that of the window.
    """
    return parts(template, drawings=Drawings(), **values)
