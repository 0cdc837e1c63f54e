"""Logs of one robot between which friction changed, against the same that agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.fit.friction_changes import likely_together
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


def test_changes_of_one_kind_go_together() -> None:
    root = likely_together(("a.viscous", "a.dry", "b.viscous"))
    np.testing.assert_allclose(root @ root.T, [[2, 0, 1], [0, 2, 0], [1, 0, 2]], atol=1e-12)
