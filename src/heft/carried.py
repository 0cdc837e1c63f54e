"""What a robot carries, from its joint torques alone: runs without it against runs with it.

A load fixed to a link is part of the body that the link belongs to, so the runs with it tell of
`β + K p`, the runs without it of β, on the same columns: both kinds are terms of one sum. Of the
load nothing is believed but that it is a body. Where torque is a current times a gain that is not
known, a load of known mass sets the scale, and the gains are found instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from . import inertia
from .errors import InvalidSetting
from .gains import Calibrated, DriveGains
from .identification import Run, Settings, estimated, gain_spread, opened
from .inertia import PARAMETER_COUNT, SYMBOLS, UNITS, Array
from .parameters import Labels
from .plants import Believed, Problem
from .preparation import Progress, silent
from .recording import Recording
from .robot import Robot

NAME = "payload"
GUESS = (1.0, 0.1)  # mass [kg] and radius of gyration [m] that the cone's metric is measured at
EXACT = 1e-3  # relative, of a mass that is known
UNSURE = 0.5  # relative, of a gain that a load of known mass is to find


@dataclass(frozen=True, eq=False)
class Carried:
    """A load as its robot feels it.

    Attributes:
        frame: The link whose frame the load's numbers are in.
        ten: The load's ten parameters in that frame, shape (10,).
        covariance: Of them, shape (10, 10).
        gains: Torque per current by joint [N·m/A], where they were looked for.
        gains_std: Their standard deviations.
        empty, loaded: What the runs said.
        calibrated: The whole fit.
    """

    frame: str
    ten: Array
    covariance: Array
    gains: Mapping[str, float]
    gains_std: Mapping[str, float]
    empty: Run
    loaded: Run
    calibrated: Calibrated

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return float(self.ten[0])

    @property
    def mass_std(self) -> float:
        """Its standard deviation [kg]."""
        return float(np.sqrt(self.covariance[0, 0]))


@dataclass(frozen=True)
class WeighCarried:
    """How a load is weighed by the robot that carries it.

    Attributes:
        frame: The link it is fixed to; the last one of the model file if not given.
        known_mass: Its mass, where the gains are to be found [kg].
        strength: Of the prior from the model file, in effective samples. The file's masses
            must not compete with the load for the scale of the torque: with ten samples and
            masses off by 30 % gains came out a tenth to a third too small.
        settings: Of the identification of each kind of run.
    """

    frame: str | None = None
    known_mass: float | None = None
    strength: float = 0.01
    settings: Settings = Settings()

    def fit(
        self,
        robot: Robot,
        empty: Sequence[Recording],
        loaded: Sequence[Recording],
        progress: Progress = silent,
    ) -> Carried:
        """Return the load.

        Args:
            robot: The model, a guess.
            empty: Logs without the load.
            loaded: Logs with it.
            progress: Told what is being done.

        Raises:
            InvalidSetting: If the frame is not the robot's.
        """
        with threadpool_limits(1, user_api="blas"):  # as for the robot alone
            return self._fit(robot, empty, loaded, progress)

    def _fit(
        self,
        robot: Robot,
        empty: Sequence[Recording],
        loaded: Sequence[Recording],
        progress: Progress,
    ) -> Carried:
        frame = self.frame or last_frame(robot)
        progress("without the load")
        problem, settings = opened(robot, empty, self.settings, progress)
        without = estimated(problem, settings, None, progress)
        progress("with the load")
        # What suits one run suits the other: the same corner and delay.
        smoothing = replace(without.problem.resolved, trim=problem.smoothing.trim)
        problem, settings = opened(robot, loaded, replace(settings, smoothing=smoothing), progress)
        carrying = estimated(problem, settings, None, progress)
        progress("weighing the difference")
        return self._solve(robot, frame, without, carrying, settings)

    def _solve(
        self, robot: Robot, frame: str, empty: Run, loaded: Run, settings: Settings
    ) -> Carried:
        problem = empty.problem
        size = len(problem.labels)
        lifted = load_columns(problem, frame)
        changes = [
            np.hstack([np.eye(size), np.zeros_like(lifted)]),
            np.hstack([np.eye(size), lifted]),
        ]
        believed = with_load(problem.believed)
        solver = replace(settings.consistent, unknown=(NAME,), strength=self.strength)
        spread, known = gain_spread(problem), None
        if self.known_mass is not None:
            spread = dict.fromkeys(currents(problem), UNSURE)
            known = np.zeros((1, size + PARAMETER_COUNT + 1))
            known[0, [size, -1]] = np.array([1.0, self.known_mass]) / (EXACT * self.known_mass)
        found = DriveGains(solver, rounds=20).fit(
            [empty.estimate, loaded.estimate], believed, spread, changes, known
        )
        first = 10 * len(problem.believed.groups)
        ten = slice(first, first + PARAMETER_COUNT)
        covariance = found.consistent.parameters.covariance
        assert covariance is not None
        nominal = currents(problem)
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
        )


def last_frame(robot: Robot) -> str:
    """Return the last link of the model file that moves with the last body: `tool0`, say."""
    moving = [k for k in robot.links if k.body >= 0]
    last = max(k.body for k in moving)
    return [k.name for k in moving if k.body == last][-1]


def currents(problem: Problem) -> dict[str, float]:
    """Return the gain in use of each joint whose torque is a current [N·m/A]."""
    robot = problem.robot
    return {
        robot.channels[channel]: gain
        for signal, channel, gain in problem.effort_signals(problem.recordings[0])
        if signal.startswith("current.")
    }


def carrying(robot: Robot, frame: str) -> tuple[slice, Array]:
    """Return a link's body as columns of the whole, and what states a load there: shape (10, 10).

    Args:
        robot: Whose links.
        frame: The link that the load is fixed to, in whose frame it is stated.

    Raises:
        InvalidSetting: If there is no such link, or it never moves.
    """
    link = next((k for k in robot.links if k.name == frame), None)
    if link is None or link.body < 0:
        raise InvalidSetting(
            f"nothing can be carried by '{frame}'" if link else f"there is no link '{frame}'",
            argument="frame",
            valid=[k.name for k in robot.links if k.body >= 0],
        )
    body = slice(PARAMETER_COUNT * link.body, PARAMETER_COUNT * (link.body + 1))
    return body, inertia.frame_change(link.rotation, link.translation)


def load_columns(problem: Problem, frame: str) -> Array:
    """Return K with `β = β_empty + K p`, shape (b, 10), of a load p; see `carrying`."""
    body, stated = carrying(problem.robot, frame)
    return problem.base.matrix[:, body] @ stated


def with_load(believed: Believed) -> Believed:
    """Return what is believed, with a load of which nothing is, behind the links."""
    first = PARAMETER_COUNT * len(believed.groups)
    labels = believed.labels
    names = (*labels.names[:first], *(f"{NAME}.{s}" for s in SYMBOLS), *labels.names[first:])
    units = (*labels.units[:first], *UNITS, *labels.units[first:])
    rows = len(believed.matrix)
    links, drives = believed.matrix[:, :first], believed.matrix[:, first:]
    none = np.zeros((rows, PARAMETER_COUNT))
    matrix = np.vstack(
        [
            np.hstack([links, none, drives]),
            np.hstack(
                [
                    np.zeros((PARAMETER_COUNT, first)),
                    np.eye(PARAMETER_COUNT),
                    np.zeros((PARAMETER_COUNT, drives.shape[1])),
                ]
            ),
        ]
    )
    nominal = np.concatenate(
        [believed.nominal[:first], inertia.sphere(*GUESS), believed.nominal[first:]]
    )
    return Believed(
        Labels(names, units, labels.frame),
        matrix,
        nominal,
        (*believed.groups, first),
        tuple(k + PARAMETER_COUNT for k in believed.nonnegative),
    )
