"""Gains of drives that are found beside contacts of unknown wrench."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from heft.applications.identification import identify
from heft.applications.identification.entries import base_entries
from heft.applications.identification.results import to_json
from heft.errors import InvalidSetting
from heft.estimators import DriveGains, LeastSquares, PhysicallyConsistent
from heft.fit import Settings, gain_spread, identify_plant
from heft.fit.experiment import ExperimentFit, fit_experiment
from heft.fit.gains import STATED, stated_gains, with_found_gains
from heft.information import Triangle, triangle_of
from heft.models import ContactOptions, JointOptions, Robot
from heft.plants import (
    Elimination,
    FloatingRobotPlant,
    Problem,
    Samples,
    UnsureGains,
    UnsureGainsPlant,
    plant_of,
)
from heft.recordings import Recording
from heft.signals import Smoothing
from tests import robots
from tests.plants import BARE, case
from tests.test_floating_robot import samples_of

Array = np.ndarray[Any, np.dtype[np.float64]]
UNKNOWN = "floating robot, a contact unknown"
TIME = 0.005 * np.arange(1600)
STATED_GAIN = 2.0
TRUE = {"hip": 2.2, "knee": 1.8}  # [N·m/A], a tenth off
SPREAD = 0.15  # relative, of the stated ones
NOISE = {"tau": 0.05, "force": 0.2, "torque": 0.05}


def walker(std: float | None, held: bool = True, **said: Any) -> Robot:
    """Return the walker with currents in place of torques, and one of its contacts unknown.

    Args:
        std: Relative deviation of both gains; None where they are stated as exact.
        held: Whether the wrench at its trunk is measured.
        said: Further options.
    """
    contact = {
        "hook": ContactOptions("trunk", wrench="measured" if held else "unknown"),
        "ground": ContactOptions("foot", "point", (0.05, 0.02, -0.2), "unknown", "logged"),
    }
    deviation = None if std is None else std * STATED_GAIN
    one = JointOptions(friction="none", armature=False, gain=STATED_GAIN, gain_std=deviation)
    return robots.walker(**{"contact": contact, "joint": dict.fromkeys(TRUE, one), **said})


def log_of(seed: int = 0, noise: float = 1.0) -> Recording:
    """Return a log with currents of drives whose gains are a tenth off."""
    signals, _ = case(UNKNOWN).experiment(TIME + 30.0 * seed)
    rng = np.random.default_rng(seed)
    for kind, size in NOISE.items():
        for name, values in signals[kind].items():
            signals[kind][name] = values + noise * size * rng.normal(size=len(TIME))
    torque = signals.pop("tau")
    signals["current"] = {joint: torque[joint] / gain for joint, gain in TRUE.items()}
    return Recording.from_arrays(TIME, "walk", **signals)


def settings(**said: Any) -> Settings:
    return Settings(Smoothing(corner=15.0, delay=0.0), **said)


def fitted(seed: int = 0, held: bool = True, **said: Any) -> ExperimentFit[Any]:
    log = log_of(seed)
    problem = Problem(plant_of(walker(SPREAD, held), log), (log,), Smoothing(15.0, delay=0.0))
    return fit_experiment(problem, settings(**said))


def found_gains(run: ExperimentFit[Any]) -> dict[str, tuple[float, float]]:
    """Return gains and their deviations as an experiment tells them [N·m/A]."""
    plain = DriveGains().fit([run.estimate], run.problem.space, {})
    fit = with_found_gains(plain, run.problem)
    return {
        j: (STATED_GAIN / fit.gains[j], fit.std[j] * STATED_GAIN / fit.gains[j] ** 2) for j in TRUE
    }


# ---- columns


def unsure() -> UnsureGainsPlant:
    plant = BARE["floating robot with unsure gains"]()
    assert isinstance(plant, UnsureGainsPlant)
    return plant


def closed(plant: FloatingRobotPlant, count: int, seed: int) -> Samples[Any]:
    """Return random samples with all contacts closed."""
    made = plant.random_samples(count, np.random.default_rng(seed))
    motion = replace(made.motion, closed=np.ones_like(made.motion.closed))
    return replace(made, motion=motion)


def test_gains_of_exact_motion_are_found_exactly() -> None:
    """Gauss-Newton steps from gains as stated, a step a square of the error before."""
    plain = case(UNKNOWN).plant
    assert isinstance(plain, FloatingRobotPlant)
    signals, exact = case(UNKNOWN).experiment(TIME[::8])
    samples, noise = samples_of(plain, exact), np.linspace(0.3, 2.0, 14)
    samples.measured[:, 6:8] = np.stack([signals["tau"][j] for j in TRUE], 1)
    hook = [signals[k][f"hook.{x}"] for k in ("force", "torque") for x in "xyz"]
    samples.measured[:, 8:] = np.stack(hook, 1)
    out = Elimination.of(plain.acting(samples), noise)
    said = samples.measured.copy()
    said[:, 6:8] *= [STATED_GAIN / TRUE[j] for j in TRUE]
    factors, off = dict.fromkeys(TRUE, 1.0), []

    def solved(plant: FloatingRobotPlant, measured: Array) -> Array:
        own = replace(samples, measured=measured)
        Y = out(plant.rows(own, range(len(plant.labels))).regressor) / noise[:, None]
        scale = np.linalg.norm(Y.reshape(-1, Y.shape[2]), axis=0)
        scale[scale == 0.0] = 1.0
        right = (out(measured) / noise).ravel()
        flat = Y.reshape(-1, Y.shape[2]) / scale
        return np.asarray(np.linalg.lstsq(flat, right, rcond=1e-10)[0] / scale)

    point = solved(plain, said)
    for _ in range(5):
        measured = said.copy()
        measured[:, 6:8] /= list(factors.values())
        gains = UnsureGains(factors, point, tuple(noise.tolist()))
        values = solved(UnsureGainsPlant.of(plain, gains), measured)
        point = values[:-2]
        factors = {j: c + step for (j, c), step in zip(factors.items(), values[-2:], strict=True)}
        off.append(max(abs(STATED_GAIN / c / TRUE[j] - 1.0) for j, c in factors.items()))
    assert off[-1] <= 1e-10
    assert off[0] < 0.05 and off[1] < 0.1 * off[0]


def test_all_gains_together_are_the_scale_of_all_torque_which_rows_do_not_tell() -> None:
    """Whatever the base's equations leave over, which a robot of nothing would fulfil."""
    plain = FloatingRobotPlant(walker(SPREAD, held=False))
    gains = UnsureGains({"hip": 1.1, "knee": 0.9}, plain.robot.nominal(), tuple(np.ones(8)))
    plant = UnsureGainsPlant.of(plain, replace(gains, noise=(2.0,) * 6 + (0.3, 0.5)))
    samples = closed(plant, 20, 2)
    samples.motion.closed[0, :10] = False  # nothing holds its trunk
    out = Elimination.of(plant.acting(samples), np.array(plant.gains.noise))
    columns = range(plant.plain, len(plant.labels))
    together = out(plant.rows(samples, columns).regressor) @ list(plant.gains.factors.values())
    said = plant.predict(samples, np.append(plant.gains.point, [0.0, 0.0]))
    assert np.abs(together - out(said)).max() <= 1e-10 * np.abs(said).max()
    assert np.abs(out(said)[:, :6]).max() > 0.01 * np.abs(said).max()


def test_base_equations_hold_nothing_of_gains_but_their_share_of_the_scale() -> None:
    plant = unsure()
    samples = closed(plant, 20, 2)
    rows = plant.rows(samples, range(plant.plain, len(plant.labels))).regressor
    given = plant.given(samples)
    for k, factor in enumerate(plant.gains.factors.values()):
        wanted = np.zeros_like(given)
        wanted[:, :6] = given[:, :6] / (8 * factor)  # two joints, six axes at the trunk
        wanted[:, 6 + k] = given[:, 6 + k] / factor
        assert np.abs(rows[:, :, k] - wanted).max() <= 1e-14 * np.abs(given).max()


def test_columns_do_not_hold_the_noise_of_their_rows() -> None:
    """What elimination leaves of noise is in the rows, and then not in what drives gave."""
    plant = unsure()
    samples = closed(plant, 20, 3)
    out = Elimination.of(plant.acting(samples), np.array(plant.gains.noise))
    noise = np.random.default_rng(4).normal(size=samples.measured.shape)
    for share, told in ((out(noise), False), (out.taken_up(noise), True)):
        other = replace(samples, measured=samples.measured + share)
        moved = np.abs(plant.given(other) - plant.given(samples)).max()
        assert (moved > 0.1) == told and (told or moved <= 1e-11)


def test_without_contacts_columns_are_those_of_scaled_triangles() -> None:
    """c₀ times a row and its column are `[c₀ Y, Y β₀]` of `DriveGains`, and leave its fit."""
    robot = walker(SPREAD, contact=None, equations="joints")
    signals, exact = case("floating robot, joints alone").experiment(TIME)
    plain = FloatingRobotPlant(robot)
    torque = plain.predict(samples_of(plain, exact), case(UNKNOWN).truth)  # nothing touches it
    torque += 0.1 * np.random.default_rng(0).normal(size=torque.shape)
    signals = {kind: signals[kind] for kind in ("pos", "quat", "q")}
    signals["current"] = {j: torque[:, k] / TRUE[j] for k, j in enumerate(TRUE)}
    log = Recording.from_arrays(TIME, "hung", **signals)
    problem = Problem(plant_of(robot, log), (log,), Smoothing(corner=15.0, delay=0.0))
    spread, solver = gain_spread(problem), PhysicallyConsistent()
    estimate = LeastSquares(coloured=False).fit(problem)
    scaled = DriveGains(solver, rounds=30, tolerance=1e-11).fit([estimate], problem.space, spread)
    size = problem.space.size
    factors = {j: scaled.gains[j] for j in TRUE}
    values = scaled.consistent.parameters.values[:size]
    gains = UnsureGains(factors, problem.plant.space.matrix @ values, (1.0, 1.0))
    plant = UnsureGainsPlant.of(problem.plant, gains)
    wide = problem.with_settings(plant=plant)
    weights = {c: w * factors[c] for c, w in estimate.weights().items()}
    stated = stated_gains(wide, spread).information
    both = wide.information().among(stated.channels) + stated
    rows = both.combined({**weights, STATED: 1.0}).factor
    triangle = Triangle(np.arange(len(wide.labels)), triangle_of(rows), both.rows)
    found = solver.fit(triangle, wide.space).parameters.values
    assert np.abs(found[size:]).max() <= 1e-8
    assert np.abs(found[:size] - values).max() <= 1e-7 * np.abs(values).max()


# ---- what is found


@pytest.mark.parametrize("rows", ["differentiated", "weak"])
def test_gains_and_base_parameters_are_found_within_their_deviations(
    rows: Literal["differentiated", "weak"],
) -> None:
    c = case(UNKNOWN)
    off, apart = [], []
    for seed in (1, 2):
        log = log_of(seed)
        robot = walker(SPREAD)
        problem = Problem(
            plant_of(robot, log), (log,), Smoothing(corner=15.0, delay=0.0),
            weak=settings().windows if rows == "weak" else None,
        )  # fmt: skip
        run = fit_experiment(problem, settings(rows=rows))
        for joint, (gain, std) in found_gains(run).items():
            assert std < 0.01 * gain
            off.append((gain - TRUE[joint]) / std)
        truth = np.append(c.truth, [0.0, 0.0])
        parameters = run.estimate.parameters
        wanted = (run.problem.base.matrix @ truth)[:-2]
        apart.append((parameters.values[:-2] - wanted) / parameters.std[:-2])
    assert np.abs(off).max() < 3.0
    assert np.sqrt(np.mean(np.square(apart))) < 1.5 and np.abs(apart).max() < 4.5


def test_gains_taken_for_exact_are_no_columns_and_spoil_what_is_found() -> None:
    log, truth = log_of(1), case(UNKNOWN).truth
    runs = []
    for std in (SPREAD, None):
        problem = Problem(plant_of(walker(std), log), (log,), Smoothing(corner=15.0, delay=0.0))
        runs.append(fit_experiment(problem, settings()))
    found, exact = runs
    assert not isinstance(exact.problem.plant, UnsureGainsPlant)
    assert STATED not in exact.information.channels
    assert exact.information.labels.names == found.information.labels.names[:-2]
    wanted, std = exact.problem.base.matrix @ truth, found.estimate.parameters.std[:-2]
    size = exact.problem.base.rank
    off = [(run.estimate.parameters.values[:size] - wanted) / std for run in runs]
    assert np.linalg.norm(off[1]) > 2.0 * np.linalg.norm(off[0])
    assert np.median(exact.estimate.parameters.std / std) > 3.0


def test_a_scale_that_nothing_tells_stays_what_is_stated() -> None:
    """Measured torque as a column would draw both gains to some thousandths."""
    found = found_gains(fitted(0, held=False))
    for joint, (gain, std) in found.items():
        assert abs(gain - TRUE[joint]) < 2.0 * std
        assert 0.5 * SPREAD / np.sqrt(2.0) < std / gain < 1.5 * SPREAD
    ratio = found["hip"][0] / found["knee"][0]
    assert ratio == pytest.approx(TRUE["hip"] / TRUE["knee"], rel=0.02)


def test_results_state_gains_as_those_of_a_fixed_base() -> None:
    found = identify(walker(SPREAD), [log_of(0)], [log_of(1)], settings())
    said = to_json(found)
    for joint, gain in TRUE.items():
        entry = said["joints"][joint]
        assert entry["gain"] == pytest.approx(gain, abs=3.0 * entry["std"]["gain"])
        assert found.calibrated.gains[joint] == pytest.approx(STATED_GAIN / entry["gain"])
    assert not any("gain" in e["expression"] for e in base_entries(found))
    assert STATED not in [c["name"] for c in said["information"]["channels"]]
    masses = [p["value"] for p in said["parameters"] if p["name"].endswith(".mass")]
    assert sum(masses) == pytest.approx(8.0, rel=5e-3)
    # What is scored, and predicted of other logs, is torque by the gains found.
    assert all(max(s["per_joint"].values()) < 0.05 for s in said["validation"])
    assert found.verdict != "fail"


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"method": "maximum-likelihood"}, "method"),
        ({"method": "ordinary"}, "method"),
        ({"robust": "huber"}, "robust"),
    ],
)
def test_what_knows_no_columns_of_gains_refuses_them(said: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidSetting, match="gains of drives are found by") as told:
        fitted(**said)
    assert told.value.argument == names


def test_gains_are_found_of_robots_not_of_any_plant() -> None:
    log = log_of()
    with pytest.raises(InvalidSetting, match=r"found of robots: hip, knee"):
        identify_plant(plant_of(walker(SPREAD), log), [log], (), settings())


def test_earlier_results_are_refused_beside_columns_of_gains() -> None:
    run = fitted(0)
    with pytest.raises(InvalidSetting, match="without earlier results"):
        fit_experiment(run.problem, settings(), run.information)
