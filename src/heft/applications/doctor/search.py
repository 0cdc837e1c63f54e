"""Greedy search over corrections under which the robot model explains a log.

The single correction with the strongest evidence is applied, and the search goes on, up to
`most_steps` of them; then each is left out in turn, and stays only if it is needed. Where the
result does not explain the log, other first steps are tried. Corrections that no motion can
distinguish (two corrections of a symmetric arm, an offset of the last joint against the centre of
mass of its load) have no evidence: none is claimed, or both are reported. All of this at the
bandwidth of the least residual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .corrections import Correction, CorrectionStep, ScalarStep, combined
from .evidence import Evidence
from .hypotheses import Fit, Hypotheses
from .judging import Explained, Judge
from .loads import tool
from .pace import Pace
from .proposals import Proposals
from .settings import CorrectionSearch, LoadThresholds, TimingSearch
from .steps import CompensatedFriction, steps_between
from .timings import TimingFound, Timings

BETTER = 0.1  # evidence that a refinement must gain to be gone on with
NARROWER = 0.4  # by which a comparison with both sides narrows where neither is better

Tried = tuple[CorrectionStep, Fit]


class Search:
    """State of one search: steps are proposed, refined and followed up."""

    def __init__(
        self, evidence: Evidence, settings: CorrectionSearch, pace: Pace | None = None
    ) -> None:
        self.settings = settings
        self.pace = pace or Pace(settings.longest_s)
        self.hypotheses = Hypotheses(evidence)
        self.proposals = Proposals(self.hypotheses, settings.proposals)
        self.judge = Judge(self.hypotheses, self.proposals, settings.acceptance)

    def refined(self, step: CorrectionStep, base: Correction, fit: Fit) -> Tried:
        """Return a step with its parameter refined, and its fit."""
        if isinstance(step, ScalarStep) and step.width:
            return self._by_comparison(step, base, fit)
        if step.is_expandable:
            return self._by_first_order(step, base, fit)
        return step, fit

    def _by_first_order(self, step: CorrectionStep, base: Correction, fit: Fit) -> Tried:
        for _ in range(self.settings.refinements):
            small = self.proposals.small(fit)
            pairs = ((step.followed_by(s), s) for s in small)
            better, further = next((p for p in pairs if p[0] is not None), (None, step))
            if better is None:
                break
            found = self.hypotheses.fit(better.apply(base), fit.sigma)
            if not found.objective < fit.objective - BETTER:
                if abs(further.number) > self.settings.unsettled_rad:
                    fit = replace(fit, settled=False)
                break
            step, fit = better, found
        return step, fit

    def _by_comparison(self, step: ScalarStep, base: Correction, fit: Fit) -> Tried:
        width = step.width
        for _ in range(self.settings.narrowings):
            around = []
            for side in (-width, width):
                other = step.moved(side)
                around.append((other, self.hypotheses.fit(other.apply(base), fit.sigma)))
            best = min(around, key=lambda pair: pair[1].objective)
            if best[1].objective < fit.objective:
                step, fit = best
            else:
                width *= NARROWER
        return step, fit

    def next(self, best: Fit) -> list[Tried]:
        """Return refined candidate steps, in order of decreasing evidence."""
        base = best.correction
        tried = self._tried(best)
        common = best.objective - self.settings.look_evidence

        def order(tried: Tried) -> tuple[bool, float]:
            """Sort key: one unit for all is likelier than many joints of which each is off."""
            step, fit = tried
            return not (step.is_unit and fit.objective < common), fit.objective

        leading: dict[tuple[str, tuple[int, ...]], Tried] = {}
        for step, fit in sorted(tried, key=order):
            key = (step.kind, step.joints)
            if isinstance(step, CompensatedFriction) and not self.judge.is_seen(step, fit):
                continue
            if len(leading) < self.settings.refined_steps and key not in leading:
                leading[key] = self.refined(step, base, fit)
        least = self.settings.acceptance
        found = [(s, f) for s, f in leading.values() if f.settled and s.is_large(least, base)]
        return sorted(found, key=order)

    def _tried(self, best: Fit) -> list[Tried]:
        if self.pace.is_over():
            return []
        proposed = (*self.proposals.steps(best), *self.proposals.small(best))
        suspects = self._suspects(best)
        chosen = [step for step in proposed if suspects.issuperset(step.joints)]
        tried: list[Tried] = []
        hopeless = best.objective + self.settings.hopeless_evidence
        for step in chosen:
            if self.pace.is_over():
                break
            corrected = step.apply(best.correction)
            tried.append((step, self.hypotheses.fit(corrected, best.sigma, hopeless=hopeless)))
            self.pace.count(len(tried), len(chosen), "corrections")
        return tried

    def _suspects(self, best: Fit) -> set[int]:
        """Return the joints explained worst, of which single ones and pairs are tried.

        Of many joints not all: pairs grow with their square, and what is wrong with a joint
        shows in its own torque.
        """
        evidence = self.hypotheses.evidence
        joints = range(len(evidence.robot.joints))
        unexplained = np.zeros(len(joints))
        sources = [best.correction.tau_source[c] for c in evidence.channels]
        size = np.maximum(evidence.effort_size, 1e-12)[sources]
        unexplained[list(evidence.channels)] = best.sigma / size
        return set(sorted(joints, key=lambda k: -unexplained[k])[: self.settings.suspects])

    def followed(self, start: Correction, best: Fit, first: list[Tried]) -> Explained:
        """Return the accepted steps of the search that begins with the given candidates."""
        reached = self._descended(best, first)
        unit_log_gain = self.settings.proposals.unit_log_gain
        steps = steps_between(start, reached, unit_log_gain)
        return self.judge.concluded(start, self._polished(start, steps))

    def _descended(self, best: Fit, first: list[Tried]) -> Correction:
        """Return the correction that greedy steps of strongest evidence reach from candidates."""
        candidates = first
        for _ in range(self.settings.most_steps):
            if not self.leads(candidates, best):
                break
            best = self.hypotheses.settle(candidates[0][1].correction)
            candidates = self.next(best)
        return best.correction

    def leads(self, candidates: Sequence[Tried], best: Fit) -> bool:
        """Return whether the first of the candidates has enough evidence to be followed up."""
        least = best.objective - self.settings.look_evidence
        return bool(candidates) and candidates[0][1].objective <= least

    def _polished(
        self, start: Correction, steps: Sequence[CorrectionStep]
    ) -> tuple[CorrectionStep, ...]:
        """Return the steps, each with its parameter refined given all the others."""
        kept = list(steps)
        best = self.hypotheses.settle(combined(start, kept))
        for k, step in enumerate(steps if len(steps) > 1 else ()):
            base = combined(start, [s for j, s in enumerate(kept) if j != k])
            fit = self.hypotheses.fit(step.apply(base), best.sigma)
            better, found = self.refined(step, base, fit)
            if found.settled:
                kept[k] = better
        return tuple(kept)


def at_best_bandwidth(
    evidence: Evidence, correction: Correction, settings: TimingSearch
) -> Evidence:
    """Return evidence low-passed at the bandwidth of the least residual.

    A log at rest for much of its time has a bandwidth, by its own spectrum, at which the encoders'
    noise is most of the acceleration. What that leaves of the torque is no fault of the log's, and
    it hides those that there are. The rule is the identification's own (`BandwidthSearch`).

    A fault that makes up most of the residual hides what bandwidth is best, so ask again with it
    corrected. How the torque lies to the motion in time is taken along: a torque without upper
    frequencies would ask for a motion without them.

    Args:
        evidence: At the bandwidth of the motion.
        correction: Applied before bandwidths are compared.
    """
    timings = Timings(Hypotheses(evidence), settings)
    timing = timings.found(correction)
    if timings.hides(timing):
        correction = timing.best.correction
    initial = Hypotheses(evidence).settle(correction, common=False).sigma

    def look(octaves: float) -> float:
        """Return the residual variance with the motion alone low-passed, over that without."""
        motion = evidence.blurred(evidence.corner * 2.0**octaves)
        pairs = zip(motion.stretches, evidence.stretches, strict=True)
        mixed = replace(motion, stretches=tuple(replace(m, effort=s.effort) for m, s in pairs))
        left = Hypotheses(mixed).settle(correction, common=False).sigma
        return float(np.exp(2.0 * np.mean(np.log(left / initial))))

    factor = evidence.settings.bandwidth.searched(look)
    return evidence.blurred(factor * evidence.corner) if factor < 1.0 else evidence


def explain(
    evidence: Evidence,
    settings: CorrectionSearch | None = None,
    pace: Pace | None = None,
    loads: LoadThresholds | None = None,
) -> tuple[Explained, TimingFound]:
    """Search for the corrections of logs under which the robot model explains the torque.

    How the torque lies to the motion in time is looked for before, so that it hides nothing, and
    again where columns were corrected.

    Args:
        pace: Time budget and progress messages; those of the settings if None.
        loads: Thresholds of a tool that the model file lacks; the defaults if None.

    Returns:
        The corrections, and the timings that explain the corrected log.
    """
    settings, loads = settings or CorrectionSearch(), loads or LoadThresholds()
    search = Search(evidence, settings, pace)
    timings = Timings(search.hypotheses, settings.timing)
    start = Correction.none(evidence.robot)
    timing = timings.found(start)
    if timings.hides(timing):
        start = timing.best.correction
    found = tool(search.hypotheses, search.hypotheses.settle(start, common=False), loads)
    if found is not None:  # what it explains is no other fault's
        start = replace(start, carrying=found.body)
    best = _searched(search, start)
    if best.steps:
        timing = timings.found(best.correction)
    return best, timing


def _searched(search: Search, start: Correction) -> Explained:
    settings, hypotheses = search.settings, search.hypotheses
    still = hypotheses.settle(start)
    first = search.next(still)
    if not search.leads(first, still):
        return search.judge.concluded(start, ())
    found: list[Explained] = []
    for k in range(min(settings.beginnings, len(first))):
        found.append(search.followed(start, hypotheses.settle(start), first[k : k + 1]))
        if _is_plain(found[-1], settings) or search.pace.is_over():
            break
    best = min(found, key=lambda f: _left(f, settings))
    for _ in range(settings.looks_again if best.steps else 0):  # what was hidden behind it
        if search.pace.is_over():
            break
        mended = hypotheses.settle(best.correction)
        further = search.followed(start, mended, search.next(mended))
        if _left(further, settings) >= _left(best, settings) - settings.step_log_gain:
            break
        best = further
    return best


def _is_plain(found: Explained, settings: CorrectionSearch) -> bool:
    least = min((s.evidence for s in found.steps), default=0.0)
    return found.total < settings.explained_share and least > settings.plain_evidence


def _left(found: Explained, settings: CorrectionSearch) -> float:
    """Return the mean logarithm of the relative residuals, with a penalty for each step."""
    left = float(np.mean(np.log(found.unexplained)))
    return left + settings.step_log_gain * len(found.steps)
