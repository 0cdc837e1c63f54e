"""Penalised splines do what their response 1/(1 + (f/f_c)⁶) says, at any times, window by window.

A spline of degree five on knots h apart passes a sine of frequency f with images at `k/h ± f`,
whose d-th derivatives add up to `2 ζ(6 − d) (f h)^(6 − d)` of its own: the tolerance throughout.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import zeta

from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators.least_squares import LeastSquares
from heft.plants import RobotPlant, standard_rows
from heft.plants.problem import Problem
from heft.recordings.recording import Recording
from heft.signals import splines
from heft.signals.bandwidth import SPLINE_CORNERS, resolve
from heft.signals.clock import windows
from heft.signals.settings import Smoothing
from heft.signals.smoothing import Butterworth, PenalisedSpline, smoother
from tests.experiments import ARMS, fourier, torque, true_robot
from tests.test_signals import WAVES, sines

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
FORGOTTEN = 1e-10
SIZE = float(np.abs(WAVES[1]).sum())


def images(frequency: Array, corner: float, derivative: int) -> Array:
    """Return the share that the knots' images add to a sine's derivative."""
    spacing = 1.0 / (splines.KNOTS_PER_CORNER * corner)
    left = 6 - derivative
    return 2.0 * zeta(left) * (frequency * spacing) ** left


def rounding(corner: float, derivative: int) -> float:
    """Return what double precision leaves of a derivative: of the knots' grid, 64 roundings."""
    return 64 * EPS * SIZE * (splines.KNOTS_PER_CORNER * corner) ** derivative


def inner(time: Array, corner: float) -> NDArray[np.bool_]:
    away = 1.2 * splines.memory(corner)
    return (time > time[0] + away) & (time < time[-1] - away)


@pytest.mark.parametrize("corner", [5.0, 12.0, 25.0])
@pytest.mark.parametrize("rate", [250.0, 1000.0])
def test_a_sine_is_multiplied_by_the_response_and_differentiated_exactly(
    rate: float, corner: float
) -> None:
    time = 3.0 + np.arange(int(10.0 * rate)) / rate
    frequency, amplitude, phase = WAVES
    made = PenalisedSpline(1.0 / rate, (corner,)).smooth(time, sines(time, *WAVES)[0][:, None])
    passed = amplitude / (1.0 + (frequency / corner) ** 6)
    truth = sines(time, frequency, passed, phase)
    at = inner(time, corner)
    w = 2.0 * np.pi * frequency
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        # Images are made before the sine is damped.
        bound = 1.2 * np.abs(amplitude) * w**n @ images(frequency, corner, n) + rounding(corner, n)
        # Rows have images too, (f/rate)⁶ of the sine, of which the smoother lets little through.
        bound += np.abs(amplitude) * w**n @ (2.0 * zeta(6) * (frequency / rate) ** 6)
        bound += 10 * FORGOTTEN * np.abs(truth[n]).max()
        assert np.abs(got[at, 0] - truth[n][at]).max() <= bound


@pytest.mark.parametrize("rate", [100.0, 1000.0])
def test_a_parabola_passes_unchanged_at_any_times_up_to_the_ends(rate: float) -> None:
    rng = np.random.default_rng(0)
    time = (np.arange(800) + 0.45 * rng.uniform(-1, 1, 800)) / rate
    made = PenalisedSpline(1.0 / rate, (0.05 * rate,)).smooth(
        time, (1.0 - 2.0 * time + 0.5 * time**2)[:, None]
    )
    size = 1.0 + 2.0 * time[-1] + 0.5 * time[-1] ** 2
    # The penalty's nullspace is told by the data alone, 2·3 powers of the knots in the window.
    count = splines.KNOTS_PER_CORNER * 0.05 * rate * time[-1]
    for n, (got, wanted) in enumerate(
        (
            (made.position, 1.0 - 2.0 * time + 0.5 * time**2),
            (made.velocity, time - 2.0),
            (made.acceleration, np.ones(800)),
        )
    ):
        error = np.abs(got[:, 0] - wanted).max()
        assert error <= 64 * EPS * size * count * (0.4 * rate) ** n


@pytest.mark.parametrize("jitter", [0.05, 0.2, 0.45])
def test_jitter_costs_nothing_but_an_uneven_corner(jitter: float) -> None:
    rng = np.random.default_rng(2)
    step, corner, count = 2e-3, 25.0, 4000
    time = step * (np.arange(count) + jitter * rng.uniform(-1, 1, count))
    frequency, amplitude, _ = WAVES
    truth = sines(time, *WAVES)
    made = PenalisedSpline(step, (corner,)).smooth(time, truth[0][:, None])
    w = 2.0 * np.pi * frequency
    at = inner(time, corner)
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        # The corner differs from place to place, so what is lost varies over 1/f_c.
        lost = np.abs(amplitude) @ (frequency / corner) ** 6
        bound = lost * ((2 * np.pi * frequency.max()) ** n + (2 * np.pi * corner) ** n)
        bound += 1.1 * np.abs(amplitude) * w**n @ images(frequency, corner, n)
        bound += rounding(corner, n) + 10 * FORGOTTEN * np.abs(truth[n]).max()
        assert np.abs(got[at, 0] - truth[n][at]).max() <= bound


def test_a_spline_beats_interpolation_and_low_pass_on_jittered_times() -> None:
    rng = np.random.default_rng(3)
    step, count = 0.02, 4000
    time = step * (np.arange(count) + 0.45 * rng.uniform(-1, 1, count))
    truth = sines(time, *WAVES)
    ours = PenalisedSpline(step, (20.0,)).smooth(time, truth[0][:, None])
    theirs = Butterworth(step, 20.0).smooth(time, truth[0][:, None])
    at = inner(time, 8.0)
    errors = [np.std((m.acceleration[:, 0] - truth[2])[at]) for m in (ours, theirs)]
    assert errors[0] <= 0.5 * errors[1]


def test_white_noise_is_damped_as_the_response_says() -> None:
    rng = np.random.default_rng(4)
    rate, corner, count, joints = 500.0, 20.0, 20000, 8
    noise = rng.normal(size=(count, joints))
    time = np.arange(count) / rate
    made = PenalisedSpline(1.0 / rate, (corner,) * joints).smooth(time, noise)
    # ∫ x^(2d)/(1 + x⁶)² dx from 0 to ∞, by the beta function.
    integrals = (5 * np.pi / 18, np.pi / 12, np.pi / 18)
    at = inner(time, corner)
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        wanted = 2.0 * corner / rate * integrals[n] * (2 * np.pi * corner) ** (2 * n)
        # A band of 2 f_c holds 2 f_c T independent numbers at most and f_c T at least.
        slack = 4.0 * np.sqrt(2.0 / (corner * count / rate * joints))
        assert np.mean(got[at] ** 2) == pytest.approx(wanted, rel=slack)


@pytest.mark.parametrize("core_rows", [60, 333])
@pytest.mark.parametrize("corners", [(8.0, 25.0), (30.0, 30.0)])
@pytest.mark.parametrize("jitter", [0.0, 0.4])
def test_smoothing_in_small_windows_is_smoothing_the_whole(
    core_rows: int, corners: tuple[float, float], jitter: float
) -> None:
    rng = np.random.default_rng(4)
    step, count = 2e-3, 3000
    time = 100.0 + step * (np.arange(count) + jitter * rng.uniform(-1, 1, count))
    noise = np.cumsum(rng.normal(size=(count, 2)), axis=0) / 30.0
    recording = Recording.from_arrays(time, q={"a": noise[:, 0], "b": noise[:, 1]})
    chosen = PenalisedSpline(step, corners)
    whole = chosen.smooth(time, noise)
    pieces = []
    for window in windows(recording, ["q.a", "q.b"], step, chosen.margin, core_rows):
        made = chosen.smooth(window.time, window.values)
        pieces.append([x[window.core] for x in (made.position, made.velocity, made.acceleration)])
    assert len(pieces) >= 4
    for got, wanted in zip(
        map(np.concatenate, zip(*pieces, strict=True)),
        (whole.position, whole.velocity, whole.acceleration),
        strict=True,
    ):
        assert np.abs(got - wanted).max() <= 1e-8 * np.abs(wanted).max()


def test_motion_can_be_asked_for_at_any_times() -> None:
    time = 1e-2 * np.arange(1200)
    chosen = PenalisedSpline(1e-2, (8.0,))
    values = sines(time, *WAVES)[0][:, None]
    wanted = np.sort(np.random.default_rng(0).uniform(0.0, time[-1], 300))
    made = chosen.smooth(time, values, wanted)
    fine = chosen.smooth(time, values, np.sort(np.concatenate([wanted - 1e-6, wanted + 1e-6])))
    # A quintic's own differences: (Δt)² times the next but one derivative, and rounding/Δt.
    slope = (fine.position[1::2] - fine.position[0::2]) / 2e-6
    assert np.abs(slope - made.velocity).max() <= 1e-12 * 1e6 + 1e-6
    slope = (fine.velocity[1::2] - fine.velocity[0::2]) / 2e-6
    assert np.abs(slope - made.acceleration).max() <= 64 * 1e-12 * 1e6 + 1e-6


def test_a_piece_too_short_is_refused() -> None:
    with pytest.raises(InvalidRecording, match="too short"):
        PenalisedSpline(1.0, (0.1,)).smooth(np.arange(5) * 1.0, np.zeros((5, 1)))


# The corner by cross-validation


def noisy_log(noise: Array, rate: float = 500.0) -> tuple[Recording, tuple[Array, ...], Array]:
    """Return a log of one motion by joints that see it with these deviations of white noise."""
    rng = np.random.default_rng(1)
    time = np.arange(int(40 * rate)) / rate
    truth = sines(time, np.array([0.11, 0.23, 0.5]), np.array([1.0, 0.6, 0.3]), np.zeros(3))
    q = {f"j{k}": truth[0] + s * rng.normal(size=len(time)) for k, s in enumerate(noise)}
    return Recording.from_arrays(time, q=q), truth, time


def test_cross_validation_takes_lower_corners_for_more_noise() -> None:
    log, truth, time = noisy_log(np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2]))
    names = [f"q.j{k}" for k in range(5)]
    chosen = resolve(Smoothing(method="spline"), [log], names)
    assert chosen.corners is not None and chosen.corner is not None
    assert all(a >= b for a, b in pairwise(chosen.corners))
    assert chosen.corners[0] > chosen.corners[-1]
    assert max(chosen.corners) <= chosen.corner * (1 + 1e-12)
    for window in windows(log, names, 2e-3, 0.0, len(time)):
        made = smoother(chosen, log, names).smooth(window.time, window.values)
        at = (window.time > 2.0) & (window.time < 38.0)
        for k in range(5):
            errors = []
            for octave in SPLINE_CORNERS:
                other = PenalisedSpline(2e-3, (chosen.corner * octave,)).smooth(
                    window.time, window.values[:, k : k + 1]
                )
                errors.append(np.std((other.position[:, 0] - truth[0])[at]))
            got = np.std((made.position[:, k] - truth[0])[at])
            assert got <= 1.25 * min(errors)  # half an octave of corner, and the score's noise


def test_noise_that_is_not_white_cannot_drive_the_corner_beyond_its_bound() -> None:
    rng = np.random.default_rng(5)
    time = 1e-3 * np.arange(20000)
    waver = np.cumsum(rng.normal(size=20000)) * 1e-5  # all of it looks like motion
    q = sines(time, np.array([0.2, 0.5]), np.array([1.0, 0.3]), np.zeros(2))[0] + waver
    log = Recording.from_arrays(time, q={"a": q})
    chosen = resolve(Smoothing(method="spline"), [log], ["q.a"])
    assert chosen.corners is not None and chosen.corner is not None
    assert chosen.corners[0] <= chosen.corner * (1 + 1e-12)


def test_a_corner_that_is_given_holds_for_all_joints() -> None:
    log, _, _ = noisy_log(np.array([1e-5, 1e-3]))
    names = ["q.j0", "q.j1"]
    made = smoother(resolve(Smoothing(7.0, method="spline"), [log], names), log, names)
    assert made == PenalisedSpline(pytest.approx(2e-3), (7.0, 7.0))  # type: ignore[arg-type]


# Settings


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "kalman"},
        {"method": "spline", "corners": (1.0, -1.0)},
        {"corners": (1.0,)},
        {"period": 3.0},
        {"method": "fourier", "period": 0.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        Smoothing(**settings)  # type: ignore[arg-type]


def test_corners_must_be_as_many_as_joints_and_below_half_the_rate() -> None:
    log, _, _ = noisy_log(np.array([1e-5, 1e-3]))
    names = ["q.j0", "q.j1"]
    with pytest.raises(InvalidSetting, match="as many"):
        smoother(Smoothing(5.0, method="spline", corners=(5.0,)), log, names)
    with pytest.raises(InvalidSetting, match="half the sampling rate"):
        resolve(Smoothing(5.0, method="spline", corners=(5.0, 400.0)), [log], names)


def test_settings_survive_a_file_that_knows_no_tuples() -> None:
    assert Smoothing(method="spline", corners=[1.0, 2.0]) == Smoothing(  # type: ignore[arg-type]
        method="spline", corners=(1.0, 2.0)
    )


# What it is worth to an estimate


def test_parameters_are_as_sure_as_with_the_best_low_pass_and_surer_than_with_its_rule() -> None:
    """Encoder noise and steps of 1e-4 rad, raw torque with 1 % noise: a sweep over corners."""
    truth = true_robot(ARMS["six joints"], np.random.default_rng(0), "simple")
    time = np.arange(5000) / 500.0
    motion = fourier(6, time, np.random.default_rng(7))
    tau = torque(truth, *motion)
    noise = 0.01 * np.sqrt(np.mean(tau**2, axis=0))
    settings = {
        **{f"{f} Hz": Smoothing(f) for f in (3.0, 5.0, 8.0, 12.0, 20.0)},
        "rule": Smoothing(),
        "spline": Smoothing(method="spline"),
        "series": Smoothing(method="fourier", period=10.0),
    }
    errors: dict[str, list[Array]] = {name: [] for name in settings}
    whiten = true = None
    for seed in range(4):
        rng = np.random.default_rng(seed)
        seen = np.round((motion[0] + 1e-4 * rng.normal(size=tau.shape)) / 1e-4) * 1e-4
        heard = tau + noise * rng.normal(size=tau.shape)
        joints = truth.robot.joints
        log = Recording.from_arrays(
            time,
            q={j: seen[:, k] for k, j in enumerate(joints)},
            tau={j: heard[:, k] for k, j in enumerate(joints)},
        )
        for name, setting in settings.items():
            problem = Problem(RobotPlant(truth.robot), (log,), setting, 1)
            if whiten is None:
                kept = list(problem.base.kept)
                rows = standard_rows(truth.robot, *motion)[250:-250][:, :, kept] / noise[:, None]
                whiten = np.linalg.qr(rows.reshape(-1, len(kept)), mode="r")
                true = np.linalg.solve(
                    whiten.T @ whiten,
                    rows.reshape(-1, len(kept)).T @ (tau / noise)[250:-250].ravel(),
                )
            found = LeastSquares(coloured=False).fit(problem).parameters.values
            errors[name].append(whiten @ (found - true))
    size = {name: float(np.sqrt(np.mean(np.square(e)))) for name, e in errors.items()}
    best = min(size[f"{f} Hz"] for f in (3.0, 5.0, 8.0, 12.0, 20.0))
    # Each is the root of a mean of 4 · 58 squares, most of them the same noise of torque.
    assert size["spline"] <= 1.1 * best, size
    assert size["spline"] < size["rule"], size
    assert size["series"] < best, size
    assert size["series"] == pytest.approx(1.0, abs=0.25), size
