"""What was found, as text and as a page that opens offline."""

from __future__ import annotations

import json
import math
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import (
    Body,
    Part,
    Plot,
    Scene,
    Series,
    Trace,
    bones,
    ellipsoid,
    page,
    rounded,
    table,
)
from heft.dynamics import body_poses
from heft.estimators import body_statistics
from heft.information import Check, frame_change

from .identification import Identification
from .results import NORMAL, base_entries, friction_curve, parameter_entries, to_json
from .settings import Settings

MARKS = {"pass": "✓", "warn": "!", "fail": "✗"}
COLOURS = {"pass": "good", "warn": "usable", "fail": "poor"}
ORDER = {"fail": 0, "warn": 1, "pass": 2}
SEEN_MARKS = {"alone": "●", "in combination": "◐", "prior": "○", "not at all": "–"}
DRAWN_LOGS = 4
DRAWN_POINTS = 300_000  # over all curves of a page; sixteen bytes each


def _vector(numbers: Sequence[tuple[float, float]]) -> str:
    """Return the numbers of a vector and their deviations with the decimals of the largest."""
    if not all(math.isfinite(value) for value, _ in numbers):
        return ", ".join(rounded(value) for value, _ in numbers)
    largest = max(numbers, key=lambda n: abs(n[0]))
    decimals = len(rounded(*largest).partition(".")[2])
    # Adding 0.0 leaves no minus before a zero.
    return ", ".join(f"{round(value, decimals) + 0.0:.{decimals}f}" for value, _ in numbers)


def _links(found: Identification) -> list[list[str]]:
    rows = []
    for k, link in enumerate(found.problem.plant.robot.bodies_links):
        numbers = body_statistics(found.consistent, 10 * k)
        mass, std, share = numbers["mass"]
        given = f"{link.written[0]:.3g}" if link.given else "–"
        com = _vector([(numbers[f"com.{x}"][0], numbers[f"com.{x}"][1]) for x in "xyz"])
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
    for drive in found.problem.plant.robot.drives:
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
    "joint's own torque left over with full friction, filtered, on held-out logs if there are any."
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
    judged = sorted(found.checks, key=lambda c: ORDER[c.status])
    parts = [
        f"{found.problem.plant.robot.name}: {found.verdict}"
        + ("" if found.validation else ", on the logs fitted only (give --validate)"),
        "\n".join(_judgement(c) for c in judged if c.status != "pass") or "all checks passed",
        table(LINK_HEAD, _links(found)),
        table(JOINT_HEAD, _joints(found)),
        "\n".join(textwrap.wrap(LEGEND, 96)),
        table(SCORE_HEAD, _scores(found)),
    ]
    if found.problem.delay:
        parts.append(_behind(found.problem.delay))
    if sum(found.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in found.left_out.items())
        parts.append(f"Rows left out as no part of the experiment: {counts}.")
    parts += [f"note: {note}" for note in found.problem.plant.robot.notes]
    return "\n\n".join(parts)


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


def _share_seen(found: Identification) -> list[list[str]]:
    """Rows of the links, with what holds each of their ten numbers."""
    rows: dict[str, list[str]] = {}
    for entry in parameter_entries(found):
        link = entry["name"].rsplit(".", 2 if "mass" not in entry["name"] else 1)[0]
        rows.setdefault(link, [link]).append(f"{SEEN_MARKS[entry['seen']]} {entry['share']:.0%}")
    return list(rows.values())


SEEN_HEAD = ("link", "mass", "cx", "cy", "cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")


def _base_rows(found: Identification) -> list[list[str]]:
    rows = []
    for e in base_entries(found):
        value, std = e["value"], e["std"]
        known = math.isfinite(std)
        ends = [rounded(value + s * NORMAL * std, std) for s in (-1, 1)] if known else ["open"] * 2
        rows.append(
            [
                e["expression"],
                rounded(value, std),
                f"±{std:.2g}" if known else "∞",
                " … ".join(ends),
                e["unit"],
            ]
        )
    return rows


def _plots_of_friction(found: Identification) -> Iterator[Plot]:
    """Yield friction over speed of each drive: data, full with its band, and simple."""
    simple = found.friction["simple"]
    fitted = _fitted(found)
    for drive in found.problem.plant.robot.drives:
        if not any(t.kind != "armature" for t in drive.terms):
            continue
        data = [
            s for t in found.traces if t.path in fitted for s in t.sliding if s.name == drive.name
        ]
        top = max((abs(end) for s in data for end in s.fastest), default=None)
        curve = friction_curve(found, drive, top)
        velocity, effort, std = (np.array(curve[n]) for n in ("velocity", "effort", "std"))
        terms = [simple.get(f"{drive.name}.{t}", 0.0) for t in ("viscous", "coulomb", "offset")]
        plain = terms[0] * velocity + terms[1] * np.sign(velocity) + terms[2]
        reach = NORMAL * std
        series = [
            Series("data", "data", s.velocity, s.effort, "points")  # under everything else
            for s in data
        ]
        series += [
            Series("95 %", "predicted", velocity, effort + reach, "band", low=effort - reach),
            Series("simple", "simple", velocity, plain, "dashed"),
            Series("full", "predicted", velocity, effort),
        ]
        speed, unit = ("m/s", "N") if drive.linear else ("rad/s", "N·m")
        yield Plot(
            f"{drive.name} [{unit}]", f"speed [{speed}]", tuple(series), f"friction {drive.name}"
        )


def _fitted(found: Identification) -> set[str]:
    return {r.name for r in found.problem.recordings}


def _plots_of_torque(found: Identification, number: int, trace: Trace) -> Iterator[Plot]:
    """Yield measured, predicted and residual effort of each channel over time."""
    drawn = min(len(found.traces), DRAWN_LOGS) * len(trace.curves)
    for whole in trace.curves:
        curve = whole.thinned(DRAWN_POINTS // drawn)
        time = curve.time - trace.curves[0].time[0]
        yield Plot(
            f"{curve.name} [{_unit(found, curve.name)}]",
            "time [s]",
            (
                Series("measured", "measured", time, curve.measured),
                Series("predicted", "predicted", time, curve.predicted),
                Series("residual", "residual", time, curve.measured, minus=curve.predicted),
            ),
            f"time {number}",
        )


def _plots_of_spectra(found: Identification, number: int, trace: Trace) -> Iterator[Plot]:
    """Yield power spectral densities of measured effort and residual, of each channel."""
    for c, curve in enumerate(trace.curves):
        yield Plot(
            f"{curve.name} [({_unit(found, curve.name)})²/Hz]",
            "frequency [Hz]",
            (
                Series("measured", "measured", trace.frequency, trace.measured[:, c]),
                Series("residual", "residual", trace.frequency, trace.residual[:, c]),
            ),
            f"frequency {number}",
            log_x=True,
            log_y=True,
        )


def _unit(found: Identification, channel: str) -> str:
    linear = {d.name for d in found.problem.plant.robot.drives if d.linear}
    return "N" if channel in linear else "N·m"


def _scene(found: Identification) -> Scene:
    """Return the robot as a log found it, with the links' inertia before and after."""
    robot = found.problem.plant.robot
    pose = found.traces[0].pose if found.traces else np.zeros(len(robot.channels))
    poses = body_poses(robot.tree, pose)
    bodies = []
    for k, link in enumerate(robot.bodies_links):
        seen = body_statistics(found.consistent, 10 * k)["mass"][2]
        for role, ten in (("before", link.written), ("after", found.links[link.name])):
            if role == "before" and not link.given:
                continue
            place = poses[link.body] @ _pose(link.rotation, link.translation)
            shape = ellipsoid(frame_change(place[:3, :3], place[:3, 3]) @ ten)
            if shape is not None:
                bodies.append(Body(link.name, role, *shape, seen))  # type: ignore[arg-type]
    return Scene(f"{robot.name}, masses before and after", bones(robot, pose), tuple(bodies))


def _pose(rotation: Array, translation: Array) -> Array:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, translation
    return pose


def command(found: Identification) -> str | None:
    """Return the command that makes this identification again; None if it was not of files."""
    paths: dict[str, list[str]] = {}
    for entry in found.inputs:
        paths.setdefault(str(entry["role"]), []).append(str(entry["path"]))
    if "model" not in paths:
        return None
    words = ["heft", "identify", *paths["model"], *paths["fit"]]
    if "validation" in paths:
        words += ["--validate", *paths["validation"]]
    for role, option in (("columns", "--map"), ("options", "--with")):
        words += [w for path in paths.get(role, []) for w in (option, path)]
    for path in paths.get("given", []):
        words += ["--given", str(Path(path).parent)]
    said, usual = _stated(found.settings), _stated(Settings())
    for option, value in said.items():
        if value != usual[option] and value is not None:
            words += [option] if value is True else [option, str(value)]
    return shlex.join(words)


def _stated(settings: Settings) -> Mapping[str, Any]:
    """Return settings as options of the command line; the number of threads changes nothing."""
    smoothing = settings.smoothing
    return {
        "--corner": smoothing.corner,
        "--torque": smoothing.torque,
        "--rows": "differentiated" if settings.weak is None else "weak",
        "--smoother": smoothing.method,
        "--delay": smoothing.delay,
        "--robust": settings.robust,
        "--average": settings.average,
        "--trim": smoothing.trim,
        "--strength": settings.consistent.strength,
        "--prior": settings.consistent.prior,
    }


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[list[str]]:
    """Yield the settings as rows of name and value."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield [f"{above}{name}", json.dumps(value, ensure_ascii=False, default=str)]


def _score_line(found: Identification) -> str:
    scores = found.validation or found.fit
    chosen = [s.total for s in scores if s.filter_hz is not None and s.friction == "full"]
    share = f"{max(chosen):.1%}" if chosen else "–"
    if found.validation:
        return f"On logs that the fit did not see, {share} of the torque is not explained."
    return (
        f"On the logs fitted, {share} of the torque is not explained; give "
        "<code>--validate</code> to see how it holds on others."
    )


def _behind(delay: float) -> str:
    """Return how far torque comes behind motion [s], or ahead of it, as a sentence."""
    return f"Torque comes {1e3 * abs(delay):.2g} ms {'behind' if delay > 0 else 'ahead of'} motion."


def _delay(found: Identification) -> str:
    """Return what a reader must know of a delay, and of rows left out."""
    said = ""
    if found.problem.delay:
        said += f" {_behind(found.problem.delay)}"
    if sum(found.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in found.left_out.items())
        said += f" Rows left out as no part of the experiment: {escape(counts)}."
    return said


SECTIONS = {
    "verdict": "Verdict",
    "masses": "Masses",
    "friction": "Joints and friction",
    "torque": "Torque",
    "spectra": "Spectra",
    "seen": "What was seen",
    "base": "Base parameters",
    "made": "How it was made",
}
KEYS = (
    "Drag along a plot to zoom in, double-click to see all. With the keyboard: ← → move the "
    "cursor, + − zoom, Shift and ← → shift, 0 shows all. Logs thinned out keep every peak."
)


def _opening(found: Identification) -> str:
    name = escape(found.problem.plant.robot.name)
    links = "".join(f'<li><a href="#{k}">{v}</a></li>' for k, v in SECTIONS.items())
    judged = sorted(found.checks, key=lambda c: ORDER[c.status])
    items = "".join(
        f'<li><span class="{COLOURS[c.status]}">{MARKS[c.status]}</span> '
        f"{escape(_judgement(c)[2:])}</li>"
        for c in judged
    )
    worst = judged[0].status if judged else "pass"
    first = (
        "All checks passed."
        if worst == "pass"
        else f"<strong>First, {escape(judged[0].name)}:</strong> {escape(judged[0].message)}"
    )
    notes = "".join(f"<li>{escape(n)}</li>" for n in found.problem.plant.robot.notes)
    return (
        f'<header><div class="bar"><h1>{name}: what it weighs</h1>'
        '<button id="theme" type="button">Light or dark</button></div>'
        f'<p>Verdict: <span class="verdict {found.verdict}">{found.verdict}</span>. '
        f"{_score_line(found)}</p>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header><main id="content">'
        f'{_heading("verdict")}<p class="first {COLOURS[worst]}">{first}</p>'
        f'<ul class="checks">{items}</ul>'
        + (f"<h3>To know of the model file</h3><ul>{notes}</ul>" if notes else "")
        + page.table("Torque not explained", SCORE_HEAD, _scores(found))
    )


def _heading(section: str) -> str:
    return f'<h2 id="{section}">{SECTIONS[section]}</h2>'


Plots = Callable[[Identification, int, Trace], Iterator[Plot]]


def _drawn_by_log(found: Identification, plots: Plots, layout: str) -> Iterator[Part]:
    """Yield the plots of each log drawn, those of the first in sight."""
    fitted = _fitted(found)
    for number, trace in enumerate(found.traces[:DRAWN_LOGS]):
        role = "fitted" if trace.path in fitted else "held out"
        title = f"{escape(Path(trace.path).name)} ({role})"
        yield f"<details{'' if number else ' open'}><summary>{title}</summary>"
        yield f'<div class="{layout}">'
        yield from plots(found, number, trace)
        yield "</div></details>"
    if len(found.traces) > DRAWN_LOGS:
        yield f"<p>{len(found.traces) - DRAWN_LOGS} more logs are not drawn.</p>"


def _parts(found: Identification) -> Iterator[Part]:
    robot, model = found.problem.plant.robot, next(iter(found.files))
    yield _opening(found)
    yield _heading("masses")
    yield (
        "<p>Each link's mass as the solid ellipsoid of equal inertia, at its place when the first "
        "log begins. The fuller its colour, the more of it the data saw; the paler, the more is "
        "the model file's. Drag or use the arrow keys to turn, + and − to zoom.</p>"
    )
    yield page.legend([("before", "before: the model file"), ("after", "after: identified")])
    yield _scene(found)
    yield page.table("Links", LINK_HEAD, _links(found))
    yield f"<p>{escape(LEGEND)}</p>"
    yield _heading("friction")
    yield page.table("Joints", JOINT_HEAD, _joints(found))
    yield (
        "<p>Torque is the rigid body's + rotor inertia · a + friction. The table holds the simple "
        f"friction of {model}; the full one that the masses were fitted with is in "
        "<code>friction.py</code>, <code>friction.c</code> and estimate.json."
        f"{_delay(found)}</p>"
        "<p>The curves are friction in steady sliding without load. The points are the data: "
        "measured torque less that of bodies and rotor, at all accelerations and loads. The band "
        "is what the noise leaves open.</p>"
    )
    yield page.legend(
        [("data", "data"), ("predicted", "full, with 95 %"), ("simple", "simple (dashed)")]
    )
    yield '<div class="grid">'
    yield from _plots_of_friction(found)
    yield f"</div>{_heading('torque')}<p>{KEYS}</p>"
    yield page.legend(
        [("measured", "measured"), ("predicted", "predicted"), ("residual", "residual")]
    )
    yield from _drawn_by_log(found, _plots_of_torque, "stack")
    yield _heading("spectra")
    yield (
        "<p>Power spectral densities. Where the residual is flat it is noise; where it rises above "
        "that, something of the motion is not explained.</p>"
    )
    yield page.legend([("measured", "measured"), ("residual", "residual")])
    yield from _drawn_by_log(found, _plots_of_spectra, "grid")
    yield _heading("seen")
    yield (
        "<p>Of each number, the share of its doubt that the data took away, and how: ● seen "
        "alone, ◐ seen in combination with others, ○ held by the model file only, – without any "
        "effect on torque.</p>"
    )
    yield page.table("Held by", SEEN_HEAD, _share_seen(found))
    yield (
        "<p>An open end means that bodies of any such number fit the data; “prior” that only the "
        "model file holds it. The last column is how far the prior moved it.</p><details><summary>"
        f"Every number: {len(found.links)} links, ten each</summary>"
    )
    yield page.table("", NUMBER_HEAD, _all_numbers(found))
    yield f"</details>{_heading('base')}"
    yield (
        "<p>What the data tell directly: least squares without prior or constraints. The terms of "
        "friction's dictionary, which mean little one by one, are in the curves above.</p>"
    )
    yield page.table("", ("base parameter", "value", "±", "95 %", "unit"), _base_rows(found))
    yield _heading("made")
    line = command(found)
    if line is not None:
        yield f"<p>Made again by <code>{escape(line)}</code></p>"
    yield page.table(
        "Files",
        ("role", "file", "sha256"),
        [[str(i["role"]), str(i["path"]), str(i["sha256"])] for i in found.inputs],
    )
    yield "<details><summary>All settings</summary>"
    yield page.table("", ("setting", "value"), _flat(to_json(found)["settings"]))
    yield (
        f"</details></main><footer>heft {__version__}, low-pass {found.problem.corner:.4g} Hz, "
        f"prior worth {found.consistent.strength:g} samples, structure {robot.structure_hash()}."
        "</footer>"
    )


def html(found: Identification) -> str:
    """Return a self-contained page: it opens offline and asks nobody for anything."""
    return page.page(f"{found.problem.plant.robot.name}: what it weighs", _parts(found))
