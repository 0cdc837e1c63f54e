"""The whole way walked once: a model file and logs in, what was found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from . import checks, export, friction, inertia, kernel, robust
from .bounds import StrictBounds, strict_bounds
from .checks import Check, Score, Verdict
from .columns import JOINT_KINDS
from .cone import Limits
from .consistency import ConsistentEstimate, PhysicallyConsistent
from .curves import Trace
from .errors import FitError, InvalidRecording, InvalidSetting, nearest, shown
from .estimators import Delay, DelayFound, Estimate, LeastSquares, Sharpness
from .files import stamp
from .gains import Calibrated, DriveGains
from .identifiability import DataRank, data_rank
from .inertia import Array
from .information import Information, Triangle
from .options import Options
from .plants import Problem
from .preparation import (
    ROBUST,
    Progress,
    Robust,
    averaged,
    sharpened_and_delayed,
    silent,
    without_outliers,
)
from .recording import ColumnMap, Recording, log_hash
from .robot import Robot
from .signals import Smoothing, Timeline
from .simple import fit_held
from .tables import file_hash
from .weak import Weak

MOST_THREADS = 1024
SIMPLE_TERMS = ("viscous", "coulomb", "offset")


@dataclass(frozen=True)
class Settings:
    """How a robot is identified. The defaults are meant to be right.

    Attributes:
        smoothing: How motion is made smooth.
        delay: How a delay of torque behind motion is looked for, if the smoothing states none.
        sharpness: How much sharper motion may be than its band, if no corner is stated.
        least_squares: The base parameters, and the weights of the channels.
        consistent: What goes into the model file.
        weak: Windows of the weak form; rows are differentiated if not given.
        robust: What finds rows that are no part of the experiment (pushes, collisions, spikes),
            which are then left out; `none` takes all.
        average: Whether logs of motion that repeats are averaged over its periods first.
        threads: How many threads share the work; the result does not depend on it.
    """

    smoothing: Smoothing = Smoothing()
    delay: Delay = Delay()
    sharpness: Sharpness = Sharpness()
    least_squares: LeastSquares = LeastSquares()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    weak: Weak | None = None
    robust: Robust = "none"
    average: bool = False
    threads: int = 2

    def __post_init__(self) -> None:
        if self.robust not in ("none", *ROBUST):
            raise InvalidSetting(
                "there is no such way of finding rows that do not belong",
                argument="robust",
                got=shown(self.robust),
                valid=("none", *ROBUST),
            )
        if type(self.threads) is not int or not 1 <= self.threads <= MOST_THREADS:
            raise InvalidSetting(
                "threads are not a whole number",
                argument="threads",
                got=shown(self.threads),
                expected=f"1 to {MOST_THREADS}",
            )


@dataclass(frozen=True)
class SimpleFriction:
    """Viscous and Coulomb friction and offset, an alternative to friction's dictionary.

    Attributes:
        values: By name, such as `elbow.coulomb`.
        std: Their standard deviations.
    """

    values: Mapping[str, float]
    std: Mapping[str, float]


@dataclass(frozen=True)
class Identification:
    """What was found.

    Attributes:
        problem: What was fitted.
        gathered: What all rows say, of the simpler stand-ins for friction's dictionary too.
        estimate: The base parameters.
        calibrated: What goes into the model file, and the drives' gains.
        simple: Simple friction, the rest held.
        bounds: Between what the masses and centres of mass of all robots that fit lie.
        left_out: Rows that the robust fit left out, by log.
        delay: How far torque comes behind motion.
        files: The model file with new numbers, by name; for a table of Denavit-Hartenberg rows
            a URDF, too.
        fit: Scores on the logs fitted.
        validation: Scores on logs not fitted.
        checks: What was looked at.
        traces: Curves for the report.
        inputs: The files, with hashes.
        settings: How it was done.
    """

    problem: Problem
    gathered: Information
    estimate: Estimate
    calibrated: Calibrated
    simple: SimpleFriction
    bounds: StrictBounds
    left_out: Mapping[str, int]
    delay: DelayFound
    files: Mapping[str, bytes]
    fit: tuple[Score, ...]
    validation: tuple[Score, ...]
    checks: tuple[Check, ...]
    traces: tuple[Trace, ...]
    inputs: tuple[Mapping[str, Any], ...]
    settings: Settings = field(default_factory=Settings)

    @property
    def consistent(self) -> ConsistentEstimate:
        """What goes into the model file."""
        return self.calibrated.consistent

    @property
    def verdict(self) -> Verdict:
        """What the checks add up to."""
        return checks.verdict(self.checks)

    @property
    def fastest(self) -> dict[str, tuple[float, float]]:
        """Largest velocity backwards and forwards of each joint that rubs, on the logs fitted."""
        fitted = {r.name for r in self.problem.recordings}
        ends: dict[str, tuple[float, float]] = {}
        for s in (s for t in self.traces if t.path in fitted for s in t.sliding):
            low, high = ends.get(s.name, (0.0, 0.0))
            ends[s.name] = (min(low, s.fastest[0]), max(high, s.fastest[1]))
        return ends

    @cached_property
    def calibrated_problem(self) -> Problem:
        """The problem with torque by the gains found, for predictions."""
        robot, gains = self.problem.robot, self.calibrated.gains
        changed = {
            j: replace(robot.options.of(j), gain=gain / gains[j])
            for j in robot.joints
            if (gain := robot.options.of(j).gain) is not None and j in gains
        }
        if not changed:
            return self.problem.like(bodies=None)
        options = replace(robot.options, joint={**(robot.options.joint or {}), **changed})
        return self.problem.like(robot=replace(robot, options=options), bodies=None)

    @property
    def links(self) -> dict[str, Array]:
        """Ten parameters of each link that carries moving mass, in its own frame."""
        values = self.consistent.parameters.values
        return {
            link.name: values[10 * k : 10 * k + 10]
            for k, link in enumerate(self.problem.robot.bodies_links)
        }

    @property
    def friction(self) -> dict[str, dict[str, float]]:
        """The drives' terms by name, such as `elbow.viscous`, with full and simple friction."""
        first = 10 * len(self.problem.believed.groups)
        labels, values = self.problem.believed.labels, self.consistent.parameters.values
        drives = dict(zip(labels.names[first:], values[first:].tolist(), strict=False))
        rotors = {k: v for k, v in drives.items() if k.endswith(".armature")}
        return {"full": drives, "simple": {**rotors, **self.simple.values}}


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
    problem, settings = opened(robot, logs, settings, progress)
    corner = problem.corner
    held_out = problem.of(validate) if validate else None
    if held_out is not None:
        _ = held_out.resolved, held_out.timelines  # refuse a bad log before the work begins
    run = estimated(problem, settings, given, progress)
    problem, gathered, estimate = run.problem, run.gathered, run.estimate
    progress("solving for physically consistent parameters")
    calibrated = DriveGains(settings.consistent).fit(
        [estimate], problem.believed, gain_spread(problem)
    )
    simple = _simple(problem, gathered, estimate, calibrated)
    progress("looking what else would fit")
    bounds = strict_bounds(
        calibrated.triangle, calibrated.believed, limits=settings.consistent.limits
    )
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
    scored = checks.scores(problem, bodies, found.friction, corner, traces)
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
        again = problem.of(validate)
        held = checks.scores(again, bodies, found.friction, corner, traces).list
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


@dataclass(frozen=True)
class Run:
    """What one experiment's logs say, before anything is believed.

    Attributes:
        problem: Robot and logs, at the corner and delay chosen, with the load on the gears.
        gathered: Information, on the base parameters and the simple friction's stand-ins.
        estimate: Base parameters by least squares, with honest covariance.
        left_out: Rows left out, by log.
        delay: What the search for a delay found.
    """

    problem: Problem
    gathered: Information
    estimate: Estimate
    left_out: Mapping[str, int]
    delay: DelayFound


def opened(
    robot: Robot, logs: Sequence[Recording], settings: Settings, progress: Progress = silent
) -> tuple[Problem, Settings]:
    """Return robot and logs as a problem, and the settings with what is known of the links."""
    if not logs:
        raise InvalidRecording("no log is given", cure="name at least one log after the model file")
    if not len(robot.measured):
        raise InvalidSetting(
            "no joint is left whose torque is measured",
            argument="[joint.NAME] measured, position",
            cure="leave one joint measured, and not held still",
        )
    if robot.options.limits:
        limits = Limits.from_options(robot.options.limits)
        limits.require_known(tuple(k.name for k in robot.bodies_links))
        settings = replace(settings, consistent=replace(settings.consistent, limits=limits))
    if settings.robust != "none" and (settings.weak or settings.smoothing.torque == "filtered"):
        robust.refuse_made_rows()
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    problem = Problem(robot, tuple(logs), settings.smoothing, settings.threads, weak=settings.weak)
    _refuse_dead(problem)
    if settings.average:
        problem = averaged(problem)
    return problem, settings


def estimated(
    problem: Problem, settings: Settings, given: Information | None, progress: Progress = silent
) -> Run:
    """Return what the logs say: corner, delay, load on the gears, outliers, least squares."""
    if not kernel.is_compiled():
        progress("compiling the kernels for this machine, once: about 20 s")
    problem, delay = sharpened_and_delayed(
        problem, settings.smoothing, settings.sharpness, settings.delay, progress
    )
    progress(f"smoothing at {problem.corner:.3g} Hz, summing up rows")
    problem, rows, _ = _loaded(problem, settings)
    shared: list[tuple[Array, ...]] = []  # for each channel, of errors that are no noise
    if settings.smoothing.delay is None:
        delay, moments = settings.delay.refine(problem, delay, rows)
        problem = problem.delayed(delay.delay)
        shared.append(moments)
    # Bodies found without the load are off by some of it, and so the load itself.
    problem, _, rough = _loaded(problem, settings)
    problem, left_out = without_outliers(problem, settings.robust, progress)
    progress("summing up rows with the load on the gears")
    gathered = problem.gathered()
    if given is not None:
        gathered = gathered + given  # the logs' own noise weights the sum
    estimate = settings.least_squares.solve(gathered.only(range(len(problem.labels))))
    estimate = replace(estimate, rank=_shown(problem, gathered, estimate))
    if settings.least_squares.coloured:
        progress("looking at what is left over")
        if rough is not None:
            bodies = _body_spread(problem, rough)
            moments = problem.load_moments(estimate.fitted, bodies)
            counted = zip(moments, estimate.noise.rows, strict=True)
            shared.append(tuple(m * n for m, n in counted))
        shared.append(settings.sharpness.doubt(problem, rows))
        together = tuple(np.vstack(moments) for moments in zip(*shared, strict=True))
        coloured = settings.least_squares.colour(problem, estimate, together)
        estimate = replace(coloured, rank=estimate.rank)
    return Run(problem, gathered, estimate, left_out, delay)


def _refuse_dead(problem: Problem) -> None:
    """Raise `InvalidRecording` for a torque that never changes in any of the logs."""
    channels = problem.robot.channels
    for signal, channel, _ in problem.effort_signals(problem.recordings[0]):
        if all(signal in t.constant for t in problem.timelines):
            raise InvalidRecording(
                f"the log's signal '{signal}' never changes: its sensor is dead, or it was not "
                "recorded",
                argument=problem.recordings[0].name,
                cure=f"if it is not measured, say [joint.{channels[channel]}] measured = false "
                "in the file of --with",
            )


def _body_spread(problem: Problem, rough: ConsistentEstimate) -> Array:
    """Return errors of the bodies of one standard deviation, shape (10 bodies, errors)."""
    covariance = rough.parameters.covariance
    assert covariance is not None
    matrix = problem.robot.link_matrix()
    count = matrix.shape[1]
    values, vectors = np.linalg.eigh(matrix @ covariance[:count, :count] @ matrix.T)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _loaded(problem: Problem, settings: Settings) -> tuple[Problem, int, ConsistentEstimate | None]:
    """Return the problem with the load on the gears, its rows, and the bodies that load them."""
    information = problem.information()
    if not any(t.kind == "load" for _, t in problem.robot.drive_columns):
        return problem, information.rows, None
    first = settings.least_squares.solve(information)
    triangle = first.information.combined(first.weights())
    rough = settings.consistent.fit(triangle, problem.believed)
    loaded = problem.like(bodies=problem.bodies_of(rough.parameters.values))
    return loaded, information.rows, rough


def _shown(problem: Problem, gathered: Information, estimate: Estimate) -> DataRank:
    """Return how much the motion shows of the bodies and of simple friction.

    Friction's dictionary is left out: its columns all but depend on one another, on purpose.
    """
    labels = gathered.labels
    kept = [k for k, n in enumerate(labels.names) if n.partition("[")[0] == n]
    triangle = gathered.only(kept).combined(estimate.weights(worth=False))
    return data_rank(triangle.R, labels.select(kept), triangle.rows)


def gain_spread(problem: Problem) -> dict[str, float]:
    """Return the relative standard deviation of each gain that is stated to be unsure."""
    robot = problem.robot
    spread = {}
    for signal, channel, gain in problem.effort_signals(problem.recordings[0]):
        if signal.startswith("current."):
            stated = robot.options.of(robot.channels[channel]).gain_std
            if stated is not None:
                spread[robot.channels[channel]] = stated / abs(gain)
    return spread


def _simple(
    problem: Problem, gathered: Information, estimate: Estimate, calibrated: Calibrated
) -> SimpleFriction:
    """Return viscous, Coulomb friction and offset, with the bodies and rotors held."""
    robot, believed = problem.robot, problem.believed
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
    positive = [friction.is_nonnegative(columns[k - first][1]) for k in free]
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
        for joint in found.problem.robot.joints
        if f"{joint}.viscous" in simple
    }


def _armatures(found: Identification) -> dict[str, float]:
    full = found.friction["full"]
    joints = found.problem.robot.joints
    return {j: full[f"{j}.armature"] for j in joints if f"{j}.armature" in full}


def _speeds(problem: Problem) -> Array:
    """Return each joint's rms velocity, shape (joints,)."""
    first = len(problem.robot.channels) - len(problem.robot.joints)
    total, rows = np.zeros(len(problem.robot.joints)), 0
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
    first, second = found.problem, found.problem.of(held)
    if any(a is not b for a, b in zip(first.recordings, fit, strict=True)):
        first = first.of(fit)
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
