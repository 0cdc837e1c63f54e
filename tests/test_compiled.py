"""Laws of compiling: what runs is what the sources say, whoever compiled it, where and when."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import heft
from heft import compiled
from heft.information import folding

PACKAGE = Path(heft.__file__).parent

# A function in one file that calls one of another, as the walk calls `fold`.
LOW = """
from heft.compiled import reassociated
from numbers_of import UNIT

@reassociated
def low(x):
    return {factor} * UNIT * x
"""
HIGH = '''
import low
from heft.compiled import Kernels, reassociated

@reassociated
def high(x):
    """Docstrings are constants of a function, and are gone under -OO."""
    return 1.0 + low.low(x)

def warm_up():
    high(1.0)

KERNELS = Kernels((high,), warm_up)
'''
# What it answers, and whether this process compiled.
ASK = """
import high
from numba.core import event

with event.install_recorder("numba:compile") as compiling:
    print(high.high(10.0), len(compiling.buffer))
"""
COMPILED = "heft: compiling numerical kernels (high)"


def begun(
    folder: Path, code: str, *flags: str, new_group: bool = False, **environment: str
) -> subprocess.Popen[str]:
    """Start Python beside a folder of modules, with a cache in that folder."""
    place = folder / "elsewhere"
    place.mkdir(exist_ok=True)
    paths = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    kept = {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code],
        cwd=place,
        env=os.environ | kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=new_group,
    )


def said(process: subprocess.Popen[str]) -> tuple[list[str], bool]:
    """Return what a process says, and whether it had another one compile."""
    out, err = process.communicate(timeout=300.0)
    assert process.returncode == 0, err
    return out.split(), COMPILED in err


def toy(folder: Path, factor: float = 2.0, unit: float = 1.0) -> None:
    (folder / "numbers_of.py").write_text(f"UNIT = {unit}\n")
    (folder / "low.py").write_text(LOW.format(factor=factor))
    (folder / "high.py").write_text(HIGH)


def files(folder: Path) -> list[Path]:
    return list((folder / "cache").rglob("high-*"))


def test_every_kernel_that_commands_call_is_an_entry() -> None:
    """An entry's own code holds what it calls; what is called beside it would be compiled anew."""
    found = [k.warm_up.__module__.rpartition(".")[2] for k in compiled.every_kernels()]
    assert {"compiled_walks", "folding", "presliding", "hit_and_run"} <= set(found)
    assert len(set(found)) == len(found) == 13


def test_kernels_that_count_no_references_lose_no_array() -> None:
    """A function that counts none must not be given an array that is made for it alone."""
    _nrt_python.memsys_enable_stats()
    try:
        for kernels in compiled.every_kernels():
            kernels.warm_up()
            before = rtsys.get_allocation_stats()
            for _ in range(3):
                kernels.warm_up()
            gc.collect()
            after = rtsys.get_allocation_stats()
            made, freed = after.mi_alloc - before.mi_alloc, after.mi_free - before.mi_free
            assert made == freed, kernels.warm_up.__module__
    finally:
        _nrt_python.memsys_disable_stats()


def test_the_walk_depends_on_the_file_of_its_folding() -> None:
    from heft.dynamics import compiled_walks

    sources = {p.name for p in compiled_walks.KERNELS.sources}
    assert sources == {"walk.py", "reverse_walk.py", "folding.py"}


@pytest.fixture(scope="module")
def compiled_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of modules whose kernels another process has compiled and kept there."""
    folder = tmp_path_factory.mktemp("compiled")
    toy(folder)
    assert said(begun(folder, ASK)) == (["21.0", "0"], True)
    return folder


@pytest.fixture
def kept(compiled_toy: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(compiled_toy, tmp_path / "kept"))


@pytest.mark.parametrize("flags", [[], ["-OO"]])
def test_the_next_process_finds_the_code_however_python_optimises(
    flags: list[str], kept: Path
) -> None:
    assert said(begun(kept, ASK, *flags)) == (["21.0", "0"], False)


@pytest.mark.parametrize("first", ["", "high.high(1.0)"])
def test_compiled_functions_of_the_user_may_call_one_that_is_kept(first: str, kept: Path) -> None:
    """What is kept of one is not what a compiler takes into another."""
    users = f"import high, numba\n{first}\n@numba.njit\ndef users(x):\n    return -high.high(x)\n"
    ask = f"{users}\nprint(users(10.0), high.high(10.0))"
    assert said(begun(kept, ask)) == (["-21.0", "21.0"], False)


@pytest.mark.parametrize("changed", [{"factor": 3.0}, {"unit": 1.5}])
def test_a_change_of_what_a_kernel_calls_or_of_a_constant_of_a_third_file_is_noticed(
    changed: dict[str, float], kept: Path
) -> None:
    toy(kept, **changed)
    assert said(begun(kept, ASK)) == (["31.0", "0"], True)


def test_numbas_settings_of_the_user_neither_change_the_code_nor_are_changed(kept: Path) -> None:
    """Another processor's name, say: what is kept is by level, so it is found all the same."""
    other = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_OPT": "0"}
    ask = ASK + "from numba import config\nprint(config.CPU_NAME, int(config.OPT))\n"
    assert said(begun(kept, ask, **other)) == (["21.0", "0", "generic", "0"], False)


def test_a_processor_of_a_lower_level_has_files_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    high, low = compiled.LEVELS["x86-64-v3"], compiled.LEVELS["x86-64-v2"]
    for has, expected in ((high + low, "x86-64-v3"), (low, "x86-64-v2")):

        class Features(dict[str, bool]):
            def flatten(self) -> str:
                return ",".join(self)

        features = Features(dict.fromkeys(has, True))
        monkeypatch.setattr(compiled.binding, "get_host_cpu_features", lambda f=features: f)
        compiled.processor.cache_clear()
        assert compiled.processor() == expected
    monkeypatch.setattr(compiled.binding, "get_host_cpu_features", Features)
    compiled.processor.cache_clear()
    assert compiled.processor() not in compiled.LEVELS
    compiled.processor.cache_clear()


def test_what_is_torn_is_compiled_again(kept: Path) -> None:
    (path,) = files(kept)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert said(begun(kept, ASK)) == (["21.0", "0"], True)
    assert len(path.read_bytes()) > len(whole) // 2


def test_processes_at_once_are_right_and_leave_one_file(tmp_path: Path) -> None:
    toy(tmp_path)
    answers = [said(p) for p in [begun(tmp_path, ASK) for _ in range(2)]]
    assert [a for a, _ in answers] == [["21.0", "0"]] * 2
    assert len(files(tmp_path)) == 1


def test_a_cache_does_not_grow_for_ever(tmp_path: Path) -> None:
    for k in range(compiled.MOST_KEPT + 3):
        (tmp_path / f"high-{k}").write_text("")
        os.utime(tmp_path / f"high-{k}", (k, k))
    compiled._forget(tmp_path, "high")
    assert {p.name for p in tmp_path.iterdir()} == {
        f"high-{k}" for k in range(3, compiled.MOST_KEPT + 3)
    }


def test_the_code_is_the_same_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A file stands where the cache would be: permissions do not bind everybody."""
    toy(tmp_path)
    (tmp_path / "full").write_text("")
    assert said(begun(tmp_path, ASK, XDG_CACHE_HOME=str(tmp_path / "full"))) == (
        ["21.0", "0"],
        True,
    )


def test_an_interrupt_while_another_process_compiles_ends_both_without_a_word_of_its(
    tmp_path: Path,
) -> None:
    """Ctrl-C goes to all processes of a terminal."""
    toy(tmp_path)
    ask = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + ASK
    process = begun(tmp_path, ask, new_group=True)
    assert process.stderr is not None and COMPILED in process.stderr.readline()
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60.0)
    assert process.returncode and err.count("Traceback") == 1 and not files(tmp_path)


def test_numbers_are_right_where_no_other_process_can_be_had(tmp_path: Path) -> None:
    toy(tmp_path)
    ask = "import sys\nsys.executable = ''\n" + ASK
    (answer, times), told = said(begun(tmp_path, ask))
    assert answer == "21.0" and int(times) > 0 and told and not files(tmp_path)


def test_no_module_of_the_current_folder_has_a_part_in_compiling(tmp_path: Path) -> None:
    """The first start of heft, in a folder where somebody else has put modules after it began."""
    toy(tmp_path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    ask = f"""
import os, pathlib, sys
os.chdir({str(tmp_path)!r})
import heft, numba, numpy, high
os.chdir({str(folder)!r})
sys.path.insert(0, "")
for name in {{"numba", "numpy", "heft", "llvmlite", "pickle", "logging", "hashlib", "low"}}:
    pathlib.Path(name + ".py").write_text("open('run', 'w')")
{ASK}
"""
    assert said(begun(tmp_path, ask)) == (["21.0", "0"], True)
    assert not (folder / "run").exists()


def test_a_changed_constant_of_the_walk_makes_other_numbers(tmp_path: Path) -> None:
    """The package itself, copied, beside code of the walk as it was."""
    shutil.copytree(PACKAGE, tmp_path / "heft", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "heft" / "information" / "folding.py"
    changed = path.read_text().replace("factor = 2 / (first", "factor = 3 / (first")
    assert changed != path.read_text()
    code = """
import numpy as np
from heft.information import folding
print(folding.absorb(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 1.0]]))[0][0, 1])
"""
    absorbed = folding.absorb(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 1.0]]))[0][0, 1]
    assert absorbed == pytest.approx(2.0**0.5, rel=1e-15)
    name = folding.KERNELS.name(compiled.processor())
    folder = tmp_path / "cache" / "heft" / "kernels"
    folder.mkdir(parents=True)
    shutil.copy(compiled.cache_folder() / name, folder)
    path.write_text(changed)
    after, _ = said(begun(tmp_path, code))
    assert abs(float(after[0]) - absorbed) > 0.1
    assert len(list(folder.iterdir())) == 2
