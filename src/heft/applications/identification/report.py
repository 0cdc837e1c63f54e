"""Report of an identification, as text and as a self-contained HTML page."""

from __future__ import annotations

import json
import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.inputs import check_command, stated
from heft.display import Table, page, rounded, table, verdict
from heft.dynamics import FRICTION, Armature
from heft.estimators import stated_numbers
from heft.fit import NORMAL, Limit, Limits, Settings
from heft.plants import GEAR

from .entries import (
    base_entries,
    error_entry,
    estimated_anew,
    gear_entry,
    own_entries,
    parameter_entries,
)
from .identification import Identification
from .identified import percent, said_errors
from .report_figures import DRAWN_LOGS, logs, plots_of_friction, scene
from .results import settings_entry

SEEN_MARKS = {"alone": "●", "in combination": "◐", "prior": "○", "not at all": "–"}


def _vector(numbers: Sequence[tuple[float, float]]) -> str:
    """Return a vector's components as text, rounded to the decimals of the largest one."""
    if not all(math.isfinite(value) for value, _ in numbers):
        return ", ".join(rounded(value) for value, _ in numbers)
    largest = max(numbers, key=lambda n: abs(n[0]))
    decimals = len(rounded(*largest).partition(".")[2])
    # Adding 0.0 leaves no minus before a zero.
    return ", ".join(f"{round(value, decimals) + 0.0:.{decimals}f}" for value, _ in numbers)


def _links(result: Identification) -> Table:
    rows = []
    for k, link in enumerate(result.problem.plant.robot.bodies_links):
        numbers = stated_numbers(result.consistent, 10 * k)
        mass, std, share = numbers["mass"].value, numbers["mass"].std, numbers["mass"].share
        given = f"{link.written[0]:.3g}" if link.given else "–"
        com = _vector([(c.value, c.std) for c in (numbers[f"com.{x}"] for x in "xyz")])
        gone = _gone(share)
        spread = f"±{std:.2g}" if gone >= LEAST_SEEN else "prior"
        low, high = result.bounds.mass[k].tolist()
        strict = _strictly(low, high, mass)
        rows.append([link.name, given, rounded(mass, std), spread, strict, com, f"{gone:.0%}"])
    return Table(
        "Links",
        (
            "link",
            "before [kg]",
            "mass [kg]",
            "±",
            "strict 95 % [kg]",
            "centre of mass [m]",
            "from data",
        ),
        rows,
    )


def _gone(share: float) -> float:
    """Return the share of a standard deviation that data removed, given that of the variance."""
    return 1.0 - math.sqrt(max(1.0 - share, 0.0))


def _strictly(low: float, high: float, mass: float) -> str:
    """Return strict bounds of a mass as text; `open` where data and consistency say nothing."""
    if not math.isfinite(high):
        return f"{low:.3g} … open" if low > NOTHING * mass else "open"
    # As many decimals as the width has digits that count.
    decimals = max(0, 1 - math.floor(math.log10(max(high - low, NOTHING * mass))))
    low, high = max(low, 0.0), max(high, 0.0)
    return f"{low:.{decimals}f} … {high:.{decimals}f}"


def _strict_masses(result: Identification) -> str:
    widths = np.diff(result.bounds.mass, axis=1)[:, 0]
    if not len(widths):
        return ""
    middle, open_ends = float(np.median(widths)), int(np.sum(~np.isfinite(widths)))
    width = f"{middle:.2g} kg wide" if math.isfinite(middle) else "open"
    return f"Strict ranges of the masses: median {width}, {open_ends} of {len(widths)} open."


def _as_text(shown: Table, legend: str) -> list[str]:
    """Return a table for a terminal and what explains it; nothing of a table without rows."""
    rows = list(shown.rows)
    return [table(shown.head, rows), "\n".join(textwrap.wrap(legend, 96))] if rows else []


def _folded_links(result: Identification) -> tuple[Table, list[str]]:
    """Return the links that the logs show something of, and a line that names the others.

    Few are not folded: hands have dozens of links that nothing measured moves.
    """
    links = _links(result)
    rows = list(links.rows)
    unseen = [r for r in rows if r[-1] == "0%"]
    if len(unseen) <= MOST_UNSEEN:
        return links, []
    names = textwrap.wrap(", ".join(r[0] for r in unseen), 96)
    line = f"{len(unseen)} links of which these logs show nothing keep the model file's numbers:"
    seen = replace(links, rows=[r for r in rows if r[-1] != "0%"])
    return seen, ["\n".join([line, *names])]


def _joints(result: Identification) -> Table:
    parameters = result.consistent.parameters
    std = dict(zip(parameters.labels.names, parameters.std.tolist(), strict=True))
    std |= result.simple.std  # where both have a name, the simple model's number is printed
    simple = result.friction["simple"]
    scored = [s for s in (result.validation or result.fit) if s.counts]
    rows = []
    for drive in result.problem.plant.robot.drives:
        cells = [drive.name]
        for term in (*FRICTION["simple"], Armature()):
            name = f"{drive.name}.{term.name}"
            value = simple.get(name)
            if value is None:
                cells.append("–")
            elif not math.isfinite(std[name]):
                cells.append(f"{rounded(value)} ±∞" if value else "–")
            elif value == 0.0:
                cells.append("0*")
            else:
                cells.append(f"{rounded(value, std[name])} ±{std[name]:.2g}")
        errors = [s.per_joint[drive.name] for s in scored if drive.name in s.per_joint]
        rows.append([*cells, f"{max(errors):.1%}" if errors else "–"])
    return Table(
        "Joints",
        ("joint", "viscous [N·m·s/rad]", "Coulomb [N·m]", "offset [N·m]", "rotor [kg·m²]", "error"),
        rows,
    )


LEAST_SEEN = 0.25  # share of a mass's doubt that data took away, from which its ± is stated
NOTHING = 1e-3  # share of a mass that is none
MOST_NAMED = 3  # links that the next motion is designed for
MOST_LINES = 23  # of the terminal report, and two behind it, unless tables are longer
LEAST_SAID = 2  # lines of checks that did not pass, and of notes, however long the tables are
MOST_UNSEEN = 6  # links that a table lists of which the logs show nothing
LEGEND = (
    "± is one standard deviation; of a mass it includes the prior's error. “From data” is the "
    "share of the prior's standard deviation that the data removed: at 0% the value is the model "
    "file's, below 25% the deviation would be the prior's and is not stated. “Strict” is the 95 % "
    "range over all physically consistent bodies that fit the data, without a prior. Friction here "
    "is the simple model of URDF and simulators, masses are from the fit with full friction. "
    "0*: at its bound of zero. Sliding joints: N, m and kg. “Error” is the joint's relative torque "
    "error with full friction, low-passed, on held-out logs if there are any."
)


def _missed(result: Identification) -> Table:
    """Return each joint's torque errors before and after, and what is to be expected of it."""
    errors, expected = result.torque_errors, result.predicted_error
    if errors is None:
        return Table("", (), [])
    scores = (errors.written, errors.drives, errors.identified)
    rows = [
        [joint, *(percent(s.per_joint[joint]) for s in scores), percent(expected.per_joint[joint])]
        for joint in errors.identified.per_joint
        if joint in expected.per_joint
    ]
    total = ["all", *(percent(s.total) for s in scores), percent(expected.total)]
    return Table(
        f"Torque error on {Path(errors.identified.path).name}, low-passed",
        ("joint", "model file", "its masses, fitted friction", "identified", "slow motion"),
        [total, *rows],
    )


def _scores(result: Identification) -> Table:
    rows = []
    for role, scores in (("fit", result.fit), ("held out", result.validation)):
        for s in scores:
            kind = "raw" if s.filter_hz is None else f"{s.filter_hz:.3g} Hz"
            name = Path(s.path).name
            rows.append([name, role, s.friction, kind, f"{s.total:.2%}", f"{s.mean:.2%}"])
    return Table(
        "Torque not explained",
        ("log", "role", "friction", "filter", "torque error", "mean of joints"),
        rows,
    )


OWN_LEGEND = "No model file can hold them, nor friction.py: heft predict takes them by --columns."


def _own(result: Identification) -> Table:
    rows = [
        [
            e["name"],
            rounded(e["value"], e["std"]),
            f"±{e['std']:.2g}",
            e["unit"],
            f"{_gone(e['share']):.0%}",
        ]
        for e in own_entries(result)
    ]
    return Table("Own columns", ("own column", "value", "±", "unit", "seen"), rows)


GEAR_LEGEND = (
    "No model file can hold them. In N·m, rad and s (N, m and s): what is passed on is "
    "stiffness·(q_motor − q) + damping·(v_motor − v) + preload − lag·v; lag over stiffness is by "
    "how long the link's encoder comes later than the motor's."
)


def _gears(result: Identification) -> Table:
    robot, rows = result.problem.plant.robot, []
    for joint in (j for j in robot.joints if robot.options.of(j).elastic):
        gear = gear_entry(result, joint)
        numbers = (f"{rounded(gear[k], gear['std'][k])} ±{gear['std'][k]:.2g}" for k in GEAR)
        rows.append([joint, *numbers])
    return Table("Elastic gears", ("elastic gear", *GEAR), rows)


ALTERNATIVES_LEGEND = (
    "Only the consistent estimate is written. The error is filtered, with full friction, on the "
    "held-out log where it is largest, or on the logs fitted if none is held out. The margin is "
    "the least eigenvalue of a link's pseudo-inertia, in that of the model file's link: 0 and "
    "below, no such body exists. Base parameters are judged by the robot of the largest margin, of "
    "all that have them."
)


def _alternatives(result: Identification) -> Table:
    rows = [
        [
            a.name,
            f"{a.parameters} {a.what}",
            f"{a.error:.2%}",
            f"{a.existing} of {a.bodies}",
            f"{a.margin:.2g}" if math.isfinite(a.margin) else "not known",
            f"{a.negative}",
        ]
        for a in result.alternatives
    ]
    return Table(
        "Estimates of the same data",
        (
            "estimate",
            "parameters",
            "torque error",
            "links that can exist",
            "margin",
            "friction < 0",
        ),
        rows,
    )


def text(result: Identification, explain: bool = False) -> str:
    """Return the terminal report: headline, what is to be known, tables of links and joints.

    Args:
        explain: Whether to add all that else is known of the fit, and what the columns mean.
    """
    links, folded = _folded_links(result)
    joints, scores = _joints(result), _scores(result)
    parts = [
        *([table(links.head, links.rows)] if links.rows else []),
        *folded,
        table(joints.head, joints.rows),
        *_as_text(_own(result), OWN_LEGEND),
        *_as_text(_gears(result), GEAR_LEGEND),
        *_as_text(_alternatives(result), ALTERNATIVES_LEGEND),
    ]
    headline = f"{result.problem.plant.robot.name}: {result.verdict}. {_headline(result)}"
    head = textwrap.wrap(headline, 96)
    room = MOST_LINES - len(head) - sum(part.count("\n") + 2 for part in parts)
    head += _said(result, math.inf if explain else max(room, LEAST_SAID))
    if explain:
        definitions = textwrap.wrap(f"{LEGEND} {_strict_masses(result)}", 96)
        remarks = textwrap.wrap(" ".join(_of_the_rows(result)), 96)
        parts += [table(scores.head, scores.rows), "\n".join([*definitions, *remarks])]
    return "\n\n".join(["\n".join(head), *parts])


def _said(result: Identification, room: float) -> list[str]:
    """Return what else is to be known; beyond some lines the names of the rest."""
    notes = [f"note: {note}" for note in (*result.problem.plant.robot.notes, *result.notes)]
    wrong, paths = verdict.not_passed(result.checks), _paths(result)
    if "model" in paths:
        wrong = [line.replace("heft check", check_command(paths)) for line in wrong]
    said = [*_unusual(result), *(wrong or ["all checks passed"]), *notes]
    ends = [*accumulate(line.count("\n") + 1 for line in said)]
    if ends[-1] <= room:
        return said
    shown = sum(end < room for end in ends)
    names = Counter(line.partition(":")[0] for line in said[shown:])
    told = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    return [*said[:shown], f"… more ({told}): --explain says it, or report.html"]


def _headline(result: Identification) -> str:
    """Return the torque errors before and after, and those expected elsewhere."""
    return f"{_errors(result)}Expected in slow motion: {_elsewhere(result)}."


def _errors(result: Identification) -> str:
    entry = error_entry(result)
    said = said_errors(entry) if entry else ""
    return said and f"{said[0].upper()}{said[1:]}. "


def _elsewhere(result: Identification) -> str:
    predicted = result.predicted_error
    said = f"{percent(predicted.total)} of all torque"
    joints = {j: e for j, e in predicted.per_joint.items() if math.isfinite(e)}
    worst = max(joints, key=lambda j: joints[j], default=None)
    return said if worst is None else f"{said}, {percent(joints[worst])} of {worst}'s"


def _all_numbers(result: Identification) -> Table:
    rows = []
    for entry in parameter_entries(result):
        low, high = entry["interval"]
        ends = (f"{v:.4g}" if math.isfinite(v) else "open" for v in (low, high))
        # Strict bounds know no prior; an inertia's interval follows from its deviation.
        assumed = ".inertia." in entry["name"] and entry["seen"] in ("prior", "not at all")
        rows.append(
            [
                entry["name"],
                "–" if entry["before"] is None else f"{entry['before']:.4g}",
                f"{entry['value']:.4g} {entry['unit']}",
                ("prior: " if assumed else "") + " … ".join(ends),
                f"{entry['seen']} ({_gone(entry['share']):.0%})",
                f"{entry['pull']:+.2g}",
            ]
        )
    return Table("", ("number", "before", "now", "95 %", "seen", "moved by the prior"), rows)


def _share_seen(result: Identification) -> Table:
    rows: dict[str, list[str]] = {}
    for entry in parameter_entries(result):
        link = entry["name"].rsplit(".", 2 if "mass" not in entry["name"] else 1)[0]
        rows.setdefault(link, [link]).append(
            f"{SEEN_MARKS[entry['seen']]} {_gone(entry['share']):.0%}"
        )
    return Table(
        "Share seen, and how",
        ("link", "mass", "cx", "cy", "cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz"),
        list(rows.values()),
    )


def _base(result: Identification) -> Table:
    rows = []
    for e in base_entries(result):
        value, std = e["value"], e["std"]
        known = math.isfinite(std)
        ends = [rounded(value + s * NORMAL * std, std) for s in (-1, 1)] if known else ["open"] * 2
        rows.append(
            [e["expression"], rounded(value, std), _deviation(e), " … ".join(ends), e["unit"]]
        )
    return Table("", ("base parameter", "value", "±", "95 %", "unit"), rows, sums=True)


def _deviation(entry: Mapping[str, Any]) -> str:
    value, std = entry["value"], entry["std"]
    if not math.isfinite(std):
        return "∞"
    anew = ", anew" if entry.get("anew") else ""
    return "dropped" if std == 0.0 == value else f"±{std:.2g}{anew}"


def _paths(result: Identification) -> dict[str, list[str]]:
    """Return the paths of the input files by role."""
    paths: dict[str, list[str]] = {}
    for entry in result.inputs:
        paths.setdefault(str(entry["role"]), []).append(str(entry["path"]))
    return paths


def command(result: Identification) -> str | None:
    """Return the command line that repeats this identification; None without a model file."""
    paths = _paths(result)
    if "model" not in paths:
        return None
    words = ["heft", "identify", *paths["model"], *paths["fit"]]
    if "validation" in paths:
        words += ["--validate", *paths["validation"]]
    words += stated(paths)
    for path in paths.get("given", []):
        words += ["--given", str(Path(path).parent)]
    words += ["--anew", *result.anew] if result.anew else []
    said, usual = _stated(result.settings), _stated(Settings())
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
        "--rows": settings.rows,
        "--smoother": smoothing.method,
        "--delay": smoothing.delay,
        "--method": settings.method,
        "--robust": settings.robust,
        "--average": settings.average,
        "--trim": smoothing.trim,
        "--strength": settings.consistent.strength,
        "--prior": settings.consistent.prior,
    }


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[list[str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield [f"{above}{name}", json.dumps(value, ensure_ascii=False, default=str)]


def _limits(limits: Limits) -> Iterator[list[str]]:
    for name, limit in vars(limits).items():
        if isinstance(limit, Limit):
            fails = f", fails beyond {limit.fails:g}" if math.isfinite(limit.fails) else ""
            yield [f"limits.{name}", f"passes up to {limit.passes:g}{fails}"]
        else:
            yield [f"limits.{name}", f"{limit:g}"]


def _behind(delay: float) -> str:
    """Return how far torque comes behind motion [s], or ahead of it, as a sentence."""
    return f"Torque comes {1e3 * abs(delay):.2g} ms {'behind' if delay > 0 else 'ahead of'} motion."


def _rows(result: Identification) -> str:
    why = result.differentiated
    kind = "of the weak form" if why is None else f"differentiated, {why}"
    return f"Rows are {kind}; motion is smoothed at {result.problem.corner:.3g} Hz."


def _anew(result: Identification) -> str:
    count, whole = len(estimated_anew(result)), len(result.estimate.parameters.labels)
    return (
        f"Estimated anew, whatever the results given say: {', '.join(result.anew)}, of which "
        f"{count} of {whole} base parameters hold something. Of all else these results count, too."
    )


def _unusual(result: Identification) -> list[str]:
    said = []
    if result.withheld:
        said.append(f"No model file and no friction code are written: {result.withheld}.")
    if result.anew:
        said.append(_anew(result))
    if sum(result.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in result.left_out.items())
        said.append(f"Rows left out as no part of the experiment: {counts}.")
    return said


def _of_the_rows(result: Identification) -> list[str]:
    return [_rows(result), *([_behind(result.problem.delay)] if result.problem.delay else [])]


def html(result: Identification) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere."""
    return page.page(
        "applications/identification/report.html.jinja",
        title=f"{result.problem.plant.robot.name}: what it weighs",
        **_of_the_verdict(result),
        **_of_the_robot(result),
        **_of_the_data(result),
        **_of_the_making(result),
    )


def _of_the_verdict(result: Identification) -> dict[str, object]:
    return {
        "verdict": result.verdict,
        "held_out": bool(result.validation),
        "headline": _errors(result),
        "elsewhere": _elsewhere(result),
        **verdict.for_page(result.checks),
        "notes": (*result.problem.plant.robot.notes, *result.notes),
        "missed": _missed(result),
        "scores": _scores(result),
        "alternatives": _alternatives(result),
        "alternatives_legend": ALTERNATIVES_LEGEND,
    }


def _of_the_robot(result: Identification) -> dict[str, object]:
    return {
        "robot": scene(result),
        "links": _links(result),
        "joints": _joints(result),
        "own": _own(result),
        "own_legend": OWN_LEGEND,
        "gears": _gears(result),
        "gears_legend": GEAR_LEGEND,
        "columns": f"{LEGEND} {_strict_masses(result)}",
        "model": next(iter(result.files)),
        "remarks": [*_of_the_rows(result), *_unusual(result)],
        "friction": plots_of_friction(result),
    }


def _of_the_data(result: Identification) -> dict[str, object]:
    return {
        "logs": logs(result),
        "not_drawn": max(len(result.traces) - DRAWN_LOGS, 0),
        "seen": _share_seen(result),
        "links_count": len(result.tens),
        "numbers": _all_numbers(result),
        "base": _base(result),
    }


def _of_the_making(result: Identification) -> dict[str, object]:
    settings = [*_flat(settings_entry(result)), *_limits(result.settings.limits)]
    files = [[str(i["role"]), str(i["path"]), str(i["sha256"])] for i in result.inputs]
    return {
        "command": command(result),
        "files": Table("Files", ("role", "file", "sha256"), files),
        "settings": Table("", ("setting", "value"), settings),
        "version": __version__,
        "corner": f"{result.problem.corner:.4g}",
        "strength": f"{result.consistent.strength:g}",
        "structure": result.problem.plant.robot.structure_hash(),
    }


def next_motion(result: Identification, out: Path) -> str:
    """Return a line with the command that designs the next motion; empty if nothing is left.

    Links are named of which most numbers are the model file's, although motion could tell them.
    """
    robot, paths = result.problem.plant.robot, _paths(result)
    if robot.tree.free_base or robot.options.sensor or "model" not in paths:
        return ""  # motions are designed for what joints' torques show
    left = Counter(
        str(entry["name"]).partition(f".{kind}")[0]
        for entry in parameter_entries(result)
        for kind in ("mass", "com.", "inertia.")
        if entry["seen"] == "prior" and f".{kind}" in entry["name"]
    )
    links = [name for name, _ in left.most_common(MOST_NAMED)]
    if not links:
        return ""
    words = ["heft", "excite", *paths["model"]]
    words += ["--with", *paths["options"]] if "options" in paths else []
    # Results with own columns are about another robot than the model file's.
    words += [] if robot.own_names else ["--given", str(out)]
    words += ["--for", *links]
    asked = ", ".join(links)
    return f"Another motion could tell more of {asked}; to design it: {shlex.join(words)}"
