"""Least squares of some base parameters alone, all others held at an earlier result.

A short run for one task tells few parameters: those that are essential to it. With the others held
at β₀,

    Y_f β_f = τ − Y_h β₀_h − ε

What is held is itself uncertain, by C_h. An error of it moves what is estimated by −G, with G the
least squares of Y_h on Y_f, so that its covariance is that of the rows plus G C_h Gᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.estimators import (
    Estimate,
    LeastSquares,
    Problem,
    Residuals,
    Rows,
    SimulatedPiece,
    VarianceComponents,
    mixes_channels,
)
from heft.information import Directions, Information, Labels, Parameters


@dataclass(frozen=True)
class ReEstimate(Estimate):
    """Base parameters β, some estimated anew; `information` and `noise` are the rows'."""

    free: tuple[int, ...] = ()  # positions of those that are

    @cached_property
    def fitted(self) -> Array:
        """Values of β, shape (b,)."""
        return np.asarray(self.parameters.values)


@dataclass(frozen=True, eq=False)
class ReEstimation:
    """Least squares of some base parameters, all others held at an earlier result.

    Use it where a run is too short, or its motion too poor, for all of them: an arm at one task,
    whose essential parameters (`Essential`) drift or change, such as friction as it warms up.

    Raises:
        InvalidSetting: If a name is none of the earlier result's, or none is given.
    """

    # β of the earlier result, with its covariance; what is held is exact without one
    before: Parameters
    # names of the base parameters that are estimated, such as those of `EssentialEstimate.kept`
    free: tuple[str, ...]
    least_squares: LeastSquares = LeastSquares()  # settings of the fit

    def __post_init__(self) -> None:
        if not self.free:
            raise InvalidSetting(
                "nothing is to be estimated", argument="free", cure="name a base parameter"
            )
        _ = self.places

    @property
    def places(self) -> tuple[int, ...]:
        """Positions in β of the parameters that are estimated, ascending."""
        return tuple(sorted({self.before.labels.index(name) for name in self.free}))

    def fit(self, problem: Problem) -> ReEstimate:
        """Return base parameters β, those that are held as they were before.

        Args:
            problem: With the base parameters of the earlier result.

        Raises:
            UnlikeLabels: If the problem has other base parameters.
            TooLittleData: If there are no more rows than parameters to be estimated.
        """
        problem.labels.require_same(self.before.labels)
        known: Mapping[str, float] = {}
        names = problem.noise_names
        if mixes_channels(problem):
            problem = VarianceComponents().settled(problem)
            known, names = problem.known_noise, ()
        some = _Some(problem, self.before.values, self.places)
        whole = problem.information()
        estimate = self.least_squares.solve(some.of(whole), names, known)
        if self.least_squares.coloured:
            estimate = self.least_squares.colour(some, estimate)
        return self._whole(whole, estimate)

    def _whole(self, information: Information, estimate: Estimate) -> ReEstimate:
        """Return all of β, errors of the held parameters propagated to the others."""
        free = list(self.places)
        held = [k for k in range(len(self.before.labels)) if k not in set(free)]
        values = self.before.values.copy()
        values[free] = estimate.parameters.values
        R = information.combined(estimate.fitted_with).R
        seen = Directions.of(R[:, free], information.rows)
        G = seen.inverse @ seen.inverse.T @ R[:, free].T @ R[:, held]
        size = len(values)
        total = np.zeros((size, size))
        assert estimate.parameters.covariance is not None
        total[np.ix_(free, free)] = estimate.parameters.covariance
        if self.before.covariance is not None:
            C = self.before.covariance[np.ix_(held, held)]
            total[np.ix_(free, free)] += G @ C @ G.T
            total[np.ix_(free, held)] = -G @ C
            total[np.ix_(held, free)] = -C @ G.T
            total[np.ix_(held, held)] = C
        return ReEstimate(
            replace(self.before, values=values, covariance=total),
            information,
            replace(estimate.noise, coloured=None, common_errors=None),
            estimate.rank,
            estimate.passes,
            {**estimate.settings, "estimated": len(free)},
            self.places,
        )


@dataclass(frozen=True)
class _Residuals:
    values: Array
    noise: Array
    regressor: Callable[[NDArray[np.intp]], Array]
    recording: int
    index: NDArray[np.int64] | None

    @staticmethod
    def of(whole: Residuals, free: tuple[int, ...]) -> _Residuals:
        def regressor(at: NDArray[np.intp]) -> Array:
            return whole.regressor(at)[:, :, list(free)]

        return _Residuals(whole.values, whole.noise, regressor, whole.recording, whole.index)


@dataclass(frozen=True, eq=False)
class _Some:
    problem: Problem
    before: Array
    free: tuple[int, ...]

    @property
    def labels(self) -> Labels:
        return self.problem.labels.select(self.free)

    @property
    def channels(self) -> tuple[str, ...]:
        return self.problem.channels

    @property
    def noise_names(self) -> tuple[str, ...]:
        return self.problem.noise_names

    @property
    def spacing(self) -> int:
        return self.problem.spacing

    @property
    def repeats(self) -> float | None:
        return self.problem.repeats

    def of(self, information: Information) -> Information:
        """Return information about the estimated parameters, the held ones' part subtracted."""
        held = self.before.copy()
        held[list(self.free)] = 0.0
        triangles = []
        for t in information.triangles:
            factor = t.factor.copy()
            factor[:-1, -1] -= t.R @ held[t.columns]
            triangles.append(replace(t, factor=factor))
        return replace(information, triangles=tuple(triangles)).only(self.free)

    def information(self) -> Information:
        return self.of(self.problem.information())

    def rows(self) -> Iterator[Rows]:
        held = self.before.copy()
        held[list(self.free)] = 0.0
        for piece in self.problem.rows():
            effort = piece.effort - piece.regressor @ held
            own = piece.regressor[:, :, list(self.free)]
            yield SimulatedPiece(own, effort, piece.time, piece.recording)

    def _all(self, values: Sequence[float] | Array) -> Array:
        whole = self.before.copy()
        whole[list(self.free)] = values
        return whole

    def residuals(self, values: Array) -> Iterator[_Residuals]:
        for piece in self.problem.residuals(self._all(values)):
            yield _Residuals.of(piece, self.free)

    def residual_energy(self, values: Array) -> Array:
        return self.problem.residual_energy(self._all(values))
