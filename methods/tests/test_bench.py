"""The benchmark of estimators: what was killed goes on, and its truth is the simulator's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.estimators import ESTIMATORS
from heft.plants import Problem, RobotPlant
from heft.recordings import write_table
from heft.signals import Smoothing
from heft_methods.bench import BenchSettings, Case, RealLogs, names, run_bench
from heft_methods.bench.bench import Kept
from heft_methods.bench.experiments import shared
from heft_methods.bench.trials import Outcome, truth_of

QUICK = BenchSettings(
    robots=("tx40",), noise=("low",), estimators=("least-squares",), guesses=2, seed=7, duration=3.0
)


def contents(out: Path) -> dict[str, bytes]:
    """Return all files but those with times in them."""
    kept = (*sorted((out / "trials").glob("*")), out / "bench.json")
    return {str(p.relative_to(out)): p.read_bytes() for p in kept}


def test_what_was_killed_goes_on_and_leaves_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    found = run_bench(QUICK, whole)
    wanted = contents(whole)
    run_bench(replace(QUICK, guesses=1), killed)
    done: list[str] = []
    again = run_bench(QUICK, killed, progress=done.append)
    assert len(done) == 1  # the first trial was there
    assert contents(killed) == wanted
    (one,), (other,) = found.summaries, again.summaries
    assert one.row == other.row
    assert one.ended == one.trials == 2
    # In class, with hardly any noise: within a few bounds of the truth, within a percent of torque.
    assert one.rmse[0] < 20.0
    assert one.torque[0] < 0.02
    page = (whole / "report.html").read_text(encoding="utf-8")
    assert "least-squares" in page and "tx40" in page
    assert json.loads(wanted["bench.json"])["rows"][0]["ended"] == 2


def test_what_a_case_simulates_is_kept_once_for_all_its_trials() -> None:
    """Else memory would grow with the number of trials."""
    trials = replace(QUICK, guesses=5).trials
    assert len({id(case) for case, _ in trials}) == 1
    again = Case(**vars(trials[0][0]))
    assert shared(again) is shared(trials[0][0])


def test_the_truth_is_that_of_the_simulated_robot() -> None:
    """What fits the exact motion best has the rotors and friction that MuJoCo was given."""
    case = Case("tx40", "in class", "low", 7, 3.0)
    truth = truth_of(case)
    robot = case.robot_of(case.arm.urdf)
    log, _ = case.log(0)
    labels = Problem(RobotPlant(robot), (log,), Smoothing(10.0, delay=0.0)).labels
    told = dict(zip(labels.names, zip(truth.values, truth.bound, strict=True), strict=True))
    for joint, drive in zip(case.arm.joints, case.simulator.drives_of(7), strict=True):
        entries = {k: v for law in drive.laws for k, v in law.entries().items()}
        for term, name in (("viscous", "viscous"), ("sigmoid[0.02]", "coulomb")):
            value, bound = told[f"{joint}.{term}"]
            assert abs(value - entries[name]) <= bound  # of the least noise
    assert (truth.bound > 0.0).all()


def test_simulators_without_a_controller_are_not_run(tmp_path: Path) -> None:
    case = Case("tx40", "in class", "low", 7, 3.0)
    (tmp_path / "arm.urdf").write_bytes(case.guess(0))
    log, _ = case.log(0)
    write_table(log.canonical(), tmp_path / "log.npz")
    real = RealLogs(tmp_path / "arm.urdf", (tmp_path / "log.npz",), (tmp_path / "log.npz",))
    asked = ("least-squares", "didim", "instrumental", "kalman", "simple", "essential-ratio")
    found = real.trial(asked).results
    assert found["didim"] == found["instrumental"] == {"failed": "not run: controller unknown"}
    for name in ("least-squares", "kalman", "simple"):  # which need none
        assert found[name]["error"] < 0.2
    # Torque is that of the parameters that are left, not of the fit that they were chosen from.
    assert found["essential-ratio"]["error"] > 1.001 * found["least-squares"]["error"]
    gains = "\n".join(
        f"[controller.joint.{j}]\nposition = {g.position}\nvelocity = {g.velocity}"
        for j, g in case.controller.joint.items()
    )
    told = f'[controller]\nfeedforward = "gravity"\nrate = 1000\n{gains}\n'
    (tmp_path / "with.toml").write_text(told)
    known = replace(real, options=tmp_path / "with.toml").trial(("instrumental",)).results
    assert known["instrumental"].get("failed") != "not run: controller unknown"


def test_settings_name_what_there_is() -> None:
    assert set(ESTIMATORS) < set(names())
    for field, value in (("noise", "hihg"), ("friction", "lugr"), ("estimators", "didm")):
        with pytest.raises(InvalidSetting, match="did you mean"):
            replace(QUICK, **{field: (value,)})
    with pytest.raises(InvalidSetting, match="neither a robot"):
        replace(QUICK, robots=("tx41",))
    assert np.array_equal(QUICK.trials[0][0].arm.lower, -QUICK.trials[0][0].arm.upper)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"least-squares": {"values": [1.0], "std": [1.0]}}',
        b'{"least-squares": {"values": [1.0], "std": [], "error": 1.0, "physical": true}}',
        b'{"least-squares": {"values": [NaN], "std": [1.0], "error": 1.0, "physical": true}}',
        b'{"least-squares": {"failed": 3}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_trial_is_named_with_the_cure(tmp_path: Path, content: bytes) -> None:
    kept = Kept(tmp_path)
    kept.open()
    case = QUICK.cases[0]
    kept.add(case, 0, Outcome({"least-squares": {"failed": "for a test"}}, {"least-squares": 0.1}))
    (file,) = (tmp_path / "trials").iterdir()
    file.write_bytes(content)
    with pytest.raises(InvalidSetting, match="made again") as told:
        run_bench(QUICK, tmp_path)
    assert str(file) in str(told.value)
    assert file.read_bytes() == content


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    (tmp_path / "thesis.tex").write_text("mine, too")
    with pytest.raises(InvalidSetting, match="other files"):
        run_bench(QUICK, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "thesis.tex"]


def test_an_interrupt_is_answered_within_a_second_and_trials_are_kept(tmp_path: Path) -> None:
    """With all of its processes, though each is amid a trial."""
    command = [sys.executable, "-m", "heft", "bench", "--out", str(tmp_path / "out")]
    command += ["--robot", "lwr4", "--noise", "low", "--guesses", "50", "--jobs", "2"]
    command += ["--estimators", "least-squares"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stderr is not None
        assert "1 done of 50" in run.stderr.readline()
        begin = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        while "interrupted" not in (told := run.stderr.readline()):
            assert "done of 50" in told
        assert time.monotonic() - begin < 1.0
        told += run.stderr.read()
        assert run.wait() == 130
        assert time.monotonic() - begin < 4.0  # its processes are joined
    assert "Traceback" not in told
    assert "the same command goes on" in told
    assert len(list((tmp_path / "out" / "trials").iterdir())) >= 1
    end = time.monotonic() + 5.0
    while (left := _alive(run.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


def _alive(group: int) -> list[str]:
    """Return the processes of a group that still run, zombies left out."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = (line.split(None, 2) for line in listed.stdout.splitlines())
    return [row[2] for row in rows if int(row[0]) == group and not row[1].startswith("Z")]
