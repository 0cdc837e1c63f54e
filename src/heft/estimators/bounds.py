"""Strict bounds: confidence intervals from the data and physical consistency alone, no prior.

For a linear function c·x of the parameters, its minimum and maximum over

    { x consistent : ‖R M x − z‖² ≤ (least misfit of a consistent x) + χ²₁(level) }

with R of independent rows of unit variance [Rust1972]. Where no constraint is near, that is the
value ± 1.96 standard deviations (level 0.95); where one is, the interval ends there, and it is
unbounded in an unidentified direction. The set is convex: each end is one conic problem. A
centre of mass h/m is a ratio; in the scaled parameters y = s x of mass one it is linear again
[Charnes1962].

That χ²₁ covers is no theorem once constraints bind [Batlle2023]. In simulation, truths on the
boundary (rods without width, drives without friction), 300 experiments each: masses, centres of
mass and identifiable combinations of a planar arm are covered in 93 to 100 of 100 cases, at a
nominal 95; but sums of second moments of a rod, all of whose ten parameters are identified, in
84 to 90 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.special

from heft.arrays import Array
from heft.information import Directions, ParameterSpace, Triangle, inertia

from .consistent import PhysicallyConsistent
from .feasible_set import (
    Limits,
    LinearConstraints,
    linear_constraints,
    scaled_metric,
)
from .semidefinite import conic_settings

NO_LIMITS = Limits()
# Strength of the prior that picks one of the best points: it can only widen, by as little.
LEAST_PRIOR = 1e-6
# Of the one that picks a point near them whose numbers are moderate, to measure from.
CENTRING = 1.0
# Directions in which the data leave the model file's numbers this many times themselves count as
# not seen. Leaving a row out can only widen.
UNSEEN = 1e5
# Bounds beyond this many times the link's mass and size in the model file are none.
MASS_CAP = 1e4
LENGTH_CAP = 100.0
# What is added for the solver's tolerance of 1e-8, as a share and in the model file's units:
# a friction that is zero must not fall out of its bounds by rounding.
EXACT = 1e-7
# What is added, as a share, where the solver ended with a lower accuracy than asked: runs from
# different centres then differed by up to 2 %, between links that may nearly vanish.
ALMOST = 0.05
# A body whose least mass is this share of the model file's can vanish: its centre is anywhere.
VANISHED = 1e-3


@dataclass(frozen=True)
class StrictBounds:
    """Confidence intervals of masses and centres of mass over all consistent robots.

    Attributes:
        links: Names of the links.
        mass: Lower and upper bound, shape (links, 2) [kg]; infinite where unbounded.
        com: Lower and upper bound of x, y, z in the link's frame, shape (links, 3, 2) [m].
        level: Nominal coverage of each interval by itself.
    """

    links: tuple[str, ...]
    mass: Array
    com: Array
    level: float


@dataclass(frozen=True)
class PossibleFits:
    """Confidence set: all physically consistent parameters whose misfit is within a radius.

    Attributes:
        centre: A point u of the set, scaled by the cone's metric, shape (n,).
        metric: `x = metric @ u`, shape (N, n): eliminated drives have no columns.
        rows: Rows of unit variance on u in the identified directions, shape (r, n).
        rest: Their misfit at the centre, shape (r,).
        radius: Largest norm of the misfit [standard deviations].
        links: Number of links.
        constraints: Linear constraints on u.
    """

    centre: Array
    metric: Array
    rows: Array
    rest: Array
    radius: float
    links: int
    constraints: LinearConstraints

    @staticmethod
    def of(
        triangle: Triangle,
        space: ParameterSpace,
        level: float = 0.95,
        limits: Limits = NO_LIMITS,
        drives: bool = True,
    ) -> PossibleFits:
        """Return the set.

        Args:
            triangle: Information about β in independent rows of unit variance.
            space: The parameters x and their map to β; nominal values only scale the unknowns.
            level: Nominal coverage of an interval, 0 to 1.
            limits: Hard bounds on masses and centres of mass.
            drives: Whether the drives' terms remain unknowns. If not they are eliminated without
                their sign constraints: wider intervals, with ten unknowns a link only.

        Raises:
            InvalidSetting: If a limit is of a link that is not there.
            SolverFailure: If no consistent parameters are found.
        """
        constraints = linear_constraints(space, limits)
        best, middle = (
            PhysicallyConsistent(strength=n, margin=0.0, limits=limits).fit(triangle, space)
            for n in (LEAST_PRIOR, CENTRING)
        )
        metric = scaled_metric(space)
        bodies = 10 * len(space.groups)
        columns = triangle.R @ space.matrix @ metric
        lengths = np.linalg.norm(columns[:, bodies:], axis=0)
        metric[:, bodies:] /= np.where(lengths > 0.0, lengths, 1.0)
        columns = triangle.R @ space.matrix @ metric
        constraints = constraints.measured(metric)
        centre = np.asarray(np.linalg.solve(metric, middle.parameters.values), dtype=np.float64)
        rest = triangle.z - columns @ centre
        least = triangle.R @ (space.matrix @ best.parameters.values) - triangle.z
        energy = float(least @ least) + float(scipy.special.chdtri(1, 1.0 - level))
        if not drives:
            shown = Directions.of(columns[:, bodies:], triangle.rows)
            seen = shown.left[:, : shown.rank]
            columns, rest = (v - seen @ (seen.T @ v) for v in (columns[:, :bodies], rest))
            centre, metric = centre[:bodies], metric[:, :bodies]
            constraints = constraints.part(slice(0, bodies))
        # In the metric of the cone a singular value is a number of standard deviations.
        left, singular, right = np.linalg.svd(columns, full_matrices=False)
        left = left[:, singular > 0.0]
        kept = np.flatnonzero(singular > 1.0 / UNSEEN)  # others narrow only what is far outside
        inside = left.T @ rest
        energy -= max(float(rest @ rest - inside @ inside), 0.0)
        return PossibleFits(
            centre,
            metric,
            singular[kept, None] * right[kept],
            inside[kept],
            float(np.sqrt(energy)),
            len(space.groups),
            constraints,
        )

    def bound(self, c: Array) -> tuple[float, float]:
        """Return the lower and upper bound of c·x; infinite where unbounded.

        Args:
            c: Coefficients of all parameters x, shape (N,).
        """
        direction = c @ self.metric
        solver = self._solver(None)
        middle = float(direction @ self.centre)
        low, high = (sign * self._least(solver, sign * direction) for sign in (1.0, -1.0))
        return middle + low, middle + high

    def ratios(self, tops: Array, bottom: Array) -> Array:
        """Return the bounds of ratios a·x / b·x, where b·x is above 0 throughout.

        Use it for a centre of mass, first moment over mass.

        Args:
            tops: a of each ratio, shape (k, N).
            bottom: b, shape (N,).

        Returns:
            Lower and upper bounds, shape (k, 2); infinite where unbounded.
        """
        below = bottom @ self.metric
        size = float(below @ self.centre)
        solver = self._solver(below)
        found = []
        for top in tops:
            middle = float(top @ (self.metric @ self.centre)) / size
            direction = (top @ self.metric - middle * below) / size
            ends = (sign * self._least(solver, sign * direction) for sign in (1.0, -1.0))
            found.append([middle + e for e in ends])
        return np.array(found)

    def _solver(self, below: Array | None) -> Any:
        """Return the solver of linear functions of (d, s), where s x = metric @ (d + s centre).

        s = 1, or the number `below` of s x is what it is at the centre.
        """
        import clarabel

        count = len(self.centre)
        whole = np.zeros((1, count + 1))
        whole[0, -1] = 1.0
        if below is not None:
            size = float(below @ self.centre)
            whole[0, :-1] = below / size
        bound = np.column_stack(
            [self.constraints.rows, self.constraints.rows @ self.centre - self.constraints.least]
        )
        multiple = np.zeros((1, count + 1))
        multiple[0, -1] = 1.0
        bodies = np.eye(10 * self.links, count + 1)
        bodies[:, -1] = self.centre[: 10 * self.links]
        misfit = np.column_stack([self.rows, -self.rest])
        parts = [
            whole,
            bound[self.constraints.equal],
            bound[~self.constraints.equal],
            multiple,
            bodies,
            self.radius * multiple,
            misfit,
        ]
        equations = 1 + int(self.constraints.equal.sum())
        cones = [
            clarabel.ZeroConeT(equations),
            clarabel.NonnegativeConeT(len(bound) - equations + 2),
            *[clarabel.PSDTriangleConeT(4)] * self.links,
            clarabel.SecondOrderConeT(len(misfit) + 1),
        ]
        matrix = scipy.sparse.csc_matrix(-np.vstack(parts))
        right = np.zeros(matrix.shape[0])
        right[0] = -1.0
        settings = conic_settings()
        settings.presolve_enable = False  # so that the objective can be exchanged
        return clarabel.DefaultSolver(
            scipy.sparse.csc_matrix((count + 1, count + 1)),
            np.zeros(count + 1),
            matrix,
            right,
            cones,
            settings,
        )

    def _least(self, solver: Any, direction: Array) -> float:
        """Return the least of direction·d, −inf unless the solver proves one."""
        scale = float(np.abs(direction).max())
        if scale == 0.0:
            return 0.0
        solver.update(q=np.append(direction / scale, 0.0))
        solution = solver.solve()
        # Unbounded comes as a certificate or, along a parabola, as a failure: open either way.
        if str(solution.status) not in ("Solved", "AlmostSolved"):
            return -np.inf
        found = min(float(solution.obj_val), float(solution.obj_val_dual))
        slack = ALMOST if str(solution.status) == "AlmostSolved" else EXACT
        return scale * (found - slack * abs(found) - EXACT)


def strict_bounds(
    triangle: Triangle,
    space: ParameterSpace,
    level: float = 0.95,
    limits: Limits = NO_LIMITS,
) -> StrictBounds:
    """Return confidence intervals of each link's mass and centre of mass, without a prior.

    Args:
        triangle: Information about β in independent rows of unit variance.
        space: The parameters x and their map to β.
        level: Nominal coverage of each interval by itself, 0 to 1.
        limits: Hard bounds on masses and centres of mass.

    Raises:
        InvalidSetting: If a limit is of a link that is not there.
        SolverFailure: If no consistent parameters are found.
    """
    fits = PossibleFits.of(triangle, space, level, limits, drives=False)
    unit = np.eye(len(space.labels))
    links = space.bodies
    mass = np.empty((len(links), 2))
    com = np.full((len(links), 3, 2), [-np.inf, np.inf])
    bodies = space.nominal[: 10 * len(links)].reshape(-1, 10)
    moments = inertia.pseudo_inertia(bodies)
    for k, first in enumerate(space.groups):
        nominal = float(space.nominal[first])
        mass[k] = fits.bound(unit[first])
        mass[k, 0] = max(mass[k, 0], 0.0)
        if mass[k, 1] > MASS_CAP * nominal:
            mass[k, 1] = np.inf
        if mass[k, 0] > VANISHED * nominal:
            com[k] = fits.ratios(unit[first + 1 : first + 4], unit[first])
            size = float(np.sqrt(np.trace(moments[k, :3, :3]) / nominal))
            com[k][np.abs(com[k]) > LENGTH_CAP * size] *= np.inf
    for k, link in enumerate(links):
        if link in limits.mass:
            mass[k] = np.clip(mass[k], *limits.mass[link])
        for axis, (least, most) in enumerate(limits.com.get(link, ())):
            com[k, axis] = np.clip(com[k, axis], least, most)
    return StrictBounds(links, mass, com, level)
