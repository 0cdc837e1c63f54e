"""Evidence for corrections of a log: penalised fit of the torque under each hypothesis.

A hypothesis about a log is a `Correction`: joints swapped, signs flipped, scales, offsets, gravity,
a delay. Under each one the torque is fitted by least squares with a weak prior at the model file's
parameters and nonnegative friction terms. These identify a joint's direction, since friction
dissipates. Hypotheses are compared by

    J = Σ_j n_j log σ_j² + Σ_b (ν + 10) log(1 + ‖u_b − 1‖² / ν s²).

n_j is the effective number of samples of joint j, the rows over the residual's autocorrelation
time; σ_j is the rms residual of its torque *as logged*. The second sum is a Student prior on each
body, which tolerates single bodies that are far off. J is twice a negative log likelihood, so
differences of J are evidence: 2 ln of the odds.

The rows of a motion are reduced once to a triangle a channel, which carries every joint's torque:
swaps, gains and signs of torques are other right-hand sides of it. The unknowns of all channels
together are solved for by the sum of their RᵀR: the prior bounds its condition (1e10 at a noise
floor of 1e-3), and a robot of 43 joints takes a tenth of the time. The residual is that of the
triangles, no difference of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from heft.arrays import Array
from heft.estimators import noise
from heft.information import PARAMETER_COUNT

from .corrections import Correction, Timing
from .evidence import Evidence, Regressor, Rows, triangulated

KEPT_ROWS = 4  # motions whose rows are kept
ROUNDING = 1e-11  # that sums of squares may be off by, relative to their diagonal
CLIPS = 4  # times that nonnegative terms which come out negative are set to zero


T = TypeVar("T")


def _kept(cache: dict[object, T], key: object, make: Callable[[], T]) -> T:
    if key not in cache:
        while len(cache) >= KEPT_ROWS:
            del cache[next(iter(cache))]
        cache[key] = make()
    return cache[key]


@dataclass(frozen=True)
class Fit:
    """Fit of the torque under one correction."""

    correction: Correction  # the correction
    objective: float  # J, with the autocorrelation times given
    # root mean square residual of each channel's torque as logged, shape (channels,) [N·m]
    sigma: Array
    values: Array  # the unknowns u, relative to the model file for bodies, shape (p,)
    settled: bool = True  # whether the refinement of the step's parameter has converged


class Hypotheses:
    """Fits on one set of data; caches what they share: rows of a motion, autocorrelation times."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.unknowns = evidence.unknowns
        self.settings = evidence.settings
        self.memory = np.ones(len(evidence.channels))  # rows that add as much as one, a channel
        self._rows: dict[object, Rows] = {}
        self._regressors: dict[object, Regressor] = {}
        self._drives: dict[object, Array] = {}
        self._energies: dict[Timing, Array] = {}

    def energies(self, timing: Timing) -> Array:
        """Return the sum of squares of each joint's torque as logged, shape (joints,)."""
        if timing not in self._energies:
            self._energies[timing] = self.evidence.energies(timing)
        return self._energies[timing]

    def rows(self, correction: Correction) -> Rows:
        """Return the regressor rows of a correction's motion and delay."""
        return _kept(
            self._rows,
            (correction.motion, correction.timing),
            lambda: self.evidence.rows(self._regressor(correction), correction.timing),
        )

    def _regressor(self, correction: Correction) -> Regressor:
        def made() -> Regressor:
            drives = _kept(
                self._drives, correction.speeds, lambda: self.evidence.drives(correction)
            )
            return self.evidence.regressor(correction, drives)

        return _kept(self._regressors, correction.motion, made)

    def settle(self, correction: Correction, common: bool = True) -> Fit:
        """Fit a correction and keep the autocorrelation times of its residual for later fits.

        Args:
            common: Whether channels share one autocorrelation time, as before the log is corrected.
        """
        self.memory = np.ones(len(self.evidence.channels))
        fit = self.fit(correction)
        self.memory = self._memory_of(fit)
        if common:
            self.memory[:] = np.exp(np.mean(np.log(self.memory)))
        return self.fit(correction, fit.sigma)

    def fit(
        self,
        correction: Correction,
        sigma: Array | None = None,
        hopeless: float = np.inf,
    ) -> Fit:
        """Fit the torque under a correction, with the autocorrelation times that are kept.

        Args:
            sigma: Initial rms residual of each channel's torque as logged, shape (channels,) [N·m].
            hopeless: Value of J beyond which the weights are not iterated further.
        """
        evidence, rows = self.evidence, self.rows(correction)
        channels, count = list(evidence.channels), evidence.count
        source = [correction.tau_source[c] for c in channels]
        scale = np.array([correction.tau_scale[c] for c in channels])
        energy = scale**2 * self.energies(correction.timing)[source]
        floor = self.settings.floor_share * np.abs(scale) * evidence.effort_rms[source] + 1e-12
        left = floor + np.sqrt(energy / count) if sigma is None else np.abs(scale) * sigma
        sides = [rows.side(k, j, scale[k]) for k, j in enumerate(source)]
        moments = [R.T @ z for R, z, _ in sides]
        values, ridge = self.unknowns.start, rows.ridge
        must = self.unknowns.nonnegative(correction.driven)
        for _ in range(self.settings.rounds):
            roots = 1.0 / (np.maximum(left, floor) * np.sqrt(self.memory))
            values = self._solve(rows, ridge, moments, roots**2, must)
            ridge = self.tempered(rows, values)
            apart = (R @ values[at] - z for at, (R, z, _) in zip(rows.columns, sides, strict=True))
            rest = np.array([x @ x + least for x, (_, _, least) in zip(apart, sides, strict=True)])
            left = np.sqrt(rest / count + floor**2)
            logged = left / np.abs(scale)
            likelihood = float(np.sum(count / self.memory * 2.0 * np.log(logged)))
            if likelihood > hopeless:
                break
        return Fit(correction, likelihood + self._distance(rows, values), logged, values)

    def _distance(self, rows: Rows, values: Array) -> float:
        """Return the prior's part of J: Student's t for bodies, Gaussian for other unknowns."""
        tail, drives = self.settings.tail, slice(self.unknowns.bodies, None)
        far = self.far(rows, values)
        distance = (tail + PARAMETER_COUNT) * float(np.sum(np.log1p(far / tail)))
        return distance + float(np.sum(rows.ridge[drives] * values[drives] ** 2))

    def far(self, rows: Rows, values: Array) -> Array:
        """Return each body's squared Mahalanobis distance from the file's, shape (bodies,)."""
        apart = rows.ridge * (values - self.unknowns.start) ** 2
        bodies = apart[: self.unknowns.bodies].reshape(-1, PARAMETER_COUNT)
        return np.asarray(bodies.sum(axis=1))

    def tempered(self, rows: Rows, values: Array) -> Array:
        """Precisions of the Gaussian prior with the Student prior's gradient, shape (p,).

        Args:
            rows: Regressor rows, which hold the nominal precisions.
            values: Unknowns u at which the gradients agree, shape (p,).
        """
        tail = self.settings.tail
        weight = (tail + PARAMETER_COUNT) / (tail + self.far(rows, values))
        weights = np.ones(len(values))
        weights[: self.unknowns.bodies] = np.repeat(np.minimum(weight, 1.0), PARAMETER_COUNT)
        return np.asarray(rows.ridge * weights)

    def _solve(
        self,
        rows: Rows,
        ridge: Array,
        moments: Sequence[Array],
        weights: Array,
        must: NDArray[np.bool_],
    ) -> Array:
        """Return the unknowns by weighted least squares with prior, nonnegative where `must`.

        Args:
            ridge: Precision of the prior, shape (p,).
            moments: Yᵀτ of each channel.
            weights: Weight of each channel's squares, shape (channels,).
            must: Mask of the nonnegative unknowns, shape (p,).

        Raises:
            LinAlgError: If numbers are not finite.
        """
        size = len(self.unknowns.start)
        sums, right = np.diag(ridge), ridge * self.unknowns.start
        every = sums.ravel()
        for at, places, gram, moment, weight in zip(
            rows.columns, rows.places, rows.grams, moments, weights, strict=True
        ):
            every[places] += weight * gram
            right[at] += weight * moment
        scale = np.sqrt(np.diag(sums))
        sums /= scale[:, None] * scale
        sums[np.diag_indices(size)] += ROUNDING
        factor, failed = dpotrf(sums.T, overwrite_a=True)
        if failed:
            raise np.linalg.LinAlgError("sums of squares are not positive definite")
        behind = dtrtrs(factor, right / scale, trans=1)[0]
        return self._nonnegative(factor * scale, behind, must[self.unknowns.bodies :])

    def _nonnegative(self, R: Array, z: Array, must: NDArray[np.bool_]) -> Array:
        """Return the unknowns of `[R z; 0 ρ]`; those of `must` are set to zero if negative.

        Those that must not be stand behind the bodies, so less is triangulated again.
        """
        bodies = self.unknowns.bodies
        drives = np.column_stack([R[bodies:, bodies:], z[bodies:]])
        free, behind = np.ones(len(must), dtype=bool), np.zeros(len(must))
        for _ in range(CLIPS):
            kept = np.flatnonzero(free)
            own = drives if free.all() else triangulated(np.asfortranarray(drives[:, [*kept, -1]]))
            count = len(kept)
            behind = np.zeros(len(must))
            behind[kept] = dtrtrs(own[:count, :count], own[:count, -1])[0]
            negative = must & (behind < 0.0)
            if not negative.any():
                break
            free &= ~negative
        right = z[:bodies] - R[:bodies, bodies:] @ behind
        ahead = dtrtrs(R[:bodies, :bodies], right)[0]
        return np.concatenate([ahead, np.where(must, np.maximum(behind, 0.0), behind)])

    def residuals(self, fit: Fit) -> Array:
        """Return the residual of the torque as logged, shape (n, channels) [N·m]."""
        correction, rows = fit.correction, self.rows(fit.correction)
        effort = self.evidence.effort(correction.timing)
        found = []
        for k, c in enumerate(self.evidence.channels):
            scale = correction.tau_scale[c]
            tau = effort[:, correction.tau_source[c]]
            found.append(tau - fit.values[rows.columns[k]] @ rows.regressors[k] / scale)
        return np.stack(found, axis=1)

    def _memory_of(self, fit: Fit) -> Array:
        """Return the integrated autocorrelation time of each residual [rows], shape (channels,)."""
        cuts = np.cumsum([len(s.chosen) for s in self.evidence.stretches])[:-1]
        parts = np.split(self.residuals(fit), cuts)
        return noise.autocorrelation_time(noise.autocovariance(parts, self.settings.instants // 4))
