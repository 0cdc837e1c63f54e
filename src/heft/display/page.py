"""Pages that open offline and ask nobody for anything: tables, plots and scenes in one file.

Numbers are held as 32-bit floats, each array once, and drawn by the page's own script on
canvases: whole plotting libraries are a hundred times its size, and none of them follows the
reader's light or dark.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np

from heft.arrays import Array

Kind = Literal["line", "dashed", "points", "band"]
# A page that may load nothing cannot leak what it holds, either.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
LONG_CELL = 60  # characters beyond which a cell of a table is broken into lines


@dataclass(frozen=True, eq=False)
class Series:
    """One curve, cloud of points or band of a plot.

    Attributes:
        name: As the reader sees it.
        role: Its colour: a variable of the style sheet, such as `measured`.
        x, y: Shape (n,); NaN breaks a curve. Of a band, y is the upper edge.
        kind: How it is drawn.
        minus: Subtracted from y by the page, for residuals that need no room of their own.
        low: Lower edge of a band.
    """

    name: str
    role: str
    x: Array
    y: Array
    kind: Kind = "line"
    minus: Array | None = None
    low: Array | None = None


@dataclass(frozen=True, eq=False)
class Plot:
    """A plot.

    Attributes:
        title: Above it.
        x_label: Under its axis, with a unit in brackets.
        series: What is drawn, the lowest first.
        group: Plots of one group share their horizontal axis.
        log_x, log_y: Whether an axis is logarithmic.
    """

    title: str
    x_label: str
    series: tuple[Series, ...]
    group: str
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, eq=False)
class Body:
    """A body of a scene, drawn as an ellipsoid.

    Attributes:
        name: Of the link.
        role: `before` or `after`.
        centre: Shape (3,) [m].
        axes: Semi-axes as rows, shape (3, 3) [m].
        seen: Share of its doubt that the data took away, 0 to 1.
    """

    name: str
    role: Literal["before", "after"]
    centre: Array
    axes: Array
    seen: float


@dataclass(frozen=True, eq=False)
class Scene:
    """A robot in three dimensions.

    Attributes:
        title: Above it.
        bones: From each joint to the next, shape (n, 6) [m].
        bodies: Its links' masses.
    """

    title: str
    bones: Array
    bodies: tuple[Body, ...]


Part = str | Plot | Scene


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: Iterable[int] = (),
) -> str:
    """Return a table that scrolls by itself where the screen is narrow.

    Args:
        caption: What it holds; may be empty.
        head: Of the columns.
        rows: Text, whose first column heads the row.
        marked: Numbers of rows in bold.
    """
    bold = set(marked)

    def cell(tag: str, value: str, scope: str = "") -> str:
        long = ' class="long"' if len(value) > LONG_CELL else ""
        return f"<{tag}{scope}{long}>{html.escape(value)}</{tag}>"

    top = "".join(cell("th", h, ' scope="col"') for h in head)
    body = "".join(
        ('<tr class="changed">' if k in bold else "<tr>")
        + cell("th", r[0], ' scope="row"')
        + "".join(cell("td", c) for c in r[1:])
        + "</tr>"
        for k, r in enumerate(rows)
    )
    name = html.escape(caption or head[0])
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table>{title}'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return a legend of (colour's role, text)."""
    items = "".join(
        f'<li><span style="background:var(--{role})"></span>{html.escape(text)}</li>'
        for role, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def page(title: str, parts: Iterable[Part]) -> str:
    """Return a whole page; the same parts give the same bytes.

    Args:
        title: Of the window.
        parts: HTML, plots and scenes in their order.
    """
    store: dict[bytes, int] = {}
    drawings: list[dict[str, Any]] = []
    body = []
    for part in parts:
        if isinstance(part, str):
            body.append(part)
            continue
        body.append(_figure(part, len(drawings)))
        drawings.append(_plot(part, store) if isinstance(part, Plot) else _scene(part))
    content = {
        "arrays": [base64.b64encode(data).decode("ascii") for data in store],
        "drawings": drawings,
    }
    held = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    files = resources.files("heft.display")
    style = files.joinpath("page.css").read_text(encoding="utf-8")
    script = files.joinpath("page.js").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>
{style}</style></head><body>
<a class="skip" href="#content">Skip to the content</a>
{"".join(body)}
<script type="application/json" id="numbers">{held.replace("<", chr(92) + "u003c")}</script>
<script>
{script}</script>
</body></html>
"""


def _figure(part: Plot | Scene, number: int) -> str:
    title = html.escape(part.title)
    canvas = f'<canvas tabindex="0" role="img" aria-label="{title}"></canvas>'
    if isinstance(part, Scene):
        boxes = "".join(
            f'<label><input type="checkbox" name="{name}" checked> {text}</label>'
            for name, text in (("before", "before"), ("after", "after"), ("names", "names"))
        )
        return (
            f'<figure class="scene" data-drawing="{number}"><figcaption>{title}</figcaption>'
            f"{canvas}<div>{boxes}</div></figure>"
        )
    return (
        f'<figure class="plot" data-drawing="{number}"><figcaption>{title}</figcaption>'
        f"{canvas}<output></output></figure>"
    )


def _plot(plot: Plot, store: dict[bytes, int]) -> dict[str, Any]:
    def place(values: Array | None) -> int | None:
        if values is None:
            return None
        return store.setdefault(np.asarray(values, dtype="<f4").tobytes(), len(store))

    return {
        "x_label": plot.x_label,
        "group": plot.group,
        "log_x": plot.log_x,
        "log_y": plot.log_y,
        "series": [
            {
                "name": s.name,
                "role": s.role,
                "kind": s.kind,
                "x": place(s.x),
                "y": place(s.y),
                "minus": place(s.minus),
                "low": place(s.low),
            }
            for s in plot.series
        ],
    }


def _scene(scene: Scene) -> dict[str, Any]:
    def short(values: Array) -> Any:
        return np.round(values, 5).tolist()

    return {
        "bones": short(scene.bones),
        "bodies": [
            {
                "name": b.name,
                "role": b.role,
                "centre": short(b.centre),
                "axes": short(b.axes),
                "seen": round(b.seen, 3),
            }
            for b in scene.bodies
        ],
    }
