"""Measured robots, in the folder that HEFT_DATA names: bounds that a change must not break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks.arms import ROBOTS
from benchmarks.scoring import Left, error, pieces

from heft.applications.identification import report, results
from heft.applications.identification.identification import identify

FOLDER = os.environ.get("HEFT_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HEFT_DATA is not set: NOTHING IS TESTED ON MEASURED ROBOTS"
)


@pytest.mark.usefixtures("without_doctor")
@pytest.mark.parametrize("name", list(ROBOTS))
def test_torque_of_logs_not_seen_is_predicted_from_the_exported_files(
    name: str, tmp_path: Path
) -> None:
    ratios = []
    for number, case in enumerate(ROBOTS[name](Path(str(FOLDER)))):
        found = identify(case.robot, case.fit)
        out = tmp_path / str(number)
        results.write(found, out, report.html)
        left = Left.read(out, case.robot.gravity, case.robot.joints)
        whole = list(pieces(found.problem, case.score))
        scored = [p.cut() for p in whole]
        full, simple = (
            error(scored, left.predicted(found.problem, whole, kind), case.corner).total
            for kind in ("full", "simple")
        )
        assert full <= case.bound, case.name
        ratios.append(full / simple)
    # On motion unlike the fit's, a simpler model may do better: on none where all are alike.
    assert min(ratios) < 1.01, f"{name}: the dictionary is worse than what it stands for"
