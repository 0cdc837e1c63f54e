"""Inertial parameters of a payload from joint torques: runs without it and runs with it.

A payload fixed to a link adds its parameters p to those of that link's body. Runs without it
identify the robot's parameters β, runs with it β + K p, on the same columns; both enter one least
squares. Where friction differs between the runs, as of a robot that warmed up, those with the
payload identify β + K p + F δ, of friction of their own. The prior on the payload is physical
consistency only. A robot whose base floats weighs by
its joints' torques, by the six equations of its base, or by both; contacts' wrenches that nobody
measures are eliminated in both runs, as `FloatingRobotPlant` has it. Where torques are currents
times unknown gains, a payload of known mass sets the scale, and the gains are estimated as well.

Least squares with nothing assumed may find a load that no body can be: of negative mass, or with
inertia about where it is not. Noise does so by no more than a few of its own deviations; beyond
that the logs differ by something else than a load. A wrong unit of torque scales load and robot
alike: no body contradicts it, but the masses of the model file do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.applications.doctor import faults
from heft.applications.identification import Difference
from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.errors import InvalidSetting
from heft.estimators import ConsistentFit, DriveGains, PhysicallyConsistent
from heft.fit import (
    SIMPLE_FRICTION,
    UNIT_OF_TORQUE,
    Earlier,
    ExperimentFit,
    Judged,
    Limit,
    Progress,
    Settings,
    fit_experiment,
    friction_columns,
    gain_spread,
    of_friction,
    open_experiment,
    said_of_gains,
    silent,
    with_told_friction,
)
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Check,
    Labels,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)
from heft.models import Robot
from heft.plants import GUESS, NAME, RobotPlant, currents, last_frame, load_columns, with_load
from heft.recordings import Recording

EXACT = 1e-3  # relative, of a mass that is known


def existence(ten: Array, covariance: Array) -> Check:
    """Return the check that a load can be a body; arguments as of `from_bodies`.

    Its limits were chosen on simulated pairs of three arms. Right loads of 0.3 to 5 kg were no
    body's to 1.2 %, their joints' friction a quarter less in the second run, and a UR10e's to 4 %;
    those of exchanged runs to 60 % and more, of a base on the ceiling to 45 % and more.
    """
    # Deviations that noise may carry a load from all bodies: ten normal numbers exceed them once in
    # ten thousand. Share of what differs between the runs, in its deviations, that is no body's.
    noise, limit = 6.0, Limit(0.1, 0.2)

    def share_of_no_body(ten: Array) -> float:
        distance, size = from_bodies(ten, covariance)
        return distance / size if distance > noise else 0.0

    share, other_way = share_of_no_body(ten), share_of_no_body(-ten)
    std = float(np.sqrt(covariance[0, 0]))
    # A friction of each kind of run may take much of what is no body's, not a negative mass.
    value = 1.0 if ten[0] < -noise * std else share
    message = f"{share:.0%} of what differs between the runs is no body's"
    if value > limit.passes:
        message += f": with nothing assumed the load has {ten[0]:.4g} ± {std:.2g} kg; "
        if ten[0] < 0.0 and other_way <= limit.passes:
            message += (
                "the runs seem exchanged, or the torque's sign is turned: the other way round "
                f"it has {-ten[0]:.4g} kg. Give the log without the load first"
            )
        else:
            message += (
                "is the base mounted as the model file has it (else say gravity), the torque "
                "in N·m, of the model's signs, and not without gravity, and does nothing else "
                "differ? heft check LOG --robot MODEL looks for these"
            )
    return Check.at_most("no body", value, limit.passes, limit.fails, message)


def from_bodies(ten: Array, covariance: Array) -> tuple[float, float]:
    """Return the whitened distances of inertial parameters from the nearest body and from zero.

    Args:
        ten: Inertial parameters with nothing assumed, shape (10,) [kg, kg·m, kg·m²].
        covariance: Of them, shape (10, 10); what is certain in it to rounding is not known at all.
    """
    space = ParameterSpace.of_one_body(Labels(SYMBOLS, UNITS), inertia.sphere(*GUESS))
    scale = np.sqrt(np.diag(covariance))
    sizes, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    spread = sizes > 1e-12  # else they differ by rounding alone
    weights = np.where(spread, 1.0 / np.sqrt(np.where(spread, sizes, 1.0)), 0.0)
    root = weights[:, None] * vectors.T / scale
    rows = np.column_stack([root, root @ ten])
    total = Triangle(np.arange(PARAMETER_COUNT), triangle_of(rows), PARAMETER_COUNT)
    # The prior only leaves what is not seen somewhere.
    nearest = PhysicallyConsistent(strength=1e-9, margin=0.0).values(total, space)
    residual = rows[:, :-1] @ nearest - rows[:, -1]
    return float(np.linalg.norm(residual)), float(np.linalg.norm(rows[:, -1]))


@dataclass(frozen=True, eq=False)
class Carried:
    """Inertial parameters of a payload from joint torques."""

    frame: str  # link in whose frame the parameters are expressed
    ten: Array  # inertial parameters in that frame, shape (10,) [kg, kg·m, kg·m²]
    covariance: Array  # covariance of them, shape (10, 10)
    gains: Mapping[str, float]  # torque per current by joint [N·m/A], where they were estimated
    gains_covariance: Array  # covariance of them, in their order [(N·m/A)²]
    # empty, loaded: fits of the runs without and with the payload
    empty: ExperimentFit[RobotPlant]
    loaded: ExperimentFit[RobotPlant]
    calibrated: ConsistentFit  # joint fit of robot, payload and gains
    # those that `heft identify` makes of each of both fits, and whether there can be such a load on
    # such a robot
    checks: tuple[Check, ...]
    # alone, loaded_base: base parameters in the runs with the payload, without and with it, (b,)
    alone: Array
    loaded_base: Array
    notes: tuple[str, ...] = ()  # what is to be known of the answer

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

    def fit(
        self,
        robot: Robot,
        empty: Sequence[Recording],
        loaded: Sequence[Recording],
        progress: Progress = silent,
    ) -> Carried:
        """Identify the payload, and the gains where they are to be estimated.

        Raises:
            InvalidSetting: If the frame is not the robot's, or gains are to be found of a robot
                whose base floats.
        """
        unsure = [j for j in robot.joints if robot.options.of(j).gain_std]
        beside = unsure if robot.options.contact else []
        if robot.tree.free_base and (self.known_mass is not None or beside):
            stated = self.known_mass is None
            raise InvalidSetting(
                "with a load gains are found on a fixed base only: what contacts of a floating one "
                "take is eliminated from all joints' torques together, whose gains then no longer "
                "stand apart",
                argument="[joint.NAME] gain_std" if stated else "--known-mass",
                got=", ".join(beside) if stated else None,
                cure="let heft identify find the gains, state them, and leave gain_std out"
                if stated
                else 'hang the robot up or clamp it and say base = "fixed", or leave --known-mass '
                "out",
            )
        with one_blas_thread():
            frame = self.frame or last_frame(robot)
            robot = with_told_friction(robot)
            progress("without the load")
            problem, settings = open_experiment(robot, empty, self.settings, progress)
            corner = problem.corner
            without = fit_experiment(problem, settings, None, progress)
            progress("with the load")
            # What suits one run suits the other: the same corner and delay.
            smoothing = replace(without.problem.resolved, trim=problem.smoothing.trim)
            settings = replace(settings, smoothing=smoothing)
            problem, settings = open_experiment(robot, loaded, settings, progress)
            carrying = fit_experiment(problem, settings, None, progress)
            sought = self.known_mass is not None or bool(unsure)
            # The load is as wrong as the torque's unit, which only a load that is known tells.
            limits = settings.limits
            strict = replace(limits, unit_of_torque=Limit(*[limits.unit_of_torque.passes] * 2))
            judging = replace(settings, limits=strict)
            checks = [
                replace(check, name=f"{check.name}, {which} the load")
                for run, which in ((without, "without"), (carrying, "with"))
                for check in Judged.of(run, run.problem, (), corner, judging).checks
                # a load is no part of the file
                if check.name != UNIT_OF_TORQUE or (run is without and not sought)
                if check.name != SIMPLE_FRICTION  # no model file is written
            ]
            progress("weighing the difference")
            weighed = self._solve(frame, without, carrying, settings, checks)
            progress("asking the robot's physics what is wrong with the logs")
            carrier = _with_load(robot, frame, weighed.ten)
            judged = {check.name.partition(",")[0] for check in checks}
            faulty = [
                replace(check, name=f"{check.name}, {which} the load")
                for run, model, which in ((without, robot, "without"), (carrying, carrier, "with"))
                for check in faults(run.problem.recordings, model, sought, judged)
            ]
            return replace(weighed, checks=(*weighed.checks, *faulty))

    def _solve(
        self,
        frame: str,
        empty: ExperimentFit[RobotPlant],
        loaded: ExperimentFit[RobotPlant],
        settings: Settings,
        checks: Sequence[Check],
    ) -> Carried:
        problem = empty.problem
        robot, log = problem.plant.robot, problem.recordings[0]
        size = len(problem.labels)
        lifted = load_columns(robot, problem.base, frame)
        spread, mass_row = gain_spread(problem), np.empty((0, size + PARAMETER_COUNT + 1))
        if self.known_mass is not None:
            sought = currents(robot, log)
            # half of a gain is open, where a load of known mass is to find it
            spread = dict(zip(sought, 0.5 * np.eye(len(sought)), strict=True))
            mass_row = np.eye(1, size + PARAMETER_COUNT + 1, size) / (EXACT * self.known_mass)
            mass_row[0, -1] = 1.0 / EXACT
        solver = replace(settings.consistent, unknown=(NAME,), strength=self.strength)

        def fit(changes: Array) -> ConsistentFit:
            """Return the fit, the runs with the load with changes of β besides, shape (b, c)."""
            count = changes.shape[1]
            beside = [np.eye(size), np.zeros_like(lifted), np.zeros_like(changes)]
            space = with_load(problem.space)
            space = space.beside([f"change {k}" for k in range(count)], ["1"] * count)
            rows = np.zeros((count, size + PARAMETER_COUNT + count + 1))
            rows[:, size + PARAMETER_COUNT : -1] = np.eye(count)
            return DriveGains(solver, rounds=20).fit(
                [empty.estimate, loaded.estimate],
                space,
                spread,
                [np.hstack(beside), np.hstack([np.eye(size), lifted, changes])],
                np.vstack([np.insert(mass_row, [-1] * count, 0.0, axis=1), rows]),
            )

        joint = fit(np.empty((size, 0)))
        beta = (joint.space.matrix @ joint.consistent.parameters.values)[:size]
        labels, coarse, fine = friction_columns(problem, beta)
        changes = np.empty((size, 0))
        if labels:
            tried = fit(coarse).consistent.parameters
            assert tried.covariance is not None
            last = slice(len(joint.space.labels), len(joint.space.labels) + len(labels))
            changed = of_friction(labels, tried.values[last], tried.covariance[last, last])
            # Friction shared halves the load's deviation, and moves the load by a hundred of them
            # where friction fell by 38 %.
            if changed is not None:
                joint, changes = fit(fine), fine
                checks = (*checks, changed)
        first = 10 * len(problem.space.groups)
        ten = slice(first, first + PARAMETER_COUNT)
        covariance = joint.consistent.parameters.covariance
        assert covariance is not None
        free = solver.unconstrained(joint.total, joint.space)
        nominal = currents(robot, log)
        gains = {j: nominal[j] / joint.gains[j] for j in spread}
        columns = joint.space.matrix @ joint.consistent.parameters.values
        beta, load, change = np.split(columns, [size, size + PARAMETER_COUNT])
        alone = beta + changes @ change[: changes.shape[1]]
        names, slopes = joint.consistent.parameters.labels.names, np.zeros((len(gains), len(free)))
        for k, j in enumerate(gains):
            if f"{j}.gain" in names:  # else it is known
                slopes[k, names.index(f"{j}.gain")] = gains[j] / joint.gains[j]
        return Carried(
            frame,
            joint.consistent.parameters.values[ten],
            covariance[ten, ten]
            if self.known_mass is not None
            else _widened(covariance[ten, ten], empty, loaded, lifted, changes),
            gains,
            slopes @ covariance @ slopes.T,
            empty,
            loaded,
            joint,
            (*checks, existence(free[ten], covariance[ten, ten])),
            alone,
            alone + lifted @ load,
            tuple(said_of_gains(problem)) if self.known_mass is None else (),
        )


def _widened(
    covariance: Array,
    empty: ExperimentFit[RobotPlant],
    loaded: ExperimentFit[RobotPlant],
    lifted: Array,
    changes: Array,
) -> Array:
    """Return the load's covariance, its deviations at least those that blocks of the logs show.

    The load is the difference between the runs: what no model of friction takes differs from block
    to block as it does between them, and coloured noise alone would state too little.

    Args:
        covariance: With coloured noise, shape (10, 10).
        lifted: Base parameters of a unit of each of the load's ten, shape (b, 10).
        changes: Of friction that is each run's own, shape (b, c).
    """
    size = len(lifted)
    none = (np.zeros((0, size)),) * len(empty.information.channels)
    before, after = (
        Earlier(
            run.information,
            tuple(s.spread(size) for s in run.estimate.noise.factors(run.information)),
            none,
            run.moments or none,
        )
        for run in (empty, loaded)
    )
    sigmas = [run.estimate.noise.sigma for run in (empty, loaded)]
    difference = Difference.of(before, after, np.mean(np.square(sigmas), axis=0) ** -0.5)
    std = (difference.beside(changes) if changes.size else difference).change(lifted).std
    stated = np.sqrt(np.diag(covariance))
    wider = np.where(np.isfinite(std), np.maximum(std, stated), stated) / stated
    return np.asarray(wider[:, None] * covariance * wider)


def _with_load(robot: Robot, frame: str, ten: Array) -> Robot:
    """Return a robot one link of which is believed to hold a load, of parameters in its frame."""
    links = (replace(k, nominal=k.nominal + ten) if k.name == frame else k for k in robot.links)
    return replace(robot, links=tuple(links))
