"""Nothing that lies in the folder of somebody's log is run, however heft is started there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pyarrow.parquet
import pytest
from benchmarks.interruptions import MODEL as PENDULUM
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import heft

SOURCES = str(Path(heft.__file__).parents[1])
HOSTILE = "open('run', 'a').write(__name__ + ' ')\n"
IDENTIFY = "from pathlib import Path; heft.identify(Path('arm.urdf'), [Path('run1.parquet')])"
# Loaded by the interpreter before anything that heft could see to.
BEFORE = {"__main__", "__mp_main__", "site", "sitecustomize", "usercustomize", "heft"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a pendulum, beside its model."""
    path = tmp_path_factory.mktemp("log") / "run1.parquet"
    (path.parent / "arm.urdf").write_text(PENDULUM)
    t = np.arange(0.0, 4.0, 0.005)
    q = 0.9 * np.sin(2.1 * t) + 0.4 * np.sin(5.3 * t + 1.0)
    v, a = np.gradient(q, t), np.gradient(np.gradient(q, t), t)
    tau = 0.3 * a + 4.9 * np.sin(q) + 0.2 * v + 0.1 * np.sign(v) + 0.01 * np.cos(90.0 * t)
    table = {"t": t, "q.elbow": q, "tau.elbow": tau}
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    return path


@pytest.fixture(scope="module")
def imported(log: Path) -> set[str]:
    """Names of all modules that an identification imports."""
    script = f"import sys, heft\n{IDENTIFY}\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=log.parent,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": SOURCES},
    )
    return {m for m in run.stdout.split() if not m.startswith("_")} - BEFORE


@pytest.fixture
def folder(imported: set[str], log: Path, tmp_path: Path) -> Path:
    """A log, and beside it a module for every import."""
    shutil.copytree(log.parent, tmp_path, dirs_exist_ok=True)
    for name in imported:
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    return tmp_path


def started(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        env=kept | environment,
        timeout=300,
    )


def test_from_the_shell(folder: Path) -> None:
    """As the script that an installation makes: its own folder is first on the path."""
    script = folder.parent / f"{folder.name}-bin" / "heft"
    script.parent.mkdir()
    script.write_text(f"import sys\nsys.path.append({SOURCES!r})\nimport heft.cli\nheft.cli.main()")
    run = started(folder, str(script), "identify", "arm.urdf", "run1.parquet", "--out", "out")
    assert run.returncode == 0, run.stderr
    assert (folder / "out" / "robot.urdf").exists() and not (folder / "run").exists()


@pytest.mark.parametrize("safe", [True, False])
def test_from_a_line_of_python(safe: bool, folder: Path) -> None:
    """Where Python itself would look there first, heft does not start; else it runs."""
    for name in ("os", "sys", "contextlib", "importlib", "typing"):  # Python's, of any program
        (folder / f"{name}.py").unlink(missing_ok=True)
    line = f"import sys; sys.path.append({SOURCES!r}); import heft; {IDENTIFY}"
    run = started(folder, *(["-P"] if safe else []), "-c", line)
    assert not (folder / "run").exists()
    assert (run.returncode == 0) == safe, run.stderr
    assert safe or "start Python with -P" in run.stderr


@pytest.mark.parametrize("name", ["numba", "scipy", "secrets", "coal"])
def test_what_would_be_run_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(HOSTILE)
    line = f"import sys; sys.path.append({SOURCES!r}); import heft"
    said = started(tmp_path, "-c", line).stderr.splitlines()[-1]
    assert f"'{name}.py' in the current folder" in said and not (tmp_path / "run").exists()


def test_a_folder_of_ones_own_modules_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("arm", "test", "heft_notes"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "numpy").mkdir()  # of data: no module
    line = f"import sys; sys.path.append({SOURCES!r}); import heft, numpy; print(numpy.__name__)"
    run = started(tmp_path, "-c", line)
    assert run.returncode == 0, run.stderr


def test_from_a_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel looks in its own folder first; what it has loaded by itself stays what it is."""
    cell = f"import sys\nsys.path.append({SOURCES!r})\nimport heft\n{IDENTIFY}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    for path in folder.glob("*.py"):  # a kernel that does not start shows nothing
        if path.stem not in ("numba", "scipy", "pyarrow", "clarabel"):
            path.unlink()
    client = NotebookClient(notebook, resources={"metadata": {"path": str(folder)}}, timeout=300)
    with pytest.raises(CellExecutionError, match="in the current folder would be run"):
        client.execute()
    assert not (folder / "run").exists()


def test_processes_beside_it_look_there_neither(folder: Path) -> None:
    script = folder.parent / f"{folder.name}-jobs.py"
    script.write_text(
        f"import sys\nsys.path[0] = {SOURCES!r}\nfrom heft.engine import by_processes\n"
        "if __name__ == '__main__':\n    print(sorted(by_processes(abs, [-1, -2], 2)))"
    )
    run = started(folder, str(script))
    assert run.stdout == "[(-2, 2), (-1, 1)]\n", run.stderr
    assert not (folder / "run").exists()
