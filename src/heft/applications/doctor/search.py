"""Greedy search over corrections under which the robot model explains a log.

The single correction with the strongest evidence is applied, and the search goes on, up to
`most_steps` of them; then each is left out in turn, and stays only if it is needed. Where the
result does not explain the log, other first steps are tried. Corrections that no motion can
distinguish (two corrections of a symmetric arm, an offset of the last joint against the centre of
mass of its load) have no evidence: none is claimed, or both are reported. All of this at the
bandwidth of the least residual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeGuard

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from heft.arrays import Array
from heft.dynamics import kernels
from heft.fit import torque_over_file
from heft.information import PARAMETER_COUNT

from .corrections import (
    IN_TIME,
    TORQUE_UNITS,
    Columns,
    CompensatedFriction,
    Correction,
    CorrectionStep,
    Gravity,
    PositionOffset,
    PositionScale,
    PositionUnit,
    ScalarStep,
    SignFlip,
    Swap,
    TorqueGain,
    combined,
    steps_between,
)
from .evidence import Evidence
from .hypotheses import (
    Explained,
    Fit,
    Hypotheses,
    Pace,
    StepEvidence,
    TimingFound,
    Timings,
    narrowed,
    tool,
)
from .settings import (
    DEFAULTS,
    DEGREE,
    TURN,
    CorrectionSearch,
    LoadThresholds,
    StepAcceptance,
    StepProposals,
    TimingSearch,
)

COLUMNS: tuple[Columns, ...] = ("q", "tau", "both")
BETTER = 0.1  # evidence that a refinement must gain to be gone on with

Tried = tuple[CorrectionStep, Fit]


@dataclass(frozen=True)
class Proposals:
    """Candidate steps from the present correction of a search."""

    hypotheses: Hypotheses  # fits that are compared
    settings: StepProposals  # lists and ranges of the candidates

    def steps(self, best: Fit) -> Iterator[CorrectionStep]:
        """Yield candidate steps; those that share a motion are consecutive."""
        evidence = self.hypotheses.evidence
        moving, revolute = evidence.revolute_joints()
        yield from self._of_torque(best, evidence.channels)
        yield from self._of_joints(moving, set(evidence.channels))
        yield from self._of_positions(best, revolute)
        weight = float(np.linalg.norm(evidence.robot.gravity))
        for vector in (*np.eye(3), *-np.eye(3), np.zeros(3)):
            x, y, z = (float(weight * c) for c in vector)
            yield Gravity((), (x, y, z))
        if len(best.correction.driven) < len(moving):
            yield CompensatedFriction()
            yield from (CompensatedFriction((j,)) for j in moving)

    def _of_torque(self, best: Fit, measured: Sequence[int]) -> Iterator[CorrectionStep]:
        yield from (SignFlip((j,), "tau") for j in measured)
        yield SignFlip((), "tau")
        yield from (Swap((i, j), "tau") for i in measured for j in measured if i < j)
        gains = 1.0 / torque_over_file_of(self.hypotheses, best, self.settings.file_explains)[0]
        common = np.median(gains)
        yield TorqueGain(tuple(measured), tuple(float(x / common) for x in gains))
        if len(measured) > 1:
            even = TorqueGain(tuple(measured), (1.0,) * len(measured))
            yield self.followed_gain(even, best)[0]
        yield from (
            TorqueGain((j,), (float(x / common),)) for j, x in zip(measured, gains, strict=True)
        )

    def _of_joints(self, moving: Sequence[int], live: set[int]) -> Iterator[CorrectionStep]:
        """Yield sign flips and swaps; torque that does not vary would fit anywhere."""
        for joints in (*((j,) for j in moving), ()):
            yield SignFlip(joints, "q")
            if live >= set(joints):
                yield SignFlip(joints, "both")
        for pair in ((i, j) for i in moving for j in moving if i < j):
            yield Swap(pair, "q")
            if live >= set(pair):
                yield Swap(pair, "both")

    def _of_positions(self, best: Fit, revolute: Sequence[int]) -> Iterator[CorrectionStep]:
        settings = self.settings
        q, _, _ = self.hypotheses.evidence.motion(best.correction)
        turns = np.ptp(q, axis=0) / TURN
        wide = sum(turns[j] > settings.largest_turns for j in revolute)
        if wide > settings.degrees_share * len(revolute):
            yield PositionUnit((), DEGREE)
        if revolute and max(turns[j] for j in revolute) < settings.smallest_turns:
            yield PositionUnit((), 1.0 / DEGREE)
            yield PositionUnit((), TURN)
        for j in revolute:
            if turns[j] > settings.largest_turns:
                least = settings.least_turns
                ratios = (1.0 / r for r in settings.gear_ratios if turns[j] / r > least)
                for scale in (DEGREE, *ratios):
                    yield PositionScale((j,), scale)
                    yield PositionScale((j,), -scale)
                continue
            if turns[j] < settings.smallest_turns:
                yield PositionScale((j,), 1.0 / DEGREE)
            yield PositionScale((j,), 0.5)
            yield PositionScale((j,), 2.0)
            yield from (PositionOffset((j,), offset) for offset in settings.offsets_rad)

    def followed_gain(self, step: TorqueGain, fit: Fit) -> tuple[TorqueGain, Array]:
        """Return gains moved by the residual's first order, and what tells their logarithms, (k,).

        The torque that a fit finds for a joint is what its gain scales, with no noise in it; where
        a motion does not tell a gain, it is about that of the others.
        """
        hypotheses, channels = self.hypotheses, list(self.hypotheses.evidence.channels)
        rows, effects = hypotheses.rows(fit.correction), []
        for j in step.joints:
            k = channels.index(j)
            effect = np.zeros((len(channels), hypotheses.evidence.count))
            effect[k] = fit.values[rows.columns[k]] @ rows.regressors[k]
            effects.append(effect)
        normal, right = self._alone(fit, effects)
        logs, roots = np.log(step.values), np.eye(len(right)) / self.settings.gain_deviation
        centre = logs - np.median(logs) if len(logs) > 1 else logs
        by = np.linalg.solve(normal + roots.T @ roots, right + roots.T @ (roots @ centre))
        most = self.settings.most_log_gain
        by -= np.median(by) if len(logs) > 1 else 0.0  # the scale of all is the file's
        moved = logs - np.clip(by, -most, most)
        return replace(step, values=tuple(float(x) for x in np.exp(moved))), np.diag(normal)

    def small(
        self, best: Fit, like: PositionOffset | Gravity | None = None
    ) -> Iterator[CorrectionStep]:
        """Yield offsets, scales and a tilt, estimated from the residual to first order.

        Args:
            like: Step whose kind, at whose place, is all that is wanted.
        """
        evidence, step = self.hypotheses.evidence, self.settings.derivative_step_rad
        q, v, a = evidence.motion(best.correction)
        tree, gravity = evidence.robot.tree, np.array(best.correction.gravity)
        bodies = evidence.unknowns.parameters(best.values)
        beyond = np.repeat(tree.ancestry, PARAMETER_COUNT, axis=1)

        def torque(
            down: Array,
            shift: float | Array = 0.0,
            scale: float | Array = 1.0,
            of: int | None = None,
        ) -> Array:
            motion = kernels.motion_of(tree, down, q * scale + shift, v * scale, a * scale)
            carried = bodies if of is None else bodies * beyond[of]  # others' do not change
            return kernels.inverse_dynamics(tree, motion, carried)[list(evidence.channels)]

        moving, joints = evidence.revolute_joints()
        if like is not None:
            moving, joints = [], [k for k in joints if like.joints == (k,)]
        effects = []
        for k in joints:
            shift = step * np.eye(q.shape[1])[k]
            apart = torque(gravity, shift, of=k) - torque(gravity, -shift, of=k)
            effects.append(apart / (2.0 * step))
        for k in moving:
            by = step * np.eye(q.shape[1])[k]
            rise = torque(gravity, 0.0, 1.0 + by, k) - torque(gravity, 0.0, 1.0 - by, k)
            effects.append(rise / (2.0 * step))
        sizes = self._sizes(best, effects) if effects else np.zeros(0)
        largest = self.settings.largest_shift_rad
        for k, size in zip(joints, sizes[: len(joints)], strict=True):
            yield PositionOffset((k,), float(np.clip(size, -largest, largest)))
        for k, size in zip(moving, sizes[len(joints) :], strict=True):
            yield PositionScale((k,), float(np.exp(np.clip(size, -largest, largest))))
        if not np.linalg.norm(gravity) or isinstance(like, PositionOffset):
            return
        across = np.linalg.svd(gravity[None])[2][1:]
        level, zero = [torque(gravity + step * d) for d in across], torque(gravity)
        size = self._together(best, [(x - zero) / step for x in level])
        tilted = gravity + size @ across
        x, y, z = np.linalg.norm(gravity) * (tilted / np.linalg.norm(tilted))
        yield Gravity((), (float(x), float(y), float(z)))

    def _alone(self, best: Fit, effects: Sequence[Array]) -> tuple[Array, Array]:
        """Return ZᵀZ and Zᵀe of k effects Z without what the unknowns' columns explain of them.

        Args:
            effects: Each of shape (channels, n) [N·m].
        """
        hypotheses, evidence = self.hypotheses, self.hypotheses.evidence
        rows, start = hypotheses.rows(best.correction), evidence.unknowns.start
        scale = np.array([best.correction.tau_scale[c] for c in evidence.channels])
        weights = 1.0 / ((scale * best.sigma) ** 2 * hypotheses.memory)
        ridge = hypotheses.tempered(hypotheses.ridge(best.correction), best.values)
        products, across = np.diag(ridge), np.zeros((len(ridge), len(effects)))
        sets = [*zip(rows.columns, rows.regressors, np.stack(effects, 1), weights, strict=True)]
        squares = np.split(
            rows.complete.sums, np.cumsum([len(at) ** 2 for at in rows.columns])[:-1]
        )
        for (at, y, own, weight), square in zip(sets, squares, strict=True):
            products[np.ix_(at, at)] += weight * square.reshape(len(at), len(at))
            across[at] += weight * (y @ own.T)
        taken = cho_solve(cho_factor(products), across)
        # What is left over is orthogonal to the unknowns but for the prior's pull.
        normal, right = (
            taken.T @ (ridge[:, None] * taken),
            taken.T @ (ridge * (start - best.values)),
        )
        residuals = hypotheses.residuals(best).T * scale[:, None]
        for (at, y, own, weight), residual in zip(sets, residuals, strict=True):
            left = own - taken[at].T @ y
            normal += weight * (left @ left.T)
            right += weight * (own @ residual)
        return normal, right

    def _sizes(self, best: Fit, effects: Sequence[Array]) -> Array:
        """Return the least-squares amplitude of each effect by itself, shape (effects,)."""
        normal, right = self._alone(best, effects)
        return np.asarray(right / np.maximum(np.diag(normal), 1e-12))

    def _together(self, best: Fit, effects: Sequence[Array]) -> Array:
        """Return the joint least-squares amplitudes of all effects, shape (effects,)."""
        normal, right = self._alone(best, effects)
        ridge = (1e-9 * np.trace(normal) + 1e-300) * np.eye(len(right))
        return np.asarray(np.linalg.solve(normal + ridge, right))


def torque_over_file_of(hypotheses: Hypotheses, fit: Fit, least: float) -> tuple[Array, float]:
    """Return each channel's torque over what the file's bodies need, shape (channels,).

    With it comes the share of channels of which these explain at least a share `least` of what
    friction leaves; of others it is the mean of those.
    """
    sizes = np.zeros(len(hypotheses.evidence.channels))
    for k in range(len(sizes)):
        file, torque, others = hypotheses.file_torque(fit, k)
        size, share = torque_over_file([file], [torque], [others])
        sizes[k] = abs(size) if share >= least else 0.0
    explained = sizes > 0.0
    common = float(np.exp(np.mean(np.log(sizes[explained])))) if explained.any() else 1.0
    return np.where(explained, sizes, common), float(np.mean(explained))


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
            if weak:
                kept.pop(min(weak, key=lambda k: gains[k]))
                continue
            vain = next(
                (p for p in combinations(kept, 2) if self._is_vain(start, kept, p, best)), ()
            )
            if not vain:
                return self._explained(start, kept, without, best)
            kept = [s for s in kept if s not in vain]

    def _is_vain(
        self,
        start: Correction,
        steps: Sequence[CorrectionStep],
        pair: Sequence[CorrectionStep],
        best: Fit,
    ) -> bool:
        """Return whether two steps undo one another, as signs of positions and of torques do."""
        fit = self.hypotheses.fit(combined(start, [s for s in steps if s not in pair]))
        least = sum(self.least_evidence(step, fit.correction) for step in pair)
        return fit.objective - best.objective < least

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
        self, start: Correction, steps: Sequence[CorrectionStep], without: Sequence[Fit], best: Fit
    ) -> Explained:
        evidence, size = self.hypotheses.evidence, self.hypotheses.sizes(best)
        accepted = []
        for step, fit in zip(steps, without, strict=True):
            k = int(np.argmin(best.sigma / fit.sigma))
            accepted.append(
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
            tuple(accepted),
            best.correction,
            start.tau_scale[0],
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
            small = Proposals(hypotheses, self.proposals.settings).small(still, step)
            shares = (
                s.share_of(step, without.correction)
                for s in small
                if isinstance(s, PositionOffset | Gravity)
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
        sliding = [
            unknowns.sliding(fit.values, d, np.abs(unknowns.rubbing[d].ratio) @ slow)
            for d in step.joints or range(len(unknowns.rubbing))
        ]
        return bool(np.median(sliding) < 0.0)

    def least_evidence(self, step: CorrectionStep, base: Correction) -> float:
        """Return the evidence that a step must have, given all others."""
        small = self.is_small(step, base)
        return self.least.small_evidence if small else self.least.evidence

    def is_small(
        self, step: CorrectionStep, base: Correction
    ) -> TypeGuard[PositionOffset | Gravity]:
        """Return whether a step is an offset or a tilt small enough for a first-order expansion."""
        if not isinstance(step, PositionOffset | Gravity) or not any(base.gravity):
            return False
        return step.angle(base) < self.least.small_rad

    def _rivals(
        self, step: CorrectionStep, without: Fit, best: Fit
    ) -> Iterator[tuple[CorrectionStep, float]]:
        """Yield steps that explain the torque as well, with their excess of J."""
        base, live = without.correction, set(self.hypotheses.evidence.channels)
        if isinstance(step, PositionOffset | Gravity):
            small = self.proposals.small(replace(without, sigma=best.sigma))
            place = (step.kind, step.joints)
            others = [
                s for s in small if (s.kind, s.joints) != place and s.is_large(self.least, base)
            ]
            if isinstance(step, Gravity) and any(step.vector):
                others.append(Gravity((), (0.0, 0.0, 0.0)))
        else:
            alike = (s for s in _alike(step) if s != step)
            others = [s for s in alike if s.kind == "q sign" or live >= set(s.joints)]
        for other in others:
            excess = self.hypotheses.fit(other.apply(base), best).objective - best.objective
            if excess < self.least.indistinguishable:
                yield other, float(excess)


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
        if isinstance(step, TorqueGain):
            return self._snapped(*self._by_gains(step, base, fit), base)
        if isinstance(step, ScalarStep) and step.width:
            return narrowed(
                (step, fit),
                lambda step, by: step.moved(by),
                lambda step, fit: self.hypotheses.fit(step.apply(base), fit),
                step.width,
                self.settings.narrowings,
            )
        if isinstance(step, PositionOffset | Gravity):
            return self._by_first_order(step, base, fit)
        return step, fit

    def _by_gains(self, step: TorqueGain, base: Correction, fit: Fit) -> tuple[TorqueGain, Fit]:
        step, fit, told = self._followed(step, base, fit)
        if len(step.joints) == 1:
            return step, fit
        # Where most of a torque is friction, which tells no gain, it can rest far from the best.
        least = self.settings.acceptance
        for k in np.flatnonzero(told < least.log_gain**-2.0).tolist():
            for factor in self.settings.gain_factors:
                values = np.array(step.values)
                values[k] *= factor
                moved = replace(step, values=tuple(values.tolist()))
                new = self.hypotheses.fit(moved.apply(base), fit, fit.objective)
                if new.objective < fit.objective - BETTER:
                    step, fit, _ = self._followed(moved, base, new)
        return self._needed(step, base, fit) if step.is_large(least, base) else (step, fit)

    def _followed(
        self, step: TorqueGain, base: Correction, fit: Fit
    ) -> tuple[TorqueGain, Fit, Array]:
        for _ in range(self.settings.refinements):
            better, told = self.proposals.followed_gain(step, fit)
            new = self.hypotheses.fit(better.apply(base), fit)
            if not new.objective < fit.objective - BETTER:
                break
            step, fit = better, new
        return step, fit, told

    def _needed(self, step: TorqueGain, base: Correction, fit: Fit) -> tuple[TorqueGain, Fit]:
        """Return gains of those joints whose torque is none of the others' scale.

        Where that is most of them, each torque has a scale of its own, and all gains stay.
        """
        least, measured = self.settings.acceptance.small_evidence, self.hypotheses.evidence.channels

        def fitted(values: Array) -> tuple[TorqueGain, Fit]:
            off = tuple(int(k) for k in np.flatnonzero(values != 1.0))
            gains = TorqueGain(off, tuple(float(values[k]) for k in off))
            return gains, self.hypotheses.fit(gains.apply(base), fit)

        every = np.ones(len(base.tau_scale))
        every[list(step.joints)] = step.values
        values = every.copy()
        values[list(measured)] /= np.median(every[list(measured)])
        kept, best = fitted(values)
        for k in kept.joints:
            values[k], own = 1.0, values[k]
            gains, without = fitted(values)
            if without.objective - best.objective < least:
                kept, best = gains, without
            else:
                values[k] = own
        if 2 * len(kept.joints) <= len(measured):
            return kept, best

        def is_told(k: int) -> bool:
            at = np.arange(len(every)) == k
            trials = (fitted(np.where(at, x, 1.0) * every)[1] for x in (0.5, 2.0))
            return all(trial.objective - fit.objective > least for trial in trials)

        return replace(step, untold=tuple(k for k in step.joints if not is_told(k))), fit

    def _snapped(self, step: TorqueGain, fit: Fit, base: Correction) -> Tried:
        """Return one joint's gain as the size of a unit, where that explains as much."""
        near = min(TORQUE_UNITS.values(), key=lambda u: abs(np.log(u / (step.number or 1.0))))
        least = self.settings.acceptance
        if not abs(np.log(near / (step.number or 1.0))) < least.log_factor:
            return step, fit
        unit = replace(step, values=(near,))
        at = self.hypotheses.fit(unit.apply(base), fit)
        is_alike = at.objective < fit.objective + least.indistinguishable
        return (unit, at) if is_alike else (step, fit)

    def _by_first_order(self, step: PositionOffset | Gravity, base: Correction, fit: Fit) -> Tried:
        for _ in range(self.settings.refinements):
            pairs = ((step.followed_by(s), s) for s in self.proposals.small(fit, step))
            better, further = next((p for p in pairs if p[0] is not None), (None, step))
            if better is None:
                break
            new = self.hypotheses.fit(better.apply(base), fit)
            if not new.objective < fit.objective - BETTER:
                if abs(further.number) > self.settings.unsettled_rad:
                    fit = replace(fit, settled=False)
                break
            step, fit = better, new
        return step, fit

    def next(self, best: Fit) -> list[Tried]:
        """Return refined candidate steps, in order of decreasing evidence."""
        base = best.correction
        tried, least = self._tried(best), self.settings.acceptance
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
                matters = fit.objective < common or step.is_large(least, base)
                leading[key] = self.refined(step, base, fit) if matters else (step, fit)
        refined = [(s, f) for s, f in leading.values() if f.settled and s.is_large(least, base)]
        return sorted(refined, key=order)

    def _tried(self, best: Fit) -> list[Tried]:
        if self.pace.is_over():
            return []
        proposed = (*self.proposals.steps(best), *self.proposals.small(best))
        suspects = self._suspects(best)
        chosen = [s for s in proposed if len(s.joints) > 2 or suspects.issuperset(s.joints)]
        tried: list[Tried] = []
        hopeless = best.objective + self.settings.hopeless_evidence
        for step in chosen:
            if self.pace.is_over():
                break
            corrected = step.apply(best.correction)
            tried.append((step, self.hypotheses.fit(corrected, best, hopeless=hopeless)))
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
        unexplained[list(evidence.channels)] = best.sigma / self.hypotheses.sizes(best)
        return set(sorted(joints, key=lambda k: -unexplained[k])[: self.settings.suspects])

    def followed(self, start: Correction, best: Fit, first: list[Tried]) -> Explained:
        """Return the accepted steps of the search that begins with the given candidates."""
        candidates = first
        for _ in range(self.settings.most_steps):
            if not self.leads(candidates, best):
                break
            best = self.hypotheses.settle(candidates[0][1].correction)
            candidates = self.next(best)
        steps = steps_between(start, best.correction, start.tau_scale[0])
        return self.judge.concluded(start, self._polished(start, steps))

    def leads(self, candidates: Sequence[Tried], best: Fit) -> bool:
        """Return whether the first of the candidates has enough evidence to be followed up."""
        least = best.objective - self.settings.look_evidence
        return bool(candidates) and candidates[0][1].objective <= least

    def _polished(
        self, start: Correction, steps: Sequence[CorrectionStep]
    ) -> tuple[CorrectionStep, ...]:
        """Return the steps, each with its parameter refined given all the others."""
        kept = list(steps)
        # Where each torque has a scale of its own, what is left is no fault's: rows tell more.
        several = any(isinstance(s, TorqueGain) and len(s.joints) > 1 for s in steps)
        best = self.hypotheses.settle(combined(start, kept), common=not several)
        for k, step in enumerate(steps if len(steps) > 1 or several else ()):
            base = combined(start, [s for j, s in enumerate(kept) if j != k])
            fit = self.hypotheses.fit(step.apply(base), best)
            better, fit = self.refined(step, base, fit)
            if fit.settled:
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
    """
    timings = Timings(Hypotheses(evidence), settings)
    timing = timings.fitted(correction)
    if timings.hides(timing):
        correction = timing.best.correction
    hypotheses = Hypotheses(evidence)
    initial = hypotheses.settle(correction, common=False)

    def look(octaves: float) -> float:
        """Return the residual variance with the motion alone low-passed, over that without."""
        blurred = Hypotheses(evidence.blurred(evidence.corner * 2.0**octaves, torque=False))
        blurred.memory = hypotheses.memory
        sigma = blurred.fit(correction, initial).sigma
        return float(np.exp(2.0 * np.mean(np.log(sigma / initial.sigma))))

    factor = evidence.settings.bandwidth.searched(look)
    return evidence.blurred(factor * evidence.corner) if factor < 1.0 else evidence


def explain(
    evidence: Evidence,
    settings: CorrectionSearch = DEFAULTS.search,
    pace: Pace | None = None,
    loads: LoadThresholds = DEFAULTS.loads,
) -> tuple[Explained, TimingFound]:
    """Return the corrections by which the robot model explains logs, and the timings with them.

    How the torque lies to the motion in time is looked for before, so that it hides nothing, and
    again where columns were corrected.
    """
    search = Search(evidence, settings, pace)
    timings = Timings(search.hypotheses, settings.timing)
    start = Correction.none(evidence.robot)
    timing = timings.fitted(start)
    if timings.hides(timing):
        start = timing.best.correction
    load = tool(search.hypotheses, search.hypotheses.settle(start, common=False), loads)
    if load is None:
        start = start.torques(scale=[unit_of(search, start)] * len(start.tau_source))
        load = tool(search.hypotheses, search.hypotheses.settle(start, common=False), loads)
    if load is not None:  # what it explains is no other fault's
        start = replace(start, carrying=load.body)
    best = _searched(search, start)
    if best.steps or best.unit != 1.0:
        timing = timings.fitted(best.correction)
        if start.timing != IN_TIME and not timings.hides(timing):  # it was another fault's
            plain = replace(start, timing=IN_TIME)
            best = search.judge.concluded(plain, [s.step for s in best.steps])
    return best, timing


def unit_of(search: Search, start: Correction) -> float:
    """Return the size of the unit that all torques are in, by the file's masses; 1 if near it."""
    settings = search.settings
    fit, least = search.hypotheses.settle(start), settings.proposals.file_explains_most
    sizes, share = torque_over_file_of(search.hypotheses, fit, least)
    common = float(np.median(sizes))
    is_off = share >= 0.5 and abs(np.log(common)) > settings.acceptance.log_unit
    return 1.0 / common if is_off else 1.0


def _searched(search: Search, start: Correction) -> Explained:
    settings, hypotheses = search.settings, search.hypotheses
    still = hypotheses.settle(start)
    first = search.next(still)
    if not search.leads(first, still):
        return search.judge.concluded(start, ())
    results: list[Explained] = []
    for k in range(min(settings.beginnings, len(first))):
        results.append(search.followed(start, hypotheses.settle(start), first[k : k + 1]))
        least = min((s.evidence for s in results[-1].steps), default=0.0)
        is_explained = results[-1].total < settings.explained_share
        if (is_explained and least > settings.plain_evidence) or search.pace.is_over():
            break
    best = min(results, key=lambda f: _misfit(f, settings))
    for _ in range(settings.looks_again if best.steps else 0):  # what was hidden behind it
        if search.pace.is_over():
            break
        mended = hypotheses.settle(best.correction)
        further = search.followed(start, mended, search.next(mended))
        if _misfit(further, settings) >= _misfit(best, settings) - settings.step_log_gain:
            break
        best = further
    return best


def _misfit(explained: Explained, settings: CorrectionSearch) -> float:
    """Return the mean logarithm of the relative residuals, with a penalty for each step."""
    misfit = float(np.mean(np.log(explained.unexplained)))
    return misfit + settings.step_log_gain * len(explained.steps)
