"""Inputs of a question: a robot, a column map and logs; files are opened and hashed once.

Whatever people name a robot or a log by becomes one here, for the command line and for Python.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from heft.errors import InputError, InvalidRecording, InvalidSetting, visible
from heft.files import OpenedFile
from heft.models import Options, Robot, with_shapes
from heft.recordings import ColumnMap, Recording
from heft.signals import Timeline

AnyPath: TypeAlias = str | os.PathLike[str]
AnyRobot: TypeAlias = Robot | AnyPath
# A recording, a file, a dictionary of columns, or a table of pandas, Polars or Arrow.
AnyLog: TypeAlias = Recording | AnyPath | Mapping[str, Any] | Any
AnyLogs: TypeAlias = AnyLog | Sequence[AnyLog]


@dataclass(frozen=True)
class Inputs:
    """A robot, a column map, and the logs opened with them."""

    robot: Robot | None = None  # robot of the model file; None without a model file
    # mapping of log columns to signals; if None, the columns' own names are used
    columns: ColumnMap | None = None
    # all files except the logs, by role, such as `model`
    files: Mapping[str, OpenedFile] = field(default_factory=dict)
    # logs by role, such as `fit`
    logs: Mapping[str, tuple[Recording, ...]] = field(default_factory=dict)

    @staticmethod
    def open(
        model: AnyRobot | None,
        options: AnyPath | None = None,
        columns: AnyPath | None = None,
        own_columns: AnyPath | None = None,
        **others: AnyPath | None,
    ) -> Inputs:
        """Open all input files except the logs.

        Args:
            model: A robot, or its URDF, MJCF, or TOML of Denavit-Hartenberg rows.
            options: TOML of settings that the model file cannot express.
            columns: TOML that maps log columns to signals.
            own_columns: Python file with the user's own columns of the regressor, which is run.
            others: Further files that the caller reads, by role.

        Returns:
            The inputs, without logs.

        Raises:
            InputError: If a file cannot be read or is invalid, or `model` is neither.
        """
        path = None if model is None or isinstance(model, Robot) else _path(model, "robot")
        files = {"model": path, "options": options, "own_columns": own_columns, **others}
        opened = Inputs().holding(**files)
        stated = Options.from_toml(Path(options)) if options else None
        robot = model if isinstance(model, Robot) else None
        if path is not None:
            robot = with_shapes(Robot.from_file(path, stated), path.parent)
        elif robot is not None and stated is not None:
            raise InvalidSetting(
                "options are of a model file, and a robot that was read has its own",
                argument="options",
                cure="Robot.from_file(path, Options.from_toml(options))",
            )
        if robot is not None and own_columns is not None:
            robot = robot.with_own_columns(Path(own_columns))
        return replace(opened, robot=robot).with_columns(columns)

    def holding(self, **files: AnyPath | None) -> Inputs:
        """Return these inputs with further files hashed, by role, before the caller reads them."""
        more = {r: OpenedFile.at(_path(path, r)) for r, path in files.items() if path is not None}
        return replace(self, files={**self.files, **more})

    def with_columns(self, columns: AnyPath | None) -> Inputs:
        """Return these inputs with a column map; it applies to logs opened afterwards."""
        opened = self.holding(columns=columns)
        return replace(opened, columns=ColumnMap.from_toml(Path(columns)) if columns else None)

    def with_logs(self, **logs: AnyLogs) -> Inputs:
        """Return these inputs with logs opened, by role.

        Raises:
            InputError: If a log cannot be read, is of another type, or its columns match no known
                signal.
        """
        opened = {
            role: tuple(self._recording(log, role) for log in each(given))
            for role, given in logs.items()
        }
        return replace(self, logs={**self.logs, **opened})

    def _recording(self, log: AnyLog, role: str) -> Recording:
        joints, endless = (self.robot.joints, self.robot.endless) if self.robot else ((), ())
        if isinstance(log, Recording):
            return log
        if isinstance(log, Mapping) or hasattr(log, "__arrow_c_stream__"):
            return Recording.of_columns(log, self.columns, joints).unwrapped(endless)
        path = _path(log, "logs" if role in ("log", "fit") else role)
        if not path.exists() and set(str(path)) & set("*?["):
            raise InvalidRecording(
                "the log does not exist: names are not patterns here",
                argument=str(path),
                cure=f"from glob import glob: sorted(glob({str(path)!r}))",
            )
        return Recording.open(path, self.columns, joints).unwrapped(endless)

    def described(
        self, *roles: str, timelines: Mapping[str, Sequence[Timeline]] | None = None
    ) -> tuple[dict[str, Any], ...]:
        """Return path, role and SHA-256 of the input files, as stored with the results.

        Args:
            roles: Roles to include, in this order; roles without a file are skipped.
            timelines: Timelines of the logs by role; if given, samples, duration [s], step [s] and
                gaps of each log are added.

        Returns:
            One entry for each file.

        Raises:
            InvalidRecording: If a file was changed since it was opened.
        """
        return tuple(e for role in roles for e in self._entries(role, (timelines or {}).get(role)))

    def _entries(self, role: str, timelines: Sequence[Timeline] | None) -> Iterator[dict[str, Any]]:
        def entry(path: Path, digest: str) -> dict[str, Any]:
            return {"path": visible(str(path)), "role": role, "sha256": digest}

        if role in self.files:
            yield entry(self.files[role].path, self.files[role].sha256)
        for k, log in enumerate(self.logs.get(role, ())):
            if log.files:  # arrays have neither a path nor a hash
                made, clock = entry(log.files[0].path, log.sha256), timelines and timelines[k]
                if clock:
                    made |= {"samples": clock.rows, "used": clock.used}
                    made |= {"duration_s": clock.duration, "step_s": clock.step, "gaps": clock.gaps}
                yield made

    def refuse_changed(self) -> None:
        """Raise `InvalidRecording` if a file was changed since it was opened."""
        for file in self.files.values():
            file.refuse_changed()
        for log in (log for logs in self.logs.values() for log in logs):
            log.refuse_changed()


def each(logs: AnyLogs) -> tuple[AnyLog, ...]:
    """Return logs, of which one may be given without a list around it."""
    return tuple(logs) if isinstance(logs, list | tuple) else (logs,)


def _path(given: object, argument: str) -> Path:
    """Return a path, or refuse what is none.

    Raises:
        InputError: If it is of another type.
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    expected = "a path"
    if argument == "robot":
        expected = "a path of a model file, or a Robot"
    elif argument in ("logs", "validate", "validation", "empty", "loaded"):
        expected = (
            "a path, a Recording, a table (pandas, Polars, Arrow) or a dictionary of columns "
            "{'t': …, 'q.<joint>': …, 'tau.<joint>': …}, or a list of these"
        )
    raise InputError(
        f"'{argument}' cannot be a {type(given).__name__}", argument=argument, expected=expected
    )


def check_command(paths: Mapping[str, Sequence[str]]) -> str:
    """Return the command that looks whether the fitted logs are any good, given paths by role."""
    return shlex.join(["heft", "check", *paths["fit"], "--robot", *paths["model"], *stated(paths)])


def stated(paths: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the options that name files of settings, given paths by role."""
    files = (("columns", "--map"), ("options", "--with"), ("own_columns", "--columns"))
    return [w for role, option in files for path in paths.get(role, ()) for w in (option, path)]
