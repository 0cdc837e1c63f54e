"""The semidefinite program of consistent bodies: the nearest point of a cone, in a norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array

from .drives_first import DrivesFirst
from .feasible_set import IDENTITY, LinearConstraints, unstack
from .interior_equations import Norm, Walls
from .interior_point import InteriorPoint


def conic_settings() -> Any:
    """Return the conic solver's settings: silent, with reproducible results."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # one thread, one order of sums
    return settings


def nearest_body(
    triangle: DrivesFirst, free: Array, constraints: LinearConstraints, margin: float
) -> tuple[Array, int, NDArray[np.bool_]] | None:
    """Return the point of the cone nearest to `free` in the norm of R, or None.

    By steps that know a robot's zeros, to a certificate; by the conic solver where they come to
    none, and where constraints are equations or hold several bodies or terms.

    Args:
        triangle: R, whose terms without a sign were eliminated before those with one.
        free: Unconstrained optimum, bodies in the model file's measure first, shape (n,).
        constraints: Linear ones, on u.
        margin: Least eigenvalue of a body.

    Returns:
        u, shape (n,), the iterations, and for each constraint whether it binds, shape (k,); None
        if both solvers fail.
    """
    found = _by_steps(triangle, free, constraints, margin)
    if found is not None:
        return found
    rows = triangle.rows()[:-1, :-1]
    for scale in (1.0, 1.0 / max(float(np.linalg.norm(rows @ free)), 1e-300)):
        found = _by_conic_solver(scale * rows, free, len(triangle.bodies), constraints, margin)
        if found is not None:
            return found
    return None


def _by_steps(
    triangle: DrivesFirst, free: Array, constraints: LinearConstraints, margin: float
) -> tuple[Array, int, NDArray[np.bool_]] | None:
    """Return the point, the steps and what binds; None if steps find no point."""
    if constraints.equal.any():
        return None
    bodies = len(triangle.bodies)
    held = np.any(constraints.rows != 0.0, axis=0)
    # Terms before the first that a constraint holds follow from the others.
    alone = [
        int(np.append(np.flatnonzero(held[d.terms]), len(d.terms))[0]) for d in triangle.drives
    ]
    behind = [d.behind(k) for d, k in zip(triangle.drives, alone, strict=True)]
    if not all(held[d.terms].all() for d in behind):
        return None
    holding = tuple(d for d in behind if len(d.terms))
    places = np.concatenate([*(d.terms for d in holding), np.arange(bodies)]).astype(np.intp)
    walls = Walls.of(constraints.rows[:, places], len(places) - bodies)
    if walls is None:
        return None
    offsets = (constraints.rows @ free - constraints.least)[walls.order]
    tens = unstack(free[:bodies].reshape(-1, 10)) - margin * np.eye(4)
    norm = Norm.of(holding, triangle.bodies)
    nearest = InteriorPoint().nearest(norm, walls, offsets, tens)
    if nearest is None:
        return None
    moved = np.zeros(len(free))
    moved[places] = nearest.y
    for drive, count in zip(triangle.drives, alone, strict=True):
        drive.follow(count, moved)
    length = float(np.linalg.norm(norm.times(nearest.y)))
    binds = np.empty(len(walls.order), dtype=bool)
    binds[walls.order] = nearest.push > length * nearest.slack  # multipliers of the norm
    return free + moved, nearest.steps, binds


def _by_conic_solver(
    R: Array, free: Array, bodies: int, constraints: LinearConstraints, margin: float
) -> tuple[Array, int, NDArray[np.bool_]] | None:
    """Return the point, the iterations and what binds; None if the solver fails.

    Minimises `t` subject to `‖R (u − free)‖ ≤ t`: a norm, not its square, so that RᵀR is
    never formed, and steps from the unconstrained optimum, which keeps numbers small.
    """
    import clarabel

    size = len(free)
    order = np.argsort(~constraints.equal, kind="stable")
    equations = int(constraints.equal.sum())
    parts = [-scipy.sparse.csr_matrix(constraints.rows[order])]
    limits = [(constraints.rows @ free - constraints.least)[order]]
    cones = [
        clarabel.ZeroConeT(equations),
        clarabel.NonnegativeConeT(len(order) - equations),
    ]
    unit = scipy.sparse.identity(size, format="csr")
    for first in range(0, bodies, 10):
        parts.append(-unit[first : first + 10])
        limits.append(free[first : first + 10] - margin * IDENTITY)
        cones.append(clarabel.PSDTriangleConeT(4))
    parts.append(
        -scipy.sparse.vstack([scipy.sparse.csr_matrix((1, size)), scipy.sparse.csr_matrix(R)])
    )
    limits.append(np.zeros(size + 1))
    cones.append(clarabel.SecondOrderConeT(size + 1))
    rows = sum(part.shape[0] for part in parts)
    bound_by = scipy.sparse.csr_matrix(([-1.0], ([rows - size - 1], [0])), shape=(rows, 1))
    solution = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix((size + 1, size + 1)),
        np.append(np.zeros(size), 1.0),
        scipy.sparse.hstack([scipy.sparse.vstack(parts), bound_by]).tocsc(),
        np.concatenate(limits),
        cones,
        conic_settings(),
    ).solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        return None
    # A constraint binds where its multiplier outweighs its distance from it.
    count = len(order)
    distance, multiplier = np.asarray(solution.s)[:count], np.asarray(solution.z)[:count]
    binds = np.empty(count, dtype=bool)
    binds[order] = (multiplier > distance) | constraints.equal[order]
    return free + np.asarray(solution.x)[:size], int(solution.iterations), binds
