"""Laws of plants: one table, every plant. A new plant is one line in `tests/plants.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.own_plants import EXPERIMENTS, Motor
from scipy.spatial.transform import Rotation

from heft.applications.identification import any_plant
from heft.errors import FitError, InvalidRecording, InvalidSetting, MissingSignal
from heft.estimators.least_squares import LeastSquares
from heft.fit.experiment import fit_experiment
from heft.fit.judged import identify_plant
from heft.fit.settings import Settings
from heft.information import inertia
from heft.information.square_root import Information
from heft.plants import (
    Elimination,
    Fused,
    Inputs,
    Integrable,
    Limbed,
    Measured,
    MotionSignal,
    Plant,
    PointSensitive,
    Predicting,
    Problem,
    Samples,
    Sides,
    WithUnknowns,
)
from heft.plants.base import structural_base
from heft.plants.free_body import BodyMotion
from heft.plants.walk import Walk
from heft.recordings.recording import Recording
from heft.signals.settings import Smoothing
from heft.signals.weak_form import Weak
from tests.browser import barriers
from tests.plants import BARE, PLANTS, Array, Cart, case

EPS = np.finfo(float).eps
TIME = 0.005 * np.arange(1600)
WAYS = {
    "differentiated": (Smoothing(corner=15.0, delay=0.0), None),
    "filtered": (Smoothing(corner=15.0, delay=0.0, torque="filtered"), None),
    "weak": (Smoothing(corner=15.0, delay=0.0), Weak()),
}
UNSURE = "floating robot with unsure gains"  # rows of which hold what contacts took
every_plant = pytest.mark.parametrize("name", [*PLANTS, *BARE])
every_experiment = pytest.mark.parametrize("name", PLANTS)


def plant_of(name: str) -> Plant[Any]:
    return case(name).plant if name in PLANTS else BARE[name]()


def samples_of(name: str, count: int = 40, seed: int = 1) -> Samples[Any]:
    return plant_of(name).random_samples(count, np.random.default_rng(seed))


def problem_of(name: str, threads: int = 1, way: str = "differentiated") -> Problem[Any]:
    smoothing, weak = WAYS[way]
    c = case(name)
    return Problem(c.plant, (c.recording(TIME, 0.1),), smoothing, threads, weak=weak)


def has_weak_form(name: str) -> bool:
    return isinstance(plant_of(name), Integrable)


def measured_of(plant: Plant[Any], recording: Recording) -> Array:
    """Return what the channels measured, shape (N, c)."""
    inputs = plant.inputs(recording)
    names = sorted({n for m in inputs.measured for n, _ in m.terms})
    (block,) = recording.blocks(names)
    out = np.zeros((len(block.time), len(plant.channels)))
    for m in inputs.measured:
        for signal, factor in m.terms:
            out[:, m.channel] += factor * block.values[:, names.index(signal)]
    return out


def grams(information: Information) -> list[Array]:
    return [t.factor.T @ t.factor for t in information.triangles]


# ---- rows


@every_experiment
def test_rows_are_those_of_an_independent_dynamics(name: str) -> None:
    c = case(name)
    signals, exact = c.experiment(TIME[::40])
    recording = Recording.from_arrays(TIME[::40], **signals)
    time = TIME[::40]
    samples = replace(samples_of(name, len(time)), motion=c.plant.motion(exact))
    rows = c.plant.rows(samples, range(len(c.truth))).regressor
    left = measured_of(c.plant, recording) - rows @ c.truth
    size = np.abs(rows) @ np.abs(c.truth)
    if isinstance(c.plant, WithUnknowns):
        size = np.maximum(size, np.abs(measured_of(c.plant, recording)))
        left = Elimination.of(c.plant.acting(samples), np.ones(left.shape[1]))(left)
    assert np.abs(left).max() <= 1e-12 * size.max()


@every_plant
def test_a_subset_of_columns_is_that_of_all(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    count = len(plant.labels)
    whole = plant.rows(samples, range(count)).regressor
    chosen = np.random.default_rng(0).permutation(count)[: max(count // 2, 1)].tolist()
    assert np.array_equal(plant.rows(samples, chosen).regressor, whole[:, :, chosen])


@pytest.mark.parametrize("name", [n for n in (*PLANTS, *BARE) if n != UNSURE])
def test_rows_do_not_look_at_what_was_measured(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    columns = range(len(plant.labels))
    other = replace(samples, measured=samples.measured + np.nan)
    one, two = (plant.rows(s, columns).regressor for s in (samples, other))
    assert np.array_equal(one, two)


@every_plant
def test_a_selection_takes_rows_and_changes_none(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    columns, some = range(len(plant.labels)), np.array([3, 4, 11, 29])
    whole = plant.rows(samples, columns).regressor
    part = plant.rows(samples.part(some), columns).regressor
    # Vector instructions round the last few samples of a block otherwise.
    assert np.abs(part - whole[some]).max() <= 8.0 * EPS * np.abs(whole).max()


@every_plant
def test_each_channel_has_an_equation(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    rows = plant.rows(samples, range(len(plant.labels)))
    assert rows.regressor.shape == (40, len(plant.channels), len(plant.labels))


@every_plant
def test_fused_rows_are_those_spelt_out(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name, 300)
    if not isinstance(plant, Fused):
        pytest.skip("is not fused")
    rng = np.random.default_rng(2)
    samples = replace(samples, measured=rng.normal(size=samples.measured.shape))
    columns = structural_base(plant).kept
    rows = plant.rows(samples, columns).regressor
    for c, triangle in enumerate(plant.reduce(samples, columns)):
        block = np.column_stack([rows[:, c], samples.measured[:, c]])
        wide = triangle.spread(len(columns))
        length = np.linalg.norm(block, axis=0)
        bound = 1e-13 * np.outer(length, length) * max(len(columns), 10)
        assert (np.abs(wide.T @ wide - block.T @ block) <= bound + 1e-300).all()


@every_plant
def test_rows_that_do_not_count_are_in_no_triangle(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name, 150)
    if not isinstance(plant, Fused):
        pytest.skip("is not fused")
    rng = np.random.default_rng(12)
    samples = replace(samples, measured=rng.normal(size=samples.measured.shape))
    counted = rng.random(samples.measured.shape) < 0.4
    columns = structural_base(plant).kept
    rows = plant.rows(samples, columns).regressor
    for c, triangle in enumerate(plant.reduce(samples, columns, counted=counted)):
        mine = counted[:, c]
        block = np.column_stack([rows[mine, c], samples.measured[mine, c]])
        wide, length = triangle.spread(len(columns)), np.linalg.norm(block, axis=0)
        bound = 1e-13 * np.outer(length, length) * max(len(columns), 10)
        assert (np.abs(wide.T @ wide - block.T @ block) <= bound + 1e-300).all()
        assert triangle.rows == mine.sum()


@every_plant
def test_predictions_are_rows_times_parameters(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    if not isinstance(plant, Predicting):
        pytest.skip("predicts by its rows")
    x = np.random.default_rng(3).normal(size=len(plant.labels))
    rows = plant.rows(samples, range(len(x))).regressor
    size = np.abs(rows) @ np.abs(x)
    assert np.abs(plant.predict(samples, x) - rows @ x).max() <= 1e-13 * size.max() * len(x)


# ---- base parameters


@every_plant
def test_base_parameters_explain_every_row_about_any_point(name: str) -> None:
    plant = plant_of(name)
    base = structural_base(plant)
    for seed in (4, 5):
        rng = np.random.default_rng(seed)
        about = plant.about(rng.normal(size=len(plant.labels)))
        rows = about.rows(samples_of(name, 60, seed), range(len(plant.labels))).regressor
        left = rows - rows[:, :, list(base.kept)] @ base.matrix
        assert np.abs(left).max() <= 1e-12 * np.abs(rows).max() * len(plant.labels)


@every_plant
def test_the_base_does_not_depend_on_the_point(name: str) -> None:
    plant = plant_of(name)
    other = plant.about(np.random.default_rng(6).normal(size=len(plant.labels)))
    one, two = structural_base(plant), structural_base(other)
    assert one.kept == two.kept and one.unseen == two.unseen
    assert np.abs(one.matrix - two.matrix).max() <= 1e-12


@every_plant
def test_sensitivity_to_the_point_is_its_finite_difference(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name)
    rng = np.random.default_rng(7)
    size = len(plant.labels)
    point, values, move = rng.normal(size=(3, size))
    columns = range(size)
    if not len(plant.point_columns):
        here, there = (plant.about(p).rows(samples, columns).regressor for p in (point, values))
        assert np.array_equal(here, there)
        return
    if not isinstance(plant, PointSensitive):
        pytest.skip("does not say what errors of its point do")
    step = 1e-6
    ends = [plant.about(point + s * move) for s in (step, -step)]
    up, down = (p.rows(samples, columns).regressor @ values for p in ends)
    about = plant.about(point)
    assert isinstance(about, PointSensitive)
    rows = about.sensitivity(samples, values)
    found = np.stack([r.spread(len(move)) @ move for r in rows], axis=1)
    wanted = (up - down) / (2.0 * step)
    assert np.abs(found - wanted).max() <= 1e-7 * np.abs(wanted).max()


# ---- the weak form and the memory


@every_experiment
def test_the_rate_of_momentum_less_the_remainder_is_the_row(name: str) -> None:
    c = case(name)
    if not isinstance(c.plant, Integrable):
        pytest.skip("has no weak form")
    step = 1e-3
    fine = 1.0 + step * np.arange(9)
    _, exact = c.experiment(fine)
    samples = replace(samples_of(name, 9), motion=c.plant.motion(exact), time=fine)
    columns = range(len(c.truth))
    sides = c.plant.sides(samples, columns)
    eighth = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0.0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
    rate = np.einsum("k,kmp->mp", eighth, sides.momentum) / step
    row = c.plant.rows(samples, columns).regressor[4]
    gap = rate - sides.remainder[4] - row
    # Central differences of eighth order: what rounding leaves, divided by the step.
    bound = 1e-12 * np.abs(sides.momentum).max() / step + 1e-10 * np.abs(row).max()
    assert np.abs(gap).max() <= bound


@every_experiment
def test_what_a_channel_is_not_given_of_both_sides_is_zero(name: str) -> None:
    plant = plant_of(name)
    if not isinstance(plant, Limbed) or not isinstance(plant, Integrable):
        pytest.skip("gives both sides of all channels on all columns")
    samples, size = samples_of(name), len(plant.labels)
    some = sorted(np.random.default_rng(3).permutation(size)[: size // 2].tolist())
    whole = plant.sides(samples, range(size))
    made = plant.channel_sides(samples, some).part(slice(None))
    found = made.spread(len(some))
    assert len(made.columns) == len(plant.channels)
    assert made.momentum.shape[1] == sum(map(len, made.columns))
    for side, wanted in ((found.momentum, whole.momentum), (found.remainder, whole.remainder)):
        assert np.array_equal(side, wanted[:, :, some])


@every_experiment
def test_windows_take_of_both_sides_what_they_weigh_of_them(name: str) -> None:
    plant = plant_of(name)
    if not isinstance(plant, Limbed) or not isinstance(plant, Integrable):
        pytest.skip("gives both sides of all channels on all columns")
    samples, rng = samples_of(name), np.random.default_rng(5)
    some = sorted(rng.permutation(len(plant.labels))[: len(plant.labels) // 2].tolist())
    cut = slice(3, len(samples.time) - 1)
    phi, rate = rng.normal(size=(2, 9, cut.stop - cut.start))
    for weights in (phi, rate):  # windows that begin and end within the slice
        weights[np.abs(np.arange(weights.shape[1]) - 9 * np.arange(9)[:, None]) > 12] = 0.0
    parted = plant.channel_sides(samples, some)
    made = parted.part(slice(None))
    wanted = -(rate @ made.momentum[cut] + phi @ made.remainder[cut])
    found = parted.integrated(cut, phi, rate)
    size = np.abs(rate) @ np.abs(made.momentum[cut]) + np.abs(phi) @ np.abs(made.remainder[cut])
    assert (np.abs(found - wanted) <= 1e-12 * size.max()).all()
    assert all(map(np.array_equal, parted.columns, made.columns))
    assert np.array_equal(parted.part(cut).remainder, made.remainder[cut])


@every_experiment
@pytest.mark.parametrize("most", [97, 500])
def test_weak_rows_do_not_depend_on_how_many_samples_are_taken_at_once(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_weak_form(name):
        pytest.skip("has no weak form")
    whole = list(problem_of(name, way="weak").rows())
    monkeypatch.setattr(Walk, "limbed_rows", most)
    monkeypatch.setattr(Walk, "dense_rows", most)
    parts = list(problem_of(name, threads=2, way="weak").rows())
    for field in ("time", "effort", "regressor"):
        one, other = (np.concatenate([getattr(r, field) for r in rows]) for rows in (whole, parts))
        assert np.abs(one - other).max() <= 1e-12 * max(np.abs(one).max(), 1e-300)


@every_experiment
@pytest.mark.parametrize("way", WAYS)
def test_equations_say_the_same_channel_by_channel(name: str, way: str) -> None:
    if way == "weak" and not has_weak_form(name):
        pytest.skip("has no weak form")
    problem = problem_of(name, way=way)
    values = np.random.default_rng(4).normal(size=len(problem.labels))
    for equations in problem.rows():
        Y, tau = equations.regressor, equations.effort
        size = np.abs(Y) @ np.abs(values) + np.abs(tau)
        assert (np.abs(equations.residuals(values) - (tau - Y @ values)) <= 1e-13 * size).all()
        made = equations.information(problem.labels, problem.channels, slice(3, 50))
        plain = Information.from_rows(problem.labels, problem.channels, Y[3:50], tau[3:50])
        for a, b in zip(grams(made), grams(plain), strict=True):
            assert np.abs(a - b).max() <= 1e-12 * max(np.abs(a).max(), 1e-300)


@every_plant
def test_memory_is_the_same_however_samples_are_cut(name: str) -> None:
    plant, samples = plant_of(name), samples_of(name, 60)
    whole, _ = plant.remember(samples, None)
    state, parts = None, []
    for cut in (slice(0, 7), slice(7, 8), slice(8, 41), slice(41, 60)):
        part, state = plant.remember(samples.part(cut), state)
        parts.append(part.memory)
    assert np.array_equal(np.concatenate(parts), whole.memory)


# ---- problems


@every_experiment
@pytest.mark.parametrize("way", WAYS)
def test_threads_change_nothing(name: str, way: str) -> None:
    if way == "weak" and not has_weak_form(name):
        pytest.skip("has no weak form")
    one, three = (problem_of(name, k, way).information() for k in (1, 3))
    for a, b in zip(one.triangles, three.triangles, strict=True):
        assert np.array_equal(a.factor, b.factor) and a.rows == b.rows > 0


@pytest.mark.parametrize("way", WAYS)
@every_experiment
def test_samples_of_a_short_log_are_made_once_whatever_the_point(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows about another point are of the same samples, those that it would make itself."""
    if way == "weak" and not has_weak_form(name):
        pytest.skip("has no weak form")
    problem = problem_of(name, 1, way)
    x = np.random.default_rng(8).normal(size=problem.space.size)
    first, made = problem.information(), []
    smooth = Walk.motion
    monkeypatch.setattr(
        Walk, "motion", lambda *args, **kwargs: (made.append(1), smooth(*args, **kwargs))[1]
    )
    about = problem.about(x)
    assert about.information().rows == first.rows
    assert bool(made) == (way == "filtered")  # whose samples lie on a grid
    monkeypatch.setattr(Walk, "all_samples", Walk._anew)
    made.clear()
    anew = problem_of(name, 1, way).about(x)
    for one, other in zip(grams(about.information()), grams(anew.information()), strict=True):
        assert np.array_equal(one, other)
    assert made


@every_experiment
def test_information_of_two_logs_adds(name: str) -> None:
    problem, c = problem_of(name), case(name)
    logs = [c.recording(TIME[:900], 0.1), c.recording(TIME[500:], 0.1, seed=1)]
    both = problem.with_recordings(logs).information()
    sum_ = (
        problem.with_recordings(logs[:1]).information()
        + problem.with_recordings(logs[1:]).information()
    )
    for a, b in zip(grams(both), grams(sum_), strict=True):
        assert np.abs(a - b).max() <= 1e-12 * np.abs(a).max()


@every_experiment
@pytest.mark.parametrize("way", WAYS)
def test_noise_free_logs_give_back_the_truth(name: str, way: str) -> None:
    """As far as the smoothing's own error goes, which falls with the fourth power of the step."""
    c = case(name)
    if way == "weak" and not has_weak_form(name):
        pytest.skip("has no weak form")
    smoothing, weak = WAYS[way]
    fine = 0.001 * np.arange(6000)
    problem = Problem(c.plant, (c.recording(fine),), replace(smoothing, corner=60.0), weak=weak)
    found = LeastSquares(coloured=False).fit(problem).parameters.values
    wanted = problem.base.matrix @ c.truth
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


@every_experiment
def test_what_is_missing_is_named(name: str) -> None:
    c = case(name)
    with pytest.raises(MissingSignal):
        _ = Problem(c.plant, (Recording.from_arrays(TIME, u={"other": TIME}),)).survey


def test_what_a_plant_takes_is_asked_of_the_log_for_it() -> None:
    class Forgetful(Cart):
        def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
            return Inputs((MotionSignal("q.cart"), MotionSignal("q.other")))

    log = Recording.from_arrays(TIME, q={"cart": TIME})
    with pytest.raises(MissingSignal, match=r"no signal 'q\.other', which the plant takes"):
        _ = Problem(Forgetful(), (log,)).survey
    with pytest.raises(InvalidSetting, match="sum of no signals"):
        Measured(0, ())


@every_experiment
def test_a_delay_is_found(name: str) -> None:
    c = case(name)
    late = 0.012
    signals, _ = c.experiment(TIME)
    behind, _ = c.experiment(TIME - late)
    rng = np.random.default_rng(8)
    for kind in ("tau", "force", "torque"):
        for signal, values in behind.get(kind, {}).items():
            noise = 0.02 * np.std(values) * rng.normal(size=len(TIME))
            signals[kind][signal] = values + noise
    log = Recording.from_arrays(TIME, "late", **signals)
    problem = Problem(c.plant, (log,), Smoothing(corner=15.0))
    found = fit_experiment(problem, Settings())
    assert found.delay.delay == pytest.approx(late, abs=1e-3)


@every_experiment
def test_intervals_hold_under_coloured_noise(name: str) -> None:
    """The rms of error over stated deviation, over all base parameters and up to 50 seeds.

    Of a thousand numbers it is known to some 5 %: those of one log are correlated. Of floating
    robots, fits of which take longest, there are 17 logs.
    """
    c = case(name)
    problem = problem_of(name)
    wanted = problem.base.matrix @ c.truth
    exact = (
        LeastSquares(coloured=False)
        .fit(problem.with_recordings([c.recording(TIME)]))
        .parameters.values
    )
    assert np.abs(exact - wanted).max() <= 1e-2 * np.abs(wanted).max()
    ratios = []
    seeds = 17 if name.startswith("floating") else min(50, math.ceil(1000 / len(wanted)))
    for seed in range(seeds):
        log = c.recording(TIME, 0.1, seed)
        found = LeastSquares().fit(problem.with_recordings([log])).parameters
        ratios.append((found.values - exact) / found.std)
    rms = float(np.sqrt(np.mean(np.square(ratios))))
    assert 0.85 <= rms <= 1.15


@every_experiment
def test_a_plant_is_identified_the_whole_way(name: str, tmp_path: Path) -> None:
    """Bandwidth, delay, least squares, consistent estimate, intervals, checks, text and page."""
    c = case(name)
    log, other = c.recording(TIME, 0.02, 1, "monday"), c.recording(TIME + 20.0, 0.02, 2, "tuesday")
    found = identify_plant(c.plant, [log], [other])
    assert found.verdict == "good"
    assert {s.path for s in (*found.fit, *found.validation)} == {"monday", "tuesday"}
    base = found.problem.base.matrix
    space = found.problem.plant.space.matrix
    miss = base @ (space @ found.consistent.parameters.values - c.truth)
    covariance = found.consistent.parameters.covariance
    assert covariance is not None
    spread = np.sqrt(np.diag(base @ space @ covariance @ space.T @ base.T))
    # Four deviations: some fifty numbers are looked at, over all plants.
    assert (np.abs(miss) <= 4.0 * spread).all()
    said, page = any_plant.text(found), any_plant.html(found)
    for number in found.numbers:
        assert number.name in said and number.name in page
        assert number.interval[0] <= number.value <= number.interval[1]
    for channel in found.problem.plant.channels:
        assert (f"monday: {channel.name}" in page) == channel.sensed
    assert "verdict: good" in said and 'class="verdict good"' in page
    if name == next(iter(PLANTS)):
        (tmp_path / "page.html").write_text(page, encoding="utf-8")
        assert barriers((tmp_path / "page.html").as_uri()) == []


def test_a_plant_that_explains_nothing_is_refused() -> None:
    c = case("cart")
    signals, _ = c.experiment(TIME)
    signals["tau"]["cart"] = np.random.default_rng(0).normal(size=len(TIME)).cumsum()
    with pytest.raises(FitError, match="no parameters explain"):
        identify_plant(c.plant, [Recording.from_arrays(TIME, "noise", **signals)])
    with pytest.raises(InvalidRecording, match="no log"):
        identify_plant(c.plant, [])


def test_the_frame_of_a_body_does_not_matter() -> None:
    """Information moves between frames by congruence: `π' = X π` and `wrench' = A wrench`."""
    c = case("free body by its pose")
    _, exact = c.experiment(TIME[:400])
    rng = np.random.default_rng(9)
    turn = Rotation.from_rotvec(rng.normal(size=3))
    R, t = turn.as_matrix(), rng.normal(size=3)  # the new frame in the old one
    body = c.plant.motion(exact)
    w, alpha = body.angular_velocity, body.angular_acceleration
    specific = body.specific + np.cross(alpha, t) + np.cross(w, np.cross(w, t))
    none = np.zeros_like(specific)
    moved = BodyMotion(specific @ R, w @ R, alpha @ R, none, none)
    columns = range(10)
    samples = replace(samples_of("free body by its pose", 400), motion=body)
    old = c.plant.rows(samples, columns).regressor
    new = c.plant.rows(replace(samples, motion=moved), columns).regressor
    change = np.zeros((6, 6))
    change[:3, :3] = change[3:, 3:] = R.T
    change[3:, :3] = -R.T @ inertia.skew(t)
    stated = inertia.frame_change(R, t)  # ten in the new frame -> ten in the old one
    carried = change @ old @ stated
    assert np.abs(new - carried).max() <= 1e-12 * np.abs(carried).max()


def test_windows_of_rows_are_those_of_both_sides() -> None:
    """Of a plant that does not part its equations, what is integrated by parts is the same."""

    class Parted(Motor):
        def sides(self, samples: Any, columns: Any) -> Sides:
            m = samples.motion
            q, v = m.position[:, 0], m.velocity[:, 0]
            none = np.zeros_like(q)
            momentum = np.stack((v, none, none, none), axis=1)
            remainder = -np.stack((none, q, v, np.sign(v)), axis=1)
            return Sides(*(s[:, None, list(columns)] for s in (momentum, remainder)))

    motor = EXPERIMENTS[1]
    log = motor.log(3)
    found = [identify_plant(p, [log]) for p in (motor.plant, Parted())]
    one, other = ([(n.value, n.std) for n in f.numbers] for f in found)
    np.testing.assert_allclose(one, other, rtol=1e-3)
    assert all(abs(v - t) < 4.0 * s for (v, s), t in zip(one, motor.truth, strict=True))
    plain = identify_plant(motor.plant, [log], settings=Settings(rows="differentiated"))
    friction = plain.numbers[3]  # its sign is blurred, and no deviation says so
    assert abs(friction.value - motor.truth[3]) > 4.0 * friction.std
