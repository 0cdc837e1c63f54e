"""What no import graph shows; the order of rooms and their owners are import-linter's contracts."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import house, sources
from benchmarks.results_file import table

import heft

PACKAGE = Path(heft.__file__).parent
MODULES = sorted(
    ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for p in PACKAGE.rglob("*.py")
)
ROOMS = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py"))
# Libraries that are asked for by name, or in part, and who may do so.
OWNERS = {
    "scipy.signal": "heft.signals",
    "mcap": "heft.recordings",
    "rosbags": "heft.recordings",
    "sqlite3": "heft.recordings",
    "zstandard": "heft.recordings",
    "lz4": "heft.recordings",
    "google": "heft.recordings",
    "h5py": "heft.recordings",
    "ruamel": "heft.recordings",
    "http": "heft.streams",
    "mujoco": "heft.simulation",
}
ROOT = Path(__file__).parents[1]
KEY = r"[A-Z][A-Za-zÀ-ÿ]+(?:1[6-9]|20)\d\d"  # of a source: first author and year
HIDDEN = {"matplotlib", "cvxpy", "pandas", "pickle", "requests", "urllib"}


def path_of(module: str) -> Path:
    """Return the file of a module."""
    place = PACKAGE.parent / module.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def face_of(module: str) -> str:
    """Return the package whose face stands for a module: its room, or its application."""
    parts = module.split(".")
    depth = 3 if parts[1:2] == ["applications"] else 2
    return ".".join(parts[:depth])


def imports(module: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of every absolute import anywhere in a module, nested ones too."""
    for node in sources.nodes(path_of(module)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((str(node.module), a.name) for a in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "library":
            yield str(getattr(node.args[0], "value", "")), ""


def test_a_room_is_entered_by_its_face() -> None:
    for module in MODULES:
        for source, name in imports(module):
            if source.startswith("heft.") and module != "heft":
                assert source == face_of(source), f"{module} reaches into {source}"
                assert source != face_of(module), f"{module} takes a detour by its own face"
                offered = hasattr(importlib.import_module(source), name)
                assert offered or f"{source}.{name}" in MODULES, module


@pytest.mark.parametrize("module", [f"heft.{r}" for r in ROOMS])
def test_a_face_holds_no_logic(module: str) -> None:
    *first, names = sources.syntax(path_of(module)).body
    allowed = (ast.ImportFrom, ast.Expr)
    assert all(isinstance(node, allowed) for node in first)
    if not isinstance(names, allowed):
        assert isinstance(names, ast.If)
        assert ast.unparse(names.test) == "TYPE_CHECKING"
        assert all(isinstance(node, ast.ImportFrom) for node in names.body)
        own = {path.stem for path in path_of(module).parent.glob("*.py")}
        imported = [n.name for node in names.body if node.module for n in node.names]
        assert not own & set(imported), "a file of that name would take its place"
    assert len(path_of(module).read_text().splitlines()) < 50


def test_there_are_few_rooms() -> None:
    assert len(ROOMS) + len(list(PACKAGE.glob("*.py"))) <= 25
    depths = {p: len(p.relative_to(PACKAGE).parts) for p in PACKAGE.rglob("*.py")}
    deep = {p.relative_to(PACKAGE).parts[:2] for p, depth in depths.items() if depth > 2}
    assert max(depths.values()) == 3
    assert {k for k in deep if k[0] != "applications"} == {("recordings", "formats")}


def test_the_house_keeps_within_its_budgets() -> None:
    rows = list(house.rows())
    over = [row for row in rows if row.holds is False]
    assert not over, "\n" + table(over)
    sizes = {row.name: row.value for row in rows}
    assert sizes["lines"] == sum(v for name, v in sizes.items() if name.endswith(": lines"))
    assert {f"{room}: storeys" for room in ROOMS} <= set(sizes)


def test_a_heavy_dependency_has_one_owner() -> None:
    for module in MODULES:
        for name, _ in imports(module):
            for heavy, owner in OWNERS.items():
                if name == heavy or name.startswith(heavy + "."):
                    assert module.startswith(owner), f"{module} imports {name}"
            assert name.split(".")[0] not in HIDDEN, module


def test_nothing_prints_or_evaluates_text() -> None:
    for module in MODULES:
        called = {
            node.func.id
            for node in sources.nodes(path_of(module))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"print", "eval", "exec"}, module


def test_every_public_name_says_what_it_is() -> None:
    for module in MODULES:
        loaded = importlib.import_module(module)
        assert loaded.__doc__, module
        for name, thing in vars(loaded).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != loaded.__name__:
                continue
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert inspect.getdoc(thing), f"{module}.{name}"


@pytest.mark.parametrize(
    "module",
    [
        *("information.inertia", "signals.settings", "signals.weak_form", "recordings.recording"),
        *("plants.robot", "plants.rows", "estimators.consistent"),
    ],
)
def test_numbers_in_public_docstrings_have_units(module: str) -> None:
    assert re.search(r"\[(kg|m|s|Hz|rad|N·m)", path_of(f"heft.{module}").read_text())


@pytest.mark.parametrize("name", dir(heft))
def test_the_public_face_resolves(name: str) -> None:
    assert getattr(heft, name) is not None


def test_importing_heft_is_light() -> None:
    code = "import sys, heft; print(' '.join(sys.modules))"
    call = [sys.executable, "-c", code]
    loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "numba", "pinocchio", "pyarrow", "jinja2"} & set(loaded)


def test_what_an_identification_hardly_ever_needs_is_not_loaded_for_it() -> None:
    modules = ("optimize", "interpolate", "signal", "special", "spatial")
    heavy = tuple(f"scipy.{m}" for m in modules)
    code = (
        "import sys; from heft import identify; from numpy import f2py, testing\n"
        "lazy = [m.__spec__.loader for m in (f2py, testing) if '_LazyModule' in str(type(m))]\n"
        f"print(len(lazy), *sorted(set({heavy}) & set(sys.modules)))\n"
        "print(f2py.__name__, testing.__name__)"
    )
    call = [sys.executable, "-c", code]
    loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["2", "numpy.f2py", "numpy.testing"]


def cited() -> set[str]:
    """Return the keys in brackets of the code, the tests, the benchmarks and the pages."""
    keys = set()
    for folder in ("src", "methods", "tests", "benchmarks", "fuzz", "examples", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".ipynb", ".jinja"} and path.stem != "references":
                for bracket in re.findall(r"\[[^\[\]]*\]", path.read_text(encoding="utf-8")):
                    keys |= set(re.findall(rf"\b{KEY}\b", bracket))
                    assert not re.match(r"\[[A-Z]\w+,? (1[6-9]|20)\d\d\b", bracket), bracket
    return keys


def test_every_source_cited_is_in_the_bibliography_and_no_other() -> None:
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    listed = re.findall(rf'^- <a id="({KEY})"></a>\*\*\1\*\*$', page, re.MULTILINE)
    assert listed == sorted(set(listed)), "one entry a key, in order"
    assert set(listed) == cited()
