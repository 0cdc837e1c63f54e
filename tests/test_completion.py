"""Shell completion knows every command and works in the shells that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from heft.cli import app

SOURCE = Path(__file__).parents[1] / "src"
COMMANDS = [name for name in app if not name.startswith("-")]
SHELLS: tuple[Literal["bash", "zsh", "fish"], ...] = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_names_every_command_and_the_choices_of_options(
    shell: Literal["bash", "zsh", "fish"],
) -> None:
    script = app.generate_completion(shell=shell)
    assert {"identify", "predict", "demo"} <= set(COMMANDS)
    for word in (*COMMANDS, "validate", "huber"):
        assert word in script


@pytest.fixture(scope="module", params=SHELLS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the script that a fresh home folder gets, `bash`'s for example."""
    home = tmp_path_factory.mktemp(request.param)
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    for variable in ("ZSH", "ZSH_CUSTOM"):
        environment.pop(variable, None)
    call = [sys.executable, "-m", "heft", "--install-completion", "--shell", request.param]
    answer = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
    (script,) = (p for p in home.rglob("*heft*") if p.is_file())
    assert str(script) in answer.stdout
    return script


def test_what_is_installed_is_the_script(installed: Path) -> None:
    assert all(command in installed.read_text(encoding="utf-8") for command in COMMANDS)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_a_command_and_a_choice(tmp_path: Path) -> None:
    script = tmp_path / "heft"
    script.write_text(app.generate_completion(shell="bash"), encoding="utf-8")

    def completed(*words: str) -> list[str]:
        line = (
            f"source {script}; COMP_WORDS=(heft {' '.join(words)}); COMP_CWORD={len(words)}; "
            'COMP_LINE="${COMP_WORDS[*]}"; _heft; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        call = ["bash", "--norc", "-c", line]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()

    assert completed("ide") == ["identify"]
    assert completed("identify", "--rob") == ["--robust"]
    assert completed("identify", "--robust", "hu") == ["huber"]
