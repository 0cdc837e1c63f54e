"""The files that a benchmark's figures come from, by its imports, and whether they changed since.

A module's files are those that its imports lead to. A name that is imported from a package's face
is followed to the file that defines it, so that a room of which one file is used counts as that
file; files are followed as wholes. What is imported inside of functions counts, and so does what
only a text names: programs that are run as text, modules and folders by their names; `heft` as a
command is all that the command imports. Pages, styles and models that lie beside a file of heft
belong to it. Comments count: a file is its bytes. What only says how benchmarks are run
(`program.py`, this file) does not, nor do versions of other people's packages, or measured data.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
PLACES = {
    "heft": ROOT / "src" / "heft",
    "heft_methods": ROOT / "methods" / "src" / "heft_methods",
    **{name: ROOT / name for name in ("benchmarks", "tests", "fuzz")},
}
MODULE = re.compile(rf"(?:{'|'.join(PLACES)})(?:\.\w+)+")
IN_TEXT = re.compile(rf"\b(?:from|import)\s+((?:{'|'.join(PLACES)})[\w.]*)")
COMMAND = re.compile(r"heft(?: [a-z].*)?", re.DOTALL)
NOT_MEASURED = {BENCHMARKS / name for name in ("__init__.py", "program.py", "sources.py")}
MADE = {"__pycache__", "results", ".cache"}

Wanted = tuple[Path, str | None]  # a file, and the name that is asked of it; all of it if None


@cache
def file_of(module: str) -> Path | None:
    """Return the file of a module of this repository, or None."""
    first, *rest = module.split(".")
    if first not in PLACES:
        return None
    place = PLACES[first].joinpath(*rest)
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file if file.exists() else None


def module_of(file: Path) -> str:
    """Return the package that relative imports of a file begin at, or "" outside of all."""
    for name, place in PLACES.items():
        if file.is_relative_to(place):
            return ".".join([name, *file.parent.relative_to(place).parts])
    return ""


@cache
def syntax(file: Path) -> ast.Module:
    """Return a file's syntax tree."""
    return ast.parse(file.read_bytes())


@cache
def nodes(file: Path) -> tuple[Any, ...]:
    """Return all nodes of a file's syntax tree."""
    return tuple(ast.walk(syntax(file)))


@cache
def bound(file: Path) -> dict[str, tuple[Wanted, ...]]:
    """Return what a file imports by the names that it gives it."""
    found: dict[str, list[Wanted]] = {}
    for node in nodes(file):
        if isinstance(node, ast.Import):
            for name in node.names:
                parts = name.name.split(".")
                files = (file_of(".".join(parts[:k])) for k in range(1, len(parts) + 1))
                wanted = [(f, None) for f in files if f is not None]
                # Only the last is asked for everything: `import a.b` runs the face of a.
                found.setdefault(name.name, []).extend(
                    (f, None if f == wanted[-1][0] else "") for f, _ in wanted
                )
        elif isinstance(node, ast.ImportFrom):
            above = module_of(file).split(".")
            above = above[: len(above) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            for name in node.names:
                inner = file_of(f"{module}.{name.name}")
                outer = file_of(module)
                asked = None if name.name == "*" else name.name
                wanted = [(inner, None)] if inner else []
                wanted += [(outer, "" if inner else asked)] if outer else []
                found.setdefault(name.asname or name.name, []).extend(wanted)
    return {name: tuple(wanted) for name, wanted in found.items()}


@cache
def named_in_texts(file: Path) -> tuple[Wanted, ...]:
    """Return the modules, folders and files that texts of a file name."""
    if file.is_relative_to(PLACES["heft"]):  # messages name commands that they do not run
        return ()
    said = set[str]()
    documentation = {
        id(node.body[0].value)
        for node in nodes(file)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            said |= set() if id(node) in documentation else {node.value}
    modules = {m for text in said for m in IN_TEXT.findall(text)}
    modules |= {text for text in said if MODULE.fullmatch(text)}
    modules |= {"heft.__main__" for text in said if COMMAND.fullmatch(text)}
    files = [file_of(m.rstrip(".")) for m in modules]
    for text in (t for t in said if re.fullmatch(r"\w[\w./-]*", t)):
        for place in (ROOT / text, BENCHMARKS / text):
            files += place.rglob("*") if place.is_dir() else [place]
    return tuple((f, None) for f in files if f is not None and f.is_file() and counts(f))


def counts(file: Path) -> bool:
    """Return whether a file is one of the repository's sources."""
    return not MADE & set(file.parts) and file.suffix not in (".pyc", ".md", ".so")


@cache
def beside(folder: Path) -> tuple[Path, ...]:
    """Return what lies in a folder of heft and is no module."""
    if not folder.is_relative_to(PLACES["heft"]):
        return ()
    files = [f for f in folder.iterdir() if f.is_file() and f.suffix != ".py"]
    plain = [f for f in folder.iterdir() if f.is_dir() and not (f / "__init__.py").exists()]
    return (*files, *(f for place in plain for f in place.rglob("*") if f.is_file()))


@cache
def leads_to(file: Path, name: str | None) -> tuple[Wanted, ...]:
    """Return what a name of a file, or all of it, comes from."""
    if file.suffix != ".py" or name == "":
        return ()
    resting = tuple((f, None) for f in beside(file.parent))
    if file.name == "__init__.py" and name is not None and name in bound(file):
        return resting + bound(file)[name]
    return (*resting, *(w for some in bound(file).values() for w in some), *named_in_texts(file))


@cache
def files_of(module: str) -> tuple[Path, ...]:
    """Return the files that a benchmark's figures come from, sorted."""
    start = file_of(f"benchmarks.{module}")
    if start is None:
        raise SystemExit(f"there is no benchmark {module}")
    seen, left = set[Wanted](), [(start, None)]
    while left:
        wanted = left.pop()
        if wanted not in seen and wanted[0] not in NOT_MEASURED:
            seen.add(wanted)
            left += leads_to(*wanted)
    return tuple(sorted({f for f, _ in seen if counts(f)}))


def digest(module: str) -> str:
    """Return the digest of the files of a benchmark."""
    found = hashlib.sha256()
    for file in files_of(module):
        own = hashlib.sha256(file.read_bytes()).hexdigest()
        found.update(f"{file.relative_to(ROOT)} {own}\n".encode())
    return found.hexdigest()


def git(*words: str) -> list[str] | None:
    """Return the lines that git answers, or None where it refuses."""
    call = ["git", "-C", str(ROOT), *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else None


@cache
def changed_since(commit: str) -> frozenset[str] | None:
    """Return files that differ from those of a commit, or None where it is not known."""
    differ, new = git("diff", "--name-only", commit), git("ls-files", "--others")
    return None if differ is None or new is None else frozenset([*differ, *new])
