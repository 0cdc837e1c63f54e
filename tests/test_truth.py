"""The rows of the benchmark of truth: they hold where a fit is right and sure, not elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.truth import CONDITIONS, LATE, Key, planned, rows_of
from benchmarks.truth_scores import NORMAL

Record = dict[str, Any]


def record(seed: int, spread: float, bias: float = 0.0, delay: float = 0.0) -> Record:
    """Return a record whose errors are normal, of a stated deviation times `spread`."""
    rng = np.random.default_rng(seed)

    def numbers() -> dict[str, list[float]]:
        error = 1e-3 * (bias + spread * rng.normal(size=200))
        return {"error": error.tolist(), "half": [NORMAL * 1e-3] * 200}

    kinds = ("base", "rotor", "curve", "torque alike", "torque other", "simple")
    true = 0.01 * (1.0 + seed)
    return {
        **{k: numbers() for k in kinds},
        "alike": {"full": true, "simple": true},
        "other": {"full": true, "simple": true},
        "slow": [true, true, true],
        "slow, all frequencies": [true, true, true],
        "masses": {"truth": [1.0], "low": [0.5], "high": [np.inf]},
        "delay": delay,
        "true delay": 0.0,
        "verdict": "good",
        "score": true,
        "expected": true,
        "swept": {},
    }


def holds(records: dict[Key, Record], part: str) -> set[bool | None]:
    found = {r.holds for r in rows_of(records, {}) if part in r.name and "[" not in r.name}
    assert found, part
    return found


def of(*made: Record) -> dict[Key, Record]:
    return {("z1", "lugre", 1000 + k): r for k, r in enumerate(made)}


def test_honest_intervals_hold_and_others_do_not() -> None:
    honest = of(*(record(k, 1.0) for k in range(4)))
    assert holds(honest, "base, truths within") == {True}
    assert holds(honest, "half width over") == {True}
    for spread in (2.0, 0.2):  # too sure; hardly ever wrong, and so not of 95 %
        assert holds(of(*(record(k, spread) for k in range(4))), "base, truths within") == {False}
    assert holds(of(*(record(k, 0.2) for k in range(4))), "torque other, median half") == {False}
    biased = of(*(record(k, 1.0, bias=3.0) for k in range(4)))
    assert holds(biased, "curve, truths within") == {False}


@pytest.mark.parametrize(("delay", "right"), [(0.0, True), (4e-4, True), (-0.01, False)])
def test_a_delay_that_is_not_there_is_counted(delay: float, right: bool) -> None:
    found = of(*(record(k, 1.0, delay=delay) for k in range(3)))
    assert holds(found, "delay taken where there is none, largest") == {right}


def test_a_delay_that_is_there_is_to_be_found() -> None:
    late = [record(k, 1.0, delay=d) | {"true delay": t} for k, (d, t) in enumerate(DELAYS)]
    shares = [r.value for r in rows_of(of(*late), {}) if "delay found" in r.name]
    assert shares[0] == pytest.approx(3 / 5)


# Taken and true [s]: within 15 %, within 0.3 ms, neither, lead for lag, within 15 %.
DELAYS = ((0.0175, 0.02), (0.0013, 0.0015), (0.004, 0.003), (-0.003, 0.003), (0.008, 0.008))


def test_a_good_verdict_on_a_bad_model_is_counted() -> None:
    good = of(*(record(k, 1.0) for k in range(12)))  # errors of .01 to .12
    assert holds(good, "good above") == {False}
    assert holds(of(*(record(k, 1.0) for k in range(5))), "good above") == {True}


def test_what_failed_is_a_row() -> None:
    rows = list(rows_of({("z1", "lugre", 1000): {"failed": "why"}}, {}))
    assert [r.holds for r in rows] == [False]


def test_errors_are_compared_with_those_of_before() -> None:
    now, was = of(*(record(k, 1.0) for k in range(3))), of(*(record(k + 3, 1.0) for k in range(3)))
    (row,) = [r for r in rows_of(now, was) if "over that of before" in r.name and "[" not in r.name]
    assert row.value == pytest.approx(0.02 / 0.05)
    assert row.holds


def test_light_arms_are_for_the_light_condition() -> None:
    keys = planned(["z1", "finger"], list(CONDITIONS), [1000, 1001])
    assert {c for a, c, _ in keys if a == "finger"} == {"light direct drive"}
    assert "light direct drive" not in {c for a, c, _ in keys if a == "z1"}
    assert len(keys) == 2 * len(CONDITIONS)
    assert len(set(LATE)) == 4
