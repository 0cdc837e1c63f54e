"""heft's own method for a team that holds one load; [Fan2017]'s is `PaperMethod`.

Everything that a robot tells is a row of 24 numbers a window, its motion and its wrench. Second
moments of all robots' rows side by side are a triangle, which adds; poses of the contacts and the
load are read off it at any time, with what is known of the poses by then, so that nothing is
frozen and nothing counts twice. A window that the load does not explain ends the load's triangle
and begins the next: it does not forget otherwise. Motion that is no more than noise, or about one
axis, does not tell the poses: nothing is known until they are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from heft.arrays import Array
from heft.estimators import measured_regressor_covariance
from heft.information import Graph, inertia, triangle_of

from .agreement import Agreement, Doubt, TeamMotions, fused
from .load import (
    LoadBelief,
    LoadEstimate,
    LoadInformation,
    TeamBelief,
    WrenchDoubt,
    wrench_doubt,
)
from .replication import WIDTH
from .signals import ContactSignals
from .window_stream import WindowSettings, steepness, windows_of
from .windows import (
    ALPHA,
    OMEGA,
    PLANAR,
    SIZE,
    SPATIAL,
    SUMMED,
    Pose,
    Space,
    Windows,
    composed,
    difference,
    inverse,
    moved,
)


@dataclass(frozen=True)
class CooperativeMethod:
    """Settings of heft's own method for a team."""

    windows: WindowSettings = WindowSettings()  # of signals
    first: int = 20  # windows before the first estimate
    every: int = 5  # windows from one estimate of the load to the next
    longer: float = 1.25  # poses are estimated anew when there are this many times as many windows
    # whether the load moves in a plane, all contacts' z axes across it: mass, two coordinates of
    # its centre and one moment of inertia are then all that there is
    planar: bool = False
    belief: TeamBelief = TeamBelief()  # what is known beside, of the contacts and the first load

    @property
    def space(self) -> Space:
        """Components of windows, poses and loads that are used."""
        return PLANAR if self.planar else SPATIAL

    def identify(self, team: Sequence[ContactSignals], graph: Graph) -> CooperativeResult:
        """Return the team's estimates over time.

        Args:
            team: Signals of each robot, at times of its own on one clock.
            graph: Neighbours, whose motions are compared.
        """
        parts = windows_of(team, self.windows)
        run = CooperativeRun(self, parts, graph)
        rows = np.hstack([np.hstack([p.motion, p.wrench]) for p in parts])
        for k in np.flatnonzero(np.isfinite(rows).all(axis=1)):
            run.step(rows[k], float(parts[0].time[k]))
        return run.result()


@dataclass(frozen=True, eq=False)
class Known:
    """Team estimate at one time."""

    time: float  # end of the last window [s]
    # of each robot's frame: R and t take coordinates of the first robot's to its own. None where
    # the motion so far does not tell them all; None of one whose sensors lie and do not tell it.
    # The first robot is the first that has any
    poses: tuple[Pose | None, ...] | None
    values: Array | None  # π of the load in that first frame, shape (10,); None where not told yet
    covariance: Array | None  # of π, shape (10, 10)
    misfit: float  # mean squared residual of the load's windows, by their deviations
    # by robot, the mean squared difference of its motion from what all others agree on, by its
    # deviation: 1 where sensors are as noisy as they seem
    disagreement: tuple[float, ...] = ()
    unplaced: tuple[int, ...] = ()  # robots whose poses the motion does not tell
    space: Space = SPATIAL  # which parameters those of π are
    # robots whose motion sensors do not go with the others', and are left out of what is agreed
    doubts: tuple[Doubt, ...] = ()
    # whose wrench explains what the load leaves over, where one's does
    wrench_doubt: WrenchDoubt | None = None
    # what the wrench sensors' offsets make of the total moment and force in that first frame, shape
    # (6,) [N·m and N], and its covariance: only their sum tells; None where not told
    offset: tuple[Array, Array] | None = None

    @property
    def first(self) -> int:
        """Index of the first robot that has a pose, in whose frame π is."""
        return next((k for k, pose in enumerate(self.poses or ()) if pose is not None), 0)

    def with_load_of(self, before: Known) -> Known:
        """Return the estimate with the load of an earlier one of the same robots."""
        pose = None if self.poses is None else self.poses[before.first]
        if pose is None or before.values is None or before.covariance is None:
            return self
        change = self.space.load_map(inverse(pose))
        covariance = change @ before.covariance @ change.T
        return replace(self, values=change @ before.values, covariance=covariance)

    def between(self, to: int, of: int) -> Pose | None:
        """Return R and t from one robot's frame to another's; None where not determined yet."""
        if self.poses is None:
            return None
        one, other = self.poses[to], self.poses[of]
        return None if one is None or other is None else composed(one, inverse(other))

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame, physically consistent; None if not determined yet."""
        pose = None if self.poses is None else self.poses[robot]
        if pose is None or self.values is None or self.covariance is None:
            return None
        change, values = self.space.load_map(pose), self.values
        if values[0] <= 0.0:
            return None  # no body: windows that tell nothing, or wrenches of the wrong sign
        covariance = change @ self.covariance @ change.T
        if self.space.planar:
            return LoadEstimate.planar(change @ values, covariance)
        if inertia.consistency_margin(values) <= 0.0:  # in one frame: it is one body for all
            values = inertia.nearest_consistent(values)
            # deviations, beyond which it is none
            if abs(values[0] - self.values[0]) > 5.0 * np.sqrt(self.covariance[0, 0]):
                return None
        return LoadEstimate(*inertia.to_body(change @ values), covariance)


@dataclass(frozen=True, eq=False)
class CooperativeResult:
    """Team estimates over time."""

    known: tuple[Known, ...]  # in order of time
    changes: tuple[float, ...]  # times at which the load was found to be another [s]

    def at(self, time: float) -> Known:
        """Return the latest estimate at a time [s]; one without values before the first."""
        nothing = Known(time, None, None, None, np.nan)
        return next((k for k in reversed(self.known) if k.time <= time), nothing)


@dataclass(frozen=True, eq=False)
class Sums:
    """Linear map from the rows of all robots to the load's motion and wrench, at given poses.

    Contacts are fixed to the load, so that all offsets of wrench sensors make one constant wrench
    in its frame: as many parameters, in deviations of their prior, are estimated behind π.
    """

    # takes a row of all with a one to the motion that is agreed on, that one, and the wrench of all
    # less the offset's mean, shape (any, k + 1 + r)
    by: Array
    motion_spread: Array  # covariance of that motion and one, shape (k + 1, k + 1)
    wrench_spread: Array  # of that wrench, shape (r, r)
    offset: tuple[Array, Array]  # mean of that offset's prior, and root of its covariance
    belief: LoadBelief  # what is known of the load and offset, in the frame of the poses
    # by robot that counts in the motion, the share of its own noise in what tells its pose: the
    # rest is that of the others, which is in their poses, too
    shares: Mapping[int, float]


class CooperativeRun:
    """Recursive identification over the windows of all robots.

    Covariances and overlap are those of the parts, windows of each robot.
    """

    def __init__(self, method: CooperativeMethod, parts: Sequence[Windows], graph: Graph) -> None:
        self.method, self.graph, self.space = method, graph, method.space
        self.belief = method.belief
        self.parts = [self.space.of(p) for p in parts]
        self.count = len(parts)
        self.overlap = max(p.overlap for p in parts)
        self.agreed = Agreement(unplaced=tuple(range(self.count)))
        self.poses: Mapping[int, Pose] = {}  # agreed on, and by wrenches where a load is known
        self.posed = self.pose_part_at = 0
        self.covariance = np.zeros((0, 0))  # of π and offsets, poses unknown; it changes slowly
        self.seen = 0
        self.wide = len(self.space.columns)
        self.moments = np.zeros((0, self.wide * self.count))
        self.of_load = np.zeros((0, self.wide * self.count + 1))  # the last of ones
        self.loaded = self.fresh = 0
        self.end = 0.0
        self.skip_until = -np.inf
        self.hits = 0
        self.current: Known | None = None
        self.fitted: tuple[Array, Array] | None = None  # π and offsets, and their covariance
        # the total wrench's offset and its covariance by the loads before; None of the first
        self.offset: tuple[Array, Array] | None = None
        self.known: list[Known] = []
        self.changes: list[float] = []
        self._summed: tuple[tuple[object, ...], Sums] | None = None

    def step(self, row: Array, time: float) -> None:
        """Process the next window of all robots.

        Args:
            row: Motion and wrench, robot by robot, shape (24 n,).
            time: Its middle [s].
        """
        method = self.method
        row = row.reshape(self.count, WIDTH)[:, self.space.columns].reshape(1, -1)
        half = 0.5 * method.windows.length
        self.seen, self.end = self.seen + 1, time + half
        self.moments = self._added(self.moments, row)
        if time - half < self.skip_until:
            return
        row = np.hstack([row, np.ones((1, 1))])
        if self._against(row):
            self.changes.append(self.end)
            self.of_load, self.loaded, self.fresh = self.of_load[:0], 0, 0
            self.pose_part_at = 0
            assert self.current is not None
            self.belief, self.offset = self.belief.of_another_load(), self.current.offset
            self.skip_until, self.hits = self.end, 0
            self.current = self.fitted = None
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
        """Replace the covariances of each robot's windows."""
        self.parts = [self.space.of(p) for p in parts]

    def result(self) -> CooperativeResult:
        """Return the estimates over time, the last with all windows so far."""
        self.settle()
        return CooperativeResult(tuple(self.known), tuple(self.changes))

    def settle(self) -> None:
        """Estimate poses and load with all windows so far, even if an estimate is not due."""
        if self.seen:
            self.fresh = 0
            self._pose(self.seen)
            self._solve(self.end)

    def _added(self, moments: Array, row: Array) -> Array:
        """Append a row to a factor; make it a triangle beyond twice as many rows as columns."""
        grown = np.vstack([moments, row])
        return triangle_of(grown) if len(grown) > 2 * grown.shape[1] else grown

    def _motions(self, moments: Array) -> dict[int, Array]:
        size = len(self.space.motion)
        return {k: moments[:, self.wide * k :][:, :size] for k in range(self.count)}

    def _pose(self, windows: int) -> None:
        moments = triangle_of(self.moments) if len(self.moments) > 1 else self.moments
        self.posed = windows
        motions = [*self._motions(moments).values()]
        beliefs = self.belief.poses
        team = TeamMotions(motions, self.parts, windows, self.graph, self.space, beliefs)
        start = {} if self.agreed.unplaced else self.agreed.poses
        self.agreed = team.agree(start)
        if self.fitted is None or self.agreed.poses.keys() != self.poses.keys():
            self.poses = self.agreed.poses  # else with the load, which comes next
        self.pose_part_at = 0

    @property
    def placed(self) -> bool:
        """Whether all robots' poses are known, so that wrenches can be summed."""
        return not self.agreed.unplaced and len(self.agreed.poses) == self.count

    def _sums(self, poses: Mapping[int, Pose]) -> Sums:
        """Return the map from rows of all robots to those of the load, in robot 0's frame."""
        back = {j: inverse(pose) for j, pose in poses.items()}
        space, size = self.space, len(self.space.wrench)
        excluded, k = {doubt.robot for doubt in self.agreed.doubts}, len(space.motion)
        maps = {j: space.motion_map(p) for j, p in back.items() if j not in excluded}
        each = np.eye(self.wide * self.count + 1)
        agreed, spread = fused(self._motions(each), self.parts, maps)
        shares = {
            j: 1.0 - np.trace(np.linalg.solve(M.T, agreed[self.wide * j :][:k])) / k
            for j, M in maps.items()
        }
        wrench, of_wrench = np.zeros((len(each), size)), np.zeros((size, size))
        mean, of_offset = self.offset or (np.zeros(size), np.zeros((size, size)))
        for j, pose in back.items():
            D, noise = space.wrench_map(pose), self.parts[j].wrench_spread
            wrench += self._wrenches(each, j) @ D.T
            of_wrench += D @ noise @ D.T
            of_offset = of_offset + (D * self._offset_std(j) ** 2) @ D.T
        wrench[-1] -= mean
        values, axes = np.linalg.eigh(of_offset)
        root = (axes * np.sqrt(np.maximum(values, 0.0))) @ axes.T
        belief = self.belief.of_load(poses, space).beside(size)
        by = np.hstack([agreed, each[:, -1:], wrench])
        spread = np.pad(spread, ((0, 1), (0, 1)))
        return Sums(by, spread, of_wrench, (mean, root), belief, shares)

    def _agreed_sums(self) -> Sums:
        """Return `_sums` of the poses, cached because many windows share them."""
        made_of = (self.agreed, self.poses, self.parts, self.belief, self.offset)
        kept = self._summed
        if kept is None or any(a is not b for a, b in zip(made_of, kept[0], strict=True)):
            kept = self._summed = made_of, self._sums(self.poses)
        return kept[1]

    def _load(self, moments: Array, windows: int, sums: Sums) -> LoadInformation:
        of_load, (_, root) = self.space.load_tensor, sums.offset
        (k, r, p), size = of_load.shape, len(root)
        tensor = np.zeros((k + 1, r, p + size))
        tensor[:k, :, :p], tensor[k, :, p:] = of_load, root
        spreads = sums.motion_spread, sums.wrench_spread
        grown = moments @ sums.by
        return LoadInformation(grown, *spreads, windows, self.overlap, tensor, sums.belief)

    def _solve(self, end: float) -> None:
        if not self.placed or self.loaded < self.method.first:
            self.current = self._known(end)
            self.known.append(self.current)
            return
        moments, sums = triangle_of(self.of_load), self._agreed_sums()
        load = self._load(moments, self.loaded, sums)
        estimate = load.estimate(None if self.fitted is None else self.fitted[0])
        if estimate is not None and self.loaded >= self.method.longer * self.pose_part_at:
            # Slow motion has false optima: much inertia, and poses slightly wrong
            tried = [
                self._with_poses(moments, self.loaded, start)
                for start in (estimate[0], load.without_inertia(self.space.load))
            ]
            _, poses, values, covariance = min(tried, key=lambda t: t[0])
            if covariance is None:
                estimate = None
            else:
                self.poses, self.pose_part_at = poses, self.loaded
                load = self._load(moments, self.loaded, sums := self._agreed_sums())
                again = load.estimate(values)
                # times the noise, up to which wrenches tell poses, too
                if again is not None and again[2] < 1.2**2:
                    estimate = again
                else:  # wrenches that no load explains tell nothing of poses
                    self.poses = self.agreed.poses
                    load = self._load(moments, self.loaded, sums := self._agreed_sums())
                    estimate = load.estimate(estimate[0])
                # Errors of coarse numbers last for samples: windows see more than white noise of
                # them, and so does what they leave over
                misfit = 1.0 if estimate is None else max(estimate[2], 1.0)
                self.covariance = misfit * covariance
        if estimate is None or not self.pose_part_at:
            self.current, self.fitted = self._known(end), None
        else:
            (values, _, misfit), covariance = estimate, self.covariance
            _, _, values, _ = self._with_poses(moments, self.loaded, values, self.poses)
            self.fitted, size = (values, covariance), len(self.space.load)
            (mean, root), behind = sums.offset, covariance[size:, size:]
            self.current = replace(
                self._known(end),
                values=values[:size],
                covariance=covariance[:size, :size],
                offset=(mean + root @ values[size:], root @ behind @ root),
                misfit=misfit,
                wrench_doubt=self._wrench_doubt(moments, load, values),
            )
        self.known.append(self.current)

    def _wrenches(self, moments: Array, robot: int) -> Array:
        first = self.wide * robot + len(self.space.motion)
        return moments[:, first : self.wide * (robot + 1)]

    def _wrench_doubt(
        self, moments: Array, load: LoadInformation, values: Array
    ) -> WrenchDoubt | None:
        own = {
            k: (self._wrenches(moments, k), self.space.wrench_map(inverse(pose)))
            for k, pose in self.poses.items()
        }
        return wrench_doubt(load, values, own, moments[:, -1], self.space.wrench)

    def _known(self, end: float) -> Known:
        """Return the estimate of the poses, without a load."""
        agreed, robots = self.agreed, range(self.count)
        placed = self.poses and not agreed.unplaced
        poses = tuple(self.poses.get(k) for k in robots) if placed else None
        apart = tuple(agreed.apart.get(k, 1.0) for k in robots)
        beside = agreed.unplaced, self.space, agreed.doubts
        return Known(end, poses, None, None, np.nan, apart, *beside)

    def _with_poses(
        self, moments: Array, windows: int, values: Array, fixed: Mapping[int, Pose] | None = None
    ) -> tuple[float, dict[int, Pose], Array, Array | None]:
        """Return cost, poses, π with offsets by motions and wrenches together, and covariance.

        What motions tell of the poses is a prior, and wrenches tell of them what they leave over.
        A residual is linear in a row of all, so that the likelihood is of the rows' moments alone.
        It weighs by the noise that sums over neighbours have (see `_slow`): what a window's has
        beyond is known on average, and taken off.
        The covariance, of π and offsets, is None where not told.

        Args:
            moments: Rows with the load, or a factor of them, shape (any, 24 n + 1).
            windows: How many.
            values: Initial π and offsets.
            fixed: Poses that stay as they are; all are estimated if None, and only then is the
                covariance that of poses unknown.
        """
        agreed, own, weight = self.agreed, np.eye(moments.shape[1]), self.overlap
        names, used = [] if fixed else sorted(agreed.poses)[1:], list(self.space.pose)
        pose_weight = np.zeros((0, 0)) if fixed else np.linalg.inv(self._pose_spread())
        noise = block_diag(*(m for p in self.parts for m in (p.spread, p.wrench_spread)), 0.0)
        slow, rows, count = self._slow(moments, noise), moments.T @ moments, len(values)
        beyond = rows - windows * (noise - slow)  # as if noise were the slow one

        def at(poses: Mapping[int, Pose], values: Array) -> tuple[float, LoadInformation, Array]:
            """Return the cost, the load of rows of one, and how far poses are from the prior's."""
            load = self._load(own, windows, self._agreed_sums() if fixed else self._sums(poses))
            residual = load.residual(values)
            apart = np.ravel([difference(agreed.poses[j], poses[j])[used] for j in names])
            off = load.belief.residuals(values)
            spread = residual.T @ slow @ residual
            cost = np.trace(np.linalg.solve(spread, residual.T @ beyond @ residual))
            return float(cost + weight * (apart @ pose_weight @ apart + off @ off)), load, apart

        poses: dict[int, Pose] = dict(fixed or agreed.poses)
        cost, load, apart = at(poses, values)
        for _ in range(30):  # of Gauss and Newton, at most
            residual = load.residual(values)
            by_pose = [self._pose_slopes(poses, j, load, values) for j in names]
            slopes = np.concatenate([-load.regressor(load.motion), *by_pose], axis=2)
            inverse_spread = np.linalg.inv(residual.T @ slow @ residual)
            likely = own - residual @ inverse_spread @ residual.T @ slow
            seen = np.tensordot(likely, slopes, 1)
            both = np.einsum("ij,ajp->aip", inverse_spread, seen)
            observed = np.einsum("aip,ab,biq->pq", seen, rows, both, optimize=True)
            J = load.belief.jacobian(values)
            known = block_diag(J.T @ J, pose_weight)
            down = -np.einsum("ai,aip->p", beyond @ residual, both)
            prior = [J.T @ load.belief.residuals(values), pose_weight @ apart]
            down -= weight * np.concatenate(prior)
            step = np.linalg.solve(observed + weight * known, down)
            for share in 0.5 ** np.arange(6):
                turns = np.split(share * step[count:], max(len(names), 1))
                there = dict(poses)
                for j, change in zip(names, turns, strict=False):
                    there[j] = moved(poses[j], self.space.change(change))
                new, load_there, apart_there = at(there, values + share * step[:count])
                if new < cost:
                    break
            gained = cost - new
            if gained > 0.0:
                cost, load, apart, poses = new, load_there, apart_there, there
                values = values + share * step[:count]
            if gained < 1e-2 * weight:  # of χ²
                break
        of_noise = np.einsum("aip,ab,biq->pq", seen, windows * noise, both, optimize=True)
        covariance = measured_regressor_covariance(
            observed / weight, of_noise / weight, windows / weight, known
        )
        grown = None if covariance is None else covariance[:count, :count]
        return cost, poses, values, grown

    def _pose_slopes(
        self, poses: Mapping[int, Pose], robot: int, load: LoadInformation, values: Array
    ) -> Array:
        """Return the derivative of a row's residual by a robot's turn and shift, (any, r, k).

        With M the map to a robot's frame and Σ its noise, what is agreed on of motions m is
        Σ_j m_j Σ_j⁻¹ M_j S, S⁻¹ = Σ_j M_jᵀ Σ_j⁻¹ M_j.

        Args:
            load: Of the unit rows at these poses.
            values: π and offsets.
        """
        space, pose, own = self.space, poses[robot], self.parts[robot]
        k, first = len(space.motion), self.wide * robot
        made = np.zeros((len(space.pose), len(load.factor), len(space.wrench)))
        if all(doubt.robot != robot for doubt in self.agreed.doubts):
            slopes = np.linalg.solve(own.spread, space.motion_slopes(pose))
            turned = space.motion_map(pose).T @ slopes
            agreed = -load.motion[:, :k] @ (turned + np.swapaxes(turned, 1, 2))
            agreed[:, first : first + k] += slopes
            made -= agreed @ (load.motion_spread[:k, :k] @ (load.tensor[:k] @ values))
        back = space.wrench_map(inverse(pose))
        by_pose = -back @ space.wrench_slopes(pose) @ back
        made[:, first + k : first + self.wide] += np.swapaxes(by_pose, 1, 2)
        std = self._offset_std(robot)
        if np.any(std):
            # of a root of S: V (Vᵀ dS V)ᵢⱼ / (rᵢ + rⱼ) Vᵀ
            size = len(space.load)
            roots, axes = np.linalg.eigh(load.tensor[k, :, size:])
            sums = np.maximum(roots[:, None] + roots, 1e-12 * roots[-1])
            half = (by_pose * std**2) @ back.T
            rotated = axes.T @ (half + np.swapaxes(half, 1, 2)) @ axes
            made[:, -1] -= (rotated / sums) @ (axes.T @ values[size:]) @ axes.T
        return np.moveaxis(made, 0, 2)

    def _offset_std(self, robot: int) -> Array:
        """Return the prior deviation of an offset while it is unknown, of what is measured."""
        if self.offset is not None or robot not in self.belief.offsets:
            return np.zeros(len(self.space.wrench))
        measured = np.diag(self.parts[robot].wrench_spread) > 0.0
        return np.asarray(self.belief.offsets[robot][list(self.space.wrench)] * measured)

    def _slow(self, moments: Array, noise: Array) -> Array:
        """Return the noise of rows as sums over neighbours have it, each counted as `overlap`.

        Noise of angular accelerations nearly cancels from window to window: at the motion's
        frequencies it is that of angular velocities times those, and not that of a window's edge.
        """
        numbers = np.array([*self.space.columns * self.count, SIZE + 6])
        alpha, omega = (np.isin(numbers, range(SIZE)[part]) for part in (ALPHA, OMEGA))
        squares = np.sum(moments**2, axis=0)
        frequency = 2.0 * squares[alpha].sum() / max(squares[omega].sum(), np.finfo(float).tiny)
        share = np.where(alpha, min(frequency / steepness(self.method.windows.length), 1.0), 1.0)
        return np.asarray(np.sqrt(np.outer(share, share)) * noise)

    def _pose_spread(self) -> Array:
        """Return the covariance of all poses against robot 0's, as motions tell them.

        A robot's pose is told against all others' motion, of which the noise is in their poses,
        too: only its own share counts here.
        """
        poses, shares = self.agreed.poses, self._agreed_sums().shares
        names = sorted(poses)[1:]
        parts = {j: shares.get(j, 1.0) * self.agreed.spreads[j] for j in poses}
        chosen = np.ix_(self.space.pose, self.space.pose)
        turns = [block_diag(R, R)[chosen] for R, _ in (poses[j] for j in names)]
        columns = np.concatenate([np.zeros((0, len(self.space.pose))), *turns])
        own = block_diag(np.zeros((0, 0)), *[parts[j] for j in names])
        return np.asarray(own + columns @ parts[min(poses)] @ columns.T)

    def _against(self, row: Array) -> bool:
        """Return whether a χ² test of a window ends the load, and count windows against it."""
        now = self.current
        if not self.placed or now is None or self.fitted is None:
            return False
        values, covariance = self.fitted
        load = self._load(row, 1, self._agreed_sums())
        Y = load.regressor(load.motion)[0]
        rest = load.wrench[0] - Y @ values
        spread = max(now.misfit, 1.0) * load.spread(values) + Y @ covariance @ Y.T
        # Windows are sums of samples: they are no surer than the integrals that they stand for
        spread += np.diag((SUMMED * (np.abs(Y) @ np.abs(values))) ** 2)
        squared = float(rest @ np.linalg.solve(spread, rest))
        # Of six: two windows in a row that are unlikely, or one that is impossible.
        self.hits = self.hits + 1 if squared > 40.0 else 0
        return self.hits >= 2 or squared > 100.0
