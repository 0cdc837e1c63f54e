"""Opened files: their digest, and detection of changes since they were opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from heft.errors import InvalidRecording

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class OpenedFile:
    """A file, or folder of files, at the moment it was opened; create it by `at` before reading."""

    path: Path  # the path as the user gave it
    # file metadata that change when the file, or one in the folder, is written or replaced
    stamps: tuple[Stamp, ...]

    @staticmethod
    def at(path: Path) -> OpenedFile:
        """Return the present state of the file or folder at a path."""
        return OpenedFile(path, _stamps(path))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the bytes as they were opened, computed on first access.

        Raises:
            InvalidRecording: If the file has changed since.
        """
        digest = file_hash(self.path)
        self.refuse_changed()
        return digest

    def refuse_changed(self) -> None:
        """Raise `InvalidRecording` if the file has changed since it was opened."""
        if _stamps(self.path) != self.stamps:
            raise InvalidRecording(
                "a file was changed while it was read",
                argument=str(self.path),
                cure="wait until nothing writes to it, and start again",
            )


def file_hash(path: str | Path) -> str:
    """Return the SHA-256 of a file; of a folder, that of its files' names and hashes."""
    path = Path(path)
    if path.is_dir():
        parts = [f"{file_hash(p)}  {p.name}\n" for p in _files(path)]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_of_all(files: Sequence[OpenedFile]) -> str:
    """Return the SHA-256 of one file; of several, that of all of their hashes."""
    if len(files) == 1:
        return files[0].sha256
    return hashlib.sha256("".join(f"{f.sha256}\n" for f in files).encode()).hexdigest()


def _files(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.iterdir()) if p.is_file()]


def _stamps(path: Path) -> tuple[Stamp, ...]:
    """Return the stamp of a file, or of a folder and its files; None where access fails."""
    try:
        inside = _files(path) if path.is_dir() else []
    except (OSError, ValueError):
        inside = []
    return tuple(_stamp(p) for p in (path, *inside))


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
