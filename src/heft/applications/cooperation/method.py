"""heft's own method for a team that holds one load; [Fan2017]'s is `PaperMethod`.

Everything that a robot tells is a row of 24 numbers a window, its motion and its wrench. Second
moments of all robots' rows side by side are a triangle, which adds; poses of the contacts and the
load are read off it at any time, with what is known of the poses by then, so that nothing is
frozen and nothing counts twice. A window that the load does not explain ends the load's triangle
and begins the next: it does not forget otherwise. Motion that is no more than noise, or about one
axis, does not tell the poses: nothing is known until they are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.information import Graph, inertia, triangle_of

from .load import LoadInformation
from .pose import MotionPair, composed, inverse, moved
from .signals import ContactSignals, LoadEstimate, Pose
from .windows import PLANAR, SIZE, SPATIAL, Space, Windows, WindowSettings

WIDE = SIZE + 6  # numbers of a robot's window
SUMMED = 1e-3  # share of its terms to which a window's wrench is taken to be summed
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
        planar: Whether the load moves in a plane, all contacts' z axes across it: mass, two
            coordinates of its centre and one moment of inertia are then all that there is.
    """

    windows: WindowSettings = WindowSettings()
    first: int = 20
    every: int = 5
    longer: float = 1.25
    rounds: int = 3
    unlikely: float = 40.0
    against: int = 2
    impossible: float = 100.0
    planar: bool = False

    @property
    def space(self) -> Space:
        """Which numbers there are."""
        return PLANAR if self.planar else SPATIAL

    def identify(self, team: Sequence[ContactSignals], graph: Graph) -> CooperativeResult:
        """Return what a team knows over time.

        Args:
            team: What each robot's sensors read, at the same times.
            graph: Who talks to whom: whose motions are compared.
        """
        parts = [Windows.of(robot, self.windows) for robot in team]
        run = CooperativeRun(self, parts, graph)
        rows = np.hstack([np.hstack([p.motion, p.wrench]) for p in parts])
        for k in np.flatnonzero(np.isfinite(rows).all(axis=1)):
            run.step(rows[k], float(parts[0].time[k]))
        return run.result()


@dataclass(frozen=True, eq=False)
class Known:
    """What a team knows at a time.

    Attributes:
        time: End of the last window [s].
        poses: Of each robot's frame: R and t take coordinates of robot 0 to its own; None where
            the motion so far does not tell them all.
        values: π of the load in robot 0's frame, shape (10,); None where not told yet.
        covariance: Of π, shape (10, 10).
        misfit: Mean squared residual of the load's windows, by their deviations.
        disagreement: By robot, the mean squared difference of its motion from what all others agree
            on, by its deviation: 1 where sensors are as noisy as they seem.
        unplaced: Robots whose poses the motion does not tell.
        space: Which parameters those of π are.
    """

    time: float
    poses: tuple[Pose, ...] | None
    values: Array | None
    covariance: Array | None
    misfit: float
    disagreement: tuple[float, ...] = ()
    unplaced: tuple[int, ...] = ()
    space: Space = SPATIAL

    @property
    def doubtful(self) -> int | None:
        """The robot whose motion sensors do not go with the others'; None if all do, or if unclear.

        What one robot measures wrongly is in its own difference whole, and in that of each other
        by its share of what they agree on.
        """
        if self.poses is None or len(self.disagreement) < FEWEST_WITNESSES:
            return None
        worst = int(np.argmax(self.disagreement))
        most = self.disagreement[worst]
        second = max(d for k, d in enumerate(self.disagreement) if k != worst)
        clear = most > DOUBTFUL and most - 1.0 > 2.0 * max(second - 1.0, 0.0)
        return worst if clear else None

    def between(self, to: int, of: int) -> Pose | None:
        """Return R and t from one robot's frame to another's; None where not told yet."""
        if self.poses is None:
            return None
        return composed(self.poses[to], inverse(self.poses[of]))

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame, physically consistent; None where not told yet."""
        if self.poses is None or self.values is None or self.covariance is None:
            return None
        change = self.space.load_map(self.poses[robot])
        values = change @ self.values
        if values[0] <= 0.0:
            return None  # no body: windows that tell nothing, or wrenches of the wrong sign
        if self.space.planar:
            return LoadEstimate.planar(values, change @ self.covariance @ change.T)
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
        nothing = Known(time, None, None, None, np.nan)
        return next((k for k in reversed(self.known) if k.time <= time), nothing)


def unplaced(
    team: Sequence[ContactSignals], graph: Graph, space: Space = SPATIAL
) -> tuple[int, ...]:
    """Return the robots whose poses relative to robot 0 the motion does not tell.

    Args:
        team: What each robot's sensors read, at the same times.
        graph: Whose motions are compared.
        space: Which numbers there are.
    """
    parts = [Windows.of(robot) for robot in team]
    parts = [space.of(p) for p in parts]
    sound = np.isfinite([p.motion for p in parts]).all(axis=(0, 2))
    motions = [p.motion[sound] for p in parts]
    placed = _by_neighbours(motions, parts, graph, int(sound.sum()), space)
    return tuple(k for k in range(len(parts)) if k not in placed)


def _by_neighbours(
    motions: Sequence[Array], parts: Sequence[Windows], graph: Graph, windows: int, space: Space
) -> dict[int, Pose]:
    """Return poses of frames from robot 0 on, along neighbours whose motions tell theirs."""
    overlap = max(p.overlap for p in parts)
    found: dict[int, Pose] = {0: (np.eye(3), np.zeros(3))}
    todo = [0]
    while todo:
        i = todo.pop(0)
        for j in graph.neighbours[i]:
            if j in found:
                continue
            both = np.hstack([motions[i], motions[j]])
            spreads = (parts[i].spread, parts[j].spread)
            told = MotionPair(both, spreads, windows, overlap, space).estimate()
            if told.covariance is not None:
                found[j] = composed(told.pose, found[i])
                todo.append(j)
    return found


class CooperativeRun:
    """One walk over windows of all robots, as they come.

    Args:
        method: Its settings.
        parts: Of each robot: covariances of its windows, and how many count as one.
        graph: Who talks to whom.
    """

    def __init__(self, method: CooperativeMethod, parts: Sequence[Windows], graph: Graph) -> None:
        self.method, self.graph, self.space = method, graph, method.space
        self.parts = [self.space.of(p) for p in parts]
        self.count = len(parts)
        self.overlap = max(p.overlap for p in parts)
        self.poses: tuple[Pose, ...] | None = None
        self.disagreement = [1.0 for _ in parts]
        self.unplaced: tuple[int, ...] = tuple(range(self.count))
        turns, load = len(self.space.pose), len(self.space.load)
        self.pose_spreads = [np.zeros((turns, turns)) for _ in parts]
        self.posed = self.pose_part_at = 0
        self.pose_part = np.zeros((load, load))  # of π's covariance; it changes slowly
        self.seen = 0
        self.wide = len(self.space.columns)
        self.moments = np.zeros((0, self.wide * self.count))
        self.of_load = np.zeros((0, self.wide * self.count))
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
        method = self.method
        row = row.reshape(self.count, WIDE)[:, self.space.columns].reshape(1, -1)
        half = 0.5 * method.windows.length
        self.seen, self.end = self.seen + 1, time + half
        self.moments = self._added(self.moments, row)
        if time - half < self.skip_until:
            return
        if self._against(row):
            self.changes.append(self.end)
            self.of_load, self.loaded, self.fresh = self.of_load[:0], 0, 0
            self.pose_part_at = 0
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
        if self.fresh >= method.every:
            self.fresh = 0
            self._solve(self.end)

    def use(self, parts: Sequence[Windows]) -> None:
        """Take other covariances of each robot's windows.

        Args:
            parts: As at the beginning.
        """
        self.parts = [self.space.of(p) for p in parts]

    def result(self) -> CooperativeResult:
        """Return what is known over time, with all windows that came."""
        if self.fresh:
            self.fresh = 0
            self._solve(self.end)
        return CooperativeResult(tuple(self.known), tuple(self.changes))

    def settle(self) -> None:
        """Estimate poses and load with all windows that came, whenever they were estimated last."""
        if self.seen:
            self.fresh = 0
            self._pose(self.seen)
            self._solve(self.end)

    def _added(self, moments: Array, row: Array) -> Array:
        """Return moments with another row; a triangle once there are more rows than columns."""
        whole = np.vstack([moments, row])
        return triangle_of(whole) if len(whole) > 2 * whole.shape[1] else whole

    def _columns(self, robot: int) -> slice:
        return slice(self.wide * robot, self.wide * robot + len(self.space.motion))

    def _pose(self, windows: int) -> None:
        """Estimate all poses anew: neighbour by neighbour, then each against all others."""
        moments = triangle_of(self.moments) if len(self.moments) > 1 else self.moments
        self.posed = windows
        refined = self.poses
        if refined is None:
            motions = [moments[:, self._columns(k)] for k in range(self.count)]
            placed = _by_neighbours(motions, self.parts, self.graph, windows, self.space)
            self.unplaced = tuple(k for k in range(self.count) if k not in placed)
            if self.unplaced:
                return
            refined = tuple(placed[k] for k in range(self.count))
        untold: set[int] = set()
        for _ in range(self.method.rounds):
            poses, untold = list(refined), set()
            for i in range(self.count):
                others = [j for j in range(self.count) if j != i]
                if not others:
                    break
                maps = {
                    j: self.space.motion_map(composed(poses[i], inverse(poses[j]))) for j in others
                }
                fused, spread = self._fused(moments, maps)
                both = np.hstack([fused, moments[:, self._columns(i)]])
                still = (np.eye(3), np.zeros(3))
                spreads = (spread, self.parts[i].spread)
                pair = MotionPair(both, spreads, windows, self.overlap, self.space)
                found = pair.estimate(still)
                poses[i] = composed(found.pose, poses[i])
                if found.covariance is None:
                    untold.add(i)
                else:
                    self.pose_spreads[i] = found.covariance
                self.disagreement[i] = found.misfit
            first = inverse(poses[0])
            refined = tuple(composed(p, first) for p in poses)
        self.pose_part_at = 0
        self.unplaced = tuple(sorted(untold))
        self.poses = None if untold else refined

    def _fused(self, moments: Array, maps: dict[int, Array]) -> tuple[Array, Array]:
        """Return the motion that robots agree on, and its covariance, in the maps' frame."""
        size = len(self.space.motion)
        information = np.zeros((size, size))
        vector = np.zeros((len(moments), size))
        for j, M in maps.items():
            weight = np.linalg.inv(M @ self.parts[j].spread @ M.T)
            information += weight
            vector += moments[:, self._columns(j)] @ (M.T @ weight)
        spread = np.asarray(np.linalg.inv(information))
        return vector @ spread, spread

    def _load(self, moments: Array, windows: int, poses: Sequence[Pose]) -> LoadInformation:
        """Return what rows tell of the load, in robot 0's frame."""
        back = [inverse(p) for p in poses]
        space, first, size = self.space, len(self.space.motion), len(self.space.wrench)
        fused, spread = self._fused(moments, {j: space.motion_map(p) for j, p in enumerate(back)})
        wrench, of_wrench = np.zeros((len(moments), size)), np.zeros((size, size))
        for j, pose in enumerate(back):
            D = space.wrench_map(pose)
            wrench += moments[:, self.wide * j + first : self.wide * (j + 1)] @ D.T
            of_wrench += D @ self.parts[j].wrench_spread @ D.T
        whole = np.hstack([fused, wrench])
        return LoadInformation(whole, spread, of_wrench, windows, self.overlap, space)

    def _solve(self, end: float) -> None:
        if self.poses is None or self.loaded < self.method.first:
            self.current = self._known(end)
            self.known.append(self.current)
            return
        guess = self.current.values if self.current is not None else None
        moments = triangle_of(self.of_load)
        load = self._load(moments, self.loaded, self.poses)
        found = load.estimate(guess)
        if found is None:
            self.current = self._known(end)
        else:
            values, covariance, misfit = found
            if self.loaded >= self.method.longer * self.pose_part_at:
                self.pose_part, self.pose_part_at = (
                    self._of_poses(moments, load, values),
                    self.loaded,
                )
            covariance = covariance + self.pose_part
            self.current = replace(
                self._known(end), values=values, covariance=covariance, misfit=misfit
            )
        self.known.append(self.current)

    def _known(self, end: float) -> Known:
        """Return what is known without a load."""
        told = tuple(self.disagreement)
        return Known(end, self.poses, None, None, np.nan, told, self.unplaced, self.space)

    def _of_poses(self, moments: Array, load: LoadInformation, values: Array) -> Array:
        """Return the covariance that the poses' errors add to π in robot 0's frame, shape (10, 10).

        By the implicit function theorem: a change of a pose moves the gradient of what π makes
        least, and π by that over the information. Noise in the motion is in neither.
        """
        assert self.poses is not None
        information = load.information(values)
        found = np.zeros((len(values), len(values)))
        poses = list(self.poses)
        for j, pose in enumerate(self.poses):
            pushed = np.zeros((len(values), len(self.space.pose)))
            turned = np.zeros_like(pushed)
            for k, step in enumerate(SMALL * np.eye(len(self.space.pose))):
                for sign in (1.0, -1.0):
                    poses[j] = moved(pose, sign * self.space.change(step))
                    there = self._load(moments, load.windows, poses)
                    pushed[:, k] += sign * there.gradient(values)
                    if j == 0:
                        turned[:, k] += sign * self.space.load_map(poses[j]) @ values
            poses[j] = pose
            columns = np.linalg.solve(information, pushed) + turned
            found += columns @ self.pose_spreads[j] @ columns.T / (2.0 * SMALL) ** 2
        return found

    def _against(self, row: Array) -> bool:
        """Return whether a window ends the load, and count those that speak against it."""
        now = self.current
        if self.poses is None or now is None or now.values is None or now.covariance is None:
            return False
        load = self._load(row, 1, self.poses)
        Y = load.regressor(load.motion)[0]
        rest = load.wrench[0] - Y @ now.values
        spread = max(now.misfit, 1.0) * load.spread(now.values) + Y @ now.covariance @ Y.T
        # Windows are sums of samples: they are no surer than the integrals that they stand for
        spread += np.diag((SUMMED * (np.abs(Y) @ np.abs(now.values))) ** 2)
        squared = float(rest @ np.linalg.solve(spread, rest))
        self.hits = self.hits + 1 if squared > self.method.unlikely else 0
        return self.hits >= self.method.against or squared > self.method.impossible
