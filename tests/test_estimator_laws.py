"""Laws of estimators: one table, every estimator of the registry. A new one is a line here.

Rows are those of plants in general position with white noise, so that truth, optimum and
covariance are known exactly. What outliers do to each is in `test_robust`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from heft.estimators import (
    ESTIMATORS,
    BayesianRegression,
    Essential,
    Estimate,
    Estimator,
    InstrumentalVariables,
    LeastSquares,
    MaximumLikelihood,
    OutputError,
    Ransac,
)
from heft.estimators.robust import Hampel, Huber
from heft.estimators.simulated_rows import SimulatedPiece, SimulatedRows
from heft.information import ChannelRows
from heft.plants import Problem
from heft.signals.settings import Smoothing
from heft_methods import (
    BlockMedian,
    ByLackOfFit,
    BySignificance,
    ErrorsInVariables,
    KalmanFilter,
    TotalLeastSquares,
)
from heft_methods.kalman import Kind
from tests.plants import case
from tests.row_problems import Array, RowProblem, row_problem

EPS = np.finfo(float).eps
PLANTS = ("planar arm", "free body by its pose")
ROWS, NOISE = 1536, 0.1
BLOCKS = 12


@dataclass(frozen=True)
class Line:
    """An estimator in the table.

    Attributes:
        quick: Made as the registry makes it, but for settings that only cost time.
        limit: Settings with which it is least squares, on rows that come `BLOCKS` times.
        slow: Whether it takes rows one by one: then they are fewer, and experiments repeated less
            often.
        by_piece: Whether it judges a row by its neighbours in a piece: then pieces matter.
        biased: Whether it does not tend to the truth of such rows: it leaves out what hardly
            matters, or takes the regressor for noisy.
    """

    quick: Callable[[], Estimator]
    limit: Estimator
    slow: bool = False
    by_piece: bool = False
    biased: bool = False

    @property
    def rows(self) -> int:
        """Return how many rows it is tried on."""
        return ROWS // 4 if self.slow else ROWS


class Linear:
    """A simulation of an experiment whose motion is what it is, whatever the parameters."""

    def starts(self, problem: object, values: Array) -> tuple[Array, ...]:
        return (0.0 * values,)

    def simulated(self, problem: object, values: Array) -> SimulatedRows:
        made = (
            SimulatedPiece(r.regressor, r.regressor @ values, r.time, r.recording)
            for r in problem.rows()  # type: ignore[attr-defined]
        )
        return SimulatedRows.of(problem, tuple(made))  # type: ignore[arg-type]

    def positions(self, problem: object, values: Array) -> Iterator[SimulatedPiece]:
        for r in problem.rows():  # type: ignore[attr-defined]
            yield SimulatedPiece(r.regressor, r.effort - r.regressor @ values, r.time, r.recording)

    efforts = positions


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows as steps of a system that forgets its state: s⁺ = Y β + w, half of the noise each."""

    regressor: Array
    measured: Array
    variance: Array

    @property
    def start(self) -> tuple[Array, Array]:
        return np.zeros(len(self.variance)), np.ones(len(self.variance))

    def moved(self, step: int, values: Array, states: Array) -> tuple[Array, Array]:
        return values @ self.regressor[step].T, np.diag(np.sqrt(self.variance))

    def slopes(self, step: int, values: Array, state: Array, after: Array) -> tuple[Array, Array]:
        return np.zeros((len(state), len(state))), self.regressor[step]


class Forgetful:
    """Logs of `Steps`, with the noise that least squares finds."""

    def logs(self, problem: object, first: Estimate) -> tuple[Steps, ...]:
        pieces = list(problem.rows())  # type: ignore[attr-defined]
        half = 0.5 * first.noise.sigma**2
        return tuple(Steps(p.regressor, p.effort, half) for p in pieces)


def filtered(kind: Kind, **settings: object) -> Callable[[], KalmanFilter]:
    return lambda: KalmanFilter(kind, Forgetful(), **settings)  # type: ignore[arg-type]


LINEAR, WHITE = Linear(), LeastSquares(coloured=False)


def ordinary(sweeps: int = 2) -> LeastSquares:
    return LeastSquares("none", sweeps)


TABLE = {
    "least-squares": Line(LeastSquares, LeastSquares(coloured=False)),
    "ordinary": Line(ordinary, ordinary(sweeps=0)),
    "maximum-likelihood": Line(MaximumLikelihood, MaximumLikelihood(sweeps=1)),
    "maximum-likelihood-periods": Line(
        lambda: MaximumLikelihood("periods"), MaximumLikelihood("periods")
    ),
    "bayesian": Line(BayesianRegression, BayesianRegression(share=0.0), biased=True),
    "total-least-squares": Line(TotalLeastSquares, TotalLeastSquares(0.0), biased=True),
    "errors-in-variables": Line(ErrorsInVariables, ErrorsInVariables()),
    "effective-variance": Line(
        lambda: ErrorsInVariables("effective-variance"), ErrorsInVariables("effective-variance")
    ),
    "log-cholesky": Line(LeastSquares, LeastSquares(coloured=False)),
    "huber": Line(Huber, Huber(threshold=1e6)),
    "hampel": Line(lambda: Hampel(window=41), Hampel(threshold=1e6), by_piece=True),
    "blocks": Line(lambda: BlockMedian(blocks=20), BlockMedian(blocks=BLOCKS)),
    "ransac": Line(lambda: Ransac(segments=20, trials=40), Ransac(threshold=1e6, trials=5)),
    "essential": Line(Essential, Essential(rise=0.0), biased=True),
    "essential-ratio": Line(
        lambda: Essential("ratio"), Essential("ratio", ratio=1e12), biased=True
    ),
    "essential-f": Line(
        BySignificance,
        BySignificance(significance=1.0 - 1e-9),
        biased=True,
    ),
    "essential-fit": Line(ByLackOfFit, Essential(rise=0.0), biased=True),
    "essential-range": Line(
        lambda: Essential("torque-range"), Essential("torque-range", range_share=0.0), biased=True
    ),
    "instrumental": Line(
        lambda: InstrumentalVariables(LINEAR), InstrumentalVariables(LINEAR, least_squares=WHITE)
    ),
    "didim": Line(lambda: OutputError(LINEAR), OutputError(LINEAR, least_squares=WHITE)),
    "output-error": Line(
        lambda: OutputError(LINEAR, "position"),
        OutputError(LINEAR, "position", least_squares=WHITE),
    ),
    "kalman": Line(filtered("extended"), filtered("extended", walk=0.0)(), slow=True),
    "kalman-unscented": Line(filtered("unscented"), filtered("unscented", walk=0.0)(), slow=True),
    "kalman-square-root": Line(
        filtered("square-root"), filtered("square-root", walk=0.0)(), slow=True
    ),
}
every = pytest.mark.parametrize("name", TABLE)
unbiased = pytest.mark.parametrize("name", [n for n, line in TABLE.items() if not line.biased])
both_plants = pytest.mark.parametrize("plant", PLANTS)


def noisy(plant: str, seed: int = 0, rows: int = ROWS) -> RowProblem:
    return row_problem(plant, rows, seed).noisy(NOISE, seed)


def exact(problem: RowProblem) -> tuple[Array, Array]:
    """Return ordinary least squares and its standard deviation per unit noise, by numpy."""
    Y = problem.regressor.reshape(-1, problem.regressor.shape[2])
    values = np.linalg.lstsq(Y, problem.effort.ravel(), rcond=None)[0]
    return values, np.sqrt(np.diag(np.linalg.inv(Y.T @ Y)))


def deviations(change: Array, std: Array) -> float:
    """Return the largest change in standard deviations; what has none may not change at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(np.abs(change) / std, nan=0.0, posinf=np.inf).max())


def test_the_table_is_the_registry() -> None:
    assert set(TABLE) == set(ESTIMATORS)
    for name, line in TABLE.items():
        assert type(line.quick()) is type(ESTIMATORS[name]())


@unbiased
@both_plants
def test_noise_free_rows_give_back_the_truth(name: str, plant: str) -> None:
    problem = row_problem(plant, TABLE[name].rows)
    found = TABLE[name].quick().fit(problem)
    error = np.abs(found.parameters.values - problem.truth).max() / np.abs(problem.truth).max()
    assert error <= 100.0 * EPS * found.rank.condition


@every
@both_plants
def test_at_its_limit_it_is_ordinary_least_squares(name: str, plant: str) -> None:
    """Channels have the same noise, blocks say the same thing, nothing is far off."""
    once = noisy(plant, rows=768)
    times = 1 if TABLE[name].slow else BLOCKS
    tiled = replace(
        once,
        regressor=np.tile(once.regressor, (times, 1, 1)),
        effort=np.tile(once.effort, (times, 1)),
        chunk=768,
    )
    found = TABLE[name].limit.fit(tiled)
    wanted, unit = exact(once)
    if name == "ordinary":
        assert found.parameters.values == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    # A channel's noise is known to 1/√(2N), by the median to 1.17/√N; weights move by twice that.
    off = 3.0 * 2.0 * 1.17 / np.sqrt(len(once.effort))
    assert np.abs((found.parameters.values - wanted) / (NOISE * unit)).max() <= off


@every
@both_plants
def test_pieces_do_not_matter(name: str, plant: str) -> None:
    rows = TABLE[name].rows
    problem = noisy(plant, rows=rows)
    one, two = (
        TABLE[name].quick().fit(replace(problem, chunk=chunk)).parameters
        for chunk in (rows // 3, rows)
    )
    gap = deviations(one.values - two.values, one.std)
    # Of 1.2 % of the rows, those near a cut, another median is taken: they weigh that of it.
    assert gap <= (0.2 if TABLE[name].by_piece else 1e-9)


@every
def test_threads_change_nothing(name: str) -> None:
    c = case("planar arm")
    log = c.recording(0.005 * np.arange(400 if TABLE[name].slow else 1200), 0.1)
    one, three = (
        TABLE[name].quick().fit(Problem(c.plant, (log,), Smoothing(15.0, delay=0.0), k)).parameters
        for k in (1, 3)
    )
    assert np.array_equal(one.values, three.values)
    assert np.array_equal(one.std, three.std)


@every
@both_plants
def test_units_and_the_order_of_channels_do_not_matter(name: str, plant: str) -> None:
    problem = noisy(plant, rows=TABLE[name].rows)
    b, c = len(problem.labels), len(problem.channels)
    rng = np.random.default_rng(4)
    units, order = 2.0 ** rng.integers(-10, 10, b), rng.permutation(c)
    other = replace(
        problem,
        channels=tuple(problem.channels[k] for k in order),
        regressor=(1024.0 * problem.regressor * units)[:, order],
        effort=(1024.0 * problem.effort)[:, order],
    )
    plain, changed = (TABLE[name].quick().fit(p).parameters for p in (problem, other))
    # Powers of two are exact; sums in another order are not, nor are iterations ended by them.
    assert deviations(changed.values * units - plain.values, plain.std) <= 1e-6
    assert changed.std * units == pytest.approx(plain.std, rel=1e-6)


@pytest.mark.parametrize("name", [n for n in TABLE if n != "ordinary"])
def test_a_channels_own_unit_matters_to_ordinary_least_squares_only(name: str) -> None:
    problem = noisy(PLANTS[1], rows=TABLE[name].rows)
    scale = 2.0 ** np.arange(-3, 3)
    other = replace(
        problem, regressor=scale[:, None] * problem.regressor, effort=scale * problem.effort
    )
    plain, changed = (TABLE[name].quick().fit(p).parameters for p in (problem, other))
    # Noise is estimated anew from weights of one: it settles to what a last sweep moves.
    assert deviations(changed.values - plain.values, plain.std) <= 0.05
    apart = [ordinary().fit(p).parameters.values for p in (problem, other)]
    std = LeastSquares().fit(problem).parameters.std
    assert deviations(apart[0] - apart[1], std) > 0.5


@unbiased
def test_the_error_falls_with_the_root_of_the_number_of_rows(name: str) -> None:
    slow = TABLE[name].slow
    sizes, seeds = np.array([400, 1600]) // (3 if slow else 1), 8 if slow else 16
    errors = []
    for rows in sizes:
        found = [
            TABLE[name].quick().fit(p).parameters.values - p.truth
            for p in (noisy(PLANTS[0], seed, int(rows)) for seed in range(seeds))
        ]
        unit = exact(row_problem(PLANTS[0], int(sizes[0])))[1]
        errors.append(np.sqrt(np.mean((np.array(found) / unit) ** 2)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # The log of an rms of n numbers is known to 1/√(2n): the slope to that times √2 / ln 4.
    known = np.sqrt(2.0) / np.log(4.0) / np.sqrt(2.0 * seeds * len(unit))
    assert slope == pytest.approx(-0.5, abs=3.0 * known)


@unbiased
@both_plants
def test_stated_deviations_are_those_of_repeated_experiments(name: str, plant: str) -> None:
    """Errors in the metric of the covariance that is stated beside them have an rms of one.

    As far as those of least squares with known noise do in the same draws, whose deviations are
    exact: luck that both share is no matter.
    """
    problem = row_problem(plant, 256 if TABLE[name].slow else 512)
    Y = problem.regressor.reshape(-1, len(problem.labels))
    known = NOISE * np.linalg.cholesky(np.linalg.inv(Y.T @ Y))
    errors, oracle = [], []
    for seed in range(12 if TABLE[name].slow else 20):
        drawn = problem.noisy(NOISE, seed)
        found = TABLE[name].quick().fit(drawn).parameters
        assert found.covariance is not None
        root = np.linalg.cholesky(found.covariance)
        errors.append(np.linalg.solve(root, found.values - problem.truth))
        oracle.append(np.linalg.solve(known, exact(drawn)[0] - problem.truth))
    ratio = float(np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(oracle))))
    assert ratio == pytest.approx(1.0, abs=3.0 / np.sqrt(2.0 * np.size(errors)))


@both_plants
def test_common_errors_widen_any_estimate_as_they_do_least_squares(plant: str) -> None:
    problem = noisy(plant)
    b = len(problem.labels)
    rng = np.random.default_rng(2)
    errors = tuple(ChannelRows.held(30.0 * rng.normal(size=(2, b))) for _ in problem.channels)
    solver = LeastSquares()
    plain = solver.solve(problem.information())
    wanted = solver.colour(problem, plain, errors).parameters
    narrow = solver.colour(problem, plain)
    found = narrow.with_common_errors(errors).parameters
    assert np.array_equal(found.values, wanted.values)
    assert wanted.covariance is not None and found.covariance is not None
    size = np.abs(wanted.covariance).max()
    assert np.abs(found.covariance - wanted.covariance).max() <= 1e-12 * size
    assert (found.std > 1.01 * narrow.parameters.std).all()
