"""Least squares of a payload at a wrench sensor: prior rows, solution, Gauss-Newton iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import TooLittleData
from heft.estimators import Estimate, LeastSquares, PhysicallyConsistent
from heft.information import PARAMETER_COUNT, inertia
from heft.plants import HeldBody, Point, Problem
from heft.signals import WhiteWeak

VISIBLE = 1e-5  # of the largest singular value: directions below it are not identified
SWEEPS = 5  # of the noise of forces and moments
RATIOS = 3  # of the noise's ratio, by which several sensors' channels are made
STEPS = 10
SETTLED = 0.02  # standard deviations: step below which the iteration has converged
LARGEST_SHIFT = 0.05  # [s]
WEIGHED = 1e-3  # relative, of a mass that is known
PRIOR = 1e-6  # effective samples: consistency, and nothing else
STATED = "stated"  # the channel of prior rows


@dataclass(frozen=True)
class Known:
    """Prior knowledge that enters the least squares."""

    # standard deviation of one sample's force [N] and moment [N·m], raised to that of the residual
    # where that is larger; estimated from the residual if not given
    noise: tuple[float, float] | None = None
    # prior standard deviation of each channel's gain, whose nominal value is one
    gain_std: float | None = None
    mass: float | None = None  # known mass of the payload [kg]

    def rows(self, plant: HeldBody) -> Array:
        """Prior on gains and mass as rows `[Y w]` of unit variance.

        Args:
            plant: Plant with p columns, about whose point the gains are expressed.

        Returns:
            The rows, shape (r, p + 1): six for gains if they are unknowns, one for a known mass.
        """
        unknowns = plant.unknowns
        rows = np.zeros((6 * unknowns.gains + (self.mass is not None), len(unknowns.labels)))
        right = np.zeros(len(rows))
        if self.gain_std is not None:
            rows[:6, unknowns.columns("gain")] = np.eye(6) / self.gain_std
            right[:6] = (1.0 - plant.point.gains) / self.gain_std
        if self.mass is not None:
            rows[-1, 0], right[-1] = 1.0 / (WEIGHED * self.mass), 1.0 / WEIGHED
        return np.column_stack([rows, right])


@dataclass(frozen=True, eq=False)
class Found:
    """Weighted least-squares solution of a payload, linearised about a point, with p columns."""

    problem: Problem[HeldBody]  # the problem solved
    # its estimate on the base columns (those that are structurally identifiable)
    estimate: Estimate

    @property
    def plant(self) -> HeldBody:
        """The plant, linearised about its point."""
        return self.problem.plant

    @cached_property
    def values(self) -> Array:
        """Values of all columns, shape (p,); the minimum-norm solution where it is not unique."""
        return self.problem.base.spread(self.estimate.fitted)

    @cached_property
    def covariance(self) -> Array:
        """Covariance of all columns, shape (p, p); zero where a column is not identified."""
        kept = list(self.problem.base.kept)
        whole = np.zeros((len(self.values),) * 2)
        own = self.estimate.parameters.covariance
        assert own is not None
        whole[np.ix_(kept, kept)] = np.where(np.isfinite(own), own, 0.0)
        return whole

    @property
    def std(self) -> Array:
        """Standard deviations of all columns, shape (p,); zero where a column is not identified."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which columns are identified, shape (p,).

        These have no component in an unidentifiable direction.
        """
        whole = np.zeros(len(self.values), dtype=bool)
        whole[list(self.problem.base.kept)] = np.isfinite(self.estimate.parameters.values)
        return whole

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviation of one sample's force [N] and moment [N·m]."""
        sigma = self.estimate.noise.sigma
        return float(sigma[0]), float(sigma[3])

    @property
    def rows(self) -> int:
        """Number of windows, or of static poses."""
        return int(self.estimate.noise.rows[0])

    @property
    def criterion(self) -> float:
        """Bayesian information criterion, −2 log L + k log n, up to a constant [Schwarz1978].

        Each channel has its own noise variance: the first term sums n log(rss / n) over channels.
        Used to select the order of the bias drift; smaller is better.
        """
        values, total = self.estimate.fitted, 0.0
        for t in self.estimate.information.triangles[: len(self.plant.channels)]:
            total += t.rows * math.log(max(t.residual_energy(values) / t.rows, 1e-300))
        return total + len(values) * math.log(len(self.plant.channels) * self.rows)

    @cached_property
    def windows(self) -> tuple[Array, Array]:
        """Regressor Y, shape (N, 6, p), and wrench, shape (N, 6) [N, N·m], of each window or pose.

        Neither is whitened, and further sensors are not combined into independent channels.
        """
        weak = self.problem.weak
        if isinstance(weak, WhiteWeak):
            weak = replace(weak, whitened=False)
        plant = replace(self.plant, others=())
        plain = self.problem.with_settings(plant=plant, weak=weak)
        rows = list(plain.rows())
        every = np.concatenate([r.regressor for r in rows])
        whole = np.zeros((*every.shape[:2], len(self.values)))
        whole[:, :, list(plain.base.kept)] = every
        return whole, np.concatenate([r.effort for r in rows])

    @cached_property
    def left(self) -> Array:
        """Residual wrench w − Y θ of each window or pose, shape (N, 6) [N, N·m]."""
        regressor, wrench = self.windows
        return np.asarray(wrench - regressor @ self.values)

    @cached_property
    def shares(self) -> tuple[float, float]:
        """Relative residuals of force and of moment: norm of the residual over that of the signal.

        The mean over windows or poses is subtracted from the signal.
        """
        wrench = self.windows[1]
        changes = wrench - wrench.mean(axis=0)
        sizes = [
            (np.linalg.norm(self.left[:, g]), np.linalg.norm(changes[:, g]))
            for g in (slice(3), slice(3, None))
        ]
        force, moment = (float(left) / max(float(size), 1e-300) for left, size in sizes)
        return force, moment

    @property
    def point(self) -> Point:
        """The plant's point moved to the solution."""
        return self.plant.point.moved(self.plant.unknowns, self.values)

    @property
    def gravity(self) -> tuple[Array | None, Array | None]:
        """Gravity in the world's frame and its standard deviations, each shape (3,) [m/s²].

        Both are None unless the tilt is an unknown.
        """
        unknowns, point = self.plant.unknowns, self.point
        if not unknowns.tilt:
            return None, None
        columns, slope = unknowns.columns("tilt"), np.cross(point.axes, point.gravity)
        spread = slope.T @ self.covariance[columns, columns] @ slope
        return point.gravity, np.sqrt(np.diag(spread))


def solve(problem: Problem[HeldBody], known: Known) -> Found:
    """Solve the least squares about the plant's point, forces and moments weighted by their noise.

    Raises:
        TooLittleData: If there are not more rows than unknowns.
    """
    rows = known.rows(problem.plant)
    sigma = {} if known.noise is None else dict(zip(("force", "torque"), known.noise, strict=True))
    repeated = problem.plant.others and known.noise is None
    for _ in range(RATIOS if repeated else 1):
        information, names = problem.information(), problem.noise_names
        if len(rows):
            columns = [*problem.base.kept, -1]
            information = information.beside(STATED, rows[:, columns])
            names = (*names, STATED)
        if information.rows <= len(information.labels):
            raise TooLittleData(
                "the log is too short to weigh anything",
                got=f"{information.triangles[0].rows} {_kind(problem)}",
                expected=f"{len(information.labels)} unknowns need more",
                cure="record longer",
            )
        estimator = LeastSquares(sweeps=SWEEPS, visible=VISIBLE)
        estimate = estimator.solve(information, names, {STATED: 1.0})
        if sigma:
            # Noise of the motion, which nobody states, is left over beside the wrench's own.
            left = dict(zip(names, estimate.noise.sigma, strict=True))
            known_noise = {name: max(stated, float(left[name])) for name, stated in sigma.items()}
            estimate = estimator.solve(information, names, {**known_noise, STATED: 1.0})
        found = Found(problem, estimate)
        if repeated:
            problem = problem.with_settings(plant=replace(problem.plant, noise=found.noise))
    return found


def _kind(problem: Problem[HeldBody]) -> str:
    if problem.weak is None:
        return "poses"
    return f"windows of {problem.weak.length:g} s"


def settled(problem: Problem[HeldBody], known: Known) -> Found:
    """Solve by Gauss-Newton: relinearise until the step is small against the standard deviations.

    Raises:
        TooLittleData: If there are not more rows than unknowns.
    """
    for _ in range(STEPS):
        found = solve(problem, known)
        unknowns, point = found.plant.unknowns, found.plant.point
        moved = point.moved(unknowns, found.values)
        change = moved.whole(unknowns, found.values) - point.whole(unknowns, found.values)
        change[:PARAMETER_COUNT] = moved.body - point.body
        if unknowns.linear or np.all(np.abs(change) <= SETTLED * found.std):
            break
        problem = about(found.problem, found.values)
    return found


def about(problem: Problem[HeldBody], values: Array) -> Problem[HeldBody]:
    """Return the problem relinearised about a solution: its plant's point, and its delay.

    Args:
        values: Values of its columns, shape (p,).
    """
    plant = problem.plant.about(values)
    delay = float(np.clip(plant.point.delay, -LARGEST_SHIFT, LARGEST_SHIFT))
    plant = replace(plant, point=replace(plant.point, delay=delay))
    smoothing = replace(problem.resolved, delay=delay, trim=abs(delay))
    return problem.with_settings(plant=plant, smoothing=smoothing)


def asking(found: Found, **kinds: Any) -> Problem[HeldBody]:
    """Return the problem relinearised about a solution, with other unknowns.

    Args:
        **kinds: Fields of `Unknowns` to change, such as `tilt=True`.
    """
    problem = about(found.problem, found.values)
    unknowns = replace(found.plant.unknowns, **kinds)
    return problem.with_settings(plant=replace(problem.plant, unknowns=unknowns))


def turned_to(problem: Problem[HeldBody], rotation: Array) -> Problem[HeldBody]:
    """Return the problem about another mounting of the sensor.

    Args:
        rotation: From the sensor's axes as logged to those of the motion, shape (3, 3).
    """
    point = replace(problem.plant.point, rotation=rotation)
    return problem.with_settings(plant=replace(problem.plant, point=point))


def consistent(found: Found) -> tuple[Array, bool]:
    """Project the solution onto physically consistent parameters, in the metric of the data.

    Returns:
        Values of all columns, shape (p,), and whether the solution was consistent already.
    """
    ten = found.values[:PARAMETER_COUNT]
    if ten[0] > 0.0 and inertia.consistency_margin(ten) > 0.0:
        return found.values.copy(), True
    mass = max(float(ten[0]), 1e-3)
    nominal = np.zeros(len(found.values))
    nominal[:PARAMETER_COUNT] = inertia.from_body(mass, ten[1:4] / mass, 0.05**2 * mass * np.eye(3))
    space = replace(found.plant.space, nominal=nominal)
    triangle = found.estimate.information.combined(found.estimate.weights())
    fit = PhysicallyConsistent(strength=PRIOR, margin=1e-6)
    return np.array(fit.fit(triangle, space).parameters.values), False
