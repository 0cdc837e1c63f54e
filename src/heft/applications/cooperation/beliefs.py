"""What is known of a team's contacts and load beside its sensors: information that adds.

A mass or a centre of mass that is known is the partial model of [Fan2017, (25)-(27)]; a pose that
is known from drawings is another. Each enters with its deviation: with none it is as good as fixed,
with an infinite one as good as not said. What a team knew before a robot joined it enters likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from heft.arrays import Array

from .pose import PoseBelief
from .signals import Pose
from .windows import Space


@dataclass(frozen=True, eq=False)
class LoadBelief:
    """Prior of a load's parameters in one frame."""

    rows: Array  # a of A π = b, each by its deviation, shape (any, p)
    values: Array  # b, shape (any,)
    # h and m of the load in some frame as rows, shape (1 + d, p), the centre of mass that is known
    # there, shape (d,) [m], and its deviation [m]
    centres: tuple[tuple[Array, Array, float], ...] = ()

    def residuals(self, values: Array) -> Array:
        """Return the prior's residuals at π, each divided by its standard deviation."""
        found = [self.rows @ values - self.values]
        for rows, centre, std in self.centres:
            mass, *moments = rows @ values
            found.append((np.array(moments) / mass - centre) / std)
        return np.concatenate(found)

    def jacobian(self, values: Array) -> Array:
        """Return the derivative of the residuals by π, shape (any, p)."""
        found = [self.rows]
        for rows, _, std in self.centres:
            mass, *moments = rows @ values
            found.append((rows[1:] - np.outer(np.array(moments) / mass, rows[0])) / (mass * std))
        return np.vstack(found)

    def linear(self, mass: float) -> tuple[Array, Array]:
        """Return rows A and values b of the prior, linearised as A π = b.

        Args:
            mass: Approximate mass of the load, which weights its centres of mass [kg].
        """
        rows, values = [self.rows], [self.values]
        for own, centre, std in self.centres:
            rows.append((own[1:] - np.outer(centre, own[0])) / (mass * std))
            values.append(np.zeros(len(centre)))
        return np.vstack(rows), np.concatenate(values)

    def beside(self, count: int) -> LoadBelief:
        """Return the prior with more parameters behind π, each of mean zero and deviation one."""
        size = self.rows.shape[1]

        def wider(rows: Array) -> Array:
            return np.pad(rows, ((0, 0), (0, count)))

        rows = np.vstack([wider(self.rows), np.eye(count, size + count, size)])
        values = np.append(self.values, np.zeros(count))
        return LoadBelief(rows, values, tuple((wider(r), at, std) for r, at, std in self.centres))


@dataclass(frozen=True, eq=False)
class TeamBelief:
    """Prior of a team's contact poses, its wrench sensors' offsets and its first load."""

    # by robot, of a frame that all of them share
    poses: Mapping[int, PoseBelief] = field(default_factory=dict)
    mass: tuple[float, float] | None = None  # of the load and its deviation [kg]; None if not known
    # by robot, the centre of mass in its frame, shape (3,) [m], and its deviation [m]
    centres: Mapping[int, tuple[Array, float]] = field(default_factory=dict)
    # a robot, π in its frame and the covariance, as estimated before; None if not
    load: tuple[int, Array, Array] | None = None
    # by robot, deviations of its wrench sensor's offset from zero, of moment and force, shape (6,)
    # [N·m and N]; of who is not there it is zero
    offsets: Mapping[int, Array] = field(default_factory=dict)

    def of(self, robots: Sequence[int]) -> TeamBelief:
        """Return the prior of some robots, numbered anew.

        Args:
            robots: Their indices here, in their new order.
        """
        place = {robot: k for k, robot in enumerate(robots)}
        return replace(
            self,
            poses={place[k]: p for k, p in self.poses.items() if k in place},
            centres={place[k]: c for k, c in self.centres.items() if k in place},
            offsets={place[k]: o for k, o in self.offsets.items() if k in place},
            load=(place[self.load[0]], *self.load[1:])
            if self.load is not None and self.load[0] in place
            else None,
        )

    def of_another_load(self) -> TeamBelief:
        """Return the prior that stays valid when the load changes: of poses and offsets."""
        return TeamBelief(self.poses, offsets=self.offsets)

    def of_load(self, poses: Mapping[int, Pose], space: Space) -> LoadBelief:
        """Return the prior of the load in the frame of the poses.

        Args:
            poses: By robot, R and t that take coordinates of that frame to its own.
        """
        count = len(space.load)
        rows, values = [np.zeros((0, count))], [np.zeros(0)]
        if self.mass is not None:
            mass, std = self.mass
            rows.append(np.eye(1, count) / std)
            values.append(np.array([mass / std]))
        if self.load is not None and self.load[0] in poses:
            robot, known, covariance = self.load
            root = np.linalg.cholesky(np.linalg.inv(covariance)).T
            rows.append(root @ space.load_map(poses[robot]))
            values.append(root @ known)
        first = [k for k, number in enumerate(space.load) if number < 4]
        centres = tuple(
            (space.load_map(poses[robot])[first], centre[: len(first) - 1], std)
            for robot, (centre, std) in self.centres.items()
            if robot in poses
        )
        return LoadBelief(np.vstack(rows), np.concatenate(values), centres)
