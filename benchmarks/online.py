"""The recursive filter: how long an update takes, and what ten million of them leave.

python -m benchmarks.online [--updates 10000000] [--store]
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.estimators.recursive import Covariance, CovarianceRecursion, Filter, State
from heft.information import folding, triangle_of
from heft.information.inertia import wrench_regressor

Array = NDArray[np.float64]
COUNT, ROWS = 10, 6
CALLS = 60_000
WARM = 20_000  # updates before those that count
VARIETY = 4096  # different blocks of rows, gone round again and again


def blocks(seed: int, moving: bool = True, dtype: type = np.float64) -> NDArray[np.floating]:
    """Return blocks of rows [Y y] of a payload's wrench of unit noise, shape (VARIETY, 6, 11)."""
    rng = np.random.default_rng(seed)
    size = (VARIETY, 3)
    if moving:
        a, w, alpha = 9.81 * rng.normal(size=size), rng.normal(size=size), rng.normal(size=size)
    else:
        a, w, alpha = np.tile([0.0, 0.0, 9.81], (VARIETY, 1)), np.zeros(size), np.zeros(size)
    Y = wrench_regressor(a, w, alpha) / 0.05
    truth = np.array([1.5, 0.06, 0.01, 0.07, 0.01, 0.001, 0.012, 0.0, 0.001, 0.008])
    y = Y @ truth + rng.normal(size=(VARIETY, ROWS))
    return np.concatenate([Y, y[:, :, None]], axis=2).astype(dtype)


def times(step: Callable[[NDArray[np.floating]], object], data: Array, calls: int) -> Array:
    """Return the time of each call [µs], collection of garbage put off."""
    for k in range(2000):
        step(data[k % VARIETY])
    taken = np.empty(calls)
    gc.disable()
    for k in range(calls):
        rows = data[k % VARIETY]
        begin = time.perf_counter_ns()
        step(rows)
        taken[k] = time.perf_counter_ns() - begin
    gc.enable()
    return taken / 1e3


def latency() -> Iterator[Row]:
    """One six-row update of ten parameters with its test for change, called from Python."""
    data = blocks(0)
    filter = Filter((1e-3,) * COUNT, forgetting=0.9999, alarm=1e-9, confirm=2)
    state: State = filter.start()
    plain = CovarianceRecursion(0.9999)
    kept: Covariance = plain.start(data[:4, :, :-1].reshape(-1, COUNT), data[:4, :, -1].ravel())

    def ours(rows: Array) -> None:
        nonlocal state
        state, _ = filter.step(state, rows)

    def textbook(rows: Array) -> None:
        """K, P and θ in numpy, with the innovation's test that a change would need."""
        nonlocal kept
        Y, y = rows[:, :-1], rows[:, -1]
        P = kept.P / 0.9999
        gained = P @ Y.T
        inverse = np.linalg.inv(np.eye(ROWS) + Y @ gained)
        innovation = y - Y @ kept.values
        float(innovation @ inverse @ innovation)
        gain = gained @ inverse
        P = P - gain @ (Y @ P)
        kept = Covariance(kept.values + gain @ innovation, 0.5 * (P + P.T))

    mine, theirs = times(ours, data, CALLS), times(textbook, data, CALLS // 3)
    yield at_most("one update: median", float(np.median(mine)), "µs", 8.0)
    yield at_most("one update: 99.9th percentile", float(np.quantile(mine, 0.999)), "µs", 100.0)
    ratio = float(np.median(theirs) / np.median(mine))
    yield at_least("the same recursion in numpy: median over ours", ratio, "×", 5.0)


def reference(data: NDArray[np.floating], updates: int) -> Array:
    """Return the batch solution, in extended precision."""
    rows = data.reshape(-1, COUNT + 1).astype(np.longdouble)
    times_, rest = divmod(updates, VARIETY)
    weight = np.repeat(np.full(VARIETY, times_) + (np.arange(VARIETY) < rest), ROWS)
    Y, y = rows[:, :-1], rows[:, -1]
    normal, right = (Y.T * weight) @ Y, (Y.T * weight) @ y
    # Gaussian elimination in extended precision: numpy's solver has none.
    matrix = np.column_stack([normal, right])
    for k in range(COUNT):
        pivot = k + int(np.argmax(np.abs(matrix[k:, k])))
        matrix[[k, pivot]] = matrix[[pivot, k]]
        matrix[k + 1 :] -= np.outer(matrix[k + 1 :, k] / matrix[k, k], matrix[k])
    values = np.zeros(COUNT, dtype=np.longdouble)
    for k in range(COUNT - 1, -1, -1):
        values[k] = (matrix[k, -1] - matrix[k, k + 1 : -1] @ values[k + 1 :]) / matrix[k, k]
    return values.astype(float)


@dataclass(frozen=True, eq=False)
class Tree:
    """Information triangle by pairwise summation: rounding grows with the log of the row count.

    Use it for very many rows. In a single triangle of 10⁷ rows the newest fall below an ulp of
    the sum, and in single precision are lost (18 % error, measured). So rows are collected in
    blocks, and blocks are added in pairs of equal size, as a binary counter carries.
    """

    rows: int  # number of rows in a block
    gathering: Array  # triangle of the incomplete block, shape (n + 1, n + 1)
    filled: int = 0  # number of rows in it
    # for each k the triangle of 2ᵏ blocks, shape (n + 1, n + 1), or None
    levels: tuple[Array | None, ...] = ()

    @staticmethod
    def empty(parameters: int, rows: int = 1024, dtype: type = np.float64) -> Tree:
        """Return the tree of no rows.

        Args:
            rows: Number of rows in a block.
        """
        return Tree(rows, np.zeros((parameters + 1, parameters + 1), dtype))

    def add(self, rows: Array) -> Tree:
        """Return the tree with further rows `[Y y]`, shape (m, n + 1)."""
        factor, _ = folding.absorb(self.gathering, rows)
        if self.filled + len(rows) < self.rows:
            return replace(self, gathering=factor, filled=self.filled + len(rows))
        levels = list(self.levels)
        carried: Array = factor
        for k, one in enumerate(levels):
            if one is None:
                levels[k] = carried
                break
            carried, levels[k] = folding.absorb(one, carried)[0], None
        else:
            levels.append(carried)
        return Tree(self.rows, np.zeros_like(factor), 0, tuple(levels))

    @property
    def factor(self) -> Array:
        """`[R z; 0 ρ]` of all rows, shape (n + 1, n + 1)."""
        total = self.gathering
        for one in self.levels:
            if one is not None:
                total, _ = folding.absorb(total, one)
        return total


def long_runs(updates: int) -> Iterator[Row]:
    """Nothing is lost over very many updates, in motion and at rest."""
    label = f"{updates:.0e} updates"
    for dtype, bound in ((np.float64, 1e-9), (np.float32, 1e-5)):
        data = blocks(1, dtype=dtype)
        tree = Tree.empty(COUNT, 1024, dtype)
        for k in range(updates):
            tree = tree.add(data[k % VARIETY])
        found = State(tree.factor.astype(float)).values
        wanted = reference(data, updates)
        off = float(np.abs(found - wanted).max() / np.abs(wanted).max())
        yield at_most(f"{label}, {np.dtype(dtype).name}, off the batch solution", off, "", bound)
        low = float(np.diag(tree.factor)[:-1].min())
        yield at_least(f"{label}, {np.dtype(dtype).name}, least diagonal", low, "", 1e-12)
    moving, still = blocks(2), blocks(3, moving=False)
    filter = Filter((1.0,) * COUNT, forgetting=0.9999)
    for name, data in (("in motion", moving), ("at rest", still)):
        state = filter.start()
        for k in range(WARM):
            state, _ = filter.step(state, moving[k % VARIETY])
        before = state.values
        for k in range(updates):
            state, _ = filter.step(state, data[k % VARIETY])
        diagonal = np.diag(state.factor)[:-1]
        yield at_least(f"{label} {name} with resetting, least diagonal", diagonal.min(), "", 0.5)
        condition = float(np.linalg.cond(state.factor[:-1, :-1]))
        yield Row(f"{label} {name} with resetting, condition", condition, "")
        drift = float(np.abs(state.values - before)[1:].max())
        yield Row(f"{label} {name} with resetting, parameters moved by", drift, "")
    faded = triangle_of(moving[:64].reshape(-1, COUNT + 1))
    root = np.sqrt(0.9999)
    for k in range(min(updates, 1_000_000)):
        faded, _ = folding.absorb(root * faded, still[k % VARIETY])
    lowest = float(np.abs(np.diag(faded))[:-1].min())
    yield Row("forgetting alone at rest, 1e6 updates: least diagonal", lowest, "")


@benchmark({"updates": 1000, "CALLS": 100, "WARM": 100})
def main(*, updates: int = 200_000) -> Iterator[Row]:
    """Yield the rows.

    Args:
        updates: Of long runs.
    """
    yield from latency()
    yield from long_runs(updates)


if __name__ == "__main__":
    main()
