"""Folder of results, written atomically; `identified` reads it again.

`estimate.json` is the interface for programs (`estimate.schema.json`), `robot.urdf` the model file
with identified numbers (`robot.xml` of an MJCF file, `robot.toml` of Denavit-Hartenberg rows),
`information.npz` the information and covariances, `report.html` the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.dynamics import FRICTION, TERMS
from heft.errors import InvalidSetting
from heft.files import json_text, new_folder, plain, require_own
from heft.fit import stored, stored_origin
from heft.models import Robot, c_source, python_source

from .contract import MODELS, packaged_schema
from .entries import (
    base_entries,
    channel_entries,
    error_entry,
    joint_entries,
    motor_entries,
    own_entries,
    parameter_entries,
)
from .identification import Identification

FILES = (
    *("robot.urdf", "estimate.json", "information.npz"),
    *("report.html", "friction.py", "friction.c"),
)


def schema() -> dict[str, Any]:
    """Return the JSON schema of `estimate.json`, restricted to the registered friction terms.

    The packaged file, `estimate.schema.json`, allows any name of a term and of a friction model.
    """
    result = packaged_schema()
    kinds = {name: kind for name, kind in TERMS.items() if not kind.inertial}
    laws = ". ".join(f"{name}: value · {kind.law}" for name, kind in kinds.items())
    result["$defs"]["term"] = {"description": laws, "enum": list(kinds)}
    result["$defs"]["model"]["enum"] = list(FRICTION)
    return result


def settings_entry(result: Identification) -> dict[str, Any]:
    """Return the settings of `to_json`."""
    problem, settings, robot = result.problem, result.settings, result.problem.plant.robot
    # What is known of links is among the robot's options, steps that go on are the method's, and
    # files call the prior error `doubt`.
    consistent = asdict(settings.consistent)
    consistent["doubt"] = consistent.pop("prior_error")
    del consistent["known"], consistent["polish"]
    return {
        "robot": {
            "name": robot.name,
            "structure": robot.structure_hash(),
            "options": robot.options.to_dict(),
        },
        "smoothing": vars(problem.resolved) | {"chosen": settings.smoothing.corner is None},
        "least_squares": vars(settings.least_squares),
        "consistent": consistent,
        "jackknife": vars(settings.jackknife),
        "weak": None if result.problem.weak is None else asdict(result.problem.weak),
        # of least squares the settings are stored in full, and no name
        **({} if settings.method == "least-squares" else {"method": settings.method}),
        "robust": settings.robust,
        "average": settings.average,
        **({"anew": list(result.anew)} if result.anew else {}),
    }


def to_json(result: Identification) -> dict[str, Any]:
    """Return the content of `estimate.json` (`estimate.schema.json`).

    Numbers are not yet converted to JSON types; infinite and NaN values may occur.
    """
    robot = result.problem.plant.robot
    return {
        "heft": __version__,
        "schema": 1,
        "inputs": [dict(i) for i in result.inputs],
        "settings": settings_entry(result),
        "parameters": list(parameter_entries(result)),
        "joints": joint_entries(result),
        "motors": motor_entries(result),
        **({"own_columns": own_entries(result)} if robot.own_names else {}),
        "base_parameters": base_entries(result),
        "information": {**vars(result.estimate.rank), "channels": channel_entries(result)},
        "delay": vars(result.delay),
        "left_out": dict(result.left_out),
        "fit": [vars(s) for s in result.fit],
        "validation": [vars(s) for s in result.validation],
        **({"alternatives": [vars(a) for a in result.alternatives]} if result.alternatives else {}),
        "notes": [*robot.notes, *result.notes],
        "checks": [vars(c) for c in result.checks],
        "verdict": result.verdict,
        "torque_errors": error_entry(result),
        "predicted_error": vars(result.predicted_error),
    }


def content(result: Identification) -> dict[str, Any]:
    """Return the content of `estimate.json` in JSON types; what is not finite is null."""
    kept: dict[str, Any] = vars(result)  # as a cached property would: files, pages and text need it
    if "contract" not in kept:
        kept["contract"] = dict(plain(to_json(result)))
    return dict(kept["contract"])


def write(
    result: Identification, out: Path, report: Callable[[Identification], str] | None = None
) -> None:
    """Write the folder of results atomically: whole or not at all.

    Args:
        out: Folder; replaced if it holds earlier results of a robot of the same name.

    Raises:
        InvalidSetting: If the folder holds other files or the results of another robot, or cannot
            be written.
    """
    refuse_foreign(out)
    refuse_other_robot(out, result.problem.plant.robot)
    with new_folder(out.resolve()) as new:  # a link stays a link
        contract = content(result)
        (new / "estimate.json").write_text(json_text(contract), encoding="utf-8")
        if not result.withheld:
            for name, data in result.files.items():
                (new / name).write_bytes(data)
            drives = (result.problem.plant.robot.name, contract["joints"], contract["motors"])
            (new / "friction.py").write_text(python_source(*drives), encoding="utf-8")
            (new / "friction.c").write_text(c_source(*drives), encoding="ascii")
        estimated, consistent = result.estimate.parameters, result.consistent.parameters
        assert estimated.covariance is not None and consistent.covariance is not None
        sliding, run = result.fastest, result.experiment
        result.information.save(
            new / "information.npz",
            base_matrix=result.problem.base.matrix,
            standard_names=np.array(result.problem.base.standard.names),
            sigma=result.estimate.noise.sigma,
            memory=result.estimate.noise.autocorrelation_time,
            parameter_names=np.array(consistent.labels.names),
            parameter_values=consistent.values,
            parameter_covariance=consistent.covariance,
            base_values=estimated.values,
            base_covariance=estimated.covariance,
            deviations=result.deviations,
            **stored(result.estimate.noise, run.moments),
            **result.misfit_moments.stored(),
            **result.steady,
            **stored_origin(result.problem.plant.robot, run.noise_names, run.settled),
            sliding_joints=np.array(list(sliding)),
            sliding_velocities=np.array(list(sliding.values()), dtype=float).reshape(-1, 2),
        )
        if report is not None:
            (new / "report.html").write_text(report(result), encoding="utf-8")


def refuse_foreign(out: Path) -> None:
    """Refuse a folder for results that holds other files or cannot be written.

    Raises:
        InvalidSetting: If it does or cannot.
    """
    require_own(out, {*FILES, *MODELS})


def refuse_other_robot(out: Path, robot: Robot) -> None:
    """Refuse a folder that holds the results of a robot of another name.

    Raises:
        InvalidSetting: If it does.
    """
    try:
        text = (out / "estimate.json").read_text(encoding="utf-8")
        name = json.loads(text)["settings"]["robot"]["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if name != robot.name:
        raise InvalidSetting(
            "the folder holds the results of another robot, which are not overwritten",
            argument=f"--out {out}",
            got=name,
            expected=robot.name,
            cure="name another folder",
        )
