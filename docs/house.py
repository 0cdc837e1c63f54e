"""The picture of the rooms, drawn from the code's own imports when the site is built.

Floors are the layers of the import contract in `pyproject.toml`. An arrow is an import of one room
by another; where a chain of other arrows leads from the one to the other anyway, it is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.structure.pages import Page
from once import facts

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heft"

MARK = "<!-- house -->"
# Where a log comes by, in order; the other rooms lend a hand.
WAY = (
    *("recordings", "signals", "plants", "information", "estimators", "certainty", "fit"),
    *("applications", "cli"),
)
WIDTH, FLOOR, BOX, HEIGHT = 760, 66, 132, 34  # [px]
LANE = 22  # [px], what an arrow takes that passes a floor

Point = tuple[float, float]
Stop = str | tuple[str, str, int]  # a room, or where the arrow between two passes a floor


def floors() -> list[list[str]]:
    """Return the rooms of each floor, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[room.strip() for room in layer.split("|")] for layer in layers]


def imported(path: Path) -> Iterator[str]:
    """Yield the rooms from which a file imports, other than by its own relative names."""
    depth = len(path.relative_to(PACKAGE).parts)
    for level, module, names in facts(path).imports:
        parts = module.split(".")
        if not level and parts[0] == "heft":
            yield from parts[1:2] or names
        elif level == depth:
            yield from parts[:1] if module else names


def imports() -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    rooms = [room for floor in floors() for room in floor]
    found = {}
    for room in rooms:
        files = sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
        found[room] = {r for f in files for r in imported(f)} & set(rooms) - {room}
    return found


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return a graph without circles less the arrows that a chain of others stands for."""

    def reached(room: str) -> set[str]:
        return graph[room].union(*(reached(r) for r in graph[room]))

    return {k: v.difference(*(reached(r) for r in v)) for k, v in graph.items()}


def placed(arrows: Mapping[str, set[str]]) -> tuple[dict[Stop, Point], list[list[Stop]]]:
    """Return where the middle of each stop is, and the stops of each arrow.

    Arrows over several floors have a lane on each. On each floor stops stand in the order of the
    mean place of what they hang on, which keeps crossings few.
    """
    rows: list[list[Stop]] = [list(floor) for floor in floors()]
    level = {room: k for k, row in enumerate(rows) for room in row}
    routes: list[list[Stop]] = []
    for room, others in arrows.items():
        for other in sorted(others):
            between = [(room, other, k) for k in range(level[room] + 1, level[other])]
            for stop in between:
                rows[stop[2]].append(stop)
            routes.append([room, *between, other])
    above: dict[Stop, list[Stop]] = {}
    below: dict[Stop, list[Stop]] = {}
    for route in routes:
        for upper, lower in pairwise(route):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    x: dict[Stop, float] = {}
    for row in rows:
        x |= spread(row)
    for _ in range(12):
        for order, beside in ((rows, above), (rows[::-1], below)):
            for row in order:
                mean = {s: [x[o] for o in beside.get(s, [s])] for s in row}
                row.sort(key=lambda s: sum(mean[s]) / len(mean[s]))
                x |= spread(row)
    y = {stop: FLOOR * k + HEIGHT / 2 + 2 for k, row in enumerate(rows) for stop in row}
    return {stop: (x[stop], y[stop]) for stop in x}, routes


def spread(row: list[Stop]) -> dict[Stop, float]:
    """Return the places of one floor's stops from left to right."""
    sizes = [BOX if isinstance(stop, str) else LANE for stop in row]
    gap = (WIDTH - sum(sizes)) / (len(row) + 1)
    found, at = {}, gap
    for stop, size in zip(row, sizes, strict=True):
        found[stop] = at + size / 2
        at += size + gap
    return found


def line(points: list[Point]) -> str:
    """Return an arrow, down from a box, past others, to a box."""
    (x, y), *others = points
    y += HEIGHT / 2
    path = f"M{x:.0f} {y:.0f}"
    for k, (to_x, middle) in enumerate(others):
        last = k == len(others) - 1
        to_y = middle - HEIGHT / 2 - (5 if last else 0)
        bend = (y + to_y) / 2
        path += f" C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {to_y:.0f}"
        x, y = to_x, to_y
        if not last:
            y = middle + HEIGHT / 2
            path += f" V{y:.0f}"
    return f'<path class="arrow" d="{path}" marker-end="url(#tip)"/>'


def subject(room: str) -> str:
    """Return what a room is for: the first sentence of its docstring."""
    path = PACKAGE / room / "__init__.py"
    path = path if path.exists() else PACKAGE / f"{room}.py"
    return facts(path).subject


def box(room: str, middle: Point) -> str:
    """Return a room's box, which leads to its page."""
    x, y = middle
    step = f"{WAY.index(room) + 1} · " if room in WAY else ""
    kind = "room way" if room in WAY else "room"
    left, top = x - BOX / 2, y - HEIGHT / 2
    return (
        f'<a href="reference/{room}.html"><g class="{kind}"><title>{escape(subject(room))}</title>'
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{BOX}" height="{HEIGHT}" rx="4"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}">{step}{room}</text></g></a>'
    )


def picture() -> str:
    """Return the house as SVG, in the colour of the text around it."""
    arrows = reduced(imports())
    places, routes = placed(arrows)
    height = FLOOR * (len(floors()) - 1) + HEIGHT + 4
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    drawn = [line([places[stop] for stop in route]) for route in routes]
    drawn += [box(room, places[room]) for room in arrows]
    label = "The rooms of heft on their floors; arrows are imports"
    return (
        f'<div class="house"><svg viewBox="0 0 {WIDTH} {height}" role="group" aria-label="{label}">'
        f"{tip}{''.join(drawn)}</svg></div>"
    )


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put in the picture."""
    return markdown.replace(MARK, picture()) if MARK in markdown else markdown
