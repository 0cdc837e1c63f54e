"""The whole way walked once: a model file and logs in, what was found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from heft.arrays import Array
from heft.display import Trace
from heft.dynamics import drive_columns
from heft.errors import FitError, InvalidRecording, InvalidSetting, nearest
from heft.estimators import Calibrated, DriveGains, Estimate, fit_held, strict_bounds
from heft.files import stamp
from heft.information import Information, Triangle, inertia
from heft.models import Options, Robot, export
from heft.plants import Problem, RobotPlant
from heft.recordings import JOINT_KINDS, ColumnMap, Recording, file_hash, log_hash
from heft.signals import Timeline

from . import checks
from .fit import fit_experiment, gain_spread, open_experiment
from .identification import SIMPLE_TERMS, Identification, SimpleFriction
from .preparation import Progress, silent
from .scores import Score, scores
from .settings import Settings


def identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Information | None = None,
    inputs: Sequence[Mapping[str, Any]] = (),
    progress: Progress = silent,
) -> Identification:
    """Identify a robot from logs.

    Args:
        robot: The model, a guess.
        logs: One experiment's logs, in any order.
        validate: Logs that the fit must not see.
        settings: How.
        given: Earlier information about the same robot, to be added.
        inputs: Files to be named in the results.
        progress: Told what is being done.

    Raises:
        InputError: If a log or setting cannot be used.
        FitError: If no answer could stand.
    """
    # The matrices are small: threads of the linear algebra would only wait for one another, and
    # on a busy machine for long; and sums must not depend on how many there are.
    with threadpool_limits(1, user_api="blas"):
        return _identify(robot, logs, validate, settings, given, inputs, progress)


def _identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording],
    settings: Settings,
    given: Information | None,
    inputs: Sequence[Mapping[str, Any]],
    progress: Progress,
) -> Identification:
    problem, settings = open_experiment(robot, logs, settings, progress)
    corner = problem.corner
    held_out = problem.with_recordings(validate) if validate else None
    if held_out is not None:
        _ = held_out.resolved, held_out.timelines  # refuse a bad log before the work begins
    run = fit_experiment(problem, settings, given, progress)
    problem, gathered, estimate = run.problem, run.gathered, run.estimate
    progress("solving for physically consistent parameters")
    calibrated = DriveGains(settings.consistent).fit(
        [estimate], problem.space, gain_spread(problem)
    )
    simple = _simple(problem, gathered, estimate, calibrated)
    progress("looking what else would fit")
    bounds = strict_bounds(calibrated.triangle, calibrated.space, limits=settings.consistent.limits)
    found = Identification(
        problem,
        gathered,
        estimate,
        calibrated,
        simple,
        bounds,
        run.left_out,
        run.delay,
        {},
        (),
        (),
        (),
        (),
        tuple(inputs),
        settings,
    )
    files = export.write(robot, found.links, _simple_friction(found), _armatures(found))
    # What is scored is what the file says, rounded as it is.
    model = next(iter(files))
    bodies = Robot.from_text(files[model], robot.options, model).written_bodies()
    problem = found.calibrated_problem
    progress("scoring")
    traces: list[Trace] = []
    scored = scores(problem, bodies, found.friction, corner, traces)
    left = scored.unexplained
    if left > checks.EXPLAINS_NOTHING:
        raise FitError(
            "no parameters explain these torques",
            got=f"{left:.0%} of the torque's variation is left over on the logs fitted themselves",
            cure=f"{checks.CURE}: heft check LOG --robot MODEL looks for these",
        )
    fit = scored.list
    held: tuple[Score, ...] = ()
    if held_out is not None:
        again = problem.with_recordings(validate)
        held = scores(again, bodies, found.friction, corner, traces).list
    margin = min((inertia.consistency_margin(v) for v in found.links.values()), default=1.0)
    judged = checks.judge(
        problem, estimate, fit, held, _speeds(problem), found.consistent, margin, scored.span
    )
    return replace(
        found,
        files=files,
        fit=fit,
        validation=held,
        checks=tuple(judged),
        traces=tuple(traces),
    )


def _simple(
    problem: Problem[RobotPlant], gathered: Information, estimate: Estimate, calibrated: Calibrated
) -> SimpleFriction:
    """Return viscous, Coulomb friction and offset, with the bodies and rotors held."""
    robot, believed = problem.plant.robot, problem.space
    stand_ins = robot.simpler_columns
    first = 10 * len(believed.groups)
    columns = (*robot.drive_columns, *stand_ins)
    matrix = scipy.linalg.block_diag(believed.matrix, np.eye(len(stand_ins)))
    free = [first + k for k, (_, t) in enumerate(columns) if t.kind in SIMPLE_TERMS]
    size = len(believed.labels)
    held = np.zeros(matrix.shape[1])
    held[:size] = calibrated.consistent.parameters.values[:size]
    held[[first + k for k, (_, t) in enumerate(columns) if t.kind != "armature"]] = 0.0
    covariance = np.zeros((len(held), len(held)))
    covariance[:size, :size] = calibrated.consistent.noise[:size, :size]
    weights = {c: w * calibrated.gains[c] for c, w in estimate.weights().items()}
    scaled = Information(
        gathered.labels,
        gathered.channels,
        tuple(
            Triangle(t.columns, t.factor * np.append(np.ones(len(t.columns)), 1.0 / g), t.rows)
            for t, g in zip(gathered.triangles, calibrated.gains.values(), strict=True)
        ),
    )
    positive = [drive_columns.is_nonnegative(columns[k - first][1]) for k in free]
    answer = fit_held(scaled, weights, matrix, held, covariance, free, positive)
    names = [robot.drive_labels(columns).names[k - first] for k in free]
    return SimpleFriction(
        dict(zip(names, answer.values.tolist(), strict=True)),
        dict(zip(names, answer.std.tolist(), strict=True)),
    )


def _simple_friction(found: Identification) -> dict[str, tuple[float, float]]:
    simple = found.simple.values
    return {
        joint: (simple[f"{joint}.viscous"], simple[f"{joint}.coulomb"])
        for joint in found.problem.plant.robot.joints
        if f"{joint}.viscous" in simple
    }


def _armatures(found: Identification) -> dict[str, float]:
    full = found.friction["full"]
    joints = found.problem.plant.robot.joints
    return {j: full[f"{j}.armature"] for j in joints if f"{j}.armature" in full}


def _speeds(problem: Problem[RobotPlant]) -> Array:
    """Return each joint's rms velocity, shape (joints,)."""
    first = len(problem.plant.robot.channels) - len(problem.plant.robot.joints)
    total, rows = np.zeros(len(problem.plant.robot.joints)), 0
    for s in problem.samples():
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        rows += len(s.time)
    return np.asarray(np.sqrt(total / max(rows, 1)))


def describe(path: Path, role: str, timeline: Timeline | None = None) -> dict[str, Any]:
    """Return the entry of an input file in the results."""
    is_log = role in ("fit", "validation")
    digest = log_hash(path) if is_log else file_hash(path)
    entry: dict[str, Any] = {"path": str(path), "role": role, "sha256": digest}
    if timeline is not None:
        entry |= {
            "samples": timeline.rows,
            "used": timeline.used,
            "duration_s": timeline.duration,
            "step_s": timeline.step,
            "gaps": timeline.gaps,
        }
    return entry


def identify_files(
    model: Path,
    logs: Sequence[Path],
    validate: Sequence[Path] = (),
    options: Path | None = None,
    columns: Path | None = None,
    given: Path | None = None,
    settings: Settings = Settings(),
    progress: Progress = silent,
) -> Identification:
    """Identify a robot from files; see `identify`.

    Args:
        model: URDF, MJCF, or TOML of Denavit-Hartenberg rows.
        logs: CSV, Parquet or NPZ.
        validate: Logs that the fit must not see.
        options: TOML that says what the model file cannot.
        columns: TOML that says what the logs' columns mean.
        given: Folder of earlier results about the same robot.
        settings: How.
        progress: Told what is being done.
    """
    read = [p for p in (model, options, columns, *logs, *validate) if p is not None]
    stamps = [stamp(p) for p in read]
    robot = Robot.from_file(model, Options.from_toml(options) if options else None)
    mapping = ColumnMap.from_toml(columns) if columns else None
    twice = sorted({str(p) for p in logs if [k.resolve() for k in logs].count(p.resolve()) > 1})
    if twice:
        raise InvalidSetting(
            "a log is given twice", argument="LOGS", got=", ".join(twice), cure="name it once"
        )
    same = sorted(str(p) for p in validate if p.resolve() in {k.resolve() for k in logs})
    if same:
        raise InvalidSetting(
            "a log is given for fitting and for validation",
            argument="--validate",
            got=", ".join(same),
            cure="validate on a log that the fit does not see",
        )
    for signal in mapping.signals if mapping else ():
        for joint in signal.joints if signal.kind in JOINT_KINDS else ():
            if joint not in robot.joints:
                near = nearest(joint, robot.joints)
                raise InvalidSetting(
                    f"the map names a joint '{joint}', which the robot does not have",
                    argument=f"{columns}, [{signal.kind}]",
                    valid=robot.joints,
                    cure=f"did you mean '{near}'?" if near else None,
                )
    fit = [Recording.open(p, mapping, robot.joints) for p in logs]
    held = [Recording.open(p, mapping, robot.joints) for p in validate]
    before = Information.load(given / "information.npz") if given else None
    found = identify(robot, fit, held, settings, before, (), progress)
    # A fit that left rows out or averaged them walked other recordings than the files'.
    first, second = found.problem, found.problem.with_recordings(held)
    if any(a is not b for a, b in zip(first.recordings, fit, strict=True)):
        first = first.with_recordings(fit)
    inputs = [
        describe(model, "model"),
        *(describe(p, "options") for p in [options] if p),
        *(describe(p, "columns") for p in [columns] if p),
        *(describe(p / "information.npz", "given") for p in [given] if p),
        *(describe(p, "fit", t) for p, t in zip(logs, first.timelines, strict=True)),
        *(describe(p, "validation", t) for p, t in zip(validate, second.timelines, strict=True)),
    ]
    for path, first_stamp in zip(read, stamps, strict=True):
        if stamp(path) != first_stamp:
            raise InvalidRecording(
                "a file was changed while it was read",
                argument=str(path),
                cure="wait until nothing writes to it, and start again",
            )
    return replace(found, inputs=tuple(inputs))
