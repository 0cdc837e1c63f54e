"""Laws of intervals: the jackknife over blocks, what is left over, and noise of earlier logs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, reduce
from operator import add

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from heft.applications.demo.demo import FOLDER
from heft.certainty import Block, Jackknife, block_moments
from heft.display import Stretch
from heft.dynamics import LINEAR_SCALE, Drive, Viscous
from heft.dynamics.drive_columns import steady
from heft.estimators import (
    DriveGains,
    Estimate,
    LeastSquares,
    PhysicallyConsistent,
    evident_variances,
    with_term_sizes,
)
from heft.estimators.estimate import raised
from heft.fit import Settings, fit_experiment, open_experiment
from heft.fit.conditions import MisfitSettings, Reversal, since_reversal
from heft.fit.earlier import Earlier, stored
from heft.fit.experiment import ExperimentFit
from heft.fit.misfit import Misfit, MisfitGatherer, noise_in_band
from heft.fit.scores import filtered
from heft.information import Information, Labels, ParameterSpace
from heft.models import Robot
from heft.plants import RobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing
from tests.robots import FloatArray

K = 12
JACKKNIFE = Jackknife(K)


def rows(seed: int, count: int = 1200, size: int = 6) -> tuple[FloatArray, FloatArray]:
    """Return Y of two channels, shape (count, 2, size), and the truth; no sign binds by far."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 2, size)), rng.uniform(1.0, 2.0, size=size)


def blocks_of(Y: FloatArray, tau: FloatArray) -> list[Information]:
    labels = Labels(tuple("abcdef"[: Y.shape[2]]), ("1",) * Y.shape[2])
    return [
        Information.from_rows(labels, ("one", "two"), y, t)
        for y, t in zip(np.split(Y, K), np.split(tau, K), strict=True)
    ]


def solved(parts: list[Information]) -> Estimate:
    return LeastSquares(weighting="none").solve(reduce(add, parts))


def by_residuals(estimate: Estimate) -> Estimate:
    """By the residuals' autoregression, without the jackknife and without sizes of terms."""
    noise = estimate.noise
    return LeastSquares().conclude(
        estimate.information,
        noise.sigma,
        noise.autocorrelation_time,
        estimate.passes,
        noise.coloured,
        noise.common_errors,
        estimate.rank,
    )


def deviations(parts: list[Information]) -> FloatArray:
    estimate = solved(parts)
    blocks = Block.of(parts, estimate.fit_weights, estimate.fitted)
    return JACKKNIFE.of_base(estimate, blocks)


# ---- the jackknife of base parameters --------------------------------------------------------


def test_deviations_are_those_of_refits_without_each_block() -> None:
    Y, truth = rows(0)
    parts = blocks_of(Y, Y @ truth + np.random.default_rng(1).normal(size=Y.shape[:2]))
    without = np.array([solved(parts[:k] + parts[k + 1 :]).fitted for k in range(K)])
    wanted = np.sqrt((K - 1) / K) * (without - without.mean(axis=0))
    np.testing.assert_allclose(deviations(parts), wanted, rtol=1e-8, atol=1e-12)


def test_without_noise_they_vanish() -> None:
    Y, truth = rows(0)
    assert np.abs(deviations(blocks_of(Y, Y @ truth))).max() < 1e-12


def test_they_have_the_unit_of_the_parameters() -> None:
    Y, truth = rows(0)
    noisy = Y @ truth + np.random.default_rng(1).normal(size=Y.shape[:2])
    scale = np.geomspace(1e-3, 1e3, len(truth))
    one, other = deviations(blocks_of(Y, noisy)), deviations(blocks_of(Y * scale, noisy))
    np.testing.assert_allclose(other * scale, one, rtol=1e-8)
    np.testing.assert_allclose(deviations(blocks_of(Y, 7.0 * noisy)), 7.0 * one, rtol=1e-8)


def test_their_intervals_hold_the_truth() -> None:
    """Coverage of nominal 95 % by a t of 11 degrees of freedom: 1.96 of them hold .924."""
    inside = []
    for seed in range(150):
        Y, truth = rows(seed, 240)
        parts = blocks_of(Y, Y @ truth + np.random.default_rng(seed + 999).normal(size=Y.shape[:2]))
        std = np.linalg.norm(deviations(parts), axis=0)
        inside.append(np.abs(solved(parts).fitted - truth) <= 1.96 * std)
    # Blocks of 40 rows for 6 parameters widen them; 900 numbers: ± .02 at two deviations.
    assert 0.90 <= np.mean(inside) <= 0.98


def test_a_direction_that_one_block_shows_is_no_more_than_unsure() -> None:
    Y, truth = rows(0)
    Y[100:, :, 0] = 0.0
    noisy = Y @ truth + np.random.default_rng(1).normal(size=Y.shape[:2])
    assert np.isfinite(deviations(blocks_of(Y, noisy))).all()


# ---- covariances that are raised to the jackknife's ------------------------------------------


def alike(seed: int, size: int = 5) -> tuple[FloatArray, FloatArray]:
    """Return a covariance of coefficients that are all but collinear, and deviations of four."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size)) * np.geomspace(1.0, 1e-3, size)[:, None]
    return root.T @ root, rng.normal(size=(4, size)) @ root


def test_what_is_raised_together_exceeds_both_in_every_direction() -> None:
    covariance, deviations = alike(0)
    found = raised(covariance, deviations, [np.arange(5)])
    size = np.linalg.norm(found)
    for less in (covariance, deviations.T @ deviations):
        assert np.linalg.eigvalsh(found - less).min() > -1e-9 * size
    # And by no more than their sum.
    both = covariance + deviations.T @ deviations
    assert np.linalg.eigvalsh(both - found).min() > -1e-9 * size


def test_a_function_has_the_same_deviations_whatever_its_coefficients() -> None:
    covariance, deviations = alike(1)
    other = np.random.default_rng(2).normal(size=(5, 5))  # coefficients c = other @ d
    found = raised(covariance, deviations, [np.arange(5)])
    inverse = np.linalg.inv(other)
    changed = raised(inverse @ covariance @ inverse.T, deviations @ inverse.T, [np.arange(5)])
    np.testing.assert_allclose(other @ changed @ other.T, found, atol=1e-6 * np.abs(found).max())


def test_a_function_of_one_coefficient_is_raised_as_any_other_number() -> None:
    covariance, deviations = alike(3)
    single = [np.array([k]) for k in range(5)]
    np.testing.assert_allclose(
        raised(covariance, deviations, single), raised(covariance, deviations), rtol=1e-9
    )
    few = raised(covariance, 1e-9 * deviations, [np.arange(4)])
    np.testing.assert_allclose(few, covariance, atol=1e-9 * np.abs(covariance).max())


def test_friction_is_a_function_of_each_drive() -> None:
    """Raised one by one its coefficients no longer cancel: steady friction gets far too wide."""
    run = demo()
    plant, labels = run.problem.plant, run.problem.labels.names
    names = [{plant.labels.names[k] for k in columns} for columns in plant.functions]
    assert [len({n.partition(".")[0] for n in own}) for own in names] == [1] * len(plant.channels)
    assert set().union(*names) == {plant.labels.names[k] for k in plant.independent}
    estimate = run.estimate
    functions = [np.array([labels.index(n) for n in own]) for own in names]
    held = with_term_sizes(LeastSquares(), by_residuals(estimate), functions)
    blocks = Block.of(run.blocks, estimate.fit_weights, held.fitted)
    deviations = JACKKNIFE.of_base(held, blocks)
    for drive in plant.robot.drives:
        terms = [t for t in drive.terms if t.dictionary]
        places = [labels.index(f"{drive.name}.{t.name}") for t in terms]
        rows = steady(terms, np.array([0.5]))[:, 0]
        covariance = estimate.parameters.covariance
        assert covariance is not None
        stated = np.sqrt(rows @ covariance[np.ix_(places, places)] @ rows)
        assert stated >= 0.999 * np.linalg.norm(deviations[:, places] @ rows)


# ---- sizes of a function's terms --------------------------------------------------------------


def test_sizes_are_where_the_estimate_is_most_likely() -> None:
    """By a search of SciPy's over the same likelihood, of terms that are not orthogonal."""
    rng = np.random.default_rng(5)
    factor = np.linalg.qr(rng.normal(size=(40, 4)) + 2.0 * rng.normal(size=(40, 1)))[1]
    covariance = np.linalg.inv(factor.T @ factor)
    values = np.array([3.0, -2.0, 4.0, 2.5])  # all of them beyond doubt, where rounds settle soon

    def loss(log: FloatArray) -> float:
        total = covariance + np.diag(np.exp(log))
        return float(np.linalg.slogdet(total)[1] + values @ np.linalg.solve(total, values))

    best = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(evident_variances(values, covariance), np.exp(best), rtol=1e-3)


@pytest.mark.parametrize("size", [0.0, 2.0, 100.0])
def test_terms_that_are_not_needed_widen_others_less(size: float) -> None:
    """Of six all but dependent terms one is there at most, also one that is hardly seen.

    In 120 draws what stands beside them is within its interval as often as is stated.
    """
    rng = np.random.default_rng(6)
    common = rng.normal(size=(400, 1, 1))
    Y = np.concatenate([common + 0.05 * rng.normal(size=(400, 1, 6)), common], axis=2)
    truth = np.array([size, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    labels, solver = Labels(tuple("abcdefg"), ("1",) * 7), LeastSquares()
    inside, narrower = [], []
    for _ in range(120):
        tau = Y @ truth + rng.normal(size=(400, 1))
        plain = solver.solve(Information.from_rows(labels, ("one",), Y, tau))
        noise = replace(plain.noise, coloured=tuple(plain.noise.factors(plain.information)))
        held = with_term_sizes(solver, replace(plain, noise=noise), [np.arange(6)])
        inside.append(abs(held.parameters["g"] - 1.0) <= 1.96 * held.parameters.std[6])
        narrower.append(held.parameters.std[6] / plain.parameters.std[6])
    assert np.mean(inside) >= 0.92
    assert np.median(narrower) < 0.85


# ---- of consistent parameters ----------------------------------------------------------------


@pytest.mark.parametrize("binding", [0, 2])
def test_coefficients_with_a_sign_are_solved_for_again(binding: int) -> None:
    """Explicit conic fits without each block, of which signs bind in some and not in others."""
    Y, truth = rows(3)
    truth[:binding] = 0.0
    parts = blocks_of(Y, Y @ truth + np.random.default_rng(4).normal(size=Y.shape[:2]))
    labels = parts[0].labels
    space = ParameterSpace(labels, np.eye(6), np.zeros(6), (), tuple(range(6)))
    solver, estimate = PhysicallyConsistent(), solved(parts)
    fits = DriveGains(solver)

    def fitted(some: list[Information]) -> FloatArray:
        whole = replace(estimate, information=reduce(add, some))
        return fits.fit([whole], space, {}).consistent.parameters.values

    found = fits.fit([estimate], space, {})
    x = found.consistent.parameters.values
    weights = list(estimate.weights().values())
    got = JACKKNIFE.of_consistent(solver, found, Block.of(parts, weights, x, found.maps[0]))
    without = np.array([fitted(parts[:k] + parts[k + 1 :]) for k in range(K)])
    wanted = np.sqrt((K - 1) / K) * (without - without.mean(axis=0))
    assert (without[:, :binding].min(initial=0.0)) >= 0.0
    np.testing.assert_allclose(got, wanted, atol=0.01 * np.abs(wanted).max())


@cache
def demo(weak: bool = False) -> ExperimentFit[RobotPlant]:
    """Return the fit of ten seconds of the demonstration's log."""
    log = Recording.open(FOLDER / "run1.parquet").window(0, 3000)
    smoothing = Smoothing(corner=8.0, delay=0.003)
    settings = Settings(smoothing, threads=1, rows="weak" if weak else "differentiated")
    problem, settings = open_experiment(Robot.from_file(FOLDER / "arm.urdf"), [log], settings)
    return fit_experiment(problem, settings)


def test_on_an_arm_they_are_those_of_conic_fits_without_a_block() -> None:
    run, solver = demo(), PhysicallyConsistent()
    space = run.problem.space
    found = DriveGains(solver).fit([run.estimate], space, {})
    got = run.deviations(solver, JACKKNIFE, found) / np.sqrt((K - 1) / K)
    ends = []
    for k in (0, 7):
        rest = [b for j, b in enumerate(run.blocks) if j != k]
        whole = replace(run.estimate, information=reduce(add, rest))
        ends.append(DriveGains(solver).fit([whole], space, {}).consistent.parameters.values)
    # In the metric of the estimate's own covariance; the cone's curvature is of second order.
    moved = space.matrix @ (ends[0] - ends[1] - (got[0] - got[7]))
    whole = space.matrix @ (ends[0] - ends[1])
    R = run.estimate.information.combined(run.estimate.fitted_with).R
    assert np.linalg.norm(R @ moved) < 0.1 * np.linalg.norm(R @ whole)


# ---- blocks of logs --------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [False, True])
def test_blocks_add_to_the_whole(weak: bool) -> None:
    problem = demo(weak).problem
    whole = problem.information()
    samples = whole.triangles[0].rows
    blocks = problem.information_blocks(K, samples)
    sizes = [b.triangles[0].rows for b in blocks]
    assert len(blocks) == K
    assert sum(sizes) == samples
    assert max(sizes) - min(sizes) <= K
    one, other = whole.combined().factor, reduce(add, blocks).combined().factor
    gram = one.T @ one
    np.testing.assert_allclose(other.T @ other, gram, atol=1e-9 * gram.max())


def test_another_cutoff_leaves_held_windows_as_they_are() -> None:
    held = demo(weak=True).problem.holding_windows()
    other = held.sharpened(2.0)
    assert other is not None and other.weak is not None and held.weak is not None
    step = held.timelines[0].step
    assert other.weak.windows(other.corner, step) == held.weak.windows(held.corner, step)
    assert other.information().rows == held.information().rows


# ---- earlier experiments ---------------------------------------------------------------------


def test_noise_of_earlier_experiments_counts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Twice the same information with its own noise: deviations fall by √2, no more."""
    run = demo()
    path = tmp_path_factory.mktemp("given") / "information.npz"
    run.information.save(path, **stored(run.estimate.noise, run.moments))
    given = Earlier.load(path)
    settings = Settings(run.problem.smoothing, threads=1)
    problem = run.problem.with_settings(plant=RobotPlant(run.problem.plant.robot))
    both = fit_experiment(problem, settings, given)
    plant = run.problem.plant
    friction = {plant.labels.names[k] for k in plant.independent}
    numbers = [k for k, name in enumerate(run.problem.labels.names) if name not in friction]
    of_residuals = [by_residuals(e).parameters.std for e in (both.estimate, run.estimate)]
    np.testing.assert_allclose(of_residuals[0], of_residuals[1] / np.sqrt(2.0), rtol=1e-3)
    # Those of the jackknife fall by more: without one block of 24 less is lost than without one of
    # twelve. Sizes of friction's terms are told anew, which moves some by a few hundredths.
    ratio = (both.estimate.parameters.std / run.estimate.parameters.std)[numbers]
    assert ratio.max() < 1.1 / np.sqrt(2.0)
    assert 0.3 < np.median(ratio) <= 1.001 / np.sqrt(2.0)
    known = fit_experiment(problem, settings, run.information).estimate.parameters.std
    assert np.median(known / run.estimate.parameters.std) > 0.5


def test_moments_of_all_blocks_are_those_of_the_whole() -> None:
    run = demo()
    values = run.estimate.fitted
    total = np.array([m.sum(axis=0) for m in block_moments(run.blocks, values)])
    scale = np.abs(total).max()
    np.testing.assert_allclose(total, run.estimate.information.moments(values), atol=1e-8 * scale)


# ---- what is left over -----------------------------------------------------------------------


def walked(x: FloatArray, w: FloatArray) -> FloatArray:
    """Return distances since the last reversal, row by row."""
    out, begun, direction = [], x[0], np.sign(w[0])
    for position, velocity in zip(x, w, strict=True):
        if velocity != 0.0 and np.sign(velocity) != direction:
            direction, begun = np.sign(velocity), position
        out.append(abs(position - begun))
    return np.array(out)


def test_distance_since_reversal_row_by_row_and_in_pieces() -> None:
    t = np.arange(0.0, 9.0, 0.01)
    x = np.stack([np.sin(t) + 0.3 * np.cos(5.1 * t), np.cos(1.7 * t)], axis=1)
    w = np.gradient(x, t, axis=0)
    w[200:230] = 0.0
    wanted = np.stack([walked(x[:, k], w[:, k]) for k in range(2)], axis=1)
    whole, _ = since_reversal(x, w)
    np.testing.assert_allclose(whole, wanted)
    state: Reversal | None = None
    parts = []
    for cut in (slice(0, 7), slice(7, 210), slice(210, 215), slice(215, None)):
        part, state = since_reversal(x[cut], w[cut], state)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts), wanted)


def gathered(
    left: FloatArray, scale: float = 1.0, copies: int = 1, noise: float = 0.0
) -> MisfitGatherer:
    """Return what is left over of a joint that swings, `left` of its phase, shape (N,)."""
    drive = Drive("joint", np.array([1.0]), (Viscous(),), scale != 1.0)
    gatherer = MisfitGatherer((drive,), np.array([0]))
    t = np.arange(len(left)) * 0.002
    x, w = -np.cos(2.0 * t)[:, None], 2.0 * np.sin(2.0 * t)[:, None]
    none = np.zeros((len(t), 1))
    for _ in range(copies):
        moments = (t, scale * x, scale * w, none[:, :0], none[:, :0])
        piece = Stretch(*moments, 0, np.arange(len(t)), none, none[None], none)
        gatherer.add(piece, left[:, None], np.ones(len(t), dtype=bool), 0.002, np.full(1, noise))
    return gatherer


PHASE = 2.0 * np.arange(0.0, 4.0 * np.pi, 0.002)


def test_what_repeats_is_found_where_it_is() -> None:
    """0.3 forwards above 1 rad/s, nothing else: M is 0.3 there; noise of mean zero is not."""
    forward = np.sin(PHASE) > 0.5
    noise = np.random.default_rng(0).normal(size=len(PHASE))
    found = gathered(0.3 * forward + 0.2 * noise).misfits()["joint"]
    assert found.curve(np.array([1.6]))[0] == pytest.approx(0.3, rel=0.2)
    quiet = gathered(0.2 * noise).misfits()["joint"]
    assert quiet.curve(np.array([1.6]))[0] < 0.1
    assert found.curve(np.array([-1.6]))[0] < 0.15


def test_the_longer_it_slides_the_surer_it_is() -> None:
    noise = np.random.default_rng(0).normal(size=len(PHASE))
    speeds = np.array([0.5, 1.0, -1.5])
    once, often = (gathered(noise, copies=n).misfits()["joint"] for n in (1, 20))
    assert (often.unseen(speeds) < 0.2 * once.unseen(speeds)).all()
    never = MisfitSettings().unseen * once.slow
    np.testing.assert_allclose(once.unseen(np.array([50.0, -50.0])), never)


def slid(place: float, width: float = 20.0, ways: tuple[float, float] = (1.0, 1.0)) -> Misfit:
    """Return what is left over of a joint that slid about a bin of speed, by a normal density."""
    found = gathered(np.zeros(len(PHASE))).misfits()["joint"]
    bins = np.arange(found.seconds.shape[1])
    density = np.exp(-0.5 * ((bins - place) / width) ** 2)
    return replace(found, seconds=np.outer(ways, density))


@pytest.mark.parametrize("apart", [0.0, 10.0, 40.0, 80.0])
def test_like_speeds_are_the_overlap_of_two_densities(apart: float) -> None:
    """Of two normal ones it is 2 Φ(−d / 2σ), however long either slid."""
    one, other = slid(150.0), slid(150.0 + apart, ways=(7.0, 7.0))
    share = 2.0 * scipy.stats.norm.cdf(-apart / 40.0)
    assert one.alike(other) == pytest.approx(share, abs=0.02)
    assert other.alike(one) == pytest.approx(one.alike(other))


def test_neither_the_other_way_nor_rest_is_alike() -> None:
    back, forward, never = (slid(150.0, ways=w) for w in ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0)))
    assert back.alike(forward) == 0.0 and back.alike(back) == pytest.approx(1.0)
    assert back.alike(never) == never.alike(back) == never.alike(never) == 0.0


SPEEDS = np.array([0.0, 0.005, 0.05, 0.5, -1.5, 50.0])
GONE = np.array([0.0, 0.0005, 0.02, 0.2, 0.5, 0.0])


@pytest.mark.parametrize("corner", [5.0, 30.0])
def test_noise_in_the_band_is_what_the_filter_leaves_of_it(corner: float) -> None:
    """Of white noise, whatever is smooth or happens seldom beside it."""
    time = 0.002 * np.arange(400_000)
    white = np.random.default_rng(0).normal(size=(len(time), 2)) * [0.1, 3.0]
    left = filtered(time, white, 0.002, corner)
    found = noise_in_band(white, 0.002, corner)
    np.testing.assert_allclose(found, left.std(axis=0), rtol=0.05)
    beside = 5.0 * np.sin(2.0 * time)[:, None] + np.sign(np.sin(0.7 * time))[:, None]
    np.testing.assert_allclose(noise_in_band(white + beside, 0.002, corner), found, rtol=0.02)
    assert not noise_in_band(beside[:2], 0.002, corner).any()


def stated(cells: FloatArray, slow: float, noise: float = 0.0) -> Misfit:
    """Return a misfit that was measured elsewhere, of speeds that nothing slid at."""
    found = gathered(np.zeros(len(PHASE))).misfits()["joint"]
    none = np.zeros_like(found.seconds)
    return replace(found, cells=cells, slow=slow, seconds=none, noise=noise)


CELLS = np.random.default_rng(1).uniform(
    1.0, 2.0, (len(MisfitSettings().speeds), len(MisfitSettings().distances))
)


@pytest.mark.parametrize("noise", [0.2, 0.9])
def test_noise_of_the_sensor_is_no_error_of_the_model(noise: float) -> None:
    """Errors and independent noise of the sensor add up to what is left over."""
    noisy = stated(np.hypot(CELLS, noise), float(np.hypot(1.3, noise)), noise)
    exact = stated(CELLS, 1.3).elsewhere(SPEEDS, GONE)
    # The median of an even number of cells is between two of them, whose squares add.
    np.testing.assert_allclose(noisy.elsewhere(SPEEDS, GONE), exact, rtol=1e-3)
    assert not stated(CELLS, 1.3, noise=3.0).elsewhere(SPEEDS, GONE).any()


def test_a_single_condition_that_stands_out_is_not_all_slow_motion() -> None:
    out = CELLS.copy()
    out[2, 3] = 90.0  # [N·m], where nothing of `SPEEDS` and `GONE` is
    plain = stated(CELLS, 1.3).elsewhere(SPEEDS, GONE)
    ruled = stated(out, 1.3).elsewhere(SPEEDS, GONE)
    np.testing.assert_allclose(ruled, plain, rtol=0.05)


def test_at_rest_no_less_is_expected_than_slow_motion_left_over() -> None:
    """What sticks shows in the rows about reversals only, of which the median says nothing."""
    speeds, gone = np.array([0.0, 0.02]), np.array([0.5, 0.5])
    little, much = (stated(CELLS, m).elsewhere(speeds, gone) for m in (0.0, 9.0))
    assert much[0] > MisfitSettings().resting * 9.0 and much[0] > 3.0 * little[0]
    assert much[1] == little[1] < little[0]


def test_elsewhere_the_longer_it_slid_the_surer_it_is() -> None:
    noise = np.random.default_rng(0).normal(size=len(PHASE))
    once, often = (gathered(noise, copies=n).misfits()["joint"] for n in (1, 20))
    speeds, gone = np.array([0.5, 1.0, -1.5]), np.full(3, 0.5)
    assert (often.elsewhere(speeds, gone) < once.elsewhere(speeds, gone)).all()
    never = np.array([50.0]), np.array([1.0])
    np.testing.assert_allclose(often.elsewhere(*never), once.elsewhere(*never))


def test_a_sliding_joint_is_a_joint_in_other_units() -> None:
    noise = np.random.default_rng(0).normal(size=len(PHASE))
    one, other = (gathered(noise, s).misfits()["joint"] for s in (1.0, LINEAR_SCALE))
    speeds, gone = np.array([0.05, 0.5, -1.5]), np.array([0.02, 0.2, 0.0])
    np.testing.assert_allclose(other.curve(LINEAR_SCALE * speeds), one.curve(speeds), rtol=1e-9)
    np.testing.assert_allclose(
        other.torque(LINEAR_SCALE * speeds, LINEAR_SCALE * gone),
        one.torque(speeds, gone),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        other.elsewhere(LINEAR_SCALE * speeds, LINEAR_SCALE * gone),
        one.elsewhere(speeds, gone),
        rtol=1e-9,
    )


@pytest.mark.parametrize("scale", [1.0, LINEAR_SCALE])
def test_a_file_states_the_same_deviation_of_torque(scale: float) -> None:
    found = gathered(np.random.default_rng(0).normal(size=len(PHASE)), scale).misfits()["joint"]
    data = json.loads(json.dumps(found.to_json()))
    again = type(found).from_json(data, scale != 1.0)
    speeds, gone = scale * np.array([0.0, 0.05, 0.5, -1.5]), scale * np.array([0.0, 0.02, 0.2, 0.0])
    np.testing.assert_allclose(again.torque(speeds, gone), found.torque(speeds, gone), rtol=1e-9)


def test_without_anything_left_over_nothing_is_stated() -> None:
    found = gathered(np.zeros(len(PHASE))).misfits()["joint"]
    assert not found.torque(np.array([0.0, 1.0]), np.array([0.0, 0.1])).any()
    assert not found.curve(np.array([0.1, -1.0])).any()
