"""A robot whose base floats, of whose drives some give more or less than their gains say.

A gain scales what one channel measures, and a row without contacts' wrenches is of all channels, so
that no triangle of rows can be scaled afterwards. So the change of a gain is a parameter with a
column of its own. With c the stated gain over the true one, as of `estimators.DriveGains`, channel
d measures `c (Y π − N λ)_d − ε`. About c₀ the signal is divided by c₀, and with κ = c − c₀ rows are

    P (Y π + Σ_d e_d t_d κ_d / c₀_d) = P (measured / c₀ − ε)

The column is what the drive gave, t. What was measured of it holds the noise of the very row that
it is to explain: such columns draw all gains to nothing, the more rows there are the further. So t
is what a fit says of it, contacts included: `t = Y π₀ + (1 − P) (measured / c₀ − Y π₀)`. The noise
that P leaves in a row and the noise that 1 − P leaves in t are independent.

Of the scale of all torque rows say nothing, if all that is measured is of unsure gain. But the
base's equations, whose right-hand side is zero, are fulfilled the better the lighter a robot is: so
they are taken relative to that scale, the geometric mean of c over the m channels that measure
something. Column d has `t_b / (m c₀_d)` in the rows of the base. All columns together then are
`P t = P Y π₀`, which the masses' own columns are, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import ChannelRows, Labels, ParameterSpace, Triangle, triangle_of
from heft.models import Robot
from heft.recordings import Recording

from .floating_robot import FloatingRobotPlant
from .parts import SIX
from .plant import ChannelSides, Inputs, Samples, Sides
from .rows import Elimination

GAIN = "gain"  # of a column's name, behind that of the joint
UNIT = "1"


@dataclass(frozen=True, eq=False)
class UnsureGains:
    """Uncertain gains of drives at which rows are taken, and what predicts the torque there."""

    # c₀ of each drive whose gain is unsure, by joint: the stated gain over the one that rows are
    # taken with [1]
    factors: Mapping[str, float]
    point: Array  # π₀, standard parameters of the robot without gains, shape (p,)
    # standard deviation of each channel, by which contacts' wrenches are told, shape (channels,)
    # [channel's unit]
    noise: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, one a drive."""
        return tuple(f"{joint}.{GAIN}" for joint in self.factors)


@dataclass(frozen=True, eq=False)
class UnsureGainsPlant(FloatingRobotPlant):
    """A robot whose base floats, with a column for each gain that is unsure; see the module."""

    gains: UnsureGains = field(kw_only=True)  # about which rows are taken

    @staticmethod
    def of(plant: FloatingRobotPlant, gains: UnsureGains) -> UnsureGainsPlant:
        """Return the plant with columns for these gains, in place of any others.

        Args:
            plant: Its robot, point and source of the base's motion are taken over.
            gains: Of joints whose torque is measured.
        """
        plain = without_gains(plant)
        point = plain.point
        if point is not None:
            point = np.append(point, np.zeros(len(gains.factors)))
        return UnsureGainsPlant(plain.robot, point, plain.motion_from, gains=gains)

    @property
    def plain(self) -> int:
        """Number p of columns of the robot itself, before those of gains."""
        return len(self.robot.labels)

    @cached_property
    def labels(self) -> Labels:
        """Labels of the robot's columns, then one for each unsure gain."""
        plain, names = self.robot.labels, self.gains.names
        return Labels((*plain.names, *names), (*plain.units, *[UNIT] * len(names)), plain.frame)

    @cached_property
    def space(self) -> ParameterSpace:
        """Parameter space of the robot, then changes of the gains, nominally zero."""
        names = self.gains.names
        return without_gains(self).space.beside(names, [UNIT] * len(names))

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """Columns of the friction dictionary, and those of gains."""
        return (*without_gains(self).independent, *range(self.plain, len(self.labels)))

    @cached_property
    def redundant(self) -> tuple[int, ...]:
        """Columns of the friction dictionary but each drive's steepest, and none of gains."""
        return without_gains(self).redundant

    @property
    def structure(self) -> object:
        """Key of the base parameters: the robot with these gains unsure, about no point."""
        return _about_nothing(self.robot, self.gains.names)

    @cached_property
    def _driven(self) -> dict[int, tuple[int, float]]:
        """Channel and c₀ of each column of a gain, by its position among the columns."""
        place = {channel.name: k for k, channel in enumerate(self.channels)}
        return {
            self.plain + k: (place[joint], factor)
            for k, (joint, factor) in enumerate(self.gains.factors.items())
        }

    def inputs(self, recording: Recording, measured: bool = True) -> Inputs:
        """Return the robot's signals, torques scaled by the gains that rows are taken with."""
        plain = FloatingRobotPlant.inputs(self, recording, measured)
        by = dict(self._driven.values())
        scaled = tuple(
            replace(m, terms=tuple((n, f / by.get(m.channel, 1.0)) for n, f in m.terms))
            for m in plain.measured
        )
        return replace(plain, measured=scaled)

    def given(self, samples: Samples[Any]) -> Array:
        """Return t, the drives' torque as predicted at the point, contact wrenches included.

        Args:
            samples: With measurements, which determine the contacts' wrenches.

        Returns:
            Shape (N, channels) [N·m or N].
        """
        point = np.append(self.gains.point, np.zeros(len(self.gains.factors)))
        predicted = FloatingRobotPlant.predict(self, samples, point)
        out = Elimination.of(self.acting(samples), np.array(self.gains.noise))
        return predicted + out.taken_up(samples.measured - predicted)

    def channel_rows(
        self, samples: Samples[Any], columns: Sequence[int], channels: Sequence[int] | None = None
    ) -> tuple[ChannelRows, ...]:
        """Return rows of all channels, gains included, on all columns; see `Limbed`."""
        plain = FloatingRobotPlant.channel_rows(self, samples, columns)
        made = np.stack([rows.spread(len(columns)) for rows in plain], axis=1)
        self._add(made, samples, columns, 1.0)
        rows = ChannelRows.of_each(made)
        return rows if channels is None else tuple(rows[c] for c in channels)

    def _add(
        self, made: Array, samples: Samples[Any], columns: Sequence[int], factor: float
    ) -> None:
        """Write columns of gains times a factor into rows in which these are zero."""
        asked = [(k, *self._driven[c]) for k, c in enumerate(columns) if c in self._driven]
        if asked:
            given = self.given(samples)
            base = int(np.sum(self.robot.measured < SIX))
            scale = factor * given[:, :base] / (len(self.channels) - base)
            for k, channel, by in asked:
                made[:, :base, k] = scale / by
                made[:, channel, k] = factor * given[:, channel] / by

    def channel_sides(self, samples: Samples[Any], columns: Sequence[int]) -> ChannelSides:
        """Return both sides, on all columns that are asked for: a gain has no momentum."""
        parted = FloatingRobotPlant.channel_sides(self, samples, columns)
        made = parted.part(slice(None)).spread(len(columns))
        remainder = made.remainder.copy()
        self._add(remainder, samples, columns, -1.0)
        return ChannelSides.of_each(Sides(made.momentum, remainder))

    def reduce(
        self,
        samples: Samples[Any],
        columns: Sequence[int],
        channels: Sequence[int] | None = None,
        counted: NDArray[np.bool_] | None = None,
    ) -> tuple[Triangle, ...]:
        """Return each channel's triangle, contacts not eliminated; see `RobotPlant.reduce`."""
        rows = self.rows(samples, columns).regressor
        seen = np.ones(samples.measured.shape, dtype=bool) if counted is None else counted
        triangles = []
        for c in range(len(self.channels)) if channels is None else channels:
            own = np.column_stack([rows[seen[:, c], c], samples.measured[seen[:, c], c]])
            triangles.append(Triangle(np.arange(len(columns)), triangle_of(own), len(own)))
        return tuple(triangles)

    def predict(self, samples: Samples[Any], values: Array) -> Array:
        """Return Y π, gains included, shape (N, channels); see `RobotPlant.predict`."""
        made = FloatingRobotPlant.predict(self, samples, values)
        columns = [c for c in self._driven if values[c] != 0.0]
        beside = np.zeros((*made.shape, len(columns)))
        self._add(beside, samples, columns, 1.0)
        return np.asarray(made + beside @ values[columns])

    def random_samples(self, count: int, rng: np.random.Generator) -> Samples[Any]:
        """Return random states in which drives give random torques; see `FloatingRobotPlant`."""
        made = FloatingRobotPlant.random_samples(self, count, rng)
        return replace(made, measured=rng.normal(size=made.measured.shape))


def without_gains(plant: FloatingRobotPlant) -> FloatingRobotPlant:
    """Return a plant whose gains are as stated, without columns for them."""
    if not isinstance(plant, UnsureGainsPlant):
        return plant
    point = None if plant.point is None else plant.point[: plant.plain]
    return FloatingRobotPlant(plant.robot, point, plant.motion_from)


@lru_cache(maxsize=32)
def _about_nothing(robot: Robot, names: tuple[str, ...]) -> FloatingRobotPlant:
    del names  # which tell one plant of a robot from another
    return FloatingRobotPlant(robot)
