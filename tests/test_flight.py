"""Designed flights within all limits, tracked in closed loop: laws, and IPOPT where it is there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.excitation import Design, DesignSettings, Grids, SolverSettings
from heft.flight import (
    FilterSettings,
    Flight,
    FlightFaults,
    FlightFilter,
    FlightReference,
    FlightSettings,
    FlyerModel,
    PredictiveTracking,
    TrackingSettings,
    design_flight,
    fly,
)
from heft.information import inertia
from heft.models import FlightBounds, PayloadRange, load_of, shipped_free_flyer
from heft.recordings import Recording
from tests.flight_bounds import information_of, stated_errors

pytest.importorskip("mujoco")
pytest.importorskip("daqp")
LOAD = load_of("1.2kg@0.20,0.06,-0.10")
QUICK = DesignSettings(
    random=10,
    starts=1,
    seed=2,
    grids=Grids(80, 64, 24),
    solver=SolverSettings(rounds=5, iterations=20, more=10),
)
RANGE = PayloadRange(1.2, ((0.0, 0.25), (-0.1, 0.1), (-0.15, 0.0)))
SHORT = FlightBounds(period=5.0, position=(0.3,) * 3, angle=(0.5,) * 3)


@cache
def designed(aware: bool) -> Design:
    bounds = replace(SHORT.faster(1.5), payload=RANGE if aware else None)
    return design_flight(shipped_free_flyer("space_cobot"), bounds, "J2", QUICK)


def reference(aware: bool = True) -> FlightReference:
    return FlightReference(designed(aware).trajectory, np.zeros(3))


@cache
def flown(aware: bool = True, faults: FlightFaults | None = None) -> Flight:
    faults = faults or FlightFaults()
    settings = FlightSettings(cycles=1, seed=3, faults=faults)
    return fly(shipped_free_flyer("space_cobot"), reference(aware), [LOAD], settings)


def columns(log: Recording, *names: str) -> np.ndarray:
    """Return signals of a log as they were measured, those that are missing as NaN."""
    return np.hstack([np.vstack(list(log.table.read([n]))) for n in names])


def test_a_design_keeps_every_command_within_limits_with_every_load() -> None:
    flyer, found = shipped_free_flyer("space_cobot"), designed(True)
    q, v, a = found.trajectory(np.linspace(0.0, 5.0, 500))
    samples = found.plant.samples_at(q, v, a)
    m = samples.motion
    Y = inertia.wrench_regressor(m.specific, m.angular_velocity, m.angular_acceleration)
    bodies = [flyer.nominal, *(flyer.with_load(load) for load in RANGE.vertices)]
    assert len(bodies) == 9
    most = [np.abs(np.linalg.solve(flyer.mixing, (Y @ ten).T)).max() for ten in bodies]
    assert 0.8 * RANGE.effort * 5.7 < max(most) <= RANGE.effort * 5.7 * 1.001
    free = designed(False)
    assert found.log_determinant < free.log_determinant


@pytest.mark.parametrize("aware", [True, False])
def test_a_design_is_at_rest_at_its_start_and_within_its_bounds(aware: bool) -> None:
    found, bounds = designed(aware), SHORT.faster(1.5)
    ends = found.trajectory(np.array([0.0, 5.0]))
    assert all(part == pytest.approx(np.zeros((2, 6)), abs=1e-9) for part in ends)
    motion = found.trajectory(np.linspace(0.0, 5.0, 2000))
    for order, part in enumerate(motion):
        assert np.all(np.abs(part) <= bounds.limits(order) * (1.0 + 1e-6))


def test_the_condition_number_is_the_other_criterion() -> None:
    flyer = shipped_free_flyer("space_cobot")
    one, two = (design_flight(flyer, SHORT, c, QUICK) for c in ("J1", "J2"))
    condition = [np.linalg.cond(d.rows_of(d.trajectory).reshape(-1, 10)) for d in (one, two)]
    assert condition[0] < condition[1]
    assert one.log_determinant < two.log_determinant


def test_a_body_that_pushes_up_only_is_designed_and_flown_in_position_and_yaw() -> None:
    flyer = shipped_free_flyer("quadrotor")
    bounds = FlightBounds(period=5.0, position=(0.4,) * 3, velocity=(0.8,) * 3)
    settings = replace(QUICK, random=20, grids=Grids())
    found = design_flight(flyer, bounds, "J2", settings)
    assert found.trajectory.names == ("x", "y", "z", "yaw")
    flight = fly(flyer, FlightReference(found.trajectory, flyer.gravity), (), FlightSettings(1))
    assert flight.truth.tracking_error < 0.1
    assert flight.saturation < 0.05
    # At rest in the air the accelerometer carries the weight.
    assert columns(flight.log, "acc.quadrotor.z")[0, 0] == pytest.approx(9.81, abs=0.5)


def test_a_load_within_the_design_saturates_little_and_is_tracked() -> None:
    aware, free = flown(True), flown(False)
    assert aware.saturation < 0.1 < free.saturation
    assert aware.truth.tracking_error < 0.05
    assert aware.unsolved == 0


def test_commands_follow_from_the_log_alone() -> None:
    """The controller replayed on the log's poses gives the log's commands."""
    flyer, flight = shipped_free_flyer("space_cobot"), flown()
    names = [*flyer.actuators.signals, *flyer.frame_signals]
    log = columns(flight.log, *names)
    u, p, q = log[:, :6], log[:, 6:9], log[:, 9:]
    tracking = PredictiveTracking(flyer, reference())
    watcher = FlightFilter(FlyerModel.of(flyer), 0.003, 0.005, FilterSettings())
    seen, plan = watcher.start(p[0], q[0]), None
    for k in range(100):
        if k:
            seen = watcher.updated(watcher.predicted(seen, u[k - 1], 0.02), p[k], q[k])
        if k % 5 == 0:
            time = 0.02 * k
            plan = (
                tracking.step(plan, time, seen.state) if plan else tracking.start(time, seen.state)
            )
            assert plan.commands[0] == pytest.approx(u[k], abs=1e-9)


def test_the_filter_errs_as_much_as_it_says_without_a_load() -> None:
    flyer = shipped_free_flyer("space_cobot")
    flight = fly(flyer, reference(), (), FlightSettings(cycles=1, seed=4))
    log = columns(flight.log, *flyer.actuators.signals, *flyer.frame_signals)
    # Without a load the model is right but for the thrusts' noise, some hundredths of m/s².
    settings = FilterSettings(acceleration=0.03, turning=0.3)
    watcher = FlightFilter(FlyerModel.of(flyer), 0.003, 0.005, settings)
    t = flight.truth
    seen, scores = watcher.start(t.position[0], t.quaternion[0]), []
    for k in range(1, len(log)):
        seen = watcher.updated(
            watcher.predicted(seen, log[k - 1, :6], 0.02), *np.split(log[k, 6:], [3])
        )
        left = seen.state[:3] - t.position[k]
        scores.append(left @ np.linalg.solve(seen.covariance[:3, :3], left) / 3.0)
    assert 0.5 < np.mean(scores[20:]) < 1.5


@pytest.mark.parametrize("aware", [True, False])
def test_commands_are_those_of_the_converged_problem(aware: bool) -> None:
    flyer, flight, t = shipped_free_flyer("space_cobot"), flown(aware), flown(aware).truth
    tracking = PredictiveTracking(flyer, reference(aware))
    states = np.hstack((t.position, t.quaternion, t.velocity, t.turning))
    plan, worst = tracking.start(0.0, states[0]), 0.0
    for k in range(5, len(states), 5):
        plan = tracking.step(plan, float(t.time[k]), states[k])
        exact = tracking.converged(plan, states[k])
        worst = max(worst, float(np.abs(exact.commands[0] - plan.commands[0]).max()))
    assert worst < 0.1
    assert flight.saturation > 0.1 or aware


def test_the_converged_problem_is_ipopts() -> None:
    pytest.importorskip("casadi", reason="IPOPT comes with CasADi: pip install casadi")
    from benchmarks.ipopt_tracking import IpoptTracking

    flyer, t = shipped_free_flyer("space_cobot"), flown(False).truth
    tracking = PredictiveTracking(flyer, reference(False))
    other = IpoptTracking(tracking)
    for k in (0, 60, 130):
        state = np.concatenate((t.position[k], t.quaternion[k], t.velocity[k], t.turning[k]))
        plan = tracking.start(float(t.time[k]), state)
        assert plan.commands == pytest.approx(other.commands(plan, state), abs=1e-3)


def test_a_plan_keeps_limits_and_its_model() -> None:
    tracking = PredictiveTracking(shipped_free_flyer("space_cobot"), reference(False))
    state = reference(False).states(np.zeros(1))[0][0]
    state[:3] += 0.4  # so far away that some push as hard as they can
    plan = tracking.converged(tracking.start(0.0, state), state)
    assert np.abs(plan.commands).max() == pytest.approx(5.7)
    ahead = tracking.model.advanced(plan.states[:-1], plan.commands, 0.1)
    assert ahead == pytest.approx(plan.states[1:], abs=1e-5)


def test_faults_are_in_the_log_and_in_nothing_else() -> None:
    log = columns(flown().log, "pos.cobot.x", "quat.cobot.w")
    lossy = columns(flown(True, FlightFaults(dropped=0.1)).log, "pos.cobot.x", "quat.cobot.w")
    gone = np.isnan(lossy[:, 0])
    assert 0.03 < gone.mean() < 0.2 and np.array_equal(gone, np.isnan(lossy[:, 1]))
    first = int(np.argmax(gone))
    assert np.array_equal(lossy[:first], log[:first])
    again = columns(flown(True, FlightFaults(repeated=0.1)).log, "pos.cobot.x")[:, 0]
    assert 0.03 < np.mean(np.diff(again) == 0.0) < 0.2
    far = columns(flown(True, FlightFaults(outliers=0.05)).log, "pos.cobot.x")[:, 0]
    assert np.abs(far - log[:, 0]).max() > 0.05
    cheat, plain = flown(True, FlightFaults(privileged=True)).truth, flown().truth
    assert cheat.tracking_error != plain.tracking_error
    assert np.array_equal(cheat.thrust_noise, plain.thrust_noise)


def test_coloured_noise_has_its_size_and_its_memory() -> None:
    flight = flown(True, FlightFaults(colour=0.8))
    noise = columns(flight.log, "pos.cobot.x")[:, 0] - flight.truth.position[:, 0]
    assert np.std(noise) == pytest.approx(0.003, rel=0.35)
    assert 0.6 < np.corrcoef(noise[1:], noise[:-1])[0, 1] < 0.95


def test_the_bound_is_that_of_least_squares_with_known_motion() -> None:
    flyer, truth = shipped_free_flyer("space_cobot"), flown().truth
    M = information_of(flyer, truth)
    assert np.linalg.eigvalsh(M).min() > 0.0
    mass, rotational, offset = stated_errors(np.linalg.inv(M), truth.parameters)
    assert 0.0 < mass < 0.05 and 0.0 < rotational < 1e-2 and 0.0 < offset < 1e-2
    loud = replace(flyer, actuators=replace(flyer.actuators, noise=2.0 * flyer.actuators.noise))
    assert information_of(loud, truth) == pytest.approx(M / 4.0)


def test_a_step_between_samples_is_refused_with_what_is_possible() -> None:
    settings = FlightSettings(cycles=1, tracking=TrackingSettings(step=0.05))
    with pytest.raises(InvalidSetting, match="a multiple of"):
        fly(shipped_free_flyer("space_cobot"), reference(), (), settings)


@pytest.mark.parametrize("name", ["step", "position", "effort"])
def test_sizes_are_positive(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name} is positive"):
        TrackingSettings(**{name: 0.0})


def test_a_trajectory_of_other_coordinates_is_refused() -> None:
    trajectory = designed(True).trajectory
    with pytest.raises(InvalidSetting, match="position and attitude"):
        FlightReference(replace(trajectory, names=trajectory.names[:3]), np.zeros(3))
