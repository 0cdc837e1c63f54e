"""Simple friction (viscous, Coulomb, offset) of what slides, with bodies and rotors held.

URDF and simulators take friction as `viscous · w + coulomb · sign(w) + offset`. Near standstill
friction is not that: it bends within some hundredths of a rad/s, and the sign of a smoothed
velocity is uncertain there. Rows from there would make Coulomb friction too small and viscous
friction too large by as much, so that only rows whose drives slide are used. Their torque less that
of the identified bodies and rotors is fitted; the full friction model is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.certainty import fit_jackknife
from heft.dynamics import LINEAR_SCALE, Column, Drive, drive_columns
from heft.engine import in_order
from heft.estimators import ConsistentEstimate
from heft.information import ChannelRows, Triangle, triangle_of
from heft.models import Robot, own_effort
from heft.plants import (
    ContactEfforts,
    FloatingRobotPlant,
    Problem,
    RobotMotion,
    RobotPlant,
    Samples,
)


def rigid_torques(
    problem: Problem[RobotPlant], bodies: Array
) -> Iterator[tuple[Samples[RobotMotion], Array]]:
    """Yield samples with the torque of rigid bodies, (10 bodies,), without friction and rotors.

    Yields:
        Samples of N rows, and torque, shape (channels, N) [N·m or N].
    """
    plant = problem.plant
    return in_order(
        lambda s: (s, plant.rigid(s.motion, bodies)), problem.samples(), problem.threads
    )


@dataclass(frozen=True)
class SimpleFriction:
    """Viscous and Coulomb friction and offset of each drive, the friction model of URDF files.

    It is estimated with the rigid bodies and rotor inertias fixed at their consistent values, as an
    alternative to the full friction model.
    """

    # values by name, such as `elbow.coulomb` [N·m·s/rad, N·m; N·s/m, N if prismatic]
    values: Mapping[str, float]
    # their standard errors, same names and units; infinite where the logs show nothing
    std: Mapping[str, float]

    @staticmethod
    def of(problem: Problem[RobotPlant], consistent: ConsistentEstimate) -> SimpleFriction:
        """Return viscous and Coulomb friction and offset of a consistent estimate."""
        drives = problem.plant.robot.drives
        names = problem.space.labels.names
        places = {n: names.index(n) for n in drives.labels(drives.simple_columns).names}
        values, std = consistent.parameters.values, consistent.parameters.std
        return SimpleFriction(
            {name: float(values[k]) for name, k in places.items()},
            {name: float(std[k]) for name, k in places.items()},
        )


@dataclass(frozen=True)
class SlidingFit:
    """Least squares for simple friction on the rows whose drives slide."""

    speed: float = 0.05  # speed from which a drive slides [rad/s]; `LINEAR_SCALE` times that in m/s
    # share of a slow drive's moving rows that count as not sliding: its `speed` is at most this
    # quantile of theirs
    slowest: float = 0.3
    # speed above which a row counts as moving, as a share of the drive's highest
    moving: float = 0.02
    highest: float = 0.99  # quantile of a drive's speeds that is taken for the highest
    speeds: int = 6  # groups of like speed, left out in turn for the deviation
    blocks: int = 12  # groups of contiguous rows, left out in turn for the deviation
    looked_at: int = 100_000  # number of rows from which quantiles are taken, about

    def fit(
        self,
        problem: Problem[RobotPlant],
        consistent: ConsistentEstimate,
        weights: Mapping[str, float],
    ) -> SimpleFriction:
        """Return simple friction, with the bodies and rotors of a consistent estimate.

        Drives that act on the same measured channels (motors coupled to several joints) are fitted
        together, on rows where all of a channel's drives slide.

        Args:
            weights: Weight of each channel's rows [1 / channel's unit].
        """
        drives = problem.plant.robot.drives
        names = drives.labels(drives.simple_columns).names
        values, std = dict.fromkeys(names, 0.0), dict.fromkeys(names, np.inf)
        fixed = _Held.of(problem, consistent)
        sums = [
            _Sums.of(columns, channels, len(fixed.columns))
            for columns, channels in self._groups(problem)
        ]
        first = 0
        for s, rigid in rigid_torques(problem, fixed.values) if sums else ():
            residual = fixed.left_over(problem, s, rigid)
            made = [each.add(problem, s, first, residual, weights) for each in sums]
            every, first = problem.stride(s.recording), first + len(s.time)
            for chosen in problem.few(s):
                seen = fixed.seen(problem, s.part(chosen))
                for each, rows in zip(sums, made, strict=True):
                    for place, X in rows:
                        fixed_rows = seen[place]
                        moments = every * (X[chosen].T @ fixed_rows.values)
                        each.moments[:, fixed_rows.columns] += moments
        for each in sums:
            positive = [t.nonnegative for _, t in each.columns]
            solution = fit_jackknife(each.partitions, positive, fixed.covariance_of(each.moments))
            own = [drives.name(c) for c in each.columns]
            values |= dict(zip(own, solution.values.tolist(), strict=True))
            std |= dict(zip(own, solution.std.tolist(), strict=True))
        return SimpleFriction(values, std)

    def _groups(
        self, problem: Problem[RobotPlant]
    ) -> Iterator[tuple[tuple[Column, ...], list[_Channel]]]:
        """Yield columns of drives that are fitted together, and sliding rows of their channels."""
        robot = problem.plant.robot
        acting = [d for d, drive in enumerate(robot.drives) if drive.simple_terms]
        if not acting:
            return
        speeds, rows = self._speeds(problem, acting)
        slow = {d: self._slow(robot.drives[d], v) for d, v in speeds.items()}
        for members in _connected(robot, acting):
            channels = []
            for place, c in enumerate(robot.measured):
                own = {d: slow[d] for d in members if robot.drives[d].ratio[c]}
                if not own:
                    continue
                margin = np.min([speeds[d] / v for d, v in own.items()], axis=0)
                slides = margin >= 1.0
                if slides.any():
                    by_speed = _edges(margin[slides], self.speeds)
                    by_time = _edges(rows[slides], self.blocks)
                    channels.append(_Channel(int(c), place, own, by_speed, by_time))
            yield tuple(c for c in robot.drives.simple_columns if c[0] in members), channels

    def _speeds(
        self, problem: Problem[RobotPlant], acting: Sequence[int]
    ) -> tuple[dict[int, Array], Array]:
        """Return speeds of drives, shape (n,) each [rad/s or m/s], and their rows' numbers."""
        drives = problem.plant.robot.drives
        ratios = np.array([drives[d].ratio for d in acting])
        every = 1 + sum(t.used for t in problem.timelines) // self.looked_at
        speeds, rows, first = [np.zeros((len(acting), 0))], [np.zeros(0)], 0
        for s in problem.samples():
            chosen = np.arange(-first % every, len(s.time), every)
            speeds.append(np.abs(ratios @ s.motion.velocity[:, chosen]))
            rows.append((first + chosen).astype(float))
            first += len(s.time)
        together = np.concatenate(speeds, axis=1)
        return dict(zip(acting, together, strict=True)), np.concatenate(rows)

    def _slow(self, drive: Drive, speeds: Array) -> float:
        """Return the speed from which a drive slides, given speeds, shape (n,) [rad/s or m/s]."""
        top = float(np.quantile(speeds, self.highest)) if len(speeds) else 0.0
        if top <= 0.0:
            return np.inf
        certain = self.speed * (LINEAR_SCALE if drive.linear else 1.0)
        return min(certain, float(np.quantile(speeds[speeds > self.moving * top], self.slowest)))


def _contacts(problem: Problem[RobotPlant], s: Samples[RobotMotion]) -> ContactEfforts | None:
    plant = problem.plant
    if not isinstance(plant, FloatingRobotPlant):
        return None
    return ContactEfforts.of(plant, s, plant.robot.options.equations in ("all", "base"))


def _edges(values: Array, groups: int) -> Array:
    """Return the edges between groups of equal size, shape (groups − 1,)."""
    return np.asarray(np.quantile(values, np.arange(1, groups) / groups))


def _connected(robot: Robot, drives: Sequence[int]) -> Iterator[set[int]]:
    """Yield sets of drives that act on common measured channels."""
    acts = {d: set(np.flatnonzero(robot.drives[d].ratio)) & set(robot.measured) for d in drives}
    while acts:
        first, reach = acts.popitem()
        members = {first}
        while near := {d for d, channels in acts.items() if channels & reach}:
            members |= near
            reach = reach.union(*(acts.pop(d) for d in near))
        yield members


@dataclass(frozen=True)
class _Channel:
    """A measured channel, and which of its rows slide."""

    channel: int  # position among the robot's channels
    place: int  # position among the measured ones
    # speed from which each drive that acts on it slides [rad/s or m/s], by its position
    slow: Mapping[int, float]
    by_speed: Array  # slowest drive's speed as a multiple of that, between groups of like speed
    by_time: Array  # numbers of rows between groups of contiguous rows

    def margin(self, robot: Robot, velocity: Array) -> Array:
        """Return the slowest drive's speed as a multiple of that from which it slides, (N,)."""
        speeds = [np.abs(robot.drives[d].ratio @ velocity) / v for d, v in self.slow.items()]
        return np.asarray(np.min(speeds, axis=0))


@dataclass(frozen=True)
class _Held:
    """Bodies, rotors and the user's own columns at their consistent values."""

    values: Array  # standard parameters π, zero for friction, shape (p,)
    columns: tuple[int, ...]  # positions of those of bodies, rotors and own columns among them
    matrix: Any  # T with `these = T @ x` of consistent parameters x, sparse, shape (columns, n)
    covariance: Array  # of x, shape (n, n)

    @staticmethod
    def of(problem: Problem[RobotPlant], consistent: ConsistentEstimate) -> _Held:
        plant, size = problem.plant, len(problem.space.labels)
        first = plant.bodies_size
        inertial = [k for k, (_, t) in enumerate(plant.robot.drive_columns, first) if t.inertial]
        beyond = first + len(plant.robot.drive_columns)
        own = range(beyond, beyond + len(plant.robot.own_names))
        columns = (*range(first), *inertial, *own)
        matrix = plant.space.sparse_matrix[list(columns)]
        covariance = consistent.parameters.covariance
        assert covariance is not None
        values = np.zeros(len(plant.labels))
        values[list(columns)] = matrix @ consistent.parameters.values[:size]
        return _Held(values, columns, matrix, covariance[:size, :size])

    def covariance_of(self, moments: Array) -> Array:
        """Return the covariance of `moments @ errors`, (k, k), of errors of what is held, (k, h).

        With what the prior may have biased: where an offset and a moment of mass are hard to tell
        apart, the prior decides between them.
        """
        onto = moments @ self.matrix
        seen = np.flatnonzero(onto.any(axis=0))
        return np.asarray(onto[:, seen] @ self.covariance[np.ix_(seen, seen)] @ onto[:, seen].T)

    def left_over(
        self, problem: Problem[RobotPlant], s: Samples[RobotMotion], rigid: Array
    ) -> Array:
        """Return measured torque less that of bodies and rotors, shape (N, measured channels).

        With contacts less what they do, too; NaN where that depends on how they share the load.
        """
        robot, first = problem.plant.robot, problem.plant.bodies_size
        names = problem.plant.labels.names
        rotors = {names[k]: float(self.values[k]) for k in self.columns[first:]}
        state = problem.plant.drive_state(s, rigid)
        rest = drive_columns.effort(robot.drives, rotors, state)
        rest += own_effort(robot.own_columns, rotors, state)
        torque = s.measured[:, : len(robot.measured)]
        contacts = _contacts(problem, s)
        effort = (rigid + rest).T if contacts is None else contacts.left(rigid + rest)
        return np.asarray(torque - effort[:, robot.measured])

    def seen(
        self, problem: Problem[RobotPlant], s: Samples[RobotMotion]
    ) -> tuple[ChannelRows, ...]:
        """Return each channel's rows of held columns."""
        contacts, plant = _contacts(problem, s), problem.plant
        if contacts is None:
            return plant.channel_rows(s, self.columns)
        every_channel = plant.whole_rows(s, self.columns)
        through = np.nan_to_num(contacts.through[:, plant.robot.measured])
        return ChannelRows.of_each(through @ every_channel)


@dataclass
class _Sums:
    """Sums over the rows of drives that are fitted together."""

    columns: tuple[Column, ...]  # of their simple friction
    channels: Sequence[_Channel]  # the measured channels on which they act
    # triangles of groups of like speed, and of contiguous rows
    partitions: tuple[list[Triangle], list[Triangle]]
    moments: Array  # `XᵀY` with Y the rows of what is held, shape (columns, columns held)

    @staticmethod
    def of(columns: tuple[Column, ...], channels: Sequence[_Channel], held: int) -> _Sums:
        size = len(columns)
        empty = Triangle(np.arange(size), np.zeros((size + 1, size + 1)), 0)
        by_speed = [empty] * max((len(c.by_speed) + 1 for c in channels), default=0)
        by_time = [empty] * max((len(c.by_time) + 1 for c in channels), default=0)
        return _Sums(columns, channels, (by_speed, by_time), np.zeros((size, held)))

    def add(
        self,
        problem: Problem[RobotPlant],
        s: Samples[RobotMotion],
        first: int,
        left: Array,
        weights: Mapping[str, float],
    ) -> list[tuple[int, Array]]:
        """Add the rows of samples that slide.

        Returns:
            Each channel's place, and its weighted rows X, zero where it does not slide.

        Args:
            first: Row number of the first sample.
            left: Torque less that of bodies and rotors, shape (N, measured joints) [N·m or N].
            weights: Weight of each channel's rows [1 / channel's unit].
        """
        plant = problem.plant
        made = drive_columns.columns(plant.robot.drives, self.columns, plant.drive_state(s))
        ratios, weighted = np.array([plant.robot.drives[d].ratio for d, _ in self.columns]), []
        for channel in self.channels:
            margin = channel.margin(plant.robot, s.motion.velocity)
            slides = (margin >= 1.0) & np.isfinite(left[:, channel.place])
            weight = weights[problem.channels[channel.place]]
            X = weight * ratios[:, channel.channel] * made.values.T
            rows = np.column_stack([X, weight * left[:, channel.place]])[slides]
            by_speed = np.searchsorted(channel.by_speed, margin[slides], side="right")
            number = first + np.flatnonzero(slides)
            by_time = np.searchsorted(channel.by_time, number, side="right")
            for parts, group in zip(self.partitions, (by_speed, by_time), strict=True):
                _add(parts, group, rows)
            weighted.append((channel.place, weight * slides[:, None] * X))
        return weighted


def _add(parts: list[Triangle], group: NDArray[np.intp], rows: Array) -> None:
    """Add rows `[X y]` to the triangles of the groups that they belong to, `group` (rows,)."""
    for k in np.unique(group):
        own = rows[group == k]
        factor = triangle_of(np.vstack([parts[k].factor, own]))
        parts[k] = Triangle(parts[k].columns, factor, parts[k].rows + len(own))
