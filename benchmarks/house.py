"""How large the house is, room by room, and what makes it hard to read.

    python -m benchmarks.house

A room is a folder of `src/heft`, and so is each application. A docstring is every line between its
quotes; code is all other lines but blank ones. Storeys are the longest way down imports inside a
room. Budgets stand in `pyproject.toml`, `[tool.heft]`; a test fails above them.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from benchmarks import sources
from benchmarks.results_file import Row, at_most, table

PACKAGE = sources.PLACES["heft"]
WHAT = ("lines", "files", "storeys")  # of a room
SHORT = 150  # lines of a file below which one importer is too few
LONG = 8  # lines of a function above which one caller is too few, and most of its parameters
DEMO = PACKAGE / "applications" / "demo"
# Identifies the demo's robot by the command, then writes the files of heft that were run.
IDENTIFY = """
import sys, tempfile
from heft.cli.commands import app
with tempfile.TemporaryDirectory() as folder:
    command = ["identify", *sys.argv[1:], "--out", folder + "/out", "--quiet"]
    app(command, result_action="return_value")
print(*(m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "heft"), sep="\\n")
"""
# What says nothing of what it names.
VAGUE = {"found", "held", "known", "whole", "told", "said", "apart", "left", "push"}


@dataclass(frozen=True, eq=False)
class File:
    """A file of the package."""

    path: Path

    @property
    def room(self) -> str:
        """Its folder; of an application, that of the application."""
        parts = self.path.relative_to(PACKAGE).parts[:-1]
        return "/".join(parts[: 2 if parts[:1] == ("applications",) else 1]) or "(top)"

    @cached_property
    def lines(self) -> list[str]:
        """Its text."""
        return self.path.read_text(encoding="utf-8").splitlines()

    @property
    def nodes(self) -> tuple[Any, ...]:
        """All nodes of its syntax tree."""
        return sources.nodes(self.path)

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """Its functions and methods."""
        return [n for n in self.nodes if isinstance(n, ast.FunctionDef)]

    @cached_property
    def docstrings(self) -> list[str]:
        """Lines of docstrings."""
        owners = (n for n in self.nodes if isinstance(n, ast.Module | ast.ClassDef))
        first: Iterator[Any] = (n.body[0] for n in (*owners, *self.functions) if n.body)
        spans = ((node.lineno - 1, node.end_lineno) for node in first if is_text(node))
        return [line for begin, end in spans for line in self.lines[begin:end]]

    @cached_property
    def names(self) -> Counter[str]:
        """How often each name stands in it."""
        names = (getattr(n, "id", getattr(n, "attr", None)) for n in self.nodes)
        return Counter(name for name in names if name)

    @cached_property
    def vague(self) -> int:
        """Number of names it gives that say nothing in part."""
        given = {
            n.id for n in self.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        given |= {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        given |= {n.name for n in self.nodes if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        return sum(bool(set(name.lower().split("_")) & VAGUE) for name in given)

    @cached_property
    def imported(self) -> set[Path]:
        """Files that it imports; of names that a face has, the file behind it."""
        asked = {w for some in sources.bound(self.path).values() for w in some if w[1] != ""}
        behind = (sources.bound(file).get(name or "", ((file, name),)) for file, name in asked)
        return {file for wanted in behind for file, _ in wanted} - {self.path}


def is_text(node: ast.stmt) -> bool:
    """Return whether a statement is but a text."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def body_of(function: ast.FunctionDef) -> list[Any]:
    """Return what a function does, without its docstring."""
    return function.body[is_text(function.body[0]) :] or function.body


def parameters(function: ast.FunctionDef) -> list[str]:
    """Return the names of a function's parameters, without `self`."""
    a = function.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if p]
    return [n for n in names if n not in ("self", "cls")]


def forwards(function: ast.FunctionDef) -> bool:
    """Return whether all that a function does is to call another with its own parameters."""
    only, *more = body_of(function)
    called = getattr(only, "value", None)
    if more or not isinstance(called, ast.Call) or not parameters(function):
        return False
    given = [*called.args, *(k.value for k in called.keywords)]
    return [getattr(getattr(g, "value", g), "id", "") for g in given] == parameters(function)


@cache
def files() -> tuple[File, ...]:
    """Return the files of the package."""
    return tuple(File(path) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def budgets() -> Mapping[str, Mapping[str, Any]]:
    """Return what `[tool.heft]` allows."""
    settings = tomllib.loads((sources.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(settings["tool"]["heft"])


def storeys(some: Iterable[File]) -> int:
    """Return the number of files on the longest way down the imports among them."""
    own = {f.path: f for f in some if f.path.name != "__init__.py"}

    @cache
    def down(path: Path) -> int:
        return 1 + max((down(p) for p in own[path].imported if p in own), default=0)

    return max(map(down, own), default=0)


@cache
def reached() -> tuple[File, ...]:
    """Return the files that `heft identify` runs, of one robot and one log."""
    given = [str(DEMO / name) for name in ("arm.urdf", "run1.parquet")]
    command = [sys.executable, "-c", IDENTIFY, *given]
    here = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=here)
    names = {Path(line) for line in ran.stdout.splitlines()}
    return tuple(f for f in files() if f.path in names)


def rooms() -> Iterator[Row]:
    """Yield lines, files and storeys of each room."""
    own: dict[str, list[File]] = {}
    for file in files():
        own.setdefault(file.room, []).append(file)
    for room, some in sorted(own.items()):
        counted = sum(len(f.lines) for f in some), len(some), storeys(some)
        most = budgets()["rooms"].get(room, (0, 0, 0))
        for what, value, bound in zip(WHAT, counted, most, strict=True):
            yield at_most(f"{room}: {what}", value, "", bound)


def house() -> Iterator[tuple[str, int]]:
    """Yield what is counted in all rooms together."""
    every = files()
    functions = [d for f in every for d in f.functions]
    names, readers = Counter[str](), Counter[str]()
    for file in every:
        names.update(file.names)
        readers.update(file.names.keys())

    written = sum(bool(line.strip()) for f in every for line in f.lines)
    explained = sum(bool(line.strip()) for f in every for line in f.docstrings)
    yield "lines", sum(len(f.lines) for f in every)
    yield "lines of code", written - explained
    yield "lines of docstrings", sum(len(f.docstrings) for f in every)
    yield "lines of applications", sum(len(f.lines) for f in every if "applications" in f.room)
    yield "files", len(every)

    yield "lines that heft identify reaches", sum(len(f.lines) for f in reached())
    yield "files that heft identify reaches", len(reached())

    importers = Counter(path for f in every for path in f.imported)
    short = [f for f in every if len(f.lines) < SHORT and f.path.name != "__init__.py"]
    # What a registry lists is a file by itself, however short.
    listed = {path for f in every if f.path.name == "registry.py" for path in f.imported}
    alone = sum(importers[f.path] == 1 and f.path not in listed for f in short)
    yield f"files of less than {SHORT} lines with one importer", alone

    wide = sum(len(parameters(d)) >= LONG for d in functions)
    yield f"functions of {LONG} parameters or more", wide
    yield "functions that forward their parameters", sum(map(forwards, functions))
    private = [d for d in functions if re.match(r"_[^_]", d.name) and names[d.name] == 1]
    single = sum(body_of(d)[-1].end_lineno - body_of(d)[0].lineno >= LONG for d in private)
    yield f"private functions of more than {LONG} lines that are called once", single

    classes = [n for f in every for n in f.nodes if isinstance(n, ast.ClassDef)]
    data = {n.name for n in classes if any("dataclass" in ast.dump(d) for d in n.decorator_list)}
    calls = (n for f in every for n in f.nodes if isinstance(n, ast.Call))
    made = Counter(getattr(n.func, "id", "") for n in calls)
    local = sum(made[name] == 1 and readers[name] == 1 for name in data)
    yield "dataclasses built in one place and named in one file", local

    outermost = (s for f in every for s in sources.syntax(f.path).body)
    given = (s for s in outermost if isinstance(s, ast.Assign | ast.AnnAssign))
    targets = (t for s in given for t in getattr(s, "targets", None) or [getattr(s, "target", s)])
    yield "constants of modules", sum(getattr(t, "id", "").isupper() for t in targets)
    yield "names with a part that says nothing", sum(f.vague for f in every)


def rows() -> Iterator[Row]:
    """Yield the rooms, then the whole."""
    yield from rooms()
    for what, value in house():
        yield at_most(what, value, "", budgets()["house"].get(what))


if __name__ == "__main__":
    print(table(list(rows())))
