"""Search for the cutoff frequency of the motion's low-pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.engine import side_by_side
from heft.information import Information

from .delay_search import DelayedLike, _Weighted


@dataclass(frozen=True)
class BandwidthSearch:
    """Search for the cutoff frequency of the motion's low-pass, by the smallest torque residual.

    A low cutoff blurs velocity reversals, where friction changes sign faster than the motion
    varies. A high one passes encoder noise into the accelerations, which biases the parameters
    that they multiply. Both increase the residual in the motion's band, so the cutoff is moved,
    up or down, while the residual decreases. Most of the residual is noise, so only a small
    relative decrease can be asked for upwards; downwards a larger one is required.

    Attributes:
        step: Factor between one cutoff and the next.
        steps: Largest number of steps, either way.
        up, down: Relative decrease of the residual variance that is required for a step.
        rows: Number of rows used, at most about.
        doubted: Standard deviation of the chosen cutoff [steps].
    """

    step: float = float(2.0**0.25)
    steps: int = 6
    up: float = 0.001
    down: float = 0.02
    rows: int = 60_000
    doubted: int = 2

    def fit(self, problem: DelayedLike, ways: tuple[int, ...] = (1, -1)) -> float:
        """Return the factor by which to multiply the cutoff; 1 to leave it.

        Args:
            problem: At the initial cutoff.
            ways: Directions to try in turn: 1 for higher cutoffs, −1 for lower ones.
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
        """Return the error that the cutoff's uncertainty causes, independent in each channel.

        Joints move at different speeds. The cutoff that is best for most of them may blur the
        reversals of one, and the error of its friction at low speed then exceeds its noise.

        Args:
            problem: At the chosen cutoff and delay.
            rows: Number of rows of the problem's whole information, to which moments are scaled.

        Returns:
            For each channel the moments `Yᵀe`, shape (channels, b), with e the change of the
            predicted torque for one standard deviation of the cutoff; see `noise.Noise`.
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
