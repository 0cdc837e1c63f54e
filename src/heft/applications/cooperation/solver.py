"""What windows of all robots tell, as they come, while robots let go and others join.

As long as the same robots hold the load there is one `CooperativeRun`. When one lets go, the second
moments of the others' motions go on as they are; what was known of the load goes on as an estimate
with its covariance, since its windows need the wrench of the one that left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import Graph

from .clocks import ClockSettings
from .method import WIDE, CooperativeMethod, CooperativeRun, Known
from .pose import composed, inverse
from .replication import Replica
from .signals import LoadEstimate, Pose
from .team_clocks import TeamClocks
from .windows import PAIRS, SQUARES, Windows

TAKEN_AGAIN = 250  # windows, once a clock is set: it shows within so many
BEHIND = 50  # windows that wait, from which estimates are made seldom until they are taken
MOST_KNOWN = 2000  # estimates over time that are kept; then every second one


@dataclass(frozen=True, eq=False)
class TeamKnown:
    """What is known, and of whom.

    Attributes:
        origins: Numbers of the robots that hold the load; frames are in their order.
        known: Of them.
    """

    origins: tuple[int, ...]
    known: Known

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame; None where it is not told.

        Args:
            robot: Its number.
        """
        if robot not in self.origins or not self.known.poses:
            return None
        return self.known.load(self.origins.index(robot))

    def between(self, to: int, of: int) -> Pose | None:
        """Return R and t that take coordinates of one robot's frame to another's; None if not told.

        Args:
            to: Number of the one.
            of: Of the other.
        """
        if not {to, of} <= set(self.origins) or not self.known.poses:
            return None
        return self.known.between(self.origins.index(to), self.origins.index(of))

    def of(self, origins: tuple[int, ...]) -> TeamKnown | None:
        """Return what of it stays known when others hold the load; None if nothing does.

        Args:
            origins: Who holds it then.
        """
        poses = self.known.poses
        if not poses or not set(origins) <= set(self.origins):
            return None
        places = [self.origins.index(o) for o in origins]
        first = inverse(poses[places[0]])
        moved = tuple(composed(poses[k], first) for k in places)
        values, covariance = self.known.values, self.known.covariance
        if values is not None and covariance is not None:
            change = self.known.space.load_map(poses[places[0]])
            values, covariance = change @ values, change @ covariance @ change.T
        kept = replace(
            self.known, poses=moved, values=values, covariance=covariance, disagreement=()
        )
        return TeamKnown(origins, kept)


class TeamSolver:
    """Takes complete windows of a replica one after another.

    Args:
        method: Settings.
        graph: Who talks to whom.
        clocks: How clocks are compared.
    """

    def __init__(self, method: CooperativeMethod, graph: Graph, clocks: ClockSettings) -> None:
        self.method, self.graph = method, graph
        self.clocks = TeamClocks(method.windows, clocks)
        self.next: int | None = None
        self.left_out = 0  # windows that some robot lacks
        self.changes: list[float] = []
        self._origins: tuple[int, ...] = ()
        self._run: CooperativeRun | None = None
        self._before: TeamKnown | None = None
        self._squares = np.zeros((0, 6))
        self._spread_at = self._summed = 0
        self._since = self._compared = 0  # number from which the same robots hold the load, and
        # up to which clocks were compared

    def advance(self, replica: Replica, most: int) -> int:
        """Take windows that are complete; return how many were taken.

        Args:
            replica: That holds them.
            most: How many at most.
        """
        until = self._until(replica)
        if not until or any(o not in replica.sensors for o in range(self.graph.count)):
            return 0
        if self.next is None:
            self.next = replica.begin(tuple(replica.windows))
        if self._run is not None:
            self._run.method = self._pace(until - self.next)
        taken = 0
        while self.next < self._until(replica) and taken < most:
            number, self.next = self.next, self.next + 1  # whatever comes of this one
            self._take(replica, number)
            taken += 1
        return taken

    def waiting(self, replica: Replica) -> int:
        """Return how many windows are complete and not taken yet.

        Args:
            replica: That holds them.
        """
        if self.next is None:
            return 0
        return max(self._until(replica) - self.next, 0)

    def _until(self, replica: Replica) -> int:
        return self.clocks.until(replica, replica.complete(self.graph.count))

    def _pace(self, waiting: int) -> CooperativeMethod:
        """Return the settings for so many windows that wait: the last estimate is what counts."""
        if waiting <= BEHIND:
            return self.method
        return replace(self.method, every=BEHIND, longer=max(self.method.longer, 2.0))

    def _take(self, replica: Replica, number: int) -> None:
        origins = replica.holding(number)
        settings = self.method.windows
        across = round(settings.length / settings.stride)
        if not origins or any(0 <= number - end < across for end in replica.ended.values()):
            return  # who let go held the load for a part of it
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
            self._forget_load()
        if len(run.known) > MOST_KNOWN:
            del run.known[: MOST_KNOWN // 2 : 2]

    def _forget_load(self) -> None:
        if self._before is not None:
            kept = replace(self._before.known, values=None, covariance=None)
            self._before = TeamKnown(self._before.origins, kept)

    def _begin(self, origins: tuple[int, ...], replica: Replica) -> None:
        """Go on with other robots."""
        now, old, former = self.known(), self._run, self._origins
        self._before = None if now is None else now.of(origins)
        none = np.zeros((3, 3))
        parts = [replica.sensors[o].windows(self.method.windows, none) for o in origins]
        run = CooperativeRun(self.method, parts, self.graph.among(origins))
        self._squares, self._summed, self._spread_at = np.zeros((len(origins), 6)), 0, 0
        if old is not None and set(origins) <= set(former):
            places = [former.index(o) for o in origins]
            wide = run.wide
            columns = np.concatenate([np.arange(wide * k, wide * (k + 1)) for k in places])
            run.moments, run.seen = old.moments[:, columns], old.seen
            run.parts = [old.parts[k] for k in places]
            if self._before is not None:
                run.poses, run.posed, run.unplaced = self._before.known.poses, old.posed, ()
                run.pose_spreads = [old.pose_spreads[k] for k in places]
            self._spread_at = old.seen  # until there are more, the old ones serve
        self._origins, self._run = origins, run

    def _set_clocks(self, replica: Replica, number: int) -> bool:
        """Compare clocks; return whether one is set, and the windows of late are taken again."""
        begin = replica.begin(self._origins)
        if number <= self._compared or number + 1 - begin < self.method.first:
            return False
        self._compared = number
        again = max(begin, number + 1 - TAKEN_AGAIN)
        if not self.clocks.compare(replica, self._origins, number) or self._since > again:
            return False  # the windows that come are right
        self.changes = [t for t in self.changes if t < again * self.method.windows.stride]
        self._run, self._before, self.next = None, None, again
        return True

    def _learn_spread(self, row: Array, replica: Replica) -> bool:
        """Estimate anew how sure windows are; return whether that was due.

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
        """Estimate with all windows that were taken."""
        if self._run is not None:
            self._run.settle()

    def history(self) -> Sequence[Known]:
        """Return what the robots that hold the load now knew over time."""
        return () if self._run is None else tuple(self._run.known)

    def known(self) -> TeamKnown | None:
        """Return what is known now; None before anything is."""
        run = self._run
        if run is None or not run.known:
            return self._before
        now, before = run.known[-1], self._before
        if before is None or before.known.values is None or run.changes:
            return TeamKnown(self._origins, now)
        if now.values is None or now.covariance is None:
            values, covariance = before.known.values, before.known.covariance
        else:
            assert before.known.covariance is not None
            values, covariance = _added(
                (before.known.values, before.known.covariance), (now.values, now.covariance)
            )
        return TeamKnown(self._origins, replace(now, values=values, covariance=covariance))


def _added(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the estimate of two independent ones: their information adds."""
    weights = [np.linalg.inv(covariance) for _, covariance in (one, other)]
    covariance = np.asarray(np.linalg.inv(weights[0] + weights[1]))
    return covariance @ (weights[0] @ one[0] + weights[1] @ other[0]), covariance
