"""Identification of a free flyer: identities of the method, recovery, honesty, faults, the load."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.stats

from heft.arrays import Array
from heft.errors import InvalidRecording, TooLittleData
from heft.excitation import DesignSettings, SolverSettings
from heft.flight import (
    Cycles,
    EnergyBalance,
    FirstPath,
    Flight,
    FlightLog,
    FlightReference,
    FlightSettings,
    FlightSystem,
    FollowFreeFlyer,
    IdentifyFreeFlyer,
    IdentifyFromCycles,
    WellEnough,
    design_flight,
    load_estimate,
)
from heft.flight import fly as fly_in_mujoco
from heft.flight.energy_balance import path_of_angles, power_gap
from heft.flight.flight_log import _from_neighbours, late_thrust, mean_thrust
from heft.information import Triangle, inertia
from heft.models import FlightBounds, FreeFlyer, Load, load_of, shipped_free_flyer
from tests.flight_bounds import true_bound
from tests.free_flights import Flown, fly, reference

PERIOD = 10.0
LOAD = load_of("1.2kg@0.20,0.06,-0.10")


@cache
def cobot(noise: float = 1.0, gravity: float = 0.0) -> FreeFlyer:
    """Return the Space CoBot with its noise scaled."""
    flyer = shipped_free_flyer("space_cobot")
    pose = replace(flyer.pose, position=noise * flyer.pose.position, angle=noise * flyer.pose.angle)
    actuators = replace(flyer.actuators, noise=noise * flyer.actuators.noise)
    weight = np.array([0.0, 0.0, gravity])
    return replace(flyer, pose=pose, actuators=actuators, gravity=weight, scale_std=0.0)


@cache
def flight(seed: int, noise: float = 1.0, gravity: float = 0.0, colour: float = 0.0) -> Flown:
    """Return a flight of four cycles with the load."""
    flyer = cobot(noise, gravity)
    return fly(flyer, flyer.with_load(LOAD), seed, periods=4, colour=colour)


def nees(off: Array, covariance: Array) -> float:
    """Return the squared error in standard deviations, by dimension."""
    return float(off @ np.linalg.solve(covariance, off)) / len(off)


def test_the_energy_balance_is_the_residual_projected_on_the_twist() -> None:
    # For any motion, wrench and parameters, physical or not: an identity, no approximation.
    rng = np.random.default_rng(3)
    time = PERIOD / 200 * np.arange(200)
    pose, *_ = reference(time, PERIOD, 1, (0.5, 0.9))
    path = path_of_angles(pose, PERIOD, 12)
    wrench, values = rng.normal(size=(200, 6)), rng.normal(size=10)
    rest = wrench - path.regressor @ values
    twist = np.hstack([path.velocity, path.angular_velocity])
    gap = power_gap(path, wrench, values)
    assert np.allclose(gap, np.sum(twist * rest, axis=1), atol=1e-12)


def test_the_published_method_is_exact_where_its_assumptions_hold() -> None:
    # A wrench made by the regressor of a motion of three harmonics, without noise.
    count, cycles = 200, 2
    time = PERIOD / count * np.arange(count)
    pose, *_ = reference(time, PERIOD, 2, (0.5, 0.6))
    truth = cobot().with_load(LOAD)
    wrench = path_of_angles(pose, PERIOD, 3).regressor @ truth
    from scipy.spatial.transform import Rotation

    q = np.roll(Rotation.from_euler("ZYX", pose[:, :2:-1]).as_quat(), 1, axis=1)
    folded = [np.broadcast_to(x, (cycles, *x.shape)) for x in (pose[:, :3], q, wrench)]
    found = EnergyBalance().fit(Cycles(PERIOD, *folded))
    assert np.allclose(found.values, truth, atol=1e-9)
    assert found.gap.max() < 1e-9
    assert len(found.tried) == len(found.gap) == 13


def test_without_noise_all_is_found_by_lines_and_smoother() -> None:
    noise = 1e-3
    flown = flight(1, noise)
    result = IdentifyFreeFlyer(period=PERIOD).fit(flown.recording, cobot(noise))
    assert result.harmonic is not None
    size = np.abs(flown.parameters).max()
    assert np.abs(result.values - flown.parameters).max() < 1e-4 * size
    assert np.abs(result.harmonic.values - flown.parameters).max() < 1e-2 * size


def test_the_smoother_is_efficient_and_knows_it() -> None:
    by_bound, own = [], []
    for seed in range(6):
        flown = flight(seed)
        log = FlightLog.of(flown.recording, cobot())
        result = IdentifyFreeFlyer(period=PERIOD, published=None).fit(log, cobot())
        off = result.values - flown.parameters
        by_bound.append(nees(off, true_bound(log, cobot(), flown.states, flown.parameters)))
        covariance = result.body.parameters.covariance
        assert covariance is not None
        own.append(nees(off, covariance))
        assert result.smoothed.settled
        assert result.inflation == 1.0
        assert 0.9 < result.smoothed.chi_square < 1.1
    # 60 squared deviations: mean 1, three deviations of it are .55.
    assert 0.45 < np.mean(by_bound) < 1.55
    assert 0.45 < np.mean(own) < 1.55


def test_lines_are_within_three_times_the_bound() -> None:
    ratios = []
    for seed in range(4):
        flown = flight(seed)
        log = FlightLog.of(flown.recording, cobot())
        bound = true_bound(log, cobot(), flown.states, flown.parameters)
        found = IdentifyFromCycles().fit(Cycles.of(log, PERIOD), cobot())
        ratios.append((found.values - flown.parameters) ** 2 / np.diag(bound))
    assert np.sqrt(np.mean(ratios)) < 3.0


def test_the_load_is_what_was_added() -> None:
    flown = flight(0)
    result = IdentifyFreeFlyer(period=PERIOD).fit(flown.recording, cobot())
    mass, com, central = inertia.to_body(LOAD.parameters)
    stated = result.load.numbers
    assert abs(stated["mass"].value - mass) < 4.0 * stated["mass"].std
    for k, axis in enumerate("xyz"):
        number = stated[f"com.{axis}"]
        assert abs(number.value - com[k]) < 4.0 * number.std
        assert number.std < 0.01
        spin = stated[f"inertia.{axis}{axis}"]
        assert abs(spin.value - central[k, k]) < 5.0 * spin.std
    assert inertia.consistency_margin(result.load.consistent.parameters.values) > 0.0
    assert inertia.consistency_margin(result.body.consistent.parameters.values) > 0.0


def test_doubt_about_the_nominal_body_is_doubt_about_the_load() -> None:
    rng = np.random.default_rng(0)
    factor = np.triu(rng.normal(size=(11, 11))) + 5.0 * np.eye(11)
    triangle = Triangle(np.arange(10), factor, 100)
    nominal, doubt = cobot().nominal, np.diag(rng.uniform(0.1, 1.0, 10))
    sure = load_estimate(triangle, nominal).parameters
    unsure = load_estimate(triangle, nominal, doubt).parameters
    assert sure.covariance is not None
    assert unsure.covariance is not None
    assert np.allclose(unsure.covariance, sure.covariance + doubt)
    assert np.allclose(unsure.values, sure.values)


@pytest.mark.parametrize("period", [PERIOD, None])
def test_missing_repeated_and_gross_poses_cost_no_more_than_themselves(
    period: float | None,
) -> None:
    flown, flyer = flight(2), cobot()
    log = FlightLog.of(flown.recording, flyer)
    rng = np.random.default_rng(4)
    p, q = log.position.copy(), log.quaternion.copy()
    gross = rng.random(len(p)) < 0.01
    p[gross] += rng.normal(size=(gross.sum(), 3))
    q[gross] = rng.normal(size=(gross.sum(), 4))
    again = np.flatnonzero(rng.random(len(p) - 1) < 0.05) + 1
    p[again], q[again] = p[again - 1], q[again - 1]
    gone = rng.random(len(p)) < 0.05
    p[gone] = q[gone] = np.nan
    broken = FlightLog.of_arrays(log.time, p, q, log.commands, flyer)
    result = IdentifyFreeFlyer(period=period, published=None).fit(broken, flyer)
    covariance = result.body.parameters.covariance
    assert covariance is not None
    assert nees(result.values - flown.parameters, covariance) < 2.6  # .999 of χ²₁₀/10: 2.96
    assert result.smoothed.left_out >= 0.8 * 2 * gross.sum() * 0.9
    assert result.inflation == 1.0


@pytest.mark.parametrize("colour", [0.8, 0.98])
def test_coloured_noise_of_poses_is_told_by_the_log(colour: float) -> None:
    flyer = cobot()
    flown = fly(flyer, flyer.with_load(LOAD), periods=2, colour=colour)
    result = IdentifyFreeFlyer(period=PERIOD, published=None).fit(flown.recording, flyer)
    assert max(result.colour) > 2.0
    assert any(c.name == "coloured poses" and c.status == "warn" for c in result.checks)
    assert result.noise.colour == pytest.approx((colour, colour), abs=0.1)
    kicks = result.noise.variance * (1.0 - np.repeat(result.noise.colour, 3) ** 2)
    stated = np.repeat([3e-3, 5e-3], 3) ** 2 * (1.0 - colour**2)
    assert kicks == pytest.approx(stated, rel=0.5)
    covariance = result.body.parameters.covariance
    assert covariance is not None
    assert nees(result.values - flown.parameters, covariance) < 2.96
    log = FlightLog.of(flown.recording, flyer)
    bound = true_bound(log, flyer, flown.states, flown.parameters, colour=colour)
    assert np.sqrt(np.diag(covariance) / np.diag(bound)) == pytest.approx(1.0, abs=0.3)


def test_commands_that_were_lost_lie_between_those_that_were_not() -> None:
    flyer, off = cobot(), []
    for seed in range(3):
        flown = fly(flyer, flyer.with_load(LOAD), seed, lost=0.2)
        log = FlightLog.of(flown.recording, flyer)
        assert np.allclose(np.diff(log.time), 0.02) and len(log) == len(flown.states)
        gone = log.unsure[:, 0] > 0.0
        assert 0.15 < gone.mean() < 0.25 and np.isnan(log.position[gone]).all()
        assert np.array_equal(log.commands[~gone], flown.commands[~gone])
        error = (log.commands - flown.commands)[gone] ** 2 / log.unsure[gone]
        assert 0.5 < error.mean() < 1.5  # as sure as it says
        result = IdentifyFreeFlyer(period=PERIOD, published=None).fit(log, flyer)
        covariance = result.body.parameters.covariance
        assert covariance is not None
        off.append(nees(result.values - flown.parameters, covariance))
    assert np.mean(off) < 2.0


def test_what_stands_on_the_ground_or_is_held_is_left_out() -> None:
    flyer = cobot(gravity=-1.5)
    flown = fly(flyer, flyer.with_load(LOAD), 5)
    log = FlightLog.of(flown.recording, flyer)
    still, count = 300, len(log)
    rng = np.random.default_rng(1)
    p = np.vstack([np.tile(flown.states[0, :3], (still, 1)), log.position])
    p[:still] += 0.003 * rng.normal(size=(still, 3))
    q = np.vstack([np.tile(flown.states[0, 3:7], (still, 1)), log.quaternion])
    q[:still] += 0.0025 * rng.normal(size=(still, 4))
    u = np.vstack([np.zeros((still, 6)), log.commands])
    stood = FlightLog.of_arrays(0.02 * np.arange(still + count), p, q, u, flyer)
    result = IdentifyFreeFlyer(period=PERIOD, published=None).fit(stood, flyer)
    assert result.held[:still].all() and result.held[still + 60 :].mean() < 0.01
    covariance = result.body.parameters.covariance
    assert covariance is not None
    assert nees(result.values - flown.parameters, covariance) < 2.96
    assert not FirstPath().held(log, flyer).any()


def test_gravity_and_a_motion_that_does_not_repeat() -> None:
    flown = flight(3, gravity=-1.5)
    log = FlightLog.of(flown.recording, cobot(gravity=-1.5)).part(slice(0, 900))
    result = IdentifyFreeFlyer().fit(log, cobot(gravity=-1.5))
    assert result.harmonic is None
    assert result.published is None
    covariance = result.body.parameters.covariance
    assert covariance is not None
    assert nees(result.values - flown.parameters, covariance) < 2.96


def test_under_gravity_the_published_method_says_nothing() -> None:
    log = FlightLog.of(flight(3).recording, cobot())
    harmonic, published = IdentifyFreeFlyer()._by_cycles(log, cobot())
    assert harmonic is not None and published is not None
    harmonic, published = IdentifyFreeFlyer()._by_cycles(log, cobot(gravity=-1.5))
    assert harmonic is not None and published is None


def test_scores_of_blocks_exceed_their_limit_as_often_as_stated() -> None:
    # Scores of all blocks sum to zero: so many values of them are free.
    identify = IdentifyFreeFlyer(blocks=7)
    centring = np.eye(7) - 1.0 / 7.0
    free = int(np.linalg.matrix_rank(np.kron(centring, np.eye(10))))
    _, limit = identify._limits(100, 10)
    assert scipy.stats.chi2.sf(limit * free, free) == pytest.approx(identify.mistake)


def test_followed_while_flying_it_announces_what_it_then_keeps() -> None:
    flown, flyer = flight(1), cobot()
    log = FlightLog.of(flown.recording, flyer)
    follow = FollowFreeFlyer(WellEnough(mass=0.01, offset=0.005, inertia=0.1))
    state = follow.start(flyer)
    told = None
    for n in range(1000):
        pose = np.concatenate([log.position[n], log.quaternion[n]])
        state = follow.step(state, flyer, log.time[n], pose, log.commands[max(n - 1, 0)])
        if state.known and told is None:
            told = log.time[n], follow.estimate(state)
    assert told is not None
    assert 0.5 < told[0] < 15.0
    off = follow.estimate(state) - flown.parameters
    assert nees(off, state.covariance) < 2.96
    assert abs(told[1][0] / flown.parameters[0] - 1.0) < 0.04
    assert not state.samples  # what is kept is bounded
    # Where thrust may be otherwise than commanded, so may the body, by as much
    begun = follow.start(replace(flyer, scale_std=0.02))
    doubted = replace(begun, values=state.values, error=state.error).covariance
    exact = follow.estimate(state)
    assert np.allclose(doubted - state.covariance, 0.02**2 * np.outer(exact, exact))


def test_thrust_that_lags_is_the_mean_of_its_exact_response() -> None:
    rng = np.random.default_rng(0)
    u, steps, lag = rng.normal(size=(6, 2)), np.full(6, 0.1), np.array([0.0, 0.07])
    fine = 4000
    y, means = u[0, 1], []
    for k in range(6):
        t = 0.1 * (np.arange(fine) + 0.5) / fine
        means.append(np.mean(u[k, 1] + (y - u[k, 1]) * np.exp(-t / 0.07)))
        y = u[k, 1] + (y - u[k, 1]) * np.exp(-0.1 / 0.07)
    found = mean_thrust(u, steps, lag)
    assert np.allclose(found[:, 0], u[:, 0])
    assert np.allclose(found[:, 1], means, atol=1e-6)


def test_a_sample_is_where_most_of_its_neighbours_lead() -> None:
    values = np.random.default_rng(4).normal(size=(30, 2))
    found = _from_neighbours(values)
    for k in range(2, 28):
        back, ahead = values[k - 1], values[k + 1]
        led = (2.0 * back - values[k - 2], 2.0 * ahead - values[k + 2], 0.5 * (back + ahead))
        assert found[k] == pytest.approx(np.median(led, axis=0))


def test_a_body_at_rest_tells_nothing_and_that_is_said() -> None:
    flyer, count = cobot(), 200
    rng = np.random.default_rng(0)
    position = 1e-3 * rng.normal(size=(count, 3))
    quaternion = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)) + 1e-3 * rng.normal(size=(count, 4))
    log = FlightLog.of_arrays(
        0.02 * np.arange(count), position, quaternion, np.zeros((count, 6)), flyer
    )
    with pytest.raises(TooLittleData):
        IdentifyFromCycles().fit(Cycles.of(log, 0.1), flyer)
    none = np.full((count, 3), np.nan)
    empty = FlightLog.of_arrays(log.time, none, quaternion, log.commands, flyer)
    with pytest.raises(InvalidRecording):
        IdentifyFreeFlyer().fit(empty, flyer)


def test_a_load_weighs_what_its_box_weighs() -> None:
    box = Load(0.5, (0.1, 0.0, 0.0), (0.1, 0.2, 0.3))
    assert np.isclose(box.parameters[0], 0.5)


@cache
def slow_flight() -> tuple[FreeFlyer, Flight]:
    """Return the Space CoBot with rotors that lag by 50 ms, and a flight of it with the load."""
    body = cobot()
    slow = replace(body, actuators=replace(body.actuators, lag=np.full(6, 0.05)))
    settings = DesignSettings(
        random=6, starts=1, workers=1, solver=SolverSettings(rounds=5, iterations=20, more=10)
    )
    made = design_flight(slow, FlightBounds().faster(0.7), "J2", settings)
    flown = FlightReference(made.trajectory, slow.gravity)
    return slow, fly_in_mujoco(slow, flown, [LOAD], FlightSettings(2, 3))


def test_a_lag_is_found_with_the_body_whether_it_is_stated_or_not() -> None:
    slow, flight = slow_flight()
    for flyer, later in ((cobot(), 0.05), (slow, 0.0)):
        found = IdentifyFreeFlyer(PERIOD, published=None).fit(flight.log, flyer)
        assert abs(found.delay.value - later) < 4.0 * found.delay.std < 4e-3
        covariance = found.body.parameters.covariance
        assert covariance is not None and found.inflation == 1.0
        assert nees(found.values - flight.truth.parameters, covariance) < 2.96


def test_a_delay_and_a_lag_need_not_be_told_apart() -> None:
    flyer, off = cobot(), []
    for seed, delay, lag in ((0, 0.02, 0.0), (1, 0.03, 0.01), (2, 0.013, 0.04), (3, 0.0, 0.02)):
        flown = fly(flyer, flyer.with_load(LOAD), seed, delay=delay, lag=lag)
        found = IdentifyFreeFlyer(PERIOD, published=None).fit(flown.recording, flyer)
        assert abs(found.delay.value - delay - lag) < 4.0 * found.delay.std < 4e-3
        covariance = found.body.parameters.covariance
        assert covariance is not None
        off.append(nees(found.values - flown.parameters, covariance))
    assert np.mean(off) < 1.8  # .999 of χ²₄₀/40: 1.84


@pytest.mark.parametrize(
    ("delay", "lag"), [(0.0, 0.07), (0.034, 0.0), (0.013, 0.05), (-0.03, 0.02)]
)
def test_late_thrust_moves_a_mass_as_its_exact_response_does(delay: float, lag: float) -> None:
    rng = np.random.default_rng(0)
    u, steps, fine = rng.normal(size=(9, 1)), rng.uniform(0.02, 0.06, 9), 200_000
    begin = np.append(0.0, np.cumsum(steps))
    t = np.linspace(-0.1, begin[-1], fine + 1)
    held = u[np.clip(np.searchsorted(begin, t - delay, side="right") - 1, 0, 8), 0]
    y, left = np.empty(fine + 1), np.exp(-(t[1] - t[0]) / lag) if lag else 0.0
    y[0] = u[0, 0]
    for k in range(fine):
        y[k + 1] = held[k] + (y[k] - held[k]) * left
    once = np.append(0.0, np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(t)))
    twice = np.append(0.0, np.cumsum(0.5 * (once[1:] + once[:-1]) * np.diff(t)))
    speed, place = (np.interp(begin, t, x) for x in (once, twice))
    mean, further = late_thrust(u, steps, np.array([lag]), np.array([delay]))
    assert np.allclose(mean[:, 0] * steps, np.diff(speed), atol=1e-5)
    moved = np.diff(place) - speed[:-1] * steps - 0.5 * steps * np.diff(speed)
    assert np.allclose(further[:, 0], moved, atol=1e-6)
    assert np.abs(moved).max() > 1e-5


def test_the_response_changes_the_log_as_its_derivative_says() -> None:
    body = cobot()
    system = FlightSystem.of(FlightLog.of(flight(0).recording, body), body, np.eye(12))
    at = np.array([0.03, 0.01**2])
    (mean, _), slopes = system._late(at)
    for k, d in enumerate((1e-4, 1e-6)):
        ahead = system._late(at + d * np.eye(2)[k])[0][0] - mean
        assert np.allclose(ahead / d, slopes[k][0], atol=0.3 * np.abs(slopes[k][0]).max())


def test_a_scale_is_known_as_well_as_it_is_stated_and_a_known_mass_calibrates_it() -> None:
    flyer = replace(cobot(), scale_std=0.02)
    flown = fly(flyer, flyer.with_load(LOAD), 0, scale=0.97)
    sure, given = (
        IdentifyFreeFlyer(PERIOD, published=None).fit(flown.recording, f) for f in (cobot(), flyer)
    )
    one, two = (r.body.parameters.covariance for r in (sure, given))
    assert one is not None and two is not None
    # A scale moves all ten together.
    assert np.allclose(two, one + 0.02**2 * np.outer(sure.values, sure.values), rtol=1e-6)
    assert given.values == pytest.approx(sure.values)
    truth = flown.parameters
    assert abs(sure.values[0] - truth[0]) > 30.0 * np.sqrt(one[0, 0])
    assert abs(given.values[0] - truth[0]) < 2.0 * np.sqrt(two[0, 0])
    empty = fly(flyer, flyer.nominal, 1, scale=0.97)
    both = IdentifyFreeFlyer(PERIOD, published=None).fit(flown.recording, flyer, empty.recording)
    assert abs(both.scale.value - 0.97) < 4.0 * both.scale.std < 4e-3
    mass = both.load.numbers["mass"]
    assert abs(mass.value - LOAD.mass) < 4.0 * mass.std < 0.05
