"""Estimates that follow the data as they come: recursions, forgetting, tests for change.

Everything here takes rows of unit variance, `[Y y]`, whitened by whoever knows the noise, and
returns a new state; nothing is changed in place. The state is a square-root information triangle
`[R z; 0 ρ]`, which stays definite whatever comes: it is a sum of squares by construction. The
covariance recursion that textbooks print is here too, under its own name, to compare and to teach
with; under forgetting it loses definiteness within seconds at 1 kHz.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy.special

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData
from heft.information import Directions, folding, triangle_of

LARGEST_CONDITION = 1e6  # of rows that a recursion may start from


@dataclass(frozen=True, eq=False)
class Covariance:
    """State of the covariance recursion.

    Attributes:
        values: Θ̂, shape (n,).
        P: `(ΦᵀΦ)⁻¹` of all rows so far, shape (n, n).
    """

    values: Array
    P: Array


@dataclass(frozen=True)
class CovarianceRecursion:
    """Recursive least squares in gain and covariance, as the load identification chapter has it.

    `K = P Φᵀ (1 + Φ P Φᵀ)⁻¹`, `P ← (1 − K Φ) P`, `Θ̂ ← Θ̂ + K (h − Φ Θ̂)`, with λ of usual
    exponential forgetting beside it. For comparison and teaching: `Filter` computes the same
    estimate, stays definite, and knows when something changed.

    Attributes:
        forgetting: λ, 1 for none.
    """

    forgetting: float = 1.0

    def start(self, regressor: Array, effort: Array) -> Covariance:
        """Return the state after a batch of rows, `P = (ΦᵀΦ)⁻¹` and `Θ̂ = P Φᵀ h`.

        The chapter starts from one sample, whose six rows have rank six of ten; P does not
        exist then.

        Args:
            regressor: Φ, shape (m, n).
            effort: h, shape (m,).

        Raises:
            TooLittleData: If the rows do not determine the parameters.
        """
        phi, h = np.asarray(regressor, dtype=float), np.asarray(effort, dtype=float)
        triangle = triangle_of(np.column_stack([phi, h]))
        seen = Directions.of(triangle[:-1, :-1], len(h), 1.0 / LARGEST_CONDITION)
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
        """Return a state that knows nothing but that parameters are about zero.

        Args:
            count: n.
            std: Of each parameter, P = std² 1.
        """
        return Covariance(np.zeros(count), std**2 * np.eye(count))

    def step(self, state: Covariance, regressor: Array, effort: Array) -> Covariance:
        """Return the state after some more rows.

        Args:
            state: Before them.
            regressor: Φ, shape (m, n).
            effort: h, shape (m,).
        """
        P = state.P / self.forgetting
        gained = P @ regressor.T
        gain = gained @ np.linalg.inv(np.eye(len(effort)) + regressor @ gained)
        values = state.values + gain @ (effort - regressor @ state.values)
        return Covariance(values, P - gain @ (regressor @ P))


@dataclass(frozen=True, eq=False)
class State:
    """What a filter knows.

    Attributes:
        factor: `[R z; 0 ρ]`, upper triangular, diagonal ≥ 0, shape (n + 1, n + 1).
        steps: Blocks of rows seen.
        waiting: Blocks that are seen and not yet believed, oldest first, each (m, n + 1).
        doubted: How many blocks in a row were a surprise.
        skipping: How many blocks to come hold samples of before the last change.
    """

    factor: Array
    steps: int = 0
    waiting: tuple[Array, ...] = ()
    doubted: int = 0
    skipping: int = 0

    @cached_property
    def values(self) -> Array:
        """The estimate, shape (n,)."""
        R = self.factor
        return np.asarray(np.linalg.solve(R[:-1, :-1], R[:-1, -1]))

    @cached_property
    def covariance(self) -> Array:
        """Of the estimate, shape (n, n)."""
        inverse = np.linalg.inv(self.factor[:-1, :-1])
        return np.asarray(inverse @ inverse.T)


class Seen(NamedTuple):
    """What a block of rows said.

    Attributes:
        surprise: `eᵀ (1 + Y P Yᵀ)⁻¹ e` of its innovation e: χ² of as many degrees as it has
            rows, if nothing changed.
        limit: Beyond which it is one.
        changed: Whether the filter took the surprises for a change, and began anew.
    """

    surprise: float
    limit: float
    changed: bool


@dataclass(frozen=True)
class Filter:
    """A square-root information filter that forgets, never by more than it may, and starts anew.

    Forgetting fades information by λ a block. Where no motion renews it, fading alone loses
    everything, and the next row of noise is believed. Resetting adds as much of the least
    information as was faded, `(1 − λ) R∞ᵀR∞` about the current estimate, so the information never
    falls below R∞ᵀR∞ and standing still for an hour changes nothing [Salgado1988].

    A change is seen in the newest rows' innovation, its size measured by its own covariance.
    Rows of overlapping windows hold common samples; the newest are tested against an estimate
    that is some blocks older and knows none of them. One surprise alone may be a spike, and is
    left out.

    Attributes:
        floor: Least information of each parameter, 1/std, shape (n,): what a start knows and
            what resetting keeps.
        forgetting: λ a block; 1 for none.
        every: Blocks between one resetting and the next.
        lag: Blocks by which the estimate stays behind the test, and which are skipped after a
            change.
        alarm: Chance that rows without change are a surprise; 0 for no test.
        confirm: Surprises in a row that make a change.
        renewed: Which parameters a change makes unknown, shape (n,); all if not given.
        walk: Deviation by which each parameter walks in a block, shape (n,), or none.
    """

    floor: tuple[float, ...]
    forgetting: float = 1.0
    every: int = 50
    lag: int = 0
    alarm: float = 0.0
    confirm: int = 1
    renewed: tuple[bool, ...] | None = None
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
        """Return the state that knows the floor, about these values or zero."""
        count = len(self.floor)
        factor = np.zeros((count + 1, count + 1))
        factor[np.arange(count), np.arange(count)] = self.floor
        if values is not None:
            factor[:-1, -1] = np.asarray(self.floor) * np.asarray(values, dtype=float)
        return State(factor)

    def limit(self, rows: int) -> float:
        """Return the surprise of so many rows that an unchanged world shows with `alarm`."""
        if self.alarm <= 0.0:
            return math.inf
        return _quantile(rows, self.alarm)

    def step(self, state: State, rows: Array) -> tuple[State, Seen]:
        """Return the state after a block of rows, and what the block said.

        Args:
            state: Before it.
            rows: `[Y y]` of unit variance, shape (m, n + 1).
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
        """Return the state with all blocks that wait taken in."""
        factor = state.factor
        for rows in state.waiting:
            factor, _ = folding.absorb(factor, rows)
        return replace(state, factor=factor, waiting=())

    def _age(self, factor: Array) -> Array:
        """Let `every` blocks' worth of information fade, no further than to the floor."""
        if self.walk is not None:
            factor = walked(factor, math.sqrt(self.every) * np.asarray(self.walk))
        if self.forgetting == 1.0:
            return factor
        kept = self.forgetting**self.every
        faded = math.sqrt(kept) * factor
        rows = self._about(factor, math.sqrt(1.0 - kept))
        return np.asarray(folding.absorb(faded, rows)[0])

    def _about(self, factor: Array, scale: float) -> Array:
        """Return rows that say the floor's worth about the current estimate."""
        count = len(self.floor)
        values = np.linalg.solve(factor[:-1, :-1], factor[:-1, -1])
        rows = np.zeros((count, count + 1))
        rows[np.arange(count), np.arange(count)] = scale * np.asarray(self.floor)
        rows[:, -1] = scale * np.asarray(self.floor) * values
        return rows

    def _renew(self, factor: Array) -> Array:
        """Forget the renewed parameters but for the floor about zero, keep what is left."""
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
    """Return the information after each parameter walked at random by a deviation.

    `x′ = x + w`: rows `(x′ − x)/σ = 0` join, and the old x is eliminated [Bierman1977, ch. VI].

    Args:
        factor: `[R z; 0 ρ]`, shape (n + 1, n + 1).
        deviation: σ, shape (n,); zero for those that stay.
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
    """Return what χ² of so many degrees exceeds with a chance."""
    return float(2.0 * scipy.special.gammainccinv(0.5 * rows, alarm))


@dataclass(frozen=True, eq=False)
class Tree:
    """A sum of very many rows whose rounding grows with the log of their number.

    In one triangle the newest of 10⁷ rows fall below an ulp of what is there, and in single
    precision are lost (18 % error, measured). So rows gather in blocks, and blocks are added in
    pairs of like size, as a counter in base two carries.

    Attributes:
        rows: Of a block.
        gathering: Triangle of the block that is being filled.
        filled: Rows in it.
        levels: Triangle of 2ᵏ blocks for each k, or None.
    """

    rows: int
    gathering: Array
    filled: int = 0
    levels: tuple[Array | None, ...] = ()

    @staticmethod
    def empty(parameters: int, rows: int = 1024, dtype: type = np.float64) -> Tree:
        """Return the tree of no rows."""
        return Tree(rows, np.zeros((parameters + 1, parameters + 1), dtype))

    def add(self, rows: Array) -> Tree:
        """Return the tree with a few more rows, shape (m, n + 1)."""
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
        """`[R z; 0 ρ]` of all rows."""
        total = self.gathering
        for one in self.levels:
            if one is not None:
                total, _ = folding.absorb(total, one)
        return total
