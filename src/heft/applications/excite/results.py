"""Files of a designed motion: `heft excite` writes them whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from heft import __version__
from heft.applications.identification import Inputs
from heft.errors import install
from heft.files import json_text, new_folder, require_own
from heft.recordings import Table, messages_can_be_written, write_table

from .experiment_design import Excited, ExciteSettings, excite
from .planned import open_experiment
from .report import page_of

FILES = (
    "motion.parquet",
    "motion.csv",
    "trajectory.json",
    "trajectory.mcap",
    "series.json",
    "design.json",
    "report.html",
)
POINT_RATE = 20.0  # of the points of a JointTrajectory [Hz]: a controller's splines pass them


def excite_files(
    model: Path,
    out: Path,
    settings: ExciteSettings,
    options: Path | None = None,
    given: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
    own_columns: Path | None = None,
) -> Excited:
    """Design a motion and write it with its certificates and predictions, all files or none.

    Args:
        options: TOML whose table [motion] states the limits.
        own_columns: Python file of the user's own columns of the regressor, which is run.

    Raises:
        InputError: If an input cannot be read, is malformed, or no motion keeps all limits.
    """
    require_own(out, FILES)
    ros = messages_can_be_written()
    if not ros:
        progress(f"trajectory.mcap is left out: it needs {install('ros')}")
    files = {"model": model, "options": options, "task": settings.task}
    opened = Inputs().holding(**files, own_columns=own_columns)
    planned = open_experiment(
        model, options, given, settings.doubt, settings.collisions, settings.load, own_columns
    )
    for remark in planned.remarks:
        progress(remark)
    excited = excite(planned, settings, progress, stop)
    excited = replace(excited, inputs={k: f.sha256 for k, f in opened.files.items()})
    opened.refuse_changed()
    with new_folder(out) as new:
        motion = excited.joint_trajectory(settings.rate)
        for name in FILES[:2]:
            write_table(Table.of_columns(motion.columns(), new / name), new / name)
        points = excited.joint_trajectory(POINT_RATE)
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
