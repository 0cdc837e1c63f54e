"""Documentation is executed: README's code, its commands, the figures it states."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import readme

from heft import demo
from heft.options import Options
from heft.recording import ColumnMap
from heft.robot import Robot

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("code", blocks(README, "python"))
def test_the_code_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "identified" / "robot.urdf").exists()


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    lines = [k for b in blocks(README, "console") for k in b.splitlines() if k.startswith("heft ")]
    assert len(lines) == 2
    import pyarrow.csv
    import pyarrow.parquet

    (tmp_path / "arm.urdf").write_bytes((demo.FOLDER / "arm.urdf").read_bytes())
    for number in (1, 4):
        data = (demo.FOLDER / f"run{1 if number == 1 else 2}.parquet").read_bytes()
        (tmp_path / f"run{number}.parquet").write_bytes(data)
    table = pyarrow.parquet.read_table(demo.FOLDER / "run2.parquet")
    for number in (2, 3):
        pyarrow.csv.write_csv(table, tmp_path / f"run{number}.csv")
    for line in lines:
        call = [sys.executable, "-m", "heft.cli", *shlex.split(line)[1:]]
        answer = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
    assert {p.name for p in (tmp_path / "identified").iterdir()} == {
        "robot.urdf",
        "estimate.json",
        "information.npz",
        "report.html",
        "friction.py",
        "friction.c",
    }
    assert (tmp_path / "tau.parquet").exists()


def test_the_figures_of_the_readme_are_the_stored_ones() -> None:
    assert readme.filled(README) == README, "run: python -m benchmarks.readme"


@pytest.mark.parametrize(
    ("page", "make"), [("logs.md", ColumnMap.from_dict), ("options.md", Options.from_dict)]
)
def test_the_toml_of_a_page_is_accepted(page: str, make: object) -> None:
    import tomllib

    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = blocks(text, "toml")
    assert found
    for block in found:
        assert make(tomllib.loads(block), page) is not None  # type: ignore[operator]


def test_the_page_of_models_is_executed() -> None:
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    (rows,) = blocks(text, "toml")
    robot = Robot.from_text(rows.encode(), path="arm.toml")
    assert robot.joints == ("pan", "lift", "reach")
    (code,) = blocks(text, "python")
    call = [sys.executable, "-c", code]
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert ((ROOT / page).parent / target).resolve().exists() or (
            (ROOT / page).parent / f"{target}.md"
        ).exists(), target


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
