"""Friction and drives: what each term is a function of, its memory, its columns.

A drive of position x, speed `w` and acceleration `ẇ` takes the effort

    armature · ẇ + viscous · w + coulomb · sign(w) + offset
        + Σ_s sigmoid_s · tanh(w/s) + Σ_b stop_b · z_b/b + load · tanh(w/s) |τ_rigid|

which acts on the channels by the drive's ratios r (virtual work). A joint is a drive of its
own; a motor coupled to several joints is one more. The *stop* operator remembers: `z_b` follows
the position, `z ← clip(z + Δx, ±b)`, as a spring that slips at the width b (presliding, the
element of the Maxwell-slip model [AlBender2005]); it is 0 at a log's first row. τ_rigid is the
torque of the rigid body on the drive's joint: gears rub more under load.

All of it is linear in coefficients that are not negative, the offset apart. So a few fixed
scales stand for any course of friction that rises with speed and travel, and what is found
never extrapolates to nonsense, as polynomials in the speed do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array

from .drives import HasDrives, Term
from .kernels import Scatter
from .presliding import stops

Column = tuple[int, Term]  # position of the drive in the robot, and which of its terms
DICTIONARY = ("sigmoid", "stop", "load")  # kinds that stand for a course of friction together


def is_nonnegative(term: Term) -> bool:
    """Return whether a term's coefficient must not be negative."""
    return term.kind != "offset"


@dataclass(frozen=True)
class Course:
    """What drives' columns are functions of, at N samples.

    Attributes:
        velocity, acceleration: Shape (channels, N) [rad/s or m/s, and per s].
        stops: z/b of each stop of the robot, in [−1, 1], shape (stops, N); see `presliding`.
        rigid: Torque of the rigid body, shape (channels, N) [N·m or N].
    """

    velocity: Array
    acceleration: Array
    stops: Array
    rigid: Array


def stop_columns(robot: HasDrives) -> tuple[Column, ...]:
    """Return the robot's stops, in the order of `Course.stops`."""
    return tuple(c for c in robot.drive_columns if c[1].kind == "stop")


@dataclass(frozen=True)
class Presliding:
    """The memory of friction along a stretch of a log.

    Attributes:
        time: Shape (N,) [s].
        position: Of each stop's drive, shape (stops, N) [rad or m].
        values: z/b of each stop, shape (stops, N).
    """

    time: Array
    position: Array
    values: Array


def presliding(
    robot: HasDrives, time: Array, position: Array, before: Presliding | None = None
) -> Presliding:
    """Return the stops along a stretch of a log, going on from the stretch before.

    Args:
        robot: Whose drives.
        time: Shape (N,) [s].
        position: Shape (channels, N) [rad or m].
        before: The stretch before, which may reach into this one; at rest if there is none.
            What happened in a silence between them counts as one move.
    """
    columns = stop_columns(robot)
    if not columns or not len(time):
        empty = np.empty((len(columns), len(time)))
        return Presliding(time, empty, empty.copy())
    moved = np.stack([_projected(robot.drives[d].ratio, position) for d, _ in columns])
    widths = np.array([t.scale for _, t in columns])
    if before is None or not len(before.time):
        last, held = moved[:, 0].copy(), np.zeros(len(columns))
    else:
        k = max(int(np.searchsorted(before.time, time[0], side="right")) - 1, 0)
        if before.time[-1] > time[-1]:  # the clock was set back: go on from the end
            k = len(before.time) - 1
        last, held = before.position[:, k].copy(), before.values[:, k].copy()
    return Presliding(time, moved, stops(moved, widths, last, held))


def acts(robot: HasDrives, columns: Sequence[Column]) -> NDArray[np.int64]:
    """Return channel and column of each action of drives' columns, shape (actions, 2)."""
    pairs = [
        (channel, column)
        for column, (d, _) in enumerate(columns)
        for channel in np.flatnonzero(robot.drives[d].ratio)
    ]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def columns(robot: HasDrives, chosen: Sequence[Column], course: Course) -> Scatter:
    """Return drives' columns at samples.

    Args:
        robot: Whose drives.
        chosen: Which columns.
        course: What they are functions of.
    """
    values = np.empty((len(chosen), course.velocity.shape[1]))
    places = {c: k for k, c in enumerate(stop_columns(robot))}
    for column, (d, term) in enumerate(chosen):
        ratio = robot.drives[d].ratio
        if term.kind == "offset":
            values[column] = 1.0
        elif term.kind == "stop":
            values[column] = course.stops[places[d, term]]
        else:
            rate = _projected(
                ratio, course.acceleration if term.kind == "armature" else course.velocity
            )
            values[column] = _of_speed(term, rate, ratio, course)
    actions = acts(robot, chosen)
    weights = np.array([robot.drives[chosen[k][0]].ratio[c] for c, k in actions])
    return Scatter(values, actions, weights)


def _of_speed(term: Term, rate: Array, ratio: Array, course: Course) -> Array:
    """Return a term at a drive's speed (for a rotor's inertia, its acceleration)."""
    if term.kind == "coulomb":
        return np.asarray(np.sign(rate))
    if term.scale is None:
        return rate
    smooth = np.tanh(rate / term.scale)
    if term.kind == "load":
        smooth *= np.abs(_projected(ratio, course.rigid))
    return np.asarray(smooth)


def _projected(ratio: Array, values: Array) -> Array:
    moved = np.flatnonzero(ratio)
    if len(moved) == 1 and ratio[moved[0]] == 1.0:
        return np.asarray(values[moved[0]])
    return np.asarray(ratio[moved] @ values[moved])


def effort(robot: HasDrives, values: Mapping[str, float], course: Course) -> Array:
    """Return the drives' effort on each channel, shape (channels, N) [N·m or N].

    Args:
        robot: Whose drives.
        values: By name, such as `elbow.viscous`; what is missing counts as zero.
        course: What it is a function of.
    """
    chosen = [
        (d, term)
        for d, term in (*robot.drive_columns, *robot.simpler_columns)
        if values.get(f"{robot.drives[d].name}.{term.name}", 0.0) != 0.0
    ]
    scatter = columns(robot, chosen, course)
    total = np.zeros_like(course.velocity)
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        d, term = chosen[column]
        factor = weight * values[f"{robot.drives[d].name}.{term.name}"]
        total[channel] += factor * scatter.values[column]
    return total


def steady(terms: Sequence[Term], velocity: Array) -> Array:
    """Return a drive's terms in steady sliding without load, shape (terms, N).

    The stops have slipped, the rotor does not accelerate, and nothing presses on the gears.

    Args:
        terms: What its effort is made of.
        velocity: Shape (N,) [rad/s or m/s].
    """
    rows = np.zeros((len(terms), len(velocity)))
    for k, term in enumerate(terms):
        if term.kind == "viscous":
            rows[k] = velocity
        elif term.kind in ("coulomb", "stop"):
            rows[k] = np.sign(velocity)
        elif term.kind == "sigmoid":
            rows[k] = np.tanh(velocity / (term.scale or 1.0))
        elif term.kind == "offset":
            rows[k] = 1.0
    return rows
