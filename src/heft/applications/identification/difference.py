"""Difference of base parameters between two sets of logs, estimated along what may have changed.

With F_A and F_B the information of the two sets about the base parameters β, in coordinates in
which F_A + F_B = 1, the difference β_B − β_A has the information P = F_A − F_A², their parallel
sum. Where one quantity δ changed, β_B − β_A = K δ, and generalized least squares of all the
difference on K gives δ, with information `Kᵀ P K`: what both sets say of everything else, the
dictionary of friction included, serves to tell it, so that it is known far better than any number
of either fit alone. It is the least squares of all rows on [β, δ].

Its deviation is judged by the data, by the sandwich [Huber1967; White1980]: the scatter of the
score `Kᵀ P (β_B − β_A)` is that between blocks of the logs, about the logs' linear trend, plus
that of the coloured noise. Blocks show what no column describes as far as it differs from block to
block, noise what differs within one; of another motion, either alone shows too little. The trend is
drives that warm up; what that does to a log's mean is no longer in rows of the weak form, from
which a steady change of friction was taken (`heft.fit.steady`). What comes again in
all blocks of a motion and is another thing in another motion shows in neither: the misfit of
friction, taken for the same effort on both sides under like conditions (`misfit_scatter`), which
counts as far as the conditions of the two differ. Errors of what each side settled for itself (its
delay, its cutoff, the point of its load-dependent friction) are unknowns of unit deviation: two
delays of one robot differ by their errors, and inertia times that looks like viscous friction.

From few blocks a scatter is not known well, so that tests are Hotelling's [Hotelling1931].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.fit import Earlier, MisfitMoments, misfit_scatter
from heft.information import Directions, triangle_of

VISIBLE = 1e-6  # relative singular value below which a direction of β is no evidence of a change
VISIBLE_SHARE = 1e-4  # of a column that is to remain beside what is taken as changed
POWER = 0.9  # share of changes of a size that a test is to find
ABSORBED = 5.0  # variance of what no model of friction takes, of what a fit leaves of it


@dataclass(frozen=True)
class ChangeEstimate:
    """Estimate of a quantity δ that may have changed, if nothing else did."""

    values: Array  # δ, shape (d,); NaN where the logs do not show it
    std: Array  # standard deviation, shape (d,); infinite there
    explained: float  # sum of squares that it explains, with white noise of unit variance
    probability: float  # p-value of the hypothesis that δ = 0
    freedom: float  # degrees of freedom of the deviations

    def least(self, alarm: float) -> float:
        """Return the size of a one-dimensional δ that a test finds in nine of ten; else infinite.

        Args:
            alarm: p-value from which it finds a change.
        """
        from scipy.special import stdtrit

        if len(self.std) > 1:
            return np.inf
        return float(self.std[0] * stdtrit(self.freedom, [1.0 - 0.5 * alarm, POWER]).sum())


@dataclass(frozen=True)
class Difference:
    """Difference of base parameters β between two sets of logs, in n identifiable directions."""

    coordinates: Array  # T of a difference in β, shape (n, b); F_A + F_B = TᵀT
    information: Array  # P, of the difference, shape (n, n)
    score: Array  # P times the difference, shape (n,)
    scatter: Array  # covariance of the score that blocks and coloured noise show, shape (n, n)
    misfit: Array  # what misfit adds to it if fits leave all of it, shape (n, n)
    freedom: float  # degrees of freedom of the scatter
    before_all: Array  # information before anything counted as changed, shape (n, n)

    @staticmethod
    def of(before: Earlier, after: Earlier, weights: Array) -> Difference:
        """Return the difference of two independent sets of logs of one robot.

        Args:
            weights: Of each channel's rows, shape (channels,) [1 / channel's unit].
        """
        by_name = dict(zip(before.information.channels, weights.tolist(), strict=True))
        first, second = (e.information.combined(by_name) for e in (before, after))
        both = triangle_of(np.vstack([first.factor, second.factor]))
        triangle, right = both[:-1, :-1], both[:-1, -1]
        inverse = Directions.of(triangle, first.rows + second.rows, VISIBLE).inverse
        common = inverse @ ((triangle @ inverse).T @ right)
        score = inverse.T @ (second.R.T @ (second.z - second.R @ common))
        share = (first.R @ inverse).T @ (first.R @ inverse)
        parallel = share - share @ share
        scatter, freedom = np.zeros_like(share), 0.0
        settled = []
        repeated = list[tuple[MisfitMoments, list[Array]]]()
        for side, onto in ((before, share - np.eye(len(share))), (after, share)):
            maps = [w**2 * inverse @ onto for w in weights]
            blocks = np.sum([m @ k for m, k in zip(side.moments, maps, strict=True)], axis=0)
            covariance, own = _block_scatter(blocks)
            scatter, freedom = scatter + covariance, freedom + own
            for factor, m in zip(side.coloured, maps, strict=True):
                scatter = scatter + (factor @ m).T @ (factor @ m)
            settled.append(np.sum([m @ k for m, k in zip(side.common, maps, strict=True)], axis=0))
            if side.misfit is not None:
                repeated.append((side.misfit, maps))
        # The mean residual of a cell of like conditions counts from eight rows on.
        misfit = misfit_scatter(repeated, 8.0) if repeated else np.zeros_like(share)
        freedom = freedom or 1e6  # as good as any: the scatter is certain
        # Errors of what each side settled for itself are unknowns of unit deviation.
        errors = np.vstack(settled)
        gain = errors @ np.linalg.pinv(parallel, rcond=VISIBLE, hermitian=True)
        beside = np.eye(len(share)) - errors.T @ np.linalg.solve(
            gain @ errors.T + np.eye(len(errors)), gain
        )
        left = beside @ errors.T
        return Difference(
            (triangle @ inverse).T @ triangle,
            beside @ parallel,
            beside @ score,
            beside @ scatter @ beside.T + left @ left.T,
            beside @ misfit @ beside.T,
            freedom,
            parallel,
        )

    def change(self, columns: Array, absorbed: float = ABSORBED) -> ChangeEstimate:
        """Return the change δ of a quantity, where the difference of β is K δ.

        Args:
            columns: K, shape (b, d).
            absorbed: Ratio of the variance of misfit that blocks do not show to what fits leave.
        """
        back, seen = self._basis(columns)
        whitened = self.coordinates @ columns @ back
        every = self.scatter + absorbed * self.misfit
        score, scatter = whitened.T @ self.score, whitened.T @ every @ whitened
        std = np.sqrt(np.einsum("ij,jk,ik->i", back, scatter, back))
        return ChangeEstimate(
            np.where(seen, back @ score, np.nan),
            np.where(seen, std, np.inf),
            float(score @ score),
            _hotelling(score, scatter, self.freedom),
            self.freedom,
        )

    def beside(self, columns: Array) -> Difference:
        """Return the difference that is left when a quantity may have changed by any amount."""
        back, _ = self._basis(columns)
        whitened = self.coordinates @ columns @ back
        beside = np.eye(len(self.score)) - self.information @ whitened @ whitened.T
        return Difference(
            self.coordinates,
            beside @ self.information @ beside.T,
            beside @ self.score,
            beside @ self.scatter @ beside.T,
            beside @ self.misfit @ beside.T,
            self.freedom,
            self.before_all,
        )

    def _basis(self, columns: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return B with `(K B)ᵀ P K B = 1`, shape (d, rank), and which of δ it determines."""
        own = self.coordinates @ columns
        lengths, before_all = (
            np.sqrt(np.maximum(np.einsum("ni,nm,mi->i", own, p, own), 0.0))
            for p in (self.information, self.before_all)
        )
        seen = lengths > VISIBLE_SHARE * before_all
        back = np.zeros((columns.shape[1], 0))
        hidden = np.ones(columns.shape[1])
        if seen.any():
            scaled = own[:, seen] / lengths[seen]
            values, vectors = np.linalg.eigh(scaled.T @ self.information @ scaled)
            kept = values > VISIBLE * values[-1]
            back = np.zeros((columns.shape[1], np.count_nonzero(kept)))
            back[seen] = vectors[:, kept] / np.sqrt(values[kept]) / lengths[seen, None]
            hidden[seen] = np.linalg.norm(vectors[:, ~kept], axis=1)
        return back, np.asarray(hidden < VISIBLE_SHARE)


def _block_scatter(blocks: Array) -> tuple[Array, float]:
    """Return the covariance of the sum of blocks, (blocks, n), about a trend, and its freedom."""
    count = len(blocks)
    if count < 3:
        return np.zeros((blocks.shape[1],) * 2), 0.0
    place = np.arange(count) - 0.5 * (count - 1)
    trend = np.outer(place, place @ blocks) / (place @ place)
    rest = blocks - blocks.mean(axis=0) - trend
    return count / (count - 2.0) * rest.T @ rest, count - 2.0


def _hotelling(values: Array, covariance: Array, freedom: float) -> float:
    """Return the p-value of Hotelling's test that values, shape (d,), have mean 0 [Hotelling1931].

    Of fewer degrees of freedom than values, one is left.
    """
    from scipy.special import fdtrc

    size = len(values)
    if not size or not values.any():
        return 1.0
    rest = max(freedom - size + 1.0, 1.0)
    squared = values @ np.linalg.pinv(covariance, hermitian=True) @ values
    return float(fdtrc(size, rest, squared * rest / (freedom * size)))
