"""Kalman filters of state and parameters together, for comparison: extended and unscented.

The parameters β, constant but for a slow random walk, stand in the state beside that of the log,
such as the robot's positions and velocities under the measured torque:

    β[k+1] = β[k] + walk,    s[k+1] = f(s[k], β[k]) + L w[k],    measured[k] = H s[k] + n[k]

with H taking the first of s, so that what is left of a measurement moves both [Jazwinski1970,
chapter 8; Julier2004]. The filter sees the log once, forwards. It is told the noise of torque and
positions, and begins with least squares: its β, and `spread` times its deviations. A survey of
estimators compares the same three [Leboutet2021].

Parameters are counted in these deviations, β = β₀ + S₀ ξ: covariances are then well conditioned,
do not depend on units, and leave alone what the log does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import scipy.linalg

from heft import plants
from heft.arrays import Array
from heft.errors import InvalidSetting, SolverFailure, TooLittleData
from heft.estimators import Estimate, LeastSquares, Problem, autocorrelation_time, autocovariance
from heft.files import Keys, Number, Text, check_fields
from heft.information import Directions, Information, Triangle, triangle_of

from .driven_robot import DrivenRobot

Kind = Literal["extended", "unscented", "square-root"]
METHODS = {  # what `heft identify --method` calls them
    "extended": "kalman",
    "unscented": "kalman-unscented",
    "square-root": "kalman-square-root",
}
SQUARED = 2.0  # β of the sigma points' weights, that of a Gaussian [Merwe2001]
CHECKS: Keys = {
    "kind": Text("this filter is not known", tuple(METHODS)),
    "spread": Number("the spread is no number above 1", 1.0, 1e6),
    "walk": Number("the random walk is no number of deviations", 0.0, 1e3),
    "reach": Number("the reach of sigma points is no number above 0", 1e-3, 1.0),
}


class DrivenLog(Protocol):
    """A log as a system with states, s of them, m of which are measured after each of N steps."""

    @property
    def measured(self) -> Array:
        """What was measured after each step: the first m of the state, shape (N, m)."""
        ...

    @property
    def variance(self) -> Array:
        """Variance of each measurement, shape (m,), above 0."""
        ...

    @property
    def start(self) -> tuple[Array, Array]:
        """State before the first step, shape (s,), and its standard deviations, shape (s,)."""
        ...

    def moved(self, step: int, values: Array, states: Array, /) -> tuple[Array, Array]:
        """Return states after a step, and what noise adds to the first.

        Returns:
            States after it, shape (count, s), and L with L Lᵀ the covariance of what noise adds,
            shape (s, any).

        Raises:
            SolverFailure: If a state cannot be moved.
        """
        ...

    def slopes(
        self, step: int, values: Array, state: Array, after: Array, /
    ) -> tuple[Array, Array]:
        """Return ∂s⁺/∂s, shape (s, s), and ∂s⁺/∂β, shape (s, b), of a step."""
        ...


class Driven(Protocol):
    """The experiment of a problem as a system with states; `DrivenRobot` is one."""

    def logs(self, problem: Any, first: Estimate, /) -> Sequence[DrivenLog]:
        """Return the logs of a problem, gaps cut out.

        Args:
            first: Least squares, whose noise says how far measured torque is to be believed.
        """
        ...


@dataclass(frozen=True, eq=False)
class Scale:
    """Parameters normalised by the root S₀ of their initial covariance, β = β₀ + S₀ ξ."""

    start: Array  # β₀, shape (b,)
    root: Array  # S₀, shape (b, r)
    back: Array  # its pseudo-inverse, shape (r, b)

    @staticmethod
    def of(first: Estimate, spread: float) -> Scale:
        """Return the scale from least squares, with `spread` times its standard deviations."""
        triangle = first.information.combined(first.fitted_with)
        seen = Directions.of(triangle.R, triangle.rows)
        back = seen.left[:, : seen.rank].T @ triangle.R
        return Scale(first.fitted, spread * seen.inverse, back / spread)

    def values(self, scaled: Array) -> Array:
        """Return β of some ξ, shape (…, r)."""
        return np.asarray(self.start + scaled @ self.root.T)


class _Filter:
    """Extended Kalman filter: mean (ξ, s) and covariance P of parameters and state."""

    def __init__(self, scale: Scale, walk: float) -> None:
        self.scale, self.size, self.walk = scale, scale.root.shape[1], walk
        self.mean, self.factor = np.zeros(self.size), np.eye(self.size)

    @property
    def parameters(self) -> Array:
        """Covariance of ξ, shape (r, r)."""
        return np.asarray(self.factor[: self.size, : self.size])

    def begin(self, log: DrivenLog) -> None:
        state, deviations = log.start
        self.mean = np.append(self.mean[: self.size], state)
        self.factor = scipy.linalg.block_diag(self.parameters, np.diag(deviations**2))

    def move(self, log: DrivenLog, step: int) -> None:
        r, state = self.size, self.mean[self.size :]
        values = self.scale.values(self.mean[:r])
        after, noise = log.moved(step, values[None], state[None])
        by_state, by_values = log.slopes(step, values, state, after[0])
        F = np.eye(len(self.mean))
        F[r:, :r], F[r:, r:] = by_values @ self.scale.root, by_state
        self.mean[r:] = after[0]
        self.factor = F @ self.factor @ F.T
        self._disturb(noise)

    def _disturb(self, noise: Array) -> None:
        r = self.size
        self.factor[r:, r:] += noise @ noise.T
        self.factor[np.arange(r), np.arange(r)] += self.walk**2

    def measure(self, log: DrivenLog, step: int) -> Array:
        """Update with the measurement after a step; return the whitened innovation."""
        y, P = log.measured[step], self.factor
        seen = slice(self.size, self.size + len(y))
        left, S = y - self.mean[seen], P[seen, seen] + np.diag(log.variance)
        root = _cholesky(S)
        half = scipy.linalg.solve_triangular(root, P[seen], lower=True)
        white = scipy.linalg.solve_triangular(root, left, lower=True)
        self.mean = self.mean + half.T @ white
        P = P - half.T @ half
        self.factor = 0.5 * (P + P.T)
        return np.asarray(left / np.sqrt(np.diag(S)))


class _Unscented(_Filter):
    """Unscented Kalman filter, by sigma points: nothing is differentiated [Julier2004].

    What is measured is a part of the state, of which sigma points say what the covariance says, so
    measuring is the Kalman filter's own.
    """

    def __init__(self, scale: Scale, walk: float, reach: float) -> None:
        super().__init__(scale, walk)
        self.reach = reach

    def _root(self) -> Array:
        return _cholesky(self.factor)

    def _spread_out(self, log: DrivenLog, step: int) -> tuple[Array, Array, Array]:
        """Move the sigma points; return their rows about the mean, that of the centre, and noise.

        Rows D and centre d with covariance DᵀD + c d dᵀ, c of `_centre`.
        """
        r, count = self.size, len(self.mean)
        reach = self.reach * np.sqrt(count)
        arms = reach * self._root().T
        points = np.vstack([self.mean, self.mean + arms, self.mean - arms])
        values = self.scale.values(points[:, :r])
        points[:, r:], noise = log.moved(step, values, points[:, r:])
        middle = points[0]
        weight = 1.0 / (2.0 * reach**2)
        self.mean = middle + weight * np.sum(points[1:] - middle, axis=0)
        return np.sqrt(weight) * (points[1:] - self.mean), middle - self.mean, noise

    @property
    def _centre(self) -> float:
        """Weight of the centre in the covariance, below 0 where sigma points are near."""
        return 1.0 - 1.0 / self.reach**2 + 1.0 - self.reach**2 + SQUARED

    def move(self, log: DrivenLog, step: int) -> None:
        rows, centre, noise = self._spread_out(log, step)
        self.factor = rows.T @ rows + self._centre * np.outer(centre, centre)
        self._disturb(noise)


class _SquareRoot(_Unscented):
    """Unscented filter with the covariance's root R, RᵀR = P, in its place, by QR [Merwe2001]."""

    @property
    def parameters(self) -> Array:
        own = self.factor[:, : self.size]
        return np.asarray(own.T @ own)

    def _root(self) -> Array:
        return self.factor.T

    def begin(self, log: DrivenLog) -> None:
        state, deviations = log.start
        own = triangle_of(self.factor[:, : self.size])
        self.mean = np.append(self.mean[: self.size], state)
        self.factor = scipy.linalg.block_diag(own, np.diag(deviations))

    def move(self, log: DrivenLog, step: int) -> None:
        rows, centre, noise = self._spread_out(log, step)
        r, count = self.size, len(self.mean)
        added = np.zeros((r + noise.shape[1], count))
        added[np.arange(r), np.arange(r)] = self.walk
        added[r:, r:] = noise.T
        root = triangle_of(np.vstack([rows, added]))
        # RᵀR + c d dᵀ = Rᵀ (1 + c p pᵀ) R with p = R⁻ᵀ d, and 1 + c p pᵀ = (1 + g p pᵀ)².
        p = scipy.linalg.solve_triangular(root, centre, trans="T")
        size = float(p @ p)
        if not self._centre * size > -1.0:
            raise _lost()
        change = self._centre / (1.0 + np.sqrt(1.0 + self._centre * size))
        self.factor = triangle_of(root + change * np.outer(p, p @ root))

    def measure(self, log: DrivenLog, step: int) -> Array:
        y, count = log.measured[step], len(self.mean)
        m, seen = len(y), slice(self.size, self.size + len(y))
        array = np.zeros((m + count, m + count))
        array[:m, :m] = np.diag(np.sqrt(log.variance))
        array[m:, :m], array[m:, m:] = self.factor[:, seen], self.factor
        made = triangle_of(array)
        left = y - self.mean[seen]
        white = scipy.linalg.solve_triangular(made[:m, :m], left, trans="T")
        self.mean = self.mean + made[:m, m:].T @ white
        self.factor = made[m:, m:]
        return np.asarray(left / np.linalg.norm(made[:m, :m], axis=0))


def _cholesky(matrix: Array) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        raise _lost() from None


def _lost() -> SolverFailure:
    return SolverFailure(
        "the covariance of the filter is not positive any more",
        cure="take the square-root filter, or a smaller reach or spread",
    )


@dataclass(frozen=True)
class KalmanFilter:
    """Parameters and state by one pass of a Kalman filter.

    Use it for comparison: it believes the friction that is simulated, and the noise that it is
    told. It needs no controller and no acceleration.

    Raises:
        InvalidSetting: If a setting is out of range.
    """

    # `extended`, by derivatives; `unscented`, by sigma points; `square-root`, the same with the
    # covariance's root
    kind: Kind = "extended"
    # the experiment as a system with states; the problem's robot, moved by torques, if not given
    simulate: Driven | None = None
    # deviations of the first parameters over those of least squares. The logs are used twice, and
    # count by 1/spread² more than they are worth
    spread: float = 10.0
    walk: float = 0.1  # how far parameters walk over all logs [deviations of least squares]
    reach: float = 0.1  # of the sigma points, over that with no weight in the centre
    least_squares: LeastSquares = LeastSquares()  # what the filter begins with

    def __post_init__(self) -> None:
        check_fields(self, CHECKS)

    def fit(self, problem: Problem) -> Estimate:
        """Return base parameters β after the last measurement.

        Raises:
            InvalidSetting: If the problem has no robot that torques move.
            TooLittleData: If no log has a step.
            SolverFailure: If the filter loses the log.
        """
        first = self.least_squares.fit(problem)
        logs = (self.simulate or _driven(problem)).logs(problem, first)
        steps = sum(len(log.measured) for log in logs)
        if not steps:
            raise TooLittleData("no log has a step", cure="give a longer log without gaps")
        filter_ = self._made(Scale.of(first, self.spread), steps)
        white = []
        for log in logs:
            filter_.begin(log)
            found = np.empty_like(log.measured)
            for k in range(len(found)):
                filter_.move(log, k)
                found[k] = filter_.measure(log, k)
            if not np.isfinite(found).all():
                raise SolverFailure(
                    "the filter has lost the log: its state is not finite",
                    argument=f"--method {METHODS[self.kind]}",
                    cure="check the model file and the torques' signs and units",
                )
            white.append(found)
        return self._concluded(problem, filter_, white)

    def _made(self, scale: Scale, steps: int) -> _Filter:
        walk = self.walk / self.spread / np.sqrt(steps)
        if self.kind == "extended":
            return _Filter(scale, walk)
        made = _Unscented if self.kind == "unscented" else _SquareRoot
        return made(scale, walk, self.reach)

    def _concluded(self, problem: Problem, filter_: _Filter, white: Sequence[Array]) -> Estimate:
        """Return the filter's last parameters as an estimate, its innovations as residuals.

        What the log told, P⁻¹ less that of the start, is shared evenly among the channels, so that
        the estimate is the same whatever they weigh.
        """
        names, size = problem.channels, len(problem.labels)
        scale, (values, vectors) = filter_.scale, np.linalg.eigh(filter_.parameters)
        told = np.sqrt(np.maximum(1.0 / values - 1.0, 0.0))
        R = (told[:, None] * vectors.T) @ scale.back
        beta = scale.values(filter_.mean[: filter_.size])
        share = np.sqrt(len(names))
        energy = np.sum([np.sum(w**2, axis=0) for w in white], axis=0)
        rows = sum(map(len, white))
        triangles = []
        for own in energy:
            block = np.zeros((len(R) + 1, size + 1))
            block[:-1, :-1], block[:-1, -1] = R / share, R @ beta / share
            block[-1, -1] = np.sqrt(own)
            triangles.append(Triangle(np.arange(size), triangle_of(block), rows))
        information = Information(problem.labels, names, tuple(triangles))
        settled = self.least_squares.solve(information, problem.noise_names)
        times = autocorrelation_time(autocovariance(white))
        found = self.least_squares.conclude(information, settled.noise.sigma, times, 2)
        settings = {**found.settings, "filter": self.kind, "innovations": settled.noise.sigma}
        return replace(found, settings=settings)


def _driven(problem: Problem) -> Driven:
    """Return a problem's robot as a system that measured torques move."""
    if isinstance(problem, plants.Problem) and isinstance(problem.plant, plants.RobotPlant):
        return DrivenRobot(problem.plant.robot)
    raise InvalidSetting(
        "this filter moves a robot's state, and was given no equations of motion",
        argument="simulate",
        cure="give a robot's problem, or say simulate=DrivenRobot(robot)",
    )
