"""Other estimates of the same data, beside the consistent one: what they err, what can exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.estimators import (
    ESTIMATORS,
    ConsistentEstimate,
    Essential,
    Estimate,
    FromInformation,
    LeastSquares,
    ModelDifference,
    StandardEstimate,
    TruncatedRegressor,
    back_projection,
    backward_elimination,
    essential_standard,
    margin_of,
    nearest_robot,
)
from heft.information import ParameterSpace, inertia
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording

from .scores import Score, held_out_scores, plant_scores


@dataclass(frozen=True)
class Alternative:
    """Estimate from the fitted logs, with its torque error and physical consistency."""

    name: str  # of its method, as the command line has it where it has it
    what: str  # what is estimated: `standard` or `base` parameters
    parameters: int  # how many numbers are told apart
    names: tuple[str, ...]  # names of the standard parameters that these are made of
    error: float  # relative torque error, filtered, on the log where it is largest [1]
    bodies: int  # number of links
    # of how many of them a body of positive mass and inertia has these parameters; of base
    # parameters that is the robot that comes nearest to existing, of all that have them
    existing: int
    negative: int  # number of friction coefficients and rotor inertias below zero
    # least eigenvalue of a link's pseudo-inertia, in that of the model file's link, of this robot:
    # above 0 it can exist; see `estimators.nearest_robot`. NaN if not known
    margin: float

    @property
    def physical(self) -> bool:
        """Whether such a robot can exist."""
        return self.existing == self.bodies and self.negative == 0


@dataclass(frozen=True)
class _Others:
    """Other estimates from a problem's information, with their errors."""

    problem: Problem[RobotPlant]  # problem that was fitted
    scored: Sequence[Recording]  # logs that all are scored on
    corner: float  # cutoff of the scores [Hz]

    def of(self, estimate: Estimate, method: str) -> Iterator[Alternative]:
        """Yield estimates of base, then of standard parameters, of an estimate's information."""
        space, noise = self.problem.space, estimate.noise
        plain_fit = LeastSquares().conclude(
            estimate.information, noise.sigma, noise.autocorrelation_time, 1
        )
        path = backward_elimination(plain_fit)
        in_band = self.problem.residual_energy(plain_fit.fitted)
        registered = {name: make() for name, make in ESTIMATORS.items()}
        plain = isinstance(registered[method], Essential | LeastSquares)
        shown = path.kept(path.untold)
        yield self._base("least-squares" if plain else method, plain_fit.fitted, shown)
        for name, other in registered.items():
            if isinstance(other, Essential):
                solution = other.reduced(plain_fit, in_band, path)
                yield self._base(name, solution.parameters.values, solution.kept)
            elif plain and isinstance(other, FromInformation):
                with suppress(SolverFailure):  # where there is no such estimate
                    yield self._base(name, other.values(plain_fit), shown)
        direct = TruncatedRegressor().fit(plain_fit, space)
        yield self._standard("truncated regressor", direct)
        kept = Essential().reduced(plain_fit, in_band, path).kept
        difference = ModelDifference().fit(plain_fit, space, kept)
        yield self._standard("difference from the model", difference)

    def _base(self, name: str, values: Array, kept: Sequence[int]) -> Alternative:
        space, columns = self.problem.space, self.problem.base.spread(values)
        standard, margin = back_projection(values, space), float("nan")
        with suppress(SolverFailure):  # then the shortest are judged, which may be another's
            nearest = nearest_robot(values, space, kept)
            standard, margin = nearest.values, nearest.margin
        solution = StandardEstimate(standard, essential_standard(kept, space), len(kept))
        return self._judged(name, "base", solution, columns, margin)

    def _standard(self, name: str, solution: StandardEstimate) -> Alternative:
        columns = self.problem.plant.space.matrix @ solution.values
        margin = margin_of(solution.values, self.problem.space)
        return self._judged(name, "standard", solution, columns, margin)

    def _judged(
        self, name: str, what: str, solution: StandardEstimate, columns: Array, margin: float
    ) -> Alternative:
        space = self.problem.space
        names = tuple(space.labels.names[k] for k in solution.moved)
        scores, _ = held_out_scores(
            self.problem, self.scored, self.corner, lambda p, hz: plant_scores(p, columns, hz)
        )
        physics = _physics(space, solution.values)
        return Alternative(name, what, solution.rank, names, _largest(scores), *physics, margin)


def other_estimates(
    problem: Problem[RobotPlant],
    estimate: Estimate,
    method: str,
    consistent: ConsistentEstimate,
    scores: Sequence[Score],
    scored: Sequence[Recording],
    corner: float,
) -> tuple[Alternative, ...]:
    """Return the consistent estimate, and others of the same information.

    Each is a solution of triangles that are there already; only errors need the logs.

    Args:
        estimate: Base parameters by the method that was asked for.
        scores: Scores of the consistent estimate on `scored`.
    """
    space, values = problem.space, consistent.parameters.values
    names, title = space.labels.names, "consistent"
    if ESTIMATORS[method].polish is not None:
        title += f", {method}"
    physics = (*_physics(space, values), margin_of(values, space))
    own = Alternative(title, "standard", len(names), names, _largest(scores), *physics)
    return (own, *_Others(problem, scored, corner).of(estimate, method))


def _largest(scores: Sequence[Score]) -> float:
    """Return the largest filtered relative error of a log; NaN if none is long enough."""
    return max((s.total for s in scores if s.counts), default=float("nan"))


def _physics(space: ParameterSpace, values: Array) -> tuple[int, int, int]:
    """Return the numbers of links, of links that can exist, and of negative drive parameters."""
    bodies = [values[k : k + 10] for k in space.groups]
    existing = sum(inertia.consistency_margin(ten) > 0.0 for ten in bodies)
    negative = int(np.sum(values[list(space.nonnegative)] < 0.0))
    return len(bodies), existing, negative
