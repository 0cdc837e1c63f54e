"""The tree shows the theory: import order, one owner a heavy dependency, light imports."""

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

PACKAGE = Path(__file__).parents[1] / "src" / "heft"
# A module imports only what stands before it. Reading order of the code.
ORDER = [
    "errors",
    "files",
    "places",
    "inertia",
    "parameters",
    "extended",
    "information",
    "identifiability",
    "markup",
    "urdf",
    "geoms",
    "mjcf_numbers",
    "mjcf",
    "options",
    "denavit_hartenberg",
    "expressions",
    "algebra",
    "symbolic_chain",
    "symbolic_base",
    "symbolic",
    "symbolic_print",
    "robot",
    "kernel",
    "kinematics",
    "poses",
    "friction",
    "tables",
    "columns",
    "known_logs",
    "recording",
    "drafting",
    "splines",
    "periodic",
    "signals",
    "weak",
    "wrench",
    "linearised",
    "wrench_logs",
    "weighed",
    "plants",
    "recursive",
    "forms",
    "simulation",
    "uncertainty",
    "estimators",
    "cone",
    "logdet",
    "robust",
    "consistency",
    "gains",
    "simple",
    "bounds",
    "curves",
    "checks",
    "edits",
    "export",
    "load_settings",
    "friction_code",
    "preparation",
    "identification",
    "carried",
    "matched",
    "weighing",
    "following",
    "sensors",
    "payload",
    "decoding",
    "live",
    "checkpoint",
    "network",
    "live_page",
    "running",
    "results",
    "page",
    "report",
    "doctor_finding",
    "doctor_log",
    "doctor_fit",
    "doctor_physics",
    "doctor",
    "comparison",
    "comparison_report",
    "animation",
    "view",
    "convert",
    "demo",
    "cli",
]
# Heavy dependencies and who may import them.
OWNERS = {
    "pinocchio": {"robot"},
    "sympy": {"expressions", "algebra", "symbolic_print"},
    "tomlkit": {"export"},
    "numba": {"kernel"},
    "pyarrow": {"tables", "results", "convert"},
    "scipy.signal": {"signals"},
    "clarabel": {"consistency", "bounds"},
    "viser": {"view"},
    "trimesh": {"view"},
    "mcap": {"tables", "convert"},
    "rosbags": {"tables", "convert"},
    "sqlite3": {"tables"},
    "zstandard": {"tables"},
    "lz4": {"tables"},
    "ruamel": {"tables"},
    "cyclopts": {"cli"},
    "zenoh": {"network"},
    "cbor2": {"decoding", "network"},
    "http": {"live_page"},
}
HIDDEN = {"mujoco", "matplotlib", "cvxpy", "pandas", "pickle", "requests", "urllib"}


def sources(module: str) -> list[Path]:
    """Return the file of a module, or all those of its folder."""
    path = PACKAGE / f"{module}.py"
    return [path] if path.exists() else sorted((PACKAGE / module).glob("*.py"))


def source(module: str) -> str:
    return "\n".join(path.read_text() for path in sources(module))


def imports(module: str) -> Iterator[tuple[bool, str]]:
    """Yield (is_ours, name) for every import anywhere in a module, nested ones too.

    Modules of one folder may import one another; optional libraries are asked for by name.
    """
    outside = 2 if (PACKAGE / module).is_dir() else 1
    for node in [n for path in sources(module) for n in ast.walk(ast.parse(path.read_text()))]:
        if isinstance(node, ast.ImportFrom):
            if node.level >= outside:
                parts = [node.module] if node.module else [a.name for a in node.names]
                yield from ((True, str(p).split(".")[0]) for p in parts)
            elif not node.level:
                yield False, str(node.module)
        elif isinstance(node, ast.Import):
            yield from ((False, a.name) for a in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "library":
            yield False, str(getattr(node.args[0], "value", ""))


def test_every_module_has_a_place_in_the_order() -> None:
    found = {p.stem for p in PACKAGE.glob("*.py")} | {p.parent.name for p in PACKAGE.glob("*/*.py")}
    assert found - {"__init__", "heft"} == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_what_stands_before_it(module: str) -> None:
    before = set(ORDER[: ORDER.index(module)]) | {"__version__"}
    above = {name for ours, name in imports(module) if ours} - before
    assert not above


@pytest.mark.parametrize("module", ORDER)
def test_a_heavy_dependency_has_one_owner(module: str) -> None:
    for ours, name in imports(module):
        if ours:
            continue
        for heavy, owners in OWNERS.items():
            if name == heavy or name.startswith(heavy + "."):
                assert module in owners, f"{module} imports {name}"
        assert name.split(".")[0] not in HIDDEN


@pytest.mark.parametrize("module", ORDER)
def test_nothing_prints_or_evaluates_text(module: str) -> None:
    called = {
        node.func.id
        for path in sources(module)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"print", "eval", "exec"}


@pytest.mark.parametrize("module", ORDER)
def test_every_public_name_says_what_it_is(module: str) -> None:
    loaded = importlib.import_module(f"heft.{module}")
    for name, thing in vars(loaded).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != loaded.__name__:
            continue
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


@pytest.mark.parametrize(
    "module", ["inertia", "signals", "weak", "recording", "plants", "consistency"]
)
def test_numbers_in_public_docstrings_have_units(module: str) -> None:
    assert re.search(r"\[(kg|m|s|Hz|rad|N·m)", source(module))


def test_importing_heft_is_light() -> None:
    code = "import sys, heft; print(' '.join(sys.modules))"
    call = [sys.executable, "-c", code]
    loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "numba", "pinocchio", "pyarrow"} & set(loaded)
