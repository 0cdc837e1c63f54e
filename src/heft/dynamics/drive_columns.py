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
    runs_of,
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
    moved = _projected([drives[d] for d in of.tolist()], position).reshape(len(of), -1)
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
    asked = np.zeros(len(chosen), dtype=bool)
    asked[slice(None) if wanted is None else list(wanted)] = True
    motions: dict[tuple[int, ...], DriveMotion] = {}
    for own, term, members in drives.runs if chosen is drives.columns else runs_of(chosen):
        out, seen = values[own], asked[own]
        if not seen.all():
            members = tuple(d for d, a in zip(members, seen, strict=True) if a)
            out = np.empty((len(members), values.shape[1]))
        if not members:
            continue
        if members not in motions:
            motions[members] = motion_of(drives, members, state)
        term.write(motions[members], out.reshape(-1))
        if out.base is not values:
            values[own][seen] = out
    return DriveColumns(values, *drives.actions(chosen))


def motion_of(drives: Drives, places: Sequence[int], state: DriveState) -> DriveMotion:
    """Return the motion of drives at the N samples of a state, joint values times their ratios.

    Args:
        places: Positions of the drives in `drives`; their samples follow one another.
    """
    own, each = [drives[d] for d in places], [drives.stops_of[d] for d in places]
    rows = {width: [k[width] for k in each if width in k] for width in each[0]}
    stops = {
        width: state.stops[k].reshape(-1)
        for width, k in rows.items()
        if len(k) == len(own) and max(k) < len(state.stops)
    }
    seen = (*state.motors, state.rigid)
    position, velocity, acceleration, rigid = (_projected(own, values) for values in seen)
    return DriveMotion(position, velocity, acceleration, rigid, stops)


def _projected(drives: Sequence[Drive], values: Array) -> Array:
    alone = [int(d.moved[0]) for d in drives if len(d.moved) == 1 and d.ratio[d.moved[0]] == 1.0]
    if len(alone) == len(drives):
        return np.asarray(values[alone].reshape(-1))
    return np.concatenate([d.ratio[d.moved] @ values[d.moved] for d in drives])


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
    motions = {d: motion_of(drives, [d], state) for d in {d for (d, _), _ in chosen}}
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
