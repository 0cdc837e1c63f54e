"""heft's own method for a team that holds one load; [Fan2017]'s is `PaperMethod`.

Everything that a robot tells is a row of 24 numbers a window, its motion and its wrench. Second
moments of all robots' rows side by side are a triangle, which adds; poses of the contacts and the
load are read off it at any time, with what is known of the poses by then, so that nothing is
frozen and nothing counts twice. A window that the load does not explain ends the load's triangle
and begins the next: it does not forget otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import Directions, Graph, frame_change, inertia, triangle_of

from .load import LoadInformation
from .pose import composed, inverse, moved, pose_between
from .signals import ContactSignals, LoadEstimate, Pose
from .windows import SIZE, Windows, WindowSettings, motion_map, wrench_map

WIDE = SIZE + 6  # numbers of a robot's window
FEWEST_WITNESSES = 3  # robots, for one of them to be told from the others
DOUBTFUL = 2.0  # mean squared difference over its variance, from which sensors do not agree
SMALL = 1e-5  # change of a pose for a derivative [rad, m]


@dataclass(frozen=True)
class CooperativeMethod:
    """Settings of the method.

    Attributes:
        windows: Of signals.
        first: Windows before the first estimate.
        every: Windows from one estimate of the load to the next.
        longer: Poses are estimated anew when there are this many times as many windows.
        rounds: Of refinement of poses over the network.
        unlikely: χ² of six a window from which it counts against the load.
        against: Windows in a row that count against it end a load.
        impossible: χ² of one window that ends a load by itself.
    """

    windows: WindowSettings = WindowSettings()
    first: int = 20
    every: int = 5
    longer: float = 1.25
    rounds: int = 3
    unlikely: float = 40.0
    against: int = 2
    impossible: float = 100.0

    def identify(self, team: Sequence[ContactSignals], graph: Graph) -> CooperativeResult:
        """Return what a team knows over time.

        Args:
            team: What each robot's sensors read, at the same times.
            graph: Who talks to whom: whose motions are compared.
        """
        parts = [Windows.of(robot, self.windows) for robot in team]
        run = CooperativeRun(self, parts, graph)
        for k, time in enumerate(parts[0].time):
            run.step(np.hstack([np.hstack([p.motion[k], p.wrench[k]]) for p in parts]), float(time))
        return run.result()


@dataclass(frozen=True, eq=False)
class Known:
    """What a team knows at a time.

    Attributes:
        time: End of the last window [s].
        poses: Of each robot's frame: R and t take coordinates of robot 0 to its own.
        values: π of the load in robot 0's frame, shape (10,); None where not told yet.
        covariance: Of π, shape (10, 10).
        misfit: Mean squared residual of the load's windows, by their deviations.
        disagreement: By robot, the mean squared difference of its motion from what all others agree
            on, by its deviation: 1 where sensors are as noisy as they seem.
    """

    time: float
    poses: tuple[Pose, ...]
    values: Array | None
    covariance: Array | None
    misfit: float
    disagreement: tuple[float, ...] = ()

    @property
    def doubtful(self) -> int | None:
        """The robot whose motion sensors do not go with the others'; None if all do, or if unclear.

        What one robot measures wrongly is in its own difference whole, and in that of each other
        by its share of what they agree on.
        """
        if len(self.disagreement) < FEWEST_WITNESSES:
            return None
        worst = int(np.argmax(self.disagreement))
        most = self.disagreement[worst]
        second = max(d for k, d in enumerate(self.disagreement) if k != worst)
        clear = most > DOUBTFUL and most - 1.0 > 2.0 * max(second - 1.0, 0.0)
        return worst if clear else None

    def between(self, to: int, of: int) -> Pose:
        """Return R and t that take coordinates in one robot's frame to those in another's."""
        return composed(self.poses[to], inverse(self.poses[of]))

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame, physically consistent; None where not told yet."""
        if self.values is None or self.covariance is None:
            return None
        change = frame_change(*self.poses[robot])
        values = change @ self.values
        if values[0] <= 0.0:
            return None  # no body: windows that tell nothing, or wrenches of the wrong sign
        if inertia.consistency_margin(values) <= 0.0:
            values = inertia.nearest_consistent(values)
        mass, com, about = inertia.to_body(values)
        return LoadEstimate(mass, com, about, change @ self.covariance @ change.T)


@dataclass(frozen=True, eq=False)
class CooperativeResult:
    """What a team knew over time.

    Attributes:
        known: In order of time.
        changes: Times at which the load was found to be another [s].
    """

    known: tuple[Known, ...]
    changes: tuple[float, ...]

    def at(self, time: float) -> Known:
        """Return what was known at a time [s]."""
        return next((k for k in reversed(self.known) if k.time <= time), self.known[0])


class CooperativeRun:
    """One walk over windows of all robots, as they come.

    Args:
        method: Its settings.
        parts: Of each robot: covariances of its windows, and how many count as one.
        graph: Who talks to whom.
    """

    def __init__(self, method: CooperativeMethod, parts: Sequence[Windows], graph: Graph) -> None:
        self.method, self.graph = method, graph
        self.parts = list(parts)
        self.count = len(parts)
        self.overlap = max(p.overlap for p in parts)
        self.poses: tuple[Pose, ...] | None = None
        self.disagreement = [1.0 for _ in parts]
        self.pose_spreads = [np.zeros((6, 6)) for _ in parts]
        self.posed = 0
        self.seen = 0
        self.moments = np.zeros((0, WIDE * self.count))
        self.of_load = np.zeros((0, WIDE * self.count))
        self.loaded = self.fresh = 0
        self.end = 0.0
        self.skip_until = -np.inf
        self.hits = 0
        self.current: Known | None = None
        self.known: list[Known] = []
        self.changes: list[float] = []

    def step(self, row: Array, time: float) -> None:
        """Take the next window of all robots.

        Args:
            row: Motion and wrench, robot by robot, shape (24 n,).
            time: Its middle [s].
        """
        method, row = self.method, row[None]
        half = 0.5 * method.windows.length
        self.seen, self.end = self.seen + 1, time + half
        self.moments = self._added(self.moments, row)
        if time - half < self.skip_until:
            return
        if self._against(row):
            self.changes.append(self.end)
            self.of_load, self.loaded, self.fresh = self.of_load[:0], 0, 0
            self.skip_until, self.hits = self.end, 0
            self.current = None
            return
        if self.hits:
            return  # neither for nor against until the next window tells
        self.of_load = self._added(self.of_load, row)
        self.loaded += 1
        self.fresh += 1
        if self.seen >= max(method.first, method.longer * self.posed):
            self._pose(self.seen)
        if self.poses is not None and self.fresh >= method.every:
            self.fresh = 0
            self._solve(self.end)

    def result(self) -> CooperativeResult:
        """Return what is known over time, with all windows that came."""
        if self.poses is not None and self.fresh:
            self.fresh = 0
            self._solve(self.end)
        return CooperativeResult(tuple(self.known), tuple(self.changes))

    def settle(self) -> None:
        """Estimate poses and load with all windows that came, whenever they were estimated last."""
        if self.poses is not None and self.seen:
            self.fresh = 0
            self._pose(self.seen)
            self._solve(self.end)

    def _added(self, moments: Array, row: Array) -> Array:
        """Return moments with another row; a triangle once there are more rows than columns."""
        whole = np.vstack([moments, row])
        return triangle_of(whole) if len(whole) > 2 * whole.shape[1] else whole

    def _columns(self, robot: int) -> slice:
        return slice(WIDE * robot, WIDE * robot + SIZE)

    def _pose(self, windows: int) -> None:
        """Estimate all poses anew: neighbour by neighbour, then each against all others."""
        moments = triangle_of(self.moments) if len(self.moments) > 1 else self.moments
        if self.poses is None:
            self.poses = self._by_neighbours(moments, windows)
        for _ in range(self.method.rounds):
            poses = list(self.poses)
            for i in range(self.count):
                others = [j for j in range(self.count) if j != i]
                if not others:
                    break
                maps = {j: motion_map(composed(poses[i], inverse(poses[j]))) for j in others}
                fused, spread = self._fused(moments, maps)
                both = np.hstack([fused, moments[:, self._columns(i)]])
                still = (np.eye(3), np.zeros(3))
                spreads = (spread, self.parts[i].spread)
                found = pose_between(both, spreads, windows, self.overlap, still)
                poses[i] = composed(found.pose, poses[i])
                self.pose_spreads[i] = found.covariance
                self.disagreement[i] = found.misfit
            first = inverse(poses[0])
            self.poses = tuple(composed(p, first) for p in poses)
        self.posed = windows

    def _by_neighbours(self, moments: Array, windows: int) -> tuple[Pose, ...]:
        """Return poses of all frames along a tree of neighbours, from robot 0 on."""
        found: dict[int, Pose] = {0: (np.eye(3), np.zeros(3))}
        todo = [0]
        while todo:
            i = todo.pop(0)
            for j in self.graph.neighbours[i]:
                if j in found:
                    continue
                both = np.hstack([moments[:, self._columns(i)], moments[:, self._columns(j)]])
                spreads = (self.parts[i].spread, self.parts[j].spread)
                pose = pose_between(both, spreads, windows, self.overlap).pose
                found[j] = composed(pose, found[i])
                todo.append(j)
        return tuple(found[k] for k in range(self.count))

    def _fused(self, moments: Array, maps: dict[int, Array]) -> tuple[Array, Array]:
        """Return the motion that robots agree on, and its covariance, in the maps' frame."""
        information = np.zeros((SIZE, SIZE))
        vector = np.zeros((len(moments), SIZE))
        for j, M in maps.items():
            weight = np.linalg.inv(M @ self.parts[j].spread @ M.T)
            information += weight
            vector += moments[:, self._columns(j)] @ (M.T @ weight)
        spread = np.asarray(np.linalg.inv(information))
        return vector @ spread, spread

    def _load(self, moments: Array, windows: int) -> LoadInformation:
        """Return what rows tell of the load, in robot 0's frame."""
        assert self.poses is not None
        back = [inverse(p) for p in self.poses]
        fused, spread = self._fused(moments, {j: motion_map(p) for j, p in enumerate(back)})
        wrench, of_wrench = np.zeros((len(moments), 6)), np.zeros((6, 6))
        for j, pose in enumerate(back):
            D = wrench_map(pose)
            wrench += moments[:, WIDE * j + SIZE : WIDE * (j + 1)] @ D.T
            of_wrench += D @ self.parts[j].wrench_spread @ D.T
        return LoadInformation(np.hstack([fused, wrench]), spread, of_wrench, windows, self.overlap)

    def _solve(self, end: float) -> None:
        assert self.poses is not None
        if self.loaded < self.method.first:
            self.known.append(self._known(end))
            return
        guess = self.current.values if self.current is not None else None
        moments = triangle_of(self.of_load)
        load = self._load(moments, self.loaded)
        found = load.estimate(guess)
        if found is None:
            self.current = self._known(end)
        else:
            values, covariance, misfit = found
            covariance = covariance + self._of_poses(moments, load, values)
            self.current = replace(
                self._known(end), values=values, covariance=covariance, misfit=misfit
            )
        self.known.append(self.current)

    def _known(self, end: float) -> Known:
        """Return what is known without a load."""
        assert self.poses is not None
        return Known(end, self.poses, None, None, np.nan, tuple(self.disagreement))

    def _of_poses(self, moments: Array, load: LoadInformation, values: Array) -> Array:
        """Return the covariance that the poses' errors add to π in robot 0's frame, shape (10, 10).

        Gauss and Newton's step for the residuals that a small change of each pose makes.
        """
        assert self.poses is not None
        back = [inverse(p) for p in self.poses]
        J, root = load.regressor(load.factor[:, :SIZE]), np.linalg.cholesky(load.spread(values))
        white = np.linalg.solve(root, J)
        step = Directions.of(triangle_of(white.reshape(-1, len(values))), len(values))
        inverse_gram = step.inverse @ step.inverse.T
        weights = [
            np.linalg.inv(motion_map(b) @ p.spread @ motion_map(b).T)
            for b, p in zip(back, self.parts, strict=True)
        ]
        found = np.zeros((len(values), len(values)))
        for j, pose in enumerate(self.poses):
            columns = np.zeros((len(values), 6))
            motion = moments[:, self._columns(j)]
            wrench = moments[:, WIDE * j + SIZE : WIDE * (j + 1)]
            for k, change in enumerate(SMALL * np.eye(6)):
                other = inverse(moved(pose, change))
                moves = (motion_map(other) - motion_map(back[j])).T @ weights[j]
                turns = (wrench_map(other) - wrench_map(back[j])).T
                rest = wrench @ turns - load.regressor(motion @ moves @ load.motion_spread) @ values
                pushed = np.einsum("nij,ni->j", white, np.linalg.solve(root, rest.T).T)
                columns[:, k] = inverse_gram @ pushed
                if j == 0:
                    columns[:, k] += frame_change(*moved(pose, change)) @ values - values
            found += columns @ self.pose_spreads[j] @ columns.T / SMALL**2
        return found

    def _against(self, row: Array) -> bool:
        """Return whether a window ends the load, and count those that speak against it."""
        now = self.current
        if now is None or now.values is None or now.covariance is None:
            return False
        load = self._load(row, 1)
        Y = load.regressor(load.factor[:, :SIZE])[0]
        rest = load.factor[0, SIZE:] - Y @ now.values
        spread = max(now.misfit, 1.0) * load.spread(now.values) + Y @ now.covariance @ Y.T
        squared = float(rest @ np.linalg.solve(spread, rest))
        self.hits = self.hits + 1 if squared > self.method.unlikely else 0
        return self.hits >= self.method.against or squared > self.method.impossible
