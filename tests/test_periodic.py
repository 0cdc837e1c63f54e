"""Motion that repeats: its period is found, its series fitted, its noise seen between periods."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from heft.errors import InvalidSetting, TooLittleData
from heft.recordings.recording import Recording
from heft.signals import periodic
from heft.signals.bandwidth import resolve
from heft.signals.clock import windows
from heft.signals.periodic import average_periods, find_period, fit_series
from heft.signals.settings import Smoothing
from heft.signals.smoothing import Fourier, smoother

Array = NDArray[np.float64]
JOINTS = 3


def repeating(
    time: Array, period: float, harmonics: int = 5, seed: int = 0
) -> tuple[Array, Array, Array]:
    """Return position, velocity and acceleration of random Fourier series, each (N, 3)."""
    rng = np.random.default_rng(seed)
    w = 2.0 * np.pi * np.arange(1, harmonics + 1) / period
    a, b = rng.normal(size=(2, harmonics, JOINTS))
    s, c = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
    offset = rng.normal(size=JOINTS)
    return (
        offset + s @ a + c @ b,
        (c * w) @ a - (s * w) @ b,
        -(s * w**2) @ a - (c * w**2) @ b,
    )


def times(rate: float, duration: float, jitter: float = 0.0, seed: int = 1) -> Array:
    count = int(rate * duration)
    wobble = jitter * np.random.default_rng(seed).uniform(-1, 1, count)
    return np.asarray(5.0 + (np.arange(count) + wobble) / rate)


def log_of(time: Array, q: Array) -> Recording:
    return Recording.from_arrays(time, q={f"j{k}": q[:, k] for k in range(q.shape[1])})


NAMES = [f"q.j{k}" for k in range(JOINTS)]


# The period


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize(("rate", "jitter"), [(100.0, 0.0), (100.0, 0.4), (1000.0, 0.1)])
@pytest.mark.parametrize(("period", "duration"), [(7.3217, 16.0), (2.5, 31.0), (10.0, 20.1)])
def test_the_period_is_found_to_what_the_noise_allows(
    period: float, duration: float, rate: float, jitter: float, noise: float
) -> None:
    time = times(rate, duration, jitter)
    q, v, _ = repeating(time, period)
    seen = q + noise * np.random.default_rng(2).normal(size=q.shape)
    error = find_period(time, seen) - period
    # The noise allows σ/‖(t − t̄) v/T‖; jittered rows are interpolated linearly on the way, which
    # errs by a · gap²/8 at most, here at worst all of it in one direction.
    lever = np.linalg.norm((time - time.mean())[:, None] * v / period)
    bound = 5.0 * max(noise, 1e-9) / lever
    fastest = 2.0 * np.pi * 5.0 / period
    bend = (1.0 + 2.0 * jitter) ** 2 / rate**2 / 8.0 * fastest**2 * np.abs(q).max()
    bound += bend * np.sqrt(q.size) / lever
    assert abs(error) <= bound + 1e-9 * period


def test_the_shortest_period_is_meant_not_a_part_or_a_multiple() -> None:
    time = times(200.0, 41.0)
    strong = np.sin(2 * np.pi * 5 * time / 10.0)  # all but repeats after 2 s
    weak = 0.1 * np.sin(2 * np.pi * time / 10.0)
    assert find_period(time, (strong + weak)[:, None]) == pytest.approx(10.0, rel=1e-4)
    assert find_period(time, strong[:, None]) == pytest.approx(2.0, rel=1e-4)


def test_a_joint_that_stands_still_is_not_looked_at() -> None:
    time = times(100.0, 25.0)
    q, _, _ = repeating(time, 8.0)
    q[:, 1] = 1e-4 * np.random.default_rng(0).normal(size=len(time))
    assert find_period(time, q) == pytest.approx(8.0, rel=1e-6)


def sweep(time: Array) -> Array:
    return np.asarray(np.sin(0.5 * (time - 5.0) ** 2)[:, None])


def incommensurate(time: Array) -> Array:
    return (np.sin(time) + np.sin(np.sqrt(2.0) * time) + np.sin(np.pi * time))[:, None]


def walk(time: Array) -> Array:
    return np.cumsum(np.random.default_rng(3).normal(size=(len(time), 2)), axis=0)


def once(time: Array) -> Array:
    return repeating(time, 0.6 * (time[-1] - time[0]))[0]


def still(time: Array) -> Array:
    return np.ones((len(time), 2))


def step(time: Array) -> Array:
    return np.asarray(np.tanh(time - time.mean())[:, None])


@pytest.mark.parametrize("motion", [sweep, incommensurate, walk, once, still, step])
def test_motion_that_does_not_repeat_is_said_to(motion: object) -> None:
    time = times(100.0, 30.0)
    with pytest.raises(InvalidSetting, match="not periodic") as caught:
        find_period(time, motion(time))  # type: ignore[operator]
    assert caught.value.cure is not None and caught.value.got is not None


# The series


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
@pytest.mark.parametrize("share", [1.0, 2.3])
def test_a_series_gives_back_motion_and_its_derivatives(
    share: float, jitter: float, noise: float
) -> None:
    period, rate, harmonics = 8.0, 250.0, 5
    time = times(rate, share * period, jitter)
    truth = repeating(time, period, harmonics)
    seen = truth[0] + noise * np.random.default_rng(3).normal(size=truth[0].shape)
    series = fit_series([(time, seen)], period, 25)
    assert series.harmonics == harmonics
    w = 2.0 * np.pi * harmonics / period
    # 11 numbers of N rows; on 2.3 periods their columns are less than a factor 2 from orthogonal.
    mean = noise * np.sqrt((2 * harmonics + 1) / len(time))
    for n in range(3):
        error = np.std(series.at(time, n) - truth[n])
        assert error <= 3.0 * mean * w**n + 1e-12 * w**n * np.abs(seen).max()
    if noise:
        assert series.noise == pytest.approx(noise, rel=5.0 / np.sqrt(2.0 * len(time)))


def test_a_series_does_not_depend_on_how_the_log_is_cut() -> None:
    time = times(100.0, 20.0)
    q = repeating(time, 6.0)[0] + 1e-3 * np.random.default_rng(0).normal(size=(2000, JOINTS))
    whole = fit_series([(time, q)], 6.0, 12)
    parts = fit_series([(time[k : k + 77], q[k : k + 77]) for k in range(0, 2000, 77)], 6.0, 12)
    assert np.abs(whole.coefficients - parts.coefficients).max() <= 1e-12
    assert parts.noise == pytest.approx(whole.noise, rel=1e-10)


def test_less_than_a_period_is_refused() -> None:
    time = times(100.0, 4.0)
    with pytest.raises(TooLittleData, match="too little"):
        fit_series([(time, repeating(time, 6.0)[0])], 6.0, 5)
    with pytest.raises(TooLittleData, match="too little"):
        fit_series([], 6.0, 5)


def test_a_log_is_smoothed_by_its_series_window_by_window() -> None:
    period, noise = 5.0, 1e-4
    time = times(200.0, 3 * period)
    truth = repeating(time, period)
    seen = truth[0] + noise * np.random.default_rng(4).normal(size=truth[0].shape)
    log = log_of(time, seen)
    chosen = resolve(Smoothing(method="fourier"), [log], NAMES)
    made = smoother(chosen, log, NAMES)
    assert isinstance(made, Fourier) and made.margin == 0.0
    whole = made.smooth(time, seen)
    errors = [np.std(whole.acceleration - truth[2])]
    for other in ("butterworth", "spline"):
        settings = resolve(Smoothing(method=other), [log], NAMES)  # type: ignore[arg-type]
        rough = smoother(settings, log, NAMES).smooth(time, seen)
        inner = (time > time[0] + 1.0) & (time < time[-1] - 1.0)
        errors.append(np.std((rough.acceleration - truth[2])[inner]))
    assert errors[0] < 0.5 * min(errors[1:])
    for window in windows(log, NAMES, 0.005, made.margin, 300):
        part = made.smooth(window.time, window.values)
        at = window.index
        assert np.abs(part.acceleration - whole.acceleration[at]).max() <= 1e-9
    late = made.smooth(time, seen, time[:5] + 1e-3)
    assert np.abs(late.position - repeating(time[:5] + 1e-3, period)[0]).max() <= 5 * noise


def test_a_log_that_does_not_repeat_is_not_smoothed_by_a_series() -> None:
    time = times(100.0, 30.0)
    log = log_of(time, np.hstack([sweep(0.3 * time + 4.0)] * JOINTS))
    for settings in (Smoothing(method="fourier"), Smoothing(method="fourier", period=9.0)):
        with pytest.raises(InvalidSetting, match="not periodic"):
            smoother(resolve(settings, [log], NAMES), log, NAMES)


# Means over periods


@pytest.mark.parametrize(
    ("rate", "period"), [(100.0, 4.0), (100.0, 4.003), (100.0, np.pi), (1000.0, 1.2345)]
)
def test_the_mean_is_the_motion_and_the_spread_is_the_noise(rate: float, period: float) -> None:
    rng = np.random.default_rng(5)
    periods, noise = 12, np.array([0.1, 0.01, 1.0])
    time = times(rate, (periods + 0.3) * period)
    clean = repeating(time, period)[0]
    seen = clean + noise * rng.normal(size=clean.shape)
    found = average_periods(time, seen, period)
    assert found.periods == periods
    count = len(found.time)
    # Between rows a cubic spline passes 0.6 to 1 of white noise's deviation.
    low = 1.0 if period in (4.0,) else 0.6
    slack = 5.0 / np.sqrt(2.0 * count * (periods - 1))
    assert np.all(found.noise <= noise * (1.0 + slack))
    assert np.all(found.noise >= low * noise * (1.0 - slack))
    assert found.std == pytest.approx(found.noise / np.sqrt(periods))
    scaled = (found.mean - repeating(found.time, period)[0]) / found.std
    assert np.mean(scaled**2) == pytest.approx(1.0, abs=5.0 * np.sqrt(4.0 / (count * JOINTS)))
    assert found.covariance[0] == pytest.approx(found.noise**2)


def test_the_covariance_of_coloured_noise_is_seen_by_lag() -> None:
    rng = np.random.default_rng(6)
    period, rate, periods, pole = 5.0, 100.0, 200, 0.9
    count = int(period * rate)
    white = rng.normal(size=periods * count)
    noise = np.zeros_like(white)
    for k in range(1, len(white)):
        noise[k] = pole * noise[k - 1] + white[k]
    time = np.arange(len(white)) / rate
    found = average_periods(time, (np.sin(2 * np.pi * time / period) + noise)[:, None], period)
    lags = np.arange(0, 40, 5)
    wanted = pole**lags / (1.0 - pole**2) * (1.0 - lags / count)
    # N/(memory of 19 rows) independent numbers.
    slack = 5.0 * np.sqrt(2.0 * 19.0 / len(white)) * wanted[0]
    assert np.abs(found.covariance[lags, 0] - wanted).max() <= slack
    spectrum = np.fft.rfft(np.r_[found.covariance[:, 0], 0.0, found.covariance[:0:-1, 0]])
    assert spectrum.real.min() >= -1e-9 * spectrum.real.max()  # so it is a covariance


@pytest.mark.parametrize("share", [0.4, 1.0, 1.98])
def test_fewer_than_two_periods_show_no_noise(share: float) -> None:
    time = times(100.0, share * 5.0)
    with pytest.raises(TooLittleData, match="fewer than two"):
        average_periods(time, repeating(time, 5.0)[0], 5.0)


def test_two_periods_to_the_last_row_are_two() -> None:
    time = times(100.0, 10.0)
    assert average_periods(time, repeating(time, 5.0)[0], 5.0).periods == 2


@pytest.mark.parametrize(("rows", "enough"), [(3, False), (4, True)])
def test_four_rows_make_a_period(rows: int, enough: bool) -> None:
    time = times(rows / 5.0, 20.0)
    values = repeating(time, 5.0)[0]
    if enough:
        assert average_periods(time, values, 5.0).periods == 4
    else:
        with pytest.raises(TooLittleData):
            average_periods(time, values, 5.0)


@pytest.mark.parametrize("period", [0.0, -1.0, np.nan, np.inf])
def test_a_period_must_be_a_time(period: float) -> None:
    with pytest.raises(InvalidSetting, match="positive"):
        average_periods(times(10.0, 3.0), np.zeros((30, 1)), period)


def test_the_mismatch_is_what_its_definition_says() -> None:
    rng = np.random.default_rng(7)
    even = rng.normal(size=(40, 2))
    found = periodic.mismatch(even)
    for lag in range(21):
        wanted = 0.5 * np.mean((even[lag:] - even[: 40 - lag]) ** 2)
        assert found[lag] == pytest.approx(wanted, abs=1e-12)
