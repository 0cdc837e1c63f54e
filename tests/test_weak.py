"""The weak form: what its quadrature is exact for, and that nothing depends on how a log is cut."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

from heft.dynamics import drive_columns, kernels
from heft.dynamics.drive_columns import DriveState
from heft.errors import InvalidSetting
from heft.models.robot import Robot
from heft.plants import RobotPlant, rows_of
from heft.plants.base import structural_base
from heft.signals import weak_form
from heft.signals.weak_form import Buffer, Integrals, Samples, Weak, Windows
from tests import robots

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
STEP = 0.002
EPOCH = 1.7e9  # the clock of a log may count from 1970 [s]


def clock(count: int, jitter: float = 0.0, start: float = 0.3) -> Array:
    """Times that stray from a grid by up to a share of its step; one sample in 50 is lost."""
    rng = np.random.default_rng(7)
    time = start + STEP * (np.arange(count) + jitter * rng.uniform(-0.5, 0.5, count))
    return time[rng.random(count) > 0.02] if jitter else time


def bump(windows: Windows, time: Array, k: int) -> tuple[Array, Array]:
    """Window k and its derivative, from its definition: cos²ᵖ over its mean."""
    p = windows.power
    u = (time - k * windows.stride) / windows.length - 0.5
    mean = np.prod([(2 * j - 1) / (2 * j) for j in range(1, p + 1)])  # Wallis
    phi = np.cos(np.pi * u) ** (2 * p)
    rate = -2 * p * np.pi * np.sin(np.pi * u) * np.cos(np.pi * u) ** (2 * p - 1)
    over = np.abs(u) > 0.5
    phi[over] = rate[over] = 0.0
    return phi / (mean * windows.length), rate / (mean * windows.length**2)


# ---- settings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0.0},
        {"length": np.inf},
        {"length": np.nan},
        {"power": 0},
        {"power": 2.0},
        {"power": 9},
        {"overlap": 1.0},
        {"overlap": -0.1},
        {"overlap": np.nan},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Weak(**wrong)  # type: ignore[arg-type]
    assert caught.value.argument in wrong


def test_windows_follow_the_corner_and_span_twenty_samples() -> None:
    assert Weak().windows(corner=10.0, step=0.002) == Windows(0.15, 0.038, 2)
    short = Weak().windows(corner=200.0, step=0.002)
    assert short.length == weak_form.SHORTEST * 0.002
    assert short.stride == 5 * 0.002
    assert Weak(length=0.1001, power=3, overlap=0.5).windows(1.0, 0.002) == Windows(0.1, 0.05, 3)
    assert Weak(overlap=0.999).windows(10.0, 0.002).stride == 0.002
    with pytest.raises(InvalidSetting, match="too few samples"):
        Weak(length=0.03).windows(corner=10.0, step=0.002)


# ---- quadrature -----------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, 0.2999, EPOCH])
@pytest.mark.parametrize("jitter", [0.0, 0.8])
@pytest.mark.parametrize("power", [1, 2, 3, 8])
def test_straight_lines_between_samples_are_integrated_exactly(
    power: int, jitter: float, start: float
) -> None:
    windows = Windows(0.0617, 0.0154, power)  # no multiples of the step
    time = clock(200, jitter, start)
    first = windows.from_time(time[0])
    values = np.random.default_rng(3).normal(size=len(time))
    weights = windows.weights(time, first, 5)
    for k in range(5):
        # Gauss's rule between knots where everything is smooth.
        ends = (first + k) * windows.stride + np.array([0.0, windows.length])
        knots = np.unique(np.concatenate([time[(time > ends[0]) & (time < ends[1])], ends]))
        nodes, gauss = np.polynomial.legendre.leggauss(20)
        half = 0.5 * np.diff(knots)[:, None]
        at = 0.5 * (knots[1:] + knots[:-1])[:, None] + half * nodes
        line = np.interp(at, time, values)
        phi, rate = bump(windows, at.reshape(-1), first + k)
        # The clock's own resolution, felt through lines as steep as two a step.
        fuzz = (4 * np.spacing(start) / STEP + 100 * EPS) * len(time)
        for got, window in ((weights[0][k], phi), (weights[1][k], rate)):
            expected = (half * gauss * line * window.reshape(at.shape)).sum()
            size = np.abs(got) @ np.abs(values)
            assert abs(got @ values - expected) <= fuzz * size


@pytest.mark.parametrize("start", [0.0, EPOCH])
@pytest.mark.parametrize("jitter", [0.0, 0.8])
@pytest.mark.parametrize("power", [1, 2, 5])
def test_constants_have_no_rate_and_their_own_mean(power: int, jitter: float, start: float) -> None:
    time = clock(2000, jitter, start)
    windows = Windows(0.1, 0.025, power)
    first = windows.from_time(time[0])
    phi, rate = windows.weights(time, first, 100)
    # Sums of differences: each is rounded once, and they add up to nothing.
    assert (np.abs(rate.sum(axis=1)) <= 4 * EPS * np.abs(rate).sum(axis=1)).all()
    assert (np.abs(phi.sum(axis=1) - 1.0) <= 4 * EPS * np.abs(phi).sum(axis=1)).all()
    assert (phi >= -8 * EPS).all()
    for k in range(100):
        begins = (first + k) * windows.stride
        far = (time < begins - 2.1 * STEP) | (time > begins + windows.length + 2.1 * STEP)
        assert not phi[k, far].any() or np.abs(phi[k, far]).max() <= EPS
        assert not rate[k, far].any()


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_straight_line_has_its_slope(power: int) -> None:
    time = clock(500, 0.8)
    windows = Windows(0.1, 0.02, power)
    _, rate = windows.weights(time, windows.from_time(time[0]), 30)
    size = np.abs(rate) @ np.abs(time)
    assert (np.abs(-rate @ (3.0 * time - 1.0) - 3.0) <= 100 * EPS * 3.0 * size).all()


# ---- a robot that moves ---------------------------------------------------------------------


def swing(time: Array, joints: int) -> tuple[Array, Array, Array]:
    """Two sines a joint, of 0.4 to 2.6 Hz."""
    rng = np.random.default_rng(11)
    pace = 2.0 * np.pi * rng.uniform(0.4, 2.6, (2, joints))
    phase, size = rng.uniform(0, 2 * np.pi, (2, joints)), rng.uniform(0.5, 2.0, (2, joints)) / pace
    angle = pace * (time - time[0])[:, None, None] + phase
    return (
        (size * np.sin(angle)).sum(axis=1),
        (size * pace * np.cos(angle)).sum(axis=1),
        -(size * pace**2 * np.sin(angle)).sum(axis=1),
    )


def both_sides(robot: Robot, motion: kernels.Motion, state: DriveState) -> tuple[Array, Array]:
    """W₂ and F of all standard parameters, each (N, channels, p): friction enters F by −1."""
    own, drives = 10 * len(robot.tree.names), robot.drive_columns
    shape = (robot.tree.channels, own + len(drives), motion.sin.shape[1])
    momentum, remainder = np.zeros(shape), np.zeros(shape)
    robots.momentum(robot.tree, motion, (momentum, remainder))
    # A rotor's momentum is its armature times its speed, which takes the place of ẇ.
    made = drive_columns.columns(robot.drives, drives, replace(state, acceleration=state.velocity))
    for (channel, column), weight in zip(made.acts, made.weights, strict=True):
        if drives[column][1].kind == "armature":
            momentum[channel, own + column] += weight * made.values[column]
        else:
            remainder[channel, own + column] -= weight * made.values[column]
    return np.moveaxis(momentum, 2, 0), np.moveaxis(remainder, 2, 0)


def samples_of(robot: Robot, time: Array) -> tuple[Samples, Array, Array]:
    """Both sides at these times, the true parameters and the rows with acceleration."""
    q, v, a = swing(time, len(robot.joints))
    motion = kernels.motion_of(robot.tree, robot.gravity, q, v, a)
    bodies = robots.Oracle.of(robot).parameters()
    memory = drive_columns.presliding(robot.drives, time, q.T).values
    rigid = kernels.inverse_dynamics(robot.tree, motion, bodies)
    state = DriveState(q.T, motion.velocity, motion.acceleration, memory, rigid)
    drives = np.random.default_rng(2).uniform(0.1, 1.0, len(robot.drive_columns))
    truth = np.concatenate([bodies, drives])
    rows = rows_of(robot, motion, state)
    return Samples(time, *both_sides(robot, motion, state), rows @ truth), truth, rows


ARMS = {
    "planar": lambda: robots.planar_arm(drives=True),
    "ur10": lambda: robots.load("ur_description/urdf/ur10_robot.urdf"),
    "panda with mimic": lambda: robots.load("panda_description/urdf/panda.urdf"),
}
WINDOWS = Weak().windows(corner=10.0, step=STEP)


def derivatives(values: Array, time: Array, count: int) -> list[Array]:
    """Return the largest absolute values of the derivatives 0 to count, along the first axis."""
    found = [values]
    for _ in range(count):
        found.append(np.gradient(found[-1], time, axis=0))
    return [np.abs(x).max(axis=0) for x in found]


def crests(windows: Windows, count: int) -> list[float]:
    """Return bounds on a window's own derivatives 0 to count."""
    pace = 2.0 * np.pi / windows.length
    waves = list(enumerate(windows.harmonics, 1))
    return [
        ((k == 0) + sum(c * (j * pace) ** k for j, c in waves)) / windows.length
        for k in range(count + 1)
    ]


def quadrature_bound(
    windows: Windows, time: Array, momentum: Array, change: Array, count: int
) -> Array:
    """Return by how much −∫φ̇ W₂ may differ from ∫φ dW₂/dt, at most, for each of some windows.

    Both integrals are exact for straight lines between samples. Those of the change f differ from
    the chords of W₂ by f's mean over an interval less its straight line: h²/12 |f̈| from the line's
    mean and, by parts, h²/8 |ḟ| ∫|φ̇| from its slope.

    On a uniform grid the straight lines are a convolution with one hat on both sides, which
    leaves the trapezoidal sum of dG/dt, G = φ W₂. By Poisson's formula that is no more than
    2 ζ(n) (h/2π)ⁿ ∫|dⁿ⁺¹G/dtⁿ⁺¹|; n = 2p, since φ's derivative of order 2p jumps at its ends.
    """
    first = windows.from_time(time[0])
    steps, middle = np.diff(time), 0.5 * (time[1:] + time[:-1])
    if np.ptp(steps) > 1e-9:
        once = np.gradient(change, time, axis=0)
        twice = np.gradient(once, time, axis=0)
        once, twice = (np.maximum(np.abs(x[1:]), np.abs(x[:-1])) for x in (once, twice))
        shapes = [bump(windows, middle, first + k) for k in range(count)]
        phi, rate = (np.abs(x) * steps**3 for x in np.moveaxis(np.array(shapes), 1, 0))
        # A tenth more: values in the middle of an interval stand for all of it.
        return 1.1 * (np.tensordot(phi, twice, 1) / 12.0 + np.tensordot(rate, once, 1) / 8.0)
    n = 2 * windows.power
    crest, sizes = crests(windows, n + 1), derivatives(momentum, time, n + 1)
    total = 2.0 * crest[n] * sizes[0]
    for k in range(n + 2):
        total = total + math.comb(n + 1, k) * windows.length * crest[k] * sizes[n + 1 - k]
    alias = 2.0 * scipy.special.zeta(n) * (steps[0] / (2.0 * np.pi)) ** n * total
    return np.broadcast_to(alias, (count, *alias.shape))


@pytest.mark.parametrize("jitter", [0.0, 0.8])
@pytest.mark.parametrize("name", ARMS)
def test_weak_rows_are_the_means_of_the_rows_with_acceleration(name: str, jitter: float) -> None:
    robot = ARMS[name]()
    samples, _, rows = samples_of(robot, clock(1500, jitter))
    found = weak_form.integrate(WINDOWS, samples)
    first = WINDOWS.from_time(samples.time[0])
    phi, _ = WINDOWS.weights(samples.time, first, len(found.time))
    error = np.abs(found.regressor - np.tensordot(phi, rows, axes=1))
    change = rows + samples.remainder
    bound = quadrature_bound(WINDOWS, samples.time, samples.momentum, change, len(found.time))
    size = np.abs(samples.momentum).max() / WINDOWS.length + np.abs(rows).max()
    assert (error <= bound + 100 * EPS * size).all()
    size = np.abs(samples.effort).max()
    assert np.abs(found.effort - phi @ samples.effort).max() <= 100 * EPS * size


@pytest.mark.parametrize("power", [1, 2, 3])
def test_on_a_uniform_grid_the_error_falls_with_the_power_of_the_window(power: int) -> None:
    robot = ARMS["ur10"]()
    errors = []
    for thin in (2, 1):
        samples, _, rows = samples_of(robot, clock(1500)[::thin])
        windows = Windows(0.1, 0.025, power)
        found = weak_form.integrate(windows, samples)
        phi, _ = windows.weights(samples.time, windows.from_time(samples.time[0]), len(found.time))
        errors.append(np.abs(found.regressor - np.tensordot(phi, rows, axes=1)).max())
    assert errors[1] <= errors[0] / 2 ** (2 * power)


@pytest.mark.parametrize("jitter", [0.0, 0.8])
@pytest.mark.parametrize("name", ARMS)
def test_motion_without_noise_gives_the_parameters_back(name: str, jitter: float) -> None:
    robot = ARMS[name]()
    base = structural_base(RobotPlant(robot))
    samples, truth, rows = samples_of(robot, clock(4000, jitter))
    found = weak_form.integrate(WINDOWS, samples)
    kept, measured = list(base.kept), robot.measured
    regressor = found.regressor[:, measured][:, :, kept].reshape(-1, len(kept))
    effort = found.effort[:, measured].reshape(-1)
    estimate, _, _, singular = np.linalg.lstsq(regressor, effort, rcond=None)
    # ‖δβ‖ ≤ ‖residual of the truth‖/σ_min, and that residual is the quadrature's error.
    momentum, change = samples.momentum @ truth, (rows + samples.remainder) @ truth
    bound = quadrature_bound(WINDOWS, samples.time, momentum, change, len(found.time))
    bound = bound[:, measured] + 100 * EPS * np.abs(momentum).max() / WINDOWS.length
    reach = np.linalg.norm(bound) / singular[-1]
    assert np.linalg.norm(estimate - base.matrix @ truth) <= reach


# ---- pieces ---------------------------------------------------------------------------------


def same_rows(found: Integrals, whole: Integrals, windows: Windows, samples: Samples) -> None:
    assert np.array_equal(found.time, whole.time)
    # Windows are weighted a few at a time, which sums in another order.
    size = np.abs(samples.momentum).max() / windows.length * 10 + np.abs(samples.remainder).max()
    rounding = 100 * EPS * size
    np.testing.assert_allclose(found.regressor, whole.regressor, rtol=0, atol=rounding)
    rounding = 100 * EPS * np.abs(samples.effort).max()
    np.testing.assert_allclose(found.effort, whole.effort, rtol=0, atol=rounding)


def joined(parts: list[Integrals]) -> Integrals:
    fields = ("time", "regressor", "effort")
    return Integrals(*(np.concatenate([getattr(p, f) for p in parts]) for f in fields))


CUTS = {"one by one": [*range(1, 400)], "blocks": [64, 65, 300, 301, 302, 390], "halves": [200]}
GRIDS = {
    "overlapping": Windows(0.1, 0.025),
    "apart": Windows(0.04, 0.07),
    "odd": Windows(0.0617, 0.0109, 3),
    "dense": Windows(0.04, 0.002),
    "longer than the log": Windows(2.0, 0.5),
}


@pytest.mark.parametrize("start", [0.0, -1.234, EPOCH])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("cuts", CUTS)
def test_a_stream_in_pieces_gives_the_windows_of_the_whole(
    cuts: str, grid: str, start: float
) -> None:
    windows = GRIDS[grid]
    samples, *_ = samples_of(ARMS["planar"](), clock(420, 0.8, start))
    whole = weak_form.integrate(windows, samples)
    expected = max((samples.time[-1] - samples.time[0] - windows.length) // windows.stride, 0)
    assert expected <= len(whole.time) <= expected + 1
    held: Buffer | None = None
    parts = []
    edges = [0, *CUTS[cuts], len(samples.time)]
    for low, high in pairwise(edges):
        held, done = weak_form.advance(windows, held, samples.part(slice(low, high)))
        parts.append(done)
        span = held.samples.time[-1] - held.samples.time[0]
        assert span <= windows.length + 3 * STEP or grid == "longer than the log"
    same_rows(joined(parts), whole, windows, samples)


@pytest.mark.parametrize("grid", GRIDS)
def test_pieces_with_margins_share_the_windows_out(grid: str) -> None:
    windows = GRIDS[grid]
    samples, *_ = samples_of(ARMS["planar"](), clock(420, 0.8))
    whole = weak_form.integrate(windows, samples)
    parts, time = [], samples.time
    for low, high in pairwise([0, 50, 51, 200, 340, len(time)]):
        # Each answers for windows that begin in its core, and sees one length beyond it.
        end = time[high] if high < len(time) else np.inf
        seen = int(np.searchsorted(time, end + windows.length, side="right")) + 1
        piece = samples.part(slice(max(low - 1, 0), seen))
        parts.append(weak_form.integrate(windows, piece, time[low], end))
    same_rows(joined(parts), whole, windows, samples)


def test_no_samples_have_no_windows() -> None:
    samples, *_ = samples_of(ARMS["planar"](), clock(50))
    none = samples.part(slice(0, 0))
    found = weak_form.integrate(WINDOWS, none)
    assert found.regressor.shape == (0, *samples.momentum.shape[1:])
    assert found.effort.shape == (0, samples.effort.shape[1])


def test_samples_must_follow_one_another() -> None:
    samples, *_ = samples_of(ARMS["planar"](), clock(50))
    held, _ = weak_form.advance(WINDOWS, None, samples)
    with pytest.raises(AssertionError, match="follow one another"):
        weak_form.advance(WINDOWS, held, samples)


def test_it_does_not_matter_how_samples_lie_in_memory() -> None:
    samples, *_ = samples_of(ARMS["planar"](), clock(420, 0.8))
    copied = Samples(*(np.ascontiguousarray(x) for x in vars(samples).values()))
    assert not samples.momentum.flags.c_contiguous
    whole = weak_form.integrate(WINDOWS, samples)
    same_rows(weak_form.integrate(WINDOWS, copied), whole, WINDOWS, samples)


@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.65])
def test_whitened_windows_share_no_noise(overlap: float) -> None:
    step, count = 1e-3, 40
    windows = Windows(0.1, round((1.0 - overlap) * 100) * step, 1)
    time = step * np.arange(round((windows.length + count * windows.stride) / step))
    weights, _ = windows.weights(time, 0, count)
    rows = Integrals(np.arange(count, dtype=float), np.zeros((count, 1, 0)), weights)
    shared = weak_form.shared_noise(windows, step)
    made, _ = weak_form.whitened(shared, rows)
    np.testing.assert_allclose(made.effort @ made.effort.T, np.eye(count), rtol=0, atol=1e-9)


def test_whitening_goes_on_where_it_stopped() -> None:
    rng = np.random.default_rng(0)
    rows = Integrals(np.arange(30.0), rng.normal(size=(30, 6, 4)), rng.normal(size=(30, 6)))
    shared = weak_form.shared_noise(Windows(0.1, 0.03, 1), 1e-3)
    whole, _ = weak_form.whitened(shared, rows)
    state, parts = None, []
    for cut in (slice(0, 1), slice(1, 3), slice(3, 3), slice(3, 30)):
        piece = Integrals(rows.time[cut], rows.regressor[cut], rows.effort[cut])
        part, state = weak_form.whitened(shared, piece, state)
        parts.append(part)
    assert np.array_equal(np.concatenate([p.regressor for p in parts]), whole.regressor)
    assert np.array_equal(np.concatenate([p.effort for p in parts]), whole.effort)


def test_the_time_of_a_row_is_the_middle_of_its_window() -> None:
    """Of an effort that is the time itself the mean over a symmetric window is its middle."""
    time = clock(400)
    windows = Windows(0.1, 0.025, 3)
    none = np.zeros((len(time), 1, 1))
    rows = weak_form.integrate(windows, Samples(time, none, none, time[:, None]))
    assert len(rows.time) > 20 and np.allclose(rows.effort[:, 0], rows.time, atol=1e-9)
