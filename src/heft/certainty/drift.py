"""Whether a number that is estimated day after day has changed: slopes and jumps, found late.

A robot's friction is not the same two days running, even where nothing wears: temperature, grease
and load make an autocorrelated scatter, `y_t = μ + x_t + ε_t`, with x an autoregression of first
order, of correlation φ from one day to the next and standard deviation σ, and ε the error that
day's estimate states. φ and σ are those of many series of one kind together (`DayToDay.of`), by
restricted likelihood, in which a steady drift has no part [Harville1977].

Where temperatures are told, the number is taken to rise by a share a kelvin, of which what robots
of a type have in common is removed; that each differs from it is an error that all days share.

A change is a ramp `b (t − τ)₊` or a step `b [t ≥ τ]` of unknown onset τ. Of each onset the
generalised least-squares estimate over its deviation is a standard normal number; the largest of
them over all onsets exceeds u by chance with the probability

    2 Q(u) + (L/π) exp(−u²/2)

L the length of the curve that the whitened ramps, less their mean, draw on the unit sphere
[Hotelling1939]. No simulation, and few onsets are not paid for like many. A change's
size is told with its onset integrated out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import optimize, special

from heft.arrays import Array

LEAST = 1e-5  # σ at least
LEVEL = 0.95  # of intervals
SAME_WARMTH = 1.0  # temperatures that differ by less tell no slope [K]


@dataclass(frozen=True, eq=False)
class Series:
    """A number, day by day, as shares of what it usually is."""

    days: Array  # ascending, shape (n,) [days]
    values: Array  # shape (n,)
    std: Array  # standard deviation of each day's estimate, shape (n,)
    warm: Array | None = None  # temperature above the reference, shape (n,) [K]
    # standard deviation of an error of this shape that all days share, (n,)
    shared: Array | None = None

    def slope(self, usual: DayToDay) -> tuple[float, float] | None:
        """Return the rise a kelvin and its variance, a drift left open; None if none differ."""
        n = len(self.days)
        if self.warm is None or n < 5 or np.ptp(self.warm) < SAME_WARMTH:
            return None
        line = np.column_stack([np.ones(n), self.days - self.days.mean()])
        columns = np.column_stack([line, self.warm, self.values])
        factor = np.linalg.cholesky(usual.covariance(self))
        R = np.asarray(np.linalg.qr(np.linalg.solve(factor, columns), mode="r"))
        if abs(R[2, 2]) < 1e-9 * np.linalg.norm(R[:, 2]):
            return None
        return float(R[2, 3] / R[2, 2]), float(R[2, 2] ** -2.0)

    def without(self, days: Array) -> Series:
        """Return the series without some of its days."""
        kept = ~np.isin(self.days, days)
        more = [None if v is None else v[kept] for v in (self.warm, self.shared)]
        return Series(self.days[kept], self.values[kept], self.std[kept], *more)

    def at_reference(self, slope: float, std: float) -> Series:
        """Return the values at the reference temperature, whose slope a kelvin is known so well."""
        if self.warm is None:
            return self
        return replace(self, values=self.values - slope * self.warm, shared=std * self.warm)


@dataclass(frozen=True)
class DayToDay:
    """How much numbers of one kind scatter from day to day without changing."""

    deviation: float  # standard deviation σ
    correlation: float  # φ of two days that follow one another, in [0, 1)

    @staticmethod
    def of(series: Sequence[Series]) -> DayToDay | None:
        """Return the scatter that series have, steady drifts left open; None if none has five days.

        What is usual at first is the median deviation from the medians of all series. Series that
        scatter more than that explains are left out: robots that have changed, or a log that is
        another's, do not teach what is usual.
        """
        long = [s for s in series if len(s.days) >= 5]
        if not long:
            return None
        chosen = long[:: -(-len(long) // 120)]  # enough to learn from
        away = np.concatenate([np.abs(s.values - np.median(s.values)) for s in chosen])
        # The median of |e|, e normal, is .6745 deviations; .3 is where φ is sought from.
        first = DayToDay(max(float(np.median(away)) / 0.6745, LEAST), 0.3)
        groups: dict[bytes, list[Series]] = {}
        for s in chosen:
            groups.setdefault(s.days.tobytes(), []).append(s)
        together = [_Together.of(own) for own in groups.values()]
        usual = [own for g in together if (own := g.usual(first)) is not None]
        kept = sum(len(g.values) for g in usual)
        likely = usual if 2 * kept > len(chosen) else together

        def law(x: Array) -> DayToDay:
            return DayToDay(float(np.exp(x[0])), 0.98 * float(special.expit(x[1])))  # φ below 1

        def unlikely(x: Array) -> float:
            made = law(x)
            return -sum(g.restricted(made)[0] for g in likely)

        start = [np.log(first.deviation), special.logit(first.correlation)]
        options = {"xatol": 1e-3, "fatol": 1e-2, "maxiter": 150}
        bounds = [(np.log(LEAST), np.log(10.0)), (-6.0, 6.0)]
        minimum = optimize.minimize(
            unlikely, start, method="Nelder-Mead", bounds=bounds, options=options
        )
        return law(minimum.x)

    def covariance(self, series: Series) -> Array:
        """Return the covariance of a series' values, shape (n, n)."""
        days_between = np.abs(series.days[:, None] - series.days)
        scatter = self.deviation**2 * self.correlation**days_between
        shared = np.zeros(1) if series.shared is None else series.shared
        return np.asarray(scatter + np.diag(series.std**2) + np.outer(shared, shared))


@dataclass(frozen=True, eq=False)
class _Together:
    """Series of the same n days."""

    days: Array  # shape (n,)
    values: Array  # shape (m, n)
    std: Array  # shape (m, n)
    shared: Array  # shape (m, n)

    @staticmethod
    def of(series: Sequence[Series]) -> _Together:
        values, std = (np.array([getattr(s, name) for s in series]) for name in ("values", "std"))
        none = np.zeros(len(series[0].days))
        shared = np.array([none if s.shared is None else s.shared for s in series])
        return _Together(series[0].days, values, std, shared)

    def restricted(self, law: DayToDay) -> tuple[float, Array]:
        """Return the restricted log-likelihood, and each residual's square about a line, (m,)."""
        n = len(self.days)
        one = law.covariance(Series(self.days, self.days, np.zeros(n)))
        own = self.std[:, :, None] ** 2 * np.eye(n) + self.shared[:, :, None] * self.shared[:, None]
        factor = np.linalg.cholesky(one + own)
        line = np.column_stack([np.ones(n), self.days - self.days.mean()])
        both = np.concatenate([np.broadcast_to(line, (*self.values.shape, 2)),
                               self.values[:, :, None]], axis=2)  # fmt: skip
        R = np.asarray(np.linalg.qr(np.linalg.solve(factor, both), mode="r"))
        sizes = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        sizes += np.log(np.abs(R[:, 0, 0] * R[:, 1, 1]))
        squares = R[:, 2, 2] ** 2
        return float(-np.sum(sizes + squares / 2.0)), squares

    def usual(self, law: DayToDay) -> _Together | None:
        """Return the series that scatter no more than a law explains; None if there are none."""
        _, squares = self.restricted(law)
        # By chance so far off: others do not teach what is usual.
        kept = special.chdtrc(len(self.days) - 2, squares) >= 1e-3
        if not kept.any():
            return None
        return _Together(self.days, self.values[kept], self.std[kept], self.shared[kept])


@dataclass(frozen=True, slots=True)
class Change:
    """The likeliest change of a series, and how likely less than it is by chance."""

    kind: Literal["slope", "jump"]
    onset: float  # day on which it begins
    size: float  # median: of a slope a week, of a jump altogether, as a share of the usual
    low: float  # ends of its interval, onsets being as likely as the series says
    high: float
    probability: float  # of as much by chance, wherever it begins


@dataclass(frozen=True)
class ChangeSearch:
    """Where changes are looked for."""

    recent: float = 84.0  # changes are told whose onset is at most this long ago [days]
    before: float = 14.0  # days that a series must have before the onset, at least
    after: float = 2.0  # likewise from the onset on

    def of(self, series: Series, usual: DayToDay) -> Change | None:
        """Return the likeliest change of a series; None if it is too short for any."""
        t = series.days
        if not len(t):
            return None
        onsets = t[(t - t[0] >= self.before) & (t[-1] - t >= self.after - 1.0)]
        if not np.any(t[-1] - onsets <= self.recent):
            return None
        factor = np.linalg.cholesky(usual.covariance(series))
        # Slopes are of a week.
        shapes = (np.maximum(t[:, None] - onsets, 0.0) / 7.0, (t[:, None] >= onsets) * 1.0)
        white = scipy.linalg.solve_triangular(
            factor, np.column_stack([np.ones(len(t)), series.values, *shapes]), lower=True
        )
        mean = white[:, 0] / np.linalg.norm(white[:, 0])
        rest = white[:, 1:] - np.outer(mean, mean @ white[:, 1:])
        found = []
        kinds: tuple[Literal["slope", "jump"], ...] = ("slope", "jump")
        for kind, columns in zip(kinds, np.split(rest[:, 1:], 2, axis=1), strict=True):
            lengths = np.linalg.norm(columns, axis=0)
            seen = lengths > 1e-9 * max(lengths.max(), 1e-300)  # none begins on the last day
            units, lengths = columns[:, seen] / lengths[seen], lengths[seen]
            scores, recent = units.T @ rest[:, 0], t[-1] - onsets[seen] <= self.recent
            probability = chance(float(np.abs(scores[recent]).max()), units[:, recent])
            found.append((probability, kind, onsets[seen], scores, lengths))
        probability, kind, onsets, scores, lengths = min(found, key=lambda f: f[0])
        low, size, high = _sizes(scores, lengths)
        likeliest = float(onsets[np.argmax(np.abs(scores))])
        both = min(1.0, 2.0 * probability)  # of the two kinds the likelier was taken
        return Change(kind, likeliest, size, low, high, both)


def _sizes(scores: Array, lengths: Array) -> list[float]:
    """Return the lower end, median and upper end of a change's size, its onset integrated out.

    Of one onset the size is normal, `scores / lengths` with deviation 1 / lengths. Onsets weigh as
    they are likely, none before another, where sizes in units of that deviation are alike likely.
    Onsets older than changes are told of belong to it: without them sizes are pushed to one side.
    """
    weights = np.exp((scores**2 - np.max(scores**2)) / 2.0)
    weights /= weights.sum()
    asked = np.array([(1.0 - LEVEL) / 2.0, 0.5, (1.0 + LEVEL) / 2.0])
    ends = np.array([[-6.0], [6.0]])  # deviations, beyond which nothing is
    low, high = (np.full(3, f((scores + ends) / lengths)) for f in (np.min, np.max))
    for _ in range(36):  # halvings
        middle = (low + high) / 2.0
        below = special.ndtr(middle[:, None] * lengths - scores) @ weights < asked
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return [float(size) for size in (low + high) / 2.0]


def chance(score: float, units: Array) -> float:
    """Return how often the largest |uᵀe| of unit u, (n, k), exceeds a score, e being white."""
    one = 2.0 * special.ndtr(-score)
    cosines = np.clip(np.sum(units[:, 1:] * units[:, :-1], axis=0), -1.0, 1.0)
    length = float(np.arccos(cosines).sum())
    tube = one + length / np.pi * np.exp(-(score**2) / 2.0)
    return float(min(1.0, tube, units.shape[1] * one))


def discoveries(probabilities: Array, rate: float) -> NDArray[np.bool_]:
    """Return which of many findings stand, a share `rate` of them false at most.

    It is the step-up rule of [Benjamini1995].

    Args:
        probabilities: Of each by chance, shape (n,); NaN of what was not looked at.
        rate: Share of false ones among all that stand, in the mean.
    """
    looked = np.flatnonzero(np.isfinite(probabilities))
    order = looked[np.argsort(probabilities[looked], kind="stable")]
    passed = probabilities[order] <= rate * np.arange(1, len(order) + 1) / max(len(order), 1)
    stands = np.zeros(len(probabilities), dtype=bool)
    if passed.any():
        stands[order[: np.flatnonzero(passed)[-1] + 1]] = True
    return stands
