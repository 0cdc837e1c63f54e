"""Windows of all robots at every robot: numbered by their origin, passed on until acknowledged.

What a robot measured is numbered and never changes, so that messages may be lost, doubled, late and
out of order: taken twice they are taken once. Each message says which windows of each origin its
sender has without a gap, which is the acknowledgement, and carries those that the neighbour lacks.
Once messages have got through, every robot holds the same rows, and so the same answer to the bit.
For tens of robots; hundreds agree on means instead (`heft.information.chebyshev`).

A window that its origin could not make is absent, and passed on like others. Memory is bounded:
of each origin so many windows are kept, and whoever lacks older ones is told where they begin.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting

MOST_WINDOWS = 240  # in a message: below 64 kB
WIDTH = 24  # numbers of a window; behind them it may have what its origin says of its sensors
LATEST = 2**53  # number of a window, at most
ABSENT = np.full(WIDTH, np.nan)  # a window that its origin could not make
ABSENT.flags.writeable = False


@dataclass(frozen=True)
class ReplicaSettings:
    """Settings of a replica."""

    history: int = 10_000  # windows of each origin that are kept
    ahead: int = 1_000  # windows by which an origin may be ahead of what is here without a gap
    # each so manieth message to a neighbour begins anew at what it acknowledged; those between
    # carry what was not sent yet
    repeat: int = 1


@dataclass(frozen=True, eq=False)
class WindowMessage:
    """Message from one robot to a neighbour."""

    # by origin, the number up to which the sender has its windows without a gap
    have: Mapping[int, int]
    # origin, number, and the window, shape (24,), NaN where it is absent; or (30,) where it says
    # what its origin's sensors are
    windows: tuple[tuple[int, int, Array], ...] = ()
    # by origin that let go of the load: the number of its first window after that
    ended: Mapping[int, int] = field(default_factory=dict)
    # by origin, the number of the oldest window that the sender has; 0 if not said
    first: Mapping[int, int] = field(default_factory=dict)
    session: int = 0  # since when the sender runs [ns]

    @property
    def size(self) -> int:
        """Size of its numbers [bytes]."""
        own = 8 * (len(self.have) + len(self.ended) + len(self.first))
        return own + sum(8 + row.nbytes for _, _, row in self.windows)


@dataclass
class _Neighbour:
    """What is known of a neighbour: since when it runs, what it has, what it was sent."""

    session: int = 0
    has: dict[int, int] = field(default_factory=dict)
    offered: dict[int, int] = field(default_factory=dict)
    messages: int = 0


class Replica:
    """One robot's copy of the windows of all robots.

    Args:
        session: Since when it runs [ns].
        late: Robots that hold the load from their own first windows on only.
    """

    def __init__(
        self,
        own: int,
        session: int = 0,
        settings: ReplicaSettings = ReplicaSettings(),
        late: frozenset[int] = frozenset(),
    ) -> None:
        self.own, self.session, self.settings, self.late = own, session, settings, late
        self.joined: dict[int, int] = {}
        self.windows: dict[int, dict[int, Array]] = {own: {}}
        self.ended: dict[int, int] = {}
        self.first: dict[int, int] = {own: 0}
        self.counts: Counter[str] = Counter()
        self._gapless: dict[int, int] = {own: 0}
        self._top: dict[int, int] = {own: 0}
        self._begun = False
        self._neighbours: dict[int, _Neighbour] = {}

    def add(self, window: Array, number: int | None = None) -> None:
        """Store the robot's own next window.

        Args:
            window: Motion and wrench, shape (24,), or (30,) with its sensors' numbers.
            number: Number of the window; those skipped are absent. The next if None.

        Raises:
            InvalidSetting: If the robot has let go.
        """
        if self.own in self.ended:
            raise InvalidSetting(
                "a robot that has let go tells nothing more of the load", argument=str(self.own)
            )
        due = self._gapless[self.own]
        if number is None:
            number = due
        if number < due:  # a clock that was set back: what was told stays
            self.counts["told before"] += 1
            return
        if not self._begun and not self.windows[self.own]:
            self._start(self.own, number)
        self._begun = True
        self._skip(self.own, number)
        self._keep(self.own, number, window)

    def take_hold(self, number: int) -> None:
        """Announce that the robot, if it is late, holds the load from a window on."""
        if self.own in self.late and self.own not in self.joined:
            self._start(self.own, number)
            self.joined[self.own] = number
            self._begun = True

    def let_go(self) -> None:
        """Announce that the robot has released the load; its windows so far stay valid."""
        self.ended[self.own] = self._gapless[self.own]

    def message(self, neighbour: int) -> WindowMessage:
        """Return a message with windows that a neighbour is not known to have, oldest first."""
        known = self._neighbours.setdefault(neighbour, _Neighbour())
        anew = known.messages % self.settings.repeat == 0
        known.messages += 1
        start = {
            o: max(known.has.get(o, 0), self.first[o], 0 if anew else known.offered.get(o, 0))
            for o in self.windows
        }
        rows = tuple(self._lacking(start))
        known.offered.update({o: n + 1 for o, n, _ in rows})
        have = {o: self._gapless[o] for o in self._heard_of()}
        first = {o: self.first[o] for o in have}
        return WindowMessage(have, rows, dict(self.ended), first, self.session)

    def _lacking(self, start: Mapping[int, int]) -> Iterator[tuple[int, int, Array]]:
        each = (self._of(o, n) for o, n in start.items())
        for number, o in islice(heapq.merge(*each), MOST_WINDOWS):
            yield o, number, self.windows[o][number]

    def _of(self, origin: int, start: int) -> Iterator[tuple[int, int]]:
        kept = self.windows[origin]
        return ((k, origin) for k in range(start, self._top[origin]) if k in kept)

    def receive(self, neighbour: int, message: WindowMessage) -> None:
        """Process a neighbour's message; what is known already changes nothing."""
        known = self._neighbours.setdefault(neighbour, _Neighbour())
        if message.session > known.session:  # it was started anew, and may have lost what it had
            known.session, known.has, known.offered, known.messages = message.session, {}, {}, 0
        if message.session == known.session:
            self.acknowledge(neighbour, message.have)
        for origin, end in message.ended.items():
            if origin != self.own:
                self.ended.setdefault(origin, end)
        for origin in message.have:
            self._heard(origin, message.first.get(origin, 0))
        for origin, number, window in message.windows:
            self._take(origin, number, window)

    def _heard(self, origin: int, first: int) -> None:
        """Process the number of the oldest window of an origin that a neighbour can pass on."""
        if origin == self.own and self._begun:
            return
        if origin in self.late:
            self.joined.setdefault(origin, first)
        if origin not in self.windows or not (self.windows[origin] or self._gapless[origin]):
            self.windows.setdefault(origin, {})
            self._start(origin, first)
        elif first > self._gapless[origin] and self._believable(first):
            self._skip(origin, first)

    def _take(self, origin: int, number: int, window: Array) -> None:
        """Store a window of another origin, or an own one from before a restart."""
        if origin == self.own and self._begun:
            return
        if origin not in self.windows or number < self.first[origin]:
            return
        if number >= self._gapless[origin] + self.settings.ahead:
            self.counts["far ahead"] += 1
            return
        self._keep(origin, number, window)

    def _believable(self, number: int) -> bool:
        """Return whether a number is plausible, next to this robot's own newest window."""
        if self._begun and number > self._gapless[self.own] + self.settings.ahead:
            self.counts["far ahead"] += 1
            return False
        return True

    def _start(self, origin: int, number: int) -> None:
        self.first[origin] = self._gapless[origin] = self._top[origin] = number

    def _skip(self, origin: int, number: int) -> None:
        """Mark missing windows up to a number as absent."""
        due = self._gapless[origin]
        if number - due > self.settings.history:
            self.windows[origin].clear()
            self._start(origin, number)
            return
        kept = self.windows[origin]
        for k in range(due, number):
            kept.setdefault(k, ABSENT)
        self._advance(origin, number)

    def _keep(self, origin: int, number: int, window: Array) -> None:
        self.windows[origin].setdefault(number, window)
        self._advance(origin, number + 1)

    def _advance(self, origin: int, top: int) -> None:
        """Advance to the first gap, and drop windows older than the history."""
        kept, count = self.windows[origin], self._gapless[origin]
        while count in kept:
            count += 1
        self._gapless[origin] = count
        self._top[origin] = max(self._top[origin], top)
        while count - self.first[origin] > self.settings.history:
            kept.pop(self.first[origin], None)
            self.first[origin] += 1

    def count(self, origin: int) -> int:
        """Return the number up to which windows of an origin are here without a gap."""
        return self._gapless.get(origin, 0)

    def forget_neighbour(self, neighbour: int) -> None:
        """Forget what a neighbour has, so that everything is sent to it again."""
        self._neighbours.pop(neighbour, None)

    def acknowledge(self, neighbour: int, have: Mapping[int, int]) -> None:
        """Record which windows a neighbour has.

        Args:
            have: By origin, the number up to which it has its windows.
        """
        known = self._neighbours.setdefault(neighbour, _Neighbour())
        for origin, count in have.items():
            known.has[origin] = max(known.has.get(origin, 0), count)

    def acknowledged(self, neighbour: int) -> bool:
        """Return whether a neighbour has all windows that are here without a gap."""
        known = self._neighbours.get(neighbour, _Neighbour())
        return all(known.has.get(o, -1) >= self._gapless[o] for o in self._heard_of())

    def holding(self, number: int) -> tuple[int, ...]:
        """Return the origins that held the load at a window, as far as they have announced it."""
        return tuple(
            o
            for o in self._heard_of()
            if number >= self.joined.get(o, number) and number < self.ended.get(o, number + 1)
        )

    def _heard_of(self) -> list[int]:
        """Return the origins heard of; late ones only once they hold the load."""
        return [o for o in sorted(self.windows) if o not in self.late or o in self.joined]

    def complete(self, robots: int) -> int:
        """Return the number up to which windows of all robots that held the load are here."""
        heard = self._heard_of()
        if len(set(heard) - self.late) < robots - len(self.late):
            return 0
        living = [self.count(o) for o in heard if o not in self.ended]
        left = [self.count(o) for o, n in self.ended.items() if self.count(o) < n]
        return min([*living, *left], default=0)

    def begin(self, origins: tuple[int, ...]) -> int:
        """Return the number from which windows of some origins are here."""
        return max(self.first[o] for o in origins)
