"""Fit of one experiment: cutoff, delay, load-dependent friction, outliers, least squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.certainty import Block, DelayFound, Jackknife, block_moments
from heft.errors import InvalidSetting
from heft.estimators import (
    ESTIMATORS,
    ConsistentEstimate,
    ConsistentFit,
    Essential,
    Estimate,
    Estimator,
    LeastSquares,
    PhysicallyConsistent,
    with_term_sizes,
)
from heft.information import ChannelRows, DataRank, Information, Labels, data_rank
from heft.plants import Plant, Problem, RobotPlant, UnsureGainsPlant, point_moments
from heft.simulation import ClosedLoop

from .earlier import Earlier, P
from .gains import refuse_unlike_gains, with_unsure_gains
from .prepared import (
    first_fit,
    first_sum,
    noise_of,
    only_selected,
    sharpened_and_delayed,
    weighed,
    with_enough_rows,
    without_outliers,
)
from .selection import Selection
from .settings import Progress, Settings, silent


@dataclass(frozen=True)
class ExperimentFit(Generic[P]):
    """Base parameters of one experiment, from its data alone, without prior or constraints."""

    # plant and logs at the chosen cutoff and delay, with load-dependent gear friction
    problem: Problem[P]
    information: Information  # about the base parameters β, with what was given
    # base parameters β; the covariance accounts for coloured residuals, and for errors of delay,
    # cutoff and linearisation point
    estimate: Estimate
    left_out: Mapping[str, int]  # number of rows removed as outliers, by log
    delay: DelayFound  # result of the delay search [s]
    # information about β of contiguous blocks of the logs; none if the estimator weighs rows one by
    # one
    blocks: tuple[Information, ...] = ()
    # for each channel the moments `Yᵀ(τ − Y β)` of all blocks, also those of earlier experiments,
    # shape (blocks, b)
    moments: tuple[Array, ...] = ()
    noise_names: tuple[str, ...] = ()  # name of each channel's standard deviation
    # of each channel whether that deviation eliminated unknowns of each sample
    settled: tuple[bool, ...] = ()

    def widened(
        self, solver: PhysicallyConsistent, jackknife: Jackknife, fitted: ConsistentFit
    ) -> tuple[ConsistentFit, Array]:
        """Return the fit widened by the jackknife, and the deviations D of x, shape (any, n).

        Use it in place of the fit wherever intervals are stated.
        """
        deviations = self.deviations(solver, jackknife, fitted)
        functions = _functions(self.problem.plant, fitted.consistent.parameters.labels)
        return fitted.widened(deviations, self._shift(fitted), functions), deviations

    def _shift(self, fitted: ConsistentFit) -> Array:
        """Return x less the unconstrained estimate, where x is a base parameter, shape (n,).

        The dictionary of friction has no numbers of its own, only their sum has; 0 for these.
        """
        plant, base = self.problem.plant, self.problem.base
        # Beside columns of gains base parameters are by the gains found.
        gains = {} if isinstance(plant, UnsureGainsPlant) else fitted.gains
        matrix, labels = fitted.space.matrix, self.problem.labels
        independent = {plant.labels.names[k] for k in plant.independent}
        shift = np.zeros(matrix.shape[1])
        alone = (matrix != 0.0).sum(axis=0) == 1
        for b, row in enumerate(matrix[: len(base.kept)]):
            (places,) = np.nonzero(row)
            own = self.estimate.parameters.values[b] if len(places) == 1 else np.nan
            if len(places) == 1 and alone[places[0]] and labels.names[b] not in independent:
                channel = labels.names[b].rpartition(".")[0]
                own /= row[places[0]] * gains.get(channel, 1.0)
                shift[places[0]] = fitted.consistent.parameters.values[places[0]] - own
        return np.where(np.isfinite(shift), shift, 0.0)

    def deviations(
        self, solver: PhysicallyConsistent, jackknife: Jackknife, fitted: ConsistentFit
    ) -> Array:
        """Return D of x, DᵀD the jackknife covariance of the consistent parameters, (any, n)."""
        point = fitted.space.matrix @ fitted.consistent.parameters.values
        weights = list(self.estimate.weights().values())
        earlier = [m[len(self.blocks) :] for m in self.moments]
        blocks = Block.of(self.blocks, weights, point, fitted.maps[0], earlier)
        return jackknife.of_consistent(solver, fitted, blocks)


def fit_experiment(
    problem: Problem[P],
    settings: Settings,
    given: Earlier | Information | None = None,
    progress: Progress = silent,
    only: Selection | None = None,
) -> ExperimentFit[P]:
    """Return the base parameters of one experiment, with cutoff, delay and outliers settled.

    Cutoff, delay and the linearisation point of load-dependent friction are found by least squares,
    whatever estimator the settings name.

    Args:
        given: Earlier experiments on the same columns, to be added; None for none. Noise of
            information alone is taken for like this experiment's.
        only: What of the logs is fitted, at the cutoff and delay of all; all if None.

    Raises:
        InvalidSetting: If the selection is of other logs, or earlier information is given to an
            estimator other than least squares.
    """
    _refuse_given(settings, given)
    refuse_unlike_gains(problem, settings, given)
    problem, delay, point = sharpened_and_delayed(problem.in_memory(), settings, progress)
    searched = problem
    if settings.rows == "auto":
        problem = with_enough_rows(problem)
    problem = weighed(only_selected(problem, only, progress), settings, progress)
    if isinstance(given, Earlier):
        problem, given = given.seen_from(problem)
    problem, stated = with_unsure_gains(problem, settings, progress)
    given = given or stated
    kind = ", differentiated" if problem.weak is None else " of the weak form"
    progress(f"smoothing at {problem.corner:.3g} Hz, summing up rows{kind}")
    if point is None or problem is not searched:
        point = first_fit(problem, settings, stated)
    linear = _linearised(problem, settings, delay, stated, point)
    problem, left_out = without_outliers(linear.problem, settings.robust, progress)
    progress("summing up rows with load-dependent gear friction")
    chosen = _simulating(settings, problem)
    solver = chosen.least_squares if isinstance(chosen, Essential) else chosen
    samples = linear.rows // len(problem.channels) - sum(left_out.values())
    summed = _summed(problem, settings.jackknife.blocks, samples, given)
    information = summed.information
    blocks = summed.blocks if isinstance(solver, LeastSquares) else ()
    if isinstance(solver, LeastSquares):
        sigma = solver.spread(information, summed.names, summed.known)
        rank = _data_rank(problem, information, 1.0 / sigma)
        white = None if solver.coloured else np.ones(len(sigma))
        estimate = solver.conclude(information, sigma, white, 1, rank=rank)
    else:
        progress(f"estimating base parameters ({settings.method})")
        estimate = solver.fit(problem)
        rank = _data_rank(problem, information, 1.0 / estimate.noise.sigma)
    moments: tuple[Array, ...] = ()
    if not isinstance(solver, LeastSquares):  # which has looked at its residuals itself
        progress("analysing the residuals")
        common = _common_errors(problem, settings, estimate, linear, summed)
        estimate = estimate.with_common_errors(common)
    elif solver.coloured:
        progress("analysing the residuals")
        common = _common_errors(problem, settings, estimate, linear, summed)
        # The noise of information alone is taken for like this experiment's.
        earlier = Earlier.like(given, estimate.noise) if isinstance(given, Information) else given
        widened = solver.colour(problem, estimate, common, earlier.noise if earlier else None)
        moments = block_moments(blocks, estimate.fitted)
        if earlier is not None:
            pairs = zip(moments, earlier.moments, strict=True)
            moments = tuple(np.vstack(pair) for pair in pairs)
        others = [m[len(blocks) :] for m in moments]
        functions = _functions(problem.plant, widened.parameters.labels)
        held = with_term_sizes(solver, widened, functions)
        without = Block.of(blocks, estimate.fit_weights, held.fitted, None, others)
        deviations = settings.jackknife.of_base(held, without)
        estimate = replace(widened, parameters=held.at_least(deviations, functions).parameters)
    estimate = replace(estimate, rank=rank)
    if isinstance(chosen, Essential):
        progress("dropping base parameters that are not essential")
        estimate = _essential(chosen, problem, estimate)
    return ExperimentFit(
        problem,
        information,
        estimate,
        left_out,
        linear.delay,
        blocks,
        moments,
        summed.names or information.channels,
        tuple(name in summed.known for name in summed.names or information.channels),
    )


@dataclass(frozen=True, eq=False)
class _Linearised(Generic[P]):
    """Problem whose rows are linearised about a first fit."""

    problem: Problem[P]  # its plant knows the torque that loads gears
    rows: int  # of all its channels
    delay: DelayFound  # result of the search, with its deviation
    # for each channel moments of the error that the delay's deviation makes; none if the delay was
    # stated
    late: tuple[Array, ...] | None
    rough: ConsistentEstimate | None  # the first fit; None where rows do not depend on it


def _linearised(
    problem: Problem[P],
    settings: Settings,
    delay: DelayFound,
    stated: Earlier | None,
    point: Array | None,
) -> _Linearised[P]:
    """Return a problem linearised about a first fit.

    The fit before the first, `point`, ignores load-dependent gear friction, so that its bodies are
    biased, and with them the torque that this friction takes: so it is done once more, with it.
    """
    problem = problem.about(point)
    information = problem.information()
    rows, late = information.rows, None
    if settings.smoothing.delay is None:
        search = settings.delay_search
        at_hand = information if problem.is_short(search.rows) else None
        delay, late = search.delay_error(problem, delay, rows, at_hand)
    rough = None
    if point is not None:
        total = first_sum(problem, information, settings, stated)
        rough = settings.consistent.fit(total, problem.space)
        problem = problem.about(rough.parameters.values)
    return _Linearised(problem, rows, delay, late, rough)


@dataclass(frozen=True, eq=False)
class _Summed:
    own: Information  # of its own logs
    blocks: tuple[Information, ...]  # the same of contiguous blocks of them
    information: Information  # with that of earlier experiments
    names: tuple[str, ...]  # name of each channel's deviation; none if all are known
    known: Mapping[str, float]  # deviations that are known, by channel


def _summed(
    problem: Problem[Any], count: int, samples: int, given: Earlier | Information | None
) -> _Summed:
    """Return the information of an experiment and of earlier ones."""
    blocks = problem.information_blocks(count, samples)
    own = information = reduce(add, blocks)
    names, deviations = noise_of(problem)
    if isinstance(given, Earlier):
        if given.origin is not None:
            channels = given.information.channels
            blocks = tuple(block.among(channels) for block in blocks)
            information = information.among(channels)
        beside, kept = given.noise_of(problem.channels)
        names, deviations = (*(names or problem.channels), *beside), {**deviations, **kept}
    if given is not None:
        information += given.information if isinstance(given, Earlier) else given
    return _Summed(own, blocks, information, names, deviations)


def _functions(plant: Plant[Any], labels: Labels) -> list[NDArray[np.intp]]:
    """Return the positions of each function's terms, of which only the sum has a meaning."""
    place = {name: k for k, name in enumerate(labels.names)}
    names = [[plant.labels.names[k] for k in columns] for columns in plant.functions]
    return [np.array([place[n] for n in own if n in place], dtype=np.intp) for own in names]


def _essential(chosen: Essential, problem: Problem[Any], estimate: Estimate) -> Estimate:
    in_band = problem.residual_energy(estimate.fitted)
    # Earlier channels without rows here have no motion's band: all that they leave over counts.
    rest = estimate.information.triangles[len(in_band) :]
    energy = [t.residual_energy(estimate.fitted) for t in rest]
    return chosen.reduced(estimate, np.append(in_band, energy))


def _simulating(settings: Settings, problem: Problem[Any]) -> Estimator:
    chosen, method = settings.estimator, ESTIMATORS[settings.method]
    if not method.simulates or not isinstance(problem.plant, RobotPlant):
        return chosen
    return replace(chosen, simulate=ClosedLoop.of(problem.plant.robot))  # type: ignore[type-var]


def _common_errors(
    problem: Problem[Any],
    settings: Settings,
    estimate: Estimate,
    linear: _Linearised[Any],
    summed: _Summed,
) -> tuple[ChannelRows, ...]:
    """Return by channel the moments of systematic errors that channels share, shape (errors, b).

    They are those of the delay, of the point about which rows are taken, and of the cutoff. Of
    channels without rows in these logs there are none.
    """
    sources = [] if linear.late is None else [_sparse(linear.late)]
    if linear.rough is not None:
        errors = point_moments(problem, estimate.fitted, _point_spread(problem, linear.rough))
        count = linear.rows / len(problem.channels)
        sources.append([ChannelRows(m.columns, m.values * count) for m in errors])
    search, windows = settings.bandwidth_search, problem.holding_windows()
    known = summed.own if problem.is_short(search.rows) else None
    sources.append(_sparse(search.cutoff_error(windows, linear.rows, known)))
    together = tuple(ChannelRows.below(errors) for errors in zip(*sources, strict=True))
    extra = len(summed.information.channels) - len(together)
    return (*together, *(ChannelRows.nothing(len(together[0].values)),) * extra)


def _sparse(errors: tuple[Array, ...]) -> list[ChannelRows]:
    """Return each channel's moments, shape (errors, b), without columns of zeros."""
    return [ChannelRows.held(moments) for moments in errors]


def _refuse_given(settings: Settings, given: Earlier | Information | None) -> None:
    if given is not None and not isinstance(settings.estimator, LeastSquares | Essential):
        raise InvalidSetting(
            "earlier information adds to least squares only, it has no rows to be judged",
            argument="method",
            got=settings.method,
            valid=("least-squares", "ordinary", "essential"),
            cure="leave out the rows that do not belong (--robust), or the earlier information",
        )


def _point_spread(problem: Problem[Any], rough: ConsistentEstimate) -> Array:
    """Return errors of the linearisation point, a standard deviation each, shape (p, errors)."""
    covariance = rough.parameters.covariance
    assert covariance is not None
    columns = list(problem.plant.point_columns)
    matrix = problem.plant.space.sparse_matrix[columns]
    values, vectors = np.linalg.eigh(matrix @ (matrix @ covariance).T)
    errors = np.zeros((len(problem.plant.labels), len(columns)))
    errors[columns] = vectors * np.sqrt(np.maximum(values, 0.0))
    return errors


def _data_rank(problem: Problem[Any], information: Information, weights: Array) -> DataRank:
    """Return rank and conditioning of the data without the plant's redundant columns.

    Those of friction's dictionary are nearly collinear by design: one stands for all.

    Args:
        weights: Of each channel's rows, shape (channels,) [1 / channel's unit].
    """
    labels, standard = information.labels, problem.plant.labels.names
    redundant = {standard[k] for k in problem.plant.redundant}
    kept = [k for k, name in enumerate(labels.names) if name not in redundant]
    by_name = dict(zip(information.channels, weights.tolist(), strict=True))
    triangle = information.only(kept).combined(by_name)
    return data_rank(triangle.R, labels.select(kept), triangle.rows)
