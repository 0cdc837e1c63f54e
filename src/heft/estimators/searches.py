"""Search for the delay of the torque behind the motion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.information import Information

from .estimate import ProblemLike, _shortest
from .least_squares import LeastSquares


class DelayedLike(ProblemLike, Protocol):
    """What the searches for a delay and for a cutoff need of a problem."""

    def delayed(self, delay: float) -> DelayedLike:
        """Return the same problem with the torque later than the motion by `delay` [s]."""
        ...

    def shortened(self, rows: int) -> DelayedLike:
        """Return the same problem shortened to about `rows` rows at most."""
        ...

    def sharpened(self, factor: float) -> DelayedLike | None:
        """Return the same problem with the low-pass cutoff times `factor`; None if too high."""
        ...

    def residual_energy(self, values: Array) -> Array:
        """Return the energy Σ (τ − Y β)² within the motion's band.

        Args:
            values: β, shape (b,).

        Returns:
            Shape (channels,) [(N·m)² or N²].
        """
        ...

    @property
    def threads(self) -> int:
        """Number of threads that share the work."""
        ...


class _Weighted:
    """Weighted least squares; the channel weights are those of the first problem it solves."""

    def __init__(self) -> None:
        self.weights: dict[str, float] | None = None

    def __call__(self, information: Information) -> Array:
        if self.weights is None:
            self.weights = LeastSquares(sweeps=1).solve(information).weights(worth=False)
        return _shortest(information.combined(self.weights))


@dataclass(frozen=True)
class DelayFound:
    """Estimated delay of the torque behind the motion, with its evidence.

    Attributes:
        delay: Delay to be used [s]; 0 if the evidence is weak.
        best: Delay of the smallest residual [s].
        ratio: Residual variance at `best` over that without a delay.
        agreement: Mean of the single channels' delays over its standard error. The mean is
            weighted by the curvature of each channel's residual energy.
        std: Standard error of the delay, from the spread between the channels [s]; 0 if there
            are too few channels or no search was made.
    """

    delay: float
    best: float
    ratio: float
    agreement: float
    std: float = 0.0


@dataclass(frozen=True)
class DelaySearch:
    """Search for one common delay of all torques behind the motion, by the smallest residual.

    A delay is accepted only on strong evidence. Presliding and flexibility resemble small delays,
    but different ones in each joint: on measured arms without a delay the joints' single
    estimates differ by as much as their size, and their mean worsens the fit as often as it
    improves it. So the friction model must include presliding, the channels must agree, and the
    residual variance in the motion's band (mean over channels) must decrease.

    Attributes:
        agreement: Least `DelayFound.agreement` [standard errors] at which a delay is accepted.
        gate: Variance ratio below which a delay is accepted.
        alone: The same with fewer than three channels, whose agreement cannot be tested.
        reach: Largest absolute delay that is tried [s].
        first: First step of the search [s].
        nudge: Step of the finite differences in `refine` [s].
        usual: Prior standard deviation of a delay that was not accepted [s]: slow motion may not
            reveal it.
        rows: Number of rows used, at most about.
    """

    agreement: float = 3.0
    gate: float = 0.965
    alone: float = 0.9
    reach: float = 0.04
    first: float = 0.002
    nudge: float = 0.001
    usual: float = 0.003
    rows: int = 60_000

    def fit(self, problem: DelayedLike) -> DelayFound:
        """Return the delay: a bracket by doubled steps, then two parabolic interpolations.

        Args:
            problem: Without load-dependent gear friction, at delay zero.
        """
        short = problem.shortened(self.rows)
        channels: dict[float, Array] = {}
        quick = _Weighted()

        def left(delay: float) -> Array:
            moved = short.delayed(delay)
            return moved.residual_energy(quick(moved.information()))

        def look(*delays: float) -> None:
            new = [d for d in delays if d not in channels]
            for delay, energy in zip(new, side_by_side(left, new, short.threads), strict=True):
                channels[delay] = energy / channels[0.0]

        def energy(delay: float) -> float:
            look(delay)
            return float(np.mean(channels[delay])) if delay else 1.0

        still = left(0.0)
        channels[0.0] = np.where(still > 0.0, still, np.inf)
        look(self.first, -self.first)
        step = self.first if energy(self.first) < energy(-self.first) else -self.first
        while abs(2.0 * step) <= self.reach and energy(step) > energy(2.0 * step):
            step *= 2.0
        for _ in range(2):
            best = min(channels, key=energy)
            curve = _parabola(best, {d: energy(d) for d in channels})
            if not curve[0] > 0.0:
                break
            energy(float(np.clip(best - 0.5 * curve[1] / curve[0], -self.reach, self.reach)))
        best, ratio = min(channels, key=energy), min(energy(d) for d in channels)
        mean, std = self._common(best, {d: e if d else e / e for d, e in channels.items()})
        agreement = mean / max(std, 1e-9)
        count = len(channels[0.0])
        taken = ratio < (self.alone if count < 3 else self.gate) and abs(best) < 0.9 * self.reach
        taken = taken and (count < 3 or abs(agreement) > self.agreement)
        return DelayFound(best if taken else 0.0, best, ratio, agreement, std)

    def refine(
        self, problem: DelayedLike, found: DelayFound, rows: int
    ) -> tuple[DelayFound, tuple[Array, ...]]:
        """Return the delay after one parabolic step, and the error its uncertainty causes.

        Use it once load-dependent gear friction is in the model, which `fit` ignores: that
        friction reverses with the velocity, as the torque error of a delay does.

        Args:
            problem: The same with load-dependent gear friction, the torque delayed by
                `found.delay`.
            found: As `fit` returns it.
            rows: Number of rows of the problem's whole information, to which moments are scaled.

        Returns:
            The delay, still zero where none was accepted, and for each channel the moments `Yᵀe`,
            shape (1, b), with e the change of the predicted torque for one standard error of the
            delay; see `noise.Noise`.
        """
        short = problem.shortened(self.rows)
        around = [found.delay + k * self.nudge for k in (-1, 0, 1)]
        quick = _Weighted()

        def look(delay: float) -> tuple[Information, Array, Array]:
            moved = short.delayed(delay)
            information = moved.information()
            values = quick(information)
            return information, values, moved.residual_energy(values)

        looks = [look(around[1]), *side_by_side(look, (around[0], around[2]), short.threads)]
        looked = dict(zip((around[1], around[0], around[2]), looks, strict=True))
        gathered = {d: found[0] for d, found in looked.items()}
        left = {d: found[2] for d, found in looked.items()}
        values = looked[around[1]][1]
        scale = np.where(left[around[1]] > 0.0, left[around[1]], np.inf)
        centre = around[1]
        mean, std = self._common(centre, {d: e / scale for d, e in left.items()})
        step = float(np.clip(mean - centre, -2.0 * self.nudge, 2.0 * self.nudge))
        delay = found.delay + step if found.delay else 0.0
        if not found.delay and std > 0.0:
            # The delay was not accepted, but may exist: combine its estimate with the prior.
            std = 1.0 / float(np.hypot(1.0 / np.hypot(std, mean - centre), 1.0 / self.usual))
        ends = (gathered[d].moments(values) for d in (around[2], around[0]))
        change = np.subtract(*ends) * (rows / max(gathered[centre].rows, 1)) * std
        shared = tuple(change[:, None] / (2.0 * self.nudge))
        return replace(found, delay=delay, std=std), shared

    def _common(self, best: float, channels: Mapping[float, Array]) -> tuple[float, float]:
        """Return the weighted mean of the single channels' delays and its standard error [s]."""
        count = len(next(iter(channels.values())))
        curves = []
        for c in range(count):
            one = {d: float(left[c]) for d, left in channels.items()}
            curves.append(_parabola(best, one))
        sharp = np.array([a for a, _, _ in curves])
        used = sharp > 0.0
        if np.sum(used) < 3:
            return best, 0.0
        own = np.array([best - 0.5 * b / a for a, b, _ in np.array(curves)[used]])
        own = np.clip(own, -self.reach, self.reach)
        weight = sharp[used] / sharp[used].sum()
        mean = float(weight @ own)
        spread = float(weight @ (own - mean) ** 2) / (len(own) - 1)
        return mean, float(np.sqrt(spread))


def _parabola(centre: float, heights: Mapping[float, float]) -> Array:
    """Return the parabola fitted about the centre to three heights at least, shape (3,)."""
    below = max((d for d in heights if d < centre), default=centre)
    above = min((d for d in heights if d > centre), default=centre)
    reach = max(centre - below, above - centre, 0.002)
    near = [d for d in heights if abs(d - centre) <= 1.001 * reach]
    if len(near) < 3:
        near = sorted(heights, key=lambda d: abs(d - centre))[:3]
    return np.asarray(np.polyfit([d - centre for d in near], [heights[d] for d in near], 2))
