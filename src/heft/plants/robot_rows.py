"""Rows of a robot on all its standard columns, at any states: bodies, drives, own columns."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from heft.arrays import Array
from heft.dynamics import PRISMATIC, DriveState, drive_columns, kernels
from heft.information import PARAMETER_COUNT
from heft.models import OwnColumns, Robot


def random_states(robot: Robot, count: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return random positions q, velocities v and accelerations a; fixed joints are at rest.

    They are in general position: use them where rows are to show all that motion could ever show.
    Shapes are as of `standard_rows`.
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
    fixed = fixed_positions(robot)
    still = np.flatnonzero(~np.isnan(fixed))
    q[:, first + shift + still] = fixed[still]
    v[:, first + still] = a[:, first + still] = 0.0
    return q, v, a


def fixed_positions(robot: Robot) -> Array:
    """Return where joints are held still, NaN for those that move, shape (joints,) [rad or m]."""
    positions = (robot.options.of(joint).position for joint in robot.joints)
    return np.array([np.nan if p is None else p for p in positions])


def standard_rows(
    robot: Robot, q: Array, v: Array, a: Array, state: DriveState | None = None
) -> Array:
    """Return the regressor Y(q, v, a) of all standard parameters, shape (N, channels, p).

    Columns are as `robot.labels` names them; entry (·, i, j) is in the unit of effort i per unit of
    parameter j.

    Args:
        q: Positions, shape (N, positions) [rad or m].
        v: Velocities, shape (N, channels) [rad/s or m/s].
        a: Accelerations, shape (N, channels) [rad/s² or m/s²].
        state: State of the drives; presliding memory and gear loads are zero if not given.
    """
    if state is None:
        stops = len(robot.drives.stops)
        state = DriveState(
            of_channels(robot, q), v.T, a.T, np.zeros((stops, len(v))), np.zeros(v.T.shape)
        )
    return rows_of(robot, kernels.motion_of(robot.tree, robot.gravity, q, v, a), state)


def of_channels(robot: Robot, q: Array) -> Array:
    """Return the joints' positions by channel, shape (channels, N), of q (N, positions) [rad or m].

    Channels of a floating base are meaningless.
    """
    return q.T[robot.tree.positions - robot.tree.channels :]


def rows_of(
    robot: Robot,
    motion: kernels.Motion,
    state: DriveState,
) -> Array:
    """Return the regressor Y of all standard parameters at a motion, shape (N, channels, p).

    Entry (·, i, j) is in the unit of effort i per unit of parameter j. Use it where the kernels'
    motion is at hand; `standard_rows` makes it from q, v and a.
    """
    own = PARAMETER_COUNT * len(robot.tree.names)
    columns = robot.drive_columns
    out = np.zeros((robot.tree.channels, standard_size(robot), motion.sin.shape[1]))
    kernels.regressor(robot.tree, motion, out)
    scatter = drive_columns.columns(robot.drives, columns, state)
    for (channel, column), weight in zip(scatter.acts, scatter.weights, strict=True):
        out[channel, own + column] += weight * scatter.values[column]
    if robot.own_columns is not None:
        moving = (state.position, state.velocity, state.acceleration)
        out[:, own_slice(robot)] = robot.own_columns.rows(*moving)
    return np.moveaxis(out, 2, 0)


def standard_size(robot: Robot) -> int:
    """Return the number p of standard parameters."""
    return int(own_slice(robot).stop) + len(robot.bias_names)


def own_slice(robot: Robot) -> slice:
    """Return the columns that are the user's own."""
    first = PARAMETER_COUNT * len(robot.tree.names) + len(robot.drive_columns)
    return slice(first, first + len(robot.own_names))


def random_drive_state(
    robot: Robot, q: Array, v: Array, a: Array, rng: np.random.Generator
) -> DriveState:
    """Return a random state of the drives: memory and loads are drawn, not caused by motion.

    Speeds are made slower, by up to four decades: at common ones all sigmoids are the sign.
    Arguments are as of `standard_rows`.
    """
    stops = rng.uniform(-1.0, 1.0, size=(len(robot.drives.stops), len(v)))
    slow = v.T * 10.0 ** rng.uniform(-4.0, 0.0, size=v.T.shape)
    return DriveState(of_channels(robot, q), slow, a.T, stops, rng.normal(size=v.T.shape))


def beside_own(
    own: OwnColumns, scatter: kernels.DriveColumns, state: DriveState
) -> kernels.DriveColumns:
    """Return drives' columns with the user's own, a row of values for each joint acted on."""
    made = own.rows(state.position, state.velocity, state.acceleration)
    values = np.vstack([scatter.values, made[own.acts[:, 0], own.acts[:, 1]]])
    return replace(
        scatter, values=values, weights=np.append(scatter.weights, np.ones(len(own.acts)))
    )


@lru_cache(maxsize=32)
def kernel_plan(robot: Robot, columns: tuple[int, ...], channels: tuple[int, ...]) -> kernels.Plan:
    """Return the layout by which kernels reduce these columns on these of the tree's channels."""
    acts, _ = robot.drives.actions(robot.drive_columns)
    rows = acts[:, 1]
    if robot.own_columns is not None:  # each with values of its own on each joint
        drives, own = len(robot.drive_columns), robot.own_columns.acts
        acts = np.vstack([acts, own + np.array([0, drives])])
        rows = np.append(rows, drives + np.arange(len(own)))
    measured = np.array(channels, dtype=np.intp)
    return kernels.plan(robot.tree, np.array(columns, dtype=np.intp), acts, measured, rows)
