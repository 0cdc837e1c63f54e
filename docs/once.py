"""What is made once: by several builders of the site together, or within one."""

from __future__ import annotations

import ast
import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

FOLDER = "HEFT_DOCS_ONCE"


def once(name: str, make: Callable[[], str]) -> str:
    """Return a text, made by the first who asks for it; others wait for it.

    Args:
        name: Of the text, as a path.
        make: Makes it. Where the environment names no folder that builders share, so does everyone.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return make()
    with (Path(folder) / name.replace("/", "-")).open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        if not text:
            text = make()
            file.write(text)
        return text


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax of a file of Python."""
    return ast.parse(path.read_text(encoding="utf-8"))
