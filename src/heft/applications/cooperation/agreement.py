"""What a team's robots agree on: the motion of the load, and where each of them holds it.

Neighbour by neighbour at first, then each against what all others agree on. A robot whose motion
does not go with the others' is left out of what is agreed if the others agree without it, and
without nobody else. Where it is one of its sensors that lies, its other two still tell how it
holds the load; where it is not, nothing tells that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heft.arrays import Array
from heft.information import Graph, triangle_of

from .signals import SENSORS
from .windows import (
    ALPHA,
    OMEGA,
    SENSOR_NUMBERS,
    SPATIAL,
    SPECIFIC,
    SQUARES,
    VELOCITY,
    MotionPair,
    Pose,
    PoseBelief,
    PoseEstimate,
    Space,
    Windows,
    composed,
    difference,
    inverse,
    moved,
)

STILL: Pose = (np.eye(3), np.zeros(3))
# Mean squared difference of a sensor over its variance, from which motions do not agree.
DOUBTFUL = 2.0
TURNS = (  # what of a motion turns with its frame alone, and what a lever adds to it
    ("angular_velocity", OMEGA, ()),
    ("velocity", VELOCITY, (OMEGA,)),
    ("acceleration", SPECIFIC, (ALPHA, SQUARES)),
)


@dataclass(frozen=True)
class Doubt:
    """Robot whose motion sensors contradict those of the others."""

    robot: int  # its place in the team
    # the one that lies, of `SENSOR_NUMBERS`; None where leaving out one does not do
    sensor: str | None
    # mean squared difference of its motion from what the others agree on, over its variance
    apart: float

    def words(self, name: str) -> str:
        """Return the message for a user."""
        size = f"by {np.sqrt(self.apart):.1f} times the noise"
        if self.sensor is not None:
            claim = f"The {SENSORS[self.sensor]} of {name} does not go with its other sensors and"
            return (
                f"{claim} the other robots, {size}: its motion is left out, and where it holds the "
                "load is found by its other sensors"
            )
        return (
            f"The motion sensors of {name} do not go with the others', {size}: its motion is left "
            "out, where it holds the load is not told, and so neither is the load"
        )


@dataclass(frozen=True, eq=False)
class Agreement:
    """Poses of a team, and how well its motions agree."""

    # by robot, R and t that take coordinates of the first robot that has any to its own
    poses: Mapping[int, Pose] = field(default_factory=dict)
    # by robot, the covariance of its pose against all others
    spreads: Mapping[int, Array] = field(default_factory=dict)
    # by robot, the mean squared difference of its motion from what all others agree on, by its
    # deviation, of the sensor for which it is largest: 1 where sensors are as noisy as they seem
    apart: Mapping[int, float] = field(default_factory=dict)
    unplaced: tuple[int, ...] = ()  # robots whose poses the motion does not tell
    doubts: tuple[Doubt, ...] = ()  # robots that are left out of what is agreed

    @property
    def worst(self) -> float:
        """Largest value of `apart`; infinite if there is none."""
        return max(self.apart.values(), default=np.inf)

    def of(self, robots: Sequence[int], anew: Sequence[int] | None = None) -> Agreement:
        """Return the agreement reduced to some robots.

        Args:
            robots: Their indices in this agreement.
            anew: Their indices in the result; 0, 1, … if None.
        """
        place = dict(zip(robots, range(len(robots)) if anew is None else anew, strict=True))
        poses = {place[k]: p for k, p in self.poses.items() if k in place}
        return Agreement(
            from_first(poses) if poses else {},
            {place[k]: s for k, s in self.spreads.items() if k in place},
            {place[k]: a for k, a in self.apart.items() if k in place},
            tuple(place[k] for k in self.unplaced if k in place),
            tuple(replace(d, robot=place[d.robot]) for d in self.doubts if d.robot in place),
        )

    def beliefs(self, others: Mapping[int, PoseBelief], space: Space) -> dict[int, PoseBelief]:
        """Return the poses as priors for another agreement.

        Args:
            others: Other priors, in a frame of their own: used for robots without a pose here,
                relative to those that have one.
        """
        if self.unplaced:
            return dict(others)
        priors = {}
        for k, pose in self.poses.items():
            information = np.zeros((6, 6))
            if k in self.spreads and np.any(self.spreads[k]):
                information[np.ix_(space.pose, space.pose)] = np.linalg.inv(self.spreads[k])
            priors[k] = PoseBelief(pose, information)
        for k in others.keys() - priors.keys():
            target = believed(k, others, self.poses)
            if target is not None:
                priors[k] = target
        return priors


def fused(
    motions: Mapping[int, Array], parts: Sequence[Windows], maps: Mapping[int, Array]
) -> tuple[Array, Array]:
    """Return the information-weighted mean of robots' motions in one frame, and its covariance.

    Args:
        motions: Of each robot, shape (any, k).
        parts: Windows of each robot, of which the covariance of motion is used.
        maps: By robot that counts, M that takes its motion to the common frame.
    """
    informations = {j: np.linalg.inv(M @ parts[j].spread @ M.T) for j, M in maps.items()}
    spread = np.asarray(np.linalg.inv(sum(informations.values())))
    vector = sum(motions[j] @ (maps[j].T @ weight) for j, weight in informations.items())
    return np.asarray(vector @ spread), spread


def from_first(poses: Mapping[int, Pose]) -> dict[int, Pose]:
    """Return poses relative to the frame of the first robot that has one."""
    back = inverse(poses[min(poses)])
    return {k: composed(pose, back) for k, pose in poses.items()}


def believed(
    robot: int, beliefs: Mapping[int, PoseBelief], poses: Mapping[int, Pose]
) -> PoseBelief | None:
    """Return the prior of a robot's pose given the others' poses; None if there is none.

    Args:
        beliefs: By robot, prior of its pose from a frame that all share.
        poses: Poses of the others; the robot's own is ignored.
    """
    own = beliefs.get(robot)
    others = [j for j in beliefs if j != robot and j in poses]
    if own is None or not others:
        return None
    targets, informations = [], []
    for j in others:
        change = composed(own.pose, inverse(beliefs[j].pose))
        turn = np.kron(np.eye(2), change[0])
        targets.append(composed(change, poses[j]))
        informations.append(turn @ beliefs[j].information @ turn.T)
    total = np.asarray(sum(informations))
    off = [
        weight @ difference(targets[0], target)
        for weight, target in zip(informations, targets, strict=True)
    ]
    target = moved(targets[0], np.linalg.pinv(total) @ np.sum(off, axis=0))
    information = own.information @ np.linalg.pinv(own.information + total) @ total
    return PoseBelief(target, 0.5 * (information + information.T))


@dataclass(frozen=True, eq=False)
class TeamMotions:
    """Windows of the motions of a team."""

    # of each robot, or factors with their second moments among all: shape (any, k) each
    motions: Sequence[Array]
    parts: Sequence[Windows]  # of each robot: covariances of its windows, and how many count as one
    windows: int  # how many windows that are
    graph: Graph  # who talks to whom
    space: Space = SPATIAL  # which k numbers there are
    # by robot, what is known of its pose beside, from a frame that all share
    beliefs: Mapping[int, PoseBelief] = field(default_factory=dict)

    @property
    def overlap(self) -> float:
        """Number of overlapping windows per independent one, the largest of the robots'."""
        return max(p.overlap for p in self.parts)

    def placed(
        self, robots: Sequence[int], placed_before: Mapping[int, Pose] | None = None
    ) -> dict[int, Pose]:
        """Return poses relative to the first robot, found neighbour by neighbour along the graph.

        Args:
            placed_before: Poses known already; if None or empty, the first robot's is the identity.
        """
        neighbours = self.graph.among(robots).neighbours
        poses = dict(placed_before) if placed_before else {robots[0]: STILL}
        todo = [robots.index(k) for k in poses]
        while todo:
            a = todo.pop(0)
            for b in neighbours[a]:
                i, j = robots[a], robots[b]
                if j in poses:
                    continue
                fit = self._pair(self.motions[i], self.parts[i].spread, j).estimate()
                if fit.covariance is not None:
                    poses[j] = composed(fit.pose, poses[i])
                    todo.append(b)
        for j in robots:
            target = None if j in poses else believed(j, self.beliefs, poses)
            if target is not None:
                poses[j] = target.pose
        return poses

    def _pair(self, one: Array, spread: Array, robot: int) -> MotionPair:
        both = triangle_of(np.hstack([one, self.motions[robot]]))
        spreads = (spread, self.parts[robot].spread)
        counted = self.space.compared()
        return MotionPair(both, spreads, self.windows, self.overlap, self.space, counted)

    def against(self, robot: int, poses: Mapping[int, Pose], about: Pose) -> MotionPair:
        """Return the others' fused motion paired with a robot's own, their frames nearly equal.

        Args:
            poses: Poses of the robots that are fused; the robot's own is ignored.
            about: Approximate pose of the robot, by which the others' motion is brought near its
                frame.
        """
        maps = {
            j: self.space.motion_map(composed(about, inverse(pose)))
            for j, pose in poses.items()
            if j != robot
        }
        agreed, spread = fused(dict(enumerate(self.motions)), self.parts, maps)
        belief = believed(robot, self.beliefs, poses)
        if belief is not None:
            belief = replace(belief, pose=composed(belief.pose, inverse(about)))
        return replace(self._pair(agreed, spread, robot), belief=belief)

    def refined(self, poses: Mapping[int, Pose], rounds: int = 3) -> Agreement:
        """Return poses of the robots that count, each refined against all others' fused motion."""
        now, spreads, apart = dict(poses), {}, dict.fromkeys(poses, 1.0)
        untold: set[int] = set()
        size = len(self.space.pose)
        if len(now) < 2:
            return Agreement(now, {k: np.zeros((size, size)) for k in now}, apart)
        for _ in range(rounds):
            before, untold = dict(now), set()
            for i, about in before.items():
                fit = self.against(i, before, about).estimate(STILL)
                now[i] = composed(fit.pose, about)
                before[i] = now[i]
                apart[i] = fit.apart
                if fit.covariance is None:
                    untold.add(i)
                else:
                    spreads[i] = fit.covariance
            now = from_first(now)
        return Agreement(now, spreads, apart, tuple(sorted(untold)))

    def agree(self, start: Mapping[int, Pose]) -> Agreement:
        """Return the team's poses, leaving out robots whose motions disagree.

        Robots without a pose to start with are placed by motion.
        """
        full = self._among(range(len(self.parts)), start)
        agreement, excluded = full, set[int]()
        while not agreement.unplaced and agreement.worst > self._limit:
            rest = self._without_one(agreement, excluded, start)
            if rest is None:
                return full  # nobody can tell who it is
            agreement, one = rest
            excluded.add(one)
        for robot in sorted(excluded):
            agreement = self._with_doubt(agreement, robot, excluded)
        return agreement

    @property
    def _limit(self) -> float:
        """Mean square of normalised 3-vectors beyond chance, by five deviations of it."""
        rows = self.windows / self.overlap
        return max(DOUBTFUL, 1.0 + 5.0 * float(np.sqrt(2.0 / (3.0 * rows))))

    def _among(
        self, robots: Sequence[int], start: Mapping[int, Pose], rounds: int = 3
    ) -> Agreement:
        poses = {k: start[k] for k in robots if k in start}
        if len(poses) < len(robots):
            poses = self.placed(robots, poses)
        lacking = tuple(k for k in robots if k not in poses)
        if lacking:
            return Agreement(unplaced=lacking)
        return self.refined(from_first(poses), rounds)

    def _without_one(
        self,
        among: Agreement,
        excluded: set[int],
        start: Mapping[int, Pose],
    ) -> tuple[Agreement, int] | None:
        """Return the agreement without one more robot, and which; None where that is ambiguous."""
        robots = list(among.poses)
        fewer = len(excluded) + 1 < 0.5 * len(self.parts)
        if len(robots) < 3 or not fewer:  # of fewer none is told from the others
            return None
        suspects = sorted(robots, key=lambda k: -among.apart[k])[:3]
        tried = []
        for one in suspects:
            rest = self._among([k for k in robots if k != one], start, 1)
            if not rest.unplaced:
                tried.append((rest.worst, one, rest))
        tried.sort(key=lambda t: t[:2])
        if not tried or (len(tried) > 1 and tried[1][0] <= self._limit):
            return None
        return self.refined(tried[0][2].poses), tried[0][1]

    def _with_doubt(self, agreement: Agreement, robot: int, excluded: set[int]) -> Agreement:
        """Add a left-out robot's doubt, and its pose where leaving out one sensor settles it."""
        witnesses = {k: p for k, p in agreement.poses.items() if k not in excluded}
        full = self._by_others(robot, None, witnesses)
        tried = ((self._by_others(robot, sensor, witnesses), sensor) for sensor in SENSOR_NUMBERS)
        fits = [(self._beyond_noise(e, s), s, e) for e, s in tried if e.covariance is not None]
        fits.sort(key=lambda t: t[:2])
        clear = bool(fits) and fits[0][2].apart <= self._limit
        clear &= len(fits) < 2 or fits[1][0] > fits[0][0] + 3.0  # deviations apart
        doubt = Doubt(robot, fits[0][1] if clear else None, full.apart)
        poses, spreads = dict(agreement.poses), dict(agreement.spreads)
        if clear:
            estimate = fits[0][2]
            assert estimate.covariance is not None
            poses[robot], spreads[robot] = estimate.pose, estimate.covariance
        return replace(
            agreement,
            poses=from_first(poses),
            spreads=spreads,
            apart={**agreement.apart, robot: full.apart},
            doubts=(*agreement.doubts, doubt),
        )

    def _beyond_noise(self, estimate: PoseEstimate, without: str) -> float:
        """Return how far a fit's misfit exceeds 1, in standard deviations of the misfit."""
        numbers = len(self.space.compared(without)) * self.windows / self.overlap
        return float((estimate.misfit - 1.0) * np.sqrt(0.5 * numbers))

    def _by_others(
        self, robot: int, without: str | None, witnesses: Mapping[int, Pose]
    ) -> PoseEstimate:
        """Return a robot's pose by what the witnesses agree on and all of its sensors but one."""
        first = min(witnesses)
        back = inverse(witnesses[first])
        pair = self.against(robot, {k: composed(p, back) for k, p in witnesses.items()}, STILL)
        pair = replace(pair, counted=self.space.compared(without))
        turn = self._turn(pair.one, replace(pair, counted=None).other, without)
        fit = pair.estimate((turn, np.zeros(3)))
        return replace(fit, pose=composed(fit.pose, witnesses[first]))

    def _turn(self, one: Array, other: Array, without: str | None) -> Array:
        """Return an initial rotation from one motion to the other, by linear least squares.

        Args:
            one: In the one frame, shape (any, k).
            other: In the other frame, shape (any, k).
            without: Sensor in the other frame that is ignored.
        """
        place = {number: k for k, number in enumerate(self.space.motion)}

        def numbers(sizes: slice) -> list[int]:
            return [place[k] for k in range(sizes.start, sizes.stop) if k in place]

        compared, levers = next(
            (compared, levers)
            for sensor, compared, levers in TURNS
            if sensor != without and len(numbers(compared)) > 1
        )
        of = numbers(compared)
        by = [*of, *(k for lever in levers for k in numbers(lever))]
        linear = np.eye(3)
        slopes = np.linalg.lstsq(one[:, by], other[:, of], rcond=None)[0].T
        linear[: len(of), : len(of)] = slopes[:, : len(of)]
        U, _, V = np.linalg.svd(linear)
        return np.asarray(U @ np.diag([1.0, 1.0, np.linalg.det(U @ V)]) @ V)
