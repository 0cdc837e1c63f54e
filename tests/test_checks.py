"""Wrong data must not get a good verdict: the arm that comes with heft, spoilt on purpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heft.applications import demo
from heft.applications.identification.identification import Identification, identify
from heft.errors import FitError, InvalidSetting
from heft.fit import of_the_unit
from heft.fit.scores import Score
from heft.fit.settings import Limit, Limits, Settings
from heft.information.checks import Check, Status, verdict
from heft.models.robot import Robot
from heft.recordings.recording import Recording
from tests.experiments import simple_options

Columns = dict[str, np.ndarray]


def columns() -> tuple[np.ndarray, Columns]:
    """Return time and signals of the shipped log."""
    log = Recording.open(demo.FOLDER / "run1.parquet")
    blocks = list(log.blocks(log.signals))
    values = np.concatenate([b.values for b in blocks])
    time = np.concatenate([b.time for b in blocks])
    return time, {n: values[:, k] for k, n in enumerate(log.signals)}


def identified(
    spoil: Callable[[np.ndarray, Columns], tuple[np.ndarray, Columns]],
    limits: Limits | None = None,
) -> Identification:
    path = demo.FOLDER / "arm.urdf"
    robot = Robot.from_urdf(path, simple_options(path))
    time, signals = spoil(*columns())
    kinds: dict[str, Columns] = {"q": {}, "tau": {}}
    for name, values in signals.items():
        kind, _, joint = name.partition(".")
        kinds[kind][joint] = values
    settings = Settings(limits=limits or Limits())
    return identify(robot, [Recording.from_arrays(time, "spoilt", **kinds)], settings=settings)


def milli(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    return time, {n: 1e-3 * v if n.startswith("tau") else v for n, v in s.items()}


def flipped(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    return time, {n: -v if n.startswith("tau") else v for n, v in s.items()}


def swapped(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    a, b = "tau.wrist_1_joint", "tau.wrist_2_joint"
    return time, {**s, a: s[b], b: s[a]}


def degrees(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    return time, {n: np.degrees(v) if n.startswith("q") else v for n, v in s.items()}


def milliseconds(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    return 1e3 * time, s


def still(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
    return time, {**s, "q.elbow": np.full_like(time, 0.5)}


SPOILT = {
    "torque in mN·m": milli,
    "all signs flipped": flipped,
    "two joints swapped": swapped,
    "degrees for radians": degrees,
    "milliseconds for seconds": milliseconds,
    "a joint that never moves": still,
}


def test_the_log_as_it_was_recorded_is_good() -> None:
    assert identified(lambda t, s: (t, s)).verdict == "good"


def test_limits_are_settings_and_a_cure_is_said_beyond_them() -> None:
    strict = Limits(condition=Limit(1.0, 2.0), mean_of_joints=Limit(0.0), seen=1.0)
    found = identified(lambda t, s: (t, s), strict)
    said = {c.name: (c.status, c.message) for c in found.checks}
    assert said["condition"][0] == "fail" and "faster and farther" in said["condition"][1]
    assert said["mean of joints"][0] == "warn"  # what has no end never fails
    assert "hides joints of little torque" in said["mean of joints"][1]
    assert said["masses not seen"][0] == "warn"  # no mass loses all of its doubt
    assert said["worst joint"][0] == "pass" and "check units" not in said["worst joint"][1]
    assert found.verdict == "poor"
    with pytest.raises(FitError, match="no parameters explain"):
        identified(lambda t, s: (t, s), Limits(unexplained=0.0))


@pytest.mark.parametrize("ends", [(2.0, 1.0), (-1.0, 1.0), (np.nan, 1.0), (1.0, np.nan)])
def test_a_limit_that_fails_before_it_passes_is_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(InvalidSetting, match="fails before it passes"):
        Limit(*ends)


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_log_is_not_good_and_says_what_to_look_at(name: str) -> None:
    try:
        found = identified(SPOILT[name])
    except FitError as refused:
        assert refused.cure
        return
    assert found.verdict != "good"
    said = [c.message for c in found.checks if c.status != "pass"]
    assert any(word in " ".join(said) for word in ("check", "milliseconds", "never move"))


def test_checks_look_at_filtered_scores_of_full_friction_alone() -> None:
    scores = [Score("log", f, hz, 0.1, 0.1, {}) for f in ("full", "simple") for hz in (None, 9.0)]
    assert [s for s in scores if s.counts] == [Score("log", "full", 9.0, 0.1, 0.1, {})]


def test_torque_that_follows_nothing_is_refused() -> None:
    def noise(time: np.ndarray, s: Columns) -> tuple[np.ndarray, Columns]:
        rng = np.random.default_rng(0)
        made = {
            n: 5.0 + np.convolve(rng.normal(size=len(v)), np.ones(50) / 50, "same")
            for n, v in s.items()
            if n.startswith("tau")
        }
        return time, {**s, **made}

    with pytest.raises(FitError, match="no parameters explain"):
        identified(noise)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["pass", "pass"], "good"),
        (["pass", "warn"], "usable"),
        (["warn", "fail"], "poor"),
        ([], "good"),
    ],
)
def test_checks_add_up(statuses: list[Status], expected: str) -> None:
    made = [Check("x", s, 0.0, 0.0, "") for s in statuses]
    assert verdict(made) == expected


@pytest.mark.parametrize(
    ("value", "status"),
    [(0.5, "pass"), (1.0, "pass"), (1.5, "warn"), (2.0, "warn"), (2.1, "fail"), (np.nan, "fail")],
)
def test_a_limit_passes_what_it_says(value: float, status: str) -> None:
    assert Check.at_most("x", value, 1.0, 2.0, "").status == status


@pytest.mark.parametrize(
    ("scale", "grams"), [(1.1e-3, True), (7e-4, True), (1e-2, False), (1.0, False), (1e3, False)]
)
def test_masses_in_grams_have_their_cure(scale: float, grams: bool) -> None:
    check = of_the_unit(scale, Limits().unit_of_torque)
    assert ("divide all masses and inertias of the model file by 1000" in check.message) == grams
