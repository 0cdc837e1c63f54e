"""Clocks of robots that hold one body: |ω|² is the same in every frame, so it tells when it was.

Least squares of `|ω_i|²(t) = |ω_j|²(t + δ) + c`, both through a window, by Gauss and Newton's steps
in δ; c takes what noise adds to a square. Of windows, of whole logs or as they come.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.interpolate import CubicSpline

from heft.arrays import Array

from .replication import ABSENT, WIDTH, Replica
from .signals import usual_step
from .window_stream import WindowSettings
from .windows import SIZE, SQUARES

# windows through which Lagrange's polynomial goes, the last before a time being 0
# Share of its deviation within which a clock or a wrench's delay is settled in the end: the load
# moves with it by as much of its own.
SETTLED = 0.05
NEAR = [range(first, first + 6) for first in (-2, -1, -3, -4, 0)]


@dataclass(frozen=True)
class ClockSettings:
    """Settings of the comparison of clocks."""

    again: int = 250  # windows that are processed again once a clock is set
    recent: int = 1000  # windows by which clocks and delays are found


@dataclass(frozen=True)
class ClockOffset:
    """How much later one robot's clock is than another's."""

    offset: float  # δ [s]
    std: float  # its standard deviation [s]

    @property
    def is_sure(self) -> bool:
        """Whether it is more than half a millisecond, and than four of its deviations."""
        return abs(self.offset) > max(5e-4, 4.0 * self.std)


def offset_of_squares(one: tuple[Array, Array], other: tuple[Array, Array]) -> ClockOffset:
    """Return the offset of another's clock that best aligns |ω|² of windows, up to half a second.

    Args:
        one: Times [s] and |ω|² of windows [rad²/s²], shape (K,) each.
        other: Likewise of the other robot, in the time of its own clock.
    """
    (t, f), (s, g) = one, other
    if min(len(t), len(s)) < 4:
        return ClockOffset(0.0, np.inf)
    step = usual_step(s)
    spread = max(round(0.3 / step), 1)  # neighbours share noise, of so many seconds
    curve, holes = CubicSpline(s, g), np.diff(s) > 1.5 * step
    offset, std = 0.0, np.inf
    for _ in range(20):  # steps of Gauss and Newton
        inside = (t + offset > s[0]) & (t + offset < s[-1])
        inside[inside] = ~holes[np.searchsorted(s, t[inside] + offset) - 1]
        at = t[inside] + offset
        slope, rest = curve(at, 1), f[inside] - curve(at)
        slope, rest = slope - slope.mean(), rest - rest.mean()
        information = float(slope @ slope)
        if information <= 0.0:
            return ClockOffset(0.0, np.inf)
        change = float(slope @ rest) / information
        std = float(np.sqrt(spread * np.mean(rest**2) / information))
        offset = float(np.clip(offset + change, -0.5, 0.5))
        if abs(change) < 1e-3 * std + 1e-9:
            break
    return ClockOffset(offset, std)


def lateness(time: Array) -> float:
    """Return the root mean square of how late stamps of reception are beyond their mean [s].

    It is zero of stamps that are true, or as often early as late: latency is one-sided, and skew.
    Pieces of a log count that lack no sample.

    Args:
        time: Shape (N,) [s].
    """
    size, step = 50, usual_step(time)
    pieces = time[: len(time) // size * size].reshape(-1, size)
    # Where none is lost, the least late of a fifth of a piece is a step a sample behind, up to
    # the next piece's first
    even = (time - step * np.arange(len(time)))[: pieces.size].reshape(-1, size // 5)
    parts = sliding_window_view(even.min(axis=1), 6)[::5]
    pieces = pieces[: len(parts)][np.ptp(parts, axis=1) < 0.4 * step]
    if pieces.size < 300:
        return 0.0
    line = np.vander(np.arange(size), 2)
    rest = pieces.T - line @ np.linalg.lstsq(line, pieces.T)[0]
    rms = float(np.sqrt(np.mean(rest**2)))
    # Noise of both sides has a skewness of 0, an exponential delay one of 2; bursts longer than a
    # step make a sawtooth, which has next to none, but no sensor samples at once what they bring
    at_once = np.mean(np.diff(pieces) < 0.05 * step) > 0.02
    return rms if rms > 0.01 * step and (at_once or np.mean(rest**3) > 0.5 * rms**3) else 0.0


class TeamClocks:
    """Clock offsets of a team's robots against the first one, by windows as they come.

    The size of the angular velocity in windows of one time is the same at all contacts. Windows of
    a robot whose clock differs, or whose wrench is late, are interpolated by polynomials of degree
    five: they overlap, so that noise stays as it is.
    """

    def __init__(self, windows: WindowSettings, settings: ClockSettings) -> None:
        self.windows, self.settings = windows, settings
        self.offsets: dict[int, ClockOffset] = {}
        self.delays: dict[int, ClockOffset] = {}  # of wrenches behind their robots' motion

    def offset(self, origin: int) -> float:
        """Return how much later a robot's clock is taken to be than the first's [s]."""
        return self.offsets[origin].offset if origin in self.offsets else 0.0

    def compare(
        self, replica: Replica, origins: tuple[int, ...], until: int, ended: bool = False
    ) -> bool:
        """Update the offsets; return whether a clock is set that was not before, or not settled.

        Args:
            origins: Robots that are compared with the first of them.
            until: Number of the first window that is not used.
            ended: Whether clocks are to settle.
        """
        begin = max(until - self.settings.recent, replica.begin(origins))
        kept = [replica.windows[o] for o in origins]
        good = [
            n
            for n in range(begin, until)
            if all(np.isfinite(own.get(n, ABSENT)[0]) for own in kept)
        ]
        if len(good) < 2:
            return False
        time = self.windows.stride * (np.array(good) - good[0]).astype(float)
        # Of ω ωᵀ the diagonal comes first.
        squares = [np.array([own[n][SQUARES][:3].sum() for n in good]) for own in kept]
        new = False
        for origin, own in zip(origins[1:], squares[1:], strict=True):
            estimate = offset_of_squares((time, squares[0]), (time, own))
            offset = replace(estimate, offset=estimate.offset + self.offset(origins[0]))
            shift = replace(offset, offset=offset.offset - self.offset(origin))
            settling = ended and origin in self.offsets
            if abs(shift.offset) > SETTLED * shift.std if settling else shift.is_sure:
                new |= settling or origin not in self.offsets
                self.offsets[origin] = offset
        return new

    def _at(self, kept: Mapping[int, Array], origin: int, number: int, behind: float) -> Array:
        """Return a robot's window at the first robot's time, not a number where it is absent.

        Args:
            kept: The robot's windows by number.
            number: Number of the window on the first robot's clock.
            behind: By which what is interpolated is later than the clock [s].
        """
        late = (self.offset(origin) + behind) / self.windows.stride
        if not late:
            return kept.get(number, ABSENT)[:WIDTH]
        begin = math.floor(late)
        for near in NEAR:  # around that time, else as near as ends and holes leave
            rows = [kept.get(number + begin + k, ABSENT)[:WIDTH] for k in near]
            if not any(np.isnan(row[0]) for row in rows):
                at = late - begin
                weights = [np.prod([(at - m) / (k - m) for m in near if m != k]) for k in near]
                return np.asarray(weights @ np.array(rows))
        return ABSENT

    def _behind(self, origin: int) -> float:
        return self.delays[origin].offset if origin in self.delays else 0.0

    def until(self, replica: Replica, complete: int, ended: bool) -> int:
        """Return the number up to which rows can be interpolated.

        Args:
            complete: Number up to which all windows are here.
            ended: Whether no more are to come.
        """
        numbers = [complete]
        for origin in {*self.offsets, *self.delays} - {*replica.ended}:
            late = self.offset(origin) + max(self._behind(origin), 0.0)
            ahead = math.floor(late / self.windows.stride) + (1 if ended else NEAR[-1][-1])
            numbers.append(replica.count(origin) - ahead)
        return min(numbers)

    def row(self, replica: Replica, origins: tuple[int, ...], number: int) -> Array | None:
        """Return windows of some robots side by side, the number being the first robot's.

        It is None where one is absent.
        """
        each_robot = []
        for origin in origins:
            kept, behind = replica.windows[origin], self._behind(origin)
            motion = self._at(kept, origin, number, 0.0)
            wrench = self._at(kept, origin, number, behind) if behind else motion
            each_robot += [motion[:SIZE], wrench[SIZE:]]
        row = np.concatenate(each_robot)
        return None if np.isnan(row).any() else row
