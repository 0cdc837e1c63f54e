"""Kalman filters of state and parameters: textbook, least squares, one another, and a robot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.row_problems import RowProblem, row_problem
from tests.test_closed_loop import arm, loop, reference, sprung, truth

from heft.applications.identification import identify
from heft.errors import InvalidSetting, SolverFailure
from heft.estimators import ESTIMATORS, Estimate, LeastSquares
from heft.fit import Settings
from heft.models import JointOptions, Robot
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing
from heft_methods import DrivenRobot, RobotLog
from heft_methods.kalman import METHODS, KalmanFilter, Kind

Array = np.ndarray[Any, np.dtype[np.float64]]
KINDS: tuple[Kind, ...] = ("extended", "unscented", "square-root")
STEPS, H = 120, 0.05
NOISE = 0.02  # of positions


@dataclass(frozen=True, eq=False)
class Cart:
    """A cart on a rail, pushed: q'' = push / m − (d/m) v₀ for a known v₀, in β = (1/m, c).

    Linear in state and parameters together: v⁺ = v + h (β₁ u + β₂), q⁺ = q + h v.
    """

    push: Array
    measured: Array
    variance: Array
    noise: float = 0.05

    @property
    def start(self) -> tuple[Array, Array]:
        return np.zeros(2), np.array([0.1, 0.5])

    def slope(self, step: int) -> Array:
        rise = np.array([self.push[step], 1.0])
        return np.vstack([0.5 * H * H * rise, H * rise])

    def moved(self, step: int, values: Array, states: Array) -> tuple[Array, Array]:
        after = states @ np.array([[1.0, H], [0.0, 1.0]]).T + values @ self.slope(step).T
        return after, self.noise * np.array([[0.5 * H * H], [H]])

    def slopes(self, step: int, values: Array, state: Array, after: Array) -> tuple[Array, Array]:
        return np.array([[1.0, H], [0.0, 1.0]]), self.slope(step)


@dataclass(frozen=True)
class Given:
    """Some logs, whatever the problem."""

    found: tuple[Any, ...]

    def logs(self, problem: object, first: Estimate) -> tuple[Any, ...]:
        return self.found


def rail(seed: int = 0) -> tuple[RowProblem, Cart]:
    """Return rows of two parameters, to begin with, and the cart's log."""
    from heft.information import Labels

    rng = np.random.default_rng(seed)
    push = rng.normal(size=STEPS)
    log = Cart(push, np.zeros((STEPS, 1)), np.array([NOISE**2]))
    state, beta, seen = np.array([[0.05, -0.3]]), np.array([[0.7, 0.2]]), []
    for k in range(STEPS):
        state, root = log.moved(k, beta, state)
        state = state + (root @ rng.normal(size=1))[None]
        seen.append(state[0, 0] + NOISE * rng.normal())
    Y = np.stack([push, np.ones(STEPS)], axis=1)[:, None]
    effort = Y @ beta[0] + 3.0 * rng.normal(size=(STEPS, 1))
    labels = Labels(("a", "b"), ("1", "1"))
    problem = RowProblem(labels, ("cart",), Y, effort, beta[0])
    return problem, replace(log, measured=np.array(seen)[:, None])


def textbook(log: Cart, mean: Array, P: Array) -> tuple[Array, Array]:
    """Return mean and covariance of (β, q, v) by the five equations of the Kalman filter."""
    F, H_ = np.eye(4), np.array([[0.0, 0.0, 1.0, 0.0]])
    F[2, 3] = H
    for k in range(STEPS):
        F[2:, :2] = log.slope(k)
        G = log.noise * np.array([0.0, 0.0, 0.5 * H * H, H])
        mean, P = F @ mean, F @ P @ F.T + np.outer(G, G)
        S = H_ @ P @ H_.T + log.variance
        K = P @ H_.T @ np.linalg.inv(S)
        mean = mean + K @ (log.measured[k] - H_ @ mean)
        P = P - K @ H_ @ P
    return mean, P


def batch(log: Cart, mean: Array, P: Array) -> Array:
    """Return β by least squares of the whole log at once: β, the start and all noise unknown."""
    size = 4 + STEPS
    state = np.zeros((2, size))  # as a function of (β, q₀, v₀, noise)
    state[:, 2:4] = np.eye(2)
    rows = [np.linalg.solve(np.linalg.cholesky(P), np.eye(4, size))]
    right = [np.linalg.solve(np.linalg.cholesky(P), mean)]
    for k in range(STEPS):
        state = np.array([[1.0, H], [0.0, 1.0]]) @ state
        state[:, :2] += log.slope(k)
        state[:, 4 + k] = log.noise * np.array([0.5 * H * H, H])
        rows += [state[:1] / NOISE, np.eye(1, size, 4 + k)]
        right += [log.measured[k] / NOISE, np.zeros(1)]
    whole: Array = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    return whole[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_linear_system_it_is_the_textbooks_filter_and_least_squares(kind: Kind) -> None:
    problem, log = rail()
    spread = 10.0
    first = LeastSquares().fit(problem)
    covariance = first.noise.sigma[0] ** 2 * np.linalg.inv(
        problem.regressor[:, 0].T @ problem.regressor[:, 0]
    )
    P = np.zeros((4, 4))
    P[:2, :2] = spread**2 * covariance
    P[2:, 2:] = np.diag(log.start[1] ** 2)
    mean = np.append(first.fitted, log.start[0])
    wanted, after = textbook(log, mean, P)
    assert batch(log, mean, P) == pytest.approx(wanted[:2], rel=1e-8)
    found = KalmanFilter(kind, Given((log,)), spread, walk=0.0).fit(problem)
    assert found.fitted == pytest.approx(wanted[:2], rel=1e-8)
    # What the log told is what is known after it less what was known before.
    told = np.linalg.inv(np.linalg.inv(after[:2, :2]) - np.linalg.inv(P[:2, :2]))
    scale = found.noise.sigma[0] ** 2 * found.noise.autocorrelation_time[0]
    assert found.parameters.covariance == pytest.approx(scale * told, rel=1e-6)
    assert abs(found.fitted - problem.truth).max() < 0.5 * abs(first.fitted - problem.truth).max()


def test_unscented_is_extended_on_a_linear_system() -> None:
    problem, log = rail(1)
    one, *others = (KalmanFilter(kind, Given((log,))).fit(problem).parameters for kind in KINDS)
    for other in others:
        assert other.values == pytest.approx(one.values, rel=1e-10)
        assert other.covariance == pytest.approx(one.covariance, rel=1e-7)


def driven(
    seconds: float = 3.0, noise: float = 1e-4, robot: Robot | None = None
) -> tuple[Problem[RobotPlant], Array]:
    """Return a log of a planar arm in closed loop with noise, and its true β."""
    robot = robot or arm()
    time = reference(seconds).whole(["q.elbow"]).time
    motion = loop(robot).followed(reference(seconds), truth(robot))
    rng = np.random.default_rng(3)
    q, tau = motion.position_at(time), motion.effort_at(time)
    q = q + noise * rng.normal(size=q.shape)
    tau = tau + 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
    columns = {"q": q, "tau": tau}
    named = {k: dict(zip(robot.joints, x.T, strict=True)) for k, x in columns.items()}
    log = Recording.from_arrays(time, "driven", **named)
    problem = Problem(RobotPlant(robot), (log,), Smoothing(15.0, delay=0.0))
    return problem, problem.base.matrix @ truth(robot)


def robot_log(problem: Problem[RobotPlant]) -> RobotLog:
    first = LeastSquares().fit(problem)
    (log,) = DrivenRobot(problem.plant.robot).logs(problem, first)
    return log


both = pytest.mark.parametrize("robot", [arm(), sprung()], ids=["plain", "own columns"])


@both
def test_steps_are_those_of_the_closed_loop(robot: Robot) -> None:
    motion = loop(robot).followed(reference(1.0), truth(robot))
    problem = driven(2.0, robot=robot)[0]
    log = robot_log(problem)
    beta = (problem.base.matrix @ truth(robot))[None]
    time = motion.time[:101]
    state = np.hstack([motion.position[:1], motion.velocity[:1]])
    own = replace(log, time=time, effort=motion.effort[:100])
    for k in range(100):
        state, _ = own.moved(k, beta, state)
    wanted = np.append(motion.position[100], motion.velocity[100])
    assert state[0] == pytest.approx(wanted, abs=1e-9)


@both
def test_slopes_are_derivatives_of_a_step(robot: Robot) -> None:
    problem, beta = driven(2.0, robot=robot)
    log, step, size = robot_log(problem), 40, 1e-6
    state = np.array([0.3, -0.4, 1.1, -0.7])
    after, push = log.moved(step, beta[None], state[None])
    by_state, by_values = log.slopes(step, beta, state, after[0])
    both = np.append(state, beta)
    for k, slope in enumerate(np.hstack([by_state, by_values]).T):
        sides = []
        for sign in (1.0, -1.0):
            moved = both.copy()
            moved[k] += sign * size
            sides.append(log.moved(step, moved[None, 4:], moved[None, :4])[0][0])
        assert slope == pytest.approx((sides[0] - sides[1]) / (2.0 * size), abs=1e-7)
    for k in range(2):
        efforts = log.effort.copy()
        efforts[step, k] += 1e-4
        other, _ = replace(log, effort=efforts).moved(step, beta[None], state[None])
        assert push[:, k] / log.push[k] == pytest.approx((other - after)[0] / 1e-4, rel=2e-2)


def test_torque_over_a_step_is_the_mean_of_what_was_measured() -> None:
    problem, _ = driven(2.0)
    (recording,) = problem.recordings
    log = robot_log(problem)
    tau = recording.whole(["tau.shoulder"]).values[:, 0]
    assert log.effort[10, 0] == pytest.approx(0.25 * tau[20] + 0.5 * tau[21] + 0.25 * tau[22])
    assert len(log.time) == pytest.approx(500, abs=1)
    assert log.sigma == pytest.approx(1e-4, rel=0.2)


def test_a_gap_ends_a_piece() -> None:
    problem, _ = driven(2.0)
    (recording,) = problem.recordings
    block = recording.whole(["q.shoulder", "q.elbow", "tau.shoulder", "tau.elbow"])
    values = block.values.copy()
    values[400:420, 0] = np.nan
    q, tau = (
        {j: values[:, 2 * k + i] for i, j in enumerate(("shoulder", "elbow"))} for k in (0, 1)
    )
    torn = Recording.from_arrays(block.time, "torn", q=q, tau=tau)
    own = DrivenRobot(problem.plant.robot)
    first = LeastSquares().fit(problem)
    logs = own.logs(problem.with_recordings((torn,)), first)
    assert len(logs) == 2
    assert logs[0].time[-1] < block.time[400] and logs[1].time[0] > block.time[419]


def test_filters_find_the_robot_and_agree() -> None:
    problem, beta = driven()
    own = DrivenRobot(problem.plant.robot)
    found = {kind: KalmanFilter(kind, own).fit(problem).parameters for kind in KINDS}
    plain = LeastSquares().fit(problem).parameters
    for each in found.values():
        assert (np.abs(each.values - beta) <= 4.0 * each.std + 0.01 * np.abs(beta)).all()
        assert (each.std < plain.std).sum() >= 0.5 * len(beta)
    one, two = found["unscented"], found["square-root"]
    assert np.abs(one.values - two.values).max() <= 1e-9 * np.abs(one.values).max()
    assert np.abs((one.values - found["extended"].values) / one.std).max() < 1.0


def test_springs_are_found_by_a_filter() -> None:
    problem, beta = driven(robot=sprung())
    found = KalmanFilter("extended", DrivenRobot(problem.plant.robot)).fit(problem).parameters
    assert (np.abs(found.values - beta) <= 4.0 * found.std + 0.01 * np.abs(beta)).all()
    for name, wanted in (("belt", 6.0), ("elbow.spring", 9.0)):
        assert found[name] == pytest.approx(wanted, rel=0.05)


def test_identify_takes_it_without_a_controller() -> None:
    problem, _ = driven()
    joint = JointOptions(friction="simple")
    robot = arm(None).with_joints(dict.fromkeys(("shoulder", "elbow"), joint))
    settings = Settings(Smoothing(15.0, delay=0.0), method="kalman", threads=1)
    found = identify(robot, problem.recordings, settings=settings)
    assert found.fit[0].total < 0.1


def test_what_cannot_be_moved_is_refused() -> None:
    problem, _ = driven(2.0)
    with pytest.raises(InvalidSetting, match="equations of motion"):
        KalmanFilter().fit(row_problem("planar arm", 100))
    for options, words in (
        (JointOptions(friction="simple", measured=False), "torque of every joint"),
        (JointOptions(friction="full"), "memory|remembers"),
    ):
        with pytest.raises(InvalidSetting, match=words):
            DrivenRobot(arm().with_joints({"elbow": options}))
    with pytest.raises(InvalidSetting, match="did you mean"):
        KalmanFilter("extendet")  # type: ignore[arg-type]
    first = LeastSquares().fit(problem)
    with pytest.raises(InvalidSetting, match="too long"):
        DrivenRobot(problem.plant.robot, most=100).logs(problem, first)
    log = robot_log(problem)
    wild = np.full((1, len(problem.labels)), np.nan)
    with pytest.raises(SolverFailure, match="cannot be moved"):
        log.moved(0, wild, np.zeros((1, 4)))


def test_messages_name_filters_as_the_command_line_does() -> None:
    assert set(METHODS.values()) <= set(ESTIMATORS)
    for kind, name in METHODS.items():
        made = ESTIMATORS[name]()
        assert isinstance(made, KalmanFilter) and made.kind == kind
