"""Score tests: what a fitted residual says of torques that the model does not hold.

The columns of a fit are projected off a candidate's torque; what is left of it is asked of the
residual. With Z the projected torques, E the residual, both weighted, H = ZᵀZ and S = ZᵀE, the
amplitudes are θ = H⁻¹S, the share of the residual that they explain is Sᵀθ / EᵀE, and with Ω the
sum of squares of the scores of blocks of time, z² = SᵀΩ⁻¹S (a Lagrange multiplier test with
heteroscedasticity and autocorrelation). The candidate of the largest share is named, its torque
joins the columns, and all are asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import EllipsisType

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from heft import signals
from heft.arrays import Array
from heft.dynamics import kernels
from heft.information import PARAMETER_COUNT, Finding, Severity, inertia

from .hypotheses import Fit, Hypotheses, last_body, measured_bodies
from .settings import LoadThresholds, ScoreThresholds

RIPPLE, SPRING, WINDUP = "ripple", "spring", "gear that gives way"  # names of findings
CHANGING, LOAD = "friction that changes", "load that changes"
UNSAID = frozenset({RIPPLE, SPRING, WINDUP, CHANGING, LOAD})
RIDGE = 1e-8  # of the products of columns of unit size
TOGETHER = 32  # candidates that are projected at once
USUAL = (0.674, 1.177, 1.538, 1.832)  # median score of 1 to 4 amplitudes that are not there


@dataclass(frozen=True)
class Candidate:
    """Torque that a model may lack, m amplitudes."""

    kind: str  # name of its finding
    about: str  # what it is about
    effects: Array  # torque of each amplitude's unit, shape (m, k, n) [N·m or N]
    sentence: str  # of its finding, with {size}
    cure: str  # of its finding
    least: float = 0.0  # first amplitude, in its unit, from which on it matters
    z: float = 4.0  # least score over its deviation
    share: float = 0.02  # least share of the weighted residual's sum of squares
    severity: Severity = "warns"  # of its finding
    is_positive: bool = False  # whether its amplitude cannot be negative
    place: float = np.nan  # time at which it begins, or cycles a radian, if it has one
    channels: EllipsisType | list[int] = ...  # on which it acts; on all if not given


@dataclass(frozen=True)
class Scored:
    """A candidate against the residual."""

    candidate: Candidate  # the candidate
    z: float  # its score over the deviation of that
    share: float  # of the weighted residual's sum of squares that it explains
    size: float  # its first amplitude; of a ripple the root of the sum of squares


@dataclass(frozen=True)
class Residual:
    """A fit's weighted residual, beside the columns that it was fitted with."""

    hypotheses: Hypotheses  # that fitted
    fit: Fit  # the fit
    block_s: float  # duration of a block [s]
    modelled: tuple[Candidate, ...] = ()  # whose torque counts as the model's

    @cached_property
    def roots(self) -> Array:
        """Square roots of the weights, shape (channels, 1)."""
        scale = [abs(self.fit.correction.tau_scale[c]) for c in self.hypotheses.evidence.channels]
        return (1.0 / (np.array(scale) * self.fit.sigma))[:, None]

    @cached_property
    def columns(self) -> list[tuple[NDArray[np.intp], Array]]:
        """For each channel the places of its columns, (k,), and these, weighted, (k, n).

        Unknowns come first, then what is known; over all channels each column has unit size.
        """
        rows, size = self.hypotheses.rows(self.fit.correction), len(self.fit.values)
        made = [*zip(rows.columns, rows.regressors, strict=True)]
        for c in self.modelled:
            at, size = np.arange(size, size + len(c.effects)), size + len(c.effects)
            acts = np.arange(len(made))[c.channels]
            for k, y in zip(acts, c.effects.swapaxes(0, 1), strict=True):
                made[k] = np.concatenate([made[k][0], at]), np.concatenate([made[k][1], y])
        squares = np.zeros(size)
        for (at, y), root in zip(made, self.roots, strict=True):
            squares[at] += root**2 * np.sum(y**2, axis=1)
        units = 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0))
        weights = (root * units[at] for (at, _), root in zip(made, self.roots, strict=True))
        return [(at, w[:, None] * y) for (at, y), w in zip(made, weights, strict=True)]

    @cached_property
    def error(self) -> Array:
        """Weighted residual without what the columns explain, shape (channels, n)."""
        scale = [self.fit.correction.tau_scale[c] for c in self.hypotheses.evidence.channels]
        weighted = self.hypotheses.residuals(self.fit).T * np.array(scale)[:, None] * self.roots
        amplitudes = self.inverse @ self._across(weighted[:, None])
        taken = (amplitudes[at].T @ y for at, y in self.columns)
        return np.asarray(weighted - np.concatenate([*taken]))

    @cached_property
    def inverse(self) -> Array:
        """Inverse of the products of columns; one that others make leaves nothing."""
        products = RIDGE * np.eye(1 + max(int(at.max(initial=-1)) for at, _ in self.columns))
        for at, y in self.columns:
            products[np.ix_(at, at)] += y @ y.T
        return np.asarray(cho_solve(cho_factor(products, overwrite_a=True), np.eye(len(products))))

    def _across(self, effects: Array, channels: EllipsisType | list[int] = ...) -> Array:
        """Return products of the columns with m torques, (channels, m, n), summed: (p, m)."""
        made = np.zeros((len(self.inverse), effects.shape[1]))
        acting = np.arange(len(self.columns))[channels]
        for (at, y), own in zip((self.columns[k] for k in acting), effects, strict=True):
            made[at] += y @ own.T
        return made

    @cached_property
    def _in_blocks(self) -> tuple[Array, Array]:
        """In which block each instant is, (n, blocks), and amplitudes of the error's, (p, blocks).

        What the columns take from a torque, they take from its products with the error, too.
        """
        within = (self.blocks[:, None] == np.arange(int(self.blocks.max()) + 1)).astype(float)
        pulled = np.zeros((len(self.inverse), within.shape[1]))
        for (at, y), error in zip(self.columns, self.error, strict=True):
            pulled[at] += (y * error) @ within
        return within, self.inverse @ pulled

    @cached_property
    def blocks(self) -> NDArray[np.intp]:
        """Which block of time each instant is in, shape (n,)."""
        made, first = [], 0
        for s in self.hypotheses.evidence.stretches:
            at = s.time[s.chosen]
            own = np.floor((at - at[0]) / self.block_s).astype(np.intp)
            made.append(first + own)
            first += int(own.max(initial=0)) + 1
        return np.concatenate(made)

    def scores(self, candidates: Sequence[Candidate], least_seen: float) -> Iterator[Scored]:
        """Yield the scores of candidates of which the columns leave more than next to nothing."""
        alike: dict[tuple[int, str], list[Candidate]] = {}
        for candidate in candidates:
            key = len(candidate.effects), str(candidate.channels)
            alike.setdefault(key, []).append(candidate)
        for every in alike.values():
            for first in range(0, len(every), TOGETHER):
                yield from self._scored(every[first : first + TOGETHER], least_seen)

    def _scored(self, some: Sequence[Candidate], least_seen: float) -> Iterator[Scored]:
        """Yield the scores of candidates of as many amplitudes, on the same channels, each."""
        m, channels, (within, pulled) = len(some[0].effects), some[0].channels, self._in_blocks
        effects = np.concatenate([c.effects for c in some]) * self.roots[channels]
        across = self._across(effects.swapaxes(0, 1), channels)
        blocks = np.sum(effects * self.error[channels], axis=1) @ within - across.T @ pulled
        held = np.flatnonzero(across.any(axis=1))
        across = across[held]
        taken = self.inverse[np.ix_(held, held)] @ across
        shape = (len(some), m, -1)
        effects, across, taken, blocks = (
            x.reshape(shape) for x in (effects, across.T, taken.T, blocks)
        )
        products = effects @ effects.transpose(0, 2, 1)
        left = products - (across + RIDGE * taken) @ taken.transpose(0, 2, 1)
        least = least_seen**2 * np.trace(products, axis1=1, axis2=2)
        is_seen = np.trace(left, axis1=1, axis2=2) > least
        left, blocks = left[is_seen], blocks[is_seen]
        if not len(left):
            return
        S, count = blocks.sum(axis=2)[..., None], blocks.shape[2]
        centred = blocks - blocks.mean(axis=2, keepdims=True)
        spread = centred @ centred.transpose(0, 2, 1) * count / max(count - 1, 1)
        inverses = (np.linalg.pinv(x, rcond=1e-10, hermitian=True) for x in (left, spread))
        amplitudes, likely = ((x @ S)[..., 0] for x in inverses)
        S, total = S[..., 0], max(float(np.sum(self.error**2)), 1e-300)
        seen = (c for c, so in zip(some, is_seen, strict=True) if so)
        for candidate, theta, s, by_spread in zip(seen, amplitudes, S, likely, strict=True):
            ripples = candidate.kind == RIPPLE
            size = float(np.linalg.norm(theta)) if ripples else float(theta[0])
            if not candidate.is_positive or size >= 0.0:
                z = float(np.sqrt(max(s @ by_spread, 0.0)))
                yield Scored(candidate, z, float(s @ theta) / total, size)


def named(
    hypotheses: Hypotheses, fit: Fit, candidates: Sequence[Candidate], thresholds: ScoreThresholds
) -> Iterator[Scored]:
    """Yield what a residual shows, the largest share first, each beside those before it."""
    residual = Residual(hypotheses, fit, thresholds.block_s)
    total = float(np.sqrt(np.sum(fit.sigma**2) / np.sum(hypotheses.sizes(fit) ** 2)))
    for _ in range(thresholds.most):
        there = [*residual.scores(candidates, thresholds.least_seen)]
        over = [s.z / USUAL[len(s.candidate.effects) - 1] for s in there]
        inflation = max(1.0, float(np.median(over or [0.0])))
        passing = [s for s in there if _passes(s, s.z / inflation, total, thresholds)]
        if not passing:
            return
        best = max(passing, key=lambda s: s.share)
        yield best
        residual = replace(residual, modelled=(*residual.modelled, best.candidate))


def _passes(scored: Scored, z: float, total: float, thresholds: ScoreThresholds) -> bool:
    candidate = scored.candidate
    return (
        z >= candidate.z
        and scored.share >= candidate.share
        and np.sqrt(scored.share) * total >= thresholds.visible
        and abs(scored.size) >= candidate.least
    )


def candidates(
    hypotheses: Hypotheses, fit: Fit, loads: LoadThresholds, thresholds: ScoreThresholds
) -> Iterator[Candidate]:
    """Yield what a model may lack, at a fit."""
    evidence, rows = hypotheses.evidence, hypotheses.rows(fit.correction)
    robot, channels = evidence.robot, evidence.channels
    q, v, a = evidence.motion(fit.correction)
    names = [robot.joints[c] for c in channels]
    time = np.concatenate([s.time[s.chosen] for s in evidence.stretches])
    _, revolute = evidence.revolute_joints()

    friction = np.zeros((len(channels), evidence.count))
    for k, (at, y) in enumerate(zip(rows.columns, rows.regressors, strict=True)):
        own = (at >= hypotheses.unknowns.bodies) & (at < hypotheses.unknowns.own.start)
        friction[k] = fit.values[at[own]] @ y[own]
    through = (time - time[0]) / max(time[-1] - time[0], 1e-9) - 0.5
    yield Candidate(
        CHANGING,
        "all joints",
        (friction * through)[None],
        "friction changes by {size:.0%} through the log, as where drives warm up",
        "record when they are warm, or identify parts of the log apart",
        thresholds.trend,
    )
    for k, (c, name) in enumerate(zip(channels, names, strict=True)):
        if c in revolute:
            yield Candidate(
                SPRING,
                name,
                (q[:, c] - q[:, c].mean())[None, None],
                "a torque of {size:.3g} N·m/rad acts with its angle, as of a spring or cable",
                "take the spring off, or give its torque as a column of its own (--columns)",
                share=thresholds.spring_share,
                is_positive=True,
                channels=[k],
            )
            spacing = np.pi / max(float(np.ptp(q[:, c])), thresholds.least_range_rad)
            for cycles in np.arange(*thresholds.cycles, spacing):
                yield Candidate(
                    RIPPLE,
                    name,
                    np.array([[f(cycles * q[:, c])] for f in (np.sin, np.cos)]),
                    "a torque of {size:.3g} N·m repeats {place:.3g} times a turn",
                    "gears or motors ripple: give it as columns of their own (--columns)",
                    z=thresholds.ripple_z,
                    share=thresholds.ripple_share,
                    place=cycles * 2.0 * np.pi,
                    channels=[k],
                )
    yield from _softness(hypotheses, fit, thresholds)
    last = last_body(hypotheses, loads)
    if last is not None:
        tens = robot.nominal()[: hypotheses.unknowns.bodies].reshape(-1, PARAMETER_COUNT)
        mass, center = float(tens[last, 0]), tens[last, 1:4]
        moving = float(np.sum(tens[measured_bodies(hypotheses), 0]))
        heavier = inertia.from_body(1.0, center / mass if mass else center, np.zeros((3, 3)))
        motion = kernels.motion_of(robot.tree, np.array(fit.correction.gravity), q, v, a)
        torques = []
        for ten in (heavier, *np.eye(PARAMETER_COUNT)[1:4]):  # a mass, and where it is
            bodies = np.zeros((len(tens), PARAMETER_COUNT))
            bodies[last] = ten
            torque = kernels.inverse_dynamics(robot.tree, motion, bodies.ravel())
            torques.append(torque[list(channels)])
        for begin in np.quantile(time, np.linspace(0.0, 1.0, thresholds.begins + 2)[1:-1]):
            yield Candidate(
                LOAD,
                robot.tree.names[last],
                np.array(torques) * (time >= begin),
                "from {place:.3g} s on it carries {size:+.2g} kg",
                "identify what is before and behind as logs of their own",
                max(thresholds.load, thresholds.load_share * moving),
                z=thresholds.load_z,
                severity="spoils",
                place=float(begin),
            )


def _softness(hypotheses: Hypotheses, fit: Fit, thresholds: ScoreThresholds) -> Iterator[Candidate]:
    """Yield gears that give way: a joint is elsewhere by its torque's share of their stiffness."""
    evidence, tree = hypotheses.evidence, hypotheses.evidence.robot.tree
    gravity, channels = np.array(fit.correction.gravity), list(evidence.channels)
    bodies, correction = hypotheses.unknowns.parameters(fit.values), fit.correction
    source, scale = list(correction.q_source), np.array(correction.q_scale)
    slow = []  # torque, slope and bend of each stretch, below the frequencies of noise
    for s in evidence.stretches:
        q, v, a = (x[:, source] * scale for x in (s.position, s.velocity, s.acceleration))
        q = q + np.array(correction.q_offset)
        rigid = kernels.inverse_dynamics(tree, kernels.motion_of(tree, gravity, q, v, a), bodies).T
        step = float(np.median(np.diff(s.time)))
        corner = min(thresholds.slow_hz, signals.LARGEST_CORNER / step)
        smooth = signals.low_pass(np.ascontiguousarray(rigid), step, corner)
        slope = np.gradient(smooth, step, axis=0)
        slow.append([x[s.chosen] for x in (smooth, slope, np.gradient(slope, step, axis=0))])
    torque, slope, bend = (np.concatenate([x[k] for x in slow]) for k in range(3))
    q, v, a = evidence.motion(correction)
    for c in channels:
        small = thresholds.bent_rad / max(float(np.abs(torque[:, c]).max()), 1e-9)
        one = np.eye(q.shape[1])[c]

        def bent(by: float, c: int = c, one: Array = one) -> Array:
            moved = (x + by * y[:, [c]] * one for x, y in ((q, torque), (v, slope), (a, bend)))
            motion = kernels.motion_of(tree, gravity, *moved)
            return kernels.inverse_dynamics(tree, motion, bodies)[channels]

        effect = -(bent(small) - bent(-small)) / (2.0 * small)
        largest = float(np.quantile(np.abs(torque[:, c]), 0.95))
        yield Candidate(
            WINDUP,
            evidence.robot.joints[c],
            effect[None] / max(largest, 1e-9),
            "it winds up by {size:.2g} rad under its torque",
            "log positions behind the gears, or take its masses with their intervals widened",
            thresholds.windup_rad,
            is_positive=True,
        )


def findings(
    hypotheses: Hypotheses, fit: Fit, loads: LoadThresholds, thresholds: ScoreThresholds
) -> Iterator[Finding]:
    """Yield the findings of what a fit's residual shows that its model does not hold."""
    if (
        len(np.unique(Residual(hypotheses, fit, thresholds.block_s).blocks))
        < thresholds.least_blocks
    ):
        return
    for shown in named(
        hypotheses, fit, [*candidates(hypotheses, fit, loads, thresholds)], thresholds
    ):
        candidate = shown.candidate
        sentence = candidate.sentence.format(size=shown.size, place=candidate.place)
        yield Finding(
            candidate.kind,
            f"{sentence}: it explains {shown.share:.0%} of what is left",
            about=candidate.about,
            severity=candidate.severity,
            evidence={
                "size": shown.size,
                "z": shown.z,
                "share": shown.share,
                **({"cycles_per_turn": candidate.place} if candidate.kind == RIPPLE else {}),
                **({"from_s": candidate.place} if candidate.kind == LOAD else {}),
            },
            cure=candidate.cure,
        )
