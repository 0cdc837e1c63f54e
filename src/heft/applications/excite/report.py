"""What a designed motion is told to a user by: text for the terminal, a page, files."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.inputs import Inputs
from heft.display import Plot, Series, Table, animation, render, table
from heft.errors import install, spelt
from heft.excitation import Certificate
from heft.files import json_text, new_folder, require_own
from heft.information import SYMBOLS
from heft.recordings import JointTrajectory, messages_can_be_written, write_table
from heft.recordings import Table as LogTable

from .experiment_design import Excited, ExciteSettings, Prediction, excite, is_information
from .planned import open_experiment

WORST = 8  # base parameters that the terminal lists


def text_of(excited: Excited, model: Path, out: Path) -> str:
    """Return the summary for the terminal, with the command that plays the motion of a model."""
    made = excited.design
    proven, *sentences = _sentences(excited)
    limits = table(list(LIMIT_HEAD), [_row(c) for c in excited.tightest])
    lines = [proven, limits, "", *sentences, ""]
    counted = [p for p in excited.predictions if p.counts]
    rows = [
        [p.expression if len(p.expression) <= 60 else f"{p.expression[:57]}…", *_cells(p), p.unit]
        for p in sorted(counted, key=lambda p: -p.falls_to)[:WORST]
    ]
    head = ("base parameter", "before", "after", "")
    lines += [_predictions_head(excited), table(head, rows), ""]
    if excited.untold:
        lines += [
            f"Structurally unidentifiable, by any motion: {by_link(excited.untold)}.",
            "",
        ]
    if made.interrupted:
        lines += ["Stopped early: the best motion found until then.", ""]
    lines.append(f"{out / 'report.html'}   play it:")
    lines.append(f"  heft view {spelt(model)} {spelt(out / 'motion.parquet')}")
    return "\n".join(lines)


LIMIT_HEAD = ("limit", "closest", "proven", "limit", "margin", "unit")


def _row(proof: Certificate) -> list[str]:
    kind = proof.quantity.removeprefix("least ")
    near = kind == "clearance"
    margin = f"{1e3 * proof.margin:.1f} mm" if near else f"{proof.margin:.1%}"
    numbers = (f"{proof.bound:.4g}", f"{proof.limit:.4g}", margin)
    return [kind, proof.of, *numbers, proof.unit]


def _sentences(excited: Excited) -> Iterator[str]:
    made, planned = excited.design, excited.planned
    count = len(made.random)
    yield (
        "Certified in continuous time, for the motion as commanded: tracking errors must stay "
        "below the margin of clearance, which is between capsules around links."
    )
    yield (
        f"As informative as the best of {count} random motions within the same limits, recorded "
        f"{excited.time_factor:.1f} times as long (log det of the information {made.gain:+.0f}, "
        f"{made.gain_over_median:+.0f} over the median one's)."
        if is_information(excited.settings)
        else f"Its criterion is {made.gain:.2f} above that of the best of {count} random motions, "
        f"{made.gain_over_median:.2f} above the usual one (natural logarithms)."
    )
    yield (
        f"Condition number of the base regressor: {made.conditions.scaled:.3g} with weighted "
        f"columns of one length, {made.conditions.raw:.3g} in SI units. It depends on units, and "
        "alone says little."
    )
    if excited.cost():
        yield excited.cost()
    source = "those of the results given" if planned.known is not None else "assumed"
    yield (
        f"Deviations below are for {planned.rate:.0f} independent rows a second with noise of "
        f"{', '.join(f'{s:.2g}' for s in planned.noise)} N·m or N ({source})."
    )


def by_link(names: Sequence[str]) -> str:
    """Return parameters as text, gathered by link: `base (all), forearm (m, I.xx)`."""
    gathered: dict[str, list[str]] = {}
    for name in names:
        symbol = next((s for s in SYMBOLS if name.endswith(f".{s}")), name.rpartition(".")[2])
        gathered.setdefault(name.removesuffix(f".{symbol}"), []).append(symbol)
    return ", ".join(
        f"{owner} ({'all' if set(symbols) >= set(SYMBOLS) else ', '.join(symbols)})"
        for owner, symbols in gathered.items()
    )


def _predictions_head(excited: Excited) -> str:
    counted = sum(p.counts for p in excited.predictions)
    if excited.planned.known is None:
        return f"Predicted standard deviations, {min(WORST, counted)} of {counted}:"
    falls = [p.falls_to for p in excited.predictions if p.counts and math.isfinite(p.before)]
    middle = float(np.median(falls)) if falls else math.nan
    new = sum(not math.isfinite(p.before) for p in excited.predictions if p.counts)
    more = f", {new} become known" if new else ""
    return (
        f"Predicted standard deviations fall to {middle:.0%} of what they are (median of "
        f"{counted}){more}; those that fall least:"
    )


def _cells(p: Prediction) -> tuple[str, str]:
    return ("–" if not math.isfinite(p.before) else f"±{p.before:.2g}", f"±{p.after:.2g}")


def page_of(excited: Excited) -> str:
    """Return the report's page."""
    made = excited.design
    limits = Table(
        "What is proven, for all times",
        LIMIT_HEAD,
        [
            _row(c)
            for c in sorted(excited.certificates, key=lambda c: c.margin)
            if math.isfinite(c.limit)
        ],
    )
    predictions = Table(
        "Predicted standard deviations of the base parameters",
        ("base parameter", "before", "after", "unit"),
        [[p.expression, *_cells(p), p.unit] for p in excited.predictions],
        marked=[
            k for k, p in enumerate(excited.predictions) if p.counts and excited.settings.about
        ],
        sums=True,
    )
    counted = sorted((p for p in excited.predictions if p.counts), key=lambda p: -p.falls_to)
    lap = excited.joint_trajectory(animation.FRAMES_PER_SECOND)
    end = int(np.searchsorted(lap.time, excited.trajectory.duration, "right"))
    played = JointTrajectory(lap.joints, lap.time[:end], lap.position[:end])
    return render(
        "applications/excite/report.html.jinja",
        title=f"Excitation of {excited.planned.robot.name}",
        motion=replace(animation.sticks(excited.planned.robot, played), title="The motion, played"),
        least=replace(
            predictions,
            caption=_predictions_head(excited),
            rows=[[p.expression, *_cells(p), p.unit] for p in counted[:WORST]],
            marked=(),
        ),
        sentences=list(_sentences(excited)),
        tightest=Table("", LIMIT_HEAD, [_row(c) for c in excited.tightest]),
        limits=limits,
        predictions=predictions,
        plots=list(_plots(excited)),
        untold=by_link(excited.untold),
        remarks=excited.planned.remarks,
        interrupted=made.interrupted,
        settings=_settings(excited),
    )


def _plots(excited: Excited) -> Iterator[Plot]:
    time = excited.trajectory.times(50.0)  # [Hz]
    planned = excited.planned
    linear = {d.name for d in planned.robot.drives if d.linear}
    curves = (("position", "rad", "m"), ("velocity", "rad/s", "m/s"))
    for order, (name, *units) in enumerate(curves):
        values, stated = excited.trajectory.derivative(time, order), planned.stated
        limits = [(stated.lower, stated.upper), (-stated.velocity, stated.velocity)][order]
        for k, channel in enumerate(planned.carrier.moving):
            edges = [
                Series("limit", "soft", time[[0, -1]], np.full(2, edge[channel]), "dashed")
                for edge in limits
            ]
            curve = Series(name, "measured", time, values[:, k])
            joint = planned.robot.joints[channel]
            unit = f"[{units[joint in linear]}]"
            yield Plot(f"{joint}, {name}", "time [s]", (*edges, curve), "time", unit)


def _settings(excited: Excited) -> str:
    asked = excited.settings.design
    basis = (
        f"Fourier series of {asked.harmonics} harmonics"
        if asked.basis == "fourier"
        else f"spline of {asked.intervals} intervals"
    )
    what = (
        f"a task's torque ({excited.settings.task})" if excited.settings.task else asked.criterion
    )
    counts = ", ".join(excited.settings.about) or "all"
    return (
        f"Criterion: {what}; parameters that count: {counts}; {basis}, {asked.duration:g} s, at "
        f"rest: {asked.rest}; best of {asked.starts} starts, seed {asked.seed}."
    )


FILES = (
    "motion.parquet",
    "motion.csv",
    "trajectory.json",
    "trajectory.mcap",
    "series.json",
    "design.json",
    "report.html",
)


def excite_files(
    model: Path,
    out: Path,
    settings: ExciteSettings,
    options: Path | None = None,
    given: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
) -> Excited:
    """Design a motion and write it with its certificates and predictions, all files or none.

    Args:
        options: TOML whose table [motion] states the limits.

    Raises:
        InputError: If an input cannot be read, is malformed, or no motion keeps all limits.
    """
    require_own(out, FILES)
    ros = messages_can_be_written()
    if not ros:
        progress(f"trajectory.mcap is left out: it needs {install('ros')}")
    files = {"model": model, "options": options, "task": settings.task}
    opened = Inputs().holding(**files, own_columns=settings.own_columns)
    own = settings.own_columns
    planned = open_experiment(model, options, given, settings.collisions, settings.load, own)
    for remark in planned.remarks:
        progress(remark)
    excited = excite(planned, settings, progress, stop)
    excited = replace(excited, inputs={k: f.sha256 for k, f in opened.files.items()})
    opened.refuse_changed()
    with new_folder(out) as new:
        motion = excited.joint_trajectory(settings.rate)
        for name in FILES[:2]:
            write_table(LogTable.of_columns(motion.columns(), new / name), new / name)
        points = excited.joint_trajectory(20.0)  # [Hz]: a controller's splines pass these points
        (new / "trajectory.json").write_text(points.to_json(), encoding="utf-8")
        if ros:
            points.write_mcap(new / "trajectory.mcap")
        series = json_text(excited.trajectory.to_dict())
        (new / "series.json").write_text(series, encoding="utf-8")
        (new / "design.json").write_text(json_text(to_json(excited)), encoding="utf-8")
        (new / "report.html").write_text(page_of(excited), encoding="utf-8")
    return excited


def to_json(excited: Excited) -> dict[str, Any]:
    """Return the content of `design.json`: settings, certificates and predictions."""
    made, asked = excited.design, excited.settings.design

    return {
        "heft": __version__,
        "inputs": excited.inputs,
        "settings": {
            "criterion": "task" if excited.settings.task else asked.criterion,
            "duration_s": asked.duration,
            "basis": asked.basis,
            "harmonics": asked.harmonics,
            "rest": asked.rest,
            "about": list(excited.settings.about),
            "seed": asked.seed,
        },
        "noise": {
            c.name: s
            for c, s in zip(excited.planned.plant.channels, excited.planned.noise, strict=True)
        },
        "independent_rows_hz": excited.planned.rate,
        "information": {
            "nats_over_best_random": made.gain,
            "nats_over_median_random": made.gain_over_median,
            "random_motions": len(made.random),
            "condition_raw": made.conditions.raw,
            "condition_scaled": made.conditions.scaled,
        },
        "interrupted": made.interrupted,
        "untold": list(excited.untold),
        "base_parameters": [
            {
                "expression": p.expression,
                "unit": p.unit,
                "std_before": p.before,
                "std": p.after,
                "counts": p.counts,
            }
            for p in excited.predictions
        ],
        "certificates": [
            {
                "quantity": c.quantity,
                "of": c.of,
                "proven": c.bound,
                "limit": c.limit,
                "seen": c.seen,
                "time_s": c.time,
            }
            for c in excited.certificates
        ],
        "remarks": list(excited.planned.remarks),
    }
