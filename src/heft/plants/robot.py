"""Rows of a robot: a tree of bodies with drives, one channel a joint."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, Course, drive_columns, kernels
from heft.information import (
    PARAMETER_COUNT,
    BaseParameters,
    base_parameters,
    column_order,
    triangle_of,
)
from heft.models import Robot

STRUCTURE_SEED = 20_260  # any will do: the base parameters do not depend on the draw


def random_states(robot: Robot, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return random positions, velocities and accelerations, joints held still at rest.

    Returns:
        q (count, positions), v (count, channels), a (count, channels).
    """
    tree = robot.tree
    first = tree.channels - len(robot.joints)
    v, a = rng.normal(size=(2, count, tree.channels))
    q = rng.uniform(-np.pi, np.pi, size=(count, tree.positions))
    shift = tree.positions - tree.channels
    for c in set(tree.channel[tree.kind == PRISMATIC].tolist()):
        q[:, c + shift] /= np.pi
    if tree.free_base:
        q[:, 3:7] = rng.normal(size=(count, 4))
    for k, joint in enumerate(robot.joints):
        held = robot.options.of(joint).position
        if held is not None:
            q[:, first + shift + k] = held
            v[:, first + k] = a[:, first + k] = 0.0
    return q, v, a


def standard_rows(
    robot: Robot, q: Array, v: Array, a: Array, course: Course | None = None
) -> Array:
    """Return rows of all standard parameters, shape (N, channels, p), as `robot.labels`.

    Args:
        robot: The plant.
        q: Positions, shape (N, positions) [rad or m].
        v: Velocities, shape (N, channels).
        a: Accelerations, shape (N, channels).
        course: What friction is a function of; without, its memory and loads are zero.
    """
    if course is None:
        course = Course(
            v.T,
            a.T,
            np.zeros((len(drive_columns.stop_columns(robot)), len(v))),
            np.zeros(v.T.shape),
        )
    return rows_of(robot, kernels.motion_of(robot.tree, robot.gravity, q, v, a), course)


def rows_of(
    robot: Robot, motion: kernels.Motion, course: Course, threads: int = 1, simpler: bool = False
) -> Array:
    """Return the rows of all standard parameters at a motion, shape (N, channels, p).

    Args:
        robot: The plant.
        motion: Of the bodies.
        course: Of the drives.
        threads: How many threads share the work.
        simpler: Whether the simpler stand-ins for friction's dictionary come behind.
    """
    own = PARAMETER_COUNT * len(robot.tree.names)
    columns = (*robot.drive_columns, *(robot.simpler_columns if simpler else ()))
    out = np.zeros((robot.tree.channels, own + len(columns), motion.sin.shape[1]))
    kernels.regressor(robot.tree, motion, out, threads)
    scatter = drive_columns.columns(robot, columns, course)
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        out[channel, own + column] += weight * scatter.values[column]
    return np.moveaxis(out, 2, 0)


def both_sides(
    robot: Robot, motion: kernels.Motion, course: Course, simpler: bool = False
) -> tuple[Array, Array]:
    """Return W₂ and F of the weak form `∫(−φ̇ W₂ − φ F) π dt = ∫φ τ dt`, each (N, channels, p).

    W₂ π is the generalised momentum, rotors' included; F π = W₁ π less friction. Arguments as
    those of `rows_of`.
    """
    own = PARAMETER_COUNT * len(robot.tree.names)
    columns = (*robot.drive_columns, *(robot.simpler_columns if simpler else ()))
    shape = (robot.tree.channels, own + len(columns), motion.sin.shape[1])
    momentum, remainder = np.zeros(shape), np.zeros(shape)
    kernels.momentum(robot.tree, motion, (momentum, remainder))
    # A rotor's momentum is its armature times its speed, which takes the place of ẇ.
    scatter = drive_columns.columns(robot, columns, replace(course, acceleration=course.velocity))
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        if columns[column][1].kind == "armature":
            momentum[channel, own + column] += weight * scatter.values[column]
        else:
            remainder[channel, own + column] -= weight * scatter.values[column]
    return np.moveaxis(momentum, 2, 0), np.moveaxis(remainder, 2, 0)


def random_course(robot: Robot, v: Array, a: Array, rng: np.random.Generator) -> Course:
    """Return a course of random states: its memory and loads are drawn, not lived through.

    Speeds are made slower, by up to four decades: at common ones all sigmoids are the sign.
    """
    stops = rng.uniform(-1.0, 1.0, size=(len(drive_columns.stop_columns(robot)), len(v)))
    slow = v.T * 10.0 ** rng.uniform(-4.0, 0.0, size=v.T.shape)
    return Course(slow, a.T, stops, rng.normal(size=v.T.shape))


@lru_cache(maxsize=8)
def structural_base(robot: Robot) -> BaseParameters:
    """Return the base parameters of a robot: what any motion could tell at best.

    From rows at random states, of the channels that are measured. The same robot always gives
    the same base parameters.
    """
    labels = robot.labels
    measured = robot.measured
    count = max(32, -(-4 * len(labels) // max(len(measured), 1)))
    rng = np.random.default_rng(STRUCTURE_SEED)
    q, v, a = random_states(robot, count, rng)
    course = random_course(robot, v, a, rng)
    rows = standard_rows(robot, q, v, a, course)[:, measured].reshape(-1, len(labels))
    # The dictionary's columns nearly depend on one another and never on the bodies': each is a
    # parameter of its own, whatever rounding says.
    own = PARAMETER_COUNT * len(robot.tree.names)
    inside = [
        own + k
        for k, (_, t) in enumerate(robot.drive_columns)
        if t.kind in drive_columns.DICTIONARY
    ]
    plain = [k for k in range(len(labels)) if k not in set(inside)]
    order = column_order(len(robot.tree.names), len(plain))
    base = base_parameters(triangle_of(rows[:, plain]), labels.select(plain), order)
    seen = [k for k in inside if np.any(rows[:, k] != 0.0)]
    kept = sorted([plain[k] for k in base.kept] + seen)
    matrix = np.zeros((len(kept), len(labels)))
    for row, position in zip(base.matrix, base.kept, strict=True):
        matrix[kept.index(plain[position]), plain] = row
    for position in seen:
        matrix[kept.index(position), position] = 1.0
    unseen = sorted([plain[k] for k in base.unseen] + [k for k in inside if k not in seen])
    return BaseParameters(labels, tuple(kept), matrix, tuple(unseen), base.gap)
