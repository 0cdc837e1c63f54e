"""Results of a robot identification, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from heft.arrays import Array
from heft.certainty import DelayFound, StrictBounds
from heft.display import Trace
from heft.estimators import ConsistentEstimate, ConsistentFit, Estimate
from heft.information import Check, Information, Verdict, verdict
from heft.plants import Problem, RobotPlant

from .alternatives import Alternative
from .gains import plain_problem
from .misfit import Misfit
from .misfit_moments import MisfitMoments
from .predicted_error import PredictedError
from .scores import Score
from .settings import Settings
from .simple_friction import SimpleFriction
from .torque_deviation import TorqueDeviation


@dataclass(frozen=True)
class Identification:
    """Result of identifying a robot: estimates, new model file, scores, checks.

    `heft.write` makes a folder of it, which `Identified` reads again.
    """

    # robot, logs and signal settings that were fitted, after all preparation
    problem: Problem[RobotPlant]
    information: Information  # of all rows about the base parameters β, with what was given
    estimate: Estimate  # base parameters β with covariance and residual noise
    # physically consistent parameters π, as in the model file, and drive gains
    calibrated: ConsistentFit
    # D with DᵀD the jackknife covariance of the consistent parameters, shape (blocks, n)
    deviations: Array
    # for each channel the moments `Yᵀ(τ − Y β)` of blocks, shape (blocks, b)
    moments: tuple[Array, ...]
    misfits: Mapping[str, Misfit]  # what the model leaves over of each drive's effort, by drive
    misfit_moments: MisfitMoments  # moments of an effort that comes again under like conditions
    predicted_error: PredictedError  # of torque, on motion of another kind
    # simple friction of what slides in these logs, all other parameters fixed
    simple: SimpleFriction
    # smallest and largest mass [kg] and centre of mass [m] of each link over all physically
    # consistent parameters that fit the data
    bounds: StrictBounds
    left_out: Mapping[str, int]  # number of rows removed as outliers, by log
    delay: DelayFound  # delay of torque behind motion [s], with its search
    # bytes of the model file with identified numbers, by file name; for a table of
    # Denavit-Hartenberg rows also a URDF
    files: Mapping[str, bytes]
    fit: tuple[Score, ...]  # prediction errors on the fitted logs
    validation: tuple[Score, ...]  # prediction errors on the held-out logs
    checks: tuple[Check, ...]  # results of all checks
    traces: tuple[Trace, ...]  # measured and predicted torque over time, for the report
    inputs: tuple[Mapping[str, Any], ...]  # path, role and SHA-256 of each input file
    settings: Settings = field(default_factory=Settings)  # settings of the identification
    notes: tuple[str, ...] = ()  # remarks on the logs, beside those on the robot's model
    # other estimates of the same data, where a method was asked for
    alternatives: tuple[Alternative, ...] = ()
    noise_names: tuple[str, ...] = ()  # name of each channel's standard deviation
    # of each channel whether that deviation eliminated unknowns of each sample
    settled: tuple[bool, ...] = ()
    # why rows are differentiated; None where they are of the weak form
    differentiated: str | None = None
    # what earlier results were not asked about, by names of links, joints or parameters
    anew: tuple[str, ...] = ()

    @property
    def consistent(self) -> ConsistentEstimate:
        """Physically consistent standard parameters π, as written to the model file."""
        return self.calibrated.consistent

    @property
    def verdict(self) -> Verdict:
        """Overall verdict of the checks."""
        return verdict(self.checks)

    @property
    def fastest(self) -> dict[str, tuple[float, float]]:
        """Range of sliding velocity of each drive with friction, on the fitted logs.

        Returns:
            By drive, the largest backward (≤ 0) and forward (≥ 0) velocity [rad/s or m/s].
        """
        fitted = {r.name for r in self.problem.recordings}
        ends: dict[str, tuple[float, float]] = {}
        for s in (s for t in self.traces if t.path in fitted for s in t.sliding):
            low, high = ends.get(s.name, (0.0, 0.0))
            ends[s.name] = (min(low, s.fastest[0]), max(high, s.fastest[1]))
        return ends

    @cached_property
    def calibrated_problem(self) -> Problem[RobotPlant]:
        """The problem with torques scaled by the identified drive gains, for predictions."""
        return with_gains(self.problem, self.calibrated.gains)

    @cached_property
    def deviation(self) -> TorqueDeviation:
        """Parts of the standard deviation of predicted torques."""
        matrix = plain_problem(self.problem).plant.space.matrix
        size = matrix.shape[1]
        return TorqueDeviation(self.deviations[:, :size] @ matrix.T, self.misfits)

    @property
    def links(self) -> dict[str, Array]:
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


def with_gains(problem: Problem[RobotPlant], gains: Mapping[str, float]) -> Problem[RobotPlant]:
    """Return a problem whose torques are scaled by identified drive gains.

    Args:
        problem: Problem with the gains of the options file.
        gains: By joint, the stated gain over the identified gain [1].

    Returns:
        The problem with the identified gains.
    """
    problem, robot = plain_problem(problem), problem.plant.robot
    changed = {
        j: replace(robot.options.of(j), gain=gain / gains[j])
        for j in robot.joints
        if (gain := robot.options.of(j).gain) is not None and j in gains
    }
    if not changed:
        return problem.with_settings(plant=problem.plant.with_robot(robot))
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

    Args:
        consistent: Physically consistent parameters, which include full friction.

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
