"""Logs of one robot between which friction changed, against the same that agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.fit.friction_changes import Change, of_friction
from heft.fit.settings import Settings
from heft.models.robot import Robot
from heft.signals.settings import Smoothing
from tests.experiments import ARMS, log, true_robot, wrong_prior


@pytest.mark.parametrize("factor", [1.0, 0.62])
def test_runs_between_which_an_arm_warmed_up_are_told(factor: float) -> None:
    rng = np.random.default_rng(5)
    truth = true_robot(ARMS["six joints"], rng, "simple")
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng), truth.robot.options)
    warm = {k: v * (factor if "viscous" in k else 1.0) for k, v in truth.drives.items()}
    runs = [
        log(t, 10.0, 200.0, rng, noise=0.01, name=f"run{k}")
        for k, t in enumerate((truth, truth, replace(truth, drives=warm)))
    ]
    found = identify(guess, runs, settings=Settings(Smoothing(delay=0.0), threads=1))
    told = [c for c in found.checks if c.name == "friction of all runs"]
    if factor == 1.0:
        assert not told
        return
    (check,) = told
    assert check.status == "warn" and 0.3 < check.value < 0.7  # of what both have in the mean
    assert "run2" in check.message and "run1" not in check.message


JOINTS = tuple(Change("run2", joint, kind) for joint in "abc" for kind in ("viscous", "dry"))


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), ""),
        ((-0.4, 0.0, -0.4, 0.0, -0.4, 0.0), "run2 viscous of all joints -40% ± 1% of its size"),
        ((0.0, 0.0, 0.0, -0.5, 0.0, 0.0), "run2 b.dry -50% ± 2% of its size"),
    ],
)
def test_a_change_is_told_of_all_joints_where_they_change_alike(
    truth: tuple[float, ...], said: str
) -> None:
    information = np.diag([3000.0] * 6)
    covariance = np.linalg.inv(information + np.eye(6))
    check = of_friction(JOINTS, covariance @ information @ np.array(truth), covariance)
    assert (check is not None) == bool(said)
    if check is not None:
        assert f"from the first by: {said}" in check.message
        assert check.value == pytest.approx(np.abs(truth).max(), rel=0.02)
