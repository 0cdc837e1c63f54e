"""Rows that are not the robot: estimators stay at the clean answer while least squares leaves it.

Errors are measured in the metric of the clean estimate's covariance: 1 is what noise alone
makes of them, in the root mean square over parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray

from heft.errors import InvalidSetting, TooLittleData
from heft.estimators import robust
from heft.estimators.bayesian import BayesianRegression
from heft.estimators.least_squares import LeastSquares
from heft.estimators.robust import (
    Hampel,
    Huber,
    MedianSketch,
    _weighted_noise,
    hampel_gate,
    huber_weights,
    weighted_information,
)
from heft.estimators.segments import Ransac, segments_of
from heft.plants import RobotPlant
from heft.plants.problem import Problem
from heft.plants.rows import Residuals
from heft.recordings.recording import Recording
from heft.signals import outliers
from heft.signals.outliers import hampel
from heft.signals.settings import Smoothing
from heft_methods import BlockMedian, TotalLeastSquares
from heft_methods.block_median import _geometric_median
from tests.experiments import ARMS, fourier, torque, true_robot

Array = NDArray[np.float64]
RATE, ROWS, SHARE = 100.0, 3000, 0.02
ORDINARY = LeastSquares(coloured=False)


@cache
def experiment() -> tuple[object, Array, Array, Array]:
    """Return a robot, positions and true torque of a motion, and the noise of each joint."""
    truth = true_robot(ARMS["six joints"], np.random.default_rng(0), "simple")
    time = np.arange(ROWS) / RATE
    q, v, a = fourier(len(truth.robot.joints), time, np.random.default_rng(7))
    tau = torque(truth, q, v, a)
    return truth, q, tau, SHARE * np.sqrt(np.mean(tau**2, axis=0))


def clean(tau: Array, rng: np.random.Generator) -> Array:
    return np.zeros_like(tau)


def spikes(tau: Array, rng: np.random.Generator) -> Array:
    """One row in twenty of each channel is off, always upwards, by three times its size."""
    size = np.sqrt(np.mean(tau**2, axis=0))
    hit = rng.random(tau.shape) < 0.05
    return np.asarray(hit * 3.0 * size * np.abs(rng.normal(size=tau.shape)))


def pushes(tau: Array, rng: np.random.Generator) -> Array:
    """Six pushes of half a second against all joints."""
    size, out = np.sqrt(np.mean(tau**2, axis=0)), np.zeros_like(tau)
    for k in range(6):
        first = 150 + 470 * k + int(rng.integers(0, 300))
        pull = size * rng.uniform(0.5, 2.0, tau.shape[1])
        out[first : first + 50] += np.hanning(50)[:, None] * pull
    return out


def block(tau: Array, rng: np.random.Generator) -> Array:
    """For a fifth of the log it holds something else."""
    out = np.zeros_like(tau)
    out[1800:2400] = 0.5 * tau[1800:2400] + 0.3 * np.sqrt(np.mean(tau**2, axis=0))
    return out


def problem(
    spoil: Callable[[Array, np.random.Generator], Array], seed: int = 0, cut: int = ROWS
) -> Problem:
    truth, q, tau, noise = experiment()
    rng = np.random.default_rng(seed)
    seen = tau + noise * rng.normal(size=tau.shape)
    seen = seen + spoil(tau, np.random.default_rng(seed + 100))
    joints = truth.robot.joints  # type: ignore[attr-defined]
    time = np.arange(ROWS) / RATE
    log = Recording.from_arrays(
        time[:cut],
        q={j: q[:cut, k] for k, j in enumerate(joints)},
        tau={j: seen[:cut, k] for k, j in enumerate(joints)},
    )
    return Problem(RobotPlant(truth.robot), (log,), Smoothing(10.0), 1)  # type: ignore[attr-defined]


def truth_of(made: Problem) -> Array:
    truth = experiment()[0]
    drives = [
        truth.drives[f"{made.plant.robot.drives[d].name}.{t.name}"]  # type: ignore[attr-defined]
        for d, t in made.plant.robot.drive_columns
    ]
    bodies = made.plant.robot.nominal()[: 10 * len(made.plant.robot.tree.names)]
    return np.asarray(made.base.matrix @ np.concatenate([bodies, drives]))


def metric(seed: int) -> Array:
    """Return what makes the clean estimate's covariance one."""
    found = ORDINARY.fit(problem(clean, seed)).parameters
    assert found.covariance is not None
    return np.linalg.inv(np.linalg.cholesky(found.covariance))


def rms(vector: Array) -> float:
    return float(np.sqrt(np.mean(vector**2)))


# Estimators

# How far each may be off, in units of what noise alone makes. A share ε of outliers pulls
# Huber's estimate by ε k deviations of a row, in as many directions as there are channels:
# 1 + ε k √(N channels/parameters)/0.82, twice that where the outliers come together.
PULL = 1.345 / 0.82 * np.sqrt(2900 * 6 / 58)
LIMITS = {
    ("huber", spikes): 1.0 + 0.05 * PULL,
    ("huber", pushes): 1.0 + 2.0 * 0.1 * PULL,
    ("hampel", spikes): 1.3,
    ("hampel", pushes): 1.5,
    ("median", pushes): 2.0,
    ("median", block): 1.5,
    ("ransac", pushes): 1.6,
    ("ransac", block): 1.5,
}
ESTIMATORS = {
    "huber": Huber(),
    "hampel": Hampel(),
    "median": BlockMedian(),
    "ransac": Ransac(trials=100),
}


@pytest.mark.parametrize(
    ("name", "spoil"), list(LIMITS), ids=[f"{n} {s.__name__}" for n, s in LIMITS]
)
def test_the_clean_answer_is_found_among_outliers(
    name: str, spoil: Callable[[Array, np.random.Generator], Array]
) -> None:
    for seed in (0,) if name in ("median", "ransac") else (0, 1):  # whose rounds take long
        made, whiten = problem(spoil, seed), metric(seed)
        plain = ORDINARY.fit(made).parameters.values - truth_of(made)
        found = ESTIMATORS[name].fit(made)
        off = found.parameters.values - truth_of(made)
        assert rms(whiten @ plain) > 30.0
        assert rms(whiten @ off) <= LIMITS[name, spoil]
        # What builds on the estimate builds on the same numbers.
        triangle = found.information.combined(found.weights(worth=False))
        again = np.linalg.solve(triangle.R, triangle.z)
        assert np.abs(again - found.parameters.values).max() <= 1e-6 * np.abs(again).max()
        inside = np.mean(np.abs(off) <= 1.96 * found.parameters.std)
        assert inside >= 0.75  # intervals know nothing of the bias, but are not absurd


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_outliers_little_is_lost(name: str) -> None:
    """The difference to the best estimate has variance (1/efficiency − 1) C: 95 % for all."""
    made, whiten = problem(clean, 3), metric(3)
    best = ORDINARY.fit(made).parameters
    found = ESTIMATORS[name].fit(made).parameters
    lost = rms(whiten @ (found.values - best.values))
    count = len(best.values)
    assert lost <= np.sqrt(1.0 / 0.95 - 1.0) * (1.0 + 3.0 / np.sqrt(2.0 * count))
    # Its own deviations say so: 1/0.95 in variance, give or take what σ is known to.
    assert np.median(found.std / best.std) == pytest.approx(1.0, abs=0.1)


def test_huber_without_a_threshold_is_least_squares() -> None:
    made = problem(spikes)
    plain, huber = ORDINARY.fit(made), Huber(threshold=1e6).fit(made)
    # The weights of the channels differ: 1.4826 median sizes are not standard deviations here.
    sigma = robust.scale_of((r.values for r in made.residuals(huber.parameters.values)), 6)
    triangle = plain.information.combined(
        dict(zip(made.channels, (1.0 / sigma).tolist(), strict=True))
    )
    wanted = np.linalg.solve(triangle.R, triangle.z)
    assert rms(metric(0) @ (huber.parameters.values - wanted)) <= 0.05 * rms(metric(0) @ wanted)


def test_passes_are_counted() -> None:
    walked = 0

    class Counting(Problem):
        def rows(self):  # type: ignore[no-untyped-def]
            nonlocal walked
            walked += 1
            return super().rows()

        def residuals(self, values: Array):  # type: ignore[no-untyped-def]
            nonlocal walked
            walked += 1
            return super().residuals(values)

        def information(self):  # type: ignore[no-untyped-def]
            nonlocal walked
            walked += 1
            return super().information()

    made = problem(pushes)
    moved = {"total": TotalLeastSquares(), "bayesian": BayesianRegression()}
    for name, estimator in {**ESTIMATORS, "median": BlockMedian(blocks=8), **moved}.items():
        walked = 0
        counting = Counting(made.plant, made.recordings, made.smoothing, 1)
        assert estimator.fit(counting).passes == walked, name


def test_the_segments_of_a_block_are_told() -> None:
    found = Ransac(trials=100).fit(problem(block))
    assert found.settings["inside"] == len(found.inside)
    for segment, share in zip(found.segments, found.shares, strict=True):
        spoilt = segment.begin < 23.99 and segment.end > 18.01
        assert share == (0.0 if spoilt else 1.0)


def test_a_draw_is_the_same_for_the_same_seed() -> None:
    made = problem(pushes)
    one, other = (Ransac(trials=20, seed=5).fit(made) for _ in range(2))
    assert one.parameters.values.tobytes() == other.parameters.values.tobytes()
    assert one.shares == other.shares


def test_segments_at_rest_are_no_consensus() -> None:
    truth, q, tau, noise = experiment()
    rng = np.random.default_rng(0)
    rest = 2 * ROWS
    still_q = np.concatenate([q[:1500], np.repeat(q[1499:1500], rest, axis=0)])
    still_tau = np.concatenate([tau[:1500] * 1.3, np.repeat(tau[1499:1500], rest, axis=0)])
    still_tau[:1500] += 20 * noise * rng.normal(size=(1500, 6))
    still_tau = still_tau + 1e-3 * noise * rng.normal(size=still_tau.shape)
    joints = truth.robot.joints  # type: ignore[attr-defined]
    log = Recording.from_arrays(
        np.arange(len(still_q)) / RATE,
        q={j: still_q[:, k] for k, j in enumerate(joints)},
        tau={j: still_tau[:, k] for k, j in enumerate(joints)},
    )
    made = Problem(RobotPlant(truth.robot), (log,), Smoothing(10.0), 1)  # type: ignore[attr-defined]
    with pytest.raises(TooLittleData, match="do not show"):
        Ransac(trials=50).fit(made)


# Weights


def test_huber_weights_make_a_residuals_pull_at_most_its_threshold() -> None:
    rng = np.random.default_rng(0)
    r, sigma = 5.0 * rng.normal(size=(400, 3)), np.array([0.1, 1.0, 10.0])
    w = huber_weights(r, sigma, 1.345)
    assert np.array_equal(w == 1.0, np.abs(r) <= 1.345 * sigma)
    assert np.abs(w * r) == pytest.approx(np.minimum(np.abs(r), 1.345 * sigma))
    assert huber_weights(np.zeros((1, 3)), sigma).tolist() == [[1.0] * 3]


@pytest.mark.parametrize("window", [3, 7, 31])
def test_hampel_is_what_its_definition_says(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 2)) + 5.0 * (rng.random((200, 2)) < 0.1)
    half = window // 2
    padded = np.pad(values, ((half, half), (0, 0)), mode="reflect")
    wanted = np.zeros((200, 2), dtype=bool)
    for k in range(200):
        near = padded[k : k + window]
        middle = np.median(near, axis=0)
        mad = 1.4826022 * np.median(np.abs(near - middle), axis=0)
        wanted[k] = np.abs(values[k] - middle) > 2.0 * np.maximum(mad, 0.3)
    assert np.array_equal(hampel(values, window, 2.0, 0.3), wanted)
    monkeypatch.setattr(outliers, "WINDOW_BYTES", 8 * window * 2 * 17)  # in blocks of 17 rows
    assert np.array_equal(hampel(values, window, 2.0, 0.3), wanted)


def test_spikes_are_seen_on_a_moving_signal_and_few_else() -> None:
    rng = np.random.default_rng(2)
    time = np.arange(20000) / 1000.0
    signal = 10.0 * np.sin(2.0 * time) + 0.1 * rng.normal(size=len(time))
    at = rng.choice(len(time), 200, replace=False)
    signal[at] += 2.0 * rng.choice([-1.0, 1.0], 200)
    found = hampel(signal[:, None], 51)[:, 0]
    assert found[at].all()
    # Beyond three deviations lie 0.27 % of normal numbers; a MAD of 51 is known to 12 %.
    rest = np.delete(found, at)
    assert rest.mean() <= 0.01


def test_a_quantised_signal_at_rest_has_no_outliers_with_a_floor() -> None:
    values = np.zeros((500, 1))
    values[::50] = 0.01  # one step of the converter
    assert hampel(values, 21).any()
    assert not hampel(values, 21, floor=0.005).any()


@pytest.mark.parametrize("window", [0, 2, 4, -3, 5.0])
def test_a_window_that_has_no_middle_is_refused(window: int) -> None:
    with pytest.raises(InvalidSetting, match="odd"):
        hampel(np.zeros((10, 1)), window)


def test_the_gate_takes_the_feet_of_a_push_along_and_leaves_the_neighbours_of_spikes() -> None:
    rng = np.random.default_rng(3)
    residuals = rng.normal(size=(4000, 2))
    residuals[1000:1100, 0] += 40.0 * np.hanning(100)
    residuals[[2000, 3000], 1] += 30.0
    keep = hampel_gate(residuals, np.ones(2), 401, 4.0, 10)
    assert not keep[1010:1090, 0].any()
    assert 80 <= np.sum(~keep[900:1200, 0]) <= 112
    gone = np.flatnonzero(~keep[:, 1])
    assert {2000, 3000} <= set(gone.tolist()) and len(gone) <= 6
    bare = hampel_gate(residuals, np.ones(2), 401, 4.0, 0)
    assert np.all(bare >= keep)


@pytest.mark.parametrize("cuts", [(7,), (1000, 3), (3000,)])
def test_weights_meet_their_rows_however_both_are_cut(cuts: tuple[int, ...]) -> None:
    made = problem(clean)
    rows = list(made.rows())
    total = sum(len(r.time) for r in rows)
    w = np.random.default_rng(0).random((total, 6))
    edges = [0]
    while edges[-1] < total:
        edges.append(min(total, edges[-1] + cuts[len(edges) % len(cuts)]))
    pieces = [w[a:b] for a, b in pairwise(edges)]
    got = weighted_information(made, pieces)
    root = np.sqrt(w)
    Y = root[:, :, None] * np.concatenate([r.regressor for r in rows])
    tau = root * np.concatenate([r.effort for r in rows])
    for c, triangle in enumerate(got.triangles):
        stacked = np.column_stack([Y[:, c, triangle.columns], tau[:, c]])
        square = stacked.T @ stacked
        np.testing.assert_allclose(
            triangle.factor.T @ triangle.factor, square, rtol=0.0, atol=1e-11 * np.abs(square).max()
        )
    for wrong in (w[:-1], np.vstack([w, w[:1]])):
        with pytest.raises(InvalidSetting, match="as many"):
            weighted_information(made, [wrong])


def test_unit_weights_change_nothing_and_zero_weights_leave_rows_out() -> None:
    made = problem(clean)
    ones = weighted_information(
        made, (np.ones((len(r.values), 1)) for r in made.residuals(truth_of(made)))
    )
    whole = made.information()
    assert ones.rows == whole.rows
    for a, b in zip(ones.triangles, whole.triangles, strict=True):
        values = truth_of(made)
        assert a.residual_energy(values) == pytest.approx(b.residual_energy(values), rel=1e-8)
    half = weighted_information(
        made, (np.arange(len(r.values))[:, None] % 2.0 for r in made.residuals(truth_of(made)))
    )
    assert half.rows == whole.rows // 2


def test_medians_of_sizes_are_sketched_to_a_third_of_a_percent() -> None:
    rng = np.random.default_rng(4)
    sizes = np.abs(rng.normal(size=(30001, 3))) * np.array([1e-12, 1.0, 1e9])
    sketch = MedianSketch(3)
    for k in range(0, 30001, 1000):
        sketch.add(sizes[k : k + 1000])
    assert sketch.median() == pytest.approx(np.median(sizes, axis=0), rel=2.0 ** (1 / 256) - 1)
    zeros = MedianSketch(1)
    zeros.add(np.zeros((5, 1)))
    assert 0.0 < zeros.median()[0] < 1e-19


# Segments


@pytest.mark.parametrize("count", [5, 12, 40])
def test_segments_add_up_to_the_whole_and_follow_one_another(count: int) -> None:
    made = problem(clean)
    pieces = segments_of(made, count)
    assert abs(len(pieces) - count) <= 1
    assert all(a.end < b.begin for a, b in pairwise(pieces))
    rows = [p.information.rows for p in pieces]
    assert max(rows) <= 2.0 * min(rows) + 6 * 128
    total, whole = pieces[0].information, made.information()
    for p in pieces[1:]:
        total = total + p.information
    values = truth_of(made) * 1.01
    assert total.rows == whole.rows
    for a, b in zip(total.triangles, whole.triangles, strict=True):
        assert a.residual_energy(values) == pytest.approx(b.residual_energy(values), rel=1e-9)


def test_a_segment_never_reaches_over_two_recordings() -> None:
    one = problem(clean, 0, 900)
    two = problem(clean, 1, 1500)
    both = Problem(
        RobotPlant(one.plant.robot), (*one.recordings, *two.recordings), Smoothing(10.0), 1
    )
    pieces = segments_of(both, 8)
    assert {p.recording for p in pieces} == {0, 1}
    assert 8 <= len(pieces) <= 9


@pytest.mark.parametrize(
    "make",
    [
        lambda: Huber(threshold=0.0),
        lambda: Huber(sweeps=0),
        lambda: Hampel(window=4),
        lambda: Hampel(widen=-1),
        lambda: BlockMedian(blocks=2),
        lambda: Ransac(segments=2),
        lambda: Ransac(share=1.0),
        lambda: Ransac(threshold=1.0),
        lambda: Ransac(trials=0),
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidSetting, match="out of range"):
        make()


@pytest.mark.parametrize("estimator", [BlockMedian(), Ransac(trials=5)])
def test_too_little_is_said(estimator: BlockMedian | Ransac) -> None:
    with pytest.raises(TooLittleData):
        estimator.fit(problem(clean, 0, 130))


@pytest.mark.parametrize("widen", [0, 1, 5, 40])
@pytest.mark.parametrize("count", [1, 3, 8, 30])
def test_rows_beside_those_far_off_are_left_out_too(count: int, widen: int) -> None:
    """Pieces may be shorter than what is widened."""
    rng = np.random.default_rng(count)
    pieces = [rng.normal(size=(count, 2)) for _ in range(50)]
    for k in range(0, 50, 5):
        pieces[k][rng.integers(count), rng.integers(2)] = 100.0

    class Given:
        channels = ("a", "b")

        def residuals(self, values: Array) -> Iterator[Residuals]:
            for k, p in enumerate(pieces):
                yield Residuals(p, lambda _: p, 0, np.arange(count) + 1000 * k)  # noqa: B023

    found = list(robust.good_rows(Given(), np.zeros(0), 20.0, widen))  # type: ignore[arg-type]
    for k, (_, index, good) in enumerate(found):
        assert np.array_equal(index, np.arange(count) + 1000 * k)
        for n in range(count):
            near = pieces[k][max(n - widen, 0) : n + widen + 1]
            assert good[n] == (np.abs(near) < 50.0).all()


def test_gating_everything_is_refused() -> None:
    with pytest.raises(TooLittleData, match="outliers to one another"):
        Hampel(window=3, threshold=1e-9).fit(problem(clean, 0, 400))


def test_a_median_of_points_that_coincide_is_that_point() -> None:
    """Their distance of zero has no inverse."""
    points = np.tile([1.0, -2.0], (5, 1))
    middle, distance = _geometric_median(points, np.eye(2))
    assert np.array_equal(middle, points[0]) and not distance.any()
    spread = np.vstack([points, [[4.0, 2.0], [1.0, 8.0]]])
    assert np.allclose(_geometric_median(spread, np.eye(2))[0], points[0], atol=1e-6)


def test_a_median_does_not_stick_to_a_point_of_the_data() -> None:
    """The middle of three by each coordinate, where the others pull harder than it holds."""
    points = np.array([[0.0, 0.0], [10.0, 1.0], [-1.0, -10.0]])
    found, distance = _geometric_median(points, np.eye(2))

    def total(at: Array) -> float:
        return float(np.linalg.norm(points - at, axis=1).sum())

    best = scipy.optimize.minimize(total, [2.0, -2.0], method="Nelder-Mead", tol=1e-10)
    assert np.allclose(found, best.x, atol=1e-4)
    assert total(found) < total(points[0]) - 0.05
    assert np.isclose(distance.sum(), total(found))


def test_the_noise_of_many_parameters_is_not_that_of_what_they_leave() -> None:
    """60 rows of 20 columns leave two thirds of the variance."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        Y, y = rng.normal(size=(60, 20)), rng.normal(size=60)
        values = np.linalg.lstsq(Y, y, rcond=None)[0]
        rows = SimpleNamespace(
            channels=("one",),
            residuals=lambda values, Y=Y, y=y: [SimpleNamespace(values=(y - Y @ values)[:, None])],
        )
        plain = lambda left, sigma: np.ones_like(left)  # noqa: E731
        noise, _, _ = _weighted_noise(rows, plain, values, np.ones(1), 60)  # type: ignore[arg-type]
        found.append(float(noise[0]) ** 2)
    assert np.mean(found) == pytest.approx(1.0, abs=0.1)
