"""Recursive least squares for online identification: forgetting and tests for change.

All functions take whitened rows `[Y y]`, whose noise has unit variance, and return a new state;
nothing is changed in place. The state is a square-root information triangle `[R z; 0 ρ]`, which
stays positive definite in finite precision: it is a sum of squares by construction. The textbook
recursion of the covariance is included for comparison and teaching; with forgetting it loses
definiteness within seconds at 1 kHz.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.information import Directions, folding, triangle_of


@dataclass(frozen=True, eq=False)
class Covariance:
    """Estimate Θ̂ and its covariance P, the state of the covariance recursion."""

    values: Array  # Θ̂, shape (n,)
    P: Array  # `(ΦᵀΦ)⁻¹` of all rows so far, shape (n, n)


@dataclass(frozen=True)
class CovarianceRecursion:
    """Recursive least squares in the textbook form, with gain K and covariance P.

    `K = P Φᵀ (1 + Φ P Φᵀ)⁻¹`, `P ← (1 − K Φ) P`, `Θ̂ ← Θ̂ + K (h − Φ Θ̂)`, with P divided by λ
    before each step for exponential forgetting. For comparison and teaching: `Filter` computes
    the same estimate, stays positive definite, and detects changes.
    """

    forgetting: float = 1.0  # λ in (0, 1], 1 for no forgetting

    def start(self, regressor: Array, effort: Array) -> Covariance:
        """Return the state after a batch of rows, `P = (ΦᵀΦ)⁻¹` and `Θ̂ = P Φᵀ h`.

        One wrench sample of a rigid body is not enough: its six rows have rank six of ten, and
        P does not exist.

        Args:
            regressor: Φ, whitened, shape (m, n).
            effort: h, whitened, shape (m,).

        Raises:
            TooLittleData: If the rows do not determine the parameters.
        """
        phi, h = np.asarray(regressor, dtype=float), np.asarray(effort, dtype=float)
        triangle = triangle_of(np.column_stack([phi, h]))
        seen = Directions.of(triangle[:-1, :-1], len(h), 1e-6)
        if seen.rank < phi.shape[1]:
            raise TooLittleData(
                "these rows cannot start a recursion: ΦᵀΦ has no inverse",
                argument="regressor",
                got=f"rank {seen.rank} of {phi.shape[1]} from {len(h)} rows",
                cure="start from more samples, in different poses and in motion, or from a prior",
            )
        return Covariance(seen.shortest(triangle[:-1, -1]), seen.inverse @ seen.inverse.T)

    @staticmethod
    def regularised(count: int, std: float) -> Covariance:
        """Return the state of a prior about zero, `Θ̂ = 0` and `P = std² 1`.

        Args:
            std: Prior standard deviation of each parameter, in its unit.
        """
        return Covariance(np.zeros(count), std**2 * np.eye(count))

    def step(self, state: Covariance, regressor: Array, effort: Array) -> Covariance:
        """Return the state after m further whitened rows: Φ, shape (m, n), and h, shape (m,)."""
        P = state.P / self.forgetting
        gained = P @ regressor.T
        gain = gained @ np.linalg.inv(np.eye(len(effort)) + regressor @ gained)
        values = state.values + gain @ (effort - regressor @ state.values)
        return Covariance(values, P - gain @ (regressor @ P))


@dataclass(frozen=True, eq=False)
class State:
    """State of a `Filter`: its square-root information triangle and the blocks under test."""

    factor: Array  # `[R z; 0 ρ]`, upper triangular, diagonal ≥ 0, shape (n + 1, n + 1)
    steps: int = 0  # number of blocks of rows received
    # blocks received and not yet added to the triangle, oldest first, each of shape (m, n + 1)
    waiting: tuple[Array, ...] = ()
    doubted: int = 0  # number of successive blocks whose innovation exceeded the limit
    # number of coming blocks to be ignored, as they contain samples from before the last change
    skipping: int = 0

    @cached_property
    def values(self) -> Array:
        """The estimate `R⁻¹ z`, shape (n,)."""
        R = self.factor
        return np.asarray(np.linalg.solve(R[:-1, :-1], R[:-1, -1]))

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the estimate, `(RᵀR)⁻¹`, shape (n, n)."""
        inverse = np.linalg.inv(self.factor[:-1, :-1])
        return np.asarray(inverse @ inverse.T)


class Seen(NamedTuple):
    """Innovation test of a block of rows."""

    # squared normalised innovation `eᵀ (1 + Y P Yᵀ)⁻¹ e` of the innovation e. If nothing changed it
    # is χ² distributed, with as many degrees of freedom as rows
    surprise: float
    limit: float  # threshold of the test
    changed: bool  # whether the filter detected a change with this block and was reset


@dataclass(frozen=True)
class Filter:
    """Square-root information filter with forgetting, resetting and change detection.

    Forgetting multiplies the information by λ a block. Without excitation that alone would lose
    all information, and the estimate would follow noise. Resetting adds `(1 − λ) R∞ᵀR∞` about
    the current estimate, so that the information never falls below R∞ᵀR∞ and a robot at rest
    keeps its estimate [Salgado1988].

    A change is detected by the newest rows' innovation, normalised by its covariance. Rows of
    overlapping windows share samples, so the newest are tested against an estimate that is `lag`
    blocks older and independent of them. A block that exceeds the limit is not added to the
    information, and waiting blocks are discarded with it; fewer than `confirm` such blocks in
    succession are treated as outliers.

    Raises:
        InvalidSetting: If a floor is not positive, λ is out of range, or an array does not have
            one entry a parameter.
    """

    # diagonal of R∞, the least square-root information 1/std of each parameter, shape (n,) [1 /
    # parameter's unit]: the prior of a start and the limit of forgetting
    floor: tuple[float, ...]
    forgetting: float = 1.0  # λ a block, in (0, 1]; 1 for no forgetting
    every: int = 50  # blocks between one resetting and the next
    # blocks by which the estimate is behind the test; as many are skipped after a change
    lag: int = 0
    alarm: float = 0.0  # false-alarm probability of the test of one block; 0 for no test
    confirm: int = 1  # successive blocks above the limit that are taken for a change
    # which parameters a change makes unknown, shape (n,); all if not given
    renewed: tuple[bool, ...] | None = None
    # standard deviation of each parameter's random walk in a block, shape (n,), in its unit; no
    # random walk if not given
    walk: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not all(math.isfinite(f) and f > 0.0 for f in self.floor):
            raise InvalidSetting(
                "the least information must be positive", argument="floor", got=self.floor
            )
        if not 0.0 < self.forgetting <= 1.0:
            raise InvalidSetting(
                "information fades by a factor", argument="forgetting", got=self.forgetting,
                expected="above 0, at most 1",
            )  # fmt: skip
        for name in ("renewed", "walk"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.floor):
                raise InvalidSetting(
                    "one entry a parameter is expected",
                    argument=name,
                    got=len(given),
                    expected=str(len(self.floor)),
                )

    def start(self, values: Sequence[float] | Array | None = None) -> State:
        """Return the initial state: the floor's information about a prior mean, (n,), else zero."""
        count = len(self.floor)
        factor = np.zeros((count + 1, count + 1))
        factor[np.arange(count), np.arange(count)] = self.floor
        if values is not None:
            factor[:-1, -1] = np.asarray(self.floor) * np.asarray(values, dtype=float)
        return State(factor)

    def limit(self, rows: int) -> float:
        """Return the threshold of the squared normalised innovation, a quantile of χ².

        Args:
            rows: Number of rows in the block, the degrees of freedom.
        """
        if self.alarm <= 0.0:
            return math.inf
        return _quantile(rows, self.alarm)

    def step(self, state: State, rows: Array) -> tuple[State, Seen]:
        """Return the state after a block of rows, and the block's innovation test.

        Args:
            rows: `[Y y]` with noise of unit variance, shape (m, n + 1).
        """
        factor, surprise = folding.absorb(state.factor, rows)
        limit = self.limit(len(rows))
        if state.skipping:
            waits = replace(state, steps=state.steps + 1, skipping=state.skipping - 1)
            return waits, Seen(surprise, limit, False)
        if surprise > limit:
            doubted = state.doubted + 1
            if doubted < self.confirm:
                return replace(state, steps=state.steps + 1, waiting=(), doubted=doubted), Seen(
                    surprise, limit, False
                )
            begun = State(self._renew(state.factor), state.steps + 1, skipping=self.lag)
            return begun, Seen(surprise, limit, True)
        waiting: tuple[Array, ...] = ()
        if self.lag:
            waiting = (*state.waiting, rows)
            factor = state.factor
            if len(waiting) > self.lag:
                factor, _ = folding.absorb(factor, waiting[0])
                waiting = waiting[1:]
        steps = state.steps + 1
        if steps % self.every == 0 and (self.forgetting < 1.0 or self.walk is not None):
            factor = self._age(factor)
        return State(factor, steps, waiting), Seen(surprise, limit, False)

    def settled(self, state: State) -> State:
        """Return the state with all waiting blocks added to the information."""
        factor = state.factor
        for rows in state.waiting:
            factor, _ = folding.absorb(factor, rows)
        return replace(state, factor=factor, waiting=())

    def _age(self, factor: Array) -> Array:
        """Return the triangle after the random walk and forgetting of `every` blocks."""
        if self.walk is not None:
            factor = walked(factor, math.sqrt(self.every) * np.asarray(self.walk))
        if self.forgetting == 1.0:
            return factor
        kept = self.forgetting**self.every
        faded = math.sqrt(kept) * factor
        rows = self._about(factor, math.sqrt(1.0 - kept))
        return np.asarray(folding.absorb(faded, rows)[0])

    def _about(self, factor: Array, scale: float) -> Array:
        """Return rows with `scale²` of the floor's information about the current estimate."""
        count = len(self.floor)
        values = np.linalg.solve(factor[:-1, :-1], factor[:-1, -1])
        rows = np.zeros((count, count + 1))
        rows[np.arange(count), np.arange(count)] = scale * np.asarray(self.floor)
        rows[:, -1] = scale * np.asarray(self.floor) * values
        return rows

    def _renew(self, factor: Array) -> Array:
        """Return the triangle with the renewed parameters reset to the prior about zero.

        The marginal information about the other parameters is preserved.
        """
        count = len(self.floor)
        renewed = np.ones(count, bool) if self.renewed is None else np.array(self.renewed)
        away, kept = np.flatnonzero(renewed), np.flatnonzero(~renewed)
        begun = self.start().factor
        if len(kept) == 0:
            return begun
        order = [*away, *kept, count]
        triangle = triangle_of(factor[:, order])[len(away) :]
        rows = np.zeros((len(triangle), count + 1))
        rows[:, [*kept, count]] = triangle[:, len(away) :]
        begun[kept] = 0.0
        return np.asarray(triangle_of(np.vstack([begun, rows])))


def walked(factor: Array, deviation: Array) -> Array:
    """Return the triangle `[R z; 0 ρ]` of x′ after a step of a random walk, (n + 1, n + 1).

    `x′ = x + w`: rows `(x′ − x)/σ = 0` are added, and x is eliminated [Bierman1977, ch. VI].

    Args:
        factor: `[R z; 0 ρ]`, shape (n + 1, n + 1).
        deviation: σ of w, shape (n,), in the parameters' units; zero for constant parameters.
    """
    moving = np.flatnonzero(deviation > 0.0)
    count, many = len(factor) - 1, len(moving)
    if many == 0:
        return factor
    # Old values of what walks first, so that they are eliminated, then all as they are now.
    wide = np.zeros((count + 1 + many, many + count + 1))
    staying = np.setdiff1d(np.arange(count), moving)
    wide[: count + 1, :many] = factor[:, moving]
    wide[: count + 1, many + staying] = factor[:, staying]
    wide[: count + 1, -1] = factor[:, -1]
    steps = np.arange(many)
    wide[count + 1 + steps, steps] = -1.0 / deviation[moving]
    wide[count + 1 + steps, many + moving] = 1.0 / deviation[moving]
    return np.asarray(triangle_of(wide)[many:, many:])


@lru_cache
def _quantile(rows: int, alarm: float) -> float:
    from scipy.special import gammainccinv

    return float(2.0 * gammainccinv(0.5 * rows, alarm))
