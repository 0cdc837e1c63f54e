"""The benchmark that closes the loop: what it calls true is, and small loops of it run."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.excitation_loop import (
    ALONE,
    Loop,
    commanded,
    deviation_rows,
    torque_rows,
    true_values,
)

from heft.excitation import DesignSettings, SolverSettings

QUICK = DesignSettings(
    duration=6.0,
    harmonics=3,
    random=6,
    starts=1,
    workers=1,
    solver=SolverSettings(rounds=2, iterations=10),
)


@pytest.fixture(scope="module")
def loop() -> Loop:
    return Loop.of("ur5", ALONE, QUICK, random=(1,))


def test_true_parameters_make_the_simulated_torque(loop: Loop) -> None:
    motion = loop.motions[0]
    base, plant = motion.base, motion.design.plant
    truth = loop.run(3, 0)
    own = loop.simulator(3, commanded(motion)).other(3, "sines", 1)
    rows = plant.rows(plant.samples_at(own.q, own.v, own.a), base.kept).regressor
    off = rows @ true_values(base, truth) - own.tau
    assert np.linalg.norm(off) < 1e-5 * np.linalg.norm(own.tau)


def test_a_loop_is_recorded_the_same_each_time(loop: Loop) -> None:
    record = loop.record(3)
    assert record == loop.record(3)
    assert len(record["names"]) == len(record["error"]) == len(record["stated"])
    assert 0.4 < np.sqrt(np.mean(np.square(record["error"]))) < 2.5
    assert np.shape(record["held out"]) == (2, 2)
    rows = [*deviation_rows("ur5", [record], True), *torque_rows("ur5", [record])]
    assert all(np.isfinite(r.value) for r in rows)
    assert any(r.holds is not None for r in rows)
