"""Laws of estimates that follow the data: the batch solution, the floor, the test for change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats
from benchmarks.online import Tree

from heft.errors import InvalidSetting, TooLittleData
from heft.estimators.recursive import CovarianceRecursion, Filter, State, walked
from heft.information import folding, triangle_of
from tests.robots import FloatArray

COUNT = 10


def rows_of(seed: int, blocks: int, values: FloatArray | None = None, rows: int = 6) -> FloatArray:
    """Return blocks of rows [Y y] of unit noise, shape (blocks, rows, COUNT + 1)."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(blocks, rows, COUNT))
    truth = np.zeros(COUNT) if values is None else values
    y = Y @ truth + rng.normal(size=(blocks, rows))
    return np.concatenate([Y, y[:, :, None]], axis=2)


def run(filter: Filter, blocks: FloatArray, state: State | None = None) -> State:
    """Return the state after all blocks."""
    state = filter.start() if state is None else state
    for rows in blocks:
        state, _ = filter.step(state, rows)
    return filter.settled(state)


def batch(blocks: FloatArray, floor: float) -> FloatArray:
    """Return the least-squares solution with a floor about zero."""
    rows = blocks.reshape(-1, COUNT + 1)
    wide = np.vstack([rows, floor * np.eye(COUNT, COUNT + 1)])
    return np.linalg.lstsq(wide[:, :-1], wide[:, -1], rcond=None)[0]


@pytest.mark.parametrize("rows", [1, 3, 6, 12])
def test_absorbed_rows_are_a_triangle_of_all_rows(rows: int) -> None:
    factor = triangle_of(rows_of(0, 30).reshape(-1, COUNT + 1))
    more = rows_of(1, 1, rows=rows)[0]
    found, _ = folding.absorb(factor, more)
    np.testing.assert_allclose(found, triangle_of(np.vstack([factor, more])), atol=1e-12)
    assert (np.diag(found) >= 0.0).all()


def test_the_surprise_is_that_of_the_innovation() -> None:
    blocks = rows_of(2, 20, np.arange(COUNT, dtype=float))
    factor, rows = triangle_of(blocks.reshape(-1, COUNT + 1)), rows_of(3, 1)[0]
    state = State(factor)
    innovation = rows[:, -1] - rows[:, :-1] @ state.values
    covariance = np.eye(6) + rows[:, :-1] @ state.covariance @ rows[:, :-1].T
    wanted = innovation @ np.linalg.solve(covariance, innovation)
    assert folding.absorb(factor, rows)[1] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("lag", [0, 4])
def test_without_forgetting_it_is_the_batch_solution(lag: int) -> None:
    blocks = rows_of(4, 500, np.linspace(-1.0, 1.0, COUNT))
    found = run(Filter((1e-3,) * COUNT, lag=lag, alarm=1e-12), blocks)
    np.testing.assert_allclose(found.values, batch(blocks, 1e-3), rtol=0, atol=1e-12)


def test_the_covariance_recursion_is_the_batch_solution_too() -> None:
    blocks = rows_of(5, 200, np.linspace(-1.0, 1.0, COUNT))
    recursion = CovarianceRecursion()
    state = recursion.start(blocks[:3, :, :-1].reshape(-1, COUNT), blocks[:3, :, -1].reshape(-1))
    for rows in blocks[3:]:
        state = recursion.step(state, rows[:, :-1], rows[:, -1])
    np.testing.assert_allclose(state.values, batch(blocks, 0.0), rtol=0, atol=1e-10)


def test_one_sample_cannot_start_the_covariance_recursion() -> None:
    rows = rows_of(6, 1)[0]
    with pytest.raises(TooLittleData, match="rank 6 of 10"):
        CovarianceRecursion().start(rows[:, :-1], rows[:, -1])


def test_a_regularised_start_of_the_recursion_is_a_floor() -> None:
    blocks = rows_of(7, 50, np.ones(COUNT))
    recursion = CovarianceRecursion()
    state = recursion.regularised(COUNT, 10.0)
    for rows in blocks:
        state = recursion.step(state, rows[:, :-1], rows[:, -1])
    np.testing.assert_allclose(state.values, batch(blocks, 0.1), rtol=0, atol=1e-10)


def test_standing_still_keeps_what_is_known() -> None:
    """An hour at 1 kHz would be 3.6e6 steps: after 1e5 nothing moves any more."""
    moving = rows_of(8, 400, np.arange(COUNT, dtype=float))
    still = rows_of(9, 1)[0]
    still[:, 1:-1] = 0.0  # shows the first parameter only
    floor = 5.0
    filter = Filter((floor,) * COUNT, forgetting=0.999)
    before = run(filter, moving)
    state = run(filter, np.broadcast_to(still, (20_000, *still.shape)), before)
    again = run(filter, np.broadcast_to(still, (20_000, *still.shape)), state)
    information = again.factor[:-1, :-1].T @ again.factor[:-1, :-1]
    # Never below the floor in any direction.
    assert np.linalg.eigvalsh(information)[0] >= floor**2 * (1.0 - 1e-9)
    np.testing.assert_allclose(again.values[1:], state.values[1:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(again.values[1:], before.values[1:], rtol=0, atol=0.3)


@pytest.mark.parametrize("size", [1e-150, 1e-160, 1e-170, 5e-324])
@pytest.mark.parametrize("diagonal", [0.0, 1e-160, 1.0])
def test_rows_that_are_next_to_nothing_do_no_harm(size: float, diagonal: float) -> None:
    """What resetting fades for an hour falls out of the range of squares."""
    factor = diagonal * np.eye(4)
    rows = size * np.array([[1.0, -2.0, 0.5, 1.0], [0.0, 1.0, 1.0, 2.0]])
    found, surprise = folding.absorb(factor, rows)
    assert np.isfinite(found).all() and np.isfinite(surprise)
    np.testing.assert_allclose(found[:3, :3], factor[:3, :3], rtol=0, atol=1e-140)


def test_forgetting_alone_winds_up() -> None:
    """What resetting is for: the same without a floor loses all that does not move."""
    moving, still = rows_of(8, 400), rows_of(9, 1)[0]
    still[:, 1:-1] = 0.0
    factor = triangle_of(moving.reshape(-1, COUNT + 1))
    for _ in range(20_000):
        factor, _ = folding.absorb(np.sqrt(0.999) * factor, still)
    assert np.abs(factor[1, 1]) < 1e-2


def test_surprises_are_as_rare_as_stated() -> None:
    blocks = rows_of(10, 4000, np.ones(COUNT))
    filter = Filter((1e-3,) * COUNT, alarm=0.05, confirm=10**6)
    state, seen = filter.start(), []
    for rows in blocks:
        factor, surprise = folding.absorb(state.factor, rows)
        seen.append(surprise)
        state = State(factor)
    late = np.array(seen[200:])
    share = float(np.mean(late > filter.limit(6)))
    # Binomial, 3800 draws: 0.05 ± 3 · 0.0035.
    assert abs(share - 0.05) <= 0.011
    assert scipy.stats.kstest(late, scipy.stats.chi2(6).cdf).pvalue > 1e-3


def test_a_change_is_seen_and_only_what_changed_is_forgotten() -> None:
    before, after = np.ones(COUNT), np.append(9.0 * np.ones(4), np.ones(6))
    filter = Filter(
        (1e-3,) * COUNT,
        alarm=1e-9,
        confirm=2,
        lag=4,
        renewed=(True,) * 4 + (False,) * 6,
    )
    state = run(filter, rows_of(11, 300, before))
    changed = []
    for k, rows in enumerate(rows_of(12, 60, after)):
        kept = state
        state, seen = filter.step(state, rows)
        if seen.changed:
            changed.append(k)
            known = np.sqrt(np.diag(kept.covariance)[4:])
            now = np.sqrt(np.diag(state.covariance)[4:])
            # What is not renewed keeps its information but for what the others took with them.
            assert (now <= 1.5 * known).all()
    assert changed == [1]  # the second surprise confirms the first
    error = filter.settled(state).values - after
    assert (np.abs(error) <= 5.0 * np.sqrt(np.diag(filter.settled(state).covariance))).all()


def test_a_single_spike_is_left_out() -> None:
    truth = np.ones(COUNT)
    filter = Filter((1e-3,) * COUNT, alarm=1e-9, confirm=2)
    blocks = rows_of(13, 300, truth)
    spiked = blocks.copy()
    spiked[150, 2, -1] += 1e3
    found, clean = run(filter, spiked), run(filter, np.delete(blocks, 150, axis=0))
    np.testing.assert_allclose(found.values, clean.values, rtol=0, atol=1e-12)


def test_walking_adds_the_walk_to_the_covariance() -> None:
    factor = triangle_of(rows_of(14, 100).reshape(-1, COUNT + 1))
    deviation = np.where(np.arange(COUNT) < 3, 0.7, 0.0)
    old, new = State(factor), State(walked(factor, deviation))
    np.testing.assert_allclose(
        new.covariance, old.covariance + np.diag(deviation**2), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(new.values, old.values, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_a_tree_of_blocks_is_the_whole(dtype: type, tolerance: float) -> None:
    blocks = rows_of(15, 20_000, np.ones(COUNT))
    tree = Tree.empty(COUNT, 256, dtype)
    for rows in blocks.astype(dtype):
        tree = tree.add(rows)
    assert tree.factor.dtype == dtype
    found = State(tree.factor.astype(float)).values
    np.testing.assert_allclose(found, batch(blocks, 0.0), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "changes",
    [
        {"floor": (0.0,) * COUNT},
        {"floor": (np.nan,) * COUNT},
        {"forgetting": 0.0},
        {"forgetting": 1.1},
        {"renewed": (True,)},
        {"walk": (0.1,)},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidSetting):
        dataclasses.replace(Filter((1.0,) * COUNT), **changes)  # type: ignore[arg-type]


def test_a_block_of_a_tree_is_closed_by_its_last_row() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 3))
    tree = Tree.empty(2, 4)
    for k, row in enumerate(rows, start=1):
        tree = tree.add(row[None])
        assert tree.filled == k % 4
        assert [one is not None for one in tree.levels] == [
            bool(k // 4 >> level & 1) for level in range((k // 4).bit_length())
        ]
    assert np.allclose(tree.factor.T @ tree.factor, rows.T @ rows)
