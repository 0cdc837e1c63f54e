"""Least squares of a held body: what is stated beforehand beside the rows, and what was found."""

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

VISIBLE = 1e-5  # of the largest singular value: what is below is not seen
SWEEPS = 5  # of the noise of forces and moments
RATIOS = 3  # of the noise's ratio, by which several sensors' channels are made
STEPS = 10
SETTLED = 0.02  # standard deviations by which an estimate still moves when it is found
LARGEST_SHIFT = 0.05  # [s]
WEIGHED = 1e-3  # relative, of a mass that is known
PRIOR = 1e-6  # effective samples: consistency, and nothing else
STATED = "stated"  # the channel of what is known beforehand


@dataclass(frozen=True)
class Known:
    """What is known beside the rows.

    Attributes:
        noise: Standard deviation of a sample's force [N] and moment [N·m]; found if not given.
        gain_std: Standard deviation of each channel's gain, whose nominal value is one.
        mass: Of the body [kg].
    """

    noise: tuple[float, float] | None = None
    gain_std: float | None = None
    mass: float | None = None

    def rows(self, plant: HeldBody) -> Array:
        """Return rows of unit variance, `[Y w]` on the plant's columns: gains near one, a mass."""
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
    """The least squares of a held body about a point.

    Attributes:
        problem: Whose.
        estimate: On those columns that the plant could ever show.
    """

    problem: Problem[HeldBody]
    estimate: Estimate

    @property
    def plant(self) -> HeldBody:
        """The plant, with its point."""
        return self.problem.plant

    @cached_property
    def values(self) -> Array:
        """Of all columns; the shortest of those that fit where there are many."""
        return self.problem.base.spread(self.estimate.fitted)

    @cached_property
    def covariance(self) -> Array:
        """Of all columns; zero where nothing is seen."""
        kept = list(self.problem.base.kept)
        whole = np.zeros((len(self.values),) * 2)
        own = self.estimate.parameters.covariance
        assert own is not None
        whole[np.ix_(kept, kept)] = np.where(np.isfinite(own), own, 0.0)
        return whole

    @property
    def std(self) -> Array:
        """Standard deviations of all columns; zero where nothing is seen."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """Which columns no unseen direction holds a part of."""
        whole = np.zeros(len(self.values), dtype=bool)
        whole[list(self.problem.base.kept)] = np.isfinite(self.estimate.parameters.values)
        return whole

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviation of force [N] and moment [N·m] of a sample."""
        sigma = self.estimate.noise.sigma
        return float(sigma[0]), float(sigma[3])

    @property
    def rows(self) -> int:
        """Windows, or poses."""
        return int(self.estimate.noise.rows[0])

    @property
    def criterion(self) -> float:
        """Twice the negative logarithm of the likelihood, and the price of the parameters.

        Of each channel its own noise, n log rss, and log n a parameter [Schwarz1978].
        """
        values, total = self.estimate.fitted, 0.0
        for t in self.estimate.information.triangles[: len(self.plant.channels)]:
            total += t.rows * math.log(max(t.residual_energy(values) / t.rows, 1e-300))
        return total + len(values) * math.log(len(self.plant.channels) * self.rows)

    @cached_property
    def windows(self) -> tuple[Array, Array]:
        """Y and wrench of each window, or pose, as they are, (N, 6, p) and (N, 6) [N, N·m]."""
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
        """What the windows' wrench, or the poses', leaves, shape (N, 6) [N, N·m]."""
        regressor, wrench = self.windows
        return np.asarray(wrench - regressor @ self.values)

    @cached_property
    def shares(self) -> tuple[float, float]:
        """What is left of force and of moment, over what of them changes."""
        wrench = self.windows[1]
        changes = wrench - wrench.mean(axis=0)
        sizes = [
            (np.linalg.norm(self.left[:, g]), np.linalg.norm(changes[:, g]))
            for g in (slice(0, 3), slice(3, 6))
        ]
        force, moment = (float(left) / max(float(size), 1e-300) for left, size in sizes)
        return force, moment

    @property
    def point(self) -> Point:
        """Where the solution is."""
        return self.plant.point.moved(self.plant.unknowns, self.values)

    @property
    def gravity(self) -> tuple[Array | None, Array | None]:
        """Gravity in the world [m/s²] and its standard deviations, if it was looked for."""
        unknowns, point = self.plant.unknowns, self.point
        if not unknowns.tilt:
            return None, None
        columns, slope = unknowns.columns("tilt"), np.cross(point.axes, point.gravity)
        spread = slope.T @ self.covariance[columns, columns] @ slope
        return point.gravity, np.sqrt(np.diag(spread))


def solve(problem: Problem[HeldBody], known: Known) -> Found:
    """Return least squares about the plant's point, forces and moments weighed by their noise.

    Raises:
        TooLittleData: If there are no more rows than unknowns.
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
        estimate = estimator.solve(information, names, {**sigma, STATED: 1.0})
        found = Found(problem, estimate)
        if repeated:
            problem = problem.with_settings(plant=replace(problem.plant, noise=found.noise))
    return found


def _kind(problem: Problem[HeldBody]) -> str:
    if problem.weak is None:
        return "poses"
    return f"windows of {problem.weak.length:g} s"


def settled(problem: Problem[HeldBody], known: Known) -> Found:
    """Return the solution where it stays what it is linearised about, by Gauss and Newton."""
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
    """Return the problem about a solution's values: its plant's point, and its delay."""
    plant = problem.plant.about(values)
    delay = float(np.clip(plant.point.delay, -LARGEST_SHIFT, LARGEST_SHIFT))
    plant = replace(plant, point=replace(plant.point, delay=delay))
    smoothing = replace(problem.resolved, delay=delay, trim=abs(delay))
    return problem.with_settings(plant=plant, smoothing=smoothing)


def asking(found: Found, **kinds: Any) -> Problem[HeldBody]:
    """Return the problem about a solution with more, or fewer, unknowns."""
    problem = about(found.problem, found.values)
    unknowns = replace(found.plant.unknowns, **kinds)
    return problem.with_settings(plant=replace(problem.plant, unknowns=unknowns))


def turned_to(problem: Problem[HeldBody], rotation: Array) -> Problem[HeldBody]:
    """Return the problem about another mounting of the sensor, shape (3, 3)."""
    point = replace(problem.plant.point, rotation=rotation)
    return problem.with_settings(plant=replace(problem.plant, point=point))


def consistent(found: Found) -> tuple[Array, bool]:
    """Return the consistent values nearest in the data's metric, and if nothing moved."""
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
