"""Searches for two settings by the residuals: the torque's delay, and the motion's cutoff.

Both look at the problem with the setting at other values, side by side on threads, each solved with
the same weights; how far the setting may be off is an error of the estimate, by the difference of
two looks beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.errors import HeftError
from heft.estimators import LeastSquares, MovableProblem
from heft.information import BorderedInverse, Information, Triangle, shortest

from .blocks import inverses_of


def _weights(information: Information, noise_names: Sequence[str] = ()) -> dict[str, float]:
    sigma = LeastSquares(sweeps=1).spread(information, noise_names)
    return dict(zip(information.channels, (1.0 / sigma).tolist(), strict=True))


@dataclass(frozen=True)
class DelayFound:
    """Estimated delay of the torque behind the motion, with its evidence."""

    delay: float  # delay to be used [s]; 0 if the evidence is weak
    # mean of the single channels' delays [s], weighted by the curvature of each channel's residual
    # energy; of the view whose evidence is strongest
    best: float
    ratio: float  # least residual variance over that without a delay, in that view
    agreement: float  # `best` over its standard error
    # standard error of the delay, from the spread between the channels [s]; 0 if there are too few
    # channels or no search was made
    std: float = 0.0


@dataclass(frozen=True)
class _View:
    """Estimate of the delay from the residuals at one cutoff."""

    mean: float  # mean of the channels' own delays, weighted by sharpness [s]
    std: float  # its standard error, from the channels' spread [s]; 0 of fewer than three channels
    ratio: float  # least residual variance over that without a delay, mean over channels
    channels: int  # number of channels with enough rows and a least of their residual


@dataclass(frozen=True)
class DelaySearch:
    """Search for one common delay of all torques behind the motion, by the smallest residual.

    A delay is accepted only on evidence that friction cannot imitate. A joint that sticks lets the
    torque pass through zero before the motion reverses, and near the cutoff motion is the
    controller's answer to disturbances that no column describes: both look like torque that comes
    early, in all joints alike. So only rows count in which a joint slides, and cutoffs well below
    the motion's are looked at, each of which may miss a delay that another shows but must not
    speak against it. At one of them the residual variance must fall, and the channels' own best
    delays must agree. Torque that comes late sensors and buses explain. Torque that comes early
    must show alike at all cutoffs, and needs more agreement: elastic drives make it look so, the
    less the lower the cutoff.
    """

    cutoffs: tuple[float, ...] = (0.5, 0.25)  # cutoffs of the views relative to the problem's
    delays: tuple[float, ...] = (  # that are tried [s]
        *(-0.012, -0.008, -0.005, -0.0025, 0.0, 0.0025, 0.005, 0.008, 0.012),
        *(0.016, 0.02, 0.025, 0.03),
    )
    # above which a hinge slides so fast that friction no longer falls with speed [rad/s]: where it
    # does, bristles make it lag, which looks like a delay
    speed: float = 0.1
    settle: float = 0.03  # how long before and after a row it must slide the same way [s], at least
    periods: float = 0.35  # the same in periods of the view's cutoff
    gate: float = 0.975  # variance ratio below which a view's delay is accepted
    # the same with fewer than three channels, whose agreement cannot be tested: that of the views
    # is, instead
    alone: float = 0.9
    # late, early: least mean over its standard error at which a delay is accepted
    late: float = 3.5
    early: float = 5.0
    reach: float = 0.036  # largest absolute delay that is accepted [s]
    least_std: float = 0.0002  # least standard error of a view's mean [s]
    most_std: float = 0.001  # standard error beyond which channels do not show one common delay [s]
    most_share: float = 0.08  # the same as a share of the delay, if that is more
    enough: float = 3.0  # rows per column that a channel must have to be counted
    # of the views' least squares, relative to the size of each column in all rows
    ridge: float = 0.001
    nudge: float = 0.001  # step of the finite differences in `delay_error` [s]
    # prior standard deviation of a delay that was not accepted [s]: slow motion may not reveal it
    usual: float = 0.003
    rows: int = 60_000  # number of rows used, at most about

    def fit(self, problem: MovableProblem) -> DelayFound:
        """Return the delay: the mean over cutoffs that are evidence of one, weighted by precision.

        These are then looked at once more about that delay, which misjudged rows and a parabola
        through distant delays made too small. Use it before a fit whenever the delay is not stated.

        Args:
            problem: At the cutoff of the motion's band and delay zero, with load-dependent gear
                friction about a first fit: without it each joint shows a delay of its own.
        """
        seen = {factor: self._view(problem, factor) for factor in self.cutoffs}
        views = {factor: view for factor, view in seen.items() if view.channels}
        if not views:
            return DelayFound(0.0, 0.0, 1.0, 0.0)
        speaking = {
            factor: view
            for factor, view in views.items()
            if self._speaks(view) and not any(self._denies(v, view.mean) for v in views.values())
        }
        if not self._alike(views, speaking):
            speaking = {}
        early = [factor for factor, view in speaking.items() if view.mean < 0.0]
        if len(early) < len(self.cutoffs):
            speaking = {factor: v for factor, v in speaking.items() if factor not in early}
        best = min((speaking or views).values(), key=lambda view: view.ratio)
        agreement = best.mean / max(best.std, self.least_std)
        delay, std = 0.0, best.std
        if speaking:
            about = problem.delayed(self._together(list(speaking.values()))[0])
            delay, std = self._together([self._view(about, factor) for factor in speaking])
            delay = delay if abs(delay) < self.reach else 0.0
        return DelayFound(delay, best.mean, best.ratio, agreement, std)

    def _together(self, views: Sequence[_View]) -> tuple[float, float]:
        """Return the views' mean delay, weighted by precision, and its standard deviation [s]."""
        certainty = np.array([max(view.std, self.least_std) ** -2 for view in views])
        mean = float(certainty @ [view.mean for view in views] / certainty.sum())
        return mean, float(certainty.sum() ** -0.5)

    def _speaks(self, view: _View) -> bool:
        """Return whether a view is evidence of a delay."""
        if view.channels < 3:
            # One channel alone may show torque that comes early by its friction.
            early = view.channels == 1 and view.mean < 0.0
            return view.ratio < self.alone and abs(view.mean) < self.reach and not early
        least = self.late if view.mean > 0.0 else self.early
        agree = abs(view.mean) > least * max(view.std, self.least_std)
        one = view.std < self._most(view.mean)
        return view.ratio < self.gate and agree and one and abs(view.mean) < self.reach

    def _most(self, delay: float) -> float:
        """Return how far estimates of one common delay may differ [s]."""
        return max(self.most_std, self.most_share * abs(delay))

    def _alike(self, views: Mapping[float, _View], speaking: Mapping[float, _View]) -> bool:
        """Return whether all views agree on one delay, or none has fewer than three channels."""
        if all(view.channels >= 3 for view in speaking.values()):
            return True
        means = [view.mean for view in speaking.values()]
        return len(speaking) == len(views) and max(means) - min(means) < self._most(means[0])

    def _denies(self, view: _View, delay: float) -> bool:
        """Return whether a view is evidence of no delay and against a given one [s]."""
        return abs(view.mean) + 2.0 * max(view.std, self.least_std) < abs(view.mean - delay)

    def _view(self, problem: MovableProblem, factor: float) -> _View:
        """Return the estimate from sliding rows at the cutoff times `factor`."""
        blurred = problem.blurred(factor).shortened(self.rows)
        short = blurred.sliding(self.speed, max(self.settle, self.periods / blurred.corner))

        def moved(delays: Sequence[float]) -> Sequence[MovableProblem]:
            return short.later(delays) or [short.delayed(problem.delay + d) for d in delays]

        # What is tried first does not depend on residuals, and is summed up beside those of 0.
        new = self._ahead({0.0: np.zeros(1)}, problem.delay)
        looks = moved(new)
        still = short.information()
        triangles = still.triangles
        used = [c for c, t in enumerate(triangles) if t.rows > self.enough * len(t.columns)]
        if not used:
            return _View(0.0, 0.0, 1.0, 0)
        solve = _sliding(blurred.information(), used, self.ridge)
        least = short.residual_energy(solve(still))[used]
        least = np.where(least > 0.0, least, np.inf)

        def ratio_of(look: MovableProblem) -> Array:
            return look.residual_energy(solve(look.information()))[used] / least

        ratios = {0.0: np.where(np.isfinite(least), 1.0, 0.0)}
        while new:  # as long as a channel's least is at an end of what was tried
            ratios.update(zip(new, side_by_side(ratio_of, looks, short.threads), strict=True))
            new = self._ahead(ratios, problem.delay)
            looks = moved(new)
        delays = sorted(ratios)
        curves = np.array([ratios[d] for d in delays])
        mean, std, count = _common(delays, curves, extrapolate=2.0 * self.reach)
        ratio = _least(delays, curves.mean(axis=1)).height
        return _View(problem.delay + mean, std, ratio, count)

    def _ahead(self, ratios: Mapping[float, Array], about: float) -> list[float]:
        """Return the delays to try next, beside those tried, relative to the delay `about` [s]."""
        tried = sorted(ratios)
        delays = [d for d in self.delays if abs(about + d) <= self.reach]
        below, above = [d for d in delays if d < tried[0]], [d for d in delays if d > tried[-1]]
        least = np.argmin([ratios[d] for d in tried], axis=0)
        # A parabola needs three.
        count = 1 if len(tried) > 1 or (below and above) else 2
        lower = below[-count:] if (least == 0).any() else []
        upper = above[:count] if (least == len(tried) - 1).any() else []
        return [*lower, *upper]

    def delay_error(
        self,
        problem: MovableProblem,
        found: DelayFound,
        rows: int,
        known: Information | None = None,
    ) -> tuple[DelayFound, tuple[Array, ...]]:
        """Return the delay with its standard deviation, and the torque error that this causes.

        A delay that was not accepted may exist: its deviation combines what the residuals show of
        it, at the problem's cutoff, with the prior.

        Args:
            problem: With load-dependent gear friction, at the cutoff to be used, the torque delayed
                by `found.delay`.
            rows: Number of rows of the problem's whole information, to which moments are scaled.
            known: The problem's information, if the problem is short enough that all its rows are
                used.

        Returns:
            What was found, and for each channel the moments `Yᵀe`, shape (1, b), with e the change
            of the predicted torque for one standard deviation of the delay; see `estimators.Noise`.
        """
        short = problem.shortened(self.rows)
        here = short if known is None else problem  # which may have kept its rows
        centre = known or here.information()
        weights = _weights(centre, short.noise_names)
        values = shortest(centre, weights)

        ends = (-self.nudge, self.nudge)
        moved = here.later(ends) if known is not None else None

        def look(late: MovableProblem) -> tuple[Information, Array]:
            """Return information and residual energies so far from the delay [s]."""
            information = late.information()
            if found.delay:
                return information, np.zeros(0)
            return information, late.residual_energy(shortest(information, weights))

        moved = moved or [short.delayed(found.delay + away) for away in ends]
        below, above = side_by_side(look, moved, short.threads)
        std = found.std
        if not found.delay:
            energies = np.array([below[1], here.residual_energy(values), above[1]])
            scale = np.where(energies[1] > 0.0, energies[1], np.inf)
            delays = (-self.nudge, 0.0, self.nudge)
            mean, std, _ = _common(delays, energies / scale, extrapolate=self.reach)
            if std > 0.0:
                std = 1.0 / float(np.hypot(1.0 / np.hypot(std, mean), 1.0 / self.usual))
        change = above[0].moments(values) - below[0].moments(values)
        change *= rows / max(centre.rows, 1) * std / (2.0 * self.nudge)
        return replace(found, std=std), tuple(change[:, None])


def _sliding(
    every: Information, used: Sequence[int], size: float
) -> Callable[[Information], Array]:
    """Return least squares of some channels' sliding rows, with the same weights for all delays.

    What rows that slide do not show (friction near standstill) is kept at next to nothing by a
    ridge, relative to the size of each column in all rows.

    Args:
        every: Of all rows, without a delay.
    """

    def chosen(information: Information, *more: Triangle) -> Information:
        names = (*(information.channels[c] for c in used), *["ridge"] * len(more))
        triangles = (*(information.triangles[c] for c in used), *more)
        return Information(information.labels, names, triangles)

    some, count = chosen(every), len(every.labels)
    weights = _weights(some)
    squares = np.zeros(count)
    for name, t in zip(some.channels, some.triangles, strict=True):
        squares[t.columns] += np.sum((weights[name] * t.R) ** 2, axis=0)
    factor = np.diag(np.append(size * np.sqrt(squares), 0.0))
    ridge = Triangle(np.arange(count), factor, count)
    return lambda information: shortest(chosen(information, ridge), {**weights, "ridge": 1.0})


def _common(delays: Sequence[float], ratios: Array, extrapolate: float) -> tuple[float, float, int]:
    """Return the weighted mean of the single channels' delays, its standard error [s], their count.

    Each channel's delay is that of the parabola through its least residual and those beside it,
    and its weight that parabola's curvature.

    Args:
        delays: Ascending, at least three [s].
        ratios: Residual energies over those of one of them, shape (delays, channels).
        extrapolate: How far from zero a channel's delay may be if that is beyond `delays` [s].

    Returns:
        Of the channels that have a least; the delay of the smallest mean energy and 0 if these are
        fewer than three, whose agreement cannot be tested.
    """
    leasts = [_least(delays, ratio) for ratio in ratios.T]
    sharp = np.array([least.sharpness for least in leasts])
    used = sharp > 0.0
    count = int(np.sum(used))
    if count < 3:
        return _least(delays, ratios.mean(axis=1)).delay, 0.0, count
    lowest, highest = min(delays[0], -extrapolate), max(delays[-1], extrapolate)
    own = np.clip([least.delay for least in leasts], lowest, highest)[used]
    weight = sharp[used] / sharp[used].sum()
    mean = float(weight @ own)
    spread = float(weight @ (own - mean) ** 2) / (len(own) - 1)
    return mean, float(np.sqrt(spread)), count


class _Least(NamedTuple):
    """Least of a curve over delays: where [s], the curve there, and its curvature [1/s²]."""

    delay: float
    height: float
    sharpness: float


def _least(delays: Sequence[float], curve: Array) -> _Least:
    """Return the least of the parabola through the curve's lowest point and those beside it."""
    k = int(np.clip(np.argmin(curve), 1, len(delays) - 2))
    near = np.asarray(delays[k - 1 : k + 2]) - delays[k]
    a, b, c = np.polyfit(near, curve[k - 1 : k + 2], 2)
    lowest = int(np.argmin(curve))
    if a <= 0.0:
        return _Least(delays[lowest], float(curve[lowest]), float(a))
    away = -0.5 * b / a
    inside = near[0] <= away <= near[2]
    height = c - 0.25 * b**2 / a if inside else curve[lowest]
    return _Least(float(delays[k] + away), float(max(height, 0.0)), float(a))


@dataclass(frozen=True)
class BandwidthSearch:
    """Search for the cutoff frequency f_c of the motion's low-pass, by the torque residual.

    A low cutoff blurs velocity reversals, where friction changes sign faster than the motion
    varies. A high one passes encoder noise into the accelerations, which biases the parameters
    that they multiply: of an arm that swings almost freely a few per cent of error in the
    acceleration take most of its mass. Both increase the residual in the motion's band.

    The score of a cutoff is the geometric mean over channels of the residual's energy in the band
    of the initial cutoff, relative to that at the initial cutoff. All cutoffs have the same number
    of parameters and rows, so the scores compare fairly on the logs fitted. Far from the best
    cutoff the score may be flat, so that no walk that stops where it gains little finds the best:
    cutoffs an octave apart are all looked at, then those half an octave and a quarter from the
    best. Where several cutoffs are about equally good, the one nearest to the initial is taken.
    """

    # below, above: reach of the search below and above the initial cutoff [octaves]. On measured
    # and simulated arms the best one is up to 3.75 octaves below and half an octave above
    below: float = 5.0
    above: float = 1.5
    # worth_lowering, worth_raising: relative decrease of the score that is required to leave the
    # initial cutoff downwards and upwards. Where the best lower cutoff is no better on held-out
    # motion the score falls by up to 3 %, where it is, by 20 % and more. Upwards little is gained
    # at any cutoff, as most of the residual is noise
    worth_lowering: float = 0.04
    worth_raising: float = 0.001
    # relative excess over the least score up to which a cutoff counts as equally good
    tied: float = 0.005
    # score relative to the least so far beyond which no lower cutoff is tried: the motion is
    # blurred there, and is more so below
    hopeless: float = 2.0
    # reach, either way, of the second search, once a delay is known [octaves]
    after_delay: float = 1.0
    std_octaves: float = 0.5  # standard deviation of the chosen cutoff [octaves]
    rows: int = 60_000  # number of rows used, at most about

    def fit(self, problem: MovableProblem) -> float:
        """Return the factor by which to multiply a problem's cutoff; 1 to leave it."""
        short = problem.shortened(self.rows)
        here = short.information()
        weights = _weights(here)
        initial = short.residual_energy(shortest(here, weights))
        # What is left over where nothing is measured is the motion's noise alone.
        measured = (initial > 0.0) & short.sensed
        if not measured.any():
            return 1.0

        def look(octaves: float) -> float:
            """Return the score of a cutoff; infinity if it cannot be sampled or solved."""
            try:
                moved = short.sharpened(2.0**octaves)
                if moved is None:
                    return np.inf
                energy = moved.residual_energy(shortest(moved.information(), weights))
            except (HeftError, np.linalg.LinAlgError):
                return np.inf
            ratio = np.maximum(energy[measured] / initial[measured], np.finfo(float).tiny)
            score = float(np.exp(np.mean(np.log(ratio))))
            return score if np.isfinite(score) else np.inf

        return self.searched(look, short.threads)

    def searched(self, look: Callable[[float], float], threads: int = 1) -> float:
        """Return the factor by which to multiply the cutoff, given how to score one.

        Args:
            look: Score of a cutoff so many octaves above the initial one, whose own score is 1.
            threads: Number of threads that may call `look` at a time.
        """
        scores = {0.0: 1.0}

        def look_at(octaves: list[float]) -> None:
            new = side_by_side(look, octaves, threads)
            scores.update(zip(octaves, new, strict=True))

        # How many at a time does not depend on the number of threads, or the result would.
        look_at([float(k) for k in range(1, int(self.above) + 1)])
        for lower in range(1, int(self.below) + 1):
            if scores[min(scores)] > self.hopeless * min(scores.values()):
                break
            look_at([-float(lower)])
        for step in (0.5, 0.25):  # octaves on both sides of the best
            best = min(scores, key=lambda k: scores[k])
            near = [k for k in (best - step, best + step) if -self.below <= k <= self.above]
            look_at([k for k in near if k not in scores])
        return float(2.0 ** self._chosen(scores))

    def refine(self, problem: MovableProblem) -> float:
        """Return the factor by which to multiply the cutoff once a delay is known.

        A delay that is not accounted for adds to the residual at all cutoffs, and most where
        motion is sharp.

        Args:
            problem: At the cutoff that `fit` found, and with the delay.
        """
        return replace(self, below=self.after_delay, above=self.after_delay).fit(problem)

    def _chosen(self, scores: Mapping[float, float]) -> float:
        """Return the cutoff to take [octaves above the initial], given the scores."""
        best = min(scores, key=lambda k: scores[k])
        worth = self.worth_lowering if best < 0.0 else self.worth_raising
        if not scores[best] < 1.0 - worth:
            return 0.0
        equal = [k for k in scores if scores[k] <= (1.0 + self.tied) * scores[best]]
        return min((k for k in equal if k * best > 0.0), key=abs)

    def cutoff_error(
        self, problem: MovableProblem, rows: int, known: Information | None = None
    ) -> tuple[Array, ...]:
        """Return the moments of the torque error that the cutoff's uncertainty causes.

        Joints move at different speeds. The cutoff that is best for most of them may blur the
        reversals of one, and the error of its friction at low speed then exceeds its noise.

        Args:
            problem: At the chosen cutoff and delay.
            rows: Number of rows of the problem's whole information, to which moments are scaled.
            known: The problem's information, if the problem is short enough that all its rows are
                used.

        Returns:
            For each channel the moments `Yᵀe`, shape (channels, b), with e the change of the
            predicted torque when another channel's rows, or its own, are taken at a cutoff that is
            one standard deviation off: one independent error a channel; see `estimators.Noise`.
        """
        short = problem.shortened(self.rows)

        def moved(octaves: float) -> Information | None:
            if known is not None and not octaves:
                return known
            at = short.sharpened(2.0**octaves) if octaves else short
            return None if at is None else at.information()

        tried = (0.0, -self.std_octaves, self.std_octaves)
        seen = zip(tried, side_by_side(moved, tried, short.threads), strict=True)
        looks = {octaves: look for octaves, look in seen if look is not None}
        centre, low, high = looks[0.0], min(looks), max(looks)
        weights = _weights(centre, short.noise_names)
        values = shortest(centre, weights)
        total = centre.summed(weights)
        change = _moved((looks[high], looks[low]), centre, weights, values, inverses_of(total))
        change *= self.std_octaves / (high - low)
        scale = rows / max(centre.rows, 1)
        errors = []
        for t in centre.triangles:
            moments = np.zeros(change.shape)
            moments[:, t.columns] = scale * (change[:, t.columns] @ t.R.T) @ t.R
            errors.append(moments)
        return tuple(errors)


def _moved(
    ends: tuple[Information, Information],
    centre: Information,
    weights: Mapping[str, float],
    values: Array,
    inverses: Iterable[BorderedInverse],
) -> Array:
    """Return by how much more β moves with one channel's rows at one end than at the other.

    Solved for anew, since a dictionary's coefficients are large where they all but cancel, and
    what a change of the rows does to their sum is a small difference.

    Args:
        ends: At two other cutoffs.
        values: β at the chosen cutoff, shape (b,).
        inverses: G of each component, `G Gᵀ` the inverse of the weighted information at the chosen
            cutoff.

    Returns:
        Shape (channels, b).
    """
    size, here = len(centre.labels), centre.moments(values)
    pulls = [end.moments(values) - here for end in ends]
    steps = np.zeros((len(weights), size))
    for inverse in inverses:
        columns, every = inverse.columns, inverse.matrix
        place = np.full(size, -1)
        place[columns] = np.arange(len(columns))
        for c, weight in enumerate(weights.values()):
            triangles = [look.triangles[c] for look in (centre, *ends)]
            seen = [(t.R, place[t.columns]) for t in triangles]
            rows = np.unique(np.concatenate([at[at >= 0] for _, at in seen]))
            if not len(rows):
                continue
            own = every[:, every[rows].any(axis=0)]  # of the coordinates that its rows move
            before, *after = (weight * R[:, at >= 0] @ own[at[at >= 0]] for R, at in seen)
            moves = (
                _exchanged(before, rows, weight**2 * pull[c, columns] @ own)
                for rows, pull in zip(after, pulls, strict=True)
            )
            steps[c, columns] = own @ np.subtract(*moves)
    return steps


def _exchanged(before: Array, after: Array, right: Array) -> Array:
    """Return `(1 − BᵀB + AᵀA)⁻¹ y`, of the size of the fewer of rows and columns [Woodbury1950].

    Args:
        before: B, shape (any, n), of rows that are taken out.
        after: A, shape (any, n), of those in their place.
        right: y, shape (n,).
    """
    count = len(before)
    if count + len(after) >= len(right):
        matrix = np.eye(len(right)) - before.T @ before + after.T @ after
        return np.asarray(np.linalg.solve(matrix, right))
    both = np.vstack([before, after])
    inner = both @ both.T + np.diag(np.append(-np.ones(count), np.ones(len(after))))
    return np.asarray(right - both.T @ np.linalg.solve(inner, both @ right))
