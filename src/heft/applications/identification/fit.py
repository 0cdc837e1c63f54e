"""Fit of one experiment: cutoff, delay, load-dependent friction, outliers, least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np

from heft.arrays import Array
from heft.dynamics import kernels
from heft.errors import InvalidRecording, InvalidSetting
from heft.estimators import (
    ESTIMATORS,
    Block,
    ConsistentEstimate,
    ConsistentFit,
    DelayFound,
    Essential,
    Estimate,
    Estimator,
    Jackknife,
    KnownMass,
    LeastSquares,
    Limits,
    MirrorImages,
    PhysicallyConsistent,
    block_moments,
    robust,
    unknown_controller,
)
from heft.experiments import ClosedLoop, DrivenRobot
from heft.files import planes, solid_box
from heft.information import DataRank, Information, Triangle, data_rank
from heft.models import Options, Robot, joint_lines
from heft.plants import Plant, Problem, RobotPlant, effort_signals, plant_of, point_moments
from heft.recordings import Recording

from .earlier import Earlier
from .preparation import (
    Progress,
    averaged,
    only_selected,
    sharpened_and_delayed,
    silent,
    weighed,
    without_outliers,
)
from .selection import Selection
from .settings import Settings

P = TypeVar("P", bound="Plant[Any]")


@dataclass(frozen=True)
class ExperimentFit(Generic[P]):
    """Base parameters of one experiment, from its data alone, without prior or constraints.

    Attributes:
        problem: Plant and logs at the chosen cutoff and delay, with load-dependent gear friction.
        information: About the base parameters β, with what was given.
        estimate: Base parameters β; the covariance accounts for coloured residuals, and for errors
            of delay, cutoff and linearisation point.
        left_out: Number of rows removed as outliers, by log.
        delay: Result of the delay search [s].
        blocks: Information about β of contiguous blocks of the logs; none if the estimator weighs
            rows one by one.
        moments: For each channel the moments `Yᵀ(τ − Y β)` of all blocks, also those of earlier
            experiments, shape (blocks, b).
        noise_names: Name of each channel's standard deviation.
        settled: Of each channel whether that deviation eliminated unknowns of each sample.
    """

    problem: Problem[P]
    information: Information
    estimate: Estimate
    left_out: Mapping[str, int]
    delay: DelayFound
    blocks: tuple[Information, ...] = ()
    moments: tuple[Array, ...] = ()
    noise_names: tuple[str, ...] = ()
    settled: tuple[bool, ...] = ()

    def widened(
        self, solver: PhysicallyConsistent, jackknife: Jackknife, found: ConsistentFit
    ) -> tuple[ConsistentFit, Array]:
        """Return the consistent fit with its deviations judged by the data, and `deviations`.

        Use it in place of the fit wherever intervals are stated.

        Args:
            solver: Physically consistent fit.
            jackknife: Settings.
            found: Result of that fit for this experiment.

        Returns:
            The fit, its covariance widened, and the deviations D of x, shape (any, n).
        """
        deviations = self.deviations(solver, jackknife, found)
        return found.widened(deviations, self._shift(found)), deviations

    def _shift(self, found: ConsistentFit) -> Array:
        """Return x less what the data alone state, of numbers that are base parameters, (n,).

        The dictionary of friction has no numbers of its own, only their sum has; 0 for these.
        """
        plant, base = self.problem.plant, self.problem.base
        matrix, labels = found.space.matrix, self.problem.labels
        apart = {plant.labels.names[k] for k in plant.independent}
        shift = np.zeros(matrix.shape[1])
        alone = (matrix != 0.0).sum(axis=0) == 1
        for b, row in enumerate(matrix[: len(base.kept)]):
            (places,) = np.nonzero(row)
            own = self.estimate.parameters.values[b] if len(places) == 1 else np.nan
            if len(places) == 1 and alone[places[0]] and labels.names[b] not in apart:
                channel = labels.names[b].rpartition(".")[0]
                own /= row[places[0]] * found.gains.get(channel, 1.0)
                shift[places[0]] = found.consistent.parameters.values[places[0]] - own
        return np.where(np.isfinite(shift), shift, 0.0)

    def deviations(
        self, solver: PhysicallyConsistent, jackknife: Jackknife, found: ConsistentFit
    ) -> Array:
        """Return deviations of the consistent parameters x by the jackknife, shape (any, n).

        Args:
            solver: Physically consistent fit.
            jackknife: Settings.
            found: Result of that fit for this experiment.
        """
        point = found.space.matrix @ found.consistent.parameters.values
        weights = list(self.estimate.weights().values())
        earlier = [m[len(self.blocks) :] for m in self.moments]
        blocks = Block.of(self.blocks, weights, point, found.maps[0], earlier)
        return jackknife.of_consistent(solver, found, blocks)


def open_experiment(
    robot: Robot, logs: Sequence[Recording], settings: Settings, progress: Progress = silent
) -> tuple[Problem[RobotPlant], Settings]:
    """Return robot and logs as a problem, with the settings completed from the options file.

    Args:
        robot: Robot model.
        logs: Logs of one experiment.
        settings: Settings; the limits of masses and centres of mass that the robot's options state
            are added to them, and the solver that the method calls for.
        progress: Callback for progress messages.

    Returns:
        The problem before any search, averaged if asked for, and the completed settings.

    Raises:
        InvalidRecording: If no log is given, or a torque signal is constant in all logs.
        MissingSignal: If the method simulates, and a log lacks the controller's references.
        InvalidSetting: If no joint's torque is measured, the method simulates and the options state
            no controller, they limit an unknown link, gains are to be found beside contacts, or
            outliers in rows that are filtered or of the weak form.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="name at least one log after the model file")
    if not len(robot.measured) and not robot.options.sensor:
        raise InvalidSetting(
            "no joint is left whose torque is measured",
            argument="[joint.NAME] measured, position",
            cure="leave one joint measured, and not held still",
        )
    if ESTIMATORS[settings.method].simulates:
        _refuse_unknown_controller(robot, logs, settings.method)
    if ESTIMATORS[settings.method].driven:
        DrivenRobot(robot)  # which refuses what it cannot move, before anything is read
    if (solver := ESTIMATORS[settings.method].solver) != "conic":
        settings = replace(settings, consistent=replace(settings.consistent, solver=solver))
    if robot.options.limits:
        limits = limits_of(robot.options)
        limits.require_known(tuple(k.name for k in robot.bodies_links))
        settings = replace(settings, consistent=replace(settings.consistent, limits=limits))
    if known := _known_of(robot.options):
        settings = replace(settings, consistent=replace(settings.consistent, known=known))
        for each in known:
            _ = each.rows(plant_of(robot).space)  # links that are not there are refused now
    _refuse_unknown_gains(robot)
    if settings.robust != "none" and (settings.weak or settings.smoothing.torque == "filtered"):
        robust.refuse_made_rows()
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    problem = Problem(
        plant_of(robot, logs[0]),
        tuple(logs),
        settings.smoothing,
        settings.threads,
        weak=settings.weak,
    )
    _refuse_dead(problem)
    if settings.average:
        problem = averaged(problem)
    return problem, settings


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
        problem: Plant and logs.
        settings: Settings.
        given: Earlier experiments on the same columns, to be added; None for none. Noise of
            information alone is taken for like this experiment's.
        progress: Callback for progress messages.
        only: What of the logs is fitted, at the cutoff and delay of all; all if None.

    Returns:
        The fit of the experiment.

    Raises:
        InvalidSetting: If the selection is of other logs, or earlier information is given to an
            estimator other than least squares.
    """
    _refuse_given(settings, given)
    if not kernels.is_compiled():
        progress("compiling the kernels for this machine, once: about 20 s")
    problem, delay = sharpened_and_delayed(
        problem, settings.smoothing, settings.bandwidth_search, settings.delay_search, progress
    )
    problem = only_selected(problem, only, progress)
    problem = weighed(problem, settings, progress)
    if isinstance(given, Earlier):
        problem, given = given.seen_from(problem)
    progress(f"smoothing at {problem.corner:.3g} Hz, summing up rows")
    information = problem.information()
    rows = information.rows
    if len(problem.plant.point_columns):
        first = settings.consistent.values(
            _first_triangle(problem, information, settings), problem.space
        )
        problem = problem.about(first)
        information = problem.information()
    shared: list[tuple[Array, ...]] = []  # for each channel, of errors that are no noise
    if settings.smoothing.delay is None:
        search = settings.delay_search
        seen = information if problem.is_short(search.rows) else None
        delay, late = search.delay_error(problem, delay, rows, seen)
        shared.append(late)
    # The first fit ignored load-dependent gear friction, so that its bodies are biased, and with
    # them the torque that this friction takes: once more, with it.
    rough = None
    if len(problem.plant.point_columns):
        triangle = _first_triangle(problem, information, settings)
        rough = settings.consistent.fit(triangle, problem.space)
        problem = problem.about(rough.parameters.values)
    problem, left_out = without_outliers(problem, settings.robust, progress)
    progress("summing up rows with load-dependent gear friction")
    chosen = _simulating(settings, problem)
    solver = chosen.least_squares if isinstance(chosen, Essential) else chosen
    linear = isinstance(solver, LeastSquares)
    samples = rows // len(problem.channels) - sum(left_out.values())
    parts = problem.information_blocks(settings.jackknife.blocks, samples)
    own = information = reduce(add, parts)
    names, known = _noise(problem)
    if given is not None:  # the logs' own noise weights the sum
        before = given.information if isinstance(given, Earlier) else given
        if isinstance(given, Earlier) and given.origin is not None:
            parts = tuple(part.among(before.channels) for part in parts)
            information = information.among(before.channels)
        information = information + before
    if isinstance(given, Earlier):
        beside, held = given.noise_of(problem.channels)
        names, known = (*(names or problem.channels), *beside), {**known, **held}
    blocks = parts if linear else ()
    if isinstance(solver, LeastSquares):
        estimate = solver.solve(information, names, known)
    else:
        progress(f"estimating base parameters ({settings.method})")
        estimate = solver.fit(problem)
    estimate = replace(estimate, rank=_data_rank(problem, information, estimate))
    moments: tuple[Array, ...] = ()
    if not isinstance(solver, LeastSquares) or solver.coloured:
        progress("analysing the residuals")
        shared += _other_errors(problem, settings, estimate, rough, rows, own)
        together = tuple(np.vstack(errors) for errors in zip(*shared, strict=True))
        together = _padded(together, len(information.channels))
        if isinstance(solver, LeastSquares):
            earlier = _earlier(given, estimate)
            widened = solver.colour(problem, estimate, together, earlier.noise if earlier else None)
            moments = _all_moments(blocks, estimate, earlier)
            others = [m[len(blocks) :] for m in moments]
            weights = estimate.fit_weights
            left_without = Block.of(blocks, weights, estimate.fitted, None, others)
            widened = widened.at_least(settings.jackknife.of_base(widened, left_without))
        else:  # which has looked at its residuals itself
            widened = estimate.with_common_errors(together)
        estimate = replace(widened, rank=estimate.rank)
    if isinstance(chosen, Essential):
        progress("dropping base parameters that are not essential")
        in_band = problem.residual_energy(estimate.fitted)
        # Earlier channels without rows here have no motion's band: all that they leave over counts.
        rest = information.triangles[len(in_band) :]
        energy = [t.residual_energy(estimate.fitted) for t in rest]
        estimate = chosen.reduced(estimate, np.append(in_band, energy))
    names = names or information.channels
    settled = tuple(name in known for name in names)
    return ExperimentFit(
        problem, information, estimate, left_out, delay, blocks, moments, names, settled
    )


def _padded(errors: tuple[Array, ...], channels: int) -> tuple[Array, ...]:
    """Return moments of errors by channel, none of channels that have no rows in these logs."""
    if not errors:
        return errors
    return (*errors, *(np.zeros_like(errors[0]) for _ in range(channels - len(errors))))


def _noise(problem: Problem[Any]) -> tuple[tuple[str, ...], Mapping[str, float]]:
    """Return which channels share a deviation, and those that are known by channel."""
    known = problem.known_noise
    return () if known else problem.noise_names, known


def _refuse_unknown_controller(robot: Robot, logs: Sequence[Recording], method: str) -> None:
    """Refuse an estimator that simulates where the controller or its references are not known."""
    loop = ClosedLoop.of(robot)
    if loop is None:
        raise unknown_controller(method)
    for recording in logs:
        loop.require_references(recording)


def _simulating(settings: Settings, problem: Problem[Any]) -> Estimator:
    """Return the estimator that was asked for, with a simulation if it needs one."""
    chosen, method = settings.estimator, ESTIMATORS[settings.method]
    if not isinstance(problem.plant, RobotPlant):
        return chosen
    if method.driven:
        return replace(chosen, simulate=DrivenRobot(problem.plant.robot))  # type: ignore[type-var]
    if not method.simulates:
        return chosen
    return replace(chosen, simulate=ClosedLoop.of(problem.plant.robot))  # type: ignore[type-var]


def _all_moments(
    blocks: tuple[Information, ...], estimate: Estimate, earlier: Earlier | None
) -> tuple[Array, ...]:
    """Return the blocks' moments Yᵀ(τ − Y β) of each channel, those of earlier experiments last."""
    moments = block_moments(blocks, estimate.fitted)
    if earlier is None:
        return moments
    return tuple(np.vstack(pair) for pair in zip(moments, earlier.moments, strict=True))


def _earlier(given: Earlier | Information | None, estimate: Estimate) -> Earlier | None:
    """Return earlier experiments with their noise, as far as it is known."""
    if isinstance(given, Information):
        return Earlier.like(given, estimate.noise)
    return given


def _other_errors(
    problem: Problem[Any],
    settings: Settings,
    estimate: Estimate,
    rough: ConsistentEstimate | None,
    rows: int,
    information: Information,
) -> list[tuple[Array, ...]]:
    """Return for each channel moments of errors that are no noise: of the point and the cutoff.

    Args:
        problem: Problem that was fitted.
        settings: Settings.
        estimate: Its base parameters.
        rough: Fit about which its rows are taken; None for none.
        rows: Number of rows of all its channels.
        information: Of the problem's own rows.
    """
    found: list[tuple[Array, ...]] = []
    if rough is not None:
        errors = point_moments(problem, estimate.fitted, _point_spread(problem, rough))
        count = rows / len(problem.channels)
        found.append(tuple(m * count for m in errors))
    search, held = settings.bandwidth_search, problem.holding_windows()
    known = information if problem.weak is None and problem.is_short(search.rows) else None
    found.append(search.cutoff_error(held, rows, known))
    return found


def _refuse_given(settings: Settings, given: Earlier | Information | None) -> None:
    if given is not None and not isinstance(settings.estimator, LeastSquares | Essential):
        raise InvalidSetting(
            "earlier information adds to least squares only, it has no rows to be judged",
            argument="method",
            got=settings.method,
            valid=("least-squares", "ordinary", "essential"),
            cure="leave out the rows that do not belong (--robust), or the earlier information",
        )


def _refuse_unknown_gains(robot: Robot) -> None:
    """Raise `InvalidSetting` if gains are to be found where contacts mix what joints measure."""
    options = robot.options
    unsure = [j for j in robot.joints if options.of(j).gain_std]
    if options.contact and unsure:
        raise InvalidSetting(
            "gains of drives are not found where contacts' wrenches are eliminated: a row without "
            "them is of all channels, and a gain scales a part of it",
            argument="[joint.NAME] gain_std",
            got=", ".join(unsure),
            cure="leave gain_std out, or find the gains with the base held",
        )


def limits_of(options: Options) -> Limits:
    """Return the limits on masses [kg] and where they are [m] that the options file states.

    Raises:
        InvalidSetting: If an ellipsoid or a hull is to be that of shapes, which are not looked up
            here; see `models.with_shapes`.
    """
    entries = (options.limits or {}).items()
    extents = {n: entry.ellipsoid for n, entry in entries if entry.ellipsoid is not None}
    hulls = {n: entry.hull for n, entry in entries if entry.hull is not None}
    return Limits(
        {name: entry.mass for name, entry in entries if entry.mass is not None},
        {name: entry.com for name, entry in entries if entry.com is not None},
        {name: solid_box(e, f"[limits.{name}], ellipsoid") for name, e in extents.items()},
        {name: planes(h, f"[limits.{name}], hull") for name, h in hulls.items()},
    )


def _known_of(options: Options) -> tuple[KnownMass | MirrorImages, ...]:
    """Return what the options file states of masses and of mirror images."""
    masses = (KnownMass(k.links, k.mass, k.std) for k in options.known)
    images = (MirrorImages(m.left, m.right, m.axis, m.strength) for m in options.mirror)
    return (*masses, *images)


def _refuse_dead(problem: Problem[RobotPlant]) -> None:
    """Raise `InvalidRecording` for a torque that never changes in any of the logs."""
    channels = problem.plant.robot.channels
    dead = {
        signal: channels[channel]
        for signal, channel, _ in effort_signals(problem.plant.robot, problem.recordings[0])
        if all(signal in t.constant for t in problem.timelines)
    }
    if dead:
        names = ", ".join(f"'{signal}'" for signal in dead)
        many = "signals {} never change: their sensors are dead, or they were"
        one = "signal {} never changes: its sensor is dead, or it was"
        raise InvalidRecording(
            f"the log's {(one if len(dead) == 1 else many).format(names)} not recorded",
            argument=problem.recordings[0].name,
            cure="what is not measured, say in the file of --with:\n"
            + joint_lines(dead.values(), "measured = false"),
        )


def _point_spread(problem: Problem[Any], rough: ConsistentEstimate) -> Array:
    """Return one-standard-deviation errors of the linearisation point, shape (p, errors)."""
    covariance = rough.parameters.covariance
    assert covariance is not None
    columns = list(problem.plant.point_columns)
    matrix = problem.plant.space.matrix[columns]
    values, vectors = np.linalg.eigh(matrix @ covariance @ matrix.T)
    errors = np.zeros((len(problem.plant.labels), len(columns)))
    errors[columns] = vectors * np.sqrt(np.maximum(values, 0.0))
    return errors


def _first_triangle(problem: Problem[P], information: Information, settings: Settings) -> Triangle:
    """Return the weighted sum of the channels, for a fit about which rows are then taken."""
    sigma = settings.least_squares.spread(information, *_noise(problem))
    return information.combined(dict(zip(information.channels, 1.0 / sigma, strict=True)))


def _data_rank(problem: Problem[Any], information: Information, estimate: Estimate) -> DataRank:
    """Return rank and conditioning of the data without the plant's redundant columns.

    Those of friction's dictionary are nearly collinear by design: one stands for all.
    """
    labels, standard = information.labels, problem.plant.labels.names
    apart = {standard[k] for k in problem.plant.redundant}
    kept = [k for k, name in enumerate(labels.names) if name not in apart]
    triangle = information.only(kept).combined(estimate.weights(worth=False))
    return data_rank(triangle.R, labels.select(kept), triangle.rows)


def gain_spread(problem: Problem[RobotPlant]) -> dict[str, float]:
    """Return the relative standard deviation of each drive gain whose uncertainty is stated [1]."""
    robot = problem.plant.robot
    spread = {}
    for signal, channel, gain in effort_signals(robot, problem.recordings[0]):
        if signal.startswith("current."):
            stated = robot.options.of(robot.channels[channel]).gain_std
            if stated is not None:
                spread[robot.channels[channel]] = stated / abs(gain)
    return spread
