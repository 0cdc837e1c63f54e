"""What windows of all robots tell, as they come, while robots let go and others join.

As long as the same robots hold the load there is one `CooperativeRun`. When one lets go, the second
moments of the others' motions go on as they are. When one joins, which has none, poses that were
known go on as estimates with their covariances. So does what was known of the load in both cases,
since its windows need the wrenches of those that held it. Who hears late of a robot that joined
takes all windows again: what is known does not depend on when it was heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import Graph

from .agreement import from_first
from .clocks import ClockSettings, TeamClocks
from .method import WIDE, CooperativeMethod, CooperativeRun, Known
from .replication import Replica
from .signals import LoadEstimate, Pose
from .windows import PAIRS, SQUARES, Windows

MOST_KNOWN = 2000  # estimates over time that are kept; then every second one


@dataclass(frozen=True, eq=False)
class TeamKnown:
    """Team estimate, with the robots that it is of."""

    origins: tuple[int, ...]  # numbers of the robots that hold the load; frames are in their order
    known: Known  # of them

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame; None where it is not determined."""
        if robot not in self.origins or not self.known.poses:
            return None
        return self.known.load(self.origins.index(robot))

    def between(self, to: int, of: int) -> Pose | None:
        """Return R and t from the frame of robot `of` to that of `to`; None if not determined."""
        if not {to, of} <= set(self.origins) or not self.known.poses:
            return None
        return self.known.between(self.origins.index(to), self.origins.index(of))

    def of(self, origins: tuple[int, ...]) -> TeamKnown | None:
        """Return what stays valid when other robots hold the load; None if nothing does.

        Poses of those that were not there are not known.

        Args:
            origins: Robots that hold it then.
        """
        if not self.known.poses:
            return None
        before = dict(zip(self.origins, self.known.poses, strict=True))
        told = {k: p for k, o in enumerate(origins) if (p := before.get(o))}
        if not told:
            return None
        moved = from_first(told)
        values, covariance = self.known.values, self.known.covariance
        if values is not None and covariance is not None:
            change = self.known.space.load_map(told[min(told)])
            values, covariance = change @ values, change @ covariance @ change.T
        kept = replace(
            self.known,
            poses=tuple(moved.get(k) for k in range(len(origins))),
            values=values,
            covariance=covariance,
            disagreement=(),
            wrench_doubt=None,
            offset=None,
            doubts=tuple(
                replace(d, robot=origins.index(self.origins[d.robot]))
                for d in self.known.doubts
                if self.origins[d.robot] in origins
            ),
        )
        return TeamKnown(origins, kept)


class TeamSolver:
    """Estimation from the complete windows of a replica, one after another."""

    def __init__(self, method: CooperativeMethod, graph: Graph, clocks: ClockSettings) -> None:
        self.method, self.graph = method, graph
        self.clocks = TeamClocks(method.windows, clocks)
        self.next: int | None = None
        self.left_out = 0  # windows that some robot lacks
        self.changes: list[float] = []
        self._origins: tuple[int, ...] = ()
        self._run: CooperativeRun | None = None
        self._before: TeamKnown | None = None
        self._joined: dict[int, int] = {}
        self._squares = np.zeros((0, 6))
        self._spread_at = self._summed = 0
        self._since = self._compared = 0  # number from which the same robots hold the load, and
        # up to which clocks were compared

    def advance(self, replica: Replica, most: int) -> int:
        """Process complete windows; return their number."""
        held = {*range(self.graph.count)} - replica.late | set(replica.joined)
        if not self._until(replica) or any(o not in replica.sensors for o in held):
            return 0
        if self.next is not None and self._joined != replica.joined:
            new = [n for o, n in replica.joined.items() if o not in self._joined]
            if min(new, default=np.inf) - self._across + 1 < self.next:  # their wrench was amiss
                self.next, self._run, self._before, self.changes = None, None, None, []
        self._joined = dict(replica.joined)
        if self.next is None:
            self.next = replica.begin(tuple(held - replica.late))
        taken = 0
        while self.next < self._until(replica) and taken < most:
            number, self.next = self.next, self.next + 1  # whatever comes of this one
            self._take(replica, number)
            taken += 1
        return taken

    def waiting(self, replica: Replica) -> int:
        """Return the number of complete windows not processed yet."""
        if self.next is None:
            return 0
        return max(self._until(replica) - self.next, 0)

    def _until(self, replica: Replica) -> int:
        return self.clocks.until(replica, replica.complete(self.graph.count))

    @property
    def _across(self) -> int:
        """Number of windows that begin before the first of them ends, itself included."""
        return round(self.method.windows.length / self.method.windows.stride)

    def _take(self, replica: Replica, number: int) -> None:
        origins = replica.holding(number)
        settings, across = self.method.windows, self._across
        if not origins or any(0 <= number - end < across for end in replica.ended.values()):
            return  # who let go held the load for a part of it
        if any(0 < begin - number < across for begin in replica.joined.values()):
            return  # and so did who joined
        if origins != self._origins or self._run is None:
            self._since = number
            self._begin(origins, replica)
        row = self.clocks.row(replica, origins, number)
        if row is None:
            self.left_out += 1
            return
        if self._learn_spread(row, replica) and self._set_clocks(replica, number):
            return
        run = self._run
        assert run is not None
        told = len(run.changes)
        run.step(row, number * settings.stride + 0.5 * settings.length)
        if len(run.changes) > told:
            self.changes.append(run.changes[-1])
        if len(run.known) > MOST_KNOWN:
            del run.known[: MOST_KNOWN // 2 : 2]

    def _begin(self, origins: tuple[int, ...], replica: Replica) -> None:
        """Start a run of other robots, with what stays valid of the one before."""
        now, old, former = self.known(), self._run, self._origins
        self._before = None if now is None else now.of(origins)
        none = np.zeros((3, 3))
        parts = [replica.sensors[o].windows(self.method.windows, none) for o in origins]
        run = CooperativeRun(self.method, parts, self.graph.among(origins))
        run.belief = self.method.belief.of(origins)
        self._squares, self._summed, self._spread_at = np.zeros((len(origins), 6)), 0, 0
        if old is not None:
            here = [k for k, o in enumerate(origins) if o in former]
            places = [former.index(origins[k]) for k in here]
            run.agreed = old.agreed.of(places, here)
            run.poses = run.agreed.poses
            if len(here) == len(origins):
                wide = run.wide
                columns = np.concatenate([np.arange(wide * k, wide * (k + 1)) for k in places])
                run.moments, run.seen = old.moments[:, columns], old.seen
                run.parts, run.posed = [old.parts[k] for k in places], old.posed
                run.belief = old.belief.of(places)
                self._spread_at = old.seen  # until there are more, the old ones serve
            else:
                run.belief = replace(
                    run.belief, poses=run.agreed.beliefs(run.belief.poses, run.space)
                )
            if old.changes:
                run.belief = run.belief.of_another_load()
            self._carry_load(run)
        self._origins, self._run = origins, run

    def _carry_load(self, run: CooperativeRun) -> None:
        known = None if self._before is None else self._before.known
        if known is None or known.values is None or known.covariance is None:
            return
        load = (known.first, known.values, known.covariance)
        run.belief = replace(run.belief, mass=None, centres={}, load=load)

    def _set_clocks(self, replica: Replica, number: int) -> bool:
        """Compare clocks; return whether one was set and recent windows are processed again."""
        begin = replica.begin(self._origins)
        if number <= self._compared or number + 1 - begin < self.method.first:
            return False
        self._compared = number
        again = max(begin, number + 1 - 250)  # windows, within which a clock shows
        if not self.clocks.compare(replica, self._origins, number) or self._since > again:
            return False  # the windows that come are right
        self.changes = [t for t in self.changes if t < again * self.method.windows.stride]
        self._run, self._before, self.next = None, None, again
        return True

    def _learn_spread(self, row: Array, replica: Replica) -> bool:
        """Update the covariance of windows; return whether that was due.

        It goes with the size of the angular velocities in them.
        """
        run = self._run
        assert run is not None
        self._squares = self._squares + row.reshape(len(self._origins), WIDE)[:, SQUARES]
        self._summed += 1
        count = run.seen + 1
        if count < max(self._spread_at, 1):
            return False
        self._spread_at = int(np.ceil(self.method.longer * count))
        each = zip(self._origins, self._squares, strict=True)
        run.use([self._part(replica, o, total / self._summed) for o, total in each])
        return True

    def _part(self, replica: Replica, origin: int, mean: Array) -> Windows:
        second = np.zeros((3, 3))
        for value, (a, b) in zip(mean, PAIRS, strict=True):
            second[a, b] = second[b, a] = value
        return replica.sensors[origin].windows(self.method.windows, second)

    def finish(self) -> None:
        """Estimate with all windows processed so far."""
        if self._run is not None:
            self._run.settle()

    def history(self) -> Sequence[Known]:
        """Return the estimates over time of the robots that hold the load now."""
        return () if self._run is None else tuple(self._run.known)

    def known(self) -> TeamKnown | None:
        """Return the latest team estimate, or None before the first."""
        run, before = self._run, self._before
        if run is None or not run.known:
            return before
        now = run.known[-1]
        if before is not None and now.poses is None:
            now = replace(before.known, time=now.time, unplaced=now.unplaced)
        elif before is not None and now.values is None and not run.changes:
            now = now.with_load_of(before.known)
        return TeamKnown(self._origins, now)
