"""What an identification found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from heft.arrays import Array
from heft.display import Trace
from heft.estimators import ConsistentEstimate, ConsistentFit, DelayFound, Estimate, StrictBounds
from heft.information import Check, Information, Verdict, verdict
from heft.plants import Problem, RobotPlant

from .scores import Score
from .settings import Settings


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
        gathered: What all rows say, on the base parameters and on simple friction beside them.
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

    problem: Problem[RobotPlant]
    gathered: Information
    estimate: Estimate
    calibrated: ConsistentFit
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
        return verdict(self.checks)

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
    def calibrated_problem(self) -> Problem[RobotPlant]:
        """The problem with torque by the gains found, for predictions."""
        return with_gains(self.problem, self.calibrated.gains)

    @property
    def links(self) -> dict[str, Array]:
        """Ten parameters of each link that carries moving mass, in its own frame."""
        return link_parameters(self.problem, self.consistent)

    @property
    def friction(self) -> dict[str, dict[str, float]]:
        """The drives' terms by name, such as `elbow.viscous`, with full and simple friction."""
        return drive_terms(self.problem, self.consistent, self.simple)


def with_gains(problem: Problem[RobotPlant], gains: Mapping[str, float]) -> Problem[RobotPlant]:
    """Return a problem with torque by drive gains that were found.

    Args:
        problem: With torque by the gains stated.
        gains: Of each joint the gain stated over the gain found.
    """
    robot = problem.plant.robot
    changed = {
        j: replace(robot.options.of(j), gain=gain / gains[j])
        for j in robot.joints
        if (gain := robot.options.of(j).gain) is not None and j in gains
    }
    if not changed:
        return problem.with_settings(plant=RobotPlant(robot))
    options = replace(robot.options, joint={**(robot.options.joint or {}), **changed})
    return problem.with_settings(plant=RobotPlant(replace(robot, options=options)))


def link_parameters(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate
) -> dict[str, Array]:
    """Return ten parameters of each link that carries moving mass, in its own frame."""
    values = consistent.parameters.values
    return {
        link.name: values[10 * k : 10 * k + 10]
        for k, link in enumerate(problem.plant.robot.bodies_links)
    }


def drive_terms(
    problem: Problem[RobotPlant], consistent: ConsistentEstimate, simple: SimpleFriction
) -> dict[str, dict[str, float]]:
    """Return the drives' terms by name, such as `elbow.viscous`, with full and simple friction."""
    first = 10 * len(problem.space.groups)
    labels, values = problem.space.labels, consistent.parameters.values
    drives = dict(zip(labels.names[first:], values[first:].tolist(), strict=False))
    inertial = problem.plant.robot.drives.names_where(lambda t: t.inertial)
    rotors = {k: v for k, v in drives.items() if k in inertial}
    return {"full": drives, "simple": {**rotors, **simple.values}}
