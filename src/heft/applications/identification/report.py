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
from numpy.typing import NDArray

from heft.applications.inputs import check_command, stated
from heft.arrays import Array
from heft.display import (
    Body,
    Plot,
    Series,
    Sticks,
    Table,
    Trace,
    bones,
    over_time,
    placed,
    render,
    solids,
    table,
    verdict,
)
from heft.dynamics import FRICTION, body_poses
from heft.estimators import stated_numbers
from heft.fit import NORMAL, Limit, Limits, Settings
from heft.information import Check

from . import contract
from .contract import Contract, percent
from .entries import estimated_anew, friction_curve, parameter_entries
from .identification import Identification
from .results import content, settings_entry

MOST_LINES = 23  # of the terminal report, and two behind it, unless tables are longer
DRAWN_LOGS = 4
PLAYED = 15.0  # of the first one's motion at most [s]
PLAYED_POINTS = 16_000  # of its frames together, of some twenty-one bytes each
LEGENDS = {  # of tables, by the names of what makes them
    "links": "± is one standard deviation; of a mass it includes the prior's error. “From data” is "
    "the share of the prior's standard deviation that the data removed: at 0% the value is the "
    "model file's, below 25% the deviation would be the prior's and is not stated. “Strict” is the "
    "95 % range over all physically consistent bodies that fit the data, without a prior. Friction "
    "here is the simple model of URDF and simulators, masses are from the fit with full friction. "
    "0*: at its bound of zero. Sliding joints: N, m and kg. “Error” is the joint's relative torque "
    "error with full friction, low-passed, on held-out logs if there are any.",
    "own": "No model file can hold them, nor friction.py: heft predict takes them by --columns.",
    "gears": "No model file can hold them. In N·m, rad and s (N, m and s): what is passed on is "
    "stiffness·(q_motor − q) + damping·(v_motor − v) + preload − lag·v; lag over stiffness is by "
    "how long the link's encoder comes later than the motor's.",
    "alternatives": "Only the consistent estimate is written. The error is filtered, with full "
    "friction, on the held-out log where it is largest, or on the logs fitted if none is held out. "
    "The margin is the least eigenvalue of a link's pseudo-inertia, in that of the model file's "
    "link: 0 and below, no such body exists. Base parameters are judged by the robot of the "
    "largest margin, of all that have them.",
}


def _folded(links: Table) -> tuple[Table, list[str]]:
    """Return the links that the logs show something of, and a line that names the others.

    Few are not folded: hands have dozens of links that nothing measured moves.
    """
    rows = list(links.rows)
    unseen = [r for r in rows if r[-1] == "0%"]
    if len(unseen) <= 6:
        return links, []
    names = textwrap.wrap(", ".join(r[0] for r in unseen), 96)
    line = f"{len(unseen)} links that these logs do not excite keep the model file's values:"
    seen = replace(links, rows=[r for r in rows if r[-1] != "0%"])
    return seen, ["\n".join([line, *names])]


def text(result: Identification, explain: bool = False) -> str:
    """Return the terminal report: headline, what is to be known, tables of links and joints.

    Args:
        explain: Whether to add all that else is known of the fit, and what the columns mean.
    """
    stated = content(result)
    links, folded = _folded(contract.links(stated))
    joints = contract.joints(stated)
    parts = [
        *([table(links.head, links.rows)] if links.rows else []),
        *folded,
        table(joints.head, joints.rows),
    ]
    for name in ("own", "gears", "alternatives"):
        shown = getattr(contract, name)(stated)
        if shown.rows:
            parts += [table(shown.head, shown.rows), _wrapped(LEGENDS[name])]
    head = _wrapped(
        f"{result.problem.plant.robot.name}: {result.verdict}. {_errors(stated)}"
        f"Expected error in slow motion: {_elsewhere(stated)}."
    )
    room = MOST_LINES - head.count("\n") - 1 - sum(part.count("\n") + 2 for part in parts)
    # two lines of checks that did not pass, and of notes, however long the tables are
    remarks = _remarks(result, math.inf if explain else max(room, 2))
    if explain:
        scores = contract.scores(stated)
        definitions = _wrapped(f"{LEGENDS['links']} {contract.strict_masses(stated)}")
        rows = _wrapped(" ".join(_of_the_rows(result)))
        parts += [table(scores.head, scores.rows), f"{definitions}\n{rows}"]
    return "\n\n".join(["\n".join([head, *remarks]), *parts])


def _wrapped(sentences: str) -> str:
    return "\n".join(textwrap.wrap(sentences, 96))


def _remarks(result: Identification, room: float) -> list[str]:
    """Return what else is to be known; beyond some lines the names of the rest."""
    notes = [f"note: {note}" for note in (*result.problem.plant.robot.notes, *result.notes)]
    wrong = verdict.not_passed(_checks(result))
    lines = [*_unusual(result), *(wrong or ["all checks passed"]), *notes]
    ends = [*accumulate(line.count("\n") + 1 for line in lines)]
    if ends[-1] <= room:
        return lines
    shown = sum(end < room for end in ends)
    names = Counter(line.partition(":")[0] for line in lines[shown:])
    more = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in names.items())
    return [*lines[:shown], f"… more ({more}): --explain says it, or report.html"]


def _checks(result: Identification) -> list[Check]:
    """Return the checks, with `heft check` as it is to be typed."""
    paths = _paths(result)
    typed = check_command(paths) if "model" in paths else "heft check"
    return [replace(c, message=c.message.replace("heft check", typed)) for c in result.checks]


def _errors(stated: Contract) -> str:
    """Return the torque errors before and after as a sentence; none if no log is filtered."""
    if stated["torque_errors"] is None:
        return ""
    sentence = contract.errors_before_and_after(stated["torque_errors"])
    return f"{sentence[0].upper()}{sentence[1:]}. "


def _elsewhere(stated: Contract) -> str:
    """Return the torque error to be expected, and the joint where it is largest."""
    predicted = stated["predicted_error"]
    share = f"{percent(predicted['total'])} of all torque"
    joints = {j: e for j, e in predicted["per_joint"].items() if e is not None}
    worst = max(joints, key=lambda j: joints[j], default=None)
    return (
        share if worst is None else f"{share}; at most {percent(joints[worst])}, of {worst}'s own"
    )


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
    asked, usual = _stated(result.settings), _stated(Settings())
    for option, value in asked.items():
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


def _unusual(result: Identification) -> list[str]:
    sentences = []
    if result.withheld:
        sentences.append(f"No model file and no friction code are written: {result.withheld}.")
    if result.anew:
        count, every = len(estimated_anew(result)), len(result.estimate.parameters.labels)
        sentences.append(
            f"Estimated anew, whatever the results given say: {', '.join(result.anew)}, of which "
            f"{count} of {every} base parameters hold something. Of all else these results count, "
            "too."
        )
    if sum(result.left_out.values()):
        counts = ", ".join(f"{n} of {Path(k).name}" for k, n in result.left_out.items())
        sentences.append(f"Rows left out as no part of the experiment: {counts}.")
    return sentences


def _of_the_rows(result: Identification) -> list[str]:
    why, delay = result.differentiated, result.problem.delay
    kind = "of the weak form" if why is None else f"differentiated, {why}"
    rows = f"Rows are {kind}; motion is smoothed at {result.problem.corner:.3g} Hz."
    return [rows, _behind(delay)] if delay else [rows]


def _behind(delay: float) -> str:
    """Return how far torque comes behind motion [s], or ahead of it, as a sentence."""
    return f"Torque comes {1e3 * abs(delay):.2g} ms {'behind' if delay > 0 else 'ahead of'} motion."


def html(result: Identification) -> str:
    """Return the report as a self-contained HTML page, which loads nothing from elsewhere."""
    stated, robot = content(result), result.problem.plant.robot
    errors = stated["torque_errors"]
    totals = [percent(errors[k]["total"]) for k in ("model_file", "identified") if errors]
    settings = [*_flat(settings_entry(result)), *_limits(result.settings.limits)]
    files = [[str(i["role"]), str(i["path"]), str(i["sha256"])] for i in result.inputs]
    return render(
        "applications/identification/report.html.jinja",
        title=f"{robot.name}: what it weighs",
        # what it says at once
        verdict=result.verdict,
        held_out=bool(result.validation),
        gain=" → ".join(totals),
        headline=_errors(stated),
        elsewhere=_elsewhere(stated),
        advice=next_motion(result, Path("identified")),
        **verdict.for_page(_checks(result)),
        notes=(*robot.notes, *result.notes),
        missed=contract.missed(stated),
        scores=contract.scores(stated),
        alternatives=contract.alternatives(stated),
        legends=LEGENDS,
        # the robot
        robot=_scene(result),
        links=contract.links(stated),
        joints=contract.joints(stated),
        own=contract.own(stated),
        gears=contract.gears(stated),
        columns=f"{LEGENDS['links']} {contract.strict_masses(stated)}",
        model=next(iter(result.files)),
        remarks=[*_of_the_rows(result), *_unusual(result)],
        friction=_plots_of_friction(result),
        # the data
        logs=_logs(result),
        not_drawn=max(len(result.traces) - DRAWN_LOGS, 0),
        seen=contract.share_seen(stated),
        links_count=len(result.tens),
        numbers=contract.all_numbers(stated),
        base=contract.base(stated),
        # how it was made
        command=command(result),
        files=Table("Files", ("role", "file", "sha256"), files),
        settings=Table("", ("setting", "value"), settings),
        corner=f"{result.problem.corner:.4g}",
        strength=f"{result.consistent.strength:g}",
        structure=robot.structure_hash(),
    )


def next_motion(result: Identification, out: Path) -> str:
    """Return a line with the command that designs the next motion; empty if nothing is left.

    Links are named of which most numbers are the model file's, although motion could tell them:
    one whose mass has no effect shows at most an inertia that is added to a rotor's.
    """
    robot, paths = result.problem.plant.robot, _paths(result)
    if robot.tree.free_base or robot.options.sensor or "model" not in paths:
        return ""  # motions are designed for what joints' torques show
    assumed = {
        name: sum(entry["seen"] == "prior" for entry in entries)
        for name, entries in contract.bodies({"parameters": [*parameter_entries(result)]})
        if entries[0]["seen"] != "not at all"
    }
    links = [name for name in sorted(assumed, key=lambda n: -assumed[n])[:3] if assumed[name]]
    if not links:
        return ""
    words = ["heft", "excite", *paths["model"]]
    words += ["--with", *paths["options"]] if "options" in paths else []
    # Results with own columns are about another robot than the model file's.
    words += [] if robot.own_names else ["--given", str(out)]
    words += ["--for", *links]
    asked = ", ".join(links)
    return f"Poorly excited: {asked}; to design a motion for them: {shlex.join(words)}"


def _logs(result: Identification) -> list[dict[str, object]]:
    """Return the plots of each log that is drawn, those that the fit did not see first."""
    return [
        {
            "name": Path(trace.path).name,
            "role": "fitted" if trace.fitted else "held out",
            "torque": _plots_of_torque(result, number, trace),
            "spectra": spectra(trace, _units(result), f"frequency {number}"),
        }
        for number, trace in enumerate(_drawn(result))
    ]


def _drawn(result: Identification) -> list[Trace]:
    """Return the logs whose curves are drawn, those that the fit did not see first."""
    return sorted(result.traces[:DRAWN_LOGS], key=lambda trace: trace.fitted)


def _plots_of_friction(result: Identification) -> Iterator[Plot]:
    """Yield friction over velocity of each drive: data, full model with 95 % band, simple model."""
    simple = result.friction["simple"]
    data = [s for trace in result.traces if trace.fitted for s in trace.sliding]
    for drive in result.problem.plant.robot.drives:
        if not drive.friction:
            continue
        top = max(map(abs, result.fastest.get(drive.name, (0.0,))))
        curve = friction_curve(result, drive, top)
        velocity, effort, std = (np.array(curve[n]) for n in ("velocity", "effort", "std"))
        plain = sum(
            (
                simple.get(f"{drive.name}.{t.name}", 0.0) * t.steady(velocity)
                for t in FRICTION["simple"]
            ),
            np.zeros(len(velocity)),
        )
        series = [
            Series("data", "data", s.velocity, s.effort, "points")  # under everything else
            for s in data
            if s.name == drive.name
        ]
        series += [
            Series("95 %", "predicted", velocity, effort, "band", reach=NORMAL * std),
            Series("simple", "simple", velocity, plain, "dashed"),
            Series("full", "predicted", velocity, effort),
        ]
        speed, unit = ("m/s", "N") if drive.linear else ("rad/s", "N·m")
        yield Plot(
            drive.name,
            f"speed [{speed}]",
            tuple(series),
            f"friction {drive.name}",
            f"friction [{unit}]",
        )


def _units(result: Identification) -> dict[str, str]:
    return {c.name: c.unit for c in result.problem.plant.channels}


def _plots_of_torque(result: Identification, number: int, trace: Trace) -> Iterator[Plot]:
    drawn = min(len(result.traces), DRAWN_LOGS) * len(trace.curves)
    reach, units = _reach(result, trace), _units(result)
    for c, curve in enumerate(trace.curves):
        unit = units[curve.name]
        title = f"{curve.name}: rms {_rms_error(trace, c, unit)}"
        # 65 000 points over all curves of a page, of 27 bytes each: it has 3 MB at most
        shown = curve.thinned(65_000 // drawn)
        bands: list[Series] = []
        if curve.name in reach:
            wide = np.interp(shown.time, trace.moments.time, reach[curve.name])
            middle = (shown.time - shown.time[0], shown.predicted)
            bands += [
                Series("predicted, 95 %", "predicted", *middle, "band", reach=wide),
                Series("residual, 95 %", "after", *middle, "band", shown.predicted, wide),
            ]
        yield over_time(shown, title, f"time {number}", unit, *bands)


def _reach(result: Identification, trace: Trace) -> dict[str, Array]:
    """Return what 95 % of torque keeps within about its prediction, by joint, at the `moments`."""
    robot, some = result.problem.plant.robot, trace.moments
    if not some.variance.size or not _first_run(some.time).all():
        return {}
    velocity = some.velocity @ robot.drives.ratios
    std = result.deviation.in_all(robot, some.variance.T, velocity, some.distance)
    return {c: NORMAL * s for c, s in zip(robot.channels, std, strict=True) if np.isfinite(s).all()}


def _rms_error(trace: Trace, channel: int, unit: str) -> str:
    residual, measured = float(trace.rms_residual[channel]), float(trace.rms_measured[channel])
    share = f" ({residual / measured:.1%})" if measured > 0.0 else ""
    return f"{residual:.3g} {unit}{share}"


def spectra(trace: Trace, units: Mapping[str, str], group: str, prefix: str = "") -> Iterator[Plot]:
    """Yield the spectra of what was measured and left over, by channel with its unit."""
    for c, curve in enumerate(trace.curves):
        series = (
            Series("measured", "measured", trace.frequency, trace.measured[:, c]),
            Series("residual", "residual", trace.frequency, trace.residual[:, c]),
        )
        title = f"{prefix}{curve.name} [({units[curve.name]})²/Hz]"
        yield Plot(title, "frequency [Hz]", series, group, log_x=True, log_y=True)


def _scene(result: Identification) -> Sticks:
    """Return the robot as a log found it, with the links' inertia before and after.

    It moves as in the first of the logs that are drawn, beside the torques that each joint needs.
    """
    robot = result.problem.plant.robot
    title = "Masses before and after"
    time, position, torques = np.zeros(1), np.zeros((1, len(robot.channels))), None
    links, tens = robot.bodies_links, result.tens
    for trace in [t for t in _drawn(result) if _first_run(t.moments.time).sum() > 1][:1]:
        first = _first_run(trace.moments.time)
        at, moved = trace.moments.time[first], trace.moments.position[first]
        per_frame = 2 * (len(robot.tree.names) + 1) + 8 * len(links)  # points
        count = max(min(PLAYED_POINTS // per_frame, round(20.0 * PLAYED)), 2)
        time = np.linspace(0.0, min(at[-1] - at[0], PLAYED), count)
        position = np.array([np.interp(time + at[0], at, q) for q in moved.T]).T
        torques = _bars(trace, time + at[0])
        title += (
            f", as {Path(trace.path).name} moves them; "
            "bars: torque by model file, measured, identified"
        )
    poses = body_poses(robot.tree, position)
    bodies = list[Body]()
    for k, link in enumerate(links):
        seen = stated_numbers(result.consistent, 10 * k)["mass"].share
        bodies += placed(link, poses, link.written, "before", seen=seen) if link.given else []
        bodies += placed(link, poses, tens[link.name], "after", seen=seen)
    return solids(title, bones(robot, poses), bodies, time, torques)


def _first_run(time: Array) -> NDArray[np.bool_]:
    """Return which times come before the clock was set back, if it was, shape (n,)."""
    return np.asarray(np.cumsum(np.diff(time, prepend=-np.inf) < 0.0) == 0)


def _bars(trace: Trace, time: Array) -> tuple[Sequence[str], dict[str, Array]]:
    """Return each curve's efforts as shares of its largest, for `Sticks.torques`."""
    kinds: dict[str, list[Array]] = {"before": [], "measured": [], "after": []}
    for curve in trace.curves:
        most = max(float(np.nanmax(np.abs(curve.measured))), 1e-300)
        values = (curve.measured if curve.before is None else curve.before, curve.measured)
        for kind, shown in zip(kinds.values(), (*values, curve.predicted), strict=True):
            drawn = np.isfinite(curve.time) & np.isfinite(shown)
            at, share = curve.time[drawn], shown[drawn] / most
            first = _first_run(at)
            kind.append(np.clip(np.interp(time, at[first], share[first]), -1.1, 1.1))
    return [c.name for c in trace.curves], {k: np.array(v).T for k, v in kinds.items()}
