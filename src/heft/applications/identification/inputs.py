"""What a user gave: model, options, column map and logs, opened once and hashed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from heft.files import OpenedFile
from heft.models import Options, Robot
from heft.recordings import ColumnMap, Recording
from heft.signals import Timeline


@dataclass(frozen=True)
class Inputs:
    """A robot, the meaning of columns, and the logs opened with them.

    Attributes:
        robot: What moved, or None where no model file is given.
        columns: What the logs' columns mean; their own names tell if None.
        files: The files besides the logs, by role, such as `model`.
        logs: The logs by role, such as `fit`.
    """

    robot: Robot | None = None
    columns: ColumnMap | None = None
    files: Mapping[str, OpenedFile] = field(default_factory=dict)
    logs: Mapping[str, tuple[Recording, ...]] = field(default_factory=dict)

    @staticmethod
    def open(
        model: Path | None, options: Path | None, columns: Path | None, **others: Path | None
    ) -> Inputs:
        """Open the files besides the logs.

        Args:
            model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
            options: TOML that says what the model file cannot.
            columns: TOML that says what the logs' columns mean.
            others: Files that the caller reads, by role.

        Raises:
            InputError: If one of them cannot be used.
        """
        opened = Inputs().holding(model=model, options=options, **others)
        stated = Options.from_toml(options) if options else None
        robot = Robot.from_file(model, stated) if model else None
        return replace(opened, robot=robot).with_columns(columns)

    def holding(self, **files: Path | None) -> Inputs:
        """Return these inputs with more files, which are about to be read, by role."""
        more = {role: OpenedFile.at(path) for role, path in files.items() if path is not None}
        return replace(self, files={**self.files, **more})

    def with_columns(self, columns: Path | None) -> Inputs:
        """Return these inputs with a column map, for the logs that are opened after."""
        opened = self.holding(columns=columns)
        return replace(opened, columns=ColumnMap.from_toml(columns) if columns else None)

    def with_logs(self, **logs: Sequence[Path]) -> Inputs:
        """Return these inputs with logs opened, by role.

        Raises:
            InputError: If a log cannot be read, or its columns' meaning is not known.
        """
        joints = self.robot.joints if self.robot else ()
        opened = {
            role: tuple(Recording.open(p, self.columns, joints) for p in paths)
            for role, paths in logs.items()
        }
        return replace(self, logs={**self.logs, **opened})

    def described(
        self, *roles: str, timelines: Mapping[str, Sequence[Timeline]] | None = None
    ) -> tuple[dict[str, Any], ...]:
        """Return the entries of the files in the results: path, role, SHA-256.

        Args:
            roles: Whose, in this order; those of which there is no file are left out.
            timelines: What each log's clock shows, by role, to be told too.

        Raises:
            InvalidRecording: If a file was changed since it was opened.
        """
        return tuple(e for role in roles for e in self._entries(role, (timelines or {}).get(role)))

    def _entries(self, role: str, timelines: Sequence[Timeline] | None) -> Iterator[dict[str, Any]]:
        if role in self.files:
            file = self.files[role]
            yield {"path": str(file.path), "role": role, "sha256": file.sha256}
        for k, log in enumerate(self.logs.get(role, ())):
            entry = {"path": str(log.files[0].path), "role": role, "sha256": log.sha256}
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
