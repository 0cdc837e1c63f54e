"""Findings of the search for corrections: steps, timing, tool, friction, and what is left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.applications.identification import Limits, Settings, about_first_fit
from heft.certainty import DelayFound, DelaySearch
from heft.errors import HeftError
from heft.information import DataRank, Finding
from heft.models import Robot
from heft.plants import Problem, RobotPlant
from heft.recordings import Recording
from heft.signals import Smoothing

from .corrections import Correction, Told
from .evidence import Evidence
from .hypotheses import Hypotheses
from .judging import Explained, StepEvidence
from .loads import friction_shares, tool
from .mending import corrected
from .settings import DoctorSettings
from .timings import TimingFound, Timings

CONDITION = Limits().condition  # of the motion, as an identification judges it
DESIGN = "heft excite MODEL designs such a motion, and says what it will tell"
NAMED_RIVALS = 3  # other steps that a finding's sentence names


@dataclass(frozen=True)
class Physics:
    """Findings about logs from the robot's equations of motion."""

    robot: Robot  # robot model
    recordings: Sequence[Recording]  # the logs
    evidence: Evidence  # data that were compared
    explained: Explained  # corrections that were found
    timing: TimingFound  # timings of the corrected log
    told: Told  # context of descriptions
    settings: DoctorSettings  # thresholds

    @property
    def is_explained(self) -> bool:
        """Whether the corrections explain most of what is wrong."""
        total, thresholds = self.explained.total, self.settings.physics
        before = self.explained.total_before
        return total < max(thresholds.doubted_share, thresholds.most_left * before)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""
        if self.is_explained:
            for step in self.explained.steps:
                yield self._of_a_step(step)
            yield from self._of_the_timing()
            yield from self._of_the_model()
        yield from self._of_what_is_left()

    def _sure(self, evidence: float, others: Sequence[float]) -> float:
        """Return the probability of a cause, by its evidence and what is left unexplained."""
        thresholds = self.settings.physics
        odds = thresholds.tried_steps * math.exp(-min(evidence, 1000.0) / 2.0)
        odds += sum(math.exp(-max(apart, 0.0) / 2.0) for apart in others)
        return min(1.0 / (1.0 + odds), thresholds.most_sure) * (1.0 - min(self.explained.total, 1))

    def _of_a_step(self, found: StepEvidence) -> Finding:
        told, described = self.told, found.step.describe(self.told)
        rivals = [step.describe(told).what for step, _ in found.others[:NAMED_RIVALS]]
        like = f"; as well explained by: {', '.join(rivals)}" if rivals else ""
        number = {"value": found.step.number} if found.step.number else {}
        return Finding(
            described.name,
            f"{described.what}: with that {found.after:.1%} instead of {found.before:.1%} of the "
            f"torque of '{found.channel}' is not explained{like}",
            about=told.about(found.step.joints),
            severity="spoils",
            evidence={
                "evidence": found.evidence,
                "unexplained_before": found.before,
                "unexplained_after": found.after,
                **number,
            },
            sure=self._sure(found.evidence, [apart for _, apart in found.others]),
            cure=described.cure,
            lines=described.lines,
            others=tuple(
                f"{step.describe(told).name}, {told.about(step.joints)}" for step, _ in found.others
            ),
        )

    def _of_the_timing(self) -> Iterator[Finding]:
        timing, settings = self.timing, self.settings.search.timing
        if Timings(Hypotheses(self.evidence), settings).drifts(timing):
            gain = timing.late.objective - timing.drifting.objective
            yield self._of_a_drift(timing.drifting.correction.timing.drift, gain)
            return
        lag = timing.filtered.correction.timing
        gain = timing.late.objective - timing.filtered.objective
        if lag.order and gain > settings.apart and timing.falls(timing.filtered) < settings.gate:
            yield self._of_a_low_pass(gain)
        elif timing.falls(timing.late) < settings.gate:
            found = self._delay()
            if found is not None and found.delay:
                others = [-gain] if lag.order and gain > -settings.apart else []
                yield self._of_a_delay(found, others)

    def _delay(self) -> DelayFound | None:
        """Return the corrected log's delay as `heft identify` finds it; None if that fails."""
        correction = self.explained.correction
        options = replace(self.robot.options, gravity=correction.gravity)
        mended = tuple(corrected(r, self.robot, correction) for r in self.recordings)
        plant = RobotPlant(replace(self.robot, options=options))
        try:
            problem = Problem(plant, mended, Smoothing(), threads=1)
            return DelaySearch().fit(about_first_fit(problem, Settings()))
        except HeftError:
            return None

    def _of_a_delay(self, found: DelayFound, others: Sequence[float]) -> Finding:
        side = "behind" if found.delay > 0.0 else "ahead of"
        like = "; a low-pass of the torque would explain as much" if others else ""
        gain = self.timing.still.objective - self.timing.late.objective
        return Finding(
            "delay",
            f"torque comes {1e3 * abs(found.delay):.3g} ms {side} motion, by the rule of heft "
            f"identify{like}",
            about="all joints",
            evidence={"value": found.delay, "std_s": found.std, "variance_ratio": found.ratio},
            sure=self._sure(gain, others),
            cure="state the delay, if heft identify does not find it by itself",
            lines={"flag": f"--delay {found.delay:.4g}"},
            others=("low-passed torque, all joints",) if others else (),
        )

    def _of_a_drift(self, drift: float, gain: float) -> Finding:
        side = "falls behind" if drift > 0.0 else "runs ahead of"
        return Finding(
            "drifting clocks",
            f"torque {side} motion by {1e3 * abs(drift):.3g} ms a second",
            about="all joints",
            severity="spoils",
            evidence={"value": drift, "evidence": gain},
            sure=self._sure(gain, []),
            cure="stamp position and torque by one clock, or bring them in time before they are "
            "joined",
        )

    def _of_a_low_pass(self, gain: float) -> Finding:
        lag = self.timing.filtered.correction.timing
        return Finding(
            "low-passed torque",
            f"the torque went through a low-pass of about {lag.corner:.2g} Hz (order {lag.order})",
            about="all joints",
            severity="spoils",
            evidence={"corner_hz": lag.corner, "order": lag.order, "evidence": gain},
            sure=self._sure(gain, []),
            cure="log the torque before the filter, or send the positions through the same",
        )

    def _of_the_model(self) -> Iterator[Finding]:
        thresholds = self.settings.loads
        hypotheses = Hypotheses(self.evidence)
        fit = hypotheses.settle(self._best(), common=False)
        shares = friction_shares(hypotheses, fit)
        if np.max(shares) < thresholds.most_friction and (
            np.median(shares) < thresholds.usual_friction
        ):
            yield Finding(
                "torque without friction",
                f"friction and rotors are {np.max(shares):.1%} of a joint's torque at most: it was "
                "measured behind the gears, or nothing rubs",
                about="all joints",
                severity="tells",
                evidence={"share": float(np.max(shares))},
                cure="links can be identified from it, friction and rotors cannot: log the drives' "
                "torque or current for those",
            )
        found = tool(hypotheses, fit, thresholds)
        if found is not None:
            yield Finding(
                "tool missing",
                f"the last link weighs {found.mass:.2g} kg more than the model file says, which is "
                f"{found.strain:.0f} times as far off as the other links",
                about=self.robot.tree.names[found.body],
                severity="warns",
                evidence={"mass_kg": found.mass, "evidence": found.evidence},
                sure=self._sure(found.evidence, []),
                cure="is there a tool or load that the file does not name? heft identifies it "
                "together with the last link",
            )

    def _best(self) -> Correction:
        """Return the correction with its best timing, or without one if evidence is weak."""
        settings, timing = self.settings.search.timing, self.timing
        gain = timing.still.objective - timing.best.objective
        return (timing.best if gain > settings.evidence else timing.still).correction

    def _of_what_is_left(self) -> Iterator[Finding]:
        thresholds, explained = self.settings.physics, self.explained
        other_robot = explained.total > thresholds.other_robot_share
        names = [self.evidence.robot.joints[c] for c in self.evidence.channels]
        if explained.total > thresholds.doubted_share:
            yield self._of_all_that_is_left(other_robot)
        if other_robot:
            return
        for name, share in zip(names, explained.unexplained.tolist(), strict=True):
            if share > thresholds.other_joint_share:
                yield Finding(
                    "unexplained torque",
                    f"{share:.0%} of its torque is not explained by this robot's motion",
                    about=name,
                    evidence={"share": share},
                    cure="look at what this joint's column holds",
                )

    def _of_all_that_is_left(self, other_robot: bool) -> Finding:
        tried = ""
        if not self.is_explained and self.explained.steps:
            first = self.explained.steps[0].step.describe(self.told)
            tried = f"; nearest comes that {first.what}, which does not explain most of it"
        return Finding(
            "unexplained torque",
            f"{self.explained.total:.0%} of the torque is not explained, whatever is "
            f"corrected{tried}",
            about="all joints",
            severity="spoils" if other_robot else "warns",
            evidence={"share": self.explained.total},
            cure="is it this robot's model file, with its lengths and axes? look at units, order "
            "and signs of all joints",
        )


def of_the_motion(motion: DataRank) -> Iterator[Finding]:
    """Yield findings about the base parameters that a motion excites."""
    weakest = ", ".join(motion.weakest)
    if motion.rank < motion.columns:
        yield Finding(
            "motion shows too little",
            f"it shows {motion.rank} of the bodies' {motion.columns} base parameters",
            severity="spoils",
            evidence={"rank": motion.rank, "columns": motion.columns},
            cure=f"move all joints at once; least is seen of {weakest}; {DESIGN}",
        )
    elif motion.condition > CONDITION.passes:
        spoils = motion.condition > CONDITION.fails
        yield Finding(
            "motion shows little",
            f"condition number {motion.condition:.0f} of the bodies' base parameters",
            severity="spoils" if spoils else "warns",
            evidence={"condition": motion.condition},
            cure=f"move all joints at once, faster and farther; least is seen of {weakest}; "
            f"{DESIGN}",
        )
