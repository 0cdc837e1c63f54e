"""Semidefinite programs of consistent bodies: the nearest robot, and whether one can exist.

The nearest robot is the point of a product of cones that is nearest to one outside, in a norm.

Infinitely many standard parameters have the same base parameters β = K x. Of all of these the
program takes the robot that is farthest inside the cone of consistent bodies:

    maximise t   subject to   K x = β,   L⁻¹ S(x) L⁻ᵀ ⪰ t·1 of each link,   drives ≥ 0

with S a link's pseudo-inertia [Wensing2018] and L the Cholesky factor of the model file's. Such a
robot exists if and only if t > 0; t is 1 where the links are as far from the edge as those of the
model file, and below 0 it tells by how much of these the worst link falls short. Any one x of β,
the shortest say, may fail where another exists, so that it decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.information import Bordered, ParameterSpace

from .feasible_set import IDENTITY, LinearConstraints, scaled_metric, unstack

GAP = 1e-10  # of the solver: duality gap and violations, relative to offsets


def conic_settings() -> Any:
    """Return the conic solver's settings: silent, with reproducible results."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # one thread, one order of sums
    return settings


def nearest_body(
    triangle: Bordered, free: Array, constraints: LinearConstraints, margin: float
) -> tuple[Array, int, NDArray[np.bool_]] | None:
    """Return the point of the cone nearest to `free` in the norm of R, or None.

    Minimises ½ ‖y‖² over `y = R (u − free)`: in these coordinates the norm is the plain one, RᵀR is
    never formed, and what is badly scaled is in the constraints alone, which the solver is told to
    leave as they are.

    Args:
        triangle: R.
        free: Unconstrained optimum, bodies in the model file's measure first, shape (n,).
        constraints: Linear ones, on u.
        margin: Least eigenvalue of a body.

    Returns:
        u, shape (n,), the iterations, and for each constraint whether it binds, shape (k,); None
        if the solver fails.
    """
    bodies = len(triangle.R)
    assert triangle.inverse is not None
    back = triangle.inverse.matrix
    rows = np.vstack([constraints.rows @ back, back[:bodies]])
    offsets = np.append(
        constraints.rows @ free - constraints.least,
        free[:bodies] - margin * np.tile(IDENTITY, bodies // 10),
    )
    length = float(np.linalg.norm(triangle.rows()[:-1, :-1] @ free))
    for scale in (1.0, max(length, 1e-300)):
        nearest = _nearest(scale * rows, offsets, constraints.equal)
        if nearest is not None:
            moved, slack, push, iterations = nearest
            # A constraint binds where its multiplier, of the norm, outweighs its distance from it.
            binds = scale * push > float(np.linalg.norm(moved)) * slack
            return free + scale * (back @ moved), iterations, binds | constraints.equal
    return None


def _nearest(
    rows: Array, offsets: Array, equal: NDArray[np.bool_]
) -> tuple[Array, Array, Array, int] | None:
    """Return the shortest y with `rows y + offsets` in the cone, slacks, multipliers, iterations.

    Args:
        rows: Of linear constraints, shape (k, n), and then ten of each body.
        equal: Which of the linear constraints are equations, shape (k,); the others are ≥ 0.
    """
    import clarabel

    size, count, equations = rows.shape[1], len(equal), int(equal.sum())
    linear = np.argsort(~equal, kind="stable")
    order = np.append(linear, np.arange(count, len(rows)))
    cones = [clarabel.ZeroConeT(equations), clarabel.NonnegativeConeT(count - equations)]
    cones += [clarabel.PSDTriangleConeT(4) for _ in range(count, len(rows), 10)]
    settings = conic_settings()
    settings.equilibrate_enable = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = GAP
    solution = clarabel.DefaultSolver(
        scipy.sparse.identity(size, format="csc"),
        np.zeros(size),
        scipy.sparse.csc_matrix(-rows[order]),
        offsets[order],
        cones,
        settings,
    ).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        return None
    slack, push = np.empty(count), np.empty(count)
    slack[linear], push[linear] = solution.s[:count], solution.z[:count]
    return np.asarray(solution.x), slack, push, int(solution.iterations)


MOST = 1.0  # margin beyond which it is not sought: that of the model file's links
ALONE = 1e-9  # by which a parameter may be off one that β tells by itself


@dataclass(frozen=True, eq=False)
class NearestRobot:
    """The robot of given base parameters that is farthest inside the cone of consistent bodies."""

    # t, the least eigenvalue of a link's pseudo-inertia in the model file's measure; a robot exists
    # if it is above 0. Not sought beyond 1
    margin: float
    # standard parameters x of that robot, shape (n,), in the units of the space's labels
    values: Array


def nearest_robot(
    values: Array, space: ParameterSpace, kept: Sequence[int] | None = None
) -> NearestRobot:
    """Return the robot with base parameters β that is farthest inside the cone.

    Drives' parameters that β tells by themselves are what they are, negative or not; those that
    it tells only together with the bodies' are kept at 0 or above.

    Args:
        values: β, shape (b,).
        space: Of x, with its map K to β, of full row rank, and the model file's values.
        kept: Positions of the base parameters that are stated; the others may be anything. All if
            not given.

    Raises:
        SolverFailure: If the program is not solved.
    """
    chosen = list(range(len(space.matrix))) if kept is None else list(kept)
    metric = scaled_metric(space)
    rows = space.matrix[chosen] @ metric
    lengths = np.linalg.norm(rows, axis=1)
    start, free = _solutions(rows / lengths[:, None], np.asarray(values)[chosen] / lengths)
    told = np.linalg.norm(free, axis=1) <= ALONE
    mixed = [k for k in space.nonnegative if not told[k]]
    found = _farthest(start, free, space.groups, mixed)
    found[mixed] = np.maximum(found[mixed], 0.0)  # which the solver keeps to its tolerance
    robot = metric @ found
    return NearestRobot(margin_of(robot, space), robot)


def margin_of(values: Array, space: ParameterSpace) -> float:
    """Return the margin of standard parameters, 1 at most; see `NearestRobot`.

    Args:
        values: x, shape (n,).
    """
    scaled = np.asarray(np.linalg.solve(scaled_metric(space), values), dtype=float)
    links = unstack(np.array([scaled[k : k + 10] for k in space.groups]).reshape(-1, 10))
    return float(min(np.linalg.eigvalsh(links)[:, 0].min(initial=MOST), MOST))


def _solutions(rows: Array, values: Array) -> tuple[Array, Array]:
    """Return u₀ and N with all solutions u₀ + N z of `rows @ u = values`, N orthonormal."""
    basis, triangle = scipy.linalg.qr(rows.T)
    rank = len(rows)
    start = basis[:, :rank] @ scipy.linalg.solve_triangular(triangle[:rank], values, trans=1)
    return start, np.asarray(basis[:, rank:])


def _farthest(
    start: Array, free: Array, groups: Sequence[int], nonnegative: Sequence[int]
) -> NDArray[np.float64]:
    """Return u = u₀ + N z with the largest margin t; see the module.

    Raises:
        SolverFailure: If the program is not solved.
    """
    import clarabel

    count = free.shape[1]
    # Rows s = limits − A [z; t], each in its cone.
    parts = [np.append(np.zeros(count), 1.0)[None]]
    limits = [np.array([MOST])]
    cones: list[object] = [clarabel.NonnegativeConeT(1 + len(nonnegative))]
    chosen = list(nonnegative)
    parts.append(np.column_stack([-free[chosen], np.zeros(len(chosen))]))
    limits.append(start[chosen])
    for first in groups:
        ten = slice(first, first + 10)
        parts.append(np.column_stack([-free[ten], IDENTITY]))
        limits.append(start[ten])
        cones.append(clarabel.PSDTriangleConeT(4))
    solution = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix((count + 1, count + 1)),
        np.append(np.zeros(count), -1.0),
        scipy.sparse.csc_matrix(np.vstack(parts)),
        np.concatenate(limits),
        cones,
        conic_settings(),
    ).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise SolverFailure(
            "whether a robot has these base parameters is not decided",
            argument="conic program",
            got=str(solution.status),
            cure="scale the model file's masses to what the robot may have",
        )
    return np.asarray(start + free @ np.asarray(solution.x)[:count])
