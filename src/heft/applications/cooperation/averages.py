"""A team of hundreds: robots agree on means alone, whatever their number.

Nobody holds another's windows. Poses come from neighbour to neighbour, then each robot's from its
own motion against the mean of all others', in a frame that all share, the first robot's at the
beginning; the total wrench is n times a mean. Means are agreed on by accelerated rounds
(`chebyshev`), whose number the graph decides; what a robot computes does not grow with n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.information import Graph, Spectrum, chebyshev, inertia, triangle_of

from .agreement import TeamMotions
from .load import LoadEstimate, LoadInformation, TeamBelief
from .replication import WIDTH
from .windows import (
    SIZE,
    SPATIAL,
    MotionPair,
    Pose,
    Windows,
    inverse,
    motion_map,
    moved,
    wrench_map,
)

SMALL = 1e-5  # change of a pose for a derivative [rad, m]


@dataclass(frozen=True)
class AveragesMethod:
    """Settings of the identification by consensus on means."""

    rounds: int  # of accelerated consensus for a mean
    refinements: int = 3  # of the poses against the mean of all motions
    # deviations from zero of each wrench sensor's offset, of moment and force, shape (6,)
    # [N·m and N]; none where they were set to zero
    offsets: tuple[float, ...] = (0.0,) * 6

    def identify(self, parts: Sequence[Windows], graph: Graph) -> AveragesResult:
        """Return each robot's estimates after consensus.

        Args:
            parts: Windows of each robot, at the same times.

        Raises:
            InvalidRecording: If motion does not tell all poses.
        """
        return _Averages(self, list(parts), graph).result()


@dataclass(frozen=True, eq=False)
class AveragesResult:
    """Each robot's poses and load after consensus on means."""

    # by robot, R and t that take coordinates of the shared frame to its own
    poses: tuple[Pose, ...]
    # by robot, the mean of all robots' motions and wrenches in the shared frame, shape (n, K, 24)
    held: Array
    values: Array  # by robot, π of the load in its own frame, shape (n, 10)
    covariance: Array  # of π, by robot, shape (n, 10, 10)

    @property
    def apart(self) -> float:
        """Largest relative difference of a robot's mean from the mean of all."""
        middle = self.held.mean(axis=0)
        return max(float(np.linalg.norm(h - middle) / np.linalg.norm(middle)) for h in self.held)

    def load(self, robot: int) -> LoadEstimate:
        """Return a robot's estimate of the load in its own frame, physically consistent."""
        values = self.values[robot]
        if inertia.consistency_margin(values) <= 0.0:
            values = inertia.nearest_consistent(values)
        return LoadEstimate(*inertia.to_body(values), self.covariance[robot])


class _Averages:
    def __init__(self, method: AveragesMethod, parts: Sequence[Windows], graph: Graph) -> None:
        self.method, self.parts, self.graph = method, parts, graph
        self.count, self.windows = graph.count, len(parts[0].motion)
        self.overlap = max(p.overlap for p in parts)
        self.spectrum = Spectrum.of(graph)
        motions = [p.motion for p in parts]
        placed = TeamMotions(motions, parts, self.windows, graph).placed(range(self.count))
        lacking = [k for k in range(self.count) if k not in placed]
        if lacking:
            raise InvalidRecording("the motion does not tell the poses", argument=str(lacking))
        self.poses = [placed[k] for k in range(self.count)]
        self.spreads = np.zeros((self.count, 6, 6))

    def _agreed(self, own: Array) -> Array:
        """Return each robot's approximation of the mean of all by consensus, shape (n, any)."""
        flat = own.reshape(self.count, -1)
        held = chebyshev(flat, self.graph, self.method.rounds, self.spectrum)
        return held.reshape(own.shape)

    def result(self) -> AveragesResult:
        for _ in range(self.method.refinements):
            self._refine()
        own = np.array([_in_frame(p, pose) for p, pose in self._each()])
        held = self._agreed(own)
        spreads = self._agreed(np.array([_spread(p, pose) for p, pose in self._each()]))
        priors = [np.diag(np.square(self.method.offsets))] * self.count
        maps = [wrench_map(inverse(pose)) for pose in self.poses]
        of_offsets = self.count * self._agreed(maps @ np.array(priors) @ np.swapaxes(maps, 1, 2))
        estimate = [self._load(k, held[k], spreads[k], of_offsets[k]) for k in range(self.count)]
        parts = np.array([c @ s @ c.T for (_, _, c), s in zip(estimate, self.spreads, strict=True)])
        of_poses = self.count * self._agreed(parts)
        estimates = [
            self._own(k, *estimate[k][:2], of_poses[k] - parts[k], estimate[k][2])
            for k in range(self.count)
        ]
        values, covariances = (np.array(each) for each in zip(*estimates, strict=True))
        return AveragesResult(tuple(self.poses), held, values, covariances)

    def _own(
        self, robot: int, values: Array, spread: Array, others: Array, columns: Array
    ) -> tuple[Array, Array]:
        """Return π and its covariance in a robot's own frame, with its pose's uncertainty.

        Args:
            values: π in the shared frame.
            spread: Its covariance for exact poses.
            others: Covariance that the other robots' poses add.
            columns: Derivative of π by the robot's own pose, shape (10, 6).
        """
        pose = self.poses[robot]
        change = SPATIAL.load_map(pose)
        turned = np.zeros((10, 6))
        for k, step in enumerate(SMALL * np.eye(6)):
            ahead, behind = (SPATIAL.load_map(moved(pose, s * step)) for s in (1.0, -1.0))
            turned[:, k] = (ahead - behind) @ values / (2.0 * SMALL)
        slope = change @ columns + turned
        covariance = change @ (spread + others) @ change.T
        return change @ values, covariance + slope @ self.spreads[robot] @ slope.T

    def _each(self) -> Iterator[tuple[Windows, Pose]]:
        return zip(self.parts, self.poses, strict=True)

    def _refine(self) -> None:
        """Re-estimate each robot's pose against the mean motion of all others."""
        own = np.array([_in_frame(p, pose)[:, :SIZE] for p, pose in self._each()])
        spread = np.array([_spread(p, pose)[:SIZE, :SIZE] for p, pose in self._each()])
        held, spreads = self._agreed(own), self._agreed(spread)
        others = self.count - 1
        for k, (part, pose) in enumerate(self._each()):
            mean = (self.count * held[k] - own[k]) / others
            of_mean = (self.count * spreads[k] - spread[k]) / others**2
            both = triangle_of(np.hstack([mean, part.motion]))
            both_spreads, counted = (of_mean, part.spread), SPATIAL.compared()
            pair = MotionPair(both, both_spreads, self.windows, self.overlap, counted=counted)
            estimate = pair.estimate(pose)
            if estimate.covariance is None:
                raise InvalidRecording("the motion does not tell a pose", argument=f"robot {k}")
            self.poses[k], self.spreads[k] = estimate.pose, estimate.covariance

    def _load(
        self, robot: int, held: Array, spread: Array, of_offset: Array
    ) -> tuple[Array, Array, Array]:
        """Return π, its covariance, and the derivative of π by the robot's pose, shape (10, 6).

        What all offsets make of the total wrench has `of_offset` as its prior covariance.
        """
        own = _in_frame(self.parts[robot], self.poses[robot])
        factor = triangle_of(np.hstack([held, own, np.ones((len(own), 1))]))  # moments of all
        tensor = np.zeros((SIZE + 1, 6, 16))  # offsets, in deviations of their prior, behind π
        values, axes = np.linalg.eigh(of_offset)
        tensor[:SIZE, :, :10] = SPATIAL.load_tensor
        tensor[SIZE, :, 10:] = axes * np.sqrt(np.maximum(values, 0.0))
        belief = TeamBelief().of_load({}, SPATIAL).beside(6)

        def information(change: Array) -> LoadInformation:
            mean = factor[:, :WIDTH] + change / self.count
            total = np.hstack([mean[:, :SIZE], factor[:, -1:], self.count * mean[:, SIZE:]])
            motion = np.pad(spread[:SIZE, :SIZE] / self.count, ((0, 1), (0, 1)))
            noise = motion, self.count * spread[SIZE:, SIZE:]
            return LoadInformation(total, *noise, self.windows, self.overlap, tensor, belief)

        load = information(np.zeros((1, WIDTH)))
        estimate = load.estimate()
        if estimate is None:
            raise InvalidRecording("the motion does not tell the load", argument=f"robot {robot}")
        values, covariance, _ = estimate
        pushed = np.zeros((16, 6))
        for k, step in enumerate(SMALL * np.eye(6)):
            for sign in (1.0, -1.0):
                there = moved(self.poses[robot], sign * step)
                moving = _frame_map(there) @ np.linalg.inv(_frame_map(self.poses[robot]))
                change = factor[:, WIDTH:-1] @ (moving - np.eye(WIDTH)).T
                pushed[:, k] += sign * information(change).gradient(values)
        columns = np.linalg.solve(load.information(values), pushed) / (2.0 * SMALL)
        return values[:10], covariance[:10, :10], np.asarray(columns[:10])


def _frame_map(pose: Pose) -> Array:
    """Return the map of a robot's motion and wrench to the shared frame, shape (24, 24)."""
    back = inverse(pose)
    return np.asarray(block_diag(motion_map(back), wrench_map(back)))


def _in_frame(part: Windows, pose: Pose) -> Array:
    """Return a robot's motion and wrench in the shared frame, shape (K, 24)."""
    return np.hstack([part.motion, part.wrench]) @ _frame_map(pose).T


def _spread(part: Windows, pose: Pose) -> Array:
    """Return the covariance of a robot's windows in the shared frame, shape (24, 24)."""
    M = _frame_map(pose)
    return np.asarray(M @ block_diag(part.spread, part.wrench_spread) @ M.T)
