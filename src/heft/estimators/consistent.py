"""Least squares under physical consistency: what a model file can hold.

Minimises, over ten parameters a link and the drives' x,

    ‖R M x − z‖² + n₀ Σ_links ‖L⁻¹ (S(x) − S₀) L⁻ᵀ‖²_F,     S₀ = L Lᵀ

subject to `S(x) ⪰ ε S₀` (pseudo-inertias positive definite) and friction and rotor inertia
≥ 0. R is the triangle of independent rows of unit variance, so the prior's strength n₀ counts
effective samples and washes out as data grow; its metric is that of the cone at the model
file's value, the second-order part of the log-determinant divergence [Lee2018, eq. 19], so it
does not depend on units or frames. Unknowns are measured in that metric; the size of the log
no longer matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import SolverFailure, TooLittleData
from heft.files import Keys, Number, Text, check_fields
from heft.information import (
    Parameters,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
    visible_share,
)

from .feasible_set import (
    IDENTITY,
    Limits,
    LinearConstraints,
    cone_metric,
    linear_constraints,
    scaled_metric,
    stack,
    unstack,
)
from .log_determinant import LogDetProblem
from .noise import posterior

# 1.96 standard deviations of a number hold the worst error of a link's prior of that size, not
# the usual one: a wrong model file is not noise, and does not average out over ten parameters.
LARGEST_STRENGTH = 1e9  # of a prior [effective samples]
WORST_DIRECTION = float(np.sqrt(10.0)) / 1.96
UNKNOWN = 1e-6  # effective samples of a link about which nothing is believed
DRIVE_RIDGE = 1e-6  # of a drive column's own length: only there where the data say nothing
CHECKS: Keys = {
    "strength": Number("the strength of the prior is no number of samples", 0.0, LARGEST_STRENGTH),
    "prior": Text("this prior is not known", ("quadratic", "logdet")),
}


def conic_settings() -> Any:
    """Return the conic solver's settings: silent, and the same bytes each time."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # one thread, one order of sums
    return settings


def estimated_prior_error(data: Array, right: Array, start: Array, bodies: int) -> float:
    """Return by how much the data find the model file's numbers to be off, in the cone's metric.

    The root mean square of `u − u₀` over the directions that the data show well (to better
    than half of a doubt of one), their noise subtracted, the drives left free. What the
    model file says of directions that nobody sees is no better than that.

    Args:
        data: Rows of unit variance on the scaled unknowns, bodies first, shape (m, n).
        right: Their right-hand side, shape (m,).
        start: The model file's u₀, zero for drives, shape (n,).
        bodies: How many unknowns are those of bodies that the model file knows.
    """
    size = data.shape[1]
    order = [*range(bodies, size), *range(bodies)]
    gap = right - data @ start
    factor = triangle_of(np.column_stack([data[:, order], gap]))
    drives = size - bodies
    R, z = factor[drives:size, drives:size], factor[drives:size, size]
    left, singular, _ = np.linalg.svd(R)
    shown = singular > 2.0
    if not shown.any():
        return 0.0
    off = (left.T @ z)[shown] / singular[shown]
    return float(np.sqrt(max(np.mean(off**2 - 1.0 / singular[shown] ** 2), 0.0)))


@dataclass(frozen=True)
class ConsistentEstimate:
    """Parameters that a model file can hold.

    Attributes:
        parameters: Values and covariance of x, the covariance widened by the prior's doubt.
        noise: Covariance from the data's noise alone.
        seen: Share of the prior's variance that the data took away, shape (n,), 0 to 1.
        pull: How far the prior moved each number, to first order: what a prior of no strength
            would take back, were nothing at its limits; shape (n,).
        active: Names of what lies on a boundary: bodies (`link3`) and terms (`elbow.viscous`).
        iterations: Of the conic solver, 0 where no constraint binds; or Newton's steps.
        strength: Of the prior, in effective samples.
        prior_error: By how much the model file's numbers may be off, in the metric of the cone.
    """

    parameters: Parameters
    noise: Array
    seen: Array
    pull: Array
    active: tuple[str, ...]
    iterations: int
    strength: float
    prior_error: float


@dataclass(frozen=True)
class _Scaled:
    """Rows and prior on scaled unknowns u, `x = back @ u`: bodies in their metric, then drives.

    Attributes:
        space: What x is.
        constraints: On u.
        metric, scale: Of bodies, shape (n, n); of drives, shape (n,).
        data, right: Rows of unit variance, shape (m, n) and (m,).
        prior: Rows of the prior, shape (n, n).
        factor: The triangle of both, right-hand side last.
        start: u of the model file, zero for drives, shape (n,).
        strengths: Of the prior of each of the bodies' numbers.
        silent: Positions of drives of which no row speaks.
    """

    space: ParameterSpace
    constraints: LinearConstraints
    metric: Array
    scale: Array
    data: Array
    right: Array
    prior: Array
    factor: Array
    start: Array
    strengths: Array
    silent: NDArray[np.intp]

    @property
    def back(self) -> Array:
        """What makes x of u, shape (n, n)."""
        return self.metric / self.scale

    def estimated_prior_error(self, strength: float) -> float:
        """Return by how much the data find bodies off that the prior speaks of."""
        known = np.flatnonzero(self.strengths == strength)
        first = [*known, *np.setdiff1d(np.arange(len(self.start)), known)]
        return estimated_prior_error(self.data[:, first], self.right, self.start[first], len(known))

    def moved(self, unknown: Array) -> Array:
        """Return how far the prior moved u.

        û changes with the logarithm of n₀ by A Λ (u₀ − û), with A the inverse information.
        """
        towards, bodies = np.zeros(len(self.start)), len(self.strengths)
        towards[:bodies] = self.strengths * (self.start - unknown)[:bodies]
        triangle = self.factor[:-1, :-1]
        half = scipy.linalg.solve_triangular(triangle, towards, trans="T")
        return np.asarray(scipy.linalg.solve_triangular(triangle, half))


@dataclass(frozen=True)
class PhysicallyConsistent:
    """The physically consistent estimate: what goes into the model file.

    The first choice for a robot. One convex problem, so no start and no local minimum.

    Attributes:
        strength: Of the prior, in effective samples.
        prior_error: By how much the model file's numbers may be off at least, in the metric of the
            cone, as a share of themselves; more if the data find them farther off
            (`estimated_prior_error`). It widens what is stated beside each number.
        margin: ε, the share of the nominal pseudo-inertia that is kept at least.
        limits: What is known for sure of links.
        prior: How far a body counts as being from the model file's, with S = L U Lᵀ:
            `quadratic` is ‖U − 1‖²_F; `logdet` is 2 (tr U − log det U − 4), the same to second
            order, but without bound as a body becomes impossible, so that `margin` is not used.
        unknown: Links about which nothing is believed but that they exist, such as a load.
    """

    strength: float = 10.0
    prior_error: float = 0.5
    margin: float = 1e-4
    limits: Limits = Limits()
    prior: Literal["quadratic", "logdet"] = "quadratic"
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(
        self, triangle: Triangle, space: ParameterSpace, noise_factor: Array | None = None
    ) -> ConsistentEstimate:
        """Return the estimate.

        Args:
            triangle: Information about β in independent rows of unit variance.
            space: What x is, and what the model file says of it.
            noise_factor: S with `SᵀS` the covariance of the rows' moments `Yᵀε`, shape (any, b);
                that of independent rows if not given.

        Raises:
            SolverFailure: If the conic solver finds no solution.
        """
        scaled = self._scaled(triangle, space)
        values, binds, unknown, iterations = self._solved(scaled)
        constraints = scaled.constraints
        bound = tuple(n for n, b in zip(constraints.names, binds, strict=True) if b)
        doubt = max(self.prior_error, scaled.estimated_prior_error(self.strength))
        covariance, noise, seen = self._widened(scaled, doubt, noise_factor)
        return ConsistentEstimate(
            Parameters(space.labels, values, covariance),
            noise,
            seen,
            scaled.back @ scaled.moved(unknown),
            self._active(values, space, bound),
            iterations,
            self.strength,
            doubt,
        )

    def _scaled(self, triangle: Triangle, space: ParameterSpace) -> _Scaled:
        """Return rows and prior on unknowns in the metric of the cone, drives' columns of one."""
        size = len(space.labels)
        bodies = 10 * len(space.groups)
        metric = scaled_metric(space)
        start = np.zeros(size)
        start[:bodies] = np.tile(IDENTITY, len(space.groups))
        columns = triangle.R @ space.matrix @ metric
        lengths = np.linalg.norm(columns, axis=0)
        drives = np.arange(bodies, size)
        scale = np.ones(size)
        scale[drives] = np.where(lengths[drives] > 0.0, lengths[drives], 1.0)
        prior = np.zeros((size, size))
        strengths = np.repeat(
            [UNKNOWN if k in self.unknown else self.strength for k in space.bodies], 10
        )
        prior[:bodies, :bodies] = np.diag(np.sqrt(strengths))
        prior[drives, drives] = DRIVE_RIDGE
        data = columns / scale
        stacked = np.vstack(
            [np.column_stack([data, triangle.z]), np.column_stack([prior, prior @ start])]
        )
        factor = triangle_of(stacked)
        if not (np.abs(np.diag(factor)[:-1]) > 0.0).all():
            raise TooLittleData(
                "without a prior the data do not determine all parameters",
                argument="strength",
                got=self.strength,
                expected="above 0",
            )
        constraints = linear_constraints(space, self.limits).measured(metric / scale)
        return _Scaled(
            space, constraints, metric, scale, data, triangle.z, prior, factor, start, strengths,
            drives[lengths[drives] == 0.0],
        )  # fmt: skip

    def _solved(self, scaled: _Scaled) -> tuple[Array, NDArray[np.bool_], Array, int]:
        """Return x, which linear constraints bind, the scaled unknowns and the iterations."""
        space, bodies = scaled.space, len(scaled.strengths)
        if self.prior == "logdet":
            unknown, iterations, binds = self._logdet(
                np.vstack([scaled.data, scaled.prior[bodies:]]),
                scaled.right,
                space,
                scaled.constraints,
            )
        else:
            unknown, iterations, binds = self._solve(scaled.factor, space, scaled.constraints)
        positive = np.array(space.nonnegative, dtype=np.intp)
        unknown[positive[binds[: len(positive)]]] = 0.0
        unknown[scaled.silent] = 0.0  # no row speaks of them
        return self._inside(scaled.back @ unknown, space), binds, unknown, iterations

    def _widened(
        self, scaled: _Scaled, doubt: float, noise_factor: Array | None
    ) -> tuple[Array, Array, Array]:
        """Return the covariance of x, its part from noise alone, and the share that was seen."""
        size, bodies = len(scaled.start), len(scaled.strengths)
        back, space = scaled.back, scaled.space
        # The bias is A Λ (u₀ − u): rows of Λ^½ carry √n₀ each, and u₀ − u up to doubt.
        reach = WORST_DIRECTION * doubt
        spread = None
        if noise_factor is not None:
            spread = noise_factor @ space.matrix @ scaled.metric / scaled.scale
        doubted = reach * float(np.sqrt(self.strength))
        covariance, noise = posterior(scaled.data, scaled.prior, doubted, spread)
        weaker = np.ones(bodies)  # also where the prior has no strength at all
        np.divide(self.strength, scaled.strengths, out=weaker, where=scaled.strengths > 0.0)
        doubts = np.append(reach * np.sqrt(weaker), np.zeros(size - bodies))
        before = np.diag(back @ np.diag(doubts**2) @ back.T).copy()
        before[bodies:] = np.inf
        total = back @ covariance @ back.T
        share = visible_share(np.diag(total), before)
        share[bodies:] = 1.0
        share[scaled.silent] = 0.0
        return total, back @ noise @ back.T, share

    def _solve(
        self, factor: Array, space: ParameterSpace, constraints: LinearConstraints
    ) -> tuple[Array, int, NDArray[np.bool_]]:
        """Return the unknowns, the iterations, and which linear constraints bind."""
        R, z = factor[:-1, :-1], factor[:-1, -1]
        free = np.asarray(scipy.linalg.solve_triangular(R, z))
        if self._feasible(free, space, constraints):
            return free, 0, np.zeros(len(constraints.names), dtype=bool)
        for scale in (1.0, 1.0 / max(float(np.linalg.norm(z)), 1e-300)):
            found = self._cone_program(scale * R, free, len(space.groups), constraints)
            if found is not None:
                return found
        self._refuse_conflicts(space)
        raise SolverFailure(
            "the conic solver found no consistent parameters",
            cure="check the model file's masses, and that torques are in N·m",
        )

    def _logdet(
        self, data: Array, right: Array, space: ParameterSpace, constraints: LinearConstraints
    ) -> tuple[Array, int, NDArray[np.bool_]]:
        """Return the unknowns, the steps, and which linear constraints bind."""
        right = np.append(right, np.zeros(len(data) - len(right)))
        factor = triangle_of(np.column_stack([data, right]))[:-1]
        start = np.ones(len(space.labels))  # a drive's unit is the length of its column
        for link, first in zip(space.bodies, space.groups, strict=True):
            nominal = space.nominal[first : first + 10]
            inside = self.limits.moved_inside(link, nominal, room=0.1)
            start[first : first + 10] = np.linalg.solve(cone_metric(nominal), inside)
        return LogDetProblem(
            factor[:, :-1], factor[:, -1], len(space.groups), self.strength, constraints
        ).solve(start)

    def _refuse_conflicts(self, space: ParameterSpace) -> None:
        """Raise `SolverFailure` for limits of a link that no body fulfils."""
        constraints = linear_constraints(space, self.limits).measured(scaled_metric(space))
        for link, first in zip(space.bodies, space.groups, strict=True):
            own = constraints.part(slice(first, first + 10))
            if own.names and self._cone_program(np.eye(10), IDENTITY, 1, own) is None:
                raise SolverFailure(
                    f"no body keeps the limits of link '{link}'",
                    argument="limits",
                    got=self.limits.text(link),
                    cure="widen them, or give the model file's link a mass within them",
                )

    def _cone_program(
        self, R: Array, free: Array, links: int, constraints: LinearConstraints
    ) -> tuple[Array, int, NDArray[np.bool_]] | None:
        """Return the point of the cone nearest to `free` in the norm of R, or None.

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
        for first in range(0, 10 * links, 10):
            parts.append(-unit[first : first + 10])
            limits.append(free[first : first + 10] - self.margin * IDENTITY)
            cones.append(clarabel.PSDTriangleConeT(4))
        parts.append(-scipy.sparse.vstack([scipy.sparse.csr_matrix((1, size)), R]))
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

    def _feasible(
        self, unknown: Array, space: ParameterSpace, constraints: LinearConstraints
    ) -> bool:
        if not constraints.hold(unknown):
            return False
        bodies = unknown[: 10 * len(space.groups)].reshape(-1, 10)
        if not len(bodies):
            return True
        return bool(np.linalg.eigvalsh(unstack(bodies))[:, 0].min() >= self.margin)

    def _inside(self, values: Array, space: ParameterSpace) -> Array:
        """Return the values with what the solver's tolerance left outside moved inside."""
        inside = values.copy()
        for k in space.nonnegative:
            inside[k] = max(inside[k], 0.0)
        for link, first in zip(space.bodies, space.groups, strict=True):
            ten = slice(first, first + 10)
            metric = cone_metric(space.nominal[ten])
            unknown = unstack(np.asarray(np.linalg.solve(metric, values[ten]), dtype=np.float64))
            eigenvalues, vectors = np.linalg.eigh(unknown)
            if eigenvalues[0] < self.margin and self.prior == "quadratic":
                raised = (vectors * np.maximum(eigenvalues, self.margin)) @ vectors.T
                inside[ten] = metric @ stack(raised)
            inside[ten] = self.limits.moved_inside(link, inside[ten])
        return inside

    def _active(
        self, values: Array, space: ParameterSpace, bound: tuple[str, ...]
    ) -> tuple[str, ...]:
        names = []
        for link, first in zip(space.bodies, space.groups, strict=True):
            metric = cone_metric(space.nominal[first : first + 10])
            unknown = unstack(
                np.asarray(np.linalg.solve(metric, values[first : first + 10]), dtype=np.float64)
            )
            if np.linalg.eigvalsh(unknown)[0] < 2.0 * self.margin:
                names.append(link)
        return (*names, *bound)


@dataclass(frozen=True)
class Stated:
    """One number of a link as files state it.

    Attributes:
        value: In its unit.
        std: Standard deviation, widened by what the prior may be wrong.
        share: Of the prior's variance that the data took away.
        pull: How far the prior moved it, to first order.
    """

    value: float
    std: float
    share: float
    pull: float


def stated_numbers(estimate: ConsistentEstimate, first: int) -> dict[str, Stated]:
    """Return a link's numbers as files state them.

    Keys are `mass`, `com.x` … and `inertia.xx` … (about the centre of mass, link's axes).

    Args:
        estimate: What was found.
        first: Where the link's ten begin.
    """
    ten = slice(first, first + 10)
    values = estimate.parameters.values[ten]
    assert estimate.parameters.covariance is not None
    covariance = estimate.parameters.covariance[ten, ten]
    numbers, jacobian = inertia.stated_body(values)
    std = np.sqrt(np.maximum(np.diag(jacobian @ covariance @ jacobian.T), 0.0))
    pull = jacobian @ estimate.pull[ten]
    names = ["mass", "com.x", "com.y", "com.z"]
    names += [f"inertia.{inertia.AXES[i]}{inertia.AXES[j]}" for i, j in inertia.INERTIA_INDEX]
    seen = estimate.seen[ten]
    return {
        n: Stated(float(numbers[k]), float(std[k]), float(seen[k]), float(pull[k]))
        for k, n in enumerate(names)
    }


def body_statistics(
    estimate: ConsistentEstimate, first: int
) -> Mapping[str, tuple[float, float, float]]:
    """Return value, standard deviation and share seen of a link's numbers; see above."""
    stated = stated_numbers(estimate, first)
    return {n: (s.value, s.std, s.share) for n, s in stated.items()}
