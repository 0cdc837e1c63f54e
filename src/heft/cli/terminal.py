"""What the command line writes: lines of results and of progress, wherever they go."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from heft.errors import visible, visible_lines


def message(text: str) -> None:
    """Write lines of results; names out of files steer no terminal."""
    sys.stdout.write(visible_lines(text) + "\n")
    sys.stdout.flush()


def shown(path: Path) -> str:
    """Return a path as part of a line."""
    return visible(str(path))


def progress(text: str) -> None:
    """Write a line of progress; where nobody can be told, the work goes on."""
    with suppress(OSError):
        sys.stderr.write(f"heft: {visible(text)}\n")
        sys.stderr.flush()


def progress_unless(quiet: bool) -> Callable[[str], None]:
    """Return what takes lines of progress."""
    return (lambda _: None) if quiet else progress


def open_streams() -> None:
    """Give what was closed before the start (`heft check run.csv >&-`) a place to be written to.

    Otherwise the first file that is opened would take its number, and what libraries print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
