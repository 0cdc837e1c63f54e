"""The same bytes, lines and exit status wherever output goes, in processes of their own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from heft.cli import main
from heft.cli.terminal import _letter_in_ascii, leave_unread, message, not_done
from heft.errors import InvalidSetting
from heft.files import require_writable, write_text

ROOT = Path(__file__).parents[1]
PLACES = {
    "UTF-8": ([], {"PYTHONIOENCODING": "utf-8"}),
    "ASCII, without assertions": (["-O"], {"PYTHONIOENCODING": "ascii"}),
    "no locale, without docstrings": (
        *(["-OO"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    ),
}


def heft(words: list[str], flags: list[str], **settings: str) -> subprocess.CompletedProcess[bytes]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LC_", "LANG"))}
    environment = own | {"PYTHONPATH": str(ROOT / "src")} | settings
    call = [sys.executable, *flags, "-m", "heft", *words]
    return subprocess.run(call, capture_output=True, env=environment, check=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log that lacks numbers, so that there is something to say of it."""
    path = tmp_path_factory.mktemp("log") / "run.csv"
    rows = [f"{0.01 * k:.2f},{np.sin(0.1 * k):.6f},{k if k % 5 else ''}" for k in range(400)]
    path.write_text("\n".join(["t,q.elbow,tau.elbow", *rows]), encoding="utf-8")
    return path


def test_files_and_exit_are_the_same_and_lines_are_shown_wherever_heft_runs(
    log: Path, tmp_path: Path
) -> None:
    said, written, codes = {}, set(), set()
    for number, (place, (flags, settings)) in enumerate(PLACES.items()):
        out = tmp_path / f"{number}.json"
        done = heft(["check", str(log), "--json", str(out)], flags, **settings)
        assert b"Traceback" not in done.stderr, (place, done.stderr.decode()[-500:])
        said[place] = done.stdout
        written.add(out.read_bytes())
        codes.add(done.returncode)
    assert codes == {1} and len(written) == 1
    whole = said["UTF-8"].decode()
    assert "✗ not finite" in whole and "run.csv" in whole
    for place in list(PLACES)[1:]:
        shown = said[place].decode("ascii")
        assert "x not finite" in shown and len(shown.splitlines()) == len(whole.splitlines())


def test_help_is_shown_in_ascii_and_without_docstrings() -> None:
    done = heft(["check", "--help"], ["-OO"], PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "--json" in done.stdout.decode("ascii")


def test_every_letter_of_the_messages_has_a_substitute_in_ascii() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    letters = {letter for text in texts for letter in text if not letter.isascii()}
    assert len(letters) > 50
    escaped = set()
    for letter in letters:
        substitute = _letter_in_ascii(letter)
        assert substitute and substitute.isascii(), letter
        if substitute.startswith("\\"):
            escaped.add(letter)
    assert escaped.isdisjoint("±×·−–→≤≥“”’°✗²³½π…") and len(escaped) < len(letters) / 3
    assert [_letter_in_ascii(x) for x in "±²βü…"] == ["+-", "2", "beta", "u", "..."]
    assert _letter_in_ascii("\udcfc") == "\\udcfc"  # of a name that is no text


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (errno.ENOSPC, "where:    standard output\n  next:     make room there"),
        (errno.EPIPE, "where:    standard output"),
    ],
)
def test_results_that_nobody_takes_are_said_to_be_lost(
    problem: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    if problem == errno.ENOSPC:
        if not Path("/dev/full").is_char_device():
            pytest.skip("no full device")
        os.dup2(os.open("/dev/full", os.O_WRONLY), writing)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(OSError) as lost:
            message("verdict: good")
        leave_unread()
        stdout.flush()  # as Python does in the end
    assert lost.value.errno == problem and told in not_done(lost.value)


@pytest.mark.parametrize(
    ("problem", "code", "told"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "no space left on device; not fin"),
    ],
)
def test_what_is_not_finished_is_no_success(
    problem: OSError,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("heft.cli.commands.app", fails)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert told in capsys.readouterr().err


def test_what_the_system_refuses_names_the_path(tmp_path: Path) -> None:
    beyond = Path("/proc/heft.json")  # where not even root can make a file
    if not beyond.parent.is_dir():
        pytest.skip("no such file system")
    with pytest.raises((OSError, InvalidSetting)) as refused:
        write_text(beyond, "{}")
    notes = getattr(refused.value, "__notes__", [str(refused.value)])
    assert str(beyond) in notes[0]


def test_neither_devices_nor_folders_are_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidSetting, match="a device or pipe is not replaced") as refused:
        require_writable(tmp_path / "pipe", "--json")
    assert str(refused.value.argument).startswith("--json ")
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    with pytest.raises(InvalidSetting, match="a folder is not replaced by a file"):
        write_text(folder, "{}")
    assert (folder / "kept.txt").read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    link, target = tmp_path / "link.txt", tmp_path / "target.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
