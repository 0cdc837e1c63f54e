"""What other distributions add to heft, and heft without them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import heft
from heft.cli.options import registered
from heft.estimators import ESTIMATORS
from heft.loading import extensions

METHODS = Path(__file__).parents[1] / "methods" / "pyproject.toml"
ALONE = "import importlib.metadata as m; m.distributions = lambda **_: (); "


def run(code: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)


def test_the_second_distribution_adds_what_it_says() -> None:
    stated = tomllib.loads(METHODS.read_text("utf-8"))["project"]["entry-points"]
    for group, entries in stated.items():
        assert {n: e.value for n, e in extensions(group).items()} == entries
    added = set(stated["heft.methods"])
    assert added <= set(ESTIMATORS)
    assert {n for n in added if ESTIMATORS[n].robust} == set(stated["heft.robust"])
    assert {n for n, robust in registered().items() if robust} >= set(stated["heft.robust"])
    assert heft.Simulate.__module__.startswith("heft_methods.")


def test_heft_alone_has_its_own_names_and_says_where_the_others_are() -> None:
    listed = run(ALONE + "from heft.estimators import ESTIMATORS; print(*ESTIMATORS)")
    assert set(listed.stdout.split()) == set(ESTIMATORS) - set(extensions("heft.methods"))
    asked = run(ALONE + "from heft.cli import main; main()", "bench", "--all", "--jobs", "2")
    assert asked.returncode == 2
    assert "pip install heft-robotics-methods" in asked.stderr
    missing = run(ALONE + "import heft; heft.Simulate")
    assert "AttributeError" in missing.stderr


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_the_current_folder_adds_nothing(tmp_path: Path, kind: str) -> None:
    """Entry points there would be code that heft runs unasked, from where people have logs."""
    folder = tmp_path / f"evil-1.{kind}"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[heft.methods]\nevil = evil:boom\n")
    (folder / "METADATA").write_text("Name: evil\nVersion: 1\n")
    code = "from heft.loading import extensions; print(*extensions('heft.methods'))"
    names = run(code, folder=tmp_path).stdout.split()
    assert "kalman" in names
    assert "evil" not in names
