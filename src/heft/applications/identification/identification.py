"""Identification of a robot from its model and recordings: to estimates, scores and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from heft.applications.doctor import faults
from heft.arrays import Array
from heft.certainty import StrictBounds, strict_bounds
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting
from heft.fit import (
    Alternative,
    Earlier,
    ExperimentFit,
    Judged,
    MisfitMoments,
    Progress,
    Selection,
    Settings,
    drive_terms,
    fit_experiment,
    gain_spread,
    link_parameters,
    open_experiment,
    other_estimates,
    silent,
    steady_evidence,
    why_differentiated,
    with_gains,
    with_told_friction,
)
from heft.information import Information, ParameterSpace
from heft.models import Robot
from heft.plants import Problem, RobotPlant, with_logged_gears
from heft.recordings import Recording


@dataclass(frozen=True, kw_only=True)
class Identification(Judged):
    """Result of identifying a robot: estimates, new model file, scores, checks.

    `heft.write` makes a folder of it, which `Identified` reads again.
    """

    misfit_moments: MisfitMoments  # moments of an effort that comes again under like conditions
    # what these logs say beside friction's steady change, as `steady_evidence` returns it
    steady: Mapping[str, NDArray[Any]]
    # smallest and largest mass [kg] and centre of mass [m] of each link over all physically
    # consistent parameters that fit the data
    bounds: StrictBounds
    inputs: tuple[Mapping[str, Any], ...] = ()  # path, role and SHA-256 of each input file
    # other estimates of the same data, where a method was asked for
    alternatives: tuple[Alternative, ...] = ()
    # why rows are differentiated; None where they are of the weak form
    differentiated: str | None = None
    # what earlier results were not asked about, by names of links, joints or parameters
    anew: tuple[str, ...] = ()

    @property
    def withheld(self) -> str:
        """Why no model file and no friction code are written; empty if they are.

        Logs with a fault that makes the numbers wrong, or numbers that mean nothing.
        """
        limits = self.settings.limits
        wrong = [c.name for c in self.checks if c.is_fault and c.status == "fail"]
        if self.predicted_error.total > limits.predicted_nonsense:
            wrong.append(f"predicted error of {self.predicted_error.total:.3g}")
        numbers, std = self.consistent, self.consistent.parameters.std
        for k, link in enumerate(self.problem.plant.robot.bodies_links):
            seen = link.given and numbers.seen[10 * k] >= limits.seen
            if seen and std[10 * k] > limits.nonsense_deviation * link.nominal[0]:
                wrong.append(f"mass of {link.name} ± {std[10 * k]:.2g} kg")
        return ", ".join(wrong)

    @property
    def fastest(self) -> dict[str, tuple[float, float]]:
        """Fastest sliding backward (≤ 0) and forward (≥ 0) of each drive [rad/s or m/s]."""
        ends: dict[str, tuple[float, float]] = {}
        for s in (s for t in self.traces if t.fitted for s in t.sliding):
            low, high = ends.get(s.name, (0.0, 0.0))
            ends[s.name] = (min(low, s.fastest[0]), max(high, s.fastest[1]))
        return ends

    @cached_property
    def calibrated_problem(self) -> Problem[RobotPlant]:
        """The problem with torques scaled by the identified drive gains, for predictions."""
        return with_gains(self.problem, self.calibrated.gains)

    @property
    def tens(self) -> dict[str, Array]:
        """Ten inertial parameters of each link with mass, in its own frame, shape (10,) each.

        Mass [kg], first moment of mass [kg·m], then inertia about the frame's origin [kg·m²].
        """
        return link_parameters(self.problem, self.consistent)

    @property
    def friction(self) -> dict[str, dict[str, float]]:
        """Parameters of the drives by name, such as `elbow.viscous`, under `full` and `simple`.

        Both hold the rotor inertias.
        """
        return drive_terms(self.problem, self.consistent, self.simple)


def identify(
    robot: Robot,
    logs: Sequence[Recording],
    validate: Sequence[Recording] = (),
    settings: Settings = Settings(),
    given: Earlier | Information | None = None,
    progress: Progress = silent,
    only: Selection | None = None,
    anew: Sequence[str] = (),
) -> Identification:
    """Identify a robot's parameters from recordings; arguments as of `inputs.identify`, opened.

    Raises:
        InputError: If a log or setting is invalid.
        FitError: If the fit explains too little of the torque (`Limits.unexplained`), or a solver
            fails.
    """
    with one_blas_thread():
        robot = with_logged_gears(with_told_friction(robot, given), logs)
        problem, settings = open_experiment(robot, logs, settings, progress, only is None)
        corner = problem.corner
        for recording in validate:  # what cannot be used is refused before the work begins
            _ = problem.held_out(recording).timelines
        given = _forgetting(given, anew, problem)
        run = fit_experiment(problem, settings, given, progress, only)
        # What a selection leaves out scores the fit, and stretches are too short to look at
        # residuals.
        scored = run.problem
        if only is not None:
            scored = scored.with_settings(recordings=problem.recordings)
        judged = Judged.of(run, scored, validate, corner, settings, progress)
        progress("bounding the feasible set")
        bounds = strict_bounds(
            judged.calibrated.total,
            _without_signs_of_dictionary(judged.calibrated.space, robot),
            limits=settings.consistent.limits,
            threads=settings.threads,
        )
        others: tuple[Alternative, ...] = ()
        if settings.method != "least-squares":
            others = other_estimates(
                run.problem,
                run.estimate,
                settings.method,
                judged.consistent,
                judged.validation or judged.fit,
                tuple(validate) or scored.recordings,
                corner,
            )
        differentiated = None
        if run.problem.weak is None:  # windows that were to be made, and are not, were too few
            why = why_differentiated(run.problem.plant, settings, only is None)
            differentiated = why or "since the logs hold too few windows"
        friction = drive_terms(judged.problem, judged.consistent, judged.simple)["full"]
        steady, misfit = (
            ({}, None) if given is not None else steady_evidence(run, friction, settings)
        )
        progress("asking the robot's physics what is wrong with the logs")
        looked = run.problem.recordings
        sought = any(robot.options.of(j).gain_std for j in robot.joints)
        of_logs = faults(looked, robot, sought, {check.name for check in judged.checks})
        return Identification(
            **{**vars(judged), "checks": (*of_logs, *judged.checks)},
            misfit_moments=misfit or _misfit_moments(run, given),
            steady=steady,
            bounds=bounds,
            alternatives=others,
            differentiated=differentiated,
            anew=tuple(anew),
        )


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
    run: ExperimentFit[RobotPlant], given: Earlier | Information | None
) -> MisfitMoments:
    """Return the misfit moments of these logs, with those of earlier ones as far as known."""
    earlier = given.information if isinstance(given, Earlier) else given
    rows = run.information.rows - (earlier.rows if earlier is not None else 0)
    own = MisfitMoments.of(run.problem, run.estimate.fitted, rows)
    own = own.among(len(run.information.channels))
    earlier_misfit = given.seen_from(run.problem)[1].misfit if isinstance(given, Earlier) else None
    return own if earlier_misfit is None else own + earlier_misfit
