"""Laws of what a team doubts, believes and agrees on by means; the truth is MuJoCo's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from benchmarks.teams import scored, untared
from scipy.spatial.transform import Rotation

from heft.applications.cooperation import (
    AveragesMethod,
    ContactSignals,
    CooperativeMethod,
    Known,
    TeamBelief,
    TeamRobot,
)
from heft.applications.cooperation.method import CooperativeRun
from heft.applications.cooperation.window_stream import windows_of
from heft.applications.cooperation.windows import PoseBelief, composed, difference, moved
from heft.information import Graph, inertia
from heft.simulation import SimulatedTeam, Team, TeamMotion, TeamNoise
from tests.teams import SHORT, pose, signals

Array = np.ndarray[Any, np.dtype[np.float64]]

QUIET = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02)


@pytest.fixture(scope="module")
def team() -> SimulatedTeam:
    return SHORT.run(7)


def lying(signals: ContactSignals, sensor: str, lie: str) -> ContactSignals:
    """Return what a robot reads one sensor of which lies."""
    true = getattr(signals, sensor)
    lies = {
        "bias": true + np.array([0.6, 0.0, 0.0]),
        "scale": 2.0 * true,
        "swapped": true[:, [1, 0, 2]],
    }
    return replace(signals, **{sensor: lies[lie]})


@pytest.mark.parametrize("sensor", ["angular_velocity", "velocity", "acceleration"])
@pytest.mark.parametrize("lie", ["bias", "scale", "swapped"])
def test_a_robot_one_sensor_of_which_lies_is_left_out(sensor: str, lie: str) -> None:
    """It is named within 4 s, and poses and load are as sure as they say without it."""
    four = replace(SHORT, robots=4, duration=4.5)
    who = {"bias": 0, "scale": 2, "swapped": 3}[lie]
    team = four.run(30 + who)
    read = signals(team)
    read[who] = lying(read[who], sensor, lie)
    found = CooperativeMethod(every=20, longer=1.5).identify(read, Graph.ring(4))
    (doubt,) = found.known[-1].doubts
    assert (doubt.robot, doubt.sensor) == (who, sensor)
    assert next(k.time for k in found.known if k.doubts) < 4.0
    assert squared_error(team, found.known[-1]) < 2.5 and not found.changes
    for a, b in ((0, 1), (1, 3), (3, 2)):
        pose = found.known[-1].between(b, a)
        assert pose is not None
        R, t = team.pose(b, a)
        assert np.abs(pose[0] - R).max() < 0.06 and np.abs(pose[1] - t).max() < 0.06


def squared_error(team: SimulatedTeam, known: Known) -> float:
    """Return the normalized squared error of the ten parameters, over ten."""
    assert known.values is not None and known.covariance is not None
    truth = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
    off = known.values - inertia.from_body(*truth)
    return float(off @ np.linalg.solve(known.covariance, off)) / 10.0


@pytest.mark.parametrize("who", [0, 3])
def test_where_more_than_one_sensor_lies_the_others_poses_are_told_and_no_load(who: int) -> None:
    team = replace(SHORT, robots=5, duration=4.0).run(2)
    read = signals(team)
    for sensor in ("angular_velocity", "velocity", "acceleration"):
        read[who] = lying(read[who], sensor, "swapped")
    turned = read[who].velocity * np.array([1.0, -1.0, 1.0])
    read[who] = replace(read[who], velocity=turned)
    known = CooperativeMethod(every=1000).identify(read, Graph.ring(5)).known[-1]
    assert [(d.robot, d.sensor) for d in known.doubts] == [(who, None)]
    others = [k for k in range(5) if k != who]
    assert known.between(others[0], who) is None and known.values is None
    pose = known.between(others[3], others[0])
    assert pose is not None
    R, t = team.pose(others[3], others[0])
    assert np.abs(pose[0] - R).max() < 0.06 and np.abs(pose[1] - t).max() < 0.06


@pytest.mark.parametrize("robots", [2, 3, 5])
def test_where_nobody_lies_nobody_is_left_out(robots: int) -> None:
    for seed in range(4):
        team = replace(SHORT, robots=robots, duration=4.0).run(seed)
        found = CooperativeMethod(every=20).identify(signals(team), Graph.ring(robots))
        assert not any(k.doubts for k in found.known)


@cache
def four_read(seed: int) -> tuple[ContactSignals, ...]:
    """Return what each of four robots reads."""
    return tuple(signals(replace(SHORT, robots=4, duration=7.0).run(seed)))


@pytest.mark.parametrize("fault", ["gain", "offset", "none", "offset of a torque"])
def test_a_wrench_that_explains_what_is_left_over_is_named(fault: str) -> None:
    """Only the sum counts: an offset of a torque is the same wherever it is, and has no name."""
    for who in (0, 3):
        read = list(four_read(who))
        own = read[who]
        faults = {
            "gain": replace(own, force=1.2 * own.force, torque=1.2 * own.torque),
            "offset": replace(own, force=own.force + np.array([0.0, 3.0, 0.0])),
            "offset of a torque": replace(own, torque=own.torque + np.array([0.5, 0.0, 0.0])),
            "none": own,
        }
        read[who] = faults[fault]
        found = CooperativeMethod(every=30, longer=1.5).identify(read, Graph.ring(4))
        named = [k.wrench_doubt for k in found.known if k.wrench_doubt is not None]
        assert {d.robot for d in named} == ({who} if fault in ("gain", "offset") else set())
        if fault == "offset":
            assert all(d.offset == pytest.approx(3.0, abs=0.3) for d in named)
        elif fault != "none":
            assert found.known[-1].misfit > 1.2


def test_offsets_of_wrenches_are_estimated_with_the_load_and_outlive_it() -> None:
    """Contacts are fixed to the load: all offsets make one wrench, constant in its frame."""
    two = replace(SHORT, duration=8.0, changes=(5.0,), masses=(2.0, 1.2))
    squared = []
    for seed in range(5):
        team, rng = two.run(40 + seed), np.random.default_rng(seed)
        read, total = signals(team), np.zeros(6)
        for k, own in enumerate(read):
            moment, force = rng.normal(scale=0.2, size=3), rng.normal(scale=5.0, size=3)
            read[k] = replace(own, force=own.force + force, torque=own.torque + moment)
            R, t = team.pose(0, k)
            total += [*(R @ moment + np.cross(t, R @ force)), *(R @ force)]
        offsets = {k: np.repeat([0.2, 5.0], 3) for k in range(3)}
        belief = TeamBelief(offsets=offsets)
        found = CooperativeMethod(belief=belief).identify(read, Graph.ring(3))
        assert len(found.changes) == 1 and 5.0 < found.changes[0] < 5.5
        before = next(k for k in reversed(found.known) if k.time < found.changes[0])
        for known in (before, found.known[-1]):
            assert known.offset is not None
            off = known.offset[0] - total
            squared.append(off @ np.linalg.solve(known.offset[1], off) / 6.0)
        assert before.offset is not None and found.known[-1].offset is not None
        assert np.trace(found.known[-1].offset[1]) < np.trace(before.offset[1])
        assert squared_error(team, before) < 2.5
    assert 0.3 < np.mean(squared) < 1.7


def test_two_robots_are_nearly_as_sure_as_their_sensors_allow() -> None:
    """Weighed as if no noise cancelled from window to window it is 1.5 times the bound."""
    team = Team(2, duration=20.0, changes=(), masses=(2.0,), noise=QUIET).run(11)
    score = scored(team, untared(signals(team), 11))
    assert score is not None and score.bound is not None
    assert 0.95 < np.sqrt(np.mean((score.std / score.bound) ** 2)) < 1.4
    assert np.mean((score.error / score.std) ** 2) < 2.5


def test_slow_motion_leads_to_no_false_optimum_and_wrenches_tell_poses() -> None:
    """Heavy moments of inertia at poses slightly wrong explain nearly as much."""
    slow = replace(SHORT, motion=TeamMotion(0.1, 0.02), noise=QUIET, duration=8.0).run(100)
    known = CooperativeMethod(every=1000).identify(signals(slow), Graph.ring(3)).known[-1]
    assert known.misfit < 1.2 and squared_error(slow, known) < 3.0
    by_motion, by_both = [], []
    for seed in range(100, 103):
        team = replace(SHORT, motion=TeamMotion(0.3, 0.3), duration=8.0).run(seed)
        parts = windows_of(signals(team))
        run = CooperativeRun(CooperativeMethod(every=1000), parts, Graph.ring(3))
        for k, time in enumerate(parts[0].time):
            run.step(np.hstack([np.hstack([p.motion[k], p.wrench[k]]) for p in parts]), time)
        run.settle()
        for found, poses in ((by_motion, run.agreed.poses), (by_both, run.poses)):
            found += [difference(team.pose(j, 0), poses[j])[3:] for j in (1, 2)]
    assert np.square(by_both).mean() < 0.5 * np.square(by_motion).mean()


def test_robots_tell_one_mass_of_what_is_no_body_and_none_of_what_is_far_from_one() -> None:
    values = inertia.from_body(2.0, np.array([0.5, 0.0, 0.0]), np.diag([0.1, 0.1, -0.5]))
    poses = ((np.eye(3), np.zeros(3)), pose(4))
    near = Known(1.0, poses, values, 10.0 * np.eye(10), 1.0)
    one, other = near.load(0), near.load(1)
    assert one is not None and other is not None and one.mass != 2.0
    assert one.mass == pytest.approx(other.mass, abs=1e-12)
    moments = [np.linalg.eigvalsh(load.inertia) for load in (one, other)]
    assert moments[0] == pytest.approx(moments[1], abs=1e-12)
    sure = replace(near, covariance=np.eye(10))
    assert sure.load(0) is None and sure.load(1) is None


def known_of(team: SimulatedTeam, std: float) -> TeamBelief:
    """Return mass, a centre and all poses, in a frame of nobody's, as sure as is said."""
    mass, com, _ = team.bodies[0].seen_from(team.rotations[1], team.origins[1])
    frame = pose(11)
    poses = {k: PoseBelief(composed(team.pose(k, 0), frame), np.eye(6) / std**2) for k in range(3)}
    return TeamBelief(poses, (mass + 0.1, std), {1: (com + 0.02, std)})


def test_what_is_known_for_sure_is_fixed_and_what_is_unsure_not_said(team: SimulatedTeam) -> None:
    read, graph = signals(team), Graph.ring(3)

    def known(belief: TeamBelief) -> Known:
        return CooperativeMethod(every=1000, belief=belief).identify(read, graph).known[-1]

    nothing, unsure = known(TeamBelief()), known(known_of(team, 1e7))
    sure = known(known_of(team, 1e-7))
    for found in (nothing, unsure, sure):
        assert found.values is not None and found.covariance is not None
    assert nothing.values is not None and unsure.values is not None
    assert np.abs(unsure.values - nothing.values).max() < 1e-6
    assert unsure.covariance == pytest.approx(nothing.covariance, rel=1e-6, abs=1e-12)
    load, mine = sure.load(1), nothing.load(1)
    assert load is not None and mine is not None and load.std is not None and mine.std is not None
    mass, com, _ = team.bodies[0].seen_from(team.rotations[1], team.origins[1])
    assert abs(load.mass - mass - 0.1) < 1e-6 and np.abs(load.com - com - 0.02).max() < 1e-6
    assert (load.std[:4] < 1e-6).all()
    wider = np.sqrt(sure.misfit)  # as what is known for sure here is wrong, and says so
    assert wider > 1.2 and (load.std[4:] < wider * mine.std[4:]).all()
    for j in (1, 2):
        found_pose = sure.between(j, 0)
        assert found_pose is not None
        R, t = team.pose(j, 0)
        assert np.abs(found_pose[0] - R).max() < 1e-6 and np.abs(found_pose[1] - t).max() < 1e-6


def test_a_mass_that_is_known_tells_what_the_conditional_mean_does(team: SimulatedTeam) -> None:
    read, graph = signals(team), Graph.ring(3)
    whole = CooperativeMethod(every=1000).identify(read, graph).known[-1]
    belief = TeamBelief(mass=(2.01, 1e-6))
    given = CooperativeMethod(every=1000, belief=belief).identify(read, graph).known[-1]
    assert whole.values is not None and whole.covariance is not None and given.values is not None
    gain = whole.covariance[:, 0] / whole.covariance[0, 0]
    expected = whole.values + gain * (2.01 - whole.values[0])
    std = np.sqrt(np.diag(whole.covariance))
    assert np.abs(given.values - expected)[1:] == pytest.approx(np.zeros(9), abs=1.0 * std.max())
    assert (np.abs(given.values - expected) < 0.5 * std).all()


def test_what_is_known_of_poses_and_load_keeps_intervals_true() -> None:
    squared = []
    for seed in range(5):
        team = replace(SHORT, duration=4.0).run(seed)
        rng = np.random.default_rng(seed)
        poses = {}
        for k in range(3):
            off = 0.01 * rng.standard_normal(6)
            poses[k] = PoseBelief(moved(team.pose(k, 0), off), np.eye(6) / 0.01**2)
        belief = TeamBelief(poses, (2.0 + 0.01 * rng.standard_normal(), 0.01))
        method = CooperativeMethod(every=1000, belief=belief)
        known = method.identify(signals(team), Graph.ring(3)).known[-1]
        squared.append(squared_error(team, known))
    assert 0.4 < np.mean(squared) < 1.7


def test_poses_that_are_known_need_no_motion_that_tells_them() -> None:
    """A load that turns about no axis tells none, but its mass once they are known."""
    team = replace(SHORT, motion=TeamMotion(0.7, 0.0), duration=5.0).run(3)
    belief = replace(known_of(team, 1e-3), mass=None, centres={})
    known = CooperativeMethod(every=1000, belief=belief).identify(signals(team), Graph.ring(3))
    assert known.known[-1].between(1, 0) is not None and known.known[-1].unplaced == ()
    assert known.known[-1].values is None  # no inertia


def test_what_a_file_knows_is_what_frames_are() -> None:
    """A frame turned by its rotation vector and put at its position; both unsure together."""
    rng = np.random.default_rng(3)
    turn, at = rng.normal(size=3), rng.normal(size=3)
    robot = TeamRobot(
        "a", position=tuple(at), position_std=0.02, rotation=tuple(turn), rotation_std=0.01
    )
    assert robot.pose is not None
    R = Rotation.from_rotvec(turn).as_matrix()
    assert np.allclose(robot.pose.pose[0], R.T)
    assert np.allclose(R @ robot.pose.pose[1] + at, 0.0)
    off = []
    for _ in range(4000):
        other_R = R @ Rotation.from_rotvec(0.01 * rng.normal(size=3)).as_matrix()
        other = (other_R.T, -other_R.T @ (at + 0.02 * rng.normal(size=3)))
        off.append(difference(robot.pose.pose, other))
    assert np.allclose(np.cov(np.array(off).T) @ robot.pose.information, np.eye(6), atol=0.2)


@pytest.mark.parametrize("untared", [False, True])
def test_means_alone_tell_a_large_team_what_all_windows_do(untared: bool) -> None:
    large = replace(SHORT, robots=12, masses=(8.0,), noise=TeamNoise(0.05, 0.05, 0.1, 0.2, 0.05))
    offsets, squared = np.repeat([0.05, 1.0], 3) * untared, []
    for seed in (1, 2):
        team = replace(large, duration=4.0).run(seed)
        graph, read = Graph.grid(3, 4), []
        rng = np.random.default_rng(seed)
        for own in signals(team):
            off = rng.normal(size=6) * offsets
            read.append(replace(own, torque=own.torque + off[:3], force=own.force + off[3:]))
        parts = windows_of(read)
        found = AveragesMethod(40, offsets=tuple(offsets)).identify(parts, graph)
        assert found.apart < 1e-6
        belief = TeamBelief(offsets=dict.fromkeys(range(12), offsets) if offsets.any() else {})
        whole = CooperativeMethod(every=1000, belief=belief).identify(read, graph).known[-1]
        for robot in (0, 7):
            mine, central = found.load(robot), whole.load(robot)
            assert central is not None and central.std is not None and mine.std is not None
            assert (np.abs(mine.numbers - central.numbers) < mine.std).all()
            # Means know nothing of what wrenches tell of poses, nor of noise that cancels in time
            assert (central.std < 1.05 * mine.std).all() and (mine.std < 3.0 * central.std).all()
        mass, com, about = team.bodies[0].seen_from(team.rotations[7], team.origins[7])
        load = found.load(7)
        off = inertia.from_body(load.mass, load.com, load.inertia)
        off = off - inertia.from_body(mass, com, about)
        squared.append(off @ np.linalg.solve(load.covariance, off) / 10.0)
    assert 0.2 < np.mean(squared) < 2.0
