"""From logged positions to smooth motion: what the filter does is known, and nothing else is done.

Tolerances come from the filter's and the stencils' own transfer functions. The zero-phase
Butterworth of order n multiplies a sine of frequency f by 1/(1 + (tan πfh / tan πf_c h)^2n), the
central differences of eighth order multiply it by known trigonometric sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.signal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from heft.errors import InvalidRecording, InvalidSetting
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.plants.plant import Samples
from heft.plants.problem import Problem
from heft.recordings.formats.table import BLOCK_ROWS, Table
from heft.recordings.recording import Recording
from heft.signals.bandwidth import LARGEST_CORNER, choose_corner, resolve
from heft.signals.clock import GAP_STEPS, survey, windows
from heft.signals.filters import (
    REACH,
    density,
    interpolated,
    low_pass,
    remembered,
    settling,
    smooth,
)
from heft.signals.settings import Smoothing

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
FORGOTTEN = 1e-10  # of a signal's size: what `settling` promises to be left of a filter's memory
URDF = b"""<robot name="two"> <link name="base"/> <link name="upper"/> <link name="fore"/>
  <joint name="shoulder" type="continuous">
    <parent link="base"/> <child link="upper"/> <axis xyz="0 0 1"/> </joint>
  <joint name="elbow" type="continuous">
    <parent link="upper"/> <child link="fore"/> <origin xyz="0.4 0 0"/> <axis xyz="0 1 0"/>
  </joint> </robot>"""


def sines(time: Array, frequency: Array, amplitude: Array, phase: Array) -> tuple[Array, ...]:
    """Return position, velocity and acceleration of a sum of sines at these times."""
    w = 2.0 * np.pi * frequency
    angle = np.outer(time, w) + phase
    return (
        np.sin(angle) @ amplitude,
        np.cos(angle) @ (w * amplitude),
        -np.sin(angle) @ (w**2 * amplitude),
    )


def gain(frequency: Array, corner: float, step: float, order: int) -> Array:
    """Return by what a Butterworth low-pass, run both ways, multiplies a sine."""
    ratio = np.tan(np.pi * frequency * step) / np.tan(np.pi * corner * step)
    return 1.0 / (1.0 + ratio ** (2 * order))


def stencils(frequency: Array, step: float) -> tuple[Array, Array]:
    """Return what the stencils make of ω and of −ω²: their transfer functions, i left out."""
    x = 2.0 * np.pi * frequency * step
    first, second = (4 / 5, -1 / 5, 4 / 105, -1 / 280), (8 / 5, -1 / 5, 8 / 315, -1 / 560)
    once = sum(2.0 * c * np.sin(k * x) for k, c in enumerate(first, 1)) / step
    twice = (-205 / 72 + sum(2.0 * c * np.cos(k * x) for k, c in enumerate(second, 1))) / step**2
    return once, twice


WAVES = (
    np.array([0.3, 1.0, 2.5, 4.0]),
    np.array([1.0, -0.5, 0.2, 0.1]),
    np.array([0.1, 1.0, 2.0, 3.0]),
)


def memory(corner: float, step: float, order: int = 4) -> float:
    """Return how long the filter's slowest pole remembers [s]."""
    _, poles, _ = scipy.signal.butter(order, 2.0 * corner * step, output="zpk")
    return step * np.log(FORGOTTEN) / np.log(np.abs(poles).max())


def margin(corner: float, step: float, order: int = 4) -> float:
    """Return the margin that a window is given [s]."""
    return settling(corner, step, order)


def inner(time: Array, corner: float, order: int = 4) -> NDArray[np.bool_]:
    """Return the times that are too far from the ends for the filter to know of them."""
    away = 1.2 * memory(corner, time[1] - time[0], order)
    return (time > time[0] + away) & (time < time[-1] - away)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("corner", [5.0, 20.0, 80.0])
@pytest.mark.parametrize("rate", [250.0, 1000.0])
def test_smooth_motion_is_what_filter_and_stencils_make_of_sines(
    rate: float, corner: float, order: int
) -> None:
    step = 1.0 / rate
    time = 3.0 + step * np.arange(int(8.0 * rate))
    frequency, amplitude, phase = WAVES
    made = smooth(time, sines(time, *WAVES)[0][:, None], step, corner, order)
    passed = amplitude * gain(frequency, corner, step, order)
    once, twice = stencils(frequency, step)
    angle = 2.0 * np.pi * np.outer(time, frequency) + phase
    expected = (
        np.sin(angle) @ passed,
        np.cos(angle) @ (once * passed),
        np.sin(angle) @ (twice * passed),
    )
    at = inner(time, corner, order)
    size = np.abs(amplitude).sum()
    # Rounding of the filter, whose poles lie ωₕ = 2π·corner·step from 1 and so magnify it by
    # about 1/ωₕ each two of them, then of the differences, which divide by the step.
    rounding = 64 * EPS * size / (2 * np.pi * corner * step) ** 2
    for got, wanted, divided in zip(
        (made.position, made.velocity, made.acceleration),
        expected,
        (1.0, step, step**2),
        strict=True,
    ):
        left = 10 * FORGOTTEN * np.abs(wanted).max()
        assert np.abs(got[at, 0] - wanted[at]).max() <= rounding / divided + left


@pytest.mark.parametrize("corner", [20.0, 80.0])
def test_derivatives_of_slow_sines_are_true_to_the_order_of_filter_and_stencils(
    corner: float,
) -> None:
    step = 1e-3
    time = step * np.arange(8000)
    frequency, amplitude, _ = WAVES
    truth = sines(time, *WAVES)
    made = smooth(time, truth[0][:, None], step, corner)
    w = 2.0 * np.pi * frequency
    # What a Butterworth of fourth order, run twice, takes of a sine: (f/f_c)⁸ at most.
    lost = (np.tan(np.pi * frequency * step) / np.tan(np.pi * corner * step)) ** 8
    # The first terms that the stencils of eighth order leave [Fornberg1988].
    left = ((0.0 * w), (w * step) ** 8 / 630, (w * step) ** 8 / 3150)
    at = inner(time, corner)
    rounding = 64 * EPS * np.abs(amplitude).sum() / (2 * np.pi * corner * step) ** 2
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        bound = np.abs(amplitude) * w**n @ (lost + left[n]) + rounding / step**n
        bound += 10 * FORGOTTEN * np.abs(truth[n]).max()
        assert np.abs(got[at, 0] - truth[n][at]).max() <= bound


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("ratio", [0.004, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("rows", [1, 2, 1500])
def test_filters_are_those_of_scipy(order: int, ratio: float, rows: int) -> None:
    step = 0.002
    values = np.cumsum(np.random.default_rng(order).normal(size=(rows, 3, 2)), axis=0)
    wanted = scipy.signal.butter(order, ratio, output="sos")
    pad = max(3 * (2 * order + 1), round(settling(0.5 * ratio / step, step, order) / step))
    exact = scipy.signal.sosfiltfilt(wanted, values, axis=0, padlen=min(pad, rows - 1))
    found = low_pass(values, step, 0.5 * ratio / step, order)
    assert np.abs(found - exact).max() <= 1e-10 * np.abs(exact).max()
    coefficients = np.array([0.5, -0.2, 0.1])[: min(order, 3)]
    exact = scipy.signal.lfilter([1.0], [1.0, *-coefficients], values[::-1], axis=0)[::-1]
    assert remembered(values, coefficients) == pytest.approx(exact, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("ratio", [-0.1, 0.0, 1.0, 1.2, np.nan])
def test_a_cutoff_that_the_sampling_cannot_show_is_refused(ratio: float) -> None:
    for filtered in (low_pass, lambda values, step, corner: settling(corner, step)):
        with pytest.raises(InvalidSetting, match="half the sampling rate"):
            filtered(np.zeros((9, 1)), 0.002, 0.5 * ratio / 0.002)


@pytest.mark.parametrize("rows", [4, 5, 300])
def test_a_cubic_spline_is_that_of_scipy(rows: int) -> None:
    rng = np.random.default_rng(rows)
    time, values = np.cumsum(rng.uniform(0.2, 1.8, rows)), rng.normal(size=(rows, 3))
    at = np.sort(np.concatenate([time, rng.uniform(time[0] - 0.5, time[-1] + 0.5, 400)]))
    wanted = scipy.interpolate.CubicSpline(time, values)(at)
    assert np.abs(interpolated(time, values, at) - wanted).max() <= 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize("length", [64, 65, 999])
def test_the_density_is_that_of_welch(length: int) -> None:
    time, values = 0.01 * np.arange(1000), np.random.default_rng(0).normal(size=(1000, 2)) + 3.0
    _, exact = scipy.signal.welch(values, 100.0, nperseg=length, axis=0)
    assert density(time, values, 0.01, length) == pytest.approx(exact, rel=1e-9, abs=1e-15)


def test_smoothing_has_no_phase_and_knows_no_direction_of_time() -> None:
    rng = np.random.default_rng(0)
    step, corner = 2e-3, 12.0
    time = step * np.arange(4000)
    noise = rng.normal(size=(4000, 2))
    ahead = smooth(time, noise, step, corner)
    back = smooth(time, noise[::-1], step, corner)
    at = inner(time, corner)
    for one, other, sign in (
        (ahead.position, back.position, 1.0),
        (ahead.velocity, back.velocity, -1.0),
        (ahead.acceleration, back.acceleration, 1.0),
    ):
        assert np.abs(one - sign * other[::-1])[at].max() <= 10 * FORGOTTEN * np.abs(one).max()


@pytest.mark.parametrize("corner", [2.0, 30.0, 200.0])
def test_a_constant_stays_one_up_to_the_ends(corner: float) -> None:
    time = 1e-3 * np.arange(3000)
    made = smooth(time, np.full((3000, 1), 2.5), 1e-3, corner)
    rounding = 64 * EPS * 2.5 / (2 * np.pi * corner * 1e-3) ** 2
    assert np.abs(made.position - 2.5).max() <= rounding
    assert np.abs(made.velocity).max() <= rounding / 1e-3
    assert np.abs(made.acceleration).max() <= rounding / 1e-6


def test_smoothing_is_linear_and_treats_joints_alone() -> None:
    rng = np.random.default_rng(1)
    time = 1e-3 * np.arange(2000)
    a, b = rng.normal(size=(2, 2000, 1))
    together = smooth(time, np.hstack([a, b, 2.0 * a - b]), 1e-3, 25.0)
    alone = smooth(time, b, 1e-3, 25.0)
    for n, (got, one) in enumerate(
        zip(
            (together.position, together.velocity, together.acceleration),
            (alone.position, alone.velocity, alone.acceleration),
            strict=True,
        )
    ):
        rounding = 64 * EPS * np.abs(a).max() / (2 * np.pi * 25.0 * 1e-3) ** 2 / 1e-3**n
        assert np.abs(got[:, 1] - one[:, 0]).max() <= rounding
        assert np.abs(got[:, 2] - 2.0 * got[:, 0] + got[:, 1]).max() <= rounding


@pytest.mark.parametrize("rows", range(2 * REACH + 2))
def test_a_piece_too_short_for_the_stencils_is_refused(rows: int) -> None:
    with pytest.raises(InvalidRecording, match="too short"):
        smooth(np.arange(rows) * 1.0, np.zeros((rows, 1)), 1.0, 0.1)


@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.2, 0.4])
def test_jittered_times_cost_no_more_than_the_spline_between_them(jitter: float) -> None:
    rng = np.random.default_rng(2)
    step, corner, count = 2e-3, 60.0, 4000
    time = step * (np.arange(count) + jitter * rng.uniform(-1, 1, count))
    frequency, amplitude, _ = WAVES
    truth = sines(time, *WAVES)
    made = smooth(time, truth[0][:, None], step, corner)
    w = 2.0 * np.pi * frequency
    at = inner(time, corner)
    lost = (np.tan(np.pi * frequency * step) / np.tan(np.pi * corner * step)) ** 8
    # A cubic spline errs by 5/384 of gap⁴ times the fourth derivative. Behind the low-pass an
    # error grows with each derivative by the corner's angular frequency, doubled for its skirt.
    # The second spline, back to the log's times, is through what the corner bounds.
    gap = step * (1.0 + 2.0 * jitter)
    spline = 5 / 384 * gap**4 * (np.abs(amplitude) @ w**4)
    rounding = 64 * EPS * np.abs(amplitude).sum() / (2 * np.pi * corner * step) ** 2
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        back = 5 / 384 * step**4 * (np.abs(amplitude) @ w ** (4 + n))
        stencil = np.abs(amplitude) * w**n @ ((w * step) ** 8 / 630)
        bound = np.abs(amplitude) * w**n @ lost + spline * (4 * np.pi * corner) ** n + back
        bound += stencil + rounding / step**n + 10 * FORGOTTEN * np.abs(truth[n]).max()
        assert np.abs(got[at, 0] - truth[n][at]).max() <= bound


def test_motion_can_be_asked_for_at_any_times_inside() -> None:
    step, corner = 1e-3, 40.0
    time = step * np.arange(6000)
    frequency, amplitude, _ = WAVES
    wanted = np.sort(np.random.default_rng(3).uniform(1.0, 5.0, 500))
    truth = sines(wanted, *WAVES)
    made = smooth(time, sines(time, *WAVES)[0][:, None], step, corner, at=wanted)
    w = 2.0 * np.pi * frequency
    lost = (frequency / corner) ** 8
    rounding = 64 * EPS * np.abs(amplitude).sum() / (2 * np.pi * corner * step) ** 2
    for n, got in enumerate((made.position, made.velocity, made.acceleration)):
        bound = np.abs(amplitude) * w**n @ (lost + 5 / 384 * (w * step) ** 4) + rounding / step**n
        assert np.abs(got[:, 0] - truth[n]).max() <= bound


# Windows

STEP = 0.01


def recording_of(time: Array, values: Array, blocks: Sequence[int] = ()) -> Recording:
    """Return a recording of one joint that is read in blocks of given sizes."""
    edges = [0, *np.cumsum(blocks).astype(int).tolist(), len(time)]
    columns = {"t": time, "q.elbow": values}

    def read(names: Sequence[str]) -> Iterator[Array]:
        for first, behind in pairwise(edges):
            if first < min(behind, len(time)):
                yield np.stack([columns[n][first:behind] for n in names], 1)

    return Recording.of_table(Table("log", tuple(columns), len(time), read))


@st.composite
def broken_logs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Return times and values with gaps, repeated and late rows, set-back clocks, and NaN."""
    steps = draw(
        st.lists(
            st.one_of(
                st.sampled_from([1.0, 1.0, 1.0, 1.1, 0.9, 2.0]),
                st.sampled_from([0.0, -1.0, -4.0, -7.0, -500.0, -1e6, 9.0, 11.0, 300.0]),
            ),
            min_size=1,
            max_size=60,
        )
    )
    repeat = draw(st.integers(1, 8))
    spread = np.ones((len(steps), repeat))
    spread[:, 0] = steps
    time = STEP * np.cumsum(spread.ravel())
    values = np.arange(len(time)) * 1.0
    for column in (time, values):
        lost = draw(st.lists(st.integers(0, len(time) - 1), max_size=8))
        column[lost] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    return time, values


def usable(time: Array, values: Array) -> tuple[list[int], list[int]]:
    """Return the rows that can be used, one by one, and which of them begin a segment."""
    rows, begins, latest = [], [], -np.inf
    for k, (t, x) in enumerate(zip(time.tolist(), values.tolist(), strict=True)):
        if not (np.isfinite(t) and np.isfinite(x)):
            continue
        if t - latest < -GAP_STEPS * STEP:  # the clock was set back
            latest = -np.inf
        if t > latest:
            if t - latest > GAP_STEPS * STEP:
                begins.append(k)
            rows.append(k)
            latest = t
    return rows, begins


def test_the_rows_used_are_counted_as_they_are_met() -> None:
    time = STEP * np.array([0, 1, 2, 2, 3, 40, 41, 42, 43, 44, 45, 46, 47, 5, 6, 7, 8, 9, 10, 11.0])
    values = np.zeros(20)
    values[9] = np.nan
    found = survey(recording_of(time, values), ["q.elbow"])
    assert (found.rows, found.used, found.repeated, found.broken) == (20, 18, 1, 1)
    assert (found.segments, found.gaps) == (3, 2)
    assert found.duration == pytest.approx(STEP * (3 + 7 + 6), rel=1e-12)
    assert found.step == pytest.approx(STEP, rel=1e-12)
    assert found.rate == pytest.approx(1.0 / STEP, rel=1e-12)


@given(log=broken_logs(), data=st.data())
@settings(max_examples=150, deadline=None)
@example((STEP * np.array([1, 2, 3, -4, -11.0]), np.zeros(5)), None)
def test_every_usable_row_is_in_the_core_of_exactly_one_window(
    log: tuple[Array, Array], data: Any
) -> None:
    time, values = log
    blocks = data.draw(st.lists(st.integers(1, 50), max_size=10)) if data else []
    core_rows = data.draw(st.integers(1, 40)) if data else 2
    wide = STEP * (data.draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 30.0, 1e4])) if data else 1.0)
    recording = recording_of(time, values, blocks)
    seen: list[int] = []
    for window in windows(recording, ["q.elbow"], STEP, wide, core_rows):
        seen += window.index[window.core].tolist()
        assert np.array_equal(time[window.index], window.time)
        assert np.array_equal(values[window.index], window.values[:, 0])
        core = window.time[window.core]
        # A longer core than two only where less than a margin of the segment would be left.
        assert 1 <= len(core) <= 2 * core_rows or core[-1] <= core[core_rows] + wide
    assert seen == usable(time, values)[0]


@given(log=broken_logs(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_window_holds_its_margins_and_never_reaches_over_a_gap(
    log: tuple[Array, Array], data: st.DataObject
) -> None:
    time, values = log
    recording = recording_of(time, values, data.draw(st.lists(st.integers(1, 50), max_size=10)))
    wide = STEP * data.draw(st.sampled_from([0.0, 1.0, 3.0, 30.0, 1e4]))
    rows, begins = usable(time, values)
    segments = np.split(rows, np.searchsorted(rows, begins[1:])) if rows else []
    core_rows = data.draw(st.integers(1, 40))
    for window in windows(recording, ["q.elbow"], STEP, wide, core_rows):
        core = window.index[window.core]
        (segment,) = (s for s in segments if core[0] in s)
        assert set(window.index) <= set(segment)
        low, high = time[core[0]] - wide, time[core[-1]] + wide
        near = segment[(time[segment] >= low) & (time[segment] <= high)]
        assert set(near) <= set(window.index)
        assert np.all(np.diff(window.time) > 0.0)
        assert np.all(np.diff(window.time) <= GAP_STEPS * STEP)
        # The ends of a segment are told where they are in sight, and only there.
        if window.begin > -np.inf:
            assert window.begin == time[segment[0]] == window.time[0]
        else:
            assert window.index[0] > segment[0]
        if window.end < np.inf:
            assert window.end == time[segment[-1]] == window.time[-1]
        else:
            assert core[-1] < segment[-1]


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.3, LARGEST_CORNER])
def test_the_margins_outlast_the_filters_memory(share: float, order: int) -> None:
    assert margin(share, 1.0, order) >= 0.999 * memory(share, 1.0, order)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("corner", [8.0, 30.0, 160.0, 200.0])
@pytest.mark.parametrize("core_rows", [40, 333])
def test_smoothing_in_small_windows_is_smoothing_the_whole(
    core_rows: int, corner: float, order: int
) -> None:
    rng = np.random.default_rng(4)
    step, count = 2e-3, 4000
    time = 100.0 + step * np.arange(count)
    noise = np.cumsum(rng.normal(size=count)) / 30.0 + 0.1 * rng.normal(size=count)
    recording = Recording.from_arrays(time, q={"elbow": noise})
    whole = smooth(time, noise[:, None], step, corner, order)
    pieces = []
    wide = margin(corner, step, order)
    for window in windows(recording, ["q.elbow"], step, wide, core_rows):
        made = smooth(window.time, window.values, step, corner, order)
        pieces.append([x[window.core] for x in (made.position, made.velocity, made.acceleration)])
    assert len(pieces) >= 4
    worst = 0.0
    for got, wanted in zip(
        map(np.concatenate, zip(*pieces, strict=True)),
        (whole.position, whole.velocity, whole.acceleration),
        strict=True,
    ):
        worst = max(worst, np.abs(got - wanted).max() / np.abs(wanted).max())
    assert worst <= 1e-8


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("share", [0.05, LARGEST_CORNER])
def test_a_long_log_is_smoothed_as_if_it_were_in_one_piece(share: float, order: int) -> None:
    rng = np.random.default_rng(6)
    count, step = 4 * BLOCK_ROWS // 2 + 5000, 1.0 / 1024.0  # exact times: no rounding of steps
    time = step * np.arange(count)
    q = {j: np.cumsum(rng.normal(size=count)) / 100.0 for j in ("shoulder", "elbow")}
    log = Recording.from_arrays(time, q=q, tau=q)
    corner = share / step
    robot = Robot.from_urdf_text(URDF)
    made = joined(list(Problem(RobotPlant(robot), (log,), Smoothing(corner, order), 1).samples()))
    whole = smooth(time, np.stack(list(q.values()), 1), step, corner, order)
    for got, wanted in (
        (made["velocity"], whole.velocity),
        (made["acceleration"], whole.acceleration),
    ):
        assert np.abs(got.T - wanted[made["index"]]).max() <= 1e-8 * np.abs(wanted).max()


# The choice of the corner


def motion(top: float, rate: float, seconds: float, seed: int) -> tuple[Array, Array, float]:
    """Return times, a motion of twelve sines up to `top` Hz, and its f99 by definition."""
    rng = np.random.default_rng(seed)
    time = np.arange(int(rate * seconds)) / rate
    frequency = np.sort(rng.uniform(0.05, 1.0, 12)) * top
    frequency[-1] = top
    amplitude = rng.uniform(0.5, 1.0, 12) / frequency  # so that speed is alike in all of them
    position = sines(time, frequency, amplitude, rng.uniform(0, 6, 12))[0]
    energy = np.cumsum((frequency * amplitude) ** 2)
    f99 = float(frequency[np.searchsorted(energy, 0.99 * energy[-1])])
    return time, position / np.abs(position).max(), f99


def chosen(time: Array, *positions: Array) -> float:
    joints = {f"j{k}": x for k, x in enumerate(positions)}
    return choose_corner([Recording.from_arrays(time, q=joints)], [f"q.{j}" for j in joints])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [0.0, 1e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("top", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("rate", [200.0, 1000.0])
def test_the_corner_is_twenty_times_f99_whatever_the_encoder_adds(
    rate: float, top: float, level: float, seed: int
) -> None:
    time, position, f99 = motion(top, rate, 40.0, seed)
    rng = np.random.default_rng(seed + 10)
    measured = position + level * rng.normal(size=len(time))
    if level:  # an encoder's counts, of about the size of its noise
        measured = level * np.round(measured / level)
    rule = min(20.0 * f99, 0.4 * rate)
    assert rule / 2.0 <= chosen(time, measured) <= 2.0 * rule


@pytest.mark.parametrize("rate", [200.0, 1000.0])
def test_the_corner_hardly_moves_with_the_level_of_noise(rate: float) -> None:
    time, position, _ = motion(2.0, rate, 40.0, 7)
    noise = np.random.default_rng(8).normal(size=len(time))
    corners = [chosen(time, position + level * noise) for level in (0.0, 1e-6, 1e-5, 1e-4)]
    assert max(corners) <= 1.5 * min(corners)  # four bands of the spectrum, eight to an octave


def test_the_corner_is_that_of_the_fastest_joint_that_really_moves() -> None:
    time, slow, _ = motion(0.5, 500.0, 40.0, 1)
    _, fast, f99 = motion(3.0, 500.0, 40.0, 2)
    assert chosen(time, slow, fast) == chosen(time, fast, slow)
    assert 10.0 * f99 <= chosen(time, slow, fast) <= 40.0 * f99
    idle = 1e-4 * fast  # less than a hundredth of the energy
    assert chosen(time, slow, idle) == chosen(time, slow)


def test_the_corner_does_not_depend_on_units_or_offset_of_positions() -> None:
    time, position, _ = motion(1.0, 500.0, 40.0, 3)
    assert chosen(time, 1024.0 * position) == chosen(time, position)
    assert chosen(time, position + 3.0) == pytest.approx(chosen(time, position), rel=0.1)


def test_a_corner_that_is_given_is_kept_and_one_that_is_not_is_chosen() -> None:
    time, position, _ = motion(1.0, 500.0, 40.0, 4)
    logs = [Recording.from_arrays(time, q={"elbow": position})]
    assert resolve(Smoothing(12.5), logs, ["q.elbow"]).corner == 12.5
    found = resolve(Smoothing(), logs, ["q.elbow"])
    assert found.corner == choose_corner(logs, ["q.elbow"])


# A problem's samples


def problem(*logs: Recording, corner: float = 20.0, trim: float = 0.5, threads: int = 1) -> Problem:
    plant = RobotPlant(Robot.from_urdf_text(URDF))
    return Problem(plant, logs, Smoothing(corner, trim=trim), threads)


def moving(time: Array, seed: int = 0) -> Recording:
    """Return a log of a moving robot at these times, with torque that no filter left alone."""
    rng = np.random.default_rng(seed)
    q = {"shoulder": np.sin(3.0 * time), "elbow": np.cos(2.0 * time)}
    return Recording.from_arrays(time, q=q, tau={j: rng.normal(size=len(time)) for j in q})


def torque(recording: Recording) -> tuple[Array, Array]:
    (block,) = recording.blocks(["tau.shoulder", "tau.elbow"])
    return block.time, block.values


def joined(samples: list[Samples]) -> dict[str, Array]:
    return {
        "time": np.concatenate([s.time for s in samples]),
        "index": np.concatenate([s.index for s in samples]),
        "effort": np.concatenate([s.measured.T for s in samples], axis=1),
        "velocity": np.concatenate([s.motion.velocity for s in samples], axis=1),
        "acceleration": np.concatenate([s.motion.bodies.acceleration for s in samples], axis=1),
    }


@pytest.mark.parametrize("jitter", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("rate", [100.0, 3000.0])
def test_times_and_torques_come_back_bit_for_bit(rate: float, jitter: float) -> None:
    rng = np.random.default_rng(5)
    count = int(4.0 * rate)
    time = 7.0 + (np.arange(count) + jitter * rng.uniform(-1, 1, count)) / rate
    recording = moving(time)
    made = joined(list(problem(recording).samples()))
    stamps, efforts = torque(recording)
    assert len(made["index"]) > 0
    assert made["time"].tobytes() == stamps[made["index"]].tobytes()
    assert made["effort"].T.tobytes() == efforts[made["index"]].tobytes()


@pytest.mark.parametrize("trim", [0.0, 0.1, 0.5, 1.9])
def test_the_trim_is_cut_off_each_end_of_each_segment_and_nothing_else(trim: float) -> None:
    one = 0.01 * np.arange(400)
    time = np.concatenate([one, one + 10.0, one + 20.0])
    made = joined(list(problem(moving(time), trim=trim).samples()))
    begin, end = np.repeat([0.0, 10.0, 20.0], 400), np.repeat(one[-1] + [0.0, 10.0, 20.0], 400)
    kept = (time >= begin + trim) & (time <= end - trim)
    assert made["index"].tolist() == np.flatnonzero(kept).tolist()


@pytest.mark.parametrize("silence", [GAP_STEPS + 1, 500, 100_000])
def test_gaps_are_not_bridged(silence: float) -> None:
    time = 0.01 * np.concatenate([np.arange(300), 299 + silence + np.arange(400)])
    both = moving(time)
    parts = [both.window(0, 300), both.window(300, None)]
    together = joined(list(problem(both, trim=0.0).samples()))
    apart = joined(list(problem(*parts, trim=0.0).samples()))
    assert len(together["time"]) == 700
    for name in ("time", "effort", "velocity", "acceleration"):
        assert together[name].tobytes() == apart[name].tobytes(), name


def test_what_lies_beyond_a_gap_does_not_matter() -> None:
    time = 0.01 * np.concatenate([np.arange(300), 350 + np.arange(300)])
    q = np.sin(time)
    other = np.where(time < 3.2, q, 1e6 * q)
    made = []
    for positions in (q, other):
        zero = np.zeros(600)
        log = Recording.from_arrays(
            time,
            q={"shoulder": positions, "elbow": positions},
            tau={"shoulder": zero, "elbow": zero},
        )
        made.append(joined(list(problem(log, trim=0.0).samples()))["acceleration"][:, :300])
    assert made[0].tobytes() == made[1].tobytes()
    assert np.abs(made[0]).max() > 0.5  # it moved


def test_short_silences_are_bridged_and_no_rows_invented() -> None:
    time = np.delete(0.01 * np.arange(600), np.r_[200:208])
    made = joined(list(problem(moving(time), corner=10.0).samples()))
    assert set(made["time"]) <= set(time)
    assert len(made["time"]) == np.sum((time >= 0.5) & (time <= time[-1] - 0.5))
    # A spline over nine steps of a sine of 3 rad/s: 5/384 (ω·gap)⁴, times ω_c·2 per derivative.
    expected = 3.0 * np.cos(3.0 * made["time"])
    error = 5 / 384 * (3.0 * 0.09) ** 4 * (4 * np.pi * 10.0) + 3.0 * (3.0 / (20 * np.pi)) ** 8
    middle = (made["time"] > 1.5) & (made["time"] < 4.5)
    assert np.abs(made["velocity"][0] - expected)[middle].max() <= error


@pytest.mark.parametrize("threads", [2, 3])
def test_samples_do_not_depend_on_threads(threads: int) -> None:
    time = 0.01 * np.concatenate([np.arange(300) + 400 * k for k in range(9)])
    one, many = (joined(list(problem(moving(time), threads=n).samples())) for n in (1, threads))
    assert {k: v.tobytes() for k, v in one.items()} == {k: v.tobytes() for k, v in many.items()}


def test_rows_outside_a_selection_still_smooth_the_motion() -> None:
    recording = moving(0.01 * np.arange(600))
    whole = joined(list(problem(recording).samples()))
    some = joined(list(problem(recording.selecting(lambda rows: rows % 3 == 0)).samples()))
    kept = whole["index"] % 3 == 0
    assert some["index"].tolist() == whole["index"][kept].tolist()
    for name in ("effort", "velocity", "acceleration"):
        assert np.array_equal(some[name], whole[name][:, kept]), name


def test_the_density_of_white_noise_is_flat_and_adds_up_to_its_variance() -> None:
    rng = np.random.default_rng(3)
    step, sigma = 0.01, 0.3
    time = 7.0 + step * np.arange(20000)
    found = density(time, sigma * rng.normal(size=(20000, 2)), step, 100)
    assert found.shape == (51, 2)
    assert np.allclose(found[1:-1], 2.0 * sigma**2 * step, rtol=0.4)  # 200 segments and more
    assert np.allclose(np.trapezoid(found, dx=1.0, axis=0), sigma**2, rtol=0.05)
