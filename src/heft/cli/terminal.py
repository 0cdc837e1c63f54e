"""What the command line writes: lines of results and of progress, wherever they go."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import shlex
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from heft.errors import visible, visible_lines

OTHER_PLACE = "name another place, or ask for the right to write there"
CURES = {
    errno.ENOSPC: "make room there, or name a place on another disk",
    errno.EDQUOT: "make room there, or name a place on another disk",
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), OTHER_PLACE),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "name a place where files can be made"),
}
# What is written instead where a terminal or file takes ASCII alone, say.
IN_ASCII = {"±": "+-", "×": "x", "·": ".", "−": "-", "–": "-", "→": "->", "≤": "<=", "≥": ">="}
IN_ASCII |= {"“": '"', "”": '"', "’": "'", "°": "deg", "✗": "x", "∞": "inf", "√": "sqrt"}


def as_typed(text: str) -> str:
    """Return a text whose proposed commands name the model file of this command line."""
    words = sys.argv[1:]
    files = [w.rpartition("=")[2] for w in words if w.endswith((".urdf", ".xml"))]
    given = words[words.index("--robot") + 1 :] if "--robot" in words else files
    if not given:
        return text
    command = r"(--robot|heft excite) (?:ROBOT|MODEL)\b(?: \(no --robot [^)]*\))?"
    return re.sub(command, lambda m: f"{m[1]} {shlex.quote(visible(given[0]))}", text)


def message(text: str) -> None:
    """Write lines of results; names out of files steer no terminal."""
    try:
        sys.stdout.write(visible_lines(as_typed(text)) + "\n")
        sys.stdout.flush()
    except OSError as problem:
        problem.add_note("standard output")
        raise


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


def not_done(problem: OSError) -> str:
    """Return what the system refused, with where and what to do, as lines of an error."""
    reason = problem.strerror or str(problem)
    lines = [f"{reason[:1].lower()}{reason[1:]}; not finished"]
    named = [problem.filename] if problem.filename else []
    where = [*getattr(problem, "__notes__", ()), *map(os.fsdecode, named)]
    lines += [f"  where:    {place}" for place in where[:1]]
    if problem.errno in CURES:
        lines.append(f"  next:     {CURES[problem.errno]}")
    return visible_lines("\n".join(lines))


def leave_unread() -> None:
    """Let what is left of lines that nobody takes go nowhere, lest Python flushes it in the end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    codecs.register_error("heft.in_ascii", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="heft.in_ascii")


def _in_ascii(problem: UnicodeError) -> tuple[str, int]:
    """Return what is written for letters that an encoding lacks, and where to go on."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    letters = problem.object[problem.start : problem.end]
    return "".join(map(_letter_in_ascii, letters)), problem.end


def _letter_in_ascii(letter: str) -> str:
    if letter in IN_ASCII:
        return IN_ASCII[letter]
    alike = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    if alike:
        return alike
    family, _, name = unicodedata.name(letter, "").partition(" LETTER ")
    if family.startswith("GREEK"):
        return name.partition(" ")[0].lower()
    return letter.encode("ascii", "backslashreplace").decode()
