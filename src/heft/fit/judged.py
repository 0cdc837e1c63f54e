"""One experiment from its logs to estimates, scores and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

import numpy as np

from heft.arrays import Array
from heft.certainty import DelayFound
from heft.display import Trace
from heft.engine import one_blas_thread
from heft.errors import FitError, InvalidRecording
from heft.estimators import (
    ConsistentEstimate,
    ConsistentFit,
    DriveGains,
    Estimate,
    PhysicallyConsistent,
    stated_numbers,
)
from heft.information import Check, Information, ParameterSpace, Triangle, Verdict, verdict
from heft.models import Robot, export
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording

from .checks import CHANNELS, CURE, JOINTS, Judge
from .earlier import Earlier, P
from .experiment import ExperimentFit, fit_experiment
from .friction_changes import between_logs
from .gains import (
    gain_columns,
    gain_spread,
    of_rows,
    plain_problem,
    refuse_gains_of_any_plant,
    said_of_gains,
    with_found_gains,
)
from .misfit import Misfit, MisfitGatherer, TorqueDeviation
from .predicted_error import predicted_error, predicted_error_alike
from .prepared import averaged, windows_for
from .scores import (
    BASELINES,
    Model,
    Models,
    PredictedError,
    Score,
    TorqueErrors,
    held_out_scores,
    plant_scores,
    remarks,
    scores,
)
from .settings import Progress, Settings, silent
from .simple_friction import SimpleFriction

NORMAL = 1.96  # standard deviations of 95 %


@dataclass(frozen=True)
class Number:
    """A reported parameter with its standard error."""

    name: str  # name, such as `body.com.x`
    # value, std: value and standard error [unit]
    value: float
    std: float
    unit: str  # unit of both
    seen: float  # reduction of the prior variance by the data [0 to 1]

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end of the 95 % interval [unit], value ± 1.96 standard errors."""
        return self.value - NORMAL * self.std, self.value + NORMAL * self.std


@dataclass(frozen=True, kw_only=True)
class PlantIdentification(Generic[P]):
    """Result of identifying a plant of any kind: estimates, scores, checks."""

    # fit of the experiment: cutoff, delay, outliers, base parameters β
    experiment: ExperimentFit[P]
    # physically consistent parameters π, of a robot as in the model file, and drive gains
    calibrated: ConsistentFit
    # D with DᵀD the jackknife covariance of the consistent parameters, shape (blocks, n)
    deviations: Array
    fit: tuple[Score, ...]  # prediction errors on the fitted logs
    validation: tuple[Score, ...]  # prediction errors on the held-out logs
    # of what the channels measure: of a robot on motion of another kind, else on motion alike
    predicted_error: PredictedError
    checks: tuple[Check, ...]  # results of all checks
    traces: tuple[Trace, ...]  # measured and predicted signals over time, for the report
    settings: Settings  # settings of the identification
    notes: tuple[str, ...] = ()  # remarks on the logs, beside those on the plant

    @property
    def problem(self) -> Problem[P]:
        """Plant, logs and signal settings that were fitted, after all preparation."""
        return self.experiment.problem

    @property
    def information(self) -> Information:
        """Information of all rows about the base parameters β, with what was given."""
        return self.experiment.information

    @property
    def estimate(self) -> Estimate:
        """Base parameters β with covariance and residual noise."""
        return self.experiment.estimate

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of rows removed as outliers, by log."""
        return self.experiment.left_out

    @property
    def delay(self) -> DelayFound:
        """Delay of torque behind motion [s], with its search."""
        return self.experiment.delay

    @property
    def consistent(self) -> ConsistentEstimate:
        """Physically consistent standard parameters π."""
        return self.calibrated.consistent

    @property
    def verdict(self) -> Verdict:
        """Overall verdict of the checks."""
        return verdict(self.checks)

    @property
    def numbers(self) -> tuple[Number, ...]:
        """Reported parameters: first the bodies', then all others.

        Of each body mass [kg], centre of mass [m] and inertia about it [kg·m²].
        """
        space, consistent = self.problem.space, self.consistent
        units = {"mass": "kg", "com": "m", "inertia": "kg·m²"}
        numbers: list[Number] = []
        tens = {k for first in space.groups for k in range(first, first + 10)}
        for body, first in zip(space.bodies, space.groups, strict=True):
            for name, one in stated_numbers(consistent, first).items():
                unit = units[name.partition(".")[0]]
                numbers.append(Number(f"{body}.{name}", one.value, one.std, unit, one.share))
        values, std = consistent.parameters.values, consistent.parameters.std
        for k, (name, unit) in enumerate(zip(space.labels.names, space.labels.units, strict=True)):
            if k not in tens:
                seen = float(consistent.seen[k])
                numbers.append(Number(name, float(values[k]), float(std[k]), unit, seen))
        return tuple(numbers)


def identify_plant(
    plant: P,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Earlier | Information | None = None,
    progress: Progress = silent,
) -> PlantIdentification[P]:
    """Identify the parameters of a plant of any kind from its logs.

    Use it for systems other than robots; `identify` also writes a robot's model file.

    Args:
        plant: Plant whose equations are linear in the parameters; see `heft.plants.Plant`.
        validate: Held-out logs, used for scores only.
        given: Information of earlier experiments on the same base parameters, to be added.

    Raises:
        InputError: If a log or setting is invalid, or no log is given.
        FitError: If the fit explains too little of the measurements (`Limits.unexplained`), or a
            solver fails.
    """
    if not logs:
        raise InvalidRecording("no log is given", cure="give at least one log")
    with one_blas_thread():
        weak = windows_for(plant, settings)
        problem = Problem(plant, tuple(logs), settings.smoothing, settings.threads, weak=weak)
        refuse_gains_of_any_plant(problem)
        if settings.average:
            problem = averaged(problem)
        corner = problem.corner
        run = fit_experiment(problem, settings, given, progress)
        problem = run.problem
        progress("solving for physically consistent parameters")
        first = DriveGains(settings.consistent).fit([run.estimate], problem.space, {})
        calibrated, deviations = run.widened(settings.consistent, settings.jackknife, first)
        progress("scoring")
        values = problem.plant.space.matrix @ calibrated.consistent.parameters.values
        traces, held_out = list[Trace](), list[Trace]()
        fitted = plant_scores(problem, values, corner, traces)
        if fitted.unexplained > settings.limits.unexplained:
            raise FitError(
                "no parameters explain these measurements",
                got=f"a residual of {fitted.unexplained:.3g} times their variation on the "
                "fitted logs",
                cure=CHANNELS.cure,
            )
        validation, notes = held_out_scores(
            problem, validate, corner, lambda p, hz: plant_scores(p, values, hz, held_out)
        )
        predicted = predicted_error_alike(
            run.estimate.information, first.consistent, problem.space, fitted.list
        )
        judge = Judge(
            problem,
            run.estimate,
            fitted,
            validation,
            predicted,
            calibrated.consistent,
            settings.limits,
            CHANNELS,
        )
        return PlantIdentification(
            experiment=run,
            calibrated=calibrated,
            deviations=deviations,
            fit=fitted.list,
            validation=validation,
            predicted_error=predicted,
            checks=judge.of_plant(),
            traces=(*traces, *(replace(t, fitted=False) for t in held_out)),
            settings=settings,
            notes=(*remarks(problem), *notes),
        )


@dataclass(frozen=True, kw_only=True)
class Judged(PlantIdentification[RobotPlant]):
    """Outcome of the fit of a robot's experiment, with the model file that it makes."""

    # simple friction of what slides in these logs, all other parameters fixed
    simple: SimpleFriction
    # bytes of the model file with identified numbers, by file name; for a table of
    # Denavit-Hartenberg rows also a URDF
    files: Mapping[str, bytes]
    misfits: Mapping[str, Misfit]  # what the model leaves over of each drive's effort, by drive
    # of the model file before and after, on one log, a held-out one if there is any; None if no log
    # has a stretch that is long enough for the low-pass
    torque_errors: TorqueErrors | None

    @cached_property
    def deviation(self) -> TorqueDeviation:
        """Parts of the standard deviation of predicted torques."""
        return _deviation(self.problem, self.deviations, self.misfits)

    @staticmethod
    def of(
        run: ExperimentFit[RobotPlant],
        whole: Problem[RobotPlant],
        validate: Sequence[Recording],
        corner: float,
        settings: Settings,
        progress: Progress = silent,
    ) -> Judged:
        """Return consistent parameters, model file, scores and checks of a fit.

        Args:
            corner: Cutoff of the scores [Hz].

        Raises:
            FitError: If too little of the torque is explained.
        """
        problem = run.problem
        robot = problem.plant.robot
        progress("solving for physically consistent parameters")
        spread = {} if gain_columns(problem) else gain_spread(problem)
        first = DriveGains(settings.consistent).fit([run.estimate], problem.space, spread)
        first = with_found_gains(first, problem)
        calibrated, deviations = run.widened(settings.consistent, settings.jackknife, first)
        calibrated_problem = with_gains(problem, calibrated.gains)
        simple = _simple(calibrated_problem, run, calibrated, settings, progress)
        links = link_parameters(problem, calibrated.consistent)
        friction = drive_terms(problem, calibrated.consistent, simple)
        files = export.write(
            robot, links, _simple_friction(robot, simple), _armatures(robot, friction)
        )
        progress("scoring")
        model, written = next(iter(files.items()))
        bodies = Robot.from_text(written, robot.options, model).written_bodies()
        traces, held_out = list[Trace](), list[Trace]()
        biases = {n: friction["full"][n] for n in robot.bias_names}  # of sensors, not of drives
        models = {name: Model(bodies, biases | drives) for name, drives in friction.items()}
        before = {**models, **_baselines(problem, calibrated)}
        scored = with_gains(whole, calibrated.gains)
        gatherer = MisfitGatherer.of(robot)
        # Of a floating base channels are not what joints' torques are.
        doubt = None if robot.tree.free_base else _deviation(problem, deviations, {})
        fitted = scores(scored, models if validate else before, corner, traces, gatherer, doubt)
        if fitted.unexplained > settings.limits.unexplained:
            raise FitError(
                "no parameters explain these torques",
                got=f"a residual of {fitted.unexplained:.3g} times the torque's variation on the "
                "fitted logs",
                cure=f"{CURE}; what looks for these: heft check",
            )
        misfits = gatherer.misfits()
        validation, notes = held_out_scores(
            calibrated_problem,
            validate,
            corner,
            lambda p, hz: scores(p, before, hz, held_out, doubt=doubt),
        )
        errors = TorqueErrors.of(validation or fitted.list, bool(validation))
        fitted = replace(fitted, list=_without_baselines(fitted.list))
        validation = _without_baselines(validation)
        predicted = predicted_error(
            scored if gain_columns(problem) else whole,
            first.consistent,
            misfits,
            fitted.list,
            models,
        )
        judge = Judge(
            calibrated_problem,
            of_rows(run.estimate),
            fitted,
            validation,
            predicted,
            calibrated.consistent,
            settings.limits,
            JOINTS,
        )
        beta = calibrated.space.matrix @ calibrated.consistent.parameters.values
        changes = between_logs(problem, run.blocks, run.estimate.weights(), beta)
        return Judged(
            experiment=run,
            calibrated=calibrated,
            deviations=deviations,
            fit=fitted.list,
            validation=validation,
            predicted_error=predicted,
            torque_errors=errors,
            checks=(*judge.of_robot(), *changes),
            traces=(*traces, *(replace(t, fitted=False) for t in held_out)),
            settings=settings,
            notes=(*remarks(problem), *said_of_gains(problem), *notes),
            simple=simple,
            files=files,
            misfits=misfits,
        )


def _deviation(
    problem: Problem[RobotPlant], deviations: Array, misfits: Mapping[str, Misfit]
) -> TorqueDeviation:
    matrix = plain_problem(problem).plant.space.matrix
    return TorqueDeviation(deviations[:, : matrix.shape[1]] @ matrix.T, misfits)


def _baselines(problem: Problem[RobotPlant], calibrated: ConsistentFit) -> Models:
    """Return the model file as it came, and its bodies with drives that are fitted to them.

    The drives' terms are solved for as in the fit, from the same information, which is about
    load-dependent friction linearised about the fit's bodies.
    """
    robot, space = problem.plant.robot, calibrated.space
    bodies, first = robot.written_bodies(), 10 * len(problem.space.groups)
    names = plain_problem(problem).plant.space.labels.names[first:]
    drives = range(first, first + len(names))
    fixed = calibrated.consistent.parameters.values.copy()
    fixed[:first] = np.concatenate([np.zeros(0), *(k.written for k in robot.bodies_links)])
    fixed[drives] = 0.0
    R, z = calibrated.total.rows_of_all()
    rest = Triangle.holding(R, z - R @ (space.matrix @ fixed), calibrated.total.rows)
    own = ParameterSpace(
        space.labels.select(drives),
        space.matrix[:, drives],
        np.zeros(len(names)),
        nonnegative=tuple(k - first for k in space.nonnegative if k in drives),
    )
    solved = PhysicallyConsistent().values(rest, own) if names else ()
    fitted = dict(zip(names, map(float, solved), strict=True))
    return dict(zip(BASELINES, (Model(bodies, {}), Model(bodies, fitted)), strict=True))


def _without_baselines(listed: Sequence[Score]) -> tuple[Score, ...]:
    return tuple(s for s in listed if s.friction not in BASELINES)


def _simple(
    problem: Problem[RobotPlant],
    run: ExperimentFit[RobotPlant],
    calibrated: ConsistentFit,
    settings: Settings,
    progress: Progress,
) -> SimpleFriction:
    """Return the viscous and Coulomb friction of the rows that slide.

    Of a floating base it is that of all rows, unless another friction is fitted: its contacts mix
    what slides with what does not.
    """
    robot = problem.plant.robot
    simple = set(robot.drives.labels(robot.drives.simple_columns).names)
    if robot.tree.free_base and simple <= set(problem.space.labels.names):
        return SimpleFriction.of(problem, calibrated.consistent)
    progress("fitting simple friction to sliding rows")
    return settings.sliding.fit(problem, calibrated.consistent, run.estimate.weights())


def with_gains(problem: Problem[RobotPlant], gains: Mapping[str, float]) -> Problem[RobotPlant]:
    """Return a problem whose torques are scaled by identified drive gains.

    Args:
        gains: By joint, the stated gain over the identified gain [1].
    """
    problem, robot = plain_problem(problem), problem.plant.robot
    changed = {
        j: replace(robot.options.of(j), gain=gain / gains[j])
        for j in robot.joints
        if (gain := robot.options.of(j).gain) is not None and j in gains
    }
    if not changed:
        same = problem.with_settings(plant=problem.plant.with_robot(robot))
        same.walk.sharing(problem.walk)
        return same
    options = replace(robot.options, joint={**(robot.options.joint or {}), **changed})
    return problem.with_settings(plant=problem.plant.with_robot(replace(robot, options=options)))


def link_parameters(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate
) -> dict[str, Array]:
    """Return the ten inertial parameters of each link with mass, in its own frame.

    Returns:
        By link, shape (10,): mass [kg], first moment of mass [kg·m], inertia about the frame's
        origin [kg·m²].
    """
    values = consistent.parameters.values
    return {
        link.name: values[10 * k : 10 * k + 10]
        for k, link in enumerate(problem.plant.robot.bodies_links)
    }


def drive_terms(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate, simple: SimpleFriction
) -> dict[str, dict[str, float]]:
    """Return the drives' parameters by name, with full and with simple friction, and own ones.

    Returns:
        Under `full` and `simple`, values by name, such as `elbow.viscous`. Both hold the rotor
        inertias and the parameters of the user's own columns.
    """
    first = 10 * len(problem.space.groups)
    names, values = plain_problem(problem).plant.space.labels.names, consistent.parameters.values
    drives = dict(zip(names[first:], values[first:].tolist(), strict=False))
    robot = problem.plant.robot
    kept = {*robot.drives.names_where(lambda t: t.inertial), *robot.own_names}
    rotors = {k: v for k, v in drives.items() if k in kept}
    return {"full": drives, "simple": {**rotors, **simple.values}}


def _simple_friction(robot: Robot, simple: SimpleFriction) -> dict[str, tuple[float, float]]:
    """Return damping [N·m·s/rad] and friction [N·m] of each joint that has them."""
    return {
        joint: (simple.values[f"{joint}.viscous"], simple.values[f"{joint}.coulomb"])
        for joint in robot.joints
        if f"{joint}.viscous" in simple.values
    }


def _armatures(robot: Robot, friction: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the rotor inertia [kg·m²] of each joint that has one."""
    full = friction["full"]
    return {j: full[f"{j}.armature"] for j in robot.joints if f"{j}.armature" in full}
