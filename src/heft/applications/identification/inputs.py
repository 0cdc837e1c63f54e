"""Identification of a robot from files, opened and hashed once, or from what was read.

Its result is what programs and notebooks have: it answers, predicts and is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any, Never

from heft.applications.inputs import AnyLog, AnyLogs, AnyPath, AnyRobot, Inputs, check_command, each
from heft.errors import FitError, InputError, InvalidSetting, nearest
from heft.files import put, workshop, write_text
from heft.fit import Earlier, Progress, Selection, Settings, silent
from heft.information import Information, Parameters
from heft.models import Robot
from heft.recordings import JOINT_KINDS, ColumnMap

from . import results
from .answers import Answers
from .contract import MODELS, Contract
from .identification import Identification
from .identification import identify as of_recordings
from .identified import Friction, Identified, Prediction, stated_in


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Answers, Identification):
    """Result of `identify`: what it answers is told by `Answers`, what it holds by its fields."""

    @cached_property
    def contract(self) -> Contract:
        """Content of `estimate.json`."""
        return results.content(self)

    @property
    def solution(self) -> Parameters:
        """Estimated standard parameters with their covariance, ten of each link first."""
        return self.consistent.parameters

    @cached_property
    def identified(self) -> Identified:
        """These results as `heft.load` gives them once they are saved.

        Raises:
            InputError: If no model file is written of them; see `withheld`.
        """
        self._refuse_withheld("predict()")
        options, smoothing, drives = stated_in(self.contract)
        name = next(n for n in MODELS if n in self.files)
        robot = Robot.from_text(self.files[name], options, name)
        robot = replace(robot, own_columns=self.problem.plant.robot.own_columns)
        data, solution = self.contract, self.solution
        return Identified(Path(), robot, drives, smoothing, data, self.deviation, solution)

    def _refuse_withheld(self, argument: str) -> None:
        if self.withheld:
            raise InputError(
                "these numbers make no model: something is wrong in the logs",
                argument=argument,
                got=self.withheld,
                cure="print(result.summary()) says what to mend; then identify again",
            )

    def predict(self, log: AnyLog, friction: Friction = "full") -> Prediction:
        """Return the predicted torque at the times of a log; see `Identified.predict`."""
        return self.identified.predict(log, friction)

    def save(self, out: AnyPath) -> Path:
        """Write the folder of results, as `heft identify` does; `heft.load` reads it.

        Raises:
            InvalidSetting: If the folder holds other files, or cannot be written.
        """
        from . import report  # with templates of pages, which few programs need

        results.write(self, Path(out), report.html)
        return Path(out)

    def report(self, out: AnyPath) -> Path:
        """Write the report, an HTML page that opens offline."""
        from . import report

        write_text(Path(out), report.html(self))
        return Path(out)

    def to_urdf(self, out: AnyPath) -> Path:
        """Write the identified model file, a URDF or what the model file was.

        Raises:
            InvalidSetting: If none is written of these results (`withheld`), or not of this kind.
        """
        self._refuse_withheld("to_urdf()")
        kind = {Path(name).suffix: data for name, data in self.files.items()}
        if Path(out).suffix not in kind:
            raise InvalidSetting(
                "the identified model file is of another kind",
                argument=str(out),
                expected=f"a file called {' or '.join(f'*{k}' for k in kind)}",
            )
        with workshop(Path(out)) as folder:
            new = folder / Path(out).name
            new.write_bytes(kind[Path(out).suffix])
            put(new, Path(out))
        return Path(out)


def identify(
    robot: AnyRobot,
    logs: AnyLogs,
    validate: AnyLogs = (),
    settings: Settings = Settings(),
    given: Earlier | Information | AnyPath | None = None,
    progress: Progress = silent,
    only: Selection | AnyPath | None = None,
    anew: Sequence[str] = (),
    options: AnyPath | None = None,
    columns: AnyPath | None = None,
    own_columns: AnyPath | None = None,
    **unknown: Never,
) -> Result:
    """Identify the inertial and friction parameters of a robot from logs.

    >>> result = heft.identify("arm.urdf", ["run1.csv"], validate="run2.csv")
    >>> result.links["forearm"].mass

    Args:
        robot: URDF, MJCF, TOML of Denavit-Hartenberg rows, or a robot; its inertial parameters are
            the nominal values of the prior.
        logs: A log of one experiment, or several in any order: files, recordings, tables of pandas,
            Polars or Arrow, or dictionaries of columns.
        validate: Held-out logs, used for scores only.
        given: Folder of earlier results for the same robot, or what they tell, to be added; noise
            of information alone is taken for like these logs'.
        only: What of the logs is fitted, or a file of `heft select`; all if None.
        anew: What may have changed since the earlier experiments, which tell all else: links,
            joints, `friction` for that of all joints, or parameters.
        options: TOML of settings that the model file cannot express.
        columns: TOML that maps log columns to signals.
        own_columns: Python file with columns of the user's own, which is run; see
            `heft.models.OwnColumns`.

    Returns:
        The result, with parameters, new model file, scores and checks.

    Raises:
        InputError: If a file, log or setting is invalid or of another type, a log is given twice
            or for both fit and validation, or a file changes during the identification.
        FitError: If the fit explains too little of the torque (`Limits.unexplained`), or a solver
            fails.
    """
    for name in unknown:
        raise InvalidSetting(
            f"identify takes no '{name}'",
            argument=name,
            valid=[p for p in signature(identify).parameters if p != "unknown"],
            cure="logs that the fit must not see, to score it on, are those of validate=",
        )
    opened = Inputs.open(robot, options, columns, own_columns)
    if (asked := opened.robot) is None:
        raise InvalidSetting("a robot is identified", argument="robot", got="None")
    if not each(logs):
        raise InvalidSetting("at least one log is needed", argument="logs", got="none")
    _refuse_same(each(logs), each(validate))
    if opened.columns is not None:
        _refuse_unknown_joints(opened.columns, asked, f"{columns}")
    opened = opened.with_logs(fit=logs, validation=validate)
    if only is not None and not isinstance(only, Selection):
        opened, only = opened.holding(selection=only), Selection.load(Path(only))
    if only is not None and settings.average:
        raise InvalidSetting(
            "periods that are averaged have no rows to be selected",
            argument="--average",
            cure="leave out --average or --only",
        )
    fit, held_out = opened.logs["fit"], opened.logs["validation"]
    if only is not None:
        only.of(fit)  # refused before any work
    if isinstance(given, str | os.PathLike):
        stored = Path(given) / "information.npz"
        opened, given = opened.holding(given=stored), Earlier.load(stored)
    files = (robot, *each(logs), *each(validate))
    is_of_files = all(isinstance(f, str | os.PathLike) for f in files)
    try:
        identified = of_recordings(asked, fit, held_out, settings, given, progress, only, anew)
    except FitError as problem:
        if not (is_of_files and problem.cure):
            raise
        roles = {"columns": [columns], "options": [options], "own_columns": [own_columns]}
        every = {"model": [robot], "fit": each(logs), **roles}
        paths = {role: [str(f) for f in given if f] for role, given in every.items()}
        cure = problem.cure.replace("heft check", check_command(paths))
        raise FitError(**(vars(problem) | {"cure": cure})) from problem
    inputs = _described(opened, identified) if is_of_files else ()
    fields_of = {f.name: getattr(identified, f.name) for f in fields(identified)}
    return Result(**{**fields_of, "inputs": inputs})


def _described(opened: Inputs, identified: Identification) -> tuple[dict[str, Any], ...]:
    """Return the entries of the files, none of which changed since it was opened."""
    fit, held_out = opened.logs["fit"], opened.logs["validation"]
    # A fit that left rows out or averaged them walked other recordings than the files'.
    fitted = identified.problem
    if any(a is not b for a, b in zip(fitted.recordings, fit, strict=True)):
        fitted = fitted.with_recordings(fit)
    described = opened.described(
        *("model", "options", "columns", "own_columns", "given", "selection", "fit", "validation"),
        timelines={
            "fit": fitted.timelines,
            "validation": [t for r in held_out for t in identified.problem.held_out(r).timelines],
        },
    )
    opened.refuse_changed()
    return described


def _refuse_same(logs: Sequence[AnyLog], validate: Sequence[AnyLog]) -> None:
    logs, validate = ([Path(p) for p in g if isinstance(p, str | Path)] for g in (logs, validate))
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
