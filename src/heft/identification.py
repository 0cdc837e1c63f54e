"""The whole way walked once: a model file and logs in, what was found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import checks, export, inertia, kernel
from .checks import Check, Score, Trace, Verdict
from .cone import Limits
from .consistency import ConsistentEstimate, PhysicallyConsistent
from .errors import FitError, InvalidRecording, InvalidSetting, nearest
from .estimators import Estimate, LeastSquares
from .inertia import Array
from .information import Information
from .options import Options
from .plants import Problem
from .recording import ColumnMap, Recording
from .robot import Robot
from .signals import Smoothing
from .tables import file_hash

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Settings:
    """How a robot is identified. The defaults are meant to be right.

    Attributes:
        smoothing: How motion is made smooth.
        least_squares: The base parameters, and the weights of the channels.
        consistent: What goes into the model file.
        threads: How many threads share the work; the result does not depend on it.
    """

    smoothing: Smoothing = Smoothing()
    least_squares: LeastSquares = LeastSquares()
    consistent: PhysicallyConsistent = PhysicallyConsistent()
    threads: int = 2


@dataclass(frozen=True)
class Identification:
    """What was found.

    Attributes:
        problem: What was fitted.
        estimate: The base parameters.
        consistent: What goes into the model file.
        urdf: The model file with new numbers.
        fit: Scores on the logs fitted.
        validation: Scores on logs not fitted.
        checks: What was looked at.
        traces: Curves for the report.
        inputs: The files, with hashes.
        settings: How it was done.
    """

    problem: Problem
    estimate: Estimate
    consistent: ConsistentEstimate
    urdf: bytes
    fit: tuple[Score, ...]
    validation: tuple[Score, ...]
    checks: tuple[Check, ...]
    traces: tuple[Trace, ...]
    inputs: tuple[Mapping[str, Any], ...]
    settings: Settings = field(default_factory=Settings)

    @property
    def verdict(self) -> Verdict:
        """What the checks add up to."""
        return checks.verdict(self.checks)

    @property
    def links(self) -> dict[str, Array]:
        """Ten parameters of each link that carries moving mass, in its own frame."""
        values = self.consistent.parameters.values
        return {
            link.name: values[10 * k : 10 * k + 10]
            for k, link in enumerate(self.problem.robot.bodies_links)
        }

    @property
    def drives(self) -> dict[str, float]:
        """The drives' terms by name, such as `elbow.viscous`."""
        first = 10 * len(self.problem.believed.groups)
        names = self.consistent.parameters.labels.names[first:]
        return dict(zip(names, self.consistent.parameters.values[first:].tolist(), strict=True))


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
    if not logs:
        raise InvalidRecording("no log is given", cure="name at least one log after the model file")
    if robot.options.limits:
        limits = Limits.from_options(robot.options.limits)
        limits.require_known(tuple(k.name for k in robot.bodies_links))
        settings = replace(settings, consistent=replace(settings.consistent, limits=limits))
    problem = Problem(robot, tuple(logs), settings.smoothing, settings.threads)
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    corner = problem.corner
    held_out = problem.of(validate) if validate else None
    if held_out is not None:
        _ = held_out.resolved, held_out.timelines  # refuse a bad log before the work begins
    if not kernel.is_compiled():
        progress("compiling the kernels for this machine, once: about 20 s")
    progress(f"smoothing at {corner:.3g} Hz, summing up rows")
    estimate = _base_estimate(problem, settings.least_squares, given)
    progress("solving for physically consistent parameters")
    triangle = estimate.information.combined(estimate.weights())
    consistent = settings.consistent.fit(triangle, problem.believed)
    found = Identification(
        problem, estimate, consistent, b"", (), (), (), (), tuple(inputs), settings
    )
    urdf = export.write_urdf(robot.source, found.links, _urdf_friction(found))
    # What is scored is what the file says, rounded as it is.
    bodies = Robot.from_urdf_text(urdf, robot.options).written_bodies()
    progress("scoring")
    traces: list[Trace] = []
    fit, left = checks.scores(problem, bodies, found.drives, corner, traces)
    if left > checks.EXPLAINS_NOTHING:
        raise FitError(
            "no parameters explain these torques",
            got=f"{left:.0%} of the torque's variation is left over on the logs fitted themselves",
            cure=checks.CURE,
        )
    held: list[Score] = []
    if held_out is not None:
        held, _ = checks.scores(held_out, bodies, found.drives, corner, traces)
    margin = min((inertia.consistency_margin(v) for v in found.links.values()), default=1.0)
    judged = checks.judge(problem, estimate, fit, held, _speeds(problem), consistent, margin)
    return replace(
        found,
        urdf=urdf,
        fit=tuple(fit),
        validation=tuple(held),
        checks=tuple(judged),
        traces=tuple(traces),
    )


def _base_estimate(problem: Problem, solver: LeastSquares, given: Information | None) -> Estimate:
    estimate = solver.fit(problem)
    if given is None:
        return estimate
    # The logs' own noise weights the sum: the same robot, the same sensors.
    total = estimate.information + given
    again = solver.solve(total)
    noise = replace(again.noise, memory=estimate.noise.memory)
    return replace(again, noise=noise)


def _urdf_friction(found: Identification) -> dict[str, tuple[float, float]]:
    drives = found.drives
    return {
        joint: (drives[f"{joint}.viscous"], drives[f"{joint}.coulomb"])
        for joint in found.problem.robot.joints
        if f"{joint}.viscous" in drives
    }


def _speeds(problem: Problem) -> Array:
    """Return each joint's rms velocity, shape (joints,)."""
    first = len(problem.robot.channels) - len(problem.robot.joints)
    total, rows = np.zeros(len(problem.robot.joints)), 0
    for s in problem.samples():
        total += np.sum(s.motion.velocity[first:] ** 2, axis=1)
        rows += len(s.time)
    return np.asarray(np.sqrt(total / max(rows, 1)))


def describe(
    path: Path, role: str, recording: Recording | None = None, problem: Problem | None = None
) -> dict[str, Any]:
    """Return the entry of an input file in the results."""
    entry: dict[str, Any] = {"path": str(path), "role": role, "sha256": file_hash(path)}
    if recording is not None and problem is not None:
        timeline = problem.timelines[problem.recordings.index(recording)]
        entry |= {
            "samples": timeline.rows,
            "used": timeline.used,
            "duration_s": timeline.duration,
            "step_s": timeline.step,
            "gaps": timeline.gaps,
        }
    return entry


def identify_files(
    urdf: Path,
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
        urdf: The model file.
        logs: CSV, Parquet or NPZ.
        validate: Logs that the fit must not see.
        options: TOML that says what the model file cannot.
        columns: TOML that says what the logs' columns mean.
        given: Folder of earlier results about the same robot.
        settings: How.
        progress: Told what is being done.
    """
    robot = Robot.from_urdf(urdf, Options.from_toml(options) if options else None)
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
        for joint in signal.joints:
            if joint not in robot.joints:
                near = nearest(joint, robot.joints)
                raise InvalidSetting(
                    f"the map names a joint '{joint}', which the robot does not have",
                    argument=f"{columns}, [{signal.kind}]",
                    valid=robot.joints,
                    cure=f"did you mean '{near}'?" if near else None,
                )
    fit = [Recording.open(p, mapping) for p in logs]
    held = [Recording.open(p, mapping) for p in validate]
    before = Information.load(given / "information.npz") if given else None
    found = identify(robot, fit, held, settings, before, (), progress)
    second = found.problem.of(held)
    inputs = [
        describe(urdf, "model"),
        *(describe(p, "options") for p in [options] if p),
        *(describe(p, "columns") for p in [columns] if p),
        *(describe(p / "information.npz", "given") for p in [given] if p),
        *(describe(p, "fit", r, found.problem) for p, r in zip(logs, fit, strict=True)),
        *(describe(p, "validation", r, second) for p, r in zip(validate, held, strict=True)),
    ]
    return replace(found, inputs=tuple(inputs))
