"""What was found, as text and as a page that opens offline."""

from __future__ import annotations

import html as escape
import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from . import __version__
from .checks import Check, Score
from .consistency import body_statistics
from .identification import Identification
from .results import base_entries, friction_curve, parameter_entries

MARKS = {"pass": "✓", "warn": "!", "fail": "✗"}


def rounded(value: float | None, std: float | None = None) -> str:
    """Return a number with the digits that its standard deviation leaves it, three at least."""
    if value is None or not math.isfinite(value):
        return "–"
    if std is None or not math.isfinite(std) or std <= 0.0:
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(std))
    if value != 0.0:  # never less than three digits, however unsure
        digits = max(digits, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{max(0, min(6, digits))}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a text table, first column to the left, the others to the right."""
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


def _links(found: Identification) -> list[list[str]]:
    rows = []
    for k, link in enumerate(found.problem.robot.bodies_links):
        numbers = body_statistics(found.consistent, 10 * k)
        mass, std, share = numbers["mass"]
        given = f"{link.written[0]:.3g}" if link.given else "–"
        com = ", ".join(rounded(numbers[f"com.{x}"][0], numbers[f"com.{x}"][1]) for x in "xyz")
        rows.append([link.name, given, rounded(mass, std), f"±{std:.2g}", com, f"{share:.0%}"])
    return rows


def _joints(found: Identification) -> list[list[str]]:
    parameters = found.consistent.parameters
    std = dict(zip(parameters.labels.names, parameters.std.tolist(), strict=True))
    std |= found.simple.std
    simple = found.friction["simple"]
    scored = [
        s
        for s in (found.validation or found.fit)
        if s.filter_hz is not None and s.friction == "full"
    ]
    rows = []
    for drive in found.problem.robot.drives:
        cells = [drive.name]
        for term in ("viscous", "coulomb", "offset", "armature"):
            name = f"{drive.name}.{term}"
            value = simple.get(name)
            if value is None:
                cells.append("–")
            elif value == 0.0:
                cells.append("0*")
            else:
                cells.append(f"{rounded(value, std[name])} ±{std[name]:.1g}")
        errors = [s.per_joint[drive.name] for s in scored if drive.name in s.per_joint]
        rows.append([*cells, f"{max(errors):.1%}" if errors else "–"])
    return rows


LINK_HEAD = ("link", "before [kg]", "mass [kg]", "±", "centre of mass [m]", "mass seen")
JOINT_HEAD = (
    "joint",
    "viscous [N·m·s/rad]",
    "Coulomb [N·m]",
    "offset [N·m]",
    "rotor [kg·m²]",
    "error",
)
LEGEND = (
    "± is one standard deviation, for masses widened by what the model file may be wrong; “seen” "
    "is the share of that doubt which the data took away: at 0% the number is the model file's. "
    "Friction here is the simple one that URDFs take, the masses are from the full one. "
    "0* is held at zero, where the data ask for less. Sliding joints: N, m and kg. “Error” is the "
    "joint's own torque left over with full friction, filtered."
)


def _scores(found: Identification) -> list[list[str]]:
    rows = []
    for role, scores in (("fit", found.fit), ("held out", found.validation)):
        for s in scores:
            kind = "raw" if s.filter_hz is None else f"{s.filter_hz:.3g} Hz"
            name = Path(s.path).name
            rows.append([name, role, s.friction, kind, f"{s.total:.2%}", f"{s.mean:.2%}"])
    return rows


SCORE_HEAD = ("log", "role", "friction", "filter", "torque error", "mean of joints")


def _judgement(check: Check) -> str:
    limit = f"(limit {check.limit:.3g})"
    return f"{MARKS[check.status]} {check.name}: {check.value:.3g} {limit}, {check.message}"


def text(found: Identification) -> str:
    """Return what a terminal shows: the verdict and what failed first."""
    order = {"fail": 0, "warn": 1, "pass": 2}
    judged = sorted(found.checks, key=lambda c: order[c.status])
    parts = [
        f"{found.problem.robot.name}: {found.verdict}"
        + ("" if found.validation else ", on the logs fitted only (give --validate)"),
        "\n".join(_judgement(c) for c in judged if c.status != "pass") or "all checks passed",
        table(LINK_HEAD, _links(found)),
        table(JOINT_HEAD, _joints(found)),
        "\n".join(textwrap.wrap(LEGEND, 96)),
        table(SCORE_HEAD, _scores(found)),
    ]
    if found.problem.delay:
        parts.append(f"Torque comes {1e3 * found.problem.delay:.2g} ms behind motion.")
    if sum(found.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in found.left_out.items())
        parts.append(f"Rows left out as no part of the experiment: {counts}.")
    parts += [f"note: {note}" for note in found.problem.robot.notes]
    return "\n\n".join(parts)


STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #6a737d;
  --line: #d8dee4; --good: #1a7f37; --usable: #9a6700; --poor: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #10151b; --soft: #9aa4af;
  --line: #30363d; --good: #3fb950; --usable: #d29922; --poor: #f85149; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h1, h2, li { overflow-wrap: anywhere; } .plot { overflow: hidden; }
.verdict { font-weight: 700; } .good { color: var(--good); } .usable { color: var(--usable); }
.poor { color: var(--poor); } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
td.long { white-space: normal; text-align: left; min-width: 18rem; }
ul { padding-left: 1.2rem; } ul.checks { list-style: none; padding-left: 0; }
code { font-size: .9em; }
footer { color: var(--soft); margin: 2rem 0; }
"""


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def cell(tag: str, value: str) -> str:
        long = ' class="long"' if len(value) > 60 else ""
        return f"<{tag}{long}>{escape.escape(value)}</{tag}>"

    top = "".join(cell("th", h) for h in head)
    body = "".join("<tr>" + "".join(cell("td", c) for c in r) + "</tr>" for r in rows)
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _figures(found: Identification) -> str:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
    from plotly.subplots import make_subplots

    channels = found.problem.channels
    fitted = {r.name for r in found.problem.recordings}
    parts = [f"<script>{get_plotlyjs()}</script>"]
    for number, trace in enumerate(found.traces[:4]):
        time, measured, predicted = trace.time, trace.measured, trace.predicted
        figure = make_subplots(
            rows=len(channels),
            cols=1,
            shared_xaxes=True,
            vertical_spacing=0.012,
        )
        for c, name in enumerate(channels):
            for values, label, colour in (
                (measured[:, c], "measured", "#8b949e"),
                (predicted[:, c], "predicted", "#0969da"),
                (measured[:, c] - predicted[:, c], "residual", "#cf222e"),
            ):
                figure.add_trace(
                    go.Scatter(
                        x=np.round(time, 5),
                        y=np.round(values, 4),
                        name=label,
                        mode="lines",
                        line={"color": colour, "width": 1},
                        legendgroup=label,
                        showlegend=c == 0,
                    ),
                    row=c + 1,
                    col=1,
                )
            figure.update_yaxes(title_text=escape.escape(name), row=c + 1, col=1)
        figure.update_xaxes(title_text="time [s]", row=len(channels), col=1)
        figure.update_layout(
            height=120 + 150 * len(channels),
            margin={"l": 70, "r": 10, "t": 30, "b": 40},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(128,128,128,.06)",
            font={"color": "#7d8590"},
            legend={"orientation": "h", "y": 1.02},
            hovermode="x unified",
        )
        role = "fitted" if trace.path in fitted else "held out"
        parts.append(f"<h2>Torque, {escape.escape(Path(trace.path).name)} ({role}) [N·m or N]</h2>")
        parts.append(
            '<div class="plot">'
            + figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                div_id=f"torque-{number}",
                config={"responsive": True, "displaylogo": False},
            )
            + "</div>"
        )
    return "\n".join(parts)


def _all_numbers(found: Identification) -> list[list[str]]:
    """Rows of every number that the model file got: before, after, between what, by whom."""
    rows = []
    for entry in parameter_entries(found):
        low, high = entry["interval"]
        ends = (f"{v:.4g}" if math.isfinite(v) else "open" for v in (low, high))
        rows.append(
            [
                entry["name"],
                "–" if entry["before"] is None else f"{entry['before']:.4g}",
                f"{entry['value']:.4g} {entry['unit']}",
                " … ".join(ends),
                f"{entry['seen']} ({entry['share']:.0%})",
                f"{entry['pull']:+.2g}",
            ]
        )
    return rows


NUMBER_HEAD = ("number", "before", "now", "95 %", "seen", "moved by the prior")


def _friction_figure(found: Identification) -> str:
    """Return the drives' friction in steady sliding, full with its band, and simple."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    drives = [d for d in found.problem.robot.drives if len(d.terms) > 1]
    if not drives:
        return ""
    columns = 2 if len(drives) > 1 else 1
    lines = -(-len(drives) // columns)
    figure = make_subplots(
        rows=lines,
        cols=columns,
        subplot_titles=[escape.escape(d.name) for d in drives],
        vertical_spacing=min(0.3 / lines, 0.12),
    )
    simple = found.friction["simple"]
    for k, drive in enumerate(drives):
        place = {"row": k // columns + 1, "col": k % columns + 1}
        curve = friction_curve(found, drive)
        velocity, effort, std = (np.array(curve[n]) for n in ("velocity", "effort", "std"))
        around = np.concatenate([velocity, velocity[::-1]])
        band = np.concatenate([effort + 1.96 * std, (effort - 1.96 * std)[::-1]])
        terms = [simple.get(f"{drive.name}.{t}", 0.0) for t in ("viscous", "coulomb", "offset")]
        plain = terms[0] * velocity + terms[1] * np.sign(velocity) + terms[2]
        shape = {"mode": "lines", "showlegend": k == 0}
        figure.add_trace(
            go.Scatter(
                x=around,
                y=band,
                fill="toself",
                line={"width": 0},
                fillcolor="rgba(9,105,218,.25)",
                name="95 %",
                legendgroup="band",
                hoverinfo="skip",
                **shape,
            ),
            **place,
        )
        for values, label, colour in ((effort, "full", "#0969da"), (plain, "simple", "#bf8700")):
            figure.add_trace(
                go.Scatter(
                    x=velocity,
                    y=np.round(values, 6),
                    name=label,
                    legendgroup=label,
                    line={"color": colour, "width": 1.5},
                    **shape,
                ),
                **place,
            )
    figure.update_layout(
        height=90 + 210 * lines,
        margin={"l": 55, "r": 10, "t": 60, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(128,128,128,.06)",
        font={"color": "#7d8590"},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "yref": "container"},
    )
    plot = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id="friction",
        config={"responsive": True, "displaylogo": False},
    )
    return (
        "<h2>Friction over speed [N·m or N over rad/s or m/s]</h2>"
        "<p>In steady sliding without load: presliding springs have slipped. The band is what the "
        "noise leaves open.</p>"
        f'<div class="plot">{plot}</div>'
    )


def _score_line(scores: Sequence[Score]) -> str:
    chosen = [s for s in scores if s.filter_hz is not None and s.friction == "full"]
    return f"{max(s.total for s in chosen):.1%}" if chosen else "–"


def _plus_minus(std: float) -> str:
    return f"±{std:.2g}" if math.isfinite(std) else "∞"


def _delay(found: Identification) -> str:
    """Return what a reader must know of a delay, and of rows left out."""
    said = ""
    if found.problem.delay:
        said += f" Torque comes {1e3 * found.problem.delay:.2g} ms behind motion."
    if sum(found.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in found.left_out.items())
        said += f" Rows left out as no part of the experiment: {escape.escape(counts)}."
    return said


def html(found: Identification) -> str:
    """Return a self-contained page: it opens offline and asks nobody for anything."""
    robot = found.problem.robot
    order = {"fail": 0, "warn": 1, "pass": 2}
    judged = sorted(found.checks, key=lambda c: order[c.status])
    style = {"pass": "good", "warn": "usable", "fail": "poor"}
    checks = "".join(
        f'<li><span class="{style[c.status]}">{MARKS[c.status]}</span> '
        f"{escape.escape(_judgement(c)[2:])}</li>"
        for c in judged
    )
    base = [
        [e["expression"], rounded(e["value"], e["std"]), _plus_minus(e["std"]), e["unit"]]
        for e in base_entries(found)
    ]
    inputs = [[str(i["role"]), str(i["path"]), str(i["sha256"])[:16]] for i in found.inputs]
    notes = "".join(f"<li>{escape.escape(n)}</li>" for n in robot.notes)
    held = (
        f"On logs that the fit did not see, {_score_line(found.validation)} of the torque is not "
        "explained."
        if found.validation
        else f"On the logs fitted, {_score_line(found.fit)} of the torque is not explained; give "
        "<code>--validate</code> to see how it holds on others."
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape.escape(robot.name)}: what it weighs</title><style>{STYLE}</style></head><body>
<h1>{escape.escape(robot.name)}: what it weighs</h1>
<p>Verdict: <span class="verdict {found.verdict}">{found.verdict}</span>. {held}</p>
<ul class="checks">{checks}</ul>{f"<h2>To know</h2><ul>{notes}</ul>" if notes else ""}
<h2>Links</h2>{_html_table(LINK_HEAD, _links(found))}
<h2>Joints</h2>{_html_table(JOINT_HEAD, _joints(found))}
<p>{escape.escape(LEGEND)}</p>
<p>Torque is the rigid body's + rotor inertia · a + friction. The table holds the simple friction
of {next(iter(found.files))}; the full one that the masses were fitted with is in
<code>friction.py</code>, <code>friction.c</code> and estimate.json.{_delay(found)}</p>
<h2>Scores</h2>{_html_table(SCORE_HEAD, _scores(found))}
{_figures(found)}
{_friction_figure(found)}
<h2>Every number</h2>
<p>An open end means that bodies of any such number fit the data; “prior” that only the model file
holds it. The last column is how far the prior moved it.</p>
<details><summary>{len(found.links)} links, ten numbers each</summary>
{_html_table(NUMBER_HEAD, _all_numbers(found))}</details>
<h2>What the data tell directly</h2>
<p>Base parameters: least squares without prior or constraints. The terms of friction's
dictionary, which mean little one by one, are in the curves above.</p>
{_html_table(("base parameter", "value", "±", "unit"), base)}
<h2>From what</h2>{_html_table(("role", "file", "sha256"), inputs)}
<footer>heft {__version__}, low-pass {found.problem.corner:.4g} Hz, prior worth
{found.consistent.strength:g} samples, structure {robot.structure_hash()}.</footer>
</body></html>
"""
