"""Measured robots, in the folder that HEFT_DATA names: bounds that a change must not break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.arms import ROBOTS
from benchmarks.real_data import drives, error, pieces, rigid

from heft import report, results
from heft.identification import identify

FOLDER = os.environ.get("HEFT_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HEFT_DATA is not set: NOTHING IS TESTED ON MEASURED ROBOTS"
)


@pytest.mark.parametrize("name", list(ROBOTS))
def test_torque_of_logs_not_seen_is_predicted_from_the_exported_file(
    name: str, tmp_path: Path
) -> None:
    import json

    for number, case in enumerate(ROBOTS[name](Path(str(FOLDER)))):
        found = identify(case.robot, case.fit)
        out = tmp_path / str(number)
        results.write(found, out, report.html)
        estimate = json.loads((out / "estimate.json").read_text())
        urdf = (out / "robot.urdf").read_bytes()
        scored = list(pieces(found.problem, case.score))
        predicted = [
            rigid(urdf, case.robot.gravity, p) + drives(estimate, case.robot.joints, p)
            for p in scored
        ]
        total = error(scored, predicted, case.corner).total
        assert total <= (case.bound or 0.072), case.name
