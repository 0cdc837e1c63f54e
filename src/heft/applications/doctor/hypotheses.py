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

The rows of a motion are reduced once to sums of products a channel, with every joint's torque among
the columns: swaps, gains and signs of torques are other right-hand sides of them. All channels'
unknowns are then fitted by one compiled function (`reweighted_fit`); the prior bounds the condition
(1e10 at a noise floor of 1e-3).

A delay that fits best is no finding: friction that the model does not know looks like one in every
joint. It is taken along so that it hides nothing else, and only the identification's own rule
(`DelaySearch`) says whether there is one. A delay that grows, alike in each half of the logs, and a
torque that lacks its upper frequencies, are nothing that friction imitates.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import noise
from heft.fit import Progress, silent
from heft.information import PARAMETER_COUNT

from .corrections import IN_TIME, Correction, CorrectionStep, Timing
from .evidence import Evidence, Near, Rows
from .reweighted_fit import Prior, fitted
from .settings import TURN, LoadThresholds, TimingSearch

T = TypeVar("T")


def _kept(cache: dict[object, T], key: object, make: Callable[[], T], most: int = 4) -> T:
    """Return what a cache has of a key, made if it lacks it; the newest are kept."""
    if key not in cache:
        while len(cache) >= most:
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
        self._settled: Near | None = None  # from which others differ little
        self._drives: dict[object, Array] = {}
        self._efforts: dict[object, tuple[Array, Array]] = {}

    def effort(self, timing: Timing) -> tuple[Array, Array]:
        """Return torque as logged, aligned in time, (n, joints), and sums of squares, (joints,)."""

        def made() -> tuple[Array, Array]:
            effort = self.evidence.effort(timing)
            return effort, np.asarray(np.sum(effort**2, axis=0))

        return _kept(self._efforts, timing, made, 64)

    def rows(self, correction: Correction) -> Rows:
        """Return the regressor rows of a correction's motion."""

        def made() -> Rows:
            drive = partial(self._drive, correction)
            return self.evidence.rows(correction, drive, self._settled)

        return _kept(self._rows, correction.motion, made)

    def _drive(self, correction: Correction, drive: int) -> Array:
        """Return a drive's friction columns, which few corrections change, shape (terms, n)."""
        moved, scale = self.evidence.motion_of(drive, correction)

        def made() -> Array:
            stretches = self.evidence.stretches
            return self.unknowns.drive_columns(drive, scale, stretches, moved)

        return _kept(self._drives, (drive, moved, *scale), made, 512)

    def settle(self, correction: Correction, common: bool = True) -> Fit:
        """Fit a correction and keep the autocorrelation times of its residual for later fits.

        Args:
            common: Whether channels share one autocorrelation time, as before the log is corrected.
        """
        self.memory = np.ones(len(self.evidence.channels))
        fit, self._settled = self.fit(correction), (correction, self.rows(correction).complete)
        cuts = np.cumsum([len(s.chosen) for s in self.evidence.stretches])[:-1]
        parts = np.split(self.residuals(fit), cuts)
        covariance = noise.autocovariance(parts, self.settings.instants // 4)
        self.memory = noise.autocorrelation_time(covariance)
        if common:
            self.memory[:] = np.exp(np.mean(np.log(self.memory)))
        return self.fit(correction, fit)

    def fit(self, correction: Correction, near: Fit | None = None, hopeless: float = np.inf) -> Fit:
        """Fit the torque under a correction, with the autocorrelation times that are kept.

        Args:
            near: Fit at which the weights, and which friction acts, begin.
            hopeless: Value of J beyond which it is not iterated further.
        """
        evidence, rows = self.evidence, self.rows(correction)
        channels, count = list(evidence.channels), evidence.count
        source = [correction.tau_source[c] for c in channels]
        scale = np.array([correction.tau_scale[c] for c in channels])
        effort, energies = self.effort(correction.timing)
        energy = energies[source]
        floor = self.settings.floor_share * np.abs(scale) * evidence.effort_rms[source] + 1e-12
        prior, signed = self.ridge(correction), self.unknowns.nonnegative(correction.driven)
        logged, start = np.sqrt(energy / count) + floor / np.abs(scale), self.unknowns.start
        held = np.ones(len(start), dtype=bool)
        if near is not None:
            logged, held = near.sigma, ~signed | (near.values > 0.0)
        right = rows.right(source, effort, correction.timing)
        values, residual, likelihood = fitted(
            rows.channels(right, energy, scale, self.memory, floor),
            Prior(prior, start, signed, self.settings.tail),
            rows.order,
            np.abs(scale) * logged,
            held,
            self.settings.rounds,
            hopeless,
        )
        distance = self._distance(prior, values)
        return Fit(correction, likelihood + distance, residual / np.abs(scale), values)

    def ridge(self, correction: Correction) -> Array:
        """Return the precision of the prior on the unknowns, shape (p,).

        What a drive rubs is some of its torque, in whatever unit that is.
        """
        rows, evidence = self.rows(correction), self.evidence
        logged = np.maximum(evidence.effort_rms, 1e-9)
        size = np.abs(correction.tau_scale) * logged[list(correction.tau_source)]
        ridge = rows.ridge.copy()
        ratios = np.abs(self.unknowns.ratios)
        strong, was = ((ratios * x).max(axis=1, keepdims=True) for x in (size, logged))
        self.unknowns.by_drive(ridge)[:] *= (was / strong) ** 2
        return ridge

    def _distance(self, ridge: Array, values: Array) -> float:
        """Return the prior's part of J: Student's t for bodies, Gaussian for other unknowns."""
        tail, drives = self.settings.tail, slice(self.unknowns.bodies, None)
        far = self.far(ridge, values)
        distance = (tail + PARAMETER_COUNT) * float(np.sum(np.log1p(far / tail)))
        return distance + float(np.sum(ridge[drives] * values[drives] ** 2))

    def far(self, ridge: Array, values: Array) -> Array:
        """Return each body's squared Mahalanobis distance from the file's, shape (bodies,)."""
        distances = ridge * (values - self.unknowns.start) ** 2
        bodies = distances[: self.unknowns.bodies].reshape(-1, PARAMETER_COUNT)
        return np.asarray(bodies.sum(axis=1))

    def tempered(self, ridge: Array, values: Array) -> Array:
        """Precisions, (p,), of the Gaussian prior with the Student prior's gradient at u, (p,)."""
        tail = self.settings.tail
        weight = (tail + PARAMETER_COUNT) / (tail + self.far(ridge, values))
        weights = np.ones(len(values))
        weights[: self.unknowns.bodies] = np.repeat(np.minimum(weight, 1.0), PARAMETER_COUNT)
        return np.asarray(ridge * weights)

    def sizes(self, fit: Fit) -> Array:
        """Return standard deviations of the torque as logged, shape (channels,) [N·m]."""
        sources = [fit.correction.tau_source[c] for c in self.evidence.channels]
        return np.maximum(self.evidence.effort_size, 1e-12)[sources]

    def residuals(self, fit: Fit) -> Array:
        """Return the residual of the torque as logged, shape (n, channels) [N·m]."""
        correction, rows = fit.correction, self.rows(fit.correction)
        effort, _ = self.effort(correction.timing)
        columns = []
        for k, c in enumerate(self.evidence.channels):
            scale = correction.tau_scale[c]
            tau = effort[:, correction.tau_source[c]]
            columns.append(tau - fit.values[rows.columns[k]] @ rows.regressors[k] / scale)
        return np.stack(columns, axis=1)

    def file_torque(self, fit: Fit, channel: int, carrying: int = -1) -> tuple[Array, Array, Array]:
        """Return what of a channel's torque is the file's bodies', all of it, and other columns.

        Args:
            channel: Its place among the measured ones.
            carrying: Index of a body that does not count.

        Returns:
            Torque that the bodies need by the file's masses, shape (n,), and measured torque under
            the fit's correction, shape (n,) [N·m or N]; columns of all else, shape (n, k).
        """
        rows, correction, joint = self.rows(fit.correction), fit.correction, self.evidence.channels
        at, regressor = rows.columns[channel], rows.regressors[channel]
        own = (at < self.unknowns.bodies) & (at // PARAMETER_COUNT != carrying)
        effort, _ = self.effort(correction.timing)
        torque = effort[:, correction.tau_source[joint[channel]]]
        scale = correction.tau_scale[joint[channel]]
        return self.unknowns.start[at[own]] @ regressor[own], scale * torque, regressor[~own].T


@dataclass(frozen=True)
class TimingFound:
    """Fits of a log under a correction and several timings, with the same autocorrelation times."""

    still: Fit  # without any delay
    late: Fit  # with the delay that fits best
    drifting: Fit  # with the delay and drift that fit best
    filtered: Fit  # with the low-pass that fits best

    def falls(self, fit: Fit) -> float:
        """Return a fit's residual variance over that without a delay, mean over channels."""
        return float(np.mean((fit.sigma / self.still.sigma) ** 2))

    @property
    def best(self) -> Fit:
        """The fit of strongest evidence."""
        fits = (self.still, self.late, self.drifting, self.filtered)
        return min(fits, key=_objective)


@dataclass(frozen=True)
class Timings:
    """Search over timings of a correction."""

    hypotheses: Hypotheses  # fits that are compared
    settings: TimingSearch  # candidates

    def fitted(self, correction: Correction) -> TimingFound:
        """Return the fits of the timings that explain a corrected log best."""
        plain = replace(correction, timing=IN_TIME)
        best = self._searched(self.hypotheses.settle(plain, common=False))
        if best.best is best.still:
            return best
        # What is left without the delay is not what its rows tell: its autocorrelation is less.
        nearest = min(best.late, best.drifting, key=_objective)
        settled = self.hypotheses.settle(nearest.correction, common=False)
        still, late, drifting = (
            self._at(settled, fit.correction.timing)
            for fit in (best.still, best.late, best.drifting)
        )
        return TimingFound(still, late, drifting, self._filtered(still, late))

    def hides(self, timings: TimingFound) -> bool:
        """Return whether a timing is to be corrected before other corrections are sought."""
        gain = timings.still.objective - timings.best.objective
        return (
            gain > self.settings.evidence and timings.falls(timings.best) < self.settings.least_fall
        )

    def drifts(self, timings: TimingFound) -> bool:
        """Return whether the torque's delay grows, in the logs and in each half of them.

        What friction leaves of a slow motion asks for a delay of its own in each half.
        """
        settings, drifting = self.settings, timings.drifting.correction
        gain = timings.late.objective - timings.drifting.objective
        if not (gain > settings.evidence and abs(drifting.timing.drift) > settings.drift):
            return False
        for half in self.hypotheses.evidence.halves():
            hypotheses = Hypotheses(half)
            own = hypotheses.settle(drifting, common=False)
            even = replace(drifting, timing=replace(drifting.timing, drift=0.0))
            gain = hypotheses.fit(even, own).objective - own.objective
            if not gain > 0.5 * settings.evidence:
                return False
        return True

    def _searched(self, still: Fit) -> TimingFound:
        settings = self.settings
        delays = [self._at(still, Timing(d)) for d in settings.delays_s]
        late = min([still, *delays], key=_objective)
        late = self._narrowed(late, "delay", settings.delay_step_s)
        drifts = [self._at(late, replace(late.correction.timing, drift=d)) for d in settings.drifts]
        drifting = min([late, *drifts], key=_objective)
        if drifting is not late:
            for _ in range(2):
                drifting = self._narrowed(drifting, "drift", settings.drift_step)
                drifting = self._narrowed(drifting, "delay", settings.delay_step_s)
        filtered = self._filtered(still, late)
        return TimingFound(still, late, drifting, filtered)

    def _filtered(self, still: Fit, late: Fit) -> Fit:
        """Return the low-pass of the torque that explains a log best.

        Low-passes begin where they delay slow motion as much as the best delay. What undoes them
        raises the noise above their cutoff, so they are compared with the delay without what is
        far above it, and what they gain there is what they gain here.
        """
        delay = late.correction.timing.delay
        if delay < self.settings.shortest_lag_s:
            return still
        tried = []
        for order, slow in ((1, 1.0), (2, np.sqrt(2.0))):
            corner = float(slow / delay / TURN)
            blurred = self._blurred(self.settings.band * corner)
            at = blurred.hypotheses.fit(late.correction, late)
            first = blurred._at(at, Timing(0.0, 0.0, order, corner))
            best = blurred._narrowed(first, "corner", self.settings.corner_step)
            tried.append((best.objective - at.objective, best, at))
        gain, best, at = min(tried, key=lambda t: t[0])
        sigma = late.sigma * best.sigma / at.sigma
        return replace(best, objective=late.objective + gain, sigma=sigma)

    def _blurred(self, corner: float) -> Timings:
        evidence = self.hypotheses.evidence
        if corner >= evidence.corner:
            return self
        hypotheses = Hypotheses(evidence.blurred(corner))
        hypotheses.memory = self.hypotheses.memory
        return Timings(hypotheses, self.settings)

    def _at(self, fit: Fit, timing: Timing) -> Fit:
        return self.hypotheses.fit(replace(fit.correction, timing=timing), fit)

    def _narrowed(self, fit: Fit, what: str, step: float) -> Fit:
        """Return the fit with one number of its timing refined by a line search."""

        def moved(timing: Timing, by: float) -> Timing:
            value = getattr(timing, what)
            new: dict[str, Any] = {
                what: float(value * np.exp(by) if what == "corner" else value + by)
            }
            return replace(timing, **new)

        start, count = (fit.correction.timing, fit), self.settings.narrowings
        return narrowed(start, moved, lambda timing, at: self._at(at, timing), step, count)[1]


def narrowed(
    best: tuple[T, Fit],
    moved: Callable[[T, float], T],
    fitted: Callable[[T, Fit], Fit],
    width: float,
    count: int,
) -> tuple[T, Fit]:
    """Return a hypothesis with one number refined by comparisons with one on each side.

    Args:
        moved: Returns the hypothesis with its number changed.
        fitted: Returns its fit, from one nearby.
        width: By which the number is changed first.
        count: Number of comparisons; where neither side is better, the next are nearer.
    """
    for _ in range(count):
        around = [(x, fitted(x, best[1])) for x in (moved(best[0], -width), moved(best[0], width))]
        nearest = min(around, key=lambda pair: pair[1].objective)
        if nearest[1].objective < best[1].objective:
            best = nearest
        else:
            width *= 0.4  # neither side is better: the next are nearer
    return best


def _objective(fit: Fit) -> float:
    return fit.objective


@dataclass(frozen=True)
class ToolFound:
    """Mass beyond the model file's at the end of a chain."""

    body: int  # index of the last body
    mass: float  # mass beyond the model file's [kg]
    evidence: float  # 2 ln of the odds that the last body is another one than the file says
    strain: float  # distance of the last body from the file over the median of all others


def tool(hypotheses: Hypotheses, fit: Fit, thresholds: LoadThresholds) -> ToolFound | None:
    """Return the load of the last body beyond the model file; None if it is not significant.

    The other bodies say how far off such a file is. A tool shows in the last one alone, which is
    far heavier than that.
    """
    last = last_body(hypotheses, thresholds)
    if last is None:
        return None
    unknowns, measured = hypotheses.unknowns, measured_bodies(hypotheses)
    plain = replace(fit.correction, carrying=None)
    fit = hypotheses.fit(plain, fit)
    freed = hypotheses.fit(replace(plain, carrying=last), fit)
    far = hypotheses.far(hypotheses.ridge(plain), fit.values)
    others = np.delete(far, last)[np.delete(measured, last)]
    file, freed_mass = (_mass(hypotheses, u, last) for u in (unknowns.start, freed.values))
    moving = sum(_mass(hypotheses, unknowns.start, int(b)) for b in np.flatnonzero(measured))
    made = ToolFound(
        last,
        freed_mass - file,
        fit.objective - freed.objective,
        far[last] / max(float(np.median(others)), 1.0),
    )
    # F(2, 2k): that of k + 1 bodies which are off alike the last one is as far from the others
    chance = (1.0 + made.strain / len(others)) ** -len(others)
    is_sure = (
        made.evidence > thresholds.evidence
        and chance < thresholds.chance
        and made.mass > thresholds.share * file
        and made.mass > thresholds.moving_share * moving
    )
    return made if is_sure else None


def last_body(hypotheses: Hypotheses, thresholds: LoadThresholds) -> int | None:
    """Return the index of the deepest body; None if it is not alone or too few are measured."""
    tree, measured = hypotheses.evidence.robot.tree, measured_bodies(hypotheses)
    depth = np.where(measured, tree.ancestry.sum(axis=0), 0)
    alone = np.sum(depth == depth.max()) == 1 and np.sum(measured) >= thresholds.least_bodies
    return int(np.argmax(depth)) if alone else None


def measured_bodies(hypotheses: Hypotheses) -> NDArray[np.bool_]:
    """Return which bodies act on a measured joint, shape (bodies,)."""
    evidence = hypotheses.evidence
    return np.asarray(evidence.robot.tree.ancestry[list(evidence.channels)].any(axis=0))


def _mass(hypotheses: Hypotheses, values: Array, body: int) -> float:
    return float(hypotheses.unknowns.parameters(values)[PARAMETER_COUNT * body])


def friction_shares(hypotheses: Hypotheses, fit: Fit) -> Array:
    """Return rms friction and rotor torque over the torque's standard deviation, (channels,)."""
    evidence, unknowns = hypotheses.evidence, hypotheses.unknowns
    rows, shares = hypotheses.rows(fit.correction), []
    for k, channel in enumerate(evidence.channels):
        at = rows.columns[k]
        # Offsets are the last terms of drives; a torque sensor has one without any friction.
        term = (at - unknowns.bodies) % unknowns.terms
        own = (at >= unknowns.bodies) & (at < unknowns.own.start) & (term != unknowns.terms - 1)
        rubbing = fit.values[at[own]] @ rows.regressors[k][own]
        source = fit.correction.tau_source[channel]
        size = abs(fit.correction.tau_scale[channel]) * evidence.effort_size[source]
        shares.append(np.sqrt(np.mean(rubbing**2)) / max(size, 1e-12))
    return np.array(shares)


@dataclass(frozen=True)
class StepEvidence:
    """An accepted step, with its evidence."""

    step: CorrectionStep  # the step
    evidence: float  # 2 ln of the odds for it, given all others
    # before, after: relative torque residual without and with it, of the channel where it falls
    # most
    before: float
    after: float
    channel: str  # index of that channel
    # alternative steps that explain the torque as well, each with how much less evidence it has
    others: tuple[tuple[CorrectionStep, float], ...]


@dataclass(frozen=True)
class Explained:
    """Result of a search for corrections."""

    # accepted steps with their evidence, in the order of application
    steps: tuple[StepEvidence, ...]
    correction: Correction  # all of them combined
    unit: float  # factor of all torques in it, by the file's masses
    unexplained: Array  # relative residual of each measured channel's torque, shape (channels,)
    total: float  # relative residual of all channels together
    total_before: float  # the same without the steps
    rows: Array  # effective number of samples of each channel, shape (channels,)


class Pace:
    """Time budget and progress messages of a search.

    Attributes:
        longest_s: Time after which no more hypotheses are tried [s].
        tried: Number of hypotheses that were tried.
        was_cut: Whether a search asked for more time than there was.
    """

    def __init__(
        self,
        longest_s: float,
        every_s: float = 10.0,
        progress: Progress = silent,
        stop: threading.Event | None = None,
    ) -> None:
        """Start the clock; progress is told at intervals [s], and `stop` ends the search early."""
        self.longest_s, self.tried, self.was_cut = longest_s, 0, False
        self._every_s, self._progress = every_s, progress
        self._stop = stop or threading.Event()
        self._begin = self._said = time.monotonic()

    def is_over(self) -> bool:
        """Return whether no more hypotheses are to be tried, and note that the search was cut."""
        self.was_cut |= self.is_stopped or time.monotonic() - self._begin > self.longest_s
        return self.was_cut

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the search."""
        return self._stop.is_set()

    def count(self, at: int, of: int, what: str) -> None:
        """Count a hypothesis that was tried, and report progress at intervals."""
        self.tried += 1
        now = time.monotonic()
        if now - self._said > self._every_s:
            self._said = now
            self._progress(f"{at} of {of} {what} tried, {now - self._begin:.0f} s")
