"""The difference of two sets of logs is that of least squares of all rows, with deviations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from heft.applications.identification.difference import ChangeEstimate, Difference, _hotelling
from heft.arrays import Array
from heft.fit.earlier import Earlier
from heft.information import Information, Labels

SIZE, BLOCKS, ROWS = 6, 12, 40
SIGMA = np.array([0.1, 2.0])
LABELS = Labels(tuple(f"b{k}" for k in range(SIZE)), ("kg",) * SIZE)


class Logs:
    """Rows of two channels of a set of logs, and what they say."""

    def __init__(self, rng: np.random.Generator, beta: Array, trend: float = 0.0) -> None:
        self.regressor = rng.normal(size=(BLOCKS * ROWS, 2, SIZE))
        noise = SIGMA * rng.normal(size=(BLOCKS * ROWS, 2))
        drift = trend * SIGMA * np.linspace(-1.0, 1.0, BLOCKS * ROWS)[:, None]
        self.effort = self.regressor @ beta + noise + drift * self.regressor[:, :, 0]

    @property
    def weighted(self) -> tuple[Array, Array]:
        """Rows of unit variance, shapes (N, b) and (N,)."""
        weight = 1.0 / SIGMA
        whole = self.regressor * weight[:, None]
        return whole.reshape(-1, SIZE), (self.effort * weight).ravel()

    @property
    def evidence(self) -> Earlier:
        """What they say of the parameters."""
        whole = Information.from_rows(LABELS, ("a", "b"), self.regressor, self.effort)
        parts = [
            Information.from_rows(LABELS, ("a", "b"), self.regressor[k], self.effort[k])
            for k in np.split(np.arange(BLOCKS * ROWS), BLOCKS)
        ]
        fitted = np.linalg.lstsq(*self.weighted, rcond=None)[0]
        moments = np.array([p.moments(fitted) for p in parts])
        pairs = zip(SIGMA, whole.triangles, strict=True)
        noise = [s * t.spread(SIZE)[:-1, :-1] for s, t in pairs]
        none = (np.zeros((0, SIZE)),) * 2
        return Earlier(whole, tuple(noise), none, tuple(np.moveaxis(moments, 1, 0)))


def squares(before: Logs, after: Logs, columns: Array) -> tuple[Array, float]:
    """Return δ of least squares of all rows on [β, δ], and the residual sum of squares."""
    (first, one), (second, two) = before.weighted, after.weighted
    none = np.zeros((len(first), columns.shape[1]))
    rows = np.block([[first, none], [second, second @ columns]])
    found, left, *_ = np.linalg.lstsq(rows, np.concatenate([one, two]), rcond=None)
    return found[SIZE:], float(left[0])


@pytest.fixture
def rng() -> np.random.Generator:
    """Return random numbers."""
    return np.random.default_rng(4)


def test_a_change_is_that_of_least_squares_of_all_rows(rng: np.random.Generator) -> None:
    beta, columns = rng.normal(size=SIZE), rng.normal(size=(SIZE, 2))
    before, after = Logs(rng, beta), Logs(rng, beta + columns @ [0.02, -0.01])
    difference = Difference.of(before.evidence, after.evidence, 1.0 / SIGMA)
    found = difference.change(columns)
    values, left = squares(before, after, columns)
    nothing = squares(before, after, np.zeros((SIZE, 0)))[1]
    assert found.values == pytest.approx(values, rel=1e-8)
    assert found.explained == pytest.approx(nothing - left, rel=1e-6)
    # Beside the first column the second is what both together say of it.
    beside = difference.beside(columns[:, :1]).change(columns[:, 1:])
    assert beside.values == pytest.approx(values[1:], rel=1e-8)
    assert beside.explained == pytest.approx(
        squares(before, after, columns[:, :1])[1] - left, rel=1e-6
    )


def test_forwards_and_backwards_differ_in_sign(rng: np.random.Generator) -> None:
    beta, columns = rng.normal(size=SIZE), rng.normal(size=(SIZE, 1))
    before, after = Logs(rng, beta), Logs(rng, beta + 0.02 * columns[:, 0])
    there = Difference.of(before.evidence, after.evidence, 1.0 / SIGMA).change(columns)
    back = Difference.of(after.evidence, before.evidence, 1.0 / SIGMA).change(columns)
    assert back.values == pytest.approx(-there.values) and back.std == pytest.approx(there.std)
    assert back.probability == pytest.approx(there.probability, rel=1e-6)


def test_what_no_log_shows_is_no_change(rng: np.random.Generator) -> None:
    beta = rng.normal(size=SIZE)
    logs = [Logs(rng, beta), Logs(rng, beta)]
    for each in logs:
        each.regressor[:, :, 1] = 0.0
    difference = Difference.of(*(each.evidence for each in logs), 1.0 / SIGMA)
    hidden = difference.change(np.eye(SIZE)[:, 1:2])
    assert np.isnan(hidden.values[0]) and hidden.std[0] == np.inf and hidden.probability == 1.0
    seen = difference.change(np.eye(SIZE)[:, :2])
    assert np.isfinite(seen.values).tolist() == [True, False]
    again = difference.beside(np.eye(SIZE)[:, :1]).change(np.eye(SIZE)[:, :1])
    assert again.probability == 1.0 and again.explained == 0.0


@pytest.mark.parametrize("trend", [0.0, 2.0])
def test_alarms_are_rarer_than_stated_also_of_drives_that_warm_up(trend: float) -> None:
    rng = np.random.default_rng(5)
    beta, columns = rng.normal(size=SIZE), np.eye(SIZE)[:, :1]
    found = []
    for _ in range(150):
        pair = [Logs(rng, beta, trend).evidence for _ in range(2)]
        found.append(Difference.of(*pair, 1.0 / SIGMA).change(columns))
    assert np.mean([c.probability < 0.05 for c in found]) < 0.05
    # The scatter of blocks and that of noise are both there, so that it is √2 too large at most.
    errors = np.array([c.values[0] / c.std[0] for c in found])
    assert 0.5 < np.std(errors) < 1.0


def test_the_least_size_is_found_in_nine_of_ten_and_a_quarter_of_it_is_not() -> None:
    rng, alarm = np.random.default_rng(7), 0.01
    beta, columns = rng.normal(size=SIZE), np.eye(SIZE)[:, :1]

    def found(size: float) -> list[ChangeEstimate]:
        pairs = [(Logs(rng, beta), Logs(rng, beta + size * columns[:, 0])) for _ in range(50)]
        sides = [[one.evidence for one in pair] for pair in pairs]
        return [Difference.of(*pair, 1.0 / SIGMA).change(columns) for pair in sides]

    least = float(np.mean([c.least(alarm) for c in found(0.0)]))
    for size, enough in ((least, True), (0.25 * least, False)):
        assert bool(np.mean([c.probability < alarm for c in found(size)]) >= 0.9) is enough


def test_errors_that_each_side_settled_for_itself_are_no_change() -> None:
    rng, columns = np.random.default_rng(9), np.eye(SIZE)[:, :1]
    pairs = []
    for size in (0.0, 0.1):
        for _ in range(50):
            logs = [Logs(rng, np.eye(SIZE)[0] * (1.0 + step)) for step in (0.0, size)]
            sides = []
            for one in logs:
                late = one.regressor[:, :, 0] + one.regressor[:, :, 1]  # of unit deviation
                one.effort += 0.05 * rng.normal() * late
                seen = [0.05 * one.regressor[:, c].T @ late[:, [c]] for c in range(2)]
                sides.append((one.evidence, tuple(m.T for m in seen)))
            told = [replace(one, common=seen) for one, seen in sides]
            pairs.append([Difference.of(*both, 1.0 / SIGMA).change(columns).probability
                          for both in (told, [one for one, _ in sides])])  # fmt: skip
    found = np.array(pairs).reshape(2, 50, 2) < 0.01
    shares = found.mean(axis=1)
    # The error is also in the second column, so that a change of the first alone is still seen.
    assert shares[0, 0] <= 0.02 and shares[0, 1] > 0.3 and shares[1, 0] > 0.7


def test_without_blocks_the_noise_alone_is_known(rng: np.random.Generator) -> None:
    beta, columns = rng.normal(size=SIZE), np.eye(SIZE)[:, :1]
    sides = [replace(Logs(rng, beta).evidence, moments=(np.zeros((0, SIZE)),) * 2) for _ in "ab"]
    difference = Difference.of(*sides, 1.0 / SIGMA)
    found = difference.change(columns)
    assert found.std[0] == pytest.approx(abs(found.values[0]) / np.sqrt(found.explained))
    normal = 2.0 * scipy.stats.norm.sf(np.sqrt(found.explained))
    assert found.probability == pytest.approx(normal, rel=1e-3)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_few_blocks_make_hotellings_test(size: int) -> None:
    rng = np.random.default_rng(size)
    probability = []
    for _ in range(1000):
        drawn = rng.normal(size=(20, size))
        probability.append(_hotelling(rng.normal(size=size), drawn.T @ drawn / 20.0, 20.0))
    assert scipy.stats.kstest(probability, "uniform").pvalue > 1e-3
