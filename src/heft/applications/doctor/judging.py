"""Acceptance of correction steps: each by its own evidence, given all the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from heft.arrays import Array

from .corrections import Columns, Correction, CorrectionStep, combined
from .hypotheses import Fit, Hypotheses
from .proposals import Proposals
from .settings import StepAcceptance
from .steps import CompensatedFriction, Gravity, PositionOffset, SignFlip, Swap

COLUMNS: tuple[Columns, ...] = ("q", "tau", "both")


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
    unexplained: Array  # relative residual of each measured channel's torque, shape (channels,)
    total: float  # relative residual of all channels together
    total_before: float  # the same without the steps
    rows: Array  # effective number of samples of each channel, shape (channels,)


@dataclass(frozen=True)
class Judge:
    """Acceptance test of steps, by evidence and by practical size."""

    hypotheses: Hypotheses  # fits that are compared
    proposals: Proposals  # candidate steps, among which a small one's rivals are
    least: StepAcceptance  # thresholds of acceptance

    def concluded(self, start: Correction, steps: Sequence[CorrectionStep]) -> Explained:
        """Return the steps that are needed, each tested given all the others."""
        kept = list(steps)
        while True:
            best = self.hypotheses.settle(combined(start, kept), common=False)
            without = [
                self.hypotheses.fit(combined(start, [s for s in kept if s is not step]))
                for step in kept
            ]
            rivals = [
                min(fit.objective, self._unbound(start, kept, step))
                for step, fit in zip(kept, without, strict=True)
            ]
            gains = [rival - best.objective for rival in rivals]
            weak = [
                k
                for k, step in enumerate(kept)
                if gains[k] < self.least_evidence(step, without[k].correction)
                or not self.is_worth(step, without[k], best)
            ]
            if not weak:
                return self._explained(start, kept, without, best)
            kept.pop(min(weak, key=lambda k: gains[k]))

    def _unbound(
        self, start: Correction, steps: Sequence[CorrectionStep], step: CorrectionStep
    ) -> float:
        """Return J with the torque of a step's joint so small that the bodies do not constrain it.

        A gain next to nothing lets a joint's torque be any sum of the bodies' columns, which
        takes up what its friction leaves. A gain that is there is asked for by their size.
        """
        free = step.unbound()
        if free is None:
            return np.inf
        others = [free if s is step else s for s in steps]
        return self.hypotheses.fit(combined(start, others)).objective

    def _explained(
        self,
        start: Correction,
        steps: Sequence[CorrectionStep],
        without: Sequence[Fit],
        best: Fit,
    ) -> Explained:
        evidence = self.hypotheses.evidence
        sources = [best.correction.tau_source[c] for c in evidence.channels]
        size = np.maximum(evidence.effort_size, 1e-12)[sources]
        found = []
        for step, fit in zip(steps, without, strict=True):
            k = int(np.argmin(best.sigma / fit.sigma))
            found.append(
                StepEvidence(
                    step,
                    float(fit.objective - best.objective),
                    float(fit.sigma[k] / size[k]),
                    float(best.sigma[k] / size[k]),
                    evidence.robot.joints[evidence.channels[k]],
                    tuple(self._rivals(step, fit, best)),
                )
            )
        before = self.hypotheses.fit(start).sigma if steps else best.sigma
        return Explained(
            tuple(found),
            best.correction,
            np.asarray(best.sigma / size),
            float(np.sqrt(np.sum(best.sigma**2) / np.sum(size**2))),
            float(np.sqrt(np.sum(before**2) / np.sum(size**2))),
            evidence.count / self.hypotheses.memory,
        )

    def is_worth(self, step: CorrectionStep, before: Fit, after: Fit) -> bool:
        """Return whether a step is large enough to matter in practice."""
        least, falls = self.least, after.sigma / before.sigma
        harm, gain = np.log(falls.max()), -np.log(falls.min())
        harmful = harm > np.log(least.harm_ratio) and harm > least.harm_share * gain
        if step.is_continuous and harmful:
            return False  # what is wrong in one place explains nothing worse in another
        if not step.is_large(least, before.correction):
            return False
        if self.is_small(step, before.correction):
            return self._lasts(step, before)
        if isinstance(step, CompensatedFriction) and not self.is_seen(step, after):
            return False
        return step.is_factor or float(falls.min()) < least.residual_ratio

    def _lasts(self, step: PositionOffset | Gravity, without: Fit) -> bool:
        """Return whether each half of the logs asks for the same offset or tilt.

        What sticks holds torques that a zero or a tilt can explain, other ones in each half.
        """
        for half in self.hypotheses.evidence.halves():
            hypotheses = Hypotheses(half)
            still = hypotheses.settle(without.correction, common=False)
            small = Proposals(hypotheses, self.proposals.settings).small(still)
            shares = (
                s.share_of(step, without.correction)
                for s in small
                if isinstance(s, PositionOffset | Gravity)
                and (s.kind, s.joints) == (step.kind, step.joints)
            )
            share = next(shares, 0.0)
            if not 1.0 - self.least.half_differs < share < 1.0 + self.least.half_differs:
                return False
        return True

    def is_seen(self, step: CompensatedFriction, fit: Fit) -> bool:
        """Return whether the friction that a fit finds pushes along the motion."""
        unknowns = self.hypotheses.unknowns
        _, v, _ = self.hypotheses.evidence.motion(fit.correction)
        # Slow sliding, where viscous friction does not hide that the rest of it pushes.
        slow = np.quantile(np.abs(v), self.least.slow_share, axis=0)
        speed = np.array([np.abs(d.ratio) @ slow for d in unknowns.rubbing])
        return step.is_seen(unknowns.sliding(fit.values, speed))

    def least_evidence(self, step: CorrectionStep, base: Correction) -> float:
        """Return the evidence that a step must have, given all others."""
        small = self.is_small(step, base)
        return self.least.small_evidence if small else self.least.evidence

    def is_small(
        self, step: CorrectionStep, base: Correction
    ) -> TypeGuard[PositionOffset | Gravity]:
        """Return whether a step is an offset or a tilt small enough for a first-order expansion."""
        if not isinstance(step, PositionOffset | Gravity) or not step.is_expandable:
            return False
        return any(base.gravity) and step.angle(base) < self.least.small_rad

    def _rivals(
        self, step: CorrectionStep, without: Fit, best: Fit
    ) -> Iterator[tuple[CorrectionStep, float]]:
        """Yield steps of the same kind that explain the torque as well, with their excess of J."""
        if isinstance(step, PositionOffset | Gravity):
            yield from self._small_rivals(step, without, best)
        live = set(self.hypotheses.evidence.channels)
        for other in _alike(step):
            dead = other.kind != "q sign" and not live >= set(other.joints)
            if other == step or dead:
                continue
            fit = self.hypotheses.fit(other.apply(without.correction), best.sigma)
            apart = float(fit.objective - best.objective)
            if apart < self.least.indistinguishable:
                yield other, apart

    def _small_rivals(
        self, step: CorrectionStep, without: Fit, best: Fit
    ) -> Iterator[tuple[CorrectionStep, float]]:
        """Yield offsets and tilts that explain the torque as well, each with its excess of J."""
        for other in self.proposals.small(replace(without, sigma=best.sigma)):
            if (other.kind, other.joints) == (step.kind, step.joints):
                continue
            fit = self.hypotheses.fit(other.apply(without.correction), best.sigma)
            apart = float(fit.objective - best.objective)
            if apart < self.least.indistinguishable and other.is_large(
                self.least, without.correction
            ):
                yield other, apart


def _alike(step: CorrectionStep) -> Iterator[CorrectionStep]:
    """Yield sign flips and swaps of the same joints: a symmetric arm takes one for another."""
    if not isinstance(step, SignFlip | Swap):
        return
    pair = len(step.joints) == 2
    for of in COLUMNS:
        for joints in [(j,) for j in step.joints] if pair else [step.joints]:
            yield SignFlip(joints, of)
    if len(step.joints) >= 2:
        yield from (Swap(step.joints, of) for of in COLUMNS)
