"""Laws of compiling: what is kept is what the sources say, whoever compiled it, and when."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import heft
from heft.dynamics import compiled_walks, presliding, reverse_walk, walk
from heft.information import folding

PACKAGE = Path(heft.__file__).parent
UNITS = {
    "walks": compiled_walks.KERNELS,
    "presliding": presliding.KERNELS,
    "folding": folding.KERNELS,
}

# A function in one file that calls one of another, as the walk calls `fold`.
LOW = """
from heft.compiled import reassociated
{constant}

@reassociated
def low(x):
    return {factor} * x
"""
HIGH = """
import low
from heft.compiled import Kernels, reassociated

@reassociated
def high(x):
    return 1.0 + low.low(x)

def warm_up():
    high(1.0)

KERNELS = Kernels((high,), warm_up)
"""
ASK = """
import sys
import high
before = high.KERNELS.is_compiled()
high.KERNELS.prepare()
compiled_here = sum(high.high.stats.cache_misses.values())
print(high.high(10.0), before, compiled_here, high.KERNELS.is_compiled())
"""


def begun(folder: Path, code: str, **environment: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths} | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=300.0)
    assert process.returncode == 0
    return out.split()


def toy(folder: Path, factor: str = "2.0", constant: str = "") -> None:
    (folder / "low.py").write_text(LOW.format(factor=factor, constant=constant))
    (folder / "high.py").write_text(HIGH)


def compiled_functions() -> set[str]:
    modules = (walk, reverse_walk, presliding, folding)
    return {n for m in modules for n, f in vars(m).items() if hasattr(f, "py_func")}


def test_each_compiled_function_belongs_to_one_unit() -> None:
    """One that two share would be compiled with one of them and loaded by the other."""
    functions = [id(f) for unit in UNITS.values() for f in unit.functions]
    assert len(functions) == len(set(functions))
    names = [f.py_func.__name__ for unit in UNITS.values() for f in unit.functions]
    assert set(names) == compiled_functions()


def test_the_walk_depends_on_the_file_of_its_folding() -> None:
    sources = {p.name for p in compiled_walks.KERNELS.sources}
    assert sources == {"walk.py", "reverse_walk.py", "folding.py"}


def test_another_process_compiles_and_the_next_finds_it(tmp_path: Path) -> None:
    toy(tmp_path)
    assert said(begun(tmp_path, ASK)) == ["21.0", "False", "0", "True"]
    assert said(begun(tmp_path, ASK)) == ["21.0", "True", "0", "True"]


def test_a_change_of_what_a_kernel_calls_is_noticed(tmp_path: Path) -> None:
    toy(tmp_path)
    said(begun(tmp_path, ASK))
    toy(tmp_path, "3.0")
    assert said(begun(tmp_path, ASK)) == ["31.0", "False", "0", "True"]


def test_a_change_of_a_constant_of_a_third_file_is_noticed(tmp_path: Path) -> None:
    for factor, expected in (("2.0", "21.0"), ("3.0", "31.0")):
        (tmp_path / "numbers_of.py").write_text(f"FACTOR = {factor}\n")
        toy(tmp_path, "FACTOR", "from numbers_of import FACTOR")
        assert said(begun(tmp_path, ASK)) == [expected, "False", "0", "True"]


def test_compiled_for_another_processor_is_kept_beside(tmp_path: Path) -> None:
    toy(tmp_path)
    said(begun(tmp_path, ASK))
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    assert said(begun(tmp_path, ASK, **other))[:3] == ["21.0", "False", "0"]
    assert said(begun(tmp_path, ASK)) == ["21.0", "True", "0", "True"]


def test_processes_at_once_compile_once(tmp_path: Path) -> None:
    toy(tmp_path)
    answers = sorted(said(p) for p in [begun(tmp_path, ASK) for _ in range(3)])
    # Whoever came first found nothing, the others what that one left; nobody compiled itself.
    assert all(a[0] == "21.0" and a[2:] == ["0", "True"] for a in answers)
    stamps = list(tmp_path.rglob("*.digest"))
    assert len(stamps) == 1 and len(list(tmp_path.rglob("high.high-*.nbc"))) == 1


def test_numbers_are_right_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A file stands wherever numba would make a folder: permissions do not bind everybody."""
    toy(tmp_path)
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "full").write_text("")
    nowhere = {k: str(tmp_path / "full" / "x") for k in ("HOME", "XDG_CACHE_HOME")}
    answer = said(begun(tmp_path, ASK, PYTHONDONTWRITEBYTECODE="1", **nowhere))
    assert answer[0] == "21.0"
    assert answer[1] == answer[3] == "False"


def test_a_changed_constant_of_the_walk_makes_other_numbers(tmp_path: Path) -> None:
    """The package itself, copied with what is compiled of it."""
    for unit in UNITS.values():
        unit.prepare()
    shutil.copytree(PACKAGE, tmp_path / "heft")
    path = tmp_path / "heft" / "dynamics" / "walk.py"
    changed = path.read_text().replace("1.0 - 0.5 * z", "1.0 - 0.25 * z")
    assert changed != path.read_text()
    path.write_text(changed)
    code = """
import numpy as np
from heft.dynamics import compiled_walks, walk
assert not compiled_walks.KERNELS.is_compiled()
compiled_walks.KERNELS.prepare()
sine, cosine = np.empty(1), np.empty(1)
walk.sine_cosine(np.array([0.5]), sine, cosine)
misses = sum(sum(f.stats.cache_misses.values()) for f in compiled_walks.KERNELS.entries)
print(cosine[0], misses)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    cosine, misses = said(process)
    assert float(cosine) == pytest.approx(0.8775825618903728 + 0.25 * 0.5**2, abs=1e-15)
    assert misses == "0"
