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
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse

from . import inertia
from .errors import SolverFailure, TooLittleData
from .identifiability import visible_share
from .inertia import Array
from .information import Triangle, triangle_of
from .parameters import Labels, Parameters
from .uncertainty import posterior

# Upper triangle of a 4×4 matrix, column by column, as the conic solver stacks it.
UPPER = [(i, j) for j in range(4) for i in range(j + 1)]
# 1.96 standard deviations of a number hold the worst error of a link's prior of that size, not
# the usual one: a wrong model file is not noise, and does not average out over ten parameters.
WORST_DIRECTION = float(np.sqrt(10.0)) / 1.96
DRIVE_RIDGE = 1e-6  # of a drive column's own length: only there where the data say nothing


class BelievedLike(Protocol):
    """What must be known of a plant's parameters; see `plants.Believed`."""

    @property
    def labels(self) -> Labels:
        """The parameters x."""
        ...

    @property
    def matrix(self) -> Array:
        """`β = matrix @ x`."""
        ...

    @property
    def nominal(self) -> Array:
        """What the model file believes of x."""
        ...

    @property
    def groups(self) -> tuple[int, ...]:
        """First positions of tens."""
        ...

    @property
    def nonnegative(self) -> tuple[int, ...]:
        """Positions that must not be negative."""
        ...


def _stack(matrices: Array) -> Array:
    """Return symmetric matrices (..., 4, 4) as vectors (..., 10) of the same length."""
    parts = [matrices[..., i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in UPPER]
    return np.stack(parts, axis=-1)


def _unstack(vectors: Array) -> Array:
    matrices = np.zeros((*vectors.shape[:-1], 4, 4))
    for k, (i, j) in enumerate(UPPER):
        entry = vectors[..., k] * (1.0 if i == j else np.sqrt(0.5))
        matrices[..., i, j] = matrices[..., j, i] = entry
    return matrices


IDENTITY = _stack(np.eye(4))


def cone_metric(nominal: Array) -> Array:
    """Return the 10×10 matrix G with `π = G u`, u the body measured at its nominal value.

    u stacks `L⁻¹ S(π) L⁻ᵀ`, so that the nominal body is the identity.
    """
    factor = np.linalg.cholesky(inertia.pseudo_inertia(nominal))
    columns = _unstack(np.eye(inertia.PARAMETER_COUNT))
    return inertia.from_pseudo_inertia(factor @ columns @ factor.T).T


def found_doubt(data: Array, right: Array, start: Array, bodies: int) -> float:
    """Return by how much the data find the model file's numbers to be off, in the cone's metric.

    The root mean square of `u − u₀` over the directions that the data show well (to better
    than half of a doubt of one), their noise subtracted, the drives left free. What the
    model file says of directions that nobody sees is no better than that.

    Args:
        data: Rows of unit variance on the scaled unknowns, bodies first, shape (m, n).
        right: Their right-hand side, shape (m,).
        start: The model file's u₀, zero for drives, shape (n,).
        bodies: How many unknowns are the bodies'.
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
        active: Names of what lies on a boundary: bodies (`link3`) and terms (`elbow.viscous`).
        iterations: Of the conic solver; 0 where no constraint binds.
        strength: Of the prior, in effective samples.
        doubt: By how much the model file's numbers may be off, in the metric of the cone.
    """

    parameters: Parameters
    noise: Array
    seen: Array
    active: tuple[str, ...]
    iterations: int
    strength: float
    doubt: float


@dataclass(frozen=True)
class PhysicallyConsistent:
    """The physically consistent estimate: what goes into the model file.

    The first choice for a robot. One convex problem, so no start and no local minimum.

    Attributes:
        strength: Of the prior, in effective samples.
        doubt: By how much the model file's numbers may be off at least, in the metric of the
            cone, as a share of themselves; more if the data find them farther off
            (`found_doubt`). It widens what is stated beside each number.
        margin: ε, the share of the nominal pseudo-inertia that is kept at least.
    """

    strength: float = 10.0
    doubt: float = 0.5
    margin: float = 1e-4

    def fit(
        self, triangle: Triangle, believed: BelievedLike, noise_factor: Array | None = None
    ) -> ConsistentEstimate:
        """Return the estimate.

        Args:
            triangle: Information about β in independent rows of unit variance.
            believed: What x is, and what the model file says of it.
            noise_factor: S with `SᵀS` the covariance of the rows' moments `Yᵀε`, shape (any, b);
                that of independent rows if not given.

        Raises:
            SolverFailure: If the conic solver finds no solution.
        """
        size = len(believed.labels)
        bodies = 10 * len(believed.groups)
        metric = np.eye(size)
        start = np.zeros(size)
        for first in believed.groups:
            metric[first : first + 10, first : first + 10] = cone_metric(
                believed.nominal[first : first + 10]
            )
            start[first : first + 10] = IDENTITY
        columns = triangle.R @ believed.matrix @ metric
        lengths = np.linalg.norm(columns, axis=0)
        drives = np.arange(bodies, size)
        scale = np.ones(size)
        scale[drives] = np.where(lengths[drives] > 0.0, lengths[drives], 1.0)
        data = columns / scale
        prior = np.zeros((size, size))
        prior[:bodies, :bodies] = np.sqrt(self.strength) * np.eye(bodies)
        prior[drives, drives] = DRIVE_RIDGE
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
        unknown, iterations, bound = self._solve(factor, believed)
        unknown[list(bound)] = 0.0
        values = metric @ (unknown / scale)
        values = self._inside(values, believed)
        back = metric / scale
        doubt = max(self.doubt, found_doubt(data, triangle.z, start, bodies))
        # The bias is A Λ (u₀ − u): rows of Λ^½ carry √n₀ each, and u₀ − u up to doubt.
        reach = WORST_DIRECTION * doubt
        spread = None if noise_factor is None else noise_factor @ believed.matrix @ metric / scale
        pull = reach * float(np.sqrt(self.strength))
        covariance, noise = posterior(data, prior, pull, spread)
        doubts = np.append(np.full(bodies, reach), np.zeros(size - bodies))
        before = np.diag(back @ np.diag(doubts**2) @ back.T).copy()
        before[drives] = np.inf
        total = back @ covariance @ back.T
        after = np.diag(total)
        share = visible_share(after, before)
        share[drives] = np.where(lengths[drives] > 0.0, 1.0, 0.0)
        return ConsistentEstimate(
            Parameters(believed.labels, values, total),
            back @ noise @ back.T,
            share,
            self._active(values, believed, bound),
            iterations,
            self.strength,
            doubt,
        )

    def _solve(self, factor: Array, believed: BelievedLike) -> tuple[Array, int, tuple[int, ...]]:
        """Return the unknowns, the iterations, and which of them lie at zero."""
        R, z = factor[:-1, :-1], factor[:-1, -1]
        free = np.asarray(scipy.linalg.solve_triangular(R, z))
        if self._feasible(free, believed):
            return free, 0, ()
        for scale in (1.0, 1.0 / max(float(np.linalg.norm(z)), 1e-300)):
            found = self._cone_program(scale * R, free, believed)
            if found is not None:
                return found
        raise SolverFailure(
            "the conic solver found no consistent parameters",
            cure="check the model file's masses, and that torques are in N·m",
        )

    def _cone_program(
        self, R: Array, free: Array, believed: BelievedLike
    ) -> tuple[Array, int, tuple[int, ...]] | None:
        """Return the point of the cone nearest to `free` in the norm of R, or None.

        Minimises `t` subject to `‖R (u − free)‖ ≤ t`: a norm, not its square, so that RᵀR is
        never formed, and steps from the unconstrained optimum, which keeps numbers small.
        """
        import clarabel

        groups, positive = believed.groups, believed.nonnegative
        size = len(free)
        unit = scipy.sparse.identity(size, format="csr")
        parts, limits, cones = [], [], []
        if positive:
            parts.append(-unit[list(positive)])
            limits.append(free[list(positive)])
            cones.append(clarabel.NonnegativeConeT(len(positive)))
        for first in groups:
            parts.append(-unit[first : first + 10])
            limits.append(free[first : first + 10] - self.margin * IDENTITY)
            cones.append(clarabel.PSDTriangleConeT(4))
        parts.append(-scipy.sparse.vstack([scipy.sparse.csr_matrix((1, size)), R]))
        limits.append(np.zeros(size + 1))
        cones.append(clarabel.SecondOrderConeT(size + 1))
        rows = sum(part.shape[0] for part in parts)
        bound_by = scipy.sparse.csr_matrix(([-1.0], ([rows - size - 1], [0])), shape=(rows, 1))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1  # one thread, one order of sums: the same bytes each time
        solution = clarabel.DefaultSolver(
            scipy.sparse.csc_matrix((size + 1, size + 1)),
            np.append(np.zeros(size), 1.0),
            scipy.sparse.hstack([scipy.sparse.vstack(parts), bound_by]).tocsc(),
            np.concatenate(limits),
            cones,
            settings,
        ).solve()
        if str(solution.status) not in ("Solved", "AlmostSolved"):
            return None
        # A term lies at zero where its multiplier outweighs its distance from it.
        distance, multiplier = np.asarray(solution.s), np.asarray(solution.z)
        bound = tuple(k for i, k in enumerate(positive) if multiplier[i] > distance[i])
        return free + np.asarray(solution.x)[:size], int(solution.iterations), bound

    def _feasible(self, unknown: Array, believed: BelievedLike) -> bool:
        if any(unknown[k] < 0.0 for k in believed.nonnegative):
            return False
        bodies = unknown[: 10 * len(believed.groups)].reshape(-1, 10)
        if not len(bodies):
            return True
        return bool(np.linalg.eigvalsh(_unstack(bodies))[:, 0].min() >= self.margin)

    def _inside(self, values: Array, believed: BelievedLike) -> Array:
        """Return the values with what the solver's tolerance left outside moved inside."""
        inside = values.copy()
        for k in believed.nonnegative:
            inside[k] = max(inside[k], 0.0)
        for first in believed.groups:
            ten = slice(first, first + 10)
            metric = cone_metric(believed.nominal[ten])
            unknown = _unstack(np.asarray(np.linalg.solve(metric, values[ten]), dtype=np.float64))
            eigenvalues, vectors = np.linalg.eigh(unknown)
            if eigenvalues[0] < self.margin:
                raised = (vectors * np.maximum(eigenvalues, self.margin)) @ vectors.T
                inside[ten] = metric @ _stack(raised)
        return inside

    def _active(
        self, values: Array, believed: BelievedLike, bound: tuple[int, ...]
    ) -> tuple[str, ...]:
        names = []
        for first in believed.groups:
            metric = cone_metric(believed.nominal[first : first + 10])
            unknown = _unstack(
                np.asarray(np.linalg.solve(metric, values[first : first + 10]), dtype=np.float64)
            )
            if np.linalg.eigvalsh(unknown)[0] < 2.0 * self.margin:
                names.append(believed.labels.names[first].rpartition(".")[0])
        names += [believed.labels.names[k] for k in bound]
        return tuple(names)


def body_statistics(
    estimate: ConsistentEstimate, first: int
) -> Mapping[str, tuple[float, float, float]]:
    """Return value, standard deviation and share seen of a link's numbers as files state them.

    Keys are `mass`, `com.x` … and `inertia.xx` … (about the centre of mass, link's axes).
    """
    ten = slice(first, first + 10)
    values = estimate.parameters.values[ten]
    assert estimate.parameters.covariance is not None
    covariance = estimate.parameters.covariance[ten, ten]

    def stated(pi: Array) -> Array:
        mass, com, tensor = inertia.to_body(pi)
        return np.array([mass, *com, *(tensor[i, j] for i, j in inertia.INERTIA_INDEX)])

    # Central differences of a rational function, steps scaled to each parameter.
    steps = 1e-6 * np.maximum(np.abs(values), 1e-3 * np.abs(values).max())
    jacobian = np.empty((10, 10))
    for k in range(10):
        move = np.zeros(10)
        move[k] = steps[k]
        jacobian[:, k] = (stated(values + move) - stated(values - move)) / (2.0 * steps[k])
    std = np.sqrt(np.maximum(np.diag(jacobian @ covariance @ jacobian.T), 0.0))
    names = ["mass", "com.x", "com.y", "com.z"]
    names += [f"inertia.{inertia.AXES[i]}{inertia.AXES[j]}" for i, j in inertia.INERTIA_INDEX]
    numbers = stated(values)
    return {
        n: (float(numbers[k]), float(std[k]), float(estimate.seen[first + k]))
        for k, n in enumerate(names)
    }
