"""Report of a comparison of two identifications, as text and as a self-contained HTML page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import numpy as np

from heft.arrays import Array
from heft.display import Plot, Series, Table, render, rounded, table
from heft.fit import NORMAL

from .comparison import ALARM, Change, Comparison, Curves, Kind
from .contract import percent

RULE = (
    f"{{marked}}: significant at {ALARM:.0%} over all {{count}} quantities (Holm's method), the "
    "clearest first, each given those before it. A change is the least-squares estimate from both "
    "sides' logs, without prior or constraints, if nothing else changed; ± is one standard "
    "deviation. “Seen from” is the change that nine of ten such comparisons would mark. A body is "
    "tested in all ten parameters; its mass is stated. Friction follows temperature: compare a "
    "robot as warm as it was."
)
KINDS: dict[Kind, tuple[str, str, str]] = {  # title, what each is of, what leads the changed ones
    "friction": ("Friction", "joint", "friction changed in"),
    "body": ("Bodies", "body", "bodies changed:"),
    "own": ("Own columns", "column", "own columns changed:"),
}


def text(compared: Comparison) -> str:
    """Return the terminal report: significant changes, friction first."""
    parts = [
        f"{compared.robot}: {_sentence(compared)}",
        f"before: {compared.before}\nafter:  {compared.after}",
        *(["\n".join(_errors(compared))] if compared.errors else []),
    ]
    parts += [f"note: {note}" for note in compared.notes]
    for kind, title in _titles(compared).items():
        changes = compared.of(kind)
        parts.append(f"{title}: {sum(c.clear for c in changes)} of {len(changes)} changed")
        if changes:
            rows = [["*" if c.clear else " ", *_row(c)] for c in changes]
            parts.append(table(("", *_head(kind)), rows))
    suspect = _suspect(compared)
    if suspect:
        parts.append("\n".join(textwrap.wrap(suspect, 96)))
    parts.append(
        "\n".join(textwrap.wrap(RULE.format(marked="Marked *", count=len(compared.changes)), 96))
    )
    return "\n\n".join(parts)


def html(compared: Comparison) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere."""
    return render(
        "applications/identification/compare_report.html.jinja",
        title=f"{compared.robot}: what changed",
        changed=any(c.clear for c in compared.changes),
        sentence=_sentence(compared),
        before=compared.before,
        after=compared.after,
        notes=[*_errors(compared), *compared.notes],
        kinds=[_of_kind(compared, kind, title) for kind, title in _titles(compared).items()],
        suspect=_suspect(compared),
        rule=RULE.format(marked="In bold, and first,", count=len(compared.changes)),
    )


def _titles(compared: Comparison) -> dict[Kind, str]:
    return {k: title for k, (title, *_) in KINDS.items() if k != "own" or compared.of(k)}


def _head(kind: Kind) -> tuple[str, ...]:
    seen = ("seen from",) if kind != "body" else ()
    return (KINDS[kind][1], "what", "before", "after", "change", "p", *seen)


def _of_kind(compared: Comparison, kind: Kind, title: str) -> dict[str, object]:
    changes = compared.of(kind)
    changed = {c.name for c in changes if c.clear}
    groups = {}
    for group, clear in (("changed", True), ("unchanged", False)):
        chosen = [c for c in changes if c.clear == clear]
        marked = range(len(chosen) if clear else 0)
        curves = compared.curves if kind == "friction" else ()
        groups[group] = {
            "count": len(chosen),
            "changes": Table("", _head(kind), [_row(c) for c in chosen], marked),
            "plots": [p for c in curves if (c.name in changed) == clear for p in _plots(c)],
        }
    return {"name": kind, "title": title, "count": len(changes), **groups}


def _sentence(compared: Comparison) -> str:
    clear = [c for c in compared.changes if c.clear]
    names = {kind: dict.fromkeys(c.name for c in clear if c.kind == kind) for kind in KINDS}
    clauses = [f"{begin} {', '.join(names[k])}" for k, (*_, begin) in KINDS.items() if names[k]]
    withheld = f"; friction not compared in {', '.join(compared.withheld)}"
    changed = ", and ".join(clauses) or "no significant change"
    return changed + (withheld if compared.withheld else "")


def _suspect(compared: Comparison) -> str:
    if not compared.suspects:
        return ""
    # from nine tenths of the change on a link is named for it
    named = [f"{name} {share:.1%}" for name, share in compared.suspects if share > 0.9][:3]
    if not named:
        return "No change of a single link explains the change of the bodies."
    return f"Of the change of the bodies, that of one link explains: {', '.join(named)}."


def _errors(compared: Comparison) -> list[str]:
    sides = ("before", "after")
    return [f"{side}: {errors}" for side, errors in zip(sides, compared.errors, strict=False)]


def _row(change: Change) -> list[str]:
    value, std = change.difference
    visible, stated = np.isfinite(std), (change.before, change.after)
    sign = "+" if value > 0.0 else ""
    share = f", {percent(change.least / abs(change.before))}" if change.before else ""
    return [
        change.name,
        change.quantity,
        *("" if x is None else rounded(x, std if visible else 0.0) for x in stated),
        f"{sign}{rounded(value, std)} ±{std:.2g} {change.unit}"
        if visible
        else "not identifiable alone",
        f"{change.probability:.2g}" if change.probability >= 1e-4 else "<0.0001",
        *([f"{change.least:.2g}{share}" if visible else ""] if change.kind != "body" else []),
    ]


def _plots(curves: Curves) -> Iterator[Plot]:
    speed, unit = ("m/s", "N") if curves.linear else ("rad/s", "N·m")

    def drawn(name: str, role: str, values: Array, std: Array) -> tuple[Series, Series]:
        edges = Series("95 %", role, curves.velocity, values, "band", reach=NORMAL * std)
        return edges, Series(name, role, curves.velocity, values)

    axis, group = f"speed [{speed}]", f"friction {curves.name}"
    before = drawn("before", "before", curves.before, curves.before_std)
    after = drawn("after", "after", curves.after, curves.after_std)
    yield Plot(curves.name, axis, (*before, *after), group, f"friction [{unit}]")
    change = drawn(
        "change",
        "residual",
        curves.after - curves.before,
        np.hypot(curves.before_std, curves.after_std),
    )
    yield Plot(f"{curves.name}, change", axis, change, group, f"change [{unit}]")
