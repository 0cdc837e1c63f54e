"""Identification of a robot from files, opened and hashed once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from heft.applications.inputs import Inputs
from heft.errors import FitError, InvalidSetting, nearest
from heft.fit import Earlier, Progress, Selection, Settings, silent
from heft.information import Information
from heft.models import Robot
from heft.recordings import JOINT_KINDS, ColumnMap

from .identification import Identification, identify


def identify_files(
    model: Path,
    logs: Sequence[Path],
    validate: Sequence[Path] = (),
    options: Path | None = None,
    columns: Path | None = None,
    given: Path | None = None,
    settings: Settings = Settings(),
    progress: Progress = silent,
    only: Path | None = None,
    own_columns: Path | None = None,
    anew: Sequence[str] = (),
) -> Identification:
    """Identify the inertial and friction parameters of a robot from files; see `identify`.

    Args:
        model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
        logs: Logs of one experiment: CSV, Parquet or NPZ.
        validate: Held-out logs, used for scores only.
        options: TOML of settings that the model file cannot express.
        columns: TOML that maps log columns to signals.
        given: Folder of earlier results for the same robot, whose information is added.
        only: File of `heft select`: what of the logs is fitted.
        own_columns: Python file with columns of the user's own, which is run; see
            `heft.models.OwnColumns`.
        anew: What may have changed since the earlier results.

    Returns:
        The result, with parameters, new model file, scores and checks.

    Raises:
        InputError: If a file or setting is invalid, a log is given twice or for both fit and
            validation, or a file changes during the identification.
        FitError: If the fit explains too little of the torque (`Limits.unexplained`), or a solver
            fails.
    """
    opened = Inputs.open(model, options, columns, own_columns)
    _refuse_same(logs, validate)
    if opened.columns is not None and opened.robot is not None:
        _refuse_unknown_joints(opened.columns, opened.robot, f"{columns}")
    opened = opened.with_logs(fit=logs, validation=validate).holding(selection=only)
    selection = Selection.load(only) if only is not None else None
    if selection is not None and settings.average:
        raise InvalidSetting(
            "periods that are averaged have no rows to be selected",
            argument="--average",
            cure="leave out --average or --only",
        )
    if selection is not None:
        selection.of(opened.logs["fit"])  # refused before any work
    before: Earlier | Information | None = None
    if given is not None:
        opened = opened.holding(given=given / "information.npz")
        before = Earlier.load(given / "information.npz")
    assert opened.robot is not None
    fit, held = opened.logs["fit"], opened.logs["validation"]
    try:
        found = identify(opened.robot, fit, held, settings, before, (), progress, selection, anew)
    except FitError as problem:
        given_paths = {"model": [model], "fit": logs, "columns": [columns], "options": [options]}
        paths = {k: [str(p) for p in ps if p] for k, ps in given_paths.items()}
        paths["own_columns"] = [str(own_columns)] if own_columns else []
        cure = problem.cure and problem.cure.replace("heft check", check_command(paths))
        raise FitError(**(vars(problem) | {"cure": cure})) from problem
    # A fit that left rows out or averaged them walked other recordings than the files'.
    fitted = found.problem
    if any(a is not b for a, b in zip(fitted.recordings, fit, strict=True)):
        fitted = fitted.with_recordings(fit)
    inputs = opened.described(
        *("model", "options", "columns", "own_columns", "given", "selection", "fit", "validation"),
        timelines={
            "fit": fitted.timelines,
            "validation": [t for r in held for t in found.problem.held_out(r).timelines],
        },
    )
    opened.refuse_changed()
    return replace(found, inputs=inputs)


def check_command(paths: Mapping[str, Sequence[str]]) -> str:
    """Return the command that looks whether the fitted logs are any good, given paths by role."""
    return shlex.join(["heft", "check", *paths["fit"], "--robot", *paths["model"], *stated(paths)])


def stated(paths: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options that name files of settings, given paths by role."""
    files = (("columns", "--map"), ("options", "--with"), ("own_columns", "--columns"))
    return [w for role, option in files for path in paths.get(role, ()) for w in (option, path)]


def _refuse_same(logs: Sequence[Path], validate: Sequence[Path]) -> None:
    places = [p.resolve() for p in logs]
    twice = sorted({str(p) for p in logs if places.count(p.resolve()) > 1})
    if twice:
        raise InvalidSetting(
            "a log is given twice", argument="LOGS", got=", ".join(twice), cure="name it once"
        )
    same = sorted(str(p) for p in validate if p.resolve() in places)
    if same:
        raise InvalidSetting(
            "a log is given for fitting and for validation",
            argument="--validate",
            got=", ".join(same),
            cure="validate on a log that the fit does not see",
        )


def _refuse_unknown_joints(columns: ColumnMap, robot: Robot, path: str) -> None:
    for signal in columns.signals:
        for joint in signal.joints if signal.kind in JOINT_KINDS else ():
            if joint not in robot.joints:
                near = nearest(joint, robot.joints)
                raise InvalidSetting(
                    f"the map names a joint '{joint}', which the robot does not have",
                    argument=f"{path}, [{signal.kind}]",
                    valid=robot.joints,
                    cure=f"did you mean '{near}'?" if near else None,
                )
