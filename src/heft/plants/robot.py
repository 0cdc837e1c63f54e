"""Rows of a robot: a tree of bodies with drives, one channel a joint."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, DriveState, drive_columns, kernels
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
    robot: Robot, q: Array, v: Array, a: Array, state: DriveState | None = None
) -> Array:
    """Return rows of all standard parameters, shape (N, channels, p), as `robot.labels`.

    Args:
        robot: The plant.
        q: Positions, shape (N, positions) [rad or m].
        v: Velocities, shape (N, channels).
        a: Accelerations, shape (N, channels).
        state: Of the drives; without, their memory and loads are zero.
    """
    if state is None:
        state = DriveState(
            _of_channels(robot, q),
            v.T,
            a.T,
            np.zeros((len(robot.drives.stop_columns), len(v))),
            np.zeros(v.T.shape),
        )
    return rows_of(robot, kernels.motion_of(robot.tree, robot.gravity, q, v, a), state)


def _of_channels(robot: Robot, q: Array) -> Array:
    """Return the joints' positions by channel, shape (channels, N); a base's are meaningless."""
    return q.T[robot.tree.positions - robot.tree.channels :]


def rows_of(
    robot: Robot, motion: kernels.Motion, state: DriveState, threads: int = 1, simple: bool = False
) -> Array:
    """Return the rows of all standard parameters at a motion, shape (N, channels, p).

    Args:
        robot: The plant.
        motion: Of the bodies.
        state: Of the drives.
        threads: How many threads share the work.
        simple: Whether the columns of simple friction come behind.
    """
    own = PARAMETER_COUNT * len(robot.tree.names)
    columns = (*robot.drive_columns, *(robot.simple_columns if simple else ()))
    out = np.zeros((robot.tree.channels, own + len(columns), motion.sin.shape[1]))
    kernels.regressor(robot.tree, motion, out, threads)
    made = drive_columns.columns(robot.drives, columns, state)
    for (channel, column), weight in zip(made.acts, made.weights, strict=True):
        out[channel, own + column] += weight * made.values[column]
    return np.moveaxis(out, 2, 0)


def both_sides(
    robot: Robot, motion: kernels.Motion, state: DriveState, simple: bool = False
) -> tuple[Array, Array]:
    """Return W₂ and F of the weak form `∫(−φ̇ W₂ − φ F) π dt = ∫φ τ dt`, each (N, channels, p).

    W₂ π is the generalised momentum, rotors' included; F π = W₁ π less friction. Arguments as
    those of `rows_of`.
    """
    own = PARAMETER_COUNT * len(robot.tree.names)
    columns = (*robot.drive_columns, *(robot.simple_columns if simple else ()))
    shape = (robot.tree.channels, own + len(columns), motion.sin.shape[1])
    momentum, remainder = np.zeros(shape), np.zeros(shape)
    kernels.momentum(robot.tree, motion, (momentum, remainder))
    # A rotor's momentum is its armature times its speed, which takes the place of ẇ.
    as_momentum = replace(state, acceleration=state.velocity)
    made = drive_columns.columns(robot.drives, columns, as_momentum)
    for (channel, column), weight in zip(made.acts, made.weights, strict=True):
        if columns[column][1].inertial:
            momentum[channel, own + column] += weight * made.values[column]
        else:
            remainder[channel, own + column] -= weight * made.values[column]
    return np.moveaxis(momentum, 2, 0), np.moveaxis(remainder, 2, 0)


def random_drive_state(
    robot: Robot, q: Array, v: Array, a: Array, rng: np.random.Generator
) -> DriveState:
    """Return random states of drives: their memory and loads are drawn, not lived through.

    Arguments as those of `standard_rows`. Speeds are made slower, by up to four
    decades: at common ones all sigmoids are the sign.
    """
    stops = rng.uniform(-1.0, 1.0, size=(len(robot.drives.stop_columns), len(v)))
    slow = v.T * 10.0 ** rng.uniform(-4.0, 0.0, size=v.T.shape)
    rigid = rng.normal(size=v.T.shape)
    return DriveState(_of_channels(robot, q), slow, a.T, stops, rigid)


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
    state = random_drive_state(robot, q, v, a, rng)
    rows = standard_rows(robot, q, v, a, state)[:, measured].reshape(-1, len(labels))
    # The dictionary's columns nearly depend on one another and never on the bodies': each is a
    # parameter of its own, whatever rounding says.
    own = PARAMETER_COUNT * len(robot.tree.names)
    inside = [own + k for k, (_, t) in enumerate(robot.drive_columns) if t.dictionary]
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
