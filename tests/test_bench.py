"""The benchmark of estimators: what was killed goes on, and its truth is the simulator's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heft.applications.bench import BenchSettings, Case, RealLogs, names, run_bench
from heft.applications.bench.trials import truth_of
from heft.errors import InvalidSetting
from heft.estimators import ESTIMATORS
from heft.plants import Problem, RobotPlant
from heft.recordings import write_table
from heft.signals import Smoothing

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
    asked = ("least-squares", "didim", "instrumental", "kalman", "simple")
    found = real.trial(asked).results
    assert found["didim"] == found["instrumental"] == {"failed": "not run: controller unknown"}
    for name in ("least-squares", "kalman", "simple"):  # which need none
        assert found[name]["error"] < 0.2
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
