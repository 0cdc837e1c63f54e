"""Search for the cutoff frequency of the motion's low-pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.engine import side_by_side
from heft.errors import HeftError
from heft.information import Directions, Information, components

from .delay_search import _Weighted
from .problem import MovableProblem

FINE = (0.5, 0.25)  # [octaves]; tried on both sides of the best cutoff, one after the other


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
        """Return the factor by which to multiply the cutoff; 1 to leave it.

        Args:
            problem: At the initial cutoff.
        """
        short = problem.shortened(self.rows)
        weighted = _Weighted()
        initial = short.residual_energy(weighted(short.information()))
        measured = initial > 0.0
        if not measured.any():
            return 1.0

        def look(octaves: float) -> float:
            """Return the score of a cutoff; infinity if it cannot be sampled or solved."""
            try:
                moved = short.sharpened(2.0**octaves)
                if moved is None:
                    return np.inf
                energy = moved.residual_energy(weighted(moved.information()))
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
            found = side_by_side(look, octaves, threads)
            scores.update(zip(octaves, found, strict=True))

        # How many at a time does not depend on the number of threads, or the result would.
        look_at([float(k) for k in range(1, int(self.above) + 1)])
        for lower in range(1, int(self.below) + 1):
            if scores[min(scores)] > self.hopeless * min(scores.values()):
                break
            look_at([-float(lower)])
        for step in FINE:
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
            one standard deviation off: one independent error a channel; see `noise.Noise`.
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
        quick, centre = _Weighted(short.noise_names), looks[0.0]
        values, low, high = quick(centre), min(looks), max(looks)
        assert quick.weights is not None
        whole = centre.combined(quick.weights)
        inverse = Directions.of(whole.R, whole.rows).covariance_factor
        parts = [(part.rows, part.of(inverse)) for part in components(inverse)]
        ends = (_moved(looks[end], centre, quick.weights, values, parts) for end in (high, low))
        change = np.subtract(*ends) * self.std_octaves / (high - low)
        scale = rows / max(centre.rows, 1)
        found = []
        for t in centre.triangles:
            moments = np.zeros(change.shape)
            moments[:, t.columns] = scale * (change[:, t.columns] @ t.R.T) @ t.R
            found.append(moments)
        return tuple(found)


def _moved(
    look: Information,
    centre: Information,
    weights: Mapping[str, float],
    values: Array,
    parts: Sequence[tuple[NDArray[np.intp], Array]],
) -> Array:
    """Return by how much β moves with one channel's rows at another cutoff, (channels, b).

    Solved for anew, since a dictionary's coefficients are large where they all but cancel, and
    what a change of the rows does to their sum is a small difference.

    Args:
        values: β at the chosen cutoff, shape (b,).
        parts: Connected columns, and G with `G Gᵀ` the inverse of their weighted information at the
            chosen cutoff, of each component.
    """
    size = len(centre.labels)
    pull = look.moments(values) - centre.moments(values)
    found = np.zeros((len(weights), size))
    for columns, own in parts:
        place = np.full(size, -1)
        place[columns] = np.arange(len(columns))
        for c, weight in enumerate(weights.values()):
            pair = [(t.R, place[t.columns]) for t in (centre.triangles[c], look.triangles[c])]
            if not any((at >= 0).any() for _, at in pair):
                continue
            before, after = (weight * R[:, at >= 0] @ own[at[at >= 0]] for R, at in pair)
            step = _exchanged(before, after, weight**2 * pull[c, columns] @ own)
            found[c, columns] = own @ step
    return found


def _exchanged(before: Array, after: Array, right: Array) -> Array:
    """Return `(1 − BᵀB + AᵀA)⁻¹ y`, of the size of the fewer of rows and columns [Woodbury1950].

    Args:
        before: B, shape (any, n), of rows that are taken out.
        after: A, shape (any, n), of those in their place.
        right: y, shape (n,).
    """
    count = len(before)
    if count + len(after) >= len(right):
        left = np.eye(len(right)) - before.T @ before + after.T @ after
        return np.asarray(np.linalg.solve(left, right))
    both = np.vstack([before, after])
    inner = both @ both.T + np.diag(np.append(-np.ones(count), np.ones(len(after))))
    return np.asarray(right - both.T @ np.linalg.solve(inner, both @ right))
