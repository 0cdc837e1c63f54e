"""Weighing a held body: what is found, how sure, what is refused and what is only said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heft.applications.payload.by_wrench import Weigh
from heft.applications.payload.estimate import Weighed
from heft.errors import InvalidRecording, InvalidSetting, TooLittleData
from heft.information import inertia
from heft.information.rotation import matrix_of_rpy
from heft.plants.wrench_sensor import GraspingPoint, Held, at_first
from tests.robots import FloatArray
from tests.wrists import BIAS, BODY, GRAVITY, carried, posed, poses, sensed

NAMES = {"drift", "saturated", "turned", "no load", "no body", "not seen"}


def changed(held: Held, **arrays: FloatArray) -> Held:
    return replace(held, **arrays)


def test_all_ten_are_found_within_their_intervals() -> None:
    shares = []
    for seed in range(6):
        found = Weigh().fit(sensed(6000, seed))
        assert found.seen.all() and found.consistent
        assert found.noise == pytest.approx((0.1, 0.005), rel=0.15)
        error = found.values[:10] - BODY
        shares.append(error @ np.linalg.solve(found.covariance[:10, :10], error) / 10.0)
    # A mean of 6 χ²(10)/10: 1 ± 0.18; three of these, and the delay's price.
    assert 0.45 <= np.mean(shares) <= 1.6


def test_mass_and_centre_have_their_own_deviations() -> None:
    found = [Weigh().fit(sensed(5000, seed)) for seed in range(6)]
    mass, com, _ = inertia.to_body(BODY)
    errors = np.array([(f.body[:4] - np.append(mass, com)) / f.body_std[:4] for f in found])
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(1.0, abs=0.4)  # 24 numbers: 0.14 each


@pytest.mark.parametrize("delay", [1e-3, 3e-3, -2e-3])
def test_a_delay_of_the_wrench_is_found(delay: float) -> None:
    held = sensed(8000)
    late = np.stack([np.interp(held.time - delay, held.time, c) for c in held.wrench.T], 1)
    inner = slice(20, -20)
    found = Weigh().fit(changed(held, wrench=late).part(inner))
    assert found.delay == pytest.approx(delay, abs=4e-4)
    assert found.mass == pytest.approx(BODY[0], rel=0.01)


def test_poses_at_rest_show_mass_and_centre_and_no_inertia() -> None:
    found = Weigh().fit(poses(40))
    assert found.seen.tolist() == [True] * 4 + [False] * 6
    assert np.isnan(found.values[4:10]).all() and np.isnan(found.inertia).all()
    assert found.body[:4] == pytest.approx(np.append(BODY[0], BODY[1:4] / BODY[0]), abs=0.01)
    assert np.isinf(found.body_std[4:]).all()
    (message,) = (f.message for f in found.findings if f.name == "not seen")
    assert message.partition(":")[0] == ", ".join(inertia.SYMBOLS[4:])


def test_a_drift_is_found_and_modelled() -> None:
    held = poses(80)
    ramp = np.linspace(0.0, 1.0, 80)[:, None] ** 2 * np.array([0.0, 0.0, 1.5, 0.0, 0.01, 0.0])
    plain = Weigh(bias="constant").fit(changed(held, wrench=held.wrench + ramp))
    found = Weigh().fit(changed(held, wrench=held.wrench + ramp))
    assert [f.name for f in found.findings if f.name == "drift"]
    assert abs(found.mass - BODY[0]) <= 5.0 * found.body_std[0]
    assert found.left[0] < 0.2 * plain.left[0]


def test_without_drift_none_is_found() -> None:
    found = [Weigh().fit(poses(60, seed)) for seed in range(10)]
    assert sum("drift" in {f.name for f in w.findings} for w in found) == 0


def test_a_turned_sensor_is_refused_with_its_rotation_and_mended_by_it() -> None:
    held, R = sensed(6000), matrix_of_rpy(0.0, 0.0, 0.5 * np.pi)
    turned = np.concatenate([held.wrench[:, :3] @ R, held.wrench[:, 3:] @ R], axis=1)
    with pytest.raises(InvalidRecording, match="turned") as caught:
        Weigh().fit(changed(held, wrench=turned))
    assert "rotation = " in str(caught.value)
    found = Weigh(mounting=True).fit(changed(held, wrench=turned))
    np.testing.assert_allclose(found.rotation, R, atol=0.02)
    assert found.mass == pytest.approx(BODY[0], rel=0.02)


def test_forces_along_one_line_tell_no_turn() -> None:
    line = np.linspace(-1.0, 1.0, 9)[:, None]
    regressor, wrench = np.zeros((9, 6, 10)), np.zeros((9, 6))
    regressor[:, :3, 0], wrench[:, :3] = line * [0.0, 0.6, 0.8], line * [2.0, 0.0, 0.0]
    found: Any = SimpleNamespace(windows=(regressor, wrench))
    turned, share = Weigh()._turned(found)
    assert share == 1.0
    np.testing.assert_array_equal(turned, np.eye(3))


def test_of_what_is_not_identified_the_covariance_is_zero() -> None:
    own = np.array([[4.0, np.inf], [np.inf, np.inf]])
    found: Any = SimpleNamespace(
        problem=SimpleNamespace(base=SimpleNamespace(kept=(0, 2))),
        solution=np.ones(3),
        estimate=SimpleNamespace(parameters=SimpleNamespace(covariance=own)),
    )
    np.testing.assert_array_equal(Weighed.covariance.func(found), np.diag([4.0, 0.0, 0.0]))


def in_all_directions(count: int) -> FloatArray:
    rng = np.random.default_rng(3)
    return np.array([matrix_of_rpy(*rng.uniform(-np.pi, np.pi, 3)) for _ in range(count)])


TILTED = matrix_of_rpy(0.08, -0.05, 0.0) @ GRAVITY
GAINS = np.array([1.03, 0.98, 0.95, 1.02, 0.99, 0.96])
MOUNTED = matrix_of_rpy(0.1, -0.2, 0.5)


@pytest.mark.parametrize("mounting", [False, True])
@pytest.mark.parametrize("at_rest", [False, True])
def test_a_tilted_base_is_found(at_rest: bool, mounting: bool) -> None:
    held = posed(in_all_directions(40), TILTED) if at_rest else carried(5000, TILTED)
    if mounting:
        axes = (held.wrench.reshape(-1, 2, 3) @ MOUNTED).reshape(-1, 6)
        held = changed(held, wrench=axes)
    found = Weigh(tilt=True, mounting=mounting).fit(held)
    assert found.gravity is not None and found.gravity_std is not None
    assert np.all(np.abs(found.gravity - TILTED) < 5.0 * found.gravity_std)
    assert found.gravity_std.max() < 0.01
    assert np.all(np.abs(found.body[:4] - Weigh().fit(poses(40)).body[:4]) < 2e-3)
    plain = Weigh(mounting=mounting).fit(held)
    assert plain.left[0] > 2.0 * found.left[0]
    if mounting:
        np.testing.assert_allclose(found.rotation, MOUNTED, atol=2e-3)


def test_a_tilt_that_is_not_shown_is_said_not_to_be() -> None:
    about_one_axis = np.array([matrix_of_rpy(a, 0.0, 0.0) for a in np.linspace(-2.0, 2.0, 40)])
    found = Weigh(tilt=True).fit(posed(about_one_axis, GRAVITY))
    assert found.gravity is None
    assert any("the direction of gravity" in f.message for f in found.findings)
    assert found.mass == pytest.approx(BODY[0], rel=0.01)


def test_no_direction_of_gravity_is_asked_of_what_feels_it() -> None:
    with pytest.raises(InvalidSetting, match="feels gravity itself"):
        Weigh(tilt=True).fit(sensed(3000))


def test_gains_are_told_but_for_the_one_that_all_share() -> None:
    held = posed(in_all_directions(60), GRAVITY)
    held = changed(held, wrench=GAINS * held.wrench)
    found = Weigh(gain_std=0.03).fit(held)
    told = found.of_sensor("gain")
    assert told is not None
    ratios, wanted = told[0][:3] / told[0][:3].mean(), GAINS[:3] / GAINS[:3].mean()
    np.testing.assert_allclose(ratios, wanted, atol=2e-3)
    # Three gains of 3 % each that only their mean is not known of.
    assert found.body_std[0] / found.mass == pytest.approx(0.03 / np.sqrt(3.0), rel=0.1)
    assert any("--known-mass" in f.message for f in found.findings)


def test_a_load_of_known_mass_tells_the_gains_of_force() -> None:
    held = posed(in_all_directions(60), TILTED)
    held = changed(held, wrench=GAINS * held.wrench)
    found = Weigh(gain_std=0.03, known_mass=float(BODY[0]), tilt=True).fit(held)
    told = found.of_sensor("gain")
    assert told is not None
    np.testing.assert_allclose(told[0][:3], GAINS[:3], atol=4e-3)
    assert np.all(told[1][:3] < 3e-3) and np.all(told[1][3:] > 0.01)
    with pytest.raises(InvalidSetting, match="held for exact"):
        Weigh(known_mass=1.0)


def later(held: Held, bias: FloatArray) -> Held:
    return changed(held, time=held.time + 1e5, wrench=held.wrench + bias)


def test_information_of_several_logs_adds() -> None:
    one, other = sensed(3000, 0), later(sensed(3000, 1), np.zeros(6))
    both = Weigh(delay=False).fit(one, other)
    alone = [Weigh(delay=False).fit(log) for log in (one, other)]
    assert np.all(np.abs(both.values[:10] - BODY) < 5.0 * np.sqrt(np.diag(both.covariance))[:10])
    # Of a bias that is one for both, two equal logs tell twice as much.
    ratio = both.body_std / np.mean([a.body_std for a in alone], axis=0)
    np.testing.assert_allclose(ratio, np.sqrt(0.5), rtol=0.1)
    assert both.of_sensor("bias") is not None and both.bias is not None
    assert len(both.of_sensor("bias")[0]) == 6  # type: ignore[index]
    assert "drift" not in {f.name for f in both.findings}


def test_each_log_has_a_bias_of_its_own_where_they_differ() -> None:
    more = np.array([1.0, 0.0, -2.0, 0.1, 0.0, 0.0])
    found = Weigh().fit(sensed(3000, 0), later(sensed(3000, 1), more), sensed(3000, 2))
    told = found.of_sensor("bias")
    assert told is not None and len(told[0]) == 18
    np.testing.assert_allclose(told[0].reshape(3, 6), [BIAS, BIAS + more, BIAS], atol=0.2)
    assert np.all(np.abs(found.values[:10] - BODY) < 5.0 * np.sqrt(np.diag(found.covariance))[:10])
    assert any("log to log" in f.message for f in found.findings)
    constant = Weigh(bias="constant").fit(sensed(3000, 0), later(sensed(3000, 1), more))
    assert constant.left[0] > 1.2 * found.left[0]


def test_logs_that_are_not_alike_are_not_weighed_together() -> None:
    with pytest.raises(InvalidRecording, match="at rest"):
        Weigh().fit(sensed(3000), poses(40))
    fewer = Held(*(a[::2] for a in vars(sensed(3000)).values()))
    with pytest.raises(InvalidRecording, match="different rates"):
        Weigh().fit(sensed(3000), fewer)


FAULTS: dict[str, tuple[Callable[[Held], Held], str]] = {
    "reported on the sensor": (lambda h: changed(h, wrench=-h.wrench), 'reports = "on_sensor"'),
    "moments in N·mm": (
        lambda h: changed(h, wrench=h.wrench * np.repeat([1.0, 1e3], 3)),
        "N·mm",
    ),
    "a clock that jumps back": (
        lambda h: changed(h, time=np.where(np.arange(len(h.time)) < 3000, h.time, h.time - 1.0)),
        "at row 3000",
    ),
    "a frozen sensor": (
        lambda h: changed(
            h,
            wrench=np.where(
                (np.arange(len(h.time)) // 1000 == 2)[:, None], h.wrench[2000], h.wrench
            ),
        ),
        "from 2.000 s on",
    ),
    "a sample that is no number": (
        lambda h: changed(h, wrench=np.where(h.time[:, None] == h.time[7], np.nan, h.wrench)),
        "not finite",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_refused_with_the_evidence(fault: str) -> None:
    change, words = FAULTS[fault]
    with pytest.raises(InvalidRecording) as caught:
        Weigh().fit(change(sensed(6000)))
    assert words in str(caught.value)


def test_positions_in_millimetres_are_refused() -> None:
    held = carried(2000, GRAVITY)
    Weigh().fit(held)
    with pytest.raises(InvalidRecording, match="in mm"):
        Weigh().fit(changed(held, velocity=1e3 * held.velocity))


def test_a_saturated_axis_is_named() -> None:
    held = sensed(6000)
    wrench = held.wrench.copy()
    wrench[:, 2] = np.minimum(wrench[:, 2], np.quantile(wrench[:, 2], 0.8))
    found = Weigh().fit(changed(held, wrench=wrench))
    told = [f.message for f in found.findings if f.name == "saturated"]
    assert told and "force.z" in told[0]


def test_no_load_is_said_to_be_none() -> None:
    held = sensed(6000)
    rng = np.random.default_rng(0)
    wrench = rng.normal(size=held.wrench.shape) * np.repeat([0.1, 0.005], 3)
    found = Weigh().fit(changed(held, wrench=wrench))
    assert "no load" in {f.name for f in found.findings}


def test_one_direction_shows_no_mass_beside_a_bias() -> None:
    held = poses(20)
    same = changed(
        held,
        specific=np.tile(held.specific[0], (20, 1)),
        wrench=np.tile(held.wrench[0], (20, 1)),
    )
    with pytest.raises(TooLittleData, match="three directions"):
        Weigh().fit(same)
    assert Weigh(bias="none").fit(same).mass == pytest.approx(BODY[0], rel=0.05)


def test_two_rows_are_too_few() -> None:
    with pytest.raises(TooLittleData):
        Weigh().fit(poses(2))


def test_the_noise_of_one_of_two_sensors_is_found() -> None:
    R, r = matrix_of_rpy(0.0, np.pi, 0.0), np.array([0.0, 0.0, 0.3])
    shares, noises = [], []
    for seed in range(5):
        held = sensed(4000, seed)
        other = np.random.default_rng(100 + seed).normal(size=(4000, 6))
        summed = held.wrench + at_first(other * np.repeat([0.1, 0.005], 3), R, r)
        found = Weigh(others=(GraspingPoint(R, r),), delay=False).fit(changed(held, wrench=summed))
        noises.append(found.noise)
        error = found.values[:10] - BODY
        shares.append(error @ np.linalg.solve(found.covariance[:10, :10], error) / 10.0)
    assert np.mean(noises, axis=0) == pytest.approx((0.1, 0.005), rel=0.1)
    assert 0.4 <= np.mean(shares) <= 1.6  # a mean of 5 χ²(10)/10: 1 ± 0.2; three of these


def test_windows_of_a_slow_log_span_enough_samples() -> None:
    slow = Held(*(a[::10] for a in vars(sensed(20_000)).values()))  # 100 Hz
    found = Weigh().fit(slow)
    error = found.values[:4] - BODY[:4]
    assert np.all(np.abs(error) <= 5.0 * np.sqrt(np.diag(found.covariance))[:4])


def test_a_silence_is_spanned_by_no_window() -> None:
    held = sensed(6000)
    kept = np.r_[0:2000, 2006:6000]  # of 7 ms: no gap of the clock, one of the sensor
    found = Weigh(delay=False).fit(held.part(kept))
    whole = Weigh(delay=False).fit(held)
    assert whole.rows - 5 <= found.rows < whole.rows
    assert found.noise == pytest.approx(whole.noise, rel=0.05)


def test_poses_minutes_apart_are_weighed() -> None:
    held = poses(40)
    found, usual = Weigh().fit(changed(held, time=200.0 * held.time + 1.7e9)), Weigh().fit(held)
    np.testing.assert_allclose(found.body[:4], usual.body[:4], rtol=1e-9, atol=1e-12)
