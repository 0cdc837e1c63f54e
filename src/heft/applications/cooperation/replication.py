"""Windows of all robots at every robot: numbered by their origin, passed on until acknowledged.

What a robot measured is numbered and never changes, so that messages may be lost, doubled, late and
out of order: taken twice they are taken once. Each message says which windows of each origin its
sender has without a gap, which is the acknowledgement, and carries those that the neighbour lacks.
Once messages have got through, every robot holds the same rows, and so the same answer to the bit.
For tens of robots; hundreds agree on means instead (`heft.information.chebyshev`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting

MOST_WINDOWS = 250  # in a message: below 64 kB


@dataclass(frozen=True, eq=False)
class WindowMessage:
    """What one robot tells a neighbour.

    Attributes:
        have: By origin, how many of its windows the sender has without a gap.
        windows: Origin, number from 0 on, and the window, shape (24,).
        ended: By origin that let go of the load: how many windows it made.
    """

    have: Mapping[int, int]
    windows: tuple[tuple[int, int, Array], ...] = ()
    ended: Mapping[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        own = 8 * (len(self.have) + len(self.ended))
        return own + sum(8 + row.nbytes for _, _, row in self.windows)


class Replica:
    """Windows of all origins, as one robot has them.

    Args:
        own: Number of the robot.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self.windows: dict[int, dict[int, Array]] = {own: {}}
        self.ended: dict[int, int] = {}
        self._gapless: dict[int, int] = {own: 0}
        self._acknowledged: dict[int, dict[int, int]] = {}

    def add(self, window: Array) -> None:
        """Keep the robot's own next window.

        Args:
            window: Motion and wrench, shape (24,).

        Raises:
            InvalidSetting: If the robot has let go.
        """
        if self.own in self.ended:
            raise InvalidSetting(
                "a robot that has let go tells nothing more of the load", argument=str(self.own)
            )
        self._keep(self.own, self._gapless[self.own], window)

    def let_go(self) -> None:
        """Say that the robot holds the load no more: what it told until now stays."""
        self.ended[self.own] = self._gapless[self.own]

    def message(self, neighbour: int) -> WindowMessage:
        """Return what to tell a neighbour now: what it is not known to have, oldest first.

        Args:
            neighbour: Its number.
        """
        has = self._acknowledged.get(neighbour, {})
        lacking = [
            (number, origin)
            for origin, kept in self.windows.items()
            for number in kept
            if number >= has.get(origin, 0)
        ]
        chosen = sorted(lacking)[:MOST_WINDOWS]
        rows = tuple((origin, number, self.windows[origin][number]) for number, origin in chosen)
        return WindowMessage(dict(self._gapless), rows, dict(self.ended))

    def receive(self, neighbour: int, message: WindowMessage) -> None:
        """Take what a neighbour told; what is known already changes nothing.

        Args:
            neighbour: Its number.
            message: Of it.
        """
        has = self._acknowledged.setdefault(neighbour, {})
        for origin, count in message.have.items():
            has[origin] = max(has.get(origin, 0), count)
        self.ended.update(message.ended)
        for origin, number, window in message.windows:
            self._keep(origin, number, window)

    def _keep(self, origin: int, number: int, window: Array) -> None:
        kept = self.windows.setdefault(origin, {})
        kept.setdefault(number, window)
        count = self._gapless.get(origin, 0)
        while count in kept:
            count += 1
        self._gapless[origin] = count

    def count(self, origin: int) -> int:
        """Return how many windows of an origin are here without a gap."""
        return self._gapless.get(origin, 0)

    def holding(self, number: int) -> tuple[int, ...]:
        """Return the origins that held the load at a window, as far as they have said."""
        return tuple(
            o for o in sorted(self.windows) if o not in self.ended or number < self.ended[o]
        )

    def complete(self, robots: int) -> int:
        """Return how many windows are here from all robots that held the load then.

        Args:
            robots: How many held it at the beginning.
        """
        if len(self.windows) < robots:
            return 0
        living = [self.count(o) for o in self.windows if o not in self.ended]
        left = [self.count(o) for o, n in self.ended.items() if self.count(o) < n]
        return min([*living, *left], default=0)

    def rows(self, origins: tuple[int, ...], until: int) -> Array:
        """Return the windows of some origins side by side, shape (until, 24 · origins).

        Args:
            origins: Of whom.
            until: How many, at most those that all of them have.
        """
        return np.hstack([np.array([self.windows[o][k] for k in range(until)]) for o in origins])
