"""Selection of the segments of recordings whose information adds most, with a bound on any choice.

Of segments with information A_k = Y_kᵀ W Y_k, `count` are chosen whose sum has the largest

    f(S) = log det(A_0 + Σ_{k ∈ S} A_k)

A_0 is what is known already, and a trace of the information of all. f less f(∅) is monotone and
submodular, so that taking the best next segment again and again reaches at least 1 − 1/e of the
best choice [Nemhauser1978]; the gains of a segment only fall as others are taken, so that few of
them are computed at each step [Minoux1978]. The relaxation in which a segment may be taken in
part, 0 ≤ w_k ≤ 1 and Σ w_k = count, is concave: at every point of the way of Frank and Wolfe
[Frank1956] its linearisation bounds f of any choice from above, which certifies how far a
choice can be from the best. From the greedy choice and from the largest w_k, exchanges replace one
segment by another as long as that gains.

Everything is done in coordinates in which the information of all segments is the unit matrix: the
result does not depend on units, and no condition number is squared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import brentq

from heft.arrays import Array
from heft.errors import InvalidSetting, TooLittleData

from .bordered import triangle_of
from .identifiability import Directions


@dataclass(frozen=True, eq=False)
class Selected:
    """Segments that are chosen, and how good any choice of as many could be."""

    chosen: NDArray[np.intp]  # numbers of the segments, ascending, shape (count,)
    value: float  # f of these [nats], less that of all segments
    greedy: float  # f before exchanges, likewise
    bound: float  # least upper bound found of f of any choice of as many, likewise
    rank: int  # number of directions in which there is any information
    exchanges: int  # how many segments were replaced by others

    @property
    def gap(self) -> float:
        """Upper bound of how much better the best choice could be [nats]."""
        return self.bound - self.value

    @property
    def share(self) -> float:
        """Information per direction, relative to that of all segments: exp(value / rank)."""
        return float(np.exp(self.value / self.rank))


@dataclass(frozen=True)
class SegmentSelection:
    """Greedy choice on the log-determinant, exchanges, and a bound on any choice."""

    # share of the information of all segments that counts as known, so that the determinant of a
    # few segments is not zero
    trace: float = 1e-6
    # share of the largest singular value below which a direction counts as one in which no segment
    # says anything
    visible: float = 1e-9
    batch: int = 16  # segments whose gains are computed at once
    # how many of the least and of the most useful segments are tried for an exchange
    pairs: int = 64
    most_exchanges: float = 2.0  # exchanges at most, per segment that is chosen
    steps: int = 300  # steps of Frank and Wolfe at most
    close: float = 0.02  # gap of the relaxation at which these end [nats]

    def choose(
        self,
        factors: Array,
        count: int,
        known: Array | None = None,
        watch: Callable[[str], None] = lambda line: None,
    ) -> Selected:
        """Return the choice of segments.

        Args:
            factors: F_k with F_kᵀ F_k = A_k, weighted, shape (segments, rows, parameters).
            count: How many are chosen, 1 to all.
            known: Triangle of what is known already, shape (any, parameters).

        Raises:
            InvalidSetting: If fewer than one, or more than all are asked for.
            TooLittleData: If no segment says anything.
        """
        if not 1 <= count <= len(factors):
            raise InvalidSetting(
                "so many segments cannot be chosen",
                argument="count",
                got=count,
                expected=f"1 to {len(factors)}",
            )
        grams, start = self._scaled(factors, known)
        chosen = self._greedy(grams, count, start, watch)
        first = _log_det(start + grams[chosen].sum(axis=0))
        watch("bounding what any choice could reach")
        bound, weight = self._relaxed(grams, chosen, start)
        watch(f"{count} of {len(grams)} segments chosen, exchanging")
        rounded = np.argsort(-weight, kind="stable")[:count]
        candidates = [self._exchanged(grams, k, start) for k in (chosen, rounded)]
        value, (chosen, exchanges) = max(
            ((_log_det(start + grams[k].sum(axis=0)), (k, n)) for k, n in candidates),
            key=lambda choice: choice[0],
        )
        total = _log_det(start + grams.sum(axis=0))
        return Selected(
            np.sort(chosen), value - total, first - total, bound - total, len(start), exchanges
        )

    def values(
        self, factors: Array, choices: Sequence[NDArray[np.intp]], known: Array | None = None
    ) -> Array:
        """Return f of some choices less that of all segments [nats], shape (choices,).

        Args:
            factors: As of `choose`.
            choices: Numbers of the segments of each choice.
            known: As of `choose`.
        """
        grams, start = self._scaled(factors, known)
        total = _log_det(start + grams.sum(axis=0))
        return np.array([_log_det(start + grams[k].sum(axis=0)) - total for k in choices])

    def _scaled(self, factors: Array, known: Array | None) -> tuple[Array, Array]:
        """Return A_k and A_0 in coordinates in which all segments together are the unit matrix.

        Shapes (segments, rank, rank) and (rank, rank).
        """
        triangle = np.zeros((0, factors.shape[2]))
        for first in range(0, len(factors), 64):
            block = factors[first : first + 64].reshape(-1, factors.shape[2])
            triangle = triangle_of(np.vstack([triangle, block]))
        seen = Directions.of(triangle, factors.shape[0] * factors.shape[1], self.visible)
        if not seen.rank:
            raise TooLittleData("no segment says anything about the parameters")
        back = seen.inverse
        scaled = factors @ back
        grams = np.einsum("kri,krj->kij", scaled, scaled, optimize=True)
        start = self.trace * np.eye(seen.rank)
        if known is not None:
            start += (known @ back).T @ (known @ back)
        return grams, start

    def _greedy(
        self, grams: Array, count: int, start: Array, watch: Callable[[str], None]
    ) -> NDArray[np.intp]:
        """Return segments in the order in which they are taken, the best next one each time."""
        gains = np.full(len(grams), np.inf)  # upper bounds of the gains
        matrix, taken = start.copy(), []
        for step in range(count):
            base, fresh = _log_det(matrix), np.zeros(len(grams), dtype=bool)
            while True:
                order = np.argsort(-gains, kind="stable")
                if fresh[order[0]]:
                    break
                batch = order[: self.batch] if step else order
                batch = batch[~fresh[batch] & (gains[batch] > -np.inf)]  # not taken yet
                gains[batch] = _log_dets(matrix, grams, batch) - base
                fresh[batch] = True
            best = int(order[0])
            taken.append(best)
            matrix += grams[best]
            gains[best] = -np.inf
            if step % 100 == 99:
                watch(f"{step + 1} of {count} segments chosen")
        return np.array(taken, dtype=np.intp)

    def _exchanged(
        self, grams: Array, chosen: NDArray[np.intp], start: Array
    ) -> tuple[NDArray[np.intp], int]:
        """Return a choice at least as good, by exchanges of single segments, and their number."""
        chosen = chosen.copy()
        matrix = start + grams[chosen].sum(axis=0)
        done = 0
        while done < self.most_exchanges * len(chosen) and len(chosen) < len(grams):
            base = _log_det(matrix)
            use = _inner(np.linalg.inv(matrix), grams)
            others = np.setdiff1d(np.arange(len(grams)), chosen)
            out = np.argsort(use[chosen], kind="stable")[: self.pairs]
            into = others[np.argsort(-use[others], kind="stable")[: self.pairs]]
            best, pair = base + 1e-9 * max(1.0, abs(base)), None
            for place in out:
                values = _log_dets(matrix - grams[chosen[place]], grams, into)
                k = int(np.argmax(values))
                if values[k] > best:
                    best, pair = float(values[k]), (place, into[k])
            if pair is None:
                break
            matrix += grams[pair[1]] - grams[chosen[pair[0]]]
            chosen[pair[0]] = pair[1]
            done += 1
        return chosen, done

    def _relaxed(self, grams: Array, chosen: NDArray[np.intp], start: Array) -> tuple[float, Array]:
        """Return the least bound met by steps of Frank and Wolfe from a choice, and the weights."""
        weight = np.zeros(len(grams))
        weight[chosen] = 1.0
        matrix, count, least = start + grams[chosen].sum(axis=0), len(chosen), np.inf
        for _ in range(self.steps):
            use = _inner(np.linalg.inv(matrix), grams)
            best = np.argsort(-use, kind="stable")[:count]
            ahead = float(use[best].sum() - weight @ use)
            least = min(least, _log_det(matrix) + ahead)
            if ahead < self.close:
                break
            toward = -weight
            toward[best] += 1.0
            way = np.tensordot(toward, grams, 1)
            # The slope Σ λ / (1 + t λ) of log det(M + t D) falls with t.
            values = scipy.linalg.eigh(way, matrix, eigvals_only=True)
            step = 1.0
            if np.sum(values / np.maximum(1.0 + values, 1e-300)) < 0.0:
                step = float(brentq(_slope, 0.0, 1.0, (values,)))
            weight = weight + step * toward
            matrix = matrix + step * way
        return least, weight


def _slope(t: float, values: Array) -> float:
    return float(np.sum(values / (1.0 + t * values)))


def _log_det(matrix: Array) -> float:
    return float(2.0 * np.log(np.diagonal(np.linalg.cholesky(matrix))).sum())


def _log_dets(matrix: Array, grams: Array, numbers: NDArray[np.intp]) -> Array:
    """Return log det(matrix + A_k) of some segments, shape (numbers,)."""
    factors = np.linalg.cholesky(matrix + grams[numbers])
    return np.asarray(2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1))


def _inner(inverse: Array, grams: Array) -> Array:
    """Return tr(M⁻¹ A_k), the slope of log det in each segment's weight, shape (segments,)."""
    return np.asarray(grams.reshape(len(grams), -1) @ inverse.ravel())
