"""The estimators that are compared: all of the registry, and heft's ways around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.errors import SolverFailure
from heft.estimators import (
    ESTIMATORS,
    DriveGains,
    Estimate,
    Estimator,
    LeastSquares,
    PhysicallyConsistent,
    margin_of,
    nearest_robot,
)
from heft.fit import Settings, fit_experiment, gain_spread, open_experiment
from heft.information import ParameterSpace
from heft.models import Robot
from heft.plants import Problem, RobotPlant
from heft.signals import Smoothing, Weak
from heft.simulation import ClosedLoop

UNKNOWN = "not run: controller unknown"


@dataclass(frozen=True, eq=False)
class Task:
    """Input of a candidate."""

    # logs at the cutoff and delay that heft chooses by default, friction viscous, Coulomb and
    # offset
    problem: Problem[RobotPlant]
    loop: ClosedLoop | None  # the experiment's closed loop; None if its controller is not known
    robot: Robot  # as a user would give it, with heft's own friction


@dataclass(frozen=True, eq=False)
class Found:
    """Estimate of a candidate."""

    values: Array  # β of the task's problem, shape (b,); NaN where it has no such parameter
    std: Array  # their standard deviations, shape (b,)
    plant: RobotPlant  # plant that predicts
    standard: Array  # its parameters, shape (p,)
    # whether such a robot can exist; of base parameters whether any robot that has them can
    physical: bool
    margin: float = float("nan")  # by how much; see `estimators.NearestRobot`. NaN if not known


Candidate = Callable[[Task], Found]


def _based(task: Task, estimator: Estimator, problem: Problem[RobotPlant]) -> Found:
    made = estimator.fit(problem)
    space = problem.space
    values = made.parameters.values
    # What cannot be told is as short as it may be, and does not matter to torque.
    told = np.where(np.isfinite(values), values, made.fitted)
    standard = problem.base.spread(told)
    existence = _existence(told, space)
    return Found(values, made.parameters.std, problem.plant, standard, *existence)


def _existence(fitted: Array, space: ParameterSpace) -> tuple[bool, float]:
    """Return whether any robot with base parameters β can exist, and by what margin."""
    try:
        nearest = nearest_robot(fitted, space)
    except SolverFailure:
        return False, float("nan")
    drives = nearest.values[list(space.nonnegative)]
    return nearest.margin > 0.0 and bool((drives >= 0.0).all()), nearest.margin


def _registered(name: str) -> Candidate:
    def run(task: Task) -> Found:
        method = ESTIMATORS[name]
        estimator = method()
        if method.simulates:
            estimator = replace(estimator, simulate=task.loop)  # type: ignore[type-var]
        return _based(task, estimator, task.problem)

    return run


def _weak_form(task: Task) -> Found:
    return _based(task, LeastSquares(), task.problem.with_settings(weak=Weak()))


def _consistent(task: Task) -> Found:
    problem, space = task.problem, task.problem.space
    estimate = LeastSquares().fit(problem)
    information, weights = estimate.information, estimate.weights()
    scores = estimate.noise.scores(information, list(weights.values()))
    made = PhysicallyConsistent().fit(information.combined(weights), space, scores)
    covariance = made.parameters.covariance
    assert covariance is not None
    std = np.sqrt(np.diag(space.matrix @ covariance @ space.matrix.T))
    standard = problem.plant.space.matrix @ made.parameters.values
    values = made.parameters.values
    margin = margin_of(values, space)
    return Found(space.matrix @ values, std, problem.plant, standard, True, margin)


def _opened(task: Task, settings: Settings = Settings()) -> tuple[Problem[RobotPlant], Settings]:
    settings = replace(settings, threads=task.problem.threads)
    return open_experiment(task.robot, task.problem.recordings, settings)


def _dictionary(task: Task) -> Found:
    run = fit_experiment(*_opened(task))
    return _other_friction(task, run.problem, run.estimate)


def _simple(task: Task) -> Found:
    moving = [j for j in task.robot.joints if j not in task.robot.options.still]
    options = {j: replace(task.robot.options.of(j), friction="simple") for j in moving}
    problem = task.problem
    plant = RobotPlant(task.robot.with_joints(options))
    other = Problem(plant, problem.recordings, problem.resolved, problem.threads)
    return _other_friction(task, other, LeastSquares().fit(other))


def _other_friction(task: Task, problem: Problem[RobotPlant], found: Estimate) -> Found:
    """Return a least-squares estimate with other friction in the task's base parameters."""
    base, covariance = problem.base, found.parameters.covariance
    assert covariance is not None
    known = np.where(np.isfinite(covariance), covariance, 0.0)
    renamed = _renamed(problem.plant, task.problem)
    change = renamed[:, list(base.kept)]
    std = np.sqrt(np.diag(change @ known @ change.T))
    standard = base.spread(found.fitted)
    existence = _existence(found.fitted, problem.space)
    return Found(renamed @ standard, std, problem.plant, standard, *existence)


def _identified(settings: Settings) -> Candidate:
    return lambda task: _default(task, settings)


def _default(task: Task, asked: Settings) -> Found:
    problem, settings = _opened(task, asked)
    run = fit_experiment(problem, settings)
    space = run.problem.space
    first = DriveGains(settings.consistent).fit([run.estimate], space, gain_spread(problem))
    found, _ = run.widened(settings.consistent, settings.jackknife, first)
    size = len(space.labels)
    x, covariance = (
        found.consistent.parameters.values[:size],
        found.consistent.parameters.covariance,
    )
    assert covariance is not None
    plant = run.problem.plant
    change = _renamed(plant, task.problem) @ plant.space.matrix
    std = np.sqrt(np.diag(change @ covariance[:size, :size] @ change.T))
    margin = margin_of(x, space)
    return Found(change @ x, std, plant, plant.space.matrix @ x, True, margin)


def _renamed(plant: RobotPlant, problem: Problem[RobotPlant]) -> Array:
    """Return the matrix from a plant's parameters to β with other friction, whose rows are NaN.

    Shape (b, p).
    """
    places = {name: k for k, name in enumerate(plant.labels.names)}
    bodies = plant.bodies_size
    found = np.zeros((len(problem.labels), len(places)))
    inertial = {f"{d.name}.armature" for d in plant.robot.drives}
    for k, name in enumerate(problem.plant.labels.names):
        if k < bodies or name in inertial:
            found[:, places[name]] = problem.base.matrix[:, k]
        else:
            found[problem.base.matrix[:, k] != 0.0] = np.nan
    return found


# heft's ways beside the estimators of base parameters.
OWN: Mapping[str, tuple[Candidate, str]] = {
    "weak-form": (_weak_form, "least squares of the weak form's windows"),
    "consistent": (_consistent, "least squares, of bodies that can exist"),
    "dictionary": (_dictionary, "least squares with the dictionary of friction that heft has"),
    "simple": (_simple, "least squares with the sign of the velocity for Coulomb friction"),
    "heft": (
        _identified(Settings()),
        "heft identify as it is: friction's dictionary, bodies that can exist",
    ),
    "heft-filtered": (
        _identified(Settings(Smoothing(torque="filtered"))),
        "the same with --torque filtered: rows and torque through one low-pass",
    ),
    "heft-differentiated": (
        _identified(Settings(rows="differentiated")),
        "the same with --rows differentiated",
    ),
}
# The default table: what neither knows the controller nor simulates first.
USUAL = (
    *("heft", "heft-filtered", "heft-differentiated", "dictionary", "simple"),
    *("least-squares", "weak-form", "instrumental", "didim", "output-error"),
)


def names() -> tuple[str, ...]:
    """Return the names of all candidates."""
    return (*OWN, *ESTIMATORS)


def candidate(name: str) -> Candidate:
    """Return a candidate by name."""
    return OWN[name][0] if name in OWN else _registered(name)


def simulates(name: str) -> bool:
    """Return whether a candidate needs the controller."""
    return name in ESTIMATORS and ESTIMATORS[name].simulates


def summary(name: str) -> str:
    """Return what a candidate does."""
    return OWN[name][1] if name in OWN else ESTIMATORS[name].summary
