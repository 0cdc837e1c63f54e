"""Trials of the benchmark: every candidate on one log, scored against the truth or other logs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft.engine import one_blas_thread
from heft.errors import HeftError
from heft.files import plain
from heft.fit import Settings, sharpened_and_delayed, silent
from heft.models import JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant
from heft.recordings import ColumnMap, Recording
from heft.signals import Smoothing
from heft.simulation import ClosedLoop

from .candidates import UNKNOWN, Found, Task, candidate, simulates
from .experiments import Case, Truth, shared


@dataclass(frozen=True)
class Outcome:
    """Results and times of a trial's candidates."""

    # by candidate: `values` and `std` of β, `error` of other motion's torque, and whether it is
    # `physical` and by what `margin`; or why it `failed`
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of a processor's time, by candidate


def settled(problem: Problem[RobotPlant]) -> Problem[RobotPlant]:
    """Return a problem at the cutoff and delay that `heft identify` would choose."""
    return sharpened_and_delayed(problem, Settings(), silent)[0]


def torque_error(problem: Problem[RobotPlant], found: Found) -> float:
    """Return ‖τ − τ̂‖/‖τ‖ of the logs of a problem, as an estimate predicts them.

    Args:
        problem: Its logs and smoothing are used; its plant is replaced by the estimate's.
    """
    left = whole = 0.0
    scored = Problem(found.plant, problem.recordings, problem.resolved, problem.threads)
    for samples, predicted in scored.predictions(found.standard):
        left += float(np.sum((samples.measured - predicted) ** 2))
        whole += float(np.sum(samples.measured**2))
    return float(np.sqrt(left / whole)) if whole else float("nan")


def _outcome(task: Task, names: Sequence[str], scored: Problem[RobotPlant]) -> Outcome:
    outcome = Outcome()
    for name in names:
        if simulates(name) and task.loop is None:
            outcome.results[name] = {"failed": UNKNOWN}
            continue
        begin = time.process_time()
        try:
            found = candidate(name)(task)
        except (HeftError, np.linalg.LinAlgError) as problem:
            outcome.results[name] = {"failed": str(problem).splitlines()[0]}
        else:
            outcome.results[name] = {
                "values": plain(found.values),
                "std": plain(found.std),
                "error": torque_error(scored, found),
                "physical": found.physical,
                "margin": plain(found.margin),
            }
        outcome.seconds[name] = time.process_time() - begin
    return outcome


def simulated_trial(case: Case, number: int, names: Sequence[str]) -> Outcome:
    """Run candidates on the simulated log of a trial.

    Args:
        number: Selects its noise and its wrong model file.
    """
    case = shared(case)
    with one_blas_thread():
        log, _ = case.log(number)
        robot = case.robot_of(case.guess(number))
        problem = settled(Problem(RobotPlant(robot), (log,), threads=1))
        whole = Robot.from_urdf_text(case.guess(number), path=case.robot)
        task = Task(problem, case.loop(robot, number), whole)
        return _outcome(task, names, case.scored(problem))


def truth_of(case: Case) -> Truth:
    """Return the truth of a case, in the base parameters of its trials."""
    case = shared(case)
    with one_blas_thread():
        robot = case.robot_of(case.arm.urdf)
        log, _ = case.log(0)
        return Truth.of(case, Problem(RobotPlant(robot), (log,), Smoothing(10.0, delay=0.0), 1))


@dataclass(frozen=True)
class RealLogs:
    """Logs of a real robot."""

    model: Path  # its model file
    logs: tuple[Path, ...]  # to fit
    validate: tuple[Path, ...]  # other logs, to score
    options: Path | None = None  # the TOML of `--with`
    columns: Path | None = None  # the TOML of `--map`

    @property
    def name(self) -> str:
        """Name for messages and tables."""
        return self.model.stem

    def trial(self, names: Sequence[str]) -> Outcome:
        """Run candidates on the logs."""
        options = Options.from_toml(self.options) if self.options else None
        robot = Robot.from_file(self.model, options)
        columns = ColumnMap.from_toml(self.columns) if self.columns else None
        fitted, scored = (
            tuple(Recording.open(path, columns, robot.joints) for path in paths)
            for paths in (self.logs, self.validate)
        )
        moving = [j for j in robot.joints if robot.options.of(j).position is None]
        simple = robot.with_joints({j: _simple(robot.options.of(j)) for j in moving})
        with one_blas_thread():
            problem = settled(Problem(RobotPlant(simple), fitted, threads=1))
            task = Task(problem, ClosedLoop.of(simple), robot)
            return _outcome(task, names, problem.with_recordings(scored))


def _simple(options: JointOptions) -> JointOptions:
    dictionary = options.friction in (None, "full")
    return replace(options, friction="simple") if dictionary else options
