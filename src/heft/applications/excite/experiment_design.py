"""`heft excite`: the motion that tells most about a robot, proven to keep all limits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from heft.applications.inputs import Inputs
from heft.arrays import Array
from heft.errors import InfeasibleLimits, InvalidSetting, did_you_mean
from heft.excitation import (
    Certificate,
    Design,
    DesignSettings,
    ExcitationTrajectory,
    PredictedError,
    Progress,
    bounded_motion,
    certify_clearance,
    certify_efforts,
    certify_joints,
    design,
    task_error,
)
from heft.information import BaseParameters
from heft.plants import Problem, structural_base
from heft.recordings import JointTrajectory
from heft.signals import Smoothing

from .planned import CarriedLoad, PlannedExperiment


@dataclass(frozen=True)
class ExciteSettings:
    """Settings of a design of excitation."""

    # of the solver; its criterion and what counts
    design: DesignSettings = DesignSettings(duration=20.0)
    about: tuple[str, ...] = ()  # links or joints whose parameters count; all if empty
    task: Path | None = None  # log of a motion whose torque is to be predicted best; none if None
    columns: Path | None = None  # TOML that says what its columns mean
    rate: float = 100.0  # of the written motion [Hz]
    periods: int = 1  # how often it is repeated
    collisions: bool = True  # whether links keep clear of one another and the room
    # whether the other criterion's motion is designed, too, to tell what a choice costs
    compared: bool = True
    # what the robot carries and is to be told; the robot itself if None
    load: CarriedLoad | None = None
    own_columns: Path | None = None  # Python file of the user's own columns, which is run

    def __post_init__(self) -> None:
        if not (self.rate > 0.0 and self.periods >= 1):
            raise InvalidSetting(
                "a motion is written at a rate above 0 Hz, once or more often",
                argument="rate, periods",
                got=f"{self.rate:g} Hz, {self.periods}",
            )
        if self.periods > 1 and self.design.rest != "both":
            raise InvalidSetting(
                "a motion that is repeated is at rest at both ends",
                argument="periods",
                got=f"rest {self.design.rest}",
            )


@dataclass(frozen=True)
class Prediction:
    """Standard deviation of one base parameter, before and after the motion."""

    expression: str  # the combination of standard parameters
    unit: str  # of it
    before: float  # its standard deviation without the motion; infinite if nothing is known
    after: float  # with it
    counts: bool  # whether the motion was designed for it

    @property
    def falls_to(self) -> float:
        """Ratio of its standard deviation after to that before; 0 if nothing was known."""
        return self.after / self.before if math.isfinite(self.before) else 0.0


@dataclass(frozen=True, eq=False)
class Excited:
    """A designed motion, its certificates and the standard deviations that it gives."""

    planned: PlannedExperiment  # robot, limits, room, and what was known
    settings: ExciteSettings  # of the design
    design: Design  # the solver's result
    trajectory: ExcitationTrajectory  # the motion that is written
    certificates: tuple[Certificate, ...]  # what is proven of it
    other: Design | None  # design by the other criterion; None if not asked for
    # parameters that were asked for and that no motion of these joints can tell
    untold: tuple[str, ...]
    inputs: dict[str, str] = field(default_factory=dict)  # SHA-256 of what it was made of, by role

    @property
    def base(self) -> BaseParameters:
        """Base parameters of the robot with smooth friction."""
        return self.design.base

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """Predictions of the base parameters that are `listed`."""
        made, base = self.design, self.base
        counts = range(base.rank) if made.about is None else made.about
        expressions, units = base.expressions(), base.labels.units
        before, after = made.known_std.tolist(), made.std.tolist()
        return tuple(
            Prediction(expressions[k], units[k], before[k], after[k], k in counts)
            for k in self.listed
        )

    @cached_property
    def listed(self) -> tuple[int, ...]:
        """Indices of base parameters, less the friction dictionary's: only their sum is known."""
        plant, base = self.planned.plant, self.base
        independent = set(plant.independent) if len(plant.redundant) else set()
        return tuple(k for k in range(base.rank) if base.kept[k] not in independent)

    @property
    def time_factor(self) -> float:
        """Factor on the duration of the best random motion at which it would tell as much."""
        count = self.base.rank if self.design.about is None else len(self.design.about)
        return math.exp(self.design.gain / max(count, 1))

    @property
    def tightest(self) -> tuple[Certificate, ...]:
        """The certificate with the least margin of each quantity that is limited."""
        least: dict[str, Certificate] = {}
        for proof in self.certificates:
            kind = proof.quantity.removeprefix("least ")
            if math.isfinite(proof.limit) and (
                kind not in least or proof.margin < least[kind].margin
            ):
                least[kind] = proof
        return tuple(least.values())

    def joint_trajectory(self, rate: float) -> JointTrajectory:
        """Return the motion of all joints, all periods, at a rate [Hz]."""
        planned, moving = self.planned, self.planned.carrier.moving
        time = self.trajectory.times(rate)
        parts = [self.trajectory.derivative(time, k) for k in range(3)]
        motion = np.zeros((3, len(time), len(planned.robot.joints)))
        motion[0] = planned.posture
        motion[:, :, moving] = parts
        again = self.settings.periods - 1
        laps = [time, *(time[1:] + k * self.trajectory.duration for k in range(1, again + 1))]
        rows = np.concatenate([motion, *([motion[:, 1:]] * again)], axis=1)
        return JointTrajectory(planned.robot.joints, np.concatenate(laps), *rows)

    def cost(self) -> str:
        """Return how the other criterion would compare, as a sentence; empty if not known."""
        if self.other is None:
            return ""
        mine, its = self.design, self.other
        nats = mine.log_determinant - its.log_determinant
        chosen = [k for k in self.listed if mine.about is None or k in mine.about]
        chosen = chosen or list(mine.about or ())
        ratio = float(np.exp(np.mean(np.log(its.std[chosen] / mine.std[chosen]))))
        worst = float(its.std[chosen].max() / mine.std[chosen].max())
        return (
            f"By criterion {its.settings.criterion} instead: condition number "
            f"{its.conditions.scaled:.3g} for {mine.conditions.scaled:.3g}, "
            f"{abs(nats):.0f} nats {'less' if nats > 0 else 'more'} information, standard "
            f"deviations {ratio:.2f} times these in the geometric mean, the largest {worst:.2f} "
            "times."
        )


def excite(
    planned: PlannedExperiment,
    settings: ExciteSettings = ExciteSettings(),
    progress: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
) -> Excited:
    """Return the motion that tells most about a robot, proven to keep all limits.

    Args:
        stop: Event that ends the design early, with the best motion so far.

    Raises:
        InfeasibleLimits: If no motion keeps all limits, or none can be proven to.
        InvalidSetting: If a setting fits neither the robot nor the limits.
        InvalidRecording: If the task's log cannot be read.
    """
    base = structural_base(planned.plant)
    robot = planned.robot
    bodies = {k.name: robot.tree.names[k.body] for k in robot.links if k.body >= 0}
    names, untold = counting(base, [bodies.get(n, n) for n in settings.about])
    asked = replace(settings.design, about=names, row_rate=planned.rate)
    limits = planned.limits()

    def report(at: Progress) -> None:
        if at.round % 3 == 1:
            progress(
                f"start {at.start + 1}, round {at.round}: criterion {at.value:.2f}, limits broken "
                f"by {max(at.violation, 0.0):.1%}"
            )

    def designed(by: DesignSettings, task: bool) -> Design:
        return design(
            planned.plant,
            limits,
            by,
            planned.noise,
            planned.known,
            _criterion(planned, settings) if task else None,
            report,
            stop,
        )

    progress("drawing random motions that break no limit")
    made = designed(asked, settings.task is not None)
    what = "log det of the information" if is_information(settings) else "criterion (logarithm)"
    progress(f"{what}: {made.gain:+.3g} over the best of {len(made.random)} random motions")
    other = None
    if settings.compared and not made.interrupted:
        criterion = {"D": "condition"}.get(asked.criterion, "D") if settings.task is None else "D"
        progress(f"designing by criterion {criterion}, to tell what the choice costs")
        other = designed(replace(asked, criterion=criterion, starts=1), False)
    progress("proving that it keeps all limits at all times")
    posture = made.trajectory.basis.constant @ made.trajectory.coefficients
    posture = posture / float(np.sum(made.trajectory.basis.constant))
    trajectory, proofs = certified(made.trajectory, planned, posture)
    made = made.with_trajectory(trajectory)
    return Excited(planned, settings, made, trajectory, proofs, other, untold)


def is_information(settings: ExciteSettings) -> bool:
    """Return whether the criterion is the log-determinant of the information, in nats."""
    return settings.design.criterion == "D" and settings.task is None


def counting(base: BaseParameters, about: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the base parameters that links or joints enter, and what no motion can identify.

    A link's parameters count by the base parameters that are named after it, or, where there are
    none, by those that they are part of.

    Args:
        about: Names of links, joints or parameters; all count if empty.

    Returns:
        Names of base parameters, none for all; and standard parameters without any.

    Raises:
        InvalidSetting: If a name is neither a link, a joint nor a parameter, or if no motion tells
            anything of one.
    """
    standard, leading = base.standard.names, set(base.kept)
    chosen: dict[str, None] = {}
    untold: list[str] = []
    for name in about:
        own = [k for k, n in enumerate(standard) if n == name or n.startswith(f"{name}.")]
        if not own:
            owners = tuple(dict.fromkeys(n.partition(".")[0] for n in standard))
            raise InvalidSetting(
                "no link, joint or parameter of this robot is called so",
                argument="--for",
                got=name,
                valid=owners,
                cure=did_you_mean(name, owners),
            )
        led = [standard[k] for k in own if k in leading]
        parts = [
            standard[base.kept[b]] for b in range(base.rank) if np.any(base.matrix[b, own] != 0.0)
        ]
        if not parts:
            raise InvalidSetting(
                "no motion of these joints tells anything of this",
                argument="--for",
                got=name,
                cure="nothing that is measured depends on it; it needs another joint or sensor",
            )
        chosen |= dict.fromkeys(led or parts)
        untold += [standard[k] for k in own if not np.any(base.matrix[:, k] != 0.0)]
    return tuple(chosen), tuple(untold)


def _criterion(planned: PlannedExperiment, settings: ExciteSettings) -> PredictedError | None:
    if settings.task is None:
        return None
    carrier = planned.carrier
    inputs = Inputs(planned.robot).with_columns(settings.columns).with_logs(log=[settings.task])
    problem = Problem(carrier, inputs.logs["log"], Smoothing(), 2, "predict")
    parts = [
        (s.motion.position.T, s.motion.velocity.T, s.motion.bodies.acceleration.T)
        for s in problem.samples()
    ]
    q, v, a = (np.concatenate(k)[:, carrier.moving] for k in zip(*parts, strict=True))
    return task_error(planned.plant, (q, v, a), planned.noise)


def certified(
    trajectory: ExcitationTrajectory, planned: PlannedExperiment, about: Array
) -> tuple[ExcitationTrajectory, tuple[Certificate, ...]]:
    """Return a motion shrunk until all its limits are proven.

    Args:
        about: Posture that the motion shrinks to, shape (d,) [rad or m].

    Raises:
        InfeasibleLimits: If a limit cannot be proven, with which and when.
    """
    share = 1.0
    for _ in range(12):
        kept = trajectory.shrunk(share, about)
        proofs = _certificates(kept, planned)
        failed = [c for c in proofs if not c.holds]
        if not failed:
            return kept, proofs
        share *= 0.99
    worst = min(failed, key=lambda c: c.margin)
    raise InfeasibleLimits(
        "no motion is written whose limits are not proven",
        argument=f"{worst.quantity} of {worst.of}",
        got=worst.text(),
        cure="give this limit more margin, [motion.margin] or clearance in [motion]",
    )


def _certificates(
    trajectory: ExcitationTrajectory, planned: PlannedExperiment
) -> tuple[Certificate, ...]:
    """Return the certificate of each limit of a motion, for all times."""
    motion = bounded_motion(trajectory, planned.posture, planned.carrier.moving)
    joints = certify_joints(motion, planned.stated)
    efforts = certify_efforts(motion, planned.loads(), planned.stated)
    clearance = planned.clearance
    if clearance is None or not len(clearance.pairs):
        return (*joints, *efforts)
    return (*joints, *efforts, *certify_clearance(motion, clearance))
