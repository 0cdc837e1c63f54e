"""Rows of what slides: which they are, and that only they count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.certainty import BandwidthSearch, DelayFound, DelaySearch
from heft.dynamics import LINEAR_SCALE
from heft.information import Information
from heft.plants import Problem, RobotPlant
from heft.plants.sampling import sliding_rows
from heft.recordings import Recording
from heft.signals import Smoothing, Weak
from tests import plants
from tests.robots import FloatArray
from tests.test_friction import EPS, PANDA, robot_of, swing

SPEED, SETTLE, STEP = 0.05, 0.041, 0.002  # [rad/s, s, s]


def problem_of(name: str, **changes: object) -> Problem[RobotPlant]:
    robot = robot_of(name)
    logs = (swing(robot, 2500, 1200), swing(robot, 900))
    smoothing = Smoothing(corner=20.0, delay=0.0)
    return Problem(RobotPlant(robot), logs, smoothing, 2, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["planar", "coupled", PANDA])
def test_rows_count_where_all_that_rubs_on_a_joint_has_slid_and_will(name: str) -> None:
    """No drive that moves with the joint is slow, or turns, within the time to settle.

    A log's ends are no reversals, the ends of a silence are.
    """
    problem = problem_of(name)
    robot = problem.plant.robot
    counted = problem.sliding(SPEED, SETTLE).counted
    assert counted is not None
    for recording, rows in enumerate(counted):
        parts = [s for s in problem.samples() if s.recording == recording]
        time = np.concatenate([s.time for s in parts])
        index = np.concatenate([s.index for s in parts])
        velocity = np.concatenate([s.motion.velocity for s in parts], axis=1)
        w = np.array([d.ratio for d in robot.drives]) @ velocity
        slow = SPEED * np.array([LINEAR_SCALE if d.linear else 1.0 for d in robot.drives])
        way = np.where(np.abs(w) > slow[:, None], np.sign(w), 0.0)
        gap = np.flatnonzero(np.diff(time) > 1.0)
        edges = [*time[gap], *time[gap + 1]]
        for k in range(0, len(time), 7):
            near = np.abs(time - time[k]) < SETTLE + STEP
            far = all(abs(time[k] - t) >= SETTLE for t in edges)
            slides = (way[:, near] == way[:, [k]]).all(axis=1) & (way[:, k] != 0.0)
            for c, channel in enumerate(robot.measured):
                mine = [d for d, drive in enumerate(robot.drives) if drive.ratio[channel]]
                assert rows[index[k], c] == (far and slides[mine].all())


def test_all_rows_count_where_nothing_rubs() -> None:
    case = plants.case("free body by its pose")
    problem = Problem(case.plant, (case.recording(np.arange(0.0, 6.0, 0.01)),), Smoothing())
    counted = problem.sliding(SPEED, SETTLE).counted
    assert counted is not None
    for s in problem.samples():
        assert counted[s.recording][s.index].all()


def test_rows_that_count_do_not_move_with_the_delay() -> None:
    sliding = problem_of("planar").sliding(SPEED, SETTLE)
    assert sliding.delayed(0.02).counted is sliding.counted


@pytest.mark.parametrize("name", ["planar", "coupled"])
def test_information_is_that_of_the_rows_that_count(name: str) -> None:
    problem = problem_of(name, decimation=3)
    sliding = problem.sliding(SPEED, SETTLE)
    counted = sliding.counted
    assert counted is not None
    rows = [
        (problem.plant.rows(s, problem.base.kept).regressor, s.measured, counted[s.recording])
        for s in problem.samples()
    ]
    index = [s.index for s in problem.samples()]
    for c, triangle in enumerate(sliding.information().triangles):
        block = np.concatenate(
            [
                np.column_stack([Y[:, c], tau[:, c]])[mask[k, c]]
                for (Y, tau, mask), k in zip(rows, index, strict=True)
            ]
        )
        assert 50 < triangle.rows == len(block) < sum(len(k) for k in index)
        wide, length = triangle.spread(len(problem.labels)), np.linalg.norm(block, axis=0)
        bound = 4.0 * (len(block) + wide.shape[1]) * EPS * np.outer(length, length)
        assert (np.abs(wide.T @ wide - block.T @ block) <= bound + 1e-300).all()


def test_residuals_of_other_rows_do_not_count() -> None:
    """However large: here their torque is a hundred times what it was."""
    time = 0.005 * np.arange(1200)
    q = {"shoulder": np.sin(3.0 * time), "elbow": 0.7 * np.sin(2.0 * time + 1.0)}
    tau = np.random.default_rng(1).normal(size=(len(time), 2))

    def of(torque: FloatArray) -> Problem[RobotPlant]:
        named = {"shoulder": torque[:, 0], "elbow": torque[:, 1]}
        log = Recording.from_arrays(time, "log", q=q, tau=named)
        smoothing = Smoothing(corner=15.0, delay=0.0, trim=0.0)
        return Problem(RobotPlant(robot_of("planar")), (log,), smoothing, 1)

    sliding = of(tau).sliding(SPEED, SETTLE)
    assert sliding.counted is not None
    counted = sliding.counted[0]
    assert 0.5 < counted.mean() < 0.98
    loud = replace(of(np.where(counted, tau, 100.0 * tau)), counted=sliding.counted)
    values = np.zeros(len(sliding.labels))
    energy = sliding.residual_energy(values)
    assert (energy > 0.0).all()
    assert np.array_equal(loud.residual_energy(values), energy)
    every = replace(sliding, counted=(np.ones_like(counted),))
    assert every.residual_energy(values) == pytest.approx(of(tau).residual_energy(values))


def test_what_is_measured_later_is_weighed_where_it_stands_in_time() -> None:
    """As of a log whose torque is stamped that much earlier, its motion as it is."""
    time, by = 0.005 * np.arange(1200), 0.003
    q = {"shoulder": np.sin(3.0 * time), "elbow": 0.7 * np.sin(2.0 * time + 1.0)}

    def of(late: float) -> Problem[RobotPlant]:
        tau = {j: np.sin(w * (time + late)) for j, w in (("shoulder", 4.0), ("elbow", 9.0))}
        log = Recording.from_arrays(time, "log", q=q, tau=tau)
        smoothing = Smoothing(corner=5.0, delay=0.0)
        return Problem(RobotPlant(robot_of("planar")), (log,), smoothing, 1, weak=Weak())

    problem, wanted = of(0.0), of(by)
    looks = problem.later((0.0, by))
    assert looks is not None
    same, moved = looks
    assert moved.delay == by
    for one, before, found, true in zip(
        same.rows(), problem.rows(), moved.rows(), wanted.rows(), strict=True
    ):
        np.testing.assert_allclose(one.effort, before.effort, rtol=0, atol=1e-12)
        # What linear interpolation misses of the torque's curvature, alike at any time.
        np.testing.assert_allclose(found.effort, true.effort, rtol=0, atol=2e-4)
        assert np.abs(found.effort - before.effort).max() > 5e-3
        assert found.by_channel is before.by_channel
    differentiated = of(0.0).with_settings(weak=None)
    assert differentiated.later((by,)) is None  # nothing of it is kept
    for decimation in (1, 5):  # the second averages samples
        kept, true = (
            replace(of(x).with_settings(weak=None), keep_samples=True, decimation=decimation)
            for x in (0.0, by)
        )
        (later,) = kept.later((by,)) or ()
        assert later.delay == by
        # Summed up beside the samples' own, as by itself.
        for problem in (kept, later):
            own = Information.neutral(problem.labels, problem.channels)
            summed = problem.information()
            for s in problem.samples():
                rows = problem.plant.rows(s, problem.base.kept).regressor
                own = own + Information.from_rows(problem.labels, own.channels, rows, s.measured)
            for a, b in zip(own.triangles, summed.triangles, strict=True):
                A, B = a.spread(len(own.labels)), b.spread(len(own.labels))
                np.testing.assert_allclose(A.T @ A, B.T @ B, rtol=0, atol=1e-9)
        for found, own, aim in zip(later.samples(), kept.samples(), true.samples(), strict=True):
            # h²/8 of the second derivative
            np.testing.assert_allclose(found.measured, aim.measured, rtol=0, atol=2.6e-4)
            assert found.motion is own.motion
            assert np.abs(found.measured - own.measured).max() > 5e-3


def test_rows_about_another_point_are_those_made_anew() -> None:
    time, rng = 0.005 * np.arange(1200), np.random.default_rng(6)
    q = {"shoulder": np.sin(3.0 * time), "elbow": 0.7 * np.sin(2.0 * time + 1.0)}
    log = Recording.from_arrays(time, "log", q=q, tau={j: np.cos(v) for j, v in q.items()})
    plant, smoothing = RobotPlant(robot_of("planar")), Smoothing(corner=5.0, delay=0.0)
    problem = Problem(plant, (log,), smoothing, 1, weak=Weak())
    values = rng.normal(size=problem.space.matrix.shape[1])
    (wanted,) = problem.about(values).rows()
    (before,) = problem.rows()  # which are kept
    (found,) = problem.about(values).rows()
    np.testing.assert_allclose(found.regressor, wanted.regressor, rtol=0, atol=1e-12)
    assert np.abs(found.regressor - before.regressor).max() > 1e-2
    assert np.array_equal(found.effort, wanted.effort)


def test_samples_of_no_recording_count_nowhere() -> None:
    plant = RobotPlant(robot_of("planar"))
    (rows,) = sliding_rows((), plant, SPEED, SETTLE, [0.01])
    assert rows.shape == (0, 2)


def test_information_that_is_known_is_not_looked_at_again() -> None:
    slow, none = problem_of("planar"), DelayFound(0.0, 0.0, 1.0, 0.0)
    assert not slow.is_short(60_000)  # a quick look averages
    problem, thin = (p.sharpened(3.0) for p in (slow, problem_of("planar", decimation=3)))
    assert problem is not None and thin is not None
    assert problem.is_short(60_000) and not problem.is_short(4_000)
    assert not thin.is_short(60_000)
    information = problem.information()
    for search in (
        lambda p, i: DelaySearch().delay_error(p, none, information.rows, i)[1],
        lambda p, i: BandwidthSearch().cutoff_error(p, information.rows, i),
    ):
        looked = search(problem, None)
        for one, other in zip(looked, search(problem, information), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max())
