"""Candidate steps of a correction: discrete kinds from lists, small ones to first order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from heft.arrays import Array
from heft.dynamics import kernels

from .corrections import CorrectionStep
from .evidence import triangulated
from .hypotheses import Fit, Hypotheses
from .settings import DEGREE, TURN, StepProposals
from .steps import (
    CompensatedFriction,
    Gravity,
    PositionOffset,
    PositionScale,
    PositionUnit,
    SignFlip,
    Swap,
    TorqueGain,
    TorqueUnit,
)


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
        yield from (TorqueGain((j,), s) for j in measured for s in self.settings.torque_gains)
        evidence = self.hypotheses.evidence
        size = abs(np.log(evidence.torque_size(best.correction)))
        for factor in self.settings.torque_units:
            unit = TorqueUnit((), factor)
            closer = abs(np.log(evidence.torque_size(unit.apply(best.correction))))
            if closer < size - self.settings.unit_log_gain:
                yield unit

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

    def small(self, best: Fit) -> Iterator[CorrectionStep]:
        """Yield offsets and a tilt of the base, estimated from the residual to first order."""
        evidence, step = self.hypotheses.evidence, self.settings.derivative_step_rad
        q, v, a = evidence.motion(best.correction)
        tree, gravity = evidence.robot.tree, np.array(best.correction.gravity)
        bodies = evidence.unknowns.parameters(best.values)

        def torque(shifted: Array, down: Array) -> Array:
            motion = kernels.motion_of(tree, down, shifted, v, a)
            return kernels.inverse_dynamics(tree, motion, bodies)[list(evidence.channels)]

        _, joints = evidence.revolute_joints()
        effects = []
        for k in joints:
            shift = step * np.eye(q.shape[1])[k]
            rise = torque(q + shift, gravity) - torque(q - shift, gravity)
            effects.append(rise / (2.0 * step))
        largest = self.settings.largest_shift_rad
        sizes = self._sizes(best, effects) if effects else np.zeros(0)
        for k, size in zip(joints, sizes, strict=True):
            yield PositionOffset((k,), float(np.clip(size, -largest, largest)))
        if not np.linalg.norm(gravity):
            return
        across = np.linalg.svd(gravity[None])[2][1:]
        level, zero = [torque(q, gravity + step * d) for d in across], torque(q, gravity)
        size = self._together(best, [(x - zero) / step for x in level])
        tilted = gravity + size @ across
        x, y, z = np.linalg.norm(gravity) * (tilted / np.linalg.norm(tilted))
        yield Gravity((), (float(x), float(y), float(z)))

    def _alone(self, best: Fit, effects: Sequence[Array]) -> tuple[Array, Array]:
        """Return the triangle R of effects projected off the unknowns' columns, and Rᵀz.

        Args:
            effects: Each of shape (channels, n) [N·m].
        """
        hypotheses, evidence = self.hypotheses, self.hypotheses.evidence
        rows = hypotheses.rows(best.correction)
        scale = np.array([best.correction.tau_scale[c] for c in evidence.channels])
        roots = 1.0 / (np.abs(scale) * best.sigma * np.sqrt(hypotheses.memory))
        start, width = evidence.unknowns.start, len(effects)
        ridge = hypotheses.tempered(rows, best.values)
        size, right = len(start), np.zeros(width)
        left = hypotheses.residuals(best) * scale
        count = size + sum(len(at) + width for at in rows.columns)
        stacked, first = np.zeros((count, size + width), order="F"), size
        stacked[np.arange(size), np.arange(size)] = np.sqrt(ridge)
        for k, at in enumerate(rows.columns):
            d = np.stack([e[k] for e in effects])
            own = triangulated(np.vstack([rows.regressors[k], d]).T)
            places = [*at, *range(size, size + width)]
            stacked[first : first + len(own), places] = roots[k] * own
            first += len(own)
            right += roots[k] ** 2 * d @ left[:, k]
        triangle = triangulated(stacked)
        # What is left over is orthogonal to the unknowns but for the prior's pull.
        pull = ridge * (start - best.values)
        pulled = solve_triangular(triangle[:size, :size], pull, trans="T", check_finite=False)
        return triangle[size:, size:], right + triangle[:size, size:].T @ pulled

    def _sizes(self, best: Fit, effects: Sequence[Array]) -> Array:
        """Return the least-squares amplitude of each effect by itself, shape (effects,)."""
        triangle, right = self._alone(best, effects)
        return np.asarray(right / np.maximum(np.sum(triangle**2, axis=0), 1e-12))

    def _together(self, best: Fit, effects: Sequence[Array]) -> Array:
        """Return the joint least-squares amplitudes of all effects, shape (effects,)."""
        triangle, right = self._alone(best, effects)
        ridge = np.sqrt(1e-9 * np.sum(triangle**2)) * np.eye(len(right))
        R = triangulated(np.asfortranarray(np.vstack([triangle, ridge])))
        half = solve_triangular(R, right, trans="T", check_finite=False)
        return np.asarray(solve_triangular(R, half, check_finite=False))
