"""Clocks of robots that hold one body: |ω|² is the same in every frame, so it tells when it was.

Least squares of `|ω_i|²(t) = |ω_j|²(t + δ) + c`, both through a window, by Gauss and Newton's steps
in δ; c takes what noise adds to a square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import Graph

from .signals import ContactSignals


@dataclass(frozen=True)
class ClockSettings:
    """Settings of the comparison of clocks."""

    window: float = 0.3  # of the low-pass [s]
    most: float = 0.5  # largest offset that is looked for [s]
    least: float = 5e-4  # offsets below this are left [s]
    sure: float = 4.0  # offsets below so many standard deviations are left, too
    steps: int = 20  # of Gauss and Newton, at most


@dataclass(frozen=True)
class ClockOffset:
    """How much later one robot's clock is than another's."""

    offset: float  # δ [s]
    std: float  # its standard deviation [s]


def clock_offset(
    one: ContactSignals, other: ContactSignals, settings: ClockSettings = ClockSettings()
) -> ClockOffset:
    """Return the offset of another robot's clock that best aligns |ω|² of both.

    Args:
        other: Another robot's signals, in the time of its own clock.
    """
    step = float(np.median(np.diff(one.time)))
    spread = max(round(settings.window / step), 1)  # neighbours share a window's noise
    first, second = (_squares(k, settings.window) for k in (one, other))
    return offset_of_squares(first, second, spread, settings)


def offset_of_squares(
    one: tuple[Array, Array], other: tuple[Array, Array], spread: int, settings: ClockSettings
) -> ClockOffset:
    """Return the offset of another robot's clock that best aligns |ω|² through windows.

    Args:
        one: Times [s] and |ω|² through a window [rad²/s²], shape (K,) each.
        other: Likewise of the other robot, in the time of its own clock.
        spread: Number of neighbouring windows that share noise.
    """
    (t, f), (s, g) = one, other
    slope_of_g = np.gradient(g, s)
    offset, std = 0.0, np.inf
    for _ in range(settings.steps):
        inside = (t + offset > s[0]) & (t + offset < s[-1])
        at = t[inside] + offset
        slope = np.interp(at, s, slope_of_g)
        rest = f[inside] - np.interp(at, s, g)
        slope, rest = slope - slope.mean(), rest - rest.mean()
        told = float(slope @ slope)
        if told <= 0.0:
            return ClockOffset(0.0, np.inf)
        change = float(slope @ rest) / told
        std = float(np.sqrt(spread * np.mean(rest**2) / told))
        offset = float(np.clip(offset + change, -settings.most, settings.most))
        if abs(change) < 1e-3 * std + 1e-9:
            break
    return ClockOffset(offset, std)


def _squares(signals: ContactSignals, window: float) -> tuple[Array, Array]:
    """Return times [s] and low-pass filtered |ω|² [rad²/s²], shape (K,) each."""
    step = float(np.median(np.diff(signals.time)))
    count = max(round(window / step), 1)
    weight = 1.0 - np.cos(2.0 * np.pi * (np.arange(count) + 0.5) / count)
    squares = np.sum(signals.angular_velocity**2, axis=1)
    passed = np.convolve(squares, weight / weight.sum(), mode="valid")
    time = np.convolve(signals.time, np.full(count, 1.0 / count), mode="valid")
    return time, passed


def on_one_clock(
    team: Sequence[ContactSignals], graph: Graph, settings: ClockSettings = ClockSettings()
) -> tuple[list[ContactSignals], dict[int, ClockOffset]]:
    """Return all signals in the first robot's time, and which clocks were set.

    Args:
        team: Signals of each robot, in the time of its own clock.
        graph: Who is compared with whom: along a tree from the first robot on.

    Returns:
        The signals, and by robot the offset of its clock that was taken away.
    """
    total = {0: ClockOffset(0.0, 0.0)}
    todo = [0]
    while todo:
        i = todo.pop(0)
        for j in graph.neighbours[i]:
            if j in total:
                continue
            found = clock_offset(team[i], team[j], settings)
            std = float(np.hypot(total[i].std, found.std))
            total[j] = ClockOffset(total[i].offset + found.offset, std)
            todo.append(j)
    late = {
        k: c
        for k, c in sorted(total.items())
        if abs(c.offset) > max(settings.least, settings.sure * c.std)
    }
    moved = [
        replace(s, time=s.time - late[k].offset) if k in late else s for k, s in enumerate(team)
    ]
    return moved, late
