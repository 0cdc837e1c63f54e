"""Clocks of a team by its windows: how late each is, and windows at the first robot's times.

The size of the angular velocity in windows of one time is the same at all contacts. Windows of a
robot whose clock differs are interpolated by cubics: they overlap, so that noise stays as it is.
"""

from __future__ import annotations

import math

import numpy as np

from heft.arrays import Array

from .clocks import ClockOffset, ClockSettings, offset_of_squares
from .replication import ABSENT, Replica
from .windows import SQUARES, WindowSettings

LOOKED_BACK = 1000  # windows by which clocks are compared
DIAGONAL = slice(SQUARES.start, SQUARES.start + 3)  # of ω ωᵀ


class TeamClocks:
    """Clock offsets of a team's robots against the first one."""

    def __init__(self, windows: WindowSettings, settings: ClockSettings) -> None:
        self.windows, self.settings = windows, settings
        self.offsets: dict[int, ClockOffset] = {}

    def offset(self, origin: int) -> float:
        """Return how much later a robot's clock is taken to be than the first's [s]."""
        return self.offsets[origin].offset if origin in self.offsets else 0.0

    def compare(self, replica: Replica, origins: tuple[int, ...], until: int) -> bool:
        """Update the offsets; return whether a clock is set that was not before.

        Args:
            origins: Robots that are compared with the first of them.
            until: Number of the first window that is not used.
        """
        begin = max(until - LOOKED_BACK, replica.begin(origins))
        good = [n for n in range(begin, until) if replica.row(origins, n) is not None]
        if len(good) < 2:
            return False
        time = self.windows.stride * (np.array(good) - good[0]).astype(float)
        spread = max(round(self.windows.length / self.windows.stride), 1)
        squares = [np.array([replica.windows[o][n][DIAGONAL].sum() for n in good]) for o in origins]
        new = False
        for origin, own in zip(origins[1:], squares[1:], strict=True):
            found = offset_of_squares((time, squares[0]), (time, own), spread, self.settings)
            offset = found.offset + self.offset(origins[0])
            apart = abs(offset - self.offset(origin))
            if apart > max(self.settings.least, self.settings.sure * found.std):
                new |= origin not in self.offsets
                self.offsets[origin] = ClockOffset(offset, found.std)
        return new

    def place(self, origin: int) -> tuple[int, Array]:
        """Return how a robot's windows are interpolated at the first robot's times.

        Returns:
            What is added to a number for the first window, and the weights of it and the next.
        """
        late = self.offset(origin) / self.windows.stride
        if not late:
            return 0, np.ones(1)
        whole = math.floor(late)
        x = late - whole
        weights = [
            -x * (x - 1.0) * (x - 2.0) / 6.0,
            (x + 1.0) * (x - 1.0) * (x - 2.0) / 2.0,
            -(x + 1.0) * x * (x - 2.0) / 2.0,
            (x + 1.0) * x * (x - 1.0) / 6.0,
        ]
        return whole - 1, np.array(weights)

    def until(self, replica: Replica, complete: int) -> int:
        """Return the number up to which rows can be interpolated.

        Args:
            complete: Number up to which all windows are here.
        """
        numbers = [complete]
        for origin in self.offsets:
            if origin not in replica.ended:
                first, weights = self.place(origin)
                numbers.append(replica.count(origin) - (first + len(weights) - 1))
        return min(numbers)

    def row(self, replica: Replica, origins: tuple[int, ...], number: int) -> Array | None:
        """Return windows of some robots at one time, side by side; None where one is absent.

        Args:
            number: Number of the window on the first robot's clock.
        """
        found = []
        for origin in origins:
            kept, (first, weights) = replica.windows[origin], self.place(origin)
            begin = number + first
            rows = [kept.get(begin + k, ABSENT) for k in range(len(weights))]
            found.append(rows[0] if len(rows) == 1 else weights @ np.array(rows))
        row = np.concatenate(found)
        return None if np.isnan(row).any() else row
