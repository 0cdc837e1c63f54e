"""How well a robot explains a log under a correction of it: what the doctor compares.

A hypothesis about a log is a `Correction`: joints swapped, signs flipped, scales, offsets, gravity,
a delay. Under each one the torque is fitted freely, with a model file that may be far off as a
weak prior and the nonnegative terms of friction, which tell a joint's direction: friction never
drives. Hypotheses differ by

    J = Σ_j n_j log σ_j² + Σ_b (ν + 10) log(1 + ‖u_b − 1‖² / ν s²),

the second sum a Student prior of each body, which forgives single bodies that are far off; n_j
being the rows of joint j that add something new (over the residual's memory) and σ_j what is left
of its torque *as logged*. J is twice a negative log likelihood, so differences of J are evidence:
2 ln of the odds.

GRAM
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from heft.arrays import Array
from heft.estimators import noise
from heft.information import PARAMETER_COUNT

from .corrections import Correction
from .evidence import Evidence, Rows

KEPT_ROWS = 4  # motions whose rows are kept
ROUNDING = 1e-12  # added to scaled normal equations, where columns all but depend
CLIPS = 4  # times that nonnegative terms which come out negative are set to zero


@dataclass(frozen=True)
class Fit:
    """What is left of the torque under one correction.

    Attributes:
        correction: The correction.
        objective: J, with the memory given.
        sigma: What is left of each channel's torque as logged, rms [N·m], shape (channels,).
        values: The unknowns u, shape (p,).
        settled: Whether a number that was looked for has been found.
    """

    correction: Correction
    objective: float
    sigma: Array
    values: Array
    settled: bool = True


class Hypotheses:
    """Fits of one piece of evidence, by what they share: rows of a motion, memory of residuals."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.unknowns = evidence.unknowns
        self.settings = evidence.settings
        self.memory = np.ones(len(evidence.channels))  # rows that add as much as one, a channel
        self._rows: dict[object, Rows] = {}
        self._energies: dict[float, Array] = {}

    def energies(self, delay: float) -> Array:
        """Return the energy of each joint's torque as logged, shape (joints,)."""
        if delay not in self._energies:
            self._energies[delay] = self.evidence.energies(delay)
        return self._energies[delay]

    def rows(self, correction: Correction) -> Rows:
        """Return the sums of a correction's motion and delay."""
        key = (correction.motion, correction.delay)
        if key not in self._rows:
            if len(self._rows) > KEPT_ROWS:
                self._rows.clear()
            self._rows[key] = self.evidence.rows(correction)
        return self._rows[key]

    def settle(self, correction: Correction, common: bool = True) -> Fit:
        """Return the fit with the memory of its own residual, which is kept.

        Args:
            correction: Which.
            common: Whether channels share one memory, as long as what is wrong is not known.
        """
        self.memory = np.ones(len(self.evidence.channels))
        fit = self.fit(correction)
        self.memory = self._memory_of(fit)
        if common:
            self.memory[:] = np.exp(np.mean(np.log(self.memory)))
        return self.fit(correction, fit.sigma)

    def fit(self, correction: Correction, sigma: Array | None = None) -> Fit:
        """Return what is left of the torque under a correction, by the memory that is kept.

        Args:
            correction: The correction.
            sigma: What is left of each channel's torque as logged, where to begin, shape
                (channels,) [N·m].
        """
        evidence, rows = self.evidence, self.rows(correction)
        channels, count = list(evidence.channels), evidence.count
        source = [correction.tau_source[c] for c in channels]
        scale = np.array([correction.tau_scale[c] for c in channels])
        energy = scale**2 * self.energies(correction.delay)[source]
        floor = self.settings.floor_share * np.abs(scale) * evidence.effort_rms[source] + 1e-12
        left = floor + np.sqrt(energy / count) if sigma is None else np.abs(scale) * sigma
        right = [scale[k] * p[:, source[k]] for k, p in enumerate(rows.products)]
        values, ridge = self.unknowns.start, rows.ridge
        for _ in range(self.settings.rounds):
            weights = 1.0 / (np.maximum(left, floor) ** 2 * self.memory)
            values = self._solve(rows, ridge, right, weights)
            ridge = self.tempered(rows, values)
            rest = np.array(
                [
                    energy[k] - 2.0 * values[at] @ right[k] + values[at] @ square @ values[at]
                    for k, (at, square) in enumerate(zip(rows.columns, rows.squares, strict=True))
                ]
            )
            left = np.sqrt(np.maximum(rest, 0.0) / count + floor**2)
        logged = left / np.abs(scale)
        likelihood = float(np.sum(count / self.memory * 2.0 * np.log(logged)))
        return Fit(correction, likelihood + self._distance(rows, values), logged, values)

    def _distance(self, rows: Rows, values: Array) -> float:
        """Return what J has by the prior."""
        tail, drives = self.settings.tail, slice(self.unknowns.bodies, None)
        far = self._far(rows, values)
        distance = (tail + PARAMETER_COUNT) * float(np.sum(np.log1p(far / tail)))
        return distance + float(np.sum(rows.ridge[drives] * values[drives] ** 2))

    def _far(self, rows: Rows, values: Array) -> Array:
        """Return how far each body is from the model file's, squared [standard deviations²]."""
        apart = rows.ridge * (values - self.unknowns.start) ** 2
        bodies = apart[: self.unknowns.bodies].reshape(-1, PARAMETER_COUNT)
        return np.asarray(bodies.sum(axis=1))

    def tempered(self, rows: Rows, values: Array) -> Array:
        """Return the precisions at which a Gaussian prior pulls as the Student one does."""
        tail = self.settings.tail
        weight = (tail + PARAMETER_COUNT) / (tail + self._far(rows, values))
        weights = np.ones(len(values))
        weights[: self.unknowns.bodies] = np.repeat(np.minimum(weight, 1.0), PARAMETER_COUNT)
        return np.asarray(rows.ridge * weights)

    def _solve(self, rows: Rows, ridge: Array, right: Sequence[Array], weights: Array) -> Array:
        """Return the unknowns of least weighted squares, nonnegative where they must be."""
        start, nonnegative = self.unknowns.start, self.unknowns.nonnegative
        size = len(start)
        square, product = np.diag(ridge), ridge * start
        for at, own, r, w in zip(rows.columns, rows.squares, right, weights, strict=True):
            square[np.ix_(at, at)] += w * own
            product[at] += w * r
        length = 1.0 / np.sqrt(np.diag(square))
        square = square * length * length[:, None]
        square[np.diag_indices(size)] += ROUNDING
        product = product * length
        free, values = np.ones(size, dtype=bool), np.zeros(size)
        for _ in range(CLIPS):
            kept = np.flatnonzero(free)
            values = np.zeros(size)
            factor = scipy.linalg.cho_factor(square[np.ix_(kept, kept)], check_finite=False)
            values[kept] = scipy.linalg.cho_solve(factor, product[kept], check_finite=False)
            negative = nonnegative & (values < 0.0)
            if not negative.any():
                break
            free &= ~negative
        return length * np.where(nonnegative, np.maximum(values, 0.0), values)

    def residuals(self, fit: Fit) -> Array:
        """Return what is left of the torque as logged, shape (n, channels) [N·m]."""
        correction, rows = fit.correction, self.rows(fit.correction)
        effort = self.evidence.effort(correction.delay)
        found = []
        for k, c in enumerate(self.evidence.channels):
            scale = correction.tau_scale[c]
            tau = effort[:, correction.tau_source[c]]
            found.append(tau - fit.values[rows.columns[k]] @ rows.regressors[k] / scale)
        return np.stack(found, axis=1)

    def _memory_of(self, fit: Fit) -> Array:
        """Return how many rows of what is left add as much as one, shape (channels,)."""
        cuts = np.cumsum([len(s.chosen) for s in self.evidence.stretches])[:-1]
        parts = np.split(self.residuals(fit), cuts)
        return noise.memory(noise.autocovariance(parts, self.settings.instants // 4))
