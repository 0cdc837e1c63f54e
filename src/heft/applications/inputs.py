"""Input files of a command: a robot, a column map and logs, opened and hashed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heft.errors import visible
from heft.files import OpenedFile
from heft.models import Options, Robot, with_shapes
from heft.recordings import ColumnMap, Recording
from heft.signals import Timeline


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
        model: Path | None,
        options: Path | None,
        columns: Path | None,
        own_columns: Path | None = None,
        **others: Path | None,
    ) -> Inputs:
        """Open all input files except the logs.

        Args:
            model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
            options: TOML of settings that the model file cannot express.
            columns: TOML that maps log columns to signals.
            own_columns: Python file with the user's own columns of the regressor, which is run.
            others: Further files that the caller reads, by role.

        Returns:
            The inputs, without logs.

        Raises:
            InputError: If a file cannot be read or is invalid.
        """
        opened = Inputs().holding(model=model, options=options, own_columns=own_columns, **others)
        stated = Options.from_toml(options) if options else None
        robot = None
        if model is not None:
            robot = with_shapes(Robot.from_file(model, stated), model.parent)
            robot = robot.with_own_columns(own_columns)
        return replace(opened, robot=robot).with_columns(columns)

    def holding(self, **files: Path | None) -> Inputs:
        """Return these inputs with further files hashed, by role, before the caller reads them."""
        more = {role: OpenedFile.at(path) for role, path in files.items() if path is not None}
        return replace(self, files={**self.files, **more})

    def with_columns(self, columns: Path | None) -> Inputs:
        """Return these inputs with a column map; it applies to logs opened afterwards."""
        opened = self.holding(columns=columns)
        return replace(opened, columns=ColumnMap.from_toml(columns) if columns else None)

    def with_logs(self, **logs: Sequence[Path]) -> Inputs:
        """Return these inputs with logs opened, by role.

        Raises:
            InputError: If a log cannot be read, or its columns match no known signal.
        """
        joints, endless = (self.robot.joints, self.robot.endless) if self.robot else ((), ())
        opened = {
            role: tuple(Recording.open(p, self.columns, joints).unwrapped(endless) for p in paths)
            for role, paths in logs.items()
        }
        return replace(self, logs={**self.logs, **opened})

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
        if role in self.files:
            file = self.files[role]
            yield {"path": visible(str(file.path)), "role": role, "sha256": file.sha256}
        for k, log in enumerate(self.logs.get(role, ())):
            entry = {"path": visible(str(log.files[0].path)), "role": role, "sha256": log.sha256}
            yield entry | (_clock(timelines[k]) if timelines else {})

    def refuse_changed(self) -> None:
        """Raise `InvalidRecording` if a file was changed since it was opened."""
        for file in self.files.values():
            file.refuse_changed()
        for log in (log for logs in self.logs.values() for log in logs):
            log.refuse_changed()


def _clock(timeline: Timeline) -> dict[str, Any]:
    return {
        "samples": timeline.rows,
        "used": timeline.used,
        "duration_s": timeline.duration,
        "step_s": timeline.step,
        "gaps": timeline.gaps,
    }
