"""Folder of results, written atomically; `identified` reads it again.

`estimate.json` is the interface for programs (`estimate.schema.json`), `robot.urdf` the model file
with identified numbers (`robot.xml` of an MJCF file, `robot.toml` of Denavit-Hartenberg rows),
`information.npz` the information and covariances, `report.html` the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.dynamics import FRICTION, TERMS
from heft.errors import InvalidSetting
from heft.estimators import PhysicallyConsistent
from heft.files import put, require_own, workshop
from heft.fit import stored, stored_origin
from heft.models import Robot, c_source, python_source

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
from .identified import MODELS, packaged_schema

SCHEMA = 1

FILES = (
    "robot.urdf",
    "estimate.json",
    "information.npz",
    "report.html",
    "friction.py",
    "friction.c",
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


def _consistent(settings: PhysicallyConsistent) -> dict[str, Any]:
    """Return the settings of the consistent fit; files call the prior error `doubt`.

    What is known of links is among the robot's options, and steps that go on are the method's.
    """
    stated = {k: v for k, v in asdict(settings).items() if k not in ("known", "polish")}
    return {"doubt" if k == "prior_error" else k: v for k, v in stated.items()}


def _method(name: str) -> dict[str, str]:
    """Return the estimator's name; nothing for least squares, whose settings are stored in full."""
    return {} if name == "least-squares" else {"method": name}


def settings_entry(result: Identification) -> dict[str, Any]:
    """Return the settings of `to_json`."""
    problem, robot = result.problem, result.problem.plant.robot
    return {
        "robot": {
            "name": robot.name,
            "structure": robot.structure_hash(),
            "options": robot.options.to_dict(),
        },
        "smoothing": vars(problem.resolved) | {"chosen": result.settings.smoothing.corner is None},
        "least_squares": vars(result.settings.least_squares),
        "consistent": _consistent(result.settings.consistent),
        "jackknife": vars(result.settings.jackknife),
        "weak": None if result.problem.weak is None else asdict(result.problem.weak),
        **_method(result.settings.method),
        "robust": result.settings.robust,
        "average": result.settings.average,
        **({"anew": list(result.anew)} if result.anew else {}),
    }


def to_json(result: Identification) -> dict[str, Any]:
    """Return the content of `estimate.json` (`estimate.schema.json`).

    Numbers are not yet converted to JSON types; infinite and NaN values may occur.
    """
    robot = result.problem.plant.robot
    return {
        "heft": __version__,
        "schema": SCHEMA,
        "inputs": [dict(i) for i in result.inputs],
        "settings": settings_entry(result),
        "parameters": list(parameter_entries(result)),
        "joints": joint_entries(result),
        "motors": motor_entries(result),
        **({"own_columns": own_entries(result)} if robot.own_names else {}),
        "base_parameters": base_entries(result),
        "information": {
            "condition": result.estimate.rank.condition,
            "rank": result.estimate.rank.rank,
            "columns": result.estimate.rank.columns,
            "tolerance": result.estimate.rank.tolerance,
            "weakest": list(result.estimate.rank.weakest),
            "channels": channel_entries(result),
        },
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
    return dict(_plain(to_json(result)))


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
    place = out.resolve()  # a link stays a link
    with workshop(place) as folder:
        new = folder / "results"
        new.mkdir()
        contract = content(result)
        text = json.dumps(contract, indent=1, ensure_ascii=False, allow_nan=False)
        (new / "estimate.json").write_text(text + "\n", encoding="utf-8")
        if not result.withheld:
            for name, data in result.files.items():
                (new / name).write_bytes(data)
            drives = (result.problem.plant.robot.name, contract["joints"], contract["motors"])
            (new / "friction.py").write_text(python_source(*drives), encoding="utf-8")
            (new / "friction.c").write_text(c_source(*drives), encoding="ascii")
        covariance = result.consistent.parameters.covariance
        assert covariance is not None
        assert result.estimate.parameters.covariance is not None
        sliding, run = result.fastest, result.experiment
        result.information.save(
            new / "information.npz",
            base_matrix=result.problem.base.matrix,
            standard_names=np.array(result.problem.base.standard.names),
            sigma=result.estimate.noise.sigma,
            memory=result.estimate.noise.autocorrelation_time,
            parameter_names=np.array(result.consistent.parameters.labels.names),
            parameter_values=result.consistent.parameters.values,
            parameter_covariance=covariance,
            base_values=result.estimate.parameters.values,
            base_covariance=result.estimate.parameters.covariance,
            deviations=result.deviations,
            **stored(result.estimate.noise, run.moments),
            **result.misfit_moments.stored(),
            **stored_origin(result.problem.plant.robot, run.noise_names, run.settled),
            sliding_joints=np.array(list(sliding)),
            sliding_velocities=np.array(list(sliding.values()), dtype=float).reshape(-1, 2),
        )
        if report is not None:
            (new / "report.html").write_text(report(result), encoding="utf-8")
        put(new, place)


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


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: infinities and NaN become null."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
