"""Columns of drives' terms at samples, and the state of presliding friction; see `drives`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array

from .drives import (
    LINEAR_SCALE,
    STANDSTILL_SPEED,
    Column,
    Coulomb,
    Drive,
    DriveMotion,
    Drives,
    Sigmoid,
    Term,
)
from .kernels import DriveColumns
from .presliding import stops


@dataclass(frozen=True)
class DriveState:
    """State of a robot's drives at N samples, of which their columns are functions."""

    # position, velocity, acceleration: of the channels, shape (channels, N) [rad or m, and per s,
    # s²]. The position of a floating base is not used
    position: Array
    velocity: Array
    acceleration: Array
    # presliding z/b of each stop operator, in [−1, 1], shape (stops, N), in the order of
    # `Drives.stops`; see `presliding`
    stops: Array
    rigid: Array  # rigid-body torque, shape (channels, N) [N·m or N]
    # position, velocity and acceleration of motors less those of the links that they move by
    # elastic gears, shape (3, channels, N); None where gears are rigid
    deflection: Array | None = None

    @property
    def motors(self) -> tuple[Array, Array, Array]:
        """Position, velocity and acceleration of the motors, shape (channels, N) each."""
        links = self.position, self.velocity, self.acceleration
        if self.deflection is None:
            return links
        position, velocity, acceleration = np.stack(links) + self.deflection
        return position, velocity, acceleration

    def accelerating_by_velocity(self) -> DriveState:
        """Return the state with velocities as accelerations: rotors' torque is then momentum."""
        deflection = None if self.deflection is None else self.deflection[[0, 1, 1]]
        return replace(self, acceleration=self.velocity, deflection=deflection)


@dataclass(frozen=True)
class Presliding:
    """Presliding state z/b of a robot's stop operators along a stretch of a log."""

    time: Array  # shape (N,) [s]
    position: Array  # of each drive that has stops, shape (drives, N) [rad or m]
    values: Array  # z/b of each stop, in [−1, 1], shape (stops, N)


def presliding(
    drives: Drives, time: Array, position: Array, before: Presliding | None = None
) -> Presliding:
    """Return the presliding state z/b along a stretch of a log, continued from the stretch before.

    Args:
        drives: Stops are in the order of `Drives.stops`.
        time: Shape (N,) [s].
        position: Shape (channels, N) [rad or m].
        before: The stretch before, which may overlap this one. Without it z = 0 at the first
            sample. A gap between the two counts as a single displacement.

    Returns:
        The state at these samples; of shape (0, N) where no term has presliding.
    """
    operators = drives.stops
    if not operators or not len(time):
        empty = np.empty((len(operators), len(time)))
        return Presliding(time, np.empty((0, len(time))), empty)
    of, row = np.unique([d for d, _ in operators], return_inverse=True)
    row = row.astype(np.int64)
    moved = np.stack([_projected(drives[d], position) for d in of.tolist()])
    widths = np.array([width for _, width in operators])
    if before is None or not len(before.time):
        last, state = moved[row, 0], np.zeros(len(operators))
    else:
        k = max(int(np.searchsorted(before.time, time[0], side="right")) - 1, 0)
        if before.time[-1] > time[-1]:  # the clock was set back: go on from the end
            k = len(before.time) - 1
        last, state = before.position[row, k], before.values[:, k].copy()
    return Presliding(time, moved, stops(moved, widths, last, state, row))


def columns(
    drives: Drives,
    chosen: Sequence[Column],
    state: DriveState,
    wanted: Sequence[int] | None = None,
) -> DriveColumns:
    """Return the values of drives' columns at N samples, with the channels they act on.

    Args:
        wanted: Positions of those that are asked for, all if not given; others are zero.
    """
    values = np.zeros((len(chosen), state.velocity.shape[1]))
    motions: dict[int, DriveMotion] = {}
    for column in range(len(chosen)) if wanted is None else wanted:
        d, term = chosen[column]
        if d not in motions:
            motions[d] = motion_of(drives, d, state)
        term.write(motions[d], values[column])
    return DriveColumns(values, *drives.actions(chosen))


def motion_of(drives: Drives, place: int, state: DriveState) -> DriveMotion:
    """Return the motion of one drive at the N samples of a state, joint values times its ratios.

    Args:
        place: Position of the drive in `drives`.
    """
    drive = drives[place]
    stops = {width: state.stops[k] for k, width in drives.stops_of[place] if k < len(state.stops)}
    position, velocity, acceleration = state.motors
    return DriveMotion(
        _projected(drive, position),
        _projected(drive, velocity),
        _projected(drive, acceleration),
        _projected(drive, state.rigid),
        stops,
    )


def _projected(drive: Drive, values: Array) -> Array:
    moved = drive.moved
    if len(moved) == 1 and drive.ratio[moved[0]] == 1.0:
        return np.asarray(values[moved[0]])
    return np.asarray(drive.ratio[moved] @ values[moved])


def effort(drives: Drives, values: Mapping[str, float], state: DriveState) -> Array:
    """Return the drives' total effort on each channel, shape (channels, N) [N·m or N].

    Args:
        values: Coefficients by name, such as `elbow.viscous`, in the units of `Drives.labels`;
            missing ones count as zero.
    """
    coefficients = {c: values.get(drives.name(c), 0.0) for c in drives.columns}
    return _total(drives, coefficients, state)


def simple_effort(drives: Drives, values: Mapping[str, float], state: DriveState) -> Array:
    """Return the drives' effort with simple friction, shape (channels, N) [N·m or N].

    Rotor inertia, viscous friction and offset are those of `effort`. Coulomb friction is
    `tanh(w / STANDSTILL_SPEED)` times its coefficient: at standstill a drive holds by as much as is
    needed, and the sign of a measured speed would be of either side by chance.

    Args:
        values: Coefficients by name, such as `elbow.coulomb`, in the units of `Drives.labels`;
            missing ones count as zero.
    """
    rotors = [c for c in drives.columns if c[1].inertial]
    coefficients: dict[Column, float] = {}
    for d, term in (*rotors, *drives.simple_columns):
        fading = Sigmoid(STANDSTILL_SPEED * (LINEAR_SCALE if drives[d].linear else 1.0))
        shown = fading if isinstance(term, Coulomb) else term
        coefficients[d, shown] = values.get(drives.name((d, term)), 0.0)
    return _total(drives, coefficients, state)


def _total(drives: Drives, values: Mapping[Column, float], state: DriveState) -> Array:
    """Return the effort of columns by their coefficients, shape (channels, N) [N·m or N]."""
    chosen = [(c, value) for c, value in values.items() if value != 0.0]
    total = np.zeros_like(state.velocity)
    motions = {d: motion_of(drives, d, state) for d in {d for (d, _), _ in chosen}}
    column = np.empty(total.shape[1])
    for (d, term), value in chosen:
        term.write(motions[d], column)
        ratio = drives[d].ratio
        for channel in np.flatnonzero(ratio).tolist():
            total[channel] += ratio[channel] * value * column
    return total


def steady(terms: Sequence[Term], velocity: Array) -> Array:
    """Return a drive's terms in steady sliding without load, shape (terms, N).

    Times their coefficients these are the curve of friction over speed.

    Args:
        velocity: Shape (N,) [rad/s or m/s].
    """
    return np.array([t.steady(velocity) for t in terms]).reshape(len(terms), len(velocity))
