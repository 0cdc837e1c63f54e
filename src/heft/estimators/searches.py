"""Searches for what is not linear: the delay of the torque, the bandwidth of the motion."""

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
    """What the search for a delay needs of a problem."""

    def delayed(self, delay: float) -> DelayedLike:
        """Return the same problem with torque that much behind motion [s]."""
        ...

    def shortened(self, rows: int) -> DelayedLike:
        """Return the same problem with at most about so many rows."""
        ...

    def sharpened(self, factor: float) -> DelayedLike | None:
        """Return the same problem with a higher corner of the low-pass, if there is room."""
        ...

    def residual_energy(self, values: Array) -> Array:
        """Return the energy of τ − Y β in the motion's band, shape (channels,)."""
        ...

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        ...


class _Weighted:
    """Least squares of like problems, all with the channels' weights of the first."""

    def __init__(self) -> None:
        self.weights: dict[str, float] | None = None

    def __call__(self, information: Information) -> Array:
        if self.weights is None:
            self.weights = LeastSquares(sweeps=1).solve(information).weights(worth=False)
        return _shortest(information.combined(self.weights))


@dataclass(frozen=True)
class DelayFound:
    """What the search for a delay found.

    Attributes:
        delay: To be used [s]; 0 if the evidence is weak.
        best: Where the residual is smallest [s].
        ratio: Residual variance there over that without a delay.
        agreement: How many standard errors the channels' own delays, weighted by how sharply
            each shows it, are together from zero.
        std: Standard error of the delay, by how much the channels' own differ [s]; 0 if none was
            looked for.
    """

    delay: float
    best: float
    ratio: float
    agreement: float
    std: float = 0.0


@dataclass(frozen=True)
class DelaySearch:
    """One delay of all torques behind the motion, taken only on strong evidence.

    Presliding and flexibility look like small delays, but not like the same one in every
    joint: on measured arms without a delay the joints' own best delays differ by as much as
    they are, and using their mean harms as often as it helps. So the friction model must hold
    stops, the channels must agree, and the variance of the residual in the motion's band (mean
    over channels) must fall.

    Attributes:
        agreement: Standard errors from zero that the channels must show together.
        gate: Variance ratio below which a delay is taken.
        alone: The same where there are too few channels to ask whether they agree.
        reach: Largest delay looked at, either way [s].
        first: First step of the search [s].
        nudge: Step of the last refinement [s].
        usual: Where none was taken, how large one may be that slow motion does not show [s].
        rows: How many rows are looked at, at most about.
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
        """Return the delay found: a bracket by doubled steps, then two parabolas."""
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
        """Return the delay by one more step, and what one standard error of it does to moments.

        The first search knows no load-dependent gear friction, which turns its sign with the
        speed as a delay's torque does.

        Args:
            problem: The same with load-dependent gear friction, torque found.delay behind motion.
            found: As `fit` returns it.
            rows: Of all its information.

        Returns:
            The delay, where one was taken, and for each channel `Yᵀe`, shape (1, b), with e by
            how much the torque predicted changes with the delay; see `uncertainty.Noise`.
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
            # Weak evidence is still some: there may be the delay that was not taken.
            std = 1.0 / float(np.hypot(1.0 / np.hypot(std, mean - centre), 1.0 / self.usual))
        ends = (gathered[d].moments(values) for d in (around[2], around[0]))
        change = np.subtract(*ends) * (rows / max(gathered[centre].rows, 1)) * std
        shared = tuple(change[:, None] / (2.0 * self.nudge))
        return replace(found, delay=delay, std=std), shared

    def _common(self, best: float, channels: Mapping[float, Array]) -> tuple[float, float]:
        """Return the mean of the channels' own delays, weighted, and its standard error."""
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
    """Return the parabola through the centre's neighbourhood: at least three heights."""
    below = max((d for d in heights if d < centre), default=centre)
    above = min((d for d in heights if d > centre), default=centre)
    reach = max(centre - below, above - centre, 0.002)
    near = [d for d in heights if abs(d - centre) <= 1.001 * reach]
    if len(near) < 3:
        near = sorted(heights, key=lambda d: abs(d - centre))[:3]
    return np.asarray(np.polyfit([d - centre for d in near], [heights[d] for d in near], 2))


@dataclass(frozen=True)
class BandwidthSearch:
    """How sharp motion may be, seen from what is left of the torque.

    Friction turns its sign faster than the motion swings: a low corner of the low-pass blurs
    that. A high one lets the encoders' noise into the accelerations, which biases what they
    multiply. Both leave more of the torque in the motion's band unexplained, so the corner is
    moved, up or down, as long as that falls. Much of what is left is noise, which hides how much
    of the rest goes: up counts a fall that noise would not make of itself.

    Attributes:
        step: Factor between one corner and the next.
        steps: Most steps, either way.
        up, down: By how much the residual's variance must fall for a step.
        rows: How many rows are looked at, at most about.
        doubted: Steps by which the corner taken may be off, one standard deviation.
    """

    step: float = float(2.0**0.25)
    steps: int = 6
    up: float = 0.001
    down: float = 0.02
    rows: int = 60_000
    doubted: int = 2

    def fit(self, problem: DelayedLike, ways: tuple[int, ...] = (1, -1)) -> float:
        """Return the factor for the corner.

        Args:
            problem: With the corner to begin with.
            ways: 1 to look at higher corners, −1 at lower ones.
        """
        short = problem.shortened(self.rows)
        quick = _Weighted()

        def energy(power: int) -> Array:
            moved = short.sharpened(self.step**power)
            if moved is None:
                return np.full(len(scale), np.inf)
            return moved.residual_energy(quick(moved.information()))

        scale = short.residual_energy(quick(short.information()))
        scale = np.where(scale > 0.0, scale, np.inf)
        least, chosen = 1.0, 0
        for way in ways:
            gain = self.up if way > 0 else self.down
            ahead: list[float] = []  # steps are looked at a few at a time
            while chosen * way < self.steps:
                if not ahead:
                    powers = [chosen + way * (k + 1) for k in range(min(short.threads, 2))]
                    found = side_by_side(energy, powers, short.threads)
                    ahead = [float(np.mean(e / scale)) for e in found]
                now = ahead.pop(0)
                if not now < (1.0 - gain) * least:
                    break
                chosen, least = chosen + way, now
            if chosen:
                break
        return float(self.step**chosen)

    def doubt(self, problem: DelayedLike, rows: int) -> tuple[Array, ...]:
        """Return what a corner that is off does to moments, in each channel on its own.

        Joints turn at different speeds: the corner that is best for most of them blurs the
        reversals of one, whose friction at slow speeds is then off by much more than noise says.

        Args:
            problem: At the corner and the delay that are taken.
            rows: Of all its information.

        Returns:
            For each channel `Yᵀe`, shape (channels, b), with e by how much the torque predicted
            changes when the corner goes up by one standard deviation; see `uncertainty.Noise`.
        """
        short = problem.shortened(self.rows)

        def moved(power: int) -> Information | None:
            at = short.sharpened(self.step**power) if power else short
            return None if at is None else at.information()

        powers = (0, -self.doubted, self.doubted)
        found = zip(powers, side_by_side(moved, powers, short.threads), strict=True)
        looks = {power: seen for power, seen in found if seen is not None}
        values, low, high = _Weighted()(looks[0]), min(looks), max(looks)
        change = looks[high].moments(values) - looks[low].moments(values)
        change *= rows / max(looks[0].rows, 1) * self.doubted / (high - low)
        apart = np.eye(len(change))
        return tuple(apart[c][:, None] * own for c, own in enumerate(change))
