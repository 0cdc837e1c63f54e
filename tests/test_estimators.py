"""Laws of least squares, over estimators and robots with known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from heft.errors import TooLittleData
from heft.estimators.least_squares import LeastSquares
from heft.information.identifiability import data_rank
from heft.information.parameters import Labels
from heft.information.square_root import Information
from heft.models.options import Options
from heft.models.robot import Robot
from heft.plants import RobotPlant, random_drive_state, random_states, standard_rows
from heft.plants.problem import Problem
from tests.double_double import solve_refined
from tests.experiments import ARMS, HUMANOID, log, simple_options, true_robot
from tests.nist import NAMES, digits, exact_solution, load

ESTIMATORS = {
    "ordinary": LeastSquares(weighting="none", coloured=False),
    "per channel": LeastSquares(coloured=False),
}
ROBOTS = {**{k: (v, "fixed") for k, v in ARMS.items()}, "humanoid": (HUMANOID, "free")}


def experiment(
    name: str, samples: int, noise: float, seed: int = 0, friction: str = "full"
) -> tuple[Problem, Information, np.ndarray]:
    """Return a problem, information of random states with noisy torque, and the true β."""
    path, base = ROBOTS[name]
    options = replace(simple_options(path), base=base)  # type: ignore[arg-type]
    robot = Robot.from_urdf(path, options if friction == "simple" else Options(base=base))  # type: ignore[arg-type]
    problem = Problem(RobotPlant(robot), ())
    rng = np.random.default_rng(seed)
    q, v, a = random_states(robot, samples, rng)
    state = random_drive_state(robot, q, v, a, rng)
    rows = standard_rows(robot, q, v, a, state)[:, :, list(problem.base.kept)]
    standard = robot.nominal()
    standard[10 * len(robot.tree.names) :] = rng.uniform(
        0.1, 1.0, len(robot.labels) - 10 * len(robot.tree.names)
    )
    true = problem.base.matrix @ standard
    effort = rows @ true
    spread = noise * (1.0 + np.arange(effort.shape[1]))
    effort = effort + spread * rng.normal(size=effort.shape)
    information = Information.from_rows(problem.labels, robot.channels, rows, effort)
    return problem, information, true


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", ROBOTS)
def test_noise_free_rows_give_back_the_truth(name: str, estimator: str) -> None:
    """To 1e-8 times the condition number, the accuracy of data rounded to eight digits."""
    friction = "simple" if name == "humanoid" else "full"  # to save time
    _, information, true = experiment(name, 400, 0.0, friction=friction)
    found = ESTIMATORS[estimator].solve(information)
    condition = found.rank.condition
    error = np.linalg.norm(found.parameters.values - true) / np.linalg.norm(true)
    assert error <= 1e-8 * condition
    assert error <= 1e-12 * condition  # what double precision in fact allows


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", list(ARMS))
def test_the_error_falls_with_the_root_of_the_number_of_samples(name: str, estimator: str) -> None:
    # With simple friction: where rows hardly outnumber columns, as a dictionary's, it falls faster.
    sizes = np.array([250, 1000, 4000])
    errors = []
    for samples in sizes:
        squares = []
        for seed in range(6):
            problem, information, true = experiment(name, int(samples), 0.1, seed, "simple")
            found = ESTIMATORS[estimator].solve(information)
            scaled = (found.parameters.values - true) / found.parameters.std
            squares.append(np.mean((scaled * found.parameters.std / true.std()) ** 2))
            del problem
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # Each point averages at least 6 · 13 squares, so its logarithm is within 0.16 (two sigma)
    # and the slope over a factor of 16 within 0.16 · 2 / ln 16.
    assert slope == pytest.approx(-0.5, abs=0.12)


@pytest.mark.parametrize("name", list(ARMS))
def test_intervals_of_base_parameters_hold_under_white_noise(name: str) -> None:
    inside = total = 0
    for seed in range(20):
        # Ten rows a parameter at least: the channels' noise, which weights them, is estimated too.
        _, information, true = experiment(name, 1500, 0.2, seed)
        found = LeastSquares(coloured=False).solve(information).parameters
        inside += int(np.sum(np.abs(found.values - true) <= 1.96 * found.std))
        total += len(true)
    # Binomial with 95 %, parameters of one fit counted as a third independent.
    slack = 3.0 * np.sqrt(0.95 * 0.05 / (total / 3.0))
    assert inside / total == pytest.approx(0.95, abs=slack)


def test_equal_noise_makes_weighted_least_squares_ordinary() -> None:
    _, information, _ = experiment("six joints", 400, 0.0)
    rng = np.random.default_rng(5)
    path, _ = ROBOTS["six joints"]
    robot = Robot.from_urdf(path)
    q, v, a = random_states(robot, 4000, rng)
    state = random_drive_state(robot, q, v, a, rng)
    rows = standard_rows(robot, q, v, a, state)[
        :, :, list(Problem(RobotPlant(robot), ()).base.kept)
    ]
    effort = rows @ np.ones(rows.shape[2]) + rng.normal(size=rows.shape[:2])
    information = Information.from_rows(information.labels, robot.channels, rows, effort)
    plain = ESTIMATORS["ordinary"].solve(information).parameters
    weighted = ESTIMATORS["per channel"].solve(information).parameters
    # Noise levels are known to 1/√(2·4000) each, which moves the answer by far less than its std.
    assert np.abs(plain.values - weighted.values).max() <= 0.2 * weighted.std.max()


def test_unequal_noise_is_what_weights_are_for() -> None:
    ratio = []
    for seed in range(6):
        # A dictionary's terms each show in one channel alone, where weights are of no use.
        _, information, true = experiment("six joints", 400, 1.0, seed, "simple")
        errors = [
            np.linalg.norm(e.solve(information).parameters.values - true)
            for e in (ESTIMATORS["per channel"], ESTIMATORS["ordinary"])
        ]
        ratio.append(errors[0] / errors[1])
    assert np.median(ratio) < 1.0


def test_more_parameters_than_rows_are_refused() -> None:
    _, information, _ = experiment("six joints", 5, 0.1)
    with pytest.raises(TooLittleData, match="not more rows than parameters"):
        LeastSquares().solve(information)


def test_a_parameter_that_the_data_do_not_show_gets_no_number() -> None:
    _, information, _ = experiment("six joints", 400, 0.0)
    labels = information.labels
    gone = labels.index("elbow_joint.viscous")
    still = information.transformed(
        np.delete(np.eye(len(labels)), gone, axis=1),
        labels.select([k for k in range(len(labels)) if k != gone]),
    )
    matrix = np.delete(np.eye(len(labels)), gone, axis=0)  # the column comes back as zeros
    blind = still.transformed(matrix, labels)
    found = ESTIMATORS["per channel"].solve(blind)
    assert np.isnan(found.parameters.values[gone])
    assert np.isinf(found.parameters.std[gone])
    assert found.rank.rank == len(labels) - 1
    assert np.isfinite(np.delete(found.parameters.values, gone)).all()


@pytest.mark.parametrize("name", NAMES)
def test_refinement_is_right_to_the_last_digits_on_nist_data(name: str) -> None:
    data = load(name)
    p = data.X.shape[1]
    from heft.information.parameters import Labels

    labels = Labels(tuple(f"b{k}" for k in range(p)), ("",) * p)
    total = Information.neutral(labels, ["y"])
    blocks = [(data.X[k : k + 7], data.y[k : k + 7]) for k in range(0, len(data.y), 7)]
    for X, y in blocks:
        total = total + Information.from_rows(labels, ["y"], X[:, None, :], y[:, None])
    answer = solve_refined(blocks, total.combined())
    assert digits(answer, exact_solution(data.X, data.y)) >= 14.5


def test_a_fit_is_the_refined_solution_of_its_rows() -> None:
    truth = true_robot(ARMS["two joints"], np.random.default_rng(0), "simple")
    problem = Problem(RobotPlant(truth.robot), (log(truth, 4.0, 100.0, np.random.default_rng(1)),))
    found = LeastSquares(coloured=False).fit(problem)
    weights = found.weights(worth=False)
    factors = np.array([weights[c] for c in problem.channels])
    blocks = [
        (
            (factors[:, None] * piece.regressor).reshape(-1, len(problem.labels)),
            (factors * piece.effort).reshape(-1),
        )
        for piece in problem.rows()
    ]
    better = solve_refined(blocks, found.information.combined(weights))
    # Both solve one well-conditioned problem: they agree to rounding times its condition.
    scale = np.abs(found.parameters.values).max()
    assert np.abs(better - found.parameters.values).max() <= 1e-13 * found.rank.condition * scale


def test_rank_and_condition_are_those_of_the_scaled_columns() -> None:
    _, information, _ = experiment("six joints", 400, 0.1)
    R = information.combined().R
    once = data_rank(R, information.labels, information.rows)
    units = np.geomspace(1e-6, 1e6, R.shape[1])
    again = data_rank(R * units, information.labels, information.rows)
    assert once.rank == again.rank == R.shape[1]
    assert again.condition == pytest.approx(once.condition, rel=1e-6)


def like_rows(sigma: float, count: int = 4000) -> Information:
    rng = np.random.default_rng(11)
    labels = Labels(("a", "b"), ("1", "1"), "test")
    regressor = rng.normal(size=(count, 3, 2))
    effort = regressor @ [1.0, -2.0] + sigma * rng.normal(size=(count, 3))
    return Information.from_rows(labels, ("x", "y", "z"), regressor, effort)


def test_channels_of_one_name_share_their_noise() -> None:
    information = like_rows(0.3, 12)
    shared = LeastSquares().solve(information, ("force", "force", "other")).noise.sigma
    assert shared[0] == shared[1] != shared[2]
    own = LeastSquares().solve(information, ("x", "y", "z"))
    alone = LeastSquares().solve(information)
    assert np.array_equal(own.noise.sigma, alone.noise.sigma)
    assert np.array_equal(own.parameters.values, alone.parameters.values)
    low, high = sorted(own.noise.sigma[:2])
    assert low < shared[0] < high
    many = LeastSquares().solve(like_rows(0.3), ("force",) * 3).noise.sigma
    # The spread of a standard deviation of 12 000 rows is 1/√24 000: four of these.
    assert many == pytest.approx(0.3, rel=4.0 / np.sqrt(24_000))


def test_noise_that_is_known_is_not_estimated() -> None:
    information = like_rows(0.3, 200)
    prior = np.array([[100.0, 0.0, 102.0]])  # a = 1.02 ± 0.01, where the data say 1.00 ± 0.012
    found = LeastSquares().solve(
        information.beside("stated", prior), (*information.channels, "stated"), {"stated": 1.0}
    )
    assert found.noise.sigma[-1] == 1.0
    plain = LeastSquares().solve(information).parameters
    assert plain.std is not None
    weights = np.array([plain.std[0] ** -2, 0.01**-2])
    wanted = weights @ [plain.values[0], 1.02] / weights.sum()
    assert found.parameters.values[0] == pytest.approx(wanted, abs=0.1 * plain.std[0])


def test_directions_that_are_hardly_visible_count_as_unseen() -> None:
    rng = np.random.default_rng(12)
    labels = Labels(("a", "b", "c"), ("1",) * 3, "test")
    regressor = rng.normal(size=(500, 1, 3))
    regressor[:, :, 1] = regressor[:, :, 0] + 1e-7 * regressor[:, :, 1]
    effort = regressor @ [1.0, 1.0, 3.0] + 0.1 * rng.normal(size=(500, 1))
    information = Information.from_rows(labels, ("x",), regressor, effort)
    assert np.isfinite(LeastSquares().solve(information).parameters.values).all()
    found = LeastSquares(visible=1e-5).solve(information)
    assert np.isnan(found.parameters.values).tolist() == [True, True, False]
    assert found.rank.rank == 2
    # The shortest of those that fit: the two columns that are alike share what they explain.
    assert found.fitted == pytest.approx([1.0, 1.0, 3.0], abs=0.03)
