"""Least squares under physical consistency, for parameters that a model file can store.

Minimises, over x, ten inertial parameters a link and the drives' parameters,

    ‖R M x − z‖² + n₀ Σ_links ‖L⁻¹ (S(x) − S₀) L⁻ᵀ‖²_F,     S₀ = L Lᵀ

subject to `S(x) ⪰ ε S₀` (pseudo-inertias positive definite) and friction and rotor inertia
≥ 0. R is the triangle of independent rows of unit variance, so the prior's strength n₀ counts
effective samples and loses influence as data grow. Its metric is that of the cone of positive
semidefinite pseudo-inertias at the model file's value, the second-order part of the
log-determinant divergence [Lee2018, eq. 19], so it does not depend on units or frames. The
unknowns are scaled by that metric; the cost of a solution does not depend on the log's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting, SolverFailure, TooLittleData
from heft.files import Keys, Number, Text, check_fields
from heft.information import (
    Bordered,
    ChannelRows,
    Parameters,
    ParameterSpace,
    Summed,
    Triangle,
    inertia,
    visible_share,
)

from .estimate import Polish, raised
from .feasible_set import (
    IDENTITY,
    Known,
    Limits,
    LinearConstraints,
    cone_metric,
    known_rows,
    linear_constraints,
    scaled_metric,
    stack,
    unstack,
)
from .scaled_rows import DRIVE_RIDGE, Scaled, mean_squared_error
from .semidefinite import LogDetProblem, nearest_body

# 1.96 standard deviations of a number cover the worst-case error of a link's prior of that size,
# not the typical one: a wrong model file is not noise, and its errors do not average out over ten
# parameters.
WORST_DIRECTION = float(np.sqrt(10.0)) / 1.96
UNKNOWN = 1e-6  # prior strength of a link without prior knowledge [effective samples]


@dataclass(frozen=True)
class ConsistentEstimate:
    """Physically consistent parameters x, which a model file can store, with their covariance."""

    parameters: Parameters  # values and covariance of x; the covariance includes the prior error
    noise: Array  # covariance from the data's noise alone, shape (n, n)
    seen: Array  # relative reduction of the prior's variance by the data, shape (n,), 0 to 1
    # first-order shift of x by the prior, shape (n,), in the units of x: what a prior of no
    # strength would take back if no constraint were active
    pull: Array
    # names of active constraints: bodies (`link3`) and terms (`elbow.viscous`)
    active: tuple[str, ...]
    # steps to the nearest consistent parameters, 0 where no constraint is active; Newton steps for
    # the log-determinant prior; steps that go on from there are added
    iterations: int
    strength: float  # n₀ of the prior [effective samples]
    # assumed relative error of the model file's bodies, in the metric of the cone
    prior_error: float

    def widened(
        self, deviations: Array, shift: Array, functions: Sequence[NDArray[np.intp]] = ()
    ) -> ConsistentEstimate:
        """Return the estimate with standard deviations of at least the jackknife's; see `raised`.

        The constraints' shift is one deviation more: where data alone state a number, constraints
        that move it contradict them.

        Args:
            deviations: D with DᵀD the jackknife covariance of x, shape (any, n).
            shift: x less what the data alone state, shape (n,); 0 where they state nothing.
        """

        def wider(covariance: Array) -> Array:
            return raised(covariance, deviations, functions) + np.diag(shift**2)

        covariance = self.parameters.covariance
        assert covariance is not None
        parameters = replace(self.parameters, covariance=wider(covariance))
        return replace(self, parameters=parameters, noise=wider(self.noise))


@dataclass(frozen=True)
class PhysicallyConsistent:
    """Regularised least squares with positive definite pseudo-inertias and passive friction.

    The first choice for a robot whose model file is to be updated. The problem is convex, so it
    needs no initial guess and has no local minimum.

    Raises:
        InvalidSetting: If the strength is no number of samples, the prior is not known, or
            steps on from the estimate know no such prior or no limits.
    """

    strength: float = 10.0  # n₀ of the prior [effective samples]
    # least assumed relative error of the model file's bodies, in the metric of the cone. It is
    # raised to `estimated_prior_error` where that is larger, and widens the reported covariance
    prior_error: float = 0.5
    margin: float = 1e-4  # ε in `S(x) ⪰ ε S₀`
    limits: Limits = Limits()  # hard bounds on masses and centres of mass
    # distance of a body S = L U Lᵀ from the model file's: `quadratic` is ‖U − 1‖²_F; `logdet` is 2
    # (tr U − log det U − 4), the same to second order. The latter grows without bound at the
    # boundary of the cone, so that `margin` is not used
    prior: Literal["quadratic", "logdet"] = "quadratic"
    unknown: tuple[str, ...] = ()  # links without prior knowledge, such as a load
    # what is known of links from elsewhere, as rows beside those of the data
    known: tuple[Known, ...] = ()
    # goes on from the solution of the semidefinite program, for comparison
    polish: Polish | None = None

    def __post_init__(self) -> None:
        checks: Keys = {
            "strength": Number("the strength of the prior is no number of samples", 0.0, 1e9),
            "prior": Text("this prior is not known", ("quadratic", "logdet")),
        }
        check_fields(self, checks)
        if self.polish is not None and (self.prior != "quadratic" or self.limits):
            raise InvalidSetting(
                "steps on from the consistent estimate have the quadratic prior, and no limits",
                argument="polish",
                got=f"the prior {self.prior}, {'with' if self.limits else 'no'} limits",
                cure="take no such steps (any other --method)",
            )

    def values(self, total: Triangle | Summed, space: ParameterSpace) -> Array:
        """Return the physically consistent parameters x alone, shape (n,).

        Arguments and errors are those of `fit`.
        """
        return self._solved(self.scaled(total, space))[0]

    def unconstrained(self, total: Triangle | Summed, space: ParameterSpace) -> Array:
        """Return the parameters x of data and prior without constraints, shape (n,).

        Arguments and errors are those of `fit`.
        """
        scaled = self.scaled(total, space)
        return np.asarray(scaled.back @ scaled.triangle.solution())

    def fit(
        self,
        total: Triangle | Summed,
        space: ParameterSpace,
        scores: Sequence[ChannelRows] | None = None,
    ) -> ConsistentEstimate:
        """Return the physically consistent parameters x.

        Args:
            total: Information about β in independent rows of unit variance: a triangle, or a sum
                in an order in which it is sparse.
            scores: Sets S whose sum of `SᵀS` is the covariance of `Yᵀε`, on the b columns; the
                rows if not given, which are of unit variance.

        Raises:
            InvalidSetting: If a limit is of a link that is not there.
            TooLittleData: If the prior has no strength and the data do not determine x.
            SolverFailure: If the solver finds no solution, or no body satisfies a link's limits.
        """
        scaled = self.scaled(total, space)
        values, binds, unknown, iterations = self._solved(scaled)
        constraints = scaled.constraints
        bound = dict.fromkeys(n for n, b in zip(constraints.names, binds, strict=True) if b)
        doubt = max(self.prior_error, scaled.estimated_prior_error(self.strength))
        covariance, noise, seen = self._widened(scaled, doubt, scores or total.sets)
        return ConsistentEstimate(
            Parameters(space.labels, values, covariance),
            noise,
            seen,
            scaled.back @ scaled.moved(unknown),
            self._active(values, space, tuple(bound)),
            iterations,
            self.strength,
            doubt,
        )

    def scaled(self, total: Triangle | Summed, space: ParameterSpace) -> Scaled:
        """Return rows and prior on scaled unknowns; drives' columns have unit length.

        Raises:
            InvalidSetting: If a limit is of a link that is not there.
            TooLittleData: If the prior has no strength and the data do not determine x.
        """
        size = len(space.labels)
        bodies = 10 * len(space.groups)
        if self.prior == "logdet":  # whose distance from the model file's body has no other unit
            space = replace(space, gyration=())
        metric = scaled_metric(space)[:bodies, :bodies]
        start = np.zeros(size)
        start[:bodies] = np.linalg.solve(metric, space.nominal[:bodies])
        R, z = total.rows_of_all()
        beside = known_rows(self.known, space)
        data = np.zeros((len(R) + len(beside), size + 1))
        own, outward = data[:, :-1], scipy.sparse.eye_array(size - bodies)
        outward = scipy.sparse.block_diag((metric, outward), format="csr")
        own[: len(R)] = R @ (space.sparse_matrix @ outward)
        own[len(R) :], data[:, -1] = beside[:, :-1] @ outward, np.append(z, beside[:, -1])
        scale = np.ones(size)
        lengths = np.linalg.norm(own[: len(R), bodies:], axis=0)
        scale[bodies:] = np.where(lengths > 0.0, lengths, 1.0)
        own[:, bodies:] /= scale[bodies:]
        drives = np.arange(bodies, size)
        strengths = np.repeat(
            [UNKNOWN if k in self.unknown else self.strength for k in space.bodies], 10
        )
        weights = np.append(np.sqrt(strengths), np.full(len(drives), DRIVE_RIDGE))
        outward = outward @ scipy.sparse.diags_array(1.0 / scale)
        constraints = linear_constraints(space, self.limits).measured(outward)
        # Terms that a constraint holds last: the others' rows then have no part in constraints.
        bound = np.any(constraints.rows[:, drives] != 0.0, axis=0)
        order = drives[np.argsort(bound, kind="stable")]
        seen = Bordered.by_drives(data, weights[order], order)
        triangle = seen.with_prior(weights[:bodies], start[:bodies])
        if not (np.abs(triangle.diagonal) > 0.0).all():
            raise TooLittleData(
                "without a prior the data do not determine all parameters",
                argument="strength",
                got=self.strength,
                expected="above 0",
            )
        return Scaled(
            space, constraints, metric, scale, weights, seen, triangle, start, strengths,
            drives[lengths == 0.0], own[len(R) :].copy(),
        )  # fmt: skip

    def _solved(self, scaled: Scaled) -> tuple[Array, NDArray[np.bool_], Array, int]:
        """Return x, which linear constraints bind, the scaled unknowns and the iterations."""
        space = scaled.space
        if self.prior == "logdet":
            unknown, iterations, binds = self._logdet(scaled.seen, space, scaled.constraints)
        else:
            unknown, iterations, binds = self._solve(scaled)
        positive = np.array(space.nonnegative, dtype=np.intp)
        if self.polish is not None:
            polished = self.polish.polish(scaled, unknown, self.margin)
            unknown, iterations = polished.unknown, iterations + polished.steps
            binds = unknown[positive] <= 0.0
        unknown[positive[binds[: len(positive)]]] = 0.0
        unknown[scaled.silent] = 0.0  # their columns are zero, and nothing pushes them there
        binds[: len(positive)] &= ~np.isin(positive, scaled.silent)
        return self._inside(scaled.back @ unknown, space), binds, unknown, iterations

    def _widened(
        self, scaled: Scaled, doubt: float, scores: Sequence[ChannelRows]
    ) -> tuple[Array, Array, Array]:
        """Return the covariance of x, its part from noise, and the variance reduction."""
        bodies = len(scaled.strengths)
        # The bias is A Λ (u₀ − u): rows of Λ^½ are √n₀, and u₀ − u is at most the prior error.
        reach = WORST_DIRECTION * doubt
        onto = scaled.space.sparse_matrix @ scaled.back
        mapped = [*(score.mapped(onto) for score in scores), ChannelRows.held(scaled.known)]
        doubted = reach * float(np.sqrt(self.strength))
        covariance, noise = mean_squared_error(
            scaled.triangle, scaled.limbs, scaled.weights, doubted, mapped
        )
        weaker = np.ones(bodies)  # also where the prior has zero strength
        np.divide(self.strength, scaled.strengths, out=weaker, where=scaled.strengths > 0.0)
        before = np.full(len(scaled.start), np.inf)
        before[:bodies] = scaled.metric**2 @ (reach**2 * weaker)
        total = scaled.outward(covariance)
        share = visible_share(np.diag(total), before)
        share[bodies:] = 1.0
        share[scaled.silent] = 0.0
        return total, scaled.outward(noise), share

    def _solve(self, scaled: Scaled) -> tuple[Array, int, NDArray[np.bool_]]:
        """Return the unknowns, the iterations of all limbs, and which linear constraints bind."""
        unknown, iterations = np.zeros(len(scaled.start)), 0
        binds = np.zeros(len(scaled.constraints.names), dtype=bool)
        for own in scaled.limbs:
            limb, mine = scaled.part(own), np.any(scaled.constraints.rows[:, own] != 0.0, axis=1)
            free = unknown[own] = limb.triangle.solution()
            tens = free[: len(limb.strengths)].reshape(-1, 10)
            lowest = np.linalg.eigvalsh(unstack(tens))[:, 0].min(initial=1.0)
            if limb.constraints.hold(free) and lowest >= self.margin:
                continue
            nearest = nearest_body(limb.triangle, free, limb.constraints, self.margin)
            if nearest is None:
                self._refuse_conflicts(limb.space)
                raise SolverFailure(
                    "the conic solver found no consistent parameters",
                    cure="check the model file's masses, and that torques are in N·m",
                )
            unknown[own], steps, binds[mine] = nearest
            iterations += steps
        return unknown, iterations, binds

    def _logdet(
        self, seen: Bordered, space: ParameterSpace, constraints: LinearConstraints
    ) -> tuple[Array, int, NDArray[np.bool_]]:
        factor = seen.triangle()[:-1]
        start = np.ones(len(space.labels))  # a drive's unit is the length of its column
        for link, first in zip(space.bodies, space.groups, strict=True):
            nominal = space.nominal[first : first + 10]
            inside = self.limits.moved_inside(link, nominal, room=0.1)
            start[first : first + 10] = np.linalg.solve(cone_metric(nominal), inside)
        return LogDetProblem(
            factor[:, :-1], factor[:, -1], len(space.groups), self.strength, constraints
        ).solve(start)

    def _refuse_conflicts(self, space: ParameterSpace) -> None:
        limits = self.limits.of(space.bodies)
        constraints = linear_constraints(space, limits).measured(scaled_metric(space))
        bare = Bordered.by_drives(np.zeros((0, 11)), np.zeros(0), np.arange(0))
        alone = bare.with_prior(np.ones(10), IDENTITY)
        for link, first in zip(space.bodies, space.groups, strict=True):
            own = constraints.part(slice(first, first + 10))
            if own.names and nearest_body(alone, IDENTITY, own, self.margin) is None:
                raise SolverFailure(
                    f"no body keeps the limits of link '{link}'",
                    argument="limits",
                    got=self.limits.text(link),
                    cure="widen them, or give the model file's link a mass within them",
                )

    def _inside(self, values: Array, space: ParameterSpace) -> Array:
        """Return the values projected into the constraints that solver tolerance violates."""
        inside = values.copy()
        for k in space.nonnegative:
            inside[k] = max(inside[k], 0.0)
        for link, first, body in zip(space.bodies, space.groups, space.typical, strict=True):
            ten = slice(first, first + 10)
            metric = cone_metric(body)
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
        for link, first, body in zip(space.bodies, space.groups, space.typical, strict=True):
            ten = slice(first, first + 10)
            both = np.column_stack([values[ten], space.nominal[ten]])
            scaled = np.asarray(np.linalg.solve(cone_metric(body), both).T, dtype=np.float64)
            margins = np.linalg.eigvalsh(unstack(scaled))[:, 0]
            # A template's moments lie on the boundary whatever the data say.
            if margins[0] < 2.0 * self.margin <= margins[1]:
                names.append(link)
        return (*names, *bound)


@dataclass(frozen=True)
class Stated:
    """Mass, a coordinate of the centre of mass or an inertia of a link, as files state it."""

    value: float  # value [kg, m or kg·m²]
    std: float  # standard deviation in the same unit, including the prior error
    share: float  # relative reduction of the prior's variance by the data, 0 to 1
    pull: float  # first-order shift by the prior, in the same unit


def stated_numbers(estimate: ConsistentEstimate, first: int) -> dict[str, Stated]:
    """Return mass, centre of mass and inertia of a link, as model files state them.

    Args:
        first: Position in x of the link's first parameter.

    Returns:
        By name: `mass` [kg], `com.x` … [m] and `inertia.xx` … (about the centre of mass, in the
        link's axes) [kg·m²].
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
