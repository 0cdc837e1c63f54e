"""Programs over the cone of consistent bodies: the nearest robot, and whether one can exist.

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

from .feasible_set import BASIS, IDENTITY, LinearConstraints, scaled_metric, stack, unstack

LEAST_BARRIER = 1e-8  # of the log-determinant, in squared standard deviations of the misfit
FALL = 10.0  # of its weight from stage to stage
FALLING = 1e-12  # slope that may be rounding, as a share of the column's and the right's length


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

    Beside given bodies each drive's terms are least squares by themselves, and with those left out
    that are zero the bodies are a program of few unknowns. Both are solved in turns: Newton's steps
    for the bodies, which the terms that are zero end as soon as they stay the same.

    Args:
        triangle: R, bodies shared, of each drive's terms those with a sign last.
        free: Unconstrained optimum, bodies in the model file's measure first, shape (n,).
        constraints: Linear ones, on u: of the bodies, or that a term is not negative.
        margin: Least eigenvalue of a body.

    Returns:
        u, shape (n,), the iterations, and for each constraint whether it binds, shape (k,); None
        if the solver fails.
    """
    bodies, rows = len(triangle.R), constraints.rows
    of_terms = rows[:, bodies:].any(axis=1)
    signed = np.asarray(rows[of_terms].any(axis=0))
    limits = constraints.part(slice(0, bodies))
    outside = np.zeros(bodies // 10, dtype=bool)
    unknown, least = _beside(triangle, 0.0 * free, free[:bodies], signed)[0], np.inf
    steps, binds = 0, constraints.equal.copy()
    for _ in range(50):  # two or three are usual
        zero = signed & (unknown == 0.0)
        nearest = _bodies(triangle.only(np.flatnonzero(~zero)), limits, margin, outside)
        if nearest is None:
            return None
        best, more, binds[~of_terms] = nearest
        steps += 1 + more
        for shorter in range(50):
            moved = unknown[:bodies] + 0.5**shorter * (best - unknown[:bodies])
            trial, height = _beside(triangle, unknown, moved, signed)
            if height <= least:
                break
        unknown, least = trial, height
        if np.array_equal(zero, signed & (unknown == 0.0)):
            break
    binds[of_terms] = unknown[rows[of_terms].argmax(axis=1)] == 0.0
    return unknown, steps, binds


def _beside(
    triangle: Bordered, near: Array, bodies: Array, signed: NDArray[np.bool_]
) -> tuple[Array, float]:
    """Return u with the best terms beside given bodies, and its sum of squares.

    Args:
        near: A point u, nearness of whose terms saves time.
        signed: Which of u must not be negative, shape (n,).
    """
    unknown = np.append(bodies, near[len(bodies) :])
    height = float(np.sum((triangle.R @ bodies - triangle.z) ** 2))
    for drive in triangle.corners:
        free = int(np.sum(~signed[drive.own]))
        right = drive.z - drive.border @ bodies[drive.shared]
        factor = drive.R[free:, free:]
        terms = nonnegative(factor, right[free:], near[drive.own[free:]], 0)
        height += float(np.sum((factor @ terms - right[free:]) ** 2))
        ahead = right[:free] - drive.R[:free, free:] @ terms
        others = scipy.linalg.solve_triangular(drive.R[:free, :free], ahead)
        unknown[drive.own] = np.append(others, terms)
    return unknown, height


def _bodies(
    triangle: Bordered, limits: LinearConstraints, margin: float, outside: NDArray[np.bool_]
) -> tuple[Array, int, NDArray[np.bool_]] | None:
    """Return the bodies nearest to the optimum, shape (k,), iterations, which constraints bind.

    Minimises ½ ‖y‖² over `y = R (u − free)`: in these coordinates the norm is the plain one, RᵀR is
    never formed, and what is badly scaled is in the constraints alone, which the solver is told to
    leave as they are. Of y only what constraints see is sought.

    Args:
        limits: Linear constraints on bodies.
        outside: Which bodies the program keeps inside the cone; joined by those that leave it.
    """
    import clarabel

    point = free = scipy.linalg.solve_triangular(triangle.R, triangle.z)
    back, steps, binds = np.linalg.inv(triangle.R), 0, limits.equal.copy()
    linear, equations = np.argsort(~limits.equal, kind="stable"), int(limits.equal.sum())
    count = len(linear)
    cones = [clarabel.ZeroConeT(equations), clarabel.NonnegativeConeT(count - equations)]
    settings = conic_settings()
    settings.equilibrate_enable = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10  # relative to offsets
    solved = not outside.any() and limits.hold(free)
    while True:
        leaving = ~outside & (np.linalg.eigvalsh(unstack(point.reshape(-1, 10)))[:, 0] < margin)
        if solved and not leaving.any():
            return point, steps, binds
        solved = True
        outside |= leaving
        own, many = np.repeat(outside, 10), int(outside.sum())
        across, factor = np.linalg.qr(np.vstack([limits.rows[linear] @ back, back[own]]).T)
        slack = (limits.rows @ free - limits.least)[linear]
        for scale in (1.0, max(float(np.linalg.norm(triangle.z)), 1e-300)):
            solution = clarabel.DefaultSolver(
                scipy.sparse.identity(len(factor), format="csc"),
                np.zeros(len(factor)),
                scipy.sparse.csc_matrix(-scale * factor.T),
                np.append(slack, free[own] - margin * np.tile(IDENTITY, many)),
                [*cones, *[clarabel.PSDTriangleConeT(4)] * many],
                settings,
            ).solve()
            if str(solution.status) in ("Solved", "AlmostSolved"):
                break
        else:
            return None
        moved, multiplier = np.asarray(solution.x), scale * np.array(solution.z[:count])
        # A constraint binds where its multiplier, of the norm, outweighs its distance from it.
        outweighs = multiplier > float(np.linalg.norm(moved)) * np.array(solution.s[:count])
        binds[linear] = limits.equal[linear] | outweighs
        point, steps = free + scale * (back @ (across @ moved)), steps + int(solution.iterations)


def nonnegative(factor: Array, right: Array, start: Array, exchanges: int = 12) -> Array:
    """Return x ≥ 0 with the least `‖F x − r‖`, shape (n,).

    Of each number and its slope, the derivative of half the sum of squares, one is zero and neither
    is negative. All that are wrong are exchanged at once, which ends after a few solutions or,
    where columns are nearly dependent, never. Then numbers become positive one at a time, and those
    that would fall below zero stop there, which ends [Lawson1974].

    Args:
        factor: F, whose columns that are not zero are independent, shape (m, n).
        right: r, shape (m,).
        start: A point x ≥ 0, shape (n,); nearness saves time.
        exchanges: Most exchanges of all wrong signs at once, before they change one at a time.
    """
    lengths = np.linalg.norm(factor, axis=0) * np.linalg.norm(right)
    lengths = np.maximum(lengths, np.finfo(float).tiny)
    positive = start > 0.0
    for _ in range(exchanges):
        x = _with_zeros(factor, right, positive)
        falling = ~positive & (_slopes(factor, right, x) < -FALLING * lengths)
        wrong = (x < 0.0) | falling
        if not wrong.any():
            return x
        positive = positive ^ wrong
    x, positive, new = start, start > 0.0, -1
    stuck = np.zeros(len(start), dtype=bool)  # zero by rounding, though its slope is negative
    while True:
        while ((aim := _with_zeros(factor, right, positive)) < 0.0).any():
            ends = np.full(len(x), np.inf)
            np.divide(x, x - aim, out=ends, where=aim < 0.0)
            x, positive = x + ends.min() * (aim - x), positive & (ends > ends.min())
            x[~positive] = 0.0
        x = aim
        if new >= 0:
            stuck &= not positive[new]
            stuck[new] = not positive[new]
        slopes = np.where(positive | stuck, 0.0, _slopes(factor, right, x) / lengths)
        if not (slopes < -FALLING).any():
            return x
        new = int(np.argmin(slopes))
        positive[new] = True


def _with_zeros(factor: Array, right: Array, positive: NDArray[np.bool_]) -> Array:
    """Return least squares of the `positive` unknowns, all others being zero, shape (n,)."""
    x = np.zeros(len(positive))
    count = int(positive.sum())
    rows = np.column_stack([factor[:, positive], right])
    triangle = np.asarray(np.linalg.qr(rows, mode="r"))
    x[positive] = scipy.linalg.solve_triangular(triangle[:count, :count], triangle[:count, -1])
    return x


def _slopes(factor: Array, right: Array, x: Array) -> Array:
    return np.asarray(factor.T @ (factor @ x - right))


MOST = 1.0  # margin beyond which it is not sought: that of the model file's links


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
    import clarabel

    chosen = list(range(len(space.matrix))) if kept is None else list(kept)
    metric = scaled_metric(space)
    rows = space.matrix[chosen] @ metric
    lengths = np.linalg.norm(rows, axis=1)
    start, free = _solutions(rows / lengths[:, None], np.asarray(values)[chosen] / lengths)
    # What is left free is rounding: β tells the parameter by itself.
    fixed = np.linalg.norm(free, axis=1) <= 1e-9
    mixed = [k for k in space.nonnegative if not fixed[k]]
    count = free.shape[1]
    # Rows s = limits − A [z; t] of u = u₀ + N z with the largest margin t, each in its cone.
    parts = [np.append(np.zeros(count), 1.0)[None]]
    parts.append(np.column_stack([-free[mixed], np.zeros(len(mixed))]))
    limits = [np.array([MOST]), start[mixed]]
    cones: list[object] = [clarabel.NonnegativeConeT(1 + len(mixed))]
    for first in space.groups:
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
    farthest = np.asarray(start + free @ np.asarray(solution.x)[:count])
    farthest[mixed] = np.maximum(farthest[mixed], 0.0)  # which the solver keeps to its tolerance
    robot = metric @ farthest
    return NearestRobot(margin_of(robot, space), robot)


def margin_of(values: Array, space: ParameterSpace) -> float:
    """Return the margin of standard parameters, shape (n,), 1 at most; see `NearestRobot`."""
    scaled = np.asarray(np.linalg.solve(scaled_metric(space), values), dtype=float)
    links = unstack(np.array([scaled[k : k + 10] for k in space.groups]).reshape(-1, 10))
    return float(min(np.linalg.eigvalsh(links)[:, 0].min(initial=MOST), MOST))


def _solutions(rows: Array, values: Array) -> tuple[Array, Array]:
    """Return u₀ and N with all solutions u₀ + N z of `rows @ u = values`, N orthonormal."""
    basis, triangle = scipy.linalg.qr(rows.T)
    rank = len(rows)
    start = basis[:, :rank] @ scipy.linalg.solve_triangular(triangle[:rank], values, trans=1)
    return start, np.asarray(basis[:, rank:])


@dataclass(frozen=True)
class LogDetProblem:
    """Least squares with the log-determinant prior: always strictly inside the cone.

    Minimises, over links' pseudo-inertias U measured at the model file's value and drives, w,

        ½ ‖R w − z‖² + n₀ Σ_links [tr U − log det U − 4]     subject to linear constraints

    by Newton's method with the step from an orthogonal factor, since RᵀR would lose half of the
    digits. The divergence tr U − log det U − 4 is that of [Lee2018, eq. 19], the Kullback–Leibler
    divergence between Gaussians of these moments; around U = 1 it is ½ ‖U − 1‖²_F. It is
    self-concordant, so the steps are damped far away and converge quadratically nearby
    [Boyd2004, sect. 9.6]. Linear constraints are met along a barrier's path and then, those that
    bind being known, as equations.
    """

    R: Array  # triangle of the data, shape (n, n)
    z: Array  # its right-hand side, shape (n,)
    links: int  # how many; their unknowns come first, ten each
    strength: float  # n₀
    constraints: LinearConstraints  # linear ones, on w, rows of length one

    def solve(self, start: Array) -> tuple[Array, int, NDArray[np.bool_]]:
        """Return the minimum w, (n,), the Newton steps, and which linear constraints bind, (k,).

        Args:
            start: w strictly inside everything but the equations, which it fulfils, shape (n,).

        Raises:
            SolverFailure: If the steps do not converge.
        """
        equal = self.constraints.equal
        loud = 0.5 * float(np.sum((self.R @ start - self.z) ** 2))
        total = 0
        point = start
        for weight in _falling(loud, self.strength):
            point, steps = self._newton(point, weight, 0.0, equal)
            total += steps
        if (self._slack(point)[~equal] >= 0.0).all():
            return point, total, equal.copy()
        point = start
        for barrier in _falling(loud, LEAST_BARRIER):
            point, steps = self._newton(point, max(self.strength, barrier), barrier, equal)
            total += steps
        # On the path slack times multiplier is the barrier's weight.
        binds = equal | (self._slack(point) ** 2 < LEAST_BARRIER)
        for _ in range(2 * len(equal)):
            exact = self._on_equations(point, binds)
            if exact is None:
                break
            try:
                trial, steps = self._newton(exact, self.strength, 0.0, binds)
            except np.linalg.LinAlgError:  # rounding, of a body beside the boundary
                break
            total += steps
            wrong = self._wrong(trial, binds)
            if wrong is None:
                return trial, total, binds
            binds = binds ^ (np.arange(len(binds)) == wrong)
        return point, total, binds  # of the path: within its last barrier of the optimum

    def gradient(self, point: Array) -> Array:
        """Return the objective's derivative, shape (n,)."""
        jacobian, rest = self._rows(point, self.strength, 0.0)
        return jacobian.T @ rest

    def _slack(self, point: Array) -> Array:
        return self.constraints.rows @ point - self.constraints.least

    def _wrong(self, point: Array, binds: NDArray[np.bool_]) -> int | None:
        """Return the constraint that is most violated, or binds with the wrong sign; or None."""
        free = ~self.constraints.equal
        slope = self.gradient(point)
        pushes = np.zeros(len(binds))
        pushes[binds] = np.linalg.lstsq(self.constraints.rows[binds].T, slope)[0]
        error = np.where(binds, -pushes, -self._slack(point)) * free
        worst = int(np.argmax(error))
        return worst if error[worst] > 1e-9 * (1.0 + float(np.abs(slope).max())) else None

    def _on_equations(self, point: Array, binds: NDArray[np.bool_]) -> Array | None:
        """Return the nearest point where constraints bind; None if a body is not physical."""
        rows = self.constraints.rows[binds]
        moved = point - np.linalg.lstsq(rows, self._slack(point)[binds])[0]
        lowest = np.linalg.eigvalsh(unstack(moved[: 10 * self.links].reshape(-1, 10)))[:, 0]
        return moved if lowest.min(initial=1.0) > 0.0 else None

    def _rows(self, point: Array, weight: float, barrier: float) -> tuple[Array, Array]:
        """Return J and r with `JᵀJ` the objective's Hessian and `Jᵀr` its gradient.

        With U = C Cᵀ, the divergence's Hessian is ‖C⁻¹ dU C⁻ᵀ‖² and its gradient
        1 − U⁻¹ = C⁻ᵀ (Cᵀ C − 1) C⁻¹.
        """
        C = np.linalg.cholesky(unstack(point[: 10 * self.links].reshape(-1, 10)))
        back = np.linalg.inv(C)[:, None]
        moved = stack(back @ BASIS @ np.swapaxes(back, -1, -2))
        bodies = np.zeros((10 * self.links, len(point)))
        for k in range(self.links):
            ten = slice(10 * k, 10 * k + 10)
            bodies[ten, ten] = moved[k].T
        difference = (stack(np.swapaxes(C, -1, -2) @ C) - IDENTITY).ravel()
        root = np.sqrt(weight)
        jacobian, rest = [self.R, root * bodies], [self.R @ point - self.z, root * difference]
        if barrier > 0.0:
            free = ~self.constraints.equal
            ratio = np.sqrt(barrier) / self._slack(point)[free]
            jacobian.append(ratio[:, None] * self.constraints.rows[free])
            rest.append(np.full(len(ratio), -np.sqrt(barrier)))
        return np.vstack(jacobian), np.concatenate(rest)

    def _newton(
        self, point: Array, weight: float, barrier: float, binding: NDArray[np.bool_]
    ) -> tuple[Array, int]:
        rows = self.constraints.rows[binding]
        within = scipy.linalg.null_space(rows) if len(rows) else np.eye(len(point))
        # Below this decrement a full step stays inside and squares the error.
        close = 0.25 * np.sqrt(min(weight, barrier) if barrier > 0.0 else weight)
        before = np.inf
        # A dozen are usual; a hundred effective samples less than the data's misfit calls for, and
        # bodies drift far along a flat valley, in over a thousand.
        for count in range(most := 5000):
            jacobian, rest = self._rows(point, weight, barrier)
            reduced = jacobian @ within
            lengths = np.linalg.norm(reduced, axis=0)
            Q, right = np.linalg.qr(reduced / lengths)
            across = Q.T @ rest
            step = -within @ (scipy.linalg.solve_triangular(right, across) / lengths)
            decrement = float(np.linalg.norm(across))
            if decrement <= 1e-10 * close or (before <= close and decrement > 0.5 * before):
                return point, count
            share = self._share(point, step, weight, barrier) if decrement > close else 1.0
            point = point + share * step
            before = decrement
        raise SolverFailure(
            "the steps towards the log-determinant prior's estimate do not converge",
            got=f"a decrement of {before:.3g} after {most} steps",
            cure='take prior="quadratic", or a stronger prior',
        )

    def _share(self, point: Array, step: Array, weight: float, barrier: float) -> float:
        """Return how much of a step brings the objective to its least along it.

        Along a step all of it is a quadratic and logarithms: its derivative is closed form,
        grows throughout, and is infinite where the first body or constraint ends.
        """
        move = self.R @ step
        linear = float(move @ (self.R @ point - self.z))
        square = float(move @ move)
        C = np.linalg.cholesky(unstack(point[: 10 * self.links].reshape(-1, 10)))
        back = np.linalg.inv(C)
        U = unstack(step[: 10 * self.links].reshape(-1, 10))
        rates = np.linalg.eigvalsh(back @ U @ np.swapaxes(back, -1, -2)).ravel()
        weights = np.full(len(rates), weight)
        linear += weight * float(np.trace(U, axis1=1, axis2=2).sum())
        if barrier > 0.0:
            free = ~self.constraints.equal
            slopes = self.constraints.rows[free] @ step
            rates = np.append(rates, slopes / self._slack(point)[free])
            weights = np.append(weights, np.full(len(slopes), barrier))
        least = float(rates.min(initial=0.0))
        low, high = 0.0, 2.0 if least >= -0.5 else 1.0 / -least
        for _ in range(50):
            middle = 0.5 * (low + high)
            slope = linear + middle * square - float(np.sum(weights * rates / (1 + middle * rates)))
            low, high = (middle, high) if slope < 0.0 else (low, middle)
        return low


def _falling(first: float, last: float) -> list[float]:
    stages = max(0, int(np.ceil(np.log(max(first, last) / last) / np.log(FALL))))
    return [last * FALL**k for k in range(stages, -1, -1)]
