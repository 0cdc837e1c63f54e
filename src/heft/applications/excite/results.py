"""Files of a designed motion: `heft excite` writes them whole or not at all."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from heft import __version__
from heft.applications.identification import Inputs
from heft.errors import install
from heft.files import put, require_own, workshop
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
        model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
        out: Folder for the results; see `FILES`.
        options: TOML whose table [motion] states the limits.
        given: Folder of earlier results, whose information counts.
        stop: Event that ends the design early, with the best motion so far.
        own_columns: Python file of the user's own columns of the regressor, which is run.

    Returns:
        The motion, as it was written.

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
    with workshop(out) as folder:
        new = folder / out.name
        new.mkdir()
        motion = excited.joint_trajectory(settings.rate)
        for name in FILES[:2]:
            write_table(Table.of_columns(motion.columns(), new / name), new / name)
        points = excited.joint_trajectory(POINT_RATE)
        (new / "trajectory.json").write_text(points.to_json(), encoding="utf-8")
        if ros:
            points.write_mcap(new / "trajectory.mcap")
        series = json.dumps(excited.trajectory.to_dict(), indent=1)
        (new / "series.json").write_text(series + "\n", encoding="utf-8")
        content = json.dumps(to_json(excited), indent=1, ensure_ascii=False)
        (new / "design.json").write_text(content + "\n", encoding="utf-8")
        (new / "report.html").write_text(page_of(excited), encoding="utf-8")
        put(new, out)
    return excited


def to_json(excited: Excited) -> dict[str, Any]:
    """Return the content of `design.json`: settings, certificates and predictions."""
    made, asked = excited.design, excited.settings.design

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

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
            c.name: float(s)
            for c, s in zip(excited.planned.plant.channels, excited.planned.noise, strict=True)
        },
        "independent_rows_hz": excited.planned.rate,
        "information": {
            "nats_over_best_random": finite(made.gain),
            "nats_over_median_random": finite(made.gain_over_median),
            "random_motions": len(made.random),
            "condition_raw": finite(made.conditions.raw),
            "condition_scaled": finite(made.conditions.scaled),
        },
        "interrupted": made.interrupted,
        "untold": list(excited.untold),
        "base_parameters": [
            {
                "expression": p.expression,
                "unit": p.unit,
                "std_before": finite(p.before),
                "std": finite(p.after),
                "counts": p.counts,
            }
            for p in excited.predictions
        ],
        "certificates": [
            {
                "quantity": c.quantity,
                "of": c.of,
                "proven": finite(c.bound),
                "limit": finite(c.limit),
                "seen": finite(c.seen),
                "time_s": c.time,
            }
            for c in excited.certificates
        ],
        "remarks": list(excited.planned.remarks),
    }
