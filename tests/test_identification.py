"""The whole way with settings away from the default: each finds what was planted, and no more."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from heft.applications.identification import report, results
from heft.applications.identification.identification import Identification
from heft.applications.identification.identified import Identified
from heft.applications.identification.inputs import identify
from heft.applications.identification.results import to_json
from heft.certainty import BandwidthSearch, DelaySearch
from heft.errors import HeftError, InvalidSetting
from heft.estimators import ESTIMATORS, Estimate, Method, robust_methods
from heft.estimators.least_squares import LeastSquares
from heft.estimators.problem import Problem as RowProblem
from heft.estimators.robust import scale_of, weighted_information
from heft.fit.prepared import why_differentiated, windows_for
from heft.fit.settings import Settings
from heft.information import inertia
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant, plant_of
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Weak
from tests import robots
from tests.experiments import ARMS, fourier, log, true_robot, wrong_prior
from tests.robots import PLANAR_ARM, FloatArray, Oracle

pytestmark = pytest.mark.usefixtures("without_doctor")

DOWN = (0.0, -9.81, 0.0)
JOINTS = ("shoulder", "elbow")
FRICTION = {"armature": 0.05, "viscous": 0.3, "coulomb": 0.4, "offset": 0.1}
NOISE = 0.02  # [N·m]
RATE = 200.0  # [Hz]
PERIOD = 10.0  # [s]
STILL = Smoothing(delay=0.0)  # no delay is looked for


def planar(**options: object) -> Robot:
    joint = {j: JointOptions(friction="simple", **options.get(j, {})) for j in JOINTS}  # type: ignore[arg-type]
    return Robot.from_urdf_text(PLANAR_ARM, Options(gravity=DOWN, joint=joint))


@cache
def motion(duration: float = 30.0) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return time, position and true torque of a motion that repeats, of the file's own arm."""
    time = np.arange(round(duration * RATE)) / RATE
    q, v, a = fourier(2, time, np.random.default_rng(4), base=1.0 / PERIOD)
    tau = Oracle.of(planar()).inverse_dynamics(q, v, a)
    tau = tau + FRICTION["armature"] * a + FRICTION["viscous"] * v
    return time, q, tau + FRICTION["coulomb"] * np.sign(v) + FRICTION["offset"]


def noisy(extra: FloatArray | float = 0.0, seed: int = 1, duration: float = 30.0) -> FloatArray:
    tau = motion(duration)[2]
    return tau + NOISE * np.random.default_rng(seed).standard_normal(tau.shape) + extra


def arm_log(tau: FloatArray, kind: str = "tau", duration: float = 30.0) -> Recording:
    time, q, _ = motion(duration)
    q = q + 1e-5 * np.random.default_rng(9).standard_normal(q.shape)
    columns = {
        "q": dict(zip(JOINTS, q.T, strict=True)),
        kind: dict(zip(JOINTS, tau.T, strict=True)),
    }
    return Recording.from_arrays(time, "planar", **columns)


def off(found: Identification) -> float:
    """Return the rms error of the base parameters over their stated deviations."""
    problem = found.problem
    bodies = problem.plant.robot.written_bodies()
    names = [
        f"{problem.plant.robot.drives[d].name}.{t.kind}"
        for d, t in problem.plant.robot.drive_columns
    ]
    drives = [FRICTION[n.partition(".")[2]] for n in names]
    true = problem.base.matrix @ np.concatenate([bodies, drives])
    parameters = found.estimate.parameters
    return float(np.sqrt(np.mean(((parameters.values - true) / parameters.std) ** 2)))


@cache
def plain() -> Identification:
    return identify(planar(), [arm_log(noisy())], settings=Settings(STILL))


def test_the_experiment_itself_is_identified() -> None:
    assert off(plain()) < 2.0
    assert plain().left_out == {}
    assert plain().delay.delay == 0.0


# ---- ways of smoothing, weak rows -----------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        Settings(Smoothing(delay=0.0, method="spline")),
        Settings(Smoothing(delay=0.0, method="fourier")),
        Settings(Smoothing(delay=0.0, method="fourier", period=PERIOD)),
        Settings(Smoothing(delay=0.0, torque="filtered")),
        Settings(STILL, rows="weak"),
        Settings(Smoothing(delay=0.0, method="spline"), rows="weak"),
    ],
    ids=["spline", "series", "series of a period", "filtered", "weak", "weak spline"],
)
def test_each_way_from_logs_to_rows_leads_to_the_same_robot(
    settings: Settings, tmp_path: Path
) -> None:
    held_out = arm_log(noisy(seed=7))
    found = identify(planar(), [arm_log(noisy())], [held_out], settings)
    for link in plain().problem.plant.robot.bodies_links:
        here, there = (x.tens[link.name] for x in (found, plain()))
        scale = np.abs(link.nominal).max()
        # Both are right to some per mille; the file itself is the truth.
        assert np.abs(here - there).max() <= 0.03 * scale, link.name
    scores = [s.total for s in found.validation if s.filter_hz is not None]
    assert len(scores) == 2
    assert max(scores) < 0.02
    results.write(found, tmp_path / "found")
    identified = Identified.load(tmp_path / "found")
    assert identified.smoothing == found.problem.resolved
    said = identified.estimate["settings"]
    assert said["smoothing"]["method"] == settings.smoothing.method
    assert (said["weak"] is None) == (found.problem.weak is None)
    predicted = np.concatenate([p[1] for p in identified.predictions(held_out)])
    left = (predicted - motion()[2])[200:-200]
    # The sign of Coulomb friction turns a few rows early or late, all else is well below it.
    assert np.sqrt(np.mean(left**2)) <= 0.25 * FRICTION["coulomb"]


def test_rows_of_the_weak_form_without_noise_are_explained_by_the_truth() -> None:
    robot = planar()
    time, q, tau = motion()
    columns = {n: dict(zip(JOINTS, x.T, strict=True)) for n, x in (("q", q), ("tau", tau))}
    recording = Recording.from_arrays(time, "exact", **columns)
    problem = Problem(
        RobotPlant(robot), (recording,), Smoothing(corner=20.0, delay=0.0), 1, weak=Weak()
    )
    drives = [FRICTION[t.kind] for _, t in robot.drive_columns]
    true = problem.base.matrix @ np.concatenate([robot.written_bodies(), drives])
    left = np.concatenate([r.values for r in problem.residuals(true)])
    effort = np.concatenate([r.effort for r in problem.rows()])
    # Friction turns its sign between two rows: a share of a step, of some twenty in a window.
    assert np.abs(left).max() <= 2.0 * FRICTION["coulomb"] / 20.0
    assert np.median(np.abs(left)) <= 1e-4 * np.median(np.abs(effort))


# ---- gains ----------------------------------------------------------------------------------

OFF, STATED, DOUBT = 1.06, 2.0, 0.2  # the true gain of the elbow over the one stated [N·m/A]


def with_gain(std: float | None) -> Robot:
    return planar(
        shoulder={"gain": 1.5}, elbow={"gain": STATED, "gain_std": std} if std else {"gain": STATED}
    )


def current() -> Recording:
    return arm_log(noisy() / np.array([1.5, OFF * STATED]), "current")


def test_a_gain_that_is_off_is_found_if_it_is_said_to_be_unsure() -> None:
    found = identify(with_gain(DOUBT), [current()], settings=Settings(STILL))
    entries = to_json(found)["joints"]
    elbow = entries["elbow"]
    assert elbow["gain"] == pytest.approx(OFF * STATED, abs=3.0 * elbow["std"]["gain"])
    # Half of what it is off, and some: load-dependent gear friction takes an estimated torque.
    assert 0.0 < elbow["std"]["gain"] < 0.035 * STATED
    assert entries["shoulder"]["gain"] == 1.5  # its own is known
    assert entries["shoulder"]["std"]["gain"] == 0.0
    for name, value in FRICTION.items():
        if name != "armature":
            assert found.simple.values[f"elbow.{name}"] == pytest.approx(value, rel=0.05)
    # What is scored is torque by the gain found.
    assert max(s.total for s in found.fit if s.filter_hz) < 0.02


def test_gains_are_exact_if_nothing_else_is_said() -> None:
    found = identify(with_gain(None), [current()], settings=Settings(STILL))
    entries = to_json(found)["joints"]
    for joint, gain in (("shoulder", 1.5), ("elbow", STATED)):
        assert entries[joint]["gain"] == gain
        assert entries[joint]["std"]["gain"] == 0.0
    assert set(found.calibrated.gains.values()) == {1.0}
    # No robot is of two scales: what is left over tells that something is wrong.
    unsure = identify(with_gain(DOUBT), [current()], settings=Settings(STILL))
    left, least = (max(s.total for s in f.fit if s.filter_hz is not None) for f in (found, unsure))
    assert left > 1.5 * least


def test_a_gain_that_is_right_stays_where_it_is() -> None:
    found = identify(
        with_gain(DOUBT),
        [arm_log(noisy() / np.array([1.5, STATED]), "current")],
        settings=Settings(STILL),
    )
    elbow = to_json(found)["joints"]["elbow"]
    assert elbow["gain"] == pytest.approx(STATED, abs=3.0 * elbow["std"]["gain"])


def test_torque_has_no_gain_to_be_found() -> None:
    found = identify(with_gain(DOUBT), [arm_log(noisy())], settings=Settings(STILL))
    assert set(found.calibrated.gains.values()) == {1.0}


# ---- delay and sharpness --------------------------------------------------------------------


def late(delay: float) -> tuple[Robot, Recording]:
    rng = np.random.default_rng(0)
    truth = true_robot(ARMS["six joints"], rng)
    guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng))
    return guess, log(truth, 12.0, RATE, rng, delay=delay)


@pytest.mark.parametrize("delay", [-0.004, 0.015])
def test_a_delay_that_is_there_is_found(delay: float) -> None:
    guess, recording = late(delay)
    found = identify(guess, [recording])
    # To a fifth of a step of the log.
    assert found.delay.delay == pytest.approx(delay, abs=0.001)
    # Refined once load-dependent gear friction is known.
    assert found.problem.delay == found.delay.delay == pytest.approx(found.delay.best, abs=0.0005)
    assert found.delay.ratio < DelaySearch().gate
    assert to_json(found)["settings"]["smoothing"]["delay"] == found.delay.delay


def test_no_delay_is_found_where_there_is_none() -> None:
    guess, recording = late(0.0)
    found = identify(guess, [recording])
    assert found.delay.delay == found.problem.delay == 0.0
    assert abs(found.delay.best) <= 0.001


def test_a_delay_that_is_stated_is_not_looked_for() -> None:
    guess, recording = late(0.004)
    found = identify(guess, [recording], settings=Settings(Smoothing(delay=0.002)))
    assert found.delay.delay == found.problem.delay == 0.002
    assert found.delay.ratio == 1.0


def wobble(noise: float) -> Problem:
    """The planar arm with encoder noise [rad]."""
    time, q, tau = motion(20.0)
    q = q + noise * np.random.default_rng(3).standard_normal(q.shape)
    columns = {n: dict(zip(JOINTS, x.T, strict=True)) for n, x in (("q", q), ("tau", tau))}
    recording = Recording.from_arrays(time, "planar", **columns)
    return Problem(RobotPlant(planar()), (recording,), Smoothing(corner=2.0, delay=0.0), 1)


def test_motion_may_be_sharper_where_nothing_but_the_corner_blurs_it() -> None:
    blurred = wobble(0.0)
    factor = BandwidthSearch().fit(blurred)
    assert factor > 1.0
    sharper = blurred.sharpened(factor)
    assert sharper is not None
    assert sharper.corner == pytest.approx(factor * 2.0)
    assert sharper.band_corner == 2.0


def test_motion_must_be_duller_where_encoders_are_noisy() -> None:
    loud = wobble(3e-3).with_settings(smoothing=Smoothing(corner=8.0, delay=0.0))
    assert BandwidthSearch().fit(loud) < 1.0


def test_a_corner_never_rises_above_what_the_sampling_allows() -> None:
    assert wobble(0.0).sharpened(50.0) is None


def test_the_error_of_the_corner_is_what_another_corner_does_to_the_estimate() -> None:
    """To first order: half the way from a corner below to one above, channel by channel."""
    search = BandwidthSearch(std_octaves=0.05)
    blurred = wobble(0.0).shortened(search.rows)  # which is what it looks at
    here = LeastSquares(sweeps=1).solve(blurred.information())
    weights = here.weights(worth=False)
    shared = search.cutoff_error(blurred, here.information.rows)
    assert all(s.shape == (2, len(blurred.labels)) for s in shared)

    def at(octaves: float) -> FloatArray:
        moved = blurred.sharpened(2.0**octaves)
        assert moved is not None
        found = moved.information().combined(weights)
        return np.linalg.solve(found.R, found.z)

    change = 0.5 * (at(search.std_octaves) - at(-search.std_octaves))
    R = here.information.combined(weights).R
    weighted = [w**2 * s.sum(axis=0) for w, s in zip(weights.values(), shared, strict=True)]
    expected = np.linalg.solve(R.T @ R, np.sum(weighted, axis=0))
    size = np.linalg.norm(R, axis=0)
    assert np.abs(size * change).max() > 0.0
    np.testing.assert_allclose(
        size * expected, size * change, atol=1e-3 * np.abs(size * change).max()
    )


def test_a_log_that_was_blurred_is_less_sure_of_its_friction() -> None:
    sharp, blurred = (
        identify(planar(), [arm_log(noisy())], settings=Settings(Smoothing(corner=c, delay=0.0)))
        for c in (8.0, 1.5)
    )
    std = [f.estimate.parameters.std for f in (sharp, blurred)]
    assert np.median(std[1] / std[0]) > 1.5


# ---- rows that do not belong ----------------------------------------------------------------


def pushes() -> tuple[FloatArray, np.ndarray]:
    """Return six pushes of half a second, and the rows that they spoil."""
    extra = np.zeros_like(motion()[2])
    for k, first in enumerate(range(500, 5600, 950)):
        extra[first : first + 100] += np.hanning(100)[:, None] * np.array([9.0, 4.0]) * (-1) ** k
    return extra, np.flatnonzero(np.abs(extra[:, 0]) > 10.0 * NOISE)


@cache
def pushed(robust: str = "none") -> Identification:
    recording = arm_log(noisy(pushes()[0]))
    return identify(planar(), [recording], settings=Settings(STILL, robust=robust))


@pytest.mark.parametrize("robust", robust_methods())
def test_pushes_are_left_out(robust: str) -> None:
    extra, spoilt = pushes()
    fooled = pushed()
    found = pushed(robust)
    assert fooled.left_out == {}
    selection = found.problem.recordings[0].selection
    assert selection is not None
    kept = selection(np.arange(len(extra)))
    assert not kept[spoilt].any()
    assert found.left_out == {"planar": int(np.sum(~kept))}
    assert np.sum(~kept) <= 3 * len(spoilt)  # and not much besides
    std = plain().estimate.parameters.std
    errors = [
        np.abs(x.estimate.parameters.values - plain().estimate.parameters.values) / std
        for x in (found, fooled)
    ]
    assert np.sqrt(np.mean(errors[0] ** 2)) <= 2.0
    assert np.sqrt(np.mean(errors[1] ** 2)) >= 10.0
    assert to_json(found)["left_out"] == found.left_out


@pytest.mark.parametrize(
    ("settings", "whole", "base", "why"),
    [
        (Settings(), True, "fixed", None),
        (Settings(), False, "fixed", "selection"),
        (Settings(), True, "free", "base floats"),
        (Settings(robust="huber"), True, "fixed", "left out"),
        (Settings(average=True), True, "fixed", "average"),
        (Settings(method="bayesian"), True, "fixed", "bayesian"),
        (Settings(Smoothing(torque="filtered")), True, "fixed", "filtered"),
        (Settings(rows="weak"), True, "free", None),
        (Settings(rows="differentiated"), True, "fixed", "asked for"),
    ],
)
def test_rows_are_weak_unless_windows_would_be_cut(
    settings: Settings, whole: bool, base: str, why: str | None
) -> None:
    plant = plant_of(robots.load("panda_description/urdf/panda.urdf", base))
    assert (windows_for(plant, settings, whole) is None) == (why is not None)
    told = why_differentiated(plant, settings, whole)
    assert told is None if why is None else why in (told or "")


def test_a_log_too_short_for_windows_has_differentiated_rows() -> None:
    """Unless windows are asked for, which then are too few to tell all columns."""
    log, blurred = arm_log(noisy()), replace(STILL, corner=3.0)
    short = log.window(0, 400)
    progress: list[str] = []
    few = identify(planar(), [short], settings=Settings(blurred), progress=progress.append)
    assert few.problem.weak is None
    assert "Rows are differentiated, since the logs hold too few windows" in report.text(few, True)
    assert "smoothing at 3 Hz, summing up rows, differentiated" in progress
    whole = identify(planar(), [log], settings=Settings(blurred), progress=progress.append)
    assert whole.problem.weak is not None and whole.differentiated is None
    assert "Rows are of the weak form; motion is smoothed at 3 Hz." in report.text(whole, True)
    assert "smoothing at 3 Hz, summing up rows of the weak form" in progress
    with pytest.raises(HeftError, match="more rows than parameters"):
        identify(planar(), [short], settings=Settings(blurred, rows="weak"))


def test_rows_made_of_many_samples_cannot_be_told_apart() -> None:
    settings = Settings(STILL, robust="huber", rows="weak")
    with pytest.raises(InvalidSetting, match="cannot be told apart"):
        identify(planar(), [arm_log(noisy())], settings=settings)


# ---- another estimator ----------------------------------------------------------------------


@dataclass(frozen=True)
class LeastAbsolute:
    """Least absolute deviations, `argmin Σ |r|/σ`, by reweighting: all that a new one has to be."""

    sweeps: int = 20

    def fit(self, problem: RowProblem, /) -> Estimate:
        solver = LeastSquares(coloured=False)
        found = solver.fit(problem)
        for sweep in range(self.sweeps):
            left = [p.values for p in problem.residuals(found.fitted)]
            sigma = scale_of(left, len(problem.channels))
            weights = (1.0 / np.maximum(np.abs(r) / sigma, 1e-2) for r in left)
            information = weighted_information(problem, weights)
            # A row's variance is 1/(2 f(0))² = π/2 σ² at normal noise, its weight of mean π^-½.
            found = solver.conclude(information, sigma, np.ones(len(sigma)), 2 * sweep + 2)
        return found


def test_a_toy_that_is_registered_is_all_that_a_new_estimator_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ESTIMATORS, "toy", Method(LeastAbsolute, "least absolute deviations"))
    recording = arm_log(noisy(pushes()[0]))
    fooled, found = (
        identify(planar(), [recording], settings=Settings(STILL, method=method))
        for method in ("least-squares", "toy")
    )
    usual = plain().estimate.parameters
    errors = [
        np.sqrt(np.mean(((x.estimate.parameters.values - usual.values) / usual.std) ** 2))
        for x in (found, fooled)
    ]
    assert errors[0] <= 0.2 * errors[1]
    # What follows is built on it: the links are nearer to the truth, too.
    gaps = [
        sum(np.linalg.norm(x.tens[k.name] - plain().tens[k.name]) for k in planar().bodies_links)
        for x in (found, fooled)
    ]
    assert gaps[0] < 0.5 * gaps[1]
    assert to_json(found)["settings"]["method"] == "toy"
    assert "method" not in to_json(fooled)["settings"]
    monkeypatch.undo()
    with pytest.raises(InvalidSetting, match="no such estimator"):
        Settings(method="toy")


def test_ordinary_least_squares_is_least_squares_without_weights() -> None:
    log = arm_log(noisy())
    named = identify(planar(), [log], settings=Settings(STILL, method="ordinary"))
    least = LeastSquares(weighting="none")
    made = identify(planar(), [log], settings=Settings(STILL, least_squares=least))
    assert named.estimate.settings["weighting"] == "none"
    assert named.estimate.parameters.values == pytest.approx(
        made.estimate.parameters.values, rel=1e-6
    )


def test_earlier_information_adds_to_least_squares_only() -> None:
    given, log = plain().information, arm_log(noisy())
    with pytest.raises(InvalidSetting, match="adds to least squares only"):
        identify(planar(), [log], settings=Settings(STILL, method="huber"), given=given)


# ---- averages -------------------------------------------------------------------------------


def test_the_average_over_periods_is_the_motion_with_less_noise() -> None:
    found = identify(planar(), [arm_log(noisy())], settings=Settings(STILL, average=True))
    channels = to_json(found)["information"]["channels"]
    every = identify(planar(), [arm_log(noisy())], settings=Settings(STILL, rows="differentiated"))
    for here, there in zip(channels, to_json(every)["information"]["channels"], strict=True):
        assert here["rows"] == round(PERIOD * RATE)
        # Three periods: noise falls by √3, but for what turns its sign and the period's own error.
        assert here["residual_std"] < 0.85 * there["residual_std"]
    for link in plain().problem.plant.robot.bodies_links:
        gap = np.abs(found.tens[link.name] - plain().tens[link.name]).max()
        assert gap <= 0.03 * np.abs(link.nominal).max()


def test_motion_that_does_not_repeat_has_no_average() -> None:
    recording = arm_log(noisy()).window(0, 1500)  # less than one period
    with pytest.raises(InvalidSetting, match=r"repeat|period"):
        identify(planar(), [recording], settings=Settings(STILL, average=True))


@pytest.mark.parametrize(
    "settings", [Settings(STILL, average=True), Settings(STILL, robust="huber")]
)
def test_files_are_described_as_they_are_whatever_is_made_of_them(
    settings: Settings, tmp_path: Path
) -> None:
    time, q, _ = motion()
    columns = {f"q.{j}": q[:, k] for k, j in enumerate(JOINTS)}
    columns |= {f"tau.{j}": noisy()[:, k] for k, j in enumerate(JOINTS)}
    np.savez(tmp_path / "log.npz", t=time, **columns)
    (tmp_path / "arm.urdf").write_bytes(PLANAR_ARM)
    (tmp_path / "arm.toml").write_text("gravity = [0.0, -9.81, 0.0]")
    files = [tmp_path / "log.npz"]
    found = identify(tmp_path / "arm.urdf", files, options=tmp_path / "arm.toml", settings=settings)
    entry = found.inputs[-1]
    assert (entry["role"], entry["samples"], entry["gaps"]) == ("fit", len(time), 0)
    assert entry["duration_s"] == pytest.approx(time[-1], abs=1.0 / RATE)


# ---- strict bounds --------------------------------------------------------------------------


def test_strict_intervals_hold_the_truth_whatever_the_file_says(tmp_path: Path) -> None:
    inside = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        truth = true_robot(ARMS["six joints"], rng)
        guess = Robot.from_urdf_text(wrong_prior(truth.robot, rng, 0.5))
        found = identify(guess, [log(truth, 10.0, RATE, rng)], settings=Settings(STILL))
        results.write(found, tmp_path / str(seed))
        estimate = json.loads((tmp_path / str(seed) / "estimate.json").read_text())
        entries = {p["name"]: p for p in estimate["parameters"]}
        for link in truth.robot.bodies_links:
            mass, com, about = inertia.to_body(link.nominal)
            true = {"mass": mass} | {f"com.{x}": com[i] for i, x in enumerate("xyz")}
            true |= {f"inertia.{x}{x}": about[i, i] for i, x in enumerate("xyz")}
            for name, value in true.items():
                entry = entries[f"{link.name}.{name}"]
                low, high = entry["interval"]
                low, high = (-np.inf if low is None else low, np.inf if high is None else high)
                assert low <= entry["value"] <= high
                inside.append(low <= value <= high)
    assert len(inside) == 2 * 42
    # 95 % at least, seven numbers of a link dependent.
    assert np.mean(inside) >= 0.95 - 2.0 * np.sqrt(0.95 * 0.05 / (len(inside) / 7.0))


def test_settings_are_written_as_they_were() -> None:
    settings = Settings(replace(STILL, corner=6.0), rows="weak", average=False, robust="none")
    said = to_json(identify(planar(), [arm_log(noisy())], settings=settings))["settings"]
    assert said["weak"] == vars(Weak())
    assert (said["robust"], said["average"]) == ("none", False)
    assert said["smoothing"]["corner"] == 6.0
    assert not said["smoothing"]["chosen"]
