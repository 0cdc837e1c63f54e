"""Batch kernels of any tree: regressor, momentum rows, inverse dynamics, information triangles.

Python's interface to the compiled recursion (`walk`). The torque of friction and drives enters as
values of columns and where they act (`DriveColumns`), so kernels know nothing of friction models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.compiled import plain
from heft.errors import FitError
from heft.information import PARAMETER_COUNT, matrix_of_quaternion, skew

from . import compiled_walks, walk
from .tree import PRISMATIC, REVOLUTE, Tree

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Motion:
    """Motion of a tree at N samples in the kernels' layout, joint-major."""

    # sin, cos: of each body's joint angle; for prismatic joints its position [m] and 0, shape
    # (bodies, N)
    sin: Array
    cos: Array
    velocity: Array  # v, shape (channels, N) [rad/s or m/s]
    acceleration: Array  # v̇, shape (channels, N) [rad/s² or m/s²]
    gravity: Array  # in the base's frame, shape (3, N) [m/s²]

    def part(self, cut: slice | NDArray[np.intp]) -> Motion:
        """Return a slice or selection of the samples."""
        return Motion(*(np.ascontiguousarray(array[:, cut]) for array in self.tuple()))

    def tuple(self) -> tuple[Array, ...]:
        """Return the arrays in the kernels' order."""
        return (self.sin, self.cos, self.velocity, self.acceleration, self.gravity)


def motion_of(tree: Tree, gravity: Array, q: Array, v: Array, a: Array) -> Motion:
    """Return N samples of q, v, v̇ in the kernels' layout.

    Args:
        gravity: In the world's frame, shape (3,) [m/s²].
        q: Positions, shape (N, tree.positions) [rad or m]; a free base is xyz and quaternion xyzw.
        v: Velocities, shape (N, tree.channels) [rad/s or m/s]; a free base's in its own frame,
            linear first.
        a: Their derivatives, shape (N, tree.channels) [rad/s² or m/s²]; a free base's the spatial
            acceleration.
    """
    count = q.shape[0]
    shift = tree.positions - tree.channels
    position = np.ascontiguousarray(q.T[tree.channel + shift])
    if not tree.plain:
        position = tree.multiplier[:, None] * position + tree.offset[:, None]
    sin, cos = np.empty_like(position), np.empty_like(position)
    if max(position.max(initial=0.0), -position.min(initial=0.0)) <= walk.LARGEST_ANGLE:
        compiled_walks.sine_cosine(position.reshape(-1), sin.reshape(-1), cos.reshape(-1))
    else:  # also where a position is not finite: the caller's check names it
        np.sin(position, out=sin)
        np.cos(position, out=cos)
    for b in np.flatnonzero(tree.kind == PRISMATIC):
        sin[b], cos[b] = position[b], 0.0
    if tree.free_base:
        rotation = matrix_of_quaternion(q[:, [6, 3, 4, 5]])
        felt = np.ascontiguousarray(np.einsum("nij,i->jn", rotation, gravity))
    else:
        felt = np.empty((3, count))
        felt[:] = gravity[:, None]
    velocity, acceleration = plain(v.T, a.T)
    return Motion(sin, cos, velocity, acceleration, felt)


@lru_cache(maxsize=16)
def compile_tree(tree: Tree) -> tuple[NDArray[Any], ...]:
    """Return the tree as the kernels' arrays; joint rotations as constant, sin q and cos q parts.

    Raises:
        AssertionError: If bodies are not in depth-first order.
    """
    bodies = len(tree.names)
    depth = np.zeros(bodies, dtype=np.int64)
    constant, sine, cosine = (np.zeros((bodies, 3, 3)) for _ in range(3))
    latest: dict[int, int] = {}
    for b in range(bodies):
        depth[b] = 0 if tree.parent[b] < 0 else depth[tree.parent[b]] + 1
        if tree.parent[b] >= 0 and latest[int(depth[b]) - 1] != tree.parent[b]:
            raise AssertionError("bodies are not in depth-first order")
        latest[int(depth[b])] = b
        cross = skew(tree.axis[b])
        if tree.kind[b] == REVOLUTE:
            # Rodrigues: R = R₀ (1 + sin q [u]× + (1 − cos q) [u]×²)
            constant[b] = tree.rotation[b] @ (np.eye(3) + cross @ cross)
            sine[b] = tree.rotation[b] @ cross
            cosine[b] = -tree.rotation[b] @ cross @ cross
        else:
            constant[b] = tree.rotation[b]
    flat = [m.reshape(bodies, 9) for m in (constant, sine, cosine)]
    integers = [np.array(a, dtype=np.int64) for a in (tree.parent, tree.kind, depth, tree.channel)]
    real = [np.array(a) for a in (tree.multiplier, *flat, tree.translation, tree.axis)]
    return (*integers, *real)


@lru_cache(maxsize=16)
def full_slots(tree: Tree) -> IntArray:
    """Return each body column's place in each channel's row if all are kept; −1 where it is zero.

    Shape (channels, 10 bodies).
    """
    moved = np.repeat(tree.ancestry, PARAMETER_COUNT, axis=1)
    return np.where(moved, np.arange(moved.shape[1]), -1)


@lru_cache(maxsize=16)
def slots_of(tree: Tree, columns: tuple[int, ...]) -> IntArray:
    """Return each body column's place among chosen ones, by channel; −1 for those left out.

    Shape (channels, 10 bodies).

    Args:
        columns: Positions among the columns, ten a body; positions past the bodies' columns are
            ignored.
    """
    place = np.full(PARAMETER_COUNT * len(tree.names), -1)
    for k, column in enumerate(columns):
        if column < len(place):
            place[column] = k
    return np.where(full_slots(tree) >= 0, place, -1)


def regressor(
    tree: Tree,
    motion: Motion,
    out: Array | None = None,
    slots: IntArray | None = None,
) -> Array:
    """Return the rigid-body regressor Y(q, v, v̇), with `Y @ π == inverse dynamics`.

    Args:
        out: Where to write, C-contiguous, shape (channels, 10 bodies or more, N), zero where a
            channel does not move a body; allocated if not given. Further columns are unchanged.
        slots: Place of each body column among those of `out`, shape (channels, 10 bodies), −1 for
            columns left out; all in their order if not given. See `slots_of`.

    Returns:
        Y of shape (N, channels, columns of `out`), a view of `out`; entry (·, i, j) in the unit of
        effort i per unit of parameter j.

    Raises:
        AssertionError: If `out` is not contiguous, writeable and of doubles.
    """
    if slots is None:
        slots = full_slots(tree)
    if out is None:
        out = np.zeros((tree.channels, PARAMETER_COUNT * len(tree.names), motion.sin.shape[1]))
    channels, columns, count = out.shape
    lines = np.where(slots >= 0, slots + columns * np.arange(channels)[:, None], -1)
    rows_into(tree, motion, lines, _writable(out).reshape(channels * columns, count))
    return np.moveaxis(out, 2, 0)


def rows_into(tree: Tree, motion: Motion, lines: IntArray, out: Array) -> None:
    """Write entries of the regressor Y.

    Args:
        lines: Line of `out` that takes each channel's entry of a body column, shape (channels,
            10 bodies); −1 for those left out.
        out: Shape (lines, N), C-contiguous; lines of no entry are unchanged.

    Raises:
        AssertionError: If `out` is not contiguous, writeable and of doubles.
    """
    compiled_walks.regress(compile_tree(tree), plain(*motion.tuple()), lines, _writable(out))


def momentum_into(tree: Tree, motion: Motion, lines: IntArray, out: tuple[Array, Array]) -> None:
    """Write entries of the regressors W₂ of the momentum and W₁ of its rate at zero effort.

    With `p = W₂ π = M(q) v` and `W₁ π = C(q, v)ᵀ v − g(q)` the equation of motion is

        d/dt(W₂ π) − W₁ π == inverse_dynamics(q, v, a)

    which needs no acceleration once it is integrated over time. The momentum of a body projected
    on a channel's axis S gives W₂. The axis moves with the body i that it sits on, so its rate
    V_i × S against the same momentum gives W₁, together with the body's weight against S: no
    finite difference is formed. Since Ṁ = C + Cᵀ this is the momentum of collision observers
    [DeLuca2005]. It holds for a free base as well: p is then the momentum in the base's own
    frame, and the axes turn with it.

    Args:
        motion: Its acceleration is not used.
        lines: As of `rows_into`.
        out: Of W₂ [N·m·s or N·s per unit of a column] and W₁ [N·m or N], two arrays of shape
            (lines, N), C-contiguous; lines of no entry are unchanged.

    Raises:
        AssertionError: If an array of `out` is not contiguous, writeable and of doubles.
    """
    second, first = (_writable(array) for array in out)
    none = np.zeros((0, motion.sin.shape[1]))
    walked = compile_tree(tree), plain(*motion.tuple()), lines
    compiled_walks.momenta(*walked, (none, none), second, first)


def windows_into(
    tree: Tree, motion: Motion, lines: IntArray, weights: tuple[Array, Array], out: Array
) -> None:
    """Add windows' integrals −∫ (φ̇ W₂ + φ W₁) dt of what `momentum_into` writes, stored nowhere.

    Args:
        weights: Of samples in the integrals of φ and of φ̇, each of shape (windows, N).
        out: Shape (lines, windows), C-contiguous; lines of no entry are unchanged.
    """
    walked = compile_tree(tree), plain(*motion.tuple()), lines
    compiled_walks.momenta(*walked, plain(*weights), _writable(out), np.zeros((0, 0)))


def inverse_dynamics(tree: Tree, motion: Motion, parameters: Array) -> Array:
    """Return the rigid-body efforts τ = Y(q, v, v̇) π, without storing the regressor.

    Args:
        parameters: π, ten a body, shape (10 bodies,) [kg, kg·m, kg·m²].

    Returns:
        Efforts [N·m or N], shape (channels, N).
    """
    out = np.zeros((tree.channels, motion.sin.shape[1]))
    if out.size:
        arrays = plain(*motion.tuple())
        compiled_walks.efforts(compile_tree(tree), arrays, *plain(parameters), out)
    return out


def _writable(out: Array) -> Array:
    if not (out.flags.c_contiguous and out.flags.writeable and out.dtype == np.float64):
        raise AssertionError("rows are written to contiguous doubles only")
    return out


@dataclass(frozen=True)
class DriveColumns:
    """Columns of drives' terms at N samples, and the channels that they act on."""

    values: Array  # shape (rows, N); effort per unit of a coefficient
    # channel and column of each action, shape (actions, 2). The values of column k are row k,
    # unless a plan says otherwise
    acts: IntArray
    weights: Array  # the drive's ratio to that channel, of each action, shape (actions,)


@dataclass(frozen=True)
class Plan:
    """Layout of a reduction: which columns of which channels go into the triangles.

    Made once for a robot and a choice of columns; see `plan`.
    """

    tree: tuple[NDArray[Any], ...]  # as `compile_tree` returns it
    # place of each body column among those of all channels that are reduced, one channel's after
    # another's, shape (channels, 10 bodies); −1 for columns left out
    lines: IntArray
    # of the channels to reduce: their number, first line and number of columns, shape (any, 3)
    chosen: IntArray
    # for each channel its columns, as positions in the choice
    columns: tuple[NDArray[np.intp], ...]
    # channel, row of values and line of each action of the drives' columns, shape (actions, 3)
    acts: IntArray
    picked: NDArray[np.intp]  # which actions of a `DriveColumns` these are, shape (actions,)


def plan(
    tree: Tree,
    chosen: NDArray[np.intp],
    acts: IntArray,
    measured: NDArray[np.intp],
    rows: NDArray[np.intp] | None = None,
) -> Plan:
    """Return the layout of a reduction to chosen columns and measured channels.

    Args:
        chosen: Positions among all columns (ten a body, then the drives'), ascending.
        acts: Channel and column of each action of drives' columns, shape (actions, 2).
        measured: The channels to reduce.
        rows: Row of values of each action, shape (actions,); the column's if not given.
    """
    row_of = acts[:, 1] if rows is None else rows
    bodies = len(tree.names)
    own = PARAMETER_COUNT * bodies
    total = own + int(acts[:, 1].max() + 1 if len(acts) else 0)
    seen = np.zeros((tree.channels, total), dtype=bool)
    seen[:, :own] = np.repeat(tree.ancestry, PARAMETER_COUNT, axis=1)
    seen[acts[:, 0], own + acts[:, 1]] = True
    wanted = np.zeros(total, dtype=bool)
    wanted[chosen] = True
    position = np.cumsum(wanted) - 1
    kept = seen & wanted
    reduced = np.isin(np.arange(tree.channels), measured)[:, None] & kept
    place = np.where(reduced, np.cumsum(reduced).reshape(reduced.shape) - 1, -1)
    widths = reduced.sum(axis=1)
    # Actions channel by channel.
    order = np.argsort(acts[:, 0], kind="stable")
    channel, column = acts[order].T
    line = place[channel, own + column]
    taken = line >= 0
    picked = order[taken]
    layout = np.column_stack([np.arange(tree.channels), np.cumsum(widths) - widths, widths])
    return Plan(
        compile_tree(tree),
        np.ascontiguousarray(place[:, :own], dtype=np.int64),
        layout[np.sort(measured)].astype(np.int64),
        tuple(position[own_columns].astype(np.intp) for own_columns in kept),
        np.column_stack([channel[taken], row_of[picked], line[taken]]).astype(np.int64),
        picked.astype(np.intp),
    )


def reduce(
    plan: Plan,
    motion: Motion,
    columns: DriveColumns,
    effort: Array,
    counted: NDArray[np.bool_] | None = None,
) -> list[Array]:
    """Return each channel's square-root information triangle `[R z; 0 ρ]` of its rows [Y τ].

    Args:
        effort: τ, shape (channels, N), or of several looks (looks, channels, N) [N·m or N].
        counted: Which rows count, shape (channels, N); all if not given.

    Returns:
        Upper triangles of shape (width + looks, width + looks), one a channel; none where
        unmeasured.
    """
    effort = effort.reshape(-1, *effort.shape[-2:])
    looks = len(effort)
    channels, firsts, widths = plan.chosen.T
    # Enough samples at a time to make panels worth while, few enough to stay in cache.
    # A humanoid's channels do not fit whatever is done, but each is folded by itself.
    deep = int(np.clip(2**20 // (8 * walk.BLOCK * max(int(widths.sum()), 1)), 4, walk.DEEPEST))
    if counted is None:
        counted = np.zeros((len(plan.columns), 0), dtype=np.bool_)
    values, weights, tau = plain(columns.values, columns.weights[plan.picked], effort)
    # Behind each channel's lines stand what it measures, and one to work in.
    room = np.zeros((len(plan.columns), 1), dtype=np.int64)
    room[channels, 0] = (looks + 1) * np.arange(len(channels))
    ends = np.cumsum((widths + looks) ** 2)
    triangles = np.zeros(int(ends[-1]) if len(ends) else 0)
    compiled_walks.reduce(
        plan.tree,
        plain(*motion.tuple()),
        (
            np.where(plan.lines >= 0, plan.lines + room, -1),
            plan.acts[:, 1:] + np.hstack([0 * room, room])[plan.acts[:, 0]],
            np.column_stack([channels, firsts + room[channels, 0], widths]),
        ),
        (values, weights),
        (tau, np.array(counted, order="C")),
        deep,
        triangles,
    )
    each = [np.zeros((0, 0))] * len(plan.columns)
    for c, end, n in zip(channels.tolist(), ends.tolist(), (widths + looks).tolist(), strict=True):
        each[c] = triangles[end - n * n : end].reshape(n, n)
    return each


def require_finite(motion: Motion) -> None:
    """Raise `FitError` if an array of the motion holds NaN or infinity, as smoothing may leave.

    Raises:
        FitError: Naming the array.
    """
    for name, array in vars(motion).items():
        if not np.isfinite(array).all():
            raise FitError(f"{name} is not finite", cure="check the log for spikes and gaps")
