"""The semidefinite program of consistent bodies: the nearest point of a cone, in a norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import Bordered

from .feasible_set import IDENTITY, LinearConstraints

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
