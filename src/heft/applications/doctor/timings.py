"""Search for how the torque lies to the motion in time: delay, drifting clocks, a low-pass.

A delay that fits best is no finding: friction that the model does not know looks like one in every
joint. It is taken along so that it hides nothing else, and only the identification's own rule
(`DelaySearch`) says whether there is one. A delay that grows, alike in each half of the logs, and a
torque that lacks its upper frequencies, are nothing that friction imitates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .corrections import IN_TIME, Correction, Timing
from .hypotheses import Fit, Hypotheses
from .settings import TURN, TimingSearch


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

    def found(self, correction: Correction) -> TimingFound:
        """Return the fits of the timings that explain a corrected log best."""
        plain = replace(correction, timing=IN_TIME)
        best = self._found(self.hypotheses.settle(plain, common=False))
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

    def hides(self, found: TimingFound) -> bool:
        """Return whether a timing is to be corrected before other corrections are sought."""
        gain = found.still.objective - found.best.objective
        return gain > self.settings.evidence and found.falls(found.best) < self.settings.least_fall

    def drifts(self, found: TimingFound) -> bool:
        """Return whether the torque's delay grows, in the logs and in each half of them.

        What friction leaves of a slow motion asks for a delay of its own in each half.
        """
        settings, drifting = self.settings, found.drifting.correction
        gain = found.late.objective - found.drifting.objective
        if not (gain > settings.evidence and abs(drifting.timing.drift) > settings.drift):
            return False
        for half in self.hypotheses.evidence.halves():
            hypotheses = Hypotheses(half)
            own = hypotheses.settle(drifting, common=False)
            even = replace(drifting, timing=replace(drifting.timing, drift=0.0))
            gain = hypotheses.fit(even, own.sigma).objective - own.objective
            if not gain > 0.5 * settings.evidence:
                return False
        return True

    def _found(self, still: Fit) -> TimingFound:
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
            at = blurred.hypotheses.fit(late.correction, late.sigma)
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
        return self.hypotheses.fit(replace(fit.correction, timing=timing), fit.sigma)

    def _narrowed(self, fit: Fit, what: str, step: float) -> Fit:
        """Return the fit with one number of its timing refined by a line search."""
        for _ in range(self.settings.narrowings):
            timing, around = fit.correction.timing, []
            for side in (-step, step):
                value = getattr(timing, what)
                moved = value * np.exp(side) if what == "corner" else value + side
                changed: dict[str, Any] = {what: float(moved)}
                around.append(self._at(fit, replace(timing, **changed)))
            better = min(around, key=_objective)
            if better.objective < fit.objective:
                fit = better
            else:
                step *= 0.4
        return fit


def _objective(fit: Fit) -> float:
    return fit.objective
