"""What is made once: by several builders of the site together, or within one."""

from __future__ import annotations

import ast
import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Facts:
    """What pages say of a file of Python; its syntax tree is a hundred times as large.

    Attributes:
        subject: The first sentence of its docstring.
        imports: Level, module and names of each `from … import …`.
    """

    subject: str
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]


@cache
def facts(path: Path) -> Facts:
    """Return what pages say of a file of Python."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imports = [(n.level, n.module or "", tuple(a.name for a in n.names)) for n in found]
    text = ast.get_docstring(tree) or ""
    return Facts(" ".join(text.split("\n\n")[0].split()), tuple(imports))
