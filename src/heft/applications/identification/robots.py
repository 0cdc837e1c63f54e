"""Complete identification of a robot: from model file and logs to estimates, scores and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.certainty import strict_bounds
from heft.display import Trace
from heft.engine import one_blas_thread
from heft.errors import FitError, InvalidSetting, nearest
from heft.estimators import ConsistentFit, DriveGains
from heft.information import Check, Information, ParameterSpace, inertia
from heft.models import Robot, export
from heft.plants import Problem, RobotPlant, with_logged_gears
from heft.recordings import JOINT_KINDS, ColumnMap, Recording

from . import checks
from .alternatives import alternatives
from .earlier import Earlier
from .fit import ExperimentFit, fit_experiment
from .gains import gain_columns, gain_spread, of_rows, with_found_gains
from .identification import (
    Identification,
    drive_terms,
    link_parameters,
    with_gains,
)
from .inputs import Inputs
from .misfit import Misfit, MisfitGatherer
from .misfit_moments import MisfitMoments
from .opening import open_experiment, why_differentiated
from .predicted_error import PredictedError, predicted_error
from .preparation import Progress, silent
from .scores import Score, Scores, held_out, scores
from .selection import Selection
from .settings import Settings
from .simple_friction import SimpleFriction


def identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Earlier | Information | None = None,
    inputs: Sequence[Mapping[str, Any]] = (),
    progress: Progress = silent,
    only: Selection | None = None,
    anew: Sequence[str] = (),
) -> Identification:
    """Identify the inertial and friction parameters of a robot from logs.

    Args:
        robot: Robot model; its inertial parameters are the nominal values of the prior.
        logs: Logs of one experiment, in any order.
        validate: Held-out logs, used for scores only.
        given: Earlier experiments with the same robot, to be added; noise of information alone is
            taken for like these logs'.
        inputs: Entries of the input files, stored with the results.
        only: What of the logs is fitted; all if None.
        anew: What may have changed since the earlier experiments, which tell all else: links,
            joints, `friction` for that of all joints, or parameters.

    Returns:
        The result, with parameters, new model file, scores and checks.

    Raises:
        InputError: If a log or setting is invalid.
        FitError: If the fit explains too little of the torque (`Limits.unexplained`), or a solver
            fails.
    """
    with one_blas_thread():
        return _identify(robot, logs, validate, settings, given, inputs, progress, only, anew)


def _identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording],
    settings: Settings,
    given: Earlier | Information | None,
    inputs: Sequence[Mapping[str, Any]],
    progress: Progress,
    only: Selection | None,
    anew: Sequence[str],
) -> Identification:
    robot = with_logged_gears(with_told_friction(robot, given), logs)
    problem, settings = open_experiment(robot, logs, settings, progress, only is None)
    corner = problem.corner
    _refuse_unusable(problem, validate)
    given = _forgetting(given, anew, problem)
    run = fit_experiment(problem, settings, given, progress, only)
    # What a selection leaves out scores the fit, and stretches are too short to look at residuals.
    whole = run.problem
    if only is not None:
        whole = whole.with_settings(recordings=problem.recordings)
    found = _concluded(robot, run, whole, validate, corner, settings, given, inputs, progress)
    why = _why_differentiated(run.problem, settings, only)
    return replace(found, differentiated=why, anew=tuple(anew))


def _forgetting(
    given: Earlier | Information | None, anew: Sequence[str], problem: Problem[RobotPlant]
) -> Earlier | Information | None:
    """Return earlier results less what they tell of parameters that may have changed since.

    Raises:
        InvalidSetting: If there are none, one does not say what it is of, a name is unknown, or
            gains of drives are to be found, which would scale those of the earlier ones alike.
    """
    if not anew:
        return given
    if not isinstance(given, Earlier):
        raise InvalidSetting(
            "what is estimated anew is what earlier results are not asked about",
            argument="--anew",
            got="no results of heft identify",
            cure="heft identify arm.urdf task.csv --given FOLDER --anew elbow",
        )
    if unsure := gain_spread(problem):
        raise InvalidSetting(
            "gains of drives are not found beside earlier results of which a part is forgotten",
            argument="[joint.NAME] gain_std",
            got=", ".join(unsure),
            cure="state the gains that were found, without gain_std",
        )
    return given.forgetting(anew)


def _why_differentiated(
    problem: Problem[RobotPlant], settings: Settings, only: Selection | None
) -> str | None:
    if problem.weak is not None:
        return None
    # Windows that were to be made, and are not, were too few.
    why = why_differentiated(problem.plant, settings, only is None)
    return why or "since the logs hold too few windows"


def with_told_friction(robot: Robot, given: Earlier | Information | None = None) -> Robot:
    """Return a robot whose friction is simple if its base floats, none if no torque is used.

    The dictionary has more columns than a humanoid's log can tell: where the base floats it is
    taken of joints of which it is asked for. Wrench sensors see nothing of drives, unless torques
    of earlier logs tell them.
    """
    options = {j: robot.options.of(j) for j in robot.joints}
    if robot.options.equations == "sensors" and not _tells_drives(given):
        none = {j: replace(o, friction="none", armature=False) for j, o in options.items()}
        return robot.with_joints(none)
    if not robot.tree.free_base:
        return robot
    open_to = {j: o for j, o in options.items() if o.friction is None}
    return robot.with_joints({j: replace(o, friction="simple") for j, o in open_to.items()})


def _tells_drives(given: Earlier | Information | None) -> bool:
    if not isinstance(given, Earlier) or given.origin is None:
        return False
    told = np.any(given.origin.matrix != 0.0, axis=0)
    drives = given.origin.drives
    return any(
        seen and name.rpartition(".")[0] in drives
        for name, seen in zip(given.origin.names, told, strict=True)
    )


def _concluded(
    robot: Robot,
    run: ExperimentFit[RobotPlant],
    whole: Problem[RobotPlant],
    validate: Sequence[Recording],
    corner: float,
    settings: Settings,
    given: Earlier | Information | None,
    inputs: Sequence[Mapping[str, Any]],
    progress: Progress,
) -> Identification:
    """Return what follows from an experiment's base parameters: model file, scores and checks.

    Scores are of the whole logs, whatever a selection left of them for the fit.
    """
    problem = run.problem
    judged = Judged.of(run, whole, validate, corner, settings, progress)
    calibrated, fitted, held = judged.calibrated, judged.fitted, judged.held
    progress("bounding the feasible set")
    space = _without_signs_of_dictionary(calibrated.space, robot)
    bounds = strict_bounds(
        calibrated.triangle, space, limits=settings.consistent.limits, threads=settings.threads
    )
    return Identification(
        problem=problem,
        information=run.information,
        estimate=run.estimate,
        calibrated=calibrated,
        deviations=judged.deviations,
        moments=run.moments,
        noise_names=run.noise_names,
        settled=run.settled,
        misfits=judged.misfits,
        misfit_moments=_misfit_moments(run, judged.misfits, given),
        predicted_error=judged.predicted,
        simple=judged.simple,
        bounds=bounds,
        left_out=run.left_out,
        delay=run.delay,
        files=judged.files,
        fit=fitted.list,
        validation=held,
        checks=judged.checks,
        traces=judged.traces,
        inputs=tuple(inputs),
        settings=settings,
        notes=judged.notes,
        alternatives=()
        if settings.method == "least-squares"
        else alternatives(
            problem,
            run.estimate,
            settings.method,
            calibrated.consistent,
            held or fitted.list,
            tuple(validate) or whole.recordings,
            corner,
        ),
    )


@dataclass(frozen=True)
class Judged:
    """Outcome of an experiment's fit: consistent parameters, model file, scores and checks."""

    # calibrated, deviations: consistent parameters with gains, and `ExperimentFit.deviations`
    calibrated: ConsistentFit
    deviations: Array
    simple: SimpleFriction  # simple friction of what slides
    files: Mapping[str, bytes]  # bytes of the model file, by name
    fitted: Scores  # scores of the logs fitted
    misfits: Mapping[str, Misfit]  # what is left over of each drive's effort
    # held, notes: scores of held-out logs, and how they were scored
    held: tuple[Score, ...]
    notes: tuple[str, ...]
    predicted: PredictedError  # error on motion of another kind
    checks: tuple[Check, ...]  # results of all checks
    traces: tuple[Trace, ...]  # curves of the logs scored

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
            whole: Its problem with the whole logs, which are scored.
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
        scoring = _Scoring(_written_bodies(robot, files), friction)
        scored = with_gains(whole, calibrated.gains)
        fitted, misfits = scoring.of_fitted(scored, corner, settings.limits.unexplained)
        held, notes = scoring.of_held_out(calibrated_problem, validate, corner)
        predicted = predicted_error(
            scored if gain_columns(problem) else whole, first.consistent, misfits, fitted.list
        )
        judged = checks.judge(
            calibrated_problem,
            of_rows(run.estimate),
            fitted.list,
            held,
            predicted,
            _speeds(calibrated_problem),
            calibrated.consistent,
            min((inertia.consistency_margin(v) for v in links.values()), default=1.0),
            fitted.span,
            settings.limits,
        )
        return Judged(
            calibrated, deviations, simple, files, fitted, misfits, held, notes, predicted,
            tuple(judged), tuple(scoring.traces),
        )  # fmt: skip


def _without_signs_of_dictionary(space: ParameterSpace, robot: Robot) -> ParameterSpace:
    """Return the space in which terms of friction's dictionary may be negative.

    Each sign is an unknown of every conic problem, and those of the dictionary narrow masses little
    beside those of rotor inertia and viscous friction.
    """
    dictionary = robot.drives.names_where(lambda term: term.dictionary)
    names = space.labels.names
    kept = tuple(k for k in space.nonnegative if names[k] not in dictionary)
    return replace(space, nonnegative=kept)


def _misfit_moments(
    run: ExperimentFit[RobotPlant],
    misfits: Mapping[str, Misfit],
    given: Earlier | Information | None,
) -> MisfitMoments:
    """Return the misfit moments of these logs, with those of earlier ones as far as known."""
    earlier = given.information if isinstance(given, Earlier) else given
    rows = run.information.rows - (earlier.rows if earlier is not None else 0)
    own = MisfitMoments.of(run.problem, misfits, rows).among(len(run.information.channels))
    known = given.seen_from(run.problem)[1].misfit if isinstance(given, Earlier) else None
    return own if known is None else own + known


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


def _refuse_unusable(problem: Problem[RobotPlant], validate: Sequence[Recording]) -> None:
    """Raise `InputError` for a log to validate that cannot be used, before the work begins."""
    for recording in validate:
        _ = problem.held_out(recording).timelines


@dataclass(frozen=True)
class _Scoring:
    bodies: Array  # ten inertial parameters of each body, shape (10 bodies,)
    # the drives' parameters by name, for each kind of friction
    friction: Mapping[str, Mapping[str, float]]
    # curves of the logs scored so far, for the report
    traces: list[Trace] = field(default_factory=list)

    def of(
        self,
        problem: Problem[RobotPlant],
        corner: float,
        gatherer: MisfitGatherer | None = None,
    ) -> Scores:
        """Return the scores of a problem's recordings, low-passed at a cutoff [Hz]."""
        return scores(problem, self.bodies, self.friction, corner, self.traces, gatherer)

    def of_fitted(
        self,
        problem: Problem[RobotPlant],
        corner: float,
        largest: float,
    ) -> tuple[Scores, dict[str, Misfit]]:
        """Return the scores of the fitted recordings, and the misfits by drive.

        Raises:
            FitError: If nothing was explained.
        """
        gatherer = MisfitGatherer.of(problem.plant.robot)
        found = self.of(problem, corner, gatherer)
        if found.unexplained > largest:
            raise FitError(
                "no parameters explain these torques",
                got=f"{found.unexplained:.0%} of the torque's variation is left over on the logs "
                "fitted themselves",
                cure=f"{checks.CURE}: heft check LOG --robot MODEL looks for these",
            )
        return found, gatherer.misfits()

    def of_held_out(
        self, problem: Problem[RobotPlant], recordings: Sequence[Recording], corner: float
    ) -> tuple[tuple[Score, ...], tuple[str, ...]]:
        others = list(held_out(problem, recordings, corner))
        found = tuple(s for h in others for s in self.of(h.problem, h.filter_hz).list)
        return found, tuple(h.note for h in others if h.note)


def _written_bodies(robot: Robot, files: Mapping[str, bytes]) -> Array:
    """Return the bodies' inertial parameters as rounded in the model file, shape (10 bodies,)."""
    model = next(iter(files))
    return Robot.from_text(files[model], robot.options, model).written_bodies()


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


def _speeds(problem: Problem[RobotPlant]) -> Array:
    """Return each joint's RMS velocity, shape (joints,) [rad/s or m/s]."""
    first = len(problem.plant.robot.channels) - len(problem.plant.robot.joints)
    total, rows = np.zeros(len(problem.plant.robot.joints)), 0
    for s in problem.samples():
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        rows += len(s.time)
    return np.asarray(np.sqrt(total / max(rows, 1)))


def identify_files(
    model: Path,
    logs: Sequence[Path],
    validate: Sequence[Path] = (),
    options: Path | None = None,
    columns: Path | None = None,
    given: Path | None = None,
    settings: Settings = Settings(),
    progress: Progress = silent,
    only: Path | None = None,
    own_columns: Path | None = None,
    anew: Sequence[str] = (),
) -> Identification:
    """Identify the inertial and friction parameters of a robot from files; see `identify`.

    Args:
        model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
        logs: Logs of one experiment: CSV, Parquet or NPZ.
        validate: Held-out logs, used for scores only.
        options: TOML of settings that the model file cannot express.
        columns: TOML that maps log columns to signals.
        given: Folder of earlier results for the same robot, whose information is added.
        only: File of `heft select`: what of the logs is fitted.
        own_columns: Python file with columns of the user's own, which is run; see
            `heft.models.OwnColumns`.
        anew: What may have changed since the earlier results.

    Returns:
        The result, with parameters, new model file, scores and checks.

    Raises:
        InputError: If a file or setting is invalid, a log is given twice or for both fit and
            validation, or a file changes during the identification.
        FitError: If the fit explains too little of the torque (`Limits.unexplained`), or a solver
            fails.
    """
    opened = Inputs.open(model, options, columns, own_columns)
    _refuse_same(logs, validate)
    if opened.columns is not None and opened.robot is not None:
        _refuse_unknown_joints(opened.columns, opened.robot, f"{columns}")
    opened = opened.with_logs(fit=logs, validation=validate).holding(selection=only)
    selection = Selection.load(only) if only is not None else None
    if selection is not None and settings.average:
        raise InvalidSetting(
            "periods that are averaged have no rows to be selected",
            argument="--average",
            cure="leave out --average or --only",
        )
    if selection is not None:
        selection.of(opened.logs["fit"])  # refused before any work
    before: Earlier | Information | None = None
    if given is not None:
        opened = opened.holding(given=given / "information.npz")
        before = Earlier.load(given / "information.npz")
    assert opened.robot is not None
    fit, held = opened.logs["fit"], opened.logs["validation"]
    found = identify(opened.robot, fit, held, settings, before, (), progress, selection, anew)
    # A fit that left rows out or averaged them walked other recordings than the files'.
    fitted = found.problem
    if any(a is not b for a, b in zip(fitted.recordings, fit, strict=True)):
        fitted = fitted.with_recordings(fit)
    inputs = opened.described(
        *("model", "options", "columns", "own_columns", "given", "selection", "fit", "validation"),
        timelines={
            "fit": fitted.timelines,
            "validation": [t for r in held for t in found.problem.held_out(r).timelines],
        },
    )
    opened.refuse_changed()
    return replace(found, inputs=inputs)


def _refuse_same(logs: Sequence[Path], validate: Sequence[Path]) -> None:
    places = [p.resolve() for p in logs]
    twice = sorted({str(p) for p in logs if places.count(p.resolve()) > 1})
    if twice:
        raise InvalidSetting(
            "a log is given twice", argument="LOGS", got=", ".join(twice), cure="name it once"
        )
    same = sorted(str(p) for p in validate if p.resolve() in places)
    if same:
        raise InvalidSetting(
            "a log is given for fitting and for validation",
            argument="--validate",
            got=", ".join(same),
            cure="validate on a log that the fit does not see",
        )


def _refuse_unknown_joints(columns: ColumnMap, robot: Robot, path: str) -> None:
    for signal in columns.signals:
        for joint in signal.joints if signal.kind in JOINT_KINDS else ():
            if joint not in robot.joints:
                near = nearest(joint, robot.joints)
                raise InvalidSetting(
                    f"the map names a joint '{joint}', which the robot does not have",
                    argument=f"{path}, [{signal.kind}]",
                    valid=robot.joints,
                    cure=f"did you mean '{near}'?" if near else None,
                )
