"""The geometric median of the estimates of a log's blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from heft.arrays import Array
from heft.estimators import LeastSquares, Problem, segments
from heft.files import Keys, Number, check_fields
from heft.information import Triangle, solve, triangle_of

BORROWED = 1.0  # strength of a block's regularisation, in the average information of a block
FAR = 4.0  # median distances, beyond which a block has weight zero
ROUNDS = 100  # most iterations of the median
WEIGHED = 10  # of these, in which channels' weights follow it
SETTLED = 1e-3  # change of an iterate, in standard deviations, or of a scale, at which it ends

CHECKS: Keys = {"blocks": Number("a setting of the block median is out of range", 3, whole=True)}


@dataclass(frozen=True)
class BlockMedian:
    """Geometric median of the estimates of blocks of the log: a median of means [Minsker2015].

    With m the estimate, each block has its own, `argmin ‖R_k x − z_k‖² + ‖R (x − m)‖²/K`: its
    unidentified directions are regularised towards m with the average information of a block.
    The estimate is the m that is the geometric median of these in the metric R of all blocks,
    found by Weiszfeld's iteration. It stays bounded as long as fewer than half of the blocks are
    contaminated. Blocks of one log identify different parameters, so the median alone loses a
    third of the efficiency (measured). One step of least squares follows, the reweighting of
    [Rousseeuw1987, sect. 1.2]: a block at distance d from the median has the weight
    `(1 − (d/4d̃)²)²`, d̃ being the median distance, and zero beyond 4d̃.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    blocks: int = 30  # K, at least three, and more than twice the number of contaminated blocks
    reweighted: bool = True  # whether the step of least squares follows

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(self, problem: Problem) -> segments.SegmentEstimate:
        """Return base parameters β, with one pass over the rows and one over the residuals.

        Raises:
            TooLittleData: If there are fewer than three blocks, or their sum does not determine
                all parameters.
        """
        parts = segments.require_enough(segments.segments_of(problem, self.blocks), 3)
        total, floor = segments.total_of(parts), segments.rounding_levels(parts)
        middle = LeastSquares().solve(total).fitted
        distance, sigma = np.ones(len(parts)), np.full(len(floor), np.inf)
        for turn in range(ROUNDS):
            now = np.maximum(
                np.sqrt(np.median(segments.mean_energies(parts, middle), axis=0)), floor
            )
            # A median may go to and fro between two blocks for ever.
            if turn < WEIGHED and not np.abs(now / sigma - 1.0).max() <= SETTLED:
                sigma, weights = now, segments.channel_weights(total.channels, now)
                metric = total.combined(weights)
                solve(metric)  # refuses what is not determined
                single = [s.information.combined(weights) for s in parts]
            before = middle
            estimates = np.array([_block(s, metric.R, middle, len(parts)) for s in single])
            middle, distance = _geometric_median(estimates, metric.R)
            if np.linalg.norm(metric.R @ (middle - before)) <= SETTLED * math.sqrt(len(middle)):
                break
        far = FAR * max(float(np.median(distance)), 1e-150)
        shares = np.maximum(1.0 - (distance / far) ** 2, 0.0) ** 2
        shares /= max(float(shares.max()), 1e-150)
        energy = segments.mean_energies(parts, middle)
        sigma = np.maximum(np.sqrt(shares @ energy / shares.sum()), floor)
        settings: dict[str, object] = {"robust": "block median", "blocks": len(parts)}
        values = None if self.reweighted else middle
        return segments.concluded(problem, parts, shares, sigma, values, settings)


def _block(block: Triangle, metric: Array, middle: Array, count: int) -> Array:
    borrowed = metric * math.sqrt(BORROWED / count)
    stacked = np.vstack([block.factor, np.column_stack([borrowed, borrowed @ middle])])
    factor = triangle_of(stacked)
    return np.asarray(scipy.linalg.solve_triangular(factor[:-1, :-1], factor[:-1, -1]))


def _geometric_median(points: Array, metric: Array) -> tuple[Array, Array]:
    """Return the point of least summed distances, and the distances [Weiszfeld1937].

    Where an iterate meets a point of the data, what the others pull decides whether it stays
    [Vardi2000]; by Weiszfeld's own step it would, whatever they pull.
    """
    begin = np.median(points, axis=0)
    at = (points - begin) @ metric.T
    far = np.linalg.norm(at, axis=1)
    share = 1.0 / (far + max(1e-3 * float(far.max()), 1e-150))
    share /= share.sum()
    for _ in range(200):
        middle = share @ at
        distance = np.linalg.norm(at - middle, axis=1)
        tiny = 1e-9 * max(float(distance.max()), 1e-150)
        met = distance <= tiny
        pull = np.where(met, 0.0, 1.0 / np.maximum(distance, tiny))
        if met.all():
            break
        total = float(np.linalg.norm(pull @ (at - middle)))
        stays = min(1.0, np.count_nonzero(met) / total) if total > 0.0 else 1.0
        stays = stays if met.any() else 0.0
        share = stays * share + (1.0 - stays) * pull / pull.sum()
        if np.linalg.norm(share @ at - middle) <= tiny:
            break
    return np.asarray(begin + share @ (points - begin)), distance
