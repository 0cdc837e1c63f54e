"""Possible fits: confidence intervals from the data and physical consistency alone, no prior.

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
84 to 90 only. Of a seven-joint arm at the edge (`benchmarks/intervals.py`) no number was held in
fewer than 85 of 100.

Terms of drives without a sign to keep are projected out, drive by drive: terms of two drives stand
in rows of different channels, so that their columns are orthogonal, whatever triangle the rows have
become.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.estimators import (
    Limits,
    LinearConstraints,
    PhysicallyConsistent,
    conic_settings,
    linear_constraints,
    scaled_metric,
)
from heft.information import (
    Directions,
    ParameterSpace,
    Summed,
    Triangle,
    decomposition,
    orthogonal_sets,
)

from .support_cone import FitsCone, stairs
from .support_function import SupportFunction

# Share of a quantity in what the data leave open, from which it is open.
HIDDEN = 1e-6


@dataclass(frozen=True)
class TermDirections:
    """Column space of the terms' columns F."""

    seen: scipy.sparse.csr_array  # Q, an orthonormal basis of it, shape (m, r)
    inverse: Array  # G, with G Qᵀ the pseudo-inverse of F, shape (f, r)
    forward: Array  # Qᵀ F, shape (r, f)
    blind: NDArray[np.bool_]  # which terms have a part in what no row tells of terms, shape (f,)

    # places of the terms of each set of columns orthogonal to all others, of the rows that hold
    # some of them, and their decomposition there
    parts: tuple[tuple[NDArray[np.intp], NDArray[np.intp], Directions], ...]

    @staticmethod
    def of(columns: Array, rows: int) -> TermDirections:
        """Return the directions of columns F, which stand for so many rows."""
        parts = []
        for own in orthogonal_sets(columns, rows * float(np.finfo(float).eps)):
            mine = columns[:, own]
            at = np.flatnonzero(mine.any(axis=1))
            parts.append((own, at, Directions.of(mine[at], rows)))
        return TermDirections._of_parts(columns, tuple(parts))

    def among(self, columns: Array, kept: NDArray[np.bool_]) -> TermDirections:
        """Return the directions of some columns of F, which are given, shape (m, any)."""
        place, parts = np.cumsum(kept) - 1, []
        for own, at, shown in self.parts:
            left = place[own[kept[own]]]
            if len(left) < len(own):
                shown = Directions.of(columns[np.ix_(at, left)], shown.rows)
            parts += [(left, at, shown)] if len(left) else []
        return TermDirections._of_parts(columns, tuple(parts))

    @staticmethod
    def _of_parts(
        columns: Array, parts: tuple[tuple[NDArray[np.intp], NDArray[np.intp], Directions], ...]
    ) -> TermDirections:
        rank, size = sum(shown.rank for *_, shown in parts), columns.shape[1]
        seen, blind = np.zeros((len(columns), rank)), np.ones(size, dtype=np.bool_)
        inverse, forward, first = np.zeros((size, rank)), np.zeros((rank, size)), 0
        for own, at, shown in parts:
            mine = slice(first, first := first + shown.rank)
            seen[at, mine] = basis = shown.left[:, : shown.rank]
            inverse[own, mine], blind[own] = shown.inverse, shown.blind
            forward[mine, own] = basis.T @ columns[np.ix_(at, own)]
        return TermDirections(scipy.sparse.csr_array(seen), inverse, forward, blind, parts)

    def without(self, v: Array) -> Array:
        """Return columns or a right-hand side less their part in it, shape (m, any) or (m,)."""
        return np.asarray(v - self.seen @ (self.seen.T @ v))

    def surely_positive(
        self, bodies: Array, right: Array, rows: int, energy: float, surely: float
    ) -> NDArray[np.bool_]:
        """Return which terms are above 0 in every fit, consistent or not, shape (f,).

        Args:
            bodies: Columns of the bodies' numbers, shape (m, b).
            rows: Number of rows that these stand for.
            energy: Largest squared misfit.
            surely: Factor on a term's largest decrease within the misfit that must leave it above
                0.
        """
        lengths = np.linalg.norm(bodies, axis=0)
        lengths[lengths == 0.0] = 1.0
        # Judged by their length before: what terms explain wholly leaves rounding.
        pulled = self.seen.T @ right
        both = np.column_stack([self.without(bodies) / lengths, right - self.seen @ pulled])
        both = np.asarray(np.linalg.qr(both, mode="r"), np.float64)
        shown, rest = Directions(lengths, both[:, :-1], rows), both[:, -1]
        U = shown.left[:, : shown.rank]
        seen = U.T @ rest
        rest = rest - U @ seen  # whose square is no difference of large numbers
        room = max(energy - float(rest @ rest), 0.0)
        taken = self.inverse @ (self.seen.T @ bodies)  # by each body's number, of the terms
        across = taken @ shown.inverse
        deviations = np.hypot(np.linalg.norm(self.inverse, axis=1), np.linalg.norm(across, axis=1))
        least = self.inverse @ pulled - across @ seen - surely * np.sqrt(room) * deviations
        open_bodies = shown.right[shown.rank :].T
        follows = np.linalg.norm(self.forward, axis=0)[:, None] * (
            taken @ (open_bodies / lengths[:, None])
        )
        sizes = np.hypot(1.0, np.linalg.norm(follows, axis=0))
        hidden = np.linalg.norm(follows / sizes, axis=1) > HIDDEN
        return np.asarray((least > 0.0) & ~hidden & ~self.blind)


@dataclass(frozen=True)
class Eliminated:
    """Parameters f without constraints, projected out: others u leave them a ball of values.

    With R f-columns of rank r, `f = inverse (e + right − columns u)`, where ‖e‖² is what f adds to
    the squared misfit of the others u. A linear function of f needs e along one direction only.
    """

    metric: scipy.sparse.csc_array  # `x = metric @ f` beside what u adds, shape (N, f)
    inverse: Array  # shape (f, r)
    forward: Array  # its inverse, `forward inverse = 1`, shape (r, f)
    # columns, right: what u and the data say of it, shape (r, n) and (r,)
    columns: Array
    right: Array

    def part(self, c: Array) -> tuple[Array, float, float]:
        """Return the part of c·x from f: coefficients of u, a constant, and the slope along e.

        The slope is infinite where the data leave c·x open.
        """
        asked = np.asarray(c @ self.metric)
        if not asked.any():
            return np.zeros(self.columns.shape[1]), 0.0, 0.0
        slope = asked @ self.inverse
        back = slope @ self.forward
        if np.linalg.norm(back - asked) > HIDDEN * np.linalg.norm(asked):
            return np.zeros(self.columns.shape[1]), 0.0, np.inf
        return -slope @ self.columns, float(slope @ self.right), float(np.linalg.norm(slope))


NO_LIMITS = Limits()
# Strength of the prior that picks one of the best points: it can only widen, by as little.
LEAST_PRIOR = 1e-6
# Of the one that picks a point near them whose numbers are moderate, to measure from; of many links
# the point is the support function's centre.
CENTRING = 1.0
# Bounds of masses and inertias beyond this many times the model file's are none.
MASS_CAP = 1e4
# What is added in the model file's units, and of steps of our own as a share: a friction that is
# zero must not fall out of its bounds by rounding.
EXACT = 1e-7
# Links up to which the conic solver takes less time than steps of our own.
FEW_LINKS = 12
# Regularisation of the solver's equations, the first that ends. What is usual, 1e-8, holds back
# ends at which other links are a million times the model file's: of an arm whose model file was
# far off, points that fit were up to twice as far out as what was then called the end, and it took
# up to 200 iterations instead of 50. With less of it some ends are lost to rounding.
REGULARISATION = (1e-10, 1e-8)
SOLVED = ("Solved", "AlmostSolved")


@dataclass(frozen=True)
class PossibleFits:
    """Confidence set: all physically consistent parameters whose misfit is within a radius.

    Drives' terms without a sign to keep, or whose sign cannot matter since all that fits is above
    0, are eliminated, and with them their part of each conic problem.
    """

    centre: Array  # a point u of the set, scaled by the cone's metric, shape (n,)
    metric: Array  # `x = metric @ u` beside what is eliminated, shape (N, n)
    # rows of unit variance on u in the identified directions, as stairs, shape (r, n)
    rows: Array
    rest: Array  # their misfit at the centre, shape (r,)
    radius: float  # largest norm of the misfit [standard deviations]
    links: int  # number of links
    constraints: LinearConstraints  # linear constraints on u
    eliminated: Eliminated  # the other parameters
    # the least of linear functions by steps that know which rows see which links, for more links
    # than `FEW_LINKS`; None for others
    support: SupportFunction | None = None

    @staticmethod
    def of(
        total: Triangle | Summed,
        space: ParameterSpace,
        level: float = 0.95,
        limits: Limits = NO_LIMITS,
    ) -> PossibleFits:
        """Return the set.

        Args:
            total: Information about β in independent rows of unit variance.
            space: The parameters x, their map to β, and which must not be negative; nominal values
                only scale the unknowns.
            level: Nominal coverage of an interval, 0 to 1.

        Raises:
            InvalidSetting: If a limit is of a link that is not there.
            SolverFailure: If no consistent parameters are found.
        """
        constraints = linear_constraints(space, limits)
        few = len(space.groups) <= FEW_LINKS
        best, *more = (
            PhysicallyConsistent(strength=n, margin=0.0, limits=limits).values(total, space)
            for n in ((LEAST_PRIOR, CENTRING) if few else (LEAST_PRIOR,))
        )
        bodies = 10 * len(space.groups)
        R, z = total.rows_of_all()
        metric, columns = _scaled(R, space)
        least = R @ (space.matrix @ best) - z
        energy = float(least @ least) + NormalDist().inv_cdf(0.5 + 0.5 * level) ** 2
        signs = list(space.nonnegative)
        free = np.arange(space.size) >= bodies
        terms = TermDirections.of(columns[:, bodies:], total.rows)
        # Farther from a sign's constraint than the farthest point, it cannot matter.
        sure = terms.surely_positive(columns[:, :bodies], z, total.rows, energy, 1.01)
        free[signs] &= np.append(np.zeros(bodies, dtype=np.bool_), sure)[signs]
        shown = terms.among(columns[:, free], free[bodies:])
        kept = columns[:, ~free]
        eliminated = Eliminated(
            scipy.sparse.csc_array(metric[:, free]),
            shown.inverse,
            shown.forward,
            shown.seen.T @ kept,
            shown.seen.T @ z,
        )
        (scaled,) = more or (best,)
        scaled[bodies:] /= np.diag(metric)[bodies:]
        scaled[:bodies] = np.linalg.solve(metric[:bodies, :bodies], scaled[:bodies])
        centre = np.asarray(scaled[~free], dtype=np.float64)
        kept, rest = (shown.without(v) for v in (kept, z - kept @ centre))
        # In the metric of the cone a singular value is a number of standard deviations.
        U, singular, right = decomposition(kept)
        right = right[: len(singular)]
        U = U[:, singular > 0.0]
        # Where the data leave the model file's numbers 1e5 times themselves they narrow only what
        # is far outside. Leaving a row out can only widen.
        telling = np.flatnonzero(singular > 1.0 / 1e5)
        inside = U.T @ rest
        energy -= max(float(rest @ rest - inside @ inside), 0.0)
        fits = PossibleFits(
            centre,
            metric[:, ~free],
            *stairs(singular[telling, None] * right[telling], inside[telling]),
            float(np.sqrt(energy)),
            len(space.groups),
            constraints.measured(metric).part(np.flatnonzero(~free)),
            eliminated,
        )
        return fits if few else fits.with_support()

    def bound(self, c: Array) -> tuple[float, float]:
        """Return the lower and upper bound of c·x; infinite where unbounded."""
        low, high = self.bounds(c[None])[0].tolist()
        return low, high

    def bounds(self, quantities: Array) -> Array:
        """Return bounds of linear functions of the parameters, (k, 2), infinite where unbounded.

        Such as masses, friction terms, base parameters (rows of `space.matrix`) or torques of any
        motion (rows of its regressor).

        Args:
            quantities: Coefficients of all parameters x, shape (k, N).
        """
        return self._bounds(quantities, None)

    def ratios(self, tops: Array, bottom: Array) -> Array:
        """Return bounds of ratios a·x / b·x, b·x above 0 throughout, (k, 2), infinite if unbounded.

        Use it for a centre of mass, first moment over mass. With s = 1 / b·x it is a·(s x), linear
        in s x and s, and `b·(s x) = 1`; all other constraints are cones [Charnes1962].

        Args:
            tops: a of each ratio, shape (k, N).
            bottom: b, shape (N,), of bodies only.
        """
        return self._bounds(tops, bottom @ self.metric)

    def _bounds(self, quantities: Array, below: Array | None) -> Array:
        """Return bounds of quantities over what `below` of scaled parameters is, 1 if not given."""
        size = 1.0 if below is None else float(below @ self.centre)
        ends_of = _Ends(self, below)
        bounds = np.empty((len(quantities), 2))
        for c, ends in zip(quantities, bounds, strict=True):
            others, constant, slope = self.eliminated.part(c)
            direction = c @ self.metric + others
            middle = (float(direction @ self.centre) + constant) / size
            if below is not None:
                direction = direction - middle * below
            ends[:] = middle + ends_of(direction / size, slope / size, middle)
        return bounds

    def with_support(self) -> PossibleFits:
        """Return the set about a point well inside, with a `SupportFunction` for its bounds.

        The set itself where constraints are of a kind that these steps do not know, or nothing
        is found inside.
        """
        limits, bodies = self.constraints, 10 * self.links
        signs = np.any(limits.rows[:, bodies:] != 0.0, axis=1)
        alone = np.sort(np.nonzero(limits.rows[signs])[1])
        if (
            limits.equal.any()
            or limits.least[signs].any()
            or (limits.rows[signs] < 0.0).any()
            or not np.array_equal(alone, np.arange(bodies, len(self.centre)))
            or (~signs).sum() > len(self.rows)
        ):
            return self
        rows = np.vstack([self.rows, limits.rows[~signs]])
        right = np.append(self.rest + self.rows @ self.centre, limits.least[~signs])
        cone = FitsCone(self.links, rows, right, int((~signs).sum()), self.radius)
        support = SupportFunction.of(cone, self.centre)
        if support is None:
            return self
        rest = self.rest - self.rows @ (support.centre - self.centre)
        return replace(self, centre=support.centre, rest=rest, support=support)

    def programme(
        self,
        below: Array | None = None,
        squares: tuple[Array, Array] | None = None,
    ) -> ConicProgramme:
        """Return the conic programme for linear functions of (d, e, s, q).

        s x = metric @ (d + s centre), and e is what the eliminated parameters add to the misfit.
        s = 1, or the number `below` of s x is what it is at the centre.

        Args:
            below: Coefficients of scaled parameters of what s normalises, shape (n,).
            squares: a, shape (k, N), and b, shape (N,), of bodies only: k numbers q more, each
                `q_i ≥ (a_i·x)² / b·x`, cones as well. Not together with `below`.
        """
        import clarabel

        count = len(self.centre)
        tops, bottom = squares or (np.zeros((0, len(self.metric))), np.zeros(len(self.metric)))
        width = count + 2 + len(tops)
        one = np.zeros((1, width))
        one[0, count + 1] = 1.0
        whole = one.copy()
        if below is not None:
            whole[0, :count] = below / float(below @ self.centre)
        limits = self.constraints
        bound = np.zeros((len(limits.rows), width))
        bound[:, :count], bound[:, count + 1] = (
            limits.rows,
            limits.rows @ self.centre - limits.least,
        )
        bodies = np.eye(10 * self.links, width)
        bodies[:, count + 1] = self.centre[: 10 * self.links]
        misfit = np.zeros((len(self.rows) + 1, width))
        misfit[0, count] = 1.0
        misfit[1:, :count], misfit[1:, count + 1] = self.rows, -self.rest
        parts = [
            whole,
            bound[limits.equal],
            bound[~limits.equal],
            one,
            bodies,
            self.radius * one,
            misfit,
            *self._squares(tops, bottom),
        ]
        equations = 1 + int(limits.equal.sum())
        cones = [
            clarabel.ZeroConeT(equations),
            clarabel.NonnegativeConeT(len(bound) - equations + 2),
            *[clarabel.PSDTriangleConeT(4)] * self.links,
            clarabel.SecondOrderConeT(len(misfit) + 1),
            *[clarabel.SecondOrderConeT(3)] * len(tops),
        ]
        matrix = scipy.sparse.csc_matrix(-np.vstack(parts))
        right = np.zeros(matrix.shape[0])
        right[0] = -1.0
        nothing = scipy.sparse.csc_matrix((width, width))
        settings = _settings(REGULARISATION[0])
        solver = clarabel.DefaultSolver(nothing, np.zeros(width), matrix, right, cones, settings)
        return ConicProgramme(solver, matrix, count)

    def _squares(self, tops: Array, bottom: Array) -> list[Array]:
        """Return (b·x + q, 2 a·x, b·x − q) of each, shape (3, n + 2 + k): a² ≤ b q is its cone."""
        count = len(self.centre)
        squares = []
        for k, top in enumerate(tops):
            rows = np.zeros((3, count + 2 + len(tops)))
            rows[:, :count] = np.array([bottom, 2.0 * top, bottom]) @ self.metric
            rows[:, count + 1] = rows[:, :count] @ self.centre
            rows[[0, 2], count + 2 + k] = 1.0, -1.0
            squares.append(rows)
        return squares


@dataclass(frozen=True)
class _Ends:
    """Minimum and maximum of linear functions of (d, e, s) over possible fits."""

    fits: PossibleFits  # the fits
    below: Array | None  # coefficients of scaled parameters of what s normalises, None where s = 1

    @cached_property
    def programme(self) -> ConicProgramme:
        """The conic programme, for few links and where `SupportFunction` proves nothing."""
        return self.fits.programme(self.below)

    @cached_property
    def whole(self) -> Array:
        """Coefficients of (y, e, s) of the normalisation, which is 1."""
        count = len(self.fits.centre)
        if self.below is None:
            return np.append(np.zeros(count + 1), 1.0)
        return np.append(self.below / float(self.below @ self.fits.centre), [0.0, 0.0])

    def __call__(self, direction: Array, slope: float, middle: float) -> Array:
        """Return the least and the most of `direction·d + slope e`, shape (2,).

        Args:
            middle: What the quantity itself is at the centre.
        """
        if not np.isfinite(slope):
            return np.array([-np.inf, np.inf])
        low, high = (self._least(k * direction, slope, k * middle) for k in (1.0, -1.0))
        return np.array([low, -high])

    def _least(self, direction: Array, slope: float, middle: float) -> float:
        support = self.fits.support
        if support is not None:
            scale = max(float(np.abs(direction).max()), slope)
            c = np.append(direction, [-slope, -float(direction @ self.fits.centre)])
            least = support.least(c, self.whole, middle, scale)
            if least is not None:
                return least - EXACT * (abs(least) + scale)
        return self.programme.least(np.append(direction, [-slope, 0.0]))[0]


@dataclass(frozen=True)
class ConicProgramme:
    """A conic programme whose objective is exchanged from one solution to the next."""

    solver: Any  # of the conic solver, with all constraints
    matrix: scipy.sparse.csc_matrix  # A of its constraints: `b − A x` is in the cones
    count: int  # number n of scaled parameters that are not eliminated, the first unknowns

    def least(self, objective: Array) -> tuple[float, Array]:
        """Return the least of a linear objective, −inf unless proven, and the first n unknowns."""
        scale = float(np.abs(objective).max())
        if scale == 0.0:
            return 0.0, np.zeros(self.count)
        self.solver.update(q=objective / scale)
        for regularisation in REGULARISATION:
            self.solver.update(settings=_settings(regularisation))
            solution = self.solver.solve()
            status = str(solution.status)
            if status in (*SOLVED, "DualInfeasible", "AlmostDualInfeasible"):
                break
        x, z = np.asarray(solution.x), np.asarray(solution.z)
        # Unbounded comes as a certificate or, along a parabola, as a failure: open either way.
        if status not in SOLVED:
            return -np.inf, x[: self.count]
        # With multipliers z of the cones `c·x ≥ −b·z + (c + Aᵀz)·x`. Of an arm what is lacking thus
        # at the solver's x, some numbers of which are large, was 0.7 to 5 times its error.
        lacking = float(np.abs(objective / scale + self.matrix.T @ z) @ np.abs(x))
        least = min(float(solution.obj_val), float(solution.obj_val_dual))
        return scale * (least - 2.0 * lacking - EXACT), x[: self.count]


def _settings(regularisation: float) -> Any:
    """Return settings of a solver whose objective can be exchanged."""
    settings = conic_settings()
    settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = 1e-6, 1e-6, 1e-9
    # Unknowns are scaled; the solver's usual choices were a sixth of an arm's time.
    settings.presolve_enable = settings.equilibrate_enable = False
    settings.direct_solve_method, settings.iterative_refinement_max_iter = "faer", 1
    settings.static_regularization_constant = regularisation
    return settings


def _scaled(R: Array, space: ParameterSpace) -> tuple[Array, Array]:
    """Return the metric with `x = metric @ u`, terms' columns of length one, and R's columns of u.

    Shapes (N, N) and (m, N).
    """
    metric, bodies = scaled_metric(space), 10 * len(space.groups)
    onto = scipy.sparse.csc_array(space.matrix) @ scipy.sparse.csc_array(metric)
    columns = np.asarray(R @ onto)
    lengths = np.linalg.norm(columns[:, bodies:], axis=0)
    lengths[lengths == 0.0] = 1.0
    metric[:, bodies:] /= lengths
    columns[:, bodies:] /= lengths
    return metric, columns
