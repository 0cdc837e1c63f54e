"""Measured robots, in the folder that HEFT_DATA names: bounds that a change must not break."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.arms import ROBOTS
from benchmarks.real_data import Piece, drives, error, pieces, rigid

from heft import report, results
from heft.identification import identify

FOLDER = os.environ.get("HEFT_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HEFT_DATA is not set: NOTHING IS TESTED ON MEASURED ROBOTS"
)


def written(
    out: Path, joints: tuple[str, ...]
) -> Callable[[dict[str, Any], Piece, np.ndarray], np.ndarray]:
    """Return what gives rotors' torque and full friction by the written friction.py."""
    names: dict[str, Any] = {}
    exec((out / "friction.py").read_text(encoding="utf-8"), names)
    assert names["JOINTS"] == joints

    def torque(estimate: dict[str, Any], piece: Piece, rigid_part: np.ndarray) -> np.ndarray:
        model = names["Friction"]()
        position = np.unwrap(piece.q, axis=0)  # or memory would see a jump of a turn
        rows = zip(position.tolist(), piece.v.tolist(), rigid_part.tolist(), strict=True)
        armature = np.array([estimate["joints"][j]["armature"] for j in joints])
        motors = np.zeros_like(piece.a)
        for entry in estimate["motors"].values():
            ratio = np.array([entry["speed"].get(j, 0.0) for j in joints])
            motors += entry["armature"] * (piece.a @ ratio)[:, None] * ratio
        return np.array([model.torque(*row) for row in rows]) + armature * piece.a + motors

    return torque


@pytest.mark.parametrize("name", list(ROBOTS))
def test_torque_of_logs_not_seen_is_predicted_from_the_exported_files(
    name: str, tmp_path: Path
) -> None:
    for number, case in enumerate(ROBOTS[name](Path(str(FOLDER)))):
        found = identify(case.robot, case.fit)
        out = tmp_path / str(number)
        results.write(found, out, report.html)
        estimate = json.loads((out / "estimate.json").read_text())
        urdf = (out / "robot.urdf").read_bytes()
        scored = list(pieces(found.problem, case.score))
        bodies = [rigid(urdf, case.robot.gravity, p) for p in scored]
        friction = written(out, case.robot.joints)
        full = [b + friction(estimate, p, b) for p, b in zip(scored, bodies, strict=True)]
        simple = [
            b + drives(estimate, case.robot.joints, p) for p, b in zip(scored, bodies, strict=True)
        ]
        totals = [error(scored, x, case.corner).total for x in (full, simple)]
        bound = case.bound or 0.072
        assert totals[0] <= bound, case.name
        # The bounds are asked of the default, full friction. Simple friction is fitted with the
        # bodies held that full friction chose; a hundredth more is room for what was measured
        # (LWR4+, run 1 → run 2: 0.02414 for 0.024), not a derived figure.
        assert totals[0] <= totals[1] <= 1.01 * bound, case.name
