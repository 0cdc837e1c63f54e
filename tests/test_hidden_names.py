"""Names out of files that would steer a terminal, or stand as a line of their own: all shown."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest

from heft import cli
from heft.errors import HeftError, spelt, visible
from heft.files import read_toml, visible_texts
from heft.models import Robot
from heft.recordings import Recording
from tests.messages import joint_states, save_db3

LINE = "heft: all is well"
HIDDEN = f"a\n{LINE}\r\n\x1b[2J\u202eb"
SHOWN = visible(HIDDEN)


def model(path: Path, name: str) -> Path:
    """Write a pendulum whose link and joint have a name."""
    name = quoteattr(name, {"\n": "&#10;", "\r": "&#13;", "\x1b": ""})
    path.write_text(
        f"""<robot name={name}><link name="base"/><link name={name}><inertial>
        <origin xyz="0.1 0 -0.3"/><mass value="2"/>
        <inertia ixx="0.06" iyy="0.06" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name={name} type="revolute"><parent link="base"/><child link={name}/>
        <axis xyz="0 1 0"/><limit lower="-3" upper="3" velocity="9" effort="50"/></joint></robot>"""
    )
    return path


def log(path: Path, name: str) -> Path:
    """Write a log of it, with a column of another joint."""
    t = np.arange(3000) / 500.0
    q = np.sin(3.0 * t) + 0.4 * np.sin(7.3 * t + 1.0)
    a = -9.0 * np.sin(3.0 * t) - 0.4 * 7.3**2 * np.sin(7.3 * t + 1.0)
    tau = 0.3 * a + 5.9 * np.sin(q + 0.3) + 0.02 * np.random.default_rng(0).normal(size=len(t))
    columns = {"t": t, f"q.{name}": q, f"tau.{name}": tau, f"{name} of no use": tau}
    np.savez(path, **columns)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hidden")
    model(folder / f"{HIDDEN}.urdf", SHOWN)
    model(folder / "hidden.urdf", HIDDEN)
    log(folder / f"{HIDDEN}.npz", HIDDEN)
    log(folder / "other.npz", HIDDEN + "2")
    (folder / "with.toml").write_text(f"[joint.{json.dumps(HIDDEN)}]\narmature = true\n")
    (folder / "wrong.toml").write_text(f"[joint.{json.dumps(HIDDEN * 2)}]\narmature = true\n")
    return folder


COMMANDS = {
    "identify": ["identify", f"{HIDDEN}.urdf", f"{HIDDEN}.npz", "--out", "out"],
    "identify with": [
        *("identify", f"{HIDDEN}.urdf", f"{HIDDEN}.npz", "--with", "with.toml", "--out", "out"),
    ],
    "a wrong option": [
        *("identify", f"{HIDDEN}.urdf", f"{HIDDEN}.npz", "--with", "wrong.toml", "--out", "wrong"),
    ],
    "another joint": ["identify", f"{HIDDEN}.urdf", "other.npz", "--out", "wrong"],
    "check": ["check", f"{HIDDEN}.npz"],
    "check with a robot": ["check", f"{HIDDEN}.npz", "--robot", f"{HIDDEN}.urdf"],
    "convert": ["convert", f"{HIDDEN}.npz", "--out", f"{HIDDEN}.csv"],
    "compare": ["compare", "out", "out"],
    "predict": ["predict", "out", f"{HIDDEN}.npz", "--out", "torques.csv"],
    "a missing file": ["check", f"{HIDDEN}.parquet"],
    "a model that hides": ["identify", "hidden.urdf", "other.npz", "--out", "wrong"],
    "a missing model": ["identify", f"{HIDDEN}.xml", f"{HIDDEN}.npz"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_is_a_line_of_its_own(
    name: str, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    if "out" in COMMANDS[name][1:-1] and not (files / "out").exists():
        monkeypatch.setattr(sys, "argv", ["heft", *COMMANDS["identify"]])
        with contextlib.suppress(SystemExit):
            cli.main()
        capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["heft", *COMMANDS[name]])
    code = 0
    try:
        cli.main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    said = capsys.readouterr()
    lines = (said.out + said.err).split("\n")
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.lstrip().startswith(LINE)]
    assert any(visible(f"\n{LINE}") in line for line in lines) or name in ("predict", "compare")
    refused = name.startswith(("a ", "another"))
    assert (code == 2) == refused, said.err


def test_no_name_is_a_line_of_a_report(files: Path) -> None:
    if not (files / "out").exists():
        pytest.skip("not identified")
    for path in (files / "out").iterdir():
        text = path.read_bytes().decode("utf-8", "replace")
        if path.suffix != ".npz" and path.suffix != ".urdf":  # whose bytes are the model's own
            assert not re.search(rf"^\s*{LINE}", text, re.MULTILINE), path
            assert "\u202e" not in text and "\x1b" not in text


def test_names_are_the_same_in_all_files(files: Path) -> None:
    robot = Robot.from_urdf(files / f"{HIDDEN}.urdf")
    assert robot.joints == (SHOWN,)
    recording = Recording.open(files / f"{HIDDEN}.npz")
    assert recording.signals == tuple(f"{kind}.{robot.joints[0]}" for kind in ("q", "tau"))
    assert list(read_toml(files / "with.toml")["joint"]) == list(robot.joints)


def test_messages_of_joints_that_hide_something_are_read(tmp_path: Path) -> None:
    at = 0.01 * np.arange(50)
    states = joint_states({f"q.{HIDDEN}": np.sin(at)}, [10**9 + int(1e9 * t) for t in at])
    recording = Recording.open(save_db3(tmp_path / "run.db3", states))
    assert f"q.{SHOWN}" in recording.signals
    (block,) = recording.blocks([f"q.{SHOWN}"])
    np.testing.assert_allclose(block.values[:, 0], np.sin(at))


def test_names_that_are_spelt_alike_are_two(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "run.npz", **{"t": np.arange(3.0), "q.a\n": np.zeros(3), r"q.a\n": np.ones(3)}
    )
    with pytest.raises(HeftError, match="column names repeat"):
        Recording.open(tmp_path / "run.npz")


def test_a_path_is_spelt_as_a_shell_reads_it(tmp_path: Path) -> None:
    import subprocess

    for name in (HIDDEN, "it's\n\\n", "plain name", "é\t$x"):
        text = spelt(name)
        assert text.isprintable()
        call = ["bash", "-c", f"printf %s {text}"]
        assert subprocess.run(call, capture_output=True, check=True).stdout.decode() == name


def test_texts_are_spelt_at_any_depth() -> None:
    assert visible_texts({"a\n": [{"b": "c\r"}, 1.5, None, "d"]}) == {
        r"a\n": [{"b": r"c\r"}, 1.5, None, "d"]
    }
