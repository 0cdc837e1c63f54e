"""Inertial parameters of a payload from joint torques: runs without it and runs with it.

A payload fixed to a link adds its parameters p to those of that link's body. Runs without it
identify the robot's parameters β, runs with it β + K p, on the same columns; both enter one least
squares. The prior on the payload is physical consistency only. A robot whose base floats weighs by
its joints' torques, by the six equations of its base, or by both; contacts' wrenches that nobody
measures are eliminated in both runs, as `FloatingRobotPlant` has it. Where torques are currents
times unknown gains, a payload of known mass sets the scale, and the gains are estimated as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting
from heft.estimators import ConsistentFit, DriveGains
from heft.fit import (
    ExperimentFit,
    Judged,
    Progress,
    Settings,
    fit_experiment,
    gain_spread,
    open_experiment,
    silent,
    with_told_friction,
)
from heft.information import PARAMETER_COUNT, Check
from heft.models import Robot
from heft.plants import NAME, RobotPlant, currents, last_frame, load_columns, with_load
from heft.recordings import Recording

from .existence import Existence

EXACT = 1e-3  # relative, of a mass that is known
UNSURE = 0.5  # relative, of a gain that a load of known mass is to find


@dataclass(frozen=True, eq=False)
class Carried:
    """Inertial parameters of a payload from joint torques."""

    frame: str  # link in whose frame the parameters are expressed
    ten: Array  # inertial parameters in that frame, shape (10,) [kg, kg·m, kg·m²]
    covariance: Array  # covariance of them, shape (10, 10)
    gains: Mapping[str, float]  # torque per current by joint [N·m/A], where they were estimated
    gains_std: Mapping[str, float]  # their standard deviations [N·m/A]
    # empty, loaded: fits of the runs without and with the payload
    empty: ExperimentFit[RobotPlant]
    loaded: ExperimentFit[RobotPlant]
    calibrated: ConsistentFit  # joint fit of robot, payload and gains
    # those that `heft identify` makes of each of both fits, and whether there can be such a load on
    # such a robot
    checks: tuple[Check, ...]

    @property
    def mass(self) -> float:
        """Mass m [kg]."""
        return float(self.ten[0])

    @property
    def mass_std(self) -> float:
        """Standard deviation of the mass [kg]."""
        return float(np.sqrt(self.covariance[0, 0]))


@dataclass(frozen=True)
class WeighCarried:
    """Identification of a payload's ten inertial parameters π from the robot's joint torques.

    Use it where no wrench sensor carries the payload: it needs runs without it and runs with it.
    """

    # link that it is fixed to; the last one of the model file if not given
    frame: str | None = None
    known_mass: float | None = None  # mass of the payload [kg], if torque gains are to be estimated
    # strength of the prior from the model file, in effective samples. The file's masses must not
    # compete with the payload for the scale of the torque: with ten samples and masses off by 30 %,
    # gains came out a tenth to a third too small
    strength: float = 0.01
    settings: Settings = Settings()  # settings of the identification of each kind of run
    existence: Existence = Existence()  # limits of checks of the load

    def fit(
        self,
        robot: Robot,
        empty: Sequence[Recording],
        loaded: Sequence[Recording],
        progress: Progress = silent,
    ) -> Carried:
        """Identify the payload.

        Returns:
            The payload's parameters, and the gains where they were estimated.

        Raises:
            InvalidSetting: If the frame is not the robot's, or gains are to be found of a robot
                whose base floats.
        """
        _refuse_floating_gains(robot, self.known_mass)
        with one_blas_thread():
            return self._fit(robot, empty, loaded, progress)

    def _fit(
        self,
        robot: Robot,
        empty: Sequence[Recording],
        loaded: Sequence[Recording],
        progress: Progress,
    ) -> Carried:
        frame = self.frame or last_frame(robot)
        robot = with_told_friction(robot)
        progress("without the load")
        problem, settings = open_experiment(robot, empty, self.settings, progress)
        corner = problem.corner
        without = fit_experiment(problem, settings, None, progress)
        progress("with the load")
        # What suits one run suits the other: the same corner and delay.
        smoothing = replace(without.problem.resolved, trim=problem.smoothing.trim)
        problem, settings = open_experiment(
            robot, loaded, replace(settings, smoothing=smoothing), progress
        )
        carrying = fit_experiment(problem, settings, None, progress)
        checks = [
            replace(check, name=f"{check.name}, {which} the load")
            for run, which in ((without, "without"), (carrying, "with"))
            for check in Judged.of(run, run.problem, (), corner, settings).checks
        ]
        progress("weighing the difference")
        return self._solve(frame, without, carrying, settings, checks)

    def _solve(
        self,
        frame: str,
        empty: ExperimentFit[RobotPlant],
        loaded: ExperimentFit[RobotPlant],
        settings: Settings,
        checks: Sequence[Check],
    ) -> Carried:
        problem = empty.problem
        size = len(problem.labels)
        robot, log = problem.plant.robot, problem.recordings[0]
        lifted = load_columns(robot, problem.base, frame)
        changes = [
            np.hstack([np.eye(size), np.zeros_like(lifted)]),
            np.hstack([np.eye(size), lifted]),
        ]
        believed = with_load(problem.space)
        solver = replace(settings.consistent, unknown=(NAME,), strength=self.strength)
        spread, known = gain_spread(problem), None
        if self.known_mass is not None:
            spread = dict.fromkeys(currents(robot, log), UNSURE)
            known = np.zeros((1, size + PARAMETER_COUNT + 1))
            known[0, [size, -1]] = np.array([1.0, self.known_mass]) / (EXACT * self.known_mass)
        found = DriveGains(solver, rounds=20).fit(
            [empty.estimate, loaded.estimate], believed, spread, changes, known
        )
        first = 10 * len(problem.space.groups)
        ten = slice(first, first + PARAMETER_COUNT)
        covariance = found.consistent.parameters.covariance
        assert covariance is not None
        free = solver.unconstrained(found.total, found.space)
        nominal = currents(robot, log)
        gains = {j: nominal[j] / found.gains[j] for j in spread}
        return Carried(
            frame,
            found.consistent.parameters.values[ten],
            covariance[ten, ten],
            gains,
            {j: gains[j] * found.std[j] / found.gains[j] for j in spread},
            empty,
            loaded,
            found,
            (
                *checks,
                *self.existence.of_unit(empty),
                self.existence.of_load(free[ten], covariance[ten, ten]),
            ),
        )


def _refuse_floating_gains(robot: Robot, known_mass: float | None) -> None:
    """Refuse gains of a floating robot: contacts' wrenches are eliminated across its torques."""
    unsure = [j for j in robot.joints if robot.options.of(j).gain_std]
    beside = unsure if robot.options.contact else []
    if robot.tree.free_base and (known_mass is not None or beside):
        stated = known_mass is None
        raise InvalidSetting(
            "with a load gains are found on a fixed base only: what contacts of a floating one "
            "take is eliminated from all joints' torques together, whose gains then no longer "
            "stand apart",
            argument="[joint.NAME] gain_std" if stated else "--known-mass",
            got=", ".join(beside) if stated else None,
            cure="let heft identify find the gains, state them, and leave gain_std out"
            if stated
            else 'hang the robot up or clamp it and say base = "fixed", or leave --known-mass out',
        )
