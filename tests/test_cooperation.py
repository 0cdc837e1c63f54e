"""Laws of several robots that hold one load; the truth is MuJoCo's."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from heft.applications.cooperation import (
    ContactSignals,
    CooperativeMethod,
    CooperativeResult,
    PaperMethod,
    TeamFile,
    TeamRobot,
    identify_team_files,
    simulate_team_files,
)
from heft.applications.cooperation import results as team_results
from heft.applications.cooperation.clocks import ClockOffset, offset_of_squares
from heft.applications.cooperation.method import CooperativeRun
from heft.applications.cooperation.node import TeamSolver
from heft.applications.cooperation.paper import estimate_map, observation
from heft.applications.cooperation.window_stream import (
    WindowSettings,
    noise_of,
    slope_weights,
    windows_of,
)
from heft.applications.cooperation.windows import (
    SQUARES,
    MotionPair,
    composed,
    inverse,
    load_tensor,
    motion_map,
    motion_slopes,
    moved,
    wrench_map,
    wrench_slopes,
)
from heft.cli import main
from heft.errors import InvalidRecording, InvalidSetting, MissingSignal
from heft.estimators import TwistInformation
from heft.estimators.dual_quaternions import difference_matrix, pose_of, product
from heft.information import Graph, averaged, consensus_maps, inertia
from heft.recordings.formats.registry import write_table
from heft.recordings.formats.table import Table
from heft.recordings.recording import Recording
from heft.simulation import SimulatedTeam, Team, TeamMotion, TeamNoise
from tests.teams import SHORT, pose, signals

Array = np.ndarray[Any, np.dtype[np.float64]]
NONE = TeamNoise(*[0.0] * 5)


@pytest.fixture(scope="module")
def team() -> SimulatedTeam:
    return SHORT.run(7)


def test_quaternions_multiply_as_rotations_do() -> None:
    one, other = Rotation.random(2, random_state=1)
    made = product(one.as_quat(scalar_first=True), other.as_quat(scalar_first=True))
    assert np.allclose(
        Rotation.from_quat(made, scalar_first=True).as_matrix(), (one * other).as_matrix()
    )


def test_twists_of_one_body_leave_nothing_of_its_dual_quaternion() -> None:
    """(14): H(ω) q_r = 0 and H(v) q_r + H(ω) q_d = 0."""
    R, t = pose(2)
    rng = np.random.default_rng(0)
    omega, v = rng.normal(size=(2, 50, 3))
    omega_j = omega @ R.T
    v_j = v @ R.T + np.cross(t, omega_j)
    q = Rotation.from_matrix(R).as_quat(scalar_first=True)
    dual = 0.5 * product(np.array([0.0, *t]), q)
    turning, moving = difference_matrix(omega, omega_j), difference_matrix(v, v_j)
    assert np.abs(turning @ q).max() < 1e-12
    assert np.abs(moving @ q + turning @ dual).max() < 1e-12
    found_R, found_t = pose_of(q, dual)
    assert np.allclose(found_R, R) and np.allclose(found_t, t)
    found_R, found_t = TwistInformation.of(omega, v, omega_j, v_j).pose()
    assert np.abs(found_R - R).max() < 1e-12 and np.abs(found_t - t).max() < 1e-12


def test_what_twists_tell_adds() -> None:
    data = np.random.default_rng(3).normal(size=(4, 20, 3))
    whole = TwistInformation.of(*data)
    parts = TwistInformation.of(*data[:, :7]) + TwistInformation.of(*data[:, 7:])
    assert np.allclose(whole.turning, parts.turning) and np.allclose(whole.moving, parts.moving)


def test_the_printed_weight_of_the_pose_filter_is_singular() -> None:
    """H(a, b) q is orthogonal to q whatever the noise, so that its covariance has no inverse."""
    rng = np.random.default_rng(4)
    q = rng.normal(size=4)
    rows = difference_matrix(*rng.normal(size=(2, 400, 3))) @ q
    assert np.abs(rows @ q).max() < 1e-12
    assert np.linalg.matrix_rank(np.cov(rows.T), tol=1e-10) == 3


def test_before_any_twist_frames_are_believed_parallel() -> None:
    assert np.array_equal(TwistInformation().rotational, [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("k", range(3))
def test_a_rotation_that_one_axis_leaves_open_stays_near_what_was_believed(k: int) -> None:
    axis = np.tile(np.eye(3)[k], (10, 1))
    zero = np.zeros((10, 3))
    R, _ = TwistInformation.of(axis, zero, axis, zero).pose()
    assert np.allclose(R, np.eye(3), atol=1e-9)


@pytest.mark.parametrize("graph", [Graph.ring(5), Graph.grid(2, 3)], ids=["ring", "grid"])
def test_consensus_in_own_coordinates_tends_to_the_mean(graph: Graph) -> None:
    rng = np.random.default_rng(5)
    poses = [pose(k) for k in range(graph.count)]
    between = {
        (i, j): composed(poses[i], inverse(poses[j]))
        for i in range(graph.count)
        for j in range(graph.count)
    }
    edges = {(i, j) for a, b in graph.edges for i, j in ((a, b), (b, a))}
    maps = consensus_maps({key: between[key] for key in edges})
    held = rng.normal(size=(graph.count, 2, 6))
    found = averaged(held, maps, graph, 400, 0.25)
    for i in range(graph.count):
        own = [
            held[j] @ consensus_maps({(j, i): between[j, i]})[i, j].T
            for j in range(graph.count)
            if j != i
        ]
        mean = (held[i] + sum(own)) / graph.count
        assert np.abs(found[i] - mean).max() < 1e-9


def test_a_graph_that_falls_apart_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="2 of 4"):
        Graph(4, ((0, 1), (2, 3)))


@pytest.mark.parametrize("exact", [motion_map, wrench_map])
def test_maps_between_frames_are_a_group(exact: Any) -> None:
    one, other = pose(1), pose(2)
    assert np.allclose(exact(composed(other, one)), exact(other) @ exact(one))
    assert np.allclose(exact(inverse(one)) @ exact(one), np.eye(len(exact(one))))


@pytest.mark.parametrize(
    ("exact", "slopes"), [(motion_map, motion_slopes), (wrench_map, wrench_slopes)]
)
def test_slopes_of_maps_are_by_turn_and_shift(exact: Any, slopes: Any) -> None:
    own, small = pose(3), 1e-6 * np.eye(6)
    apart = [(exact(moved(own, s)) - exact(moved(own, -s))) / 2e-6 for s in small]
    assert np.allclose(slopes(own), apart, rtol=0.0, atol=1e-8)


def test_windows_of_one_body_are_the_same_in_every_frame(team: SimulatedTeam) -> None:
    """Real accelerometers of MuJoCo: s' = R s + t × R α − ω' × (ω' × t)."""
    parts = windows_of(signals(team, exact=True), WindowSettings(), NONE)
    for j in (1, 2):
        moved = parts[j].moved(team.pose(0, j)).motion
        assert np.abs(moved - parts[0].motion).max() < 2e-2  # sums for integrals
        assert np.abs(moved[:, :6] - parts[0].motion[:, :6]).max() < 1e-12


def test_a_windows_load_is_newtons_and_eulers(team: SimulatedTeam) -> None:
    rng = np.random.default_rng(1)
    a, omega, alpha = rng.normal(size=(3, 1, 3))
    squares = [
        omega[0][i] * omega[0][k] for i, k in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    ]
    motion = np.array([*omega[0], 0.0, 0.0, 0.0, *alpha[0], *squares, *a[0]])
    made = np.einsum("k,kij->ij", motion, load_tensor())
    expected = inertia.wrench_regressor(a, omega, alpha)[0]
    assert np.allclose(made, expected[[3, 4, 5, 0, 1, 2]])
    parts = windows_of(signals(team, exact=True), WindowSettings(), NONE)
    total = sum(p.moved(team.pose(0, k)).wrench for k, p in enumerate(parts))
    truth = inertia.from_body(*team.bodies[0].seen_from(team.rotations[0], team.origins[0]))
    predicted = np.einsum("nk,kij,j->ni", parts[0].motion, load_tensor(), truth)
    assert np.abs(predicted - total).max() < 2e-3 * np.abs(total).max()


def test_the_stated_noise_of_windows_is_that_of_logs(team: SimulatedTeam) -> None:
    log, exact = signals(team)[0], signals(team, exact=True)[0]
    noise = noise_of(log, 0.3)
    assert np.allclose(list(vars(noise).values()), 0.4, rtol=0.1)
    (one,) = windows_of([log], WindowSettings(stride=0.3), noise)
    (other,) = windows_of([exact], WindowSettings(stride=0.3), NONE)
    off = (one.motion - other.motion) / np.sqrt(np.diag(one.spread))
    assert np.mean(off**2) == pytest.approx(1.0, abs=0.25)


def test_the_papers_observation_holds_for_real_accelerometers(team: SimulatedTeam) -> None:
    """(30) without the rows that repeat others, and without ω×v, which (8) forgets."""
    exact = {kind: values[0] for kind, values in team.exact.items()}
    alpha = np.gradient(exact["omega"], team.time, axis=0)
    poses = {(k, 0): team.pose(k, 0) for k in (1, 2)}
    wrench = np.hstack([exact["torque"], exact["force"]])
    for (k, _), D in zip(poses, consensus_maps(poses).values(), strict=True):
        wrench = wrench + np.hstack([team.exact["torque"][k], team.exact["force"][k]]) @ D.T
    mass, com, about = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
    x = np.array([*com, *np.diag(about), about[0, 1], about[0, 2], about[1, 2], 1.0 / mass])
    H, y = observation(exact["omega"], alpha, exact["acc"], wrench)
    inner = slice(2, -2)
    assert np.abs(H @ x - y)[inner].max() < 5e-3 * np.abs(y).max()
    printed = y + np.hstack([0.0 * y[:, :3], np.cross(exact["omega"], exact["vel"])])
    assert np.abs(H @ x - printed)[inner].max() > 0.05 * np.abs(y).max()


def test_both_methods_find_the_truth_where_sensors_are_exact() -> None:
    still = replace(SHORT, noise=TeamNoise(*[1e-6] * 5), duration=12.0)
    team, graph = still.run(3), Graph.ring(3)
    mass, com, about = team.bodies[0].seen_from(team.rotations[1], team.origins[1])
    known = CooperativeMethod().identify(signals(team), graph).known[-1]
    load = known.load(1)
    assert load is not None and abs(load.mass - mass) < 1e-3 * mass
    assert np.abs(load.com - com).max() < 1e-3 and np.abs(load.inertia - about).max() < 5e-3
    for j in (1, 2):
        found = known.between(j, 0)
        assert found is not None
        R, t = found
        true_R, true_t = team.pose(j, 0)
        assert np.abs(R - true_R).max() < 1e-4 and np.abs(t - true_t).max() < 1e-4
    paper = PaperMethod(noise=1e-3).identify(signals(team), graph).at(12.0, 1)
    assert abs(paper.mass - mass) < 1e-2 * mass and np.abs(paper.com - com).max() < 1e-2


def clock_offset(*pair: ContactSignals) -> ClockOffset:
    """Return by how much later the second one's clock is than the first one's."""
    squares = []
    for part in windows_of(pair):
        good = np.isfinite(part.motion).all(axis=1)
        squares.append((part.time[good], part.motion[good, SQUARES][:, :3].sum(axis=1)))
    return offset_of_squares(*squares)


@pytest.mark.parametrize("offset", [0.012, -0.15])
def test_a_clock_that_differs_is_found_and_set(offset: float) -> None:
    team = replace(SHORT, noise=TeamNoise(0.02, 0.02, 0.1, 0.1, 0.1), duration=14.0).run(9)
    one, other, third = signals(team)
    late = replace(other, time=other.time + offset)
    found = clock_offset(one, late)
    assert abs(found.offset - offset) < 4.0 * found.std < 0.01
    torn = late.part((late.time < 6.0) | (late.time > 9.0))  # nothing is compared across a hole
    without = clock_offset(one, torn)
    assert abs(without.offset - offset) < 4.0 * without.std < 5.0 * found.std
    stated = TeamFile(tuple(TeamRobot(f"r{k}") for k in range(3)), Graph.ring(3))
    for read, named in ([one, late, third], [1]), ([one, other, third], []):
        team_found = team_results.identify_team(stated, read)
        assert list(team_found.clocks) == named and team_found.verdict == "good"
        for clock in team_found.clocks.values():
            assert abs(clock.offset - offset) < 4.0 * found.std


def test_clocks_that_set_one_another_to_and_fro_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is found of clocks, and however often, all windows are taken and a load is told."""
    asked: list[int] = []

    def never_settled(self: TeamSolver, replica: object, numbers: range, share: float) -> bool:
        asked.append(numbers.stop)
        return True

    monkeypatch.setattr(TeamSolver, "_compare_wrenches", never_settled)
    read = signals(SHORT.run(1))
    stated = TeamFile(tuple(TeamRobot(f"r{k}") for k in range(3)), Graph.ring(3))
    found = team_results.identify_team(stated, read)
    assert len(asked) > 5 and found.load(0) is not None


def test_clocks_are_as_sure_as_they_say() -> None:
    off = []
    for seed in range(15):
        one, other = signals(replace(SHORT, robots=2, duration=10.0).run(seed))
        found = clock_offset(one, other)
        off.append(found.offset / found.std)
    assert 0.4 < np.sqrt(np.mean(np.square(off))) < 1.6


def test_forces_at_points_alone_tell_the_load() -> None:
    sure = TeamNoise(*[1e-6] * 4, 0.0)
    exact = replace(SHORT, robots=4, duration=12.0, points=True, noise=sure).run(3)
    assert all(np.all(k.torque == 0.0) for k in signals(exact))
    known = CooperativeMethod().identify(signals(exact), Graph.ring(4)).known[-1]
    truth = inertia.from_body(*exact.bodies[0].seen_from(exact.rotations[0], exact.origins[0]))
    assert known.values is not None and np.abs(known.values - truth).max() < 5e-3
    noisy = replace(SHORT, robots=4, duration=12.0, points=True).run(3)
    known = CooperativeMethod().identify(signals(noisy), Graph.ring(4)).known[-1]
    assert known.values is not None and known.covariance is not None
    off = known.values - truth
    assert off @ np.linalg.solve(known.covariance, off) < 30.0  # χ² of ten: 1 in 1000
    with pytest.raises(InvalidSetting, match="three"):
        replace(SHORT, robots=2, points=True)


@pytest.mark.parametrize(
    "motion",
    [TeamMotion(0.0, 0.0), TeamMotion(0.7, 0.0), TeamMotion(0.1, 0.02)],
    ids=["at rest", "without turning", "slower than the noise"],
)
def test_noise_alone_tells_neither_poses_nor_load(motion: TeamMotion) -> None:
    told = signals(replace(SHORT, motion=motion, duration=5.0).run(0))
    found = CooperativeMethod(every=30).identify(told, Graph.ring(3))
    last = found.known[-1]
    assert last.poses is None and last.values is None and last.unplaced == (1, 2)
    assert last.load(0) is None and last.between(0, 1) is None and not found.changes


@pytest.mark.parametrize("motion", [TeamMotion(0.1, 0.06), TeamMotion(0.3, 0.3)])
def test_a_load_that_weak_motion_tells_is_as_sure_as_it_says(motion: TeamMotion) -> None:
    """Poses known to centimetres only: their part of the load's covariance outweighs the rest."""
    noise = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02) if motion.turning < 0.1 else TeamNoise()
    squared = []
    for seed in range(100, 105):
        team = replace(SHORT, motion=motion, noise=noise, duration=8.0).run(seed)
        known = CooperativeMethod(every=1000).identify(signals(team), Graph.ring(3)).known[-1]
        if known.values is None or known.covariance is None:
            continue
        truth = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
        off = known.values - inertia.from_body(*truth)
        squared.append(off @ np.linalg.solve(known.covariance, off) / 10.0)
    assert len(squared) >= 3
    assert 0.3 < np.mean(squared) < 1.5


def test_poses_are_estimated_once_there_are_windows_enough_and_then_ever_more(
    monkeypatch: pytest.MonkeyPatch, team: SimulatedTeam
) -> None:
    method, asked = CooperativeMethod(), [0]

    def _pose(run: CooperativeRun, windows: int) -> None:
        run.posed = windows
        asked.append(windows)

    monkeypatch.setattr(CooperativeRun, "_pose", _pose)
    parts = windows_of(signals(team))
    run = CooperativeRun(method, parts, Graph.ring(3))
    for k, time in enumerate(parts[0].time):
        run.step(np.hstack([np.hstack([p.motion[k], p.wrench[k]]) for p in parts]), float(time))
    for last, now in pairwise(asked):
        assert now == max(method.first, np.ceil(method.longer * last))
    assert len(asked) > 3


def test_before_anything_is_known_nothing_is() -> None:
    found = CooperativeMethod().identify(signals(SHORT.run(1)), Graph.ring(3))
    assert found.at(0.0).poses is None and found.at(0.0).load(0) is None
    assert found.at(4.0).load(0) is not None


LEVEL = replace(SHORT, planar=True, duration=8.0)


def test_a_plane_is_told_by_what_is_in_it() -> None:
    """A floor carries the rest, and there is no turning about a second axis."""
    team = replace(LEVEL, noise=TeamNoise(*[0.0] * 5)).run(3)
    known = CooperativeMethod(planar=True, every=1000).identify(signals(team), Graph.ring(3))
    load = known.known[-1].load(1)
    mass, com, about = team.bodies[0].seen_from(team.rotations[1], team.origins[1])
    assert load is not None and np.isnan(load.com[2]) and np.isnan(load.inertia[0, 0])
    found = np.array([load.mass, *load.com[:2], load.inertia[2, 2]])
    assert np.abs(found - [mass, *com[:2], about[2, 2]]).max() < 1e-9
    between = known.known[-1].between(1, 0)
    assert between is not None
    for mine, true in zip(between, team.pose(1, 0), strict=True):
        assert np.abs(mine - true).max() < 1e-9


@pytest.mark.parametrize("points", [False, True])
def test_without_noise_nothing_is_off(points: bool) -> None:
    """Sums of samples stand for integrals to far beyond their second order."""
    none = TeamNoise(*[0.0] * 5)
    team = replace(SHORT, robots=4, duration=6.0, points=points, noise=none).run(3)
    known = CooperativeMethod(every=1000).identify(signals(team), Graph.ring(4)).known[-1]
    truth = inertia.from_body(*team.bodies[0].seen_from(team.rotations[0], team.origins[0]))
    assert known.values is not None and np.abs(known.values - truth).max() < 1e-8
    between = known.between(1, 0)
    assert between is not None
    for mine, true in zip(between, team.pose(1, 0), strict=True):
        assert np.abs(mine - true).max() < 1e-9


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_slopes_of_a_window_are_means_of_derivatives(jitter: float) -> None:
    """Of polynomials exactly, and hardly more noisy than those of a continuous signal."""
    rng = np.random.default_rng(1)
    time = 0.01 * (np.arange(30) + 0.5 + jitter * rng.uniform(-1.0, 1.0, 30))
    weight = 1.0 - np.cos(2.0 * np.pi * time / 0.3)
    weight /= weight.sum()
    smooth = 2.0 * np.pi / (30 * 0.3) * np.sin(2.0 * np.pi * time / 0.3)
    slope = slope_weights(time, weight, smooth)
    for power in range(13):
        x = (time - 0.15) / 0.15
        rate = power * x ** max(power - 1, 0) / 0.15
        assert abs(slope @ x**power + weight @ rate) < 1e-10
    assert slope @ slope < (1.01 if not jitter else 1.2) * smooth @ smooth


def test_a_load_in_a_plane_is_as_sure_as_it_says() -> None:
    squared = []
    for seed in range(6):
        team = replace(LEVEL, noise=TeamNoise()).run(seed)
        if seed == 0:  # in space one axis of turning tells no poses
            whole = CooperativeMethod(every=1000).identify(signals(team), Graph.ring(3))
            assert whole.known[-1].unplaced == (1, 2)
        method = CooperativeMethod(planar=True, every=1000)
        known = method.identify(signals(team), Graph.ring(3)).known[-1]
        assert known.values is not None and known.covariance is not None
        truth = team.bodies[0].seen_from(team.rotations[0], team.origins[0])
        off = known.values - inertia.from_body(*truth)[[0, 1, 2, 9]]
        squared.append(off @ np.linalg.solve(known.covariance, off) / 4.0)
    assert 0.5 < np.mean(squared) < 1.7


def test_a_planar_team_goes_through_its_files(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(
        "robots = 3\nplanar = true\n[simulation]\nduration = 8.0\nmasses = [2.0]\nchanges = []\n"
    )
    simulate_team_files(tmp_path / "team.toml", tmp_path / "run", 3)
    found = identify_team_files(tmp_path / "run", tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "team.json").read_text())["robots"]
    assert [r["load"]["com_m"][2] for r in stored] == [None] * 3 and "nan" not in found.text()
    assert "nan" not in (tmp_path / "out" / "report.html").read_text().lower().replace("nano", "")
    with pytest.raises(InvalidSetting, match="plane"):
        identify_team_files(tmp_path / "run", method="paper")


def test_a_pose_is_as_sure_as_it_says() -> None:
    squared, misfits = [], []
    for seed in range(12):
        team = replace(SHORT, robots=2, duration=4.0).run(seed)
        one, other = windows_of(signals(team))
        both = np.hstack([one.motion, other.motion])
        spreads = (one.spread, other.spread)
        found = MotionPair(both, spreads, len(both), one.overlap).estimate()
        assert found.covariance is not None
        R, t = team.pose(1, 0)
        turn = Rotation.from_matrix(found.pose[0] @ R.T).as_rotvec()
        off = np.array([*turn, *(found.pose[1] - t)])
        squared.append(off @ np.linalg.solve(found.covariance, off) / 6.0)
        misfits.append(found.misfit)
    assert 0.6 < np.mean(squared) < 1.6
    assert 0.7 < np.mean(misfits) < 1.4


@pytest.mark.parametrize(
    "kind", [{"planar": True}, {"planar": True, "points": True}, {"points": True}]
)
def test_offsets_and_late_wrenches_are_told_in_a_plane_and_at_points(kind: dict[str, bool]) -> None:
    quiet = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02)
    team = replace(SHORT, duration=12.0, noise=quiet, **kind).run(3)
    read, rng, late = [], np.random.default_rng(1), (0.02, 0.0, 0.012)
    for own, delay in zip(signals(team), late, strict=True):
        of_past = {
            n: CubicSpline(own.time, v)(own.time - delay)
            for n, v in (("force", own.force), ("torque", own.torque))
        }
        read.append(replace(own, **of_past))
        read[-1] = replace(read[-1], force=read[-1].force + 2.0 * rng.normal(size=3))
    robots = tuple(TeamRobot(f"r{k}") for k in range(3))
    stated = TeamFile(robots, Graph.ring(3), planar="planar" in kind)
    found = team_results.identify_team(stated, read)
    load, (mass, com, _) = (
        found.load(0),
        team.bodies[0].seen_from(team.rotations[0], team.origins[0]),
    )
    assert found.verdict == "good" and set(found.delays) == {0, 2}
    for k, delay in found.delays.items():
        assert abs(delay.offset - late[k]) < 4.0 * delay.std < 4e-3
    assert load is not None and load.std is not None
    off = (load.numbers[:4] - [mass, *com]) / load.std[:4]
    assert np.nanmax(np.abs(off)) < 3.5 and load.std[0] < 0.03


def test_forces_of_two_points_alone_are_refused() -> None:
    team = replace(SHORT, robots=2).run(1)
    read = [replace(own, torque=np.zeros_like(own.torque)) for own in signals(team)]
    stated = TeamFile((TeamRobot("left"), TeamRobot("right")), Graph.ring(2))
    with pytest.raises(InvalidSetting, match="about the line between") as refused:
        team_results.identify_team(stated, read)
    assert "planar = true" in (refused.value.cure or "")


def test_noise_that_is_understated_makes_no_load_surer(team: SimulatedTeam) -> None:
    """What windows see beyond white noise, of coarse numbers say, is in the deviations."""
    parts = windows_of(signals(team))
    stds = []
    for share in (1.0, 0.75):
        less = [
            replace(p, spread=share * p.spread, wrench_spread=share * p.wrench_spread)
            for p in parts
        ]
        run = CooperativeRun(CooperativeMethod(every=1000), less, Graph.ring(team.count))
        for rows in zip(*(np.hstack([p.motion, p.wrench]) for p in parts), strict=True):
            run.step(np.concatenate(rows), 3.0)
        load = run.result().known[-1].load(0)
        assert load is not None and load.std is not None
        stds.append(load.std)
    assert np.all(np.abs(stds[1] / stds[0] - 1.0) < 0.05)


def test_a_lighter_load_is_told_at_once_and_the_same_load_never() -> None:
    team = Team(robots=3, duration=12.0, changes=(8.0,), masses=(2.0, 1.2)).run(5)
    found = CooperativeMethod().identify(signals(team), Graph.ring(3))
    assert len(found.changes) == 1 and 0.0 < found.changes[0] - 8.0 < 0.3
    told: Any = SimpleNamespace(result=found, changes=found.changes)
    time, mass, *_ = team_results._history(told)  # which does not ramp from one to the other
    (gap,) = np.flatnonzero(np.isnan(mass))
    assert time[gap] == found.changes[0] and np.all(np.diff(time) >= 0.0)
    assert mass[gap - 1] == pytest.approx(2.0, abs=0.1) and len(mass) > gap + 2
    before, after = found.at(8.0).values, found.known[-1].values
    assert before is not None and abs(before[0] - 2.0) < 0.02
    assert after is not None and abs(after[0] - 1.2) < 0.02


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    (folder / "team.toml").write_text(
        "robots = 2\n[simulation]\nduration = 8.0\nmasses = [2.0]\nchanges = []\n"
    )
    simulate_team_files(folder / "team.toml", folder / "run", 3)
    return folder / "run"


@pytest.mark.parametrize("method", ["heft", "paper"])
def test_what_files_tell_is_the_truth_that_lies_beside_them(
    run: Path, tmp_path: Path, method: Any
) -> None:
    if method == "paper":
        with pytest.raises(InvalidRecording, match="8 s"):
            identify_team_files(run, tmp_path / "out", method)
        return
    found = identify_team_files(run, tmp_path / "out", method)
    truth = json.loads((run / "truth.json").read_text())
    stored = json.loads((tmp_path / "out" / "team.json").read_text())
    for robot, load in zip(stored["robots"], truth["loads"], strict=True):
        assert robot["name"] == load["robot"]
        spread = np.sqrt(robot["load"]["covariance"][0][0])
        assert abs(robot["load"]["mass_kg"] - load["mass_kg"]) < 4.0 * spread < 0.1
        assert np.allclose(robot["load"]["com_m"], load["com_m"], atol=0.01)
    assert np.allclose(
        stored["poses"][0]["translation_m"], truth["poses"][0]["translation_m"], atol=0.01
    )
    assert "robot1" in found.text() and "<svg" not in found.text()
    # The picture is of the first robot's frame: the load at its centre, the other where it holds.
    picture = team_results._picture(found)
    assert picture is not None
    places = {body.name: body.centre for body in picture.bodies}
    pose = truth["poses"][0]
    assert (pose["to"], pose["of"]) == ("robot1", "robot0")
    held = -np.array(pose["rotation"]).T @ pose["translation_m"]
    np.testing.assert_allclose(places["robot1"], held, atol=0.01)
    np.testing.assert_allclose(places["load"], truth["loads"][0]["com_m"], atol=0.01)
    assert "Centre of mass" in (tmp_path / "out" / "report.html").read_text()


def test_rows_without_numbers_and_stamps_that_go_back_are_holes(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    log = tmp_path / "run" / "robot1.parquet"
    table = pyarrow.parquet.read_table(log)
    k, time = table.column_names.index("t"), table["t"].to_numpy().copy()
    time[300] = time[298] + 1e-4  # the row before is later, by this receiver's clock
    table = table.set_column(k, "t", pyarrow.array(time))
    k, force = table.column_names.index("force.grasp.x"), table["force.grasp.x"].to_numpy().copy()
    force[400:420] = np.nan
    pyarrow.parquet.write_table(table.set_column(k, "force.grasp.x", pyarrow.array(force)), log)
    (whole, found), masses = map(identify_team_files, (run, tmp_path / "run")), []
    for team in (whole, found):
        load = team.load(0)
        assert team.verdict == "good" and load is not None and load.std is not None
        masses.append((load.mass, load.std[0]))
    assert 0.0 < abs(masses[0][0] - masses[1][0]) < masses[0][1] < masses[1][1]
    none = table.set_column(k, "force.grasp.x", pyarrow.array(np.full(len(force), np.nan)))
    pyarrow.parquet.write_table(none, log)
    with pytest.raises(InvalidRecording, match="no row of the log has all") as refused:
        identify_team_files(tmp_path / "run")
    assert "none with force.grasp.x" in str(refused.value.got)


def test_what_no_load_explains_states_no_number(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(run, tmp_path / "run")
    log = tmp_path / "run" / "robot1.parquet"
    table = pyarrow.parquet.read_table(log)
    names = [n for n in table.column_names if n.startswith("force.")]
    for name in names:  # it slips, slowly, from one grasp into another
        k = table.column_names.index(name)
        slips = table[name].to_numpy() * np.linspace(1.0, -1.0, len(table)) ** 3
        table = table.set_column(k, table.field(k), pyarrow.array(slips))
    pyarrow.parquet.write_table(table, log)
    for folder, status, verdict in ((run, 0, "good"), (tmp_path / "run", 1, "poor")):
        out = str(tmp_path / verdict)
        call = ["heft", "coop", "identify", str(folder), "--out", out, "--quiet"]
        monkeypatch.setattr(sys, "argv", call)
        with pytest.raises(SystemExit) as ended:
            main()
        said, stored = capsys.readouterr(), tmp_path / verdict / "team.json"
        assert ended.value.code == status and f"verdict: {verdict}" in said.out
        numbers = [robot["load"] for robot in json.loads(stored.read_text())["robots"]]
        assert ("kg" in said.out) == all(numbers) == (verdict == "good")
        assert ("no number of it is stated" in said.out) == (verdict == "poor")
        page = (tmp_path / verdict / "report.html").read_text(encoding="utf-8")
        assert ("<figure" in page) == (verdict == "good")  # nor drawn


def test_a_log_without_torque_is_of_a_point(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(
        "robots = 3\n[simulation]\nduration = 8.0\nmasses = [2.0]\nchanges = []\npoints = true\n"
    )
    simulate_team_files(tmp_path / "team.toml", tmp_path / "run", 1)
    for log in (tmp_path / "run").glob("*.parquet"):
        table = pyarrow.parquet.read_table(log)
        kept = [n for n in table.column_names if not n.startswith("torque.")]
        pyarrow.parquet.write_table(table.select(kept), log)
    load = identify_team_files(tmp_path / "run").load(0)
    assert load is not None and load.covariance is not None
    assert abs(load.mass - 2.0) < 4.0 * np.sqrt(load.covariance[0, 0]) < 0.1


def test_a_simulated_team_is_the_same_byte_for_byte(run: Path, tmp_path: Path) -> None:
    simulate_team_files(run.parent / "team.toml", tmp_path / "again", 3)
    for path in sorted(run.iterdir()):
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("robots = 0", "robots"),
        ('[[robot]]\nname = "a"\n[[robot]]\nname = "a"', "names of their own"),
        ('edges = [["a", "c"]]\n[[robot]]\nname = "a"\n[[robot]]\nname = "b"', "c"),
        ('edges = []\n[[robot]]\nname = "a"\n[[robot]]\nname = "b"', "connected"),
        ("robots = 2\n[simulation]\nnoise = [1.0]", "noise"),
        ("robots = 2\n[simulation]\nmasses = [1.0, 2.0]\nchanges = []", "changes"),
        ("robot = 2", "robot"),
        ("robots = 2\n[known]\nmass = 2.0", "mass_std"),
        ("robots = 2\n[known]\nmass = -2.0\nmass_std = 1.0", "mass"),
        ("robots = 2\n[known]\nmass = 2.0\nmass_std = 0.0", "mass_std"),
        ('[[robot]]\nname = "a"\ncom = [0.0, 0.0, 0.1]', "com_std"),
        ('[[robot]]\nname = "a"\ncom = [0.0, 0.1]\ncom_std = 1.0', "com"),
        ('[[robot]]\nname = "a"\nposition = [0.0, 0.0, 0.1]\nposition_std = 0.1', "rotation"),
        ('[[robot]]\nname = "a"\nrotation = [0.0, 0.0, nan]\nrotation_std = 0.1', "rotation"),
        ('[[robot]]\nname = "a"\nlate = true', "late"),
    ],
)
def test_a_team_that_is_none_is_refused(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text(text)
    with pytest.raises(InvalidSetting, match=says):
        simulate_team_files(tmp_path / "team.toml", tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


def test_a_log_without_a_signal_says_which(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    text = (tmp_path / "run" / "team.toml").read_text()
    (tmp_path / "run" / "team.toml").write_text(text.replace('frame = "grasp"', 'frame = "hand"'))
    with pytest.raises(MissingSignal, match=r"omega\.hand\.x"):
        identify_team_files(tmp_path / "run")


def as_recorded(
    run: Path, out: Path, late: float, hole: float = 0.0, jitter: float = 0.0, apart: float = 0.0
) -> Path:
    """Copy a team's logs as bags with stamps, the second robot's begun later.

    Args:
        late: How much later it begins [s].
        hole: Length of a piece that it lacks, from its third second on [s].
        jitter: Of the true times at which it samples, either way [s].
        apart: How much later its clock says that it was [s].
    """
    shutil.copytree(run, out)
    for k, log in enumerate(sorted(out.glob("*.parquet"))):
        table = Recording.open(log).canonical()
        values = np.concatenate(list(table.read(table.columns)))
        begin = late * k
        shift = jitter * k * np.random.default_rng(0).uniform(-1.0, 1.0, len(values))
        values[:, 0] += shift
        values[:, 1:] = np.stack(
            [CubicSpline(values[:, 0] - shift, x)(values[:, 0]) for x in values[:, 1:].T], 1
        )
        kept = (values[:, 0] >= begin) & ~(k * (np.abs(values[:, 0] - 3.0 - begin) < hole / 2) > 0)
        values = values[kept] - np.eye(values.shape[1])[0] * begin
        stamp = 1_700_000_000_000_000_000 + round(1e9 * (begin + apart * k))
        columns = dict(zip(table.columns, values.T, strict=True))
        bag = replace(Table.of_columns(columns, log), epoch=stamp)
        write_table(bag, log.with_suffix(".mcap"), [].append)
        log.unlink()
    team = out / "team.toml"
    team.write_text(team.read_text().replace(".parquet", ".mcap"))
    return out


@pytest.mark.parametrize(
    ("late", "hole", "jitter"),
    [(0.0, 0.0, 0.0), (1.5, 0.0, 0.0), (0.0, 0.5, 0.0), (0.7, 0.5, 1e-3)],
)
def test_logs_are_of_the_times_at_which_they_were_recorded(
    late: float, hole: float, jitter: float, run: Path, tmp_path: Path
) -> None:
    """Bags begin apart, lack pieces, and are sampled unevenly."""
    found = identify_team_files(as_recorded(run, tmp_path / "run", late, hole, jitter))
    load = found.load(0)
    assert load is not None and load.std is not None and not found.clocks and not found.changes
    truth = json.loads((run / "truth.json").read_text())["loads"][0]
    assert abs(load.mass - truth["mass_kg"]) < 4.0 * load.std[0] < 0.1
    assert (np.abs(load.com - truth["com_m"]) < 4.0 * load.std[1:4]).all()
    assert isinstance(found.result, CooperativeResult) and found.result.known[-1].misfit < 1.3


def test_logs_of_other_times_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRecording, match=r"time in common[\s\S]*robot1 60 to[\s\S]*OWN"):
        identify_team_files(as_recorded(run, tmp_path / "run", 0.0, 0.0, 0.0, 60.0))


def hold(path: Path, kind: str, first: int, last: int) -> None:
    """Let a sensor of a log repeat one sample, as a driver does that has lost it."""
    table = pyarrow.parquet.read_table(path)
    for axis in "xyz":
        name = f"{kind}.grasp.{axis}"
        values = table[name].to_numpy().copy()
        values[first:last] = values[first]
        k = table.column_names.index(name)
        table = table.set_column(k, table.field(k), pyarrow.array(values))
    pyarrow.parquet.write_table(table, path)


@pytest.mark.parametrize("kind", ["omega", "vel", "acc", "force", "torque"])
def test_a_sensor_that_repeats_itself_is_left_out_and_told(
    kind: str, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    hold(tmp_path / "run" / "robot1.parquet", kind, 250, 500)
    found = identify_team_files(tmp_path / "run")
    load = found.load(0)
    assert load is not None and load.std is not None
    assert abs(load.mass - 2.0) < 4.0 * load.std[0] < 0.1
    assert isinstance(found.result, CooperativeResult) and found.result.known[-1].misfit < 1.2
    assert "of robot1 repeats itself for 2.5 s of" in found.text()
    hold(tmp_path / "run" / "robot1.parquet", kind, 0, 10**6)
    with pytest.raises(InvalidRecording, match=r"never changes[\s\S]*robot1"):
        identify_team_files(tmp_path / "run")


@pytest.mark.parametrize("name", ["angular_velocity", "velocity", "acceleration", "force"])
def test_a_sensor_that_tells_next_to_nothing_surely_takes_no_answer_down(name: str) -> None:
    """Its noise is found to be a millionth of the others': covariances are then nearly singular."""
    team = signals(replace(SHORT, duration=5.0).run(5))
    rng = np.random.default_rng(0)
    team[1] = replace(team[1], **{name: 1e-9 * rng.normal(size=team[1].force.shape)})
    known = CooperativeMethod(every=60).identify(team, Graph.ring(3)).known
    told = known[-1].load(0) if known else None
    assert told is None or not known[-1].misfit < 2.0 or abs(told.mass - 2.0) < 0.1


def test_the_papers_estimates_are_those_of_every_frame_and_sharing_them_agrees() -> None:
    """(31) in the direction that is right, and (32); section VII-B with and without them."""
    team = replace(SHORT, duration=12.0).run(4)
    for k in (1, 2):
        own, other = (team.bodies[0].seen_from(team.rotations[j], team.origins[j]) for j in (0, k))
        one, two = (
            np.array(
                [*com, *np.diag(about), about[0, 1], about[0, 2], about[1, 2], 1.0 / mass, 1.0]
            )
            for mass, com, about in (own, other)
        )
        assert np.allclose(estimate_map(team.pose(k, 0)) @ one, two)
    apart, off = [], []
    for shared in (False, True):
        found = PaperMethod(shared=shared).identify(signals(team), Graph.ring(3))
        loads = [found.at(12.0, k) for k in range(3)]
        apart.append(np.ptp([load.mass for load in loads]))
        off.append(np.mean([abs(load.mass - 2.0) for load in loads]))
    assert apart[1] < 0.3 * apart[0] and off[1] < 1.5 * off[0] + 0.01


def test_wrenches_of_the_wrong_sign_are_named_with_their_cure(tmp_path: Path) -> None:
    """One file holds both robots, at times of their own; each has a map."""
    quiet = TeamNoise(0.02, 0.02, 0.1, 0.2, 0.02)
    team = replace(SHORT, robots=2, noise=quiet).run(3)
    columns: dict[str, Array] = {"t": np.concatenate([team.time, team.time + 0.0013])}
    order = np.argsort(columns["t"], kind="stable")
    columns["t"] = columns["t"][order]
    toml = 'edges = [["left", "right"]]\n'
    for k, name in enumerate(("left", "right")):
        lines = []
        for kind in ("omega", "vel", "acc", "force", "torque"):
            names = []
            for axis in "xyz":
                whole = np.full((2, len(team.time)), np.nan)
                sign = -1.0 if kind in ("force", "torque") else 1.0
                whole[k] = sign * team.columns(k)[f"{kind}.grasp.{axis}"]
                names.append(f"{name}_{kind}_{axis}")
                columns[names[-1]] = whole.ravel()[order]
            lines.append(f'[{kind}]\nframe = "grasp"\ncolumns = {json.dumps(names)}\n')
        (tmp_path / f"{name}.toml").write_text("\n".join(lines))
        toml += f'[[robot]]\nname = "{name}"\nlog = "both.parquet"\nmap = "{name}.toml"\n'
    path = tmp_path / "both.parquet"
    write_table(Table.of_columns(columns, path), path)
    (tmp_path / "team.toml").write_text(toml)
    found = identify_team_files(tmp_path)
    assert found.verdict == "poor" and found.load(0) is None
    assert "With the opposite wrench" in found.text() and "reaction = true" in found.text()
    cured = toml.replace("log = ", "reaction = true\nlog = ")
    (tmp_path / "team.toml").write_text(cured)
    found = identify_team_files(tmp_path)
    load = found.load(1)
    assert found.verdict == "good" and load is not None and load.std is not None
    assert abs(load.mass - 2.0) < 4.0 * load.std[0]
    assert "offsets of the wrench sensors of left, right" in found.text()
